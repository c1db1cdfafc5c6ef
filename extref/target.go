package extref

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// A target is a Target with its defaults.
type target struct {
	Target
	primary        *mongo.Collection // for reads that a write depends on
	follow, freeze []Field
}

// paths lists option and path of all that a copy consists of.
func (t *target) paths(option string) []string {
	out := []string{option + ".IDField", t.path(t.IDField)}
	if t.VersionField != "" {
		out = append(out, option+".VersionField", t.path(t.VersionField))
	}
	for i, f := range t.Fields {
		out = append(out, fmt.Sprintf("%s.Fields[%d].As", option, i), t.path(f.As))
	}
	return out
}

// path is that of a field of the copy in the document.
func (t *target) path(inner string) string {
	if t.Path == "" {
		return inner
	}
	return t.Path + "." + inner
}

// slot is the path by which an update reaches a field of the copy; in an array,
// of the elements that elements describes.
func (t *target) slot(inner string) string {
	if t.Array {
		return t.Path + ".$[e]." + inner
	}
	return t.path(inner)
}

// where selects the documents with a copy of the source with this ID of which
// the conditions hold, all in one copy.
func (t *target) where(id any, conditions ...bson.E) bson.D {
	copied := append(bson.D{{Key: t.IDField, Value: id}}, conditions...)
	if t.Array && len(conditions) > 0 {
		return bson.D{{Key: t.Path, Value: bson.D{{Key: "$elemMatch", Value: copied}}}}
	}
	for i := range copied {
		copied[i].Key = t.path(copied[i].Key)
	}
	return copied
}

// elements is the array filter that says of an element what where says of a
// document.
func (t *target) elements(id any, conditions ...bson.E) []any {
	if !t.Array {
		return nil
	}
	element := bson.D{{Key: "e." + t.IDField, Value: id}}
	for _, c := range conditions {
		element = append(element, bson.E{Key: "e." + c.Key, Value: c.Value})
	}
	return []any{element}
}

// referring selects the documents that refer to any source.
func (t *target) referring(conditions ...bson.E) bson.D {
	set := bson.D{{Key: "$exists", Value: true}, {Key: "$ne", Value: nil}}
	return t.where(set, conditions...)
}

// A state is a source at one moment.
type state struct {
	doc      bson.Raw
	id       any // in filters
	version  int64
	bad      error  // why it is no valid source; noted by checks only
	badField string // where
}

// older are the conditions, besides the ID, on a copy with a version that is
// behind.
func (t *target) older(s state) []bson.E {
	if t.Unversioned {
		return nil
	}
	return []bson.E{{Key: t.VersionField, Value: bson.D{{Key: "$lt", Value: s.version}}}}
}

// behind selects the documents with a copy that a propagation of s has to write.
func (t *target) behind(s state) bson.D {
	if t.Unversioned {
		return append(t.where(s.id), bson.E{Key: "$expr", Value: t.differs(s)})
	}
	return t.where(s.id, t.older(s)...)
}

// differsAtVersion selects the documents with a copy of the version of s and
// other values: somebody has changed the source without raising the version.
func (t *target) differsAtVersion(s state) bson.D {
	same := bson.E{Key: t.VersionField, Value: s.version}
	return append(t.where(s.id, same), bson.E{Key: "$expr", Value: t.differs(s, same)})
}

// differs is the expression that a copy of the source has other values than s
// in followed fields, and equals these values besides.
func (t *target) differs(s state, equal ...bson.E) bson.D {
	at := func(inner string) string { return "$" + t.path(inner) }
	if t.Array {
		at = func(inner string) string { return "$$copy." + inner }
	}
	all := bson.A{op("$eq", at(t.IDField), literal(s.doc.Lookup("_id")))}
	for _, e := range equal {
		all = append(all, op("$eq", at(e.Key), literal(e.Value)))
	}
	all = append(all, unequal(s.doc, t.follow, func(f Field) string { return at(f.As) }))
	if !t.Array {
		return bson.D{{Key: "$and", Value: all}}
	}
	array := "$" + t.Path
	return op("$anyElementTrue", bson.D{{Key: "$map", Value: bson.D{
		{Key: "input", Value: bson.D{{Key: "$cond", Value: bson.A{op1("$isArray", array), array, bson.A{}}}}},
		{Key: "as", Value: "copy"},
		{Key: "in", Value: bson.D{{Key: "$and", Value: all}}},
	}}})
}

