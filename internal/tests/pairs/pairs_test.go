// Package pairs is a test: each pattern with each other one, and with itself, on the documents of one collection.
package pairs_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// together lets two patterns write in turn to the documents of a collection, and returns what fails: an error of a call, a
// problem of a Check, or an oracle.
func together(t *testing.T, a, b role, met bool) error {
	ctx := t.Context()
	db := mongotest.Database(t)
	main := db.Collection("main")
	sides := []*side{{db: db, main: main, tag: "a", met: met}, {db: db, main: main, tag: "b", met: met}}
	of := []role{a, b}
	names := []string{a.pattern, b.pattern}
	helpers := make([]*helper, 2)
	order := []int{0, 1}
	if a.pattern == "archive" {
		order = []int{1, 0} // it needs to know the other
	}
	fail := func(i int, what string, err error) error { return fmt.Errorf("%s: %s: %w", names[i], what, err) }
	seeded := false
	for _, i := range order {
		var err error
		sides[i].other = helpers[1-i]
		if helpers[i], err = of[i].open(sides[i]); err != nil {
			return fail(i, "New", err)
		}
	}
	for _, i := range order {
		if h, ok := helpers[i].value.(mongopatterns.Sharder); ok {
			if err := h.EnsureIndexes(ctx); err != nil {
				return fail(i, "EnsureIndexes", err)
			}
		}
	}
	for i, h := range helpers {
		if h.seed != nil {
			seeded = true
			if err := h.seed(ctx); err != nil {
				return fail(i, "the first documents", err)
			}
		}
	}
	if !seeded {
		testkit.Insert(t, main, d("_id", 0), d("_id", 1), d("_id", 2))
	}
	var docs []struct {
		ID any `bson:"_id"`
	}
	testkit.OK(t, testkit.Must(main.Find(ctx, bson.D{}, options.Find().SetSort(d("_id", 1)).SetLimit(shared))).All(ctx, &docs))
	var ids []any
	for _, doc := range docs {
		ids = append(ids, doc.ID)
	}
	steply := func(what string, do func(h *helper) func(ctx context.Context) error) error {
		for i, h := range helpers {
			if fn := do(h); fn != nil {
				if err := fn(ctx); err != nil {
					return fail(i, what, err)
				}
			}
		}
		return nil
	}
	for i, h := range helpers {
		if h.adopt != nil {
			if err := h.adopt(ctx, ids); err != nil {
				return fail(i, "Adopt", err)
			}
		}
	}
	for n := range steps {
		for i, h := range helpers {
			if err := h.step(ctx, ids, n); err != nil {
				return fail(i, fmt.Sprint("write ", n), err)
			}
		}
	}
	if err := steply("oracle", func(h *helper) func(ctx context.Context) error {
		return func(ctx context.Context) error { return h.oracle(ctx, ids) }
	}); err != nil {
		return err
	}
	return steply("", func(h *helper) func(ctx context.Context) error { return h.check })
}

func TestPairs(t *testing.T) {
	for i, a := range roles {
		for _, b := range roles[i:] {
			t.Run(a.pattern+" "+b.pattern, func(t *testing.T) {
				t.Parallel()
				if err := together(t, a, b, true); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
