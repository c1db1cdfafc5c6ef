package prealloc_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// With a collation that ignores case one seat would be sold to "order-a" and "ORDER-A", because the
// server compares holders by it. EnsureIndexes, Check and Insert refuse such a collection.
func TestCollation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	testkit.OK(t, db.CreateCollection(ctx, "screenings", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})))
	g := testkit.Must(prealloc.New[string, string](db.Collection("screenings"), nil))
	var found error
	for _, err := range g.Check(ctx, nil) {
		found = errors.Join(found, err)
	}
	for name, err := range map[string]error{"EnsureIndexes": g.EnsureIndexes(ctx), "Check": found, "Create": g.Insert(ctx, "s", nil, prealloc.Row("A", 3)...)} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
