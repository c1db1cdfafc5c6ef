package txn_test

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// slack is what a busy machine may add to the half second after a deadline. A call that waits for an answer in vain
// takes longer: tryBound.
const slack = 3 * time.Second

// patient is a context for what surrounds the call under test. Its deadline replaces the client's Timeout.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// freed is a context for writes of documents that a transaction has left: the server would free them after a minute.
func freed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 30*time.Second)
}

// beside runs tests at the same time that only wait: t.Parallel would run as many as there are processors.
func beside[T any](t *testing.T, cases map[string]T, test func(t *testing.T, of T)) {
	var group sync.WaitGroup
	for name, of := range cases {
		group.Go(func() { t.Run(name, func(t *testing.T) { test(t, of) }) })
	}
	group.Wait()
}

// clients are those whose answers a proxy can swallow: with and without a Timeout, which must not matter in a context
// with a deadline.
func clients(t *testing.T, test func(t *testing.T, p *proxy.Proxy, coll *mongo.Collection)) {
	beside(t, map[string]*options.ClientOptions{
		"default": options.Client(),
		"Timeout": options.Client().SetTimeout(700 * time.Millisecond),
	}, func(t *testing.T, opts *options.ClientOptions) {
		p := proxy.New(t, mongotest.URI(t))
		db := mongotest.Database(t, opts, p.Options())
		t.Cleanup(func() { p.Break(nil) })
		coll := db.Collection("c")
		for _, id := range []string{"a", "b"} {
			if _, err := coll.InsertOne(patient(t), bson.D{{Key: "_id", Value: id}}); err != nil {
				t.Fatal(err)
			}
		}
		test(t, p, coll)
	})
}

// sessions runs a test with each of the clients, on a session of the call's own and on one of its caller's. What the
// call leaves open in document a must end; the test returns how often a was incremented.
func sessions(t *testing.T, test func(t *testing.T, ctx context.Context, p *proxy.Proxy, coll *mongo.Collection) int) {
	beside(t, map[string]bool{"own session": true, "caller's session": false}, func(t *testing.T, own bool) {
		clients(t, func(t *testing.T, p *proxy.Proxy, coll *mongo.Collection) {
			ctx, client := t.Context(), coll.Database().Client()
			if !own {
				session, err := client.StartSession()
				if err != nil {
					t.Fatal(err)
				}
				defer session.EndSession(context.Background())
				ctx = mongo.NewSessionContext(ctx, session)
			}
			done := test(t, ctx, p, coll)
			p.Break(nil)
			// The session can be used again, at once, and ends what was left open. The call's own ends that behind it.
			ctx, cancel := freed(ctx)
			defer cancel()
			if err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error { return inc(ctx, coll, "b") }); err != nil {
				t.Error(err)
			}
			ctx, cancel = freed(t.Context())
			defer cancel()
			if err := inc(ctx, coll, "a"); err != nil {
				t.Errorf("locked: %v", err)
			}
			if n := value(t, coll, "a"); n != done+1 {
				t.Errorf("%d, want %d", n, done+1)
			}
		})
	})
}

// An answer to the commit that never comes: the call returns with its context, and says that it does not know.
func TestSwallowedCommit(t *testing.T) {
	type end = func(parent context.Context, within time.Duration) (context.Context, context.CancelFunc)
	type swallow struct {
		fault proxy.Fault
		end   end
		want  error
		done  int
	}
	beside(t, map[string]swallow{
		"deadline, applied": {proxy.SilentAfter, context.WithTimeout, context.DeadlineExceeded, 1},
		"deadline, lost":    {proxy.SilentBefore, context.WithTimeout, context.DeadlineExceeded, 0},
		"cancelled": {proxy.SilentAfter, func(parent context.Context, within time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(parent, time.Hour) // without a deadline the Timeout would end it
			time.AfterFunc(within, cancel)
			return ctx, cancel
		}, context.Canceled, 1},
	}, func(t *testing.T, test swallow) {
		sessions(t, func(t *testing.T, parent context.Context, p *proxy.Proxy, coll *mongo.Collection) int {
			var met atomic.Bool
			swallowed := test.fault
			swallowed.Before = func() { met.Store(true) }
			p.Break(proxy.Each("commitTransaction", swallowed))
			var err error
			for within := time.Second; !met.Load() && within < time.Minute; within *= 2 { // a busy machine may need longer to come to the commit
				start := time.Now()
				ctx, cancel := test.end(parent, within)
				err = txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error { return inc(ctx, coll, "a") })
				cancel()
				if took := time.Since(start); took > within+500*time.Millisecond+slack || took < within {
					t.Errorf("returned after %v of %v", took, within)
				}
			}
			if !errors.Is(err, test.want) || fault.WroteNothing(err) {
				t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
			}
			return test.done
		})
	})
}

