package subset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A change is what a write does to one parent: items that leave, items that come.
// One that is edited does both.
type change struct {
	parent  bson.RawValue
	out, in []item
	bulk    bool // any number of items come
}

// edits reports that the change leaves the number of items as it is.
func (ch change) edits() bool { return len(ch.in) == len(ch.out) }

// array is the expression for the kept items, the best first; count that for the
// number of all items.
func (c *core) array() any { return c.stored(expr.IfNull(expr.Field(c.o.ArrayField), bson.A{})) }
func (c *core) count() any { return expr.IfNull(expr.Field(c.o.CountField), 0) }

// stored puts items, the best first, into the order in which the parent has them,
// and back.
func (c *core) stored(best any) any {
	if c.o.BestLast {
		return expr.Op("$reverseArray", best)
	}
	return best
}

func ids(array any) bson.D { return expr.Map(array, "item", "$$item._id") }

func (c *core) sorted(input any) bson.D {
	return expr.Op("$sortArray", bson.D{{Key: "input", Value: input}, {Key: "sortBy", Value: c.o.Order}})
}

// precedes is the expression whether one item ranks before another, or is the same,
// as the server sorts them: as $cmp does, except that missing values sort as null.
func (c *core) precedes(a, b string) any {
	var before any = true
	for _, e := range slices.Backward(c.o.Order) {
		less, more := expr.IfNull(a+"."+e.Key, nil), expr.IfNull(b+"."+e.Key, nil)
		if e.Value == int32(-1) {
			less, more = more, less
		}
		before = expr.Let("order", expr.Op("$cmp", less, more),
			expr.Cond(expr.Op("$eq", "$$order", 0), before, expr.Op("$lt", "$$order", 0)))
	}
	return before
}

// after is the expression for what a parent keeps after a change, as far as its array
// tells: the best first, not cut to N. It is exact: where the collection has items
// that the array does not hold, each of them ranks after the last of the array, and so
// an item that comes is known to be one of the best only before that one. What
// is missing then is read from the collection.
//
// One item is put into its place, which takes less time than sorting. What
// leaves the array does so by its place: an array that somebody else has put into
// disorder loses no more than apply reports.
func (c *core) after(ch change) any {
	array := c.array()
	rest := array
	if len(ch.out) > 0 { // it is one
		rest = expr.Filter(array, "item", expr.Op("$ne", "$$item._id", expr.Literal(ch.out[0].id)))
	}
	if len(ch.in) == 0 {
		return rest
	}
	come := make(bson.A, len(ch.in))
	for i, it := range ch.in {
		come[i] = it.kept
	}
	last := expr.Let("last", expr.Op("$arrayElemAt", array, -1), expr.Filter("$$come", "item", c.precedes("$$item", "$$last")))
	size := expr.Op("$size", array)
	known := expr.Cond(expr.Op("$gt", c.count(), size), expr.Cond(expr.Op("$eq", size, 0), bson.A{}, last), "$$come")
	if ch.bulk {
		return expr.Let("come", expr.Literal(come), c.sorted(expr.Op("$concatArrays", rest, known)))
	}
	place := expr.Let("new", expr.Op("$arrayElemAt", "$$come", 0), expr.Op("$size", expr.Filter("$$rest", "item", c.precedes("$$item", "$$new"))))
	return expr.Let("come", expr.Literal(come), expr.Let("rest", rest, expr.Let("place", place, expr.Op("$concatArrays",
		expr.Op("$slice", "$$rest", "$$place"), known, expr.Op("$slice", "$$rest", "$$place", math.MaxInt32)))))
}

// update is the write that a change makes in its parent, all of it at once, so that
// no reader sees a count without its item.
func (c *core) update(ch change) mongo.Pipeline {
	set := append(bson.D{{Key: c.o.ArrayField, Value: c.stored(expr.Op("$slice", c.after(ch), c.o.N))}}, c.totals(ch)...)
	stages := mongo.Pipeline{{{Key: "$set", Value: set}}}
	if ch.edits() {
		stages = append(stages, bson.D{{Key: "$set", Value: c.touchUnlessKept(ch)}})
	}
	return append(stages, c.means()...)
}

