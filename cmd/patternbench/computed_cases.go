package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
)

var computedCases = []benchmark{
	{"computed", "ratios", "Revenue and viewers of films with 200 screenings each, read and written at several ratios, from 1,000 reads to a write to 10 writes to a read: kept with the film against aggregated each time, by an index.", computedRatios},
}

// sums are what a film has of its screenings.
type sums struct {
	Viewers int `bson:"viewers"`
	Revenue int `bson:"revenue"`
}

var sumOfFilm = d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers"), "revenue", d("$sum", "$revenue")))

// cinema is films with their screenings.
type cinema struct {
	films, screenings int // screenings of each
	sources, targets  *mongo.Collection
	sums              *computed.Computed[int, string, sums]
}

func newCinema(ctx context.Context, b *bench, db *mongo.Database, name string, additive bool) *cinema {
	c := &cinema{films: b.size(10, 50, 200), screenings: b.size(200, 200, 200),
		sources: db.Collection(name + " screenings"), targets: db.Collection(name + " films")}
	c.sums = must(computed.New[int, string, sums](c.sources, c.targets, computed.Rule{KeyField: "film", Pipeline: mongo.Pipeline{sumOfFilm}, Empty: d("viewers", 0, "revenue", 0)}, &computed.Options{Additive: additive}))
	check(c.sums.EnsureIndexes(ctx),
		fill(ctx, c.targets, c.films, func(i int) any { return d("_id", c.title(i), "title", c.title(i)) }),
		fill(ctx, c.sources, c.films*c.screenings, func(i int) any { return c.screening(i) }))
	must(c.sums.Adopt(ctx, nil))
	return c
}

func (c *cinema) title(i int) string { return fmt.Sprint("film ", i%c.films) }

func (c *cinema) screening(i int) bson.D {
	return d("_id", i, "film", c.title(i), "room", i%7, "viewers", 100+i%50, "revenue", 800+i%400)
}

// write inserts the i-th screening after those of the beginning.
func (c *cinema) write(ctx context.Context, i int) error {
	return errorOf(c.sources.InsertOne(ctx, c.screening(c.films*c.screenings+i)))
}

// kept reads what is kept with a film.
func (c *cinema) kept(ctx context.Context, i int) error {
	return errorOf(c.sums.Get(ctx, c.title(i), time.Hour))
}

func (c *cinema) aggregated(ctx context.Context, i int) ([]sums, error) {
	return aggregate[sums](ctx, 1, c.sources, d("$match", d("film", c.title(i))), sumOfFilm)
}

// change writes a screening and the sums of its film.
func (c *cinema) change(ctx context.Context, i int) error {
	return c.sums.Change(ctx, []int{c.films*c.screenings + i}, func(ctx context.Context) error { return c.write(ctx, i) })
}

// alike fails if what is kept of a film is not what its screenings say.
func (c *cinema) alike(ctx context.Context) {
	for i := range c.films {
		want, got := must(c.aggregated(ctx, i)), must(findOne[sums](ctx, c.targets, d("_id", c.title(i))))
		if got != want[0] {
			check(fmt.Errorf("%s: kept %+v, is %+v", c.title(i), got, want[0]))
		}
	}
}

func computedRatios(ctx context.Context, b *bench) []comparison {
	db := b.db()
	each, changed := newCinema(ctx, b, db, "aggregated each time", false), newCinema(ctx, b, db, "computed at the change", false)
	additive, marked := newCinema(ctx, b, db, "computed, additive", true), newCinema(ctx, b, db, "marked, computed by the next read", false)
	ways := []*balance{
		{name: "aggregated each time", read: func(ctx context.Context, i int) error { return errorOf(each.aggregated(ctx, i)) }, write: each.write},
		{name: "computed at the change", read: changed.kept, write: changed.change},
		{name: "computed, additive", read: additive.kept, write: additive.change},
		{name: "marked, computed by the next read", read: marked.kept, write: func(ctx context.Context, i int) error {
			return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
				if err := marked.write(ctx, i); err != nil {
					return err
				}
				return marked.sums.Mark(ctx, marked.title(i))
			})
		}},
	}
	var all []comparison
	add := func(metric string, reads, writes, runs int) {
		c := comparison{metric: metric, ops: reads + writes, runs: runs}
		for _, way := range ways {
			c.sides = append(c.sides, way.side(reads, writes))
		}
		all = append(all, c)
	}
	thousand := 1000
	if b.scale == "tiny" {
		thousand = 50
	}
	add("an operation, 1,000 reads to a write", thousand, 1, min(b.runs, 2)) // they are long
	add("an operation, 100 reads to a write", b.size(100, 500, 1000), b.size(1, 5, 10), 0)
	add("an operation, 10 reads to a write", b.size(100, 200, 500), b.size(10, 20, 50), 0)
	add("an operation, a read to a write", b.size(20, 100, 250), b.size(20, 100, 250), 0)
	add("an operation, 10 writes to a read", b.size(4, 10, 25), b.size(40, 100, 250), 0)
	all[len(all)-1].after = changed.alike
	return all
}

// balance is a way of reading and writing.
type balance struct {
	name        string
	read, write op
	written     int
}

// side runs so many reads and writes, which take turns as evenly as they can.
func (w *balance) side(reads, writes int) side {
	return side{name: w.name, run: func(ctx context.Context) error {
		for r, done := 0, 0; r < reads || done < writes; {
			var err error
			if done < writes && done*reads <= r*writes {
				err = w.write(ctx, w.written)
				w.written++
				done++
			} else {
				err = w.read(ctx, r)
				r++
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}
}
