package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// change writes past the package.
func change(t testing.TB, coll *mongo.Collection, filter, set bson.D) {
	t.Helper()
	if _, err := coll.UpdateOne(t.Context(), filter, bson.D{{Key: "$set", Value: set}}); err != nil {
		t.Fatal(err)
	}
}

// all is everything that is stored.
func all(t testing.TB, db *mongo.Database) [][]bson.D {
	t.Helper()
	byID := bson.D{{Key: "_id", Value: 1}}
	return [][]bson.D{stored(t, db.Collection("parents"), byID), stored(t, db.Collection("extras"), byID)}
}

// Refusals name the list, and what it is about.
func TestErrorsNameTheList(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[string, string](t, db, &outlier.Options{MaxCount: 2, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: "p7"}, {Key: "items", Value: "text"}}, bson.D{{Key: "_id", Value: "p8"}}, bson.D{{Key: "_id", Value: "p9"}})
	if _, err := lists.AddMany(t.Context(), "p8", users(0, 5)); err != nil {
		t.Fatal(err)
	}
	change(t, db.Collection("extras"), bson.D{{Key: "parent", Value: "p8"}, {Key: "n", Value: 1}}, bson.D{{Key: "items", Value: "text"}})
	ctx := t.Context()
	calls := map[string]func(id string) error{
		"add":       func(id string) error { _, err := lists.Add(ctx, id, "x"); return err },
		"remove":    func(id string) error { _, err := lists.Remove(ctx, id, "x"); return err },
		"contains":  func(id string) error { _, err := lists.Contains(ctx, id, "x"); return err },
		"total":     func(id string) error { _, err := lists.Total(ctx, id); return err },
		"page":      func(id string) error { _, err := lists.Page(ctx, id, 1, 9); return err },
		"items":     func(id string) error { return drain(lists.Items(ctx, id)) },
		"delete":    func(id string) error { return lists.Delete(ctx, id) },
		"rebalance": func(id string) error { return lists.Rebalance(ctx, id) },
	}
	for name, call := range calls {
		want := "outlier: " + name + `: no such parent document: _id "gone"`
		if err := call("gone"); !errors.Is(err, outlier.ErrNotFound) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if name == "delete" {
			continue
		}
		err := call("p7")
		if !errors.Is(err, outlier.ErrInvalid) || !strings.HasPrefix(err.Error(), "outlier: "+name+`: field "items": invalid: `) || strings.Count(err.Error(), `_id "p7"`) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"items", "page", "rebalance"} {
		want := "outlier: " + name + `: overflow document with "n" 1: field "items": invalid: not an array: _id "p8"`
		if err := calls[name]("p8"); !errors.Is(err, outlier.ErrInvalid) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := lists.AddMany(ctx, "p9", []string{"a", "b", strings.Repeat("x", 2<<20)}); !errors.Is(err, outlier.ErrInvalid) || !strings.Contains(err.Error(), "element 2: ") {
		t.Error(err)
	}
	if _, err := lists.Page(ctx, "p9", -1, 1); err == nil || err.Error() != "outlier: page: offset: invalid: negative" {
		t.Error(err)
	}
}

