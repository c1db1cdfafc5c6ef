package versioning

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
