package outlier

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// arrange brings one list into the form and the bounds that the options describe, in
// its order: what the parent has over its bounds moves out, what has become small
// folds back, overflow documents of other code get their numbers, of equal elements
// of a set the first stays; flag and total become right.
func (c *core) arrange(ctx context.Context, id bson.RawValue) error {
	return c.run(ctx, func(ctx context.Context) error {
		parent, err := c.modify(ctx, c.parent(id), c.move(), 1)
		if err != nil && !errors.Is(err, ErrNotAdopted) {
			return err
		}
		id := parent.ID // as the overflow documents have it
		items, err := decode[bson.RawValue](codec.Codec{}, parent.Of)
		if err != nil {
			return err
		}
		extras, err := cursor.Collect(cursor.Decode[extent](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.overflow.Find(ctx, c.extras(id), options.Find().SetProjection(c.extent()).SetBatchSize(10_000))
		}))
		if err != nil {
			return err
		}
		foreign := len(extras) > 0 && parent.Moved.IsZero()
		outside, bytes := 0, emptyBytes+sizeOf(items, 0)
		for _, x := range extras {
			if !x.List {
				return errNotArray
			}
			foreign = foreign || !x.Number.IsNumber()
			outside, bytes = outside+x.Size, bytes+x.Bytes
		}
		var twice []repeated
		if c.o.Set {
			if twice, err = c.repeats(ctx, c.parent(id)); err != nil {
				return err
			}
		}
		small := len(items)+outside <= c.o.FoldBack && bytes <= c.o.MaxBytes/4*3
		if foreign || len(twice) > 0 || len(extras) > 0 && (outside == 0 || small) {
			items, err = c.fold(ctx, id, items, foreign, twice)
			outside = 0
		}
		if err != nil {
			return err
		}
		return c.finish(ctx, id, items, outside)
	})
}

// fold takes the elements of all overflow documents, deletes these and returns the whole
// list, of equal elements the first alone. In a list of other code the parent has the
// oldest elements, and documents without a number are in the order of their _ids.
func (c *core) fold(ctx context.Context, id bson.RawValue, items []bson.RawValue, foreign bool,
	twice []repeated) ([]bson.RawValue, error) {
	var all []bson.RawValue
	start := map[string]int{} // of the documents' elements in all
	take := func(id bson.RawValue, xs []bson.RawValue) {
		start[value.Key(id)] = len(all)
		all = append(all, xs...)
	}
	if foreign {
		take(bson.RawValue{}, items)
	}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Find(ctx, c.extras(id), options.Find().SetSort(append(c.byNumber(1), expr.Element("_id", 1))))
	}) {
		if err != nil {
			return nil, err
		}
		xs, err := decode[bson.RawValue](codec.Codec{}, doc.Lookup(c.o.ArrayField))
		if err != nil {
			return nil, err
		}
		take(doc.Lookup("_id"), xs)
	}
	if !foreign {
		take(bson.RawValue{}, items)
	}
	drop := map[int]bool{}
	for _, r := range twice {
		first := len(all)
		for _, p := range r.At {
			at := start[value.Key(p.ID)] + p.I
			drop[at] = true
			first = min(first, at)
		}
		delete(drop, first)
	}
	var left []bson.RawValue
	for i, x := range all {
		if !drop[i] {
			left = append(left, x)
		}
	}
	_, err := fault.Many(c.overflow.DeleteMany(ctx, c.extras(id)))
	return left, err
}

// repeated is an element that a list holds several times: in the overflow documents of these
// IDs or, without one, in the parent.
type repeated struct {
	ID struct{ List, Element bson.RawValue } `bson:"_id"`
	At []struct {
		ID bson.RawValue
		I  int
	}
}

// repeats finds the elements that lists hold several times; the server decides what
// is equal.
func (c *core) repeats(ctx context.Context, filter bson.D) ([]repeated, error) {
	return cursor.Collect(cursor.Decode[repeated](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, append(c.parts(filter),
			expr.Op("$unwind", expr.D("path", "$part.items", "includeArrayIndex", "i")),
			expr.Op("$group", expr.D("_id", expr.D("list", "$_id", "element", "$part.items"),
				"at", expr.Op("$push", expr.D("id", "$part._id", "i", "$i")))),
			expr.Op("$match", expr.D("at.1", expr.D("$exists", true))),
		), options.Aggregate().SetAllowDiskUse(true))
	}))
}
