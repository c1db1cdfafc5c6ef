package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// oldCode inserts nodes as a service does that knows the parent field only.
func (v variant) oldCode(t testing.TB, coll *mongo.Collection, nodes ...[2]string) {
	t.Helper()
	parent := v.opts.ParentField
	if parent == "" {
		parent = "parent"
	}
	for _, n := range nodes {
		doc := dd("_id", n[0], "title", "old")
		if v.idField() != "_id" {
			doc = append(doc, bson.E{Key: v.idField(), Value: n[0]})
		}
		doc = append(doc, v.opts.Scope...)
		if n[1] != "" {
			doc = append(doc, bson.E{Key: parent, Value: n[1]})
		}
		putDocs(t, coll, doc)
	}
}

// late are the representations with derived fields, with an order of siblings where it is an option.
func late() []variant {
	scope := bson.D{{Key: "tenant", Value: "acme"}}
	return []variant{
		{name: "children", rep: tree.ChildReferences},
		{name: "ancestors", rep: tree.AncestorArray, opts: tree.Options{OrderField: "pos"}},
		{name: "path", rep: tree.MaterializedPath, opts: tree.Options{OrderField: "pos"}},
		{name: "nested", rep: tree.NestedSets},
		{name: "children/all", rep: tree.ChildReferences, opts: tree.Options{IDField: "sku", ChildrenField: "down", ParentField: "up", ChildCountField: "n", Scope: scope}},
		{name: "ancestors/all", rep: tree.AncestorArray, opts: tree.Options{IDField: "sku", AncestorsField: "way", ParentField: "up", OrderField: "pos", ChildCountField: "n", Scope: scope}},
		{name: "path/all", rep: tree.MaterializedPath, opts: tree.Options{IDField: "sku", PathField: "way", PathDelimiter: "/", ParentField: "up", OrderField: "pos", ChildCountField: "n", Scope: scope}},
		{name: "nested/all", rep: tree.NestedSets, opts: tree.Options{IDField: "sku", LeftField: "l", RightField: "r", ParentField: "up", ChildCountField: "n", Scope: scope}},
	}
}

// The tree A(B C) and Z, with U under B and V under U, which are not adopted.
func (v variant) half(t testing.TB) (tr *trees, coll *mongo.Collection) {
	t.Helper()
	coll = mongotest.Database(t).Collection("nodes")
	tr = v.open(t, coll)
	insertAll(t, v, tr, [][2]string{{"A", ""}, {"Z", ""}, {"B", "A"}, {"C", "A"}})
	v.oldCode(t, coll, [2]string{"V", "U"}, [2]string{"U", "B"})
	return tr, coll
}

