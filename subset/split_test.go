package subset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
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

func newSplit[ID, H, C any](t testing.TB, db *mongo.Database, opts *subset.SplitOptions) *subset.Split[ID, H, C] {
	t.Helper()
	s, err := subset.NewSplit[ID, H, C](db.Collection("movies"), db.Collection("movie_details"), opts)
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

func sound[ID, H, C any](t testing.TB, db *mongo.Database, s *subset.Split[ID, H, C]) {
	t.Helper()
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		t.Errorf("problem: %v", p)
	}
	untouched(t, db.Collection("movies"))
}

func TestScenarioMovies(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, movie, details](t, db, &subset.SplitOptions{IDField: "movie_id"})
	must(t, s.Insert(t.Context(), 1, train, trainDetails))
	hot := []bson.D{d("_id", int32(1), "title", "The Arrival of a Train", "year", int32(1896), "runtime", int32(1),
		"released", bson.DateTime(-2335219200000), "type", "movie", "directors", bson.A{"Auguste Lumière", "Louis Lumière"},
		"countries", bson.A{"France"}, "genres", bson.A{"Documentary", "Short"})}
	cold := d("movie_id", int32(1), "poster", trainDetails.Poster, "plot", trainDetails.Plot, "fullplot", trainDetails.FullPlot,
		"lastupdated", bson.DateTime(1439610627000), "imdb", d("rating", 7.3, "votes", int32(5043), "id", int32(12)),
		"tomatoes", d("viewer", d("rating", 3.7, "numReviews", int32(59))))
	both := func(what string) {
		t.Helper()
		same(t, what, hot, stored(t, db.Collection("movies")))
		same(t, what, cold, without(stored(t, db.Collection("movie_details"))[0], "_id"))
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
	sorted(piped[0])
	want := append(bson.D{}, whole...)
	sorted(want)
	same(t, "joined by a pipeline", []bson.D{want}, piped)
	result, err := s.Join(t.Context(), nil)
	must(t, err)
	same(t, "join", subset.AdoptResult{Examined: 1, Adopted: 1, Moved: 6}, result)
	joined := stored(t, db.Collection("movies"))
	sorted(joined[0])
	same(t, "joined", []bson.D{want}, joined)
	same(t, "cold ones left", []bson.D{}, stored(t, db.Collection("movie_details")))

	_, err = db.Collection("movies").ReplaceOne(t.Context(), d(), whole)
	must(t, err)
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", subset.AdoptResult{Examined: 1, Adopted: 1, Moved: 6}, result)
	both("adopted")
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt again", subset.AdoptResult{Examined: 1}, result)
}

func TestSplitWrites(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "movie_id"} {
		for _, joined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", field, joined), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{IDField: field, ColdFields: []string{"plot"}})
				in := func(fn func(ctx context.Context) error) error {
					if !joined {
						return fn(t.Context())
					}
					session, err := db.Client().StartSession()
					must(t, err)
					defer session.EndSession(t.Context())
					must(t, session.StartTransaction())
					ctx := mongo.NewSessionContext(t.Context(), session)
					err = fn(ctx)
					if mongo.IsDuplicateKeyError(err) {
						return errors.Join(err, session.AbortTransaction(ctx))
					}
					must(t, session.CommitTransaction(ctx))
					return err
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
				must(t, in(func(ctx context.Context) error { return s.Replace(ctx, 1, d("b", 1), d("plot", "y")) }))
				want(1, fmt.Sprint(d("b", 1)), fmt.Sprint(d("plot", "y")))
				must(t, in(func(ctx context.Context) error {
					return s.Update(ctx, 1, d("$inc", d("b", 1)), d("$set", d("plot", "z")))
				}))
				must(t, in(func(ctx context.Context) error { return s.Update(ctx, 1, d("$inc", d("b", 1)), nil) }))
				must(t, in(func(ctx context.Context) error { return s.Update(ctx, 1, nil, d("$set", d("e", 1))) }))
				want(1, fmt.Sprint(d("b", 3)), fmt.Sprint(d("plot", "z", "e", 1)))
				before := [][]bson.D{stored(t, db.Collection("movies")), stored(t, db.Collection("movie_details"))}
				for name, test := range map[string]struct {
					fn   func(ctx context.Context) error
					want error
				}{
					"replace none":     {func(ctx context.Context) error { return s.Replace(ctx, 2, d(), d()) }, subset.ErrNotFound},
					"update none":      {func(ctx context.Context) error { return s.Update(ctx, 2, d("$set", d("a", 1)), d("$set", d("b", 1))) }, subset.ErrNotFound},
					"update no hot":    {func(ctx context.Context) error { return s.Update(ctx, 2, d("$set", d("a", 1)), nil) }, subset.ErrNotFound},
					"update no cold":   {func(ctx context.Context) error { return s.Update(ctx, 2, nil, d("$set", d("a", 1))) }, subset.ErrNotFound},
					"delete none":      {func(ctx context.Context) error { return s.Delete(ctx, 2) }, subset.ErrNotFound},
					"get none":         {func(ctx context.Context) error { _, _, err := s.Get(ctx, 2); return err }, mongo.ErrNoDocuments},
					"get no hot":       {func(ctx context.Context) error { _, err := s.GetHot(ctx, 2); return err }, subset.ErrNotFound},
					"get no cold":      {func(ctx context.Context) error { _, err := s.GetCold(ctx, 2); return err }, subset.ErrNotFound},
					"insert both":      {func(ctx context.Context) error { return s.Insert(ctx, 2, d("a", 1), d("a", 1)) }, subset.ErrInvalid},
					"insert misplaced": {func(ctx context.Context) error { return s.Insert(ctx, 2, d("plot", 1), d("a", 1)) }, subset.ErrInvalid},
				} {
					wantNamed(t, name, in(test.fn), test.want)
					same(t, name, before, [][]bson.D{stored(t, db.Collection("movies")), stored(t, db.Collection("movie_details"))})
				}
				if err := in(func(ctx context.Context) error { return s.Insert(ctx, 1, d(), d()) }); !mongo.IsDuplicateKeyError(err) {
					t.Error(err)
				}
				if err := s.Update(t.Context(), 1, nil, nil); !errors.Is(err, subset.ErrInvalid) {
					t.Error(err)
				}
				sound(t, db, s)
				must(t, in(func(ctx context.Context) error { return s.Delete(ctx, 1) }))
				same(t, "deleted", [][]bson.D{{}, {}}, [][]bson.D{stored(t, db.Collection("movies")), stored(t, db.Collection("movie_details"))})
			})
		}
	}
}

