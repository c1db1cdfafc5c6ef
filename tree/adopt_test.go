package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
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
		doc := dd("_id", n[0], "title", "old", "slug", "s-"+n[0])
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
		{name: "path/segments", rep: tree.MaterializedPath, opts: tree.Options{SegmentField: "slug", OrderField: "pos", Scope: scope}},
		{name: "nested/all", rep: tree.NestedSets, opts: tree.Options{IDField: "sku", LeftField: "l", RightField: "r", ParentField: "up", ChildCountField: "n", Scope: scope}},
	}
}

// names are the segments of nodes, or their IDs, and make is a node of a name.
func (v variant) names(ids ...string) []string {
	if v.opts.SegmentField != "" {
		for i := range ids {
			ids[i] = "s-" + ids[i]
		}
	}
	return ids
}

func (v variant) make(name string) (bson.M, error) { return v.doc(strings.TrimPrefix(name, "s-")), nil }

// The tree A(B C) and Z, with U under B and V under U, which are not adopted.
func (v variant) half(t testing.TB, coll *mongo.Collection) *trees {
	t.Helper()
	tr := v.open(t, coll)
	insertAll(t, v, tr, [][2]string{{"A", ""}, {"Z", ""}, {"B", "A"}, {"C", "A"}})
	v.oldCode(t, coll, [2]string{"V", "U"}, [2]string{"U", "B"})
	return tr
}

func TestUnadoptedWrites(t *testing.T) {
	t.Parallel()
	type call = func(ctx context.Context, v variant, tr *trees) error
	insert := func(at func(tr *trees) tree.Position[string]) call {
		return func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.Insert(ctx, v.doc("x"), at(tr)))
		}
	}
	move := func(id string, at func(tr *trees) tree.Position[string]) call {
		return func(ctx context.Context, _ variant, tr *trees) error { return tr.Move(ctx, id, at(tr)) }
	}
	remove := func(id string, policy mongopatterns.DeletePolicy) call {
		return func(ctx context.Context, _ variant, tr *trees) error { return errOf(tr.Delete(ctx, id, policy)) }
	}
	under := func(id string) func(tr *trees) tree.Position[string] {
		return func(tr *trees) tree.Position[string] { return tr.Under(id) }
	}
	before := func(id string) func(tr *trees) tree.Position[string] {
		return func(tr *trees) tree.Position[string] { return tr.Before(id) }
	}
	root := func(tr *trees) tree.Position[string] { return tr.AsRoot() }
	no := mongopatterns.ErrNotAdopted
	cases := []struct {
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
		{name: "delete it, restrict", call: remove("U", mongopatterns.Restrict), want: no},
		{name: "delete it, cascade", call: remove("U", mongopatterns.Cascade), want: no},
		{name: "delete it, promote", call: remove("U", mongopatterns.Promote), want: no},
		{name: "delete it, make roots", call: remove("U", mongopatterns.Unlink), want: no},
		{name: "delete what is below, restrict", call: remove("V", mongopatterns.Restrict), want: no},
		{name: "delete its parent, restrict", call: remove("B", mongopatterns.Restrict), want: mongopatterns.ErrReferenced},
		{name: "delete its parent, cascade", call: remove("B", mongopatterns.Cascade), want: no},
		{name: "delete its parent, promote", call: remove("B", mongopatterns.Promote), want: no,
			nested: true, after: map[string]string{"U": "A", "B": "-"}},
		{name: "delete its parent, make roots", call: remove("B", mongopatterns.Unlink), want: no,
			nested: true, after: map[string]string{"U": "", "B": "-"}},
		{name: "delete far above, cascade", call: remove("A", mongopatterns.Cascade), want: no},
		{name: "delete above, promote", call: remove("A", mongopatterns.Promote), after: map[string]string{"B": "", "C": "", "A": "-"}},
		{name: "delete above, make roots", call: remove("A", mongopatterns.Unlink), after: map[string]string{"B": "", "C": "", "A": "-"}},
		{name: "delete beside, cascade", call: remove("C", mongopatterns.Cascade), after: map[string]string{"C": "-"}},
		{name: "delete beside, restrict", call: remove("Z", mongopatterns.Restrict), after: map[string]string{"Z": "-"}},
		{name: "find it", call: func(ctx context.Context, v variant, tr *trees) error {
			id, err := tr.FindOrInsert(ctx, v.names("A", "B", "U"), v.make)
			if err == nil && id != "U" {
				err = errors.New(id)
			}
			return err
		}},
		{name: "create under it", want: no, call: func(ctx context.Context, v variant, tr *trees) error {
			return errOf(tr.FindOrInsert(ctx, v.names("A", "B", "U", "x"), v.make))
		}},
	}
	row := rows(t)
	for i, v := range late() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := v.half(t, coll)
			start := testkit.Find[bson.Raw](t, coll, bson.D{})
			was := stored(t, coll)
			fresh := true
			for j, c := range cases {
				if !scale.Turn(i+j, 4) { // in the small run each case meets two or three
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if !fresh {
						get(coll.DeleteMany(t.Context(), bson.D{}))(t)
						testkit.InsertAll(t, coll, start)
					}
					fresh = false
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
						fresh = !t.Failed()
						return
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
					unordered := v
					unordered.ordered = false
					unordered.compare(t, tr, m)
					untouched(t, coll)
				})
			}
		})
	}
}

