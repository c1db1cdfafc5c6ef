package series_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// seconds are n measurements, one a second from midnight on.
func seconds(n int) []event {
	out := make([]event, n)
	for i := range out {
		out[i] = event{Timestamp: at(0, 0, i), V: float64(i%10) / 10}
	}
	return out
}

func second[A any](_ A, err error) error { return err }

func total[M any](t testing.TB, s *series.Series[string, M]) int64 {
	t.Helper()
	stats, err := s.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return stats.Count
}

// Stored, refused and unknown measurements are told apart when AppendMany ends with an error.
func TestAppendManyOutcomes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRetryWrites(false))
	work := &mongopatterns.Work{BatchSize: 1000}
	t.Run("lost", func(t *testing.T) {
		s := open[string, event](t, db.Collection("lost"), timeseries.Every(time.Minute), nil)
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Skip: 3, Close: true})
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if !mongo.IsNetworkError(err) || result.Done != 3000 || result.Unknown != 1000 || result.Examined != 4000 || total(t, s) != 3000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		if err := db.CreateCollection(t.Context(), "refused", options.CreateCollection().SetValidator(
			bson.D{{Key: "start", Value: bson.D{{Key: "$ne", Value: at(0, 20, 0)}}}})); err != nil {
			t.Fatal(err)
		}
		s := open[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if err == nil || result.Done != 4940 || result.Failed != 60 || result.Examined != 5000 || result.Unknown != 0 || total(t, s) != 4940 {
			t.Errorf("%+v, %v", result, err)
		}
		if len(result.Failures) != 1 || !result.Failures[0].ID.Document().Lookup("start").Time().Equal(at(0, 20, 0)) {
			t.Errorf("%+v", result.Failures)
		}
	})
	// Beside the refused minute is one that another writer has filled: its measurements are sent again.
	t.Run("refused and full", func(t *testing.T) {
		o := &series.Options{MaxCount: 1}
		appendMany(t, open[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), o), "full", event{Timestamp: at(0, 0, 0)})
		s := open[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), o)
		result, err := s.AppendMany(t.Context(), timeseries.Of("full", append(seconds(60), event{Timestamp: at(0, 20, 0)})...), work)
		if err == nil || result.Done != 60 || result.Failed != 1 || result.Unknown != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		s := open[string, event](t, db.Collection("canceled"), timeseries.Every(time.Minute), nil)
		ctx, cancel := context.WithCancel(t.Context())
		result, err := s.AppendMany(ctx, timeseries.Of("s", seconds(2500)...), &mongopatterns.Work{BatchSize: 1000, Progress: func(mongopatterns.Result) { cancel() }})
		if !errors.Is(err, context.Canceled) || result.Done != 1000 || result.Unknown != 0 || total(t, s) != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("write concern", func(t *testing.T) {
		s := open[string, event](t, db.Collection("concern"), timeseries.Every(time.Minute), nil)
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 64})
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(2500)...), work)
		if err == nil || result.Done != 0 || result.Unknown != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		s := open[string, event](t, db.Collection("invalid"), timeseries.Every(time.Minute), nil)
		items := seconds(10)
		items[7].Timestamp = time.Time{}
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", items...), nil)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "item 7") || result.Done != 7 || result.Failed != 1 || total(t, s) != 7 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("dry", func(t *testing.T) {
		s := open[string, event](t, db.Collection("dry"), timeseries.Every(time.Minute), nil)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(10)...), &mongopatterns.Work{DryRun: true})
		if err != nil || result.Done != 10 || total(t, s) != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	// A flush that fails keeps what it has, and the next one stores it; with BatchField
	// once, also if it was stored and the answer lost.
	t.Run("gatherer", func(t *testing.T) {
		s := open[string, event](t, db.Collection("gatherer"), timeseries.Every(time.Minute), &series.Options{BatchField: "batches"})
		g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 150})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range seconds(150) {
			if err := g.Append(t.Context(), "s", e); err != nil {
				t.Fatal(err)
			}
		}
		if g.Waiting() != 150 || total(t, s) != 0 {
			t.Fatal(g.Waiting())
		}
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 2, Close: true})
		if err := g.Append(t.Context(), "s", event{Timestamp: at(5, 0, 0)}); !mongo.IsNetworkError(err) || g.Waiting() != 150 {
			t.Fatal(err, g.Waiting())
		}
		if result, err := g.Flush(t.Context()); !mongo.IsNetworkError(err) || result.Unknown != 150 || g.Waiting() != 150 {
			t.Fatal(result, err, g.Waiting())
		}
		// The same batches, come on another way: as if the answer had been lost.
		other := open[string, event](t, db.Collection("gatherer"), timeseries.Every(time.Minute), &series.Options{BatchField: "batches"})
		appendMany(t, other, "s", seconds(60)...)
		if err := g.Close(t.Context()); err != nil || g.Waiting() != 0 || total(t, s) != 150 {
			t.Fatal(err, g.Waiting(), total(t, s))
		}
		if err := g.Append(t.Context(), "s", event{Timestamp: at(0, 0, 0)}); !errors.Is(err, mongopatterns.ErrClosed) || errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	})
}

