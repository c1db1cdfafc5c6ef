package sweep

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// reading is a measurement of a sensor.
type reading struct {
	ID          int       `bson:"id"`
	Timestamp   time.Time `bson:"timestamp"`
	Temperature int       `bson:"temperature"`
}

type sensors = bucket.Buckets[string, reading]

// nine is the hour of all measurements.
var nine = time.Date(2019, 1, 31, 9, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return nine.Add(time.Duration(minute) * time.Minute) }

func measured(id int) reading { return reading{id, at(id), 20 + id} }

// eachSeries are readings of a sensor each, so that each makes a document.
func eachSeries(ids ...int) iter.Seq2[string, reading] {
	return func(yield func(string, reading) bool) {
		for _, id := range ids {
			if !yield(fmt.Sprint(id), measured(id)) {
				return
			}
		}
	}
}

func newSensors(s *scene, coll string, withID bool) *sensors {
	opts := &bucket.Options{MaxCount: 3, Values: []timeseries.Value{{Field: "temperature", Sum: "sum"}}}
	if withID {
		opts.IDField = "id"
	}
	b := testkit.Must(bucket.New[string, reading](s.coll(coll), timeseries.Every(time.Hour), opts))
	s.ok(b.EnsureIndexes(s.Context()))
	return b
}

// hour are measurements 0 to n-1 in buckets of three.
func hour(s *scene, n int, withID bool) *sensors {
	b := newSensors(s, "buckets", withID)
	for id := range n {
		s.ok(void(b.Append(s.Context(), "A", measured(id))))
	}
	return b
}

func sensor(n int, withID, look bool, do func(ctx context.Context, b *sensors) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		b := hour(s, n, withID)
		return call{one: func(ctx context.Context) error { return do(ctx, b) }, look: look, repeated: repeated, check: []mongopatterns.Checker{b}}
	}
}

type minutes = slots.Slots[string, int]

func newSlots(s *scene, coll string) *minutes {
	b := testkit.Must(slots.New[string, int](s.coll(coll), timeseries.Days(nil), &slots.Options{EndField: "end"}))
	s.ok(b.EnsureIndexes(s.Context()))
	return b
}

// day are three slots of a day and one of the next.
func day(s *scene) *minutes {
	b := newSlots(s, "slots")
	for m := range 3 {
		s.ok(b.Set(s.Context(), "A", at(m), m))
	}
	s.ok(b.Set(s.Context(), "A", at(24*60), 9))
	return b
}

func slot(do func(ctx context.Context, b *minutes) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		b := day(s)
		return call{one: func(ctx context.Context) error { return do(ctx, b) }, repeated: repeated, check: []mongopatterns.Checker{b}}
	}
}

var bucketRows = []row{
	{"bucket.Buckets.Append", sensor(2, true, false, func(ctx context.Context, b *sensors) error { return void(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.Append/first", sensor(0, true, false, func(ctx context.Context, b *sensors) error { return void(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.Append/full", sensor(3, true, false, func(ctx context.Context, b *sensors) error { return void(b.Append(ctx, "A", measured(3))) })},
	{"bucket.Buckets.Append/without IDs", sensor(2, false, true, func(ctx context.Context, b *sensors) error { return void(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.AppendMany", func(s *scene) call {
		b := hour(s, 2, true)
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.AppendMany(ctx, eachSeries(10, 11, 12, 13), &mongopatterns.Work{BatchSize: 2})
		}, counts: "buckets", check: []mongopatterns.Checker{b}}
	}},
	{"bucket.Buckets.Replace", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.Replace(ctx, "A", reading{1, at(1), 99}) })},
	{"bucket.Buckets.Delete", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.Delete(ctx, "A", at(4)) }, mongopatterns.ErrNotFound)},
	{"bucket.Buckets.DeleteByID", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.DeleteByID(ctx, "A", at(1), 1) }, mongopatterns.ErrNotFound)},
	{"bucket.Buckets.Repair", func(s *scene) call {
		b := hour(s, 7, true)
		s.ok(void(s.coll("buckets").UpdateMany(s.Context(), doc(), doc("$set", doc("sum", -1)))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return b.Repair(ctx, small) }, counts: "buckets", check: []mongopatterns.Checker{b}}
	}},
	{"bucket.Buckets.Archive", func(s *scene) call {
		b := hour(s, 7, true)
		archive := newSensors(s, "archive", false)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Archive(ctx, nine.Add(time.Hour), s.coll("archive"), small)
		}, counts: "buckets", check: []mongopatterns.Checker{b, archive}}
	}},
	{"bucket.Buckets.Adopt", func(s *scene) call {
		b := newSensors(s, "buckets", false)
		measurements(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Adopt(ctx, s.coll("plain"), nil, &mongopatterns.Work{BatchSize: 2})
		}, aside: []string{"buckets.adopt"}, check: []mongopatterns.Checker{b}}
	}},
	{"slots.Slots.Set", slot(func(ctx context.Context, b *minutes) error { return b.Set(ctx, "A", at(3), 7) })},
	{"slots.Slots.Set/first", slot(func(ctx context.Context, b *minutes) error { return b.Set(ctx, "B", at(3), 7) })},
	{"slots.Slots.SetMany", func(s *scene) call {
		b := day(s)
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.SetMany(ctx, func(yield func(string, slots.Slot[int]) bool) {
				for m := range 4 {
					if !yield(fmt.Sprint(m), slots.Slot[int]{Time: at(m), Value: m}) {
						return
					}
				}
			}, &mongopatterns.Work{BatchSize: 2})
		}, counts: "slots", check: []mongopatterns.Checker{b}}
	}},
	{"slots.Slots.Delete", slot(func(ctx context.Context, b *minutes) error { return b.Delete(ctx, "A", at(1)) }, mongopatterns.ErrNotFound)},
	{"slots.Slots.Repair", func(s *scene) call {
		b := day(s)
		s.ok(void(s.coll("slots").UpdateMany(s.Context(), doc(), doc("$set", doc("end", nine)))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return b.Repair(ctx, small) }, counts: "slots", check: []mongopatterns.Checker{b}}
	}},
	{"slots.Slots.Archive", func(s *scene) call {
		b := day(s)
		archive := newSlots(s, "archive")
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Archive(ctx, nine.AddDate(0, 0, 9), s.coll("archive"), small)
		}, counts: "slots", check: []mongopatterns.Checker{b, archive}}
	}},
	{"slots.Slots.Adopt", func(s *scene) call {
		b := newSlots(s, "slots")
		for _, sensor := range []string{"A", "B"} {
			start := "2021-07-05 00:00:00"
			s.insert("slots", doc("series", sensor, "start", start, "data", doc("0", doc("0", 21))))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Adopt(ctx, func(start string) (time.Time, error) { return time.Parse(time.DateTime, start) }, small)
		}, check: []mongopatterns.Checker{b}}
	}},
}
