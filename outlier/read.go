package outlier

import (
	"context"
	"errors"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Total returns how many elements a list has: ErrNotFound without a parent.
//
// Cost: 1 round trip, 1 document, found by _id.
func (l *Lists[ID, E]) Total(ctx context.Context, id ID) (total int64, err error) {
	defer fault.In(&err, "outlier: total")
	raw, err := l.c.id(id)
	if err != nil {
		return 0, err
	}
	s, err := l.c.read(ctx, raw, l.c.state())
	return s.Total, fault.Of(raw, err)
}

// Contains reports whether a list holds an element that equals e: ErrNotFound
// without a parent.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the element. Else 2, or 3 if it holds none, by the index {parent, n} all its
// overflow documents up to the element, or with Options.ElementIndex 1 key and
// document.
func (l *Lists[ID, E]) Contains(ctx context.Context, id ID, e E) (held bool, err error) {
	defer fault.In(&err, "outlier: contains")
	raw, err := l.c.id(id)
	if err != nil {
		return false, err
	}
	x, err := l.c.element(e)
	if err == nil {
		held, err = l.c.contains(ctx, raw, x)
	}
	return held, fault.Of(raw, err)
}

func (c *core) contains(ctx context.Context, id, x bson.RawValue) (held bool, err error) {
	err = c.still(ctx, id, c.state(expr.Element("held", expr.Op("$in", expr.Literal(x), c.array()))), func(s state) error {
		if held = s.Held; held || !s.Flag {
			return nil
		}
		err := cursor.Primary(c.overflow).FindOne(ctx, c.extras(id, c.holds(x)), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		held = err == nil
		return err
	})
	return held, err
}

// still reads a parent and has read read of its overflow documents. If something has
// moved or been removed from them meanwhile, it does that again: what read has
// read belongs to the parent as it was given.
func (c *core) still(ctx context.Context, id bson.RawValue, projection bson.D, read func(state) error) error {
	for {
		before, err := c.read(ctx, id, projection)
		if err != nil {
			return err
		}
		if err := read(before); err != nil || !before.Flag {
			return err
		}
		after, err := c.read(ctx, id, c.state())
		if err != nil {
			return err
		}
		if after.Flag && after.Moved == before.Moved && after.Total-after.Size == before.Total-before.Size {
			return nil
		}
	}
}

// elements is a type of its own because the driver decodes no array as a []byte.
type elements[E any] []E

func decode[E any](c *core, array bson.RawValue) (elements[E], error) {
	return codec.DecodeValue[elements[E]](c.codec, array)
}

// All yields the whole list in order, as it was at one moment: ErrNotFound without a
// parent. An outlier is read before the first element is yielded; what is too long
// for that is read by Page.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow.
// Outliers: 3, further ones for more than 101 overflow documents or 16 MiB, by the
// index {parent, n} 1 key and document for each; 3 again if elements have moved
// meanwhile.
func (l *Lists[ID, E]) All(ctx context.Context, id ID) iter.Seq2[E, error] {
	return fault.Seq("outlier: all", func(yield func(E, error) bool) {
		raw, err := l.c.id(id)
		if err != nil {
			fault.Stop[E](err)(yield)
			return
		}
		arrays, err := l.c.arrays(ctx, raw)
		if err != nil {
			fault.Stop[E](fault.Of(raw, err))(yield)
			return
		}
		for _, array := range arrays {
			es, err := decode[E](&l.c, array)
			if err != nil {
				fault.Stop[E](fault.Of(raw, err))(yield)
				return
			}
			for _, e := range es {
				if !yield(e, nil) {
					return
				}
			}
		}
	})
}

// arrays returns the arrays of a list in order: those of overflow documents by their
// numbers, then the parent's.
func (c *core) arrays(ctx context.Context, id bson.RawValue) (arrays []bson.RawValue, err error) {
	err = c.still(ctx, id, c.state(expr.Element("items", c.array())), func(s state) error {
		arrays = nil
		if s.Flag {
			docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
				return cursor.Primary(c.overflow).Find(ctx, c.extras(id), options.Find().SetSort(c.byNumber(1)).SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: c.o.ArrayField, Value: 1}}))
			}))
			if err != nil {
				return err
			}
			for _, doc := range docs {
				if array := doc.Lookup(c.o.ArrayField); array.Type == bson.TypeArray {
					arrays = append(arrays, array)
				} else if !array.IsZero() && array.Type != bson.TypeNull {
					return errNotArray
				}
			}
		}
		arrays = append(arrays, s.Items)
		return nil
	})
	return arrays, err
}

