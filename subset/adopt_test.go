package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// Adopt finishes beside old code that pushes to the same parents without pause, and
// nothing that was pushed is lost or taken twice.
func TestAdoptBesideOldCodeThatPushes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
	parents, items := db.Collection("parents"), db.Collection("items")
	const n, writers = 30, 4
	var docs []any
	for i := range n {
		docs = append(docs, d("_id", i, "items", bson.A{d("_id", fmt.Sprint("first ", i))}))
	}
	insert(t, parents, docs...)
	var group sync.WaitGroup
	var pushed atomic.Int64
	var ended atomic.Bool
	for w := range writers {
		group.Go(func() {
			for i := 0; !ended.Load(); i++ {
				push := d("$push", d("items", d("_id", fmt.Sprintf("%d of %d", i, w))))
				if _, err := parents.UpdateOne(t.Context(), d("_id", (i*7+w)%n), push); err != nil {
					t.Error(err)
				}
				pushed.Add(1)
			}
		})
	}
	defer ended.Store(true)
	for pushed.Load() < 40*writers && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	last := int64(0)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	result, err := s.Adopt(ctx, &mongopatterns.Work{BatchSize: n, Progress: func(r mongopatterns.Result) {
		if r.Examined < last {
			t.Errorf("%d examined after %d", r.Examined, last)
		}
		last = r.Examined
	}})
	beside := pushed.Load()
	ended.Store(true)
	group.Wait()
	must(t, err)
	same(t, "adopted", []int64{n, n, 0, 0}, []int64{result.Examined, result.Done, result.Remaining, result.Failed})
	t.Logf("%d pushes beside, %d conflicts", beside, result.Conflicts)
	_, err = s.Adopt(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
	same(t, "items", n+int(pushed.Load()), len(stored(t, items)))
}

