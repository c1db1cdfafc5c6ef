package approx_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func distinct(t *testing.T, coll *mongo.Collection, opts *approx.Options) *approx.Distinct[string, any] {
	t.Helper()
	d, err := approx.NewDistinct[string, any](coll, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// visit counts the values from from up to, not including, to.
func visit(t *testing.T, d *approx.Distinct[string, any], key string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := d.Add(t.Context(), key, i); err != nil {
			t.Fatal(err)
		}
	}
}

func estimated(t *testing.T, d *approx.Distinct[string, any], key string) approx.Estimate {
	t.Helper()
	e, err := d.Estimate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Many sketches of disjoint values: their estimates are right on average and spread as the standard
// error says, for few values and many, at two precisions.
func TestDistinctStatistics(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("pages")
	for _, precision := range []int{6, 10} {
		d := distinct(t, coll, &approx.Options{Precision: precision, Every: 1 << 20})
		relative := 1.04 / math.Sqrt(float64(int(1)<<precision))
		for _, n := range []int{1, 20, 300, 3000} {
			const sketches = 24
			var sum, squares float64
			for s := range sketches {
				key := fmt.Sprint(precision, n, s)
				visit(t, d, key, s*100_000, s*100_000+n)
				e := estimated(t, d, key)
				off := float64(e.Count)/float64(n) - 1
				sum += off
				squares += off * off
				if math.Abs(off) > 4.5*relative || math.Abs(e.StdErr-float64(e.Count)*relative) > 1e-6 {
					t.Errorf("%d values: %+v", n, e)
				}
			}
			mean, spread := sum/sketches, math.Sqrt(squares/sketches)
			if limit := 3 * relative / math.Sqrt(sketches); math.Abs(mean) > limit {
				t.Errorf("precision %d, %d values: off by %.4f on average, more than %.4f", precision, n, mean, limit)
			}
			if spread > 1.3*relative || n >= 2000 && spread < 0.7*relative {
				t.Errorf("precision %d, %d values: spread %.4f, said %.4f", precision, n, spread, relative)
			}
		}
	}
}

// Processes that count overlapping values, in any order and more than once, store the same as one
// process: registers are joined by $max.
func TestDistinctJoins(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("pages")
	one := distinct(t, coll, nil)
	visit(t, one, "one", 0, 3000)
	for _, part := range [][2]int{{0, 2000}, {1500, 3000}, {500, 600}} {
		d := distinct(t, coll, nil)
		visit(t, d, "many", part[0], part[1])
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Add(t.Context(), "many", 1); !errors.Is(err, mongopatterns.ErrClosed) {
			t.Error(err)
		}
	}
	if want, got := estimated(t, one, "one"), estimated(t, distinct(t, coll, nil), "many"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var docs []struct {
		ID       string `bson:"_id"`
		Distinct struct{ P10 map[string]int32 }
	}
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil || len(docs) != 2 || fmt.Sprint(docs[0].Distinct) != fmt.Sprint(docs[1].Distinct) || len(docs[0].Distinct.P10) < 900 {
		t.Errorf("%v, %v", docs, err)
	}
	// A union counts values that both have once.
	more := distinct(t, coll, nil)
	visit(t, more, "more", 2000, 4000)
	if err := more.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := distinct(t, db.Collection("other"), nil)
	visit(t, want, "all", 0, 4000)
	for filter, n := range map[any]approx.Estimate{
		nil:           estimated(t, want, "all"),
		bsonID("one"): estimated(t, one, "one"),
	} {
		if e, err := one.Union(t.Context(), filter); e != n || err != nil {
			t.Errorf("%v: %+v, want %+v, %v", filter, e, n, err)
		}
	}
}

type bsonID string

func (id bsonID) MarshalBSON() ([]byte, error) { return bson.Marshal(bson.M{"_id": string(id)}) }

// Values that are equal for the server are one value here, and no others.
func TestDistinctValues(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("pages")
	decimal, err := bson.ParseDecimal128("1.0")
	if err != nil {
		t.Fatal(err)
	}
	d := distinct(t, coll, nil)
	for _, v := range []any{1, int64(1), 1.0, decimal, "1", "one", "One", true, nil, bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1.0}}, bson.ObjectID{1}} {
		if err := d.Add(t.Context(), "a", v); err != nil {
			t.Fatal(err)
		}
	}
	if e := estimated(t, d, "a"); e.Count != 8 {
		t.Errorf("%+v", e)
	}
	if _, err := d.Estimate(t.Context(), "nobody"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
	if e, err := d.Union(t.Context(), bson.M{"_id": "nobody"}); e.Count != 0 || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
	for _, err := range []error{d.Add(t.Context(), "a", make(chan int)), func() error {
		_, err := approx.NewDistinct[string, any](coll, &approx.Options{Precision: 15})
		return err
	}()} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	}
	// Registers of another precision are an error.
	fine := distinct(t, coll, &approx.Options{Precision: 14})
	visit(t, fine, "fine", 0, 1000)
	if err := fine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Estimate(t.Context(), "fine"); !errors.Is(err, mongopatterns.ErrMalformed) {
		t.Error("registers beyond the precision")
	}
	if _, err := d.Union(t.Context(), nil); err == nil {
		t.Error("registers beyond the precision")
	}
}

// A refused key keeps its registers, and a key beyond MaxKeys is written and removed from memory.
func TestDistinctFlush(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("pages")
	if _, err := coll.InsertOne(t.Context(), bson.M{"_id": "bad", "distinct": 7}); err != nil {
		t.Fatal(err)
	}
	d := distinct(t, coll, &approx.Options{MaxKeys: 2})
	visit(t, d, "a", 0, 5)
	visit(t, d, "bad", 0, 5)
	result, err := d.Flush(t.Context())
	if err == nil || result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "bad" {
		t.Errorf("%+v, %v", result, err)
	}
	if e, err := d.Estimate(t.Context(), "bad"); err == nil {
		t.Errorf("7 is no registers: %+v", e)
	}
	if _, err := coll.UpdateByID(t.Context(), "bad", bson.M{"$unset": bson.M{"distinct": 1}}); err != nil {
		t.Fatal(err)
	}
	visit(t, d, "c", 0, 1)
	visit(t, d, "e", 0, 1)
	visit(t, d, "b", 0, 7) // with c, e and the refused one more than MaxKeys and a tenth
	other := distinct(t, coll, nil)
	for key, n := range map[string]int64{"a": 5, "bad": 5, "b": 1} {
		if e := estimated(t, other, key); e.Count != n {
			t.Errorf("%s: %+v", key, e)
		}
	}
	if e := estimated(t, d, "b"); e.Count != 7 {
		t.Errorf("with what waits: %+v", e)
	}
}

// What a key had before it had a document is dropped, and counts when it comes again.
func TestDistinctBeforeTheDocument(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"alone": 0, "beside one that exists": 1} {
		meanwhile := func() {}
		coll := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
			Started: func(_ context.Context, e *event.CommandStartedEvent) {
				if e.CommandName == "update" {
					meanwhile()
				}
			},
		})).Collection("pages")
		d := distinct(t, coll, &approx.Options{Existing: true, Every: 1 << 20})
		flush := func(done, skipped int64) {
			t.Helper()
			for i := range others {
				visit(t, d, fmt.Sprint("other ", i), 0, 500)
			}
			if result, err := d.Flush(t.Context()); err != nil || result.Done != done || result.Skipped != skipped {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
		}
		for i := range others {
			testkit.Insert(t, coll, bson.M{"_id": fmt.Sprint("other ", i)})
		}
		visit(t, d, "late", 0, 20_000)
		flush(int64(others), 1)
		if e, err := d.Estimate(t.Context(), "late"); !errors.Is(err, mongopatterns.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		visit(t, d, "late", 0, 20_000)
		meanwhile = func() { visit(t, d, "late", 20_000, 21_000) }
		flush(int64(others), 1)
		meanwhile = func() {}
		testkit.Insert(t, coll, bson.M{"_id": "late"})
		visit(t, d, "late", 0, 20_000)
		flush(1+int64(others), 0) // the other is sent again: it is not known which of the two was skipped
		flush(0, 0)
		for key, n := range map[string]int64{"late": 21_000, "other 0": 500 * int64(others)} {
			e, err := distinct(t, coll, nil).Estimate(t.Context(), key)
			if n > 0 && (err != nil || math.Abs(float64(e.Count-n)) > 4*e.StdErr) {
				t.Errorf("%s: %s: %+v, %v", name, key, e, err)
			}
		}
		// A key that is known to exist is not sent again because of another one.
		visit(t, d, "nowhere", 0, 1)
		visit(t, d, "late", 21_000, 22_000)
		flush(1, 1)
		visit(t, d, "late", 0, 22_000)
		flush(0, 0)
	}
}

