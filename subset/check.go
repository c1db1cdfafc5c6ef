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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds.
const (
	// WrongSubset: an array does not hold the best N items in order. Repair reads them anew.
	WrongSubset mongopatterns.ProblemKind = "wrong subset"
	// Pulled: an array lacks one of the best N, because old code pulls items from the array, or
	// because N was raised. Adopt and Repair do the same as for Edited. To keep the item out,
	// Delete it.
	Pulled mongopatterns.ProblemKind = "pulled"
)

// Check compares every parent with its items and yields the differences. Work.Filter selects
// parents; with a filter Check does not look for orphans and invalid items. Differences that a
// write may have caused meanwhile are checked again, in a transaction. If T is not a struct and no
// item has a field of Options.Sort, Check yields a Malformed problem without an ID, because the
// field's name is probably misspelt.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the
// collections.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Edited: an item in an array has other content than in the collection, because old code edits items in
//     the array. Adopt leaves the array alone, and counts the parent as Remaining; Repair takes the collection
//     as the truth. To keep the edit, Update the item accordingly.
//   - Malformed, of a parent: it has a value of another type in place of the array, a number, or a
//     document around them. Adopt and Repair leave the parent alone, and count it as Failed.
//   - Malformed, of an item: other code has stored it, and Insert would refuse it because it cannot be ranked or
//     counted. It is counted and ranked, and the mean takes its number as 0. Repair leaves it alone, so Update
//     or Delete it, and then repair. An item with too many levels is found only among the best N. Until it is
//     gone, Repair counts its parent as Failed, and a write that would bring it into the array is refused.
//   - WrongField: a count differs from the number of items, or a sum, mean or count of a Value does not follow
//     from them. Sums and means of doubles and decimals may differ by a part in 10^9 of the sum, or mean, of
//     the absolute numbers. Repair computes it.
//   - NotAdopted: an array holds an item that the collection lacks, by _id. Repair leaves the parent alone:
//     run Adopt to store the item, or $pull it.
//   - Orphan: items whose parent does not exist. Repair leaves them alone, so insert the parent and repair,
//     or delete the items.
//
// Cost: 1 round trip, and 2 for each batch of 100 parents, whose items are read by the index {parent, order…}.
//   - A batch in which some seem wrong: 3 more.
//   - Without a Filter: 2 scans of the items, and 3 round trips for each batch of Orphans.
//   - If T is not a struct: 1 for each field of Sort.
func (s *Subset[ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "subset.Check")
	c := s.core
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.parents, work, c.scan(), c.check)}
	if work == nil || work.Filter == nil {
		orphan := mongopatterns.Problem{Pattern: "subset", Kind: mongopatterns.Orphan}
		all = append(all, maintain.Orphans(ctx, c.items, c.parents, c.o.ParentField, work, orphan))
		all = append(all, maintain.Absent(ctx, c.items, work, "subset", c.named...))
		if scan := c.suspicious(); scan.Filter != nil {
			all = append(all, maintain.Check(ctx, c.items, work, scan, c.invalid))
		}
	}
	return fault.Seq("subset.Check", collation.Seq(ctx, maintain.Chain(all...), c.parents, c.items))
}

// scan reads the fields of the parents that follow from their items.
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

// A state is what a parent holds, and what it should hold by its items.
type state struct {
	parent   bson.Raw   // its _id and derived fields
	top      []bson.Raw // the best N items
	stats    bson.Raw   // of all items; its fields are missing without items
	problems []mongopatterns.Problem
	compared bool      // the array is wrong, or a write has just pushed elements out of it: see compare
	elements []element // those of a compared array, and those pushed out
	unstored []element // those of elements that the collection lacks, by _id
	edited   []element // those of elements with other content in the collection
	inserts  []item    // what Adopt inserts for unstored, at the same index; those that stand twice have no doc
}

func (st state) id() bson.RawValue { return st.parent.Lookup("_id") }

// wrongArray reports whether the first problem is a WrongSubset.
func (st state) wrongArray() bool {
	return len(st.problems) > 0 && st.problems[0].Kind == WrongSubset
}

