package outlier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// errNotAdopted also says what to do.
var errNotAdopted = fmt.Errorf("%w: run Adopt", mongopatterns.ErrNotAdopted)

// errWrittenBack says that an Add has to move elements out of a parent that other code has written back. Add then adopts
// the list; in a transaction of the caller's it returns the error.
var errWrittenBack = fmt.Errorf("%w: other code has written the parent back: run Adopt", mongopatterns.ErrNotAdopted)

var errUnclear = fmt.Errorf("%w: other code has written the parent back, and some elements are there twice: decide as the comment of Adopt says",
	mongopatterns.ErrNotAdopted)

var errNotArray = fault.Malformed("the list is not an array")

// Lists keeps a list of elements E in each document of a collection. Lists that are too long for
// one document continue in overflow documents. ID is the type of the parents' _id. It is safe for
// concurrent use.
type Lists[ID, E any] struct{ c core }

// core does the work on BSON; Lists encodes and decodes.
type core struct {
	coll, overflow *scoped.Collection // both read from the primary

	o     Options
	codec codec.Codec
	x     fixed
}

// New returns Lists over the parents in coll, with overflow documents in overflow,
// another collection of the same database.
//
// E may encode to any BSON value, such as a string, an ObjectID or a document. All programs that
// write one list must use the same field names. The bounds may change (see Adopt).
func New[ID, E any](coll, overflow *mongo.Collection, opts *Options) (l *Lists[ID, E], err error) {
	defer fault.In(&err, "outlier.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	if opts != nil && opts.Set {
		if err := codec.CheckOrder[E]("E"); err != nil {
			return nil, err
		}
	}
	if err := config.Collections("coll", coll, "overflow", overflow); err != nil {
		return nil, err
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	c := codec.New(coll, o.Registry, o.BSON)
	of, err := scope.New(c, o.Scope)
	if err != nil {
		return nil, err
	}
	return &Lists[ID, E]{core{cursor.Primary(scoped.On(coll).In(of)), cursor.Primary(scoped.On(overflow).In(of)), o, c, o.fixed()}}, nil
}

// Indexes returns the indexes by collection. All begin with the scope. The parents have the partial index {items_overflow: 1}
// of outliers only. The overflow documents have {parent: 1, n: 1}, and with Options.ElementIndex
// {parent: 1, items: 1}.
func (l *Lists[ID, E]) Indexes() map[string][]mongo.IndexModel {
	o, of := l.c.o, l.c.coll.Scope()
	parents := mongo.IndexModel{Keys: of.Keys(expr.D(o.FlagField, 1)),
		Options: options.Index().SetPartialFilterExpression(expr.D(o.FlagField, true))}
	overflow := []mongo.IndexModel{{Keys: of.Keys(expr.D(o.ParentField, 1, o.NumberField, 1))}}
	if o.ElementIndex {
		overflow = append(overflow, mongo.IndexModel{Keys: of.Keys(expr.D(o.ParentField, 1, o.ArrayField, 1))})
	}
	return map[string][]mongo.IndexModel{l.c.coll.Name(): {parents}, l.c.overflow.Name(): overflow}
}

// EnsureIndexes creates the Indexes that are missing. It drops nothing. If an index on the same
// keys has other options, it returns ErrIndexConflict.
//
// Cost: 1 round trip, and 1 for each of the two collections; where one is missing 2.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (l *Lists[ID, E]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "outlier.EnsureIndexes")
	defer fault.In(&err, "outlier.EnsureIndexes")
	if err := l.c.ready(ctx, nil); err != nil {
		return err
	}
	if err := l.c.codec.CheckClient(ctx, l.c.coll, reflect.TypeFor[ID](), reflect.TypeFor[E]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, l.c.coll.Database(), l.Indexes())
}

// ShardKey returns the recommended shard keys by collection, behind the scope: {_id: 1} for the parents,
// {parent: 1} for the overflow documents. Every write filters on them.
func (l *Lists[ID, E]) ShardKey() map[string]bson.D {
	of := l.c.coll.Scope()
	return map[string]bson.D{l.c.coll.Name(): of.Keys(expr.D("_id", 1)), l.c.overflow.Name(): of.Keys(expr.D(l.c.o.ParentField, 1))}
}

// Filter selects the parent.
func (l *Lists[ID, E]) Filter(id ID) bson.D {
	return l.c.coll.Scope().Match(expr.D("_id", l.c.codec.Condition(id)))
}

// OverflowFilter selects the overflow documents of a parent. Sort them by
// Options.NumberField.
func (l *Lists[ID, E]) OverflowFilter(id ID) bson.D {
	return l.c.coll.Scope().Match(expr.D(l.c.o.ParentField, l.c.codec.Condition(id)))
}

// OutliersFilter selects the parents that have overflow documents, with the partial
// index of Indexes.
func (l *Lists[ID, E]) OutliersFilter() bson.D {
	return l.c.coll.Scope().Match(expr.D(l.c.o.FlagField, true))
}

