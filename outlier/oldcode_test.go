package outlier_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Other code adds an overflow document without a number to a list that is in form, as it
// did before: its elements come last, after those in the parent, in the order of its _ids.
func TestLateOverflow(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*outlier.Lists[int, int]) (mongopatterns.Result, error){
		"adopt":  func(l *outlier.Lists[int, int]) (mongopatterns.Result, error) { return l.Adopt(t.Context(), nil) },
		"repair": func(l *outlier.Lists[int, int]) (mongopatterns.Result, error) { return l.Repair(t.Context(), nil) },
	} {
		for _, isSet := range []bool{false, true} {
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 3, FoldBack: -1, Set: isSet})
			for id := range 3 {
				insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}})
				add(t, lists, id, ints(0, 10)...)
			}
			late := func(items ...int) {
				insert(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 1}, {Key: "items", Value: items}})
			}
			late(10, 11)
			late(12)
			if got := problems(t, lists, nil); len(got) != 1 {
				t.Error(name, got)
			}
			result, err := call(lists)
			if err != nil || result.Done != 1 || result.Failed+result.Remaining > 0 {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			equal(t, ints(0, 13), collect(t, lists.All(t.Context(), 1)))
			healthy(t, lists)
			add(t, lists, 1, 13)
			late(14, 15)
			if isSet {
				late(3, 16) // 3 is there, in front
			} else {
				late(16)
			}
			if result, err := call(lists); err != nil || result.Done != 1 {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			equal(t, ints(0, 17), collect(t, lists.All(t.Context(), 1)))
			healthy(t, lists)
			if again, err := call(lists); err != nil || again.Done != 0 {
				t.Errorf("%s: %+v, %v", name, again, err)
			}
		}
	}
}

// Other code pushes into a numbered overflow document: the total is put right.
func TestPushIntoOverflow(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, FoldBack: -1})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	add(t, lists, 1, ints(0, 5)...)
	set(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 1}}, bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: 9}}}})
	if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if n, err := lists.Total(t.Context(), 1); err != nil || n != 6 {
		t.Error(n, err)
	}
	healthy(t, lists)
}

// A split parent that other code has written back: as it was before the split, with more
// behind, it is the whole list; as it is, without the fields that it does not know, it has
// the newest elements.
func TestParentWrittenBack(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ items, want []int }{
		"before the split": {ints(0, 11), ints(0, 11)},
		"since the split":  {ints(8, 11), ints(0, 11)},
		"with other ones":  {ints(50, 53), append(ints(0, 8), ints(50, 53)...)},
		"empty":            {[]int{}, ints(0, 8)},
	} {
		for _, again := range []bool{false, true} {
			for _, isSet := range []bool{false, true} {
				db := mongotest.Database(t)
				lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 3, FoldBack: -1, Set: isSet})
				parents := db.Collection("parents")
				insert(t, parents, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 10)}})
				if _, err := lists.Adopt(t.Context(), nil); err != nil { // 0 to 7 outside
					t.Fatal(err)
				}
				doc, err := bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: x.items}}, error(nil)
				if again {
					_, err = parents.DeleteOne(t.Context(), lists.Filter(1))
					insert(t, parents, doc)
				} else {
					_, err = parents.ReplaceOne(t.Context(), lists.Filter(1), doc)
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := problems(t, lists, nil); len(got) == 0 {
					t.Errorf("%s: Check finds nothing", name)
				}
				if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Failed+result.Remaining > 0 {
					t.Errorf("%s: %+v, %v", name, result, err)
				}
				if _, err := lists.Repair(t.Context(), nil); err != nil {
					t.Error(name, err)
				}
				equal(t, x.want, collect(t, lists.All(t.Context(), 1)))
				healthy(t, lists)
			}
		}
	}
}

// What a program left in the place of a parent's _id stops no call.
func TestStrangeParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[string, int](t, db, &outlier.Options{MaxCount: 4})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "a"}})
	add(t, lists, "a", ints(0, 9)...)
	for _, odd := range []any{bson.Regex{Pattern: "^"}, bson.D{{Key: "$gt", Value: ""}}, nil, bson.Undefined{}, bson.A{1, 2}} {
		insert(t, db.Collection("extras"), bson.D{{Key: "parent", Value: odd}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{1}}})
	}
	if got := problems(t, lists, nil); len(got) < 4 {
		t.Error(got)
	}
	if _, err := lists.Repair(t.Context(), nil); err != nil {
		t.Error(err)
	}
	equal(t, ints(0, 9), collect(t, lists.All(t.Context(), "a")))
	if got := problems(t, lists, nil); len(got) > 0 {
		t.Error(got)
	}
}

// Old code, of two programs, pushes and pulls, inserts parents, deletes those that are short
// and inserts them again, and adds overflow documents of its own, beside Adopt and new code.
// In the end each list has just the elements that were pushed and not pulled, once.
func TestAdoptBesideOldCode(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 4})
	parents, extras := db.Collection("parents"), db.Collection("extras")
	const split, writers, rounds = 4, 2, 60
	for id := range split {
		insert(t, parents, bson.D{{Key: "_id", Value: id}, {Key: "items", Value: ints(0, 12)}})
	}
	var want [writers + 1]map[int][]int // by parent what each has added
	var group sync.WaitGroup
	for writer := range writers {
		want[writer] = map[int][]int{}
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), 1))
			for i := range rounds {
				id, x := i%split, 1000*(writer+1)+i
				set(t, parents, lists.Filter(id), bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: x}}}})
				keep := true
				switch random.IntN(4) {
				case 0: // takes it out, if it still lies in the parent
					result, err := parents.UpdateOne(t.Context(), append(lists.Filter(id), bson.E{Key: "items", Value: x}), bson.D{{Key: "$pull", Value: bson.D{{Key: "items", Value: x}}}})
					if err != nil {
						t.Error(err)
					}
					keep = result.MatchedCount == 0
				case 1:
					insert(t, extras, bson.D{{Key: "parent", Value: id}, {Key: "items", Value: bson.A{x + 500}}})
					want[writer][id] = append(want[writer][id], x+500)
				case 2:
					other := 1000*(writer+1) + i
					doc := bson.D{{Key: "_id", Value: other}, {Key: "items", Value: ints(0, 3)}}
					insert(t, parents, doc)
					if _, err := parents.DeleteOne(t.Context(), lists.Filter(other)); err != nil {
						t.Error(err)
					}
					insert(t, parents, doc)
					want[writer][other] = ints(0, 3)
				}
				if keep {
					want[writer][id] = append(want[writer][id], x)
				}
			}
		})
	}
	want[writers] = map[int][]int{}
	group.Go(func() { // new code
		for i := range rounds {
			if _, err := lists.Add(t.Context(), i%split, 9000+i); err != nil {
				t.Error(err)
			}
			want[writers][i%split] = append(want[writers][i%split], 9000+i)
		}
	})
	stopped := make(chan bool)
	go func() { group.Wait(); close(stopped) }()
	for running := true; running; {
		select {
		case <-stopped:
			running = false
		default:
		}
		if result, err := lists.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 2}); err != nil || result.Failed+result.Remaining > 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	all := map[int][]int{}
	for id := range split {
		all[id] = ints(0, 12)
	}
	for _, added := range want {
		for id, xs := range added {
			all[id] = append(all[id], xs...)
		}
	}
	for id, xs := range all {
		slices.Sort(xs)
		got := collect(t, lists.All(t.Context(), id))
		slices.Sort(got)
		if !slices.Equal(xs, got) {
			t.Error(fmt.Sprint(id, ": ", got, ", want ", xs))
		}
	}
	healthy(t, lists)
}
