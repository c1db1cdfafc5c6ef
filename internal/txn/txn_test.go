package txn_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func inc(ctx context.Context, coll *mongo.Collection, id string) error {
	_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	return err
}

func value(t *testing.T, coll *mongo.Collection, id string) int {
	t.Helper()
	var doc struct{ N int }
	if err := coll.FindOne(patient(t), bson.D{{Key: "_id", Value: id}}).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc.N
}

func counters(t *testing.T) (*mongo.Database, *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	if _, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: "a"}}, bson.D{{Key: "_id", Value: "b"}}}); err != nil {
		t.Fatal(err)
	}
	return db, coll
}

func TestCommitsAllOrNothing(t *testing.T) {
	db, coll := counters(t)
	cmds := mongotest.Record(t, db, func() {
		err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
			if !txn.Running(ctx) {
				t.Error("no transaction running")
			}
			return errors.Join(inc(ctx, coll, "a"), inc(ctx, coll, "b"))
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if level, _ := cmds[0].Body.Lookup("readConcern", "level").StringValueOK(); level != "snapshot" {
		t.Errorf("read concern %q", level)
	}
	last := cmds[len(cmds)-1]
	if w, _ := last.Body.Lookup("writeConcern", "w").StringValueOK(); last.Name != "commitTransaction" || w != "majority" {
		t.Errorf("last command %s with write concern %q", last.Name, w)
	}
	boom := errors.New("boom")
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
		if err := inc(ctx, coll, "a"); err != nil {
			return err
		}
		return fmt.Errorf("wrapped: %w", boom)
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if a, b := value(t, coll, "a"), value(t, coll, "b"); a != 1 || b != 1 {
		t.Errorf("counters %d and %d, want 1 and 1", a, b)
	}
}

// A transaction that ends before its first command is unknown to the server: nothing is sent.
func TestUnusedTransaction(t *testing.T) {
	db, coll := counters(t)
	refused := errors.New("refused")
	var err error
	sent := mongotest.Record(t, db, func() {
		err = txn.Run(t.Context(), scoped.On(db.Collection("c")), func(context.Context) error { return refused })
	})
	if !errors.Is(err, refused) || !fault.WroteNothing(err) || len(sent) > 0 {
		t.Errorf("sent %v, %v", sent.Names(), err)
	}
	sent = mongotest.Record(t, db, func() {
		err = txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error { return errors.Join(inc(ctx, coll, "a"), refused) })
	})
	if names := sent.Names(); !errors.Is(err, refused) || !slices.Equal(names, []string{"update", "abortTransaction"}) {
		t.Errorf("sent %v, %v", names, err)
	}
}

// A transaction in a session of the caller is aborted, also if its function went round the context that it got, or if
// the session is of another client than the database.
func TestAbortInASessionOfTheCaller(t *testing.T) {
	db, coll := counters(t)
	refused := errors.New("refused")
	for name, run := range map[string]func(outer context.Context) error{
		"round the context": func(outer context.Context) error {
			return txn.Run(outer, scoped.On(db.Collection("c")), func(context.Context) error { return errors.Join(inc(outer, coll, "a"), refused) })
		},
		"another client": func(outer context.Context) error {
			return txn.RunOf(outer, mongotest.Database(t).Client(), func(ctx context.Context) error { return errors.Join(inc(ctx, coll, "a"), refused) })
		},
	} {
		session, err := db.Client().StartSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := run(mongo.NewSessionContext(t.Context(), session)); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the server would hold the lock for a minute
		if err := inc(ctx, coll, "a"); err != nil {
			t.Errorf("%s: the document is locked: %v", name, err)
		}
		cancel()
		session.EndSession(t.Context())
	}
}

func TestJoinsTheTransactionOfTheContext(t *testing.T) {
	db, coll := counters(t)
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	ctx := mongo.NewSessionContext(t.Context(), session)
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error { return inc(ctx, coll, "a") }); err != nil {
		t.Fatal(err)
	}
	if !txn.Running(ctx) {
		t.Error("the outer transaction ended with the inner function")
	}
	if err := session.AbortTransaction(ctx); err != nil {
		t.Fatal(err)
	}
	if n := value(t, coll, "a"); n != 0 {
		t.Errorf("counter %d after abort", n)
	}
	// A session without a transaction is used for one.
	err = txn.Run(ctx, scoped.On(db.Collection("c")), func(inner context.Context) error {
		if mongo.SessionFromContext(inner) != session {
			t.Error("another session than the context's")
		}
		return inc(inner, coll, "a")
	})
	if err != nil || value(t, coll, "a") != 1 {
		t.Errorf("counter %d, %v", value(t, coll, "a"), err)
	}
}

