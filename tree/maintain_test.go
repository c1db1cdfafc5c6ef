package tree_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// forest has n nodes in a fixed shape: node i is under node i/3, and every
// tenth is a root.
func forest(n int) (nodes [][2]string) {
	for i := range n {
		parent := ""
		if i%10 != 0 {
			parent = fmt.Sprintf("n%d", i/3)
		}
		nodes = append(nodes, [2]string{fmt.Sprintf("n%d", i), parent})
	}
	return nodes
}

func modelOf(nodes [][2]string) *model {
	m := newModel()
	for _, n := range nodes {
		m.attach(n[0], n[1], -1)
	}
	return m
}

func (v variant) entries(nodes [][2]string) func(func(tree.Entry[string, bson.M], error) bool) {
	return func(yield func(tree.Entry[string, bson.M], error) bool) {
		for _, n := range nodes {
			e := tree.Entry[string, bson.M]{Value: v.doc(n[0])}
			if n[1] != "" {
				e.Parent = &n[1]
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestLoad(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		nodes := forest(60)
		insertAll(t, v, tr, [][2]string{{"old", ""}, {"older", "old"}})
		// It is cut off after two batches, and goes on.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var progress []int64
		got, err := tr.Load(ctx, v.entries(nodes), &tree.LoadOptions[string]{BatchSize: 16, Progress: func(done int64) {
			progress = append(progress, done)
			if done == 32 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || got.Inserted != 32 {
			t.Fatalf("%+v, %v", got, err)
		}
		got, err = tr.Load(t.Context(), v.entries(nodes), &tree.LoadOptions[string]{BatchSize: 16, Progress: func(done int64) {
			progress = append(progress, done)
		}})
		if want := (tree.LoadResult{Inserted: 28, Skipped: 32}); err != nil || got != want {
			t.Fatalf("%+v, %v", got, err)
		}
		if want := []int64{16, 32, 16, 32, 48, 60}; !slices.Equal(progress, want) {
			t.Errorf("progress %v", progress)
		}
		healthy(t, tr)
		v.compare(t, tr, modelOf(append([][2]string{{"old", ""}, {"older", "old"}}, nodes...)))

		// What Dump gives, and what Subtree gives, Load takes.
		copied := v
		copied.opts.Scope = nil
		other := copied.open(t, coll.Database().Collection("copy"))
		if n, err := other.Load(t.Context(), tr.Dump(t.Context()), nil); err != nil || n.Inserted != 62 {
			t.Fatalf("%+v, %v", n, err)
		}
		healthy(t, other)
		copied.compare(t, other, modelOf(append([][2]string{{"old", ""}, {"older", "old"}}, nodes...)))
		sub, err := tr.Subtree(t.Context(), "n1", nil)
		if err != nil {
			t.Fatal(err)
		}
		var move func(n *tree.Node[bson.M])
		size := int64(0)
		move = func(n *tree.Node[bson.M]) {
			size++
			n.Value[v.idField()] = "copy-" + n.Value[v.idField()].(string)
			n.Value["slug"] = n.Value[v.idField()]
			if v.idField() != "_id" {
				delete(n.Value, "_id")
			}
			for _, kid := range n.Children {
				move(kid)
			}
		}
		move(sub)
		under := "older"
		n, err := tr.LoadNodes(t.Context(), []*tree.Node[bson.M]{sub, nil}, &tree.LoadOptions[string]{Under: &under})
		if err != nil || n.Inserted != size {
			t.Fatalf("%+v, %v", n, err)
		}
		healthy(t, tr)
		if d, err := tr.Depth(t.Context(), "copy-n1"); err != nil || d != 2 {
			t.Errorf("%d, %v", d, err)
		}

		none := "none"
		if _, err := tr.LoadNodes(t.Context(), []*tree.Node[bson.M]{{Value: v.doc("x")}}, &tree.LoadOptions[string]{Under: &none}); !errors.Is(err, tree.ErrParentNotFound) {
			t.Errorf("load under nothing: %v", err)
		}
		boom := errors.New("boom")
		if _, err := tr.Load(t.Context(), func(yield func(tree.Entry[string, bson.M], error) bool) {
			yield(tree.Entry[string, bson.M]{}, boom)
		}, nil); !errors.Is(err, boom) {
			t.Errorf("error of the entries: %v", err)
		}
	})
}

func TestConvert(t *testing.T) {
	nodes := forest(40)
	all := variants()
	pairs := [][2]int{}
	for from := range 5 { // every representation to every other
		for to := range 5 {
			if from != to {
				pairs = append(pairs, [2]int{from, to})
			}
		}
	}
	// With orders, counters and segments; field names of the same collection.
	pairs = append(pairs, [2]int{5, 10}, [2]int{10, 5}, [2]int{7, 8}, [2]int{8, 6}, [2]int{6, 7}, [2]int{10, 8}, [2]int{5, 5})
	slow := mongotest.Engine(t, mongotest.Database(t)) == "secantus-py"
	for i, p := range pairs {
		if slow && i < 20 && (p[0]+1)%5 != p[1] && (p[0]+3)%5 != p[1] {
			continue // there each is converted to two others, and from two
		}
		from, to := all[p[0]], all[p[1]]
		t.Run(from.name+" to "+to.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			to.opts.IDField = from.opts.IDField
			to.opts.Scope = from.opts.Scope
			db := mongotest.Database(t)
			a := from.open(t, db.Collection("nodes"))
			if _, err := a.Load(ctx, from.entries(nodes), nil); err != nil {
				t.Fatal(err)
			}
			check := from
			check.rep, check.opts = to.rep, to.opts
			check.ordered = from.ordered && to.ordered
			check.roots = from.roots && to.roots

			b := check.open(t, db.Collection("copy"))
			got, err := tree.Convert(ctx, a, b, &tree.ConvertOptions{BatchSize: 15})
			if err != nil || got.Written != 40 {
				t.Fatalf("copy: %+v, %v", got, err)
			}
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			if got, err = tree.Convert(ctx, a, b, nil); err != nil || got.Written != 0 || got.Examined != 40 {
				t.Errorf("copy again: %+v, %v", got, err)
			}

			b = check.open(t, db.Collection("nodes"))
			var done []int64
			if got, err = tree.Convert(ctx, a, b, &tree.ConvertOptions{BatchSize: 15, Keep: true, Progress: func(n int64) { done = append(done, n) }}); err != nil {
				t.Fatalf("in place: %+v, %v", got, err)
			}
			if !slices.Equal(done, []int64{15, 30, 40}) {
				t.Errorf("progress %v", done)
			}
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			healthy(t, a) // kept
			before := stored(t, db.Collection("nodes"))
			if got, err = tree.Convert(ctx, a, b, &tree.ConvertOptions{Keep: true}); err != nil || got.Written != 0 {
				t.Errorf("in place again: %+v, %v", got, err)
			}
			if diff := cmp.Diff(before, stored(t, db.Collection("nodes"))); diff != "" {
				t.Errorf("in place again: %s", diff)
			}
			if _, err = tree.Convert(ctx, a, b, nil); err != nil {
				t.Fatal(err)
			}
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			// The same documents as if they had been inserted so.
			for i, doc := range stored(t, db.Collection("nodes")) {
				want := fieldsOf(stored(t, db.Collection("copy"))[i])
				if diff := cmp.Diff(want, fieldsOf(doc)); diff != "" {
					t.Errorf("fields in place (-copied +converted): %s", diff)
					break
				}
			}
		})
	}
}

func fieldsOf(doc bson.D) (names []string) {
	for _, e := range doc {
		names = append(names, e.Key)
	}
	sort.Strings(names)
	return names
}

func TestAdopt(t *testing.T) {
	for _, v := range variants() {
		if v.opts.IDField != "" || v.opts.SegmentField != "" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			v.opts.ParentField = "up"
			tr := v.open(t, coll)
			nodes := forest(50)
			var docs []any
			for _, n := range nodes {
				doc := bson.M{"_id": n[0], "title": "x"}
				for _, e := range v.opts.Scope {
					doc[e.Key] = e.Value
				}
				if n[1] != "" { // roots have no parent field at all
					doc["up"] = n[1]
				}
				docs = append(docs, doc)
			}
			if _, err := coll.InsertMany(ctx, docs); err != nil {
				t.Fatal(err)
			}
			// Cut off, then finished.
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			_, err := tr.Adopt(short, &tree.AdoptOptions{BatchSize: 20, Progress: func(done int64) { cancel() }})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got, err := tr.Adopt(ctx, &tree.AdoptOptions{BatchSize: 20})
			if err != nil || got.Examined != 50 || got.Unplaced != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, modelOf(nodes))
			before := stored(t, coll)
			if got, err = tr.Adopt(ctx, nil); err != nil || got.Written != 0 {
				t.Errorf("again: %+v, %v", got, err)
			}
			if diff := cmp.Diff(before, stored(t, coll)); diff != "" {
				t.Errorf("again: %s", diff)
			}
			for _, doc := range before {
				if !slices.Contains(fieldsOf(doc), "title") {
					t.Errorf("lost a field: %v", doc)
				}
			}
		})
	}
}

// kinds are the problems found, "kind id" each.
func kinds(t testing.TB, tr *trees) []string {
	t.Helper()
	out := []string{}
	for p, err := range tr.Check(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		id := p.ID
		if !p.HasID {
			id = "roots"
		}
		if p.Detail == "" || p.String() == "" {
			t.Errorf("no detail: %+v", p)
		}
		out = append(out, string(p.Kind)+" "+id)
	}
	sort.Strings(out)
	return slices.Compact(out)
}

func TestCheckAndRepair(t *testing.T) {
	set := func(pairs ...any) bson.D { return dd("$set", dd(pairs...)) }
	type damage struct {
		id     string
		update bson.D
	}
	byName := map[string]variant{}
	for _, v := range variants() {
		byName[v.name] = v
	}
	for _, c := range []struct {
		variant string
		name    string
		damage  []damage
		found   []string
		roots   bool // needs MakeRoots
		stays   []string
		parents map[string]string // that differ from books afterwards
		gone    []string
	}{
		{variant: "parent", name: "orphan", damage: []damage{{"Databases", set("parent", "gone")}},
			found: []string{"orphan Databases"}, roots: true, stays: []string{"orphan Databases"},
			parents: map[string]string{"Databases": ""}},
		{variant: "parent", name: "cycle", damage: []damage{{"Programming", set("parent", "Databases")}},
			found: []string{"cycle Databases", "cycle Programming"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming"}, parents: map[string]string{"Databases": "", "Programming": "Databases"}},
		{variant: "parent", name: "own parent", damage: []damage{{"dbm", set("parent", "dbm")}},
			found: []string{"cycle dbm"}, roots: true, stays: []string{"cycle dbm"}, parents: map[string]string{"dbm": ""}},
		{variant: "parent/all", name: "count", damage: []damage{{"Books", set("n", 7)}, {"dbm", dd("$unset", dd("n", ""))}},
			found: []string{"wrong count Books", "wrong count dbm"}},
		{variant: "parent/all", name: "order", damage: []damage{{"Languages", set("pos", int64(0))}, {"dbm", dd("$unset", dd("pos", ""))}},
			found: []string{"wrong order Databases", "wrong order Programming"}},
		{variant: "ancestors", name: "ancestors", damage: []damage{{"Databases", set("ancestors", bson.A{"Programming", "Books"})},
			{"Books", dd("$unset", dd("ancestors", ""))}, {"MongoDB", set("ancestors", bson.A{})}, {"dbm", set("ancestors", "Books")}},
			found: []string{"wrong ancestors Books", "wrong ancestors Databases", "wrong ancestors MongoDB", "wrong ancestors dbm"}},
		{variant: "ancestors", name: "parent", damage: []damage{{"Databases", set("parent", "Languages")}},
			found:   []string{"wrong ancestors Databases", "wrong ancestors MongoDB", "wrong ancestors dbm"},
			parents: map[string]string{"Databases": "Languages"}},
		{variant: "ancestors", name: "orphan", damage: []damage{{"Databases", set("parent", "gone")}},
			found: []string{"orphan Databases"}, roots: true, stays: []string{"orphan Databases"}, parents: map[string]string{"Databases": ""}},
		{variant: "ancestors", name: "cycle", damage: []damage{{"Programming", set("parent", "dbm")}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, parents: map[string]string{"Databases": "", "Programming": "dbm"}},
		{variant: "path", name: "stale path", damage: []damage{{"Databases", set("path", ",Programming,")}},
			found: []string{"wrong path Databases", "wrong path MongoDB", "wrong path dbm"}},
		{variant: "path", name: "stale paths", damage: []damage{{"MongoDB", set("path", ",X,Databases,")}, {"Programming", set("path", ",Y,Books,")}},
			found: []string{"wrong path Databases", "wrong path Languages", "wrong path MongoDB", "wrong path Programming"}},
		{variant: "path", name: "malformed", damage: []damage{{"Databases", set("path", "Books,Programming")}, {"dbm", set("path", 5)}},
			found: []string{"wrong path Databases", "wrong path MongoDB", "wrong path dbm"}, roots: true,
			parents: map[string]string{"Databases": "", "dbm": ""}},
		{variant: "path", name: "orphan", damage: []damage{{"Databases", set("path", ",gone,")}},
			found: []string{"orphan Databases", "wrong path MongoDB", "wrong path dbm"}, roots: true, parents: map[string]string{"Databases": ""}},
		{variant: "path", name: "cycle", damage: []damage{{"Programming", set("path", ",Books,Programming,Databases,")}},
			found: []string{"cycle Databases", "wrong path Languages"}, roots: true,
			parents: map[string]string{"Databases": "", "Programming": "Databases"}},
		{variant: "path", name: "swap", damage: []damage{{"MongoDB", set("path", ",Books,dbm,")}, {"dbm", set("path", ",Books,MongoDB,")}},
			found: []string{"cycle MongoDB", "cycle dbm"}, roots: true, stays: []string{"cycle MongoDB", "cycle dbm"},
			parents: map[string]string{"MongoDB": "", "dbm": "MongoDB"}},
		{variant: "nested", name: "ranges", damage: []damage{{"Databases", set("right", int64(4))}, {"dbm", dd("$unset", dd("left", ""))}},
			found: []string{"wrong range Databases", "wrong range Programming", "wrong range dbm"}},
		{variant: "nested", name: "parent", damage: []damage{{"dbm", set("parent", "Languages")}},
			found: []string{"wrong range Databases", "wrong range Languages"}, parents: map[string]string{"dbm": "Languages"}},
		{variant: "nested", name: "overlap", damage: []damage{{"Films", set("left", int64(5), "right", int64(6))}},
			found: []string{"wrong range roots"}},
		{variant: "nested", name: "cycle", damage: []damage{{"Programming", set("parent", "dbm")}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm", "wrong range Books", "wrong range dbm"}, roots: true,
			parents: map[string]string{"Databases": "", "Programming": "dbm"}},
		{variant: "nested/all", name: "count", damage: []damage{{"Books", set("n", 7)}}, found: []string{"wrong count Books"}},
		{variant: "children", name: "dangling and twice", damage: []damage{{"Databases", set("children", bson.A{"MongoDB", "gone", "MongoDB", "dbm", "dbm"})}},
			found: []string{"dangling child Databases", "duplicate child Databases"}},
		{variant: "children", name: "several parents", damage: []damage{{"Languages", set("children", bson.A{"dbm"})}},
			found: []string{"several parents dbm"}},
		{variant: "children", name: "cycle", damage: []damage{{"Books", set("children", bson.A{})}, {"dbm", set("children", bson.A{"Programming"})}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, parents: map[string]string{"Databases": "", "Programming": "dbm"}},
	} {
		t.Run(c.variant+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			v := byName[c.variant]
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			nodes := append(slices.Clone(books), [2]string{"Films", ""})
			insertAll(t, v, tr, nodes)
			for _, d := range c.damage {
				if res, err := coll.UpdateOne(ctx, tr.Filter(d.id), d.update); err != nil || res.ModifiedCount != 1 {
					t.Fatal(res, err)
				}
			}
			if diff := cmp.Diff(c.found, kinds(t, tr)); diff != "" {
				t.Errorf("found (-want +got): %s", diff)
			}
			if c.roots {
				got, err := tr.Repair(ctx, nil)
				if err != nil || got.Remaining == 0 {
					t.Errorf("without MakeRoots: %+v, %v", got, err)
				}
				if c.stays != nil {
					if diff := cmp.Diff(c.stays, kinds(t, tr)); diff != "" {
						t.Errorf("without MakeRoots (-want +got): %s", diff)
					}
				}
			}
			var done []int64
			got, err := tr.Repair(ctx, &tree.RepairOptions{MakeRoots: c.roots, BatchSize: 3, Progress: func(n int64) { done = append(done, n) }})
			if err != nil || got.Repaired == 0 || got.Remaining != 0 || len(done) < 4 || done[2] != 7 {
				t.Errorf("%+v, %v, %v", got, err, done)
			}
			healthy(t, tr)
			m := newModel()
			for _, n := range nodes {
				parent := n[1]
				if p, ok := c.parents[n[0]]; ok {
					parent = p
				}
				m.attach(n[0], parent, -1)
			}
			v.ordered = false
			v.compare(t, tr, m)
			if got, err := tr.Repair(ctx, nil); err != nil || got.Repaired != 0 || got.Examined != 7 {
				t.Errorf("again: %+v, %v", got, err)
			}
		})
	}
}

// damaged is what writes answer that meet a damaged node before Repair does.
var damaged = regexp.MustCompile(`run (Adopt or )?Repair`)

// TestRepairBesideWrites damages nodes and repairs them while others insert,
// move and delete.
func TestRepairBesideWrites(t *testing.T) {
	for _, name := range []string{"ancestors", "path", "nested", "ancestors/all"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v variant
			for _, other := range variants() {
				if other.name == name {
					v = other
				}
			}
			coll := mongotest.Database(t).Collection("nodes")
			tr := v.open(t, coll)
			if _, err := tr.Load(t.Context(), v.entries(forest(60)), nil); err != nil {
				t.Fatal(err)
			}
			damage := map[string]bson.D{
				"ancestors":     dd("$set", dd("ancestors", bson.A{"n0"})),
				"ancestors/all": dd("$set", dd("ancestor_categories", bson.A{}, "n", 9)),
				"path":          dd("$set", dd("path", ",n9,n1,")),
				"nested":        dd("$inc", dd("left", 3)),
			}[name]
			for _, id := range []string{"n3", "n4", "n5", "n12"} {
				if _, err := coll.UpdateOne(t.Context(), tr.Filter(id), damage); err != nil {
					t.Fatal(err)
				}
			}
			ctx := t.Context()
			var stop atomic.Bool
			finished := make(chan error, 2)
			for g := range 2 {
				go func() {
					var err error
					for i := 0; i < 200 && !stop.Load() && err == nil; i++ {
						id := fmt.Sprintf("g%d-%d", g, i)
						_, err = tr.Insert(ctx, v.doc(id), tr.Under(fmt.Sprintf("n%d", 1+(i*7+g)%40)))
						if err == nil && i%3 == 0 {
							err = tr.Move(ctx, id, tr.Under(fmt.Sprintf("n%d", 1+(i*5+g)%40)))
						}
						if err == nil && i%4 == 0 {
							_, err = tr.Delete(ctx, id, tree.Restrict)
						}
						if err != nil && damaged.MatchString(err.Error()) {
							err = nil
						}
					}
					finished <- err
				}()
			}
			for range 3 {
				if _, err := tr.Repair(t.Context(), &tree.RepairOptions{BatchSize: 10}); err != nil {
					t.Error(err)
				}
			}
			stop.Store(true)
			for range 2 {
				if err := <-finished; err != nil {
					t.Error(err)
				}
			}
			if name == "nested" { // what was inserted by the wrong numbers
				if _, err := tr.Repair(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
			healthy(t, tr)
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	a, err := tree.New[string, bson.M](coll, tree.ParentReferences, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []tree.Options{{Scope: dd("a", 1)}, {IDField: "x"}} {
		b, err := tree.New[string, bson.M](coll, tree.AncestorArray, &o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Convert(ctx, a, b, nil); !errors.Is(err, tree.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	g, err := tree.New[string, bson.M](coll, tree.ChildReferences, &tree.Options{Graph: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Convert(ctx, a, g, nil); !errors.Is(err, tree.ErrUnsupported) {
		t.Error(err)
	}
	// An orphan is counted and left alone.
	if _, err := coll.InsertMany(ctx, []any{dd("_id", "root", "parent", nil), dd("_id", "lost", "parent", "gone")}); err != nil {
		t.Fatal(err)
	}
	b, err := tree.New[string, bson.M](coll, tree.AncestorArray, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Adopt(ctx, nil)
	if want := (tree.ConvertResult{Examined: 2, Written: 1, Unplaced: 1}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	// An index in the way is an error and stays.
	if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: dd("ancestors", 1), Options: options.Index().SetSparse(true)}); err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureIndexes(ctx); !errors.Is(err, tree.ErrIndexConflict) {
		t.Errorf("%v", err)
	}
}
