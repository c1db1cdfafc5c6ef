// Package exactlyonce tests OutcomeOf: a program adds elements through broken commands and elections, and knows the outcome
// of a call from OutcomeOf alone. It uses the library as any program does.
package exactlyonce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// ids are the _ids of all documents.
func ids(t *testing.T, coll *mongo.Collection) (out []int) {
	t.Helper()
	var docs []struct {
		ID int `bson:"_id"`
	}
	testkit.OK(t, testkit.Must(coll.Find(t.Context(), bson.D{}, options.Find().SetProjection(bson.M{"_id": 1}))).All(t.Context(), &docs))
	for _, d := range docs {
		out = append(out, d.ID)
	}
	return out
}

// adder adds elements, each with an ID, to one pattern.
type adder struct {
	name    string
	indexes func(ctx context.Context) error
	// add reports whether this call stored the element.
	add func(ctx context.Context, id int) (bool, error)
	// held looks for the element with read concern majority.
	held func(ctx context.Context, id int) (bool, error)
	// check compares what is stored with the IDs, in any order, that were added.
	check func(t *testing.T, want []int)
}

// firstTry is shorter than an election.
const firstTry = 400 * time.Millisecond

// parents are those of the elements of each pattern.
const parents = 5

// adders are one of a transaction and two of a single document.
func adders(t *testing.T, db *mongo.Database) []adder {
	safe := db.Client().Database(db.Name(), options.Database().SetReadConcern(readconcern.Majority()))
	found := func(ctx context.Context, coll, path string, id int) (bool, error) {
		n, err := safe.Collection(coll).CountDocuments(ctx, bson.D{{Key: path, Value: id}})
		return n > 0, err
	}
	items := testkit.Must(subset.New[int, bson.M](db.Collection("once_parents"), db.Collection("once_items"),
		&subset.Options{N: 3, Values: []subset.Value{{Field: "rating", Sum: "ratings"}}}))

	type reading struct {
		ID, Value int
		Timestamp time.Time
	}
	first := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	buckets := testkit.Must(bucket.New[int, reading](db.Collection("once_buckets"), timeseries.Every(time.Hour),
		&bucket.Options{IDField: "id", MaxCount: 17, Values: []timeseries.Value{{Field: "value", Sum: "sum"}}}))

	set := &outlier.Options{Set: true, MaxCount: 30, OverflowMaxCount: 50}
	lists := testkit.Must(outlier.New[int, int](db.Collection("once_lists"), db.Collection("once_lists_more"), set))
	look := testkit.Must(outlier.New[int, int](safe.Collection("once_lists"), safe.Collection("once_lists_more"), set))

	return []adder{
		{
			"subset", items.EnsureIndexes,
			func(ctx context.Context, id int) (bool, error) {
				_, err := items.Insert(ctx, id%parents, bson.M{"_id": id, "rating": id})
				return err == nil, err
			},
			func(ctx context.Context, id int) (bool, error) { return found(ctx, "once_items", "_id", id) },
			func(t *testing.T, want []int) {
				testkit.Healthy(t, items) // counts, sums and the kept items, compared with the items
				same(t, ids(t, db.Collection("once_items")), want)
			},
		},
		{
			"bucket", buckets.EnsureIndexes,
			func(ctx context.Context, id int) (bool, error) {
				return buckets.Append(ctx, id%parents, reading{id, id, first.Add(time.Duration(id) * time.Minute)})
			},
			func(ctx context.Context, id int) (bool, error) {
				return found(ctx, "once_buckets", "measurements.id", id)
			},
			func(t *testing.T, want []int) {
				testkit.Healthy(t, buckets)
				var got []int
				for series := range parents {
					for m, err := range buckets.Range(t.Context(), series, time.Time{}, time.Time{}) {
						testkit.OK(t, err)
						got = append(got, m.ID)
					}
				}
				same(t, got, want)
			},
		},
		{
			"outlier", lists.EnsureIndexes,
			func(ctx context.Context, id int) (bool, error) {
				n, err := lists.Add(ctx, id%parents, id)
				return n == 1, err
			},
			func(ctx context.Context, id int) (bool, error) { return look.Contains(ctx, id%parents, id) },
			func(t *testing.T, want []int) {
				testkit.Healthy(t, lists)
				var got []int
				total := int64(0)
				for list := range parents {
					for id, err := range lists.All(t.Context(), list) {
						testkit.OK(t, err)
						got = append(got, id)
					}
					total += testkit.Must(lists.Total(t.Context(), list))
				}
				same(t, got, want)
				if total != int64(len(want)) {
					t.Errorf("in all %d, want %d", total, len(want))
				}
			},
		},
	}
}

// prepare makes the indexes, and the parents that adders add to.
func prepare(t *testing.T, db *mongo.Database) {
	for _, coll := range []string{"once_parents", "once_lists"} {
		var docs []any
		for id := range parents {
			docs = append(docs, bson.M{"_id": id})
		}
		_, err := db.Collection(coll).InsertMany(t.Context(), docs)
		testkit.OK(t, err)
	}
	for _, a := range adders(t, db) {
		testkit.OK(t, a.indexes(t.Context()))
	}
}

// same compares IDs in any order: a doubled or missing one is named.
func same(t *testing.T, got, want []int) {
	t.Helper()
	times := map[int]int{}
	for _, id := range got {
		times[id]++
	}
	for _, id := range want {
		if times[id] != 1 {
			t.Errorf("%d is there %d times", id, times[id])
		}
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("not added, but there: %v", times)
	}
}

// tally counts what became of the calls.
type tally struct {
	calls, notDone, unknown int
	found                   int // by a look after Unknown
	known                   int // repetitions that were refused or did nothing
}

