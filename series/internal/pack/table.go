// Package pack keeps measurements as columns and packs them into binaries.
//
// A [Table] is filled row by row, or from binaries, sorted by time, and encoded as one
// binary or as one for each field. Every value comes back with its type and all its
// bits.
package pack

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is how a column keeps its values.
type Kind byte

// The kinds. A field whose values have several is several columns.
const (
	Int32 Kind = iota + 1
	Int64
	Date
	Double
	_     // doubles by their bits, in binaries alone
	Value // anything else, each different one once
)

// A Table is measurements: their times, in milliseconds, and their other fields.
type Table struct {
	Times []int64
	Cols  []*Col
	index map[column]*Col // of Cols, once they are many
}

type column struct {
	name string
	kind Kind
}

// few columns are found by looking at each.
const few = 16

// A Col is the values of one field and kind.
type Col struct {
	Name   string
	Kind   Kind
	Rows   []int32 // of which row each value is, ascending; nil: of every row so far
	Ints   []int64 // of Int32, Int64 and Date; for Value indexes of Dict; for Double see scaled
	Floats []float64
	Dict   []bson.RawValue
	index  map[string]int64 // of Dict
	places int
}

// Len is how many values there are.
func (c *Col) Len() int {
	if c.Kind == Double {
		return len(c.Floats)
	}
	return len(c.Ints)
}

// scaled reports that Ints are the doubles × 10^places, as they were in a binary: what
// reads them is saved finding that out.
func (c *Col) scaled() bool { return c.Kind == Double && len(c.Ints) == len(c.Floats) }

// Row is the row of value i.
func (c *Col) Row(i int) int {
	if c.Rows == nil {
		return i
	}
	return int(c.Rows[i])
}

// Between is which values are of the rows from first until before end.
func (c *Col) Between(first, end int) (from, to int) {
	if c.Rows == nil {
		return min(first, c.Len()), min(end, c.Len())
	}
	from, _ = slices.BinarySearch(c.Rows, int32(first))
	to, _ = slices.BinarySearch(c.Rows, int32(end))
	return from, to
}

// Col is the column of this name and kind, a new one if there is none.
func (t *Table) Col(name string, kind Kind) *Col {
	if len(t.Cols) <= few {
		for _, c := range t.Cols {
			if c.Kind == kind && c.Name == name {
				return c
			}
		}
	} else if c := t.index[column{name, kind}]; c != nil {
		return c
	}
	c := &Col{Name: name, Kind: kind}
	t.Cols = append(t.Cols, c)
	switch {
	case t.index != nil:
		t.index[column{name, kind}] = c
	case len(t.Cols) > few:
		t.index = make(map[column]*Col, 2*few)
		for _, c := range t.Cols {
			t.index[column{c.Name, c.Kind}] = c
		}
	}
	return c
}

// in says that the next value is one of this row.
func (c *Col) in(row int) {
	if c.Rows == nil && c.Len() == row {
		return
	}
	c.list()
	c.Rows = append(c.Rows, int32(row))
}

// list lists the rows, which were every one so far.
func (c *Col) list() {
	if c.Rows == nil {
		c.Rows = count(c.Len())
	}
}

func count(n int) []int32 {
	out := make([]int32, n, n+8)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// Int sets the value of an Int32, Int64 or Date column in the last row.
func (t *Table) Int(c *Col, v int64) {
	c.in(len(t.Times) - 1)
	c.Ints = append(c.Ints, v)
}

// Float sets the value of a Double column in the last row.
func (t *Table) Float(c *Col, v float64) {
	c.in(len(t.Times) - 1)
	c.Ints = nil
	c.Floats = append(c.Floats, v)
}

// Set sets any value in the last row.
func (t *Table) Set(name string, v bson.RawValue) {
	switch v.Type {
	case bson.TypeInt32:
		t.Int(t.Col(name, Int32), int64(v.Int32()))
	case bson.TypeInt64:
		t.Int(t.Col(name, Int64), v.Int64())
	case bson.TypeDateTime:
		t.Int(t.Col(name, Date), v.DateTime())
	case bson.TypeDouble:
		t.Float(t.Col(name, Double), v.Double())
	default:
		c := t.Col(name, Value)
		t.Int(c, c.place(v))
	}
}

// place is where the dictionary has a value.
func (c *Col) place(v bson.RawValue) int64 {
	if c.index == nil {
		c.index = map[string]int64{}
		for i, v := range c.Dict {
			c.index[string(append([]byte{byte(v.Type)}, v.Value...))] = int64(i)
		}
	}
	var short [64]byte
	key := append(append(short[:0], byte(v.Type)), v.Value...)
	at, ok := c.index[string(key)]
	if !ok {
		at = int64(len(c.Dict))
		c.index[string(key)] = at
		c.Dict = append(c.Dict, bson.RawValue{Type: v.Type, Value: slices.Clone(v.Value)})
	}
	return at
}

// Sort orders the rows by time; those of one time keep their order.
func (t *Table) Sort() {
	if slices.IsSorted(t.Times) {
		return
	}
	from := count(len(t.Times)) // the row that comes to each place
	slices.SortStableFunc(from, func(a, b int32) int { return cmp.Compare(t.Times[a], t.Times[b]) })
	to := make([]int32, len(from))
	for i, row := range from {
		to[row] = int32(i)
	}
	t.Times = taken(t.Times, from)
	for _, c := range t.Cols {
		order := from
		if c.Rows != nil || c.Len() < len(from) {
			c.list()
			order = count(len(c.Rows))
			slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(to[c.Rows[a]], to[c.Rows[b]]) })
			c.Rows = taken(c.Rows, order)
			for i, row := range c.Rows {
				c.Rows[i] = to[row]
			}
		}
		c.take(order)
	}
}

