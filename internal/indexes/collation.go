package indexes

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Simple refuses collections of a database that have a default collation: look-ups by _id and
// guards of writes follow it, and would take different values for one. It asks outside any session,
// as no transaction lists collections.
//
// Cost: 1 round trip.
func Simple(ctx context.Context, colls ...*mongo.Collection) error {
	names := make(bson.A, len(colls))
	for i, coll := range colls {
		names[i] = coll.Name()
	}
	filter := bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: names}}}}
	all, err := colls[0].Database().ListCollectionSpecifications(mongo.NewSessionContext(ctx, nil), filter)
	if err != nil {
		return fmt.Errorf("list collections: %w", err)
	}
	for _, its := range all {
		if locale, ok := value.Lookup(its.Options, "collation.locale").StringValueOK(); ok && locale != "simple" {
			return fault.Invalid("collection %q has the default collation %q, by which different values are equal: create it anew without one", its.Name, locale)
		}
	}
	return nil
}

// IfSimple is seq, or the error of Simple alone.
func IfSimple[T any](ctx context.Context, seq iter.Seq2[T, error], colls ...*mongo.Collection) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := Simple(ctx, colls...); err != nil {
			fault.Stop[T](err)(yield)
			return
		}
		seq(yield)
	}
}
