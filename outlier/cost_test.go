package outlier_test

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

const byID, byParent, byElement = "_id_", "parent_1_n_1", "parent_1_items_1"

// planned wants a plan by this index that looks at no more than these.
func planned(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	plan.RequireIndex(t, index)
	plan.RequireExamined(t, keys, docs)
	if index == byParent {
		plan.RequireNoSort(t)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		t.Run(fmt.Sprintf("set=%v", isSet), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			ctx := t.Context()
			lists, err := outlier.New[int, int](db.Collection("parents"), db.Collection("extras"),
				&outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: isSet, ElementIndex: isSet})
			if err != nil {
				t.Fatal(err)
			}
			record := func(written int, names []string, fn func() error) mongotest.Commands {
				t.Helper()
				return costs.Record(t, db, written, names, fn)
			}
			is := func(names ...string) []string { return names }
			const update, modify, commit = "update", "findAndModify", "commitTransaction"
			record(0, is("listCollections", "listIndexes", "createIndexes", "listIndexes", "createIndexes"), func() error { return lists.EnsureIndexes(ctx) })
			record(0, is("listCollections", "listIndexes", "listIndexes"), func() error { return lists.EnsureIndexes(ctx) })
			for id := range 30 { // 20 of them are others
				insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}})
				if id >= 10 {
					add(t, lists, id, ints(0, 9)...)
				}
			}
			adds := func(id int, xs ...int) func() error {
				return func() error {
					n, err := lists.Add(ctx, id, xs...)
					if err == nil && n != int64(len(xs)) {
						err = fmt.Errorf("%d added", n)
					}
					return err
				}
			}
			removes := func(id, x int, want bool) func() error {
				return func() error {
					removed, err := lists.Remove(ctx, id, x)
					if err == nil && removed != want {
						err = fmt.Errorf("removed: %v", removed)
					}
					return err
				}
			}

			// Adding.
			record(0, nil, adds(1))
			planned(t, db, record(1, is(update), adds(1, 0))[0], byID, 1, 1)
			record(1, is(update), adds(1, 1, 2, 3))
			if isSet { // it is full, and holds it
				record(0, is(update, "aggregate"), func() error { _, err := lists.Add(ctx, 1, 3); return err })
			}
			insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 30}, {Key: "items", Value: nil}})
			record(1, is(update, "aggregate", update), adds(30, 0))
			cmds := record(2+1+1, is(update, "aggregate", modify, "find", "insert", update, commit), adds(1, 4)) // 3, 4 stay
			planned(t, db, cmds[2], byID, 1, 1)
			planned(t, db, cmds[3], byParent, 1, 1)
			if isSet {
				cmds = record(1, is(update, "aggregate", update), adds(1, 5))
				planned(t, db, cmds[2], byID, 1, 1)
				held := func(id, x int) func() error {
					return func() error { _, err := lists.Add(ctx, id, x); return err }
				}
				record(0, is(update, "aggregate"), held(1, 0))
				add(t, lists, 2, 1)
				record(0, is(update), held(2, 1))
			} else {
				record(1, is(update), adds(1, 5))
			}
			record(1, is(update, "aggregate", update)[:map[bool]int{false: 1, true: 3}[isSet]], adds(1, 6))
			// 0 1, 2 outside, 3 4 5 6 inside. The last overflow document takes one.
			cmds = record(2+1+1, is(update, "aggregate", modify, "find", update, "insert", update, commit), adds(1, 7))
			planned(t, db, cmds[4], byID, 1, 1)
			// 0 1, 2 3, 4 5 outside, 6 7 inside.

			// Reading.
			add(t, lists, 3, 1, 2, 3)
			contains := func(id, x int, want bool) func() error {
				return func() error {
					held, err := lists.Contains(ctx, id, x)
					if err == nil && held != want {
						err = fmt.Errorf("contains: %v", held)
					}
					return err
				}
			}
			planned(t, db, record(0, is("find"), contains(3, 3, true))[0], byID, 1, 1)
			record(0, is("find"), contains(3, 4, false))
			record(0, is("find", "find"), contains(1, 7, true)) // an outlier is looked at again
			cmds = record(0, is("find", "find", "find"), contains(1, 4, true))
			if isSet {
				planned(t, db, cmds[1], byElement, 1, 1)
			} else {
				mongotest.Explain(t, db, cmds[1].Body).RequireExamined(t, 3, 3)
			}
			record(0, is("find", "find", "find"), contains(1, 99, false))
			planned(t, db, record(0, is("find"), func() error { _, err := lists.Total(ctx, 1); return err })[0], byID, 1, 1)
			all := func(id int) func() error {
				return func() error {
					for _, err := range lists.All(ctx, id) {
						if err != nil {
							return err
						}
					}
					return nil
				}
			}
			record(0, is("find"), all(3))
			planned(t, db, record(0, is("find", "aggregate", "find"), all(1))[1], byParent, 3, 3)
			page := func(id int, offset, limit int64) func() error {
				return func() error { _, err := lists.Page(ctx, id, offset, limit); return err }
			}
			planned(t, db, record(0, is("find"), page(3, 0, 10))[0], byID, 1, 1)
			record(0, is("find", "find"), page(1, 6, 2))
			cmds = record(0, is("find", "aggregate", "find"), page(1, 2, 3))
			planned(t, db, cmds[1], byParent, 3, 3)
			add(t, lists, 4, ints(10, 270)...) // more overflow documents than a first batch has by default
			record(0, is("find", "aggregate", "find"), all(4))
			record(0, is("find", "aggregate", "find"), page(4, 0, 200))

			// Removing.
			planned(t, db, record(1, is(update), removes(3, 2, true))[0], byID, 1, 1)
			record(0, is(update), removes(3, 2, false))
			record(1, is(update, modify, commit), removes(1, 6, true))
			cmds = record(2, is(update, modify, modify, commit), removes(1, 0, true))
			if isSet {
				planned(t, db, cmds[2], byElement, 0, 0) // it is gone now
			}
			record(2, is(update, modify, modify, update, commit), removes(1, 99, false))
			repeats := is("aggregate")[:map[bool]int{true: 1}[isSet]]
			emptied := is(update, modify, modify, "delete", commit)
			record(2+1, emptied, removes(1, 1, true))
			// 2 3, 4 5 outside, 7 inside: three quarters are three.
			record(2, is(update, modify, modify, commit), removes(1, 2, true))
			folded := append(append(emptied[:4:4], modify, "find"), repeats...)
			record(2+1+1+1+1, append(folded, "find", "delete", update, commit), removes(1, 3, true))
			equal(t, []int{4, 5, 7}, collect(t, lists.All(ctx, 1)))

			// Deleting.
			planned(t, db, record(1, is("delete"), func() error { return lists.Delete(ctx, 1) })[0], byID, 1, 1)
			cmds = record(1+4, is("delete", modify, "delete", commit), func() error { return lists.Delete(ctx, 10) })
			mongotest.Explain(t, db, cmds[2].Body).RequireIndex(t, byParent)
		})
	}
}

