// Package expr builds expressions of the server with short functions.
package expr

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Op returns an operator of an expression, a filter or a pipeline: {name: arg}, or {name: [args…]} for no or
// several arguments.
func Op(name string, args ...any) bson.D {
	if len(args) == 1 {
		return bson.D{{Key: name, Value: args[0]}}
	}
	return bson.D{{Key: name, Value: append(bson.A{}, args...)}}
}

// D returns the document of names and values, which alternate.
func D(pairs ...any) bson.D {
	out := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// ByID is the filter for the document with an _id.
func ByID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: value.Equal(id)}} }

// Field returns the value at a path.
func Field(path string) string { return "$" + path }

// Var returns the value of a variable, or at a path in it.
func Var(path string) string { return "$$" + path }

// Literal returns a value that the server does not read as an expression.
func Literal(v any) bson.D { return Op("$literal", v) }

// Cond returns yes if test holds, else no.
func Cond(test, yes, no any) bson.D { return Op("$cond", test, yes, no) }

// IfNull returns v, or otherwise if v is null or missing.
func IfNull(v, otherwise any) bson.D { return Op("$ifNull", v, otherwise) }

// IsType reports whether v has one of the types, by the names that $type returns.
func IsType(v any, names ...string) bson.D {
	if len(names) == 1 {
		return Op("$eq", Op("$type", v), names[0])
	}
	return Op("$in", Op("$type", v), names)
}

// Array returns v if it is an array, else the empty array.
func Array(v any) bson.D { return Cond(Op("$isArray", v), v, bson.A{}) }

// AnArray and NotArray are what a filter asks of a field. An equality is also met by an array that holds the value, so
// {$eq: v, $not: AnArray} is one without.
var (
	AnArray  = Fixed(Op("$type", "array"))
	NotArray = Fixed(Op("$not", AnArray))
)

// Is selects the documents in which a path holds v itself: not those with an array that holds it, or on the way to it.
func Is(path string, v bson.RawValue) bson.D {
	if path == "_id" || v.Type == bson.TypeArray { // no _id can be an array
		return D(path, value.Equal(v))
	}
	return append(D(path, D("$eq", v, "$not", AnArray)), noArrayAbove(path)...)
}

// NoArray selects the documents without an array at a path, and on the way to it.
func NoArray(path string) bson.D {
	return append(D(path, NotArray), noArrayAbove(path)...)
}

func noArrayAbove(path string) (filter bson.D) {
	for _, above := range fieldpath.Above(path) {
		filter = append(filter, Element(above, NotArray))
	}
	return filter
}

// Unarrayed sets a field to {} if it holds an array, because a $set below it would write into each element.
func Unarrayed(path string) bson.E {
	return Element(path, Cond(Op("$isArray", Field(path)), Literal(bson.D{}), Field(path)))
}

// Let returns in, where Var(name) is v.
func Let(name string, v, in any) bson.D {
	return Op("$let", bson.D{{Key: "vars", Value: bson.D{{Key: name, Value: v}}}, {Key: "in", Value: in}})
}

// Map returns the array of in for each element of input, which is Var(as).
func Map(input any, as string, in any) bson.D {
	return Op("$map", bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: "in", Value: in}})
}

// Filter returns the array of the elements of input, Var(as), for which cond holds.
func Filter(input any, as string, cond any) bson.D {
	return Op("$filter", bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: "cond", Value: cond}})
}

// Reduce folds an array: in computes the next $$value from $$value and $$this.
func Reduce(input, initial, in any) bson.D {
	return Op("$reduce", bson.D{{Key: "input", Value: input}, {Key: "initialValue", Value: initial}, {Key: "in", Value: in}})
}

// Element returns an element of a document: {path: v}.
func Element(path string, v any) bson.E { return bson.E{Key: path, Value: v} }

// Fixed encodes an expression that is the same in every call. Building it in each call would take the client
// several times as long as sending its bytes. It must consist of strings, numbers and the like, which no
// registry of a client encodes differently.
func Fixed(v any) any {
	raw, err := bson.Marshal(bson.D{{Key: "v", Value: v}})
	if err != nil {
		return v // which the driver refuses where it is used
	}
	return bson.Raw(raw).Lookup("v")
}

// Raw is Fixed for a whole update or filter.
func Raw(d bson.D) bson.Raw {
	raw, _ := bson.Marshal(d) // what it cannot encode is refused where it is used
	return raw
}

// Stages is an encoded array of stages, in the form that the driver accepts.
type Stages []byte

func (s Stages) MarshalBSONValue() (byte, []byte, error) { return byte(bson.TypeArray), s, nil }

// Pipeline is Fixed for a whole pipeline.
func Pipeline(stages ...any) any {
	if v, ok := Fixed(bson.A(stages)).(bson.RawValue); ok {
		return Stages(v.Value)
	}
	return stages
}

// And joins filters. It drops nil filters, also a nil bson.D or bson.M, and returns a single filter unchanged. The filters
// may have any type that the driver encodes as a document.
func And(filters ...any) any {
	all := make(bson.A, 0, len(filters))
	for _, f := range filters {
		switch f := f.(type) {
		case nil:
		case bson.D:
			if len(f) > 0 {
				all = append(all, f)
			}
		case bson.M:
			if f != nil {
				all = append(all, f)
			}
		default:
			all = append(all, f)
		}
	}
	switch len(all) {
	case 0:
		return bson.D{}
	case 1:
		return all[0]
	}
	return Op("$and", all)
}
