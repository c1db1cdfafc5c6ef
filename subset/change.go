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
}

// edits reports that the change leaves the number of items as it is.
func (ch change) edits() bool { return len(ch.in) == len(ch.out) }

// literals is an array, as an expression, of something of each item.
func literals(items []item, of func(item) any) bson.D {
	out := make(bson.A, len(items))
	for i, it := range items {
		out[i] = of(it)
	}
	return expr.Literal(out)
}

func idOf(it item) any   { return it.id }
func keptOf(it item) any { return it.kept }

// array is the expression for the kept items as they are stored; count that for
// the number of all items.
func (c *core) array() any { return expr.IfNull(expr.Field(c.o.ArrayField), bson.A{}) }
func (c *core) count() any { return expr.IfNull(expr.Field(c.o.CountField), 0) }

func ids(array any) bson.D { return expr.Map(array, "item", "$$item._id") }

func sorted(input any, order bson.D) bson.D {
	return expr.Op("$sortArray", bson.D{{Key: "input", Value: input}, {Key: "sortBy", Value: order}})
}

// after is the expression for the array without the items that leave and with those
// that come, not cut yet.
func (c *core) after(ch change) any {
	items := c.array()
	if len(ch.out) > 0 {
		items = expr.Filter(items, "item", expr.Op("$not", expr.Op("$in", "$$item._id", literals(ch.out, idOf))))
	}
	if len(ch.in) > 0 {
		items = expr.Op("$concatArrays", items, literals(ch.in, keptOf))
	}
	return items
}

// best is the expression for the items that a parent keeps after a change, the best
// first, as far as its array tells. It is exact: where the collection has items that
// the array does not hold, each of them ranks behind the last of the array, and so an
// item that comes is known to be one of the best only before that one. What is
// missing then is read from the collection.
//
// A copy of the last one, which a mark puts behind the item itself, shows its place.
func (c *core) best(ch change) any {
	if len(ch.in) == 0 {
		return expr.Op("$slice", sorted(c.after(ch), c.o.Order), c.o.N)
	}
	const mark = "$$item." + fieldTouch
	size := expr.Op("$size", c.array())
	last := expr.Op("$arrayElemAt", sorted(c.array(), c.o.Order), -1)
	marked := expr.Op("$concatArrays", c.after(ch), bson.A{expr.Op("$mergeObjects", last, bson.D{{Key: fieldTouch, Value: expr.Literal(1)}})})
	known := expr.Op("$slice", "$$all", expr.Op("$indexOfArray", expr.Map("$$all", "item", expr.IfNull(mark, 0)), 1))
	order := append(slices.Clip(c.o.Order), bson.E{Key: fieldTouch, Value: 1})
	return expr.Let("all", sorted(marked, order), expr.Op("$slice", expr.Cond(expr.Op("$gt", c.count(), size),
		expr.Cond(expr.Op("$eq", size, 0), bson.A{}, known),
		expr.Filter("$$all", "item", expr.IsType(mark, "missing"))), c.o.N))
}

// stored puts items, the best first, into the order in which the parent has them.
func (c *core) stored(best any) any {
	if c.o.BestLast {
		return expr.Op("$reverseArray", best)
	}
	return best
}

// update is the write that a change makes in its parent, all of it at once, so that
// no reader sees a count without its item.
func (c *core) update(ch change) mongo.Pipeline {
	set := append(bson.D{{Key: c.o.ArrayField, Value: c.stored(c.best(ch))}}, c.totals(ch)...)
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

// A parent as it was before a change, and what the change made of its array.
type parent struct {
	ID    bson.RawValue   `bson:"_id" json:"_id"`
	Count bson.RawValue   `bson:"count" json:"count"` // zero if there is none
	Size  int             `bson:"size" json:"size"`   // of the array
	Left  int             `bson:"left" json:"left"`   // of the array afterwards
	Gone  []bson.RawValue `bson:"gone" json:"gone"`   // the _ids of the elements that the change pushed out
	Kept  bool            `bson:"kept" json:"kept"`   // the array holds the edited item afterwards
}

// counted reports a parent with a count.
func (p parent) counted() bool { return p.Count.Type != 0 && p.Count.Type != bson.TypeNull }

// apply makes a change in its parent: the write on which all that change items of a
// parent conflict.
//
// The answer is made of the document as it was, with no more of the new items than
// their places in the order.
func (c *core) apply(ctx context.Context, ch change) (parent, error) {
	ranks := change{parent: ch.parent, out: ch.out}
	for _, it := range ch.in {
		ranks.in = append(ranks.in, item{id: it.id, kept: c.rank.of(it.doc)})
	}
	projection := bson.D{
		{Key: "count", Value: expr.Field(c.o.CountField)},
		{Key: "size", Value: expr.Op("$size", c.array())},
		{Key: "left", Value: expr.Op("$size", c.best(ranks))},
		{Key: "gone", Value: ids(expr.Op("$slice", sorted(c.after(ranks), c.o.Order), c.o.N, math.MaxInt32))},
	}
	if ch.edits() {
		projection = append(projection, bson.E{Key: "kept", Value: expr.Op("$in", expr.Literal(ch.in[0].id), ids(c.best(ranks)))})
	}
	var p parent
	err := c.parents.FindOneAndUpdate(ctx, c.roomFor(byID(ch.parent)), c.update(ch),
		options.FindOneAndUpdate().SetProjection(projection)).Decode(&p)
	if err != nil {
		return p, c.missed(ctx, ch.parent, err)
	}
	mine := map[string]bool{}
	for _, it := range ch.in {
		mine[value.Key(it.id)] = true
	}
	p.Gone = slices.DeleteFunc(p.Gone, func(id bson.RawValue) bool { return mine[value.Key(id)] })
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
	set := append(bson.D{{Key: c.o.ArrayField, Value: items}}, c.totals(ch)...)
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
// all. They are found behind as many as it holds, which are the best.
func (c *core) refill(ctx context.Context, ch change, p parent) error {
	var update bson.D
	count, _ := p.Count.AsInt64OK()
	if all := int(count) + len(ch.in) - len(ch.out); p.Left < min(c.o.N, all) {
		next, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			limit := c.o.N - p.Left
			opts := options.Find().SetSort(c.o.Order).SetSkip(int64(p.Left)).SetLimit(int64(limit)).SetBatchSize(int32(min(limit, 1<<20) + 1))
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
	if ch.edits() && !p.Kept {
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
