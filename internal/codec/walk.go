package codec

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// eachType calls visit with a type and with the types that its values contain: those of elements, of the values of maps and
// of stored fields. It does not go into a type for which visit returns false, and visits none twice.
func eachType(t reflect.Type, visit func(t reflect.Type) (deeper bool)) {
	all := []reflect.Type{t}
	for i := 0; i < len(all); i++ {
		if !visit(all[i]) {
			continue
		}
		for _, inner := range contained(all[i]) {
			if !slices.Contains(all, inner) {
				all = append(all, inner)
			}
		}
	}
}

// contained returns the types directly inside a type.
func contained(t reflect.Type) (inner []reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return []reflect.Type{t.Elem()}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); stored(f) {
				inner = append(inner, f.Type)
			}
		}
	}
	return inner
}

// stored reports whether the driver encodes a field of a struct.
func stored(f reflect.StructField) bool { return f.IsExported() && (Codec{}).tag(f) != "-" }

// encodesItself reports whether the driver encodes a type by a method. It calls a method of the pointer only for a value
// that has an address, which is not known of a type.
func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[bson.Marshaler]()) || t.Implements(reflect.TypeFor[bson.ValueMarshaler]())
}

// at calls visit with the values at a path of a value before it is encoded, until visit returns true, and reports whether it
// did. There may be several, because a path goes into the elements of an array, as for the server. It does not go into a
// type with an encoding of its own.
func (c Codec) at(v reflect.Value, path string, visit func(v reflect.Value) bool) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || path == "" {
		return visit(v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return c.atField(v, path, visit)
	case reflect.Map:
		return !encodesItself(v.Type()) && c.atKey(v, path, visit)
	case reflect.Slice, reflect.Array:
		return !encodesItself(v.Type()) && c.atElements(v, path, visit)
	}
	return false
}

// atField is at for a struct.
func (c Codec) atField(v reflect.Value, path string, visit func(v reflect.Value) bool) bool {
	s, f, below := c.first(v.Type(), path)
	if f != nil {
		inner, err := v.FieldByIndexErr(f.Index)
		return err == nil && c.at(inner, below, visit)
	}
	return s != nil && s.Inline != nil && c.at(v.FieldByIndex(s.Inline.Index), path, visit)
}

// atElements is at for a bson.D or another array.
func (c Codec) atElements(v reflect.Value, path string, visit func(v reflect.Value) bool) bool {
	name, below, _ := strings.Cut(path, ".")
	if d, ok := asD(v); ok {
		for _, e := range d {
			if e.Key == name && c.at(reflect.ValueOf(e.Value), below, visit) {
				return true
			}
		}
		return false
	}
	for i := range v.Len() {
		if c.at(v.Index(i), path, visit) || strconv.Itoa(i) == name && c.at(v.Index(i), below, visit) {
			return true
		}
	}
	return false
}

// atKey is at for a map.
func (c Codec) atKey(m reflect.Value, path string, visit func(v reflect.Value) bool) bool {
	name, below, _ := strings.Cut(path, ".")
	if t := m.Type().Key(); c.keysAreTexts(t) {
		return c.at(m.MapIndex(reflect.ValueOf(name).Convert(t)), below, visit)
	}
	for all := m.MapRange(); all.Next(); { // with a function as its body, visit would be allocated
		if c.key(all.Key()) == name && c.at(all.Value(), below, visit) {
			return true
		}
	}
	return false
}

// key is the name of the field that a key of a map becomes, "" if the driver refuses it.
func (c Codec) key(v reflect.Value) string {
	if c.keysAreTexts(v.Type()) {
		return v.String()
	}
	one := reflect.MakeMap(reflect.MapOf(v.Type(), reflect.TypeFor[bool]()))
	one.SetMapIndex(v, reflect.ValueOf(true))
	document, err := c.document(one.Interface())
	if err != nil {
		return ""
	}
	return document.Index(0).Key()
}

// keysAreTexts reports whether the driver takes the keys of a map, of this type, for the names of fields as they are.
func (c Codec) keysAreTexts(key reflect.Type) bool {
	return key.Kind() == reflect.String && (c.BSON == nil || !c.BSON.StringifyMapKeysWithFmt)
}

// asD is a bson.D, or a value of a type that the driver writes as one.
func asD(v reflect.Value) (d bson.D, ok bool) {
	if d, ok := v.Interface().(bson.D); ok || v.Kind() != reflect.Slice || !v.Type().ConvertibleTo(reflect.TypeFor[bson.D]()) {
		return d, ok
	}
	return v.Convert(reflect.TypeFor[bson.D]()).Interface().(bson.D), true
}

// Time returns the time at a path of a value before it is encoded, because milliseconds cannot tell some times apart.
// ok is false if no time.Time is there, or if the way there is not known.
func (c Codec) Time(v any, path string) (t time.Time, ok bool) {
	c.at(reflect.ValueOf(v), path, func(at reflect.Value) bool {
		if at.IsValid() {
			t, ok = at.Interface().(time.Time)
		}
		return true
	})
	return t, ok
}
