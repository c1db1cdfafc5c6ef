package tree_test

import (
	"context"
	"iter"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func drained[V any](all iter.Seq2[V, error]) (err error) {
	for _, e := range all {
		err = e
	}
	return err
}

func second[V any](_ V, err error) error { return err }

// TestErrorsNameTheCall: every error begins with the package, once, and the call.
func TestErrorsNameTheCall(t *testing.T) {
	begin := regexp.MustCompile(`^tree: [a-z ]+: `)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			tr := v.open(t, mongotest.Database(t).Collection("nodes"))
			insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}})
			for _, ctx := range []context.Context{t.Context(), ended} {
				for name, err := range map[string]error{
					"Children":             drained(tr.Children(ctx, "none")),
					"Siblings":             drained(tr.Siblings(ctx, "none")),
					"Descendants":          drained(tr.Descendants(ctx, "none", nil)),
					"Ancestors":            second(tr.Ancestors(ctx, "none")),
					"Parent":               second(tr.Parent(ctx, "none")),
					"Parent of a root":     second(tr.Parent(ctx, "a")),
					"Depth":                second(tr.Depth(ctx, "none")),
					"IsDescendant":         second(tr.IsDescendant(ctx, "none", "a")),
					"LCA":                  second(tr.LowestCommonAncestor(ctx, "none", "a")),
					"Breadcrumb":           second(tr.Breadcrumb(ctx, "none")),
					"Subtree":              second(tr.Subtree(ctx, "none", nil)),
					"CountChildren":        second(tr.CountChildren(ctx, "none")),
					"CountDescendants":     second(tr.CountDescendants(ctx, "none")),
					"AncestorsFilter":      second(tr.AncestorsFilter(ctx, "none")),
					"Insert":               second(tr.Insert(ctx, v.doc("x"), tr.Under("none"))),
					"Insert twice":         second(tr.Insert(ctx, v.doc("a"), tr.AsRoot())),
					"Move":                 tr.Move(ctx, "none", tr.AsRoot()),
					"Move under itself":    tr.Move(ctx, "a", tr.Under("c")),
					"Delete":               second(tr.Delete(ctx, "none", tree.Promote)),
					"Delete with kids":     second(tr.Delete(ctx, "a", tree.Restrict)),
					"Roots, ended":         drained(tr.Roots(ended)),
					"Leaves, ended":        drained(tr.Leaves(ended)),
					"Check, ended":         drained(tr.Check(ended)),
					"Repair, ended":        second(tr.Repair(ended, nil)),
					"Dump, ended":          drained(tr.Dump(ended)),
					"Adopt, ended":         second(tr.Adopt(ended, nil)),
					"LoadNodes, ended":     second(tr.LoadNodes(ended, []*tree.Node[bson.M]{{Value: bson.M{"_id": "y"}}}, nil)),
					"ChildrenFilter":       second(tr.ChildrenFilter(ctx, "none")),
					"DescendantsFilter":    second(tr.DescendantsFilter(ctx, "none", nil)),
					"EnsureIndexes, ended": tr.EnsureIndexes(ended),
				} {
					if err != nil && (!begin.MatchString(err.Error()) || strings.Contains(err.Error(), " tree: ")) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}