// addOnce adds an element by the outcomes alone: NotDone is repeated, and after Unknown it
// is looked for first. A write without an answer can be applied after the look, so that the
// repetition meets its own element: that is right after Unknown, and never after NotDone.
func addOnce(a adder, id int, n *tally) error {
	unknown := false
	for try := range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), firstTry<<min(try, 5))
		stored, err := a.add(ctx, id)
		cancel()
		n.calls++
		outcome, known := mongopatterns.OutcomeOf(err), err == nil && !stored || mongo.IsDuplicateKeyError(err)
		if outcome == mongopatterns.Unknown {
			n.unknown++
			unknown = true
		} else if known {
			n.known++
			if !unknown {
				return fmt.Errorf("%d is there, but no call was Done or Unknown; the last returned %v", id, err)
			}
		}
		if outcome == mongopatterns.Done {
			return nil
		}
		if outcome == mongopatterns.NotDone && !known {
			n.notDone++
			continue
		}
		// What refused a transaction may still be rolled back: it is looked for, too.
		held, err := lookFor(a, id)
		if err != nil {
			return fmt.Errorf("look for %d: %w", id, err)
		}
		if held {
			n.found++
			return nil
		}
	}
	return fmt.Errorf("%d: no end", id)
}

// lookFor reads until it gets an answer.
func lookFor(a adder, id int) (held bool, err error) {
	for try := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), firstTry<<min(try, 5))
		held, err = a.held(ctx, id)
		cancel()
		if err == nil {
			return held, nil
		}
	}
	return false, err
}

// addAll adds n elements by several writers, who take turns at the clients. before is
// called with each element's number before it is handed to a writer.
func addAll(t *testing.T, n int, clients []*mongo.Database, before func(id int)) {
	const writers = 8
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		tallies = map[string]*tally{}
		errs    []error
		work    = make(chan int)
	)
	for w := range writers {
		all := adders(t, clients[w%len(clients)])
		group.Go(func() {
			for id := range work {
				a := all[id%len(all)]
				one := tally{}
				err := addOnce(a, id, &one)
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", a.name, err))
				}
				if tallies[a.name] == nil {
					tallies[a.name] = &tally{}
				}
				sum := tallies[a.name]
				sum.calls += one.calls
				sum.notDone += one.notDone
				sum.unknown += one.unknown
				sum.found += one.found
				sum.known += one.known
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	for id := range n {
		before(id)
		work <- id
	}
	close(work)
	group.Wait()
	t.Logf("%d elements in %v", n, time.Since(start).Round(time.Millisecond))
	for name, sum := range tallies {
		t.Logf("%s: %+v", name, *sum)
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// checkAll looks at what addAll has stored.
func checkAll(t *testing.T, db *mongo.Database, n int) {
	all := adders(t, db)
	for k, a := range all {
		t.Run(a.name, func(t *testing.T) {
			var want []int
			for id := k; id < n; id += len(all) {
				want = append(want, id)
			}
			a.check(t, want)
		})
	}
}

// broken breaks one command of ten, each in one of the ways that it can meet.
func broken(seed uint64) proxy.Rule {
	random := rand.New(rand.NewPCG(seed, 0))
	// The server gets the command when the caller has given it up, and looks.
	late := proxy.Fault{Before: func() { time.Sleep(firstTry + 5*time.Millisecond) }}
	return func(c proxy.Command) *proxy.Fault {
		if random.IntN(10) > 0 {
			return nil
		}
		faults := []proxy.Fault{proxy.CloseBefore, proxy.CloseAfter, proxy.SilentBefore, proxy.SilentAfter, late,
			proxy.Refuse(proxy.NotWritablePrimary), proxy.Refuse(proxy.ShutdownInProgress)}
		if c.Name == "commitTransaction" || !c.InTransaction() && slices.Contains([]string{"insert", "update", "findAndModify"}, c.Name) {
			faults = append(faults, proxy.ConcernError(proxy.WriteConcernTimeout), proxy.ConcernError(proxy.ShutdownInProgress))
		}
		// Not to a commit: no server has a conflict in one that it repeats, and has done.
		if c.InTransaction() && c.Name != "commitTransaction" {
			faults = append(faults, proxy.Refuse(proxy.WriteConflict), proxy.RefuseBare(proxy.WriteConflict))
		}
		return &faults[random.IntN(len(faults))]
	}
}

// A program that goes by OutcomeOf alone adds elements exactly once: through answers that do
// not come, connections that are closed, refusals, errors of the write concern, and
// elections; with the driver's repetitions and without them.
func TestExactlyOnce(t *testing.T) {
	n := scale.Of(40, 300, 5000)
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		p := proxy.New(t, mongotest.URI(t))
		db := mongotest.Database(t)
		prepare(t, db)
		through := func(opts *options.ClientOptions) *mongo.Database {
			return mongotest.Database(t, opts, p.Options()).Client().Database(db.Name())
		}
		clients := []*mongo.Database{through(options.Client()), through(options.Client().SetRetryWrites(false))}
		p.Break(broken(scale.Seed()))
		addAll(t, n, clients, func(int) {})
		p.Break(nil)
		p.Settle()
		checkAll(t, db, n)
	})
	t.Run("elections", func(t *testing.T) {
		t.Parallel()
		server := mongotest.ReplicaSet(t, 3)
		db := server.Database(t)
		prepare(t, db)
		clients := []*mongo.Database{db, server.Database(t, options.Client().SetRetryWrites(false)).Client().Database(db.Name())}
		every := max(n/25, min(n, 60))
		var elections sync.WaitGroup
		addAll(t, n, clients, func(id int) {
			if id%every == every/2 {
				elections.Wait()
				elections.Go(func() {
					if err := server.StepDown(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		})
		elections.Wait()
		checkAll(t, db, n)
	})
}
