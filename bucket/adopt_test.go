package bucket_test

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Documents that come behind, failed once, or are selected by another filter are adopted once. The ledger itself is
// tested in package series.
func TestAdoptOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{MaxCount: 7, Values: []timeseries.Value{{Field: "v", Sum: "sum"}}})
	doc := func(id, i int) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "series", Value: "s"}, {Key: "timestamp", Value: at(i%5, i, 0)}, {Key: "v", Value: float64(i) / 8}}
	}
	adopt := func(want mongopatterns.Result, filter any) {
		t.Helper()
		got, err := b.Adopt(t.Context(), src, nil, &mongopatterns.Work{Filter: filter, BatchSize: 9})
		must(t, err)
		got.Failures = nil
		diff(t, want, got)
	}
	for i := range 40 { // from the end to the beginning
		must(t, second(src.InsertOne(t.Context(), doc(1000-i, i))))
		if i%10 == 9 {
			adopt(mongopatterns.Result{Examined: int64(i + 1), Done: 10, Skipped: int64(i - 9)}, nil)
		}
	}
	adopt(mongopatterns.Result{Examined: 11, Skipped: 11}, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 989}}}})
	bad := doc(5, 40)
	bad[3].Value = "text"
	must(t, second(src.InsertOne(t.Context(), bad)))
	for range 2 {
		adopt(mongopatterns.Result{Examined: 41, Skipped: 40, Failed: 1}, nil)
	}
	must(t, second(src.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: 5}}, doc(5, 40))))
	adopt(mongopatterns.Result{Examined: 41, Done: 1, Skipped: 40}, nil)
	diff(t, 41, len(collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	mustCheck(t, b)
	diff(t, 0, len(collect(t, b.Compare(t.Context(), src, nil, nil))))
}

// Compare finds what differs by series, of numbers of all types, and takes no rounding for a difference.
func TestCompare(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("src"), db.Collection("c")
	type M = bson.D
	b := newBuckets[int, M](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id", MaxCount: 5, Values: []timeseries.Value{{Field: "v.x", Count: "n"}, {Field: "w", Max: "max", Count: "m"}}})
	numbers := []any{0.1, 1e17, -1e17, 5e-324, int32(7), int64(1) << 60, decimal(t, "0.1"), decimal(t, "1E+20"), nan(), "text", nil, 3.0, -0.5}
	for i := range 60 {
		must(t, second(src.InsertOne(t.Context(), M{{Key: "series", Value: i % 3}, {Key: "id", Value: i}, {Key: "timestamp", Value: at(i%7, i, 0)},
			{Key: "v", Value: M{{Key: "x", Value: numbers[i%len(numbers)]}}}, {Key: "w", Value: float64(i) / 3}})))
	}
	result, err := b.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 11})
	if err != nil || result.Done != 60 {
		t.Fatalf("%+v, %v", result, err)
	}
	found := func() (out []string) {
		for _, p := range collect(t, b.Compare(t.Context(), src, nil, nil)) {
			out = append(out, strings.TrimPrefix(p.String(), "bucket: "))
		}
		return out
	}
	diff(t, []string(nil), found())
	must(t, b.Delete(t.Context(), 1, at(1, 1, 0)))
	mustAppend(t, b, 9, M{{Key: "id", Value: 1}, {Key: "timestamp", Value: day}})
	must(t, b.Update(t.Context(), 2, M{{Key: "id", Value: 2}, {Key: "timestamp", Value: at(2, 2, 0)}, {Key: "w", Value: 100.0}, {Key: "v", Value: M{{Key: "x", Value: -1e17}}}}))
	var what []string
	for _, line := range found() {
		_, field, _ := strings.Cut(line, "differs: ")
		_, detail, _ := strings.Cut(line, ": series ")
		what = append(what, strings.Split(field, " ")[0]+" of "+detail)
	}
	diff(t, []string{"count of 1, count", "measurements.v.x of 1, sum", "measurements.w of 1, sum", "measurements.w of 2, sum", "count of 9, count"}, what)
}
