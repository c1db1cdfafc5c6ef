package series_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Plain documents come in, in batches that can be stopped, and go out as they were; late
// ones are taken by the next call, and what is no measurement is named.
func TestAdoptAndBack(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	var docs []any
	var want []bson.D
	for i := range 250 {
		doc := bson.D{{Key: "series", Value: fmt.Sprint("s", i%3)}, {Key: "timestamp", Value: bson.NewDateTimeFromTime(at(0, i/60, i%60))}, {Key: "v", Value: float64(i) / 4}}
		if i%5 == 0 {
			doc = append(doc, bson.E{Key: "tags", Value: bson.A{"a", int32(i % 2)}}, bson.E{Key: "by", Value: bson.D{{Key: "name", Value: "x"}}}, bson.E{Key: "n", Value: int64(i)})
		}
		docs, want = append(docs, append(bson.D{{Key: "_id", Value: i}}, doc...)), append(want, doc)
	}
	docs = append(docs, bson.D{{Key: "_id", Value: 250}, {Key: "series", Value: "s1"}}, bson.D{{Key: "_id", Value: 251}, {Key: "timestamp", Value: day}},
		bson.D{{Key: "_id", Value: 252}, {Key: "series", Value: "s1"}, {Key: "timestamp", Value: day}, {Key: "v", Value: "text"}})
	if _, err := src.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: values})
	if result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{DryRun: true}); err != nil || result.Done != 250 || total(t, s) != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	work := &mongopatterns.Work{BatchSize: 60, Progress: func(mongopatterns.Result) { cancel() }}
	if result, err := s.Adopt(ctx, src, nil, work); !errors.Is(err, context.Canceled) || result.Done != 60 {
		t.Fatalf("%+v, %v", result, err)
	}
	if result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 60}); err != nil || result.Done != 190 || result.Failed != 3 || len(result.Failures) != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	late := bson.D{{Key: "series", Value: "s0"}, {Key: "timestamp", Value: bson.NewDateTimeFromTime(at(9, 0, 0))}, {Key: "v", Value: 1.0}}
	if _, err := src.InsertOne(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Adopt(t.Context(), src, nil, nil); err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	testkit.Healthy(t, s)
	want = append(want, late)
	for _, compact := range []bool{false, true} {
		if compact {
			if _, err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		var got, all []string
		for _, doc := range testkit.Collect(t, s.Documents(t.Context(), nil)) {
			got = append(got, doc.String())
		}
		for _, doc := range want {
			raw, _ := bson.Marshal(doc)
			all = append(all, bson.Raw(raw).String())
		}
		slices.Sort(all)
		slices.Sort(got)
		testkit.Equal(t, all, got)
	}
}

// Buckets with arrays are adopted measurement by measurement; convert can skip and refuse.
func TestAdoptBuckets(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	if _, err := src.InsertMany(t.Context(), []any{
		bson.D{{Key: "sensor_id", Value: "a"}, {Key: "measurements", Value: bson.A{bson.D{{Key: "timestamp", Value: at(0, 1, 0)}, {Key: "v", Value: 1.5}}, bson.D{{Key: "timestamp", Value: at(0, 0, 0)}, {Key: "v", Value: 2.5}}}}},
		bson.D{{Key: "sensor_id", Value: "skip"}, {Key: "measurements", Value: bson.A{}}},
		bson.D{{Key: "sensor_id", Value: "a"}, {Key: "measurements", Value: bson.A{bson.D{{Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 3.5}}, bson.D{{Key: "v", Value: 2.5}}}}},
		bson.D{{Key: "sensor_id", Value: "a"}, {Key: "measurements", Value: 7}},
	}); err != nil {
		t.Fatal(err)
	}
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	unwind := s.Unwind("sensor_id", "measurements")
	result, err := s.Adopt(t.Context(), src, func(doc bson.Raw) (string, []event, error) {
		key, all, err := unwind(doc)
		if key == "skip" {
			err = fmt.Errorf("empty: %w", mongopatterns.ErrSkip)
		}
		return key, all, err
	}, nil)
	if err != nil || result.Examined != 4 || result.Done != 2 || result.Skipped != 1 || result.Failed != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Equal(t, []event{{Timestamp: at(0, 0, 0), V: 2.5}, {Timestamp: at(0, 1, 0), V: 1.5}}, testkit.Collect(t, s.Range(t.Context(), "a", time.Time{}, time.Time{})))
	broken := errors.New("broken")
	if _, err := s.Adopt(t.Context(), src, func(bson.Raw) (string, []event, error) { return "", nil, broken }, &mongopatterns.Work{Filter: bson.M{"sensor_id": "a"}}); !errors.Is(err, broken) {
		t.Error(err)
	}
	// Of two adoptions at once, one gives up before it stores anything twice.
	other := open[string, event](t, db.Collection("d"), timeseries.Every(time.Hour), nil)
	both := func(doc bson.Raw) (string, []event, error) {
		if _, err := other.Adopt(t.Context(), src, unwind, nil); err != nil {
			return "", nil, err
		}
		return unwind(doc)
	}
	if _, err := other.Adopt(t.Context(), src, both, &mongopatterns.Work{BatchSize: 1}); !errors.Is(err, mongopatterns.ErrRunning) || !errors.Is(err, mongopatterns.ErrConflict) {
		t.Error(err)
	}
	if total(t, other) != 0 || len(testkit.Collect(t, other.Range(t.Context(), "a", time.Time{}, time.Time{}))) != 2 {
		t.Error("adopted twice")
	}
}

// Old documents are in one of two collections at any time; late ones come beside them.
func TestArchive(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	target := db.Collection("archive")
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: values})
	archived := open[string, event](t, target, timeseries.Every(time.Hour), &series.Options{Values: values})
	for h := range 5 {
		appendMany(t, s, "s", event{Timestamp: at(h, 0, 0), V: float64(h)})
	}
	if result, err := s.Archive(t.Context(), at(2, 30, 0), target, &mongopatterns.Work{DryRun: true}); err != nil || result.Done != 2 || total(t, s) != 5 {
		t.Fatalf("%+v, %v", result, err)
	}
	for range 2 {
		if result, err := s.Archive(t.Context(), at(2, 30, 0), target, &mongopatterns.Work{BatchBytes: 1}); err != nil || result.Failed > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		if total(t, s) != 3 {
			t.Fatal(total(t, s))
		}
		appendMany(t, s, "s", event{Timestamp: at(0, 30, 0), V: 1})
	}
	if result, err := s.Archive(t.Context(), at(2, 30, 0), target, nil); err != nil || result.Done != 1 || total(t, archived) != 4 {
		t.Fatalf("%+v, %v; %d", result, err, total(t, archived))
	}
	// A document that the archive refuses stays and is named, or with Strict ends the call.
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "archive"}, {Key: "validator", Value: bson.D{{Key: "never", Value: 1}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Archive(t.Context(), at(4, 0, 0), target, nil); err != nil || result.Failed != 2 || total(t, s) != 3 {
		t.Errorf("%+v, %v; %d", result, err, total(t, s))
	}
	if result, err := s.Archive(t.Context(), at(4, 0, 0), target, &mongopatterns.Work{Strict: true}); err == nil || total(t, s) != 3 {
		t.Errorf("%+v", result)
	}
	testkit.Healthy(t, s)
	testkit.Healthy(t, archived)
}

// All calls join the transaction of their context and vanish with it.
func TestTransactions(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := &series.Options{Values: values, MaxCount: 5, BatchField: "batches"}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	open[string, event](t, archive, timeseries.Every(time.Hour), &series.Options{})
	appendMany(t, s, "s", seconds(6)...)
	abort := errors.New("abort")
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		for range 3 {
			if _, err := s.AppendMany(ctx, timeseries.Of("s", seconds(4)...), nil); err != nil {
				return err
			}
		}
		err := errors.Join(s.Append(ctx, "s", event{Timestamp: at(1, 0, 0), V: 1}), s.Replace(ctx, "s", event{Timestamp: day, V: 9}), s.Delete(ctx, "s", at(0, 0, 1)),
			second(s.Compact(ctx, nil)), second(s.Archive(ctx, at(1, 0, 0), archive, nil)), testkit.Drain(s.Check(ctx, nil)))
		if err != nil {
			return err
		}
		if got, err := s.Aggregate(ctx, "s", time.Time{}, time.Time{}); err != nil || got.Count != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		return abort
	})
	if !errors.Is(err, abort) {
		t.Error(err)
	}
	testkit.Equal(t, seconds(6), testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
	appendMany(t, s, "s", event{Timestamp: at(0, 30, 0)})
	testkit.Healthy(t, s)
	if n := testkit.Count(t, archive, bson.D{}); n != 0 {
		t.Errorf("%d documents in the archive", n)
	}
}

// A server error of the driver's own kind stays visible.
func TestDuplicateKeysOfOthers(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Every(time.Hour), nil)
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "series", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	appendMany(t, s, "s", event{Timestamp: at(0, 0, 0)})
	if err := s.Append(t.Context(), "s", event{Timestamp: at(1, 0, 0)}); !errors.Is(err, mongopatterns.ErrConflict) || !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
}
