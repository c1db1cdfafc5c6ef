package versioning

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A field is an element of a document, or of an array, whose key is then its
// place.
type field struct {
	key   string
	value bson.RawValue
}

// fields takes a document apart. The values share its memory, the keys one copy
// of it: a document of thousands of fields costs three allocations.
func fields(raw bson.Raw) ([]field, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	out := make([]field, len(elements))
	text, at := string(raw), 4
	for i, e := range elements {
		end := 1 + bytes.IndexByte(e[1:], 0)
		out[i] = field{text[at+1 : at+end], bson.RawValue{Type: bson.Type(e[0]), Value: e[end+1:]}}
		at += len(e)
	}
	return out, nil
}

// document is the inverse of fields, to the byte.
func document(all []field) bson.Raw {
	size := 5
	for _, f := range all {
		size += 2 + len(f.key) + len(f.value.Value)
	}
	out := make(bson.Raw, 4, size)
	for _, f := range all {
		out = append(out, byte(f.value.Type))
		out = append(out, f.key...)
		out = append(out, 0)
		out = append(out, f.value.Value...)
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}

func documentValue(all []field) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document(all)}
}

func arrayValue(values []field) bson.RawValue {
	all := make([]field, len(values))
	for i, v := range values {
		all[i] = field{strconv.Itoa(i), v.value}
	}
	return bson.RawValue{Type: bson.TypeArray, Value: document(all)}
}

func stringValue(s string) bson.RawValue {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(s)+1))
	return bson.RawValue{Type: bson.TypeString, Value: append(append(out, s...), 0)}
}

func int32Value(n int) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))}
}

func int64Value(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

func find(all []field, key string) (bson.RawValue, bool) {
	for _, f := range all {
		if f.key == key {
			return f.value, true
		}
	}
	return bson.RawValue{}, false
}

// index is find for many calls. Keys asked for in the order in which they stand
// cost one comparison each; a map is made when the first one stands elsewhere.
func index(all []field) func(key string) (bson.RawValue, bool) {
	next := 0
	var places map[string]int
	return func(key string) (bson.RawValue, bool) {
		if next >= len(all) || all[next].key != key {
			if places == nil {
				places = make(map[string]int, len(all))
				for i, f := range slices.Backward(all) {
					places[f.key] = i
				}
			}
			i, ok := places[key]
			if !ok {
				return bson.RawValue{}, false
			}
			next = i
		}
		next++
		return all[next-1].value, true
	}
}

func without(all []field, keys ...string) []field {
	out := make([]field, 0, len(all))
	for _, f := range all {
		if !slices.Contains(keys, f.key) {
			out = append(out, f)
		}
	}
	return out
}

// parts takes apart a value that is a document or an array whose fields have
// names of their own, so that it can be told by them; ok is false for any other.
func parts(v bson.RawValue) (all []field, ok bool) {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil, false
	}
	all, err := fields(bson.Raw(v.Value))
	if err != nil || !bytes.Equal(document(all), v.Value) { // of damaged ones: not to the byte
		return nil, false
	}
	if v.Type == bson.TypeEmbeddedDocument {
		return all, distinct(all)
	}
	for i, f := range all {
		if f.key != strconv.Itoa(i) {
			return nil, false
		}
	}
	return all, true
}

func distinct(all []field) bool {
	seen := make(map[string]bool, len(all))
	for _, f := range all {
		if seen[f.key] {
			return false
		}
		seen[f.key] = true
	}
	return true
}

func identical(a, b bson.RawValue) bool {
	return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
}

// sameFields compares documents by their fields, in any order; inside, the order
// counts.
func sameFields(a, b []field) bool {
	if len(a) != len(b) {
		return false
	}
	inB := index(b)
	for _, f := range a {
		if v, ok := inB(f.key); !ok || !identical(f.value, v) {
			return false
		}
	}
	return true
}

// alike is identical but for the order of fields at any depth, as of Go maps, which
// have none.
func alike(a, b bson.RawValue) bool {
	return identical(a, b) || a.Type == b.Type && len(a.Value) == len(b.Value) && identical(canonical(a), canonical(b))
}

// canonical has all fields in the order of their names.
func canonical(v bson.RawValue) bson.RawValue {
	all, ok := parts(v)
	if !ok {
		return v
	}
	for i := range all {
		all[i].value = canonical(all[i].value)
	}
	if v.Type == bson.TypeArray {
		return arrayValue(all)
	}
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(a.key, b.key) })
	return documentValue(all)
}

// lookup finds the value at a dotted path, through documents and places of
// arrays; the zero value if there is none.
func lookup(all []field, path string) bson.RawValue {
	key, rest, more := strings.Cut(path, ".")
	v, ok := find(all, key)
	if !ok || !more {
		return v
	}
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return bson.RawValue{}
	}
	inner, err := fields(bson.Raw(v.Value))
	if err != nil {
		return bson.RawValue{}
	}
	return lookup(inner, rest)
}

// wholeNumber reads a revision's number, after which there is another one.
func wholeNumber(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		return 0, false
	}
	n, ok := v.AsInt64OK()
	return n, ok && n >= 1 && n < math.MaxInt64
}
