package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func init() {
	add(Pattern{Package: "slots", Writes: slotsRows, Reads: slotsReads(), Writings: slotsWritings, Steps: slotsSteps, Role: slotsRole})
}

type minutes = slots.Slots[string, int]

func newSlots(s *Scene, coll string) *minutes {
	b := testkit.Must(slots.New[string, int](s.Coll(coll), timeseries.Days(nil), &slots.Options{EndField: "end"}))
	s.OK(b.EnsureIndexes(s.Context()))
	return b
}

// day are three slots of a day and one of the next.
func day(s *Scene) *minutes {
	b := newSlots(s, "slots")
	for m := range 3 {
		s.OK(b.Set(s.Context(), "A", at(m), m))
	}
	s.OK(b.Set(s.Context(), "A", at(24*60), 9))
	return b
}

func slot(do func(ctx context.Context, b *minutes) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		b := day(s)
		return Call{One: func(ctx context.Context) error { return do(ctx, b) }, Repeated: repeated, Check: []mongopatterns.Checker{b}}
	}
}

var slotsRows = []Row{
	{"slots.Slots.Set", slot(func(ctx context.Context, b *minutes) error { return b.Set(ctx, "A", at(3), 7) })},
	{"slots.Slots.Set/first", slot(func(ctx context.Context, b *minutes) error { return b.Set(ctx, "B", at(3), 7) })},
	{"slots.Slots.SetMany", func(s *Scene) Call {
		b := day(s)
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.SetMany(ctx, func(yield func(string, slots.Slot[int]) bool) {
				for m := range 4 {
					if !yield(fmt.Sprint(m), slots.Slot[int]{Time: at(m), Value: m}) {
						return
					}
				}
			}, &mongopatterns.Work{BatchSize: 2})
		}, Counts: "slots", Check: []mongopatterns.Checker{b}}
	}},
	{"slots.Slots.Delete", slot(func(ctx context.Context, b *minutes) error { return b.Delete(ctx, "A", at(1)) }, mongopatterns.ErrNotFound)},
	{"slots.Slots.Repair", func(s *Scene) Call {
		b := day(s)
		s.OK(testkit.ErrorOf(s.Coll("slots").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("end", nine)))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return b.Repair(ctx, small) }, Counts: "slots", Check: []mongopatterns.Checker{b}}
	}},
	{"slots.Slots.Archive", func(s *Scene) Call {
		b := day(s)
		archive := newSlots(s, "archive")
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Archive(ctx, nine.AddDate(0, 0, 9), s.Coll("archive"), small)
		}, Counts: "slots", Check: []mongopatterns.Checker{b, archive}}
	}},
	{"slots.Slots.Adopt", func(s *Scene) Call {
		b := newSlots(s, "slots")
		for _, sensor := range []string{"A", "B"} {
			start := "2021-07-05 00:00:00"
			s.Insert("slots", testkit.D("series", sensor, "start", start, "data", testkit.D("0", testkit.D("0", 21))))
		}
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Adopt(ctx, func(start string) (time.Time, error) { return time.Parse(time.DateTime, start) }, small)
		}, Check: []mongopatterns.Checker{b}}
	}},
}

func slotsReads() []Row {
	return reads("slots.Slots", "", day, map[string]func(context.Context, *minutes) error{
		"Get":    func(ctx context.Context, b *minutes) error { return testkit.ErrorOf(b.Get(ctx, "A", at(1))) },
		"Range":  func(ctx context.Context, b *minutes) error { return testkit.Drain(b.Range(ctx, "A", from, to)) },
		"Latest": func(ctx context.Context, b *minutes) error { return testkit.ErrorOf(b.Latest(ctx, "A")) },
		"Check":  func(ctx context.Context, b *minutes) error { return checked(b)(ctx) },
	})
}

func slotsWritings(s *Scene) []Writing {
	ctx := s.Context()
	l := newSlots(s, "slots")
	return []Writing{{"slots.Set", sharders(l), func(ctx context.Context, e, n int) error {
		return l.Set(ctx, letter(e), nine.Add(time.Duration(n)*time.Minute), n)
	}, func(t *testing.T, e int) []int {
		return collected(t, l.Range(ctx, letter(e), from, from.AddDate(1, 0, 0)), func(v slots.Slot[int]) int { return v.Value })
	}}}
}

func slotsSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	s := testkit.Must(slots.New[string, int](db.Collection("slots"), timeseries.Every(time.Hour), &slots.Options{EndField: "end"}))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	step := func(ctx context.Context, n int) error { return s.Set(ctx, "A", at(n), n) }
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, s)
		inOrder(t, collected(t, s.Range(t.Context(), "A", time.Time{}, time.Time{}), func(v slots.Slot[int]) int { return v.Value }), n)
	}
}

var slotsRole = &Role{Open: slotsPlayer, Writes: []string{"series_%", "start_%", "data_%"}, Rules: []Rule{{With: []string{"bucket", "prealloc", "series", "slots"}, Result: Refused,
	Why: "the unique index of slots on series and start takes all documents without both for the same", Fact: "E11000"}}}

func slotsPlayer(s *Side) (*Player, error) {
	c, err := slots.New[string, int](s.Main, timeseries.Every(time.Hour), &slots.Options{SeriesField: s.name("series"), StartField: s.name("start"), DataField: s.name("data")})
	put := func(ctx context.Context, n int) error { return c.Set(ctx, "A", hourly(n), n) }
	return opened(&Player{
		Own:  testkit.D(s.name("start"), testkit.D("$exists", true)),
		Seed: func(ctx context.Context) error { return first(ctx, put) },
		Step: func(ctx context.Context, _ []any, n int) error { return later(ctx, n, put) },
		Oracle: func(ctx context.Context, _ []any) error {
			return allMeasured(func(from, to time.Time) ([]int, error) {
				return numbersOf(c.Range(ctx, "A", from, to), func(v slots.Slot[int]) int { return v.Value })
			})
		},
	}, c, err)
}
