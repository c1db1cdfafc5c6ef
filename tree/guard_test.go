package tree_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// anyTree has IDs and documents of any kind.
type anyTree = tree.Tree[any, bson.M]

func newAny(t testing.TB, coll *mongo.Collection, rep tree.Representation, opts *tree.Options) *anyTree {
	t.Helper()
	tr := get(tree.New[any, bson.M](coll, rep, opts))(t)
	ok(t, tr.EnsureIndexes(t.Context()))
	return tr
}

func plant(t testing.TB, tr *anyTree, doc bson.M, parent any) {
	t.Helper()
	pos := tr.AsRoot()
	if parent != nil {
		pos = tr.Under(parent)
	}
	get(tr.Insert(t.Context(), doc, pos))(t)
}

func allRight(t testing.TB, tr *anyTree) {
	t.Helper()
	for p, err := range tr.Check(t.Context(), nil) {
		t.Errorf("Check: %v %v", p, err)
	}
}

func exists(t testing.TB, coll *mongo.Collection, ids ...any) {
	t.Helper()
	n, err := coll.CountDocuments(t.Context(), dd("_id", dd("$in", bson.A(ids))))
	wrong(t, err != nil || n != int64(len(ids)), "%d of %v are there, %v", n, ids, err)
}

// joined runs fn in a transaction of the caller, who goes on whatever happens.
func joined(t testing.TB, coll *mongo.Collection, fn func(ctx context.Context) error) error {
	t.Helper()
	session := get(coll.Database().Client().StartSession())(t)
	defer session.EndSession(context.Background())
	_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { return nil, fn(ctx) })
	return err
}

// meanwhile runs second while the transaction of first is open. It has to
// conflict, and so comes to its end only by its deadline.
func meanwhile(t testing.TB, coll *mongo.Collection, first, second func(ctx context.Context) error) error {
	t.Helper()
	return joined(t, coll, func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := second(short); err == nil {
			t.Error("no conflict")
		}
		return nil
	})
}

func untouched(t testing.TB, coll *mongo.Collection) {
	t.Helper()
	if n, err := coll.CountDocuments(t.Context(), dd("__touch", dd("$exists", true))); n != 0 || err != nil {
		t.Errorf("%d documents with a mark, %v", n, err)
	}
}

