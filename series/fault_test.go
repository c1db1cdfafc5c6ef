package series_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// seconds are n measurements, one a second from midnight on.
func seconds(n int) []event {
	out := make([]event, n)
	for i := range out {
		out[i] = event{Timestamp: at(0, 0, i), V: float64(i%10) / 10}
	}
	return out
}

// failUpdates has the server fail the next update commands of clients with this
// application name.
func failUpdates(t *testing.T, app string, mode, data bson.D) {
	t.Helper()
	admin := mongotest.Database(t).Client().Database("admin")
	set := func(mode any) error {
		return admin.RunCommand(context.WithoutCancel(t.Context()), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode},
			{Key: "data", Value: append(bson.D{{Key: "failCommands", Value: bson.A{"update"}}, {Key: "appName", Value: app}}, data...)}}).Err()
	}
	if err := set(mode); err != nil {
		t.Skip("no fail points: ", err)
	}
	t.Cleanup(func() { _ = set("off") })
}

func second[A any](_ A, err error) error { return err }

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func total[M any](t testing.TB, s *series.Series[string, M]) int64 {
	t.Helper()
	stats, err := s.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return stats.Count
}

// What is stored, what is not and what is unknown stay apart when AppendMany ends with
// an error.
func TestAppendManyOutcomes(t *testing.T) {
	const app = "series-outcomes"
	db := mongotest.Database(t, options.Client().SetAppName(app).SetRetryWrites(false))
	work := &mongopatterns.Work{BatchSize: 1000}
	lost := bson.D{{Key: "closeConnection", Value: true}}
	t.Run("lost", func(t *testing.T) {
		s := open[string, event](t, db.Collection("lost"), timeseries.Every(time.Minute), nil)
		failUpdates(t, app, bson.D{{Key: "skip", Value: 3}}, lost)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if !mongo.IsNetworkError(err) || result.Done != 3000 || result.Unknown != 1000 || result.Examined != 4000 || total(t, s) != 3000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		if err := db.CreateCollection(t.Context(), "refused", options.CreateCollection().SetValidator(
			bson.D{{Key: "start", Value: bson.D{{Key: "$ne", Value: at(0, 20, 0)}}}})); err != nil {
			t.Fatal(err)
		}
		s := open[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if err == nil || result.Done != 1940 || result.Failed != 60 || result.Examined != 2000 || result.Unknown != 0 || total(t, s) != 1940 {
			t.Errorf("%+v, %v", result, err)
		}
		if len(result.Failures) != 1 || !result.Failures[0].ID.Document().Lookup("start").Time().Equal(at(0, 20, 0)) {
			t.Errorf("%+v", result.Failures)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		s := open[string, event](t, db.Collection("canceled"), timeseries.Every(time.Minute), nil)
		ctx, cancel := context.WithCancel(t.Context())
		result, err := s.AppendMany(ctx, timeseries.Of("s", seconds(2500)...), &mongopatterns.Work{BatchSize: 1000, Progress: func(mongopatterns.Result) { cancel() }})
		if !errors.Is(err, context.Canceled) || result.Done != 1000 || result.Unknown != 0 || total(t, s) != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("write concern", func(t *testing.T) {
		s := open[string, event](t, db.Collection("concern"), timeseries.Every(time.Minute), nil)
		failUpdates(t, app, bson.D{{Key: "times", Value: 1}}, bson.D{{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "timed out"}}}})
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(2500)...), work)
		if err == nil || result.Done != 0 || result.Unknown != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		s := open[string, event](t, db.Collection("invalid"), timeseries.Every(time.Minute), nil)
		items := seconds(10)
		items[7].Timestamp = time.Time{}
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", items...), nil)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "item 7") || result.Done != 7 || result.Failed != 1 || total(t, s) != 7 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("dry", func(t *testing.T) {
		s := open[string, event](t, db.Collection("dry"), timeseries.Every(time.Minute), nil)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(10)...), &mongopatterns.Work{DryRun: true})
		if err != nil || result.Done != 10 || total(t, s) != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	// A flush that fails keeps what it has, and the next one stores it; with BatchField
	// once, also if it was stored and the answer lost.
	t.Run("gatherer", func(t *testing.T) {
		s := open[string, event](t, db.Collection("gatherer"), timeseries.Every(time.Minute), &series.Options{BatchField: "batches"})
		g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 150})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range seconds(150) {
			if err := g.Add(t.Context(), "s", e); err != nil {
				t.Fatal(err)
			}
		}
		if g.Waiting() != 150 || total(t, s) != 0 {
			t.Fatal(g.Waiting())
		}
		failUpdates(t, app, bson.D{{Key: "times", Value: 2}}, lost)
		if err := g.Add(t.Context(), "s", event{Timestamp: at(5, 0, 0)}); !mongo.IsNetworkError(err) || g.Waiting() != 150 {
			t.Fatal(err, g.Waiting())
		}
		if result, err := g.Flush(t.Context()); !mongo.IsNetworkError(err) || result.Unknown != 150 || g.Waiting() != 150 {
			t.Fatal(result, err, g.Waiting())
		}
		// The same batches, come on another way: as if the answer had been lost.
		other := open[string, event](t, db.Collection("gatherer"), timeseries.Every(time.Minute), &series.Options{BatchField: "batches"})
		appendMany(t, other, "s", seconds(60)...)
		if err := g.Close(t.Context()); err != nil || g.Waiting() != 0 || total(t, s) != 150 {
			t.Fatal(err, g.Waiting(), total(t, s))
		}
		if err := g.Add(t.Context(), "s", event{Timestamp: at(0, 0, 0)}); !errors.Is(err, series.ErrClosed) || !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	})
}

