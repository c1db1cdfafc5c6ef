package number_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
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
		got := value.Number(value.Decimal(sum.Decimal()))
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
}

// An infinity stays, as on the server, and two opposite ones are NaN.
func TestSumOfInfinities(t *testing.T) {
	for _, c := range []struct {
		of   []string
		want string
	}{
		{[]string{"Infinity", "1", "-9E6144"}, "Infinity"}, {[]string{"1", "-Infinity", "-Infinity"}, "-Infinity"},
		{[]string{"Infinity", "-Infinity", "Infinity"}, "NaN"}, {[]string{"NaN", "1"}, "NaN"}, {[]string{"NaN", "Infinity"}, "NaN"},
	} {
		var sum, parts number.Sum
		for _, s := range c.of {
			d, err := bson.ParseDecimal128(s)
			if err != nil {
				t.Fatal(err)
			}
			sum.AddDecimal(d)
			var part number.Sum
			part.AddDecimal(d)
			parts.Join(&part)
		}
		if sum.Decimal().String() != c.want || parts.Decimal().String() != c.want {
			t.Errorf("%v: %v, in parts %v, want %s", c.of, sum.Decimal(), parts.Decimal(), c.want)
		}
	}
}

func TestShortest(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.1: "0.1", -21.375: "-21.375", 1e300: "1E+300", 5e-324: "5E-324", 1.0 / 3: "0.3333333333333333", 1 << 60: "1.152921504606847E+18"} {
		var sum number.Sum
		digits, places := number.Shortest(f)
		sum.AddInt(digits, places)
		d, _ := bson.ParseDecimal128(want)
		if got := sum.Decimal(); value.Number(value.Decimal(got)).Cmp(value.Number(value.Decimal(d))) != 0 {
			t.Errorf("%v is %v", f, got)
		}
	}
}

// Beyond the exponents of a Decimal128 a sum is rounded to the least one, or an infinity of its sign.
func TestSumBeyondDecimal(t *testing.T) {
	for _, c := range []struct {
		digits, places int64
		want           string
	}{{18, -6144, "Infinity"}, {-18, -6144, "-Infinity"}, {1, 12000, "0E-6176"}, {-1, 12000, "0E-6176"}, {9, -6144, "9.000000000000000000000000000000000E+6144"},
		{225, 6178, "2E-6176"}, {-26, 6177, "-3E-6176"}, {4, 6177, "0E-6176"}, {5, 6177, "0E-6176"}, {15, 6177, "2E-6176"}, {-25, 6177, "-2E-6176"}, {1, 6178, "0E-6176"}} {
		var s number.Sum
		s.AddInt(c.digits, int(c.places))
		if got := s.Decimal().String(); got != c.want {
			t.Errorf("%d places %d: %s, want %s", c.digits, c.places, got, c.want)
		}
	}
}

// Halves round to even, as on the server and in package value, in 192 bits and in any width.
func TestSumRoundsHalvesToEven(t *testing.T) {
	for last, want := range map[int64]string{25: "1000000000000000000000000000000002E+1", 35: "1000000000000000000000000000000004E+1", -25: "-1000000000000000000000000000000002E+1"} {
		digits := value.Power(34)
		if last < 0 {
			digits.Neg(digits)
		}
		digits.Add(digits, big.NewInt(last))
		var narrow, wide number.Sum
		narrow.AddInt(last, 0)
		d, err := bson.ParseDecimal128(map[bool]string{false: "1E34", true: "-1E34"}[last < 0])
		if err != nil {
			t.Fatal(err)
		}
		narrow.AddDecimal(d)
		wide.Add(digits, 0)
		right, err := bson.ParseDecimal128(want)
		if err != nil {
			t.Fatal(err)
		}
		other := value.OfRat(new(big.Rat).SetInt(digits), bson.TypeDecimal128)
		if narrow.Decimal() != right || wide.Decimal() != right || value.Number(other).Cmp(value.Number(value.Decimal(right))) != 0 {
			t.Errorf("%v: %v, %v and %v, want %v", digits, narrow.Decimal(), wide.Decimal(), other, right)
		}
	}
}

// Shortest is what strconv prints.
func TestShortestIsPrinted(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	check := func(f float64) {
		digits, places := number.Shortest(f)
		want, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', -1, 64), 64)
		got := strconv.FormatInt(digits, 10) + "e" + strconv.Itoa(-places)
		back, err2 := strconv.ParseFloat(got, 64)
		x, _ := new(big.Rat).SetString(got)
		y, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			y.SetFloat64(f)
		}
		if places > 0 && digits%10 == 0 && digits != 0 {
			t.Fatalf("%v is %s", f, got)
		}
		if err != nil || err2 != nil || back != want || x.Cmp(y) != 0 {
			t.Fatalf("%v is %s", f, got)
		}
	}
	for e := range 2046 {
		for range 4 {
			check(math.Float64frombits(uint64(e)<<52 | r.Uint64()>>12))
		}
		check(math.Float64frombits(uint64(e) << 52))
		check(math.Float64frombits(uint64(e)<<52 | 1<<52 - 1))
	}
	for range 100_000 {
		check(float64(r.IntN(1e9)) / 1e3)
		check(20 + r.NormFloat64())
		check(-r.ExpFloat64())
	}
	check(0)
	check(5e-324)
	check(math.MaxFloat64)
}

// Sums of 192 bits round as those of any width do.
func TestSumRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	for range 20_000 {
		var sum, wide number.Sum
		wide.Add(new(big.Int).Lsh(big.NewInt(1), 200), 0)
		wide.Add(new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 200)), 0)
		for range 1 + r.IntN(5) {
			x := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64() >> (3 + r.IntN(61))}
			places := r.IntN(30) - 5
			digits := new(big.Int).SetUint64(x[2])
			digits.Lsh(digits, 64).Add(digits, new(big.Int).SetUint64(x[1]))
			digits.Lsh(digits, 64).Add(digits, new(big.Int).SetUint64(x[0]))
			sum.Add192(x, places)
			wide.Add(digits, places)
			n := r.Int64() - r.Int64()
			sum.AddInt(n, places)
			wide.Add(big.NewInt(n), places)
		}
		got, want := value.Number(value.Decimal(sum.Decimal())), value.Number(value.Decimal(wide.Decimal()))
		if got.Cmp(want) != 0 {
			t.Fatalf("%v, want %v", sum.Decimal(), wide.Decimal())
		}
	}
}
