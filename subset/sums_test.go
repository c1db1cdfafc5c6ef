package subset_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

func decimal(text string) bson.Decimal128 {
	v, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return v
}

// Numbers at the ends of each type.
var (
	ints    = []any{int32(10), int32(1), int32(-3), int32(math.MaxInt32), int32(math.MinInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(-math.MaxInt64), int64(1<<53 + 1)}
	doubles = []any{11.0, 0.1, -0.3, 1e17, -1e17, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-310, math.Copysign(0, -1)}
	// The last ones have 34 digits, and the least and the greatest exponent.
	decimals = []any{decimal("1.10"), decimal("-0"), decimal("1E-400"), decimal("1E-6176"), decimal("-3E-6176"), decimal("9.99E+6144"), decimal("-9.99E+6144"),
		decimal("1E+30"), decimal("0.1234567890123456789012345678901234"), decimal("9999999999999999999999999999999999")}
	// Value.Count leaves these out.
	nothing = []any{math.NaN(), math.Inf(1), decimal("NaN"), decimal("-Infinity"), "x", bson.Null{}}
)

// sumOptions keep a sum, a mean and a count of v.
func sumOptions() *subset.Options {
	return &subset.Options{N: 2, Filter: d("off", d("$ne", true)), Values: []subset.Value{{Field: "v", Sum: "sum", Mean: "mean", Count: "n"}}}
}

// summed tests the sum, the mean and the count of a parent against its numbers: exactly if there never were others than
// ints and the sum is one, else up to a part in 10^9 of their absolute values.
func summed(t *testing.T, what string, parent bson.Raw, numbers []bson.RawValue, ints bool) {
	t.Helper()
	sum, slack, n := new(big.Rat), new(big.Rat), int64(len(numbers))
	for _, v := range numbers {
		number := value.Number(v)
		sum.Add(sum, number)
		slack.Add(slack, number.Abs(number))
	}
	slack.Mul(slack, big.NewRat(1, 1e9))
	near := func(v bson.RawValue, want, slack *big.Rat) bool {
		have := value.Number(v)
		return have != nil && have.Sub(have, want).Abs(have).Cmp(slack) <= 0
	}
	have, mean := parent.Lookup("sum"), parent.Lookup("mean")
	isInt, ok := have.Type == bson.TypeInt32 || have.Type == bson.TypeInt64, false
	switch {
	case isInt || ints && sum.IsInt() && sum.Num().IsInt64():
		ok = isInt && near(have, sum, new(big.Rat))
	case value.Number(have) != nil:
		ok = near(have, sum, slack)
	default: // more than the type holds
		ok = value.Same(value.OfRat(sum, have.Type), have)
	}
	if !ok || parent.Lookup("n").AsInt64() != n {
		t.Errorf("%s: the sum of %v is %v, and their number %v", what, numbers, have, parent.Lookup("n"))
	}
	switch {
	case n == 0:
		ok = mean.IsZero()
	case value.Number(have) == nil:
		ok = value.Same(mean, have)
	default:
		ok = near(mean, sum.Quo(sum, big.NewRat(n, 1)), slack.Add(slack, least(mean)))
	}
	if !ok {
		t.Errorf("%s: the mean of %v is %v", what, numbers, mean)
	}
}

// least is the least number of a type, by which the rounding of a mean may differ.
func least(v bson.RawValue) *big.Rat {
	if v.Type == bson.TypeDecimal128 {
		return value.Number(raw(decimal("1E-6176")))
	}
	return value.Number(raw(math.SmallestNonzeroFloat64))
}

func raw(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

// What a huge number has done to a sum goes with it, in whatever way it comes and goes.
func TestSumsRecover(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[string, bson.D](t, db, sumOptions())
	parents := db.Collection("parents")
	add := func(parent string, id int, item bson.D) error {
		return testkit.ErrorOf(s.Insert(t.Context(), parent, append(d("_id", id), item...)))
	}
	many := func(parent string, id int, v any) error {
		return testkit.ErrorOf(s.InsertMany(t.Context(), seq(parent, d("_id", id, "v", v)), nil))
	}
	set := func(parent string, id int, op, field string, v any) error {
		return s.Update(t.Context(), parent, id, d(op, d(field, v)))
	}
	ways := map[string]struct {
		come func(parent string, id int, v any) error
		go_  func(parent string, id int, v any) error
	}{
		"insert, delete": {
			func(parent string, id int, v any) error { return add(parent, id, d("v", v)) },
			func(parent string, id int, _ any) error { return s.Delete(t.Context(), parent, id) },
		},
		"insert many, update": {many, func(parent string, id int, _ any) error { return set(parent, id, "$unset", "v", "") }},
		"update, update of the rank": {
			func(parent string, id int, v any) error {
				return errors.Join(add(parent, id, nil), set(parent, id, "$set", "v", v))
			},
			func(parent string, id int, _ any) error { return set(parent, id, "$set", "v", "rank") },
		},
		"filter": {
			func(parent string, id int, v any) error {
				return errors.Join(add(parent, id, d("v", v, "off", true)), set(parent, id, "$unset", "off", ""))
			},
			func(parent string, id int, _ any) error { return set(parent, id, "$set", "off", true) },
		},
		"moved": {
			many,
			func(parent string, id int, _ any) error { return move(t.Context(), db, s, parent, "away", id) },
		},
		"by an opposite": {many, func(parent string, id int, v any) error { return add(parent, -id, d("v", opposite(v))) }},
		"by opposites":   {many, func(parent string, id int, v any) error { return many(parent, -id, opposite(v)) }},
	}
	insert(t, parents, d("_id", "away"))
	id := 0
	for name, test := range map[string]struct {
		others []any
		huge   []any
		want   any
	}{
		"ints":           {[]any{10, 1}, []any{int64(math.MaxInt64)}, int64(11)},
		"negative ints":  {[]any{10, 1}, []any{int64(-math.MaxInt64), int64(-math.MaxInt64)}, int64(11)},
		"the least int":  {[]any{-10, -1}, []any{int64(math.MinInt64)}, int64(-11)},
		"doubles":        {[]any{11.0}, []any{1e17}, 11.0},
		"a double":       {[]any{10, 1}, []any{1e300}, 11.0},
		"MaxFloat64":     {[]any{0.5}, []any{math.MaxFloat64, math.MaxFloat64}, 0.5},
		"decimals":       {[]any{decimal("1E-400")}, []any{decimal("1")}, decimal("1E-400")},
		"great decimals": {[]any{decimal("1.5"), 1}, []any{decimal("9.99E+6144"), decimal("9.99E+6144")}, decimal("2.5")},
	} {
		for way, change := range ways {
			p := name + ": " + way
			if !scale.Third(p) {
				continue
			}
			insert(t, parents, d("_id", p))
			for _, v := range test.others {
				id++
				must(t, add(p, id, d("v", v)))
			}
			var slack *big.Rat
			for i, v := range test.huge {
				must(t, change.come(p, id+1+i, v))
				if strings.HasPrefix(way, "by ") { // the huge ones stay
					slack = value.Number(raw(v))
					slack.Mul(slack.Abs(slack), big.NewRat(1, 1e9))
				}
			}
			for i, v := range test.huge {
				must(t, change.go_(p, id+1+i, v))
			}
			id += len(test.huge)
			if have := testkit.One[bson.Raw](t, parents, p).Lookup("sum"); !value.Agree(have, raw(test.want), slack) {
				t.Errorf("%s: %v, want %v", p, have, test.want)
			}
		}
	}
	clean(t, db, s)
}

// A text in place of a sum is not overwritten, and keeps numbers from being added to it.
func TestSumAsText(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, sumOptions())
	insert(t, db.Collection("parents"), d("_id", 1))
	must(t, testkit.ErrorOf(s.InsertMany(t.Context(), seq(1, d("_id", 1, "v", 1.5), d("_id", 2, "v", 2)), nil)))
	testkit.Update(t, db.Collection("parents"), d("_id", 1), d("$set", d("sum", "much")))
	before := testkit.One[bson.Raw](t, db.Collection("parents"), 1)
	for name, err := range map[string]error{
		"insert":      testkit.ErrorOf(s.Insert(t.Context(), 1, d("_id", 3, "v", 1))),
		"insert many": testkit.ErrorOf(s.InsertMany(t.Context(), seq(1, d("_id", 3, "v", 1), d("_id", 4, "v", 1)), nil)),
		"update":      s.Update(t.Context(), 1, 1, d("$set", d("v", 1))),
		"delete":      s.Delete(t.Context(), 1, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if after := testkit.One[bson.Raw](t, db.Collection("parents"), 1); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	must(t, testkit.ErrorOf(s.Repair(t.Context(), nil)))
	clean(t, db, s)
}

// Repair and Check agree on every number, and every two, that other code has stored.
func TestSumsOfAllNumbers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, sumOptions())
	all := slices.Concat(ints, doubles, decimals, nothing)
	var parents, items []any
	numbers := map[int][]bson.RawValue{}
	for i, first := range all {
		for _, second := range all[i:] {
			id := len(parents)
			parents = append(parents, d("_id", id, "sum", 1, "mean", 1.0))
			for _, v := range []any{first, second} {
				items = append(items, d("parent", id, "v", v))
				if raw := raw(v); value.Number(raw) != nil {
					numbers[id] = append(numbers[id], raw)
				}
			}
		}
	}
	insert(t, db.Collection("parents"), parents...)
	insert(t, db.Collection("items"), items...)
	must(t, testkit.ErrorOf(s.Repair(t.Context(), nil)))
	clean(t, db, s)
	cursor, err := db.Collection("parents").Find(t.Context(), d())
	must(t, err)
	for cursor.Next(t.Context()) {
		summed(t, "repaired", cursor.Current, numbers[int(cursor.Current.Lookup("_id").Int32())], false)
	}
	must(t, cursor.Err())
}

// Random writes of numbers at the ends of each type, against exact sums.
func TestSumsAgainstModel(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string][]any{
		"ints": ints, "doubles": doubles, "decimals": decimals, "mixed": slices.Concat(ints, doubles, decimals), "some": slices.Concat(ints[:2], doubles[:2], decimals[:2], nothing),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(len(pool))
			random := rand.New(rand.NewPCG(2, seed))
			db := mongotest.Database(t)
			o := sumOptions()
			o.Sort = d("rank", 1)
			s := newSubset[int, bson.D](t, db, o)
			insert(t, db.Collection("parents"), d("_id", 0), d("_id", 1))
			model, next := map[int]bson.D{}, 0
			item := func(id int) bson.D {
				return d("_id", id, "parent", random.IntN(2), "v", pool[random.IntN(len(pool))], "rank", random.IntN(3), "off", random.IntN(4) == 0)
			}
			parent := func(item bson.D) int { return item[1].Value.(int) }
			for step := range scale.Of(20, 60, 300) {
				keys := slices.Sorted(maps.Keys(model))
				if n := random.IntN(6); n == 0 || len(keys) < 2 {
					next++
					model[next] = item(next)
					must(t, testkit.ErrorOf(s.Insert(t.Context(), parent(model[next]), model[next])))
				} else if n == 1 {
					must(t, testkit.ErrorOf(s.InsertMany(t.Context(), func(yield func(int, bson.D) bool) {
						for range 1 + random.IntN(3) {
							next++
							model[next] = item(next)
							yield(parent(model[next]), model[next])
						}
					}, nil)))
				} else if id := keys[random.IntN(len(keys))]; n < 4 {
					old := model[id]
					must(t, s.Delete(t.Context(), parent(old), id))
					delete(model, id)
				} else {
					after := item(id)
					after[1] = model[id][1]
					model[id] = after
					must(t, s.Update(t.Context(), parent(after), id, d("$set", after)))
				}
				for p := range 2 {
					var numbers []bson.RawValue
					for _, item := range model {
						if v := raw(item[2].Value); parent(item) == p && item[4].Value == false && value.Number(v) != nil {
							numbers = append(numbers, v)
						}
					}
					if have := testkit.One[bson.Raw](t, db.Collection("parents"), p); have.Lookup("items_count").Type != 0 {
						summed(t, fmt.Sprintf("step %d of the seed %d", step, seed), have, numbers, name == "ints")
					}
				}
			}
			clean(t, db, s)
		})
	}
}

// opposite is the negative of a number; for the least int the greatest, with which it leaves -1.
func opposite(v any) any {
	switch v := v.(type) {
	case int64:
		return -max(v, -math.MaxInt64)
	case float64:
		return -v
	case bson.Decimal128:
		high, low := v.GetBytes()
		return bson.NewDecimal128(high^1<<63, low)
	}
	panic(v)
}