// A Page is some consecutive elements of a list.
type Page[E any] struct {
	// Items are the elements, in order; never nil.
	Items []E `json:"items"`
	// Total is how many elements the list has.
	Total int64 `json:"total"`
	// HasNext says that elements follow.
	HasNext bool `json:"hasNext"`
}

// Page returns up to limit elements of a list from position offset, the first being
// 0: ErrNotFound without a parent. Elements that are added come after all others, so
// pages that were full stay as they are. When an element is removed those after it
// move up by one position. So while others remove, pages read one after the other
// can miss elements, but repeat none.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the whole page, as it does the last ones (outliers: 2). Else 3, by the index
// {parent, n}: the server reads all overflow documents for their sizes.
func (l *Lists[ID, E]) Page(ctx context.Context, id ID, offset, limit int64) (page Page[E], err error) {
	defer fault.In(&err, "outlier: page")
	raw, err := l.c.id(id)
	switch {
	case err != nil:
		return page, err
	case offset < 0:
		return page, fault.Invalid("offset: negative")
	case limit <= 0:
		return page, fault.Invalid("limit: not positive")
	}
	// math.MaxInt32 is what $slice takes.
	arrays, total, err := l.c.page(ctx, raw, min(offset, math.MaxInt32), min(limit, math.MaxInt32))
	page.Items = []E{}
	for _, array := range arrays {
		var es elements[E]
		if err == nil {
			es, err = decode[E](&l.c, array)
		}
		page.Items = append(page.Items, es[:min(int64(len(es)), limit-int64(len(page.Items)))]...)
	}
	if err != nil {
		return Page[E]{}, fault.Of(raw, err)
	}
	page.Total, page.HasNext = total, offset+int64(len(page.Items)) < total
	return page, nil
}

// page returns arrays of which the first limit elements are the page.
func (c *core) page(ctx context.Context, id bson.RawValue, offset, limit int64) (arrays []bson.RawValue, total int64, err error) {
	// The parent has the last elements; before is how many of the page lie outside.
	array := c.array()
	outside := expr.Op("$subtract", c.total(array), size(array))
	before := expr.Op("$max", 0, expr.Op("$subtract", outside, offset))
	items := expr.Cond(expr.Op("$gte", before, limit), bson.A{}, expr.Op("$slice", array,
		expr.Op("$toInt", expr.Op("$max", 0, expr.Op("$subtract", offset, outside))),
		expr.Op("$toInt", expr.Op("$max", 1, expr.Op("$subtract", limit, before)))))
	err = c.still(ctx, id, c.state(expr.Element("items", items)), func(s state) error {
		arrays, total = nil, s.Total
		if offset < s.Total-s.Size {
			if arrays, err = c.slices(ctx, id, offset, limit); err != nil {
				return err
			}
		}
		arrays = append(arrays, s.Items)
		return nil
	})
	return arrays, total, err
}

