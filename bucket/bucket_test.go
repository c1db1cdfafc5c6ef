package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Short names for what hundreds of lines call.
var (
	diff = testkit.Equal
	must = testkit.OK
)

// reading is the measurement of the reference scenario.
type reading struct {
	Timestamp   time.Time `bson:"timestamp"`
	Temperature float64   `bson:"temperature"`
}

// scenario names the fields as the reference scenario has them.
func scenario() *bucket.Options {
	return &bucket.Options{
		SeriesField: "sensor_id", StartField: "start_date", EndField: "end_date", CountField: "transaction_count",
		Values: []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
	}
}

// event is a measurement with an ID, for a test of all options together.
type event struct {
	ID        string    `bson:"id"`
	Timestamp time.Time `bson:"timestamp"`
	V         float64   `bson:"v"`
	Note      string    `bson:"note,omitempty"`
}

// full keeps every aggregate.
func full() *bucket.Options {
	return &bucket.Options{
		EndField: "end", IDField: "id", BytesField: "bytes",
		Values: []timeseries.Value{{
			Field: "v", Sum: "agg.sum", Min: "agg.min", Max: "agg.max", First: "agg.first", Last: "agg.last",
			Squares: "agg.squares", Count: "agg.n",
		}},
	}
}

// fresh is a collection for a test beside others.
func fresh(t *testing.T) *mongo.Collection {
	t.Helper()
	t.Parallel()
	return mongotest.Database(t).Collection("c")
}

func newBuckets[ID, M any](t testing.TB, coll *mongo.Collection, w timeseries.Window, o *bucket.Options) *bucket.Buckets[ID, M] {
	t.Helper()
	b, err := bucket.New[ID, M](coll, w, o)
	must(t, err)
	must(t, b.EnsureIndexes(t.Context()))
	return b
}

func mustAppend[ID, M any](t testing.TB, b *bucket.Buckets[ID, M], series ID, ms ...M) {
	t.Helper()
	for _, m := range ms {
		must(t, second(b.Append(t.Context(), series, m)))
	}
}

func mustCheck[ID, M any](t testing.TB, b *bucket.Buckets[ID, M]) {
	t.Helper()
	for p, err := range b.Check(t.Context(), nil) {
		must(t, err)
		t.Errorf("check: %v", p)
	}
}

// unordered is a document whose fields come in any order.
func unordered(doc bson.D) bson.M {
	out := bson.M{}
	for _, e := range doc {
		out[e.Key] = e.Value
		if inner, ok := e.Value.(bson.D); ok && e.Key == "moments" {
			out[e.Key] = unordered(inner)
		}
	}
	return out
}

func date(t time.Time) bson.DateTime { return bson.NewDateTimeFromTime(t) }

var day = time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)

