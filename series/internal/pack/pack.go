package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// ErrDamaged says that a binary is not as this package wrote it, or was written for another place.
var ErrDamaged = fault.New("a damaged block", fault.ErrMalformed)

// A binary consists of its version, the number of rows, segments, and a checksum over these and the place.
// The place is part of the checksum to detect a block that was moved to another series or window. Every
// version ends with that checksum, so that damage is never mistaken for a newer version:
//
//	segment   name (its length, then its bytes), kind, rows, data
//	rows      0: all; 1: these, 2: all but these, their number and packed integers
//	data      integers, packed; a double as a scale and packed integers (decimalKind),
//	          or as a shift and its packed bits (bitsKind); values as a dictionary
//	          (see dict.go) and packed places in it
//
// testdata/golden.txt has binaries that every later version must read.
const (
	version     = 3
	timesKind   = 0
	decimalKind = byte(Double)
	bitsKind    = byte(Double) + 1
	checksum    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode encodes the table as one binary, for a place.
func (t *Table) Encode(place string) []byte {
	out := t.times(make([]byte, 0, 64+len(t.Times)*2*(1+len(t.Cols))))
	for _, c := range t.Cols {
		if c.len() > 0 {
			out = c.append(out, len(t.Times))
		}
	}
	return binary.LittleEndian.AppendUint32(out, sum(out, place))
}

func sum(body []byte, place string) uint32 {
	return crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, []byte(place))
}

func (t *Table) times(out []byte) []byte {
	out = binary.AppendUvarint(append(out, version), uint64(len(t.Times)))
	return appendInts(append(out, 0, timesKind, 0), t.Times)
}

// append writes a column of a table of n rows. Doubles that are not decimals become a segment of their own.
func (c *Col) append(out []byte, n int) []byte {
	segment := func(kind byte, rows []int32, of int) {
		out = binary.AppendUvarint(out, uint64(len(c.Name)))
		out = appendRows(append(append(out, c.Name...), kind), rows, of, n)
	}
	switch c.Kind {
	case Double:
		places, ints, odd := c.places, c.Ints, []int(nil)
		if !c.scaled() {
			if places, ints, odd = decimals(c.Floats); len(odd) == 0 {
				c.Ints, c.places = ints, places // for a Tally
			}
		}
		if len(ints) > 0 {
			segment(decimalKind, c.without(odd), len(ints))
			out = appendInts(append(out, byte(places)), ints)
		}
		if len(odd) > 0 {
			rows := make([]int32, len(odd))
			bits := make([]float64, len(odd))
			for i, at := range odd {
				rows[i], bits[i] = int32(c.Row(at)), c.Floats[at]
			}
			segment(bitsKind, rows, len(odd))
			out = appendBitsOf(out, bits)
		}
	case Value:
		segment(byte(Value), c.Rows, len(c.Ints))
		out = c.appendValues(out)
	default:
		segment(byte(c.Kind), c.Rows, len(c.Ints))
		out = appendInts(out, c.Ints)
	}
	return out
}

// without returns the rows of all values except some.
func (c *Col) without(odd []int) []int32 {
	if len(odd) == 0 {
		return c.Rows
	}
	var out []int32
	for i := range c.len() {
		if len(odd) > 0 && odd[0] == i {
			odd = odd[1:]
			continue
		}
		out = append(out, int32(c.Row(i)))
	}
	return out
}

// appendRows writes which of n rows the values of a segment belong to; nil means the first ones.
func appendRows(out []byte, rows []int32, values, n int) []byte {
	if values == n {
		return append(out, 0)
	}
	if rows == nil {
		rows = count(values)
	}
	mode, listed := byte(1), make([]int64, 0, min(values, n-values))
	if values <= n-values {
		for _, row := range rows {
			listed = append(listed, int64(row))
		}
	} else {
		mode = 2
		next := int32(0)
		for _, row := range append(rows[:len(rows):len(rows)], int32(n)) {
			for ; next < row; next++ {
				listed = append(listed, int64(next))
			}
			next = row + 1
		}
	}
	return appendInts(binary.AppendUvarint(append(out, mode), uint64(len(listed))), listed)
}

