package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
)

var subsetCases = []benchmark{
	{"subset", "product page", "Products with 100 reviews each: the page of a product with its 10 newest reviews from the product that keeps them, against all reviews in the product, $lookup and a second query; and what a new review costs.", subsetPage},
	{"split", "film list", "Films with 4 KB that only their own page shows: lists of 20 and pages, in two collections and in one.", splitList},
}

const (
	reviewsEach = 100
	reviewsKept = 10
)

type review struct {
	ID     int       `bson:"_id"`
	Author string    `bson:"author"`
	Rating int       `bson:"rating"`
	Date   time.Time `bson:"date"`
	Text   string    `bson:"text"`
}

type product struct {
	ID      int      `bson:"_id"`
	Name    string   `bson:"name"`
	Reviews []review `bson:"reviews"`
}

func subsetPage(ctx context.Context, b *bench) error {
	n, ops := b.size(100, 400, 500), b.size(100, 400, 1000)
	db := b.db()
	embedded, products, reviews := db.Collection("embedded"), db.Collection("products"), db.Collection("reviews")
	bare, plain := db.Collection("bare"), db.Collection("plain_reviews")
	sub, err := subset.New[int, review](products, reviews, &subset.Options{
		ParentField: "product", ArrayField: "reviews", Order: d("date", -1), CountField: "num_reviews", N: reviewsKept,
	})
	if err != nil {
		return err
	}
	if err := sub.EnsureIndexes(ctx); err != nil {
		return err
	}
	order := d("date", -1, "_id", -1)
	if err := index(ctx, plain, append(d("product", 1), order...)); err != nil {
		return err
	}
	name, text := prose(b.rand, 300), prose(b.rand, 400)
	start := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)
	item := func(i int) review {
		return review{ID: i, Author: "Kristina", Rating: i % 5, Date: start.Add(time.Duration(i) * time.Minute), Text: text}
	}
	type stored struct {
		Review  review `bson:",inline"`
		Product int    `bson:"product"`
	}
	whole := func(i int) any {
		p := product{ID: i, Name: name}
		for r := range reviewsEach {
			p.Reviews = append(p.Reviews, item(r*n+i))
		}
		return p
	}
	for _, coll := range []*mongo.Collection{embedded, products} {
		if err := fill(ctx, coll, n, whole); err != nil {
			return err
		}
	}
	if _, err := sub.Adopt(ctx, nil); err != nil {
		return err
	}
	if err := fill(ctx, bare, n, func(i int) any { return d("_id", i, "name", name) }); err != nil {
		return err
	}
	if err := fill(ctx, plain, n*reviewsEach, func(i int) any { return stored{item(i), i % n} }); err != nil {
		return err
	}
	err = dataSizes(ctx, b, "the products alone, which reads keep in the cache",
		sized{"all in the product", []*mongo.Collection{embedded}},
		sized{"reviews apart", []*mongo.Collection{bare}},
		sized{"subset", []*mongo.Collection{products}})
	if err != nil {
		return err
	}
	err = dataSizes(ctx, b, "all documents",
		sized{"all in the product", []*mongo.Collection{embedded}},
		sized{"reviews apart", []*mongo.Collection{bare, plain}},
		sized{"subset", []*mongo.Collection{products, reviews}})
	if err != nil {
		return err
	}

	newest := options.FindOne().SetProjection(d("reviews", d("$slice", -reviewsKept)))
	lookup := d("$lookup", d("from", plain.Name(), "localField", "_id", "foreignField", "product", "as", "reviews",
		"pipeline", mongo.Pipeline{d("$sort", order), d("$limit", reviewsKept)}))
	show := func(p product, err error) error {
		if err != nil {
			return err
		}
		return want(len(p.Reviews), reviewsKept)
	}
	err = b.measure(ctx, "page of a product with its 10 newest reviews", ops,
		side{name: "all in the product, $slice", run: times(ops, func(ctx context.Context, i int) error {
			return show(findOne[product](ctx, embedded, d("_id", i%n), newest))
		})},
		side{name: "all in the product, read whole", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[product](ctx, embedded, d("_id", i%n))
			return err
		})},
		side{name: "$lookup", run: times(ops, func(ctx context.Context, i int) error {
			ps, err := aggregate[product](ctx, 1, bare, d("$match", d("_id", i%n)), lookup)
			if err != nil {
				return err
			}
			return show(ps[0], nil)
		})},
		side{name: "two queries", run: times(ops, func(ctx context.Context, i int) error {
			p, err := findOne[product](ctx, bare, d("_id", i%n))
			if err == nil {
				p.Reviews, err = findAll[review](ctx, -1, plain, d("product", i%n), options.Find().SetSort(order).SetLimit(reviewsKept))
			}
			return show(p, err)
		})},
		side{name: "subset", run: times(ops, func(ctx context.Context, i int) error {
			return show(findOne[product](ctx, products, d("_id", i%n)))
		})})
	if err != nil {
		return err
	}
	list := min(20, n)
	lists := ops/10 + 1
	err = b.measure(ctx, "list of 20 products with their 10 newest reviews", lists,
		side{name: "all in the product, $slice", run: times(lists, func(ctx context.Context, i int) error {
			_, err := findAll[product](ctx, list, embedded, bson.D{}, options.Find().SetSort(d("_id", 1)).SetLimit(20).SetProjection(d("reviews", d("$slice", -reviewsKept))))
			return err
		})},
		side{name: "$lookup", run: times(lists, func(ctx context.Context, i int) error {
			_, err := aggregate[product](ctx, list, bare, d("$sort", d("_id", 1)), d("$limit", 20), lookup)
			return err
		})},
		side{name: "subset", run: times(lists, func(ctx context.Context, i int) error {
			_, err := findAll[product](ctx, list, products, bson.D{}, options.Find().SetSort(d("_id", 1)).SetLimit(20))
			return err
		})})
	if err != nil {
		return err
	}

	// New reviews, and what they cost: an insert alone keeps nothing in the product.
	writes := b.size(30, 100, 200)
	next := func(i int) review { return item(n*reviewsEach + i) }
	err = b.measure(ctx, "a new review", writes,
		side{name: "insert alone", run: times(writes, func(ctx context.Context, i int) error {
			_, err := plain.InsertOne(ctx, stored{next(i), i % n})
			return err
		})},
		side{name: "all in the product, $push", run: times(writes, func(ctx context.Context, i int) error {
			_, err := embedded.UpdateOne(ctx, d("_id", i%n), d("$push", d("reviews", next(i))))
			return err
		})},
		side{name: "subset", run: times(writes, func(ctx context.Context, i int) error {
			_, err := sub.Add(ctx, i%n, next(i))
			return err
		})})
	if err != nil {
		return err
	}
	base := 1_000_000 // the _ids of these
	many := b.size(200, 500, 1000)
	chunk, added := 0, 0
	return b.measure(ctx, "a new review of many at once", many,
		side{name: "InsertMany alone", run: func(ctx context.Context) error {
			chunk += many
			return fillFrom(ctx, plain, base+chunk-many, base+chunk, func(i int) any { return stored{item(i), i % n} })
		}},
		side{name: "subset", run: func(ctx context.Context) error {
			added += many
			result, err := sub.AddMany(ctx, func(yield func(int, review) bool) {
				for i := base + added - many; i < base+added; i++ {
					if !yield(i%n, item(i)) {
						return
					}
				}
			})
			if err != nil {
				return err
			}
			return want(int(result.Done), many)
		}})
}

