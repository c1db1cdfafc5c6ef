package series

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// A shape moves a flat struct to and from columns without BSON, with the same result as the driver's
// encoding, which takes ten times as long. Reads use the addresses of fields, because reflection takes a
// sixth more of the client's time.
type shape struct {
	size   uintptr
	time   field
	fields []field
	needed []field // the fields that a Value without Count needs
}

type field struct {
	i    int
	at   uintptr // the offset in the struct
	name string
	kind reflect.Kind // Struct is a time.Time
	omit bool
}

// shapeOf returns the shape of M, nil if M has to go through BSON: because it is not a struct, because a
// field is not a number, string, boolean or time, or because options of the driver change its encoding.
func shapeOf[M any](c *core) *shape {
	t := reflect.TypeFor[M]()
	if t.Kind() != reflect.Struct || c.frame.Codec != (codec.Codec{}) {
		return nil
	}
	stored := c.frame.Codec.Struct(t)
	if stored == nil || stored.Inline != nil {
		return nil
	}
	s, timed := &shape{size: t.Size()}, false
	for _, f := range stored.Fields {
		if len(f.Index) > 1 || f.Flags != "" && f.Flags != "omitempty" || checkName(f.Name) != nil || !plain(f.Type) {
			return nil
		}
		out := field{i: f.Index[0], at: t.Field(f.Index[0]).Offset, name: f.Name, kind: f.Type.Kind(), omit: f.Flags == "omitempty"}
		if f.Name == c.opts.TimeField && out.kind == reflect.Struct && !out.omit {
			s.time, timed = out, true
			continue
		}
		s.fields = append(s.fields, out)
		if c.needed[f.Name] {
			s.needed = append(s.needed, out)
		}
	}
	if !timed {
		return nil
	}
	return s
}

// plain reports whether a type is a number, string, boolean or time that the driver encodes as such.
func plain(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return true
	}
	if encodesItself(t) || strings.HasPrefix(t.PkgPath(), "go.mongodb.org/") || t == reflect.TypeFor[json.Number]() {
		return false
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64, reflect.String:
		return true
	}
	return false
}

// lacks returns the name of a needed field that is not a finite number, "" if there is no such field.
func (s *shape) lacks(m reflect.Value) string {
	for _, f := range s.needed {
		x := 0.0
		switch f.kind {
		case reflect.Float64, reflect.Float32:
			x = m.Field(f.i).Float()
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			x = float64(m.Field(f.i).Int())
		default:
			return f.name
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return f.name
		}
	}
	return ""
}

// encodesItself reports whether a type has methods for its encoding, which the driver calls.
func encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler](), reflect.TypeFor[bson.Unmarshaler](),
		reflect.TypeFor[bson.ValueUnmarshaler](), reflect.TypeFor[bson.Zeroer]()}, reflect.PointerTo(t).Implements)
}

// textBytes is the size of the strings in a struct, the only fields whose size is not bounded.
func (s *shape) textBytes(m reflect.Value) (size int) {
	for _, f := range s.fields {
		if f.kind == reflect.String {
			size += m.Field(f.i).Len()
		}
	}
	return size
}

// date returns the time in a field of an addressable struct.
func (f *field) date(m reflect.Value) time.Time { return *m.Field(f.i).Addr().Interface().(*time.Time) }

// put sets the last row of a table from a struct and returns its size.
func (s *shape) put(t *pack.Table, m reflect.Value) (size int) {
	for _, f := range s.fields {
		size += 16
		switch f.kind {
		case reflect.Float32, reflect.Float64:
			if x := m.Field(f.i).Float(); !f.omit || x != 0 {
				t.Float(t.Col(f.name, pack.Double), x)
			}
		case reflect.Struct:
			if x := f.date(m); !f.omit || !x.IsZero() {
				t.Int(t.Col(f.name, pack.Date), x.UnixMilli())
			}
		case reflect.Bool:
			if x := m.Field(f.i).Bool(); !f.omit || x {
				t.Set(f.name, value.New(x))
			}
		case reflect.String:
			x := m.Field(f.i).String()
			if size += len(x); !f.omit || x != "" {
				t.Set(f.name, value.New(x))
			}
		default:
			x, kind := m.Field(f.i).Int(), pack.Int32
			if f.kind == reflect.Int64 || x < math.MinInt32 || x > math.MaxInt32 {
				kind = pack.Int64
			}
			if !f.omit || x != 0 {
				t.Int(t.Col(f.name, kind), x)
			}
		}
	}
	return size
}

