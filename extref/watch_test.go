package extref_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// orders are orders of customers: a single target with versions.
func orders(t *testing.T, db *mongo.Database, n int, o *extref.Options, change ...func(*extref.Target)) (*extref.Source[int, bson.D], *mongo.Collection, *mongo.Collection) {
	t.Helper()
	customers, orders := db.Collection("customers"), db.Collection("orders")
	target := ordering(orders)
	for _, change := range change {
		change(&target)
	}
	r := newRef[int, bson.D](t, customers, []extref.Target{target}, o)
	for c := range 3 {
		insert(t, customers, d("_id", c, "name", fmt.Sprint("c", c), "address", d("city", "Rome", "street", "Via")))
		for i := range n {
			insert(t, orders, d("_id", 100*c+i, "customer", ok[bson.D](t)(r.Fetch(bounded(t), "orders.customer", c))))
		}
	}
	return r, customers, orders
}

// ordering is the target of orders.
func ordering(orders *mongo.Collection) extref.Target {
	return extref.Target{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address.city"}}}
}

// watching runs Watch until the function returned is called.
func watching(t *testing.T, r *extref.Source[int, bson.D], tokens *mongo.Collection, o *extref.WatchOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	result := make(chan error, 1)
	go func() {
		err := r.Watch(ctx, tokens, o)
		if ctx.Err() == nil {
			t.Error(err)
		}
		result <- err
	}()
	return func() {
		t.Helper()
		cancel()
		if err := receive(t, result); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// eventually waits for another goroutine.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
	}
}

// receive waits for what another goroutine sends.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing received")
		panic("unreachable")
	}
}

func inSync(t *testing.T, r *extref.Source[int, bson.D]) {
	t.Helper()
	eventually(t, "in sync", func() bool { return len(problems(t, r)) == 0 })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	tokens := db.Collection("tokens")
	r, customers, _ := orders(t, db, 3, &extref.Options{Deferred: true}, unversioned)
	var mu sync.Mutex
	var reconciled []tally
	o := &extref.WatchOptions{
		MaxAwait:   50 * time.Millisecond,
		Reconciled: func(result tally) { mu.Lock(); reconciled = append(reconciled, result); mu.Unlock() },
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(reconciled) }
	started := func(n int) {
		t.Helper()
		eventually(t, "reconciled", func() bool { return count() == n })
	}

	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "before the first watch")))
	stop := watching(t, r, db.Collection("tokens"), o)
	started(1)
	diff(t, tally{Examined: 9, Done: 3}, reconciled[0])
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "by Update")))
	inSync(t, r)
	// Writers who know nothing of versions, in every form of update.
	for _, update := range []any{
		set("name", "plain"), d("$unset", d("name", "")), set("address", d("city", "Bari")), set("address.city", "Pisa"),
		mongo.Pipeline{set("name", d("$concat", bson.A{"$address.city", "!"}))}, set("name", bson.A{1, 2, 3}),
		mongo.Pipeline{set("name", d("$slice", bson.A{"$name", 1}))},
	} {
		must(t)(customers.UpdateOne(bounded(t), d("_id", 2), update))
		inSync(t, r)
	}
	must(t)(customers.ReplaceOne(bounded(t), d("_id", 2), d("name", "replaced", "version", 20)))
	inSync(t, r)

	stop()

	// Changes while Watch is stopped are not lost, and need no reconciliation.
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "meanwhile")))
	stop = watching(t, r, db.Collection("tokens"), o)
	inSync(t, r)
	stop()
	started(1)

	// A damaged token is an error; without one the watch begins anew. Under names of
	// their own: the server may still get a token that was being saved at the stop.
	damaged, anew := *o, *o
	damaged.Name, anew.Name = "damaged", "anew"
	insert(t, tokens, d("_id", "damaged", "token", d("_data", "nonsense")))
	if err := r.Watch(bounded(t), tokens, &damaged); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "lost")))
	stop = watching(t, r, tokens, &anew)
	started(2)
	inSync(t, r)
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "and on")))
	inSync(t, r)
	stop()
	if got := count(); got != 2 {
		t.Errorf("%d reconciliations", got)
	}
}

