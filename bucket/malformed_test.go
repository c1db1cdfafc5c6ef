package bucket_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The error for a measurement that does not decode names its document.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	s := newSlots[string, int](t, db.Collection("s"), timeseries.Every(time.Hour), &slots.Options{Levels: []time.Duration{time.Minute}})
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)}, event{Timestamp: at(2, 0, 0)})
	for _, at := range []time.Time{at(1, 0, 0), at(2, 0, 0)} {
		must(t, s.Set(t.Context(), "s", at, 1))
	}
	for coll, field := range map[string]string{"c": "measurements.0.v", "s": "data.0"} {
		must(t, second(db.Collection(coll).UpdateOne(t.Context(), bson.D{{Key: "start", Value: at(2, 0, 0)}}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "x"}}}})))
	}
	var none time.Time
	for what, err := range map[string]error{"buckets": testkit.Drain(b.Range(t.Context(), "s", none, none)), "slots": testkit.Drain(s.Range(t.Context(), "s", none, none))} {
		if want := "window 2019-01-31T02:00:00Z"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// A measurement in the bucket of another window is not in a range that excludes its own time, even if the
// whole bucket lies in the range.
func TestRangeWithMisplaced(t *testing.T) {
	coll := mongotest.Database(t).Collection("readings")
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	want := []reading{{at(10, 0, 0), 40}, {at(10, 30, 0), 41}}
	must(t, second(b.AppendMany(t.Context(), timeseries.Of(1, want...), nil)))
	for _, misplaced := range []time.Time{at(9, 0, 0), at(11, 0, 0)} {
		must(t, second(coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: reading{misplaced, 1}}}}})))
	}
	diff(t, want, testkit.Collect(t, b.Range(t.Context(), 1, at(10, 0, 0), at(11, 0, 0))))
	diff(t, want, testkit.Collect(t, b.Range(t.Context(), 1, at(10, 0, 0), at(10, 31, 0))))
}

// Repair does not change measurements that are not an array, and sets the bucket's end.
func TestRepairOfNoArray(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("b")
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), &bucket.Options{EndField: "end"})
	_, err := coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: 1}, {Key: "start", Value: time.Unix(3600, 0)}, {Key: "measurements", Value: "x"}, {Key: "count", Value: 0}})
	must(t, err)
	result, err := b.Repair(t.Context(), nil)
	if err != nil || result.Done != 1 || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	raw, err := coll.FindOne(t.Context(), bson.D{}).Raw()
	must(t, err)
	if _, ok := raw.Lookup("end").DateTimeOK(); !ok || raw.Lookup("measurements").StringValue() != "x" {
		t.Error(raw)
	}
	for _, from := range []time.Time{{}, time.Unix(3601, 0)} { // also of a window that the range cuts
		if err := testkit.Drain(b.Range(t.Context(), 1, from, time.Time{})); err == nil || !strings.HasSuffix(err.Error(), `"measurements" is "x", not an array`) {
			t.Errorf("from %v: %v", from, err)
		}
	}
}

// Repair restores the aggregates where somebody has typed an array above them.
func TestRepairBelowArrays(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{Values: []timeseries.Value{{Field: "v"}}})
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 1}, event{ID: "2", Timestamp: at(1, 1, 0), V: 2})
	for _, typed := range []bson.E{{Key: "stats", Value: bson.A{}}, {Key: "stats.v", Value: bson.A{1, "x"}}, {Key: "stats", Value: "text"}} {
		_, err := coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{typed}}})
		must(t, err)
		_, err = b.Repair(t.Context(), nil)
		must(t, err)
		mustCheck(t, b)
	}
	stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	if err != nil || stats.Values["v"].Sum.Float64() != 3 {
		t.Error(stats, err)
	}
}