// Several goroutines add, and the gatherer flushes by count, by time and at the end of
// Run: nothing is lost or doubled.
func TestGatherer(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values})
	g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 100, Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx, func(err error) { t.Error(err) }) }()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				if err := g.Add(t.Context(), "s", event{Timestamp: at(w, 0, i), V: 1}); err != nil {
					t.Error(err)
				}
				if n := g.Waiting(); n > 100 {
					t.Error(n, "wait")
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-ended; err != nil || total(t, s) != 2000 {
		t.Error(err, total(t, s))
	}
	healthy(t, s)
	for _, o := range []series.GathererOptions{{MaxCount: -1}, {MaxBytes: -1}, {Interval: -1}} {
		if _, err := series.NewGatherer(s, &o); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := series.NewGatherer[string, event](nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
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
					if err := s.Update(t.Context(), "s", event{Timestamp: at(0, 0, 0), V: 100}); err != nil && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, mongopatterns.ErrConflict) {
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
			healthy(t, s)
			got := collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))
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
		"update":  func(ctx context.Context, s events) error { return s.Update(ctx, "s", edited) },
		"compact": func(ctx context.Context, s events) error { return second(s.Compact(ctx, nil)) },
	}
	for name, call := range map[string]func(ctx context.Context, s events) error{
		"compact": func(ctx context.Context, s events) error { return second(s.Compact(ctx, nil)) },
		"update": func(ctx context.Context, s events) error {
			return s.Update(ctx, "s", event{Timestamp: at(0, 0, 0), V: 5})
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
				healthy(t, s)
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
				diff(t, want, collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
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
		if err := plain.Update(t.Context(), "s", event{Timestamp: at(0, 0, 1)}); err != nil {
			t.Error(err)
		}
	}), timeseries.Every(time.Hour), nil)
	if err := s.Update(t.Context(), "s", event{Timestamp: day, V: 5}); !errors.Is(err, mongopatterns.ErrConflict) {
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

// Damage is an error of every read, with the document's _id, and a Problem; a document
// beside it is read, compacted and repaired.
func TestDamage(t *testing.T) {
	t.Parallel()
	flip := func(v bson.RawValue) bson.Binary {
		_, data, _ := v.BinaryOK()
		data = slices.Clone(data)
		data[len(data)/2] ^= 4
		return bson.Binary{Data: data}
	}
	for name, damage := range map[string]func(doc bson.Raw) bson.D{
		"block":     func(doc bson.Raw) bson.D { return bson.D{{Key: "blocks.1", Value: flip(doc.Lookup("blocks", "1"))}} },
		"no binary": func(bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: "text"}} },
		"no array":  func(bson.Raw) bson.D { return bson.D{{Key: "blocks", Value: 7}} },
		"empty":     func(bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: bson.Binary{}}} },
		"compacted": func(doc bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: flip(doc.Lookup("blocks", "0"))}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values})
			appendMany(t, s, "s", seconds(5)...)
			if name == "compacted" {
				appendMany(t, s, "s", seconds(3)...)
				if _, err := s.Compact(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			appendMany(t, s, "s", seconds(7)...)
			appendMany(t, s, "s", event{Timestamp: at(9, 0, 0)})
			appendMany(t, s, "s", event{Timestamp: at(9, 0, 0)})
			doc, err := coll.FindOne(t.Context(), bson.D{{Key: "start", Value: day}}).Raw()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "start", Value: day}}, bson.D{{Key: "$set", Value: damage(doc)}}); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			for what, err := range map[string]error{
				"range": drain(s.Range(ctx, "s", day, at(1, 0, 0))), "documents": drain(s.Documents(ctx, nil)),
				"aggregate": second(s.Aggregate(ctx, "s", at(0, 0, 1), at(1, 0, 0))), "delete": s.Delete(ctx, "s", day),
				"windows": drain(s.AggregateWindows(ctx, "s", day, at(1, 0, 0), timeseries.Every(time.Minute))),
			} {
				if !errors.Is(err, series.ErrDamaged) || !strings.Contains(err.Error(), `_id {"series": "s","start":`) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := s.Aggregate(ctx, "s", time.Time{}, time.Time{}); err != nil {
				t.Error(err)
			}
			if latest, err := s.Latest(ctx, "s"); err != nil || latest.Timestamp != at(9, 0, 0) {
				t.Error(latest, err)
			}
			var problems []mongopatterns.Problem
			for p, err := range s.Check(ctx, nil) {
				if err != nil {
					t.Fatal(err)
				}
				problems = append(problems, p)
			}
			if len(problems) != 1 || problems[0].Kind != series.Damaged || problems[0].Detail == "" || !problems[0].ID.Equal(doc.Lookup("_id")) {
				t.Errorf("%v", problems)
			}
			if result, err := s.Repair(ctx, nil); err != nil || result.Remaining != 1 || result.Done != 0 {
				t.Errorf("repair: %+v, %v", result, err)
			}
			if name == "block" {
				if _, err := s.Compact(ctx, &mongopatterns.Work{Strict: true}); !errors.Is(err, series.ErrDamaged) {
					t.Errorf("strict: %v", err)
				}
			}
			result, err := s.Compact(ctx, nil)
			if err != nil || result.Done != 1 || name != "no array" && result.Failed != 1 {
				t.Errorf("compact: %+v, %v", result, err)
			}
		})
	}
}

