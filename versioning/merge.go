package versioning

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A merge carries over to stored, one version of a document, what next has changed
// in known, another. What stored has beside known stays. Where both have changed the
// same value it is next's, and the path is a clash.
type merge struct {
	// loose: the order of fields inside does not count, as Go maps have made them.
	loose bool
	// full: what T makes up where it is missing is stored, too.
	full bool
	// elements says of each element of an array in stored which one of known it is,
	// -1 for none. nil: not known; an array that next has changed is then one value.
	elements func(stored, known []field) []int

	clashes []string
}

// same compares what stands in known and next.
func (m *merge) same(a, b bson.RawValue) bool { return identical(a, b) || m.loose && alike(a, b) }

// seen is a merge of what a caller has changed in the view that T has of stored: an
// element of an array in both is the same one at the same place.
func seen(loose bool) *merge {
	return &merge{loose: loose, elements: func(stored, known []field) []int {
		if len(stored) != len(known) {
			return nil
		}
		out := make([]int, len(stored))
		for i := range out {
			out[i] = i
		}
		return out
	}}
}

// beside is a merge with what somebody else has stored meanwhile. An array is one
// value: a mixture of two could break what its writers rely on, such as its length.
func beside() *merge { return &merge{elements: func(_, _ []field) []int { return nil }} }

// later is a merge with what later revisions have made of known.
func later() *merge {
	return &merge{elements: func(stored, known []field) []int { return match(known, stored, identical) }}
}

// document merges fields. The order at the top of a document does not count and
// stays that of stored; inside, a caller's own order counts.
func (m *merge) document(stored, known, next []field) []field {
	return m.fields("", stored, known, arranged(next, stored))
}

// arranged is all in the order of like, and what that does not have at the end. It is no
// patch of like: of a field that stands twice there, each has the value of all.
func arranged(all, like []field) []field {
	out := make([]field, 0, len(all))
	inAll, inLike := index{all: all}, index{all: like}
	for _, f := range like {
		if v := inAll.value(f.key); v.Type != 0 {
			out = append(out, field{f.key, v})
		}
	}
	for _, f := range all {
		if inLike.value(f.key).Type == 0 {
			out = append(out, f)
		}
	}
	return out
}

// fields merges in the order of next. Fields of stored alone follow the one that
// they follow there. path is that of the fields up to the dot, or that of an array.
func (m *merge) fields(path string, stored, known, next []field) []field {
	inStored, inKnown, inNext := index{all: stored}, index{all: known}, index{all: next}
	at := func(key string) string {
		if path == "" || strings.HasSuffix(path, ".") {
			return path + key
		}
		return path
	}
	out := make([]field, 0, len(stored))
	following := map[string][]field{}
	anchor, anchored := "", false
	for _, s := range stored {
		if inNext.value(s.key).Type != 0 {
			anchor, anchored = s.key, true
		} else if before := inKnown.value(s.key); before.Type != 0 { // next has removed it
			m.clash(at(s.key), !m.same(before, s.value))
		} else if anchored {
			following[anchor] = append(following[anchor], s)
		} else {
			out = append(out, s)
		}
	}
	for _, n := range next {
		s, before := inStored.value(n.key), inKnown.value(n.key)
		here, there := !m.same(before, n.value), s.Type == 0
		switch {
		case !there && before.Type != 0 && (!here || identical(s, n.value)):
			n.value = s
		case !there && before.Type != 0:
			n.value = m.value(at(n.key), s, before, n.value)
		case !there || before.Type == 0:
			m.clash(at(n.key), !there && !identical(s, n.value))
		case here: // changed here, and removed there
			m.clash(at(n.key), true)
		case !m.full: // removed there, or T makes it up
			n.value.Type = 0
		}
		if n.value.Type != 0 {
			out = append(out, n)
		}
		out = append(out, following[n.key]...)
	}
	return out
}

func (m *merge) clash(path string, is bool) {
	if is && !slices.Contains(m.clashes, path) {
		m.clashes = append(m.clashes, path)
	}
}

// value merges a value that all three have, and next another one.
func (m *merge) value(path string, stored, known, next bson.RawValue) bson.RawValue {
	s, sOK := parts(stored)
	k, kOK := parts(known)
	n, nOK := parts(next)
	if stored.Type == known.Type && known.Type == next.Type && sOK && kOK && nOK {
		if next.Type == bson.TypeEmbeddedDocument {
			if m.loose {
				n = arranged(n, s)
			}
			return documentValue(m.fields(path+".", s, k, n))
		}
		if names := m.elements(s, k); names != nil {
			return arrayValue(m.array(path, s, k, n, names))
		}
	}
	m.clash(path, !m.same(stored, known))
	return next
}

// array merges arrays as documents whose fields are the elements of known, by which
// those of stored and next are called where they are the same.
func (m *merge) array(path string, stored, known, next []field, names []int) []field {
	call := func(all []field, is []int, others string) []field {
		out := make([]field, len(all))
		for i, f := range all {
			out[i].value = f.value
			if is[i] >= 0 {
				out[i].key = strconv.Itoa(is[i])
			} else {
				out[i].key = others + strconv.Itoa(i)
			}
		}
		return out
	}
	return m.fields(path, call(stored, names, "stored "), known, call(next, match(known, next, m.same), "next "))
}

