package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/outlier"
)

var outlierCases = []benchmark{
	{"outlier", "books", "Books with some 20 buyers each, and three best-sellers with thousands: the outlier pattern against all buyers in the book, and against a document for each sale, joined by $lookup.", outlierBooks},
}

const (
	buyers      = 20
	bestsellers = 3
)

func buyer(n int) string { return fmt.Sprintf("user%06d", n) }

func outlierBooks(ctx context.Context, b *bench) error {
	n, long, ops := b.size(500, 2000, 4000), b.size(4000, 10_000, 20_000), b.size(60, 300, 500)
	n = max(n, bestsellers+1)
	db := b.db()
	embedded, books, extras := db.Collection("embedded"), db.Collection("books"), db.Collection("extras")
	plain, sales := db.Collection("plain"), db.Collection("sales")
	lists, err := outlier.New[int, string](books, extras, &outlier.Options{ArrayField: "buyers", ElementIndex: true})
	if err != nil {
		return err
	}
	if err := lists.EnsureIndexes(ctx); err != nil {
		return err
	}
	// By book and place for the newest, by book and buyer to find one.
	for _, keys := range []bson.D{d("book", 1, "n", 1, "buyer", 1), d("book", 1, "buyer", 1)} {
		if err := index(ctx, sales, keys); err != nil {
			return err
		}
	}
	title := prose(b.rand, 200)
	count := func(book int) int {
		if book < bestsellers {
			return long
		}
		return buyers
	}
	book := func(i int) any {
		all := make(bson.A, count(i))
		for n := range all {
			all[n] = buyer(n)
		}
		return d("_id", i, "title", title, "buyers", all)
	}
	for _, coll := range []*mongo.Collection{embedded, books} {
		if err := fill(ctx, coll, n, book); err != nil {
			return err
		}
	}
	if _, err := lists.Adopt(ctx, nil); err != nil {
		return err
	}
	if err := fill(ctx, plain, n, func(i int) any { return d("_id", i, "title", title) }); err != nil {
		return err
	}
	for i := range n {
		if err := fill(ctx, sales, count(i), func(n int) any { return d("book", i, "n", n, "buyer", buyer(n)) }); err != nil {
			return err
		}
		b.progress(i+1, n)
	}
	err = dataSizes(ctx, b, "documents",
		sized{"all in the book", []*mongo.Collection{embedded}},
		sized{"a document each", []*mongo.Collection{plain, sales}},
		sized{"outlier", []*mongo.Collection{books, extras}})
	if err != nil {
		return err
	}

	typical := func(i int) int { return bestsellers + i%(n-bestsellers) }
	best := func(i int) int { return i % bestsellers }
	newest := options.FindOne().SetProjection(d("buyers", d("$slice", -buyers)))
	slice := func(coll *mongo.Collection, which func(i int) int) func(ctx context.Context) error {
		return times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[bson.Raw](ctx, coll, d("_id", which(i)), newest)
			return err
		})
	}
	lookup := func(which func(i int) int) func(ctx context.Context) error {
		return times(ops, func(ctx context.Context, i int) error {
			_, err := aggregate[bson.Raw](ctx, 1, plain, d("$match", d("_id", which(i))),
				d("$lookup", d("from", "sales", "localField", "_id", "foreignField", "book", "as", "buyers", "pipeline", mongo.Pipeline{
					d("$sort", d("n", -1)), d("$limit", buyers), d("$project", d("_id", 0, "buyer", 1))})))
			return err
		})
	}
	for _, page := range []struct {
		metric string
		which  func(i int) int
	}{{"title and 20 newest buyers of a typical book", typical}, {"title and 20 newest buyers of a best-seller", best}} {
		err = b.measure(ctx, page.metric, ops,
			side{name: "all in the book", run: slice(embedded, page.which)},
			side{name: "$lookup", run: lookup(page.which)},
			side{name: "outlier", run: slice(books, page.which)})
		if err != nil {
			return err
		}
	}
	// A caller who has no use for the buyers, and reads the book without a projection.
	whole := func(coll *mongo.Collection) func(ctx context.Context) error {
		return times(ops/10+1, func(ctx context.Context, i int) error {
			_, err := findOne[bson.Raw](ctx, coll, d("_id", best(i)))
			return err
		})
	}
	err = b.measure(ctx, "a best-seller read whole, without a projection", ops/10+1,
		side{name: "all in the book", run: whole(embedded)},
		side{name: "a document each", run: whole(plain)},
		side{name: "outlier", run: whole(books)})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "all buyers of a best-seller", 3,
		side{name: "all in the book", run: times(3, func(ctx context.Context, i int) error {
			_, err := findOne[struct{ Buyers []string }](ctx, embedded, d("_id", best(i)))
			return err
		})},
		side{name: "a document each", run: times(3, func(ctx context.Context, i int) error {
			_, err := findAll[struct{ Buyer string }](ctx, -1, sales, d("book", best(i)),
				options.Find().SetSort(d("n", 1)).SetProjection(d("_id", 0, "buyer", 1)))
			return err
		})},
		side{name: "outlier", run: times(3, func(ctx context.Context, i int) error {
			for _, err := range lists.All(ctx, best(i)) {
				if err != nil {
					return err
				}
			}
			return nil
		})})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "whether a best-seller has a buyer", ops,
		side{name: "all in the book", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[bson.Raw](ctx, embedded, d("_id", best(i), "buyers", buyer(i*17%long)), options.FindOne().SetProjection(d("_id", 1)))
			return err
		})},
		side{name: "a document each", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[bson.Raw](ctx, sales, d("book", best(i), "buyer", buyer(i*17%long)), options.FindOne().SetProjection(d("_id", 1)))
			return err
		})},
		side{name: "outlier", run: times(ops, func(ctx context.Context, i int) error {
			_, err := lists.Contains(ctx, best(i), buyer(i*17%long))
			return err
		})})
	if err != nil {
		return err
	}
	for _, sale := range []struct {
		metric string
		which  func(i int) int
	}{{"sale of a typical book", typical}, {"sale of a best-seller", best}} {
		err = b.measure(ctx, sale.metric, ops,
			side{name: "all in the book", run: times(ops, func(ctx context.Context, i int) error {
				_, err := embedded.UpdateOne(ctx, d("_id", sale.which(i)), d("$push", d("buyers", buyer(long+i))))
				return err
			})},
			side{name: "a document each", run: times(ops, func(ctx context.Context, i int) error {
				_, err := sales.InsertOne(ctx, d("book", sale.which(i), "n", long+i, "buyer", buyer(long+i)))
				return err
			})},
			side{name: "outlier", run: times(ops, func(ctx context.Context, i int) error {
				_, err := lists.Add(ctx, sale.which(i), buyer(long+i))
				return err
			})})
		if err != nil {
			return err
		}
	}
	return nil
}
