package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/turn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// An Add that always finds others in line gets its turn all the same, though none of them makes room.
func TestAddBesideABusyLine(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4})
	parents := db.Collection("parents")
	insert(t, parents, bson.D{{Key: "_id", Value: 1}})
	add(t, lists, 1, 1, 2, 3, 4)
	document := []turn.Document{{Client: db.Client(), Name: db.Name() + "." + parents.Name() + " " + value.Key(value.New(1))}}
	ctx, stop := context.WithCancel(t.Context())
	var line sync.WaitGroup
	for range 4 {
		line.Go(func() {
			for ctx.Err() == nil {
				has, _ := turn.Take(ctx, document)
				time.Sleep(time.Millisecond)
				has.End()
			}
		})
	}
	add(t, lists, 1, 5)
	stop()
	line.Wait()
}

// Writers of one hot outlier wait for each other in the server: no write starts
// over unless the parent is full. Each element is stored once, those of a writer
// in their order, and the total is exact.
func TestHotOutlier(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		t.Run(fmt.Sprintf("set=%v", isSet), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 100, Set: isSet})
			insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
			add(t, lists, 1, ints(-101, 0)...) // an outlier with 51 inside
			write := func(from, writers, each int) {
				var group sync.WaitGroup
				for w := range writers {
					group.Go(func() {
						for i := range each {
							if n, err := lists.Add(t.Context(), 1, from+1000*w+i); err != nil || n != 1 {
								t.Error(n, err)
							}
						}
					})
				}
				group.Wait()
			}
			cmds := mongotest.Record(t, db, func() { write(0, 8, 6) }) // 48: there is room
			if want := map[bool]int{false: 48, true: 3 * 48}[isSet]; cmds.RoundTrips() != want {
				t.Errorf("%d round trips, want %d", cmds.RoundTrips(), want)
			}
			each := scale.Of(8, 30, 300)
			write(100_000, 8, each)
			items := testkit.Collect(t, lists.All(t.Context(), 1))
			last := map[int]int{}
			for _, x := range items {
				if x >= 0 {
					if x%1000 != last[x/1000] {
						t.Fatalf("%d after %d", x, last[x/1000])
					}
					last[x/1000]++
				}
			}
			slices.Sort(items)
			if total, err := lists.Total(t.Context(), 1); err != nil || total != int64(101+48+8*each) || len(slices.Compact(items)) != int(total) {
				t.Error(total, len(items), err)
			}
			testkit.Healthy(t, lists)
		})
	}
}

// Many add the same elements at the same time, while the list moves in and out of
// its overflow documents: each is in the set once, and exactly one has added it.
func TestConcurrentSet(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 4, Set: true})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	const elements = 16
	var added [elements]atomic.Int64
	var group sync.WaitGroup
	for w := range 6 {
		group.Go(func() {
			for i, x := range rand.New(rand.NewPCG(uint64(w), 7)).Perm(elements) {
				n, err := lists.Add(t.Context(), 1, x)
				if err != nil {
					t.Error(err)
				}
				added[x].Add(n)
				if i%4 == 0 {
					if _, err := lists.Repair(t.Context(), &mongopatterns.Work{Filter: lists.Filter(1)}); err != nil {
						t.Error(err)
					}
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
	items := testkit.Collect(t, lists.All(t.Context(), 1))
	slices.Sort(items)
	equal(t, ints(0, elements), items)
	testkit.Healthy(t, lists)
}

// An element that another writer adds after a full set was looked at, and before its elements move out, is in it once.
func TestSetChangesBeforeTheMove(t *testing.T) {
	t.Parallel()
	var between sync.Once
	meanwhile := func() {}
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "findAndModify" {
			between.Do(meanwhile)
		}
	}}
	db := mongotest.Database(t)
	of := &outlier.Options{MaxCount: 3, Set: true}
	other := newLists[int, int](t, db, of)
	client := mongotest.Database(t, options.Client().SetMonitor(monitor)).Client()
	lists := newLists[int, int](t, client.Database(db.Name()), of)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 2)}})
	meanwhile = func() { testkit.Gives[int64](t, 1)(other.Add(t.Context(), 1, 2)) }
	testkit.Gives[int64](t, 1)(lists.Add(t.Context(), 1, 2, 3))
	equal(t, ints(0, 4), testkit.Collect(t, lists.All(t.Context(), 1)))
	testkit.Healthy(t, lists)
}

