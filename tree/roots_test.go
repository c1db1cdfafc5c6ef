package tree_test

import (
	"iter"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Data from SQL has roots with parent 0: they are roots beside those with null and without a parent, and new roots
// are like them.
func TestRootParent(t *testing.T) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		for _, order := range []string{"", "pos"} {
			if order != "" && (rep == tree.ChildReferences || rep == tree.NestedSets) {
				continue
			}
			t.Run(rep.String()+order, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := mongotest.Database(t).Collection("nodes")
				opts := tree.Options{RootParent: 0, OrderField: order}
				tr := get(tree.New[int64, bson.M](coll, rep, &opts))(t)
				ok(t, tr.EnsureIndexes(ctx))
				putDocs(t, coll, dd("_id", int64(1), "parent", 0), dd("_id", int64(2), "parent", nil), dd("_id", int64(3)),
					dd("_id", int64(4), "parent", int32(1)), dd("_id", int64(5), "parent", 4.0))
				got, err := tr.Adopt(ctx, nil)
				wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
				check := func(what string, roots ...int64) {
					t.Helper()
					for p, err := range tr.Check(ctx, nil) {
						t.Errorf("%s: %v, %v", what, p, err)
					}
					matchIDs(t, what, tr.Roots(ctx), roots...)
					n, err := coll.CountDocuments(ctx, get(tr.RootsFilter(ctx))(t))
					wrong(t, err != nil || n != int64(len(roots)), "%s: RootsFilter matches %d, %v", what, n, err)
					for i, id := range roots {
						others := append(append([]int64{}, roots[:i]...), roots[i+1:]...)
						matchIDs(t, what+", siblings", tr.Siblings(ctx, id), others...)
						is(t, errOf(tr.Parent(ctx, id)), tree.ErrIsRoot)
					}
				}
				check("adopted", 1, 2, 3)
				matchIDs(t, "descendants", tr.Descendants(ctx, 1, 0), 4, 5)
				_, err = tr.Insert(ctx, bson.M{"_id": int64(6)}, tr.AsRoot())
				good(t, err)
				good(t, tr.Move(ctx, 5, tr.AsRoot()))
				check("inserted and moved", 1, 2, 3, 5, 6)
				get(tr.Insert(ctx, bson.M{"_id": int64(7)}, tr.Under(4)))(t)
				get(tr.Delete(ctx, 4, tree.MakeRoots))(t)
				check("made roots", 1, 2, 3, 5, 6, 7)
				good(t, tr.Move(ctx, 2, tr.Under(1)))
				check("moved away", 1, 3, 5, 6, 7)
				if rep != tree.ChildReferences && rep != tree.MaterializedPath {
					for _, id := range []int64{5, 6, 7} {
						var doc struct{ Parent any }
						ok(t, coll.FindOne(ctx, tr.Filter(id)).Decode(&doc))
						wrong(t, doc.Parent != int32(0), "%d has parent %v", id, doc.Parent)
					}
				}
				n, err := tr.Load(ctx, entriesOf[int64]("_id", &tree.Node[bson.M]{Value: bson.M{"_id": int64(8)}}), tr.AsRoot(), nil)
				wrong(t, err != nil || n.Done != 1, "%+v, %v", n, err)
				check("loaded", 1, 3, 5, 6, 7, 8)
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": int64(0)}, tr.AsRoot())), mongopatterns.ErrInvalid)
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": int64(9)}, tr.Under(0))), tree.ErrNoParent)
				// It is the ID of no node: sets are empty.
				for _, seq := range []iter.Seq2[bson.M, error]{tr.Children(ctx, 0), tr.Descendants(ctx, 0, 0), tr.LeavesBelow(ctx, 0), tr.Preorder(ctx, 0, 0)} {
					matchIDs(t, "below 0", seq)
				}
				count, err := tr.CountChildren(ctx, 0)
				wrong(t, count != 0 || err != nil, "%d children of 0, %v", count, err)
				count, err = coll.CountDocuments(ctx, get(tr.ChildrenFilter(ctx, 0))(t))
				wrong(t, count != 0 || err != nil, "ChildrenFilter of 0 matches %d, %v", count, err)
			})
		}
	}
}

// matchIDs compares documents by their IDs, in any order.
func matchIDs(t testing.TB, what string, seq iter.Seq2[bson.M, error], want ...int64) {
	t.Helper()
	got := []int64{}
	for doc, err := range seq {
		ok(t, err)
		got = append(got, doc["_id"].(int64))
	}
	slices.Sort(got)
	match(t, what, append([]int64{}, want...), got)
}