// common counts the elements that two arrays have alike at the start, and then at
// the end.
func common(a, b []field, same func(a, b bson.RawValue) bool) (prefix, suffix int) {
	shorter := min(len(a), len(b))
	for prefix < shorter && same(a[prefix].value, b[prefix].value) {
		prefix++
	}
	for suffix < shorter-prefix && same(a[len(a)-1-suffix].value, b[len(b)-1-suffix].value) {
		suffix++
	}
	return prefix, suffix
}

// match returns for each element of b the place in a of the one that it was, -1 if
// it is new. Elements are the same ones
//   - if they are equal, wherever they are;
//   - if they share a field's value that no other has, the more of these the rather;
//   - if they stand between the same neighbours, as many as there were.
//
// Each step takes time in proportion to the arrays.
func match(a, b []field, same func(a, b bson.RawValue) bool) []int {
	from, taken := slices.Repeat([]int{-1}, len(b)), make([]bool, len(a))
	take := func(j, i int) {
		if from[j] < 0 && !taken[i] {
			from[j], taken[i] = i, true
		}
	}
	prefix, suffix := common(a, b, same)
	equal := map[string][]int{}
	for i := prefix; i < len(a)-suffix; i++ {
		key := canonicalKey(a[i].value)
		equal[key] = append(equal[key], i)
	}
	for j := range b {
		switch {
		case j < prefix:
			take(j, j)
		case j >= len(b)-suffix:
			take(j, len(a)-len(b)+j)
		default:
			key := canonicalKey(b[j].value)
			if n := slices.IndexFunc(equal[key], func(i int) bool { return same(a[i].value, b[j].value) }); n >= 0 {
				take(j, equal[key][n])
				equal[key] = slices.Delete(equal[key], n, n+1)
			}
		}
	}
	one := len(a) == len(b) && prefix+suffix == len(a)-1 // left in each, between the same neighbours
	if !one && slices.Contains(from, -1) && slices.Contains(taken, false) {
		for _, p := range resemblances(a, b, from, taken) {
			take(p.b, p.a)
		}
	}
	for j := 0; j < len(b); j++ {
		end := j
		for end < len(b) && from[end] < 0 {
			end++
		}
		first, after := 0, len(a) // of a, what is between the neighbours
		if j > 0 {
			first = from[j-1] + 1
		}
		if end < len(b) {
			after = from[end]
		}
		if after-first == end-j && !slices.Contains(taken[first:after], true) {
			for i := range end - j {
				take(j+i, first+i)
			}
		}
		j = end
	}
	return from
}

// canonicalKey is equal for values that are alike.
func canonicalKey(v bson.RawValue) string { return string(rune(v.Type)) + string(canonical(v).Value) }

// A pair is an element of each array that share values; first is the place of the first
// field of these.
type pair struct{ a, b, shared, first int }

// resemblances pairs the documents not matched yet that share values of which each
// array has one: those that share the most first, then those that share an earlier
// field, as names and keys come first.
func resemblances(a, b []field, from []int, taken []bool) []pair {
	const several = -1
	type owner struct{ element, place int }
	owners := func(all []field) map[string]owner {
		out := map[string]owner{}
		for i, f := range all {
			inner, _ := f.value.DocumentOK()
			for place, e := range open(inner) {
				key := e.key + "\x00" + canonicalKey(e.value)
				if _, ok := out[key]; ok {
					out[key] = owner{element: several}
				} else {
					out[key] = owner{i, place}
				}
			}
		}
		return out
	}
	inA := owners(a)
	found := map[[2]int]pair{}
	for key, in := range owners(b) {
		of, ok := inA[key]
		if !ok || of.element == several || in.element == several || taken[of.element] || from[in.element] >= 0 {
			continue
		}
		at := [2]int{of.element, in.element}
		p, ok := found[at]
		if !ok {
			p = pair{a: of.element, b: in.element, first: in.place}
		}
		p.shared, p.first = p.shared+1, min(p.first, in.place)
		found[at] = p
	}
	return slices.SortedFunc(maps.Values(found), func(x, y pair) int {
		return cmp.Or(y.shared-x.shared, x.first-y.first, x.a-y.a, x.b-y.b)
	})
}

// increasing keeps of the places in from the longest sequence that only grows; the
// others become -1.
func increasing(from []int) {
	var ends []int // of the sequences of each length: the smallest last place
	length := make([]int, len(from))
	for j, i := range from {
		if i < 0 {
			continue
		}
		n := sort.SearchInts(ends, i)
		if n == len(ends) {
			ends = append(ends, 0)
		}
		ends[n], length[j] = i, n+1
	}
	want := len(ends) // backwards: the last element of this length that fits is one of the sequence
	last := math.MaxInt
	for j, i := range slices.Backward(from) {
		if i >= 0 && length[j] == want && i < last {
			want, last = want-1, i
		} else {
			from[j] = -1
		}
	}
}
