package paging

import (
	"encoding/binary"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// reading is what a part of a filter or pipeline is.
type reading int

const (
	asFilter     reading = iota // conditions, in any order
	asCondition                 // what a filter asks of a field: operators, or a value
	asExpression                // stages and operators, their arguments in any order
	asOrdered                   // a sort, or what a comparison in an expression compares
	asValue
)

// appendCanonical writes a part so that what the server takes for equal is equal bytes,
// and other things are not: numbers by their value; the fields of a value in their
// order, those that may come from a Go map in any; the values of $in in any. Two ways to
// ask for the same, as 1 and {$eq: 1}, stay two. Tokens are bound to a hash of it.
func appendCanonical(out []byte, v bson.RawValue, as reading) []byte {
	doc, isDoc := v.DocumentOK()
	switch operated := isDoc && operators(doc); {
	case operated && as == asCondition:
		as = asFilter
	case as == asCondition:
		as = asValue
	case operated && as == asOrdered:
		as = asExpression
	}
	if as == asValue || !isDoc && v.Type != bson.TypeArray {
		return appendText(append(out, 'v'), value.Key(v))
	}
	elements, _ := bson.Raw(v.Value).Elements()
	if isDoc && as != asOrdered {
		slices.SortStableFunc(elements, func(a, b bson.RawElement) int { return strings.Compare(a.Key(), b.Key()) })
	}
	out = binary.AppendUvarint(append(out, byte(v.Type)), uint64(len(elements)))
	for _, e := range elements {
		name, inner := e.Key(), as
		out = appendText(out, name)
		switch {
		case !isDoc: // the elements of an array are what it is
		case as == asFilter && (name == "$in" || name == "$nin"):
			out = appendSet(out, e.Value())
			continue
		case as == asFilter && slices.Contains([]string{"$and", "$or", "$nor", "$not", "$elemMatch"}, name):
		case as == asFilter && slices.Contains([]string{"$expr", "$text", "$jsonSchema"}, name):
			inner = asExpression
		case as == asFilter && !strings.HasPrefix(name, "$"):
			inner = asCondition
		case as == asFilter, name == "$literal":
			inner = asValue
		case name == "$match":
			inner = asFilter
		case slices.Contains([]string{"$sort", "sortBy", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$in"}, name):
			inner = asOrdered
		}
		out = appendCanonical(out, e.Value(), inner)
	}
	return out
}

func appendSet(out []byte, v bson.RawValue) []byte {
	list, _ := bson.Raw(v.Value).Elements()
	keys := make([]string, len(list))
	for i, e := range list {
		keys[i] = value.Key(e.Value())
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	out = binary.AppendUvarint(out, uint64(len(keys)))
	for _, key := range keys {
		out = appendText(out, key)
	}
	return out
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func document(raw bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
}
