package outlier

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// arrange brings one list into the form and the bounds of the options, and keeps its order. It
// moves elements over the bounds out, folds a list that has become short back, numbers the
// overflow documents of other code, keeps the first of equal elements of a set, and corrects
// flag and total.
//
// Numbered overflow documents are older than the parent's elements. Those without a number are
// newer, in the order of their _ids: other code that knows overflow documents adds to them. But
// in a list that never had this form, the parent's elements are the oldest.
func (c *core) arrange(ctx context.Context, id bson.RawValue) error {
	return txn.RunInTurn(ctx, c.coll, id, func(ctx context.Context) error {
		parent, err := c.modify(ctx, c.parent(id), c.move(), 1)
		if err != nil && !errors.Is(err, mongopatterns.ErrNotAdopted) {
			return err
		}
		foreign := err != nil && parent.Moved.IsZero()
		id := parent.ID // with the type that the overflow documents have
		items, err := decode[bson.RawValue](codec.Codec{}, parent.Of)
		if err != nil {
			return err
		}
		extras, err := cursor.Collect(cursor.Decode[extent](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.overflow.Find(ctx, c.extras(id), options.Find().SetSort(c.byNumber(1)).SetProjection(c.extent()).SetBatchSize(10_000))
		}))
		if err != nil {
			return err
		}
		if !foreign {
			if items, extras, err = c.settle(ctx, parent, items, extras); err != nil {
				return err
			}
		}
		late := map[string]bool{} // overflow documents without a number; all in a foreign list
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
			if twice, err = c.repeatsOf(ctx, id, items, extras); err != nil {
				return err
			}
		}
		small := len(items)+outside <= c.o.FoldBack && bytes <= c.o.MaxBytes/4*3
		if len(late) > 0 || len(twice) > 0 || len(extras) > 0 && (outside == 0 || small) {
			if items, err = c.fold(ctx, id, items, late, twice); err != nil {
				return err
			}
			outside = 0
		}
		return c.finish(ctx, id, items, outside)
	})
}

// fold takes the elements of all overflow documents, deletes these and returns the whole list,
// with late documents last and only the first of equal elements.
func (c *core) fold(ctx context.Context, id bson.RawValue, items []bson.RawValue, late map[string]bool,
	twice []repeated) ([]bson.RawValue, error) {
	var all []bson.RawValue
	start := map[string]int{} // of each document's elements in all
	take := func(doc bson.Raw) error {
		xs, err := decode[bson.RawValue](codec.Codec{}, doc.Lookup(c.o.ArrayField))
		start[value.Key(doc.Lookup("_id"))] = len(all)
		all = append(all, xs...)
		return err
	}
	var last []bson.Raw
	for doc, err := range cursor.Find(ctx, c.overflow, c.extras(id),
		options.Find().SetSort(append(c.byNumber(1), expr.Element("_id", 1)))) {
		if err != nil {
			return nil, err
		}
		if late[value.Key(doc.Lookup("_id"))] {
			last = append(last, doc)
		} else if err := take(doc); err != nil {
			return nil, err
		}
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

// repeated is an element that a list holds several times: in the overflow documents with these
// IDs or, without an ID, in the parent.
type repeated struct {
	ID struct{ List, Element bson.RawValue } `bson:"_id"`
	At []struct {
		ID bson.RawValue
		I  int
	}
}

// repeats finds the elements that lists hold several times; the server decides what
// is equal.
func (c *core) repeats(ctx context.Context, coll *scoped.Collection, parts mongo.Pipeline) ([]repeated, error) {
	return cursor.Collect(cursor.Decode[repeated](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return coll.Aggregate(ctx, append(parts,
			expr.Op("$unwind", expr.D("path", "$part.items", "includeArrayIndex", "i")),
			expr.Op("$group", expr.D("_id", expr.D("list", "$_id", "element", "$part.items"),
				"at", expr.Op("$push", expr.D("id", "$part._id", "i", "$i")))),
			expr.Op("$match", expr.D("at.1", expr.D("$exists", true))),
		), options.Aggregate().SetAllowDiskUse(true))
	}))
}

// repeatsOf is repeats for one list in a transaction, where a sharded cluster may refuse $lookup.
// Instead it adds the parent's elements to the first of the overflow documents.
func (c *core) repeatsOf(ctx context.Context, id bson.RawValue, items []bson.RawValue, extras []extent) ([]repeated, error) {
	coll, filter, first := c.coll, c.parent(id), id
	own, self := expr.D("items", expr.Literal(items)), expr.D("_id", "$_id", "items", c.x.array)
	of := bson.A{own}
	if len(extras) > 0 {
		coll, filter, first = c.overflow, c.extras(id), extras[0].ID
		of = bson.A{own, self}
	}
	return c.repeats(ctx, coll, mongo.Pipeline{
		expr.Op("$match", filter),
		expr.Op("$sort", c.byNumber(1)),
		expr.Op("$project", expr.D("_id", expr.Literal(id), "part", expr.Cond(expr.Op("$eq", "$_id", expr.Literal(first)), of, bson.A{self}))),
		expr.Op("$unwind", "$part"),
	})
}
