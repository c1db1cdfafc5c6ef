package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/polymorphic"
)

var polymorphicCases = []benchmark{
	{"polymorphic", "athletes", "Three kinds of athletes listed together: one query of one collection against one query for each kind, merged by the client or by $unionWith; and one kind alone.", polymorphicAthletes},
}

type athlete interface{ since() time.Time }

type bowler struct {
	ID      int       `bson:"_id"`
	Name    string    `bson:"name"`
	Joined  time.Time `bson:"joined"`
	Average int       `bson:"average"`
}

type tennisPlayer struct {
	ID      int            `bson:"_id"`
	Name    string         `bson:"name"`
	Joined  time.Time      `bson:"joined"`
	Singles map[string]int `bson:"singles"`
}

type runner struct {
	ID     int       `bson:"_id"`
	Name   string    `bson:"name"`
	Joined time.Time `bson:"joined"`
	Events []string  `bson:"events"`
}

func (a bowler) since() time.Time       { return a.Joined }
func (a tennisPlayer) since() time.Time { return a.Joined }
func (a runner) since() time.Time       { return a.Joined }

func athleteOf(i int) athlete {
	joined := time.Date(2000, 1, 1, 0, 0, i*97, 0, time.UTC)
	switch i % 3 {
	case 0:
		return bowler{i, "Earl Anthony", joined, 219}
	case 1:
		return tennisPlayer{i, "Martina Navratilova", joined, map[string]int{"titles": 167}}
	}
	return runner{i, "Emil Zátopek", joined, []string{"5,000 m", "10,000 m", "marathon"}}
}

func polymorphicAthletes(ctx context.Context, b *bench) error {
	n, ops := b.size(3000, 15_000, 60_000), b.size(100, 400, 500)
	db := b.db()
	one := db.Collection("athletes")
	each := []*mongo.Collection{db.Collection("bowlers"), db.Collection("tennis_players"), db.Collection("runners")}
	kinds, err := polymorphic.New([]polymorphic.Kind{
		polymorphic.Of[bowler]("bowling"), polymorphic.Of[tennisPlayer]("tennis"), polymorphic.Of[runner]("running"),
	}, &polymorphic.Options[athlete]{Field: "sport"})
	if err != nil {
		return err
	}
	for _, keys := range []bson.D{d("joined", -1, "_id", -1), d("sport", 1, "joined", -1, "_id", -1)} {
		if err := index(ctx, one, keys); err != nil {
			return err
		}
	}
	err = fill(ctx, one, n, func(i int) any {
		raw, err := kinds.Encode(athleteOf(i))
		if err != nil {
			panic(err) // no such athlete
		}
		return raw
	})
	if err != nil {
		return err
	}
	for kind, coll := range each {
		if err := index(ctx, coll, d("joined", -1, "_id", -1)); err != nil {
			return err
		}
		if err := fill(ctx, coll, n/3, func(i int) any { return athleteOf(3*i + kind) }); err != nil {
			return err
		}
	}
	page := min(20, n/3)
	order := d("joined", -1, "_id", -1)
	newest := func() *options.FindOptionsBuilder { return options.Find().SetSort(order).SetLimit(int64(page)) }
	before := func(i int) bson.D {
		return d("joined", d("$lt", athleteOf(n-1-i*13%(n-n/3)).since().Add(time.Second)))
	}
	collect := func(ctx context.Context, filter any) error {
		count := 0
		for a, err := range kinds.Find(ctx, one, filter, newest()) {
			if err != nil {
				return err
			}
			if !a.since().IsZero() {
				count++
			}
		}
		return want(count, page)
	}
	err = b.measure(ctx, "the newest 20 of all kinds before a time", ops,
		side{name: "a query for each collection", run: times(ops, func(ctx context.Context, i int) error {
			bowlers, err := findAll[bowler](ctx, -1, each[0], before(i), newest())
			if err != nil {
				return err
			}
			players, err := findAll[tennisPlayer](ctx, -1, each[1], before(i), newest())
			if err != nil {
				return err
			}
			runners, err := findAll[runner](ctx, -1, each[2], before(i), newest())
			if err != nil {
				return err
			}
			var all []athlete
			for _, a := range bowlers {
				all = append(all, a)
			}
			for _, a := range players {
				all = append(all, a)
			}
			for _, a := range runners {
				all = append(all, a)
			}
			slices.SortFunc(all, func(x, y athlete) int { return cmp.Compare(y.since().UnixNano(), x.since().UnixNano()) })
			return want(len(all[:min(page, len(all))]), page)
		})},
		side{name: "$unionWith", run: times(ops, func(ctx context.Context, i int) error {
			first := mongo.Pipeline{d("$match", before(i)), d("$sort", order), d("$limit", page)}
			all := append(mongo.Pipeline{}, first...)
			for _, coll := range each[1:] {
				all = append(all, d("$unionWith", d("coll", coll.Name(), "pipeline", first)))
			}
			_, err := aggregate[bson.Raw](ctx, page, each[0], append(all, d("$sort", order), d("$limit", page))...)
			return err
		})},
		side{name: "polymorphic", run: times(ops, func(ctx context.Context, i int) error { return collect(ctx, before(i)) })})
	if err != nil {
		return err
	}
	return b.measure(ctx, "the newest 20 of one kind before a time", ops,
		side{name: "its own collection", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findAll[bowler](ctx, -1, each[0], before(i), newest())
			return err
		})},
		side{name: "polymorphic", run: times(ops, func(ctx context.Context, i int) error {
			for _, err := range kinds.Find(ctx, one, polymorphic.FilterOf[bowler](kinds, before(i)), newest()) {
				if err != nil {
					return err
				}
			}
			return nil
		})})
}
