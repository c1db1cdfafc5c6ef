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
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Total returns how many elements a list has: ErrNotFound without a parent.
//
// Cost: 1 round trip, 1 document, found by _id.
func (l *Lists[ID, E]) Total(ctx context.Context, id ID) (total int64, err error) {
	defer fault.In(&err, "outlier: total")
	raw, err := l.c.codec.ID("id", id)
	if err != nil {
		return 0, err
	}
	s, err := l.c.read(ctx, raw, l.c.x.size)
	n, _ := s.Of.AsInt64OK()
	return s.Outside + n, fault.Of(raw, err)
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
	raw, x, err := l.c.pair(id, e)
	if err != nil {
		return false, err
	}
	c := &l.c
	_, err = c.still(ctx, raw, expr.Op("$in", expr.Literal(x), c.x.array), func(s state) error {
		if held, _ = s.Of.BooleanOK(); held || !s.Flag {
			return nil
		}
		err := c.overflow.FindOne(ctx, c.extras(s.ID, c.holds(x)), options.FindOne().SetProjection(expr.D("_id", 1))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		held = err == nil
		return err
	})
	return held && err == nil, fault.Of(raw, err)
}

// still reads a parent and has read read of its overflow documents; again if something
// has moved or been removed from them meanwhile. So both are of one moment.
func (c *core) still(ctx context.Context, id bson.RawValue, of any, read func(state) error) (state, error) {
	for {
		before, err := c.read(ctx, id, of)
		if err == nil {
			err = read(before)
		}
		if err != nil || !before.Flag {
			return before, err
		}
		after, err := c.read(ctx, id, nil)
		if err != nil || after.Flag && after.Moved == before.Moved && after.Outside == before.Outside {
			return before, err
		}
	}
}

// elements is a type of its own because the driver decodes no array as a []byte.
type elements[E any] []E

// decode decodes an array; null, or nothing, is an empty one.
func decode[E any](c codec.Codec, array bson.RawValue) (elements[E], error) {
	switch array.Type {
	case 0, bson.TypeNull:
		return nil, nil
	case bson.TypeArray:
		return codec.DecodeValue[elements[E]](c, array)
	}
	return nil, errNotArray
}

// All yields the whole list in order, as it was at one moment: ErrNotFound without a
// parent. An outlier is read before the first element is yielded; what is too long
// for that is read by Page.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow.
// Outliers: 3, further ones for more than 16 MiB, by the index {parent, n} 1 key and
// document for each overflow document; 3 again if elements have moved meanwhile.
func (l *Lists[ID, E]) All(ctx context.Context, id ID) iter.Seq2[E, error] {
	return fault.Seq("outlier: all", func(yield func(E, error) bool) {
		raw, err := l.c.codec.ID("id", id)
		var arrays []bson.RawValue
		var parent state
		if err == nil {
			arrays, parent, err = l.c.load(ctx, raw, 1, 0, expr.Op("$project", expr.D(l.c.o.ArrayField, 1)))
		}
		for _, array := range append(arrays, parent.Of) {
			var es elements[E]
			if err == nil {
				es, err = decode[E](l.c.codec, array)
			}
			for _, e := range es {
				if !yield(e, nil) {
					return
				}
			}
		}
		if err != nil {
			fault.Stop[E](fault.Of(raw, err))(yield)
		}
	})
}

// load reads a parent, with what of makes of its array, and the arrays of its overflow
// documents, if these hold elements from this position on, as stages make them of the
// documents in order.
func (c *core) load(ctx context.Context, id bson.RawValue, of any, from int64, stages ...bson.D) (
	arrays []bson.RawValue, parent state, err error) {
	parent, err = c.still(ctx, id, of, func(s state) error {
		arrays = nil
		if from >= s.Outside {
			return nil
		}
		docs, err := aggregate(ctx, c.overflow, append(mongo.Pipeline{
			expr.Op("$match", c.extras(s.ID)), expr.Op("$sort", c.byNumber(1))}, stages...))
		for _, doc := range docs {
			arrays = append(arrays, doc.Lookup(c.o.ArrayField))
		}
		return err
	})
	return arrays, parent, err
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
// 0: ErrNotFound without a parent. Elements that are added come last; when one is removed
// those after it move up. So while others remove, pages read one after the other can miss
// elements, but repeat none.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the whole page, as it does the last ones (outliers: 2). Else 3, further ones for
// more than 16 MiB, by the index {parent, n}: the server reads the overflow documents to
// the end of the page, and some ahead.
func (l *Lists[ID, E]) Page(ctx context.Context, id ID, offset, limit int64) (page Page[E], err error) {
	defer fault.In(&err, "outlier: page")
	raw, err := l.c.codec.ID("id", id)
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
			es, err = decode[E](l.c.codec, array)
		}
		page.Items = append(page.Items, es[:min(int64(len(es)), limit-int64(len(page.Items)))]...)
	}
	if err != nil {
		return Page[E]{}, fault.Of(raw, err)
	}
	page.Total, page.HasNext = total, offset+int64(len(page.Items)) < total
	return page, nil
}

