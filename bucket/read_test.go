package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A long result is read in batches; leaving the loop closes the cursor, and a
// cancelled context is the last error.
func TestIteratorsEnd(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Minute), full())
	s := newSlots[string, event](t, db.Collection("s"), timeseries.Every(time.Minute), &slots.Options{Levels: []time.Duration{time.Second}})
	var events []event
	var all []slots.Slot[event]
	for i := range 150 { // more than a first batch of 101
		e := event{ID: fmt.Sprint(i), Timestamp: at(0, i, 0), V: 1}
		events = append(events, e)
		all = append(all, slots.Slot[event]{Time: e.Timestamp, Value: e})
	}
	must(t, second(b.AppendMany(t.Context(), timeseries.Of("s", events...), nil)))
	must(t, second(s.SetMany(t.Context(), timeseries.Of("s", all...), nil)))
	must(t, second(coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "agg.sum", Value: ""}}}})))
	var none time.Time
	for name, open := range map[string]func(ctx context.Context) iter.Seq[error]{
		"Range":            func(ctx context.Context) iter.Seq[error] { return errs(b.Range(ctx, "s", none, none)) },
		"AggregateWindows": func(ctx context.Context) iter.Seq[error] { return errs(b.AggregateWindows(ctx, "s", none, none)) },
		"Check": func(ctx context.Context) iter.Seq[error] {
			return errs(b.Check(ctx, &mongopatterns.Work{BatchSize: 50}))
		},
		"Slots.Range": func(ctx context.Context) iter.Seq[error] { return errs(s.Range(ctx, "s", none, none)) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			cmds := mongotest.Record(t, db, func() {
				for err := range open(t.Context()) {
					must(t, err)
					seen++
				}
			})
			if seen != 150 || len(cmds.Named("getMore")) == 0 {
				t.Errorf("%d results by %v", seen, cmds.Names())
			}
			cmds = mongotest.Record(t, db, func() {
				for range open(t.Context()) {
					break
				}
			})
			diff(t, 1, len(cmds.Named("killCursors")))
			// Cancelled during the loop, and before it: one error, then the end.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 2 {
				var last error
				seen = 0
				for last = range open(ctx) {
					if seen++; seen == 5 {
						cancel()
					}
				}
				if !errors.Is(last, context.Canceled) || !strings.Contains(last.Error(), ": range: ") && !strings.HasPrefix(last.Error(), "bucket: ") || seen >= 150 {
					t.Errorf("cancelled: %v after %d", last, seen)
				}
			}
			diff(t, 1, seen)
		})
	}
}

// errs are the errors of a sequence, nil for each value; after an error the sequence must end.
func errs[T any](seq iter.Seq2[T, error]) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, err := range seq {
			if !yield(err) {
				return
			}
		}
	}
}

