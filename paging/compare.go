package paging

import (
	"bytes"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// brackets are the kinds of value that compare with each other, in the order in
// which the server sorts them, by the names $type knows. null, which also stands
// for a missing field, and MinKey come before all of them. Arrays are left out:
// they are not sorted as values.
var brackets = [...]string{
	bracketNumber: "number", "string", "symbol", "object", "binData", "objectId", "bool",
	"date", "timestamp", "regex", "dbPointer", "javascript", "javascriptWithScope",
	bracketMaxKey: "maxKey",
}

const (
	bracketMinKey = -2
	bracketNull   = -1
	bracketNumber = 0
	bracketString = 1
	bracketSymbol = 2 // compares as a string does
	bracketMaxKey = 13
)

// bracketOf gives the place of a type in brackets; ok is false for types that
// cannot be sort values.
func bracketOf(t bson.Type) (n int, ok bool) {
	switch t {
	case bson.TypeMinKey:
		return bracketMinKey, true
	case bson.TypeNull:
		return bracketNull, true
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal128:
		return bracketNumber, true
	case bson.TypeString, bson.TypeSymbol:
		return bracketString, true
	case bson.TypeEmbeddedDocument:
		return 3, true
	case bson.TypeBinary:
		return 4, true
	case bson.TypeObjectID:
		return 5, true
	case bson.TypeBoolean:
		return 6, true
	case bson.TypeDateTime:
		return 7, true
	case bson.TypeTimestamp:
		return 8, true
	case bson.TypeDBPointer:
		return 10, true
	case bson.TypeJavaScript:
		return 11, true
	case bson.TypeCodeWithScope:
		return 12, true
	case bson.TypeMaxKey:
		return bracketMaxKey, true
	}
	return 0, false
}

func isNaN(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeDouble:
		return math.IsNaN(v.Double())
	case bson.TypeDecimal128:
		return v.Decimal128().IsNaN()
	}
	return false
}

// beyond gives the conditions on one field that together match exactly the
// values sorted after v, and v itself if inclusive. They do not overlap and
// stand in the order of the result. Each is one range of an index, or a few
// adjoining ones. Nothing comes beyond the last value: then there are none.
//
// uniform leaves out what a uniform field does not hold: values of another
// bracket.
//
// Comparisons of a query stay within the bracket of their operand, hence $type;
// null and MinKey are matched by equality, because $type does not see a missing
// field; and no comparison but equality finds NaN. An empty array sorts between
// MinKey and null: it is matched there, so that a page meets it and refuses it.
func beyond(v bson.RawValue, desc, inclusive bool, kind uniformity) []any {
	bracket, _ := bracketOf(v.Type)
	switch {
	case kind != mixed && bracket != bracketMinKey && bracket != bracketMaxKey:
		return uniformBeyond(v, bracket, desc, inclusive, kind == uniformID)
	case desc:
		return below(v, bracket, inclusive)
	}
	return above(v, bracket, inclusive)
}

// uniformity is what a field is known to hold.
type uniformity int

const (
	mixed     uniformity = iota // anything
	uniform                     // one bracket, null, missing
	uniformID                   // one bracket
)

func above(v bson.RawValue, bracket int, inclusive bool) []any {
	switch {
	case bracket == bracketMinKey && inclusive:
		return []any{in(bson.MinKey{}, bson.A{}, nil), types(bracketNumber, bracketMaxKey)}
	case bracket == bracketMinKey:
		return []any{in(bson.A{}, nil), types(bracketNumber, bracketMaxKey)}
	case bracket == bracketNull && inclusive:
		return []any{equal(nil), types(bracketNumber, bracketMaxKey)}
	case bracket == bracketNull, isNaN(v) && inclusive:
		return []any{types(bracketNumber, bracketMaxKey)}
	case isNaN(v):
		return []any{numbers(), types(bracketString, bracketMaxKey)}
	case bracket == bracketMaxKey && inclusive:
		return []any{equal(v)}
	case bracket == bracketMaxKey:
		return nil
	}
	next := bracket + 1
	if bracket == bracketString {
		next = bracketSymbol + 1
	}
	return []any{compared(v, false, inclusive), types(next, bracketMaxKey)}
}

func below(v bson.RawValue, bracket int, inclusive bool) []any {
	switch {
	case bracket == bracketMinKey && !inclusive:
		return nil
	case bracket == bracketMinKey:
		return []any{equal(bson.MinKey{})}
	case bracket == bracketNull && !inclusive:
		return []any{in(bson.A{}, bson.MinKey{})}
	case bracket == bracketNull, isNaN(v) && !inclusive:
		return []any{in(nil, bson.A{}, bson.MinKey{})}
	case isNaN(v):
		return []any{in(math.NaN(), nil, bson.A{}, bson.MinKey{})}
	case bracket == bracketMaxKey && inclusive:
		return []any{types(bracketNumber, bracketMaxKey), in(nil, bson.A{}, bson.MinKey{})}
	case bracket == bracketMaxKey:
		return []any{types(bracketNumber, bracketMaxKey-1), in(nil, bson.A{}, bson.MinKey{})}
	case bracket == bracketNumber:
		return []any{compared(v, true, inclusive), in(math.NaN(), nil, bson.A{}, bson.MinKey{})}
	}
	return []any{compared(v, true, inclusive), types(bracketNumber, bracket-1), in(nil, bson.A{}, bson.MinKey{})}
}

