package approx_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func counters(t *testing.T, coll *mongo.Collection, opts *approx.Options) *approx.Counters[string] {
	t.Helper()
	c, err := approx.New[string](coll, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func add(t *testing.T, c interface {
	Add(context.Context, string, int64) error
}, key string, n int64) {
	t.Helper()
	if err := c.Add(t.Context(), key, n); err != nil {
		t.Fatal(err)
	}
}

// count returns the stored count of a key in _id.
func count(t *testing.T, coll *mongo.Collection, key string) int64 {
	t.Helper()
	raw, err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: key}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw.Lookup("count").AsInt64()
}

// Many writers, flushes in between, and a Close each: nothing is lost or doubled, and 99 of 100
// writes are saved.
func TestNothingIsLostUntilClose(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("views")
	const processes, writers, each = 3, 4, 2000
	var group sync.WaitGroup
	cmds := mongotest.Record(t, db, func() {
		for range processes {
			c := counters(t, coll, &approx.Options{MaxKeys: 3})
			var adding sync.WaitGroup
			for w := range writers {
				adding.Go(func() {
					for i := range each {
						if err := c.Add(t.Context(), []string{"a", "b", "c"}[(i+w)%3], int64(i%3)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Go(func() {
				adding.Wait()
				if n, err := c.Get(t.Context(), "a"); err != nil || n == 0 {
					t.Error(n, err)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if err := c.Add(t.Context(), "a", 1); !errors.Is(err, mongopatterns.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		}
		group.Wait()
	})
	want := map[string]int64{}
	for range processes {
		for w := range writers {
			for i := range each {
				want[[]string{"a", "b", "c"}[(i+w)%3]] += int64(i % 3)
			}
		}
	}
	for key, n := range want {
		if got := count(t, coll, key); got != n {
			t.Errorf("%s: %d, want %d", key, got, n)
		}
	}
	if changes, n := processes*writers*each, cmds.DocumentsWritten(); n > changes/100+3*processes {
		t.Errorf("%d documents written for %d changes", n, changes)
	}
}

// Processes that end without a Close lose the changes that wait in them, at most Every-1 of a key
// each.
func TestACrashLosesLittle(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	const processes, every = 3, 50
	total := int64(0)
	for p := range processes {
		c := counters(t, coll, &approx.Options{Every: every})
		for range 1000 + 49*p {
			add(t, c, "a", 1)
			total++
		}
	}
	if n := count(t, coll, "a"); n > total || n < total-processes*(every-1) || n == total {
		t.Errorf("%d of %d are stored", n, total)
	}
}

// The server refuses one key of a flush: the others are stored, and the key is reported and keeps
// its changes.
func TestFailedFlushKeepsItsChanges(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "bad"}, {Key: "count", Value: "many"}}); err != nil {
		t.Fatal(err)
	}
	c := counters(t, coll, &approx.Options{Every: 10})
	for _, key := range []string{"a", "bad", "b"} {
		add(t, c, key, 5)
	}
	result, err := c.Flush(t.Context())
	if err == nil || result.Done != 2 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "bad" {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := coll.UpdateByID(t.Context(), "bad", bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Get(t.Context(), "bad"); n != 6 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := c.Flush(ended); !errors.Is(err, context.Canceled) || result.Unknown != 0 || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone { // it was not sent
		t.Errorf("%+v, %v", result, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, bad := count(t, coll, "a"), count(t, coll, "bad"); a != 5 || bad != 6 {
		t.Errorf("%d and %d", a, bad)
	}
}

// held returns a collection whose client holds back one update, after arm, until release; held says that it does.
func held(t *testing.T) (coll *mongo.Collection, arm func(), held <-chan struct{}, release func()) {
	t.Helper()
	var armed atomic.Bool
	holds, goes := make(chan struct{}), make(chan struct{})
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "update" && armed.CompareAndSwap(true, false) {
			close(holds)
			<-goes
		}
	}}))
	return db.Collection("views"), func() { armed.Store(true) }, holds, sync.OnceFunc(func() { close(goes) })
}

// asked counts how often somebody asks for the end of a context.
type asked struct {
	context.Context
	times atomic.Int64
}

func (a *asked) Done() <-chan struct{} {
	a.times.Add(1)
	return a.Context.Done()
}

// Close waits for a write of another call, and stores what that could not. If it may not wait any longer, it says so.
func TestCloseBesideAWrite(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, c *approx.Counters[string]) error{
		"Flush": func(ctx context.Context, c *approx.Counters[string]) error { return testkit.ErrorOf(c.Flush(ctx)) },
		"Add":   func(ctx context.Context, c *approx.Counters[string]) error { return c.Add(ctx, "a", 1) }, // the hundredth
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll, arm, holds, release := held(t)
			defer release()
			c := counters(t, coll, &approx.Options{Every: 100})
			for range 99 {
				add(t, c, "a", 1)
			}
			mongotest.FailPoint(t, coll.Database(), mongotest.Fail{Commands: []string{"update"}, Times: 1, Code: 13})
			arm()
			called, closed := make(chan error, 1), make(chan error, 1)
			go func() { called <- call(t.Context(), c) }()
			<-holds
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Close(ended); !errors.Is(err, context.Canceled) || mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
				t.Errorf("%v: %v", mongopatterns.OutcomeOf(err), err)
			}
			waits := &asked{Context: t.Context()}
			go func() { closed <- c.Close(waits) }()
			select {
			case err := <-closed:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			if n := waits.times.Load(); n > 1 {
				t.Errorf("it began to wait %d times", n)
			}
			release()
			if err := <-called; err == nil {
				t.Error("the write was not refused")
			}
			testkit.OK(t, <-closed)
			want := int64(99)
			if name == "Add" {
				want++
			}
			if n := count(t, coll, "a"); n != want {
				t.Errorf("stored %d, want %d", n, want)
			}
		})
	}
}

// A write that the server refuses whole, for want of rights, is not done.
func TestOutcomeWithoutRights(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := counters(t, db.Collection("views"), nil)
	add(t, c, "a", 1)
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 2, Code: 13})
	if result, err := c.Flush(t.Context()); mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || result.Unknown != 0 {
		t.Errorf("%+v, %v: %v", result, mongopatterns.OutcomeOf(err), err)
	}
	if err := c.Close(t.Context()); mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
		t.Errorf("%v: %v", mongopatterns.OutcomeOf(err), err)
	}
	testkit.OK(t, c.Close(t.Context()))
}

// Several writers that meet a new key at the same time all count, also where the key is not the _id.
func TestNewKeysOfSeveralWriters(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	o := &approx.Options{KeyField: "page", Every: 1}
	writers := make([]*approx.Counters[string], 8)
	for i := range writers {
		writers[i] = counters(t, coll, o)
	}
	for i := range 60 {
		var begin, end sync.WaitGroup
		begin.Add(1)
		for _, c := range writers {
			end.Go(func() {
				begin.Wait()
				if err := c.Add(t.Context(), fmt.Sprint(i), 1); err != nil {
					t.Error(err)
				}
			})
		}
		begin.Done()
		end.Wait()
	}
	if n := testkit.Count(t, coll, bson.D{{Key: "count", Value: len(writers)}}); n != 60 {
		t.Errorf("%d of 60 keys have all counts", n)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("views")
	c := counters(t, coll, &approx.Options{MaxKeys: 2})
	add(t, c, "a", 1)
	add(t, c, "b", 1)
	if n := count(t, coll, "a"); n != 0 {
		t.Error("written too early")
	}
	add(t, c, "c", 1) // one more than MaxKeys
	if a, c := count(t, coll, "a"), count(t, coll, "c"); a != 1 || c != 1 {
		t.Errorf("%d and %d after more keys than MaxKeys", a, c)
	}
	if n, err := c.Get(t.Context(), "nobody"); n != 0 || !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(n, err)
	}
	add(t, c, "waits", 4)
	if n, err := c.Get(t.Context(), "waits"); n != 4 || err != nil {
		t.Error(n, err)
	}
	timed := counters(t, db.Collection("timed"), &approx.Options{Interval: time.Nanosecond})
	add(t, timed, "a", 1)
	if n := count(t, db.Collection("timed"), "a"); n != 1 {
		t.Error("not written after the interval")
	}
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		add(t, c, "outside", 7)
		if _, err := c.Flush(ctx); err != nil {
			return err
		}
		return errors.New("roll back")
	})
	if err == nil || count(t, coll, "outside") != 7 {
		t.Error("rolled back with the caller's transaction")
	}
}