func TestUnadoptedWrites(t *testing.T) {
	type call = func(ctx context.Context, v variant, tr *trees) error
	insert := func(at func(tr *trees) tree.Position[string]) call {
		return func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.Insert(ctx, v.doc("x"), at(tr)))
		}
	}
	move := func(id string, at func(tr *trees) tree.Position[string]) call {
		return func(ctx context.Context, _ variant, tr *trees) error { return tr.Move(ctx, id, at(tr)) }
	}
	remove := func(id string, policy tree.DeletePolicy) call {
		return func(ctx context.Context, _ variant, tr *trees) error { return errOf(tr.Delete(ctx, id, policy)) }
	}
	under := func(id string) func(tr *trees) tree.Position[string] {
		return func(tr *trees) tree.Position[string] { return tr.Under(id) }
	}
	before := func(id string) func(tr *trees) tree.Position[string] {
		return func(tr *trees) tree.Position[string] { return tr.Before(id) }
	}
	root := func(tr *trees) tree.Position[string] { return tr.AsRoot() }
	no := tree.ErrNotAdopted
	for _, c := range []struct {
		name   string
		call   call
		want   error
		nested bool              // nested sets have the children by their parent field, and do it
		after  map[string]string // what it does: a parent by node, "-" for a node that is gone
	}{
		{name: "insert under it", call: insert(under("U")), want: no},
		{name: "insert below", call: insert(under("V")), want: no},
		{name: "insert before it", call: insert(before("U")), want: no},
		{name: "insert under its parent", call: insert(under("B")), after: map[string]string{"x": "B"}},
		{name: "load under it", want: no, call: func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.Load(ctx, v.entries([][2]string{{"x", ""}}), tr.Under("U"), nil))
		}, nested: true, after: map[string]string{"x": "U"}},
		{name: "load with it for a parent", want: no, call: func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.Load(ctx, v.entries([][2]string{{"x", "V"}}), tr.AsRoot(), nil))
		}, nested: true, after: map[string]string{"x": "V"}},
		{name: "load under its parent", call: func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.Load(ctx, v.entries([][2]string{{"x", ""}, {"y", "x"}}), tr.Under("B"), nil))
		}, after: map[string]string{"x": "B", "y": "x"}},
		{name: "move it", call: move("U", under("Z")), want: no},
		{name: "make it a root", call: move("U", root), want: no},
		{name: "move under it", call: move("C", under("U")), want: no},
		{name: "move under what is below", call: move("A", under("V")), want: no},
		{name: "move before it", call: move("C", before("U")), want: no},
		{name: "move its parent", call: move("B", under("C")), after: map[string]string{"B": "C"}},
		{name: "move what is above its parent", call: move("A", under("Z")), after: map[string]string{"A": "Z"}},
		{name: "delete it, restrict", call: remove("U", tree.Restrict), want: no},
		{name: "delete it, cascade", call: remove("U", tree.Cascade), want: no},
		{name: "delete it, promote", call: remove("U", tree.Promote), want: no},
		{name: "delete it, make roots", call: remove("U", tree.MakeRoots), want: no},
		{name: "delete what is below, restrict", call: remove("V", tree.Restrict), want: no},
		{name: "delete its parent, restrict", call: remove("B", tree.Restrict), want: tree.ErrHasChildren},
		{name: "delete its parent, cascade", call: remove("B", tree.Cascade), want: no},
		{name: "delete its parent, promote", call: remove("B", tree.Promote), want: no,
			nested: true, after: map[string]string{"U": "A", "B": "-"}},
		{name: "delete its parent, make roots", call: remove("B", tree.MakeRoots), want: no,
			nested: true, after: map[string]string{"U": "", "B": "-"}},
		{name: "delete far above, cascade", call: remove("A", tree.Cascade), want: no},
		{name: "delete above, promote", call: remove("A", tree.Promote), after: map[string]string{"B": "", "C": "", "A": "-"}},
		{name: "delete above, make roots", call: remove("A", tree.MakeRoots), after: map[string]string{"B": "", "C": "", "A": "-"}},
		{name: "delete beside, cascade", call: remove("C", tree.Cascade), after: map[string]string{"C": "-"}},
		{name: "delete beside, restrict", call: remove("Z", tree.Restrict), after: map[string]string{"Z": "-"}},
		{name: "find it", call: func(ctx context.Context, v variant, tr *trees) error {
			id, err := tr.FindOrCreate(ctx, []string{"A", "B", "U"}, func(name string) (bson.M, error) { return v.doc(name), nil })
			if err == nil && id != "U" {
				err = errors.New(id)
			}
			return err
		}},
		{name: "create under it", want: no, call: func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.FindOrCreate(ctx, []string{"A", "B", "U", "x"}, func(name string) (bson.M, error) { return v.doc(name), nil }))
		}},
	} {
		for _, v := range late() {
			t.Run(c.name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				tr, coll := v.half(t)
				was := stored(t, coll)
				want, after := c.want, c.after
				if v.rep == tree.NestedSets && c.nested {
					want = nil
				} else if want != nil {
					after = nil
				}
				err := c.call(t.Context(), v, tr)
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
				if want != nil {
					match(t, "refused, yet (-before +after)", was, stored(t, coll))
				}
				m := modelOf([][2]string{{"A", ""}, {"Z", ""}, {"B", "A"}, {"C", "A"}, {"U", "B"}, {"V", "U"}})
				for id, parent := range after {
					if parent == "-" {
						delete(m.parent, id)
					} else {
						m.parent[id] = parent
					}
				}
				got, err := tr.Adopt(t.Context(), nil)
				wrong(t, err != nil || got.Remaining != 0 || got.Failed != 0, "Adopt: %+v, %v", got, err)
				healthy(t, tr)
				v.ordered = false
				v.compare(t, tr, m)
				untouched(t, coll)
			})
		}
	}
}

