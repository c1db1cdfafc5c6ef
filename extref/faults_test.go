package extref_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// impatient is a client that soon looks again at a server which was away.
func impatient() *options.ClientOptions {
	return options.Client().SetServerMonitoringMode(options.ServerMonitoringModePoll).SetHeartbeatInterval(500 * time.Millisecond)
}

// A document that a propagation could neither write nor read counts as nothing.
func TestPropagateCutOffBeforeItLooks(t *testing.T) {
	db := mongotest.Database(t, impatient().SetRetryReads(false))
	r, _, orders := orders(t, db, 1, nil)
	must(t)(orders.UpdateOne(bounded(t), d("_id", 100), set("customer.version", 7))) // ahead
	sent := mongotest.Record(t, db, func() {
		diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	})
	look := len(sent.Named("find")) - 1 // the last
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"find"}, Skip: look, Close: true})
	result, err := r.Propagate(t.Context(), 1, nil)
	if !mongo.IsNetworkError(err) {
		t.Errorf("%v, want the error of the find", err)
	}
	diff(t, tally{}, result)
}

// Errors as in an election, in every command of Watch and more often than the driver tries again:
// Watch continues, loses nothing, and blames no source.
func TestWatchThroughFaults(t *testing.T) {
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "start"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			same := mongotest.Database(t, impatient().SetRetryReads(false).SetRetryWrites(false)).Client().Database(teams.Database().Name())
			watched, _ := peopleOf(t, same.Collection("teams"), nil, change)
			failed, interrupted := 0, 0
			reconciled := make(chan bool, 10)
			fail := func(commands []string, fail mongotest.Fail) {
				t.Helper()
				fail.Commands, fail.Times = commands, 3
				mongotest.FailPoint(t, same, fail)
			}
			fail([]string{"find", "aggregate"}, mongotest.Fail{Code: 91}) // before it has begun
			stop := watching(t, watched, same.Collection("tokens"), &extref.WatchOptions{
				MaxAwait: 20 * time.Millisecond, Progress: func(r tally) { failed += int(r.Failed) },
				Reconciled: func(tally) { reconciled <- true }, Interrupted: func(error) { interrupted++ },
			})
			receive(t, reconciled)
			eventually(t, "the first token", func() bool { return len(stored(t, teams.Database().Collection("tokens"))) == 1 })
			again := len(reconciled) // one for each time that the token could not be saved
			all := []string{"getMore", "aggregate", "find", "update", "commitTransaction"}
			for i, fault := range []mongotest.Fail{{Close: true}, {Code: 11600}, {Code: 10107}, {Code: 91}} {
				for j, commands := range [][]string{all, all[2:]} {
					fail(commands, fault)
					name := fmt.Sprint(i, "/", j)
					must(t)(teams.UpdateByID(bounded(t), 1, d("$set", d("name", name), "$inc", d("version", 1))))
					eventually(t, name, func() bool {
						return testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name") == name
					})
				}
			}
			stop()
			if failed > 0 || interrupted < 4 || len(reconciled) != again {
				t.Errorf("%d sources failed, %d interruptions, %d reconciliations more", failed, interrupted, len(reconciled)-again)
			}
		})
	}
}

// While the server is away Drain fails no entry, and a Watch ends with its context.
func TestFaultsAreNoFailures(t *testing.T) {
	db := mongotest.Database(t, impatient().SetRetryReads(false))
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox"), Lease: time.Nanosecond})
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "x")))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"find"}, Times: 1, Code: 91})
	result, err := r.Drain(bounded(t), nil)
	if err == nil || result.Failed != 0 || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if pending := entries(t, db.Collection("outbox")); len(pending) != 1 || pending[0].Error != "" {
		t.Errorf("%+v", pending)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))

	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"find"}, Code: 91})
	ctx, cancel := context.WithTimeout(bounded(t), 300*time.Millisecond)
	defer cancel()
	if err := r.Watch(ctx, db.Collection("tokens"), nil); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "extref: watch: ") {
		t.Error(err)
	}
}

// Transactions that run twice count and write once.
func TestRetriedTransactions(t *testing.T) {
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
