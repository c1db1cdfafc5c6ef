package slots_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// weather is what a slot of the reference scenario holds.
type weather struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
}

func newSlots[ID, M any](t testing.TB, coll *mongo.Collection, w timeseries.Window, o *slots.Options) *slots.Slots[ID, M] {
	t.Helper()
	s, err := slots.New[ID, M](coll, w, o)
	testkit.OK(t, err)
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	return s
}

// The daily slots of the reference scenario, by configuration alone.
func TestScenarioDailySlots(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, weather](t, coll, timeseries.Days(nil), &slots.Options{SeriesField: "sensor_id", StartField: "created_time"})
	for _, m := range []struct {
		at time.Time
		w  weather
	}{{at(0, 0, 0), weather{21.36, 0.67}}, {at(0, 59, 59), weather{21.4, 0.68}}, {at(23, 5, 0), weather{19, 0.7}}} {
		testkit.OK(t, s.Set(t.Context(), "SENSOR-1", m.at, m.w))
	}
	slot := func(temperature, humidity float64) bson.D {
		return bson.D{{Key: "temperature", Value: temperature}, {Key: "humidity", Value: humidity}}
	}
	testkit.Equal(t, []bson.M{{
		"_id":          bson.D{{Key: "sensor_id", Value: "SENSOR-1"}, {Key: "created_time", Value: date(day)}},
		"sensor_id":    "SENSOR-1",
		"created_time": date(day),
		"data": bson.D{
			{Key: "0", Value: bson.D{{Key: "0", Value: slot(21.36, 0.67)}, {Key: "59", Value: slot(21.4, 0.68)}}},
			{Key: "23", Value: bson.D{{Key: "5", Value: slot(19, 0.7)}}},
		},
	}}, testkit.Stored[bson.M](t, coll))

	testkit.Gives(t, (weather{21.4, 0.68}))(s.Get(t.Context(), "SENSOR-1", at(0, 59, 0)))
	for _, empty := range []time.Time{at(0, 1, 0), at(5, 0, 0), at(24, 0, 0)} {
		testkit.Fails(t, "slots", second(s.Get(t.Context(), "SENSOR-1", empty)), mongopatterns.ErrNotFound)
	}
}

// A document that something else made, with an _id of its own, takes the slots.
func TestForeignSlots(t *testing.T) {
	coll := fresh(t)
	id := bson.NewObjectID()
	testkit.OK(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "series", Value: 1}, {Key: "start", Value: day}})))
	s := newSlots[int, float64](t, coll, timeseries.Days(nil), nil)
	testkit.OK(t, s.Set(t.Context(), 1, at(1, 2, 0), 5))
	if docs := testkit.Stored[bson.M](t, coll); len(docs) != 1 || docs[0]["_id"] != id {
		t.Errorf("%v", docs)
	}
}

// Days with 23 and 25 hours give every instant a slot of its own.
func TestSlotsOverClockChanges(t *testing.T) {
	coll := fresh(t)
	berlin := testkit.Zone(t, "Europe/Berlin")
	s := newSlots[string, int](t, coll, timeseries.Days(berlin), &slots.Options{Levels: []time.Duration{time.Hour}})
	for _, c := range []struct {
		month time.Month
		day   int
		hours int
	}{{3, 31, 23}, {10, 27, 25}, {6, 1, 24}} {
		start := time.Date(2024, c.month, c.day, 0, 0, 0, 0, berlin)
		end := time.Date(2024, c.month, c.day+1, 0, 0, 0, 0, berlin)
		n := 0
		for moment := start; moment.Before(end); moment = moment.Add(time.Hour) {
			testkit.OK(t, s.Set(t.Context(), "s", moment.Add(59*time.Minute), n))
			if path := s.Path(moment); path != fmt.Sprint("data.", n) {
				t.Errorf("%v: %s", moment, path)
			}
			n++
		}
		got := testkit.Collect(t, s.Range(t.Context(), "s", start, end))
		if n != c.hours || len(got) != n {
			t.Errorf("%v: %d hours, %d slots", start, n, len(got))
		}
		for i, slot := range got {
			if slot.Value != i || !slot.Time.Equal(start.Add(time.Duration(i)*time.Hour)) {
				t.Errorf("%v: slot %d is %v", start, i, slot)
			}
		}
	}
	testkit.Equal(t, 3, len(testkit.Stored[bson.M](t, coll)))
}

