package paging

import (
	"bytes"
	"math"

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
// field; and no comparison but equality finds NaN.
func beyond(v bson.RawValue, desc, inclusive bool, kind uniformity) []bson.D {
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

func above(v bson.RawValue, bracket int, inclusive bool) []bson.D {
	switch {
	case bracket == bracketMinKey && inclusive:
		return []bson.D{in(bson.MinKey{}, nil), types(bracketNumber, bracketMaxKey)}
	case bracket == bracketMinKey, bracket == bracketNull && inclusive:
		return []bson.D{equal(nil), types(bracketNumber, bracketMaxKey)}
	case bracket == bracketNull, isNaN(v) && inclusive:
		return []bson.D{types(bracketNumber, bracketMaxKey)}
	case isNaN(v):
		return []bson.D{numbers(), types(bracketString, bracketMaxKey)}
	case bracket == bracketMaxKey && inclusive:
		return []bson.D{equal(v)}
	case bracket == bracketMaxKey:
		return nil
	}
	next := bracket + 1
	if bracket == bracketString {
		next = bracketSymbol + 1
	}
	return []bson.D{compared(v, false, inclusive), types(next, bracketMaxKey)}
}

func below(v bson.RawValue, bracket int, inclusive bool) []bson.D {
	switch {
	case bracket == bracketMinKey && !inclusive:
		return nil
	case bracket == bracketMinKey, bracket == bracketNull && !inclusive:
		return []bson.D{equal(bson.MinKey{})}
	case bracket == bracketNull, isNaN(v) && !inclusive:
		return []bson.D{in(nil, bson.MinKey{})}
	case isNaN(v):
		return []bson.D{in(math.NaN(), nil, bson.MinKey{})}
	case bracket == bracketMaxKey && inclusive:
		return []bson.D{types(bracketNumber, bracketMaxKey), in(nil, bson.MinKey{})}
	case bracket == bracketMaxKey:
		return []bson.D{types(bracketNumber, bracketMaxKey-1), in(nil, bson.MinKey{})}
	case bracket == bracketNumber:
		return []bson.D{compared(v, true, inclusive), in(math.NaN(), nil, bson.MinKey{})}
	}
	return []bson.D{compared(v, true, inclusive), types(bracketNumber, bracket-1), in(nil, bson.MinKey{})}
}

// uniformBeyond is for fields of one bracket, null, or missing.
func uniformBeyond(v bson.RawValue, bracket int, desc, inclusive, neverNull bool) []bson.D {
	null := bracket == bracketNull
	var out []bson.D
	switch {
	case null && inclusive:
		out = append(out, equal(nil))
	case null:
	case isNaN(v) && inclusive && desc:
		return []bson.D{in(math.NaN(), nil)}
	case isNaN(v) && !desc && inclusive:
		return []bson.D{present()}
	case isNaN(v) && !desc:
		return []bson.D{numbers()}
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

func equal(v any) bson.D { return bson.D{{Key: "$eq", Value: v}} }

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
