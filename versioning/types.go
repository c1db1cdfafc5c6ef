package versioning

import (
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// codesItself reports whether a type, or one inside it, has its own way of encoding or
// decoding, which can make some fields out of others.
func codesItself(t reflect.Type, seen ...reflect.Type) bool {
	if slices.Contains(seen, t) || t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	for _, own := range []reflect.Type{
		reflect.TypeFor[bson.Unmarshaler](), reflect.TypeFor[bson.ValueUnmarshaler](),
		reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler](),
	} {
		if reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return codesItself(t.Elem(), seen...)
	case reflect.Struct:
		for i := range t.NumField() {
			if codesItself(t.Field(i).Type, seen...) {
				return true
			}
		}
	}
	return false
}

// loose reports whether there is a map in a value: in what it encodes to, the order of
// fields is nobody's.
func loose(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map:
		return true
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && loose(v.Elem())
	case reflect.Slice, reflect.Array:
		if d, ok := v.Interface().(bson.D); ok {
			return slices.ContainsFunc(d, func(e bson.E) bool {
				switch e.Value.(type) {
				case nil, string, bool, int32, int64, int, float64, time.Time, bson.ObjectID, bson.DateTime:
					return false // without reflection, which takes longer
				}
				return loose(reflect.ValueOf(e.Value))
			})
		}
		if v.Type().Elem().Kind() < reflect.Array { // numbers
			return false
		}
		for i := range v.Len() {
			if loose(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && loose(v.Field(i)) {
				return true
			}
		}
	}
	return false
}
