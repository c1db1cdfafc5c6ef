package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// While documents move to and fro, in several processes at once, old programs change, delete and insert live
// documents. A reader of both sides sees each document once, and in the end each has the content of the model:
// every acknowledged update that matched it, and none that did not.
func TestModel(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	const n, writers = 60, 3
	rounds := scale.Of(60, 120, 120)
	var docs []any
	for i := range n {
		docs = append(docs, d("_id", i, "at", on(i%20), "v", 0, "all", bson.A{}))
	}
	testkit.Insert(t, live, docs...)
	var updates [n]struct {
		sync.Mutex
		values []int32
		gone   bool
	}
	var stop atomic.Bool
	var programs, movers sync.WaitGroup
	for w := range writers {
		programs.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for step := range rounds {
				id, value := r.IntN(n), int32(w*rounds+step)
				u := &updates[id]
				switch r.IntN(12) {
				case 0: // it becomes younger, or older
					_, err := live.UpdateByID(t.Context(), id, d("$set", d("at", on(r.IntN(20)))))
					if err != nil {
						t.Error(err)
					}
				case 1: // one that was deleted while it was live is gone for ever
					u.Lock()
					result, err := live.DeleteOne(t.Context(), d("_id", id))
					if err != nil {
						t.Error(err)
					} else if result.DeletedCount == 1 {
						u.gone = true
					}
					u.Unlock()
				default:
					u.Lock()
					result, err := live.UpdateOne(t.Context(), d("_id", id), d("$push", d("all", value), "$inc", d("v", 1)))
					if err != nil {
						t.Error(err)
					} else if result.MatchedCount == 1 {
						u.values = append(u.values, value)
					}
					u.Unlock()
				}
			}
		})
	}
	for m := range 3 {
		movers.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(m)))
			for !stop.Load() {
				var result mongopatterns.Result
				var err error
				work := &mongopatterns.Work{BatchSize: 1 + r.IntN(20)}
				if m == 2 {
					result, err = a.Restore(t.Context(), d("_id", d("$mod", bson.A{3, r.IntN(3)})), work)
				} else {
					result, err = a.Move(t.Context(), a.BeforeFilter(on(r.IntN(20))), work)
				}
				if err != nil || result.Failed > 0 {
					t.Errorf("%+v, %v", result, err)
					return
				}
			}
		})
	}
	movers.Go(func() { // a move under way is no problem
		for !stop.Load() {
			same(t, []string{}, testkit.Problems(t, a))
		}
	})
	movers.Go(func() { // a reader
		for !stop.Load() {
			seen := map[any]int{}
			for _, doc := range snapshot(t, live, archived) {
				seen[doc.Lookup("_id").AsInt64()]++
			}
			for i := range n {
				u := &updates[i]
				u.Lock()
				gone := u.gone
				u.Unlock()
				if c := seen[int64(i)]; c > 1 || c == 0 && !gone {
					t.Errorf("%d is seen %d times", i, c)
				}
			}
		}
	})
	programs.Wait()
	stop.Store(true)
	movers.Wait()

	got := map[int64]bson.Raw{}
	for _, doc := range slices.Concat(stored(t, live), stored(t, archived)) {
		id := doc.Lookup("_id").AsInt64()
		if got[id] != nil {
			t.Errorf("%d is stored twice", id)
		}
		got[id] = doc
	}
	for i := range updates {
		u, doc := &updates[i], got[int64(i)]
		if u.gone {
			if doc != nil {
				t.Errorf("%d was deleted, and is %v", i, doc)
			}
			continue
		}
		var v struct {
			V   int
			All []int32
		}
		if doc == nil {
			t.Errorf("%d is lost", i)
			continue
		}
		testkit.OK(t, bson.Unmarshal(doc, &v))
		if v.V != len(u.values) || !slices.Equal(append([]int32{}, u.values...), append([]int32{}, v.All...)) {
			t.Errorf("%d is %v, want %v", i, doc, u.values)
		}
	}
	same(t, []string{}, testkit.Problems(t, a))
	same(t, testkit.Count(t, archived, all), testkit.Count(t, archived, a.ArchivedFilter()))
}

