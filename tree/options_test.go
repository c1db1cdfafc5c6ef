package tree_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := get(mongo.Connect())(t)
	coll := client.Database("x").Collection("x")
	for _, c := range []struct {
		rep  tree.Representation
		opts tree.Options
		want string
	}{
		{0, tree.Options{}, "rep: unknown Representation(0)"},
		{6, tree.Options{}, "unknown Representation(6)"},
		{tree.ParentReferences, tree.Options{ParentField: "a.b"}, "Options.ParentField"},
		{tree.ParentReferences, tree.Options{ParentField: "_id"}, "Options.ParentField"},
		{tree.ParentReferences, tree.Options{IDField: "$id"}, "Options.IDField"},
		{tree.ParentReferences, tree.Options{OrderField: "parent"}, "Options.OrderField"},
		{tree.ParentReferences, tree.Options{OrderField: "__depth"}, "collides with the package"},
		{tree.ParentReferences, tree.Options{ChildCountField: "a\x00"}, "Options.ChildCountField"},
		{tree.ParentReferences, tree.Options{NameField: "a..b"}, "Options.NameField"},
		{tree.ParentReferences, tree.Options{Graph: true}, "Options.Graph"},
		{tree.ParentReferences, tree.Options{Scope: bson.D{{Key: "a.b", Value: 1}}}, "Options.Scope"},
		{tree.ParentReferences, tree.Options{Scope: bson.D{{Key: "parent", Value: 1}}}, "Options.Scope"},
		{tree.ParentReferences, tree.Options{Scope: bson.D{{Key: "a", Value: make(chan int)}}}, "Options.Scope"},
		{tree.AncestorArray, tree.Options{Scope: dd("tenant", nil)}, "Options.Scope: tenant: "},
		{tree.AncestorArray, tree.Options{Scope: dd("tenant", bson.A{1})}, "Options.Scope: tenant: "},
		{tree.AncestorArray, tree.Options{Scope: dd("tenant", bson.Regex{Pattern: "a"})}, "Options.Scope: tenant: "},
		{tree.AncestorArray, tree.Options{Scope: dd("tenant", bson.Undefined{})}, "Options.Scope: tenant: "},
		{tree.ChildReferences, tree.Options{ChildrenField: ".a"}, "Options.ChildrenField"},
		{tree.ChildReferences, tree.Options{OrderField: "o"}, "Options.OrderField"},
		{tree.AncestorArray, tree.Options{AncestorsField: "parent"}, "Options.ParentField"},
		{tree.MaterializedPath, tree.Options{PathField: "$p"}, "Options.PathField"},
		{tree.MaterializedPath, tree.Options{PathDelimiter: "::"}, "Options.PathDelimiter"},
		{tree.MaterializedPath, tree.Options{PathDelimiter: "a"}, "Options.PathDelimiter"},
		{tree.MaterializedPath, tree.Options{PathDelimiter: "~"}, "Options.PathDelimiter"},
		{tree.NestedSets, tree.Options{LeftField: "x", RightField: "x"}, "Options.RightField"},
		{tree.NestedSets, tree.Options{OrderField: "o"}, "Options.OrderField"},
	} {
		_, err := tree.New[string, bson.M](coll, c.rep, &c.opts)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "tree: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %+v: %v, want %s", c.rep, c.opts, err, c.want)
		}
	}
	if _, err := tree.New[string, bson.M](nil, tree.ParentReferences, nil); err == nil {
		t.Error("nil collection")
	}
}

func TestShardKeyAndIndexes(t *testing.T) {
	t.Parallel()
	client := get(mongo.Connect())(t)
	coll := client.Database("x").Collection("x")
	for _, c := range []struct {
		opts tree.Options
		key  bson.D
		want []bson.D
	}{
		{tree.Options{}, dd("_id", 1), []bson.D{dd("path", 1)}},
		{tree.Options{Scope: dd("tenant", 1), OrderField: "o"}, dd("tenant", 1), []bson.D{dd("tenant", 1, "path", 1, "o", 1)}},
		{tree.Options{Scope: dd("tenant", 1), IDField: "sku"}, dd("tenant", 1),
			[]bson.D{dd("tenant", 1, "sku", 1), dd("tenant", 1, "path", 1)}},
	} {
		tr := get(tree.New[string, bson.M](coll, tree.MaterializedPath, &c.opts))(t)
		var keys []bson.D
		for _, m := range tr.Indexes()["x"] {
			keys = append(keys, m.Keys.(bson.D))
		}
		match(t, "", c.want, keys)
		match(t, "", c.key, tr.ShardKey()["x"])
	}
}

