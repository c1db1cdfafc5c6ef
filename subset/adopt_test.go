package subset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// What stands in the place of the array, of a number or of the document around them is not
// overwritten: it is named, and stays.
func TestMalformedParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "r.list", CountField: "r.n", Values: []subset.Value{{Field: "v", Sum: "sum", Mean: "mean"}}})
	parents, items := db.Collection("parents"), db.Collection("items")
	list := bson.A{d("_id", 90, "v", 1)}
	insert(t, parents,
		d("_id", 1, "r", d("list", d("_id", 10, "v", 1))), // a single item
		d("_id", 2, "r", d("list", d("10", d("_id", 10)), "n", 1)),
		d("_id", 3, "r", d("list", "none")),
		d("_id", 4, "r", d("list", 7, "n", 0)),
		d("_id", 5, "r", "text"),
		d("_id", 6, "r", bson.A{d("list", list)}),
		d("_id", 7, "r", d("list", list, "n", d("my", 1))),
		d("_id", 8, "r", d("list", list), "sum", bson.A{1}),
		d("_id", 9, "r", d("list", bson.A{d("_id", 91, "v", 1)}, "n", "1"))) // which can be understood
	insert(t, items, d("_id", 30, "parent", 3, "v", 1))
	before := stored(t, parents)
	id := func(n int) string { return fmt.Sprintf(`parents {"$numberInt":"%d"} malformed `, n) }
	malformed := []string{id(1) + "r.list", id(2) + "r.list", id(3) + "r.list", id(4) + "r.list", id(5) + "r", id(6) + "r", id(7) + "r.n", id(8) + "sum"}
	found := func() []string {
		return slices.DeleteFunc(problems(t, s.Check(t.Context(), nil)), func(p string) bool { return p[:len(id(9))-10] == id(9)[:len(id(9))-10] })
	}
	same(t, "check", malformed, found())
	for name, run := range map[string]func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){"adopt": s.Adopt, "repair": s.Repair} {
		for _, dry := range []bool{true, false} {
			result, err := run(t.Context(), &mongopatterns.Work{DryRun: dry})
			must(t, err)
			same(t, name, []int64{9, 8}, []int64{result.Examined, result.Failed})
			for i, f := range result.Failures {
				same(t, name, int32(i+1), f.ID.Int32())
			}
			same(t, name, before[:8], stored(t, parents)[:8])
		}
	}
	same(t, "check", malformed, problems(t, s.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", d("$lt", 9))})))
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "mended", malformed, problems(t, s.Check(t.Context(), nil)))
	for _, p := range before[:8] {
		for _, err := range []error{
			func() error { _, err := s.Add(t.Context(), int(p[0].Value.(int32)), d("v", 1)); return err }(),
			func() error {
				_, err := s.AddMany(t.Context(), seq(int(p[0].Value.(int32)), d("v", 1), d("v", 2)))
				return err
			}(),
		} {
			if err == nil {
				t.Errorf("%v takes an item", p)
			}
		}
	}
	same(t, "left", before[:8], stored(t, parents)[:8])
	untouched(t, parents)
	same(t, "items", 2, len(stored(t, items)))
}

// Adopt comes to its end beside old code that pushes to the same parents without pause, and
// nothing that was pushed is lost or taken twice.
func TestAdoptBesideOldCodeThatPushes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
	parents, items := db.Collection("parents"), db.Collection("items")
	const n, most, writers = 60, 6000, 4
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
			for i := 0; i < most && !ended.Load(); i++ {
				push := d("$push", d("items", d("_id", fmt.Sprintf("%d of %d", i, w))))
				if _, err := parents.UpdateOne(t.Context(), d("_id", (i*7+w)%n), push); err != nil {
					t.Error(err)
				}
				pushed.Add(1)
			}
		})
	}
	last := int64(0)
	result, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: n, Progress: func(r mongopatterns.Result) {
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
	if beside >= most*writers {
		t.Error("it came to its end after the old code")
	}
	_, err = s.Adopt(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
	same(t, "items", n+int(pushed.Load()), len(stored(t, items)))
}

// A write that meets a parent that has not been adopted, or has items that old code pushed
// since, adopts it and does its work: by itself, and in a transaction of the caller's.
func TestWritesAdopt(t *testing.T) {
	t.Parallel()
	item := func(id int) bson.D { return d("_id", id, "v", id) }
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
		return func(ctx context.Context, s sub) error { _, err := s.Add(ctx, 1, item(id)); return err }
	}
	many := func(ids ...int) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error {
			var all []bson.D
			for _, id := range ids {
				all = append(all, item(id))
			}
			_, err := s.AddMany(ctx, seq(1, all...))
			return err
		}
	}
	change := func(id int, update any) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error { return s.Update(ctx, 1, id, update) }
	}
	remove := func(id int) func(context.Context, sub) error {
		return func(ctx context.Context, s sub) error { return s.Delete(ctx, 1, id) }
	}
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
			t.Run(write+"/"+name, func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("rank", -1, "_id", -1), Values: []subset.Value{{Field: "v", Sum: "sum"}}})
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
						err = transaction(t, db, func(ctx context.Context) error { return test.do(ctx, s) })
					} else {
						err = test.do(t.Context(), s)
					}
					must(t, err)
					untouched(t, parents)
					// What the write has not met, the second Adopt brings home.
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
							same(t, "text", any(text), get(doc, "text"))
						}
					}
					same(t, "items", want, got)
				}
			})
		}
	}
}

