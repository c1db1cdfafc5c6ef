package versioning

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A merge carries over to stored, one version of a document, what next has changed
// in known, another. What stored has beside known stays. Where both have changed the
// same value it is next's, and the path is a clash.
type merge struct {
	// loose: the order of fields inside does not count, as Go maps have made them.
	loose bool
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
func beside() *merge {
	return &merge{elements: func(_, _ []field) []int { return nil }}
}

// later is a merge with what later revisions have made of known.
func later() *merge {
	return &merge{elements: func(stored, known []field) []int { return match(known, stored, identical) }}
}

// document merges fields. The order at the top of a document does not count and
// stays that of stored; inside, a caller's own order counts.
func (m *merge) document(stored, known, next []field) []field {
	return m.fields("", stored, known, arranged(next, stored), func(path, key string) string { return path + key })
}

// arranged is all in the order of like, and what that does not have at the end.
func arranged(all, like []field) []field {
	out := make([]field, 0, len(all))
	inAll, inLike := index(all), index(like)
	for _, f := range like {
		if v, ok := inAll(f.key); ok {
			out = append(out, field{f.key, v})
		}
	}
	for _, f := range all {
		if _, ok := inLike(f.key); !ok {
			out = append(out, f)
		}
	}
	return out
}

// fields merges in the order of next. Fields of stored alone follow the one that
// they follow there.
func (m *merge) fields(path string, stored, known, next []field, join func(path, key string) string) []field {
	inStored, inKnown, inNext := index(stored), index(known), index(next)
	out := make([]field, 0, len(stored))
	var following map[string][]field
	anchor, anchored := "", false
	for _, s := range stored {
		if _, ok := inNext(s.key); ok {
			anchor, anchored = s.key, true
		} else if before, ok := inKnown(s.key); ok { // next has removed it
			m.clash(join(path, s.key), !m.same(before, s.value))
		} else if anchored {
			if following == nil {
				following = map[string][]field{}
			}
			following[anchor] = append(following[anchor], s)
		} else {
			out = append(out, s)
		}
	}
	for _, n := range next {
		before, inBoth := inKnown(n.key)
		s, ok := inStored(n.key)
		switch at := join(path, n.key); {
		case ok && inBoth:
			out = append(out, field{n.key, m.value(at, s, before, n.value)})
		case ok || !inBoth:
			m.clash(at, ok && !identical(s, n.value))
			out = append(out, n)
		case !m.same(before, n.value): // changed here, and removed there
			m.clash(at, true)
			out = append(out, n)
		}
		// Else it was removed there, or T makes it up where it is missing.
		out = append(out, following[n.key]...)
	}
	return out
}

func (m *merge) clash(path string, is bool) {
	if is && !slices.Contains(m.clashes, path) {
		m.clashes = append(m.clashes, path)
	}
}

func (m *merge) value(path string, stored, known, next bson.RawValue) bson.RawValue {
	if m.same(known, next) || identical(stored, next) {
		return stored
	}
	s, sOK := parts(stored)
	k, kOK := parts(known)
	n, nOK := parts(next)
	if stored.Type == known.Type && known.Type == next.Type && sOK && kOK && nOK {
		if next.Type == bson.TypeEmbeddedDocument {
			if m.loose {
				n = arranged(n, s)
			}
			return documentValue(m.fields(path+".", s, k, n, func(path, key string) string { return path + key }))
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
	call := func(all []field, is func(i int) int, others string) []field {
		out := make([]field, len(all))
		for i, f := range all {
			if out[i] = (field{others + strconv.Itoa(i), f.value}); is(i) >= 0 {
				out[i].key = strconv.Itoa(is(i))
			}
		}
		return out
	}
	from := match(known, next, m.same)
	return m.fields(path,
		call(stored, func(i int) int { return names[i] }, "stored "),
		call(known, func(i int) int { return i }, ""),
		call(next, func(j int) int { return from[j] }, "next "),
		func(path, _ string) string { return path })
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
// Each step takes time and memory in proportion to the arrays.
func match(a, b []field, same func(a, b bson.RawValue) bool) []int {
	from, taken := make([]int, len(b)), make([]bool, len(a))
	prefix, suffix := common(a, b, same)
	take := func(j, i int) { from[j], taken[i] = i, true }
	equal := map[string][]int{}
	for i := prefix; i < len(a)-suffix; i++ {
		key := canonicalKey(a[i].value)
		equal[key] = append(equal[key], i)
	}
	for j := range b {
		from[j] = -1
		switch {
		case j < prefix:
			take(j, j)
		case j >= len(b)-suffix:
			take(j, len(a)-len(b)+j)
		default:
			key := canonicalKey(b[j].value)
			if i := slices.IndexFunc(equal[key], func(i int) bool { return same(a[i].value, b[j].value) }); i >= 0 {
				take(j, equal[key][i])
				equal[key] = slices.Delete(equal[key], i, i+1)
			}
		}
	}
	for _, p := range resemblances(a, b, from, taken) {
		if from[p.b] < 0 && !taken[p.a] {
			take(p.b, p.a)
		}
	}
	for j := 0; j < len(b); j++ {
		if from[j] >= 0 {
			continue
		}
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
			for i := first; i < after; i++ {
				take(j+i-first, i)
			}
		}
		j = end
	}
	return from
}

// canonicalKey is equal for values that are alike.
func canonicalKey(v bson.RawValue) string { return string(rune(v.Type)) + string(canonical(v).Value) }

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
			if f.value.Type != bson.TypeEmbeddedDocument {
				continue
			}
			inner, _ := fields(bson.Raw(f.value.Value))
			for place, e := range inner {
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
	if !slices.Contains(from, -1) || !slices.Contains(taken, false) {
		return nil
	}
	inA := owners(a)
	found := map[[2]int]pair{}
	for key, in := range owners(b) {
		of, ok := inA[key]
		if !ok || of.element == several || in.element == several || taken[of.element] || from[in.element] >= 0 {
			continue
		}
		p, ok := found[[2]int{of.element, in.element}]
		if !ok {
			p = pair{a: of.element, b: in.element, first: in.place}
		}
		p.shared, p.first = p.shared+1, min(p.first, in.place)
		found[[2]int{p.a, p.b}] = p
	}
	return slices.SortedFunc(maps.Values(found), func(x, y pair) int {
		return cmp.Or(y.shared-x.shared, x.first-y.first, x.a-y.a, x.b-y.b)
	})
}

// increasing keeps of the places in from the longest sequence that only grows; the
// others become -1.
func increasing(from []int) {
	var ends, at []int // of the sequences of each length: the smallest last place, and where it is
	before := make([]int, len(from))
	for j, i := range from {
		if i < 0 {
			continue
		}
		n := sort.SearchInts(ends, i)
		if n == len(ends) {
			ends, at = append(ends, 0), append(at, 0)
		}
		ends[n], at[n], before[j] = i, j, -1
		if n > 0 {
			before[j] = at[n-1]
		}
	}
	keep := make([]bool, len(from))
	if len(at) > 0 {
		for j := at[len(at)-1]; j >= 0; j = before[j] {
			keep[j] = true
		}
	}
	for j := range from {
		if !keep[j] {
			from[j] = -1
		}
	}
}
