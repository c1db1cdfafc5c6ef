package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/subset"
)

var hotCases = []benchmark{
	{"subset", "hot parent", "16 writers at a time add reviews to one product, against the same transaction by hand.", hotSubset},
	{"subset", "elections", "The same on three members whose primary steps down once: the time for a stored review.", hotElections},
	{"outlier", "hot list", "16 writers at a time add buyers to one book that holds 100, against a guarded push by hand, and a transaction when it is full.", hotOutlier},
	{"computed", "hot target", "16 writers at a time insert screenings of one film, against the same transaction by hand, which increments the film.", hotComputed},
	{"extref", "hot source", "16 writers at a time change one customer with 10 copies, against the same transaction by hand.", hotExtref},
}

const (
	longestWait = "the longest wait of a writer"
	byHandName  = "by hand"
	packageName = "package"
)

// together is how many write to one document at a time.
const together = 16

// hot compares two ways of writing to one document from many writers at a time, and how long the writer waits who
// waits longest.
func hot(b *bench, metric string, hand, pack op) []comparison {
	n, runs := b.size(160, 160, 160), 15
	if b.scale == "tiny" {
		runs = 1
	}
	waits := map[string][]float64{} // the longest of each run
	rush := func(name string, write op) side {
		done := 0
		return side{name: name, run: func(ctx context.Context) error {
			longest := make([]time.Duration, together)
			err := inRush(together, n, func(i int) error {
				start := time.Now()
				err := write(ctx, done+i)
				longest[i%together] = max(longest[i%together], time.Since(start))
				return err
			})
			done += n
			waits[name] = append(waits[name], micros(slices.Max(longest)))
			return err
		}}
	}
	return []comparison{{metric: metric, ops: n, runs: runs, sides: []side{rush(byHandName, hand), rush(packageName, pack)},
		after: func(context.Context) {
			b.report(longestWait, "µs", value{byHandName, median(waits[byHandName])}, value{packageName, median(waits[packageName])})
			b.note(longestWait, packageName, func(r *result) { r.Runs = runs })
		}}}
}

func hotSubset(ctx context.Context, b *bench) []comparison {
	hand, pack := hotReviews(ctx, b, b.db())
	return hot(b, "a review", hand, pack)
}

// hotElections counts what the writers of each side store in the same time, in which the primary steps down once.
func hotElections(ctx context.Context, b *bench) []comparison {
	window, rounds := 10*time.Second, b.size(1, 3, 5)
	if b.scale == "tiny" {
		window = time.Second
	}
	set := must(mongotest.Start(ctx, &mongotest.Options{Members: 3}))
	defer func() { check(set.Close()) }()
	client := must(mongo.Connect(options.Client().ApplyURI(set.AdminURI)))
	defer func() { check(client.Disconnect(context.WithoutCancel(ctx))) }()
	hand, pack := hotReviews(ctx, b, client.Database("elections"))
	var times [2][]float64
	next := [2]int{}
	for range rounds {
		for i, write := range []op{hand, pack} {
			var stored atomic.Int64
			var once sync.Once
			first := make(chan struct{})
			until, stop := context.WithCancel(ctx)
			start, elected := time.Now(), make(chan error)
			go func() { elected <- set.StepDown(ctx) }()
			go func() { // an election can take longer than a short window
				time.Sleep(window)
				select {
				case <-first:
				case <-ctx.Done():
				case <-time.After(time.Minute): // something is broken
				}
				stop()
			}()
			var writers sync.WaitGroup
			for w := range together {
				writers.Go(func() {
					for n := next[i] + w; until.Err() == nil; n += together {
						if write(until, n) == nil { // else an election was in the way, or the time is over
							stored.Add(1)
							once.Do(func() { close(first) })
						}
					}
				})
			}
			writers.Wait()
			times[i] = append(times[i], micros(time.Since(start))/float64(stored.Load()))
			next[i] += 1_000_000
			check(<-elected)
			if stored.Load() == 0 {
				check(errors.New("no review was stored"))
			}
		}
	}
	b.report("a stored review", "µs", value{byHandName, median(times[0])}, value{packageName, median(times[1])})
	b.note("a stored review", packageName, func(r *result) { r.Runs = rounds })
	return nil
}

// hotReviews are two ways of adding a review to the same product.
func hotReviews(ctx context.Context, b *bench, db *mongo.Database) (hand, pack op) {
	client, text := db.Client(), prose(b.rand, 400)
	plain, plainReviews, products, reviews := db.Collection("plain"), db.Collection("plain_reviews"), db.Collection("products"), db.Collection("reviews")
	s := must(subset.New[int, review](products, reviews, &subset.Options{ParentField: "product", ArrayField: "reviews", Sort: d("date", -1),
		CountField: "num_reviews", Values: []subset.Value{{Field: "rating", Sum: "sum_ratings"}}}))
	check(s.EnsureIndexes(ctx), index(ctx, plainReviews, append(d("product", 1), newestReviews...)),
		errorOf(plain.InsertOne(ctx, d("_id", 1, "name", text))), errorOf(products.InsertOne(ctx, d("_id", 1, "name", text))))
	next := func(i int) review { return review{i, "Kristina", i % 5, time.UnixMilli(int64(i)), text} }
	return func(ctx context.Context, i int) error {
			r := next(i)
			return byHand(ctx, client, func(ctx context.Context) error {
				_, err := plain.UpdateOne(ctx, d("_id", 1), d(
					"$push", d("reviews", d("$each", []review{r}, "$sort", newestReviews, "$slice", reviewsKept)),
					"$inc", d("num_reviews", 1, "sum_ratings", r.Rating)))
				if err != nil {
					return err
				}
				return errorOf(plainReviews.InsertOne(ctx, reviewApart{r, 1}))
			})
		},
		func(ctx context.Context, i int) error { return errorOf(s.Insert(ctx, 1, next(i))) }
}

