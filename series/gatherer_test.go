package series_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.mongodb.org/mongo-driver/v2/bson"
	driverevent "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

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
				if err := g.Append(t.Context(), "s", event{Timestamp: at(w, 0, i), V: 1}); err != nil {
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
	testkit.Healthy(t, s)
	for _, o := range []series.GathererOptions{{MaxCount: -1}, {MaxBytes: -1}, {Interval: -1}} {
		if _, err := series.NewGatherer(s, &o); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := series.NewGatherer[string, event](nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// A block that the server refuses is handed back, once, with its measurements: what other series add is stored
// beside it, before and after, and Close goes on.
func TestGathererRefused(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	testkit.OK(t, db.CreateCollection(t.Context(), "c", options.CreateCollection().SetValidator(
		bson.D{{Key: "series", Value: bson.D{{Key: "$ne", Value: "bad"}}}})))
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Minute), nil)
	g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 4})
	testkit.OK(t, err)
	bad := []event{{Timestamp: at(1, 0, 0), V: 1.5, Note: "x"}, {Timestamp: at(1, 0, 1), V: math.NaN(), N: 7}}
	add := func(name string, all ...event) {
		t.Helper()
		for _, e := range all {
			testkit.OK(t, g.Append(t.Context(), name, e))
		}
	}
	refused := func(err error, want ...series.Refused[string, event]) {
		t.Helper()
		var all *series.RefusedError[string, event]
		var answer mongo.BulkWriteException
		if !errors.As(err, &all) || !errors.As(err, &answer) || len(all.Refused) != len(want) || !strings.HasPrefix(err.Error(), "series: ") {
			t.Fatalf("%v", err)
		}
		for i, r := range all.Refused {
			if !strings.Contains(r.Err.Error(), "validation") {
				t.Error(r.Err)
			}
			r.Err = nil
			if d := gocmp.Diff(want[i], r, cmpopts.EquateNaNs()); d != "" {
				t.Error(d)
			}
		}
	}
	add("s", seconds(2)...)
	add("bad", bad...)
	third := seconds(3)[2]
	refused(g.Append(t.Context(), "s", third), series.Refused[string, event]{Series: "bad", Measurements: bad})
	if total(t, s) != 2 || g.Waiting() != 0 { // the third was not taken
		t.Error(total(t, s), g.Waiting())
	}
	add("s", third)
	if result, err := g.Flush(t.Context()); err != nil || result.Done != 1 || total(t, s) != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	far := event{Timestamp: at(3, 0, 0)}
	add("bad", bad[0], far)
	add("s", event{Timestamp: at(2, 0, 0)})
	refused(g.Close(t.Context()), series.Refused[string, event]{Series: "bad", Measurements: bad[:1]}, series.Refused[string, event]{Series: "bad", Measurements: []event{far}})
	if err := g.Close(t.Context()); err != nil || total(t, s) != 4 || g.Waiting() != 0 {
		t.Error(err, total(t, s), g.Waiting())
	}
	testkit.Healthy(t, s)
}

// A call does not wait for the flush of another one longer than its context says.
func TestGathererBesideAFlush(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	holds, goes := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goes) })
	defer release()
	db := mongotest.Database(t, options.Client().SetMonitor(&driverevent.CommandMonitor{Started: func(_ context.Context, e *driverevent.CommandStartedEvent) {
		if e.CommandName == "update" && armed.CompareAndSwap(true, false) {
			close(holds)
			<-goes
		}
	}}))
	s := open[string, event](t, db.Collection("c"), timeseries.Days(nil), nil)
	g := testkit.Must(series.NewGatherer(s, &series.GathererOptions{MaxCount: 1}))
	testkit.OK(t, g.Append(t.Context(), "s", event{Timestamp: at(0, 0, 0)}))
	armed.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- testkit.ErrorOf(g.Flush(t.Context())) }()
	<-holds
	for i, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return g.Append(ctx, "s", event{Timestamp: at(0, 0, 1)}) },
		func(ctx context.Context) error { return testkit.ErrorOf(g.Flush(ctx)) },
		g.Close,
	} {
		ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := call(ended); !errors.Is(err, context.DeadlineExceeded) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
			t.Errorf("call %d: %v: %v", i, mongopatterns.OutcomeOf(err), err)
		}
	}
	release()
	testkit.OK(t, <-flushed)
	testkit.OK(t, g.Close(t.Context()))
	if n := total(t, s); n != 1 {
		t.Errorf("stored %d", n)
	}
}

// A flush that only Interval requires, and that fails, refuses no measurement while MaxCount has room.
func TestGathererIntervalDuringFailures(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	s := open[string, event](t, db.Collection("c"), timeseries.Days(nil), &series.Options{BatchField: "batches"})
	g := testkit.Must(series.NewGatherer(s, &series.GathererOptions{MaxCount: 5, Interval: time.Millisecond}))
	stop := mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Code: 8})
	for i, e := range seconds(5) {
		time.Sleep(2 * time.Millisecond)
		if err := g.Append(ctx, "s", e); err != nil || g.Waiting() != i+1 {
			t.Errorf("measurement %d: %v, %d wait", i, err, g.Waiting())
		}
	}
	full := event{Timestamp: at(1, 0, 0)}
	if err := g.Append(ctx, "s", full); err == nil || g.Waiting() != 5 {
		t.Errorf("beyond MaxCount: %v, %d wait", err, g.Waiting())
	}
	stop()
	testkit.OK(t, g.Append(ctx, "s", full))
	testkit.OK(t, g.Close(ctx))
	if n := total(t, s); n != 6 {
		t.Errorf("stored %d", n)
	}
}