func TestUnadoptedReads(t *testing.T) {
	for _, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			tr, coll := v.half(t)
			v.ordered = false
			byParent := v.rep == tree.AncestorArray || v.rep == tree.NestedSets // children
			up := error(tree.ErrNotAdopted)
			if v.rep == tree.NestedSets { // its way up is the parent field
				up = nil
			}
			for name, err := range map[string]error{
				"Parent":          errOf(tr.Parent(ctx, "U")),
				"Parent of V":     errOf(tr.Parent(ctx, "V")),
				"Ancestors":       errOf(tr.Ancestors(ctx, "U")),
				"Breadcrumb":      errOf(tr.Breadcrumb(ctx, "V")),
				"Depth":           errOf(tr.Depth(ctx, "U")),
				"IsDescendant":    errOf(tr.IsDescendant(ctx, "U", "A")),
				"AncestorsFilter": errOf(tr.AncestorsFilter(ctx, "V")),
			} {
				wrong(t, !errors.Is(err, up), "%s: %v", name, err)
			}
			for name, err := range map[string]error{
				"Subtree":  errOf(tr.Subtree(ctx, "U", 0)),
				"Preorder": drain(tr.Preorder(ctx, "U", 0)),
			} {
				is(t, fmt.Errorf("%s: %w", name, err), tree.ErrNotAdopted)
			}
			if v.rep == tree.MaterializedPath || v.rep == tree.NestedSets {
				is(t, errOf(tr.DescendantsFilter(ctx, "U", 0)), tree.ErrNotAdopted)
			}
			if !byParent {
				is(t, errOf(tr.ChildrenFilter(ctx, "U")), tree.ErrNotAdopted)
			}
			below := func(id string) []string {
				if byParent {
					return []string{id}
				}
				return nil
			}
			v.want(t, "roots", v.ids(t, tr.Roots(ctx)), "A", "Z")
			v.want(t, "siblings of a root", v.ids(t, tr.Siblings(ctx, "A")), "Z")
			v.want(t, "siblings", v.ids(t, tr.Siblings(ctx, "U")))
			v.want(t, "siblings", v.ids(t, tr.Siblings(ctx, "B")), "C")
			v.want(t, "children", v.ids(t, tr.Children(ctx, "B")), below("U")...)
			v.want(t, "children of it", v.ids(t, tr.Children(ctx, "U")), below("V")...)
			if n := get(tr.CountChildren(ctx, "B"))(t); int(n) != len(below("U")) {
				t.Errorf("%d children", n)
			}
			v.want(t, "descendants", v.ids(t, tr.Descendants(ctx, "A", 0)), "B", "C")
			v.want(t, "descendants of it", v.ids(t, tr.Descendants(ctx, "U", 0)))
			if n := get(tr.CountDescendants(ctx, "A", 0))(t); n != 2 {
				t.Errorf("%d descendants", n)
			}
			if n := get(tr.CountDescendants(ctx, "U", 0))(t); n != 0 {
				t.Errorf("%d descendants", n)
			}
			v.wantTree(t, get(tr.Subtree(ctx, "A", 0))(t), "A(B C)")
			filter := get(tr.RootsFilter(ctx))(t)
			n, err := coll.CountDocuments(ctx, filter)
			wrong(t, n != 2 || err != nil, "RootsFilter: %d, %v", n, err)
			leaves := v.ids(t, tr.Leaves(ctx))
			switch {
			case v.opts.ChildCountField != "", !byParent:
				v.want(t, "leaves", leaves, "B", "C", "Z")
			default:
				v.want(t, "leaves", leaves, "C", "V", "Z")
			}
			v.want(t, "leaves below", v.ids(t, tr.LeavesBelow(ctx, "Z")))
			var forest []string
			for _, n := range get(tr.Forest(ctx))(t) {
				forest = append(forest, n.Value[v.idField()].(string))
				if forest[len(forest)-1] == "A" {
					v.wantTree(t, n, "A(B(U(V)) C)")
				}
			}
			match(t, "forest", []string{"A", "Z"}, sorted(forest))
			if v.rep == tree.ChildReferences {
				is(t, drain(tr.Dump(ctx)), tree.ErrNotAdopted)
			} else {
				v.compare(t, tr, modelOf([][2]string{{"A", ""}, {"Z", ""}, {"B", "A"}, {"C", "A"}, {"U", "B"}, {"V", "U"}}))
			}

			found := v.kinds(t, tr, coll)
			for _, id := range []string{"U", "V"} {
				wrong(t, !slices.Contains(found, "wrong field "+id), "%s is not among %v", id, found)
			}
			// A conversion takes them along, or leaves them and says so.
			to := plain(tree.ParentReferences, tree.Options{IDField: v.opts.IDField, ParentField: "above", Scope: v.opts.Scope}).open(t, coll)
			got, err := tree.Convert(ctx, tr, to, nil)
			if err != nil || got.Remaining != map[tree.Representation]int64{tree.ChildReferences: 2}[v.rep] {
				t.Errorf("Convert: %+v, %v", got, err)
			}
			if v.rep != tree.ChildReferences {
				v.wantTree(t, get(to.Subtree(ctx, "A", 0))(t), "A(B(U(V)) C)")
			}
		})
	}
}

