package subset_test

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

var record = costs.Record

// examined wants a plan by this index that looks at no more than these.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	plan.RequireIndex(t, index)
	plan.RequireExamined(t, keys, docs)
}

// find is the find of a filter.
func find(coll, filter bson.RawValue) bson.Raw {
	raw, _ := bson.Marshal(d("find", coll, "filter", filter))
	return raw
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	fam    = "findAndModify"
	commit = "commitTransaction"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	o := reviewOptions()
	o.N = 4
	s, err := subset.New[int, review](db.Collection("parents"), db.Collection("items"), o)
	must(t, err)
	const index = "product_id_1_date_-1__id_-1"
	record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	for i := range 40 {
		insert(t, db.Collection("parents"), d("_id", i))
	}
	add := func(id, at int) func() error {
		return func() error { _, err := s.Add(ctx, 1, review{ID: id, Rating: 1, Date: day(at)}); return err }
	}
	cmds := record(t, db, 2, []string{fam, "find", fam, "insert", commit}, add(0, 10)) // the first of its parent
	examined(t, db, cmds[1], index, 1, 0)
	for i := 1; i < 8; i++ {
		cmds := record(t, db, 2, []string{fam, "insert", commit}, add(i, 10+i))
		examined(t, db, cmds[0], "_id_", 1, 1)
	}
	record(t, db, 2, []string{fam, "insert", commit}, add(8, 1)) // not among the best
	many := func(n, from int) func() error {
		return func() error {
			_, err := s.AddMany(ctx, func(yield func(int, review) bool) {
				for i := range n {
					if !yield(2+i%5, review{ID: from + i, Rating: 1, Date: day(1 + i%20)}) {
						return
					}
				}
			}, &subset.BatchOptions{BatchSize: 20})
			return err
		}
	}
	cmds = record(t, db, 40+10, []string{"update", "find", "find", "update", "insert", commit, "update", "insert", commit}, many(40, 100))
	examined(t, db, cmds[0], "_id_", 1, 1)
	examined(t, db, cmds[1], "_id_", 6, 5)
	examined(t, db, cmds[2], index, 5, 1)

	// Reads.
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { _, err := s.Top(ctx, 1); return err })
	examined(t, db, cmds[0], "_id_", 1, 1)
	cmds = record(t, db, 0, []string{"find"}, func() error { return drain(s.All(ctx, 1)) })
	examined(t, db, cmds[0], index, 9, 9)
	mongotest.Explain(t, db, cmds[0].Body).RequireNoSort(t)
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := s.Get(ctx, 1, 3); return err })
	examined(t, db, cmds[0], "_id_", 1, 1)

	// Edits. Kept are 7 6 5 4.
	set := func(id int, field string, value any) func() error {
		return func() error { return s.Update(ctx, 1, id, d("$set", d(field, value))) }
	}
	full := func(id, rating, at int, author string) func() error {
		return func() error {
			return s.Replace(ctx, 1, review{ID: id, Rating: rating, Date: day(at), Author: author})
		}
	}
	refilled := func(cmds mongotest.Commands) {
		t.Helper()
		find := cmds[len(cmds)-3]
		examined(t, db, find, index, 4, 4)
		mongotest.Explain(t, db, find.Body).RequireNoSort(t)
		if limit := find.Body.Lookup("limit").AsInt64(); limit != 4 {
			t.Errorf("limit %d", limit)
		}
	}
	cmds = record(t, db, 2, []string{fam, fam, commit}, full(6, 1, 16, "x"))
	examined(t, db, cmds[0], "_id_", 1, 1)
	examined(t, db, cmds[1], "_id_", 1, 1)
	record(t, db, 1, []string{fam, commit}, full(6, 1, 16, "x"))
	record(t, db, 3, []string{fam, fam, "update", commit}, full(2, 1, 12, "not kept"))
	refilled(record(t, db, 3, []string{fam, fam, "find", "update", commit}, full(7, 1, 2, "sinks")))
	record(t, db, 2, []string{fam, fam, commit}, full(7, 1, 17, "rises"))
	record(t, db, 2, []string{fam, "find", fam, commit}, set(6, "author", "y"))
	record(t, db, 3, []string{fam, "find", fam, "update", commit}, set(2, "author", "y"))
	refilled(record(t, db, 3, []string{fam, "find", fam, "find", "update", commit}, set(7, "date", day(1))))
	record(t, db, 1, []string{fam, "find", commit}, set(7, "date", day(1)))
	record(t, db, 2, []string{fam, "find", fam, commit}, set(7, "date", day(17)))

	// Deletions and moves.
	cmds = record(t, db, 2, []string{fam, fam, commit}, func() error { return s.Delete(ctx, 1, 0) })
	examined(t, db, cmds[0], "_id_", 1, 1)
	refilled(record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, 1, 5) }))
	record(t, db, 3, []string{fam, fam, fam, "find", fam, commit}, func() error { return s.Move(ctx, 1, 30, 1) })
	record(t, db, 4, []string{fam, fam, "find", "update", fam, commit}, func() error { return s.Move(ctx, 1, 30, 7) })
	back := record(t, db, 3, []string{fam, fam, fam, commit}, func() error { return s.Move(ctx, 30, 1, 7) })
	there := record(t, db, 4, []string{fam, fam, "find", "update", fam, commit}, func() error { return s.Move(ctx, 1, 30, 7) })
	same(t, "the parents' order", there[1].Body.Lookup("query", "_id").String(), back[1].Body.Lookup("query", "_id").String())
	must(t, s.Move(ctx, 30, 1, 7))
	record(t, db, 0, []string{"find"}, func() error { return s.Move(ctx, 1, 1, 7) })
	cmds = record(t, db, 1+8, []string{"delete", "delete", commit}, func() error { _, err := s.DeleteParent(ctx, 6); return err })
	examined(t, db, cmds[0], "_id_", 1, 1)
	examined(t, db, cmds[1], index, 0, 0)
	cmds = record(t, db, 1, []string{fam, "find", commit}, func() error { return s.DeleteEmptyParent(ctx, 20) })
	examined(t, db, cmds[1], index, 0, 0)

	// In the caller's transaction: no commit, and the parents are looked at first.
	inTransaction := func(written int, names []string, fn func(ctx context.Context) error) {
		t.Helper()
		session, err := db.Client().StartSession()
		must(t, err)
		defer session.EndSession(context.Background())
		must(t, session.StartTransaction())
		record(t, db, written, names, func() error { return fn(mongo.NewSessionContext(ctx, session)) })
		must(t, session.AbortTransaction(ctx))
	}
	inTransaction(2, []string{fam, "insert"}, func(ctx context.Context) error { _, err := s.Add(ctx, 1, review{ID: 50}); return err })
	inTransaction(3, []string{"find", "find", fam, fam, fam}, func(ctx context.Context) error { return s.Move(ctx, 1, 30, 2) })
	inTransaction(3, []string{"find", "find", "find", "find", fam, fam, fam, "find", fam}, func(ctx context.Context) error { return s.Move(ctx, 1, 21, 2) })
	inTransaction(2, []string{fam, "find", fam, "insert"}, func(ctx context.Context) error { _, err := s.Add(ctx, 21, review{ID: 50}); return err })
	inTransaction(2, []string{"aggregate", "find", "find", "update", "find", "find", "update", "insert"}, func(ctx context.Context) error {
		_, err := s.AddMany(ctx, func(yield func(int, review) bool) { yield(21, review{ID: 51}) }, nil)
		return err
	})
	inTransaction(2, []string{"aggregate", "update", "insert"}, func(ctx context.Context) error {
		_, err := s.AddMany(ctx, func(yield func(int, review) bool) { yield(1, review{ID: 51}) }, nil)
		return err
	})

	// Maintenance.
	cmds = record(t, db, 0, []string{"aggregate", "aggregate", "find"}, func() error { return drain(s.Check(ctx)) })
	mongotest.Explain(t, db, cmds[0].Body).RequireIndex(t, index)
	same(t, "index of the lookup", "product_id", cmds[0].Body.Lookup("pipeline", "4", "$lookup", "foreignField").StringValue())
	update(t, db.Collection("parents"), d("_id", d("$in", bson.A{1, 2})), d("$inc", d("num_reviews", 1)))
	record(t, db, 0, []string{"aggregate", "find", "aggregate", commit, "aggregate", "find"}, func() error { return drain(s.Check(ctx)) })
	cmds = record(t, db, 4, []string{"aggregate", "update", "find", "aggregate", "update", commit, "aggregate", "find"}, func() error {
		_, err := s.Repair(ctx, nil)
		return err
	})
	examined(t, db, cmds[1], "_id_", 3, 2)
	items := cmds[3]
	items.Body = find(items.Body.Lookup("aggregate"), items.Body.Lookup("pipeline", "0", "$match"))
	examined(t, db, items, index, 19, 17)
	clean(t, db, s)
	update(t, db.Collection("parents"), d("_id", 1), d("$unset", d("num_reviews", ""), "$pop", d("reviews", 1)))
	record(t, db, 2, []string{"aggregate", "update", "find", "aggregate", "find", "update", commit, "aggregate", "find"}, func() error { _, err := s.Repair(ctx, nil); return err })
	insert(t, db.Collection("items"), d("_id", 800, "product_id", 800))
	confirmed := []string{"aggregate", "aggregate", "find", "find", commit, "find"}
	record(t, db, 0, confirmed, func() error { return drain(s.Check(ctx)) })
	record(t, db, 0, confirmed, func() error { _, err := s.Repair(ctx, nil); return err })
	_, err = db.Collection("items").DeleteOne(ctx, d("_id", 800))
	must(t, err)
	update(t, db.Collection("parents"), d("_id", 31), d("$set", d("reviews", bson.A{d("rating", 1), d("rating", 2)})))
	update(t, db.Collection("parents"), d("_id", 32), d("$set", d("reviews", bson.A{d("_id", 900, "rating", 1), d("rating", 2)})))
	record(t, db, 4+4, []string{"aggregate", "update", "find", "find", "insert", "aggregate", "update", commit}, func() error {
		_, err := s.Adopt(ctx, nil)
		return err
	})
	clean(t, db, s)
	// 39 parents, 10 a batch.
	update(t, db.Collection("parents"), d(), d("$inc", d("num_reviews", 1)))
	var names []string
	for range 4 {
		names = append(names, "getMore", "update", "find", "aggregate", "update", commit)
	}
	names[0] = "aggregate"
	record(t, db, 2*38, append(names, "aggregate", "find"), func() error {
		_, err := s.Repair(ctx, &subset.RepairOptions{BatchSize: 10})
		return err
	})
	clean(t, db, s)
}