// Changes of fields that are not copied are events, and nothing else.
func TestWatchUncopiedChanges(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 2, nil)
	started, applied := make(chan bool, 1), make(chan int64, 100)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait:   20 * time.Millisecond,
		Reconciled: func(tally) { started <- true },
		Progress:   func(r tally) { applied <- r.Examined },
	})
	receive(t, started)
	cmds := mongotest.Record(t, db, func() {
		for i := range 5 {
			must(t)(customers.UpdateOne(bounded(t), d("_id", 2), set("phone", i, "address.street", fmt.Sprint(i))))
		}
		// The event follows in any case, so that there is an end to wait for.
		must(t)(customers.UpdateOne(bounded(t), d("_id", 0), d("$set", d("name", "new"), "$inc", d("version", 1))))
		n := receive(t, applied)
		for n == 0 { // uncopied changes only
			n = receive(t, applied)
		}
		diff(t, int64(1), n)
		stop()
	})
	for _, c := range cmds {
		key := c.Body.Lookup("filter", "customer._id")
		if doc, ok := key.DocumentOK(); ok {
			key = doc.Lookup("$eq")
		}
		if c.Collection == "orders" && c.Name == "find" && key.AsInt64() != 0 {
			t.Error(c.Body)
		}
	}
	if n := cmds.Named("update").DocumentsWritten() - len(cmds.Named("update")); n != 1 { // both orders by one
		t.Errorf("%d", n)
	}
	diff(t, []string{}, problems(t, r))
}

// The server has lost the history: at the start, and in the middle.
func TestWatchHistoryLost(t *testing.T) {
	t.Parallel()
	for i, command := range []string{"aggregate", "getMore", "aggregate", "aggregate", "aggregate"} {
		code := []int{286, 286, 136, 260, 280}[i]
		t.Run(fmt.Sprint(command, code), func(t *testing.T) {
			db := mongotest.Database(t)
			r, customers, _ := orders(t, db, 2, &extref.Options{Deferred: true})
			reconciled := make(chan tally, 10)
			o := &extref.WatchOptions{
				Name: "mine", MaxAwait: 20 * time.Millisecond,
				Reconciled: func(result tally) { reconciled <- result },
			}
			// Of a client that the fail point does not concern: its last command may reach the server after it was given up.
			first := mongotest.Database(t).Client().Database(db.Name()).Collection
			stop := watching(t, newRef[int, bson.D](t, first("customers"), []extref.Target{ordering(first("orders"))}, &extref.Options{Deferred: true}), first("tokens"), o)
			receive(t, reconciled)
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "x")))
			inSync(t, r)
			stop()
			must(t)(customers.UpdateByID(bounded(t), 1, set("name", "y"))) // by old code
			mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{command}, Times: 1, Code: code})
			stop = watching(t, r, db.Collection("tokens"), o)
			result := receive(t, reconciled)
			// In the middle the stream has been at work before.
			if command == "aggregate" {
				diff(t, tally{Examined: 6, Done: 2}, result)
			}
			must(t)(customers.UpdateOne(bounded(t), d("_id", 0), d("$set", d("name", "z"), "$inc", d("version", 1))))
			inSync(t, r)
			stop()
			if len(reconciled) != 0 {
				t.Errorf("%d reconciliations more", len(reconciled))
			}
			if token := stored(t, db.Collection("tokens")); len(token) != 1 || testkit.Get(token[0], "_id") != "mine" {
				t.Errorf("%v", token)
			}
		})
	}
}

// A reconciliation that is needed again at once is an error, not a loop.
func TestWatchGivesUp(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Deferred: true})
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"aggregate"}, Code: 286})
	err := r.Watch(bounded(t), db.Collection("tokens"), nil)
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(286) {
		t.Error(err)
	}
}

