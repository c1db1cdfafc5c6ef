package split_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Short names for what hundreds of lines call.
var (
	d    = testkit.D
	must = testkit.OK
	same = testkit.Same
)

type movie struct {
	ID        int            `bson:"_id"`
	Title     string         `bson:"title"`
	Year      int            `bson:"year"`
	Runtime   int            `bson:"runtime"`
	Released  bson.DateTime  `bson:"released"`
	Type      string         `bson:"type"`
	Directors []string       `bson:"directors"`
	Countries []string       `bson:"countries"`
	Genres    []string       `bson:"genres"`
	Extra     map[string]any `bson:",inline"`
}

type imdb struct {
	Rating float64 `bson:"rating"`
	Votes  int     `bson:"votes"`
	ID     int     `bson:"id"`
}

type details struct {
	Poster      string        `bson:"poster"`
	Plot        string        `bson:"plot"`
	FullPlot    string        `bson:"fullplot"`
	LastUpdated bson.DateTime `bson:"lastupdated"`
	IMDB        imdb          `bson:"imdb"`
	Tomatoes    bson.D        `bson:"tomatoes"`
}

var (
	train = movie{ID: 1, Title: "The Arrival of a Train", Year: 1896, Runtime: 1, Released: -2335219200000, Type: "movie",
		Directors: []string{"Auguste Lumière", "Louis Lumière"}, Countries: []string{"France"}, Genres: []string{"Documentary", "Short"}}
	trainDetails = details{Poster: "http://example.com/train.jpg", Plot: "A group of people are standing in a straight line…",
		FullPlot: "A group of people are standing in a straight line along the platform…", LastUpdated: 1439610627000,
		IMDB: imdb{7.3, 5043, 12}, Tomatoes: d("viewer", d("rating", 3.7, "numReviews", int32(59)))}
)

func newSplit[ID, H, C any](t testing.TB, db *mongo.Database, opts *split.Options) *split.Split[ID, H, C] {
	t.Helper()
	s, err := split.New[ID, H, C](db.Collection("movies"), db.Collection("movie_details"), opts)
	must(t, err)
	must(t, s.EnsureIndexes(t.Context()))
	return s
}

func without(doc bson.D, key string) bson.D {
	var out bson.D
	for _, e := range doc {
		if e.Key != key {
			out = append(out, e)
		}
	}
	return out
}

func sound[ID, H, C any](t testing.TB, db *mongo.Database, s *split.Split[ID, H, C]) {
	t.Helper()
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		t.Errorf("problem: %v", p)
	}
	testkit.Untouched(t, db.Collection("movies"))
}

// join undoes Adopt as the manual says.
func join(t testing.TB, db *mongo.Database, pipeline mongo.Pipeline) {
	t.Helper()
	merge := d("$merge", d("into", "movies", "whenNotMatched", "discard"))
	cursor, err := db.Collection("movies").Aggregate(t.Context(), append(pipeline, merge))
	must(t, err)
	must(t, cursor.Close(t.Context()))
	_, err = db.Collection("movie_details").DeleteMany(t.Context(), d())
	must(t, err)
}

