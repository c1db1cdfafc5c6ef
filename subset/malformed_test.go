package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A value that is not what belongs in the place of the array, of a number or of the document
// around them is not overwritten: it is named, and stays.
func TestMalformedParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "r.list", CountField: "r.n", Values: []subset.Value{{Field: "v", Sum: "sum", Mean: "mean"}}})
	parents, items := db.Collection("parents"), db.Collection("items")
	list := bson.A{d("_id", 90, "v", 1)}
	insert(t, parents,
		d("_id", 1, "r", d("list", d("_id", 10, "v", 1))), // a single item
		d("_id", 2, "r", d("list", d("10", d("_id", 10)), "n", 1)),
		d("_id", 3, "r", d("list", "none")),
		d("_id", 4, "r", d("list", 7, "n", 0)),
		d("_id", 5, "r", "text"),
		d("_id", 6, "r", bson.A{d("list", list)}),
		d("_id", 7, "r", d("list", list, "n", d("my", 1))),
		d("_id", 8, "r", d("list", list), "sum", bson.A{1}),
		d("_id", 9, "r", d("list", bson.A{d("_id", 91, "v", 1)}, "n", "1"))) // which can be understood
	insert(t, items, d("_id", 30, "parent", 3, "v", 1))
	before := stored(t, parents)
	id := func(n int) string { return fmt.Sprintf(`parents {"$numberInt":"%d"} malformed `, n) }
	malformed := []string{id(1) + "r.list", id(2) + "r.list", id(3) + "r.list", id(4) + "r.list", id(5) + "r", id(6) + "r", id(7) + "r.n", id(8) + "sum"}
	found := func() []string {
		return slices.DeleteFunc(testkit.Found(t, s.Check(t.Context(), nil)), func(p string) bool { return p[:len(id(9))-10] == id(9)[:len(id(9))-10] })
	}
	same(t, "check", malformed, found())
	for name, run := range map[string]func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){"adopt": s.Adopt, "repair": s.Repair} {
		for _, dry := range []bool{true, false} {
			result, err := run(t.Context(), &mongopatterns.Work{DryRun: dry})
			must(t, err)
			same(t, name, []int64{9, 8}, []int64{result.Examined, result.Failed})
			for i, f := range result.Failures {
				same(t, name, int32(i+1), f.ID.Int32())
			}
			same(t, name, before[:8], stored(t, parents)[:8])
		}
	}
	same(t, "check", malformed, testkit.Found(t, s.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", d("$lt", 9))})))
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "mended", malformed, testkit.Found(t, s.Check(t.Context(), nil)))
	for _, p := range before[:8] {
		for _, err := range []error{
			func() error { _, err := s.Insert(t.Context(), int(p[0].Value.(int32)), d("v", 1)); return err }(),
			func() error {
				_, err := s.InsertMany(t.Context(), seq(int(p[0].Value.(int32)), d("v", 1), d("v", 2)), nil)
				return err
			}(),
		} {
			if err == nil {
				t.Errorf("%v takes an item", p)
			}
		}
	}
	same(t, "left", before[:8], stored(t, parents)[:8])
	testkit.Untouched(t, parents)
	same(t, "items", 2, len(stored(t, items)))
}

// Check names items that other programs have stored and Insert would refuse.
func TestInvalidItems(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("at.day", -1, "rank", 1),
		Values: []subset.Value{{Field: "v.rating", Sum: "sum", Mean: "mean"}, {Field: "other", Sum: "others", Count: "other_count"}}})
	insert(t, db.Collection("parents"), d("_id", 1))
	decimalNaN, err := bson.ParseDecimal128("NaN")
	must(t, err)
	good := d("rating", 4)
	insert(t, db.Collection("items"),
		d("_id", 1, "parent", 1, "v", good, "at", d("day", 1)), d("_id", 2, "parent", 1, "v", good, "other", "x", "more", bson.A{1}, "rank", 1),
		d("_id", 10, "parent", 1), d("_id", 11, "parent", 1, "v", d("rating", "five")), d("_id", 12, "parent", 1, "v", d("rating", bson.A{1})),
		d("_id", 13, "parent", 1, "v", bson.A{good}), d("_id", 14, "parent", 1, "v", d("rating", math.NaN())),
		d("_id", 15, "parent", 1, "v", d("rating", math.Inf(-1))), d("_id", 16, "parent", 1, "v", d("rating", nil)),
		d("_id", 20, "parent", 1, "v", good, "at", d("day", bson.A{})), d("_id", 21, "parent", 1, "v", good, "at", bson.A{1}),
		d("_id", 22, "parent", 1, "v", good, "rank", bson.A{1, 2}))
	insert(t, db.Collection("items"), d("_id", 17, "parent", 1, "v", d("rating", decimalNaN)))
	_, err = s.Adopt(t.Context(), nil)
	must(t, err)
	fields := map[int32]string{10: "v.rating", 11: "v.rating", 12: "v.rating", 13: "v.rating", 14: "v.rating", 15: "v.rating", 16: "v.rating", 17: "v.rating",
		20: "at.day", 21: "at.day", 22: "rank"}
	found := map[int32]string{}
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		same(t, "kind", mongopatterns.Malformed, p.Kind)
		found[p.ID.Int32()] = p.Field
	}
	same(t, "found", fields, found)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repair", mongopatterns.Result{Examined: 1}, result)
	for id := range fields { // each can be repaired as its description says
		must(t, s.Delete(t.Context(), 1, id))
	}
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
}

