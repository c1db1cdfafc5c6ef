package slots_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestSlotCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	s, err := slots.New[string, weather](coll, timeseries.Days(nil), &slots.Options{EndField: "end"})
	must(t, err)
	newSlots[string, weather](t, archive, timeseries.Days(nil), nil)
	set := func(d, h int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Set(ctx, "s", at(24*d+h, 0, 0), weather{1, 1}) }
	}
	update, find := []string{"update"}, []string{"find"}
	move := []string{"find", "find", "update", "delete", "commitTransaction"}
	checkCosts(t, db, []cost{
		{what: "new indexes", call: s.EnsureIndexes, sends: []string{"listIndexes", "createIndexes"}},
		{what: "indexes", call: s.EnsureIndexes, sends: []string{"listIndexes"}},
		{what: "set", call: set(0, 1), sends: update, writes: 1},
		{what: "set again", call: set(0, 2), sends: update, writes: 1, index: base, keys: 1, docs: 1},
		{what: "set", call: set(1, 1), sends: update, writes: 1},
		{what: "set", call: set(2, 1), sends: update, writes: 1},
		{what: "set", call: set(3, 1), sends: update, writes: 1},
		{what: "set many", call: func(ctx context.Context) error {
			return second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[weather]{Time: at(1, 0, 0)}, slots.Slot[weather]{Time: at(25, 0, 0)},
				slots.Slot[weather]{Time: at(2, 0, 0), Value: weather{2, 2}}), &mongopatterns.Work{BatchSize: 2}))
		}, sends: []string{"update", "update"}, writes: 3, index: base, keys: 1, docs: 1},
		{what: "get", call: func(ctx context.Context) error { return second(s.Get(ctx, "s", at(1, 0, 0))) },
			sends: find, index: base, keys: 1, docs: 1},
		{what: "get of no document", call: func(ctx context.Context) error {
			if _, err := s.Get(ctx, "s", at(999, 0, 0)); !errors.Is(err, mongopatterns.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			return nil
		}, sends: []string{"find", "find"}, explain: 1, index: base, keys: 1},
		{what: "range", call: func(ctx context.Context) error { return drain(s.Range(ctx, "s", at(1, 0, 0), at(48, 0, 0))) },
			sends: find, index: base, keys: 3, docs: 2, unsorted: true},
		{what: "latest", call: func(ctx context.Context) error { return second(s.Latest(ctx, "s")) },
			sends: find, index: base, keys: 1, docs: 1},
		{what: "delete", call: func(ctx context.Context) error { return s.Delete(ctx, "s", at(24*3+1, 0, 0)) },
			sends: update, writes: 1, index: base, keys: 1, docs: 1},
		{what: "latest after an empty one", call: func(ctx context.Context) error { return second(s.Latest(ctx, "s")) }, sends: []string{"find", "find"}},
		{what: "check", call: func(ctx context.Context) error { return drain(s.Check(ctx, nil)) }, sends: find},
		{what: "repair of nothing", call: func(ctx context.Context) error { return second(s.Repair(ctx, nil)) }, sends: find},
		{what: "archive", call: func(ctx context.Context) error { return second(s.Archive(ctx, at(48, 0, 0), archive, nil)) },
			sends: move, writes: 4},
		{what: "late", call: set(0, 1), sends: update, writes: 1},
		{what: "archive what is there", call: func(ctx context.Context) error { return second(s.Archive(ctx, at(48, 0, 0), archive, nil)) },
			sends: move, writes: 2},
	})
	must(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "old"}, {Key: "start", Value: "2019-01-31"},
		{Key: "data", Value: bson.D{{Key: "1", Value: bson.D{{Key: "2", Value: weather{1, 1}}}}}}})))
	checkCosts(t, db, []cost{{what: "adopt", call: func(ctx context.Context) error { return second(s.Adopt(ctx, nil, nil)) },
		sends: []string{"find", "find", "delete", "update", "commitTransaction"}, writes: 2}})
}
