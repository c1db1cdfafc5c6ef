package outlier

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	return c.run(ctx, func(ctx context.Context) error { return c.arrangeLocked(ctx, id) })
}

func (c *core) arrangeLocked(ctx context.Context, id bson.RawValue) error {
	var doc bson.Raw
	err := c.coll.FindOneAndUpdate(ctx, c.parent(id), c.move(), options.FindOneAndUpdate().SetReturnDocument(options.Before).
		SetProjection(expr.D(c.o.ArrayField, 1, c.o.MoveField, 1))).Decode(&doc)
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
	if foreign = foreign && len(extras) > 0; foreign || c.o.Set {
		if items, extras, err = c.mend(ctx, id, items, extras, foreign); err != nil {
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

// fold takes the elements of all overflow documents, deletes these and returns the
// whole list.
func (c *core) fold(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras int) ([]bson.RawValue, error) {
	if extras == 0 {
		return items, nil
	}
	arrays, err := c.outside(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []bson.RawValue
	for _, array := range arrays {
		xs, err := array.Array().Values()
		if err != nil {
			return nil, err
		}
		all = append(all, xs...)
	}
	_, err = c.overflow.DeleteMany(ctx, c.extras(id))
	return append(all, items...), err
}

// mend gives the overflow documents of other code their numbers, and removes from a
// set all but the first of equal elements. It returns what the parent should hold,
// which it does not write, and what overflow documents are left.
//
// In a list of other code the parent has the oldest elements. It changes them for
// those of the last overflow document, which becomes the first.
func (c *core) mend(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras []extent, foreign bool) ([]bson.RawValue, []extent, error) {
	drop, err := c.duplicates(ctx, id, extras, foreign)
	if err != nil || !foreign && len(drop) == 0 {
		return items, extras, err
	}
	items = without(items, drop[value.Key(bson.RawValue{})])
	swap := foreign && len(items) > 0
	if last := len(extras) - 1; swap {
		extras = slices.Concat(extras[last:], extras[:last])
	}
	var left []extent
	var writes []mongo.WriteModel
	for i, x := range extras {
		var set bson.D
		if cut := drop[value.Key(x.ID)]; cut != nil || swap && i == 0 {
			doc, err := c.overflow.FindOne(ctx, c.extra(id, x.ID)).Raw()
			if err != nil {
				return nil, nil, err
			}
			xs, err := c.values(doc)
			if err != nil {
				return nil, nil, err
			}
			if xs = without(xs, cut); swap && i == 0 {
				xs, items = items, xs
			}
			if len(xs) == 0 {
				writes = append(writes, mongo.NewDeleteOneModel().SetFilter(c.extra(id, x.ID)))
				continue
			}
			x.Size, x.Bytes = len(xs), emptyBytes+sizeOf(xs, 0)
			set = append(set, expr.Element(c.o.ArrayField, xs))
		}
		if foreign {
			set = append(set, expr.Element(c.o.NumberField, int32(len(left))))
		}
		if set != nil {
			writes = append(writes, mongo.NewUpdateOneModel().SetFilter(c.extra(id, x.ID)).SetUpdate(expr.Op("$set", set)))
		}
		left = append(left, x)
	}
	if len(writes) == 0 {
		return items, left, nil
	}
	// Unordered, so that they go in two commands at most, by their kind.
	_, err = c.overflow.BulkWrite(ctx, writes, options.BulkWrite().SetOrdered(false))
	return items, left, err
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
			expr.Op("$unwind", expr.D("path", "$part.items", "includeArrayIndex", "i")),
			expr.Op("$group", expr.D("_id", expr.D("list", "$_id", "element", "$part.items"),
				"at", expr.Op("$push", expr.D("id", "$part._id", "i", "$i")))),
			expr.Op("$match", expr.D("at.1", expr.D("$exists", true))),
		), options.Aggregate().SetAllowDiskUse(true))
	}))
}

// duplicates are the places, by document, of all but the first of equal elements of a
// set.
func (c *core) duplicates(ctx context.Context, id bson.RawValue, extras []extent, foreign bool) (map[string]map[int]bool, error) {
	if !c.o.Set {
		return nil, nil
	}
	own := value.Key(bson.RawValue{})
	order := map[string]int{own: len(extras)}
	for i, x := range extras {
		order[value.Key(x.ID)] = i
	}
	if foreign {
		order[own] = -1
	}
	drop := map[string]map[int]bool{}
	found, err := c.repeats(ctx, c.parent(id))
	for _, r := range found {
		slices.SortFunc(r.At, func(a, b place) int {
			return cmp.Or(order[value.Key(a.ID)]-order[value.Key(b.ID)], a.I-b.I)
		})
		for _, p := range r.At[1:] {
			key := value.Key(p.ID)
			if drop[key] == nil {
				drop[key] = map[int]bool{}
			}
			drop[key][p.I] = true
		}
	}
	return drop, err
}

// without is xs but for those at these places.
func without(xs []bson.RawValue, places map[int]bool) (out []bson.RawValue) {
	for i, x := range xs {
		if !places[i] {
			out = append(out, x)
		}
	}
	return out
}
