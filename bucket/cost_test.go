package bucket_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// record wants exactly these commands and this many documents written.
var record = costs.Record

// examined wants a plan by this index ("" for any) that looks at no more than
// these.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	if index != "" {
		plan.RequireIndex(t, index)
	}
	if plan.Has("COLLSCAN") {
		t.Fatal(plan)
	}
	plan.RequireExamined(t, keys, docs)
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive, src := db.Collection("c"), db.Collection("archive"), db.Collection("src")
	ctx := t.Context()
	o := full()
	o.MaxCount, o.RetentionIndex = 10, true
	b, err := bucket.New[string, event](coll, bucket.Every(time.Hour), o)
	if err != nil {
		t.Fatal(err)
	}
	const base, byID = "series_1_start_1", "series_1_start_1_measurements.id_1"
	record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error { return b.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listIndexes"}, func() error { return b.EnsureIndexes(ctx) })

	// Appends, rollover included: 25 into buckets of 10.
	for i := range 25 {
		cmds := record(t, db, 1, []string{"findAndModify"}, func() error {
			_, err := b.Append(ctx, "s", event{ID: fmt.Sprint(i), Timestamp: at(1, i, 0), V: 1})
			return err
		})
		if hint := cmds[0].Body.Lookup("hint", "_id"); hint.AsInt64() != 1 {
			t.Fatal(cmds[0].Body)
		}
		if i%10 > 0 {
			examined(t, db, cmds[0], "_id_", 1, 1)
		}
	}
	cold, err := bucket.New[string, event](coll, bucket.Every(time.Hour), o)
	if err != nil {
		t.Fatal(err)
	}
	cmds := record(t, db, 1, []string{"findAndModify", "aggregate", "find", "findAndModify"}, func() error {
		_, err := cold.Append(ctx, "s", event{ID: "25", Timestamp: at(1, 25, 0), V: 1})
		return err
	})
	examined(t, db, cmds[1], byID, 2, 1)
	examined(t, db, cmds[2], "", 3, 3)
	noIDs := *o
	noIDs.IDField = ""
	plain, err := bucket.New[string, event](coll, bucket.Every(time.Hour), &noIDs)
	if err != nil {
		t.Fatal(err)
	}
	record(t, db, 1, []string{"findAndModify", "find", "findAndModify"}, func() error {
		_, err := plain.Append(ctx, "s", event{ID: "26", Timestamp: at(1, 26, 0), V: 1})
		return err
	})
	inTransaction := func(names []string, fn func(ctx context.Context) error) {
		t.Helper()
		session, err := db.Client().StartSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.EndSession(context.Background())
		if err := session.StartTransaction(); err != nil {
			t.Fatal(err)
		}
		record(t, db, 1, names, func() error { return fn(mongo.NewSessionContext(ctx, session)) })
		if err := session.AbortTransaction(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, helper := range []*bucket.Buckets[string, event]{plain, cold} {
		reads := []string{"find"}
		bulk := []string{"aggregate", "update"}
		if helper == cold {
			reads, bulk = []string{"aggregate", "find"}, []string{"aggregate", "aggregate", "update"}
		}
		inTransaction(append(reads, "findAndModify"), func(ctx context.Context) error {
			_, err := helper.Append(ctx, "s", event{ID: "t", Timestamp: at(1, 50, 0), V: 1})
			return err
		})
		inTransaction(bulk, func(ctx context.Context) error {
			_, err := helper.AppendMany(ctx, bucket.Of("s", event{ID: "t", Timestamp: at(1, 50, 0), V: 1}), nil)
			return err
		})
	}

	// In bulk: one update per batch, one document per bucket; 24 windows.
	var many []event
	for h := range 24 {
		for i := range 8 {
			many = append(many, event{ID: fmt.Sprint("m", i), Timestamp: at(h, i, 0), V: 1})
		}
	}
	record(t, db, 48, []string{"update", "update"}, func() error {
		_, err := b.AppendMany(ctx, func(yield func(string, event) bool) {
			for _, series := range []string{"x", "y"} {
				for _, e := range many {
					if !yield(series, e) {
						return
					}
				}
			}
		}, &bucket.BatchOptions{BatchSize: len(many)})
		return err
	})
	// By _id, also here.
	cmds = record(t, db, 1, []string{"update"}, func() error {
		_, err := b.AppendMany(ctx, bucket.Of("x", event{ID: "hint", Timestamp: at(3, 59, 0), V: 1}), nil)
		return err
	})
	examined(t, db, cmds[0], "_id_", 1, 1)
	// Met with buckets that cannot take the group: read and again.
	record(t, db, 2, []string{"update", "aggregate", "aggregate", "update"}, func() error {
		_, err := cold.AppendMany(ctx, bucket.Of("s", many2(5)...), nil)
		return err
	})

	// Reads.
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { return drain(b.Range(ctx, "x", at(3, 5, 0), at(6, 5, 0))) })
	examined(t, db, cmds[0], base, 5, 4)
	mongotest.Explain(t, db, cmds[0].Body).RequireNoSort(t)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { _, err := b.Aggregate(ctx, "x", at(3, 5, 0), at(6, 5, 0)); return err })
	examined(t, db, cmds[0], base, 5, 4)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { return drain(b.AggregateWindows(ctx, "x", at(3, 0, 0), at(6, 0, 0))) })
	examined(t, db, cmds[0], base, 4, 3)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { _, err := b.Latest(ctx, "s"); return err })
	mongotest.Explain(t, db, cmds[0].Body).RequireIndex(t, base)
	cmds = record(t, db, 0, []string{"aggregate", "aggregate", "commitTransaction"}, func() error {
		return drain(b.RangeAcross(ctx, archive, "x", at(3, 5, 0), at(6, 5, 0)))
	})
	examined(t, db, cmds[0], base, 5, 4)

	// Edits.
	cmds = record(t, db, 1, []string{"update"}, func() error {
		return b.Replace(ctx, "x", event{ID: "m3", Timestamp: at(4, 3, 0), V: 7})
	})
	examined(t, db, cmds[0], "", 2, 1)
	cmds = record(t, db, 1, []string{"update"}, func() error { return b.DeleteByID(ctx, "x", at(4, 3, 0), "m3") })
	examined(t, db, cmds[0], byID, 2, 1)
	cmds = record(t, db, 1, []string{"update"}, func() error { return b.Delete(ctx, "x", at(4, 4, 0)) })
	examined(t, db, cmds[0], "", 2, 1)

	// Maintenance.
	record(t, db, 0, []string{"aggregate"}, func() error { return drain(b.Check(ctx)) })
	if _, err := coll.UpdateMany(ctx, bson.D{{Key: "series", Value: "y"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	cmds = record(t, db, 24, []string{"aggregate", "update", "update", "update"}, func() error {
		_, err := b.Repair(ctx, &bucket.RepairOptions{BatchSize: 10})
		return err
	})
	examined(t, db, cmds[1], "", 2, 1)
	batch := []string{"find", "find", "insert", "delete", "commitTransaction"}
	cmds = record(t, db, 2*2*3, append(append([]string{"find"}, batch...), batch...), func() error {
		_, err := b.Archive(ctx, at(3, 0, 0), archive, &bucket.BatchOptions{BatchSize: 3, Filter: bson.D{{Key: "series", Value: bson.D{{Key: "$in", Value: bson.A{"x", "y"}}}}}})
		return err
	})
	if plan := mongotest.Explain(t, db, cmds[0].Body); plan.Has("COLLSCAN") {
		t.Error(plan)
	}
	// Late data of a window that the archive holds already: 2 more.
	if _, err := b.Append(ctx, "x", event{ID: "late", Timestamp: at(1, 0, 0), V: 1}); err != nil {
		t.Fatal(err)
	}
	record(t, db, 2, []string{"find", "find", "find", "find", "insert", "delete", "commitTransaction"}, func() error {
		_, err := b.Archive(ctx, at(3, 0, 0), archive, &bucket.BatchOptions{Filter: bson.D{{Key: "series", Value: "x"}}})
		return err
	})
	cmds = record(t, db, 2, []string{"find", "delete"}, func() error {
		_, err := b.DeleteBefore(ctx, at(4, 0, 0), &bucket.BatchOptions{Filter: bson.D{{Key: "series", Value: bson.D{{Key: "$in", Value: bson.A{"x", "y"}}}}}})
		return err
	})
	examined(t, db, cmds[1], "", 2, 1)
	whole := record(t, db, 4, []string{"find", "delete"}, func() error { // all series: the index on start
		_, err := b.DeleteBefore(ctx, at(4, 0, 0), nil)
		return err
	})
	mongotest.Explain(t, db, whole[0].Body).RequireIndex(t, "start_1")

	var docs []any
	for i := range 6 {
		docs = append(docs, bson.D{{Key: "series", Value: "a"}, {Key: "id", Value: fmt.Sprint(i)}, {Key: "timestamp", Value: at(20, i, 0)}, {Key: "v", Value: 1}})
	}
	if _, err := src.InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	record(t, db, 2+2, []string{"find", "find",
		"insert", "aggregate", "update", "commitTransaction",
		"update", "aggregate", "update", "commitTransaction"}, func() error {
		_, err := plain.Adopt(ctx, src, nil, &bucket.AdoptOptions{BatchSize: 3})
		return err
	})
	record(t, db, 1, []string{"find", "find", "insert", "aggregate", "aggregate", "commitTransaction"}, func() error { // all held
		_, err := b.Adopt(ctx, src, nil, &bucket.AdoptOptions{Checkpoints: db.Collection("checkpoints")})
		return err
	})
}

// More than the server's first batch of 101 takes no further round trips.
func TestCostsOfManyWindows(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, src := db.Collection("c"), db.Collection("src")
	o := full()
	o.MaxCount = 1
	b := newBuckets[string, event](t, coll, bucket.Every(time.Hour), o)
	cold := newBuckets[string, event](t, coll, bucket.Every(time.Hour), o)
	const n = 150
	events := func(id string) (out []event) {
		for h := range n {
			out = append(out, event{ID: id, Timestamp: at(h, 0, 0), V: 1})
		}
		return out
	}
	record(t, db, n, []string{"update"}, func() error {
		_, err := b.AppendMany(t.Context(), bucket.Of("s", events("1")...), nil)
		return err
	})
	record(t, db, n, []string{"update", "aggregate", "aggregate", "update"}, func() error {
		_, err := cold.AppendMany(t.Context(), bucket.Of("s", events("2")...), nil)
		return err
	})
	var docs []any
	for _, e := range events("1") {
		docs = append(docs, bson.D{{Key: "series", Value: "s"}, {Key: "id", Value: e.ID}, {Key: "timestamp", Value: e.Timestamp}, {Key: "v", Value: 1}})
	}
	if _, err := src.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	record(t, db, 1, []string{"find", "find", "insert", "aggregate", "aggregate", "commitTransaction"}, func() error { // all held
		_, err := b.Adopt(t.Context(), src, nil, nil)
		return err
	})
	record(t, db, 4*n, []string{"find", "find", "find", "insert", "delete", "commitTransaction"}, func() error {
		_, err := b.Archive(t.Context(), at(n, 0, 0), db.Collection("archive"), &bucket.BatchOptions{BatchSize: 2 * n})
		return err
	})
}

func many2(n int) (out []event) {
	for i := range n {
		out = append(out, event{ID: fmt.Sprint("z", i), Timestamp: at(1, 50, i), V: 1})
	}
	return out
}

func TestSlotCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	ctx := t.Context()
	s, err := bucket.NewSlots[string, weather](coll, bucket.Days(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	const base = "series_1_start_1"
	record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listIndexes"}, func() error { return s.EnsureIndexes(ctx) })
	var cmds mongotest.Commands
	for d := range 5 {
		cmds = record(t, db, 1, []string{"update"}, func() error { return s.Set(ctx, "s", at(24*d, 1, 0), weather{}) })
	}
	examined(t, db, cmds[0], base, 1, 1)
	cmds = record(t, db, 3, []string{"update", "update"}, func() error {
		return s.SetMany(ctx, bucket.Of("s", bucket.Slot[weather]{Time: at(1, 0, 0)}, bucket.Slot[weather]{Time: at(25, 0, 0)},
			bucket.Slot[weather]{Time: at(2, 0, 0), Value: weather{1, 1}}), &bucket.BatchOptions{BatchSize: 2})
	})
	examined(t, db, cmds[0], base, 1, 1)
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := s.Get(ctx, "s", at(1, 0, 0)); return err })
	examined(t, db, cmds[0], base, 1, 1)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error { return drain(s.Range(ctx, "s", at(1, 0, 0), at(48, 0, 0))) })
	examined(t, db, cmds[0], base, 3, 2)
	mongotest.Explain(t, db, cmds[0].Body).RequireNoSort(t)
	cmds = record(t, db, 0, []string{"aggregate"}, func() error {
		_, err := s.Aggregate(ctx, "s", at(1, 0, 0), at(48, 0, 0), "temperature")
		return err
	})
	examined(t, db, cmds[0], base, 3, 2)
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := s.Latest(ctx, "s"); return err })
	examined(t, db, cmds[0], base, 1, 1)
	cmds = record(t, db, 1, []string{"update"}, func() error { return s.Unset(ctx, "s", at(24*4, 1, 0)) })
	examined(t, db, cmds[0], base, 1, 1)
	record(t, db, 0, []string{"find", "find"}, func() error { _, err := s.Latest(ctx, "s"); return err })
	record(t, db, 4, []string{"find", "find", "find", "insert", "delete", "commitTransaction"}, func() error {
		_, err := s.Archive(ctx, at(48, 0, 0), archive, nil)
		return err
	})
	if err := s.Set(ctx, "s", at(1, 0, 0), weather{5, 5}); err != nil {
		t.Fatal(err)
	}
	record(t, db, 2, []string{"find", "find", "find", "update", "delete", "commitTransaction"}, func() error {
		_, err := s.Archive(ctx, at(48, 0, 0), archive, nil)
		return err
	})
	record(t, db, 1, []string{"find", "delete"}, func() error { _, err := s.DeleteBefore(ctx, at(72, 0, 0), nil); return err })
}
