package versioning

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// decodesItself reports whether a type, or one inside it, has its own way of
// decoding, which can make some fields out of others.
func decodesItself(t reflect.Type, seen ...reflect.Type) bool {
	if slices.Contains(seen, t) || t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[bson.Unmarshaler]()) || p.Implements(reflect.TypeFor[bson.ValueUnmarshaler]()) {
		return true
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return decodesItself(t.Elem(), seen...)
	case reflect.Struct:
		for i := range t.NumField() {
			if decodesItself(t.Field(i).Type, seen...) {
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

// overlay puts the fields that some has over those of a copy of doc; false says that
// it does not know how.
func overlay[T any](doc *T, some T) bool {
	if all, ok := any(doc).(*bson.D); ok {
		changed := any(some).(bson.D)
		out := slices.Clone(*all)
		for _, c := range changed {
			if i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == c.Key }); i >= 0 {
				out[i] = c
			} else {
				out = append(out, c)
			}
		}
		*all = out
		return true
	}
	to, from := reflect.ValueOf(doc).Elem(), reflect.ValueOf(some)
	if to.Kind() != reflect.Struct {
		return false
	}
	for i := range to.NumField() {
		if f := to.Type().Field(i); f.Anonymous || strings.Contains(string(f.Tag), ",inline") {
			return false
		}
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return true
}
