package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "computed", Writes: computedRows, Reads: computedReads(), Writings: computedWritings, Steps: computedSteps, Role: computedRole})
}

type totals = computed.Computed[int, string, bson.D]

func newTotals(s *Scene, additive bool) *totals {
	c := testkit.Must(computed.New[int, string, bson.D](s.Coll("screenings"), s.Coll("films"), computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "viewers", testkit.D("$sum", "$viewers")))},
		Empty:    testkit.D("viewers", 0),
	}, &computed.Options{Additive: additive, Lease: time.Second, Scope: s.Scope}))
	s.OK(c.EnsureIndexes(s.Context()))
	s.Insert("films", testkit.D("_id", "Dumbo"), testkit.D("_id", "Bambi"), testkit.D("_id", "Pinocchio"))
	s.Insert("screenings", testkit.D("_id", 1, "film", "Dumbo", "viewers", 10), testkit.D("_id", 2, "film", "Bambi", "viewers", 20))
	return c
}

// computedOnce are films that have their totals.
func computedOnce(s *Scene, additive bool) *totals {
	c := newTotals(s, additive)
	s.OK(testkit.ErrorOf(c.Adopt(s.Context(), nil)))
	return c
}

// behind are films; two are not computed yet.
func behind(s *Scene) *totals {
	c := computedOnce(s, false)
	s.Insert("screenings", testkit.D("_id", 3, "film", "Dumbo", "viewers", 1), testkit.D("_id", 4, "film", "Bambi", "viewers", 2))
	return c
}

func refreshed(do func(ctx context.Context, c *totals) (mongopatterns.Result, error)) func(s *Scene) Call {
	return func(s *Scene) Call {
		c := behind(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, c) }, Masks: epochs, Check: []mongopatterns.Checker{c}}
	}
}

func changed(additive bool) func(s *Scene) Call {
	return func(s *Scene) Call {
		c := computedOnce(s, additive)
		return Call{One: func(ctx context.Context) error {
			return c.Change(ctx, []int{9}, func(ctx context.Context) error {
				return testkit.ErrorOf(s.Coll("screenings").InsertOne(ctx, s.scoped(testkit.D("_id", 9, "film", "Dumbo", "viewers", 5))))
			})
		}, Repeated: []error{ErrDuplicate}, Masks: epochs, Check: []mongopatterns.Checker{c}}
	}
}

func inserted(additive bool) func(s *Scene) Call {
	return func(s *Scene) Call {
		c := computedOnce(s, additive)
		return Call{One: func(ctx context.Context) error {
			return c.Insert(ctx, testkit.D("_id", 9, "film", "Dumbo", "viewers", 5), testkit.D("_id", 10, "film", "Bambi", "viewers", 6))
		}, Repeated: []error{mongopatterns.ErrExists}, Masks: epochs, Check: []mongopatterns.Checker{c}}
	}
}

// epochs count what was begun.
var epochs = []string{"epoch"}

var computedRows = []Row{
	{"computed.Computed.Insert", inserted(false)},
	{"computed.Computed.Insert/additive", inserted(true)},
	{"computed.Computed.Change", changed(false)},
	{"computed.Computed.Change/additive", changed(true)},
	{"computed.Computed.Get", func(s *Scene) Call {
		c := behind(s)
		s.OK(c.Mark(s.Context(), "Dumbo"))
		get := func(ctx context.Context) (mongopatterns.Result, error) {
			return mongopatterns.Result{}, testkit.ErrorOf(c.Get(ctx, "Dumbo", time.Hour))
		}
		return Call{One: func(ctx context.Context) error { return testkit.ErrorOf(get(ctx)) }, Masks: []string{"computed"}, // where the lease is
			Repeat: until(get, func(ctx context.Context) bool {
				return s.Coll("films").FindOne(ctx, testkit.D("viewers", 11)).Err() == nil
			}),
			Settle: func(ctx context.Context) error { return testkit.ErrorOf(c.Repair(ctx, nil)) }, Check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Refresh", refreshed(func(ctx context.Context, c *totals) (mongopatterns.Result, error) {
		return c.Refresh(ctx, "Dumbo", "Bambi")
	})},
	{"computed.Computed.RefreshAll", func(s *Scene) Call {
		c := behind(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return c.RefreshAll(ctx, small)
		}, Masks: epochs, Check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Mark", func(s *Scene) Call {
		c := computedOnce(s, false)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return mongopatterns.Result{}, c.Mark(ctx, "Dumbo", "Bambi")
		}, Masks: epochs, Check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Drain", func(s *Scene) Call {
		c := behind(s)
		s.OK(c.Mark(s.Context(), "Dumbo", "Bambi"))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Drain(ctx, nil) },
			Repeat: until(func(ctx context.Context) (mongopatterns.Result, error) { return c.Drain(ctx, nil) }, func(ctx context.Context) bool {
				n, err := s.Coll("films").CountDocuments(ctx, testkit.D("computed.dirty", testkit.D("$exists", true)))
				return err == nil && n == 0
			}), Masks: []string{"computed"}, Check: []mongopatterns.Checker{c}}
	}},
	{"computed.Computed.Repair", refreshed(func(ctx context.Context, c *totals) (mongopatterns.Result, error) { return c.Repair(ctx, small) })},
	{"computed.Computed.Adopt", func(s *Scene) Call {
		c := newTotals(s, false)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Adopt(ctx, small) }, Counts: "films", Masks: epochs, Check: []mongopatterns.Checker{c}}
	}},
}

