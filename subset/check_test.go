package subset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// filled is three parents of eight reviews each.
func filled(t testing.TB, o *subset.Options) (*mongo.Database, *subset.Subset[int, review]) {
	t.Helper()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4))
	_, err := s.InsertMany(t.Context(), func(yield func(int, review) bool) {
		for i := range 24 {
			if !yield(1+i%3, review{ID: i, Rating: 1 + i%5, Date: day(1 + i)}) {
				return
			}
		}
	}, nil)
	must(t, err)
	return db, s
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	o.Values[0].Count = "rated"
	db, s := filled(t, o)
	parents, items := db.Collection("parents"), db.Collection("items")
	clean(t, db, s)
	good := stored(t, parents)
	id := func(n int) string { return fmt.Sprintf(`parents {"$numberInt":"%d"}`, n) }
	for name, test := range map[string]struct {
		damage func()
		want   []string
	}{
		"an element is missing": {func() { testkit.Update(t, parents, d("_id", 1), d("$pop", d("reviews", 1))) }, []string{id(1) + " pulled reviews"}},
		"another order": {func() {
			testkit.Update(t, parents, d("_id", 1), d("$push", d("reviews", d("$each", bson.A{}, "$sort", d("date", 1)))))
		}, []string{id(1) + " wrong subset reviews"}},
		"an old copy": {func() { testkit.Update(t, parents, d("_id", 2), d("$set", d("reviews.1.author", "?"))) }, []string{id(2) + " edited reviews"}},
		"no array":    {func() { testkit.Update(t, parents, d("_id", 2), d("$unset", d("reviews", ""))) }, []string{id(2) + " wrong subset reviews"}},
		"aggregates": {func() {
			testkit.Update(t, parents, d("_id", 3), d("$inc", d("num_reviews", 1, "sum_ratings", 1, "mean_rating", 1, "rated", -1)))
		}, []string{id(3) + " wrong field mean_rating", id(3) + " wrong field num_reviews", id(3) + " wrong field rated", id(3) + " wrong field sum_ratings"}},
		"no aggregates": {func() {
			testkit.Update(t, parents, d("_id", 3), d("$unset", d("num_reviews", "", "sum_ratings", "", "mean_rating", "")))
		}, []string{id(3) + " wrong field mean_rating", id(3) + " wrong field num_reviews", id(3) + " wrong field sum_ratings"}},
		"a mean of nothing": {func() { testkit.Update(t, parents, d("_id", 4), d("$set", d("mean_rating", 1.0))) }, []string{id(4) + " wrong field mean_rating"}},
		"text for a count":  {func() { testkit.Update(t, parents, d("_id", 1), d("$set", d("num_reviews", "8"))) }, []string{id(1) + " wrong field num_reviews"}},
	} {
		test.damage()
		same(t, name, test.want, testkit.Found(t, s.Check(t.Context(), nil)))
		var progress []int64
		result, err := s.Repair(t.Context(), &mongopatterns.Work{BatchSize: 3, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		must(t, err)
		same(t, name, mongopatterns.Result{Examined: 4, Done: 1}, result)
		same(t, name+": progress", []int64{3, 4}, progress)
		clean(t, db, s)
		if name != "a mean of nothing" { // which sets a missing sum to 0
			for i, doc := range stored(t, parents)[:3] {
				testkit.SortFields(doc)
				testkit.SortFields(good[i])
				same(t, name, good[i], doc)
			}
		}
	}
	// Orphans are reported and left.
	insert(t, items, d("_id", 100, "product_id", 77, "rating", 1), d("_id", 101, "product_id", 77, "rating", 1))
	var text string
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		text = p.String()
	}
	same(t, "text", "subset: items 100: orphan: product_id is 77: 2 documents", text)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "orphans", mongopatterns.Result{Examined: 4}, result)
	for range s.Check(t.Context(), nil) { // the loop may end early
		break
	}
}

// A value that no document has as its _id is an orphan, and does not keep Check from naming others.
func TestOrphansOfNone(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", "a1"))
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	insert(t, db.Collection("items"), d("_id", 1, "product_id", "a1"), d("_id", 2, "product_id", bson.Undefined{}),
		d("_id", 3, "product_id", bson.Regex{Pattern: "^a("}), d("_id", 4, "product_id", 77), d("_id", 5, "product_id", bson.A{77, 78}))
	var found []string
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		if p.Kind == mongopatterns.Orphan {
			found = append(found, p.String())
		}
	}
	slices.Sort(found)
	same(t, "orphans", []string{"subset: items 2: orphan: product_id is null: 1 documents",
		`subset: items 3: orphan: product_id is {"$regularExpression":{"pattern":"^a(","options":""}}: 1 documents`,
		"subset: items 4: orphan: product_id is 77: 1 documents",
		`subset: items 5: orphan: product_id is [{"$numberInt":"77"},{"$numberInt":"78"}]: 1 documents`}, found)
}

