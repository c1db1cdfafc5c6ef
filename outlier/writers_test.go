package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Many add the same elements at the same time: each is in the set once, and each
// was added by exactly one.
func TestConcurrentSet(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 4, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	const elements = 16
	var added [elements]atomic.Int64
	var group sync.WaitGroup
	for w := range 6 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for _, x := range random.Perm(elements) {
				ok, err := lists.Add(t.Context(), 1, x)
				if err != nil {
					t.Error(err)
				}
				if ok {
					added[x].Add(1)
				}
			}
		})
	}
	group.Wait()
	for x := range added {
		if n := added[x].Load(); n != 1 {
			t.Errorf("%d added %d times", x, n)
		}
	}
	items := collect(t, lists.Items(t.Context(), 1))
	slices.Sort(items)
	if diff := cmp.Diff(ints(0, elements), items); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
}

// Adding, removing, folding back, rebalancing and reading at once. What stays is
// seen by every reader, once and in its order; in the end the list holds what was
// added less what was removed.
func TestConcurrentMix(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 8, OverflowMaxCount: 3})
	stay := []int{1000, 1001, 1002, 1003}
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{1000, 1001}}})
	if _, err := lists.AddMany(t.Context(), 1, stay[2:]); err != nil {
		t.Fatal(err)
	}
	seen := func(items []int) {
		var kept []int
		for _, x := range items {
			if x >= 1000 {
				kept = append(kept, x)
			}
		}
		if !slices.Equal(kept, stay) {
			t.Errorf("read %v", items)
		}
	}
	writers, rounds := 4, 12
	var group, readers sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 3))
			var mine []int
			for i := range rounds {
				if x := 100*w + i; len(mine) < 3 || random.IntN(2) == 0 {
					if _, err := lists.Add(t.Context(), 1, x); err != nil {
						t.Error(err)
					}
					mine = append(mine, x)
				} else {
					x, mine = mine[0], mine[1:]
					if ok, err := lists.Remove(t.Context(), 1, x); err != nil || !ok {
						t.Error(x, ok, err)
					}
				}
			}
			for _, x := range mine {
				if ok, err := lists.Remove(t.Context(), 1, x); err != nil || !ok {
					t.Error(x, ok, err)
				}
			}
		})
	}
	group.Go(func() {
		for range 4 {
			if err := lists.Rebalance(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	readers.Go(func() {
		for ctx.Err() == nil {
			seen(collect(t, lists.Items(t.Context(), 1)))
			page, err := lists.Page(t.Context(), 1, 0, 1000)
			if err != nil || int64(len(page.Items)) != page.Total || page.HasNext {
				t.Error(page, err)
			}
			seen(page.Items)
			if held, err := lists.Contains(t.Context(), 1, 1003); err != nil || !held {
				t.Error(held, err)
			}
		}
	})
	group.Wait()
	stop()
	readers.Wait()
	if diff := cmp.Diff(stay, collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
	if docs := stored(t, db.Collection("extras"), bson.D{}); len(docs) > 0 {
		t.Errorf("not folded back: %v", docs)
	}
}

// A parent that is deleted while others add leaves nothing behind.
func TestConcurrentDelete(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	for round := range 6 {
		insert(t, db, bson.D{{Key: "_id", Value: round}})
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for x := range 10 {
					if _, err := lists.Add(t.Context(), round, x); err != nil {
						if !errors.Is(err, outlier.ErrNotFound) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		group.Go(func() {
			for range round {
				if _, err := lists.Total(t.Context(), round); err != nil {
					t.Error(err)
				}
			}
			if err := lists.Delete(t.Context(), round); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
	}
	for _, name := range []string{"parents", "extras"} {
		if docs := stored(t, db.Collection(name), bson.D{}); len(docs) > 0 {
			t.Error(name, docs)
		}
	}
}

// Pages that were full stay as they are while others append, and together they
// are the list.
func TestPagesWhileAppending(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 10, OverflowMaxCount: 4})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	next := 0
	add := func(n int) {
		if _, err := lists.AddMany(t.Context(), 1, ints(next, next+n)); err != nil {
			t.Fatal(err)
		}
		next += n
	}
	add(7)
	var all []int
	for {
		page, err := lists.Page(t.Context(), 1, int64(len(all)), 3)
		if err != nil || page.Total != int64(next) {
			t.Fatal(page, err)
		}
		all = append(all, page.Items...)
		if page.HasNext != (len(all) < next) {
			t.Fatal(page, next)
		}
		if !page.HasNext {
			break
		}
		if next < 60 {
			add(5)
		}
	}
	if diff := cmp.Diff(ints(0, next), all); diff != "" {
		t.Error(diff)
	}
	// Removed before the page: the next element is missed, none comes twice.
	first, err := lists.Page(t.Context(), 1, 0, 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lists.Remove(t.Context(), 1, 3); err != nil {
		t.Fatal(err)
	}
	second, err := lists.Page(t.Context(), 1, 20, 2)
	if err != nil || first.Items[19] != 19 || !slices.Equal(second.Items, []int{21, 22}) {
		t.Error(first, second, err)
	}
}

// inTransaction runs fn in a transaction that is aborted, or committed.
func inTransaction(t *testing.T, db *mongo.Database, commit bool, fn func(ctx context.Context)) {
	t.Helper()
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	fn(mongo.NewSessionContext(t.Context(), session))
	if commit {
		err = session.CommitTransaction(t.Context())
	} else {
		err = session.AbortTransaction(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// All calls join the caller's transaction, and what they refuse leaves nothing
// behind in it.
func TestJoinedTransaction(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		t.Run(fmt.Sprintf("set=%v", set), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 3, OverflowMaxCount: 2, Set: set})
			insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: "no array"}})
			if _, err := lists.AddMany(t.Context(), 1, ints(0, 6)); err != nil {
				t.Fatal(err)
			}
			dump := func() []bson.D {
				return append(stored(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}),
					stored(t, db.Collection("extras"), bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 1}})...)
			}
			before := dump()
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			all := func(ctx context.Context) {
				_, err := lists.AddMany(ctx, 1, ints(10, 20))
				check(err)
				_, err = lists.AddMany(ctx, 2, ints(10, 20))
				check(err)
				_, err = lists.Remove(ctx, 1, 0)
				check(err)
				_, err = lists.RemoveAll(ctx, 1, 5)
				check(err)
				held, err := lists.Contains(ctx, 1, 19)
				if check(err); !held {
					t.Error("does not see its own element")
				}
				if held, err = lists.Contains(ctx, 1, 5); err != nil || held {
					t.Error(held, err)
				}
				items := []int{}
				for x, err := range lists.Items(ctx, 1) {
					check(err)
					items = append(items, x)
				}
				want := append([]int{1, 2, 3, 4}, ints(10, 20)...)
				if diff := cmp.Diff(want, items); diff != "" {
					t.Error(diff)
				}
				page, err := lists.Page(ctx, 1, 2, 9)
				check(err)
				if diff := cmp.Diff(want[2:11], page.Items); diff != "" {
					t.Error(diff)
				}
				check(lists.Rebalance(ctx, 1))
				check(lists.Delete(ctx, 2))
				_, err = lists.Repair(ctx, nil)
				check(err)
			}
			inTransaction(t, db, false, all)
			if diff := cmp.Diff(before, dump()); diff != "" {
				t.Error("aborted:", diff)
			}
			inTransaction(t, db, true, func(ctx context.Context) {
				for _, id := range []int{99, 3} {
					want := outlier.ErrNotFound
					if id == 3 {
						want = outlier.ErrInvalid
					}
					refused := func(err error) {
						t.Helper()
						if !errors.Is(err, want) {
							t.Error(err)
						}
					}
					if id == 99 { // an error of the server would end the transaction
						_, err := lists.AddMany(ctx, id, ints(0, 9))
						refused(err)
						_, err = lists.Remove(ctx, id, 1)
						refused(err)
						refused(lists.Delete(ctx, id))
					}
					refused(lists.Rebalance(ctx, id))
				}
				if removed, err := lists.Remove(ctx, 1, 77); err != nil || removed {
					t.Error(removed, err)
				}
				if removed, err := lists.RemoveAll(ctx, 1, 77); err != nil || removed != 0 {
					t.Error(removed, err)
				}
				if set {
					for _, xs := range [][]int{{1}, {4}, {4, 1, 4}} {
						if n, err := lists.AddMany(ctx, 1, xs); err != nil || n != 0 {
							t.Error(n, err)
						}
					}
				}
			})
			if diff := cmp.Diff(before, dump()); diff != "" {
				t.Error("refused:", diff)
			}
			inTransaction(t, db, true, all)
			healthyBut(t, lists, outlier.NotArray)
		})
	}
}

