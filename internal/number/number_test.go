package number_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Sums of anything in any order are those of big.Rat, and pass through a Decimal128.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var sum, other number.Sum
		want := new(big.Rat)
		for range r.IntN(20) {
			digits, places := r.Int64()>>r.IntN(63), r.IntN(12)-3
			if r.IntN(2) == 0 {
				digits = -digits
			}
			x := new(big.Rat).SetFrac(big.NewInt(digits), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(places, 0))), nil))
			x.Mul(x, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(-places, 0))), nil)))
			want.Add(want, x)
			switch r.IntN(4) {
			case 0:
				sum.AddInt(digits, places)
			case 1:
				other.AddInt(digits, places)
			case 2:
				var one number.Sum
				one.AddInt(digits, places)
				sum.AddDecimal(one.Decimal())
			default:
				sum.Add(big.NewInt(digits), places)
			}
		}
		sum.Join(&other)
		got := value.Number(number.Decimal(sum.Decimal()).Raw())
		if got == nil || got.Cmp(want) != 0 {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	var large number.Sum
	for range 1 << 10 {
		large.Add128(1<<53, 7, 0)
	}
	if got := large.Decimal().String(); got != "1.701411834604692317316873037158841E+38" {
		t.Error(got)
	}
	for range 1 << 10 {
		large.Add128(-1<<53, 0, 0)
	}
	if got := large.Decimal().String(); got != "7168" {
		t.Error(got)
	}
	nan, _ := bson.ParseDecimal128("NaN")
	large.AddDecimal(nan)
	if large.Decimal().IsNaN() {
		t.Error("NaN was added")
	}
}

func TestShortest(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.1: "0.1", -21.375: "-21.375", 1e300: "1E+300", 5e-324: "5E-324", 1.0 / 3: "0.3333333333333333", 1 << 60: "1.152921504606847E+18"} {
		var sum number.Sum
		digits, places := number.Shortest(f)
		sum.AddInt(digits, places)
		d, _ := bson.ParseDecimal128(want)
		if got := sum.Decimal(); value.Number(number.Decimal(got).Raw()).Cmp(value.Number(number.Decimal(d).Raw())) != 0 {
			t.Errorf("%v is %v", f, got)
		}
	}
}

func TestNumber(t *testing.T) {
	d, _ := bson.ParseDecimal128("1.5")
	for _, c := range []struct {
		n          number.Number
		text, json string
		float      float64
	}{
		{number.Number{}, "", "null", math.NaN()}, {number.Int32(-3), "-3", "-3", -3}, {number.Int64(1 << 60), "1152921504606846976", "1152921504606846976", 1 << 60},
		{number.Double(2.5), "2.5", "2.5", 2.5}, {number.Double(math.Inf(1)), "+Inf", "null", math.Inf(1)}, {number.Decimal(d), "1.5", "1.5", 1.5},
		{number.Of(bson.RawValue{Type: bson.TypeNull}), "", "null", math.NaN()},
	} {
		text, err := json.Marshal(c.n)
		if f := c.n.Float64(); err != nil || string(text) != c.json || c.n.String() != c.text && c.text != "+Inf" || f != c.float && !math.IsNaN(c.float) {
			t.Errorf("%v: %s, %v, %v", c.n, text, f, err)
		}
	}
	for _, less := range [][2]number.Number{{number.Int32(1), number.Double(1.5)}, {number.Double(1), number.Double(2)}, {number.Decimal(d), number.Int64(2)}, {number.Int64(1<<60 - 1), number.Int64(1 << 60)}} {
		if !less[0].Less(less[1]) || less[1].Less(less[0]) {
			t.Errorf("%v", less)
		}
	}
	if v := number.Variance(2, number.Int32(4), number.Int32(10)); v != 1 {
		t.Error(v)
	}
	if !math.IsNaN(number.Variance(0, number.Int32(0), number.Int32(0))) || !math.IsNaN(number.Variance(1, number.Number{}, number.Int32(0))) {
		t.Error("a variance of nothing")
	}
}
