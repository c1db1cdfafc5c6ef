package number

import (
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Rounding describes the numbers in a sum, to bound how much the order of their addition can change it.
type Rounding struct {
	Most            *big.Rat // the sum of their absolute values, or more; nil if that is not finite
	Count           int64
	Double, Decimal bool // the types that occur
}

// The units by which an addition rounds at most, relative to the absolute numbers, and the bounds of the types.
var (
	ofDouble       = new(big.Rat).SetFloat64(0x1p-51)
	ofDecimal      = new(big.Rat).SetFrac(big.NewInt(1), value.Power(33))
	ofBoth         = new(big.Rat).SetFrac(big.NewInt(1), value.Power(14)) // $inc adds a double to a Decimal128 with 15 digits
	largestDouble  = new(big.Rat).SetFloat64(math.MaxFloat64)
	largestDecimal = new(big.Rat).SetInt(new(big.Int).Sub(value.Power(6145), value.Power(6111)))
	leastDecimal   = new(big.Rat).SetFrac(big.NewInt(1), value.Power(6176))
)

// Agree reports whether a stored sum is the computed one, but for some units of the last digit for each number. If
// the absolute numbers exceed the largest number of the type, the order decides which partial sums do; then an
// infinity or NaN agrees with any number.
func (r Rounding) Agree(have, want bson.RawValue) bool {
	if value.Agree(have, want, nil) {
		return true
	}
	if !have.IsNumber() || !want.IsNumber() {
		return false
	}
	n, unit, largest := new(big.Rat).SetInt64(r.Count+1), new(big.Rat), largestDouble
	switch {
	case r.Decimal && r.Double:
		unit = ofBoth
	case r.Decimal:
		unit, largest = ofDecimal, largestDecimal
	case r.Double:
		unit = ofDouble
	}
	if value.Number(have) == nil || value.Number(want) == nil {
		return r.Most == nil || r.Most.Cmp(largest) >= 0
	}
	most := r.Most
	if most == nil && r.Decimal {
		most = new(big.Rat).Mul(largestDecimal, n)
	} else if most == nil {
		most = new(big.Rat).Mul(largestDouble, n)
	}
	slack := new(big.Rat).Mul(most, n)
	slack.Mul(slack, unit)
	if least := new(big.Rat).Mul(leastDecimal, n); r.Decimal && slack.Cmp(least) < 0 {
		slack = least
	}
	return value.Agree(have, want, slack)
}

// Largest is the greater absolute value of two numbers, 0 if both are missing.
func Largest(low, high timeseries.Number) *big.Rat {
	out := new(big.Rat)
	for _, n := range []timeseries.Number{low, high} {
		if x := value.Number(n.Raw()); x != nil && out.Cmp(x.Abs(x)) < 0 {
			out = x
		}
	}
	return out
}
