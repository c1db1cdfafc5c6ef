package tree_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// A collection in which "ann" equals "Ann" is refused before anything is written, by the calls that are no hot path.
func TestCollation(t *testing.T) {
	t.Parallel()
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := mongotest.Database(t)
			ok(t, db.CreateCollection(ctx, "nodes", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})))
			coll := db.Collection("nodes")
			tr := get(tree.New[string, bson.M](coll, v.rep, &v.opts))(t)
			to := get(tree.New[string, bson.M](coll, tree.ParentReferences, &tree.Options{ParentField: "above"}))(t)
			putDocs(t, coll, dd("_id", "a", "parent", nil), dd("_id", "b", "parent", "a"))
			before := get(coll.Indexes().ListSpecifications(ctx))(t)
			for call, err := range map[string]error{
				"EnsureIndexes": tr.EnsureIndexes(ctx),
				"Check":         drain(tr.Check(ctx, nil)),
				"Repair":        errOf(tr.Repair(ctx, nil)),
				"Adopt":         errOf(tr.Adopt(ctx, nil)),
				"Convert":       errOf(tree.Convert(ctx, tr, to, nil)),
			} {
				t.Log(call)
				is(t, err, mongopatterns.ErrInvalid)
			}
			match(t, "documents", []bson.D{dd("_id", "a", "parent", nil), dd("_id", "b", "parent", "a")}, stored(t, coll))
			wrong(t, len(get(coll.Indexes().ListSpecifications(ctx))(t)) != len(before), "%v", "indexes were made")
		})
	}
}
