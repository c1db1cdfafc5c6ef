package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

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
		_, err = reviews.Add(t.Context(), 1, d("_id", i))
		must(t, err)
	}
	_, err = questions.Add(t.Context(), 1, d("_id", 7))
	must(t, err)
	clean(t, db, reviews)
	clean(t, db, questions)
	doc := stored(t, parents)[0]
	same(t, "counts", "[3 1]", fmt.Sprint([]any{get(doc, "reviews_count"), get(doc, "questions_count")}))

	// Deleted as the manual says.
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(t.Context())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		if _, err := reviews.DeleteParent(ctx, 1); err != nil {
			return nil, err
		}
		return db.Collection("questions").DeleteMany(ctx, questions.ItemsFilter(1))
	})
	must(t, err)
	for _, name := range []string{"parents", "reviews", "questions"} {
		same(t, name, []bson.D{}, stored(t, db.Collection(name)))
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

// A refusal names what is refused, and leaves nothing behind, also in a
// transaction of the caller's.
func TestRefusalsAreNamed(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		t.Run(fmt.Sprint("joined ", joined), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSubset[int, any](t, db, &subset.Options{Values: []subset.Value{{Field: "n", Sum: "sum", Count: "numbers", Mean: "more.mean.n"}}})
			insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2, "items", "none", "items_count", 0), d("_id", 3, "sum", "none"),
				d("_id", 4, "items_count", "none"), d("_id", 5, "numbers", d()), d("_id", 6, "sum", bson.A{1}),
				d("_id", 7, "more", 5), d("_id", 8, "more", d("mean", bson.A{d("n", 1)})))
			insert(t, db.Collection("items"), d("_id", 20, "parent", 2), d("_id", 30, "parent", 3), d("_id", 40, "parent", 4), d("_id", 70, "parent", 7))
			split := newSplit[int, bson.D, bson.D](t, db, nil)
			before := [][]bson.D{stored(t, db.Collection("parents")), stored(t, db.Collection("items"))}
			many := func(items ...any) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := s.AddMany(ctx, func(yield func(int, any) bool) {
						for _, item := range items {
							parent := 1
							if of, ok := item.(int); ok {
								parent, item = of, d()
							}
							if !yield(parent, item) {
								return
							}
						}
					}, nil)
					return err
				}
			}
			add := func(parent int, item any) func(context.Context) error {
				return func(ctx context.Context) error { _, err := s.Add(ctx, parent, item); return err }
			}
			for name, test := range map[string]struct {
				fn   func(context.Context) error
				text []string
			}{
				"nil":            {add(1, nil), nil},
				"nil pointer":    {add(1, (*review)(nil)), nil},
				"channel":        {add(1, d("a", make(chan int))), nil},
				"field twice":    {add(1, d("a", 1, "b", 1, "a", 2)), []string{`"a" stands twice`}},
				"_id twice":      {add(1, d("_id", 1, "_id", 2)), []string{`"_id" stands twice`}},
				"many: nil":      {many(d(), d(), nil), []string{"at 2: "}},
				"many: channel":  {many(d(), d("a", make(chan int))), []string{"at 1: "}},
				"array":          {add(2, d()), []string{`"items"`, `_id 2`, "string"}},
				"sum":            {add(3, d("n", 1)), []string{`"sum"`, `_id 3`, "string"}},
				"count":          {add(4, d("n", 1)), []string{`"items_count"`, `_id 4`, "string"}},
				"numbers":        {add(5, d("n", 1)), []string{`"numbers"`, `_id 5`, "embedded document"}},
				"array of sums":  {add(6, d("n", 1)), []string{`"sum"`, `_id 6`, "array"}},
				"on the way":     {add(7, d()), []string{`"more"`, `_id 7`, "32-bit integer"}},
				"array there":    {add(8, d()), []string{`"more.mean"`, `_id 8`, "array"}},
				"many: count":    {many(1, 4), []string{`"items_count"`, `_id 4`}},
				"replace: array": {func(ctx context.Context) error { return s.Replace(ctx, 2, d("_id", 20, "x", 1)) }, []string{`"items"`, `_id 2`}},
				"update: sum": {func(ctx context.Context) error { return s.Update(ctx, 3, 30, d("$set", d("n", 1))) },
					[]string{`"sum"`, `_id 3`}},
				"update: nil":   {func(ctx context.Context) error { return s.Update(ctx, 2, 20, nil) }, []string{"update: ", "null"}},
				"update: empty": {func(ctx context.Context) error { return s.Update(ctx, 2, 20, bson.D{}) }, []string{"update: "}},
				"update: none":  {func(ctx context.Context) error { return s.Update(ctx, 2, 20, d("x", 1)) }, []string{`"x" is no operator`}},
				"split: nil":    {func(ctx context.Context) error { return split.Update(ctx, 1, nil, nil) }, []string{"hot and cold"}},
				"split: hot":    {func(ctx context.Context) error { return split.Update(ctx, 1, d("x", 1), nil) }, []string{"hot: update: "}},
				"split: cold":   {func(ctx context.Context) error { return split.Update(ctx, 1, nil, (*bson.D)(nil)) }, []string{"cold: update: "}},
				"top":           {func(ctx context.Context) error { _, err := s.Top(ctx, 2); return err }, []string{`"items"`, "_id 2", "string"}},
				"delete: count": {func(ctx context.Context) error { return s.Delete(ctx, 4, 40) }, []string{`"items_count"`, `_id 4`}},
				"move":          {func(ctx context.Context) error { return s.Move(ctx, 3, 4, 30) }, []string{`"sum"`, `_id 3`}},
			} {
				ctx := t.Context()
				session, err := db.Client().StartSession()
				must(t, err)
				if joined {
					must(t, session.StartTransaction())
					ctx = mongo.NewSessionContext(ctx, session)
				}
				err = test.fn(ctx)
				wantNamed(t, name, err, subset.ErrInvalid)
				for _, text := range test.text {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%s: error %v, want %s", name, err, text)
					}
				}
				if joined {
					must(t, session.CommitTransaction(ctx))
				}
				session.EndSession(ctx)
				same(t, name+" writes nothing", before, [][]bson.D{stored(t, db.Collection("parents")), stored(t, db.Collection("items"))})
			}
			if joined {
				return
			}
			insert(t, db.Collection("parents"), d("_id", 9, "items", nil, "items_count", nil, "sum", nil, "numbers", nil)) // as good as nothing
			must(t, add(9, d("n", 1))(t.Context()))
			must(t, many(d(), 1)(t.Context()))
			result, err := s.AddMany(t.Context(), nil, nil)
			must(t, err)
			same(t, "a nil sequence", subset.AddResult{}, result)
			wantNamed(t, "split", split.Insert(t.Context(), 1, d("a", 1, "a", 2), d()), subset.ErrInvalid)
			if err := s.Delete(t.Context(), 1, 99); err == nil || err.Error() != `subset: delete: not found: _id 99` {
				t.Error(err)
			}
		})
	}
}

