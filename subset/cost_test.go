package subset_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

const (
	fam    = "findAndModify"
	commit = "commitTransaction"
	index  = "product_id_1_date_-1__id_-1"
)

var examined = costs.Examined

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents, items := db.Collection("parents"), db.Collection("items")
	o := reviewOptions()
	o.N, o.Fields, o.Filter = 4, []string{"author"}, nil
	s, err := subset.New[int, review](parents, items, o)
	must(t, err)
	list, up, ins, find, agg := "listCollections", "update", "insert", "find", "aggregate"
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes that creates one", Sends: []string{list, "aggregate", "listIndexes", "createIndexes"}, Call: s.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{list, "aggregate", "listIndexes"}, Call: s.EnsureIndexes},
	})
	for i := range 40 {
		insert(t, parents, d("_id", i))
	}

	// Insertions.
	add := func(id, at int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return testkit.ErrorOf(s.Insert(ctx, 1, review{ID: id, Rating: 1, Date: day(at)}))
		}
	}
	many := func(of ...int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			from := 1000 * of[0]
			return testkit.ErrorOf(s.InsertMany(ctx, func(yield func(int, review) bool) {
				for i, parent := range of[1:] {
					if !yield(parent, review{ID: from + i, Rating: 1, Date: day(1 + i%20)}) {
						return
					}
				}
			}, nil))
		}
	}
	cases := []costs.Case{
		{Name: "Insert of the first", Sends: []string{fam, ins, find, commit}, Writes: 2, Explain: 2, Index: index, Keys: 2, Docs: 1, Call: add(0, 10)},
	}
	for i := 1; i < 4; i++ {
		cases = append(cases, costs.Case{Name: "Insert", Sends: []string{fam, ins, commit}, Writes: 2, Index: "_id_", Keys: 1, Docs: 1, Call: add(i, 10+i)})
	}
	for i := 4; i < 8; i++ {
		cases = append(cases, costs.Case{Name: "Insert that pushes one out", Sends: []string{fam, up, commit}, Writes: 2, Call: add(i, 10+i), Check: func(cmds mongotest.Commands) {
			same(t, "statements", 2, len(documents(cmds[1].Body.Lookup("updates"))))
			one := cmds[1]
			one.Body, _ = bson.Marshal(d("update", "items", "updates", bson.A{one.Body.Lookup("updates", "0")}))
			examined(t, db, one, "_id_", 1, 1)
		}})
	}
	costs.Run(t, db, append(cases, []costs.Case{
		{Name: "Insert of one that is not kept", Sends: []string{fam, ins, commit}, Writes: 2, Call: add(8, 1)},
		{Name: "InsertMany of first ones", Sends: []string{find, find, up, ins, commit}, Writes: 3 + 2, Index: "_id_", Keys: 3, Docs: 2, Call: many(9, 2, 3, 2)},
		{Name: "InsertMany", Sends: []string{find, up, ins, commit}, Writes: 2 + 2, Call: many(12, 2, 3)},
		{Name: "InsertMany of as many as N", Sends: []string{find, up, ins, commit}, Writes: 3 + 2, Call: many(14, 2, 3, 3)},
		{Name: "InsertMany that pushes out", Sends: []string{find, find, up, ins, commit}, Writes: 2 + 2, Explain: 1, Index: "_id_", Keys: 4, Docs: 2, Call: many(17, 2, 1),
			Check: func(cmds mongotest.Commands) {
				same(t, "looked for", 2, len(documents(cmds[1].Body.Lookup("filter", "_id", "$in"))))
			}},
		{Name: "Top", Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.Top(ctx, 1)) }},
		{Name: "All", Sends: []string{find}, Index: index, Keys: 10, Docs: 10, NoSort: true, Call: func(ctx context.Context) error { return testkit.Drain(s.All(ctx, 1)) }},
		{Name: "Get", Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.Get(ctx, 1, 3)) }},
	}...))

	// Edits. Kept are 7 6 5 4.
	set := func(id int, field string, value any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, 1, id, d("$set", d(field, value))) }
	}
	full := func(id, rating, at int, author string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return s.Update(ctx, 1, id, d("$set", review{ID: id, Product: 1, Rating: rating, Date: day(at), Author: author}))
		}
	}
	refilled := func(cmds mongotest.Commands) {
		t.Helper()
		find := cmds[len(cmds)-4]
		examined(t, db, find, index, 4, 4) // the server fetches also what it skips
		mongotest.Explain(t, db, find.Body).RequireNoSort(t)
		same(t, "limit", int64(1), find.Body.Lookup("limit").AsInt64())
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Update of all fields", Sends: []string{fam, find, up, commit}, Writes: 2, Index: "_id_", Keys: 1, Docs: 1, Call: full(6, 1, 16, "x")},
		{Name: "Update that changes nothing", Sends: []string{fam, find, commit}, Writes: 1, Call: full(6, 1, 16, "x")},
		{Name: "Update of one that is not kept", Sends: []string{fam, find, up, commit}, Writes: 3, Call: full(2, 1, 12, "not kept")},
		{Name: "Update that sinks", Sends: []string{fam, find, fam, find, up, up, commit}, Writes: 5, Check: refilled, Call: full(7, 1, 2, "sinks")},
		{Name: "Update that rises", Sends: []string{fam, find, fam, find, commit}, Writes: 2, Call: full(7, 1, 17, "rises")},
		{Name: "Update of a field", Sends: []string{fam, find, up, commit}, Writes: 2, Call: set(6, "author", "y")},
		{Name: "Update of a sum", Sends: []string{fam, find, up, commit}, Writes: 2, Call: set(6, "rating", 2)},
		{Name: "Update of a field of one that is not kept", Sends: []string{fam, find, up, commit}, Writes: 3, Call: set(2, "author", "y")},
		{Name: "Update of the order of one that is not kept", Sends: []string{fam, find, fam, up, commit}, Writes: 3, Call: set(2, "date", day(2))},
		{Name: "Update of the order that sinks", Sends: []string{fam, find, fam, find, up, up, commit}, Writes: 5, Check: refilled, Call: set(7, "date", day(1))},
		{Name: "Update of the order that changes nothing", Sends: []string{fam, find, commit}, Writes: 1, Call: set(7, "date", day(1))},
		{Name: "Update of a field that is not kept", Sends: []string{fam, find, commit}, Writes: 1, Call: set(7, "text", "not kept")},
		{Name: "Update of the order that rises", Sends: []string{fam, find, fam, find, commit}, Writes: 2, Call: set(7, "date", day(17))},
		{Name: "Update of the order of the first", Sends: []string{fam, find, fam, commit}, Writes: 2, Call: set(7, "date", day(18))},
		{Name: "Delete of one that is not kept", Sends: []string{fam, fam, commit}, Writes: 2, Call: func(ctx context.Context) error { return s.Delete(ctx, 1, 0) }},
		{Name: "Delete", Sends: []string{fam, fam, find, up, up, commit}, Writes: 5, Check: refilled, Call: func(ctx context.Context) error { return s.Delete(ctx, 1, 5) }},
		{Name: "DeleteParent", Sends: []string{"delete", "delete", commit}, Writes: 1 + 4, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.DeleteParent(ctx, 3)) },
			Check: func(cmds mongotest.Commands) { examined(t, db, cmds[1], index, 0, 0) }},
	})

	// Maintenance: 39 parents.
	check := func(ctx context.Context) error { return testkit.Drain(s.Check(ctx, nil)) }
	one := &mongopatterns.Work{Filter: d("_id", 1)}
	repair := func(work *mongopatterns.Work) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(s.Repair(ctx, work)) }
	}
	inBatches := []string{list, find}
	for i := range 4 { // of 10
		if i > 0 {
			inBatches = append(inBatches, "getMore")
		}
		inBatches = append(inBatches, agg, up, find, agg, up, commit)
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Check", Sends: []string{list, find, agg, agg, find}, Explain: 2, Index: index, Call: check},
		{Name: "Check of one", Sends: []string{list, find, agg}, Call: func(ctx context.Context) error { return testkit.Drain(s.Check(ctx, one)) }},
		{Name: "Check that finds", Before: func() { testkit.Update(t, parents, d("_id", d("$in", bson.A{1, 2})), d("$inc", d("num_reviews", 1))) },
			Sends: []string{list, find, agg, find, agg, commit, agg, find}, Call: check},
		{Name: "Repair of a dry run", Sends: []string{list, find, agg, find, agg, commit}, Call: repair(&mongopatterns.Work{DryRun: true})},
		{Name: "Repair of one", Sends: []string{list, find, agg, up, find, agg, up, commit}, Writes: 2, Call: repair(one)},
		{Name: "Repair", Sends: []string{list, find, agg, up, find, agg, up, commit}, Writes: 2, Call: repair(nil)},
		{Name: "Repair that refills", Before: func() {
			testkit.Update(t, parents, d("_id", 1), d("$unset", d("num_reviews", ""), "$pop", d("reviews", 1)))
		},
			Sends: []string{list, find, agg, up, find, agg, find, up, up, commit}, Writes: 4, Call: repair(nil)},
		{Name: "Check that finds an orphan", Before: func() { insert(t, items, d("_id", 800, "product_id", 800)) },
			Sends: []string{list, find, agg, agg, find, agg, commit, find}, Call: check},
		{Name: "Adopt", Before: func() {
			_, err := items.DeleteOne(t.Context(), d("_id", 800))
			must(t, err)
			testkit.Update(t, parents, d("_id", 31), d("$set", d("reviews", bson.A{d("rating", 1), d("rating", 2)})))
			testkit.Update(t, parents, d("_id", 32), d("$set", d("reviews", bson.A{d("_id", 900, "rating", 1), d("rating", 2)})))
		}, Sends: []string{list, find, agg, up, find, agg, find, ins, agg, up, commit}, Writes: 4 + 4, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.Adopt(ctx, nil)) }},
		{Name: "Repair in batches", Before: func() {
			clean(t, db, s)
			testkit.Update(t, parents, d(), d("$inc", d("num_reviews", 1)))
		}, Sends: inBatches, Writes: 2 * 39, Call: repair(&mongopatterns.Work{BatchSize: 10})},
	})
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
	s := newSubset[string, bson.D](t, db, &subset.Options{ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true})
	insert(t, db.Collection("parents"), d("_id", "goofy"))
	messages := make([]bson.D, 1100)
	for i := range messages {
		messages[i] = d("_id", i, "message", strings.Repeat("x", 400))
	}
	must(t, testkit.ErrorOf(s.InsertMany(t.Context(), seq("goofy", messages...), nil)))
	small := func(cmds mongotest.Commands) {
		t.Helper()
		size := 0
		for _, c := range cmds {
			size += len(c.Reply) + len(c.Body)
		}
		if size > 10_000 {
			t.Errorf("%d bytes", size)
		}
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Delete", Sends: []string{fam, fam, "find", "update", "update", commit}, Writes: 5, Check: small,
			Call: func(ctx context.Context) error { return s.Delete(ctx, "goofy", 1050) }},
		{Name: "Insert", Sends: []string{fam, "update", commit}, Writes: 2, Check: func(cmds mongotest.Commands) { small(cmds[:1]) },
			Call: func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, "goofy", d("_id", 2000))) }},
		{Name: "Update", Sends: []string{fam, "find", "update", commit}, Writes: 2,
			Call: func(ctx context.Context) error { return s.Update(ctx, "goofy", 1060, d("$set", d("message", "y"))) }},
		{Name: "Top", Sends: []string{"find"}, Call: func(ctx context.Context) error { return testkit.ErrorOf(s.Top(ctx, "goofy")) }},
	})
	clean(t, db, s)
}