func at(h, m, s int) time.Time {
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

// The hourly bucket of the reference scenario, by configuration alone.
func TestScenarioHourlyBucket(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	mustAppend(t, b, 12345, reading{at(10, 0, 0), 40}, reading{at(10, 1, 0), 41.5})
	diff(t, []bson.M{{
		"_id":        bson.D{{Key: "sensor_id", Value: int32(12345)}, {Key: "start_date", Value: date(at(10, 0, 0))}, {Key: "n", Value: int32(0)}},
		"sensor_id":  int32(12345),
		"start_date": date(at(10, 0, 0)),
		"end_date":   date(at(10, 59, 59).Add(999 * time.Millisecond)),
		"measurements": bson.A{
			bson.D{{Key: "timestamp", Value: date(at(10, 0, 0))}, {Key: "temperature", Value: 40.0}},
			bson.D{{Key: "timestamp", Value: date(at(10, 1, 0))}, {Key: "temperature", Value: 41.5}},
		},
		"transaction_count": int32(2),
		"sum_temperature":   81.5,
	}}, testkit.Stored[bson.M](t, coll))

	stats, err := b.Aggregate(t.Context(), 12345, at(10, 0, 0), at(11, 0, 0))
	must(t, err)
	if mean := stats.Values["temperature"].Mean(); mean != 40.75 {
		t.Errorf("mean %v", mean)
	}
	mustCheck(t, b)
}

// Every option at once, after appends in any order, rollover included.
func TestStoredWithEverything(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 3
	o.Metadata = func(series any, start time.Time) bson.D {
		return bson.D{{Key: "room", Value: "room of " + series.(string)}}
	}
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, b, "s",
		event{ID: "c", Timestamp: at(1, 30, 0), V: 3},
		event{ID: "a", Timestamp: at(1, 10, 0), V: 4}, // late
		event{ID: "b", Timestamp: at(1, 20, 0), V: -1},
		event{ID: "d", Timestamp: at(1, 5, 0), V: 10}) // next bucket
	element := func(id string, at time.Time, v float64) bson.D {
		return bson.D{{Key: "id", Value: id}, {Key: "timestamp", Value: date(at)}, {Key: "v", Value: v}}
	}
	id := func(n int32) bson.D {
		return bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: date(at(1, 0, 0))}, {Key: "n", Value: n}}
	}
	sample := func(at time.Time, v float64) bson.D {
		return bson.D{{Key: "time", Value: date(at)}, {Key: "value", Value: v}}
	}
	size, err := bson.Marshal(element("c", at(1, 30, 0), 3))
	must(t, err)
	got := testkit.Stored[bson.M](t, coll)
	for _, doc := range got { // its fields come in any order
		doc["agg"] = unordered(doc["agg"].(bson.D))
	}
	diff(t, []bson.M{
		{
			"_id": id(0), "series": "s", "start": date(at(1, 0, 0)), "end": date(at(2, 0, 0).Add(-time.Millisecond)),
			"room": "room of s", "count": int32(3), "bytes": int32(3 * len(size)),
			"measurements": bson.A{element("c", at(1, 30, 0), 3), element("a", at(1, 10, 0), 4), element("b", at(1, 20, 0), -1)},
			"agg": bson.M{
				"sum": decimal(t, "6"), "min": -1.0, "max": 4.0, "squares": decimal(t, "26"), "n": int32(3),
				"first": sample(at(1, 10, 0), 4), "last": sample(at(1, 30, 0), 3),
			},
		},
		{
			"_id": id(1), "series": "s", "start": date(at(1, 0, 0)), "end": date(at(2, 0, 0).Add(-time.Millisecond)),
			"room": "room of s", "count": int32(1), "bytes": int32(len(size)),
			"measurements": bson.A{element("d", at(1, 5, 0), 10)},
			"agg": bson.M{
				"sum": decimal(t, "10"), "min": 10.0, "max": 10.0, "squares": decimal(t, "100"), "n": int32(1),
				"first": sample(at(1, 5, 0), 10), "last": sample(at(1, 5, 0), 10),
			},
		},
	}, got)
	mustCheck(t, b)

	stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	must(t, err)
	v := stats.Values["v"]
	diff(t, "4 4 16 -1 10 126 4 2019-01-31 01:05:00 +0000 UTC 10 2019-01-31 01:30:00 +0000 UTC 3 15.5",
		fmt.Sprint(stats.Count, v.Count, v.Sum, v.Min, v.Max, v.Squares, v.Mean(), v.First.Time, v.First.Value,
			v.Last.Time, v.Last.Value, v.Variance()))
}

func TestAppendRollsOver(t *testing.T) {
	coll := fresh(t)
	o := scenario()
	o.MaxCount = 4
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), o)
	other := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), o) // another process
	for i := range 11 {
		writer := b
		if i%5 == 4 {
			writer = other
		}
		must(t, second(writer.Append(t.Context(), 1, reading{at(3, i, 0), float64(i)})))
	}
	var counts []any
	for _, doc := range testkit.Stored[bson.M](t, coll) {
		counts = append(counts, doc["transaction_count"])
	}
	diff(t, []any{int32(4), int32(4), int32(3)}, counts)
	got := testkit.Collect(t, b.Range(t.Context(), 1, at(3, 2, 0), at(3, 9, 0)))
	if len(got) != 7 || !got[0].Timestamp.Equal(at(3, 2, 0)) || got[6].Temperature != 8 {
		t.Errorf("range: %v", got)
	}
	mustCheck(t, b)
}

func TestMaxBytes(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxBytes = 1000
	b := newBuckets[int, event](t, coll, timeseries.Every(time.Hour), o)
	note := make([]byte, 300)
	for i := range note {
		note[i] = 'x'
	}
	for i := range 5 {
		mustAppend(t, b, 1, event{ID: fmt.Sprint(i), Timestamp: at(0, i, 0), Note: string(note)})
	}
	docs := testkit.Stored[bson.M](t, coll)
	if len(docs) != 3 || docs[0]["count"] != int32(2) || docs[2]["count"] != int32(1) {
		t.Errorf("buckets %v", docs)
	}
	_, err := b.Append(t.Context(), 1, event{ID: "big", Timestamp: at(0, 9, 0), Note: string(make([]byte, 1000))})
	if !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("oversize: %v", err)
	}
	// A bucket of an older configuration, without the field, counts as full.
	must(t, second(coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "bytes", Value: ""}}}})))
	again := newBuckets[int, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, again, 1, event{ID: "new", Timestamp: at(0, 10, 0)})
	diff(t, 4, len(testkit.Stored[bson.M](t, coll)))
}