// A running Watch needs a connection besides those of the other calls (docs/settings.md).
func TestWatchNeedsAConnection(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Deferred: true})
	small := mongotest.Database(t, options.Client().SetMaxPoolSize(1)).Client().Database(db.Name())
	ping := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return small.RunCommand(ctx, d("ping", 1)).Err()
	}
	testkit.OK(t, ping(time.Minute))
	one := newRef[int, bson.D](t, small.Collection("customers"), []extref.Target{ordering(small.Collection("orders"))}, &extref.Options{Deferred: true})
	reconciled := make(chan tally, 1)
	stop := watching(t, one, small.Collection("tokens"), &extref.WatchOptions{MaxAwait: 5 * time.Second, Reconciled: func(result tally) { reconciled <- result }})
	receive(t, reconciled)
	eventually(t, "no connection is left", func() bool { return ping(500*time.Millisecond) != nil })
	stop()
	testkit.OK(t, ping(time.Minute))
	inSync(t, r)
}

// A transaction cannot follow changes: Watch says so and does not wait for the server to refuse it.
func TestWatchInATransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Deferred: true})
	err := mongopatterns.Transact(bounded(t), db.Client(), func(ctx context.Context) error {
		if err := testkit.ErrorOf(db.Collection("other").InsertOne(ctx, d("_id", 1))); err != nil {
			return err
		}
		return r.Watch(ctx, db.Collection("tokens"), nil)
	})
	if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "outside of Transact") {
		t.Error(err)
	}
}

// If the token that Watch has stored is damaged, its error says which document holds it and what to do.
func TestWatchDamagedToken(t *testing.T) {
	t.Parallel()
	for _, token := range []any{bson.D{}, d("_data", 7), d("_data", "x"), d("other", 1)} {
		db := mongotest.Database(t)
		r, _, _ := orders(t, db, 1, &extref.Options{Deferred: true})
		insert(t, db.Collection("tokens"), d("_id", "mine", "token", token))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := r.Watch(ctx, db.Collection("tokens"), &extref.WatchOptions{Name: "mine", MaxAwait: 20 * time.Millisecond})
		cancel()
		if err == nil || !strings.Contains(err.Error(), `_id "mine": the token in tokens is damaged`) {
			t.Errorf("%v: %v", token, err)
		}
		testkit.Must(db.Collection("tokens").DeleteOne(t.Context(), d("_id", "mine")))
		reconciled := make(chan tally, 1)
		stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{Name: "mine", MaxAwait: 20 * time.Millisecond, Reconciled: func(r tally) { reconciled <- r }})
		receive(t, reconciled)
		stop()
	}
}

// The source is dropped and made again.
func TestWatchDroppedSource(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 1, &extref.Options{Deferred: true})
	reconciled := make(chan tally, 10)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait:   20 * time.Millisecond,
		Reconciled: func(result tally) { reconciled <- result },
	})
	receive(t, reconciled)
	must(t)(nil, customers.Drop(bounded(t)))
	for c := range 3 {
		insert(t, customers, d("_id", c, "name", fmt.Sprint("c", c), "address", d("city", "Rome")))
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "again")))
	inSync(t, r)
	stop()
	if len(reconciled) != 0 {
		t.Errorf("%d reconciliations", len(reconciled))
	}
}