// Costs with Options.Filter, and with a larger N, are as the methods say.
func TestCostsOfFilterAndAnotherN(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	o := &subset.Options{N: 3, Filter: d("ok", true)}
	s := newSubset[int, bson.D](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	add := func(id int, ok bool) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, d("_id", id, "ok", ok))) }
	}
	set := func(field string, value any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, 1, 2, d("$set", d(field, value))) }
	}
	many := func(from int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return testkit.ErrorOf(s.InsertMany(ctx, seq(1, d("_id", from, "ok", true), d("_id", from+1, "ok", true)), nil))
		}
	}
	larger := func(n int) {
		o.N = n
		s = newSubset[int, bson.D](t, db, o)
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Insert", Sends: []string{fam, "insert", "find", commit}, Writes: 2, Call: add(1, true)},
		{Name: "Insert of one that Filter rejects", Sends: []string{"update", "insert", commit}, Writes: 3, Call: add(2, false)}, // and a mark that goes
		{Name: "Update of one that Filter rejects", Sends: []string{fam, "find", commit}, Writes: 1, Call: set("a", 1)},
		{Name: "Update that Filter accepts then", Sends: []string{fam, "find", fam, commit}, Writes: 2, Call: set("ok", true)},
		{Name: "Update that Filter rejects then", Sends: []string{fam, "find", fam, commit}, Writes: 2, Call: set("ok", false)},
		{Name: "Delete of one that Filter rejects", Sends: []string{fam, commit}, Writes: 1, Call: func(ctx context.Context) error { return s.Delete(ctx, 1, 2) }},
		{Name: "Insert with a larger N", Before: func() {
			must(t, many(10)(t.Context()))
			must(t, many(20)(t.Context()))
			larger(4)
		}, Sends: []string{fam, "insert", "find", "update", "update", commit}, Writes: 3 + 2, Call: add(0, true)},
		{Name: "InsertMany with a larger N", Before: func() { larger(6) },
			Sends: []string{"find", "update", "insert", "find", "find", "update", "update", commit}, Writes: 4 + 4, Call: many(-20)},
	})
	clean(t, db, s)
}

