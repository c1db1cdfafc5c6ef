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
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// WrongSubset is an array that does not hold the best N items in order. Repair reads
	// them anew.
	WrongSubset mongopatterns.ProblemKind = "wrong subset"
	// Edited is an array with an item that has other content than in the collection, as old
	// code leaves it that edits items in the array. Adopt leaves the array, and counts the
	// parent as Remaining; Repair takes the collection as the truth. To keep the edit, Update
	// the item accordingly.
	Edited mongopatterns.ProblemKind = "edited"
	// Pulled is an array that lacks one of the best N, as old code leaves it that pulls items
	// out of the array; or N was raised. Adopt and Repair do as with Edited. To keep it out,
	// Delete the item.
	Pulled mongopatterns.ProblemKind = "pulled"
	// Malformed is a parent with another value in the place of the array, of a number or of
	// the document around them. Adopt and Repair leave the parent, and count it as Failed.
	Malformed mongopatterns.ProblemKind = "malformed"
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
// Cost: 1 round trip, and 2 for each batch of 100 parents, whose items are read by
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
	return fault.Seq("subset: check", collation.Seq(ctx, maintain.Chain(all...), c.parents, c.items))
}

// scan reads of the parents what follows from their items.
func (c *core) scan() maintain.Scan {
	return maintain.Scan{Projection: included(c.o.inParent()...), BatchSize: 100}
}

func (c *core) check(ctx context.Context, parents []bson.Raw) (problems []mongopatterns.Problem, err error) {
	err = c.inspect(ctx, parents, func(ctx context.Context, these bson.A) error {
		return c.run(ctx, func(ctx context.Context) error {
			problems = nil
			states, err := c.suspects(ctx, these, nil)
			for _, st := range states {
				problems = append(problems, st.problems...)
			}
			return err
		})
	})
	return problems, err
}

// A state is what a parent holds and what its items make of that.
type state struct {
	parent   bson.Raw   // its _id and derived fields
	top      []bson.Raw // the best N items
	stats    bson.Raw   // of all items; without any there is no field
	problems []mongopatterns.Problem
	wrong    bool   // the array is, or a write has just taken elements out of it
	held     []held // the elements of a wrong array, and those taken out
	lacking  []held // those of them that the collection lacks, by _id
	edited   []held // those that have other content there
	moved    []item // of the lacking ones, by their place there; those that stand twice have no doc
}

func (st state) id() bson.RawValue { return st.parent.Lookup("_id") }

// wrongArray reports whether the first problem is the array.
func (st state) wrongArray() bool {
	return len(st.problems) > 0 && st.problems[0].Kind == WrongSubset
}

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

// inspect has do look again at the parents that seem to have problems.
func (c *core) inspect(ctx context.Context, parents []bson.Raw, do func(ctx context.Context, these bson.A) error) error {
	suspects, err := c.wrong(ctx, parents)
	if err != nil || len(suspects) == 0 {
		return err
	}
	these := make(bson.A, len(suspects))
	for i, st := range suspects {
		these[i] = st.id()
	}
	return do(ctx, these)
}

// suspects reads parents with their items, in the transaction's snapshot: the states of those
// that have problems. Taken is what a write has taken out of the array of the one parent,
// whose state it then is in any case.
func (c *core) suspects(ctx context.Context, these bson.A, taken []held) ([]state, error) {
	parents, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.parents.Find(ctx, expr.D("_id", expr.Op("$in", these)), options.Find().SetProjection(c.scan().Projection).
			SetSort(expr.D("_id", 1)).SetBatchSize(int32(len(these)+1)))
	}))
	if err != nil {
		return nil, err
	}
	states, err := c.states(ctx, parents)
	if err != nil {
		return nil, err
	}
	if len(taken) == 0 {
		states = slices.DeleteFunc(states, func(st state) bool { return len(st.problems) == 0 })
	}
	for i := range states {
		states[i].held = slices.Clone(taken)
	}
	return states, c.compare(ctx, states)
}