func TestConflictingWritersAllGetThrough(t *testing.T) {
	db, coll := counters(t)
	const writers, each = 4, 10
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
					return errors.Join(inc(ctx, coll, "a"), inc(ctx, coll, "b"))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if a, b := value(t, coll, "a"), value(t, coll, "b"); a != writers*each || b != writers*each {
		t.Errorf("counters %d and %d, want %d", a, b, writers*each)
	}
}

// The client's read preference is for reads outside of transactions.
func TestReadsFromThePrimary(t *testing.T) {
	db := mongotest.Database(t, options.Client().SetReadPreference(readpref.SecondaryPreferred()))
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
		err := db.Collection("c").FindOne(ctx, bson.D{}).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Some servers report a write conflict without the label that asks for a retry.
func TestRetriesUnlabelledConflicts(t *testing.T) {
	db, _ := counters(t)
	runs := 0
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(context.Context) error {
		if runs++; runs < 3 {
			return fmt.Errorf("update: %w", mongo.CommandError{Code: []int32{112, 290}[runs-1]}) // a conflict, the end of a slow transaction
		}
		return nil
	})
	if err != nil || runs != 3 {
		t.Errorf("%d runs, %v", runs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = txn.Run(ctx, scoped.On(db.Collection("c")), func(context.Context) error {
		cancel()
		return mongo.CommandError{Code: 112}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancel", err)
	}
}

func TestStandalone(t *testing.T) {
	db, _ := counters(t)
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(context.Context) error {
		return mongo.CommandError{Code: 20, Message: "Transaction numbers are only allowed on a replica set member or mongos"}
	})
	if !errors.Is(err, fault.ErrTransactionsUnsupported) {
		t.Errorf("error %v", err)
	}
}

func TestConflictRunsAgain(t *testing.T) {
	db, coll := counters(t)
	runs := 0
	guarded := func(ctx context.Context) error {
		if err := inc(ctx, coll, "a"); err != nil {
			return err
		}
		if runs++; runs < 3 {
			return fmt.Errorf("guard: %w", txn.Conflict("update a"))
		}
		return nil
	}
	if err := txn.Run(t.Context(), scoped.On(db.Collection("c")), guarded); err != nil {
		t.Fatal(err)
	}
	if n := value(t, coll, "a"); runs != 3 || n != 1 {
		t.Errorf("%d runs left %d", runs, n)
	}
}

// A transaction whose context has ended is not begun: without a primary the driver
// would go on for its own two minutes.
func TestLooksAtTheContextFirst(t *testing.T) {
	db, coll := counters(t)
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
		runs++
		if err := inc(ctx, coll, "a"); err != nil {
			return err
		}
		cancel()
		return txn.Conflict("guard of a")
	})
	if runs != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d runs, %v", runs, err)
	}
	var server mongo.ServerError
	if errors.As(err, &server) {
		t.Errorf("%v passes for the server's error", err)
	}
	if !strings.Contains(err.Error(), "guard of a") {
		t.Errorf("%v does not name the conflict", err)
	}
}

// Somebody else holds the document in a transaction of his own: the error of a context that
// ends says that this was waited for.
func TestEndedContextNamesTheConflict(t *testing.T) {
	db, coll := counters(t)
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := inc(mongo.NewSessionContext(t.Context(), session), coll, "a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
		err := inc(ctx, coll, "a")
		if err != nil {
			cancel()
		}
		return err
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "WriteConflict") {
		t.Errorf("error %v", err)
	}
	if errors.Is(err, fault.ErrConflict) {
		t.Error("the end of a context passes for a conflict that the caller can solve")
	}
	if err := session.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// DocumentDB's text for a conflict that it sends under a code of its own.
func TestRetriesSerializationFailures(t *testing.T) {
	db, _ := counters(t)
	runs := 0
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(context.Context) error {
		if runs++; runs < 3 {
			return mongo.CommandError{Code: 1, Message: "could not serialize access due to concurrent update"}
		}
		return nil
	})
	if err != nil || runs != 3 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// Deadlines that end inside commands leave no transaction open on the server: it would
// hold its documents for a minute. The abort of one can overtake its first command.
func TestDeadlinesLeaveNothingOpen(t *testing.T) {
	name := t.Name() // of the client: a test before this one may have left a transaction of its own session open
	db := mongotest.Database(t, options.Client().SetAppName(name))
	coll := db.Collection("c")
	if err := db.CreateCollection(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for g := range 12 {
		group.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*400*time.Microsecond)
				_ = txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
					_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1000*g + i}})
					return err
				})
				cancel()
			}
		})
	}
	group.Wait()
	var open []bson.M
	admin := mongotest.Admin(t, db).Client().Database("admin")
	for range 300 { // the server itself ends them after a minute
		cursor, err := admin.Aggregate(t.Context(), mongo.Pipeline{
			{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleSessions", Value: true}}}},
			{{Key: "$match", Value: bson.D{{Key: "appName", Value: name}, {Key: "transaction", Value: bson.D{{Key: "$exists", Value: true}}}}}}})
		if err == nil {
			err = cursor.All(t.Context(), &open)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("these transactions are open: %v", open)
}

// The caller gives up while a commit goes unanswered: that it is not known stays to be seen.
func TestUnknownCommitOfACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "commitTransaction" {
			cancel()
		}
	}
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: started}))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"commitTransaction"}, Code: 50, Labels: []string{"UnknownTransactionCommitResult"}})
	err := txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
		_, err := db.Collection("c").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
		return err
	})
	if !errors.Is(err, context.Canceled) || fault.WroteNothing(err) {
		t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
	}
}

