package extref

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A target is a Target with its defaults.
type target struct {
	Target
	option         string            // "targets[0]", for errors of the configuration
	primary        *mongo.Collection // for reads that a write depends on
	follow, freeze []Field
	inner          []string // the paths of what a copy consists of, from its start
	ways           []string // the steps to these, themselves aside
	outer          []string // the steps to the copy, in the document
}

func (t *target) derive() {
	t.primary = cursor.Primary(t.Collection)
	for _, f := range t.Fields {
		if f.Policy == Follow {
			t.follow = append(t.follow, f)
		} else {
			t.freeze = append(t.freeze, f)
		}
	}
	paths := t.parts("")
	for i := 1; i < len(paths); i += 2 {
		t.inner = append(t.inner, paths[i])
		t.ways = append(t.ways, fieldpath.Above(paths[i])...)
	}
	slices.Sort(t.ways)
	t.ways = slices.Compact(t.ways)
	if t.Path != "" {
		t.outer = fieldpath.Above(t.Path)
	}
}

// parts lists option and path, from the start of the copy, of what it consists of.
func (t *target) parts(option string) []string {
	out := []string{option + ".IDField", t.IDField}
	if t.VersionField != "" {
		out = append(out, option+".VersionField", t.VersionField)
	}
	for i, f := range t.Fields {
		out = append(out, fmt.Sprintf("%s.Fields[%d].As", option, i), f.As)
	}
	return out
}

