package subset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A change is what a write does to one parent: the items that leave and the items that come. An
// edit has one of each. Only a batch has several that come; never do several leave.
type change struct {
	parent  bson.RawValue
	out, in []item
	inPlace bool // an edit that does not change the rank
}

func (ch change) edits() bool { return len(ch.in) > 0 && len(ch.out) > 0 }

// expressions are the same in every call. They are encoded once, because they are most of what
// a call sends.
type expressions struct {
	array, size, count          any // the kept items, the best first; their number; the number of all items
	one, remove, inPlace, batch form
	means                       mongo.Pipeline
	counted, empty              any // conditions: its items were counted; it has neither a count nor items in its array
}

// A form of a change is two expressions of $$come and $$out. $$come is the kept part of the item
// that comes; for none or several items it is an array. $$out is the _id of the item that leaves,
// or null.
type form struct {
	array  any // the array after the change
	answer any // what apply needs to know; for it $$come needs only the fields of Sort
}

// expressions are exact. If the collection has items that the array does not hold, these rank
// after the last of the array; so an item that comes is known to be one of the best only if it
// ranks before that one. Items that are missing then are read from the collection.
//
// A single item is inserted at its position, which takes a third of the time of sorting a
// thousand. Items leave the array by their position: an array that somebody else has put into
// another order loses exactly those that the answer names.
func (c *core) expressions() (x expressions) {
	x.array = expr.Fixed(c.stored(expr.IfNull(expr.Field(c.o.ArrayField), bson.A{})))
	x.size = expr.Fixed(expr.Op("$size", x.array))
	x.count = expr.Fixed(expr.IfNull(expr.Field(c.o.CountField), 0))
	// $$rest is the array without the item that leaves.
	without := expr.Cond(expr.Op("$eq", "$$out", nil), x.array,
		expr.Filter(x.array, "item", expr.Op("$ne", "$$item._id", "$$out")))
	rest := expr.Op("$size", "$$rest")
	last := expr.Op("$arrayElemAt", expr.Op("$slice", "$$rest", c.o.N), -1)
	all := expr.Op("$lte", x.count, x.size) // the array holds all items
	wins := expr.Op("$or", expr.Op("$and", all, expr.Op("$lt", rest, c.o.N)),
		expr.Op("$and", expr.Op("$gt", rest, 0), expr.Let("last", last, c.precedes("$$come", "$$last"))))
	place := expr.Op("$size", expr.Filter(expr.Op("$slice", "$$rest", c.o.N-1), "item", c.precedes("$$item", "$$come")))
	placed := expr.Cond(wins, expr.Let("place", place, expr.Op("$concatArrays", expr.Op("$slice", "$$rest", "$$place"),
		bson.A{"$$come"}, expr.Op("$slice", "$$rest", "$$place", math.MaxInt32))), "$$rest")
	known := expr.Cond(all, "$$come", expr.Cond(expr.Op("$eq", rest, 0), bson.A{},
		expr.Let("last", last, expr.Filter("$$come", "item", c.precedes("$$item", "$$last")))))
	pushedOut := expr.Op("$slice", "$$rest", expr.Cond("$$wins", c.o.N-1, c.o.N), math.MaxInt32)
	answer := expr.D("size", rest, "wins", "$$wins", "pushedOut", pushedOut)
	// before is the array as $$rest, won whether the item that comes gets into it, after what the array becomes.
	forms := func(before, won, after any) form {
		return form{expr.Fixed(expr.Let("rest", before, c.stored(expr.Op("$slice", after, c.o.N)))),
			expr.Fixed(expr.Let("rest", before, expr.Let("wins", won, answer)))}
	}
	x.one, x.remove = forms(without, wins, placed), forms(without, false, "$$rest")
	x.batch = forms(x.array, false, c.sorted(expr.Op("$concatArrays", "$$rest", known)))
	x.inPlace.array = expr.Fixed(c.stored(expr.Map(x.array, "item",
		expr.Cond(expr.Op("$eq", "$$item._id", "$$out"), "$$come", "$$item"))))
	x.means = c.means()
	x.counted = expr.Fixed(expr.Op("$isNumber", expr.Field(c.o.CountField)))
	x.empty = expr.Fixed(expr.Op("$and", expr.Op("$eq", expr.IfNull(expr.Field(c.o.CountField), nil), nil), expr.Op("$eq", x.size, 0)))
	return x
}

