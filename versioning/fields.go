package versioning

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
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

// A reader goes through the elements of a valid document and allocates nothing.
type reader []byte

func read(raw bson.Raw) *reader {
	r := reader(raw[4 : len(raw)-1])
	return &r
}

// next returns the next element, whole and as key and value; a nil one at the end.
func (r *reader) next() (element, key []byte, v bson.RawValue) {
	if len(*r) == 0 {
		return nil, nil, v
	}
	end := 1 + bytes.IndexByte((*r)[1:], 0)
	t, rest := bson.Type((*r)[0]), (*r)[end+1:]
	n := valueSize(t, rest)
	element, key, *r = (*r)[:end+1+n], (*r)[1:end], rest[n:]
	return element, key, bson.RawValue{Type: t, Value: rest[:n]}
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

// patched is a document with some fields replaced, taken away (where the value is
// zero) or, if it has none of that name, added at the end. Everything else is copied
// in one go.
func patched(raw bson.Raw, changes []field) bson.Raw {
	size := len(raw)
	for _, c := range changes {
		size += 2 + len(c.key) + len(c.value.Value)
	}
	out := make(bson.Raw, 4, size)
	add := func(key string, v bson.RawValue) {
		if v.Type != 0 {
			out = append(append(append(append(out, byte(v.Type)), key...), 0), v.Value...)
		}
	}
	done := make([]bool, len(changes))
	inChanges := places(changes)
	r := read(raw)
	for element, key, _ := r.next(); element != nil; element, key, _ = r.next() {
		if i, ok := inChanges(key); ok {
			add(changes[i].key, changes[i].value)
			done[i] = true
		} else {
			out = append(out, element...)
		}
	}
	for i, c := range changes {
		if !done[i] {
			add(c.key, c.value)
		}
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}

// pick returns the fields of a document that have the names of others, in their
// places there; zero values where there are none.
func pick(raw bson.Raw, like []field) []field {
	out := make([]field, len(like))
	for i, f := range like {
		out[i].key = f.key
	}
	inLike := places(like)
	r := read(raw)
	for element, key, v := r.next(); element != nil; element, key, v = r.next() {
		if i, ok := inLike(key); ok {
			out[i].value = v
		}
	}
	return out
}

// places finds fields by their names.
func places(all []field) func(key []byte) (int, bool) {
	if len(all) < 8 {
		return func(key []byte) (int, bool) {
			for i, f := range all {
				if string(key) == f.key {
					return i, true
				}
			}
			return 0, false
		}
	}
	at := make(map[string]int, len(all))
	for i, f := range all {
		at[f.key] = i
	}
	return func(key []byte) (int, bool) {
		i, ok := at[string(key)]
		return i, ok
	}
}

// existing is the fields that have a value.
func existing(all []field) []field {
	return slices.DeleteFunc(slices.Clone(all), func(f field) bool { return f.value.Type == 0 })
}

// changes is what makes b of a, as patched takes it.
func changes(a, b []field) (out []field) {
	inA, inB := index(a), index(b)
	for _, f := range a {
		if _, ok := inB(f.key); !ok {
			out = append(out, field{key: f.key})
		}
	}
	for _, f := range b {
		if v, ok := inA(f.key); !ok || !identical(v, f.value) {
			out = append(out, f)
		}
	}
	return out
}

// differing returns the fields of two documents but for those that both have alike,
// compared by their bytes, and where the order inside is loose without that. Fields
// that skip names are passed over. Of documents with the same fields in one order
// nothing is allocated but for the difference.
func differing(a, b bson.Raw, loose bool, skip ...string) (x, y []field, err error) {
	pass := func(r *reader) (key []byte, v bson.RawValue) {
		for {
			element, key, v := r.next()
			if element == nil || !slices.ContainsFunc(skip, func(s string) bool { return s == string(key) }) {
				return key, v
			}
		}
	}
	equal := func(v, w bson.RawValue) bool { return identical(v, w) || loose && alike(v, w) }
	ra, rb := read(a), read(b)
	for {
		keyA, v := pass(ra)
		keyB, w := pass(rb)
		if v.Type == 0 && w.Type == 0 {
			return x, y, nil
		}
		if v.Type == 0 || w.Type == 0 || !bytes.Equal(keyA, keyB) {
			break
		}
		if !equal(v, w) {
			x, y = append(x, field{string(keyA), v}), append(y, field{string(keyB), w})
		}
	}
	if !distinct(open(b)) {
		return nil, nil, fault.Invalid("document: a field stands twice")
	}
	allA, allB := open(a, skip...), open(b, skip...)
	rest := func(a, b []field) (out []field) {
		inB := index(b)
		for _, f := range a {
			if v, ok := inB(f.key); !ok || !equal(f.value, v) {
				out = append(out, f)
			}
		}
		return out
	}
	return rest(allA, allB), rest(allB, allA), nil
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

// identified is a document with this _id at first.
func identified(id bson.RawValue, raw bson.Raw) bson.Raw {
	return document(append([]field{{"_id", id}}, open(raw, "_id")...))
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

// without is a document without some fields.
func without(raw bson.Raw, keys ...string) bson.Raw {
	what := make([]field, len(keys))
	for i, key := range keys {
		what[i].key = key
	}
	return patched(raw, what)
}

// open is the fields of a valid document, but for some.
func open(raw bson.Raw, but ...string) []field {
	all, _ := fields(raw)
	return slices.DeleteFunc(all, func(f field) bool { return slices.Contains(but, f.key) })
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
	if identical(a, b) {
		return true
	}
	if a.Type != b.Type || len(a.Value) != len(b.Value) {
		return false
	}
	x, xOK := parts(a)
	y, yOK := parts(b)
	if !xOK || !yOK || len(x) != len(y) {
		return false
	}
	inY := index(y)
	for _, f := range x {
		if v, ok := inY(f.key); !ok || !alike(f.value, v) {
			return false
		}
	}
	return true
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