// healthyBut wants only problems of this kind, and one of them.
func healthyBut[ID, E any](t testing.TB, lists *outlier.Lists[ID, E], kind outlier.ProblemKind) {
	t.Helper()
	n := 0
	for p, err := range lists.Check(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind != kind {
			t.Error(p)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d problems, want 1", n)
	}
}

// failing is the client whose commands failOnce lets fail: a fail point is the
// server's, which other tests may use at the same time.
const failing = "outlier failing"

// failOnce lets a command of that client fail once with a code.
func failOnce(t *testing.T, db *mongo.Database, command string, code int, labels ...string) {
	t.Helper()
	data := bson.D{{Key: "failCommands", Value: bson.A{command}}, {Key: "errorCode", Value: code}, {Key: "appName", Value: failing}}
	if len(labels) > 0 {
		data = append(data, bson.E{Key: "errorLabels", Value: labels})
	}
	err := db.Client().Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: data},
	}).Err()
	if err != nil {
		t.Skip("no fail points:", err)
	}
}

// What fails in the middle of a transaction has not happened, and is tried again
// if the server says so.
func TestFailures(t *testing.T) { // not parallel: there is one fail point
	db := mongotest.Database(t, options.Client().SetAppName(failing))
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{0, 1}}})
	failOnce(t, db, "insert", 112, "TransientTransactionError")
	if _, err := lists.Add(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	failOnce(t, db, "insert", 8000)
	if _, err := lists.AddMany(t.Context(), 1, ints(3, 8)); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff([]int{0, 1, 2}, collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	failOnce(t, db, "commitTransaction", 112, "TransientTransactionError")
	if n, err := lists.AddMany(t.Context(), 1, ints(3, 8)); err != nil || n != 5 {
		t.Fatal(n, err)
	}
	failOnce(t, db, "delete", 8000)
	if err := lists.Delete(t.Context(), 1); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(ints(0, 8), collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
	failOnce(t, db, "commitTransaction", 112, "TransientTransactionError") // nothing comes twice
	if diff := cmp.Diff(ints(0, 8), collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	// Nor does a transaction run again that fails when elements have been yielded.
	insert(t, db, bson.D{{Key: "_id", Value: 2}})
	if _, err := lists.AddMany(t.Context(), 2, ints(0, 250)); err != nil {
		t.Fatal(err)
	}
	failOnce(t, db, "getMore", 112, "TransientTransactionError")
	var seen []int
	var failures int
	for x, err := range lists.Items(t.Context(), 2) {
		if err != nil {
			failures++
			continue
		}
		seen = append(seen, x)
	}
	if failures != 1 || len(seen) == 0 || !slices.Equal(seen, ints(0, len(seen))) {
		t.Error(failures, seen)
	}
	failOnce(t, db, "find", 8000)
	n := 0
	for _, err := range lists.Items(t.Context(), 1) {
		if n++; err == nil {
			t.Error("no error")
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
}

// An element that is folded back between the two reads of Contains is found.
func TestContainsWhileFoldingBack(t *testing.T) {
	t.Parallel()
	other := mongotest.Database(t)
	var fold func()
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "aggregate" && fold != nil {
				fold()
				fold = nil
			}
		},
	}))
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 3, FoldBack: -1})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	if _, err := lists.AddMany(t.Context(), 1, ints(1, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := lists.Remove(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	fold = func() {
		same := newLists[int, int](t, other.Client().Database(db.Name()), &outlier.Options{MaxCount: 3})
		if err := same.Rebalance(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	if held, err := lists.Contains(t.Context(), 1, 4); err != nil || !held || fold != nil {
		t.Error(held, err)
	}
	if docs := stored(t, db.Collection("extras"), bson.D{}); len(docs) > 0 {
		t.Error("not folded back:", docs)
	}
}

// A reader can leave at any time, and one whose context ends in the middle gets
// what was read and then one error.
func TestItemsEndEarly(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 1})
	insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: bson.A{0, 1}}})
	if _, err := lists.AddMany(t.Context(), 1, ints(0, 250)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct{ id, at int }{{2, 0}, {1, 0}, {1, 1}, {1, 2}, {1, 200}} { // inside and outside
		for range 3 {
			for x, err := range lists.Items(t.Context(), end.id) {
				if err != nil {
					t.Fatal(err)
				}
				if x == end.at {
					break
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, failures := 0, 0
	for x, err := range lists.Items(ctx, 1) {
		if err != nil {
			failures++
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			continue
		}
		if x != got {
			t.Fatal(x, got)
		}
		if got++; got == 20 {
			cancel()
		}
	}
	if got < 20 || got == 250 || failures != 1 {
		t.Errorf("%d values, %d errors", got, failures)
	}
	if diff := cmp.Diff(ints(0, 250), collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
}

// The loop body of Items may use the context's session: what it does there is done
// at once, and seen by others, not part of a reader's transaction.
func TestItemsLeavesTheSession(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}})
	if _, err := lists.AddMany(t.Context(), 1, ints(0, 7)); err != nil {
		t.Fatal(err)
	}
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	ctx := mongo.NewSessionContext(t.Context(), session)
	for x, err := range lists.Items(ctx, 1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int{1, 2} {
			if _, err := lists.Add(ctx, id, 100+x); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := lists.Total(t.Context(), 2); err != nil || n != int64(x+1) {
			t.Fatalf("%d of %d seen, %v", n, x+1, err)
		}
	}
	if n, err := lists.Total(t.Context(), 1); err != nil || n != 14 {
		t.Error(n, err)
	}
	healthy(t, lists)
}

// Whatever the collections' read preference: what writes, and what is to see all,
// reads from the primary.
func TestReadsFromThePrimary(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	newLists[int, int](t, db, nil)
	secondary := options.Collection().SetReadPreference(readpref.Secondary()) // there is none
	lists, err := outlier.New[int, int](db.Collection("parents", secondary), db.Collection("extras", secondary),
		&outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: true, CountTypical: true})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: ints(0, 9)}})
	ctx := t.Context() // no deadline: where none is the server, the driver gives up by itself
	for i, call := range []func() error{
		func() error { _, err := lists.AddMany(ctx, 1, ints(0, 10)); return err },
		func() error { _, err := lists.Remove(ctx, 1, 9); return err },
		func() error { _, err := lists.RemoveAll(ctx, 1, 8); return err },
		func() error { _, err := lists.Distribution(ctx, nil); return err },
		func() error { return drain(lists.Check(ctx)) },
		func() error { _, err := lists.Repair(ctx, nil); return err },
		func() error { _, err := lists.Adopt(ctx, nil); return err },
		func() error { return lists.Rebalance(ctx, 1) },
		func() error { return lists.Delete(ctx, 1) },
	} {
		cmds := mongotest.Record(t, db, func() { err = call() })
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		for _, cmd := range cmds {
			if mode, _ := cmd.Body.Lookup("$readPreference", "mode").StringValueOK(); mode == "secondary" {
				t.Errorf("call %d: %s reads from a secondary", i, cmd.Name)
			}
		}
	}
}

