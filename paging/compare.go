package paging

import (
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// brackets are the kinds of value that the comparisons of a filter tell apart, in
// the order in which the server sorts them, by the names $type knows. MinKey and
// null, which also stands for a missing field, come before all of them. Arrays
// sort between objects and binary data; they are no sort values.
var brackets = [...][]string{
	bracketNumber: {"double", "int", "long", "decimal"}, {"string", "symbol"}, bracketObject: {"object"},
	{"binData"}, {"objectId"}, {"bool"}, {"date"}, {"timestamp"}, {"regex"}, {"dbPointer"}, {"javascript"},
	{"javascriptWithScope"}, bracketMaxKey: {"maxKey"},
}

const (
	bracketMinKey = -2
	bracketNull   = -1
	bracketNumber = 0
	bracketObject = 2
	bracketMaxKey = 12
)

var bracketOf = map[bson.Type]int{
	bson.TypeMinKey: bracketMinKey, bson.TypeNull: bracketNull,
	bson.TypeDouble: bracketNumber, bson.TypeInt32: bracketNumber, bson.TypeInt64: bracketNumber,
	bson.TypeDecimal128: bracketNumber, bson.TypeString: 1, bson.TypeSymbol: 1,
	bson.TypeEmbeddedDocument: bracketObject, bson.TypeBinary: 3, bson.TypeObjectID: 4, bson.TypeBoolean: 5,
	bson.TypeDateTime: 6, bson.TypeTimestamp: 7, bson.TypeDBPointer: 9, bson.TypeJavaScript: 10,
	bson.TypeCodeWithScope: 11, bson.TypeMaxKey: bracketMaxKey,
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

// beyond gives the conditions on one field that together match what is sorted
// after v in the given direction, and v itself if inclusive. They do not overlap
// and stand in the order of the result; there are none if nothing comes after v.
//
// A comparison in $expr follows the order of the sort, through all types: it is one
// range of the index. But it takes an array for one value, where the sort takes its
// elements. Documents with arrays must be met, so that they can be refused. So it
// serves where arrays lie beyond v, and for _id, which is never an array.
//
// Elsewhere three matches together do: the comparison of a filter, which stays
// within the bracket of v; $type for other brackets; and equality with null,
// MinKey, NaN and [], which neither of the two finds. An _id needs none of the
// last, for which the planner may leave the index of the sort.
//
// typed puts the comparison of a filter in front of $expr: for who wants a plain
// range first, and reads on only if that ends.
func (k sortKey) beyond(v bson.RawValue, desc, inclusive, typed bool) []bson.D {
	bracket := bracketOf[v.Type]
	id := k.path == "_id"
	is := func(condition any) bson.D { return bson.D{{Key: k.path, Value: condition}} }
	among := func(values ...any) bson.D { return is(expr.Op("$in", append(bson.A{}, values...))) }
	compared := is(expr.Op(operator(desc, inclusive), v))
	field := expr.Field(k.path)
	total := func(inclusive bool) bson.D { return expr.Op(operator(desc, inclusive), field, expr.Literal(v)) }
	computed := func(condition any) bson.D { return expr.Op("$expr", condition) }
	switch {
	case bracket == bracketNull && inclusive && !desc: // $expr puts missing before null
		return []bson.D{is(nil), computed(total(false))}
	case bracket == bracketNull && inclusive:
		return []bson.D{among(nil, bson.A{}, bson.MinKey{})}
	case bracket == bracketNull && desc:
		return []bson.D{among(bson.A{}, bson.MinKey{})}
	case bracket == bracketMinKey && desc, bracket == bracketMaxKey && !desc:
		if inclusive {
			return []bson.D{is(v)}
		}
		return nil
	case id, desc == (bracket > bracketObject):
		if typed && bracket >= bracketNumber && bracket < bracketMaxKey && !isNaN(v) {
			// The rest is what the comparison does not find: other types, and NaN.
			other := expr.Op("$or", expr.Op("$not", expr.IsType(field, brackets[bracket]...)), expr.Op("$eq", field, math.NaN()))
			return []bson.D{compared, computed(expr.Op("$and", total(inclusive), other))}
		}
		return []bson.D{computed(total(inclusive))}
	case !desc:
		return []bson.D{compared, is(types(bracket+1, bracketMaxKey))}
	case isNaN(v) && inclusive:
		return []bson.D{among(math.NaN(), nil, bson.A{}, bson.MinKey{})}
	case isNaN(v):
		return []bson.D{among(nil, bson.A{}, bson.MinKey{})}
	case bracket == bracketNumber:
		return []bson.D{compared, among(math.NaN(), nil, bson.A{}, bson.MinKey{})}
	}
	return []bson.D{compared, is(types(bracketNumber, bracket-1)), among(nil, bson.A{}, bson.MinKey{})}
}

func operator(desc, inclusive bool) string {
	op := "$gt"
	if desc {
		op = "$lt"
	}
	if inclusive {
		op += "e"
	}
	return op
}

func types(from, to int) bson.D {
	return expr.Op("$type", slices.Concat(brackets[from:to+1]...))
}

// same reports whether two places are one: equal in every value, under the simple
// collation, of whatever numeric type.
func same(a, b place) bool {
	return slices.EqualFunc(a, b, func(a, b bson.RawValue) bool { return a.Equal(b) || value.Key(a) == value.Key(b) })
}

// shallow reports that documents in v are nested no more than so many levels deep.
func shallow(v bson.RawValue, levels int) bool {
	inner := v.Value
	switch v.Type {
	case bson.TypeCodeWithScope:
		_, inner, _ = v.CodeWithScopeOK()
	case bson.TypeEmbeddedDocument, bson.TypeArray:
	default:
		return true
	}
	elements, _ := bson.Raw(inner).Elements()
	deep := func(e bson.RawElement) bool { return !shallow(e.Value(), levels-1) }
	return levels > 0 && !slices.ContainsFunc(elements, deep)
}
