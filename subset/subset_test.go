package subset_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// Short names for what hundreds of lines call.
var (
	d      = testkit.D
	insert = testkit.Insert
	must   = testkit.OK
	same   = testkit.Same
	stored = testkit.Stored[bson.D]
)

func day(n int) time.Time { return time.Date(2019, 2, n, 0, 0, 0, 0, time.UTC) }

type review struct {
	ID      int       `bson:"_id"`
	Product int       `bson:"product_id"`
	Author  string    `bson:"author"`
	Rating  int       `bson:"rating"`
	Date    time.Time `bson:"date"`
}

// reviewOptions is the scenario's configuration.
func reviewOptions() *subset.Options {
	return &subset.Options{
		ParentField: "product_id",
		ArrayField:  "reviews",
		Sort:        d("date", -1),
		CountField:  "num_reviews",
		Values:      []subset.Value{{Field: "rating", Sum: "sum_ratings", Mean: "mean_rating"}},
	}
}

func newSubset[ID, T any](t testing.TB, db *mongo.Database, opts *subset.Options) *subset.Subset[ID, T] {
	t.Helper()
	s, err := subset.New[ID, T](db.Collection("parents"), db.Collection("items"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// move gives an item to another parent: two calls in one transaction of the caller's.
func move[ID, T any](ctx context.Context, db *mongo.Database, s *subset.Subset[ID, T], from, to ID, id any) error {
	return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		item, err := s.Get(ctx, from, id)
		if err != nil {
			return err
		}
		if err = s.Delete(ctx, from, id); err != nil {
			return err
		}
		_, err = s.Insert(ctx, to, item)
		return err
	})
}

// clean fails if Check finds a problem or a mark is left.
func clean[ID, T any](t testing.TB, db *mongo.Database, s *subset.Subset[ID, T]) {
	t.Helper()
	for p, err := range s.Check(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("problem: %v", p)
	}
	testkit.Untouched(t, db.Collection("parents"))
}

func ids(reviews []review) []int {
	out := []int{}
	for _, r := range reviews {
		out = append(out, r.ID)
	}
	return out
}

func top(t testing.TB, s *subset.Subset[int, review], parent int) []int {
	t.Helper()
	reviews, err := s.Top(t.Context(), parent)
	must(t, err)
	return ids(reviews)
}

// seq is a sequence for InsertMany.
func seq[ID, T any](parent ID, items ...T) iter.Seq2[ID, T] {
	return func(yield func(ID, T) bool) {
		for _, item := range items {
			if !yield(parent, item) {
				return
			}
		}
	}
}

// A product with its 10 newest reviews.
func TestScenarioReviews(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", 1, "name", "Baseball bat"))
	var want []bson.D
	kept := bson.A{}
	for i := range 12 {
		id, err := s.Insert(t.Context(), 1, review{ID: i, Author: "Kristina", Rating: i%5 + 1, Date: day(i + 1)})
		must(t, err)
		if id != int32(i) {
			t.Fatalf("_id %v", id)
		}
		at := bson.NewDateTimeFromTime(day(i + 1))
		want = append(want, d("_id", int32(i), "product_id", int32(1), "author", "Kristina", "rating", int32(i%5+1), "date", at))
		if i >= 2 {
			kept = append(bson.A{d("_id", int32(i), "author", "Kristina", "rating", int32(i%5+1), "date", at)}, kept...)
		}
	}
	same(t, "reviews", want, stored(t, db.Collection("items")))
	same(t, "product", []bson.D{d("_id", int32(1), "name", "Baseball bat", "reviews", kept,
		"num_reviews", int32(12), "sum_ratings", int32(33), "mean_rating", 2.75)}, stored(t, db.Collection("parents")))
	newest, err := s.Top(t.Context(), 1)
	must(t, err)
	all := testkit.Collect(t, s.All(t.Context(), 1))
	if len(all) != 12 {
		t.Fatalf("%d reviews", len(all))
	}
	same(t, "newest", all[:10], newest)
	one, err := s.Get(t.Context(), 1, 3)
	must(t, err)
	same(t, "one", all[8], one)
	clean(t, db, s)

	specs, err := db.Collection("items").Indexes().ListSpecifications(t.Context())
	must(t, err)
	same(t, "index", "product_id_1_date_-1__id_-1", specs[1].Name)
}

// A log host with its newest messages, the newest last.
func TestScenarioLogHost(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[string, bson.D](t, db, &subset.Options{
		ParentField: "host", ArrayField: "logs", N: 5, BestLast: true, Sort: d("time", -1),
	})
	insert(t, db.Collection("parents"), d("_id", "goofy.example.com", "ipaddr", "127.66.66.66"))
	var kept bson.A
	for i := range 8 {
		message := d("_id", int32(i), "time", bson.NewDateTimeFromTime(day(i+1)), "message", "cpu is on fire!")
		_, err := s.Insert(t.Context(), "goofy.example.com", message)
		must(t, err)
		if i >= 3 {
			kept = append(kept, message)
		}
	}
	want := []bson.D{d("_id", "goofy.example.com", "ipaddr", "127.66.66.66", "logs", kept, "logs_count", int32(8))}
	same(t, "host", want, stored(t, db.Collection("parents")))
	// A late item does not enter the array, and leaves no mark.
	_, err := s.Insert(t.Context(), "goofy.example.com", d("_id", 99, "time", day(1), "message", "late"))
	must(t, err)
	want[0][3].Value = int32(9)
	same(t, "host after a late one", want, stored(t, db.Collection("parents")))
	newest, err := s.Top(t.Context(), "goofy.example.com")
	must(t, err)
	same(t, "newest first", append(kept[4].(bson.D), bson.E{Key: "host", Value: "goofy.example.com"}), newest[0])
	must(t, s.Delete(t.Context(), "goofy.example.com", 7))
	newest, err = s.Top(t.Context(), "goofy.example.com")
	must(t, err)
	if len(newest) != 5 || newest[4][0].Value != int32(2) {
		t.Errorf("after a deletion: %v", newest)
	}
	clean(t, db, s)
}

// Edits keep the best N exact, whichever way an item changes.
func TestEdits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*subset.Options){
		"":          func(*subset.Options) {},
		"best last": func(o *subset.Options) { o.BestLast = true },
		"fields":    func(o *subset.Options) { o.Fields = []string{"author"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			o := reviewOptions()
			o.N = 3
			change(o)
			s := newSubset[int, review](t, db, o)
			insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
			at := func(id, day_ int) review { return review{ID: id, Product: 9, Rating: id, Date: day(day_)} }
			for i := range 6 {
				_, err := s.Insert(t.Context(), 1, at(i, 10+i))
				must(t, err)
			}
			step := func(what string, err error, want ...int) {
				t.Helper()
				must(t, err)
				same(t, what, append([]int{}, want...), top(t, s, 1))
				clean(t, db, s)
			}
			step("added", nil, 5, 4, 3)
			set := func(id, to int) error {
				return s.Update(t.Context(), 1, id, d("$set", d("date", day(to))))
			}
			step("an unkept item rises", set(0, 20), 0, 5, 4)
			step("a kept one sinks within", set(0, 14), 5, 4, 0)
			step("it sinks out", set(5, 1), 4, 0, 3)
			step("the last is edited in place", s.Update(t.Context(), 1, 3, d("$inc", d("rating", 2))), 4, 0, 3)
			step("another text", s.Update(t.Context(), 1, 4, d("$set", d("author", "x"))), 4, 0, 3)
			step("an unkept one is edited", s.Update(t.Context(), 1, 1, d("$set", d("rating", 7))), 4, 0, 3)
			step("by a pipeline", s.Update(t.Context(), 1, 1, mongo.Pipeline{{{Key: "$set", Value: d("date", day(28))}}}), 1, 4, 0)
			step("nothing changes", set(1, 28), 1, 4, 0)
			step("the same parent", s.Update(t.Context(), 1, 1, d("$set", d("product_id", 1.0, "author", "z"))), 1, 4, 0)
			whole := func(day_ int) error {
				item := at(1, day_)
				item.Product = 1
				return s.Update(t.Context(), 1, 1, d("$set", item))
			}
			step("set whole, sinking", whole(2), 4, 0, 3)
			step("set whole, rising", whole(27), 1, 4, 0)
			step("set to the same", whole(27), 1, 4, 0)
			testkit.Fails(t, "subset", s.Update(t.Context(), 1, 1, d("$set", at(1, 27))), mongopatterns.ErrInvalid) // of another parent
			step("a kept one goes", s.Delete(t.Context(), 1, 4), 1, 0, 3)
			step("an unkept one goes", s.Delete(t.Context(), 1, 5), 1, 0, 3)
			step("moved away", move(t.Context(), db, s, 1, 2, 0), 1, 3, 2)
			same(t, "moved to", []int{0}, top(t, s, 2))
			step("moved back", move(t.Context(), db, s, 2, 1, 0), 1, 0, 3)
			same(t, "left", []int{}, top(t, s, 2))
			step("only N", s.Delete(t.Context(), 1, 1), 0, 3, 2)
			step("fewer than N", s.Delete(t.Context(), 1, 0), 3, 2)
			step("a short list sinks", set(3, 1), 2, 3)
			must(t, s.Delete(t.Context(), 1, 2))
			must(t, s.Delete(t.Context(), 1, 3))
			step("none", nil)
			one := stored(t, db.Collection("parents"))[0]
			for _, e := range one {
				if e.Key == "mean_rating" || e.Key == "sum_ratings" && e.Value != int32(0) {
					t.Errorf("%s left: %v", e.Key, e.Value)
				}
			}
		})
	}
}