// touchUnlessKept marks the parent if it does not keep the edited item: nothing else
// may change in it then, and a write that changes nothing conflicts with no other. A
// refill at the same time would store the item as it was.
func (c *core) touchUnlessKept(ch change) bson.D {
	return bson.D{{Key: fieldTouch, Value: expr.Cond(expr.Op("$in", expr.Literal(ch.in[0].id), ids(c.array())), "$$REMOVE", true)}}
}

// totals sets the count and the sums.
func (c *core) totals(ch change) bson.D {
	set := bson.D{{Key: c.o.CountField, Value: expr.Op("$add", c.count(), len(ch.in)-len(ch.out))}}
	for _, v := range c.o.Values {
		plus, minus := numbers(ch.in, v.Field), numbers(ch.out, v.Field)
		if v.Count != "" {
			set = append(set, bson.E{Key: v.Count, Value: expr.Op("$add", expr.IfNull(expr.Field(v.Count), 0), len(plus)-len(minus))})
		}
		terms := bson.A{expr.IfNull(expr.Field(v.Sum), 0)}
		for _, number := range plus {
			terms = append(terms, expr.Literal(number))
		}
		for _, number := range minus {
			terms = append(terms, expr.Literal(negated(number)))
		}
		set = append(set, bson.E{Key: v.Sum, Value: bson.D{{Key: "$add", Value: terms}}})
	}
	return set
}

// numbers are the values of a field that can be added up.
func numbers(items []item, field string) []bson.RawValue {
	var out []bson.RawValue
	for _, it := range items {
		if v := value.Lookup(it.doc, field); value.Number(v) != nil {
			out = append(out, v)
		}
	}
	return out
}

// negated is a number of the same type with the other sign, or of the next larger
// type if there is none.
func negated(number bson.RawValue) any {
	switch number.Type {
	case bson.TypeInt32:
		if n := number.Int32(); n != math.MinInt32 {
			return -n
		}
		return -int64(math.MinInt32)
	case bson.TypeInt64:
		if n := number.Int64(); n != math.MinInt64 {
			return -n
		}
		return -float64(math.MinInt64)
	case bson.TypeDecimal128:
		high, low := number.Decimal128().GetBytes()
		return bson.NewDecimal128(high^1<<63, low)
	}
	return -number.Double()
}

// means computes what follows from sums and counts. A sum of nothing is 0, whatever
// rounding has left.
func (c *core) means() mongo.Pipeline {
	var set bson.D
	for _, v := range c.o.Values {
		count := v.Count
		if count == "" {
			count = c.o.CountField
		}
		some := expr.Op("$gt", expr.Field(count), 0)
		set = append(set, bson.E{Key: v.Sum, Value: expr.Cond(some, expr.Field(v.Sum), 0)})
		if v.Mean != "" {
			set = append(set, bson.E{Key: v.Mean, Value: expr.Cond(some, expr.Op("$divide", expr.Field(v.Sum), expr.Field(count)), "$$REMOVE")})
		}
	}
	if set == nil {
		return nil
	}
	return mongo.Pipeline{{{Key: "$set", Value: set}}}
}

// roomFor guards the documents around the paths in the parent: a write would put one
// in the place of anything else. It adds nothing where no path is dotted.
func (c *core) roomFor(filter bson.D) bson.D {
	if len(c.around) == 0 {
		return filter
	}
	var all bson.A
	for _, step := range c.around {
		all = append(all, expr.IsType(expr.Field(step), "object", "missing", "null"))
	}
	return append(filter, bson.E{Key: "$expr", Value: expr.Op("$and", all...)})
}

// A parent as it was before a change, and what the change makes of its array.
type parent struct {
	ID    bson.RawValue `bson:"_id" json:"_id"`
	Count bson.RawValue `bson:"count" json:"count"` // zero if there is none
	Size  int           `bson:"size" json:"size"`   // of the array
	After struct {
		Size int             `bson:"size" json:"size"` // of the array
		Gone []bson.RawValue `bson:"gone" json:"gone"` // the _ids of those pushed out, and of those that come too late
		Kept bool            `bson:"kept" json:"kept"` // the array holds the edited item
	} `bson:"after" json:"after"`
}

// counted reports a parent with a count.
func (p parent) counted() bool { return p.Count.Type != 0 && p.Count.Type != bson.TypeNull }

