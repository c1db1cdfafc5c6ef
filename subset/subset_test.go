package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "subset: ") {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// clean wants nothing for Check to find, and no marks.
func clean[P, T any](t testing.TB, db *mongo.Database, s *subset.Subset[P, T]) {
	t.Helper()
	for p, err := range s.Check(t.Context()) {
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
	cursor, err := db.Collection("parents").Aggregate(t.Context(), s.TopPipeline(1))
	must(t, err)
	var piped []review
	must(t, cursor.All(t.Context(), &piped))
	same(t, "pipeline", newest, piped)
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
		ParentField: "host", ArrayField: "logs", N: 5, BestLast: true, NoCount: true, Order: d("time", -1),
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
	want := []bson.D{d("_id", "goofy.example.com", "ipaddr", "127.66.66.66", "logs", kept)}
	same(t, "host", want, stored(t, db.Collection("parents")))
	// One that comes late does not enter, and leaves no mark.
	_, err := s.Add(t.Context(), "goofy.example.com", d("_id", 99, "time", day(1), "message", "late"))
	must(t, err)
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
		"no count":  func(o *subset.Options) { o.NoCount, o.CountField, o.Values[0].Count = true, "", "rated" },
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
			step("another parent", s.Update(t.Context(), 1, 1, mongo.Pipeline{d("$set", d("product_id", 2))}), 1, 4, 0)
			same(t, "no other parent", []int{}, top(t, s, 2))
			step("replaced, sinking", s.Replace(t.Context(), 1, at(1, 2)), 4, 0, 3)
			step("replaced, rising", s.Replace(t.Context(), 1, at(1, 27)), 1, 4, 0)
			step("replaced by the same", s.Replace(t.Context(), 1, at(1, 27)), 1, 4, 0)
			step("a kept one goes", s.Delete(t.Context(), 1, 4), 1, 0, 3)
			step("an unkept one goes", s.Delete(t.Context(), 1, 5), 1, 0, 3)
			step("moved away", s.Move(t.Context(), 1, 2, 0), 1, 3, 2)
			same(t, "moved to", []int{0}, top(t, s, 2))
			step("moved back", s.Move(t.Context(), 2, 1, 0), 1, 0, 3)
			same(t, "left", []int{}, top(t, s, 2))
			step("moved to itself", s.Move(t.Context(), 1, 1, 0), 1, 0, 3)
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

// What cannot be done changes nothing, also in a transaction of the caller's.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		t.Run(fmt.Sprint("joined ", joined), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, bson.D](t, db, reviewOptions())
			parents, items := db.Collection("parents"), db.Collection("items")
			insert(t, parents, d("_id", 1), d("_id", 2), d("_id", 8, "reviews", bson.A{d("_id", 80, "rating", 1)}))
			good := d("_id", 1, "rating", 1, "date", day(1))
			_, err := s.Add(t.Context(), 1, good)
			must(t, err)
			// Items of their own that were never counted.
			insert(t, parents, d("_id", 10, "name", "x"), d("_id", 11, "reviews", bson.A{}, "num_reviews", nil, "sum_ratings", 7))
			insert(t, items, d("_id", 101, "product_id", 10, "rating", 1), d("_id", 102, "product_id", 10, "rating", 4), d("_id", 111, "product_id", 11, "rating", 2))
			insert(t, items, d("_id", 81, "product_id", 8, "rating", 1), d("_id", 91, "product_id", 9, "rating", 1))
			before := [][]bson.D{stored(t, parents), stored(t, items)}

			many := func(pairs ...any) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := s.AddMany(ctx, func(yield func(int, bson.D) bool) {
						for i := 0; i < len(pairs); i += 2 {
							if !yield(pairs[i].(int), pairs[i+1].(bson.D)) {
								return
							}
						}
					}, nil)
					return err
				}
			}
			add := func(parent int, item bson.D) func(context.Context) error {
				return func(ctx context.Context) error { _, err := s.Add(ctx, parent, item); return err }
			}
			update := func(parent int, id any, update any) func(context.Context) error {
				return func(ctx context.Context) error { return s.Update(ctx, parent, id, update) }
			}
			for name, test := range map[string]struct {
				fn   func(context.Context) error
				want error
			}{
				"no parent":               {add(7, d("rating", 1)), subset.ErrNoParent},
				"no number":               {add(1, d("rating", "5")), subset.ErrInvalid},
				"NaN":                     {add(1, d("rating", math.NaN())), subset.ErrInvalid},
				"array to sort by":        {add(1, d("rating", 1, "date", bson.A{day(1)})), subset.ErrInvalid},
				"null _id":                {add(1, d("_id", nil, "rating", 1)), subset.ErrInvalid},
				"not adopted":             {add(8, d("rating", 1)), subset.ErrNotAdopted},
				"uncounted":               {add(10, d("rating", 1)), subset.ErrNotAdopted},
				"uncounted, null":         {add(11, d("rating", 1)), subset.ErrNotAdopted},
				"many, uncounted":         {many(1, d("rating", 1), 10, d("rating", 1), 2, d("rating", 1)), subset.ErrNotAdopted},
				"update, uncounted":       {update(11, 111, d("$set", d("rating", 5))), subset.ErrNotAdopted},
				"replace, uncounted":      {func(ctx context.Context) error { return s.Replace(ctx, 10, d("_id", 101, "rating", 3)) }, subset.ErrNotAdopted},
				"delete, uncounted":       {func(ctx context.Context) error { return s.Delete(ctx, 11, 111) }, subset.ErrNotAdopted},
				"move to uncounted":       {func(ctx context.Context) error { return s.Move(ctx, 1, 10, 1) }, subset.ErrNotAdopted},
				"move from uncounted":     {func(ctx context.Context) error { return s.Move(ctx, 10, 1, 101) }, subset.ErrNotAdopted},
				"move from uncounted 2":   {func(ctx context.Context) error { return s.Move(ctx, 11, 2, 111) }, subset.ErrNotAdopted},
				"many, no parent":         {many(1, d("rating", 1), 7, d("rating", 1)), subset.ErrNoParent},
				"many, not adopted":       {many(1, d("rating", 1), 8, d("rating", 1)), subset.ErrNotAdopted},
				"many, no number":         {many(1, d("rating", 1), 2, d()), subset.ErrInvalid},
				"update, no item":         {update(1, 5, d("$set", d("rating", 2))), subset.ErrNotFound},
				"update, other parent":    {update(2, 1, d("$set", d("rating", 2))), subset.ErrNotFound},
				"update to no number":     {update(1, 1, d("$set", d("rating", "x"))), subset.ErrInvalid},
				"update to an array":      {update(1, 1, d("$set", d("date", bson.A{}))), subset.ErrInvalid},
				"update moves":            {update(1, 1, d("$set", d("product_id", 2))), subset.ErrInvalid},
				"update removes parent":   {update(1, 1, d("$unset", d("product_id", ""))), subset.ErrInvalid},
				"update, not adopted":     {update(8, 81, d("$set", d("rating", 2))), subset.ErrNotAdopted},
				"replace, no item":        {func(ctx context.Context) error { return s.Replace(ctx, 1, d("_id", 5, "rating", 1)) }, subset.ErrNotFound},
				"replace, no _id":         {func(ctx context.Context) error { return s.Replace(ctx, 1, d("rating", 1)) }, subset.ErrInvalid},
				"replace, no number":      {func(ctx context.Context) error { return s.Replace(ctx, 1, d("_id", 1)) }, subset.ErrInvalid},
				"replace, not adopted":    {func(ctx context.Context) error { return s.Replace(ctx, 8, d("_id", 81, "rating", 3)) }, subset.ErrNotAdopted},
				"delete, no item":         {func(ctx context.Context) error { return s.Delete(ctx, 1, 5) }, subset.ErrNotFound},
				"delete, not adopted":     {func(ctx context.Context) error { return s.Delete(ctx, 8, 81) }, subset.ErrNotAdopted},
				"move, no item":           {func(ctx context.Context) error { return s.Move(ctx, 1, 2, 5) }, subset.ErrNotFound},
				"move to no parent":       {func(ctx context.Context) error { return s.Move(ctx, 1, 7, 1) }, subset.ErrNoParent},
				"move to not adopted":     {func(ctx context.Context) error { return s.Move(ctx, 1, 8, 1) }, subset.ErrNotAdopted},
				"move from not adopted":   {func(ctx context.Context) error { return s.Move(ctx, 8, 1, 81) }, subset.ErrNotAdopted},
				"parent has items":        {func(ctx context.Context) error { return s.DeleteEmptyParent(ctx, 1) }, subset.ErrHasItems},
				"delete no parent":        {func(ctx context.Context) error { _, err := s.DeleteParent(ctx, 7); return err }, subset.ErrNoParent},
				"delete no empty parent":  {func(ctx context.Context) error { return s.DeleteEmptyParent(ctx, 7) }, subset.ErrNoParent},
				"get no item":             {func(ctx context.Context) error { _, err := s.Get(ctx, 2, 1); return err }, subset.ErrNotFound},
				"top of no parent":        {func(ctx context.Context) error { _, err := s.Top(ctx, 7); return err }, subset.ErrNoParent},
				"item's _id is a pattern": {func(ctx context.Context) error { return s.Delete(ctx, 1, bson.Regex{Pattern: "."}) }, subset.ErrInvalid},
			} {
				ctx := t.Context()
				if !joined {
					wantNamed(t, name, test.fn(ctx), test.want)
				} else {
					session, err := db.Client().StartSession()
					must(t, err)
					must(t, session.StartTransaction())
					ctx := mongo.NewSessionContext(ctx, session)
					wantNamed(t, name, test.fn(ctx), test.want)
					must(t, session.CommitTransaction(ctx))
					session.EndSession(ctx)
				}
				after := [][]bson.D{stored(t, parents), stored(t, items)}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Fatalf("%s changed (-before +after):\n%s", name, diff)
				}
			}
			// Not-found errors are the driver's, too.
			_, err = s.Top(t.Context(), 7)
			wantErr(t, err, mongo.ErrNoDocuments)
			if joined {
				return
			}
			_, err = s.Add(t.Context(), 2, good)
			if !mongo.IsDuplicateKeyError(err) {
				t.Errorf("duplicate: %v", err)
			}
			same(t, "after a duplicate", before[0], stored(t, parents))
			// Repair adopts as well where there is no array, and then all goes.
			result, err := s.Repair(t.Context(), nil)
			must(t, err)
			same(t, "repaired", int64(2), result.Repaired)
			for _, parent := range []int{10, 11} {
				must(t, add(parent, d("rating", 1))(t.Context()))
				must(t, s.Delete(t.Context(), parent, parent*10+1))
			}
			must(t, many(10, d("rating", 2), 2, d("rating", 1))(t.Context()))
			must(t, s.Move(t.Context(), 10, 11, 102))
			// Items whose parent is gone can still be changed.
			must(t, s.Update(t.Context(), 9, 91, d("$set", d("rating", 3))))
			must(t, s.Delete(t.Context(), 9, 91))
		})
	}
}