func TestUnadoptedReads(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, late()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := v.half(t, coll)
			v.ordered = false
			byParent := v.rep == tree.AncestorArray || v.rep == tree.NestedSets // children
			up := error(mongopatterns.ErrNotAdopted)
			if v.rep == tree.NestedSets { // its way up is the parent field
				up = nil
			}
			for name, err := range map[string]error{
				"Parent":          errOf(tr.Parent(ctx, "U")),
				"Parent of V":     errOf(tr.Parent(ctx, "V")),
				"Ancestors":       errOf(tr.Ancestors(ctx, "U")),
				"Breadcrumb":      errOf(tr.Breadcrumb(ctx, "V")),
				"IsDescendant":    errOf(tr.IsDescendant(ctx, "U", "A")),
				"AncestorsFilter": errOf(tr.AncestorsFilter(ctx, "V")),
			} {
				wrong(t, !errors.Is(err, up), "%s: %v", name, err)
			}
			for name, err := range map[string]error{
				"Subtree":  errOf(tr.Subtree(ctx, "U", 0)),
				"Preorder": drain(tr.Preorder(ctx, "U", 0)),
			} {
				is(t, fmt.Errorf("%s: %w", name, err), mongopatterns.ErrNotAdopted)
			}
			if v.rep == tree.MaterializedPath || v.rep == tree.NestedSets {
				is(t, errOf(tr.DescendantsFilter(ctx, "U", 0)), mongopatterns.ErrNotAdopted)
			}
			if !byParent {
				is(t, errOf(tr.ChildrenFilter(ctx, "U")), mongopatterns.ErrNotAdopted)
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
			if n := testkit.Count(t, coll, get(tr.ChildrenFilter(ctx, "B"))(t)); n != len(below("U")) {
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
			var forest []string
			for _, n := range get(tr.Forest(ctx))(t) {
				forest = append(forest, n.Value[v.idField()].(string))
				if forest[len(forest)-1] == "A" {
					v.wantTree(t, n, "A(B(U(V)) C)")
				}
			}
			match(t, "forest", []string{"A", "Z"}, sorted(forest))
			if v.rep == tree.ChildReferences {
				is(t, drain(tr.Dump(ctx)), mongopatterns.ErrNotAdopted)
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
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, late()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"})
			is(t, errOf(tr.Insert(ctx, v.doc("x"), tr.Under("C"))), mongopatterns.ErrNotAdopted)
			want := [][2]string{{"A", ""}, {"B", "A"}, {"C", "B"}}
			if err := errOf(tr.Insert(ctx, v.doc("y"), tr.Under("A"))); err == nil {
				want = append(want, [2]string{"y", "A"})
			} else {
				wrong(t, v.rep != tree.NestedSets, "%v", err) // a root has numbers, too
			}
			is(t, errOf(tr.Delete(ctx, "A", mongopatterns.Cascade)), mongopatterns.ErrNotAdopted)
			if v.rep != tree.NestedSets {
				is(t, errOf(tr.Delete(ctx, "A", mongopatterns.Restrict)), mongopatterns.ErrReferenced)
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
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, late()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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
				} else if !errors.Is(err, mongopatterns.ErrNotAdopted) {
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
				is(t, errOf(tr.Delete(ctx, "r", mongopatterns.Restrict)), mongopatterns.ErrReferenced)
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
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, late()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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
	t.Parallel()
	row := rows(t)
	for _, v := range append(late()[:4], variant{name: "parent", rep: tree.ParentReferences, opts: tree.Options{ChildCountField: "n"}}) {
		for _, repair := range []bool{false, true} {
			if repair && (v.rep == tree.ChildReferences || v.rep == tree.MaterializedPath) {
				continue // where it is decides
			}
			t.Run(fmt.Sprint(v.name, repair), func(t *testing.T) {
				t.Parallel()
				ctx, v := t.Context(), v // two subtests share the loop's
				coll := row()
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
	t.Parallel()
	row := rows(t)
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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
				is(t, errOf(tr.Delete(ctx, "O", mongopatterns.Restrict)), mongopatterns.ErrReferenced)
			} else {
				is(t, errOf(tr.Delete(ctx, "O", mongopatterns.Restrict)), mongopatterns.ErrNotAdopted)
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
	t.Parallel()
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
	if n, err := tr.Delete(ctx, "A", mongopatterns.Cascade); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A node that its parent lists and that has no array of its own is moved for good: its parent field, which is not
// written, does not call it back.
func TestListedWithoutArrayMoves(t *testing.T) {
	t.Parallel()
	row := rows(t)
	ctx := t.Context()
	for name, test := range map[string]struct {
		graph bool
		move  func(tr *anyTree) error
		want  [][2]string
	}{
		"move":       {false, func(tr *anyTree) error { return tr.Move(ctx, "X", tr.Under("Q")) }, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", "Q"}}},
		"to a root":  {false, func(tr *anyTree) error { return tr.Move(ctx, "X", tr.AsRoot()) }, [][2]string{{"A", ""}, {"R", "A"}, {"Q", "A"}, {"X", ""}}},
		"promote":    {false, func(tr *anyTree) error { return errOf(tr.Delete(ctx, "R", mongopatterns.Promote)) }, [][2]string{{"A", ""}, {"X", "A"}, {"Q", "A"}}},
		"make roots": {false, func(tr *anyTree) error { return errOf(tr.Delete(ctx, "R", mongopatterns.Unlink)) }, [][2]string{{"A", ""}, {"Q", "A"}, {"X", ""}}},
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
			coll := row()
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
				good(t, errOf(tr.Delete(ctx, "R", mongopatterns.Restrict)))
			}
		})
	}
}

// Link refuses both, as an array would make them what they are not.
func TestLinkUnadopted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, &tree.Options{Graph: true})
	putDocs(t, coll, dd("_id", "A", "children", bson.A{"B"}), dd("_id", "B", "children", bson.A{}), dd("_id", "U", "parent", "A"))
	was := stored(t, coll)
	is(t, tr.Link(ctx, "B", "U"), mongopatterns.ErrNotAdopted)
	is(t, tr.Link(ctx, "U", "B"), mongopatterns.ErrNotAdopted)
	match(t, "refused, yet", was, stored(t, coll))
	get(tr.Adopt(ctx, nil))(t)
	good(t, tr.Link(ctx, "B", "U"))
	allRight(t, tr)
}

// A node without an array lies where its parent field says. A parent that it has left may list it still, and whichever of the
// two is read first, a position beside the node is in the list of the one that it names.
func TestBesideUnadoptedListedTwice(t *testing.T) {
	t.Parallel()
	row := rows(t)
	left, named := dd("_id", "Q", "children", bson.A{"U"}), dd("_id", "P", "children", bson.A{"U"})
	for name, docs := range map[string][]any{"left first": {left, named}, "named first": {named, left}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := newAny(t, coll, tree.ChildReferences, nil)
			putDocs(t, coll, append(docs, dd("_id", "U", "parent", "P"), dd("_id", "M", "children", bson.A{}))...)
			good(t, errOf(tr.Insert(ctx, bson.M{"_id": "N"}, tr.Before("U"))))
			good(t, tr.Move(ctx, "M", tr.After("U")))
			for id, want := range map[string]bson.A{"P": {"N", "U", "M"}, "Q": {"U"}} {
				match(t, "the list of "+id, want, testkit.Get(testkit.One[bson.D](t, coll, id), "children"))
			}
		})
	}
}

// What old code leaves behind when it deletes a node with children is counted by Adopt, too.
func TestAdoptCountsOrphans(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range late()[1:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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
	t.Parallel()
	row := rows(t)
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := v.open(t, coll)
			v.oldCode(t, coll, [2]string{"A", ""}, [2]string{"B", "A"}, [2]string{"C", "B"}, [2]string{"D", "C"})
			get(tr.Adopt(ctx, nil))(t)
			get(coll.ReplaceOne(ctx, dd("_id", "B"), dd("_id", "B", "parent", "A", "title", "new")))(t)
			if v.rep != tree.ChildReferences { // its list alone said what is below
				is(t, errOf(tr.Delete(ctx, "B", mongopatterns.Restrict)), mongopatterns.ErrNotAdopted)
				is(t, errOf(tr.Delete(ctx, "A", mongopatterns.Cascade)), mongopatterns.ErrNotAdopted)
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

// Old code deletes nodes, which stay in the arrays of their parents, and inserts them again elsewhere. In an array
// of children they are where they were until Adopt has moved them; the others forget them at once.
func TestInsertedAgain(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, late()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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
				"delete": errOf(tr.Delete(ctx, "x", mongopatterns.Restrict)), "cascade": errOf(tr.Delete(ctx, "x", mongopatterns.Cascade)),
				"cascade above": errOf(tr.Delete(ctx, "B", mongopatterns.Cascade)), "way up": errOf(tr.Breadcrumb(ctx, "x")),
				"subtree": errOf(tr.Subtree(ctx, "x", 0)), "ancestors": errOf(tr.Ancestors(ctx, "x")),
			}
			if v.rep == tree.ChildReferences {
				refused["cascade where it was"] = errOf(tr.Delete(ctx, "A", mongopatterns.Cascade))
				is(t, drain(tr.Preorder(ctx, "x", 0)), mongopatterns.ErrNotAdopted)
			}
			for what, err := range refused {
				if up := what == "way up" || what == "ancestors"; up && v.rep == tree.NestedSets {
					good(t, err)
				} else if !errors.Is(err, mongopatterns.ErrNotAdopted) {
					t.Errorf("%s: %v", what, err)
				}
			}
			is(t, errOf(tr.Delete(ctx, "B", mongopatterns.Restrict)), mongopatterns.ErrReferenced)
			// What is in the array is gone, or elsewhere.
			m := modelOf([][2]string{{"B", ""}, {"D", "B"}, {"x", "B"}})
			for _, id := range []string{"D", "A"} {
				n, err := tr.Delete(ctx, id, mongopatterns.Restrict)
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
	t.Parallel()
	row := rows(t)
	for _, v := range late()[:4] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
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

// TestUnadopted: an array of ancestors that does not go with the parent is no
// ground for a move or for lifting children.
func TestUnadopted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.AncestorArray, nil)
	putDocs(t, coll, bson.M{"_id": "A", "ancestors": bson.A{}, "parent": nil},
		bson.M{"_id": "B", "parent": "A", "ancestors": bson.A{"A"}}, bson.M{"_id": "C", "parent": "B"},
		bson.M{"_id": "D", "parent": "C", "ancestors": bson.A{"A", "B", "C"}})
	before := stored(t, coll)
	for what, err := range map[string]error{
		"insert":     errOf(tr.Insert(ctx, bson.M{"_id": "x"}, tr.Under("C"))),
		"load":       errOf(tr.Load(ctx, entriesOf[any]("_id", node("x")), tr.Under("C"), nil)),
		"promote":    errOf(tr.Delete(ctx, "B", mongopatterns.Promote)),
		"make roots": errOf(tr.Delete(ctx, "B", mongopatterns.Unlink)),
		"cycle":      tr.Move(ctx, "A", tr.Under("C")),
		"move":       tr.Move(ctx, "C", tr.AsRoot()),
	} {
		wrong(t, err == nil || !strings.Contains(err.Error(), "run Adopt or Repair"), "%s: %v", what, err)
	}
	match(t, "", before, stored(t, coll))
	get(tr.Adopt(ctx, nil))(t)
	good(t, errOf(tr.Delete(ctx, "B", mongopatterns.Promote)))
	allRight(t, tr)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	row := rows(t)
	by := slices.DeleteFunc(variants(), func(v variant) bool { return v.opts.IDField != "" })
	for _, v := range oneOfEach(t, by) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			v.opts.ParentField = "up"
			tr := v.open(t, coll)
			nodes := forest(26)
			var docs []any
			for _, n := range nodes {
				doc := bson.M{"_id": n[0], "title": "x", "slug": "s-" + n[0]}
				for _, e := range v.opts.Scope {
					doc[e.Key] = e.Value
				}
				if n[1] != "" { // roots have no parent field at all
					doc["up"] = n[1]
				}
				docs = append(docs, doc)
			}
			get(coll.InsertMany(ctx, docs))(t)
			// Cut off, then finished.
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			_, err := tr.Adopt(short, &mongopatterns.Work{BatchSize: 10, Progress: func(mongopatterns.Result) { cancel() }})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got, err := tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 10})
			if err != nil || got.Examined != 26 || got.Remaining != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, modelOf(nodes))
			before := stored(t, coll)
			if got, err = tr.Adopt(ctx, nil); err != nil || got.Done != 0 {
				t.Errorf("again: %+v, %v", got, err)
			}
			match(t, "again", before, stored(t, coll))
			for _, doc := range before {
				wrong(t, !slices.Contains(fieldsOf(doc), "title"), "lost a field: %v", doc)
			}
		})
	}
}

