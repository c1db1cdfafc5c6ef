package bucket

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

func dec(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNumbers(t *testing.T) {
	d := func(s string) bson.Decimal128 { return dec(t, s) }
	for _, c := range []struct{ got, want any }{
		{add(int32(1), int32(2)), int32(3)},
		{add(int32(math.MaxInt32), int32(1)), int64(math.MaxInt32 + 1)},
		{add(int32(1), int64(2)), int64(3)},
		{add(int64(math.MaxInt64), int64(1)), float64(1 << 63)},
		{add(int64(math.MinInt64), int64(-1)), -float64(1 << 63)},
		{add(int64(5), int32(0)), int64(5)},
		{add(int64(-5), int32(2)), int64(-3)},
		{add(int32(1), 0.5), 1.5},
		{add(d("0.1"), d("0.2")), d("0.3")},
		{add(d("1E+3"), int32(1)), d("1001")},
		{add(0.1, d("0.2")), d("0.300000000000000")},
		{add(d("9999999999999999999999999999999999"), d("1")), d("1.000000000000000000000000000000000E+34")},
		{add(d("1E+34"), d("0.5")), d("1.000000000000000000000000000000000E+34")},
		{square(int32(-3)), float64(9)},
		{square(int64(3)), float64(9)},
		{summand(int64(10), 10), int64(10)},
		{summand(int64(11), 10), float64(11)},
		{summand(int64(-11), 10), float64(-11)},
		{summand(int32(-10), 10), int32(-10)},
		{summand(d("11"), 10), d("11")},
		{square(int64(1 << 40)), float64(1 << 40 * (1 << 40))},
		{square(-1.5), 2.25},
		{square(d("-1.1")), d("1.21")},
	} {
		if fmt.Sprintf("%T %v", c.got, c.got) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("got %T %v, want %T %v", c.got, c.got, c.want, c.want)
		}
	}
	ascending := []any{math.Inf(-1), int64(math.MinInt64), -1.5, int32(-1), d("-0.5"), int32(0), 0.1, d("0.25"), 0.5, int64(1),
		d("1.5"), float64(1 << 53), int64(1<<53 + 1), d("1E+30")}
	for i, a := range ascending[1:] {
		for j, b := range ascending[1:] {
			if less(a, b) != (i < j) {
				t.Errorf("%v < %v is %v", a, b, less(a, b))
			}
		}
	}
}

// Values have one key if and only if they are equal to the server.
func TestValueKeys(t *testing.T) {
	key := func(value any) string {
		kind, data, err := bson.MarshalValue(value)
		if err != nil {
			t.Fatal(err)
		}
		return rawvalue.Key(bson.RawValue{Type: kind, Value: data})
	}
	doc := func(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }
	classes := [][]any{
		{int32(1), int64(1), 1.0, dec(t, "1"), dec(t, "1.00"), dec(t, "0.1E+1")},
		{0, math.Copysign(0, -1), dec(t, "-0")},
		{0.5, dec(t, "0.5"), dec(t, "0.50")},
		{0.1}, {dec(t, "0.1")}, // 0.1 is not exact
		{float64(1 << 53)}, {int64(1<<53 + 1), dec(t, "9007199254740993")},
		{1e300}, {dec(t, "1E+6000")}, {math.NaN()}, {math.Inf(1)}, {math.Inf(-1)},
		{doc("a", int32(1)), doc("a", int64(1)), doc("a", dec(t, "1"))},
		{doc("a", "1")}, {doc("a", doc("b", 1))}, {bson.A{1}, bson.A{1.0}},
		{doc("a", bson.A{1, "x"}), doc("a", bson.A{1.0, "x"})},
		{doc("a", bson.D{{Key: "0", Value: 1}, {Key: "1", Value: "x"}})},
		{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}}, {bson.D{{Key: "b", Value: 2}, {Key: "a", Value: 1}}},
		{"1"}, {"n1"}, {true}, {bson.DateTime(1)},
	}
	for i, class := range classes {
		for j, other := range classes {
			for _, a := range class {
				for _, b := range other {
					if same := key(a) == key(b); same != (i == j) {
						t.Errorf("%T %v and %T %v: %v", a, a, b, b, same)
					}
				}
			}
		}
	}
}

// Sums of decimals agree with exact arithmetic.
func TestDecimalSums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		exact, sum := new(big.Rat), any(int32(0))
		for range 20 {
			m, e := random.Int64N(2e12)-1e12, random.IntN(8)-4
			d, ok := bson.ParseDecimal128FromBigInt(big.NewInt(m), e)
			if !ok {
				t.Fatal(m, e)
			}
			sum = add(sum, d)
			exact.Add(exact, rational(d))
		}
		if rational(sum).Cmp(exact) != 0 {
			t.Fatalf("%v, want %v", sum, exact)
		}
	}
}

// The memory of sequences is bounded and only ever goes up.
func TestSequences(t *testing.T) {
	var s sequences
	s.raise("a", 0)
	if len(s.next) != 0 {
		t.Error("remembers what it need not")
	}
	s.raise("a", 3)
	s.raise("a", 2)
	if s.get("a") != 3 || s.get("b") != 0 {
		t.Error(s.get("a"), s.get("b"))
	}
	for i := range maxSequences + 10 {
		s.raise(fmt.Sprint(i), 1)
	}
	if len(s.next) != maxSequences {
		t.Error(len(s.next))
	}
}
