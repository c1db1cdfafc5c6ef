package series_test

import (
	"math"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The variance of large numbers that hardly differ is right, or NaN where the digits of a Decimal128 are not enough:
// never 0 or another number.
func TestVarianceOfLargeNumbers(t *testing.T) {
	t.Parallel()
	type measurement struct {
		Timestamp time.Time `bson:"timestamp"`
		V         int64     `bson:"v"`
		F         float64   `bson:"f"`
	}
	s := open[string, measurement](t, mongotest.Database(t).Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: []timeseries.Value{{Field: "v"}, {Field: "f"}}})
	for name, base := range map[string]int64{"certain": 1.7e14, "lost": 1.7e18} {
		var all []measurement
		for i := range 11 {
			all = append(all, measurement{at(1, i, 0), base + int64(i), float64(base) + 0.25*float64(i)})
		}
		appendMany(t, s, name, all[:5]...)
		appendMany(t, s, name, all[5:]...)
		for _, from := range []time.Time{{}, at(1, 0, 0)} { // stored and computed
			stats, err := s.Aggregate(t.Context(), name, from, at(1, 30, 0))
			testkit.OK(t, err)
			if v := stats.Values["v"].Variance(); name == "certain" && math.Abs(v-10) > 1e-9 || name == "lost" && !math.IsNaN(v) && math.Abs(v-10) > 1e-9 {
				t.Errorf("%s: %v", name, v)
			}
			// Doubles of 1.7e18 lie 256 apart.
			if v := stats.Values["f"].Variance(); name == "certain" && math.Abs(v-10.0/16) > 1e-9 || name == "lost" && v != 0 && !math.IsNaN(v) {
				t.Errorf("%s: %v", name, v)
			}
		}
	}
}
