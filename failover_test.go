package mongopatterns_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// workload writes to one pattern through elections and then says whether what is stored is
// what was acknowledged.
type workload struct {
	name string
	// start makes the helper. step is one write, numbered from 0; it may be repeated with the
	// same number after an unknown outcome, as docs/failures.md says. verify gets how many
	// steps were acknowledged.
	start func(t *testing.T, db *mongo.Database) (step func(ctx context.Context, n int) error, verify func(t *testing.T, steps int))
}

// done takes errors that say that a repeated step was done before.
func done(err error, before ...error) error {
	for _, b := range before {
		if errors.Is(err, b) {
			return nil
		}
	}
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func nothingWrong(t *testing.T, checkers ...mongopatterns.Checker) {
	t.Helper()
	for p, err := range mongopatterns.CheckAll(t.Context(), checkers...) {
		t.Error(p, err)
	}
}

func ids(t *testing.T, coll *mongo.Collection, filter any) []int {
	t.Helper()
	var docs []struct {
		ID int `bson:"_id"`
	}
	cursor, err := coll.Find(t.Context(), filter, options.Find().SetSort(bson.M{"_id": 1}).SetProjection(bson.M{"_id": 1}))
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := []int{}
	for _, d := range docs {
		out = append(out, d.ID)
	}
	return out
}

func upTo(n int) []int {
	out := []int{}
	for i := range n {
		out = append(out, i)
	}
	return out
}

var workloads = []workload{
	{"relation", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		people, tasks := db.Collection("rel_people"), db.Collection("rel_tasks")
		r := must(relation.New[string, int, bson.M](people, tasks, &relation.Options{Children: "tasks", Owner: "owner"}))
		ensure(t, r.EnsureIndexes(t.Context()))
		ensure(t, errorOf(people.InsertMany(t.Context(), []any{bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}})))
		step := func(ctx context.Context, n int) error {
			if err := done(errorOf(r.Insert(ctx, "Ann", bson.M{"_id": n}))); err != nil {
				return err
			}
			return r.Transfer(ctx, n, []string{"Ann", "Bob"}[n%2])
		}
		return step, func(t *testing.T, n int) {
			nothingWrong(t, r)
			if got := ids(t, tasks, bson.M{}); !slices.Equal(got, upTo(n)) {
				t.Errorf("tasks %v of %d", got, n)
			}
			ann, bob := must(r.Of(t.Context(), "Ann", nil)), must(r.Of(t.Context(), "Bob", nil))
			if len(ann.Items) != (n+1)/2 || len(bob.Items) != n/2 {
				t.Errorf("%d and %d of %d", len(ann.Items), len(bob.Items), n)
			}
		}
	}},
	{"computed", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		screenings, films := db.Collection("comp_screenings"), db.Collection("comp_films")
		c := must(computed.New[int, string, bson.M](screenings, films, &computed.Options{
			Key: "film", Additive: true, Empty: bson.D{{Key: "viewers", Value: 0}},
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
		}))
		ensure(t, c.EnsureIndexes(t.Context()))
		ensure(t, errorOf(films.InsertOne(t.Context(), bson.M{"_id": "Dumbo"})))
		step := func(ctx context.Context, n int) error {
			return done(c.Change(ctx, []int{n}, func(ctx context.Context) error {
				return errorOf(screenings.InsertOne(ctx, bson.M{"_id": n, "film": "Dumbo", "viewers": n}))
			}))
		}
		return step, func(t *testing.T, n int) {
			nothingWrong(t, c)
			if film := must(c.Get(t.Context(), "Dumbo", time.Hour)); fmt.Sprint(film["viewers"]) != fmt.Sprint(n*(n-1)/2) {
				t.Errorf("%v of %d", film, n)
			}
		}
	}},
	{"prealloc", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		g := must(prealloc.New[int, int](db.Collection("prealloc"), nil))
		step := func(ctx context.Context, n int) error {
			if err := done(g.Create(ctx, n, nil, prealloc.Row("A", 4)...)); err != nil {
				return err
			}
			return g.Claim(ctx, n, n, prealloc.Row("A", 2)...)
		}
		return step, func(t *testing.T, n int) {
			for i := range n {
				if counts := must(g.Counts(t.Context(), i)); counts[0].Claimed != 2 || counts[0].Free != 2 {
					t.Errorf("%d: %v", i, counts)
				}
			}
		}
	}},
	{"approx", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		c := must(approx.New[string](db.Collection("approx"), &approx.Options{Every: 7}))
		step := func(ctx context.Context, _ int) error { return c.Add(ctx, "views", 1) }
		return step, func(t *testing.T, n int) {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			// A write without an answer may count twice, and none may be missing.
			if got := must(c.Get(t.Context(), "views")); got < int64(n) {
				t.Errorf("%d of %d", got, n)
			}
		}
	}},
	{"schemaversion", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		coll := db.Collection("contacts")
		v := must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
			return append(doc, bson.E{Key: "up", Value: 1}), nil
		}}}, &schemaversion.Options{Lease: time.Second}))
		step := func(ctx context.Context, n int) error {
			if err := done(errorOf(coll.InsertOne(ctx, bson.M{"_id": n}))); err != nil {
				return err
			}
			if err := v.Update(ctx, n, bson.M{"$set": bson.M{"seen": true}}); err != nil || n%5 != 0 {
				return err
			}
			return done(errorOf(v.Migrate(ctx, v.Newest(), nil)), schemaversion.ErrRunning)
		}
		return step, func(t *testing.T, n int) {
			if got := ids(t, coll, bson.M{"schema_version": 2, "up": 1, "seen": true}); !slices.Equal(got, upTo(n)) {
				t.Errorf("%v of %d", got, n)
			}
		}
	}},
}