// take puts the values in another order.
func (c *Col) take(order []int32) {
	if c.Kind != Double {
		c.Ints = taken(c.Ints, order)
		return
	}
	if c.scaled() {
		c.Ints = taken(c.Ints, order)
	}
	c.Floats = taken(c.Floats, order)
}

func taken[T any](all []T, order []int32) []T {
	out := make([]T, len(order))
	for i, from := range order {
		out[i] = all[from]
	}
	return out
}

// Cut is the rows from from until before to, of a table that is sorted.
func (t *Table) Cut(from, to int64) (first, end int) {
	first, _ = slices.BinarySearch(t.Times, from)
	end, _ = slices.BinarySearch(t.Times, to)
	return first, max(first, end)
}

// Delete removes a row.
func (t *Table) Delete(row int) {
	t.Times = slices.Delete(t.Times, row, row+1)
	for _, c := range t.Cols {
		at, there := row, row < c.Len()
		if c.Rows != nil {
			at, there = slices.BinarySearch(c.Rows, int32(row))
		}
		if there && (c.Kind != Double || c.scaled()) {
			c.Ints = slices.Delete(c.Ints, at, at+1)
		}
		if there && c.Kind == Double {
			c.Floats = slices.Delete(c.Floats, at, at+1)
		}
		if there && c.Rows != nil {
			c.Rows = slices.Delete(c.Rows, at, at+1)
		}
		for ; c.Rows != nil && at < len(c.Rows); at++ {
			c.Rows[at]--
		}
	}
}

// Documents are the rows from first until before end as documents: before, which is
// elements as they are encoded, the time, and the fields in the order of the columns. A
// document is valid until the next.
func (t *Table) Documents(time string, before []byte, first, end int) iter.Seq2[int, bson.Raw] {
	return func(yield func(int, bson.Raw) bool) {
		next := make([]int, len(t.Cols)) // value of each column
		for i, c := range t.Cols {
			next[i], _ = c.Between(first, end)
		}
		var doc []byte
		for row := first; row < end; row++ {
			doc = append(append(doc[:0], 0, 0, 0, 0), before...)
			doc = head(doc, bson.TypeDateTime, time)
			doc = binary.LittleEndian.AppendUint64(doc, uint64(t.Times[row]))
			for i, c := range t.Cols {
				if next[i] < c.Len() && c.Row(next[i]) == row {
					doc = c.element(doc, next[i])
					next[i]++
				}
			}
			doc = append(doc, 0)
			binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
			if !yield(row, bson.Raw(doc)) {
				return
			}
		}
	}
}

func head(doc []byte, kind bson.Type, name string) []byte {
	return append(append(append(doc, byte(kind)), name...), 0)
}

// element appends value i as a field of a document.
func (c *Col) element(doc []byte, i int) []byte {
	switch c.Kind {
	case Int32:
		return binary.LittleEndian.AppendUint32(head(doc, bson.TypeInt32, c.Name), uint32(c.Ints[i]))
	case Int64:
		return binary.LittleEndian.AppendUint64(head(doc, bson.TypeInt64, c.Name), uint64(c.Ints[i]))
	case Date:
		return binary.LittleEndian.AppendUint64(head(doc, bson.TypeDateTime, c.Name), uint64(c.Ints[i]))
	case Double:
		return binary.LittleEndian.AppendUint64(head(doc, bson.TypeDouble, c.Name), math.Float64bits(c.Floats[i]))
	}
	v := c.Dict[c.Ints[i]]
	return append(head(doc, v.Type, c.Name), v.Value...)
}
