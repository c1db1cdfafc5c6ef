package pack

import (
	"math"
	"math/big"
	"math/bits"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Tally is the aggregates of the finite numbers of a field. A double counts as the
// shortest decimal that reads back as it, so that the sums, which are decimals, are the
// same in whatever order they are made.
type Tally struct {
	Count        int64
	Sum, Squares number.Sum
	Min, Max     timeseries.Number
	First, Last  Sample
}

// Parts are which aggregates are asked for, beside the count.
type Parts byte

// The parts of a Tally.
const (
	Sum Parts = 1 << iota
	Squares
	Extremes
	Samples
)

// A Sample is a value and its time.
type Sample struct {
	Time  int64
	Value timeseries.Number
}

func (s Sample) before(o Sample) bool {
	return s.Time < o.Time || s.Time == o.Time && s.Value.Less(o.Value)
}

// Most is at least the largest absolute number.
func (t *Tally) Most() float64 {
	most := 0.0
	for _, n := range []timeseries.Number{t.Min, t.Max} {
		if !n.IsZero() {
			most = max(most, math.Abs(n.Float64()))
		}
	}
	return most
}

// Tally is what is asked for of a field over the rows from first until before end.
func (t *Table) Tally(name string, first, end int, parts Parts) *Tally {
	var out Tally
	for _, c := range t.Cols {
		if c.Name != name {
			continue
		}
		from, to := c.Between(first, end)
		switch {
		case from >= to:
		case c.Kind == Int32 || c.Kind == Int64:
			out.ints(c.Ints[from:to], 0, parts)
			out.widen(c.integer(slices.Min(c.Ints[from:to])), c.integer(slices.Max(c.Ints[from:to])))
		case c.Kind == Double:
			out.doubles(c, from, to, parts)
		case c.Kind == Value:
			out.decimals(c, from, to, parts)
		}
		if parts&Samples != 0 {
			out.samples(t, c, from, to)
		}
	}
	return &out
}

func (c *Col) integer(v int64) timeseries.Number {
	if c.Kind == Int32 {
		return number.Int32(int32(v))
	}
	return number.Int64(v)
}

// number is value i, the zero Number if it is not a finite number.
func (c *Col) number(i int) timeseries.Number {
	switch c.Kind {
	case Int32, Int64:
		return c.integer(c.Ints[i])
	case Double:
		if f := c.Floats[i]; !math.IsNaN(f) && !math.IsInf(f, 0) {
			return number.Double(f)
		}
	case Value:
		if v := c.Dict[c.Ints[i]]; v.Type == bson.TypeDecimal128 && !v.Decimal128().IsNaN() && v.Decimal128().IsInf() == 0 {
			return timeseries.NumberOf(v)
		}
	}
	return timeseries.Number{}
}

// samples widens First and Last by the values of a column.
func (t *Tally) samples(table *Table, c *Col, from, to int) {
	for i := from; i < to; i++ {
		ms := table.Times[c.Row(i)]
		if !t.First.Value.IsZero() && ms > t.First.Time && ms < t.Last.Time {
			continue
		}
		s := Sample{ms, c.number(i)}
		if s.Value.IsZero() {
			continue
		}
		if t.First.Value.IsZero() || s.before(t.First) {
			t.First = s
		}
		if t.Last.Value.IsZero() || t.Last.before(s) {
			t.Last = s
		}
	}
}

// widen widens Min and Max by two numbers.
func (t *Tally) widen(low, high timeseries.Number) {
	if t.Min.IsZero() || low.Less(t.Min) {
		t.Min = low
	}
	if t.Max.IsZero() || t.Max.Less(high) {
		t.Max = high
	}
}

// Join adds another tally.
func (t *Tally) Join(o *Tally) {
	t.Count += o.Count
	t.Sum.Join(&o.Sum)
	t.Squares.Join(&o.Squares)
	if !o.Min.IsZero() && (t.Min.IsZero() || o.Min.Less(t.Min)) {
		t.Min = o.Min
	}
	if !o.Max.IsZero() && (t.Max.IsZero() || t.Max.Less(o.Max)) {
		t.Max = o.Max
	}
	if !o.First.Value.IsZero() && (t.First.Value.IsZero() || o.First.before(t.First)) {
		t.First = o.First
	}
	if !o.Last.Value.IsZero() && (t.Last.Value.IsZero() || t.Last.before(o.Last)) {
		t.Last = o.Last
	}
}

// small is the bound up to which a decimal has one double.
const small = 1e15

// ints adds xs × 10^-places.
func (t *Tally) ints(xs []int64, places int, parts Parts) {
	t.Count += int64(len(xs))
	if parts&(Sum|Squares) == 0 {
		return
	}
	all := adder{squares: parts&Squares != 0}
	for _, x := range xs {
		all.add(x)
	}
	all.to(t, places)
}

// An adder adds integers, and if asked for their squares, as 192 bits.
type adder struct {
	squares bool
	n       int
	high    int64 // of the sum
	low     uint64
	square  [3]uint64
}

func (a *adder) add(x int64) {
	var carry uint64
	a.n++
	a.low, carry = bits.Add64(a.low, uint64(x), 0)
	a.high += x>>63 + int64(carry)
	if !a.squares {
		return
	}
	size := uint64(x)
	if x < 0 {
		size = -size
	}
	h, l := bits.Mul64(size, size)
	a.square[0], carry = bits.Add64(a.square[0], l, 0)
	a.square[1], carry = bits.Add64(a.square[1], h, carry)
	a.square[2] += carry
}

// to adds what was added to a tally, × 10^-places.
func (a *adder) to(t *Tally, places int) {
	if a.n > 0 {
		t.Sum.Add128(a.high, a.low, places)
		t.Squares.Add192(a.square, 2*places)
	}
}

// doubles adds the values from from until before to of a column of doubles.
func (t *Tally) doubles(c *Col, from, to int, parts Parts) {
	if c.scaled() {
		ints := c.Ints[from:to]
		t.ints(ints, c.places, parts)
		t.widen(number.Double(float64(slices.Min(ints))/tens[c.places]), number.Double(float64(slices.Max(ints))/tens[c.places]))
		return
	}
	// Most decimals of a column have a similar number of places.
	const window = 16
	var adders [window]adder
	first, count := 0, int64(0)
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range c.Floats[from:to] {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		low, high = min(low, f), max(high, f)
		if count++; parts&(Sum|Squares) == 0 {
			continue
		}
		digits, places := number.Shortest(f)
		if count == 1 {
			first = places - window/2
		}
		if at := places - first; at >= 0 && at < window {
			adders[at].squares = parts&Squares != 0
			adders[at].add(digits)
		} else {
			one := adder{squares: parts&Squares != 0}
			one.add(digits)
			one.to(t, places)
		}
	}
	for i := range adders {
		adders[i].to(t, first+i)
	}
	if t.Count += count; count > 0 {
		t.widen(number.Double(low), number.Double(high))
	}
}

// decimals adds the Decimal128 among the values from from until before to.
func (t *Tally) decimals(c *Col, from, to int, parts Parts) {
	for i := from; i < to; i++ {
		n := c.number(i)
		if n.IsZero() {
			continue
		}
		t.Count++
		t.widen(n, n)
		if parts&(Sum|Squares) != 0 {
			digits, exponent, _ := n.Raw().Decimal128().BigInt()
			t.Sum.Add(digits, -exponent)
			t.Squares.Add(new(big.Int).Mul(digits, digits), -2*exponent)
		}
	}
}
