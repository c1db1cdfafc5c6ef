package sweep

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/split"
)

type movies = split.Split[int, bson.D, bson.D]

func newMovies(s *scene) *movies {
	m := testkit.Must(split.New[int, bson.D, bson.D](s.coll("movies"), s.coll("movie_details"), &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "votes"}}))
	s.ok(m.EnsureIndexes(s.Context()))
	return m
}

func filmed(s *scene) *movies {
	m := newMovies(s)
	s.ok(m.Insert(s.Context(), 1, doc("title", "Dumbo"), doc("plot", "an elephant")))
	return m
}

func whole(s *scene) *movies {
	m := newMovies(s)
	for id := range 3 {
		s.insert("movies", doc("_id", id, "title", "Dumbo", "plot", "an elephant", "votes", id))
	}
	return m
}

func movie(start func(s *scene) *movies, do func(ctx context.Context, m *movies) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		m := start(s)
		return call{one: func(ctx context.Context) error { return do(ctx, m) }, repeated: repeated, check: []mongopatterns.Checker{m},
			settle: func(ctx context.Context) error { return void(m.Repair(ctx, nil)) }}
	}
}

var (
	newTitle = doc("$set", doc("title", "Bambi"))
	newPlot  = doc("$set", doc("plot", "a deer"))
)

var splitRows = []row{
	{"split.Split.Insert", movie(filmed, func(ctx context.Context, m *movies) error {
		return m.Insert(ctx, 2, doc("title", "Bambi"), doc("plot", "a deer"))
	}, mongopatterns.ErrExists)},
	{"split.Split.Update", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, newPlot) })},
	{"split.Split.Update/hot", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, nil) })},
	{"split.Split.Update/cold", movie(filmed, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, nil, newPlot) })},
	{"split.Split.Update/not adopted", movie(whole, func(ctx context.Context, m *movies) error { return m.Update(ctx, 1, newTitle, newPlot) })},
	{"split.Split.Delete", movie(filmed, func(ctx context.Context, m *movies) error { return m.Delete(ctx, 1) }, mongopatterns.ErrNotFound)},
	{"split.Split.Adopt", func(s *scene) call {
		m := whole(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return m.Adopt(ctx, small) }, counts: "movies", check: []mongopatterns.Checker{m}}
	}},
	{"split.Split.Repair", func(s *scene) call {
		m := filmed(s)
		s.ok(void(s.coll("movies").UpdateByID(s.Context(), 1, doc("$set", doc("votes", 7)))))
		s.insert("movies", doc("_id", 2, "title", "Bambi"))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return m.Repair(ctx, small) }, check: []mongopatterns.Checker{m}}
	}},
}
