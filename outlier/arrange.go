package outlier

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// arrange brings one list into the form and the bounds that the options describe, in
// its order: what the parent has over its bounds moves out, what has become small
// folds back, overflow documents of other code get their numbers, of equal elements
// of a set the first stays; flag and total become right.
func (c *core) arrange(ctx context.Context, id bson.RawValue) error {
	return txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error { return c.arrangeLocked(ctx, id) })
}

func (c *core) arrangeLocked(ctx context.Context, id bson.RawValue) error {
	var doc bson.Raw
	err := c.coll.FindOneAndUpdate(ctx, c.parent(id), c.move(), options.FindOneAndUpdate().SetReturnDocument(options.Before).
		SetProjection(bson.D{{Key: c.o.ArrayField, Value: 1}, {Key: c.o.MoveField, Value: 1}})).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fault.ErrNotFound
	}
	if err != nil {
		return err
	}
	id = doc.Lookup("_id")
	items, err := c.values(doc)
	if err != nil {
		return err
	}
	extras, err := c.extents(ctx, id)
	if err != nil {
		return err
	}
	foreign := doc.Lookup(c.o.MoveField).Type != bson.TypeObjectID
	for _, x := range extras {
		if !x.List {
			return errNotArray
		}
		foreign = foreign || !x.Number.IsNumber()
	}
	if foreign && len(extras) > 0 {
		if items, extras, err = c.numbered(ctx, id, items, extras); err != nil {
			return err
		}
	}
	if c.o.Set {
		if items, extras, err = c.unique(ctx, id, items, extras); err != nil {
			return err
		}
	}
	outside, bytes := 0, emptyBytes+sizeOf(items, 0)
	for _, x := range extras {
		outside, bytes = outside+x.Size, bytes+x.Bytes
	}
	if outside == 0 || len(items)+outside <= c.o.FoldBack && bytes <= c.o.MaxBytes/4*3 {
		if items, err = c.fold(ctx, id, items, len(extras)); err != nil {
			return err
		}
		outside = 0
	}
	return c.finish(ctx, id, items, int64(outside))
}

// extents reads how large the overflow documents of a list are, in order; those
// without a number come first, as they were inserted.
func (c *core) extents(ctx context.Context, id bson.RawValue) ([]extent, error) {
	return cursor.Collect(cursor.Decode[extent](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Find(ctx, c.extras(id), options.Find().SetProjection(c.extent()).SetBatchSize(10_000).
			SetSort(append(c.byNumber(1), expr.Element("_id", 1))))
	}))
}

// numbered gives the overflow documents of other code their numbers. There the parent
// has the oldest elements: it changes them for those of the last overflow document.
func (c *core) numbered(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras []extent) ([]bson.RawValue, []extent, error) {
	last := len(extras) - 1
	if len(items) > 0 {
		doc, err := c.overflow.FindOne(ctx, c.extra(id, extras[last].ID)).Raw()
		if err != nil {
			return nil, nil, err
		}
		newest, err := c.values(doc)
		if err != nil {
			return nil, nil, err
		}
		oldest := extras[last]
		oldest.Size, oldest.Bytes = len(items), emptyBytes+sizeOf(items, 0)
		extras = append([]extent{oldest}, extras[:last]...)
		if err := c.set(ctx, id, oldest.ID, c.o.ArrayField, items); err != nil {
			return nil, nil, err
		}
		items = newest
		// The duplicates of a set are looked for in what is stored.
		if _, err := c.coll.UpdateOne(ctx, c.parent(id), expr.Op("$set", bson.D{{Key: c.o.ArrayField, Value: items}})); err != nil {
			return nil, nil, err
		}
	}
	for i, x := range extras {
		if err := c.set(ctx, id, x.ID, c.o.NumberField, int32(i)); err != nil {
			return nil, nil, err
		}
	}
	return items, extras, nil
}

// set writes a field of an overflow document.
func (c *core) set(ctx context.Context, id, extraID bson.RawValue, field string, v any) error {
	_, err := c.overflow.UpdateOne(ctx, c.extra(id, extraID), expr.Op("$set", bson.D{{Key: field, Value: v}}))
	return err
}

