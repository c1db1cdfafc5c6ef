package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// block stores a bucket that another writer has filled.
func block(t testing.TB, coll *mongo.Collection, series any, start time.Time, n int64, count int) {
	t.Helper()
	measurements := bson.A{}
	for i := range count {
		measurements = append(measurements, event{ID: fmt.Sprintf("blocked-%d-%d", n, i), Timestamp: start.Add(time.Duration(i) * time.Second), V: 1})
	}
	_, err := coll.InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: bson.D{{Key: "series", Value: series}, {Key: "start", Value: start}, {Key: "n", Value: n}}},
		{Key: "series", Value: series}, {Key: "start", Value: start},
		{Key: "measurements", Value: measurements}, {Key: "count", Value: count}, {Key: "bytes", Value: int64(1)},
	})
	must(t, err)
}

func TestAppendManyFillsBuckets(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 10
	b := newBuckets[int64, event](t, coll, timeseries.Every(time.Hour), o)
	// Of one window bucket 0 is full and bucket 1 takes 3 more; of the other
	// nothing is known.
	one := int32(1) // equal to int64(1), also inside _id
	block(t, coll, one, at(1, 0, 0), 0, 10)
	block(t, coll, one, at(1, 0, 0), 1, 7)
	var batch []event
	for i := range 25 {
		batch = append(batch, event{ID: fmt.Sprint(i), Timestamp: at(1, 30, i), V: 1}, event{ID: fmt.Sprint(i), Timestamp: at(2, 30, i), V: 1})
	}
	var progress []int64
	result, err := b.AppendMany(t.Context(), timeseries.Of(int64(1), batch...), &mongopatterns.Work{
		BatchSize: 40, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) },
	})
	if err != nil || result.Done != 50 || result.Skipped != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	diff(t, []int64{40, 50}, progress)
	var fill []string
	for _, doc := range testkit.Stored[bson.M](t, coll) {
		fill = append(fill, fmt.Sprint(doc["start"].(bson.DateTime).Time().UTC().Hour(), " ", asInt(doc["count"])))
	}
	diff(t, []string{"1 10", "1 10", "1 10", "1 10", "1 2", "2 10", "2 10", "2 5"}, fill)
	diff(t, 50, len(testkit.Collect(t, b.Range(t.Context(), 1, at(1, 30, 0), at(3, 0, 0)))))
}

func TestAppendManyDuplicates(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 4
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	var batch []event
	for i := range 9 {
		batch = append(batch, event{ID: fmt.Sprint(i), Timestamp: at(1, i, 0), V: 1})
	}
	for round, want := range []mongopatterns.Result{{Examined: 6, Done: 6}, {Examined: 9, Done: 3, Skipped: 6}, {Examined: 9, Skipped: 9}} {
		upTo := min(6+3*round, 9)
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", batch[:upTo]...), nil)
		if err != nil || !cmp.Equal(result, want) {
			t.Errorf("round %d: %+v, %v", round, result, err)
		}
	}
	// Twice in one batch, and in two batches.
	twice := []event{{ID: "x", Timestamp: at(2, 0, 0)}, {ID: "x", Timestamp: at(2, 0, 0)}, {ID: "x", Timestamp: at(2, 5, 0)}}
	result, err := b.AppendMany(t.Context(), timeseries.Of("s", twice...), &mongopatterns.Work{BatchSize: 2})
	if err != nil || result.Done != 1 || result.Skipped != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, 10, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	mustCheck(t, b)
}

