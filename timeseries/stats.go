package timeseries

import (
	"math"
	"math/big"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Value is a number in each measurement and where the document of a window keeps its
// aggregates. The paths may be dotted ("stats.temperature.sum").
//
// With Field alone, Sum, Squares, Min, Max and Count are kept below "stats.temperature.".
// Once any of them is named, exactly the named ones are kept.
//
// The number may be int32, int64, double or Decimal128. A measurement without it (missing,
// null, another type, NaN, infinite) is stored and left out of the aggregates if Count is
// kept, and else refused with ErrInvalid.
type Value struct {
	Field string // the path inside the measurement. Required

	Sum      string // the sum
	Squares  string // the sum of the squares, a Decimal128, for Variance. It needs Sum
	Min, Max string // the smallest and the largest number
	// First and Last hold {time, value} of the earliest and the latest measurement by time: of
	// several in one millisecond the smallest and the largest value.
	First, Last string
	Count       string // how many measurements have the number
}

// Stats are aggregates of the measurements in a range.
type Stats struct {
	Count  int64                 `json:"count"`
	Values map[string]ValueStats `json:"values"` // of each of Options.Values, by Value.Field
}

// ValueStats are the aggregates of one value. What Options do not keep, and what has no
// measurement, is the zero Number or Sample, and left out of JSON.
type ValueStats struct {
	Count   int64  `json:"count"` // of the measurements that have the value
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

// A WindowStats is the aggregates of one window.
type WindowStats struct {
	Start time.Time `json:"start"`
	Stats
}

// Mean is Sum / Count; NaN if there are no measurements or Sum is not kept.
func (v ValueStats) Mean() float64 { return v.Sum.Float64() / float64(v.Count) }

// Variance is that of the whole population; NaN without Sum, Squares or measurements. A
// mean that is large against the deviation costs no digits until the squares have more
// than the 34 of a Decimal128; where their rounding then leaves no digit of the result
// certain, it is NaN.
func (v ValueStats) Variance() float64 {
	sum, squares := value.Number(v.Sum.raw), value.Number(v.Squares.raw)
	if sum == nil || squares == nil || v.Count == 0 {
		return math.NaN()
	}
	if low, high := value.Number(v.Min.raw), value.Number(v.Max.raw); low != nil && high != nil && low.Cmp(high) == 0 {
		return 0
	}
	// Every addition rounds to 34 digits, and there are not more of them than measurements:
	// so the mean square is off by two units of the last digit at most.
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

// rounded reports whether a number has as many digits as a Decimal128 can have.
func rounded(n Number) bool {
	d, ok := n.raw.Decimal128OK()
	if !ok {
		return n.raw.Type == bson.TypeDouble
	}
	digits, _, err := d.BigInt()
	return err != nil || len(digits.String()) >= 34
}

// StdDev is the square root of Variance.
func (v ValueStats) StdDev() float64 { return math.Sqrt(v.Variance()) }