// Adding, removing, folding back and reading at once. Elements that are never removed are
// seen by every reader, once and in order; in the end the list holds what was added except
// what was removed.
func TestConcurrentMix(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 8, OverflowMaxCount: 3})
	stay := ints(1000, 1004)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: stay}})
	seen := func(items []int) {
		equal(t, stay, slices.DeleteFunc(slices.Clone(items), func(x int) bool { return x < 1000 }))
	}
	var writers, readers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 3))
			var mine []int
			remove := func() {
				if ok, err := lists.Remove(t.Context(), 1, mine[0]); err != nil || !ok {
					t.Error(mine[0], ok, err)
				}
				mine = mine[1:]
			}
			for i := range 12 {
				if len(mine) >= 3 && random.IntN(2) == 0 {
					remove()
				} else {
					add(t, lists, 1, 100*w+i)
					mine = append(mine, 100*w+i)
				}
			}
			for len(mine) > 0 {
				remove()
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	readers.Go(func() {
		for ctx.Err() == nil {
			seen(testkit.Collect(t, lists.All(t.Context(), 1)))
			page, err := lists.Slice(t.Context(), 1, 0, 1000)
			if err != nil || int64(len(page.Items)) != page.Total || page.HasNext {
				t.Error(page, err)
			}
			seen(page.Items)
			if slices.Sort(page.Items); len(slices.Compact(page.Items)) != int(page.Total) {
				t.Error("doubled", page)
			}
			if held, err := lists.Contains(t.Context(), 1, 1003); err != nil || !held {
				t.Error(held, err)
			}
			testkit.Healthy(t, lists)
		}
	})
	writers.Wait()
	stop()
	readers.Wait()
	equal(t, stay, testkit.Collect(t, lists.All(t.Context(), 1)))
	testkit.Healthy(t, lists)
	if n := testkit.Count(t, db.Collection("extras"), bson.D{}); n > 0 {
		t.Errorf("%d overflow documents: not folded back", n)
	}
}

// A parent that is deleted while others add leaves nothing behind.
func TestConcurrentDelete(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	for round := range 6 {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: round}})
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for x := range 10 {
					if _, err := lists.Add(t.Context(), round, x); err != nil {
						if !errors.Is(err, mongopatterns.ErrNotFound) {
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
	if n := testkit.Count(t, db.Collection("parents"), bson.D{}) + testkit.Count(t, db.Collection("extras"), bson.D{}); n > 0 {
		t.Error(n)
	}
}

var errAbort = errors.New("abort")

// All calls join the caller's transaction, and see what it has written.
func TestJoinedTransaction(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: isSet})
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}})
		add(t, lists, 1, ints(0, 8)...)
		dump := func() []bson.D {
			return append(stored(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}), stored(t, db.Collection("extras"), bson.D{{Key: "n", Value: 1}})...)
		}
		before := dump()
		for _, want := range []error{errAbort, nil} {
			err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
				for _, id := range []int{1, 2} {
					if n, err := lists.Add(ctx, id, ints(10, 20)...); err != nil || n != 10 {
						return fmt.Errorf("%d added, %w", n, err)
					}
				}
				for x, want := range map[int]bool{0: true, 18: true, 77: false} {
					if removed, err := lists.Remove(ctx, 1, x); err != nil || removed != want {
						return fmt.Errorf("%d removed %v, %w", x, removed, err)
					}
				}
				for x, want := range map[int]bool{0: false, 1: true, 19: true} {
					if held, err := lists.Contains(ctx, 1, x); err != nil || held != want {
						return fmt.Errorf("%d: %v, %w", x, held, err)
					}
				}
				all := slices.Concat(ints(1, 8), ints(10, 18), ints(19, 20))
				items := []int{}
				for x, err := range lists.All(ctx, 1) {
					if err != nil {
						return err
					}
					items = append(items, x)
				}
				equal(t, all, items)
				page, err := lists.Slice(ctx, 1, 2, 9)
				equal(t, all[2:11], page.Items)
				if err != nil {
					return errors.Join(err, want)
				}
				_, err = lists.Repair(ctx, nil)
				if err != nil {
					return errors.Join(err, want)
				}
				err = lists.Delete(ctx, 2)
				return errors.Join(err, want)
			})
			if !errors.Is(err, want) {
				t.Fatal(err)
			}
			if want != nil {
				equal(t, before, dump())
			}
		}
		testkit.Healthy(t, lists)
	}
}

