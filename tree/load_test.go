package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		nodes := forest(60)
		insertAll(t, v, tr, [][2]string{{"old", ""}, {"older", "old"}})
		// It is cut off after two batches, and goes on.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var progress []int64
		got, err := tr.Load(ctx, v.entries(nodes), tr.AsRoot(), &mongopatterns.Work{BatchSize: 16, Progress: func(r mongopatterns.Result) {
			progress = append(progress, r.Examined)
			if r.Examined == 32 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || got.Done != 32 {
			t.Fatalf("%+v, %v", got, err)
		}
		got, err = tr.Load(t.Context(), v.entries(nodes), tr.AsRoot(), &mongopatterns.Work{BatchSize: 16, Progress: func(r mongopatterns.Result) {
			progress = append(progress, r.Examined)
		}})
		if err != nil || got.Done != 28 || got.Skipped != 32 {
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
		other := copied.open(t, coll.Database().Collection(coll.Name()+"_copy"))
		if n, err := other.Load(t.Context(), tr.Dump(t.Context()), other.AsRoot(), nil); err != nil || n.Done != 62 {
			t.Fatalf("%+v, %v", n, err)
		}
		healthy(t, other)
		copied.compare(t, other, modelOf(append([][2]string{{"old", ""}, {"older", "old"}}, nodes...)))
		sub := get(tr.Subtree(t.Context(), "n1", 0))(t)
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
		n, err := tr.Load(t.Context(), entriesOf[string](v.idField(), sub), tr.Under("older"), nil)
		if err != nil || n.Done != size {
			t.Fatalf("%+v, %v", n, err)
		}
		healthy(t, tr)
		if d, err := tr.Ancestors(t.Context(), "copy-n1"); err != nil || len(d) != 2 {
			t.Errorf("%v, %v", d, err)
		}

		is(t, errOf(tr.Load(t.Context(), v.entries([][2]string{{"x"}}), tr.Under("none"), nil)), mongopatterns.ErrNoParent)
		boom := errors.New("boom")
		if _, err := tr.Load(t.Context(), func(yield func(tree.Entry[string, bson.M], error) bool) {
			yield(tree.Entry[string, bson.M]{}, boom)
		}, tr.AsRoot(), nil); !errors.Is(err, boom) {
			t.Errorf("error of the entries: %v", err)
		}
	})
}

// With Work.Strict a node that the server refuses ends Load.
func TestLoadStrict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("n")
	nodes := opened(t, coll, tree.AncestorArray, nil)
	refuse := bson.D{{Key: "collMod", Value: "n"}, {Key: "validator", Value: bson.M{"_id": bson.M{"$ne": "b"}}}}
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), refuse).Err(); err != nil {
		t.Fatal(err)
	}
	entries := func(yield func(tree.Entry[string, bson.M], error) bool) {
		for _, id := range []string{"a", "b", "c"} {
			if !yield(tree.Entry[string, bson.M]{Value: bson.M{"_id": id}}, nil) {
				return
			}
		}
	}
	if result, err := nodes.Load(t.Context(), entries, nodes.AsRoot(), &mongopatterns.Work{Strict: true}); err == nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err := nodes.Load(t.Context(), entries, nodes.AsRoot(), nil); err == nil || !strings.Contains(err.Error(), "1 of 3 not stored") || result.Done != 2 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// What is derived for a node grows with its depth: a chain of 900 in one transaction would be 400,000 elements and
// as many keys of the index. Load bounds both by their bytes, which long IDs make many, and all nodes arrive, also those beside each other at the end.
func TestLoadOfLongChain(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, append(variants()[:5:5], variants()[7:9]...)) {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			coll := row()
			tr := v.open(t, coll)
			const depth, wide = 40, 40
			long := strings.Repeat("x", 950)
			id := func(i int) string { return fmt.Sprintf("%s-%04d", long, i) }
			entries := func(yield func(tree.Entry[string, bson.M], error) bool) {
				for i := range depth + wide {
					e := tree.Entry[string, bson.M]{Value: v.doc(id(i))}
					if i > 0 {
						parent := id(min(i, depth) - 1)
						e.Parent = &parent
					}
					if !yield(e, nil) {
						return
					}
				}
			}
			var got mongopatterns.Result
			commands := mongotest.Record(t, coll.Database(), func() {
				got = get(tr.Load(ctx, entries, tr.AsRoot(), nil))(t)
			})
			wrong(t, got.Done != depth+wide || got.Skipped != 0, "%+v", got)
			inserts := commands.Named("insert")
			for _, c := range inserts {
				derived := 0
				for _, doc := range get(c.Body.Lookup("documents").Array().Values())(t) {
					for _, f := range []string{"ancestors", "ancestor_categories", "path", "way"} {
						derived += len(doc.Document().Lookup(f).Value)
					}
				}
				wrong(t, derived > 1<<20, "%d bytes are derived in one insert", derived)
			}
			parts := v.rep == tree.AncestorArray || v.rep == tree.MaterializedPath
			wrong(t, parts != (len(inserts) > 1), "%d inserts", len(inserts))
			n := get(tr.CountDescendants(ctx, id(depth-1), 1))(t)
			wrong(t, n != wide, "%d children at the end", n)
			again := get(tr.Load(ctx, entries, tr.AsRoot(), nil))(t)
			wrong(t, again.Done != 0 || again.Skipped != depth+wide, "again: %+v", again)
			healthy(t, tr)
		})
	}
}

// TestUnfinishedLoad: nodes that Load has not numbered yet are in no one's
// range, and count as children.
func TestUnfinishedLoad(t *testing.T) {
	t.Parallel()
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
	if n, err := tr.Delete(ctx, "a", mongopatterns.Cascade); n != 3 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	exists(t, coll, "r", "leaf", "new0", "new1", "new2")
	is(t, errOf(tr.Delete(ctx, "leaf", mongopatterns.Restrict)), mongopatterns.ErrReferenced)
	plant(t, tr, bson.M{"_id": "z"}, nil)
	if n, err := tr.Delete(ctx, "z", mongopatterns.Restrict); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n, err := tr.Delete(ctx, "leaf", mongopatterns.Promote); n != 1 || err != nil {
		t.Errorf("promote: %d, %v", n, err)
	}
	good(t, errOf(tr.Repair(ctx, nil)))
	allRight(t, tr)
	exists(t, coll, "r", "new0", "new1", "new2")
}

// Dump ends on a cycle, and yields each node once.
func TestDumpEnds(t *testing.T) {
	t.Parallel()
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
	match(t, "", []string{"R", "A", "B", "C"}, got)
}

// Each batch of a walk is one reply.
func TestDumpOfManyInALevel(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, db.Collection("nodes"))
	var many [][2]string
	for i := range 300 {
		many = append(many, [2]string{string(rune('a'+i%26)) + strings.Repeat("x", i/26), ""})
	}
	get(tr.Load(ctx, v.entries(many), tr.AsRoot(), nil))(t)
	c := mongotest.Record(t, db, func() {
		good(t, drain(tr.Dump(ctx)))
	})
	if got := c.RoundTrips(); got != 2 {
		t.Errorf("%d: %v", got, c.Names())
	}
}

// TestDumpBesideMove: a node that moves while Dump runs takes what is below it along.
func TestDumpBesideMove(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
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
