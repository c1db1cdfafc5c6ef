package bucket

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// finite returns the number in v, the zero Number for NaN, infinities and values that are not numbers.
func finite(v bson.RawValue) timeseries.Number {
	f, _ := v.DoubleOK()
	d, _ := v.Decimal128OK()
	if math.IsNaN(f) || math.IsInf(f, 0) || d.IsNaN() || d.IsInf() != 0 {
		return timeseries.Number{}
	}
	return timeseries.NumberOf(v)
}

// exact returns a finite number with more digits than the 34 of a Decimal128.
func exact(v bson.RawValue) *big.Float {
	x := new(big.Float).SetPrec(256)
	switch v.Type {
	case bson.TypeDecimal128:
		x.SetString(v.Decimal128().String())
	case bson.TypeDouble:
		x.SetFloat64(v.Double())
	default:
		x.SetInt64(v.AsInt64())
	}
	return x
}

// A tally has the aggregates of one value over a few measurements.
type tally struct {
	limit int64 // larger ints count as doubles
	exact bool  // for Squares, or if there are Decimal128

	count                 int64
	min, max              timeseries.Number
	first, last           sample
	ints                  int64
	doubles               float64
	long, double, decimal bool      // the types that occur
	total, squares        big.Float // if exact
}

type sample struct {
	ms int64
	timeseries.Number
}

func (s sample) before(o sample) bool {
	return s.ms < o.ms || s.ms == o.ms && s.Less(o.Number)
}

// add keeps ints and doubles apart, so that each sum is as exact as it can be.
func (t *tally) add(at int64, n timeseries.Number) {
	s := sample{at, n}
	if t.count == 0 || n.Less(t.min) {
		t.min = n
	}
	if t.count == 0 || t.max.Less(n) {
		t.max = n
	}
	if t.count == 0 || s.before(t.first) {
		t.first = s
	}
	if t.count == 0 || t.last.before(s) {
		t.last = s
	}
	t.count++
	switch v := n.Raw(); v.Type {
	case bson.TypeDecimal128:
		t.decimal = true
	case bson.TypeDouble:
		t.doubles, t.double = t.doubles+v.Double(), true
	default:
		if i := v.AsInt64(); i > t.limit || i < -t.limit {
			t.doubles, t.double = t.doubles+float64(i), true
		} else {
			t.ints, t.long = t.ints+i, t.long || v.Type == bson.TypeInt64
		}
	}
	if t.exact {
		x := exact(n.Raw())
		t.total.Add(&t.total, x)
		t.squares.Add(&t.squares, x.Mul(x, x))
	}
}

// sum has the type that the server's own sum would have: an int from ints, a double from ints and doubles,
// a Decimal128 as soon as there is a Decimal128. With digits it is always a Decimal128.
func (t *tally) sum(digits bool) timeseries.Number {
	switch {
	case digits || t.decimal:
		return decimal(&t.total)
	case t.double:
		return timeseries.NumberOf(value.Double(t.doubles + float64(t.ints)))
	case t.long || t.ints > math.MaxInt32 || t.ints < math.MinInt32:
		return timeseries.NumberOf(value.Int64(t.ints))
	}
	return timeseries.NumberOf(value.Int32(int32(t.ints)))
}

// decimal rounds to a Decimal128.
func decimal(x *big.Float) timeseries.Number {
	if d, err := bson.ParseDecimal128(x.Text('g', 34)); err == nil {
		return timeseries.NumberOf(value.Decimal(d))
	}
	// Beyond the exponents.
	mantissa, exponent, _ := strings.Cut(x.Text('e', 33), "e")
	digits, _ := new(big.Int).SetString(strings.Replace(mantissa, ".", "", 1), 10)
	n, _ := strconv.Atoi(exponent)
	return timeseries.NumberOf(value.Decimal(number.Rounded(digits, n-33)))
}