func TestCostsWithoutCount(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	o := reviewOptions()
	o.N, o.NoCount, o.CountField, o.Values = 3, true, "", nil
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	add := func(id, at int) func() error {
		return func() error { _, err := s.Add(ctx, 1, review{ID: id, Date: day(at)}); return err }
	}
	for i := range 5 {
		record(t, db, 2, []string{fam, "insert", commit}, add(i, 10+i))
	}
	record(t, db, 3, []string{fam, "insert", "update", commit}, add(9, 1))
	record(t, db, 4, []string{"update", "insert", "update", commit}, func() error { // its mark is written and taken off
		_, err := s.AddMany(ctx, func(yield func(int, review) bool) {
			_ = yield(1, review{ID: 20, Date: day(1)}) && yield(1, review{ID: 21, Date: day(1)})
		}, nil)
		return err
	})
	record(t, db, 3, []string{fam, fam, "update", commit}, func() error { return s.Delete(ctx, 1, 9) })
	record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, 1, 4) })
	for _, id := range []int{20, 21} {
		record(t, db, 3, []string{fam, fam, "update", commit}, func() error { return s.Delete(ctx, 1, id) })
	}
	record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, 1, 3) })
	clean(t, db, s)
	record(t, db, 0, []string{"aggregate", "aggregate", "find"}, func() error { return drain(s.Check(ctx)) })
	update(t, db.Collection("parents"), d("_id", 1), d("$unset", d("reviews", "")))
	record(t, db, 0, []string{"aggregate", "find", "find", commit, "aggregate", "find"}, func() error { return drain(s.Check(ctx)) })
	record(t, db, 2, []string{"aggregate", "update", "find", "find", "update", commit, "aggregate", "find"}, func() error { _, err := s.Repair(ctx, nil); return err })
}

