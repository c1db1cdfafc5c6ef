package series_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

const base = "series_1_start_1"

// Every Cost line: what a call sends and writes, and by which index it finds how many
// documents.
func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive, src := db.Collection("c"), db.Collection("archive"), db.Collection("src")
	o := &series.Options{Values: values, MaxCount: 10, BatchField: "batches"}
	s, err := series.New[string, event](coll, timeseries.Every(time.Hour), o)
	if err != nil {
		t.Fatal(err)
	}
	costs.Record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error { return s.EnsureIndexes(t.Context()) })
	costs.Record(t, db, 0, []string{"listIndexes"}, func() error { return s.EnsureIndexes(t.Context()) })
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "start", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	var many []event
	for i := range 30 {
		many = append(many, event{Timestamp: at(i/10, i%10, 0), V: float64(i)})
	}
	if _, err := src.InsertMany(t.Context(), []any{
		bson.D{{Key: "series", Value: "s"}, {Key: "timestamp", Value: at(5, 0, 0)}}, bson.D{{Key: "series", Value: "s"}, {Key: "timestamp", Value: at(6, 0, 0)}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.CreateCollection(t.Context(), "archive"); err != nil {
		t.Fatal(err)
	}
	if err := db.CreateCollection(t.Context(), "c.adopt"); err != nil {
		t.Fatal(err)
	}
	gatherer, err := series.NewGatherer(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := func(ctx context.Context, from, to time.Time) error {
		for _, err := range s.Range(ctx, "s", from, to) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	done := func(_ mongopatterns.Result, err error) error { return err }
	for _, c := range []struct {
		what       string
		sends      []string
		writes     int
		explain    int // which command
		index      string
		keys, docs int64 // 0 for no plan
		call       func(ctx context.Context) error
	}{
		{"append many", []string{"update"}, 3, 0, "_id_", 1, 1, func(ctx context.Context) error {
			return done(s.AppendMany(ctx, timeseries.Of("s", many...), nil))
		}},
		{"a repeated batch", []string{"update", "find"}, 0, 1, "", 0, 0, func(ctx context.Context) error {
			return done(s.AppendMany(ctx, timeseries.Of("s", many...), nil))
		}},
		{"into a full document", []string{"update", "find", "update"}, 1, 0, "", 0, 0, func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(0, 59, 0)})
		}},
		{"after it", []string{"update"}, 1, 0, "_id_", 1, 1, func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(0, 59, 1)})
		}},
		{"in a transaction", []string{"find", "update", "commitTransaction"}, 1, 0, "", 0, 0, func(ctx context.Context) error {
			return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error { return s.Append(ctx, "s", event{Timestamp: at(0, 59, 2)}) })
		}},
		{"gather", nil, 0, 0, "", 0, 0, func(ctx context.Context) error { return gatherer.Add(ctx, "s", event{Timestamp: at(1, 59, 0)}) }},
		{"flush", []string{"update", "find", "update"}, 1, 0, "", 0, 0, func(ctx context.Context) error { return done(gatherer.Flush(ctx)) }},
		{"close", nil, 0, 0, "", 0, 0, gatherer.Close},
		{"range", []string{"find"}, 0, 0, base, 2, 2, func(ctx context.Context) error { return all(ctx, at(0, 0, 0), at(1, 0, 0)) }},
		{"aggregate", []string{"find"}, 0, 0, base, 5, 5, func(ctx context.Context) error {
			_, err := s.Aggregate(ctx, "s", at(0, 30, 0), at(2, 30, 0))
			return err
		}},
		{"latest", []string{"find"}, 0, 0, base, 2, 2, func(ctx context.Context) error { _, err := s.Latest(ctx, "s"); return err }},
		{"update", []string{"find", "update"}, 1, 0, base, 2, 2, func(ctx context.Context) error {
			return s.Update(ctx, "s", event{Timestamp: at(0, 0, 0), V: 7})
		}},
		{"delete", []string{"find", "update"}, 1, 1, "_id_", 1, 1, func(ctx context.Context) error { return s.Delete(ctx, "s", at(0, 0, 0)) }},
		{"latest of several documents", []string{"find", "find"}, 0, 1, base, 2, 2, func(ctx context.Context) error {
			for i := range 8 {
				if err := s.Append(ctx, "late", event{Timestamp: at(0, i, 0)}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"compact", []string{"find", "update"}, 2, 0, "", 0, 0, func(ctx context.Context) error { return done(s.Compact(ctx, nil)) }},
		{"compact again", []string{"find"}, 0, 0, "", 0, 0, func(ctx context.Context) error { return done(s.Compact(ctx, nil)) }},
		{"documents", []string{"find"}, 0, 0, "_id_", 6, 6, func(ctx context.Context) error {
			for _, err := range s.Documents(ctx, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"repair", []string{"find"}, 0, 0, "_id_", 6, 6, func(ctx context.Context) error { return done(s.Repair(ctx, nil)) }},
		{"archive", []string{"find", "find", "find", "insert", "delete", "commitTransaction"}, 10, 0, "start_1", 5, 5, func(ctx context.Context) error {
			return done(s.Archive(ctx, at(2, 0, 0), archive, nil))
		}},
		{"adopt", []string{"listCollections", "find", "find", "update", "find", "update", "commitTransaction"}, 3, 2, "_id_", 2, 2, func(ctx context.Context) error {
			return done(s.Adopt(ctx, src, nil, nil))
		}},
		{"adopt again", []string{"listCollections", "find", "find"}, 0, 1, "_id_", 1, 1, func(ctx context.Context) error {
			return done(s.Adopt(ctx, src, nil, nil))
		}},
		{"compare", []string{"listCollections", "find", "find", "find"}, 0, 3, "_id_", 3, 3, func(ctx context.Context) error {
			return drain(s.Compare(ctx, src, nil, nil))
		}},
	} {
		if c.what == "latest of several documents" {
			if err := c.call(t.Context()); err != nil {
				t.Fatal(err)
			}
			// MaxCount is a bound for the next batch: two documents by hand.
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "other"}, {Key: "series", Value: "late"}, {Key: "start", Value: at(0, 0, 0)},
				{Key: "count", Value: 1}, {Key: "blocks", Value: bson.A{}}}); err != nil {
				t.Fatal(err)
			}
			c.call = func(ctx context.Context) error { _, err := s.Latest(ctx, "late"); return err }
		}
		cmds := costs.Record(t, db, c.writes, c.sends, func() error { return c.call(t.Context()) })
		if c.what == "latest of several documents" {
			if _, err := coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "other"}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if c.keys == 0 {
			continue
		}
		t.Log(c.what)
		plan := mongotest.Explain(t, db, cmds[c.explain].Body)
		plan.RequireIndex(t, c.index)
		plan.RequireNoSort(t)
		plan.RequireExamined(t, c.keys, c.docs)
	}
}

