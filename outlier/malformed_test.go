package outlier_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Lists of other code, each wrong in its own way: Check names each problem once, and a dry
// Repair counts what a real one does.
func TestCheckNamesEachOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(1, 9)}},
		bson.D{{Key: "_id", Value: 4}, {Key: "items", Value: ints(1, 2)}, {Key: "items_overflow", Value: bson.A{false}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: ints(1, 2)}}, bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: ints(1, 2)}})
	insert(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{1}}},
		bson.D{{Key: "parent", Value: 2}, {Key: "items", Value: bson.A{1}}}, bson.D{{Key: "parent", Value: 3}, {Key: "n", Value: 0}, {Key: "items", Value: "x"}})
	type problem struct {
		kind mongopatterns.ProblemKind
		id   string
	}
	seen := map[problem]int{}
	for p, err := range lists.Check(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		seen[problem{p.Kind, p.ID.String()}]++
	}
	named := map[string]bool{}
	for p, n := range seen {
		named[p.id] = true
		if n != 1 {
			t.Errorf("%v: %d times", p, n)
		}
	}
	if len(named) < 4 {
		t.Errorf("not all are named: %v", seen)
	}
	dry, err := lists.Repair(t.Context(), &mongopatterns.Work{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	real, err := lists.Repair(t.Context(), nil)
	if err != nil || real.Done > dry.Done || dry.Done > real.Done+real.Remaining {
		t.Errorf("%+v, %+v, %v", dry, real, err)
	}
}

// insertOutlier stores an outlier as other code may have it.
func insertOutlier(t *testing.T, db *mongo.Database, id int, items, outside any, extras ...any) {
	t.Helper()
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}, {Key: "items", Value: items},
		{Key: "items_overflow", Value: true}, {Key: "items_outside", Value: outside}, {Key: "items_moved", Value: bson.NewObjectID()}})
	insert(t, db.Collection("extras"), extras...)
}

// A filter takes an array for each value in it. A parent that has one in a field of the package is not adopted, and its
// deletion takes its overflow documents along.
func TestArraysInFieldsOfOthers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents, extras := db.Collection("parents"), db.Collection("extras")
	for _, set := range []bool{false, true} {
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: set})
		for field, odd := range map[string]func(was bson.RawValue) any{
			"items_overflow": func(was bson.RawValue) any { return bson.A{was, false} },
			"items_moved":    func(was bson.RawValue) any { return bson.A{was} },
			"items_outside":  func(was bson.RawValue) any { return bson.A{was} },
		} {
			insert(t, parents, bson.D{{Key: "_id", Value: 1}})
			add(t, lists, 1, ints(0, 9)...)
			split := testkit.Find[bson.Raw](t, parents, bson.D{})[0]
			if split.Lookup(field).Type == 0 {
				t.Fatalf("no %s in %v", field, split)
			}
			testkit.Must(parents.UpdateByID(t.Context(), 1, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: odd(split.Lookup(field))}}}}))
			before := testkit.Find[bson.D](t, parents, bson.D{})
			for name, err := range map[string]error{"Add": testkit.ErrorOf(lists.Add(t.Context(), 1, 77)), "Remove": testkit.ErrorOf(lists.Remove(t.Context(), 1, 0))} {
				if !errors.Is(err, mongopatterns.ErrNotAdopted) {
					t.Errorf("%s beside %s: %v", name, field, err)
				}
			}
			if after := testkit.Find[bson.D](t, parents, bson.D{}); !reflect.DeepEqual(before, after) {
				t.Errorf("%s: %v was written as %v", field, before, after)
			}
			testkit.OK(t, lists.Delete(t.Context(), 1))
			if n := testkit.Count(t, extras, bson.D{}); n != 0 {
				t.Errorf("%s: %d overflow documents are left", field, n)
			}
		}
	}
}

// A number outside that nobody can read is no sign of a write-back: nothing is dropped, though elements stand on both sides.
func TestNumberOutsideThatNobodyReads(t *testing.T) {
	t.Parallel()
	two, err := bson.ParseDecimal128("2")
	if err != nil {
		t.Fatal(err)
	}
	for _, outside := range []any{two, 1.5} {
		for _, extras := range [][]int{{0, 1}, {0, 0}} {
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 9, FoldBack: -1})
			insertOutlier(t, db, 1, []int{0, 3, 4, 5}, outside, bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 0}, {Key: "items", Value: extras}})
			if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Done != 1 {
				t.Errorf("%+v, %v", result, err)
			}
			testkit.Healthy(t, lists)
			equal(t, append(slices.Clone(extras), 0, 3, 4, 5), testkit.Collect(t, lists.All(t.Context(), 1)))
		}
	}
}

