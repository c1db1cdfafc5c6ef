package series_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
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
	costs.Run(t, db, []costs.Case{
		{Name: "new indexes", Sends: []string{"listCollections", "aggregate", "listIndexes", "createIndexes"}, Call: s.EnsureIndexes},
		{Name: "indexes", Sends: []string{"listCollections", "aggregate", "listIndexes"}, Call: s.EnsureIndexes},
	})
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
	costs.Run(t, db, []costs.Case{
		{Name: "append many", Sends: []string{"update"}, Writes: 3, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Call: func(ctx context.Context) error {
			return done(s.AppendMany(ctx, timeseries.Of("s", many...), nil))
		}},
		{Name: "a repeated batch", Sends: []string{"update", "find"}, Call: func(ctx context.Context) error {
			return done(s.AppendMany(ctx, timeseries.Of("s", many...), nil))
		}},
		{Name: "into a full document", Sends: []string{"update", "find", "update"}, Writes: 1, Call: func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(0, 59, 0)})
		}},
		{Name: "after it", Sends: []string{"update"}, Writes: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Call: func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(0, 59, 1)})
		}},
		{Name: "in a transaction", Sends: []string{"find", "update", "commitTransaction"}, Writes: 1, Call: func(ctx context.Context) error {
			return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error { return s.Append(ctx, "s", event{Timestamp: at(0, 59, 2)}) })
		}},
		{Name: "gather", Call: func(ctx context.Context) error { return gatherer.Append(ctx, "s", event{Timestamp: at(1, 59, 0)}) }},
		{Name: "flush", Sends: []string{"update", "find", "update"}, Writes: 1, Call: func(ctx context.Context) error { return done(gatherer.Flush(ctx)) }},
		{Name: "close", Call: gatherer.Close},
		{Name: "range", Sends: []string{"find"}, Index: base, Keys: 2, Docs: 2, NoSort: true, Call: func(ctx context.Context) error { return all(ctx, at(0, 0, 0), at(1, 0, 0)) }},
		{Name: "aggregate", Sends: []string{"find"}, Index: base, Keys: 5, Docs: 5, NoSort: true, Call: func(ctx context.Context) error {
			_, err := s.Aggregate(ctx, "s", at(0, 30, 0), at(2, 30, 0))
			return err
		}},
		{Name: "latest", Sends: []string{"find"}, Index: base, Keys: 2, Docs: 2, NoSort: true, Call: func(ctx context.Context) error { _, err := s.Latest(ctx, "s"); return err }},
		{Name: "update", Sends: []string{"find", "update"}, Writes: 1, Index: base, Keys: 2, Docs: 2, NoSort: true, Call: func(ctx context.Context) error {
			return s.Replace(ctx, "s", event{Timestamp: at(0, 0, 0), V: 7})
		}},
		{Name: "delete", Sends: []string{"find", "update"}, Writes: 1, Explain: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Call: func(ctx context.Context) error { return s.Delete(ctx, "s", at(0, 0, 0)) }},
		{Name: "latest of several documents", Sends: []string{"find", "find"}, Explain: 1, Index: base, Keys: 2, Docs: 2, NoSort: true, Before: func() {
			for i := range 8 {
				testkit.OK(t, s.Append(t.Context(), "late", event{Timestamp: at(0, i, 0)}))
			}
			// MaxCount is a bound for the next batch: two documents by hand.
			testkit.Insert(t, coll, bson.D{{Key: "_id", Value: "other"}, {Key: "series", Value: "late"}, {Key: "start", Value: at(0, 0, 0)},
				{Key: "count", Value: 1}, {Key: "blocks", Value: bson.A{}}})
		}, Call: func(ctx context.Context) error { _, err := s.Latest(ctx, "late"); return err }},
		{Name: "compact", Before: func() {
			_, err := coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "other"}})
			testkit.OK(t, err)
		}, Sends: []string{"listCollections", "find", "update"}, Writes: 2, Call: func(ctx context.Context) error { return done(s.Compact(ctx, nil)) }},
		{Name: "compact again", Sends: []string{"listCollections", "find"}, Call: func(ctx context.Context) error { return done(s.Compact(ctx, nil)) }},
		{Name: "documents", Sends: []string{"find"}, Index: "_id_", Keys: 6, Docs: 6, NoSort: true, Call: func(ctx context.Context) error {
			for _, err := range s.Documents(ctx, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "check", Sends: []string{"listCollections", "find", "find", "listIndexes"}, Explain: 1, Index: "_id_", Keys: 6, Docs: 6, NoSort: true, Call: func(ctx context.Context) error { return testkit.Drain(s.Check(ctx, nil)) }},
		{Name: "repair", Sends: []string{"listCollections", "find"}, Explain: 1, Index: "_id_", Keys: 6, Docs: 6, NoSort: true, Call: func(ctx context.Context) error { return done(s.Repair(ctx, nil)) }},
		{Name: "archive", Sends: []string{"listCollections", "find", "find", "find", "insert", "delete", "commitTransaction"}, Writes: 10, Explain: 1, Index: "start_1", Keys: 5, Docs: 5, NoSort: true, Call: func(ctx context.Context) error {
			return done(s.Archive(ctx, at(2, 0, 0), archive, nil))
		}},
		{Name: "adopt", Sends: []string{"listCollections", "find", "find", "update", "find", "update", "commitTransaction"}, Writes: 3, Explain: 2, Index: "_id_", Keys: 2, Docs: 2, NoSort: true, Call: func(ctx context.Context) error {
			return done(s.Adopt(ctx, src, nil, nil))
		}},
		{Name: "adopt again", Sends: []string{"listCollections", "find", "find"}, Explain: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Call: func(ctx context.Context) error {
			return done(s.Adopt(ctx, src, nil, nil))
		}},
		{Name: "compare", Sends: []string{"listCollections", "find", "find", "find"}, Explain: 3, Index: "_id_", Keys: 3, Docs: 3, NoSort: true, Call: func(ctx context.Context) error {
			return testkit.Drain(s.Compare(ctx, src, nil, nil))
		}},
	})
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
		blocks := func(cmds mongotest.Commands) (n int) {
			t.Helper()
			cmds.RequireRoundTrips(t, 1)
			batch, _ := cmds[0].Reply.Lookup("cursor", "firstBatch").Array().Values()
			for _, doc := range batch {
				if doc.Document().Lookup("blocks").Type != 0 {
					n++
				}
			}
			return n
		}
		if n := blocks(cmds); n != c.blocks {
			t.Errorf("%v to %v: %d documents with blocks, want %d", c.from, c.to, n, c.blocks)
		}
		if n := blocks(mongotest.Record(t, db, func() { testkit.Collect(t, s.AggregateWindows(t.Context(), "s", c.from, c.to)) })); n != c.blocks {
			t.Errorf("windows of %v to %v: %d documents with blocks, want %d", c.from, c.to, n, c.blocks)
		}
		minutes := mongotest.Record(t, db, func() {
			testkit.Collect(t, s.AggregateBy(t.Context(), "s", c.from, c.to, timeseries.Every(time.Minute)))
		})
		if all := mongotest.Record(t, db, func() { testkit.Collect(t, s.Range(t.Context(), "s", c.from, c.to)) }); blocks(minutes) != blocks(all) {
			t.Errorf("minutes of %v to %v: %d documents with blocks, want %d", c.from, c.to, blocks(minutes), blocks(all))
		}
	}
}