// Whole windows are aggregated without their blocks; with cut ones only those come.
func TestAggregateReadsSumsOnly(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: values})
	for h := range 5 {
		appendMany(t, s, "s", event{Timestamp: at(h, 0, 0), V: 1}, event{Timestamp: at(h, 30, 0), V: 2})
	}
	if _, err := s.Compact(t.Context(), &mongopatterns.Work{Filter: bson.D{{Key: "start", Value: bson.D{{Key: "$lt", Value: at(3, 0, 0)}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to time.Time
		blocks   int
		count    int64
	}{
		{time.Time{}, time.Time{}, 0, 10}, {at(1, 0, 0), at(4, 0, 0), 0, 6}, {at(0, 1, 0), time.Time{}, 1, 9},
		{time.Time{}, at(4, 1, 0), 1, 9}, {at(1, 10, 0), at(1, 20, 0), 1, 0}, {at(0, 30, 0), at(4, 30, 0), 2, 8},
	} {
		cmds := mongotest.Record(t, db, func() {
			stats, err := s.Aggregate(t.Context(), "s", c.from, c.to)
			if err != nil || stats.Count != c.count || stats.Values["v"].Count != c.count {
				t.Errorf("%v to %v: %+v, %v", c.from, c.to, stats, err)
			}
		})
		batch, _ := cmds[0].Reply.Lookup("cursor", "firstBatch").Array().Values()
		n := 0
		for _, doc := range batch {
			if doc.Document().Lookup("blocks").Type != 0 {
				n++
			}
		}
		if n != c.blocks {
			t.Errorf("%v to %v: %d documents with blocks, want %d", c.from, c.to, n, c.blocks)
		}
	}
}