// A server that refuses every write does not get one for each Add.
func TestRefusedWritesAreFew(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "update" {
			sent.Add(1)
		}
	}}))
	nothing := options.CreateCollection().SetValidator(bson.D{{Key: "never", Value: 1}})
	if err := db.CreateCollection(t.Context(), "views", nothing); err != nil {
		t.Fatal(err)
	}
	opts := &approx.Options{Every: 10, MaxKeys: 50}
	c, d := counters(t, db.Collection("views"), opts), distinct(t, db.Collection("views"), opts)
	for name, add := range map[string]func(key string, i int) error{
		"counters": func(key string, _ int) error { return c.Add(t.Context(), key, 1) },
		"distinct": func(key string, i int) error { return d.Add(t.Context(), key, i) },
	} {
		errs := 0
		for i := range 300 {
			if add("one", i%100) != nil {
				errs++
			}
		}
		if n := sent.Swap(0); n > 30 || n < 9 || int(n) != errs {
			t.Errorf("%s: %d writes, %d errors of 300 changes of a key", name, n, errs)
		}
		for i := range 100 {
			_ = add(fmt.Sprint(i), 0)
		}
		if n := sent.Swap(0); n > 10 || n < 5 {
			t.Errorf("%s: %d writes of 100 keys", name, n)
		}
	}
}

