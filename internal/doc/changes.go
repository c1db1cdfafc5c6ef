package doc

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Changes is what Patch makes b of a by: the fields that a has and b has not, without a
// value, and then those of b that a has otherwise or not at all.
func Changes(a, b []Field) []Field {
	gone, out, _ := Differing(a, b, Identical)
	in := In(b) // not out: of a field that stands twice in a, one may be in b
	gone = slices.DeleteFunc(gone, func(f Field) bool { return in.Place(f.Key) >= 0 })
	for i := range gone {
		gone[i].Value = bson.RawValue{}
	}
	return append(gone, out...)
}

// Patch is a document with some fields replaced, taken away (where the change has no
// value) or, if it has none of that name, added at the end.
func Patch(all, changes []Field) []Field {
	in := In(all)
	out := append(make([]Field, 0, len(all)+len(changes)), all...)
	for _, c := range changes {
		if i := in.Place(c.Key); i >= 0 {
			out[i] = c
		} else {
			out = append(out, c)
		}
	}
	return slices.DeleteFunc(out, func(f Field) bool { return f.Value.Type == 0 })
}

// Differing returns the fields of two documents but for those that both have alike, and
// those to skip. ok is false if a field stands twice in b.
func Differing(a, b []Field, alike func(x, y bson.RawValue) bool, skip ...string) (x, y []Field, ok bool) {
	in, seen, twice := In(a), make([]bool, len(a)), false
	for _, f := range b {
		i := in.Place(f.Key)
		if i >= 0 {
			twice = twice || seen[i]
			seen[i] = true
		}
		switch {
		case i >= 0 && alike(a[i].Value, f.Value) || slices.Contains(skip, f.Key):
		case i >= 0:
			x, y = append(x, a[i]), append(y, f)
		default:
			y = append(y, f)
		}
	}
	for i, f := range a {
		if !seen[i] && !slices.Contains(skip, f.Key) {
			x = append(x, f)
		}
	}
	return x, y, !twice && Distinct(y)
}