// A document that the server refuses to write is named and passed over, after the token and in
// a reconciliation; an error that concerns neither a source nor the connection ends Watch.
func TestWatchPassesOver(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, orders := orders(t, db, 1, &extref.Options{Deferred: true})
	must(t)(orders.Indexes().CreateOne(bounded(t), testkit.Unique("customer.name")))
	told := make(chan tally, 10)
	tell := func(r tally) { told <- r }
	o := &extref.WatchOptions{MaxAwait: 20 * time.Millisecond, Reconciled: tell, Progress: tell}
	failed := func(collection string, id int64) {
		t.Helper()
		for {
			if r := receive(t, told); r.Failed > 0 {
				if f := r.Failures[0]; r.Failed != 1 || f.Collection != collection || f.ID.AsInt64() != id {
					t.Errorf("%+v", r)
				}
				return
			}
		}
	}
	stop := watching(t, r, db.Collection("tokens"), o)
	receive(t, told)
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "c1"))) // c0 cannot take c1's name
	failed("orders", 0)
	must(t)(customers.UpdateByID(bounded(t), 1, set("version", "1.0")))
	failed("customers", 1)
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 2, set("name", "third")))
	follows := func(name string) {
		t.Helper()
		eventually(t, name, func() bool {
			return testkit.Get(testkit.Get(stored(t, orders)[2], "customer").(bson.D), "name") == name
		})
	}
	follows("third")
	stop()
	another := *o
	another.Name = "another"
	stop = watching(t, r, db.Collection("tokens"), &another)
	failed("orders", 0)
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 2, set("name", "fourth")))
	follows("fourth")
	stop()
	diff(t, 2, len(problems(t, r)))

	ctx := bounded(t)
	nowhere := db.Client().Database(strings.Repeat("x", 70)).Collection("tokens") // no such name
	if err := r.Watch(ctx, nowhere, o); err == nil || ctx.Err() != nil {
		t.Error(err)
	}
}

// On a sharded cluster the entry can be visible before the change that it stands
// for, and a copy before its source, unless each operation asks for all that those
// before it saw.
func TestCausalReads(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetReadConcern(readconcern.Local()))
	r, customers, _ := orders(t, db, 2, &extref.Options{Outbox: db.Collection("outbox")})
	for name, call := range map[string]func(){
		"drain": func() {
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "new")))
			ok[tally](t)(r.Drain(bounded(t), nil))
		},
		"propagate": func() { ok[tally](t)(r.Propagate(bounded(t), 1, nil)) },
		"check":     func() { problems(t, r) },
		"repair":    func() { ok[tally](t)(r.Repair(bounded(t), nil)) },
		"watch": func() {
			ctx, stop := context.WithCancel(bounded(t))
			err := r.Watch(ctx, db.Collection("tokens"), &extref.WatchOptions{
				Reconciled: func(tally) { stop() },
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
	} {
		if _, err := customers.UpdateByID(bounded(t), 1, d("$inc", d("version", 1))); err != nil { // work for all
			t.Fatal(err)
		}
		reads := 0
		var session bson.RawValue
		cmds := mongotest.Record(t, db, call)
		if cmds[0].Name == "listCollections" { // which is in no session
			cmds = cmds[1:]
		}
		for i, c := range cmds {
			if c.Body.Lookup("autocommit").Type != 0 {
				session = bson.RawValue{} // Update's
				continue
			}
			if c.Name == "endSessions" {
				continue
			}
			lsid := c.Body.Lookup("lsid")
			if session.IsZero() {
				session = lsid
			}
			_, _, after := c.Body.Lookup("readConcern", "afterClusterTime").TimestampOK()
			if !session.Equal(lsid) || i > 0 && !after && (c.Name == "find" || c.Name == "aggregate") {
				t.Errorf("%s: %s of %s is on its own", name, c.Name, c.Collection)
			}
			if after {
				reads++
			}
			// A change stream knows no other.
			if level, _ := c.Body.Lookup("readConcern", "level").StringValueOK(); c.Body.Lookup("pipeline", "0", "$changeStream").Type != 0 && level != "majority" {
				t.Errorf("%s: read concern %q", name, level)
			}
		}
		if reads < 1 {
			t.Errorf("%s: %d reads", name, reads)
		}
	}
}

// Without versions each batch is a transaction in the session of the cursor, or of
// the change stream, that stays open beside it.
func TestDriversUnversioned(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	customers, orders := db.Collection("customers"), db.Collection("orders")
	targets := []extref.Target{{Collection: orders, Path: "customer", Unversioned: true, Fields: []extref.Field{{Path: "name"}}}}
	r := newRef[int, bson.D](t, customers, targets, &extref.Options{Outbox: db.Collection("outbox")})
	insert(t, customers, d("_id", 1, "name", "one"))
	for i := range 5 {
		insert(t, orders, d("_id", i, "customer", d("_id", 1, "name", "one")))
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "two")))
	diff(t, tally{Examined: 1, Done: 5}, ok[tally](t)(r.Drain(bounded(t), &mongopatterns.Work{BatchSize: 1})))
	diff(t, []string{}, problems(t, r))

	reconciled := make(chan bool, 1)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait:   20 * time.Millisecond,
		Reconciled: func(tally) { reconciled <- true },
	})
	receive(t, reconciled)
	for _, name := range []string{"three", "four"} {
		must(t)(customers.UpdateByID(bounded(t), 1, set("name", name)))
		inSync(t, r)
	}
	stop()
}