// slices returns what overflow documents hold of a page.
func (c *core) slices(ctx context.Context, id bson.RawValue, offset, limit int64) (arrays []bson.RawValue, err error) {
	array, end := c.anyArray(), c.o.ParentField+c.o.NumberField+c.o.ArrayField // a name unlike these
	start := expr.Op("$subtract", expr.Field(end), size(array))
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.overflow).Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", c.extras(id)),
			expr.Op("$setWindowFields", bson.D{{Key: "sortBy", Value: c.byNumber(1)}, {Key: "output", Value: bson.D{
				{Key: end, Value: bson.D{{Key: "$sum", Value: size(array)}, {Key: "window", Value: bson.D{
					{Key: "documents", Value: bson.A{"unbounded", "current"}}}}}}}}}),
			expr.Op("$match", expr.Op("$expr", expr.Op("$and",
				expr.Op("$gt", expr.Field(end), offset), expr.Op("$lt", start, offset+limit)))),
			expr.Op("$sort", c.byNumber(1)),
			expr.Op("$project", bson.D{{Key: "_id", Value: 0}, {Key: "items", Value: expr.Op("$slice", array,
				expr.Op("$toInt", expr.Op("$max", 0, expr.Op("$subtract", offset, start))), limit)}}),
		})
	}))
	for _, doc := range docs {
		arrays = append(arrays, doc.Lookup("items"))
	}
	return arrays, err
}

// TotalExpression is the number of a parent's elements, for a $project of your own
// over any parents, say, and a $sort by it.
func (l *Lists[ID, E]) TotalExpression() bson.D { return l.c.total(l.c.anyArray()) }

// ItemsPipeline gives the elements of the parents that filter selects, one document
// {_id: <the parent's>, item: <element>} for each: of one parent those in it, which
// are the newest, and then those of its overflow documents. Run it on the parents'
// collection. It is one $lookup for each parent, by the index {parent, n}.
func (l *Lists[ID, E]) ItemsPipeline(filter any) mongo.Pipeline {
	return append(l.c.parts(filter),
		expr.Op("$unwind", "$part.items"),
		expr.Op("$project", bson.D{{Key: "item", Value: "$part.items"}}))
}

// parts gives the arrays of the parents that filter selects as documents {_id: <the
// parent's>, part: {_id, items}}, the parent's own without an _id.
func (c *core) parts(filter any) mongo.Pipeline {
	const extra, at = "extra", "at"
	own := bson.D{{Key: "items", Value: "$items"}}
	return mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", bson.D{{Key: "items", Value: c.array()}}),
		c.lookup(extra, mongo.Pipeline{
			expr.Op("$sort", c.byNumber(1)),
			expr.Op("$project", bson.D{{Key: "items", Value: c.array()}}),
		}),
		expr.Op("$unwind", bson.D{
			{Key: "path", Value: "$" + extra},
			{Key: "preserveNullAndEmptyArrays", Value: true},
			{Key: "includeArrayIndex", Value: at},
		}),
		// The parent's own comes with its first overflow document, or without one.
		expr.Op("$project", bson.D{{Key: "part", Value: expr.Cond(expr.Op("$gt", "$"+at, 0), bson.A{"$" + extra},
			expr.Cond(expr.Op("$eq", "$"+at, 0), bson.A{own, "$" + extra}, bson.A{own}))}}),
		expr.Op("$unwind", "$part"),
	}
}

// ContainingPipeline gives {_id: <the parent's>} of the parents whose lists hold an
// element that equals e, each once, in no order: the books that a customer bought.
// Run it on the parents' collection, not in a transaction, which refuses $unionWith.
// It takes an index on the array in both collections, {customers_purchased: 1},
// which you create if you need it.
func (l *Lists[ID, E]) ContainingPipeline(e E) (_ mongo.Pipeline, err error) {
	defer fault.In(&err, "outlier: containing")
	x, err := l.c.element(e)
	if err != nil {
		return nil, err
	}
	match := expr.Op("$match", bson.D{l.c.holds(x)})
	return mongo.Pipeline{
		match,
		expr.Op("$project", bson.D{{Key: "_id", Value: 1}}),
		expr.Op("$unionWith", bson.D{{Key: "coll", Value: l.c.overflow.Name()}, {Key: "pipeline", Value: mongo.Pipeline{
			match,
			expr.Op("$project", bson.D{{Key: "_id", Value: expr.Field(l.c.o.ParentField)}}),
		}}}),
		expr.Op("$group", bson.D{{Key: "_id", Value: "$_id"}}),
	}, nil
}