// Before any Adopt only the roots are adopted.
func TestUnadoptedAtFirst(t *testing.T) {
	for _, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"})
			is(t, errOf(tr.Insert(ctx, v.doc("x"), tr.Under("C"))), tree.ErrNotAdopted)
			want := [][2]string{{"A", ""}, {"B", "A"}, {"C", "B"}}
			if err := errOf(tr.Insert(ctx, v.doc("y"), tr.Under("A"))); err == nil {
				want = append(want, [2]string{"y", "A"})
			} else {
				wrong(t, v.rep != tree.NestedSets, "%v", err) // a root has numbers, too
			}
			is(t, errOf(tr.Delete(ctx, "A", tree.Cascade)), tree.ErrNotAdopted)
			if v.rep != tree.NestedSets {
				is(t, errOf(tr.Delete(ctx, "A", tree.Restrict)), tree.ErrHasChildren)
			}
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, modelOf(want))
		})
	}
}

// Adopt again, and again, beside code that inserts children before their parents: at any moment a node is where
// its parent field says, or not adopted.
func TestAdoptBesideOldCode(t *testing.T) {
	for _, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.ordered = false
			m := newModel()
			old := func(nodes ...[2]string) {
				v.oldCode(t, coll, nodes...)
				for _, n := range nodes {
					m.attach(n[0], n[1], -1)
				}
			}
			add := func(id, parent string) {
				t.Helper()
				if err := errOf(tr.Insert(ctx, v.doc(id), tr.Under(parent))); err == nil {
					m.attach(id, parent, -1)
				} else if !errors.Is(err, tree.ErrNotAdopted) {
					t.Error(err)
				}
			}
			adopt := func() {
				t.Helper()
				got, err := tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 2})
				wrong(t, err != nil || got.Remaining != 0 || got.Failed != 0, "%+v, %v", got, err)
				healthy(t, tr)
				v.compare(t, tr, m)
			}
			// stopped ends Adopt after so many batches.
			stopped := func(batches int) {
				t.Helper()
				short, cancel := context.WithCancel(ctx)
				defer cancel()
				_, err := tr.Adopt(short, &mongopatterns.Work{BatchSize: 2, Progress: func(mongopatterns.Result) {
					if batches--; batches == 0 {
						cancel()
					}
				}})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				for _, id := range v.ids(t, tr.Roots(ctx)) {
					wrong(t, m.parent[id] != "", "%s is a root after an interrupted Adopt", id)
				}
				is(t, errOf(tr.Delete(ctx, "r", tree.Restrict)), tree.ErrHasChildren)
			}
			old([2]string{"0", "z"}, [2]string{"1", "0"}, [2]string{"k", "m"}, [2]string{"m", "p"}, [2]string{"p", "r"}, [2]string{"r", ""},
				[2]string{"s", "r"}, [2]string{"z", "p"}, [2]string{"2", "1"}, [2]string{"q", "s"})
			if v.rep != tree.NestedSets {
				stopped(1)
				add("new1", "0")
				stopped(2)
				stopped(3)
			}
			adopt()
			old([2]string{"a", "b"}, [2]string{"b", "2"}, [2]string{"c", "r"}, [2]string{"y", "c"})
			add("new2", "2")
			add("new3", "a")
			if v.rep != tree.NestedSets {
				stopped(1)
			}
			add("new4", "b")
			adopt()
			old([2]string{"d", "b"}, [2]string{"e", "new2"}, [2]string{"f", "e"})
			ok(t, tr.Move(ctx, "c", tr.Under("2")))
			m.detach("c")
			m.attach("c", "2", -1)
			adopt()
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Done != 0 || got.Remaining != 0, "with nothing to do: %+v, %v", got, err)
		})
	}
}

