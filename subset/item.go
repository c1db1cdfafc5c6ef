package subset

import (
	"bytes"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// An item is a document of the items, and what a parent keeps of it.
type item struct {
	id   bson.RawValue
	doc  bson.Raw
	kept bson.Raw
}

// encode makes an item of a user's value: with an _id, an ObjectID if there is none,
// and with the parent's _id in its field.
func (c *core) encode(parent bson.RawValue, v any) (item, error) {
	raw, err := c.codec.Document(v)
	if err != nil {
		return item{}, err
	}
	elements, err := raw.Elements()
	if err != nil {
		return item{}, fault.Invalid("%w", err)
	}
	id := any(raw.Lookup("_id"))
	if raw.Lookup("_id").IsZero() {
		id = bson.NewObjectID()
	}
	doc := bson.D{{Key: "_id", Value: id}, {Key: c.o.ParentField, Value: parent}}
	for i, e := range elements {
		if e.Key() != "_id" && e.Key() != c.o.ParentField {
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		} else if e.Key() == c.o.ParentField && i > 0 { // it stays where it stands
			doc = append(append(doc[:1:1], doc[2:]...), doc[1])
		}
	}
	if raw, err = bson.Marshal(doc); err != nil {
		return item{}, fault.Invalid("%w", err)
	}
	it := c.item(raw)
	return it, c.valid(it)
}

// item is a document of the collection.
func (c *core) item(doc bson.Raw) item {
	return item{id: doc.Lookup("_id"), doc: doc, kept: c.cut(doc)}
}

// valid refuses what would rank in two places or leave an aggregate wrong.
func (c *core) valid(it item) error {
	if err := value.CheckID(it.id); err != nil {
		return fault.Invalid("item: %w", err)
	}
	if field, why := c.defect(it.doc); field != "" {
		return fault.Of(it.id, fault.Invalid("%s %q", why, field))
	}
	return nil
}

// defect is the field for which an item cannot be ranked or counted, and why.
func (c *core) defect(doc bson.Raw) (field, why string) {
	for _, e := range c.o.Order {
		if throughArray(doc, e.Key) {
			return e.Key, "items are sorted, and an array stands in"
		}
	}
	for _, t := range c.filter.tests {
		if throughArray(doc, t.path) {
			return t.path, "items are filtered, and an array stands in"
		}
	}
	for _, v := range c.o.Values {
		if v.Count == "" && value.Number(value.Lookup(doc, v.Field)) == nil && c.filter.matches(doc) {
			return v.Field, "no number in"
		}
	}
	return "", ""
}

// throughArray reports whether an array stands at the path or on the way to it.
func throughArray(doc bson.Raw, path string) bool {
	segment, rest, deeper := strings.Cut(path, ".")
	v := doc.Lookup(segment)
	inner, ok := v.DocumentOK()
	return v.Type == bson.TypeArray || ok && deeper && throughArray(inner, rest)
}

// cut is what a parent keeps of an item.
func (c *core) cut(doc bson.Raw) bson.Raw {
	if c.keep != nil {
		return c.keep.of(doc)
	}
	all := selection{}
	elements, _ := doc.Elements()
	for _, e := range elements {
		if e.Key() != c.o.ParentField {
			all[e.Key()] = nil
		}
	}
	return all.of(doc)
}

// projection reads of items what cut needs where keep is set, and these paths. It names a field that
// no index has: a read that an index covers returns the fields in the index's order,
// and null for those that are missing.
func (c *core) projection(more ...string) bson.D {
	for _, e := range c.o.Order {
		more = append(more, e.Key)
	}
	return included(append(append(more, c.o.Fields...), fieldTouch)...)
}

// included is the projection of the top-level fields of paths, and of _id.
func included(paths ...string) bson.D {
	out, seen := bson.D{{Key: "_id", Value: 1}}, map[string]bool{"_id": true, "": true}
	for _, path := range paths {
		name, _, _ := strings.Cut(path, ".")
		if !seen[name] {
			seen[name] = true
			out = append(out, bson.E{Key: name, Value: 1})
		}
	}
	return out
}

// A selection is the tree of the paths that a kept item holds. An empty one stands
// for everything below.
type selection map[string]selection

func selected(paths []string) selection {
	s := selection{}
	for _, path := range paths {
		s.add(path)
	}
	return s
}

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

// of is what the server's projection of the paths leaves of a document.
func (s selection) of(doc bson.Raw) bson.Raw {
	raw, _ := bson.Marshal(s.cut(doc)) // values that were BSON before
	return raw
}

func (s selection) cut(doc bson.Raw) bson.D {
	out := bson.D{}
	elements, _ := doc.Elements()
	for _, e := range elements {
		below, named := s[e.Key()]
		if !named {
			continue
		}
		if v, ok := below.cutValue(e.Value()); ok {
			out = append(out, bson.E{Key: e.Key(), Value: v})
		}
	}
	return out
}

func (s selection) cutValue(v bson.RawValue) (any, bool) {
	switch {
	case len(s) == 0:
		return v, true
	case v.Type == bson.TypeEmbeddedDocument:
		return s.cut(v.Document()), true
	case v.Type == bson.TypeArray:
		out := bson.A{}
		values, _ := v.Array().Values()
		for _, v := range values {
			if kept, ok := s.cutValue(v); ok {
				out = append(out, kept)
			}
		}
		return out, true
	}
	return nil, false
}

func same(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }

// alike compares two documents by their content: the order of fields, which a server
// or another program may have changed, does not count.
func alike(a, b bson.RawValue) bool {
	if a.Type != b.Type || a.Type != bson.TypeEmbeddedDocument && a.Type != bson.TypeArray {
		return same(a, b)
	}
	left, _ := bson.Raw(a.Value).Elements()
	right, _ := bson.Raw(b.Value).Elements()
	if len(left) != len(right) {
		return false
	}
	for i, e := range left { // mostly in one order
		other := right[i]
		if other.Key() != e.Key() {
			v, err := bson.Raw(b.Value).LookupErr(e.Key())
			if err != nil || !alike(e.Value(), v) {
				return false
			}
		} else if !alike(e.Value(), other.Value()) {
			return false
		}
	}
	return true
}
