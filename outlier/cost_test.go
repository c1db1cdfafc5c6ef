package outlier_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// What a set is to take is compared a thousand at a time, which a command holds
// several times.
func TestManyOfASet(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 1100, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	record(t, db, 4, []string{"findAndModify", "update", "findAndModify", "update", "commitTransaction"}, func() error {
		n, err := lists.AddMany(t.Context(), 1, append(ints(0, 1001), 1000, 0))
		if err == nil && n != 1001 {
			err = fmt.Errorf("%d added", n)
		}
		return err
	})
	if n, err := lists.Total(t.Context(), 1); err != nil || n != 1001 {
		t.Error(n, err)
	}
}

var record = costs.Record

// examined wants a plan by this index that looks at no more than these.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	if index != byParent { // ElementIndex serves where the parent alone is asked for, too
		plan.RequireIndex(t, index)
	} else if plan.Has("COLLSCAN") {
		t.Fatal(plan)
	}
	plan.RequireExamined(t, keys, docs)
}

// unsorted wants the overflow documents in the order of their index.
func unsorted(t *testing.T, db *mongo.Database, c mongotest.Command) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	plan.RequireIndex(t, byParent)
	plan.RequireNoSort(t)
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

const byParent, byElement = "parent_1_n_1", "parent_1_items_1"