func TestScenarioMovies(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, movie, details](t, db, &split.Options{IDField: "movie_id"})
	must(t, s.Insert(t.Context(), 1, train, trainDetails))
	hot := []bson.D{d("_id", int32(1), "title", "The Arrival of a Train", "year", int32(1896), "runtime", int32(1),
		"released", bson.DateTime(-2335219200000), "type", "movie", "directors", bson.A{"Auguste Lumière", "Louis Lumière"},
		"countries", bson.A{"France"}, "genres", bson.A{"Documentary", "Short"})}
	cold := d("movie_id", int32(1), "poster", trainDetails.Poster, "plot", trainDetails.Plot, "fullplot", trainDetails.FullPlot,
		"lastupdated", bson.DateTime(1439610627000), "imdb", d("rating", 7.3, "votes", int32(5043), "id", int32(12)),
		"tomatoes", d("viewer", d("rating", 3.7, "numReviews", int32(59))))
	both := func(what string) {
		t.Helper()
		same(t, what, hot, testkit.Stored[bson.D](t, db.Collection("movies")))
		same(t, what, cold, without(testkit.Stored[bson.D](t, db.Collection("movie_details"))[0], "_id"))
		sound(t, db, s)
	}
	both("inserted")
	got, err := s.GetHot(t.Context(), 1)
	must(t, err)
	same(t, "hot", train, got)
	got, gotDetails, err := s.Get(t.Context(), 1)
	must(t, err)
	same(t, "hot", train, got)
	same(t, "cold", trainDetails, gotDetails)
	gotDetails, err = s.GetCold(t.Context(), 1)
	must(t, err)
	same(t, "cold", trainDetails, gotDetails)

	// Joined back to what it was before, and split again.
	whole := append(append(bson.D{}, hot[0]...), cold[1:]...)
	cursor, err := db.Collection("movies").Aggregate(t.Context(), s.JoinPipeline())
	must(t, err)
	var piped []bson.D
	must(t, cursor.All(t.Context(), &piped))
	testkit.SortFields(piped[0])
	want := append(bson.D{}, whole...)
	testkit.SortFields(want)
	same(t, "joined by a pipeline", []bson.D{want}, piped)
	join(t, db, s.JoinPipeline())
	joined := testkit.Stored[bson.D](t, db.Collection("movies"))
	testkit.SortFields(joined[0])
	same(t, "joined", []bson.D{want}, joined)
	same(t, "cold ones left", []bson.D{}, testkit.Stored[bson.D](t, db.Collection("movie_details")))

	_, err = db.Collection("movies").ReplaceOne(t.Context(), d(), whole)
	must(t, err)
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 1, Done: 1}, result)
	both("adopted")
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt again", mongopatterns.Result{Examined: 1}, result)
}

