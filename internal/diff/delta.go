package diff

import (
	"encoding/binary"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A delta describes how to make one document of another, to the byte:
//
//	{
//	  unset: ["b"],                // fields to take away
//	  set:   {a: 2, d: "new"},     // values to put in their place or at the end
//	  in:    {items: <delta>}      // documents and arrays that change inside
//	}
//
// If an array keeps its length, its delta is that of a document, with places as names. Otherwise it
// is {at: 1, drop: 2, put: […]}: at a place, some elements are replaced by others.
const (
	unsetKey = "unset"
	setKey   = "set"
	inKey    = "in"
	atKey    = "at"
	dropKey  = "drop"
	putKey   = "put"
)

// errDelta: the delta was not made from the document that it is applied to.
var errDelta = errors.New("the delta was made from another document")

// Delta returns the delta that Apply needs to turn a into b. ok is false if the fields that both have are
// in another order: no delta can say that.
func Delta(a, b []Field) (delta []Field, ok bool) {
	changes := Changes(a, b)
	if !Same(Patch(a, changes), b) {
		return nil, false
	}
	var unset, set, in []Field
	inA := In(a)
	for _, c := range changes {
		if c.Value.Type == 0 {
			unset = append(unset, Field{Value: text(c.Key)})
		} else if inside, ok := deltaInside(inA.Value(c.Key), c.Value); ok {
			in = append(in, Field{c.Key, inside})
		} else {
			set = append(set, c)
		}
	}
	return Filled(Field{unsetKey, Array(unset)}, Field{setKey, Embedded(set)}, Field{inKey, Embedded(in)}), true
}

// deltaInside returns the delta of two documents or two arrays, if it is smaller than the second
// one.
func deltaInside(a, b bson.RawValue) (bson.RawValue, bool) {
	x, y, ok := Inside(a, b)
	if !ok {
		return bson.RawValue{}, false
	}
	var delta []Field
	if a.Type == bson.TypeArray && len(x) != len(y) {
		prefix, suffix := common(x, y, Identical)
		delta = []Field{
			{atKey, number(prefix)}, {dropKey, number(len(x) - prefix - suffix)},
			{putKey, Array(y[prefix : len(y)-suffix])},
		}
	} else {
		delta, ok = Delta(x, y)
	}
	out := Embedded(delta)
	return out, ok && len(out.Value) < len(b.Value)
}

// Apply applies a delta to a. It skips the changes inside ignored fields.
func Apply(a, delta []Field, ignored ...string) ([]Field, error) {
	var changes []Field
	inA := In(a)
	for _, part := range delta {
		all, ok := inner(part.Value)
		if !ok {
			return nil, errDelta
		}
		switch part.Key {
		case setKey:
			changes = append(changes, all...)
		case unsetKey:
			for _, f := range all {
				name, ok := f.Value.StringValueOK()
				if !ok {
					return nil, errDelta
				}
				changes = append(changes, Field{Key: name})
			}
		case inKey:
			for _, f := range Without(all, ignored...) {
				v, err := applyInside(inA.Value(f.Key), f.Value)
				if err != nil {
					return nil, err
				}
				changes = append(changes, Field{f.Key, v})
			}
		default:
			return nil, errDelta
		}
	}
	return Patch(a, changes), nil
}

func applyInside(a, delta bson.RawValue) (bson.RawValue, error) {
	raw, ok := delta.DocumentOK()
	all, isOpen := inner(a)
	if !ok || !isOpen {
		return a, errDelta
	}
	if a.Type != bson.TypeArray || raw.Lookup(putKey).Type == 0 {
		out, err := Apply(all, Open(raw))
		return bson.RawValue{Type: a.Type, Value: Raw(out)}, err
	}
	put, ok := inner(raw.Lookup(putKey))
	at, atOK := raw.Lookup(atKey).Int32OK()
	drop, dropOK := raw.Lookup(dropKey).Int32OK()
	if !ok || !atOK || !dropOK || at < 0 || drop < 0 || int(at) > len(all)-int(drop) {
		return a, errDelta
	}
	return Array(slices.Concat(all[:at], put, all[at+drop:])), nil
}

func text(s string) bson.RawValue {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(s)+1))
	return bson.RawValue{Type: bson.TypeString, Value: append(append(out, s...), 0)}
}

func number(n int) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))}
}