// An answer to an abort that never comes does not hide why the transaction was refused, nor holds up the call.
func TestSwallowedAbort(t *testing.T) {
	refusal := fault.New("owned by another parent", fault.ErrConflict)
	beside(t, map[string]time.Duration{"at the deadline": time.Second, "long before": time.Minute}, func(t *testing.T, within time.Duration) {
		sessions(t, func(t *testing.T, parent context.Context, p *proxy.Proxy, coll *mongo.Collection) int {
			p.Break(proxy.Nth("abortTransaction", "", 0, proxy.SilentBefore))
			ctx, cancel := context.WithTimeout(parent, within)
			defer cancel()
			start := time.Now()
			err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error {
				long, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
				defer cancel()
				if err := inc(long, coll, "a"); err != nil {
					return err
				}
				start = time.Now()
				return refusal
			})
			if took := time.Since(start); took > time.Second+slack {
				t.Errorf("returned after %v", took)
			}
			if !errors.Is(err, refusal) || !fault.WroteNothing(err) {
				t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
			}
			return 0
		})
	})
}

// An abort that a server refuses without having done it, or that comes to a router which does not know the transaction,
// leaves nothing open.
func TestUndecidedAbort(t *testing.T) {
	refusal := fault.New("owned by another parent", fault.ErrConflict)
	beside(t, map[string]proxy.Rule{
		"overloaded":     proxy.Each("abortTransaction", proxy.Overloaded),
		"another router": proxy.Nth("abortTransaction", "", 0, proxy.CloseBefore, proxy.Unknown),
	}, func(t *testing.T, rule proxy.Rule) {
		clients(t, func(t *testing.T, p *proxy.Proxy, coll *mongo.Collection) {
			p.Break(rule)
			err := txn.Run(patient(t), scoped.On(coll), func(ctx context.Context) error { return cmp.Or(inc(ctx, coll, "a"), refusal) })
			if !errors.Is(err, refusal) || !fault.WroteNothing(err) {
				t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
			}
			p.Break(nil)
			ctx, cancel := freed(t.Context())
			defer cancel()
			// Another client: this one would use the session again, and so end what is open in it.
			other := mongotest.Database(t).Client().Database(coll.Database().Name()).Collection("c")
			if err := inc(ctx, other, "a"); err != nil {
				t.Errorf("locked: %v", err)
			}
		})
	})
}

// A function that ends its transaction itself is refused, and what it leaves open is ended.
func TestEndedByTheFunction(t *testing.T) {
	type ending struct {
		end   func(s *mongo.Session, ctx context.Context) error
		after error // of the function
		rule  proxy.Rule
		done  int
	}
	commit, abort := (*mongo.Session).CommitTransaction, (*mongo.Session).AbortTransaction
	beside(t, map[string]ending{
		"commit":                 {end: commit, done: 1},
		"commit, and an error":   {end: commit, after: errors.New("refused"), done: 1},
		"commit, and a conflict": {end: commit, after: txn.Conflict("test"), done: 1},
		"abort":                  {end: abort},
		"abort, lost":            {end: abort, rule: proxy.Each("abortTransaction", proxy.SilentBefore)},
	}, func(t *testing.T, test ending) {
		sessions(t, func(t *testing.T, ctx context.Context, p *proxy.Proxy, coll *mongo.Collection) int {
			p.Break(test.rule)
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // replaces the Timeout
			defer cancel()
			err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error {
				if err := inc(ctx, coll, "a"); err != nil {
					return err
				}
				short, cancel := ctx, func() {}
				if test.rule != nil {
					short, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
				}
				defer cancel()
				return cmp.Or(test.end(mongo.SessionFromContext(ctx), short), test.after)
			})
			if !errors.Is(err, fault.ErrInvalid) || !errors.Is(err, cmp.Or(test.after, err)) || fault.WroteNothing(err) {
				t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
			}
			return test.done
		})
	})
}