// Moves by old code change the parent field and leave what is derived. Where the parent field decides, Check
// finds them and Repair mends them; a path and an array of children decide themselves.
func TestMovesByOldCode(t *testing.T) {
	for _, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.ordered = false
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"}, [2]string{"D", "C"}, [2]string{"E", "A"})
			get(tr.Adopt(ctx, nil))(t)
			parent := v.opts.ParentField
			if parent == "" {
				parent = "parent"
			}
			get(coll.UpdateOne(ctx, tr.Filter("C"), dd("$set", dd(parent, "E"))))(t)
			v.oldCode(t, coll, [2]string{"F", "C"})
			get(tr.Adopt(ctx, nil))(t)
			at := "B"
			if v.rep == tree.AncestorArray || v.rep == tree.NestedSets {
				at = "E"
				if v.rep == tree.AncestorArray && v.opts.ChildCountField == "" {
					get(coll.UpdateOne(ctx, tr.Filter("C"), dd("$set", dd(parent, "A"))))(t)
					at = "A"
				}
			}
			get(tr.Repair(ctx, nil))(t)
			healthy(t, tr)
			v.compare(t, tr, modelOf([][2]string{{"A", ""}, {"B", "A"}, {"E", "A"}, {"C", at}, {"D", "C"}, {"F", "C"}}))
		})
	}
}

// A move by old code after Adopt or Repair has seen the node above others stays.
func TestMovedMeanwhile(t *testing.T) {
	for _, v := range append(late()[:4], variant{name: "parent", rep: tree.ParentReferences, opts: tree.Options{ChildCountField: "n"}}) {
		for _, repair := range []bool{false, true} {
			if repair && (v.rep == tree.ChildReferences || v.rep == tree.MaterializedPath) {
				continue // where it is decides
			}
			t.Run(fmt.Sprint(v.name, repair), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := mongotest.Database(t).Collection("nodes")
				tr := v.open(t, coll)
				v.oldCode(t, coll, [2]string{"a", "z"}, [2]string{"r1", ""}, [2]string{"r2", ""}, [2]string{"z", "r1"})
				call := tr.Adopt
				if repair {
					call = tr.Repair
				}
				got, err := call(ctx, &mongopatterns.Work{BatchSize: 1, Progress: func(r mongopatterns.Result) {
					if r.Examined == 2 {
						changeDoc(t, coll, "z", dd("$set", dd("parent", "r2")))
					}
				}})
				wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
				get(tr.Repair(ctx, nil))(t)
				healthy(t, tr)
				v.ordered = false
				at := "r2"
				if v.rep == tree.ChildReferences { // z was adopted with a
					at = "r1"
				}
				v.compare(t, tr, modelOf([][2]string{{"r1", ""}, {"r2", ""}, {"z", at}, {"a", "z"}}))
			})
		}
	}
}