func TestWrites(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "movie_id"} {
		for _, joined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", field, joined), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: field, ColdFields: []string{"plot"}})
				in := func(fn func(ctx context.Context) error) error {
					if !joined {
						return fn(t.Context())
					}
					return mongopatterns.Transact(t.Context(), db.Client(), fn)
				}
				want := func(id int, hot, cold string) {
					t.Helper()
					h, c, err := s.Get(t.Context(), id)
					must(t, err)
					same(t, "hot", hot, fmt.Sprint(without(h, "_id")))
					same(t, "cold", cold, fmt.Sprint(without(without(c, "movie_id"), "_id")))
				}
				must(t, in(func(ctx context.Context) error { return s.Insert(ctx, 1, d("_id", 7, "a", 1), d("plot", "x", "c", 1)) }))
				want(1, fmt.Sprint(d("a", 1)), fmt.Sprint(d("plot", "x", "c", 1)))
				must(t, in(func(ctx context.Context) error {
					return s.Update(ctx, 1, mongo.Pipeline{d("$replaceWith", d("b", 1))},
						mongo.Pipeline{d("$replaceWith", d("movie_id", "$movie_id", "plot", "y"))})
				}))
				want(1, fmt.Sprint(d("b", 1)), fmt.Sprint(d("plot", "y")))
				must(t, in(func(ctx context.Context) error {
					return s.Update(ctx, 1, d("$inc", d("b", 1)), d("$set", d("plot", "z")))
				}))
				must(t, in(func(ctx context.Context) error { return s.Update(ctx, 1, d("$inc", d("b", 1)), nil) }))
				must(t, in(func(ctx context.Context) error { return s.Update(ctx, 1, nil, d("$set", d("e", 1))) }))
				want(1, fmt.Sprint(d("b", 3)), fmt.Sprint(d("plot", "z", "e", 1)))
				before := [][]bson.D{testkit.Stored[bson.D](t, db.Collection("movies")), testkit.Stored[bson.D](t, db.Collection("movie_details"))}
				for name, test := range map[string]struct {
					fn   func(ctx context.Context) error
					want error
				}{
					"update none":      {func(ctx context.Context) error { return s.Update(ctx, 2, d("$set", d("a", 1)), d("$set", d("b", 1))) }, mongopatterns.ErrNotFound},
					"update no hot":    {func(ctx context.Context) error { return s.Update(ctx, 2, d("$set", d("a", 1)), nil) }, mongopatterns.ErrNotFound},
					"update no cold":   {func(ctx context.Context) error { return s.Update(ctx, 2, nil, d("$set", d("a", 1))) }, mongopatterns.ErrNotFound},
					"delete none":      {func(ctx context.Context) error { return s.Delete(ctx, 2) }, mongopatterns.ErrNotFound},
					"get none":         {func(ctx context.Context) error { _, _, err := s.Get(ctx, 2); return err }, mongo.ErrNoDocuments},
					"get no hot":       {func(ctx context.Context) error { _, err := s.GetHot(ctx, 2); return err }, mongopatterns.ErrNotFound},
					"get no cold":      {func(ctx context.Context) error { _, err := s.GetCold(ctx, 2); return err }, mongopatterns.ErrNotFound},
					"insert both":      {func(ctx context.Context) error { return s.Insert(ctx, 2, d("a", 1), d("a", 1)) }, mongopatterns.ErrInvalid},
					"insert misplaced": {func(ctx context.Context) error { return s.Insert(ctx, 2, d("plot", 1), d("a", 1)) }, mongopatterns.ErrInvalid},
				} {
					testkit.Fails(t, "split", in(test.fn), test.want)
					same(t, name, before, [][]bson.D{testkit.Stored[bson.D](t, db.Collection("movies")), testkit.Stored[bson.D](t, db.Collection("movie_details"))})
				}
				if err := in(func(ctx context.Context) error { return s.Insert(ctx, 1, d(), d()) }); !errors.Is(err, mongopatterns.ErrExists) || !mongo.IsDuplicateKeyError(err) {
					t.Error(err)
				}
				if err := s.Update(t.Context(), 1, nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
					t.Error(err)
				}
				sound(t, db, s)
				must(t, in(func(ctx context.Context) error { return s.Delete(ctx, 1) }))
				same(t, "deleted", [][]bson.D{{}, {}}, [][]bson.D{testkit.Stored[bson.D](t, db.Collection("movies")), testkit.Stored[bson.D](t, db.Collection("movie_details"))})
			})
		}
	}
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "poster"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	for i := range 5 {
		must(t, s.Insert(t.Context(), i, d("title", fmt.Sprint(i)), d("plot", "p")))
	}
	sound(t, db, s)
	testkit.Insert(t, hot, d("_id", 10, "title", "10"), d("_id", 11, "title", "11", "plot", "new"))
	testkit.Insert(t, cold, d("_id", 99, "movie_id", 20, "plot", "?"))
	testkit.Update(t, hot, d("_id", 1), d("$set", d("poster", "old program", "plot", "newer")))
	testkit.Update(t, cold, d("movie_id", 2), d("$set", d("title", "the cold side's")))
	id := func(n int) string { return fmt.Sprintf(`movies {"$numberInt":"%d"}`, n) }
	orphan := `movie_details {"$numberInt":"99"} orphan movie_id`
	same(t, "problems", []string{
		orphan, id(1) + " cold field in the hot document plot", id(1) + " cold field in the hot document poster",
		id(10) + " no cold document ", id(11) + " cold field in the hot document plot", id(11) + " no cold document ",
	}, testkit.Found(t, s.Check(t.Context(), nil)))
	for stop := range 7 { // the loop may end early
		seen := 0
		for range s.Check(t.Context(), nil) {
			if seen++; seen > stop {
				break
			}
		}
	}
	var progress []int64
	result, err := s.Repair(t.Context(), &mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
	must(t, err)
	same(t, "repair", mongopatterns.Result{Examined: 7, Done: 3}, result)
	if len(progress) < 2 || progress[len(progress)-1] != 7 {
		t.Error(progress)
	}
	same(t, "left", []string{orphan}, testkit.Found(t, s.Check(t.Context(), nil)))
	_, c, err := s.Get(t.Context(), 1)
	must(t, err)
	same(t, "moved", d("movie_id", int32(1), "plot", "newer", "poster", "old program"), without(c, "_id"))
	testkit.Untouched(t, hot)
	cursor, err := hot.Aggregate(t.Context(), append(mongo.Pipeline{{{Key: "$match", Value: d("_id", 2)}}}, s.JoinPipeline()...))
	must(t, err)
	var whole []bson.D
	must(t, cursor.All(t.Context(), &whole))
	same(t, "the hot side counts", []bson.D{d("_id", int32(2), "title", "2", "plot", "p")}, whole)
	join(t, db, s.JoinPipeline())
	same(t, "the hot side counts", d("_id", int32(2), "title", "2", "plot", "p"), testkit.Stored[bson.D](t, hot)[2])
	joined, err := s.Adopt(t.Context(), &mongopatterns.Work{Filter: d("_id", d("$lt", 3)), BatchSize: 2})
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 3, Done: 3}, joined)
}