func computedReads() []Row {
	return reads("computed.Computed", "", func(s *Scene) *totals { return computedOnce(s, false) }, map[string]func(context.Context, *totals) error{
		"Get":      func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.Get(ctx, "Dumbo", time.Hour)) },
		"Failures": func(ctx context.Context, c *totals) error { return testkit.Drain(c.Failures(ctx)) },
		"Check":    func(ctx context.Context, c *totals) error { return checked(c)(ctx) },
	})
}

func computedWritings(s *Scene) (out []Writing) {
	ctx := s.Context()
	additives := []bool{false}
	if scale.Whole() {
		additives = append(additives, true)
	}
	for _, additive := range additives {
		kind := map[bool]string{false: "", true: ", additive"}[additive]
		screenings, films := s.Coll("screenings"+kind), s.Coll("films"+kind)
		c := testkit.Must(computed.New[int, int, bson.D](screenings, films, computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "viewers", testkit.D("$sum", "$viewers")))},
			Empty:    testkit.D("viewers", 0),
		}, &computed.Options{Additive: additive}))
		for e := range Entities {
			s.OK(testkit.ErrorOf(films.InsertOne(ctx, testkit.D("_id", e))))
		}
		s.OK(testkit.ErrorOf(c.Adopt(ctx, nil)))
		out = append(out, Writing{"computed.Change" + kind, sharders(c), func(ctx context.Context, e, n int) error {
			return c.Change(ctx, []int{n}, func(ctx context.Context) error {
				return testkit.ErrorOf(screenings.InsertOne(ctx, testkit.D("_id", n, "film", e, "viewers", 1)))
			})
		}, func(t *testing.T, e int) []int {
			cursor, err := screenings.Find(ctx, testkit.D("film", e))
			var docs []struct {
				ID int `bson:"_id"`
			}
			if err == nil {
				err = cursor.All(ctx, &docs)
			}
			var film struct{ Viewers int }
			if err == nil {
				err = films.FindOne(ctx, testkit.D("_id", e)).Decode(&film)
			}
			var ids []int
			for _, d := range docs {
				ids = append(ids, d.ID)
			}
			if err != nil || film.Viewers != len(ids) {
				t.Errorf("%d viewers of %d, %v", film.Viewers, len(ids), err)
			}
			return ids
		}})
	}
	return out
}

func computedSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	screenings, films := db.Collection("comp_screenings"), db.Collection("comp_films")
	c := testkit.Must(computed.New[int, string, bson.M](screenings, films, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
		Empty:    bson.D{{Key: "viewers", Value: 0}},
	}, &computed.Options{Additive: true}))
	testkit.OK(t, c.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(films.InsertOne(t.Context(), bson.M{"_id": "Dumbo"}))))
	step := func(ctx context.Context, n int) error {
		return done(c.Change(ctx, []int{n}, func(ctx context.Context) error {
			return testkit.ErrorOf(screenings.InsertOne(ctx, bson.M{"_id": n, "film": "Dumbo", "viewers": n}))
		}))
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, c)
		if film := testkit.Must(c.Get(t.Context(), "Dumbo", time.Hour)); fmt.Sprint(film["viewers"]) != fmt.Sprint(n*(n-1)/2) {
			t.Errorf("%v of %d", film, n)
		}
	}
}

var computedRole = &Role{Open: computedPlayer, Writes: []string{"total_%", "computed_%"}}

func computedPlayer(s *Side) (*Player, error) {
	sources := s.coll("sources")
	field := s.name("total")
	c, err := computed.New[int, any, bson.D](sources, s.Main, computed.Rule{KeyField: "of",
		Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", field, testkit.D("$sum", "$n")))}, Empty: testkit.D(field, 0)},
		&computed.Options{StateField: s.name("computed")})
	return opened(&Player{
		Adopt: func(ctx context.Context, _ []any) error { return testkit.ErrorOf(c.Adopt(ctx, nil)) },
		Step: func(ctx context.Context, ids []any, n int) error {
			return c.Change(ctx, []int{n}, func(ctx context.Context) error {
				return testkit.ErrorOf(sources.InsertOne(ctx, testkit.D("_id", n, "of", ids[n%Shared], "n", n)))
			})
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error { return s.has(ctx, id, field, sum(roundsOf(i))) })
		},
	}, c, err)
}