// TestAdoptOrder: siblings and roots without a position come in the order of _id.
func TestAdoptOrder(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range []variant{
		{name: "order", rep: tree.AncestorArray, opts: tree.Options{OrderField: "pos"}, ordered: true, roots: true},
		{name: "path", rep: tree.MaterializedPath, opts: tree.Options{OrderField: "pos"}, ordered: true, roots: true},
		{name: "children", rep: tree.ChildReferences, ordered: true},
		{name: "nested", rep: tree.NestedSets, ordered: true, roots: true},
		{name: "sku", rep: tree.NestedSets, ordered: true, roots: true, opts: tree.Options{IDField: "sku"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := v.open(t, coll)
			for i, id := range []string{"e", "c", "d", "b", "a"} { // the IDs in no order
				putDocs(t, coll, dd("_id", fmt.Sprint("r", id), "sku", fmt.Sprint(i, "r", id)),
					dd("_id", fmt.Sprint("k", id), "sku", fmt.Sprint(i, "k", id), "parent", map[string]string{"_id": "rc", "sku": "1rc"}[v.idField()]))
			}
			get(tr.Adopt(t.Context(), nil))(t)
			healthy(t, tr)
			names := func(ids []string) []string {
				for i, id := range ids {
					ids[i] = id[len(id)-2:]
				}
				return ids
			}
			if v.roots {
				v.want(t, "roots", names(v.ids(t, tr.Roots(t.Context()))), "ra", "rb", "rc", "rd", "re")
			}
			v.want(t, "children", names(v.ids(t, tr.Children(t.Context(), map[string]string{"_id": "rc", "sku": "1rc"}[v.idField()]))), "ka", "kb", "kc", "kd", "ke")
		})
	}
}

