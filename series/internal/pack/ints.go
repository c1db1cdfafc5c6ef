package pack

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Integers are packed in runs of 128. A run is coded in the cheapest of three ways: as the zigzagged
// differences of neighbours, which suits steps and slow walks; or as the distances above a line, with the
// slope of the previous run or of this run, which suits clocks that jitter and noisy curves, because
// distances contain the noise once and differences twice. The results are written with the number of bits
// each that makes the run smallest; numbers that need more bits follow as exceptions.
//
//	slope       a varint, before many runs only: that of them all, with which the first begins
//	head        1 byte: bits each (0 to 63) | 64 with exceptions | 128 above a line; 255: 8 bytes for each follow
//	base, slope 2 varints, above a line only, relative to where the last run ended
//	rest        the bits, up to a whole byte
//	exceptions  their number, then for each its place and its higher bits
const (
	run      = 128
	many     = 2 * run
	most     = 63 // bits each
	patched  = 64
	along    = 128
	raw      = most | patched | along // 8 bytes each: no other run has this head
	fraction = 8                      // fractional bits of the slope
	steepest = 1 << 50
)

// A course is the state that the next run is predicted from.
type course struct{ last, slope int64 }

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// on is the line's value at step i. Overflow wraps in the same way when packing and unpacking.
func on(base, slope int64, i int) int64 { return base + (int64(i)*slope)>>fraction }

// appendInts packs xs.
func appendInts(out []byte, xs []int64) []byte {
	var at course
	if len(xs) > many {
		at.slope = fit(xs)
		out = binary.AppendVarint(out, at.slope)
	}
	for part := range slices.Chunk(xs, run) {
		out = at.appendRun(out, part)
	}
	return out
}

func (c *course) appendRun(out []byte, xs []int64) []byte {
	var ways [2][run]uint64
	rest, other, prev := ways[0][:len(xs)], ways[1][:len(xs)], c.last
	for i, x := range xs {
		rest[i] = zigzag(x - prev)
		prev = x
	}
	width, cost := widthOf(rest)
	head, next := 0, course{prev, c.slope}
	var line, longer [2 * binary.MaxVarintLen64]byte
	lined := 0
	for i, slope := range [2]int64{c.slope, fit(xs)} {
		if i > 0 && slope == c.slope {
			break
		}
		base := int64(math.MaxInt64)
		for i, x := range xs {
			base = min(base, x-on(0, slope, i))
		}
		for i, x := range xs {
			other[i] = uint64(x - on(base, slope, i))
		}
		w, bits := widthOf(other)
		n := binary.PutVarint(longer[:], base-on(c.last, c.slope, 1))
		n += binary.PutVarint(longer[n:], slope-c.slope)
		if bits+8*n < cost {
			width, cost, head, next = w, bits+8*n, along, course{on(base, slope, len(xs)-1), slope}
			rest, other, line, lined = other, rest, longer, n
		}
	}
	if cost > 64*len(xs)+8 || head == along && width == most {
		*c = course{prev, c.slope}
		out = append(out, raw)
		for _, x := range xs {
			out = binary.LittleEndian.AppendUint64(out, uint64(x))
		}
		return out
	}
	*c = next
	var exceptions []byte
	n := 0
	for i, r := range rest {
		if high := r >> width; high != 0 {
			exceptions = binary.AppendUvarint(append(exceptions, byte(i)), high)
			rest[i] = r & (1<<width - 1)
			n++
		}
	}
	if n > 0 {
		head |= patched
	}
	out = append(append(out, byte(head|width)), line[:lined]...)
	out = appendBits(out, rest, width)
	if n > 0 {
		out = append(append(out, byte(n)), exceptions...)
	}
	return out
}

// fit is the slope of the least-squares line through xs; 0 if xs is too short or too steep.
func fit(xs []int64) int64 {
	if len(xs) < 4 {
		return 0
	}
	middle, product := float64(len(xs)-1)/2, 0.0
	for i, x := range xs {
		product += (float64(i) - middle) * float64(x-xs[0])
	}
	n := float64(len(xs))
	rise := product * 12 / (n * (n*n - 1))
	if math.Abs(rise) > steepest>>fraction {
		return 0
	}
	return int64(math.RoundToEven(rise * (1 << fraction)))
}