// compare finds in the arrays what the collection lacks, or has with other content, and
// makes that their problem. Only arrays that are wrong can hold some.
func (c *core) compare(ctx context.Context, states []state) error {
	var all []held
	for i := range states {
		st := &states[i]
		if st.wrong = st.wrongArray() || len(st.held) > 0; st.wrong {
			for at, v := range elements(value.Lookup(st.parent, c.o.ArrayField)) {
				st.held = append(st.held, held{st.id(), v, at})
			}
		}
		all = append(all, st.held...)
	}
	places, edited := map[string][]int{}, make([]bool, len(all))
	for i, h := range all {
		places[h.key()] = append(places[h.key()], i)
	}
	there, err := c.among(ctx, all, bson.D{}, func(doc bson.Raw, key string) {
		for _, i := range places[key] {
			item, _ := all[i].item.DocumentOK()
			edited[i] = !c.covers(item, c.cut(doc)) || !c.covers(doc, item)
		}
	})
	if err != nil {
		return err
	}
	for i := range states {
		st := &states[i]
		for n, h := range st.held {
			switch {
			case !there[h.key()]:
				st.lacking = append(st.lacking, h)
			case edited[n]:
				st.edited = append(st.edited, h)
			}
		}
		edited = edited[len(st.held):]
		if !st.wrongArray() {
			continue
		}
		p := &st.problems[0]
		if n := len(st.lacking); n > 0 {
			p.Kind = NotAdopted
			p.Detail = fmt.Sprintf("the collection lacks %d of its items, the last with the _id %s", n, value.Text(st.lacking[n-1].id()))
		} else if n := len(st.edited); n > 0 {
			p.Kind = Edited
			p.Detail = fmt.Sprintf("%d of its items differ from the collection's, the last with the _id %s", n, value.Text(st.edited[n-1].id()))
		} else if pulled := c.pulled(*st); len(pulled) > 0 {
			p.Kind = Pulled
			p.Detail = fmt.Sprintf("it lacks %d of the best items, the last with the _id %s", len(pulled), value.Text(pulled[len(pulled)-1]))
		}
	}
	return nil
}

// covers reports whether a document has all fields of another, but for the parent's, which
// no array needs.
func (c *core) covers(doc, part bson.Raw) bool {
	elements, _ := part.Elements()
	return !slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		return e.Key() != c.o.ParentField && value.Key(doc.Lookup(e.Key())) != value.Key(e.Value())
	})
}

// pulled are the _ids of the best items that an array lacks, if it held them: if the items
// of the parent were counted.
func (c *core) pulled(st state) (out []bson.RawValue) {
	if count := value.Lookup(st.parent, c.o.CountField); !st.wrong || !(parent{count: count}).counted() ||
		value.Lookup(st.parent, c.o.ArrayField).Type != bson.TypeArray {
		return nil
	}
	there := map[string]bool{}
	for _, h := range st.held {
		there[h.key()] = true
	}
	for _, doc := range st.top {
		if id := doc.Lookup("_id"); !there[itemKey(st.id(), id)] {
			out = append(out, id)
		}
	}
	return out
}

// malformed is the field of a parent where another value stands than this package stores, and
// what it is not. It is not ours to overwrite.
func (c *core) malformed(parent bson.Raw) (field, detail string) {
	is := func(path string, kinds ...bson.Type) bool {
		kind := value.Lookup(parent, path).Type
		return kind == 0 || kind == bson.TypeNull || slices.Contains(kinds, kind)
	}
	for _, path := range c.around {
		if !is(path, bson.TypeEmbeddedDocument) {
			return path, "not a document"
		}
	}
	if !is(c.o.ArrayField, bson.TypeArray) {
		return c.o.ArrayField, "not an array"
	}
	for _, path := range c.o.inParent() {
		if kind := value.Lookup(parent, path).Type; path != c.o.ArrayField && (kind == bson.TypeEmbeddedDocument || kind == bson.TypeArray) {
			return path, "not a number"
		}
	}
	return "", ""
}

func (c *core) problems(st state) []mongopatterns.Problem {
	var out []mongopatterns.Problem
	report := func(kind mongopatterns.ProblemKind, field string, want bson.RawValue) {
		out = append(out, mongopatterns.Problem{Pattern: "subset", Kind: kind, Collection: c.parents.Name(), ID: st.id(),
			Field: field, Have: value.Lookup(st.parent, field), Want: want})
	}
	if field, detail := c.malformed(st.parent); field != "" {
		report(Malformed, field, bson.RawValue{})
		out[0].Detail = detail
		return out
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
