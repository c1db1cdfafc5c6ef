package registry

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/split"
)

func init() {
	add(Pattern{Package: "split", Writes: splitRows, Reads: splitReads(), Steps: splitSteps, Role: splitRole})
}

type movies = split.Split[int, bson.D, bson.D]

func newMovies(s *Scene) *movies {
	m := testkit.Must(split.New[int, bson.D, bson.D](s.Coll("movies"), s.Coll("movie_details"), &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "votes"}, Scope: s.Scope}))
	s.OK(m.EnsureIndexes(s.Context()))
	return m
}

func filmed(s *Scene) *movies {
	m := newMovies(s)
	s.OK(m.Insert(s.Context(), 1, testkit.D("title", "Dumbo"), testkit.D("plot", "an elephant")))
	return m
}

func whole(s *Scene) *movies {
	m := newMovies(s)
	s.InsertEach("movies", 3, func(id int) bson.D { return testkit.D("_id", id, "title", "Dumbo", "plot", "an elephant", "votes", id) })
	return m
}

func movie(start func(s *Scene) *movies, do func(ctx context.Context, m *movies) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		m := start(s)
		return Call{One: func(ctx context.Context) error { return do(ctx, m) }, Repeated: repeated, Check: []mongopatterns.Checker{m},
			Settle: func(ctx context.Context) error { return testkit.ErrorOf(m.Repair(ctx, nil)) }}
	}
}

var (
	newTitle = testkit.D("$set", testkit.D("title", "Bambi"))
	newPlot  = testkit.D("$set", testkit.D("plot", "a deer"))
)

var splitRows = []Row{
	{"split.Split.Insert", movie(filmed, func(ctx context.Context, m *movies) error {
		return m.Insert(ctx, 2, testkit.D("title", "Bambi"), testkit.D("plot", "a deer"))
	}, mongopatterns.ErrExists)},
	{"split.Split.Update", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, newPlot) })},
	{"split.Split.Update/hot", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, nil) })},
	{"split.Split.Update/cold", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, nil, newPlot) })},
	{"split.Split.Update/not adopted", movie(whole, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, newPlot) })},
	{"split.Split.Delete", movie(filmed, func(ctx context.Context, m *movies) error { return m.Delete(ctx, 1) }, mongopatterns.ErrNotFound)},
	{"split.Split.Adopt", func(s *Scene) Call {
		m := whole(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return m.Adopt(ctx, small) }, Counts: "movies", Check: []mongopatterns.Checker{m}}
	}},
	{"split.Split.Repair", func(s *Scene) Call {
		m := filmed(s)
		s.OK(testkit.ErrorOf(s.Coll("movies").UpdateByID(s.Context(), 1, testkit.D("$set", testkit.D("votes", 7)))))
		s.Insert("movies", testkit.D("_id", 2, "title", "Bambi"))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return m.Repair(ctx, small) }, Check: []mongopatterns.Checker{m}}
	}},
}

func splitReads() []Row {
	return reads("split.Split", "", filmed, map[string]func(context.Context, *movies) error{
		"Get":     func(ctx context.Context, m *movies) error { _, _, err := m.Get(ctx, 1); return err },
		"GetHot":  func(ctx context.Context, m *movies) error { return testkit.ErrorOf(m.GetHot(ctx, 1)) },
		"GetCold": func(ctx context.Context, m *movies) error { return testkit.ErrorOf(m.GetCold(ctx, 1)) },
		"Check":   func(ctx context.Context, m *movies) error { return checked(m)(ctx) },
	})
}

func splitSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	s := testkit.Must(split.New[int, bson.M, bson.M](hot, cold, &split.Options{ColdFields: []string{"plot"}}))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	step := func(ctx context.Context, n int) error {
		if err := done(s.Insert(ctx, n, bson.M{"title": "a"}, bson.M{"plot": "a"})); err != nil {
			return err
		}
		return s.Update(ctx, n, bson.M{"$set": bson.M{"title": "b"}}, bson.M{"$set": bson.M{"plot": "b"}})
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, s)
		h, c := ids(t, hot, bson.M{"title": "b"}), ids(t, cold, bson.M{"plot": "b"})
		if !slices.Equal(h, upTo(n)) || !slices.Equal(c, upTo(n)) {
			t.Errorf("%v and %v of %d", h, c, n)
		}
	}
}

var splitRole = &Role{Open: splitPlayer, Writes: []string{"title_%", "plot_%"}}

func splitPlayer(s *Side) (*Player, error) {
	cold := s.coll("cold")
	title, plot := s.name("title"), s.name("plot")
	v, err := split.New[any, bson.M, bson.M](s.Main, cold, &split.Options{ColdFields: []string{plot}, IDField: "of"})
	return opened(&Player{
		Parts: []Part{{cold, "of"}},
		Adopt: func(ctx context.Context, ids []any) error {
			err := each(ids, func(_ int, id any) error { return s.set(ctx, id, plot, -1) })
			if err == nil {
				err = testkit.ErrorOf(v.Adopt(ctx, nil))
			}
			return err
		},
		Step: func(ctx context.Context, ids []any, n int) error {
			return v.Update(ctx, ids[n%Shared], testkit.D("$set", testkit.D(title, n)), testkit.D("$set", testkit.D(plot, n)))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				all := roundsOf(i)
				hot, details, err := v.Get(ctx, id)
				if err != nil {
					return err
				}
				last := all[len(all)-1]
				return same([]any{hot[title], details[plot]}, []any{last, last})
			})
		},
	}, v, err)
}