type film struct {
	Title string   `bson:"title"`
	Year  int      `bson:"year"`
	Cast  []string `bson:"cast"`
}

type filmDetails struct {
	Plot    string `bson:"plot"`
	Reviews string `bson:"reviews"`
	Votes   int    `bson:"votes"`
}

func splitList(ctx context.Context, b *bench) error {
	n, ops := b.size(1000, 5000, 20_000), b.size(80, 400, 500)
	db := b.db()
	one, hot, cold := db.Collection("films"), db.Collection("hot"), db.Collection("cold")
	films, err := split.New[int, film, filmDetails](hot, cold, &split.Options{IDField: "film_id"})
	if err != nil {
		return err
	}
	if err := films.EnsureIndexes(ctx); err != nil {
		return err
	}
	type whole struct {
		ID      int         `bson:"_id"`
		Film    film        `bson:",inline"`
		Details filmDetails `bson:",inline"`
	}
	details := filmDetails{Plot: prose(b.rand, 1000), Reviews: prose(b.rand, 3000)}
	entry := func(i int) film {
		return film{Title: details.Plot[i%500 : i%500+20], Year: 1900 + i%120, Cast: []string{"Anna Lindqvist", "Paul Weber"}}
	}
	for _, coll := range []*mongo.Collection{one, hot} {
		for _, keys := range []bson.D{d("year", 1, "_id", 1), d("cast", 1)} {
			if err := index(ctx, coll, keys); err != nil {
				return err
			}
		}
		if err := fill(ctx, coll, n, func(i int) any { return whole{i, entry(i), details} }); err != nil {
			return err
		}
	}
	if _, err := films.Adopt(ctx, &mongopatterns.Work{BatchSize: 500}); err != nil {
		return err
	}
	err = dataSizes(ctx, b, "what lists read",
		sized{"one collection", []*mongo.Collection{one}},
		sized{"split", []*mongo.Collection{hot}})
	if err != nil {
		return err
	}
	list := func(coll *mongo.Collection, opts *options.FindOptionsBuilder) func(ctx context.Context) error {
		return times(ops, func(ctx context.Context, i int) error {
			_, err := findAll[film](ctx, -1, coll, d("year", d("$gte", 1900+i%120)), opts.SetSort(d("year", 1, "_id", 1)).SetLimit(20))
			return err
		})
	}
	err = b.measure(ctx, "list of 20 films", ops,
		side{name: "one collection, projection", run: list(one, options.Find().SetProjection(d("title", 1, "year", 1, "cast", 1)))},
		side{name: "one collection, read whole", run: list(one, options.Find())},
		side{name: "split", run: list(hot, options.Find())})
	if err != nil {
		return err
	}
	scans := 5
	scan := func(coll *mongo.Collection) func(ctx context.Context) error {
		return times(scans, func(ctx context.Context, _ int) error {
			_, err := aggregate[bson.Raw](ctx, -1, coll, d("$match", d("title", d("$gte", ""))), d("$group", d("_id", "$year", "n", d("$sum", 1))))
			return err
		})
	}
	err = b.measure(ctx, "a report on all films, no index", scans,
		side{name: "one collection", run: scan(one)},
		side{name: "split", run: scan(hot)})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "page of a film", ops,
		side{name: "one collection", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[whole](ctx, one, d("_id", i%n))
			return err
		})},
		side{name: "split", run: times(ops, func(ctx context.Context, i int) error {
			_, _, err := films.Get(ctx, i%n)
			return err
		})})
	if err != nil {
		return err
	}
	vote := d("$inc", d("votes", 1))
	err = b.measure(ctx, "change of a detail", ops,
		side{name: "one collection", run: times(ops, func(ctx context.Context, i int) error {
			_, err := one.UpdateOne(ctx, d("_id", i%n), vote)
			return err
		})},
		side{name: "split", run: times(ops, func(ctx context.Context, i int) error {
			return films.Update(ctx, i%n, nil, vote)
		})})
	if err != nil {
		return err
	}
	writes := b.size(30, 100, 200)
	return b.measure(ctx, "a new film", writes,
		side{name: "one collection", run: times(writes, func(ctx context.Context, i int) error {
			_, err := one.InsertOne(ctx, whole{n + i, entry(i), details})
			return err
		})},
		side{name: "split", run: times(writes, func(ctx context.Context, i int) error {
			return films.Add(ctx, n+i, entry(i), details)
		})})
}