// A fence that stays open on the server, because its client is gone, takes no lock: others drop the collection at once.
func TestOpenFence(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) })
	coll, other := db.Collection("c"), mongotest.Database(t).Client().Database(db.Name()).Collection("c")
	testkit.OK(t, testkit.ErrorOf(other.InsertOne(patient(t), bson.D{{Key: "_id", Value: "a"}})))
	aborts, gone := 0, make(chan bool)
	p.Break(func(c proxy.Command) *proxy.Fault {
		if c.Name == "abortTransaction" {
			if aborts++; aborts == 2 { // the fence's, after that of Run
				close(gone)
			}
		}
		if aborts == 0 || aborts == 1 && c.Name != "abortTransaction" {
			return nil
		}
		return &proxy.SilentBefore
	})
	refused := errors.New("refused")
	err := txn.Run(t.Context(), scoped.On(coll), func(ctx context.Context) error { return cmp.Or(inc(ctx, coll, "a"), refused) })
	testkit.Is(t, err, refused)
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("no fence")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := other.Drop(ctx); err != nil {
		t.Errorf("locked: %v", err)
	}
}

// A server that does not answer the fence gets the kill all the same.
func TestKillAfterTheFence(t *testing.T) {
	bound := txn.FenceBound(time.Second)
	t.Cleanup(func() { txn.FenceBound(bound) })
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) })
	killed := make(chan bool, 1000)
	p.Break(func(c proxy.Command) *proxy.Fault {
		switch c.Name {
		case "aggregate", "abortTransaction":
			return &proxy.SilentBefore
		case "killSessions":
			killed <- true
		}
		return nil
	})
	refusal := errors.New("refused")
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
		_, err := db.Collection("c").InsertOne(ctx, bson.D{})
		return cmp.Or(err, refusal)
	})
	if !errors.Is(err, refusal) {
		t.Error(err)
	}
	select {
	case <-killed:
	case <-time.After(time.Minute):
		t.Error("the session is not killed")
	}
}

// A commit that the server refuses until the deadline is sent a few times, with pauses. If the client has a Timeout,
// the driver repeats it until then without pauses: docs/failures.md says so.
func TestRefusedCommits(t *testing.T) {
	const within = 700 * time.Millisecond
	beside(t, map[string]*options.ClientOptions{
		"default": options.Client(),
		"Timeout": options.Client().SetTimeout(within),
	}, func(t *testing.T, opts *options.ClientOptions) {
		p := proxy.New(t, mongotest.URI(t))
		db := mongotest.Database(t, opts, p.Options())
		t.Cleanup(func() { p.Break(nil) })
		var commits atomic.Int64
		refused := proxy.Refuse(proxy.NotWritablePrimary)
		refused.Before = func() { commits.Add(1) }
		p.Break(proxy.Each("commitTransaction", refused))
		var err error
		var took time.Duration
		for within := within; commits.Load() == 0 && within < time.Minute; within *= 2 { // a busy machine may need longer to come to the commit
			ctx, cancel := context.WithTimeout(t.Context(), within)
			start := time.Now()
			err = txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
				_, err := db.Collection("c").InsertOne(ctx, bson.D{})
				return err
			})
			cancel()
			if took = time.Since(start); took > within+500*time.Millisecond+slack {
				t.Errorf("returned after %v of %v", took, within)
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || fault.WroteNothing(err) {
			t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
		}
		most := 2 * (6 + int64(took/(25*time.Millisecond))) // each attempt is the driver's and its repetition
		if n := commits.Load(); opts.Timeout == nil && n > most {
			t.Errorf("%d commits, want %d or fewer", n, most)
		}
	})
}

// Where it is not known whether the server is a mongos, the session is killed as on one.
func TestUnknownRouter(t *testing.T) {
	commands := make(chan string, 1000)
	var db *mongo.Database
	var broken sync.Once
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "hello" { // it asks for the kind of server; those of the driver itself are not told
			broken.Do(func() { mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"hello"}, Code: 1, Times: 1}) })
		}
		commands <- e.CommandName
	}}
	p := proxy.New(t, mongotest.URI(t))
	db = mongotest.Database(t, p.Options(), options.Client().SetMonitor(monitor).SetHeartbeatInterval(10*time.Minute))
	t.Cleanup(func() { p.Break(nil) })
	p.Break(proxy.Nth("abortTransaction", "", 0, proxy.CloseBefore))
	refusal := errors.New("refused")
	err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
		_, err := db.Collection("c").InsertOne(ctx, bson.D{})
		return cmp.Or(err, refusal)
	})
	if !errors.Is(err, refusal) {
		t.Error(err)
	}
	for command := ""; command != "killSessions"; {
		select {
		case command = <-commands:
		case <-time.After(time.Minute):
			t.Fatal("the session is not killed")
		}
	}
}

