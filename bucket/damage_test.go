package bucket_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// A bucket whose array is none is named, by reads and edits of it too, and keeps
// no other bucket from being checked and repaired.
func TestNotArray(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]any{
		"string": "x", "number": 5, "document": bson.D{{Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			coll := db.Collection("c")
			b := newBuckets[string, event](t, coll, bucket.Every(time.Hour), full())
			for _, series := range []string{"a", "b", "c"} {
				mustAppend(t, b, series, event{ID: "1", Timestamp: at(1, 0, 0), V: 1}, event{ID: "2", Timestamp: at(2, 0, 0), V: 2})
			}
			hour := func(series string, h int) bson.D {
				return bson.D{{Key: "series", Value: series}, {Key: "start", Value: at(h, 0, 0)}}
			}
			for _, damage := range []struct{ filter, set bson.D }{
				{hour("b", 2), bson.D{{Key: "measurements", Value: broken}, {Key: "end", Value: day}}},
				{hour("a", 1), bson.D{{Key: "agg.sum", Value: 77}}},
				{hour("c", 1), bson.D{{Key: "agg.sum", Value: 77}}},
			} {
				if _, err := coll.UpdateOne(t.Context(), damage.filter, bson.D{{Key: "$set", Value: damage.set}}); err != nil {
					t.Fatal(err)
				}
			}
			var before bson.Raw
			if err := coll.FindOne(t.Context(), hour("b", 2)).Decode(&before); err != nil {
				t.Fatal(err)
			}
			var problems []string
			for _, p := range collect(t, b.Check(t.Context())) {
				problems = append(problems, fmt.Sprintf("%s %d %s %s", p.Series.StringValue(), p.Start.Hour(), p.Kind, p.Field))
				if p.Kind == bucket.NotArray && !p.Have.Equal(before.Lookup("measurements")) {
					t.Errorf("%v", p)
				}
			}
			diff(t, []string{"a 1 wrong aggregate agg.sum", "b 2 not an array measurements", "c 1 wrong aggregate agg.sum"}, problems)
			result, err := b.Repair(t.Context(), nil)
			if want := (bucket.RepairResult{Examined: 6, Repaired: 2, Remaining: 1}); err != nil || result != want {
				t.Errorf("%+v, %v", result, err)
			}
			diff(t, 1, len(collect(t, b.Check(t.Context()))))

			var none time.Time
			from := at(1, 30, 0)
			calls := map[string]func(ctx context.Context) error{
				"Range":      func(ctx context.Context) error { return drain(b.Range(ctx, "b", none, none)) },
				"Range from": func(ctx context.Context) error { return drain(b.Range(ctx, "b", from, none)) },
				"RangeAcross": func(ctx context.Context) error {
					return drain(b.RangeAcross(ctx, db.Collection("archive"), "b", from, none))
				},
				"Latest":           func(ctx context.Context) error { return second(b.Latest(ctx, "b")) },
				"Aggregate":        func(ctx context.Context) error { return second(b.Aggregate(ctx, "b", none, at(2, 30, 0))) },
				"AggregateWindows": func(ctx context.Context) error { return drain(b.AggregateWindows(ctx, "b", none, at(2, 30, 0))) },
				"Append": func(ctx context.Context) error {
					return second(b.Append(ctx, "b", event{ID: "3", Timestamp: at(2, 0, 0), V: 1}))
				},
				"AppendMany": func(ctx context.Context) error {
					return second(b.AppendMany(ctx, bucket.Of("b", event{ID: "3", Timestamp: at(2, 0, 0), V: 1}), nil))
				},
			}
			named := func(err error) bool {
				return errors.Is(err, bucket.ErrNotArray) && strings.Contains(err.Error(), `{"series": "b","start": {"$date":`)
			}
			for name, call := range calls {
				if err := call(t.Context()); !named(err) {
					t.Errorf("%s: %v", name, err)
				}
				err := txn.Run(t.Context(), db.Client(), func(ctx context.Context) error {
					if _, err := b.Append(ctx, "z", event{ID: "1", Timestamp: at(2, 0, 0), V: 1}); err != nil {
						return err
					}
					return call(ctx)
				})
				if !named(err) {
					t.Errorf("%s in a transaction: %v", name, err)
				}
			}
			// The other series are as they were, and nothing was written.
			if got := collect(t, b.Range(t.Context(), "a", none, none)); len(got) != 2 {
				t.Errorf("%v", got)
			}
			var after bson.Raw
			if err := coll.FindOne(t.Context(), hour("b", 2)).Decode(&after); err != nil || before.String() != after.String() {
				t.Errorf("%v, %v", after, err)
			}
			if err := first(b.Range(t.Context(), "z", none, none)); err != nil || count(t, coll) != 6 {
				t.Error(err)
			}
			// Latest does not answer from the other buckets of the window.
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "b"}, {Key: "start", Value: at(2, 0, 0)}, {Key: "count", Value: 1},
				{Key: "measurements", Value: bson.A{event{ID: "3", Timestamp: at(2, 0, 0)}}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Latest(t.Context(), "b"); !named(err) {
				t.Errorf("Latest beside another: %v", err)
			}
		})
	}
}

