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
	"github.com/mongopatterns/mongopatterns/extref"
)

const orderCopies = "orders.customer"

func openExtref(db *mongo.Database) (helper, error) {
	r, err := extref.New[any, bson.M](db.Collection("customers"), []extref.Target{{
		Collection: db.Collection("orders"), Path: "customer",
		Fields: []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}},
	}}, nil)
	if err != nil {
		return helper{}, err
	}
	return helper{
		ensure: r.EnsureIndexes, check: r.Check, repair: r.Repair, value: r,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return r.Adopt(ctx, orderCopies, work)
		},
	}, nil
}

// watchedExtref has Watch follow while old code is there, so that Repair has nothing to do.
func watchedExtref(w *world) service {
	r := w.h.value.(*extref.Source[any, bson.M])
	s := startExtref(w)
	s.follow = func(ctx context.Context) error {
		return r.Watch(ctx, w.db.Collection("tokens"), &extref.WatchOptions{MaxAwait: 50 * time.Millisecond})
	}
	return s
}

func startExtref(w *world) service {
	r := w.h.value.(*extref.Source[any, bson.M])
	customers := &model{coll: w.db.Collection("customers")}
	m := &model{coll: w.db.Collection("orders")}
	c := newClient('S', time30)
	customer := func(c *client) bson.M { return bson.M{"name": c.text(), "address": c.text()} }
	addresses := map[any]map[any]bool{} // that a customer had, under customers.mu
	lived := func(r *record) {
		customers.mu.Lock()
		defer customers.mu.Unlock()
		if addresses[r.id] == nil {
			addresses[r.id] = map[any]bool{}
		}
		addresses[r.id][r.doc["address"]] = true
	}
	for i := range 15 {
		customers.seed(w, merged(customer(c), bson.M{"_id": int32(i)}))
		lived(customers.all[i])
	}
	// order is one as old code writes it, of a customer that is held.
	order := func(c *client, of *record) bson.M {
		customers.mu.Lock()
		defer customers.mu.Unlock()
		copied := bson.M{"_id": of.id}
		if c.IntN(2) == 0 {
			copied["name"], copied["address"] = of.doc["name"], of.doc["address"]
		}
		return bson.M{"customer": copied}
	}
	for i := range 80 {
		m.seed(w, merged(order(c, customers.all[c.IntN(15)]), bson.M{"_id": int32(i)}))
	}
	with := func(c *client, do func(of *record) error) error {
		of, release, err := customers.share(c, alive)
		if err != nil {
			return err
		}
		defer release()
		return do(of)
	}
	old := join(m.own(), []op{
		{"insert", func(ctx context.Context, c *client) error {
			return with(c, func(of *record) error { return m.insert(ctx, merged(order(c, of), bson.M{"_id": c.id()})) })
		}},
		{"insert a source", func(ctx context.Context, c *client) error {
			doc := merged(customer(c), bson.M{"_id": c.id()})
			if err := customers.insert(ctx, doc); err != nil {
				return err
			}
			lived(&record{id: doc["_id"], doc: doc})
			return nil
		}},
		m.write("delete", alive, func(ctx context.Context, c *client, r *record) error { return m.remove(ctx, r) }),
		m.write("insert again", func(r *record) bool { return r.doc == nil }, func(ctx context.Context, c *client, r *record) error {
			return with(c, func(of *record) error { return m.revive(ctx, r, order(c, of)) })
		}),
		m.write("replace", alive, func(ctx context.Context, c *client, r *record) error {
			return with(c, func(of *record) error { return m.replace(ctx, r, order(c, of)) })
		}),
		m.write("another customer", alive, func(ctx context.Context, c *client, r *record) error {
			return with(c, func(of *record) error { return m.update(ctx, r, d("$set", d("customer", order(c, of)["customer"]))) })
		}),
		customers.write("change a source", alive, func(ctx context.Context, c *client, r *record) error {
			err := customers.update(ctx, r, d("$set", d([]string{"name", "address"}[c.IntN(2)], c.text())))
			lived(r)
			return err
		}),
		customers.write("replace a source", alive, func(ctx context.Context, c *client, r *record) error {
			err := customers.replace(ctx, r, customer(c))
			lived(r)
			return err
		}),
		customers.write("insert a source again", alive, func(ctx context.Context, c *client, r *record) error {
			doc := merged(customer(c), bson.M{"_id": r.id})
			stored := merged(doc)
			if c.IntN(2) == 0 {
				stored["version"] = int64(1)
			}
			_, err := customers.coll.DeleteOne(ctx, d("_id", r.id))
			if err == nil {
				_, err = customers.coll.InsertOne(ctx, stored)
			}
			if err == nil {
				customers.set(r, doc)
				lived(r)
			}
			return err
		}),
	})
	fresh := []op{
		customers.write("Update", alive, func(ctx context.Context, c *client, rec *record) error {
			change := d("$set", d("name", c.text()))
			_, err := r.Update(ctx, rec.id, change)
			if err == nil {
				customers.follow(rec, change)
			}
			return err
		}),
		{"insert by Pin", func(ctx context.Context, c *client) error {
			return with(c, func(of *record) error {
				doc := bson.M{"_id": c.id()}
				err := mongopatterns.Transact(ctx, w.db.Client(), func(ctx context.Context) error {
					copied, err := r.Pin(ctx, orderCopies, of.id)
					if err != nil {
						return err
					}
					doc["customer"] = copied
					_, err = m.coll.InsertOne(ctx, doc)
					return err
				})
				if err == nil {
					m.put(merged(doc, bson.M{"customer": without(normal(doc["customer"]).(bson.M), "version")}))
				}
				return err
			})
		}},
	}
	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		sources := read(t, customers.coll)
		for _, rec := range customers.living() {
			same(t, fmt.Sprint("source ", rec.id), without(sources[fmt.Sprint(rec.id)], "version"), rec.doc)
		}
		now := map[any]bson.M{}
		for _, rec := range customers.living() {
			now[rec.id] = rec.doc
		}
		for _, rec := range m.living() {
			name := fmt.Sprint(rec.id)
			want := rec.doc["customer"].(bson.M)
			have := stored[name]["customer"].(bson.M)
			of := want["_id"]
			if have["name"] != now[of]["name"] {
				differ(t, "%s: customer %v is called %v, want %v", name, of, have["name"], now[of]["name"])
			}
			if frozen := want["address"]; frozen != nil && have["address"] != frozen || frozen == nil && !addresses[of][have["address"]] {
				differ(t, "%s: the address %v of customer %v is not %v", name, have["address"], of, frozen)
			}
			same(t, name, without(stored[name], "customer"), without(rec.doc, "customer"))
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d orders that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// placed is a customer, with the _id, and an order of the same, after Adopt.
func placed(t *testing.T, w *world, id string) {
	t.Helper()
	w.insert(t, "customers", d("_id", id, "name", "before", "address", "before"))
	w.insert(t, "orders", d("_id", id, "customer", d("_id", id)))
	w.clean(t)
}

func copied(t *testing.T, w *world, id string) any {
	t.Helper()
	return w.stored(t, "orders", id)["customer"].(bson.M)["name"]
}

var extrefSays = []sentence{
	{"Adopt overwrites copies with their sources, and gives both versions. Before, Check names what it overwrites, as `NoVersion`. A copy whose value the source lacks is Remaining, until you set the one or unset the other", func(t *testing.T, w *world) {
		w.insert(t, "customers", d("_id", "nameless", "address", "a"))
		w.insert(t, "orders", d("_id", "nameless", "customer", d("_id", "nameless", "name", "only here")))
		result, problems := w.again(t)
		if result.Remaining != 1 || copied(t, w, "nameless") != "only here" {
			t.Errorf("%+v", result)
		}
		named(t, problems, extref.NoVersion, "nameless")
		w.remove(t, "orders", "nameless")
		placed(t, w, "both")
		if w.stored(t, "customers", "both")["version"] == nil || w.stored(t, "orders", "both")["customer"].(bson.M)["version"] == nil {
			t.Errorf("%v %v", w.stored(t, "customers", "both"), w.stored(t, "orders", "both"))
		}
	}},
	{"change and replace sources, and delete sources and insert them again, with an old version or without one",
		meanwhile("insert a source", "change a source", "replace a source", "insert a source again")},
	{"insert, replace and delete documents whose references have no version", meanwhile("insert", "replace", "delete", "insert again", "another customer")},
	{"write into copies, as code does that keeps them by hand, because an older value that arrives late stays until the source changes again or Repair runs", func(t *testing.T, w *world) {
		r := w.h.value.(*extref.Source[any, bson.M])
		placed(t, w, "copies")
		write := d("$set", d("customer.name", "by old code"))
		w.update(t, "orders", d("_id", "copies"), write)
		got(r.Update(t.Context(), "copies", d("$set", d("name", "after"))))(t)
		if name := copied(t, w, "copies"); name != "after" {
			t.Error(name)
		}
		w.update(t, "orders", d("_id", "copies"), write)
		if left := w.repaired(t); len(left) != 0 || copied(t, w, "copies") != "after" {
			t.Error(left, copied(t, w, "copies"))
		}
	}},
	{"delete a source for good, because its copies then dangle, which Check reports", func(t *testing.T, w *world) {
		placed(t, w, "gone")
		w.remove(t, "customers", "gone")
		_, problems := w.again(t)
		named(t, problems, mongopatterns.Dangling, "gone")
		w.remove(t, "orders", "gone")
	}},
	{"Without `Watch`, the copies stay out of date until Repair", func(t *testing.T, w *world) {
		placed(t, w, "behind")
		w.update(t, "customers", d("_id", "behind"), d("$set", d("name", "after")))
		_, problems := w.again(t)
		if len(problems) == 0 || copied(t, w, "behind") != "before" {
			t.Error(problems, copied(t, w, "behind"))
		}
		if left := w.repaired(t); len(left) != 0 || copied(t, w, "behind") != "after" {
			t.Error(left, copied(t, w, "behind"))
		}
	}},
	{"The second Adopt fills in the new references", func(t *testing.T, w *world) {
		placed(t, w, "new")
		w.insert(t, "orders", d("_id", "newer", "customer", d("_id", "new")))
		w.clean(t)
		if name := copied(t, w, "newer"); name != "before" {
			t.Error(name)
		}
	}},
}

var watchSays = []sentence{
	{"Let `Watch` run until the old code is gone, because it raises the source's version and writes the copies",
		// The harness has waited until Check found nothing, before Repair.
		meanwhile("change a source", "replace a source")},
}
