package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Documents that are inserted later, failed once, or are selected by another filter are adopted once.
// Package series tests the ledger itself.
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
	diff(t, 41, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	mustCheck(t, b)
	diff(t, 0, len(testkit.Collect(t, b.Compare(t.Context(), src, nil, nil))))
}

// Compare finds differences by series, with numbers of all types, and does not report rounding.
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
		for _, p := range testkit.Collect(t, b.Compare(t.Context(), src, nil, nil)) {
			out = append(out, strings.TrimPrefix(p.String(), "bucket: "))
		}
		return out
	}
	diff(t, []string(nil), found())
	must(t, b.Delete(t.Context(), 1, at(1, 1, 0)))
	mustAppend(t, b, 9, M{{Key: "id", Value: 1}, {Key: "timestamp", Value: day}})
	must(t, b.Replace(t.Context(), 2, M{{Key: "id", Value: 2}, {Key: "timestamp", Value: at(2, 2, 0)}, {Key: "w", Value: 100.0}, {Key: "v", Value: M{{Key: "x", Value: -1e17}}}}))
	var what []string
	for _, line := range found() {
		_, field, _ := strings.Cut(line, "different: ")
		_, detail, _ := strings.Cut(line, ": series ")
		what = append(what, strings.Split(field, " ")[0]+" of "+detail)
	}
	diff(t, []string{"count of 1, count", "measurements.v.x of 1, sum", "measurements.w of 1, sum", "measurements.w of 2, sum", "count of 9, count"}, what)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	var docs []any
	for i := range 50 {
		var id any = i // several types of _id
		switch {
		case i >= 40:
			id = bson.NewObjectID()
		case i >= 20:
			id = fmt.Sprintf("id %02d", i)
		}
		docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "sensor_id", Value: i % 3},
			{Key: "timestamp", Value: at(i%4, i, 0)}, {Key: "temperature", Value: float64(i)}, {Key: "note", Value: "kept"}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	o := scenario()
	o.MaxCount = 3
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), o)
	// Stop after the second and after the fourth batch, then run to the end.
	var adopted int64
	for stop := 2; adopted < 50 && stop < 10; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		batches := 0
		result, err := b.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 7, Progress: func(mongopatterns.Result) {
			if batches++; batches == stop {
				cancel()
			}
		}})
		cancel()
		adopted += result.Done
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	check := func(want int) {
		t.Helper()
		total := 0
		for series := range 3 {
			for _, m := range testkit.Collect(t, b.Range(t.Context(), series, time.Time{}, time.Time{})) {
				total++
				if len(m) != 3 || m[0].Key != "timestamp" || m[2].Value != "kept" || int(m[1].Value.(float64))%3 != series {
					t.Errorf("series %d: %v", series, m)
				}
			}
		}
		if total != want {
			t.Errorf("%d measurements, want %d", total, want)
		}
		mustCheck(t, b)
	}
	check(50)
	// Another call adopts only what is new.
	must(t, second(src.InsertOne(t.Context(), docs[0].(bson.D)[1:])))
	for _, want := range []int64{1, 0} {
		testkit.Done(t, want)(b.Adopt(t.Context(), src, nil, nil))
	}
	check(51)

	// A document that does not fit is named and passed over.
	must(t, second(src.InsertOne(t.Context(), bson.D{{Key: "sensor_id", Value: 1}})))
	result, err := b.Adopt(t.Context(), src, nil, nil)
	if err != nil || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	// With a filter it adopts only what was not adopted.
	result, err = b.Adopt(t.Context(), src, func(doc bson.Raw) (int, bson.D, error) {
		return 9, bson.D{{Key: "timestamp", Value: at(20, 0, 0)}, {Key: "temperature", Value: 1}}, nil
	}, &mongopatterns.Work{Filter: bson.D{{Key: "sensor_id", Value: 1}}})
	if err != nil || result.Done != 1 || result.Skipped != 17 { // 1, 4, …, 49 and the last
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, 1, len(testkit.Collect(t, b.Range(t.Context(), 9, time.Time{}, time.Time{}))))
}

