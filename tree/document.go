package tree

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Names of fields that exist only inside pipelines and, fieldTouch, inside transactions; and fieldLock, see lockField.
// Options refuse them.
const (
	fieldDepth = "__depth"
	fieldTree  = "__tree"
	fieldTouch = "__touch"
	fieldSelf  = "__self"
	fieldLock  = "__locked"
)

var internal = []string{fieldDepth, fieldTree, fieldTouch, fieldSelf, fieldLock}

type node struct {
	raw         bson.Raw
	id          bson.RawValue
	parent      bson.RawValue // null at a root
	up          *node         // the parent, of a node that was not read
	children    []bson.RawValue
	path        string // the delimiter at a root
	left, right int64
	order       int64
}

var null = bson.RawValue{Type: bson.TypeNull}

func (s *store) parse(raw bson.Raw) node {
	n := node{raw: raw, id: raw.Lookup(s.o.IDField), parent: s.field(raw, s.o.ParentField), path: s.o.PathDelimiter,
		left: integer(s.field(raw, s.o.LeftField)), right: integer(s.field(raw, s.o.RightField)),
		order: integer(s.field(raw, s.o.OrderField))}
	if s.kind == ChildReferences {
		n.children = elements(raw.Lookup(s.o.ChildrenField))
	}
	if s.noParent(n.parent) {
		n.parent = null
	}
	if path, _ := s.field(raw, s.o.PathField).StringValueOK(); path != "" {
		n.path = path
	}
	return n
}

// parentKey is the key of what parent gives, "" for no parent, which is that of no node.
func parentKey(up node) string {
	if up.id.Type == 0 {
		return ""
	}
	return key(up.id)
}

// child is a node under a parent, or as a root, as its own children see it.
func (s *store) child(id bson.RawValue, parent *node) *node {
	n := &node{id: id, parent: null, up: parent, path: s.o.PathDelimiter}
	if parent != nil {
		n.parent, n.path = parent.id, s.full(*parent)
	}
	return n
}

// field is the value of a field that may not be configured.
func (s *store) field(raw bson.Raw, name string) bson.RawValue {
	if name == "" {
		return bson.RawValue{}
	}
	return raw.Lookup(name)
}

// projection holds the fields that parse reads, for each of the trees.
func projection(trees ...*store) (out bson.D) {
	for _, s := range trees {
		fields := append(slices.Clone(s.fields), "_id", s.o.IDField, s.o.OrderField, s.o.ChildCountField)
		if s.derived != "" {
			fields = append(fields, s.o.ParentField)
		}
		for _, f := range fields {
			if f != "" && lookup(out, f) == nil {
				out = append(out, bson.E{Key: f, Value: 1})
			}
		}
	}
	return out
}

// lookup is the value of a field of a document in memory, nil if there is none.
func lookup(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

func isNull(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

func integer(v bson.RawValue) int64 {
	n, _ := v.AsInt64OK()
	return n
}

// integral is the number that v is, if it is a whole one.
func integral(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return v.AsInt64OK()
}

func elements(v bson.RawValue) []bson.RawValue {
	array, _ := v.ArrayOK()
	values, _ := array.Values()
	return values
}

func copied(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: slices.Clone(v.Value)}
}

func key(v bson.RawValue) string   { return value.Key(v) }
func same(a, b bson.RawValue) bool { return value.Key(a) == value.Key(b) }
func text(v bson.RawValue) string  { return value.Text(v) }

func holds(ids []bson.RawValue, id bson.RawValue) bool {
	return slices.ContainsFunc(ids, func(v bson.RawValue) bool { return same(v, id) })
}

func without(ids []bson.RawValue, id bson.RawValue) []bson.RawValue {
	return slices.DeleteFunc(slices.Clone(ids), func(v bson.RawValue) bool { return same(v, id) })
}

// less orders IDs of one type: strings and numbers as the server does.
func less(a, b bson.RawValue) bool {
	if s, ok := a.StringValueOK(); ok && b.Type == bson.TypeString {
		return s < b.StringValue()
	}
	if n, ok := a.AsInt64OK(); ok && b.IsNumber() {
		return n < b.AsInt64()
	}
	return key(a) < key(b)
}

func d(pairs ...any) bson.D { return expr.D(pairs...) }

// equal is v as a filter value that the server cannot read as an operator.
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

// in filters on the scope and further conditions.
func (s *store) in(pairs ...any) bson.D {
	out := make(bson.D, 0, len(s.scope)+len(pairs)/2)
	for _, e := range s.scope {
		out = append(out, bson.E{Key: e.Key, Value: equal(e.Value)})
	}
	return append(out, d(pairs...)...)
}

func (s *store) byID(id any) bson.D { return s.in(s.o.IDField, equal(id)) }

func (s *store) byIDs(ids []bson.RawValue) bson.D {
	return s.in(s.o.IDField, d("$in", append([]bson.RawValue{}, ids...)))
}

func (s *store) id(v any) (bson.RawValue, error) { return s.codec.ID("id", v) }

// prepare is a new document of the user's without the fields that the tree writes itself, but with an _id, the
// scope and a child counter. fresh says that its ID is an ObjectID made for it.
func (s *store) prepare(user any) (doc bson.D, id bson.RawValue, fresh bool, err error) {
	raw, err := s.codec.Document(user)
	if err != nil {
		return nil, id, false, err
	}
	drop := append(append(s.fields, s.o.OrderField, s.o.ChildCountField), internal...)
	for _, e := range s.scope {
		drop = append(drop, e.Key)
	}
	all, err := raw.Elements()
	if err != nil { // a RawValue inside that is none
		return nil, id, false, fault.Invalid("%w", err)
	}
	for _, e := range all {
		if k := e.Key(); k == s.o.IDField || !slices.Contains(drop, k) {
			doc = append(doc, bson.E{Key: k, Value: e.Value()})
		}
	}
	if lookup(doc, "_id") == nil {
		made, err := s.codec.Value(bson.NewObjectID())
		if err != nil {
			return nil, id, false, err
		}
		fresh = s.o.IDField == "_id"
		doc = append(bson.D{{Key: "_id", Value: made}}, doc...)
	}
	id, _ = lookup(doc, s.o.IDField).(bson.RawValue)
	if err := value.CheckID(id); err != nil {
		return nil, id, false, fault.Invalid("%s: %w", s.o.IDField, err)
	}
	if text, ok := id.StringValueOK(); ok && text == "" {
		return nil, id, false, fault.Invalid("%s: an empty string is no ID for a new node", s.o.IDField)
	}
	if s.noParent(id) {
		return nil, id, false, fault.Invalid("%s: %s is Options.RootParent, and no ID", s.o.IDField, text(id))
	}
	doc = append(doc, s.scope...)
	if s.o.ChildCountField != "" {
		doc = append(doc, bson.E{Key: s.o.ChildCountField, Value: int64(0)})
	}
	return doc, id, fresh, s.usable(node{id: id})
}

// scopeID is the _id of the lock document, the same for all values and orders of fields that are one scope to
// the server.
func (s *store) scopeID() string {
	var fields []string
	for _, e := range s.scope {
		fields = append(fields, fmt.Sprintf("%s=%s", e.Key, strconv.QuoteToASCII(key(e.Value.(bson.RawValue)))))
	}
	slices.Sort(fields)
	return strings.Join(append([]string{"tree"}, fields...), " ")
}
