package tree_test

import (
	"errors"
	"strings"
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
	if _, err := sets.Insert(ctx, bson.M{"_id": "P"}, sets.Before("O")); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
	if err := sets.Move(ctx, "B", sets.After("O")); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
}

// TestNestedOrphans: no number is given twice, and a range that holds other
// nodes than it should is not deleted.
func TestNestedOrphans(t *testing.T) {
	t.Parallel()
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
		if n, err := tr.Delete(ctx, id, mongopatterns.Cascade); n != 1 || err != nil {
			t.Errorf("delete of the leaf %s: %d, %v", id, n, err)
		}
	}
	exists(t, coll, "t", "u", "w")
	get(coll.UpdateOne(ctx, dd("_id", "w"), dd("$set", dd("left", 1, "right", 8))))(t)
	if n, err := tr.Delete(ctx, "w", mongopatterns.Cascade); !errors.Is(err, mongopatterns.ErrMalformed) || !strings.Contains(err.Error(), "run Repair") {
		t.Errorf("delete of an overlapping range: %d, %v", n, err)
	}
	get(coll.UpdateOne(ctx, dd("_id", "w"), dd("$set", dd("left", 8, "right", 1))))(t)
	if _, err := tr.Insert(ctx, bson.M{"_id": "x"}, tr.Before("w")); !errors.Is(err, mongopatterns.ErrMalformed) || !strings.Contains(err.Error(), "run Repair") {
		t.Errorf("insert beside a range that encloses nothing: %v", err)
	}
	exists(t, coll, "t", "u", "w")
}