// Adopt again leaves what was moved or inserted by the tree where it is, and
// takes in what code that knows the parent only has inserted.
func TestAdoptAgain(t *testing.T) {
	t.Parallel()
	row := rows(t)
	all := []variant{
		{name: "path", rep: tree.MaterializedPath},
		{name: "children/all", rep: tree.ChildReferences, opts: tree.Options{ChildCountField: "n"}},
		{name: "ancestors/all", rep: tree.AncestorArray, opts: tree.Options{OrderField: "pos", ChildCountField: "n"}},
		{name: "nested", rep: tree.NestedSets},
		{name: "path/all", rep: tree.MaterializedPath, opts: tree.Options{OrderField: "pos", ChildCountField: "n"}},
		{name: "children", rep: tree.ChildReferences},
	}
	for _, v := range scale.Of(all[:4], all, all) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := v.open(t, coll)
			m := newModel()
			add := func(nodes ...[2]string) {
				for _, n := range nodes {
					doc := dd("_id", n[0])
					if n[1] != "" {
						doc = append(doc, bson.E{Key: "parent", Value: n[1]})
					}
					putDocs(t, coll, doc)
					m.attach(n[0], n[1], -1)
				}
			}
			move := func(id, to string) {
				pos := tr.AsRoot()
				if to != "" {
					pos = tr.Under(to)
				}
				ok(t, tr.Move(ctx, id, pos))
				m.detach(id)
				m.attach(id, to, -1)
			}
			adopt := func(written bool) {
				t.Helper()
				if got, err := tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 2}); err != nil || (got.Done > 0) != written || got.Remaining != 0 {
					t.Errorf("%+v, %v", got, err)
				}
				healthy(t, tr)
				v.compare(t, tr, m)
			}
			// Children before their parents in the order of the batches too.
			add([2]string{"z", ""}, [2]string{"B", "z"}, [2]string{"C", "B"}, [2]string{"D", "C"}, [2]string{"a", "D"}, [2]string{"b", "D"})
			adopt(true)
			get(tr.Insert(ctx, v.doc("N"), tr.Under("B")))(t)
			m.attach("N", "B", -1)
			move("D", "z")
			move("a", "")
			move("C", "a")
			before := stored(t, coll)
			if v.rep == tree.MaterializedPath || v.rep == tree.ChildReferences {
				adopt(false)
				match(t, "again (-before +after)", before, stored(t, coll))
			}
			if v.rep == tree.MaterializedPath || v.rep == tree.ChildReferences {
				// What the parent field of C still names is gone.
				get(tr.Delete(ctx, "B", mongopatterns.Unlink))(t)
				m.delete("B", mongopatterns.Unlink)
			}
			add([2]string{"old1", "C"}, [2]string{"old2", "old1"}, [2]string{"0", "old2"}, [2]string{"old3", ""})
			adopt(true)
		})
	}
}