func TestDuplicates(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 2
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	ev := func(i int) event { return event{ID: fmt.Sprint("e", i), Timestamp: at(5, i, 0), V: 1} }
	for i := range 5 {
		mustAppend(t, b, "s", ev(i))
	}
	cold := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	for _, writer := range []*bucket.Buckets[string, event]{b, cold} {
		for i := range 5 { // in a full bucket, in another one, in the open one
			got, err := writer.Append(t.Context(), "s", ev(i))
			if err != nil || got {
				t.Errorf("repeated %d: %+v, %v", i, got, err)
			}
		}
	}
	// The same ID in another window or series is another measurement.
	for _, e := range []struct {
		series string
		at     time.Time
	}{{"s", at(6, 0, 0)}, {"other", at(5, 0, 0)}} {
		if got, err := cold.Append(t.Context(), e.series, event{ID: "e0", Timestamp: e.at}); err != nil || !got {
			t.Errorf("%+v: %+v, %v", e, got, err)
		}
	}
	stats, err := b.Aggregate(t.Context(), "s", at(5, 0, 0), at(6, 0, 0))
	if err != nil || stats.Count != 5 || stats.Values["v"].Sum.Float64() != 5 {
		t.Errorf("%+v, %v", stats, err)
	}
	mustCheck(t, b)
}

func TestLatest(t *testing.T) {
	coll := fresh(t)
	o := scenario()
	o.MaxCount = 2
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), o)
	if _, err := b.Latest(t.Context(), 1); !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
		t.Errorf("empty: %v", err)
	}
	if stats, err := b.Aggregate(t.Context(), 1, time.Time{}, time.Time{}); stats.Count != 0 || err != nil {
		t.Errorf("empty: %+v, %v", stats, err)
	}
	mustAppend(t, b, 1, reading{at(1, 50, 0), 1}, reading{at(1, 10, 0), 2}, reading{at(1, 20, 0), 3}, reading{at(0, 59, 0), 4})
	mustAppend(t, b, 2, reading{at(5, 0, 0), 5})
	got, err := b.Latest(t.Context(), 1)
	if err != nil || got.Temperature != 1 {
		t.Errorf("%v, %v", got, err)
	}
	// Latest passes over a bucket that became empty, also in a transaction, where it sends only finds.
	mustAppend(t, b, 1, reading{at(9, 0, 0), 9})
	must(t, b.Delete(t.Context(), 1, at(9, 0, 0)))
	latest := func(ctx context.Context) error {
		got, err := b.Latest(ctx, 1)
		if err != nil || got.Temperature != 1 {
			t.Errorf("%v, %v", got, err)
		}
		_, err = b.Latest(ctx, 3)
		testkit.Is(t, err, mongopatterns.ErrNotFound)
		return nil
	}
	must(t, latest(t.Context()))
	cmds := mongotest.Record(t, coll.Database(), func() {
		must(t, mongopatterns.Transact(t.Context(), coll.Database().Client(), latest))
	})
	diff(t, []string{"find", "find", "find", "commitTransaction"}, cmds.Names())
}

func TestSharded(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	t.Run("append", func(t *testing.T) { appendSharded(t, cluster) })
	t.Run("archive", func(t *testing.T) { archiveOfEqualIDs(t, cluster) })
}

// On shards appends and the latest measurement are right, alone and in a transaction.
func appendSharded(t *testing.T, cluster *mongotest.Server) {
	coll := cluster.Database(t).Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	must(t, cluster.Shard(t.Context(), coll, b.ShardKey()[coll.Name()], bson.D{{Key: "series", Value: "m"}, {Key: "start", Value: bson.MinKey{}}}))
	for _, series := range []string{"a", "x"} {
		mustAppend(t, b, series, event{ID: "1", Timestamp: at(1, 0, 0), V: 1}, event{ID: "2", Timestamp: at(1, 1, 0), V: 2})
		must(t, mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			if _, err := b.Append(ctx, series, event{ID: "3", Timestamp: at(1, 2, 0), V: 3}); err != nil {
				return err
			}
			got, err := b.Latest(ctx, series)
			if err == nil && got.ID != "3" {
				t.Errorf("%v", got)
			}
			return err
		}))
	}
	mustCheck(t, b)
}

