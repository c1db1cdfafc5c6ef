package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestNewRefuses(t *testing.T) {
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

func TestWriteErrors(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		fails := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || !strings.HasPrefix(fmt.Sprint(err), "tree: ") {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		insert := func(id string, pos tree.Position[string]) error {
			_, err := tr.Insert(ctx, v.doc(id), pos)
			return err
		}
		fails("insert under nothing", insert("x", tr.Under("none")), tree.ErrNoParent)
		fails("the same", insert("x", tr.Under("none")), mongo.ErrNoDocuments)
		if err := insert("dbm", tr.Under("Books")); !mongo.IsDuplicateKeyError(err) {
			t.Errorf("insert twice: %v", err)
		}
		if err := insert("dbm", tr.AsRoot()); !mongo.IsDuplicateKeyError(err) {
			t.Errorf("insert twice: %v", err)
		}
		fails("move nothing", tr.Move(ctx, "none", tr.AsRoot()), mongopatterns.ErrNotFound)
		fails("move under nothing", tr.Move(ctx, "dbm", tr.Under("none")), tree.ErrNoParent)
		fails("move under itself", tr.Move(ctx, "Books", tr.Under("Books")), tree.ErrCycle)
		fails("move under its child", tr.Move(ctx, "Books", tr.Under("Programming")), tree.ErrCycle)
		fails("move under its descendant", tr.Move(ctx, "Books", tr.Under("dbm")), tree.ErrCycle)
		_, err := tr.Delete(ctx, "none", tree.Cascade)
		fails("delete nothing", err, mongopatterns.ErrNotFound)
		_, err = tr.Delete(ctx, "Books", tree.Restrict)
		fails("delete a parent", err, tree.ErrHasChildren)
		if _, err := tr.Delete(ctx, "Books", 9); err == nil {
			t.Error("unknown policy")
		}
		for what, pos := range map[string]tree.Position[string]{"before": tr.Before("dbm"), "after": tr.After("dbm"), "first": tr.Under("Books").First()} {
			if v.ordered {
				continue
			}
			fails(what+" insert", insert("x", pos), mongopatterns.ErrInvalid)
			fails(what+" move", tr.Move(ctx, "MongoDB", pos), mongopatterns.ErrInvalid)
		}
		if v.ordered {
			fails("before nothing", insert("x", tr.Before("none")), mongopatterns.ErrNotFound)
			fails("before its child", tr.Move(ctx, "Books", tr.Before("dbm")), tree.ErrCycle)
			fails("after its child", tr.Move(ctx, "Books", tr.After("Programming")), tree.ErrCycle)
			if err := tr.Move(ctx, "dbm", tr.After("dbm")); err != nil {
				t.Errorf("move after itself: %v", err)
			}
		}
		if v.rep == tree.ChildReferences {
			fails("roots in order", insert("x", tr.AsRoot().First()), mongopatterns.ErrInvalid)
			fails("roots in order", insert("x", tr.Before("Books")), mongopatterns.ErrInvalid)
			fails("link in a tree", tr.Link(ctx, "Books", "dbm"), mongopatterns.ErrInvalid)
			fails("unlink in a tree", tr.Unlink(ctx, "Databases", "dbm"), mongopatterns.ErrInvalid)
		}
		match(t, "refused writes changed documents", before, stored(t, coll))
	})
}

// TestJoin runs every write in a transaction of the caller: aborted it leaves
// nothing, committed everything.
func TestJoin(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		work := func(ctx context.Context) error {
			if _, err := tr.Insert(ctx, v.doc("new"), tr.Under("Languages")); err != nil {
				return err
			}
			if _, err := tr.Insert(ctx, v.doc("root"), tr.AsRoot()); err != nil {
				return err
			}
			if err := tr.Move(ctx, "Databases", tr.Under("new")); err != nil {
				return err
			}
			if _, err := tr.Delete(ctx, "Languages", tree.Promote); err != nil {
				return err
			}
			up, err := tr.Ancestors(ctx, "dbm")
			if err != nil || len(up) != 4 {
				return fmt.Errorf("ancestors inside: %v, %w", up, err)
			}
			_, err = tr.Load(ctx, v.entries([][2]string{{"l1"}, {"l2", "l1"}}), tr.AsRoot(), nil)
			return err
		}
		session := get(coll.Database().Client().StartSession())(t)
		defer session.EndSession(context.Background())
		ctx := mongo.NewSessionContext(t.Context(), session)
		ok(t, session.StartTransaction())
		ok(t, work(ctx))
		ok(t, session.AbortTransaction(ctx))
		match(t, "aborted, but", before, stored(t, coll))
		get(session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { return nil, work(ctx) }))(t)
		healthy(t, tr)
		up, err := tr.Ancestors(t.Context(), "dbm")
		wrong(t, err != nil || len(up) != 4, "committed: %v, %v", up, err)
	})
}

