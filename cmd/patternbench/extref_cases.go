package main

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
)

var extrefCases = []benchmark{
	{"extref", "orders", "Lists of 20 orders with the names of their customers, which the orders hold copies of, against $lookup and a second query; and what a change of a name costs, with 10 and with 1,000 copies.", extrefOrders},
}

type customer struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	City    string `bson:"city"`
	Notes   string `bson:"notes"`
	Version int64  `bson:"version,omitempty"`
}

type order struct {
	ID         int      `bson:"_id"`
	CustomerID int      `bson:"customer_id"`
	Customer   customer `bson:"customer"`
	Total      int      `bson:"total"`
}

func extrefOrders(ctx context.Context, b *bench) error {
	n, copies, ops := b.size(4000, 20_000, 50_000), b.size(1000, 1000, 1000), b.size(100, 400, 500)
	small := min(10, n)
	people := n/small + 1
	db := b.db()
	customers, orders := db.Collection("customers"), db.Collection("orders")
	plainCustomers, plainOrders := db.Collection("plain_customers"), db.Collection("plain_orders")
	ref, err := extref.New[int, customer](customers, []extref.Target{{
		Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
	}}, nil)
	if err != nil {
		return err
	}
	if err := ref.EnsureIndexes(ctx); err != nil {
		return err
	}
	notes := prose(b.rand, 1500)
	who := func(i int) customer {
		return customer{ID: i, Name: "Katrina Pope " + notes[i%1000:i%1000+5], City: "Springfield", Notes: notes, Version: 1}
	}
	for _, coll := range []*mongo.Collection{customers, plainCustomers} {
		if err := fill(ctx, coll, people, func(i int) any { return who(i) }); err != nil {
			return err
		}
	}
	if err := index(ctx, plainOrders, d("customer_id", 1)); err != nil {
		return err
	}
	// Customer 0 has 1,000 orders, the others have 10.
	of := func(i int) int {
		if i < copies {
			return 0
		}
		return 1 + (i-copies)/small%(people-1)
	}
	if err := fill(ctx, plainOrders, n+copies, func(i int) any { return d("_id", i, "customer_id", of(i), "total", i%1000) }); err != nil {
		return err
	}
	var failed error
	err = fill(ctx, orders, n+copies, func(i int) any {
		copied, err := ref.Reference("orders.customer", who(of(i)))
		failed = errors.Join(failed, err)
		return d("_id", i, "customer", copied, "total", i%1000)
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	err = dataSizes(ctx, b, "documents",
		sized{"no copies", []*mongo.Collection{plainCustomers, plainOrders}},
		sized{"extref", []*mongo.Collection{customers, orders}})
	if err != nil {
		return err
	}

	// The list begins anywhere, as a page of many does.
	page := func(i int) (bson.D, *options.FindOptionsBuilder) {
		return d("_id", d("$gte", i*37%n)), options.Find().SetSort(d("_id", 1)).SetLimit(20)
	}
	err = b.measure(ctx, "list of 20 orders with names", ops,
		side{name: "$lookup", run: times(ops, func(ctx context.Context, i int) error {
			filter, _ := page(i)
			_, err := aggregate[order](ctx, -1, plainOrders, d("$match", filter), d("$sort", d("_id", 1)), d("$limit", 20),
				d("$lookup", d("from", plainCustomers.Name(), "localField", "customer_id", "foreignField", "_id", "as", "customer",
					"pipeline", mongo.Pipeline{d("$project", d("name", 1, "city", 1))})),
				d("$unwind", "$customer"))
			return err
		})},
		side{name: "two queries", run: times(ops, func(ctx context.Context, i int) error {
			filter, opts := page(i)
			found, err := findAll[order](ctx, -1, plainOrders, filter, opts)
			if err != nil {
				return err
			}
			var ids []int
			seen := map[int]customer{}
			for _, o := range found {
				if _, ok := seen[o.CustomerID]; !ok {
					ids, seen[o.CustomerID] = append(ids, o.CustomerID), customer{}
				}
			}
			customers, err := findAll[customer](ctx, len(ids), plainCustomers, d("_id", d("$in", ids)), options.Find().SetProjection(d("name", 1, "city", 1)))
			for _, c := range customers {
				seen[c.ID] = c
			}
			for i := range found {
				found[i].Customer = seen[found[i].CustomerID]
			}
			return err
		})},
		side{name: "extref", run: times(ops, func(ctx context.Context, i int) error {
			filter, opts := page(i)
			_, err := findAll[order](ctx, -1, orders, filter, opts)
			return err
		})})
	if err != nil {
		return err
	}
	finds := ops/10 + 1
	if err := index(ctx, plainCustomers, d("name", 1)); err != nil {
		return err
	}
	if err := index(ctx, orders, d("customer.name", 1, "total", -1)); err != nil {
		return err
	}
	err = b.measure(ctx, "the 10 largest orders of customers of a name", finds,
		side{name: "$lookup", run: times(finds, func(ctx context.Context, i int) error {
			_, err := aggregate[bson.Raw](ctx, -1, plainCustomers, d("$match", d("name", who(i%people).Name)), d("$project", d("name", 1, "city", 1)),
				d("$lookup", d("from", plainOrders.Name(), "localField", "_id", "foreignField", "customer_id", "as", "orders")),
				d("$unwind", "$orders"), d("$sort", d("orders.total", -1)), d("$limit", 10))
			return err
		})},
		side{name: "extref", run: times(finds, func(ctx context.Context, i int) error {
			_, err := findAll[bson.Raw](ctx, -1, orders, d("customer.name", who(i%people).Name), options.Find().SetSort(d("total", -1)).SetLimit(10))
			return err
		})})
	if err != nil {
		return err
	}

	// byHand is what a program without the package writes for the same promise. A
	// version in the copies is not needed while all writes are of this kind.
	byHand := func(ctx context.Context, id int, name string) error {
		return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
			if _, err := customers.UpdateOne(ctx, d("_id", id), d("$set", d("name", name), "$inc", d("version", 1))); err != nil {
				return err
			}
			_, err := orders.UpdateMany(ctx, d("customer._id", id), d("$set", d("customer.name", name), "$inc", d("customer.version", 1)))
			return err
		})
	}
	for _, change := range []struct {
		metric string
		ops    int
		who    func(i int) int
	}{
		{"change of a name with 10 copies", b.size(40, 100, 200), func(i int) int { return 1 + i%(people-1) }},
		{"change of a name with 1,000 copies", b.size(2, 5, 10), func(int) int { return 0 }},
	} {
		set := func(i int) bson.D { return d("$set", d("name", "Katrina Pop "+notes[i%1000:i%1000+6])) }
		err = b.measure(ctx, change.metric, change.ops,
			side{name: "no copies", run: times(change.ops, func(ctx context.Context, i int) error {
				_, err := plainCustomers.UpdateOne(ctx, d("_id", change.who(i)), set(i))
				return err
			})},
			side{name: "copies by hand", run: times(change.ops, func(ctx context.Context, i int) error {
				return byHand(ctx, change.who(i), "Katrina Pope "+notes[i%1000:i%1000+7])
			})},
			side{name: "extref", run: times(change.ops, func(ctx context.Context, i int) error {
				_, err := ref.Update(ctx, change.who(i), set(i))
				return err
			})})
		if err != nil {
			return err
		}
	}
	return b.measure(ctx, "change of a field without copies", ops,
		side{name: "no copies", run: times(ops, func(ctx context.Context, i int) error {
			_, err := plainCustomers.UpdateOne(ctx, d("_id", i%people), d("$inc", d("visits", 1)))
			return err
		})},
		side{name: "extref", run: times(ops, func(ctx context.Context, i int) error {
			_, err := ref.Update(ctx, i%people, d("$inc", d("visits", 1)))
			return err
		})})
}
