package outlier_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	const byID, byParent, byElement = "_id_", "parent_1_n_1", "parent_1_items_1"
	const list, find, agg, up, ins, del, fam, commit = "listCollections", "find", "aggregate", "update", "insert", "delete", "findAndModify", "commitTransaction"
	for _, isSet := range []bool{false, true} {
		t.Run(fmt.Sprintf("set=%v", isSet), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			parents := db.Collection("parents")
			lists, err := outlier.New[int, int](parents, db.Collection("extras"),
				&outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: isSet, ElementIndex: isSet})
			if err != nil {
				t.Fatal(err)
			}
			costs.Run(t, db, []costs.Case{
				{Name: "EnsureIndexes that creates two", Sends: []string{list, "listIndexes", "createIndexes", "listIndexes", "createIndexes"}, Call: lists.EnsureIndexes},
				{Name: "EnsureIndexes", Sends: []string{list, "listIndexes", "listIndexes"}, Call: lists.EnsureIndexes},
			})
			for id := range 30 { // 20 of them are others
				insert(t, parents, bson.D{{Key: "_id", Value: id}})
				if id >= 10 {
					add(t, lists, id, ints(0, 9)...)
				}
			}

			// Adding.
			added := func(want, id int, xs ...int) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					n, err := lists.Add(ctx, id, xs...)
					if err == nil && n != int64(want) {
						err = fmt.Errorf("%d added", n)
					}
					return err
				}
			}
			adds := func(id int, xs ...int) func(ctx context.Context) error { return added(len(xs), id, xs...) }
			costs.Run(t, db, []costs.Case{
				{Name: "Add of nothing", Call: adds(1)},
				{Name: "Add of the first", Sends: []string{up}, Writes: 1, Index: byID, Keys: 1, Docs: 1, Call: adds(1, 0)},
				{Name: "Add", Sends: []string{up}, Writes: 1, Call: adds(1, 1, 2, 3)},
				{Name: "AddMany of one list", Sends: []string{up}, Writes: 1, Call: func(ctx context.Context) error {
					return testkit.ErrorOf(lists.AddMany(ctx, func(yield func(int, int) bool) { _ = yield(5, 0) && yield(5, 1) }, nil))
				}},
			})
			if isSet {
				costs.Run(t, db, []costs.Case{
					{Name: "Add of what a full set holds", Sends: []string{up, agg}, Call: added(0, 1, 3)},
				})
			}
			costs.Run(t, db, []costs.Case{
				{Name: "Add to null", Before: func() { insert(t, parents, bson.D{{Key: "_id", Value: 30}, {Key: "items", Value: nil}}) },
					Sends: []string{up, agg, up}, Writes: 1, Call: adds(30, 0)},
				{Name: "Add that moves the older half out", Sends: []string{up, agg, fam, find, ins, up, commit}, Writes: 2 + 1 + 1,
					Explain: 3, Index: byParent, Keys: 1, Docs: 1, NoSort: true, Call: adds(1, 4), // 3, 4 stay
					Check: func(cmds mongotest.Commands) { costs.Examined(t, db, cmds[2], byID, 1, 1) }},
			})
			room := []string{up} // the commands of an Add to an outlier with room
			if isSet {
				room = []string{up, agg, up}
				costs.Run(t, db, []costs.Case{
					{Name: "Add to an outlier", Sends: room, Writes: 1, Explain: 2, Index: byID, Keys: 1, Docs: 1, Call: adds(1, 5)},
					{Name: "Add of what is outside", Sends: []string{up, agg}, Call: added(0, 1, 0)},
					{Name: "Add of what a set holds", Before: func() { add(t, lists, 2, 1) }, Sends: []string{up}, Call: added(0, 2, 1)},
				})
			} else {
				costs.Run(t, db, []costs.Case{
					{Name: "Add to an outlier", Sends: room, Writes: 1, Call: adds(1, 5)},
				})
			}
			costs.Run(t, db, []costs.Case{
				{Name: "Add of the last that fits", Sends: room, Writes: 1, Call: adds(1, 6)},
				// 0 1, 2 outside, 3 4 5 6 inside. The last overflow document takes one.
				{Name: "Add that moves a part to the last overflow document", Sends: []string{up, agg, fam, find, up, ins, up, commit}, Writes: 2 + 1 + 1,
					Explain: 4, Index: byID, Keys: 1, Docs: 1, Call: adds(1, 7)},
				// 0 1, 2 3, 4 5 outside, 6 7 inside.
			})

			// Reading.
			contains := func(id, x int, want bool) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					held, err := lists.Contains(ctx, id, x)
					if err == nil && held != want {
						err = fmt.Errorf("contains: %v", held)
					}
					return err
				}
			}
			all := func(id int) func(ctx context.Context) error {
				return func(ctx context.Context) error { return testkit.Drain(lists.All(ctx, id)) }
			}
			slice := func(id int, offset, limit int64) func(ctx context.Context) error {
				return func(ctx context.Context) error { return testkit.ErrorOf(lists.Slice(ctx, id, offset, limit)) }
			}
			outside := costs.Case{Name: "Contains of one outside", Sends: []string{find, find, find}, Explain: 1, Keys: 3, Docs: 3, Call: contains(1, 4, true)}
			if isSet {
				outside.Index, outside.Keys, outside.Docs = byElement, 1, 1
			}
			costs.Run(t, db, []costs.Case{
				{Name: "Contains", Before: func() { add(t, lists, 3, 1, 2, 3) }, Sends: []string{find}, Index: byID, Keys: 1, Docs: 1, Call: contains(3, 3, true)},
				{Name: "Contains of one that is not there", Sends: []string{find}, Call: contains(3, 4, false)},
				{Name: "Contains of an outlier, which is looked at again", Sends: []string{find, find}, Call: contains(1, 7, true)},
				outside,
				{Name: "Contains of an outlier, one that is not there", Sends: []string{find, find, find}, Call: contains(1, 99, false)},
				{Name: "Total", Sends: []string{find}, Index: byID, Keys: 1, Docs: 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(lists.Total(ctx, 1)) }},
				{Name: "All", Sends: []string{find}, Call: all(3)},
				{Name: "All of an outlier", Sends: []string{find, agg, find}, Explain: 1, Index: byParent, Keys: 3, Docs: 3, NoSort: true, Call: all(1)},
				{Name: "Slice", Sends: []string{find}, Index: byID, Keys: 1, Docs: 1, Call: slice(3, 0, 10)},
				{Name: "Slice of what is inside", Sends: []string{find, find}, Call: slice(1, 6, 2)},
				{Name: "Slice of what is outside", Sends: []string{find, agg, find}, Explain: 1, Index: byParent, Keys: 3, Docs: 3, NoSort: true, Call: slice(1, 2, 3)},
				{Name: "All with more overflow documents than a first batch has by default", Before: func() { add(t, lists, 4, ints(10, 270)...) },
					Sends: []string{find, agg, find}, Call: all(4)},
				{Name: "Slice of these", Sends: []string{find, agg, find}, Call: slice(4, 0, 200)},
			})

			// Removing.
			removes := func(id, x int, want bool) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					removed, err := lists.Remove(ctx, id, x)
					if err == nil && removed != want {
						err = fmt.Errorf("removed: %v", removed)
					}
					return err
				}
			}
			fold := []string{up, fam, fam, del, fam, find, find, del, up, commit}
			if isSet {
				fold = slices.Insert(fold, 6, agg)
			}
			costs.Run(t, db, []costs.Case{
				{Name: "Remove", Sends: []string{up}, Writes: 1, Index: byID, Keys: 1, Docs: 1, Call: removes(3, 2, true)},
				{Name: "Remove of one that is not there", Sends: []string{up}, Call: removes(3, 2, false)},
				{Name: "Remove of one inside", Sends: []string{up, fam, commit}, Writes: 1, Call: removes(1, 6, true)},
				{Name: "Remove of one outside", Sends: []string{up, fam, fam, commit}, Writes: 2, Call: removes(1, 0, true),
					Check: func(cmds mongotest.Commands) {
						if isSet {
							costs.Examined(t, db, cmds[2], byElement, 0, 0) // already removed
						}
					}},
				{Name: "Remove from an outlier of one that is not there", Sends: []string{up, fam, fam, up, commit}, Writes: 2, Call: removes(1, 99, false)},
				{Name: "Remove that empties an overflow document", Sends: []string{up, fam, fam, del, commit}, Writes: 2 + 1, Call: removes(1, 1, true)},
				// 2 3, 4 5 outside, 7 inside: three quarters are three.
				{Name: "Remove of another outside", Sends: []string{up, fam, fam, commit}, Writes: 2, Call: removes(1, 2, true)},
				{Name: "Remove that folds back", Sends: fold, Writes: 2 + 1 + 1 + 1 + 1, Call: removes(1, 3, true),
					Check: func(mongotest.Commands) { equal(t, []int{4, 5, 7}, testkit.Collect(t, lists.All(t.Context(), 1))) }},
			})

			// Deleting.
			deletes := func(id int) func(ctx context.Context) error {
				return func(ctx context.Context) error { return lists.Delete(ctx, id) }
			}
			costs.Run(t, db, []costs.Case{
				{Name: "Delete", Sends: []string{del}, Writes: 1, Index: byID, Keys: 1, Docs: 1, Call: deletes(1)},
				{Name: "Delete of an outlier", Sends: []string{del, fam, del, commit}, Writes: 1 + 4, Explain: 2, Index: byParent, Call: deletes(10)},
			})
		})
	}
}

