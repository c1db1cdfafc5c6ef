package attribute_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
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
	if !plan.Has("IDHACK") { // the plan of mongod for a filter on _id alone
		plan.RequireIndex(t, "_id_")
	}
	plan.RequireExamined(t, 2*n, n) // n scattered IDs: a key to see that one is passed
}

// With Suffix {"title", "_id"} the server reads a page by title from the index, without a sort.
func TestSuffixServesPages(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{Indexes: []attribute.Index{{Suffix: []string{"title", "_id"}}}})
	if err := a.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		insert(t, coll, d("_id", i, "title", fmt.Sprint(i%10), "attributes", bson.A{e("even", (i+1)%2), e("n", i)}))
	}
	pager, err := paging.New[bson.D](coll, d("title", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	var req paging.Request
	for range 2 {
		cmds := mongotest.Record(t, db, func() {
			req.Size = 5
			page, err := pager.Page(t.Context(), a.Filter(a.Equals(attribute.Named("even"), 1)), req)
			if err != nil {
				t.Fatal(err)
			}
			req.After = page.Next
		})
		plan := mongotest.Explain(t, db, cmds[0].Body)
		plan.RequireNoSort(t)
		plan.RequireExamined(t, 12, 8)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	sided := newAttributes[int, int](t, coll, &attribute.Options{Indexes: []attribute.Index{{Prefix: []string{"n"}, KeyOnly: true}, {Suffix: []string{"n"}}}})
	type entry = attribute.Attribute[int]
	list, indexes, create := "listCollections", "listIndexes", "createIndexes"
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes that creates one", Sends: []string{list, indexes, create}, Call: a.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{list, indexes}, Call: a.EnsureIndexes},
		{Name: "EnsureIndexes of others", Sends: []string{list, indexes, create}, Call: sided.EnsureIndexes},
	})
	for i := range 100 {
		entries := bson.A{e("common", i)}
		if i%10 == 0 {
			entries = append(entries, e("rare", i), e("rare", i, "q"))
		}
		insert(t, coll, d("_id", i, "n", i, "attributes", entries))
	}
	one := func(cmds mongotest.Commands) { byID(t, db, cmds[0], 1) }
	batch := func(n int64) func(cmds mongotest.Commands) {
		return func(cmds mongotest.Commands) { byID(t, db, cmds.Named("update")[0], n) }
	}
	refused := func(fn func(ctx context.Context) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			if fn(ctx) == nil {
				t.Error("not refused")
			}
			return nil
		}
	}
	update, find, asked := []string{"update"}, []string{"find"}, []string{"update", "find"}
	column := []attribute.Column{{Path: "n", Key: "n"}}
	adopt := func(ctx context.Context) error { return errOf(a.Adopt(ctx, column, nil)) }
	check := func(ctx context.Context) error { return testkit.Drain(a.Check(ctx, nil)) }
	costs.Run(t, db, []costs.Case{
		// One document.
		{Name: "Set of a new key", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error { return a.Set(ctx, 1, attribute.Named("x"), 1) }},
		{Name: "Set", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error { return a.Set(ctx, 1, attribute.Named("x"), 2) }},
		{Name: "SetAll", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error {
			return a.SetAll(ctx, 1, entry{Key: "x", Value: 3}, entry{Key: "y"}, entry{Key: "z"})
		}},
		{Name: "Add", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error { return a.Add(ctx, 1, attribute.Named("added"), 1) }},
		{Name: "Replace", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error { return a.Replace(ctx, 1, attribute.Named("common"), 7) }},
		{Name: "Remove", Sends: update, Writes: 1, Check: one, Call: func(ctx context.Context) error { return a.Remove(ctx, 1, attribute.Named("x")) }},
		{Name: "Set, refused", Sends: asked, Check: one, Call: refused(func(ctx context.Context) error { return a.Set(ctx, -1, attribute.Named("x"), 1) })},
		{Name: "SetAll, refused", Sends: asked, Check: one, Call: refused(func(ctx context.Context) error { return a.SetAll(ctx, -1, entry{Key: "x"}) })},
		{Name: "Add, refused", Sends: asked, Check: one, Call: refused(func(ctx context.Context) error { return a.Add(ctx, 1, attribute.Named("common"), 1) })},
		{Name: "Replace, refused", Sends: asked, Check: one, Call: refused(func(ctx context.Context) error { return a.Replace(ctx, 1, attribute.Named("no"), 7) })},
		{Name: "Remove, refused", Sends: asked, Check: one, Call: refused(func(ctx context.Context) error { return a.Remove(ctx, 1, attribute.Named("no")) })},
		{Name: "SetAll of nothing", Call: func(ctx context.Context) error { return a.SetAll(ctx, 1) }},
		{Name: "Elements", Call: func(context.Context) error { return errOf(a.Elements(entry{Key: "x"})) }},
		{Name: "Get", Sends: find, Check: one, Call: func(ctx context.Context) error { return errOf(a.Get(ctx, 1, attribute.Named("common"))) }},
		{Name: "GetAll", Sends: find, Check: one, Call: func(ctx context.Context) error { return errOf(a.GetAll(ctx, 1)) }},

		// Several documents.
		{Name: "GetBy", Sends: find, Index: "n_1_attributes.k_1", Keys: 2, Docs: 1,
			Call: func(ctx context.Context) error { return errOf(sided.GetBy(ctx, d("n", 50), attribute.Named("rare"))) }},
		{Name: "Values", Sends: []string{"aggregate"}, Keys: 21, Docs: 10,
			Call: func(ctx context.Context) error { return testkit.Drain(a.Values(ctx, nil, attribute.Named("rare"))) },
			Check: func(cmds mongotest.Commands) {
				if plan := mongotest.Explain(t, db, cmds[0].Body); !strings.HasPrefix(strings.Join(plan.Indexes, ","), "attributes.k_1_") {
					t.Fatal(plan)
				}
			}},
		{Name: "Facets", Sends: []string{"aggregate"}, Call: func(ctx context.Context) error { return errOf(a.Facets(ctx, nil, nil)) }},
		{Name: "Facets of a key", Sends: []string{"aggregate"}, Keys: 21, Docs: 10,
			Call: func(ctx context.Context) error {
				return errOf(a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{"rare"}}))
			},
			Check: func(cmds mongotest.Commands) {
				if disk, _ := cmds[0].Body.Lookup("allowDiskUse").BooleanOK(); !disk {
					t.Fatal(cmds[0].Body)
				}
			}},

		// Batches: 10 documents with the key, then an empty answer at the end.
		{Name: "RenameKey", Sends: []string{list, "find", "update", "getMore", "update"}, Writes: 10, Call: func(ctx context.Context) error {
			return errOf(a.RenameKey(ctx, "rare", "seldom", &mongopatterns.Work{BatchSize: 5}))
		}, Check: func(cmds mongotest.Commands) {
			byID(t, db, cmds.Named("update")[0], 5)
			if plan := mongotest.Explain(t, db, cmds.Named("find")[0].Body); plan.Has("COLLSCAN") {
				t.Fatal(plan)
			}
		}},
		{Name: "RemoveKey", Sends: []string{list, "find", "update", "getMore", "update", "getMore", "update"}, Writes: 10, Check: batch(4), Call: func(ctx context.Context) error {
			return errOf(a.RemoveKey(ctx, "seldom", &mongopatterns.Work{BatchSize: 4}))
		}},
		{Name: "Adopt", Sends: []string{list, "find", "update"}, Writes: 100, Check: batch(100), Call: adopt},
		{Name: "Adopt again", Sends: []string{list, "find"}, Call: adopt},
		{Name: "Adopt of what differs", Before: func() { must(t, errOf(coll.UpdateOne(t.Context(), d("_id", 3), d("$set", d("n", "another"))))) },
			Sends: []string{list, "find", "update", "aggregate"}, Call: adopt},
		{Name: "Unadopt", Before: func() { must(t, errOf(coll.UpdateOne(t.Context(), d("_id", 3), d("$unset", d("n", ""))))) },
			Sends: []string{list, "find", "update", "getMore", "update"}, Writes: 100, Check: batch(60),
			Call: func(ctx context.Context) error {
				return errOf(a.Unadopt(ctx, column, &mongopatterns.Work{BatchSize: 60}))
			}},

		// Maintenance.
		{Name: "Check", Sends: []string{list, "aggregate"}, Call: check},
		{Name: "Check that finds", Before: func() {
			must(t, errOf(coll.UpdateMany(t.Context(), d("_id", d("$lt", 7)), d("$push", d("attributes", e("common", 0))))))
		}, Sends: []string{list, "aggregate"}, Call: check},
		{Name: "Repair", Sends: []string{list, "aggregate", "update", "getMore", "update"}, Writes: 7, Check: batch(5),
			Call: func(ctx context.Context) error { return errOf(a.Repair(ctx, &mongopatterns.Work{BatchSize: 5})) }},
	})
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