// An item of other code that is too deep for the array is named, by what would bring it there as well, and can be deleted.
func TestDeepItems(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 1, Sort: d("rank", 1)})
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	deep := any(1)
	for range 179 {
		deep = d("d", deep)
	}
	for parent := range 2 {
		_, err := s.Insert(t.Context(), parent+1, d("_id", parent, "rank", 2))
		must(t, err)
	}
	insert(t, db.Collection("items"), d("_id", 10, "parent", 1, "rank", 3, "deep", deep), d("_id", 20, "parent", 2, "rank", 1, "deep", deep))
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	if result.Done != 1 || result.Failed != 1 || !strings.Contains(result.Failures[0].Err.Error(), "_id 20:") {
		t.Errorf("%+v", result)
	}
	var malformed []int32
	for p, err := range s.Check(t.Context(), nil) {
		if must(t, err); p.Kind == mongopatterns.Malformed {
			malformed = append(malformed, p.ID.Int32())
		}
	}
	same(t, "found", []int32{20}, malformed)
	err = s.Delete(t.Context(), 1, 0) // would bring the other one into the array
	if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "_id 10:") {
		t.Errorf("%v", err)
	}
	must(t, s.Delete(t.Context(), 1, 10))
	must(t, s.Delete(t.Context(), 2, 20))
	must(t, s.Delete(t.Context(), 1, 0))
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
}

// A count stored as text does not stop new code.
func TestCountAsText(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *subset.Subset[int, bson.D]) error{
		"add": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Insert(ctx, 1, d("_id", 9))
			return err
		},
		"add many": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.InsertMany(ctx, seq(1, d("_id", 9)), nil)
			return err
		},
		"update": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			return s.Update(ctx, 1, 7, d("$set", d("a", 1)))
		},
		"delete": func(ctx context.Context, s *subset.Subset[int, bson.D]) error { return s.Delete(ctx, 1, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
			insert(t, db.Collection("parents"), d("_id", 1, "items", bson.A{d("_id", 7), d("_id", 8)}, "items_count", "2"))
			insert(t, db.Collection("items"), d("_id", 7, "parent", 1))
			must(t, write(t.Context(), s))
			clean(t, db, s)
			insert(t, db.Collection("parents"), d("_id", 2, "items", bson.A{}, "items_count", "none"))
			_, err := s.Insert(t.Context(), 2, d("_id", 20))
			must(t, err)
			insert(t, db.Collection("parents"), d("_id", 3, "items_count", "none"))
			_, err = s.InsertMany(t.Context(), seq(3, d("_id", 30)), nil)
			must(t, err)
			clean(t, db, s)
		})
	}
}

// InsertMany refuses a parent whose count does not show what was written, where that matters: beside a sum that cannot
// be kept. Repair solves it.
func TestCountsThatAddingDoesNotChange(t *testing.T) {
	t.Parallel()
	for _, count := range []any{math.NaN(), math.Inf(1), 1e300, decimal("NaN")} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{Values: []subset.Value{{Field: "v", Sum: "sum", Count: "n"}}})
			insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
			for parent := 1; parent <= 2; parent++ {
				_, err := s.Insert(t.Context(), parent, d("_id", parent, "v", 1e300))
				must(t, err)
			}
			testkit.OK(t, testkit.ErrorOf(db.Collection("parents").UpdateByID(t.Context(), 1, d("$set", d("items_count", count, "sum", 1)))))
			before := stored(t, db.Collection("parents"))
			both := func(yield func(int, bson.D) bool) { // the sum of 2 cannot be kept
				_ = yield(1, d("_id", 11, "v", 1)) && yield(2, d("_id", 12, "v", 0.1)) && yield(2, d("_id", 13, "v", -1e300))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := s.InsertMany(ctx, both, nil)
			if !errors.Is(err, mongopatterns.ErrMalformed) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || !strings.Contains(err.Error(), "_id 1: ") {
				t.Fatalf("%v: %v", mongopatterns.OutcomeOf(err), err)
			}
			same(t, "parents", fmt.Sprint(before), fmt.Sprint(stored(t, db.Collection("parents"))))
			_, err = s.Repair(t.Context(), nil)
			must(t, err)
			_, err = s.InsertMany(t.Context(), both, nil)
			must(t, err)
			clean(t, db, s)
		})
	}
}

// A parent whose field above the array, or above a number, is no document is malformed.
func TestParentFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "shown.items", N: 1, Sort: d("rank", 1)})
	insert(t, db.Collection("parents"), d("_id", 1))
	_, err := s.Insert(t.Context(), 1, d("_id", 1, "rank", 1))
	must(t, err)
	_, err = db.Collection("parents").UpdateByID(t.Context(), 1, d("$set", d("shown", "text")))
	must(t, err)
	if _, err := s.Insert(t.Context(), 1, d("_id", 2, "rank", 2)); !errors.Is(err, mongopatterns.ErrMalformed) {
		t.Error(err)
	}
}