// interrupted loads entries one a batch and stops before the numbering.
func interrupted(t *testing.T, tr *anyTree, parent *any, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := tr.Load(ctx, func(yield func(tree.Entry[any, bson.M], error) bool) {
		for i := range n {
			if !yield(tree.Entry[any, bson.M]{Value: bson.M{"_id": fmt.Sprint("new", i)}}, nil) {
				return
			}
		}
	}, tr.Under(*parent), &mongopatterns.Work{BatchSize: n, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestUnfinishedLoad: nodes that Load has not numbered yet are in no one's
// range, and count as children.
func TestUnfinishedLoad(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.NestedSets, nil)
	plant(t, tr, bson.M{"_id": "r"}, nil)
	plant(t, tr, bson.M{"_id": "a"}, "r")
	plant(t, tr, bson.M{"_id": "b"}, "a")
	plant(t, tr, bson.M{"_id": "c"}, "b")
	plant(t, tr, bson.M{"_id": "leaf"}, nil)
	var leaf any = "leaf"
	interrupted(t, tr, &leaf, 3)
	if n, err := tr.Delete(ctx, "a", tree.Cascade); n != 3 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	exists(t, coll, "r", "leaf", "new0", "new1", "new2")
	is(t, errOf(tr.Delete(ctx, "leaf", tree.Restrict)), tree.ErrHasChildren)
	plant(t, tr, bson.M{"_id": "z"}, nil)
	if n, err := tr.Delete(ctx, "z", tree.Restrict); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n, err := tr.Delete(ctx, "leaf", tree.Promote); n != 1 || err != nil {
		t.Errorf("promote: %d, %v", n, err)
	}
	good(t, errOf(tr.Repair(ctx, nil)))
	allRight(t, tr)
	exists(t, coll, "r", "new0", "new1", "new2")
}

// TestNestedOrphans: no number is given twice, and a range that holds other
// nodes than it should is not deleted.
func TestNestedOrphans(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.NestedSets, nil)
	plant(t, tr, bson.M{"_id": "r"}, nil)
	plant(t, tr, bson.M{"_id": "s"}, nil)
	plant(t, tr, bson.M{"_id": "t"}, "s")
	plant(t, tr, bson.M{"_id": "u"}, "t")
	get(coll.DeleteOne(ctx, dd("_id", "s")))(t)
	plant(t, tr, bson.M{"_id": "v"}, nil)
	plant(t, tr, bson.M{"_id": "w"}, nil)
	good(t, tr.Move(ctx, "r", tr.AsRoot()))
	for _, id := range []string{"v", "r"} {
		if n, err := tr.Delete(ctx, id, tree.Cascade); n != 1 || err != nil {
			t.Errorf("delete of the leaf %s: %d, %v", id, n, err)
		}
	}
	exists(t, coll, "t", "u", "w")
	get(coll.UpdateOne(ctx, dd("_id", "w"), dd("$set", dd("left", 1, "right", 8))))(t)
	if n, err := tr.Delete(ctx, "w", tree.Cascade); err == nil || !strings.Contains(err.Error(), "run Repair") {
		t.Errorf("delete of an overlapping range: %d, %v", n, err)
	}
	exists(t, coll, "t", "u", "w")
}

// TestOneLockForOneScope: scopes that the server holds equal have one lock.
func TestOneLockForOneScope(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	decimal := get(bson.ParseDecimal128("1.00"))(t)
	scopes := []bson.D{}
	for _, n := range []any{int32(1), int64(1), 1.0, decimal} {
		scopes = append(scopes, dd("t", n, "u", dd("a", n)), dd("u", dd("a", n), "t", n))
	}
	for _, scope := range scopes {
		newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: scope})
	}
	newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", "1", "u", dd("a", 1))})
	newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", 1.5, "u", dd("a", 1))})
	locks := coll.Database().Collection("nodes_locks")
	if n, err := locks.CountDocuments(t.Context(), bson.D{}); n != 3 || err != nil {
		t.Errorf("%d locks, %v", n, err)
	}

	one := newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: scopes[0]})
	other := newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", 1.0, "u", dd("a", 1.0))})
	plant(t, one, bson.M{"_id": "A"}, nil)
	plant(t, one, bson.M{"_id": "B"}, nil)
	good(t, meanwhile(t, coll, func(ctx context.Context) error { return one.Move(ctx, "A", one.Under("B")) },
		func(ctx context.Context) error { return other.Move(ctx, "B", other.Under("A")) }))
	is(t, other.Move(t.Context(), "B", other.Under("A")), tree.ErrCycle)
	allRight(t, one)
}

// TestUnusableSegments: nothing is put under, moved with or deleted below a node whose
// path would be another's.
func TestUnusableSegments(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.MaterializedPath, nil)
	putDocs(t, coll, bson.M{"_id": 1.0, "path": nil}, bson.M{"_id": "A,B", "path": nil}, bson.M{"_id": 3, "path": nil})
	before := stored(t, coll)
	for _, bad := range []any{1.0, "A,B"} {
		for _, err := range []error{
			errOf(tr.Insert(ctx, bson.M{"_id": 99}, tr.Under(bad))), tr.Move(ctx, 3, tr.Under(bad)), tr.Move(ctx, bad, tr.Under(3)),
			errOf(tr.Delete(ctx, bad, tree.Restrict)), errOf(tr.Delete(ctx, bad, tree.Cascade)),
			errOf(tr.Delete(ctx, bad, tree.Promote)), errOf(tr.Delete(ctx, bad, tree.MakeRoots)),
			errOf(tr.Load(ctx, entriesOf[any]("_id", node(99)), tr.Under(bad), nil)),
			errOf(tr.ChildrenFilter(ctx, bad)), errOf(tr.DescendantsFilter(ctx, bad, 0)),
		} {
			is(t, err, mongopatterns.ErrInvalid)
		}
	}
	match(t, "refused, yet", before, stored(t, coll))
}