// A sum that a huge number has passed through costs 2 round trips more, once.
func TestCostsOfSums(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, sumOptions())
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	must(t, s.EnsureIndexes(t.Context()))
	many := func(parent, id int, v ...any) func(ctx context.Context) error {
		var items []bson.D
		for i, v := range v {
			items = append(items, d("_id", id+i, "v", v))
		}
		return func(ctx context.Context) error { return testkit.ErrorOf(s.InsertMany(ctx, seq(parent, items...), nil)) }
	}
	set := func(id int, v any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, 1, id, d("$set", d("v", v))) }
	}
	remove := func(id int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Delete(ctx, 1, id) }
	}
	must(t, many(1, 1, 0.5, 10.5, 2.5, int64(1<<40))(t.Context()))
	anew := func(at int) func(cmds mongotest.Commands) {
		return func(cmds mongotest.Commands) {
			mongotest.Explain(t, db, cmds[at].Body).RequireIndex(t, "parent_1__id_-1")
		}
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Update", Sends: []string{fam, "find", "update", commit}, Writes: 3, Call: set(2, 11)},
		{Name: "Update to a huge number", Sends: []string{fam, "find", "update", commit}, Writes: 2, Call: set(4, 1e300)},
		{Name: "Update that leaves little", Sends: []string{fam, "find", "update", fam, "aggregate", "update", commit}, Writes: 3, Check: anew(4), Call: set(4, 7)},
		{Name: "Update of the rest", Before: func() { must(t, set(4, 1e17)(t.Context())) }, Sends: []string{fam, "find", "update", commit}, Writes: 3, Call: set(2, 10.5)},
		{Name: "Delete that leaves little", Sends: []string{fam, fam, "find", "update", "update", "aggregate", "update", commit}, Writes: 6, Check: anew(5), Call: remove(4)},
		{Name: "Delete", Sends: []string{fam, fam, "find", "update", "update", commit}, Writes: 5, Call: remove(3)},
		{Name: "Delete of all", Sends: []string{fam, fam, commit}, Writes: 2, Call: remove(2)},
		{Name: "Delete of the last", Sends: []string{fam, fam, commit}, Writes: 2, Call: remove(1)},
		{Name: "InsertMany", Sends: []string{"find", "update", "insert", commit}, Writes: 3, Call: many(1, 10, 0.5, 1e17)},
		{Name: "InsertMany that leaves little", Sends: []string{"find", "find", "update", "find", "update", "insert", "aggregate", "update", commit}, Writes: 3, Check: anew(6),
			Call: many(1, 20, -1e17)},
	})
	clean(t, db, s)
}

