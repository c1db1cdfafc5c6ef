package bucket_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// New refuses bad options with an ErrInvalid that names the option.
func TestConfigurationErrors(t *testing.T) {
	coll := testkit.Offline(t).Collection("c")
	hour := timeseries.Every(time.Hour)
	array := func(o bucket.Options) error { return second(bucket.New[int, reading](coll, hour, &o)) }
	kept := func(v ...timeseries.Value) error { return array(bucket.Options{Values: v}) }
	minutes := func(o slots.Options) error { return second(slots.New[int, reading](coll, hour, &o)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(bucket.New[int, reading](nil, hour, nil)), "coll: the collection is nil"},
		{second(bucket.New[int, reading](coll, nil, nil)), "window: it is nil"},
		{second(bucket.New[int, reading](coll, timeseries.Every(0), nil)), "window: the length of Every"},
		{second(bucket.New[int, reading](coll, timeseries.Every(1500*time.Microsecond), nil)), "window: the length of Every"},
		{array(bucket.Options{SeriesField: "a.b"}), `Options.SeriesField: invalid field name: "a.b" contains "."`},
		{array(bucket.Options{TimeField: "at.0"}), `Options.TimeField: invalid field name: "0" is a number`},
		{array(bucket.Options{IDField: "$id"}), `Options.IDField: invalid field name: "$id" starts with "$"`},
		{array(bucket.Options{EndField: "start"}), `Options.EndField: invalid field name: "start" collides with Options.StartField "start"`},
		{array(bucket.Options{ArrayField: "_id"}), `Options.ArrayField: invalid field name: "_id" collides with _id "_id"`},
		{array(bucket.Options{SeriesField: "n"}), `Options.SeriesField, Options.StartField: the name "n" is that of another field in _id`},
		{array(bucket.Options{EndTime: 3}), "Options.EndTime: 3"},
		{kept(timeseries.Value{Field: "v.0", Sum: "sum"}), `Options.Values[0].Field: invalid field name: "0" is a number`},
		{kept(timeseries.Value{Sum: "s"}), `Options.Values[0].Field: it is empty`},
		{kept(timeseries.Value{Field: "v", Squares: "s"}), `Options.Values[0].Squares: it needs Sum`},
		{kept(timeseries.Value{Field: "v", Sum: "a", Min: "a.b"}), `Options.Values[0].Min: invalid field name: "a.b" collides with Options.Values[0].Sum "a"`},
		{kept(timeseries.Value{Field: "v", Sum: "measurements.sum"}), `Options.Values[0].Sum: invalid field name`},
		{kept(timeseries.Value{Field: "v", Sum: "a"}, timeseries.Value{Field: "v", Sum: "b"}), `Options.Values[1].Field: "v" is given twice`},
		{array(bucket.Options{MaxCount: -1}), "Options.MaxCount: -1"},
		{array(bucket.Options{MaxBytes: -1}), "Options.MaxBytes: -1"},
		{array(bucket.Options{MaxBytes: 5, CountField: "bytes"}), `Options.BytesField: invalid field name: "bytes" collides with Options.CountField "bytes"`},
		{second(slots.New[int, reading](coll, bucket.ByCount(), nil)), "window: it is longer than 292 years"},
		{minutes(slots.Options{DataField: "series"}), `Options.DataField: invalid field name: "series" collides with Options.SeriesField "series"`},
		{minutes(slots.Options{Levels: []time.Duration{time.Hour, 7 * time.Minute}}), `Options.Levels: 1h0m0s is not a greater multiple of 7m0s`},
		{minutes(slots.Options{Levels: []time.Duration{time.Hour, time.Hour}}), `Options.Levels: 1h0m0s is not a greater multiple of 1h0m0s`},
		{minutes(slots.Options{Levels: []time.Duration{time.Microsecond}}), `Options.Levels: 1µs is not a positive number`},
		{minutes(slots.Options{Levels: []time.Duration{8, 4, 2, 1}}), `Options.Levels: there are more than three`},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.HasPrefix(c.err.Error(), "bucket: new") && !strings.HasPrefix(c.err.Error(), "slots: new") || !strings.Contains(c.err.Error(), ": invalid: "+c.want) {
			t.Errorf("got  %v\nwant %v", c.err, c.want)
		}
	}
}

