package tree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// opsEach is the number of operations of each of so many goroutines, for each variant.
func opsEach() int { return scale.Of(8, 100, 2000) }

func hammers() int { return scale.Of(4, 8, 8) }

// logged is a committed operation. The lock document counts restructurings in
// their own transactions, so seen orders them; an insertion that does not take
// the lock has the count of the snapshot it ran in, and belongs right behind
// that restructuring: whatever would change its parent later conflicts with it.
type logged struct {
	seen   int64
	locked bool
	start  int64
	apply  func(m *model)
}

func replay(log []logged) *model {
	sort.Slice(log, func(i, j int) bool {
		a, b := log[i], log[j]
		if a.seen != b.seen {
			return a.seen < b.seen
		}
		if a.locked != b.locked {
			return a.locked
		}
		return a.start < b.start
	})
	m := newModel()
	for _, op := range log {
		op.apply(m)
	}
	return m
}

// known are IDs that goroutines pick from.
type known struct {
	sync.Mutex
	ids []string
}

func (k *known) add(id string) {
	k.Lock()
	defer k.Unlock()
	k.ids = append(k.ids, id)
}

func (k *known) pick(r *rand.Rand) string {
	k.Lock()
	defer k.Unlock()
	return k.ids[r.IntN(len(k.ids))]
}

// drop forgets an ID that turned out to be deleted.
func (k *known) drop(id string) {
	k.Lock()
	defer k.Unlock()
	for i, other := range k.ids {
		if other == id && len(k.ids) > 1 {
			k.ids = append(k.ids[:i:i], k.ids[i+1:]...)
			return
		}
	}
}

func expected(err error) bool {
	return errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, mongopatterns.ErrNoParent) ||
		errors.Is(err, tree.ErrCycle) || errors.Is(err, mongopatterns.ErrReferenced) || lost(err)
}

// lost reports whether a transaction had no effect and its time for running again
// was over, as on a machine with other work it may be.
func lost(err error) bool {
	var labeled mongo.LabeledError
	return errors.As(err, &labeled) && labeled.HasErrorLabel("TransientTransactionError")
}

// TestConcurrent lets goroutines change one tree at random, each operation in
// a transaction of the caller that also notes where it stands in the order of
// commits, and holds the result against a model of what was committed.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range oneOfEach(t, some()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			db := coll.Database()
			tr := v.open(t, coll)
			locks := db.Collection(coll.Name() + "_locks")
			var log []logged
			var mu sync.Mutex
			var clock atomic.Int64
			ids := &known{}
			for i := range 6 {
				id := fmt.Sprintf("r%d", i)
				get(tr.Insert(t.Context(), v.doc(id), tr.AsRoot()))(t)
				ids.add(id)
				log = append(log, logged{seen: -1, start: clock.Add(1), apply: func(m *model) { m.attach(id, "", -1) }})
			}
			// run does one operation in a transaction of its own.
			run := func(op func(ctx context.Context) error, apply func(m *model)) error {
				session, err := db.Client().StartSession()
				if err != nil {
					return err
				}
				defer session.EndSession(context.Background())
				entry := logged{apply: apply, start: clock.Add(1)}
				_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
					var before, after struct{ N int64 }
					if err := locks.FindOne(ctx, bson.D{}).Decode(&before); err != nil {
						return nil, err
					}
					if err := op(ctx); err != nil {
						return nil, err
					}
					if err := locks.FindOne(ctx, bson.D{}).Decode(&after); err != nil {
						return nil, err
					}
					entry.seen, entry.locked = after.N, after.N > before.N
					return nil, nil
				}, options.Transaction().SetReadConcern(readconcern.Snapshot()))
				if err == nil {
					mu.Lock()
					log = append(log, entry)
					mu.Unlock()
				}
				return err
			}
			var done, refused atomic.Int64
			hammer(t, opsEach(), func(r *rand.Rand, name string) error {
				var err error
				id := ids.pick(r)
				switch n := r.IntN(20); {
				case n < 8:
					under := id
					pos := tr.Under(under)
					if n == 0 {
						under, pos = "", tr.AsRoot()
					}
					err = run(func(ctx context.Context) error {
						_, err := tr.Insert(ctx, v.doc(name), pos)
						return err
					}, func(m *model) { m.attach(name, under, -1) })
					if err == nil {
						ids.add(name)
					}
				case n < 16:
					under := ids.pick(r)
					pos := tr.Under(under)
					if n == 8 {
						under, pos = "", tr.AsRoot()
					}
					err = run(func(ctx context.Context) error { return tr.Move(ctx, id, pos) },
						func(m *model) { m.detach(id); m.attach(id, under, -1) })
				default:
					policy := mongopatterns.DeletePolicy(n % 4)
					err = run(func(ctx context.Context) error {
						_, err := tr.Delete(ctx, id, policy)
						return err
					}, func(m *model) { m.delete(id, policy) })
				}
				if errors.Is(err, mongopatterns.ErrNotFound) {
					ids.drop(id)
				}
				if expected(err) {
					refused.Add(1)
					return nil
				}
				if err == nil {
					done.Add(1)
				}
				return err
			})
			t.Logf("%d operations, %d refused", done.Load(), refused.Load())
			healthy(t, tr)
			v.ordered = false
			v.compare(t, tr, replay(log))
		})
	}
}

