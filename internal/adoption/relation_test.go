package adoption_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/relation"
)

func openRelation(db *mongo.Database) (helper, error) {
	r, err := relation.New[any, any, bson.M](db.Collection("people"), db.Collection("tasks"), &relation.Options{Children: "tasks", Owner: "owner"})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: r.EnsureIndexes, adopt: r.Extract, check: r.Check, repair: r.Repair, value: r}, nil
}

func startRelation(w *world) service {
	r := w.h.value.(*relation.Relation[any, any, bson.M])
	m := &model{coll: w.db.Collection("people")}
	task := func(c *client) bson.M { return bson.M{"_id": c.id(), "text": c.text()} }
	person := func(c *client) bson.M {
		list := bson.A{}
		for range c.IntN(4) {
			list = append(list, task(c))
		}
		return bson.M{"name": c.text(), "tasks": list}
	}
	c := newClient('S', time30)
	for i := range 60 {
		m.seed(w, merged(person(c), bson.M{"_id": int32(i)}))
	}
	for i := range 20 {
		m.seed(w, bson.M{"_id": fmt.Sprint("idle", i), "idle": true})
	}
	busy := func(r *record) bool { return alive(r) && r.doc["idle"] == nil }
	idle := func(r *record) bool { return alive(r) && r.doc["idle"] != nil }
	tasks := func(r *record) bson.A { list, _ := r.doc["tasks"].(bson.A); return list }

	push := func(ctx context.Context, c *client, rec *record) error {
		return m.update(ctx, rec, d("$push", d("tasks", task(c))))
	}
	old := join(m.own(), m.deleted(idle, func(c *client) bson.M { return bson.M{"idle": true} }), []op{
		m.inserted(person),
		m.beside("push", busy, push), m.beside("push", busy, push), m.beside("push", busy, push),
	})
	fresh := []op{
		m.beside("Insert", busy, func(ctx context.Context, c *client, rec *record) error {
			item := task(c)
			_, err := r.Insert(ctx, rec.id, normal(item).(bson.M))
			if err == nil {
				m.follow(rec, d("$push", d("tasks", item)))
			}
			return err
		}),
		m.write("DeleteChild", func(rec *record) bool { return busy(rec) && rec.tags["mine"] != nil }, func(ctx context.Context, c *client, rec *record) error {
			return errNothing
		}),
	}[:1]

	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		children := 0
		for _, rec := range m.living() {
			name := fmt.Sprint(rec.id)
			joined := got(r.Of(t.Context(), rec.id, nil))(t)
			if len(joined.Dangling) > 0 {
				differ(t, "%s: dangling %v", name, joined.Dangling)
			}
			have, want := bson.M{}, bson.M{}
			for _, item := range joined.Items {
				id := fmt.Sprint(item["_id"])
				if have[id] != nil {
					differ(t, "%s: %s twice", name, id)
				}
				have[id] = item
			}
			for _, v := range tasks(rec) {
				item := v.(bson.M)
				want[fmt.Sprint(item["_id"])] = merged(item, bson.M{"owner": rec.id})
				children++
			}
			same(t, name, have, want)
			same(t, name, without(stored[name], "tasks"), without(rec.doc, "tasks"))
			delete(stored, name)
		}
		if n := len(read(t, w.db.Collection("tasks"))); n != children {
			t.Errorf("%d tasks, want %d", n, children)
		}
		if len(stored) > 0 {
			t.Errorf("%d people that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

var relationSays = []sentence{}