func hotOutlier(ctx context.Context, b *bench) []comparison {
	const most, kept = 100, 50
	db := b.db()
	plain, plainExtras, books, extras := db.Collection("plain"), db.Collection("plain_extras"), db.Collection("books"), db.Collection("extras")
	lists := must(outlier.New[int, string](books, extras, &outlier.Options{ArrayField: "buyers", MaxCount: most}))
	check(lists.EnsureIndexes(ctx), index(ctx, plainExtras, d("parent", 1, "n", 1)),
		errorOf(plain.InsertOne(ctx, d("_id", 1))), errorOf(books.InsertOne(ctx, d("_id", 1))))
	full := "buyers.99"
	// move moves all but the newest out, if the book is full.
	move := func(ctx context.Context, i int) (moved bool, err error) {
		err = byHand(ctx, b.client, func(ctx context.Context) error {
			var before struct {
				Buyers  []string
				Outside int
			}
			err := plain.FindOneAndUpdate(ctx, d("_id", 1, full, d("$exists", true)), d(
				"$push", d("buyers", d("$each", []string{buyer(i)}, "$slice", -kept)),
				"$set", d("outlier", true), "$inc", d("outside", most+1-kept))).Decode(&before)
			if err != nil {
				return err
			}
			return errorOf(plainExtras.InsertOne(ctx, d("parent", 1, "n", before.Outside, "buyers", before.Buyers[:most+1-kept])))
		})
		if errors.Is(err, mongo.ErrNoDocuments) { // another writer has moved them
			return false, nil
		}
		return err == nil, err
	}
	return hot(b, "a buyer",
		func(ctx context.Context, i int) error {
			for {
				result, err := plain.UpdateOne(ctx, d("_id", 1, full, d("$exists", false)), d("$push", d("buyers", buyer(i))))
				if err != nil || result.MatchedCount > 0 {
					return err
				}
				if moved, err := move(ctx, i); moved || err != nil {
					return err
				}
			}
		},
		func(ctx context.Context, i int) error { return errorOf(lists.Add(ctx, 1, buyer(i))) })
}

func hotComputed(ctx context.Context, b *bench) []comparison {
	db := b.db()
	plain, plainFilms, screenings, films := db.Collection("plain"), db.Collection("plain_films"), db.Collection("screenings"), db.Collection("films")
	c := must(computed.New[int, int, sums](screenings, films, computed.Rule{
		KeyField: "film", Pipeline: mongo.Pipeline{sumOfFilm}, Empty: d("viewers", 0, "revenue", 0),
	}, &computed.Options{Additive: true}))
	check(c.EnsureIndexes(ctx), index(ctx, plain, d("film", 1)),
		errorOf(plainFilms.InsertOne(ctx, d("_id", 1))), errorOf(films.InsertOne(ctx, d("_id", 1))))
	must(c.Adopt(ctx, nil))
	screening := func(i int) bson.D { return d("_id", i, "film", 1, "viewers", 100+i%50, "revenue", 800+i%400) }
	return hot(b, "a screening",
		func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				_, err := plainFilms.UpdateOne(ctx, d("_id", 1), d("$inc", d("viewers", 100+i%50, "revenue", 800+i%400), "$currentDate", d("computed.at", true)))
				if err != nil {
					return err
				}
				return errorOf(plain.InsertOne(ctx, screening(i)))
			})
		},
		func(ctx context.Context, i int) error { return c.Insert(ctx, screening(i)) })
}

func hotExtref(ctx context.Context, b *bench) []comparison {
	db, text := b.db(), prose(b.rand, 400)
	plain, plainOrders, customers, orders := db.Collection("plain"), db.Collection("plain_orders"), db.Collection("customers"), db.Collection("orders")
	ref := must(extref.New[int, customer](customers, []extref.Target{{
		Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
	}}, nil))
	who := customer{1, "Katrina Pope", "Springfield", text, 1}
	copied := func(i int) any {
		return d("_id", i, "customer", d("_id", 1, "name", "Katrina Pope", "city", "Springfield", "version", 1))
	}
	check(ref.EnsureIndexes(ctx), index(ctx, plainOrders, d("customer._id", 1, "customer.version", 1)),
		errorOf(plain.InsertOne(ctx, who)), errorOf(customers.InsertOne(ctx, who)), fill(ctx, plainOrders, 10, copied), fill(ctx, orders, 10, copied))
	after := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(d("version", 1))
	return hot(b, "a change of the name",
		func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				var now customer
				err := plain.FindOneAndUpdate(ctx, d("_id", 1), d("$set", d("name", buyer(i)), "$inc", d("version", 1)), after).Decode(&now)
				if err != nil {
					return err
				}
				return errorOf(plainOrders.UpdateMany(ctx, d("customer._id", 1, "customer.version", d("$lt", now.Version)),
					d("$set", d("customer.name", buyer(i), "customer.version", now.Version))))
			})
		},
		func(ctx context.Context, i int) error {
			return errorOf(ref.Update(ctx, 1, d("$set", d("name", buyer(i)))))
		})
}