// A batch that is repeated is stored once with BatchField, also beside Compact, until ten minutes are over.
func TestRepeatedBatches(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	o := &series.Options{BatchField: "batches", MaxCount: 20, Values: values}
	for i, want := range []struct{ done, skipped int64 }{{90, 0}, {0, 90}} {
		s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(90)...), &mongopatterns.Work{BatchSize: 7})
		if err != nil || result.Done != want.done || result.Skipped != want.skipped {
			t.Fatalf("%d: %+v, %v", i, result, err)
		}
	}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	if total(t, s) != 90 {
		t.Error(total(t, s))
	}
	testkit.Healthy(t, s)
	if _, err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	again := func(done, skipped int64) {
		t.Helper()
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(90)...), &mongopatterns.Work{BatchSize: 7})
		if err != nil || result.Done != done || result.Skipped != skipped {
			t.Errorf("%+v, %v", result, err)
		}
	}
	again(0, 90)
	testkit.OK(t, s.Replace(t.Context(), "s", seconds(1)[0]))
	again(0, 90)
	// As if they had come eleven minutes ago.
	long := bson.D{{Key: "$set", Value: bson.D{{Key: "batches.$[].at", Value: time.Now().Add(-11 * time.Minute)}}}}
	_, err := coll.UpdateMany(t.Context(), bson.D{{Key: "batches", Value: bson.D{{Key: "$exists", Value: true}}}}, long)
	testkit.OK(t, err)
	again(0, 90)
	for i := range 3 { // as a second block, which gives Compact something to do
		_, err = s.AppendMany(t.Context(), timeseries.Of("s", event{Timestamp: at(0, 0, 0), N: -1 - i}), nil)
		testkit.OK(t, err)
	}
	testkit.OK(t, s.Replace(t.Context(), "s", seconds(1)[0]))
	_, err = s.Compact(t.Context(), nil)
	testkit.OK(t, err)
	docs, err := coll.CountDocuments(t.Context(), bson.D{{Key: "batches.at", Value: bson.D{{Key: "$lt", Value: time.Now().Add(-10 * time.Minute)}}},
		{Key: "revision", Value: bson.D{{Key: "$gt", Value: 2}}}})
	if err != nil || docs != 0 {
		t.Errorf("%d documents keep old IDs, %v", docs, err)
	}
}

// A writer that remembers a document goes on in the next one soon after it is full.
func TestRollOver(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{MaxCount: 48})
	for _, e := range seconds(300) {
		if err := s.Append(t.Context(), "s", e); err != nil {
			t.Fatal(err)
		}
	}
	if n, over := testkit.Count(t, coll, bson.D{}), testkit.Count(t, coll, bson.D{{Key: "count", Value: bson.D{{Key: "$gt", Value: 51}}}}); n < 6 || n > 7 || over > 0 {
		t.Errorf("%d documents, %d too full", n, over)
	}
	if got := testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})); !slices.Equal(got, seconds(300)) {
		t.Errorf("%d measurements", len(got))
	}
	testkit.Healthy(t, s)
}

// fullOfWide is how many wide measurements fill a document: no other row has the same texts, so each counts with its bytes.
const fullOfWide = (4 << 20) / (40 * (1 + 8 + 8000/8))

// wide are measurements of forty texts of 8,000 bytes each.
func wide(t *testing.T, rows int) (out []bson.Raw) {
	t.Helper()
	m := bson.D{{Key: "timestamp", Value: day}}
	for i := range 40 {
		m = append(m, bson.E{Key: fmt.Sprint("f", i), Value: "??" + strings.Repeat("x", 7993)})
	}
	raw := testkit.Raw(t, m)
	for row := range rows {
		out = append(out, bytes.ReplaceAll(raw, []byte("??"), []byte{byte('A' + row/26), byte('a' + row%26)}))
	}
	return out
}

