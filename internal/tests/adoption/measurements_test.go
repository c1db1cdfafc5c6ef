//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// reading is a measurement; Key is unique.
type reading struct {
	Timestamp time.Time `bson:"timestamp"`
	Value     int32     `bson:"value"`
	Key       string    `bson:"key"`
}

// measurements is what bucket and series have in common.
type measurements struct {
	append func(ctx context.Context, sensor int32, m reading) error
	all    func(ctx context.Context, sensor int32) iter.Seq2[reading, error]
	// compare compares with a source.
	compare func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error]
}

func openBucket(idField string) func(db *mongo.Database) (helper, error) {
	return func(db *mongo.Database) (helper, error) {
		b, err := bucket.New[int32, reading](db.Collection("buckets"), timeseries.Every(time.Hour), &bucket.Options{
			SeriesField: "sensor", MaxCount: 20, IDField: idField,
			Values: []timeseries.Value{{Field: "value", Sum: "sum"}},
		})
		if err != nil {
			return helper{}, err
		}
		return helper{
			sharder: b, ensure: b.EnsureIndexes, check: b.Check, repair: b.Repair, busy: mongopatterns.ErrRunning,
			adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
				return b.Adopt(ctx, db.Collection("readings"), nil, work)
			},
			value: measurements{
				func(ctx context.Context, sensor int32, m reading) error {
					_, err := b.Append(ctx, sensor, m)
					return err
				},
				func(ctx context.Context, sensor int32) iter.Seq2[reading, error] {
					return b.Range(ctx, sensor, time.Time{}, time.Time{})
				},
				func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error] {
					return b.Compare(ctx, src, nil, nil)
				},
			},
		}, nil
	}
}

func openSeries(db *mongo.Database) (helper, error) {
	s, err := series.New[int32, reading](db.Collection("series"), timeseries.Days(nil), &series.Options{
		SeriesField: "sensor", Values: []timeseries.Value{{Field: "value"}},
	})
	if err != nil {
		return helper{}, err
	}
	return helper{
		sharder: s, ensure: s.EnsureIndexes, check: s.Check, repair: s.Repair, busy: mongopatterns.ErrRunning,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return s.Adopt(ctx, db.Collection("readings"), nil, work)
		},
		value: measurements{
			func(ctx context.Context, sensor int32, m reading) error {
				return s.Append(ctx, sensor, m)
			},
			func(ctx context.Context, sensor int32) iter.Seq2[reading, error] {
				return s.Range(ctx, sensor, time.Time{}, time.Time{})
			},
			func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error] {
				return s.Compare(ctx, src, nil, nil)
			},
		},
	}, nil
}