func wantNamed(t testing.TB, name string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "subset: ") {
		t.Fatalf("%s: error %v, want %v", name, err, want)
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
				_, err := s.AddMany(t.Context(), func(yield func(int, bson.D) bool) {
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
		same(t, "off by more", []string{`"q" wrong value ` + path}, problems(t, s.Check(t.Context())))
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

// Fields keeps what the server's projection would.
func TestFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{Fields: []string{"a.b", "c", "d.e", "d", "x"}, Order: d("o.p", 1)})
	insert(t, db.Collection("parents"), d("_id", 1))
	item := d("_id", 5, "z", 1, "a", bson.A{d("b", int32(1), "q", 1), 7, d("q", 1), bson.A{d("b", int32(2), "q", 1)}},
		"o", d("p", int32(1), "q", 2), "c", bson.A{int32(1)}, "d", d("e", int32(1), "f", int32(2)))
	_, err := s.Add(t.Context(), 1, item)
	must(t, err)
	want := bson.A{d("_id", int32(5), "a", bson.A{d("b", int32(1)), d(), bson.A{d("b", int32(2))}},
		"o", d("p", int32(1)), "c", bson.A{int32(1)}, "d", d("e", int32(1), "f", int32(2)))}
	same(t, "kept", want, stored(t, db.Collection("parents"))[0][1].Value)
	clean(t, db, s)
	// A change of what is not kept does not write the parent.
	cmds := mongotest.Record(t, db, func() { must(t, s.Update(t.Context(), 1, 5, d("$set", d("z", 2)))) })
	same(t, "commands", []string{"findAndModify", "find", "commitTransaction"}, cmds.Names())
}

func TestAddMany(t *testing.T) {
	t.Parallel()
	for _, noCount := range []bool{false, true} {
		t.Run(fmt.Sprint("no count ", noCount), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			o := &subset.Options{N: 3, Order: d("v", -1), NoCount: noCount}
			s := newSubset[any, bson.D](t, db, o)
			for p := range 4 {
				insert(t, db.Collection("parents"), d("_id", p))
			}
			var progress []int64
			add := func(batch int, parents []any, from int) (subset.AddResult, error) {
				return s.AddMany(t.Context(), func(yield func(any, bson.D) bool) {
					for i := range 20 {
						if !yield(parents[i%len(parents)], d("v", (from+i*7)%20)) {
							return
						}
					}
				}, &subset.BatchOptions{BatchSize: batch, Progress: func(done int64) { progress = append(progress, done) }})
			}
			// 1, int64(1) and 1.0 are one parent.
			result, err := add(8, []any{0, 1, int64(1), 1.0, 2}, 0)
			must(t, err)
			same(t, "added", subset.AddResult{Added: 20}, result)
			same(t, "progress", []int64{8, 16, 20}, progress)
			clean(t, db, s)
			if n := len(collect(t, s.All(t.Context(), 1))); n != 12 {
				t.Errorf("%d items of parent 1", n)
			}
			result, err = add(4, []any{0, 1, 2, 3, 3, 9}, 5)
			wantErr(t, err, subset.ErrNoParent)
			same(t, "added before the error", subset.AddResult{Added: 4}, result)
			clean(t, db, s)
			_, err = s.AddMany(t.Context(), nil, &subset.BatchOptions{BatchSize: -1})
			if err == nil || err.Error() != "subset: add many: invalid: BatchOptions.BatchSize: negative" {
				t.Error(err)
			}
		})
	}
}