// Without a server nobody is in the way: the error has the label of a conflict, and no code.
func TestNoServerIsNoConflict(t *testing.T) {
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	p := proxy.New(t, mongotest.URI(t))
	p.Close()
	client, err := mongo.Connect(p.Options(), options.Client().SetServerSelectionTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	db, selections := client.Database("none"), 0
	err = txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
		_, err := db.Collection("c").InsertOne(ctx, bson.D{})
		if txn.Conflicted(err) {
			t.Errorf("a conflict: %#v", err)
		}
		if selections++; selections == 2 {
			cancel()
		}
		return err
	})
	if !errors.Is(err, context.Canceled) || selections != 2 {
		t.Errorf("%d runs, %v", selections, err)
	}
}

// An old connection of the client ends in the middle of a transaction, and the new ones end during their login, as those of
// a server do that is about to stop. The driver gives such an error no label, though the command was never sent.
func TestLoginsCut(t *testing.T) {
	t.Parallel()
	type cut struct{ login, command string }
	beside(t, map[string]cut{
		"hello, update":          {"hello", "update"},
		"hello, commit":          {"hello", "commitTransaction"},
		"authentication, update": {"saslContinue", "update"},
		"authentication, commit": {"saslContinue", "commitTransaction"},
	}, func(t *testing.T, test cut) {
		p := proxy.New(t, mongotest.URI(t))
		coll := mongotest.Database(t, p.Options()).Collection("c")
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err != nil {
			t.Fatal(err)
		}
		p.HangUp(test.login, 3)
		broken := false
		p.Break(func(c proxy.Command) *proxy.Fault {
			if c.Name != test.command || broken {
				return nil
			}
			broken = true
			return &proxy.CloseBefore
		})
		if err := txn.Run(patient(t), scoped.On(coll), func(ctx context.Context) error { return inc(ctx, coll, "a") }); err != nil {
			t.Errorf("%T %v", err, err)
		}
		p.HangUp(test.login, 0)
		if n := value(t, coll, "a"); n != 1 {
			t.Errorf("done %d times", n)
		}
	})
}

// A login that is cut off fails every command that waits for a connection. The driver does not send the commands of a
// transaction again, though they were never sent.
func TestLoginCutForOthers(t *testing.T) {
	t.Parallel()
	const waiting = 20
	var armed atomic.Bool
	var asked atomic.Int32
	all := make(chan struct{})
	wait := func(e *event.PoolEvent) {
		switch {
		case !armed.Load():
		case e.Type == event.ConnectionCheckOutStarted && asked.Add(1) == waiting:
			close(all)
		case e.Type == event.ConnectionCreated:
			<-all
		}
	}
	p := proxy.New(t, mongotest.URI(t))
	opts := options.Client().SetMaxConnecting(1).SetPoolMonitor(&event.PoolMonitor{Event: wait})
	coll := mongotest.Database(t, p.Options(), opts).Collection("c")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: "first"}})
	p.HangUp("saslContinue", 3) // the driver waits for a connection once more
	armed.Store(true)
	var group sync.WaitGroup
	for range waiting {
		group.Go(func() {
			err := txn.Run(patient(t), scoped.On(coll), func(ctx context.Context) error { return testkit.ErrorOf(coll.InsertOne(ctx, bson.D{})) })
			if err != nil {
				t.Errorf("%T %v", err, err)
			}
		})
	}
	group.Wait()
	if n := testkit.Count(t, coll, bson.D{}); n != waiting+1 {
		t.Errorf("%d documents", n)
	}
}