// unequal is the expression that one of the fields, at the place where at says
// it is, has not the value that it has in doc: another value, or one of another
// type, or none.
func unequal(doc bson.Raw, fields []Field, at func(Field) string) bson.D {
	some := bson.A{}
	for _, f := range fields {
		here, value := at(f), rawvalue.Lookup(doc, f.Path)
		if value.Type != 0 {
			some = append(some, op("$ne", here, literal(value)))
		}
		some = append(some, op("$ne", op1("$type", here), typeName(value.Type)))
	}
	if len(some) == 0 {
		return literal(false)
	}
	return bson.D{{Key: "$or", Value: some}}
}

// write is the update that brings fields of s, and its version, into a copy.
func (t *target) write(s state, fields []Field) bson.D {
	var set, unset bson.D
	for _, f := range fields {
		if value := rawvalue.Lookup(s.doc, f.Path); value.Type != 0 {
			set = append(set, bson.E{Key: t.slot(f.As), Value: value})
		} else {
			unset = append(unset, bson.E{Key: t.slot(f.As), Value: ""})
		}
	}
	if !t.Unversioned {
		set = append(set, bson.E{Key: t.slot(t.VersionField), Value: s.version})
	}
	var update bson.D
	if set != nil {
		update = append(update, bson.E{Key: "$set", Value: set})
	}
	if unset != nil {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	return update
}

// reference is a new copy of s.
func (t *target) reference(s state) bson.D {
	out := nested(nil, t.IDField, s.doc.Lookup("_id"))
	for _, f := range t.Fields {
		if value := rawvalue.Lookup(s.doc, f.Path); value.Type != 0 {
			out = nested(out, f.As, value)
		}
	}
	if !t.Unversioned {
		out = nested(out, t.VersionField, s.version)
	}
	return out
}

// copies takes the copies out of a document.
func (t *target) copies(doc bson.Raw) []bson.Raw {
	if t.Path == "" {
		return []bson.Raw{doc}
	}
	value := rawvalue.Lookup(doc, t.Path)
	if !t.Array {
		if copied, ok := value.DocumentOK(); ok {
			return []bson.Raw{copied}
		}
		return nil
	}
	array, ok := value.ArrayOK()
	if !ok {
		return nil
	}
	values, _ := array.Values()
	var out []bson.Raw
	for _, value := range values {
		if copied, ok := value.DocumentOK(); ok {
			out = append(out, copied)
		}
	}
	return out
}

// projection reads the copies and nothing else.
func (t *target) projection() bson.D {
	if t.Path != "" {
		return bson.D{{Key: t.Path, Value: 1}}
	}
	var out bson.D
	paths := t.paths("")
	for i := 1; i < len(paths); i += 2 {
		out = append(out, bson.E{Key: paths[i], Value: 1})
	}
	return out
}

// nested sets a dotted path in a document that is being built.
func nested(doc bson.D, path string, value any) bson.D {
	first, rest, dotted := strings.Cut(path, ".")
	if !dotted {
		return append(doc, bson.E{Key: first, Value: value})
	}
	for i, e := range doc {
		if e.Key == first {
			inner, _ := e.Value.(bson.D)
			doc[i].Value = nested(inner, rest, value)
			return doc
		}
	}
	return append(doc, bson.E{Key: first, Value: nested(nil, rest, value)})
}

func op(name string, arguments ...any) bson.D { return bson.D{{Key: name, Value: bson.A(arguments)}} }
func op1(name string, argument any) bson.D    { return bson.D{{Key: name, Value: argument}} }
func literal(value any) bson.D                { return op1("$literal", value) }

// typeName is what the expression $type says of a value.
func typeName(t bson.Type) string {
	switch t {
	case bson.TypeDouble:
		return "double"
	case bson.TypeString:
		return "string"
	case bson.TypeEmbeddedDocument:
		return "object"
	case bson.TypeArray:
		return "array"
	case bson.TypeBinary:
		return "binData"
	case bson.TypeUndefined:
		return "undefined"
	case bson.TypeObjectID:
		return "objectId"
	case bson.TypeBoolean:
		return "bool"
	case bson.TypeDateTime:
		return "date"
	case bson.TypeNull:
		return "null"
	case bson.TypeRegex:
		return "regex"
	case bson.TypeDBPointer:
		return "dbPointer"
	case bson.TypeJavaScript:
		return "javascript"
	case bson.TypeSymbol:
		return "symbol"
	case bson.TypeCodeWithScope:
		return "javascriptWithScope"
	case bson.TypeInt32:
		return "int"
	case bson.TypeTimestamp:
		return "timestamp"
	case bson.TypeInt64:
		return "long"
	case bson.TypeDecimal128:
		return "decimal"
	case bson.TypeMinKey:
		return "minKey"
	case bson.TypeMaxKey:
		return "maxKey"
	}
	return "missing"
}
