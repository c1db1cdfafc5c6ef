package doc

import (
	"math"
	"slices"
	"sort"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Difference is a value that two documents have different; Old or New is none where only
// one has it. The place of an element is part of the path: in the old array for one that was
// removed, else in the new one.
type Difference struct {
	Path     string
	Old, New bson.RawValue
}

// Diff lists the differences of b from a. Documents and arrays are compared inside; an
// element inserted into an array, or removed, is one difference. Where inside a document
// only the order of fields differs, the whole document is the difference.
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

// inValue lists the differences of two values that differ.
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

// inArray takes elements that are in both, in the same order, for the same.
func inArray(prefix string, a, b []Field) (out []Difference) {
	from := match(a, b, Identical)
	increasing(from)
	done := 0 // of a
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