// TestAdoptOtherOrders: values that are no numbers decide the order of children, and of roots alike.
func TestAdoptOtherOrders(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.AncestorArray, tree.MaterializedPath} {
		v := variant{rep: rep, opts: tree.Options{OrderField: "o"}, ordered: true, roots: true}
		coll := row()
		putDocs(t, coll, dd("_id", "a", "o", "z"), dd("_id", "b", "o", "y"), dd("_id", "c", "parent", "a", "o", "z"), dd("_id", "d", "parent", "a", "o", "y"))
		tr := v.open(t, coll)
		get(tr.Adopt(t.Context(), nil))(t)
		v.want(t, "roots", v.ids(t, tr.Roots(t.Context())), "b", "a")
		v.want(t, "children", v.ids(t, tr.Children(t.Context(), "a")), "d", "c")
	}
}

// TestAdoptArrayParent: a node with an array for a parent has no place, and
// neither has what is below it; the array stays.
func TestAdoptArrayParent(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		for i, parent := range arrayParents {
			if !scale.Turn(i+int(rep), 3) {
				continue
			}
			t.Run(fmt.Sprint(rep, parent), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := row()
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
				if n, err := tr.Delete(ctx, "a", mongopatterns.Promote); n != 1 || err != nil {
					t.Errorf("promote: %d, %v", n, err)
				}
				kept("promote")
				if n, err := tr.Delete(ctx, "b", mongopatterns.Cascade); n != 1 || err != nil {
					t.Errorf("cascade: %d, %v", n, err)
				}
				kept("cascade")
			})
		}
	}
}

