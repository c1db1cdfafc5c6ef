package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

const base, byID = "series_1_start_1", "series_1_start_1_measurements.id_1"

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
	costs.NoHints(t, costs.Run(t, db, []costs.Case{
		{Name: "new indexes", Call: b.EnsureIndexes, Sends: []string{"listCollections", "aggregate", "listIndexes", "createIndexes"}},
		{Name: "indexes", Call: b.EnsureIndexes, Sends: []string{"listCollections", "aggregate", "listIndexes"}},
	}))
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
	var appends []costs.Case
	for i := range 25 { // rollover included: 25 into buckets of 10
		c := costs.Case{Name: fmt.Sprint("append ", i), Call: add(b, fmt.Sprint(i), at(1, i, 0)), Sends: one, Writes: 1}
		if i%10 > 0 { // no hint, and yet the plan is that of _id
			c.Index, c.Keys, c.Docs = "_id_", 1, 1
		}
		appends = append(appends, c)
	}
	costs.NoHints(t, costs.Run(t, db, appends))
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
	costs.NoHints(t, costs.Run(t, db, []costs.Case{
		{Name: "append cold", Call: add(cold, "25", at(1, 25, 0)), Sends: three, Writes: 1, Explain: 1, Keys: 7, Docs: 6},
		{Name: "append cold without IDs", Call: add(plain, "26", at(1, 26, 0)), Sends: three, Writes: 1, Explain: 1, Index: "_id_", Keys: 3, Docs: 3},
		{Name: "append in a transaction", Call: aborted(t, db, add(cold, "t", late.Timestamp)), Sends: []string{"find", "update", "abortTransaction"}, Writes: 1},
		{Name: "many in a transaction", Call: aborted(t, db, many(cold, nil, []string{"s"}, late)), Sends: []string{"find", "update", "abortTransaction"}, Writes: 1},
		{Name: "many", Call: many(b, &mongopatterns.Work{BatchSize: len(day24)}, []string{"x", "y"}, day24...), Sends: []string{"update", "update"}, Writes: 48},
		{Name: "many by _id", Call: many(b, nil, []string{"x"}, event{ID: "id", Timestamp: at(3, 59, 0), V: 1}), Sends: []string{"update"}, Writes: 1, Index: "_id_", Keys: 1, Docs: 1},
		{Name: "many meets full", Call: many(newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o), nil, []string{"s"}, z...),
			Sends: []string{"update", "find", "update"}, Writes: 2},

		{Name: "range", Call: func(ctx context.Context) error { return testkit.Drain(b.Range(ctx, "x", at(3, 5, 0), at(6, 5, 0))) },
			Sends: []string{"find"}, Index: base, Keys: 5, Docs: 4, NoSort: true},
		{Name: "aggregate", Call: func(ctx context.Context) error { return second(b.Aggregate(ctx, "x", at(3, 5, 0), at(6, 5, 0))) },
			Sends: []string{"aggregate"}, Index: base, Keys: 5, Docs: 4},
		{Name: "windows", Call: func(ctx context.Context) error {
			return testkit.Drain(b.AggregateWindows(ctx, "x", at(3, 0, 0), at(6, 0, 0)))
		},
			Sends: []string{"aggregate"}, Index: base, Keys: 4, Docs: 3},
		{Name: "latest", Call: func(ctx context.Context) error { return second(b.Latest(ctx, "s")) },
			// 1 and the 4 buckets of its window. MongoDB 6.0 does not count what a $lookup reads whose result is unwound.
			Sends: []string{"aggregate"}, Index: base, Keys: 5, Docs: 5},
		{Name: "page", Call: func(ctx context.Context) error { return second(b.Bucket(ctx, "s", at(1, 0, 0), 1)) },
			Sends: []string{"find"}, Index: "_id_", Keys: 1, Docs: 1},
		{Name: "last page but one", Call: func(ctx context.Context) error { return second(b.Bucket(ctx, "s", at(1, 0, 0), -2)) },
			Sends: []string{"find"}, Index: "_id_", Keys: 2, Docs: 2},
		{Name: "pages", Call: func(ctx context.Context) error { return second(b.CountBuckets(ctx, "s", at(1, 0, 0))) },
			Sends: []string{"find"}, Index: "_id_", Keys: 1, Docs: 1},

		{Name: "update", Call: func(ctx context.Context) error {
			return b.Replace(ctx, "x", event{ID: "m3", Timestamp: at(4, 3, 0), V: 7})
		}, Sends: []string{"update"}, Writes: 1, Keys: 2, Docs: 1},
		{Name: "delete by ID", Call: func(ctx context.Context) error { return b.DeleteByID(ctx, "x", at(4, 3, 0), "m3") },
			Sends: []string{"update"}, Writes: 1, Index: byID, Keys: 2, Docs: 1},
		{Name: "delete", Call: func(ctx context.Context) error { return b.Delete(ctx, "x", at(4, 4, 0)) },
			Sends: []string{"update"}, Writes: 1, Keys: 2, Docs: 1},
		{Name: "check", Call: func(ctx context.Context) error { return testkit.Drain(b.Check(ctx, nil)) }, Sends: []string{"listCollections", "find", "find", "listIndexes"}},
	}))

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
	costs.NoHints(t, costs.Run(t, db, []costs.Case{
		{Name: "repair", Call: func(ctx context.Context) error { return second(b.Repair(ctx, nil)) },
			Sends: []string{"listCollections", "find", "update"}, Writes: 24, Explain: 2, Keys: 2, Docs: 1},
		{Name: "archive", Call: func(ctx context.Context) error {
			return second(b.Archive(ctx, at(3, 0, 0), archive, &mongopatterns.Work{BatchSize: 3, Filter: of("x", "y")}))
		}, Sends: slices.Concat([]string{"listCollections", "find"}, batch, batch), Writes: 12},
		{Name: "late", Call: func(ctx context.Context) error {
			return second(b.Append(ctx, "x", event{ID: "late", Timestamp: at(1, 0, 0)}))
		}, Sends: one, Writes: 1},
		{Name: "archive what is there", Call: func(ctx context.Context) error {
			return second(b.Archive(ctx, at(3, 0, 0), archive, &mongopatterns.Work{Filter: of("x")}))
		}, Sends: slices.Concat([]string{"listCollections", "find"}, batch), Writes: 2, Explain: 3, Index: "_id_", Keys: 3, Docs: 2},
		{Name: "late again", Call: func(ctx context.Context) error {
			return second(b.Append(ctx, "x", event{ID: "late", Timestamp: at(1, 0, 0)}))
		}, Sends: one, Writes: 1},
		{Name: "archive what is there twice", Call: func(ctx context.Context) error {
			return second(b.Archive(ctx, at(3, 0, 0), archive, &mongopatterns.Work{Filter: of("x")}))
		}, Sends: slices.Concat([]string{"listCollections", "find"}, slices.Insert(slices.Clone(batch), 2, "aggregate")), Writes: 2},
		{Name: "archive all series", Call: func(ctx context.Context) error { return second(b.Archive(ctx, at(4, 0, 0), archive, nil)) },
			Sends: slices.Concat([]string{"listCollections", "find"}, batch), Writes: 12, Explain: 1, Index: "start_1", Keys: 7, Docs: 6},
		{Name: "adopt", Call: func(ctx context.Context) error {
			return second(plain.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 3}))
		}, Sends: slices.Concat([]string{"listCollections", "create", "find", "find"}, adopt, []string{"getMore"}, adopt, []string{"getMore"}), Writes: 4},
		{Name: "adopt again", Call: func(ctx context.Context) error { return second(plain.Adopt(ctx, src, nil, nil)) },
			Sends: []string{"listCollections", "find", "find"}, Explain: 1, Index: "_id_", Keys: 1, Docs: 1},
		{Name: "compare", Call: func(ctx context.Context) error { return testkit.Drain(plain.Compare(ctx, src, nil, nil)) },
			Sends: []string{"listCollections", "find", "find", "aggregate"}, Explain: 2, Index: "_id_", Keys: 6, Docs: 6},
	}))
}
