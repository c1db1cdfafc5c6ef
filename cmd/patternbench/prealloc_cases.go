package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

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

// place is the _id of a seat that is a document.
type place struct {
	Show int `bson:"show"`
	Seat int `bson:"seat"`
}

// theatre sells seats in three ways. Each run has a new show.
type theatre struct {
	grids          *prealloc.Grids[int, int]
	claims, places *mongo.Collection
	cells          []prealloc.Cell
	show           map[string]int // the current one, by way
}

func newTheatre(db *mongo.Database) *theatre {
	t := &theatre{grids: must(prealloc.New[int, int](db.Collection("grids"), nil)), claims: db.Collection("claims"), places: db.Collection("places"), show: map[string]int{}}
	for row := range 10 {
		t.cells = append(t.cells, prealloc.Row(string(rune('A'+row)), seats/10)...)
	}
	return t
}

// next makes what a new show of a way needs.
func (t *theatre) next(way string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		t.show[way]++
		switch way {
		case "grid":
			return t.grids.Insert(ctx, t.show[way], nil, t.cells...)
		case "places":
			return fill(ctx, t.places, seats, func(i int) any { return d("_id", place{t.show[way], i}) })
		}
		return nil
	}
}

// at is a place in the current show of a way.
func (t *theatre) at(way string, seat int) place { return place{t.show[way], seat} }

// inRush calls fn for 0 to n-1, from several callers at a time.
func inRush(callers, n int, fn func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, callers)
	for w := range callers {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil; i += callers {
				errs[w] = fn(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// buying is a side in which buyers ask for seats. How many get one does not depend on who is first.
func (t *theatre) buying(name, way string, wishes []int, claim func(ctx context.Context, buyer, seat int) (bool, error)) side {
	right := map[int]bool{}
	for _, wish := range wishes {
		right[wish%seats] = true
	}
	return side{name: name, reset: t.next(way), run: func(ctx context.Context) error {
		var got atomic.Int64
		err := inRush(rush, len(wishes), func(i int) error {
			ok, err := claim(ctx, i+1, wishes[i]%seats)
			if ok {
				got.Add(1)
			}
			return err
		})
		return cmp.Or(err, want(int(got.Load()), len(right)))
	}}
}

// blocks is a side in which each buyer takes four seats side by side, all or none.
func (t *theatre) blocks(name, way string, from []int, claim func(ctx context.Context, buyer, from int) error) side {
	return side{name: name, reset: t.next(way), run: func(ctx context.Context) error {
		return inRush(rush, len(from), func(i int) error { return claim(ctx, i+1, from[i]) })
	}}
}

func (t *theatre) plan(name, way string, coll *mongo.Collection) side {
	type claimed struct {
		ID place `bson:"_id"`
		By int   `bson:"by"`
	}
	return side{name: name, op: func(ctx context.Context, i int) error {
		return errorOf(findAll[claimed](ctx, -1, coll, d("_id", d("$gte", t.at(way, 0), "$lt", t.at(way, seats))), options.Find().SetBatchSize(seats+1)))
	}}
}

func preallocSeats(_ context.Context, b *bench) []comparison {
	t := newTheatre(b.db())
	wishes := b.rand.Perm(2 * seats) // each seat twice, in any order
	if b.scale == "tiny" {
		wishes = wishes[:40]
	}
	var from []int // the first seats of blocks, each for one buyer
	for _, wish := range wishes[:len(wishes)/8] {
		if first := wish % (seats / 4) * 4; !slices.Contains(from, first) {
			from = append(from, first)
		}
	}
	all := []comparison{
		compared("a claim of a seat, half of them refused", len(wishes),
			t.buying("insert on claim", "claims", wishes, func(ctx context.Context, buyer, seat int) (bool, error) {
				_, err := t.claims.InsertOne(ctx, d("_id", t.at("claims", seat), "by", buyer))
				if mongo.IsDuplicateKeyError(err) {
					return false, nil
				}
				return err == nil, err
			}),
			t.buying("a document a seat", "places", wishes, func(ctx context.Context, buyer, seat int) (bool, error) {
				result, err := t.places.UpdateOne(ctx, d("_id", t.at("places", seat), "by", nil), d("$set", d("by", buyer)))
				return err == nil && result.MatchedCount > 0, err
			}),
			t.buying("prealloc", "grid", wishes, func(ctx context.Context, buyer, seat int) (bool, error) {
				err := t.grids.Claim(ctx, t.show["grid"], buyer, t.cells[seat])
				if errors.Is(err, prealloc.ErrTaken) {
					return false, nil
				}
				return err == nil, err
			})),
		compared("reading the plan of a hall", b.size(50, 200, 500),
			t.plan("insert on claim", "claims", t.claims), t.plan("a document a seat", "places", t.places),
			way("prealloc", func(ctx context.Context, i int) error {
				all, err := t.grids.Cells(ctx, t.show["grid"])
				return cmp.Or(err, want(len(all), seats))
			})),
		compared("a claim of four seats, all or none", len(from),
			t.blocks("insert on claim, transaction", "claims", from, func(ctx context.Context, buyer, from int) error {
				return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
					docs := make([]any, 4)
					for i := range docs {
						docs[i] = d("_id", t.at("claims", from+i), "by", buyer)
					}
					return errorOf(t.claims.InsertMany(ctx, docs))
				})
			}),
			t.blocks("a document a seat, transaction", "places", from, func(ctx context.Context, buyer, from int) error {
				return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
					ids := []place{t.at("places", from), t.at("places", from+1), t.at("places", from+2), t.at("places", from+3)}
					result, err := t.places.UpdateMany(ctx, d("_id", d("$in", ids), "by", nil), d("$set", d("by", buyer)))
					if err != nil {
						return err
					}
					return want(int(result.MatchedCount), 4)
				})
			}),
			t.blocks("prealloc", "grid", from, func(ctx context.Context, buyer, from int) error {
				return t.grids.Claim(ctx, t.show["grid"], buyer, t.cells[from:from+4]...)
			})),
	}
	all[0].runs, all[1].runs, all[2].runs = min(b.runs, 3), min(b.runs, 3), min(b.runs, 3) // of 400 claims
	return all
}
