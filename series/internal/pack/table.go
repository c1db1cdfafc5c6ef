// Package pack holds measurements as columns and packs them into binaries.
//
// A [Table] is filled row by row or from binaries, can be sorted by time, and is encoded as one binary.
// Every value is read back with its type and all its bits.
package pack

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Kind is how a column stores its values.
type Kind byte

// The kinds. A field with values of several kinds has several columns.
const (
	Int32 Kind = iota + 1
	Int64
	Date
	Double
	_     // doubles by their bits, only in binaries
	Value // anything else, each distinct value once
)

// A Table holds measurements: their times, in milliseconds, and their other fields.
type Table struct {
	Times []int64
	Cols  []*Col
	index map[column]*Col // of Cols, if there are more than few
	held  int             // by the binaries that were added since Begin
}

// MostHeld bounds what the binaries of one document hold, so that those that somebody made by hand cannot take much more
// memory than they have bytes. It counts values, and for each value of a dictionary distinct more, and its bytes by
// eighths. A document of this package holds a quarter of it or less.
const (
	MostHeld = 1 << 24
	distinct = 8
)

// Begin begins a document: the binaries that are added from now on hold at most MostHeld together.
func (t *Table) Begin() { t.held = 0 }

// Holds is what the table holds, as MostHeld counts it.
func (t *Table) Holds() int {
	n := len(t.Times)
	for _, c := range t.Cols {
		n += c.len() + distinct*len(c.Dict)
		for _, v := range c.Dict {
			n += len(v.Value) / 8
		}
	}
	return n
}

type column struct {
	name string
	kind Kind
}

// few is up to how many columns a column is found by a linear search.
const few = 16

// A Col has the values of one field and kind.
type Col struct {
	Name   string
	Kind   Kind
	Rows   []int32 // the row of each value, ascending; nil: every row so far has one
	Ints   []int64 // of Int32, Int64 and Date; for Value indexes of Dict; for Double see scaled
	Floats []float64
	Dict   []bson.RawValue
	index  map[string]int64 // of Dict
	places int
}

// len is the number of values.
func (c *Col) len() int {
	if c.Kind == Double {
		return len(c.Floats)
	}
	return len(c.Ints)
}

// scaled reports whether Ints are the doubles × 10^places, as read from a binary, so that users of the
// column need not scale them again.
func (c *Col) scaled() bool { return c.Kind == Double && len(c.Ints) == len(c.Floats) }

// Row is the row of value i.
func (c *Col) Row(i int) int {
	if c.Rows == nil {
		return i
	}
	return int(c.Rows[i])
}

// Between returns the range of values that belong to the rows from first to before end.
func (c *Col) Between(first, end int) (from, to int) {
	if c.Rows == nil {
		return min(first, c.len()), min(end, c.len())
	}
	from, _ = slices.BinarySearch(c.Rows, int32(first))
	to, _ = slices.BinarySearch(c.Rows, int32(end))
	return from, to
}

// find returns the column of this name and kind, nil if it does not exist.
func (t *Table) find(name string, kind Kind) *Col {
	if len(t.Cols) > few {
		return t.index[column{name, kind}]
	}
	for _, c := range t.Cols {
		if c.Kind == kind && c.Name == name {
			return c
		}
	}
	return nil
}

// Col returns the column of this name and kind, and creates it if it does not exist.
func (t *Table) Col(name string, kind Kind) *Col {
	if c := t.find(name, kind); c != nil {
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

// in records that the next value belongs to this row.
func (c *Col) in(row int) {
	if c.Rows == nil && c.len() == row {
		return
	}
	c.list()
	c.Rows = append(c.Rows, int32(row))
}

// list fills Rows, which was nil because every row so far has a value.
func (c *Col) list() {
	if c.Rows == nil {
		c.Rows = count(c.len())
	}
}

func count(n int) []int32 {
	out := make([]int32, n, n+8)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// Int sets the last row's value in an Int32, Int64 or Date column.
func (t *Table) Int(c *Col, v int64) {
	c.in(len(t.Times) - 1)
	c.Ints = append(c.Ints, v)
}

// Float sets the last row's value in a Double column.
func (t *Table) Float(c *Col, v float64) {
	c.in(len(t.Times) - 1)
	c.Ints = nil
	c.Floats = append(c.Floats, v)
}

// Set sets the last row's value of any type.
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

// place is the index of a value in the dictionary, which gets the value if it lacks it.
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
		c.Dict = append(c.Dict, value.Clone(v))
	}
	return at
}

// Sort sorts the rows by time. Rows of one time keep their order.
func (t *Table) Sort() {
	if slices.IsSorted(t.Times) {
		return
	}
	from := count(len(t.Times)) // the old row at each new place
	slices.SortStableFunc(from, func(a, b int32) int { return cmp.Compare(t.Times[a], t.Times[b]) })
	to := make([]int32, len(from))
	for i, row := range from {
		to[row] = int32(i)
	}
	t.Times = taken(t.Times, from)
	for _, c := range t.Cols {
		order := from
		if c.Rows != nil || c.len() < len(from) {
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

// take reorders the values.
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

// Cut returns the rows at or after from and before to, in a sorted table.
func (t *Table) Cut(from, to int64) (first, end int) {
	first, _ = slices.BinarySearch(t.Times, from)
	end, _ = slices.BinarySearch(t.Times, to)
	return first, max(first, end)
}

// Delete removes a row.
func (t *Table) Delete(row int) {
	t.Times = slices.Delete(t.Times, row, row+1)
	for _, c := range t.Cols {
		at, there := row, row < c.len()
		if c.Rows != nil {
			at, there = slices.BinarySearch(c.Rows, int32(row))
		}
		if there && (c.Kind != Double || c.scaled()) {
			gone := c.Ints[at]
			if c.Ints = slices.Delete(c.Ints, at, at+1); c.Kind == Value {
				c.forget(gone)
			}
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

// forget removes a value from the dictionary if no row has it.
func (c *Col) forget(place int64) {
	if slices.Contains(c.Ints, place) {
		return
	}
	c.Dict, c.index = slices.Delete(c.Dict, int(place), int(place)+1), nil
	for i, at := range c.Ints {
		if at > place {
			c.Ints[i]--
		}
	}
}

// Documents yields the rows from first to before end as documents: the encoded elements in before, then the
// time, then the fields in the order of the columns. A document is valid until the next one is yielded.
func (t *Table) Documents(time string, before []byte, first, end int) iter.Seq2[int, bson.Raw] {
	return func(yield func(int, bson.Raw) bool) {
		next := make([]int, len(t.Cols)) // the next value of each column
		for i, c := range t.Cols {
			next[i], _ = c.Between(first, end)
		}
		var doc []byte
		for row := first; row < end; row++ {
			doc = append(append(doc[:0], 0, 0, 0, 0), before...)
			doc = head(doc, bson.TypeDateTime, time)
			doc = binary.LittleEndian.AppendUint64(doc, uint64(t.Times[row]))
			for i, c := range t.Cols {
				if next[i] < c.len() && c.Row(next[i]) == row {
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
