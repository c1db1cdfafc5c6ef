package timeseries_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestNumber(t *testing.T) {
	d, _ := bson.ParseDecimal128("1.5")
	for _, c := range []struct {
		n          timeseries.Number
		text, json string
		float      float64
	}{
		{timeseries.Number{}, "", "null", math.NaN()}, {number.Int32(-3), "-3", "-3", -3}, {number.Int64(1 << 60), "1152921504606846976", "1152921504606846976", 1 << 60},
		{number.Double(2.5), "2.5", "2.5", 2.5}, {number.Double(math.Inf(1)), "+Inf", "null", math.Inf(1)}, {number.Decimal(d), "1.5", "1.5", 1.5},
		{timeseries.NumberOf(bson.RawValue{Type: bson.TypeNull}), "", "null", math.NaN()},
	} {
		text, err := json.Marshal(c.n)
		if f := c.n.Float64(); err != nil || string(text) != c.json || c.n.String() != c.text && c.text != "+Inf" || f != c.float && !math.IsNaN(c.float) {
			t.Errorf("%v: %s, %v, %v", c.n, text, f, err)
		}
	}
	parse := func(s string) timeseries.Number {
		d, _ := bson.ParseDecimal128(s)
		return number.Decimal(d)
	}
	ascending := []timeseries.Number{number.Int64(math.MinInt64), number.Double(-1.5), number.Int32(-1), parse("-0.5"), number.Int32(0), number.Double(0.1),
		parse("0.25"), number.Double(0.5), number.Int64(1), parse("1.5"), number.Int32(2), number.Int32(3), number.Double(1 << 53), number.Int64(1<<53 + 1),
		number.Int64(1<<60 - 1), number.Int64(1 << 60), parse("1E+30")}
	for i, a := range ascending {
		for j, b := range ascending {
			if a.Less(b) != (i < j) {
				t.Errorf("%v < %v is %v", a, b, i >= j)
			}
		}
	}
}

// A variance is right to its last digit, or NaN if the rounding of the squares leaves no digit certain.
func TestVariance(t *testing.T) {
	stats := func(numbers ...int64) (v timeseries.ValueStats) {
		var sum, squares number.Sum
		low, high := numbers[0], numbers[0]
		for _, n := range numbers {
			low, high = min(low, n), max(high, n)
			sum.AddInt(n, 0)
			square := big.NewInt(n)
			squares.Add(square.Mul(square, square), 0)
		}
		return timeseries.ValueStats{Count: int64(len(numbers)), Min: number.Int64(low), Max: number.Int64(high),
			Sum: number.Decimal(sum.Decimal()), Squares: number.Decimal(squares.Decimal())}
	}
	around := func(mean int64) (out []int64) {
		for i := range int64(11) {
			out = append(out, mean+i)
		}
		return out
	}
	for _, c := range []struct {
		numbers []int64
		want    float64
	}{
		{around(0), 10}, {around(-1e15), 10}, {around(17e14), 10}, {around(17e17), math.NaN()},
		{[]int64{17e17, 18e17}, 2.5e33}, {[]int64{17e17, 17e17, 17e17}, 0}, {[]int64{3}, 0},
	} {
		v := stats(c.numbers...)
		if got := v.Variance(); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: %v, want %v", c.numbers, got, c.want)
		}
		if got := v.StdDev(); got != math.Sqrt(c.want) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: deviation %v", c.numbers, got)
		}
	}
	if v := (timeseries.ValueStats{}); !math.IsNaN(v.Variance()) || !math.IsNaN(v.Mean()) {
		t.Error("a variance of nothing")
	}
	v := stats(1, 2)
	v.Squares = timeseries.Number{}
	if !math.IsNaN(v.Variance()) {
		t.Error("a variance without squares")
	}
}
