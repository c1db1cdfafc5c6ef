package series_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestSharded(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	t.Run("append", func(t *testing.T) { appendSharded(t, cluster) })
	t.Run("adopt", func(t *testing.T) { adoptSharded(t, cluster) })
}

// On shards, with default options, appends find their shard, alone and in a transaction.
func appendSharded(t *testing.T, cluster *mongotest.Server) {
	coll := cluster.Database(t).Collection("c")
	o := &series.Options{BatchField: "batches", MaxCount: 100, Values: values}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	testkit.OK(t, cluster.Shard(t.Context(), coll, s.ShardKey()[coll.Name()], bson.D{{Key: "series", Value: "m"}, {Key: "start", Value: bson.MinKey{}}}))
	for _, name := range []string{"a", "x"} {
		appendMany(t, s, name, seconds(250)...)
		other := open[string, event](t, coll, timeseries.Every(time.Hour), o) // which does not know it
		err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			return other.Append(ctx, name, event{Timestamp: at(2, 0, 0), N: 7})
		})
		testkit.OK(t, err)
		testkit.OK(t, s.Delete(t.Context(), name, seconds(1)[0].Timestamp))
		_, err = s.Compact(t.Context(), nil)
		testkit.OK(t, err)
		testkit.Equal(t, 250, len(testkit.Collect(t, s.Range(t.Context(), name, time.Time{}, time.Time{}))))
	}
	testkit.Healthy(t, s)
}
