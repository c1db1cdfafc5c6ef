package paging_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// While others insert, delete and change documents, a walk in either direction
// sees each document that stays exactly once and in order.
func TestWalksWhileTheListChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("rows")
	type doc struct {
		ID    int  `bson:"_id"`
		S     any  `bson:"s"`
		Stays bool `bson:"stays"`
	}
	values := []any{nil, 1, 1.5, int64(2), "a", "b", bson.DateTime(5), true}
	const n = 24
	var stay []doc
	for i := range n {
		stay = append(stay, doc{i * 1000, values[i*7%len(values)], true})
	}
	testkit.InsertAll(t, coll, stay)
	pagers := []*paging.Pager[doc]{
		newPager[doc](t, coll, byS, nil),
		newPager[doc](t, coll, bson.D{{Key: "s", Value: -1}}, &paging.Options{Sequential: true}),
	}
	want := make([][]int, len(pagers))
	for i, pager := range pagers {
		for d, err := range pager.All(ctx, nil, paging.Request{}) {
			if err != nil {
				t.Fatal(err)
			}
			want[i] = append(want[i], d.ID)
		}
	}

	sizes := []int{1, 2, 5, 11}
	// Each page read lets a write or two happen, so that neither starves.
	writes := make(chan struct{}, 8)
	var writers, walkers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range writes {
				id := rng.IntN(n)*1000 + 1 + 2*rng.IntN(4) + w
				var err error
				switch rng.IntN(3) {
				case 0:
					_, err = coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
				case 1:
					_, err = coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}},
						bson.D{{Key: "$set", Value: bson.D{{Key: "s", Value: values[rng.IntN(len(values))]}}}})
				default:
					// Several ids of one writer never meet those of the other.
					if _, err = coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}}); err == nil {
						_, err = coll.InsertOne(ctx, doc{ID: id, S: values[rng.IntN(len(values))]})
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i, pager := range pagers {
		walkers.Go(func() {
			for _, size := range sizes {
				for _, backward := range []bool{false, true} {
					var got []int
					for page, err := range pages(ctx, pager, nil, paging.Request{Size: size, FromEnd: backward}) {
						if err != nil {
							t.Error(err)
							return
						}
						for range 2 {
							select {
							case writes <- struct{}{}:
							default:
							}
						}
						var part []int
						for _, d := range page.Items {
							if d.Stays {
								part = append(part, d.ID)
							}
						}
						if backward {
							got = append(part, got...)
						} else {
							got = append(got, part...)
						}
					}
					if !slices.Equal(got, want[i]) {
						t.Errorf("pager %d, size %d, backward %v:\n got %v\nwant %v", i, size, backward, got, want[i])
					}
				}
			}
		})
	}
	walkers.Wait()
	close(writes)
	writers.Wait()
}
