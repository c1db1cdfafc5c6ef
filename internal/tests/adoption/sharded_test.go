//go:build unix

package adoption_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// some are those that run on a cluster unless all do, in a small run the first.
var some = []string{"subset", "bucket", "versioning"}

// notSharded are the patterns that do not run on mongotest's cluster, and why.
var notSharded = map[string]string{
	"extref with Watch": "mongotest's router has no change streams",
	"polymorphic":       "it has no shard key: it writes nothing",
}

// The page's steps also hold on two shards, with documents of each collection on both, while chunks move.
func TestSharded(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	for _, p := range patterns {
		if notSharded[p.name] != "" || !scale.Whole() && !slices.Contains(some[:scale.Of(1, 3, 3)], p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			db := cluster.Database(t)
			expireSoon(t, db)
			steps(t, p, db, cluster.URI, cluster, os.Getenv("MONGODB_URI") == "")
		})
	}
}

// bySources shards the sources by their _id: a service that changes the key of a source with a filter on its _id
// cannot have it as the shard key.
type bySources struct {
	*computed.Computed[any, any, bson.M]
}

func (b bySources) ShardKey() map[string]bson.D {
	return map[string]bson.D{"screenings": d("_id", 1), "films": d("_id", 1)}
}

// expireSoon has the shards end transactions of a killed process soon.
func expireSoon(t *testing.T, db *mongo.Database) {
	t.Helper()
	var list struct {
		Shards []struct{ Host string }
	}
	testkit.OK(t, db.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "listShards", Value: 1}}).Decode(&list))
	for _, shard := range list.Shards {
		set, hosts, _ := strings.Cut(shard.Host, "/")
		client := got(mongo.Connect(options.Client().ApplyURI("mongodb://" + hosts + "/?replicaSet=" + set)))(t)
		testkit.OK(t, client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 3}}).Err())
		_ = client.Disconnect(t.Context())
	}
}

// shard shards the helper's collections, puts the upper half of each on the second shard, and has them move
// between the shards until the function that it returns is called. A collection that is empty now
// is cut when it has documents.
func (w *world) shard(cluster *mongotest.Server) (stop func()) {
	w.t.Helper()
	sharder := w.h.sharder
	if sharder == nil {
		sharder = w.h.value.(mongopatterns.Sharder)
	}
	done := got(mongopatterns.Shard(w.t.Context(), w.db, sharder))(w.t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	moves := 0
	type piece struct{ from, to bson.D }
	upper := map[string]piece{} // by collection: it stays the same, as a move is one of a chunk
	round := func(to int) {
		for _, s := range done {
			coll := w.db.Collection(s.Collection)
			half, ok := upper[s.Collection]
			if !ok {
				if half.from, half.to, ok = middle(ctx, coll, s.Key); !ok {
					continue
				}
				upper[s.Collection] = half
			}
			if err := cluster.Move(ctx, coll, half.from, half.to, to); err == nil {
				moves++
			} else if ctx.Err() == nil {
				w.t.Error(err)
			}
		}
	}
	round(1)
	ended := make(chan int)
	go func() {
		for to := 0; w.await(ctx, scale.Of(20, 0, 0)); to = 1 - to {
			round(to)
		}
		ended <- moves
	}()
	return func() {
		cancel()
		w.t.Logf("%d moves of chunks", <-ended)
	}
}

// await returns true when clients have done n more operations, so that a small run moves chunks beside all of them but not
// all the time, and false when ctx has ended.
func (w *world) await(ctx context.Context, n int) bool {
	done := func() (sum int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.did {
			sum += n
		}
		return sum
	}
	for begun := done(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if done() >= begun+n {
			return true
		}
	}
	return false
}

// middle is the shard key of a document in the middle of a collection, and the end of all keys.
func middle(ctx context.Context, coll *mongo.Collection, key bson.D) (at, high bson.D, ok bool) {
	n, err := coll.CountDocuments(ctx, bson.D{})
	if err != nil || n == 0 {
		return nil, nil, false
	}
	var doc bson.M
	if err := coll.FindOne(ctx, bson.D{}, options.FindOne().SetSort(key).SetSkip(n/2)).Decode(&doc); err != nil {
		return nil, nil, false
	}
	for _, e := range key {
		if e.Value == "hashed" {
			return bson.D{{Key: e.Key, Value: int64(0)}}, bson.D{{Key: e.Key, Value: bson.MaxKey{}}}, true
		}
		at = append(at, bson.E{Key: e.Key, Value: doc[e.Key]})
		high = append(high, bson.E{Key: e.Key, Value: bson.MaxKey{}})
	}
	return at, high, true
}
