package sweep

import (
	"context"
	"strings"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// views are counters; one has 100.
func views(s *scene, every int64) *approx.Counters[string] {
	s.insert("pages", doc("_id", "/a", "count", 100))
	return testkit.Must(approx.New[string](s.coll("pages"), &approx.Options{Every: every}))
}

func visitors(s *scene, every int64) *approx.Distinct[string, string] {
	s.insert("days", doc("_id", "Monday", "distinct", doc("p10", doc("17", 1))))
	return testkit.Must(approx.NewDistinct[string, string](s.coll("days"), &approx.Options{Every: every}))
}

// twiceSeven is the state when the 7 that were written with an unknown outcome are written
// again: the manual says that they may count twice.
func twiceSeven(after state) state {
	out := state{}
	for name, docs := range after {
		for _, d := range docs {
			out[name] = append(out[name], document{d.id, strings.ReplaceAll(d.text, `"107"`, `"114"`)})
		}
	}
	return out
}

var approxRows = []row{
	{"approx.Counters.Add", func(s *scene) call {
		c := views(s, 1)
		return call{shards: sharders(c), one: func(ctx context.Context) error { return c.Add(ctx, "/a", 7) }, twice: twiceSeven,
			repeat: func(ctx context.Context) error { return void(c.Flush(ctx)) }} // it waits
	}},
	{"approx.Counters.Flush", func(s *scene) call {
		c := views(s, 100)
		s.ok(c.Add(s.Context(), "/a", 7))
		return call{shards: sharders(c), many: c.Flush, counts: "pages", twice: twiceSeven}
	}},
	{"approx.Counters.Close", func(s *scene) call {
		c := views(s, 100)
		s.ok(c.Add(s.Context(), "/a", 7))
		return call{shards: sharders(c), one: c.Close, twice: twiceSeven}
	}},
	{"approx.Sampled.Add", func(s *scene) call {
		s.insert("pages", doc("_id", "/a", "count", 100))
		c := testkit.Must(approx.NewSampled[string](s.coll("pages"), &approx.Options{Every: 7, Random: func() float64 { return 0 }}))
		return call{shards: sharders(c), one: func(ctx context.Context) error { return c.Add(ctx, "/a", 1) }, look: true}
	}},
	{"approx.Distinct.Add", func(s *scene) call {
		d := visitors(s, 1)
		return call{shards: sharders(d), one: func(ctx context.Context) error { return d.Add(ctx, "Monday", "Ann") },
			repeat: func(ctx context.Context) error { return void(d.Flush(ctx)) }}
	}},
	{"approx.Distinct.Flush", func(s *scene) call {
		d := visitors(s, 100)
		s.ok(d.Add(s.Context(), "Monday", "Ann", "Bob", "Cid"))
		s.ok(d.Add(s.Context(), "Tuesday", "Ann"))
		return call{shards: sharders(d), many: func(ctx context.Context) (mongopatterns.Result, error) { return d.Flush(ctx) }, counts: "days"}
	}},
	{"approx.Distinct.Close", func(s *scene) call {
		d := visitors(s, 100)
		s.ok(d.Add(s.Context(), "Monday", "Ann", "Bob", "Cid"))
		return call{shards: sharders(d), one: d.Close}
	}},
}
