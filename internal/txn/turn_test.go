package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/turn"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	values "github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// documentA is what InTurn makes of the document a.
func documentA(coll *mongo.Collection) []turn.Document {
	name := coll.Database().Name() + "." + coll.Name() + " " + values.Key(values.New("a"))
	return []turn.Document{{Client: coll.Database().Client(), Name: name}}
}

func inTurn(ctx context.Context, coll *mongo.Collection) error {
	_, err := txn.InTurn(ctx, scoped.On(coll), values.New("a"))
	return err
}

// free reports whether nobody has the turn at document a.
func free(coll *mongo.Collection) bool {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	have, _ := turn.Take(over, documentA(coll))
	have.End()
	return len(have) > 0
}

// A call sends nothing before its turn. If its context ends before, the error says what it waited for.
func TestWaitsForItsTurn(t *testing.T) {
	db, coll := counters(t)
	other, _ := turn.Take(t.Context(), documentA(coll))
	write := func(ctx context.Context) error {
		if err := inTurn(ctx, coll); err != nil {
			return err
		}
		return inc(ctx, coll, "a")
	}
	var err error
	sent := mongotest.Record(t, db, func() {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		err = txn.Run(ctx, scoped.On(db.Collection("c")), write)
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "others of this process") || !fault.WroteNothing(err) || len(sent) > 0 {
		t.Errorf("sent %v, %v", sent.Names(), err)
	}
	other.End()
	if err := txn.Run(t.Context(), scoped.On(db.Collection("c")), write); err != nil || value(t, coll, "a") != 1 || !free(coll) {
		t.Errorf("%v, the turn is free: %v", err, free(coll))
	}
}

// A call that joins a transaction without a command waits as well, before the first one.
func TestJoinedCallWaitsForItsTurn(t *testing.T) {
	db, coll := counters(t)
	other, _ := turn.Take(t.Context(), documentA(coll))
	sent := mongotest.Record(t, db, func() {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		err := txn.RunOf(ctx, db.Client(), func(ctx context.Context) error {
			return txn.RunInTurn(ctx, scoped.On(coll), values.New("a"), func(ctx context.Context) error { return inc(ctx, coll, "a") })
		})
		if !errors.Is(err, context.Canceled) || !fault.WroteNothing(err) {
			t.Error(err)
		}
	})
	if other.End(); len(sent) > 0 {
		t.Errorf("sent %v", sent.Names())
	}
}

// A call that has sent a command does not wait in the middle of its transaction: it runs again when its turn comes.
func TestWaitsBeforeItRunsAgain(t *testing.T) {
	db, coll := counters(t)
	other, _ := turn.Take(t.Context(), documentA(coll))
	defer other.End()
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
		if err := inc(ctx, coll, "b"); err != nil {
			return err
		}
		if err := inTurn(ctx, coll); err != nil {
			return err
		}
		runs++
		time.AfterFunc(20*time.Millisecond, cancel)
		return txn.Conflict("update")
	})
	if runs != 1 || !errors.Is(err, context.Canceled) || !fault.WroteNothing(err) {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// A call keeps its turn while it runs again, and gives it up with the call.
func TestKeepsItsTurn(t *testing.T) {
	db, coll := counters(t)
	refused, runs := errors.New("refused"), 0
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
		if runs++; runs > 1 && free(coll) {
			t.Error("another call could be first")
		}
		if err := inTurn(ctx, coll); err != nil {
			return err
		}
		if runs < 3 {
			return txn.Conflict("update")
		}
		return refused
	})
	if !errors.Is(err, refused) || !free(coll) {
		t.Errorf("%v, the turn is free: %v", err, free(coll))
	}
}

// A commit whose answer does not come does not keep others from their turn.
func TestTurnOfALostCommit(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	coll := mongotest.Database(t, p.Options()).Collection("c")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // cancelled when the turn has ended
	t.Cleanup(cancel)
	sent := make(chan bool, 1)
	lost := proxy.SilentAfter
	lost.Before = func() { sent <- true }
	p.Break(proxy.Each("commitTransaction", lost))
	ended := make(chan error, 1)
	go func() {
		ended <- txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error {
			if err := inTurn(ctx, coll); err != nil {
				return err
			}
			_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}})
			return err
		})
	}()
	select {
	case <-sent:
	case err := <-ended:
		t.Fatalf("ended without a commit: %v", err)
	}
	for start := time.Now(); !free(coll); time.Sleep(time.Millisecond) {
		if time.Since(start) > slack { // it ends 10 ms after the commit was sent
			t.Fatal("the turn goes on")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("ended before: %v", err)
	default:
	}
	cancel()
	if err := <-ended; fault.WroteNothing(err) {
		t.Error(err)
	}
}

// A transaction that Run has not started waits for no turn.
func TestNoTurnInTheDriversTransaction(t *testing.T) {
	db, coll := counters(t)
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	other, _ := turn.Take(t.Context(), documentA(coll))
	defer other.End()
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		if err := inTurn(ctx, coll); err != nil {
			return nil, err
		}
		return nil, inc(ctx, coll, "a")
	})
	if err != nil {
		t.Error(err)
	}
}