const sensors = 5

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func startMeasurements(w *world) service {
	of := w.h.value.(measurements)
	m := &model{coll: w.db.Collection("readings")}
	measure := func(c *client) bson.M {
		return bson.M{
			"sensor": c.int(sensors), "timestamp": bson.NewDateTimeFromTime(noon.Add(time.Duration(c.IntN(7200)) * time.Second)),
			"value": c.int(100), "key": c.text(),
		}
	}
	c := newClient('S', time30)
	for range 200 {
		m.seed(w, merged(measure(c), bson.M{"_id": c.id()}))
	}
	old := []op{m.inserted(measure)}
	appended := func(doc bson.M) reading {
		return reading{doc["timestamp"].(bson.DateTime).Time(), doc["value"].(int32), doc["key"].(string)}
	}
	fresh := []op{{"Append", func(ctx context.Context, c *client) error {
		doc := measure(c)
		err := of.append(ctx, doc["sensor"].(int32), appended(doc))
		if err == nil {
			m.put(merged(doc, bson.M{"_id": c.id()}))
		}
		return err
	}}}
	oracle := func(t *testing.T) {
		for sensor := range int32(sensors) {
			want, have := map[reading]int{}, map[reading]int{}
			for _, r := range m.living() {
				if r.doc["sensor"] == sensor {
					want[appended(r.doc)]++
				}
			}
			for r, err := range of.all(t.Context(), sensor) {
				testkit.OK(t, err)
				r.Timestamp = bson.NewDateTimeFromTime(r.Timestamp).Time()
				have[r]++
			}
			lost, twice := 0, 0
			for r := range want {
				if have[r] == 0 {
					lost++
				}
			}
			for r, n := range have {
				if n > want[r] {
					twice++
				}
			}
			if lost+twice > 0 {
				t.Errorf("sensor %d: of %d measurements %d are lost, %d are there twice or from nowhere", sensor, len(want), lost, twice)
			}
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

const aDay = "2026-03-01 00:00:00"

func openSlots(db *mongo.Database) (helper, error) {
	s, err := slots.New[int32, int32](db.Collection("days"), timeseries.Days(nil), &slots.Options{SeriesField: "sensor"})
	if err != nil {
		return helper{}, err
	}
	return helper{
		ensure: s.EnsureIndexes, check: s.Check, repair: s.Repair, value: s,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return s.Adopt(ctx, nil, work)
		},
	}, nil
}

// startSlots has 40 sensors. Old code sets each slot once, in the document of the day as it
// knows it, new code sets others.
func startSlots(w *world) service {
	s := w.h.value.(*slots.Slots[int32, int32])
	coll := w.db.Collection("days")
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	want := map[int32]map[time.Time]int32{}
	// place is a slot that nobody has taken.
	place := func(c *client) (sensor int32, at time.Time) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for {
			sensor, at = c.int(40), day.Add(time.Duration(c.IntN(1440))*time.Minute)
			if _, taken := want[sensor][at]; !taken {
				break
			}
		}
		if want[sensor] == nil {
			want[sensor] = map[time.Time]int32{}
		}
		want[sensor][at] = c.int(1000)
		return sensor, at
	}
	value := func(sensor int32, at time.Time) int32 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return want[sensor][at]
	}
	set := func(ctx context.Context, c *client) error {
		sensor, at := place(c)
		path := fmt.Sprintf("data.%d.%d", at.Hour(), at.Minute())
		_, err := coll.UpdateOne(ctx, d("sensor", sensor, "start", aDay), d("$set", d(path, value(sensor, at))), upsert())
		return err
	}
	c := newClient('S', time30)
	for range 200 {
		testkit.OK(w.t, set(w.t.Context(), c))
	}
	old := []op{{"set", set}}
	fresh := []op{{"Set", func(ctx context.Context, c *client) error {
		sensor, at := place(c)
		return s.Set(ctx, sensor, at, value(sensor, at))
	}}}
	oracle := func(t *testing.T) {
		for sensor := range int32(40) {
			have := map[time.Time]int32{}
			for slot, err := range s.Range(t.Context(), sensor, time.Time{}, time.Time{}) {
				testkit.OK(t, err)
				have[slot.Time.UTC()] = slot.Value
			}
			if !maps.Equal(have, want[sensor]) {
				differ(t, "sensor %d: %d slots, want %d", sensor, len(have), len(want[sensor]))
			}
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// measured is a sensor of its own with two measurements, which are adopted.
func measured(t *testing.T, w *world, sensor int32) {
	t.Helper()
	for i := range int32(2) {
		w.insert(t, "readings", d("_id", fmt.Sprint(sensor, " ", i), "sensor", sensor, "timestamp", noon, "value", i, "key", fmt.Sprint(sensor, " ", i)))
	}
	w.clean(t)
}

// values are those of a sensor.
func values(t *testing.T, w *world, sensor int32) (out []int32) {
	t.Helper()
	for r, err := range w.h.value.(measurements).all(t.Context(), sensor) {
		testkit.OK(t, err)
		out = append(out, r.Value)
	}
	slices.Sort(out)
	return out
}

// compared are the problems with a source that have this kind.
func compared(t *testing.T, w *world, kind mongopatterns.ProblemKind) (out []mongopatterns.Problem) {
	t.Helper()
	for p, err := range w.h.value.(measurements).compare(t.Context(), w.db.Collection("readings")) {
		testkit.OK(t, err)
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

func changed(t *testing.T, w *world) {
	measured(t, w, 100)
	w.update(t, "readings", d("_id", "100 1"), d("$set", d("value", int32(7))))
	w.remove(t, "readings", "100 0")
	w.clean(t)
	same(t, "values", values(t, w, 100), []int32{0, 1})
}

func compares(t *testing.T, w *world) {
	measured(t, w, 101)
	w.update(t, "readings", d("_id", "101 0"), d("$set", d("value", int32(7))))
	w.remove(t, "readings", "101 1")
	w.clean(t)
	named(t, compared(t, w, mongopatterns.Edited), mongopatterns.Edited, "101 0")
	named(t, compared(t, w, mongopatterns.Deleted), mongopatterns.Deleted, "101 1")
	differ := ""
	for _, p := range compared(t, w, mongopatterns.Different) {
		if strings.Contains(p.Detail, "series 101,") {
			differ += p.String()
		}
	}
	if !strings.Contains(differ, "is 2, want 1") || !strings.Contains(differ, "is 1, want 7") {
		t.Errorf("%q", differ)
	}
}

// dropped is a ledger that is dropped while the source is in use: run last.
func dropped(name string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		measured(t, w, 102)
		before := len(values(t, w, 102))
		testkit.OK(t, w.db.Collection(name+".adopt").Drop(t.Context()))
		w.clean(t)
		if after := len(values(t, w, 102)); after != 2*before {
			t.Errorf("%d, then %d", before, after)
		}
	}
}

func says(way []sentence, name string) []sentence {
	return append(append([]sentence{
		{adoptsMeasurements, func(t *testing.T, w *world) {
			measured(t, w, 104)
			same(t, "values", values(t, w, 104), []int32{0, 1})
			if n := got(w.db.Collection(name+".adopt").CountDocuments(t.Context(), d()))(t); n == 0 {
				t.Error("no ledger")
			}
		}},
		{"insert measurements with any `_id`, whatever its clock says", meanwhile("insert")},
		{changesMeasurements, changed},
		{"The second Adopt copies what was inserted since the first", func(t *testing.T, w *world) {
			measured(t, w, 105)
			w.insert(t, "readings", d("_id", "105 before", "sensor", int32(105), "timestamp", noon.Add(-48*time.Hour), "value", int32(2), "key", "105 2"))
			w.clean(t)
			same(t, "values", values(t, w, 105), []int32{0, 1, 2})
		}},
		{"`Compare` reports what was changed or deleted, and in which series the totals differ", compares},
	}, way...),
		sentence{"When nothing writes to the source any more and you know each problem of `Compare`, drop the ledger, the collection that has the target's name plus `.adopt`", func(t *testing.T, w *world) {
			measured(t, w, 106)
			ledger := w.db.Collection(name + ".adopt")
			var rows []any
			testkit.OK(t, got(ledger.Find(t.Context(), d()))(t).All(t.Context(), &rows))
			testkit.OK(t, ledger.Drop(t.Context()))
			same(t, "values", values(t, w, 106), []int32{0, 1})
			if problems := w.problems(t); len(problems) > 0 {
				t.Error(problems)
			}
			got(ledger.InsertMany(t.Context(), rows))(t) // for the sentences that follow
		}},
		sentence{"drop the source or the ledger and go on, because Adopt then copies again what the source holds", dropped(name)})
}

const (
	adoptsMeasurements  = "Adopt copies plain measurements, for series also those in array buckets, and keeps a ledger of what it has copied"
	changesMeasurements = "change or delete a measurement that was adopted, or push into an array bucket that was adopted, because the copy stays as it was"
)

var bucketSays = says([]sentence{{"push into buckets that bucket reads in place, its own too: Check reports aggregates that this leaves out, until Repair", inPlace}}, "buckets")

func inPlace(t *testing.T, w *world) {
	coll, ctx := w.db.Collection("hand_made"), t.Context()
	push := func(value int32, fields ...any) {
		got(coll.UpdateOne(ctx, d("sensor", int32(1), "start", noon.Truncate(24*time.Hour)), d("$push", d("measurements", d("timestamp", noon, "value", value)),
			"$inc", d("count", 1)), upsert()))(t)
	}
	push(1)
	b := got(bucket.New[int32, reading](coll, timeseries.Days(nil), &bucket.Options{SeriesField: "sensor", Values: []timeseries.Value{{Field: "value", Sum: "sum"}}}))(t)
	testkit.OK(t, b.EnsureIndexes(ctx))
	got(b.Append(ctx, 1, reading{Timestamp: noon, Value: 2}))(t)
	push(4)
	got(coll.DeleteOne(ctx, d("_id.n", d("$exists", false))))(t)
	push(8) // into the library's
	found := 0
	for p, err := range b.Check(ctx, nil) {
		testkit.OK(t, err)
		if found++; p.Kind != mongopatterns.WrongField || p.Field != "sum" {
			t.Error(p)
		}
	}
	got(b.Repair(ctx, nil))(t)
	testkit.Healthy(t, b)
	if stats := got(b.Aggregate(ctx, 1, time.Time{}, time.Time{}))(t); found != 1 || stats.Count != 2 || stats.Values["value"].Sum.Float64() != 10 {
		t.Error(found, stats)
	}
}

var seriesSays = says([]sentence{
	{"`Documents` of series yields the measurements as plain documents again", func(t *testing.T, w *world) {
		s := got(series.New[int32, reading](w.db.Collection("series"), timeseries.Days(nil), &series.Options{
			SeriesField: "sensor", Values: []timeseries.Value{{Field: "value"}},
		}))(t)
		measured(t, w, 103)
		n := 0
		for doc, err := range s.Documents(t.Context(), &mongopatterns.Work{Filter: d("sensor", int32(103))}) {
			testkit.OK(t, err)
			if doc.Lookup("sensor").Int32() == 103 && doc.Lookup("value").Int32() < 2 {
				n++
			}
		}
		same(t, "documents", n, 2)
	}},
}, "series")

// dated inserts a document whose day is a string, and adopts.
func dated(t *testing.T, w *world, id string, sensor int32) {
	t.Helper()
	w.insert(t, "days", d("_id", id, "sensor", sensor, "start", aDay, "data", d("0", d("0", int32(1)))))
	w.clean(t)
	if n := got(w.db.Collection("days").CountDocuments(t.Context(), d("sensor", sensor, "start", d("$type", "date"))))(t); n != 1 {
		t.Errorf("%d dated documents", n)
	}
}

var slotsSays = []sentence{
	{"Adopt converts documents whose day is a string into documents with a date", func(t *testing.T, w *world) { dated(t, w, "dated", 101) }},
	{"A second Adopt converts what is left", func(t *testing.T, w *world) {
		dated(t, w, "some", 102)
		dated(t, w, "what is left", 103)
	}},
	{"set slots in documents whose day is a string", meanwhile("set")},
	{"set a slot that was adopted or that new code has set, because the value in the document with the date stays", func(t *testing.T, w *world) {
		s := w.h.value.(*slots.Slots[int32, int32])
		day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		set := func(id string, minute, value int32) {
			w.insert(t, "days", d("_id", id, "sensor", int32(100), "start", aDay, "data", d("0", d(fmt.Sprint(minute), value))))
		}
		set("first", 0, 1)
		w.clean(t)
		testkit.OK(t, s.Set(t.Context(), 100, day.Add(time.Minute), 2))
		set("second", 0, 3)
		w.clean(t)
		set("third", 1, 4)
		w.clean(t)
		for minute, want := range []int32{1, 2} {
			if v := got(s.Get(t.Context(), 100, day.Add(time.Duration(minute)*time.Minute)))(t); v != want {
				t.Errorf("minute %d: %d, want %d", minute, v, want)
			}
		}
	}},
}
