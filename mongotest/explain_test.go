package mongotest_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func explained(t *testing.T) (*mongo.Database, *mongo.Collection) {
	db := mongotest.Database(t)
	coll := db.Collection("c")
	var docs []any
	for i := range 60 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "s", Value: i % 3}, {Key: "tags", Value: bson.A{i, i + 1}}})
	}
	must[*mongo.InsertManyResult](t)(coll.InsertMany(t.Context(), docs))
	must[[]string](t)(coll.Indexes().CreateMany(t.Context(), []mongo.IndexModel{
		{Keys: bson.D{{Key: "s", Value: 1}, {Key: "_id", Value: 1}}},
		{Keys: bson.D{{Key: "tags", Value: 1}}},
	}))
	return db, coll
}

func TestExplainReads(t *testing.T) {
	t.Parallel()
	db, _ := explained(t)
	s1 := bson.D{{Key: "s", Value: 1}}
	for name, test := range map[string]struct {
		command bson.D
		index   string
		multi   bool
		keys    int64
	}{
		"find":     {bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: s1}}, "s_1__id_1", false, 21},
		"one _id":  {bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: 7}}}}, "_id_", false, 1},
		"multikey": {bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "tags", Value: 7}}}}, "tags_1", true, 3},
		"count":    {bson.D{{Key: "count", Value: "c"}, {Key: "query", Value: s1}}, "s_1__id_1", false, 21},
		"distinct": {bson.D{{Key: "distinct", Value: "c"}, {Key: "key", Value: "s"}, {Key: "query", Value: s1}}, "s_1__id_1", false, 21},
		"aggregate": {bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$match", Value: s1}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$s"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		}}, {Key: "cursor", Value: bson.D{}}}, "s_1__id_1", false, 21},
	} {
		t.Run(name, func(t *testing.T) {
			plan := mongotest.Explain(t, db, test.command)
			plan.RequireIndex(t, test.index)
			plan.RequireNoSort(t)
			plan.RequireExamined(t, test.keys, 21)
			if plan.KeysExamined == 0 {
				t.Errorf("plan %s examined no key", plan)
			}
			if plan.MultiKey != test.multi {
				t.Errorf("plan %s: multikey %v", plan, plan.MultiKey)
			}
		})
	}
}

func TestExplainRecordedWrites(t *testing.T) {
	t.Parallel()
	db, coll := explained(t)
	ctx := t.Context()
	filter := bson.D{{Key: "s", Value: 1}}
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "y", Value: 1}}}}
	session := must[*mongo.Session](t)(db.Client().StartSession())
	defer session.EndSession(ctx)
	for name, write := range map[string]func() error{
		"updateMany": func() error { _, err := coll.UpdateMany(ctx, filter, set); return err },
		"updateOne in a transaction": func() error {
			_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return coll.UpdateOne(ctx, filter, set) })
			return err
		},
		"findAndModify": func() error { return coll.FindOneAndUpdate(ctx, filter, set).Err() },
		"delete":        func() error { _, err := coll.DeleteOne(ctx, filter); return err },
	} {
		t.Run(name, func(t *testing.T) {
			cmds := mongotest.Record(t, db, func() {
				if err := write(); err != nil {
					t.Fatal(err)
				}
			})
			before := must[int64](t)(coll.CountDocuments(ctx, bson.D{}))
			plan := mongotest.Explain(t, db, cmds[0].Body)
			plan.RequireIndex(t, "s_1__id_1")
			if after := must[int64](t)(coll.CountDocuments(ctx, bson.D{})); after != before {
				t.Errorf("explaining changed the count from %d to %d", before, after)
			}
		})
	}
}

// The Require methods must fail where the plan is bad.
func TestRequirementsFail(t *testing.T) {
	t.Parallel()
	db, coll := explained(t)
	scan := mongotest.Record(t, db, func() {
		must[*mongo.Cursor](t)(coll.Find(t.Context(), bson.D{{Key: "other", Value: 1}}, options.Find().SetSort(bson.D{{Key: "other", Value: 1}})))
	})
	plan := mongotest.Explain(t, db, scan[0].Body)
	sorted := mongotest.Explain(t, db, bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: bson.A{
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$s"}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	}}, {Key: "cursor", Value: bson.D{}}})
	for name, require := range map[string]func(testing.TB){
		"collection scan":      func(t testing.TB) { plan.RequireIndex(t, "s_1__id_1") },
		"sort of a find":       plan.RequireNoSort,
		"sort of an aggregate": sorted.RequireNoSort,
		"multikey":             plan.RequireMultiKey,
		"examined":             func(t testing.TB) { plan.RequireExamined(t, 60, 59) },
	} {
		if !mongotest.Fails(t, require) {
			t.Errorf("%s: the requirement held for %s", name, plan)
		}
	}
}