// hammer runs op n times in each of the goroutines.
func hammer(t *testing.T, n int, op func(r *rand.Rand, name string) error) {
	t.Helper()
	var group sync.WaitGroup
	seed := scale.Seed()
	t.Logf("seed %d", seed)
	for g := range hammers() {
		r := rand.New(rand.NewPCG(seed, uint64(g)))
		group.Go(func() {
			for i := range n {
				if err := op(r, fmt.Sprintf("g%d-%d", g, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestOppositeMoves moves two nodes under each other, again and again: exactly
// one of the two may win.
func TestOppositeMoves(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			tr := v.open(t, row())
			insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", ""}, {"A1", "A"}, {"B1", "B"}})
			for range 5 {
				var group sync.WaitGroup
				errs := make([]error, 2)
				for i, pair := range [][2]string{{"A", "B1"}, {"B", "A1"}} {
					group.Go(func() { errs[i] = tr.Move(t.Context(), pair[0], tr.Under(pair[1])) })
				}
				group.Wait()
				cycles := 0
				for _, err := range errs {
					if errors.Is(err, tree.ErrCycle) {
						cycles++
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if cycles != 1 {
					t.Fatalf("%d of two opposite moves were refused: %v", cycles, errs)
				}
				healthy(t, tr)
				for _, id := range []string{"A", "B"} {
					ok(t, tr.Move(t.Context(), id, tr.AsRoot()))
				}
			}
		})
	}
}

// TestConcurrentOwnTransactions is as TestConcurrent with the transactions of
// the tree, on a collection without its lock document.
func TestConcurrentOwnTransactions(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := get(tree.New[string, bson.M](coll, v.rep, &v.opts))(t)
			ids := &known{}
			insertAll(t, v, tr, books)
			for _, n := range books {
				ids.add(n[0])
			}
			var inserted, deleted atomic.Int64
			inserted.Add(int64(len(books)))
			hammer(t, opsEach()/2, func(r *rand.Rand, name string) error {
				var err error
				id := ids.pick(r)
				switch n := r.IntN(20); {
				case n < 10:
					if _, err = tr.Insert(t.Context(), v.doc(name), tr.Under(id)); err == nil {
						inserted.Add(1)
						ids.add(name)
					}
				case n < 16:
					err = tr.Move(t.Context(), id, tr.Under(ids.pick(r)))
				default:
					var n64 int64
					n64, err = tr.Delete(t.Context(), id, mongopatterns.DeletePolicy(n%4))
					deleted.Add(n64)
				}
				if errors.Is(err, mongopatterns.ErrNotFound) {
					ids.drop(id)
				}
				if expected(err) {
					return nil
				}
				return err
			})
			healthy(t, tr)
			n, err := coll.CountDocuments(t.Context(), bson.D{})
			if err != nil || n != inserted.Load()-deleted.Load() {
				t.Errorf("%d documents, %v; %d inserted, %d deleted", n, err, inserted.Load(), deleted.Load())
			}
			reached := 0
			for _, err := range tr.Dump(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				reached++
			}
			wrong(t, reached != int(n), "%d of %d nodes reached from the roots", reached, n)
		})
	}
}

// TestCheckBesideMoves: work under way is no problem.
func TestCheckBesideMoves(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range some()[:5] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			tr := v.open(t, row())
			get(tr.Load(t.Context(), v.entries(forest(20)), tr.AsRoot(), nil))(t)
			var movers sync.WaitGroup
			for g := range 2 {
				r := rand.New(rand.NewPCG(1, uint64(g)))
				movers.Go(func() {
					for range scale.Of(10, 15, 15) {
						err := tr.Move(t.Context(), fmt.Sprintf("n%d", r.IntN(12)), tr.Under(fmt.Sprintf("n%d", r.IntN(12))))
						wrong(t, err != nil && !expected(err), "%v", err)
					}
				})
			}
			done := make(chan bool)
			go func() { movers.Wait(); close(done) }()
			for busy := true; busy; {
				for p, err := range tr.Check(t.Context(), &mongopatterns.Work{BatchSize: 7}) {
					t.Error(p, err)
				}
				select {
				case <-done:
					busy = false
				default:
				}
			}
		})
	}
}

