package codec

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Struct is how the driver stores a struct type. A field of an embedded or named struct with the flag inline is one
// of its own.
type Struct struct {
	Fields []Field
	// Inline is the inline map, which receives what has no field; nil without one.
	Inline *Field
}

// A Field is a stored field of a struct.
type Field struct {
	Name  string
	Type  reflect.Type
	Index []int  // for reflect.Value.FieldByIndex
	Flags string // of its tag, between commas
}

func (f Field) has(flag string) bool { return slices.Contains(strings.Split(f.Flags, ","), flag) }

// structEncoder and structDecoder are the driver's codec of structs.
var (
	structEncoder, _ = byBSON.LookupEncoder(reflect.TypeFor[struct{}]())
	structDecoder, _ = byBSON.LookupDecoder(reflect.TypeFor[struct{}]())
)

// Struct returns how a struct type, or a pointer to one, is stored. It returns nil if that is not known: for another
// type, and for one with a codec of its own, by its methods or in the registry. The caller must not change it.
func (c Codec) Struct(t reflect.Type) *Struct {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if c.Registry != nil {
		return c.describe(t)
	}
	key := described{t, c.BSON != nil && c.BSON.UseJSONStructTags}
	if known, ok := structs.Load(key); ok {
		return known.(*Struct)
	}
	s := c.describe(t)
	structs.Store(key, s)
	return s
}

// described is a struct type, and whether its JSON tags count.
type described struct {
	t    reflect.Type
	json bool
}

var structs sync.Map // of described to *Struct, with the driver's registry

// encodesByFields reports whether the driver encodes a struct type, field by field. It is false for a type with methods of
// its own for that, or an encoder in the registry.
func (c Codec) encodesByFields(t reflect.Type) bool {
	encoder, err := c.registry().LookupEncoder(t)
	return err == nil && reflect.TypeOf(encoder) == reflect.TypeOf(structEncoder)
}

// DecodesByFields reports whether the driver decodes a struct type, field by field, as encodesByFields.
func (c Codec) DecodesByFields(t reflect.Type) bool {
	decoder, err := c.registry().LookupDecoder(t)
	return err == nil && reflect.TypeOf(decoder) == reflect.TypeOf(structDecoder)
}

// describe is Struct without the cache.
func (c Codec) describe(t reflect.Type) *Struct {
	if !c.encodesByFields(t) || !c.DecodesByFields(t) {
		return nil
	}
	s := &Struct{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !c.addField(s, i, f) {
			return nil
		}
	}
	return s
}

// addField adds field i of a type. It returns false if how the type is stored is not known, or the driver refuses it.
func (c Codec) addField(s *Struct, i int, f reflect.StructField) bool {
	tag := c.tag(f)
	if tag == "-" {
		return true
	}
	name, flags, _ := strings.Cut(tag, ",")
	own := Field{Name: cmp.Or(name, strings.ToLower(f.Name)), Type: f.Type, Index: []int{i}, Flags: flags}
	if !own.has("inline") {
		return s.add(own)
	}
	if f.Type.Kind() == reflect.Map {
		s.Inline = &own
		return true
	}
	inner := c.Struct(f.Type)
	if inner == nil {
		return false
	}
	for _, below := range inner.Fields {
		below.Index = append([]int{i}, below.Index...)
		if !s.add(below) {
			return false
		}
	}
	return true
}

// tag is the tag of a field that the driver reads.
func (c Codec) tag(f reflect.StructField) string {
	tag, tagged := f.Tag.Lookup("bson")
	if !tagged && c.BSON != nil && c.BSON.UseJSONStructTags {
		tag, tagged = f.Tag.Lookup("json")
	}
	if !tagged && !strings.Contains(string(f.Tag), ":") {
		tag = string(f.Tag) // a tag without a key is a bson tag
	}
	return tag
}

// add adds a field. Of several with one name the driver takes the one that is inlined least, and refuses the type if
// there are two of these: then add returns false.
func (s *Struct) add(f Field) bool {
	other := s.field(f.Name)
	switch {
	case other == nil:
		s.Fields = append(s.Fields, f)
	case len(f.Index) == len(other.Index):
		return false
	case len(f.Index) < len(other.Index):
		*other = f
	}
	return true
}