// A commit whose answer is lost is sent again, and is done once.
func TestCommitIsRepeated(t *testing.T) {
	t.Parallel()
	clients(t, func(t *testing.T, p *proxy.Proxy, coll *mongo.Collection) {
		want := 0
		for _, faults := range [][]proxy.Fault{
			{proxy.CloseBefore}, {proxy.CloseAfter}, {proxy.CloseAfter, proxy.CloseAfter, proxy.CloseAfter},
			{proxy.Overloaded, proxy.Overloaded, proxy.Overloaded, proxy.Overloaded, proxy.Overloaded, proxy.Overloaded},
			{proxy.Refuse(proxy.NotWritablePrimary)}, {proxy.ConcernError(proxy.WriteConcernTimeout)}, {proxy.Refuse(proxy.WriteConflict)},
		} {
			p.Break(proxy.Nth("commitTransaction", "", 0, faults...))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error { return inc(ctx, coll, "a") })
			cancel()
			if err != nil {
				t.Error(err)
			}
			if want++; value(t, coll, "a") != want {
				t.Fatalf("%d, want %d", value(t, coll, "a"), want)
			}
		}
	})
}

// The driver retries a commit once. When it finds no server for the retry, it returns the error of the first attempt; a
// write concern error then has a type that is not a mongo.ServerError. Run sends the commit again.
func TestCommitWithoutAServerToRepeatIt(t *testing.T) {
	for name, refused := range map[string]proxy.Fault{
		"refused":       proxy.Refuse(proxy.NotWritablePrimary),
		"write concern": proxy.ConcernError(proxy.NotWritablePrimary),
	} {
		t.Run(name, func(t *testing.T) {
			p := proxy.New(t, mongotest.URI(t))
			t.Cleanup(func() { p.Break(nil) })
			stored := mongotest.Database(t).Collection("c")
			testkit.OK(t, testkit.ErrorOf(stored.InsertOne(patient(t), bson.D{{Key: "_id", Value: "a"}})))
			var client *mongo.Client
			var lose sync.Once
			answered := func(name string) {
				if name == "commitTransaction" {
					lose.Do(func() { _ = client.Ping(t.Context(), nil) }) // its connection closes, so the server is not known any more
				}
			}
			// The driver asks a server what it is at most twice a second: one that has just been asked is not found within 50 ms.
			client = testkit.Must(mongo.Connect(p.Options(), options.Client().SetServerSelectionTimeout(50*time.Millisecond).SetServerMonitoringMode(options.ServerMonitoringModePoll).SetMonitor(&event.CommandMonitor{
				Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { answered(e.CommandName) },
				Failed:    func(_ context.Context, e *event.CommandFailedEvent) { answered(e.CommandName) },
			})))
			defer func() { _ = client.Disconnect(context.Background()) }()
			for client.Ping(patient(t), nil) != nil {
			}
			db, commits := client.Database(stored.Database().Name()), 0
			refused.Before = func() { commits++ }
			p.Break(func(c proxy.Command) *proxy.Fault {
				switch {
				case c.Name == "ping":
					return &proxy.CloseBefore
				case c.Name == "commitTransaction" && c.N == 0:
					return &refused
				}
				return nil
			})
			err := txn.Run(patient(t), scoped.On(db.Collection("c")), func(ctx context.Context) error { return inc(ctx, db.Collection("c"), "a") })
			if err != nil || commits != 1 {
				t.Errorf("%v, %d commits were refused", err, commits)
			}
			if n := value(t, stored, "a"); n != 1 {
				t.Errorf("a is %d", n)
			}
		})
	}
}

