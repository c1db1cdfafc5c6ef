package series

import (
	"math"
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/pack"
)

// A shape is how a flat struct is written to and read from columns without BSON, as
// the driver would write and read it with BSON, which takes ten times as long.
type shape struct {
	time   int // the field that holds the time
	fields []field
}

type field struct {
	index int
	name  string
	kind  reflect.Kind // Struct is a time.Time
	omit  bool
}

// shapeOf is the shape of M, nil if it has to go through BSON: it is no struct, has
// fields of other types than numbers, strings, booleans and times, or options of the
// driver change how it is encoded.
func shapeOf[M any](c *store) *shape {
	t := reflect.TypeFor[M]()
	if t.Kind() != reflect.Struct || c.codec != (codec.Codec{}) || encodesItself(t) {
		return nil
	}
	s := &shape{time: -1}
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("bson")
		if f.Anonymous || !tagged && !strings.Contains(string(f.Tag), ":") && f.Tag != "" {
			return nil
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, flags, _ := strings.Cut(tag, ",")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		out := field{index: i, name: name, kind: f.Type.Kind(), omit: flags == "omitempty"}
		if flags != "" && !out.omit || names[name] || checkName(name) != nil {
			return nil
		}
		names[name] = true
		switch {
		case f.Type == reflect.TypeFor[time.Time]():
			if name == c.opts.TimeField {
				if out.omit {
					return nil
				}
				s.time = i
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
	}
	if s.time < 0 {
		return nil
	}
	return s
}

func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, own := range []reflect.Type{reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler](), reflect.TypeFor[bson.Unmarshaler](),
		reflect.TypeFor[bson.ValueUnmarshaler](), reflect.TypeFor[bson.Zeroer]()} {
		if p.Implements(own) && t != reflect.TypeFor[time.Time]() {
			return true
		}
	}
	return false
}

// measurement is what add takes of *m: with a shape the pointer, so that its fields can
// be read in place.
func (c *store) measurement(m any) any {
	if c.shape != nil {
		return m
	}
	return reflect.ValueOf(m).Elem().Interface()
}

func timeOf(v reflect.Value) time.Time { return *v.Addr().Interface().(*time.Time) }

// at is the time of a struct.
func (s *shape) at(v reflect.Value) time.Time { return timeOf(v.Field(s.time)) }

// text is the bytes of the strings, the only fields that have no bound.
func (s *shape) text(v reflect.Value) (size int) {
	for _, f := range s.fields {
		if f.kind == reflect.String {
			size += v.Field(f.index).Len()
		}
	}
	return size
}

// put appends a struct to a table, of which it is the last row. It returns its size.
func (s *shape) put(t *pack.Table, v reflect.Value) (size int) {
	size = 16
	for _, f := range s.fields {
		v := v.Field(f.index)
		if f.omit && v.IsZero() {
			continue
		}
		size += 16
		switch f.kind {
		case reflect.Float32, reflect.Float64:
			t.Float(t.Col(f.name, pack.Double), v.Float())
		case reflect.Int:
			if i := v.Int(); i < math.MinInt32 || i > math.MaxInt32 {
				t.Int(t.Col(f.name, pack.Int64), i)
				continue
			}
			fallthrough
		case reflect.Int8, reflect.Int16, reflect.Int32:
			t.Int(t.Col(f.name, pack.Int32), v.Int())
		case reflect.Int64:
			t.Int(t.Col(f.name, pack.Int64), v.Int())
		case reflect.Struct:
			t.Int(t.Col(f.name, pack.Date), timeOf(v).UnixMilli())
		case reflect.Bool:
			t.Set(f.name, rawValue(v.Bool()))
		default:
			size += v.Len()
			t.Set(f.name, rawValue(v.String()))
		}
	}
	return size
}

// fill sets the structs of a slice, which are zero, from the rows of a table from first
// on; false if the driver has to: a value has not the type of its field.
func (s *shape) fill(t *pack.Table, first int, out reflect.Value) bool {
	end := first + out.Len()
	for i := first; i < end; i++ {
		*out.Index(i - first).Field(s.time).Addr().Interface().(*time.Time) = time.UnixMilli(t.Times[i]).UTC()
	}
	for _, c := range t.Cols {
		for _, f := range s.fields {
			if f.name == c.Name && !f.fill(c, first, end, out) {
				return false
			}
		}
	}
	return true
}

func (f *field) fill(c *pack.Col, first, end int, out reflect.Value) bool {
	from, to := c.Between(first, end)
	at := func(i int) reflect.Value { return out.Index(c.Row(i) - first).Field(f.index) }
	integer := c.Kind == pack.Int32 || c.Kind == pack.Int64
	switch {
	case f.kind == reflect.Float64 && c.Kind == pack.Double:
		for i := from; i < to; i++ {
			at(i).SetFloat(c.Floats[i])
		}
	case f.kind == reflect.Float32 && c.Kind == pack.Double:
		for i := from; i < to; i++ {
			if x := c.Floats[i]; float64(float32(x)) != x {
				return false
			}
			at(i).SetFloat(c.Floats[i])
		}
	case f.kind == reflect.Float64 && integer:
		for i := from; i < to; i++ {
			at(i).SetFloat(float64(c.Ints[i]))
		}
	case f.kind >= reflect.Int && f.kind <= reflect.Int64 && integer:
		for i := from; i < to; i++ {
			v := at(i)
			if v.OverflowInt(c.Ints[i]) {
				return false
			}
			v.SetInt(c.Ints[i])
		}
	case f.kind == reflect.Struct && c.Kind == pack.Date:
		for i := from; i < to; i++ {
			*at(i).Addr().Interface().(*time.Time) = time.UnixMilli(c.Ints[i]).UTC()
		}
	case (f.kind == reflect.String || f.kind == reflect.Bool) && c.Kind == pack.Value:
		// Each different value once.
		dict := make([]reflect.Value, len(c.Dict))
		for i, raw := range c.Dict {
			v := reflect.New(out.Type().Elem().Field(f.index).Type).Elem()
			if text, ok := raw.StringValueOK(); ok && f.kind == reflect.String && raw.Type == bson.TypeString {
				v.SetString(text)
			} else if yes, ok := raw.BooleanOK(); ok && f.kind == reflect.Bool {
				v.SetBool(yes)
			} else {
				return false
			}
			dict[i] = v
		}
		for i := from; i < to; i++ {
			at(i).Set(dict[c.Ints[i]])
		}
	default:
		return from == to
	}
	return true
}
