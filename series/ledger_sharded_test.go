package series_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The source, the series and the ledger are sharded by different keys, and the source and the series
// move between the shards while two clients insert and Adopt runs again and again: a last run finds the rest,
// each measurement once.
func adoptSharded(t *testing.T, cluster *mongotest.Server) {
	db := cluster.Database(t)
	src, coll, entries := db.Collection("src"), db.Collection("c"), db.Collection("c.adopt")
	s := open[string, event](t, coll, timeseries.Every(time.Minute), nil)
	const n = 300
	id := func(i int) string { // so long that an interval of the ledger has some 120
		// The second client's clock is an hour ahead.
		at := bson.NewObjectIDFromTimestamp(day.Add(time.Duration(i%2)*time.Hour + time.Duration(i)*time.Second))
		return at.Hex() + strings.Repeat("x", 100)
	}
	from := func(i int) bson.D {
		return bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: at(0, 0, i)}}
	}
	ends := func(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }
	testkit.OK(t, cluster.Shard(t.Context(), src, ends("v", 1), ends("v", n/2/4.0)))
	testkit.OK(t, cluster.Shard(t.Context(), coll, s.ShardKey()[coll.Name()], from(n/2)))
	between := bson.D{{Key: "src", Value: db.Name() + ".src"}, {Key: "from", Value: id(n)}}
	testkit.OK(t, cluster.Shard(t.Context(), entries, ends("_id", 1), ends("_id", between)))

	var writers sync.WaitGroup
	for client := range 2 {
		writers.Go(func() {
			for i := client; i < n; i += 2 {
				if _, err := src.InsertOne(context.Background(), plainDoc(id(i), i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	moving := make(chan struct{})
	go func() {
		defer close(moving)
		high := bson.D{{Key: "series", Value: bson.MaxKey{}}, {Key: "start", Value: bson.MaxKey{}}}
		for to := range 2 {
			if err := cluster.Move(context.Background(), src, ends("v", n/2/4.0), ends("v", bson.MaxKey{}), to%2); err != nil {
				t.Error(err)
			}
			if err := cluster.Move(context.Background(), coll, from(n/2), high, to%2); err != nil {
				t.Error(err)
			}
		}
	}()
	ended := make(chan struct{})
	go func() { writers.Wait(); <-moving; close(ended) }()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		// An error beside a migration is one to repeat, as for any caller.
		if r, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 20}); done && (err != nil || r.Failed+r.Remaining > 0) {
			t.Fatalf("%+v, %v", r, err)
		} else if err != nil {
			t.Log(err)
		}
	}
	adopted(t, s, n)
	healthyCopy(t, s, src)
	for _, c := range []*mongo.Collection{src, coll, entries} {
		stats, err := c.Aggregate(t.Context(), mongo.Pipeline{{{Key: "$collStats", Value: bson.D{{Key: "count", Value: bson.D{}}}}}})
		testkit.OK(t, err)
		held := 0
		for stats.Next(t.Context()) {
			if stats.Current.Lookup("count").AsInt64() > 0 {
				held++
			}
		}
		if held != 2 {
			t.Errorf("%s: documents on %d shards", c.Name(), held)
		}
	}

	// An _id that stands on both shards is refused.
	var first struct {
		ID string `bson:"_id"`
	}
	testkit.OK(t, src.FindOne(t.Context(), ends("v", 0)).Decode(&first))
	testkit.Insert(t, src, plainDoc(first.ID, n))
	if _, err := s.Adopt(t.Context(), src, nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "two documents have this _id") {
		t.Error(err)
	}
}
