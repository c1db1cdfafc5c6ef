package relation_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// Under a collation that ignores case, a reference "A" leads to the document "a", but Check would
// report it as dangling and Repair remove it. Such collections are refused before any write.
func TestCollation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, folded := range []string{"people", "tasks", "links"} {
		db := mongotest.Database(t)
		check(t, db.CreateCollection(ctx, folded, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})))
		opts := twoWay
		if folded == "links" {
			opts = linked
			opts.Links = db.Collection("links")
			testkit.Insert(t, db.Collection("links"), bson.M{"person_id": "Ann", "task_id": "A"})
		}
		testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Ann", "tasks": bson.A{"A"}})
		testkit.Insert(t, db.Collection("tasks"), bson.M{"_id": "a", "owner": "ann"})
		r := testkit.Must(relation.New[string, string, letter](db.Collection("people"), db.Collection("tasks"), &opts))
		var found error
		for p, err := range r.Check(ctx, nil) {
			if err == nil {
				t.Error(p)
			}
			found = errors.Join(found, err)
		}
		for name, err := range map[string]error{
			"EnsureIndexes": r.EnsureIndexes(ctx), "Check": found, "Repair": errorOf(r.Repair(ctx, nil)),
			"Extract": errorOf(r.Extract(ctx, nil)), "Embed": errorOf(r.Embed(ctx, nil)),
		} {
			if folded == "links" && (name == "Extract" || name == "Embed") {
				continue
			}
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s, %s: %v", folded, name, err)
			}
		}
		check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Ann", "tasks": "A"}).Err())
		check(t, db.Collection("tasks").FindOne(ctx, bson.M{"_id": "a", "owner": "ann"}).Err())
	}
}
