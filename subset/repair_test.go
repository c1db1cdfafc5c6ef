package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// filled is three parents of eight reviews each.
func filled(t testing.TB, o *subset.Options) (*mongo.Database, *subset.Subset[int, review]) {
	t.Helper()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4))
	_, err := s.AddMany(t.Context(), func(yield func(int, review) bool) {
		for i := range 24 {
			if !yield(1+i%3, review{ID: i, Rating: 1 + i%5, Date: day(1 + i)}) {
				return
			}
		}
	})
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
		"an element is missing": {func() { update(t, parents, d("_id", 1), d("$pop", d("reviews", 1))) }, []string{id(1) + " pulled reviews"}},
		"another order": {func() {
			update(t, parents, d("_id", 1), d("$push", d("reviews", d("$each", bson.A{}, "$sort", d("date", 1)))))
		}, []string{id(1) + " wrong subset reviews"}},
		"an old copy": {func() { update(t, parents, d("_id", 2), d("$set", d("reviews.1.author", "?"))) }, []string{id(2) + " edited reviews"}},
		"no array":    {func() { update(t, parents, d("_id", 2), d("$unset", d("reviews", ""))) }, []string{id(2) + " wrong subset reviews"}},
		"aggregates": {func() {
			update(t, parents, d("_id", 3), d("$inc", d("num_reviews", 1, "sum_ratings", 1, "mean_rating", 1, "rated", -1)))
		}, []string{id(3) + " wrong count num_reviews", id(3) + " wrong value mean_rating", id(3) + " wrong value rated", id(3) + " wrong value sum_ratings"}},
		"no aggregates": {func() {
			update(t, parents, d("_id", 3), d("$unset", d("num_reviews", "", "sum_ratings", "", "mean_rating", "")))
		}, []string{id(3) + " wrong count num_reviews", id(3) + " wrong value mean_rating", id(3) + " wrong value sum_ratings"}},
		"a mean of nothing": {func() { update(t, parents, d("_id", 4), d("$set", d("mean_rating", 1.0))) }, []string{id(4) + " wrong value mean_rating"}},
		"text for a count":  {func() { update(t, parents, d("_id", 1), d("$set", d("num_reviews", "8"))) }, []string{id(1) + " wrong count num_reviews"}},
	} {
		test.damage()
		same(t, name, test.want, problems(t, s.Check(t.Context(), nil)))
		var progress []int64
		result, err := s.Repair(t.Context(), &mongopatterns.Work{BatchSize: 3, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		must(t, err)
		same(t, name, mongopatterns.Result{Examined: 4, Done: 1}, result)
		same(t, name+": progress", []int64{3, 4}, progress)
		clean(t, db, s)
		if name != "a mean of nothing" { // which sets what was missing, to 0
			for i, doc := range stored(t, parents)[:3] {
				sorted(doc)
				sorted(good[i])
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

func sorted(doc bson.D) {
	slices.SortFunc(doc, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
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
		"order":     func(o *subset.Options) { o.Order = d("rating", -1, "date", 1) },
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
			update(t, db.Collection("parents"), d(), d("$unset", d("how_many", "")))
		}
	}
}

// Items that stand in the parents' arrays move to the collection.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{false, true} {
		t.Run(fmt.Sprint("counted ", counted), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			o := reviewOptions()
			o.N = 3
			s := newSubset[int, bson.D](t, db, o)
			parents, items := db.Collection("parents"), db.Collection("items")
			for parent := range 5 {
				var array bson.A
				for i := range parent * 2 {
					item := d("text", fmt.Sprintf("%d%d", parent, i), "rating", int32(i%5), "date", day(1+i))
					if i%2 == 0 { // some have an _id
						item = append(d("_id", parent*100+i), item...)
					}
					array = append(array, item)
				}
				doc := d("_id", parent, "reviews", array)
				if counted {
					doc = append(doc, bson.E{Key: "num_reviews", Value: len(array)})
				}
				insert(t, parents, doc)
			}
			insert(t, parents, d("_id", 9)) // and one with items in the collection
			for i := range 4 {
				insert(t, items, d("_id", i, "product_id", 9, "rating", 1, "date", day(1+i)))
			}
			if kind := problems(t, s.Check(t.Context(), nil))[0]; kind != `parents {"$numberInt":"1"} not adopted reviews` {
				t.Error(kind)
			}
			wrong := int64(5)
			before := stored(t, parents)
			result, err := s.Adopt(t.Context(), &mongopatterns.Work{DryRun: true})
			must(t, err)
			same(t, "dry run", mongopatterns.Result{Examined: 6, Done: wrong}, result)
			same(t, "nothing written", before, stored(t, parents))
			result, err = s.Repair(t.Context(), nil)
			must(t, err)
			same(t, "repair", mongopatterns.Result{Examined: 6, Done: 1, Remaining: 4}, result)
			result, err = s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 2})
			must(t, err)
			same(t, "adopt", mongopatterns.Result{Examined: 6, Done: 4}, result)
			clean(t, db, s)
			same(t, "items", 20+4, len(stored(t, items)))
			all := collect(t, s.All(t.Context(), 2))
			same(t, "moved item", []any{int32(202), int32(2), "22"}, []any{all[1][0].Value, all[1][1].Value, get(all[1], "text")})
			// Old programs go on pushing.
			update(t, parents, d("_id", 2), d("$push", d("reviews", d("_id", "late", "text", "late", "rating", 1, "date", day(28)))))
			result, err = s.Adopt(t.Context(), &mongopatterns.Work{Filter: d("_id", d("$gte", 2))})
			must(t, err)
			same(t, "what came since", mongopatterns.Result{Examined: 4, Done: 1}, result)
			clean(t, db, s)
		})
	}
}