// What cannot be adopted still refuses a write that would drop it, or count without it.
func TestWritesThatCannotAdopt(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("rank", -1)})
	parents, items := db.Collection("parents"), db.Collection("items")
	insert(t, parents,
		d("_id", 1, "items", bson.A{d("_id", 10, "rank", bson.A{1})}),                  // cannot be ranked
		d("_id", 2, "items", bson.A{d("_id", 20, "rank", 2), 7}, "items_count", 2),     // no document
		d("_id", 3, "items", bson.A{d("_id", 90, "rank", 3)}),                          // of another parent's _id
		d("_id", 4, "items", bson.A{d("_id", 40, "rank", 1), d("_id", 40, "rank", 2)})) // two of one _id
	insert(t, items, d("_id", 90, "parent", 9, "rank", 1), d("_id", 91, "parent", 3, "rank", 1))
	before := [][]bson.D{stored(t, parents), stored(t, items)}
	for id := 1; id <= 4; id++ {
		for _, joined := range []bool{false, true} {
			for _, write := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := s.Add(ctx, id, d("rank", 5)); return err },
				func(ctx context.Context) error {
					_, err := s.AddMany(ctx, seq(id, d("rank", 4), d("rank", 5)))
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
					err = transaction(t, db, write)
				} else {
					err = write(t.Context())
				}
				wantErr(t, err, subset.ErrNotAdopted)
				if mongo.IsDuplicateKeyError(err) { // it would say that the item was added before
					t.Errorf("%d: %v", id, err)
				}
				same(t, "left", before, [][]bson.D{stored(t, parents), stored(t, items)})
			}
		}
	}
	if _, err := s.Add(t.Context(), 9, d("_id", 90)); !errors.Is(err, subset.ErrNoParent) {
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
	const n, each = 4, 80
	for i := range n {
		insert(t, parents, d("_id", i, "items", bson.A{d("_id", fmt.Sprint("a ", i)), d("_id", fmt.Sprint("b ", i))}))
	}
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for i := range each {
				if _, err := s.Add(t.Context(), i%n, d("_id", fmt.Sprint("new ", w, " ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for i := range each {
			update(t, parents, d("_id", (i+1)%n), d("$push", d("items", d("_id", fmt.Sprint("old ", i)))))
		}
	})
	group.Wait()
	_, err := s.Adopt(t.Context(), nil)
	must(t, err)
	clean(t, db, s)
	same(t, "items", 2*n+3*each, len(stored(t, items)))
}

// What old code edits in the array, or pulls out of it, Check names, Adopt leaves and counts as
// Remaining beside what it does, and Repair undoes.
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
			update(t, parents, d("items._id", 8), d("$set", d("items.$.text", "by old code")))
		}, "edited", bson.A{with(9), with(8, "text", "by old code"), with(7)}, 9},
		"a field taken away": {func(t *testing.T, parents *mongo.Collection) {
			update(t, parents, d(), d("$unset", d("items.1.v", "")))
		}, "edited", bson.A{with(9), d("_id", 8), with(7)}, 9},
		"pulled": {func(t *testing.T, parents *mongo.Collection) {
			update(t, parents, d(), d("$pull", d("items", d("_id", 8))))
		}, "pulled", bson.A{with(9), with(7)}, 9},
		"all pulled": {func(t *testing.T, parents *mongo.Collection) {
			update(t, parents, d(), d("$set", d("items", bson.A{})))
		}, "pulled", bson.A{}, 9},
		"edited and pushed": {func(t *testing.T, parents *mongo.Collection) {
			update(t, parents, d(), d("$set", d("items.1.v", 80), "$inc", d("other", 1)))
			update(t, parents, d(), d("$push", d("items", item(20))))
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
				_, err := s.Add(t.Context(), 1, item(i+1))
				must(t, err)
			}
			test.old(t, parents)
			numbers := func(v any) string { return fmt.Sprint(v) }
			for range 2 {
				result, err := s.Adopt(t.Context(), nil)
				must(t, err)
				same(t, "remaining", int64(1), result.Remaining)
				doc := stored(t, parents)[0]
				same(t, "array", numbers(test.kept), numbers(get(doc, "items")))
				same(t, "items", test.all, len(stored(t, items)))
				same(t, "count", any(int32(test.all)), get(doc, "items_count"))
				same(t, "named", []string{`parents {"$numberInt":"1"} ` + test.kind + ` items`}, problems(t, s.Check(t.Context(), nil)))
			}
			untouched(t, parents)
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

// What is no edit: a parent that keeps fewer fields than old code stores, or in another
// order, or that is cut by old code itself.
func TestNoEdits(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3, Fields: []string{"a"}, Order: d("at", -1)})
	parents := db.Collection("parents")
	push := func(id int) {
		update(t, parents, d("_id", 1), d("$push", d("items", d("$each", bson.A{d("text", "x", "at", id, "_id", id, "a", id)}, "$sort", d("at", -1), "$slice", 3))))
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

// Two elements of one _id, of which the collection has one: the other is not dropped.
func TestTwiceInTheArray(t *testing.T) {
	t.Parallel()
	for _, position := range []int{0, 9} {
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
		parents := db.Collection("parents")
		insert(t, parents, d("_id", 1, "items", bson.A{d("_id", 8, "text", "as it was")}))
		_, err := s.Adopt(t.Context(), nil)
		must(t, err)
		update(t, parents, d(), d("$push", d("items", d("$each", bson.A{d("_id", 8, "text", "another")}, "$position", position))))
		before := stored(t, parents)
		result, err := s.Adopt(t.Context(), nil)
		must(t, err)
		same(t, "adopt", mongopatterns.Result{Examined: 1, Remaining: 1}, result)
		same(t, "left", before, stored(t, parents))
		same(t, "named", []string{`parents {"$numberInt":"1"} edited items`}, problems(t, s.Check(t.Context(), nil)))
	}
}

// A count that was typed as text does not keep new code out.
func TestCountAsText(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *subset.Subset[int, bson.D]) error{
		"add": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Add(ctx, 1, d("_id", 9))
			return err
		},
		"add many": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.AddMany(ctx, seq(1, d("_id", 9)))
			return err
		},
		"update": func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			return s.Update(ctx, 1, 7, d("$set", d("a", 1)))
		},
		"delete": func(ctx context.Context, s *subset.Subset[int, bson.D]) error { return s.Delete(ctx, 1, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
			insert(t, db.Collection("parents"), d("_id", 1, "items", bson.A{d("_id", 7), d("_id", 8)}, "items_count", "2"))
			insert(t, db.Collection("items"), d("_id", 7, "parent", 1))
			must(t, write(t.Context(), s))
			clean(t, db, s)
			insert(t, db.Collection("parents"), d("_id", 2, "items", bson.A{}, "items_count", "none"))
			_, err := s.Add(t.Context(), 2, d("_id", 20))
			must(t, err)
			insert(t, db.Collection("parents"), d("_id", 3, "items_count", "none"))
			_, err = s.AddMany(t.Context(), seq(3, d("_id", 30)))
			must(t, err)
			clean(t, db, s)
		})
	}
}

// What new code deletes beside a push of old code is no pull.
func TestDeletionBesideAPush(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 3})
	insert(t, db.Collection("parents"), d("_id", 1))
	for i := range 5 {
		_, err := s.Add(t.Context(), 1, d("_id", 10+i))
		must(t, err)
	}
	update(t, db.Collection("parents"), d(), d("$push", d("items", d("_id", 5))))
	must(t, s.Delete(t.Context(), 1, 14))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 1, Done: 1}, result)
	clean(t, db, s)
}
