// Package number adds decimals exactly.
package number

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Decimal is a Decimal128 as a Number.
func Decimal(d bson.Decimal128) timeseries.Number {
	high, low := d.GetBytes()
	data := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), low)
	return timeseries.NumberOf(bson.RawValue{Type: bson.TypeDecimal128, Value: binary.LittleEndian.AppendUint64(data, high)})
}

// Double is a double as a Number.
func Double(f float64) timeseries.Number {
	return timeseries.NumberOf(bson.RawValue{Type: bson.TypeDouble, Value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))})
}

// Int32 is an int32 as a Number.
func Int32(n int32) timeseries.Number {
	return timeseries.NumberOf(bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))})
}

// Int64 is an int64 as a Number.
func Int64(n int64) timeseries.Number {
	return timeseries.NumberOf(bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))})
}

// A Sum adds decimals without rounding. The zero Sum is 0. It is 128 bits while that is
// enough, which is ten times as fast as what follows.
type Sum struct {
	high   int64
	low    uint64
	wide   *big.Int // instead of them, nil while they are enough
	places int      // behind the point
}

// AddInt adds n × 10^-places.
func (s *Sum) AddInt(n int64, places int) { s.Add128(n>>63, uint64(n), places) }

// Add128 adds an integer of 128 bits × 10^-places.
func (s *Sum) Add128(high int64, low uint64, places int) {
	if s.wide == nil && s.high == 0 && s.low == 0 {
		s.places = places
	}
	if s.wide == nil && s.places == places {
		sum, carry := bits.Add64(s.low, low, 0)
		top := s.high + high + int64(carry)
		if top>>62 == top>>63 { // far from an overflow
			s.high, s.low = top, sum
			return
		}
	}
	s.Add(wide(high, low), places)
}

func wide(high int64, low uint64) *big.Int {
	out := big.NewInt(high)
	return out.Lsh(out, 64).Add(out, new(big.Int).SetUint64(low))
}

// digits is the sum as an integer × 10^-places.
func (s *Sum) digits() *big.Int {
	if s.wide != nil {
		return s.wide
	}
	return wide(s.high, s.low)
}

// Add adds digits × 10^-places.
func (s *Sum) Add(digits *big.Int, places int) {
	s.wide = s.digits()
	if places > s.places {
		s.wide.Mul(s.wide, power(places-s.places))
		s.places = places
	} else if places < s.places {
		digits = new(big.Int).Mul(digits, power(s.places-places))
	}
	s.wide.Add(s.wide, digits)
}

// AddDecimal adds a Decimal128; one that is not finite is left out.
func (s *Sum) AddDecimal(d bson.Decimal128) {
	high, low := d.GetBytes()
	if exponent := int(high>>49&0x3fff) - 6176; high>>61&3 != 3 && high<<15>>15 < 1<<48 { // usual digits
		top, bottom := int64(high<<15>>15), low
		if high>>63 == 1 {
			bottom = -low
			top = -top
			if low != 0 {
				top--
			}
		}
		s.Add128(top, bottom, -exponent)
	} else if digits, exponent, err := d.BigInt(); err == nil {
		s.Add(digits, -exponent)
	}
}

// Join adds another sum.
func (s *Sum) Join(o *Sum) {
	if o.wide == nil {
		s.Add128(o.high, o.low, o.places)
	} else {
		s.Add(o.wide, o.places)
	}
}

// Decimal is the sum, rounded to the 34 digits of a Decimal128 if it has more; beyond
// its exponents 0 or an infinity.
func (s *Sum) Decimal() bson.Decimal128 {
	if s.wide == nil && s.places > -6000 && s.places < 6000 {
		high, low, sign := s.high, s.low, uint64(0)
		if high < 0 {
			low, sign = -low, 1<<63
			high = -high
			if low != 0 {
				high--
			}
		}
		if high < 1<<48 { // 2^112 has 34 digits
			return bson.NewDecimal128(sign|uint64(6176-s.places)<<49|uint64(high), low)
		}
	}
	digits, exponent := new(big.Int).Set(s.digits()), -s.places
	if over := len(new(big.Int).Abs(digits).String()) - 34; over > 0 {
		unit := power(over)
		half := new(big.Int).Quo(unit, big.NewInt(2))
		if digits.Sign() < 0 {
			half.Neg(half)
		}
		digits.Quo(digits.Add(digits, half), unit)
		exponent += over
	}
	if d, ok := bson.ParseDecimal128FromBigInt(digits, exponent); ok {
		return d
	}
	d, err := bson.ParseDecimal128(digits.String() + "E" + strconv.Itoa(exponent))
	switch { // beyond the exponents
	case err == nil:
	case exponent < 0:
		return bson.Decimal128{}
	case digits.Sign() < 0:
		d, _ = bson.ParseDecimal128("-Infinity")
	default:
		d, _ = bson.ParseDecimal128("Infinity")
	}
	return d
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// Shortest is a finite double as the shortest decimal that reads back as it, digits ×
// 10^-places: 0.1 is 0.1.
func Shortest(f float64) (digits int64, places int) {
	var text [32]byte
	out := strconv.AppendFloat(text[:0], f, 'e', -1, 64)
	negative, point := false, false
	for i, c := range out {
		switch {
		case c == '-':
			negative = true
		case c == '.':
			point = true
		case c == 'e':
			exponent, _ := strconv.Atoi(string(out[i+1:]))
			if negative {
				digits = -digits
			}
			return digits, places - exponent
		default:
			digits = digits*10 + int64(c-'0')
			if point {
				places++
			}
		}
	}
	return digits, places
}
