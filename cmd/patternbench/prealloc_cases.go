package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

var preallocCases = []benchmark{
	{"prealloc", "seats", "A hall of 200 seats for which 8 buyers at a time ask, every seat twice: a grid made beforehand against a document that is inserted when a seat is claimed, and a document a seat.", preallocSeats},
}

const (
	seats = 200
	rush  = 8 // buyers at a time
)

func preallocSeats(ctx context.Context, b *bench) error {
	db := b.db()
	grids, claims, places := db.Collection("grids"), db.Collection("claims"), db.Collection("places")
	g, err := prealloc.New[int, int](grids, &prealloc.Options{})
	if err != nil {
		return err
	}
	var cells []prealloc.Cell
	for row := range 10 {
		cells = append(cells, prealloc.Row(string(rune('A'+row)), seats/10)...)
	}
	type place struct {
		Show int `bson:"show"`
		Seat int `bson:"seat"`
	}
	wishes := b.rand.Perm(2 * seats) // each seat twice, in any order
	b.runs = min(b.runs, 3)          // of 400 claims
	if b.scale == "tiny" {
		wishes = wishes[:40]
	}

	// buy asks for the seats by several buyers at a time. How many get one does not
	// depend on who is first.
	buy := func(ctx context.Context, wishes []int, claim func(ctx context.Context, buyer, wish int) (bool, error)) error {
		var group sync.WaitGroup
		errs, got := make([]error, rush), make([]int, rush)
		for w := range rush {
			group.Go(func() {
				for i := w; i < len(wishes) && errs[w] == nil; i += rush {
					ok, err := claim(ctx, i+1, wishes[i])
					errs[w] = err
					if ok {
						got[w]++
					}
				}
			})
		}
		group.Wait()
		right, total := map[int]bool{}, 0
		for _, wish := range wishes {
			right[wish%seats] = true
		}
		for _, n := range got {
			total += n
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return want(total, len(right))
	}
	show := map[string]int{}
	next := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			show[name]++
			switch name {
			case "grid":
				return g.Create(ctx, show[name], nil, cells...)
			case "places":
				return fill(ctx, places, seats, func(i int) any { return d("_id", place{show[name], i}) })
			}
			return nil
		}
	}
	err = b.measure(ctx, "a claim of a seat, half of them refused", len(wishes),
		side{name: "insert on claim", reset: next("claims"), run: func(ctx context.Context) error {
			return buy(ctx, wishes, func(ctx context.Context, buyer, wish int) (bool, error) {
				_, err := claims.InsertOne(ctx, d("_id", place{show["claims"], wish % seats}, "by", buyer))
				if mongo.IsDuplicateKeyError(err) {
					return false, nil
				}
				return err == nil, err
			})
		}},
		side{name: "a document a seat", reset: next("places"), run: func(ctx context.Context) error {
			return buy(ctx, wishes, func(ctx context.Context, buyer, wish int) (bool, error) {
				result, err := places.UpdateOne(ctx, d("_id", place{show["places"], wish % seats}, "by", nil), d("$set", d("by", buyer)))
				if err != nil {
					return false, err
				}
				return result.MatchedCount > 0, nil
			})
		}},
		side{name: "prealloc", reset: next("grid"), run: func(ctx context.Context) error {
			return buy(ctx, wishes, func(ctx context.Context, buyer, wish int) (bool, error) {
				err := g.Claim(ctx, show["grid"], buyer, cells[wish%seats])
				if errors.Is(err, prealloc.ErrTaken) {
					return false, nil
				}
				return err == nil, err
			})
		}})
	if err != nil {
		return err
	}
	plans := b.size(50, 200, 500)
	err = b.measure(ctx, "reading the plan of a hall", plans,
		side{name: "insert on claim", run: times(plans, func(ctx context.Context, i int) error {
			_, err := findAll[struct {
				ID place `bson:"_id"`
				By int   `bson:"by"`
			}](ctx, -1, claims, d("_id", d("$gte", place{show["claims"], 0}, "$lt", place{show["claims"], seats})))
			return err
		})},
		side{name: "a document a seat", run: times(plans, func(ctx context.Context, i int) error {
			_, err := findAll[struct {
				ID place `bson:"_id"`
				By int   `bson:"by"`
			}](ctx, seats, places, d("_id", d("$gte", place{show["places"], 0}, "$lt", place{show["places"], seats})), options.Find().SetBatchSize(seats+1))
			return err
		})},
		side{name: "prealloc", run: times(plans, func(ctx context.Context, i int) error {
			all, err := g.Cells(ctx, show["grid"])
			if err != nil {
				return err
			}
			return want(len(all), seats)
		})})
	if err != nil {
		return err
	}

	// Four seats side by side: all or none.
	four := wishes[:len(wishes)/8]
	block := func(wish int) int { return wish % (seats / 4) * 4 }
	once := func(name string, run func(ctx context.Context, buyer, from int) error) side {
		return side{name: name, run: func(ctx context.Context) error {
			taken, all := map[int]bool{}, make([]int, 0, len(four))
			for _, wish := range four { // each block by one buyer
				if !taken[block(wish)] {
					taken[block(wish)] = true
					all = append(all, block(wish))
				}
			}
			var group sync.WaitGroup
			errs := make([]error, rush)
			for w := range rush {
				group.Go(func() {
					for i := w; i < len(all) && errs[w] == nil; i += rush {
						errs[w] = run(ctx, i+1, all[i])
					}
				})
			}
			group.Wait()
			return errors.Join(errs...)
		}}
	}
	inserts := once("insert on claim, transaction", func(ctx context.Context, buyer, from int) error {
		return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
			docs := make([]any, 4)
			for i := range docs {
				docs[i] = d("_id", place{show["claims"], from + i}, "by", buyer)
			}
			_, err := claims.InsertMany(ctx, docs)
			return err
		})
	})
	inserts.reset = next("claims")
	updates := once("a document a seat, transaction", func(ctx context.Context, buyer, from int) error {
		return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
			ids := bson.A{}
			for i := range 4 {
				ids = append(ids, place{show["places"], from + i})
			}
			result, err := places.UpdateMany(ctx, d("_id", d("$in", ids), "by", nil), d("$set", d("by", buyer)))
			if err == nil && result.MatchedCount < 4 {
				err = fmt.Errorf("only %d of 4", result.MatchedCount)
			}
			return err
		})
	})
	updates.reset = next("places")
	grid := once("prealloc", func(ctx context.Context, buyer, from int) error {
		return g.Claim(ctx, show["grid"], buyer, cells[from:from+4]...)
	})
	grid.reset = next("grid")
	blocks := map[int]bool{}
	for _, wish := range four {
		blocks[block(wish)] = true
	}
	return b.measure(ctx, "a claim of four seats, all or none", len(blocks), inserts, updates, grid)
}