func ensure(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// Every pattern writes through elections on three members. What was acknowledged is there,
// once; what was not is repeated as docs/failures.md says.
func TestFailover(t *testing.T) {
	server := mongotest.ReplicaSet(t, 3)
	db := server.Database(t)
	stop := make(chan struct{})
	type running struct {
		steps  int
		err    error
		verify func(*testing.T, int)
	}
	all := map[string]*running{}
	var group sync.WaitGroup
	for _, w := range workloads {
		step, verify := w.start(t, db)
		r := &running{verify: verify}
		all[w.name] = r
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				for range 20 { // a step may meet one election after another
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					err = step(ctx, n)
					cancel()
					if err == nil {
						break
					}
				}
				if err != nil {
					r.err = fmt.Errorf("step %d: %w", n, err)
					return
				}
				r.steps = n + 1
				time.Sleep(20 * time.Millisecond) // leave the other packages some of two cores
			}
		})
	}
	for range 4 {
		time.Sleep(2 * time.Second)
		if err := server.StepDown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if primary, err := server.Primary(t.Context()); err != nil {
		t.Error(err)
	} else if err := errors.Join(primary.Kill(), primary.Restart(t.Context())); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Second)
	close(stop)
	group.Wait()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := all[name]
			if r.err != nil {
				t.Fatal(r.err)
			}
			if r.steps == 0 {
				t.Fatal("no step was acknowledged")
			}
			t.Logf("%d steps", r.steps)
			r.verify(t, r.steps)
		})
	}
}

// Without a primary every kind of call ends with its context, and not half a minute later.
func TestDeadlines(t *testing.T) {
	server := mongotest.ReplicaSet(t, 3)
	db := server.Database(t, options.Client().SetTimeout(5*time.Second))
	people, tasks := db.Collection("people"), db.Collection("tasks")
	r := must(relation.New[string, int, bson.M](people, tasks, &relation.Options{Children: "tasks", Owner: "owner"}))
	var docs []any
	for i := range 500 {
		docs = append(docs, bson.M{"_id": i, "owner": "Ann"})
	}
	ensure(t, errorOf(tasks.InsertMany(t.Context(), docs)))
	ensure(t, errorOf(people.InsertOne(t.Context(), bson.M{"_id": "Ann"})))
	primary := must(server.Primary(t.Context()))
	// A check that is under way when the primary goes.
	for range r.Check(t.Context(), &mongopatterns.Work{BatchSize: 10}) {
		for _, m := range server.Members() {
			ensure(t, m.Pause())
		}
		break
	}
	defer func() {
		for _, m := range server.Members() {
			if err := m.Resume(); err != nil {
				t.Error(err)
			}
		}
		_ = primary
	}()
	for name, call := range map[string]func(ctx context.Context) error{
		"transaction": func(ctx context.Context) error { return r.Link(ctx, "Ann", 1, 2) },
		"write": func(ctx context.Context) error {
			return errorOf(tasks.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"a": 1}}))
		},
		"read": func(ctx context.Context) error { return errorOf(r.Of(ctx, "Ann", nil)) },
		"check": func(ctx context.Context) (last error) {
			for _, last = range r.Check(ctx, nil) {
			}
			return last
		},
	} {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := call(ctx)
		cancel()
		if took := time.Since(start); err == nil || took > 8*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		if errors.Is(err, mongopatterns.ErrConflict) {
			t.Errorf("%s: a deadline passes for a conflict: %v", name, err)
		}
	}
}