// A parent that does not exist, an array of parents and a cycle of parent fields: named, and left until MakeRoots.
func TestUnadoptedOrphans(t *testing.T) {
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"A", ""}})
			v.oldCode(t, coll, [2]string{"O", "gone"}, [2]string{"P", "Q"}, [2]string{"Q", "P"}, [2]string{"S", "O"})
			putDocs(t, coll, dd("_id", "M", "parent", bson.A{"A"}))
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Remaining != 5, "%+v, %v", got, err)
			found := v.kinds(t, tr, coll)
			for _, want := range []string{"orphan O", "orphan M", "cycle P", "cycle Q"} {
				wrong(t, !slices.Contains(found, want), "%q is not among %v", want, found)
			}
			v.want(t, "roots", v.ids(t, tr.Roots(ctx)), "A")
			if v.rep == tree.NestedSets { // it has got numbers
				is(t, errOf(tr.Delete(ctx, "O", tree.Restrict)), tree.ErrHasChildren)
			} else {
				is(t, errOf(tr.Delete(ctx, "O", tree.Restrict)), tree.ErrNotAdopted)
			}
			rooting := v.rooting(t, coll)
			get(rooting.Repair(ctx, nil))(t)
			get(rooting.Adopt(ctx, nil))(t)
			healthy(t, rooting)
			v.ordered = false
			v.compare(t, tr, modelOf([][2]string{{"A", ""}, {"O", ""}, {"S", "O"}, {"P", ""}, {"Q", "P"}, {"M", ""}}))
		})
	}
}

// A node that its parent lists is adopted, with an array of its own or without.
func TestListedIsAdopted(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, nil)
	putDocs(t, coll, dd("_id", "A", "children", bson.A{"B", "C"}), dd("_id", "B", "parent", "A"), dd("_id", "C"))
	allRight(t, tr)
	if ids := get(tr.Breadcrumb(ctx, "B"))(t); len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	if sub := get(tr.Subtree(ctx, "B", 0))(t); len(sub.Children) != 0 {
		t.Errorf("%v", sub)
	}
	plant(t, tr, bson.M{"_id": "x"}, "B")
	good(t, tr.Move(ctx, "x", tr.Under("C")))
	good(t, tr.Move(ctx, "B", tr.Under("x")))
	if n, err := tr.Delete(ctx, "A", tree.Cascade); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A node that its parent lists and that has no array of its own is moved for good: its parent field, which is not
