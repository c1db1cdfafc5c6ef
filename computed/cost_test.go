package computed_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	find, agg, up, fam, insert, commit, list := "find", "aggregate", "update", "findAndModify", "insert", "commitTransaction", "listCollections"
	db, c := cinema(t, perFilm())
	testkit.Must(c.Adopt(t.Context(), nil))
	// own is a write for Change, which itself sends no findAndModify: all other commands are besides it.
	own := func(db *mongo.Database, id int, fields bson.M) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return db.Collection("screenings").FindOneAndUpdate(ctx, bson.M{"_id": id}, bson.M{"$set": fields},
				options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
		}
	}
	change := func(db *mongo.Database, c *totals) func(ctx context.Context) error {
		return func(ctx context.Context) error { return c.Change(ctx, []int{3}, own(db, 3, bson.M{"film": "A"})) }
	}
	found := func(n int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			for _, err := range c.Check(ctx, nil) {
				check(t, err)
				n--
			}
			if n != 0 {
				t.Errorf("%d problems are missing", n)
			}
			return nil
		}
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Change, 5 besides the write", Sends: []string{find, fam, find, agg, up, commit}, Writes: 3, Indexed: true, Call: change(db, c)},
		{Name: "Insert", Sends: []string{insert, agg, up, commit}, Writes: 4, Indexed: true, Call: func(ctx context.Context) error {
			return c.Insert(ctx, screening{21, "A", "x", 1, false}, screening{22, "B", "x", 1, false})
		}},
		{Name: "Get", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(c.Get(ctx, "A", time.Hour)) }},
		{Name: "Get that computes", Sends: []string{find, fam, find, agg, up, find}, Writes: 2, Indexed: true,
			Call: func(ctx context.Context) error { return errorOf(c.Get(ctx, "A", 0)) }},
		{Name: "Refresh", Sends: []string{find, agg, up}, Writes: 2, Indexed: true,
			Call: func(ctx context.Context) error { return errorOf(c.Refresh(ctx, "A", "B", "Z")) }},
		{Name: "Mark", Sends: []string{up}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return c.Mark(ctx, "A", "B") }},
		{Name: "Drain", Sends: []string{find, fam, find, agg, up, fam, find, agg, up, find}, Writes: 4, Indexed: true,
			Call: func(ctx context.Context) error { return errorOf(c.Drain(ctx, nil)) }},
		{Name: "Failures", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return testkit.Drain(c.Failures(ctx)) }},
		{Name: "RefreshAll", Sends: []string{find, find, agg, up}, Writes: 3, Indexed: true,
			Call: func(ctx context.Context) error { return errorOf(c.RefreshAll(ctx, nil)) }},
		{Name: "Check", Sends: []string{list, find, agg, find}, Call: found(0)},
		{Name: "Check that finds", Before: func() { check(t, set(db, 1, bson.M{"viewers": 99})(t.Context())) },
			Sends: []string{list, find, agg, find, agg, commit, find}, Indexed: true, Call: found(1)},
		{Name: "Repair", Sends: []string{list, find, agg, find, agg, up}, Writes: 1, Indexed: true,
			Call: func(ctx context.Context) error { return errorOf(c.Repair(ctx, nil)) }},
		{Name: "EnsureIndexes", Sends: []string{list, "listIndexes", "listIndexes"}, Call: c.EnsureIndexes},
		{Name: "EnsureIndexes that creates one", Before: func() { check(t, db.Collection("films").Indexes().DropAll(t.Context())) },
			Sends: []string{list, "listIndexes", "createIndexes", "listIndexes"}, Call: c.EnsureIndexes},
	})
	db, c = cinema(t, sums())
	testkit.Must(c.Adopt(t.Context(), nil))
	costs.Run(t, db, []costs.Case{
		{Name: "Change of sums, 4 besides the write", Sends: []string{agg, fam, agg, up, commit}, Writes: 3, Indexed: true, Call: change(db, c)},
		{Name: "Insert of sums", Sends: []string{insert, agg, up, commit}, Writes: 4, Indexed: true, Call: func(ctx context.Context) error {
			return c.Insert(ctx, screening{21, "A", "x", 1, false}, screening{22, "B", "x", 1, false})
		}},
	})

	ledger, sums := ledger(t)
	check(t, sums.EnsureIndexes(t.Context()))
	testkit.Must(ledger.Collection("films").InsertMany(t.Context(), []any{bson.M{"_id": "A"}, bson.M{"_id": "B"}}))
	to := func(id int, v any) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return sums.Change(ctx, []int{id}, own(ledger, id, bson.M{"film": "A", "v": v}))
		}
	}
	costs.Run(t, ledger, []costs.Case{
		{Name: "Insert for a target never computed", Sends: []string{insert, agg, up, agg, up, commit}, Writes: 2, Indexed: true,
			Call: func(ctx context.Context) error { return sums.Insert(ctx, bson.M{"_id": 7, "film": "B", "v": 1.5}) }},
		{Name: "Change of a target never computed", Sends: []string{agg, fam, agg, up, agg, up, commit}, Writes: 2, Indexed: true, Call: to(1, 1e17)},
		{Name: "Change of doubles", Sends: []string{agg, fam, agg, up, commit}, Writes: 2, Indexed: true, Call: to(2, 0.5)},
		{Name: "Change that leaves little", Sends: []string{agg, fam, agg, up, agg, up, commit}, Writes: 2, Indexed: true, Call: to(1, 0.5)},
	})
}
