package tree_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

var arrayParents = []bson.A{{"a", "b"}, {nil}, {}}

// TestAdoptArrayParent: a node with an array for a parent has no place, and
// neither has what is below it; the array stays.
func TestAdoptArrayParent(t *testing.T) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		for _, parent := range arrayParents {
			t.Run(fmt.Sprint(rep, parent), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := mongotest.Database(t).Collection("nodes")
				putDocs(t, coll, dd("_id", "a"), dd("_id", "b"), dd("_id", "c", "parent", parent),
					dd("_id", "d", "parent", "c"), dd("_id", "e", "parent", "a"))
				v := plain(rep, tree.Options{ChildCountField: "n"})
				tr := v.open(t, coll)
				got, err := tr.Adopt(ctx, nil)
				wrong(t, err != nil || got.Examined != 5 || got.Remaining != 2, "%+v, %v", got, err)
				kept := func(what string) {
					t.Helper()
					for _, doc := range stored(t, coll) {
						for _, e := range doc {
							if doc[0].Value == "c" && e.Key == "parent" && cmp.Equal(e.Value, parent) {
								return
							}
						}
					}
					t.Errorf("%s: %v", what, stored(t, coll))
				}
				kept("adopted")
				if rep == tree.ChildReferences || rep == tree.MaterializedPath {
					v.want(t, "children of a", v.ids(t, tr.Children(ctx, "a")), "e")
					return // they do not know the parent any more
				}
				if found := v.kinds(t, tr, coll); !slices.Contains(found, "orphan c") || slices.Contains(found, "orphan d") || slices.Contains(found, "wrong field c") {
					t.Error(found)
				}
				if got, err := tr.Repair(ctx, nil); err != nil || got.Remaining != 1 {
					t.Errorf("repair: %+v, %v", got, err)
				}
				kept("repaired")
				v.want(t, "descendants", v.ids(t, tr.Descendants(ctx, "a", 0)), "e")
				v.want(t, "to a depth", v.ids(t, tr.Descendants(ctx, "a", 2)), "e")
				v.want(t, "siblings", v.ids(t, tr.Siblings(ctx, "e")))
				v.want(t, "siblings of c", v.ids(t, tr.Siblings(ctx, "c")))
				// No policy of Delete takes c for a child.
				if n, err := tr.Delete(ctx, "a", tree.Promote); n != 1 || err != nil {
					t.Errorf("promote: %d, %v", n, err)
				}
				kept("promote")
				if n, err := tr.Delete(ctx, "b", tree.Cascade); n != 1 || err != nil {
					t.Errorf("cascade: %d, %v", n, err)
				}
				kept("cascade")
			})
		}
	}
}

// TestArrayParent: in a tree that was adopted.
func TestArrayParent(t *testing.T) {
	for _, v := range some() {
		if v.rep == tree.ChildReferences || v.rep == tree.MaterializedPath {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", ""}, {"c", "a"}, {"d", "c"}, {"e", "a"}})
			field := "parent"
			if v.opts.ParentField != "" {
				field = v.opts.ParentField
			}
			for _, parent := range arrayParents {
				get(coll.UpdateOne(ctx, tr.Filter("c"), dd("$set", dd(field, parent))))(t)
				if found := v.kinds(t, tr, coll); !slices.Contains(found, "orphan c") {
					t.Errorf("%v: %v", parent, found)
				}
				if got, err := tr.Repair(ctx, nil); err != nil || got.Remaining != 1 {
					t.Errorf("%v: %+v, %v", parent, got, err)
				}
				var doc bson.M
				if err := coll.FindOne(ctx, tr.Filter("c")).Decode(&doc); err != nil || !cmp.Equal(doc[field], any(parent)) {
					t.Errorf("%v became %v, %v", parent, doc[field], err)
				}
				if _, err := tr.Insert(ctx, v.doc("x"), tr.Before("c")); err == nil {
					t.Errorf("%v: an insertion beside it", parent)
				}
			}
			good(t, errOf(v.rooting(t, coll).Repair(ctx, nil)))
			healthy(t, tr)
			v.want(t, "roots", sorted(v.ids(t, tr.Roots(ctx))), "a", "b", "c")
		})
	}
}
