package computed_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestGet(t *testing.T) {
	opts := perFilm()
	opts.Lease = time.Hour
	db, c := cinema(t, opts)
	f := testkit.Must(c.Get(t.Context(), "A", time.Hour)) // never computed
	if f.Viewers != truth(t, db, true)["A"][0] || f.Computed.Epoch != 1 || time.Since(f.Computed.At).Abs() > time.Hour {
		t.Errorf("%+v", f)
	}
	check(t, set(db, 0, bson.M{"viewers": 1000})(t.Context())) // without the package
	if again := testkit.Must(c.Get(t.Context(), "A", time.Hour)); again.Viewers != f.Viewers {
		t.Errorf("computed though fresh: %+v", again)
	}
	if now := testkit.Must(c.Get(t.Context(), "A", 0)); now.Viewers != truth(t, db, true)["A"][0] {
		t.Errorf("not computed though stale: %+v", now)
	}
	check(t, set(db, 0, bson.M{"viewers": 2000})(t.Context()))
	check(t, c.Mark(t.Context(), "A"))
	if now := testkit.Must(c.Get(t.Context(), "A", time.Hour)); now.Viewers != truth(t, db, true)["A"][0] {
		t.Errorf("not computed though marked: %+v", now)
	}
	if _, err := c.Get(t.Context(), "Z", 0); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(err)
	}
	_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$set": bson.M{"computed": nil}}) // stored from a nil pointer
	check(t, errors.Join(err, c.Mark(t.Context(), "A")))
	check(t, errorOf(c.Get(t.Context(), "A", time.Hour)))
	// Another computes it, or died doing so: readers get the old value at once.
	until := func(at any) {
		_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$set": bson.M{"computed.until": at, "computed.dirty": true}})
		check(t, err)
	}
	until(time.Now().Add(time.Hour))
	check(t, set(db, 0, bson.M{"viewers": 3000})(t.Context()))
	if old := testkit.Must(c.Get(t.Context(), "A", 0)); old.Viewers == truth(t, db, true)["A"][0] {
		t.Errorf("computed beside another: %+v", old)
	}
	for i, at := range []any{time.Now().Add(-time.Hour), bson.Timestamp{T: math.MaxUint32}, bson.MaxKey{}, "text"} { // typed by hand
		check(t, set(db, 0, bson.M{"viewers": 3000 + i})(t.Context()))
		until(at)
		if now := testkit.Must(c.Get(t.Context(), "A", 0)); now.Viewers != truth(t, db, true)["A"][0] {
			t.Errorf("not taken over after %v: %+v", at, now)
		}
	}
	check(t, set(db, 0, bson.M{"viewers": 3000})(t.Context()))
	// Twenty readers of a stale value make one computation.
	opts = perFilm()
	opts.Wait = true
	waiting := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	check(t, c.Mark(t.Context(), "A"))
	before := testkit.Must(c.Get(t.Context(), "B", 0)).Computed.Epoch
	var wrong atomic.Int64
	cmds := mongotest.Record(t, db, func() {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if f, err := waiting.Get(t.Context(), "A", time.Hour); err != nil || f.Viewers != 3000+12+14+16+18+20 {
					wrong.Add(1)
					t.Error(f, err)
				}
			})
		}
		group.Wait()
	})
	if n := len(cmds.Named("aggregate")); n != 1 || wrong.Load() > 0 || before == 0 {
		t.Errorf("%d computations", n)
	}
}

// In a transaction whose snapshot shows the lease of another, a Get would wait for ever.
func TestGetInATransactionDoesNotWait(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$set": bson.M{"computed.until": time.Now().Add(time.Hour)}})
	check(t, err)
	runs := 0
	err = mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if runs++; runs == 2 {
			_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$unset": bson.M{"computed.until": 1}}) // the other ends
			check(t, err)
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return errorOf(c.Get(ctx, "A", time.Hour))
	})
	if err != nil || runs < 2 {
		t.Errorf("%d runs: %v", runs, err)
	}
}

