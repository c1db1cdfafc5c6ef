package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

var adoptCases = []benchmark{
	{"adopt", "measurements", "Measurements of 100 series in turn, a document each, taken into series and buckets, with a ledger of what was taken, against a copy by hand in batches of 1,000 and against reading them alone. All writes are acknowledged by the majority.", adoptMeasurements},
	{"adopt", "documents", "Existing collections brought into the form of a package, during live writes, against the update that one would write by hand for a collection that nobody else writes. All writes are acknowledged by the majority.", adoptDocuments},
}

// adoption is an Adopt of n things beside the same by hand, each in a database of its own.
type adoption struct {
	metric string
	n      int
	set    func(ctx context.Context, db *mongo.Database) error // the data as it was, and the indexes
	ways   []adopting                                          // by hand first
}

type adopting struct {
	name  string
	adopt func(ctx context.Context, db *mongo.Database) (done int64, err error)
}

func (a adoption) comparison(b *bench) comparison {
	c := comparison{metric: a.metric, ops: a.n, runs: min(b.runs, 3)}
	for _, way := range a.ways {
		db := b.db()
		c.sides = append(c.sides, side{name: way.name, reset: func(ctx context.Context) error {
			return cmp.Or(db.Drop(ctx), a.set(ctx, db))
		}, run: func(ctx context.Context) error {
			done, err := way.adopt(ctx, db)
			return cmp.Or(err, want(int(done), a.n))
		}})
	}
	return c
}

// doneOf is how many things an Adopt has done.
func doneOf(r mongopatterns.Result, err error) (int64, error) { return r.Done, err }

// batchesOf reads documents and hands them on, so many at a time.
func batchesOf[T any](ctx context.Context, coll *mongo.Collection, size int, fn func(batch []T) error) (done int64, err error) {
	var batch []T
	for doc, err := range decoded[T](ctx, coll, d(), options.Find().SetSort(d("_id", 1)).SetBatchSize(int32(size))) {
		if err != nil {
			return done, err
		}
		if batch = append(batch, doc); len(batch) == size {
			if err := fn(batch); err != nil {
				return done, err
			}
			done, batch = done+int64(size), nil
		}
	}
	if len(batch) == 0 {
		return done, nil
	}
	return done + int64(len(batch)), fn(batch)
}

// updates is a bulk write of an update for each document of a batch.
func updates[T any](ctx context.Context, coll *mongo.Collection, batch []T, update func(doc T) (id, update any)) error {
	models := make([]mongo.WriteModel, len(batch))
	for i, doc := range batch {
		id, update := update(doc)
		models[i] = mongo.NewUpdateOneModel().SetFilter(d("_id", id)).SetUpdate(update)
	}
	return errorOf(coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
}

func adoptMeasurements(ctx context.Context, b *bench) []comparison {
	const each = 100 // series
	n := b.size(20_000, 100_000, 300_000)
	source := b.db().Collection("source")
	check(fill(ctx, source, n, func(i int) any {
		return d("_id", i, "sensor_id", i%each, "timestamp", minute(i/each).At, "temperature", 20+float64(i%97)/10)
	}))
	packed := func(db *mongo.Database) *series.Series[int, degrees] {
		return must(series.New[int, degrees](db.Collection("series"), timeseries.Days(time.UTC), &series.Options{SeriesField: "sensor_id"}))
	}
	buckets := func(db *mongo.Database) *bucket.Buckets[int, degrees] {
		return must(bucket.New[int, degrees](db.Collection("buckets"), timeseries.Every(time.Hour), &bucket.Options{SeriesField: "sensor_id"}))
	}
	c := adoption{"a measurement", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(packed(db).EnsureIndexes(ctx), buckets(db).EnsureIndexes(ctx))
	}, []adopting{
		{"copied by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
			return batchesOf(ctx, source, 1000, func(batch []bson.Raw) error {
				return errorOf(db.Collection("copy").InsertMany(ctx, batch, options.InsertMany().SetOrdered(false)))
			})
		}},
		{"read alone", func(ctx context.Context, _ *mongo.Database) (int64, error) {
			return batchesOf(ctx, source, 1000, func([]bson.Raw) error { return nil })
		}},
		{"series", func(ctx context.Context, db *mongo.Database) (int64, error) {
			return doneOf(packed(db).Adopt(ctx, source, nil, nil))
		}},
		{"bucket", func(ctx context.Context, db *mongo.Database) (int64, error) {
			return doneOf(buckets(db).Adopt(ctx, source, nil, nil))
		}},
	}}.comparison(b)
	c.after = func(context.Context) {
		b.goal(c.metric+": time", "series", 1)
		b.goal(c.metric+": time", "bucket", 2)
	}
	return []comparison{c}
}