// The update of a parent holds what it keeps of all its items in a batch.
func TestAddManyLargeItems(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{N: 2})
	insert(t, db.Collection("parents"), d("_id", 1))
	var progress []int64
	_, err := s.AddMany(t.Context(), func(yield func(int, bson.D) bool) {
		for i := range 2 {
			if !yield(1, d("_id", i, "text", strings.Repeat("x", 5<<20))) {
				return
			}
		}
	}, &subset.BatchOptions{Progress: func(done int64) { progress = append(progress, done) }})
	must(t, err)
	same(t, "progress", []int64{1, 2}, progress)
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
	must(t, s.DeleteEmptyParent(t.Context(), 3))
	if docs := stored(t, db.Collection("parents")); len(docs) != 1 {
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
		must(t, s.Replace(t.Context(), id, d("_id", d("p", id, "i", 0), "text", "$$ROOT", "v", 2)))
		best, err := s.Top(t.Context(), id)
		must(t, err)
		if len(best) != 2 || best[0][1].Value != "$v" {
			t.Errorf("%v: %v", id, best)
		}
	}
	if _, err := s.Add(t.Context(), nil, d("v", 1)); !errors.Is(err, subset.ErrInvalid) {
		t.Error(err)
	}
	if err := errors.Join(collectErr(s.All(t.Context(), nil)), collectErr(s.All(t.Context(), make(chan int)))); !errors.Is(err, subset.ErrInvalid) {
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

func TestConfiguration(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	must(t, err)
	defer func() { _ = client.Disconnect(context.Background()) }()
	a, b := client.Database("x").Collection("a"), client.Database("x").Collection("b")
	value := func(v subset.Value) *subset.Options { return &subset.Options{Values: []subset.Value{v}} }
	for want, o := range map[string]*subset.Options{
		"Options.ParentField: _id is the item's own":                                    {ParentField: "_id"},
		"Options.ParentField: invalid field name: \"a.b\" contains \".\"":               {ParentField: "a.b"},
		"Options.ArrayField: invalid field name: \"$a\" starts with \"$\"":              {ArrayField: "$a"},
		"Options.ArrayField: invalid field name: \"0\" is a number":                     {ArrayField: "a.0"},
		"Options.ArrayField: invalid field name: \"_id\" collides with _id \"_id\"":     {ArrayField: "_id"},
		"Options.CountField: invalid field name: \"items\" collides with":               {CountField: "items"},
		"Options.NoCount: Options.CountField is set":                                    {NoCount: true, CountField: "n"},
		"Options.N: -1 is not a size of an array":                                       {N: -1},
		"Options.N: 2147483648 is not a size of an array":                               {N: 1 << 31},
		"Options.Order: \"date\": 2 is neither 1 nor -1":                                {Order: d("date", 2)},
		"Options.Order: \"date\": text is neither":                                      {Order: d("date", "text")},
		"Options.Order: _id must be last":                                               {Order: d("_id", 1, "a", 1)},
		"Options.Order: \"parent\" is the same for all items of a parent":               {Order: d("parent", 1)},
		"Options.Order: invalid field name: \"a.b\" collides with Options.Order \"a\"":  {Order: d("a", 1, "a.b", 1)},
		"Options.Fields[1]: invalid field name: empty":                                  {Fields: []string{"a", ""}},
		"Options.Fields[0]: \"parent\" is the same for all items of a parent":           {Fields: []string{"parent"}},
		"Options.Values[0].Field: \"p.x\" is the same for all items of a parent":        {ParentField: "p", Values: []subset.Value{{Field: "p.x", Sum: "s"}}},
		"Options.Values[0].Sum: empty":                                                  value(subset.Value{Field: "a"}),
		"Options.Values[0].Field: invalid field name: empty":                            value(subset.Value{Sum: "a"}),
		"Options.Values[0].Mean: invalid field name: \"s\" collides with":               value(subset.Value{Field: "a", Sum: "s", Mean: "s"}),
		"Options.Values[0].Mean: needs a Count, as there is no Options.CountField":      {NoCount: true, Values: []subset.Value{{Field: "a", Sum: "s", Mean: "m"}}},
		"Options.ArrayField: invalid field name: \"__touch\" collides with __touch \"_": {ArrayField: "__touch"},
	} {
		_, err := subset.New[int, bson.D](a, b, o)
		if err == nil || !strings.HasPrefix(err.Error(), "subset: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	other := client.Database("y").Collection("b")
	for want, pair := range map[string][2]*mongo.Collection{
		"subset: parents: nil collection":                          {nil, b},
		"subset: items: nil collection":                            {a, nil},
		"subset: items: the same collection as parents":            {a, a},
		"subset: items: not in the client and database of parents": {a, other},
	} {
		_, err := subset.New[int, bson.D](pair[0], pair[1], nil)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	s, err := subset.New[int, bson.D](a, b, nil)
	must(t, err)
	same(t, "index", d("parent", 1, "_id", int32(-1)), s.Indexes()[0].Keys.(bson.D))
	same(t, "shard key", d("parent", 1), s.ShardKey())
	same(t, "order", d("_id", int32(-1)), s.Order())
	if f := s.ItemsFilter(4); len(f) != 1 || f[0].Key != "parent" {
		t.Error(f)
	}
	if f := fmt.Sprint(s.TopPipeline(4)[0]); !strings.Contains(f, "_id") {
		t.Error(f)
	}
	fresh := s.Indexes()
	fresh[0].Keys.(bson.D)[0].Key = "changed"
	if slices.Equal([]string{fresh[0].Keys.(bson.D)[0].Key}, []string{s.Indexes()[0].Keys.(bson.D)[0].Key}) {
		t.Error("Indexes are not fresh")
	}
}
