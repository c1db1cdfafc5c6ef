package tree_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func putDocs(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
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

// A conversion in place that is run again after its end does nothing.
func TestConvertTwice(t *testing.T) {
	all := variants()[:5]
	slow := mongotest.Engine(t, mongotest.Database(t)) == "secantus-py"
	for i, from := range all {
		for j, to := range all {
			if i == j || slow && (i+2)%5 != j { // there each to and from one other
				continue
			}
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := mongotest.Database(t).Collection("nodes")
				a, b := from.open(t, coll), to.open(t, coll)
				insertAll(t, from, a, books)
				if _, err := tree.Convert(ctx, a, b, nil); err != nil {
					t.Fatal(err)
				}
				want := stored(t, coll)
				for _, keep := range []bool{false, true} {
					if got, err := tree.Convert(ctx, a, b, &tree.ConvertOptions{Keep: keep}); err != nil || got.Written != 0 {
						t.Errorf("again: %+v, %v", got, err)
					}
					if diff := cmp.Diff(want, stored(t, coll)); diff != "" {
						t.Errorf("again (-before +after): %s", diff)
					}
				}
				healthy(t, b)
				to.compare(t, b, modelOf(books))
			})
		}
	}
}

// A removal of the old fields that was cut off is finished, and nothing else.
func TestConvertInterrupted(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	from, to := plain(tree.ParentReferences, tree.Options{}), plain(tree.MaterializedPath, tree.Options{})
	a, b := from.open(t, coll), to.open(t, coll)
	insertAll(t, from, a, books)

	// Cut off at the update that removes the fields.
	c := mongotest.Record(t, db, func() {
		if _, err := tree.Convert(ctx, a, b, nil); err != nil {
			t.Fatal(err)
		}
	})
	marks := c.Named("update")
	if len(marks) < 3 {
		t.Fatal(c.Names())
	}
	var mark bson.Raw // the second write to the lock of its transaction
	for _, m := range marks {
		if m.Collection == "nodes_locks" && strings.Contains(m.Body.String(), "converted") && strings.Contains(m.Body.String(), "$set") {
			mark = m.Body
		}
	}
	if mark == nil {
		t.Fatal("no mark before the removal")
	}
	value := mark.Lookup("updates", "0", "u", "$set", "converted").StringValue()
	var lock bson.M
	if err := db.Collection("nodes_locks").FindOne(ctx, dd("_id", "tree")).Decode(&lock); err != nil || lock["converted"] != nil {
		t.Errorf("the mark stays: %v, %v", lock, err)
	}
	// As it was then: half of the fields removed.
	for _, n := range books[3:] {
		changeDoc(t, coll, n[0], dd("$set", dd("parent", n[1])))
	}
	if _, err := tree.Convert(ctx, a, b, nil); !errors.Is(err, tree.ErrUnsupported) {
		t.Errorf("half converted and no mark: %v", err)
	}
	if _, err := db.Collection("nodes_locks").UpdateOne(ctx, dd("_id", "tree"), dd("$set", dd("converted", value))); err != nil {
		t.Fatal(err)
	}
	// A document of old code stays as it is.
	putDocs(t, coll, dd("_id", "late", "parent", "Books"))
	if got, err := tree.Convert(ctx, a, b, nil); err != nil || got != (tree.ConvertResult{}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, doc := range stored(t, coll) {
		if id := doc[0].Value; slices.Contains(fieldsOf(doc), "parent") != (id == "late") {
			t.Errorf("%v", doc)
		}
	}
	if _, err := tree.Convert(ctx, a, b, nil); !errors.Is(err, tree.ErrUnsupported) {
		t.Errorf("a late document: %v", err)
	}
	if got, err := b.Adopt(ctx, nil); err != nil || got.Written != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	healthy(t, b)
	to.compare(t, b, modelOf(append(slices.Clone(books), [2]string{"late", "Books"})))
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
				if err := tr.Move(ctx, id, pos); err != nil {
					t.Fatal(err)
				}
				m.detach(id)
				m.attach(id, to, -1)
			}
			adopt := func(written int64) {
				t.Helper()
				if got, err := tr.Adopt(ctx, &tree.AdoptOptions{BatchSize: 2}); err != nil || got.Written != written || got.Unplaced != 0 {
					t.Errorf("%+v, %v", got, err)
				}
				healthy(t, tr)
				v.compare(t, tr, m)
			}
			// Children before their parents in the order of the batches too.
			add([2]string{"z", ""}, [2]string{"B", "z"}, [2]string{"C", "B"}, [2]string{"D", "C"}, [2]string{"a", "D"}, [2]string{"b", "D"})
			if v.rep == tree.NestedSets {
				adopt(1) // the parent of z; otherwise it is numbers that are written
			} else {
				adopt(6)
			}
			if _, err := tr.Insert(ctx, v.doc("N"), tr.Under("B")); err != nil {
				t.Fatal(err)
			}
			m.attach("N", "B", -1)
			move("D", "z")
			move("a", "")
			move("C", "a")
			before := stored(t, coll)
			if v.rep == tree.MaterializedPath || v.rep == tree.ChildReferences {
				adopt(0)
				if diff := cmp.Diff(before, stored(t, coll)); diff != "" {
					t.Errorf("again (-before +after): %s", diff)
				}
			}
			if v.rep == tree.MaterializedPath || v.rep == tree.ChildReferences {
				// What the parent field of C still names is gone.
				if _, err := tr.Delete(ctx, "B", tree.MakeRoots); err != nil {
					t.Fatal(err)
				}
				m.delete("B", tree.MakeRoots)
			}
			add([2]string{"old1", "C"}, [2]string{"old2", "old1"}, [2]string{"0", "old2"}, [2]string{"old3", ""})
			want := int64(4)
			if v.opts.ChildCountField != "" && v.rep == tree.MaterializedPath {
				want++ // the counter of C
			}
			if v.rep == tree.AncestorArray {
				want = 5 // and the counter of C
			}
			if v.rep == tree.NestedSets {
				want = 1
			}
			adopt(want)
		})
	}
}

