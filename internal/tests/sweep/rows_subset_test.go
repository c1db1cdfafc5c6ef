package sweep

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/subset"
)

type reviews = subset.Subset[int, bson.D]

func newReviews(s *scene) *reviews {
	r := testkit.Must(subset.New[int, bson.D](s.coll("products"), s.coll("reviews"), &subset.Options{
		ParentField: "product", ArrayField: "reviews", CountField: "num_reviews", N: 2,
		Values: []subset.Value{{Field: "rating", Sum: "ratings"}},
	}))
	s.ok(r.EnsureIndexes(s.Context()))
	s.insert("products", doc("_id", 1), doc("_id", 2))
	return r
}

// rated are two products: the first has three reviews and shows two, and the second
// has one.
func rated(s *scene) *reviews {
	r := newReviews(s)
	s.ok(void(r.InsertMany(s.Context(), pairs(1, review(1), 1, review(2), 1, review(3), 2, review(4)), nil)))
	return r
}

func review(id int) bson.D { return doc("_id", id, "rating", id) }

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

func rating(do func(ctx context.Context, r *reviews) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		r := rated(s)
		return call{one: func(ctx context.Context) error { return do(ctx, r) }, repeated: repeated, check: []mongopatterns.Checker{r}}
	}
}

var subsetRows = []row{
	{"subset.Subset.Insert", rating(func(ctx context.Context, r *reviews) error { return void(r.Insert(ctx, 1, review(9))) }, mongopatterns.ErrExists)},
	{"subset.Subset.Insert/not kept", rating(func(ctx context.Context, r *reviews) error { return void(r.Insert(ctx, 1, review(0))) }, mongopatterns.ErrExists)},
	{"subset.Subset.Update", rating(func(ctx context.Context, r *reviews) error { return r.Update(ctx, 1, 3, doc("$set", doc("rating", 8))) })},
	{"subset.Subset.Update/not kept", rating(func(ctx context.Context, r *reviews) error { return r.Update(ctx, 1, 1, doc("$set", doc("rating", 8))) })},
	{"subset.Subset.Delete", rating(func(ctx context.Context, r *reviews) error { return r.Delete(ctx, 1, 3) }, mongopatterns.ErrNotFound)},
	{"subset.Subset.DeleteParent", rating(func(ctx context.Context, r *reviews) error { return void(r.DeleteParent(ctx, 1)) }, mongopatterns.ErrNotFound)},
	{"subset.Subset.InsertMany", func(s *scene) call {
		r := rated(s)
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
			return r.InsertMany(ctx, pairs(1, review(10), 2, review(11), 1, review(12)), nil)
		}, counts: "reviews", repeated: []error{errDuplicate}, check: []mongopatterns.Checker{r}}
	}},
	{"subset.Subset.Adopt", func(s *scene) call {
		r := newReviews(s)
		for id := range 3 {
			s.ok(void(s.coll("products").UpdateByID(s.Context(), id, doc("$set", doc("reviews", bson.A{review(10 * id), review(10*id + 1), review(10*id + 2)})))))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Adopt(ctx, small) }, counts: "products", check: []mongopatterns.Checker{r}}
	}},
	{"subset.Subset.Repair", func(s *scene) call {
		r := rated(s)
		s.ok(void(s.coll("products").UpdateMany(s.Context(), doc(), doc("$set", doc("num_reviews", 9, "reviews", bson.A{})))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, counts: "products", check: []mongopatterns.Checker{r}}
	}},
}
