package registry

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

func init() {
	add(Pattern{Package: "prealloc", Writes: preallocRows, Reads: preallocReads(), Writings: preallocWritings, Steps: preallocSteps, Role: preallocRole})
}

type grids = prealloc.Grids[string, string]

// seats is a grid where order 1 has claimed A1 and order 2 holds A2.
func seats(s *Scene) *prealloc.Grids[string, string] {
	g := testkit.Must(prealloc.New[string, string](s.Coll("screenings"), &prealloc.Options{Scope: s.Scope}))
	s.OK(g.Insert(s.Context(), "Dumbo", nil, prealloc.Row("A", 5)...))
	s.OK(g.Claim(s.Context(), "Dumbo", "order 1", prealloc.Cell{Section: "A", Name: "1"}))
	s.OK(g.Hold(s.Context(), "Dumbo", "order 2", time.Hour, prealloc.Cell{Section: "A", Name: "2"}))
	return g
}

func seat(n string) prealloc.Cell { return prealloc.Cell{Section: "A", Name: n} }

var preallocRows = []Row{
	{"prealloc.Grids.Insert", func(s *Scene) Call {
		g := seats(s)
		return Call{Shards: sharders(g), One: func(ctx context.Context) error { return g.Insert(ctx, "Bambi", nil, prealloc.Row("A", 5)...) }, Repeated: []error{mongopatterns.ErrExists}}
	}},
	{"prealloc.Grids.Hold", func(s *Scene) Call {
		g := seats(s)
		return Call{Shards: sharders(g), One: func(ctx context.Context) error {
			return g.Hold(ctx, "Dumbo", "order 3", time.Hour, seat("3"), seat("4"))
		}}
	}},
	{"prealloc.Grids.Claim", func(s *Scene) Call {
		g := seats(s)
		return Call{Shards: sharders(g), One: func(ctx context.Context) error { return g.Claim(ctx, "Dumbo", "order 2", seat("2"), seat("3")) }}
	}},
	{"prealloc.Grids.Release", func(s *Scene) Call {
		g := seats(s)
		return Call{Shards: sharders(g), One: func(ctx context.Context) error { return g.Release(ctx, "Dumbo", "order 1", seat("1")) }}
	}},
	{"prealloc.Grids.HoldAdjacent", func(s *Scene) Call {
		g := seats(s)
		return Call{Shards: sharders(g), One: func(ctx context.Context) error {
			return testkit.ErrorOf(g.HoldAdjacent(ctx, "Dumbo", "order 3", time.Hour, 3))
		}}
	}},
}

func preallocReads() []Row {
	return reads("prealloc.Grids", "", seats, map[string]func(context.Context, *grids) error{
		"Cells":  func(ctx context.Context, g *grids) error { return testkit.ErrorOf(g.Cells(ctx, "Dumbo")) },
		"Counts": func(ctx context.Context, g *grids) error { return testkit.ErrorOf(g.Counts(ctx, "Dumbo")) },
		"Check":  func(ctx context.Context, g *grids) error { return checked(g)(ctx) },
	})
}

func preallocWritings(s *Scene) []Writing {
	ctx := s.Context()
	g := testkit.Must(prealloc.New[int, int](s.Coll("seats"), nil))
	var grids [Entities]struct {
		sync.Mutex
		all []int
	}
	return []Writing{{"prealloc.Insert, Hold and Claim", sharders(g), func(ctx context.Context, e, n int) error {
		grids[e].Lock()
		grids[e].all = append(grids[e].all, n)
		grids[e].Unlock()
		if err := g.Insert(ctx, n, nil, prealloc.Row("A", 3)...); err != nil {
			return err
		}
		if err := g.Hold(ctx, n, n, time.Hour, seat("1"), seat("2")); err != nil {
			return err
		}
		return g.Claim(ctx, n, n, seat("1"))
	}, func(t *testing.T, e int) (out []int) {
		for _, n := range grids[e].all {
			cells, err := g.Cells(ctx, n)
			if err != nil || len(cells) != 3 || !cells[0].Until.IsZero() || cells[1].Until.IsZero() || cells[1].By != n || !cells[2].Free {
				t.Errorf("%+v, %v", cells, err)
				continue
			}
			out = append(out, cells[0].By)
		}
		return out
	}}}
}

func preallocSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	g := testkit.Must(prealloc.New[int, int](db.Collection("prealloc"), nil))
	step := func(ctx context.Context, n int) error {
		if err := done(g.Insert(ctx, n, nil, prealloc.Row("A", 4)...)); err != nil {
			return err
		}
		return g.Claim(ctx, n, n, prealloc.Row("A", 2)...)
	}
	return step, func(t *testing.T, n int) {
		for i := range n {
			if counts := testkit.Must(g.Counts(t.Context(), i)); counts[0].Claimed != 2 || counts[0].Free != 2 {
				t.Errorf("%d: %v", i, counts)
			}
		}
	}
}

var preallocRole = &Role{Open: preallocPlayer, Writes: []string{"cells_%"}, Rules: []Rule{apartFrom("prealloc", "series")}}

func preallocPlayer(s *Side) (*Player, error) {
	g, err := prealloc.New[any, int](s.Main, &prealloc.Options{CellsField: s.name("cells")})
	grid := func(n int) string { return fmt.Sprint(s.name("grid"), n%Shared) }
	return opened(&Player{
		Own: testkit.D(s.name("cells"), testkit.D("$exists", true)),
		Seed: func(ctx context.Context) error {
			for i := range Shared {
				if err := g.Insert(ctx, grid(i), nil, prealloc.Row("A", Rounds)...); err != nil {
					return err
				}
			}
			return nil
		},
		Step: func(ctx context.Context, _ []any, n int) error {
			return g.Claim(ctx, grid(n), n, prealloc.At("A", fmt.Sprint(n+1)))
		},
		Oracle: func(ctx context.Context, _ []any) error {
			for i := range Shared {
				counts, err := g.Counts(ctx, grid(i))
				if err != nil {
					return err
				}
				if err := same(counts[0].Claimed, len(roundsOf(i))); err != nil {
					return err
				}
			}
			return nil
		},
	}, g, err)
}
