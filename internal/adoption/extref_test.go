package adoption_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
)

const orderCopies = "orders.customer"

func openExtref(db *mongo.Database) (helper, error) {
	r, err := extref.New[any, bson.M](db.Collection("customers"), []extref.Target{{
		Collection: db.Collection("orders"), Path: "customer",
		Fields: []extref.Field{{Path: "name"}, {Path: "address", Policy: extref.Freeze}},
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

func startExtref(w *world) service {
	r := w.h.value.(*extref.Ref[any, bson.M])
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
					if err == nil {
						doc["customer"] = copied
						_, err = m.coll.InsertOne(ctx, doc)
					}
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

var extrefSays = []sentence{}