// A total that adding does not change is none: the first write of a transaction
// on an outlier must be one.
func TestTotalThatDoesNotCount(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, FoldBack: -1})
	parents := db.Collection("parents")
	for id, total := range []any{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e300, "x", nil, bson.D{}, true} {
		insert(t, db, bson.D{{Key: "_id", Value: id}})
		if _, err := lists.AddMany(t.Context(), id, ints(0, 5)); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func() error{
			func() error { _, err := lists.Add(t.Context(), id, 7); return err },
			func() error { _, err := lists.Remove(t.Context(), id, 4); return err },
			func() error { _, err := lists.RemoveAll(t.Context(), id, 3); return err },
		} {
			change(t, parents, lists.Filter(id), bson.D{{Key: "items_total", Value: total}})
			if n, err := lists.Total(t.Context(), id); err != nil || n != 2 {
				t.Errorf("%v: total %d, %v", total, n, err)
			}
			if err := write(); err != nil {
				t.Errorf("%v: %v", total, err)
			}
			doc, err := parents.FindOne(t.Context(), lists.Filter(id)).Raw()
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := doc.Lookup("items_total").AsInt64OK(); !ok || n < 0 || n > 3 {
				t.Errorf("%v became %v", total, doc.Lookup("items_total"))
			}
		}
		if diff := cmp.Diff([]int{0, 1, 2, 7}, collect(t, lists.Items(t.Context(), id))); diff != "" {
			t.Errorf("%v: %s", total, diff)
		}
	}
	// One that does is right again after Repair; until then nothing fails.
	decimal, err := bson.ParseDecimal128("5.5")
	if err != nil {
		t.Fatal(err)
	}
	for i, total := range []any{5.5, decimal} {
		insert(t, db, bson.D{{Key: "_id", Value: 100 + i}})
		if _, err := lists.AddMany(t.Context(), 100+i, ints(0, 5)); err != nil {
			t.Fatal(err)
		}
		change(t, parents, lists.Filter(100+i), bson.D{{Key: "items_total", Value: total}})
		if _, err := lists.Add(t.Context(), 100+i, 5); err != nil {
			t.Error(err)
		}
		if _, err := lists.Remove(t.Context(), 100+i, 4); err != nil {
			t.Error(err)
		}
		if n, err := lists.Total(t.Context(), 100+i); err != nil || n != 5 {
			t.Errorf("%v: total %d, %v", total, n, err)
		}
		if page, err := lists.Page(t.Context(), 100+i, 1, 9); err != nil || len(page.Items) != 4 {
			t.Errorf("%v: %v, %v", total, page, err)
		}
	}
	if _, err := lists.Repair(t.Context(), nil); err != nil {
		t.Error(err)
	}
	healthy(t, lists)
}

// Overflow documents whose number is none cannot be followed by others. That is
// refused, and leaves nothing behind in a transaction that goes on.
func TestNumberThatIsNone(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		for _, counted := range []bool{false, true} {
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: set, CountTypical: counted})
			wide := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 1500, Set: set, CountTypical: counted})
			parents, extras := db.Collection("parents"), db.Collection("extras")
			for id := range 3 {
				insert(t, db, bson.D{{Key: "_id", Value: id}})
			}
			for id, n := range []int{7, 3, 7} { // 1 is typical, with an overflow document that is not seen
				if _, err := lists.AddMany(t.Context(), id, ints(0, n)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := extras.InsertOne(t.Context(), bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: "z"}, {Key: "items", Value: bson.A{90}}}); err != nil {
				t.Fatal(err)
			}
			change(t, extras, bson.D{{Key: "parent", Value: 0}, {Key: "n", Value: 1}}, bson.D{{Key: "n", Value: "z"}})
			change(t, extras, bson.D{{Key: "parent", Value: 2}, {Key: "n", Value: 1}}, bson.D{{Key: "n", Value: "z"}})
			change(t, parents, lists.Filter(2), bson.D{{Key: "items", Value: ints(10, 16)}})
			page, err := lists.Page(t.Context(), 0, 1, 9)
			if diff := cmp.Diff(ints(1, 7), page.Items); err != nil || diff != "" {
				t.Error(err, diff)
			}
			before := all(t, db)
			inTransaction(t, db, true, func(ctx context.Context) {
				_, add := lists.AddMany(ctx, 0, []int{50, 51, 52})
				_, typical := lists.AddMany(ctx, 1, []int{50, 51, 52, 53})
				_, one := lists.Add(ctx, 0, 50)
				_, pieces := wide.AddMany(ctx, 0, ints(50, 1900)) // of which the first thousand would fit
				for i, err := range []error{add, typical, lists.Rebalance(ctx, 2), one, pieces} {
					want := fmt.Sprintf(`overflow document with "n" "z": invalid: not a number: _id %d`, []int{0, 1, 2, 0, 0}[i])
					if !errors.Is(err, outlier.ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
						t.Errorf("%v, want %s", err, want)
					}
				}
			})
			if diff := cmp.Diff(before, all(t, db)); diff != "" {
				t.Error(diff)
			}
			// Neither is an end to repairing and adopting others.
			if result, err := lists.Repair(t.Context(), nil); err != nil || result.Remaining != 2 || result.Repaired != 1 {
				t.Errorf("%+v, %v", result, err)
			}
			if result, err := lists.Adopt(t.Context(), nil); err != nil || result.Skipped != 1 || result.Adopted != 0 {
				t.Errorf("%+v, %v", result, err)
			}
		}
	}
}