// Run flushes at intervals, reports errors, and at its end writes what waits, once.
func TestDistinctRun(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("pages")
	if _, err := coll.InsertOne(t.Context(), bson.M{"_id": "bad", "distinct": 7}); err != nil {
		t.Fatal(err)
	}
	d := distinct(t, coll, &approx.Options{Interval: time.Millisecond, Existing: true})
	ctx, cancel := context.WithCancel(t.Context())
	failed, done := make(chan error, 1000), make(chan error)
	go func() { done <- d.Run(ctx, func(err error) { failed <- err }) }()
	_ = d.Add(t.Context(), "bad", 1)
	if err := <-failed; err == nil {
		t.Error("no error of a failed flush")
	}
	if _, err := coll.UpdateByID(t.Context(), "bad", bson.M{"$unset": bson.M{"distinct": 1}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if e := estimated(t, distinct(t, coll, nil), "bad"); e.Count != 1 {
		t.Errorf("%+v", e)
	}
	if err := d.Add(t.Context(), "bad", 2); !errors.Is(err, mongopatterns.ErrClosed) {
		t.Error(err)
	}
	d = distinct(t, coll, nil)
	costs.Record(t, db, 1, []string{"update"}, func() error {
		visit(t, d, "good", 0, 9)
		return d.Run(ctx, nil) // ctx has ended
	})
}

// Two writes have the same sketch. The first to end removes the key, which then waits again: the
// end of the second must not remove that, or the value of a failed write would be lost.
func TestDistinctForgetsItsOwn(t *testing.T) {
	t.Parallel()
	type write struct{ send chan struct{} }
	writes := make(chan write)
	var holds bool // set while no write is under way
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "update" && holds {
				w := write{make(chan struct{})}
				writes <- w
				<-w.send
			}
		},
	}))
	d := distinct(t, db.Collection("pages"), &approx.Options{MaxKeys: 1, Every: 1 << 20})
	start := func(ctx context.Context, do func(ctx context.Context) error) (w write, ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- do(ctx) }()
		return <-writes, ended
	}
	end := func(w write, ended chan error) error {
		close(w.send)
		return <-ended
	}
	flush := func(ctx context.Context) error { _, err := d.Flush(ctx); return err }
	add := func(key string, v int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return d.Add(ctx, key, v) }
	}
	visit(t, d, "a", 0, 1)
	visit(t, d, "b", 0, 1) // one key too many: both are written, and removed

	visit(t, d, "a", 1, 2)
	holds = true
	first, firstEnds := start(t.Context(), add("b", 1))
	second, secondEnds := start(t.Context(), flush)
	if err := end(first, firstEnds); err != nil {
		t.Fatal(err)
	}
	if err := d.Add(t.Context(), "a", 2); err != nil { // waits again
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	third, thirdEnds := start(ctx, add("b", 2))
	if err := end(second, secondEnds); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := end(third, thirdEnds); !errors.Is(err, context.Canceled) {
		t.Fatalf("third write: %v, want it to fail", err)
	}
	holds = false
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if e := estimated(t, distinct(t, db.Collection("pages"), nil), key); e.Count != 3 {
			t.Errorf("%s: %d values are stored, want 3", key, e.Count)
		}
	}
}