// Series and IDs that are equal to the server are the same, whatever their type.
func TestEqualKeysOfOtherTypes(t *testing.T) {
	coll := fresh(t)
	one, err := bson.ParseDecimal128("1")
	must(t, err)
	doc := func(v any) bson.D { return bson.D{{Key: "a", Value: v}} }
	equal := []any{doc(int32(1)), doc(int64(1)), doc(one)}
	ids := [][]any{{int32(1), one}, {doc(int64(2)), doc(2.0)}}
	for i, series := range equal { // each as another process
		b := newBuckets[any, bson.D](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id", MaxCount: 2})
		var ms []bson.D
		for _, id := range ids {
			ms = append(ms, bson.D{{Key: "id", Value: id[i%2]}, {Key: "timestamp", Value: at(1, 0, 0)}})
			ms = append(ms, bson.D{{Key: "id", Value: id[1-i%2]}, {Key: "timestamp", Value: at(1, 1, 0)}})
		}
		want := mongopatterns.Result{Examined: 4, Skipped: 4}
		if i == 0 {
			want = mongopatterns.Result{Examined: 4, Done: 2, Skipped: 2}
		}
		testkit.Gives(t, want)(b.AppendMany(t.Context(), timeseries.Of(series, ms...), nil))
		for _, m := range ms {
			if got, err := b.Append(t.Context(), series, m); err != nil || got {
				t.Errorf("%v: %+v, %v", series, got, err)
			}
		}
		mustAppend(t, b, series, bson.D{{Key: "id", Value: fmt.Sprint(i)}, {Key: "timestamp", Value: at(1, 2, 0)}})
		result, err := b.AppendMany(t.Context(), timeseries.Of(series, bson.D{{Key: "id", Value: fmt.Sprint("many", i)}, {Key: "timestamp", Value: at(1, 2, 0)}}), nil)
		if err != nil || result.Done != 1 {
			t.Errorf("%v: %+v, %v", series, result, err)
		}
	}
	diff(t, 4, testkit.Count(t, coll, bson.D{}))
}

// If other writers fill every bucket first, the call gives up, with the last duplicate key as the reason.
func TestContended(t *testing.T) {
	coll := fresh(t)
	o := full()
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	// A unique index that the package did not create has the same effect.
	must(t, second(coll.Indexes().CreateOne(t.Context(), testkit.Unique("room"))))
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0)})
	cmds := mongotest.Record(t, coll.Database(), func() {
		_, err := b.Append(t.Context(), "s", event{ID: "2", Timestamp: at(2, 0, 0)})
		if !errors.Is(err, mongopatterns.ErrConflict) || !mongo.IsDuplicateKeyError(err) {
			t.Error(err)
		}
	})
	diff(t, 17, len(cmds.Named("update")))
	result, err := b.AppendMany(t.Context(), timeseries.Of("s", event{ID: "2", Timestamp: at(2, 0, 0)},
		event{ID: "3", Timestamp: at(1, 0, 0)}), nil)
	if !errors.Is(err, mongopatterns.ErrConflict) || !mongo.IsDuplicateKeyError(err) || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAppendManyStopsAtInvalid(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	good := bson.D{{Key: "timestamp", Value: at(1, 0, 0)}}
	result, err := b.AppendMany(t.Context(), timeseries.Of("s", good, good, good, bson.D{}), &mongopatterns.Work{BatchSize: 2})
	if !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 3 || result.Failed != 1 || result.Examined != 4 || !strings.Contains(err.Error(), `item 3: measurement: `) {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := b.AppendMany(t.Context(), timeseries.Of("s", good), &mongopatterns.Work{BatchSize: -1}); err == nil {
		t.Error("negative batch size")
	}
	if result, err := b.AppendMany(t.Context(), timeseries.Of[string, bson.D]("s"), nil); err != nil || result.Done != 0 {
		t.Errorf("nothing: %+v, %v", result, err)
	}
}

// In a transaction no write gets a duplicate key, which would end it, and an abort leaves nothing behind.
func TestInTransaction(t *testing.T) {
	coll := fresh(t)
	for _, ids := range []bool{false, true} {
		o := full()
		o.MaxCount = 3
		if !ids {
			o.IDField = ""
		}
		b := newBuckets[bool, event](t, coll, timeseries.Every(time.Hour), o)
		for i := range 3 {
			mustAppend(t, b, ids, event{ID: fmt.Sprint(i), Timestamp: at(1, i, 0)})
		}
		cold := newBuckets[bool, event](t, coll, timeseries.Every(time.Hour), o)
		session, err := coll.Database().Client().StartSession()
		must(t, err)
		defer session.EndSession(context.Background())
		for _, commit := range []bool{false, true} {
			must(t, session.StartTransaction())
			ctx := mongo.NewSessionContext(t.Context(), session)
			for i := 3; i < 8; i++ {
				if got, err := cold.Append(ctx, ids, event{ID: fmt.Sprint(i), Timestamp: at(1, i, 0)}); err != nil || !got {
					t.Fatalf("%+v, %v", got, err)
				}
			}
			if ids {
				if got, err := cold.Append(ctx, ids, event{ID: "4", Timestamp: at(1, 4, 0)}); err != nil || got {
					t.Errorf("%+v, %v", got, err)
				}
			}
			result, err := cold.AppendMany(ctx, timeseries.Of(ids, event{ID: "8", Timestamp: at(1, 8, 0)}, event{ID: "9", Timestamp: at(1, 9, 0)},
				event{ID: "10", Timestamp: at(5, 0, 0)}), nil)
			if err != nil || result.Done != 3 {
				t.Fatalf("%+v, %v", result, err)
			}
			want := 3
			if commit {
				want = 11
				err = session.CommitTransaction(ctx)
			} else {
				err = session.AbortTransaction(ctx)
			}
			must(t, err)
			diff(t, want, len(testkit.Collect(t, b.Range(t.Context(), ids, time.Time{}, time.Time{}))))
		}
		mustCheck(t, b)
	}
}

// Knowledge about full buckets from an aborted transaction is dropped.
func TestAbortedTransactionLeavesNoGap(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{MaxCount: 2})
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)})
	session, err := coll.Database().Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	must(t, session.StartTransaction())
	ctx := mongo.NewSessionContext(t.Context(), session)
	for range 5 {
		must(t, second(b.Append(ctx, "s", event{Timestamp: at(1, 0, 0)})))
	}
	must(t, session.AbortTransaction(ctx))
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)})
	if docs := testkit.Stored[bson.M](t, coll); len(docs) != 1 || docs[0]["count"] != int32(2) {
		t.Error(docs)
	}
}

