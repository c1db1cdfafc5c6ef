package outlier

import (
	"context"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
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
	s, err := l.c.read(ctx, l.c.coll, raw)
	return s.Total, fault.Of(raw, err)
}

// Contains reports whether a list holds an element that equals e: ErrNotFound
// without a parent.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the element; else 2, by the index {parent, n} all its overflow documents up
// to the element, or with Options.ElementIndex 1 key and document.
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

func (c *core) contains(ctx context.Context, id, x bson.RawValue) (bool, error) {
	held := expr.Element("held", expr.Op("$in", expr.Literal(x), c.array()))
	s, err := c.read(ctx, c.coll, id, held)
	if err != nil || s.Held || !s.Flag {
		return s.Held, err
	}
	// One snapshot of both, as elements move both ways.
	found, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return snapshot(c.coll).Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", c.parent(id)),
			c.lookup("extra", mongo.Pipeline{
				expr.Op("$match", bson.D{c.holds(x)}), expr.Op("$limit", 1), expr.Op("$project", bson.D{{Key: "_id", Value: 1}}),
			}),
			expr.Op("$match", bson.D{{Key: "$or", Value: bson.A{
				bson.D{c.holds(x)}, bson.D{{Key: "extra.0", Value: bson.D{{Key: "$exists", Value: true}}}}}}}),
			expr.Op("$project", bson.D{{Key: "_id", Value: 1}}),
		})
	}))
	return len(found) > 0, err
}

// snapshot is coll with reads of one moment, of what a majority has.
func snapshot(coll *mongo.Collection) *mongo.Collection {
	return coll.Clone(options.Collection().SetReadConcern(readconcern.Snapshot()))
}

// elements is a type of its own because the driver decodes no array as a []byte.
type elements[E any] []E

func decode[E any](c *core, array bson.RawValue) (elements[E], error) {
	return codec.DecodeValue[elements[E]](c.codec, array)
}

// All yields the whole list in order: ErrNotFound without a parent. What others add,
// remove or move meanwhile does not show: an outlier is read as it was at one moment,
// as far as a majority has it. The server keeps that for 5 minutes, if it is not told
// otherwise; what takes longer reads by Page.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow.
// Outliers: 3, further ones for more than 101 overflow documents or 16 MiB; by the
// index {parent, n} 1 key and document for each.
func (l *Lists[ID, E]) All(ctx context.Context, id ID) iter.Seq2[E, error] {
	return fault.Seq("outlier: all", func(yield func(E, error) bool) {
		raw, err := l.c.id(id)
		if err != nil {
			fault.Stop[E](err)(yield)
			return
		}
		for array, err := range l.c.arrays(ctx, raw) {
			var es elements[E]
			if err == nil {
				es, err = decode[E](&l.c, array)
			}
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

// arrays yields the arrays of a list in order: those of overflow documents by their
// numbers, then the parent's.
func (c *core) arrays(ctx context.Context, id bson.RawValue) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		// An outlier is read again in the snapshot.
		s, err := c.read(ctx, c.coll, id, expr.Element("items", expr.Cond(c.flagged(), bson.A{}, c.array())))
		if err != nil || !s.Flag {
			yield(s.Items, err)
			return
		}
		ctx, end, err := c.oneMoment(ctx)
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		defer end()
		s, err = c.read(ctx, c.coll, id, expr.Element("items", c.array()))
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.overflow.Find(ctx, c.extras(id), options.Find().SetSort(c.byNumber(1)).SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: c.o.ArrayField, Value: 1}}))
		}) {
			array := doc.Lookup(c.o.ArrayField)
			switch {
			case err != nil:
			case array.IsZero() || array.Type == bson.TypeNull:
				continue
			case array.Type != bson.TypeArray:
				err = errNotArray
			}
			if !yield(array, err) || err != nil {
				return
			}
		}
		yield(s.Items, nil)
	}
}

// oneMoment is a context in which all reads see the same moment: the caller's
// transaction, or else a session for snapshot reads, which end closes. A session of
// the caller's is left to what they do meanwhile.
func (c *core) oneMoment(ctx context.Context) (_ context.Context, end func(), err error) {
	if txn.Running(ctx) {
		return ctx, func() {}, nil
	}
	session, err := c.coll.Database().Client().StartSession(options.Session().SetSnapshot(true))
	if err != nil {
		return ctx, nil, err
	}
	return mongo.NewSessionContext(ctx, session), func() { session.EndSession(context.WithoutCancel(ctx)) }, nil
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
// holds the whole page, as it does the last ones. Else 3, by the index {parent, n}:
// the server reads all overflow documents for their sizes.
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
	s, err := c.slice(ctx, id, offset, limit)
	if err != nil || offset >= s.Total-s.Size {
		return []bson.RawValue{s.Items}, s.Total, err
	}
	ctx, end, err := c.oneMoment(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	if s, err = c.slice(ctx, id, offset, limit); err != nil {
		return nil, 0, err
	}
	array, name := c.anyArray(), c.o.ParentField+c.o.NumberField+c.o.ArrayField // is none of these
	start := expr.Op("$subtract", expr.Field(name), size(array))
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", c.extras(id)),
			expr.Op("$setWindowFields", bson.D{{Key: "sortBy", Value: c.byNumber(1)}, {Key: "output", Value: bson.D{
				{Key: name, Value: bson.D{{Key: "$sum", Value: size(array)}, {Key: "window", Value: bson.D{
					{Key: "documents", Value: bson.A{"unbounded", "current"}}}}}}}}}),
			expr.Op("$match", expr.Op("$expr", expr.Op("$and",
				expr.Op("$gt", expr.Field(name), offset), expr.Op("$lt", start, offset+limit)))),
			expr.Op("$sort", c.byNumber(1)),
			expr.Op("$project", bson.D{{Key: "_id", Value: 0}, {Key: "items", Value: expr.Op("$slice", array,
				expr.Op("$max", 0, expr.Op("$subtract", offset, start)), limit)}}),
		})
	}))
	for _, doc := range docs {
		arrays = append(arrays, doc.Lookup("items"))
	}
	return append(arrays, s.Items), s.Total, err
}

// slice reads what the parent holds of a page: it has the last elements.
func (c *core) slice(ctx context.Context, id bson.RawValue, offset, limit int64) (state, error) {
	array := c.array()
	outside := expr.Op("$subtract", c.total(array), size(array))
	before := expr.Op("$max", 0, expr.Op("$subtract", outside, offset)) // how many of the page lie outside
	found, err := cursor.Collect(cursor.Decode[state](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", c.parent(id)),
			expr.Op("$project", c.state(expr.Element("items", expr.Cond(expr.Op("$gte", before, limit), bson.A{},
				expr.Op("$slice", array, expr.Op("$toInt", expr.Op("$max", 0, expr.Op("$subtract", offset, outside))),
					expr.Op("$toInt", expr.Op("$max", 1, expr.Op("$subtract", limit, before)))))))),
		})
	}))
	if err == nil && len(found) == 0 {
		err = mongo.ErrNoDocuments
	}
	var s state
	if len(found) > 0 {
		s = found[0]
	}
	return s, usable(s, err)
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