// paths is parts with the paths from the start of the document.
func (t *target) paths(option string) []string {
	out := t.parts(option)
	for i := 1; i < len(out); i += 2 {
		out[i] = t.path(out[i])
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

// where selects the documents with a copy of the source with this key of which
// the conditions hold, all in one copy.
func (t *target) where(key any, conditions ...bson.E) bson.D {
	copied := append(bson.D{{Key: t.IDField, Value: key}}, conditions...)
	if t.Array && len(conditions) > 0 {
		return bson.D{{Key: t.Path, Value: bson.D{{Key: "$elemMatch", Value: copied}}}}
	}
	for i := range copied {
		copied[i].Key = t.path(copied[i].Key)
	}
	return copied
}

// referring selects the documents with a copy of any source of which the
// conditions hold.
func (t *target) referring(conditions ...bson.E) bson.D {
	if t.Array {
		// Not {"parts.id": {$ne: null}}: that one element has none would suffice.
		conditions = append(conditions, bson.E{Key: t.IDField, Value: expr.Op("$ne", nil)})
	}
	return t.where(bson.D{{Key: "$exists", Value: true}, {Key: "$ne", Value: nil}}, conditions...)
}

// Queries go through arrays wherever they meet one, so {"customer._id": 1} also
// selects {customer: [{_id: 1}]}, which is no copy where Array is not set. An
// update that meets such a thing, or a string where a document should be, fails,
// and with it all that it was to write. So every write also asks for the shape.

var (
	notArray   = bson.D{{Key: "$not", Value: expr.Op("$type", "array")}}
	noDocument = bson.A{"double", "string", "array", "binData", "undefined", "objectId", "bool", "date", "null", "regex",
		"dbPointer", "javascript", "symbol", "javascriptWithScope", "int", "timestamp", "long", "decimal", "minKey", "maxKey"}
	// passable is the condition that an update can create a field below: nothing
	// is there yet, or a document.
	passable = bson.D{{Key: "$not", Value: expr.Op("$type", noDocument)}}
)

// itself is the condition that a field has this value, and is no array that holds
// it.
func itself(key bson.RawValue) bson.D {
	return bson.D{{Key: "$eq", Value: key}, {Key: "$not", Value: expr.Op("$type", "array")}}
}

// sound are the conditions, besides the key, that a copy has the shape of one.
func (t *target) sound() []bson.E {
	var out []bson.E
	for _, way := range t.ways {
		condition := passable
		if strings.HasPrefix(t.IDField, way+".") { // it holds the key
			condition = notArray
		}
		out = append(out, bson.E{Key: way, Value: condition})
	}
	return out
}

// shape are the conditions, besides the key, that copies which are sound lie where
// the target says.
func (t *target) shape() bson.A {
	out := bson.A{}
	for _, step := range t.outer {
		out = append(out, bson.D{{Key: step, Value: notArray}})
	}
	if t.Array {
		return append(out, bson.D{{Key: t.Path, Value: expr.Op("$type", "array")}})
	}
	if t.Path != "" {
		out = append(out, bson.D{{Key: t.Path, Value: notArray}})
	}
	for _, c := range append(t.sound(), bson.E{Key: t.IDField, Value: notArray}) {
		out = append(out, bson.D{{Key: t.path(c.Key), Value: c.Value}})
	}
	return out
}

// proper is where for what has the shape of a copy.
func (t *target) proper(key bson.RawValue, conditions ...bson.E) bson.D {
	if t.Array {
		all := append(bson.D{{Key: t.IDField, Value: itself(key)}}, slices.Concat(conditions, t.sound())...)
		return bson.D{{Key: t.Path, Value: bson.D{{Key: "$elemMatch", Value: all}}}, {Key: "$and", Value: t.shape()}}
	}
	return append(t.where(value.Equal(key), conditions...), bson.E{Key: "$and", Value: t.shape()})
}

// elements is the array filter that says of an element what proper says of a
// document.
func (t *target) elements(key bson.RawValue, conditions ...bson.E) []any {
	if !t.Array {
		return nil
	}
	element := bson.D{{Key: "e." + t.IDField, Value: itself(key)}}
	for _, c := range slices.Concat(conditions, t.sound()) {
		element = append(element, bson.E{Key: "e." + c.Key, Value: c.Value})
	}
	return []any{element}
}

// older are the conditions, besides the key, on a copy with a version that is
// behind.
func (t *target) older(s state) []bson.E {
	if t.Unversioned {
		return nil
	}
	return []bson.E{{Key: t.VersionField, Value: expr.Op("$lt", s.version)}}
}

// behind selects the documents with a copy that a propagation of s has to write.
func (t *target) behind(s state) bson.D {
	filter := t.proper(s.key, t.older(s)...)
	if t.Unversioned {
		filter = append(filter, bson.E{Key: "$expr", Value: t.differs(s)})
	}
	return filter
}

// off selects the documents with a copy that is not as s says: those behind, and
// what a propagation cannot bring there, such as copies ahead of the source.
func (t *target) off(s state) bson.D {
	if t.Unversioned {
		some := bson.A{bson.D{{Key: "$expr", Value: t.differs(s)}}, expr.Op("$nor", bson.A{expr.Op("$and", t.shape())})}
		if t.Array {
			for _, way := range t.ways {
				element := bson.D{{Key: t.IDField, Value: value.Equal(s.key)}, {Key: way, Value: expr.Op("$type", noDocument)}}
				some = append(some, bson.D{{Key: t.Path, Value: expr.Op("$elemMatch", element)}})
			}
		}
		return append(t.where(value.Equal(s.key)), bson.E{Key: "$or", Value: some})
	}
	return t.where(value.Equal(s.key), bson.E{Key: t.VersionField, Value: expr.Op("$ne", s.version)})
}

// differsAtVersion selects the documents with a copy of the version of s and
// other values: somebody has changed the source without raising the version.
func (t *target) differsAtVersion(s state) bson.D {
	same := bson.E{Key: t.VersionField, Value: s.version}
	return append(t.where(value.Equal(s.key), same), bson.E{Key: "$expr", Value: t.differs(s, same)})
}

// differs is the expression that a copy of the source has other values than s
// in followed fields, and equals these values besides.
func (t *target) differs(s state, equal ...bson.E) bson.D {
	at := func(inner string) string { return expr.Field(t.path(inner)) }
	if t.Array {
		at = func(inner string) string { return expr.Var("copy." + inner) }
	}
	all := bson.A{expr.Op("$eq", at(t.IDField), expr.Literal(s.key))}
	for _, e := range equal {
		all = append(all, expr.Op("$eq", at(e.Key), expr.Literal(e.Value)))
	}
	all = append(all, unequal(t.follow, s.value, func(f Field) string { return at(f.As) }))
	if !t.Array {
		return expr.Op("$and", all)
	}
	return expr.Op("$anyElementTrue", bson.A{expr.Map(expr.Array(expr.Field(t.Path)), "copy", expr.Op("$and", all))})
}

// value is what a source holds in a field.
func (s state) value(f Field) bson.RawValue { return value.Lookup(s.doc, f.Path) }

// unequal is the expression that one of the fields, at the place where at says
// it is, has not the value that want says: another value, or one of another type,
// or none.
func unequal(fields []Field, want func(Field) bson.RawValue, at func(Field) string) bson.D {
	some := bson.A{}
	for _, f := range fields {
		here, v, kind := at(f), want(f), any("missing")
		if v.Type != 0 {
			some = append(some, expr.Op("$ne", here, expr.Literal(v)))
			kind = expr.Op("$type", expr.Literal(v))
		}
		some = append(some, expr.Op("$ne", expr.Op("$type", here), kind))
	}
	return expr.Op("$or", append(some, false))
}

// write is the update that brings fields of s, and its version, into a copy; nil
// if there is nothing to bring.
func (t *target) write(s state, fields []Field) bson.D {
	var set, unset, update bson.D
	for _, f := range fields {
		if v := s.value(f); v.Type != 0 {
			set = append(set, bson.E{Key: t.slot(f.As), Value: v})
		} else {
			unset = append(unset, bson.E{Key: t.slot(f.As), Value: ""})
		}
	}
	if !t.Unversioned {
		set = append(set, bson.E{Key: t.slot(t.VersionField), Value: s.version})
	}
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
	out := nested(nil, t.IDField, s.key)
	for _, f := range t.Fields {
		if v := s.value(f); v.Type != 0 {
			out = nested(out, f.As, v)
		}
	}
	if !t.Unversioned {
		out = nested(out, t.VersionField, s.version)
	}
	return out
}

// nested sets a dotted path in a document that is being built.
func nested(doc bson.D, path string, v any) bson.D {
	first, rest, dotted := strings.Cut(path, ".")
	if !dotted {
		return append(doc, bson.E{Key: first, Value: v})
	}
	for i, e := range doc {
		if e.Key == first {
			inner, _ := e.Value.(bson.D)
			doc[i].Value = nested(inner, rest, v)
			return doc
		}
	}
	return append(doc, bson.E{Key: first, Value: nested(nil, rest, v)})
}

// place is what lies at Path, and whether there is anything.
func (t *target) place(doc bson.Raw) (bson.RawValue, bool) {
	if t.Path == "" {
		return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}, true
	}
	v := value.Lookup(doc, t.Path)
	return v, !none(v)
}

// copies takes the copies out of a document.
func (t *target) copies(doc bson.Raw) []bson.Raw {
	v, there := t.place(doc)
	if !there {
		return nil
	}
	values := []bson.RawValue{v}
	if t.Array {
		array, _ := v.ArrayOK()
		values, _ = array.Values()
	}
	var out []bson.Raw
	for _, v := range values {
		if copied, ok := v.DocumentOK(); ok {
			out = append(out, copied)
		}
	}
	return out
}

// source is the key of the source, if a copy has one.
func (t *target) source(copied bson.Raw) (bson.RawValue, bool) {
	key := value.Lookup(copied, t.IDField)
	return key, usable(key)
}

// projection reads the copies and nothing else.
func (t *target) projection() bson.D {
	if t.Path != "" {
		return bson.D{{Key: t.Path, Value: 1}}
	}
	var out bson.D
	for _, path := range t.inner {
		out = append(out, bson.E{Key: path, Value: 1})
	}
	return out
}

// malformed is the first thing in a document that the target does not describe.
// Nothing at all is not wrong, nor null, nor, as elements may have other fields of
// their own, one with no field of a copy.
func (t *target) malformed(doc bson.Raw) (field string, have bson.RawValue, bad bool) {
	for _, step := range t.outer {
		if v := value.Lookup(doc, step); !none(v) && v.Type != bson.TypeEmbeddedDocument {
			return step, v, true
		}
	}
	v, there := t.place(doc)
	if !there {
		return "", v, false
	}
	values := []bson.RawValue{v}
	if t.Array {
		array, ok := v.ArrayOK()
		if !ok {
			return t.Path, v, true
		}
		values, _ = array.Values()
	}
	for _, v := range values {
		copied, ok := v.DocumentOK()
		switch {
		case none(v):
			continue
		case !ok:
			return t.Path, v, true
		}
		if inner, have, bad := t.unsound(copied); bad {
			return t.path(inner), have, true
		}
	}
	return "", bson.RawValue{}, false
}

// unsound is the first thing that is wrong in a copy.
func (t *target) unsound(copied bson.Raw) (field string, have bson.RawValue, bad bool) {
	for _, step := range fieldpath.Above(t.IDField) {
		if v := value.Lookup(copied, step); !none(v) && v.Type != bson.TypeEmbeddedDocument {
			return step, v, true
		}
	}
	key := value.Lookup(copied, t.IDField)
	if none(key) {
		leftover := slices.ContainsFunc(t.inner, func(path string) bool { return !none(value.Lookup(copied, path)) })
		return t.IDField, key, leftover && t.Path != ""
	}
	for _, step := range t.ways {
		if v := value.Lookup(copied, step); v.Type != 0 && v.Type != bson.TypeEmbeddedDocument {
			return step, v, true
		}
	}
	return t.IDField, key, !usable(key)
}

func none(v bson.RawValue) bool { return v.Type == 0 || v.Type == bson.TypeNull }