// Whatever stands in a place of a parent: the filter of the writes and what tells
// their refusals agree on it, so that none is tried again until its time is up.
func TestOddValuesInPlaces(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	s := newSubset[string, bson.D](t, db, &subset.Options{ArrayField: "sub.items", CountField: "sub.n",
		Values: []subset.Value{{Field: "n", Sum: "sum", Count: "more.numbers"}}})
	decimal := func(s string) bson.Decimal128 { d, err := bson.ParseDecimal128(s); must(t, err); return d }
	numbers := map[int]bool{}
	values := []any{int64(math.MaxInt64), math.NaN(), math.Inf(-1), decimal("1.5"), decimal("NaN"), decimal("Infinity"), // numbers
		nil, bson.Undefined{}, bson.Symbol("x"), "", true, bson.MinKey{}, bson.MaxKey{}, bson.Regex{Pattern: "x"}, bson.JavaScript("x"),
		bson.Timestamp{T: 1}, bson.DateTime(1), bson.Binary{}, bson.DBPointer{DB: "x"}, bson.NewObjectID(),
		bson.A{}, bson.A{nil}, bson.A{1}, bson.A{bson.A{}}, bson.A{bson.A{d("_id", 1)}}, bson.A{"x"}, bson.A{d()}, bson.A{bson.Undefined{}},
		bson.A{d("items", bson.A{}, "n", 1)}, d(), d("0", d("_id", 1)), d("0", 1, "1", nil), d("$x", 1)}
	for i := range 6 {
		numbers[i] = true
	}
	for i, value := range values {
		for _, place := range []string{"sub", "sub.items", "sub.n", "sum", "more", "more.numbers"} {
			parent := func(counted bool) bson.D {
				sub := d()
				if counted {
					sub = d("n", 1)
				}
				switch name, inner, deeper := strings.Cut(place, "."); {
				case !deeper:
					doc := d(name, value)
					if name != "sub" {
						doc = append(doc, bson.E{Key: "sub", Value: sub})
					}
					return doc
				case name == "sub" && inner == "n":
					return d("sub", d("n", value))
				case name == "sub":
					return d("sub", append(sub, bson.E{Key: inner, Value: value}))
				default:
					return d("sub", sub, name, d(inner, value))
				}
			}
			text := fmt.Sprint(place, " ", i)
			if _, err := db.Collection("parents").InsertMany(ctx, []any{
				append(d("_id", "add "+text), parent(false)...), append(d("_id", "del "+text), parent(true)...)}); err != nil {
				t.Logf("%s: %v", text, err) // no server takes all of them
				continue
			}
			insert(t, db.Collection("items"), d("_id", text, "parent", "del "+text, "n", 1))
			_, add := s.Add(ctx, "add "+text, d("n", 1))
			_, many := s.AddMany(ctx, func(yield func(string, bson.D) bool) { yield("add "+text, d("n", 1)) }, nil)
			for name, err := range map[string]error{"add": add, "add many": many, "delete": s.Delete(ctx, "del "+text, text)} {
				if err != nil && !errors.Is(err, subset.ErrInvalid) && !errors.Is(err, subset.ErrNotAdopted) || err != nil && strings.Contains(err.Error(), "in place of its") {
					t.Errorf("%s: %v in %s: %v", name, value, place, err)
				}
				if err == nil && value != nil && place == "sum" && !numbers[i] {
					t.Errorf("%s: %v in %s is written over", name, value, place)
				}
			}
		}
	}
}