// A parent that cannot be adopted is named, counted and passed over.
func TestAdoptPassesOver(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	o := reviewOptions()
	o.CountField = "sub.n"
	s := newSubset[int, bson.D](t, db, o)
	parents, items := db.Collection("parents"), db.Collection("items")
	item := func(id int, rating any) bson.D { return d("_id", id, "rating", rating, "date", day(1)) }
	insert(t, parents,
		d("_id", 1, "reviews", bson.A{item(10, 1)}),
		d("_id", 2, "reviews", bson.A{item(20, 1), 7}),
		d("_id", 3, "reviews", bson.A{item(30, "none")}),
		d("_id", 4, "reviews", bson.A{item(40, 1), item(40, 2)}), // two of one _id
		d("_id", 5, "reviews", bson.A{item(50, 1), item(50, 1)}), // one twice
		d("_id", 6, "reviews", bson.A{item(10, 1)}),              // another parent's
		d("_id", 7, "reviews", bson.A{item(70, 1)}, "sub", "mine"),
		d("_id", 8, "reviews", bson.A{item(80, 1)}, "sub", nil),
		d("_id", 9, "reviews", bson.A{append(item(90, 1), bson.E{Key: "$set", Value: 1})}),
	)
	before := stored(t, parents)
	for range 2 {
		result, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 3})
		must(t, err)
		same(t, "failed", int64(6), result.Failed)
		for i, id := range []int32{2, 3, 4, 6, 7, 9} {
			same(t, "named", id, result.Failures[i].ID.Int32())
			same(t, "left", before[id-1], stored(t, parents)[id-1])
		}
		same(t, "items", 3, len(stored(t, items)))
		untouched(t, parents)
	}
	// Writes do not overwrite what stands on the way.
	_, err := s.Add(t.Context(), 7, item(71, 1))
	wantErr(t, err, subset.ErrNotAdopted)
	update(t, parents, d("_id", 7), d("$set", d("reviews", bson.A{})))
	insert(t, items, d("_id", 72, "product_id", 7, "rating", 1))
	for _, err := range []error{s.Delete(t.Context(), 7, 72), s.Update(t.Context(), 7, 72, d("$set", d("author", "x")))} {
		wantErr(t, err, subset.ErrNotAdopted)
	}
	same(t, "left", "mine", get(stored(t, parents)[6], "sub"))
}

