package versioning

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A delta makes one state of a document out of another, to the byte. It is a BSON
// document, of which every part may be missing:
//
//	{
//	  unset: ["b"],                    // fields to take away
//	  set:   {a: 2, d: "new"},         // values to put in their place or at the end
//	  in:    {items: <delta>},         // fields whose document or array changes inside
//	  order: ["_id", "d", "a", …]      // of all fields, where it is another now
//	}
//
// At the top it also has of: the digest of the state that it was made from.
//
// Inside an array of len elements it is one of
//
//	{len: 3, each: {"1": <delta>, "2": {to: 5}}}   // in place, {to: …} as a whole
//	{len: 3, at: 1, drop: 2, put: […]}             // from place at on
const (
	ofKey    = "of"
	unsetKey = "unset"
	setKey   = "set"
	inKey    = "in"
	orderKey = "order"
	lenKey   = "len"
	eachKey  = "each"
	toKey    = "to"
	fromKey  = "at"
	dropKey  = "drop"
	putKey   = "put"
)

var errDelta = errors.New("delta does not fit")

// deltaOf returns what makes b of a. Both have each field once.
func deltaOf(a, b []field) []field {
	var unset, set, in, made []field
	inA, inB := index(a), index(b)
	for _, x := range a {
		y, ok := inB(x.key)
		switch {
		case !ok:
			unset = append(unset, field{value: stringValue(x.key)})
			continue
		case identical(x.value, y):
		default:
			if inner, ok := inside(x.value, y); ok {
				in = append(in, field{x.key, inner})
			} else {
				set = append(set, field{x.key, y})
			}
		}
		made = append(made, x)
	}
	for _, y := range b {
		if _, ok := inA(y.key); !ok {
			set = append(set, y)
			made = append(made, y)
		}
	}
	var out []field
	if unset != nil {
		out = append(out, field{unsetKey, arrayValue(unset)})
	}
	if set != nil {
		out = append(out, field{setKey, documentValue(set)})
	}
	if in != nil {
		out = append(out, field{inKey, documentValue(in)})
	}
	var order []field
	inOrder := true
	for i, y := range b {
		inOrder = inOrder && made[i].key == y.key
		order = append(order, field{value: stringValue(y.key)})
	}
	if !inOrder {
		out = append(out, field{orderKey, arrayValue(order)})
	}
	return out
}

// inside returns the delta of two documents, or two arrays, if it takes less than
// the second one.
func inside(a, b bson.RawValue) (bson.RawValue, bool) {
	x, xOK := parts(a)
	y, yOK := parts(b)
	if a.Type != b.Type || !xOK || !yOK {
		return bson.RawValue{}, false
	}
	var delta bson.RawValue
	if a.Type == bson.TypeEmbeddedDocument {
		delta = documentValue(deltaOf(x, y))
	} else {
		delta = arrayDelta(x, y)
	}
	return delta, len(delta.Value) < len(b.Value)
}

func arrayDelta(a, b []field) bson.RawValue {
	out := []field{{lenKey, int32Value(len(a))}}
	prefix, suffix := common(a, b, identical)
	if len(a) == len(b) {
		var each []field
		for i := prefix; i < len(a)-suffix; i++ {
			if identical(a[i].value, b[i].value) {
				continue
			}
			inner, ok := inside(a[i].value, b[i].value)
			if !ok {
				inner = documentValue([]field{{toKey, b[i].value}})
			}
			each = append(each, field{strconv.Itoa(i), inner})
		}
		return documentValue(append(out, field{eachKey, documentValue(each)}))
	}
	return documentValue(append(out,
		field{fromKey, int32Value(prefix)},
		field{dropKey, int32Value(len(a) - prefix - suffix)},
		field{putKey, arrayValue(b[prefix : len(b)-suffix])}))
}

// applyDelta is the inverse of deltaOf. It leaves the inside of ignored fields alone.
func applyDelta(a []field, delta bson.Raw, ignored ...string) ([]field, error) {
	parts, err := takeApart(delta)
	if err != nil {
		return nil, err
	}
	unset := map[string]bool{}
	for _, f := range parts[unsetKey] {
		unset[f.value.StringValue()] = true
	}
	out := make([]field, 0, len(a))
	for _, f := range a {
		if !unset[f.key] {
			out = append(out, f)
		}
	}
	place := make(map[string]int, len(out))
	for i, f := range out {
		place[f.key] = i
	}
	for _, f := range parts[inKey] {
		if slices.Contains(ignored, f.key) {
			continue
		}
		i, ok := place[f.key]
		if !ok {
			return nil, errDelta
		}
		if out[i].value, err = applyInside(out[i].value, f.value); err != nil {
			return nil, err
		}
	}
	for _, f := range parts[setKey] {
		if i, ok := place[f.key]; ok {
			out[i].value = f.value
		} else {
			place[f.key] = len(out)
			out = append(out, f)
		}
	}
	order := parts[orderKey]
	if order == nil {
		return out, nil
	}
	// What the order does not know, an ignored field, comes last.
	sorted := make([]field, 0, len(out))
	for _, f := range order {
		if i, ok := place[f.value.StringValue()]; ok {
			sorted = append(sorted, out[i])
			delete(place, out[i].key)
		}
	}
	for _, f := range out {
		if _, ok := place[f.key]; ok {
			sorted = append(sorted, f)
		}
	}
	return sorted, nil
}

// takeApart reads the parts of a document's delta. It checks what applyDelta relies
// on.
func takeApart(delta bson.Raw) (map[string][]field, error) {
	all, err := fields(delta)
	if err != nil {
		return nil, err
	}
	out := map[string][]field{}
	for _, f := range all {
		if f.key == ofKey {
			continue
		}
		inner, ok := parts(f.value)
		if !ok {
			return nil, errDelta
		}
		switch f.key {
		case unsetKey, orderKey:
			for _, name := range inner {
				if _, ok := name.value.StringValueOK(); !ok {
					return nil, errDelta
				}
			}
		case setKey, inKey:
		default:
			return nil, errDelta
		}
		out[f.key] = inner
	}
	return out, nil
}

func applyInside(a, delta bson.RawValue) (bson.RawValue, error) {
	raw, ok := delta.DocumentOK()
	if !ok {
		return a, errDelta
	}
	if to, err := raw.LookupErr(toKey); err == nil {
		return to, nil
	}
	all, ok := parts(a)
	if !ok {
		return a, errDelta
	}
	if a.Type == bson.TypeEmbeddedDocument {
		out, err := applyDelta(all, raw)
		return documentValue(out), err
	}
	number := func(key string) int {
		n, ok := raw.Lookup(key).Int32OK()
		if !ok || n < 0 {
			return math.MinInt32
		}
		return int(n)
	}
	if number(lenKey) != len(all) {
		return a, errDelta
	}
	if each, ok := parts(raw.Lookup(eachKey)); ok {
		for _, f := range each {
			i, err := strconv.Atoi(f.key)
			if err != nil || i < 0 || i >= len(all) {
				return a, errDelta
			}
			if all[i].value, err = applyInside(all[i].value, f.value); err != nil {
				return a, err
			}
		}
		return arrayValue(all), nil
	}
	at, drop := number(fromKey), number(dropKey)
	put, ok := parts(raw.Lookup(putKey))
	if !ok || at < 0 || drop < 0 || at+drop > len(all) {
		return a, errDelta
	}
	out := append(append(append([]field(nil), all[:at]...), put...), all[at+drop:]...)
	return arrayValue(out), nil
}
