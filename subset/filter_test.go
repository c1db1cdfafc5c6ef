package subset_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

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
		_, err = s.InsertMany(t.Context(), func(yield func(int, bson.D) bool) {
			for n, v := range values {
				if !yield(i, d("_id", i*100+n, "a", v)) {
					return
				}
			}
			yield(i, d("_id", i*100+99))
		}, nil)
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
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	}
}

// Approved reviews alone are kept and counted, whichever way an item changes.
func TestFilter(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("at", -1), Filter: d("approved", true, "deleted", nil),
		Values: []subset.Value{{Field: "stars", Sum: "sum", Mean: "mean"}}})
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	ctx := t.Context()
	item := func(id int, approved bool) bson.D { return d("_id", id, "at", id, "approved", approved, "stars", id) }
	for i := range 6 {
		_, err := s.Insert(ctx, 1, item(i, i%2 == 0))
		must(t, err)
	}
	_, err := s.InsertMany(ctx, seq(2, item(20, false), item(21, true), item(22, false)), nil)
	must(t, err)
	_, err = s.Insert(ctx, 1, d("_id", 7, "at", 9, "stars", "none")) // its number does not count
	must(t, err)
	step := func(what string, err error, count, sum int, want ...int32) {
		t.Helper()
		must(t, err)
		doc := stored(t, db.Collection("parents"))[0]
		got := []int32{}
		for _, v := range testkit.Get(doc, "items").(bson.A) {
			got = append(got, testkit.Get(v.(bson.D), "_id").(int32))
		}
		same(t, what, append([]int32{}, want...), got)
		same(t, what, []any{int32(count), int32(sum)}, []any{testkit.Get(doc, "items_count"), testkit.Get(doc, "sum")})
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
	testkit.Fails(t, "subset", set(7, "approved", true), mongopatterns.ErrInvalid) // it has no number
	testkit.Fails(t, "subset", set(2, "approved", bson.A{true}), mongopatterns.ErrInvalid)
	_, err = s.Insert(ctx, 9, item(50, false))
	testkit.Fails(t, "subset", err, mongopatterns.ErrNoParent)
	_, err = s.InsertMany(ctx, seq(9, item(50, false)), nil)
	testkit.Fails(t, "subset", err, mongopatterns.ErrNoParent)
	same(t, "all", 2, len(testkit.Collect(t, s.All(ctx, 1))))
	testkit.Update(t, db.Collection("parents"), d(), d("$inc", d("items_count", 1)))
	result, err := s.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": 1}}) // of one
	must(t, err)
	same(t, "repair of one", mongopatterns.Result{Examined: 1, Done: 1}, result)
	same(t, "the other", []string{`parents {"$numberInt":"2"} wrong field items_count`}, testkit.Found(t, s.Check(ctx, &mongopatterns.Work{Filter: d("_id", 2)})))
	_, err = s.Repair(ctx, nil)
	must(t, err)
	same(t, "index", d("parent", 1, "approved", 1, "at", int32(-1), "_id", int32(-1)), s.Indexes()["items"][0].Keys)
	n, err := s.DeleteParent(ctx, 1)
	same(t, "deleted with the parent", int64(4), n)
	must(t, err)
}

// To $exists a zero that omitempty leaves out does not exist.
func TestFilterByExistence(t *testing.T) {
	t.Parallel()
	type item struct {
		ID    int `bson:"_id"`
		Likes int `bson:"likes,omitempty"`
	}
	for exists, want := range map[bool][]int{true: {2}, false: {1}} {
		db := mongotest.Database(t)
		s := testkit.Must(subset.New[int, item](db.Collection("parents"), db.Collection("items"), &subset.Options{Filter: d("likes", d("$exists", exists))}))
		testkit.Insert(t, db.Collection("parents"), d("_id", 1))
		testkit.Must(s.Insert(t.Context(), 1, item{ID: 1, Likes: 0}))
		testkit.Must(s.Insert(t.Context(), 1, item{ID: 2, Likes: 5}))
		var got []int
		for _, i := range testkit.Must(s.Top(t.Context(), 1)) {
			got = append(got, i.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("$exists: %v: %v, not %v", exists, got, want)
		}
	}
}