// What others do between Adopt's reading and its writing is not undone: an outlier
// keeps its flag, and a parent that is deleted stays so.
func TestAdoptMeanwhile(t *testing.T) {
	t.Parallel()
	other := mongotest.Database(t)
	meanwhile := map[string]func(){}
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if fn := meanwhile[e.CommandName]; fn != nil {
				delete(meanwhile, e.CommandName)
				fn()
			}
		},
	}))
	opts := &outlier.Options{MaxCount: 3, CountTypical: true}
	lists := newLists[int, int](t, db, opts)
	same := newLists[int, int](t, other.Client().Database(db.Name()), opts)
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 5)}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: ints(0, 2)}})
	meanwhile["findAndModify"] = func() {
		if err := same.Delete(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	meanwhile["update"] = func() {
		if _, err := same.AddMany(t.Context(), 2, ints(2, 6)); err != nil {
			t.Error(err)
		}
	}
	result, err := lists.Adopt(t.Context(), nil)
	if diff := cmp.Diff(outlier.AdoptResult{Examined: 2}, result); err != nil || diff != "" || len(meanwhile) > 0 {
		t.Error(err, diff, len(meanwhile))
	}
	if diff := cmp.Diff(ints(0, 6), collect(t, lists.Items(t.Context(), 2))); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
}