// fold takes the elements of all overflow documents, deletes these and returns the
// whole list.
func (c *core) fold(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras int) ([]bson.RawValue, error) {
	if extras == 0 {
		return items, nil
	}
	var all []bson.RawValue
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Find(ctx, c.extras(id), options.Find().SetSort(c.byNumber(1)))
	}) {
		if err != nil {
			return nil, err
		}
		xs, err := c.values(doc)
		if err != nil {
			return nil, err
		}
		all = append(all, xs...)
	}
	_, err := c.overflow.DeleteMany(ctx, c.extras(id))
	return append(all, items...), err
}

// A place is where an equal of an element lies: in the overflow document with this
// _id, or, without one, in the parent.
type place struct {
	ID bson.RawValue `bson:"id"`
	I  int           `bson:"i"`
}

// repeated is an element that a list holds several times.
type repeated struct {
	ID struct {
		List    bson.RawValue `bson:"list"`
		Element bson.RawValue `bson:"element"`
	} `bson:"_id"`
	At []place `bson:"at"`
}

// repeats finds the elements that lists hold several times; the server decides what
// is equal.
func (c *core) repeats(ctx context.Context, filter bson.D) ([]repeated, error) {
	return cursor.Collect(cursor.Decode[repeated](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, append(c.parts(filter),
			expr.Op("$unwind", bson.D{{Key: "path", Value: "$part.items"}, {Key: "includeArrayIndex", Value: "i"}}),
			expr.Op("$group", bson.D{
				{Key: "_id", Value: bson.D{{Key: "list", Value: "$_id"}, {Key: "element", Value: "$part.items"}}},
				{Key: "at", Value: expr.Op("$push", bson.D{{Key: "id", Value: "$part._id"}, {Key: "i", Value: "$i"}})},
			}),
			expr.Op("$match", bson.D{{Key: "at.1", Value: bson.D{{Key: "$exists", Value: true}}}}),
		), options.Aggregate().SetAllowDiskUse(true))
	}))
}

// unique removes from a set all but the first of equal elements. It returns what the
// parent should hold, and what overflow documents are left.
func (c *core) unique(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras []extent) ([]bson.RawValue, []extent, error) {
	found, err := c.repeats(ctx, c.parent(id))
	if err != nil || len(found) == 0 {
		return items, extras, err
	}
	order := map[string]int{value.Key(bson.RawValue{}): len(extras)} // the parent is last
	for i, x := range extras {
		order[value.Key(x.ID)] = i
	}
	drop := make([]map[int]bool, len(extras)+1) // places by document
	for _, r := range found {
		slices.SortFunc(r.At, func(a, b place) int {
			if d := order[value.Key(a.ID)] - order[value.Key(b.ID)]; d != 0 {
				return d
			}
			return a.I - b.I
		})
		for _, p := range r.At[1:] {
			at := order[value.Key(p.ID)]
			if drop[at] == nil {
				drop[at] = map[int]bool{}
			}
			drop[at][p.I] = true
		}
	}
	kept := func(xs []bson.RawValue, at int) (out []bson.RawValue) {
		for i, x := range xs {
			if !drop[at][i] {
				out = append(out, x)
			}
		}
		return out
	}
	var left []extent
	for i, x := range extras {
		if len(drop[i]) == 0 {
			left = append(left, x)
			continue
		}
		doc, err := c.overflow.FindOne(ctx, c.extra(id, x.ID)).Raw()
		if err != nil {
			return nil, nil, err
		}
		xs, err := c.values(doc)
		if err != nil {
			return nil, nil, err
		}
		if xs = kept(xs, i); len(xs) == 0 {
			_, err = c.overflow.DeleteOne(ctx, c.extra(id, x.ID))
		} else {
			x.Size, x.Bytes = len(xs), emptyBytes+sizeOf(xs, 0)
			left = append(left, x)
			err = c.set(ctx, id, x.ID, c.o.ArrayField, xs)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return kept(items, len(extras)), left, nil
}
