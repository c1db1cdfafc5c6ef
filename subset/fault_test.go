package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A read that an index covers returns the fields in the index's order, and null for
// missing ones. It must neither be reported nor stored.
func TestCoveredReads(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("b", -1, "a", 1), Fields: []string{"_id"}})
	parents := db.Collection("parents")
	insert(t, parents, d("_id", 1))
	for i := range 5 {
		item := d("_id", i, "a", 1, "b", i) // not in the index's order
		if i < 3 {
			item = d("_id", i, "b", i) // nor with all its fields
		}
		_, err := s.Add(t.Context(), 1, item)
		must(t, err)
	}
	clean(t, db, s)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repair", mongopatterns.Result{Examined: 1}, result)
	must(t, s.Delete(t.Context(), 1, 4))
	want := bson.A{d("_id", int32(3), "a", int32(1), "b", int32(3)), d("_id", int32(2), "b", int32(2))}
	same(t, "refilled", want, get(stored(t, parents)[0], "items"))
	update(t, parents, d(), d("$unset", d("items", "")))
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repaired", want, get(stored(t, parents)[0], "items"))
}

// Comments and their count that exist already: nothing of them is lost, whatever is
// called, in whatever sequence.
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
		_, err = s.Add(ctx, 1, d("_id", 100))
		must(t, err)
		same(t, "items", 41, len(stored(t, db.Collection("items"))))
		clean(t, db, s)
	})
	t.Run("what has no _id", func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("rank", -1)})
		parents := db.Collection("parents")
		for i, strange := range []any{7, nil, d("_id", nil)} {
			insert(t, parents, d("_id", i, "items", bson.A{d("rank", 2), strange}, "items_count", 2))
			_, err := s.Add(ctx, i, d("rank", 3))
			wantErr(t, err, subset.ErrNotAdopted)
			_, err = s.AddMany(ctx, seq(i, d("rank", 3), d("rank", 4)))
			wantErr(t, err, subset.ErrNotAdopted)
		}
	})
	// The array of a parent to which an old program has pushed is not in order.
	t.Run("one of another order", func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("rank", -1)})
		insert(t, db.Collection("parents"), d("_id", 1, "items", bson.A{d("_id", 1, "rank", 1), d("_id", 2, "rank", 2)}, "items_count", 1))
		insert(t, db.Collection("items"), d("_id", 1, "parent", 1, "rank", 1))
		for _, ranks := range [][]int{{3}, {3, 0}} {
			var come []bson.D
			for _, rank := range ranks {
				come = append(come, d("rank", rank))
			}
			_, err := s.AddMany(ctx, seq(1, come...))
			must(t, err)
		}
		same(t, "items", 2+3, len(stored(t, db.Collection("items"))))
		clean(t, db, s)
	})
	for round := range 6 {
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
					list, _ := get(doc, "items").(bson.A)
					for _, v := range list {
						known[get(v.(bson.D), "_id")] = true
					}
				}
				for _, doc := range stored(t, items) {
					known[doc[0].Value] = true
				}
			}
			note()
			everything := known
			for range 40 {
				p, id := random.IntN(3), any(random.IntN(300))
				if keys := stored(t, items); len(keys) > 0 && random.IntN(2) == 0 {
					one := keys[random.IntN(len(keys))]
					id, p = one[0].Value, int(get(one, "parent").(int32))
				}
				var err error
				switch random.IntN(9) {
				case 0, 1, 2:
					next++
					_, err = s.Add(ctx, p, d("_id", next-2*random.IntN(2)*next))
				case 3:
					next += 2
					_, err = s.AddMany(ctx, seq(p, d("_id", next), d("_id", next+1)))
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
					update(t, parents, d("_id", p), d("$push", d("items", d("_id", next-2*random.IntN(2)*next))))
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

// With another N the array stays exactly the best, by any kind of write.
func TestAnotherN(t *testing.T) {
	t.Parallel()
	low := d("_id", 100, "rank", -1)
	for name, test := range map[string]struct {
		write func(context.Context, *subset.Subset[int, bson.D]) error
		want  []any
	}{
		"add": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Add(ctx, 1, low)
			return err
		}, []any{9, 8, 7, 6, 5}},
		"add the best": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Add(ctx, 1, d("_id", 100, "rank", 50))
			return err
		}, []any{100, 9, 8, 7, 6}},
		"add many": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.AddMany(ctx, seq(1, low))
			return err
		}, []any{9, 8, 7, 6, 5}},
		"delete unkept": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error { return s.Delete(ctx, 1, 3) }, []any{9, 8, 7, 6, 5}},
		"delete kept":   {func(ctx context.Context, s *subset.Subset[int, bson.D]) error { return s.Delete(ctx, 1, 8) }, []any{9, 7, 6, 5, 4}},
		"sink": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			return s.Update(ctx, 1, 8, d("$set", d("rank", 4.5)))
		}, []any{9, 7, 6, 5, 8}},
		"rise within what is not kept": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			return s.Update(ctx, 1, 2, d("$set", d("rank", 5.5)))
		}, []any{9, 8, 7, 6, 2}},
	} {
		for _, bestLast := range []bool{false, true} {
			t.Run(fmt.Sprint(name, bestLast), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				o := &subset.Options{N: 3, Order: d("rank", -1), BestLast: bestLast}
				s := newSubset[int, bson.D](t, db, o)
				insert(t, db.Collection("parents"), d("_id", 1))
				for i := range 10 {
					_, err := s.Add(t.Context(), 1, d("_id", i, "rank", i))
					must(t, err)
				}
				kept := func(s *subset.Subset[int, bson.D]) (out []any) {
					best, err := s.Top(t.Context(), 1)
					must(t, err)
					for _, item := range best {
						out = append(out, int(item[0].Value.(int32)))
					}
					return out
				}
				o.N = 5
				s = newSubset[int, bson.D](t, db, o)
				must(t, test.write(t.Context(), s))
				same(t, "a larger N", test.want, kept(s))
				clean(t, db, s)
				o.N = 2
				s = newSubset[int, bson.D](t, db, o)
				_, err := s.Add(t.Context(), 1, d("_id", 200, "rank", -5))
				must(t, err)
				same(t, "a smaller N", test.want[:2], kept(s))
				clean(t, db, s)
			})
		}
	}
}

