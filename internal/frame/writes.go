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

// CheckFields refuses an M that is not a document, and a path that a measurement of type M never has,
// because M is a plain struct without it. paths alternates options and their paths; empty paths are not
// checked.
func CheckFields[M any](c codec.Codec, values []timeseries.Value, paths ...string) error {
	if err := c.CheckDocuments("M", reflect.TypeFor[M]()); err != nil {
		return err
	}
	if c != (codec.Codec{}) { // which may encode M in any way
		return nil
	}
	for i, v := range values {
		paths = append(paths, fmt.Sprintf("Options.Values[%d].Field", i), v.Field)
	}
	for i := 0; i+1 < len(paths); i += 2 {
		if paths[i+1] != "" && !writes(reflect.TypeFor[M](), paths[i+1]) {
			return fault.Invalid("%s: %v has no field %q", paths[i], reflect.TypeFor[M](), paths[i+1])
		}
	}
	return nil
}

// Any reports whether a measurement of type M may have any field.
func Any[M any](c codec.Codec) bool {
	_, all := c.Fields(reflect.TypeFor[M]())
	return !all || c.Registry != nil
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

// EncodesItself reports whether a type has its own codec.
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
