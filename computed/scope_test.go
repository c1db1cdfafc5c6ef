package computed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A source counts for a target of its own tenant alone, also if it names that of another, and so in each way to compute.
func TestSourcesOfTenants(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	sources, targets := db.Collection("sources"), db.Collection("targets")
	sum := computed.Rule{KeyField: "of", Empty: testkit.D("sum", 0),
		Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n")))}}
	for _, additive := range []bool{false, true} {
		testkit.Empty(t, db)
		c := testkit.Must(computed.New[int, int, bson.D](sources, targets, sum, &computed.Options{Additive: additive, Scope: testkit.D("tenant", "a")}))
		testkit.OK(t, c.EnsureIndexes(ctx))
		theirs := testkit.D("_id", int32(2), "sum", int32(7), "tenant", "b")
		testkit.Insert(t, targets, testkit.D("_id", 1, "tenant", "a"), theirs)
		testkit.Insert(t, sources, testkit.D("_id", 1, "of", 1, "n", 1, "tenant", "a"), testkit.D("_id", 2, "of", 1, "n", 100, "tenant", "b"), testkit.D("_id", 3, "of", 2, "n", 5, "tenant", "a"))
		have := func(want int32) {
			t.Helper()
			if got := testkit.Must(c.Get(ctx, 1, time.Hour)); testkit.Get(got, "sum") != want {
				t.Errorf("additive %v: %v", additive, got)
			}
		}
		testkit.Must(c.Adopt(ctx, nil))
		have(1)
		testkit.OK(t, c.Change(ctx, []int{1, 2, 3}, func(ctx context.Context) error {
			return testkit.ErrorOf(sources.UpdateMany(ctx, bson.D{}, testkit.D("$inc", testkit.D("n", 1))))
		}))
		have(2)
		testkit.Must(sources.UpdateOne(ctx, testkit.D("_id", 1), testkit.D("$set", testkit.D("n", 10))))
		testkit.OK(t, c.Mark(ctx, 1, 2))
		if result, err := c.Drain(ctx, nil); err != nil || result.Done != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		have(10)
		if result, err := c.Refresh(ctx, 1, 2); err != nil || result.Done != 1 || result.Skipped != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		if _, err := c.Get(ctx, 2, time.Hour); !errors.Is(err, mongopatterns.ErrNotFound) {
			t.Error(err)
		}
		testkit.Same(t, "theirs", theirs, testkit.Find[bson.D](t, targets, testkit.D("_id", 2))[0])
	}
}

// The queue is read by an index that holds the marked targets alone.
func TestQueueInAScope(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	targets := db.Collection("targets")
	c := testkit.Must(computed.New[int, int, bson.D](db.Collection("sources"), targets, computed.Rule{KeyField: "of", Empty: testkit.D("sum", 0),
		Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n")))}}, &computed.Options{Scope: testkit.D("tenant", "a")}))
	testkit.OK(t, c.EnsureIndexes(ctx))
	for i := range 100 {
		testkit.Insert(t, targets, testkit.D("_id", i, "tenant", []string{"a", "b"}[i%2]))
	}
	testkit.OK(t, c.Mark(ctx, 4))
	cmds := mongotest.Record(t, db, func() { testkit.Must(c.Drain(ctx, nil)) })
	plan := mongotest.Explain(t, db, cmds[0].Body)
	if plan.Has("COLLSCAN") || plan.DocsExamined > 1 || plan.KeysExamined > 2 {
		t.Errorf("%+v", plan)
	}
}

// A level of another tenant cannot follow.
func TestLevelsInAScope(t *testing.T) {
	db := testkit.Offline(t)
	rule := computed.Rule{KeyField: "of", Empty: testkit.D("sum", 0), Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n")))}}
	upper := testkit.Must(computed.New[int, int, bson.D](db.Collection("b"), db.Collection("c"), rule, &computed.Options{Scope: testkit.D("tenant", 7)}))
	for _, tenant := range []any{7, 7.0, int64(7), 8, nil} {
		own := &computed.Options{Then: upper}
		if tenant != nil {
			own.Scope = testkit.D("tenant", tenant)
		}
		_, err := computed.New[int, int, bson.D](db.Collection("a"), db.Collection("b"), rule, own)
		if refused := tenant == 8 || tenant == nil; (err != nil) != refused || refused && (!errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "Scope")) {
			t.Errorf("%v: %v", tenant, err)
		}
	}
}
