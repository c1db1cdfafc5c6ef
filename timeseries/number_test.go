package timeseries_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestNumber(t *testing.T) {
	d, _ := bson.ParseDecimal128("1.5")
	for _, c := range []struct {
		n          timeseries.Number
		text, json string
		float      float64
	}{
		{timeseries.Number{}, "", "null", math.NaN()}, {of(int32(-3)), "-3", "-3", -3}, {of(int64(1 << 60)), "1152921504606846976", "1152921504606846976", 1 << 60},
		{of(2.5), "2.5", "2.5", 2.5}, {of(math.Inf(1)), "+Inf", "null", math.Inf(1)}, {of(d), "1.5", "1.5", 1.5},
		{timeseries.NumberOf(bson.RawValue{Type: bson.TypeNull}), "", "null", math.NaN()},
	} {
		text, err := json.Marshal(c.n)
		if f := c.n.Float64(); err != nil || string(text) != c.json || c.n.String() != c.text && c.text != "+Inf" || f != c.float && !math.IsNaN(c.float) {
			t.Errorf("%v: %s, %v, %v", c.n, text, f, err)
		}
	}
	parse := func(s string) timeseries.Number {
		d, _ := bson.ParseDecimal128(s)
		return of(d)
	}
	ascending := []timeseries.Number{of(int64(math.MinInt64)), of(-1.5), of(int32(-1)), parse("-0.5"), of(int32(0)), of(0.1),
		parse("0.25"), of(0.5), of(int64(1)), parse("1.5"), of(int32(2)), of(int32(3)), of(float64(1 << 53)), of(int64(1<<53 + 1)),
		of(int64(1<<60 - 1)), of(int64(1 << 60)), parse("1E+30")}
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
		return timeseries.ValueStats{Count: int64(len(numbers)), Min: of(low), Max: of(high),
			Sum: of(sum.Decimal()), Squares: of(squares.Decimal())}
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

// of is a Go value of a numeric type as a Number.
func of(v any) timeseries.Number { return timeseries.NumberOf(value.New(v)) }
