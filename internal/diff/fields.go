package diff

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Field is a field of a document, or an element of an array, with its place as Key. A Value of
// type 0 means that there is no value.
type Field struct {
	Key   string
	Value bson.RawValue
}

// Parse is Open for a document that may be invalid.
func Parse(raw bson.Raw) ([]Field, error) {
	if err := raw.Validate(); err != nil {
		return nil, err
	}
	return Open(raw), nil
}

// Open returns the fields of a valid document. The values share its memory, the keys share one copy
// of it, so a document of thousands of fields needs few allocations.
func Open(raw bson.Raw) []Field {
	out, text := make([]Field, 0, min(4+len(raw)/16, 64)), string(raw)
	for at := 4; at < len(raw) && raw[at] != 0; {
		if len(out) == cap(out) { // room for the rest, if its fields are as long as those so far
			out = slices.Grow(out, 1+(len(raw)-at)*len(out)/at)
		}
		key := at + 1 + bytes.IndexByte(raw[at+1:], 0)
		v := bson.RawElement(raw[at:]).Value() // the value of the first element there
		out = append(out, Field{text[at+1 : key], v})
		at = key + 1 + len(v.Value)
	}
	return out
}

// Raw returns the document of these fields, without the fields named by but.
func Raw(all []Field, but ...string) bson.Raw {
	out := make(bson.Raw, 4, Size(all))
	for _, f := range all {
		if slices.Contains(but, f.Key) {
			continue
		}
		out = append(out, byte(f.Value.Type))
		out = append(out, f.Key...)
		out = append(out, 0)
		out = append(out, f.Value.Value...)
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}

// Size returns the size of the document of these fields, in bytes.
func Size(all []Field) int {
	n := 5
	for _, f := range all {
		n += 2 + len(f.Key) + len(f.Value.Value)
	}
	return n
}

// Embedded returns the document of these fields as a value.
func Embedded(all []Field) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: Raw(all)}
}

// Array returns an array of the fields' values; their keys are ignored.
func Array(values []Field) bson.RawValue {
	all := make([]Field, len(values))
	for i, v := range values {
		all[i] = Field{strconv.Itoa(i), v.Value}
	}
	return bson.RawValue{Type: bson.TypeArray, Value: Raw(all)}
}

// Filled returns those of the fields, all documents or arrays, that are not empty: an empty one has 5 bytes.
func Filled(all ...Field) []Field {
	return slices.DeleteFunc(all, func(f Field) bool { return len(f.Value.Value) == 5 })
}

// Without returns a copy without the fields of these names.
func Without(all []Field, keys ...string) []Field {
	return slices.DeleteFunc(slices.Clone(all), func(f Field) bool { return slices.Contains(keys, f.Key) })
}

// Distinct reports whether all names are different.
func Distinct(all []Field) bool {
	seen := make(map[string]bool, len(all))
	for _, f := range all {
		seen[f.Key] = true
	}
	return len(seen) == len(all)
}

// inner returns the fields of a document without duplicate fields, or of an array with the right
// keys. ok is false for any other value.
func inner(v bson.RawValue) (all []Field, ok bool) {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil, false
	}
	all, err := Parse(v.Value)
	if err != nil {
		return nil, false
	}
	if v.Type == bson.TypeEmbeddedDocument {
		return all, Distinct(all)
	}
	for i, f := range all {
		if f.Key != strconv.Itoa(i) {
			return nil, false
		}
	}
	return all, true
}

// Inside returns the fields of two values as inner does. ok is false if one of them is not a document or
// array, or if their types differ.
func Inside(a, b bson.RawValue) (x, y []Field, ok bool) {
	if a.Type != b.Type {
		return nil, nil, false
	}
	x, xOK := inner(a)
	y, yOK := inner(b)
	return x, y, xOK && yOK
}

// Identical compares values to the byte.
func Identical(a, b bson.RawValue) bool {
	return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
}

// Same compares documents to the byte.
func Same(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(x, y Field) bool { return x.Key == y.Key && Identical(x.Value, y.Value) })
}

// Alike is Identical, but ignores the order of fields at any depth, because Go maps have none.
func Alike(a, b bson.RawValue) bool {
	return a.Type == b.Type && len(a.Value) == len(b.Value) &&
		(bytes.Equal(a.Value, b.Value) || Identical(Canonical(a), Canonical(b)))
}

// Canonical returns a value with all fields sorted by name, at any depth.
func Canonical(v bson.RawValue) bson.RawValue {
	all, ok := inner(v)
	if !ok {
		return v
	}
	for i := range all {
		all[i].Value = Canonical(all[i].Value)
	}
	if v.Type == bson.TypeArray {
		return Array(all)
	}
	slices.SortFunc(all, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return Embedded(all)
}

// canonicalKey returns a key that is equal for values that are alike.
func canonicalKey(v bson.RawValue) string { return string(rune(v.Type)) + string(Canonical(v).Value) }

// An Index finds fields by name. If two have the same name, it finds the first, or the one that
// comes next. If names are asked for in the order of the fields, each costs one comparison; after
// several that are not, it makes a map.
type Index struct {
	all          []Field
	next, misses int
	places       map[string]int
}

// In returns an index of fields.
func In(all []Field) Index { return Index{all: all} }

// Place returns the place of a field, -1 if there is no such field.
func (x *Index) Place(key string) int {
	i := x.next
	if i >= len(x.all) || x.all[i].Key != key {
		i = x.seek(key)
	}
	x.next = i + 1
	return i
}

func (x *Index) seek(key string) int {
	if x.misses++; x.misses <= 8 {
		return slices.IndexFunc(x.all, func(f Field) bool { return f.Key == key })
	}
	if x.places == nil {
		x.places = make(map[string]int, len(x.all))
		for i, f := range slices.Backward(x.all) {
			x.places[f.Key] = i
		}
	}
	if i, ok := x.places[key]; ok {
		return i
	}
	return -1
}

// Value returns the value of a field, of type 0 if there is no such field.
func (x *Index) Value(key string) bson.RawValue {
	if i := x.Place(key); i >= 0 {
		return x.all[i].Value
	}
	return bson.RawValue{}
}

// Find returns the value of a field, as Index.Value does.
func Find(all []Field, key string) bson.RawValue {
	x := In(all)
	return x.Value(key)
}