// TestOrderBesideInsert: what gives nodes a position under a parent conflicts
// with an insertion there.
func TestOrderBesideInsert(t *testing.T) {
	for rep, count := range map[tree.Representation]string{tree.ParentReferences: "", tree.AncestorArray: "n", tree.MaterializedPath: ""} {
		{
			for name, call := range map[string]func(ctx context.Context, tr *anyTree) error{
				"move":        func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "X", tr.Under("P")) },
				"move within": func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "K", tr.Under("P")) },
				"promote": func(ctx context.Context, tr *anyTree) error {
					_, err := tr.Delete(ctx, "L", tree.Promote)
					return err
				},
				"load": func(ctx context.Context, tr *anyTree) error {
					_, err := tr.Load(ctx, entriesOf[any]("_id", node("new")), tr.Under("P"), nil)
					return err
				},
			} {
				t.Run(fmt.Sprint(rep, count, name), func(t *testing.T) {
					t.Parallel()
					coll := mongotest.Database(t).Collection("nodes")
					tr := newAny(t, coll, rep, &tree.Options{OrderField: "o", ChildCountField: count})
					for _, n := range [][2]any{{"P", nil}, {"X", nil}, {"K", "P"}, {"L", "P"}, {"L1", "L"}, {"L2", "L"}} {
						plant(t, tr, bson.M{"_id": n[0]}, n[1])
					}
					err := meanwhile(t, coll, func(ctx context.Context) error { return call(ctx, tr) }, func(ctx context.Context) error {
						_, err := tr.Insert(ctx, bson.M{"_id": "Y"}, tr.Under("P"))
						return err
					})
					wrong(t, err != nil, "%v", err)
					plant(t, tr, bson.M{"_id": "Z"}, "P")
					allRight(t, tr)
					untouched(t, coll)
				})
			}
		}
	}
}

// TestUnadopted: an array of ancestors that does not go with the parent is no
// ground for a move or for lifting children.
func TestUnadopted(t *testing.T) {
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
		"promote":    errOf(tr.Delete(ctx, "B", tree.Promote)),
		"make roots": errOf(tr.Delete(ctx, "B", tree.MakeRoots)),
		"cycle":      tr.Move(ctx, "A", tr.Under("C")),
		"move":       tr.Move(ctx, "C", tr.AsRoot()),
	} {
		wrong(t, err == nil || !strings.Contains(err.Error(), "run Adopt or Repair"), "%s: %v", what, err)
	}
	match(t, "", before, stored(t, coll))
	get(tr.Adopt(ctx, nil))(t)
	good(t, errOf(tr.Delete(ctx, "B", tree.Promote)))
	allRight(t, tr)
}

// TestCascadeBelievesArrays: an orphan whose array still names the node goes with it,
// and one that Repair has made a root does not.
func TestCascadeBelievesArrays(t *testing.T) {
	for _, repaired := range []bool{false, true} {
		coll := mongotest.Database(t).Collection("nodes")
		tr := newAny(t, coll, tree.AncestorArray, &tree.Options{MakeRoots: true})
		putDocs(t, coll, dd("_id", "A", "parent", nil, "ancestors", bson.A{}),
			dd("_id", "O", "parent", "gone", "ancestors", bson.A{"A", "gone"}))
		if repaired {
			get(tr.Repair(t.Context(), nil))(t)
		}
		if n := get(tr.Delete(t.Context(), "A", tree.Cascade))(t); (n == 1) != repaired {
			t.Errorf("repaired %v: %d deleted", repaired, n)
		}
	}
}

func TestEmptyID(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, _ *mongo.Collection) {
		ctx := t.Context()
		doc := v.doc("x")
		doc[v.idField()] = ""
		want := v.idField() + ": an empty string"
		if _, err := tr.Insert(ctx, doc, tr.AsRoot()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("insert: %v", err)
		}
		if _, err := tr.Load(ctx, entriesOf[string]("_id", &tree.Node[bson.M]{Value: doc}), tr.AsRoot(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load: %v", err)
		}
		if _, err := tr.Insert(ctx, v.doc("x"), tr.Under("none")); err == nil || !strings.Contains(err.Error(), `no such parent: "none"`) {
			t.Errorf("insert under nothing: %v", err)
		}
	})
}