// Options.Filter is evaluated here as the server evaluates it.
func TestFilterIsTheServers(t *testing.T) {
	t.Parallel()
	decimal, _ := bson.ParseDecimal128("2")
	values := []any{nil, 1, int64(1), 1.0, 2, decimal, "a", "", true, false, d(), d("x", 1), d("x", 1.0), bson.ObjectID{1}, bson.MinKey{}}
	filters := []bson.D{{}, d("a", d("$exists", true)), d("a", d("$exists", false)), d("a.x", 1), d("a.x", nil), d("a.x", d("$ne", 1)),
		d("a", d("$in", bson.A{1, nil, "a"})), d("a", d("$nin", bson.A{1, nil, "a"})), d("a", d("$ne", nil, "$nin", bson.A{true})), d("a", 2, "a.x", nil)}
	for _, v := range values {
		filters = append(filters, d("a", v), d("a", d("$eq", v)), d("a", d("$ne", v)))
	}
	db := mongotest.Database(t)
	parents, items := db.Collection("parents"), db.Collection("items")
	for i, filter := range filters {
		s, err := subset.New[int, bson.D](parents, items, &subset.Options{N: 100, Filter: filter})
		must(t, err)
		insert(t, parents, d("_id", i))
		_, err = s.AddMany(t.Context(), func(yield func(int, bson.D) bool) {
			for n, v := range values {
				if !yield(i, d("_id", i*100+n, "a", v)) {
					return
				}
			}
			yield(i, d("_id", i*100+99))
		})
		must(t, err)
		want, err := items.CountDocuments(t.Context(), append(d("parent", i), filter...))
		must(t, err)
		kept, err := s.Top(t.Context(), i)
		must(t, err)
		if len(kept) != int(want) {
			t.Errorf("%v: %d kept, want %d", filter, len(kept), want)
		}
		for p, err := range s.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", i)}) {
			t.Errorf("%v: %v, %v", filter, p, err)
		}
	}
	for _, filter := range []any{d("$or", bson.A{}), d("a", d("$gt", 1)), d("a", bson.Regex{Pattern: "x"}), d("a", bson.A{1}), d("parent", 1),
		d("a", d("$in", 1)), d("a", d("$exists", 1)), d("a", d("$in", bson.A{bson.A{}})), d("$expr", true), 5} {
		_, err := subset.New[int, bson.D](parents, items, &subset.Options{Filter: filter})
		wantErr(t, err, mongopatterns.ErrInvalid)
	}
}