func TestSplitCheckAndRepair(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot", "poster"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	for i := range 5 {
		must(t, s.Insert(t.Context(), i, d("title", fmt.Sprint(i)), d("plot", "p")))
	}
	sound(t, db, s)
	insert(t, hot, d("_id", 10, "title", "10"), d("_id", 11, "title", "11", "plot", "new"))
	insert(t, cold, d("movie_id", 20, "plot", "?"))
	update(t, hot, d("_id", 1), d("$set", d("poster", "old program", "plot", "newer")))
	update(t, cold, d("movie_id", 2), d("$set", d("title", "the cold side's")))
	id := func(n int) string { return fmt.Sprintf(`{"$numberInt":"%d"}`, n) }
	same(t, "problems", []string{
		id(1) + " cold field in the hot document plot", id(1) + " cold field in the hot document poster",
		id(10) + " no cold document movie_id", id(11) + " cold field in the hot document plot", id(11) + " no cold document movie_id",
		id(2) + " in both documents title", id(20) + " orphan movie_id",
	}, problems(t, s.Check(t.Context())))
	for stop := range 7 { // the loop may end early
		seen := 0
		for range s.Check(t.Context()) {
			if seen++; seen > stop {
				break
			}
		}
	}
	var progress []int64
	result, err := s.Repair(t.Context(), &subset.RepairOptions{BatchSize: 2, Progress: func(done int64) { progress = append(progress, done) }})
	must(t, err)
	same(t, "repair", subset.RepairResult{Examined: 7, Repaired: 3, Remaining: 2}, result)
	if len(progress) < 2 || progress[len(progress)-1] != 7 {
		t.Error(progress)
	}
	same(t, "left", []string{id(2) + " in both documents title", id(20) + " orphan movie_id"}, problems(t, s.Check(t.Context())))
	_, c, err := s.Get(t.Context(), 1)
	must(t, err)
	same(t, "moved", d("movie_id", int32(1), "plot", "newer", "poster", "old program"), without(c, "_id"))
	untouched(t, hot)
	// Orphans stay where they are in Join.
	cursor, err := hot.Aggregate(t.Context(), append(mongo.Pipeline{{{Key: "$match", Value: d("_id", 2)}}}, s.JoinPipeline()...))
	must(t, err)
	var whole []bson.D
	must(t, cursor.All(t.Context(), &whole))
	same(t, "the hot side counts", []bson.D{d("_id", int32(2), "title", "2", "plot", "p")}, whole)
	joined, err := s.Join(t.Context(), &subset.SplitAdoptOptions{BatchSize: 3})
	must(t, err)
	same(t, "join", subset.AdoptResult{Examined: 8, Adopted: 7, Moved: 8}, joined)
	same(t, "the hot side counts", d("_id", int32(2), "title", "2", "plot", "p"), stored(t, hot)[2])
	untouched(t, hot)
	if docs := stored(t, cold); len(docs) != 1 || docs[0][1].Value != int32(20) {
		t.Error(docs)
	}
	joined, err = s.Adopt(t.Context(), &subset.SplitAdoptOptions{Filter: d("_id", d("$lt", 3)), BatchSize: 2})
	must(t, err)
	same(t, "adopt", subset.AdoptResult{Examined: 3, Adopted: 3, Moved: 4}, joined)
}

