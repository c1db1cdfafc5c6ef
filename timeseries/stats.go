package timeseries

import (
	"math"
	"math/big"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Value names a number in each measurement and the fields of the window's document that keep its
// aggregates. The paths may be dotted ("stats.temperature.sum").
//
// With only Field ("temperature"), Sum, Squares, Min, Max and Count are kept below "stats.temperature.". If
// any other field is set, exactly the aggregates that are named are kept.
//
// The number may be int32, int64, double or Decimal128. A measurement without it (missing, null, another
// type, NaN, infinite) is stored but not aggregated if Count is kept; otherwise it is refused with
// ErrInvalid.
type Value struct {
	Field string // the path inside the measurement. Required

	Sum      string // the sum
	Squares  string // the sum of the squares, a Decimal128, for Variance. It needs Sum
	Min, Max string // the smallest and the largest number
	// First and Last hold {time, value} of the earliest and the latest measurement. If there are several in
	// one millisecond, First has the smallest value and Last the largest.
	First, Last string
	Count       string // how many measurements have the number
}

// Stats are the aggregates of the measurements in a range.
type Stats struct {
	Count  int64                 `json:"count"`
	Values map[string]ValueStats `json:"values"` // the aggregates of each of Options.Values, by its Field
}

// ValueStats are the aggregates of one value. An aggregate that the Value does not name, or without a
// measurement, is the zero Number or Sample and is left out of JSON.
type ValueStats struct {
	Count   int64  `json:"count"` // how many measurements have the value
	Sum     Number `json:"sum,omitzero"`
	Squares Number `json:"squares,omitzero"`
	Min     Number `json:"min,omitzero"`
	Max     Number `json:"max,omitzero"`
	First   Sample `json:"first,omitzero"`
	Last    Sample `json:"last,omitzero"`
}

// A Sample is a value with the time of its measurement.
type Sample struct {
	Time  time.Time `json:"time"`
	Value Number    `json:"value"`
}

// A WindowStats has the aggregates of one window.
type WindowStats struct {
	Start time.Time `json:"start"`
	Stats
}

// Mean returns Sum / Count. If there are no measurements, or Sum is not kept, it returns NaN, which JSON does not have.
func (v ValueStats) Mean() float64 { return v.Sum.Float64() / float64(v.Count) }

// Variance returns the population variance, or NaN without Sum, Squares or measurements. A mean that is
// large relative to the deviation does not make it less exact until the squares exceed the 34 digits of a
// Decimal128. If their rounding then leaves no digit of the result certain, it returns NaN.
func (v ValueStats) Variance() float64 {
	sum, squares := value.Number(v.Sum.raw), value.Number(v.Squares.raw)
	if sum == nil || squares == nil || v.Count == 0 {
		return math.NaN()
	}
	if low, high := value.Number(v.Min.raw), value.Number(v.Max.raw); low != nil && high != nil && low.Cmp(high) == 0 {
		return 0
	}
	// Every addition rounds to 34 digits, and there are no more additions than measurements, so the mean
	// square is wrong by at most two units of the last digit.
	slack := new(big.Rat)
	if rounded(v.Squares) {
		slack.Mul(squares, new(big.Rat).SetFrac64(2, 1e17)).Quo(slack, new(big.Rat).SetInt64(1e16))
	}
	n := new(big.Rat).SetInt64(v.Count)
	mean := sum.Quo(sum, n)
	variance := squares.Quo(squares, n)
	variance.Sub(variance, mean.Mul(mean, mean))
	if variance.Cmp(slack.Mul(slack, big.NewRat(10, 1))) < 0 {
		return math.NaN()
	}
	f, _ := variance.Float64()
	return f
}

// rounded reports whether a number has all the digits that a Decimal128 can have, so that it may be
// rounded.
func rounded(n Number) bool {
	d, ok := n.raw.Decimal128OK()
	if !ok {
		return n.raw.Type == bson.TypeDouble
	}
	digits, _, err := d.BigInt()
	return err != nil || len(digits.String()) >= 34
}

// StdDev returns the square root of Variance.
func (v ValueStats) StdDev() float64 { return math.Sqrt(v.Variance()) }
