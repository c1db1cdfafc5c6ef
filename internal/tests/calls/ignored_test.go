package calls_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Some calls find out that they are refused after they have written, or by the server, which ends the transaction. If the
// function of Transact ignores that, nothing is committed.
func TestIgnoredRefusals(t *testing.T) {
	for name, row := range map[string]struct {
		want error // nil: the server's, for a duplicate key
		call func(t *testing.T, c, d *mongo.Collection) func(ctx context.Context) error
	}{
		"tree.Delete": {mongopatterns.ErrReferenced, func(t *testing.T, c, _ *mongo.Collection) func(ctx context.Context) error {
			testkit.InsertAll(t, c, trees[tree.AncestorArray])
			tr := testkit.Must(tree.New[string, bson.D](c, tree.AncestorArray, nil))
			return func(ctx context.Context) error {
				return testkit.ErrorOf(tr.Delete(ctx, "Books", mongopatterns.Restrict))
			}
		}},
		"extref.Delete": {mongopatterns.ErrReferenced, func(t *testing.T, c, d *mongo.Collection) func(ctx context.Context) error {
			testkit.Insert(t, c, testkit.D("_id", 1, "name", "Ann", "version", 0))
			testkit.Insert(t, d, testkit.D("_id", 7, "customer", testkit.D("_id", 1, "name", "Ann", "version", 0)))
			r := testkit.Must(extref.New[int, bson.D](c, []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil))
			return func(ctx context.Context) error { return testkit.ErrorOf(r.Delete(ctx, 1)) }
		}},
		"relation.DeleteParent": {mongopatterns.ErrReferenced, func(t *testing.T, c, d *mongo.Collection) func(ctx context.Context) error {
			testkit.Insert(t, c, testkit.D("_id", "Ann"))
			testkit.Insert(t, d, testkit.D("_id", 1, "owner", "Ann"))
			r := testkit.Must(relation.New[string, int, bson.D](c, d, &relation.Options{OwnerField: "owner"}))
			return func(ctx context.Context) error {
				return testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Restrict))
			}
		}},
		"relation.Link": {relation.ErrOwned, func(t *testing.T, c, d *mongo.Collection) func(ctx context.Context) error {
			testkit.Insert(t, c, testkit.D("_id", "Ann", "tasks", []int{1}), testkit.D("_id", "Bob"))
			testkit.Insert(t, d, testkit.D("_id", 1, "owner", "Ann"), testkit.D("_id", 2))
			r := testkit.Must(relation.New[string, int, bson.D](c, d, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"}))
			return func(ctx context.Context) error { return r.Link(ctx, "Bob", 2, 1) }
		}},
		"subset.Update": {mongopatterns.ErrInvalid, func(t *testing.T, c, d *mongo.Collection) func(ctx context.Context) error {
			testkit.Insert(t, c, testkit.D("_id", 1))
			s := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{ParentField: "product", N: 2, Values: []subset.Value{{Field: "rating", Sum: "ratings"}}}))
			testkit.OK(t, testkit.ErrorOf(s.Insert(t.Context(), 1, testkit.D("_id", 7, "rating", 3))))
			return func(ctx context.Context) error {
				return s.Update(ctx, 1, 7, testkit.D("$set", testkit.D("rating", "three")))
			}
		}},
		"prealloc.Insert, one command": {nil, func(t *testing.T, c, _ *mongo.Collection) func(ctx context.Context) error {
			g := testkit.Must(prealloc.New[int, int](c, nil))
			insert := func(ctx context.Context) error { return g.Insert(ctx, 1, nil, prealloc.At("A", "1")) }
			testkit.OK(t, insert(t.Context()))
			return insert
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c, d := db.Collection("c"), db.Collection("d")
			for _, name := range []string{"c", "d"} {
				testkit.OK(t, db.CreateCollection(t.Context(), name))
			}
			call := row.call(t, c, d)
			before := [][]bson.D{testkit.Stored[bson.D](t, c), testkit.Stored[bson.D](t, d)}
			runs := 0
			err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
				runs++
				_ = call(ctx)
				return nil
			})
			is := errors.Is(err, row.want)
			if row.want == nil {
				is = mongo.IsDuplicateKeyError(err)
			}
			method, _, _ := strings.Cut(name, ",")
			text := strings.NewReplacer(": ", ".", " ", "").Replace(fmt.Sprint(err)) // as in "subset: insert many: "
			if !strings.Contains(text, strings.ToLower(method)+".") {
				t.Errorf("the error does not name %s: %v", method, err)
			}
			if !is || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || runs != 1 {
				t.Errorf("%d runs, %v, want %v", runs, err, row.want)
			}
			if after := [][]bson.D{testkit.Stored[bson.D](t, c), testkit.Stored[bson.D](t, d)}; !reflect.DeepEqual(before, after) {
				t.Errorf("%v, want %v", after, before)
			}
		})
	}
}
