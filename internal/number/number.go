// Package number adds decimals exactly, and says how much rounding may change the sums of others.
package number

import (
	"math"
	"math/big"
	"math/bits"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Sum adds decimals without rounding. The zero Sum is 0. It uses 192 bits while they are enough, because
// that is ten times as fast as a big.Int.
type Sum struct {
	digits  int192
	wide    *big.Int // instead of digits, nil while these are enough
	places  int      // behind the point
	special float64  // an infinity or NaN that was added; the sum stays one, as on the server
}

// int192 is an integer in two's complement.
type int192 struct {
	high     int64
	mid, low uint64
}

func (x int192) plus(y int192) (out int192, ok bool) {
	var carry uint64
	out.low, carry = bits.Add64(x.low, y.low, 0)
	out.mid, carry = bits.Add64(x.mid, y.mid, carry)
	out.high = x.high + y.high + int64(carry)
	return out, out.high>>62 == out.high>>63 // far from an overflow
}

func (x int192) negated() int192 {
	low, borrow := bits.Sub64(0, x.low, 0)
	mid, borrow := bits.Sub64(0, x.mid, borrow)
	return int192{-x.high - int64(borrow), mid, low}
}

// times returns x × by; ok is false if it may overflow.
func (x int192) times(by uint64) (out int192, ok bool) {
	if x.high < 0 {
		out, ok = x.negated().times(by)
		return out.negated(), ok
	}
	var over, carry, next uint64
	over, out.low = bits.Mul64(x.low, by)
	next, out.mid = bits.Mul64(x.mid, by)
	out.mid, carry = bits.Add64(out.mid, over, 0)
	over, top := bits.Mul64(uint64(x.high), by)
	top, carry = bits.Add64(top, next, carry)
	out.high = int64(top)
	return out, over == 0 && carry == 0 && top < 1<<62
}

// over returns x / by and the remainder; by must not be 0 and x not be negative.
func (x int192) over(by uint64) (out int192, rest uint64) {
	high, rest := uint64(x.high)/by, uint64(x.high)%by
	out.high = int64(high)
	out.mid, rest = bits.Div64(rest, x.mid, by)
	out.low, rest = bits.Div64(rest, x.low, by)
	return out, rest
}

// rounded is value.Quo for x / by; by must not be 0 and x not be negative.
func (x int192) rounded(by uint64) int192 {
	out, rest := x.over(by)
	if rest > by-rest || rest == by-rest && out.low&1 == 1 {
		out, _ = out.plus(int192{low: 1})
	}
	return out
}

// len returns the number of bits of x, which must not be negative.
func (x int192) len() int {
	switch {
	case x.high > 0:
		return 128 + bits.Len64(uint64(x.high))
	case x.mid > 0:
		return 64 + bits.Len64(x.mid)
	}
	return bits.Len64(x.low)
}

// below34 reports whether x, which must not be negative, has at most the 34 digits of a Decimal128.
func (x int192) below34() bool {
	const high, low = 0x1ed09bead87c0, 0x378d8e6400000000 // 10^34
	return x.high == 0 && (x.mid < high || x.mid == high && x.low < low)
}

func (x int192) big() *big.Int {
	out := big.NewInt(x.high)
	out.Lsh(out, 64).Add(out, new(big.Int).SetUint64(x.mid))
	return out.Lsh(out, 64).Add(out, new(big.Int).SetUint64(x.low))
}

// small are the powers of ten that fit a uint64.
var small = func() (out [20]uint64) {
	out[0] = 1
	for i := range out[1:] {
		out[i+1] = 10 * out[i]
	}
	return out
}()

// AddInt adds n × 10^-places.
func (s *Sum) AddInt(n int64, places int) { s.add(int192{n >> 63, uint64(n >> 63), uint64(n)}, places) }

func (s *Sum) add(x int192, places int) {
	if s.wide == nil && s.digits == (int192{}) {
		s.places = places
	}
	if sum, ok := s.plus(x, places); ok {
		s.digits, s.places = sum, max(s.places, places)
		return
	}
	s.Add(x.big(), places)
}

// plus returns the sum as digits at the greater number of places; ok is false if 192 bits are not enough.
func (s *Sum) plus(x int192, places int) (sum int192, ok bool) {
	y, more := s.digits, places-s.places
	if s.wide != nil || more >= len(small) || -more >= len(small) {
		return sum, false
	}
	if ok = true; more > 0 {
		y, ok = y.times(small[more])
	} else if more < 0 {
		x, ok = x.times(small[-more])
	}
	if !ok {
		return sum, false
	}
	return x.plus(y)
}

// Add adds digits × 10^-places.
func (s *Sum) Add(digits *big.Int, places int) {
	if s.wide == nil {
		s.wide = s.digits.big()
	}
	if places > s.places {
		s.wide.Mul(s.wide, value.Power(places-s.places))
		s.places = places
	} else if places < s.places {
		digits = new(big.Int).Mul(digits, value.Power(s.places-places))
	}
	s.wide.Add(s.wide, digits)
}

// AddDecimal adds a Decimal128.
func (s *Sum) AddDecimal(d bson.Decimal128) {
	high, low := d.GetBytes()
	if exponent := int(high>>49&0x3fff) - 6176; high>>61&3 != 3 { // usual digits
		x := int192{0, high & (1<<49 - 1), low}
		if high>>63 == 1 {
			x = x.negated()
		}
		s.add(x, -exponent)
		return
	}
	if digits, exponent, err := d.BigInt(); err == nil {
		s.Add(digits, -exponent)
		return
	}
	if d.IsInf() == 0 {
		s.special = math.NaN()
		return
	}
	s.special += math.Inf(d.IsInf())
}

// Join adds another sum.
func (s *Sum) Join(o *Sum) {
	s.special += o.special
	if o.wide == nil {
		s.add(o.digits, o.places)
	} else {
		s.Add(o.wide, o.places)
	}
}

// trim removes zeros at the end of the fraction.
func (s *Sum) trim() {
	x, negative := s.digits, s.digits.high < 0
	if s.wide != nil {
		return
	}
	if x == (int192{}) {
		s.places = min(s.places, 0)
	}
	if negative {
		x = x.negated()
	}
	for _, zeros := range []int{8, 1} {
		for s.places >= zeros && x.low&(1<<zeros-1) == 0 {
			less, rest := x.over(small[zeros])
			if rest != 0 {
				break
			}
			x, s.places = less, s.places-zeros
		}
	}
	if s.digits = x; negative {
		s.digits = x.negated()
	}
}

// Decimal returns the sum, rounded to the 34 digits and the least exponent of a Decimal128, half to even as the server
// rounds. Beyond its greatest exponent the result is an infinity.
func (s *Sum) Decimal() bson.Decimal128 {
	switch {
	case math.IsNaN(s.special):
		return special("NaN")
	case s.special != 0:
		return infinity(s.special < 0)
	}
	if s.wide == nil && s.places > -6000 && s.places < 6000 {
		x, sign, over := s.digits, uint64(0), 0
		if x.high < 0 {
			x, sign = x.negated(), 1<<63
		}
		if !x.below34() {
			over = max(0, (x.len()-1)*1233>>12-34) // ⌊log10 2^n⌋: one digit less than it has, or two
		}
		for short := x; !short.below34() && over < len(small)-1; { // of one digit too many at least
			over++
			short = x.rounded(small[over])
			if short.below34() {
				x = short
			}
		}
		if x.below34() {
			return bson.NewDecimal128(sign|uint64(6176-s.places+over)<<49|x.mid, x.low)
		}
	}
	digits := s.wide
	if digits == nil {
		digits = s.digits.big()
	}
	return Rounded(digits, -s.places)
}

// Rounded returns digits × 10^exponent as Sum.Decimal does.
func Rounded(digits *big.Int, exponent int) bson.Decimal128 {
	length := len(new(big.Int).Abs(digits).String())
	if over := max(length-34, bson.MinDecimal128Exp-exponent); over > length {
		digits, exponent = new(big.Int), bson.MinDecimal128Exp // less than half of the least
	} else if over > 0 {
		digits = value.Quo(digits, value.Power(over))
		exponent += over
	}
	if d, ok := bson.ParseDecimal128FromBigInt(digits, exponent); ok {
		return d
	}
	return infinity(digits.Sign() < 0)
}

func infinity(negative bool) bson.Decimal128 {
	if negative {
		return special("-Infinity")
	}
	return special("Infinity")
}

func special(name string) bson.Decimal128 {
	d, _ := bson.ParseDecimal128(name)
	return d
}
