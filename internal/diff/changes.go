package diff

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Changes returns the changes that Patch needs to make b of a: first the fields that only a has,
// without a value, then the fields of b that a has with another value or not at all.
func Changes(a, b []Field) []Field {
	gone, out, _ := Differing(a, b, Identical)
	in := In(b) // not out: if a has a field twice, b may have it with one of the values
	gone = slices.DeleteFunc(gone, func(f Field) bool { return in.Place(f.Key) >= 0 })
	for i := range gone {
		gone[i].Value = bson.RawValue{}
	}
	return append(gone, out...)
}

// Patch returns a document with changes: a field is replaced or, if the document does not have it,
// added at the end; a change without a value removes it.
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

// Differing returns the fields of two documents, without those that are alike in both and those to
// skip. ok is false if b has a field twice.
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