// In a context without a deadline the Timeout of the client ends a command, an abort or a commit without an answer, and
// with it the call. It is known what is stored unless it was the commit.
func TestTimeoutOfTheClient(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // what is not swallowed is answered sooner on a busy machine, too
	type swallowed struct {
		command string
		fault   proxy.Fault
		undone  bool
		done    int
	}
	beside(t, map[string]swallowed{
		"command, lost":    {"update", proxy.SilentBefore, true, 0},
		"command, applied": {"update", proxy.SilentAfter, true, 0},
		"commit, lost":     {"commitTransaction", proxy.SilentBefore, false, 0},
		"commit, applied":  {"commitTransaction", proxy.SilentAfter, false, 1},
	}, func(t *testing.T, test swallowed) {
		p := proxy.New(t, mongotest.URI(t))
		db := mongotest.Database(t, options.Client().SetTimeout(timeout), p.Options())
		t.Cleanup(func() { p.Break(nil) })
		coll := db.Collection("c")
		testkit.OK(t, testkit.ErrorOf(coll.InsertOne(patient(t), bson.D{{Key: "_id", Value: "a"}})))
		broken := false // from the first such command on the server is silent
		p.Break(func(c proxy.Command) *proxy.Fault {
			if broken = broken || c.Name == test.command; broken {
				return &test.fault
			}
			return nil
		})
		start, runs := time.Now(), 0
		err := txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error {
			runs++
			return inc(ctx, coll, "a")
		})
		took := time.Since(start)
		p.Break(nil)
		if !errors.Is(err, context.DeadlineExceeded) || fault.WroteNothing(err) != test.undone || runs != 1 {
			t.Errorf("%v, not done: %v, %d runs", err, fault.WroteNothing(err), runs)
		}
		if took < timeout || took > timeout+500*time.Millisecond+slack {
			t.Errorf("returned after %v", took)
		}
		ctx, cancel := freed(t.Context())
		defer cancel()
		if err := inc(ctx, coll, "a"); err != nil {
			t.Errorf("locked: %v", err)
		}
		if n := value(t, coll, "a"); n != test.done+1 {
			t.Errorf("%d, want %d", n, test.done+1)
		}
	})
}

// A Timeout of the client bounds single commands, and not how long a call waits for others.
func TestTimeoutDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetTimeout(3*time.Second))
	coll := db.Collection("c")
	if _, err := coll.InsertOne(patient(t), bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := inc(mongo.NewSessionContext(patient(t), session), coll, "a"); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	start := time.Now()
	for i := range 16 {
		group.Go(func() {
			ctx, cancel := t.Context(), func() {}
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Minute)
			}
			defer cancel()
			for range 5 {
				if err := txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error { return inc(ctx, coll, "a") }); err != nil {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			}
		})
	}
	time.Sleep(4 * time.Second) // others wait for this transaction longer than the Timeout
	if err := session.AbortTransaction(patient(t)); err != nil {
		t.Error(err)
	}
	group.Wait()
	if n := value(t, coll, "a"); n != 80 {
		t.Errorf("%d, want 80", n)
	}
}