func ints(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func TestCosts(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		t.Run(fmt.Sprintf("set=%v", set), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			ctx := t.Context()
			lists, err := outlier.New[int, int](db.Collection("parents"), db.Collection("extras"),
				&outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: set, ElementIndex: set})
			if err != nil {
				t.Fatal(err)
			}
			record(t, db, 0, []string{"listIndexes", "createIndexes", "listIndexes", "createIndexes"}, func() error { return lists.EnsureIndexes(ctx) })
			record(t, db, 0, []string{"listIndexes", "listIndexes"}, func() error { return lists.EnsureIndexes(ctx) })
			for id := range 20 { // others
				insert(t, db, bson.D{{Key: "_id", Value: 100 + id}})
				if _, err := lists.AddMany(ctx, 100+id, ints(0, 9)); err != nil {
					t.Fatal(err)
				}
			}
			for id := range 10 {
				insert(t, db, bson.D{{Key: "_id", Value: id}})
			}
			add := func(id, x int) func() error {
				return func() error {
					added, err := lists.Add(ctx, id, x)
					if err == nil && !added {
						err = fmt.Errorf("%d not added", x)
					}
					return err
				}
			}
			addMany := func(id int, xs ...int) func() error {
				return func() error { _, err := lists.AddMany(ctx, id, xs); return err }
			}
			const modify = "findAndModify"
			const typical = "update"
			many, locked := typical, []string{typical, modify}
			if set {
				many, locked = modify, append(locked, "aggregate")
			}
			join := func(names []string, more ...string) []string { return append(slices.Clone(names), more...) }

			// Adding.
			record(t, db, 0, nil, addMany(1))
			for x := range 3 {
				examined(t, db, record(t, db, 1, []string{typical}, add(1, x))[0], "_id_", 1, 1)
			}
			examined(t, db, record(t, db, 1, []string{many}, addMany(2, 0, 1, 2))[0], "_id_", 1, 1)
			record(t, db, 1, []string{typical}, add(1, 3))
			cmds := record(t, db, 2, []string{typical, modify, modify, "insert", "commitTransaction"}, add(1, 4))
			examined(t, db, cmds[1], "_id_", 1, 1)
			cmds = record(t, db, 2, join(locked, modify, "commitTransaction"), add(1, 5))
			examined(t, db, cmds[1], "_id_", 1, 1)
			unsorted(t, db, cmds[len(cmds)-2])
			if set {
				examined(t, db, cmds[2], byElement, 1, 1)
			}
			// A full overflow document is matched and stays as it is.
			record(t, db, 3, join(locked, modify, "insert", "commitTransaction"), add(1, 6))
			// Into the parent, and two overflow documents.
			record(t, db, 4, []string{many, modify, "find", "insert", "update", "commitTransaction"}, addMany(2, 3, 4, 5, 6))
			// Into the last, and a further overflow document.
			record(t, db, 4, append([]string{many}, join(locked[1:], modify, "update", "insert", "commitTransaction")...), addMany(2, 7, 8))
			if set { // held: the parent counts up and down
				record(t, db, 2, []string{typical, modify, "aggregate", "update", "commitTransaction"}, addMany(2, 7))
				record(t, db, 2, []string{typical, modify, "update", "commitTransaction"}, addMany(2, 1))
				record(t, db, 1, []string{typical}, addMany(3, 1))
				record(t, db, 0, []string{typical}, addMany(3, 1))
			}

			// More than any parent takes is not tried there.
			insert(t, db, bson.D{{Key: "_id", Value: 60}})
			record(t, db, 2+2, []string{modify, "find", "insert", "update", "commitTransaction"}, addMany(60, ints(0, 7)...))

			// Reading: 2 holds 0..8.
			insert(t, db, bson.D{{Key: "_id", Value: 50}, {Key: "items", Value: bson.A{1, 2, 3}}})
			contains := func(id, x int, want bool) func() error {
				return func() error {
					held, err := lists.Contains(ctx, id, x)
					if err == nil && held != want {
						err = fmt.Errorf("contains %d: %v", x, held)
					}
					return err
				}
			}
			examined(t, db, record(t, db, 0, []string{"find"}, contains(50, 3, true))[0], "_id_", 1, 1)
			record(t, db, 0, []string{"find"}, contains(50, 4, false))
			record(t, db, 0, []string{"find"}, contains(2, 1, true))
			cmds = record(t, db, 0, []string{"find", "aggregate"}, contains(2, 8, true))
			match := bson.D{{Key: "find", Value: "extras"}, {Key: "filter", Value: cmds[1].Body.Lookup("pipeline", "0", "$match")}, {Key: "limit", Value: 1}}
			raw, err := bson.Marshal(match)
			if err != nil {
				t.Fatal(err)
			}
			if found := (mongotest.Command{Name: "find", Body: raw}); set {
				examined(t, db, found, byElement, 1, 1)
			} else {
				examined(t, db, found, byParent, 3, 3)
			}
			record(t, db, 0, []string{"find", "aggregate"}, contains(2, 99, false))
			examined(t, db, record(t, db, 0, []string{"find"}, func() error { _, err := lists.Total(ctx, 2); return err })[0], "_id_", 1, 1)
			items := func(id int) func() error { return func() error { return drain(lists.Items(ctx, id)) } }
			examined(t, db, record(t, db, 0, []string{"find"}, items(50))[0], "_id_", 1, 1)
			cmds = record(t, db, 0, []string{"find", "find", "find", "commitTransaction"}, items(2))
			examined(t, db, cmds[2], byParent, 3, 3)
			unsorted(t, db, cmds[2])
			page := func(id int, offset, limit int64) func() error {
				return func() error { _, err := lists.Page(ctx, id, offset, limit); return err }
			}
			examined(t, db, record(t, db, 0, []string{"aggregate"}, page(50, 0, 10))[0], "_id_", 1, 1)
			record(t, db, 0, []string{"aggregate"}, page(2, 2, 2))
			record(t, db, 0, []string{"aggregate", "aggregate", "find", "find", "commitTransaction"}, page(2, 2, 4))
			cmds = record(t, db, 0, []string{"aggregate", "aggregate", "find", "find", "commitTransaction"}, page(2, 6, 2))
			examined(t, db, cmds[2], byParent, 3, 3)
			examined(t, db, cmds[3], byParent, 2, 2)

			// Removing.
			remove := func(id, x int) func() error {
				return func() error {
					removed, err := lists.Remove(ctx, id, x)
					if err == nil && !removed {
						err = fmt.Errorf("%d not removed", x)
					}
					return err
				}
			}
			removeAll := func(id, x int) func() error {
				return func() error { _, err := lists.RemoveAll(ctx, id, x); return err }
			}
			examined(t, db, record(t, db, 1, []string{typical}, remove(50, 2))[0], "_id_", 1, 1)
			record(t, db, 1, []string{modify}, removeAll(50, 3))
			record(t, db, 1, []string{typical, modify, "commitTransaction"}, remove(2, 1))
			cmds = record(t, db, 2, []string{typical, modify, modify, "commitTransaction"}, remove(2, 4))
			if set {
				examined(t, db, cmds[2], byElement, 1, 1)
			} else {
				examined(t, db, cmds[2], byParent, 3, 3) // it is gone now
			}
			cmds = record(t, db, 3, []string{typical, modify, modify, "delete", "find", "commitTransaction"}, remove(2, 5))
			if what, err := cmds[4].Body.Lookup("projection").Document().Elements(); err != nil || len(what) != 1 || what[0].Key() != "_id" {
				t.Error("reads more than whether one is left:", cmds[4].Body)
			}
			// 2 holds 0 2 3, 6 7, 8.
			record(t, db, 1, []string{modify, modify, "aggregate", "commitTransaction"}, removeAll(2, 2))
			// 0 3, 6 7, 8: a removal makes four, which is more than three quarters; the next three.
			record(t, db, 2, []string{modify, modify, "aggregate", "update", "commitTransaction"}, removeAll(2, 6))
			// None: the parent counts down and up.
			none := func(fn func() (any, error)) func() error { return func() error { _, err := fn(); return err } }
			record(t, db, 2, []string{typical, modify, modify, "update", "commitTransaction"}, none(func() (any, error) { return lists.Remove(ctx, 2, 99) }))
			record(t, db, 2, []string{modify, modify, "aggregate", "update", "commitTransaction"}, none(func() (any, error) { return lists.RemoveAll(ctx, 2, 99) }))
			record(t, db, 1+1+2, []string{typical, modify, "find", "update", "delete", "commitTransaction"}, remove(2, 0))
			// The last overflow document, while the parent is full.
			record(t, db, 1, []string{many}, addMany(4, 0, 1, 2, 3))
			record(t, db, 2, []string{typical, modify, modify, "insert", "commitTransaction"}, add(4, 4))
			record(t, db, 1+1+1+1, []string{typical, modify, modify, "delete", "find", "update", "commitTransaction"}, remove(4, 4))
			record(t, db, 2, []string{typical, modify, modify, "insert", "commitTransaction"}, add(4, 5))
			record(t, db, 1+1+1+1, []string{modify, modify, "aggregate", "update", "delete", "find", "update", "commitTransaction"}, removeAll(4, 5))
			record(t, db, 1, []string{typical}, add(2, 77))

			// Deleting.
			examined(t, db, record(t, db, 1, []string{"delete"}, func() error { return lists.Delete(ctx, 50) })[0], "_id_", 1, 1)
			cmds = record(t, db, 1+2, []string{"delete", "delete", "delete", "commitTransaction"}, func() error { return lists.Delete(ctx, 1) })
			examined(t, db, cmds[2], byParent, 2, 2)
		})
	}
}

