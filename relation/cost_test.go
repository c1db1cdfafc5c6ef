package relation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	up, ins, find, commit, del, fam, list := "update", "insert", "find", "commitTransaction", "delete", "findAndModify", "listCollections"
	t.Run("both", func(t *testing.T) {
		db, r := people(t, twoWay)
		costs.Run(t, db, []costs.Case{
			{Name: "Link", Sends: []string{up, up, commit}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2) }},
			{Name: "Unlink", Sends: []string{up, up, commit}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return r.Unlink(ctx, "Ann", 2) }},
			{Name: "Transfer", Sends: []string{fam, up, up, commit}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return r.Transfer(ctx, 1, "Bob") }},
			{Name: "Insert", Sends: []string{up, ins, commit}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) }},
			{Name: "Has", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Has(ctx, "Ann", 10)) }},
			{Name: "Parents", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Parents(ctx, 10)) }},
			{Name: "Children", Sends: []string{find, find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Children(ctx, "Ann", nil)) }},
			{Name: "ChildrenOf", Sends: []string{find, find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, nil)) }},
			{Name: "First", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.First(ctx, "Ann", 1, nil)) }},
			{Name: "Fetch", Sends: []string{find}, Index: "_id_", Call: func(ctx context.Context) error {
				return errorOf(relation.Fetch[int, task](ctx, db.Collection("tasks"), []int{1, 2}, nil))
			}},
		})
	})
	t.Run("children", func(t *testing.T) {
		db, r := people(t, listed)
		costs.Run(t, db, []costs.Case{
			{Name: "Link", Sends: []string{up}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2, 3) }},
			{Name: "Unlink", Sends: []string{up}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Unlink(ctx, "Ann", 2, 3) }},
			{Name: "Insert", Sends: []string{up, ins, commit}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) }},
			{Name: "Has", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Has(ctx, "Ann", 10)) }},
			{Name: "Parents", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Parents(ctx, 10)) }},
		})
		_, err := db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": nil}})
		check(t, err)
		costs.Run(t, db, []costs.Case{
			{Name: "Link to null instead of an array", Sends: []string{up, up}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Cy", 3) }},
		})
		full := testkit.Must(relation.New[string, int, task](db.Collection("people"), db.Collection("tasks"), &relation.Options{ChildrenField: "tasks", MaxCount: 2}))
		check(t, full.Link(ctx, "Cy", 4))
		costs.Run(t, db, []costs.Case{
			{Name: "Link of two, and both are linked", Sends: []string{up, up}, Indexed: true, Call: func(ctx context.Context) error { return full.Link(ctx, "Cy", 4, 3) }},
		})
		is(t, db, "Ann>1", "Ann>10", "Cy>3", "Cy>4")
	})
	t.Run("owner", func(t *testing.T) {
		db, r := people(t, owned)
		costs.Run(t, db, []costs.Case{
			{Name: "Link", Sends: []string{up}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 1) }},
			{Name: "Link", Sends: []string{up, commit}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 2, 3) }},
			{Name: "Unlink", Sends: []string{up}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Unlink(ctx, "Ann", 1) }},
			{Name: "Transfer", Sends: []string{fam}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Transfer(ctx, 2, "Bob") }},
			{Name: "Insert", Sends: []string{up, ins, commit}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) }},
			{Name: "Has", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Has(ctx, "Ann", 10)) }},
			{Name: "Parents", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Parents(ctx, 10)) }},
			{Name: "Children", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Children(ctx, "Ann", nil)) }},
		})
		check(t, r.Link(ctx, "Cy", 4, 5, 6, 7, 8, 9))
		check(t, r.Unlink(ctx, "Ann", 3, 10))
		cmds := mongotest.Record(t, db, func() { check(t, errorOf(r.First(ctx, "Cy", 3, nil))) })
		many := mongotest.Record(t, db, func() { check(t, errorOf(r.ChildrenOf(ctx, []string{"Cy", "Bob"}, nil))) })
		mongotest.Explain(t, db, many[0].Body).RequireNoSort(t)
		plan := mongotest.Explain(t, db, cmds[0].Body)
		plan.RequireIndex(t, "owner_1__id_-1")
		plan.RequireNoSort(t)
		plan.RequireExamined(t, 3, 3)
	})
	t.Run("owners", func(t *testing.T) {
		db, r := people(t, named)
		check(t, r.Link(ctx, "Bob", 1))
		costs.Run(t, db, []costs.Case{
			{Name: "Link", Sends: []string{up, commit}, Writes: 2, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2) }},
			{Name: "ChildrenOf", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, nil)) }},
		})
	})
	t.Run("links", func(t *testing.T) {
		db, r := people(t, linked)
		costs.Run(t, db, []costs.Case{
			{Name: "Link", Sends: []string{up}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2, 3) }},
			{Name: "Unlink", Sends: []string{del}, Writes: 1, Indexed: true, Call: func(ctx context.Context) error { return r.Unlink(ctx, "Ann", 3) }},
			{Name: "Insert", Sends: []string{up, ins, up, commit}, Writes: 4, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Insert(ctx, "Bob", task{ID: 10})) }},
			{Name: "Has", Sends: []string{find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Has(ctx, "Ann", 1)) }},
		})
		for _, fn := range []func() error{func() error { return errorOf(r.Parents(ctx, 1)) }, func() error { return errorOf(r.Children(ctx, "Bob", nil)) }, func() error { return errorOf(r.ChildrenOf(ctx, []string{"Bob", "Cy"}, nil)) }} {
			cmds := mongotest.Record(t, db, func() { check(t, fn()) })
			if plan := mongotest.Explain(t, db, cmds[0].Body); plan.DocsExamined != 0 || plan.KeysExamined > 2 {
				t.Errorf("%s: %s", cmds[0].Body, plan) // the index alone
			} else {
				plan.RequireNoSort(t)
			}
		}
		costs.Run(t, db, []costs.Case{
			{Name: "Children", Sends: []string{find, find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Children(ctx, "Ann", nil)) }},
			{Name: "ChildrenOf", Sends: []string{find, find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, nil)) }},
		})
	})
	t.Run("one collection", func(t *testing.T) {
		db, _ := people(t, owned)
		r := testkit.Must(relation.New[int, int, task](db.Collection("tasks"), db.Collection("tasks"), &relation.Options{ChildrenField: "parts", OwnerField: "whole"}))
		check(t, r.EnsureIndexes(ctx))
		check(t, errors.Join(r.Link(ctx, 1, 2), r.Link(ctx, 2, 3, 4)))
		costs.Run(t, db, []costs.Case{
			{Name: "DeleteParent", Sends: []string{fam, up, up, commit}, Writes: 4, Indexed: true, Call: func(ctx context.Context) error { return testkit.ErrorOf(r.DeleteParent(ctx, 2, mongopatterns.Unlink)) }},
		})
	})
	t.Run("many parents", func(t *testing.T) {
		db, r := people(t, listed)
		check(t, r.Link(ctx, "Ann", 1))
		names := []string{"Ann"}
		for i := range 1000 {
			names = append(names, fmt.Sprint(i))
		}
		costs.Run(t, db, []costs.Case{
			{Name: "ChildrenOf, two chunks of parents", Sends: []string{find, find, find}, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.ChildrenOf(ctx, names, nil)) }},
		})
		db, r = people(t, named)
		names[1000] = "Bob" // of the second chunk
		check(t, errors.Join(r.Link(ctx, "Ann", 1), r.Link(ctx, "Bob", 1)))
		var all []relation.Joined[int, task]
		costs.Run(t, db, []costs.Case{
			{Name: "ChildrenOf, owners in two chunks", Sends: []string{find, find}, Indexed: true, Call: func(ctx context.Context) (err error) {
				all, err = r.ChildrenOf(ctx, names, nil)
				return err
			}},
		})
		if len(all[0].Items) != 1 || len(all[1000].Items) != 1 {
			t.Error(all[0], all[1000])
		}
	})
	t.Run("conversions", func(t *testing.T) {
		db, r := people(t, twoWay)
		check(t, r.Link(ctx, "Ann", 1, 2))
		one := &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}}
		costs.Run(t, db, []costs.Case{
			{Name: "Embed", Sends: []string{list, find, find, find, del, up, commit}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Embed(ctx, one)) }},
			{Name: "Extract", Sends: []string{list, find, ins, up, commit}, Writes: 3, Indexed: true, Call: func(ctx context.Context) error { return errorOf(r.Extract(ctx, one)) }},
		})
	})
	t.Run("maintenance", func(t *testing.T) {
		db, r := people(t, twoWay)
		check(t, r.Link(ctx, "Ann", 1, 2))
		all := func(r *tasks) func(ctx context.Context) error {
			return func(ctx context.Context) error { return testkit.Drain(r.Check(ctx, nil)) }
		}
		repair := func(r *tasks, id any) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				return errorOf(r.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": id}}))
			}
		}
		costs.Run(t, db, []costs.Case{
			{Name: "Check", Sends: []string{list, find, find, find, find}, Call: all(r)},
			{Name: "EnsureIndexes", Sends: []string{list, "aggregate", "listIndexes", "listIndexes"}, Call: r.EnsureIndexes},
		})
		check(t, db.Collection("tasks").Indexes().DropAll(ctx))
		costs.Run(t, db, []costs.Case{
			{Name: "EnsureIndexes", Sends: []string{list, "aggregate", "listIndexes", "listIndexes", "createIndexes"}, Call: r.EnsureIndexes},
		})
		_, err := db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$push": bson.M{"tasks": bson.M{"$each": bson.A{77, 3, 4}}}})
		check(t, err)
		costs.Run(t, db, []costs.Case{
			{Name: "Check", Sends: []string{list, find, find, find, find, commit, find, find}, Call: all(r)},
			{Name: "Repair, 3 and 4 lack their owner", Sends: []string{list, find, find, find, find, up, up, up, commit}, Writes: 3, Call: repair(r, "Ann")},
		})
		_, err = db.Collection("tasks").UpdateByID(ctx, 3, bson.M{"$unset": bson.M{"owner": 1}})
		check(t, err)
		costs.Run(t, db, []costs.Case{
			{Name: "Repair, Ann twice and 3", Sends: []string{list, find, find, find, find, up, up, commit}, Writes: 3, Call: repair(r, "Ann")},
		})
		db, r = people(t, linked)
		testkit.Insert(t, db.Collection("links"), bson.M{"_id": 1, "person_id": "Ann", "task_id": 77})
		costs.Run(t, db, []costs.Case{
			{Name: "Repair", Sends: []string{list, find, find, "aggregate", find, find, "aggregate", del, commit, find}, Writes: 1, Call: repair(r, 1)},
		})
		check(t, r.Link(ctx, "Ann", 1))
		costs.Run(t, db, []costs.Case{
			{Name: "Check", Sends: []string{list, find, find, "aggregate", find, find}, Call: all(r)},
		})
	})
}