// withProblems returns the states of the parents that have problems.
func (c *core) withProblems(ctx context.Context, parents []bson.Raw) ([]state, error) {
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
	top := expr.Op("$topN", expr.D("n", c.o.N, "sortBy", c.o.Sort, "output", "$$ROOT"))
	for group, err := range c.groups(ctx, these, expr.Element("top", top)) {
		if err != nil {
			return nil, err
		}
		if i, ok := place[value.Key(group.Lookup("_id"))]; ok {
			states[i].stats = group
			for _, v := range value.Values(group.Lookup("top")) {
				states[i].top = append(states[i].top, v.Document())
			}
		}
	}
	for i := range states {
		states[i].problems = c.problems(states[i])
	}
	return states, nil
}

// groups adds up the items of each parent.
func (c *core) groups(ctx context.Context, parents bson.A, more ...bson.E) iter.Seq2[bson.Raw, error] {
	group, paths := expr.D("_id", expr.Field(c.o.ParentField), "n0", expr.Op("$sum", 1)), []string{c.o.ParentField}
	for i, v := range c.o.Values {
		paths = append(paths, v.Field)
		for name, of := range statistics(v.Field) {
			group = append(group, expr.Element(fmt.Sprint(name, i), of))
		}
	}
	pipeline := mongo.Pipeline{expr.D("$match", append(expr.D(c.o.ParentField, expr.Op("$in", parents)), c.filter.doc...))}
	if c.keep != nil {
		pipeline = append(pipeline, expr.D("$project", c.projection(paths...)))
	}
	pipeline = append(pipeline, expr.D("$group", append(group, more...)))
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.items).Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(int32(len(parents)+1)))
	})
}

// statistics are accumulators of the finite numbers at a path. The server adds up ints and decimals as decimals, and
// doubles apart from these, because sums of several types depend on its version. The scaled sums are for those that
// exceed their type on the way.
func statistics(path string) iter.Seq2[string, bson.D] {
	v := expr.Field(path)
	double := expr.Op("$and", usable(path), expr.IsType(v, "double"))
	other := expr.Op("$and", usable(path), expr.Op("$not", expr.IsType(v, "double")))
	sum := func(test, number any) bson.D { return expr.Op("$sum", expr.Cond(test, number, 0)) }
	return func(yield func(string, bson.D) bool) {
		_ = yield("c", sum(usable(path), 1)) &&
			yield("t", expr.Op("$max", expr.Cond(usable(path), expr.Op("$indexOfArray", numberTypes, expr.Op("$type", v)), nil))) &&
			yield("d", sum(double, v)) &&
			yield("o", sum(other, expr.Op("$toDecimal", v))) &&
			yield("D", sum(double, expr.Op("$multiply", v, doubleScale))) &&
			yield("O", sum(other, expr.Op("$multiply", v, decimalScale))) &&
			// A part in 10^9 of the absolute values: the product is never an int, and the least int has no absolute value.
			yield("a", sum(usable(path), expr.Op("$abs", expr.Op("$multiply", v, slackPart))))
	}
}

// The types of numbers, each wider than the one before it, and the factors of statistics.
var (
	numberTypes  = bson.A{"int", "long", "double", "decimal"}
	doubleScale  = math.Ldexp(1, -100)
	decimalScale = decimalOf("1E-100")
	slackPart    = decimalOf("1E-9")
)

func decimalOf(text string) bson.Decimal128 {
	d, _ := bson.ParseDecimal128(text)
	return d
}

// usable is the condition that a path holds a finite number.
func usable(path string) bson.D {
	v := expr.Field(path)
	return expr.Op("$and", expr.Op("$isNumber", v), expr.Op("$gt", v, math.Inf(-1)), expr.Op("$lt", v, math.Inf(1)))
}

// inspect runs do for the parents that seem to have problems, to look at them again.
func (c *core) inspect(ctx context.Context, parents []bson.Raw, do func(ctx context.Context, these bson.A) error) error {
	suspects, err := c.withProblems(ctx, parents)
	if err != nil || len(suspects) == 0 {
		return err
	}
	these := make(bson.A, len(suspects))
	for i, st := range suspects {
		these[i] = st.id()
	}
	return do(ctx, these)
}

