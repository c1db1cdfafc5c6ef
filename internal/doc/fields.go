package doc

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Field is an element of a document, or of an array, whose key is then its place. A
// value of the type 0 stands for none.
type Field struct {
	Key   string
	Value bson.RawValue
}

// Parse is Open for a document of unknown origin.
func Parse(raw bson.Raw) ([]Field, error) {
	if err := raw.Validate(); err != nil {
		return nil, err
	}
	return Open(raw), nil
}

// Open takes a valid document apart. The values share its memory, the keys one copy of
// it: a document of thousands of fields costs few allocations.
func Open(raw bson.Raw) []Field {
	out, text := make([]Field, 0, min(4+len(raw)/16, 64)), string(raw)
	for at := 4; at < len(raw) && raw[at] != 0; {
		if len(out) == cap(out) { // room for the rest, if its fields are as long as those so far
			out = slices.Grow(out, 1+(len(raw)-at)*len(out)/at)
		}
		key := at + 1 + bytes.IndexByte(raw[at+1:], 0)
		v := bson.RawElement(raw[at:]).Value() // of the first element there
		out = append(out, Field{text[at+1 : key], v})
		at = key + 1 + len(v.Value)
	}
	return out
}

// Raw is the document of some fields, without those of the names but.
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

// Size is that of the document in bytes.
func Size(all []Field) int {
	n := 5
	for _, f := range all {
		n += 2 + len(f.Key) + len(f.Value.Value)
	}
	return n
}

// Embedded is a document as a value.
func Embedded(all []Field) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: Raw(all)}
}

// Array is an array of the fields' values, whatever their keys.
func Array(values []Field) bson.RawValue {
	all := make([]Field, len(values))
	for i, v := range values {
		all[i] = Field{strconv.Itoa(i), v.Value}
	}
	return bson.RawValue{Type: bson.TypeArray, Value: Raw(all)}
}

// Filled is those of some documents and arrays that hold something: an empty one has 5 bytes.
func Filled(all ...Field) []Field {
	return slices.DeleteFunc(all, func(f Field) bool { return len(f.Value.Value) == 5 })
}

// Without is a copy without the fields of these names.
func Without(all []Field, keys ...string) []Field {
	return slices.DeleteFunc(slices.Clone(all), func(f Field) bool { return slices.Contains(keys, f.Key) })
}

// Distinct reports whether no field stands twice.
func Distinct(all []Field) bool {
	seen := make(map[string]bool, len(all))
	for _, f := range all {
		seen[f.Key] = true
	}
	return len(seen) == len(all)
}

// inner takes apart a value that is a document or an array whose fields can be told by
// their names; ok is false for any other.
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

// Inside takes apart two values of the same type, if both are documents or arrays whose
// fields can be told by their names.
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

// Alike is Identical but for the order of fields at any depth, as of Go maps, which have
// none.
func Alike(a, b bson.RawValue) bool {
	return a.Type == b.Type && len(a.Value) == len(b.Value) &&
		(bytes.Equal(a.Value, b.Value) || Identical(canonical(a), canonical(b)))
}

// canonical has all fields in the order of their names.
func canonical(v bson.RawValue) bson.RawValue {
	all, ok := inner(v)
	if !ok {
		return v
	}
	for i := range all {
		all[i].Value = canonical(all[i].Value)
	}
	if v.Type == bson.TypeArray {
		return Array(all)
	}
	slices.SortFunc(all, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return Embedded(all)
}

// canonicalKey is equal for values that are alike.
func canonicalKey(v bson.RawValue) string { return string(rune(v.Type)) + string(canonical(v).Value) }

// An Index finds fields by their names; of a name that stands twice the first, or the one
// that is next. Names asked for in the order in which they stand cost one comparison each;
// a map is made when several stand elsewhere.
type Index struct {
	all          []Field
	next, misses int
	places       map[string]int
}

// In is an index of fields.
func In(all []Field) Index { return Index{all: all} }

// Place is where a field stands, -1 if there is none.
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

// Value is that of a field.
func (x *Index) Value(key string) bson.RawValue {
	if i := x.Place(key); i >= 0 {
		return x.all[i].Value
	}
	return bson.RawValue{}
}

// Find is the value of a field.
func Find(all []Field, key string) bson.RawValue {
	x := In(all)
	return x.Value(key)
}
