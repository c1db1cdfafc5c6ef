package outlier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Total returns how many elements a list has: ErrNotFound without a parent.
//
// Cost: 1 round trip, 1 document, found by _id.
func (l *Lists[ID, E]) Total(ctx context.Context, id ID) (int64, error) {
	raw, err := l.id(id)
	if err != nil {
		return 0, fmt.Errorf("outlier: total: %w", err)
	}
	var s state
	err = l.coll.FindOne(ctx, l.parent(raw), options.FindOne().SetProjection(
		bson.D{{Key: "total", Value: op("$toLong", l.total(l.array()))}})).Decode(&s)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = ErrNotFound
	}
	if err != nil {
		return 0, l.fail("total", raw, err)
	}
	return s.Total, nil
}

// Contains reports whether a list holds an element that equals e: ErrNotFound
// without a parent.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the element; else 2, by the index {parent, n} all its overflow documents
// up to the element, or with Options.ElementIndex 1 key and document.
func (l *Lists[ID, E]) Contains(ctx context.Context, id ID, e E) (bool, error) {
	raw, x, err := l.one(id, e)
	if err != nil {
		return false, fmt.Errorf("outlier: contains: %w", err)
	}
	held, err := l.contains(ctx, raw, x)
	if err != nil {
		return false, l.fail("contains", raw, err)
	}
	return held, nil
}

func (l *lists) contains(ctx context.Context, id, x bson.RawValue) (bool, error) {
	var s state
	err := l.coll.FindOne(ctx, l.parent(id), options.FindOne().SetProjection(bson.D{
		{Key: "flag", Value: l.flagged()},
		{Key: "held", Value: op("$cond", op("$in", constant(x), l.array()), 1, 0)},
	})).Decode(&s)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, ErrNotFound
	}
	if err != nil || s.Held > 0 || !s.Flag {
		return s.Held > 0, err
	}
	if txn.Running(ctx) { // which sees one state, and refuses $unionWith
		err := l.overflow.FindOne(ctx, append(l.extras(id), l.holds(x)), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return false, nil
		}
		return err == nil, err
	}
	// The parent again after the overflow documents: it has what was folded back
	// before they were read.
	only := stage("$project", bson.D{{Key: "_id", Value: 1}})
	cursor, err := l.overflow.Aggregate(ctx, mongo.Pipeline{
		stage("$match", append(l.extras(id), l.holds(x))),
		stage("$limit", 1), only,
		stage("$unionWith", bson.D{{Key: "coll", Value: l.coll.Name()}, {Key: "pipeline", Value: mongo.Pipeline{
			stage("$match", append(l.parent(id), l.holds(x))), only,
		}}}),
		stage("$limit", 1),
	})
	if err != nil {
		return false, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	return cursor.Next(ctx), cursor.Err()
}

// contents decodes the elements through the client's registry, under a name of
// our own.
type contents[E any] struct {
	Flag  bool        `bson:"flag"`
	Total int64       `bson:"total"`
	Size  int64       `bson:"size"`
	Items elements[E] `bson:"items"`
	// Of an overflow document:
	Number bson.RawValue `bson:"n"`
	List   bool          `bson:"list"`
}

// elements is a type of its own because the driver decodes no array as a []byte.
type elements[E any] []E

// Items yields the whole list in order: ErrNotFound without a parent. The
// elements of an outlier are read in a snapshot transaction (its own, unless ctx
// is in one): what others, or the loop body, add, remove or fold back meanwhile
// does not show. It must end within the server's limit for a transaction, 60 s by
// default; that goes for the loop body too. One that takes longer, or may have to
// go on where it stopped, reads by Page.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow.
// Outliers: 4, further ones for more than 101 overflow documents or 16 MiB; by
// the index {parent, n} 1 key and document for each.
func (l *Lists[ID, E]) Items(ctx context.Context, id ID) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		raw, err := l.id(id)
		if err != nil {
			err = fmt.Errorf("outlier: items: %w", err)
		} else if err = l.items(ctx, raw, yield); err != nil {
			err = l.fail("items", raw, err)
		}
		if err != nil {
			var zero E
			yield(zero, err)
		}
	}
}

var errInterrupted = errors.New("interrupted")

func (l *Lists[ID, E]) items(ctx context.Context, raw bson.RawValue, yield func(E, error) bool) error {
	// An outlier's are read again in the transaction.
	inside, err := l.inside(ctx, raw, op("$cond", l.flagged(), bson.A{}, l.array()))
	if err != nil {
		return err
	}
	if !inside.Flag {
		for _, e := range inside.Items {
			if !yield(e, nil) {
				return nil
			}
		}
		return nil
	}
	if !txn.Running(ctx) { // a session in ctx is for what the loop body does
		ctx = mongo.NewSessionContext(ctx, nil)
	}
	var begun, done bool
	var failure error // after the first element, when nothing may run again
	err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) error {
		if done {
			return nil // only the commit of a reading transaction is in doubt
		}
		err := l.all(ctx, raw, func(e E) bool {
			begun = true
			return yield(e, nil)
		})
		if err != nil && begun {
			failure = err
			return errInterrupted // has no label that asks for a retry
		}
		done = err == nil
		return err
	})
	switch {
	case done:
		return nil
	case failure != nil:
		return failure
	}
	return err
}