func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	const list, find, agg, up, ins, del, fam, commit = "listCollections", "find", "aggregate", "update", "insert", "delete", "findAndModify", "commitTransaction"
	const repeats = "repeats"   // an aggregation that looks for elements twice in a set, else nothing
	const compares = "compares" // a find for what lies outside, except in a set
	for _, isSet := range []bool{false, true} {
		db := mongotest.Database(t)
		parents, extras := db.Collection("parents"), db.Collection("extras")
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: isSet})
		sends := func(names ...string) (out []string) {
			for _, name := range names {
				switch {
				case name == repeats && isSet:
					out = append(out, agg)
				case name == compares && !isSet:
					out = append(out, find)
				case name != repeats && name != compares:
					out = append(out, name)
				}
			}
			return out
		}
		pushes := []string{up} // an Add after its list was adopted
		if isSet {
			pushes = []string{up, agg, up}
		}
		adopt := func(ctx context.Context) error { return testkit.ErrorOf(lists.Adopt(ctx, nil)) }
		costs.Run(t, db, []costs.Case{
			// A scan, and one split into three overflow documents.
			{Name: "Adopt", Before: func() {
				insert(t, parents, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(1, 3)}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: ints(1, 8)}})
			}, Sends: sends(list, agg, fam, find, repeats, find, ins, up, commit, agg), Writes: 1 + 3 + 1, Call: adopt},
			{Name: "Adopt, nothing to do", Sends: []string{list, agg, agg}, Call: adopt},
			{Name: "Adopt with a filter", Sends: []string{list, agg}, Call: func(ctx context.Context) error {
				return testkit.ErrorOf(lists.Adopt(ctx, &mongopatterns.Work{Filter: lists.Filter(2)}))
			}},
			{Name: "Check", Sends: sends(list, find, agg, repeats, agg), Call: func(ctx context.Context) error {
				for p, err := range lists.Check(ctx, nil) {
					return fmt.Errorf("%v %w", p, err)
				}
				return nil
			}},
			{Name: "Repair", Before: func() {
				set(t, parents, lists.Filter(2), bson.D{{Key: "$set", Value: bson.D{{Key: "items_outside", Value: 99}}}})
				insert(t, extras, bson.D{{Key: "parent", Value: 3}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{1}}})
			}, Sends: sends(
				list,
				find,         // the scan
				agg, repeats, // what is wrong
				find, find, // whether it is unclear
				fam, find, compares, repeats, up, commit, // arranged
				agg, agg, agg, // strays, orphans
				find, del, commit,
			), Writes: 2 + 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(lists.Repair(ctx, nil)) }},
			{Name: "Distribution", Sends: []string{agg}, Call: func(ctx context.Context) error { return testkit.ErrorOf(lists.Distribution(ctx, nil)) }},
			// The parent's elements come first, so the list is written anew.
			{Name: "Adopt of a list of other code", Before: func() {
				insert(t, parents, bson.D{{Key: "_id", Value: 4}, {Key: "items", Value: ints(1, 3)}, {Key: "items_overflow", Value: "true"}})
				insert(t, extras, bson.D{{Key: "parent", Value: 4}, {Key: "items", Value: ints(4, 6)}}, bson.D{{Key: "parent", Value: 4}, {Key: "items", Value: ints(7, 9)}})
			}, Sends: sends(list, agg, fam, find, repeats, find, del, find, ins, up, commit, agg), Writes: 2 + 2 + 2, Call: adopt},
			// 1 to 7 lie outside. What lies outside is read to compare.
			{Name: "Adopt of a parent written back without the flag", Before: func() {
				insert(t, parents, bson.D{{Key: "_id", Value: 5}})
				add(t, lists, 5, ints(1, 10)...)
				replace(t, parents, 5, bson.D{{Key: "_id", Value: 5}, {Key: "items", Value: ints(8, 10)}})
			}, Sends: sends(list, agg, agg, fam, find, find, repeats, up, commit), Writes: 2, Call: adopt},
			{Name: "Add that finds the whole list written back", Before: func() {
				replace(t, parents, 5, bson.D{{Key: "_id", Value: 5}, {Key: "items", Value: ints(1, 11)}})
			}, Sends: append(sends(up, agg, fam, find, "abortTransaction", fam, find, find, del, repeats, find, ins, up, commit), pushes...),
				Writes: 1 + 2 + 4 + 4 + 1, Call: func(ctx context.Context) error { return testkit.ErrorOf(lists.Add(ctx, 5, 11)) }},
			{Name: "Check of one that is unclear", Before: func() {
				replace(t, parents, 5, bson.D{{Key: "_id", Value: 5}, {Key: "items", Value: ints(2, 5)}})
			}, Sends: sends(list, find, agg, repeats, agg, agg, repeats, find, find), Call: func(ctx context.Context) error {
				return testkit.Drain(lists.Check(ctx, nil))
			}},
		})
	}
}