// Random sets and unsets, ranges and aggregates against a model in memory, for
// one, two and three levels.
func TestSlotsAgainstModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window timeseries.Window
		levels []time.Duration
	}{
		"day of hours and minutes":      {timeseries.Days(nil), nil},
		"day of half hours":             {timeseries.Days(nil), []time.Duration{30 * time.Minute}},
		"month of days, hours, minutes": {timeseries.Months(time.FixedZone("", 3600)), []time.Duration{24 * time.Hour, time.Hour, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			s := newSlots[string, weather](t, coll, c.window, &slots.Options{Levels: c.levels, EndField: "end"})
			unit := time.Minute
			if len(c.levels) == 1 {
				unit = c.levels[0]
			}
			random := rand.New(rand.NewPCG(5, uint64(len(name))))
			model := map[time.Time]weather{}
			moment := func() time.Time { return day.Add(time.Duration(random.IntN(3*24*3600)) * time.Second) }
			for range 40 {
				switch random.IntN(4) {
				case 0:
					when, w := moment(), weather{float64(random.IntN(100)), 1}
					testkit.OK(t, s.Set(t.Context(), "s", when, w))
					model[when.Truncate(unit)] = w
				case 1:
					var many []slots.Slot[weather]
					for range random.IntN(60) {
						slot := slots.Slot[weather]{Time: moment(), Value: weather{float64(random.IntN(100)), 2}}
						many = append(many, slot)
						model[slot.Time.Truncate(unit)] = slot.Value
					}
					testkit.OK(t, second(s.SetMany(t.Context(), timeseries.Of("s", many...), &mongopatterns.Work{BatchSize: 25})))
				case 2:
					for when := range model {
						testkit.OK(t, s.Delete(t.Context(), "s", when.Add(unit-1)))
						testkit.Fails(t, "slots", s.Delete(t.Context(), "s", when), mongopatterns.ErrNotFound)
						delete(model, when)
						break
					}
				}
				from := moment()
				to := from.Add(time.Duration(random.IntN(40*3600)) * time.Second)
				switch random.IntN(5) {
				case 0:
					from = time.Time{}
				case 1:
					to = time.Time{}
				case 2:
					to = from.Add(time.Duration(random.IntN(7200)) * time.Second)
				case 3:
					from, to = from.Truncate(time.Hour), to.Truncate(time.Hour)
				}
				var want, all []slots.Slot[weather]
				for when, w := range model {
					all = append(all, slots.Slot[weather]{Time: when, Value: w})
					if (from.IsZero() || !when.Before(from)) && (to.IsZero() || when.Before(to)) {
						want = append(want, slots.Slot[weather]{Time: when, Value: w})
					}
				}
				byTime := func(a, b slots.Slot[weather]) int { return a.Time.Compare(b.Time) }
				slices.SortFunc(want, byTime)
				slices.SortFunc(all, byTime)
				got := testkit.Collect(t, s.Range(t.Context(), "s", from, to))
				testkit.Equal(t, want, got)
				latest, err := s.Latest(t.Context(), "s")
				switch {
				case len(all) == 0:
					if !errors.Is(err, mongopatterns.ErrNotFound) {
						t.Error(err)
					}
				case err != nil:
					t.Error(err)
				default:
					testkit.Equal(t, all[len(all)-1], latest)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

func TestSlotsConcurrently(t *testing.T) {
	coll := fresh(t)
	var wait sync.WaitGroup
	for w := range 8 {
		s := newSlots[string, int](t, coll, timeseries.Days(nil), nil)
		wait.Go(func() {
			for i := range 10 {
				if err := s.Set(t.Context(), "s", at(i, w, 0), w*10+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	s := newSlots[string, int](t, coll, timeseries.Days(nil), nil)
	testkit.Equal(t, 80, len(testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	testkit.Equal(t, 1, len(testkit.Stored[bson.M](t, coll)))
}

// A duplicate key for ever is given up on.
func TestSlotsContended(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, int](t, coll, timeseries.Days(nil), nil)
	testkit.OK(t, second(coll.Indexes().CreateOne(t.Context(), testkit.Unique("room"))))
	testkit.OK(t, s.Set(t.Context(), "s", day, 1))
	err := s.Set(t.Context(), "t", day, 1)
	_, many := s.SetMany(t.Context(), timeseries.Of("u", slots.Slot[int]{Time: day, Value: 2}), nil)
	for _, err := range []error{err, many} {
		if !errors.Is(err, mongopatterns.ErrConflict) || !mongo.IsDuplicateKeyError(err) {
			t.Error(err)
		}
	}
}

// A field of another program among the slots is not a slot.
func TestKeysThatAreNoSlots(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, int](t, coll, timeseries.Days(nil), nil)
	testkit.OK(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: day}, {Key: "data", Value: bson.D{
		{Key: "note", Value: bson.D{{Key: "0", Value: 8}}},
		{Key: "1", Value: bson.D{{Key: "x", Value: 9}, {Key: "2", Value: 5}}},
	}}})))
	for _, from := range []time.Time{{}, day} {
		if got := testkit.Collect(t, s.Range(t.Context(), "s", from, time.Time{})); len(got) != 1 || !got[0].Time.Equal(at(1, 2, 0)) {
			t.Errorf("%v", got)
		}
	}
}

func TestArchiveSlots(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := &slots.Options{Metadata: func(any, time.Time) bson.D { return bson.D{{Key: "room", Value: 5}} }, EndField: "end", EndTime: timeseries.LastSecond}
	s := newSlots[string, int](t, coll, timeseries.Days(nil), o)
	archived := newSlots[string, int](t, archive, timeseries.Days(nil), o)
	for d := range 4 {
		testkit.OK(t, s.Set(t.Context(), "s", day.AddDate(0, 0, d), d))
	}
	before := testkit.Stored[bson.M](t, coll)
	if before[0]["room"] != int32(5) || before[0]["end"] != date(day.AddDate(0, 0, 1).Add(-time.Second)) {
		t.Errorf("%v", before[0])
	}
	testkit.Done(t, 2)(s.Archive(t.Context(), day.AddDate(0, 0, 2), archive, nil))
	testkit.Equal(t, before[:2], testkit.Stored[bson.M](t, archive))
	// Late slots join what is archived.
	for _, late := range []slots.Slot[int]{{Time: at(0, 0, 0), Value: 100}, {Time: at(5, 5, 0), Value: 55}} {
		testkit.OK(t, s.Set(t.Context(), "s", late.Time, late.Value))
	}
	testkit.Done(t, 1)(s.Archive(t.Context(), day.AddDate(0, 0, 2), archive, nil))
	var values []int
	for _, slot := range testkit.Collect(t, archived.Range(t.Context(), "s", time.Time{}, time.Time{})) {
		values = append(values, slot.Value)
	}
	testkit.Equal(t, []int{100, 55, 1}, values)
	// What is no slot replaces none.
	for _, data := range []any{nil, bson.D{{Key: "5", Value: nil}}, bson.D{{Key: "5", Value: bson.D{{Key: "5", Value: nil}}}}} {
		kept := testkit.Stored[bson.M](t, archive)
		testkit.Insert(t, coll, bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: day}, {Key: "data", Value: data}})
		testkit.Done(t, 1)(s.Archive(t.Context(), day.AddDate(0, 0, 1), archive, nil))
		testkit.Equal(t, kept, testkit.Stored[bson.M](t, archive))
	}
	// A document that is another one in the archive stays where it is.
	testkit.OK(t, s.Set(t.Context(), "s", at(1, 0, 0), 7))
	testkit.OK(t, second(archive.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "series", Value: "other"}}}})))
	left := testkit.Count(t, coll, bson.D{})
	if result, err := s.Archive(t.Context(), day.AddDate(0, 0, 2), archive, nil); err != nil || result.Failed != 1 || testkit.Count(t, coll, bson.D{}) != left {
		t.Errorf("%+v, %v, %d left of %d", result, err, testkit.Count(t, coll, bson.D{}), left)
	}
}