// A measurement that is no document has no size; the rest is checked.
func TestBytesOfOthers(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	b := newBuckets[string, event](t, coll, bucket.Every(time.Hour), full())
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 1})
	if _, err := coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: 5}}}}); err != nil {
		t.Fatal(err)
	}
	result, err := b.Repair(t.Context(), nil)
	if err != nil || result != (bucket.RepairResult{Examined: 1, Repaired: 1, Remaining: 1}) {
		t.Errorf("%+v, %v", result, err)
	}
	if problems := collect(t, b.Check(t.Context())); len(problems) != 1 || problems[0].Kind != bucket.OutsideWindow {
		t.Errorf("%v", problems)
	}
}

func TestProblemString(t *testing.T) {
	t.Parallel()
	value := func(v any) bson.RawValue {
		kind, data, err := bson.MarshalValue(v)
		if err != nil {
			t.Fatal(err)
		}
		return bson.RawValue{Type: kind, Value: data}
	}
	for want, p := range map[string]bucket.Problem{
		`bucket "p1": wrong aggregate: count is 9, want 4`:   {ID: value("p1"), Kind: bucket.WrongAggregate, Field: "count", Have: value(9), Want: value(4)},
		`bucket 9999: wrong aggregate: n is missing, want 4`: {ID: value(9999), Kind: bucket.WrongAggregate, Field: "n", Want: value(4)},
		`bucket 1: wrong aggregate: min is 2.5`:              {ID: value(1), Kind: bucket.WrongAggregate, Field: "min", Have: value(2.5)},
		`bucket 1: not an array: measurements is "x"`:        {ID: value(1), Kind: bucket.NotArray, Field: "measurements", Have: value("x")},
		`bucket 1: duplicate ID: measurements.id`:            {ID: value(1), Kind: bucket.DuplicateID, Field: "measurements.id"},
	} {
		diff(t, want, p.String())
	}
}

// A conversion can leave documents out; they are not looked at again.
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
	if _, err := src.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	b := newBuckets[string, bson.D](t, db.Collection("c"), bucket.Every(time.Hour), nil)
	seen := 0
	convert := func(doc bson.Raw) (string, bson.D, error) {
		seen++
		at, ok := doc.Lookup("time").TimeOK()
		if !ok {
			return "", nil, fmt.Errorf("no time: %w", bucket.ErrSkip)
		}
		return "s", bson.D{{Key: "timestamp", Value: at}}, nil
	}
	// Stopped in the midst of a batch, and then to the end.
	failed := errors.New("failed")
	result, err := b.Adopt(t.Context(), src, func(doc bson.Raw) (string, bson.D, error) {
		if doc.Lookup("_id").Int32() == 9 {
			return "", nil, failed
		}
		return convert(doc)
	}, &bucket.AdoptOptions{BatchSize: 5})
	if want := (bucket.AdoptResult{Examined: 5, Adopted: 4, Skipped: 1}); !errors.Is(err, failed) || !strings.Contains(err.Error(), "document 9: ") || result != want {
		t.Errorf("%+v, %v", result, err)
	}
	for _, want := range []struct {
		result  bucket.AdoptResult
		batches int // the last ones have nothing but what is left out
	}{{bucket.AdoptResult{Examined: 15, Adopted: 7, Skipped: 8}, 4}, {}} {
		seen = 0
		batches := 0
		result, err := b.Adopt(t.Context(), src, convert, &bucket.AdoptOptions{BatchSize: 4, Progress: func(int64) { batches++ }})
		if err != nil || result != want.result || int64(seen) != want.result.Examined || batches != want.batches {
			t.Errorf("%+v, %v: %d converted in %d batches", result, err, seen, batches)
		}
	}
	if got := collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})); len(got) != 11 {
		t.Errorf("%v", got)
	}
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

