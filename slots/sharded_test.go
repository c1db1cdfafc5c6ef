package slots_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// In a sharded collection slots with default options work, alone and in a transaction, and what writes or reads one
// series asks one shard. Archive and Adopt move documents between the shards.
func TestSharded(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	s := newSlots[string, weather](t, coll, timeseries.Days(nil), nil)
	old := newSlots[string, weather](t, archive, timeseries.Days(nil), nil)
	second := func(series string) bson.D {
		return bson.D{{Key: "series", Value: series}, {Key: "start", Value: bson.MinKey{}}}
	}
	testkit.OK(t, cluster.Shard(t.Context(), coll, s.ShardKey()["c"], second("m")))
	testkit.OK(t, cluster.Shard(t.Context(), archive, old.ShardKey()["archive"], second("b")))
	testkit.OK(t, s.EnsureIndexes(t.Context()))

	one := func(what string, call func() error) {
		t.Helper()
		asked, err := cluster.Asked(t.Context(), db, call)
		if err != nil || asked.Reached() != 1 {
			t.Errorf("%s: %d shards, %v", what, asked.Reached(), err)
		}
	}
	for i, name := range []string{"a", "x"} {
		w := weather{float64(i), 1}
		one("set", func() error { return s.Set(t.Context(), name, at(1, 0, 0), w) })
		one("set again", func() error { return s.Set(t.Context(), name, at(1, 1, 0), w) })
		one("get", func() error { _, err := s.Get(t.Context(), name, at(1, 1, 0)); return err })
		one("latest", func() error { _, err := s.Latest(t.Context(), name); return err })
		one("range", func() error { return testkit.Drain(s.Range(t.Context(), name, at(0, 0, 0), at(2, 0, 0))) })
		one("delete", func() error { return s.Delete(t.Context(), name, at(1, 0, 0)) })
		testkit.OK(t, mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			if err := s.Set(ctx, name, at(25, 0, 0), w); err != nil {
				return err
			}
			got, err := s.Latest(ctx, name)
			if err == nil && (got.Value != w || !got.Time.Equal(at(25, 0, 0))) {
				t.Error(got)
			}
			return err
		}))
	}
	both := func(yield func(string, slots.Slot[weather]) bool) {
		for _, name := range []string{"a", "x"} {
			for h := range 3 {
				if !yield(name, slots.Slot[weather]{Time: at(24*h, 2, 0), Value: weather{1, 1}}) {
					return
				}
			}
		}
	}
	testkit.Done(t, 6)(s.SetMany(t.Context(), both, nil))

	// A document of old code, on the one shard; its place is on either.
	for _, name := range []string{"a", "x"} {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: name}, {Key: "start", Value: "2019-02-05"},
			{Key: "data", Value: bson.D{{Key: "1", Value: bson.D{{Key: "2", Value: weather{5, 5}}}}}}})
		testkit.OK(t, err)
	}
	testkit.Done(t, 2)(s.Adopt(t.Context(), nil, nil))
	for _, name := range []string{"a", "x"} {
		testkit.Gives(t, weather{5, 5})(s.Get(t.Context(), name, at(24*5+1, 2, 0)))
	}
	testkit.Done(t, 2)(s.Archive(t.Context(), at(24, 0, 0), archive, nil))
	for _, name := range []string{"a", "x"} {
		testkit.Equal(t, 2, len(testkit.Collect(t, old.Range(t.Context(), name, time.Time{}, time.Time{}))))
		testkit.Equal(t, 4, len(testkit.Collect(t, s.Range(t.Context(), name, time.Time{}, time.Time{}))))
	}
	if n := len(testkit.Collect(t, s.Check(t.Context(), nil))); n != 0 {
		t.Error(n, "problems")
	}
	testkit.Done(t, 0)(s.Repair(t.Context(), nil))

	// No transaction over two shards creates a collection: Archive creates it before.
	result, err := s.Archive(t.Context(), at(24*30, 0, 0), db.Collection("new"), nil)
	if err != nil || result.Done == 0 || result.Remaining != 0 {
		t.Error(result, err)
	}
	for _, name := range []string{"a", "x"} {
		testkit.Equal(t, 0, len(testkit.Collect(t, s.Range(t.Context(), name, time.Time{}, time.Time{}))))
	}

	// Of two documents with one _id, Adopt takes the one that it is asked for.
	for _, name := range []string{"a", "x"} {
		testkit.Insert(t, coll, testkit.D("_id", "same", "series", name, "start", "2019-02-05", "data", testkit.D("1", testkit.D("2", weather{5, 5}))))
	}
	testkit.Done(t, 1)(s.Adopt(t.Context(), nil, &mongopatterns.Work{Filter: bson.M{"series": "x"}}))
	testkit.Done(t, 1)(s.Adopt(t.Context(), nil, nil))

	// Of two documents with one _id, an archive on one shard can take one. Archive names the other, which stays.
	start := day.AddDate(0, 0, 60)
	for _, name := range []string{"a", "x"} {
		testkit.Insert(t, coll, testkit.D("_id", "twin", "series", name, "start", start, "data", testkit.D("1", testkit.D("2", weather{6, 6}))))
	}
	result, err = s.Archive(t.Context(), start.AddDate(0, 0, 1), db.Collection("one"), &mongopatterns.Work{Filter: bson.M{"start": start}})
	if err != nil || result.Done != 1 || result.Failed != 1 || len(result.Failures) != 1 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) {
		t.Error(result, err)
	}
	testkit.Equal(t, 1, testkit.Count(t, coll, bson.M{"_id": "twin"}))
	testkit.Equal(t, 1, testkit.Count(t, db.Collection("one"), bson.M{"_id": "twin"}))
}
