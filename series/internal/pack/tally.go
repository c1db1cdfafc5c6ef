package pack

import (
	"math"
	"math/big"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Tally has the aggregates of the finite numbers of a field. A double counts as a decimal that converts
// back to the same double (see [number.Doubles]), so that sums do not depend on the order of additions.
type Tally struct {
	Count        int64
	Sum, Squares number.Sum
	Min, Max     timeseries.Number
	First, Last  Sample
}

// Parts are the aggregates to compute, besides the count.
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

// Tally computes parts of a field's tally over the rows from first to before end.
func (t *Table) Tally(name string, first, end int, parts Parts) *Tally {
	var out Tally
	for _, kind := range [...]Kind{Int32, Int64, Double, Value} {
		c := t.find(name, kind)
		if c == nil {
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
		return timeseries.NumberOf(value.Int32(int32(v)))
	}
	return timeseries.NumberOf(value.Int64(v))
}

// number returns value i, the zero Number if it is not a finite number.
func (c *Col) number(i int) timeseries.Number {
	switch c.Kind {
	case Int32, Int64:
		return c.integer(c.Ints[i])
	case Double:
		if f := c.Floats[i]; !math.IsNaN(f) && !math.IsInf(f, 0) {
			return timeseries.NumberOf(value.Double(f))
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

// small is the bound below which each decimal converts to a double and back.
const small = 1e15

// ints adds the numbers xs × 10^-places.
func (t *Tally) ints(xs []int64, places int, parts Parts) {
	t.Count += int64(len(xs))
	if parts&(Sum|Squares) == 0 {
		return
	}
	all := number.Adder{Squares: parts&Squares != 0}
	for _, x := range xs {
		all.Add(x)
	}
	all.To(&t.Sum, &t.Squares, places)
}

// doubles adds the values from from to before to of a column of doubles.
func (t *Tally) doubles(c *Col, from, to int, parts Parts) {
	if c.scaled() {
		ints := c.Ints[from:to]
		t.ints(ints, c.places, parts)
		t.widenDoubles(float64(slices.Min(ints))/tens[c.places], float64(slices.Max(ints))/tens[c.places])
		return
	}
	var sum, squares *number.Sum
	if parts&(Sum|Squares) != 0 {
		sum = &t.Sum
	}
	if parts&Squares != 0 {
		squares = &t.Squares
	}
	count, low, high := number.Doubles(c.Floats[from:to], sum, squares)
	if t.Count += count; count > 0 {
		t.widenDoubles(low, high)
	}
}

func (t *Tally) widenDoubles(low, high float64) {
	t.widen(timeseries.NumberOf(value.Double(low)), timeseries.NumberOf(value.Double(high)))
}

// decimals adds the Decimal128 among the values from from to before to.
func (t *Tally) decimals(c *Col, from, to int, parts Parts) {
	for i := from; i < to; i++ {
		n := c.number(i)
		if n.IsZero() {
			continue
		}
		t.Count++
		t.widen(n, n)
		if parts&(Sum|Squares) == 0 {
			continue
		}
		digits, exponent, _ := n.Raw().Decimal128().BigInt()
		t.Sum.Add(digits, -exponent)
		if parts&Squares != 0 {
			t.Squares.Add(new(big.Int).Mul(digits, digits), -2*exponent)
		}
	}
}
