package outlier_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Random operations on a list, against a slice. The bounds change now and then.
func TestModel(t *testing.T) {
	mongotest.URI(t) // skips under -short, before the kinds are counted
	t.Parallel()
	var kinds [10]atomic.Int64
	t.Cleanup(func() { // after all seeds
		for kind := range kinds {
			if kinds[kind].Load() == 0 {
				t.Errorf("no operation of kind %d", kind)
			}
		}
	})
	for seed := range uint64(scale.Of(2, 4, 200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			random := rand.New(rand.NewPCG(seed, scale.Seed()))
			set := seed%2 == 1
			options := func() *outlier.Options {
				o := &outlier.Options{Set: set, MaxCount: 4 + random.IntN(6), OverflowMaxCount: 2 + random.IntN(4)}
				if random.IntN(3) == 0 {
					o.FoldBack = -1
				}
				return o
			}
			lists := newLists[int, int](t, db, options())
			insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: bson.A{-1, -2}}})
			model := []int{}
			element := func() int { return random.IntN(12) }
			for step := range scale.Of(25, 60, 300) {
				var said, want any
				var err error
				x, kind := element(), random.IntN(10)
				kinds[kind].Add(1)
				switch kind {
				case 0, 1, 2:
					want = int64(0)
					if !set || !slices.Contains(model, x) {
						model, want = append(model, x), int64(1)
					}
					said, err = lists.Add(t.Context(), 1, x)
				case 3, 4:
					var xs []int
					n := int64(0)
					for range random.IntN(9) {
						xs = append(xs, element())
					}
					for _, x := range xs {
						if !set || !slices.Contains(model, x) {
							model = append(model, x)
							n++
						}
					}
					want = n
					said, err = lists.Add(t.Context(), 1, xs...)
				case 5, 6, 7, 8:
					i := -1
					for j, y := range model {
						if x == y {
							i = j // the last
						}
					}
					want = i >= 0
					said, err = lists.Remove(t.Context(), 1, x)
					if i >= 0 {
						model = slices.Delete(model, i, i+1)
					}
				case 9:
					if random.IntN(2) == 0 {
						lists = newLists[int, int](t, db, options())
						_, err = lists.Adopt(t.Context(), nil)
					} else {
						_, err = lists.Repair(t.Context(), &mongopatterns.Work{Filter: bson.M{"_id": 1}})
					}
				}
				if err != nil || said != want {
					t.Fatalf("%v, want %v, %v", said, want, err)
				}
				agree(t, db, lists, model, random)
				if step%6 == 0 {
					testkit.Healthy(t, lists)
				}
			}
			if diff := cmp.Diff([]int{-1, -2}, testkit.Collect(t, lists.All(t.Context(), 2))); diff != "" {
				t.Error("the other list:", diff)
			}
		})
	}
}

func agree(t *testing.T, db *mongo.Database, lists *outlier.Lists[int, int], model []int, random *rand.Rand) {
	t.Helper()
	ctx := t.Context()
	if got := testkit.Collect(t, lists.All(ctx, 1)); !slices.Equal(model, got) {
		t.Fatal(cmp.Diff(model, got))
	}
	if n, err := lists.Total(ctx, 1); err != nil || n != int64(len(model)) {
		t.Fatal(n, len(model), err)
	}
	x := random.IntN(12)
	if held, err := lists.Contains(ctx, 1, x); err != nil || held != slices.Contains(model, x) {
		t.Fatal(x, held, err)
	}
	offset, limit := random.IntN(len(model)+3), 1+random.IntN(6)
	page, err := lists.Slice(ctx, 1, int64(offset), int64(limit))
	from, to := min(offset, len(model)), min(offset+limit, len(model))
	want := outlier.Slice[int]{Items: append([]int{}, model[from:to]...), Total: int64(len(model)), HasNext: to < len(model)}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	for _, doc := range stored(t, db.Collection("extras"), bson.D{{Key: "n", Value: 1}}) {
		if n := len(doc[3].Value.(bson.A)); n == 0 {
			t.Fatal("an empty overflow document")
		}
	}
}
