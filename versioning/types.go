package versioning

import (
	"bytes"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/diff"
)

// A kind is what a save needs to know about T.
type kind struct {
	// coded: T, or a type inside it, has its own codec, so T may show a value otherwise than it is
	// stored.
	coded bool
	// whole: T decodes its documents itself, so a field that T shows may be stored in another
	// field.
	whole bool
	// keeps: T is a keeper.
	keeps bool
}

// A keeper is a T that keeps the fields which it does not have, as schemaversion.Doc. Over encodes it
// with these fields as they are in stored, whatever document it was decoded from.
type keeper interface {
	Over(stored bson.Raw) (bson.Raw, error)
}

func kindOf(t reflect.Type, registry *bson.Registry) kind {
	return kind{coded: registry != nil || codesItself(t), whole: decodesItself(t, registry), keeps: keeps(t)}
}

// decodesItself reports whether code other than the driver's decodes T.
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
	return t.Kind() != reflect.Struct || !(codec.Codec{Registry: registry}).DecodesByFields(t)
}

// codesItself reports whether a type, or a type inside it, has its own codec.
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

func keeps(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return implements(t, reflect.TypeFor[keeper]())
}

func implements(t reflect.Type, some ...reflect.Type) bool {
	return slices.ContainsFunc(some, reflect.PointerTo(t).Implements)
}

// scalars reports whether only values of types differ that every T without a codec shows as they
// are stored.
func scalars(a, b []diff.Field) bool {
	return slices.EqualFunc(a, b, func(x, y diff.Field) bool {
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

// adds reports whether T shows fields that are not stored. If T decodes itself, they count at any
// depth; otherwise only inside stored fields.
func (k kind) adds(stored, shown []diff.Field) bool {
	if !k.coded {
		return false
	}
	if !k.whole {
		in := diff.In(stored)
		shown = slices.DeleteFunc(slices.Clone(shown), func(f diff.Field) bool { return in.Place(f.Key) < 0 })
	}
	return adds(stored, shown)
}

// adds reports whether shown has a field, at any depth, that stored has not. Zero values do not
// count: a struct has them for fields that are not stored.
func adds(stored, shown []diff.Field) bool {
	in := diff.In(stored)
	for _, f := range shown {
		v := in.Value(f.Key)
		if v.Type == 0 && !zero(f.Value) {
			return true
		}
		if x, y, ok := diff.Inside(v, f.Value); ok && adds(x, y) {
			return true
		}
	}
	return false
}

// zeroTime is the zero time as it is stored.
var zeroTime = dateValue(time.Time{})

func zero(v bson.RawValue) bool {
	if x, _, ok := diff.Inside(v, v); ok {
		return !slices.ContainsFunc(x, func(f diff.Field) bool { return !zero(f.Value) })
	}
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return len(v.Value) == 5 // its length and the final zero byte
	case bson.TypeBinary:
		return len(bytes.Trim(v.Value[min(5, len(v.Value)):], "\x00")) == 0
	}
	return diff.Identical(v, zeroTime) || len(bytes.Trim(v.Value, "\x00")) == 0
}