// Measurements that hardly change take few bytes packed, and a document of them has no more values than memory can hold.
func TestWideMeasurements(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, bson.Raw](t, coll, timeseries.Days(nil), nil)
	const rows = fullOfWide * 5 / 4
	result, err := s.AppendMany(t.Context(), timeseries.Of("s", wide(t, rows)...), &mongopatterns.Work{BatchSize: 10})
	if err != nil || result.Done != rows {
		t.Fatalf("%+v, %v", result, err)
	}
	_, err = s.Compact(t.Context(), nil)
	testkit.OK(t, err)
	testkit.Healthy(t, s)
	counts := map[int64]int32{}
	for _, doc := range testkit.Stored[bson.Raw](t, coll) {
		counts[doc.Lookup("_id", "n").AsInt64()] = doc.Lookup("count").Int32()
	}
	if len(counts) != 2 || counts[0]+counts[1] != rows || counts[0] > fullOfWide+10 {
		t.Errorf("%v", counts)
	}
}

// After a small measurement a writer may add many like it without a look, but not as many large ones.
func TestRoomOfAnother(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	o := &series.Options{MaxCount: 1 << 20, MaxBytes: 8 << 20}
	appendMany(t, open[string, bson.Raw](t, coll, timeseries.Days(nil), o), "s", wide(t, fullOfWide*19/20)...)
	s := open[string, bson.Raw](t, coll, timeseries.Days(nil), o)
	appendMany(t, s, "s", testkit.Raw(t, bson.D{{Key: "timestamp", Value: day}}))
	const rows = fullOfWide / 7 // more than the document may hold beyond its limit
	result, err := s.AppendMany(t.Context(), timeseries.Of("s", wide(t, rows)...), &mongopatterns.Work{BatchSize: 2})
	if err != nil || result.Done != rows {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := testkit.Count(t, coll, bson.D{{Key: "count", Value: bson.D{{Key: "$gt", Value: fullOfWide * 17 / 16}}}}); n > 0 {
		t.Error(testkit.Stored[bson.Raw](t, coll)[0].Lookup("count"))
	}
	testkit.Healthy(t, s)
}

// Those of one time are read in the order in which they came, compacted or not.
func TestTies(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{MaxCount: 15})
	var want []event
	for i := range 40 {
		e := event{Timestamp: at(1, 0, 0), N: i + 1}
		appendMany(t, s, "s", e)
		want = append(want, e)
	}
	for range 2 {
		testkit.Equal(t, want, testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
		if latest, err := s.Latest(t.Context(), "s"); err != nil || latest.N != 40 {
			t.Error(latest, err)
		}
		if _, err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// The newest document of a window is gone, and an older one, full, is still there.
func TestAppendAfterTheNewestIsGone(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values, MaxCount: 10})
	for n := range 2 {
		var ten []event
		for i := range 10 {
			ten = append(ten, event{Timestamp: at(n, i, 0), V: float64(i)})
		}
		appendMany(t, s, "s", ten...)
	}
	if gone, err := coll.DeleteOne(t.Context(), bson.D{{Key: "_id.n", Value: 1}}); err != nil || gone.DeletedCount != 1 {
		t.Fatal(gone, err)
	}
	for i := range 2 {
		err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(5, i, 0), V: 1})
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := total(t, s); n != 12 {
		t.Error(n)
	}
	testkit.Healthy(t, s)
}

// A document that a field of the user fills is full, although it has few measurements: a transaction that meets it is run
// again and goes on in the next one.
func TestFullInTransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	testkit.InsertAll(t, src, []bson.D{plainDoc(1, 3)})
	type events = *series.Series[string, event]
	for name, call := range map[string]func(ctx context.Context, s events) error{
		"append": func(ctx context.Context, s events) error {
			return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
				return second(s.AppendMany(ctx, timeseries.Of("s", seconds(3)[2]), nil))
			})
		},
		"adopt": func(ctx context.Context, s events) error { return second(s.Adopt(ctx, src, nil, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := db.Collection(name)
			s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values})
			appendMany(t, s, "s", seconds(1)...)
			size := len(testkit.Stored[bson.Raw](t, coll)[0])
			pad := strings.Repeat("x", 16<<20-size-30) // 30 bytes are less than a block
			testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "pad", Value: pad}}}})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := call(ctx, s); err != nil {
				t.Fatal(err)
			}
			if n := testkit.Count(t, coll, bson.D{}); n != 2 || total(t, s) != 2 {
				t.Errorf("%d documents, %d measurements", n, total(t, s))
			}
		})
	}
}