func adoptDocuments(_ context.Context, b *bench) (all []comparison) {
	text := prose(b.rand, 400)
	for _, a := range []adoption{
		adoptSlots(b.size(200, 1000, 3000)), adoptAttributes(b.size(500, 2000, 10_000)), adoptLists(b.size(20, 50, 200)),
		adoptSubsets(b.size(60, 400, 1000), text), adoptSplit(b.size(500, 2000, 10_000), text), adoptCopies(b.size(1000, 5000, 20_000)),
		adoptTree(b.size(1000, 5000, 20_000)), adoptHistory(b.size(500, 2000, 10_000)), adoptSums(b.size(100, 500, 2000)),
	} {
		all = append(all, a.comparison(b))
	}
	return all
}

// adoptSlots turns days that are strings into dates.
func adoptSlots(n int) adoption {
	return adoption{"slots, a document of a day", n, func(ctx context.Context, db *mongo.Database) error {
		hours := bson.D{}
		for hour := range 24 {
			hours = append(hours, e(fmt.Sprint(hour), d("0", slotReading{20, 60, 1000}, "30", slotReading{21, 59, 1001})))
		}
		s := must(slots.New[int, slotReading](db.Collection("slots"), timeseries.Days(time.UTC), nil))
		return cmp.Or(s.EnsureIndexes(ctx), fill(ctx, db.Collection("slots"), n, func(i int) any {
			return d("_id", i, "series", i%20, "start", winter.AddDate(0, 0, i/20).Format(time.DateTime), "data", hours)
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return modified(db.Collection("slots").UpdateMany(ctx, d("start", d("$type", "string")),
			mongo.Pipeline{d("$set", d("start", d("$dateFromString", d("dateString", "$start"))))}))
	}}, {"slots", func(ctx context.Context, db *mongo.Database) (int64, error) {
		s := must(slots.New[int, slotReading](db.Collection("slots"), timeseries.Days(time.UTC), nil))
		return doneOf(s.Adopt(ctx, nil, nil))
	}}}}
}

// modified is how many documents an update has changed.
func modified(r *mongo.UpdateResult, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.ModifiedCount, nil
}

// adoptAttributes turns the fields of products into entries.
func adoptAttributes(n int) adoption {
	var columns []attribute.Column
	for i := range categories {
		for n := range specifications {
			columns = append(columns, attribute.Column{Path: specification(i, n), Key: specification(i, n)})
		}
	}
	return adoption{"attribute, a product of 12 fields", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(must(attribute.New[int, int](db.Collection("products"), nil)).EnsureIndexes(ctx), fill(ctx, db.Collection("products"), n, func(i int) any {
			doc := d("_id", i, "name", "product")
			for n := range specifications {
				doc = append(doc, e(specification(i, n), valueOf(i, n)))
			}
			return doc
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (done int64, err error) {
		for i := range categories {
			var entries, fields bson.A
			for n := range specifications {
				entries, fields = append(entries, d("k", specification(i, n), "v", "$"+specification(i, n))), append(fields, specification(i, n))
			}
			some, err := modified(db.Collection("products").UpdateMany(ctx, d(specification(i, 0), d("$exists", true)),
				mongo.Pipeline{d("$set", d("attributes", entries)), d("$unset", fields)}))
			if done += some; err != nil {
				return done, err
			}
		}
		return done, nil
	}}, {"attribute", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return doneOf(must(attribute.New[int, int](db.Collection("products"), nil)).Adopt(ctx, columns, nil))
	}}}}
}

// adoptLists splits lists of 3,000.
func adoptLists(n int) adoption {
	lists := func(db *mongo.Database) *outlier.Lists[int, string] {
		return must(outlier.New[int, string](db.Collection("books"), db.Collection("extras"), nil))
	}
	type book struct {
		ID    int      `bson:"_id"`
		Items []string `bson:"items"`
	}
	return adoption{"outlier, a list of 3,000", n, func(ctx context.Context, db *mongo.Database) error {
		items := make([]string, 3000)
		for i := range items {
			items[i] = buyer(i)
		}
		return cmp.Or(lists(db).EnsureIndexes(ctx), fill(ctx, db.Collection("books"), n, func(i int) any { return book{i, items} }))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return batchesOf(ctx, db.Collection("books"), 10, func(batch []book) error {
			var extras []any
			for _, b := range batch {
				extras = append(extras, d("parent", b.ID, "n", 0, "items", b.Items[1000:2000]), d("parent", b.ID, "n", 1, "items", b.Items[2000:]))
			}
			if _, err := db.Collection("extras").InsertMany(ctx, extras); err != nil {
				return err
			}
			return updates(ctx, db.Collection("books"), batch, func(b book) (any, any) {
				return b.ID, d("$set", d("items", b.Items[:1000], "items_overflow", true, "items_outside", 2000))
			})
		})
	}}, {"outlier", func(ctx context.Context, db *mongo.Database) (int64, error) { return doneOf(lists(db).Adopt(ctx, nil)) }}}}
}