// Where no item can be invalid, none is looked for.
func TestCostsOfCheckByID(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{Values: []subset.Value{{Field: "n", Sum: "sum", Count: "numbers"}}})
	record(t, db, 0, []string{"aggregate", "aggregate"}, func() error { return drain(s.Check(t.Context())) })
}

// More than the server's first batch of 101 takes no further round trips.
func TestCostsOfALargeN(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	o := reviewOptions()
	o.N = 150
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1))
	record(t, db, 161, []string{"update", "find", "find", "update", "insert", commit}, func() error {
		_, err := s.AddMany(ctx, func(yield func(int, review) bool) {
			for i := range 160 {
				if !yield(1, review{ID: i, Rating: 1, Date: day(1)}) {
					return
				}
			}
		}, nil)
		return err
	})
	record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, 1, 159) })
	record(t, db, 0, []string{"aggregate"}, func() error { _, err := s.Top(ctx, 1); return err })
	update(t, db.Collection("parents"), d("_id", 1), d("$set", d("reviews", bson.A{})))
	record(t, db, 2, []string{"aggregate", "update", "find", "aggregate", "update", commit, "aggregate", "find"}, func() error { _, err := s.Repair(ctx, nil); return err })
	clean(t, db, s)
}

func TestSplitCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	s, err := subset.NewSplit[int, bson.D, bson.D](hot, cold, &subset.SplitOptions{IDField: "movie_id", ColdFields: []string{"plot"}})
	must(t, err)
	record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	for i := range 30 {
		record(t, db, 2, []string{"insert", "insert", commit}, func() error { return s.Insert(ctx, i, d("a", 1), d("plot", 1)) })
	}
	byID := func(c mongotest.Command) { t.Helper(); examined(t, db, c, "_id_", 1, 1) }
	byMovie := func(c mongotest.Command) { t.Helper(); examined(t, db, c, "movie_id_1", 1, 1) }
	cmds := record(t, db, 2, []string{"update", "update", commit}, func() error { return s.Replace(ctx, 1, d("a", 2), d("plot", 2)) })
	byID(cmds[0])
	byMovie(cmds[1])
	cmds = record(t, db, 2, []string{"update", "update", commit}, func() error { return s.Update(ctx, 1, d("$inc", d("a", 2)), d("$inc", d("plot", 2))) })
	byID(cmds[0])
	byMovie(cmds[1])
	byID(record(t, db, 1, []string{"update"}, func() error { return s.Update(ctx, 1, d("$inc", d("a", 2)), nil) })[0])
	cmds = record(t, db, 1, []string{"find", "update"}, func() error { return s.Update(ctx, 1, nil, d("$inc", d("plot", 2))) })
	byID(cmds[0])
	byMovie(cmds[1])
	move := []string{"update", "find", "find", "update", "update"}
	cold1, hot1 := d("$inc", d("plot", 1)), d("$inc", d("a", 1))
	update(t, hot, d("_id", 1), d("$set", d("plot", 1)))
	record(t, db, 5, slices.Concat([]string{"update"}, move, []string{"update", "update", commit}), func() error { return s.Update(ctx, 1, hot1, cold1) })
	update(t, hot, d("_id", 1), d("$set", d("plot", 1)))
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
	alone := []string{"update", "update", "update", "update", commit}
	_, err = cold.DeleteOne(ctx, d("movie_id", 1))
	must(t, err)
	cmds = record(t, db, 3, alone, func() error { return s.Replace(ctx, 1, d("a", 7), d("plot", 1)) })
	byID(cmds[2])
	_, err = cold.DeleteOne(ctx, d("movie_id", 1))
	must(t, err)
	record(t, db, 3, alone, func() error { return s.Update(ctx, 1, d("$set", d("a", 7)), d("$set", d("plot", 1))) })
	untouched(t, hot)
	cmds = record(t, db, 2, []string{"delete", "delete", commit}, func() error { return s.Delete(ctx, 2) })
	byID2 := cmds[0].Body.Lookup("deletes", "0", "q").String()
	same(t, "delete by", `{"_id": {"$numberInt":"2"}}`, byID2)
	same(t, "delete by", `{"movie_id": {"$numberInt":"2"}}`, cmds[1].Body.Lookup("deletes", "0", "q").String())

	cmds = record(t, db, 0, []string{"aggregate", "aggregate"}, func() error { return drain(s.Check(ctx)) })
	same(t, "read at a time", int64(1000), cmds[0].Body.Lookup("cursor", "batchSize").AsInt64()) // or a cursor would wait too long for the next
	batch := []string{"update", "find", "find", "update", "update", commit}
	update(t, hot, d("_id", d("$lt", 7)), d("$set", d("plot", "old")))
	record(t, db, 6*3, slices.Concat([]string{"aggregate"}, batch, batch, []string{"aggregate"}), func() error {
		_, err := s.Repair(ctx, &subset.RepairOptions{BatchSize: 3})
		return err
	})
	insert(t, hot, d("_id", 100, "plot", 1), d("_id", 101))
	insert(t, cold, d("movie_id", 200))
	record(t, db, 0, slices.Concat([]string{"aggregate"}, []string{"find", "find", commit, "find", "find", commit},
		[]string{"aggregate", "find", "find", commit}), func() error { return drain(s.Check(ctx)) })
	insert(t, cold, d("movie_id", 102)) // the kinds alternate, and go in two commands all the same
	insert(t, hot, d("_id", 102, "plot", 1), d("_id", 103), d("_id", 104, "plot", 1))
	insert(t, cold, d("movie_id", 104))
	batch = slices.Insert(batch, 3, "insert")
	record(t, db, 15, slices.Concat([]string{"aggregate"}, batch), func() error { _, err := s.Adopt(ctx, nil); return err })
	names := []string{"find"}
	for i := range 4 { // 35 documents by 10, one of them the orphan
		if i > 0 {
			names = append(names, "getMore")
		}
		names = append(names, "update", "find", "update", "find", "update", "delete", commit)
	}
	record(t, db, 34*4, names, func() error { _, err := s.Join(ctx, &subset.SplitAdoptOptions{BatchSize: 10}); return err })
}