// Check finds what does not follow from the measurements, and Repair computes it.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values, EndField: "end"})
	appendMany(t, s, "s", seconds(10)...)
	appendMany(t, s, "s", event{Timestamp: at(0, 1, 0), V: math.NaN()}, event{Timestamp: at(0, 1, 1), V: math.Inf(1)})
	healthy(t, s)
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{
		{Key: "$set", Value: bson.D{{Key: "count", Value: 3}, {Key: "bytes", Value: 1}, {Key: "end", Value: day}, {Key: "stats.v.max", Value: 7}, {Key: "stats.n.min", Value: 1}}},
		{Key: "$unset", Value: bson.D{{Key: "stats.v.sum", Value: ""}}}}); err != nil {
		t.Fatal(err)
	}
	kinds := func() (out []string) {
		for p, err := range s.Check(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(p.Kind)+" "+p.Field)
		}
		slices.Sort(out)
		return out
	}
	wrong := []string{"wrong aggregate bytes", "wrong aggregate count", "wrong aggregate end", "wrong aggregate stats.n.min", "wrong aggregate stats.v.max", "wrong aggregate stats.v.sum"}
	diff(t, wrong, kinds())
	if result, err := s.Repair(t.Context(), &mongopatterns.Work{DryRun: true}); err != nil || result.Done != 1 || len(kinds()) != len(wrong) {
		t.Errorf("dry: %+v, %v", result, err)
	}
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	healthy(t, s)
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: at(0, 0, 5)}}}}); err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"bad start start"}, kinds())
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: at(1, 0, 0)}, {Key: "end", Value: at(2, 0, 0).Add(-time.Millisecond)}}}}); err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"damaged "}, kinds()) // the checksum covers the start
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Measurements outside their window show where a collection is opened with a shorter one.
func TestOutsideWindow(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	appendMany(t, open[string, event](t, coll, timeseries.Every(time.Hour), nil), "s", event{Timestamp: at(1, 0, 0)}, event{Timestamp: at(1, 30, 0)})
	diff(t, map[mongopatterns.ProblemKind]int{series.OutsideWindow: 1}, kinds(t, open[string, event](t, coll, timeseries.Every(time.Minute), nil)))
}