// TestFirstUse: without EnsureIndexes the first callers make the lock's collection together.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	putDocs(t, coll, dd("_id", "a"), dd("_id", "b"))
	tr := get(tree.New[string, bson.M](coll, tree.ParentReferences, nil))(t)
	errs := make(chan error)
	for i := range 8 {
		go func() { errs <- tr.Move(t.Context(), "b", []tree.Position[string]{tr.Under("a"), tr.AsRoot()}[i%2]) }()
	}
	for range 8 {
		good(t, <-errs)
	}
	var lock struct{ N int64 }
	ok(t, coll.Database().Collection("nodes_locks").FindOne(t.Context(), bson.D{}).Decode(&lock))
	wrong(t, lock.N != 8, "%d restructurings", lock.N)
}

// TestRepairBesideMove: a node that moves right after the scan has read it is not known where it was.
func TestRepairBesideMove(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]mongopatterns.Work{"first batch": {BatchSize: 3}, "several batches of a reply": {BatchSize: 3, BatchBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var move func()
			db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
				Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
					if todo := move; todo != nil && e.CommandName == "find" && e.Reply.Lookup("cursor", "ns").StringValue() == e.DatabaseName+".nodes" {
						move = nil
						todo()
					}
				}}))
			coll := db.Collection("nodes")
			v := plain(tree.AncestorArray, tree.Options{})
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", ""}, {"c", "a"}, {"d", "c"}})
			ok(t, errOf(coll.UpdateByID(t.Context(), "a", dd("$unset", dd("ancestors", "")))))
			move = func() { good(t, tr.Move(t.Context(), "c", tr.Under("b"))) }
			get(tr.Repair(t.Context(), &work))(t)
			var d struct{ Ancestors []string }
			ok(t, coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: "d"}}).Decode(&d))
			match(t, "ancestors of d", []string{"b", "c"}, d.Ancestors)
		})
	}
}