// The projection names what a range needs and no more.
func TestSlotProjection(t *testing.T) {
	coll := testkit.Offline(t).Collection("c")
	s, err := slots.New[string, weather](coll, timeseries.Days(nil), nil)
	testkit.OK(t, err)
	for _, c := range []struct {
		from, to time.Time
		want     string
	}{
		{at(10, 0, 0), at(10, 2, 0), "[data.10.0 data.10.1]"},
		{at(10, 0, 30), at(10, 2, 30), "[data.10.1 data.10.2]"},
		{at(9, 59, 0), at(12, 1, 0), "[data.9.59 data.10 data.11 data.12.0]"},
		{at(0, 0, 0), at(24, 0, 0), "[data.0 data.1 data.2 data.3 data.4 data.5 data.6 data.7 data.8 data.9 data.10 data.11 data.12 data.13 data.14 data.15 data.16 data.17 data.18 data.19 data.20 data.21 data.22 data.23]"},
		{at(10, 0, 0), at(25, 0, 0), "[data]"},
		{time.Time{}, at(1, 0, 0), "[data]"},
		{at(3, 0, 0), at(2, 0, 0), "[]"},
	} {
		var got []string
		for _, e := range s.Projection(c.from, c.to)[2:] {
			got = append(got, e.Key)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v to %v: %v", c.from, c.to, got)
		}
	}
}

