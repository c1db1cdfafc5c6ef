package number

import (
	"math"
	"math/bits"
)

// Doubles adds the finite numbers of fs to a sum, and their squares to another. With a nil sum it only counts,
// and with nil squares it adds no squares. It returns the number of finite ones, the least and the greatest.
//
// A double counts as a decimal that reads back as this double: the one of up to 15 digits if it exists (there
// are never two), else one of 16 to 18 digits. That need not be the shortest one: finding out whether that has
// 16 or 17 digits takes longer than all the rest.
func Doubles(fs []float64, sum, squares *Sum) (count int64, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	var all [mostPlaces + 1]Adder // by places
	var sums, squared Sum
	for _, f := range fs {
		b := math.Float64bits(f)
		at := b>>52&0x7ff - leastExponent
		if at >= exponents && (math.IsNaN(f) || math.IsInf(f, 0)) {
			continue
		}
		if f < low {
			low = f
		}
		if f > high {
			high = f
		}
		if count++; sum == nil {
			continue
		}
		if at >= exponents {
			digits, places := shortest(f)
			one := Adder{Squares: squares != nil}
			one.Add(digits)
			one.To(&sums, &squared, places)
			continue
		}
		digits, places := scales[at].digits(f, b)
		a := &all[places]
		a.Squares = squares != nil
		a.Add(digits)
	}
	for places := range all {
		all[places].To(&sums, &squared, places)
	}
	if sum == nil {
		return count, low, high
	}
	sums.trim()
	sum.Join(&sums)
	if squares != nil {
		squared.trim()
		squares.Join(&squared)
	}
	return count, low, high
}

// A scale turns the doubles of one exponent into integers of 15 to 16 digits, times 10^2.
type scale struct {
	ten    float64 // exactly a power of ten: a double times that is 2^51 at most
	five   uint64  // the power of five in 10^places
	shift  uint8   // what is left of 10^places with the double's exponent
	places uint8   // behind the point, two more than ten has
}

// The exponents that have a scale, of doubles from 1.5e-8 until before 2^50.
const (
	leastExponent = 1023 - 26
	exponents     = 26 + 50
	mostPlaces    = 24
)

var scales = func() (out [exponents]scale) {
	for i := range out {
		e, ten, s := i+leastExponent-1023, 1.0, scale{five: 25, places: 2}
		for math.Ldexp(ten*10, e+1) <= 1<<51 {
			ten *= 10
			s.five *= 5
			s.places++
		}
		s.ten, s.shift = ten, uint8(52-e-int(s.places))
		out[i] = s
	}
	return out
}()

// digits returns f, whose bits are b, as digits × 10^-places.
func (s *scale) digits(f float64, b uint64) (digits int64, places uint8) {
	// A decimal of up to 15 digits is a whole number here; two roundings move it by at most 3/8.
	const whole = 3 << 51 // below it doubles of this size have no fraction
	near := float64(float64(f*s.ten)+whole) - whole
	high, low := bits.Mul64(b&(1<<52-1)|1<<52, s.five)
	size := int64(high<<(64-s.shift&63)|low>>(s.shift&63)) + int64(low>>((s.shift-1)&63)&1)
	sign := int64(b) >> 63
	digits = (size ^ sign) - sign
	if near/s.ten == f {
		digits = int64(near) * 100
	}
	return digits, s.places
}

// An Adder adds integers, and on request their squares, in 192 bits each.
type Adder struct {
	Squares bool
	n       int
	high    int64 // of the sum
	low     uint64
	square  [3]uint64
}

// Add adds an integer.
func (a *Adder) Add(x int64) {
	var carry uint64
	a.n++
	a.low, carry = bits.Add64(a.low, uint64(x), 0)
	a.high += x>>63 + int64(carry)
	if !a.Squares {
		return
	}
	size := uint64((x ^ x>>63) - x>>63)
	h, l := bits.Mul64(size, size)
	a.square[0], carry = bits.Add64(a.square[0], l, 0)
	a.square[1], carry = bits.Add64(a.square[1], h, carry)
	a.square[2] += carry
}

// To adds the total to a sum, and that of the squares to another sum, × 10^-places.
func (a *Adder) To(sum, squares *Sum, places int) {
	if a.n == 0 {
		return
	}
	sum.add(int192{a.high >> 63, uint64(a.high), a.low}, places)
	if a.Squares {
		squares.add(int192{int64(a.square[2]), a.square[1], a.square[0]}, 2*places)
	}
}
