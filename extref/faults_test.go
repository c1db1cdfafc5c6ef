package extref_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// broken breaks n commands of these names, after the first skip.
func broken(skip, n int, fault proxy.Fault, names ...string) proxy.Rule {
	return met(new(atomic.Int64), skip, n, fault, func(c proxy.Command) bool { return slices.Contains(names, c.Name) })
}

// met breaks n of the commands that are meant, after the first skip, and counts all that are meant.
func met(count *atomic.Int64, skip, n int, fault proxy.Fault, meant func(proxy.Command) bool) proxy.Rule {
	return func(c proxy.Command) *proxy.Fault {
		if !meant(c) {
			return nil
		}
		if i := int(count.Add(1)) - 1; i < skip || i >= skip+n {
			return nil
		}
		return &fault
	}
}

// disturbed is a database behind a proxy, for a client that does not try again by itself. The proxy breaks the
// commands of this client alone, so that other tests run beside. After an error like in an election the client goes
// on at once: it would wait for its next look at the server if that were another one.
func disturbed(t *testing.T) (*mongo.Database, *proxy.Proxy) {
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, options.Client().SetRetryReads(false).SetRetryWrites(false), p.Options())
	t.Cleanup(func() { p.Break(nil) })
	return db, p
}

// A document that a propagation could neither write nor read counts as nothing.
func TestPropagateCutOffBeforeItLooks(t *testing.T) {
	t.Parallel()
	db, p := disturbed(t)
	r, _, orders := orders(t, db, 1, nil)
	must(t)(orders.UpdateOne(bounded(t), d("_id", 100), set("customer.version", 7))) // ahead
	sent := mongotest.Record(t, db, func() {
		diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	})
	look := len(sent.Named("find")) - 1 // the last
	p.Break(broken(look, 1, proxy.CloseBefore, "find"))
	result, err := r.Propagate(t.Context(), 1, nil)
	if !mongo.IsNetworkError(err) {
		t.Errorf("%v, want the error of the find", err)
	}
	diff(t, tally{}, result)
}

// Errors as in an election, in every command of Watch and more often than the driver tries again:
// Watch continues, loses nothing, and blames no source.
func TestWatchThroughFaults(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "start"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			client, p := disturbed(t)
			same := client.Client().Database(teams.Database().Name())
			watched, _ := peopleOf(t, same.Collection("teams"), nil, change)
			failed, interrupted := 0, 0
			reconciled, applied := make(chan bool, 10), make(chan bool, 10)
			p.Break(broken(0, 3, proxy.Refuse(proxy.ShutdownInProgress), "find", "aggregate")) // before it has begun
			stop := watching(t, watched, same.Collection("tokens"), &extref.WatchOptions{
				MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { reconciled <- true }, Interrupted: func(error) { interrupted++ },
				Progress: func(r tally) {
					if failed += int(r.Failed); r.Examined > 0 { // and not only what a transaction touched
						applied <- true
					}
				},
			})
			receive(t, reconciled)
			eventually(t, "the first token", func() bool { return len(stored(t, teams.Database().Collection("tokens"))) == 1 })
			again := len(reconciled) // one for each time that the token could not be saved
			steps := map[string]func(proxy.Command) bool{
				"the stream": func(c proxy.Command) bool { return c.Name == "getMore" || c.Name == "aggregate" },
				"reads":      func(c proxy.Command) bool { return c.Name == "find" },
				"copies":     func(c proxy.Command) bool { return c.Name == "update" && c.Collection == "single" },
				"the token":  func(c proxy.Command) bool { return c.Name == "update" && c.Collection == "tokens" },
			}
			if change != nil { // a batch is a transaction
				steps["commits"] = func(c proxy.Command) bool { return c.Name == "commitTransaction" }
			}
			for i, fault := range []proxy.Fault{
				proxy.CloseBefore, proxy.Refuse(11600), proxy.Refuse(proxy.NotWritablePrimary), proxy.Refuse(proxy.ShutdownInProgress),
			} {
				for step, meant := range steps {
					name := fmt.Sprint(step, ", fault ", i)
					var count atomic.Int64
					times := 3
					if i == 0 { // without a connection the driver looks at the server again after half a second
						times = 1
					}
					p.Break(met(&count, 0, times, fault, meant))
					if step == "the stream" { // otherwise the change could come by an answer that is already under way
						eventually(t, name, func() bool { return int(count.Load()) > times })
					}
					must(t)(teams.UpdateByID(bounded(t), 1, d("$set", d("name", name), "$inc", d("version", 1))))
					receive(t, applied) // after the token of this change was saved
					diff(t, name, testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
					if n := int(count.Load()); n <= times {
						t.Errorf("%s: %d commands, want more than the %d that failed", name, n, times)
					}
				}
			}
			stop()
			if failed > 0 || interrupted < 4*2 || len(reconciled) != again {
				t.Errorf("%d sources failed, %d interruptions, %d reconciliations more", failed, interrupted, len(reconciled)-again)
			}
		})
	}
}