// Sources that are inserted, or deleted and inserted again, reach their copies, also one
// that comes back below the copies' version.
func TestWatchFollowsInserts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, orders := orders(t, db, 1, &extref.Options{Deferred: true})
	started := make(chan bool, 1)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
	})
	receive(t, started)
	insert(t, orders, d("_id", 9, "customer", d("_id", 9, "version", 0))) // before its customer
	insert(t, customers, d("_id", 9, "name", "nine", "version", 1))
	name := func(order int, want string) {
		t.Helper()
		eventually(t, want, func() bool {
			doc := ok[bson.Raw](t)(orders.FindOne(bounded(t), d("_id", order)).Raw())
			return doc.Lookup("customer", "name").String() == `"`+want+`"`
		})
	}
	name(9, "nine")
	must(t)(customers.DeleteOne(bounded(t), d("_id", 1)))
	insert(t, customers, d("_id", 1, "name", "again", "version", 7))
	name(100, "again")
	must(t)(customers.DeleteOne(bounded(t), d("_id", 1)))
	insert(t, customers, d("_id", 1, "name", "below", "version", 2))
	name(100, "below") // above the version of the copies
	stop()
	must(t)(customers.UpdateByID(bounded(t), 1, set("version", 2)))
	diff(t, []string{"extref: orders 100: ahead: customer.version is 8, want 2: copy of 1"}, problems(t, r))
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	plain := newRef[int, bson.D](t, customers, []extref.Target{{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil)
	diff(t, extref.UpdateResult{Changed: true, Version: 3, Copies: tally{Examined: 1, Remaining: 1}},
		ok[extref.UpdateResult](t)(plain.Update(t.Context(), 1, set("name", "still below"))))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Repair(t.Context(), &mongopatterns.Work{Filter: d("_id", 1)})))
	diff(t, []string{}, problems(t, r))
}

// oldCode are changes of team 1 by a program that does not know the version, or holds an old
// one. Each leaves another name than the one before.
func oldCode(teams *mongo.Collection) []func(ctx context.Context, name string) error {
	one := d("_id", 1)
	update := func(update func(name string) any) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			_, err := teams.UpdateOne(ctx, one, update(name))
			return err
		}
	}
	replace := func(more ...bson.E) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			_, err := teams.ReplaceOne(ctx, one, append(team(1, name), more...))
			return err
		}
	}
	again := func(more ...bson.E) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			if _, err := teams.DeleteOne(ctx, one); err != nil {
				return err
			}
			_, err := teams.InsertOne(ctx, append(team(1, name), more...))
			return err
		}
	}
	return []func(context.Context, string) error{
		update(func(name string) any { return set("name", name) }),
		update(func(name string) any { return d("$set", d("name", name), "$unset", d("version", "")) }),
		update(func(name string) any { return set("place", d("city", name)) }),
		update(func(name string) any { return set("name", name, "version", 1) }),
		update(func(name string) any {
			return d("$set", d("place.city", name), "$bit", d("place.n", d("or", 1)), "$min", d("version", 1))
		}),
		update(func(name string) any { return d("$unset", d("name", ""), "$set", d("place.city", name)) }),
		update(func(name string) any { return mongo.Pipeline{set("name", d("$concat", bson.A{name, "$place.city"}))} }),
		replace(), replace(bson.E{Key: "version", Value: 0}), replace(bson.E{Key: "version", Value: int64(2)}),
		again(), again(bson.E{Key: "version", Value: 1}), again(bson.E{Key: "version", Value: nil}),
		update(func(name string) any { return d("$rename", d("name", "was")) }),
		update(func(name string) any { return set("name", name, "version", 100) }),
	}
}

