package attribute_test

import (
	"iter"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func unique() *options.IndexOptionsBuilder { return options.Index().SetUnique(true) }

var record = costs.Record

// byID wants the plan to be that of the index on _id, for this many documents.
func byID(t *testing.T, db *mongo.Database, c mongotest.Command, n int64) {
	t.Helper()
	filter, _ := c.Body.Lookup("updates", "0", "q").DocumentOK()
	if elements, _ := filter.Elements(); len(elements) > 1 && c.Body.Lookup("updates", "0", "hint").String() != `{"_id": {"$numberInt":"1"}}` {
		t.Fatalf("no hint: %v", c.Body)
	}
	plan := mongotest.Explain(t, db, c.Body)
	if !plan.Has("IDHACK") { // which is what mongod does with nothing but an _id
		plan.RequireIndex(t, "_id_")
	}
	plan.RequireExamined(t, 2*n, n) // n scattered IDs: a key to see that one is passed
}

func drain[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	type entry = attribute.Attribute[int]

	record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return a.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listCollections", "listIndexes"}, func() error { return a.EnsureIndexes(ctx) })
	sided := newAttributes[int, int](t, coll, &attribute.Options{Indexes: []attribute.Index{{Prefix: []string{"n"}, KeyOnly: true}, {Suffix: []string{"n"}}}})
	record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return sided.EnsureIndexes(ctx) })

	for i := range 100 {
		entries := bson.A{e("common", i)}
		if i%10 == 0 {
			entries = append(entries, e("rare", i), e("rare", i, "q"))
		}
		insert(t, coll, d("_id", i, "n", i, "attributes", entries))
	}

	// One document.
	type call struct {
		name string
		fn   func() error
	}
	for _, c := range []call{
		{"Set, new", func() error { return a.Set(ctx, 1, attribute.Named("x"), 1) }},
		{"Set", func() error { return a.Set(ctx, 1, attribute.Named("x"), 2) }},
		{"SetMany", func() error { return a.SetMany(ctx, 1, entry{Key: "x", Value: 3}, entry{Key: "y"}, entry{Key: "z"}) }},
		{"Add", func() error { return a.Add(ctx, 1, attribute.Named("added"), 1) }},
		{"Change", func() error { return a.Change(ctx, 1, attribute.Named("common"), 7) }},
		{"Remove", func() error { return a.Remove(ctx, 1, attribute.Named("x")) }},
	} {
		t.Log(c.name)
		cmds := record(t, db, 1, []string{"update"}, c.fn)
		byID(t, db, cmds[0], 1)
	}
	for _, c := range []call{
		{"Set", func() error { return a.Set(ctx, -1, attribute.Named("x"), 1) }},
		{"SetMany", func() error { return a.SetMany(ctx, -1, entry{Key: "x"}) }},
		{"Add", func() error { return a.Add(ctx, 1, attribute.Named("common"), 1) }},
		{"Change", func() error { return a.Change(ctx, 1, attribute.Named("no"), 7) }},
		{"Remove", func() error { return a.Remove(ctx, 1, attribute.Named("no")) }},
	} {
		t.Log(c.name, "refused")
		cmds := record(t, db, 0, []string{"update", "find"}, func() error {
			if c.fn() == nil {
				t.Error("not refused")
			}
			return nil
		})
		byID(t, db, cmds.Named("update")[0], 1)
	}
	record(t, db, 0, nil, func() error { return a.SetMany(ctx, 1) })
	record(t, db, 0, nil, func() error { return errOf(a.Elements(entry{Key: "x"})) })
	for _, fn := range []func() error{
		func() error { return errOf(a.Get(ctx, 1, attribute.Named("common"))) },
		func() error { return errOf(a.GetAll(ctx, 1)) },
	} {
		cmds := record(t, db, 0, []string{"find"}, fn)
		byID(t, db, cmds[0], 1)
	}

	// Several documents.
	cmds := record(t, db, 0, []string{"find"}, func() error { return errOf(sided.GetBy(ctx, d("n", 50), attribute.Named("rare"))) })
	plan := mongotest.Explain(t, db, cmds[0].Body)
	plan.RequireIndex(t, "n_1_attributes.k_1")
	plan.RequireExamined(t, 2, 1)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { return drain(a.Values(ctx, nil, attribute.Named("rare"))) })
	plan = mongotest.Explain(t, db, cmds[0].Body)
	plan.RequireExamined(t, 21, 10)
	if !strings.HasPrefix(strings.Join(plan.Indexes, ","), "attributes.k_1_") {
		t.Fatal(plan)
	}
	record(t, db, 0, []string{"aggregate"}, func() error { return errOf(a.Facets(ctx, nil, nil)) })
	cmds = record(t, db, 0, []string{"aggregate"}, func() error {
		return errOf(a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{"rare"}}))
	})
	if disk, _ := cmds[0].Body.Lookup("allowDiskUse").BooleanOK(); !disk {
		t.Fatal(cmds[0].Body)
	}
	mongotest.Explain(t, db, cmds[0].Body).RequireExamined(t, 21, 10)

	// Batches: 10 documents with the key, then an empty answer at the end.
	cmds = record(t, db, 10, []string{"find", "update", "getMore", "update"}, func() error {
		return errOf(a.RenameKey(ctx, "rare", "seldom", &mongopatterns.Work{BatchSize: 5}))
	})
	byID(t, db, cmds.Named("update")[0], 5)
	if plan := mongotest.Explain(t, db, cmds[0].Body); plan.Has("COLLSCAN") {
		t.Fatal(plan)
	}
	cmds = record(t, db, 10, []string{"find", "update", "getMore", "update", "getMore", "update"}, func() error {
		return errOf(a.RemoveKey(ctx, "seldom", &mongopatterns.Work{BatchSize: 4}))
	})
	byID(t, db, cmds.Named("update")[0], 4)
	cmds = record(t, db, 100, []string{"listCollections", "find", "update"}, func() error {
		return errOf(a.Adopt(ctx, []attribute.Column{{Path: "n", Key: "n"}}, nil))
	})
	byID(t, db, cmds.Named("update")[0], 100)
	record(t, db, 0, []string{"listCollections", "find"}, func() error { return errOf(a.Adopt(ctx, []attribute.Column{{Path: "n", Key: "n"}}, nil)) })
	must(t, errOf(coll.UpdateOne(ctx, d("_id", 3), d("$set", d("n", "another")))))
	record(t, db, 0, []string{"listCollections", "find", "update", "aggregate"}, func() error { return errOf(a.Adopt(ctx, []attribute.Column{{Path: "n", Key: "n"}}, nil)) })
	must(t, errOf(coll.UpdateOne(ctx, d("_id", 3), d("$unset", d("n", "")))))
	cmds = record(t, db, 100, []string{"listCollections", "find", "update", "getMore", "update"}, func() error {
		return errOf(a.Unadopt(ctx, []attribute.Column{{Path: "n", Key: "n"}}, &mongopatterns.Work{BatchSize: 60}))
	})
	byID(t, db, cmds.Named("update")[0], 60)

	// Maintenance.
	record(t, db, 0, []string{"listCollections", "aggregate"}, func() error { return drain(a.Check(ctx, nil)) })
	if _, err := coll.UpdateMany(ctx, d("_id", d("$lt", 7)), d("$push", d("attributes", e("common", 0)))); err != nil {
		t.Fatal(err)
	}
	record(t, db, 0, []string{"listCollections", "aggregate"}, func() error { return drain(a.Check(ctx, nil)) })
	cmds = record(t, db, 7, []string{"listCollections", "aggregate", "update", "getMore", "update"}, func() error {
		return errOf(a.Repair(ctx, &mongopatterns.Work{BatchSize: 5}))
	})
	byID(t, db, cmds.Named("update")[0], 5)
	for _, c := range []struct {
		condition attribute.Condition
		keys      int64
	}{
		// The bounds of "no qualifier" are several points.
		{a.Equals(attribute.Named("common").Qualified(""), 50), 8},
		{a.Equals(attribute.Named("common"), 50), 8},
		{a.Range(attribute.Named("common").Qualified(""), 50, 60), 20},
		{a.In(attribute.Named("common").Qualified(""), []int{50, 60}), 12},
	} {
		plan := mongotest.Explain(t, db, d("find", "c", "filter", a.Filter(c.condition)))
		if plan.Has("COLLSCAN") { // the index with a suffix serves as well
			t.Fatal(plan)
		}
		plan.RequireMultiKey(t)
		plan.RequireExamined(t, c.keys, 10)
	}
}
