package subset

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// WrongSubset is an array that does not hold the best N items, in order, each
	// with its content. Repair reads them anew.
	WrongSubset mongopatterns.ProblemKind = "wrong subset"
	// WrongCount is a count that is not the number of items. Repair counts them.
	WrongCount mongopatterns.ProblemKind = "wrong count"
	// WrongValue is a sum, mean or count of a Value that does not follow from the
	// items. Sums and means of doubles and decimals may differ by a part in 10^9.
	// Repair computes it.
	WrongValue mongopatterns.ProblemKind = "wrong value"
	// NotAdopted is an array with an item that the collection lacks, by _id. Repair
	// leaves the parent: Adopt stores the item, $pull drops it.
	NotAdopted mongopatterns.ProblemKind = "not adopted"
	// Orphan is a parent that does not exist but has items. Repair leaves them:
	// insert the parent and repair, or delete them.
	Orphan mongopatterns.ProblemKind = "orphan"
	// InvalidItem is an item that Add refuses to rank or count and somebody else has
	// stored. It is counted and ranked, and the mean takes its number for 0. Repair
	// leaves it: Update or Delete it, and then repair.
	InvalidItem mongopatterns.ProblemKind = "invalid item"
)

// Check compares every parent with its items and yields what is wrong. Work.Filter
// selects parents; with one, orphans and invalid items are not looked for. What a
// write changed meanwhile is looked at again, in a transaction.
//
// Cost: 2 round trips for each batch of 100 parents, whose items are read by
// the index {parent, order…}, and 3 more if some seem wrong; without a Filter 2 scans
// of the items, and 3 round trips for each batch of Orphans.
func (s *Subset[P, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := s.core
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.parents, work, c.scan(), c.check)}
	if work == nil || work.Filter == nil {
		orphan := mongopatterns.Problem{Pattern: "subset", Kind: Orphan}
		all = append(all, maintain.Orphans(ctx, c.items, c.parents, c.o.ParentField, work, orphan))
		if scan := c.suspicious(); scan.Filter != nil {
			all = append(all, maintain.Check(ctx, c.items, work, scan, c.invalid))
		}
	}
	return fault.Seq("subset: check", maintain.Chain(all...))
}

// scan reads of the parents what follows from their items.
func (c *core) scan() maintain.Scan {
	return maintain.Scan{Projection: included(c.o.inParent()...), BatchSize: 100}
}

func (c *core) check(ctx context.Context, parents []bson.Raw) (problems []mongopatterns.Problem, err error) {
	err = c.inspect(ctx, parents, func(_ context.Context, states []state) error {
		problems = nil
		for _, st := range states {
			problems = append(problems, st.problems...)
		}
		return nil
	})
	return problems, err
}

// A state is what a parent holds and what its items make of that.
type state struct {
	parent   bson.Raw   // its _id and derived fields
	top      []bson.Raw // the best N items
	stats    bson.Raw   // of all items; without any there is no field
	problems []mongopatterns.Problem
	lacking  []bson.RawValue // what its array holds and the collection lacks, by _id
}

func (st state) id() bson.RawValue { return st.parent.Lookup("_id") }

// wrong is the states of the parents that have problems.
func (c *core) wrong(ctx context.Context, parents []bson.Raw) ([]state, error) {
	states, err := c.states(ctx, parents)
	return slices.DeleteFunc(states, func(st state) bool { return len(st.problems) == 0 }), err
}

func (c *core) states(ctx context.Context, parents []bson.Raw) ([]state, error) {
	if len(parents) == 0 {
		return nil, nil
	}
	place, these := map[string]int{}, make(bson.A, len(parents))
	states := make([]state, len(parents))
	for i, doc := range parents {
		states[i].parent = doc
		these[i], place[value.Key(states[i].id())] = states[i].id(), i
	}
	paths := []string{c.o.ParentField}
	for _, v := range c.o.Values {
		paths = append(paths, v.Field)
	}
	pipeline := mongo.Pipeline{expr.D("$match", append(expr.D(c.o.ParentField, expr.Op("$in", these)), c.filter.doc...))}
	if c.keep != nil {
		pipeline = append(pipeline, expr.D("$project", c.projection(paths...)))
	}
	opts := options.Aggregate().SetBatchSize(int32(len(these) + 1))
	for group, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.items).Aggregate(ctx, append(pipeline, c.statistics()), opts)
	}) {
		if err != nil {
			return nil, err
		}
		if i, ok := place[value.Key(group.Lookup("_id"))]; ok {
			states[i].stats = group
			for _, v := range elements(group.Lookup("top")) {
				states[i].top = append(states[i].top, v.Document())
			}
		}
	}
	for i := range states {
		states[i].problems = c.problems(states[i])
	}
	return states, nil
}