// A collection is split and joined beside writers.
func TestSplitBesideWriters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{ColdFields: []string{"plot", "votes"}})
	const n = 12
	for i := range n {
		insert(t, db.Collection("movies"), d("_id", i, "title", fmt.Sprint(i), "plot", "p", "seen", 0, "votes", 0))
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
	group.Go(func() { // documents that come and go are no problems
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
			if _, err := s.Adopt(t.Context(), &subset.SplitAdoptOptions{BatchSize: 5}); err != nil {
				t.Error(err)
			}
			for p, err := range s.Check(t.Context()) {
				if err != nil || p.Kind != subset.Misplaced {
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
		for _, doc := range stored(t, db.Collection(coll)) {
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

func TestSplitConfiguration(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	hot, cold := db.Collection("hot"), db.Collection("cold")
	type nested struct {
		Poster string
		_      int
	}
	type inline struct {
		nested `bson:",inline"`
		Plot   string `bson:"plot,omitempty"`
		Other  string `bson:"-"`
		ID     int    `bson:"_id"`
	}
	check := func(want string, err error) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	type withPlot struct {
		Plot string `bson:"plot"`
	}
	_, err := subset.NewSplit[int, withPlot, inline](hot, cold, nil)
	check(`subset: fields of C: "plot" is a field of H too`, err)
	_, err = subset.NewSplit[int, nested, inline](hot, cold, nil)
	check(`subset: fields of C: "poster" is a field of H too`, err)
	_, err = subset.NewSplit[int, withPlot, bson.D](hot, cold, &subset.SplitOptions{ColdFields: []string{"a", "plot"}})
	check(`subset: SplitOptions.ColdFields: "plot" is a field of H too`, err)
	_, err = subset.NewSplit[int, bson.D, bson.D](hot, cold, &subset.SplitOptions{ColdFields: []string{"a", "a"}})
	check(`subset: SplitOptions.ColdFields: "a" stands twice`, err)
	_, err = subset.NewSplit[int, bson.D, bson.D](hot, cold, &subset.SplitOptions{ColdFields: []string{"_id"}})
	check(`subset: SplitOptions.ColdFields: "_id" is not a cold field`, err)
	_, err = subset.NewSplit[int, bson.D, bson.D](hot, cold, &subset.SplitOptions{ColdFields: []string{"a.b"}})
	check(`subset: SplitOptions.ColdFields: invalid field name: "a.b" contains "."`, err)
	_, err = subset.NewSplit[int, bson.D, bson.D](hot, cold, &subset.SplitOptions{IDField: "$id"})
	check(`subset: SplitOptions.IDField: invalid field name: "$id" starts with "$"`, err)
	_, err = subset.NewSplit[int, bson.D, bson.D](hot, hot, nil)
	check("subset: cold: the same collection as hot", err)
	_, err = subset.NewSplit[int, bson.D, bson.D](nil, hot, nil)
	check("subset: hot: nil collection", err)

	s, err := subset.NewSplit[int, bson.D, inline](hot, cold, nil)
	must(t, err)
	insert(t, hot, d("_id", 1, "poster", "x", "plot", "y", "title", "z"))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "by the fields of C", subset.AdoptResult{Examined: 1, Adopted: 1, Moved: 2}, result)
	same(t, "cold", []bson.D{d("_id", int32(1), "poster", "x", "plot", "y")}, stored(t, cold))
	same(t, "shard key", d("_id", 1), s.ShardKey())
	if s.Indexes() != nil || s.EnsureIndexes(t.Context()) != nil {
		t.Error("an index on _id")
	}
	same(t, "filters", fmt.Sprint(s.Filter(1)), fmt.Sprint(s.ColdFilter(1)))

	plain, err := subset.NewSplit[any, bson.D, bson.D](hot, cold, nil)
	must(t, err)
	_, err = plain.Adopt(t.Context(), nil)
	check("subset: adopt: SplitOptions.ColdFields: not set, and C is no struct with fields", err)
	if err := plain.Delete(t.Context(), nil); !errors.Is(err, subset.ErrInvalid) {
		t.Error(err)
	}
	if err := plain.Insert(t.Context(), d("a", 1), d("x", 1), d("y", 1)); err != nil {
		t.Error(err)
	}
	if h, _, err := plain.Get(t.Context(), d("a", 1)); err != nil || len(h) != 2 {
		t.Error(h, err)
	}
	if text := fmt.Sprint(s.Filter(1), s.JoinPipeline()); !strings.Contains(text, "mergeObjects") {
		t.Error(text)
	}
}

// A document that the server refuses does not hold up the others of its batch.
func TestOneDocumentFails(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{ColdFields: []string{"a", "b"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	unique := mongo.IndexModel{Keys: d("a", 1), Options: options.Index().SetUnique(true).SetSparse(true)}
	_, err := cold.Indexes().CreateOne(t.Context(), unique)
	must(t, err)
	insert(t, hot, d("_id", 1, "a", 1), d("_id", 2, "a", 1), d("_id", 3, "a", 3))
	named := func(err error, id int) {
		t.Helper()
		if !mongo.IsDuplicateKeyError(err) || !strings.Contains(err.Error(), fmt.Sprintf("_id %d: ", id)) {
			t.Errorf("error %v", err)
		}
		untouched(t, hot)
		untouched(t, cold)
	}
	result, err := s.Adopt(t.Context(), nil)
	named(err, 2)
	same(t, "adopt", subset.AdoptResult{Examined: 3, Adopted: 2, Moved: 2, Skipped: 1}, result)
	_, err = hot.Indexes().CreateOne(t.Context(), unique)
	must(t, err)
	result, err = s.Join(t.Context(), nil)
	named(err, 1)
	same(t, "join", subset.AdoptResult{Examined: 2, Adopted: 1, Moved: 1, Skipped: 1}, result)
	same(t, "left", []bson.D{d("_id", int32(1), "a", int32(1))}, stored(t, cold))
}

// A cold document that is new must not outlive a deletion at the same time.
func TestSplitInsertOfColdBesideDelete(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, nil)
	begin := func() (context.Context, *mongo.Session) {
		session, err := db.Client().StartSession()
		must(t, err)
		must(t, session.StartTransaction())
		return mongo.NewSessionContext(t.Context(), session), session
	}
	insert(t, db.Collection("movies"), d("_id", 1, "a", 1))
	for name, write := range map[string]func(ctx context.Context) error{
		"replace": func(ctx context.Context) error { return s.Replace(ctx, 1, d("a", 1), d("b", 1)) },
		"update":  func(ctx context.Context) error { return s.Update(ctx, 1, d("$set", d("a", 1)), d("$set", d("b", 1))) },
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

// The hot documents of a Split are the parents of a Subset as well.
func TestSplitOfParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	split := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot"}})
	hot, cold, items := db.Collection("movies"), db.Collection("movie_details"), db.Collection("comments")
	comments, err := subset.New[int, bson.D](hot, items, &subset.Options{ArrayField: "comments", N: 3})
	must(t, err)
	must(t, comments.EnsureIndexes(t.Context()))
	const n = 6
	for i := range n { // neither adopted
		insert(t, hot, d("_id", i, "seen", 0, "plot", 0, "comments", bson.A{d("_id", i*100), d("_id", i*100+1)}))
	}
	_, err = comments.Adopt(t.Context(), nil)
	must(t, err)
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for i := range n {
				_, err := comments.Add(t.Context(), i, d("_id", i*100+10+w))
				if err == nil && w == 0 {
					err = comments.Delete(t.Context(), i, i*100)
				}
				if err == nil {
					err = split.Update(t.Context(), i, d("$inc", d("seen", 1)), d("$inc", d("plot", 1)))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		_, err := split.Adopt(t.Context(), &subset.SplitAdoptOptions{BatchSize: 2})
		if err == nil {
			_, err = comments.Repair(t.Context(), nil)
		}
		if err != nil {
			t.Error(err)
		}
	})
	group.Wait()
	whole := func() {
		t.Helper()
		for p, err := range comments.Check(t.Context()) {
			t.Error(p, err)
		}
		untouched(t, hot)
	}
	sound(t, db, split)
	whole()
	for i := range n {
		h, c, err := split.Get(t.Context(), i)
		must(t, err)
		same(t, "writes", fmt.Sprint(2, 2, 3), fmt.Sprint(get(h, "seen"), get(c, "plot"), get(h, "comments_count")))
	}
	_, err = split.Join(t.Context(), nil)
	must(t, err)
	whole()
	_, err = split.Repair(t.Context(), nil)
	must(t, err)
	sound(t, db, split)
	whole()

	// Replaced without what is kept, which Repair brings back.
	must(t, split.Replace(t.Context(), 1, d("seen", 9), d("plot", 9)))
	_, err = comments.Repair(t.Context(), nil)
	must(t, err)
	whole()
	// Deleted as the manual says.
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(t.Context())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		if _, err := comments.DeleteParent(ctx, 1); err != nil {
			return nil, err
		}
		return cold.DeleteOne(ctx, split.ColdFilter(1))
	})
	must(t, err)
	same(t, "left", []int{n - 1, n - 1, 3 * (n - 1)}, []int{len(stored(t, hot)), len(stored(t, cold)), len(stored(t, items))})
	sound(t, db, split)
	whole()
}