// The parent's array is in the server's order of the items, whatever their types.
func TestOrder(t *testing.T) {
	t.Parallel()
	decimal, _ := bson.ParseDecimal128("2.5")
	values := []any{1, int64(2), 2.0, 2.5, decimal, nil, "a", "B", "", true, false, day(1), bson.ObjectID{1}, d("a", 1), d("a", 0),
		math.Inf(1), math.Inf(-1), bson.Binary{Data: []byte{1}}, 1, nil, "a"}
	for i, order := range []bson.D{d("v", 1), d("v", -1), d("w", 1, "v", -1), d("v", 1.0, "_id", int64(-1)), d("n.v", -1)} {
		for j, bestLast := range []bool{false, true} {
			if !scale.Turn(i+j, 2) {
				continue // in the small run each order has one of the two
			}
			t.Run(fmt.Sprint(order, bestLast), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSubset[int, bson.D](t, db, &subset.Options{N: 12, Sort: order, BestLast: bestLast})
				insert(t, db.Collection("parents"), d("_id", 1))
				insert(t, db.Collection("parents"), d("_id", 2))
				for i, v := range values { // and one by one
					_, err := s.Insert(t.Context(), 2, d("_id", 200+i, "v", v, "w", i%3, "n", d("v", v)))
					must(t, err)
					if i%7 == 6 {
						must(t, s.Update(t.Context(), 2, 200+i-3, d("$set", d("v", values[(i*5)%len(values)]))))
						must(t, s.Update(t.Context(), 2, 200+i, d("$unset", d("v", "", "n", ""))))
					}
				}
				_, err := s.InsertMany(t.Context(), func(yield func(int, bson.D) bool) {
					for i, v := range values {
						if !yield(1, d("_id", i, "v", v, "w", i%3, "n", d("v", v))) {
							return
						}
					}
					_ = yield(1, d("_id", 100)) // no values
				}, nil)
				must(t, err)
				best, err := s.Top(t.Context(), 1)
				must(t, err)
				all := testkit.Collect(t, s.All(t.Context(), 1))
				var want, got []any
				for i := range best {
					want, got = append(want, all[i][0].Value), append(got, best[i][0].Value)
				}
				same(t, "the best", want, got)
				if len(got) != 12 {
					t.Errorf("%d kept", len(got))
				}
				clean(t, db, s)
			})
		}
	}
}

