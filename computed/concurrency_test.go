package computed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Writers move, change, create and delete screenings at once, while others refresh, mark,
// drain and read: in the end every total is right, and Check finds nothing in between.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		db, c := cinema(t, opts)
		testkit.Must(c.Adopt(t.Context(), nil))
		stop := make(chan struct{})
		var others, writers sync.WaitGroup
		others.Go(func() {
			for i := 0; ; i++ {
				id := []string{"A", "B", "C"}[i%3]
				var err error
				switch i % 5 {
				case 0:
					_, err = c.Refresh(t.Context(), id)
				case 1:
					err = c.Mark(t.Context(), id)
				case 2:
					_, err = c.Drain(t.Context(), nil)
				case 3:
					_, err = c.Get(t.Context(), id, 0)
				case 4: // someone writes without the package, and the drift is repaired
					_, err = db.Collection("films").UpdateByID(t.Context(), id, bson.M{"$set": bson.M{"viewers": -1}})
					testkit.Must(c.Repair(t.Context(), nil))
				}
				for p, err := range c.Check(t.Context(), nil) {
					t.Error(p, err)
				}
				if err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for w := range 3 {
			writers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 7))
				for range 8 {
					id := random.IntN(15)
					write := set(db, id, bson.M{"film": string("ABC"[random.IntN(3)]), "viewers": random.IntN(100), "theatre": fmt.Sprint(random.IntN(4)), "deleted": random.IntN(4) == 0})
					if random.IntN(5) == 0 {
						write = func(ctx context.Context) error {
							_, err := db.Collection("screenings").DeleteOne(ctx, bson.M{"_id": id})
							return err
						}
					}
					if err := c.Change(t.Context(), []int{id}, write); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		close(stop)
		others.Wait()
		testkit.Must(c.Drain(t.Context(), nil))
		right(t, db, c, opts)
	})
}

// A Change commits between the computation of a Refresh and its write: the old result is
// not stored over the newer one.
func TestAnOldResultOverwritesNoNewerOne(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	db, c := cinema(t, opts)
	testkit.Must(c.Adopt(t.Context(), nil))
	var once sync.Once
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "aggregate" {
			once.Do(func() { check(t, c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": 999}))) })
		}
	}})).Client().Database(db.Name())
	other := testkit.Must(totalsOf[int, string, film](slow.Collection("screenings"), slow.Collection("films"), opts))
	if result := testkit.Must(other.Refresh(t.Context(), "A")); result.Done != 1 {
		t.Errorf("%+v: not computed again", result)
	}
	right(t, db, c, opts)
}

// A source changes and its target is marked while Drain computes that target: Drain does not clear
// this mark.
func TestAMarkDuringAComputationIsDrained(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	opts.Lease = time.Hour
	db, c := cinema(t, opts)
	testkit.Must(c.Adopt(t.Context(), nil))
	var once sync.Once
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "aggregate" {
			once.Do(func() {
				check(t, set(db, 0, bson.M{"viewers": 999})(t.Context()))
				check(t, c.Mark(t.Context(), "A"))
			})
		}
	}})).Client().Database(db.Name())
	worker := testkit.Must(totalsOf[int, string, film](slow.Collection("screenings"), slow.Collection("films"), opts))
	check(t, c.Mark(t.Context(), "A"))
	testkit.Must(worker.Drain(t.Context(), nil))
	if n, err := db.Collection("films").CountDocuments(t.Context(), bson.M{"computed.dirty": true}); n != 0 || err != nil {
		t.Errorf("%d marked films left, %v", n, err)
	}
	right(t, db, c, opts)
}

// A Change commits between the computation of RefreshAll and its write: it stays.
func TestRefreshAllBesideAChange(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*spec{"computed": perFilm(), "added": sums()} {
		t.Run(name, func(t *testing.T) {
			db, c := cinema(t, opts)
			testkit.Must(c.Adopt(t.Context(), nil))
			slow := beside(t, db, func() { check(t, c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": 999}))) })
			other := testkit.Must(totalsOf[int, string, film](slow.Collection("screenings"), slow.Collection("films"), opts))
			if result, err := other.RefreshAll(t.Context(), nil); err != nil || result.Done != 3 {
				t.Errorf("%+v, %v", result, err)
			}
			right(t, db, c, opts)
		})
	}
}

// beside is a database that runs fn after the first of its aggregate commands.
func beside(t *testing.T, db *mongo.Database, fn func()) *mongo.Database {
	var once sync.Once
	return mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "aggregate" {
			once.Do(fn)
		}
	}})).Client().Database(db.Name())
}

// A target that others write between each computation and its store is computed in a transaction that keeps them out.
func TestOthersNeverPause(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	var marks, commits atomic.Int64
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		switch {
		case e.CommandName == "commitTransaction":
			commits.Add(1)
		case e.CommandName == "update" && e.Command.Lookup("autocommit").Type == 0: // of a round, which is sent after this
			marks.Add(1)
			check(t, c.Mark(context.Background(), "A"))
		}
	}}
	busy := mongotest.Database(t, options.Client().SetMonitor(monitor)).Client().Database(db.Name())
	slow := testkit.Must(totalsOf[int, string, film](busy.Collection("screenings"), busy.Collection("films"), perFilm()))
	testkit.Done(t, 1)(slow.Refresh(t.Context(), "A"))
	if marks.Load() != 11 || commits.Load() != 1 {
		t.Errorf("%d rounds, %d transactions", marks.Load(), commits.Load())
	}
	if f, err := c.Get(t.Context(), "A", time.Hour); err != nil || f.Viewers != 90 {
		t.Errorf("%+v, %v", f, err)
	}
}
