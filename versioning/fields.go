package versioning

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A field is an element of a document, or of an array, whose key is then its
// place. The zero value stands for no value.
type field struct {
	key   string
	value bson.RawValue
}

// fields takes a document of unknown origin apart.
func fields(raw bson.Raw) ([]field, error) {
	if err := raw.Validate(); err != nil {
		return nil, err
	}
	return open(raw), nil
}

// open takes a valid document apart. The values share its memory, the keys one copy of
// it: a document of thousands of fields costs few allocations.
func open(raw bson.Raw) []field {
	out := make([]field, 0, len(raw)/24)
	for key, v := range elements(raw) {
		out = append(out, field{key, v})
	}
	return out
}

// elements are the fields of a valid document, one by one.
func elements(raw bson.Raw) iter.Seq2[string, bson.RawValue] {
	return func(yield func(string, bson.RawValue) bool) {
		text := string(raw)
		for at := 4; at < len(raw) && raw[at] != 0; {
			key, v, end := element(raw, at)
			if !yield(text[at+1:at+1+key], v) {
				return
			}
			at = end
		}
	}
}

// element is the one at a place: the length of its key, its value, and where it ends.
func element(raw bson.Raw, at int) (key int, v bson.RawValue, end int) {
	key = bytes.IndexByte(raw[at+1:], 0)
	start := at + 1 + key + 1
	end = start + valueSize(bson.Type(raw[at]), raw[start:])
	return key, bson.RawValue{Type: bson.Type(raw[at]), Value: raw[start:end]}, end
}

// stands says where a field ends that stands in raw at this place, to the byte; else 0.
func (f field) stands(raw bson.Raw, at int) int {
	value := at + 1 + len(f.key) + 1
	end := value + len(f.value.Value)
	if end < len(raw) && raw[at] == byte(f.value.Type) && raw[value-1] == 0 &&
		string(raw[at+1:value-1]) == f.key && bytes.Equal(raw[value:end], f.value.Value) {
		return end
	}
	return 0
}

// holds says that raw is document(all).
func holds(raw bson.Raw, all []field) bool {
	at := 4
	for _, f := range all {
		if at = f.stands(raw, at); at == 0 {
			return false
		}
	}
	return at == len(raw)-1
}

// valueSize is the length of the value that data begins with.
func valueSize(t bson.Type, data []byte) int {
	length := func() int { return int(binary.LittleEndian.Uint32(data)) }
	switch t {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		return 8
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return 4 + length()
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		return length()
	case bson.TypeBinary:
		return 5 + length()
	case bson.TypeObjectID:
		return 12
	case bson.TypeBoolean:
		return 1
	case bson.TypeRegex:
		pattern := bytes.IndexByte(data, 0) + 1
		return pattern + bytes.IndexByte(data[pattern:], 0) + 1
	case bson.TypeDBPointer:
		return 4 + length() + 12
	case bson.TypeInt32:
		return 4
	case bson.TypeDecimal128:
		return 16
	}
	return 0 // null, undefined, the keys
}

// document is the inverse of open, to the byte, but for the fields that it leaves out.
func document(all []field, but ...string) bson.Raw {
	out := make(bson.Raw, 4, size(all))
	for _, f := range all {
		if slices.Contains(but, f.key) {
			continue
		}
		out = append(out, byte(f.value.Type))
		out = append(out, f.key...)
		out = append(out, 0)
		out = append(out, f.value.Value...)
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}

// size is the length of document(all).
func size(all []field) int {
	n := 5
	for _, f := range all {
		n += 2 + len(f.key) + len(f.value.Value)
	}
	return n
}

// valueOf encodes a value of one of the driver's own types.
func valueOf(v any) bson.RawValue {
	t, data, _ := bson.MarshalValue(v)
	return bson.RawValue{Type: t, Value: data}
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

// places finds fields by their names; -1 is none. Names asked for in the order in which
// they stand cost one comparison each; a map is made when several stand elsewhere.
func places(all []field) func(key string) int {
	next, misses := 0, 0
	var places map[string]int
	return func(key string) int {
		if next >= len(all) || all[next].key != key {
			if misses++; misses <= 8 {
				next = slices.IndexFunc(all, func(f field) bool { return f.key == key })
			} else {
				if places == nil {
					places = make(map[string]int, len(all))
					for i, f := range slices.Backward(all) {
						places[f.key] = i
					}
				}
				i, ok := places[key]
				if next = i; !ok {
					next = -1
				}
			}
			if next < 0 {
				next = 0
				return -1
			}
		}
		next++
		return next - 1
	}
}

// index is places, but for the values themselves.
func index(all []field) func(key string) bson.RawValue {
	place := places(all)
	return func(key string) bson.RawValue {
		if i := place(key); i >= 0 {
			return all[i].value
		}
		return bson.RawValue{}
	}
}

// find is the value of one field.
func find(all []field, key string) bson.RawValue { return index(all)(key) }

// without is a document without some fields.
func without(all []field, keys ...string) []field {
	return slices.DeleteFunc(slices.Clone(all), func(f field) bool { return slices.Contains(keys, f.key) })
}

// changes is what makes b of a, as patch takes it.
func changes(a, b []field) (out []field) {
	inA, inB := index(a), index(b)
	for _, f := range a {
		if inB(f.key).Type == 0 {
			out = append(out, field{key: f.key})
		}
	}
	for _, f := range b {
		if !identical(inA(f.key), f.value) {
			out = append(out, f)
		}
	}
	return out
}

// patch is a document with some fields replaced, taken away (where the change has no
// value) or, if it has none of that name, added at the end.
func patch(all, changes []field) []field {
	place := places(all)
	out := append(make([]field, 0, len(all)+len(changes)), all...)
	for _, c := range changes {
		if i := place(c.key); i >= 0 {
			out[i] = c
		} else {
			out = append(out, c)
		}
	}
	return slices.DeleteFunc(out, func(f field) bool { return f.value.Type == 0 })
}

// parts takes apart a value that is a document or an array whose fields have
// names of their own, so that it can be told by them; ok is false for any other.
func parts(v bson.RawValue) (all []field, ok bool) {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil, false
	}
	all, err := fields(v.Value)
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
		seen[f.key] = true
	}
	return len(seen) == len(all)
}

func identical(a, b bson.RawValue) bool {
	return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
}

// same compares documents to the byte.
func same(a, b []field) bool {
	return slices.EqualFunc(a, b, func(x, y field) bool { return x.key == y.key && identical(x.value, y.value) })
}

// alike is identical but for the order of fields at any depth, as of Go maps, which
// have none.
func alike(a, b bson.RawValue) bool {
	return a.Type == b.Type && len(a.Value) == len(b.Value) &&
		(bytes.Equal(a.Value, b.Value) || identical(canonical(a), canonical(b)))
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

// wholeNumber reads a revision's number, after which there is another one.
func wholeNumber(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		return 0, false
	}
	n, ok := v.AsInt64OK()
	return n, ok && n >= 1 && n < math.MaxInt64
}
