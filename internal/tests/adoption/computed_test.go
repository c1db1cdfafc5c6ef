//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func openComputed(db *mongo.Database) (helper, error) {
	totals, err := computed.New[any, any, bson.M](db.Collection("screenings"), db.Collection("films"), computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers"), "screenings", d("$sum", int32(1))))},
		Empty:    d("viewers", int32(0), "screenings", int32(0)),
	}, nil)
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: totals.EnsureIndexes, adopt: totals.Adopt, check: totals.Check, repair: totals.Repair, value: totals, sharder: bySources{totals}}, nil
}

func startComputed(w *world) service {
	totals := w.h.value.(*computed.Computed[any, any, bson.M])
	films := &model{coll: w.db.Collection("films")}
	m := &model{coll: w.db.Collection("screenings")}
	c := newClient('S', time30)
	for i := range 40 {
		films.seed(w, bson.M{"_id": int32(i), "title": c.text()})
	}
	screening := func(c *client) bson.M { return bson.M{"film": c.int(40), "viewers": c.int(100)} }
	for i := range 100 {
		m.seed(w, merged(screening(c), bson.M{"_id": int32(i)}))
	}

	change := func(c *client) bson.D { return d("$set", d("film", c.int(40)), "$inc", d("viewers", c.int(5))) }
	old := join(films.own(), m.deleted(alive, screening), []op{
		m.inserted(screening),
		{"insert a film", func(ctx context.Context, c *client) error {
			return films.insert(ctx, bson.M{"_id": c.id(), "title": c.text()})
		}},
		m.write("change", alive, func(ctx context.Context, c *client, r *record) error { return m.update(ctx, r, change(c)) }),
		m.write("replace", alive, func(ctx context.Context, c *client, r *record) error { return m.replace(ctx, r, screening(c)) }),
	})
	fresh := []op{
		m.write("Change", alive, func(ctx context.Context, c *client, r *record) error {
			update := change(c)
			err := totals.Change(ctx, []any{r.id}, func(ctx context.Context) error {
				_, err := m.coll.UpdateOne(ctx, d("_id", r.id), update)
				return err
			})
			if err == nil {
				m.follow(r, update)
			}
			return err
		}),
		{"Change by an insertion", func(ctx context.Context, c *client) error {
			doc := merged(screening(c), bson.M{"_id": c.id()})
			err := totals.Change(ctx, []any{doc["_id"]}, func(ctx context.Context) error {
				_, err := m.coll.InsertOne(ctx, doc)
				return err
			})
			if err == nil {
				m.put(doc)
			}
			return err
		}},
	}

	oracle := func(t *testing.T) {
		viewers, count := map[any]int32{}, map[any]int32{}
		for _, r := range m.living() {
			viewers[r.doc["film"]] += r.doc["viewers"].(int32)
			count[r.doc["film"]]++
		}
		for _, r := range films.living() {
			have := got(totals.Get(t.Context(), r.id, 24*time.Hour))(t)
			same(t, fmt.Sprint(r.id), without(have, "computed"), merged(r.doc, bson.M{"viewers": viewers[r.id], "screenings": count[r.id]}))
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

var computedSays = []sentence{
	{"Adopt computes all targets, and writes those that differ", func(t *testing.T, w *world) {
		w.insert(t, "screenings", d("_id", "target", "film", "target", "viewers", int32(7)))
		w.insert(t, "films", d("_id", "target"))
		w.insert(t, "films", d("_id", "none"))
		w.clean(t)
		if a, b := w.stored(t, "films", "target"), w.stored(t, "films", "none"); a["viewers"] != int32(7) || b["viewers"] != int32(0) {
			t.Errorf("%v, %v", a, b)
		}
	}},
	{"insert, change, move and delete sources, insert targets, and write whole targets", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "whole"))
		w.clean(t)
		read := w.stored(t, "films", "whole")
		w.insert(t, "screenings", d("_id", "whole", "film", "whole", "viewers", int32(7)))
		w.clean(t)
		w.replace(t, "films", read)
		w.clean(t)
		if film := w.stored(t, "films", "whole"); film["viewers"] != int32(7) {
			t.Errorf("%v", film)
		}
	}},
	{"Check finds targets that are out of date, and Repair computes them anew. Or let the old code call `Mark`, and Drain computes them", func(t *testing.T, w *world) {
		totals := w.h.value.(*computed.Computed[any, any, bson.M])
		w.insert(t, "films", d("_id", "drift"))
		w.clean(t)
		w.insert(t, "screenings", d("_id", "drift", "film", "drift", "viewers", int32(7)))
		named(t, w.problems(t), mongopatterns.WrongField, "drift")
		if left := w.repaired(t); len(left) != 0 || w.stored(t, "films", "drift")["viewers"] != int32(7) {
			t.Errorf("%v", left)
		}
		w.update(t, "screenings", d("_id", "drift"), d("$inc", d("viewers", int32(1))))
		testkit.OK(t, totals.Mark(t.Context(), "drift"))
		got(totals.Drain(t.Context(), nil))(t)
		if w.stored(t, "films", "drift")["viewers"] != int32(8) {
			t.Errorf("%v", w.stored(t, "films", "drift"))
		}
	}},
}
