package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestReads(t *testing.T) {
	t.Parallel()
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		insertAll(t, v, tr, [][2]string{{"Films", ""}, {"DatabasesToo", "Programming"}, {"Da", "Programming"}})
		healthy(t, tr)

		id := func(doc bson.M, err error) string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			v.clean(t, doc)
			return doc[v.idField()].(string)
		}
		if got := id(tr.Parent(ctx, "MongoDB")); got != "Databases" {
			t.Errorf("parent of MongoDB: %s", got)
		}
		if _, err := tr.Parent(ctx, "Books"); !errors.Is(err, tree.ErrIsRoot) || !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("parent of a root: %v", err)
		}
		if _, err := tr.Parent(ctx, "none"); !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("parent of nothing: %v", err)
		}
		v.want(t, "parents", v.ids(t, tr.Parents(ctx, "MongoDB")), "Databases")
		v.want(t, "children", v.ids(t, tr.Children(ctx, "Databases")), "MongoDB", "dbm")
		v.want(t, "children of a leaf", v.ids(t, tr.Children(ctx, "dbm")))
		v.want(t, "siblings", v.ids(t, tr.Siblings(ctx, "Languages")), "Databases", "DatabasesToo", "Da")
		roots := v
		roots.ordered = v.roots
		roots.want(t, "siblings of a root", v.ids(t, tr.Siblings(ctx, "Books")), "Films")
		roots.want(t, "roots", v.ids(t, tr.Roots(ctx)), "Books", "Films")
		if got := sorted(v.ids(t, tr.Leaves(ctx))); !slices.Equal(got, []string{"Da", "DatabasesToo", "Films", "Languages", "MongoDB", "dbm"}) {
			t.Errorf("leaves: %v", got)
		}
		var up []string
		for _, doc := range get(tr.Ancestors(ctx, "MongoDB"))(t) {
			up = append(up, id(doc, nil))
		}
		wrong(t, !slices.Equal(up, []string{"Books", "Programming", "Databases"}), "ancestors: %v", up)
		if got := get(tr.Ancestors(ctx, "Books"))(t); len(got) != 0 {
			t.Errorf("ancestors of a root: %v", got)
		}
		down := v.ids(t, tr.Descendants(ctx, "Programming", 0))
		if got := sorted(down); !slices.Equal(got, []string{"Da", "Databases", "DatabasesToo", "Languages", "MongoDB", "dbm"}) {
			t.Errorf("descendants: %v", got)
		}
		v.want(t, "preorder", v.ids(t, tr.Preorder(ctx, "Programming", 0)), "Databases", "MongoDB", "dbm", "Languages", "DatabasesToo", "Da")
		v.want(t, "preorder to 1", v.ids(t, tr.Preorder(ctx, "Programming", 1)), "Databases", "Languages", "DatabasesToo", "Da")
		v.want(t, "siblings of a single child", v.ids(t, tr.Siblings(ctx, "Programming")))
		forest := get(tr.Forest(ctx))(t)
		if len(forest) != 2 {
			t.Fatalf("forest of %d trees", len(forest))
		}
		if forest[0].Value[v.idField()] != "Books" {
			slices.Reverse(forest)
		}
		v.wantTree(t, forest[0], "Books(Programming(Databases(MongoDB dbm) Languages DatabasesToo Da))")
		v.wantTree(t, forest[1], "Films")
		if got := sorted(v.ids(t, tr.Descendants(ctx, "Books", 2))); !slices.Equal(got,
			[]string{"Da", "Databases", "DatabasesToo", "Languages", "Programming"}) {
			t.Errorf("descendants to depth 2: %v", got)
		}
		v.want(t, "descendants of a leaf", v.ids(t, tr.Descendants(ctx, "dbm", 0)))
		for _, c := range []struct {
			id, above string
			want      bool
		}{{"MongoDB", "Books", true}, {"MongoDB", "Databases", true}, {"MongoDB", "MongoDB", false},
			{"Books", "MongoDB", false}, {"MongoDB", "none", false}} {
			if got := get(tr.IsDescendant(ctx, c.id, c.above))(t); got != c.want {
				t.Errorf("IsDescendant(%s, %s) = %v", c.id, c.above, got)
			}
		}
		name := func(id string) string {
			switch {
			case v.opts.NameField == "slug", v.opts.SegmentField == "slug":
				return "s-" + id
			case v.opts.NameField == "":
				return id
			}
			return "Name of " + id
		}
		var want []tree.Crumb[string]
		for _, id := range []string{"Books", "Programming", "Databases", "MongoDB"} {
			want = append(want, tree.Crumb[string]{ID: id, Name: name(id)})
		}
		match(t, "breadcrumb", want, get(tr.Breadcrumb(ctx, "MongoDB"))(t))
		if got := get(tr.CountDescendants(ctx, "Programming", 1))(t); got != 4 {
			t.Errorf("count children: %d", got)
		}
		for id, want := range map[string][2]int64{"Books": {7, 5}, "Programming": {6, 6}, "dbm": {}, "none": {}} {
			if got, err := tr.CountDescendants(ctx, id, 0); err != nil || got != want[0] {
				t.Errorf("count descendants of %s: %d, %v", id, got, err)
			}
			if got, err := tr.CountDescendants(ctx, id, 2); err != nil || got != want[1] {
				t.Errorf("count descendants of %s to 2: %d, %v", id, got, err)
			}
		}
		sub := get(tr.Subtree(ctx, "Programming", 0))(t)
		v.wantTree(t, sub, "Programming(Databases(MongoDB dbm) Languages DatabasesToo Da)")
		v.wantTree(t, get(tr.Subtree(ctx, "Books", 1))(t), "Books(Programming)")
		v.wantTree(t, get(tr.Subtree(ctx, "dbm", 0))(t), "dbm")

		// Filters and pipelines say the same.
		find := func(match bson.D, err error) []string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			cur, err := coll.Find(ctx, match)
			if err != nil {
				t.Fatalf("%v: %v", match, err)
			}
			var docs []bson.M
			ok(t, cur.All(ctx, &docs))
			out := []string{}
			for _, d := range docs {
				out = append(out, d[v.idField()].(string))
			}
			return sorted(out)
		}
		eq := func(what string, got []string, want ...string) {
			t.Helper()
			wrong(t, !slices.Equal(sorted(got), sorted(want)), "%s: got %v, want %v", what, got, want)
		}
		eq("Filter", find(tr.Filter("dbm"), nil), "dbm")
		eq("ChildrenFilter", find(tr.ChildrenFilter(ctx, "Databases")), "MongoDB", "dbm")
		eq("DescendantsFilter", find(tr.DescendantsFilter(ctx, "Programming", 0)), "Da", "Databases", "DatabasesToo", "Languages", "MongoDB", "dbm")
		eq("DescendantsFilter of Databases", find(tr.DescendantsFilter(ctx, "Databases", 0)), "MongoDB", "dbm")
		eq("DescendantsFilter to 1", find(tr.DescendantsFilter(ctx, "Programming", 1)), "Da", "Databases", "DatabasesToo", "Languages")
		eq("AncestorsFilter", find(tr.AncestorsFilter(ctx, "MongoDB")), "Books", "Programming", "Databases")
		eq("RootsFilter", find(tr.RootsFilter(ctx)), "Books", "Films")
		run := func(p mongo.Pipeline) []string {
			t.Helper()
			cur := get(coll.Aggregate(ctx, p))(t)
			var docs []bson.M
			ok(t, cur.All(ctx, &docs))
			out := []string{}
			for _, d := range docs {
				v.clean(t, d)
				out = append(out, d[v.idField()].(string))
			}
			return out
		}
		eq("ChildrenPipeline", run(tr.ChildrenPipeline("Databases")), "MongoDB", "dbm")
		if got := run(tr.AncestorsPipeline("dbm")); !slices.Equal(got, []string{"Books", "Programming", "Databases"}) {
			t.Errorf("AncestorsPipeline: %v", got)
		}
		eq("DescendantsPipeline", run(tr.DescendantsPipeline("Databases", 0)), "MongoDB", "dbm")
		eq("SubtreePipeline", run(tr.SubtreePipeline("Databases", 0)), "Databases", "MongoDB", "dbm")
		eq("no level", slices.Concat(run(tr.DescendantsPipeline("Databases", -1)), run(tr.SubtreePipeline("Databases", -1))))
		if err := testkit.Drain(tr.Descendants(ctx, "Databases", -1)); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
		eq("RootsPipeline", run(tr.RootsPipeline()), "Books", "Films")
		eq("leaves of a subtree", run(append(tr.DescendantsPipeline("Programming", 0), tr.LeavesPipeline()...)),
			"Da", "DatabasesToo", "Languages", "MongoDB", "dbm")
	})
}

