package bucket

import (
	"math"
	"math/big"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A number is an int32, int64, float64 or bson.Decimal128, as it is stored. Sums
// follow the server: int32 becomes int64 when it must, ints and doubles make
// doubles, anything and a Decimal128 a Decimal128.

// finite returns the value as a number; false for anything else, NaN and
// infinities included.
func finite(value bson.RawValue) (any, bool) {
	switch value.Type {
	case bson.TypeInt32:
		return value.Int32(), true
	case bson.TypeInt64:
		return value.Int64(), true
	case bson.TypeDouble:
		f := value.Double()
		return f, !math.IsNaN(f) && !math.IsInf(f, 0)
	case bson.TypeDecimal128:
		d := value.Decimal128()
		return d, !d.IsNaN() && d.IsInf() == 0
	}
	return nil, false
}

func add(a, b any) any {
	x, xInt := integer(a)
	y, yInt := integer(b)
	switch {
	case xInt && yInt:
		sum := x + y
		if (sum > x) != (y > 0) && y != 0 {
			return float64(x) + float64(y)
		}
		return narrow(sum, a, b)
	case isDecimal(a) || isDecimal(b):
		m, e := decimal(a)
		n, f := decimal(b)
		if f < e {
			m, e, n, f = n, f, m, e
		}
		n = new(big.Int).Mul(n, pow10(f-e))
		return toDecimal(n.Add(n, m), e)
	}
	return float(a) + float(b)
}

// square is a double or a Decimal128: squares of ints would soon overflow.
func square(a any) any {
	if isDecimal(a) {
		m, e := decimal(a)
		return toDecimal(m.Mul(m, m), 2*e)
	}
	return float(a) * float(a)
}

// summand is the number as a sum takes it: an int of which a full bucket could
// overflow an int64, which the server's $inc refuses, counts as a double.
func summand(a any, limit int64) any {
	if x, ok := integer(a); ok && (x > limit || x < -limit) {
		return float64(x)
	}
	return a
}

// less compares by value, exactly, whatever the types.
func less(a, b any) bool {
	x, xInt := integer(a)
	y, yInt := integer(b)
	if xInt && yInt {
		return x < y
	}
	if !isDecimal(a) && !isDecimal(b) && !xInt && !yInt {
		return float(a) < float(b)
	}
	return rational(a).Cmp(rational(b)) < 0
}

// narrow keeps a result of two int32 an int32 where it fits.
func narrow(n int64, a, b any) any {
	_, a32 := a.(int32)
	_, b32 := b.(int32)
	if a32 && b32 && n >= math.MinInt32 && n <= math.MaxInt32 {
		return int32(n)
	}
	return n
}

func integer(a any) (int64, bool) {
	switch a := a.(type) {
	case int32:
		return int64(a), true
	case int64:
		return a, true
	}
	return 0, false
}

func isDecimal(a any) bool {
	_, ok := a.(bson.Decimal128)
	return ok
}

func float(a any) float64 {
	switch a := a.(type) {
	case int32:
		return float64(a)
	case int64:
		return float64(a)
	case float64:
		return a
	case bson.Decimal128:
		f, err := strconv.ParseFloat(a.String(), 64)
		if err == nil || math.IsInf(f, 0) {
			return f
		}
	}
	return math.NaN()
}

// decimal is the number as m × 10^e; doubles count with their 15 digits, as on
// the server.
func decimal(a any) (m *big.Int, e int) {
	if n, ok := integer(a); ok {
		return big.NewInt(n), 0
	}
	d, ok := a.(bson.Decimal128)
	if !ok {
		var err error
		if d, err = bson.ParseDecimal128(strconv.FormatFloat(float(a), 'E', 14, 64)); err != nil {
			return new(big.Int), 0
		}
	}
	m, e, err := d.BigInt()
	if err != nil {
		return new(big.Int), 0
	}
	return m, e
}

func rational(a any) *big.Rat {
	if f, ok := a.(float64); ok {
		return new(big.Rat).SetFloat64(f)
	}
	m, e := decimal(a)
	if e >= 0 {
		return new(big.Rat).SetInt(new(big.Int).Mul(m, pow10(e)))
	}
	return new(big.Rat).SetFrac(m, pow10(-e))
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// toDecimal rounds m × 10^e to 34 digits, half to even.
func toDecimal(m *big.Int, e int) any {
	const digits = 34
	if extra := len(new(big.Int).Abs(m).String()) - digits; extra > 0 {
		unit := pow10(extra)
		half := new(big.Int).Quo(unit, big.NewInt(2))
		rest := new(big.Int)
		negative := m.Sign() < 0
		m, rest = new(big.Int).QuoRem(new(big.Int).Abs(m), unit, rest)
		if c := rest.Cmp(half); c > 0 || c == 0 && m.Bit(0) == 1 {
			m.Add(m, big.NewInt(1))
		}
		if negative {
			m.Neg(m)
		}
		e += extra
	}
	if d, ok := bson.ParseDecimal128FromBigInt(m, e); ok {
		return d
	}
	f, _ := new(big.Rat).SetInt(m).Float64() // beyond Decimal128's exponents
	return f * math.Pow10(e)
}
