package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Other code adds an overflow document without a number to a list that is in form, as it
// did before: its elements come after those in the parent, in the order of its _ids.
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
			equal(t, ints(0, 13), testkit.Collect(t, lists.All(t.Context(), 1)))
			testkit.Healthy(t, lists)
			add(t, lists, 1, 13)
			late(14, 15)
			if isSet {
				late(3, 16) // 3 is in the list before these
			} else {
				late(16)
			}
			if result, err := call(lists); err != nil || result.Done != 1 {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			equal(t, ints(0, 17), testkit.Collect(t, lists.All(t.Context(), 1)))
			testkit.Healthy(t, lists)
			if again, err := call(lists); err != nil || again.Done != 0 {
				t.Errorf("%s: %+v, %v", name, again, err)
			}
		}
	}
}

// Other code pushes into a numbered overflow document: Adopt corrects the total.
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
	testkit.Healthy(t, lists)
}

// A split parent that other code has written back: a copy from before the split, possibly with
// more elements appended, is the whole list; a copy without the fields that old code does not
// know has the newest elements.
func TestParentWrittenBack(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for name, x := range map[string]struct{ items, want []int }{
		"before the split": {ints(0, 11), ints(0, 11)},
		"since the split":  {ints(8, 11), ints(0, 11)},
		"with other ones":  {ints(50, 53), append(ints(0, 8), ints(50, 53)...)},
		"empty":            {[]int{}, ints(0, 8)},
	} {
		for _, again := range []bool{false, true} {
			for _, isSet := range []bool{false, true} {
				if !takes(isSet, name, again) {
					continue
				}
				testkit.Empty(t, db)
				lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 3, FoldBack: -1, Set: isSet})
				parents := db.Collection("parents")
				insert(t, parents, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 10)}})
				if _, err := lists.Adopt(t.Context(), nil); err != nil { // 0 to 7 are outside
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
				equal(t, x.want, testkit.Collect(t, lists.All(t.Context(), 1)))
				testkit.Healthy(t, lists)
			}
		}
	}
}

// Strange values that a program left as a parent's _id stop no call.
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
	equal(t, ints(0, 9), testkit.Collect(t, lists.All(t.Context(), "a")))
	if got := problems(t, lists, nil); len(got) > 0 {
		t.Error(got)
	}
}

// Two old programs push and pull, insert parents, delete short ones and insert them again, and
// add overflow documents of their own, beside Adopt and new code. In the end each list has
// exactly the elements that were pushed and not pulled, once.
func TestAdoptBesideOldCode(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 4})
	parents, extras := db.Collection("parents"), db.Collection("extras")
	const split, writers, rounds = 4, 2, 30
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
				case 0: // pulls it, if it is still in the parent
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
		got := testkit.Collect(t, lists.All(t.Context(), id))
		slices.Sort(got)
		if !slices.Equal(xs, got) {
			t.Error(fmt.Sprint(id, ": ", got, ", want ", xs))
		}
	}
	testkit.Healthy(t, lists)
}

// Airports with more destinations than the bound become outliers, the others are not
// written. Then the bound is lowered and raised.
func TestAdopt(t *testing.T) {
	t.Parallel()
	routes, err := data.Routes()
	if err != nil {
		t.Fatal(err)
	}
	destinations := map[string][]string{}
	for _, r := range routes {
		destinations[r.Origin] = append(destinations[r.Origin], r.Destination)
	}
	db := mongotest.Database(t)
	var docs []any
	for origin, all := range destinations {
		docs = append(docs, bson.D{{Key: "_id", Value: origin}, {Key: "destinations", Value: all}})
	}
	insert(t, db.Collection("parents"), docs...)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "text"}, {Key: "destinations", Value: "x"}})
	for i, bound := range []int{100, 60, 90, 1000} {
		lists := newLists[string, string](t, db, &outlier.Options{
			ArrayField: "destinations", ParentField: "airport", Set: true, MaxCount: bound, OverflowMaxCount: 40,
		})
		report, err := lists.Distribution(t.Context(), nil, bound)
		if err != nil {
			t.Fatal(err)
		}
		dry, err := lists.Adopt(t.Context(), &mongopatterns.Work{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		result, err := lists.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 7})
		if err != nil || result.Remaining != 1 || result.Done != dry.Done || i == 0 && result.Done != report.Caps[0].Outliers {
			t.Fatal(result, dry, report, err)
		}
		if again, err := lists.Adopt(t.Context(), nil); err != nil || again.Done != 0 {
			t.Error(again, err)
		}
		for airport, want := range destinations {
			if len(want) > bound || len(want)%7 == 0 { // a few of the typical ones will do
				equal(t, want, testkit.Collect(t, lists.All(t.Context(), airport)))
			}
		}
		n := testkit.Count(t, db.Collection("parents"), lists.OutliersFilter())
		if (n == 0) != (bound == 1000) {
			t.Errorf("%d: %d outliers", bound, n)
		}
		if got := problems(t, lists, nil); len(got) != 1 {
			t.Error(got)
		}
	}
	for _, doc := range stored(t, db.Collection("parents"), nil, "destinations_outside") {
		if len(doc) != 2 {
			t.Fatal(doc) // all are as before
		}
	}
}