// A collection is split and joined beside writers.
func TestBesideWriters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{ColdFields: []string{"plot", "votes"}})
	const n = 12
	for i := range n {
		testkit.Insert(t, db.Collection("movies"), d("_id", i, "title", fmt.Sprint(i), "plot", "p", "seen", 0, "votes", 0))
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		defer close(done)
		session, err := db.Client().StartSession()
		if err != nil {
			t.Error(err)
			return
		}
		defer session.EndSession(context.Background())
		for i := range 36 {
			// An old program, which knows the hot collection only, and a new one; in
			// transactions, because beside a plain write the test engines block those of
			// others that write the same collection twice.
			_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
				_, err := db.Collection("movies").UpdateOne(ctx, d("_id", i%n), d("$inc", d("seen", 1)))
				return nil, err
			})
			if err != nil {
				t.Error(err)
			}
			_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
				return nil, s.Update(ctx, i%n, nil, d("$inc", d("votes", 1)))
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() { // documents that come and go are not problems
		for i := 100; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := errors.Join(s.Insert(t.Context(), i, d("title", "x"), d("plot", "y")), s.Delete(t.Context(), i)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 5}); err != nil {
				t.Error(err)
			}
			for p, err := range s.Check(t.Context(), nil) {
				if err != nil || p.Kind != split.Misplaced {
					t.Error(p, err)
				}
			}
		}
	})
	group.Wait()
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	sound(t, db, s)
	sum := func(coll, field string) (sum int32) {
		for _, doc := range testkit.Stored[bson.D](t, db.Collection(coll)) {
			for _, e := range doc {
				if e.Key == field {
					sum += e.Value.(int32)
				}
			}
		}
		return sum
	}
	same(t, "seen and votes", []int32{36, 36}, []int32{sum("movies", "seen"), sum("movie_details", "votes")})
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	hot, cold := db.Collection("hot"), db.Collection("cold")
	type Nested struct {
		Poster string
		_      int
	}
	type inline struct {
		Nested `bson:",inline"`
		Plot   string `bson:"plot,omitempty"`
		Other  string `bson:"-"`
		ID     int    `bson:"_id"`
	}
	check := func(want string, err error) {
		t.Helper()
		testkit.Fails(t, "split", err, mongopatterns.ErrInvalid)
		if !strings.Contains(err.Error(), "invalid: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	type withPlot struct {
		Plot string `bson:"plot"`
	}
	_, err := split.New[int, withPlot, inline](hot, cold, nil)
	check(`fields of C: "plot" is also a field of H`, err)
	_, err = split.New[int, Nested, inline](hot, cold, nil)
	check(`fields of C: "poster" is also a field of H`, err)
	_, err = split.New[int, withPlot, bson.D](hot, cold, &split.Options{ColdFields: []string{"a", "plot"}})
	check(`Options.ColdFields: "plot" is also a field of H`, err)
	_, err = split.New[int, bson.D, bson.D](hot, cold, &split.Options{ColdFields: []string{"a", "a"}})
	check(`Options.ColdFields: "a" is given twice`, err)
	_, err = split.New[int, bson.D, bson.D](hot, cold, &split.Options{ColdFields: []string{"_id"}})
	check(`Options.ColdFields: "_id" cannot be a cold field`, err)
	_, err = split.New[int, bson.D, bson.D](hot, cold, &split.Options{ColdFields: []string{"a.b"}})
	check(`Options.ColdFields: name: invalid field name: "a.b" contains "."`, err)
	_, err = split.New[int, bson.D, bson.D](hot, cold, &split.Options{IDField: "$id"})
	check(`Options.IDField: invalid field name: "$id" starts with "$"`, err)
	_, err = split.New[int, bson.D, bson.D](hot, hot, nil)
	check(`cold: the collection "hot" is also hot`, err)
	_, err = split.New[int, bson.D, bson.D](nil, hot, nil)
	check("hot: the collection is nil", err)

	s, err := split.New[int, bson.D, inline](hot, cold, nil)
	must(t, err)
	testkit.Insert(t, hot, d("_id", 1, "poster", "x", "plot", "y", "title", "z"))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "by the fields of C", mongopatterns.Result{Examined: 1, Done: 1}, result)
	same(t, "cold", []bson.D{d("_id", int32(1), "poster", "x", "plot", "y")}, testkit.Stored[bson.D](t, cold))
	same(t, "shard key", map[string]bson.D{"hot": d("_id", 1), "cold": d("_id", 1)}, s.ShardKey())
	if s.Indexes() != nil || s.EnsureIndexes(t.Context()) != nil {
		t.Error("an index on _id")
	}
	same(t, "filters", fmt.Sprint(s.HotFilter(1)), fmt.Sprint(s.ColdFilter(1)))

	plain, err := split.New[any, bson.D, bson.D](hot, cold, nil)
	must(t, err)
	_, err = plain.Adopt(t.Context(), nil)
	check("Options.ColdFields: it must be set, because C is not a struct with fields", err)
	if err := plain.Delete(t.Context(), nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if err := plain.Insert(t.Context(), d("a", 1), d("x", 1), d("y", 1)); err != nil {
		t.Error(err)
	}
	if h, _, err := plain.Get(t.Context(), d("a", 1)); err != nil || len(h) != 2 {
		t.Error(h, err)
	}
	if text := fmt.Sprint(s.HotFilter(1), s.JoinPipeline()); !strings.Contains(text, "mergeObjects") {
		t.Error(text)
	}
}

