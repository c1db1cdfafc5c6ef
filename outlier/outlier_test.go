package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// stored returns the documents in an order, without the hidden fields.
func stored(t testing.TB, coll *mongo.Collection, sort bson.D, hidden ...string) []bson.D {
	t.Helper()
	project := bson.D{}
	for _, field := range hidden {
		project = append(project, bson.E{Key: field, Value: 0})
	}
	return testkit.Find[bson.D](t, coll, bson.D{}, options.Find().SetSort(append(bson.D{}, sort...)).SetProjection(project))
}

// Short names for what hundreds of lines call.
var (
	equal  = testkit.Equal
	insert = testkit.Insert
)

func newLists[ID, E any](t testing.TB, db *mongo.Database, opts *outlier.Options) *outlier.Lists[ID, E] {
	t.Helper()
	lists, err := outlier.New[ID, E](db.Collection("parents"), db.Collection("extras"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := lists.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lists
}

// replace writes a document whole, as other code does.
func replace(t testing.TB, coll *mongo.Collection, id, doc any) {
	t.Helper()
	if result, err := coll.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: id}}, doc); err != nil || result.MatchedCount != 1 {
		t.Fatal(result, err)
	}
}

// add adds elements, and wants all of them added.
func add[ID, E any](t testing.TB, lists *outlier.Lists[ID, E], id ID, es ...E) {
	t.Helper()
	for some := range slices.Chunk(es, 500) {
		if n, err := lists.Add(t.Context(), id, some...); err != nil || n != int64(len(some)) {
			t.Fatalf("added %d of %v, %v", n, some, err)
		}
	}
}

// set changes a document without the package.
func set(t testing.TB, coll *mongo.Collection, filter bson.D, update bson.D) {
	t.Helper()
	if result, err := coll.UpdateOne(t.Context(), filter, update); err != nil || result.MatchedCount != 1 {
		t.Fatal(result, err)
	}
}

func users(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("user%02d", i))
	}
	return out
}

func ints(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// array is how a slice is stored.
func array[E any](items []E) (out bson.A) {
	out = bson.A{}
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

func bestSellers(t testing.TB, db *mongo.Database, most int) *outlier.Lists[int, string] {
	t.Helper()
	books, err := outlier.New[int, string](db.Collection("books"), db.Collection("extras"), &outlier.Options{
		ArrayField: "customers_purchased", FlagField: "has_extras", ParentField: "book_id", Set: true, MaxCount: most,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := books.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return books
}

// The book of the scenario, with exactly its field names: at most 1000 inside.
func TestBestSellers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	books := bestSellers(t, db, 1000)
	for id := range 2 {
		insert(t, db.Collection("books"), bson.D{{Key: "_id", Value: id}, {Key: "title", Value: "T"}})
	}
	add(t, books, 0, users(0, 3)...)
	add(t, books, 1, users(0, 1000)...)
	for _, user := range users(1000, 1003) {
		add(t, books, 1, user)
	}
	add(t, books, 1, users(1003, 2400)...)
	book := func(id int, title string, customers []string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "_id", Value: int32(id)}, {Key: "title", Value: title}, {Key: "customers_purchased", Value: array(customers)}}, more...)
	}
	got := stored(t, db.Collection("books"), bson.D{{Key: "_id", Value: 1}}, "customers_purchased_moved")
	for _, doc := range got {
		slices.SortFunc(doc[2:], func(a, b bson.E) int { return len(a.Key) - len(b.Key) }) // the order of the fields is not defined
	}
	equal(t, []bson.D{
		book(0, "T", users(0, 3)),
		{{Key: "_id", Value: int32(1)}, {Key: "title", Value: "T"}, {Key: "has_extras", Value: true},
			{Key: "customers_purchased", Value: array(users(2000, 2400)[:0])}, {Key: "customers_purchased_outside", Value: int32(2000)}},
	}[0], got[0])
	inside := got[1][3].Value.(bson.A)
	equal(t, array(users(2400-len(inside), 2400)), inside)
	if len(inside) > 1000 || len(inside) < 500 {
		t.Errorf("%d inside", len(inside))
	}
	at := 0
	for n, doc := range stored(t, db.Collection("extras"), bson.D{{Key: "n", Value: 1}}, "_id") {
		size := len(doc[2].Value.(bson.A))
		equal(t, bson.D{{Key: "book_id", Value: int32(1)}, {Key: "n", Value: int32(n)}, {Key: "customers_purchased", Value: array(users(at, at+size))}}, doc)
		at += size
	}
	equal(t, users(0, 2400), testkit.Collect(t, books.All(t.Context(), 1)))
	if n, err := books.Total(t.Context(), 1); err != nil || n != 2400 {
		t.Error(n, err)
	}
	for user, want := range map[string]bool{"user00": true, "user1500": true, "user2399": true, "user2400": false} {
		if held, err := books.Contains(t.Context(), 1, user); err != nil || held != want {
			t.Error(user, held, err)
		}
		if n, err := books.Add(t.Context(), 1, user); err != nil || (n == 0) != want {
			t.Error(user, n, err)
		}
	}
	testkit.Healthy(t, books)
}

