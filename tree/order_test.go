package tree_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Siblings without an order, or with one that is no number, do not give two nodes the same.
func TestOrderBesideForeign(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("n")
	nodes := opened(t, coll, tree.AncestorArray, &tree.Options{OrderField: "o"})
	insert := func(id string, at tree.Position[string]) {
		t.Helper()
		if _, err := nodes.Insert(ctx, bson.M{"_id": id}, at); err != nil {
			t.Fatal(err)
		}
	}
	foreign := func(id string, more ...bson.E) {
		t.Helper()
		doc := append(bson.D{{Key: "_id", Value: id}, {Key: "parent", Value: "R"}, {Key: "ancestors", Value: bson.A{"R"}}}, more...)
		if _, err := coll.InsertOne(ctx, doc); err != nil {
			t.Fatal(err)
		}
	}
	insert("R", nodes.AsRoot())
	insert("a", nodes.Under("R"))
	insert("b", nodes.Under("R").First())
	foreign("c")
	insert("d", nodes.Under("R").First())
	foreign("e", bson.E{Key: "o", Value: "x"})
	insert("f", nodes.Under("R"))
	insert("g", nodes.Under("R"))
	var found []struct {
		ID string `bson:"_id"`
		O  int64
	}
	cursor, err := coll.Find(ctx, bson.M{"o": bson.M{"$type": "number"}, "parent": "R"})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	seen := map[int64]string{}
	for _, n := range found {
		if other := seen[n.O]; other != "" {
			t.Errorf("%s and %s have %d", other, n.ID, n.O)
		}
		seen[n.O] = n.ID
	}
	if err != nil || len(found) != 5 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestOrderBesideInsert: what gives nodes a position under a parent conflicts
// with an insertion there.
func TestOrderBesideInsert(t *testing.T) {
	t.Parallel()
	for rep, count := range map[tree.Representation]string{tree.ParentReferences: "", tree.AncestorArray: "n", tree.MaterializedPath: ""} {
		{
			for name, call := range map[string]func(ctx context.Context, tr *anyTree) error{
				"move":        func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "X", tr.Under("P")) },
				"move within": func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "K", tr.Under("P")) },
				"promote": func(ctx context.Context, tr *anyTree) error {
					_, err := tr.Delete(ctx, "L", mongopatterns.Promote)
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