// The published ratio of data, 0.46 of one document a minute, holds for what is
// stored; so do the index entries, of which there are two a day.
func TestStorageRatio(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, weather](t, coll, timeseries.Days(nil), &slots.Options{SeriesField: "sensor_id", StartField: "created_time"})
	w := weather{20, 0.5}
	plain, err := bson.Marshal(bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "sensor_id", Value: "SENSOR-1"},
		{Key: "created_time", Value: day}, {Key: "temperature", Value: w.Temperature}, {Key: "humidity", Value: w.Humidity}})
	testkit.OK(t, err)
	var all []slots.Slot[weather]
	for m := range 24 * 60 {
		all = append(all, slots.Slot[weather]{Time: at(0, m, 0), Value: w})
	}
	testkit.OK(t, second(s.SetMany(t.Context(), timeseries.Of("SENSOR-1", all...), nil)))
	raw, err := coll.FindOne(t.Context(), bson.D{}).Raw()
	testkit.OK(t, err)
	if ratio := float64(len(raw)) / float64(24*60*len(plain)); ratio > 0.46 {
		t.Errorf("%.3f of the data", ratio)
	}
	testkit.Equal(t, 1, testkit.Count(t, coll, bson.D{}))
}

// What old code sets in a document between Adopt's read and its writes is not lost, and a document that it deletes does
// not come back.
func TestSlotsAdoptBetween(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"find", "delete"} {
		for what, between := range map[string]func(coll *mongo.Collection) error{
			"set": func(coll *mongo.Collection) error {
				return second(coll.UpdateOne(context.Background(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "data.0.1", Value: 6}}}}))
			},
			"deleted": func(coll *mongo.Collection) error {
				return second(coll.DeleteOne(context.Background(), bson.D{{Key: "_id", Value: 1}}))
			},
			"adopted": func(coll *mongo.Collection) error {
				return second(mustSlots(coll).Adopt(context.Background(), nil, nil))
			},
		} {
			t.Run(what+" before "+command, func(t *testing.T) {
				t.Parallel()
				coll := mongotest.Database(t).Collection("c")
				plain := newSlots[string, int](t, coll, timeseries.Days(nil), nil)
				for i, start := range []string{"2021-07-05", "2021-07-06"} {
					testkit.OK(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i + 1}, {Key: "series", Value: "s"}, {Key: "start", Value: start},
						{Key: "data", Value: bson.D{{Key: "0", Value: bson.D{{Key: "0", Value: 5}}}}}})))
				}
				var once sync.Once
				s, err := slots.New[string, int](beforeCommand(t, coll, command, func() {
					once.Do(func() {
						if err := between(coll); err != nil {
							t.Error(err)
						}
					})
				}), timeseries.Days(nil), nil)
				testkit.OK(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				result, err := s.Adopt(ctx, nil, nil)
				testkit.OK(t, err)
				var got []int
				for _, slot := range testkit.Collect(t, plain.Range(t.Context(), "s", time.Time{}, time.Time{})) {
					got = append(got, slot.Value)
				}
				want, done := map[string][]int{"set": {5, 6, 5}, "deleted": {5}, "adopted": {5, 5}}[what], map[string]int64{"set": 2, "deleted": 1}[what]
				testkit.Equal(t, want, got)
				if result.Done != done || result.Skipped != 2-done || result.Examined != 2 {
					t.Errorf("%+v", result)
				}
			})
		}
	}
}

