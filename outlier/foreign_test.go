package outlier_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
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
	if len(named) < 3 {
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

// Lists beside one that the server refuses are counted.
func TestRepairBesideARefusal(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2})
	for i := range 4 {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: i}, {Key: "items", Value: ints(1, 9)}})
	}
	refuse := bson.D{{Key: "collMod", Value: "parents"}, {Key: "validator", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: 3}}}}}}
	if err := db.RunCommand(t.Context(), refuse).Err(); err != nil {
		t.Fatal(err)
	}
	if result, err := lists.Repair(t.Context(), nil); err != nil || result.Done != 3 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// What moves out of a parent and what comes need not fit one document together.
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

// Where the parents' collation finds a list by another spelling, its overflow documents are found too.
func TestCollationOfParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	if err := db.CreateCollection(t.Context(), "parents", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})); err != nil {
		t.Fatal(err)
	}
	lists := newLists[string, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "a"}})
	if n, err := lists.Add(t.Context(), "A", ints(1, 9)...); err != nil || n != int64(len(ints(1, 9))) {
		t.Fatal(n, err)
	}
	equal(t, ints(1, 9), collect(t, lists.All(t.Context(), "A")))
	if held, err := lists.Contains(t.Context(), "A", 1); err != nil || !held {
		t.Error(held, err)
	}
	if err := lists.Delete(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Collection("extras").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d left, %v", n, err)
	}
	if result, err := lists.AddMany(t.Context(), nil); err != nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
