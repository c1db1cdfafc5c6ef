package subset_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// d makes a document of keys and values.
func d(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

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
		Order:       d("date", -1),
		CountField:  "num_reviews",
		Values:      []subset.Value{{Field: "rating", Sum: "sum_ratings", Mean: "mean_rating"}},
	}
}

func newSubset[P, T any](t testing.TB, db *mongo.Database, opts *subset.Options) *subset.Subset[P, T] {
	t.Helper()
	s, err := subset.New[P, T](db.Collection("parents"), db.Collection("items"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// move gives an item to another parent: two calls in one transaction of the caller's.
func move[P, T any](ctx context.Context, db *mongo.Database, s *subset.Subset[P, T], from, to P, id any) error {
	return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		item, err := s.Get(ctx, from, id)
		if err == nil {
			err = s.Delete(ctx, from, id)
		}
		if err == nil {
			_, err = s.Add(ctx, to, item)
		}
		return err
	})
}

func insert(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

// stored is all that a collection holds, in the order of _id.
func stored(t testing.TB, coll *mongo.Collection) []bson.D {
	t.Helper()
	out := []bson.D{}
	cursor, err := coll.Find(t.Context(), d(), options.Find().SetSort(d("_id", 1)))
	if err == nil {
		err = cursor.All(t.Context(), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b bson.Decimal128) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "subset: ") || strings.Count(err.Error(), "subset: ") > 1 {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// clean wants nothing for Check to find, and no marks.
func clean[P, T any](t testing.TB, db *mongo.Database, s *subset.Subset[P, T]) {
	t.Helper()
	for p, err := range s.Check(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("problem: %v", p)
	}
	untouched(t, db.Collection("parents"))
}

func untouched(t testing.TB, coll *mongo.Collection) {
	t.Helper()
	if n, err := coll.CountDocuments(t.Context(), d("__touch", d("$exists", true))); n != 0 || err != nil {
		t.Errorf("%d documents with a mark, %v", n, err)
	}
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

func collect[T any](t testing.TB, seq func(func(T, error) bool)) []T {
	t.Helper()
	out := []T{}
	for v, err := range seq {
		must(t, err)
		out = append(out, v)
	}
	return out
}

// items is a sequence for AddMany.
func seq[P, T any](parent P, items ...T) iter.Seq2[P, T] {
	return func(yield func(P, T) bool) {
		for _, item := range items {
			if !yield(parent, item) {
				return
			}
		}
	}
}

func problems(t testing.TB, seq iter.Seq2[mongopatterns.Problem, error]) []string {
	t.Helper()
	out := []string{}
	for p, err := range seq {
		must(t, err)
		out = append(out, fmt.Sprintf("%s %v %s %s", p.Collection, p.ID, p.Kind, p.Field))
	}
	slices.Sort(out)
	return out
}

func update(t testing.TB, coll *mongo.Collection, filter, update any) {
	t.Helper()
	result, err := coll.UpdateMany(t.Context(), filter, update)
	must(t, err)
	if result.MatchedCount == 0 {
		t.Fatalf("nothing matches %v", filter)
	}
}

func get(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// transaction runs fn in a transaction of the caller's, which is aborted after an
// error.
func transaction(t testing.TB, db *mongo.Database, fn func(ctx context.Context) error) error {
	t.Helper()
	return mongopatterns.Transact(t.Context(), db.Client(), fn)
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
		id, err := s.Add(t.Context(), 1, review{ID: i, Author: "Kristina", Rating: i%5 + 1, Date: day(i + 1)})
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
	all := collect(t, s.All(t.Context(), 1))
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
		ParentField: "host", ArrayField: "logs", N: 5, BestLast: true, Order: d("time", -1),
	})
	insert(t, db.Collection("parents"), d("_id", "goofy.example.com", "ipaddr", "127.66.66.66"))
	var kept bson.A
	for i := range 8 {
		message := d("_id", int32(i), "time", bson.NewDateTimeFromTime(day(i+1)), "message", "cpu is on fire!")
		_, err := s.Add(t.Context(), "goofy.example.com", message)
		must(t, err)
		if i >= 3 {
			kept = append(kept, message)
		}
	}
	want := []bson.D{d("_id", "goofy.example.com", "ipaddr", "127.66.66.66", "logs", kept, "logs_count", int32(8))}
	same(t, "host", want, stored(t, db.Collection("parents")))
	// One that comes late does not enter, and leaves no mark.
	_, err := s.Add(t.Context(), "goofy.example.com", d("_id", 99, "time", day(1), "message", "late"))
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

// Edits keep the best N exact, whichever way an item goes.
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
				_, err := s.Add(t.Context(), 1, at(i, 10+i))
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
			wantErr(t, s.Update(t.Context(), 1, 1, d("$set", at(1, 27))), mongopatterns.ErrInvalid) // of another parent
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
	for name, order := range map[string]bson.D{"up": d("v", 1), "down": d("v", -1), "two": d("w", 1, "v", -1), "mixed": d("v", 1.0, "_id", int64(-1)), "nested": d("n.v", -1)} {
		for _, bestLast := range []bool{false, true} {
			t.Run(fmt.Sprint(name, bestLast), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSubset[int, bson.D](t, db, &subset.Options{N: 12, Order: order, BestLast: bestLast})
				insert(t, db.Collection("parents"), d("_id", 1))
				insert(t, db.Collection("parents"), d("_id", 2))
				for i, v := range values { // and one by one
					_, err := s.Add(t.Context(), 2, d("_id", 200+i, "v", v, "w", i%3, "n", d("v", v)))
					must(t, err)
					if i%7 == 6 {
						must(t, s.Update(t.Context(), 2, 200+i-3, d("$set", d("v", values[(i*5)%len(values)]))))
						must(t, s.Update(t.Context(), 2, 200+i, d("$unset", d("v", "", "n", ""))))
					}
				}
				_, err := s.AddMany(t.Context(), func(yield func(int, bson.D) bool) {
					for i, v := range values {
						if !yield(1, d("_id", i, "v", v, "w", i%3, "n", d("v", v))) {
							return
						}
					}
					_ = yield(1, d("_id", 100)) // no values
				})
				must(t, err)
				best, err := s.Top(t.Context(), 1)
				must(t, err)
				all := collect(t, s.All(t.Context(), 1))
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

// Numbers keep their types, and items without them are left out if they may be.
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
		_, err := s.Add(t.Context(), "p", d("_id", id, "a", d("b", ab), "c", c))
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

	// Sums of doubles round, and that is no problem; more than that is.
	insert(t, db.Collection("parents"), d("_id", "q"))
	for i, v := range []any{0.1, 0.2, 0.3} {
		_, err := s.Add(t.Context(), "q", d("_id", 50+i, "a", d("b", v), "c", v))
		must(t, err)
	}
	must(t, s.Delete(t.Context(), "q", 50))
	clean(t, db, s)
	for _, path := range []string{"c", "stats.sum", "stats.mean"} {
		update(t, db.Collection("parents"), d("_id", "q"), d("$inc", d(path, 1e-6)))
		same(t, "off by more", []string{`parents "q" wrong value ` + path}, problems(t, s.Check(t.Context(), nil)))
		update(t, db.Collection("parents"), d("_id", "q"), d("$inc", d(path, -1e-6)))
	}
	if _, err := s.DeleteParent(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}

	// What cannot be added up in items of others' making counts as none.
	for i, v := range []any{math.NaN(), math.Inf(1), "x", nil, bson.A{1}, math.MinInt64, 0.1} {
		insert(t, db.Collection("items"), d("_id", 100+i, "parent", "p", "c", 1, "a", d("b", v)))
	}
	if _, err := s.Repair(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want("repaired", d("n", int32(2), "sum", math.MinInt64+0.1, "mean", (math.MinInt64+0.1)/2), int32(8))
}

// Fields are kept whole, and those of Order.
func TestFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{Fields: []string{"c", "d", "x"}, Order: d("o.p", 1)})
	insert(t, db.Collection("parents"), d("_id", 1))
	item := d("_id", int32(5), "z", int32(1), "o", d("p", int32(1), "q", int32(2)), "c", bson.A{int32(1)}, "d", d("e", int32(1), "f", int32(2)))
	_, err := s.Add(t.Context(), 1, item)
	must(t, err)
	same(t, "kept", bson.A{append(item[:1:1], item[2:]...)}, stored(t, db.Collection("parents"))[0][1].Value)
	clean(t, db, s)
	// A change of what is not kept does not write the parent.
	cmds := mongotest.Record(t, db, func() { must(t, s.Update(t.Context(), 1, 5, d("$set", d("z", 2)))) })
	same(t, "commands", []string{"findAndModify", "find", "commitTransaction"}, cmds.Names())
}

func TestDeleteParent(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2), d("_id", 3))
	for i := range 6 {
		_, err := s.Add(t.Context(), 1+i%2, review{ID: i, Rating: 1})
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
			_, err := s.Add(t.Context(), id, d("_id", d("p", id, "i", i), "text", "$v", "expr", d("$add", bson.A{1, 2}), "v", 1))
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
	if _, err := s.Add(t.Context(), nil, d("v", 1)); !errors.Is(err, mongopatterns.ErrInvalid) {
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

// What the server would replace by its time in an item is refused: the parent's copy, inside
// an array, would keep it.
func TestEmptyTimestamps(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, bson.D](t, db, &subset.Options{N: 2})
	empty := bson.Timestamp{}
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2, "items", bson.A{d("_id", 7, "at", empty)}), d("_id", empty, "items", bson.A{d("_id", 8)}))
	for _, item := range []bson.D{d("_id", 1, "at", empty), d("at", empty)} {
		_, err := s.Add(t.Context(), 1, item)
		wantErr(t, err, mongopatterns.ErrInvalid)
		_, err = s.AddMany(t.Context(), seq[any](1, item))
		wantErr(t, err, mongopatterns.ErrInvalid)
	}
	_, err := s.Add(t.Context(), empty, d("_id", 1))
	wantErr(t, err, mongopatterns.ErrInvalid)
	_, err = s.Add(t.Context(), 1, d("_id", 1, "in", d("at", empty)))
	must(t, err)
	wantErr(t, s.Update(t.Context(), 1, 1, d("$set", d("at", empty))), mongopatterns.ErrInvalid)
	if result, err := s.Adopt(t.Context(), nil); err != nil || result.Failed != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, "items", []bson.D{d("_id", int32(1), "parent", int32(1), "in", d("at", empty))}, stored(t, db.Collection("items")))
	untouched(t, db.Collection("parents"))
}