// A write to a parent that was not adopted, or has items that old code pushed since, adopts it
// and does its work: by itself, and in a transaction of the caller's.
func TestWritesAdopt(t *testing.T) {
	t.Parallel()
	item := func(id int) bson.D { return d("_id", id, "v", id, "rank", nil) }
	array := func(ids ...int) (out bson.A) {
		for _, id := range ids {
			out = append(out, item(id))
		}
		return out
	}
	shapes := map[string]struct {
		parent bson.D
		items  []int
		all    []int // before the write
	}{
		"never":                      {d("items", array(8, 1, 7, 2)), nil, []int{1, 2, 7, 8}},
		"never, counted by old code": {d("items", array(8, 1, 7, 2), "items_count", 4), nil, []int{1, 2, 7, 8}},
		"never, some in both":        {d("items", array(8, 1, 7)), []int{2, 7}, []int{1, 2, 7, 8}},
		"items alone":                {d(), []int{1, 2, 7, 8}, []int{1, 2, 7, 8}},
		"items and no array":         {d("items", nil), []int{1, 2, 7, 8}, []int{1, 2, 7, 8}},
		"pushed to since":            {d("items", array(7, 2, 1, 8), "items_count", 3, "sum", 10), []int{1, 2, 7}, []int{1, 2, 7, 8}},
		"pushed to since, in order":  {d("items", array(8, 7, 2), "items_count", 2, "sum", 9), []int{1, 2, 7}, []int{1, 2, 7, 8}},
	}
	type sub = *subset.Subset[int, bson.D]
	add := func(id int) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error { _, err := s.Insert(ctx, 1, item(id)); return err }
	}
	many := func(ids ...int) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error {
			var all []bson.D
			for _, id := range ids {
				all = append(all, item(id))
			}
			_, err := s.InsertMany(ctx, seq(1, all...), nil)
			return err
		}
	}
	change := func(id int, update any) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error { return s.Update(ctx, 1, id, update) }
	}
	remove := func(id int) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error { return s.Delete(ctx, 1, id) }
	}
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("rank", -1, "_id", -1), Values: []subset.Value{{Field: "v", Sum: "sum"}}})
	for write, test := range map[string]struct {
		do   func(context.Context, sub) error
		come []int
		gone int
		text map[int]string
	}{
		"add the best":      {add(9), []int{9}, 0, nil},
		"add the last":      {add(0), []int{0}, 0, nil},
		"add many":          {many(9, 0, 5), []int{9, 0, 5}, 0, nil},
		"add one of many":   {many(9), []int{9}, 0, nil},
		"delete the best":   {remove(8), nil, 8, nil},
		"delete the last":   {remove(1), nil, 1, nil},
		"delete the second": {remove(7), nil, 7, nil},
		"update":            {change(8, d("$set", d("text", "new"))), nil, 0, map[int]string{8: "new"}},
		"update the last":   {change(1, d("$set", d("text", "new"))), nil, 0, map[int]string{1: "new"}},
		"sink":              {change(8, d("$set", d("rank", -5))), nil, 0, nil},
		"rise":              {change(1, d("$set", d("rank", 5))), nil, 0, nil},
	} {
		for name, shape := range shapes {
			if !scale.Third(write + name) {
				continue
			}
			t.Run(write+"/"+name, func(t *testing.T) {
				for _, joined := range []bool{false, true} {
					parents, items := db.Collection("parents"), db.Collection("items")
					for _, coll := range []*mongo.Collection{parents, items} {
						_, err := coll.DeleteMany(t.Context(), d())
						must(t, err)
					}
					insert(t, parents, append(d("_id", 1), shape.parent...))
					for _, id := range shape.items {
						insert(t, items, append(item(id), bson.E{Key: "parent", Value: 1}))
					}
					var err error
					if joined {
						err = mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error { return test.do(ctx, s) })
					} else {
						err = test.do(t.Context(), s)
					}
					must(t, err)
					testkit.Untouched(t, parents)
					// The second Adopt takes up the items that no write has adopted.
					result, err := s.Adopt(t.Context(), nil)
					must(t, err)
					same(t, "remaining, failed", []int64{0, 0}, []int64{result.Remaining, result.Failed})
					clean(t, db, s)
					var want, got []int
					for _, id := range append(slices.Clone(shape.all), test.come...) {
						if id != test.gone || test.gone == 0 {
							want = append(want, id)
						}
					}
					slices.Sort(want)
					for _, doc := range stored(t, items) {
						got = append(got, int(doc[0].Value.(int32)))
						if text := test.text[got[len(got)-1]]; text != "" {
							same(t, "text", any(text), testkit.Get(doc, "text"))
						}
					}
					same(t, "items", want, got)
				}
			})
		}
	}
}

// A write that would drop an item that cannot be adopted, or count without it, is refused.
func TestWritesThatCannotAdopt(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("rank", -1)})
	parents, items := db.Collection("parents"), db.Collection("items")
	insert(t, parents,
		d("_id", 1, "items", bson.A{d("_id", 10, "rank", bson.A{1})}),                  // cannot be ranked
		d("_id", 2, "items", bson.A{d("_id", 20, "rank", 2), 7}, "items_count", 2),     // not a document
		d("_id", 3, "items", bson.A{d("_id", 90, "rank", 3)}),                          // has the _id of another parent's item
		d("_id", 4, "items", bson.A{d("_id", 40, "rank", 1), d("_id", 40, "rank", 2)})) // two with one _id
	insert(t, items, d("_id", 90, "parent", 9, "rank", 1), d("_id", 91, "parent", 3, "rank", 1))
	before := [][]bson.D{stored(t, parents), stored(t, items)}
	for id := 1; id <= 4; id++ {
		for _, joined := range []bool{false, true} {
			for _, write := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := s.Insert(ctx, id, d("rank", 5)); return err },
				func(ctx context.Context) error {
					_, err := s.InsertMany(ctx, seq(id, d("rank", 4), d("rank", 5)), nil)
					return err
				},
				func(ctx context.Context) error {
					if id == 3 {
						return s.Delete(ctx, id, 91)
					}
					return s.Delete(ctx, id, id*10)
				},
			} {
				var err error
				if joined {
					err = mongopatterns.Transact(t.Context(), db.Client(), write)
				} else {
					err = write(t.Context())
				}
				testkit.Fails(t, "subset", err, mongopatterns.ErrNotAdopted)
				if mongo.IsDuplicateKeyError(err) { // it would mean that the item was added before
					t.Errorf("%d: %v", id, err)
				}
				same(t, "left", before, [][]bson.D{stored(t, parents), stored(t, items)})
			}
		}
	}
	if _, err := s.Insert(t.Context(), 9, d("_id", 90)); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
}

