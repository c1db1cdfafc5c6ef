package tree_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func opened(t *testing.T, coll *mongo.Collection, rep tree.Representation, opts *tree.Options) *tree.Tree[string, bson.M] {
	t.Helper()
	nodes, err := tree.New[string, bson.M](coll, rep, opts)
	if err == nil {
		err = nodes.EnsureIndexes(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// NestedSets: a dry Repair counts what a real one writes, and no node comes beside an orphan.
func TestNestedSetsBeside(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("n")
	sets := opened(t, coll, tree.NestedSets, nil)
	if _, err := sets.Insert(ctx, bson.M{"_id": "A"}, sets.AsRoot()); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Insert(ctx, bson.M{"_id": "B"}, sets.Under("A")); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.UpdateMany(ctx, bson.M{}, bson.M{"$inc": bson.M{"right": 5}}); err != nil {
		t.Fatal(err)
	}
	dry, err := sets.Repair(ctx, &mongopatterns.Work{DryRun: true})
	real, err2 := sets.Repair(ctx, nil)
	if err := errors.Join(err, err2); err != nil || dry.Done != real.Done || real.Done == 0 {
		t.Errorf("%+v, %+v, %v", dry, real, err)
	}
	if _, err := coll.InsertOne(ctx, bson.M{"_id": "O", "parent": "nope"}); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Repair(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Insert(ctx, bson.M{"_id": "P"}, sets.Before("O")); !errors.Is(err, tree.ErrNoParent) {
		t.Error(err)
	}
	if err := sets.Move(ctx, "B", sets.After("O")); !errors.Is(err, tree.ErrNoParent) {
		t.Error(err)
	}
}

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

// NestedSets: beside a sibling that is no root its parent is looked up, which is 1 round trip more.
func TestNestedSetsBesideCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("n")
	sets := opened(t, coll, tree.NestedSets, nil)
	for id, under := range map[string]string{"A": "", "R": ""} {
		if _, err := sets.Insert(ctx, bson.M{"_id": id}, sets.AsRoot()); err != nil {
			t.Fatal(under, err)
		}
	}
	insert := func(id string, at tree.Position[string]) func() error {
		return func() error { _, err := sets.Insert(ctx, bson.M{"_id": id}, at); return err }
	}
	move := func(id string, at tree.Position[string]) func() error {
		return func() error { return sets.Move(ctx, id, at) }
	}
	for _, step := range []struct {
		name string
		call func() error
		want int
	}{
		{"under", insert("B", sets.Under("A")), 5},
		{"before", insert("C", sets.Before("B")), 6},
		{"before a root", insert("D", sets.Before("A")), 5},
		{"move under", move("C", sets.Under("R")), 4},
		{"move after", move("D", sets.After("B")), 5},
		{"move after a root", move("D", sets.After("A")), 4},
	} {
		var err error
		sent := mongotest.Record(t, coll.Database(), func() { err = step.call() })
		if err != nil || sent.RoundTrips() != step.want {
			t.Errorf("%s: %d round trips (%v), want %d, %v", step.name, sent.RoundTrips(), sent.Names(), step.want, err)
		}
	}
}

// With Work.Strict a node that the server refuses ends Load.
func TestLoadStrict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("n")
	nodes := opened(t, coll, tree.AncestorArray, nil)
	refuse := bson.D{{Key: "collMod", Value: "n"}, {Key: "validator", Value: bson.M{"_id": bson.M{"$ne": "b"}}}}
	if err := db.RunCommand(t.Context(), refuse).Err(); err != nil {
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
	if result, err := nodes.Load(t.Context(), entries, nodes.AsRoot(), nil); err != nil || result.Done != 2 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