// TestScopes has the same IDs in several trees of one collection.
func TestScopes(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range []variant{{rep: tree.ParentReferences}, {rep: tree.ChildReferences}, {rep: tree.AncestorArray}, {rep: tree.NestedSets},
		{rep: tree.MaterializedPath}, {rep: tree.MaterializedPath, opts: tree.Options{SegmentField: "slug"}}} {
		t.Run(v.rep.String()+v.opts.SegmentField, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tenants := []any{"a", "b", bson.D{{Key: "org", Value: "a"}}}
			var all []*trees
			v.opts.IDField = "sku"
			for _, tenant := range tenants {
				v.opts.Scope = bson.D{{Key: "tenant", Value: tenant}}
				tr := v.open(t, coll)
				insertAll(t, v, tr, books)
				all = append(all, tr)
			}
			ok(t, all[0].Move(ctx, "Databases", all[0].AsRoot()))
			get(all[1].Delete(ctx, "Programming", mongopatterns.Cascade))(t)
			for i, want := range []int64{3, 0, 5} {
				if i == 0 {
					want = 2 // Programming, Languages
				}
				if got, err := all[i].CountDescendants(ctx, "Books", 0); err != nil || got != want {
					t.Errorf("tenant %v: %d, %v; want %d", tenants[i], got, err, want)
				}
				healthy(t, all[i])
				roots := v.ids(t, all[i].Roots(ctx))
				wrong(t, len(roots) != []int{2, 1, 1}[i], "tenant %v: roots %v", tenants[i], roots)
			}
			up, err := all[2].Ancestors(ctx, "dbm")
			wrong(t, err != nil || len(up) != 3, "ancestors: %v, %v", up, err)
			if got := v.ids(t, all[2].Siblings(ctx, "dbm")); !slices.Equal(got, []string{"MongoDB"}) {
				t.Errorf("siblings: %v", got)
			}
			if got := v.ids(t, all[0].Siblings(ctx, "Databases")); !slices.Equal(got, []string{"Books"}) {
				t.Errorf("siblings of a root: %v", got)
			}
		})
	}
}

