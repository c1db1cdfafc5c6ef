package tree_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// variant is a representation with options; every variant passes the same
// tests.
type variant struct {
	name    string
	rep     tree.Representation
	opts    tree.Options
	ordered bool // siblings
	roots   bool // roots too
}

func variants() []variant {
	scope := bson.D{{Key: "tenant", Value: "acme"}, {Key: "kind", Value: int32(7)}}
	return []variant{
		{name: "parent", rep: tree.ParentReferences},
		{name: "children", rep: tree.ChildReferences, ordered: true},
		{name: "ancestors", rep: tree.AncestorArray},
		{name: "path", rep: tree.MaterializedPath},
		{name: "nested", rep: tree.NestedSets, ordered: true, roots: true},
		{name: "parent/all", rep: tree.ParentReferences, ordered: true, roots: true,
			opts: tree.Options{IDField: "sku", ParentField: "up", OrderField: "pos", ChildCountField: "n", NameField: "info.name", Scope: scope}},
		{name: "children/all", rep: tree.ChildReferences, ordered: true,
			opts: tree.Options{IDField: "sku", ChildrenField: "down", ChildCountField: "n", Scope: scope}},
		{name: "ancestors/all", rep: tree.AncestorArray, ordered: true, roots: true,
			opts: tree.Options{AncestorsField: "ancestor_categories", ParentField: "parent_category", OrderField: "pos", ChildCountField: "n", Scope: scope}},
		{name: "path/all", rep: tree.MaterializedPath, ordered: true, roots: true,
			opts: tree.Options{IDField: "sku", PathField: "way", PathDelimiter: "/", OrderField: "pos", ChildCountField: "n", NameField: "slug", Scope: scope}},
		{name: "nested/all", rep: tree.NestedSets, ordered: true, roots: true,
			opts: tree.Options{LeftField: "l", RightField: "r", ParentField: "up", ChildCountField: "n", Scope: scope}},
	}
}

func (v variant) idField() string {
	if v.opts.IDField != "" {
		return v.opts.IDField
	}
	return "_id"
}

func (v variant) doc(id string) bson.M {
	return bson.M{v.idField(): id, "slug": "s-" + id, "info": bson.M{"name": "Name of " + id}}
}

// trees have string IDs and documents of any fields here.
type trees = tree.Tree[string, bson.M]

// open makes the variant's tree, and beside it, in a scope of their own, nodes
// with the same IDs that nothing may touch.
func (v variant) open(t testing.TB, coll *mongo.Collection) *trees {
	t.Helper()
	tr := get(tree.New[string, bson.M](coll, v.rep, &v.opts))(t)
	ok(t, tr.EnsureIndexes(t.Context()))
	return tr
}

// some are the five representations, and two of them with all options.
func some() []variant {
	all := variants()
	return append(all[:6:6], all[8])
}

func eachVariant(t *testing.T, fn func(t *testing.T, v variant, tr *trees, coll *mongo.Collection)) {
	each(t, variants(), fn)
}

func each(t *testing.T, variants []variant, fn func(t *testing.T, v variant, tr *trees, coll *mongo.Collection)) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("nodes")
			fn(t, v, v.open(t, coll), coll)
		})
	}
}

var books = [][2]string{{"Books", ""}, {"Programming", "Books"}, {"Databases", "Programming"},
	{"Languages", "Programming"}, {"MongoDB", "Databases"}, {"dbm", "Databases"}}

func insertAll(t testing.TB, v variant, tr *trees, nodes [][2]string) {
	t.Helper()
	for _, n := range nodes {
		pos := tr.AsRoot()
		if n[1] != "" {
			pos = tr.Under(n[1])
		}
		got, err := tr.Insert(t.Context(), v.doc(n[0]), pos)
		if err != nil {
			t.Fatalf("insert %s under %q: %v", n[0], n[1], err)
		}
		if got != n[0] {
			t.Fatalf("insert %s returned %q", n[0], got)
		}
	}
}

func (v variant) ids(t testing.TB, docs iter.Seq2[bson.M, error]) []string {
	t.Helper()
	out := []string{}
	for doc, err := range docs {
		if err != nil {
			t.Fatal(err)
		}
		v.clean(t, doc)
		out = append(out, doc[v.idField()].(string))
	}
	return out
}