var far = []time.Time{
	year(10000), year(300_000_000), year(1_000_000_000), year(0), year(-300_000_000), year(-1_000_000_000),
}

// Times beyond the years 1 to 9999 are refused before anything is sent.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]bucket.Window{"every": bucket.Every(time.Hour), "months": bucket.Months(zone(t, "Europe/Berlin"))} {
		b := mustNew[string, event](t, window, full())
		slots, err := bucket.NewSlots[string, int](offline(t), window, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range far {
			e := event{ID: "far", Timestamp: at, V: 1}
			for what, err := range map[string]error{
				"Append":     second(b.Append(t.Context(), "s", e)),
				"AppendMany": second(b.AppendMany(t.Context(), bucket.Of("s", e), nil)),
				"Replace":    b.Replace(t.Context(), "s", e),
				"Delete":     b.Delete(t.Context(), "s", at),
				"DeleteByID": b.DeleteByID(t.Context(), "s", at, "1"),
				"Set":        slots.Set(t.Context(), "s", at, 1),
				"SetMany":    slots.SetMany(t.Context(), bucket.Of("s", bucket.Slot[int]{Time: at}), nil),
				"Unset":      slots.Unset(t.Context(), "s", at),
			} {
				if !errors.Is(err, bucket.ErrInvalid) || !strings.Contains(err.Error(), `series "s": `) || !strings.Contains(err.Error(), "years 1 to 9999") {
					t.Errorf("%s %s of %v: %v", name, what, at, err)
				}
			}
		}
	}
}

