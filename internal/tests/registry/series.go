package registry

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func init() {
	add(Pattern{Package: "series", Writes: seriesRows, Reads: seriesReads(), Writings: seriesWritings, Steps: seriesSteps, Role: seriesRole})
}

type events = series.Series[string, reading]

func newEvents(s *Scene, coll string, batches bool) *events {
	opts := &series.Options{MaxCount: 4, Values: []timeseries.Value{{Field: "temperature"}}}
	if batches {
		opts.BatchField = "batches"
	}
	e := testkit.Must(series.New[string, reading](s.Coll(coll), timeseries.Every(time.Hour), opts))
	s.OK(e.EnsureIndexes(s.Context()))
	return e
}

// recorded are measurements 0 to n-1, each in a block of its own.
func recorded(s *Scene, n int, batches bool) *events {
	e := newEvents(s, "events", batches)
	for id := range n {
		s.OK(e.Append(s.Context(), "A", measured(id)))
	}
	return e
}

func event(n int, batches, look bool, do func(ctx context.Context, e *events) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		e := recorded(s, n, batches)
		return Call{One: func(ctx context.Context) error { return do(ctx, e) }, Look: look, Repeated: repeated, Masks: marks, Check: []mongopatterns.Checker{e}}
	}
}

func gather(s *Scene, count int) (*events, *series.Gatherer[string, reading]) {
	e := recorded(s, 1, true)
	return e, testkit.Must(series.NewGatherer(e, &series.GathererOptions{MaxCount: count}))
}

// marks are random, to tell a document from one begun anew, and revisions count its changes.
var marks = []string{"mark", "revision"}

var seriesRows = []Row{
	{"series.Series.Append", event(2, true, false, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(2)) })},
	{"series.Series.Append/full", event(4, true, false, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(4)) })},
	{"series.Series.Append/without batches", event(2, false, true, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(2)) })},
	{"series.Series.AppendMany", func(s *Scene) Call {
		e := recorded(s, 2, true)
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.AppendMany(ctx, eachSeries(10, 11, 12, 13), &mongopatterns.Work{BatchSize: 2})
		}, Counts: "events", Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Replace", event(6, true, false, func(ctx context.Context, e *events) error { return e.Replace(ctx, "A", reading{1, at(1), 99}) })},
	{"series.Series.Delete", event(6, true, false, func(ctx context.Context, e *events) error { return e.Delete(ctx, "A", at(1)) }, mongopatterns.ErrNotFound)},
	{"series.Series.Compact", func(s *Scene) Call {
		e := recorded(s, 7, true)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return e.Compact(ctx, small) }, Counts: "events", Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Repair", func(s *Scene) Call {
		e := recorded(s, 7, true)
		s.OK(testkit.ErrorOf(s.Coll("events").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("count", 9)))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return e.Repair(ctx, small) }, Counts: "events", Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Archive", func(s *Scene) Call {
		e := recorded(s, 7, true)
		archive := newEvents(s, "archive", false)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.Archive(ctx, nine.Add(time.Hour), s.Coll("archive"), small)
		}, Counts: "events", Masks: marks, Check: []mongopatterns.Checker{e, archive}}
	}},
	{"series.Series.Adopt", func(s *Scene) Call {
		e := newEvents(s, "events", false)
		measurements(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.Adopt(ctx, s.Coll("plain"), nil, &mongopatterns.Work{BatchSize: 2})
		}, Aside: []string{"events.adopt"}, Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Append", func(s *Scene) Call {
		e, g := gather(s, 1)
		s.OK(g.Append(s.Context(), "B", measured(4))) // the next one flushes it
		return Call{One: func(ctx context.Context) error { return g.Append(ctx, "B", measured(5)) }, Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Flush", func(s *Scene) Call {
		e, g := gather(s, 10)
		for id := range 5 {
			s.OK(g.Append(s.Context(), "B", measured(id)))
		}
		return Call{Many: g.Flush, Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Close", func(s *Scene) Call {
		e, g := gather(s, 10)
		s.OK(g.Append(s.Context(), "B", measured(5)))
		return Call{One: g.Close, Masks: marks, Check: []mongopatterns.Checker{e}}
	}},
}

func seriesReads() (out []Row) {
	out = append(out, reads("series.Series", "", func(s *Scene) *events { return recorded(s, 7, true) }, map[string]func(context.Context, *events) error{
		"Range":     func(ctx context.Context, e *events) error { return testkit.Drain(e.Range(ctx, "A", from, to)) },
		"Latest":    func(ctx context.Context, e *events) error { return testkit.ErrorOf(e.Latest(ctx, "A")) },
		"Aggregate": func(ctx context.Context, e *events) error { return testkit.ErrorOf(e.Aggregate(ctx, "A", from, to)) },
		"AggregateBy": func(ctx context.Context, e *events) error {
			return testkit.Drain(e.AggregateBy(ctx, "A", from, to, timeseries.Every(time.Hour)))
		},
		"AggregateWindows": func(ctx context.Context, e *events) error {
			return testkit.Drain(e.AggregateWindows(ctx, "A", from, to))
		},
		"Documents": func(ctx context.Context, e *events) error { return testkit.Drain(e.Documents(ctx, nil)) },
		"Check":     func(ctx context.Context, e *events) error { return checked(e)(ctx) },
	})...)
	out = append(out, Row{"series.Series.Compare", func(s *Scene) Call {
		measurements(s)
		e := newEvents(s, "events", false)
		s.OK(testkit.ErrorOf(e.Adopt(s.Context(), s.Coll("plain"), nil, nil)))
		return Call{Shards: sharders(e, Keyed{s.Coll("plain"), testkit.D("_id", 1)}), Masks: marks, One: func(ctx context.Context) error {
			return testkit.Drain(e.Compare(ctx, s.Coll("plain"), nil, nil))
		}}
	}})
	return out
}

func seriesWritings(s *Scene) []Writing {
	ctx := s.Context()
	v := newEvents(s, "events", true)
	return []Writing{{"series.Append", sharders(v), func(ctx context.Context, e, n int) error {
		return v.Append(ctx, letter(e), reading{n, moment(n), n})
	}, func(t *testing.T, e int) []int { return collected(t, v.Range(ctx, letter(e), from, to), number) }}}
}

func seriesSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	s := testkit.Must(series.New[string, reading](db.Collection("series"), timeseries.Every(time.Hour), &series.Options{
		BatchField: "batches", MaxCount: 7, Values: []timeseries.Value{{Field: "id"}},
	}))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	step := func(ctx context.Context, n int) error { return s.Append(ctx, "A", measured(n)) }
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, s)
		inOrder(t, collected(t, s.Range(t.Context(), "A", time.Time{}, time.Time{}), number), n)
	}
}

var seriesRole = &Role{Open: seriesPlayer, Writes: []string{"series_%", "start_%", "end_%", "n_%", "bytes_%", "blocks_%", "revision_%", "mark_%"}, Rules: []Rule{apartFrom("series")}}

func seriesPlayer(s *Side) (*Player, error) {
	c, err := series.New[string, reading](s.Main, timeseries.Every(time.Hour), &series.Options{SeriesField: s.name("series"), StartField: s.name("start"),
		EndField: s.name("end"), CountField: s.name("n"), BytesField: s.name("bytes"), BlocksField: s.name("blocks"), RevisionField: s.name("revision"), MarkField: s.name("mark")})
	put := func(ctx context.Context, n int) error { return c.Append(ctx, "A", reading{n, hourly(n), n}) }
	return opened(readings(s, put, c.Range), c, err)
}