// While the server refuses all writes, keys that are new to a small MaxKeys do not send all the others each time.
func TestRefusedKeysAreSentRarely(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	nothing := options.CreateCollection().SetValidator(bson.D{{Key: "never", Value: 1}})
	testkit.OK(t, db.CreateCollection(t.Context(), "views", nothing))
	opts := &approx.Options{MaxKeys: 2}
	c, d := counters(t, db.Collection("views"), opts), distinct(t, db.Collection("views"), opts)
	const keys = 300
	for name, add := range map[string]func(key string) error{
		"counters": func(key string) error { return c.Add(t.Context(), key, 1) },
		"distinct": func(key string) error { return d.Add(t.Context(), key, 1) },
	} {
		updates := mongotest.Record(t, db, func() {
			for i := range keys {
				_ = add(fmt.Sprint(i))
			}
		}).Named("update")
		sent := 0
		for _, u := range updates {
			statements, _ := u.Body.Lookup("updates").Array().Values()
			sent += len(statements)
		}
		if sent > 15*keys {
			t.Errorf("%s: %d keys are sent for %d", name, sent, keys)
		}
	}
}

// While a write is under way, Get counts it: a key does not vanish for that moment.
func TestGetDuringAFlush(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	var c *approx.Counters[string]
	looks := 0
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "update" {
			looks++
			if n, err := c.Get(t.Context(), "a"); n != 3 || err != nil {
				t.Error(n, err)
			}
		}
	}})).Client().Database(coll.Database().Name()).Collection("views")
	c = counters(t, slow, &approx.Options{Every: 3})
	for range 3 { // the third writes
		add(t, c, "a", 1)
	}
	if n, err := c.Get(t.Context(), "a"); n != 3 || err != nil || looks != 1 {
		t.Error(n, err, looks)
	}
	if err := c.Close(t.Context()); err != nil || count(t, coll, "a") != 3 {
		t.Error(err, count(t, coll, "a"))
	}
}

// Counts of all types of numbers are read; any other value is an error, not 0.
func TestTypesOfCounts(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	decimal, err := bson.ParseDecimal128("7")
	if err != nil {
		t.Fatal(err)
	}
	c := counters(t, coll, &approx.Options{Every: 1})
	for key, start := range map[string]any{"int32": int32(7), "int64": int64(7), "double": 7.0, "decimal": decimal, "half": 7.5} {
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: key}, {Key: "count", Value: start}}); err != nil {
			t.Fatal(err)
		}
		add(t, c, key, 1)
		if n, err := c.Get(t.Context(), key); n != 8 || err != nil {
			t.Errorf("%s: %d, %v", key, n, err)
		}
	}
	if _, err := coll.InsertMany(t.Context(), []any{bson.M{"_id": "text", "count": "many"}, bson.M{"_id": "none"}}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Get(t.Context(), "text"); err == nil {
		t.Error(n)
	}
	if n, err := c.Get(t.Context(), "none"); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("views")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "bad"}, {Key: "count", Value: "many"}}); err != nil {
		t.Fatal(err)
	}
	c := counters(t, coll, &approx.Options{Interval: time.Millisecond, Existing: true})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1000)
	done := make(chan error)
	go func() { done <- c.Run(ctx, func(err error) { failed <- err }) }()
	_ = c.Add(t.Context(), "bad", 1)
	if err := <-failed; err == nil {
		t.Error("no error of a failed flush")
	}
	if _, err := coll.UpdateByID(t.Context(), "bad", bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 0}}}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := count(t, coll, "bad"); n != 1 {
		t.Errorf("%d after Run", n)
	}
}