// Adopt beside writers, and some do not know the pattern yet; Repair finishes.
// No element is lost.
func TestAdoptBesideWriters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 5})
	const parents = 6
	for id := range parents {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}, {Key: "items", Value: ints(0, 20)}})
	}
	var group sync.WaitGroup
	for _, from := range []int{100, 200} {
		group.Go(func() {
			for i := range 5 {
				for id := range parents {
					if from == 100 {
						add(t, lists, id, from+i)
					} else {
						set(t, db.Collection("parents"), lists.Filter(id), bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: from + i}}}})
					}
				}
			}
		})
	}
	if _, err := lists.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 1}); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := lists.Repair(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for id := range parents {
		items := testkit.Collect(t, lists.All(t.Context(), id))
		slices.Sort(items)
		equal(t, slices.Concat(ints(0, 20), ints(100, 105), ints(200, 205)), items)
	}
	testkit.Healthy(t, lists)
}

// Other code has folded a list back and left the number of the elements outside.
func TestNumberWithoutFlag(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, nil)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 3)}, {Key: "items_outside", Value: 2}})
	page, err := lists.Slice(t.Context(), 1, 2, 10)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, outlier.Slice[int]{Items: []int{2}, Total: 3}, page)
	d, err := lists.Distribution(t.Context(), nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, int64(3), d.Elements)
}

// No call overwrites a value of the user's in a field of the pattern, if the pattern cannot have stored it. Check names it,
// and the calls that would have to overwrite it refuse the list.
func TestFieldsOfTheUser(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	flag := bson.E{Key: "items_overflow", Value: "true"}
	for _, more := range []bson.D{
		{{Key: "items_moved", Value: "in May"}},
		{{Key: "items_moved", Value: 5}},
		{{Key: "items_moved", Value: bson.Undefined{}}},
		{{Key: "items_outside", Value: "Ulm"}},
		{{Key: "items_outside", Value: 7}},
		{{Key: "items_outside", Value: bson.NewDecimal128(0, 7)}, {Key: "items_overflow", Value: false}},
		{{Key: "items_outside", Value: "Ulm"}, {Key: "items_moved", Value: bson.NewObjectID()}},
		{{Key: "items_outside", Value: "Ulm"}, flag},
		{{Key: "items_moved", Value: true}, flag},
	} {
		for _, isSet := range []bool{false, true} {
			if !takes(isSet, more) {
				continue
			}
			testkit.Empty(t, db)
			parents := db.Collection("parents")
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, Set: isSet})
			for id, n := range []int{2, 4, 9} {
				insert(t, parents, append(bson.D{{Key: "_id", Value: id}, {Key: "items", Value: ints(0, n)}}, more...))
			}
			field, foreign := more[0].Key, len(more) > 1 && more[1] == flag
			counts := func(what string, failed int64, result mongopatterns.Result, err error) {
				t.Helper()
				if err != nil || result.Done+result.Remaining > 0 || result.Failed != failed {
					t.Errorf("%v: %s: %+v, %v", more, what, result, err)
				}
				for _, f := range result.Failures {
					if !errors.Is(f.Err, mongopatterns.ErrInvalid) || !strings.Contains(f.Err.Error(), field) {
						t.Errorf("%v: %s: %v", more, what, f)
					}
				}
			}
			before := stored(t, parents, nil)
			named := 0
			for p, err := range lists.Check(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if p.Kind == mongopatterns.Malformed && p.Field == field {
					named++
				}
			}
			equal(t, 3, named)
			adopted := int64(1) // what is over the bound
			if foreign {
				adopted = 3
			}
			for _, work := range []*mongopatterns.Work{{DryRun: true}, nil} {
				result, err := lists.Adopt(t.Context(), work)
				counts("Adopt", adopted, result, err)
				result, err = lists.Repair(t.Context(), work)
				counts("Repair", 3, result, err)
			}
			for _, call := range []func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){lists.Adopt, lists.Repair} {
				if _, err := call(t.Context(), &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrInvalid) {
					t.Errorf("%v: %v", more, err)
				}
			}
			want := mongopatterns.ErrInvalid
			if foreign {
				want = mongopatterns.ErrNotAdopted
			}
			for _, id := range []int{1, 2} {
				if n, err := lists.Add(t.Context(), id, 50); n != 0 || !errors.Is(err, want) {
					t.Errorf("%v: %d, %v", more, n, err)
				}
			}
			result, err := lists.AddMany(t.Context(), func(yield func(int, int) bool) { _ = yield(1, 50) && yield(2, 50) }, nil)
			if err == nil || result.Failed != 2 || result.Unknown != 0 {
				t.Errorf("%v: %+v, %v", more, result, err)
			}
			equal(t, before, stored(t, parents, nil))
			if foreign {
				continue
			}
			// Calls that move no elements write the array alone.
			add(t, lists, 0, 50)
			if removed, err := lists.Remove(t.Context(), 0, 50); err != nil || !removed {
				t.Error(removed, err)
			}
			equal(t, before, stored(t, parents, nil))
		}
	}
}
