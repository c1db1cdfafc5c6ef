//go:build unix

package adoption_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/relation"
)

func openRelation(db *mongo.Database) (helper, error) {
	r, err := relation.New[any, string, bson.M](db.Collection("people"), db.Collection("tasks"), &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: r.EnsureIndexes, adopt: r.Extract, check: r.Check, repair: r.Repair, value: r}, nil
}

func startRelation(w *world) service {
	r := w.h.value.(*relation.Relation[any, string, bson.M])
	m := &model{coll: w.db.Collection("people")}
	task := func(c *client) bson.M { return bson.M{"_id": c.id().Hex(), "text": c.text()} }
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
	// A client sees by MatchedCount whether the child is still embedded.
	embedded := func(ctx context.Context, c *client, rec *record, change func(list bson.A, i int) bson.D) (i int, found bool, err error) {
		list := tasks(rec)
		if len(list) == 0 {
			return 0, false, errNothing
		}
		i = c.IntN(len(list))
		// A child that a replace brought back after its extraction must not change: the page says so.
		if n, err := w.db.Collection("tasks").CountDocuments(ctx, d("_id", list[i].(bson.M)["_id"])); err != nil || n > 0 {
			return 0, false, cmp.Or(err, errNothing)
		}
		result, err := m.coll.UpdateOne(ctx, d("_id", rec.id, "tasks._id", list[i].(bson.M)["_id"]), change(list, i))
		return i, err == nil && result.MatchedCount == 1, err
	}
	old := join(m.own(), m.deleted(idle, func(c *client) bson.M { return bson.M{"idle": true} }), []op{
		m.inserted(person),
		m.beside("push", busy, push), m.beside("push", busy, push), m.beside("push", busy, push),
		m.write("pull", busy, func(ctx context.Context, c *client, rec *record) error {
			i, found, err := embedded(ctx, c, rec, func(list bson.A, i int) bson.D {
				return d("$pull", d("tasks", d("_id", list[i].(bson.M)["_id"])))
			})
			if found {
				m.follow(rec, d("$pull", d("tasks", d("_id", tasks(rec)[i].(bson.M)["_id"]))))
			}
			return err
		}),
		m.write("edit", busy, func(ctx context.Context, c *client, rec *record) error {
			text := c.text()
			i, found, err := embedded(ctx, c, rec, func(bson.A, int) bson.D { return d("$set", d("tasks.$.text", text)) })
			if found {
				tasks(rec)[i].(bson.M)["text"] = text
			}
			return err
		}),
		m.rewritten("replace", busy, func(c *client, rec *record) bson.D { return d("$set", d("name", c.text())) }),
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
	}

	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		children := 0
		for _, rec := range m.living() {
			name := fmt.Sprint(rec.id)
			joined := got(r.Children(t.Context(), rec.id, nil))(t)
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

// parent is one with a child that was extracted.
func extracted(t *testing.T, w *world, id string) *relation.Relation[any, string, bson.M] {
	t.Helper()
	w.insert(t, "people", d("_id", id, "tasks", bson.A{d("_id", id+"'s", "text", "as it was")}))
	w.clean(t)
	return w.h.value.(*relation.Relation[any, string, bson.M])
}

var relationSays = []sentence{
	{"Extract takes the place of Adopt, and turns embedded children into documents", func(t *testing.T, w *world) {
		extracted(t, w, "turned")
		same(t, "child", w.stored(t, "tasks", "turned's")["text"], "as it was")
		same(t, "parent", w.stored(t, "people", "turned")["tasks"], bson.A{"turned's"})
	}},
	{"insert parents, push embedded children, pull and edit children that are still embedded, and delete parents without children and insert them again", meanwhile("insert", "push", "pull", "edit", "delete", "insert again")},
	{"write a parent back as it was before. The second Extract links its children again if they have `_id`s and are unchanged", func(t *testing.T, w *world) {
		before := bson.M{"_id": "back", "tasks": bson.A{d("_id", "back's", "text", "as it was")}}
		r := extracted(t, w, "back")
		w.replace(t, "people", before)
		w.clean(t)
		if joined := got(r.Children(t.Context(), "back", nil))(t); len(joined.Items) != 1 || joined.Items[0]["text"] != "as it was" {
			t.Errorf("%+v", joined)
		}
	}},
	{"edit or pull children that are extracted, because nothing happens", func(t *testing.T, w *world) {
		r := extracted(t, w, "edit")
		if w.update(t, "people", d("_id", "edit", "tasks._id", "edit's"), d("$set", d("tasks.$.text", "edited"))) {
			t.Error("it was edited")
		}
		w.update(t, "people", d("_id", "edit"), d("$pull", d("tasks", d("_id", "edit's"))))
		w.clean(t)
		if joined := got(r.Children(t.Context(), "edit", nil))(t); len(joined.Items) != 1 || joined.Items[0]["text"] != "as it was" {
			t.Errorf("%+v", joined)
		}
	}},
	{"write a parent back with children that have changed since, because Extract then counts the parent as Failed. Children without `_id`s are stored twice", func(t *testing.T, w *world) {
		r := extracted(t, w, "changed")
		w.update(t, "tasks", d("_id", "changed's"), d("$set", d("text", "by new code")))
		w.replace(t, "people", bson.M{"_id": "changed", "tasks": bson.A{d("_id", "changed's", "text", "as it was")}})
		result, _ := w.again(t)
		if result.Failed != 1 || result.Failures[0].ID.StringValue() != "changed" {
			t.Errorf("%+v", result)
		}
		w.replace(t, "people", bson.M{"_id": "changed", "tasks": bson.A{"changed's"}})
		w.clean(t)

		without := func() bson.M { return bson.M{"_id": "without", "tasks": bson.A{d("text", "no _id")}} }
		w.insert(t, "people", d("_id", "without"))
		for range 2 {
			w.replace(t, "people", without())
			w.again(t)
		}
		if n := got(w.db.Collection("tasks").CountDocuments(t.Context(), d("owner", "without")))(t); n != 2 {
			t.Errorf("%d tasks", n)
		}
		w.repaired(t)
		if joined := got(r.Children(t.Context(), "without", nil))(t); len(joined.Items) != 2 {
			t.Errorf("%+v", joined)
		}
	}},
	{"delete a parent that has children, because Check then reports their owner as dangling", func(t *testing.T, w *world) {
		extracted(t, w, "deleted")
		w.remove(t, "people", "deleted")
		_, problems := w.again(t)
		named(t, problems, mongopatterns.Dangling, "deleted's")
		w.repaired(t)
	}},
	{"The second Extract takes children that were pushed, and until then reads return them as `Malformed`", func(t *testing.T, w *world) {
		r := extracted(t, w, "pushed")
		w.update(t, "people", d("_id", "pushed"), d("$push", d("tasks", d("_id", "second", "text", "as it was"))))
		if joined := got(r.Children(t.Context(), "pushed", nil))(t); len(joined.Items) != 1 || len(joined.Malformed) != 1 {
			t.Errorf("%+v", joined)
		}
		w.clean(t)
		if joined := got(r.Children(t.Context(), "pushed", nil))(t); len(joined.Items) != 2 || len(joined.Malformed) != 0 {
			t.Errorf("%+v", joined)
		}
	}},
}
