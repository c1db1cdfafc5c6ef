// Package expr writes the server's expressions with few words.
package expr

import "go.mongodb.org/mongo-driver/v2/bson"

// Op is an operator of an expression, a filter or a pipeline: {name: arg}, or
// {name: [args…]} for none or several.
func Op(name string, args ...any) bson.D {
	if len(args) == 1 {
		return bson.D{{Key: name, Value: args[0]}}
	}
	return bson.D{{Key: name, Value: append(bson.A{}, args...)}}
}

// D is the document of these names and values, one after the other.
func D(pairs ...any) bson.D {
	out := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// Field is the value at a path.
func Field(path string) string { return "$" + path }

// Var is the value of a variable, or at a path below it.
func Var(path string) string { return "$$" + path }

// Literal is a value that the server never reads as an expression.
func Literal(v any) bson.D { return Op("$literal", v) }

// Cond is yes where test holds, else no.
func Cond(test, yes, no any) bson.D { return Op("$cond", test, yes, no) }

// IfNull is v, or otherwise where v is null or missing.
func IfNull(v, otherwise any) bson.D { return Op("$ifNull", v, otherwise) }

// IsType reports whether v has one of the types, by the names that $type returns.
func IsType(v any, names ...string) bson.D {
	if len(names) == 1 {
		return Op("$eq", Op("$type", v), names[0])
	}
	return Op("$in", Op("$type", v), names)
}

// Array is v if it is an array, else the empty array.
func Array(v any) bson.D { return Cond(Op("$isArray", v), v, bson.A{}) }

// Let is in, in which Var(name) is v.
func Let(name string, v, in any) bson.D {
	return Op("$let", bson.D{{Key: "vars", Value: bson.D{{Key: name, Value: v}}}, {Key: "in", Value: in}})
}

// Map is the array of what in makes of each element, Var(as).
func Map(input any, as string, in any) bson.D {
	return Op("$map", bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: "in", Value: in}})
}

// Filter is the array of the elements, Var(as), for which cond holds.
func Filter(input any, as string, cond any) bson.D {
	return Op("$filter", bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: "cond", Value: cond}})
}

// Reduce folds an array: in makes the next $$value of $$value and $$this.
func Reduce(input, initial, in any) bson.D {
	return Op("$reduce", bson.D{{Key: "input", Value: input}, {Key: "initialValue", Value: initial}, {Key: "in", Value: in}})
}

// Element is an element of a document: {path: v}.
func Element(path string, v any) bson.E { return bson.E{Key: path, Value: v} }

// Fixed is an expression that is the same in every call, encoded once: building it anew
// costs the client several times what its bytes do. It is of strings, numbers and the
// like, which a client's registry does not change.
func Fixed(v any) any {
	raw, err := bson.Marshal(bson.D{{Key: "v", Value: v}})
	if err != nil {
		return v // which the driver refuses where it is used
	}
	return bson.Raw(raw).Lookup("v")
}

// Raw is Fixed of a whole update or filter.
func Raw(d bson.D) bson.Raw {
	raw, _ := bson.Marshal(d) // what it cannot encode is refused where it is used
	return raw
}

// Stages is an encoded array of stages, as the driver takes it.
type Stages []byte

func (s Stages) MarshalBSONValue() (byte, []byte, error) { return byte(bson.TypeArray), s, nil }

// Pipeline is Fixed of a whole pipeline.
func Pipeline(stages ...any) any {
	if v, ok := Fixed(bson.A(stages)).(bson.RawValue); ok {
		return Stages(v.Value)
	}
	return stages
}

// And joins filters; nil ones fall away, and one alone stays as it is. The filters
// may have any type that the driver encodes as a document.
func And(filters ...any) any {
	all := make(bson.A, 0, len(filters))
	for _, f := range filters {
		if d, ok := f.(bson.D); f == nil || ok && len(d) == 0 {
			continue
		}
		all = append(all, f)
	}
	switch len(all) {
	case 0:
		return bson.D{}
	case 1:
		return all[0]
	}
	return Op("$and", all)
}