// Approved reviews alone are kept and counted, whichever way an item goes.
func TestFilter(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Order: d("at", -1), Filter: d("approved", true, "deleted", nil),
		Values: []subset.Value{{Field: "stars", Sum: "sum", Mean: "mean"}}})
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	ctx := t.Context()
	item := func(id int, approved bool) bson.D { return d("_id", id, "at", id, "approved", approved, "stars", id) }
	for i := range 6 {
		_, err := s.Add(ctx, 1, item(i, i%2 == 0))
		must(t, err)
	}
	_, err := s.AddMany(ctx, seq(2, item(20, false), item(21, true), item(22, false)))
	must(t, err)
	_, err = s.Add(ctx, 1, d("_id", 7, "at", 9, "stars", "none")) // its number does not count
	must(t, err)
	step := func(what string, err error, count, sum int, want ...int32) {
		t.Helper()
		must(t, err)
		doc := stored(t, db.Collection("parents"))[0]
		got := []int32{}
		for _, v := range get(doc, "items").(bson.A) {
			got = append(got, get(v.(bson.D), "_id").(int32))
		}
		same(t, what, append([]int32{}, want...), got)
		same(t, what, []any{int32(count), int32(sum)}, []any{get(doc, "items_count"), get(doc, "sum")})
		clean(t, db, s)
	}
	set := func(id int, pairs ...any) error { return s.Update(ctx, 1, id, d("$set", d(pairs...))) }
	step("added", nil, 3, 6, 4, 2)
	step("approved", set(3, "approved", true), 4, 9, 4, 3)
	step("deleted softly", set(4, "deleted", true), 3, 5, 3, 2)
	step("an edit that does not count", set(5, "at", 100), 3, 5, 3, 2)
	step("by setting all", s.Update(ctx, 1, 5, d("$set", item(5, true))), 4, 10, 5, 3)
	step("deleted", s.Delete(ctx, 1, 5), 3, 5, 3, 2)
	step("deleted without counting", s.Delete(ctx, 1, 1), 3, 5, 3, 2)
	step("deleted, of three", s.Delete(ctx, 1, 3), 2, 2, 2, 0)
	wantErr(t, set(7, "approved", true), mongopatterns.ErrInvalid) // it has no number
	wantErr(t, set(2, "approved", bson.A{true}), mongopatterns.ErrInvalid)
	_, err = s.Add(ctx, 9, item(50, false))
	wantErr(t, err, subset.ErrNoParent)
	_, err = s.AddMany(ctx, seq(9, item(50, false)))
	wantErr(t, err, subset.ErrNoParent)
	same(t, "all", 2, len(collect(t, s.All(ctx, 1))))
	update(t, db.Collection("parents"), d(), d("$inc", d("items_count", 1)))
	result, err := s.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": 1}}) // of one
	must(t, err)
	same(t, "repair of one", mongopatterns.Result{Examined: 1, Done: 1}, result)
	same(t, "the other", []string{`parents {"$numberInt":"2"} wrong count items_count`}, problems(t, s.Check(ctx, &mongopatterns.Work{Filter: d("_id", 2)})))
	_, err = s.Repair(ctx, nil)
	must(t, err)
	same(t, "index", d("parent", 1, "approved", 1, "at", int32(-1), "_id", int32(-1)), s.Indexes()["items"][0].Keys)
	n, err := s.DeleteParent(ctx, 1)
	same(t, "deleted with the parent", int64(4), n)
	must(t, err)
}