// Without convert, fields that a document lacks are not invented.
func TestAdoptIncomplete(t *testing.T) {
	t.Parallel()
	type measurement struct {
		ID        string    `bson:"id"`
		Timestamp time.Time `bson:"timestamp"`
		V         float64   `bson:"v"`
	}
	o := full()
	o.Values[0].Count = ""
	for missing, doc := range map[string]bson.D{
		"timestamp":         {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "v", Value: 1.0}},
		"not set":           {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "v", Value: 1.0}, {Key: "timestamp", Value: time.Time{}}},
		"number":            {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}},
		"finite":            {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: nil}},
		"is not an ID: inv": {{Key: "series", Value: "s"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
		`no series in "se`:  {{Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
		"null":              {{Key: "series", Value: nil}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
	} {
		db := mongotest.Database(t)
		b := newBuckets[string, measurement](t, db.Collection("c"), timeseries.Every(time.Hour), o)
		must(t, second(db.Collection("src").InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: "culprit"}}, doc...))))
		result, err := b.Adopt(t.Context(), db.Collection("src"), nil, nil)
		if err != nil || result.Failed != 1 || result.Failures[0].ID.StringValue() != "culprit" || !strings.Contains(result.Failures[0].Err.Error(), missing) {
			t.Errorf("%s: %+v, %v", missing, result, err)
		}
		if n := testkit.Count(t, db.Collection("c"), bson.D{}); n != 0 {
			t.Errorf("%s: %d buckets", missing, n)
		}
	}
}

func TestAdoptTwiceAtOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	var docs []any
	for i := range 60 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "series", Value: 1}, {Key: "timestamp", Value: at(i%4, i, 0)}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	var wait sync.WaitGroup
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	for range 2 {
		wait.Go(func() {
			if _, err := b.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 5}); err != nil && !errors.Is(err, mongopatterns.ErrRunning) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if _, err := b.Adopt(t.Context(), src, nil, nil); err != nil {
		t.Error(err)
	}
	diff(t, 60, len(testkit.Collect(t, b.Range(t.Context(), 1, time.Time{}, time.Time{}))))
	mustCheck(t, b)
}

// A document that is Failed or Skipped in a batch that meets another writer is counted once.
func TestAdoptCountsOnceAfterAConflict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("readings")
	var docs []any
	for i := range 8 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	b := newBuckets[int, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	convert := func(doc bson.Raw) (int, bson.D, error) {
		switch id := doc.Lookup("_id").Int32(); id {
		case 2:
			return 0, nil, fmt.Errorf("%w: no time", mongopatterns.ErrInvalid)
		case 5:
			return 0, nil, mongopatterns.ErrSkip
		default:
			return 1, bson.D{{Key: "timestamp", Value: at(1, int(id), 0)}}, nil
		}
	}
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, Code: 112, Labels: []string{"TransientTransactionError"}})
	result, err := b.Adopt(t.Context(), src, convert, nil)
	if err != nil || result.Conflicts != 1 || result.Examined != 8 || result.Done != 6 || result.Failed != 1 || len(result.Failures) != 1 || result.Skipped != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// With IDs, measurements that were appended before are not adopted again.
func TestAdoptKnownIDs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	o := &bucket.Options{IDField: "_id", MaxCount: 4}
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	for i := range 10 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "timestamp", Value: at(1, i, 0)}}
		if i < 6 {
			mustAppend(t, b, "s", doc)
		}
		must(t, second(src.InsertOne(t.Context(), append(doc, bson.E{Key: "series", Value: "s"}))))
	}
	result, err := b.Adopt(t.Context(), src, nil, nil)
	if err != nil || result.Done != 4 || result.Skipped != 6 {
		t.Errorf("%+v, %v", result, err)
	}
	mustCheck(t, b)
}

