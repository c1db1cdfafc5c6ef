package subset_test

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

const (
	fam    = "findAndModify"
	commit = "commitTransaction"
	index  = "product_id_1_date_-1__id_-1"
)

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
	o := reviewOptions()
	o.N, o.Fields, o.Filter = 4, []string{"author"}, nil
	s, err := subset.New[int, review](db.Collection("parents"), db.Collection("items"), o)
	must(t, err)
	record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listCollections", "listIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	for i := range 40 {
		insert(t, db.Collection("parents"), d("_id", i))
	}
	add := func(id, at int) func() error {
		return func() error { _, err := s.Add(ctx, 1, review{ID: id, Rating: 1, Date: day(at)}); return err }
	}
	cmds := record(t, db, 2, []string{fam, "insert", "find", commit}, add(0, 10)) // the first of its parent
	examined(t, db, cmds[2], index, 2, 1)
	for i := 1; i < 4; i++ {
		cmds := record(t, db, 2, []string{fam, "insert", commit}, add(i, 10+i))
		examined(t, db, cmds[0], "_id_", 1, 1)
	}
	for i := 4; i < 8; i++ { // one is pushed out
		cmds := record(t, db, 2, []string{fam, "update", commit}, add(i, 10+i))
		same(t, "statements", 2, len(documents(cmds[1].Body.Lookup("updates"))))
		one := cmds[1]
		one.Body, _ = bson.Marshal(d("update", "items", "updates", bson.A{one.Body.Lookup("updates", "0")}))
		examined(t, db, one, "_id_", 1, 1)
	}
	record(t, db, 2, []string{fam, "insert", commit}, add(8, 1)) // not among the best
	many := func(parents ...int) func() error {
		from := 1000 * len(stored(t, db.Collection("items")))
		return func() error {
			_, err := s.AddMany(ctx, func(yield func(int, review) bool) {
				for i, parent := range parents {
					if !yield(parent, review{ID: from + i, Rating: 1, Date: day(1 + i%20)}) {
						return
					}
				}
			})
			return err
		}
	}
	cmds = record(t, db, 3+2, []string{"find", "find", "update", "insert", commit}, many(2, 3, 2)) // first ones
	examined(t, db, cmds[0], "_id_", 3, 2)
	record(t, db, 2+2, []string{"find", "update", "insert", commit}, many(2, 3))
	record(t, db, 3+2, []string{"find", "update", "insert", commit}, many(2, 3, 3)) // as many as N
	cmds = record(t, db, 2+2, []string{"find", "find", "update", "insert", commit}, many(2, 1))
	same(t, "looked for", 2, len(documents(cmds[1].Body.Lookup("filter", "_id", "$in"))))
	examined(t, db, cmds[1], "_id_", 4, 2)

	// Reads.
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := s.Top(ctx, 1); return err })
	examined(t, db, cmds[0], "_id_", 1, 1)
	cmds = record(t, db, 0, []string{"find"}, func() error { return drain(s.All(ctx, 1)) })
	examined(t, db, cmds[0], index, 10, 10)
	mongotest.Explain(t, db, cmds[0].Body).RequireNoSort(t)
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := s.Get(ctx, 1, 3); return err })
	examined(t, db, cmds[0], "_id_", 1, 1)

	// Edits. Kept are 7 6 5 4.
	set := func(id int, field string, value any) func() error {
		return func() error { return s.Update(ctx, 1, id, d("$set", d(field, value))) }
	}
	full := func(id, rating, at int, author string) func() error {
		return func() error {
			return s.Update(ctx, 1, id, d("$set", review{ID: id, Product: 1, Rating: rating, Date: day(at), Author: author}))
		}
	}
	refilled := func(cmds mongotest.Commands) {
		t.Helper()
		find := cmds[len(cmds)-3]
		examined(t, db, find, index, 4, 4) // the server fetches also what it skips
		mongotest.Explain(t, db, find.Body).RequireNoSort(t)
		same(t, "limit", int64(1), find.Body.Lookup("limit").AsInt64())
	}
	cmds = record(t, db, 2, []string{fam, "find", "update", commit}, full(6, 1, 16, "x"))
	examined(t, db, cmds[0], "_id_", 1, 1)
	record(t, db, 1, []string{fam, "find", commit}, full(6, 1, 16, "x"))
	record(t, db, 3, []string{fam, "find", "update", commit}, full(2, 1, 12, "not kept"))
	refilled(record(t, db, 3, []string{fam, "find", fam, "find", "update", commit}, full(7, 1, 2, "sinks")))
	record(t, db, 2, []string{fam, "find", fam, "find", commit}, full(7, 1, 17, "rises"))
	record(t, db, 2, []string{fam, "find", "update", commit}, set(6, "author", "y"))
	record(t, db, 2, []string{fam, "find", "update", commit}, set(6, "rating", 2))
	record(t, db, 3, []string{fam, "find", "update", commit}, set(2, "author", "y"))
	record(t, db, 3, []string{fam, "find", fam, "update", commit}, set(2, "date", day(2)))
	refilled(record(t, db, 3, []string{fam, "find", fam, "find", "update", commit}, set(7, "date", day(1))))
	record(t, db, 1, []string{fam, "find", commit}, set(7, "date", day(1)))
	record(t, db, 1, []string{fam, "find", commit}, set(7, "text", "not kept"))
	record(t, db, 2, []string{fam, "find", fam, "find", commit}, set(7, "date", day(17)))
	record(t, db, 2, []string{fam, "find", fam, commit}, set(7, "date", day(18)))

	// Deletions.
	record(t, db, 2, []string{fam, fam, commit}, func() error { return s.Delete(ctx, 1, 0) })
	refilled(record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, 1, 5) }))
	cmds = record(t, db, 1+4, []string{"delete", "delete", commit}, func() error { _, err := s.DeleteParent(ctx, 3); return err })
	examined(t, db, cmds[1], index, 0, 0)

	// Maintenance: 39 parents.
	check := func() error { return drain(s.Check(ctx, nil)) }
	cmds = record(t, db, 0, []string{"listCollections", "find", "aggregate", "aggregate", "find"}, check)
	mongotest.Explain(t, db, cmds[2].Body).RequireIndex(t, index)
	one := &mongopatterns.Work{Filter: d("_id", 1)}
	record(t, db, 0, []string{"listCollections", "find", "aggregate"}, func() error { return drain(s.Check(ctx, one)) })
	update(t, db.Collection("parents"), d("_id", d("$in", bson.A{1, 2})), d("$inc", d("num_reviews", 1)))
	record(t, db, 0, []string{"listCollections", "find", "aggregate", "find", "aggregate", commit, "aggregate", "find"}, check)
	repair := func(work *mongopatterns.Work) func() error {
		return func() error { _, err := s.Repair(ctx, work); return err }
	}
	record(t, db, 0, []string{"listCollections", "find", "aggregate", "find", "aggregate", commit}, repair(&mongopatterns.Work{DryRun: true}))
	record(t, db, 2, []string{"listCollections", "find", "aggregate", "update", "find", "aggregate", "update", commit}, repair(one))
	record(t, db, 2, []string{"listCollections", "find", "aggregate", "update", "find", "aggregate", "update", commit}, repair(nil))
	update(t, db.Collection("parents"), d("_id", 1), d("$unset", d("num_reviews", ""), "$pop", d("reviews", 1)))
	record(t, db, 2, []string{"listCollections", "find", "aggregate", "update", "find", "aggregate", "find", "update", commit}, repair(nil))
	insert(t, db.Collection("items"), d("_id", 800, "product_id", 800))
	record(t, db, 0, []string{"listCollections", "find", "aggregate", "aggregate", "find", "aggregate", commit, "find"}, check)
	_, err = db.Collection("items").DeleteOne(ctx, d("_id", 800))
	must(t, err)
	update(t, db.Collection("parents"), d("_id", 31), d("$set", d("reviews", bson.A{d("rating", 1), d("rating", 2)})))
	update(t, db.Collection("parents"), d("_id", 32), d("$set", d("reviews", bson.A{d("_id", 900, "rating", 1), d("rating", 2)})))
	record(t, db, 4+4, []string{"listCollections", "find", "aggregate", "update", "find", "aggregate", "find", "insert", "aggregate", "update", commit}, func() error {
		_, err := s.Adopt(ctx, nil)
		return err
	})
	clean(t, db, s)
	update(t, db.Collection("parents"), d(), d("$inc", d("num_reviews", 1)))
	names := []string{"listCollections", "find"}
	for i := range 4 { // of 10
		if i > 0 {
			names = append(names, "getMore")
		}
		names = append(names, "aggregate", "update", "find", "aggregate", "update", commit)
	}
	record(t, db, 2*39, names, repair(&mongopatterns.Work{BatchSize: 10}))
	clean(t, db, s)
}

