package extref

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A target is a Target with its defaults.
type target struct {
	Target
	option  string // "targets[0]", for errors of the configuration
	coll    *scoped.Collection
	primary *scoped.Collection // for reads that a write depends on
	follow  []Field
	inner   []string // the paths of the parts of a copy, from its start
	named   []string // the options of inner, and its paths from the start of the document
	ways    []string // the steps to inner, from the start of the copy
	outer   []string // the steps that must be documents if there is a copy
	lacks   string   // a field of a copy that no source of type T can have, or ""
	omits   error    // why a source of type T may not have a field of a copy, or nil
}

func (t *target) path(inner string) string {
	if t.Path == "" {
		return inner
	}
	return t.Path + "." + inner
}

// slot is path for an update; in an array, for the elements that model describes.
func (t *target) slot(inner string) string {
	if t.Array {
		return t.Path + ".$[e]." + inner
	}
	return t.path(inner)
}

// where selects all references to the source with this key, also malformed ones.
func (t *target) where(key bson.RawValue) bson.D { return expr.D(t.path(t.IDField), value.Equal(key)) }

// holding selects the documents with a copy that meets all conditions.
func (t *target) holding(conditions bson.D) bson.D {
	if t.Array {
		return expr.D(t.Path, expr.Op("$elemMatch", conditions))
	}
	return moved(conditions, t.path)
}

// moved is a filter with other paths.
func moved(filter bson.D, path func(string) string) bson.D {
	out := make(bson.D, len(filter))
	for i, e := range filter {
		all, ok := e.Value.(bson.A)
		if !ok {
			out[i] = expr.Element(path(e.Key), e.Value)
			continue
		}
		parts := make(bson.A, len(all)) // of $nor and $or
		for j, part := range all {
			parts[j] = moved(part.(bson.D), path)
		}
		out[i] = expr.Element(e.Key, parts)
	}
	return out
}

// Queries look into arrays, so {"customer._id": 1} also selects {customer: [{_id: 1}]}, which is not
// a copy if Array is not set. If an update meets such a value, or a string instead of a document,
// the whole command fails. So every write also has conditions on the shape.

var (
	// passable is the condition that an update can create a field below a path: it holds a
	// document or nothing.
	passable = expr.Fixed(expr.Op("$not", expr.Op("$type", bson.A{"double", "string", "array", "binData", "undefined",
		"objectId", "bool", "date", "null", "regex", "dbPointer", "javascript", "symbol", "javascriptWithScope", "int",
		"timestamp", "long", "decimal", "minKey", "maxKey"})))
)

// sound is the conditions on a well-formed copy of the source with this key.
func (t *target) sound(key bson.RawValue, more ...bson.E) bson.D {
	out := make(bson.D, 0, 1+len(more)+len(t.ways)+len(t.outer))
	itself := expr.D("$eq", key, "$not", expr.AnArray) // not an array that holds it
	out = append(out, expr.Element(t.IDField, itself))
	out = append(out, more...)
	for _, way := range t.ways {
		condition := passable
		if strings.HasPrefix(t.IDField, way+".") { // the key is below it
			condition = expr.NotArray
		}
		out = append(out, expr.Element(way, condition))
	}
	return out
}

// proper selects the documents with a well-formed copy in the target's place.
func (t *target) proper(key bson.RawValue, more ...bson.E) bson.D {
	out := t.holding(t.sound(key, more...))
	for _, step := range t.outer {
		out = append(out, expr.Element(step, expr.NotArray))
	}
	return out
}

// model is an update of the copies of s that meet the conditions more, in the documents that only
// selects.
func (t *target) model(s state, update bson.D, only any, more ...bson.E) *mongo.UpdateManyModel {
	model := mongo.NewUpdateManyModel().SetFilter(expr.And(t.proper(s.key, more...), only)).SetUpdate(update)
	if t.Array {
		element := moved(t.sound(s.key, more...), func(inner string) string { return "e." + inner })
		model.SetArrayFilters([]any{element})
	}
	return model
}

// than is the condition that a copy's version compares with that of s by operator, $lt or $ne.
// Without versions it is the condition that the copy's values differ from those of s.
func (t *target) than(operator string, s state) bson.E {
	if t.Unversioned {
		return unlike(t.follow, s.value, func(f Field) string { return f.As })
	}
	return expr.Element(t.VersionField, expr.Op(operator, s.version))
}

// off selects the documents with a copy that differs from s: it is behind, ahead or malformed.
func (t *target) off(s state) bson.D {
	return t.holding(bson.D{expr.Element(t.IDField, value.Equal(s.key)), t.than("$ne", s)})
}

// stray selects the documents with a copy whose version is not below that of s, but whose state is
// another. After a change that raised the version, the index has no key in that range.
func (t *target) stray(s state) bson.D {
	other := bson.A{expr.D(t.VersionField, expr.Op("$gt", s.version)),
		bson.D{unlike(t.follow, s.value, func(f Field) string { return f.As })}}
	return t.proper(s.key, expr.Element(t.VersionField, expr.Op("$gte", s.version)), expr.Element("$or", other))
}