// uniformBeyond is for fields of one bracket, null, or missing.
func uniformBeyond(v bson.RawValue, bracket int, desc, inclusive, neverNull bool) []any {
	null := bracket == bracketNull
	var out []any
	switch {
	case null && inclusive:
		out = append(out, equal(nil))
	case null:
	case isNaN(v) && inclusive && desc:
		return []any{in(math.NaN(), nil)}
	case isNaN(v) && !desc && inclusive:
		return []any{present()}
	case isNaN(v) && !desc:
		return []any{numbers()}
	case isNaN(v):
	default:
		out = append(out, compared(v, desc, inclusive))
	}
	switch {
	case null && !desc:
		return append(out, present())
	case null, !desc, neverNull:
		return out
	case bracket == bracketNumber && !isNaN(v):
		return append(out, in(math.NaN(), nil))
	}
	return append(out, equal(nil))
}

func compared(v bson.RawValue, desc, inclusive bool) bson.D {
	op := "$gt"
	if desc {
		op = "$lt"
	}
	if inclusive {
		op += "e"
	}
	return bson.D{{Key: op, Value: v}}
}

// equal matches a value: by the value alone, which every planner knows, unless
// it could be taken for operators.
func equal(v any) any {
	if raw, ok := v.(bson.RawValue); ok && raw.Type == bson.TypeEmbeddedDocument {
		return bson.D{{Key: "$eq", Value: v}}
	}
	return v
}

func present() bson.D { return bson.D{{Key: "$ne", Value: nil}} }

// numbers matches all but NaN.
func numbers() bson.D { return bson.D{{Key: "$gte", Value: math.Inf(-1)}} }

func types(from, to int) bson.D {
	if from == to {
		return bson.D{{Key: "$type", Value: brackets[from]}}
	}
	names := make(bson.A, 0, to-from+1)
	for _, name := range brackets[from : to+1] {
		names = append(names, name)
	}
	return bson.D{{Key: "$type", Value: names}}
}

func in(values ...any) bson.D {
	return bson.D{{Key: "$in", Value: bson.A(values)}}
}

func sameValue(a, b bson.RawValue) bool {
	return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
}

// mayEqual reports whether the server may take two values for equal. It is sure
// about those that nearly all `_id`s are.
func mayEqual(a, b bson.RawValue, collated bool) bool {
	if sameValue(a, b) {
		return true
	}
	if a.Type == bson.TypeArray && b.Type == bson.TypeArray { // inside a document
		return mayEqualInside(a, b, collated)
	}
	bracket, okA := bracketOf(a.Type)
	other, okB := bracketOf(b.Type)
	if !okA || !okB || other != bracket {
		return false
	}
	switch {
	case a.Type == bson.TypeDecimal128 || b.Type == bson.TypeDecimal128, a.Type == bson.TypeCodeWithScope:
		return true
	case bracket == bracketNumber && a.Type != bson.TypeDouble && b.Type != bson.TypeDouble:
		return a.AsInt64() == b.AsInt64()
	case bracket == bracketNumber:
		return a.AsFloat64() == b.AsFloat64() || isNaN(a) && isNaN(b)
	case bracket == bracketString:
		return collated || bytes.Equal(a.Value, b.Value)
	case a.Type == bson.TypeEmbeddedDocument:
		return mayEqualInside(a, b, collated)
	}
	return false
}

func mayEqualInside(a, b bson.RawValue, collated bool) bool {
	inA, errA := bson.Raw(a.Value).Elements()
	inB, errB := bson.Raw(b.Value).Elements()
	return errA == nil && errB == nil && slices.EqualFunc(inA, inB, func(x, y bson.RawElement) bool {
		return x.Key() == y.Key() && mayEqual(x.Value(), y.Value(), collated)
	})
}

// deeper reports whether documents and arrays are nested in v more than so many
// levels deep, or are damaged.
func deeper(v bson.RawValue, levels int) bool {
	inside := bson.Raw(v.Value)
	switch v.Type {
	case bson.TypeEmbeddedDocument, bson.TypeArray:
	case bson.TypeCodeWithScope:
		var ok bool
		if _, inside, ok = v.CodeWithScopeOK(); !ok {
			return true
		}
	default:
		return false
	}
	if levels == 0 {
		return true
	}
	elements, err := inside.Elements()
	return err != nil || slices.ContainsFunc(elements, func(e bson.RawElement) bool { return deeper(e.Value(), levels-1) })
}
