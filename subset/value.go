package subset

import (
	"bytes"
	"cmp"
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// throughArray reports whether an array stands at the path or on the way to it.
func throughArray(doc bson.Raw, path string) bool {
	segment, rest, deeper := strings.Cut(path, ".")
	value := doc.Lookup(segment)
	if value.Type == bson.TypeArray {
		return true
	}
	inner, ok := value.DocumentOK()
	return ok && deeper && throughArray(inner, rest)
}

func same(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }

// isNumber reports a number that can be added up.
func isNumber(value bson.RawValue) bool { return rawvalue.Number(value) != nil }

// negated is a number of the same type with the other sign, or of the next larger
// type if there is none.
func negated(number bson.RawValue) any {
	switch number.Type {
	case bson.TypeInt32:
		if n := number.Int32(); n != math.MinInt32 {
			return -n
		}
		return -int64(math.MinInt32)
	case bson.TypeInt64:
		if n := number.Int64(); n != math.MinInt64 {
			return -n
		}
		return -float64(math.MinInt64)
	case bson.TypeDecimal128:
		high, low := number.Decimal128().GetBytes()
		return bson.NewDecimal128(high^1<<63, low)
	}
	return -number.Double()
}

func key(value bson.RawValue) string { return rawvalue.Key(value) }

// op is an expression of one operator.
func op(name string, args ...any) bson.D {
	if len(args) == 1 {
		return bson.D{{Key: name, Value: args[0]}}
	}
	return bson.D{{Key: name, Value: bson.A(args)}}
}

func literal(value any) bson.D { return bson.D{{Key: "$literal", Value: value}} }

// A selection is the tree of the paths that a kept item holds. An empty one
// stands for everything below.
type selection map[string]selection

func (s selection) add(path string) {
	segment, rest, deeper := strings.Cut(path, ".")
	below, known := s[segment]
	switch {
	case known && len(below) == 0: // everything already
	case !deeper:
		s[segment] = nil
	default:
		if below == nil {
			below = selection{}
			s[segment] = below
		}
		below.add(rest)
	}
}

// cut is what the server's projection of the paths leaves of a document.
func (s selection) cut(doc bson.Raw) bson.D {
	out := bson.D{}
	elements, _ := doc.Elements()
	for _, e := range elements {
		below, named := s[e.Key()]
		if !named {
			continue
		}
		if value, ok := below.cutValue(e.Value()); ok {
			out = append(out, bson.E{Key: e.Key(), Value: value})
		}
	}
	return out
}

func (s selection) cutValue(value bson.RawValue) (any, bool) {
	switch {
	case len(s) == 0:
		return value, true
	case value.Type == bson.TypeEmbeddedDocument:
		return s.cut(value.Document()), true
	case value.Type == bson.TypeArray:
		out := bson.A{}
		values, _ := value.Array().Values()
		for _, v := range values {
			if kept, ok := s.cutValue(v); ok {
				out = append(out, kept)
			}
		}
		return out, true
	}
	return nil, false
}

// compareIDs puts _ids into some fixed order.
func compareIDs(a, b bson.RawValue) int { return cmp.Compare(key(a), key(b)) }
