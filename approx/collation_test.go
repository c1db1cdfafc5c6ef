package approx_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// With a collation that ignores case the views of "/A" would count for "/a".
func TestCollation(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	if err := db.CreateCollection(t.Context(), "pages", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"_id", "path"} {
		opts := &approx.Options{KeyField: field}
		counters, err := approx.New[string](db.Collection("pages"), opts)
		sampled, err2 := approx.NewSampled[string](db.Collection("pages"), opts)
		values, err3 := approx.NewDistinct[string, string](db.Collection("pages"), opts)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{"counters": counters.EnsureIndexes(t.Context()), "sampled": sampled.EnsureIndexes(t.Context()), "distinct": values.EnsureIndexes(t.Context())} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s by %s: %v", name, field, err)
			}
		}
	}
}
