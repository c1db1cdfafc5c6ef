package tree

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// ancestorArray: {_id, ancestors: [root, …, parent], parent}. The parent field decides where a node is, and the
// array is derived from it. A move writes a new beginning to the array of every descendant.
type ancestorArray struct{ *store }

// ancestorsLayout indexes the array besides {parent, order}: descendants are found by the one, children by the
// other.
func ancestorsLayout(o *Options) layout {
	return layout{settings: []config.Setting{config.Name("Options.AncestorsField", &o.AncestorsField, "ancestors"),
		config.Name("Options.ParentField", &o.ParentField, "parent")},
		fields: []string{o.AncestorsField, o.ParentField}, extraIndex: []string{o.AncestorsField},
		refField: o.ParentField, order: o.OrderField, keepsParent: true, derived: o.AncestorsField, inherits: true}
}

func (a ancestorArray) parent(n node) (node, string) { return a.namedParent(n) }

// fieldsUnder copies the array of the parent, which has to be right: families.sound looks at the parent before.
func (a ancestorArray) fieldsUnder(parent *node) bson.D {
	if parent == nil {
		return expr.D(a.o.AncestorsField, bson.A{}, a.o.ParentField, a.newRootParent())
	}
	return expr.D(a.o.AncestorsField, a.through(parent), a.o.ParentField, parent.id)
}

// through returns the ancestors that the children of n hold: those of n, and n itself. nil stands for no
// parent.
func (a ancestorArray) through(n *node) []bson.RawValue {
	if n == nil {
		return []bson.RawValue{}
	}
	return append(a.above(*n, n.id), n.id)
}

func (a ancestorArray) updatesBelow(x, to node) []mongo.WriteModel {
	return a.setBelow(x, expr.D(a.o.AncestorsField, a.newAncestors(x, &to)))
}

func (a ancestorArray) handOver(x node, heir *node) []mongo.WriteModel {
	parent, other := expr.Field(a.o.ParentField), lookup(a.fieldsUnder(heir), a.o.ParentField)
	return a.setBelow(x, expr.D(a.o.AncestorsField, a.newAncestors(x, heir),
		a.o.ParentField, expr.Cond(expr.Op("$eq", parent, expr.Literal(x.id)), expr.Literal(other), parent)))
}

// newAncestors is an expression for the array of a descendant of x, with another beginning up to and including x: that of
// the children of n. It looks for x in each array, so that a wrong beginning is replaced too, and a second run changes
// nothing.
func (a ancestorArray) newAncestors(x node, n *node) bson.D {
	f := expr.Field(a.o.AncestorsField)
	rest := expr.Op("$slice", f, expr.Op("$add", expr.Op("$indexOfArray", f, expr.Literal(x.id)), 1), expr.Op("$size", f))
	return expr.Op("$concatArrays", expr.Literal(a.through(n)), rest)
}

func (a ancestorArray) setBelow(x node, fields bson.D) []mongo.WriteModel {
	return []mongo.WriteModel{update(a.in(a.o.AncestorsField, equal(x.id)), mongo.Pipeline{expr.Op("$set", fields)})}
}

func (a ancestorArray) refExpr() any { return expr.Field(a.o.IDField) }

// array is an expression for the ancestors, empty if the field is not an array. Operators such as $size would
// fail the whole pipeline for such a document.
func (a ancestorArray) array() bson.D { return expr.Array(expr.Field(a.o.AncestorsField)) }

// up needs no $graphLookup, because the node holds all IDs.
func (a ancestorArray) up(levels int) mongo.Pipeline {
	return a.upBy(expr.Op("$reverseArray", expr.Op("$concatArrays", a.array(), bson.A{expr.Field(a.o.IDField)})), levels)
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

// above gives a node that was not read the ancestors of its parent's children.
func (a ancestorArray) above(n node, _ bson.RawValue) []bson.RawValue {
	if n.raw == nil {
		return a.through(n.up)
	}
	return append([]bson.RawValue{}, elements(n.raw.Lookup(a.o.AncestorsField))...)
}

// down is one $match, so that reads of descendants run as a find: see open.
func (a ancestorArray) down(id any, depth int, self bool) mongo.Pipeline {
	match := a.containing(id, depth)
	if self {
		match = a.in("$or", bson.A{expr.D(a.o.IDField, equal(id)), match})
	}
	return mongo.Pipeline{expr.Op("$match", match)}
}

func (a ancestorArray) descendantsOf(n node, depth int) bson.D { return a.containing(n.id, depth) }

// containing matches the nodes that have id among their ancestors, by one range of the index. The distance
// from id to the end of the array says how far below id they are.
func (a ancestorArray) containing(id any, depth int) bson.D {
	match := a.in(a.o.AncestorsField, equal(id))
	if depth > 0 {
		distance := expr.Op("$subtract", expr.Op("$size", a.array()), expr.Op("$indexOfArray", a.array(), expr.Literal(id)))
		match = append(match, expr.Element("$expr", expr.Op("$lte", distance, depth)))
	}
	return match
}
