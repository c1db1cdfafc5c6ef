//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// The steps between structs: they derive a total from what stays, and a label inside a document that
// they do not show whole.
type (
	place      struct{ City string }
	labelled   struct{ City, Label string }
	typedOrder struct {
		Price, Count int32
		Address      place
	}
	typedInvoice struct {
		Price, Count, Total int32
		Address             labelled
	}
)

var typedSteps = []schemaversion.Step{
	schemaversion.Between(func(o typedOrder) (typedInvoice, error) {
		return typedInvoice{o.Price, o.Count, o.Price * o.Count, labelled{o.Address.City, strings.ToUpper(o.Address.City)}}, nil
	}, nil),
}

func openTyped(db *mongo.Database) (helper, error) {
	return openSteps(db.Collection("orders"), typedSteps)
}

func startTyped(w *world) service {
	v := w.h.value.(*schemaversion.Collection[bson.M])
	m := &model{coll: w.db.Collection("orders")}
	order := func(c *client) bson.M {
		return bson.M{"price": c.int(100), "count": c.int(10), "address": bson.M{"city": c.text(), "note": c.text()}}
	}
	c := newClient('S', time30)
	for i := range 80 {
		m.seed(w, merged(order(c), bson.M{"_id": int32(i)}))
	}
	note := func(c *client) bson.D { return d("$set", d("address.note", c.text())) }
	old := join(m.own(), m.deleted(alive, order), []op{
		m.inserted(order),
		m.write("replace", alive, func(ctx context.Context, c *client, r *record) error { return m.replace(ctx, r, order(c)) }),
		m.write("$set of what the steps do not show", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, note(c))
		}),
	})
	fresh := []op{
		m.write("Update", alive, func(ctx context.Context, c *client, r *record) error {
			change := note(c)
			err := v.Update(ctx, r.id, change)
			if err == nil {
				m.follow(r, change)
			}
			return err
		}),
	}
	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			name, address := fmt.Sprint(r.id), r.doc["address"].(bson.M)
			want := merged(r.doc, bson.M{
				"total":   r.doc["price"].(int32) * r.doc["count"].(int32),
				"address": merged(address, bson.M{"label": strings.ToUpper(address["city"].(string))}),
			})
			same(t, name, without(stored[name], "schema_version"), want)
			same(t, name+": Get", without(normal(got(v.Get(t.Context(), r.id))(t)).(bson.M), "schema_version"), want)
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d orders that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}