// Buckets that another program made, without a count, a number or a series.
func TestIncompleteBuckets(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
	measurements := bson.E{Key: "measurements", Value: bson.A{event{Timestamp: at(1, 0, 0), V: 1}}}
	series, start := bson.E{Key: "series", Value: "s"}, bson.E{Key: "start", Value: at(1, 0, 0)}
	insert := func() {
		t.Helper()
		must(t, second(coll.InsertMany(t.Context(), []any{
			bson.D{{Key: "_id", Value: 1}, series, start, measurements},
			bson.D{{Key: "_id", Value: bson.D{{Key: "n", Value: "x"}}}, series, start, measurements, {Key: "count", Value: 1}},
			bson.D{{Key: "_id", Value: bson.D{series, start, {Key: "n", Value: "x"}}}, series, start, measurements, {Key: "count", Value: 1}},
			bson.D{{Key: "_id", Value: 2}, start, {Key: "note", Value: 1}},
		})))
	}
	insert()
	cold, err := bucket.New[string, event](coll, timeseries.Every(time.Hour), &bucket.Options{MaxCount: 1})
	must(t, err)
	mustAppend(t, b, "s", event{Timestamp: at(1, 1, 0)})
	mustAppend(t, cold, "s", event{Timestamp: at(1, 2, 0)})
	diff(t, 5, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	testkit.Done(t, 2)(b.Repair(t.Context(), nil))
	mustCheck(t, b)
	must(t, second(coll.DeleteMany(t.Context(), bson.D{})))
	for range 2 { // the second time all collide
		insert()
		testkit.Done(t, 4)(b.Archive(t.Context(), at(2, 0, 0), archive, nil))
	}
	diff(t, 8, testkit.Count(t, archive, bson.D{}))
}

// A measurement whose time is stored as an array is not found by the time in the array, and nothing is changed.
func TestTimeInAnArray(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	mustAppend(t, b, 1, reading{at(10, 0, 0), 1})
	must(t, testkit.ErrorOf(coll.UpdateOne(t.Context(), bson.D{}, testkit.D("$set", testkit.D("measurements.0.timestamp", bson.A{at(10, 0, 0)})))))
	stored := testkit.Stored[bson.Raw](t, coll)
	testkit.Is(t, b.Delete(t.Context(), 1, at(10, 0, 0)), mongopatterns.ErrNotFound)
	testkit.Is(t, b.Replace(t.Context(), 1, reading{at(10, 0, 0), 2}), mongopatterns.ErrNotFound)
	testkit.Same(t, "document", stored, testkit.Stored[bson.Raw](t, coll))
}

// A bucket of another program whose start is text belongs to no window: whatever meets it says so.
func TestStartOfText(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	b := newBuckets[int, bson.D](t, coll, timeseries.Days(nil), &bucket.Options{})
	bucketOf := func(series int, start any) bson.D {
		return bson.D{{Key: "series", Value: series}, {Key: "start", Value: start}, {Key: "count", Value: 1},
			{Key: "measurements", Value: bson.A{bson.D{{Key: "timestamp", Value: at(1, 0, 0)}}}}}
	}
	testkit.Insert(t, coll, bucketOf(1, day), bucketOf(1, "2019-01-31"), bucketOf(2, "2019-01-31"))
	var none time.Time
	for _, series := range []int{1, 2} {
		for what, err := range map[string]error{
			"Range":            testkit.Drain(b.Range(t.Context(), series, none, none)),
			"Aggregate":        second(b.Aggregate(t.Context(), series, none, none)),
			"AggregateWindows": testkit.Drain(b.AggregateWindows(t.Context(), series, none, none)),
		} {
			if !errors.Is(err, mongopatterns.ErrMalformed) || !strings.HasSuffix(err.Error(), `start is "2019-01-31", not a date`) {
				t.Errorf("%s of %d: %v", what, series, err)
			}
		}
		// A limit is a date, and no text lies beside it.
		stats, err := b.Aggregate(t.Context(), series, day, none)
		must(t, err)
		diff(t, int64(2-series), stats.Count)
		diff(t, 2-series, len(testkit.Collect(t, b.Range(t.Context(), series, day, none))))
	}
	must(t, second(b.Latest(t.Context(), 1))) // it reads the newest window
	testkit.Is(t, second(b.Latest(t.Context(), 2)), mongopatterns.ErrMalformed)
	testkit.Is(t, aborted(t, db, func(ctx context.Context) error { return second(b.Latest(ctx, 2)) })(t.Context()), mongopatterns.ErrMalformed)
}