// Best-sellers as others wrote them: the flag a string, or true, overflow documents
// without a number. Every call refuses them; Adopt and Repair bring the whole list into form.
func TestBestSellersOfOthers(t *testing.T) {
	t.Parallel()
	for i, flag := range []any{"true", true, 1} {
		for j, repair := range []bool{false, true} {
			if !scale.Turn(i+j, 2) {
				continue // in the small run each flag has one of the two
			}
			t.Run(fmt.Sprint(flag, repair), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				books := bestSellers(t, db, 50)
				customers := bson.E{Key: "customers_purchased", Value: users(0, 50)}
				for id := range 2 {
					insert(t, db.Collection("books"), bson.D{{Key: "_id", Value: id}, customers, {Key: "has_extras", Value: flag}})
				}
				for from := 50; from < 200; from += 50 {
					insert(t, db.Collection("extras"), bson.D{{Key: "book_id", Value: 1}, {Key: "customers_purchased", Value: users(from, from+50)}})
				}
				before := append(stored(t, db.Collection("books"), nil), stored(t, db.Collection("extras"), nil)...)
				refused := func(err error) {
					t.Helper()
					if !errors.Is(err, mongopatterns.ErrNotAdopted) || errors.Is(err, mongopatterns.ErrNotFound) {
						t.Error(err)
					}
				}
				for id := range 2 {
					_, err := books.Add(t.Context(), id, "new")
					refused(err)
					_, err = books.Remove(t.Context(), id, "user01")
					refused(err)
					_, err = books.Contains(t.Context(), id, "user01")
					refused(err)
					_, err = books.Total(t.Context(), id)
					refused(err)
					_, err = books.Slice(t.Context(), id, 0, 1)
					refused(err)
					for _, err := range books.All(t.Context(), id) {
						refused(err)
					}
				}
				equal(t, before, append(stored(t, db.Collection("books"), nil), stored(t, db.Collection("extras"), nil)...))
				for p, err := range books.Check(t.Context(), nil) {
					if err != nil || p.Kind != mongopatterns.NotAdopted {
						t.Error(p, err)
					}
				}
				adopt := books.Adopt
				if repair {
					adopt = books.Repair
				}
				for _, want := range []int64{2, 0} {
					if result, err := adopt(t.Context(), nil); err != nil || result.Done != want || result.Failed+result.Remaining != 0 {
						t.Error(result, err)
					}
				}
				testkit.Healthy(t, books)
				equal(t, users(0, 50), testkit.Collect(t, books.All(t.Context(), 0)))
				equal(t, users(0, 200), testkit.Collect(t, books.All(t.Context(), 1)))
				if n := testkit.Count(t, db.Collection("books"), bson.D{{Key: "has_extras", Value: bson.D{{Key: "$exists", Value: true}}}}); n != 1 {
					t.Error(n)
				}
				add(t, books, 1, "new")
				if n, err := books.Add(t.Context(), 1, "user150"); err != nil || n != 0 {
					t.Error(n, err)
				}
				if err := books.Delete(t.Context(), 1); err != nil || testkit.Count(t, db.Collection("extras"), bson.D{}) != 0 {
					t.Error(err)
				}
			})
		}
	}
}