// A batch that is repeated is stored once with BatchField, also beside Compact, until ten minutes are over.
func TestRepeatedBatches(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	o := &series.Options{BatchField: "batches", MaxCount: 20, Values: values}
	for i, want := range []struct{ done, skipped int64 }{{90, 0}, {0, 90}} {
		s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(90)...), &mongopatterns.Work{BatchSize: 7})
		if err != nil || result.Done != want.done || result.Skipped != want.skipped {
			t.Fatalf("%d: %+v, %v", i, result, err)
		}
	}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	if total(t, s) != 90 {
		t.Error(total(t, s))
	}
	healthy(t, s)
	if _, err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	again := func(done, skipped int64) {
		t.Helper()
		result, err := s.AppendMany(t.Context(), timeseries.Of("s", seconds(90)...), &mongopatterns.Work{BatchSize: 7})
		if err != nil || result.Done != done || result.Skipped != skipped {
			t.Errorf("%+v, %v", result, err)
		}
	}
	again(0, 90)
	must(t, s.Update(t.Context(), "s", seconds(1)[0]))
	again(0, 90)
	// As if they had come eleven minutes ago.
	long := bson.D{{Key: "$set", Value: bson.D{{Key: "batches.$[].at", Value: time.Now().Add(-11 * time.Minute)}}}}
	_, err := coll.UpdateMany(t.Context(), bson.D{{Key: "batches", Value: bson.D{{Key: "$exists", Value: true}}}}, long)
	must(t, err)
	again(0, 90)
	for i := range 3 { // as a second block, which gives Compact something to do
		_, err = s.AppendMany(t.Context(), timeseries.Of("s", event{Timestamp: at(0, 0, 0), N: -1 - i}), nil)
		must(t, err)
	}
	must(t, s.Update(t.Context(), "s", seconds(1)[0]))
	_, err = s.Compact(t.Context(), nil)
	must(t, err)
	docs, err := coll.CountDocuments(t.Context(), bson.D{{Key: "batches.at", Value: bson.D{{Key: "$lt", Value: time.Now().Add(-10 * time.Minute)}}},
		{Key: "revision", Value: bson.D{{Key: "$gt", Value: 2}}}})
	if err != nil || docs != 0 {
		t.Errorf("%d documents keep old IDs, %v", docs, err)
	}
}

// A writer that remembers a document goes on in the next one soon after it is full.
func TestRollOver(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{MaxCount: 160})
	for _, e := range seconds(1000) {
		if err := s.Append(t.Context(), "s", e); err != nil {
			t.Fatal(err)
		}
	}
	if n, over := count(t, coll, bson.D{}), count(t, coll, bson.D{{Key: "count", Value: bson.D{{Key: "$gt", Value: 170}}}}); n < 6 || n > 7 || over > 0 {
		t.Errorf("%d documents, %d too full", n, over)
	}
	if got := collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})); len(got) != 1000 || !slices.Equal(got, seconds(1000)) {
		t.Errorf("%d measurements", len(got))
	}
	healthy(t, s)
}