// inside reads these elements of a parent. Its size is for the server to refuse
// what is no array.
func (l *Lists[ID, E]) inside(ctx context.Context, id bson.RawValue, items any) (contents[E], error) {
	var c contents[E]
	err := l.coll.FindOne(ctx, l.parent(id), options.FindOne().SetProjection(bson.D{
		{Key: "_id", Value: 0}, {Key: "flag", Value: l.flagged()}, {Key: "size", Value: size(l.array())}, {Key: "items", Value: items},
	})).Decode(&c)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = ErrNotFound
	}
	return c, err
}

// all visits the elements of an outlier, within a transaction.
func (l *Lists[ID, E]) all(ctx context.Context, id bson.RawValue, visit func(E) bool) error {
	c, err := l.inside(ctx, id, l.array())
	if err != nil {
		return err
	}
	for _, e := range c.Items {
		if !visit(e) {
			return nil
		}
	}
	cursor, err := l.overflow.Find(ctx, l.extras(id), options.Find().SetSort(l.byNumber(1)).SetProjection(bson.D{
		{Key: "_id", Value: 0}, {Key: "items", Value: l.anyArray()},
		{Key: "n", Value: "$" + l.opts.NumberField}, {Key: "list", Value: l.isList()},
	}))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		var c contents[E]
		if err := cursor.Decode(&c); err != nil {
			return err
		}
		if !c.List {
			return l.notArray(c.Number)
		}
		for _, e := range c.Items {
			if !visit(e) {
				return nil
			}
		}
	}
	return cursor.Err()
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

// Page returns up to limit elements of a list from position offset, the first
// being 0: ErrNotFound without a parent. Elements that are added come behind all
// others, so pages that were full stay as they are. When an element is removed
// those behind it move up by one position; folding back and the like change no
// position. So while others remove, pages read one after the other can miss
// elements, but repeat none.
//
// Cost: 1 round trip, 1 document, found by _id, if the parent has no overflow or
// holds the whole page. Else 5: in a snapshot transaction the parent again, the
// sizes of all its overflow documents by the index {parent, n}, for which the
// server reads them whole, and those with the page.
func (l *Lists[ID, E]) Page(ctx context.Context, id ID, offset, limit int64) (Page[E], error) {
	raw, err := l.id(id)
	switch {
	case err != nil:
	case offset < 0:
		err = fmt.Errorf("offset: %w: negative", ErrInvalid)
	case limit <= 0:
		err = fmt.Errorf("limit: %w: not positive", ErrInvalid)
	}
	if err != nil {
		return Page[E]{}, fmt.Errorf("outlier: page: %w", err)
	}
	// math.MaxInt32 is what $slice takes.
	page, err := l.page(ctx, raw, min(offset, math.MaxInt32), min(limit, math.MaxInt32))
	if err != nil {
		return Page[E]{}, l.fail("page", raw, err)
	}
	return page, nil
}

func (l *Lists[ID, E]) page(ctx context.Context, raw bson.RawValue, offset, limit int64) (page Page[E], err error) {
	if !txn.Running(ctx) {
		c, err := l.slice(ctx, raw, offset, limit)
		if err != nil {
			return page, err
		}
		if !c.Flag || offset+limit <= c.Size {
			return l.pageOf(c, offset), nil
		}
	}
	err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) error {
		c, err := l.slice(ctx, raw, offset, limit)
		if err == nil && c.Flag && offset+limit > c.Size {
			err = l.fill(ctx, raw, &c, offset, limit)
		}
		page = l.pageOf(c, offset)
		return err
	})
	return page, err
}

func (l *Lists[ID, E]) pageOf(c contents[E], offset int64) Page[E] {
	return Page[E]{c.Items, c.Total, offset+int64(len(c.Items)) < c.Total}
}