// A cold document that is new must not outlive a deletion at the same time.
func TestInsertOfColdBesideDelete(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, nil)
	begin := func() (context.Context, *mongo.Session) {
		session, err := db.Client().StartSession()
		must(t, err)
		must(t, session.StartTransaction())
		return mongo.NewSessionContext(t.Context(), session), session
	}
	testkit.Insert(t, db.Collection("movies"), d("_id", 1, "a", 1))
	for name, write := range map[string]func(ctx context.Context) error{
		"whole": func(ctx context.Context) error {
			return s.Update(ctx, 1, d("$set", d("_id", 1, "a", 1)), d("$set", d("_id", 1, "b", 1)))
		},
		"update": func(ctx context.Context) error { return s.Update(ctx, 1, d("$set", d("a", 1)), d("$set", d("b", 1))) },
	} {
		ctxA, sessionA := begin()
		ctxB, sessionB := begin()
		must(t, db.Collection("movies").FindOne(ctxB, d()).Err()) // its snapshot begins
		must(t, write(ctxA))
		if err := s.Delete(ctxB, 1); !conflict(err) {
			t.Errorf("%s: %v", name, err)
		}
		_ = sessionB.AbortTransaction(t.Context())
		must(t, sessionA.AbortTransaction(t.Context()))
		sessionA.EndSession(t.Context())
		sessionB.EndSession(t.Context())
	}
}

// A write of this package before Adopt has reached a document is not lost by
// Adopt.
func TestWritesBeforeAdopt(t *testing.T) {
	t.Parallel()
	inc, edit := d("$inc", d("votes", 1), "$set", d("plot", "new")), d("$set", d("title", "T"))
	for name, test := range map[string]struct {
		hot, cold any
		had       bson.D // the cold document before
		in        bool
		want      bson.D
	}{
		"both":                      {edit, inc, nil, false, d("plot", "new", "votes", int32(8))},
		"both, by a pipeline":       {edit, mongo.Pipeline{d("$set", d("votes", d("$add", bson.A{"$votes", 1})))}, nil, false, d("plot", "old", "votes", int32(8))},
		"both, joined":              {edit, inc, nil, true, d("plot", "new", "votes", int32(8))},
		"cold alone":                {nil, inc, nil, false, d("plot", "new", "votes", int32(8))},
		"cold alone, joined":        {nil, inc, nil, true, d("plot", "new", "votes", int32(8))},
		"both, a cold one there":    {edit, inc, d("plot", "older", "more", 1), false, d("plot", "new", "votes", int32(8), "more", int32(1))},
		"cold, a further ColdField": {nil, inc, d("plot", "older", "more", 1), false, d("plot", "new", "votes", int32(8), "more", int32(1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSplit[int, bson.D, bson.M](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "votes"}})
			testkit.Insert(t, db.Collection("movies"), d("_id", 1, "title", "t", "plot", "old", "votes", 7))
			if test.had != nil {
				testkit.Insert(t, db.Collection("movie_details"), append(d("movie_id", 1), test.had...))
			}
			hot, before, err := s.Get(t.Context(), 1)
			must(t, err)
			same(t, "hot before", d("_id", int32(1), "title", "t"), hot)
			same(t, "read before", "1 old 7", fmt.Sprint(before["movie_id"], " ", before["plot"], " ", before["votes"]))
			if test.in {
				session, err := db.Client().StartSession()
				must(t, err)
				defer session.EndSession(t.Context())
				must(t, session.StartTransaction())
				ctx := mongo.NewSessionContext(t.Context(), session)
				must(t, s.Update(ctx, 1, test.hot, test.cold))
				must(t, session.CommitTransaction(ctx))
			} else {
				must(t, s.Update(t.Context(), 1, test.hot, test.cold))
			}
			sound(t, db, s)
			result, err := s.Adopt(t.Context(), nil)
			must(t, err)
			same(t, "adopt", mongopatterns.Result{Examined: 1}, result)
			_, cold, err := s.Get(t.Context(), 1)
			must(t, err)
			for _, e := range test.want {
				same(t, e.Key, e.Value, cold[e.Key])
			}
		})
	}
}