// apply makes a change of at most one item each in its parent: the write on which all
// that change items of a parent conflict.
//
// The answer is made of the document as it was, by the expression of the write, with
// no more of the new item than its place in the order.
func (c *core) apply(ctx context.Context, ch change) (parent, error) {
	rank, mine := change{parent: ch.parent, out: ch.out}, bson.RawValue{}
	after := bson.D{{Key: "size", Value: expr.Op("$min", expr.Op("$size", "$$ids"), c.o.N)},
		{Key: "gone", Value: expr.Op("$slice", "$$ids", c.o.N, math.MaxInt32)}}
	for _, it := range ch.in {
		mine = it.id
		rank.in = []item{{id: it.id, kept: c.rank.of(it.doc)}}
		after = append(after, bson.E{Key: "kept", Value: expr.Op("$in", expr.Literal(mine), expr.Op("$slice", "$$ids", c.o.N))})
	}
	var p parent
	err := c.parents.FindOneAndUpdate(ctx, c.roomFor(byID(ch.parent)), c.update(ch), options.FindOneAndUpdate().SetProjection(bson.D{
		{Key: "count", Value: expr.Field(c.o.CountField)}, {Key: "size", Value: expr.Op("$size", c.array())},
		{Key: "after", Value: expr.Let("ids", ids(c.after(rank)), after)}})).Decode(&p)
	if err != nil {
		return p, c.missed(ctx, ch.parent, err)
	}
	p.After.Gone = slices.DeleteFunc(p.After.Gone, func(id bson.RawValue) bool { return value.Key(id) == value.Key(mine) })
	return p, nil
}

// missed says why a write has not found its parent.
func (c *core) missed(ctx context.Context, id bson.RawValue, err error) error {
	if !errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, err)
	}
	var p parent
	err = cursor.Primary(c.parents).FindOne(ctx, byID(id),
		options.FindOne().SetProjection(bson.D{{Key: "count", Value: expr.Field(c.o.CountField)}})).Decode(&p)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		err = ErrNoParent
	case err == nil && !p.counted():
		err = ErrNotAdopted
	case err == nil:
		err = fault.Invalid("another value stands where the document around the items or numbers belongs")
	}
	return fault.Of(id, err)
}

// twice is one command of two updates of a parent, of which the second undoes the
// mark of the first: a real write, and so a conflict, in 1 round trip.
func (c *core) twice(ctx context.Context, id bson.RawValue, filter bson.D, update any) error {
	result, err := c.parents.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update),
		mongo.NewUpdateOneModel().SetFilter(append(byID(id), bson.E{Key: fieldTouch, Value: bson.D{{Key: "$exists", Value: true}}})).
			SetUpdate(untouch),
	})
	if err == nil && result.MatchedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return err
}

var (
	touch   = bson.D{{Key: "$set", Value: bson.D{{Key: fieldTouch, Value: true}}}}
	untouch = bson.D{{Key: "$unset", Value: bson.D{{Key: fieldTouch, Value: ""}}}}
)

// touch makes the writes of a parent conflict where an item comes that does not
// count: the parent might be deleted meanwhile.
func (c *core) touch(ctx context.Context, parent bson.RawValue) error {
	if err := c.twice(ctx, parent, byID(parent), touch); err != nil {
		return c.missed(ctx, parent, err)
	}
	return nil
}

// inPlace edits an item whose rank stays: in the array, if it is kept, and in the
// sums.
func (c *core) inPlace(ctx context.Context, ch change) error {
	it := ch.in[0]
	items := expr.Map(c.array(), "item", expr.Cond(expr.Op("$eq", "$$item._id", expr.Literal(it.id)), expr.Literal(it.kept), "$$item"))
	set := append(bson.D{{Key: c.o.ArrayField, Value: c.stored(items)}}, c.totals(ch)...)
	update := append(mongo.Pipeline{{{Key: "$set", Value: append(set, c.touchUnlessKept(ch)...)}}}, c.means()...)
	filter := append(c.roomFor(byID(ch.parent)), bson.E{Key: c.o.CountField, Value: bson.D{{Key: "$ne", Value: nil}}})
	if err := c.twice(ctx, ch.parent, filter, update); err != nil {
		return c.missed(ctx, ch.parent, err)
	}
	return nil
}