// TestPipelinesAreFresh: whoever changes a stage changes neither the Tree nor the next pipeline.
func TestPipelinesAreFresh(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var scribble func(v any)
	scribble = func(v any) {
		switch v := v.(type) {
		case bson.D:
			for i := range v {
				scribble(v[i].Value)
				v[i] = bson.E{Key: "$limit", Value: 1}
			}
		case bson.A:
			for i := range v {
				scribble(v[i])
				v[i] = nil
			}
		case mongo.Pipeline:
			for i := range v {
				scribble(v[i])
			}
		case []bson.D:
			scribble(mongo.Pipeline(v))
		}
	}
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		for name, make := range map[string]func() mongo.Pipeline{
			"Children":    func() mongo.Pipeline { return tr.ChildrenPipeline("dbm") },
			"Ancestors":   func() mongo.Pipeline { return tr.AncestorsPipeline("dbm") },
			"Descendants": func() mongo.Pipeline { return tr.DescendantsPipeline("dbm", 2) },
			"Subtree":     func() mongo.Pipeline { return tr.SubtreePipeline("dbm", 0) },
			"Roots":       tr.RootsPipeline,
			"Leaves":      tr.LeavesPipeline,
		} {
			p := make()
			before := get(bson.Marshal(dd("p", p)))(t)
			scribble(p)
			after := get(bson.Marshal(dd("p", make())))(t)
			wrong(t, !bytes.Equal(before, after), "%s: %s became %s", name, bson.Raw(before), bson.Raw(after))
		}
		crumbs, err := tr.Breadcrumb(ctx, "dbm")
		above, err2 := tr.Ancestors(ctx, "dbm")
		err = errors.Join(err, err2)
		wrong(t, err != nil || len(crumbs) != 4 || len(above) != 3, "%v, %v, %v", crumbs, above, err)
	})
}

