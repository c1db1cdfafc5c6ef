package tree_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

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