// Promote puts the children in the place of their parent, also where the list of its own parent has bare ones before it.
func TestPromoteBesideBare(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	putDocs(t, coll, dd("_id", "P", "children", bson.A{"b", "a", "x", "c"}), dd("_id", "x", "children", bson.A{"b", "d"}), dd("_id", "b", "parent", "x"),
		dd("_id", "a", "children", bson.A{}), dd("_id", "c", "children", bson.A{}), dd("_id", "d", "children", bson.A{}))
	tr := newAny(t, coll, tree.ChildReferences, nil)
	get(tr.Delete(t.Context(), "x", mongopatterns.Promote))(t)
	var p bson.M
	good(t, coll.FindOne(t.Context(), dd("_id", "P")).Decode(&p))
	match(t, "children", any(bson.A{"a", "b", "d", "c"}), p["children"])
	allRight(t, tr)
}

// A node that the server refuses costs a few transactions more, and not one for each node of its batch.
func TestAdoptHalvesARefusedBatch(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ok(t, db.CreateCollection(t.Context(), "nodes", options.CreateCollection().SetValidator(dd("$or",
		bson.A{dd("_id", dd("$ne", 77)), dd("ancestors", dd("$exists", false))}))))
	coll := db.Collection("nodes")
	docs := []any{dd("_id", 0)}
	for i := 1; i < 256; i++ {
		docs = append(docs, dd("_id", i, "parent", 0))
	}
	putDocs(t, coll, docs...)
	tr := newAny(t, coll, tree.AncestorArray, nil)
	cmds := mongotest.Record(t, db, func() {
		result, err := tr.Adopt(t.Context(), nil)
		wrong(t, err != nil || result.Examined != 256 || result.Done != 255 || result.Failed != 1, "%+v, %v", result, err)
	})
	wrong(t, len(cmds.Named("commitTransaction")) != 8, "%d commits", len(cmds.Named("commitTransaction")))
}

