package main

import (
	"context"

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

// shop is orders with copies of their customers, and without.
type shop struct {
	n, copies, few, people int // orders of those with few; of customer 0; of each of the others; customers
	notes                  string
	ref                    *extref.Source[int, customer]

	customers, orders, plainCustomers, plainOrders *mongo.Collection
}

func newShop(ctx context.Context, b *bench) *shop {
	db := b.db()
	s := &shop{
		n: b.size(4000, 20_000, 50_000), copies: b.size(1000, 1000, 1000), notes: prose(b.rand, 1500),
		customers: db.Collection("customers"), orders: db.Collection("orders"),
		plainCustomers: db.Collection("plain_customers"), plainOrders: db.Collection("plain_orders"),
	}
	s.few = min(10, s.n)
	s.people = s.n/s.few + 1
	s.ref = must(extref.New[int, customer](s.customers, []extref.Target{{
		Collection: s.orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
	}}, nil))
	check(s.ref.EnsureIndexes(ctx), index(ctx, s.plainOrders, d("customer_id", 1)), index(ctx, s.plainCustomers, d("name", 1)),
		index(ctx, s.orders, d("customer.name", 1, "total", -1)),
		fill(ctx, s.customers, s.people, func(i int) any { return s.who(i) }),
		fill(ctx, s.plainCustomers, s.people, func(i int) any { return s.who(i) }),
		fill(ctx, s.plainOrders, s.n+s.copies, func(i int) any { return d("_id", i, "customer_id", s.of(i), "total", i%1000) }),
		fill(ctx, s.orders, s.n+s.copies, func(i int) any {
			return d("_id", i, "customer", must(s.ref.Copy("orders.customer", s.who(s.of(i)))), "total", i%1000)
		}))
	dataSizes(ctx, b, "documents", in("no copies", s.plainCustomers, s.plainOrders), in("extref", s.customers, s.orders))
	return s
}

func (s *shop) who(i int) customer {
	return customer{ID: i, Name: "Katrina Pope " + s.notes[i%1000:i%1000+5], City: "Springfield", Notes: s.notes, Version: 1}
}

// of is the customer of an order: customer 0 has 1,000, the others have 10.
func (s *shop) of(i int) int {
	if i < s.copies {
		return 0
	}
	return 1 + (i-s.copies)/s.few%(s.people-1)
}

// page is a list that begins anywhere, as a page of many does.
func (s *shop) page(i int) (bson.D, *options.FindOptionsBuilder) {
	return d("_id", d("$gte", i*37%s.n)), options.Find().SetSort(d("_id", 1)).SetLimit(20)
}

func (s *shop) twoQueries(ctx context.Context, i int) error {
	filter, opts := s.page(i)
	found, err := findAll[order](ctx, -1, s.plainOrders, filter, opts)
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
	customers, err := findAll[customer](ctx, len(ids), s.plainCustomers, d("_id", d("$in", ids)), options.Find().SetProjection(d("name", 1, "city", 1)))
	for _, c := range customers {
		seen[c.ID] = c
	}
	for i := range found {
		found[i].Customer = seen[found[i].CustomerID]
	}
	return err
}

// change changes a name: by hand as a program without the package does for the same promise. A version in
// the copies is not needed while all writes are of this kind.
func (s *shop) change(b *bench, metric string, ops int, who func(i int) int) comparison {
	set := func(i int) bson.D { return d("$set", d("name", "Katrina Pop "+s.notes[i%1000:i%1000+6])) }
	return compared(metric, ops,
		way("no copies", func(ctx context.Context, i int) error {
			return errorOf(s.plainCustomers.UpdateOne(ctx, d("_id", who(i)), set(i)))
		}),
		way("copies by hand", func(ctx context.Context, i int) error {
			name := "Katrina Pope " + s.notes[i%1000:i%1000+7]
			return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
				if _, err := s.customers.UpdateOne(ctx, d("_id", who(i)), d("$set", d("name", name), "$inc", d("version", 1))); err != nil {
					return err
				}
				return errorOf(s.orders.UpdateMany(ctx, d("customer._id", who(i)), d("$set", d("customer.name", name), "$inc", d("customer.version", 1))))
			})
		}),
		way("extref", func(ctx context.Context, i int) error { return errorOf(s.ref.Update(ctx, who(i), set(i))) }))
}

func extrefOrders(ctx context.Context, b *bench) []comparison {
	s, ops := newShop(ctx, b), b.size(100, 400, 500)
	return []comparison{
		compared("list of 20 orders with names", ops,
			way("$lookup", func(ctx context.Context, i int) error {
				filter, _ := s.page(i)
				return errorOf(aggregate[order](ctx, -1, s.plainOrders, d("$match", filter), d("$sort", d("_id", 1)), d("$limit", 20),
					d("$lookup", d("from", s.plainCustomers.Name(), "localField", "customer_id", "foreignField", "_id", "as", "customer",
						"pipeline", mongo.Pipeline{d("$project", d("name", 1, "city", 1))})),
					d("$unwind", "$customer")))
			}),
			way("two queries", s.twoQueries),
			way("extref", func(ctx context.Context, i int) error {
				filter, opts := s.page(i)
				return errorOf(findAll[order](ctx, -1, s.orders, filter, opts))
			})),
		compared("the 10 largest orders of customers of a name", ops/10+1,
			way("$lookup", func(ctx context.Context, i int) error {
				return errorOf(aggregate[bson.Raw](ctx, -1, s.plainCustomers, d("$match", d("name", s.who(i%s.people).Name)), d("$project", d("name", 1, "city", 1)),
					d("$lookup", d("from", s.plainOrders.Name(), "localField", "_id", "foreignField", "customer_id", "as", "orders")),
					d("$unwind", "$orders"), d("$sort", d("orders.total", -1)), d("$limit", 10)))
			}),
			way("extref", func(ctx context.Context, i int) error {
				return errorOf(findAll[bson.Raw](ctx, -1, s.orders, d("customer.name", s.who(i%s.people).Name), options.Find().SetSort(d("total", -1)).SetLimit(10)))
			})),
		s.change(b, "change of a name with 10 copies", b.size(40, 100, 200), func(i int) int { return 1 + i%(s.people-1) }),
		s.change(b, "change of a name with 1,000 copies", b.size(2, 5, 10), func(int) int { return 0 }),
		compared("change of a field without copies", ops,
			way("no copies", func(ctx context.Context, i int) error {
				return errorOf(s.plainCustomers.UpdateOne(ctx, d("_id", i%s.people), d("$inc", d("visits", 1))))
			}),
			way("extref", func(ctx context.Context, i int) error {
				return errorOf(s.ref.Update(ctx, i%s.people, d("$inc", d("visits", 1))))
			})),
	}
}