// written, does not call it back.
func TestListedWithoutArrayMoves(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		graph bool
		move  func(tr *anyTree) error
		want  [][2]string
	}{
		"move":       {false, func(tr *anyTree) error { return tr.Move(ctx, "X", tr.Under("Q")) }, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", "Q"}}},
		"to a root":  {false, func(tr *anyTree) error { return tr.Move(ctx, "X", tr.AsRoot()) }, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", ""}}},
		"promote":    {false, func(tr *anyTree) error { return errOf(tr.Delete(ctx, "R", tree.Promote)) }, [][2]string{{"A", ""}, {"X", "A"}, {"Q", "A"}}},
		"make roots": {false, func(tr *anyTree) error { return errOf(tr.Delete(ctx, "R", tree.MakeRoots)) }, [][2]string{{"A", ""}, {"Q", "A"}, {"X", ""}}},
		"unlink":     {true, func(tr *anyTree) error { return tr.Unlink(ctx, "R", "X") }, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", ""}}},
		"insert under": {false, func(tr *anyTree) error { _, err := tr.Insert(ctx, bson.M{"_id": "Y"}, tr.Under("X")); return err },
			[][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", "R"}, {"Y", "X"}}},
		"move under": {false, func(tr *anyTree) error { return tr.Move(ctx, "Q", tr.Under("X")) }, [][2]string{{"A", ""}, {"R", "A"}, {"X", "R"}, {"Q", "X"}}},
		"load under": {false, func(tr *anyTree) error {
			return errOf(tr.Load(ctx, func(yield func(tree.Entry[any, bson.M], error) bool) {
				yield(tree.Entry[any, bson.M]{Value: bson.M{"_id": "Y"}}, nil)
			}, tr.Under("X"), nil))
		}, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", "R"}, {"Y", "X"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("nodes")
			tr := newAny(t, coll, tree.ChildReferences, &tree.Options{Graph: test.graph})
			stale := bson.A{"X"} // it was there before old code deleted it and inserted it again
			putDocs(t, coll, dd("_id", "A", "children", bson.A{"R", "Q", "X"}), dd("_id", "R", "children", bson.A{"X"}),
				dd("_id", "Q", "children", stale), dd("_id", "X", "parent", "R"))
			good(t, test.move(tr))
			allRight(t, tr)
			for _, n := range test.want {
				parent, err := tr.Parent(ctx, n[0])
				if n[1] == "" {
					is(t, err, tree.ErrIsRoot)
				} else if good(t, err); parent["_id"] != n[1] {
					t.Errorf("%s lies under %v, want %s", n[0], parent["_id"], n[1])
				}
			}
			if name == "move" {
				good(t, errOf(tr.Delete(ctx, "R", tree.Restrict)))
			}
		})
	}
}

// Link refuses both, as an array would make them what they are not.
func TestLinkUnadopted(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, &tree.Options{Graph: true})
	putDocs(t, coll, dd("_id", "A", "children", bson.A{"B"}), dd("_id", "B", "children", bson.A{}), dd("_id", "U", "parent", "A"))
	was := stored(t, coll)
	is(t, tr.Link(ctx, "B", "U"), tree.ErrNotAdopted)
	is(t, tr.Link(ctx, "U", "B"), tree.ErrNotAdopted)
	match(t, "refused, yet", was, stored(t, coll))
	get(tr.Adopt(ctx, nil))(t)
	good(t, tr.Link(ctx, "B", "U"))
	allRight(t, tr)
}

// What old code leaves behind when it deletes a node with children is counted by Adopt, too.
func TestAdoptCountsOrphans(t *testing.T) {
	for _, v := range late()[1:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"})
			get(tr.Adopt(ctx, nil))(t)
			get(coll.DeleteOne(ctx, tr.Filter("A")))(t)
			v.oldCode(t, coll, [2]string{"O", "gone"})
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Remaining < 2 || got.Examined != 3, "%+v, %v", got, err)
			wrong(t, !slices.Contains(v.kinds(t, tr, coll), "orphan B"), "B is no orphan")
		})
	}
}

// An old service that saves whole documents takes away what it does not know. Adopt gives it back.
func TestReplacedByOldCode(t *testing.T) {
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"}, [2]string{"D", "C"})
			get(tr.Adopt(ctx, nil))(t)
			get(coll.ReplaceOne(ctx, dd("_id", "B"), dd("_id", "B", "parent", "A", "title", "new")))(t)
			if v.rep != tree.ChildReferences { // its list alone said what is below
				is(t, errOf(tr.Delete(ctx, "B", tree.Restrict)), tree.ErrNotAdopted)
				is(t, errOf(tr.Delete(ctx, "A", tree.Cascade)), tree.ErrNotAdopted)
				wrong(t, len(problems(t, tr)) == 0, "Check finds nothing")
			}
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, modelOf([][2]string{{"A", ""}, {"B", "A"}, {"C", "B"}, {"D", "C"}}))
		})
	}
}

// Where nodes are not adopted Cascade reads once more, and a forest of many roots is spared by an index.
func TestUnadoptedCosts(t *testing.T) {
	for _, v := range late()[:4] {
		tr, coll := v.half(t)
		want := map[tree.Representation]int{tree.ChildReferences: 6, tree.NestedSets: 6}[v.rep]
		got := mongotest.Record(t, coll.Database(), func() { good(t, errOf(tr.Delete(t.Context(), "C", tree.Cascade))) })
		wrong(t, got.RoundTrips() != max(want, 5), "%s: %v", v.name, got.Names())
	}

	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	v := plain(tree.MaterializedPath, tree.Options{})
	tr := v.open(t, coll)
	var roots [][2]string
	for i := range 300 {
		roots = append(roots, [2]string{fmt.Sprint("r", i), ""})
	}
	get(tr.Load(t.Context(), v.entries(roots), tr.AsRoot(), nil))(t)
	get(coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: dd("path", 1, "parent", 1)}))(t)
	for id, policy := range map[string]tree.DeletePolicy{"r7": tree.Restrict, "r8": tree.Cascade, "r9": tree.Promote} {
		got := mongotest.Record(t, db, func() { good(t, errOf(tr.Delete(t.Context(), id, policy))) })
		for _, find := range got.Named("find") {
			plan := mongotest.Explain(t, db, find.Body)
			wrong(t, plan.KeysExamined > 10, "%v: %v", policy, plan)
		}
	}
}

