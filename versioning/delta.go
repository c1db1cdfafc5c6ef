package versioning

import (
	"bytes"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A delta makes one document out of another, to the byte:
//
//	{
//	  of:    Binary(…),            // at the top: the digest of the other one
//	  unset: ["b"],                // fields to take away
//	  set:   {a: 2, d: "new"},     // values to put in their place or at the end
//	  in:    {items: <delta>}      // documents and arrays that change inside
//	}
//
// An array that keeps its length changes as a document does, by its places. Another is
// {at: 1, drop: 2, put: […]}, from a place on.
const (
	ofKey    = "of"
	unsetKey = "unset"
	setKey   = "set"
	inKey    = "in"
	atPlace  = "at"
	dropKey  = "drop"
	putKey   = "put"
)

var errDelta = errors.New("delta does not fit")

// deltaOf returns what makes b of a. Where fields stand in another order, but for new
// ones at the end, there is none.
func deltaOf(a, b bson.Raw) (delta []field, ok bool) {
	x, _ := fields(a)
	y, _ := fields(b)
	what := changes(x, y)
	if !bytes.Equal(patched(a, what), b) {
		return nil, false
	}
	var unset, set, in []field
	for i, old := range pick(a, what) {
		switch inner, ok := inside(old.value, what[i].value); {
		case what[i].value.Type == 0:
			unset = append(unset, field{value: stringValue(what[i].key)})
		case ok:
			in = append(in, field{what[i].key, inner})
		default:
			set = append(set, what[i])
		}
	}
	if unset != nil {
		delta = append(delta, field{unsetKey, arrayValue(unset)})
	}
	if set != nil {
		delta = append(delta, field{setKey, documentValue(set)})
	}
	if in != nil {
		delta = append(delta, field{inKey, documentValue(in)})
	}
	return delta, true
}

// inside returns the delta of two documents, or two arrays, if it takes less than
// the second one.
func inside(a, b bson.RawValue) (bson.RawValue, bool) {
	x, xOK := parts(a)
	y, yOK := parts(b)
	if !xOK || !yOK || a.Type != b.Type {
		return bson.RawValue{}, false
	}
	var delta []field
	ok := true
	if a.Type == bson.TypeArray && len(x) != len(y) {
		prefix, suffix := common(x, y, identical)
		delta = []field{
			{atPlace, int32Value(prefix)},
			{dropKey, int32Value(len(x) - prefix - suffix)},
			{putKey, arrayValue(y[prefix : len(y)-suffix])},
		}
	} else {
		delta, ok = deltaOf(a.Value, b.Value)
	}
	out := documentValue(delta)
	return out, ok && len(out.Value) < len(b.Value)
}

// applyDelta is the inverse of deltaOf. It leaves the inside of ignored fields alone.
func applyDelta(a, delta bson.Raw, ignored ...string) (bson.Raw, error) {
	all, err := fields(delta)
	if err != nil {
		return nil, err
	}
	var what []field
	for _, f := range all {
		inner, ok := parts(f.value)
		switch {
		case f.key == ofKey:
		case !ok:
			return nil, errDelta
		case f.key == unsetKey:
			for _, name := range inner {
				key, ok := name.value.StringValueOK()
				if !ok {
					return nil, errDelta
				}
				what = append(what, field{key: key})
			}
		case f.key == setKey:
			what = append(what, inner...)
		case f.key == inKey:
			for i, old := range pick(a, inner) {
				if slices.Contains(ignored, old.key) {
					continue
				}
				if old.value, err = applyInside(old.value, inner[i].value); err != nil {
					return nil, err
				}
				what = append(what, old)
			}
		default:
			return nil, errDelta
		}
	}
	return patched(a, what), nil
}

func applyInside(a, delta bson.RawValue) (bson.RawValue, error) {
	raw, ok := delta.DocumentOK()
	all, isOpen := parts(a)
	if !ok || !isOpen {
		return a, errDelta
	}
	if a.Type != bson.TypeArray || raw.Lookup(putKey).Type == 0 {
		out, err := applyDelta(a.Value, raw)
		return bson.RawValue{Type: a.Type, Value: out}, err
	}
	put, ok := parts(raw.Lookup(putKey))
	at, atOK := raw.Lookup(atPlace).Int32OK()
	drop, dropOK := raw.Lookup(dropKey).Int32OK()
	if !ok || !atOK || !dropOK || at < 0 || drop < 0 || int(at) > len(all)-int(drop) {
		return a, errDelta
	}
	return arrayValue(slices.Concat(all[:at], put, all[at+drop:])), nil
}