// tens are the powers of ten that scale doubles. Each is exact as a double.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// decimals scales doubles to integers: ints has those that ints / 10^places gives back exactly, odd the
// indexes of the others. It chooses the places that make the total size smallest. If too many would be odd,
// all are.
func decimals(floats []float64) (places int, ints []int64, odd []int) {
	var needs [len(tens) + 1]int // how many doubles need so many places; the last entry: how many are not decimals
	at, misses := 0, 0
	for i, f := range floats {
		at = placesOf(f, min(at, len(tens)-1))
		needs[at]++
		if at == len(tens) {
			if misses++; misses > 8 && misses*2 > i {
				break
			}
		}
	}
	cost, over := math.Inf(1), len(floats)
	for p := range tens {
		over -= needs[p]
		if c := float64(len(floats))*3.3*float64(p) + float64(over)*64; c < cost {
			places, cost = p, c
		}
	}
	ints = make([]int64, 0, len(floats))
	for i, f := range floats {
		if m := math.RoundToEven(f * tens[places]); fits(f, m, places) {
			ints = append(ints, int64(m))
		} else if odd = append(odd, i); len(odd)*4 > len(floats) {
			odd = make([]int, len(floats))
			for i := range odd {
				odd[i] = i
			}
			return 0, nil, odd
		}
	}
	return places, ints, odd
}

func fits(f, m float64, places int) bool {
	return m/tens[places] == f && m < small && m > -small && (m != 0 || !math.Signbit(f))
}

// placesOf is the number of decimal places that a double needs, len(tens) if it is not a decimal. It
// searches from a guess.
func placesOf(f float64, guess int) int {
	at := func(p int) bool { return fits(f, math.RoundToEven(f*tens[p]), p) }
	if at(guess) {
		for guess > 0 && at(guess-1) {
			guess--
		}
		return guess
	}
	for p := guess + 1; p < len(tens); p++ {
		if at(p) {
			return p
		}
	}
	for p := range guess {
		if at(p) {
			return p
		}
	}
	return len(tens)
}

// appendBitsOf packs the bits of doubles as integers in the same order as the doubles, without the trailing
// zeros that all of them share. So one packer serves all columns. Gorilla's XOR is smaller for one of eight
// kinds of curves, noise around 0, by 3 percent.
func appendBitsOf(out []byte, floats []float64) []byte {
	shift := 63
	for _, f := range floats {
		shift = min(shift, bits.TrailingZeros64(math.Float64bits(f)))
	}
	ints := make([]int64, len(floats))
	for i, f := range floats {
		ints[i] = mirror(int64(math.Float64bits(f))>>shift, shift)
	}
	return appendInts(append(out, byte(shift)), ints)
}

// mirror reverses the order of negative doubles, whose bits count down; applied twice it restores them.
func mirror(x int64, shift int) int64 {
	if x < 0 {
		x ^= math.MaxInt64 >> shift
	}
	return x
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// open checks a binary and reads its number of rows. held is what the binaries before it hold.
func open(data []byte, place string, held int) (r *reader, rows int, err error) {
	if len(data) < 2+checksum {
		return nil, 0, damaged("%d bytes", len(data))
	}
	body := data[:len(data)-checksum]
	if sum(body, place) != binary.LittleEndian.Uint32(data[len(body):]) {
		return nil, 0, damaged("the checksum is wrong")
	}
	if body[0] > version {
		return nil, 0, fmt.Errorf("%w: the block has version %d, and this program reads up to %d", fault.ErrNewer, body[0], version)
	}
	if body[0] != version {
		return nil, 0, damaged("version %d is not known", body[0])
	}
	r = &reader{data: body[1:], held: held}
	n := r.uvarint()
	if r.bad || n > math.MaxInt32 {
		return nil, 0, damaged("%d rows", n)
	}
	return r, int(n), nil
}

// Add appends the rows of a binary that Encode made for a place. After an error the table is not usable. Binaries that
// hold more than MostHeld are damaged.
func (t *Table) Add(data []byte, place string) error {
	r, n, err := open(data, place, t.held)
	if err != nil {
		return err
	}
	base, timed := len(t.Times), false
	for len(r.data) > 0 && !r.bad {
		name := string(r.take(r.length()))
		kind := r.byte()
		rows := r.rows(n)
		switch {
		case r.bad:
		case kind == timesKind && !timed && name == "" && rows == nil:
			t.Times = r.ints(t.Times, n)
			timed = true
		case !timed || name == "" || strings.Contains(name, "\x00"):
			r.bad = true
		default:
			r.column(t, name, kind, rows, n, base)
		}
	}
	if r.held > MostHeld {
		return damaged("its %d rows hold more than any document of this package", n)
	}
	if r.bad || !timed {
		return damaged("its %d rows cannot be read", n)
	}
	t.held = r.held
	return nil
}

func (r *reader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.bad = true
		return 0
	}
	return int(n)
}