// TestIteratorsStop leaves iterators early and cancels them.
func TestIteratorsStop(t *testing.T) {
	t.Parallel()
	v := variants()[2]
	tr := v.open(t, mongotest.Database(t).Collection("nodes"))
	insertAll(t, v, tr, books)
	var more [][2]string // than a first reply has
	for i := range 200 {
		more = append(more, [2]string{fmt.Sprint(i)})
	}
	get(tr.Load(t.Context(), v.entries(more), tr.Under("Books"), nil))(t)
	for range tr.Descendants(t.Context(), "Books", 0) {
		break
	}
	for range tr.Dump(t.Context()) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range tr.Descendants(ctx, "Books", 0) {
		cancel()
		last = err
		n++
	}
	wrong(t, !errors.Is(last, context.Canceled) || n > 102, "%d results, %v", n, last)
	is(t, errOf(tr.Subtree(ctx, "Books", 0)), context.Canceled)
}

// Nested values end where a cycle closes, because what encodes one walks through it.
func TestNestedValuesEnd(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, c := range []struct {
		kind            tree.Representation
		docs            []any
		subtree, forest string
	}{
		{tree.ParentReferences, []any{dd("_id", "A", "parent", "B"), dd("_id", "B", "parent", "A"), dd("_id", "R")}, "A(B)", "R"},
		{tree.AncestorArray, []any{dd("_id", "A", "parent", "B", "ancestors", bson.A{"A", "B"}),
			dd("_id", "B", "parent", "A", "ancestors", bson.A{"A"})}, "A(B)", ""},
		{tree.ChildReferences, []any{dd("_id", "R", "children", bson.A{"A"}), dd("_id", "A", "children", bson.A{"B"}),
			dd("_id", "B", "children", bson.A{"A", "C"}), dd("_id", "C", "children", bson.A{})}, "A(B(C))", "R(A(B(C)))"},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := plain(c.kind, tree.Options{}).open(t, coll)
			putDocs(t, coll, c.docs...)
			var text func(all ...*tree.Node[bson.M]) string
			text = func(all ...*tree.Node[bson.M]) (out string) {
				for _, n := range all {
					out += n.Value["_id"].(string)
					if len(n.Children) > 0 {
						out += "(" + text(n.Children...) + ")"
					}
				}
				return out
			}
			root, err := tr.Subtree(t.Context(), "A", 0)
			if err != nil {
				t.Fatal(err)
			}
			roots, err := tr.Forest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			match(t, "subtree", c.subtree, text(root))
			match(t, "forest", c.forest, text(roots...))
			n := 0
			for _, err := range tr.Preorder(t.Context(), "A", 0) {
				if n++; err != nil || n > 9 {
					t.Fatal(n, err)
				}
			}
			match(t, "preorder", strings.Count(c.subtree, "("), n)
		})
	}
}