// The sizes of many overflow documents are one round trip.
func TestPageOfManyDocuments(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 1})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	if _, err := lists.AddMany(t.Context(), 1, ints(0, 150)); err != nil {
		t.Fatal(err)
	}
	record(t, db, 0, []string{"aggregate", "aggregate", "find", "find", "commitTransaction"}, func() error {
		page, err := lists.Page(t.Context(), 1, 140, 3)
		if err == nil && !slices.Equal(page.Items, ints(140, 143)) {
			err = fmt.Errorf("read %v", page.Items)
		}
		return err
	})
}

func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		db := mongotest.Database(t)
		ctx := t.Context()
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: set})
		var repeats []string
		if set {
			repeats = []string{"aggregate"}
		}
		steps := func(parts ...[]string) []string { return slices.Concat(parts...) }
		one := func(names ...string) []string { return names }
		const modify, commit = "findAndModify", "commitTransaction"
		insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{1, 2}}},
			bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: bson.A{1, 2, 3, 4, 5, 6, 7}}})
		rebalance := func(id int) func() error { return func() error { return lists.Rebalance(ctx, id) } }
		record(t, db, 2, steps(one(modify, "find"), repeats, one("update", commit)), rebalance(1))
		// A scan, and one split into two overflow documents.
		record(t, db, 1+2+1, steps(one("find", modify, "find"), repeats, one("insert", "update", commit)), func() error {
			_, err := lists.Adopt(ctx, nil)
			return err
		})
		record(t, db, 0, one("find"), func() error { _, err := lists.Adopt(ctx, nil); return err })
		record(t, db, 0, steps(one("find", "find", "find"), repeats, one(commit, "aggregate")), func() error { return drain(lists.Check(ctx)) })
		if _, err := lists.Remove(ctx, 2, 1); err != nil {
			t.Fatal(err)
		}
		// Filled up from one.
		record(t, db, 3, steps(one(modify, "find"), repeats, one("find", "update", "update", commit)), rebalance(2))
		if _, err := db.Collection("parents").UpdateOne(ctx, bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "items_total", Value: 99}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection("extras").InsertOne(ctx, bson.D{{Key: "parent", Value: 3}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{1}}}); err != nil {
			t.Fatal(err)
		}
		record(t, db, 2+1, steps(
			one("find"), // the scan
			one("find", "find"), repeats, one(commit),
			one(modify, "find"), repeats, one("update", commit),
			one("aggregate"), // overflow documents without a flag
			one("find", "find"), one(commit),
			one("find", "delete", "find", commit),
		), func() error { _, err := lists.Repair(ctx, nil); return err })
		record(t, db, 0, one("aggregate"), func() error { _, err := lists.Distribution(ctx, nil); return err })
		if set { // an overflow document with duplicates is 1 more, the parent none
			if _, err := db.Collection("extras").UpdateOne(ctx, lists.OverflowFilter(2), bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: 2}}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Collection("parents").UpdateOne(ctx, lists.Filter(2), bson.D{{Key: "$set", Value: bson.D{{Key: "items.1", Value: 2}}}}); err != nil {
				t.Fatal(err)
			}
			// Filled up again from what is left of it.
			record(t, db, 1+1+1+1, one(modify, "find", "aggregate", "update", "find", "delete", "update", commit), rebalance(2))
		}
		// Totals for typical documents: one write a batch.
		counted := newLists[int, int](t, db, &outlier.Options{MaxCount: 100, OverflowMaxCount: 2, Set: set, CountTypical: true})
		if _, err := counted.Adopt(ctx, nil); err != nil {
			t.Fatal(err)
		}
		for id := range 5 {
			insert(t, db, bson.D{{Key: "_id", Value: 10 + id}})
		}
		record(t, db, 5, one("find", "update", "getMore", "update"), func() error {
			_, err := counted.Adopt(ctx, &outlier.AdoptOptions{BatchSize: 3})
			return err
		})
	}
}