// rows reads which of n rows the values of a segment belong to; nil means all.
func (r *reader) rows(n int) []int32 {
	mode := r.byte()
	if mode == 0 || r.bad {
		return nil
	}
	listed := r.ints(nil, r.size())
	last := int64(-1)
	for _, row := range listed {
		if row <= last || row >= int64(n) {
			r.bad = true
		}
		last = row
	}
	if r.bad || mode > 2 || mode == 2 && n > len(r.data)*run+len(listed) {
		r.bad = true
		return nil
	}
	if mode == 2 {
		r.claim((n - len(listed)) / 2) // of half the size
	}
	if r.bad {
		return nil
	}
	if mode == 1 {
		out := make([]int32, 0, len(listed))
		for _, row := range listed {
			out = append(out, int32(row))
		}
		return out
	}
	out := make([]int32, 0, n-len(listed))
	for row := range n {
		if len(listed) > 0 && listed[0] == int64(row) {
			listed = listed[1:]
			continue
		}
		out = append(out, int32(row))
	}
	return out
}

// column reads the data of a segment and appends it to the column of its name and kind.
func (r *reader) column(t *Table, name string, kind byte, rows []int32, n, base int) {
	as, size := Kind(kind), n
	if kind == bitsKind {
		as = Double
	}
	if as < Int32 || as > Value {
		r.bad = true
		return
	}
	if rows != nil {
		size = len(rows)
	}
	c := t.Col(name, as)
	before := c.len()
	switch kind {
	case decimalKind, bitsKind:
		r.doubles(c, kind == bitsKind, size)
	case byte(Value):
		r.values(c, size)
	default:
		c.Ints = r.ints(c.Ints, size)
	}
	if r.bad || c.Rows == nil && rows == nil && before == base {
		return
	}
	if c.Rows == nil {
		c.Rows = count(before)
	}
	for i := range size {
		row := i
		if rows != nil {
			row = int(rows[i])
		}
		c.Rows = append(c.Rows, int32(base+row))
	}
	if before > 0 && size > 0 && c.Rows[before] <= c.Rows[before-1] { // two segments of one column
		r.bad = !c.sort()
	}
}

// doubles reads the data of a segment of doubles.
func (r *reader) doubles(c *Col, bits bool, size int) {
	by := int(r.byte())
	ints := r.ints(nil, size)
	if by > 63 || !bits && by >= len(tens) {
		r.bad = true
	}
	if r.bad {
		return
	}
	if !bits && (len(c.Floats) == 0 || c.scaled() && c.places == by) {
		c.Ints, c.places = append(c.Ints, ints...), by
	} else {
		c.Ints = nil
	}
	c.Floats = slices.Grow(c.Floats, len(ints))
	for _, x := range ints {
		f := math.Float64frombits(uint64(mirror(x, by) << by))
		if !bits {
			f = float64(x) / tens[by]
		}
		c.Floats = append(c.Floats, f)
	}
}

// values reads the data of a segment of values, which go to the column's dictionary.
func (r *reader) values(c *Col, size int) {
	dict := r.dict()
	if r.bad {
		return
	}
	places := make([]int64, len(dict))
	for i, v := range dict {
		places[i] = c.place(v)
	}
	start := len(c.Ints)
	c.Ints = r.places(c.Ints, size, len(places))
	for i, x := range c.Ints[start:] {
		if x < 0 || x >= int64(len(places)) {
			r.bad = true
			return
		}
		c.Ints[start+i] = places[x]
	}
}

// sort orders the values by their rows, which is needed after doubles came in two segments. It returns
// false if a row has two values.
func (c *Col) sort() bool {
	order := count(len(c.Rows))
	slices.SortFunc(order, func(a, b int32) int { return int(c.Rows[a] - c.Rows[b]) })
	c.Rows = taken(c.Rows, order)
	c.take(order)
	for i := range c.Rows[1:] {
		if c.Rows[i] == c.Rows[i+1] {
			return false
		}
	}
	return true
}