// adoptSubsets leaves the 10 newest of 30 reviews in a product.
func adoptSubsets(n int, text string) adoption {
	subsets := func(db *mongo.Database) *subset.Subset[int, review] {
		return must(subset.New[int, review](db.Collection("products"), db.Collection("reviews"),
			&subset.Options{ParentField: "product", ArrayField: "reviews", Sort: d("date", -1), CountField: "num_reviews"}))
	}
	return adoption{"subset, a product with 30 reviews", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(subsets(db).EnsureIndexes(ctx), fill(ctx, db.Collection("products"), n, func(i int) any {
			p := product{ID: i, Name: "product"}
			for r := range 30 {
				p.Reviews = append(p.Reviews, review{r*n + i, "Kristina", 5, winter.Add(-time.Duration(r) * time.Hour), text})
			}
			return p
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return batchesOf(ctx, db.Collection("products"), 100, func(batch []product) error {
			var reviews []any
			for _, p := range batch {
				for _, r := range p.Reviews {
					reviews = append(reviews, reviewApart{r, p.ID})
				}
			}
			if _, err := db.Collection("reviews").InsertMany(ctx, reviews, options.InsertMany().SetOrdered(false)); err != nil {
				return err
			}
			return updates(ctx, db.Collection("products"), batch, func(p product) (any, any) {
				return p.ID, d("$set", d("reviews", p.Reviews[:10], "num_reviews", len(p.Reviews)))
			})
		})
	}}, {"subset", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return doneOf(subsets(db).Adopt(ctx, nil))
	}}}}
}

// adoptSplit moves the details of films to a collection of their own.
func adoptSplit(n int, text string) adoption {
	films := func(db *mongo.Database) *split.Split[int, film, filmDetails] {
		return must(split.New[int, film, filmDetails](db.Collection("films"), db.Collection("details"), &split.Options{IDField: "film_id"}))
	}
	return adoption{"split, a film", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(films(db).EnsureIndexes(ctx), fill(ctx, db.Collection("films"), n, func(i int) any {
			return wholeFilm{i, film{"t", 2000, []string{"Anna"}}, filmDetails{text, text, i}}
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return batchesOf(ctx, db.Collection("films"), 100, func(batch []wholeFilm) error {
			var details []any
			var ids []int
			for _, f := range batch {
				details, ids = append(details, d("film_id", f.ID, "plot", f.Details.Plot, "reviews", f.Details.Reviews, "votes", f.Details.Votes)), append(ids, f.ID)
			}
			if _, err := db.Collection("details").InsertMany(ctx, details, options.InsertMany().SetOrdered(false)); err != nil {
				return err
			}
			return errorOf(db.Collection("films").UpdateMany(ctx, d("_id", d("$in", ids)), d("$unset", d("plot", "", "reviews", "", "votes", ""))))
		})
	}}, {"split", func(ctx context.Context, db *mongo.Database) (int64, error) { return doneOf(films(db).Adopt(ctx, nil)) }}}}
}