// Those of one time are read in the order in which they came, compacted or not.
func TestTies(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{MaxCount: 15})
	var want []event
	for i := range 40 {
		e := event{Timestamp: at(1, 0, 0), N: i + 1}
		appendMany(t, s, "s", e)
		want = append(want, e)
	}
	for range 2 {
		diff(t, want, collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
		if latest, err := s.Latest(t.Context(), "s"); err != nil || latest.N != 40 {
			t.Error(latest, err)
		}
		if _, err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

type celsius float64

type Flat struct {
	At    time.Time `bson:"timestamp"`
	T     celsius   `bson:"t"`
	F     float32   `bson:"f,omitempty"`
	I     int       `bson:"i"`
	I8    int8      `bson:"i8,omitempty"`
	I64   int64     `bson:"i64"`
	S     string    `bson:"s"`
	B     bool      `bson:"b,omitempty"`
	Other time.Time `bson:"other"`
	Skip  int       `bson:"-"`
	Plain int
}

// wrapped is Flat for the driver alone: a field that a shape does not know.
type wrapped struct {
	Flat  `bson:",inline"`
	Extra *int `bson:"extra,omitempty"`
}

// Structs that go without BSON are stored and read as those that the driver encodes.
func TestShapesAreBSON(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	fast, slow := open[string, Flat](t, db.Collection("fast"), timeseries.Days(nil), nil), open[string, wrapped](t, db.Collection("slow"), timeseries.Days(nil), nil)
	random := rand.New(rand.NewPCG(1, 2))
	var all []Flat
	for i := range 200 {
		n := Flat{At: at(0, 0, i), T: celsius(random.IntN(100)) / 10, I: random.IntN(3) << (random.IntN(3) * 31), I64: int64(i), S: fmt.Sprint(i % 3), Other: at(0, i, 0), Plain: i}
		if i%2 == 0 {
			n.F, n.I8, n.B = float32(i)/3, int8(-i), true
		}
		all = append(all, n)
		appendMany(t, fast, "s", n)
		appendMany(t, slow, "s", wrapped{Flat: n})
	}
	a, b := collect(t, fast.Documents(t.Context(), nil)), collect(t, slow.Documents(t.Context(), nil))
	if len(a) != 200 || !reflect.DeepEqual(a, b) {
		t.Errorf("%v\n%v", a[0], b[0])
	}
	diff(t, all, collect(t, fast.Range(t.Context(), "s", time.Time{}, time.Time{})))
	crossed := open[string, Flat](t, db.Collection("slow"), timeseries.Days(nil), nil)
	diff(t, all, collect(t, crossed.Range(t.Context(), "s", time.Time{}, time.Time{})))
	// What does not fit a field is the driver's error, as with documents.
	type narrow struct {
		At time.Time `bson:"timestamp"`
		I  int8      `bson:"i"`
	}
	if err := drain(open[string, narrow](t, db.Collection("fast"), timeseries.Days(nil), nil).Range(t.Context(), "s", time.Time{}, time.Time{})); err == nil || !strings.Contains(err.Error(), "overflows") {
		t.Error(err)
	}
	type other struct {
		At time.Time `bson:"timestamp"`
		T  string    `bson:"t"`
	}
	if err := drain(open[string, other](t, db.Collection("fast"), timeseries.Days(nil), nil).Range(t.Context(), "s", time.Time{}, time.Time{})); err == nil {
		t.Error("a number was read as text")
	}
}

// Options.BSON is honoured in both directions.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type tagged struct {
		At   time.Time `json:"timestamp"`
		V    float64   `json:"value"`
		List []string  `json:"list"`
	}
	coll := mongotest.Database(t).Collection("c")
	s := open[string, tagged](t, coll, timeseries.Days(nil), &series.Options{BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}, Values: []timeseries.Value{{Field: "value"}}})
	appendMany(t, s, "s", tagged{At: day, V: 1.5})
	for doc := range s.Documents(t.Context(), nil) {
		if doc.Lookup("value").Double() != 1.5 || doc.Lookup("list").Type != bson.TypeArray {
			t.Error(doc)
		}
	}
	diff(t, []tagged{{At: day, V: 1.5, List: []string{}}}, collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
	if total(t, s) != 1 {
		t.Error("not counted")
	}
}