// clean fails if a helper field of a pipeline got out.
func (v variant) clean(t testing.TB, doc bson.M) {
	t.Helper()
	for k := range doc {
		wrong(t, len(k) > 2 && k[:2] == "__", "%v has the field %s", doc[v.idField()], k)
	}
}

func sorted(s []string) []string { s = slices.Clone(s); sort.Strings(s); return s }

// want compares, in order if siblings are ordered.
func (v variant) want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if !v.ordered {
		got, want = sorted(got), sorted(want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// get is the value of a call that may not fail.
func get[V any](v V, err error) func(t testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails unless err matches want.
func is(t testing.TB, err, want error) {
	t.Helper()
	wrong(t, !errors.Is(err, want), "%v, want %v", err, want)
}

// match fails unless two values are alike.
func match(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

// wrong fails if something is.
func wrong(t testing.TB, something bool, format string, args ...any) {
	t.Helper()
	if something {
		t.Errorf(format, args...)
	}
}

// good is ok for a test that goes on.
func good(t testing.TB, err error) {
	t.Helper()
	wrong(t, err != nil, "%v", err)
}

func problems(t testing.TB, tr *trees) []string {
	t.Helper()
	out := []string{}
	for p, err := range tr.Check(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p.String())
	}
	return out
}

func healthy(t testing.TB, tr *trees) {
	t.Helper()
	if found := problems(t, tr); len(found) > 0 {
		t.Errorf("Check: %v", found)
	}
}

func TestReads(t *testing.T) {
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
		v.want(t, "children of nothing", v.ids(t, tr.Children(ctx, "none")))
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
		is(t, errOf(tr.Ancestors(ctx, "none")), mongopatterns.ErrNotFound)
		down := v.ids(t, tr.Descendants(ctx, "Programming", 0))
		if got := sorted(down); !slices.Equal(got, []string{"Da", "Databases", "DatabasesToo", "Languages", "MongoDB", "dbm"}) {
			t.Errorf("descendants: %v", got)
		}
		v.want(t, "preorder", v.ids(t, tr.Preorder(ctx, "Programming", 0)), "Databases", "MongoDB", "dbm", "Languages", "DatabasesToo", "Da")
		v.want(t, "preorder to 1", v.ids(t, tr.Preorder(ctx, "Programming", 1)), "Databases", "Languages", "DatabasesToo", "Da")
		v.want(t, "preorder of nothing", v.ids(t, tr.Preorder(ctx, "none", 0)))
		v.want(t, "descendants of nothing", v.ids(t, tr.Descendants(ctx, "none", 0)))
		v.want(t, "siblings of nothing", v.ids(t, tr.Siblings(ctx, "none")))
		v.want(t, "siblings of a single child", v.ids(t, tr.Siblings(ctx, "Programming")))
		if got := sorted(v.ids(t, tr.LeavesBelow(ctx, "Databases"))); !slices.Equal(got, []string{"MongoDB", "dbm"}) {
			t.Errorf("leaves below: %v", got)
		}
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
		for id, want := range map[string]int{"Books": 0, "Programming": 1, "MongoDB": 3} {
			if got := get(tr.Depth(ctx, id))(t); got != want {
				t.Errorf("depth of %s: %d", id, got)
			}
		}
		is(t, errOf(tr.Depth(ctx, "none")), mongopatterns.ErrNotFound)
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
			switch v.opts.NameField {
			case "":
				return id
			case "slug":
				return "s-" + id
			}
			return "Name of " + id
		}
		var want []tree.Crumb[string]
		for _, id := range []string{"Books", "Programming", "Databases", "MongoDB"} {
			want = append(want, tree.Crumb[string]{ID: id, Name: name(id)})
		}
		match(t, "breadcrumb", want, get(tr.Breadcrumb(ctx, "MongoDB"))(t))
		if got := get(tr.CountChildren(ctx, "Programming"))(t); got != 4 {
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
		is(t, errOf(tr.Subtree(ctx, "none", 0)), mongopatterns.ErrNotFound)

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
		eq("ParentPipeline", run(tr.ParentPipeline("MongoDB")), "Databases")
		eq("ChildrenPipeline", run(tr.ChildrenPipeline("Databases")), "MongoDB", "dbm")
		eq("SiblingsPipeline", run(tr.SiblingsPipeline("dbm")), "MongoDB")
		if got := run(tr.AncestorsPipeline("dbm")); !slices.Equal(got, []string{"Books", "Programming", "Databases"}) {
			t.Errorf("AncestorsPipeline: %v", got)
		}
		eq("DescendantsPipeline", run(tr.DescendantsPipeline("Databases", 0)), "MongoDB", "dbm")
		eq("SubtreePipeline", run(tr.SubtreePipeline("Databases", 0)), "Databases", "MongoDB", "dbm")
		eq("ChildrenFilter of nothing", find(tr.ChildrenFilter(ctx, "none")))
		eq("DescendantsFilter of nothing", find(tr.DescendantsFilter(ctx, "none", 0)))
		is(t, errOf(tr.AncestorsFilter(ctx, "none")), mongopatterns.ErrNotFound)
		eq("RootsPipeline", run(tr.RootsPipeline()), "Books", "Films")
		eq("leaves of a subtree", run(append(tr.DescendantsPipeline("Programming", 0), tr.LeavesPipeline()...)),
			"Da", "DatabasesToo", "Languages", "MongoDB", "dbm")
	})
}

// wantTree compares a nested value with its notation.
func (v variant) wantTree(t testing.TB, n *tree.Node[bson.M], want string) {
	t.Helper()
	var show func(n *tree.Node[bson.M]) string
	show = func(n *tree.Node[bson.M]) string {
		v.clean(t, n.Value)
		out := n.Value[v.idField()].(string)
		var kids []string
		for _, c := range n.Children {
			kids = append(kids, show(c))
		}
		if !v.ordered {
			sort.Strings(kids)
		}
		if kids != nil {
			out += fmt.Sprint(kids)
		}
		return out
	}
	var parse func(s string) (*tree.Node[bson.M], string)
	parse = func(s string) (*tree.Node[bson.M], string) {
		i := 0
		for i < len(s) && s[i] != '(' && s[i] != ')' && s[i] != ' ' {
			i++
		}
		n := &tree.Node[bson.M]{Value: bson.M{v.idField(): s[:i]}}
		s = s[i:]
		if len(s) > 0 && s[0] == '(' {
			for s[0] != ')' {
				var kid *tree.Node[bson.M]
				kid, s = parse(s[1:])
				n.Children = append(n.Children, kid)
			}
			s = s[1:]
		}
		return n, s
	}
	wanted, _ := parse(want)
	if got, want := show(n), show(wanted); got != want {
		t.Errorf("tree: got %s, want %s", got, want)
	}
}

// model is the tree in memory.
type model struct {
	parent map[string]string
	kids   map[string][]string // "" has the roots
}

func newModel() *model { return &model{map[string]string{}, map[string][]string{}} }

func (m *model) below(id, above string) bool {
	for id != "" {
		if id == above {
			return true
		}
		id = m.parent[id]
	}
	return false
}

func (m *model) detach(id string) {
	p := m.parent[id]
	m.kids[p] = slices.DeleteFunc(m.kids[p], func(s string) bool { return s == id })
	delete(m.parent, id)
}

func (m *model) attach(id, parent string, at int) {
	m.parent[id] = parent
	if at < 0 {
		at = len(m.kids[parent])
	}
	m.kids[parent] = slices.Insert(slices.Clone(m.kids[parent]), at, id)
}

func (m *model) delete(id string, policy tree.DeletePolicy) {
	p := m.parent[id]
	at := slices.Index(m.kids[p], id)
	m.detach(id)
	kids := m.kids[id]
	for i, kid := range slices.Clone(kids) {
		switch policy {
		case tree.Cascade:
			m.delete(kid, policy)
		case tree.Promote:
			m.detach(kid)
			m.attach(kid, p, at+i)
		case tree.MakeRoots:
			m.detach(kid)
			m.attach(kid, "", -1)
		}
	}
	delete(m.kids, id)
}

// compare holds the tree against the model.
func (v variant) compare(t testing.TB, tr *trees, m *model) {
	t.Helper()
	got := newModel()
	for e, err := range tr.Dump(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		parent := ""
		if e.Parent != nil {
			parent = *e.Parent
			if _, ok := got.parent[parent]; !ok {
				t.Fatalf("Dump gives %v before its parent %s", e.Value[v.idField()], parent)
			}
		}
		got.attach(e.Value[v.idField()].(string), parent, -1)
	}
	if diff := cmp.Diff(m.parent, got.parent); diff != "" {
		t.Fatalf("parents (-model +tree):\n%s", diff)
	}
	for p, want := range m.kids {
		if v.ordered && (p != "" || v.roots) && len(want) > 0 {
			if diff := cmp.Diff(want, got.kids[p]); diff != "" {
				t.Fatalf("order under %q (-model +tree):\n%s", p, diff)
			}
		}
	}
}

func TestModel(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		steps := 60
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		m := newModel()
		var ids []string
		pick := func() string { return ids[r.IntN(len(ids))] }
		next := 0
		for step := range steps {
			ids = ids[:0]
			for id := range m.parent {
				ids = append(ids, id)
			}
			sort.Strings(ids)
			// A position and what it means in the model.
			where := func(self string) (pos tree.Position[string], parent string, at int, err error) {
				kind := r.IntN(6)
				if len(ids) == 0 || kind == 0 {
					pos, at = tr.AsRoot(), -1
					if v.roots && r.IntN(3) == 0 {
						pos, at = pos.First(), 0
					}
				} else if ref := pick(); kind < 4 || !v.ordered || m.parent[ref] == "" && !v.roots || ref == self {
					pos, parent, at = tr.Under(ref), ref, -1
					if v.ordered && r.IntN(3) == 0 {
						pos, at = pos.First(), 0
					}
				} else {
					parent = m.parent[ref]
					list := slices.DeleteFunc(slices.Clone(m.kids[parent]), func(s string) bool { return s == self })
					at = slices.Index(list, ref)
					pos = tr.Before(ref)
					if r.IntN(2) == 0 {
						pos, at = tr.After(ref), at+1
					}
				}
				if self != "" && m.below(parent, self) {
					err = tree.ErrCycle
				}
				return
			}
			var what string
			switch op := r.IntN(10); {
			case op < 5 || len(ids) == 0:
				id := fmt.Sprintf("n%d", next)
				next++
				pos, parent, at, _ := where("")
				what = fmt.Sprintf("insert %s under %q at %d", id, parent, at)
				if _, err := tr.Insert(ctx, v.doc(id), pos); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				m.attach(id, parent, at)
			case op < 8:
				id := pick()
				pos, parent, at, want := where(id)
				what = fmt.Sprintf("move %s under %q at %d", id, parent, at)
				err := tr.Move(ctx, id, pos)
				if !errors.Is(err, want) {
					t.Fatalf("%s: %v, want %v", what, err, want)
				}
				if err == nil && (v.ordered || m.parent[id] != parent) {
					m.detach(id)
					m.attach(id, parent, at)
				}
			default:
				id := pick()
				policy := tree.DeletePolicy(r.IntN(4))
				what = fmt.Sprintf("delete %s with %d", id, policy)
				n, err := tr.Delete(ctx, id, policy)
				if policy == tree.Restrict && len(m.kids[id]) > 0 {
					if !errors.Is(err, tree.ErrHasChildren) {
						t.Fatalf("%s: %v", what, err)
					}
					break
				}
				before := len(m.parent)
				m.delete(id, policy)
				if err != nil || int(n) != before-len(m.parent) {
					t.Fatalf("%s: %d deleted, %v; want %d", what, n, err, before-len(m.parent))
				}
			}
			if step%10 == 9 || step == steps-1 {
				v.compare(t, tr, m)
				healthy(t, tr)
			}
			if t.Failed() {
				t.Fatalf("after %s", what)
			}
		}
	})
}

// TestPromoteInPlace: the children of a deleted node take its place among its siblings.
func TestPromoteInPlace(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, _ *mongo.Collection) {
		insertAll(t, v, tr, [][2]string{{"P", ""}, {"a", "P"}, {"x", "P"}, {"b", "P"}, {"k", "x"}, {"l", "x"}, {"m", "x"}})
		get(tr.Delete(t.Context(), "x", tree.Promote))(t)
		v.want(t, "children", v.ids(t, tr.Children(t.Context(), "P")), "a", "k", "l", "m", "b")
		healthy(t, tr)
	})
}