// Limits beyond them select all, or nothing.
func TestFarLimits(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for name, window := range map[string]bucket.Window{"every": bucket.Every(time.Hour), "months": bucket.Months(zone(t, "Europe/Berlin"))} {
		b := newBuckets[string, event](t, db.Collection(name), window, full())
		slots := newSlots[string, int](t, db.Collection(name+"slots"), window, nil)
		stored := []time.Time{year(1).Add(time.Millisecond), at(1, 0, 0), year(10000).Add(-time.Millisecond)}
		for i, at := range stored {
			mustAppend(t, b, "s", event{ID: fmt.Sprint(i), Timestamp: at, V: 1})
			if err := slots.Set(t.Context(), "s", at, i); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range far {
			if _, err := slots.Get(t.Context(), "s", at); !errors.Is(err, bucket.ErrNotFound) {
				t.Errorf("%s Get of %v: %v", name, at, err)
			}
			for _, from := range []bool{true, false} {
				limits, want := [2]time.Time{{}, at}, 0
				if from {
					limits = [2]time.Time{at, {}}
				}
				if from == at.Before(year(1)) {
					want = len(stored)
				}
				stats, err := b.Aggregate(t.Context(), "s", limits[0], limits[1])
				if err != nil {
					t.Error(err)
				}
				diff(t, []int{want, want, want, want, want}, []int{
					int(stats.Count),
					len(collect(t, b.Range(t.Context(), "s", limits[0], limits[1]))),
					len(collect(t, slots.Range(t.Context(), "s", limits[0], limits[1]))),
					len(aggregate[bson.Raw](t, db.Collection(name), b.RangePipeline("s", limits[0], limits[1]))),
					len(aggregate[bson.Raw](t, db.Collection(name+"slots"), slots.RangePipeline("s", limits[0], limits[1]))),
				})
			}
			if got := collect(t, slots.Range(t.Context(), "s", at, at.Add(time.Hour))); len(got) != 0 {
				t.Errorf("%s an hour from %v: %v", name, at, got)
			}
		}
		mustCheck(t, b)
		for _, c := range []struct {
			before time.Time
			want   int64
		}{{year(-1_000_000_000), 0}, {year(1_000_000_000), 3}} {
			if result, err := b.DeleteBefore(t.Context(), c.before, nil); err != nil || result.Documents != c.want {
				t.Errorf("%s before %v: %+v, %v", name, c.before, result, err)
			}
		}
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), bucket.Every(time.Hour), full())
	s := newSlots[string, int](t, db.Collection("s"), bucket.Days(nil), nil)
	ctx, batch := t.Context(), &bucket.BatchOptions{BatchSize: -1}
	e := event{ID: "1", Timestamp: day}
	for want, err := range map[string]error{
		"bucket: adopt: invalid: src: nil":                                 second(b.Adopt(ctx, nil, nil, nil)),
		"bucket: adopt: invalid: AdoptOptions.BatchSize: negative":         second(b.Adopt(ctx, db.Collection("src"), nil, &bucket.AdoptOptions{BatchSize: -1})),
		"bucket: repair: invalid: RepairOptions.BatchSize: negative":       second(b.Repair(ctx, &bucket.RepairOptions{BatchSize: -1})),
		"bucket: append many: invalid: BatchOptions.BatchSize: negative":   second(b.AppendMany(ctx, bucket.Of("s", e), batch)),
		"bucket: set many: invalid: BatchOptions.BatchSize: negative":      s.SetMany(ctx, bucket.Of("s", bucket.Slot[int]{}), batch),
		"bucket: delete before: invalid: BatchOptions.BatchSize: negative": second(b.DeleteBefore(ctx, day, batch)),
		"bucket: delete before: invalid: before: no time":                  second(b.DeleteBefore(ctx, time.Time{}, nil)),
		"bucket: archive: invalid: before: no time":                        second(b.Archive(ctx, time.Time{}, db.Collection("a"), nil)),
		"bucket: archive: invalid: target must be another collection":      second(b.Archive(ctx, day, nil, nil)),
		"bucket: range across: invalid: archive: nil":                      drain(b.RangeAcross(ctx, nil, "s", day, day)),
		`bucket: append: series "s": measurement: invalid: no ID in "id"`:  second(b.Append(ctx, "s", event{Timestamp: day})),
		`bucket: append: series "s": invalid: no time`:                     second(b.Append(ctx, "s", event{ID: "1"})),
		`bucket: delete: series "s": invalid: no time`:                     b.Delete(ctx, "s", time.Time{}),
	} {
		if !errors.Is(err, bucket.ErrInvalid) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	for want, err := range map[string]error{
		`bucket: latest: series "s": no such measurement`:                                        second(b.Latest(ctx, "s")),
		`bucket: latest: series "t": no such measurement`:                                        second(s.Latest(ctx, "t")),
		`bucket: delete: series "s", time 2019-01-31T00:00:00Z: no such measurement`:             b.Delete(ctx, "s", day),
		`bucket: delete by ID: series "s", time 2019-01-31T00:00:00Z, ID 7: no such measurement`: b.DeleteByID(ctx, "s", day, 7),
		`bucket: replace: series "s", time 2019-01-31T00:00:00Z, ID "1": no such measurement`:    b.Replace(ctx, "s", e),
		`bucket: get: series "s", time 2019-01-31T00:00:00Z: no such measurement`:                second(s.Get(ctx, "s", day)),
		`bucket: unset: series "s", time 2019-01-31T00:00:00Z: no such measurement`:              s.Unset(ctx, "s", day),
	} {
		if !errors.Is(err, bucket.ErrNotFound) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	// nil has no items.
	if result, err := b.AppendMany(ctx, nil, nil); err != nil || result != (bucket.AppendResult{}) {
		t.Errorf("%+v, %v", result, err)
	}
	if err := s.SetMany(ctx, nil, nil); err != nil {
		t.Error(err)
	}
	if err := second(mustNew[any, event](t, bucket.Days(nil), nil).Append(ctx, bson.A{1}, e)); !errors.Is(err, bucket.ErrInvalid) || !strings.HasSuffix(err.Error(), "the type array cannot name a series") {
		t.Error(err)
	}
}

// An empty piece of a bucket has no sums, like a range without buckets.
func TestAggregateOfNothing(t *testing.T) {
	t.Parallel()
	b := newBuckets[string, event](t, mongotest.Database(t).Collection("c"), bucket.Every(time.Hour), full())
	mustAppend(t, b, "s", event{ID: "1", Timestamp: at(1, 0, 0), V: 1})
	for _, r := range [][2]time.Time{{at(1, 10, 0), at(1, 20, 0)}, {at(3, 10, 0), at(3, 20, 0)}, {at(2, 0, 0), at(1, 0, 0)}} {
		stats, err := b.Aggregate(t.Context(), "s", r[0], r[1])
		if err != nil {
			t.Fatal(err)
		}
		v := stats.Values["v"]
		if v.Count != 0 || !v.Sum.IsZero() || !v.SumSquares.IsZero() || !v.Min.IsZero() || !v.First.Value.IsZero() || !math.IsNaN(v.Mean()) {
			t.Errorf("%v: %+v", r, v)
		}
		if got, err := json.Marshal(stats); err != nil || string(got) != `{"count":0,"values":{"v":{"count":0}}}` {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestStatsAsJSON(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	b := newBuckets[string, bson.D](t, coll, bucket.Every(time.Hour), full())
	for i, v := range []any{1, int64(math.MaxInt64), 0.1, 1e21, decimal(t, "12345678901234567890.10"), decimal(t, "-1E+400"), decimal(t, "0E-7")} {
		mustAppend(t, b, fmt.Sprint(i), bson.D{{Key: "id", Value: i}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: v}})
		stats, err := b.Aggregate(t.Context(), fmt.Sprint(i), time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
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
			diff(t, `{"count":1,"values":{"v":{"count":1,"sum":1,"min":1,"max":1,"sumSquares":1,"first":`+sample+`,"last":`+sample+`}}}`, string(got))
		}
	}
	// What something else stored there and JSON has not.
	for _, v := range []any{nan(), math.Inf(1), decimal(t, "NaN"), decimal(t, "-Infinity")} {
		if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "series", Value: "0"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "agg.max", Value: v}}}}); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Refusals leave a transaction of the caller's as it was.
func TestTransactionGoesOn(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), bucket.Every(time.Hour), full())
	s := newSlots[string, int](t, db.Collection("s"), bucket.Days(nil), nil)
	good := event{ID: "1", Timestamp: at(1, 0, 0), V: 1}
	err := txn.Run(t.Context(), db.Client(), func(ctx context.Context) error {
		if _, err := b.Append(ctx, "s", good); err != nil {
			return err
		}
		if result, err := b.Append(ctx, "s", good); err != nil || !result.Duplicate {
			t.Errorf("%+v, %v", result, err)
		}
		if result, err := b.AppendMany(ctx, bucket.Of("s", good, good), nil); err != nil || result.Duplicates != 2 {
			t.Errorf("%+v, %v", result, err)
		}
		for what, err := range map[string]error{
			"Append":     second(b.Append(ctx, "s", event{ID: "2"})),
			"AppendMany": second(b.AppendMany(ctx, bucket.Of("s", good, event{ID: "2"}), nil)),
			"Set":        s.Set(ctx, "s", time.Time{}, 1),
		} {
			if !errors.Is(err, bucket.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range map[string]error{
			"Replace":      b.Replace(ctx, "s", event{ID: "3", Timestamp: at(1, 0, 0)}),
			"Delete":       b.Delete(ctx, "s", at(1, 30, 0)),
			"DeleteByID":   b.DeleteByID(ctx, "s", at(1, 0, 0), "3"),
			"Latest":       second(b.Latest(ctx, "t")),
			"Get":          second(s.Get(ctx, "s", day)),
			"Unset":        s.Unset(ctx, "s", day),
			"Slots.Latest": second(s.Latest(ctx, "s")),
		} {
			if !errors.Is(err, bucket.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		return s.Set(ctx, "s", day, 5)
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []event{good}, collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	if slot, err := s.Latest(t.Context(), "s"); err != nil || slot.Value != 5 {
		t.Errorf("%+v, %v", slot, err)
	}
	mustCheck(t, b)
}

// What does not decode is named by its document.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), bucket.Every(time.Hour), nil)
	s := newSlots[string, int](t, db.Collection("s"), bucket.Every(time.Hour), &bucket.SlotOptions{Levels: []time.Duration{time.Minute}})
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)}, event{Timestamp: at(2, 0, 0)})
	for _, at := range []time.Time{at(1, 0, 0), at(2, 0, 0)} {
		if err := s.Set(t.Context(), "s", at, 1); err != nil {
			t.Fatal(err)
		}
	}
	for coll, field := range map[string]string{"c": "measurements.0.v", "s": "data.0"} {
		if _, err := db.Collection(coll).UpdateOne(t.Context(), bson.D{{Key: "start", Value: at(2, 0, 0)}}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "x"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	var none time.Time
	for what, err := range map[string]error{"bucket": drain(b.Range(t.Context(), "s", none, none)), "document": drain(s.Range(t.Context(), "s", none, none))} {
		if want := what + ` that starts {"$date":{"$numberLong":"1548900000000"}}: `; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
