package paging_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// On a sharded cluster an estimated count holds the copies of a chunk on the move, and the documents that a moved
// chunk has left; the exact count and the pages do not.
func TestCountsWithOrphans(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	if len(cluster.Shards()) == 0 {
		t.Skip("a shard of MONGODB_URI gets no fail point")
	}
	ctx := t.Context()
	coll := cluster.Database(t).Collection("rows")
	id := func(v any) bson.D { return bson.D{{Key: "_id", Value: v}} }
	const n, moved = 100, 40
	from, to := id(n/2-moved), id(n/2)
	if err := cluster.Shard(ctx, coll, id(1), to); err != nil { // only shards that own a chunk are asked
		t.Fatal(err)
	}
	testkit.InsertAll(t, coll, rows(n))
	pager := newPager[row](t, coll, nil, nil)
	counts := func(when string, orphans int64) {
		t.Helper()
		for count, want := range map[paging.Count]int64{paging.CountEstimated: n + orphans, paging.CountExact: n} {
			page, err := pager.Page(ctx, nil, paging.Request{Size: 10, Count: count})
			if err != nil || page.Total.N != want {
				t.Errorf("%s, count %d: %+v, want %d, %v", when, count, page.Total, want, err)
			}
		}
		all := 0
		for _, err := range pager.All(ctx, nil, paging.Request{Size: 30}) {
			if err != nil {
				t.Fatal(err)
			}
			all++
		}
		if all != n {
			t.Errorf("%s: %d documents on the pages", when, all)
		}
	}
	counts("at rest", 0)

	donor, err := mongo.Connect(options.Client().ApplyURI(cluster.Shards()[0].URI))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = donor.Disconnect(ctx) }()
	const point = "moveChunkHangAtStep4" // the copies are there
	fail := func(mode string) (entered int) {
		t.Helper()
		var was struct{ Count int }
		if err := donor.Database("admin").RunCommand(ctx, bson.D{{Key: "configureFailPoint", Value: point}, {Key: "mode", Value: mode}}).Decode(&was); err != nil {
			t.Fatal(err)
		}
		return was.Count
	}
	entered := fail("alwaysOn")
	done := make(chan error)
	go func() { done <- cluster.Move(ctx, coll, from, to, 1) }()
	if err := donor.Database("admin").RunCommand(ctx, bson.D{{Key: "waitForFailPoint", Value: point}, {Key: "timesEntered", Value: entered + 1}, {Key: "maxTimeMS", Value: 60_000}}).Err(); err != nil {
		t.Fatal(err)
	}
	counts("on the move", moved)
	fail("off")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	counts("moved and deleted", 0)

	// As the balancer moves: the server deletes what is left a quarter of an hour later.
	var shards struct {
		Shards []struct {
			ID string `bson:"_id"`
		}
	}
	admin := coll.Database().Client().Database("admin")
	err = admin.RunCommand(ctx, bson.D{{Key: "listShards", Value: 1}}).Decode(&shards)
	if err == nil {
		err = admin.RunCommand(ctx, bson.D{{Key: "moveRange", Value: coll.Database().Name() + ".rows"}, {Key: "toShard", Value: shards.Shards[0].ID}, {Key: "min", Value: from}, {Key: "max", Value: to}}).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	counts("moved and left", moved)
}