// Two writers and old code that pushes meet a parent that nobody has adopted: nothing is
// refused, and nothing is lost.
func TestWritesAdoptBesideOldCode(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
	parents, items := db.Collection("parents"), db.Collection("items")
	const n = 4
	each := scale.Of(30, 80, 400)
	for i := range n {
		insert(t, parents, d("_id", i, "items", bson.A{d("_id", fmt.Sprint("a ", i)), d("_id", fmt.Sprint("b ", i))}))
	}
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for i := range each {
				if _, err := s.Insert(t.Context(), i%n, d("_id", fmt.Sprint("new ", w, " ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for i := range each {
			testkit.Update(t, parents, d("_id", (i+1)%n), d("$push", d("items", d("_id", fmt.Sprint("old ", i)))))
		}
	})
	group.Wait()
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
	same(t, "items", 2*n+3*each, len(stored(t, items)))
}

// Old code edits an item in the array, or pulls it: Check names it, Adopt leaves it, counts the
// parent as Remaining and does the rest, and Repair undoes it.
func TestEditedInTheArray(t *testing.T) {
	t.Parallel()
	item := func(id int) bson.D { return d("_id", id, "v", id) }
	with := func(id int, pairs ...any) bson.D { return append(item(id), d(pairs...)...) }
	for name, test := range map[string]struct {
		old  func(t *testing.T, parents *mongo.Collection)
		kind string
		kept bson.A // left by Adopt
		all  int
	}{
		"edited": {func(t *testing.T, parents *mongo.Collection) {
			testkit.Update(t, parents, d("items._id", 8), d("$set", d("items.$.text", "by old code")))
		}, "edited", bson.A{with(9), with(8, "text", "by old code"), with(7)}, 9},
		"a field taken away": {func(t *testing.T, parents *mongo.Collection) {
			testkit.Update(t, parents, d(), d("$unset", d("items.1.v", "")))
		}, "edited", bson.A{with(9), d("_id", 8), with(7)}, 9},
		"pulled": {func(t *testing.T, parents *mongo.Collection) {
			testkit.Update(t, parents, d(), d("$pull", d("items", d("_id", 8))))
		}, "pulled", bson.A{with(9), with(7)}, 9},
		"all pulled": {func(t *testing.T, parents *mongo.Collection) {
			testkit.Update(t, parents, d(), d("$set", d("items", bson.A{})))
		}, "pulled", bson.A{}, 9},
		"edited and pushed": {func(t *testing.T, parents *mongo.Collection) {
			testkit.Update(t, parents, d(), d("$set", d("items.1.v", 80), "$inc", d("other", 1)))
			testkit.Update(t, parents, d(), d("$push", d("items", item(20))))
		}, "edited", bson.A{with(9), d("_id", 8, "v", 80), with(7), with(20)}, 10},
		"replaced by an edited document without a count": {func(t *testing.T, parents *mongo.Collection) {
			_, err := parents.ReplaceOne(t.Context(), d(), d("items", bson.A{item(1), item(2), with(9, "text", "by old code"), item(20)}))
			must(t, err)
		}, "edited", bson.A{item(1), item(2), with(9, "text", "by old code"), item(20)}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 3, Values: []subset.Value{{Field: "v", Sum: "sum", Count: "numbers"}}})
			parents, items := db.Collection("parents"), db.Collection("items")
			insert(t, parents, d("_id", 1))
			for i := range 9 {
				_, err := s.Insert(t.Context(), 1, item(i+1))
				must(t, err)
			}
			test.old(t, parents)
			numbers := func(v any) string { return fmt.Sprint(v) }
			for range 2 {
				result, err := s.Adopt(t.Context(), nil)
				must(t, err)
				same(t, "remaining", int64(1), result.Remaining)
				doc := stored(t, parents)[0]
				same(t, "array", numbers(test.kept), numbers(testkit.Get(doc, "items")))
				same(t, "items", test.all, len(stored(t, items)))
				same(t, "count", any(int32(test.all)), testkit.Get(doc, "items_count"))
				same(t, "named", []string{`parents {"$numberInt":"1"} ` + test.kind + ` items`}, testkit.Found(t, s.Check(t.Context(), nil)))
			}
			testkit.Untouched(t, parents)
			result, err := s.Repair(t.Context(), nil)
			must(t, err)
			same(t, "repair", mongopatterns.Result{Examined: 1, Done: 1}, result)
			clean(t, db, s)
			best, err := s.Top(t.Context(), 1)
			must(t, err)
			same(t, "kept", 3, len(best))
		})
	}
}