// slice reads what the parent holds of a page.
func (l *Lists[ID, E]) slice(ctx context.Context, id bson.RawValue, offset, limit int64) (c contents[E], err error) {
	array := l.array()
	cursor, err := l.coll.Aggregate(ctx, mongo.Pipeline{
		stage("$match", l.parent(id)),
		stage("$project", bson.D{
			{Key: "_id", Value: 0}, {Key: "flag", Value: l.flagged()}, {Key: "total", Value: op("$toLong", l.total(array))},
			{Key: "size", Value: size(array)}, {Key: "items", Value: op("$slice", array, offset, limit)},
		}),
	})
	if err != nil {
		return c, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	switch {
	case cursor.Next(ctx):
		err = cursor.Decode(&c)
	case cursor.Err() != nil:
		err = cursor.Err()
	default:
		err = ErrNotFound
	}
	return c, err
}

// fill adds what the overflow documents hold of a page.
func (l *Lists[ID, E]) fill(ctx context.Context, id bson.RawValue, c *contents[E], offset, limit int64) error {
	array := l.array()
	all, err := l.extents(ctx, id)
	if err != nil {
		return err
	}
	var numbers bson.A // of the overflow documents with the page
	start, skip := c.Size, int64(0)
	for _, x := range all {
		if !x.List {
			return l.notArray(x.Number)
		}
		if end := start + x.Size; end > offset && start < offset+limit {
			if len(numbers) == 0 {
				skip = max(0, offset-start)
			}
			numbers = append(numbers, x.Number)
		}
		start += x.Size
	}
	if len(numbers) == 0 {
		return nil
	}
	cursor, err := l.overflow.Find(ctx, append(l.extras(id), bson.E{Key: l.opts.NumberField, Value: bson.D{{Key: "$in", Value: numbers}}}),
		options.Find().SetSort(l.byNumber(1)).SetProjection(bson.D{
			{Key: "_id", Value: 0},
			{Key: "items", Value: op("$cond", op("$eq", l.number(), op("$literal", numbers[0])),
				op("$slice", array, skip, limit-int64(len(c.Items))),
				op("$slice", array, 0, limit-int64(len(c.Items))))},
		}))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		var more contents[E]
		if err := cursor.Decode(&more); err != nil {
			return err
		}
		room := limit - int64(len(c.Items))
		c.Items = append(c.Items, more.Items[:min(room, int64(len(more.Items)))]...)
	}
	return cursor.Err()
}

// TotalExpression is the number of a parent's elements, for a $project of your own
// over any parents, say, and a $sort by it.
func (l *lists) TotalExpression() bson.D { return l.total(l.anyArray()) }

// ItemsPipeline gives the elements of the parents that filter selects, one
// document {_id: <the parent's>, item: <element>} for each, those of one parent
// in their order. Run it on the parents' collection. It is one $lookup for each
// parent, by the index {parent, n}.
func (l *lists) ItemsPipeline(filter bson.D) mongo.Pipeline {
	if filter == nil {
		filter = bson.D{}
	}
	return append(l.parts(filter),
		stage("$unwind", "$part.items"),
		stage("$project", bson.D{{Key: "item", Value: "$part.items"}}))
}

// parts gives the arrays of the parents that filter selects as documents {_id:
// <the parent's>, part: {_id, items}}, the parent's own without an _id.
func (l *lists) parts(filter bson.D) mongo.Pipeline {
	const extra, at = "extra", "at"
	own := bson.D{{Key: "items", Value: "$items"}}
	return mongo.Pipeline{
		stage("$match", filter),
		stage("$project", bson.D{{Key: "items", Value: l.array()}}),
		stage("$lookup", bson.D{
			{Key: "from", Value: l.overflow.Name()},
			{Key: "localField", Value: "_id"},
			{Key: "foreignField", Value: l.opts.ParentField},
			{Key: "pipeline", Value: mongo.Pipeline{
				stage("$sort", l.byNumber(1)),
				stage("$project", bson.D{
					{Key: "items", Value: l.array()},
				}),
			}},
			{Key: "as", Value: extra},
		}),
		stage("$unwind", bson.D{
			{Key: "path", Value: "$" + extra},
			{Key: "preserveNullAndEmptyArrays", Value: true},
			{Key: "includeArrayIndex", Value: at},
		}),
		// The parent's own comes with its first overflow document, or without one.
		stage("$project", bson.D{{Key: "part", Value: op("$switch", bson.D{
			{Key: "branches", Value: bson.A{
				bson.D{{Key: "case", Value: op("$gt", "$"+at, 0)}, {Key: "then", Value: bson.A{"$" + extra}}},
				bson.D{{Key: "case", Value: op("$eq", "$"+at, 0)}, {Key: "then", Value: bson.A{own, "$" + extra}}},
			}},
			{Key: "default", Value: bson.A{own}},
		})}}),
		stage("$unwind", "$part"),
	}
}

// ContainingPipeline gives {_id: <the parent's>} of the parents whose lists hold
// an element that equals e, each once, in no order: the books that a customer
// bought. Run it on the parents' collection, not in a transaction, which refuses
// $unionWith. It takes an index on the array in both collections,
// {customers_purchased: 1}, which you create if you need it.
func (l *Lists[ID, E]) ContainingPipeline(e E) (mongo.Pipeline, error) {
	x, err := encode.Value(l.opts.Registry, e)
	if err != nil {
		return nil, fmt.Errorf("outlier: element: %w: %w", ErrInvalid, err)
	}
	return mongo.Pipeline{
		stage("$match", bson.D{l.holds(x)}),
		stage("$project", bson.D{{Key: "_id", Value: 1}}),
		stage("$unionWith", bson.D{{Key: "coll", Value: l.overflow.Name()}, {Key: "pipeline", Value: mongo.Pipeline{
			stage("$match", bson.D{l.holds(x)}),
			stage("$project", bson.D{{Key: "_id", Value: "$" + l.opts.ParentField}}),
		}}}),
		stage("$group", bson.D{{Key: "_id", Value: "$_id"}}),
	}, nil
}
