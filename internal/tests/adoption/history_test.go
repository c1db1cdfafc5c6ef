//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// openHistory is versioning over a history that old code keeps by hand: {policy, v, was}.
func openHistory(db *mongo.Database) (helper, error) {
	v, err := versioning.New[any, bson.M](db.Collection("policies"), db.Collection("policy_history"), nil)
	if err != nil {
		return helper{}, err
	}
	row := func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		if row.Lookup("policy").Type == 0 {
			return nil, nil
		}
		return &versioning.Revision[bson.Raw]{Number: int64(row.Lookup("v").Int32()), Document: row.Lookup("was").Document()}, nil
	}
	return helper{
		ensure: v.EnsureIndexes, check: v.Check, repair: v.Repair, value: v,
		// First the history, then the documents, which go on counting where it ends.
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			result, err := v.AdoptRevisions(ctx, row, work)
			if err != nil {
				return result, err
			}
			var documents mongopatterns.Result
			documents, err = v.Adopt(ctx, nil, work)
			result.Done += documents.Done
			result.Failed += documents.Failed
			result.Remaining += documents.Remaining
			return result, err
		},
	}, nil
}

// startHistory has old code that keeps each state before it changes it. New code writes
// documents of its own and those that old code has left to it.
func startHistory(w *world) service {
	v := w.h.value.(*versioning.History[any, bson.M])
	m := &model{coll: w.db.Collection("policies")}
	rows := w.db.Collection("policy_history")
	states := func(r *record) []bson.M { list, _ := r.tags["states"].([]bson.M); return list }
	keep := func(r *record) {
		m.mu.Lock()
		defer m.mu.Unlock()
		r.tags["states"] = append(states(r), normal(r.doc).(bson.M))
	}
	save := func(ctx context.Context, c *client, r *record) error {
		n := int32(len(states(r)) + 1)
		row := d("_id", c.id(), "policy", r.id, "v", n, "was", r.doc)
		if _, err := rows.InsertOne(ctx, row); err != nil {
			return err
		}
		keep(r)
		return m.update(ctx, r, d("$set", d("name", c.text())))
	}
	c := newClient('S', time30)
	for i := range 60 {
		m.seed(w, bson.M{"_id": int32(i), "name": c.text()})
		for range i % 4 {
			testkit.OK(w.t, save(w.t.Context(), c, m.all[i]))
		}
	}
	theirs := func(r *record) bool { return alive(r) && r.tags["ours"] == nil }
	ours := func(r *record) bool { return alive(r) && r.tags["ours"] != nil }
	old := []op{
		m.write("save", theirs, save), m.write("save", theirs, save),
		m.inserted(func(c *client) bson.M { return bson.M{"name": c.text()} }),
	}
	by := versioning.Change{Author: "new code"}
	fresh := []op{
		{"Create", func(ctx context.Context, c *client) error {
			doc := bson.M{"_id": c.id(), "name": c.text()}
			_, err := v.Insert(ctx, doc, by)
			if err == nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.all = append(m.all, &record{id: doc["_id"], doc: normal(doc).(bson.M), tags: map[string]any{"ours": true}})
			}
			return err
		}},
		m.write("Update", ours, func(ctx context.Context, c *client, r *record) error {
			name := c.text()
			_, err := v.Edit(ctx, r.id, func(doc *bson.M) error { (*doc)["name"] = name; return nil }, by)
			if err == nil {
				keep(r)
				m.follow(r, d("$set", d("name", name)))
			}
			return err
		}),
	}
	plain := func(doc bson.M) bson.M { return without(normal(doc).(bson.M), "revision", "change") }
	oracle := func(t *testing.T) {
		for _, r := range m.living() {
			name := fmt.Sprint(r.id)
			same(t, name, plain(got(v.Get(t.Context(), r.id))(t).Document), r.doc)
			for i, want := range states(r) {
				rev, err := v.At(t.Context(), r.id, int64(i+1))
				if err != nil {
					differ(t, "%s: revision %d: %v", name, i+1, err)
					continue
				}
				same(t, fmt.Sprint(name, " at ", i+1), plain(rev.Document), want)
			}
		}
		n := 0
		for _, r := range m.living() {
			n += len(states(r))
		}
		if rows := len(read(t, rows)); rows != n {
			t.Errorf("%d rows, want %d", rows, n)
		}
	}

	return service{old: old, fresh: fresh, oracle: oracle}
}
