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
func decodesItself(t reflect.Type, seen []reflect.Type) bool {
	if slices.Contains(seen, t) || t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	for _, own := range []reflect.Type{reflect.TypeFor[bson.Unmarshaler](), reflect.TypeFor[bson.ValueUnmarshaler]()} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return decodesItself(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if decodesItself(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// loose reports whether there is a map in a value, below the top of the document: in
// what it encodes to, the order of fields is nobody's.
func loose(v reflect.Value, top bool) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && loose(v.Elem(), top)
	case reflect.Map:
		if !top {
			return true
		}
		for _, inner := range v.Seq2() {
			if loose(inner, false) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if d, ok := v.Interface().(bson.D); ok {
			return slices.ContainsFunc(d, func(e bson.E) bool {
				switch e.Value.(type) {
				case nil, string, bool, int32, int64, int, float64, time.Time, bson.ObjectID, bson.DateTime:
					return false
				}
				return loose(reflect.ValueOf(e.Value), false)
			})
		}
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
			for i := range v.Len() {
				if loose(v.Index(i), false) {
					return true
				}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && loose(v.Field(i), false) {
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
		out := make(bson.D, 0, len(*all)+len(changed))
		for _, e := range *all {
			if i := slices.IndexFunc(changed, func(c bson.E) bool { return c.Key == e.Key }); i >= 0 {
				e = changed[i]
				changed = slices.Delete(changed, i, i+1)
			}
			out = append(out, e)
		}
		*all = append(out, changed...)
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
	}
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return true
}