// suspects reads parents with their items, in the transaction's snapshot, and returns the states
// of those with problems. pushedOut is what a write has pushed out of the array of a single parent;
// then its state is returned in any case.
func (c *core) suspects(ctx context.Context, these bson.A, pushedOut []element) ([]state, error) {
	parents, err := cursor.Collect(cursor.Find(ctx, c.parents, expr.D("_id", expr.Op("$in", these)),
		options.Find().SetProjection(c.scan().Projection).
			SetSort(expr.D("_id", 1)).SetBatchSize(int32(len(these)+1))))
	if err != nil {
		return nil, err
	}
	states, err := c.states(ctx, parents)
	if err != nil {
		return nil, err
	}
	if len(pushedOut) == 0 {
		states = slices.DeleteFunc(states, func(st state) bool { return len(st.problems) == 0 })
	}
	for i := range states {
		states[i].elements = slices.Clone(pushedOut)
	}
	return states, c.compare(ctx, states)
}

// compare finds the array elements that the collection lacks, or has with other content, and
// refines the problem of the array. Only a wrong array can hold such elements.
func (c *core) compare(ctx context.Context, states []state) error {
	var all []element
	for i := range states {
		st := &states[i]
		if st.compared = st.wrongArray() || len(st.elements) > 0; st.compared {
			for at, v := range value.Values(value.Lookup(st.parent, c.o.ArrayField)) {
				st.elements = append(st.elements, element{st.id(), v, at})
			}
		}
		all = append(all, st.elements...)
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
		for n, h := range st.elements {
			switch {
			case !there[h.key()]:
				st.unstored = append(st.unstored, h)
			case edited[n]:
				st.edited = append(st.edited, h)
			}
		}
		edited = edited[len(st.elements):]
		if !st.wrongArray() {
			continue
		}
		p := &st.problems[0]
		if n := len(st.unstored); n > 0 {
			p.Kind = mongopatterns.NotAdopted
			p.Detail = fmt.Sprintf("the collection lacks %d of its items, the last with the _id %s", n, value.Text(st.unstored[n-1].id()))
		} else if n := len(st.edited); n > 0 {
			p.Kind = mongopatterns.Edited
			p.Detail = fmt.Sprintf("%d of its items differ from the collection's, the last with the _id %s", n, value.Text(st.edited[n-1].id()))
		} else if pulled := c.pulled(*st); len(pulled) > 0 {
			p.Kind = Pulled
			p.Detail = fmt.Sprintf("it lacks %d of the best items, the last with the _id %s", len(pulled), value.Text(pulled[len(pulled)-1].Lookup("_id")))
		}
	}
	return nil
}

// covers reports whether a document has all fields of another, except ParentField and those of the scope, which arrays
// need not have.
func (c *core) covers(doc, part bson.Raw) bool {
	elements, _ := part.Elements()
	return !slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		return !c.o.constant(e.Key()) && !value.Same(doc.Lookup(e.Key()), e.Value())
	})
}

// lacking returns the best items that a compared array lacks and Adopt has not just inserted.
func (st state) lacking() (out []bson.Raw) {
	if !st.compared {
		return nil
	}
	there := map[string]bool{}
	for _, h := range st.elements {
		there[h.key()] = true
	}
	for _, it := range st.inserts {
		there[itemKey(st.id(), it.id)] = true
	}
	for _, doc := range st.top {
		if !there[itemKey(st.id(), doc.Lookup("_id"))] {
			out = append(out, doc)
		}
	}
	return out
}

// pulled returns the best items that an array lacks. It returns none if the items of the parent were not counted, as then
// the array did not hold them.
func (c *core) pulled(st state) []bson.Raw {
	if count := value.Lookup(st.parent, c.o.CountField); !(parent{count: count}).counted() || value.Lookup(st.parent, c.o.ArrayField).Type != bson.TypeArray {
		return nil
	}
	return st.lacking()
}