func (c *core) ready(ctx context.Context, work *mongopatterns.Work) error {
	return maintain.Ready(ctx, work, c.coll, c.overflow)
}

// aggregate reads all documents in as few batches as the server allows.
func aggregate(ctx context.Context, coll *scoped.Collection, pipeline mongo.Pipeline) ([]bson.Raw, error) {
	return cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return coll.Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(1<<20))
	}))
}

func (c *core) pair(id, e any) (raw, x bson.RawValue, err error) {
	if raw, err = c.codec.ID("id", id); err != nil {
		return raw, x, err
	}
	x, err = c.element(e)
	return raw, x, fault.Of(raw, err)
}

// element encodes an element that is compared with stored ones: in a set, and where it is looked for.
func (c *core) element(e any) (bson.RawValue, error) {
	if err := codec.Ordered(e); err != nil {
		return bson.RawValue{}, fmt.Errorf("element: %w", err)
	}
	return c.encode(e)
}

// added encodes an element that is added. Only a set compares it.
func (c *core) added(e any) (bson.RawValue, error) {
	if c.o.Set {
		return c.element(e)
	}
	return c.encode(e)
}

func (c *core) encode(e any) (bson.RawValue, error) {
	x, err := c.codec.Value(e)
	switch {
	case err != nil:
	case x.Type == bson.TypeUndefined:
		err = fault.Invalid("element: it is undefined")
	case c.o.Set && len(x.Value) > maxAdded:
		err = fault.Invalid("element: it has more than %d bytes, the most in a set", maxAdded)
	}
	return x, err
}

func (c *core) parent(id bson.RawValue, more ...bson.E) bson.D {
	return append(expr.D("_id", value.Equal(id)), more...)
}

// extras selects the overflow documents of a parent, not one that somebody typed with an array of parents.
func (c *core) extras(id bson.RawValue, more ...bson.E) bson.D {
	return append(expr.Is(c.o.ParentField, id), more...)
}

func (c *core) byNumber(direction int) bson.D { return expr.D(c.o.NumberField, direction) }

// holds is the condition that one of the array's elements equals x. A plain equality would
// also match an array that equals x, and a regular expression would match as a pattern.
func (c *core) holds(x bson.RawValue) bson.E {
	return expr.Element(c.o.ArrayField, expr.Op("$elemMatch", expr.Op("$eq", x)))
}

// Expressions. Those of the array work for parents and overflow documents alike.

// anyArray is the array, empty where the field holds something else.
func (c *core) anyArray() bson.D { return expr.Array(expr.Field(c.o.ArrayField)) }

// isList is the condition that the field holds an array, null or nothing.
func (c *core) isList() bson.D {
	return expr.IsType(expr.Field(c.o.ArrayField), "array", "missing", "null")
}

func size(array any) bson.D { return expr.Op("$size", array) }

// bytes is the BSON size of a document that holds only the array.
func bytes(array any) bson.D { return expr.Op("$bsonSize", expr.D("a", array)) }

// emptyBytes is bytes of an empty array.
const emptyBytes = 13

// fixed holds the parts of filters and expressions that are the same in every call. They are
// encoded once, because they are most of what a call sends.
type fixed struct {
	// array is the elements; an error where the field holds neither an array nor null nor
	// nothing. size and bytes are those of array. For a small document bytes is the size of
	// the whole document, which the server knows without counting.
	array, size, bytes any
	// outside is the number of elements outside. It is 0 without the flag, which other code may
	// have removed, and where the field does not hold a number.
	outside any
	// isNull[true] is the condition that the field holds null, isNull[false] that it does not.
	isNull map[bool]any
	// typical is the filter for parents without overflow documents, outlier for those with
	// overflow documents in the form of this package, own for both. Others are not adopted.
	typical, outlier, own bson.D
}

func (o *Options) fixed() (x fixed) {
	field := expr.Field(o.ArrayField)
	x.array = expr.Fixed(expr.IfNull(field, bson.A{}))
	x.size = expr.Fixed(size(x.array))
	whole := expr.Op("$bsonSize", "$$ROOT")
	x.bytes = expr.Fixed(expr.Cond(expr.Op("$lt", whole, o.MaxBytes/2), whole, bytes(x.array)))
	outside := expr.Field(o.OutsideField)
	counts := expr.Op("$and", expr.Op("$eq", expr.Field(o.FlagField), true), expr.Op("$isNumber", outside))
	x.outside = expr.Fixed(expr.Cond(counts, outside, 0))
	null := expr.IsType(field, "null")
	x.isNull = map[bool]any{true: expr.Fixed(null), false: expr.Fixed(expr.Op("$not", bson.A{null}))}
	single := func(condition ...any) any { // the same values as stateOf accepts
		return expr.Fixed(append(expr.D(condition...), expr.Element("$not", expr.AnArray)))
	}
	x.typical = expr.D(o.FlagField, single("$in", bson.A{nil, false}))
	x.outlier = expr.D(o.FlagField, single("$eq", true), o.moved(), single("$type", "objectId"), o.OutsideField,
		single("$gte", 1, "$lte", int64(math.MaxInt64), "$type", bson.A{"int", "long", "double"}))
	x.own = expr.D("$or", expr.Fixed(bson.A{x.typical, x.outlier}))
	return x
}

