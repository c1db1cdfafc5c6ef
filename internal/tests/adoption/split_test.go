//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/split"
)

func openSplit(db *mongo.Database) (helper, error) {
	s, err := split.New[any, bson.M, bson.M](db.Collection("movies"), db.Collection("movie_details"), &split.Options{
		IDField: "movie_id", ColdFields: []string{"plot", "imdb", "comments"},
	})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: s.EnsureIndexes, adopt: s.Adopt, check: s.Check, repair: s.Repair, value: s}, nil
}

func startSplit(w *world) service {
	s := w.h.value.(*split.Split[any, bson.M, bson.M])
	m := &model{coll: w.db.Collection("movies")}
	cold := func(c *client) bson.M {
		return bson.M{"plot": c.text(), "imdb": bson.M{"rating": c.int(10), "votes": c.int(1000)}, "comments": bson.A{c.text()}}
	}
	movie := func(c *client) bson.M { return merged(cold(c), bson.M{"title": c.text()}) }
	c := newClient('S', time30)
	for i := range 80 {
		m.seed(w, merged(movie(c), bson.M{"_id": int32(i)}))
	}
	old := join(m.own(), m.deleted(func(*record) bool { return false }, movie)[1:], []op{
		m.inserted(movie),
		m.write("replace", alive, func(ctx context.Context, c *client, r *record) error { return m.replace(ctx, r, movie(c)) }),
		m.rewritten("replace as read", alive, func(c *client, r *record) bson.D { return d("$set", d("title", c.text())) }),
		m.write("$set of a cold field", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$set", d("plot", c.text())))
		}),
	})
	fresh := []op{
		m.write("Update", alive, func(ctx context.Context, c *client, r *record) error {
			hot := []any{nil, d("$set", d("title", c.text()))}[c.IntN(2)]
			change := []bson.D{d("$set", d("plot", c.text())), d("$inc", d("imdb.votes", int32(1))), d("$push", d("comments", c.text()))}[c.IntN(3)]
			if err := s.Update(ctx, r.id, hot, change); err != nil {
				return err
			}
			if hot != nil {
				m.follow(r, hot.(bson.D))
			}
			m.follow(r, change)
			return nil
		}),
		m.write("Delete", alive, func(ctx context.Context, c *client, r *record) error {
			if c.IntN(3) > 0 {
				return errNothing
			}
			err := s.Delete(ctx, r.id)
			if err == nil {
				m.set(r, nil)
			}
			return err
		}),
		{"Add", func(ctx context.Context, c *client) error {
			id, hot, details := c.id(), bson.M{"title": c.text()}, cold(c)
			err := s.Insert(ctx, id, normal(hot).(bson.M), normal(details).(bson.M))
			if err == nil {
				m.put(merged(hot, details, bson.M{"_id": id}))
			}
			return err
		}},
	}
	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			name := fmt.Sprint(r.id)
			hot, details, err := s.Get(t.Context(), r.id)
			testkit.OK(t, err)
			same(t, name, merged(hot, without(details, "_id", "movie_id")), r.doc)
			for _, field := range []string{"plot", "imdb", "comments"} {
				if stored[name][field] != nil {
					differ(t, "%s: %s is hot", name, field)
				}
			}
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d movies that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// divided is a movie after Adopt.
func divided(t *testing.T, w *world, id string) *split.Split[any, bson.M, bson.M] {
	t.Helper()
	w.insert(t, "movies", d("_id", id, "title", "t", "plot", "p", "imdb", d("rating", 7, "votes", 40), "comments", bson.A{"a", "b"}))
	w.clean(t)
	return w.h.value.(*split.Split[any, bson.M, bson.M])
}

// rewrite writes a whole movie in place of the one that is there.
func (w *world) rewrite(t *testing.T, movie bson.D) {
	t.Helper()
	_, err := w.db.Collection("movies").ReplaceOne(t.Context(), movie[:1], movie)
	testkit.OK(t, err)
}

func coldOf(t *testing.T, s *split.Split[any, bson.M, bson.M], id string) bson.M {
	t.Helper()
	_, cold, err := s.Get(t.Context(), id)
	testkit.OK(t, err)
	return without(cold, "_id", "movie_id")
}

var wholeCold = bson.M{"plot": "p", "imdb": bson.M{"rating": int32(7), "votes": int32(40)}, "comments": bson.A{"a", "b"}}