func mustSlots(coll *mongo.Collection) *slots.Slots[string, int] {
	s, err := slots.New[string, int](coll, timeseries.Days(nil), nil)
	if err != nil {
		panic(err)
	}
	return s
}

// beforeCommand is the collection by a client that calls fn before it sends a command of a transaction.
func beforeCommand(t *testing.T, coll *mongo.Collection, command string, fn func()) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)).SetMonitor(&driver.CommandMonitor{Started: func(_ context.Context, e *driver.CommandStartedEvent) {
		if e.CommandName == command && e.Command.Lookup("autocommit").Type != 0 {
			fn()
		}
	}}))
	testkit.OK(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database(coll.Database().Name()).Collection(coll.Name())
}

// fresh is a collection for a test beside others.
func fresh(t *testing.T) *mongo.Collection {
	t.Helper()
	t.Parallel()
	return mongotest.Database(t).Collection("c")
}

func date(t time.Time) bson.DateTime { return bson.NewDateTimeFromTime(t) }

var day = time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)

func at(h, m, s int) time.Time {
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

func second[T any](_ T, err error) error { return err }

const base = "series_1_start_1"

// A range has the milliseconds that BSON stores, whether the server sends a whole document or only some slots of it.
func TestRangeBelowAMillisecond(t *testing.T) {
	s := newSlots[string, int](t, mongotest.Database(t).Collection("c"), timeseries.Days(nil), &slots.Options{Levels: []time.Duration{time.Minute}})
	day := time.Date(2024, 1, 1, 10, 0, 0, 0, time.UTC)
	for i := range 3 {
		testkit.OK(t, s.Set(t.Context(), "a", day.Add(time.Duration(i)*time.Minute), i))
	}
	for _, to := range []time.Time{day.Add(time.Hour), day.Add(24 * time.Hour)} {
		var got []int
		for slot, err := range s.Range(t.Context(), "a", day.Add(1), to) {
			testkit.OK(t, err)
			got = append(got, slot.Value)
		}
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("until %v: %v", to, got)
		}
	}
}

