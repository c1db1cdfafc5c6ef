package outlier

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// Lists keeps a list of elements E in each document of a collection, and what
// is too much for a document in overflow documents. ID is the type of the
// parents' _id. It is safe for concurrent use.
type Lists[ID, E any] struct {
	lists
}

// lists is what does not depend on the types: IDs and elements are BSON here.
type lists struct {
	coll, overflow *mongo.Collection
	opts           Options
}

// New returns Lists over the parents in coll, with overflow documents in
// overflow, another collection of the same database. It does no I/O. Neither may
// have the write concern w: 0: what is written next hangs on the answer.
//
// E encodes to any BSON value: a string, an ObjectID, a document. opts may be
// nil. All that write one list must use the same names; MaxCount and the other
// bounds may change, see Adopt. Parents may have several lists, each with Lists, an
// ArrayField and an overflow collection of its own: in a shared one they would
// take each other's documents for theirs.
func New[ID, E any](coll, overflow *mongo.Collection, opts *Options) (*Lists[ID, E], error) {
	switch {
	case coll == nil:
		return nil, errors.New("outlier: nil collection")
	case overflow == nil:
		return nil, errors.New("outlier: nil overflow collection")
	case coll.Database().Name() != overflow.Database().Name():
		return nil, fmt.Errorf("outlier: overflow collection: not in the database %q of the parents", coll.Database().Name())
	case coll.Name() == overflow.Name():
		return nil, errors.New("outlier: overflow collection: the parents' own")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("outlier: %w", err)
	}
	return &Lists[ID, E]{lists{coll, overflow, o}}, nil
}

// Indexes returns the index of the parents besides _id: {items_overflow: 1},
// partial, which holds outliers only and serves OutliersFilter.
func (l *lists) Indexes() []mongo.IndexModel {
	return []mongo.IndexModel{{
		Keys:    bson.D{{Key: l.opts.FlagField, Value: 1}},
		Options: options.Index().SetPartialFilterExpression(l.OutliersFilter()),
	}}
}

// OverflowIndexes returns the indexes of the overflow documents besides _id: the
// unique {parent: 1, n: 1}, and with Options.ElementIndex {parent: 1, items: 1}.
func (l *lists) OverflowIndexes() []mongo.IndexModel {
	o := l.opts
	models := []mongo.IndexModel{{
		Keys:    bson.D{{Key: o.ParentField, Value: 1}, {Key: o.NumberField, Value: 1}},
		Options: options.Index().SetUnique(true),
	}}
	if o.ElementIndex {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: o.ParentField, Value: 1}, {Key: o.ArrayField, Value: 1}}})
	}
	return models
}

// EnsureIndexes creates the Indexes and OverflowIndexes that are missing. An
// index on the same keys with other options is ErrIndexConflict; nothing is
// dropped.
//
// Cost: 1 round trip for each of the two collections if they are all there,
// else 2.
func (l *lists) EnsureIndexes(ctx context.Context) error {
	err := indexes.Ensure(ctx, l.coll, l.Indexes())
	if err == nil {
		err = indexes.Ensure(ctx, l.overflow, l.OverflowIndexes())
	}
	if err != nil {
		return fmt.Errorf("outlier: %w", err)
	}
	return nil
}

// ShardKey returns the recommended shard key of the parents, {_id: 1}: every
// write of a parent filters on it.
func (l *lists) ShardKey() bson.D { return bson.D{{Key: "_id", Value: 1}} }

// OverflowShardKey returns the recommended shard key of the overflow documents,
// {parent: 1}: every read and write of them filters on it, and those of a list
// lie on one shard.
func (l *lists) OverflowShardKey() bson.D { return bson.D{{Key: l.opts.ParentField, Value: 1}} }

// Filter selects the parent document.
func (l *Lists[ID, E]) Filter(id ID) bson.D { return bson.D{{Key: "_id", Value: l.equal(id)}} }

// OverflowFilter selects the overflow documents of a parent; Options.NumberField
// has their order.
func (l *Lists[ID, E]) OverflowFilter(id ID) bson.D {
	return bson.D{{Key: l.opts.ParentField, Value: l.equal(id)}}
}

// OutliersFilter selects the parents that have overflow documents, by the
// partial index of Indexes.
func (l *lists) OutliersFilter() bson.D { return bson.D{{Key: l.opts.FlagField, Value: true}} }

func (l *lists) parent(id bson.RawValue) bson.D {
	return bson.D{{Key: "_id", Value: l.equal(id)}}
}

// typical selects a parent that has no overflow documents.
func (l *lists) typical(id bson.RawValue) bson.D {
	return append(l.parent(id), bson.E{Key: l.opts.FlagField, Value: bson.D{{Key: "$ne", Value: true}}})
}

func (l *lists) extras(id bson.RawValue) bson.D {
	return bson.D{{Key: l.opts.ParentField, Value: l.equal(id)}}
}