// statistics adds up the items of each parent, and finds the best.
func (c *core) statistics() bson.D {
	group := expr.D("_id", expr.Field(c.o.ParentField), "n0", expr.Op("$sum", 1),
		"top", expr.Op("$topN", expr.D("n", c.o.N, "sortBy", c.o.Order, "output", "$$ROOT")))
	for i, v := range c.o.Values {
		number, usable := expr.Field(v.Field), usable(v.Field)
		group = append(group,
			expr.Element(fmt.Sprintf("s%d", i), expr.Op("$sum", expr.Cond(usable, number, 0))),
			expr.Element(fmt.Sprintf("c%d", i), expr.Op("$sum", expr.Cond(usable, 1, 0))),
			expr.Element(fmt.Sprintf("a%d", i), expr.Op("$sum", expr.Cond(usable, // $abs refuses the smallest int64
				expr.Cond(expr.Op("$gte", number, 0), number, expr.Op("$subtract", 0.0, number)), 0))))
	}
	return expr.D("$group", group)
}

// usable is the expression whether a finite number stands at a path.
func usable(path string) bson.D {
	v := expr.Field(path)
	return expr.Op("$and", expr.Op("$isNumber", v), expr.Op("$gt", v, math.Inf(-1)), expr.Op("$lt", v, math.Inf(1)))
}

// elements are those of an array, none of anything else.
func elements(array bson.RawValue) []bson.RawValue {
	raw, _ := array.ArrayOK()
	values, _ := raw.Values()
	return values
}

// inspect reads the parents that seem to have problems again with their items, in one
// snapshot, and has do look at those that have some, in the same transaction.
func (c *core) inspect(ctx context.Context, parents []bson.Raw, do func(context.Context, []state) error) error {
	suspects, err := c.wrong(ctx, parents)
	if err != nil || len(suspects) == 0 {
		return err
	}
	these := make(bson.A, len(suspects))
	for i, st := range suspects {
		these[i] = st.id()
	}
	return c.run(ctx, func(ctx context.Context) error {
		parents, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.parents.Find(ctx, expr.D("_id", expr.Op("$in", these)), options.Find().SetProjection(c.scan().Projection).
				SetSort(expr.D("_id", 1)).SetBatchSize(int32(len(these)+1)))
		}))
		if err != nil {
			return err
		}
		states, err := c.wrong(ctx, parents)
		if err == nil {
			err = c.lacking(ctx, states)
		}
		if err != nil {
			return err
		}
		return do(ctx, states)
	})
}

// lacking finds the parents whose arrays hold items that the collection lacks, and
// makes that their problem. Only arrays that are wrong can.
func (c *core) lacking(ctx context.Context, states []state) error {
	var all []held
	arrays := make([][]bson.RawValue, len(states))
	for i, st := range states {
		if st.problems[0].Kind == WrongSubset {
			arrays[i] = elements(value.Lookup(st.parent, c.o.ArrayField))
		}
		for _, v := range arrays[i] {
			doc, _ := v.DocumentOK()
			all = append(all, held{st.id(), doc.Lookup("_id")})
		}
	}
	there, err := c.among(ctx, all)
	if err != nil {
		return err
	}
	for i := range states {
		st := &states[i]
		for n, v := range arrays[i] {
			if h := all[n]; !there[h.key()] {
				st.lacking = append(st.lacking, v)
				st.problems[0].Kind = NotAdopted
				st.problems[0].Detail = fmt.Sprintf("the collection lacks %d of its items, the last with the _id %s",
					len(st.lacking), value.Text(h.id))
			}
		}
		all = all[len(arrays[i]):]
	}
	return nil
}

