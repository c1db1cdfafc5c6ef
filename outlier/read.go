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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Total returns how many elements a list has, or ErrNotFound if the parent does not exist.
//
// Cost: 1 round trip, 1 document, index _id.
func (l *Lists[ID, E]) Total(ctx context.Context, id ID) (total int64, err error) {
	ctx = comment.Call(ctx, "outlier.Total")
	defer fault.In(&err, "outlier.Total")
	raw, err := l.c.codec.ID("id", id)
	if err != nil {
		return 0, err
	}
	s, err := l.c.read(ctx, raw, l.c.x.size)
	if err != nil {
		return 0, fault.Of(raw, err)
	}
	n, _ := s.Of.AsInt64OK()
	return s.Outside + n, nil
}

// Contains reports whether a list holds an element that equals e. It returns ErrNotFound if
// the parent does not exist.
//
// Cost: 1 round trip, 1 document, index _id, if the parent has no overflow or holds the element.
//   - Else 2, or 3 if it holds none, by the index {parent, n} all its overflow documents up to the element, or with
//     Options.ElementIndex 1 key and 1 document.
func (l *Lists[ID, E]) Contains(ctx context.Context, id ID, e E) (held bool, err error) {
	ctx = comment.Call(ctx, "outlier.Contains")
	defer fault.In(&err, "outlier.Contains")
	raw, x, err := l.c.pair(id, e)
	if err != nil {
		return false, err
	}
	c := &l.c
	_, err = c.still(ctx, raw, expr.Op("$in", expr.Literal(x), c.x.array), func(ctx context.Context, s state) error {
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

// still reads a parent and calls read for its overflow documents. It repeats both if something
// was moved or removed meanwhile, so that they belong to one moment. Writers that never stop make it ErrConflict.
func (c *core) still(ctx context.Context, id bson.RawValue, of any, read func(context.Context, state) error) (state, error) {
	ctx, end := txn.Causal(ctx, c.coll) // the one shows what the other has shown
	defer end()
	for range maxAttempts {
		before, err := c.read(ctx, id, of)
		if err != nil {
			return before, err
		}
		if err := read(ctx, before); err != nil || !before.Flag {
			return before, err
		}
		after, err := c.read(ctx, id, nil)
		if err != nil || after.Flag && after.Moved == before.Moved && after.Outside == before.Outside {
			return before, err
		}
	}
	return state{}, errKeepsChanging
}

// elements is a type of its own because the driver does not decode an array into a []byte.
type elements[E any] []E

// decode decodes an array; null and nothing are an empty one.
func decode[E any](c codec.Codec, array bson.RawValue) (elements[E], error) {
	switch array.Type {
	case 0, bson.TypeNull:
		return nil, nil
	case bson.TypeArray:
		return codec.DecodeValue[elements[E]](c, array)
	}
	return nil, errNotArray
}

// All yields the whole list in order, as of one moment, or ErrNotFound if the parent does not
// exist. An outlier is read into memory before the first element is yielded. Read a list that is
// too long for that with Slice.
//
// Cost: 1 round trip, 1 document, index _id, if the parent has no overflow.
//   - Outliers: 3, more beyond 16 MiB, by the index {parent, n} 1 key and 1 document for each overflow document; 3
//     again if elements have moved meanwhile.
func (l *Lists[ID, E]) All(ctx context.Context, id ID) iter.Seq2[E, error] {
	ctx = comment.Call(ctx, "outlier.All")
	return fault.Seq("outlier.All", func(yield func(E, error) bool) {
		raw, err := l.c.codec.ID("id", id)
		if err != nil {
			fault.Stop[E](err)(yield)
			return
		}
		arrays, parent, err := l.c.load(ctx, raw, 1, 0, expr.Op("$project", expr.D(l.c.o.ArrayField, 1)))
		if err != nil {
			fault.Stop[E](fault.Of(raw, err))(yield)
			return
		}
		for _, array := range append(arrays, parent.Of) {
			es, err := decode[E](l.c.codec, array)
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

// load reads a parent, with of applied to its array, and the arrays of its overflow documents,
// if these hold elements at or after position from. stages are applied to the overflow
// documents in their order.
func (c *core) load(ctx context.Context, id bson.RawValue, of any, from int64, stages ...bson.D) (
	arrays []bson.RawValue, parent state, err error) {
	parent, err = c.still(ctx, id, of, func(ctx context.Context, s state) error {
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

// A Slice is a range of consecutive elements of a list.
type Slice[E any] struct {
	// Items are the elements, in order. It is never nil.
	Items []E `json:"items"`
	// Total is how many elements the list has.
	Total int64 `json:"total"`
	// HasNext says that elements follow.
	HasNext bool `json:"hasNext"`
}

// Slice returns up to limit elements of a list from position offset, counted from 0, or ErrNotFound
// if the parent does not exist. New elements come last, and after a removal all later elements move
// up. So slices that are read one after the other can miss elements while others remove some, but
// do not repeat any.
//
// Cost: 1 round trip, 1 document, index _id, if the parent has no overflow or holds the whole slice, as it does the
// last ones.
//   - An outlier whose parent holds the slice: 2.
//   - Else 3, more beyond 16 MiB, by the index {parent, n}: the server reads the overflow documents to the end of the
//     slice, and some ahead.
func (l *Lists[ID, E]) Slice(ctx context.Context, id ID, offset, limit int64) (slice Slice[E], err error) {
	ctx = comment.Call(ctx, "outlier.Slice")
	defer fault.In(&err, "outlier.Slice")
	raw, err := l.c.codec.ID("id", id)
	switch {
	case err != nil:
		return slice, err
	case offset < 0:
		return slice, fault.Invalid("offset: it is negative")
	case limit <= 0:
		return slice, fault.Invalid("limit: it must be positive")
	}
	// $slice takes at most math.MaxInt32.
	arrays, total, err := l.c.slice(ctx, raw, min(offset, math.MaxInt32), min(limit, math.MaxInt32))
	if err != nil {
		return slice, fault.Of(raw, err)
	}
	slice.Items = []E{}
	for _, array := range arrays {
		es, err := decode[E](l.c.codec, array)
		if err != nil {
			return Slice[E]{}, fault.Of(raw, err)
		}
		slice.Items = append(slice.Items, es[:min(int64(len(es)), limit-int64(len(slice.Items)))]...)
	}
	slice.Total, slice.HasNext = total, offset+int64(len(slice.Items)) < total
	return slice, nil
}

// slice returns arrays whose first limit elements are the slice, and the total.
func (c *core) slice(ctx context.Context, id bson.RawValue, offset, limit int64) ([]bson.RawValue, int64, error) {
	// The parent has the last elements; before is how many elements of the page lie outside.
	outside, array := c.x.outside, expr.Field(c.o.ArrayField)
	before := expr.Op("$max", 0, expr.Op("$subtract", outside, offset))
	items := expr.Cond(expr.Op("$gte", before, limit), bson.A{}, expr.Op("$slice", c.x.array,
		expr.Op("$toInt", expr.Op("$max", 0, expr.Op("$subtract", offset, outside))),
		expr.Op("$toInt", expr.Op("$max", 1, expr.Op("$subtract", limit, before)))))
	arrays, parent, err := c.load(ctx, id, document("items", items, "size", c.x.size), offset,
		expr.Op("$project", expr.D(c.o.ArrayField, c.anyArray())), // $unwind takes anything else for an element
		expr.Op("$unwind", array), expr.Op("$skip", offset), expr.Op("$limit", limit),
		// Each element by itself: a $group would collect them in memory that the server bounds.
		expr.Op("$project", expr.D("_id", 0, c.o.ArrayField, bson.A{array})))
	if err != nil {
		return nil, 0, err
	}
	own := parent.Of.Document()
	return append(arrays, own.Lookup("items")), parent.Outside + own.Lookup("size").AsInt64(), nil
}

// TotalExpression is the number of elements of a parent, for your own $project over any parents,
// or to sort by it.
func (l *Lists[ID, E]) TotalExpression() bson.D {
	return expr.Op("$add", size(l.c.anyArray()), l.c.x.outside)
}

// ItemsPipeline yields one document {_id: <the parent's>, item: <element>} for each element of the
// parents that filter selects. The elements in the parent, the newest, come before those outside.
// Run it on the parents' collection. It does one $lookup for each parent, by the index {parent, n}.
func (l *Lists[ID, E]) ItemsPipeline(filter any) mongo.Pipeline {
	return append(l.c.parts(filter),
		expr.Op("$unwind", "$part.items"),
		expr.Op("$project", expr.D("item", "$part.items")))
}

// parts yields the arrays of the parents that filter selects as documents {_id: <the
// parent's>, part: {_id, items}}; the parent's own part has no _id.
func (c *core) parts(filter any) mongo.Pipeline {
	const extra, at = "extra", "at"
	own := expr.D("items", "$items")
	return c.coll.Scope().Stages(mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", expr.D("items", c.x.array)),
		c.lookup(extra, mongo.Pipeline{
			expr.Op("$sort", c.byNumber(1)),
			expr.Op("$project", expr.D("items", c.x.array)),
		}),
		expr.Op("$unwind", expr.D("path", "$"+extra, "preserveNullAndEmptyArrays", true, "includeArrayIndex", at)),
		// The parent's own array comes with its first overflow document, or alone.
		expr.Op("$project", expr.D("part", expr.Cond(expr.Op("$gt", "$"+at, 0), bson.A{"$" + extra},
			expr.Cond(expr.Op("$eq", "$"+at, 0), bson.A{own, "$" + extra}, bson.A{own})))),
		expr.Op("$unwind", "$part"),
	})
}

// ContainingPipeline yields {_id: <the parent's>}, each once and in no order, for the parents whose
// lists hold an element that equals e, such as the books that a customer bought. Run it on the
// parents' collection, outside of transactions, which refuse $unionWith. To make it fast, create an
// index on the array in both collections.
func (l *Lists[ID, E]) ContainingPipeline(e E) (pipeline mongo.Pipeline, err error) {
	defer fault.In(&err, "outlier.Containing")
	x, err := l.c.element(e)
	if err != nil {
		return nil, err
	}
	match := expr.Op("$match", l.c.coll.Scope().Match(bson.D{l.c.holds(x)}))
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
