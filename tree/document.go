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

// Names of fields that exist only inside pipelines and, fieldTouch, inside transactions. Options refuse them.
const (
	fieldDepth = "__depth"
	fieldTree  = "__tree"
	fieldTouch = "__touch"
	fieldSelf  = "__self"
)

var internal = []string{fieldDepth, fieldTree, fieldTouch, fieldSelf}

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

func (c *core) parse(raw bson.Raw) node {
	n := node{raw: raw, id: raw.Lookup(c.o.IDField), parent: c.field(raw, c.o.ParentField), path: c.o.PathDelimiter,
		children: elements(c.field(raw, c.o.ChildrenField)),
		left:     integer(c.field(raw, c.o.LeftField)), right: integer(c.field(raw, c.o.RightField)),
		order: integer(c.field(raw, c.o.OrderField))}
	if isNull(n.parent) {
		n.parent = null
	}
	if path, _ := c.field(raw, c.o.PathField).StringValueOK(); path != "" {
		n.path = path
	}
	return n
}

// refKey is the key of what ref gives, "" for no parent, which is that of no node.
func refKey(up node) string {
	if up.id.Type == 0 {
		return ""
	}
	return key(up.id)
}

// child is a node under a parent, or as a root, as its own children see it.
func (c *core) child(id bson.RawValue, parent *node) *node {
	n := &node{id: id, parent: null, up: parent, path: c.o.PathDelimiter}
	if parent != nil {
		n.parent = parent.id
	}
	if path, ok := lookup(c.rep.place(parent), c.o.PathField).(string); ok {
		n.path = path
	}
	return n
}

// field is the value of a field that may not be configured.
func (c *core) field(raw bson.Raw, name string) bson.RawValue {
	if name == "" {
		return bson.RawValue{}
	}
	return raw.Lookup(name)
}

// projection holds the fields that parse reads, for each of the trees.
func projection(trees ...*core) (out bson.D) {
	for _, c := range trees {
		fields := append(slices.Clone(c.fields), "_id", c.o.IDField, c.o.OrderField, c.o.ChildCountField)
		if c.derived != "" {
			fields = append(fields, c.o.ParentField)
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
func (c *core) in(pairs ...any) bson.D {
	out := make(bson.D, 0, len(c.scope)+len(pairs)/2)
	for _, e := range c.scope {
		out = append(out, bson.E{Key: e.Key, Value: equal(e.Value)})
	}
	return append(out, d(pairs...)...)
}

func (c *core) byID(id any) bson.D { return c.in(c.o.IDField, equal(id)) }

func (c *core) byIDs(ids []bson.RawValue) bson.D {
	return c.in(c.o.IDField, d("$in", append([]bson.RawValue{}, ids...)))
}

func (c *core) id(v any) (bson.RawValue, error) { return c.codec.ID("id", v) }

// prepare is a new document of the user's without the fields that the tree writes itself, but with an _id, the
// scope and a child counter. fresh says that its ID is an ObjectID made for it.
func (c *core) prepare(user any) (doc bson.D, id bson.RawValue, fresh bool, err error) {
	raw, err := c.codec.Document(user)
	if err != nil {
		return nil, id, false, err
	}
	drop := append(append(c.fields, c.o.OrderField, c.o.ChildCountField), internal...)
	for _, e := range c.scope {
		drop = append(drop, e.Key)
	}
	all, err := raw.Elements()
	if err != nil { // a RawValue inside that is none
		return nil, id, false, fault.Invalid("%w", err)
	}
	for _, e := range all {
		if k := e.Key(); k == c.o.IDField || !slices.Contains(drop, k) {
			doc = append(doc, bson.E{Key: k, Value: e.Value()})
		}
	}
	if lookup(doc, "_id") == nil {
		made, err := c.codec.Value(bson.NewObjectID())
		if err != nil {
			return nil, id, false, err
		}
		fresh = c.o.IDField == "_id"
		doc = append(bson.D{{Key: "_id", Value: made}}, doc...)
	}
	id, _ = lookup(doc, c.o.IDField).(bson.RawValue)
	if err := value.CheckID(id); err != nil {
		return nil, id, false, fault.Invalid("%s: %w", c.o.IDField, err)
	}
	if s, ok := id.StringValueOK(); ok && s == "" {
		return nil, id, false, fault.Invalid("%s: an empty string is no ID for a new node", c.o.IDField)
	}
	doc = append(doc, c.scope...)
	if c.o.ChildCountField != "" {
		doc = append(doc, bson.E{Key: c.o.ChildCountField, Value: int64(0)})
	}
	return doc, id, fresh, c.rep.usable(node{id: id})
}

// scopeID is the _id of the lock document, the same for all values and orders of fields that are one scope to
// the server.
func (c *core) scopeID() string {
	var fields []string
	for _, e := range c.scope {
		fields = append(fields, fmt.Sprintf("%s=%s", e.Key, strconv.QuoteToASCII(key(e.Value.(bson.RawValue)))))
	}
	slices.Sort(fields)
	return strings.Join(append([]string{"tree"}, fields...), " ")
}
