package main

import (
	"cmp"
	"context"
	"errors"
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

// sportKinds are the kinds of athletes.
func sportKinds() *polymorphic.Kinds[athlete] {
	return must(polymorphic.New([]polymorphic.Kind{
		polymorphic.Of[bowler]("bowling"), polymorphic.Of[tennisPlayer]("tennis"), polymorphic.Of[runner]("running"),
	}, &polymorphic.Options[athlete]{KindField: "sport"}))
}

// newestFirst is the order in which athletes are listed.
var newestFirst = d("joined", -1, "_id", -1)

func polymorphicAthletes(ctx context.Context, b *bench) []comparison {
	n, ops := b.size(3000, 15_000, 60_000), b.size(100, 400, 500)
	db := b.db()
	one, kinds := db.Collection("athletes"), sportKinds()
	each := []*mongo.Collection{db.Collection("bowlers"), db.Collection("tennis_players"), db.Collection("runners")}
	check(index(ctx, one, newestFirst), index(ctx, one, append(d("sport", 1), newestFirst...)),
		fill(ctx, one, n, func(i int) any { return must(kinds.Encode(athleteOf(i))) }))
	for kind, coll := range each {
		check(index(ctx, coll, newestFirst), fill(ctx, coll, n/3, func(i int) any { return athleteOf(3*i + kind) }))
	}
	page := min(20, n/3)
	newest := func() *options.FindOptionsBuilder { return options.Find().SetSort(newestFirst).SetLimit(int64(page)) }
	before := func(i int) bson.D {
		return d("joined", d("$lt", athleteOf(n-1-i*13%(n-n/3)).since().Add(time.Second)))
	}
	threeQueries := func(ctx context.Context, i int) error {
		var all []athlete
		err := errors.Join(found[bowler](ctx, each[0], before(i), newest(), &all), found[tennisPlayer](ctx, each[1], before(i), newest(), &all),
			found[runner](ctx, each[2], before(i), newest(), &all))
		slices.SortFunc(all, func(x, y athlete) int { return cmp.Compare(y.since().UnixNano(), x.since().UnixNano()) })
		return errors.Join(err, want(len(all[:min(page, len(all))]), page))
	}
	union := func(ctx context.Context, i int) error {
		first := mongo.Pipeline{d("$match", before(i)), d("$sort", newestFirst), d("$limit", page)}
		all := append(mongo.Pipeline{}, first...)
		for _, coll := range each[1:] {
			all = append(all, d("$unionWith", d("coll", coll.Name(), "pipeline", first)))
		}
		return errorOf(aggregate[bson.Raw](ctx, page, each[0], append(all, d("$sort", newestFirst), d("$limit", page))...))
	}
	return []comparison{
		compared("the newest 20 of all kinds before a time", ops,
			way("a query for each collection", threeQueries), way("$unionWith", union),
			way("polymorphic", func(ctx context.Context, i int) error {
				count := 0
				for a, err := range kinds.Find(ctx, one, before(i), newest()) {
					if err != nil {
						return err
					}
					if !a.since().IsZero() {
						count++
					}
				}
				return want(count, page)
			})),
		compared("the newest 20 of one kind before a time", ops,
			way("its own collection", func(ctx context.Context, i int) error {
				return errorOf(findAll[bowler](ctx, -1, each[0], before(i), newest()))
			}),
			way("polymorphic", func(ctx context.Context, i int) error {
				return drain(kinds.Find(ctx, one, polymorphic.FilterOf[bowler](kinds, before(i)), newest()))
			})),
	}
}

// found adds the athletes of one kind.
func found[T athlete](ctx context.Context, coll *mongo.Collection, filter bson.D, opts *options.FindOptionsBuilder, all *[]athlete) error {
	some, err := findAll[T](ctx, -1, coll, filter, opts)
	for _, a := range some {
		*all = append(*all, a)
	}
	return err
}
