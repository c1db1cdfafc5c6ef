package bucket_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestEditErrors(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	plain, err := bucket.New[string, event](coll, timeseries.Every(time.Hour), nil)
	must(t, err)
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 1})
	missing := event{ID: "2", Timestamp: at(1, 30, 0), V: 1}
	elsewhere := event{ID: "1", Timestamp: at(2, 0, 0), V: 1}
	for what, err := range map[string]error{
		"replace":              b.Replace(t.Context(), "s", missing),
		"replace elsewhere":    b.Replace(t.Context(), "s", elsewhere),
		"replace other series": b.Replace(t.Context(), "t", event{ID: "1", Timestamp: at(1, 0, 0)}),
		"delete":               b.Delete(t.Context(), "s", at(1, 30, 0)),
		"delete by ID":         b.DeleteByID(t.Context(), "s", at(1, 0, 0), "2"),
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("%s: %v", what, err)
		}
	}
	testkit.Is(t, plain.DeleteByID(t.Context(), "s", at(1, 0, 0), "1"), mongopatterns.ErrInvalid)
	if err := b.Replace(t.Context(), "s", event{ID: "3", Timestamp: at(1, 0, 0), V: nan()}); err != nil && !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err) // v has a Count, so NaN is allowed
	}
	// A value that cannot be an ID would find measurements without an ID.
	for _, id := range []any{nil, "", bson.D{{Key: "$ne", Value: ""}}, bson.Regex{Pattern: "."}, bson.A{1}, func() {}} {
		testkit.Is(t, b.DeleteByID(t.Context(), "s", at(1, 0, 0), id), mongopatterns.ErrInvalid)
	}
}

// The document after its last measurement is deleted, and after a measurement is added again.
func TestEmptiedBucket(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.Values[0].Sum, o.Values[0].Squares = "sum", ""
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 5})
	before := testkit.Stored[bson.M](t, coll)
	must(t, b.Delete(t.Context(), "s", at(1, 0, 0)))
	empty := testkit.Stored[bson.M](t, coll)[0]
	if asInt(empty["count"]) != 0 || len(empty["measurements"].(bson.A)) != 0 || asInt(empty["bytes"]) != 0 ||
		fmt.Sprint(empty["sum"]) != "0" || len(empty["agg"].(bson.D)) != 1 { // n: 0
		t.Errorf("emptied: %v", empty)
	}
	mustCheck(t, b)
	diff(t, 0, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	diff(t, 0, len(testkit.Collect(t, b.AggregateWindows(t.Context(), "s", time.Time{}, time.Time{}))))
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 5})
	after := testkit.Stored[bson.M](t, coll)
	for _, doc := range []bson.M{before[0], after[0]} {
		doc["agg"] = nil // in another order
		for _, key := range []string{"count", "bytes"} {
			doc[key] = asInt(doc[key]) // int32 or int64
		}
	}
	diff(t, before, after)
	mustCheck(t, b)
}

// However large ints are, the bucket goes on taking measurements, and its aggregates equal those computed
// from the measurements.
func TestLargeInts(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), full())
	for i, v := range []int64{1 << 31, 2_200_000_000, 3_000_000_001, 1 << 62, math.MaxInt64, math.MinInt64} {
		series := fmt.Sprint(i)
		var ms []bson.D
		for j := range 6 {
			ms = append(ms, bson.D{{Key: "id", Value: j}, {Key: "timestamp", Value: at(1, j, 0)}, {Key: "v", Value: v}})
		}
		mustAppend(t, b, series, ms[:3]...)
		must(t, b.Replace(t.Context(), series, ms[0]))
		must(t, second(b.AppendMany(t.Context(), timeseries.Of(series, ms[3:]...), nil)))
		must(t, b.DeleteByID(t.Context(), series, at(1, 0, 0), 0))
		mustAppend(t, b, series, ms[0])
		for _, to := range []time.Time{at(2, 0, 0), at(1, 30, 0)} { // stored and computed
			stats, err := b.Aggregate(t.Context(), series, at(1, 0, 0), to)
			must(t, err)
			got := stats.Values["v"]
			if sum := got.Sum.Float64(); math.Abs(sum/6-float64(v)) > math.Abs(float64(v))*1e-15 {
				t.Errorf("%d: sum %v", v, got.Sum)
			}
			if got.Variance() > float64(v)*float64(v)*1e-30 {
				t.Errorf("%d: variance %v of %v", v, got.Variance(), got.Squares)
			}
		}
	}
	mustCheck(t, b)
}

// Numbers keep their types through appends, edits and aggregates.
func TestNumberTypes(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.Values[0].Squares = ""
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	dec := func(s string) bson.Decimal128 { return decimal(t, s) }
	for i, c := range []struct {
		values []any
		kind   bson.Type
		sum    string
	}{
		{[]any{int32(1), int32(2)}, bson.TypeInt32, "3"},
		{[]any{int32(1 << 30), int32(1 << 30)}, bson.TypeInt64, "2147483648"},
		{[]any{int64(1 << 53), int64(1)}, bson.TypeInt64, "9007199254740993"},
		{[]any{0.25, 0.5}, bson.TypeDouble, "0.75"},
		{[]any{dec("0.1"), dec("0.2")}, bson.TypeDecimal128, "0.3"},
		{[]any{dec("12345678901234567890.12345678901234"), int32(1)}, bson.TypeDecimal128, "12345678901234567891.12345678901234"},
	} {
		series := fmt.Sprint(i)
		var ms []bson.D
		for j, v := range c.values {
			ms = append(ms, bson.D{{Key: "id", Value: j}, {Key: "timestamp", Value: at(1, j, 0)}, {Key: "v", Value: v}})
		}
		mustAppend(t, b, series+"single", ms...)
		must(t, second(b.AppendMany(t.Context(), timeseries.Of(series+"bulk", ms...), nil)))
		mustAppend(t, b, series+"edited", ms...)
		must(t, b.Replace(t.Context(), series+"edited", ms[0]))
		for _, how := range []string{"single", "bulk", "edited"} {
			for _, to := range []time.Time{at(2, 0, 0), at(1, 30, 0)} { // stored and computed
				stats, err := b.Aggregate(t.Context(), series+how, at(1, 0, 0), to)
				must(t, err)
				sum := stats.Values["v"].Sum
				if sum.Raw().Type != c.kind || sum.String() != c.sum {
					t.Errorf("%v %s: sum %v %v, want %v %v", c.values, how, sum.Raw().Type, sum, c.kind, c.sum)
				}
			}
			got := testkit.Collect(t, b.Range(t.Context(), series+how, time.Time{}, time.Time{}))
			for j, m := range got {
				if fmt.Sprintf("%T %v", m[2].Value, m[2].Value) != fmt.Sprintf("%T %v", c.values[j], c.values[j]) {
					t.Errorf("%v %s: read %T %v", c.values, how, m[2].Value, m[2].Value)
				}
			}
		}
	}
	mustCheck(t, b)
}
