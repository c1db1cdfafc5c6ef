package number_test

import (
	"math"
	"math/big"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Sums agree within the digits that their types have; after an overflow an infinity agrees.
func TestRounding(t *testing.T) {
	d := func(s string) bson.RawValue {
		x, err := bson.ParseDecimal128(s)
		if err != nil {
			t.Fatal(err)
		}
		return value.Decimal(x)
	}
	f := func(x float64) bson.RawValue { return value.Double(x) }
	i := func(x int64) bson.RawValue { return value.Int64(x) }
	doubles, decimals, both := number.Rounding{Double: true}, number.Rounding{Decimal: true}, number.Rounding{Double: true, Decimal: true}
	for _, c := range []struct {
		of         number.Rounding
		most       *big.Rat
		have, want bson.RawValue
		agree      bool
	}{
		{number.Rounding{}, big.NewRat(5, 1), i(5), f(5), true},
		{number.Rounding{}, big.NewRat(5, 1), i(5), i(6), false},
		{doubles, big.NewRat(1, 1), f(0.3), f(0.30000000000000004), true},
		{doubles, big.NewRat(1, 1), f(0.3), f(0.30000000000001), false},
		{doubles, nil, f(math.Inf(1)), f(1), true},
		{doubles, nil, f(math.NaN()), f(1), true},
		{doubles, nil, bson.RawValue{}, f(1), false},
		{doubles, big.NewRat(1, 1), f(math.Inf(1)), f(1), false},
		{both, big.NewRat(1, 1), d("0.30000000000001"), d("0.3"), true},
		{both, big.NewRat(1, 1), d("0.3000000000001"), d("0.3"), false},
		{both, nil, d("-Infinity"), d("1"), true},
		{both, new(big.Rat).SetFloat64(math.MaxFloat64), d("-Infinity"), d("3.6E308"), true},
		{decimals, big.NewRat(1, 1), d("0.300000000000000000000000000000001"), d("0.3"), true},
		{decimals, big.NewRat(1, 1), d("0.30000000000000000000000000001"), d("0.3"), false},
		{decimals, nil, d("-Infinity"), d("9E6144"), true},
		{decimals, number.Largest(timeseries.Number{}, timeseries.NumberOf(d("-9.999999999999999999999999999999999E6144"))), d("Infinity"), d("0"), true},
		{decimals, number.Largest(timeseries.NumberOf(d("-9E6000")), timeseries.Number{}), d("Infinity"), d("0"), false},
		{decimals, new(big.Rat), d("1E-6176"), d("0"), true},
		{decimals, new(big.Rat), d("5E-6176"), d("0"), false},
	} {
		c.of.Most, c.of.Count = c.most, 3
		if got := c.of.Agree(c.have, c.want); got != c.agree {
			t.Errorf("%v and %v: %v", c.have, c.want, got)
		}
	}
}