// On shards two buckets can have one _id. Archive moves only the one whose window has ended, or both.
func archiveOfEqualIDs(t *testing.T, cluster *mongotest.Server) {
	db := cluster.Database(t)
	coll, archived := db.Collection("c"), db.Collection("archive")
	b := newBuckets[string, reading](t, coll, timeseries.Every(time.Hour), nil)
	must(t, cluster.Shard(t.Context(), coll, b.ShardKey()["c"], bson.D{{Key: "series", Value: "m"}, {Key: "start", Value: bson.MinKey{}}}))
	for _, bucket := range []struct {
		id, series string
		start      time.Time
	}{{"one", "a", at(1, 0, 0)}, {"one", "x", at(9, 0, 0)}, {"two", "b", at(1, 0, 0)}, {"two", "y", at(1, 0, 0)}} {
		testkit.Insert(t, coll, testkit.D("_id", bucket.id, "series", bucket.series, "start", bucket.start, "count", 1,
			"measurements", bson.A{reading{bucket.start, 1}}))
	}
	testkit.Done(t, 3)(b.Archive(t.Context(), at(5, 0, 0), archived, nil))
	for coll, want := range map[*mongo.Collection][]string{coll: {"x"}, archived: {"a", "b", "y"}} {
		var got []string
		must(t, coll.Distinct(t.Context(), "series", bson.D{}).Decode(&got))
		slices.Sort(got)
		diff(t, want, got)
	}
}

// Buckets that another program made, with its own _ids, are read with ours.
func TestForeignBuckets(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	_, err := coll.InsertOne(t.Context(), bson.D{
		{Key: "sensor_id", Value: 1}, {Key: "start_date", Value: at(2, 0, 0)},
		{Key: "end_date", Value: at(3, 0, 0).Add(-time.Millisecond)},
		{Key: "measurements", Value: bson.A{reading{at(2, 20, 0), 5}}},
		{Key: "transaction_count", Value: 1}, {Key: "sum_temperature", Value: 5.0},
	})
	must(t, err)
	mustAppend(t, b, 1, reading{at(2, 30, 0), 7}, reading{at(2, 10, 0), 3})
	var got []float64
	for _, r := range testkit.Collect(t, b.Range(t.Context(), 1, time.Time{}, time.Time{})) {
		got = append(got, r.Temperature)
	}
	diff(t, []float64{3, 5, 7}, got)
	stats, err := b.Aggregate(t.Context(), 1, at(2, 0, 0), at(3, 0, 0))
	if err != nil || stats.Values["temperature"].Mean() != 5 {
		t.Errorf("%+v, %v", stats, err)
	}
	if latest, err := b.Latest(t.Context(), 1); err != nil || latest.Temperature != 7 {
		t.Errorf("latest %v, %v", latest, err)
	}
	if err := b.Replace(t.Context(), 1, reading{at(2, 20, 0), 50}); err != nil {
		t.Error(err)
	}
	mustCheck(t, b)
}

func TestSeriesOfAnyKind(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[any, reading](t, coll, timeseries.Every(time.Hour), scenario())
	oid := bson.NewObjectID()
	type key struct {
		Site string `bson:"site"`
		N    int64  `bson:"n"`
	}
	for i, series := range []any{"s", int32(7), 3.5, oid, key{"x", 1}, bson.D{{Key: "site", Value: "y"}}, true} {
		mustAppend(t, b, series, reading{at(1, 0, 0), float64(i)}, reading{at(1, 1, 0), float64(i)})
		if got := testkit.Collect(t, b.Range(t.Context(), series, at(1, 0, 0), at(1, 30, 0))); len(got) != 2 || got[1].Temperature != float64(i) {
			t.Errorf("%v: %v", series, got)
		}
		if got, err := b.Latest(t.Context(), series); err != nil || got.Temperature != float64(i) {
			t.Errorf("%v: latest %v, %v", series, got, err)
		}
	}
	for _, series := range []any{nil, bson.A{1}, bson.Regex{Pattern: "."}, make(chan int)} {
		testkit.Is(t, second(b.Append(t.Context(), series, reading{at(1, 0, 0), 1})), mongopatterns.ErrInvalid)
	}
	// A filter takes values as data: an operator or a pattern selects nothing.
	for _, series := range []any{bson.D{{Key: "$gt", Value: ""}}, bson.Regex{Pattern: "."}} {
		testkit.Gives(t, int64(0))(coll.CountDocuments(t.Context(), b.Filter(series, time.Time{}, time.Time{})))
	}
	mustCheck(t, b)
}