// Numbers keep their types; items without numbers are left out where that is allowed.
func TestValues(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	decimal := func(text string) bson.Decimal128 { v, _ := bson.ParseDecimal128(text); return v }
	s := newSubset[string, bson.D](t, db, &subset.Options{Values: []subset.Value{
		{Field: "a.b", Sum: "stats.sum", Mean: "stats.mean", Count: "stats.n"},
		{Field: "c", Sum: "c"},
	}})
	insert(t, db.Collection("parents"), d("_id", "p"))
	want := func(what string, stats bson.D, c any) {
		t.Helper()
		one := stored(t, db.Collection("parents"))[0]
		var got []any
		for _, e := range one {
			if e.Key == "stats" || e.Key == "c" {
				got = append(got, e.Value)
			}
		}
		same(t, what, []any{stats, c}, got)
		clean(t, db, s)
	}
	add := func(id int, ab, c any) {
		t.Helper()
		_, err := s.Insert(t.Context(), "p", d("_id", id, "a", d("b", ab), "c", c))
		must(t, err)
	}
	add(1, int32(math.MaxInt32), int64(1))
	add(2, int32(1), 1)
	want("ints", d("n", int32(2), "sum", int64(math.MaxInt32)+1, "mean", float64(math.MaxInt32+1)/2), int64(2))
	add(3, "none", decimal("0.1"))
	add(4, nil, 1)
	want("decimals", d("n", int32(2), "sum", int64(math.MaxInt32)+1, "mean", float64(math.MaxInt32+1)/2), decimal("3.1"))
	must(t, s.Update(t.Context(), "p", 1, d("$set", d("a.b", 0.5))))
	want("a double", d("n", int32(2), "sum", 1.5, "mean", 0.75), decimal("3.1"))
	must(t, s.Update(t.Context(), "p", 4, d("$set", d("a.b", 3))))
	want("a number at last", d("n", int32(3), "sum", 4.5, "mean", 1.5), decimal("3.1"))
	must(t, s.Update(t.Context(), "p", 2, d("$unset", d("a", ""))))
	want("a number less", d("n", int32(2), "sum", 3.5, "mean", 1.75), decimal("3.1"))
	for _, id := range []int{1, 4} {
		must(t, s.Delete(t.Context(), "p", id))
	}
	want("no number", d("n", int32(0), "sum", int32(0)), decimal("1.1"))
	must(t, s.Delete(t.Context(), "p", 3))
	want("no decimal", d("n", int32(0), "sum", int32(0)), decimal("1.0"))
	add(5, int64(math.MaxInt64-1), 0)
	must(t, s.Update(t.Context(), "p", 5, d("$inc", d("a.b", 1))))
	want("no double in between", d("n", int32(1), "sum", int64(math.MaxInt64), "mean", float64(math.MaxInt64)), decimal("1.0"))
	must(t, s.Delete(t.Context(), "p", 5))

	// Rounding of sums of doubles is not a problem; a larger difference is.
	insert(t, db.Collection("parents"), d("_id", "q"))
	for i, v := range []any{0.1, 0.2, 0.3} {
		_, err := s.Insert(t.Context(), "q", d("_id", 50+i, "a", d("b", v), "c", v))
		must(t, err)
	}
	must(t, s.Delete(t.Context(), "q", 50))
	clean(t, db, s)
	for _, path := range []string{"c", "stats.sum", "stats.mean"} {
		testkit.Update(t, db.Collection("parents"), d("_id", "q"), d("$inc", d(path, 1e-6)))
		same(t, "off by more", []string{`parents "q" wrong field ` + path}, testkit.Found(t, s.Check(t.Context(), nil)))
		testkit.Update(t, db.Collection("parents"), d("_id", "q"), d("$inc", d(path, -1e-6)))
	}
	if _, err := s.DeleteParent(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}

	// A value that cannot be added up, in an item stored by others, counts as 0.
	for i, v := range []any{math.NaN(), math.Inf(1), "x", nil, bson.A{1}, int64(math.MinInt64), 0.1} {
		insert(t, db.Collection("items"), d("_id", 100+i, "parent", "p", "c", 1, "a", d("b", v)))
	}
	if _, err := s.Repair(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want("repaired", d("n", int32(2), "sum", math.MinInt64+0.1, "mean", (math.MinInt64+0.1)/2), int32(8))
}

// Fields are kept whole, and those of Sort are, too.
func TestFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{Fields: []string{"c", "d", "x"}, Sort: d("o.p", 1)})
	insert(t, db.Collection("parents"), d("_id", 1))
	item := d("_id", int32(5), "z", int32(1), "o", d("p", int32(1), "q", int32(2)), "c", bson.A{int32(1)}, "d", d("e", int32(1), "f", int32(2)))
	_, err := s.Insert(t.Context(), 1, item)
	must(t, err)
	same(t, "kept", bson.A{append(item[:1:1], item[2:]...)}, stored(t, db.Collection("parents"))[0][1].Value)
	clean(t, db, s)
	// A change of a field that is not kept does not write the parent.
	cmds := mongotest.Record(t, db, func() { must(t, s.Update(t.Context(), 1, 5, d("$set", d("z", 2)))) })
	same(t, "commands", []string{"findAndModify", "find", "commitTransaction"}, cmds.Names())
}