// TestScopes has the same IDs in several trees of one collection.
func TestScopes(t *testing.T) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tenants := []any{"a", "b", bson.D{{Key: "org", Value: "a"}}}
			var all []*trees
			v := variant{rep: rep, opts: tree.Options{IDField: "sku"}}
			for _, tenant := range tenants {
				v.opts.Scope = bson.D{{Key: "tenant", Value: tenant}}
				tr := v.open(t, coll)
				insertAll(t, v, tr, books)
				all = append(all, tr)
			}
			ok(t, all[0].Move(ctx, "Databases", all[0].AsRoot()))
			get(all[1].Delete(ctx, "Programming", tree.Cascade))(t)
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
		})
	}
}

// TestStaleCopies saves a document that was read before a move: the driver's
// update of a field and an insert of the copy leave the tree right.
func TestStaleCopies(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		var stale bson.M
		ok(t, coll.FindOne(ctx, tr.Filter("Databases")).Decode(&stale))
		ok(t, tr.Move(ctx, "Databases", tr.Under("Languages")))
		get(coll.UpdateOne(ctx, tr.Filter("Databases"), dd("$set", dd("title", "x"))))(t)
		stale[v.idField()] = "copy"
		stale["slug"] = "copy"
		if v.idField() != "_id" {
			delete(stale, "_id")
		}
		get(tr.Insert(ctx, stale, tr.Under("dbm")))(t)
		healthy(t, tr)
		if d, err := tr.Depth(ctx, "copy"); err != nil || d != 5 {
			t.Errorf("depth %d, %v", d, err)
		}
	})
}

// TestIDTypes has IDs of other types than strings.
func TestIDTypes(t *testing.T) {
	a, b, c := bson.NewObjectID(), bson.NewObjectID(), bson.NewObjectID()
	t.Run("ObjectID", func(t *testing.T) { idType(t, a, b, c, false) })
	t.Run("dollar", func(t *testing.T) { idType(t, "$name", "$$ROOT", "$_id", false) })
	t.Run("int", func(t *testing.T) { idType(t, 1, 2, 1<<40, false) })
	t.Run("int64", func(t *testing.T) { idType(t, int64(1), -2, 3, false) })
	t.Run("UUID", func(t *testing.T) {
		id := func(n byte) bson.Binary { return bson.Binary{Subtype: 4, Data: append(make([]byte, 15), n)} }
		idType(t, id(1), id(2), id(3), true)
	})
	type compound struct{ Region, Code string }
	t.Run("document", func(t *testing.T) {
		idType(t, compound{"eu", "1"}, compound{"eu", "2"}, compound{"$where", "1"}, true)
	})
}

func idType[K any](t *testing.T, a, b, c K, noSegment bool) {
	for rep := tree.ParentReferences; rep <= tree.NestedSets; rep++ {
		t.Run(rep.String(), func(t *testing.T) {
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			tr := get(tree.New[K, bson.M](coll, rep, nil))(t)
			_, err := tr.Insert(ctx, bson.M{"_id": a}, tr.AsRoot())
			if rep == tree.MaterializedPath && noSegment {
				is(t, err, mongopatterns.ErrInvalid)
				return
			}
			ok(t, err)
			for _, p := range [][2]K{{b, a}, {c, b}} {
				id, err := tr.Insert(ctx, bson.M{"_id": p[0]}, tr.Under(p[1]))
				if err != nil || !cmp.Equal(id, p[0]) {
					t.Fatal(id, err)
				}
			}
			for _, pos := range []tree.Position[K]{tr.AsRoot(), tr.Under(a)} { // with c below
				ok(t, tr.Move(ctx, b, pos))
			}
			crumbs, err := tr.Breadcrumb(ctx, c)
			if err != nil || len(crumbs) != 3 || !cmp.Equal([]K{crumbs[0].ID, crumbs[1].ID, crumbs[2].ID}, []K{a, b, c}) {
				t.Errorf("%v, %v", crumbs, err)
			}
			ok(t, tr.Move(ctx, c, tr.Under(a)))
			ok(t, tr.Move(ctx, b, tr.Under(c)))
			is(t, tr.Move(ctx, a, tr.Under(b)), tree.ErrCycle)
			if d, err := tr.Depth(ctx, b); err != nil || d != 2 {
				t.Errorf("%d, %v", d, err)
			}
			for p, err := range tr.Check(ctx, nil) {
				t.Errorf("%v %v", p, err)
			}
		})
	}
}

