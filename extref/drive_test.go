package extref_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// orders are orders of customers: a single target with versions.
func orders(t *testing.T, db *mongo.Database, n int, o *extref.Options, change ...func(*extref.Target)) (*extref.Ref[int, bson.D], *mongo.Collection, *mongo.Collection) {
	t.Helper()
	customers, orders := db.Collection("customers"), db.Collection("orders")
	target := extref.Target{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address.city"}}}
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

// An entry of the outbox is as the comment of Drain says.
type entry struct {
	ID         int `bson:"_id"`
	Since, Due time.Time
	Attempts   int64
	Error      string
}

// entries are those in the outbox, first what is due first.
func entries(t *testing.T, outbox *mongo.Collection) (out []entry) {
	t.Helper()
	cursor := ok[*mongo.Cursor](t)(outbox.Find(bounded(t), d(), options.Find().SetSort(d("due", 1))))
	must(t)(nil, cursor.All(bounded(t), &out))
	return out
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	r, customers, _ := orders(t, db, 4, &extref.Options{Outbox: outbox})
	for i := range 3 {
		diff(t, updated(int64(i+1), 0),
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", fmt.Sprint("new", i)))))
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("address.street", "Corso"))) // not copied
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 2, set("address.city", "Ostia")))
	pending := entries(t, outbox)
	if len(pending) != 2 || pending[0].ID != 1 || pending[1].ID != 2 || pending[0].Attempts != 0 ||
		time.Since(pending[0].Since) > time.Minute || pending[0].Due.Before(pending[0].Since) {
		t.Fatalf("%+v", pending)
	}
	// Rolled back with the change.
	err := transaction(t, db, func(ctx context.Context) error {
		ok[extref.UpdateResult](t)(r.Update(ctx, 0, set("name", "never")))
		return errors.New("no")
	})
	if err == nil || len(stored(t, outbox)) != 2 {
		t.Fatal(err)
	}
	var done []int64
	opts := &mongopatterns.Work{Filter: bson.M{"_id": 2}, BatchSize: 3, Progress: func(r tally) { done = append(done, r.Examined) }}
	diff(t, tally{Examined: 1}, ok[tally](t)(r.Drain(bounded(t), &mongopatterns.Work{Filter: d("_id", 1), DryRun: true})))
	diff(t, tally{Examined: 1, Done: 4}, ok[tally](t)(r.Drain(bounded(t), opts)))
	diff(t, tally{Examined: 1, Done: 4}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, tally{}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, []int64{1}, done)
	diff(t, []string{}, problems(t, r))

	// A source that is gone.
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "gone")))
	must(t)(customers.DeleteOne(bounded(t), d("_id", 0)))
	diff(t, tally{Examined: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, 0, len(stored(t, outbox)))
}

// Several workers beside writers: nothing is lost, whatever they do twice.
func TestOutboxWorkers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	// Hardly any lease, so that the workers get into each other's way.
	r, _, _ := orders(t, db, 3, &extref.Options{Outbox: db.Collection("outbox"), Lease: time.Nanosecond})
	var writers, workers sync.WaitGroup
	limit := bounded(t)
	ctx, stop := context.WithCancel(limit)
	defer stop()
	for range 3 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Drain(limit, &mongopatterns.Work{BatchSize: 2}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 3 {
		writers.Go(func() {
			for i := range 10 {
				if _, err := r.Update(limit, (w+i)%3, set("name", fmt.Sprint(w, "/", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	workers.Wait()
	ok[tally](t)(r.Drain(bounded(t), nil))
	diff(t, []string{}, problems(t, r))
	diff(t, 0, len(entries(t, db.Collection("outbox"))))
}

// A change between the propagation and the removal of an entry keeps it.
func TestOutboxKeepsNewerChanges(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	updates := 0
	var other *mongo.Client // changes the source when the entry is about to be removed
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("delete", func() {
		if updates++; updates == 1 {
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "second")))
		}
	})))
	other = hooked.Client()
	same := other.Database(db.Name())
	worker, err := extref.New[int, bson.D](same.Collection("customers"), []extref.Target{{
		Collection: same.Collection("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address.city"}},
	}}, &extref.Options{Outbox: same.Collection("outbox")})
	if err != nil {
		t.Fatal(err)
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "first")))
	diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(worker.Drain(bounded(t), nil)))
	diff(t, []string{}, problems(t, r))
}