// Logins that the server refuses do not pass: the error comes at once.
func TestLoginsRefused(t *testing.T) {
	client := mongotest.Database(t, options.Client().SetAuth(options.Credential{Username: "nobody", Password: "wrong"})).Client()
	runs := 0
	err := txn.RunOf(patient(t), client, func(ctx context.Context) error {
		runs++
		return client.Ping(ctx, nil)
	})
	if err == nil || runs != 1 || !strings.Contains(err.Error(), "AuthenticationFailed") {
		t.Errorf("%d runs: %v", runs, err)
	}
}

// A server that does not know the transaction of a commit answers without a label while it cannot make sure that the
// majority does not know it either. The commit is sent again.
func TestCommitNotSure(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	coll := mongotest.Database(t, p.Options()).Collection("c")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	p.Break(proxy.Nth("commitTransaction", "", 0, proxy.NotSure, proxy.NotSure))
	if err := txn.Run(patient(t), scoped.On(coll), func(ctx context.Context) error { return inc(ctx, coll, "a") }); err != nil {
		t.Errorf("%T %v", err, err)
	}
	if n := value(t, coll, "a"); n != 1 {
		t.Errorf("done %d times", n)
	}
}

// A command outside the transaction that gets no answer ends the call with its error, as another error of the function does.
func TestCommandElsewhere(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	coll := mongotest.Database(t, p.Options()).Collection("c")
	p.Break(proxy.Each("find", proxy.SilentBefore))
	t.Cleanup(func() { p.Break(nil) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	runs := 0
	err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error {
		runs++
		short, cancel := context.WithTimeout(mongo.NewSessionContext(ctx, nil), 200*time.Millisecond)
		defer cancel()
		return coll.FindOne(short, bson.D{}).Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) || runs != 1 {
		t.Errorf("%d runs: %v", runs, err)
	}
}

// After a call of the library has failed in a transaction of Run, and had written or ended the transaction, the commit is
// refused, though the function returns nil. A call that fails before it writes can be ignored.
func TestIgnoredErrors(t *testing.T) {
	db, coll := counters(t)
	refused := errors.New("refused")
	call := func(ctx context.Context, fn func(ctx context.Context) error) {
		_ = txn.Run(ctx, scoped.On(coll), fn) // its error is ignored
	}
	add := func(ctx context.Context, id any) error {
		return testkit.ErrorOf(scoped.On(coll).UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}))
	}
	want := value(t, coll, "a")
	for name, c := range map[string]struct {
		fn   func(ctx context.Context) error
		want func(err error) bool
	}{
		"after a write":  {func(ctx context.Context) error { return cmp.Or(add(ctx, "a"), refused) }, func(err error) bool { return errors.Is(err, refused) }},
		"before a write": {func(ctx context.Context) error { return cmp.Or(add(ctx, "none"), refused) }, func(err error) bool { return err == nil }},
		"of the server": {func(ctx context.Context) error {
			return testkit.ErrorOf(scoped.On(coll).InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}}))
		}, mongo.IsDuplicateKeyError},
		"within another call": {func(ctx context.Context) error {
			call(ctx, func(ctx context.Context) error { return cmp.Or(add(ctx, "a"), refused) })
			return nil
		}, func(err error) bool { return errors.Is(err, refused) }},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			ctx, cancel := freed(t.Context())
			defer cancel()
			err := txn.RunOf(ctx, db.Client(), func(ctx context.Context) error {
				runs++
				call(ctx, c.fn)
				return nil
			})
			if runs != 1 || !c.want(err) || err != nil && !fault.WroteNothing(err) {
				t.Errorf("%d runs, %v", runs, err)
			}
			if n := value(t, coll, "a"); n != want {
				t.Errorf("%d, want %d", n, want)
			}
		})
	}
	ctx, cancel := freed(t.Context())
	defer cancel()
	err := txn.RunOf(ctx, db.Client(), func(ctx context.Context) error { // a call of one command joins nothing
		_, _ = scoped.On(coll).InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}})
		return nil
	})
	if !mongo.IsDuplicateKeyError(err) || !fault.WroteNothing(err) {
		t.Errorf("after one command: %v", err)
	}
	err = txn.RunOf(t.Context(), db.Client(), func(ctx context.Context) error {
		call(ctx, func(ctx context.Context) error { return refused })
		return add(ctx, "a")
	})
	testkit.OK(t, err)
	if n := value(t, coll, "a"); n != want+1 {
		t.Errorf("%d, want %d", n, want+1)
	}
}