// fill sets n consecutive zero structs from the rows of a table, from row first on. It returns false if a
// value does not have the type of its field, so that the driver has to decode.
func (s *shape) fill(t *pack.Table, first, n int, out unsafe.Pointer) bool {
	for i, ms := range t.Times[first : first+n] {
		*is[time.Time](unsafe.Add(out, uintptr(i)*s.size+s.time.at)) = time.UnixMilli(ms).UTC()
	}
	for _, c := range t.Cols {
		for _, f := range s.fields {
			if f.name != c.Name {
				continue
			}
			from, to := c.Between(first, first+n)
			if from == to {
				continue
			}
			cells := cells{c, from, to, f.kind, unsafe.Add(out, f.at), s.size, first}
			if !cells.fill() {
				return false
			}
		}
	}
	return true
}

// cells are one field in consecutive structs, and the values of a column that belong into it. Not every struct has
// a value.
type cells struct {
	col      *pack.Col
	from, to int // the values
	kind     reflect.Kind
	at       unsafe.Pointer // the field in the struct of row first
	size     uintptr        // of a struct
	first    int
}

// of returns the address of the field for value i.
func (c *cells) of(i int) unsafe.Pointer {
	return unsafe.Add(c.at, uintptr(c.col.Row(i)-c.first)*c.size)
}

func is[T any](at unsafe.Pointer) *T { return (*T)(at) }

// fill returns false if a value does not fit the field.
func (c *cells) fill() bool {
	switch c.col.Kind {
	case pack.Double:
		return c.doubles()
	case pack.Int32, pack.Int64:
		return c.integers()
	case pack.Date:
		return c.dates()
	}
	return c.values()
}

func (c *cells) doubles() bool {
	switch {
	case c.kind == reflect.Float32:
		return c.narrow()
	case c.kind != reflect.Float64:
		return false
	case c.col.Rows == nil: // every struct has a value
		for i, x := range c.col.Floats[c.from:c.to] {
			*is[float64](unsafe.Add(c.at, uintptr(i)*c.size)) = x
		}
		return true
	}
	for i := c.from; i < c.to; i++ {
		*is[float64](c.of(i)) = c.col.Floats[i]
	}
	return true
}

// narrow is doubles for a float32, which not every double fits.
func (c *cells) narrow() bool {
	for i := c.from; i < c.to; i++ {
		wide := c.col.Floats[i]
		x := float32(wide)
		if float64(x) != wide && x == x { // NaN does not equal itself
			return false
		}
		*is[float32](c.of(i)) = x
	}
	return true
}

func (c *cells) integers() bool {
	switch {
	case c.kind == reflect.Float64:
		for i := c.from; i < c.to; i++ {
			*is[float64](c.of(i)) = float64(c.col.Ints[i])
		}
		return true
	case c.kind < reflect.Int || c.kind > reflect.Int64:
		return false
	}
	for i := c.from; i < c.to; i++ {
		if !setInt(c.kind, c.of(i), c.col.Ints[i]) {
			return false
		}
	}
	return true
}

// setInt sets an integer of a kind; it returns false if x does not fit.
func setInt(kind reflect.Kind, at unsafe.Pointer, x int64) bool {
	switch kind {
	case reflect.Int8:
		*is[int8](at) = int8(x)
		return int64(int8(x)) == x
	case reflect.Int16:
		*is[int16](at) = int16(x)
		return int64(int16(x)) == x
	case reflect.Int32:
		*is[int32](at) = int32(x)
		return int64(int32(x)) == x
	case reflect.Int:
		*is[int](at) = int(x)
		return int64(int(x)) == x
	}
	*is[int64](at) = x
	return true
}

func (c *cells) dates() bool {
	if c.kind != reflect.Struct {
		return false
	}
	for i := c.from; i < c.to; i++ {
		*is[time.Time](c.of(i)) = time.UnixMilli(c.col.Ints[i]).UTC()
	}
	return true
}

// values are strings and booleans.
func (c *cells) values() bool {
	switch c.kind {
	case reflect.String:
		return each(c, bson.RawValue.StringValueOK)
	case reflect.Bool:
		return each(c, bson.RawValue.BooleanOK)
	}
	return false
}

// each decodes each value of a column's dictionary once. It returns false if one has another type.
func each[T any](c *cells, as func(bson.RawValue) (T, bool)) bool {
	dict := make([]T, len(c.col.Dict))
	for i, raw := range c.col.Dict {
		x, ok := as(raw)
		if !ok {
			return false
		}
		dict[i] = x
	}
	for i := c.from; i < c.to; i++ {
		*is[T](c.of(i)) = dict[c.col.Ints[i]]
	}
	return true
}
