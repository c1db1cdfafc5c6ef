package main

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/archive"
)

var archiveCases = []benchmark{
	{"archive", "orders", "A year of closed orders moved to another collection and back, 100 in a transaction, against a find, an insertMany and a deleteMany by hand in the same transactions. All are committed by the majority.", archiveOrders},
}

// sold are the collection of orders, where every second order is a year old, and that of archived orders.
type sold struct{ orders, old *mongo.Collection }

func soldIn(db *mongo.Database) sold {
	return sold{db.Collection("orders"), db.Collection("orders_old")}
}

func (s sold) archive() *archive.Archive {
	return must(archive.New(s.orders, s.old, &archive.Options{TimeField: "closed_at"}))
}

// byHand moves the documents that filter selects, 100 in a transaction.
func (s sold) byHand(ctx context.Context, from, to *mongo.Collection, filter bson.D) (done int64, err error) {
	const size = 100
	for moved := size; moved == size && err == nil; done += int64(moved) {
		moved = 0
		err = byHand(ctx, from.Database().Client(), func(ctx context.Context) error {
			batch, err := findAll[bson.Raw](ctx, -1, from, filter, options.Find().SetLimit(size))
			if err != nil || len(batch) == 0 {
				return err
			}
			ids := make(bson.A, len(batch))
			for i, order := range batch {
				ids[i] = order.Lookup("_id")
			}
			if _, err := to.InsertMany(ctx, batch); err != nil {
				return err
			}
			moved = len(batch)
			deleted, err := from.DeleteMany(ctx, d("_id", d("$in", ids)))
			if err != nil {
				return err
			}
			return want(int(deleted.DeletedCount), moved)
		})
	}
	return done, err
}

func archiveOrders(_ context.Context, b *bench) []comparison {
	n, text := b.size(1000, 5000, 20_000), prose(b.rand, 400)
	order := func(i int, more ...bson.E) any {
		closed := winter.AddDate(-i%2, 0, 0)
		return append(d("_id", i, "customer", i%97, "closed_at", closed, "note", text, "lines", bson.A{d("sku", "a", "n", 2), d("sku", "b", "n", 1)}), more...)
	}
	year := d("closed_at", d("$lt", winter))
	away := adoption{"an order archived", n, func(ctx context.Context, db *mongo.Database) error {
		s := soldIn(db)
		return cmp.Or(s.archive().EnsureIndexes(ctx), fill(ctx, s.orders, 2*n, func(i int) any { return order(i) }))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		s := soldIn(db)
		return s.byHand(ctx, s.orders, s.old, year)
	}}, {"archive", func(ctx context.Context, db *mongo.Database) (int64, error) {
		a := soldIn(db).archive()
		return doneOf(a.Move(ctx, a.BeforeFilter(winter), nil))
	}}}}
	back := adoption{"an order restored", n, func(ctx context.Context, db *mongo.Database) error {
		s := soldIn(db)
		return cmp.Or(s.archive().EnsureIndexes(ctx), fill(ctx, s.orders, n, func(i int) any { return order(2 * i) }),
			fill(ctx, s.old, n, func(i int) any { return order(2*i+1, e("archived_at", winter)) }))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		s := soldIn(db)
		return s.byHand(ctx, s.old, s.orders, d())
	}}, {"archive", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return doneOf(soldIn(db).archive().Restore(ctx, d(), nil))
	}}}}
	return []comparison{away.comparison(b), back.comparison(b)}
}