// Deleting a list of others deletes its overflow documents.
func TestDeleteNotAdopted(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	books := bestSellers(t, db, 50)
	insert(t, db.Collection("books"), bson.D{{Key: "_id", Value: 1}, {Key: "has_extras", Value: "true"}})
	insert(t, db.Collection("extras"), bson.D{{Key: "book_id", Value: 1}, {Key: "customers_purchased", Value: users(0, 3)}})
	if err := books.Delete(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if n := testkit.Count(t, db.Collection("extras"), bson.D{}); n != 0 {
		t.Error(n)
	}
}

func TestMissingParent(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, Set: isSet})
		_, one := lists.Add(t.Context(), 1, 1)
		_, many := lists.Add(t.Context(), 1, 1, 2, 3)
		_, remove := lists.Remove(t.Context(), 1, 1)
		_, contains := lists.Contains(t.Context(), 1, 1)
		_, total := lists.Total(t.Context(), 1)
		_, page := lists.Slice(t.Context(), 1, 100, 10)
		var all error
		for _, err := range lists.All(t.Context(), 1) {
			all = err
		}
		for i, err := range []error{one, many, remove, contains, total, page, all, lists.Delete(t.Context(), 1)} {
			if !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if n := testkit.Count(t, db.Collection("parents"), bson.D{}) + testkit.Count(t, db.Collection("extras"), bson.D{}); n > 0 {
			t.Error(n)
		}
	}
}

// Two lists in one parent, with default names: neither uses the other's fields.
func TestTwoLists(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := map[string]*outlier.Lists[int, int]{}
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	for name, n := range map[string]int{"a": 5, "b": 9} {
		l, err := outlier.New[int, int](db.Collection("parents"), db.Collection("extras_"+name), &outlier.Options{ArrayField: name, MaxCount: 4})
		if err != nil {
			t.Fatal(err)
		}
		lists[name] = l
		add(t, l, 1, ints(0, n)...)
	}
	for x := range 2 { // a folds back
		if _, err := lists["a"].Remove(t.Context(), 1, x); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]int{"a": ints(2, 5), "b": ints(0, 9)} {
		equal(t, want, testkit.Collect(t, lists[name].All(t.Context(), 1)))
		testkit.Healthy(t, lists[name])
		for _, field := range []string{"_overflow", "_outside", "_moved"} {
			if n := testkit.Count(t, db.Collection("parents"), bson.D{{Key: name + field, Value: bson.D{{Key: "$exists", Value: true}}}}); (n > 0) != (name == "b") {
				t.Error(name, field, n)
			}
		}
	}
	// A parent with two patterns: one deletes it, the other's documents are deleted by its filter.
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if err := lists["a"].Delete(ctx, 1); err != nil {
			return err
		}
		_, err := db.Collection("extras_b").DeleteMany(ctx, lists["b"].OverflowFilter(1))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	testkit.Healthy(t, lists["b"])
}

