package sweep

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

type attributes = attribute.Attributes[int, int]

// releases are three films, each with the entries US and UK.
func releases(s *scene, opts *attribute.Options) *attributes {
	a := testkit.Must(attribute.New[int, int](s.coll("films"), opts))
	s.ok(a.EnsureIndexes(s.Context()))
	for id := range 3 {
		s.insert("films", bson.D{{Key: "_id", Value: id}, {Key: "attributes", Value: bson.A{
			bson.D{{Key: "k", Value: "US"}, {Key: "v", Value: 1977}}, bson.D{{Key: "k", Value: "UK"}, {Key: "v", Value: 1978}}}}})
	}
	return a
}

// columns are three films that old code has written.
func columns(s *scene) *attributes {
	a := testkit.Must(attribute.New[int, int](s.coll("films"), nil))
	s.ok(a.EnsureIndexes(s.Context()))
	for id := range 3 {
		s.insert("films", bson.D{{Key: "_id", Value: id}, {Key: "release_US", Value: 1977}})
	}
	return a
}

var column = []attribute.Column{{Path: "release_US", Key: "US"}}

func entry(do func(ctx context.Context, a *attributes) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		a := releases(s, nil)
		return call{one: func(ctx context.Context) error { return do(ctx, a) }, repeated: repeated, check: []mongopatterns.Checker{a}}
	}
}

func entries(make func(s *scene) *attributes, do func(ctx context.Context, a *attributes) (mongopatterns.Result, error)) func(s *scene) call {
	return func(s *scene) call {
		a := make(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, a) }, counts: "films", check: []mongopatterns.Checker{a}}
	}
}

var attributeRows = []row{
	{"attribute.Attributes.Set", entry(func(ctx context.Context, a *attributes) error { return a.Set(ctx, 1, attribute.Named("FR"), 1979) })},
	{"attribute.Attributes.Set/changed", entry(func(ctx context.Context, a *attributes) error { return a.Set(ctx, 1, attribute.Named("US"), 1979) })},
	{"attribute.Attributes.SetAll", entry(func(ctx context.Context, a *attributes) error {
		return a.SetAll(ctx, 1, attribute.Attribute[int]{Key: "FR", Value: 1979}, attribute.Attribute[int]{Key: "US", Value: 1980})
	})},
	{"attribute.Attributes.Add", entry(func(ctx context.Context, a *attributes) error { return a.Add(ctx, 1, attribute.Named("FR"), 1979) }, mongopatterns.ErrExists)},
	{"attribute.Attributes.Replace", entry(func(ctx context.Context, a *attributes) error { return a.Replace(ctx, 1, attribute.Named("US"), 1979) })},
	{"attribute.Attributes.Remove", entry(func(ctx context.Context, a *attributes) error { return a.Remove(ctx, 1, attribute.Named("US")) }, attribute.ErrNoAttribute)},
	{"attribute.Attributes.RenameKey", entries(func(s *scene) *attributes { return releases(s, nil) }, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.RenameKey(ctx, "US", "USA", small)
	})},
	{"attribute.Attributes.RemoveKey", entries(func(s *scene) *attributes { return releases(s, nil) }, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.RemoveKey(ctx, "US", small)
	})},
	{"attribute.Attributes.Adopt", entries(columns, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.Adopt(ctx, column, small)
	})},
	{"attribute.Attributes.Unadopt", entries(func(s *scene) *attributes { return releases(s, nil) }, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.Unadopt(ctx, column, small)
	})},
	{"attribute.Attributes.Repair", entries(func(s *scene) *attributes {
		a := columns(s)
		twice := bson.D{{Key: "k", Value: "US"}, {Key: "v", Value: 1}}
		s.ok(void(s.coll("films").UpdateMany(s.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "attributes", Value: bson.A{twice, twice}}}}})))
		return a
	}, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) { return a.Repair(ctx, small) })},
}