// The deletions of Ann, who has 1 and 2, and of 1; with Restrict, of Bob and 9, who have no links.
func TestCostsOfDeletions(t *testing.T) {
	t.Parallel()
	up, find, del := "update", "find", "delete"
	for name, kind := range map[string]struct {
		opts                       relation.Options
		restrict, unlink, cascade  []string // of a parent
		unlinked, cascaded         int
		restrictChild, unlinkChild []string
		unlinkedChild              int
	}{
		"children": {listed, nil, nil, []string{find, del}, 1, 3, []string{find}, []string{up}, 2},
		"owner":    {owned, []string{find}, []string{up}, []string{del}, 3, 3, nil, nil, 1},
		"owners":   {named, []string{find}, []string{up}, []string{del, up}, 3, 3, nil, nil, 1},
		"both":     {twoWay, []string{find}, []string{up}, []string{del}, 3, 3, []string{find}, []string{up}, 2},
		"many":     {manyMany, []string{find}, []string{up}, []string{del, up}, 3, 3, []string{find}, []string{up}, 2},
		"links":    {linked, []string{find}, []string{del}, []string{find, del, find, del}, 3, 5, []string{find}, []string{del}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			for _, test := range []struct {
				names   []string
				written int
				delete  func(r *tasks) error
			}{
				{kind.restrict, 1, func(r *tasks) error { return testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Restrict)) }},
				{kind.unlink, kind.unlinked, func(r *tasks) error { return testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Unlink)) }},
				{kind.cascade, kind.cascaded, func(r *tasks) error { return testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)) }},
				{kind.restrictChild, 1, func(r *tasks) error { return r.DeleteChild(ctx, 9, mongopatterns.Restrict) }},
				{kind.unlinkChild, kind.unlinkedChild, func(r *tasks) error { return r.DeleteChild(ctx, 1, mongopatterns.Unlink) }},
			} {
				db, r := people(t, kind.opts)
				check(t, r.Link(ctx, "Ann", 1, 2))
				cmds := costs.Record(t, db, test.written, slices.Concat([]string{"findAndModify"}, test.names, []string{"commitTransaction"}), func() error { return test.delete(r) })
				for _, c := range cmds[1 : len(cmds)-1] {
					if plan := mongotest.Explain(t, db, c.Body); plan.Has("COLLSCAN") {
						t.Errorf("%s: %s", c.Body, plan)
					}
				}
			}
		})
	}
}