func TestInvalidMeasurements(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.Values = append(o.Values, timeseries.Value{Field: "w", Sum: "sum_w"})
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), o)
	good := bson.D{{Key: "id", Value: 1}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "w", Value: 1}}
	with := func(key string, value any) bson.D {
		out := bson.D{{Key: key, Value: value}}
		for _, e := range good {
			if e.Key != key {
				out = append(out, e)
			}
		}
		return out
	}
	inf := bson.D{{Key: "id", Value: 1}}
	for _, m := range []bson.D{
		nil, inf, with("timestamp", "noon"), with("timestamp", nil), with("id", nil), with("id", bson.A{1}),
		with("timestamp", time.Time{}), with("id", ""), with("id", bson.ObjectID{}),
		with("w", nil), with("w", "1"), with("w", nan()), with("w", 1/zero()), with("w", bson.NewDecimal128(0x7800000000000000, 0)),
	} {
		testkit.Is(t, second(b.Append(t.Context(), 1, m)), mongopatterns.ErrInvalid)
	}
	// v has its own count, so measurements without v are stored and left out of its aggregates.
	for i, v := range []any{nil, "x", nan(), 2.5} {
		m := with("v", v)
		m[1].Value = i // id
		mustAppend(t, b, 1, m)
	}
	stats, err := b.Aggregate(t.Context(), 1, at(1, 0, 0), at(1, 30, 0))
	must(t, err)
	whole, err := b.Aggregate(t.Context(), 1, at(1, 0, 0), at(2, 0, 0))
	must(t, err)
	for _, s := range []timeseries.Stats{stats, whole} {
		diff(t, "4 1 2.5 2.5 4 4", fmt.Sprint(s.Count, s.Values["v"].Count, s.Values["v"].Sum, s.Values["v"].First.Value,
			s.Values["w"].Count, s.Values["w"].Sum))
	}
	mustCheck(t, b)
}

func nan() float64  { return zero() / zero() }
func zero() float64 { return 0 }

// Metadata must not hide what a bucket keeps.
func TestMetadataMustNotCollide(t *testing.T) {
	coll := fresh(t)
	for name, invalid := range map[string]bool{"_id": true, "series": true, "start.x": true, "end": false, "count": false, "measurements.0": false, "agg.sum": false} {
		o := full()
		o.Metadata = func(any, time.Time) bson.D { return bson.D{{Key: name, Value: 1}} }
		b := newBuckets[int, event](t, coll, timeseries.Every(time.Hour), o)
		for what, err := range map[string]error{
			"append": second(b.Append(t.Context(), 1, event{ID: "1", Timestamp: day})),
			"many":   second(b.AppendMany(t.Context(), timeseries.Of(1, event{ID: "1", Timestamp: day}), nil)),
		} {
			if err == nil || invalid != errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	diff(t, 0, testkit.Count(t, coll, bson.D{}))
}

// Limits of a range that lie between two milliseconds are exact.
func TestLimitsBelowMilliseconds(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[int, reading](t, coll, timeseries.Every(time.Hour), scenario())
	mustAppend(t, b, 1, reading{at(1, 0, 0), 1}, reading{at(1, 30, 0), 2})
	for _, c := range []struct {
		from, to time.Time
		want     int64
	}{
		{at(1, 0, 0), at(1, 30, 0), 1},
		{at(1, 0, 0).Add(1), at(1, 30, 0), 1}, // BSON stores 1:00 of it
		{at(1, 0, 0).Add(1), at(1, 30, 0).Add(1), 1},
		{at(0, 0, 0), at(1, 0, 0).Add(1), 0},
		{at(1, 0, 0).Add(time.Millisecond), at(1, 30, 0), 0},
		{at(0, 0, 0), at(1, 0, 0), 0},
	} {
		stats, err := b.Aggregate(t.Context(), 1, c.from, c.to)
		if err != nil || stats.Count != c.want {
			t.Errorf("%v to %v: %d, %v", c.from, c.to, stats.Count, err)
		}
		if n := len(testkit.Collect(t, b.Range(t.Context(), 1, c.from, c.to))); int64(n) != c.want {
			t.Errorf("%v to %v: %d in range", c.from, c.to, n)
		}
	}
}
