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

// library is books with their buyers: all in the book, in the form of the package, and a document for each.
type library struct {
	n, long                                int // books; buyers of a best-seller
	embedded, books, extras, plain, bought *mongo.Collection
	lists                                  *outlier.Lists[int, string]
}

func newLibrary(ctx context.Context, b *bench) *library {
	db := b.db()
	l := &library{n: max(b.size(500, 2000, 4000), bestsellers+1), long: b.size(4000, 10_000, 20_000),
		embedded: db.Collection("embedded"), books: db.Collection("books"), extras: db.Collection("extras"),
		plain: db.Collection("plain"), bought: db.Collection("sales")}
	l.lists = must(outlier.New[int, string](l.books, l.extras, &outlier.Options{ArrayField: "buyers", ElementIndex: true}))
	title := prose(b.rand, 200)
	book := func(i int) any {
		all := make(bson.A, l.count(i))
		for n := range all {
			all[n] = buyer(n)
		}
		return d("_id", i, "title", title, "buyers", all)
	}
	// By book and place for the newest, by book and buyer to find one.
	check(l.lists.EnsureIndexes(ctx), index(ctx, l.bought, d("book", 1, "n", 1, "buyer", 1)), index(ctx, l.bought, d("book", 1, "buyer", 1)),
		fill(ctx, l.embedded, l.n, book), fill(ctx, l.books, l.n, book),
		fill(ctx, l.plain, l.n, func(i int) any { return d("_id", i, "title", title) }))
	must(l.lists.Adopt(ctx, nil))
	for i := range l.n {
		check(fill(ctx, l.bought, l.count(i), func(n int) any { return d("book", i, "n", n, "buyer", buyer(n)) }))
		b.progress(i+1, l.n)
	}
	dataSizes(ctx, b, "documents", in("all in the book", l.embedded), in("a document each", l.plain, l.bought), in("outlier", l.books, l.extras))
	return l
}

// count is how many buyers a book has.
func (l *library) count(book int) int {
	if book < bestsellers {
		return l.long
	}
	return buyers
}

func (l *library) typical(i int) int { return bestsellers + i%(l.n-bestsellers) }
func (l *library) best(i int) int    { return i % bestsellers }

// page reads the newest buyers with the title.
func (l *library) page(metric string, ops int, which func(i int) int) comparison {
	newest := options.FindOne().SetProjection(d("buyers", d("$slice", -buyers)))
	slice := func(name string, coll *mongo.Collection) side {
		return way(name, func(ctx context.Context, i int) error {
			return errorOf(findOne[bson.Raw](ctx, coll, d("_id", which(i)), newest))
		})
	}
	return compared(metric, ops, slice("all in the book", l.embedded), way("$lookup", func(ctx context.Context, i int) error {
		return errorOf(aggregate[bson.Raw](ctx, 1, l.plain, d("$match", d("_id", which(i))),
			d("$lookup", d("from", "sales", "localField", "_id", "foreignField", "book", "as", "buyers", "pipeline", mongo.Pipeline{
				d("$sort", d("n", -1)), d("$limit", buyers), d("$project", d("_id", 0, "buyer", 1))}))))
	}), slice("outlier", l.books))
}

// whole reads best-sellers for a caller who has no use for the buyers, without a projection.
func (l *library) whole(name string, coll *mongo.Collection) side {
	return way(name, func(ctx context.Context, i int) error {
		return errorOf(findOne[bson.Raw](ctx, coll, d("_id", l.best(i))))
	})
}

func (l *library) sale(metric string, ops int, which func(i int) int) comparison {
	return compared(metric, ops,
		way("all in the book", func(ctx context.Context, i int) error {
			return errorOf(l.embedded.UpdateOne(ctx, d("_id", which(i)), d("$push", d("buyers", buyer(l.long+i)))))
		}),
		way("a document each", func(ctx context.Context, i int) error {
			return errorOf(l.bought.InsertOne(ctx, d("book", which(i), "n", l.long+i, "buyer", buyer(l.long+i))))
		}),
		way("outlier", func(ctx context.Context, i int) error { return errorOf(l.lists.Add(ctx, which(i), buyer(l.long+i))) }))
}

func outlierBooks(ctx context.Context, b *bench) []comparison {
	l, ops := newLibrary(ctx, b), b.size(60, 300, 500)
	asked := func(i int) string { return buyer(i * 17 % l.long) }
	id := options.FindOne().SetProjection(d("_id", 1))
	return []comparison{
		l.page("title and 20 newest buyers of a typical book", ops, l.typical),
		l.page("title and 20 newest buyers of a best-seller", ops, l.best),
		compared("a best-seller read whole, without a projection", ops/10+1,
			l.whole("all in the book", l.embedded), l.whole("a document each", l.plain), l.whole("outlier", l.books)),
		compared("all buyers of a best-seller", 3,
			way("all in the book", func(ctx context.Context, i int) error {
				return errorOf(findOne[struct{ Buyers []string }](ctx, l.embedded, d("_id", l.best(i))))
			}),
			way("a document each", func(ctx context.Context, i int) error {
				return errorOf(findAll[struct{ Buyer string }](ctx, -1, l.bought, d("book", l.best(i)),
					options.Find().SetSort(d("n", 1)).SetProjection(d("_id", 0, "buyer", 1))))
			}),
			way("outlier", func(ctx context.Context, i int) error { return drain(l.lists.All(ctx, l.best(i))) })),
		compared("whether a best-seller has a buyer", ops,
			way("all in the book", func(ctx context.Context, i int) error {
				return errorOf(findOne[bson.Raw](ctx, l.embedded, d("_id", l.best(i), "buyers", asked(i)), id))
			}),
			way("a document each", func(ctx context.Context, i int) error {
				return errorOf(findOne[bson.Raw](ctx, l.bought, d("book", l.best(i), "buyer", asked(i)), id))
			}),
			way("outlier", func(ctx context.Context, i int) error { return errorOf(l.lists.Contains(ctx, l.best(i), asked(i))) })),
		l.sale("sale of a typical book", ops, l.typical),
		l.sale("sale of a best-seller", ops, l.best),
	}
}