// Old code deletes nodes, which stay in the arrays of their parents, and inserts them again elsewhere. In an array
// of children they are where they were until Adopt has moved them; the others forget them at once.
func TestInsertedAgain(t *testing.T) {
	for _, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", ""}, [2]string{"D", "B"}, [2]string{"x", "A"}, [2]string{"y", "D"})
			get(tr.Adopt(ctx, nil))(t)
			for _, id := range []string{"x", "y"} {
				get(coll.DeleteOne(ctx, tr.Filter(id)))(t)
			}
			v.oldCode(t, coll, [2]string{"x", "B"})
			found := v.kinds(t, tr, coll)
			wrong(t, !slices.Contains(found, "wrong field x"), "x is not among %v", found)
			refused := map[string]error{
				"insert": errOf(tr.Insert(ctx, v.doc("new"), tr.Under("x"))), "move": tr.Move(ctx, "x", tr.Under("D")),
				"delete": errOf(tr.Delete(ctx, "x", tree.Restrict)), "cascade": errOf(tr.Delete(ctx, "x", tree.Cascade)),
				"cascade above": errOf(tr.Delete(ctx, "B", tree.Cascade)), "way up": errOf(tr.Breadcrumb(ctx, "x")),
				"subtree": errOf(tr.Subtree(ctx, "x", 0)), "ancestors": errOf(tr.Ancestors(ctx, "x")),
			}
			if v.rep == tree.ChildReferences {
				refused["cascade where it was"] = errOf(tr.Delete(ctx, "A", tree.Cascade))
				is(t, drain(tr.Preorder(ctx, "x", 0)), tree.ErrNotAdopted)
			}
			for what, err := range refused {
				if up := what == "way up" || what == "ancestors"; up && v.rep == tree.NestedSets {
					good(t, err)
				} else if !errors.Is(err, tree.ErrNotAdopted) {
					t.Errorf("%s: %v", what, err)
				}
			}
			is(t, errOf(tr.Delete(ctx, "B", tree.Restrict)), tree.ErrHasChildren)
			// What is in the array is gone, or elsewhere.
			m := modelOf([][2]string{{"B", ""}, {"D", "B"}, {"x", "B"}})
			for _, id := range []string{"D", "A"} {
				n, err := tr.Delete(ctx, id, tree.Restrict)
				wrong(t, n != 1 || err != nil, "%d, %v", n, err)
				delete(m.parent, id)
			}
			got, err := tr.Adopt(ctx, nil)
			wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
			get(tr.Repair(ctx, nil))(t)
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, m)
		})
	}
}

// Adopt has seen a node in its place when old code deletes it, and inserts it again elsewhere. What Adopt does next
// below the node goes by where it is now, and takes it out of the array that it was in.
func TestInsertedAgainMeanwhile(t *testing.T) {
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", ""}, [2]string{"a", "A"})
			get(tr.Adopt(ctx, nil))(t)
			v.oldCode(t, coll, [2]string{"x", "a"})
			moved := false
			get(tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 1, Progress: func(r mongopatterns.Result) {
				if r.Examined == 3 && !moved {
					moved = true
					get(coll.DeleteOne(ctx, tr.Filter("a")))(t)
					v.oldCode(t, coll, [2]string{"a", "B"})
				}
			}}))(t)
			get(tr.Adopt(ctx, nil))(t)
			get(tr.Repair(ctx, nil))(t)
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, modelOf([][2]string{{"A", ""}, {"B", ""}, {"a", "B"}, {"x", "a"}}))
		})
	}
}