func TestDeleteParent(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2), d("_id", 3))
	for i := range 6 {
		_, err := s.Insert(t.Context(), 1+i%2, review{ID: i, Rating: 1})
		must(t, err)
	}
	n, err := s.DeleteParent(t.Context(), 1)
	if n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if docs := stored(t, db.Collection("parents")); len(docs) != 2 {
		t.Error(docs)
	}
	if docs := stored(t, db.Collection("items")); len(docs) != 3 {
		t.Error(docs)
	}
	clean(t, db, s)
}

// Keys of users' values cannot act as operators, and may be documents.
func TestKeysAreData(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, bson.D](t, db, &subset.Options{N: 2, Values: []subset.Value{{Field: "v", Sum: "s"}}})
	for _, id := range []any{d("$gt", ""), "$name", d("a", 1, "b", "x"), bson.Timestamp{T: 1}} {
		if _, err := db.Collection("parents").InsertOne(t.Context(), d("_id", id)); err != nil {
			continue // refused by the server
		}
		for i := range 4 {
			_, err := s.Insert(t.Context(), id, d("_id", d("p", id, "i", i), "text", "$v", "expr", d("$add", bson.A{1, 2}), "v", 1))
			must(t, err)
		}
		must(t, s.Delete(t.Context(), id, d("p", id, "i", 3)))
		whole := d("_id", d("p", id, "i", 0), "parent", id, "text", "$$ROOT", "v", 2)
		must(t, s.Update(t.Context(), id, whole[0].Value, d("$set", whole)))
		best, err := s.Top(t.Context(), id)
		must(t, err)
		if len(best) != 2 || best[0][1].Value != "$v" {
			t.Errorf("%v: %v", id, best)
		}
	}
	if _, err := s.Insert(t.Context(), nil, d("v", 1)); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if err := errors.Join(collectErr(s.All(t.Context(), nil)), collectErr(s.All(t.Context(), make(chan int)))); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	clean(t, db, s)
}