// extra selects the overflow document with this _id.
func (l *lists) extra(id, extraID bson.RawValue) bson.D {
	return append(l.extras(id), bson.E{Key: "_id", Value: rawvalue.Equal(extraID)})
}

func (l *lists) byNumber(direction int) bson.D {
	return bson.D{{Key: l.opts.NumberField, Value: direction}}
}

// holds is the condition that one of the array's elements equals x. A plain
// equality would also match an array that is x, and a regular expression what it
// matches.
func (l *lists) holds(x bson.RawValue) bson.E {
	return bson.E{Key: l.opts.ArrayField, Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "$eq", Value: x}}}}}
}

// equal is the condition that a field equals value: the value itself, or {$eq:
// value} where the value would be read as an operator or a pattern. A value that
// cannot be encoded is left for the driver to refuse.
func (l *lists) equal(value any) any {
	raw, err := encode.Value(l.opts.Registry, value)
	if err != nil {
		return value
	}
	return rawvalue.Equal(raw)
}

// id encodes a parent's _id.
func (l *Lists[ID, E]) id(id ID) (bson.RawValue, error) {
	raw, err := encode.Value(l.opts.Registry, id)
	if err != nil {
		return raw, fmt.Errorf("ID: %w: %w", ErrInvalid, err)
	}
	switch raw.Type {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return raw, fmt.Errorf("ID: %w: a BSON %v", ErrInvalid, raw.Type)
	}
	return raw, nil
}

// elements encodes elements.
func (l *Lists[ID, E]) elements(es []E) ([]bson.RawValue, error) {
	out := make([]bson.RawValue, len(es))
	for i, e := range es {
		raw, err := encode.Value(l.opts.Registry, e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w: %w", i, ErrInvalid, err)
		}
		switch {
		case raw.Type == bson.TypeUndefined:
			return nil, fmt.Errorf("element %d: %w: a BSON %v", i, ErrInvalid, raw.Type)
		case len(raw.Value) > largestBytes: // refused before anything is written, also within a transaction
			return nil, fmt.Errorf("element %d: %w: larger than a document", i, ErrInvalid)
		}
		out[i] = raw
	}
	return out, nil
}

// one encodes an ID and an element.
func (l *Lists[ID, E]) one(id ID, e E) (bson.RawValue, bson.RawValue, error) {
	raw, err := l.id(id)
	if err != nil {
		return raw, raw, err
	}
	xs, err := l.elements([]E{e})
	if err != nil {
		return raw, raw, err
	}
	return raw, xs[0], nil
}

// fail is the error of an operation on one list. A refusal names the list; so is
// the error of a server that found no array in the array's field.
func (l *lists) fail(operation string, id bson.RawValue, err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
		return fmt.Errorf("outlier: %s: %w: _id %s", operation, err, rawvalue.Text(id))
	}
	var server mongo.ServerError
	if errors.As(err, &server) {
		// $size, $in, $indexOfArray, $concatArrays, $slice, $filter, $setIntersection
		for _, code := range []int{17124, 40081, 40090, 28664, 28724, 28651, 17047} {
			if server.HasErrorCode(code) {
				err = fmt.Errorf("field %q: %w: not an array: _id %s: %w", l.opts.ArrayField, ErrInvalid, rawvalue.Text(id), err)
				break
			}
		}
	}
	return fmt.Errorf("outlier: %s: %w", operation, err)
}

// notArray and notNumber say what is wrong with the overflow document of a number.
func (l *lists) notArray(number bson.RawValue) error {
	return fmt.Errorf("overflow document with %q %s: field %q: %w: not an array", l.opts.NumberField, rawvalue.Text(number), l.opts.ArrayField, ErrInvalid)
}

func (l *lists) notNumber(number bson.RawValue) error {
	return fmt.Errorf("overflow document with %q %s: %w: not a number", l.opts.NumberField, rawvalue.Text(number), ErrInvalid)
}

// Expressions. Those of the array fit parents and overflow documents alike.

func op(name string, args ...any) bson.D {
	if len(args) == 1 {
		return bson.D{{Key: name, Value: args[0]}}
	}
	return bson.D{{Key: name, Value: bson.A(args)}}
}

func literal(xs ...bson.RawValue) bson.D {
	array := make(bson.A, len(xs))
	for i, x := range xs {
		array[i] = x
	}
	return op("$literal", array)
}

func stage(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }

// array is the elements; of a field that is neither an array nor null or
// missing, an error where it is used as an array.
func (l *lists) array() bson.D { return op("$ifNull", "$"+l.opts.ArrayField, bson.A{}) }

// anyArray is array, with no elements where the field holds something else.
func (l *lists) anyArray() bson.D {
	return op("$cond", op("$isArray", "$"+l.opts.ArrayField), "$"+l.opts.ArrayField, bson.A{})
}

