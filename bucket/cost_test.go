package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

const base, byID = "series_1_start_1", "series_1_start_1_measurements.id_1"

// A cost is what a call sends and writes, and by which index ("" for any) one of its
// commands looks at no more than these.
type cost struct {
	what       string
	call       func(ctx context.Context) error
	sends      []string
	writes     int
	explain    int // which command
	index      string
	keys, docs int64 // 0 for no plan
	unsorted   bool
}

func checkCosts(t *testing.T, db *mongo.Database, all []cost) {
	t.Helper()
	for _, c := range all {
		t.Log(c.what)
		cmds := costs.Record(t, db, c.writes, c.sends, func() error { return c.call(t.Context()) })
		for _, cmd := range cmds {
			if strings.Contains(cmd.Body.String(), `"hint"`) {
				t.Fatal("a hint, which not every server takes: ", cmd.Body)
			}
		}
		if c.keys+c.docs == 0 {
			continue
		}
		plan := mongotest.Explain(t, db, cmds[c.explain].Body)
		if c.index != "" {
			plan.RequireIndex(t, c.index)
		}
		if plan.Has("COLLSCAN") {
			t.Fatal(plan)
		}
		plan.RequireExamined(t, c.keys, c.docs)
		if c.unsorted {
			plan.RequireNoSort(t)
		}
	}
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// aborted runs a call in a transaction and aborts it.
func aborted(t *testing.T, db *mongo.Database, call func(ctx context.Context) error) func(ctx context.Context) error {
	t.Helper()
	return func(ctx context.Context) error {
		session, err := db.Client().StartSession()
		if err != nil {
			return err
		}
		defer session.EndSession(ctx)
		if err := session.StartTransaction(); err != nil {
			return err
		}
		return errors.Join(call(mongo.NewSessionContext(ctx, session)), session.AbortTransaction(ctx))
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive, src := db.Collection("c"), db.Collection("archive"), db.Collection("src")
	o := full()
	o.MaxCount = 10
	b, err := bucket.New[string, event](coll, timeseries.Every(time.Hour), o)
	must(t, err)
	checkCosts(t, db, []cost{
		{what: "new indexes", call: b.EnsureIndexes, sends: []string{"listIndexes", "createIndexes"}},
		{what: "indexes", call: b.EnsureIndexes, sends: []string{"listIndexes"}},
	})
	must(t, second(coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "start", Value: 1}}})))
	noIDs := *o
	noIDs.IDField = ""
	plain := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &noIDs)
	newBuckets[string, event](t, archive, timeseries.Every(time.Hour), &noIDs)
	cold := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	add := func(b *bucket.Buckets[string, event], id string, at time.Time) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := b.Append(ctx, "s", event{ID: id, Timestamp: at, V: 1})
			return err
		}
	}
	many := func(b *bucket.Buckets[string, event], work *mongopatterns.Work, series []string, events ...event) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := b.AppendMany(ctx, func(yield func(string, event) bool) {
				for _, s := range series {
					for _, e := range events {
						if !yield(s, e) {
							return
						}
					}
				}
			}, work)
			return err
		}
	}
	one := []string{"update"}
	var appends []cost
	for i := range 25 { // rollover included: 25 into buckets of 10
		c := cost{what: fmt.Sprint("append ", i), call: add(b, fmt.Sprint(i), at(1, i, 0)), sends: one, writes: 1}
		if i%10 > 0 { // no hint, and yet the plan is that of _id
			c.index, c.keys, c.docs = "_id_", 1, 1
		}
		appends = append(appends, c)
	}
	checkCosts(t, db, appends)
	var day24, z []event // 24 windows
	for h := range 24 {
		for i := range 8 {
			day24 = append(day24, event{ID: fmt.Sprint("m", i), Timestamp: at(h, i, 0), V: 1})
		}
	}
	for i := range 5 {
		z = append(z, event{ID: fmt.Sprint("z", i), Timestamp: at(1, 50, i), V: 1})
	}
	late := event{ID: "t", Timestamp: at(1, 50, 0), V: 1}
	three := []string{"update", "find", "update"}
	checkCosts(t, db, []cost{
		{what: "append cold", call: add(cold, "25", at(1, 25, 0)), sends: three, writes: 1, explain: 1, keys: 7, docs: 6},
		{what: "append cold without IDs", call: add(plain, "26", at(1, 26, 0)), sends: three, writes: 1, explain: 1, index: "_id_", keys: 3, docs: 3},
		{what: "append in a transaction", call: aborted(t, db, add(cold, "t", late.Timestamp)), sends: []string{"find", "update", "abortTransaction"}, writes: 1},
		{what: "many in a transaction", call: aborted(t, db, many(cold, nil, []string{"s"}, late)), sends: []string{"find", "update", "abortTransaction"}, writes: 1},
		{what: "many", call: many(b, &mongopatterns.Work{BatchSize: len(day24)}, []string{"x", "y"}, day24...), sends: []string{"update", "update"}, writes: 48},
		{what: "many by _id", call: many(b, nil, []string{"x"}, event{ID: "id", Timestamp: at(3, 59, 0), V: 1}), sends: []string{"update"}, writes: 1, index: "_id_", keys: 1, docs: 1},
		{what: "many meets full", call: many(newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o), nil, []string{"s"}, z...),
			sends: []string{"update", "find", "update"}, writes: 2},

		{what: "range", call: func(ctx context.Context) error { return drain(b.Range(ctx, "x", at(3, 5, 0), at(6, 5, 0))) },
			sends: []string{"find"}, index: base, keys: 5, docs: 4, unsorted: true},
		{what: "aggregate", call: func(ctx context.Context) error { return second(b.Aggregate(ctx, "x", at(3, 5, 0), at(6, 5, 0))) },
			sends: []string{"aggregate"}, index: base, keys: 5, docs: 4},
		{what: "windows", call: func(ctx context.Context) error { return drain(b.AggregateWindows(ctx, "x", at(3, 0, 0), at(6, 0, 0))) },
			sends: []string{"aggregate"}, index: base, keys: 4, docs: 3},
		{what: "latest", call: func(ctx context.Context) error { return second(b.Latest(ctx, "s")) },
			sends: []string{"aggregate"}, index: base, keys: 1, docs: 1},
		{what: "page", call: func(ctx context.Context) error { return second(b.Page(ctx, "s", at(1, 0, 0), 1)) },
			sends: []string{"find"}, index: "_id_", keys: 1, docs: 1},
		{what: "last page but one", call: func(ctx context.Context) error { return second(b.Page(ctx, "s", at(1, 0, 0), -2)) },
			sends: []string{"find"}, index: "_id_", keys: 2, docs: 2},
		{what: "pages", call: func(ctx context.Context) error { return second(b.Pages(ctx, "s", at(1, 0, 0))) },
			sends: []string{"find"}, index: "_id_", keys: 1, docs: 1},

		{what: "update", call: func(ctx context.Context) error {
			return b.Update(ctx, "x", event{ID: "m3", Timestamp: at(4, 3, 0), V: 7})
		}, sends: []string{"update"}, writes: 1, keys: 2, docs: 1},
		{what: "delete by ID", call: func(ctx context.Context) error { return b.DeleteByID(ctx, "x", at(4, 3, 0), "m3") },
			sends: []string{"update"}, writes: 1, index: byID, keys: 2, docs: 1},
		{what: "delete", call: func(ctx context.Context) error { return b.Delete(ctx, "x", at(4, 4, 0)) },
			sends: []string{"update"}, writes: 1, keys: 2, docs: 1},
		{what: "check", call: func(ctx context.Context) error { return drain(b.Check(ctx, nil)) }, sends: []string{"find"}},
	})

	must(t, second(coll.UpdateMany(t.Context(), bson.D{{Key: "series", Value: "y"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 1}}}})))
	var docs []any
	for i := range 6 {
		docs = append(docs, bson.D{{Key: "series", Value: "a"}, {Key: "id", Value: fmt.Sprint(i)}, {Key: "timestamp", Value: at(20, i, 0)}, {Key: "v", Value: 1}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	of := func(series ...string) bson.D {
		return bson.D{{Key: "series", Value: bson.D{{Key: "$in", Value: series}}}}
	}
	batch := []string{"find", "find", "insert", "delete", "commitTransaction"}
	adopt := []string{"update", "find", "update", "commitTransaction"}
	checkCosts(t, db, []cost{
		{what: "repair", call: func(ctx context.Context) error { return second(b.Repair(ctx, nil)) },
			sends: []string{"find", "update"}, writes: 24, explain: 1, keys: 2, docs: 1},
		{what: "archive", call: func(ctx context.Context) error {
			return second(b.Archive(ctx, at(3, 0, 0), archive, &mongopatterns.Work{BatchSize: 3, Filter: of("x", "y")}))
		}, sends: append(append([]string{"find"}, batch...), batch...), writes: 12},
		{what: "late", call: func(ctx context.Context) error {
			return second(b.Append(ctx, "x", event{ID: "late", Timestamp: at(1, 0, 0)}))
		}, sends: one, writes: 1},
		{what: "archive what is there", call: func(ctx context.Context) error {
			return second(b.Archive(ctx, at(3, 0, 0), archive, &mongopatterns.Work{Filter: of("x")}))
		}, sends: append([]string{"find"}, batch...), writes: 2, explain: 2, index: "_id_", keys: 2, docs: 1},
		{what: "archive all series", call: func(ctx context.Context) error { return second(b.Archive(ctx, at(4, 0, 0), archive, nil)) },
			sends: append([]string{"find"}, batch...), writes: 12, index: "start_1", keys: 7, docs: 6},
		{what: "adopt", call: func(ctx context.Context) error {
			return second(plain.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 3}))
		}, sends: slices.Concat([]string{"listCollections", "find", "find"}, adopt, []string{"getMore"}, adopt, []string{"getMore"}), writes: 4},
		{what: "adopt again", call: func(ctx context.Context) error { return second(plain.Adopt(ctx, src, nil, nil)) },
			sends: []string{"listCollections", "find", "find"}, explain: 1, index: "_id_", keys: 1, docs: 1},
		{what: "compare", call: func(ctx context.Context) error { return drain(plain.Compare(ctx, src, nil, nil)) },
			sends: []string{"listCollections", "find", "find", "aggregate"}, explain: 2, index: "_id_", keys: 6, docs: 6},
	})
}
