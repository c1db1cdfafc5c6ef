package subset

import (
	"bytes"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// An item is a document of the collection of items, and the part of it that a parent keeps.
type item struct {
	id   bson.RawValue
	doc  bson.Raw
	kept bson.Raw
	made bool // the id
}

// encodeNew is encode for an item that is inserted. It refuses one whose type cannot hold the _id that it gets.
func (c *core) encodeNew(parent, v any) (p bson.RawValue, it item, err error) {
	if p, it, err = c.encode(parent, v); err != nil || !it.made {
		return p, it, err
	}
	return p, it, c.codec.CheckMade(it.doc, c.itemType)
}

// encode encodes a parent's _id and a user's item. The item gets an ObjectID if it has no _id,
// and the parent's _id in ParentField.
func (c *core) encode(parent, v any) (p bson.RawValue, it item, err error) {
	if p, err = c.codec.ID("parent", parent); err != nil {
		return p, it, err
	}
	raw, err := c.codec.Stored(v, c.single...)
	if err != nil {
		return p, it, err
	}
	if bytes.IndexByte(raw, '$') >= 0 { // rarely
		elements, _ := raw.Elements()
		for _, e := range elements {
			if strings.HasPrefix(e.Key(), "$") { // the server stores it, but then no operator can change it
				return p, it, fault.Invalid("item: no update can change the field %q, because it begins with $", e.Key())
			}
		}
	}
	if raw, err = c.items.Scope().Set(raw); err != nil {
		return p, it, err
	}
	id := raw.Lookup("_id")
	made := id.IsZero()
	if made {
		id = value.NewID()
	}
	it = c.item(value.With(raw, value.Element{Name: "_id", Value: id}, value.Element{Name: c.o.ParentField, Value: p}))
	it.made = made
	return p, it, c.valid(it)
}

func (c *core) item(doc bson.Raw) item {
	return item{id: doc.Lookup("_id"), doc: doc, kept: c.cut(doc)}
}

// valid refuses an item with two ranks, one that would make an aggregate wrong, and one that the array cannot hold: it
// may come into the array only when a better one is deleted.
func (c *core) valid(it item) error {
	if err := value.CheckID(it.id); err != nil {
		return fault.Invalid("item: %w", err)
	}
	if field := value.Replaced(it.doc); field != "" { // the parent's copy, inside an array, would keep it
		return fault.Of(it.id, fault.Invalid("%q is the empty timestamp, which the server would replace", field))
	}
	if field, why := c.defect(it.doc); field != "" {
		return fault.Of(it.id, fault.Invalid("%q %s", field, why))
	}
	return c.keepable(it.doc)
}

// keepable refuses items that are too deep for the array of a parent. Other code may have stored them.
func (c *core) keepable(docs ...bson.Raw) error {
	for _, doc := range docs {
		if value.Deeper(value.Embedded(c.cut(doc)), c.levels) {
			return fault.Of(doc.Lookup("_id"), fault.Invalid("it has more than %d levels of documents and arrays, and its parent could not keep it", c.levels))
		}
	}
	return nil
}

// defect is the field that keeps an item from being ranked or counted, and the reason.
func (c *core) defect(doc bson.Raw) (field, why string) {
	for _, path := range c.single {
		if throughArray(doc, path) {
			return path, "is or contains an array, and items are sorted or filtered by it"
		}
	}
	for _, v := range c.o.Values {
		if v.Count == "" && value.Number(value.Lookup(doc, v.Field)) == nil && c.filter.matches(doc) {
			return v.Field, "is not a number"
		}
	}
	return "", ""
}

// throughArray reports whether the value at the path, or one on the way to it, is an array.
func throughArray(doc bson.Raw, path string) bool {
	segment, rest, deeper := strings.Cut(path, ".")
	v := doc.Lookup(segment)
	inner, ok := v.DocumentOK()
	return v.Type == bson.TypeArray || ok && deeper && throughArray(inner, rest)
}

// cut is the part of an item that a parent keeps.
func (c *core) cut(doc bson.Raw) bson.Raw {
	return value.Pick(doc, func(field []byte) bool {
		return !c.o.constant(string(field)) && (c.keep == nil || c.keep[string(field)])
	})
}

// projection reads the fields of items that cut needs if keep is set, and these paths. It names
// a field that no index has: a read covered by an index would return the fields in the index's
// order, and null for missing ones.
func (c *core) projection(more ...string) bson.D {
	for _, e := range c.o.Sort {
		more = append(more, e.Key)
	}
	return included(append(append(more, c.o.Fields...), hold.Field)...)
}

// included is the projection of the top-level fields of paths, and of _id.
func included(paths ...string) bson.D {
	out, seen := expr.D("_id", 1), map[string]bool{"_id": true, "": true}
	for _, path := range paths {
		name, _, _ := strings.Cut(path, ".")
		if !seen[name] {
			seen[name] = true
			out = append(out, expr.Element(name, 1))
		}
	}
	return out
}