func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		db := mongotest.Database(t)
		ctx := t.Context()
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: isSet})
		repeats := func(names ...string) (out []string) {
			for _, name := range names {
				if name != "repeats" {
					out = append(out, name)
				} else if isSet {
					out = append(out, "aggregate")
				}
			}
			return out
		}
		const modify, commit = "findAndModify", "commitTransaction"
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(1, 3)}},
			bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: ints(1, 8)}})
		adopt := func() error { _, err := lists.Adopt(ctx, nil); return err }
		// A scan, and one split into three overflow documents.
		costs.Record(t, db, 1+3+1, repeats("listCollections", "aggregate", modify, "find", "repeats", "find", "insert", "update", commit), adopt)
		costs.Record(t, db, 0, repeats("listCollections", "aggregate"), adopt)
		costs.Record(t, db, 0, repeats("listCollections", "find", "aggregate", "repeats", commit, "aggregate"), func() error {
			for p, err := range lists.Check(ctx, nil) {
				return fmt.Errorf("%v %w", p, err)
			}
			return nil
		})
		set(t, db.Collection("parents"), lists.Filter(2), bson.D{{Key: "$set", Value: bson.D{{Key: "items_outside", Value: 99}}}})
		insert(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 3}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{1}}})
		costs.Record(t, db, 2+1, repeats(
			"listCollections",
			"find",                         // the scan
			"aggregate", "repeats", commit, // what is wrong
			modify, "find", "repeats", "update", commit, // arranged
			"aggregate", "aggregate", "aggregate", commit, // strays, orphans
			"find", "delete", commit,
		), func() error { _, err := lists.Repair(ctx, nil); return err })
		costs.Record(t, db, 0, []string{"aggregate"}, func() error { _, err := lists.Distribution(ctx, nil); return err })
		// Of other code: the parent's elements come first, so the list is written anew.
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 4}, {Key: "items", Value: ints(1, 3)}, {Key: "items_overflow", Value: "true"}})
		insert(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 4}, {Key: "items", Value: ints(4, 6)}},
			bson.D{{Key: "parent", Value: 4}, {Key: "items", Value: ints(7, 9)}})
		costs.Record(t, db, 2+2+2, repeats("listCollections", "aggregate", modify, "find", "repeats", "find", "delete", "find", "insert", "update", commit), adopt)
	}
}