// malformed returns a field of a parent with a value that this package would not store there, and
// what it should be. Such a value is not ours to overwrite.
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
		report(mongopatterns.Malformed, field, bson.RawValue{})
		out[0].Detail = detail
		return out
	}
	have, want := value.Lookup(st.parent, c.o.ArrayField), value.New(c.arranged(st.top))
	if !have.Equal(want) && !(len(st.top) == 0 && (have.IsZero() || have.Type == bson.TypeNull)) {
		report(WrongSubset, c.o.ArrayField, want)
		out[0].Detail = fmt.Sprintf("%d of %d items", len(value.Values(have)), len(st.top))
	}
	for _, d := range c.derived(st.stats) {
		have := value.Lookup(st.parent, d.path)
		if !d.agrees(have) {
			report(mongopatterns.WrongField, d.path, d.want)
		}
	}
	for _, doc := range st.top {
		if c.keepable(doc) != nil {
			out = append(out, mongopatterns.Problem{Pattern: "subset", Kind: mongopatterns.Malformed, Collection: c.items.Name(),
				ID: doc.Lookup("_id"), Detail: "it has too many levels for its parent to keep it"})
		}
	}
	return out
}

// A derived number of a parent follows from its items.
type derived struct {
	path  string
	want  bson.RawValue // missing for a mean without numbers
	slack *big.Rat      // nil if the result is exact
	mean  bool
}

// agrees reports whether a parent's value follows from its items. Ints are exact.
func (d derived) agrees(have bson.RawValue) bool {
	isInt := func(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }
	slack := d.slack
	if isInt(number(d.want)) && isInt(number(have)) {
		slack = nil
	}
	return (!d.mean || have.IsZero() == d.want.IsZero()) && value.Agree(number(have), number(d.want), slack)
}

func (c *core) derived(stats bson.Raw) []derived {
	stat := func(name string, i int) bson.RawValue { return number(stats.Lookup(fmt.Sprint(name, i))) }
	out := []derived{{path: c.o.CountField, want: stat("n", 0)}}
	for i, v := range c.o.Values {
		count := out[0].want
		if v.Count != "" {
			count = stat("c", i)
			out = append(out, derived{path: v.Count, want: count})
		}
		sum := unscaled(stat("d", i), stat("D", i), doubleScale)
		sum.Add(sum, unscaled(stat("o", i), stat("O", i), decimalScale))
		wider, _ := stat("t", i).AsInt64OK() // null without numbers
		kind := []bson.Type{bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128}[wider]
		total := derived{path: v.Sum, want: value.OfRat(sum, kind), slack: value.Number(stat("a", i))}
		out = append(out, total)
		if v.Mean == "" {
			continue
		}
		mean := derived{path: v.Mean, mean: true}
		if n := value.Number(count); n.Sign() > 0 {
			mean.want, mean.slack = total.want, new(big.Rat).Quo(total.slack, n)
			if sum := value.Number(total.want); sum != nil { // else it is infinite, as the sum
				if kind != bson.TypeDecimal128 {
					kind = bson.TypeDouble
				}
				mean.want = value.OfRat(sum.Quo(sum, n), kind)
			}
		}
		out = append(out, mean)
	}
	return out
}

// unscaled is a sum, or that of the scaled numbers if it is not finite.
func unscaled(sum, scaled bson.RawValue, scale any) *big.Rat {
	if n := value.Number(sum); n != nil {
		return n
	}
	n := value.Number(scaled)
	return n.Quo(n, value.Number(value.New(scale)))
}

// number is a statistic, 0 if it is missing.
func number(v bson.RawValue) bson.RawValue {
	if v.IsZero() {
		return value.New(int32(0))
	}
	return v
}

// suspicious selects the items that Insert might refuse; it has no filter if Insert refuses none.
func (c *core) suspicious() (scan maintain.Scan) {
	paths, or := append([]string{c.o.ParentField, hold.Field}, c.single...), bson.A{}
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

// invalid reports the items that Insert refuses.
func (c *core) invalid(_ context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, _ error) {
	for _, doc := range batch {
		if field, why := c.defect(doc); field != "" {
			problems = append(problems, mongopatterns.Problem{Pattern: "subset", Kind: mongopatterns.Malformed, Collection: c.items.Name(),
				ID: doc.Lookup("_id"), Field: field, Have: value.Lookup(doc, field), Detail: "it " + why})
		}
	}
	return problems, nil
}
