package tree_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TestStaleCopies saves a document that was read before a move: the driver's
// update of a field and an insert of the copy leave the tree right.
func TestStaleCopies(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
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
		if d, err := tr.Ancestors(ctx, "copy"); err != nil || len(d) != 5 {
			t.Errorf("ancestors %v, %v", d, err)
		}
	})
}

// TestDocumentWithoutID: the error says what is missing, and Load does not store what the tree cannot read.
func TestDocumentWithoutID(t *testing.T) {
	t.Parallel()
	type plain struct{ Name string }
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := get(tree.New[string, plain](coll, tree.AncestorArray, nil))(t)
	ok(t, tr.EnsureIndexes(ctx))
	entries := func(yield func(tree.Entry[string, plain], error) bool) { yield(tree.Entry[string, plain]{}, nil) }
	for _, err := range []error{errOf(tr.Insert(ctx, plain{"a"}, tr.AsRoot())), errOf(tr.Load(ctx, entries, tr.AsRoot(), nil))} {
		is(t, err, mongopatterns.ErrInvalid)
		if !strings.Contains(fmt.Sprint(err), "the document has no _id") || strings.Contains(fmt.Sprint(err), "HexString") {
			t.Error(err)
		}
	}
	match(t, "refused, yet", 0, len(stored(t, coll)))
}

// TestNoBSONInside: a document that is no BSON is refused, and not stored without its fields.
func TestNoBSONInside(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, nil)
	id, err := tr.Insert(t.Context(), bson.M{"_id": "x", "v": bson.RawValue{Type: bson.TypeInt32}}, tr.AsRoot())
	is(t, err, mongopatterns.ErrInvalid)
	wrong(t, len(stored(t, coll)) > 0, "stored as %v", id)
}

// TestFindOrInsert follows a path, from several callers at once.
func TestFindOrInsert(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		v.opts.NameField = "title"
		tr = v.open(t, coll)
		made := func(name string) (bson.M, error) {
			doc := v.doc(bson.NewObjectID().Hex())
			doc["title"] = name
			return doc, nil
		}
		ids := make([]string, 4)
		var group sync.WaitGroup
		for i := range ids {
			group.Go(func() {
				var err error
				if ids[i], err = tr.FindOrInsert(ctx, []string{"a", "b", "a"}, made); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n, err := coll.CountDocuments(ctx, bson.D{}); n != 3 || err != nil || len(slices.Compact(ids)) != 1 {
			t.Fatalf("%d nodes, %v, %v", n, err, ids)
		}
		crumbs, err := tr.Breadcrumb(ctx, ids[0])
		wrong(t, err != nil || len(crumbs) != 3 || crumbs[1].Name != "b", "%v, %v", crumbs, err)
		got := costs.Unfenced(mongotest.Record(t, coll.Database(), func() {
			if id, err := tr.FindOrInsert(ctx, []string{"a", "b"}, nil); err != nil || id != crumbs[1].ID {
				t.Errorf("%s, %v", id, err)
			}
		}))
		wrong(t, got.RoundTrips() != 2, "%v", got.Names())
		if v.rep == tree.ChildReferences { // sharded collections refuse joins in a transaction
			var id string
			got = costs.Unfenced(mongotest.Record(t, coll.Database(), func() { id, err = tr.FindOrInsert(ctx, []string{"a", "e"}, made) }))
			names := strings.Join(got.Names(), " ")
			wrong(t, !strings.Contains(names, "findAndModify find find find ") || strings.Count(names, "aggregate") != 1 || err != nil, "%v, %v", names, err)
			_, err = tr.Delete(ctx, id, mongopatterns.Cascade)
			wrong(t, err != nil, "%v", err)
		}
		boom := errors.New("boom")
		if _, err := tr.FindOrInsert(ctx, []string{"a", "c", "d"}, func(name string) (bson.M, error) {
			if name == "d" {
				return nil, boom
			}
			return made(name)
		}); !errors.Is(err, boom) {
			t.Error(err)
		}
		if n, err := coll.CountDocuments(ctx, bson.D{}); n != 3 || err != nil {
			t.Errorf("%d nodes, %v", n, err)
		}
		healthy(t, tr)
	})
}

// TestInsertAboveAnOrphan: a missing node is not inserted below an orphan that lies below it. Parent references and nested
// sets show that only where the orphan names the node itself; deeper down Check reports the cycle.
func TestInsertAboveAnOrphan(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		for _, parent := range []any{"child", "grandchild"} {
			t.Run(fmt.Sprint(rep, parent), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				coll := row()
				tr := newAny(t, coll, rep, nil)
				plant(t, tr, bson.M{"_id": "lost"}, nil)
				plant(t, tr, bson.M{"_id": "child"}, "lost")
				plant(t, tr, bson.M{"_id": "grandchild"}, "child")
				get(coll.DeleteOne(ctx, dd("_id", "lost")))(t)
				if parent == "grandchild" && (rep == tree.ParentReferences || rep == tree.NestedSets) {
					plant(t, tr, bson.M{"_id": "lost"}, parent)
					found := strings.Join(testkit.Found(t, tr.Check(ctx, nil)), "\n")
					wrong(t, strings.Count(found, string(tree.Cycle)) != 3, "Check: %s", found)
					return
				}
				before := stored(t, coll)
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": "lost"}, tr.Under(parent))), tree.ErrCycle)
				between := &tree.Node[bson.M]{Value: bson.M{"_id": "new"}, Children: []*tree.Node[bson.M]{node("lost")}}
				is(t, errOf(tr.Load(ctx, entriesOf[any]("_id", between), tr.Under(parent), nil)), tree.ErrCycle)
				match(t, "after an error", before, stored(t, coll))
				plant(t, tr, bson.M{"_id": "lost"}, nil)
				get(tr.Repair(ctx, nil))(t) // the numbers of nested sets
				allRight(t, tr)
			})
		}
	}
}
