package bucket_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Whatever call writes numbers, of whatever types and sizes together, Check computes the same, and so does Compare.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*bucket.Options{
		"sum":     {Values: []timeseries.Value{{Field: "v", Sum: "sum", Min: "min", Max: "max", First: "first", Last: "last", Count: "n"}}},
		"one":     {MaxCount: 1, Values: []timeseries.Value{{Field: "v", Sum: "sum", Count: "n"}}},
		"squares": {Values: []timeseries.Value{{Field: "v"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			b := newBuckets[string, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), o)
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
			adopted := newBuckets[string, bson.D](t, db.Collection("adopted"), timeseries.Every(time.Hour), o)
			must(t, second(adopted.Adopt(t.Context(), src, nil, nil)))
			testkit.Healthy(t, adopted)
			for _, p := range testkit.Collect(t, adopted.Compare(t.Context(), src, nil, nil)) {
				t.Errorf("compare: %v", p)
			}
			for _, part := range [][]bson.D{firsts, rest} {
				must(t, second(b.AppendMany(t.Context(), func(yield func(string, bson.D) bool) {
					for _, doc := range part {
						if !yield(doc[0].Value.(string), doc[1:]) {
							return
						}
					}
				}, nil)))
			}
			testkit.Healthy(t, b)
			for i, x := range numbers {
				series := fmt.Sprint(i, " ", i*7%(i+1))
				must(t, b.Replace(t.Context(), series, m(3, x)))
				mustAppend(t, b, series, m(4, numbers[len(numbers)-1-i]))
				must(t, b.Delete(t.Context(), series, at(1, 0, 0)))
				mustAppend(t, b, series, m(5, x))
			}
			testkit.Healthy(t, b)
		})
	}
}