// conflict makes the updates of a database's client conflict, as old code beside them does.
func conflict(t testing.TB, coll *mongo.Collection, times int) {
	mongotest.FailPoint(t, coll.Database(), mongotest.Fail{Commands: []string{"update"}, Times: times, Code: 112,
		Labels: []string{"TransientTransactionError"}})
}

// eight has a root and seven nodes below it, as old code stores them.
func eight(t testing.TB, coll *mongo.Collection) {
	docs := []any{dd("_id", 1)}
	for i := 2; i <= 8; i++ {
		docs = append(docs, dd("_id", i, "parent", i/2))
	}
	putDocs(t, coll, docs...)
}

// A batch that conflicts is done in halves, and each conflict is counted.
func TestAdoptDividesAfterAConflict(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	eight(t, coll)
	tr := newAny(t, coll, tree.AncestorArray, &tree.Options{ChildCountField: "n"})
	conflict(t, coll, 3)
	cmds := mongotest.Record(t, coll.Database(), func() {
		got, err := tr.Adopt(t.Context(), nil)
		wrong(t, err != nil || got.Examined != 8 || got.Done != 8 || got.Conflicts != 3, "%+v, %v", got, err)
	})
	n := len(cmds.Named("commitTransaction")) // 1, 1, 2 and 4 nodes
	wrong(t, n != 4, "%d commits", n)
	allRight(t, tr)
}

// What was not committed is not Done, and the error says that the numbers are one transaction.
func TestDoneIsCommitted(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	eight(t, coll)
	tr := newAny(t, coll, tree.NestedSets, nil)
	conflict(t, coll, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	told := int64(0)
	got, err := tr.Adopt(ctx, &mongopatterns.Work{Progress: func(r mongopatterns.Result) { told = r.Conflicts }})
	wrong(t, !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "in one transaction"), "%v", err)
	wrong(t, got.Done != 0 || got.Conflicts == 0 || told != got.Conflicts, "%+v, told %d", got, told)
}

// Done counts documents, each once, whatever the number of writes and runs.
func TestDoneCountsOnce(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for rep := tree.ParentReferences; rep <= tree.NestedSets; rep++ {
		o := tree.Options{ChildCountField: "n"}
		if rep != tree.ChildReferences && rep != tree.NestedSets {
			o.OrderField = "o"
		}
		coll := row()
		eight(t, coll)
		tr := newAny(t, coll, rep, &o)
		for _, dry := range []bool{true, false} {
			got, err := tr.Adopt(t.Context(), &mongopatterns.Work{DryRun: dry})
			wrong(t, err != nil || got.Examined != 8 || got.Done != 8, "%v, dry %v: %+v, %v", rep, dry, got, err)
		}
	}
}
