package relation_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// Without _id in the shard key, two shards may each have a document with the same _id: Link writes to both and ends.
func TestLinkOfAnIDOnTwoShards(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	for kind, opts := range map[string]relation.Options{"owned": owned, "named": named, "two-way": twoWay, "many": manyMany} {
		t.Run(kind, func(t *testing.T) {
			ctx, db := bounded(t), cluster.Database(t)
			people, tasks := db.Collection("people"), db.Collection("tasks")
			check(t, cluster.Shard(ctx, tasks, bson.D{{Key: "region", Value: 1}}, bson.D{{Key: "region", Value: "m"}}))
			testkit.Insert(t, people, bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"})
			for _, doc := range []bson.M{{"_id": 1, "region": "a"}, {"_id": 1, "region": "z"}, {"_id": 2, "region": "a"}, {"_id": 3, "region": "a"}} {
				testkit.Insert(t, tasks, doc)
			}
			r := testkit.Must(relation.New[string, int, task](people, tasks, &opts))
			field := opts.OwnerField + opts.OwnersField
			check(t, r.Link(ctx, "Ann", 1))
			check(t, r.Link(ctx, "Ann", 1, 2))
			testkit.Same(t, "documents of Ann", 3, testkit.Count(t, tasks, bson.M{field: "Ann"}))
			if err := r.Link(ctx, "Ann", 1, 8, 9); !errors.Is(err, relation.ErrNoChild) {
				t.Error(err)
			}
			check(t, r.Link(ctx, "Bob", 3))
			if err := r.Link(ctx, "Bob", 1, 3); (opts.OwnerField != "") != errors.Is(err, relation.ErrOwned) {
				t.Error(err)
			}
		})
	}
}