// widthOf returns the number of bits per integer that makes a run smallest, and the bits that the run then
// takes.
func widthOf(xs []uint64) (width, cost int) {
	var lengths [65]int
	longest := 0
	for _, x := range xs {
		n := bits.Len64(x)
		lengths[n]++
		longest = max(longest, n)
	}
	cost = math.MaxInt
	for w := min(longest, most); w >= 0; w-- {
		all, over := len(xs)*w, 0
		for n := w + 1; n <= longest; n++ {
			all += lengths[n] * (8 + (n-w+6)/7*8)
			over += lengths[n]
		}
		if over > 0 {
			all += 8
		}
		if all < cost {
			width, cost = w, all
		}
		if over > len(xs)/2 {
			break
		}
	}
	return width, cost + 8
}

// appendBits writes the lowest bits of xs one after another, lowest first.
func appendBits(out []byte, xs []uint64, width int) []byte {
	var held uint64
	n := 0
	for _, x := range xs {
		held |= x << n
		if n += width; n >= 64 {
			out = binary.LittleEndian.AppendUint64(out, held)
			n -= 64
			held = x >> (width - n)
		}
	}
	for ; n > 0; n -= 8 {
		out = append(out, byte(held))
		held >>= 8
	}
	return out
}

// A reader parses a block. Once data is missing or wrong it is bad, and returns zeros.
type reader struct {
	data []byte
	bad  bool
	held int // of MostHeld
}

// claim is called before memory for n values is allocated.
func (r *reader) claim(n int) {
	if r.held += n; r.held > MostHeld {
		r.bad, r.data = true, nil
	}
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.bad, r.data = true, nil
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.data)
	if n <= 0 {
		n = -1
	}
	r.take(n)
	return x
}

func (r *reader) varint() int64 {
	x, n := binary.Varint(r.data)
	if n <= 0 {
		n = -1
	}
	r.take(n)
	return x
}

// size reads a number of integers and checks that so many can follow: each run takes at least a byte.
func (r *reader) size() int {
	n := r.uvarint()
	if n > uint64(len(r.data))*run {
		r.bad = true
		return 0
	}
	return int(n)
}

// ints appends n packed integers to xs.
func (r *reader) ints(xs []int64, n int) []int64 {
	if n < 0 || n > len(r.data)*run {
		r.bad = true
		return xs
	}
	if r.claim(n); r.bad {
		return xs
	}
	xs = slices.Grow(xs, n)
	var at course
	if n > many {
		at.slope = r.varint()
	}
	for n > 0 && !r.bad {
		k := min(n, run)
		xs = xs[:len(xs)+k]
		at.readRun(r, xs[len(xs)-k:])
		n -= k
	}
	return xs
}

func (c *course) readRun(r *reader, xs []int64) {
	head := int(r.byte())
	if head == raw {
		packed := r.take(8 * len(xs))
		if r.bad {
			return
		}
		for i := range xs {
			xs[i] = int64(binary.LittleEndian.Uint64(packed[8*i:]))
		}
		c.last = xs[len(xs)-1]
		return
	}
	width := head & most
	var base, slope int64
	if head&along != 0 {
		base = r.varint() + on(c.last, c.slope, 1)
		slope = r.varint() + c.slope
	}
	// A copy with spare bytes at its end, so that every integer can be read as 9 bytes.
	var packed [run*8 + 9]byte
	copy(packed[:], r.take((len(xs)*width+7)/8))
	var residuals [run]uint64
	mask := uint64(1)<<width - 1
	for i, bit := 0, 0; i < len(xs); i, bit = i+1, bit+width {
		from := packed[bit>>3:]
		_ = from[8]
		residuals[i] = (binary.LittleEndian.Uint64(from)>>(bit&7) | uint64(from[8])<<(64-bit&7)) & mask
	}
	if head&patched != 0 {
		for range r.byte() {
			i := r.byte()
			high := r.uvarint()
			if int(i) >= len(xs) || r.bad {
				r.bad = true
				return
			}
			residuals[i] |= high << width
		}
	}
	if head&along != 0 {
		for i := range xs {
			xs[i] = on(base, slope, i) + int64(residuals[i])
		}
		*c = course{on(base, slope, len(xs)-1), slope}
		return
	}
	for i := range xs {
		c.last += unzigzag(residuals[i])
		xs[i] = c.last
	}
}
