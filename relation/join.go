package relation

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// JoinOptions are the fields of a join collection.
type JoinOptions struct {
	// A and B are the fields with the two _ids. Default "a" and "b".
	A, B string
	// Registry and BSON encode the IDs. Default: the driver's own.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Join is a many-to-many relation of which each link is a document, {a: …, b: …},
// with other fields of yours if you like.
type Join[A, B any] struct {
	coll  *mongo.Collection
	a, b  string
	codec codec.Codec
}

// NewJoin returns a relation by the links in coll. It does no I/O.
func NewJoin[A, B any](coll *mongo.Collection, opts *JoinOptions) (j *Join[A, B], err error) {
	defer fault.In(&err, "relation: new join")
	var o JoinOptions
	if opts != nil {
		o = *opts
	}
	if err := config.Collections("coll", coll); err != nil {
		return nil, err
	}
	if err := config.Apply(config.Name("JoinOptions.A", &o.A, "a"), config.Name("JoinOptions.B", &o.B, "b")); err != nil {
		return nil, err
	}
	return &Join[A, B]{coll, o.A, o.B, codec.Codec{Registry: o.Registry, BSON: o.BSON}}, nil
}

// Indexes are {a: 1, b: 1}, unique, and {b: 1, a: 1}, by collection name. They cover
// all reads.
func (j *Join[A, B]) Indexes() map[string][]mongo.IndexModel {
	return map[string][]mongo.IndexModel{j.coll.Name(): {
		{Keys: bson.D{{Key: j.a, Value: 1}, {Key: j.b, Value: 1}}, Options: options.Index().SetUnique(true)},
		{Keys: bson.D{{Key: j.b, Value: 1}, {Key: j.a, Value: 1}}},
	}}
}

// EnsureIndexes creates the indexes that are missing.
//
// Cost: 1 round trip, 2 if an index is missing.
func (j *Join[A, B]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "relation: ensure indexes")
	return indexes.EnsureAll(ctx, j.coll.Database(), j.Indexes())
}

// ShardKey is {a: 1, b: 1}, by collection name.
func (j *Join[A, B]) ShardKey() map[string]bson.D {
	return map[string]bson.D{j.coll.Name(): {{Key: j.a, Value: 1}, {Key: j.b, Value: 1}}}
}

// link is the document of a link as a filter.
func (j *Join[A, B]) link(a A, b B) (bson.D, error) {
	out := bson.D{}
	for _, side := range []struct {
		field string
		id    any
	}{{j.a, a}, {j.b, b}} {
		id, err := j.codec.ID(side.field, side.id)
		if err != nil {
			return nil, err
		}
		out = append(out, bson.E{Key: side.field, Value: value.Equal(id)})
	}
	return out, nil
}

// Link links a and b. A link that is there already is no error. Neither document is
// looked at: see Fetch for dangling links.
//
// Cost: 1 round trip, 1 document written, index {a: 1, b: 1}.
func (j *Join[A, B]) Link(ctx context.Context, a A, b B) (err error) {
	defer fault.In(&err, "relation: link")
	link, err := j.link(a, b)
	if err != nil {
		return err
	}
	// The server repeats an upsert that lost a race on just this unique key.
	_, err = j.coll.UpdateOne(ctx, link, bson.D{{Key: "$setOnInsert", Value: bson.D{}}}, options.UpdateOne().SetUpsert(true))
	return err
}

// Unlink takes the link away. One that is not there is no error.
//
// Cost: 1 round trip, 1 document written, index {a: 1, b: 1}.
func (j *Join[A, B]) Unlink(ctx context.Context, a A, b B) (err error) {
	defer fault.In(&err, "relation: unlink")
	link, err := j.link(a, b)
	if err == nil {
		_, err = j.coll.DeleteOne(ctx, link)
	}
	return err
}

// Has reports whether a and b are linked.
//
// Cost: 1 round trip, index {a: 1, b: 1}.
func (j *Join[A, B]) Has(ctx context.Context, a A, b B) (has bool, err error) {
	defer fault.In(&err, "relation: has")
	link, err := j.link(a, b)
	if err == nil {
		err = j.coll.FindOne(ctx, link, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: j.a, Value: 1}})).Err()
	}
	if isAbsent(err) {
		return false, nil
	}
	return err == nil, err
}

// Bs are the _ids that a is linked with, in their order; Fetch reads their documents.
//
// Cost: 1 round trip a batch; the index {a: 1, b: 1} answers it alone.
func (j *Join[A, B]) Bs(ctx context.Context, a A) (out []B, err error) {
	defer fault.In(&err, "relation: bs")
	return side[B](ctx, j.coll, j.codec, j.a, a, j.b)
}

// As are the _ids that b is linked with, in their order.
//
// Cost: 1 round trip a batch; the index {b: 1, a: 1} answers it alone.
func (j *Join[A, B]) As(ctx context.Context, b B) (out []A, err error) {
	defer fault.In(&err, "relation: as")
	return side[A](ctx, j.coll, j.codec, j.b, b, j.a)
}

func side[V any](ctx context.Context, coll *mongo.Collection, c codec.Codec, from string, id any, to string) ([]V, error) {
	key, err := c.Value(id)
	if err != nil {
		return nil, err
	}
	var all []bson.RawValue
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return coll.Find(ctx, bson.D{{Key: from, Value: value.Equal(key)}}, options.Find().
			SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: to, Value: 1}}).SetSort(bson.D{{Key: to, Value: 1}}))
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, doc.Lookup(to))
	}
	return decoded[V](c, all)
}
