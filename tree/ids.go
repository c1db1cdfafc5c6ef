package tree

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// IDs are the same if the server holds them equal: 1, 1.0 and int64(1) are one ID and have one key.
func key(v bson.RawValue) string   { return value.Key(v) }
func text(v bson.RawValue) string  { return value.Text(v) }
func same(a, b bson.RawValue) bool { return value.Same(a, b) }

// nodesMatch matches the nodes of the tree. A document without an ID cannot be one.
func (s *store) nodesMatch() bson.D { return expr.D(s.o.IDField, expr.Op("$ne", nil)) }

// idMatch matches the node with an ID, or those with one that a condition such as anyOf is for. A node with an array for
// an ID, which only another field than _id can hold, is meant by that array alone, not by what it holds.
func (s *store) idMatch(id any) bson.D {
	is := equal(id)
	if v, ok := is.(bson.RawValue); s.o.IDField == "_id" || ok && v.Type == bson.TypeArray {
		return expr.D(s.o.IDField, is)
	}
	condition, ok := is.(bson.D)
	if !ok {
		condition = expr.D("$eq", is)
	}
	return expr.D(s.o.IDField, append(condition, expr.Element("$not", expr.AnArray)))
}

func (s *store) idsMatch(ids []bson.RawValue) bson.D { return s.idMatch(anyOf(ids)) }

// anyOf matches any of the values, which may be IDs or paths. It leaves out those that cannot be IDs, because the
// server would take a regular expression from a document for a pattern.
func anyOf[V any](values []V) bson.D {
	return expr.Op("$in", slices.DeleteFunc(append([]V{}, values...), func(v V) bool {
		id, ok := any(v).(bson.RawValue)
		return ok && value.CheckID(id) != nil
	}))
}

func (s *store) id(v any) (bson.RawValue, error) { return s.codec.ID("id", v) }

func holds(ids []bson.RawValue, id bson.RawValue) bool {
	return slices.ContainsFunc(ids, func(v bson.RawValue) bool { return same(v, id) })
}

func without(ids []bson.RawValue, id bson.RawValue) []bson.RawValue {
	return slices.DeleteFunc(slices.Clone(ids), func(v bson.RawValue) bool { return same(v, id) })
}

// equal returns v as a value for a filter. The server would take a document from the data with a key such as $gt for
// an operator.
func equal(v any) any {
	raw, ok := v.(bson.RawValue)
	switch {
	case !ok:
		return v
	case isNull(raw):
		return nil
	}
	return value.Equal(raw)
}

// checkID refuses what cannot be an ID, and a document with two fields of one name, which $graphLookup does not find.
func checkID(id bson.RawValue) error {
	if name := value.Twice(id); name != "" {
		return fmt.Errorf("an ID cannot have two fields %q", name)
	}
	return value.CheckID(id)
}

// checkNewID refuses what cannot be the ID of a new node.
func (s *store) checkNewID(id bson.RawValue) error {
	if err := checkID(id); err != nil {
		return fault.Invalid("%s: %w", s.o.IDField, err)
	}
	if text, ok := id.StringValueOK(); ok && text == "" {
		return fault.Invalid("%s: an empty string cannot be the ID of a new node", s.o.IDField)
	}
	if s.noParent(id) {
		return fault.Invalid("%s: %s is Options.RootParent and cannot be an ID", s.o.IDField, text(id))
	}
	return nil
}