// followed are teams with a copy of team 1 in each of the three targets, twice in the array.
func followed(t *testing.T) (*extref.Source[int, bson.D], *mongo.Collection, []*mongo.Collection) {
	t.Helper()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, func(target *extref.Target) { target.OnDelete = mongopatterns.Keep })
	insert(t, teams, team(1, "one"), team(2, "two"))
	many := ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1))
	for i := range 3 {
		insert(t, colls[0], d("_id", i, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
		insert(t, colls[1], d("_id", i, "teams", bson.A{many, ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 2)), many}))
		insert(t, colls[2], append(d("_id", i), ok[bson.D](t)(r.Fetch(t.Context(), "flat", 1))...))
	}
	return r, teams, colls
}

// watchers run Watch twice. seen waits until both have received all events before it.
func watchers(t *testing.T, r *extref.Source[int, bson.D], teams *mongo.Collection) (seen, stop func()) {
	t.Helper()
	var stops []func()
	var counts [2]atomic.Int64
	for i := range counts {
		started := make(chan bool, 1)
		stops = append(stops, watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{
			Name: fmt.Sprint("watcher ", i), MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
			Progress: func(result tally) {
				counts[i].Add(result.Examined)
				if result.Failed > 0 {
					t.Errorf("%+v", result)
				}
			},
		}))
		receive(t, started)
	}
	next := 1000
	seen = func() {
		t.Helper()
		next++
		before := [2]int64{counts[0].Load(), counts[1].Load()}
		insert(t, teams, team(next, "mark")) // an event after all others
		eventually(t, "seen by both", func() bool { return counts[0].Load() > before[0] && counts[1].Load() > before[1] })
		must(t)(teams.DeleteOne(t.Context(), d("_id", next)))
	}
	return seen, func() { stops[0](); stops[1]() }
}

func version(t *testing.T, teams *mongo.Collection) int64 {
	t.Helper()
	return ok[bson.Raw](t)(teams.FindOne(t.Context(), d("_id", 1)).Raw()).Lookup("version").AsInt64()
}

// Every change that a program makes to a source without raising the version reaches the copies,
// which have versions; then two Watches come to rest.
func TestWatchOldCode(t *testing.T) {
	t.Parallel()
	r, teams, _ := followed(t)
	seen, stop := watchers(t, r, teams)
	for i, change := range oldCode(teams) {
		must(t)(nil, change(bounded(t), fmt.Sprint("name ", i)))
		inSync(t, r)
		before := version(t, teams)
		if again := i % 5; again == 0 {
			seen()
			seen() // the events of the raise as well
			if after := version(t, teams); after != before {
				t.Errorf("change %d: version %d, and %d without a change", i, before, after)
			}
		}
	}
	// A change that shows nothing to the copies raises nothing.
	before := version(t, teams)
	must(t)(teams.UpdateByID(t.Context(), 1, d("$set", d("phone", 1, "place.zip", 2))))
	must(t)(teams.UpdateByID(t.Context(), 1, d("$inc", d("version", 1))))
	inSync(t, r)
	seen()
	if after := version(t, teams); after != before+1 {
		t.Errorf("version %d after %d", after, before)
	}
	stop()
}

// Changes by old code while Watch was stopped are found after a saved token.
func TestWatchOldCodeMeanwhile(t *testing.T) {
	t.Parallel()
	r, teams, _ := followed(t)
	seen, stop := watchers(t, r, teams)
	seen()
	stop()
	for i, change := range oldCode(teams) {
		must(t)(nil, change(bounded(t), fmt.Sprint("name ", i)))
		if i%4 != 0 {
			continue
		}
		reconciled := make(chan tally, 10)
		stop := watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{
			Name: "watcher 0", MaxAwait: 20 * time.Millisecond, Reconciled: func(r tally) { reconciled <- r },
		})
		inSync(t, r)
		stop()
		if len(reconciled) > 0 {
			t.Errorf("%+v", <-reconciled)
		}
	}
}

