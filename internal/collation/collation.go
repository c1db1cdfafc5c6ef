// Package collation refuses collections that have a default collation.
//
// A default collation decides what every filter, $expr and index of a collection takes for
// equal, also the index on _id. A helper compares values as the server does under the simple
// collation: in a guard it would take "Ann" for "ann" and overwrite the correction. A
// collation of a single command does not help: the index on _id keeps the collection's.
package collation

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Refuse is ErrInvalid if one of the collections, all of one database, has a default
// collation. It asks outside the session of ctx, as no transaction lists collections.
//
// Cost: 1 round trip.
func Refuse(ctx context.Context, colls ...*mongo.Collection) error {
	if len(colls) == 0 {
		return nil
	}
	names := bson.A{}
	for _, coll := range colls {
		names = append(names, coll.Name())
	}
	db := colls[0].Database() // on the primary: a secondary may not have the collection yet
	db = db.Client().Database(db.Name(), options.Database().SetReadPreference(readpref.Primary()))
	all, err := db.ListCollectionSpecifications(mongo.NewSessionContext(ctx, nil),
		expr.D("name", expr.Op("$in", names)))
	if err != nil {
		return err
	}
	for _, its := range all {
		if locale := value.Lookup(its.Options, "collation.locale"); locale.Type != 0 {
			return fault.Invalid("collection %q has the default collation %s: its filters and its _id index would take different values for equal",
				its.Name, value.Text(locale))
		}
	}
	return nil
}

// Seq is seq after Refuse, which runs when the loop begins.
func Seq[T any](ctx context.Context, seq iter.Seq2[T, error], colls ...*mongo.Collection) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := Refuse(ctx, colls...); err != nil {
			fault.Stop[T](err)(yield)
			return
		}
		seq(yield)
	}
}
