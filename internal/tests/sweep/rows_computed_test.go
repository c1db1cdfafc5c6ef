package sweep

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

type totals = computed.Computed[int, string, bson.D]

func newTotals(s *scene, additive bool) *totals {
	c := testkit.Must(computed.New[int, string, bson.D](s.coll("screenings"), s.coll("films"), computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{doc("$group", doc("_id", "$film", "viewers", doc("$sum", "$viewers")))},
		Empty:    doc("viewers", 0),
	}, &computed.Options{Additive: additive, Lease: time.Second}))
	s.ok(c.EnsureIndexes(s.Context()))
	s.insert("films", doc("_id", "Dumbo"), doc("_id", "Bambi"), doc("_id", "Pinocchio"))
	s.insert("screenings", doc("_id", 1, "film", "Dumbo", "viewers", 10), doc("_id", 2, "film", "Bambi", "viewers", 20))
	return c
}

// computedOnce are films that have their totals.
func computedOnce(s *scene, additive bool) *totals {
	c := newTotals(s, additive)
	s.ok(void(c.Adopt(s.Context(), nil)))
	return c
}

// behind are films; two are not computed yet.
func behind(s *scene) *totals {
	c := computedOnce(s, false)
	s.insert("screenings", doc("_id", 3, "film", "Dumbo", "viewers", 1), doc("_id", 4, "film", "Bambi", "viewers", 2))
	return c
}

func refreshed(do func(ctx context.Context, c *totals) (mongopatterns.Result, error)) func(s *scene) call {
	return func(s *scene) call {
		c := behind(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, c) }, masks: epochs, check: []mongopatterns.Checker{c}}
	}
}

func changed(additive bool) func(s *scene) call {
	return func(s *scene) call {
		c := computedOnce(s, additive)
		return call{one: func(ctx context.Context) error {
			return c.Change(ctx, []int{9}, func(ctx context.Context) error {
				return void(s.coll("screenings").InsertOne(ctx, doc("_id", 9, "film", "Dumbo", "viewers", 5)))
			})
		}, repeated: []error{errDuplicate}, masks: epochs, check: []mongopatterns.Checker{c}}
	}
}

// epochs count what was begun.
var epochs = []string{"epoch"}

var computedRows = []row{
	{"computed.Computed.Change", changed(false)},
	{"computed.Computed.Change/additive", changed(true)},
	{"computed.Computed.Get", func(s *scene) call {
		c := behind(s)
		s.ok(c.Mark(s.Context(), "Dumbo"))
		get := func(ctx context.Context) (mongopatterns.Result, error) {
			return mongopatterns.Result{}, void(c.Get(ctx, "Dumbo", time.Hour))
		}
		return call{one: func(ctx context.Context) error { return void(get(ctx)) }, masks: []string{"computed"}, // where the lease is
			repeat: until(get, func(ctx context.Context) bool { return s.coll("films").FindOne(ctx, doc("viewers", 11)).Err() == nil }),
			settle: func(ctx context.Context) error { return void(c.Repair(ctx, nil)) }, check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Refresh", refreshed(func(ctx context.Context, c *totals) (mongopatterns.Result, error) {
		return c.Refresh(ctx, "Dumbo", "Bambi")
	})},
	{"computed.Computed.RefreshAll", func(s *scene) call {
		c := behind(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return c.RefreshAll(ctx, small)
		}, masks: epochs, check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Mark", func(s *scene) call {
		c := computedOnce(s, false)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return mongopatterns.Result{}, c.Mark(ctx, "Dumbo", "Bambi")
		}, masks: epochs, check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Drain", func(s *scene) call {
		c := behind(s)
		s.ok(c.Mark(s.Context(), "Dumbo", "Bambi"))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Drain(ctx, nil) },
			repeat: until(func(ctx context.Context) (mongopatterns.Result, error) { return c.Drain(ctx, nil) }, func(ctx context.Context) bool {
				n, err := s.coll("films").CountDocuments(ctx, doc("computed.dirty", doc("$exists", true)))
				return err == nil && n == 0
			}), masks: []string{"computed"}, check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Repair", refreshed(func(ctx context.Context, c *totals) (mongopatterns.Result, error) { return c.Repair(ctx, small) })},
	{"computed.Computed.Adopt", func(s *scene) call {
		c := newTotals(s, false)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Adopt(ctx, small) }, counts: "films", masks: epochs, check: []mongopatterns.Checker{c}}
	}},
}

// until repeats a call that leaves alone what another may work on until its lease is over.
func until(do func(ctx context.Context) (mongopatterns.Result, error), over func(ctx context.Context) bool) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			if _, err := do(ctx); err != nil || over(ctx) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}
