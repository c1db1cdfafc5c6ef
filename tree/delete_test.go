package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TestPromoteInPlace: the children of a deleted node take its place among its siblings.
func TestPromoteInPlace(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, _ *mongo.Collection) {
		insertAll(t, v, tr, [][2]string{{"P", ""}, {"a", "P"}, {"x", "P"}, {"b", "P"}, {"k", "x"}, {"l", "x"}, {"m", "x"}})
		get(tr.Delete(t.Context(), "x", mongopatterns.Promote))(t)
		v.want(t, "children", v.ids(t, tr.Children(t.Context(), "P")), "a", "k", "l", "m", "b")
		healthy(t, tr)
	})
}

// TestCascadeBelievesArrays: an orphan whose array still names the node goes with it,
// and one that Repair has made a root does not.
func TestCascadeBelievesArrays(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, repaired := range []bool{false, true} {
		coll := row()
		tr := newAny(t, coll, tree.AncestorArray, &tree.Options{MakeRoots: true})
		putDocs(t, coll, dd("_id", "A", "parent", nil, "ancestors", bson.A{}),
			dd("_id", "O", "parent", "gone", "ancestors", bson.A{"A", "gone"}))
		if repaired {
			get(tr.Repair(t.Context(), nil))(t)
		}
		if n := get(tr.Delete(t.Context(), "A", mongopatterns.Cascade))(t); (n == 1) != repaired {
			t.Errorf("repaired %v: %d deleted", repaired, n)
		}
	}
}

// TestCascadeOfASharedNode: without Options.Graph, Cascade also deletes a node that another parent lists by mistake. Check
// reports what is left of it, and Repair removes it.
func TestCascadeOfASharedNode(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, nil)
	putDocs(t, coll, dd("_id", "a", "children", bson.A{"shared"}), dd("_id", "b", "children", bson.A{"shared"}),
		dd("_id", "shared", "children", bson.A{}))
	match(t, "before", []string{`nodes "shared" several parents `}, testkit.Found(t, tr.Check(ctx, nil)))
	match(t, "deleted", int64(2), get(tr.Delete(ctx, "a", mongopatterns.Cascade))(t))
	match(t, "after", []string{`nodes "b" wrong field children`}, testkit.Found(t, tr.Check(ctx, nil)))
	get(tr.Repair(ctx, nil))(t)
	allRight(t, tr)
}

// A regular expression in a list is the ID of no node. The server takes it for a pattern: Cascade deletes only what
// a list names.
func TestCascadeBesidePattern(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, graph := range []bool{false, true} {
		t.Run(fmt.Sprint(graph), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			v := variant{rep: tree.ChildReferences, opts: tree.Options{Graph: graph}}
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"x", "a"}})
			changeDoc(t, coll, "b", dd("$push", dd("children", bson.Regex{Pattern: "."})))
			n, err := tr.Delete(ctx, "b", mongopatterns.Cascade)
			wrong(t, n != 2 || err != nil, "deleted %d, %v", n, err)
			left := []any{}
			for _, doc := range stored(t, coll) {
				left = append(left, doc[0].Value)
			}
			match(t, "left", []any{"a", "x"}, left)
		})
	}
}

