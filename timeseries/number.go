package timeseries

import (
	"encoding/json"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Number is an int32, int64, double or Decimal128 as the server keeps it. The
// zero Number is none.
type Number struct{ raw bson.RawValue }

// NumberOf is the number in a BSON value, the zero Number if it is none.
func NumberOf(v bson.RawValue) Number {
	if !v.IsNumber() {
		return Number{}
	}
	return Number{v}
}

// Raw is the number as a BSON value; zero for none.
func (n Number) Raw() bson.RawValue { return n.raw }

// IsZero reports whether there is no number.
func (n Number) IsZero() bool { return n.raw.Type == 0 }

// Float64 is the nearest double; NaN for none.
func (n Number) Float64() float64 {
	if x, ok := n.raw.DoubleOK(); ok {
		return x // also an infinite one
	}
	exact := value.Number(n.raw)
	if exact == nil {
		return math.NaN()
	}
	f, _ := exact.Float64()
	return f
}

// String is the number in digits, "" for none.
func (n Number) String() string {
	if n.IsZero() {
		return ""
	}
	return value.Text(n.raw)
}

// MarshalJSON writes the number with all its digits; null for none, NaN and
// infinities.
func (n Number) MarshalJSON() ([]byte, error) {
	switch {
	case value.Number(n.raw) == nil:
		return []byte("null"), nil
	case n.raw.Type == bson.TypeDouble:
		return json.Marshal(n.raw.Double())
	}
	return []byte(n.String()), nil
}

// Less compares by value, exactly, whatever the types; false if one is not finite.
func (n Number) Less(o Number) bool {
	if n.raw.Type == o.raw.Type { // without an allocation
		switch n.raw.Type {
		case bson.TypeDouble:
			return n.raw.Double() < o.raw.Double()
		case bson.TypeInt32, bson.TypeInt64:
			return n.raw.AsInt64() < o.raw.AsInt64()
		}
	}
	x, y := value.Number(n.raw), value.Number(o.raw)
	return x != nil && y != nil && x.Cmp(y) < 0
}
