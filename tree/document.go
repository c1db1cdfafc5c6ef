package tree

import (
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Names that Options refuse, besides that of package hold. The fields exist only inside pipelines, except for fieldLock,
// which is in the lock document.
const (
	fieldDepth = "__depth"  // distance from the node that a pipeline starts from
	fieldTree  = "__tree"   // the result of a $lookup or $graphLookup
	fieldRef   = hold.Field // a computed reference, by a name that is taken anyway
	fieldSelf  = "__self"   // the node itself; in downBy it tells the two copies apart
	fieldLock  = "__locked" // see lockField
)

var internal = []string{fieldDepth, fieldTree, fieldRef, fieldSelf, fieldLock}

// ref is what names a node: its ID or, in a path of segments, its path and segment. The zero ref names none.
type ref struct {
	id      bson.RawValue
	segment bson.RawValue // the value of the SegmentField, if there is one
	path    string        // the delimiter at a root
}

// node is a document, or, from nodeUnder, what one will be at another place.
type node struct {
	ref
	raw         bson.Raw      // nil if the document was not read
	parent      bson.RawValue // null at a root, also for Options.RootParent
	placedUnder *node         // the parent, if nodeUnder made this node
	children    []bson.RawValue
	left, right int64
	order       int64
}

// width is the number of descendants in NestedSets: half the numbers between left and right. It is 0 without numbers.
func (n node) width() int64 { return max(n.right-n.left, 1) / 2 }

// parse reads the fields of the tree from a document. A field of the wrong type counts as missing.
func (s *store) parse(raw bson.Raw) node {
	n := node{raw: raw, ref: ref{raw.Lookup(s.o.IDField), s.field(raw, s.o.SegmentField), s.o.PathDelimiter},
		parent: s.field(raw, s.o.ParentField), order: integer(s.field(raw, s.o.OrderField)),
		left: integer(s.field(raw, s.o.LeftField)), right: integer(s.field(raw, s.o.RightField))}
	if s.kind == ChildReferences {
		n.children = list(raw.Lookup(s.o.ChildrenField))
	}
	if s.noParent(n.parent) {
		n.parent = value.Null
	}
	if path, _ := s.field(raw, s.o.PathField).StringValueOK(); path != "" {
		n.path = path
	}
	return n
}

// refKey is a map key for the value that the children of a node hold to name it, "" for no node. With a SegmentField that
// is the path of its children. If only its ID is known it is that of the ID: a bare node names its parent so.
func (s *store) refKey(r ref) string {
	switch {
	case s.o.SegmentField != "" && s.checkUsable(r) == nil:
		return "path" + s.full(r)
	case r.id.Type == 0:
		return ""
	}
	return key(r.id)
}

// namesOf are the keys of a node in a map for those that name it: children by its refKey, lists and bare nodes by its ID.
func (s *store) namesOf(r ref) [2]string { return [2]string{key(r.id), s.refKey(r)} }

// tellsAncestors reports whether a node holds the IDs of its ancestors. Segments of a SegmentField are not IDs.
func (s *store) tellsAncestors() bool { return s.inherits && s.o.SegmentField == "" }

// names reports whether r names a node. The parent of a root does not.
func (s *store) names(r ref) bool { return s.refKey(r) != "" }

// refOf is what names n, nil for nil.
func refOf(n *node) *ref {
	if n == nil {
		return nil
	}
	return &n.ref
}

// nodeUnder returns what a node with an ID and a segment would be under parent, or as a root if parent is nil. Only the
// fields from which those of its children are derived are set.
func (s *store) nodeUnder(id, segment bson.RawValue, parent *node) *node {
	n := &node{ref: ref{id, segment, s.o.PathDelimiter}, parent: value.Null, placedUnder: parent}
	if parent != nil {
		n.parent, n.path = parent.id, s.full(parent.ref)
	}
	return n
}

// field returns the value of a field, nothing if the option for its name is not set.
func (s *store) field(raw bson.Raw, name string) bson.RawValue {
	if name == "" {
		return bson.RawValue{}
	}
	return raw.Lookup(name)
}

// projection selects the fields that parse reads, for each of the trees, so that no call reads whole documents to
// change the shape.
func projection(trees ...*store) (out bson.D) {
	for _, s := range trees {
		fields := append(slices.Clone(s.fields), "_id", s.o.IDField, s.o.SegmentField, s.o.OrderField, s.o.ChildCountField)
		if s.derived != "" {
			fields = append(fields, s.o.ParentField)
		}
		for _, f := range fields {
			if f != "" && valueIn(out, f) == nil {
				out = append(out, expr.Element(f, 1))
			}
		}
	}
	return out
}

// valueIn returns the value of a field of a document in memory, nil if it is missing.
func valueIn(doc bson.D, key string) any {
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

// integer returns the number in v, without its fraction, and 0 if v is not a number.
func integer(v bson.RawValue) int64 {
	n, _ := v.AsInt64OK()
	return n
}

// integral returns the number in v, if it is a whole number.
func integral(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return v.AsInt64OK()
}

// list returns the children that a node lists. An ID in place of an array is one child, as for the server.
func list(v bson.RawValue) []bson.RawValue {
	if value.CheckID(v) == nil {
		return []bson.RawValue{v}
	}
	return value.Values(v)
}

// newDocument is a document of the user before it has a place: without the fields that the tree derives, and with an _id
// and a child count.
type newDocument struct {
	doc     bson.D
	id      bson.RawValue
	made    bool          // the ID is an ObjectID that was made here
	segment bson.RawValue // the value of the SegmentField, if there is one
}

// with returns a copy with further fields, because a transaction can run again with other ones.
func (d newDocument) with(fields bson.D) newDocument {
	d.doc = slices.Concat(d.doc, fields)
	return d
}

// prepare encodes a new document of the user.
func (s *store) prepare(user any) (d newDocument, err error) {
	if d.doc, err = s.ownFields(user); err != nil {
		return d, err
	}
	if valueIn(d.doc, "_id") == nil {
		generated, err := s.codec.Value(bson.NewObjectID())
		if err != nil {
			return d, err
		}
		d.made = s.o.IDField == "_id"
		d.doc = append(expr.D("_id", generated), d.doc...)
	}
	d.id, _ = valueIn(d.doc, s.o.IDField).(bson.RawValue)
	if err := s.checkNewID(d.id); err != nil {
		return d, err
	}
	if s.o.ChildCountField != "" {
		d.doc = append(d.doc, expr.Element(s.o.ChildCountField, int64(0)))
	}
	d.segment, _ = valueIn(d.doc, s.o.SegmentField).(bson.RawValue)
	return d, s.checkUsable(ref{id: d.id, segment: d.segment})
}

// ownFields encodes a document of the user, without the fields that the tree and the scope write.
func (s *store) ownFields(user any) (doc bson.D, err error) {
	raw, err := s.codec.Stored(user, s.o.IDField)
	if err != nil {
		return nil, err
	}
	drop := slices.Concat(s.fields, []string{s.o.OrderField, s.o.ChildCountField}, internal)
	for _, f := range s.coll.Scope().Fields() {
		drop = append(drop, f.Name)
	}
	all, err := raw.Elements()
	if err != nil { // a RawValue inside that is not valid BSON
		return nil, fault.Invalid("%w", err)
	}
	for _, e := range all {
		if k := e.Key(); k == s.o.IDField || !slices.Contains(drop, k) {
			doc = append(doc, expr.Element(k, e.Value()))
		}
	}
	return doc, nil
}
