package timeseries

import (
	"encoding/json"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Number is an int32, int64, double or Decimal128 as the server stores it. The zero Number means that the
// number is missing.
type Number struct{ raw bson.RawValue }

// NumberOf returns the number in a BSON value, or the zero Number if the value is not a number.
func NumberOf(v bson.RawValue) Number {
	if !v.IsNumber() {
		return Number{}
	}
	return Number{v}
}

// Raw returns the number as a BSON value, or the zero RawValue for the zero Number.
func (n Number) Raw() bson.RawValue { return n.raw }

// IsZero reports whether the number is missing.
func (n Number) IsZero() bool { return n.raw.Type == 0 }

// Float64 returns the nearest double, or NaN for the zero Number.
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

// String returns the number in digits, or "" for the zero Number.
func (n Number) String() string {
	if n.IsZero() {
		return ""
	}
	return value.Text(n.raw)
}

// MarshalJSON writes the number with all its digits, and null for the zero Number, NaN and infinities.
func (n Number) MarshalJSON() ([]byte, error) {
	switch {
	case value.Number(n.raw) == nil:
		return []byte("null"), nil
	case n.raw.Type == bson.TypeDouble:
		return json.Marshal(n.raw.Double())
	}
	return []byte(n.String()), nil
}

// Less compares the exact values, whatever the types. It is false if one of the numbers is not finite.
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
