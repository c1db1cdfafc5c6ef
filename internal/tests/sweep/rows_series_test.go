package sweep

import (
	"context"
	"time"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type events = series.Series[string, reading]

func newEvents(s *scene, coll string, batches bool) *events {
	opts := &series.Options{MaxCount: 4, Values: []timeseries.Value{{Field: "temperature"}}}
	if batches {
		opts.BatchField = "batches"
	}
	e := testkit.Must(series.New[string, reading](s.coll(coll), timeseries.Every(time.Hour), opts))
	s.ok(e.EnsureIndexes(s.Context()))
	return e
}

// recorded are measurements 0 to n-1, each in a block of its own.
func recorded(s *scene, n int, batches bool) *events {
	e := newEvents(s, "events", batches)
	for id := range n {
		s.ok(e.Append(s.Context(), "A", measured(id)))
	}
	return e
}

func event(n int, batches, look bool, do func(ctx context.Context, e *events) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		e := recorded(s, n, batches)
		return call{one: func(ctx context.Context) error { return do(ctx, e) }, look: look, repeated: repeated, masks: marks, check: []mongopatterns.Checker{e}}
	}
}

func gather(s *scene, count int) (*events, *series.Gatherer[string, reading]) {
	e := recorded(s, 1, true)
	return e, testkit.Must(series.NewGatherer(e, &series.GathererOptions{MaxCount: count}))
}

// marks are random, to tell a document from one begun anew, and revisions count its changes.
var marks = []string{"mark", "revision"}

var seriesRows = []row{
	{"series.Series.Append", event(2, true, false, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(2)) })},
	{"series.Series.Append/full", event(4, true, false, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(4)) })},
	{"series.Series.Append/without batches", event(2, false, true, func(ctx context.Context, e *events) error { return e.Append(ctx, "A", measured(2)) })},
	{"series.Series.AppendMany", func(s *scene) call {
		e := recorded(s, 2, true)
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.AppendMany(ctx, eachSeries(10, 11, 12, 13), &mongopatterns.Work{BatchSize: 2})
		}, counts: "events", masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Replace", event(6, true, false, func(ctx context.Context, e *events) error { return e.Replace(ctx, "A", reading{1, at(1), 99}) })},
	{"series.Series.Delete", event(6, true, false, func(ctx context.Context, e *events) error { return e.Delete(ctx, "A", at(1)) }, mongopatterns.ErrNotFound)},
	{"series.Series.Compact", func(s *scene) call {
		e := recorded(s, 7, true)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return e.Compact(ctx, small) }, counts: "events", masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Repair", func(s *scene) call {
		e := recorded(s, 7, true)
		s.ok(void(s.coll("events").UpdateMany(s.Context(), doc(), doc("$set", doc("count", 9)))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return e.Repair(ctx, small) }, counts: "events", masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Series.Archive", func(s *scene) call {
		e := recorded(s, 7, true)
		archive := newEvents(s, "archive", false)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.Archive(ctx, nine.Add(time.Hour), s.coll("archive"), small)
		}, counts: "events", masks: marks, check: []mongopatterns.Checker{e, archive}}
	}},
	{"series.Series.Adopt", func(s *scene) call {
		e := newEvents(s, "events", false)
		measurements(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return e.Adopt(ctx, s.coll("plain"), nil, &mongopatterns.Work{BatchSize: 2})
		}, aside: []string{"events.adopt"}, masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Append", func(s *scene) call {
		e, g := gather(s, 1)
		s.ok(g.Append(s.Context(), "B", measured(4))) // the next one flushes it
		return call{one: func(ctx context.Context) error { return g.Append(ctx, "B", measured(5)) }, masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Flush", func(s *scene) call {
		e, g := gather(s, 10)
		for id := range 5 {
			s.ok(g.Append(s.Context(), "B", measured(id)))
		}
		return call{many: g.Flush, masks: marks, check: []mongopatterns.Checker{e}}
	}},
	{"series.Gatherer.Close", func(s *scene) call {
		e, g := gather(s, 10)
		s.ok(g.Append(s.Context(), "B", measured(5)))
		return call{one: g.Close, masks: marks, check: []mongopatterns.Checker{e}}
	}},
}