func (c *core) form(ch change) form {
	switch {
	case ch.inPlace:
		return c.x.inPlace
	case len(ch.in) > 1:
		return c.x.batch
	case len(ch.in) == 0:
		return c.x.remove
	}
	return c.x.one
}

// let is one expression of a form with its variables; shown gives the part of the items that come.
func (ch change) let(in any, shown func(it item) bson.Raw) bson.D {
	all := make(bson.A, len(ch.in))
	for i, it := range ch.in {
		all[i] = shown(it)
	}
	come, out := any(all), any(nil)
	if len(all) == 1 {
		come = all[0]
	}
	if len(ch.out) > 0 {
		out = ch.out[0].id
	}
	return expr.Op("$let", expr.D("vars", expr.D("come", expr.Literal(come), "out", expr.Literal(out)), "in", in))
}

// stored converts items from best first to the order in which the parent stores them, and
// back.
func (c *core) stored(best any) any {
	if c.o.BestLast {
		return expr.Op("$reverseArray", best)
	}
	return best
}

func ids(array any) bson.D { return expr.Map(array, "item", "$$item._id") }

func (c *core) sorted(input any) bson.D {
	return expr.Op("$sortArray", expr.D("input", input, "sortBy", c.o.Sort))
}

// precedes is the condition that one item ranks before another, or equals it, as the server
// sorts them: like $cmp, except that missing values sort as null.
func (c *core) precedes(a, b string) any {
	var before any = true
	for _, e := range slices.Backward(c.o.Sort) {
		less, more := expr.IfNull(a+"."+e.Key, nil), expr.IfNull(b+"."+e.Key, nil)
		if e.Value == int32(-1) {
			less, more = more, less
		}
		before = expr.Let("order", expr.Op("$cmp", less, more),
			expr.Cond(expr.Op("$eq", "$$order", 0), before, expr.Op("$lt", "$$order", 0)))
	}
	return before
}

// update is the whole write that a change makes in its parent. It is one write, so that no
// reader sees a count without its item.
func (c *core) update(ch change) mongo.Pipeline {
	array := ch.let(c.form(ch).array, func(it item) bson.Raw { return it.kept })
	set := append(expr.D(c.o.ArrayField, array), c.totals(ch)...)
	stages := mongo.Pipeline{expr.D("$set", set)}
	if ch.edits() {
		// If the parent does not keep the edited item, nothing else may change in it, and a write that
		// changes nothing does not conflict: a refill at the same time would store the item as it was.
		kept := expr.Op("$in", expr.Literal(ch.in[0].id), ids(c.x.array))
		stages = append(stages, expr.D("$set", expr.D(hold.Field, expr.Cond(kept, "$$REMOVE", true))))
	}
	return append(stages, c.x.means...)
}

func (c *core) totals(ch change) bson.D {
	set := expr.D(c.o.CountField, plus(c.o.CountField, len(ch.in)-len(ch.out)))
	for _, v := range c.o.Values {
		out, in := ch.numbers(v.Field)
		if v.Count != "" {
			set = append(set, expr.Element(v.Count, plus(v.Count, len(in)-len(out))))
		}
		set = append(set, expr.Element(v.Sum, expr.Shifted(expr.IfNull(expr.Field(v.Sum), 0), out, in)))
	}
	return set
}

