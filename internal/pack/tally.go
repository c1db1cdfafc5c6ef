package pack

import (
	"math"
	"math/big"
	"math/bits"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/number"
)

// A Tally is the aggregates of the finite numbers of a field. A double counts as the
// shortest decimal that reads back as it, so that the sums, which are decimals, are the
// same in whatever order they are made.
type Tally struct {
	Count        int64
	Min, Max     number.Number
	Sum, Squares number.Sum
}

// Tally is the aggregates of a field over the rows from first until before end.
func (t *Table) Tally(name string, first, end int) *Tally {
	var out Tally
	for _, c := range t.Cols {
		if c.Name != name {
			continue
		}
		from, to := c.Between(first, end)
		switch {
		case from >= to:
		case c.Kind == Int32 || c.Kind == Int64:
			out.ints(c.Ints[from:to], 0)
			out.widen(c.integer(slices.Min(c.Ints[from:to])), c.integer(slices.Max(c.Ints[from:to])))
		case c.Kind == Double:
			out.doubles(c, from, to)
		case c.Kind == Value:
			for _, at := range c.Ints[from:to] {
				if v := c.Dict[at]; v.Type == bson.TypeDecimal128 && !v.Decimal128().IsNaN() && v.Decimal128().IsInf() == 0 {
					out.decimal(v)
				}
			}
		}
	}
	return &out
}

func (c *Col) integer(v int64) number.Number {
	if c.Kind == Int32 {
		return number.Int32(int32(v))
	}
	return number.Int64(v)
}

// widen widens Min and Max by two numbers.
func (t *Tally) widen(low, high number.Number) {
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
	if o.Count > 0 {
		t.widen(o.Min, o.Max)
	}
}

// small bounds numbers of which 4096 can be added as int64, and whose squares as 128
// bits. It also is the bound up to which a decimal has one double.
const small = 1e15

// ints adds xs × 10^-places.
func (t *Tally) ints(xs []int64, places int) {
	t.Count += int64(len(xs))
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
func (t *Tally) doubles(c *Col, from, to int) {
	floats := c.Floats[from:to]
	places, ints, odd := c.places, []int64(nil), []int(nil)
	if c.scaled() {
		ints = c.Ints[from:to]
	} else {
		places, ints, odd = decimals(floats)
	}
	if len(ints) > 0 {
		t.ints(ints, places)
		t.widen(number.Double(float64(slices.Min(ints))/tens[places]), number.Double(float64(slices.Max(ints))/tens[places]))
	}
	for _, i := range odd {
		f := floats[i]
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		digits, places := number.Shortest(f)
		t.ints([]int64{digits}, places)
		t.widen(number.Double(f), number.Double(f))
	}
}

func (t *Tally) decimal(v bson.RawValue) {
	digits, exponent, _ := v.Decimal128().BigInt()
	t.Count++
	t.Sum.Add(digits, -exponent)
	t.Squares.Add(new(big.Int).Mul(digits, digits), -2*exponent)
	t.widen(number.Of(v), number.Of(v))
}