// Not an edit: a parent that keeps fewer fields than old code stores, or in another
// order, or an array that old code itself cuts.
func TestNoEdits(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3, Fields: []string{"a"}, Sort: d("at", -1)})
	parents := db.Collection("parents")
	push := func(id int) {
		testkit.Update(t, parents, d("_id", 1), d("$push", d("items", d("$each", bson.A{d("text", "x", "at", id, "_id", id, "a", id)}, "$sort", d("at", -1), "$slice", 3))))
	}
	insert(t, parents, d("_id", 1))
	for i := range 5 {
		push(i)
	}
	for i := 5; i < 9; i++ {
		result, err := s.Adopt(t.Context(), nil)
		must(t, err)
		same(t, "adopt", mongopatterns.Result{Examined: 1, Done: 1}, result)
		clean(t, db, s)
		push(i)
	}
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
	same(t, "items", 3+4, len(stored(t, db.Collection("items"))))
}

// Two elements with one _id, and the collection has one of them: the other is not dropped.
func TestTwiceInTheArray(t *testing.T) {
	t.Parallel()
	for _, position := range []int{0, 9} {
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
		parents := db.Collection("parents")
		insert(t, parents, d("_id", 1, "items", bson.A{d("_id", 8, "text", "as it was")}))
		_, err := s.Adopt(t.Context(), nil)
		must(t, err)
		testkit.Update(t, parents, d(), d("$push", d("items", d("$each", bson.A{d("_id", 8, "text", "another")}, "$position", position))))
		before := stored(t, parents)
		result, err := s.Adopt(t.Context(), nil)
		must(t, err)
		same(t, "adopt", mongopatterns.Result{Examined: 1, Remaining: 1}, result)
		same(t, "left", before, stored(t, parents))
		same(t, "named", []string{`parents {"$numberInt":"1"} edited items`}, testkit.Found(t, s.Check(t.Context(), nil)))
	}
}

