package subset_test

import (
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A write through the package before Adopt has reached a document is in it
// afterwards too.
func TestSplitWritesBeforeAdopt(t *testing.T) {
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
		"both, a cold one there":    {edit, inc, d("votes", 1, "more", 1), false, d("plot", "new", "votes", int32(8), "more", int32(1))},
		"cold, a further ColdField": {nil, inc, d("votes", 1, "more", 1), false, d("plot", "new", "votes", int32(8), "more", int32(1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSplit[int, bson.D, bson.M](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot", "votes"}})
			insert(t, db.Collection("movies"), d("_id", 1, "title", "t", "plot", "old", "votes", 7))
			if test.had != nil {
				insert(t, db.Collection("movie_details"), append(d("movie_id", 1), test.had...))
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
			same(t, "adopt", subset.AdoptResult{Examined: 1}, result)
			_, cold, err := s.Get(t.Context(), 1)
			must(t, err)
			for _, e := range test.want {
				same(t, e.Key, e.Value, cold[e.Key])
			}
		})
	}
}

// Writers of both sides and of one, beside Adopt.
func TestSplitAdoptBesideUpdates(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.M, bson.M](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"votes"}})
	const n = 24
	for i := range n {
		insert(t, db.Collection("movies"), d("_id", i, "seen", 0, "votes", 100))
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
	_, err := s.Adopt(t.Context(), &subset.SplitAdoptOptions{BatchSize: 3})
	group.Wait()
	must(t, err)
	sound(t, db, s)
	for i := range n {
		hot, cold, err := s.Get(t.Context(), i)
		must(t, err)
		same(t, "seen, votes", fmt.Sprint(i%2, 101), fmt.Sprint(hot["seen"], cold["votes"]))
	}
}

// A hot document without a cold one: what Get, JoinPipeline and Update make of it.
func TestSplitWithoutColdDocument(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot"}})
	insert(t, db.Collection("movies"), d("_id", 1, "a", 1), d("_id", 2, "a", 2, "plot", "p"))
	_, _, err := s.Get(t.Context(), 1)
	wantNamed(t, "get", err, subset.ErrNotFound)
	cursor, err := db.Collection("movies").Aggregate(t.Context(), append(mongo.Pipeline{d("$sort", d("_id", 1))}, s.JoinPipeline()...))
	must(t, err)
	var whole []bson.D
	must(t, cursor.All(t.Context(), &whole))
	same(t, "joined", stored(t, db.Collection("movies")), whole)
	hot, _, err := s.Get(t.Context(), 2)
	must(t, err)
	must(t, s.Replace(t.Context(), 2, append(hot, bson.E{Key: "b", Value: 1}), d("plot", "r"))) // what was read can be written
	must(t, s.Update(t.Context(), 1, nil, d("$set", d("plot", "q"))))
	_, cold, err := s.Get(t.Context(), 1)
	must(t, err)
	same(t, "cold", d("movie_id", int32(1), "plot", "q"), without(cold, "_id"))
	untouched(t, db.Collection("movies"))
}

// No update cuts a cold document off from its hot one.
func TestSplitUpdateKeepsIDField(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot"}})
	must(t, s.Insert(t.Context(), 1, d("a", 1), d("plot", "p")))
	before := stored(t, db.Collection("movie_details"))
	for _, update := range []any{
		d("$set", d("movie_id", 2)), d("$inc", d("movie_id", 2)), d("$unset", d("movie_id", "")), d("$set", d("movie_id.x", 2)),
		d("$rename", d("plot", "movie_id")), bson.M{"$rename": bson.M{"movie_id": "plot"}},
	} {
		for _, hot := range []any{nil, d("$set", d("a", 1))} {
			wantNamed(t, fmt.Sprint(update), s.Update(t.Context(), 1, hot, update), subset.ErrInvalid)
		}
	}
	same(t, "refused", before, stored(t, db.Collection("movie_details")))
	for _, update := range []any{mongo.Pipeline{d("$set", d("movie_id", 2))}, bson.A{d("$unset", "movie_id")}, []bson.D{d("$set", d("movie_id", 3))}} {
		must(t, s.Update(t.Context(), 1, nil, update))
		sound(t, db, s)
	}
	must(t, s.Update(t.Context(), 1, nil, d("$set", d("movie_id", int64(1), "plot", "q")))) // the whole document, say
	sound(t, db, s)
}
