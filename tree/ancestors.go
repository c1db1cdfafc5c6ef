package tree

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// ancestorArray: {_id, ancestors: [root, …, parent], parent}. The parent field decides where a node is, and the
// array is derived from it. A move writes a new beginning to the array of every descendant.
type ancestorArray struct{ *store }

// ancestorsLayout indexes the array besides {parent, order}: descendants are found by the one, children by the
// other.
func ancestorsLayout(o Options) layout {
	return layout{fields: []string{o.AncestorsField, o.ParentField}, extraIndex: []string{o.AncestorsField},
		refField: o.ParentField, sortField: o.OrderField, byParentField: true, derived: o.AncestorsField, inherits: true}
}

func (s ancestorArray) parent(n node) (ref, string) { return s.namedParent(n) }

// fieldsUnder copies the array of the parent, which has to be right: see oneParent.checkSound.
func (s ancestorArray) fieldsUnder(parent *node) bson.D {
	if parent == nil {
		return expr.D(s.o.AncestorsField, bson.A{}, s.o.ParentField, s.newRootParent())
	}
	return expr.D(s.o.AncestorsField, value.Array(s.ancestorsUnder(parent)), s.o.ParentField, parent.id)
}

// ancestorsUnder returns the ancestors that the children of a parent hold: those of the parent, and the parent itself. A
// root, for nil, has none.
func (s ancestorArray) ancestorsUnder(parent *node) []bson.RawValue {
	if parent == nil {
		return []bson.RawValue{}
	}
	return append(s.above(*parent, parent.id), parent.id)
}

func (s ancestorArray) updatesBelow(x, to node) []mongo.WriteModel {
	return s.setBelow(x, expr.D(s.o.AncestorsField, s.newAncestors(x, &to)))
}

func (s ancestorArray) handOver(x node, heir *node) []mongo.WriteModel {
	parent, other := expr.Field(s.o.ParentField), valueIn(s.fieldsUnder(heir), s.o.ParentField)
	return s.setBelow(x, expr.D(s.o.AncestorsField, s.newAncestors(x, heir),
		s.o.ParentField, expr.Cond(expr.Op("$eq", parent, expr.Literal(x.id)), expr.Literal(other), parent)))
}

// newAncestors is an expression for the array of a descendant of x, with another beginning up to and including x: that of
// the children of parent. It looks for x in each array, so that a wrong beginning is replaced too, and a second run changes
// nothing.
func (s ancestorArray) newAncestors(x node, parent *node) bson.D {
	f := expr.Field(s.o.AncestorsField)
	rest := expr.Op("$slice", f, expr.Op("$add", expr.Op("$indexOfArray", f, expr.Literal(x.id)), 1), expr.Op("$size", f))
	return expr.Op("$concatArrays", expr.Literal(s.ancestorsUnder(parent)), rest)
}

func (s ancestorArray) setBelow(x node, fields bson.D) []mongo.WriteModel {
	return []mongo.WriteModel{update(expr.D(s.o.AncestorsField, equal(x.id)), mongo.Pipeline{expr.Op("$set", fields)})}
}

func (s ancestorArray) refExpr() any { return expr.Field(s.o.IDField) }

// array is an expression for the ancestors, empty if the field is not an array. Operators such as $size would
// fail the whole pipeline for such a document.
func (s ancestorArray) array() bson.D { return expr.Array(expr.Field(s.o.AncestorsField)) }

// up needs no $graphLookup, because the node holds all IDs.
func (s ancestorArray) up(levels int) mongo.Pipeline {
	return s.upBy(expr.Op("$reverseArray", expr.Op("$concatArrays", s.array(), bson.A{expr.Field(s.o.IDField)})), levels)
}

// upBy joins the nodes that way names: an array of IDs, the node itself first and the root last. The offset in
// the array is the depth. The result has no order. One $lookup for all IDs is faster than one for each.
func (s *store) upBy(way any, levels int) mongo.Pipeline {
	if levels > 0 {
		way = expr.Op("$slice", way, levels+1)
	}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$project", expr.D(fieldRef, way)),
		s.lookup(fieldRef, s.o.IDField),
	}, unfold(fieldDepth, expr.Op("$indexOfArray", expr.Field(fieldRef), expr.Field(fieldTree+"."+s.o.IDField))))
}

func (s ancestorArray) liesBelow(x node, to foundPosition) (below, known bool) {
	return isAbove(x, to.parent, s.above), true
}

// isAbove reports whether x is n, or one of the ancestors that n holds; nil is the parent of a root.
func isAbove(x node, n *node, above func(node, bson.RawValue) []bson.RawValue) bool {
	return n != nil && (same(n.id, x.id) || holds(above(*n, x.id), x.id))
}

// above follows a node that was not read up to one that was, or to a root, and adds the nodes between to its ancestors.
func (s ancestorArray) above(n node, _ bson.RawValue) []bson.RawValue {
	var between []bson.RawValue // from below
	for n.raw == nil && n.placedUnder != nil {
		n = *n.placedUnder
		between = append(between, n.id)
	}
	slices.Reverse(between)
	return append(value.Values(n.raw.Lookup(s.o.AncestorsField)), between...)
}

// down is one $match, so that reads of descendants run as a find: see open.
func (s ancestorArray) down(id any, depth int, self bool) mongo.Pipeline {
	match := s.belowMatch(id, depth)
	if self {
		match = expr.Op("$or", bson.A{s.idMatch(id), match})
	}
	return mongo.Pipeline{expr.Op("$match", match)}
}

func (s ancestorArray) descendantsMatch(n node, depth int) bson.D { return s.belowMatch(n.id, depth) }

// belowMatch matches the nodes that have id among their ancestors, by one range of the index. The distance
// from id to the end of the array says how far below id they are.
func (s ancestorArray) belowMatch(id any, depth int) bson.D {
	match := expr.D(s.o.AncestorsField, equal(id))
	if depth > 0 {
		distance := expr.Op("$subtract", expr.Op("$size", s.array()), expr.Op("$indexOfArray", s.array(), expr.Literal(id)))
		match = append(match, expr.Element("$expr", expr.Op("$lte", distance, depth)))
	}
	return match
}
