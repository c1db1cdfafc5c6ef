package tree_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func putDocs(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	get(coll.InsertMany(t.Context(), docs))(t)
}

func changeDoc(t testing.TB, coll *mongo.Collection, id any, update bson.D) {
	t.Helper()
	if res, err := coll.UpdateOne(t.Context(), dd("_id", id), update); err != nil || res.MatchedCount != 1 {
		t.Fatal(res, err)
	}
}

func plain(rep tree.Representation, o tree.Options) variant {
	return variant{rep: rep, opts: o}
}

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

// entriesOf are the entries of nested values.
func entriesOf[ID any](idField string, nodes ...*tree.Node[bson.M]) iter.Seq2[tree.Entry[ID, bson.M], error] {
	return func(yield func(tree.Entry[ID, bson.M], error) bool) {
		var visit func(nodes []*tree.Node[bson.M], parent *ID) bool
		visit = func(nodes []*tree.Node[bson.M], parent *ID) bool {
			for _, n := range nodes {
				id, _ := n.Value[idField].(ID)
				if !yield(tree.Entry[ID, bson.M]{Value: n.Value, Parent: parent}, nil) || !visit(n.Children, &id) {
					return false
				}
			}
			return true
		}
		visit(nodes, nil)
	}
}

func node(id any) *tree.Node[bson.M] { return &tree.Node[bson.M]{Value: bson.M{"_id": id}} }

