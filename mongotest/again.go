package mongotest

import (
	"context"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// RunAgain makes the functions of transactions run again, as they do after a conflict with another writer. It first calls
// do without any failure. After that, each further call of do meets one conflict: the first call at the first command
// that the client of db sends in a transaction, the next call at the second command, and so on up to the commit. The
// conflict ends the transaction, and the code that began it runs its function again. So RunAgain finds a function that
// keeps state from one run to the next:
//
//	mongopatterns.Transact(ctx, client, func(ctx context.Context) (err error) {
//		trip.Driver, err = drivers.Pin(ctx, trip.Driver.ID) // after a conflict trip.Driver.ID is empty
//		return err
//	})
//
// do gets the number of the call, from 0, so that each call can use documents of its own. Store these before RunAgain,
// because transactions that only prepare something in do count as well. do checks what its code has
// done and returns an error if that is wrong. RunAgain fails t if a call of do returns an error, and if the first call
// sends no command in a transaction. While it runs, nothing else may use the client. db comes from [Database] or
// [Server.Database], on a server with fail points. Like [FailPoint], RunAgain waits for other tests that use a fail
// point.
//
// Cost: that of do for each command of its transactions, and 2 round trips for each.
func RunAgain(t testing.TB, db *mongo.Database, do func(n int) error) {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: RunAgain needs a database from mongotest.Database")
	}
	made := of.(known)
	first, err := claim(made.server, t.Name())
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	if first {
		defer letGo(made.server)
	}
	admin := Admin(t, db) // in the middle of a command, the client of db may have no connection left
	for n := 0; ; n++ {
		c := conflict{nth: n, app: made.app, admin: admin}
		made.recorder.watch(func(e *event.CommandStartedEvent) { c.sent(t.Context(), e) })
		err := do(n)
		made.recorder.watch(nil)
		switch {
		case c.err != nil:
			t.Fatalf("mongotest: RunAgain: %v (a server that mongotest did not start needs --setParameter enableTestCommands=1)", c.err)
		case n == 0 && err != nil:
			t.Fatalf("mongotest: RunAgain: call 0, without a conflict: %v", err)
		case n == 0 && c.count == 0:
			t.Fatal("mongotest: RunAgain: call 0 sends no command in a transaction with the client of the database")
		case n > 0 && !c.met:
			return // it was another call as it is
		case err != nil:
			t.Errorf("mongotest: RunAgain: call %d, where command %d in a transaction, %s, meets a conflict: %v", n, n, c.name, err)
		}
	}
}

// conflict fails the nth command that a client sends in a transaction, counted from 1. If it is 0, none.
type conflict struct {
	nth   int
	app   string
	admin *mongo.Database

	mu    sync.Mutex
	count int
	met   bool
	name  string
	err   error
}

// sent is called before a command is sent.
func (c *conflict) sent(ctx context.Context, e *event.CommandStartedEvent) {
	if e.Command.Lookup("autocommit").Type == 0 || e.CommandName == "abortTransaction" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.count != c.nth {
		return
	}
	c.met, c.name = true, e.CommandName
	fail := Fail{Commands: []string{e.CommandName}, Times: 1, Code: writeConflict, Labels: []string{"TransientTransactionError"}}
	var point bson.D
	if point, c.err = fail.document(c.app); c.err == nil {
		c.err = configure(ctx, c.admin.Client(), point)
	}
}