// Repair and Check run beside writers: nothing is lost, nothing reported wrongly.
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
			_, err := s.Add(t.Context(), 1+i%3, review{ID: 100 + i, Rating: 1, Date: day(1 + i%28)})
			if i%3 == 2 {
				err = errors.Join(err, s.Delete(t.Context(), 1+i%3, 100+i))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() { // parents that come and go are no problems
		for i := 100; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			insert(t, db.Collection("parents"), d("_id", i))
			_, err := s.Add(t.Context(), i, review{ID: 1000 + i})
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
	update(t, db.Collection("parents"), d("reviews", d("$exists", true)), d("$set", d("num_reviews", 0)))
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

// What is put right between a look and the second one is not reported.
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
	insert(t, db.Collection("items"), d("_id", 1, "product_id", 2, "rating", 1))
	same(t, "problems", 2, len(problems(t, s.Check(t.Context(), nil))))
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
		same(t, "problems", []string{}, problems(t, s.Check(t.Context(), nil)))
		right = nil
		update(t, db.Collection("parents"), d("_id", 1), d("$set", d("num_reviews", 5)))
		_, err := db.Collection("parents").DeleteOne(t.Context(), d("_id", 2))
		must(t, err)
	}
}

// Items that other programs have stored and Add refuses do not go unnoticed.
func TestInvalidItems(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("at.day", -1, "rank", 1),
		Values: []subset.Value{{Field: "v.rating", Sum: "sum", Mean: "mean"}, {Field: "other", Sum: "others", Count: "other_count"}}})
	insert(t, db.Collection("parents"), d("_id", 1))
	decimalNaN, err := bson.ParseDecimal128("NaN")
	must(t, err)
	good := d("rating", 4)
	insert(t, db.Collection("items"),
		d("_id", 1, "parent", 1, "v", good, "at", d("day", 1)), d("_id", 2, "parent", 1, "v", good, "other", "x", "more", bson.A{1}),
		d("_id", 10, "parent", 1), d("_id", 11, "parent", 1, "v", d("rating", "five")), d("_id", 12, "parent", 1, "v", d("rating", bson.A{1})),
		d("_id", 13, "parent", 1, "v", bson.A{good}), d("_id", 14, "parent", 1, "v", d("rating", math.NaN())),
		d("_id", 15, "parent", 1, "v", d("rating", math.Inf(-1))), d("_id", 16, "parent", 1, "v", d("rating", nil)),
		d("_id", 20, "parent", 1, "v", good, "at", d("day", bson.A{})), d("_id", 21, "parent", 1, "v", good, "at", bson.A{1}),
		d("_id", 22, "parent", 1, "v", good, "rank", bson.A{1, 2}))
	insert(t, db.Collection("items"), d("_id", 17, "parent", 1, "v", d("rating", decimalNaN)))
	_, err = s.Adopt(t.Context(), nil)
	must(t, err)
	fields := map[int32]string{10: "v.rating", 11: "v.rating", 12: "v.rating", 13: "v.rating", 14: "v.rating", 15: "v.rating", 16: "v.rating", 17: "v.rating",
		20: "at.day", 21: "at.day", 22: "rank"}
	found := map[int32]string{}
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		same(t, "kind", subset.InvalidItem, p.Kind)
		found[p.ID.Int32()] = p.Field
	}
	same(t, "found", fields, found)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repair", mongopatterns.Result{Examined: 1}, result)
	for id := range fields { // as each is described, it can be mended
		must(t, s.Delete(t.Context(), 1, id))
	}
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
}
