package number_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A double counts as a decimal that reads back as it: the one of up to 15 digits if there is one.
func TestDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	check := func(f float64) {
		t.Helper()
		var sum number.Sum
		count, low, high := number.Doubles([]float64{f}, &sum, nil)
		got := sum.Decimal().String()
		back, err := strconv.ParseFloat(got, 64)
		if count != 1 || low != f || high != f || err != nil || back != f {
			t.Fatalf("%v is %s, which reads back as %v: %v", f, got, back, err)
		}
		short := strconv.FormatFloat(f, 'e', 14, 64)
		if x, _ := strconv.ParseFloat(short, 64); x != f || math.Abs(f) < 1e-307 {
			return
		}
		x, _ := new(big.Rat).SetString(short)
		if y := value.Number(value.Decimal(sum.Decimal())); x.Cmp(y) != 0 {
			t.Fatalf("%v is %s, want %s", f, got, short)
		}
	}
	for e := range 2046 {
		for range scale.Of(5, 20, 200) {
			check(math.Float64frombits(r.Uint64()&(1<<63) | uint64(e+1)<<52 | r.Uint64()>>12))
		}
		check(math.Float64frombits(uint64(e+1) << 52))
		check(math.Float64frombits(uint64(e+1)<<52 | 1<<52 - 1))
	}
	for range scale.Of(50_000, 300_000, 3_000_000) {
		digits := r.Int64N(1e15) / int64(math.Pow10(r.IntN(15)))
		check(float64(digits) / math.Pow10(r.IntN(23)))
		check(20 + r.NormFloat64())
		check(-r.ExpFloat64())
	}
	check(0)
	check(math.Copysign(0, -1))
	check(math.MaxFloat64)
}

// Sums and squares of doubles are those of the decimals one by one, in any order and any parts.
func TestDoublesAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 15))
	for range 300 {
		var fs []float64
		var want, wantSquares number.Sum
		for range 1 + r.IntN(200) {
			f := (r.Float64() - 0.5) * math.Pow10(r.IntN(9))
			switch r.IntN(6) {
			case 0:
				f = float64(r.IntN(1000)) / 10
			case 1:
				f *= math.Pow10(-r.IntN(12))
			case 2:
				f = 0.1
			}
			fs = append(fs, f)
			number.Doubles([]float64{f}, &want, &wantSquares)
		}
		fs = append(fs, math.NaN(), math.Inf(1), math.Inf(-1))
		r.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
		var sum, squares number.Sum
		cut := r.IntN(len(fs))
		number.Doubles(fs[:cut], &sum, &squares)
		if n, _, _ := number.Doubles(fs[cut:], &sum, &squares); int(n) > len(fs)-cut {
			t.Fatal(n)
		}
		for _, c := range [][2]*number.Sum{{&sum, &want}, {&squares, &wantSquares}} {
			got, want := value.Number(value.Decimal(c[0].Decimal())), value.Number(value.Decimal(c[1].Decimal()))
			if got.Cmp(want) != 0 {
				t.Fatalf("%v, want %v: %v", c[0].Decimal(), c[1].Decimal(), fs)
			}
		}
	}
	var none number.Sum
	if n, low, high := number.Doubles([]float64{2, math.NaN(), 1, math.Inf(1)}, nil, nil); n != 2 || low != 1 || high != 2 || none.Decimal().String() != "0" {
		t.Error(n, low, high)
	}
}

// A number without a fraction is printed without a point and zeros.
func TestDoublesPrint(t *testing.T) {
	for want, fs := range map[string][]float64{
		"1": {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, "81.5": {40, 41.5}, "-0.25": {-0.125, -0.125}, "0": {0.5, -0.5}, "123456": {123456},
		"0.33333333333333331": {1.0 / 3},
	} {
		var sum number.Sum
		number.Doubles(fs, &sum, nil)
		if got := sum.Decimal().String(); got != want {
			t.Errorf("%v: %s, want %s", fs, got, want)
		}
	}
}

// Doubles are rounded to the nearest decimal, so that many of them are not off to one side.
func TestDoublesRound(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 17))
	var sum number.Sum
	want := new(big.Rat)
	for range 10_000 {
		f := 20 + r.NormFloat64()
		number.Doubles([]float64{f}, &sum, nil)
		want.Add(want, new(big.Rat).SetFloat64(f))
	}
	got := value.Number(value.Decimal(sum.Decimal()))
	if off, _ := got.Sub(got, want).Float64(); math.Abs(off) > 5e-13 {
		t.Errorf("the sum is off by %v", off)
	}
}