// A conversion can leave documents out; the next call asks about them again.
func TestAdoptSkips(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	var docs []any
	for i := range 20 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "time", Value: at(1, i, 0)}}
		if i == 2 || i >= 12 {
			doc[1].Value = "yesterday"
		}
		docs = append(docs, doc)
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	b := newBuckets[string, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	seen := 0
	convert := func(doc bson.Raw) (string, bson.D, error) {
		seen++
		at, ok := doc.Lookup("time").TimeOK()
		if !ok {
			return "", nil, fmt.Errorf("no time: %w", mongopatterns.ErrSkip)
		}
		return "s", bson.D{{Key: "timestamp", Value: at}}, nil
	}
	// Stop in the middle of a batch, then run to the end.
	failed := errors.New("failed")
	result, err := b.Adopt(t.Context(), src, func(doc bson.Raw) (string, bson.D, error) {
		if doc.Lookup("_id").Int32() == 9 {
			return "", nil, failed
		}
		return convert(doc)
	}, &mongopatterns.Work{BatchSize: 5})
	if want := (mongopatterns.Result{Examined: 5, Done: 4, Skipped: 1}); !errors.Is(err, failed) || !strings.Contains(err.Error(), "_id 9: ") || !cmp.Equal(result, want) {
		t.Errorf("%+v, %v", result, err)
	}
	for _, want := range []struct {
		result  mongopatterns.Result
		seen    int
		batches int
	}{{mongopatterns.Result{Examined: 20, Done: 7, Skipped: 13}, 16, 4}, {mongopatterns.Result{Examined: 20, Skipped: 20}, 9, 3}} {
		seen = 0
		batches := 0
		result, err := b.Adopt(t.Context(), src, convert, &mongopatterns.Work{BatchSize: 4, Progress: func(mongopatterns.Result) { batches++ }})
		if err != nil || !cmp.Equal(result, want.result) || seen != want.seen || batches != want.batches {
			t.Errorf("%+v, %v: %d converted in %d batches", result, err, seen, batches)
		}
	}
	diff(t, 11, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
}

// With Work.Strict a document that cannot be converted ends Adopt.
func TestAdoptStrict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[int, reading](t, db.Collection("b"), timeseries.Every(time.Hour), nil)
	_, err := db.Collection("src").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "series", Value: 1}, {Key: "timestamp", Value: "no date"}})
	must(t, err)
	if result, err := b.Adopt(t.Context(), db.Collection("src"), nil, &mongopatterns.Work{Strict: true}); err == nil {
		t.Errorf("%+v", result)
	}
	if result, err := b.Adopt(t.Context(), db.Collection("src"), nil, nil); err != nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	slots, err := slots.New[int, any](db.Collection("slots"), timeseries.Every(time.Hour), nil)
	must(t, err)
	_, err = db.Collection("slots").InsertOne(t.Context(), bson.D{{Key: "series", Value: 1}, {Key: "start", Value: "no date"}, {Key: "data", Value: bson.D{}}})
	must(t, err)
	for _, strict := range []bool{true, false} {
		result, err := slots.Adopt(t.Context(), nil, &mongopatterns.Work{Strict: strict})
		if strict && err == nil || !strict && (err != nil || result.Failed != 1) {
			t.Errorf("strict %v: %+v, %v", strict, result, err)
		}
	}
}

// Metadata gets IDs from Adopt as it does from Append, and a document whose series cannot be decoded as an ID is Failed.
func TestAdoptWithMetadata(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b, err := bucket.New[int, bson.D](db.Collection("buckets"), timeseries.Days(nil), &bucket.Options{
		Metadata: func(series any, _ time.Time) bson.D { return bson.D{{Key: "next", Value: series.(int) + 1}} }})
	must(t, err)
	src := db.Collection("src")
	must(t, second(src.InsertMany(t.Context(), []any{
		bson.D{{Key: "series", Value: 1}, {Key: "timestamp", Value: day}}, bson.D{{Key: "series", Value: "x"}, {Key: "timestamp", Value: day}},
	})))
	result, err := b.Adopt(t.Context(), src, nil, nil)
	if err != nil || result.Done != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	must(t, second(b.Append(t.Context(), 2, bson.D{{Key: "timestamp", Value: day}})))
	for series := range 2 {
		if n := testkit.Count(t, db.Collection("buckets"), bson.D{{Key: "series", Value: series + 1}, {Key: "next", Value: series + 2}}); n != 1 {
			t.Errorf("%d buckets of %d", n, series+1)
		}
	}
}
