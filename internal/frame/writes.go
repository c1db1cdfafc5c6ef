package frame

import (
	"fmt"
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// CheckFields refuses a Value whose field a measurement of type M never has: M is a plain struct without it.
func CheckFields[M any](c codec.Codec, values []timeseries.Value) error {
	if c != (codec.Codec{}) { // which may encode M in any way
		return nil
	}
	for i, v := range values {
		if !writes(reflect.TypeFor[M](), v.Field) {
			return fault.Invalid("Options.Values[%d].Field: %v", i, fmt.Errorf("%q is not a field of %v", v.Field, reflect.TypeFor[M]()))
		}
	}
	return nil
}

// writes reports whether the driver may write a path of a value of type t.
func writes(t reflect.Type, path string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || EncodesItself(t) || strings.HasPrefix(t.PkgPath(), "go.mongodb.org/") {
		return true
	}
	name, below, dotted := strings.Cut(path, ".")
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("bson")
		if !tagged && !strings.Contains(string(f.Tag), ":") {
			tag = string(f.Tag)
		}
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		key, flags, _ := strings.Cut(tag, ",")
		if strings.Contains(","+flags+",", ",inline,") {
			if writes(f.Type, path) {
				return true
			}
			continue
		}
		if key == "" {
			key = strings.ToLower(f.Name)
		}
		if key == name && (!dotted || writes(f.Type, below)) {
			return true
		}
	}
	return false
}

// EncodesItself reports a type with a codec of its own.
func EncodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, own := range []reflect.Type{reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler](), reflect.TypeFor[bson.Unmarshaler](),
		reflect.TypeFor[bson.ValueUnmarshaler](), reflect.TypeFor[bson.Zeroer]()} {
		if p.Implements(own) {
			return true
		}
	}
	return false
}
