package series_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A document that goes away between the read and the write of a call, and is begun anew
// with the same _id, count and number of blocks, is another one: what it holds stays, and
// what went away does not come back.
func TestBegunAnew(t *testing.T) {
	t.Parallel()
	type events = *series.Series[string, event]
	before, anew := seconds(3), seconds(3)
	for i := range anew {
		anew[i].V = 100 + float64(i)
	}
	store := func(t *testing.T, s events, all []event) {
		t.Helper()
		appendMany(t, s, "s", all[:2]...)
		appendMany(t, s, "s", all[2:]...)
	}
	skipped := func(t *testing.T, result mongopatterns.Result, err error) {
		t.Helper()
		if err != nil || result.Done != 0 || result.Skipped != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	calls := []struct {
		name string
		run  func(t *testing.T, s events)
	}{
		{"compact", func(t *testing.T, s events) {
			result, err := s.Compact(t.Context(), nil)
			skipped(t, result, err)
		}},
		{"repair", func(t *testing.T, s events) {
			result, err := s.Repair(t.Context(), nil)
			skipped(t, result, err)
		}},
		{"update", func(t *testing.T, s events) {
			if err := s.Replace(t.Context(), "s", event{Timestamp: at(0, 0, 1), V: 5}); err != nil {
				t.Error(err)
			}
		}},
		{"delete", func(t *testing.T, s events) {
			if err := s.Delete(t.Context(), "s", at(0, 0, 0)); err != nil {
				t.Error(err)
			}
		}},
	}
	// How the first document goes, also one stored by a version that wrote no mark.
	for i, how := range []string{"archived", "expired", "archived, without a mark"} {
		for j, call := range calls {
			if !scale.Turn(i+j, 3) {
				continue
			}
			name, old := call.name, how == "archived, without a mark"
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				coll := db.Collection("c")
				o := &series.Options{Values: values}
				plain := open[string, event](t, coll, timeseries.Every(time.Hour), o)
				archive := open[string, event](t, db.Collection("archive"), timeseries.Every(time.Hour), o)
				store(t, plain, before)
				damage := bson.D{{Key: "$unset", Value: bson.D{{Key: "none", Value: ""}}}}
				if old {
					damage[0].Value = bson.D{{Key: "mark", Value: ""}}
				}
				if name == "repair" {
					damage = append(damage, bson.E{Key: "$inc", Value: bson.D{{Key: "stats.v.count", Value: 1}}})
				}
				if _, err := coll.UpdateOne(t.Context(), bson.D{}, damage); err != nil {
					t.Fatal(err)
				}
				var once sync.Once
				s := open[string, event](t, beforeUpdate(t, coll, func() {
					once.Do(func() {
						if how == "expired" {
							if _, err := coll.DeleteMany(context.Background(), bson.D{}); err != nil {
								t.Error(err)
							}
						} else if result, err := plain.Archive(context.Background(), at(1, 0, 0), db.Collection("archive"), nil); err != nil || result.Done != 1 {
							t.Errorf("%+v, %v", result, err)
						}
						store(t, plain, anew)
					})
				}), timeseries.Every(time.Hour), o)
				call.run(t, s)
				want := slices.Clone(anew)
				switch name {
				case "update":
					want[1].V = 5
				case "delete":
					want = want[1:]
				}
				testkit.Equal(t, want, testkit.Collect(t, plain.Range(t.Context(), "s", day, at(1, 0, 0))))
				testkit.Healthy(t, plain)
				if how != "expired" {
					testkit.Equal(t, before, testkit.Collect(t, archive.Range(t.Context(), "s", day, at(1, 0, 0))))
				}
			})
		}
	}
}

// Every document has a mark of its own, also those that one block begins because its answer
// was lost, and keeps it through everything that is done to it.
func TestMarks(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRetryWrites(false))
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := &series.Options{Values: values, MarkField: "born"}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	mark := func(coll *mongo.Collection) int64 {
		t.Helper()
		doc, err := coll.FindOne(t.Context(), bson.D{}).Raw()
		if err != nil || doc.Lookup("born").Type != bson.TypeInt64 {
			t.Fatal(doc, err)
		}
		return doc.Lookup("born").Int64()
	}
	g, err := series.NewGatherer(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Append(t.Context(), "s", seconds(1)[0]); err != nil {
		t.Fatal(err)
	}
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 64})
	if result, err := g.Flush(t.Context()); err == nil || result.Unknown != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	first := mark(coll)
	if _, err := coll.DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	born := mark(coll)
	if born == first {
		t.Error("a block that came again began a document with the mark of another")
	}
	appendMany(t, s, "s", seconds(5)...)
	if _, err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(t.Context(), "s", seconds(3)[2]); err != nil {
		t.Fatal(err)
	}
	if mark(coll) != born {
		t.Error("an append, Compact or Update changed the mark")
	}
	if _, err := s.Archive(t.Context(), at(1, 0, 0), archive, nil); err != nil || mark(archive) != born {
		t.Error("the archive has another mark", err)
	}
}