// adoptCopies completes the customers of orders, 10 of each.
func adoptCopies(n int) adoption {
	source := func(db *mongo.Database) *extref.Source[int, customer] {
		return must(extref.New[int, customer](db.Collection("customers"), []extref.Target{{
			Collection: db.Collection("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
		}}, nil))
	}
	return adoption{"extref, an order", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(source(db).EnsureIndexes(ctx),
			fill(ctx, db.Collection("customers"), n/10+1, func(i int) any { return customer{i, "Katrina Pope", "Springfield", "", 1} }),
			fill(ctx, db.Collection("orders"), n, func(i int) any { return d("_id", i, "customer", d("_id", i/10)) }))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (done int64, err error) {
		_, err = batchesOf(ctx, db.Collection("customers"), 100, func(batch []customer) error {
			models := make([]mongo.WriteModel, len(batch))
			for i, c := range batch {
				models[i] = mongo.NewUpdateManyModel().SetFilter(d("customer._id", c.ID)).
					SetUpdate(d("$set", d("customer.name", c.Name, "customer.city", c.City, "customer.version", c.Version)))
			}
			result, err := db.Collection("orders").BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			if err == nil {
				done += result.ModifiedCount
			}
			return err
		})
		return done, err
	}}, {"extref", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return doneOf(source(db).Adopt(ctx, "orders.customer", nil))
	}}}}
}

// adoptTree gives nodes with parent references their ancestors, each node five children.
func adoptTree(n int) adoption {
	nodes := func(db *mongo.Database) *tree.Tree[int64, category] {
		return must(tree.New[int64, category](db.Collection("nodes"), tree.AncestorArray, nil))
	}
	return adoption{"tree, a node", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(nodes(db).EnsureIndexes(ctx), fill(ctx, db.Collection("nodes"), n, func(i int) any {
			if i == 0 {
				return d("_id", int64(i), "name", "Category")
			}
			return d("_id", int64(i), "name", "Category", "parent", int64(i-1)/5)
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		up := map[int64][]int64{}
		return batchesOf(ctx, db.Collection("nodes"), 1000, func(batch []plainCategory) error { // parents before children
			return updates(ctx, db.Collection("nodes"), batch, func(node plainCategory) (any, any) {
				up[node.ID] = []int64{}
				if node.Parent != nil {
					up[node.ID] = append(append(up[node.ID], up[*node.Parent]...), *node.Parent)
				}
				return node.ID, d("$set", d("ancestors", up[node.ID]))
			})
		})
	}}, {"tree", func(ctx context.Context, db *mongo.Database) (int64, error) { return doneOf(nodes(db).Adopt(ctx, nil)) }}}}
}

// adoptHistory numbers policies.
func adoptHistory(n int) adoption {
	history := func(db *mongo.Database) *versioning.History[string, policy] {
		return must(versioning.New[string, policy](db.Collection("policies"), db.Collection("revisions"), nil))
	}
	return adoption{"versioning, a policy", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(history(db).EnsureIndexes(ctx), fill(ctx, db.Collection("policies"), n, func(i int) any {
			p := policyOf(i)
			p.Items = p.Items[:5]
			return p
		}))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return modified(db.Collection("policies").UpdateMany(ctx, d("revision", nil), d("$set", d("revision", 1))))
	}}, {"versioning", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return doneOf(history(db).Adopt(ctx, nil, nil))
	}}}}
}

// adoptSums computes the sums of films with 20 screenings each.
func adoptSums(n int) adoption {
	kept := func(db *mongo.Database) *computed.Computed[int, int, sums] {
		return must(computed.New[int, int, sums](db.Collection("screenings"), db.Collection("films"), computed.Rule{KeyField: "film", Pipeline: mongo.Pipeline{sumOfFilm}, Empty: d("viewers", 0, "revenue", 0)}, nil))
	}
	return adoption{"computed, a film with 20 screenings", n, func(ctx context.Context, db *mongo.Database) error {
		return cmp.Or(kept(db).EnsureIndexes(ctx), fill(ctx, db.Collection("films"), n, func(i int) any { return d("_id", i) }),
			fill(ctx, db.Collection("screenings"), 20*n, func(i int) any { return d("_id", i, "film", i%n, "viewers", 1+i%50, "revenue", 800) }))
	}, []adopting{{"by hand", func(ctx context.Context, db *mongo.Database) (int64, error) {
		return int64(n), errorOf(aggregate[bson.Raw](ctx, 0, db.Collection("screenings"), sumOfFilm, d("$merge", d("into", "films"))))
	}}, {"computed", func(ctx context.Context, db *mongo.Database) (int64, error) { return doneOf(kept(db).Adopt(ctx, nil)) }}}}
}