// TestMajority: what is written outside a transaction, for those that follow to
// see.
func TestMajority(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		got := mongotest.Record(t, coll.Database(), func() {
			good(t, tr.EnsureIndexes(t.Context()))
			insertAll(t, v, tr, books[:1])
		})
		outside := 0
		for _, c := range got.Named("insert", "update") {
			if c.Body.Lookup("autocommit").Type != 0 {
				continue
			}
			outside++
			if w, _ := c.Body.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
				t.Errorf("write to %s: %v", c.Collection, c.Body.Lookup("writeConcern"))
			}
		}
		wrong(t, outside == 0, "%v", "no write outside a transaction")
	})
}

// TestDeleteLargeIDs: no delete command grows over the limit.
func TestDeleteLargeIDs(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, nil)
	plant(t, tr, bson.M{"_id": "root"}, nil)
	if _, err := tr.Load(ctx, func(yield func(tree.Entry[any, bson.M], error) bool) {
		for i := range 10 {
			if !yield(tree.Entry[any, bson.M]{Value: bson.M{"_id": fmt.Sprint(i, strings.Repeat("x", 1<<20))}}, nil) {
				return
			}
		}
	}, tr.Under("root"), &mongopatterns.Work{BatchSize: 5}); err != nil {
		t.Fatal(err)
	}
	got := mongotest.Record(t, coll.Database(), func() {
		if n, err := tr.Delete(ctx, "root", tree.Cascade); n != 11 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	deletes := got.Named("delete")
	for _, c := range deletes {
		wrong(t, len(c.Body) > 9<<20, "a command of %d bytes", len(c.Body))
	}
	wrong(t, len(deletes) != 2, "%d commands", len(deletes))
}

// TestAbsentPositions: the node that a position names is not there.
func TestAbsentPositions(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		for _, id := range []string{"dbm", "Books"} {
			is(t, tr.Move(ctx, id, tr.Under("none")), tree.ErrNoParent)
			is(t, tr.Move(ctx, "none", tr.Under(id)), mongopatterns.ErrNotFound)
		}
		if v.ordered {
			for _, err := range []error{tr.Move(ctx, "dbm", tr.Before("none")),
				errOf(tr.Insert(ctx, v.doc("x"), tr.After("none")))} {
				is(t, err, mongopatterns.ErrNotFound)
				wrong(t, errors.Is(err, tree.ErrNoParent), "%v", err)
			}
		}
		match(t, "", before, stored(t, coll))
	})
}

// TestMalformedPaths: the last segment of a malformed path still counts as the parent for those beside and below.
func TestMalformedPaths(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		call func(tr *anyTree) error
		want bson.D
		id   string
	}{
		"insert before": {func(tr *anyTree) error { return errOf(tr.Insert(ctx, bson.M{"_id": "x"}, tr.Before("B"))) },
			dd("_id", "x", "n", int64(0), "path", ",A,", "o", int64(65536)), "x"},
		"move": {func(tr *anyTree) error { return tr.Move(ctx, "B", tr.Under("A")) },
			dd("_id", "B", "path", ",A,", "n", 1, "o", int64(196608)), "B"},
		"promote": {func(tr *anyTree) error { return errOf(tr.Delete(ctx, "B", tree.Promote)) },
			dd("_id", "A", "path", nil, "n", int64(2), "o", 0), "A"},
	} {
		t.Run(name, func(t *testing.T) {
			coll := mongotest.Database(t).Collection("nodes")
			tr := newAny(t, coll, tree.MaterializedPath, &tree.Options{OrderField: "o", ChildCountField: "n"})
			putDocs(t, coll, dd("_id", "A", "path", nil, "n", 2, "o", 0), dd("_id", "B", "path", "A", "n", 1, "o", 131072),
				dd("_id", "C", "path", ",A,", "n", 0, "o", 131072), dd("_id", "D", "path", "AB,", "n", 0, "o", 5))
			ok(t, c.call(tr))
			var got bson.D
			ok(t, coll.FindOne(ctx, dd("_id", c.id)).Decode(&got))
			match(t, "", toD(t, c.want), got)
		})
	}
}

