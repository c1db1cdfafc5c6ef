package series_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Whatever call writes numbers, of whatever types and sizes together, Check computes the same, and so does Compare.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	o := &series.Options{Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares", Min: "min", Max: "max", First: "first", Last: "last", Count: "n"}}}
	s, adopted := open[string, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), o), open[string, bson.D](t, db.Collection("adopted"), timeseries.Every(time.Hour), o)
	numbers := testkit.Numbers()
	m := func(second int, v any) bson.D { return testkit.D("timestamp", at(1, 0, second), "v", v) }
	var firsts, rest []bson.D
	for i, x := range numbers {
		for j, y := range numbers[:i+1] {
			series := testkit.D("series", fmt.Sprint(i, " ", j))
			firsts = append(firsts, slices.Concat(series, m(0, x)))
			rest = append(rest, slices.Concat(series, m(1, y)), slices.Concat(series, m(2, x)), slices.Concat(series, m(3, y)))
		}
	}
	src := db.Collection("src")
	testkit.InsertAll(t, src, slices.Concat(firsts, rest))
	testkit.OK(t, testkit.ErrorOf(adopted.Adopt(t.Context(), src, nil, nil)))
	testkit.Healthy(t, adopted)
	for _, p := range testkit.Collect(t, adopted.Compare(t.Context(), src, nil, nil)) {
		t.Errorf("compare: %v", p)
	}
	for _, part := range [][]bson.D{firsts, rest} {
		testkit.OK(t, testkit.ErrorOf(s.AppendMany(t.Context(), func(yield func(string, bson.D) bool) {
			for _, doc := range part {
				if !yield(doc[0].Value.(string), doc[1:]) {
					return
				}
			}
		}, nil)))
	}
	testkit.Healthy(t, s)
	for i, x := range numbers {
		series := fmt.Sprint(i, " ", i*7%(i+1))
		testkit.OK(t, s.Replace(t.Context(), series, m(3, x)))
		testkit.OK(t, s.Append(t.Context(), series, m(4, numbers[len(numbers)-1-i])))
		testkit.OK(t, s.Delete(t.Context(), series, at(1, 0, 0)))
		testkit.OK(t, s.Append(t.Context(), series, m(5, x)))
	}
	testkit.Healthy(t, s)
}

// A sum that has overflowed is an infinity in Aggregate too, and not a sum without this document.
func TestOverflownSum(t *testing.T) {
	t.Parallel()
	s := open[string, bson.D](t, mongotest.Database(t).Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: []timeseries.Value{{Field: "v"}}})
	largest := testkit.Must(bson.ParseDecimal128("9E+6144"))
	for hour, v := range []any{largest, largest, 1} {
		testkit.OK(t, s.Append(t.Context(), "s", testkit.D("timestamp", at(1+hour/2, hour%2, 0), "v", v)))
	}
	stats, err := s.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	testkit.OK(t, err)
	testkit.Equal(t, "Infinity", stats.Values["v"].Sum.String())
}