// Names of operators, at any depth of a series or an ID, are refused.
func TestOperatorsAreRefused(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[any, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{IDField: "id"})
	s := newSlots[any, int](t, db.Collection("s"), timeseries.Every(time.Hour), nil)
	ctx := t.Context()
	good := bson.D{{Key: "id", Value: 1}, {Key: "timestamp", Value: at(1, 0, 0)}}
	for _, bad := range []any{bson.D{{Key: "$gt", Value: ""}}, bson.D{{Key: "a", Value: bson.D{{Key: "$gt", Value: 1}}}}, bson.D{{Key: "a", Value: bson.A{bson.D{{Key: "$gt", Value: 1}}}}}} {
		m := bson.D{{Key: "id", Value: bad}, {Key: "timestamp", Value: at(1, 0, 0)}}
		for what, err := range map[string]error{
			"append": second(b.Append(ctx, bad, good)), "many": second(b.AppendMany(ctx, timeseries.Of(bad, good), nil)),
			"range": testkit.Drain(b.Range(ctx, bad, day, day)), "latest": second(b.Latest(ctx, bad)), "aggregate": second(b.Aggregate(ctx, bad, day, day)),
			"windows": testkit.Drain(b.AggregateWindows(ctx, bad, day, day)), "delete": b.Delete(ctx, bad, day), "page": second(b.Bucket(ctx, bad, day, 0)),
			"ID": second(b.Append(ctx, "s", m)), "many IDs": second(b.AppendMany(ctx, timeseries.Of[any]("s", m), nil)),
			"update ID": b.Replace(ctx, "s", m), "delete ID": b.DeleteByID(ctx, "s", day, bad),
			"set": s.Set(ctx, bad, day, 1), "get": second(s.Get(ctx, bad, day)), "slots": testkit.Drain(s.Range(ctx, bad, day, day)),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%v: %s: %v", bad, what, err)
			}
		}
	}
}

// Times beyond the years 1 to 9999 are refused before anything is sent.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	b := mustNew[string, event](t, timeseries.Every(time.Hour), full())
	slots, err := slots.New[string, int](testkit.Offline(t).Collection("c"), timeseries.Months(testkit.Zone(t, "Europe/Berlin")), nil)
	must(t, err)
	for _, year := range []int{10000, 300_000_000, 0, -300_000_000} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		e := event{ID: "far", Timestamp: at, V: 1}
		for what, err := range map[string]error{
			"append": second(b.Append(t.Context(), "s", e)), "many": second(b.AppendMany(t.Context(), timeseries.Of("s", e), nil)),
			"update": b.Replace(t.Context(), "s", e), "delete": b.Delete(t.Context(), "s", at),
			"set": slots.Set(t.Context(), "s", at, 1), "slot": slots.Delete(t.Context(), "s", at),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "years 1 to 9999") {
				t.Errorf("%s of %v: %v", what, at, err)
			}
		}
	}
}

