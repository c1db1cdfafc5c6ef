package approx_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A sum that no int64 holds is refused before it counts, in memory and in a read.
func TestNoSumWraps(t *testing.T) {
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
	if _, err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Get(ctx, "a"); err == nil {
		t.Errorf("the sum wrapped to %d", n)
	}
	if result, err := c.Flush(ctx); err == nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if err := c.Add(ctx, "a", -2); err != nil { // what the server has refused waits
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

// Keys beyond MaxKeys are written some at a time, also when those in memory are all written.
func TestDistinctBeyondMaxKeys(t *testing.T) {
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

// Registers of another precision are no part of an estimate, nor are they left out silently.
func TestDistinctOfAnotherPrecision(t *testing.T) {
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
	// Each precision has its own registers: those of the other can go.
	if _, err := coll.UpdateByID(ctx, "a", bson.M{"$unset": bson.M{"distinct.p8": ""}}); err != nil {
		t.Fatal(err)
	}
	if e := estimated(t, fine, "a"); math.Abs(float64(e.Count)-5000) > 5*e.StdErr {
		t.Errorf("%+v", e)
	}
}

// A field that is not a document of registers is an error, and stays as it is.
func TestDistinctKeepsWhatIsNotRegisters(t *testing.T) {
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

// Counters that are closed say that alone.
func TestClosedIsNotInvalid(t *testing.T) {
	coll := mongotest.Database(t).Collection("pages")
	c, err := approx.New[string](coll, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(t.Context()), distinct(t, coll, nil).Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), "a", 1); !errors.Is(err, approx.ErrClosed) || errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
