package tree_test

import (
	gocmp "cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestConvert(t *testing.T) {
	nodes := forest(40)
	all := variants()
	pairs := [][2]int{}
	for from := range 5 { // every representation to two others
		pairs = append(pairs, [2]int{from, (from + 1) % 5}, [2]int{from, (from + 3) % 5})
	}
	// With orders, counters and segments; field names of the same collection.
	pairs = append(pairs, [2]int{5, 9}, [2]int{9, 5}, [2]int{7, 8}, [2]int{8, 6}, [2]int{6, 7}, [2]int{9, 8}, [2]int{5, 5})
	for _, p := range pairs {
		from, to := all[p[0]], all[p[1]]
		t.Run(from.name+" to "+to.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			to.opts.IDField = from.opts.IDField
			to.opts.Scope = from.opts.Scope
			db := mongotest.Database(t)
			a := from.open(t, db.Collection("nodes"))
			get(a.Load(ctx, from.entries(nodes), a.AsRoot(), nil))(t)
			check := from
			check.rep, check.opts = to.rep, to.opts
			check.ordered = from.ordered && to.ordered
			check.roots = from.roots && to.roots

			b := check.open(t, db.Collection("copy"))
			get(b.Load(ctx, check.entries(nodes), b.AsRoot(), nil))(t)
			b = check.open(t, db.Collection("nodes"))
			var done []int64
			got, err := tree.Convert(ctx, a, b, &mongopatterns.Work{BatchSize: 15, Progress: func(r mongopatterns.Result) { done = append(done, r.Examined) }})
			if err != nil {
				t.Fatalf("in place: %+v, %v", got, err)
			}
			wrong(t, !slices.Equal(done, []int64{15, 30, 40}), "progress %v", done)
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			healthy(t, a) // kept
			before := stored(t, db.Collection("nodes"))
			if got, err = tree.Convert(ctx, a, b, nil); err != nil || got.Done != 0 {
				t.Errorf("in place again: %+v, %v", got, err)
			}
			match(t, "in place again", before, stored(t, db.Collection("nodes")))
			unsetOld(t, from, check, db.Collection("nodes"))
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

// unsetOld removes the fields of the old tree that the new one does not use, as the manual of Convert has it.
func unsetOld(t testing.TB, from, to variant, coll *mongo.Collection) {
	t.Helper()
	fields := func(v variant) []string {
		o := v.opts
		parent := gocmp.Or(o.ParentField, "parent")
		return append(map[tree.Representation][]string{
			tree.ParentReferences: {parent},
			tree.ChildReferences:  {gocmp.Or(o.ChildrenField, "children")},
			tree.AncestorArray:    {gocmp.Or(o.AncestorsField, "ancestors"), parent},
			tree.MaterializedPath: {gocmp.Or(o.PathField, "path")},
			tree.NestedSets:       {gocmp.Or(o.LeftField, "left"), gocmp.Or(o.RightField, "right"), parent},
		}[v.rep], o.OrderField, o.ChildCountField)
	}
	old := bson.M{}
	for _, f := range fields(from) {
		if f != "" && !slices.Contains(fields(to), f) {
			old[f] = ""
		}
	}
	if len(old) > 0 {
		get(coll.UpdateMany(t.Context(), bson.D{}, dd("$unset", old)))(t)
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
		if v.opts.IDField != "" {
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
			get(coll.InsertMany(ctx, docs))(t)
			// Cut off, then finished.
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			_, err := tr.Adopt(short, &mongopatterns.Work{BatchSize: 20, Progress: func(mongopatterns.Result) { cancel() }})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got, err := tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 20})
			if err != nil || got.Examined != 50 || got.Remaining != 0 {
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
	for _, v := range []variant{
		{name: "order", rep: tree.AncestorArray, opts: tree.Options{OrderField: "pos"}, ordered: true, roots: true},
		{name: "path", rep: tree.MaterializedPath, opts: tree.Options{OrderField: "pos"}, ordered: true, roots: true},
		{name: "children", rep: tree.ChildReferences, ordered: true},
		{name: "nested", rep: tree.NestedSets, ordered: true, roots: true},
		{name: "sku", rep: tree.NestedSets, ordered: true, roots: true, opts: tree.Options{IDField: "sku"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("nodes")
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

func TestConvertRefuses(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	a := get(tree.New[string, bson.M](coll, tree.ParentReferences, nil))(t)
	for _, o := range []tree.Options{{Scope: dd("a", 1)}, {IDField: "x"}} {
		b := get(tree.New[string, bson.M](coll, tree.AncestorArray, &o))(t)
		is(t, errOf(tree.Convert(ctx, a, b, nil)), mongopatterns.ErrInvalid)
	}
	g := get(tree.New[string, bson.M](coll, tree.ChildReferences, &tree.Options{Graph: true}))(t)
	is(t, errOf(tree.Convert(ctx, a, g, nil)), mongopatterns.ErrInvalid)
	// An orphan is counted and left alone.
	get(coll.InsertMany(ctx, []any{dd("_id", "root", "parent", nil), dd("_id", "lost", "parent", "gone")}))(t)
	b := get(tree.New[string, bson.M](coll, tree.AncestorArray, nil))(t)
	got, err := b.Adopt(ctx, nil)
	wrong(t, err != nil || got.Examined != 2 || got.Done != 1 || got.Remaining != 1, "%+v, %v", got, err)
	// An index in the way is an error and stays.
	get(coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: dd("ancestors", 1), Options: options.Index().SetSparse(true)}))(t)
	is(t, b.EnsureIndexes(ctx), mongopatterns.ErrIndexConflict)
}

// Adopt again leaves what was moved or inserted by the tree where it is, and
// takes in what code that knows the parent only has inserted.
func TestAdoptAgain(t *testing.T) {
	for _, v := range []variant{
		{name: "path", rep: tree.MaterializedPath},
		{name: "path/all", rep: tree.MaterializedPath, opts: tree.Options{OrderField: "pos", ChildCountField: "n"}},
		{name: "children", rep: tree.ChildReferences},
		{name: "children/all", rep: tree.ChildReferences, opts: tree.Options{ChildCountField: "n"}},
		{name: "ancestors/all", rep: tree.AncestorArray, opts: tree.Options{OrderField: "pos", ChildCountField: "n"}},
		{name: "nested", rep: tree.NestedSets},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
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
				get(tr.Delete(ctx, "B", tree.MakeRoots))(t)
				m.delete("B", tree.MakeRoots)
			}
			add([2]string{"old1", "C"}, [2]string{"old2", "old1"}, [2]string{"0", "old2"}, [2]string{"old3", ""})
			adopt(true)
		})
	}
}

func TestConvertRefusesMeanings(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	from := plain(tree.MaterializedPath, tree.Options{OrderField: "pos"})
	a := from.open(t, coll)
	insertAll(t, from, a, books)
	before := stored(t, coll)
	for _, c := range []variant{
		plain(tree.MaterializedPath, tree.Options{PathDelimiter: "/"}),
		plain(tree.AncestorArray, tree.Options{AncestorsField: "path"}),
		plain(tree.ParentReferences, tree.Options{OrderField: "path"}),
		plain(tree.NestedSets, tree.Options{RightField: "pos"}),
		plain(tree.ChildReferences, tree.Options{ChildCountField: "path"}),
	} {
		b := get(tree.New[string, bson.M](coll, c.rep, &c.opts))(t)
		if _, err := tree.Convert(ctx, a, b, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v %+v: %v", c.rep, c.opts, err)
		}
	}
	b := get(tree.New[string, bson.M](coll, tree.MaterializedPath, &tree.Options{ParentField: "path"}))(t)
	is(t, errOf(b.Adopt(ctx, nil)), mongopatterns.ErrInvalid)
	match(t, "refused, yet (-before +after)", before, stored(t, coll))
	// Another field is fine.
	to := plain(tree.MaterializedPath, tree.Options{PathField: "way", PathDelimiter: "/", OrderField: "pos"})
	b = to.open(t, coll)
	get(tree.Convert(ctx, a, b, nil))(t)
	healthy(t, b)
	to.compare(t, b, modelOf(books))
}

func TestConvertCountsUnplaced(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	c := plain(tree.ChildReferences, tree.Options{}).open(t, coll)
	b := plain(tree.AncestorArray, tree.Options{}).open(t, coll)
	putDocs(t, coll, dd("_id", "A", "children", bson.A{"X"}), dd("_id", "B", "children", bson.A{"X"}),
		dd("_id", "X", "children", bson.A{"Y"}), dd("_id", "Y", "children", bson.A{}))
	got, err := tree.Convert(ctx, c, b, nil)
	wrong(t, err != nil || got.Examined != 4 || got.Done != 2 || got.Remaining != 2, "two parents: %+v, %v", got, err)
	for _, doc := range stored(t, coll) {
		if id := doc[0].Value; (id == "X" || id == "Y") != (len(doc) == 2) {
			t.Errorf("%v", doc)
		}
	}
}