func (c *core) problems(st state) []mongopatterns.Problem {
	var out []mongopatterns.Problem
	report := func(kind mongopatterns.ProblemKind, field string, want bson.RawValue) {
		out = append(out, mongopatterns.Problem{Pattern: "subset", Kind: kind, Collection: c.parents.Name(), ID: st.id(),
			Field: field, Have: value.Lookup(st.parent, field), Want: want})
	}
	have, want := value.Lookup(st.parent, c.o.ArrayField), raw(c.arranged(st.top))
	if !have.Equal(want) && !(len(st.top) == 0 && (have.IsZero() || have.Type == bson.TypeNull)) {
		report(WrongSubset, c.o.ArrayField, want)
		out[0].Detail = fmt.Sprintf("%d of %d items", len(elements(have)), len(st.top))
	}
	for _, d := range c.derived(st.stats) {
		have := value.Lookup(st.parent, d.path)
		if !d.vast && (d.mean && have.IsZero() != d.want.IsZero() || !agree(have, number(d.want), d.magnitude)) {
			report(d.kind, d.path, d.want)
		}
	}
	return out
}

// A derived number of a parent follows from its items.
type derived struct {
	path      string
	kind      mongopatterns.ProblemKind
	want      bson.RawValue // of a mean without numbers: none
	magnitude *big.Rat      // of what was added up; nil for what is exact
	mean      bool
	vast      bool // it is beyond what a double holds
}

func (c *core) derived(stats bson.Raw) []derived {
	stat := func(name string, i int) bson.RawValue { return number(stats.Lookup(fmt.Sprint(name, i))) }
	out := []derived{{path: c.o.CountField, kind: WrongCount, want: stat("n", 0)}}
	for i, v := range c.o.Values {
		count := out[0].want
		sum := derived{path: v.Sum, kind: WrongValue, want: stat("s", i), magnitude: value.Number(stat("a", i))}
		sum.vast = sum.magnitude == nil
		out = append(out, sum)
		if v.Count != "" {
			count = stat("c", i)
			out = append(out, derived{path: v.Count, kind: WrongValue, want: count})
		}
		mean := derived{path: v.Mean, kind: WrongValue, mean: true, vast: sum.vast}
		if n := value.Number(count); n.Sign() > 0 && !sum.vast {
			f, _ := new(big.Rat).Quo(value.Number(sum.want), n).Float64()
			mean.want, mean.magnitude = raw(f), new(big.Rat).Quo(sum.magnitude, n)
		}
		if v.Mean != "" {
			out = append(out, mean)
		}
	}
	return out
}

func raw(v any) bson.RawValue {
	kind, data, _ := bson.MarshalValue(v) // of values that were BSON before
	return bson.RawValue{Type: kind, Value: data}
}

// number is a statistic, 0 for none.
func number(v bson.RawValue) bson.RawValue {
	if v.IsZero() {
		return raw(int32(0))
	}
	return v
}

// agree compares numbers, a missing one as 0: up to a part in 10^9 of the magnitude
// of what was added up, unless that is nil or all are ints.
func agree(have, want bson.RawValue, magnitude *big.Rat) bool {
	have = number(have)
	h, w := value.Number(have), value.Number(want)
	if h == nil || w == nil {
		return have.Equal(want)
	}
	isInt := func(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }
	if magnitude == nil || isInt(want) && isInt(have) {
		return h.Cmp(w) == 0
	}
	difference := new(big.Rat).Sub(h, w)
	return difference.Abs(difference).Cmp(new(big.Rat).Mul(magnitude, big.NewRat(1, 1e9))) <= 0
}

// suspicious selects the items that Add might refuse; no filter if it refuses none.
func (c *core) suspicious() (scan maintain.Scan) {
	paths, or := append([]string{c.o.ParentField, fieldTouch}, c.single...), bson.A{}
	for _, path := range c.single {
		or = append(or, expr.Op("$isArray", expr.Field(path)))
	}
	for _, v := range c.o.Values {
		if v.Count == "" {
			paths, or = append(paths, v.Field), append(or, expr.Op("$not", usable(v.Field)))
		}
	}
	if len(or) > 1 { // more than _id
		scan = maintain.Scan{Filter: expr.D("$expr", expr.D("$or", or)), Projection: included(paths...)}
	}
	return scan
}

// invalid finds the items that Add refuses.
func (c *core) invalid(_ context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, _ error) {
	for _, doc := range batch {
		if field, why := c.defect(doc); field != "" {
			problems = append(problems, mongopatterns.Problem{Pattern: "subset", Kind: InvalidItem, Collection: c.items.Name(),
				ID: doc.Lookup("_id"), Field: field, Have: value.Lookup(doc, field), Detail: why + " it"})
		}
	}
	return problems, nil
}