func TestOutboxPoison(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, orders := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	must(t)(orders.Indexes().CreateOne(bounded(t), unique("customer.name")))
	for c, name := range []string{"c1", "fine", "c1"} { // c0 cannot take c1's name
		ok[extref.UpdateResult](t)(r.Update(bounded(t), c, set("name", name)))
		time.Sleep(2 * time.Millisecond) // in the order of due
	}
	begin := time.Now().Truncate(time.Millisecond)
	result, err := r.Drain(bounded(t), &mongopatterns.Work{Filter: d("attempts", 0)}) // none twice, however long they take
	end := time.Now()
	if err != nil || len(result.Failures) != 1 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) ||
		result.Failures[0].Collection != "orders" || result.Failures[0].ID.AsInt64() != 0 {
		t.Fatal(result, err)
	}
	result.Failures = nil
	diff(t, tally{Examined: 3, Done: 2, Failed: 1}, result)
	pending := entries(t, db.Collection("outbox"))
	if len(pending) != 1 || pending[0].Attempts != 1 || !strings.Contains(pending[0].Error, "duplicate") ||
		pending[0].Due.Before(begin.Add(2*time.Second)) || pending[0].Due.After(end.Add(2*time.Second)) {
		t.Fatalf("%+v", pending)
	}
	must(t)(db.Collection("outbox").UpdateOne(bounded(t), d("_id", 0), d("$set", d("due", end.Add(time.Hour)))))
	diff(t, tally{}, ok[tally](t)(r.Drain(bounded(t), nil))) // later
	// The next change makes it due, as if it were new but for its age.
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "free")))
	since := pending[0].Since
	pending = entries(t, db.Collection("outbox"))
	if len(pending) != 1 || pending[0].Attempts != 0 || pending[0].Error != "" || !pending[0].Since.Equal(since) || pending[0].Due.After(time.Now()) {
		t.Errorf("%+v", pending)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))
}

// watching runs Watch until the function returned is called.
func watching(t *testing.T, r *extref.Ref[int, bson.D], tokens *mongo.Collection, o *extref.WatchOptions) (stop func()) {
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

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
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

func inSync(t *testing.T, r *extref.Ref[int, bson.D]) {
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

	// What happens meanwhile is not lost, and needs no reconciliation.
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

// Changes of what is not copied are events, and nothing else.
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
			stop := watching(t, r, db.Collection("tokens"), o)
			receive(t, reconciled)
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "x")))
			inSync(t, r)
			stop()
			must(t)(customers.UpdateByID(bounded(t), 1, set("name", "y"))) // by old code
			admin := db.Client().Database("admin")
			off := func() {
				_ = admin.RunCommand(context.Background(), d("configureFailPoint", "failCommand", "mode", "off")).Err()
			}
			err := admin.RunCommand(bounded(t), d("configureFailPoint", "failCommand", "mode", d("times", 1),
				"data", d("failCommands", bson.A{command}, "errorCode", code, "namespace", db.Name()+".customers"))).Err()
			if err != nil {
				t.Skip("no fail points: ", err)
			}
			defer off()
			stop = watching(t, r, db.Collection("tokens"), o)
			result := receive(t, reconciled)
			off()
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
			if token := stored(t, db.Collection("tokens")); len(token) != 1 || lookupD(token[0], "_id") != "mine" {
				t.Errorf("%v", token)
			}
		})
	}
}

// A reconciliation that is needed again at once is an error, not a loop.
func TestWatchGivesUp(t *testing.T) {
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Deferred: true})
	admin := db.Client().Database("admin")
	err := admin.RunCommand(bounded(t), d("configureFailPoint", "failCommand", "mode", "alwaysOn",
		"data", d("failCommands", bson.A{"aggregate"}, "errorCode", 286, "namespace", db.Name()+".customers"))).Err()
	if err != nil {
		t.Skip("no fail points: ", err)
	}
	defer func() {
		_ = admin.RunCommand(context.Background(), d("configureFailPoint", "failCommand", "mode", "off")).Err()
	}()
	err = r.Watch(bounded(t), db.Collection("tokens"), nil)
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(286) {
		t.Error(err)
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

// What the server refuses to write is named and passed over, after the token and in
// a reconciliation; what is not about a source or the connection ends Watch.
func TestWatchPassesOver(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, orders := orders(t, db, 1, &extref.Options{Deferred: true})
	must(t)(orders.Indexes().CreateOne(bounded(t), unique("customer.name")))
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
			return lookupD(lookupD(stored(t, orders)[2], "customer").(bson.D), "name") == name
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

// The error of an entry names its source once.
func TestDrainNamesTheSource(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "x")))
	must(t)(customers.UpdateByID(bounded(t), 0, set("version", "1.0")))
	result := ok[tally](t)(r.Drain(bounded(t), nil))
	if result.Failed != 1 || result.Failures[0].Err.Error() != `source 0: invalid: "version" is "1.0", want a whole number from 0 to 9223372036854775806` {
		t.Error(result)
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
			if level, _ := c.Body.Lookup("readConcern", "level").StringValueOK(); c.Name == "aggregate" && level != "majority" {
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
