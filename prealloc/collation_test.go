package prealloc_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// Under a collation that ignores case one seat is sold to "order-a" and "ORDER-A", as the holder of
// a cell is compared by it. EnsureIndexes, Check and Create refuse such a collection.
func TestCollation(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	check(t, db.CreateCollection(ctx, "screenings", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})))
	g := must(prealloc.New[string, string](db.Collection("screenings"), nil))
	var found error
	for _, err := range g.Check(ctx, nil) {
		found = errors.Join(found, err)
	}
	for name, err := range map[string]error{"EnsureIndexes": g.EnsureIndexes(ctx), "Check": found, "Create": g.Create(ctx, "s", nil, prealloc.Row("A", 3)...)} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
