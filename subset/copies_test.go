package subset_test

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A copy in an item changes while the item comes into the array of its parent: the array does not keep the old one.
func TestCopyInTheNextItem(t *testing.T) {
	t.Parallel()
	type lessons = *subset.Subset[string, bson.D]
	for name, bring := range map[string]func(ctx context.Context, one, three lessons) error{
		"Delete": func(ctx context.Context, one, _ lessons) error { return one.Delete(ctx, "ann", 3) },
		"Update": func(ctx context.Context, one, _ lessons) error {
			return one.Update(ctx, "ann", 3, d("$set", d("at", 0)))
		},
		"Insert": func(ctx context.Context, _, three lessons) error {
			return testkit.ErrorOf(three.Insert(ctx, "ann", d("_id", 4, "at", 4)))
		},
		"Repair": func(ctx context.Context, _, three lessons) error { return testkit.ErrorOf(three.Repair(ctx, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var meanwhile func(ctx context.Context)
			db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
				// The second command of a transaction that reads the items, which has its snapshot from the first.
				if _, err := e.Command.LookupErr("autocommit"); err == nil && (e.CommandName == "find" || e.CommandName == "aggregate") && meanwhile != nil {
					change := meanwhile
					meanwhile = nil
					change(context.WithoutCancel(t.Context()))
				}
			}}))
			ctx := t.Context()
			students, items, sources := db.Collection("students"), db.Collection("lessons"), db.Collection("teachers")
			open := func(n int) lessons {
				return testkit.Must(subset.New[string, bson.D](students, items, &subset.Options{ParentField: "student", ArrayField: "lessons", N: n, Sort: d("at", -1)}))
			}
			one := open(1)
			teachers := testkit.Must(extref.New[string, bson.D](sources, []extref.Target{
				{Collection: items, Path: "teacher", Fields: []extref.Field{{Path: "name"}}},
				{Collection: students, Path: "lessons", Array: true, IDField: "teacher._id", VersionField: "teacher.version", Fields: []extref.Field{{Path: "name", As: "teacher.name"}}},
			}, nil))
			must(t, one.EnsureIndexes(ctx))
			must(t, teachers.EnsureIndexes(ctx))
			insert(t, sources, d("_id", "thea", "name", "Thea"))
			insert(t, students, d("_id", "ann"))
			copied := testkit.Value[bson.D](t)(teachers.Fetch(ctx, "lessons.teacher", "thea"))
			must(t, testkit.ErrorOf(one.Insert(ctx, "ann", d("_id", 2, "at", 2, "teacher", copied))))
			must(t, testkit.ErrorOf(one.Insert(ctx, "ann", d("_id", 3, "at", 3))))
			meanwhile = func(ctx context.Context) {
				must(t, testkit.ErrorOf(teachers.Update(ctx, "thea", d("$set", d("name", "Theodora")))))
			}
			must(t, bring(ctx, one, open(3)))
			same(t, "changed", true, meanwhile == nil)
			parent := testkit.Stored[bson.Raw](t, students)[0].String()
			if !strings.Contains(parent, "Theodora") {
				t.Error(parent)
			}
			same(t, "problems", []string{}, testkit.Problems(t, teachers))
		})
	}
}
