//go:build unix

package adoption_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func openVersioning(db *mongo.Database) (helper, error) {
	v, err := versioning.New[any, bson.M](db.Collection("policies"), db.Collection("policy_revisions"), &versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		return helper{}, err
	}
	return helper{
		ensure: v.EnsureIndexes, check: v.Check, repair: v.Repair, value: v,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return v.Adopt(ctx, nil, work)
		},
	}, nil
}

func startVersioning(w *world) service {
	v := w.h.value.(*versioning.History[any, bson.M])
	m := &model{coll: w.db.Collection("policies")}
	policy := func(c *client) bson.M {
		return bson.M{"name": c.text(), "items": bson.A{c.text(), c.text()}, "cover": bson.M{"sum": c.int(100)}}
	}
	c := newClient('S', time30)
	for i := range 60 {
		m.seed(w, merged(policy(c), bson.M{"_id": int32(i)}))
	}
	// A document that new code has saved has a history.
	unsaved := func(r *record) bool { return r.tags["history"] == nil }
	plainly := func(r *record) bool { return alive(r) && unsaved(r) }
	old := join(m.own(), m.deleted(plainly, policy), []op{
		m.inserted(policy),
		// Two pushes at once would not commute: the oracle compares the order of the items, and only the server knows it.
		m.write("push", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$push", d("items", c.text())))
		}),
		m.write("pull", alive, func(ctx context.Context, c *client, r *record) error {
			items := r.doc["items"].(bson.A)
			if len(items) == 0 {
				return errNothing
			}
			return m.update(ctx, r, d("$pull", d("items", items[c.IntN(len(items))])))
		}),
		m.beside("$inc of a nested field", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$inc", d("cover.sum", int32(1))))
		}),
		m.rewritten("replace", alive, func(c *client, r *record) bson.D {
			return d("$set", d("name", c.text()), "$push", d("items", c.text()))
		}),
		m.write("replace by a new document", plainly, func(ctx context.Context, c *client, r *record) error { return m.replace(ctx, r, policy(c)) }),
	})

	// replaced notes a state that a save has put into the history.
	replaced := func(r *record) {
		m.mu.Lock()
		defer m.mu.Unlock()
		history, _ := r.tags["history"].([]bson.M)
		r.tags["history"] = append(history, normal(r.doc).(bson.M))
	}
	by := versioning.Change{Author: "new code"}
	fresh := []op{
		m.write("Update", alive, func(ctx context.Context, c *client, r *record) error {
			name := c.text()
			_, err := v.Edit(ctx, r.id, func(doc *bson.M) error { (*doc)["name"] = name; return nil }, by)
			if err == nil {
				replaced(r)
				m.follow(r, d("$set", d("name", name)))
			}
			return err
		}),
		{"Create", func(ctx context.Context, c *client) error {
			doc := merged(policy(c), bson.M{"_id": c.id()})
			_, err := v.Insert(ctx, doc, by)
			if err == nil {
				m.put(doc)
			}
			return err
		}},
		m.write("Delete", alive, func(ctx context.Context, c *client, r *record) error {
			read, err := v.Get(ctx, r.id)
			if err == nil {
				err = v.Delete(ctx, r.id, read.Number, by)
			}
			if err == nil {
				replaced(r)
				m.set(r, nil)
			}
			return err
		}),
	}

	plain := func(doc bson.M) bson.M { return without(doc, "revision", "change") }
	oracle := func(t *testing.T) {
		for _, r := range m.all {
			name := fmt.Sprint(r.id)
			if r.doc != nil {
				now := got(v.Get(t.Context(), r.id))(t)
				same(t, name, plain(now.Document), r.doc)
			}
			history, _ := r.tags["history"].([]bson.M)
			if r.doc == nil && len(history) == 0 {
				continue
			}
			// The states that new code replaced are all there, in their order; numbers fall.
			var states []bson.M
			last := int64(0)
			for rev, err := range v.Revisions(t.Context(), r.id) {
				testkit.OK(t, err)
				if rev.Lost || last != 0 && rev.Number != last-1 {
					differ(t, "%s: revision %d, lost %v, after %d", name, rev.Number, rev.Lost, last)
				}
				if last = rev.Number; !rev.Deleted {
					states = append(states, plain(normal(rev.Document).(bson.M)))
				}
			}
			at := len(states)
			for _, want := range history {
				for at--; at >= 0 && !reflect.DeepEqual(states[at], want); at-- {
				}
				if at < 0 {
					differ(t, "%s: the state %s is not in the history %s", name, show(want), show(list(states)))
				}
			}
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

var versioningSays = []sentence{
	{"Adopt gives documents numbers. Until then a document without one is revision 1", func(t *testing.T, w *world) {
		v := w.h.value.(*versioning.History[any, bson.M])
		w.insert(t, "policies", d("_id", "first", "name", "a"))
		if r := got(v.Get(t.Context(), "first"))(t); r.Number != 1 {
			t.Errorf("%+v", r)
		}
		w.clean(t)
		if w.stored(t, "policies", "first")["revision"] != int64(1) {
			t.Errorf("%v", w.stored(t, "policies", "first"))
		}
	}},
	{"insert, change and delete documents without a revision", meanwhile("insert", "push", "pull", "replace", "replace by a new document", "delete", "insert again")},
	{"replace a document that has a history by one without a number, or delete it and insert it again without one, because new code refuses it until Adopt gives it the next number", func(t *testing.T, w *world) {
		v := w.h.value.(*versioning.History[any, bson.M])
		save := func(id string) error {
			_, err := v.Edit(t.Context(), id, func(doc *bson.M) error { (*doc)["by"] = bson.NewObjectID(); return nil }, versioning.Change{})
			return err
		}
		for _, id := range []string{"replaced", "returned"} {
			w.insert(t, "policies", d("_id", id, "name", "a"))
			testkit.OK(t, save(id))
		}
		w.replace(t, "policies", bson.M{"_id": "replaced", "name": "b"})
		w.remove(t, "policies", "returned")
		w.insert(t, "policies", d("_id", "returned", "name", "b"))
		for _, id := range []string{"replaced", "returned"} {
			if err := save(id); !errors.Is(err, versioning.ErrInconsistent) {
				t.Errorf("%s: %v", id, err)
			}
		}
		w.clean(t)
		for _, id := range []string{"replaced", "returned"} {
			if r := got(v.Get(t.Context(), id))(t); r.Number != 2 || r.Document["name"] != "b" {
				t.Errorf("%s: %+v", id, r)
			}
			testkit.OK(t, save(id))
		}
	}},
	{"What old code writes takes the place of the current revision in the history. So you lose that revision as it was saved, and the history does not say who changed it and when", func(t *testing.T, w *world) {
		v := w.h.value.(*versioning.History[any, bson.M])
		save := func(name string) {
			_, err := v.Edit(t.Context(), "over", func(doc *bson.M) error { (*doc)["name"] = name; return nil }, versioning.Change{})
			testkit.OK(t, err)
		}
		w.insert(t, "policies", d("_id", "over", "name", "a"))
		save("b")
		w.update(t, "policies", d("_id", "over"), d("$set", d("name", "old code")))
		save("c")
		for n, want := range map[int64]string{1: "a", 2: "old code", 3: "c"} {
			if r := got(v.At(t.Context(), "over", n))(t); r.Document["name"] != want {
				t.Errorf("%d: %+v", n, r)
			}
		}
	}},
	{"Keep whole revisions, without `SnapshotEvery`, until the old code has stopped, because revisions that are stored as differences are read by way of the current document", func(t *testing.T, w *world) {
		v := got(versioning.New[any, bson.M](w.db.Collection("policies"), w.db.Collection("policy_revisions"), &versioning.Options{
			DocumentIDField: "policy_id", SnapshotEvery: 10,
		}))(t)
		w.insert(t, "policies", d("_id", "delta", "name", "a", "items", bson.A{"a long item", "another long item"}))
		for i := range 3 {
			_, err := v.Edit(t.Context(), "delta", func(doc *bson.M) error { (*doc)["n"] = i; return nil }, versioning.Change{})
			testkit.OK(t, err)
		}
		w.remove(t, "policies", "delta")
		if _, err := v.At(t.Context(), "delta", 2); !errors.Is(err, versioning.ErrInconsistent) {
			t.Error(err)
		}
	}},
}