// isList says whether the array's field holds an array, or nothing.
func (l *lists) isList() bson.D {
	return op("$in", op("$type", "$"+l.opts.ArrayField), bson.A{"array", "missing", "null"})
}

func size(array any) bson.D { return op("$size", array) }

// bytes is the BSON size of a document with the array alone.
func bytes(array any) bson.D { return op("$bsonSize", bson.D{{Key: "a", Value: array}}) }

// emptyBytes is bytes of an empty array.
const emptyBytes = 13

// head is the first n elements, tail those behind them; n may be an expression.
func head(array, n any) bson.D {
	return op("$cond", op("$gt", n, 0), op("$slice", array, op("$max", n, 1)), bson.A{})
}

func tail(array, n any) bson.D {
	return op("$cond", op("$lt", n, size(array)), op("$slice", array, n, op("$max", size(array), 1)), bson.A{})
}

// number is the number of an overflow document, null for none.
func (l *lists) number() bson.D { return op("$ifNull", "$"+l.opts.NumberField, nil) }

func (l *lists) flagged() bson.D { return op("$eq", "$"+l.opts.FlagField, true) }

// total is the number of all elements as a parent says.
func (l *lists) total(array any) bson.D {
	return op("$cond", op("$and", l.flagged(), l.countable()), "$"+l.opts.TotalField, size(array))
}

// countable says that the total is a number that adding one changes. In the order
// of BSON what is no number, NaN and the infinities are not between these either.
func (l *lists) countable() bson.D {
	field := "$" + l.opts.TotalField
	return op("$and", op("$gt", field, int64(-1<<53)), op("$lt", field, int64(1<<53)))
}

// A state is a parent as it was before a write, without its elements.
type state struct {
	ID    bson.RawValue `bson:"id"`
	Flag  bool          `bson:"flag"`
	Total int64         `bson:"total"`
	Size  int64         `bson:"size"`
	Bytes int64         `bson:"bytes"`
	// Fresh is which of the elements to add the parent does not hold.
	Fresh []int `bson:"fresh"`
	// Held is how often the parent holds the element to remove.
	Held int64 `bson:"held"`
	// Again says that there is none of this but the elements, see modify.
	Again bool            `bson:"-"`
	Items []bson.RawValue `bson:"-"`
}

// modify changes a parent and returns its state before the change. Outside of a
// transaction the driver asks again if an answer is lost, and a server that has
// made the change already gives the whole document, not the projection of it.
func (l *lists) modify(ctx context.Context, filter bson.D, update mongo.Pipeline, projection bson.D) (before state, err error) {
	doc, err := l.coll.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().
		SetReturnDocument(options.Before).SetProjection(projection)).Raw()
	switch {
	case err != nil:
	case doc.Lookup("_id").IsZero(): // which all documents have, and no projection
		err = bson.Unmarshal(doc, &before)
	default:
		before.Again = true
		before.Items, err = l.values(doc)
	}
	return before, err
}

// project is the projection that decodes as a state, whatever number the total is.
func (l *lists) project(more ...bson.E) bson.D {
	array := l.array()
	return append(bson.D{
		{Key: "_id", Value: 0},
		{Key: "id", Value: "$_id"},
		{Key: "flag", Value: l.flagged()},
		{Key: "total", Value: op("$toLong", l.total(array))},
		{Key: "size", Value: size(array)},
		{Key: "bytes", Value: bytes(array)},
	}, more...)
}

// become is the stages that make a parent one with this total, or, if there is
// nothing outside of it, a typical one.
func (l *lists) become(set bson.D, outlier bool, total any) mongo.Pipeline {
	var unset bson.A
	if outlier {
		set = append(set, bson.E{Key: l.opts.FlagField, Value: true})
	} else {
		unset = append(unset, l.opts.FlagField)
	}
	if outlier || l.opts.CountTypical {
		set = append(set, bson.E{Key: l.opts.TotalField, Value: total})
	} else {
		unset = append(unset, l.opts.TotalField)
	}
	var out mongo.Pipeline
	if len(set) > 0 {
		out = append(out, stage("$set", set))
	}
	if len(unset) > 0 {
		out = append(out, stage("$unset", unset))
	}
	return out
}

// number keeps small numbers the type that the server gives to sizes.
func number(n int64) any {
	if n == int64(int32(n)) {
		return int32(n)
	}
	return n
}

// cost is what elements add to an array's bytes, at most.
func cost(xs []bson.RawValue) (n int64) {
	for _, x := range xs {
		n += int64(len(x.Value)) + elementOverhead
	}
	return n
}

// fitting is how many of xs fit behind size elements of so many bytes.
func fitting(xs []bson.RawValue, size, bytes int64, maxCount, maxBytes int) int {
	for i := range xs {
		bytes += cost(xs[i : i+1])
		if size+int64(i) >= int64(maxCount) || bytes > int64(maxBytes) {
			return i
		}
	}
	return len(xs)
}