// N, the order, the fields, the aggregates can change later.
func TestNewOptions(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, _ := filled(t, o)
	for name, change := range map[string]func(*subset.Options){
		"larger N":  func(o *subset.Options) { o.N = 6 },
		"smaller N": func(o *subset.Options) { o.N = 2 },
		"order":     func(o *subset.Options) { o.Sort = d("rating", -1, "date", 1) },
		"fields":    func(o *subset.Options) { o.Fields = []string{"author"} },
		"best last": func(o *subset.Options) { o.BestLast = true },
		"value": func(o *subset.Options) {
			o.Values = append(o.Values, subset.Value{Field: "rating", Sum: "s2", Count: "c2"})
		},
		"count": func(o *subset.Options) { o.CountField = "how_many" },
	} {
		o := reviewOptions()
		change(o)
		s := newSubset[int, review](t, db, o)
		_, err := s.Repair(t.Context(), nil)
		must(t, err)
		clean(t, db, s)
		if name == "count" {
			testkit.Update(t, db.Collection("parents"), d(), d("$unset", d("how_many", "")))
		}
	}
}

// Repair and Check run beside writers: nothing is lost, no problem reported by mistake.
func TestRepairBesideWriters(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, s := filled(t, o)
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		defer close(done)
		for i := range 30 {
			_, err := s.Insert(t.Context(), 1+i%3, review{ID: 100 + i, Rating: 1, Date: day(1 + i%28)})
			if i%3 == 2 {
				err = errors.Join(err, s.Delete(t.Context(), 1+i%3, 100+i))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() { // parents that come and go are not problems
		for i := 100; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			insert(t, db.Collection("parents"), d("_id", i))
			_, err := s.Insert(t.Context(), i, review{ID: 1000 + i})
			if err == nil {
				_, err = s.DeleteParent(t.Context(), i)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for p, err := range s.Check(t.Context(), nil) {
				if err != nil {
					t.Error(err)
				}
				t.Errorf("problem: %v", p)
			}
			if _, err := s.Repair(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	clean(t, db, s)
	same(t, "items", 24+20, len(stored(t, db.Collection("items"))))
}

// A run that is cancelled keeps what it has done.
func TestCancel(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, s := filled(t, o)
	testkit.Update(t, db.Collection("parents"), d("reviews", d("$exists", true)), d("$set", d("num_reviews", 0)))
	ctx, cancel := context.WithCancel(t.Context())
	result, err := s.Repair(ctx, &mongopatterns.Work{BatchSize: 1, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	result, err = s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "second run", mongopatterns.Result{Examined: 4, Done: 2}, result)
	clean(t, db, s)
}

// A problem that is repaired before the second look is not reported.
func TestCheckLooksTwice(t *testing.T) {
	t.Parallel()
	var right func(collection string)
	asked := map[int64]string{}
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if right == nil || !e.Command.Lookup("autocommit").IsZero() {
				return
			}
			if e.CommandName == "find" && e.Command.Lookup("find").StringValue() == "parents" {
				asked[e.RequestID] = "parents"
			}
			if e.CommandName == "aggregate" && !e.Command.Lookup("pipeline", "2", "$lookup").IsZero() {
				asked[e.RequestID] = "items"
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if collection := asked[e.RequestID]; collection != "" {
				delete(asked, e.RequestID)
				right(collection)
			}
		},
	}))
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", 1, "num_reviews", 5))
	insert(t, db.Collection("items"), d("_id", 1, "product_id", 2, "rating", 1, "date", day(1)))
	same(t, "problems", 2, len(testkit.Found(t, s.Check(t.Context(), nil))))
	for _, orphan := range []func() error{
		func() error {
			_, err := db.Collection("parents").InsertOne(t.Context(), d("_id", 2, "reviews", bson.A{}, "num_reviews", 0))
			return err
		},
		func() error { _, err := db.Collection("items").DeleteOne(t.Context(), d("_id", 1)); return err },
	} {
		right = func(collection string) {
			err := error(nil)
			if collection == "items" {
				err = orphan()
			} else {
				_, err = db.Collection("parents").UpdateOne(t.Context(), d("_id", 1), d("$set", d("num_reviews", 0)))
			}
			if err != nil {
				t.Error(err)
			}
		}
		same(t, "problems", []string{}, testkit.Found(t, s.Check(t.Context(), nil)))
		right = nil
		testkit.Update(t, db.Collection("parents"), d("_id", 1), d("$set", d("num_reviews", 5)))
		_, err := db.Collection("parents").DeleteOne(t.Context(), d("_id", 2))
		must(t, err)
	}
}