// Keys beyond MaxKeys are written some at a time, even when all those in memory are stored.
func TestDistinctBeyondMaxKeys(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	d := distinct(t, db.Collection("pages"), &approx.Options{MaxKeys: 10})
	for i := range 10 {
		visit(t, d, fmt.Sprint("first ", i), 0, 1)
	}
	if _, err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const keys = 220
	commands := mongotest.Record(t, db, func() {
		for i := range keys {
			visit(t, d, fmt.Sprint(i), 0, 1)
		}
	})
	if len(commands) > keys/10 {
		t.Errorf("%d commands for %d keys", len(commands), keys)
	}
}

// Registers of another precision are not part of an estimate, and not ignored silently either.
func TestDistinctOfAnotherPrecision(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("pages")
	coarse, fine := distinct(t, coll, &approx.Options{Precision: 8}), distinct(t, coll, &approx.Options{Precision: 12})
	visit(t, coarse, "a", 0, 5000)
	if err := coarse.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wrong := func() {
		t.Helper()
		if e, err := fine.Estimate(ctx, "a"); err == nil {
			t.Errorf("%+v", e)
		}
		if e, err := fine.Union(ctx, nil); err == nil {
			t.Errorf("%+v", e)
		}
	}
	wrong()
	visit(t, fine, "a", 5000, 10_000)
	if err := fine.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wrong()
	// Each precision has its own registers: those of the other may be removed.
	if _, err := coll.UpdateByID(ctx, "a", bson.M{"$unset": bson.M{"distinct.p8": ""}}); err != nil {
		t.Fatal(err)
	}
	if e := estimated(t, fine, "a"); math.Abs(float64(e.Count)-5000) > 5*e.StdErr {
		t.Errorf("%+v", e)
	}
}