// Writers of both sides and of one, beside Adopt.
func TestAdoptBesideUpdates(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.M, bson.M](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"votes"}})
	const n = 24
	for i := range n {
		testkit.Insert(t, db.Collection("movies"), d("_id", i, "seen", 0, "votes", 100))
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := n - 1; i >= 0; i-- {
			hot := any(d("$inc", d("seen", 1)))
			if i%2 == 0 {
				hot = nil
			}
			if err := s.Update(t.Context(), i, hot, d("$inc", d("votes", 1))); err != nil {
				t.Error(err)
			}
		}
	})
	_, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 3})
	group.Wait()
	must(t, err)
	sound(t, db, s)
	for i := range n {
		hot, cold, err := s.Get(t.Context(), i)
		must(t, err)
		same(t, "seen, votes", fmt.Sprint(i%2, 101), fmt.Sprint(hot["seen"], cold["votes"]))
	}
}

// A hot document without a cold one, in Get, JoinPipeline and Update.
func TestWithoutColdDocument(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	testkit.Insert(t, db.Collection("movies"), d("_id", 1, "a", 1), d("_id", 2, "a", 2, "plot", "p"))
	_, _, err := s.Get(t.Context(), 1)
	testkit.Fails(t, "split", err, mongopatterns.ErrNotFound)
	cursor, err := db.Collection("movies").Aggregate(t.Context(), append(mongo.Pipeline{d("$sort", d("_id", 1))}, s.JoinPipeline()...))
	must(t, err)
	var whole []bson.D
	must(t, cursor.All(t.Context(), &whole))
	same(t, "joined", testkit.Stored[bson.D](t, db.Collection("movies")), whole)
	hot, _, err := s.Get(t.Context(), 2)
	must(t, err)
	must(t, s.Update(t.Context(), 2, d("$set", append(hot, bson.E{Key: "b", Value: 1})), d("$set", d("plot", "r")))) // a document that was read can be written
	must(t, s.Update(t.Context(), 1, nil, d("$set", d("plot", "q"))))
	_, cold, err := s.Get(t.Context(), 1)
	must(t, err)
	same(t, "cold", d("movie_id", int32(1), "plot", "q"), without(cold, "_id"))
	testkit.Untouched(t, db.Collection("movies"))
}

// conflict reports that a transaction cannot go on beside another one.
func conflict(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorLabel("TransientTransactionError")
}

// A value that the server would replace by its time is refused by Insert, and moved unchanged by Adopt.
func TestEmptyTimestamps(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[any, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "seen"}})
	empty := bson.Timestamp{}
	testkit.Fails(t, "split", s.Insert(t.Context(), empty, d("year", 1), d("plot", "x")), mongopatterns.ErrInvalid)
	testkit.Fails(t, "split", s.Insert(t.Context(), 1, d("year", empty), d("plot", "x")), mongopatterns.ErrInvalid)
	testkit.Fails(t, "split", s.Insert(t.Context(), 1, d("year", 1), d("seen", empty)), mongopatterns.ErrInvalid)
	testkit.Insert(t, db.Collection("movies"), d("_id", 2, "plot", "x"), d("_id", 3, "plot", "y"), d("_id", empty, "plot", "z"))
	for _, id := range []any{2, empty} {
		testkit.Update(t, db.Collection("movies"), d("_id", id), d("$set", d("seen", empty)))
	}
	if result, err := s.Adopt(t.Context(), nil); err != nil || result.Done != 3 || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	cold := []bson.D{}
	for _, doc := range testkit.Stored[bson.D](t, db.Collection("movie_details")) {
		cold = append(cold, without(doc, "_id"))
	}
	slices.SortFunc(cold, func(a, b bson.D) int {
		return strings.Compare(testkit.Get(a, "plot").(string), testkit.Get(b, "plot").(string))
	})
	for _, doc := range cold {
		testkit.SortFields(doc)
	}
	same(t, "cold", []bson.D{d("movie_id", int32(2), "plot", "x", "seen", empty), d("movie_id", int32(3), "plot", "y"),
		d("movie_id", empty, "plot", "z", "seen", empty)}, cold)
	if problems := testkit.Found(t, s.Check(t.Context(), nil)); len(problems) > 0 {
		t.Error(problems)
	}
}

