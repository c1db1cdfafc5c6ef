package versioning

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
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
	out, text := make([]field, 0, 4+len(raw)/16), string(raw)
	for at := 4; at < len(raw) && raw[at] != 0; {
		key := at + 1 + bytes.IndexByte(raw[at+1:], 0)
		v := bson.RawElement(raw[at:]).Value() // of the first element there
		out = append(out, field{text[at+1 : key], v})
		at = key + 1 + len(v.Value)
	}
	return out
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

func size(all []field) int {
	n := 5
	for _, f := range all {
		n += 2 + len(f.key) + len(f.value.Value)
	}
	return n
}

// valueOf encodes a value of one of the driver's own types.
func valueOf(v any) bson.RawValue {
	out, _ := codec.Codec{}.Value(v)
	return out
}

func dateValue(t time.Time) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: valueOf(t.UnixMilli()).Value}
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

// filled is those of some documents and arrays that hold something: an empty one has 5 bytes.
func filled(all ...field) []field {
	return slices.DeleteFunc(all, func(f field) bool { return len(f.value.Value) == 5 })
}

// An index finds fields by their names. Names asked for in the order in which they stand
// cost one comparison each; a map is made when several stand elsewhere.
type index struct {
	all          []field
	next, misses int
	places       map[string]int
}

// place is where a field stands, -1 if there is none.
func (x *index) place(key string) int {
	i := x.next
	if i >= len(x.all) || x.all[i].key != key {
		if x.misses++; x.misses <= 8 {
			i = slices.IndexFunc(x.all, func(f field) bool { return f.key == key })
		} else {
			if x.places == nil {
				x.places = make(map[string]int, len(x.all))
				for i, f := range slices.Backward(x.all) {
					x.places[f.key] = i
				}
			}
			var ok bool
			if i, ok = x.places[key]; !ok {
				i = -1
			}
		}
	}
	x.next = i + 1
	return i
}

func (x *index) value(key string) bson.RawValue {
	if i := x.place(key); i >= 0 {
		return x.all[i].value
	}
	return bson.RawValue{}
}

func find(all []field, key string) bson.RawValue {
	x := index{all: all}
	return x.value(key)
}

func without(all []field, keys ...string) []field {
	return slices.DeleteFunc(slices.Clone(all), func(f field) bool { return slices.Contains(keys, f.key) })
}

// differing returns the fields of two documents but for those that both have alike, and
// those to skip. ok is false if a field stands twice in b.
func differing(a, b []field, alike func(x, y bson.RawValue) bool, skip ...string) (x, y []field, ok bool) {
	in, seen, twice := index{all: a}, make([]bool, len(a)), false
	for _, f := range b {
		i := in.place(f.key)
		if i >= 0 {
			twice = twice || seen[i]
			seen[i] = true
		}
		switch {
		case i >= 0 && alike(a[i].value, f.value) || slices.Contains(skip, f.key):
		case i >= 0:
			x, y = append(x, a[i]), append(y, f)
		default:
			y = append(y, f)
		}
	}
	for i, f := range a {
		if !seen[i] && !slices.Contains(skip, f.key) {
			x = append(x, f)
		}
	}
	return x, y, !twice && distinct(y)
}

// changes is what makes b of a, as patch takes it.
func changes(a, b []field) []field {
	gone, out, _ := differing(a, b, identical)
	in := index{all: b} // not out: of a field that stands twice in a, one may be in b
	gone = slices.DeleteFunc(gone, func(f field) bool { return in.place(f.key) >= 0 })
	for i := range gone {
		gone[i].value = bson.RawValue{}
	}
	return append(gone, out...)
}

// patch is a document with some fields replaced, taken away (where the change has no
// value) or, if it has none of that name, added at the end.
func patch(all, changes []field) []field {
	in := index{all: all}
	out := append(make([]field, 0, len(all)+len(changes)), all...)
	for _, c := range changes {
		if i := in.place(c.key); i >= 0 {
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
	if err != nil {
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
