package tree_test

import (
	gocmp "cmp"
	"errors"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	nodes := forest(20)
	all := variants()
	pairs := [][2]int{}
	for from := range 5 { // every representation to two others
		pairs = append(pairs, [2]int{from, (from + 1) % 5}, [2]int{from, (from + 3) % 5})
	}
	// With orders, counters and segments; field names of the same collection.
	pairs = append(pairs, [2]int{5, 10}, [2]int{10, 5}, [2]int{7, 8}, [2]int{8, 6}, [2]int{6, 7}, [2]int{10, 8}, [2]int{5, 5})
	for with := range 5 {
		if with != 3 { // they would share the path field
			pairs = append(pairs, [2]int{with, 9}, [2]int{9, with})
		}
	}
	pairs = append(pairs, [2]int{8, 9}, [2]int{9, 8})
	row := rows(t)
	for _, p := range pairs {
		from, to := all[p[0]], all[p[1]]
		if !scale.Third(from.name + to.name) {
			continue
		}
		t.Run(from.name+" to "+to.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			to.opts.IDField = from.opts.IDField
			to.opts.Scope = from.opts.Scope
			coll := row()
			a := from.open(t, coll)
			get(a.Load(ctx, from.entries(nodes), a.AsRoot(), nil))(t)
			check := from
			check.rep, check.opts = to.rep, to.opts
			check.ordered = from.ordered && to.ordered
			check.roots = from.roots && to.roots

			copied := row()
			b := check.open(t, copied)
			get(b.Load(ctx, check.entries(nodes), b.AsRoot(), nil))(t)
			b = check.open(t, coll)
			var done []int64
			got, err := tree.Convert(ctx, a, b, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) { done = append(done, r.Examined) }})
			if err != nil {
				t.Fatalf("in place: %+v, %v", got, err)
			}
			wrong(t, !slices.Equal(done, []int64{10, 20}), "progress %v", done)
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			healthy(t, a) // kept
			before := stored(t, coll)
			if got, err = tree.Convert(ctx, a, b, nil); err != nil || got.Done != 0 {
				t.Errorf("in place again: %+v, %v", got, err)
			}
			match(t, "in place again", before, stored(t, coll))
			unsetOld(t, from, check, coll)
			healthy(t, b)
			check.compare(t, b, modelOf(nodes))
			// The same documents as if they had been inserted so.
			for i, doc := range stored(t, coll) {
				want := fieldsOf(stored(t, copied)[i])
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

func TestConvertRefuses(t *testing.T) {
	t.Parallel()
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

func TestConvertRefusesMeanings(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
