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
	meet := []string{"find", "find", "delete", "commitTransaction"}
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
		}, Sends: slices.Concat(lists, []string{"find"}, aborted, meet, batch), Writes: 4 + 1 + 3*2, Call: move(a.BeforeFilter(on(24)), nil)},
		{Name: "Move in a transaction", Before: func() { testkit.Insert(t, archived, d("_id", 24, "at", on(24), "archived_at", on(0))) },
			Sends: slices.Concat(lists, []string{"find", "find"}, batch), Writes: 3 * 2, Call: joined(30)},
		{Name: "Move in a transaction, one in the archive", Sends: slices.Concat(lists, []string{"find", "find", "find", "delete"}, batch), Writes: 1 + 3, Call: joined(24)},
		{Name: "Check", Before: func() { testkit.Insert(t, archived, d("_id", 100, "at", on(100)), d("_id", 1000)) },
			Sends: slices.Concat(lists, []string{"find", "find"}, both, []string{"find"}), Explain: 1, Index: "_id_", NoSort: true,
			Call: func(ctx context.Context) error { return testkit.Drain(a.Check(ctx, nil)) },
			Check: func(cmds mongotest.Commands) {
				mongotest.Explain(t, db, cmds[2].Body).RequireIndex(t, "_id_")
				mongotest.Explain(t, db, cmds[3].Body).RequireIndex(t, "_id_")
			}},
		{Name: "Repair", Sends: slices.Concat(lists, []string{"find", "find"}, meet, []string{"find", "update"}), Writes: 1 + 2,
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