// What cannot be stored, or is no series, is ErrInvalid; nothing is sent.
func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := open[any, bson.D](t, db.Collection("c"), timeseries.Days(nil), nil)
	ctx := t.Context()
	good := bson.D{{Key: "timestamp", Value: day}}
	cmds := mongotest.Record(t, db, func() {
		for _, m := range []bson.D{nil, {}, {{Key: "timestamp", Value: "today"}}, {{Key: "timestamp", Value: time.Time{}}}, {{Key: "timestamp", Value: day.AddDate(9000, 0, 0)}},
			append(good, good[0]), append(good, bson.E{Key: "a.b", Value: 1}), append(good, bson.E{Key: "$a", Value: 1}), append(good, bson.E{Key: "", Value: 1}),
			append(good, bson.E{Key: "a", Value: strings.Repeat("x", 5<<20)}), append(good, bson.E{Key: "a", Value: make(chan int)})} {
			for what, err := range map[string]error{"append": s.Append(ctx, "s", m), "update": s.Update(ctx, "s", m)} {
				if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "series: ") {
					t.Errorf("%s %.100v: %v", what, m, err)
				}
			}
		}
		for _, bad := range []any{nil, bson.A{1}, bson.D{{Key: "$gt", Value: ""}}, bson.D{{Key: "a", Value: bson.D{{Key: "$gt", Value: 1}}}}, make(chan int)} {
			for what, err := range map[string]error{
				"append": s.Append(ctx, bad, good), "range": drain(s.Range(ctx, bad, day, day)), "latest": second(s.Latest(ctx, bad)), "update": s.Update(ctx, bad, good),
				"aggregate": second(s.Aggregate(ctx, bad, day, day)), "windows": drain(s.AggregateWindows(ctx, bad, day, day, nil)), "delete": s.Delete(ctx, bad, day),
			} {
				if !errors.Is(err, mongopatterns.ErrInvalid) {
					t.Errorf("%v: %s: %v", bad, what, err)
				}
			}
		}
		negative := &mongopatterns.Work{BatchSize: -1}
		for what, err := range map[string]error{
			"delete": s.Delete(ctx, "s", time.Time{}), "archive": second(s.Archive(ctx, day, nil, nil)), "archive to itself": second(s.Archive(ctx, day, db.Collection("c"), nil)),
			"before": second(s.Archive(ctx, time.Time{}, db.Collection("archive"), nil)), "adopt": second(s.Adopt(ctx, nil, nil, nil)), "adopt itself": second(s.Adopt(ctx, db.Collection("c"), nil, nil)),
			"work": second(s.Compact(ctx, negative)), "check": drain(s.Check(ctx, negative)), "documents": drain(s.Documents(ctx, negative)),
			"filter": second(s.AppendMany(ctx, nil, &mongopatterns.Work{Filter: bson.D{}})),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	if len(cmds) > 0 {
		t.Errorf("sent %v", cmds.Names())
	}
	for what, err := range map[string]error{"latest": second(s.Latest(ctx, "s")), "update": s.Update(ctx, "s", good), "delete": s.Delete(ctx, "s", day)} {
		if !errors.Is(err, mongopatterns.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if result, err := s.AppendMany(ctx, nil, nil); err != nil || result.Examined != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

// What New refuses is ErrInvalid and names the option.
func TestConfigurationErrors(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	with := func(o series.Options) error { return second(series.New[int, event](coll, timeseries.Days(nil), &o)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(series.New[int, event](nil, timeseries.Days(nil), nil)), "coll: nil collection"},
		{second(series.New[int, event](coll, nil, nil)), "window: nil"},
		{second(series.New[int, event](coll, timeseries.Every(0), nil)), "window: the length of Every"},
		{with(series.Options{SeriesField: "a.b"}), "Options.SeriesField"}, {with(series.Options{SeriesField: "n"}), "Options.SeriesField"},
		{with(series.Options{EndField: "start"}), "Options.EndField"}, {with(series.Options{BlocksField: "_id"}), "Options.BlocksField"},
		{with(series.Options{TimeField: "a.b"}), "Options.TimeField"}, {with(series.Options{BatchField: "$b"}), "Options.BatchField"},
		{with(series.Options{MaxBytes: 9 << 20}), "Options.MaxBytes"}, {with(series.Options{MaxCount: -1}), "Options.MaxCount"},
		{with(series.Options{Values: []timeseries.Value{{}}}), "Options.Values[0].Field: empty"},
		{with(series.Options{Values: []timeseries.Value{{Field: "v"}, {Field: "v"}}}), `Options.Values[1].Field: "v" is given twice`},
		{with(series.Options{Values: []timeseries.Value{{Field: "v", Sum: "count"}}}), "Options.Values[0].Sum"},
		{with(series.Options{Values: []timeseries.Value{{Field: "v", Sum: "s", Min: "s.m"}}}), "Options.Values[0].Min"},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.HasPrefix(c.err.Error(), "series: new: invalid: "+c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

// The newest document of a window is gone, and an older one, full, is still there.
func TestAppendAfterTheNewestIsGone(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values, MaxCount: 10})
	for n := range 2 {
		var ten []event
		for i := range 10 {
			ten = append(ten, event{Timestamp: at(n, i, 0), V: float64(i)})
		}
		appendMany(t, s, "s", ten...)
	}
	if gone, err := coll.DeleteOne(t.Context(), bson.D{{Key: "_id.n", Value: 1}}); err != nil || gone.DeletedCount != 1 {
		t.Fatal(gone, err)
	}
	for i := range 2 {
		err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			return s.Append(ctx, "s", event{Timestamp: at(5, i, 0), V: 1})
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := total(t, s); n != 12 {
		t.Error(n)
	}
	healthy(t, s)
}