func documents(array bson.RawValue) []bson.RawValue {
	values, _ := array.Array().Values()
	return values
}

// A log host with 1,000 messages: a deletion reads the one that follows, not all.
func TestCostsOfALargeN(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	s := newSubset[string, bson.D](t, db, &subset.Options{ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true})
	insert(t, db.Collection("parents"), d("_id", "goofy"))
	messages := make([]bson.D, 1100)
	for i := range messages {
		messages[i] = d("_id", i, "message", strings.Repeat("x", 400))
	}
	_, err := s.AddMany(ctx, seq("goofy", messages...))
	must(t, err)
	cmds := record(t, db, 3, []string{fam, fam, "find", "update", commit}, func() error { return s.Delete(ctx, "goofy", 1050) })
	size := 0
	for _, c := range cmds {
		size += len(c.Reply) + len(c.Body)
	}
	if size > 10_000 {
		t.Errorf("%d bytes", size)
	}
	cmds = record(t, db, 2, []string{fam, "update", commit}, func() error { _, err := s.Add(ctx, "goofy", d("_id", 2000)); return err })
	if size = len(cmds[0].Reply) + len(cmds[0].Body); size > 10_000 {
		t.Errorf("%d bytes", size)
	}
	record(t, db, 2, []string{fam, "find", "update", commit}, func() error { return s.Update(ctx, "goofy", 1060, d("$set", d("message", "y"))) })
	record(t, db, 0, []string{"find"}, func() error { _, err := s.Top(ctx, "goofy"); return err })
	clean(t, db, s)
}