// kinds are the problems found, "kind id" each.
func (v variant) kinds(t testing.TB, tr *trees, coll *mongo.Collection) []string {
	t.Helper()
	out := []string{}
	for p, err := range tr.Check(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Pattern != "tree" || p.Collection == "" || p.Detail == "" && p.Want.Type == 0 {
			t.Errorf("says little: %v", p)
		}
		id, ok := p.ID.StringValueOK()
		if p.ID.Type == 0 {
			id = "roots"
		} else if !ok {
			id = v.nameOf(t, coll, p.ID)
		}
		out = append(out, string(p.Kind)+" "+id)
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// nameOf is the ID of the node with an _id.
func (v variant) nameOf(t testing.TB, coll *mongo.Collection, id bson.RawValue) string {
	t.Helper()
	var doc bson.M
	ok(t, coll.FindOne(t.Context(), dd("_id", id)).Decode(&doc))
	name, _ := doc[v.idField()].(string)
	return name
}

// rooting is the variant with Options.MakeRoots.
func (v variant) rooting(t testing.TB, coll *mongo.Collection) *trees {
	v.opts.MakeRoots = true
	return v.open(t, coll)
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	row := rows(t)
	set := func(pairs ...any) bson.D { return dd("$set", dd(pairs...)) }
	type damage struct {
		id     string
		update bson.D
	}
	type broken struct {
		variant string
		name    string
		damage  []damage
		found   []string
		roots   bool // needs MakeRoots
		stays   []string
		parents map[string]string // that differ from books afterwards
	}
	cases := []broken{
		{variant: "parent", name: "orphan", damage: []damage{{"Databases", set("parent", "gone")}},
			found: []string{"orphan Databases"}, roots: true, stays: []string{"orphan Databases"},
			parents: map[string]string{"Databases": ""}},
		{variant: "parent", name: "cycle", damage: []damage{{"Programming", set("parent", "Databases")}},
			found: []string{"cycle Databases", "cycle Programming"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming"}, parents: map[string]string{"Databases": "", "Programming": "Databases"}},
		{variant: "parent", name: "own parent", damage: []damage{{"dbm", set("parent", "dbm")}},
			found: []string{"cycle dbm"}, roots: true, stays: []string{"cycle dbm"}, parents: map[string]string{"dbm": ""}},
		{variant: "parent/all", name: "count", damage: []damage{{"Books", set("n", 7)}, {"dbm", dd("$unset", dd("n", ""))}},
			found: []string{"wrong field Books", "wrong field dbm"}},
		{variant: "parent/all", name: "order", damage: []damage{{"Languages", set("pos", int64(0))}, {"dbm", dd("$unset", dd("pos", ""))}},
			found: []string{"wrong order Databases", "wrong order Programming"}},
		{variant: "ancestors", name: "ancestors", damage: []damage{{"Databases", set("ancestors", bson.A{"Programming", "Books"})},
			{"Books", dd("$unset", dd("ancestors", ""))}, {"MongoDB", set("ancestors", bson.A{})}, {"dbm", set("ancestors", "Books")}},
			found: []string{"wrong field Books", "wrong field Databases", "wrong field MongoDB", "wrong field dbm"}},
		{variant: "ancestors", name: "parent", damage: []damage{{"Databases", set("parent", "Languages")}},
			found:   []string{"wrong field Databases", "wrong field MongoDB", "wrong field dbm"},
			parents: map[string]string{"Databases": "Languages"}},
		{variant: "ancestors", name: "orphan", damage: []damage{{"Databases", set("parent", "gone")}},
			found: []string{"orphan Databases"}, roots: true, stays: []string{"orphan Databases"}, parents: map[string]string{"Databases": ""}},
		{variant: "ancestors", name: "cycle", damage: []damage{{"Programming", set("parent", "dbm")}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, parents: map[string]string{"Databases": "", "Programming": "dbm"}},
		{variant: "path", name: "stale path", damage: []damage{{"Databases", set("path", ",Programming,")}},
			found: []string{"wrong field Databases"}},
		{variant: "path", name: "stale paths", damage: []damage{{"MongoDB", set("path", ",X,Databases,")}, {"Programming", set("path", ",Y,Books,")}},
			found: []string{"wrong field MongoDB", "wrong field Programming"}},
		{variant: "path", name: "malformed", damage: []damage{{"Databases", set("path", "Books,Programming")}, {"dbm", set("path", 5)}},
			found: []string{"wrong field Databases", "wrong field dbm"}, roots: true,
			parents: map[string]string{"Databases": "", "dbm": ""}},
		{variant: "path", name: "orphan", damage: []damage{{"Databases", set("path", ",gone,")}},
			found: []string{"orphan Databases"}, roots: true, parents: map[string]string{"Databases": ""}},
		{variant: "path", name: "cycle", damage: []damage{{"Programming", set("path", ",Books,Programming,Databases,")}},
			found: []string{"cycle Databases", "cycle Programming"}, roots: true,
			parents: map[string]string{"Databases": "", "Programming": "Databases"}},
		{variant: "path", name: "swap", damage: []damage{{"MongoDB", set("path", ",Books,dbm,")}, {"dbm", set("path", ",Books,MongoDB,")}},
			found: []string{"cycle MongoDB", "cycle dbm"}, roots: true, stays: []string{"cycle MongoDB", "cycle dbm"},
			parents: map[string]string{"MongoDB": "", "dbm": "MongoDB"}},
		{variant: "nested", name: "ranges", damage: []damage{{"Databases", set("right", int64(4))}, {"dbm", dd("$unset", dd("left", ""))}},
			found: []string{"wrong field Databases", "wrong field Programming", "wrong field dbm"}},
		{variant: "nested", name: "parent", damage: []damage{{"dbm", set("parent", "Languages")}},
			found: []string{"wrong field Databases", "wrong field Languages"}, parents: map[string]string{"dbm": "Languages"}},
		{variant: "nested", name: "overlap", damage: []damage{{"Films", set("left", int64(5), "right", int64(6))}},
			found: []string{"wrong field roots"}},
		{variant: "nested", name: "cycle", damage: []damage{{"Programming", set("parent", "dbm")}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm", "wrong field Books", "wrong field dbm"}, roots: true,
			parents: map[string]string{"Databases": "", "Programming": "dbm"}},
		{variant: "nested/all", name: "count", damage: []damage{{"Books", set("n", 7)}}, found: []string{"wrong field Books"}},
		{variant: "children", name: "dangling and twice", damage: []damage{{"Databases", set("children", bson.A{"MongoDB", "gone", "MongoDB", "dbm", "dbm"})}},
			found: []string{"wrong field Databases"}},
		{variant: "children", name: "several parents", damage: []damage{{"Languages", set("children", bson.A{"dbm"})}},
			found: []string{"several parents dbm"}},
		{variant: "children", name: "cycle", damage: []damage{{"Books", set("children", bson.A{})}, {"dbm", set("children", bson.A{"Programming"})}},
			found: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, roots: true,
			stays: []string{"cycle Databases", "cycle Programming", "cycle dbm"}, parents: map[string]string{"Databases": "", "Programming": "dbm"}},
	}
	nodes := append(slices.Clone(books), [2]string{"Films", ""})
	test := func(t *testing.T, v variant, tr, rooting *trees, coll *mongo.Collection, c broken) {
		ctx := t.Context()
		for _, d := range c.damage {
			if res, err := coll.UpdateOne(ctx, tr.Filter(d.id), d.update); err != nil || res.ModifiedCount != 1 {
				t.Fatal(res, err)
			}
		}
		match(t, "found", c.found, v.kinds(t, tr, coll))
		if c.roots {
			got, err := tr.Repair(ctx, nil)
			wrong(t, err != nil || got.Remaining == 0, "without MakeRoots: %+v, %v", got, err)
			if c.stays != nil {
				match(t, "without MakeRoots", c.stays, v.kinds(t, tr, coll))
			}
		}
		if !c.roots {
			rooting = tr
		}
		before := stored(t, coll)
		dry, err := rooting.Repair(ctx, &mongopatterns.Work{DryRun: true})
		if diff := cmp.Diff(before, stored(t, coll)); err != nil || dry.Done == 0 && v.rep != tree.NestedSets || diff != "" {
			t.Errorf("dry run: %+v, %v %s", dry, err, diff)
		}
		var done []int64
		got, err := rooting.Repair(ctx, &mongopatterns.Work{BatchSize: 3, Progress: func(r mongopatterns.Result) { done = append(done, r.Examined) }})
		if err != nil || got.Done == 0 || got.Remaining != 0 || len(done) < 3 || done[2] != 7 {
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
		if got, err := tr.Repair(ctx, nil); err != nil || got.Done != 0 || got.Examined != 7 {
			t.Errorf("again: %+v, %v", got, err)
		}
	}
	for _, v := range variants() {
		of := slices.DeleteFunc(slices.Clone(cases), func(c broken) bool { return c.variant != v.name })
		if len(of) == 0 {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr, rooting := v.open(t, coll), v.rooting(t, coll)
			insertAll(t, v, tr, nodes)
			start := testkit.Find[bson.Raw](t, coll, bson.D{})
			for i, c := range of {
				t.Run(c.name, func(t *testing.T) {
					if i > 0 {
						get(coll.DeleteMany(t.Context(), bson.D{}))(t)
						testkit.InsertAll(t, coll, start)
					}
					test(t, v, tr, rooting, coll, c)
				})
			}
		})
	}
}

// damaged is what writes answer that meet a damaged node before Repair does.
var damaged = regexp.MustCompile(`run (Adopt or )?Repair`)

// TestRepairBesideWrites damages nodes and repairs them while others insert,
// move and delete.
func TestRepairBesideWrites(t *testing.T) {
	t.Parallel()
	row := rows(t)
	all := variants()
	for _, v := range oneOfEach(t, []variant{all[2], all[3], all[4], all[7]}) {
		name := v.name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := v.open(t, coll)
			get(tr.Load(t.Context(), v.entries(forest(41)), tr.AsRoot(), nil))(t)
			damage := map[string]bson.D{
				"ancestors":     dd("$set", dd("ancestors", bson.A{"n0"})),
				"ancestors/all": dd("$set", dd("ancestor_categories", bson.A{}, "n", 9)),
				"path":          dd("$set", dd("path", ",n9,n1,")),
				"nested":        dd("$inc", dd("left", 3)),
			}[name]
			for _, id := range []string{"n3", "n4", "n5", "n12"} {
				get(coll.UpdateOne(t.Context(), tr.Filter(id), damage))(t)
			}
			ctx := t.Context()
			var stop atomic.Bool
			finished := make(chan error, 2)
			for g := range 2 {
				go func() {
					var err error
					for i := 0; i < 100 && !stop.Load() && err == nil; i++ {
						id := fmt.Sprintf("g%d-%d", g, i)
						_, err = tr.Insert(ctx, v.doc(id), tr.Under(fmt.Sprintf("n%d", 1+(i*7+g)%40)))
						if err == nil && i%3 == 0 {
							err = tr.Move(ctx, id, tr.Under(fmt.Sprintf("n%d", 1+(i*5+g)%40)))
						}
						if err == nil && i%4 == 0 {
							_, err = tr.Delete(ctx, id, mongopatterns.Restrict)
						}
						if err != nil && (damaged.MatchString(err.Error()) || lost(err)) {
							err = nil
						}
						if name == "nested" && (errors.Is(err, tree.ErrCycle) || errors.Is(err, mongopatterns.ErrReferenced)) {
							err = nil // so say the wrong numbers
						}
					}
					finished <- err
				}()
			}
			last := name == "nested" // for what was inserted by the wrong numbers
			for range scale.Of(2, 3, 3) {
				_, err := tr.Repair(t.Context(), &mongopatterns.Work{BatchSize: 10})
				if last = last || lost(err); err != nil && !lost(err) {
					t.Error(err)
				}
			}
			stop.Store(true)
			for range 2 {
				good(t, <-finished)
			}
			if last {
				good(t, errOf(tr.Repair(t.Context(), nil)))
			}
			healthy(t, tr)
		})
	}
}

// A ring that something leads to is cut where it is entered, without roots
// being made.
func TestRepairKeepsWhatIsReached(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, c := range []struct {
		name       string
		graph      bool
		docs       []any
		a, b, r, s bson.A // children after the repair
	}{
		{"entry is the smallest", false, []any{dd("_id", "R", "children", bson.A{"A"}), dd("_id", "A", "children", bson.A{"B"}),
			dd("_id", "B", "children", bson.A{"A"}), dd("_id", "S", "children", bson.A{})}, bson.A{"B"}, bson.A{}, bson.A{"A"}, bson.A{}},
		{"entry is not", false, []any{dd("_id", "R", "children", bson.A{"B"}), dd("_id", "A", "children", bson.A{"B"}),
			dd("_id", "B", "children", bson.A{"A"}), dd("_id", "S", "children", bson.A{})}, bson.A{}, bson.A{"A"}, bson.A{"B"}, bson.A{}},
		{"graph", true, []any{dd("_id", "R", "children", bson.A{"B"}), dd("_id", "A", "children", bson.A{"B"}),
			dd("_id", "B", "children", bson.A{"A"}), dd("_id", "S", "children", bson.A{"B"})}, bson.A{}, bson.A{"A"}, bson.A{"B"}, bson.A{"B"}},
	} {
		for _, roots := range []bool{false, true} {
			coll := row()
			tr := plain(tree.ChildReferences, tree.Options{Graph: c.graph, MakeRoots: roots}).open(t, coll)
			putDocs(t, coll, c.docs...)
			got, err := tr.Repair(t.Context(), nil)
			wrong(t, err != nil || got.Done != 1 || got.Remaining != 0, "%s: %+v, %v", c.name, got, err)
			healthy(t, tr)
			want := []bson.A{c.a, c.b, c.r, c.s}
			for i, doc := range stored(t, coll) {
				if diff := cmp.Diff(want[i], doc[1].Value); diff != "" {
					t.Errorf("%s, %v: %v %s", c.name, roots, doc, diff)
				}
			}
		}
	}
}

// Whatever the lists are, Repair keeps below the roots what was below them, and with MakeRoots nothing is wrong
// afterwards.
func TestRepairOfAnyLists(t *testing.T) {
	t.Parallel()
	last := scale.Of(30, 149, 149)
	both := []any{dd("_id", "R", "children", bson.A{fmt.Sprintf("n%03d", last)})} // each lists its two neighbours
	for i := range last + 1 {
		both = append(both, dd("_id", fmt.Sprintf("n%03d", i), "children", bson.A{fmt.Sprintf("n%03d", i+1), fmt.Sprintf("n%03d", i-1)}))
	}
	cases := map[string][]any{
		"both ways": both,
		"beside a ring": {dd("_id", "A", "children", bson.A{"A", "X"}), dd("_id", "R", "children", bson.A{"X"}),
			dd("_id", "X", "children", bson.A{})},
		"below a ring": {dd("_id", "A", "children", bson.A{"A", "B"}), dd("_id", "B", "children", bson.A{"C"}),
			dd("_id", "C", "children", bson.A{"B"}), dd("_id", "R", "children", bson.A{"C"})},
	}
	for seed := range uint64(scale.Of(4, 100, 2000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		var docs []any
		for id := range 9 {
			children := bson.A{}
			for range r.IntN(4) {
				children = append(children, fmt.Sprint(r.IntN(9)))
			}
			docs = append(docs, dd("_id", fmt.Sprint(id), "children", children))
		}
		cases[fmt.Sprint("seed ", seed)] = docs
	}
	db := mongotest.Database(t)
	for _, graph := range []bool{false, true} {
		v := plain(tree.ChildReferences, tree.Options{Graph: graph})
		coll := db.Collection(fmt.Sprint("nodes", graph))
		tr, rooting := v.open(t, coll), v.rooting(t, coll)
		for name, docs := range cases {
			get(coll.DeleteMany(t.Context(), bson.D{}))(t)
			putDocs(t, coll, docs...)
			below := func() []string {
				filter := get(tr.RootsFilter(t.Context()))(t)
				roots := get(find(t.Context(), coll, filter))(t)
				reached := map[string]bool{}
				for _, root := range roots {
					reached[root["_id"].(string)] = true
					for _, id := range v.ids(t, tr.Descendants(t.Context(), root["_id"].(string), 0)) {
						reached[id] = true
					}
				}
				return slices.Sorted(maps.Keys(reached))
			}
			before := below()
			good(t, errOf(tr.Repair(t.Context(), nil)))
			match(t, fmt.Sprintf("%s, graph %v: reached", name, graph), before, below())
			got, err := rooting.Repair(t.Context(), nil)
			wrong(t, err != nil || got.Remaining != 0, "%s, graph %v: %+v, %v", name, graph, got, err)
			healthy(t, tr)
			wrong(t, len(below()) != len(docs), "%s, graph %v: %v are reached", name, graph, below())
		}
	}
}

// An ID in place of an array of children is one child: for reads, and so for writes, Check and Repair.
func TestSingleChild(t *testing.T) {
	t.Parallel()
	v := plain(tree.ChildReferences, tree.Options{})
	coll := mongotest.Database(t).Collection("nodes")
	tr := v.open(t, coll)
	putDocs(t, coll, dd("_id", "a", "children", "b"), dd("_id", "b", "children", bson.A{}), dd("_id", "c", "children", bson.A{}))
	v.want(t, "children", v.ids(t, tr.Children(t.Context(), "a")), "b")
	if err := tr.Move(t.Context(), "b", tr.Under("c")); err == nil {
		t.Error("b is moved, and stays under a")
	}
	match(t, "found", []string{"wrong field a"}, v.kinds(t, tr, coll))
	good(t, errOf(tr.Repair(t.Context(), nil)))
	v.want(t, "children", v.ids(t, tr.Children(t.Context(), "a")), "b")
	good(t, tr.Move(t.Context(), "b", tr.Under("c")))
	v.want(t, "children of a", v.ids(t, tr.Children(t.Context(), "a")))
	v.want(t, "children of c", v.ids(t, tr.Children(t.Context(), "c")), "b")
	healthy(t, tr)
}

// A node that the server refuses to write stops one repair, not all.
func TestRepairRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	ok(t, db.CreateCollection(ctx, "nodes", options.CreateCollection().SetValidator(dd("$or",
		bson.A{dd("_id", dd("$ne", 2)), dd("n", dd("$gt", 5))}))))
	coll := db.Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, &tree.Options{ChildCountField: "n"})
	putDocs(t, coll, dd("_id", 1, "parent", nil, "n", 9), dd("_id", 2, "parent", 1, "n", 9), dd("_id", 3, "parent", 1, "n", 9))
	for i := range 2 {
		got, err := tr.Repair(ctx, nil)
		if err != nil || got.Failed != 1 || len(got.Failures) != 1 || got.Done != int64(2-2*i) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// Values that no write of the package makes.
func TestCheckOddValues(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, c := range []struct {
		name   string
		v      variant
		docs   []any
		found  []string
		stays  []string
		detail string
	}{
		{"segments", plain(tree.MaterializedPath, tree.Options{}), []any{dd("_id", "A,B", "path", nil), dd("_id", "C", "path", nil)},
			[]string{"wrong field A,B"}, []string{"wrong field A,B"}, "holds the delimiter"},
		{"orders", plain(tree.ParentReferences, tree.Options{OrderField: "o"}), []any{dd("_id", "P", "o", 0), dd("_id", "a", "parent", "P", "o", 1.5),
			dd("_id", "b", "parent", "P", "o", 2.5), dd("_id", "Q", "o", 7.0), dd("_id", "c", "parent", "Q", "o", "x")},
			[]string{"wrong order P", "wrong order Q"}, nil, `o of children is missing, no whole number`},
		{"no order", plain(tree.ParentReferences, tree.Options{OrderField: "o"}), []any{dd("_id", "P", "o", 0), dd("_id", "a", "parent", "P")},
			[]string{"wrong order P"}, nil, `o of children is missing`},
		{"count", plain(tree.ParentReferences, tree.Options{ChildCountField: "n"}), []any{dd("_id", "P", "parent", nil), dd("_id", "Q", "n", 0.5)},
			[]string{"wrong field P", "wrong field Q"}, nil, "n is missing, want 0"},
		{"numbers", plain(tree.NestedSets, tree.Options{}), []any{dd("_id", "P", "parent", nil, "left", 1.5, "right", 2)},
			[]string{"wrong field P"}, nil, "right is"},
		{"children", plain(tree.ChildReferences, tree.Options{}), []any{dd("_id", "P", "children", nil), dd("_id", "Q", "children", "P"), dd("_id", "R", "children", bson.A{"S"}), dd("_id", "S")},
			[]string{"wrong field P", "wrong field Q"}, nil, "children is null"},
		{"ancestors", plain(tree.AncestorArray, tree.Options{}), []any{dd("_id", "P", "parent", nil)}, []string{"wrong field P"}, nil, "ancestors is missing, want []"},
		{"path", plain(tree.MaterializedPath, tree.Options{}), []any{dd("_id", "P"), dd("_id", "Q", "path", nil)}, []string{"wrong field P"}, nil, "path is missing, want null"},
		{"undefined", plain(tree.ParentReferences, tree.Options{}), []any{dd("_id", "P", "parent", bson.Undefined{}), dd("_id", "Q", "parent", "P")},
			[]string{"wrong field P"}, nil, `parent is {"$undefined":true}, want null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			v := c.v
			v.opts.MakeRoots = true
			tr := get(tree.New[string, bson.M](coll, v.rep, &v.opts))(t)
			putDocs(t, coll, c.docs...)
			match(t, "found", c.found, v.kinds(t, tr, coll))
			if all := strings.Join(problems(t, tr), "\n"); !strings.Contains(all, c.detail) {
				t.Errorf("no %q in %s", c.detail, all)
			}
			got, err := tr.Repair(ctx, nil)
			if err != nil || int(got.Remaining) != len(c.stays) || c.stays == nil && got.Done == 0 {
				t.Errorf("%+v, %v", got, err)
			}
			match(t, "stays", append([]string{}, c.stays...), v.kinds(t, tr, coll))
		})
	}
}

// Work that is to see all nodes reads from the primary, whatever the collection
// is set to, and in the order of the IDs.
func TestBatchesFromPrimary(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes", options.Collection().SetReadPreference(readpref.SecondaryPreferred()))
	v := plain(tree.AncestorArray, tree.Options{OrderField: "pos"})
	tr, to := v.open(t, coll), plain(tree.MaterializedPath, tree.Options{OrderField: "pos"}).open(t, coll)
	insertAll(t, v, tr, books)
	for name, fn := range map[string]func() error{
		"Check":   func() error { return drain(tr.Check(ctx, nil)) },
		"Repair":  func() error { return errOf(tr.Repair(ctx, nil)) },
		"Adopt":   func() error { return errOf(tr.Adopt(ctx, nil)) },
		"Convert": func() error { return errOf(tree.Convert(ctx, tr, to, nil)) },
		"Dump":    func() error { return drain(tr.Dump(ctx)) },
	} {
		c := mongotest.Record(t, db, func() {
			if err := fn(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		for _, command := range c.Named("find", "aggregate") {
			if mode, ok := command.Body.Lookup("$readPreference", "mode").StringValueOK(); ok && strings.HasPrefix(mode, "secondary") {
				t.Errorf("%s reads from a %s: %v", name, mode, command.Body)
			}
		}
		if scan := c.Named("find"); name != "Dump" && !slices.ContainsFunc(scan, func(c mongotest.Command) bool {
			sort, ok := c.Body.Lookup("sort").DocumentOK()
			return c.Collection == "nodes" && ok && cmp.Equal(toD(t, sort), dd("_id", int32(1)))
		}) {
			t.Errorf("%s: %v", name, scan)
		}
	}
}

// TestCheckTwice: a sequence that is run again looks at everything anew.
func TestCheckTwice(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	putDocs(t, coll, dd("_id", "a", "parent", nil, "o", 0), dd("_id", "b", "o", 0))
	tr := get(tree.New[string, bson.M](coll, tree.ParentReferences, &tree.Options{OrderField: "o"}))(t)
	problems := tr.Check(t.Context(), nil)
	for range 2 {
		n := 0
		for _, err := range problems {
			good(t, err)
			n++
		}
		wrong(t, n != 1, "%d problems", n)
	}
}

// TestLongChain: of the nodes that it knows Check holds no ways up, which together are the square of a chain.
func TestLongChain(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	docs := []any{dd("_id", 0)}
	for i := range 3000 {
		docs = append(docs, dd("_id", i+1, "parent", i))
	}
	putDocs(t, coll, docs...)
	tr := get(tree.New[int, bson.M](coll, tree.ParentReferences, nil))(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for p, err := range tr.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	runtime.ReadMemStats(&after)
	mb := (after.TotalAlloc - before.TotalAlloc) >> 20
	wrong(t, mb > 50, "%d MB", mb)
}

// TestWorkFilter: Repair of one node.
func TestWorkFilter(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.AncestorArray, tree.Options{ChildCountField: "n"})
	tr := v.open(t, coll)
	insertAll(t, v, tr, books)
	for _, id := range []string{"dbm", "MongoDB"} {
		changeDoc(t, coll, id, dd("$set", dd("ancestors", bson.A{}, "n", 5)))
	}
	one := &mongopatterns.Work{Filter: bson.M{"_id": "dbm"}}
	if got := len(get(cursor.Collect(tr.Check(ctx, one)))(t)); got != 2 {
		t.Errorf("%d problems of one node", got)
	}
	got, err := tr.Repair(ctx, one)
	wrong(t, err != nil || got.Examined != 1 || got.Done != 1, "%+v, %v", got, err)
	if found := v.kinds(t, tr, coll); !slices.Equal(found, []string{"wrong field MongoDB"}) {
		t.Error(found)
	}
}

// A leaf that old code deletes leaves its ID in the array of its parent. Repair takes it out and keeps the others in
// their order, and the calls that read the array do not wait for it.
func TestLeafDeletedByOldCode(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ChildReferences, &tree.Options{ChildCountField: "n"})
	for _, n := range [][2]any{{"P", nil}, {"a", "P"}, {"b", "P"}, {"c", "P"}} {
		plant(t, tr, bson.M{"_id": n[0]}, n[1])
	}
	get(coll.DeleteOne(ctx, tr.Filter("b")))(t)
	good(t, tr.Move(ctx, "a", tr.After("c")))
	var kinds []string
	for p, err := range tr.Check(ctx, nil) {
		ok(t, err)
		kinds = append(kinds, fmt.Sprint(p.Kind, " ", p.Field, " ", p.Detail))
	}
	match(t, "found", []string{`wrong field children "b" does not exist`, "wrong field n "}, kinds)
	get(tr.Repair(ctx, nil))(t)
	p := get(coll.FindOne(ctx, tr.Filter("P")).Raw())(t)
	match(t, "repaired", `["c","a"] 2`, fmt.Sprintf("%s %d", p.Lookup("children"), p.Lookup("n").AsInt64()))
	allRight(t, tr)
}