// Every method with I/O wraps the driver's error and names itself.
func TestErrorsAreWrapped(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	s := newSlots[string, event](t, db.Collection("s"), timeseries.Days(nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := event{ID: "1", Timestamp: at(1, 0, 0), V: 1}
	var none time.Time
	for name, err := range map[string]error{
		"EnsureIndexes":     b.EnsureIndexes(ctx),
		"Append":            second(b.Append(ctx, "s", e)),
		"AppendMany":        second(b.AppendMany(ctx, timeseries.Of("s", e), nil)),
		"Aggregate":         second(b.Aggregate(ctx, "s", none, none)),
		"Latest":            second(b.Latest(ctx, "s")),
		"Replace":           b.Replace(ctx, "s", e),
		"Delete":            b.Delete(ctx, "s", day),
		"DeleteByID":        b.DeleteByID(ctx, "s", day, "x"),
		"Repair":            second(b.Repair(ctx, nil)),
		"Archive":           second(b.Archive(ctx, day, db.Collection("a"), nil)),
		"Adopt":             second(b.Adopt(ctx, db.Collection("src"), nil, nil)),
		"Slots.Set":         s.Set(ctx, "s", day, e),
		"Slots.SetMany":     second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[event]{Time: day, Value: e}), nil)),
		"Slots.Get":         second(s.Get(ctx, "s", day)),
		"Slots.Delete":      s.Delete(ctx, "s", day),
		"Slots.Latest":      second(s.Latest(ctx, "s")),
		"Slots.Archive":     second(s.Archive(ctx, day, db.Collection("a"), nil)),
		"Slots.EnsureIndex": s.EnsureIndexes(ctx),
	} {
		if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "bucket: ") && !(strings.HasPrefix(name, "Slots") && strings.HasPrefix(err.Error(), "slots: ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conflicting := db.Collection("conflicting")
	index := b.Indexes()["c"][0]
	index.Options = options.Index().SetUnique(true)
	must(t, second(conflicting.Indexes().CreateOne(t.Context(), index)))
	c, err := bucket.New[string, event](conflicting, timeseries.Every(time.Hour), nil)
	must(t, err)
	testkit.Is(t, c.EnsureIndexes(t.Context()), mongopatterns.ErrIndexConflict)
}

func second[T any](_ T, err error) error { return err }

func mustNew[ID, M any](t testing.TB, w timeseries.Window, o *bucket.Options) *bucket.Buckets[ID, M] {
	t.Helper()
	b, err := bucket.New[ID, M](testkit.Offline(t).Collection("c"), w, o)
	must(t, err)
	return b
}

// plainValues decodes raw values, to compare.
func plainValues(doc bson.D) bson.D {
	for i, e := range doc {
		if raw, ok := e.Value.(bson.RawValue); ok {
			var v any
			if err := raw.Unmarshal(&v); err == nil {
				doc[i].Value = v
			}
		}
	}
	return doc
}

func newSlots[ID, M any](t testing.TB, coll *mongo.Collection, w timeseries.Window, o *slots.Options) *slots.Slots[ID, M] {
	t.Helper()
	s, err := slots.New[ID, M](coll, w, o)
	must(t, err)
	must(t, s.EnsureIndexes(t.Context()))
	return s
}

func TestEndTimes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for i, want := range []time.Time{timeseries.LastMillisecond: at(10, 59, 59).Add(999 * time.Millisecond), timeseries.LastSecond: at(10, 59, 59)} {
		name := fmt.Sprint("c", i)
		o := scenario()
		o.EndTime = timeseries.EndTime(i)
		b := newBuckets[int, reading](t, db.Collection(name), timeseries.Every(time.Hour), o)
		mustAppend(t, b, 12345, reading{at(10, 30, 0), 40})
		diff(t, any(date(want)), testkit.Stored[bson.M](t, db.Collection(name))[0]["end_date"])
		mustCheck(t, b)
		o.EndTime = (o.EndTime + 1) % 2 // another opinion, to repair by
		other := newBuckets[int, reading](t, db.Collection(name), timeseries.Every(time.Hour), o)
		testkit.Done(t, 1)(other.Repair(t.Context(), nil))
		mustCheck(t, other)
	}
}

// Pages of trades: buckets cut only by count, read by number from either end.
func TestPages(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, bucket.ByCount(), &bucket.Options{MaxCount: 10, ArrayField: "trades"})
	for i := range 34 {
		e := event{ID: fmt.Sprint(i), Timestamp: at(-24*i*i, 0, 0), V: 1} // of any time
		if i < 21 {
			mustAppend(t, b, "MDB", e)
		} else if _, err := b.AppendMany(t.Context(), timeseries.Of("MDB", e), nil); err != nil {
			t.Fatal(err)
		}
	}
	var none time.Time
	for n, want := range map[int64]string{0: "0 9 10", 2: "20 29 10", 3: "30 33 4", -1: "30 33 4", -4: "0 9 10"} {
		page, err := b.Bucket(t.Context(), "MDB", none, n)
		if err != nil || fmt.Sprint(page[0].ID, " ", page[len(page)-1].ID, " ", len(page)) != want {
			t.Errorf("page %d: %v, %v", n, page, err)
		}
	}
	for _, n := range []int64{4, -5} {
		testkit.Is(t, second(b.Bucket(t.Context(), "MDB", none, n)), mongopatterns.ErrNotFound)
	}
	for series, want := range map[string]int64{"MDB": 4, "none": 0} {
		testkit.Gives(t, want)(b.CountBuckets(t.Context(), series, none))
	}
	if latest, err := b.Latest(t.Context(), "MDB"); err != nil || latest.ID != "0" {
		t.Errorf("%v, %v", latest, err)
	}
	mustCheck(t, b)
}