// TestDumpBesideMove: a node that moves while Dump runs takes what is below it along.
func TestDumpBesideMove(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", ""}, {"X", "A"}, {"C", "B"}, {"Y", "X"}, {"Z", "Y"}})
		came := map[string]bool{}
		for e, err := range tr.Dump(t.Context()) {
			ok(t, err)
			came[e.Value[v.idField()].(string)] = true
			if len(came) == 3 { // one of X and C, which were read together
				ok(t, tr.Move(t.Context(), "X", tr.Under("C")))
			}
		}
		wrong(t, len(came) != 6, "%v", came)
	})
}

// TestMovePathsOfMixedIDs: IDs of several types in a tree are not supported, but Move makes no cycle of them.
func TestMovePathsOfMixedIDs(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.MaterializedPath, &tree.Options{ChildCountField: "n"})
	plant(t, tr, bson.M{"_id": 5}, nil)
	plant(t, tr, bson.M{"_id": "a"}, 5)
	is(t, tr.Move(ctx, 5, tr.Under("a")), tree.ErrCycle)
	plant(t, tr, bson.M{"_id": 6}, nil)
	plant(t, tr, bson.M{"_id": "b"}, nil)
	ok(t, tr.Move(ctx, "b", tr.Under(6)))
	n := get(coll.CountDocuments(ctx, dd("_id", 6, "n", 1)))(t)
	wrong(t, n != 1, "the new parent does not count the child")
}

// TestNoBSONInside: a document that is no BSON is refused, and not stored without its fields.
func TestNoBSONInside(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, nil)
	id, err := tr.Insert(t.Context(), bson.M{"_id": "x", "v": bson.RawValue{Type: bson.TypeInt32}}, tr.AsRoot())
	is(t, err, mongopatterns.ErrInvalid)
	wrong(t, len(stored(t, coll)) > 0, "stored as %v", id)
}

// TestMoveReadsNoGrandparent: it may have a million children.
func TestMoveReadsNoGrandparent(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.ChildReferences, tree.Options{})
	tr := v.open(t, coll)
	insertAll(t, v, tr, books)
	got := mongotest.Record(t, coll.Database(), func() { ok(t, tr.Move(t.Context(), "dbm", tr.Under("Languages"))) })
	read := get(got.Named("find")[0].Reply.Lookup("cursor", "firstBatch").Array().Values())(t)
	wrong(t, len(read) != 3, "not the node, its parent and the new one: %v", read)
}

// TestDocumentWithoutID: the error says what is missing, and Load does not store what the tree cannot read.
func TestDocumentWithoutID(t *testing.T) {
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

// The lock document holds the scope beside its counter: a field "n" of a scope is not the counter, and a lock that an
// earlier version made without the scope is taken over.
func TestLockHoldsScope(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	for i, scope := range []bson.D{dd("n", "acme"), dd("n", 5, "x", "y")} {
		for _, ensure := range []bool{true, false} {
			coll := db.Collection(fmt.Sprint("nodes", i, ensure))
			tr := get(tree.New[string, bson.M](coll, tree.AncestorArray, &tree.Options{Scope: scope}))(t)
			if ensure {
				ok(t, tr.EnsureIndexes(ctx))
			}
			get(tr.Insert(ctx, bson.M{"_id": "a"}, tr.AsRoot()))(t)
			get(tr.Insert(ctx, bson.M{"_id": "b"}, tr.Under("a")))(t)
			good(t, tr.Move(ctx, "b", tr.AsRoot()))
			good(t, tr.Move(ctx, "b", tr.Under("a")))
			locks := db.Collection(coll.Name() + "_locks")
			var lock bson.D
			ok(t, locks.FindOne(ctx, scope).Decode(&lock))
			get(locks.DeleteMany(ctx, bson.D{}))(t)
			putDocs(t, locks, dd("_id", lock[0].Value, "n", 4))
			ok(t, tr.EnsureIndexes(ctx))
			good(t, tr.Move(ctx, "b", tr.AsRoot()))
		}
	}
	_, err := tree.New[string, bson.M](db.Collection("nodes"), tree.AncestorArray, &tree.Options{Scope: dd("__locked", 1)})
	is(t, err, mongopatterns.ErrInvalid)
}
