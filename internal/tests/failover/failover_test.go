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
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
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
		r := testkit.Must(relation.New[string, int, bson.M](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"}))
		testkit.OK(t, r.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(people.InsertMany(t.Context(), []any{bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}})))
		step := func(ctx context.Context, n int) error {
			if err := done(testkit.ErrorOf(r.Insert(ctx, "Ann", bson.M{"_id": n}))); err != nil {
				return err
			}
			return r.Transfer(ctx, n, []string{"Ann", "Bob"}[n%2])
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, r)
			if got := ids(t, tasks, bson.M{}); !slices.Equal(got, upTo(n)) {
				t.Errorf("tasks %v of %d", got, n)
			}
			ann, bob := testkit.Must(r.Children(t.Context(), "Ann", nil)), testkit.Must(r.Children(t.Context(), "Bob", nil))
			if len(ann.Items) != (n+1)/2 || len(bob.Items) != n/2 {
				t.Errorf("%d and %d of %d", len(ann.Items), len(bob.Items), n)
			}
		}
	}},
	{"computed", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		screenings, films := db.Collection("comp_screenings"), db.Collection("comp_films")
		c := testkit.Must(computed.New[int, string, bson.M](screenings, films, computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
			Empty:    bson.D{{Key: "viewers", Value: 0}},
		}, &computed.Options{Additive: true}))
		testkit.OK(t, c.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(films.InsertOne(t.Context(), bson.M{"_id": "Dumbo"})))
		step := func(ctx context.Context, n int) error {
			return done(c.Change(ctx, []int{n}, func(ctx context.Context) error {
				return testkit.ErrorOf(screenings.InsertOne(ctx, bson.M{"_id": n, "film": "Dumbo", "viewers": n}))
			}))
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, c)
			if film := testkit.Must(c.Get(t.Context(), "Dumbo", time.Hour)); fmt.Sprint(film["viewers"]) != fmt.Sprint(n*(n-1)/2) {
				t.Errorf("%v of %d", film, n)
			}
		}
	}},
	{"prealloc", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		g := testkit.Must(prealloc.New[int, int](db.Collection("prealloc"), nil))
		step := func(ctx context.Context, n int) error {
			if err := done(g.Insert(ctx, n, nil, prealloc.Row("A", 4)...)); err != nil {
				return err
			}
			return g.Claim(ctx, n, n, prealloc.Row("A", 2)...)
		}
		return step, func(t *testing.T, n int) {
			for i := range n {
				if counts := testkit.Must(g.Counts(t.Context(), i)); counts[0].Claimed != 2 || counts[0].Free != 2 {
					t.Errorf("%d: %v", i, counts)
				}
			}
		}
	}},
	{"approx", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		c := testkit.Must(approx.New[string](db.Collection("approx"), &approx.Options{Every: 7}))
		step := func(ctx context.Context, _ int) error { return c.Add(ctx, "views", 1) }
		return step, func(t *testing.T, n int) {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			// A write without an answer may count twice, and none may be missing.
			if got := testkit.Must(c.Get(t.Context(), "views")); got < int64(n) {
				t.Errorf("%d of %d", got, n)
			}
		}
	}},
	{"schemaversion", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		coll := db.Collection("contacts")
		v := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
			return append(doc, bson.E{Key: "up", Value: 1}), nil
		}}}, &schemaversion.Options{Lease: time.Second}))
		step := func(ctx context.Context, n int) error {
			if err := done(testkit.ErrorOf(coll.InsertOne(ctx, bson.M{"_id": n}))); err != nil {
				return err
			}
			if err := v.Update(ctx, n, bson.M{"$set": bson.M{"seen": true}}); err != nil || n%5 != 0 {
				return err
			}
			return done(testkit.ErrorOf(v.Migrate(ctx, v.Newest(), nil)), mongopatterns.ErrRunning)
		}
		return step, func(t *testing.T, n int) {
			if got := ids(t, coll, bson.M{"schema_version": 2, "up": 1, "seen": true}); !slices.Equal(got, upTo(n)) {
				t.Errorf("%v of %d", got, n)
			}
		}
	}},
	{"tree", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		c := testkit.Must(tree.New[int, bson.M](db.Collection("tree"), tree.AncestorArray, nil))
		testkit.OK(t, c.EnsureIndexes(t.Context()))
		step := func(ctx context.Context, n int) error {
			at := c.Under(n / 3)
			if n == 0 {
				at = c.AsRoot()
			}
			if err := done(testkit.ErrorOf(c.Insert(ctx, bson.M{"_id": n}, at))); err != nil || n%4 != 3 {
				return err
			}
			return c.Move(ctx, n, c.Under(n/2))
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, c)
			for i := range n {
				parent := i / 3
				if i%4 == 3 {
					parent = i / 2
				}
				if node, err := c.Parent(t.Context(), i); i > 0 && (err != nil || fmt.Sprint(node["_id"]) != fmt.Sprint(parent)) {
					t.Errorf("%d lies under %v, not %d: %v", i, node, parent, err)
				}
			}
			if got := testkit.Must(c.CountDescendants(t.Context(), 0, 0)); got != int64(n-1) {
				t.Errorf("%d below the root of %d", got, n)
			}
		}
	}},
	{"paging", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		coll := db.Collection("paging")
		p := testkit.Must(paging.New[struct {
			ID int `bson:"_id"`
		}](coll, bson.D{{Key: "rank", Value: 1}}, nil))
		testkit.OK(t, p.EnsureIndexes(t.Context()))
		var docs []any
		var want, got []int
		for i := range 100 {
			docs = append(docs, bson.M{"_id": i, "rank": i / 8})
			want = append(want, i)
		}
		testkit.OK(t, testkit.ErrorOf(coll.InsertMany(t.Context(), docs)))
		after := "" // a walk that was interrupted goes on behind the last page
		step := func(ctx context.Context, n int) error {
			for {
				page, err := p.Page(ctx, nil, paging.Request{Size: 9, After: after})
				if err != nil {
					return err
				}
				for _, item := range page.Items {
					got = append(got, item.ID)
				}
				if after = page.Next; after == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("walk %d: %v", n, got)
			}
			got, after = nil, ""
			return nil
		}
		return step, func(*testing.T, int) {}
	}},
	{"bucket", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		type reading struct {
			ID, Value int
			Timestamp time.Time
		}
		b := testkit.Must(bucket.New[string, reading](db.Collection("buckets"), timeseries.Every(time.Hour), &bucket.Options{
			IDField: "id", MaxCount: 7, Values: []timeseries.Value{{Field: "value", Sum: "sum"}},
		}))
		testkit.OK(t, b.EnsureIndexes(t.Context()))
		first := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		step := func(ctx context.Context, n int) error {
			return testkit.ErrorOf(b.Append(ctx, "A", reading{n, n, first.Add(time.Duration(n) * time.Minute)}))
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, b)
			got := []int{}
			for m, err := range b.Range(t.Context(), "A", time.Time{}, time.Time{}) {
				testkit.OK(t, err)
				got = append(got, m.ID)
			}
			if !slices.Equal(got, upTo(n)) {
				t.Errorf("%v of %d", got, n)
			}
		}
	}},
	{"series", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		type reading struct {
			ID   int       `bson:"id"`
			Time time.Time `bson:"timestamp"`
		}
		s := testkit.Must(series.New[string, reading](db.Collection("series"), timeseries.Every(time.Hour), &series.Options{
			BatchField: "batches", MaxCount: 7, Values: []timeseries.Value{{Field: "id"}},
		}))
		testkit.OK(t, s.EnsureIndexes(t.Context()))
		first := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		step := func(ctx context.Context, n int) error {
			return s.Append(ctx, "A", reading{n, first.Add(time.Duration(n) * time.Minute)})
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, s)
			got := []int{}
			for m, err := range s.Range(t.Context(), "A", time.Time{}, time.Time{}) {
				testkit.OK(t, err)
				got = append(got, m.ID)
			}
			if !slices.Equal(got, upTo(n)) {
				t.Errorf("%v of %d", got, n)
			}
		}
	}},
	{"attribute", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		coll := db.Collection("attributes")
		a := testkit.Must(attribute.New[int, int](coll, nil))
		testkit.OK(t, a.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(coll.InsertOne(t.Context(), bson.M{"_id": 1})))
		// Each key is added and then changed: in a transaction, as an attempt without an answer may come after the next
		// step, and Set would bring its value back.
		step := func(ctx context.Context, n int) error {
			key := attribute.Named(fmt.Sprint(n / 2))
			if n%2 == 0 {
				return done(a.Add(ctx, 1, key, n), mongopatterns.ErrExists)
			}
			return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error { return a.Set(ctx, 1, key, n) })
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, a)
			all := testkit.Must(a.GetAll(t.Context(), 1))
			for i, entry := range all {
				if entry.Key != fmt.Sprint(i) || entry.Value != min(2*i+1, n-1) {
					t.Errorf("entry %d is %v", i, entry)
				}
			}
			if len(all) != (n+1)/2 {
				t.Errorf("%d entries after %d", len(all), n)
			}
		}
	}},
	{"outlier", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		coll := db.Collection("outliers")
		l := testkit.Must(outlier.New[int, int](coll, db.Collection("outliers_more"), &outlier.Options{Set: true, MaxCount: 6, OverflowMaxCount: 10}))
		testkit.OK(t, l.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(coll.InsertOne(t.Context(), bson.M{"_id": 1})))
		step := func(ctx context.Context, n int) error { return testkit.ErrorOf(l.Add(ctx, 1, n)) }
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, l)
			got := []int{}
			for e, err := range l.All(t.Context(), 1) {
				testkit.OK(t, err)
				got = append(got, e)
			}
			if total := testkit.Must(l.Total(t.Context(), 1)); !slices.Equal(got, upTo(n)) || total != int64(n) {
				t.Errorf("%v, in all %d, of %d", got, total, n)
			}
		}
	}},
	{"subset", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		parents, items := db.Collection("products"), db.Collection("reviews")
		s := testkit.Must(subset.New[int, bson.M](parents, items, &subset.Options{N: 3, Values: []subset.Value{{Field: "rating", Sum: "ratings"}}}))
		testkit.OK(t, s.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(parents.InsertMany(t.Context(), []any{bson.M{"_id": 0}, bson.M{"_id": 1}})))
		step := func(ctx context.Context, n int) error {
			if err := done(testkit.ErrorOf(s.Insert(ctx, n%2, bson.M{"_id": n, "rating": 1}))); err != nil || n%3 != 0 {
				return err
			}
			return s.Update(ctx, n%2, n, bson.M{"$set": bson.M{"rating": 4}})
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, s) // counts, sums and the kept items, compared with the items
			if got := ids(t, items, bson.M{}); !slices.Equal(got, upTo(n)) {
				t.Errorf("%v of %d", got, n)
			}
			if got := ids(t, items, bson.M{"rating": 4}); len(got) != (n+2)/3 {
				t.Errorf("changed %v of %d", got, n)
			}
		}
	}},
	{"split", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		hot, cold := db.Collection("movies"), db.Collection("movie_details")
		s := testkit.Must(split.New[int, bson.M, bson.M](hot, cold, &split.Options{ColdFields: []string{"plot"}}))
		testkit.OK(t, s.EnsureIndexes(t.Context()))
		step := func(ctx context.Context, n int) error {
			if err := done(s.Insert(ctx, n, bson.M{"title": "a"}, bson.M{"plot": "a"})); err != nil {
				return err
			}
			return s.Update(ctx, n, bson.M{"$set": bson.M{"title": "b"}}, bson.M{"$set": bson.M{"plot": "b"}})
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, s)
			h, c := ids(t, hot, bson.M{"title": "b"}), ids(t, cold, bson.M{"plot": "b"})
			if !slices.Equal(h, upTo(n)) || !slices.Equal(c, upTo(n)) {
				t.Errorf("%v and %v of %d", h, c, n)
			}
		}
	}},
	{"extref", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		// The same source changes in three ways: with its copies, by the outbox, by Watch.
		var refs []*extref.Source[int, bson.M]
		for i, opts := range []*extref.Options{nil, {Outbox: db.Collection("outbox"), Lease: time.Second}, {Deferred: true}} {
			source, orders := db.Collection(fmt.Sprint("customers", i)), db.Collection(fmt.Sprint("orders", i))
			r := testkit.Must(extref.New[int, bson.M](source, []extref.Target{{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, opts))
			testkit.OK(t, r.EnsureIndexes(t.Context()))
			testkit.OK(t, testkit.ErrorOf(source.InsertOne(t.Context(), bson.M{"_id": 1, "name": -1, "version": 1})))
			for id := range 5 {
				copied := testkit.Must(r.Fetch(t.Context(), orders.Name()+".customer", 1))
				testkit.OK(t, testkit.ErrorOf(orders.InsertOne(t.Context(), bson.M{"_id": id, "customer": copied})))
			}
			refs = append(refs, r)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() {
			for ctx.Err() == nil {
				if err := refs[2].Watch(ctx, db.Collection("tokens"), nil); err != nil && ctx.Err() == nil {
					t.Log("watch ended, and begins again: ", err)
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
		t.Cleanup(func() { cancel(); watching.Wait() })
		step := func(ctx context.Context, n int) error {
			for _, r := range refs {
				if err := testkit.ErrorOf(r.Update(ctx, 1, bson.M{"$set": bson.M{"name": n}})); err != nil {
					return err
				}
			}
			return testkit.ErrorOf(refs[1].Drain(ctx, nil))
		}
		return step, func(t *testing.T, n int) {
			for i, r := range refs {
				orders := db.Collection(fmt.Sprint("orders", i))
				var got []int
				for range 1200 { // the followers may still be under way
					if i == 1 {
						testkit.OK(t, testkit.ErrorOf(r.Drain(t.Context(), nil)))
					}
					if got = ids(t, orders, bson.M{"customer.name": n - 1}); len(got) == 5 {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if !slices.Equal(got, upTo(5)) {
					t.Errorf("orders%d: after %d changes the newest name is in %v", i, n, got)
				}
				testkit.Healthy(t, r)
			}
		}
	}},
	{"versioning", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		type policy struct {
			ID    int `bson:"_id"`
			Steps []int
		}
		d := testkit.Must(versioning.New[int, policy](db.Collection("policies"), db.Collection("policy_revisions"), &versioning.Options{SnapshotEvery: 5}))
		testkit.OK(t, d.EnsureIndexes(t.Context()))
		testkit.OK(t, testkit.ErrorOf(d.Insert(t.Context(), policy{ID: 1}, versioning.Change{})))
		// An append is not repeatable by itself: the document tells whether it was made.
		add := func(p *policy, n int) {
			if !slices.Contains(p.Steps, n) {
				p.Steps = append(slices.Clone(p.Steps), n)
			}
		}
		step := func(ctx context.Context, n int) error {
			if n%2 == 0 {
				return testkit.ErrorOf(d.Edit(ctx, 1, func(p *policy) error { add(p, n); return nil }, versioning.Change{}))
			}
			r, err := d.Get(ctx, 1)
			if err != nil {
				return err
			}
			add(&r.Document, n)
			return testkit.ErrorOf(d.Save(ctx, r, versioning.Change{}))
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, d)
			number := n + 1
			for r, err := range d.Revisions(t.Context(), 1) {
				if err != nil || r.Number != int64(number) || !slices.Equal(r.Document.Steps, upTo(number-1)) {
					t.Fatalf("revision %d is %+v: %v", number, r, err)
				}
				number--
			}
			if number != 0 {
				t.Errorf("no revisions up to %d of %d", number, n+1)
			}
		}
	}},
	{"archive", func(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
		live, archived := db.Collection("invoices"), db.Collection("invoices_archive")
		a := testkit.Must(archive.New(live, archived, nil))
		testkit.OK(t, a.EnsureIndexes(t.Context()))
		// The invoice before this one moves; every third comes back.
		step := func(ctx context.Context, n int) error {
			if err := done(testkit.ErrorOf(live.InsertOne(ctx, bson.M{"_id": n, "total": n}))); err != nil {
				return err
			}
			err := testkit.ErrorOf(a.Move(ctx, bson.M{"_id": n - 1}, nil))
			if err == nil && n%3 == 0 {
				err = testkit.ErrorOf(a.Restore(ctx, bson.M{"_id": n - 1}, nil))
			}
			return err
		}
		return step, func(t *testing.T, n int) {
			testkit.Healthy(t, a)
			var here, there []int
			for i := range n {
				if i%3 == 2 || i == n-1 {
					here = append(here, i)
				} else {
					there = append(there, i)
				}
			}
			if l, o := ids(t, live, bson.M{}), ids(t, archived, bson.M{}); !slices.Equal(l, here) || !slices.Equal(o, there) {
				t.Errorf("%v live and %v archived of %d", l, o, n)
			}
		}
	}},
}

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
	for _, w := range workloads {
		step, verify := w.start(t, db)
		r := &running{verify: verify, ended: make(chan struct{})}
		all[w.name] = r
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
	primary := testkit.Must(server.Primary(t.Context()))
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
		_ = primary
	}()
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
	}
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
				var docs []bson.M
				testkit.OK(t, mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
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
			if err := done(mongopatterns.Transact(ctx, db.Client(), both)); err != nil {
				t.Error(err)
			}
			if n := stored(); n != 2 {
				t.Errorf("%d of 2 are there after the repetition", n)
			}
		})
	}
}
