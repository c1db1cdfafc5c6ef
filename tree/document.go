package tree

import (
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Names of fields that exist only inside pipelines and, fieldTouch, inside
// transactions.
const (
	fieldDepth = "__depth"
	fieldTree  = "__tree"
	fieldTouch = "__touch"
	fieldSelf  = "__self"
)

var internal = map[string]bool{fieldDepth: true, fieldTree: true, fieldTouch: true, fieldSelf: true}

// node is the shape of one document.
type node struct {
	raw       bson.Raw
	id        bson.RawValue
	parent    bson.RawValue // null at a root
	ancestors []bson.RawValue
	children  []bson.RawValue
	path      string // "" at a root
	segment   string
	badPath   error // why there are no paths under the node
	left      int64
	right     int64
	order     int64
}

var null = bson.RawValue{Type: bson.TypeNull}

func (c *core) parse(raw bson.Raw) node {
	n := node{raw: raw, id: raw.Lookup(c.o.IDField), parent: raw.Lookup(c.o.ParentField)}
	if isNull(n.parent) {
		n.parent = null
	}
	n.ancestors = elements(raw.Lookup(c.o.AncestorsField))
	n.children = elements(raw.Lookup(c.o.ChildrenField))
	n.path, _ = raw.Lookup(c.o.PathField).StringValueOK()
	if n.path == c.o.PathDelimiter {
		n.path = ""
	}
	n.segment, n.badPath = segmentString(raw.Lookup(c.o.SegmentField))
	if n.badPath == nil {
		n.badPath = c.checkSegment(n.segment)
	}
	n.left = integer(raw.Lookup(c.o.LeftField))
	n.right = integer(raw.Lookup(c.o.RightField))
	n.order = integer(c.field(raw, c.o.OrderField))
	return n
}

// field is the value of a field that may not be configured.
func (c *core) field(raw bson.Raw, name string) bson.RawValue {
	if name == "" {
		return bson.RawValue{}
	}
	return raw.Lookup(name)
}

// projection holds what parse reads.
func (c *core) projection() bson.D {
	out := bson.D{{Key: "_id", Value: 1}}
	for _, f := range append(c.rep.fields(), c.o.IDField, c.o.SegmentField, c.o.OrderField, c.o.ChildCountField) {
		if f != "" && !has(out, f) {
			out = append(out, bson.E{Key: f, Value: 1})
		}
	}
	for _, e := range c.also {
		if !has(out, e.Key) {
			out = append(out, e)
		}
	}
	return out
}

func has(doc bson.D, key string) bool {
	return slices.ContainsFunc(doc, func(e bson.E) bool { return e.Key == key })
}

func lookupD(doc bson.D, key string) bson.RawValue {
	for _, e := range doc {
		if v, ok := e.Value.(bson.RawValue); ok && e.Key == key {
			return v
		}
	}
	return bson.RawValue{}
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
	array, ok := v.ArrayOK()
	if !ok {
		return nil
	}
	values, err := array.Values()
	if err != nil {
		return nil
	}
	return values
}

func key(v bson.RawValue) string   { return value.Key(v) }
func same(a, b bson.RawValue) bool { return value.Key(a) == value.Key(b) }

func holds(ids []bson.RawValue, id bson.RawValue) bool {
	return slices.ContainsFunc(ids, func(v bson.RawValue) bool { return same(v, id) })
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

// text is a value for a message.
func text(v bson.RawValue) string { return value.Text(v) }

// arrayOf is an array of values; nil is an empty one.
func arrayOf(values []bson.RawValue) bson.RawValue {
	array, err := codec.Codec{}.Value(append([]bson.RawValue{}, values...))
	if err != nil {
		return null
	}
	return array
}

// d makes a document of keys and values by turns.
func d(pairs ...any) bson.D {
	out := make(bson.D, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

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

// id encodes an ID and refuses what cannot be one.
func (c *core) id(v any) (bson.RawValue, error) {
	id, err := c.codec.Value(v)
	if err == nil {
		err = checkID(id)
	}
	return id, err
}

func checkID(id bson.RawValue) error {
	if err := value.CheckID(id); err != nil {
		return fault.Invalid("id: %w", err)
	}
	return nil
}

// prepare takes from a document what the tree will write itself.
func (c *core) prepare(raw bson.Raw, more ...string) (doc bson.D, id bson.RawValue, err error) {
	drop := map[string]bool{}
	for _, f := range append(append(c.rep.fields(), c.o.OrderField, c.o.ChildCountField), more...) {
		drop[f] = true
	}
	for _, e := range c.scope {
		drop[e.Key] = true
	}
	delete(drop, c.o.IDField)
	all, err := raw.Elements()
	if err != nil {
		return nil, id, fault.Invalid("%w", err)
	}
	for _, e := range all {
		if !drop[e.Key()] && !internal[e.Key()] {
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if !has(doc, "_id") {
		fresh, err := c.codec.Value(bson.NewObjectID())
		if err != nil {
			return nil, id, err
		}
		doc = append(bson.D{{Key: "_id", Value: fresh}}, doc...)
	}
	id = lookupD(doc, c.o.IDField)
	if err := value.CheckID(id); err != nil {
		return nil, id, fault.Invalid("%s: %w", c.o.IDField, err)
	}
	if s, ok := id.StringValueOK(); ok && s == "" {
		return nil, id, fault.Invalid("%s: an empty string is no ID for a new node", c.o.IDField)
	}
	doc = append(doc, c.scope...)
	if c.o.ChildCountField != "" {
		doc = append(doc, bson.E{Key: c.o.ChildCountField, Value: int64(0)})
	}
	return doc, id, c.rep.accept(doc)
}

// scopeID is the _id of the lock document: the scope in extended JSON, the same
// for all values and orders of fields that are one scope to the server.
func (c *core) scopeID() (string, error) {
	if len(c.scope) == 0 {
		return "tree", nil
	}
	sorted := slices.Clone(c.scope)
	slices.SortFunc(sorted, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	for i, e := range sorted {
		v, err := exact(e.Value.(bson.RawValue))
		if err != nil {
			return "", fault.Invalid("Options.Scope: %s: %w", e.Key, err)
		}
		sorted[i].Value = v
	}
	id, err := bson.MarshalExtJSON(sorted, true, false)
	return string(id), err
}

// exact replaces the numbers in a value by their exact text. The order of the
// fields in a nested document counts for the server.
func exact(v bson.RawValue) (any, error) {
	if n := value.Number(v); n != nil {
		return d("$number", n.RatString()), nil
	}
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return v, nil
	}
	inner, err := bson.Raw(v.Value).Elements()
	out := bson.D{}
	for _, e := range inner {
		p, err := exact(e.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, bson.E{Key: e.Key(), Value: p})
	}
	return out, err
}