// snapshot reads both collections at one moment.
func snapshot(t testing.TB, live, archived *mongo.Collection) []bson.Raw {
	t.Helper()
	session, err := live.Database().Client().StartSession(options.Session().SetSnapshot(true))
	testkit.OK(t, err)
	defer session.EndSession(context.Background())
	ctx := mongo.NewSessionContext(t.Context(), session)
	return slices.Concat(read(ctx, t, live, all), read(ctx, t, archived, all))
}

// Moves of the same documents at the same time share the work.
func TestMovesTogether(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	const n = 200
	var docs []any
	for i := range n {
		docs = append(docs, d("_id", i))
	}
	testkit.Insert(t, live, docs...)
	var moved atomic.Int64
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			result, err := a.Move(t.Context(), all, &mongopatterns.Work{BatchSize: 10 + i})
			moved.Add(result.Done)
			if err != nil || result.Failed+result.Unknown+result.Remaining > 0 || result.Done+result.Skipped != result.Examined {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	group.Wait()
	if moved.Load() != n || testkit.Count(t, archived, all) != n || testkit.Count(t, live, all) != 0 {
		t.Errorf("%d moved, %d and %d", moved.Load(), testkit.Count(t, archived, all), testkit.Count(t, live, all))
	}
}

// An update just before the mark is moved along, or keeps its document live; one that comes after it waits and
// then matches nothing.
func TestUpdateMeanwhile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		update  bson.D
		before  bool // the move reads the document first; the update comes before its transaction
		live    bool
		content int32
		matches int64
	}{
		{"before", d("$set", d("v", 2)), true, false, 2, 1},
		{"made younger", d("$set", d("v", 2, "at", on(9))), true, true, 2, 1},
		{"after", d("$set", d("v", 2)), false, false, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, live, archived := orders(t)
			testkit.Insert(t, live, d("_id", 1, "at", on(1), "v", 1))
			matched := make(chan int64, 1)
			update := func() {
				result, err := live.UpdateByID(context.Background(), 1, test.update)
				if err != nil {
					t.Error(err)
					matched <- -1
					return
				}
				matched <- result.MatchedCount
			}
			var err error
			if test.before {
				// The update is in a transaction that is committed once the move has met it.
				session, serr := live.Database().Client().StartSession()
				testkit.OK(t, serr)
				defer session.EndSession(context.Background())
				testkit.OK(t, session.StartTransaction())
				inside := mongo.NewSessionContext(t.Context(), session)
				result, uerr := live.UpdateByID(inside, 1, test.update)
				testkit.OK(t, uerr)
				matched <- result.MatchedCount
				var once sync.Once
				_, err = a.Move(t.Context(), a.BeforeFilter(on(5)), &mongopatterns.Work{Progress: func(r mongopatterns.Result) {
					if r.Conflicts > 0 {
						once.Do(func() { testkit.OK(t, session.CommitTransaction(t.Context())) })
					}
				}})
			} else {
				err = mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
					if _, err := a.Move(ctx, a.BeforeFilter(on(5)), nil); err != nil {
						return err
					}
					go update()
					return waiting(ctx, live)
				})
			}
			testkit.OK(t, err)
			same(t, test.matches, <-matched)
			coll := archived
			if test.live {
				coll = live
			}
			same(t, test.content, field(t, coll, 1, "v").Int32())
			same(t, 1, testkit.Count(t, live, all)+testkit.Count(t, archived, all))
		})
	}
}

// waiting returns once the server has an update of the collection that met a write conflict and waits. It looks for
// half of the time after which the server ends the transaction that is waited for.
func waiting(ctx context.Context, coll *mongo.Collection) error {
	admin := coll.Database().Client().Database("admin")
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		c, err := admin.Aggregate(mongo.NewSessionContext(ctx, nil), mongo.Pipeline{{{Key: "$currentOp", Value: d()}},
			{{Key: "$match", Value: d("ns", coll.Database().Name()+"."+coll.Name(), "op", "update", "writeConflicts", d("$gt", 0))}}})
		if err != nil {
			return err
		}
		var found []bson.Raw
		if err := c.All(ctx, &found); err != nil || len(found) > 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("no update waits")
}