// A Get fails after its computation: its error does not say that nothing is written.
func TestGetFailsAfterItsWrite(t *testing.T) {
	t.Parallel()
	db, _ := cinema(t, perFilm())
	c := testkit.Must(totalsOf[int, string, struct{ Title int }](db.Collection("screenings"), db.Collection("films"), perFilm()))
	for _, want := range []mongopatterns.Outcome{mongopatterns.Unknown, mongopatterns.NotDone} { // the second only reads
		if _, err := c.Get(t.Context(), "A", time.Hour); err == nil || mongopatterns.OutcomeOf(err) != want {
			t.Errorf("%v is %v, want %v", err, mongopatterns.OutcomeOf(err), want)
		}
	}
	if got, want := stored(t, db)["A"], truth(t, db, true)["A"]; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// A Get that fails, or whose context ends, gives its lease back: the next reader of a new target
// does not wait for a minute.
func TestAFailedGetGivesItsLeaseBack(t *testing.T) {
	t.Parallel()
	computed.GiveBackAtLeisure(t)
	opts := perFilm()
	opts.Lease = time.Hour
	db, c := cinema(t, opts)
	opts = perFilm()
	opts.Lease = time.Hour
	opts.Pipeline = mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": bson.M{"$toInt": "text"}}}}}}}
	failing := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	check := func(step string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if f, err := c.Get(ctx, "A", time.Hour); err != nil || f.Viewers != 90 {
			t.Errorf("%s: %+v, %v", step, f, err)
		}
		update(t, db, "films", "A", bson.M{"computed": bson.M{}})
	}
	if _, err := failing.Get(t.Context(), "A", time.Hour); err == nil {
		t.Fatal("it did not fail")
	}
	check("failed")
	ctx, cancel := context.WithCancel(t.Context())
	canceling := beside(t, db, cancel)
	ended := testkit.Must(totalsOf[int, string, film](canceling.Collection("screenings"), canceling.Collection("films"), perFilm()))
	if _, err := ended.Get(ctx, "A", time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check("cancelled")
	// A cancelled Drain does not count as an attempt, either.
	opts = perFilm()
	opts.Attempts, opts.Lease = 1, time.Hour
	for range 2 {
		update(t, db, "films", "A", bson.M{"computed.dirty": true})
		ctx, cancel := context.WithCancel(t.Context())
		canceling := beside(t, db, cancel)
		ended := testkit.Must(totalsOf[int, string, film](canceling.Collection("screenings"), canceling.Collection("films"), opts))
		if _, err := ended.Drain(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if result, err := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts)).Drain(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	check("drained")
}

// If the answer to the write that takes a lease for Drain is lost, the lease is given back, and the attempt does not count.
func TestLostLease(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	opts.Attempts, opts.Lease = 1, time.Hour
	db, _ := cinema(t, opts)
	p := proxy.New(t, mongotest.URI(t))
	t.Cleanup(func() { p.Break(nil) })
	proxied := mongotest.Database(t, p.Options()).Client().Database(db.Name())
	c := testkit.Must(totalsOf[int, string, film](proxied.Collection("screenings"), proxied.Collection("films"), opts))
	testkit.OK(t, c.Mark(t.Context(), "A"))
	p.Break(proxy.Each("findAndModify", proxy.CloseAfter))
	if _, err := c.Drain(t.Context(), nil); !mongo.IsNetworkError(err) {
		t.Errorf("%v, want a network error", err)
	}
	p.Break(nil)
	if result, err := c.Drain(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A server that refuses to take a lease back gets few commands.
func TestGiveBackIsNotRepeated(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	db, _ := cinema(t, opts)
	opts.Pipeline = mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": bson.M{"$toInt": "text"}}}}}}}
	p := proxy.New(t, mongotest.URI(t))
	proxied := mongotest.Database(t, p.Options()).Client().Database(db.Name())
	failing := testkit.Must(totalsOf[int, string, film](proxied.Collection("screenings"), proxied.Collection("films"), opts))
	var updates atomic.Int64
	refused := proxy.Refuse(proxy.NotWritablePrimary)
	refused.Before = func() { updates.Add(1) }
	p.Break(proxy.Each("update", refused))
	if _, err := failing.Get(t.Context(), "A", time.Hour); err == nil {
		t.Fatal("it did not fail")
	}
	if n := updates.Load(); n != 2 { // the driver repeats it once
		t.Errorf("%d updates, want 2", n)
	}
	p.Break(nil)
}