// sound are the conditions under which the sums that totals sets are as good as those of all items. Without numbers a
// sum is 0.
func (c *core) sound(ch change) (all []any) {
	for _, v := range c.o.Values {
		out, in := ch.numbers(v.Field)
		if len(out)+len(in) == 0 {
			continue
		}
		sound := expr.Sound(expr.IfNull(expr.Field(v.Sum), 0), out, in)
		none := expr.Op("$lte", plus(c.counts(v), len(in)-len(out)), 0)
		all = append(all, expr.Op("$or", none, sound))
	}
	return all
}

// plus is the number at a path after a change by n.
func plus(path string, n int) bson.D { return expr.Op("$add", expr.IfNull(expr.Field(path), 0), n) }

// counts is the path of how many items have a value.
func (c *core) counts(v Value) string { return cmp.Or(v.Count, c.o.CountField) }

// numbers are the values of a field that are numbers, of the items that leave and of those that come.
func (ch change) numbers(field string) (out, in []bson.RawValue) {
	of := func(items []item) (all []bson.RawValue) {
		for _, it := range items {
			if v := value.Lookup(it.doc, field); value.Number(v) != nil {
				all = append(all, v)
			}
		}
		return all
	}
	out, in = of(ch.out), of(ch.in)
	if len(out) == 1 && len(in) == 1 && out[0].Equal(in[0]) {
		return nil, nil
	}
	return out, in
}

// means computes what follows from sums and counts. Without numbers a sum is 0, whatever
// rounding has left.
func (c *core) means() mongo.Pipeline {
	var set bson.D
	for _, v := range c.o.Values {
		count := c.counts(v)
		some := expr.Op("$gt", expr.Field(count), 0)
		set = append(set, expr.Element(v.Sum, expr.Cond(some, expr.Field(v.Sum), 0)))
		if v.Mean != "" {
			mean := expr.Op("$divide", expr.Field(v.Sum), expr.Field(count))
			set = append(set, expr.Element(v.Mean, expr.Cond(some, mean, "$$REMOVE")))
		}
	}
	if set == nil {
		return nil
	}
	return mongo.Pipeline{expr.D("$set", expr.Fixed(set))}
}

// guarded adds conditions to the filter of a parent's write, and that what stands around the paths are documents: a write
// would replace any other value by one. Without conditions and dotted paths it adds nothing.
func (c *core) guarded(filter bson.D, more ...any) bson.D {
	all := bson.A(more)
	for _, step := range c.around {
		all = append(all, expr.IsType(expr.Field(step), "object", "missing", "null"))
	}
	if len(all) == 0 {
		return filter
	}
	return append(filter, expr.Element("$expr", expr.Op("$and", all...)))
}

// A parent as it was before a change, and what the change makes of its array.
type parent struct {
	count     bson.RawValue // zero if it has none
	size      int           // of the array without the item that leaves
	wins      bool          // the item that comes is one of the best
	pushedOut []element     // the items pushed out
	anew      bool          // a sum must be computed from all items
}

// An element of a parent's array is at this position; -1 after a write took it out.
type element struct {
	parent, item bson.RawValue
	at           int
}

// id is the item's _id, zero if the item is not a document with one.
func (e element) id() bson.RawValue {
	doc, _ := e.item.DocumentOK()
	return doc.Lookup("_id")
}

func (e element) key() string { return itemKey(e.parent, e.id()) }

func itemKey(parent, id bson.RawValue) string {
	return fmt.Sprintf("%q%q", value.Key(parent), value.Key(id))
}

// parentOf decodes the server's reply about a parent.
func parentOf(id bson.RawValue, reply bson.Raw) parent {
	p := parent{count: reply.Lookup("count"), size: int(reply.Lookup("array", "size").AsInt64())}
	p.wins, _ = reply.Lookup("array", "wins").BooleanOK()
	sound, tested := reply.Lookup("sound").BooleanOK()
	p.anew = tested && !sound
	for _, item := range value.Values(reply.Lookup("array", "pushedOut")) {
		p.pushedOut = append(p.pushedOut, element{id, item, -1})
	}
	return p
}