// A program that writes a document again with its old _id does not overwrite the archived one, and the archived
// one does not overwrite it.
func TestInsertedAgain(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	testkit.Insert(t, live, d("_id", 1, "at", on(1), "v", 1))
	done(t, 1)(a.Move(t.Context(), all, nil))
	_, err := live.ReplaceOne(t.Context(), d("_id", 1), d("at", on(2), "v", 2), options.Replace().SetUpsert(true))
	testkit.OK(t, err)
	result, err := a.Move(t.Context(), all, nil)
	if err != nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, fmt.Sprint([]int32{2, 1}), fmt.Sprint([]int32{field(t, live, 1, "v").Int32(), field(t, archived, 1, "v").Int32()}))
	same(t, []string{`archive: orders 1: different: at is {"$date":{"$numberLong":"1704240000000"}}: archived: {"$date":{"$numberLong":"1704153600000"}}`}, testkit.Problems(t, a))
}

// A document that moves away and comes back between the reads of a Check is not reported: it was never on both
// sides.
func TestCheckBesideMoves(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	testkit.Insert(t, live, d("_id", 1, "at", on(1)))
	var finds atomic.Int32
	monitor := &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName != "find" {
			return
		}
		switch finds.Add(1) {
		case 1: // of the live documents
			done(t, 1)(a.Move(context.Background(), all, nil))
		case 3: // of what is in the archive, in the snapshot
			done(t, 1)(a.Restore(context.Background(), all, nil))
		}
	}}
	watched := mongotest.Database(t, options.Client().SetMonitor(monitor)).Client().Database(live.Database().Name())
	same(t, []string{}, testkit.Problems(t, open(t, watched.Collection(live.Name()), watched.Collection(archived.Name()), &archive.Options{TimeField: "at"})))
	same(t, []any{int32(1)}, ids(t, live))
	same(t, true, finds.Load() >= 4)
}

// Two calls meet the same document on both sides, and each would delete the copy that the other relies on. One copy stays.
func TestOppositeWays(t *testing.T) {
	t.Parallel()
	type way = func(a *archive.Archive, ctx context.Context, work *mongopatterns.Work) error
	move := func(a *archive.Archive, ctx context.Context, work *mongopatterns.Work) error {
		return testkit.ErrorOf(a.Move(ctx, bson.D{}, work))
	}
	restore := func(a *archive.Archive, ctx context.Context, work *mongopatterns.Work) error {
		return testkit.ErrorOf(a.Restore(ctx, bson.D{}, work))
	}
	repair := func(a *archive.Archive, ctx context.Context, work *mongopatterns.Work) error {
		return testkit.ErrorOf(a.Repair(ctx, work))
	}
	for name, ways := range map[string][2]way{
		"Move, then Restore": {move, restore}, "Restore, then Move": {restore, move}, "Restore, then Repair": {restore, repair},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, live, archived := orders(t)
			testkit.Insert(t, live, d("_id", 1, "v", 1))
			testkit.Insert(t, archived, d("_id", 1, "v", 1, "archived_at", on(9)))
			beside := sync.OnceValue(func() <-chan error {
				met, ended := make(chan error, 1), make(chan error, 1)
				conflicts := sync.OnceFunc(func() { met <- nil })
				go func() {
					err := ways[1](a, t.Context(), &mongopatterns.Work{Progress: func(r mongopatterns.Result) {
						if r.Conflicts > 0 {
							conflicts()
						}
					}})
					conflicts()
					ended <- err
				}()
				<-met // it waits for the transaction, or it has ended
				return ended
			})
			testkit.OK(t, mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
				if err := ways[0](a, ctx, nil); err != nil {
					return err
				}
				beside()
				return nil
			}))
			testkit.OK(t, <-beside())
			if n := testkit.Count(t, live, bson.D{}) + testkit.Count(t, archived, bson.D{}); n != 1 {
				t.Errorf("%d copies are left", n)
			}
		})
	}
}
