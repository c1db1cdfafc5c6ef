package outlier

import (
	"context"
	"errors"
	"slices"

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
//
// Numbered overflow documents are older than the parent's elements, those without a number
// newer: other code that knows of overflow adds to these, in the order of their _ids. In a
// list that was never in this form the parent has the oldest elements.
func (c *core) arrange(ctx context.Context, id bson.RawValue) error {
	return c.run(ctx, func(ctx context.Context) error {
		parent, err := c.modify(ctx, c.parent(id), c.move(), 1)
		if err != nil && !errors.Is(err, ErrNotAdopted) {
			return err
		}
		foreign := err != nil && parent.Moved.IsZero()
		replaced := err == nil && parent.Moved.IsZero() // or deleted and inserted again, or typical
		id := parent.ID                                 // as the overflow documents have it
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
		late := map[string]bool{} // the documents without a number, or in a foreign list all
		outside, bytes := 0, emptyBytes+sizeOf(items, 0)
		for _, x := range extras {
			if !x.List {
				return errNotArray
			}
			if foreign || !x.Number.IsNumber() {
				late[value.Key(x.ID)] = true
			}
			outside, bytes = outside+x.Size, bytes+x.Bytes
		}
		var twice []repeated
		if c.o.Set {
			if twice, err = c.repeats(ctx, c.parent(id)); err != nil {
				return err
			}
		}
		small := len(items)+outside <= c.o.FoldBack && bytes <= c.o.MaxBytes/4*3
		if len(late) > 0 || len(twice) > 0 || len(extras) > 0 && (outside == 0 || small || replaced && len(items) >= outside) {
			items, err = c.fold(ctx, id, items, late, twice, replaced)
			outside = 0
		}
		if err != nil {
			return err
		}
		return c.finish(ctx, id, items, outside)
	})
}

// fold takes the elements of all overflow documents, deletes these and returns the whole
// list, late documents last, of equal elements the first alone. A parent that was replaced
// may have all of them again: other code has written it as it was before it was split.
func (c *core) fold(ctx context.Context, id bson.RawValue, items []bson.RawValue, late map[string]bool,
	twice []repeated, replaced bool) ([]bson.RawValue, error) {
	var all []bson.RawValue
	start := map[string]int{} // of the documents' elements in all
	take := func(doc bson.Raw) error {
		xs, err := decode[bson.RawValue](codec.Codec{}, doc.Lookup(c.o.ArrayField))
		start[value.Key(doc.Lookup("_id"))] = len(all)
		all = append(all, xs...)
		return err
	}
	var last []bson.Raw
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Find(ctx, c.extras(id), options.Find().SetSort(append(c.byNumber(1), expr.Element("_id", 1))))
	}) {
		if err != nil {
			return nil, err
		}
		if late[value.Key(doc.Lookup("_id"))] {
			last = append(last, doc)
		} else if err := take(doc); err != nil {
			return nil, err
		}
	}
	if replaced && len(items) >= len(all) && slices.EqualFunc(all, items[:len(all)], bson.RawValue.Equal) {
		clear(start)
		all = nil
	}
	start[value.Key(bson.RawValue{})] = len(all)
	all = append(all, items...)
	for _, doc := range last {
		if err := take(doc); err != nil {
			return nil, err
		}
	}
	drop := map[int]bool{}
	for _, r := range twice {
		first := len(all)
		for _, p := range r.At {
			if from, ok := start[value.Key(p.ID)]; ok {
				drop[from+p.I] = true
				first = min(first, from+p.I)
			}
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