// empty reports that a parent has neither a count nor items in its array.
func (p parent) empty() bool {
	return p.size == 0 && (p.count.Type == 0 || p.count.Type == bson.TypeNull)
}

// counted reports whether the items were counted; a count that somebody stored as text does not say so.
func (p parent) counted() bool { return p.count.IsNumber() }

// stuck reports whether adding does not change the count, because it is not finite or has too few digits.
func (p parent) stuck() bool {
	n := value.Number(p.count)
	return p.counted() && (n == nil || n.Abs(n).Cmp(big.NewRat(1<<53, 1)) >= 0)
}

// apply makes a change of at most one item each in its parent. All writers of a parent's items
// conflict on this write. The answer describes the document before it. If the items of the
// parent were never counted, it changes nothing and returns errUnadopted, unless the array is
// empty and the item that comes is the first.
func (c *core) apply(ctx context.Context, ch change) (parent, error) {
	answer := ch.let(c.form(ch).answer, func(it item) bson.Raw {
		return value.Pick(it.doc, func(field []byte) bool { return c.rank[string(field)] })
	})
	ready := c.x.counted
	if len(ch.out) == 0 {
		ready = expr.Op("$or", c.x.counted, c.x.empty)
	}
	doc, err := fault.Single(c.parents.FindOneAndUpdate(ctx, c.guarded(expr.ByID(ch.parent), ready), c.update(ch), options.FindOneAndUpdate().
		SetProjection(expr.D("_id", 0, "count", expr.Field(c.o.CountField), "array", answer, "sound", expr.Op("$and", c.sound(ch)...))))).Raw()
	if err != nil {
		return parent{}, c.missed(ctx, ch.parent, err)
	}
	return parentOf(ch.parent, doc), nil
}

// missed replaces ErrNoDocuments, if that is the error, by the reason why a write has not found its parent.
func (c *core) missed(ctx context.Context, id bson.RawValue, err error) error {
	if !errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, err)
	}
	doc, err := cursor.Primary(c.parents).FindOne(ctx, expr.ByID(id),
		options.FindOne().SetProjection(expr.D("count", expr.Field(c.o.CountField)))).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		err = mongopatterns.ErrNoParent
	case err == nil && !(parent{count: doc.Lookup("count")}).counted():
		err = errUnadopted
	case err == nil:
		err = fault.Malformed("a parent field of the items or numbers is not a document")
	}
	return fault.Of(id, err)
}

// twice updates a parent twice in one command, and reports whether the filter found it; the second update undoes the
// mark of the first. This is a real write, which conflicts with others, in 1 round trip.
func (c *core) twice(ctx context.Context, id bson.RawValue, filter bson.D, update any) (found bool, err error) {
	result, err := fault.Many(c.parents.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update),
		mongo.NewUpdateOneModel().SetFilter(append(expr.ByID(id), expr.Element(hold.Field, expr.D("$exists", true)))).
			SetUpdate(hold.Unmark),
	}))
	if err != nil {
		return false, fault.Of(id, err)
	}
	return result.MatchedCount > 0, nil
}

// unstored returns those of these items, which a write takes out of their parents, that the
// collection lacks.
func (c *core) unstored(ctx context.Context, all []element) ([]element, error) {
	there, err := c.among(ctx, all, included(c.o.ParentField), func(bson.Raw, string) {})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(e element) bool { return there[e.key()] }), nil
}

