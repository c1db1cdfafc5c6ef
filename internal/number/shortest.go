package number

import (
	"math"
	"math/big"
	"math/bits"
	"sync/atomic"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// shortest returns a finite double as the shortest decimal that reads back as this double, digits ×
// 10^-places: 0.1 is 0.1. It is Schubfach (R. Giulietti, "The Schubfach way to render doubles"), and takes a
// fifth of the time of printing and reading the double.
func shortest(f float64) (digits int64, places int) {
	b := math.Float64bits(f)
	mantissa, exponent := b&(1<<52-1), int(b>>52&0x7ff)
	if b<<1 == 0 {
		return 0, 0
	}
	c, q := mantissa, -1074
	if exponent > 0 {
		c, q = mantissa|1<<52, exponent-1075
		if q <= 0 && q > -53 && c&(1<<-q-1) == 0 { // an integer
			return signed(c>>-q, b), 0
		}
	}
	odd, closer := c&1, uint64(0) // closer: the double below is half as far as that above
	k := q * 1262611 >> 22        // ⌊log10 2^q⌋
	if mantissa == 0 && exponent > 1 {
		closer = 1
		k = (q*1262611 - 524031) >> 22 // ⌊log10 (¾ 2^q)⌋
	}
	h := q + (-k * 1741647 >> 19) + 1 // q + ⌊log2 10^-k⌋ + 1
	table := powers.Load()
	if table == nil {
		table = makePowers()
	}
	g := table[-k-leastPower]
	low, at, high := odd128(g, (4*c-2+closer)<<h), odd128(g, 4*c<<h), odd128(g, (4*c+2)<<h)
	low, high = low+odd, high-odd
	s := at / 4
	if s >= 10 {
		tens := s / 10
		down, up := low <= 40*tens, 40*tens+40 <= high
		if down != up {
			if up {
				tens++
			}
			return stripped(tens, b, -(k + 1))
		}
	}
	down, up := low <= 4*s, 4*s+4 <= high
	switch middle := 4*s + 2; {
	case down != up:
		if up {
			s++
		}
	case at > middle || at == middle && s&1 != 0:
		s++
	}
	return stripped(s, b, -k)
}

// stripped returns digits without the zeros at their end.
func stripped(digits, bits uint64, places int) (int64, int) {
	for digits%1e8 == 0 {
		digits, places = digits/1e8, places-8
	}
	for digits%10 == 0 {
		digits, places = digits/10, places-1
	}
	return signed(digits, bits), places
}

func signed(digits, bits uint64) int64 {
	if bits>>63 == 1 {
		return -int64(digits)
	}
	return int64(digits)
}

// odd128 returns the upper bits of g × c / 2^128, made odd if any bit below them is set.
func odd128(g [2]uint64, c uint64) uint64 {
	x, _ := bits.Mul64(g[1], c)
	high, low := bits.Mul64(g[0], c)
	low, carry := bits.Add64(low, x, 0)
	high += carry
	if low > 1 {
		high |= 1
	}
	return high
}

const leastPower, mostPower = -292, 324

// powers are the numbers 10^n, for n from leastPower to mostPower, as 128 bits whose first bit is set, rounded
// up.
var powers atomic.Pointer[[mostPower - leastPower + 1][2]uint64]

// makePowers computes powers, which takes half a millisecond.
func makePowers() *[mostPower - leastPower + 1][2]uint64 {
	var out [mostPower - leastPower + 1][2]uint64
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i := range out {
		n := i + leastPower
		x := value.Power(max(n, -n))
		if n < 0 { // 2^s / 10^-n, with 128 bits
			one := new(big.Int).Lsh(big.NewInt(1), uint(127+x.BitLen()))
			x = one.Add(one, new(big.Int).Sub(x, big.NewInt(1))).Quo(one, x)
		}
		if over := x.BitLen() - 128; over > 0 {
			up := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(over)), big.NewInt(1))
			x = new(big.Int).Rsh(up.Add(up, x), uint(over))
		} else {
			x = new(big.Int).Lsh(x, uint(-over))
		}
		out[i] = [2]uint64{new(big.Int).Rsh(x, 64).Uint64(), new(big.Int).And(x, mask).Uint64()}
	}
	powers.Store(&out)
	return &out
}
