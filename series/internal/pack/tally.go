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

// small bounds numbers of which 4096 can be added as int64, and whose squares as 128
// bits. It also is the bound up to which a decimal has one double.
const small = 1e15

// ints adds xs × 10^-places.
func (t *Tally) ints(xs []int64, places int, parts Parts) {
	t.Count += int64(len(xs))
	if parts&(Sum|Squares) == 0 {
		return
	}
	for part := range slices.Chunk(xs, 4096) {
		var sum int64
		var high, low, carry uint64
		for _, x := range part {
			if x <= -small || x >= small {
				big := big.NewInt(x)
				t.Sum.Add(big, places)
				t.Squares.Add(big.Mul(big, big), 2*places)
				continue
			}
			sum += x
			h, l := bits.Mul64(uint64(max(x, -x)), uint64(max(x, -x)))
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
		t.Sum.AddInt(sum, places)
		t.Squares.Add128(int64(high), low, 2*places)
	}
}

// doubles adds the values from from until before to of a column of doubles.
func (t *Tally) doubles(c *Col, from, to int, parts Parts) {
	floats := c.Floats[from:to]
	places, ints, odd := c.places, []int64(nil), []int(nil)
	if c.scaled() {
		ints = c.Ints[from:to]
	} else {
		places, ints, odd = decimals(floats)
	}
	if len(ints) > 0 {
		t.ints(ints, places, parts)
		t.widen(number.Double(float64(slices.Min(ints))/tens[places]), number.Double(float64(slices.Max(ints))/tens[places]))
	}
	for _, i := range odd {
		f := floats[i]
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		digits, places := number.Shortest(f)
		t.ints([]int64{digits}, places, parts)
		t.widen(number.Double(f), number.Double(f))
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