// What follows from the items has its place in a parent; what others hold there
// instead, Repair leaves if it would be lost.
func TestRepairLeavesWhatIsOnTheWay(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "sub.items", CountField: "sub.n"})
		parents := db.Collection("parents")
		insert(t, parents, d("_id", 1, "sub", "mine"), d("_id", 2, "sub", bson.A{d("mine", 1)}), d("_id", 3, "sub", d("n", "none", "items", 1)))
		insert(t, db.Collection("items"), d("_id", 1, "parent", 1), d("_id", 2, "parent", 2), d("_id", 3, "parent", 3), d("_id", 4, "parent", 4))
		insert(t, parents, d("_id", 4, "sub", nil))
		want := subset.RepairResult{Examined: 4, Repaired: 2, Remaining: 2}
		before := stored(t, parents)
		session, err := db.Client().StartSession()
		must(t, err)
		ctx := t.Context()
		if joined {
			must(t, session.StartTransaction())
			ctx = mongo.NewSessionContext(ctx, session)
		}
		result, err := s.Repair(ctx, nil)
		wantErr(t, err, subset.ErrInvalid)
		for _, text := range []string{`_id 1: `, `_id 2: `, `"sub"`} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %v, want %s", err, text)
			}
		}
		if joined {
			must(t, session.CommitTransaction(ctx))
		}
		session.EndSession(ctx)
		same(t, "repair", want, result)
		untouched(t, parents)
		after := stored(t, parents)
		same(t, "left", before[:2], after[:2])
		for _, doc := range after[2:] {
			same(t, "repaired", int32(1), get(get(doc, "sub").(bson.D), "n"))
		}
	}
}

func TestProblemText(t *testing.T) {
	t.Parallel()
	value := func(v any) bson.RawValue {
		kind, data, err := bson.MarshalValue(v)
		must(t, err)
		return bson.RawValue{Type: kind, Value: data}
	}
	items := bson.A{}
	for i := range 12 {
		items = append(items, d("_id", fmt.Sprint(i)))
	}
	for want, p := range map[string]subset.Problem{
		`_id "p": orphan: parent of 3 items`:         {Kind: subset.Orphan, ID: value("p"), Field: "parent", Have: value(3)},
		`_id "p": wrong count: n is missing, want 2`: {Kind: subset.WrongCount, ID: value("p"), Field: "n", Want: value(2)},
		`_id "p": wrong subset: a is 2 items with the _ids ["0" "1"], want 12 items with the _ids ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" …]`: {
			Kind: subset.WrongSubset, ID: value("p"), Field: "a", Have: value(items[:2]), Want: value(items)},
		`_id "p": wrong subset: a is 2 items with the _ids [missing missing], want missing`: {Kind: subset.WrongSubset, ID: value("p"), Field: "a", Have: value(bson.A{1, d()})},
		`_id "p": wrong value: s is "` + strings.Repeat("x", 120) + `"…, want missing`:      {Kind: subset.WrongValue, ID: value("p"), Field: "s", Have: value(strings.Repeat("x", 199))},
	} {
		same(t, "text", want, p.String())
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
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		same(t, "kind", subset.InvalidItem, p.Kind)
		same(t, "text", fmt.Sprintf(`_id 1: invalid item: %s of the item _id %d`, p.Field, p.Have.Int32()), p.String())
		found[p.Have.Int32()] = p.Field
	}
	same(t, "found", fields, found)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "repair", subset.RepairResult{Examined: 1, Remaining: int64(len(fields))}, result)
	for id := range fields { // as each is described, it can be mended
		must(t, s.Delete(t.Context(), 1, id))
	}
	result, err = s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "left", int64(0), result.Remaining)
	clean(t, db, s)
}