// By default all elements move back at three quarters of MaxCount.
func TestDefaultFoldBack(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for bound, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 10: 7} {
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: bound})
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: bound}})
		add(t, lists, bound, ints(0, bound+1)...)
		for x := range bound + 1 {
			if removed, err := lists.Remove(t.Context(), bound, x); err != nil || !removed {
				t.Fatal(removed, err)
			}
			n := testkit.Count(t, db.Collection("parents"), append(lists.Filter(bound), lists.OutliersFilter()...))
			if left := bound - x; (n == 0) != (left <= want) {
				t.Errorf("at most %d: %d outliers of %d elements", bound, n, left)
			}
		}
		for _, doc := range stored(t, db.Collection("parents"), nil) {
			if len(doc) != 2 {
				t.Error("not typical:", doc)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents, extras := db.Collection("parents"), db.Collection("extras")
	for want, o := range map[string]*outlier.Options{
		"Options.ArrayField: ":       {ArrayField: "a.b"},
		"Options.FlagField: ":        {FlagField: "items"},
		"Options.OutsideField: ":     {FlagField: "x", OutsideField: "x"},
		"items_moved: ":              {FlagField: "items_moved"},
		"Options.ParentField: ":      {ParentField: "_id"},
		"Options.NumberField: ":      {NumberField: "parent"},
		"Options.MaxCount: ":         {MaxCount: -1},
		"Options.MaxBytes: ":         {MaxBytes: 16 << 20},
		"Options.OverflowMaxCount: ": {OverflowMaxCount: -1},
		"Options.OverflowMaxBytes: ": {OverflowMaxBytes: -1},
		"Options.FoldBack: ":         {MaxCount: 10, FoldBack: 10},
	} {
		if _, err := outlier.New[int, int](parents, extras, o); !errors.Is(err, mongopatterns.ErrInvalid) || len(err.Error()) < 20 || err.Error()[:len("outlier: new: invalid: ")+len(want)] != "outlier: new: invalid: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, colls := range [][2]*mongo.Collection{{nil, extras}, {parents, nil}, {parents, parents}, {parents, db.Client().Database("other").Collection("x")}} {
		if _, err := outlier.New[int, int](colls[0], colls[1], nil); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	}
	lists, err := outlier.New[int, int](parents, extras, &outlier.Options{ElementIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	indexes := lists.Indexes()
	equal(t, []any{bson.D{{Key: "items_overflow", Value: 1}}, bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 1}}, bson.D{{Key: "parent", Value: 1}, {Key: "items", Value: 1}}},
		[]any{indexes["parents"][0].Keys, indexes["extras"][0].Keys, indexes["extras"][1].Keys})
	equal(t, map[string]bson.D{"parents": {{Key: "_id", Value: 1}}, "extras": {{Key: "parent", Value: 1}}}, lists.ShardKey())
	if _, err := extras.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	if err := lists.EnsureIndexes(t.Context()); !errors.Is(err, mongopatterns.ErrIndexConflict) {
		t.Error(err)
	}
}

func TestAddMany(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 10, Set: true})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: bson.A{0, 1}}},
		bson.D{{Key: "_id", Value: 4}, {Key: "items_overflow", Value: "true"}}, bson.D{{Key: "_id", Value: 5}, {Key: "items", Value: "text"}})
	seq := func(yield func(int, int) bool) {
		for x := range 600 {
			for id := 1; id <= 2; id++ {
				if !yield(id, x) {
					return
				}
			}
			for id := 3; x < 2 && id <= 5; id++ {
				if !yield(id, x) {
					return
				}
			}
		}
	}
	result, err := lists.AddMany(t.Context(), seq, nil)
	var ids []int32
	for _, f := range result.Failures {
		ids = append(ids, f.ID.Int32())
	}
	result.Failures = nil
	if want := (mongopatterns.Result{Examined: 1206, Done: 1198, Skipped: 2, Failed: 6}); !errors.Is(err, mongopatterns.ErrNotFound) || !cmp.Equal(result, want) {
		t.Errorf("%+v, %v", result, err)
	}
	equal(t, []int32{3, 4, 5}, ids)
	for id := 1; id <= 2; id++ {
		equal(t, ints(0, 600), testkit.Collect(t, lists.All(t.Context(), id)))
	}
	var seen []int64
	work := &mongopatterns.Work{BatchSize: 500, Progress: func(r mongopatterns.Result) { seen = append(seen, r.Examined) }}
	if _, err := lists.AddMany(t.Context(), seq, work); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
	equal(t, []int64{500, 1000, 1206}, seen)
	if result, err := lists.AddMany(t.Context(), seq, &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrNotFound) || result.Failed != 0 {
		t.Error(result, err)
	}
	for _, work := range []*mongopatterns.Work{{Filter: bson.D{}}, {DryRun: true}, {BatchSize: -1}} {
		if _, err := lists.AddMany(t.Context(), seq, work); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", work, err)
		}
	}
	err = mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		result, err = lists.AddMany(ctx, seq, nil)
		return err
	})
	if !errors.Is(err, mongopatterns.ErrNotFound) || result.Unknown != 0 {
		t.Error(result, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := lists.AddMany(ctx, seq, nil); err == nil || result.Unknown == 0 {
		t.Error(result, err)
	}
}

// A reader can leave at any time, and one whose context is over gets one error.
func TestAllEndsEarly(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 1})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	add(t, lists, 1, ints(0, 250)...)
	n := 0
	for x := range lists.All(t.Context(), 1) {
		if n++; x == 100 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failures := 0
	for _, err := range lists.All(ctx, 1) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		failures++
	}
	if n != 101 || failures != 1 {
		t.Error(n, failures)
	}
}