// Times whose milliseconds do not fit an int64 do not wrap around. As limits they are before or after all
// others.
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
	testkit.Gives(t, 1)(slots.Get(t.Context(), "s", day))
	must(t, second(b.Append(t.Context(), "s", bson.D{{Key: "timestamp", Value: day}})))
	least, most := time.Unix(-1<<60, 0), time.Unix(math.MaxInt64+time.Time{}.Unix(), 999999999) // the largest there is
	for _, r := range []struct {
		from, to time.Time
		want     int
	}{{least, most, 1}, {day, far, 1}, {time.Time{}, most, 1}, {far, most, 0}, {most, time.Time{}, 0}, {time.Time{}, least, 0}} {
		diff(t, r.want, len(testkit.Collect(t, b.Range(t.Context(), "s", r.from, r.to))))
		diff(t, r.want, len(testkit.Collect(t, b.AggregateWindows(t.Context(), "s", r.from, r.to))))
		diff(t, r.want, len(testkit.Collect(t, slots.Range(t.Context(), "s", r.from, r.to))))
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
	diff(t, 1, len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), full())
	s := newSlots[string, int](t, db.Collection("s"), timeseries.Days(nil), nil)
	ctx, batch := t.Context(), &mongopatterns.Work{BatchSize: -1}
	e := event{ID: "1", Timestamp: day}
	for want, err := range map[string]error{
		"bucket: adopt: invalid: src: the collection is nil":                                                     second(b.Adopt(ctx, nil, nil, nil)),
		"bucket: adopt: invalid: src: it is the collection that adopts":                                          second(b.Adopt(ctx, db.Collection("c"), nil, nil)),
		"bucket: repair: invalid: Work.BatchSize and Work.BatchBytes must not be negative":                       second(b.Repair(ctx, batch)),
		"bucket: append many: invalid: Work.BatchSize and Work.BatchBytes must not be negative":                  second(b.AppendMany(ctx, timeseries.Of("s", e), batch)),
		"slots: set many: invalid: Work.Filter: it must be nil: this call stores items and selects no documents": second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[int]{}), &mongopatterns.Work{Filter: bson.D{}})),
		"bucket: archive: invalid: the time is not set":                                                          second(b.Archive(ctx, time.Time{}, db.Collection("a"), nil)),
		`bucket: archive: invalid: target: the collection "c" is also coll`:                                      second(b.Archive(ctx, day, db.Collection("c"), nil)),
		`bucket: append: measurement: invalid: "id" is not an ID: invalid: it is empty`:                          second(b.Append(ctx, "s", event{Timestamp: day})),
		`bucket: append: measurement: invalid: the time is not set`:                                              second(b.Append(ctx, "s", event{ID: "1"})),
		`bucket: delete: invalid: the time is not set`:                                                           b.Delete(ctx, "s", time.Time{}),
		`bucket: append: key of the series: invalid: it is part of an _id, and an _id cannot be an array`:        second(mustNew[any, event](t, timeseries.Days(nil), nil).Append(ctx, bson.A{1}, e)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	for want, err := range map[string]error{
		`bucket: latest: not found`: second(b.Latest(ctx, "s")),
		`bucket: delete by ID: series "s", time 2019-01-31T00:00:00Z, id 7: not found`: b.DeleteByID(ctx, "s", day, 7),
		`bucket: replace: series "s", time 2019-01-31T00:00:00Z, id "1": not found`:    b.Replace(ctx, "s", e),
		`slots: get: series "s", time 2019-01-31T00:00:00Z: not found`:                 second(s.Get(ctx, "s", day)),
		`slots: delete: series "s", time 2019-01-31T00:00:00Z: not found`:              s.Delete(ctx, "s", day),
		`bucket: bucket: not found`: second(b.Bucket(ctx, "s", day, 0)),
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	// A nil sequence has no items.
	testkit.Gives(t, mongopatterns.Result{})(b.AppendMany(ctx, nil, nil))
	if _, err := s.SetMany(ctx, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestIndexesAndShardKey(t *testing.T) {
	b := mustNew[string, event](t, timeseries.Every(time.Hour), full())
	var keys []bson.D
	for _, model := range b.Indexes()["c"] {
		keys = append(keys, model.Keys.(bson.D))
	}
	diff(t, []bson.D{
		{{Key: "series", Value: 1}, {Key: "start", Value: 1}},
		{{Key: "series", Value: 1}, {Key: "start", Value: 1}, {Key: "measurements.id", Value: 1}},
	}, keys)
	diff(t, map[string]bson.D{"c": {{Key: "series", Value: 1}, {Key: "start", Value: 1}}}, b.ShardKey())
	if first, second := b.Indexes()["c"][1].Options, b.Indexes()["c"][1].Options; first == second {
		t.Error("the same options twice")
	}
	s, err := slots.New[int, event](testkit.Offline(t).Collection("c"), timeseries.Days(nil), nil)
	must(t, err)
	diff(t, bson.D{{Key: "series", Value: int32(5)}, {Key: "start", Value: bson.D{{Key: "$gte", Value: bson.NewDateTimeFromTime(day)}, {Key: "$lt", Value: bson.NewDateTimeFromTime(at(3, 0, 0))}}}},
		plainValues(s.Filter(5, at(1, 0, 0), at(3, 0, 0))))
}
