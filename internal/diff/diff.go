package diff

import (
	"math"
	"slices"
	"sort"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Difference is a field that has different values in two documents. Old or New is zero if only
// the other document has the field. Path includes the places of array elements: for a removed
// element the place in the old array, otherwise that in the new one.
type Difference struct {
	Path     string
	Old, New bson.RawValue
}

// Diff returns the differences between a and b. Documents and arrays are compared inside; an
// element inserted into an array, or removed, is one difference. If only the order of fields inside
// a document differs, the whole document is one difference.
func Diff(a, b []Field) []Difference { return inDocument("", a, b) }

func inDocument(prefix string, a, b []Field) (out []Difference) {
	inA, inB := In(a), In(b)
	for _, x := range a {
		if y := inB.Value(x.Key); !Identical(x.Value, y) {
			out = append(out, inValue(prefix+x.Key, x.Value, y)...)
		}
	}
	for _, y := range b {
		if inA.Value(y.Key).Type == 0 {
			out = append(out, Difference{Path: prefix + y.Key, New: y.Value})
		}
	}
	return out
}

// inValue returns the differences between two values that are not equal.
func inValue(path string, a, b bson.RawValue) (out []Difference) {
	if x, y, ok := Inside(a, b); ok {
		if a.Type == bson.TypeArray {
			out = inArray(path+".", x, y)
		} else {
			out = inDocument(path+".", x, y)
		}
	}
	if out == nil {
		out = []Difference{{Path: path, Old: a, New: b}}
	}
	return out
}

// inArray returns the differences between two arrays. It compares matched elements that are in the
// same order in both; the others are removed or inserted.
func inArray(prefix string, a, b []Field) (out []Difference) {
	from := match(a, b, Identical)
	increasing(from)
	done := 0 // elements of a so far
	removed := func(to int) {
		for ; done < to; done++ {
			out = append(out, Difference{Path: prefix + strconv.Itoa(done), Old: a[done].Value})
		}
	}
	for j, y := range b {
		path, i := prefix+strconv.Itoa(j), from[j]
		if i < 0 {
			out = append(out, Difference{Path: path, New: y.Value})
			continue
		}
		removed(i)
		done++
		if !Identical(a[i].Value, y.Value) {
			out = append(out, inValue(path, a[i].Value, y.Value)...)
		}
	}
	removed(len(a))
	return out
}

// increasing keeps the longest increasing sequence of the places in from; the others become -1.
func increasing(from []int) {
	var ends []int // for the sequences of each length, the smallest last place
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
	want := len(ends) // backwards: the last place of this length below the one found before belongs to the sequence
	last := math.MaxInt
	for j, i := range slices.Backward(from) {
		if i >= 0 && length[j] == want && i < last {
			want, last = want-1, i
		} else {
			from[j] = -1
		}
	}
}
