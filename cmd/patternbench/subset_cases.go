package main

import (
	"cmp"
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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

// catalogue is products with their reviews: all in the product, in the form of the package, and apart.
type catalogue struct {
	n                                         int
	name, text                                string
	embedded, products, reviews, alone, apart *mongo.Collection
	sub                                       *subset.Subset[int, review]
}

// reviewApart is a review in a collection of its own.
type reviewApart struct {
	Review  review `bson:",inline"`
	Product int    `bson:"product"`
}

func newCatalogue(ctx context.Context, b *bench) *catalogue {
	db := b.db()
	c := &catalogue{n: b.size(100, 400, 500), name: prose(b.rand, 300), text: prose(b.rand, 400),
		embedded: db.Collection("embedded"), products: db.Collection("products"), reviews: db.Collection("reviews"),
		alone: db.Collection("bare"), apart: db.Collection("plain_reviews")}
	c.sub = must(subset.New[int, review](c.products, c.reviews, &subset.Options{
		ParentField: "product", ArrayField: "reviews", Sort: d("date", -1), CountField: "num_reviews", N: reviewsKept,
	}))
	whole := func(i int) any {
		p := product{ID: i, Name: c.name}
		for r := range reviewsEach {
			p.Reviews = append(p.Reviews, c.review(r*c.n+i))
		}
		return p
	}
	check(c.sub.EnsureIndexes(ctx), index(ctx, c.apart, append(d("product", 1), newestReviews...)),
		fill(ctx, c.embedded, c.n, whole), fill(ctx, c.products, c.n, whole))
	must(c.sub.Adopt(ctx, nil))
	check(fill(ctx, c.alone, c.n, func(i int) any { return d("_id", i, "name", c.name) }),
		fill(ctx, c.apart, c.n*reviewsEach, func(i int) any { return reviewApart{c.review(i), i % c.n} }))
	dataSizes(ctx, b, "the products alone, which reads keep in the cache",
		in("all in the product", c.embedded), in("reviews apart", c.alone), in("subset", c.products))
	dataSizes(ctx, b, "all documents",
		in("all in the product", c.embedded), in("reviews apart", c.alone, c.apart), in("subset", c.products, c.reviews))
	return c
}

var newestReviews = d("date", -1, "_id", -1)

func (c *catalogue) review(i int) review {
	start := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)
	return review{ID: i, Author: "Kristina", Rating: i % 5, Date: start.Add(time.Duration(i) * time.Minute), Text: c.text}
}

// next is a review after those of the beginning.
func (c *catalogue) next(i int) review { return c.review(c.n*reviewsEach + i) }

func (c *catalogue) lookup() bson.D {
	return d("$lookup", d("from", c.apart.Name(), "localField", "_id", "foreignField", "product", "as", "reviews",
		"pipeline", mongo.Pipeline{d("$sort", newestReviews), d("$limit", reviewsKept)}))
}

// page reads a product with its newest reviews.
func (c *catalogue) page(ops int) comparison {
	show := func(p product, err error) error { return cmp.Or(err, want(len(p.Reviews), reviewsKept)) }
	newest := options.FindOne().SetProjection(d("reviews", d("$slice", -reviewsKept)))
	return compared("page of a product with its 10 newest reviews", ops,
		way("all in the product, $slice", func(ctx context.Context, i int) error {
			return show(findOne[product](ctx, c.embedded, d("_id", i%c.n), newest))
		}),
		way("all in the product, read whole", func(ctx context.Context, i int) error {
			return errorOf(findOne[product](ctx, c.embedded, d("_id", i%c.n)))
		}),
		way("$lookup", func(ctx context.Context, i int) error {
			ps, err := aggregate[product](ctx, 1, c.alone, d("$match", d("_id", i%c.n)), c.lookup())
			if err != nil {
				return err
			}
			return show(ps[0], nil)
		}),
		way("two queries", func(ctx context.Context, i int) error {
			p, err := findOne[product](ctx, c.alone, d("_id", i%c.n))
			if err != nil {
				return show(p, err)
			}
			p.Reviews, err = findAll[review](ctx, -1, c.apart, d("product", i%c.n), options.Find().SetSort(newestReviews).SetLimit(reviewsKept))
			return show(p, err)
		}),
		way("subset", func(ctx context.Context, i int) error {
			return show(findOne[product](ctx, c.products, d("_id", i%c.n)))
		}))
}

// many inserts reviews, many at once.
func (c *catalogue) many(many int) comparison {
	const first = 1_000_000 // the _ids of these
	chunk, added := first, first
	return compared("a new review of many at once", many,
		side{name: "InsertMany alone", run: func(ctx context.Context) error {
			chunk += many
			return fillFrom(ctx, c.apart, chunk-many, chunk, func(i int) any { return reviewApart{c.review(i), i % c.n} })
		}},
		side{name: "subset", run: func(ctx context.Context) error {
			added += many
			result, err := c.sub.InsertMany(ctx, func(yield func(int, review) bool) {
				for i := added - many; i < added; i++ {
					if !yield(i%c.n, c.review(i)) {
						return
					}
				}
			}, nil)
			return cmp.Or(err, want(int(result.Done), many))
		}})
}