// Writers, a compaction, edits and readers at the same time: every measurement is stored
// once, and the sums are right.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]series.Options{"large": {}, "small": {MaxBytes: 400, BatchField: "batches"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Values = values
			coll := mongotest.Database(t).Collection("c")
			open[string, event](t, coll, timeseries.Every(time.Hour), &o)
			writing := make(chan struct{})
			var writers, others sync.WaitGroup
			for w := range 4 {
				writers.Go(func() {
					s := open[string, event](t, coll, timeseries.Every(time.Hour), &o)
					for i := range 30 {
						all := make([]event, 5)
						for j := range all {
							all[j] = event{Timestamp: at(0, i, j*10+w), V: float64(w)}
						}
						appendMany(t, s, "s", all...)
					}
				})
			}
			others.Go(func() {
				s := open[string, event](t, coll, timeseries.Every(time.Hour), &o)
				for {
					if result, err := s.Compact(t.Context(), nil); err != nil || result.Failed > 0 {
						t.Errorf("%+v, %v", result, err)
					}
					if err := s.Replace(t.Context(), "s", event{Timestamp: at(0, 0, 0), V: 100}); err != nil && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, mongopatterns.ErrConflict) {
						t.Error(err)
					}
					n, stats := 0, timeseries.Stats{}
					for range s.Range(t.Context(), "s", time.Time{}, time.Time{}) {
						n++
					}
					stats, err := s.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
					if v := stats.Values["v"]; err != nil || stats.Count < int64(n) || v.Count != stats.Count {
						t.Errorf("%d measurements, then %+v, %v", n, stats, err)
					}
					select {
					case <-writing:
						return
					default:
					}
				}
			})
			writers.Wait()
			close(writing)
			others.Wait()
			s := open[string, event](t, coll, timeseries.Every(time.Hour), &o)
			testkit.Healthy(t, s)
			got := testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))
			times := map[time.Time]bool{}
			for _, e := range got {
				times[e.Timestamp] = true
			}
			if len(got) != 600 || len(times) != 600 || total(t, s) != 600 {
				t.Errorf("%d measurements of %d times", len(got), len(times))
			}
		})
	}
}

// What others append, edit or compact between the read and the write of a call is not
// lost, and the sums stay right.
func TestBetween(t *testing.T) {
	t.Parallel()
	type events = *series.Series[string, event]
	late, edited := event{Timestamp: at(0, 30, 0), V: 9}, event{Timestamp: at(0, 0, 2), V: -8}
	betweens := map[string]func(ctx context.Context, s events) error{
		"append":  func(ctx context.Context, s events) error { return s.Append(ctx, "s", late) },
		"update":  func(ctx context.Context, s events) error { return s.Replace(ctx, "s", edited) },
		"compact": func(ctx context.Context, s events) error { return second(s.Compact(ctx, nil)) },
	}
	for name, call := range map[string]func(ctx context.Context, s events) error{
		"compact": func(ctx context.Context, s events) error { return second(s.Compact(ctx, nil)) },
		"update": func(ctx context.Context, s events) error {
			return s.Replace(ctx, "s", event{Timestamp: at(0, 0, 0), V: 5})
		},
		"delete": func(ctx context.Context, s events) error { return s.Delete(ctx, "s", at(0, 0, 3)) },
		"repair": func(ctx context.Context, s events) error {
			result, err := s.Repair(ctx, nil)
			if result.Skipped == 1 {
				result, err = s.Repair(ctx, nil)
			}
			return err
		},
	} {
		for other, between := range betweens {
			t.Run(name+" "+other, func(t *testing.T) {
				t.Parallel()
				coll := mongotest.Database(t).Collection("c")
				o := &series.Options{Values: values}
				plain := open[string, event](t, coll, timeseries.Every(time.Hour), o)
				want := seconds(5)
				appendMany(t, plain, "s", want[:3]...)
				appendMany(t, plain, "s", want[3:]...)
				if name == "repair" {
					if _, err := coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "stats.v.count", Value: 1}}}}); err != nil {
						t.Fatal(err)
					}
				}
				var once sync.Once
				s := open[string, event](t, beforeUpdate(t, coll, func() {
					once.Do(func() {
						if err := between(t.Context(), plain); err != nil {
							t.Error(err)
						}
					})
				}), timeseries.Every(time.Hour), o)
				if err := call(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				testkit.Healthy(t, s)
				switch other {
				case "append":
					want = append(want, late)
				case "update":
					want[2] = edited
				}
				switch name {
				case "update":
					want[0].V = 5
				case "delete":
					want = slices.Delete(want, 3, 4)
				}
				testkit.Equal(t, want, testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
			})
		}
	}
}

// An edit that always meets another's gives up.
func TestEditGivesUp(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	plain := open[string, event](t, coll, timeseries.Every(time.Hour), nil)
	appendMany(t, plain, "s", seconds(2)...)
	s := open[string, event](t, beforeUpdate(t, coll, func() {
		if err := plain.Replace(t.Context(), "s", event{Timestamp: at(0, 0, 1)}); err != nil {
			t.Error(err)
		}
	}), timeseries.Every(time.Hour), nil)
	if err := s.Replace(t.Context(), "s", event{Timestamp: day, V: 5}); !errors.Is(err, mongopatterns.ErrConflict) {
		t.Error(err)
	}
}

// beforeUpdate is the collection by a client that calls fn before it sends an update.
func beforeUpdate(t *testing.T, coll *mongo.Collection, fn func()) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)).SetMonitor(&driver.CommandMonitor{Started: func(_ context.Context, e *driver.CommandStartedEvent) {
		if e.CommandName == "update" {
			fn()
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database(coll.Database().Name()).Collection(coll.Name())
}
