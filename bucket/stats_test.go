package bucket_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The variance of values around 1e9 with deviation 1 is right to 1e-9, in whatever
// order and by whatever call they come, stored or computed.
func TestVariance(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{
		MaxCount: 100, Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares"}},
	})
	random := rand.New(rand.NewPCG(1, 2))
	var events []event
	var mean, want float64
	for i := range 1000 {
		v := random.NormFloat64()
		events = append(events, event{Timestamp: at(i/60, i%60, 0), V: 1e9 + v})
		mean += (events[i].V - 1e9) / 1000
	}
	for _, e := range events {
		want += (e.V - 1e9 - mean) * (e.V - 1e9 - mean) / 1000
	}
	for i, e := range slices.Backward(events) {
		if i%5 == 0 {
			mustAppend(t, b, "s", e)
		}
	}
	for rest := range 4 {
		var part []event
		for i := 1 + rest; i < len(events); i += 5 {
			part = append(part, events[i])
		}
		must(t, second(b.AppendMany(t.Context(), timeseries.Of("s", part...), nil)))
	}
	mustCheck(t, b)
	check := func(what string, v timeseries.ValueStats, err error) {
		t.Helper()
		if err != nil || v.Count != 1000 || math.Abs(v.Variance()/want-1) > 1e-9 || math.Abs(v.StdDev()/math.Sqrt(want)-1) > 1e-9 {
			t.Errorf("%s: variance %v of %d, want %v (%v)", what, v.Variance(), v.Count, want, err)
		}
	}
	whole, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	check("stored", whole.Values["v"], err)
	one := newBuckets[string, event](t, db.Collection("c"), timeseries.Months(nil), &bucket.Options{Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares"}}})
	cut, err := one.Aggregate(t.Context(), "s", at(-1, 0, 0), at(100, 0, 0)) // from the measurements
	check("computed", cut.Values["v"], err)
	must(t, second(db.Collection("c").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "squares", Value: ""}, {Key: "sum", Value: ""}}}})))
	must(t, second(b.Repair(t.Context(), nil)))
	whole, err = b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	check("repaired", whole.Values["v"], err)
	mustCheck(t, b)
}

// Check agrees with sums of Decimal128, alone and among other numbers, however they
// were added.
func TestDecimalsAgree(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.IDField = ""
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	random := rand.New(rand.NewPCG(8, 8))
	for series, kinds := range map[string]int{"decimals": 1, "ints": 2, "doubles": 3} {
		for range 12 {
			var batch []bson.D
			for i := range 1 + random.IntN(6) {
				v := any(decimal(t, fmt.Sprintf("%d.%019dE%d", random.Int64N(2e15)-1e15, random.Int64N(1e18), random.IntN(8)-4)))
				switch kind := random.IntN(kinds); {
				case kind == 1:
					v = random.Int64() - random.Int64()
				case kind == 2:
					v = random.NormFloat64() * 1e9
				}
				batch = append(batch, bson.D{{Key: "id", Value: i}, {Key: "timestamp", Value: at(0, 0, random.IntN(3600))}, {Key: "v", Value: v}})
			}
			mustAppend(t, b, series, batch[0])
			must(t, second(b.AppendMany(t.Context(), timeseries.Of(series, batch[1:]...), nil)))
		}
		mustCheck(t, b)
	}
	must(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "series", Value: "decimals"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "agg.sum", Value: decimal(t, "1E-12")}}}})))
	diff(t, 1, len(testkit.Collect(t, b.Check(t.Context(), nil))))
}

func TestNumberOfNothing(t *testing.T) {
	var n timeseries.Number
	if !n.IsZero() || n.String() != "" || !math.IsNaN(n.Float64()) || n.Raw().Type != 0 {
		t.Errorf("%v", n)
	}
	var v timeseries.ValueStats
	if !math.IsNaN(v.Mean()) || !math.IsNaN(v.Variance()) {
		t.Errorf("%v %v", v.Mean(), v.Variance())
	}
}

// An empty piece of a bucket has no sums, like a range without buckets.
func TestAggregateOfNothing(t *testing.T) {
	t.Parallel()
	b := newBuckets[string, event](t, mongotest.Database(t).Collection("c"), timeseries.Every(time.Hour), full())
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 1})
	for _, r := range [][2]time.Time{{at(1, 10, 0), at(1, 20, 0)}, {at(3, 10, 0), at(3, 20, 0)}, {at(2, 0, 0), at(1, 0, 0)}} {
		stats, err := b.Aggregate(t.Context(), "s", r[0], r[1])
		must(t, err)
		v := stats.Values["v"]
		if v.Count != 0 || !v.Sum.IsZero() || !v.Squares.IsZero() || !v.Min.IsZero() || !v.First.Value.IsZero() || !math.IsNaN(v.Mean()) {
			t.Errorf("%v: %+v", r, v)
		}
		if got, err := json.Marshal(stats); err != nil || string(got) != `{"count":0,"values":{"v":{"count":0}}}` {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestStatsAsJSON(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), full())
	for i, v := range []any{1, int64(math.MaxInt64), 0.1, 1e21, decimal(t, "12345678901234567890.10"), decimal(t, "-1E+400"), decimal(t, "0E-7")} {
		mustAppend(t, b, fmt.Sprint(i), bson.D{{Key: "id", Value: i}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: v}})
		stats, err := b.Aggregate(t.Context(), fmt.Sprint(i), time.Time{}, time.Time{})
		must(t, err)
		number := []string{"1", "9223372036854775807", "0.1", "1e+21", "12345678901234567890.10", "-1E+400", "0E-7"}[i]
		got, err := json.Marshal(stats.Values["v"].Min)
		if err != nil || string(got) != number || !json.Valid(got) {
			t.Errorf("%v: %s, %v", v, got, err)
		}
		if i == 0 {
			if got, err = json.Marshal(stats); err != nil {
				t.Error(err)
			}
			sample := `{"time":"2019-01-31T01:00:00Z","value":1}`
			diff(t, `{"count":1,"values":{"v":{"count":1,"sum":1,"squares":1,"min":1,"max":1,"first":`+sample+`,"last":`+sample+`}}}`, string(got))
		}
	}
	// Values that another program stored there and that JSON does not have.
	for _, v := range []any{nan(), math.Inf(1), decimal(t, "NaN"), decimal(t, "-Infinity")} {
		must(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "series", Value: "0"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "agg.max", Value: v}}}})))
		stats, err := b.Aggregate(t.Context(), "0", time.Time{}, time.Time{})
		if err != nil || stats.Values["v"].Max.IsZero() {
			t.Fatal(stats, err)
		}
		if got, err := json.Marshal(stats.Values["v"].Max); err != nil || string(got) != "null" {
			t.Errorf("%v: %s, %v", v, got, err)
		}
	}
}

func decimal(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	must(t, err)
	return d
}
