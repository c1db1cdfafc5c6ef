package diff

import (
	"cmp"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// match returns for each element of b the place of the element of a that it is matched with, -1 for
// a new one. The rules are in the package's documentation.
func match(a, b []Field, same func(a, b bson.RawValue) bool) []int {
	m := matching{a: a, b: b, same: same, from: slices.Repeat([]int{-1}, len(b)), taken: make([]bool, len(a))}
	one := m.equal()
	if !one && slices.Contains(m.from, -1) && slices.Contains(m.taken, false) {
		for _, p := range m.resembling() {
			m.take(p.b, p.a)
		}
	}
	m.between()
	return m.from
}

type matching struct {
	a, b  []Field
	same  func(a, b bson.RawValue) bool
	from  []int  // for each element of b, its place in a, or -1
	taken []bool // for each element of a, whether it is matched
}

// take matches element j of b with element i of a, unless one of them is matched already.
func (m *matching) take(j, i int) {
	if m.from[j] < 0 && !m.taken[i] {
		m.from[j], m.taken[i] = i, true
	}
}

// common counts the elements that are the same at the start of two arrays, and of the rest those at
// the end.
func common(a, b []Field, same func(a, b bson.RawValue) bool) (prefix, suffix int) {
	shorter := min(len(a), len(b))
	for prefix < shorter && same(a[prefix].Value, b[prefix].Value) {
		prefix++
	}
	for suffix < shorter-prefix && same(a[len(a)-1-suffix].Value, b[len(b)-1-suffix].Value) {
		suffix++
	}
	return prefix, suffix
}

// equal matches equal elements: those at both ends, then the others, wherever they are. one reports
// that a single element is left in each array, at the same place.
func (m *matching) equal() (one bool) {
	prefix, suffix := common(m.a, m.b, m.same)
	places := map[string][]int{} // the places in a, between prefix and suffix, of each value
	for i := prefix; i < len(m.a)-suffix; i++ {
		key := canonicalKey(m.a[i].Value)
		places[key] = append(places[key], i)
	}
	for j := range m.b {
		switch {
		case j < prefix:
			m.take(j, j)
		case j >= len(m.b)-suffix:
			m.take(j, len(m.a)-len(m.b)+j)
		default:
			key := canonicalKey(m.b[j].Value)
			equal := func(i int) bool { return m.same(m.a[i].Value, m.b[j].Value) }
			if n := slices.IndexFunc(places[key], equal); n >= 0 {
				m.take(j, places[key][n])
				places[key] = slices.Delete(places[key], n, n+1)
			}
		}
	}
	return len(m.a) == len(m.b) && prefix+suffix == len(m.a)-1
}

// A pair is an element of each array. shared counts the values of fields that only these two have,
// first is the place of the first such field in b.
type pair struct{ a, b, shared, first int }

// resembling returns pairs of documents that are not matched yet: those that share most values
// first, then those that share an earlier field, because names and keys come first.
func (m *matching) resembling() []pair {
	inA, found := owners(m.a), map[[2]int]pair{}
	for value, in := range owners(m.b) {
		of, ok := inA[value]
		if !ok || of.element == several || in.element == several || m.taken[of.element] || m.from[in.element] >= 0 {
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

// An owner is the only element with a value in a field, and the place of the field.
type owner struct{ element, place int }

const several = -1 // more than one element

// owners returns the owner of each field and value in the documents among all.
func owners(all []Field) map[string]owner {
	out := map[string]owner{}
	for i, f := range all {
		raw, _ := f.Value.DocumentOK()
		for place, e := range Open(raw) {
			value := e.Key + "\x00" + canonicalKey(e.Value)
			if _, ok := out[value]; ok {
				out[value] = owner{element: several}
			} else {
				out[value] = owner{i, place}
			}
		}
	}
	return out
}

// between matches runs of elements between matched neighbours, if both runs have the same length
// and no element of them is matched.
func (m *matching) between() {
	for j := 0; j < len(m.b); j++ {
		end := j
		for end < len(m.b) && m.from[end] < 0 {
			end++
		}
		first, after := 0, len(m.a) // the run in a between the neighbours
		if j > 0 {
			first = m.from[j-1] + 1
		}
		if end < len(m.b) {
			after = m.from[end]
		}
		if after-first == end-j && !slices.Contains(m.taken[first:after], true) {
			for i := range end - j {
				m.take(j+i, first+i)
			}
		}
		j = end
	}
}