// TestBSONOptions: the tree encodes and decodes as the client does.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type tag struct {
		ID    string   `json:"_id"`
		Words []string `json:"words"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(bsonOptions))
	tr := get(tree.New[string, tag](db.Collection("nodes"), tree.AncestorArray, &tree.Options{BSON: bsonOptions}))(t)
	get(tr.Insert(t.Context(), tag{ID: "a"}, tr.AsRoot()))(t)
	get(tr.Load(t.Context(), func(yield func(tree.Entry[string, tag], error) bool) {
		yield(tree.Entry[string, tag]{Value: tag{ID: "b"}}, nil)
	}, tr.Under("a"), nil))(t)
	want := []bson.D{dd("_id", "a", "words", bson.A{}, "ancestors", bson.A{}, "parent", nil),
		dd("_id", "b", "words", bson.A{}, "ancestors", bson.A{"a"}, "parent", "a")}
	match(t, "", want, stored(t, db.Collection("nodes")))
	if got, err := tr.Parent(t.Context(), "b"); err != nil || got.ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Data from SQL has roots with parent 0: they are roots beside those with null and without a parent, and new roots
// are like them.
func TestRootParent(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		for i, order := range []string{"", "pos"} {
			if order != "" && (rep == tree.ChildReferences || rep == tree.NestedSets) {
				continue
			}
			if rep != tree.ChildReferences && rep != tree.NestedSets && !scale.Turn(int(rep)+1+i, 2) {
				continue // the small run has each representation once
			}
			t.Run(rep.String()+order, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := row()
				opts := tree.Options{RootParent: 0, OrderField: order}
				tr := get(tree.New[int64, bson.M](coll, rep, &opts))(t)
				ok(t, tr.EnsureIndexes(ctx))
				putDocs(t, coll, dd("_id", int64(1), "parent", 0), dd("_id", int64(2), "parent", nil), dd("_id", int64(3)),
					dd("_id", int64(4), "parent", int32(1)), dd("_id", int64(5), "parent", 4.0))
				got, err := tr.Adopt(ctx, nil)
				wrong(t, err != nil || got.Remaining != 0, "%+v, %v", got, err)
				check := func(what string, roots ...int64) {
					t.Helper()
					for p, err := range tr.Check(ctx, nil) {
						t.Errorf("%s: %v, %v", what, p, err)
					}
					matchIDs(t, what, tr.Roots(ctx), roots...)
					n, err := coll.CountDocuments(ctx, get(tr.RootsFilter(ctx))(t))
					wrong(t, err != nil || n != int64(len(roots)), "%s: RootsFilter matches %d, %v", what, n, err)
					for i, id := range roots {
						others := append(append([]int64{}, roots[:i]...), roots[i+1:]...)
						matchIDs(t, what+", siblings", tr.Siblings(ctx, id), others...)
						is(t, errOf(tr.Parent(ctx, id)), tree.ErrIsRoot)
					}
				}
				check("adopted", 1, 2, 3)
				matchIDs(t, "descendants", tr.Descendants(ctx, 1, 0), 4, 5)
				_, err = tr.Insert(ctx, bson.M{"_id": int64(6)}, tr.AsRoot())
				good(t, err)
				good(t, tr.Move(ctx, 5, tr.AsRoot()))
				check("inserted and moved", 1, 2, 3, 5, 6)
				get(tr.Insert(ctx, bson.M{"_id": int64(7)}, tr.Under(4)))(t)
				get(tr.Delete(ctx, 4, mongopatterns.Unlink))(t)
				check("made roots", 1, 2, 3, 5, 6, 7)
				good(t, tr.Move(ctx, 2, tr.Under(1)))
				check("moved away", 1, 3, 5, 6, 7)
				if rep != tree.ChildReferences && rep != tree.MaterializedPath {
					for _, id := range []int64{5, 6, 7} {
						var doc struct{ Parent any }
						ok(t, coll.FindOne(ctx, tr.Filter(id)).Decode(&doc))
						wrong(t, doc.Parent != int32(0), "%d has parent %v", id, doc.Parent)
					}
				}
				n, err := tr.Load(ctx, entriesOf[int64]("_id", &tree.Node[bson.M]{Value: bson.M{"_id": int64(8)}}), tr.AsRoot(), nil)
				wrong(t, err != nil || n.Done != 1, "%+v, %v", n, err)
				check("loaded", 1, 3, 5, 6, 7, 8)
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": int64(0)}, tr.AsRoot())), mongopatterns.ErrInvalid)
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": int64(9)}, tr.Under(0))), mongopatterns.ErrNoParent)
				// It is the ID of no node: sets are empty.
				for _, seq := range []iter.Seq2[bson.M, error]{tr.Children(ctx, 0), tr.Descendants(ctx, 0, 0), tr.Preorder(ctx, 0, 0)} {
					matchIDs(t, "below 0", seq)
				}
				count, err := coll.CountDocuments(ctx, get(tr.ChildrenFilter(ctx, 0))(t))
				wrong(t, count != 0 || err != nil, "ChildrenFilter of 0 matches %d, %v", count, err)
			})
		}
	}
}

// matchIDs compares documents by their IDs, in any order.
func matchIDs(t testing.TB, what string, seq iter.Seq2[bson.M, error], want ...int64) {
	t.Helper()
	got := []int64{}
	for doc, err := range seq {
		ok(t, err)
		got = append(got, doc["_id"].(int64))
	}
	slices.Sort(got)
	match(t, what, append([]int64{}, want...), got)
}

// The lock document is compared by its scope, so its collection must not have a default collation either.
func TestLocksWithACollation(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ok(t, db.CreateCollection(t.Context(), "nodes_locks", options.CreateCollection().SetCollation(&options.Collation{Locale: "de", Strength: 2})))
	tr := get(tree.New[string, bson.M](db.Collection("nodes"), tree.AncestorArray, nil))(t)
	is(t, tr.EnsureIndexes(t.Context()), mongopatterns.ErrInvalid)
	is(t, errOf(tr.Adopt(t.Context(), nil)), mongopatterns.ErrInvalid)
}