// seconds are n measurements, one a second from midnight on.
func seconds(n int) []event {
	out := make([]event, n)
	for i := range out {
		out[i] = event{ID: fmt.Sprint(i), Timestamp: at(0, 0, i), V: 1}
	}
	return out
}

// When AppendMany ends with an error, its result tells stored, refused and unknown measurements apart.
func TestAppendManyOutcomes(t *testing.T) {
	db := mongotest.Database(t, options.Client().SetRetryWrites(false))
	stored := func(b *bucket.Buckets[string, event]) (n int64) {
		stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
		must(t, err)
		return stats.Count
	}
	work := &mongopatterns.Work{BatchSize: 1000}
	t.Run("lost", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("lost"), timeseries.Every(time.Minute), nil)
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Skip: 3, Close: true})
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if !mongo.IsNetworkError(err) || result.Done != 3000 || result.Unknown != 1000 || result.Examined != 4000 || stored(b) != 3000 {
			t.Errorf("%+v, %v; stored %d", result, err, stored(b))
		}
	})
	t.Run("refused", func(t *testing.T) {
		must(t, db.CreateCollection(t.Context(), "refused", options.CreateCollection().SetValidator(
			bson.D{{Key: "start", Value: bson.D{{Key: "$ne", Value: at(0, 20, 0)}}}})))
		b := newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if err == nil || result.Done != 4940 || result.Failed != 60 || result.Examined != 5000 || result.Unknown != 0 || stored(b) != 4940 {
			t.Errorf("%+v, %v; stored %d", result, err, stored(b))
		}
		if len(result.Failures) != 1 || result.Failures[0].ID.Document().Lookup("start").Time() != at(0, 20, 0).Local() {
			t.Errorf("%+v", result.Failures)
		}
	})
	t.Run("strict", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		result, err := b.AppendMany(t.Context(), timeseries.Of("strict", seconds(5000)...), &mongopatterns.Work{BatchSize: 1000, Strict: true})
		if err == nil || result.Done != 1940 || result.Failed != 60 || result.Examined != 2000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	// Beside the refused minute is one that another writer has filled: its measurements are sent again.
	t.Run("refused and full", func(t *testing.T) {
		o := &bucket.Options{MaxCount: 60}
		mustAppend(t, newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), o), "full", event{Timestamp: at(0, 0, 0)})
		b := newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), o)
		result, err := b.AppendMany(t.Context(), timeseries.Of("full", append(seconds(60), event{Timestamp: at(0, 20, 0)})...), work)
		if err == nil || result.Done != 60 || result.Failed != 1 || result.Unknown != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("refused in a transaction", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			result, err := b.AppendMany(ctx, timeseries.Of("tx", seconds(5000)...), work)
			if err == nil || result.Examined != 2000 {
				t.Errorf("%+v, %v", result, err)
			}
			return err
		})
		if stats, failed := b.Aggregate(t.Context(), "tx", time.Time{}, time.Time{}); err == nil || failed != nil || stats.Count != 0 {
			t.Errorf("%v, %v; stored %d", err, failed, stats.Count)
		}
	})
	t.Run("deadline before", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("before"), timeseries.Every(time.Minute), nil)
		ctx, cancel := context.WithCancel(t.Context())
		result, err := b.AppendMany(ctx, timeseries.Of("s", seconds(2500)...), &mongopatterns.Work{BatchSize: 1000, Progress: func(mongopatterns.Result) { cancel() }})
		if !errors.Is(err, context.Canceled) || result.Done != 1000 || result.Unknown != 0 || stored(b) != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("write concern", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("concern"), timeseries.Every(time.Minute), nil)
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 64})
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(2500)...), work)
		if err == nil || result.Done != 0 || result.Unknown != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("slots", func(t *testing.T) {
		s := newSlots[string, int](t, db.Collection("slots"), timeseries.Every(time.Hour), &slots.Options{Levels: []time.Duration{time.Second}})
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Skip: 1, Close: true})
		result, err := s.SetMany(t.Context(), func(yield func(string, slots.Slot[int]) bool) {
			for i := range 2500 {
				if !yield("s", slots.Slot[int]{Time: at(0, 0, i)}) {
					return
				}
			}
		}, work)
		if !mongo.IsNetworkError(err) || result.Done != 1000 || result.Unknown != 1000 || result.Examined != 2000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// The time of a measurement can be its ID: then one that comes again is not stored, also if it differs and its
