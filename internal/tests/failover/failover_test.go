package failover_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// running is a workload under way.
type running struct {
	steps  atomic.Int64 // acknowledged
	again  int          // how often a step had to be repeated
	err    error
	ended  chan struct{}
	verify func(*testing.T, int)
}

// run makes steps until stop is closed.
func (r *running) run(step func(ctx context.Context, n int) error, stop chan struct{}) {
	defer close(r.ended)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		var err error
		for try := range 20 { // a step may meet one election after another
			// The driver would sit out an election by itself. The first tries are so short
			// that the election outlasts them: unknown outcomes, to be repeated.
			ctx, cancel := context.WithTimeout(context.Background(), min(250*time.Millisecond<<try, 10*time.Second))
			err = step(ctx, n)
			cancel()
			if err == nil {
				break
			}
			r.again++
		}
		if err != nil {
			r.err = fmt.Errorf("step %d: %w", n, err)
			return
		}
		r.steps.Store(int64(n + 1))
	}
}

// on waits until every workload has done a step more, or has ended.
func on(all map[string]*running) {
	for _, r := range all {
		for before := r.steps.Load(); r.steps.Load() == before; {
			select {
			case <-r.ended:
				before = -1
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// Every pattern writes through elections on three members. What was acknowledged is there,
// once; what was not is repeated as docs/failures.md says.
func TestFailover(t *testing.T) {
	t.Parallel()
	server := mongotest.ReplicaSet(t, 3)
	db := server.Database(t)
	stop := make(chan struct{})
	all := map[string]*running{}
	for _, p := range registry.Patterns() {
		if p.Steps == nil {
			continue
		}
		step, verify := p.Steps(t, db)
		r := &running{verify: verify, ended: make(chan struct{})}
		all[p.Package] = r
		go r.run(step, stop)
	}
	on(all)
	for range scale.Of(1, 4, 25) {
		if err := server.StepDown(t.Context()); err != nil {
			t.Error(err)
		}
		on(all)
	}
	if primary, err := server.Primary(t.Context()); err != nil {
		t.Error(err)
	} else if err := errors.Join(primary.Kill(), primary.Restart(t.Context())); err != nil {
		t.Error(err)
	}
	on(all)
	close(stop)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := all[name]
			<-r.ended
			if r.err != nil {
				t.Fatal(r.err)
			}
			t.Logf("%d steps, %d repeated", r.steps.Load(), r.again)
			r.verify(t, int(r.steps.Load()))
		})
	}
}

// Without a primary every kind of call ends with its context, and not half a minute later.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	server := mongotest.ReplicaSet(t, 3)
	db := server.Database(t, options.Client().SetTimeout(5*time.Second))
	people, tasks := db.Collection("people"), db.Collection("tasks")
	r := testkit.Must(relation.New[string, int, bson.M](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"}))
	var docs []any
	for i := range 500 {
		docs = append(docs, bson.M{"_id": i, "owner": "Ann"})
	}
	patient, cancel := context.WithTimeout(t.Context(), time.Minute) // replaces the Timeout
	defer cancel()
	testkit.OK(t, testkit.ErrorOf(tasks.InsertMany(patient, docs)))
	testkit.OK(t, testkit.ErrorOf(people.InsertOne(patient, bson.M{"_id": "Ann"})))
	// A check that is under way when the primary goes.
	for range r.Check(patient, &mongopatterns.Work{BatchSize: 10}) {
		for _, m := range server.Members() {
			testkit.OK(t, m.Pause())
		}
		break
	}
	defer func() {
		for _, m := range server.Members() {
			if err := m.Resume(); err != nil {
				t.Error(err)
			}
		}
	}()
	var group sync.WaitGroup
	for name, call := range map[string]func(ctx context.Context) error{
		"transaction": func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2) },
		"write": func(ctx context.Context) error {
			return testkit.ErrorOf(tasks.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"a": 1}}))
		},
		"read": func(ctx context.Context) error { return testkit.ErrorOf(r.Children(ctx, "Ann", nil)) },
		"check": func(ctx context.Context) (last error) {
			for _, last = range r.Check(ctx, nil) {
			}
			return last
		},
	} {
		group.Go(func() {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			cancel()
			if took := time.Since(start); err == nil || took > 20*time.Second {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if errors.Is(err, mongopatterns.ErrConflict) {
				t.Errorf("%s: a deadline passes for a conflict: %v", name, err)
			}
		})
	}
	group.Wait()
}

// A primary that stops in the middle of a commit: the call returns with its context and says
// that it does not know, with a Timeout of the client and without; and the transaction is done
// or not, never in part.
func TestPausedCommit(t *testing.T) {
	t.Parallel()
	server := mongotest.ReplicaSet(t, 3)
	for name, opts := range map[string]*options.ClientOptions{
		"default": options.Client(),
		"Timeout": options.Client().SetTimeout(700 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			db := server.Database(t, opts)
			primary := testkit.Must(server.Primary(t.Context()))
			var coll *mongo.Collection
			both := func(ctx context.Context) error {
				return testkit.ErrorOf(coll.InsertMany(ctx, []any{bson.M{"_id": 1}, bson.M{"_id": 2}}))
			}
			var err error
			paused := false
			// On a busy machine the deadline may pass before the commit, and a process that gets
			// its signal may still answer for some milliseconds: then again, with another collection.
			for within := 1500 * time.Millisecond; !paused || err == nil; within += time.Second {
				coll = db.Collection(fmt.Sprint(within))
				patient, ready := context.WithTimeout(t.Context(), time.Minute) // replaces the Timeout: there may be no primary yet
				testkit.OK(t, testkit.ErrorOf(coll.InsertOne(patient, bson.M{"_id": 0})))
				ready()
				ctx, cancel := context.WithTimeout(t.Context(), within)
				start, result := time.Now(), make(chan error, 1)
				go func() {
					result <- mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
						if err := both(ctx); err != nil {
							return err
						}
						paused = true
						return primary.Pause()
					})
				}()
				hung := false
				select {
				case err = <-result:
				case <-time.After(within + 8*time.Second): // what hangs does so for 20 s
					hung = true
				}
				took := time.Since(start)
				testkit.OK(t, primary.Resume())
				if hung {
					err = <-result
					t.Errorf("no end %v after a start with %v", took, within)
				}
				cancel()
				t.Logf("%v after %v of %v: %v", mongopatterns.OutcomeOf(err), took, within, err)
				if within > 20*time.Second {
					t.Fatal("the primary never stopped before its answer")
				}
			}
			outcome := mongopatterns.OutcomeOf(err)
			if outcome == mongopatterns.Done || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", outcome, err)
			}
			stored := func() int {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // as above
				defer cancel()
				var docs []bson.M
				testkit.OK(t, mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
					cursor, err := coll.Find(ctx, bson.M{"_id": bson.M{"$gt": 0}})
					if err != nil {
						return err
					}
					return cursor.All(ctx, &docs)
				}))
				return len(docs)
			}
			if n := stored(); n == 1 || n == 2 && outcome == mongopatterns.NotDone {
				t.Errorf("%v, and %d of 2 are there", outcome, n)
			}
			// Its documents do not stay locked, and the repetition is refused or does it.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := mongopatterns.Transact(ctx, db.Client(), both); err != nil && !mongo.IsDuplicateKeyError(err) {
				t.Error(err)
			}
			if n := stored(); n != 2 {
				t.Errorf("%d of 2 are there after the repetition", n)
			}
		})
	}
}
