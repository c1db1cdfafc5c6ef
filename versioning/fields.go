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

// fields takes a document apart. The values share its memory.
func fields(raw bson.Raw) ([]field, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	out := make([]field, len(elements))
	for i, e := range elements {
		out[i] = field{e.Key(), e.Value()}
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

// index is find for many calls.
func index(all []field) func(key string) (bson.RawValue, bool) {
	if len(all) < 16 {
		return func(key string) (bson.RawValue, bool) { return find(all, key) }
	}
	first := make(map[string]bson.RawValue, len(all))
	for _, f := range slices.Backward(all) {
		first[f.key] = f.value
	}
	return func(key string) (bson.RawValue, bool) {
		v, ok := first[key]
		return v, ok
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

// same is identical but for the order of fields, which maps have none of.
func same(a, b bson.RawValue) bool {
	return identical(a, b) || a.Type == b.Type && len(a.Value) == len(b.Value) && identical(canonical(a), canonical(b))
}

func sameDocument(a, b bson.Raw) bool {
	return same(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: a}, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b})
}

func sameFields(a, b []field) bool { return sameDocument(document(a), document(b)) }

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

// common counts the elements that two arrays have alike at the start, and then at
// the end.
func common(a, b []field, equal func(a, b bson.RawValue) bool) (prefix, suffix int) {
	shorter := min(len(a), len(b))
	for prefix < shorter && equal(a[prefix].value, b[prefix].value) {
		prefix++
	}
	for suffix < shorter-prefix && equal(a[len(a)-1-suffix].value, b[len(b)-1-suffix].value) {
		suffix++
	}
	return prefix, suffix
}

// merge carries over to stored what next has different from known. With elements,
// stored and known are one state, of which the caller's type shows known and next,
// so that of an array in both an element at one place is the same. Without, stored
// is another state than known, and of an array that both changed next is taken.
func merge(stored, known, next []field, elements bool) []field {
	out := make([]field, 0, len(stored))
	inStored, inKnown, inNext := index(stored), index(known), index(next)
	for _, s := range stored {
		before, wasKnown := inKnown(s.key)
		after, ok := inNext(s.key)
		switch {
		case ok && wasKnown:
			out = append(out, field{s.key, mergeValue(s.value, before, after, elements)})
		case ok:
			out = append(out, field{s.key, after})
		case !wasKnown:
			out = append(out, s)
		}
	}
	for _, n := range next {
		if _, ok := inStored(n.key); ok {
			continue
		}
		// What the caller's type makes up for a missing field is no change.
		if before, ok := inKnown(n.key); !ok || !same(before, n.value) {
			out = append(out, n)
		}
	}
	return out
}

func mergeValue(stored, known, next bson.RawValue, elements bool) bson.RawValue {
	if same(known, next) {
		return stored
	}
	if stored.Type != known.Type || known.Type != next.Type {
		return next
	}
	s, sOK := parts(stored)
	k, kOK := parts(known)
	n, nOK := parts(next)
	switch {
	case !sOK || !kOK || !nOK:
		return next
	case next.Type == bson.TypeEmbeddedDocument:
		return documentValue(merge(s, k, n, elements))
	case !elements || len(s) != len(k):
		return next
	}
	return arrayValue(mergeElements(s, k, n))
}

// mergeElements is merge for arrays, where stored and known have the same elements.
// An element of next is one of known if it is equal; between two that stand next to
// each other but for as many others as there are now, these are taken for the same
// ones, changed.
func mergeElements(stored, known, next []field) []field {
	from, taken := origins(known, next)
	out := make([]field, len(next))
	for j := 0; j < len(next); {
		if from[j] >= 0 {
			out[j] = stored[from[j]]
			j++
			continue
		}
		end := j
		for end < len(next) && from[end] < 0 {
			end++
		}
		first, after := 0, len(known) // of known, what is between the neighbours
		if j > 0 {
			first = from[j-1] + 1
		}
		if end < len(next) {
			after = from[end]
		}
		changed := after-first == end-j && !slices.Contains(taken[first:after], true)
		for i := first; j < end; i, j = i+1, j+1 {
			out[j] = next[j]
			if changed {
				out[j].value = mergeValue(stored[i].value, known[i].value, next[j].value, true)
			}
		}
	}
	return out
}

// origins returns the place in known of each element of next, -1 if none is equal,
// and which are taken so. Of several equal ones each is taken once.
func origins(known, next []field) (from []int, taken []bool) {
	from, taken = make([]int, len(next)), make([]bool, len(known))
	prefix, suffix := common(known, next, same)
	take := func(j, i int) {
		from[j] = i
		taken[i] = true
	}
	places := map[string][]int{}
	for i, k := range known {
		if i >= prefix && i < len(known)-suffix {
			key := canonicalKey(k.value)
			places[key] = append(places[key], i)
		}
	}
	for j, n := range next {
		switch {
		case j < prefix:
			take(j, j)
		case j >= len(next)-suffix:
			take(j, len(known)-len(next)+j)
		default:
			from[j] = -1
			key := canonicalKey(n.value)
			if equal := places[key]; len(equal) > 0 {
				take(j, equal[0])
				places[key] = equal[1:]
			}
		}
	}
	return from, taken
}

// canonicalKey is equal for values that are the same.
func canonicalKey(v bson.RawValue) string { return string(rune(v.Type)) + string(canonical(v).Value) }

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