// field returns the field with this name, or nil.
func (s *Struct) field(name string) *Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

// Fields returns the names under which a struct's fields are stored, and whether a document can have no
// others. A type with its own encoding, a map and a document type have no fixed names, and an inline map
// may add names.
func (c Codec) Fields(t reflect.Type) (names []string, all bool) {
	s := c.Struct(t)
	if s == nil {
		return nil, false
	}
	for _, f := range s.Fields {
		names = append(names, f.Name)
	}
	return names, s.Inline == nil
}

// Lacks reports whether no document of type t has a value at the path, because a struct on the way has no such field
// and no inline map.
func (c Codec) Lacks(t reflect.Type, path string) bool {
	s, f, below := c.first(t, path)
	if f == nil {
		return s != nil && s.Inline == nil
	}
	return below != "" && c.Lacks(f.Type, below)
}

// first returns the field that a path begins with, and the rest of the path. The struct and the field are nil if
// they are not known.
func (c Codec) first(t reflect.Type, path string) (s *Struct, f *Field, below string) {
	name, below, _ := strings.Cut(path, ".")
	if s = c.Struct(t); s != nil {
		f = s.field(name)
	}
	return s, f, below
}

// CheckKept refuses a type that stores a zero at one of the paths as no field at all, because of omitempty: for the
// package that reads the field there, zero and missing are not the same. paths alternates what a path is and the path;
// empty ones are not checked.
func (c Codec) CheckKept(t reflect.Type, paths ...string) error {
	for i := 0; i+1 < len(paths); i += 2 {
		if paths[i+1] != "" && c.omits(t, paths[i+1]) {
			return fault.Invalid("%s: %v does not store a zero of %q, because of omitempty, or of OmitEmpty or OmitZeroStruct in the BSON options: "+
				"leave that out, or make the field a pointer to a type without IsZero", paths[i], t, paths[i+1])
		}
	}
	return nil
}

// omits reports whether a zero at a path is not stored.
func (c Codec) omits(t reflect.Type, path string) bool {
	_, f, below := c.first(t, path)
	if f == nil {
		return false
	}
	if (f.has("omitempty") || c.BSON != nil && c.BSON.OmitEmpty) && c.zeroIsEmpty(f.Type) {
		return true
	}
	return below != "" && c.inside().omits(f.Type, below)
}

// zeroIsEmpty reports whether the driver takes a zero of a type for empty, and a package does not take it for no value.
func (c Codec) zeroIsEmpty(t reflect.Type) bool {
	zeroer := t.Implements(reflect.TypeFor[bson.Zeroer]())
	switch t.Kind() {
	case reflect.Interface:
		// Only of an interface with an encoder, such as any, the driver looks at the interface and not at the value in it.
		// Null and missing are the same to the packages.
		_, err := c.registry().LookupEncoder(t)
		return err != nil
	case reflect.Pointer: // the driver asks IsZero behind a pointer, too; but a zero time or ObjectID is no value, as nil
		return zeroer && t != reflect.TypeFor[*time.Time]() && t != reflect.TypeFor[*bson.ObjectID]()
	case reflect.Struct:
		return zeroer || c.BSON != nil && c.BSON.OmitZeroStruct
	case reflect.Array: // the driver looks at the length
		return zeroer || t.Len() == 0
	}
	return true
}

// inside is the codec of what is inside a field: the option OmitEmpty is only for the fields of the document itself.
func (c Codec) inside() Codec {
	if c.BSON != nil && c.BSON.OmitEmpty {
		own := *c.BSON
		own.OmitEmpty = false
		c.BSON = &own
	}
	return c
}

// CheckExtended is CheckDocuments for documents to which the package adds fields: an inline map must be able to hold them.
func (c Codec) CheckExtended(what string, t reflect.Type) error {
	if s := c.Struct(t); s != nil && s.Inline != nil && s.Inline.Type.Elem().Kind() != reflect.Interface && s.Inline.Type.Elem() != reflect.TypeFor[bson.RawValue]() {
		return fault.Invalid("%s: %v could not be read, because its inline %v cannot hold every field: make it a map[string]any", what, t, s.Inline.Type)
	}
	return c.CheckDocuments(what, t)
}