// Old code and new code change a source at random beside two Watches. One of these is
// stopped and started again; copies end equal to the source, and everything comes to rest.
func TestWatchOldAndNewCode(t *testing.T) {
	t.Parallel()
	r, teams, colls := followed(t)
	changes := oldCode(teams)
	changes = changes[:len(changes)-1] // a version that jumps tells nothing more
	seen, stop := watchers(t, r, teams)
	var all sync.WaitGroup
	for writer := range 3 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), 7))
			for i := range 40 {
				name := fmt.Sprint(writer, " ", i)
				var err error
				if writer == 0 {
					_, err = r.Update(context.Background(), 1, set("name", name))
				} else {
					err = changes[random.IntN(len(changes))](context.Background(), name)
				}
				if err != nil && !mongo.IsDuplicateKeyError(err) && !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	third := watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{Name: "third", MaxAwait: 20 * time.Millisecond})
	all.Wait()
	third()
	must(t)(teams.UpdateOne(bounded(t), d("_id", 1), set("name", "last"), options.UpdateOne().SetUpsert(true)))
	inSync(t, r)
	before := version(t, teams)
	seen()
	seen()
	stop()
	if after := version(t, teams); after != before {
		t.Errorf("version %d, and %d without a change", before, after)
	}
	diff(t, []string{}, problems(t, r))
	diff(t, "last", testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
}

// C carries a copy of B's copy of A, all with versions: Watch over B raises B's.
func TestWatchChain(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	brands, products, orderColl := db.Collection("brands"), db.Collection("products"), db.Collection("orders")
	toProducts := newRef[int, bson.D](t, brands, []extref.Target{{Collection: products, Path: "brand", Fields: []extref.Field{{Path: "name"}}}}, nil)
	toOrders := newRef[int, bson.D](t, products, []extref.Target{{Collection: orderColl, Path: "product", Fields: []extref.Field{{Path: "brand.name", As: "brand"}}}}, nil)
	insert(t, brands, d("_id", 1, "name", "Acme"))
	insert(t, products, d("_id", 5, "brand", ok[bson.D](t)(toProducts.Fetch(t.Context(), "products.brand", 1))))
	insert(t, orderColl, d("_id", 7, "product", ok[bson.D](t)(toOrders.Fetch(t.Context(), "orders.product", 5))))
	started := make(chan bool, 1)
	stop := watching(t, toOrders, db.Collection("tokens"), &extref.WatchOptions{MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true }})
	receive(t, started)
	for _, name := range []string{"Acme Inc.", "Acme & Sons"} {
		ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 1, set("name", name)))
		inSync(t, toOrders)
		diff(t, name, testkit.Get(testkit.Get(stored(t, orderColl)[0], "product").(bson.D), "brand"))
	}
	stop()
}

// The time of a token is that of the server.
func TestWatchBesideAWrongClock(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	orders(t, db, 1, nil)
	begin := serverTime(t, db)
	wrongClock(t, 0, db, func(t *testing.T, db *mongo.Database, r *extref.Source[int, bson.D]) {
		ready, saved := make(chan bool, 1), make(chan bool, 1)
		stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
			Reconciled: func(tally) { ready <- true }, Progress: func(tally) { saved <- true },
		})
		receive(t, ready)
		testkit.Update(t, db.Collection("customers"), d("_id", 1), d("$set", d("name", "x"), "$inc", d("version", 1)))
		receive(t, saved)
		stop()
	})
	var token struct{ At time.Time }
	must(t)(nil, db.Collection("tokens").FindOne(bounded(t), d()).Decode(&token))
	if token.At.Before(begin) || token.At.After(serverTime(t, db)) {
		t.Error(token.At)
	}
}
