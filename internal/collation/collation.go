// Package collation refuses collections that have a default collation.
//
// A default collation decides which values are equal in every filter, $expr and index of a collection, also
// in the index on _id. A helper compares values as the server does under the simple collation; with another
// one a guard could treat "Ann" and "ann" as equal and overwrite a correction. Setting the collation of a
// single command does not help, because the index on _id keeps the collection's.
package collation

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Refuse returns ErrInvalid if one of the collections has a default collation. It asks outside the session of
// ctx, because a transaction cannot list collections.
//
// Cost: 1 round trip for each database of the collections.
func Refuse(ctx context.Context, colls ...*scoped.Collection) error {
	_, err := existing(ctx, colls)
	return err
}

// Create is Refuse of all the collections, and creates those of targets that do not exist, because a
// transaction over several shards cannot create one. It creates them outside the session of ctx.
//
// Cost: that of Refuse, and 1 round trip for each collection that it creates.
func Create(ctx context.Context, targets []*scoped.Collection, others ...*scoped.Collection) error {
	found, err := existing(ctx, slices.Concat(targets, others))
	if err != nil {
		return err
	}
	for _, coll := range targets {
		if slices.Contains(found, coll) {
			continue
		}
		// The driver's CreateCollection passes over the Timeout of the client.
		err := coll.Database().RunCommand(mongo.NewSessionContext(ctx, nil), comment.Command(ctx, expr.D("create", coll.Name()))).Err()
		var refused mongo.CommandError
		if errors.As(err, &refused) && refused.Code == namespaceExists {
			err = nil // another process created it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namespaceExists is the server's code for a collection that exists.
const namespaceExists = 48

// existing returns the collections that exist. It returns ErrInvalid if one of them has a default collation.
func existing(ctx context.Context, colls []*scoped.Collection) (found []*scoped.Collection, err error) {
	for len(colls) > 0 {
		db, named, others := colls[0].Database(), map[string]*scoped.Collection{}, []*scoped.Collection(nil)
		for _, coll := range colls {
			if of := coll.Database(); of.Name() == db.Name() && of.Client() == db.Client() {
				named[coll.Name()] = coll
			} else {
				others = append(others, coll)
			}
		}
		// On the primary: a secondary may not have the collection yet.
		primary := db.Client().Database(db.Name(), options.Database().SetReadPreference(readpref.Primary()))
		all, err := primary.ListCollectionSpecifications(mongo.NewSessionContext(ctx, nil),
			expr.D("name", expr.Op("$in", slices.Sorted(maps.Keys(named)))))
		if err != nil {
			return nil, err
		}
		for _, its := range all {
			found = append(found, named[its.Name])
			if locale := value.Lookup(its.Options, "collation.locale"); locale.Type != 0 {
				return nil, fault.Invalid("collection %q has the default collation %s, by which different values can be equal in filters and in its _id index: use a collection without one",
					its.Name, value.Text(locale))
			}
		}
		colls = others
	}
	return found, nil
}

// Seq runs Refuse when the loop begins, and then yields seq.
func Seq[T any](ctx context.Context, seq iter.Seq2[T, error], colls ...*scoped.Collection) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := Refuse(ctx, colls...); err != nil {
			fault.Stop[T](err)(yield)
			return
		}
		seq(yield)
	}
}
