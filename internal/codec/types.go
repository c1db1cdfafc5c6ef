package codec

import (
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// isDocument reports whether values of t can be documents: structs, maps, bson.D, bson.Raw, interfaces,
// pointers to these, and types with their own encoding.
func isDocument(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t != reflect.TypeFor[time.Time]() && t != reflect.TypeFor[bson.RawValue]()
	case reflect.Map, reflect.Interface:
		return true
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[bson.E]() || t.Elem().Kind() == reflect.Uint8 { // bytes of BSON, as bson.Raw
			return true
		}
	case reflect.Pointer:
		return isDocument(t.Elem())
	}
	for _, own := range []reflect.Type{reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.Unmarshaler]()} {
		if reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return false
}

// CheckDocuments refuses a type parameter that cannot be encoded to or decoded from a document. With a
// Registry it accepts every type.
func (c Codec) CheckDocuments(what string, t reflect.Type) error {
	if c.Registry == nil && !isDocument(t) {
		return fault.Invalid("%s: %v cannot be encoded as a document: use a struct, a map or bson.D, or set Options.Registry", what, t)
	}
	return nil
}

// CheckFilter refuses values that the driver does not accept as a filter; nil selects all.
func CheckFilter(what string, filter any) error {
	if filter == nil {
		return nil
	}
	if v := reflect.ValueOf(filter); v.Kind() == reflect.Pointer && v.IsNil() || !isDocument(v.Type()) {
		return fault.Invalid("%s: %T cannot be a filter: use a document such as bson.D{{Key: \"name\", Value: \"x\"}}", what, filter)
	}
	return nil
}

// CheckUpdate refuses an update that is nil, empty or without operators, with a better error than the driver's. It
// leaves to the driver what only the encoded update shows.
func CheckUpdate(what string, update any) error {
	v := reflect.ValueOf(update)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return fault.Invalid("%s: the update is nil", what)
	}
	if d, ok := v.Interface().(bson.D); v.Kind() == reflect.Map && v.Len() == 0 || ok && len(d) == 0 {
		return fault.Invalid("%s: the update is empty", what)
	}
	plain := func(name string) bool { return !strings.HasPrefix(name, "$") }
	switch u := v.Interface().(type) {
	case bson.D:
		if plain(u[0].Key) {
			return fault.Invalid("%s: the update has fields without an operator such as $set", what)
		}
	case bson.M:
		for name := range u {
			if plain(name) {
				return fault.Invalid("%s: the update has fields without an operator such as $set", what)
			}
		}
	}
	t := reflect.TypeOf(update)
	if list := t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8; !list && !isDocument(t) {
		return fault.Invalid("%s: %T is neither a document of operators nor a pipeline", what, update)
	}
	return nil
}
