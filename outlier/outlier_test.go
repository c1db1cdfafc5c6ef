package outlier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
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

func insert(t testing.TB, db *mongo.Database, docs ...any) {
	t.Helper()
	if _, err := db.Collection("parents").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

func collect[E any](t testing.TB, seq func(func(E, error) bool)) []E {
	t.Helper()
	out := []E{}
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// stored returns all documents of a collection, by _id or by parent and number.
func stored(t testing.TB, coll *mongo.Collection, sort bson.D, project ...bson.E) []bson.D {
	t.Helper()
	cursor, err := coll.Find(context.Background(), bson.D{}, options.Find().SetSort(sort).SetProjection(append(bson.D{}, project...)))
	if err != nil {
		t.Fatal(err)
	}
	out := []bson.D{}
	if err := cursor.All(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// healthy wants nothing for Check to find.
func healthy[ID, E any](t testing.TB, lists *outlier.Lists[ID, E]) {
	t.Helper()
	for p, err := range lists.Check(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		t.Error(p)
	}
}

func users(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("user%02d", i))
	}
	return out
}

func array(items []string) (out bson.A) {
	out = bson.A{}
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

// The book of the scenario, with exactly its field names.
func TestBestSellers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, overflow := db.Collection("books"), db.Collection("extras")
	books, err := outlier.New[int, string](coll, overflow, &outlier.Options{
		ArrayField: "customers_purchased", FlagField: "has_extras", TotalField: "total", ParentField: "book_id",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := books.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	book := func(id int) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "title", Value: "T"}, {Key: "author", Value: "A"}}
	}
	for id := range 2 {
		if _, err := coll.InsertOne(t.Context(), book(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range users(0, 3) {
		if added, err := books.Add(t.Context(), 0, user); err != nil || !added {
			t.Fatal(added, err)
		}
	}
	if n, err := books.AddMany(t.Context(), 1, users(0, 999)); err != nil || n != 999 {
		t.Fatal(n, err)
	}
	for _, user := range users(999, 1002) {
		if _, err := books.Add(t.Context(), 1, user); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := books.AddMany(t.Context(), 1, users(1002, 2400)); err != nil || n != 1398 {
		t.Fatal(n, err)
	}
	wantBooks := []bson.D{
		append(book(0), bson.E{Key: "customers_purchased", Value: array(users(0, 3))}),
		append(book(1), bson.E{Key: "customers_purchased", Value: array(users(0, 1000))},
			bson.E{Key: "has_extras", Value: true}, bson.E{Key: "total", Value: int32(2400)}),
	}
	for i := range wantBooks {
		wantBooks[i][0].Value = int32(i)
	}
	if diff := cmp.Diff(wantBooks, sorted(stored(t, coll, bson.D{{Key: "_id", Value: 1}}))); diff != "" {
		t.Error(diff)
	}
	wantExtras := []bson.D{
		{{Key: "book_id", Value: int32(1)}, {Key: "n", Value: int32(0)}, {Key: "customers_purchased", Value: array(users(1000, 2000))}},
		{{Key: "book_id", Value: int32(1)}, {Key: "n", Value: int32(1)}, {Key: "customers_purchased", Value: array(users(2000, 2400))}},
	}
	if diff := cmp.Diff(wantExtras, stored(t, overflow, bson.D{{Key: "n", Value: 1}}, bson.E{Key: "_id", Value: 0})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(users(0, 2400), collect(t, books.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	if n, err := books.Total(t.Context(), 1); err != nil || n != 2400 {
		t.Error(n, err)
	}
	for user, want := range map[string]bool{"user00": true, "user1500": true, "user2399": true, "user2400": false} {
		if held, err := books.Contains(t.Context(), 1, user); err != nil || held != want {
			t.Error(user, held, err)
		}
	}
	healthy(t, books)
}

// sorted puts fields that the server adds in no promised order behind the others
// in the order of their names.
func sorted(docs []bson.D) []bson.D {
	order := func(key string) int { return slices.Index([]string{"has_extras", "total"}, key) }
	for _, doc := range docs {
		slices.SortStableFunc(doc, func(a, b bson.E) int { return order(a.Key) - order(b.Key) })
	}
	return docs
}

// 20 writers add 50 each: 50 are inside, 950 outside, each once.
func TestConcurrentAdds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set     bool
		writers int
		outside []int
	}{{false, 20, []int{200, 200, 200, 200, 150}}, {true, 5, []int{200}}} {
		t.Run(fmt.Sprintf("set=%v", test.set), func(t *testing.T) {
			t.Parallel()
			total := 50 * test.writers
			db := mongotest.Database(t)
			lists := newLists[string, int](t, db, &outlier.Options{MaxCount: 50, Set: test.set, OverflowMaxCount: 200})
			insert(t, db, bson.D{{Key: "_id", Value: "p"}})
			var group sync.WaitGroup
			for w := range test.writers {
				group.Go(func() {
					for i := range 50 {
						if added, err := lists.Add(t.Context(), "p", 50*w+i); err != nil || !added {
							t.Error(added, err)
						}
					}
				})
			}
			group.Wait()
			parent := stored(t, db.Collection("parents"), bson.D{})[0]
			inside := 0
			for _, e := range parent {
				if e.Key == "items" {
					inside = len(e.Value.(bson.A))
				}
			}
			if inside != 50 {
				t.Errorf("%d inside", inside)
			}
			var sizes []int
			for _, doc := range stored(t, db.Collection("extras"), bson.D{{Key: "n", Value: 1}}) {
				sizes = append(sizes, len(doc[3].Value.(bson.A)))
			}
			if diff := cmp.Diff(test.outside, sizes); diff != "" {
				t.Error(diff)
			}
			items := collect(t, lists.Items(t.Context(), "p"))
			last := map[int]int{}
			for _, x := range items { // each writer's in its order
				if x%50 != last[x/50] {
					t.Fatalf("%d after %d", x, last[x/50])
				}
				last[x/50]++
			}
			slices.Sort(items)
			for i, x := range items {
				if i != x {
					t.Fatalf("%d at %d", x, i)
				}
			}
			if n, err := lists.Total(t.Context(), "p"); err != nil || n != int64(total) || len(items) != total {
				t.Error(n, len(items), err)
			}
			healthy(t, lists)
		})
	}
}

func TestMissingParent(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, Set: set})
		_, add := lists.Add(t.Context(), 1, 1)
		_, many := lists.AddMany(t.Context(), 1, []int{1, 2, 3})
		_, remove := lists.Remove(t.Context(), 1, 1)
		_, removeAll := lists.RemoveAll(t.Context(), 1, 1)
		_, contains := lists.Contains(t.Context(), 1, 1)
		_, total := lists.Total(t.Context(), 1)
		_, page := lists.Page(t.Context(), 1, 0, 10)
		_, far := lists.Page(t.Context(), 1, 100, 10)
		var items error
		for _, err := range lists.Items(t.Context(), 1) {
			items = err
		}
		for i, err := range []error{add, many, remove, removeAll, contains, total, page, far, items, lists.Delete(t.Context(), 1), lists.Rebalance(t.Context(), 1)} {
			if !errors.Is(err, outlier.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		for _, name := range []string{"parents", "extras"} {
			if docs := stored(t, db.Collection(name), bson.D{}); len(docs) > 0 {
				t.Error(docs)
			}
		}
	}
}

// Two lists in one parent, with default names: neither takes the other's flag or
// total for its own.
func TestTwoLists(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents := db.Collection("parents")
	lists := map[string]*outlier.Lists[int, int]{}
	for _, name := range []string{"a", "b"} {
		var err error
		lists[name], err = outlier.New[int, int](parents, db.Collection("extras_"+name), &outlier.Options{ArrayField: name, MaxCount: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := lists[name].EnsureIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	for name, n := range map[string]int{"a": 5, "b": 9} {
		if _, err := lists[name].AddMany(t.Context(), 1, ints(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	for x := range 2 { // a folds back
		if _, err := lists["a"].Remove(t.Context(), 1, x); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]int{"a": ints(2, 5), "b": ints(0, 9)} {
		if diff := cmp.Diff(want, collect(t, lists[name].Items(t.Context(), 1))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		healthy(t, lists[name])
	}
	for field, want := range map[string]bool{"a_overflow": false, "a_total": false, "b_overflow": true, "b_total": true} {
		n, err := parents.CountDocuments(t.Context(), bson.D{{Key: field, Value: bson.D{{Key: "$exists", Value: true}}}})
		if err != nil || (n > 0) != want {
			t.Error(field, n, err)
		}
	}
	// A parent of two patterns: one deletes it, the other's documents go by their filter.
	inTransaction(t, db, true, func(ctx context.Context) {
		if err := lists["a"].Delete(ctx, 1); err != nil {
			t.Error(err)
		}
		if _, err := db.Collection("extras_b").DeleteMany(ctx, lists["b"].OverflowFilter(1)); err != nil {
			t.Error(err)
		}
	})
	for _, list := range lists {
		healthy(t, list)
	}
}

// The order is that of the numbers, not one that an index happens to give.
func TestOrderWithoutIndexes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	at := func(bound int) *outlier.Lists[int, int] {
		lists, err := outlier.New[int, int](db.Collection("parents"), db.Collection("extras"), &outlier.Options{MaxCount: bound, OverflowMaxCount: 2, FoldBack: -1})
		if err != nil {
			t.Fatal(err)
		}
		return lists
	}
	agree := func(bound int, want []int) {
		t.Helper()
		if diff := cmp.Diff(want, collect(t, at(bound).Items(t.Context(), 1))); diff != "" {
			t.Errorf("%d: %s", bound, diff)
		}
		var items []int
		for _, doc := range run(t, db.Collection("parents"), at(bound).ItemsPipeline(nil)) {
			items = append(items, int(doc[1].Value.(int32)))
		}
		if diff := cmp.Diff(want, items); diff != "" {
			t.Errorf("%d: pipeline: %s", bound, diff)
		}
		page, err := at(bound).Page(t.Context(), 1, 2, 6)
		if diff := cmp.Diff(want[2:8], page.Items); err != nil || diff != "" {
			t.Errorf("%d: page: %v, %s", bound, err, diff)
		}
	}
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	for x := range 9 {
		if _, err := at(5).Add(t.Context(), 1, x); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := at(5).Remove(t.Context(), 1, 5); err != nil || !removed { // leaves room in the first overflow document
		t.Error(removed, err)
	}
	if _, err := at(5).Add(t.Context(), 1, 9); err != nil {
		t.Error(err)
	}
	if _, err := at(5).AddMany(t.Context(), 1, ints(10, 13)); err != nil {
		t.Error(err)
	}
	want := slices.Concat(ints(0, 5), ints(6, 13))
	agree(5, want)
	for _, bound := range []int{3, 4, 20} { // split, filled up, folded back
		if err := at(bound).Rebalance(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		agree(bound, want)
	}
}

// By default everything moves back at three quarters of MaxCount.
func TestDefaultFoldBack(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for bound, want := range map[int]int64{1: 0, 2: 1, 3: 2, 4: 3, 10: 7} {
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: bound})
		insert(t, db, bson.D{{Key: "_id", Value: bound}})
		if _, err := lists.AddMany(t.Context(), bound, ints(0, bound+1)); err != nil {
			t.Fatal(err)
		}
		for x := range bound + 1 { // those inside first
			if _, err := lists.Remove(t.Context(), bound, x); err != nil {
				t.Fatal(err)
			}
			n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter())
			if left := int64(bound - x); err != nil || (n == 0) != (left <= want) {
				t.Errorf("at most %d: %d outliers of %d elements, %v", bound, n, left, err)
			}
		}
	}
}

// What services answer with has names as JSON has them.
func TestJSON(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		`{"examined":1,"adopted":2,"skipped":3}`:                                   outlier.AdoptResult{Examined: 1, Adopted: 2, Skipped: 3},
		`{"examined":1,"repaired":2,"remaining":3}`:                                outlier.RepairResult{Examined: 1, Repaired: 2, Remaining: 3},
		`{"items":["a"],"total":2,"hasNext":true}`:                                 outlier.Page[string]{Items: []string{"a"}, Total: 2, HasNext: true},
		`{"maxCount":1,"outliers":2,"inside":3,"outside":4,"overflowDocuments":5}`: outlier.Cap{MaxCount: 1, Outliers: 2, Inside: 3, Outside: 4, OverflowDocuments: 5},
		`{"documents":1,"elements":2,"longest":3,"caps":[]}`:                       outlier.Distribution{Documents: 1, Elements: 2, Longest: 3, Caps: []outlier.Cap{}},
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