// Check names a number of elements outside that every call refuses, and Adopt and Repair bring
// the list into form. The number of an overflow document may have any type.
func TestNumbersOfOthers(t *testing.T) {
	t.Parallel()
	two, err := bson.ParseDecimal128("2")
	if err != nil {
		t.Fatal(err)
	}
	nan, err := bson.ParseDecimal128("NaN")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		outside, number any
		extras          []int
		problem         []string
	}{
		"outside is a Decimal128": {two, 0, ints(0, 2), []string{`1: not adopted: items_outside is 2`}},
		"outside is zero":         {0, 0, []int{}, []string{`1: not adopted: items_outside is 0`}},
		"n is a Decimal128":       {2, two, ints(0, 2), []string{}},
		"n is NaN":                {2, nan, ints(6, 8), []string{`1: not adopted: items_overflow is true`}},
	} {
		for _, adopt := range []bool{true, false} {
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, FoldBack: -1})
			insertOutlier(t, db, 1, ints(2, 6), x.outside,
				bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: x.number}, {Key: "items", Value: x.extras}})
			equal(t, x.problem, problems(t, lists, nil))
			if len(x.problem) > 0 {
				if _, err := lists.Add(t.Context(), 1, 8); !errors.Is(err, mongopatterns.ErrNotAdopted) {
					t.Error(name, err)
				}
				fix := lists.Repair
				if adopt && x.outside != 2 { // Adopt sees only what the parent shows
					fix = lists.Adopt
				}
				if result, err := fix(t.Context(), nil); err != nil || result.Done != 1 {
					t.Error(name, result, err)
				}
			}
			testkit.Healthy(t, lists)
			add(t, lists, 1, 8)
			want := slices.Concat(x.extras, ints(2, 6), ints(8, 9))
			if name == "n is NaN" { // its elements come after the parent's
				want = ints(2, 9)
			}
			equal(t, want, testkit.Collect(t, lists.All(t.Context(), 1)))
		}
	}
}

// All calls refuse the same numbers of elements outside, with room in the parent or
// without; Check names them, and Adopt takes the lists up.
func TestOutsideOfOthers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 9, FoldBack: -1})
	outsides := []any{"2", 0.5, math.Inf(1), -1, nil}
	for id, outside := range outsides {
		insertOutlier(t, db, id, ints(2, 6), outside,
			bson.D{{Key: "parent", Value: id}, {Key: "n", Value: 0}, {Key: "items", Value: ints(0, 2)}})
		_, add := lists.Add(t.Context(), id, 8)
		_, remove := lists.Remove(t.Context(), id, 0)
		_, contains := lists.Contains(t.Context(), id, 0)
		_, total := lists.Total(t.Context(), id)
		_, page := lists.Slice(t.Context(), id, 1, 9)
		for i, err := range []error{add, remove, contains, total, page} {
			if !errors.Is(err, mongopatterns.ErrNotAdopted) {
				t.Errorf("%v, %d: %v", outside, i, err)
			}
		}
	}
	equal(t, len(outsides), len(problems(t, lists, nil)))
	if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Done != int64(len(outsides)) {
		t.Error(result, err)
	}
	for id := range outsides {
		equal(t, ints(0, 6), testkit.Collect(t, lists.All(t.Context(), id)))
	}
	testkit.Healthy(t, lists)
}

// A Page of overflow documents that have the same number and more than a reply holds, beside
// one without an array, which counts as empty.
func TestPageOfOthers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, string](t, db, nil)
	large := strings.Repeat("x", 6<<20)
	extra := func(items any) bson.D {
		return bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 0}, {Key: "items", Value: items}}
	}
	two := bson.A{large, "a"}
	insertOutlier(t, db, 1, bson.A{"last"}, 6, extra(two), extra("text"), extra(two), extra(two))
	page, err := lists.Slice(t.Context(), 1, 0, 9)
	if err != nil || page.Total != 7 {
		t.Error(page.Total, err)
	}
	equal(t, []string{large, "a", large, "a", large, "a", "last"}, page.Items)
}

// Lists beside one that the server refuses are still counted.
func TestRepairBesideARefusal(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2})
	for i := range 4 {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: i}, {Key: "items", Value: ints(1, 9)}})
	}
	refuse := bson.D{{Key: "collMod", Value: "parents"}, {Key: "validator", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: 3}}}}}}
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), refuse).Err(); err != nil {
		t.Fatal(err)
	}
	if result, err := lists.Repair(t.Context(), nil); err != nil || result.Done != 3 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Elements that move out of a parent and new ones need not fit into one document together.
func TestLargeElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, string](t, db, nil)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	for _, mb := range []int{4, 3, 10} {
		if n, err := lists.Add(t.Context(), 1, strings.Repeat("x", mb<<20)); err != nil || n != 1 {
			t.Fatalf("%d MiB: %d, %v", mb, n, err)
		}
	}
	if n, err := lists.Total(t.Context(), 1); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
}
