package attribute

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Get returns the value of this key. Without one it is ErrNoAttribute, without
// such a document ErrNotFound; an ArrayField that is no array is ErrNotArray.
//
// Cost: 1 round trip, 1 document read, found by _id.
func (a *Attributes[ID, V]) Get(ctx context.Context, id ID, key string, qualifier ...string) (V, error) {
	value, err := a.get(ctx, bson.D{{Key: "_id", Value: equal(id)}}, key, qualifier)
	return value, wrap("get", ofDocument(id, err))
}

// GetBy returns the value of this key in a document that filter selects: of the
// first one found, if there are several. If none has such an entry it is
// ErrNoAttribute.
//
// Cost: 1 round trip; 1 document read, by an index whose Prefix the filter
// names.
func (a *Attributes[ID, V]) GetBy(ctx context.Context, filter bson.D, key string, qualifier ...string) (V, error) {
	q, err := a.one(qualifier)
	if err != nil {
		var zero V
		return zero, wrap("get by", err)
	}
	value, err := a.get(ctx, and(filter, a.has(key, a.identity(q))), key, qualifier)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = at(ErrNoAttribute, key, q)
	}
	return value, wrap("get by", err)
}

func (a *Attributes[ID, V]) get(ctx context.Context, filter bson.D, key string, qualifiers []string) (V, error) {
	var zero V
	q, err := a.one(qualifiers)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return zero, err
	}
	found, err := a.read(ctx, filter, a.keyed("$$o", key, a.identity(q)))
	if err != nil {
		return zero, err
	}
	if len(found) == 0 {
		return zero, at(ErrNoAttribute, key, q)
	}
	return found[0].Value, nil
}

// GetAll returns all entries in the order of the array. Elements that are no
// entries, see Check, are left out. Without such a document it is ErrNotFound; an
// ArrayField that is no array is ErrNotArray.
//
// Cost: 1 round trip, 1 document read, found by _id.
func (a *Attributes[ID, V]) GetAll(ctx context.Context, id ID) ([]Attribute[V], error) {
	found, err := a.read(ctx, bson.D{{Key: "_id", Value: equal(id)}}, a.valid("$$o"))
	if err != nil {
		return nil, wrap("get all", ofDocument(id, err))
	}
	out := make([]Attribute[V], len(found))
	for i, entry := range found {
		out[i] = Attribute[V](entry)
	}
	return out, nil
}

// ofDocument names the document that a read found the reason of its error in.
func ofDocument(id any, err error) error {
	switch {
	case errors.Is(err, ErrNoAttribute), errors.Is(err, ErrNotArray):
		return fmt.Errorf("%w: _id %s", err, text(id))
	case errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("%w: _id %s", ErrNotFound, text(id))
	}
	return err
}

// stored is an entry under the names that read and ValuesPipeline give it.
type stored[V any] struct {
	Key       string `bson:"key"`
	Value     V      `bson:"value"`
	Qualifier string `bson:"qualifier"`
}

// read returns the entries of the first document found that match.
func (a *Attributes[ID, V]) read(ctx context.Context, filter, match bson.D) ([]stored[V], error) {
	var doc struct {
		Writable bool        `bson:"writable"`
		Entries  []stored[V] `bson:"entries"`
	}
	err := a.coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{
		{Key: "_id", Value: 0}, {Key: "writable", Value: a.isWritable()}, {Key: "entries", Value: a.uniform(match)},
	})).Decode(&doc)
	if err == nil && !doc.Writable {
		err = fmt.Errorf("%w: %q", ErrNotArray, a.array)
	}
	return doc.Entries, err
}

// uniform is the entries that match as {key, value, qualifier}.
func (c *core) uniform(match bson.D) bson.D {
	return mapped(filtered(c.entries(), "o", match), "o", bson.D{
		{Key: "key", Value: "$$o." + c.key},
		{Key: "value", Value: op("$ifNull", "$$o."+c.value, nil)},
		{Key: "qualifier", Value: c.qualifierOf("$$o")},
	})
}

// A Value is the value of a key in one of several documents.
type Value[ID, V any] struct {
	ID        ID     `bson:"_id" json:"id"`
	Value     V      `bson:"value" json:"value"`
	Qualifier string `bson:"qualifier" json:"qualifier,omitempty"`
}

// Values yields the value of this key from all documents that filter selects
// and that have it, in no particular order. With qualifiers it yields the
// entries that have one of them, without all of the key. Malformed entries and
// documents whose ArrayField is no array, see Check, are left out. A nil filter
// is all documents.
//
// Cost: 1 round trip a batch of the cursor; the documents with the key are
// read, by the index if its Prefix is in the filter.
func (a *Attributes[ID, V]) Values(ctx context.Context, filter bson.D, key string, qualifier ...string) iter.Seq2[Value[ID, V], error] {
	return func(yield func(Value[ID, V], error) bool) {
		err := each(ctx, a.coll, a.ValuesPipeline(filter, key, qualifier...), yield)
		if err != nil {
			yield(Value[ID, V]{}, wrap("values", err))
		}
	}
}

// ValuesPipeline is what Values runs; its documents are {_id, value,
// qualifier}.
func (a *Attributes[ID, V]) ValuesPipeline(filter bson.D, key string, qualifier ...string) mongo.Pipeline {
	return mongo.Pipeline{
		op("$match", and(filter, a.has(key, qualifier))),
		op("$project", bson.D{{Key: "entries", Value: a.uniform(op("$and", a.valid("$$o"), a.keyed("$$o", key, qualifier)))}}),
		op("$unwind", "$entries"),
		op("$project", bson.D{{Key: "value", Value: "$entries.value"}, {Key: "qualifier", Value: "$entries.qualifier"}}),
	}
}

// each decodes what a pipeline returns until yield has enough.
func each[T any](ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline, yield func(T, error) bool) error {
	cursor, err := coll.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		var out T
		if err := cursor.Decode(&out); err != nil {
			return err
		}
		if !yield(out, nil) {
			return nil
		}
	}
	return cursor.Err()
}