// unlike is the condition that one of the fields differs from its value: by value, by type, or
// because it is an array that contains the value.
func unlike(fields []Field, have func(Field) bson.RawValue, path func(Field) string) bson.E {
	same := make(bson.D, 0, len(fields))
	for _, f := range fields {
		condition, v := expr.Op("$exists", false), have(f)
		switch v.Type {
		case 0:
		case bson.TypeUndefined: // which $eq refuses
			condition = expr.D("$type", "undefined", "$not", expr.AnArray)
		default:
			condition = expr.D("$eq", v, "$type", int32(int8(v.Type)),
				"$not", expr.Op("$elemMatch", expr.Op("$eq", v)))
		}
		same = append(same, expr.Element(path(f), condition))
	}
	return expr.Element("$nor", bson.A{same})
}

// write is the update that sets the followed fields and the version of s in a copy; nil if there
// are neither.
func (t *target) write(s state) bson.D {
	var set, unset, update bson.D
	for _, f := range t.follow {
		if v := s.value(f); v.Type != 0 {
			set = append(set, expr.Element(t.slot(f.As), v))
		} else {
			unset = append(unset, expr.Element(t.slot(f.As), ""))
		}
	}
	if !t.Unversioned {
		set = append(set, expr.Element(t.slot(t.VersionField), s.version))
	}
	if set != nil {
		update = append(update, expr.Element("$set", set))
	}
	if unset != nil {
		update = append(update, expr.Element("$unset", unset))
	}
	return update
}

func (t *target) reference(s state) bson.D {
	out := nested(make(bson.D, 0, len(t.inner)), t.IDField, s.key)
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

// nested sets a dotted path in a document under construction.
func nested(doc bson.D, path string, v any) bson.D {
	first, rest, dotted := strings.Cut(path, ".")
	if !dotted {
		return append(doc, expr.Element(first, v))
	}
	for i, e := range doc {
		if e.Key == first {
			inner, _ := e.Value.(bson.D)
			doc[i].Value = nested(inner, rest, v)
			return doc
		}
	}
	return append(doc, expr.Element(first, nested(nil, rest, v)))
}

// copies returns the well-formed copies in a document, and its first malformed value; if all are well
// formed, that has an empty Kind. A missing value, null, and an element without any field of a copy are not
// malformed.
func (t *target) copies(doc bson.Raw) (copies []bson.Raw, malformed mongopatterns.Problem) {
	wrong := func(field string, have bson.RawValue) {
		if malformed.Kind == "" {
			malformed.Kind, malformed.Field, malformed.Have = mongopatterns.Malformed, field, have
		}
	}
	for _, step := range t.outer {
		if v := value.Lookup(doc, step); v.Type != bson.TypeEmbeddedDocument && !none(v) {
			wrong(step, v)
		}
	}
	places := []bson.RawValue{value.Embedded(doc)}
	if t.Path != "" {
		places[0] = value.Lookup(doc, t.Path)
	}
	if t.Array {
		array, ok := places[0].ArrayOK()
		if !ok && !none(places[0]) {
			wrong(t.Path, places[0])
		}
		places, _ = array.Values()
	}
	for _, v := range places {
		copied, ok := v.DocumentOK()
		if !ok && !none(v) {
			wrong(t.Path, v)
		}
		if field, have, bad := t.unsound(copied); bad {
			wrong(t.path(field), have)
		} else if !none(have) {
			copies = append(copies, copied)
		}
	}
	return copies, malformed
}

// unsound returns the first malformed field of a copy, or else its key. A document without a key is
// not a copy; then only the path to the key and remaining fields of a copy are checked.
func (t *target) unsound(copied bson.Raw) (field string, have bson.RawValue, bad bool) {
	key := value.Lookup(copied, t.IDField)
	for _, way := range t.ways {
		v, toKey := value.Lookup(copied, way), strings.HasPrefix(t.IDField, way+".")
		if v.Type != bson.TypeEmbeddedDocument && v.Type != 0 && (!none(v) || !toKey) && (!none(key) || toKey) {
			return way, v, true
		}
	}
	if none(key) {
		leftover := slices.ContainsFunc(t.inner, func(path string) bool { return !none(value.Lookup(copied, path)) })
		return t.IDField, key, leftover && t.Path != ""
	}
	return t.IDField, key, value.CheckID(key) != nil
}

func none(v bson.RawValue) bool { return v.Type == 0 || v.Type == bson.TypeNull }

// each maps the paths that contain all of a copy to v; with 1 it is a projection.
func (t *target) each(v any) bson.D {
	if t.Path != "" {
		return expr.D(t.Path, v)
	}
	var out bson.D
	for _, path := range t.inner {
		out = append(out, expr.Element(path, v))
	}
	return out
}
