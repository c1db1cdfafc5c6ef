package sweep

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
)

type buyers = outlier.Lists[int, string]

// books are one that few have bought and one that has overflowed.
func books(s *scene, set bool) *buyers {
	l := testkit.Must(outlier.New[int, string](s.coll("books"), s.coll("books_overflow"), &outlier.Options{Set: set, MaxCount: 3, OverflowMaxCount: 2}))
	s.ok(l.EnsureIndexes(s.Context()))
	s.insert("books", doc("_id", 1), doc("_id", 2))
	s.ok(void(l.Add(s.Context(), 1, "Ann", "Bob")))
	s.ok(void(l.Add(s.Context(), 2, "Ann", "Bob", "Cid", "Dan", "Eve")))
	return l
}

func purchase(set bool, do func(ctx context.Context, l *buyers) error) func(s *scene) call {
	return func(s *scene) call {
		l := books(s, set)
		return call{one: func(ctx context.Context) error { return do(ctx, l) }, look: !set, check: []mongopatterns.Checker{l}}
	}
}

func purchases(s *scene) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		_ = yield(1, "Fay") && yield(2, "Fay") && yield(1, "Gus")
	}
}

var outlierRows = []row{
	{"outlier.Lists.Add/set", purchase(true, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 1, "Fay")) })},
	{"outlier.Lists.Add/set, overflows", purchase(true, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 1, "Fay", "Gus")) })},
	{"outlier.Lists.Add/set, overflowed", purchase(true, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 2, "Fay")) })},
	{"outlier.Lists.Add", purchase(false, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 1, "Ann")) })},
	{"outlier.Lists.Add/overflows", purchase(false, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 1, "Ann", "Ann")) })},
	{"outlier.Lists.Add/overflowed", purchase(false, func(ctx context.Context, l *buyers) error { return void(l.Add(ctx, 2, "Ann")) })},
	{"outlier.Lists.AddMany", func(s *scene) call {
		l := books(s, true)
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) { return l.AddMany(ctx, purchases(s), nil) }, check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Remove", purchase(true, func(ctx context.Context, l *buyers) error { return void(l.Remove(ctx, 1, "Ann")) })},
	{"outlier.Lists.Remove/overflowed", purchase(true, func(ctx context.Context, l *buyers) error { return void(l.Remove(ctx, 2, "Ann")) })},
	{"outlier.Lists.Delete", func(s *scene) call {
		l := books(s, true)
		return call{one: func(ctx context.Context) error { return l.Delete(ctx, 2) }, repeated: []error{mongopatterns.ErrNotFound}, check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Adopt", func(s *scene) call {
		l := testkit.Must(outlier.New[int, string](s.coll("books"), s.coll("books_overflow"), &outlier.Options{MaxCount: 2, OverflowMaxCount: 2}))
		s.ok(l.EnsureIndexes(s.Context()))
		for id := range 3 {
			s.insert("books", doc("_id", id, "items", bson.A{"Ann", "Bob", "Cid", "Dan", "Eve"}))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return l.Adopt(ctx, small) }, counts: "books", check: []mongopatterns.Checker{l}}
	}},
	{"outlier.Lists.Repair", func(s *scene) call {
		l := books(s, true)
		s.ok(void(s.coll("books").UpdateMany(s.Context(), doc(), doc("$set", doc("items_outside", 9, "items_overflow", true)))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return l.Repair(ctx, small) }, counts: "books", check: []mongopatterns.Checker{l}}
	}},
}
