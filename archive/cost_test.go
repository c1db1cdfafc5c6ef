package archive_test

import (
	"context"
	"slices"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	live, archived := db.Collection("orders"), db.Collection("orders_archive")
	a := open(t, live, archived, &archive.Options{TimeField: "at"})
	move := func(filter any, work *mongopatterns.Work) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(a.Move(ctx, filter, work)) }
	}
	lists := []string{"listCollections"}
	batch := []string{"update", "find", "insert", "delete", "commitTransaction"}
	aborted := []string{"update", "find", "insert", "abortTransaction"}
	meet := []string{"find", "find", "update", "delete", "commitTransaction"}
	both := []string{"find", "find", "commitTransaction"}
	// In a transaction of the caller the archive is looked at first.
	joined := func(id int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return mongopatterns.Transact(ctx, db.Client(), move(d("_id", d("$in", []int{id, id + 1})), nil))
		}
	}
	var docs []any
	for i := range 300 {
		docs = append(docs, d("_id", i, "at", on(i)))
	}
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes that creates one", Sends: append(lists, "create", "listIndexes", "createIndexes"), Call: a.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: append(lists, "listIndexes"), Call: a.EnsureIndexes},
		{Name: "EnsureIndexes without a time", Sends: lists, Call: open(t, live, archived, nil).EnsureIndexes},
		{Name: "Move in two batches", Before: func() {
			testkit.OK(t, archived.Drop(t.Context()))
			testkit.Insert(t, live, docs...)
		}, Sends: slices.Concat(lists, []string{"create", "find"}, batch, batch), Writes: 3 * 20, Call: move(a.BeforeFilter(on(20)), &mongopatterns.Work{BatchSize: 10}),
			Check: func(cmds mongotest.Commands) {
				// The server examines the old documents by the index, and each of a batch by _id.
				testkit.Insert(t, live, docs[:20]...)
				costs.Examined(t, db, cmds[2], "at_1", 20, 20)
				for _, c := range cmds.Named("update", "delete")[:2] {
					costs.Examined(t, db, c, "_id_", 20, 10)
				}
				_, err := live.DeleteMany(t.Context(), d("_id", d("$lt", 20)))
				testkit.OK(t, err)
			}},
		{Name: "Restore", Sends: slices.Concat(lists, []string{"find"}, batch), Writes: 3 * 20, Call: func(ctx context.Context) error { return testkit.ErrorOf(a.Restore(ctx, all, nil)) }},
		{Name: "Move", Sends: slices.Concat(lists, []string{"find"}, batch), Writes: 3 * 20, Call: move(a.BeforeFilter(on(20)), nil)},
		{Name: "Move of a dry run", Sends: append(lists, "find"), Call: move(a.BeforeFilter(on(30)), &mongopatterns.Work{DryRun: true})},
		{Name: "Move of four documents, one in the archive and one different there", Before: func() {
			testkit.Insert(t, archived, d("_id", 20, "at", on(20), "archived_at", on(0)), d("_id", 21, "v", 1, "archived_at", on(0)))
		}, Sends: slices.Concat(lists, []string{"find"}, aborted, meet, batch), Writes: 4 + 2 + 1 + 3*2, Call: move(a.BeforeFilter(on(24)), nil)},
		{Name: "Move in a transaction", Before: func() { testkit.Insert(t, archived, d("_id", 24, "at", on(24), "archived_at", on(0))) },
			Sends: slices.Concat(lists, []string{"find", "find"}, batch), Writes: 3 * 2, Call: joined(30)},
		{Name: "Move in a transaction, one in the archive", Sends: slices.Concat(lists, []string{"find", "find", "find", "update", "delete"}, batch), Writes: 2 + 1 + 3, Call: joined(24)},
		{Name: "Check", Before: func() { testkit.Insert(t, archived, d("_id", 100, "at", on(100)), d("_id", 1000)) },
			Sends: slices.Concat(lists, []string{"find", "find"}, both, []string{"find"}), Explain: 1, Index: "_id_", NoSort: true,
			Call: func(ctx context.Context) error { return testkit.Drain(a.Check(ctx, nil)) },
			Check: func(cmds mongotest.Commands) {
				mongotest.Explain(t, db, cmds[2].Body).RequireIndex(t, "_id_")
				mongotest.Explain(t, db, cmds[3].Body).RequireIndex(t, "_id_")
			}},
		{Name: "Repair", Sends: slices.Concat(lists, []string{"find", "find"}, meet, []string{"find", "update"}), Writes: 2 + 1 + 2,
			Call: func(ctx context.Context) error { return testkit.ErrorOf(a.Repair(ctx, nil)) }},
	})

	// With an archive in another database each call begins with a round trip more.
	cold := db.Client().Database(db.Name() + "_cold")
	admin := mongotest.Admin(t, db).Client().Database(cold.Name())
	t.Cleanup(func() { testkit.OK(t, admin.Drop(context.Background())) })
	far := open(t, live, cold.Collection("orders"), nil)
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes, two databases", Sends: []string{"listCollections", "listCollections", "create"}, Call: far.EnsureIndexes},
		{Name: "Move, two databases", Sends: []string{"listCollections", "listCollections", "find"}, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(far.Move(ctx, d("_id", -1), nil))
		}},
	})
}