// Costs of the first write to a parent of old code, with 5 items in its array, and of
// a later write to a parent with items that old code has pushed since.
func TestCostsOfAdoptingWrites(t *testing.T) {
	t.Parallel()
	type docs = *subset.Subset[int, bson.D]
	add := func(ctx context.Context, s docs) error { return testkit.ErrorOf(s.Insert(ctx, 1, d("_id", 9))) }
	old := d("_id", 1, "items", bson.A{d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4), d("_id", 5)})
	adopt := []string{"update", "find", "aggregate", "find", "insert", "aggregate", "update"}
	met := append([]string{fam, "find"}, adopt...) // it reads why the write has not matched a parent
	for _, test := range []struct {
		name   string
		parent bson.D
		items  []any // in the collection
		write  func(ctx context.Context, s docs) error
		sends  []string
		writes int
	}{
		{"Insert", old, nil, add, slices.Concat(met, []string{fam, "update", commit}), 2 + 5 + 2},
		{"InsertMany", old, nil,
			func(ctx context.Context, s docs) error {
				return testkit.ErrorOf(s.InsertMany(ctx, seq(1, d("_id", 9)), nil))
			},
			slices.Concat([]string{"find"}, adopt, []string{"find", "update", "insert", commit}), 2 + 5 + 2},
		{"Update", old, nil,
			func(ctx context.Context, s docs) error { return s.Update(ctx, 1, 5, d("$set", d("a", 1))) },
			slices.Concat(met, []string{fam, "find", "update", commit}), 2 + 5 + 2},
		{"Delete", old, nil,
			func(ctx context.Context, s docs) error { return s.Delete(ctx, 1, 5) },
			slices.Concat(met, []string{fam, fam, "find", "update", "update", commit}), 2 + 5 + 5},
		{"Insert, items in the collection", d("_id", 1, "name", "x"), []any{d("_id", 1, "parent", 1)}, add,
			[]string{fam, "insert", "find", "update", "find", "aggregate", "find", "update", "update", commit}, 2 + 2 + 2},
		{"Insert, pushed since", d("_id", 1, "items", bson.A{d("_id", 2), d("_id", 3), d("_id", 7)}, "items_count", 2),
			[]any{d("_id", 2, "parent", 1), d("_id", 3, "parent", 1)}, add,
			slices.Concat([]string{fam, "update", "find"}, adopt, []string{commit}), 2 + 2 + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 2})
			insert(t, db.Collection("parents"), test.parent)
			for _, item := range test.items {
				insert(t, db.Collection("items"), item)
			}
			costs.Run(t, db, []costs.Case{
				{Name: test.name, Sends: test.sends, Writes: test.writes, Call: func(ctx context.Context) error { return test.write(ctx, s) }},
			})
			clean(t, db, s)
		})
	}
}
