package versioning

import (
	"bytes"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/doc"
)

// A kind is what a save has to know of T.
type kind struct {
	// coded says that T, or something inside it, has its own codec: a value may be shown
	// as another than is stored.
	coded bool
	// whole says that T decodes its documents itself: what it shows in one field may be
	// stored in another.
	whole bool
}

func kindOf(t reflect.Type, registry *bson.Registry) kind {
	return kind{coded: registry != nil || codesItself(t), whole: decodesItself(t, registry)}
}

// decodesItself reports whether T is decoded by other code than the driver's.
func decodesItself(t reflect.Type, registry *bson.Registry) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	if registry == nil {
		return implements(t, reflect.TypeFor[bson.Unmarshaler](), reflect.TypeFor[bson.ValueUnmarshaler]())
	}
	own, err := registry.LookupDecoder(t)
	driver, failed := bson.NewRegistry().LookupDecoder(reflect.TypeFor[struct{}]())
	return err != nil || failed != nil || t.Kind() != reflect.Struct || reflect.TypeOf(own) != reflect.TypeOf(driver)
}

// codesItself reports whether a type, or one inside it, has its own way of encoding or
// decoding.
func codesItself(t reflect.Type, seen ...reflect.Type) bool {
	if slices.Contains(seen, t) || t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	if implements(t, reflect.TypeFor[bson.Unmarshaler](), reflect.TypeFor[bson.ValueUnmarshaler](),
		reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler]()) {
		return true
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return codesItself(t.Elem(), seen...)
	case reflect.Struct:
		own := func(f reflect.StructField) bool { return codesItself(f.Type, seen...) }
		return slices.ContainsFunc(reflect.VisibleFields(t), own)
	}
	return false
}

func implements(t reflect.Type, some ...reflect.Type) bool {
	return slices.ContainsFunc(some, reflect.PointerTo(t).Implements)
}

// isDocument reports whether the driver's registry encodes a type as a document.
func isDocument(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Interface:
		return true
	case reflect.Slice:
		return t == reflect.TypeFor[bson.Raw]() || t.Elem() == reflect.TypeFor[bson.E]()
	}
	return t.Kind() == reflect.Pointer && isDocument(t.Elem())
}

// loose reports whether there is a map in a value: in what it encodes to, the order of
// fields is random.
func loose(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map:
		return true
	case reflect.Pointer, reflect.Interface:
		return loose(v.Elem()) // Elem of nil has no kind
	case reflect.Slice, reflect.Array:
		if d, ok := v.Interface().(bson.D); ok { // ten times as fast, which thousands of fields need
			return slices.ContainsFunc(d, func(e bson.E) bool { return loose(reflect.ValueOf(e.Value)) })
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
			if f := v.Field(i); f.CanInterface() && loose(f) { // it is exported
				return true
			}
		}
	}
	return false
}

// scalars reports whether only values differ that every T without a codec shows as they
// are stored.
func scalars(a, b []doc.Field) bool {
	return slices.EqualFunc(a, b, func(x, y doc.Field) bool {
		return x.Key == y.Key && x.Value.Type == y.Value.Type && scalar(x.Value.Type)
	})
}

func scalar(t bson.Type) bool {
	switch t {
	case bson.TypeString, bson.TypeInt32, bson.TypeInt64, bson.TypeBoolean, bson.TypeObjectID, bson.TypeDateTime:
		return true
	}
	return false
}

// adds reports whether T has made more of a document than is stored: one that decodes itself
// anywhere, another inside of the fields that are stored.
func (k kind) adds(stored, shown []doc.Field) bool {
	if !k.coded {
		return false
	}
	if !k.whole {
		in := doc.In(stored)
		shown = slices.DeleteFunc(slices.Clone(shown), func(f doc.Field) bool { return in.Place(f.Key) < 0 })
	}
	return adds(stored, shown)
}

// adds reports whether a document is shown with more than is stored, at any depth. A zero
// value does not count: a field of a struct shows one where nothing is stored.
func adds(stored, shown []doc.Field) bool {
	in := doc.In(stored)
	for _, f := range shown {
		v := in.Value(f.Key)
		if v.Type == 0 && !zero(f.Value) {
			return true
		}
		if x, y, ok := doc.Inside(v, f.Value); ok && adds(x, y) {
			return true
		}
	}
	return false
}

// zeroTime is the date that the zero time is stored as.
var zeroTime = dateValue(time.Time{})

func zero(v bson.RawValue) bool {
	if x, _, ok := doc.Inside(v, v); ok {
		return !slices.ContainsFunc(x, func(f doc.Field) bool { return !zero(f.Value) })
	}
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return len(v.Value) == 5 // its length, and the end
	case bson.TypeBinary:
		return len(bytes.Trim(v.Value[min(5, len(v.Value)):], "\x00")) == 0
	}
	return doc.Identical(v, zeroTime) || len(bytes.Trim(v.Value, "\x00")) == 0
}
