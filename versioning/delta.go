package versioning

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

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
func deltaOf(a, b []field) (delta []field, ok bool) {
	what := changes(a, b)
	if !same(patch(a, what), b) {
		return nil, false
	}
	var unset, set, in []field
	inA := index{all: a}
	for _, c := range what {
		if c.value.Type == 0 {
			unset = append(unset, field{value: valueOf(c.key)})
		} else if inner, ok := inside(inA.value(c.key), c.value); ok {
			in = append(in, field{c.key, inner})
		} else {
			set = append(set, c)
		}
	}
	parts := []field{{unsetKey, arrayValue(unset)}, {setKey, documentValue(set)}, {inKey, documentValue(in)}}
	return filled(parts...), true
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
			{atPlace, valueOf(int32(prefix))},
			{dropKey, valueOf(int32(len(x) - prefix - suffix))},
			{putKey, arrayValue(y[prefix : len(y)-suffix])},
		}
	} else {
		delta, ok = deltaOf(x, y)
	}
	out := documentValue(delta)
	return out, ok && len(out.Value) < len(b.Value)
}

// applyDelta is the inverse of deltaOf. It leaves the inside of ignored fields alone.
func applyDelta(a []field, delta bson.Raw, ignored ...string) ([]field, error) {
	var what []field
	inA := index{all: a}
	for _, f := range open(delta) {
		inner, ok := parts(f.value)
		switch {
		case f.key == ofKey:
			continue
		case !ok || f.key != unsetKey && f.key != setKey && f.key != inKey:
			return nil, errDelta
		case f.key == inKey:
			inner = without(inner, ignored...)
		}
		for _, c := range inner {
			err := error(nil)
			if name, isText := c.value.StringValueOK(); f.key == unsetKey && isText {
				c = field{key: name}
			} else if f.key == unsetKey {
				err = errDelta
			} else if f.key == inKey {
				c.value, err = applyInside(inA.value(c.key), c.value)
			}
			if err != nil {
				return nil, err
			}
			what = append(what, c)
		}
	}
	return patch(a, what), nil
}

func applyInside(a, delta bson.RawValue) (bson.RawValue, error) {
	raw, ok := delta.DocumentOK()
	all, isOpen := parts(a)
	if !ok || !isOpen {
		return a, errDelta
	}
	if a.Type != bson.TypeArray || raw.Lookup(putKey).Type == 0 {
		out, err := applyDelta(all, raw)
		return bson.RawValue{Type: a.Type, Value: document(out)}, err
	}
	put, ok := parts(raw.Lookup(putKey))
	at, atOK := raw.Lookup(atPlace).Int32OK()
	drop, dropOK := raw.Lookup(dropKey).Int32OK()
	if !ok || !atOK || !dropOK || at < 0 || drop < 0 || int(at) > len(all)-int(drop) {
		return a, errDelta
	}
	return arrayValue(slices.Concat(all[:at], put, all[at+drop:])), nil
}

const namesBytes = 4

// digest tells the document that a delta is made from: what the history keeps of it. It
// begins with a digest of the names of Options.Ignored, as with others it covers other
// fields.
func (d *store) digest(kept []field) []byte {
	names := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(d.opts.Ignored)), "\x00")))
	content := sha256.Sum256(document(kept))
	return append(names[:namesBytes:namesBytes], content[:12]...)
}

// fits reports whether a delta was made from a state. One made with other names in
// Options.Ignored cannot be told from it, and passes.
func (d *store) fits(delta bson.Raw, next *state) bool {
	_, was, ok := delta.Lookup(ofKey).BinaryOK()
	is := d.digest(d.kept(next))
	return ok && len(was) > namesBytes && (bytes.Equal(was, is) || !bytes.Equal(was[:namesBytes], is[:namesBytes]))
}
