package extref

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// Queries go through arrays wherever they meet one, so {"customer._id": 1} also
// selects {customer: [{_id: 1}]}, which is no copy where Array is not set. What
// removes copies, and what counts them, must not take it for one.

var isArray = bson.D{{Key: "$type", Value: "array"}}

// arrays are the conditions that one of the steps is an array.
func arrays(prefix string, steps []string) bson.A {
	out := bson.A{}
	for _, step := range steps {
		out = append(out, bson.D{{Key: prefix + step, Value: isArray}})
	}
	return out
}

// noArray is the condition that no step of a path is an array.
func noArray(prefix, path string) bson.D {
	return bson.D{{Key: "$nor", Value: arrays(prefix, fieldpath.Steps(path))}}
}

// shape are the conditions, besides where, that what lies at the target is a copy,
// or an array.
func (t *target) shape() bson.D {
	if !t.Array {
		return noArray("", t.path(t.IDField))
	}
	out := bson.D{{Key: t.Path, Value: isArray}}
	if outer := t.outer(); len(outer) > 0 {
		out = append(out, bson.E{Key: "$nor", Value: arrays("", outer)})
	}
	return out
}

// outer are the paths that lead to where the copy lies.
func (t *target) outer() []string {
	at := t.Path
	if at == "" {
		at = t.IDField
	}
	return fieldpath.Above(at)
}

// orDoubtful selects what referring does, and all that malformed has to look at.
func (t *target) orDoubtful(conditions ...bson.E) bson.D {
	some := bson.A{t.referring(conditions...)}
	no := func(path string) bson.D { return bson.D{{Key: path, Value: nil}} }
	if t.Path == "" {
		return op1("$or", append(some, arrays("", fieldpath.Steps(t.IDField))...))
	}
	for _, step := range t.outer() {
		some = append(some, bson.D{{Key: step, Value: isArray}, {Key: t.Path, Value: bson.D{{Key: "$exists", Value: true}}}})
	}
	inner := fieldpath.Steps(t.IDField)
	if !t.Array {
		some = append(some, bson.D{{Key: t.Path, Value: isArray}},
			append(no(t.path(t.IDField)), bson.E{Key: t.Path, Value: bson.D{{Key: "$ne", Value: nil}}}))
		return op1("$or", append(some, arrays(t.Path+".", inner)...))
	}
	some = append(some, op1("$nor", bson.A{no(t.Path), bson.D{{Key: t.Path, Value: isArray}}}))
	for _, element := range append(arrays("", inner), no(t.IDField), op1("$not", op1("$type", "object"))) {
		some = append(some, bson.D{{Key: t.Path, Value: op1("$elemMatch", element)}})
	}
	return op1("$or", some)
}

// malformed is the first thing in a document that the target does not describe.
// Nothing at all is not wrong, nor null, nor, as elements may have other fields of
// their own, one with no field of a copy.
func (t *target) malformed(doc bson.Raw) (field string, have bson.RawValue, bad bool) {
	for _, step := range t.outer() {
		if value := rawvalue.Lookup(doc, step); !none(value) && value.Type != bson.TypeEmbeddedDocument {
			return step, value, true
		}
	}
	if t.Path == "" {
		id := rawvalue.Lookup(doc, t.IDField)
		return t.IDField, id, !none(id) && checkID(id) != nil
	}
	value := rawvalue.Lookup(doc, t.Path)
	copies := []bson.RawValue{value}
	if t.Array && !none(value) {
		array, ok := value.ArrayOK()
		if !ok {
			return t.Path, value, true
		}
		copies, _ = array.Values()
	}
	for _, value := range copies {
		if none(value) {
			continue
		}
		copied, ok := value.DocumentOK()
		if !ok {
			return t.Path, value, true
		}
		for _, step := range fieldpath.Above(t.IDField) {
			if value := rawvalue.Lookup(copied, step); !none(value) && value.Type != bson.TypeEmbeddedDocument {
				return t.path(step), value, true
			}
		}
		id := rawvalue.Lookup(copied, t.IDField)
		if !none(id) && checkID(id) != nil || none(id) && t.leftover(copied) {
			return t.path(t.IDField), id, true
		}
	}
	return "", bson.RawValue{}, false
}

// leftover reports that a copy, which has no ID, has other fields.
func (t *target) leftover(copied bson.Raw) bool {
	for _, f := range t.Fields {
		if !none(rawvalue.Lookup(copied, f.As)) {
			return true
		}
	}
	return t.VersionField != "" && !none(rawvalue.Lookup(copied, t.VersionField))
}

func none(value bson.RawValue) bool { return value.Type == 0 || value.Type == bson.TypeNull }