// bucket is full.
func TestTimeIsTheID(t *testing.T) {
	b := newBuckets[string, event](t, fresh(t), timeseries.Every(time.Hour), &bucket.Options{IDField: "timestamp", MaxCount: 2})
	var minutes []event
	for minute := range 5 {
		minutes = append(minutes, event{Timestamp: at(1, 0, minute), V: 1})
		mustAppend(t, b, "s", minutes[minute])
	}
	result, err := b.AppendMany(t.Context(), timeseries.Of("s", minutes...), nil)
	if result.Skipped != 5 || result.Done != 0 || err != nil {
		t.Errorf("%+v, %v", result, err)
	}
	stored, err := b.Append(t.Context(), "s", event{Timestamp: at(1, 0, 0), V: 2})
	if stored || err != nil {
		t.Errorf("%v, %v", stored, err)
	}
	if all := testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})); len(all) != 5 || all[0].V != 1 {
		t.Errorf("%+v", all)
	}
}

// Measurements of one time are read in the order in which they arrived.
func TestTiesKeepTheirOrder(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id", MaxCount: 15})
	var want, got []string
	for i := range 40 {
		e := event{ID: fmt.Sprint(i), Timestamp: at(1, 0, 0), V: 1}
		mustAppend(t, b, "s", e)
		want = append(want, e.ID)
	}
	must(t, b.Replace(t.Context(), "s", event{ID: "6", Timestamp: at(1, 0, 0), V: 2}))
	for _, e := range testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})) {
		got = append(got, e.ID)
	}
	diff(t, want, got)
	if latest, err := b.Latest(t.Context(), "s"); err != nil || latest.ID != "39" {
		t.Errorf("%+v, %v", latest, err)
	}
}
