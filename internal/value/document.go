package value

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Document returns the document of encoded elements.
func Document(elements ...[]byte) bson.Raw {
	size := 5
	for _, e := range elements {
		size += len(e)
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	for _, e := range elements {
		out = append(out, e...)
	}
	return append(out, 0)
}

// Array returns an array of these values. The driver would encode them one by one, with several allocations
// each.
func Array(values []bson.RawValue) bson.RawValue {
	out := make(bson.Raw, 4, 5+24*len(values))
	for i, v := range values {
		out = append(strconv.AppendInt(append(out, byte(v.Type)), int64(i), 10), 0)
		out = append(out, v.Value...)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: end(out)}
}

// Values are those of an array, none for any other value.
func Values(array bson.RawValue) []bson.RawValue {
	raw, _ := array.ArrayOK()
	values, _ := raw.Values()
	return values
}

// An Element is a field of a document.
type Element struct {
	Name  string
	Value bson.RawValue
}

// With returns a valid document with these fields at its beginning; they replace its own fields of the same
// names.
func With(doc bson.Raw, first ...Element) bson.Raw {
	out := make(bson.Raw, 4, len(doc)+64)
	for _, e := range first {
		out = appendElement(out, e)
	}
	return pick(out, doc, func(field []byte) bool {
		return !slices.ContainsFunc(first, func(e Element) bool { return e.Name == string(field) })
	})
}

// Pick returns the fields of a valid document that keep chooses.
func Pick(doc bson.Raw, keep func(field []byte) bool) bson.Raw {
	return pick(make(bson.Raw, 4, len(doc)), doc, keep)
}

// Append returns a valid document with one more field.
func Append(doc bson.Raw, e Element) bson.Raw {
	out := make(bson.Raw, 0, len(doc)+len(e.Name)+len(e.Value.Value)+2)
	return end(appendElement(append(out, doc[:len(doc)-1]...), e))
}

// MaxLevels is how many levels of documents and arrays a stored document can have, itself included.
const MaxLevels = 180

// Deeper reports whether a valid value has more than so many levels of documents and arrays, itself included. A level
// takes at least 7 bytes, so small values need no look inside.
func Deeper(v bson.RawValue, levels int) bool {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray || len(v.Value) < 5+7*levels {
		return false
	}
	elements, _ := bson.Raw(v.Value).Elements()
	return levels == 0 || slices.ContainsFunc(elements, func(e bson.RawElement) bool { return Deeper(e.Value(), levels-1) })
}

func pick(out, doc bson.Raw, keep func(field []byte) bool) bson.Raw {
	elements, _ := doc.Elements()
	for _, e := range elements {
		if keep(e[1 : 1+bytes.IndexByte(e[1:], 0)]) {
			out = append(out, e...)
		}
	}
	return end(out)
}

func appendElement(out bson.Raw, e Element) bson.Raw {
	out = append(append(append(out, byte(e.Value.Type)), e.Name...), 0)
	return append(out, e.Value.Value...)
}

// end completes a document: out has room for the length at its start, and then the fields.
func end(out bson.Raw) bson.Raw {
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}
