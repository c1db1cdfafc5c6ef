package tree_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Cascade reads a bounded number of nodes without a list, and refuses more: one that no list has could be among those it
// does not read.
func TestCascadeOfManyBareNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, nil)
	const listed = 10_000
	all, children := []any{}, bson.A{}
	for i := range listed {
		all, children = append(all, bson.M{"_id": i, "parent": "x"}), append(children, i)
	}
	all = append(all, bson.M{"_id": "stray", "parent": "x"}, bson.M{"_id": "x", "children": children})
	testkit.InsertAll(t, coll, all)
	is(t, errOf(tr.Delete(ctx, "x", mongopatterns.Cascade)), mongopatterns.ErrNotAdopted)
	if n, err := coll.CountDocuments(ctx, bson.M{}); err != nil || n != listed+2 {
		t.Errorf("%d nodes are left, %v", n, err)
	}
}
