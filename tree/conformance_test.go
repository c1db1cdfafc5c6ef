package tree_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
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
		{name: "path/segments", rep: tree.MaterializedPath,
			opts: tree.Options{SegmentField: "slug", PathDelimiter: "/"}},
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

// open makes the variant's tree.
func (v variant) open(t testing.TB, coll *mongo.Collection) *trees {
	t.Helper()
	tr := get(tree.New[string, bson.M](coll, v.rep, &v.opts))(t)
	ok(t, tr.EnsureIndexes(t.Context()))
	return tr
}

// some are the five representations, and two of them with all options.
func some() []variant {
	all := variants()
	return append(all[:6:6], all[8], all[9])
}

// oneOfEach returns one variant of each representation, which the name of the test and the seed choose, so that every
// variant has tests of its own. In the campaigns a test has them all.
func oneOfEach(t testing.TB, all []variant) []variant {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, scale.Seed(), " ", t.Name())
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	var out []variant
	for rep := tree.ParentReferences; rep <= tree.NestedSets; rep++ {
		of := slices.DeleteFunc(slices.Clone(all), func(v variant) bool { return v.rep != rep })
		if len(of) > 0 {
			out = append(out, of[random.IntN(len(of))])
		}
	}
	return scale.Of(out, all, all)
}

func eachVariant(t *testing.T, fn func(t *testing.T, v variant, tr *trees, coll *mongo.Collection)) {
	each(t, variants(), fn)
}

// each runs fn for one variant after the other, each in a collection of one database, so that fn may record commands.
func each(t *testing.T, variants []variant, fn func(t *testing.T, v variant, tr *trees, coll *mongo.Collection)) {
	row := rows(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			coll := row()
			fn(t, v, v.open(t, coll), coll)
		})
	}
}

// rows returns a function that returns another collection of one database at each call.
func rows(t testing.TB) func() *mongo.Collection {
	db := mongotest.Database(t)
	var n atomic.Int64
	return func() *mongo.Collection { return db.Collection(fmt.Sprint("nodes", n.Add(1))) }
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

func (m *model) delete(id string, policy mongopatterns.DeletePolicy) {
	p := m.parent[id]
	at := slices.Index(m.kids[p], id)
	m.detach(id)
	kids := m.kids[id]
	for i, kid := range slices.Clone(kids) {
		switch policy {
		case mongopatterns.Cascade:
			m.delete(kid, policy)
		case mongopatterns.Promote:
			m.detach(kid)
			m.attach(kid, p, at+i)
		case mongopatterns.Unlink:
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
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		steps := scale.Of(30, 60, 200)
		seed := scale.Seed()
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
				policy := mongopatterns.DeletePolicy(r.IntN(4))
				what = fmt.Sprintf("delete %s with %d", id, policy)
				n, err := tr.Delete(ctx, id, policy)
				if policy == mongopatterns.Restrict && len(m.kids[id]) > 0 {
					if !errors.Is(err, mongopatterns.ErrReferenced) {
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
