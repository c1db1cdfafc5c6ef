package registry

import (
	"context"
	"iter"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
)

func init() {
	add(Pattern{Package: "outlier", Writes: outlierRows, Reads: outlierReads(), Writings: outlierWritings, Steps: outlierSteps, Role: outlierRole})
}

type buyers = outlier.Lists[int, string]

// books are one that few have bought and one that has overflowed.
func books(s *Scene, set bool) *buyers {
	l := testkit.Must(outlier.New[int, string](s.Coll("books"), s.Coll("books_overflow"), &outlier.Options{Set: set, MaxCount: 3, OverflowMaxCount: 2, Scope: s.Scope}))
	s.OK(l.EnsureIndexes(s.Context()))
	s.Insert("books", testkit.D("_id", 1), testkit.D("_id", 2))
	s.OK(testkit.ErrorOf(l.Add(s.Context(), 1, "Ann", "Bob")))
	s.OK(testkit.ErrorOf(l.Add(s.Context(), 2, "Ann", "Bob", "Cid", "Dan", "Eve")))
	return l
}

func purchase(set bool, do func(ctx context.Context, l *buyers) error) func(s *Scene) Call {
	return func(s *Scene) Call {
		l := books(s, set)
		return Call{One: func(ctx context.Context) error { return do(ctx, l) }, Look: !set, Check: []mongopatterns.Checker{l}}
	}
}

func purchases(s *Scene) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		_ = yield(1, "Fay") && yield(2, "Fay") && yield(1, "Gus")
	}
}

var outlierRows = []Row{
	{"outlier.Lists.Add/set", purchase(true, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 1, "Fay")) })},
	{"outlier.Lists.Add/set, overflows", purchase(true, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 1, "Fay", "Gus")) })},
	{"outlier.Lists.Add/set, overflowed", purchase(true, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 2, "Fay")) })},
	{"outlier.Lists.Add", purchase(false, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 1, "Ann")) })},
	{"outlier.Lists.Add/overflows", purchase(false, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 1, "Ann", "Ann")) })},
	{"outlier.Lists.Add/overflowed", purchase(false, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Add(ctx, 2, "Ann")) })},
	{"outlier.Lists.AddMany", func(s *Scene) Call {
		l := books(s, true)
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) { return l.AddMany(ctx, purchases(s), nil) }, Check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Remove", purchase(true, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Remove(ctx, 1, "Ann")) })},
	{"outlier.Lists.Remove/overflowed", purchase(true, func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Remove(ctx, 2, "Ann")) })},
	{"outlier.Lists.Delete", func(s *Scene) Call {
		l := books(s, true)
		return Call{One: func(ctx context.Context) error { return l.Delete(ctx, 2) }, Repeated: []error{mongopatterns.ErrNotFound}, Check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Adopt", func(s *Scene) Call {
		l := testkit.Must(outlier.New[int, string](s.Coll("books"), s.Coll("books_overflow"), &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, Scope: s.Scope}))
		s.OK(l.EnsureIndexes(s.Context()))
		s.InsertEach("books", 3, func(id int) bson.D { return testkit.D("_id", id, "items", bson.A{"Ann", "Bob", "Cid", "Dan", "Eve"}) })
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return l.Adopt(ctx, small) }, Counts: "books", Check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Repair", func(s *Scene) Call {
		l := books(s, true)
		s.OK(testkit.ErrorOf(s.Coll("books").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("items_outside", 9, "items_overflow", true)))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return l.Repair(ctx, small) }, Counts: "books", Check: []mongopatterns.Checker{l}}
	}},
}

func outlierReads() (out []Row) {
	for _, set := range []bool{false, true} {
		kind := ""
		if set {
			kind = "/set"
		}
		out = append(out, reads("outlier.Lists", kind, func(s *Scene) *buyers { return books(s, set) }, map[string]func(context.Context, *buyers) error{
			"All":          func(ctx context.Context, l *buyers) error { return testkit.Drain(l.All(ctx, 2)) },
			"Contains":     func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Contains(ctx, 2, "Bob")) },
			"Distribution": func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Distribution(ctx, nil)) },
			"Slice":        func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Slice(ctx, 2, 0, 2)) },
			"Total":        func(ctx context.Context, l *buyers) error { return testkit.ErrorOf(l.Total(ctx, 2)) },
			"Check":        func(ctx context.Context, l *buyers) error { return checked(l)(ctx) },
		})...)
	}
	return out
}

func outlierWritings(s *Scene) []Writing {
	ctx := s.Context()
	o := testkit.Must(outlier.New[int, int](s.Coll("books"), s.Coll("books_overflow"), &outlier.Options{MaxCount: 8, OverflowMaxCount: 8}))
	for e := range Entities {
		s.Insert("books", testkit.D("_id", e))
		s.OK(testkit.ErrorOf(o.Add(ctx, e, -1, -2, -3, -4, -5, -6, -7, -8, -9))) // which overflows
	}
	return []Writing{{"outlier.Add", sharders(o), func(ctx context.Context, e, n int) error {
		return testkit.ErrorOf(o.Add(ctx, e, n))
	}, func(t *testing.T, e int) []int {
		return slices.DeleteFunc(collected(t, o.All(ctx, e), func(n int) int { return n }), func(n int) bool { return n < 0 })
	}}}
}

func outlierSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	coll := db.Collection("outliers")
	l := testkit.Must(outlier.New[int, int](coll, db.Collection("outliers_more"), &outlier.Options{Set: true, MaxCount: 6, OverflowMaxCount: 10}))
	testkit.OK(t, l.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(coll.InsertOne(t.Context(), bson.M{"_id": 1}))))
	step := func(ctx context.Context, n int) error { return testkit.ErrorOf(l.Add(ctx, 1, n)) }
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, l)
		inOrder(t, testkit.Collect(t, l.All(t.Context(), 1)), n)
		testkit.Equal(t, int64(n), testkit.Must(l.Total(t.Context(), 1)))
	}
}

var outlierRole = &Role{Open: outlierPlayer, Writes: []string{"list_%", "list_%_overflow", "list_%_outside", "list_%_moved"}}

func outlierPlayer(s *Side) (*Player, error) {
	more := s.coll("more")
	l, err := outlier.New[any, int](s.Main, more, &outlier.Options{ArrayField: s.name("list"), ParentField: "of", Set: true, MaxCount: 2})
	return opened(&Player{
		Parts: []Part{{more, "of"}},
		Step: func(ctx context.Context, ids []any, n int) error {
			return testkit.ErrorOf(l.Add(ctx, ids[n%Shared], n))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				have, err := numbersOf(l.All(ctx, id), func(n int) int { return n })
				if err != nil {
					return err
				}
				return same(have, roundsOf(i))
			})
		},
	}, l, err)
}
