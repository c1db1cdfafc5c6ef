package registry

import (
	"context"
	"iter"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/subset"
)

func init() {
	add(Pattern{Package: "subset", Writes: subsetRows, Reads: subsetReads(), Writings: subsetWritings, Steps: subsetSteps, Role: subsetRole})
}

type reviews = subset.Subset[int, bson.D]

func newReviews(s *Scene) *reviews {
	r := testkit.Must(subset.New[int, bson.D](s.Coll("products"), s.Coll("reviews"), &subset.Options{
		ParentField: "product", ArrayField: "reviews", CountField: "num_reviews", N: 2, Scope: s.Scope,
		Values: []subset.Value{{Field: "rating", Sum: "ratings"}},
	}))
	s.OK(r.EnsureIndexes(s.Context()))
	s.Insert("products", testkit.D("_id", 1), testkit.D("_id", 2))
	return r
}

// rated are two products: the first has three reviews and shows two, and the second
// has one.
func rated(s *Scene) *reviews {
	r := newReviews(s)
	s.OK(testkit.ErrorOf(r.InsertMany(s.Context(), pairs(1, review(1), 1, review(2), 1, review(3), 2, review(4)), nil)))
	return r
}

func review(id int) bson.D { return testkit.D("_id", id, "rating", id) }

// pairs are the arguments two by two.
func pairs(args ...any) iter.Seq2[int, bson.D] {
	return func(yield func(int, bson.D) bool) {
		for i := 0; i < len(args); i += 2 {
			if !yield(args[i].(int), args[i+1].(bson.D)) {
				return
			}
		}
	}
}

func rating(do func(ctx context.Context, r *reviews) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		r := rated(s)
		return Call{One: func(ctx context.Context) error { return do(ctx, r) }, Repeated: repeated, Check: []mongopatterns.Checker{r}}
	}
}

var subsetRows = []Row{
	{"subset.Subset.Insert", rating(func(ctx context.Context, r *reviews) error { return testkit.ErrorOf(r.Insert(ctx, 1, review(9))) }, mongopatterns.ErrExists)},
	{"subset.Subset.Insert/not kept", rating(func(ctx context.Context, r *reviews) error { return testkit.ErrorOf(r.Insert(ctx, 1, review(0))) }, mongopatterns.ErrExists)},
	{"subset.Subset.Update", rating(func(ctx context.Context, r *reviews) error {
		return r.Update(ctx, 1, 3, testkit.D("$set", testkit.D("rating", 8)))
	})},
	{"subset.Subset.Update/not kept", rating(func(ctx context.Context, r *reviews) error {
		return r.Update(ctx, 1, 1, testkit.D("$set", testkit.D("rating", 8)))
	})},
	{"subset.Subset.Delete", rating(func(ctx context.Context, r *reviews) error { return r.Delete(ctx, 1, 3) }, mongopatterns.ErrNotFound)},
	{"subset.Subset.DeleteParent", rating(func(ctx context.Context, r *reviews) error { return testkit.ErrorOf(r.DeleteParent(ctx, 1)) }, mongopatterns.ErrNotFound)},
	{"subset.Subset.InsertMany", func(s *Scene) Call {
		r := rated(s)
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
			return r.InsertMany(ctx, pairs(1, review(10), 2, review(11), 1, review(12)), nil)
		}, Counts: "reviews", Repeated: []error{ErrDuplicate}, Check: []mongopatterns.Checker{r}}
	}},
	{"subset.Subset.Adopt", func(s *Scene) Call {
		r := newReviews(s)
		for id := range 3 {
			s.OK(testkit.ErrorOf(s.Coll("products").UpdateByID(s.Context(), id, testkit.D("$set", testkit.D("reviews", bson.A{review(10 * id), review(10*id + 1), review(10*id + 2)})))))
		}
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Adopt(ctx, small) }, Counts: "products", Check: []mongopatterns.Checker{r}}
	}},
	{"subset.Subset.Repair", func(s *Scene) Call {
		r := rated(s)
		s.OK(testkit.ErrorOf(s.Coll("products").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("num_reviews", 9, "reviews", bson.A{})))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, Counts: "products", Check: []mongopatterns.Checker{r}}
	}},
}

func subsetReads() []Row {
	return reads("subset.Subset", "", rated, map[string]func(context.Context, *reviews) error{
		"All":   func(ctx context.Context, r *reviews) error { return testkit.Drain(r.All(ctx, 1)) },
		"Get":   func(ctx context.Context, r *reviews) error { return testkit.ErrorOf(r.Get(ctx, 1, 2)) },
		"Top":   func(ctx context.Context, r *reviews) error { return testkit.ErrorOf(r.Top(ctx, 1)) },
		"Check": func(ctx context.Context, r *reviews) error { return checked(r)(ctx) },
	})
}

func subsetWritings(s *Scene) []Writing {
	ctx := s.Context()
	r := newReviews(s)
	for e := range Entities {
		s.OK(testkit.ErrorOf(s.Coll("products").UpdateByID(ctx, e, testkit.D("$set", testkit.D("p", e)), options.UpdateOne().SetUpsert(true))))
	}
	return []Writing{{"subset.Insert", sharders(r), func(ctx context.Context, e, n int) error {
		return testkit.ErrorOf(r.Insert(ctx, e, review(n)))
	}, func(t *testing.T, e int) []int {
		return collected(t, r.All(ctx, e), func(d bson.D) int { return int(d[0].Value.(int32)) })
	}}}
}

func subsetSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	parents, items := db.Collection("products"), db.Collection("reviews")
	s := testkit.Must(subset.New[int, bson.M](parents, items, &subset.Options{N: 3, Values: []subset.Value{{Field: "rating", Sum: "ratings"}}}))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(parents.InsertMany(t.Context(), []any{bson.M{"_id": 0}, bson.M{"_id": 1}}))))
	step := func(ctx context.Context, n int) error {
		if err := done(testkit.ErrorOf(s.Insert(ctx, n%2, bson.M{"_id": n, "rating": 1}))); err != nil || n%3 != 0 {
			return err
		}
		return s.Update(ctx, n%2, n, bson.M{"$set": bson.M{"rating": 4}})
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, s) // counts, sums and the kept items, compared with the items
		if got := ids(t, items, bson.M{}); !slices.Equal(got, upTo(n)) {
			t.Errorf("%v of %d", got, n)
		}
		if got := ids(t, items, bson.M{"rating": 4}); len(got) != (n+2)/3 {
			t.Errorf("changed %v of %d", got, n)
		}
	}
}

var subsetRole = &Role{Open: subsetPlayer, Writes: []string{"best_%", "items_%"}}

func subsetPlayer(s *Side) (*Player, error) {
	items := s.coll("items")
	v, err := subset.New[any, bson.M](s.Main, items, &subset.Options{ParentField: "of", ArrayField: s.name("best"), CountField: s.name("items"), N: 2})
	return opened(&Player{
		Parts: []Part{{items, "of"}},
		Step: func(ctx context.Context, ids []any, n int) error {
			return testkit.ErrorOf(v.Insert(ctx, ids[n%Shared], bson.M{"_id": n}))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				all, err := numbersOf(v.All(ctx, id), func(m bson.M) int { return int(m["_id"].(int32)) })
				if err != nil {
					return err
				}
				slices.Sort(all)
				return same(all, roundsOf(i))
			})
		},
	}, v, err)
}
