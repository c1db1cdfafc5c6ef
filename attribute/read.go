package attribute

import (
	"context"
	"errors"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Get returns the value of this key. It returns ErrNoAttribute if the document has no such entry,
// ErrNotFound if the document does not exist, and ErrMalformed if ArrayField is not an array.
//
// Cost: 1 round trip, 1 document read, index _id.
func (a *Attributes[ID, V]) Get(ctx context.Context, id ID, key Key) (v V, err error) {
	ctx = comment.Call(ctx, "attribute.Get")
	defer fault.In(&err, "attribute.Get")
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return v, err
	}
	v, err = a.get(ctx, expr.D("_id", equal(id)), name, qualifier)
	return v, ofDocument(id, err)
}

// GetBy returns the value of this key in a document that filter selects and that has the key. If
// several documents do, it takes the first one found. If none does, it returns ErrNoAttribute.
//
// Cost: 1 round trip; 1 document read, by an index whose Prefix the filter names.
func (a *Attributes[ID, V]) GetBy(ctx context.Context, filter any, key Key) (v V, err error) {
	ctx = comment.Call(ctx, "attribute.GetBy")
	defer fault.In(&err, "attribute.GetBy")
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return v, err
	}
	if err := codec.CheckFilter("filter", filter); err != nil {
		return v, err
	}
	v, err = a.get(ctx, expr.And(filter, a.c.has(name, a.c.only(qualifier))), name, qualifier)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = at(ErrNoAttribute, name, qualifier)
	}
	return v, err
}

func (a *Attributes[ID, V]) get(ctx context.Context, filter any, key, qualifier string) (v V, err error) {
	found, err := read[V](ctx, a.c, a.c.coll, filter, a.c.values(key, qualifier))
	if err != nil {
		return v, err
	}
	if len(found) == 0 {
		return v, at(ErrNoAttribute, key, qualifier)
	}
	return found[0], nil
}

// GetAll returns all entries in the order of the array. It leaves out elements that are not entries
// (see Check). It returns ErrNotFound if the document does not exist, and ErrMalformed if
// ArrayField is not an array.
//
// Cost: 1 round trip, 1 document read, index _id.
func (a *Attributes[ID, V]) GetAll(ctx context.Context, id ID) (out []Attribute[V], err error) {
	ctx = comment.Call(ctx, "attribute.GetAll")
	defer fault.In(&err, "attribute.GetAll")
	out, err = read[Attribute[V]](ctx, a.c, a.c.coll, expr.D("_id", equal(id)), a.c.uniform(a.c.valid("$$o")))
	return out, ofDocument(id, err)
}

// ofDocument adds the document's ID to errors that concern the document.
func ofDocument(id any, err error) error {
	switch {
	case errors.Is(err, ErrNoAttribute), errors.Is(err, mongopatterns.ErrMalformed):
		return of(id, err)
	case errors.Is(err, mongo.ErrNoDocuments):
		return of(id, mongopatterns.ErrNotFound)
	}
	return err
}

// list is a type of its own because the driver does not decode an array into a []byte.
type list[T any] []T

// read returns the result of the expression found for the first document that filter selects.
func read[T any](ctx context.Context, c *core, coll *scoped.Collection, filter, found any) (list[T], error) {
	var doc struct {
		Writable bool    `bson:"writable"`
		Found    list[T] `bson:"found"`
	}
	err := cursor.One(coll.FindOne(ctx, filter, options.FindOne().SetProjection(
		expr.D("_id", 0, "writable", c.x.writable, "found", found))), &doc)
	switch {
	case err != nil:
		return nil, err
	case !doc.Writable:
		return nil, c.notArray()
	}
	return doc.Found, nil
}

// uniform is the entries that meet match, as {key, value, qualifier}.
func (c *core) uniform(match bson.D) bson.D {
	return expr.Map(c.those(match), "o", c.x.entry)
}

// A Value is the value of a key in one of several documents.
type Value[ID, V any] struct {
	ID        ID     `bson:"_id" json:"id"`
	Value     V      `bson:"value" json:"value"`
	Qualifier string `bson:"qualifier" json:"qualifier,omitempty"`
}

// Values yields the value of this key in all documents that filter selects (nil: all) and that have
// it, in no particular order. If the key has qualifiers, it yields the entries with one of them,
// otherwise all entries with the key. It leaves out malformed entries and documents whose
// ArrayField is not an array (see Check).
//
// Cost: 1 round trip for each batch of the cursor.
//   - The documents with the key are read, by the index if its Prefix is in the filter.
func (a *Attributes[ID, V]) Values(ctx context.Context, filter any, key Key) iter.Seq2[Value[ID, V], error] {
	ctx = comment.Call(ctx, "attribute.Values")
	if err := codec.CheckFilter("filter", filter); err != nil {
		return fault.Seq("attribute.Values", fault.Stop[Value[ID, V]](err))
	}
	return fault.Seq("attribute.Values", cursor.Decode[Value[ID, V]](ctx, a.c.aggregate(a.ValuesPipeline(filter, key))))
}

// ValuesPipeline is the pipeline of Values; its documents are {_id, value, qualifier}.
func (a *Attributes[ID, V]) ValuesPipeline(filter any, key Key) mongo.Pipeline {
	name, qualifiers := key.name, key.qualifiers
	return a.c.coll.Scope().Stages(mongo.Pipeline{
		expr.Op("$match", expr.And(filter, a.c.has(name, qualifiers))),
		expr.Op("$project", expr.D("entries", a.c.uniform(expr.Op("$and", a.c.valid("$$o"), a.c.keyed(name, qualifiers))))),
		expr.Op("$unwind", "$entries"),
		expr.Op("$project", expr.D("value", "$entries.value", "qualifier", "$entries.qualifier")),
	})
}

func (c *core) aggregate(pipeline mongo.Pipeline) func(context.Context) (*mongo.Cursor, error) {
	return func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	}
}
