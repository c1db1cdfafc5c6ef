package bucket_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

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
	diff(t, 11, len(collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
}

// Times beyond the years 1 to 9999 are refused before anything is sent.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	b := mustNew[string, event](t, timeseries.Every(time.Hour), full())
	slots, err := slots.New[string, int](offline(t), timeseries.Months(zone(t, "Europe/Berlin")), nil)
	must(t, err)
	for _, year := range []int{10000, 300_000_000, 0, -300_000_000} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		e := event{ID: "far", Timestamp: at, V: 1}
		for what, err := range map[string]error{
			"append": second(b.Append(t.Context(), "s", e)), "many": second(b.AppendMany(t.Context(), timeseries.Of("s", e), nil)),
			"update": b.Update(t.Context(), "s", e), "delete": b.Delete(t.Context(), "s", at),
			"set": slots.Set(t.Context(), "s", at, 1), "slot": slots.Delete(t.Context(), "s", at),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "years 1 to 9999") {
				t.Errorf("%s of %v: %v", what, at, err)
			}
		}
	}
}

// Times whose milliseconds do not fit an int64 are not taken for others. As limits they are before or after all.
func TestWrappingTimes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, bson.D](t, db.Collection("b"), timeseries.Every(time.Hour), nil)
	slots := newSlots[string, int](t, db.Collection("c"), timeseries.Days(nil), nil)
	far := time.Unix(day.Unix()+18446744073709551, 616e6) // 2^64 ms after day
	must(t, slots.Set(t.Context(), "s", day, 1))
	for what, err := range map[string]error{
		"set": slots.Set(t.Context(), "s", far, 2), "get": second(slots.Get(t.Context(), "s", far)), "slot": slots.Delete(t.Context(), "s", far),
		"delete": b.Delete(t.Context(), "s", far), "archive": second(slots.Archive(t.Context(), far, db.Collection("a"), nil)),
		"ID": mustNew[string, event](t, timeseries.Every(time.Hour), full()).DeleteByID(t.Context(), "s", far, "1"),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "years 1 to 9999") {
			t.Errorf("%s: %v", what, err)
		}
	}
	gives(t, 1)(slots.Get(t.Context(), "s", day))
	must(t, second(b.Append(t.Context(), "s", bson.D{{Key: "timestamp", Value: day}})))
	least, most := time.Unix(-1<<60, 0), time.Unix(math.MaxInt64+time.Time{}.Unix(), 999999999) // the largest there is
	for _, r := range []struct {
		from, to time.Time
		want     int
	}{{least, most, 1}, {day, far, 1}, {time.Time{}, most, 1}, {far, most, 0}, {most, time.Time{}, 0}, {time.Time{}, least, 0}} {
		diff(t, r.want, len(collect(t, b.Range(t.Context(), "s", r.from, r.to))))
		diff(t, r.want, len(collect(t, b.AggregateWindows(t.Context(), "s", r.from, r.to))))
		diff(t, r.want, len(collect(t, slots.Range(t.Context(), "s", r.from, r.to))))
	}
}

