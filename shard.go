package mongopatterns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Sharder is implemented by every helper of a pattern that stores documents.
type Sharder interface {
	Indexes() map[string][]mongo.IndexModel
	EnsureIndexes(ctx context.Context) error
	ShardKey() map[string]bson.D
}

// Sharding is how a collection is sharded.
type Sharding struct {
	Collection string
	Key        bson.D
	// Unique: the pattern has a unique index on the key.
	Unique bool
	// Found: the collection was sharded before the call.
	Found bool
}

// Shard shards the collections of the helpers, which must all be in db, by their ShardKey. It first creates
// their indexes, then an index on the key if no index begins with it, and then shards. In this order a
// unique index can serve the shard key. If the collection were sharded first, EnsureIndexes would find a
// plain index on the key and return ErrIndexConflict. A collection may already have documents. Shard can be
// repeated. It returns what it did and what it found, sorted by collection name, even if it also returns an
// error.
//
// A collection that is already sharded by the same fields keeps its key. For a hashed _id, shard the collection that
// way yourself beforehand. Shard returns ErrInvalid, and does nothing, if a collection is sharded by other fields,
// if two helpers want different fields for one collection, if an argument is nil, or if the server is not a mongos.
// All documents begin on one shard. The balancer spreads them, or you do with zones (docs/scaling.md). Shard needs
// the privileges to read the config database and to shard.
//
// Cost: 1 round trip, and for each collection those of EnsureIndexes and 2, or 1 if it is sharded
// already.
func Shard(ctx context.Context, db *mongo.Database, helpers ...Sharder) (done []Sharding, err error) {
	ctx = comment.Call(ctx, "Shard")
	defer fault.In(&err, "mongopatterns.Shard")
	if db == nil {
		return nil, fault.Invalid("db is nil")
	}
	if i := slices.Index(helpers, nil); i >= 0 {
		return nil, fault.Invalid("helpers[%d] is nil", i)
	}
	keys, unique, err := shardKeys(helpers)
	if err != nil {
		return nil, err
	}
	err = scoped.On(db.Client().Database("config").Collection("shards")).FindOne(ctx, bson.D{}).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, fmt.Errorf("%w: the server is not a mongos, because it has no config.shards", fault.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(keys))
	found := map[string]*Sharding{}
	for _, name := range names {
		if found[name], err = sharding(ctx, db, name); err != nil {
			return nil, err
		}
		if s := found[name]; s != nil && !sameFields(s.Key, keys[name]) {
			return nil, fmt.Errorf("%w: %s is sharded by %v, and the helper wants %v: reshardCollection changes it", fault.ErrInvalid, name, s.Key, keys[name])
		}
	}
	for _, h := range helpers {
		if err := h.EnsureIndexes(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		s := found[name]
		if s == nil {
			s = &Sharding{Collection: name, Key: keys[name], Unique: unique[name]}
			if err := s.shard(ctx, db); err != nil {
				return done, fmt.Errorf("%s: %w", name, err)
			}
		}
		done = append(done, *s)
	}
	return done, nil
}

// shardKeys returns the keys that helpers want, by collection, and whether a unique index serves the key. It refuses two keys
// for one collection.
func shardKeys(helpers []Sharder) (keys map[string]bson.D, unique map[string]bool, err error) {
	keys, unique = map[string]bson.D{}, map[string]bool{}
	for _, h := range helpers {
		models := h.Indexes()
		for name, key := range h.ShardKey() {
			other := keys[name]
			if other != nil && !sameFields(other, key) {
				return nil, nil, fault.Invalid("%s: one helper wants the shard key %v, another %v", name, other, key)
			}
			if other == nil {
				keys[name] = key
			}
			for _, m := range models[name] {
				serves, err := uniqueOn(m, key)
				if err != nil {
					return nil, nil, err
				}
				unique[name] = unique[name] || serves
			}
		}
	}
	return keys, unique, nil
}

// sharding reads how a collection is sharded; nil if it is not.
func sharding(ctx context.Context, db *mongo.Database, name string) (*Sharding, error) {
	var entry struct {
		Key    bson.D `bson:"key"`
		Unique bool   `bson:"unique"`
	}
	collections := scoped.On(db.Client().Database("config").Collection("collections"))
	err := collections.FindOne(ctx, bson.D{{Key: "_id", Value: db.Name() + "." + name}, {Key: "key", Value: bson.D{{Key: "$exists", Value: true}}}}).Decode(&entry)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return &Sharding{name, entry.Key, entry.Unique, true}, err
}

// namespaceNotFound is the server's code for a collection that does not exist.
const namespaceNotFound = 26

// shard shards a collection. A unique index on the key must exist already.
func (s *Sharding) shard(ctx context.Context, db *mongo.Database) error {
	specs, err := db.Collection(s.Collection).Indexes().ListSpecifications(ctx)
	if fault.HasCode(err, namespaceNotFound) {
		specs, err = nil, nil
	}
	if err != nil {
		return err
	}
	begins := func(i mongo.IndexSpecification) bool {
		var key bson.D
		return bson.Unmarshal(i.KeysDocument, &key) == nil && (i.Sparse == nil || !*i.Sparse) &&
			len(key) >= len(s.Key) && sameFields(key[:len(s.Key)], s.Key) && sameKinds(key[:len(s.Key)], s.Key)
	}
	if len(specs) > 0 && !slices.ContainsFunc(specs, begins) {
		if _, err := fault.One(db.Collection(s.Collection).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: s.Key})); err != nil {
			return err
		}
	}
	return fault.Single(db.Client().Database("admin").RunCommand(ctx, comment.Command(ctx, bson.D{{Key: "shardCollection", Value: db.Name() + "." + s.Collection},
		{Key: "key", Value: s.Key}, {Key: "unique", Value: s.Unique}}))).Err()
}

// uniqueOn reports whether a model is a unique index on the fields of the key and covers all documents.
func uniqueOn(model mongo.IndexModel, key bson.D) (bool, error) {
	var opts options.IndexOptions
	if model.Options != nil {
		for _, set := range model.Options.List() {
			if err := set(&opts); err != nil {
				return false, err
			}
		}
	}
	doc, err := bson.Marshal(model.Keys)
	if err != nil {
		return false, err
	}
	var fields bson.D
	if err := bson.Unmarshal(doc, &fields); err != nil {
		return false, err
	}
	return opts.Unique != nil && *opts.Unique && opts.PartialFilterExpression == nil && sameFields(fields, key) && sameKinds(fields, key), nil
}

// sameFields reports whether two keys have the same fields in the same order, hashed or not.
func sameFields(a, b bson.D) bool {
	return slices.EqualFunc(a, b, func(a, b bson.E) bool { return a.Key == b.Key })
}

// sameKinds reports whether two keys hash the same fields.
func sameKinds(a, b bson.D) bool {
	return slices.EqualFunc(a, b, func(a, b bson.E) bool {
		x, _ := a.Value.(string)
		y, _ := b.Value.(string)
		return x == y
	})
}