// A field that is not a document of registers is an error, and is not changed.
func TestDistinctKeepsWhatIsNotRegisters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("pages")
	for id, odd := range map[string]any{"array": bson.A{int32(1), int32(2)}, "empty": bson.A{}, "number": int32(7), "text": "x"} {
		if _, err := coll.InsertOne(ctx, bson.M{"_id": id, "distinct": odd}); err != nil {
			t.Fatal(err)
		}
		d := distinct(t, coll, &approx.Options{Every: 1})
		if err := d.Add(ctx, id, 1); err == nil {
			t.Errorf("%s: no error", id)
		}
		if e, err := d.Estimate(ctx, id); err == nil {
			t.Errorf("%s: %+v", id, e)
		}
		var got struct{ Distinct any }
		if err := coll.FindOne(ctx, bson.M{"_id": id}).Decode(&got); err != nil || fmt.Sprint(got.Distinct) != fmt.Sprint(odd) {
			t.Errorf("%s became %v, %v", id, got.Distinct, err)
		}
	}
}

// What was written is not sure if the server reports an error of the write concern: it may be rolled back, so it is sent again.
func TestDistinctAfterAWriteConcern(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	d := distinct(t, coll, &approx.Options{Every: 1000})
	visit(t, d, "k", 0, 1)
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 64})
	if result, err := d.Flush(t.Context()); err == nil || result.Unknown != 1 || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "k"}}); err != nil { // as a rollback
		t.Fatal(err)
	}
	if _, err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Count(t, coll, bson.D{}); n != 1 {
		t.Errorf("%d documents, want 1", n)
	}
}
