package computed_test

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// ledger has the sums of v by film, additive.
func ledger(t testing.TB) (*mongo.Database, *computed.Computed[int, string, bson.M]) {
	t.Helper()
	db := mongotest.Database(t)
	return db, testkit.Must(totalsOf[int, string, bson.M](db.Collection("screenings"), db.Collection("films"), &spec{
		Key: "film", Options: computed.Options{Additive: true}, Empty: bson.D{{Key: "sum", Value: 0}, {Key: "n", Value: 0}},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "sum", Value: bson.M{"$sum": "$v"}}, {Key: "n", Value: bson.M{"$sum": 1}}}}}},
	}))
}

// What a huge number has done to a sum goes with it.
func TestSumsRecover(t *testing.T) {
	t.Parallel()
	db, c := ledger(t)
	decimal := func(text string) bson.Decimal128 { return testkit.Must(bson.ParseDecimal128(text)) }
	films := db.Collection("films")
	id := 0
	for name, test := range map[string]struct {
		others []any
		huge   []any
		last   any
		want   any
	}{
		"NaN":            {[]any{10.0}, []any{math.NaN()}, 5.0, 15.0},
		"Infinity":       {[]any{10}, []any{math.Inf(1)}, 5, int32(15)},
		"ints":           {[]any{10}, []any{int64(math.MaxInt64)}, 1, int32(11)},
		"negative ints":  {[]any{10}, []any{int64(math.MinInt64), int64(math.MinInt64)}, 1, int32(12)},
		"doubles":        {[]any{10.0}, []any{1e17}, 1.0, 11.0},
		"two doubles":    {[]any{10.0}, []any{1e17, 1e17}, 1.0, 12.0},
		"MaxFloat64":     {[]any{10.0}, []any{math.MaxFloat64, math.MaxFloat64}, 0.5, 11.0},
		"decimals":       {[]any{decimal("1E-400")}, []any{decimal("1")}, decimal("0"), decimal("1E-400")},
		"great decimals": {[]any{decimal("1.5")}, []any{decimal("9.99E+6144"), decimal("9.99E+6144")}, 0, decimal("1.5")},
	} {
		_, err := films.InsertOne(t.Context(), bson.M{"_id": name})
		check(t, err)
		one := func(id int, v any) {
			t.Helper()
			check(t, c.Change(t.Context(), []int{id}, set(db, id, bson.M{"film": name, "v": v})))
		}
		for _, v := range test.others {
			id++
			one(id, v)
		}
		first := id + 1
		for _, v := range test.huge {
			id++
			one(id, v)
		}
		for i := range test.huge {
			one(first+i, test.last)
		}
		have, err := films.FindOne(t.Context(), bson.M{"_id": name}).Raw()
		check(t, err)
		if sum := have.Lookup("sum"); !value.Agree(sum, raw(test.want), nil) || (sum.Type == bson.TypeDouble) != (raw(test.want).Type == bson.TypeDouble) {
			t.Errorf("%s: %v, want %v", name, sum, test.want)
		}
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
}

// A sum that shrinks a hundredfold again and again, each time by less than Change looks for, loses its digits: what was
// rounded is not in the sum. Check reports it, Repair computes it. Whole numbers lose nothing.
func TestSumsThatShrinkAgainAndAgain(t *testing.T) {
	t.Parallel()
	db, c := ledger(t)
	for film, test := range map[string]struct {
		first  int
		number func(i int) any
		wrong  int
	}{
		"doubles": {100, func(i int) any { return 1.1 * math.Pow10(2*i) }, 1},
		"cents":   {200, func(i int) any { return 110 * int64(math.Pow10(2*i)) }, 0},
	} {
		testkit.Insert(t, db.Collection("films"), bson.D{{Key: "_id", Value: film}})
		put := func(i int, v any) {
			t.Helper()
			check(t, c.Change(t.Context(), []int{test.first + i}, set(db, test.first+i, bson.M{"film": film, "v": v})))
		}
		for i := range 9 {
			put(i, test.number(i))
		}
		for i := 8; i > 0; i-- {
			put(i, 0)
		}
		var problems []mongopatterns.Problem
		for p, err := range c.Check(t.Context(), &mongopatterns.Work{Filter: bson.D{{Key: "_id", Value: film}}}) {
			check(t, err)
			problems = append(problems, p)
		}
		if len(problems) != test.wrong || test.wrong > 0 && problems[0].Kind != mongopatterns.WrongField {
			t.Errorf("%s: %v", film, problems)
		}
	}
	check(t, errorOf(c.Repair(t.Context(), nil)))
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	if sum := testkit.One[bson.Raw](t, db.Collection("films"), "doubles").Lookup("sum"); !sum.Equal(raw(1.1)) {
		t.Error(sum)
	}
}

// Random changes of numbers at the ends of each type, against exact sums.
func TestSumsAgainstModel(t *testing.T) {
	t.Parallel()
	decimal := func(text string) any { return testkit.Must(bson.ParseDecimal128(text)) }
	ints := []any{int32(10), int32(-3), int32(math.MaxInt32), int32(math.MinInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(-math.MaxInt64), int64(1<<53 + 1)}
	doubles := []any{11.0, 0.1, -0.3, 1e17, -1e17, math.MaxFloat64, 5e-324, 1e-310, math.Copysign(0, -1)}
	decimals := []any{decimal("1.10"), decimal("-0"), decimal("1E-400"), decimal("1E-6176"), decimal("-3E-6176"), decimal("9.99E+6144"),
		decimal("1E+30"), decimal("0.1234567890123456789012345678901234"), decimal("9999999999999999999999999999999999")}
	special := []any{math.NaN(), math.Inf(1), math.Inf(-1), decimal("NaN"), decimal("Infinity"), decimal("-Infinity"), bson.Null{}, "x"}
	for name, pool := range map[string][]any{
		"ints": ints, "doubles": doubles, "decimals": decimals, "mixed": slices.Concat(ints, doubles, decimals), "special": slices.Concat(ints[:2], doubles[:2], decimals[:2], special),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(len(pool))
			random := rand.New(rand.NewPCG(1, seed))
			db, c := ledger(t)
			check(t, c.EnsureIndexes(t.Context()))
			for _, film := range []string{"A", "B"} {
				_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": film})
				check(t, err)
			}
			model := map[int]bson.M{}
			for step := range scale.Of(30, 60, 300) {
				var ids []int
				var models []mongo.WriteModel
				for range 1 + random.IntN(2) {
					id := random.IntN(5)
					ids = append(ids, id)
					if random.IntN(3) == 0 {
						delete(model, id)
						models = append(models, mongo.NewDeleteOneModel().SetFilter(bson.M{"_id": id}))
						continue
					}
					model[id] = bson.M{"film": []string{"A", "A", "B"}[random.IntN(3)], "v": pool[random.IntN(len(pool))]}
					models = append(models, mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": id}).SetReplacement(model[id]).SetUpsert(true))
				}
				check(t, c.Change(t.Context(), ids, func(ctx context.Context) error {
					return errorOf(db.Collection("screenings").BulkWrite(ctx, models))
				}))
				for _, film := range []string{"A", "B"} {
					var numbers []bson.RawValue
					for _, source := range model {
						if source["film"] == film {
							numbers = append(numbers, raw(source["v"]))
						}
					}
					have, err := db.Collection("films").FindOne(t.Context(), bson.M{"_id": film}).Raw()
					check(t, err)
					if sum := have.Lookup("sum"); sum.Type != 0 && !adds(sum, numbers, name == "ints") {
						t.Errorf("step %d of the seed %d: %v became %v", step, seed, numbers, sum)
					}
				}
			}
			for p, err := range c.Check(t.Context(), nil) {
				t.Errorf("seed %d: %v %v", seed, p, err)
			}
		})
	}
}

func raw(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

// adds reports whether sum is that of the numbers: exactly if there never were others than ints and the sum is one, else
// up to a billionth of their absolute values.
func adds(sum bson.RawValue, numbers []bson.RawValue, ints bool) bool {
	exact, size, infinite := new(big.Rat), new(big.Rat), 0.0
	for _, v := range numbers {
		if n := value.Number(v); n != nil {
			exact.Add(exact, n)
			size.Add(size, n.Abs(n))
		} else if v.IsNumber() {
			infinite += double(v)
		}
	}
	have := value.Number(sum)
	switch f, _ := exact.Float64(); {
	case infinite != 0 || math.IsNaN(infinite):
		return value.Same(raw(infinite), sum)
	case ints && exact.IsInt() && exact.Num().IsInt64():
		return (sum.Type == bson.TypeInt32 || sum.Type == bson.TypeInt64) && have.Cmp(exact) == 0
	case have != nil:
		return have.Sub(have, exact).Abs(have).Cmp(size.Mul(size, big.NewRat(1, 1e9))) <= 0
	case sum.Type == bson.TypeDouble:
		return f == sum.Double()
	}
	return sum.Decimal128().IsInf() == exact.Sign() && len(exact.Num().String()) > 6145
}

// double is a number that is not finite as a double.
func double(v bson.RawValue) float64 {
	if v.Type == bson.TypeDouble {
		return v.Double()
	}
	if d := v.Decimal128(); !d.IsNaN() {
		return math.Inf(d.IsInf())
	}
	return math.NaN()
}

// A target that was set aside has no sum to add to, or an old one: Change computes it from all its sources.
func TestSumOfATargetThatWasSetAside(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := testkit.Must(totalsOf[int, string, bson.M](db.Collection("screenings"), db.Collection("films"), &spec{
		Key: "film", Options: computed.Options{Additive: true, Attempts: 1}, Empty: bson.D{{Key: "sum", Value: 0}},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "sum", Value: bson.M{"$sum": bson.M{"$toInt": "$v"}}}}}}},
	}))
	ctx := t.Context()
	for id, before := range map[string]bson.M{"never computed": {}, "computed": {"sum": 100}} {
		testkit.Insert(t, db.Collection("films"), bson.D{{Key: "_id", Value: id}})
		if len(before) > 0 {
			check(t, c.Change(ctx, []int{1}, set(db, 1, bson.M{"film": id, "v": "100"})))
		}
		check(t, set(db, 1, bson.M{"film": id, "v": "x"})(ctx))
		check(t, c.Mark(ctx, id))
		if result := testkit.Must(c.Drain(ctx, nil)); result.Failed != 1 {
			t.Fatalf("%s: %+v", id, result)
		}
		check(t, set(db, 1, bson.M{"film": id, "v": "5"})(ctx))
		check(t, c.Change(ctx, []int{2}, set(db, 2, bson.M{"film": id, "v": "7"})))
		if got := testkit.Must(c.Get(ctx, id, time.Hour))["sum"]; got != int32(12) {
			t.Errorf("%s: %v, want 12", id, got)
		}
		for failure, err := range c.Failures(ctx) {
			t.Errorf("%s: still set aside: %v, %v", id, failure, err)
		}
		check(t, set(db, 2, bson.M{"film": "another", "v": "0"})(ctx))
	}
}