func TestInvalidIDs(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := get(tree.New[any, bson.M](coll, tree.ParentReferences, nil))(t)
	get(tr.Insert(ctx, bson.M{"_id": "root"}, tr.AsRoot()))(t)
	for _, id := range []any{nil, bson.A{1}, bson.Regex{Pattern: "."}, make(chan int)} {
		if _, err := tr.Insert(ctx, bson.M{"_id": "x"}, tr.Under(id)); err == nil {
			t.Errorf("insert under %v", id)
		}
		if _, err := tr.Insert(ctx, bson.M{"_id": id}, tr.AsRoot()); err == nil {
			t.Errorf("insert %v", id)
		}
		if err := tr.Move(ctx, id, tr.AsRoot()); err == nil {
			t.Errorf("move %v", id)
		}
		if _, err := tr.Delete(ctx, id, tree.Cascade); err == nil {
			t.Errorf("delete %v", id)
		}
		n := 0
		for _, err := range tr.Children(ctx, id) {
			wrong(t, err == nil, "children of %v", id)
			n++
		}
		wrong(t, n != 1, "children of %v: %d results", id, n)
		if _, err := tr.ChildrenFilter(ctx, id); err == nil {
			t.Errorf("filter of %v", id)
		}
		if _, ok := id.(chan int); ok {
			continue
		}
		cur := get(coll.Aggregate(ctx, tr.ChildrenPipeline(id)))(t)
		wrong(t, cur.Next(ctx), "pipeline of %v finds %v", id, cur.Current)
	}
	// Operators are no ID.
	evil := bson.D{{Key: "$gt", Value: ""}}
	is(t, errOf(tr.Ancestors(ctx, evil)), mongopatterns.ErrInvalid)
	id, err := tr.Insert(ctx, bson.M{"name": "no id"}, tr.Under("root"))
	if _, ok := id.(bson.ObjectID); err != nil || !ok {
		t.Errorf("%v, %v", id, err)
	}
}

// TestSegments: IDs that no path can hold.
func TestSegments(t *testing.T) {
	coll := mongotest.Database(t).Collection("pages")
	tr := newAny(t, coll, tree.MaterializedPath, &tree.Options{PathDelimiter: "/"})
	for _, bad := range []any{"", "a/b", 1.5, dd("a", 1)} {
		is(t, errOf(tr.Insert(t.Context(), bson.M{"_id": bad}, tr.AsRoot())), mongopatterns.ErrInvalid)
	}
	plant(t, tr, bson.M{"_id": "größer"}, nil) // bytes, not characters
	plant(t, tr, bson.M{"_id": "$x"}, "größer")
	plant(t, tr, bson.M{"_id": "y"}, "$x")
	ok(t, tr.Move(t.Context(), "$x", tr.AsRoot()))
	match(t, "moved", dd("_id", "y", "path", "/$x/"), stored(t, coll)[2])
	allRight(t, tr)
}

// TestIteratorsStop leaves iterators early and cancels them.
func TestIteratorsStop(t *testing.T) {
	v := variants()[2]
	tr := v.open(t, mongotest.Database(t).Collection("nodes"))
	insertAll(t, v, tr, books)
	var more [][2]string // than a first reply has
	for i := range 200 {
		more = append(more, [2]string{fmt.Sprint(i)})
	}
	get(tr.Load(t.Context(), v.entries(more), tr.Under("Books"), nil))(t)
	for range tr.Descendants(t.Context(), "Books", 0) {
		break
	}
	for range tr.Dump(t.Context()) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range tr.Descendants(ctx, "Books", 0) {
		cancel()
		last = err
		n++
	}
	wrong(t, !errors.Is(last, context.Canceled) || n > 102, "%d results, %v", n, last)
	is(t, errOf(tr.Subtree(ctx, "Books", 0)), context.Canceled)
}
