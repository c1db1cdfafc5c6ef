package slots_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestSlotCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	s, err := slots.New[string, weather](coll, timeseries.Days(nil), &slots.Options{EndField: "end"})
	testkit.OK(t, err)
	newSlots[string, weather](t, archive, timeseries.Days(nil), nil)
	set := func(d, h int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Set(ctx, "s", at(24*d+h, 0, 0), weather{1, 1}) }
	}
	update, find := []string{"update"}, []string{"find"}
	move := []string{"listCollections", "find", "find", "update", "delete", "commitTransaction"}
	costs.NoHints(t, costs.Run(t, db, []costs.Case{
		{Name: "new indexes", Call: s.EnsureIndexes, Sends: []string{"listCollections", "aggregate", "listIndexes", "createIndexes"}},
		{Name: "indexes", Call: s.EnsureIndexes, Sends: []string{"listCollections", "aggregate", "listIndexes"}},
		{Name: "set", Call: set(0, 1), Sends: update, Writes: 1},
		{Name: "set again", Call: set(0, 2), Sends: update, Writes: 1, Index: base, Keys: 1, Docs: 1},
		{Name: "set", Call: set(1, 1), Sends: update, Writes: 1},
		{Name: "set", Call: set(2, 1), Sends: update, Writes: 1},
		{Name: "set", Call: set(3, 1), Sends: update, Writes: 1},
		{Name: "set many", Call: func(ctx context.Context) error {
			return second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[weather]{Time: at(1, 0, 0)}, slots.Slot[weather]{Time: at(25, 0, 0)},
				slots.Slot[weather]{Time: at(2, 0, 0), Value: weather{2, 2}}), &mongopatterns.Work{BatchSize: 2}))
		}, Sends: []string{"update", "update"}, Writes: 3, Index: base, Keys: 1, Docs: 1},
		{Name: "get", Call: func(ctx context.Context) error { return second(s.Get(ctx, "s", at(1, 0, 0))) },
			Sends: find, Index: base, Keys: 1, Docs: 1},
		{Name: "get of no document", Call: func(ctx context.Context) error {
			if _, err := s.Get(ctx, "s", at(999, 0, 0)); !errors.Is(err, mongopatterns.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			return nil
		}, Sends: []string{"find", "find"}, Explain: 1, Index: base, Keys: 1},
		{Name: "range", Call: func(ctx context.Context) error { return testkit.Drain(s.Range(ctx, "s", at(1, 0, 0), at(48, 0, 0))) },
			Sends: find, Index: base, Keys: 3, Docs: 2, NoSort: true},
		{Name: "latest", Call: func(ctx context.Context) error { return second(s.Latest(ctx, "s")) },
			Sends: find, Index: base, Keys: 1, Docs: 1},
		{Name: "delete", Call: func(ctx context.Context) error { return s.Delete(ctx, "s", at(24*3+1, 0, 0)) },
			Sends: update, Writes: 1, Index: base, Keys: 1, Docs: 1},
		{Name: "latest after an empty one", Call: func(ctx context.Context) error { return second(s.Latest(ctx, "s")) }, Sends: []string{"find", "find"}},
		{Name: "check", Call: func(ctx context.Context) error { return testkit.Drain(s.Check(ctx, nil)) }, Sends: []string{"listCollections", "find", "find", "find", "listIndexes"}},
		{Name: "repair of nothing", Call: func(ctx context.Context) error { return second(s.Repair(ctx, nil)) }, Sends: []string{"listCollections", "find"}},
		{Name: "archive", Call: func(ctx context.Context) error { return second(s.Archive(ctx, at(48, 0, 0), archive, nil)) },
			Sends: move, Writes: 4},
		{Name: "late", Call: set(0, 1), Sends: update, Writes: 1},
		{Name: "archive what is there", Call: func(ctx context.Context) error { return second(s.Archive(ctx, at(48, 0, 0), archive, nil)) },
			Sends: move, Writes: 2},
	}))
	testkit.OK(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "old"}, {Key: "start", Value: "2019-01-31"},
		{Key: "data", Value: bson.D{{Key: "1", Value: bson.D{{Key: "2", Value: weather{1, 1}}}}}}})))
	costs.NoHints(t, costs.Run(t, db, []costs.Case{{Name: "adopt", Call: func(ctx context.Context) error { return second(s.Adopt(ctx, nil, nil)) },
		Sends: []string{"listCollections", "find", "find", "delete", "update", "commitTransaction"}, Writes: 2}}))
}
