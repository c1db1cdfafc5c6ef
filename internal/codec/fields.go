package codec

import (
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Fields returns the names under which a struct's fields are stored, and whether a document can have no
// others. A type with its own encoding, a map and a document type have no fixed names, and an inline map
// may add names.
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
			tag = string(f.Tag) // a tag without a key is a bson tag
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

// Lacks reports whether no document of type t has a value at the path, because t is a struct without its
// own codec, without an inline map and without such a field. With a Registry it is false, because the
// fields are not known.
func (c Codec) Lacks(t reflect.Type, path string) bool {
	if c.Registry != nil {
		return false
	}
	names, all := c.Fields(t)
	first, _, _ := strings.Cut(path, ".")
	return all && !slices.Contains(names, first)
}
