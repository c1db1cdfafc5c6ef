package bucket

import (
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A number is a finite int32, int64, double or Decimal128 as it is stored.
type number struct {
	raw bson.RawValue
	i   int64   // of an int
	f   float64 // of an int or a double
}

// finite reads a number; false for anything else, NaN and infinities included.
func finite(v bson.RawValue) (number, bool) {
	n := number{raw: v}
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		n.i = v.AsInt64()
		n.f = float64(n.i)
	case bson.TypeDouble:
		n.f = v.Double()
		return n, !math.IsNaN(n.f) && !math.IsInf(n.f, 0)
	case bson.TypeDecimal128:
		d := v.Decimal128()
		return n, !d.IsNaN() && d.IsInf() == 0
	default:
		return n, false
	}
	return n, true
}

// less compares by value, exactly, whatever the types.
func (n number) less(o number) bool {
	if n.raw.Type == o.raw.Type {
		switch n.raw.Type {
		case bson.TypeInt32, bson.TypeInt64:
			return n.i < o.i
		case bson.TypeDouble:
			return n.f < o.f
		}
	}
	return value.Number(n.raw).Cmp(value.Number(o.raw)) < 0
}

// exact is the number with more than the 34 digits of a Decimal128.
func (n number) exact() *big.Float {
	x := new(big.Float).SetPrec(256)
	switch n.raw.Type {
	case bson.TypeDecimal128:
		x.SetString(n.raw.Decimal128().String())
	case bson.TypeDouble:
		x.SetFloat64(n.f)
	default:
		x.SetInt64(n.i)
	}
	return x
}

// A tally is what a few measurements add to the aggregates of one value.
type tally struct {
	limit int64 // larger ints count as doubles
	exact bool  // for Moments, or as there are Decimal128

	count                 int32
	min, max              number
	first, last           sample
	ints                  int64
	doubles               float64
	long, double, decimal bool      // the types that are there
	total, squares        big.Float // where exact
}

type sample struct {
	time bson.DateTime
	number
}

func (s sample) document() bson.D {
	return bson.D{{Key: timeKey, Value: s.time}, {Key: valueKey, Value: s.raw}}
}

func (s sample) before(o sample) bool {
	return s.time < o.time || s.time == o.time && s.less(o.number)
}

// add keeps ints and doubles apart, so that each sum is as exact as it can be.
func (t *tally) add(at bson.DateTime, n number) {
	s := sample{at, n}
	if t.count == 0 {
		t.min, t.max, t.first, t.last = n, n, s, s
	}
	t.count++
	if n.less(t.min) {
		t.min = n
	}
	if t.max.less(n) {
		t.max = n
	}
	if s.before(t.first) {
		t.first = s
	}
	if t.last.before(s) {
		t.last = s
	}
	switch {
	case n.raw.Type == bson.TypeDecimal128:
		t.decimal = true
	case n.raw.Type == bson.TypeDouble || n.i > t.limit || n.i < -t.limit:
		t.doubles, t.double = t.doubles+n.f, true
	default:
		t.ints, t.long = t.ints+n.i, t.long || n.raw.Type == bson.TypeInt64
	}
	if t.exact {
		x := n.exact()
		t.total.Add(&t.total, x)
		t.squares.Add(&t.squares, x.Mul(x, x))
	}
}

// sum has the type that the server's own would have: ints make ints, ints and doubles a double, anything and
// a Decimal128 a Decimal128.
func (t *tally) sum() any {
	switch {
	case t.decimal:
		return decimal(&t.total)
	case t.double:
		return t.doubles + float64(t.ints)
	case t.long || t.ints > math.MaxInt32 || t.ints < math.MinInt32:
		return t.ints
	}
	return int32(t.ints)
}

// decimal rounds to 34 digits.
func decimal(x *big.Float) bson.Decimal128 {
	d, err := bson.ParseDecimal128(x.Text('g', 34))
	if err != nil { // beyond its exponents
		d, _ = bson.ParseDecimal128("Infinity")
	}
	return d
}
