package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
)

var computedCases = []benchmark{
	{"computed", "ratios", "Revenue and viewers of films with 200 screenings each, read and written at several ratios, from 1,000 reads to a write to 10 writes to a read: kept with the film against aggregated each time, by an index.", computedRatios},
}

func computedRatios(ctx context.Context, b *bench) error {
	films, screenings := b.size(10, 50, 200), b.size(200, 200, 200)
	db := b.db()
	sum := d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers"), "revenue", d("$sum", "$revenue")))
	type film struct {
		Viewers int `bson:"viewers"`
		Revenue int `bson:"revenue"`
	}
	title := func(i int) string { return fmt.Sprint("film ", i%films) }
	screening := func(i int) bson.D {
		return d("_id", i, "film", title(i), "room", i%7, "viewers", 100+i%50, "revenue", 800+i%400)
	}
	type way struct {
		name        string
		read, write func(ctx context.Context, i int) error
	}
	var ways []way
	add := func(name string, additive bool, make func(sources *mongo.Collection, c *computed.Computed[int, string, film]) (read, write func(ctx context.Context, i int) error)) error {
		sources, targets := db.Collection(name+" screenings"), db.Collection(name+" films")
		c, err := computed.New[int, string, film](sources, targets, "film", mongo.Pipeline{sum}, d("viewers", 0, "revenue", 0), &computed.Options{Additive: additive})
		if err != nil {
			return err
		}
		if err := c.EnsureIndexes(ctx); err != nil {
			return err
		}
		if err := fill(ctx, targets, films, func(i int) any { return d("_id", title(i), "title", title(i)) }); err != nil {
			return err
		}
		if err := fill(ctx, sources, films*screenings, func(i int) any { return screening(i) }); err != nil {
			return err
		}
		if _, err := c.Adopt(ctx, nil); err != nil {
			return err
		}
		read, write := make(sources, c)
		ways = append(ways, way{name, read, write})
		return nil
	}
	insert := func(sources *mongo.Collection) func(ctx context.Context, i int) error {
		return func(ctx context.Context, i int) error {
			_, err := sources.InsertOne(ctx, screening(films*screenings+i))
			return err
		}
	}
	type reads = func(ctx context.Context, i int) error
	kept := func(c *computed.Computed[int, string, film]) reads {
		return func(ctx context.Context, i int) error {
			_, err := c.Get(ctx, title(i), time.Hour)
			return err
		}
	}
	err := errors.Join(
		add("aggregated each time", false, func(sources *mongo.Collection, _ *computed.Computed[int, string, film]) (reads, reads) {
			return func(ctx context.Context, i int) error {
				_, err := aggregate[film](ctx, 1, sources, d("$match", d("film", title(i))), sum)
				return err
			}, insert(sources)
		}),
		add("computed at the change", false, func(sources *mongo.Collection, c *computed.Computed[int, string, film]) (reads, reads) {
			write := insert(sources)
			return kept(c), func(ctx context.Context, i int) error {
				return c.Change(ctx, []int{films*screenings + i}, func(ctx context.Context) error { return write(ctx, i) })
			}
		}),
		add("computed, additive", true, func(sources *mongo.Collection, c *computed.Computed[int, string, film]) (reads, reads) {
			write := insert(sources)
			return kept(c), func(ctx context.Context, i int) error {
				return c.Change(ctx, []int{films*screenings + i}, func(ctx context.Context) error { return write(ctx, i) })
			}
		}),
		add("marked, computed by the next read", false, func(sources *mongo.Collection, c *computed.Computed[int, string, film]) (reads, reads) {
			write := insert(sources)
			return kept(c), func(ctx context.Context, i int) error {
				return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
					if err := write(ctx, i); err != nil {
						return err
					}
					return c.Mark(ctx, title(i))
				})
			}
		}),
	)
	if err != nil {
		return err
	}
	written, runs := make([]int, len(ways)), b.runs
	for _, ratio := range []struct {
		metric        string
		reads, writes int
	}{
		{"an operation, 1,000 reads to a write", 1000, 1},
		{"an operation, 100 reads to a write", b.size(100, 500, 1000), b.size(1, 5, 10)},
		{"an operation, 10 reads to a write", b.size(100, 200, 500), b.size(10, 20, 50)},
		{"an operation, a read to a write", b.size(20, 100, 250), b.size(20, 100, 250)},
		{"an operation, 10 writes to a read", b.size(4, 10, 25), b.size(40, 100, 250)},
	} {
		b.runs = runs
		if ratio.reads == 1000 {
			b.runs = min(runs, 2) // they are long
			if b.scale == "tiny" {
				ratio.reads = 50
			}
		}
		sides := make([]side, len(ways))
		for w, way := range ways {
			sides[w] = side{name: way.name, run: func(ctx context.Context) error {
				// Reads and writes take turns as evenly as they can.
				for r, done := 0, 0; r < ratio.reads || done < ratio.writes; {
					if done < ratio.writes && done*ratio.reads <= r*ratio.writes {
						if err := way.write(ctx, written[w]); err != nil {
							return err
						}
						written[w]++
						done++
						continue
					}
					if err := way.read(ctx, r); err != nil {
						return err
					}
					r++
				}
				return nil
			}}
		}
		if err := b.measure(ctx, ratio.metric, ratio.reads+ratio.writes, sides[0], sides[1:]...); err != nil {
			return err
		}
	}
	// What all ways say is the same.
	for i := range films {
		want, err := aggregate[film](ctx, 1, db.Collection("computed at the change screenings"), d("$match", d("film", title(i))), sum)
		if err != nil {
			return err
		}
		got, err := findOne[film](ctx, db.Collection("computed at the change films"), d("_id", title(i)), options.FindOne())
		if err != nil {
			return err
		}
		if got != want[0] {
			return fmt.Errorf("%s: kept %+v, is %+v", title(i), got, want[0])
		}
	}
	return nil
}
