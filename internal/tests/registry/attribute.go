package registry

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "attribute", Writes: attributeRows, Reads: attributeReads(), Steps: attributeSteps, Role: attributeRole})
}

type attributes = attribute.Attributes[int, int]

// releases are three films, each with the entries US and UK.
func releases(s *Scene) *attributes {
	a := testkit.Must(attribute.New[int, int](s.Coll("films"), &attribute.Options{Scope: s.Scope}))
	s.OK(a.EnsureIndexes(s.Context()))
	for id := range 3 {
		s.Insert("films", bson.D{{Key: "_id", Value: id}, {Key: "attributes", Value: bson.A{
			bson.D{{Key: "k", Value: "US"}, {Key: "v", Value: 1977}}, bson.D{{Key: "k", Value: "UK"}, {Key: "v", Value: 1978}}}}})
	}
	return a
}

// columns are three films that old code has written.
func columns(s *Scene) *attributes {
	a := testkit.Must(attribute.New[int, int](s.Coll("films"), &attribute.Options{Scope: s.Scope}))
	s.OK(a.EnsureIndexes(s.Context()))
	s.InsertEach("films", 3, func(id int) bson.D { return bson.D{{Key: "_id", Value: id}, {Key: "release_US", Value: 1977}} })
	return a
}

var column = []attribute.Column{{Path: "release_US", Key: "US"}}

func entry(do func(ctx context.Context, a *attributes) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		a := releases(s)
		return Call{One: func(ctx context.Context) error { return do(ctx, a) }, Repeated: repeated, Check: []mongopatterns.Checker{a}}
	}
}

func entries(make func(s *Scene) *attributes, do func(ctx context.Context, a *attributes) (mongopatterns.Result, error)) func(s *Scene) Call {
	return func(s *Scene) Call {
		a := make(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, a) }, Counts: "films", Check: []mongopatterns.Checker{a}}
	}
}

var attributeRows = []Row{
	{"attribute.Attributes.Set", entry(func(ctx context.Context, a *attributes) error { return a.Set(ctx, 1, attribute.Named("FR"), 1979) })},
	{"attribute.Attributes.Set/changed", entry(func(ctx context.Context, a *attributes) error { return a.Set(ctx, 1, attribute.Named("US"), 1979) })},
	{"attribute.Attributes.SetAll", entry(func(ctx context.Context, a *attributes) error {
		return a.SetAll(ctx, 1, attribute.Attribute[int]{Key: "FR", Value: 1979}, attribute.Attribute[int]{Key: "US", Value: 1980})
	})},
	{"attribute.Attributes.Add", entry(func(ctx context.Context, a *attributes) error { return a.Add(ctx, 1, attribute.Named("FR"), 1979) }, mongopatterns.ErrExists)},
	{"attribute.Attributes.Replace", entry(func(ctx context.Context, a *attributes) error { return a.Replace(ctx, 1, attribute.Named("US"), 1979) })},
	{"attribute.Attributes.Remove", entry(func(ctx context.Context, a *attributes) error { return a.Remove(ctx, 1, attribute.Named("US")) }, attribute.ErrNoAttribute)},
	{"attribute.Attributes.RenameKey", entries(releases, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.RenameKey(ctx, "US", "USA", small)
	})},
	{"attribute.Attributes.RemoveKey", entries(releases, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.RemoveKey(ctx, "US", small)
	})},
	{"attribute.Attributes.Adopt", entries(columns, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.Adopt(ctx, column, small)
	})},
	{"attribute.Attributes.Unadopt", entries(releases, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) {
		return a.Unadopt(ctx, column, small)
	})},
	{"attribute.Attributes.Repair", entries(func(s *Scene) *attributes {
		a := columns(s)
		twice := bson.D{{Key: "k", Value: "US"}, {Key: "v", Value: 1}}
		s.OK(testkit.ErrorOf(s.Coll("films").UpdateMany(s.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "attributes", Value: bson.A{twice, twice}}}}})))
		return a
	}, func(ctx context.Context, a *attributes) (mongopatterns.Result, error) { return a.Repair(ctx, small) })},
}

func attributeReads() (out []Row) {
	us := attribute.Named("US")
	out = append(out, reads("attribute.Attributes", "", releases, map[string]func(context.Context, *attributes) error{
		"Get":    func(ctx context.Context, a *attributes) error { return testkit.ErrorOf(a.Get(ctx, 1, us)) },
		"GetAll": func(ctx context.Context, a *attributes) error { return testkit.ErrorOf(a.GetAll(ctx, 1)) },
		"GetBy": func(ctx context.Context, a *attributes) error {
			return testkit.ErrorOf(a.GetBy(ctx, testkit.D("attributes.v", 1977), us))
		},
		"Facets": func(ctx context.Context, a *attributes) error { return testkit.ErrorOf(a.Facets(ctx, bson.D{}, nil)) },
		"Values": func(ctx context.Context, a *attributes) error { return testkit.Drain(a.Values(ctx, bson.D{}, us)) },
		"Check":  func(ctx context.Context, a *attributes) error { return checked(a)(ctx) },
	})...)
	return out
}

func attributeSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	coll := db.Collection("attributes")
	a := testkit.Must(attribute.New[int, int](coll, nil))
	testkit.OK(t, a.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(coll.InsertOne(t.Context(), bson.M{"_id": 1}))))
	// Each key is added and then changed: in a transaction, as an attempt without an answer may come after the next
	// step, and Set would bring its value back.
	step := func(ctx context.Context, n int) error {
		key := attribute.Named(fmt.Sprint(n / 2))
		if n%2 == 0 {
			return done(a.Add(ctx, 1, key, n), mongopatterns.ErrExists)
		}
		return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error { return a.Set(ctx, 1, key, n) })
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, a)
		all := testkit.Must(a.GetAll(t.Context(), 1))
		for i, entry := range all {
			if entry.Key != fmt.Sprint(i) || entry.Value != min(2*i+1, n-1) {
				t.Errorf("entry %d is %v", i, entry)
			}
		}
		if len(all) != (n+1)/2 {
			t.Errorf("%d entries after %d", len(all), n)
		}
	}
}

var attributeRole = &Role{Open: attributePlayer, Writes: []string{"attributes_%"}}

func attributePlayer(s *Side) (*Player, error) {
	a, err := attribute.New[any, int](s.Main, &attribute.Options{ArrayField: s.name("attributes")})
	key := func(n int) attribute.Key { return attribute.Named(fmt.Sprint("k", n%2)) }
	return opened(&Player{
		Step: func(ctx context.Context, ids []any, n int) error { return a.Set(ctx, ids[n%Shared], key(n), n) },
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				all := roundsOf(i)
				last := all[len(all)-1]
				v, err := a.Get(ctx, id, key(last))
				if err != nil {
					return err
				}
				return same(v, last)
			})
		},
	}, a, err)
}
