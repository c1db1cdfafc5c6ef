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
	{"approx", "page views", "Views of 20 pages, of which the first takes a quarter: a write a view, a bulk write for every 1,000, and every hundredth view alone, added up in memory or sampled; and how far off the counts are.", approxViews},
}

const (
	pages = 20
	every = 100
)

func approxViews(ctx context.Context, b *bench) error {
	n := b.size(617, 5021, 10_021) // no multiple of 100 for each page
	db := b.db()
	page := func(i int) int {
		if i%4 == 0 {
			return 0
		}
		return i * 7 % pages
	}
	each, bulk, flushed := db.Collection("each"), db.Collection("bulk"), db.Collection("flushed")
	added, sampled := db.Collection("added"), db.Collection("sampled")
	counters, err := approx.New[int](added, &approx.Options{Every: every})
	if err != nil {
		return err
	}
	flushing, err := approx.New[int](flushed, &approx.Options{Every: 1_000_000})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(b.rand.Uint64(), 1))
	samples, err := approx.NewSampled[int](sampled, &approx.Options{Every: every, Random: random.Float64})
	if err != nil {
		return err
	}
	inc := func(by int64) any { return d("$inc", d("count", by)) }
	upsert := options.UpdateOne().SetUpsert(true)
	err = b.measure(ctx, "a view", n,
		side{name: "a write each", run: times(n, func(ctx context.Context, i int) error {
			_, err := each.UpdateOne(ctx, d("_id", page(i)), inc(1), upsert)
			return err
		})},
		side{name: "a bulk write for 1,000 views", run: func(ctx context.Context) error {
			waiting := map[int]int64{}
			for i := range n {
				waiting[page(i)]++
				if i%1000 < 999 && i < n-1 {
					continue
				}
				var models []mongo.WriteModel
				for key, by := range waiting {
					models = append(models, mongo.NewUpdateOneModel().SetFilter(d("_id", key)).SetUpdate(inc(by)).SetUpsert(true))
				}
				if _, err := bulk.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
					return err
				}
				clear(waiting)
			}
			return nil
		}},
		side{name: "approx, added up", run: times(n, func(ctx context.Context, i int) error { return counters.Add(ctx, page(i), 1) })},
		side{name: "approx, sampled", run: times(n, func(ctx context.Context, i int) error { return samples.Add(ctx, page(i), 1) })},
		side{name: "approx, flushed every 1,000 views", run: func(ctx context.Context) error {
			for i := range n {
				if err := flushing.Add(ctx, page(i), 1); err != nil {
					return err
				}
				if i%1000 < 999 && i < n-1 {
					continue
				}
				if _, err := flushing.Flush(ctx); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		return err
	}

	// All counts together and that of each page, against what is right.
	off := func(coll *mongo.Collection) (mean float64, err error) {
		right := map[int]float64{}
		for i := range n * b.runs {
			right[page(i)]++
		}
		for key, count := range right {
			stored, e := findOne[struct{ Count float64 }](ctx, coll, d("_id", key))
			if e != nil && !errors.Is(e, mongo.ErrNoDocuments) {
				return 0, e
			}
			mean += math.Abs(stored.Count-count) / count / float64(len(right))
		}
		return 100 * mean, nil
	}
	report := func(metric string) error {
		values := make([]value, 3)
		for i, s := range []sized{{"a write each", []*mongo.Collection{each}}, {"approx, added up", []*mongo.Collection{added}},
			{"approx, sampled", []*mongo.Collection{sampled}}} {
			mean, err := off(s.colls[0])
			if err != nil {
				return err
			}
			values[i] = value{s.name, mean}
		}
		b.report(metric, "%", values[0], values[1:]...)
		return nil
	}
	if err := report(fmt.Sprintf("mean error of pages with about %s views, if the process ends now", number(float64(n*b.runs/pages)))); err != nil {
		return err
	}
	if err := counters.Close(ctx); err != nil {
		return err
	}
	return report("mean error after Close")
}