func collectErr[T any](seq func(func(T, error) bool)) error {
	var out error
	for _, err := range seq {
		out = err
	}
	return out
}

// A value in an item that the server would replace by its time is refused: the parent's copy,
// inside an array, would keep it.
func TestEmptyTimestamps(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, bson.D](t, db, &subset.Options{N: 2})
	empty := bson.Timestamp{}
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2, "items", bson.A{d("_id", 7, "at", empty)}), d("_id", empty, "items", bson.A{d("_id", 8)}))
	for _, item := range []bson.D{d("_id", 1, "at", empty), d("at", empty)} {
		_, err := s.Insert(t.Context(), 1, item)
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
		_, err = s.InsertMany(t.Context(), seq[any](1, item), nil)
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	}
	_, err := s.Insert(t.Context(), empty, d("_id", 1))
	testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	_, err = s.Insert(t.Context(), 1, d("_id", 1, "in", d("at", empty)))
	must(t, err)
	testkit.Fails(t, "subset", s.Update(t.Context(), 1, 1, d("$set", d("at", empty))), mongopatterns.ErrInvalid)
	if result, err := s.Adopt(t.Context(), nil); err != nil || result.Failed != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, "items", []bson.D{d("_id", int32(1), "parent", int32(1), "in", d("at", empty))}, stored(t, db.Collection("items")))
	testkit.Untouched(t, db.Collection("parents"))
}

