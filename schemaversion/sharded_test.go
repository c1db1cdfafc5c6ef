package schemaversion_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// Without _id in the shard key, two shards may each have a document with the same _id. Migrate gives each its own new
// form, and Update, which can only name both, says so.
func TestOneIDOnTwoShards(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	coll := db.Collection("c")
	testkit.OK(t, cluster.Shard(ctx, coll, testkit.D("region", 1), testkit.D("region", "m")))
	v := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		return append(doc, bson.E{Key: "greeting", Value: "Hello " + testkit.Get(doc, "name").(string)}), nil
	}}}, nil))
	for _, region := range []string{"a", "z"} {
		testkit.Insert(t, coll, testkit.D("_id", 1, "region", region, "name", "Ann of "+region), testkit.D("_id", 2, "region", region, "name", "Bob"))
	}
	old := func() {
		t.Helper()
		testkit.OK(t, testkit.ErrorOf(coll.UpdateMany(ctx, bson.D{}, testkit.D("$unset", testkit.D("greeting", "", "schema_version", "")))))
	}
	for _, batch := range []int{1, 100} {
		old()
		testkit.Done(t, 4)(v.Migrate(ctx, v.Newest(), &mongopatterns.Work{BatchSize: batch}))
		for _, doc := range testkit.Stored[bson.M](t, coll) {
			testkit.Equal(t, "Hello "+doc["name"].(string), doc["greeting"])
		}
	}
	err := v.Update(ctx, 2, testkit.D("$inc", testkit.D("n", 1)))
	if !errors.Is(err, mongopatterns.ErrMalformed) || mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
		t.Error(err)
	}
	testkit.Equal(t, 2, testkit.Count(t, coll, bson.M{"_id": 2, "n": 1}))
}
