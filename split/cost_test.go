package split_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

const commit = "commitTransaction"

var record = costs.Record

// examined wants a plan by an index that looks at no more than these; that of _id
// has no name where one document is looked for.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	if index != "_id_" || !plan.Has("IDHACK") && !plan.Has("EXPRESS") {
		plan.RequireIndex(t, index)
	}
	plan.RequireExamined(t, keys, docs)
}

func drain[T any](seq func(func(T, error) bool)) error {
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
	ctx := t.Context()
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	s, err := split.New[int, bson.D, bson.D](hot, cold, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	must(t, err)
	record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listCollections", "listIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	for i := range 30 {
		record(t, db, 2, []string{"insert", "insert", commit}, func() error { return s.Add(ctx, i, d("a", 1), d("plot", 1)) })
	}
	byID := func(c mongotest.Command) { t.Helper(); examined(t, db, c, "_id_", 1, 1) }
	byMovie := func(c mongotest.Command) { t.Helper(); examined(t, db, c, "movie_id_1", 1, 1) }
	cmds := record(t, db, 2, []string{"update", "update", commit}, func() error { return s.Update(ctx, 1, d("$inc", d("a", 2)), d("$inc", d("plot", 2))) })
	byID(cmds[0])
	byMovie(cmds[1])
	byID(record(t, db, 1, []string{"update"}, func() error { return s.Update(ctx, 1, d("$inc", d("a", 2)), nil) })[0])
	cmds = record(t, db, 1, []string{"find", "update"}, func() error { return s.Update(ctx, 1, nil, d("$inc", d("plot", 2))) })
	byID(cmds[0])
	byMovie(cmds[1])
	move := []string{"update", "find", "find", "update", "update"}
	cold1, hot1 := d("$set", d("plot", "new")), d("$inc", d("a", 1))
	update(t, hot, d("_id", 1), d("$set", d("plot", "old")))
	record(t, db, 5, slices.Concat([]string{"update"}, move, []string{"update", "update", commit}), func() error { return s.Update(ctx, 1, hot1, cold1) })
	update(t, hot, d("_id", 1), d("$set", d("plot", "old")))
	record(t, db, 4, slices.Concat([]string{"find"}, move, []string{"update", commit}), func() error { return s.Update(ctx, 1, nil, cold1) })
	move[3] = "insert"
	_, err = cold.DeleteOne(ctx, d("movie_id", 1))
	must(t, err)
	record(t, db, 4, slices.Concat([]string{"find", "update"}, move, []string{"update", commit}), func() error { return s.Update(ctx, 1, nil, cold1) })
	byID(record(t, db, 0, []string{"find"}, func() error { _, err := s.GetHot(ctx, 1); return err })[0])
	byMovie(record(t, db, 0, []string{"find"}, func() error { _, err := s.GetCold(ctx, 1); return err })[0])
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { _, _, err := s.Get(ctx, 1); return err })
	examined(t, db, cmds[0], "_id_", 2, 2)
	same(t, "the cold side's index", "movie_id", cmds[0].Body.Lookup("pipeline", "2", "$lookup", "foreignField").StringValue())
	alone := []string{"update", "update", "update", commit}
	_, err = cold.DeleteOne(ctx, d("movie_id", 1))
	must(t, err)
	hot7 := d("$set", d("a", 7))
	must(t, s.Update(ctx, 1, hot7, nil))
	cmds = record(t, db, 3, alone, func() error { return s.Update(ctx, 1, hot7, d("$set", d("plot", 1))) })
	byID(cmds[2])
	untouched(t, hot)
	cmds = record(t, db, 2, []string{"delete", "delete", commit}, func() error { return s.Delete(ctx, 2) })
	byID2 := cmds[0].Body.Lookup("deletes", "0", "q").String()
	same(t, "delete by", `{"_id": {"$numberInt":"2"}}`, byID2)
	same(t, "delete by", `{"movie_id": {"$numberInt":"2"}}`, cmds[1].Body.Lookup("deletes", "0", "q").String())

	record(t, db, 0, []string{"listCollections", "aggregate", "aggregate"}, func() error { return drain(s.Check(ctx, nil)) })
	cmds = record(t, db, 0, []string{"listCollections", "aggregate"}, func() error { return drain(s.Check(ctx, &mongopatterns.Work{Filter: d("_id", 1)})) })
	examined(t, db, cmds[1], "_id_", 2, 2)
	batch := []string{"update", "find", "find", "update", "update", commit}
	update(t, hot, d("_id", d("$lt", 7)), d("$set", d("plot", "old")))
	cmds = record(t, db, 6*3, slices.Concat([]string{"listCollections", "aggregate"}, batch), func() error {
		_, err := s.Repair(ctx, nil)
		return err
	})
	mongotest.Explain(t, db, cmds[1].Body).RequireNoSort(t)
	examined(t, db, cmds[3], "_id_", 8, 6)
	insert(t, hot, d("_id", 100, "plot", 1), d("_id", 101))
	insert(t, cold, d("movie_id", 200))
	record(t, db, 0, []string{"listCollections", "aggregate", "find", "find", commit, "aggregate", "find", "aggregate", commit}, func() error { return drain(s.Check(ctx, nil)) })
	insert(t, cold, d("movie_id", 102)) // the kinds alternate, and go in two commands all the same
	insert(t, hot, d("_id", 102, "plot", 1), d("_id", 103), d("_id", 104, "plot", 1))
	insert(t, cold, d("movie_id", 104), d("a", 1)) // one names no ID at all
	adopt := func() error { _, err := s.Adopt(ctx, nil); return err }
	record(t, db, 15, slices.Concat([]string{"listCollections", "aggregate"}, slices.Insert(batch, 3, "insert")), adopt)
	record(t, db, 0, []string{"listCollections", "aggregate"}, adopt)
	record(t, db, 0, []string{"listCollections", "aggregate", "aggregate", "find", "aggregate", commit}, func() error { return drain(s.Check(ctx, nil)) })
}