// TestDeleteLargeIDs: no delete command grows over the limit.
func TestDeleteLargeIDs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, nil)
	plant(t, tr, bson.M{"_id": "root"}, nil)
	if _, err := tr.Load(ctx, func(yield func(tree.Entry[any, bson.M], error) bool) {
		for i := range 10 {
			if !yield(tree.Entry[any, bson.M]{Value: bson.M{"_id": fmt.Sprint(i, strings.Repeat("x", 1<<20))}}, nil) {
				return
			}
		}
	}, tr.Under("root"), &mongopatterns.Work{BatchSize: 5}); err != nil {
		t.Fatal(err)
	}
	got := mongotest.Record(t, coll.Database(), func() {
		if n, err := tr.Delete(ctx, "root", mongopatterns.Cascade); n != 11 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	deletes := got.Named("delete")
	for _, c := range deletes {
		wrong(t, len(c.Body) > 9<<20, "a command of %d bytes", len(c.Body))
	}
	wrong(t, len(deletes) != 2, "%d commands", len(deletes))
}

// TestDeleteLargeLists: nor does any other command of a deletion in child references. That of a graph sends what that of a
// tree does, and looks for other parents.
func TestDeleteLargeLists(t *testing.T) {
	t.Parallel()
	row := rows(t)
	both := []bool{false, true}
	for _, graph := range scale.Of([]bool{true}, both, both) {
		coll := row()
		docs, upper := []any{}, bson.A{}
		for i := range 10 { // two levels below the root, because $graphLookup fails for a larger one
			id := fmt.Sprint(i, strings.Repeat("x", 1<<20))
			upper = append(upper, id)
			docs = append(docs, dd("_id", id, "children", bson.A{"below " + id}), dd("_id", "below "+id, "children", bson.A{}))
		}
		putDocs(t, coll, append(docs, dd("_id", "root", "children", upper))...)
		tr := get(tree.New[any, bson.M](coll, tree.ChildReferences, &tree.Options{Graph: graph}))(t) // an index of such IDs takes long
		if graph {
			plant(t, tr, bson.M{"_id": "other"}, nil)
			ok(t, tr.Link(t.Context(), "other", "below "+upper[9].(string)))
		}
		n, err := tr.Delete(t.Context(), "root", mongopatterns.Cascade)
		if want := map[bool]int64{false: 21, true: 20}[graph]; n != want || err != nil {
			t.Errorf("graph %v: %d, %v", graph, n, err)
		}
		allRight(t, tr)
	}
}

// Delete refuses documents of another representation, because it cannot see their children. In ParentReferences and
// ChildReferences a document that names no parent is like one of their own: Delete removes it, and Check reports it.
func TestDeleteOtherRepresentation(t *testing.T) {
	t.Parallel()
	row := rows(t)
	docs := map[tree.Representation][]any{
		tree.ParentReferences: {dd("_id", "A", "parent", nil), dd("_id", "B", "parent", "A")},
		tree.ChildReferences:  {dd("_id", "A", "children", bson.A{"B"}), dd("_id", "B", "children", bson.A{})},
		tree.AncestorArray:    {dd("_id", "A", "ancestors", bson.A{}, "parent", nil), dd("_id", "B", "ancestors", bson.A{"A"}, "parent", "A")},
		tree.MaterializedPath: {dd("_id", "A", "path", nil), dd("_id", "B", "path", ",A,")},
		tree.NestedSets:       {dd("_id", "A", "left", 1, "right", 4, "parent", nil), dd("_id", "B", "left", 2, "right", 3, "parent", "A")},
	}
	for as := tree.ParentReferences; as <= tree.NestedSets; as++ {
		derives := as != tree.ParentReferences && as != tree.ChildReferences
		t.Run(as.String(), func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := plain(as, tree.Options{}).open(t, coll)
			for other, docs := range docs {
				names := other != tree.ChildReferences && other != tree.MaterializedPath // a parent
				for policy := mongopatterns.Restrict; policy <= mongopatterns.Unlink; policy++ {
					if other == as || !derives && policy != mongopatterns.Restrict || !scale.Third(fmt.Sprint(other, as, policy)) {
						continue
					}
					t.Run(fmt.Sprint(other, " ", policy), func(t *testing.T) {
						get(coll.DeleteMany(t.Context(), bson.D{}))(t)
						putDocs(t, coll, docs...)
						before := stored(t, coll)
						wrong(t, (derives || !names) && len(problems(t, tr)) == 0, "Check reports nothing")
						n, err := tr.Delete(t.Context(), "A", policy)
						switch {
						case !derives && !names:
							wrong(t, n != 1 || err != nil, "%d, %v", n, err)
							return
						case policy == mongopatterns.Restrict && names && as != tree.NestedSets:
							is(t, err, mongopatterns.ErrReferenced)
						default:
							is(t, err, mongopatterns.ErrNotAdopted)
						}
						match(t, "refused, yet", before, stored(t, coll))
					})
				}
			}
		})
	}
}