// A thousand trips with three comments each take three commands more for each batch than without.
func TestCompanionCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	trips, comments := db.Collection("trips"), db.Collection("comments")
	a := open(t, trips, db.Collection("trips_old"), &archive.Options{TimeField: "at", Companions: []archive.Companion{
		{Live: comments, Archived: db.Collection("comments_old"), Field: "trip_id"}}})
	move := func(filter any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(a.Move(ctx, filter, nil)) }
	}
	var docs, said []any
	for i := range 1000 {
		docs = append(docs, d("_id", i, "at", on(i)))
		for c := range 3 {
			said = append(said, d("_id", 3*i+c, "trip_id", i))
		}
	}
	begin := []string{"listCollections", "find"}
	batch := []string{"update", "find", "find", "insert", "delete", "insert", "delete", "commitTransaction"}
	none := []string{"update", "find", "find", "insert", "delete", "commitTransaction"}
	apart := []string{"find", "find"} // of the documents, here and there
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes that creates three", Sends: []string{"listCollections", "create", "create", "listIndexes", "createIndexes", "listIndexes", "createIndexes", "listIndexes", "createIndexes"}, Call: a.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{"listCollections", "listIndexes", "listIndexes", "listIndexes"}, Call: a.EnsureIndexes},
		{Name: "Move of a thousand", Before: func() {
			testkit.Insert(t, trips, docs...)
			testkit.Insert(t, comments, said...)
		}, Sends: slices.Concat(begin, slices.Concat(slices.Repeat([][]string{batch}, 10)...)), Writes: 1000*3 + 3000*2, Call: move(all),
			Check: func(cmds mongotest.Commands) {
				testkit.Insert(t, comments, said[:300]...)
				costs.Examined(t, db, cmds[4], "trip_id_1", 301, 300)
				if plan := mongotest.Explain(t, db, cmds[6].Body); plan.Has("COLLSCAN") {
					t.Error(plan)
				}
				_, err := comments.DeleteMany(t.Context(), all)
				testkit.OK(t, err)
			}},
		{Name: "Restore", Sends: slices.Concat(begin, batch), Writes: 100*3 + 300*2, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(a.Restore(ctx, d("_id", d("$lt", 100)), nil))
		}},
		{Name: "Move of trips without comments", Before: func() {
			_, err := comments.DeleteMany(t.Context(), d("trip_id", d("$lt", 50)))
			testkit.OK(t, err)
		}, Sends: slices.Concat(begin, none), Writes: 50 * 3, Call: move(d("_id", d("$lt", 50)))},
		{Name: "Move in a transaction", Sends: slices.Concat(begin, []string{"find", "update", "find", "find", "find", "insert", "delete", "insert", "delete", "commitTransaction"}), Writes: 3 + 3*2,
			Call: func(ctx context.Context) error { return mongopatterns.Transact(ctx, db.Client(), move(d("_id", 50))) }},
		{Name: "Check", Sends: slices.Concat([]string{"listCollections", "find", "find", "find"}, []string{"aggregate", "find", "aggregate", "find"}),
			Call: func(ctx context.Context) error { return testkit.Drain(a.Check(ctx, nil)) },
			Check: func(cmds mongotest.Commands) {
				if plan := mongotest.Explain(t, db, cmds.Named("aggregate")[0].Body); !plan.Has("DISTINCT_SCAN") {
					t.Error(plan)
				}
			}},
		{Name: "Repair", Before: func() { testkit.Insert(t, comments, d("_id", 0, "trip_id", 0)) },
			Sends: slices.Concat([]string{"listCollections", "find", "find", "find", "aggregate"}, apart, []string{"find"}, apart, []string{"update", "find", "find", "insert", "delete", "commitTransaction", "aggregate", "find"}), Writes: 2 + 2,
			Call: func(ctx context.Context) error { return testkit.ErrorOf(a.Repair(ctx, nil)) }},
	})
}