// Repairing a set drops its duplicates where they lie, and removing the last
// element its document, whatever numbers somebody has stored.
func TestNumberNull(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, string](t, db, &outlier.Options{MaxCount: 4, FoldBack: -1, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: array([]string{"a", "b", "a", "c"})}})
	if _, err := db.Collection("extras").InsertOne(t.Context(), bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: nil}, {Key: "items", Value: array([]string{"d", "e", "f"})}}); err != nil {
		t.Fatal(err)
	}
	insert(t, db, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: array([]string{"a", "b", "a"})}})
	if _, err := db.Collection("extras").InsertOne(t.Context(), bson.D{{Key: "parent", Value: 2}, {Key: "items", Value: array([]string{"c", "d", "b", "e", "f"})}}); err != nil {
		t.Fatal(err)
	}
	if err := lists.Rebalance(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := lists.Rebalance(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 2; id++ {
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f"}, collect(t, lists.Items(t.Context(), id))); diff != "" {
			t.Errorf("%d: %s", id, diff)
		}
		for offset, want := range [][]string{3: {"d", "e"}, 5: {"f"}} {
			if page, err := lists.Page(t.Context(), id, int64(offset), 2); want != nil && (err != nil || !slices.Equal(page.Items, want)) {
				t.Errorf("%d: page %v, %v, want %v", id, page, err, want)
			}
		}
		for _, x := range []string{"e", "f"} {
			if removed, err := lists.Remove(t.Context(), id, x); err != nil || !removed {
				t.Errorf("%d: %v, %v", id, removed, err)
			}
		}
	}
	if docs := stored(t, db.Collection("extras"), bson.D{}); len(docs) > 0 {
		t.Error(docs)
	}
	healthy(t, lists)
}

// A list with several problems is reported, and repaired, once.
func TestCheckOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 3, CountTypical: true, Set: true})
	for id := range 3 {
		insert(t, db, bson.D{{Key: "_id", Value: id}})
		if _, err := lists.AddMany(t.Context(), id, ints(0, 5)); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection("parents").UpdateOne(t.Context(), lists.Filter(id), bson.D{{Key: "$unset", Value: bson.D{{Key: "items_overflow", Value: ""}}}}); err != nil {
			t.Fatal(err)
		}
	}
	change(t, db.Collection("parents"), lists.Filter(1), bson.D{{Key: "items_total", Value: 3}}) // as for a typical document
	change(t, db.Collection("parents"), lists.Filter(2), bson.D{{Key: "items.0", Value: 1}})
	want := []string{
		`list 0: wrong flag: 1 overflow documents`,
		`list 1: wrong flag: 1 overflow documents`,
		`list 1: wrong total: 3, want 5`,
		`list 2: duplicate of 1: 2, want 1`,
		`list 2: wrong flag: 1 overflow documents`,
	}
	got := problems(t, lists)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if result, err := lists.Repair(t.Context(), nil); err != nil || result != (outlier.RepairResult{Examined: 3, Repaired: 3}) {
		t.Errorf("%+v, %v", result, err)
	}
	healthy(t, lists)
}

// Adopt skips, and counts, what is no list. Removing does not fold it away.
func TestNoArrays(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, CountTypical: counted})
		insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: "text"}},
			bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: ints(0, 9)}})
		if _, err := lists.AddMany(t.Context(), 2, ints(0, 7)); err != nil {
			t.Fatal(err)
		}
		change(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 2}, {Key: "n", Value: 1}}, bson.D{{Key: "items", Value: "text"}})
		for x := range 5 {
			if removed, err := lists.Remove(t.Context(), 2, x); err != nil || !removed {
				t.Error(x, removed, err)
			}
		}
		for _, want := range []outlier.AdoptResult{{Examined: 3, Adopted: 1, Skipped: 2}, {Examined: 2, Skipped: 2}} {
			if result, err := lists.Adopt(t.Context(), nil); err != nil || result != want {
				t.Errorf("%+v, %v, want %+v", result, err, want)
			}
		}
		want := []string{
			`list 1: not an array`,
			`list 2: not an array`,
			`list 2: wrong total: 2, want 1`,
		}
		if counted {
			want = slices.Insert(want, 1, `list 1: wrong total: -1, want 0`)
		}
		if diff := cmp.Diff(want, problems(t, lists)); diff != "" {
			t.Error(diff)
		}
	}
}