func TestConvertRefusesMeanings(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	from := plain(tree.MaterializedPath, tree.Options{SegmentField: "slug", OrderField: "pos"})
	a := from.open(t, coll)
	insertAll(t, from, a, books)
	before := stored(t, coll)
	for _, c := range []variant{
		plain(tree.MaterializedPath, tree.Options{SegmentField: "slug", PathDelimiter: "/"}),
		plain(tree.MaterializedPath, tree.Options{}),
		plain(tree.AncestorArray, tree.Options{AncestorsField: "path"}),
		plain(tree.AncestorArray, tree.Options{AncestorsField: "slug"}),
		plain(tree.ParentReferences, tree.Options{OrderField: "path"}),
		plain(tree.NestedSets, tree.Options{RightField: "pos"}),
		plain(tree.ChildReferences, tree.Options{ChildCountField: "slug"}),
	} {
		b, err := tree.New[string, bson.M](coll, c.rep, &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Convert(ctx, a, b, nil); !errors.Is(err, tree.ErrUnsupported) {
			t.Errorf("%v %+v: %v", c.rep, c.opts, err)
		}
	}
	b, err := tree.New[string, bson.M](coll, tree.MaterializedPath, &tree.Options{ParentField: "path"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Adopt(ctx, nil); !errors.Is(err, tree.ErrUnsupported) {
		t.Errorf("adopt: %v", err)
	}
	if diff := cmp.Diff(before, stored(t, coll)); diff != "" {
		t.Errorf("refused, yet (-before +after): %s", diff)
	}
	// Another field is fine.
	to := plain(tree.MaterializedPath, tree.Options{PathField: "way", PathDelimiter: "/", OrderField: "pos"})
	b = to.open(t, coll)
	if _, err := tree.Convert(ctx, a, b, nil); err != nil {
		t.Fatal(err)
	}
	healthy(t, b)
	to.compare(t, b, modelOf(books))
}

func TestConvertCountsUnplaced(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	a := plain(tree.ParentReferences, tree.Options{}).open(t, coll)
	b := plain(tree.AncestorArray, tree.Options{}).open(t, db.Collection("copy"))
	putDocs(t, coll, dd("_id", "A"), dd("_id", "O", "parent", "gone"), dd("_id", "O2", "parent", "O"))
	got, err := tree.Convert(ctx, a, b, nil)
	if want := (tree.ConvertResult{Examined: 1, Written: 1, Unplaced: 2}); err != nil || got != want {
		t.Errorf("orphans: %+v, %v", got, err)
	}

	coll = db.Collection("arrays")
	c := plain(tree.ChildReferences, tree.Options{}).open(t, coll)
	b = plain(tree.AncestorArray, tree.Options{}).open(t, coll)
	putDocs(t, coll, dd("_id", "A", "children", bson.A{"X"}), dd("_id", "B", "children", bson.A{"X"}),
		dd("_id", "X", "children", bson.A{"Y"}), dd("_id", "Y", "children", bson.A{}))
	got, err = tree.Convert(ctx, c, b, nil)
	if want := (tree.ConvertResult{Examined: 4, Written: 2, Unplaced: 2}); err != nil || got != want {
		t.Errorf("two parents: %+v, %v", got, err)
	}
	for _, doc := range stored(t, coll) {
		if id := doc[0].Value; (id == "X" || id == "Y") != (len(doc) == 2) {
			t.Errorf("%v", doc)
		}
	}
}

func TestDumpEnds(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	tr := plain(tree.ChildReferences, tree.Options{}).open(t, coll)
	putDocs(t, coll, dd("_id", "R", "children", bson.A{"A", "A"}), dd("_id", "A", "children", bson.A{"B"}), dd("_id", "B", "children", bson.A{"A", "C"}),
		dd("_id", "C", "children", bson.A{}))
	var got []string
	for e, err := range tr.Dump(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Value["_id"].(string)); len(got) > 9 {
			break
		}
	}
	if diff := cmp.Diff([]string{"R", "A", "B", "C"}, got); diff != "" {
		t.Error(diff)
	}
}

// A ring that something leads to is cut where it is entered, without roots
// being made.
func TestRepairKeepsWhatIsReached(t *testing.T) {
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
			coll := mongotest.Database(t).Collection("nodes")
			tr := plain(tree.ChildReferences, tree.Options{Graph: c.graph}).open(t, coll)
			putDocs(t, coll, c.docs...)
			got, err := tr.Repair(t.Context(), &tree.RepairOptions{MakeRoots: roots})
			if err != nil || got.Repaired != 1 || got.Remaining != 0 {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
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

// A segment that is taken stops one repair, not all.
func TestRepairTakenSegment(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr, err := tree.New[int, bson.M](coll, tree.MaterializedPath, &tree.Options{SegmentField: "s", ChildCountField: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	putDocs(t, coll, dd("_id", 0, "path", ",gone,", "s", "free", "n", 0), dd("_id", 1, "path", nil, "s", "docs", "n", 0),
		dd("_id", 2, "path", ",gone,", "s", "docs", "n", 0), dd("_id", 3, "path", ",docs,", "s", "x", "n", 77))
	for range 2 {
		got, err := tr.Repair(ctx, &tree.RepairOptions{MakeRoots: true})
		if err != nil || got.Remaining != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, doc := range stored(t, coll) {
		id, path, n := doc[0].Value.(int32), doc[1].Value, doc[3].Value
		want := map[int32][2]any{0: {nil, int32(0)}, 1: {nil, int64(1)}, 2: {",gone,", int32(0)}, 3: {",docs,", int64(0)}}[id]
		if diff := cmp.Diff(want, [2]any{path, n}); diff != "" {
			t.Errorf("%d: %s", id, diff)
		}
	}
}

// Values that no write of the package makes.
func TestCheckOddValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		v      variant
		docs   []any
		found  []string
		stays  []string
		detail string
	}{
		{"segments", plain(tree.MaterializedPath, tree.Options{SegmentField: "s"}), []any{dd("_id", "1", "path", nil, "s", nil), dd("_id", "2", "path", nil),
			dd("_id", "3", "path", nil, "s", "A"), dd("_id", "4", "path", nil, "s", "A,B"), dd("_id", "5", "path", ",A,", "s", "B"), dd("_id", "6", "path", nil, "s", 1.5)},
			[]string{"wrong path 1", "wrong path 2", "wrong path 4", "wrong path 6"}, []string{"wrong path 1", "wrong path 2", "wrong path 4", "wrong path 6"}, "s is missing"},
		{"orders", plain(tree.ParentReferences, tree.Options{OrderField: "o"}), []any{dd("_id", "P", "o", 0), dd("_id", "a", "parent", "P", "o", 1.5),
			dd("_id", "b", "parent", "P", "o", 2.5), dd("_id", "Q", "o", 7.0), dd("_id", "c", "parent", "Q", "o", "x")},
			[]string{"wrong order P", "wrong order Q"}, nil, `o of "a" is `},
		{"no order", plain(tree.ParentReferences, tree.Options{OrderField: "o"}), []any{dd("_id", "P", "o", 0), dd("_id", "a", "parent", "P")},
			[]string{"wrong order P"}, nil, `o of "a" is missing`},
		{"count", plain(tree.ParentReferences, tree.Options{ChildCountField: "n"}), []any{dd("_id", "P"), dd("_id", "Q", "n", 0.5)},
			[]string{"wrong count P", "wrong count Q"}, nil, "n is missing, there are 0 children"},
		{"numbers", plain(tree.NestedSets, tree.Options{}), []any{dd("_id", "P", "parent", nil, "left", 1.5, "right", 2)},
			[]string{"wrong range P"}, nil, "right is"},
		{"children", plain(tree.ChildReferences, tree.Options{}), []any{dd("_id", "P", "children", nil), dd("_id", "Q", "children", "P"), dd("_id", "R", "children", bson.A{"S"}), dd("_id", "S")},
			[]string{"wrong children P", "wrong children Q"}, nil, "children is null"},
		{"ancestors", plain(tree.AncestorArray, tree.Options{}), []any{dd("_id", "P", "parent", nil)}, []string{"wrong ancestors P"}, nil, "missing, the parents"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr, err := tree.New[string, bson.M](coll, c.v.rep, &c.v.opts)
			if err != nil {
				t.Fatal(err)
			}
			putDocs(t, coll, c.docs...)
			if diff := cmp.Diff(c.found, kinds(t, tr)); diff != "" {
				t.Errorf("found (-want +got): %s", diff)
			}
			if all := strings.Join(problems(t, tr), "\n"); !strings.Contains(all, c.detail) {
				t.Errorf("no %q in %s", c.detail, all)
			}
			got, err := tr.Repair(ctx, &tree.RepairOptions{MakeRoots: true})
			if err != nil || int(got.Remaining) != len(c.stays) || c.stays == nil && got.Repaired == 0 {
				t.Errorf("%+v, %v", got, err)
			}
			if diff := cmp.Diff(append([]string{}, c.stays...), kinds(t, tr)); diff != "" {
				t.Errorf("stays (-want +got): %s", diff)
			}
		})
	}
}

// Work that is to see all nodes reads from the primary, whatever the collection
// is set to, and in the order of the IDs.
func TestBatchesFromPrimary(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("nodes", options.Collection().SetReadPreference(readpref.SecondaryPreferred()))
	v := plain(tree.AncestorArray, tree.Options{OrderField: "pos"})
	tr, to := v.open(t, coll), plain(tree.MaterializedPath, tree.Options{OrderField: "pos"}).open(t, coll)
	insertAll(t, v, tr, books)
	other := v.open(t, db.Collection("copy"))
	for name, fn := range map[string]func() error{
		"Check":           func() error { return drain(tr.Check(ctx)) },
		"Repair":          func() error { return errOf(tr.Repair(ctx, nil)) },
		"Adopt":           func() error { return errOf(tr.Adopt(ctx, nil)) },
		"Convert":         func() error { return errOf(tree.Convert(ctx, tr, to, &tree.ConvertOptions{Keep: true})) },
		"Convert by copy": func() error { return errOf(tree.Convert(ctx, tr, other, nil)) },
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
		if finds := c.Named("find"); name != "Convert by copy" && !cmp.Equal(toD(t, finds[0].Body.Lookup("sort").Document()), dd("_id", int32(1))) {
			t.Errorf("%s: %v", name, finds[0].Body)
		}
	}
}

// Each batch of a walk is one reply.
func TestDumpOfManyInALevel(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, db.Collection("nodes"))
	var many [][2]string
	for i := range 300 {
		many = append(many, [2]string{string(rune('a'+i%26)) + strings.Repeat("x", i/26), ""})
	}
	if _, err := tr.Load(ctx, v.entries(many), nil); err != nil {
		t.Fatal(err)
	}
	c := mongotest.Record(t, db, func() {
		if err := drain(tr.Dump(ctx)); err != nil {
			t.Error(err)
		}
	})
	if got := c.RoundTrips(); got != 3 {
		t.Errorf("%d: %v", got, c.Names())
	}
}