func TestInsertMany(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, bson.D](t, db, &subset.Options{N: 3, Sort: d("v", -1)})
	insert(t, db.Collection("parents"), d("_id", 0), d("_id", 1), d("_id", 2), d("_id", d("a", 1)))
	add := func(n int, parents ...any) (mongopatterns.Result, error) {
		return s.InsertMany(t.Context(), func(yield func(any, bson.D) bool) {
			for i := range n {
				if !yield(parents[i%len(parents)], d("v", i*7%20)) {
					return
				}
			}
		}, nil)
	}
	// 1, int64(1) and 1.0 are one parent.
	result, err := add(2300, 0, 1, int64(1), 1.0, 2, d("a", 1.0))
	must(t, err)
	same(t, "added", mongopatterns.Result{Examined: 2300, Done: 2300}, result)
	clean(t, db, s)
	result, err = add(20, 0, 1, 9)
	testkit.Fails(t, "subset", err, mongopatterns.ErrNoParent)
	same(t, "before the error", mongopatterns.Result{Examined: 20}, result)
	result, err = s.InsertMany(t.Context(), func(yield func(any, bson.D) bool) {
		for i := range 1100 {
			if v := any(i); !yield(1, d("v", map[bool]any{false: v, true: bson.A{v}}[i == 1050])) {
				return
			}
		}
	}, nil)
	testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	same(t, "a batch before the error", mongopatterns.Result{Examined: 1050, Done: 1000}, result)
	if !strings.Contains(err.Error(), "item 1050: ") {
		t.Error(err)
	}
	clean(t, db, s)
	result, err = s.InsertMany(t.Context(), nil, nil)
	must(t, err)
	same(t, "a nil sequence", mongopatterns.Result{}, result)
	var seen []int64
	work := &mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { seen = append(seen, r.Done) }}
	cmds := mongotest.Record(t, db, func() {
		_, err = s.InsertMany(t.Context(), seq(any(1), d("v", 1), d("v", 1), d("v", 1), d("v", 1), d("v", 1)), work)
	})
	must(t, err)
	same(t, "after each batch", []int64{2, 4, 5}, seen)
	commits := 0
	for _, name := range cmds.Names() {
		if name == "commitTransaction" {
			commits++
		}
	}
	same(t, "transactions", 3, commits)
	for _, work := range []*mongopatterns.Work{{Filter: d("v", 1)}, {DryRun: true}, {BatchSize: -1}} {
		_, err = s.InsertMany(t.Context(), seq(any(1), d("v", 1)), work)
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	}
	// An update of a parent holds what it keeps of its items in a batch.
	_, err = s.InsertMany(t.Context(), seq(any(2), d("text", strings.Repeat("x", 5<<20)), d("text", strings.Repeat("x", 5<<20))), nil)
	must(t, err)
}

// A batch whose commit was not answered may be stored or not.
func TestInsertManyUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == commit {
			cancel() // else the commit is repeated for two minutes
		}
	}}))
	s := newSubset[int, bson.D](t, db, nil)
	insert(t, db.Collection("parents"), d("_id", 1))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{commit}, Code: 50, Labels: []string{"UnknownTransactionCommitResult"}})
	result, err := s.InsertMany(ctx, seq(1, d("_id", 1), d("_id", 2)), nil)
	if err == nil {
		t.Fatal("no error")
	}
	same(t, "unknown", mongopatterns.Result{Examined: 2, Unknown: 2}, result)
}

