package sweep

import (
	"context"
	"time"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// seats is a grid where order 1 has claimed A1 and order 2 holds A2.
func seats(s *scene) *prealloc.Grids[string, string] {
	g := testkit.Must(prealloc.New[string, string](s.coll("screenings"), nil))
	s.ok(g.Insert(s.Context(), "Dumbo", nil, prealloc.Row("A", 5)...))
	s.ok(g.Claim(s.Context(), "Dumbo", "order 1", prealloc.Cell{Section: "A", Name: "1"}))
	s.ok(g.Hold(s.Context(), "Dumbo", "order 2", time.Hour, prealloc.Cell{Section: "A", Name: "2"}))
	return g
}

func seat(n string) prealloc.Cell { return prealloc.Cell{Section: "A", Name: n} }

var preallocRows = []row{
	{"prealloc.Grids.Insert", func(s *scene) call {
		g := seats(s)
		return call{shards: sharders(g), one: func(ctx context.Context) error { return g.Insert(ctx, "Bambi", nil, prealloc.Row("A", 5)...) }, repeated: []error{mongopatterns.ErrExists}}
	}},
	{"prealloc.Grids.Hold", func(s *scene) call {
		g := seats(s)
		return call{shards: sharders(g), one: func(ctx context.Context) error {
			return g.Hold(ctx, "Dumbo", "order 3", time.Hour, seat("3"), seat("4"))
		}}
	}},
	{"prealloc.Grids.Claim", func(s *scene) call {
		g := seats(s)
		return call{shards: sharders(g), one: func(ctx context.Context) error { return g.Claim(ctx, "Dumbo", "order 2", seat("2"), seat("3")) }}
	}},
	{"prealloc.Grids.Release", func(s *scene) call {
		g := seats(s)
		return call{shards: sharders(g), one: func(ctx context.Context) error { return g.Release(ctx, "Dumbo", "order 1", seat("1")) }}
	}},
	{"prealloc.Grids.HoldAdjacent", func(s *scene) call {
		g := seats(s)
		return call{shards: sharders(g), one: func(ctx context.Context) error { return void(g.HoldAdjacent(ctx, "Dumbo", "order 3", time.Hour, 3)) }}
	}},
}
