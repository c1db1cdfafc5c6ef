package adoption_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

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
			err := s.Add(ctx, id, normal(hot).(bson.M), normal(details).(bson.M))
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
			must(t, err)
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

var splitSays = []sentence{}