// Fields of an existing document, by configuration alone; no other document is inserted.
func TestExistingDocuments(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("cities")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "city", Value: "Springfield"}, {Key: "stats", Value: bson.D{{Key: "population", Value: 39000}}}}); err != nil {
		t.Fatal(err)
	}
	c := counters(t, coll, &approx.Options{KeyField: "city", CountField: "stats.population", Existing: true})
	for range 250 {
		add(t, c, "Springfield", 1)
	}
	add(t, c, "Shelbyville", 1)
	result, err := c.Flush(t.Context())
	if err != nil || result.Done != 1 || result.Skipped != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if n, err := c.Get(t.Context(), "Springfield"); n != 39250 || err != nil {
		t.Error(n, err)
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{}); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := coll.CountDocuments(t.Context(), c.Filter("Springfield")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// Page views by sampling: the estimates of many counters are unbiased, and their spread is the
// reported standard error.
func TestSampled(t *testing.T) {
	coll := mongotest.Database(t).Collection("views")
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	s, err := approx.NewSampled[string](coll, &approx.Options{Random: func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 70
	views := scale.Of(1_000, 2_000, 2_000)
	var sum, squares, stdErr float64
	for k := range keys {
		key := string(rune('A' + k))
		for range views {
			add(t, s, key, 1)
		}
		e, err := s.Estimate(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		off := float64(e.Count - int64(views))
		sum += off
		squares += off * off
		stdErr += e.StdErr / keys
	}
	want := math.Sqrt(float64(views) * 99)
	if mean, limit := sum/keys, 3*want/math.Sqrt(keys); math.Abs(mean) > limit {
		t.Errorf("off by %.0f on average, more than %.0f", mean, limit)
	}
	if spread := math.Sqrt(squares / keys); spread < 0.75*want || spread > 1.25*want || stdErr < 0.9*want || stdErr > 1.1*want {
		t.Errorf("spread %.0f, said %.0f, want %.0f", spread, stdErr, want)
	}
	// Larger changes are split into a certain and a sampled part.
	for _, n := range []int64{1000, -1000} {
		if err := s.Add(t.Context(), "large", n); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := s.Estimate(t.Context(), "large"); e.Count != 0 || e.StdErr != 0 || err != nil {
		t.Error(e, err)
	}
	total := int64(0)
	odd := scale.Of(300, 2000, 20_000)
	for range odd {
		add(t, s, "odd", -150)
		total -= 150
	}
	if e, err := s.Estimate(t.Context(), "odd"); err != nil || math.Abs(float64(e.Count-total)) > 3*math.Sqrt(float64(odd)*0.25)*100 {
		t.Error(e, err)
	}
	if _, err := s.Estimate(t.Context(), "never"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
	// An Add that does not write allocates nothing, even for a key that waits already.
	s, err = approx.NewSampled[string](coll, &approx.Options{Random: func() float64 { return 0.5 }})
	if err != nil {
		t.Fatal(err)
	}
	c := counters(t, coll, nil)
	for name, one := range map[string]func(){
		"sampled": func() { add(t, s, "never", 1) }, "in memory": func() { add(t, c, "waits", 1) },
	} {
		n := 1.0
		for range 3 { // the runtime counts what the driver's monitors allocate meanwhile
			n = min(n, testing.AllocsPerRun(10, one))
		}
		if n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("views")
	for want, opts := range map[string]approx.Options{
		"Options.KeyField": {KeyField: "$a"}, "Options.CountField": {CountField: "a."}, "collides": {KeyField: "a", CountField: "a.b"},
		"Options.Every": {Every: -1}, "Options.MaxKeys": {MaxKeys: -1}, "Options.Interval": {Interval: -1},
	} {
		if _, err := approx.New[string](coll, &opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := approx.NewSampled[string](nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	// Options of another type of counter are refused, and not ignored.
	random := func() float64 { return 0 }
	for _, c := range []struct {
		option string
		err    error
	}{
		{"Precision", testkit.ErrorOf(approx.New[string](coll, &approx.Options{Precision: 10}))},
		{"Random", testkit.ErrorOf(approx.New[string](coll, &approx.Options{Random: random}))},
		{"Random", testkit.ErrorOf(approx.NewDistinct[string, int](coll, &approx.Options{Random: random}))},
		{"Precision", testkit.ErrorOf(approx.NewSampled[string](coll, &approx.Options{Precision: 10}))},
		{"Interval", testkit.ErrorOf(approx.NewSampled[string](coll, &approx.Options{Interval: time.Second}))},
		{"MaxKeys", testkit.ErrorOf(approx.NewSampled[string](coll, &approx.Options{MaxKeys: 10}))},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.Contains(c.err.Error(), "Options."+c.option) {
			t.Errorf("%s: %v", c.option, c.err)
		}
	}
	c, err := approx.New[any](coll, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []any{nil, bson.A{1}, make(chan int), bson.D{{Key: "$gt", Value: ""}}} {
		if err := c.Add(t.Context(), key, 1); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", key, err)
		}
	}
	if _, err := coll.CountDocuments(t.Context(), c.Filter(make(chan int))); err == nil {
		t.Error("a channel selects")
	}
}

// An array that somebody typed in the place of a key is no key: a count of it would be one of all its elements. Its
// elements are keys of their own, unless the unique index refuses them.
func TestKeyInAnArray(t *testing.T) {
	t.Parallel()
	for field, typed := range map[string]any{"city": bson.A{"x", "y"}, "at.city": bson.A{bson.D{{Key: "city", Value: "x"}}}} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("cities")
			top, _, _ := strings.Cut(field, ".")
			if _, err := coll.InsertOne(ctx, bson.D{{Key: top, Value: typed}, {Key: "count", Value: 100}}); err != nil {
				t.Fatal(err)
			}
			unindexed, err := approx.New[string](coll, &approx.Options{KeyField: field, Every: 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unindexed.Get(ctx, "x"); !errors.Is(err, mongopatterns.ErrNotFound) {
				t.Error(err)
			}
			indexed := counters(t, coll, &approx.Options{KeyField: field, Every: 1})
			if err := indexed.Add(ctx, "x", 7); !mongo.IsDuplicateKeyError(err) {
				t.Error(err)
			}
			if n, err := coll.CountDocuments(ctx, bson.D{{Key: "count", Value: 100}}); n != 1 || err != nil {
				t.Error(n, err)
			}
			if _, err := coll.UpdateOne(ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: top, Value: ""}}}}); err != nil {
				t.Fatal(err)
			}
			if err := indexed.Add(ctx, "x", 7); err != nil {
				t.Fatal(err)
			}
			if n, err := indexed.Get(ctx, "x"); err != nil || n != 14 { // with the 7 that were refused
				t.Error(n, err)
			}
		})
	}
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("cities")
	c := counters(t, coll, &approx.Options{KeyField: "city"})
	if models := c.Indexes()["cities"]; len(models) != 1 || !slices.Equal(models[0].Keys.(bson.D), c.ShardKey()["cities"]) {
		t.Errorf("%v", models)
	}
	if err := c.Add(t.Context(), "x", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "city", Value: "x"}}); !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
	if n := len(counters(t, coll, nil).Indexes()); n != 0 {
		t.Errorf("%d indexes for _id", n)
	}
	type page struct {
		Path string `json:"path"`
	}
	byTag, err := approx.New[page](coll, &approx.Options{KeyField: "p", BSON: &options.BSONOptions{UseJSONStructTags: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := byTag.Filter(page{"/"}).String(); got != `{"p":{"$eq":{"path":"/"}}}` {
		t.Error(got)
	}
}

// A sum that exceeds an int64 is refused before it counts, in memory and in a read.
func TestNoSumWraps(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("pages")
	c, err := approx.New[string](coll, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range []struct {
		n    int64
		fits bool
	}{{math.MaxInt64 - 10, true}, {10, true}, {1, false}, {math.MaxInt64, false}, {math.MinInt64, false}, {-1, false}} {
		if err := c.Add(ctx, "a", add.n); (err == nil) != add.fits || err != nil && !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%d: %v", add.n, err)
		}
	}
	if n, err := c.Get(ctx, "a"); n != math.MaxInt64 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := c.Add(ctx, "none", math.MinInt64); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if n, err := c.Get(ctx, "none"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Errorf("a change that was refused waits: %d, %v", n, err)
	}
	if result, err := c.Flush(ctx); result.Done != 1 || err != nil {
		t.Fatal(result, err)
	}
	if err := c.Add(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Get(ctx, "a"); !errors.Is(err, mongopatterns.ErrMalformed) {
		t.Errorf("the sum wrapped to %d, %v", n, err)
	}
	if result, err := c.Flush(ctx); err == nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if err := c.Add(ctx, "a", -2); err != nil { // the change that the server refused waits
		t.Fatal(err)
	}
	if _, err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Get(ctx, "a"); n != math.MaxInt64-1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	s, err := approx.NewSampled[string](coll, &approx.Options{Random: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{math.MaxInt64, math.MinInt64} {
		if err := s.Add(ctx, "b", n); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// Closed counters return ErrClosed and no other error.
func TestClosedIsNotInvalid(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("pages")
	c, err := approx.New[string](coll, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(t.Context()), distinct(t, coll, nil).Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), "a", 1); !errors.Is(err, mongopatterns.ErrClosed) || errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