// page returns arrays of which the first limit elements are the page, and the total.
func (c *core) page(ctx context.Context, id bson.RawValue, offset, limit int64) ([]bson.RawValue, int64, error) {
	// The parent has the last elements; before is how many of the page lie outside.
	outside, array := c.x.outside, expr.Field(c.o.ArrayField)
	before := expr.Op("$max", 0, expr.Op("$subtract", outside, offset))
	items := expr.Cond(expr.Op("$gte", before, limit), bson.A{}, expr.Op("$slice", c.x.array,
		expr.Op("$toInt", expr.Op("$max", 0, expr.Op("$subtract", offset, outside))),
		expr.Op("$toInt", expr.Op("$max", 1, expr.Op("$subtract", limit, before)))))
	arrays, parent, err := c.load(ctx, id, document("items", items, "size", c.x.size), offset,
		expr.Op("$project", expr.D(c.o.ArrayField, c.anyArray())), // $unwind takes anything else for an element
		expr.Op("$unwind", array), expr.Op("$skip", offset), expr.Op("$limit", limit),
		// Each by itself: a $group would bring them together, in memory that the server bounds.
		expr.Op("$project", expr.D("_id", 0, c.o.ArrayField, bson.A{array})))
	if err != nil {
		return nil, 0, err
	}
	own := parent.Of.Document()
	return append(arrays, own.Lookup("items")), parent.Outside + own.Lookup("size").AsInt64(), nil
}

// TotalExpression is the number of a parent's elements, for a $project of your own
// over any parents, say, and a $sort by it.
func (l *Lists[ID, E]) TotalExpression() bson.D {
	return expr.Op("$add", size(l.c.anyArray()), l.c.x.outside)
}

// ItemsPipeline gives the elements of the parents that filter selects, one document
// {_id: <the parent's>, item: <element>} for each: of a parent first those in it, the
// newest, then those outside. Run it on the parents' collection. It is one $lookup for
// each parent, by the index {parent, n}.
func (l *Lists[ID, E]) ItemsPipeline(filter any) mongo.Pipeline {
	return append(l.c.parts(filter),
		expr.Op("$unwind", "$part.items"),
		expr.Op("$project", expr.D("item", "$part.items")))
}

// parts gives the arrays of the parents that filter selects as documents {_id: <the
// parent's>, part: {_id, items}}, the parent's own without an _id.
func (c *core) parts(filter any) mongo.Pipeline {
	const extra, at = "extra", "at"
	own := expr.D("items", "$items")
	return mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", expr.D("items", c.x.array)),
		c.lookup(extra, mongo.Pipeline{
			expr.Op("$sort", c.byNumber(1)),
			expr.Op("$project", expr.D("items", c.x.array)),
		}),
		expr.Op("$unwind", expr.D("path", "$"+extra, "preserveNullAndEmptyArrays", true, "includeArrayIndex", at)),
		// The parent's own comes with its first overflow document, or without one.
		expr.Op("$project", expr.D("part", expr.Cond(expr.Op("$gt", "$"+at, 0), bson.A{"$" + extra},
			expr.Cond(expr.Op("$eq", "$"+at, 0), bson.A{own, "$" + extra}, bson.A{own})))),
		expr.Op("$unwind", "$part"),
	}
}

// ContainingPipeline gives {_id: <the parent's>} of the parents whose lists hold an
// element that equals e, each once, in no order: the books that a customer bought.
// Run it on the parents' collection, not in a transaction, which refuses $unionWith.
// Create an index on the array in both collections if it is to be fast.
func (l *Lists[ID, E]) ContainingPipeline(e E) (_ mongo.Pipeline, err error) {
	defer fault.In(&err, "outlier: containing")
	x, err := l.c.element(e)
	if err != nil {
		return nil, err
	}
	match := expr.Op("$match", bson.D{l.c.holds(x)})
	return mongo.Pipeline{
		match,
		expr.Op("$project", expr.D("_id", 1)),
		expr.Op("$unionWith", expr.D("coll", l.c.overflow.Name(), "pipeline", mongo.Pipeline{
			match,
			expr.Op("$project", expr.D("_id", expr.Field(l.c.o.ParentField))),
		})),
		expr.Op("$group", expr.D("_id", "$_id")),
	}, nil
}
