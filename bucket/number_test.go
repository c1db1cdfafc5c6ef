package bucket

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func numberOfAny(t testing.TB, v any) timeseries.Number {
	t.Helper()
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	n := finite(bson.RawValue{Type: kind, Value: data})
	if n.IsZero() {
		t.Fatalf("%v is not finite", v)
	}
	return n
}

func dec(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Sums have the type that the server's would have.
func TestSums(t *testing.T) {
	d := func(s string) bson.Decimal128 { return dec(t, s) }
	for _, c := range []struct {
		of   []any
		want any
	}{
		{nil, int32(0)},
		{[]any{int32(1), int32(2)}, int32(3)},
		{[]any{int32(math.MaxInt32), int32(1)}, int64(math.MaxInt32 + 1)},
		{[]any{int32(1), int64(2)}, int64(3)},
		{[]any{int64(1 << 40), int64(1<<40 + 1), int64(-1<<40 - 1)}, float64(1 << 40)}, // beyond the limit
		{[]any{int32(1), 0.5}, 1.5},
		{[]any{d("0.1"), d("0.2")}, d("0.3")},
		{[]any{d("12.50"), d("12.50")}, d("25")},
		{[]any{d("1E+3"), int32(1)}, d("1001")},
		{[]any{d("-1E+400")}, d("-1E+400")},
		{[]any{0.5, d("0.2")}, d("0.7")},
		{[]any{d("9999999999999999999999999999999999"), d("1")}, d("1E+34")},
		{[]any{d("1E+34"), d("0.5")}, d("1E+34")},
		{[]any{d("9E+6144"), d("9E+6144")}, d("Infinity")},
		{[]any{d("-9E+6144"), d("-9E+6144")}, d("-Infinity")},
	} {
		sum := tally{limit: 1 << 40, exact: true}
		for _, v := range c.of {
			sum.add(0, numberOfAny(t, v))
		}
		var got any
		if err := sum.sum(false).Raw().Unmarshal(&got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("%v: got %T %v, want %T %v", c.of, got, got, c.want, c.want)
		}
	}
	for of, want := range map[string]string{"-1E-4000": "0E-6176", "-1E-400": "1E-800", "1.5E-3088": "2E-6176", "1.6E-3088": "3E-6176", "-1E+3200": "Infinity"} {
		one := tally{exact: true}
		one.add(0, numberOfAny(t, d(of)))
		if got := decimal(&one.squares); got.String() != want {
			t.Errorf("the square of %s is %v", of, got)
		}
	}
}

// Sums of decimals, and moments, agree with exact arithmetic.
func TestDecimalSums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		exact, squares := new(big.Rat), new(big.Rat)
		sum := tally{exact: true}
		for range 20 {
			m, e := random.Int64N(2e9)-1e9, random.IntN(8)-4
			v, ok := bson.ParseDecimal128FromBigInt(big.NewInt(m), e)
			if !ok {
				t.Fatal(m, e)
			}
			n := numberOfAny(t, v)
			sum.add(0, n)
			x := value.Number(n.Raw())
			exact.Add(exact, x)
			squares.Add(squares, new(big.Rat).Mul(x, x))
		}
		for _, c := range []struct {
			got  timeseries.Number
			want *big.Rat
		}{{sum.sum(false), exact}, {decimal(&sum.total), exact}, {decimal(&sum.squares), squares}} {
			if value.Number(c.got.Raw()).Cmp(c.want) != 0 {
				t.Fatalf("%v, want %v", c.got, c.want)
			}
		}
	}
}