// The error of a transaction tells its outcome.
func TestOutcomes(t *testing.T) {
	db, coll := counters(t)
	run := func(ctx context.Context, err error) error {
		return txn.Run(ctx, scoped.On(db.Collection("c")), func(ctx context.Context) error {
			if err := inc(ctx, coll, "a"); err != nil {
				return err
			}
			return err
		})
	}
	if err := run(t.Context(), fault.Unknown(fault.ErrConflict)); !errors.Is(err, fault.ErrConflict) || !fault.WroteNothing(err) {
		t.Errorf("aborted: %v is not known", err)
	}
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := run(mongo.NewSessionContext(t.Context(), session), fault.ErrConflict); !errors.Is(err, fault.ErrConflict) || fault.WroteNothing(err) {
		t.Errorf("joined: %v is known before the caller's commit", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil); !errors.Is(err, context.Canceled) || !fault.WroteNothing(err) {
		t.Errorf("not begun: %v is not known", err)
	}
	if n := value(t, coll, "a"); n != 0 {
		t.Errorf("%d", n)
	}
}

// Without a deadline a transaction has 120 s: it then gives up waiting for another one, and for an answer
// to its commit or to a command.
func TestLimit(t *testing.T) {
	limit := pause.Limit
	if limit != 120*time.Second {
		t.Errorf("docs/failures.md says 120 s, and not %v", limit)
	}
	t.Cleanup(func() { pause.Limit = limit })
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) })
	coll := db.Collection("c")
	if _, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: "a"}}, bson.D{{Key: "_id", Value: "b"}}}); err != nil {
		t.Fatal(err)
	}
	var met atomic.Bool // the commit was sent
	limited := func(id string, undone bool) {
		t.Helper()
		var err error
		for short := 250 * time.Millisecond; short < time.Minute; short *= 2 { // a busy machine may need longer to come to the commit
			pause.Limit = short
			start := time.Now()
			err = txn.Run(t.Context(), scoped.On(db.Collection("c")), func(ctx context.Context) error { return inc(ctx, coll, id) })
			if took := time.Since(start); took < short || took > short+500*time.Millisecond+slack {
				t.Errorf("returned after %v of %v", took, short)
			}
			if undone || met.Load() {
				break
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || fault.WroteNothing(err) != undone {
			t.Errorf("%v, not done: %v", err, fault.WroteNothing(err))
		}
	}
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
	limited("a", true)
	silent := proxy.SilentAfter
	silent.Before = func() { met.Store(true) }
	p.Break(proxy.Each("commitTransaction", silent))
	limited("b", false)
	p.Break(proxy.Each("update", proxy.SilentBefore))
	limited("b", true)
}

// A transaction whose abort is lost is ended in the background, whatever the client's settings are and whatever comes
// after it in the session.
func TestLostAbort(t *testing.T) {
	bound := txn.CallersBound(time.Minute) // a busy machine may need longer than half a second
	t.Cleanup(func() { txn.CallersBound(bound) })
	refused := errors.New("refused")
	fails := func(coll *mongo.Collection) func(context.Context) error {
		return func(ctx context.Context) error { return errors.Join(inc(ctx, coll, "a"), refused) }
	}
	for name, run := range map[string]func(ctx context.Context, coll *mongo.Collection) error{
		"another read preference": func(ctx context.Context, coll *mongo.Collection) error {
			session, err := coll.Database().Client().StartSession()
			if err != nil {
				return err
			}
			return txn.Run(mongo.NewSessionContext(ctx, session), scoped.On(coll), fails(coll))
		},
		"an attempt that sends nothing": func(ctx context.Context, coll *mongo.Collection) error {
			runs := 0
			err := txn.Run(ctx, scoped.On(coll), func(ctx context.Context) error {
				if runs++; runs > 1 {
					return nil
				}
				return cmp.Or(inc(ctx, coll, "a"), txn.Conflict("test"))
			})
			return cmp.Or(err, refused)
		},
		"a call that sends nothing": func(ctx context.Context, coll *mongo.Collection) error {
			ctx, end := txn.Causal(ctx, scoped.On(coll))
			defer end()
			return errors.Join(txn.Run(ctx, scoped.On(coll), fails(coll)), txn.Run(ctx, scoped.On(coll), func(context.Context) error { return refused }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := proxy.New(t, mongotest.URI(t))
			db := mongotest.Database(t, p.Options(), options.Client().SetReadPreference(readpref.SecondaryPreferred()))
			coll, other := db.Collection("c"), mongotest.Database(t).Client().Database(db.Name()).Collection("c")
			if _, err := other.InsertOne(patient(t), bson.D{{Key: "_id", Value: "a"}}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Break(nil) })
			p.Break(proxy.Nth("abortTransaction", "", 0, proxy.SilentBefore))
			if err := run(t.Context(), coll); !errors.Is(err, refused) {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the server itself takes a minute
			defer cancel()
			if err := inc(ctx, other, "a"); err != nil {
				t.Errorf("the document is locked: %v", err)
			}
		})
	}
}

// A context that ends before its deadline, as one that joins two others may, bounds the commit.
func TestEndBeforeTheDeadline(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) })
	p.Break(proxy.Each("commitTransaction", proxy.SilentBefore))
	parent, end := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, nil)
	defer end()
	done := make(chan error, 1)
	go func() {
		done <- txn.Run(undated{parent}, scoped.On(db.Collection("c")), func(ctx context.Context) error {
			_, err := db.Collection("c").InsertOne(ctx, bson.D{})
			return err
		})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second): // without a deadline Run has two minutes
		t.Error("Run goes on after its context")
	}
}

// undated is a context that does not tell its deadline.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }
