package tree_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TestAbsentPositions: the node that a position names is not there.
func TestAbsentPositions(t *testing.T) {
	t.Parallel()
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		for _, id := range []string{"dbm", "Books"} {
			is(t, tr.Move(ctx, id, tr.Under("none")), mongopatterns.ErrNoParent)
			is(t, tr.Move(ctx, "none", tr.Under(id)), mongopatterns.ErrNotFound)
		}
		if v.ordered {
			for _, err := range []error{tr.Move(ctx, "dbm", tr.Before("none")),
				errOf(tr.Insert(ctx, v.doc("x"), tr.After("none")))} {
				is(t, err, mongopatterns.ErrNotFound)
				wrong(t, errors.Is(err, mongopatterns.ErrNoParent), "%v", err)
			}
		}
		match(t, "", before, stored(t, coll))
	})
}

// TestMoveReadsNoGrandparent: it may have a million children.
func TestMoveReadsNoGrandparent(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.ChildReferences, tree.Options{})
	tr := v.open(t, coll)
	insertAll(t, v, tr, books)
	got := mongotest.Record(t, coll.Database(), func() { ok(t, tr.Move(t.Context(), "dbm", tr.Under("Languages"))) })
	read := get(got.Named("find")[0].Reply.Lookup("cursor", "firstBatch").Array().Values())(t)
	wrong(t, len(read) != 3, "not the node, its parent and the new one: %v", read)
}