// A missing time is refused in every batch, also by the window that begins there.
func TestNoTimeInABatch(t *testing.T) {
	b := newBuckets[string, bson.D](t, fresh(t), bucket.ByCount(), nil)
	at := func(t time.Time) bson.D { return bson.D{{Key: "timestamp", Value: t}} }
	result, err := b.AppendMany(t.Context(), timeseries.Of("s", at(day), at(time.Time{})), nil)
	if !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 1 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, 1, len(collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), full())
	s := newSlots[string, int](t, db.Collection("s"), timeseries.Days(nil), nil)
	ctx, batch := t.Context(), &mongopatterns.Work{BatchSize: -1}
	e := event{ID: "1", Timestamp: day}
	for want, err := range map[string]error{
		"bucket: adopt: invalid: src: nil collection":                                    second(b.Adopt(ctx, nil, nil, nil)),
		"bucket: adopt: invalid: src: the collection that adopts":                        second(b.Adopt(ctx, db.Collection("c"), nil, nil)),
		"bucket: repair: invalid: Work.BatchSize, Work.BatchBytes: negative":             second(b.Repair(ctx, batch)),
		"bucket: append many: invalid: Work.BatchSize, Work.BatchBytes: negative":        second(b.AppendMany(ctx, timeseries.Of("s", e), batch)),
		"slots: set many: invalid: Work.Filter: there are no documents to select":        second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[int]{}), &mongopatterns.Work{Filter: bson.D{}})),
		"bucket: archive: invalid: no time":                                              second(b.Archive(ctx, time.Time{}, db.Collection("a"), nil)),
		`bucket: archive: invalid: target: the collection "c" is coll already`:           second(b.Archive(ctx, day, db.Collection("c"), nil)),
		`bucket: append: measurement: invalid: no ID in "id": invalid: not set`:          second(b.Append(ctx, "s", event{Timestamp: day})),
		`bucket: append: invalid: no time`:                                               second(b.Append(ctx, "s", event{ID: "1"})),
		`bucket: delete: invalid: no time`:                                               b.Delete(ctx, "s", time.Time{}),
		`bucket: append: series: invalid: a value of the type array tells nothing apart`: second(mustNew[any, event](t, timeseries.Days(nil), nil).Append(ctx, bson.A{1}, e)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	for want, err := range map[string]error{
		`bucket: latest: not found`: second(b.Latest(ctx, "s")),
		`bucket: delete by ID: series "s", time 2019-01-31T00:00:00Z, id 7: not found`: b.DeleteByID(ctx, "s", day, 7),
		`bucket: update: series "s", time 2019-01-31T00:00:00Z, id "1": not found`:     b.Update(ctx, "s", e),
		`slots: get: series "s", time 2019-01-31T00:00:00Z: not found`:                 second(s.Get(ctx, "s", day)),
		`slots: delete: series "s", time 2019-01-31T00:00:00Z: not found`:              s.Delete(ctx, "s", day),
		`bucket: page: not found`: second(b.Page(ctx, "s", day, 0)),
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	// nil has no items.
	gives(t, mongopatterns.Result{})(b.AppendMany(ctx, nil, nil))
	if _, err := s.SetMany(ctx, nil, nil); err != nil {
		t.Error(err)
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
	// What something else stored there and JSON has not.
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

// What does not decode is named by its document.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	s := newSlots[string, int](t, db.Collection("s"), timeseries.Every(time.Hour), &slots.Options{Levels: []time.Duration{time.Minute}})
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)}, event{Timestamp: at(2, 0, 0)})
	for _, at := range []time.Time{at(1, 0, 0), at(2, 0, 0)} {
		must(t, s.Set(t.Context(), "s", at, 1))
	}
	for coll, field := range map[string]string{"c": "measurements.0.v", "s": "data.0"} {
		must(t, second(db.Collection(coll).UpdateOne(t.Context(), bson.D{{Key: "start", Value: at(2, 0, 0)}}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "x"}}}})))
	}
	var none time.Time
	for what, err := range map[string]error{"buckets": drain(b.Range(t.Context(), "s", none, none)), "slots": drain(s.Range(t.Context(), "s", none, none))} {
		if want := "window 2019-01-31T02:00:00Z"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// A measurement in the bucket of another window is in no range that leaves its own time out, also where the whole
// bucket lies in the range.
func TestRangeWithMisplaced(t *testing.T) {
	coll := mongotest.Database(t).Collection("readings")
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	want := []reading{{at(10, 0, 0), 40}, {at(10, 30, 0), 41}}
	must(t, second(b.AppendMany(t.Context(), timeseries.Of(1, want...), nil)))
	for _, misplaced := range []time.Time{at(9, 0, 0), at(11, 0, 0)} {
		must(t, second(coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: reading{misplaced, 1}}}}})))
	}
	diff(t, want, collect(t, b.Range(t.Context(), 1, at(10, 0, 0), at(11, 0, 0))))
	diff(t, want, collect(t, b.Range(t.Context(), 1, at(10, 0, 0), at(10, 31, 0))))
}

// A bucket whose measurements are no array keeps them, and gets its end.
func TestRepairOfNoArray(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("b")
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), &bucket.Options{EndField: "end"})
	_, err := coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: 1}, {Key: "start", Value: time.Unix(3600, 0)}, {Key: "measurements", Value: "x"}, {Key: "count", Value: 0}})
	must(t, err)
	result, err := b.Repair(t.Context(), nil)
	if err != nil || result.Done != 1 || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	raw, err := coll.FindOne(t.Context(), bson.D{}).Raw()
	must(t, err)
	if _, ok := raw.Lookup("end").DateTimeOK(); !ok || raw.Lookup("measurements").StringValue() != "x" {
		t.Error(raw)
	}
	for _, from := range []time.Time{{}, time.Unix(3601, 0)} { // also of a window that the range cuts
		if err := drain(b.Range(t.Context(), 1, from, time.Time{})); err == nil || !strings.HasSuffix(err.Error(), `measurements is "x", not an array`) {
			t.Errorf("from %v: %v", from, err)
		}
	}
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
