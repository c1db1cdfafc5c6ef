package computed_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Under a collation that ignores case the server groups the screenings of "Dumbo" and "dumbo"
// together: Repair wrote 0 over 12. Collections with one are refused before anything is written.
func TestCollation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, folded := range []string{"screenings", "films"} {
		db := mongotest.Database(t)
		check(t, db.CreateCollection(ctx, folded, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})))
		_, err := db.Collection("films").InsertOne(ctx, bson.M{"_id": "Dumbo", "viewers": 12, "theatres": 1})
		check(t, err)
		_, err = db.Collection("screenings").InsertMany(ctx, []any{screening{1, "dumbo", "x", 5, false}, screening{2, "Dumbo", "x", 7, false}})
		check(t, err)
		c := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), perFilm()))
		var found error
		for _, err := range c.Check(ctx, nil) {
			found = errors.Join(found, err)
		}
		for name, err := range map[string]error{
			"EnsureIndexes": c.EnsureIndexes(ctx), "Check": found, "Repair": errorOf(c.Repair(ctx, nil)), "Adopt": errorOf(c.Adopt(ctx, nil)),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s, %s: %v", folded, name, err)
			}
		}
		if f := fields(t, db, "Dumbo"); f["viewers"] != int32(12) || f["computed"] != nil {
			t.Error(f)
		}
	}
}
