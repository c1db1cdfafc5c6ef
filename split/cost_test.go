package split_test

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

const commit = "commitTransaction"

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	s, err := split.New[int, bson.D, bson.D](hot, cold, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	must(t, err)
	insert := func(id int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Insert(ctx, id, d("a", 1), d("plot", 1)) }
	}
	update := func(hot, cold any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, 1, hot, cold) }
	}
	check := func(ctx context.Context) error { return testkit.Drain(s.Check(ctx, nil)) }
	adopt := func(ctx context.Context) error { return testkit.ErrorOf(s.Adopt(ctx, nil)) }
	removeCold := func() {
		_, err := cold.DeleteOne(t.Context(), d("movie_id", 1))
		must(t, err)
	}
	byIDAndMovie := func(cmds mongotest.Commands) {
		costs.Examined(t, db, cmds[0], "_id_", 1, 1)
		costs.Examined(t, db, cmds[1], "movie_id_1", 1, 1)
	}
	find, list, indexes := "find", "listCollections", "listIndexes"
	move := []string{"update", find, find, "update", "update"}
	moveNew := []string{"update", find, find, "insert", "update"}
	batch := append(move, commit)
	cold1, hot1, hot7 := d("$set", d("plot", "new")), d("$inc", d("a", 1)), d("$set", d("a", 7))

	cases := []costs.Case{
		{Name: "EnsureIndexes that creates one", Sends: []string{list, indexes, "createIndexes"}, Call: s.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{list, indexes}, Call: s.EnsureIndexes},
	}
	for i := range 30 {
		cases = append(cases, costs.Case{Name: "Insert", Sends: []string{"insert", "insert", commit}, Writes: 2, Call: insert(i)})
	}
	costs.Run(t, db, append(cases, []costs.Case{
		{Name: "Update of both", Sends: []string{"update", "update", commit}, Writes: 2, Check: byIDAndMovie, Call: update(d("$inc", d("a", 2)), d("$inc", d("plot", 2)))},
		{Name: "Update of the hot side", Sends: []string{"update"}, Writes: 1, Index: "_id_", Keys: 1, Docs: 1, Call: update(d("$inc", d("a", 2)), nil)},
		{Name: "Update of the cold side", Sends: []string{find, "update"}, Writes: 1, Check: byIDAndMovie, Call: update(nil, d("$inc", d("plot", 2)))},
		{Name: "Update of both that moves fields", Before: func() { testkit.Update(t, hot, d("_id", 1), d("$set", d("plot", "old"))) },
			Sends: slices.Concat([]string{"update"}, move, []string{"update", "update", commit}), Writes: 5, Call: update(hot1, cold1)},
		{Name: "Update of the cold side that moves fields", Before: func() { testkit.Update(t, hot, d("_id", 1), d("$set", d("plot", "old"))) },
			Sends: slices.Concat([]string{find}, move, []string{"update", commit}), Writes: 4, Call: update(nil, cold1)},
		{Name: "Update of the cold side that inserts it", Before: removeCold,
			Sends: slices.Concat([]string{find, "update"}, moveNew, []string{"update", commit}), Writes: 4, Call: update(nil, cold1)},
		{Name: "GetHot", Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.GetHot(ctx, 1)) }},
		{Name: "GetCold", Sends: []string{find}, Index: "movie_id_1", Keys: 1, Docs: 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.GetCold(ctx, 1)) }},
		{Name: "Get", Sends: []string{"aggregate"}, Index: "_id_", Keys: 2, Docs: 2, Call: func(ctx context.Context) error { _, _, err := s.Get(ctx, 1); return err },
			Check: func(cmds mongotest.Commands) {
				same(t, "the cold side's index", "movie_id", cmds[0].Body.Lookup("pipeline", "2", "$lookup", "foreignField").StringValue())
			}},
		{Name: "Update of both without a cold document", Before: func() { removeCold(); must(t, s.Update(t.Context(), 1, hot7, nil)) },
			Sends: []string{"update", "update", "update", commit}, Writes: 3, Explain: 2, Index: "_id_", Keys: 1, Docs: 1, Call: update(hot7, d("$set", d("plot", 1)))},
		{Name: "Delete", Before: func() { testkit.Untouched(t, hot) }, Sends: []string{"delete", "delete", commit}, Writes: 2,
			Call: func(ctx context.Context) error { return s.Delete(ctx, 2) },
			Check: func(cmds mongotest.Commands) {
				same(t, "delete by", `{"_id": {"$numberInt":"2"}}`, cmds[0].Body.Lookup("deletes", "0", "q").String())
				same(t, "delete by", `{"movie_id": {"$eq": {"$numberInt":"2"},"$not": {"$type": "array"}}}`, cmds[1].Body.Lookup("deletes", "0", "q").String())
			}},
		{Name: "Check", Sends: []string{list, "aggregate", "aggregate"}, Call: check},
		{Name: "Check of one", Sends: []string{list, "aggregate"}, Explain: 1, Index: "_id_", Keys: 3, Docs: 2,
			Call: func(ctx context.Context) error {
				return testkit.Drain(s.Check(ctx, &mongopatterns.Work{Filter: d("_id", 1)}))
			}},
		{Name: "Repair", Before: func() { testkit.Update(t, hot, d("_id", d("$lt", 7)), d("$set", d("plot", "old"))) },
			Sends: slices.Concat([]string{list, "aggregate"}, batch), Writes: 6 * 3, Explain: 3, Index: "_id_", Keys: 8, Docs: 6,
			Call:  func(ctx context.Context) error { return testkit.ErrorOf(s.Repair(ctx, nil)) },
			Check: func(cmds mongotest.Commands) { mongotest.Explain(t, db, cmds[1].Body).RequireNoSort(t) }},
		{Name: "Check of problems of both sides", Before: func() {
			testkit.Insert(t, hot, d("_id", 100, "plot", 1), d("_id", 101))
			testkit.Insert(t, cold, d("movie_id", 200))
		}, Sends: []string{list, "aggregate", find, find, commit, "aggregate", find, "aggregate", commit}, Call: check},
		{Name: "Adopt", Before: func() {
			testkit.Insert(t, cold, d("movie_id", 102)) // the kinds alternate, and are still two commands
			testkit.Insert(t, hot, d("_id", 102, "plot", 1), d("_id", 103), d("_id", 104, "plot", 1))
			testkit.Insert(t, cold, d("movie_id", 104), d("a", 1)) // one names no ID at all
		}, Sends: slices.Concat([]string{list, "aggregate"}, slices.Insert(slices.Clone(batch), 3, "insert")), Writes: 15, Call: adopt},
		{Name: "Adopt again", Sends: []string{list, "aggregate"}, Call: adopt},
		{Name: "Check of cold documents without hot ones", Sends: []string{list, "aggregate", "aggregate", find, "aggregate", commit}, Call: check},
	}...))
}