// A deletion by new code beside a push by old code is not a pull.
func TestDeletionBesideAPush(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
	insert(t, db.Collection("parents"), d("_id", 1))
	for i := range 5 {
		_, err := s.Insert(t.Context(), 1, d("_id", 10+i))
		must(t, err)
	}
	testkit.Update(t, db.Collection("parents"), d(), d("$push", d("items", d("_id", 5))))
	must(t, s.Delete(t.Context(), 1, 14))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 1, Done: 1}, result)
	clean(t, db, s)
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
			if kind := testkit.Found(t, s.Check(t.Context(), nil))[0]; kind != `parents {"$numberInt":"1"} not adopted reviews` {
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
			all := testkit.Collect(t, s.All(t.Context(), 2))
			same(t, "moved item", []any{int32(202), int32(2), "22"}, []any{all[1][0].Value, all[1][1].Value, testkit.Get(all[1], "text")})
			// Old programs go on pushing.
			testkit.Update(t, parents, d("_id", 2), d("$push", d("reviews", d("_id", "late", "text", "late", "rating", 1, "date", day(28)))))
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
		testkit.Untouched(t, parents)
	}
	// Writes do not overwrite a value of another kind.
	_, err := s.Insert(t.Context(), 7, item(71, 1))
	testkit.Fails(t, "subset", err, mongopatterns.ErrNotAdopted)
	testkit.Update(t, parents, d("_id", 7), d("$set", d("reviews", bson.A{})))
	insert(t, items, d("_id", 72, "product_id", 7, "rating", 1))
	for _, err := range []error{s.Delete(t.Context(), 7, 72), s.Update(t.Context(), 7, 72, d("$set", d("author", "x")))} {
		testkit.Fails(t, "subset", err, mongopatterns.ErrNotAdopted)
	}
	same(t, "left", "mine", testkit.Get(stored(t, parents)[6], "sub"))
}

// Comments and their count that exist already: nothing is lost, whatever is called and
// in whatever sequence.
func TestNothingIsDroppedThatIsStoredNowhereElse(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	all := func(n, from int) bson.A {
		var out bson.A
		for i := range n {
			out = append(out, d("_id", from+i, "text", "x"))
		}
		return out
	}
	t.Run("40 of 40", func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "comments"})
		parents := db.Collection("parents")
		insert(t, parents, d("_id", 1, "comments", all(40, 0), "comments_count", 40))
		before := stored(t, parents)
		result, err := s.Repair(ctx, nil)
		must(t, err)
		same(t, "repair", mongopatterns.Result{Examined: 1, Remaining: 1}, result)
		same(t, "parent", before, stored(t, parents))
		result, err = s.Adopt(ctx, nil)
		must(t, err)
		same(t, "adopt", mongopatterns.Result{Examined: 1, Done: 1}, result)
		_, err = s.Insert(ctx, 1, d("_id", 100))
		must(t, err)
		same(t, "items", 41, len(stored(t, db.Collection("items"))))
		clean(t, db, s)
	})
	t.Run("what has no _id", func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("rank", -1)})
		parents := db.Collection("parents")
		for i, strange := range []any{7, nil, d("_id", nil)} {
			insert(t, parents, d("_id", i, "items", bson.A{d("rank", 2), strange}, "items_count", 2))
			_, err := s.Insert(ctx, i, d("rank", 3))
			testkit.Fails(t, "subset", err, mongopatterns.ErrNotAdopted)
			_, err = s.InsertMany(ctx, seq(i, d("rank", 3), d("rank", 4)), nil)
			testkit.Fails(t, "subset", err, mongopatterns.ErrNotAdopted)
		}
	})
	// The array of a parent to which an old program has pushed is not in order.
	t.Run("one of another order", func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("rank", -1)})
		insert(t, db.Collection("parents"), d("_id", 1, "items", bson.A{d("_id", 1, "rank", 1), d("_id", 2, "rank", 2)}, "items_count", 1))
		insert(t, db.Collection("items"), d("_id", 1, "parent", 1, "rank", 1))
		for _, ranks := range [][]int{{3}, {3, 0}} {
			var come []bson.D
			for _, rank := range ranks {
				come = append(come, d("rank", rank))
			}
			_, err := s.InsertMany(ctx, seq(1, come...), nil)
			must(t, err)
		}
		same(t, "items", 2+3, len(stored(t, db.Collection("items"))))
		clean(t, db, s)
	})
	for round := range scale.Of(2, 6, 100) {
		t.Run(fmt.Sprint("random ", round), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(round), 3))
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 5, BestLast: round%2 == 1})
			parents, items := db.Collection("parents"), db.Collection("items")
			deleted := map[any]bool{}
			for p := range 3 {
				n := random.IntN(8)
				insert(t, parents, d("_id", p, "items", all(n, p*100), "items_count", n))
				if p == 0 && n > 1 { // some are stored
					insert(t, items, d("_id", 0, "parent", 0, "text", "x"))
				}
			}
			next, known := 1000, map[any]bool{}
			note := func() {
				for _, doc := range stored(t, parents) {
					list, _ := testkit.Get(doc, "items").(bson.A)
					for _, v := range list {
						known[testkit.Get(v.(bson.D), "_id")] = true
					}
				}
				for _, doc := range stored(t, items) {
					known[doc[0].Value] = true
				}
			}
			note()
			everything := known
			for range scale.Of(25, 40, 200) {
				p, id := random.IntN(3), any(random.IntN(300))
				if keys := stored(t, items); len(keys) > 0 && random.IntN(2) == 0 {
					one := keys[random.IntN(len(keys))]
					id, p = one[0].Value, int(testkit.Get(one, "parent").(int32))
				}
				var err error
				switch random.IntN(9) {
				case 0, 1, 2:
					next++
					_, err = s.Insert(ctx, p, d("_id", next-2*random.IntN(2)*next))
				case 3:
					next += 2
					_, err = s.InsertMany(ctx, seq(p, d("_id", next), d("_id", next+1)), nil)
					next++
				case 4:
					if err = s.Delete(ctx, p, id); err == nil {
						deleted[id] = true
					}
				case 5:
					err = s.Update(ctx, p, id, d("$set", d("text", fmt.Sprint(next))))
				case 6, 7:
					if _, err = s.Repair(ctx, nil); random.IntN(6) == 0 && err == nil {
						_, err = s.Adopt(ctx, nil)
					}
				case 8: // an old program
					next++
					testkit.Update(t, parents, d("_id", p), d("$push", d("items", d("_id", next-2*random.IntN(2)*next))))
				}
				if err != nil && !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Fatal(err)
				}
				known = map[any]bool{}
				note()
				for id := range everything {
					if !known[id] && !deleted[id] {
						t.Fatalf("%v is lost", id)
					}
				}
				for id := range known {
					everything[id] = true
				}
			}
			_, err := s.Adopt(ctx, nil)
			must(t, err)
			clean(t, db, s)
		})
	}
}

