package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/approx"
)

var approxCases = []benchmark{
	{"approx", "page views", "Views of 20 pages, a quarter of them views of the first page: a write a view, a bulk write for every 1,000, and every hundredth view alone, added up in memory or sampled; and how far off the counts are.", approxViews},
}

const (
	pages = 20
	every = 100
)

// viewed is the page of a view.
func viewed(i int) int {
	if i%4 == 0 {
		return 0
	}
	return i * 7 % pages
}

func approxViews(ctx context.Context, b *bench) []comparison {
	n := b.size(617, 5021, 10_021) // no multiple of 100 for each page
	db := b.db()
	each, bulk, flushed := db.Collection("each"), db.Collection("bulk"), db.Collection("flushed")
	added, sampled := db.Collection("added"), db.Collection("sampled")
	counters := must(approx.New[int](added, &approx.Options{Every: every}))
	flushing := must(approx.New[int](flushed, &approx.Options{Every: 1_000_000}))
	random := rand.New(rand.NewPCG(b.rand.Uint64(), 1))
	samples := must(approx.NewSampled[int](sampled, &approx.Options{Every: every, Random: random.Float64}))
	upsert := options.UpdateOne().SetUpsert(true)
	// due says after which views a run writes what waits.
	due := func(i int) bool { return i%1000 == 999 || i == n-1 }
	bulkWrites := func(ctx context.Context) error {
		waiting := map[int]int64{}
		for i := range n {
			waiting[viewed(i)]++
			if !due(i) {
				continue
			}
			var models []mongo.WriteModel
			for key, by := range waiting {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(d("_id", key)).SetUpdate(d("$inc", d("count", by))).SetUpsert(true))
			}
			if _, err := bulk.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
				return err
			}
			clear(waiting)
		}
		return nil
	}
	flushes := func(ctx context.Context) error {
		for i := range n {
			err := flushing.Add(ctx, viewed(i), 1)
			if err == nil && due(i) {
				_, err = flushing.Flush(ctx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	c := compared("a view", n,
		way("a write each", func(ctx context.Context, i int) error {
			return errorOf(each.UpdateOne(ctx, d("_id", viewed(i)), d("$inc", d("count", 1)), upsert))
		}),
		side{name: "a bulk write for 1,000 views", run: bulkWrites},
		way("approx, added up", func(ctx context.Context, i int) error { return counters.Add(ctx, viewed(i), 1) }),
		way("approx, sampled", func(ctx context.Context, i int) error { return samples.Add(ctx, viewed(i), 1) }),
		side{name: "approx, flushed every 1,000 views", run: flushes})
	c.after = func(ctx context.Context) {
		report := func(metric string) {
			b.report(metric, "%", value{"a write each", off(ctx, each, n*b.runs)},
				value{"approx, added up", off(ctx, added, n*b.runs)}, value{"approx, sampled", off(ctx, sampled, n*b.runs)})
		}
		report(fmt.Sprintf("mean error of pages with about %s views, if the process ends now", number(float64(n*b.runs/pages))))
		check(counters.Close(ctx))
		report("mean error after Close")
	}
	return []comparison{c}
}

// off is how far the counts of pages are from what is right after n views, on the mean, in %.
func off(ctx context.Context, coll *mongo.Collection, n int) (mean float64) {
	right := map[int]float64{}
	for i := range n {
		right[viewed(i)]++
	}
	for key, count := range right {
		stored, err := findOne[struct{ Count float64 }](ctx, coll, d("_id", key))
		if !errors.Is(err, mongo.ErrNoDocuments) {
			check(err)
		}
		mean += math.Abs(stored.Count-count) / count / float64(len(right))
	}
	return 100 * mean
}