// among returns the keys of those items that the collection has, and calls see for each.
func (c *core) among(ctx context.Context, all []element, projection bson.D, see func(doc bson.Raw, key string)) (map[string]bool, error) {
	there, wanted := map[string]bool{}, map[string]bool{}
	var parents, ids bson.A
	for i, h := range all {
		if i == 0 || !h.parent.Equal(all[i-1].parent) {
			parents = append(parents, h.parent)
		}
		if id := h.id(); value.CheckID(id) == nil { // a pattern would select others
			ids, wanted[h.key()] = append(ids, id), true
		}
	}
	if len(ids) == 0 {
		return there, nil
	}
	filter := expr.D("_id", expr.Op("$in", ids), c.o.ParentField, expr.Op("$in", parents))
	opts := options.Find().SetProjection(projection).SetBatchSize(int32(min(len(ids), 1<<20) + 1))
	for doc, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.items).Find(ctx, filter, opts)
	}) {
		if err != nil {
			return nil, err
		}
		key := itemKey(doc.Current.Lookup(c.o.ParentField), doc.Current.Lookup("_id"))
		if wanted[key] {
			there[key] = true
			see(doc.Current, key)
		}
	}
	return there, nil
}

// refill appends the next best items if the array holds fewer than N and not all items. It skips
// as many as the array holds, because these are the best.
func (c *core) refill(ctx context.Context, ch change, p parent) error {
	var update bson.D
	size := p.size
	if p.wins {
		size = min(size+1, c.o.N)
	}
	count, _ := p.count.AsInt64OK()
	if all := int(count) + len(ch.in) - len(ch.out); size < min(c.o.N, all) {
		next, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			limit := c.o.N - size
			opts := options.Find().SetSort(c.o.Sort).SetSkip(int64(size)).SetLimit(int64(limit)).
				SetBatchSize(int32(min(limit, 1<<20) + 1))
			if c.keep != nil {
				opts.SetProjection(c.projection())
			}
			return cursor.Primary(c.items).Find(ctx, c.counted(ch.parent), opts)
		}))
		if err != nil {
			return err
		}
		if err := c.keepable(next...); err != nil {
			return err
		}
		if err := c.hold(ctx, bson.A{ch.parent}, next); err != nil {
			return err
		}
		if len(next) > 0 {
			each := expr.D("$each", c.arranged(next))
			if c.o.BestLast {
				each = append(each, expr.Element("$position", 0))
			}
			update = expr.D("$push", expr.D(c.o.ArrayField, each))
		}
	}
	if ch.edits() && !p.wins {
		update = append(update, hold.Unmark...)
	}
	if update == nil {
		return nil
	}
	_, err := fault.One(c.parents.UpdateOne(ctx, expr.ByID(ch.parent), update))
	return fault.Of(ch.parent, err)
}

// hold makes a program that changes one of these items conflict with the transaction, which copies them into the arrays of
// their parents. The program, as extref, does not find them there yet.
//
// Cost: 1 round trip, none without items.
func (c *core) hold(ctx context.Context, parents bson.A, items []bson.Raw) error {
	if len(items) == 0 {
		return nil
	}
	ids := make(bson.A, len(items))
	for i, doc := range items {
		ids[i] = doc.Lookup("_id")
	}
	return hold.Documents(ctx, c.items, expr.D("_id", expr.Op("$in", ids), c.o.ParentField, expr.Op("$in", parents)))
}

// arranged is the parts of these items, given best first, that a parent keeps, in the order in
// which it stores them.
func (c *core) arranged(docs []bson.Raw) bson.A {
	kept := make(bson.A, len(docs))
	for i, doc := range docs {
		kept[i] = c.cut(doc)
	}
	if c.o.BestLast {
		slices.Reverse(kept)
	}
	return kept
}

// alone reports whether these parents have no items but these.
func (c *core) alone(ctx context.Context, parents, but bson.A) (bool, error) {
	if len(parents) == 0 {
		return true, nil
	}
	filter := append(expr.D(c.o.ParentField, expr.Op("$in", parents), "_id", expr.D("$nin", but)), c.filter.doc...)
	others, err := maintain.Holds(ctx, cursor.Primary(c.items), filter)
	return !others && err == nil, err
}
