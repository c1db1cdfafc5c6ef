package codec

import (
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Fields are the names under which a struct's fields are stored, and whether these
// are all: a type that encodes itself, a map or a document has none of its own, and an
// inline map may hold others.
func (c Codec) Fields(t reflect.Type) (names []string, all bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[bson.Marshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[bson.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[bson.ValueMarshaler]()) {
		return nil, false
	}
	all = true
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag, tagged := f.Tag.Lookup("bson")
		if !tagged && c.BSON != nil && c.BSON.UseJSONStructTags {
			tag, tagged = f.Tag.Lookup("json")
		}
		if !tagged && !strings.Contains(string(f.Tag), ":") {
			tag = string(f.Tag) // a bare tag is a bson tag
		}
		name, flags, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case slices.Contains(strings.Split(flags, ","), "inline"):
			inner, told := c.Fields(f.Type)
			names, all = append(names, inner...), all && told
		case name == "":
			names = append(names, strings.ToLower(f.Name))
		default:
			names = append(names, name)
		}
	}
	return names, all
}

// Lacks reports that a document of type t has nothing at the path, whatever its value: t is a
// struct without a codec of its own and without an inline map, and has no such field. With a
// Registry nothing is known.
func (c Codec) Lacks(t reflect.Type, path string) bool {
	if c.Registry != nil {
		return false
	}
	names, all := c.Fields(t)
	first, _, _ := strings.Cut(path, ".")
	return all && !slices.Contains(names, first)
}
