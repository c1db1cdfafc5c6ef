package paging

import (
	"encoding/binary"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Tokens are bound to a hash of what is paged over. These functions write filters
// and pipelines so that those which the server takes for equal are equal bytes, and
// others are not: numbers by their value; the fields of a value in their order, the
// conditions of a filter in any, as those of a Go map come; the values of $in in any
// order.

// appendFilter writes a filter, or the operators on a field.
func appendFilter(out []byte, doc bson.Raw) []byte {
	elements := sortedElements(doc)
	if len(elements) == 1 && elements[0].Key() == "$eq" && elements[0].Value().Type != bson.TypeRegex {
		return appendValue(out, elements[0].Value())
	}
	out = binary.AppendUvarint(append(out, '{'), uint64(len(elements)))
	for _, e := range elements {
		out = appendText(out, e.Key())
		v := e.Value()
		switch name := e.Key(); {
		case name == "$and", name == "$or", name == "$nor":
			list, _ := bson.Raw(v.Value).Elements()
			out = binary.AppendUvarint(append(out, '['), uint64(len(list)))
			for _, inner := range list {
				out = appendCondition(out, inner.Value(), true)
			}
		case name == "$in", name == "$nin":
			list, _ := bson.Raw(v.Value).Elements()
			keys := make([]string, len(list))
			for i, inner := range list {
				keys[i] = value.Key(inner.Value())
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			out = binary.AppendUvarint(append(out, '['), uint64(len(keys)))
			for _, key := range keys {
				out = appendText(out, key)
			}
		case name == "$not", name == "$elemMatch":
			out = appendCondition(out, v, true)
		case name == "$expr", name == "$text", name == "$jsonSchema":
			out = appendExpression(out, v, false)
		case strings.HasPrefix(name, "$"):
			out = appendValue(out, v)
		default:
			out = appendCondition(out, v, false)
		}
	}
	return out
}

// appendCondition writes what a filter asks of a field: operators, or a value.
func appendCondition(out []byte, v bson.RawValue, filter bool) []byte {
	if doc, ok := v.DocumentOK(); ok && (filter || operators(doc)) {
		return appendFilter(out, doc)
	}
	return appendValue(out, v)
}

// appendExpression writes a stage or an expression. The fields of a document in it
// are mostly arguments, so they come in any order, except in sorts, and where they are
// values: inside comparisons and $literal.
func appendExpression(out []byte, v bson.RawValue, values bool) []byte {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return appendValue(out, v)
	}
	doc := bson.Raw(v.Value)
	elements := sortedElements(doc)
	if v.Type == bson.TypeArray || values && !operators(doc) {
		elements, _ = doc.Elements()
	}
	out = binary.AppendUvarint(append(out, byte(v.Type)), uint64(len(elements)))
	for _, e := range elements {
		out = appendText(out, e.Key())
		switch e.Key() {
		case "$match":
			out = appendCondition(out, e.Value(), true)
		case "$literal":
			out = appendValue(out, e.Value())
		case "$sort", "sortBy":
			out = appendExpression(out, e.Value(), true)
		case "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$in":
			out = appendExpression(out, e.Value(), true)
		default:
			out = appendExpression(out, e.Value(), values && (v.Type == bson.TypeArray || !operators(doc)))
		}
	}
	return out
}

func appendValue(out []byte, v bson.RawValue) []byte {
	return appendText(append(out, 'v'), value.Key(v))
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func sortedElements(doc bson.Raw) []bson.RawElement {
	elements, _ := doc.Elements()
	if len(elements) > 1 {
		slices.SortStableFunc(elements, func(a, b bson.RawElement) int { return strings.Compare(a.Key(), b.Key()) })
	}
	return elements
}