// TestWaiters: those who wait for the lock look again soon, however long they have
// waited. A driver that pauses longer after each attempt pauses a quarter of a second at last.
func TestWaiters(t *testing.T) {
	ctx := t.Context()
	var mu sync.Mutex
	var answered time.Time     // when the last command was
	var pauses []time.Duration // between that and each look at the lock
	look := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(pauses)
	}
	note := func() {
		mu.Lock()
		defer mu.Unlock()
		answered = time.Now()
	}
	coll := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "findAndModify" && e.Command.Lookup(e.CommandName).StringValue() == "nodes_locks" {
				mu.Lock()
				defer mu.Unlock()
				pauses = append(pauses, time.Since(answered))
			}
		},
		Succeeded: func(context.Context, *event.CommandSucceededEvent) { note() },
		Failed:    func(context.Context, *event.CommandFailedEvent) { note() },
	})).Collection("nodes")
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, coll)
	insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", ""}, {"C", ""}})
	var waiter sync.WaitGroup
	err := joined(t, coll, func(ctx context.Context) error {
		if err := tr.Move(ctx, "A", tr.Under("B")); err != nil {
			return err
		}
		waiter.Go(func() {
			good(t, tr.Move(t.Context(), "C", tr.Under("B")))
		})
		for deadline := time.Now().Add(30 * time.Second); look() < 50 && time.Now().Before(deadline); { // the server ends this transaction after a minute
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	wrong(t, err != nil, "%v", err)
	waiter.Wait()
	if len(pauses) < 50 {
		t.Fatalf("%d attempts", len(pauses))
	}
	late := slices.Sorted(slices.Values(pauses[20:50]))
	wrong(t, late[15] > 125*time.Millisecond, "pauses of %v", late)
	v.want(t, "children", v.ids(t, tr.Children(ctx, "B")), "A", "C")

	// At its deadline a waiter says what it waited for.
	err = joined(t, coll, func(ctx context.Context) error {
		if err := tr.Move(ctx, "A", tr.AsRoot()); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := tr.Move(short, "C", tr.AsRoot())
		if !errors.Is(err, context.DeadlineExceeded) || mongopatterns.ErrConflict == err {
			return fmt.Errorf("at the deadline: %w", err)
		}
		return nil
	})
	wrong(t, err != nil, "%v", err)
}

// TestOneLockForOneScope: scopes that the server holds equal have one lock.
func TestOneLockForOneScope(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	decimal := get(bson.ParseDecimal128("1.00"))(t)
	scopes := []bson.D{}
	for _, n := range []any{int32(1), int64(1), 1.0, decimal} {
		scopes = append(scopes, dd("t", n, "u", dd("a", n)), dd("u", dd("a", n), "t", n))
	}
	for _, scope := range scopes {
		newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: scope})
	}
	newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", "1", "u", dd("a", 1))})
	newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", 1.5, "u", dd("a", 1))})
	locks := coll.Database().Collection("nodes_locks")
	if n, err := locks.CountDocuments(t.Context(), bson.D{}); n != 3 || err != nil {
		t.Errorf("%d locks, %v", n, err)
	}

	one := newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: scopes[0]})
	other := newAny(t, coll, tree.ParentReferences, &tree.Options{Scope: dd("t", 1.0, "u", dd("a", 1.0))})
	plant(t, one, bson.M{"_id": "A"}, nil)
	plant(t, one, bson.M{"_id": "B"}, nil)
	good(t, meanwhile(t, coll, func(ctx context.Context) error { return one.Move(ctx, "A", one.Under("B")) },
		func(ctx context.Context) error { return other.Move(ctx, "B", other.Under("A")) }))
	is(t, other.Move(t.Context(), "B", other.Under("A")), tree.ErrCycle)
	allRight(t, one)
}

// The lock document holds the scope beside its counter: a field "n" of a scope is not the counter, and a lock that an
// earlier version made without the scope is taken over.
func TestLockHoldsScope(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	for i, scope := range []bson.D{dd("n", "acme"), dd("n", 5, "x", "y")} {
		for _, ensure := range []bool{true, false} {
			coll := db.Collection(fmt.Sprint("nodes", i, ensure))
			tr := get(tree.New[string, bson.M](coll, tree.AncestorArray, &tree.Options{Scope: scope}))(t)
			if ensure {
				ok(t, tr.EnsureIndexes(ctx))
			}
			get(tr.Insert(ctx, bson.M{"_id": "a"}, tr.AsRoot()))(t)
			get(tr.Insert(ctx, bson.M{"_id": "b"}, tr.Under("a")))(t)
			good(t, tr.Move(ctx, "b", tr.AsRoot()))
			good(t, tr.Move(ctx, "b", tr.Under("a")))
			locks := db.Collection(coll.Name() + "_locks")
			var lock bson.D
			ok(t, locks.FindOne(ctx, scope).Decode(&lock))
			get(locks.DeleteMany(ctx, bson.D{}))(t)
			putDocs(t, locks, dd("_id", lock[0].Value, "n", 4))
			ok(t, tr.EnsureIndexes(ctx))
			good(t, tr.Move(ctx, "b", tr.AsRoot()))
		}
	}
	_, err := tree.New[string, bson.M](db.Collection("nodes"), tree.AncestorArray, &tree.Options{Scope: dd("__locked", 1)})
	is(t, err, mongopatterns.ErrInvalid)
}