// held are _ids of items that the array of a parent holds.
type held struct {
	parent bson.RawValue
	ids    []bson.RawValue
}

// safe is ErrNotAdopted if one of these items, which a write takes out of their
// parents, is not in the collection: it would be lost.
func (c *core) safe(ctx context.Context, all ...held) error {
	there, err := c.among(ctx, all)
	if err != nil {
		return err
	}
	for _, h := range all {
		for _, id := range h.ids {
			if !there[pair(h.parent, id)] {
				return fault.Of(h.parent, fmt.Errorf("%w: its item _id %s is not in the collection", ErrNotAdopted, value.Text(id)))
			}
		}
	}
	return nil
}

// among says by pair which of these items the collection has.
func (c *core) among(ctx context.Context, all []held) (map[string]bool, error) {
	there := map[string]bool{}
	var parents, ids bson.A
	for _, h := range all {
		if len(h.ids) > 0 {
			parents = append(parents, h.parent)
		}
		for _, id := range h.ids {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return there, nil
	}
	filter := bson.D{{Key: "_id", Value: in(ids)}, {Key: c.o.ParentField, Value: in(parents)}}
	opts := options.Find().SetProjection(included(c.o.ParentField)).SetBatchSize(int32(min(len(ids), 1<<20) + 1))
	for doc, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.items).Find(ctx, filter, opts)
	}) {
		if err != nil {
			return nil, err
		}
		there[pair(doc.Current.Lookup(c.o.ParentField), doc.Current.Lookup("_id"))] = true
	}
	return there, nil
}

// pair stands for an item of a parent.
func pair(parent, id bson.RawValue) string {
	return fmt.Sprintf("%q%q", value.Key(parent), value.Key(id))
}

// refill appends to the array the next best items, if it holds fewer than N and not
// all. They are found after as many as it holds, which are the best.
func (c *core) refill(ctx context.Context, ch change, p parent) error {
	var update bson.D
	count, _ := p.Count.AsInt64OK()
	if all := int(count) + len(ch.in) - len(ch.out); p.After.Size < min(c.o.N, all) {
		next, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			limit := c.o.N - p.After.Size
			opts := options.Find().SetSort(c.o.Order).SetSkip(int64(p.After.Size)).SetLimit(int64(limit)).SetBatchSize(int32(min(limit, 1<<20) + 1))
			if c.keep != nil {
				opts.SetProjection(c.projection())
			}
			return cursor.Primary(c.items).Find(ctx, c.counted(ch.parent), opts)
		}))
		if err != nil {
			return err
		}
		if len(next) > 0 {
			each := bson.D{{Key: "$each", Value: c.arranged(next)}}
			if c.o.BestLast {
				each = append(each, bson.E{Key: "$position", Value: 0})
			}
			update = bson.D{{Key: "$push", Value: bson.D{{Key: c.o.ArrayField, Value: each}}}}
		}
	}
	if ch.edits() && !p.After.Kept {
		update = append(update, untouch...)
	}
	if update == nil {
		return nil
	}
	_, err := c.parents.UpdateOne(ctx, byID(ch.parent), update)
	return fault.Of(ch.parent, err)
}

// arranged is what a parent keeps of these items, the best of which comes first, in
// the order in which it has them.
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

// adopted is ErrNotAdopted if a parent without a count has items: they were never
// counted. The first ones may come to it.
func (c *core) adopted(ctx context.Context, ch change, p parent) error {
	switch {
	case p.counted():
		return nil
	case p.Size > 0 || len(ch.out) > 0:
		return fault.Of(ch.parent, ErrNotAdopted)
	}
	return c.alone(ctx, bson.A{ch.parent}, bson.A{ch.in[0].id})
}

// alone is ErrNotAdopted if these parents have other items than these.
func (c *core) alone(ctx context.Context, parents, but bson.A) error {
	if len(parents) == 0 {
		return nil
	}
	filter := append(bson.D{{Key: c.o.ParentField, Value: in(parents)}, {Key: "_id", Value: bson.D{{Key: "$nin", Value: but}}}}, c.filter.doc...)
	found, err := cursor.Primary(c.items).FindOne(ctx, filter, options.FindOne().SetProjection(included(c.o.ParentField))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.Of(found.Lookup(c.o.ParentField), ErrNotAdopted)
}
