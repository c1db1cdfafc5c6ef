package registry

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "approx", Writes: approxRows, Reads: approxReads(), Writings: approxWritings, Steps: approxSteps, Role: approxRole})
}

// views are counters; one has 100.
func views(s *Scene, every int64) *approx.Counters[string] {
	s.Insert("pages", testkit.D("_id", "/a", "count", 100))
	return testkit.Must(approx.New[string](s.Coll("pages"), &approx.Options{Every: every}))
}

func visitors(s *Scene, every int64) *approx.Distinct[string, string] {
	s.Insert("days", testkit.D("_id", "Monday", "distinct", testkit.D("p10", testkit.D("17", 1))))
	return testkit.Must(approx.NewDistinct[string, string](s.Coll("days"), &approx.Options{Every: every}))
}

// twiceSeven is a document when the 7 that were written with an unknown outcome are written again: the manual says that
// they may count twice.
func twiceSeven(after string) string { return strings.ReplaceAll(after, `"107"`, `"114"`) }

var approxRows = []Row{
	{"approx.Counters.Add", func(s *Scene) Call {
		c := views(s, 1)
		return Call{Shards: sharders(c), One: func(ctx context.Context) error { return c.Add(ctx, "/a", 7) }, Twice: twiceSeven,
			Repeat: func(ctx context.Context) error { return testkit.ErrorOf(c.Flush(ctx)) }} // it waits
	}},
	{"approx.Counters.Flush", func(s *Scene) Call {
		c := views(s, 100)
		s.OK(c.Add(s.Context(), "/a", 7))
		return Call{Shards: sharders(c), Many: c.Flush, Counts: "pages", Twice: twiceSeven}
	}},
	{"approx.Counters.Close", func(s *Scene) Call {
		c := views(s, 100)
		s.OK(c.Add(s.Context(), "/a", 7))
		return Call{Shards: sharders(c), One: c.Close, Twice: twiceSeven}
	}},
	{"approx.Sampled.Add", func(s *Scene) Call {
		s.Insert("pages", testkit.D("_id", "/a", "count", 100))
		c := testkit.Must(approx.NewSampled[string](s.Coll("pages"), &approx.Options{Every: 7, Random: func() float64 { return 0 }}))
		return Call{Shards: sharders(c), One: func(ctx context.Context) error { return c.Add(ctx, "/a", 1) }, Look: true}
	}},
	{"approx.Distinct.Add", func(s *Scene) Call {
		d := visitors(s, 1)
		return Call{Shards: sharders(d), One: func(ctx context.Context) error { return d.Add(ctx, "Monday", "Ann") },
			Repeat: func(ctx context.Context) error { return testkit.ErrorOf(d.Flush(ctx)) }}
	}},
	{"approx.Distinct.Flush", func(s *Scene) Call {
		d := visitors(s, 100)
		s.OK(d.Add(s.Context(), "Monday", "Ann", "Bob", "Cid"))
		s.OK(d.Add(s.Context(), "Tuesday", "Ann"))
		return Call{Shards: sharders(d), Many: func(ctx context.Context) (mongopatterns.Result, error) { return d.Flush(ctx) }, Counts: "days"}
	}},
	{"approx.Distinct.Close", func(s *Scene) Call {
		d := visitors(s, 100)
		s.OK(d.Add(s.Context(), "Monday", "Ann", "Bob", "Cid"))
		return Call{Shards: sharders(d), One: d.Close}
	}},
}

func approxReads() (out []Row) {
	out = append(out, reads("approx.Counters", "", func(s *Scene) *approx.Counters[string] { return views(s, 1) }, map[string]func(context.Context, *approx.Counters[string]) error{
		"Get": func(ctx context.Context, c *approx.Counters[string]) error { return testkit.ErrorOf(c.Get(ctx, "/a")) },
	})...)
	out = append(out, reads("approx.Distinct", "", func(s *Scene) *approx.Distinct[string, string] { return visitors(s, 1) }, map[string]func(context.Context, *approx.Distinct[string, string]) error{
		"Estimate": func(ctx context.Context, d *approx.Distinct[string, string]) error {
			return testkit.ErrorOf(d.Estimate(ctx, "Monday"))
		},
		"Union": func(ctx context.Context, d *approx.Distinct[string, string]) error {
			return testkit.ErrorOf(d.Union(ctx, bson.D{}))
		},
	})...)
	out = append(out, reads("approx.Sampled", "", func(s *Scene) *approx.Sampled[string] {
		s.Insert("pages", testkit.D("_id", "/a", "count", 100))
		return testkit.Must(approx.NewSampled[string](s.Coll("pages"), &approx.Options{Every: 7}))
	}, map[string]func(context.Context, *approx.Sampled[string]) error{
		"Estimate": func(ctx context.Context, c *approx.Sampled[string]) error {
			return testkit.ErrorOf(c.Estimate(ctx, "/a"))
		},
	})...)
	return out
}

func approxWritings(s *Scene) []Writing {
	ctx := s.Context()
	counters := testkit.Must(approx.New[string](s.Coll("views"), &approx.Options{Every: 1}))
	var counted [Entities]struct {
		sync.Mutex
		all []int
	}
	return []Writing{{"approx.Add", sharders(counters), func(ctx context.Context, e, n int) error {
		counted[e].Lock()
		counted[e].all = append(counted[e].all, n)
		counted[e].Unlock()
		return counters.Add(ctx, letter(e), 1)
	}, func(t *testing.T, e int) []int {
		n, err := counters.Get(ctx, letter(e))
		if err != nil || int(n) != len(counted[e].all) {
			t.Errorf("approx: %d counted of %d, %v", n, len(counted[e].all), err)
		}
		return counted[e].all
	}}}
}

func approxSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	c := testkit.Must(approx.New[string](db.Collection("approx"), &approx.Options{Every: 7}))
	step := func(ctx context.Context, _ int) error { return c.Add(ctx, "views", 1) }
	return step, func(t *testing.T, n int) {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		// A write without an answer may count twice, and none may be missing.
		if got := testkit.Must(c.Get(t.Context(), "views")); got < int64(n) {
			t.Errorf("%d of %d", got, n)
		}
	}
}

var approxRole = &Role{Open: approxPlayer, Writes: []string{"count_%"}}

func approxPlayer(s *Side) (*Player, error) {
	c, err := approx.New[any](s.Main, &approx.Options{CountField: s.name("count"), Every: 2, Existing: true})
	return opened(&Player{
		Step: func(ctx context.Context, ids []any, n int) error { return c.Add(ctx, ids[n%Shared], 1) },
		Oracle: func(ctx context.Context, ids []any) error {
			if err := c.Close(ctx); err != nil {
				return err
			}
			return each(ids, func(i int, id any) error {
				n, err := c.Get(ctx, id)
				if err != nil {
					return err
				}
				return same(n, len(roundsOf(i)))
			})
		},
	}, c, err)
}