// An Add or Remove gives up after 100 attempts if others change the list between each read and
// write, and has written nothing. A read gives up if they change it between each two of its parts.
func TestContention(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *outlier.Lists[int, int]) error{
		"add":    func(ctx context.Context, l *outlier.Lists[int, int]) error { _, err := l.Add(ctx, 1, 99); return err },
		"remove": func(ctx context.Context, l *outlier.Lists[int, int]) error { _, err := l.Remove(ctx, 1, 3); return err },
		"all":    func(ctx context.Context, l *outlier.Lists[int, int]) error { return testkit.Drain(l.All(ctx, 1)) },
		"slice": func(ctx context.Context, l *outlier.Lists[int, int]) error {
			return testkit.ErrorOf(l.Slice(ctx, 1, 0, 2))
		},
		"contains": func(ctx context.Context, l *outlier.Lists[int, int]) error {
			return testkit.ErrorOf(l.Contains(ctx, 1, 99))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes := name == "add" || name == "remove"
			var parents *mongo.Collection // of another client
			attempts := 0
			hooked := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
				Started: func(_ context.Context, e *event.CommandStartedEvent) {
					commands, of := []string{"update", "findAndModify"}, "parents"
					if !writes {
						commands, of = []string{"find", "aggregate"}, "extras"
					}
					if coll, _ := e.Command.Lookup(e.CommandName).StringValueOK(); !slices.Contains(commands, e.CommandName) || coll != of {
						return
					}
					// Typical for each transaction, an outlier with a new token for each plain write.
					change := bson.D{{Key: "$set", Value: bson.D{{Key: "items_overflow", Value: true}, {Key: "items_outside", Value: 3}, {Key: "items_moved", Value: bson.NewObjectID()}}}}
					if !writes || e.Command.Lookup("autocommit").IsZero() {
						attempts++
					} else {
						change = bson.D{{Key: "$unset", Value: bson.D{{Key: "items_overflow", Value: 1}, {Key: "items_outside", Value: 1}, {Key: "items_moved", Value: 1}}}}
					}
					if _, err := parents.UpdateByID(context.Background(), 1, change); err != nil {
						t.Error(err)
					}
				},
			}))
			db := mongotest.Database(t).Client().Database(hooked.Name())
			insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
			add(t, newLists[int, int](t, db, &outlier.Options{MaxCount: 5, Set: true}), 1, ints(0, 6)...)
			parents = db.Collection("parents")
			lists := newLists[int, int](t, hooked, &outlier.Options{MaxCount: 5, Set: true})
			err := call(t.Context(), lists)
			if !errors.Is(err, mongopatterns.ErrConflict) || !strings.Contains(err.Error(), "the list has changed 100 times meanwhile") || attempts != 100 {
				t.Errorf("%d attempts: %v", attempts, err)
			}
			if mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
				t.Error("not known to have written nothing")
			}
		})
	}
}