var splitSays = []sentence{
	{"Adopt moves cold fields out of the documents", func(t *testing.T, w *world) {
		s := divided(t, w, "moved")
		same(t, "hot", w.stored(t, "movies", "moved"), bson.M{"_id": "moved", "title": "t"})
		same(t, "cold", coldOf(t, s, "moved"), wholeCold)
	}},
	{"insert documents, write whole documents with all the cold fields that they have, and `$set` cold fields that are not numbers, arrays or documents",
		meanwhile("insert", "replace", "replace as read", "$set of a cold field")},
	{"change a cold field depending on its old value, as `$inc`, `$push` and `$set` of a part do, because the field is gone and starts from nothing. Check reports such a fragment as being in both documents, Adopt counts it as Remaining, and reads show the value of the cold document", func(t *testing.T, w *world) {
		s := divided(t, w, "fragments")
		for _, change := range []bson.D{d("$inc", d("imdb.votes", 1)), d("$push", d("comments", "c")), d("$set", d("imdb.rating", 8))} {
			w.update(t, "movies", d("_id", "fragments"), change)
		}
		result, problems := w.again(t)
		if result.Remaining != 1 {
			t.Errorf("%+v", result)
		}
		named(t, problems, split.InBoth, "fragments")
		same(t, "fragments", coldOf(t, s, "fragments"), bson.M{"plot": "p", "imdb": bson.M{"rating": int32(7), "votes": int32(40)}, "comments": bson.A{"a", "b"}})
		testkit.OK(t, s.Delete(t.Context(), "fragments"))
	}},
	{"remove a cold field, or leave it out of a document that is written whole, because the field returns", func(t *testing.T, w *world) {
		s := divided(t, w, "taken")
		w.update(t, "movies", d("_id", "taken"), d("$unset", d("plot", "")))
		w.clean(t)
		same(t, "taken", coldOf(t, s, "taken"), wholeCold)
		divided(t, w, "left out")
		w.rewrite(t, d("_id", "left out", "title", "t", "plot", "another"))
		w.clean(t)
		same(t, "left out", coldOf(t, s, "left out"), merged(wholeCold, bson.M{"plot": "another"}))
	}},
	{"delete a document, because Check then reports its cold document as an orphan", func(t *testing.T, w *world) {
		divided(t, w, "deleted")
		w.remove(t, "movies", "deleted")
		_, problems := w.again(t)
		if len(problems) != 1 || problems[0].Kind != mongopatterns.Orphan {
			t.Errorf("%v", problems)
		}
		_, err := w.db.Collection("movie_details").DeleteOne(t.Context(), d("movie_id", "deleted"))
		testkit.OK(t, err)
	}},
	{"delete a document and insert it again, because the cold fields that the new one lacks return", func(t *testing.T, w *world) {
		s := divided(t, w, "again")
		w.remove(t, "movies", "again")
		w.insert(t, "movies", d("_id", "again", "title", "another", "plot", "another"))
		w.clean(t)
		same(t, "again", coldOf(t, s, "again"), merged(wholeCold, bson.M{"plot": "another"}))
	}},
	{"Check cannot see cold fields that have returned: the document looks like one that was never changed, or in which old code has `$set` the other cold fields", func(t *testing.T, w *world) {
		stored := func(do func()) (hot, cold string) {
			s := divided(t, w, "same")
			do()
			raw, err := w.db.Collection("movies").FindOne(t.Context(), d("_id", "same")).Raw()
			testkit.OK(t, err)
			hot = raw.String()
			raw, err = w.db.Collection("movie_details").FindOne(t.Context(), d("movie_id", "same"), options.FindOne().SetProjection(d("_id", 0))).Raw()
			testkit.OK(t, err)
			testkit.OK(t, s.Delete(t.Context(), "same"))
			return hot, raw.String()
		}
		again := func(doc bson.D) func() {
			return func() { w.remove(t, "movies", "same"); w.insert(t, "movies", doc) }
		}
		whole, set := d("_id", "same", "title", "t"), d("_id", "same", "title", "t", "plot", "another")
		for _, alike := range [][]func(){
			{func() {}, func() { w.update(t, "movies", d("_id", "same"), d("$unset", d("plot", ""))) }, func() { w.rewrite(t, whole) }, again(whole)},
			{func() { w.update(t, "movies", d("_id", "same"), d("$set", d("plot", "another"))) }, func() { w.rewrite(t, set) }, again(set)},
		} {
			wantHot, wantCold := stored(alike[0])
			for i, do := range alike[1:] {
				if hot, cold := stored(do); hot != wantHot || cold != wantCold {
					t.Errorf("%d: %s and %s, not %s and %s", i, hot, cold, wantHot, wantCold)
				}
			}
		}
	}},
	{"The second Adopt moves values that are newer than those in the cold document", func(t *testing.T, w *world) {
		s := divided(t, w, "newer")
		w.update(t, "movies", d("_id", "newer"), d("$set", d("plot", "newer")))
		w.clean(t)
		same(t, "cold", coldOf(t, s, "newer"), merged(wholeCold, bson.M{"plot": "newer"}))
	}},
	{"Compare the fragments that Check lists with their cold values. Then adopt them, chosen by `Work.Filter`, with `Options.Prefer`. `Hot` drops the whole cold value, such as a list to which old code has pushed one element", func(t *testing.T, w *world) {
		for keep, want := range map[split.Side]bson.A{split.Hot: {"c"}, split.Cold: {"a", "b"}} {
			s := divided(t, w, string(keep))
			w.update(t, "movies", d("_id", string(keep)), d("$push", d("comments", "c")))
			told, err := split.New[any, bson.M, bson.M](w.db.Collection("movies"), w.db.Collection("movie_details"), &split.Options{
				IDField: "movie_id", ColdFields: []string{"plot", "imdb", "comments"}, Prefer: keep,
			})
			testkit.OK(t, err)
			_, err = told.Adopt(t.Context(), &mongopatterns.Work{Filter: d("_id", string(keep))})
			testkit.OK(t, err)
			w.clean(t)
			same(t, string(keep), coldOf(t, s, string(keep)), merged(wholeCold, bson.M{"comments": want}))
		}
	}},
	{"A whole document whose cold fields are all numbers is taken for a fragment", func(t *testing.T, w *world) {
		s := w.h.value.(*split.Split[any, bson.M, bson.M])
		w.insert(t, "movies", d("_id", "numbers", "imdb", d("rating", 7, "votes", 40)))
		w.clean(t)
		w.rewrite(t, d("_id", "numbers", "imdb", d("rating", 7, "votes", 41)))
		result, problems := w.again(t)
		if result.Remaining != 1 {
			t.Errorf("%+v", result)
		}
		named(t, problems, split.InBoth, "numbers")
		testkit.OK(t, s.Delete(t.Context(), "numbers"))
	}},
}