// While the server is away Drain fails no entry, and a Watch ends with its context.
func TestFaultsAreNoFailures(t *testing.T) {
	t.Parallel()
	db, p := disturbed(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "x")))
	p.Break(broken(0, 1, proxy.Refuse(proxy.ShutdownInProgress), "find"))
	result, err := r.Drain(bounded(t), nil)
	if err == nil || result.Failed != 0 || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if pending := entries(t, db.Collection("outbox")); len(pending) != 1 || pending[0].Error != "" {
		t.Errorf("%+v", pending)
	}
	must(t)(db.Collection("outbox").UpdateByID(bounded(t), 1, set("due", time.Unix(0, 0)))) // its lease is over
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))

	p.Break(proxy.Each("find", proxy.Refuse(proxy.ShutdownInProgress)))
	ctx, cancel := context.WithTimeout(bounded(t), 300*time.Millisecond)
	defer cancel()
	if err := r.Watch(ctx, db.Collection("tokens"), nil); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "extref: watch: ") {
		t.Error(err)
	}
}

// Transactions that run twice count and write once.
func TestRetriedTransactions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			r, teams, colls := people(t, nil, func(target *extref.Target) {
				target.OnDelete = mongopatterns.Unlink
				if change != nil {
					change(target)
				}
			})
			insert(t, teams, team(1, "a"))
			insert(t, colls[0], d("_id", 1, "team", d("_id", 1)), d("_id", 2, "team", d("_id", 1)))
			fail := func(command string) {
				t.Helper()
				mongotest.FailPoint(t, teams.Database(), mongotest.Fail{Commands: []string{command}, Times: 1, Code: 112, Labels: []string{"TransientTransactionError"}})
			}
			fail("commitTransaction")
			diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
			for _, command := range []string{"update", "commitTransaction"} {
				fail(command)
				result := ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", command)))
				if !result.Changed || result.Copies.Done != 2 {
					t.Errorf("%s: %+v", command, result)
				}
			}
			diff(t, []string{}, problems(t, r))
			fail("commitTransaction")
			diff(t, tally{Done: 2}, ok[tally](t)(r.Delete(t.Context(), 1)))
			diff(t, []bson.D{d("_id", i32(1)), d("_id", i32(2))}, stored(t, colls[0]))
		})
	}
}

// An error after the lease of an entry is taken, or after the version of a source is raised, does not say that nothing
// was written.
func TestOutcomeAfterTheFirstWrite(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, r *extref.Source[int, bson.D]) (mongopatterns.Result, error){
		"drain": func(ctx context.Context, r *extref.Source[int, bson.D]) (mongopatterns.Result, error) {
			return r.Drain(ctx, nil)
		},
		"repair": func(ctx context.Context, r *extref.Source[int, bson.D]) (mongopatterns.Result, error) {
			return r.Repair(ctx, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, p := disturbed(t)
			r, customers, orders := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "x")))
			must(t)(orders.UpdateOne(bounded(t), d("_id", 100), set("customer.version", 7))) // ahead
			colls := []*mongo.Collection{customers, orders, db.Collection("outbox")}
			state := func() (all [][]bson.Raw) {
				for _, coll := range colls {
					all = append(all, testkit.Stored[bson.Raw](t, coll))
				}
				return all
			}
			before := state()
			for at, refused := 0, true; refused; at++ {
				for i, coll := range colls {
					must(t)(coll.DeleteMany(bounded(t), d()))
					testkit.InsertAll(t, coll, before[i])
				}
				count := new(atomic.Int64)
				p.Break(met(count, at, 1, proxy.Refuse(proxy.Unauthorized), func(c proxy.Command) bool { return c.Name != "killCursors" }))
				_, err := call(t.Context(), r)
				p.Break(nil)
				refused = count.Load() > int64(at)
				changed := !reflect.DeepEqual(before, state())
				if changed && err != nil && mongopatterns.OutcomeOf(err) == mongopatterns.NotDone {
					t.Errorf("command %d: something is written, but %v", at, err)
				}
			}
		})
	}
}