// A state is what a parent says about its list.
type state struct {
	ID      bson.RawValue
	Flag    bool          // it is an outlier
	Moved   bson.ObjectID // Options.moved()
	Outside int64         // elements in overflow documents
	Counted bool          // Outside is what the parent holds, and not 0 for what is no whole number
	Taken   string        // the field with a value of the user's that a move would overwrite, or ""
	Of      bson.RawValue // what the projection makes of the array
}

// state is the projection that reads a state; of is an expression of the array, nil for none.
func (c *core) state(of any) bson.D {
	out := expr.D(c.o.FlagField, 1, c.o.moved(), 1, c.o.OutsideField, 1)
	if of != nil {
		out = append(out, expr.Element(c.o.ArrayField, of))
	}
	return out
}

// document is an expression for a document. Without it a projection would apply the document
// to each element of the array.
func document(pairs ...any) bson.D { return expr.Op("$mergeObjects", expr.D(pairs...)) }

// stateOf reads a state from a document, or passes the error of reading that on. It returns
// errNotAdopted for a parent that is neither typical nor an outlier in the form of this package. A flag that is undefined
// makes it neither, because the filter for typical parents does not match that from MongoDB 8.0 on.
func (c *core) stateOf(doc bson.Raw, err error) (s state, _ error) {
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return s, mongopatterns.ErrNotFound
	case err != nil:
		return s, err
	}
	flag, moved := doc.Lookup(c.o.FlagField), false
	s.ID, s.Of, s.Taken = doc.Lookup("_id"), doc.Lookup(c.o.ArrayField), c.taken(doc)
	s.Moved, moved = doc.Lookup(c.o.moved()).ObjectIDOK()
	on, isBool := flag.BooleanOK()
	if isBool && !on || flag.Type == 0 || flag.Type == bson.TypeNull {
		return s, nil
	}
	s.Flag = on && moved
	outside := doc.Lookup(c.o.OutsideField)
	s.Outside, s.Counted = outside.AsInt64OK()
	s.Counted = s.Counted && value.Same(outside, value.Int64(s.Outside))
	if !s.Flag || s.Outside <= 0 {
		return s, errNotAdopted
	}
	return s, nil
}

// taken is the name of a field that a move would overwrite, and that holds what the pattern never stores, or "". A list
// with flag and ObjectID is the pattern's, whatever its number is. A number counts in a list that other code has flagged
// or that has lost its flag, but a list without flag and ObjectID has none.
func (c *core) taken(doc bson.Raw) string {
	flag, moved, outside := doc.Lookup(c.o.FlagField), doc.Lookup(c.o.moved()), doc.Lookup(c.o.OutsideField)
	on, isBool := flag.BooleanOK()
	nothing := func(v bson.RawValue) bool { return v.Type == 0 || v.Type == bson.TypeNull }
	flagged, own := !nothing(flag) && (on || !isBool), moved.Type == bson.TypeObjectID
	switch {
	case own && on:
		return ""
	case !own && !nothing(moved):
		return c.o.moved()
	case nothing(outside) || outside.IsNumber() && (own || flagged):
		return ""
	}
	return c.o.OutsideField
}

// errTaken is the error for a list whose field holds a value of the user's.
func errTaken(field string) error {
	return fault.Invalid("the field %q holds a value of yours, which would be lost: rename the field, or choose another name in Options", field)
}

// read reads a state from the primary: a state from a secondary might not belong to the overflow
// documents read with it.
func (c *core) read(ctx context.Context, id bson.RawValue, of any) (state, error) {
	doc, err := c.coll.FindOne(ctx, c.parent(id), options.FindOne().SetProjection(c.state(of))).Raw()
	return c.stateOf(doc, fault.Arrays(err))
}

// cost is how many bytes an element at this place adds to an array.
func cost(x bson.RawValue, place int) int { return len(x.Value) + len(strconv.Itoa(place)) + 2 }

// sizeOf is the size in bytes of elements that begin at this place of an array.
func sizeOf(xs []bson.RawValue, from int) (n int) {
	for i, x := range xs {
		n += cost(x, from+i)
	}
	return n
}

// fitting is how many of xs fit after size elements of this many bytes.
func fitting(xs []bson.RawValue, size, bytes, maxCount, maxBytes int) int {
	for i, x := range xs {
		bytes += cost(x, size+i)
		if size+i >= maxCount || bytes > maxBytes {
			return i
		}
	}
	return len(xs)
}