// An item that holds something of its own in ParentField is named, and keeps it. null and the parent's own _id are
// nothing to lose.
func TestAdoptKeepsAFieldOfTheUser(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{ParentField: "product_id"})
	parents := db.Collection("parents")
	mine := d("_id", int32(1), "items", bson.A{d("_id", int32(11), "product_id", "SKU-1")})
	insert(t, parents, mine, d("_id", 2, "items", bson.A{d("_id", 21, "product_id", nil), d("_id", 22, "product_id", 2.0), d("_id", 23)}))
	for _, work := range []*mongopatterns.Work{{DryRun: true}, nil} {
		result, err := s.Adopt(t.Context(), work)
		must(t, err)
		if result.Done != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) ||
			!strings.Contains(result.Failures[0].Err.Error(), `holds "SKU-1" in "product_id"`) {
			t.Errorf("%+v", result)
		}
	}
	if result, err := s.Adopt(t.Context(), &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrInvalid) || result.Failed != 1 {
		t.Errorf("strict: %+v, %v", result, err)
	}
	same(t, "the parent", mine, testkit.One[bson.D](t, parents, 1))
	same(t, "items", 3, len(stored(t, db.Collection("items"))))
	if _, err := s.Insert(t.Context(), 1, d("_id", 12)); !errors.Is(err, mongopatterns.ErrNotAdopted) {
		t.Error(err)
	}
	// Code that writes whole items back sends the parent's _id along.
	testkit.Update(t, parents, d("_id", 2), d("$set", d("items.0.product_id", 2)))
	testkit.Update(t, parents, d("_id", 2), d("$push", d("items", d("_id", 24, "product_id", 2))))
	if result, err := s.Adopt(t.Context(), &mongopatterns.Work{Filter: d("_id", 2)}); err != nil || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, "items", 4, len(stored(t, db.Collection("items"))))
}