// Two subsets of one parent do not share a field, if only their arrays differ.
func TestTwoSubsetsOfAParent(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents := db.Collection("parents")
	insert(t, parents, d("_id", 1))
	reviews, err := subset.New[int, bson.D](parents, db.Collection("reviews"), &subset.Options{ArrayField: "reviews"})
	must(t, err)
	questions, err := subset.New[int, bson.D](parents, db.Collection("questions"), &subset.Options{ArrayField: "questions"})
	must(t, err)
	for i := range 3 {
		_, err = reviews.Insert(t.Context(), 1, d("_id", i))
		must(t, err)
	}
	_, err = questions.Insert(t.Context(), 1, d("_id", 7))
	must(t, err)
	clean(t, db, reviews)
	clean(t, db, questions)
	doc := stored(t, parents)[0]
	same(t, "counts", "[3 1]", fmt.Sprint([]any{testkit.Get(doc, "reviews_count"), testkit.Get(doc, "questions_count")}))
	must(t, mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error { // deleted as the manual says
		if _, err := reviews.DeleteParent(ctx, 1); err != nil {
			return err
		}
		_, err := db.Collection("questions").DeleteMany(ctx, questions.ItemsFilter(1))
		return err
	}))
	for _, name := range []string{"parents", "reviews", "questions"} {
		same(t, name, []bson.D{}, stored(t, db.Collection(name)))
	}
}

// A read that an index covers returns the fields in the index's order, and null for
// missing ones. It must neither be reported nor stored.
func TestCoveredReads(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2, Sort: d("b", -1, "a", 1), Fields: []string{"_id"}})
	parents := db.Collection("parents")
	insert(t, parents, d("_id", 1))
	for i := range 5 {
		item := d("_id", i, "a", 1, "b", i) // not in the index's order
		if i < 3 {
			item = d("_id", i, "b", i) // nor with all its fields
		}
		_, err := s.Insert(t.Context(), 1, item)
		must(t, err)
	}
	clean(t, db, s)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repair", mongopatterns.Result{Examined: 1}, result)
	must(t, s.Delete(t.Context(), 1, 4))
	want := bson.A{d("_id", int32(3), "a", int32(1), "b", int32(3)), d("_id", int32(2), "b", int32(2))}
	same(t, "refilled", want, testkit.Get(stored(t, parents)[0], "items"))
	testkit.Update(t, parents, d(), d("$unset", d("items", "")))
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repaired", want, testkit.Get(stored(t, parents)[0], "items"))
}

// With another N any kind of write leaves exactly the best items in the array.
func TestAnotherN(t *testing.T) {
	t.Parallel()
	low := d("_id", 100, "rank", -1)
	db := mongotest.Database(t)
	for name, test := range map[string]struct {
		write func(context.Context, *subset.Subset[int, bson.D]) error
		want  []any
	}{
		"add": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Insert(ctx, 1, low)
			return err
		}, []any{9, 8, 7, 6, 5}},
		"add the best": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.Insert(ctx, 1, d("_id", 100, "rank", 50))
			return err
		}, []any{100, 9, 8, 7, 6}},
		"add many": {func(ctx context.Context, s *subset.Subset[int, bson.D]) error {
			_, err := s.InsertMany(ctx, seq(1, low), nil)
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
		for i, bestLast := range []bool{false, true} {
			if !scale.Turn(len(name)+i, 2) {
				continue // in the small run each case has one of the two
			}
			t.Run(fmt.Sprint(name, bestLast), func(t *testing.T) {
				testkit.Empty(t, db)
				o := &subset.Options{N: 3, Sort: d("rank", -1), BestLast: bestLast}
				s := newSubset[int, bson.D](t, db, o)
				insert(t, db.Collection("parents"), d("_id", 1))
				var ten []bson.D
				for i := range 10 {
					ten = append(ten, d("_id", i, "rank", i))
				}
				must(t, testkit.ErrorOf(s.InsertMany(t.Context(), seq(1, ten...), nil)))
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
				_, err := s.Insert(t.Context(), 1, d("_id", 200, "rank", -5))
				must(t, err)
				same(t, "a smaller N", test.want[:2], kept(s))
				clean(t, db, s)
			})
		}
	}
}