// The hot documents of a Split are the parents of a Subset as well.
func TestSplitOfParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	hot, cold, items := db.Collection("movies"), db.Collection("movie_details"), db.Collection("comments")
	comments, err := subset.New[int, bson.D](hot, items, &subset.Options{ArrayField: "comments", N: 3})
	must(t, err)
	must(t, comments.EnsureIndexes(t.Context()))
	for i := range 4 { // neither adopted
		testkit.Insert(t, hot, d("_id", i, "seen", 0, "plot", 0, "comments", bson.A{d("_id", i*100), d("_id", i*100+1)}))
	}
	_, err = comments.Adopt(t.Context(), nil)
	must(t, err)
	whole := func() {
		t.Helper()
		for p, err := range mongopatterns.CheckAll(t.Context(), s, comments) {
			t.Error(p, err)
		}
		testkit.Untouched(t, hot)
	}
	for i := range 4 {
		_, err := comments.Insert(t.Context(), i, d("_id", i*100+10))
		must(t, err)
		must(t, comments.Delete(t.Context(), i, i*100))
		must(t, s.Update(t.Context(), i, d("$inc", d("seen", 1)), d("$inc", d("plot", 1))))
		h, c, err := s.Get(t.Context(), i)
		must(t, err)
		same(t, "writes", fmt.Sprint(1, 1, 2), fmt.Sprint(testkit.Get(h, "seen"), testkit.Get(c, "plot"), testkit.Get(h, "comments_count")))
	}
	whole()
	join(t, db, s.JoinPipeline())
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	whole()
	// Replaced without the kept items, which Repair brings back.
	must(t, s.Update(t.Context(), 1, mongo.Pipeline{d("$replaceWith", d("seen", 9))}, d("$set", d("plot", 9))))
	_, err = comments.Repair(t.Context(), nil)
	must(t, err)
	whole()
	must(t, mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error { // deleted as the manual says
		if _, err := comments.DeleteParent(ctx, 1); err != nil {
			return err
		}
		_, err := cold.DeleteOne(ctx, s.ColdFilter(1))
		return err
	}))
	whole()
	same(t, "left", []int{3, 3, 6}, []int{len(testkit.Stored[bson.D](t, hot)), len(testkit.Stored[bson.D](t, cold)), len(testkit.Stored[bson.D](t, items))})
}

// An update of the cold document whose operators remove or change IDField is refused before anything is written.
func TestUpdateKeepsIDField(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	testkit.OK(t, s.Insert(t.Context(), 1, d("year", 1896), d("plot", "x")))
	type whole struct {
		MovieID int64  `bson:"movie_id"`
		Plot    string `bson:"plot"`
	}
	for i, update := range []any{
		d("$set", d("plot", "y", "movie_id", 2)), bson.M{"$set": bson.M{"movie_id": "1"}}, d("$set", d("movie_id.x", 1)),
		d("$set", whole{Plot: "y"}), d("$unset", d("movie_id", "")), d("$inc", d("movie_id", 0)),
		d("$rename", d("movie_id", "film_id")), d("$rename", d("plot", "movie_id")), d("$setOnInsert", d("movie_id", 2)),
	} {
		testkit.Fails(t, "split", s.Update(t.Context(), 1, d("$set", d("year", i)), update), mongopatterns.ErrInvalid)
		testkit.Fails(t, "split", s.Update(t.Context(), 1, nil, update), mongopatterns.ErrInvalid)
	}
	hot, cold, err := s.Get(t.Context(), 1)
	if err != nil || hot[1].Value != int32(1896) || len(cold) != 3 {
		t.Error(hot, cold, err)
	}
	for _, update := range []any{d("$set", d("movie_id", 1, "plot", "y")), d("$set", whole{1, "z"}), d("$setOnInsert", d("movie_id", 1.0))} {
		testkit.OK(t, s.Update(t.Context(), 1, nil, update))
	}
	testkit.Healthy(t, s)
}