// The first window of all begins at the zero time, which is no limit elsewhere.
func TestLatestInTheFirstWindow(t *testing.T) {
	s := newSlots[string, int](t, mongotest.Database(t).Collection("c"), timeseries.Every(24*time.Hour), &slots.Options{Levels: []time.Duration{time.Hour}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	first := time.Time{}.Add(time.Hour)
	testkit.OK(t, s.Set(ctx, "a", first, 1))
	testkit.OK(t, s.Delete(ctx, "a", first))
	if _, err := s.Latest(ctx, "a"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
}

// The error for a slot that cannot be read says which one it is.
func TestUnreadableSlotIsNamed(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	written := testkit.Must(slots.New[int, string](db.Collection("c"), timeseries.Days(nil), nil))
	read := testkit.Must(slots.New[int, int](db.Collection("c"), timeseries.Days(nil), nil))
	at := time.Date(2024, 1, 2, 3, 4, 0, 0, time.UTC)
	testkit.OK(t, written.Set(t.Context(), 7, at, "x"))
	_, get := read.Get(t.Context(), 7, at)
	_, latest := read.Latest(t.Context(), 7)
	for call, err := range map[string]error{"get": get, "latest": latest} {
		if !errors.Is(err, mongopatterns.ErrMalformed) || !strings.HasPrefix(err.Error(), "slots: "+call+": series 7, time 2024-01-02T03:04:00Z: ") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// A slot for which the document of its window has no room is ErrInvalid, which names the document.
func TestSetBeyondADocument(t *testing.T) {
	s := newSlots[int, string](t, fresh(t), timeseries.Days(nil), nil)
	large := strings.Repeat("x", 9<<20)
	testkit.OK(t, s.Set(t.Context(), 1, at(0, 0, 0), large))
	for want, err := range map[string]error{
		`slots: set: _id {"series":`: s.Set(t.Context(), 1, at(0, 1, 0), large),
		`slots: set many: 1 of 1 not stored, the first: _id {"series":`: testkit.ErrorOf(s.SetMany(t.Context(),
			timeseries.Of(1, slots.Slot[string]{Time: at(0, 1, 0), Value: large}), nil)),
	} {
		if text := fmt.Sprint(err); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(text, want) || !strings.Contains(text, "16 MiB") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A time that no slot can have has no path that an update could write to.
func TestPathOfNoSlot(t *testing.T) {
	coll := fresh(t)
	s := newSlots[int, int](t, coll, timeseries.Every(time.Hour), nil)
	testkit.OK(t, s.Set(t.Context(), 1, at(0, 0, 0), 1))
	for _, moment := range []time.Time{{}, time.Unix(1<<61, 0), time.Unix(-1<<61, 0)} {
		path := s.Path(moment)
		if _, err := coll.UpdateMany(t.Context(), bson.D{}, testkit.D("$set", testkit.D(path, 1))); path != "" || err == nil {
			t.Errorf("%v: %q, %v", moment.Unix(), path, err)
		}
	}
}

// Check names a window with two documents, which EnsureIndexes refuses.
func TestWindowOfTwoDocuments(t *testing.T) {
	coll := fresh(t)
	s, err := slots.New[string, int](coll, timeseries.Days(nil), nil)
	testkit.OK(t, err)
	for i, of := range []any{"s", "s", "t"} {
		testkit.Insert(t, coll, bson.D{{Key: "_id", Value: i}, {Key: "series", Value: of}, {Key: "start", Value: day}, {Key: "data", Value: bson.D{}}})
	}
	testkit.Is(t, s.EnsureIndexes(t.Context()), mongopatterns.ErrMalformed)
	found := testkit.Collect(t, s.Check(t.Context(), nil))
	if len(found) != 1 || found[0].Kind != mongopatterns.Duplicate || found[0].ID.Int32() != 1 || found[0].Field != "start" || !found[0].Have.Time().Equal(day) {
		t.Error(found)
	}
	testkit.OK(t, testkit.ErrorOf(coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 1}})))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	testkit.Healthy(t, s)
}

// Where data, or a value above the slots, is not a document, Set returns ErrMalformed and Check names it. Keys that are
// not those of slots may have any value.
func TestDataThatIsNoDocument(t *testing.T) {
	t.Parallel()
	day := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	for path, levels := range map[string][]time.Duration{
		"data": {time.Minute}, "data.0": {time.Hour, time.Minute}, "data.0.0": {time.Hour, time.Minute, time.Second},
	} {
		for _, v := range []any{nil, "text", 7, bson.A{1}} {
			coll := mongotest.Database(t).Collection("c")
			s := testkit.Must(slots.New[string, int](coll, timeseries.Days(nil), &slots.Options{Levels: levels}))
			testkit.OK(t, s.Set(t.Context(), "s", day.Add(2*time.Hour), 1))
			testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "data.note", Value: "x"}}}})
			testkit.Healthy(t, s)
			testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: v}}}})
			if err := s.Set(t.Context(), "s", day.Add(time.Second), 2); v == nil || v == "text" || v == 7 {
				if !errors.Is(err, mongopatterns.ErrMalformed) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
					t.Errorf("%s is %v: %v", path, v, err)
				}
			}
			problems := testkit.Collect(t, s.Check(t.Context(), nil))
			if len(problems) != 1 || problems[0].Kind != mongopatterns.Malformed || problems[0].Field != "data" {
				t.Errorf("%s is %v: %v", path, v, problems)
			}
			if r, err := s.Repair(t.Context(), nil); err != nil || r.Remaining != 1 {
				t.Errorf("%s is %v: %+v, %v", path, v, r, err)
			}
		}
	}
}