func subsetPage(ctx context.Context, b *bench) []comparison {
	c, ops := newCatalogue(ctx, b), b.size(100, 400, 1000)
	list := func(ctx context.Context, coll *mongo.Collection, projection bson.D) error {
		return errorOf(findAll[product](ctx, min(20, c.n), coll, bson.D{}, options.Find().SetSort(d("_id", 1)).SetLimit(20).SetProjection(projection)))
	}
	return []comparison{
		c.page(ops),
		compared("list of 20 products with their 10 newest reviews", ops/10+1,
			way("all in the product, $slice", func(ctx context.Context, i int) error {
				return list(ctx, c.embedded, d("reviews", d("$slice", -reviewsKept)))
			}),
			way("$lookup", func(ctx context.Context, i int) error {
				return errorOf(aggregate[product](ctx, min(20, c.n), c.alone, d("$sort", d("_id", 1)), d("$limit", 20), c.lookup()))
			}),
			way("subset", func(ctx context.Context, i int) error { return list(ctx, c.products, d()) })),
		// What new reviews cost: an insert alone keeps nothing in the product.
		compared("a new review", b.size(30, 100, 200),
			way("insert alone", func(ctx context.Context, i int) error {
				return errorOf(c.apart.InsertOne(ctx, reviewApart{c.next(i), i % c.n}))
			}),
			way("all in the product, $push", func(ctx context.Context, i int) error {
				return errorOf(c.embedded.UpdateOne(ctx, d("_id", i%c.n), d("$push", d("reviews", c.next(i)))))
			}),
			way("subset", func(ctx context.Context, i int) error { return errorOf(c.sub.Insert(ctx, i%c.n, c.next(i))) })),
		c.many(b.size(200, 500, 1000)),
	}
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

type wholeFilm struct {
	ID      int         `bson:"_id"`
	Film    film        `bson:",inline"`
	Details filmDetails `bson:",inline"`
}

func splitList(ctx context.Context, b *bench) []comparison {
	n, ops := b.size(1000, 5000, 20_000), b.size(80, 400, 500)
	db := b.db()
	one, hot, cold := db.Collection("films"), db.Collection("hot"), db.Collection("cold")
	films := must(split.New[int, film, filmDetails](hot, cold, &split.Options{IDField: "film_id"}))
	check(films.EnsureIndexes(ctx))
	details := filmDetails{Plot: prose(b.rand, 1000), Reviews: prose(b.rand, 3000)}
	entry := func(i int) film {
		return film{Title: details.Plot[i%500 : i%500+20], Year: 1900 + i%120, Cast: []string{"Anna Lindqvist", "Paul Weber"}}
	}
	for _, coll := range []*mongo.Collection{one, hot} {
		check(index(ctx, coll, d("year", 1, "_id", 1)), index(ctx, coll, d("cast", 1)),
			fill(ctx, coll, n, func(i int) any { return wholeFilm{i, entry(i), details} }))
	}
	must(films.Adopt(ctx, work(500)))
	dataSizes(ctx, b, "what lists read", in("one collection", one), in("split", hot))
	list := func(name string, coll *mongo.Collection, projection bson.D) side {
		return way(name, func(ctx context.Context, i int) error {
			return errorOf(findAll[film](ctx, -1, coll, d("year", d("$gte", 1900+i%120)), options.Find().SetProjection(projection).SetSort(d("year", 1, "_id", 1)).SetLimit(20)))
		})
	}
	scan := func(name string, coll *mongo.Collection) side {
		return way(name, func(ctx context.Context, _ int) error {
			return errorOf(aggregate[bson.Raw](ctx, -1, coll, d("$match", d("title", d("$gte", ""))), d("$group", d("_id", "$year", "n", d("$sum", 1)))))
		})
	}
	vote := d("$inc", d("votes", 1))
	return []comparison{
		compared("list of 20 films", ops, list("one collection, projection", one, d("title", 1, "year", 1, "cast", 1)),
			list("one collection, read whole", one, d()), list("split", hot, d())),
		compared("a report on all films, no index", 5, scan("one collection", one), scan("split", hot)),
		compared("page of a film", ops,
			way("one collection", func(ctx context.Context, i int) error {
				return errorOf(findOne[wholeFilm](ctx, one, d("_id", i%n)))
			}),
			way("split", func(ctx context.Context, i int) error {
				_, _, err := films.Get(ctx, i%n)
				return err
			})),
		compared("change of a detail", ops,
			way("one collection", func(ctx context.Context, i int) error { return errorOf(one.UpdateOne(ctx, d("_id", i%n), vote)) }),
			way("split", func(ctx context.Context, i int) error { return films.Update(ctx, i%n, nil, vote) })),
		compared("a new film", b.size(30, 100, 200),
			way("one collection", func(ctx context.Context, i int) error {
				return errorOf(one.InsertOne(ctx, wholeFilm{n + i, entry(i), details}))
			}),
			way("split", func(ctx context.Context, i int) error { return films.Insert(ctx, n+i, entry(i), details) })),
	}
}