// TestMajority: what is written outside a transaction, for those that follow to
// see.
func TestMajority(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		got := mongotest.Record(t, coll.Database(), func() {
			good(t, tr.EnsureIndexes(t.Context()))
			insertAll(t, v, tr, books[:1])
		})
		outside := 0
		for _, c := range got.Named("insert", "update") {
			if c.Body.Lookup("autocommit").Type != 0 {
				continue
			}
			outside++
			if w, _ := c.Body.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
				t.Errorf("write to %s: %v", c.Collection, c.Body.Lookup("writeConcern"))
			}
		}
		wrong(t, outside == 0, "%v", "no write outside a transaction")
	})
}

// TestJoin runs every write in a transaction of the caller: aborted it leaves
// nothing, committed everything.
func TestJoin(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		work := func(ctx context.Context) error {
			if _, err := tr.Insert(ctx, v.doc("new"), tr.Under("Languages")); err != nil {
				return err
			}
			if _, err := tr.Insert(ctx, v.doc("root"), tr.AsRoot()); err != nil {
				return err
			}
			if err := tr.Move(ctx, "Databases", tr.Under("new")); err != nil {
				return err
			}
			if _, err := tr.Delete(ctx, "Languages", mongopatterns.Promote); err != nil {
				return err
			}
			up, err := tr.Ancestors(ctx, "dbm")
			if err != nil || len(up) != 4 {
				return fmt.Errorf("ancestors inside: %v, %w", up, err)
			}
			_, err = tr.Load(ctx, v.entries([][2]string{{"l1"}, {"l2", "l1"}}), tr.AsRoot(), nil)
			return err
		}
		session := get(coll.Database().Client().StartSession())(t)
		defer session.EndSession(context.Background())
		ctx := mongo.NewSessionContext(t.Context(), session)
		ok(t, session.StartTransaction())
		ok(t, work(ctx))
		ok(t, session.AbortTransaction(ctx))
		match(t, "aborted, but", before, stored(t, coll))
		get(session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { return nil, work(ctx) }))(t)
		healthy(t, tr)
		up, err := tr.Ancestors(t.Context(), "dbm")
		wrong(t, err != nil || len(up) != 4, "committed: %v, %v", up, err)
	})
}

// TestConfirmationIsNotOlder: the snapshot that confirms a finding shows all that the first look saw.
func TestConfirmationIsNotOlder(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("nodes")
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, coll)
	insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", "a"}})
	ok(t, errOf(coll.UpdateByID(t.Context(), "b", dd("$unset", dd("ancestors", "")))))
	problems := 0
	commands := mongotest.Record(t, db, func() {
		for _, err := range tr.Check(t.Context(), nil) {
			good(t, err)
			problems++
		}
	})
	wrong(t, problems == 0, "no problem")
	var seen bson.Timestamp
	snapshots := 0
	for _, c := range commands.Named("find", "aggregate") {
		if c.Body.Lookup("startTransaction").Type != 0 {
			snapshots++
			sec, inc, found := c.Body.Lookup("readConcern", "afterClusterTime").TimestampOK()
			after := bson.Timestamp{T: sec, I: inc}
			wrong(t, !found || after.Before(seen), "after %v, the look was at %v: %v", after, seen, c.Body.Lookup("readConcern"))
		}
		if sec, inc, found := c.Reply.Lookup("operationTime").TimestampOK(); found {
			seen = bson.Timestamp{T: sec, I: inc}
		}
	}
	wrong(t, snapshots == 0 || seen.IsZero(), "%d snapshots, %v", snapshots, seen)
}
