package series

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
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
func shapeOf[M any](c *store) *shape {
	t := reflect.TypeFor[M]()
	if t.Kind() != reflect.Struct || c.Codec != (codec.Codec{}) {
		return nil
	}
	stored := c.Codec.Struct(t)
	if stored == nil || stored.Inline != nil {
		return nil
	}
	s, timed := &shape{size: t.Size()}, false
	for _, f := range stored.Fields {
		i, name := f.Index[0], f.Name
		if len(f.Index) > 1 {
			return nil
		}
		out := field{i: i, at: t.Field(i).Offset, name: name, kind: f.Type.Kind(), omit: f.Flags == "omitempty"}
		if f.Flags != "" && !out.omit || checkName(name) != nil {
			return nil
		}
		switch {
		case f.Type == reflect.TypeFor[time.Time]():
			if name == c.opts.TimeField {
				if out.omit {
					return nil
				}
				s.time, timed = out, true
				continue
			}
		case encodesItself(f.Type) || strings.HasPrefix(f.Type.PkgPath(), "go.mongodb.org/"):
			return nil
		default:
			switch out.kind {
			case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64, reflect.String:
			default:
				return nil
			}
		}
		s.fields = append(s.fields, out)
		for _, v := range c.opts.Values {
			if v.Field == name && v.Count == "" {
				s.needed = append(s.needed, out)
			}
		}
	}
	if !timed {
		return nil
	}
	return s
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

// measurement converts *m for Add: with a shape it is the pointer m, because Add reads the fields in place.
func (c *store) measurement(m any) any {
	if c.shape != nil {
		return m
	}
	return reflect.ValueOf(m).Elem().Interface()
}

// text is the number of bytes of the strings in a struct, the only fields whose size is not bounded.
func (s *shape) text(m reflect.Value) (size int) {
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
				t.Set(f.name, rawValue(x))
			}
		case reflect.String:
			x := m.Field(f.i).String()
			if size += len(x); !f.omit || x != "" {
				t.Set(f.name, rawValue(x))
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

func is[T any](m unsafe.Pointer, at uintptr) *T { return (*T)(unsafe.Add(m, at)) }

// setInt sets an integer field; it returns false if x does not fit.
func (f *field) setInt(m unsafe.Pointer, x int64) bool {
	switch f.kind {
	case reflect.Int8:
		*is[int8](m, f.at) = int8(x)
		return int64(int8(x)) == x
	case reflect.Int16:
		*is[int16](m, f.at) = int16(x)
		return int64(int16(x)) == x
	case reflect.Int32:
		*is[int32](m, f.at) = int32(x)
		return int64(int32(x)) == x
	case reflect.Int:
		*is[int](m, f.at) = int(x)
		return int64(int(x)) == x
	}
	*is[int64](m, f.at) = x
	return true
}

// fill sets n consecutive zero structs from the rows of a table, from row first on. It returns false if a
// value does not have the type of its field, so that the driver has to decode.
func (s *shape) fill(t *pack.Table, first, n int, out unsafe.Pointer) bool {
	for i, ms := range t.Times[first : first+n] {
		*is[time.Time](out, uintptr(i)*s.size+s.time.at) = time.UnixMilli(ms).UTC()
	}
	for _, c := range t.Cols {
		for _, f := range s.fields {
			if f.name == c.Name && !f.fill(c, first, n, s.size, out) {
				return false
			}
		}
	}
	return true
}

func (f *field) fill(c *pack.Col, first, n int, size uintptr, out unsafe.Pointer) bool {
	from, to := c.Between(first, first+n)
	row := func(i int) unsafe.Pointer { return unsafe.Add(out, uintptr(c.Row(i)-first)*size) }
	integer := c.Kind == pack.Int32 || c.Kind == pack.Int64
	switch {
	case f.kind == reflect.Float64 && c.Kind == pack.Double && c.Rows == nil:
		for i, x := range c.Floats[from:to] {
			*is[float64](out, uintptr(i)*size+f.at) = x
		}
	case f.kind == reflect.Float64 && c.Kind == pack.Double:
		for i := from; i < to; i++ {
			*is[float64](row(i), f.at) = c.Floats[i]
		}
	case f.kind == reflect.Float32 && c.Kind == pack.Double:
		for i := from; i < to; i++ {
			x := float32(c.Floats[i])
			if *is[float32](row(i), f.at) = x; float64(x) != c.Floats[i] && x == x { // NaN does not equal itself
				return false
			}
		}
	case f.kind == reflect.Float64 && integer:
		for i := from; i < to; i++ {
			*is[float64](row(i), f.at) = float64(c.Ints[i])
		}
	case f.kind >= reflect.Int && f.kind <= reflect.Int64 && integer:
		for i := from; i < to; i++ {
			if !f.setInt(row(i), c.Ints[i]) {
				return false
			}
		}
	case f.kind == reflect.Struct && c.Kind == pack.Date:
		for i := from; i < to; i++ {
			*is[time.Time](row(i), f.at) = time.UnixMilli(c.Ints[i]).UTC()
		}
	case f.kind == reflect.String && c.Kind == pack.Value:
		return each(c, from, to, bson.RawValue.StringValueOK, func(i int, x string) { *is[string](row(i), f.at) = x })
	case f.kind == reflect.Bool && c.Kind == pack.Value:
		return each(c, from, to, bson.RawValue.BooleanOK, func(i int, x bool) { *is[bool](row(i), f.at) = x })
	default:
		return from == to
	}
	return true
}

// each decodes each value of a column's dictionary once, and calls set for each row.
func each[T any](c *pack.Col, from, to int, as func(bson.RawValue) (T, bool), set func(i int, x T)) bool {
	dict := make([]T, len(c.Dict))
	for i, raw := range c.Dict {
		x, ok := as(raw)
		if !ok {
			return false
		}
		dict[i] = x
	}
	for i := from; i < to; i++ {
		set(i, dict[c.Ints[i]])
	}
	return true
}

func rawValue(v any) bson.RawValue {
	kind, data, _ := bson.MarshalValue(v)
	return bson.RawValue{Type: kind, Value: data}
}