// What Options.Filter leaves out, and a larger N, cost as the methods say.
func TestCostsOfFilterAndAnotherN(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	o := &subset.Options{N: 3, Filter: d("ok", true)}
	s := newSubset[int, bson.D](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	add := func(id int, ok bool) func() error {
		return func() error { _, err := s.Add(ctx, 1, d("_id", id, "ok", ok)); return err }
	}
	record(t, db, 2, []string{fam, "insert", "find", commit}, add(1, true))
	record(t, db, 3, []string{"update", "insert", commit}, add(2, false)) // and a mark that goes
	set := func(pairs ...any) func() error {
		return func() error { return s.Update(ctx, 1, 2, d("$set", d(pairs...))) }
	}
	record(t, db, 1, []string{fam, "find", commit}, set("a", 1))
	record(t, db, 2, []string{fam, "find", fam, commit}, set("ok", true))
	record(t, db, 2, []string{fam, "find", fam, commit}, set("ok", false))
	record(t, db, 1, []string{fam, commit}, func() error { return s.Delete(ctx, 1, 2) })
	many := func(from int) func() error {
		return func() error {
			_, err := s.AddMany(ctx, seq(1, d("_id", from, "ok", true), d("_id", from+1, "ok", true)))
			return err
		}
	}
	must(t, many(10)())
	must(t, many(20)())
	larger := func(n int) {
		o.N = n
		s = newSubset[int, bson.D](t, db, o)
	}
	larger(4)
	record(t, db, 3, []string{fam, "insert", "find", "update", commit}, add(0, true))
	larger(6)
	record(t, db, 4, []string{"find", "update", "insert", "find", "find", "update", commit}, many(-20))
	clean(t, db, s)
}

// What the first write costs that meets a parent of old code, with 5 items in its array, and
// a later one that meets what old code has pushed since.
func TestCostsOfAdoptingWrites(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	adopt := []string{"update", "find", "aggregate", "find", "insert", "aggregate", "update"}
	met := append([]string{fam, "find"}, adopt...) // it looks why it has met no parent that it can write
	for name, test := range map[string]struct {
		parent  bson.D
		items   []bson.D // in the collection
		write   func(s *subset.Subset[int, bson.D]) error
		written int
		names   []string
	}{
		"add": {d("items", bson.A{d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4), d("_id", 5)}), nil,
			func(s *subset.Subset[int, bson.D]) error { _, err := s.Add(ctx, 1, d("_id", 9)); return err },
			2 + 5 + 2, slices.Concat(met, []string{fam, "update", commit})},
		"add many": {d("items", bson.A{d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4), d("_id", 5)}), nil,
			func(s *subset.Subset[int, bson.D]) error { _, err := s.AddMany(ctx, seq(1, d("_id", 9))); return err },
			2 + 5 + 2, slices.Concat([]string{"find"}, adopt, []string{"find", "update", "insert", commit})},
		"update": {d("items", bson.A{d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4), d("_id", 5)}), nil,
			func(s *subset.Subset[int, bson.D]) error { return s.Update(ctx, 1, 5, d("$set", d("a", 1))) },
			2 + 5 + 2, slices.Concat(met, []string{fam, "find", "update", commit})},
		"delete": {d("items", bson.A{d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4), d("_id", 5)}), nil,
			func(s *subset.Subset[int, bson.D]) error { return s.Delete(ctx, 1, 5) },
			2 + 5 + 3, slices.Concat(met, []string{fam, fam, "find", "update", commit})},
		"items in the collection": {d("name", "x"), []bson.D{d("_id", 1, "parent", 1)},
			func(s *subset.Subset[int, bson.D]) error { _, err := s.Add(ctx, 1, d("_id", 9)); return err },
			2 + 2, []string{fam, "insert", "find", "update", "find", "aggregate", "find", "update", commit}},
		"pushed since": {d("items", bson.A{d("_id", 2), d("_id", 3), d("_id", 7)}, "items_count", 2), []bson.D{d("_id", 2, "parent", 1), d("_id", 3, "parent", 1)},
			func(s *subset.Subset[int, bson.D]) error { _, err := s.Add(ctx, 1, d("_id", 9)); return err },
			2 + 2 + 1, slices.Concat([]string{fam, "update", "find"}, adopt, []string{commit})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 2})
			insert(t, db.Collection("parents"), append(d("_id", 1), test.parent...))
			for _, item := range test.items {
				insert(t, db.Collection("items"), item)
			}
			record(t, db, test.written, test.names, func() error { return test.write(s) })
			clean(t, db, s)
		})
	}
}
