package tree

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// parentRefs: {_id, parent}. Nothing is derived from the parent, so a move writes one node, and reads of more
// than one level use $graphLookup. nestedSets embeds this type.
type parentRefs struct{ *store }

func parentLayout(o Options) layout {
	return layout{fields: []string{o.ParentField}, refField: o.ParentField, sortField: o.OrderField, byParentField: true,
		descendantsFrom: fromQuery}
}

func (s parentRefs) parent(n node) (ref, string)                    { return s.namedParent(n) }
func (s parentRefs) liesBelow(node, foundPosition) (_, known bool)  { return false, false }
func (s parentRefs) fieldsUnder(parent *node) bson.D                { return s.parentField(parent) }
func (s parentRefs) refExpr() any                                   { return expr.Field(s.o.IDField) }
func (s parentRefs) up(levels int) mongo.Pipeline                   { return s.parentUp(levels) }
func (s parentRefs) above(node, bson.RawValue) []bson.RawValue      { return nil }
func (s parentRefs) descendantsMatch(node, int) bson.D              { return nil }
func (s parentRefs) updatesBelow(node, node) []mongo.WriteModel     { return nil }
func (s parentRefs) handOver(x node, heir *node) []mongo.WriteModel { return s.parentHandOver(x, heir) }
func (s parentRefs) down(id any, depth int, self bool) mongo.Pipeline {
	return s.parentDown(id, depth, self)
}

// The rest of this file reads and writes the ParentField, for the representations that have one.

// namedParent returns the parent that the ParentField names, a zero ref for a root. A value that
// cannot be an ID, such as an array or a regular expression, is returned as broken, because in a filter it would
// match other nodes.
func (s *store) namedParent(n node) (named ref, broken string) {
	switch {
	case n.parent.Type == bson.TypeNull:
		return named, ""
	case n.parent.Type == bson.TypeArray:
		broken = "the parent is an array"
	case value.CheckID(n.parent) != nil:
		broken = "the parent is " + text(n.parent)
	}
	return ref{id: n.parent}, broken
}

// noParent reports whether the value v of a ParentField means a root.
func (s *store) noParent(v bson.RawValue) bool {
	return isNull(v) || s.rootParent.Type != 0 && same(v, s.rootParent)
}

// rootParents are the values that the ParentField of a root can have.
func (s *store) rootParents() bson.A {
	if s.rootParent.Type == 0 {
		return bson.A{nil}
	}
	return bson.A{nil, s.rootParent}
}

// anyParent is the condition that the ParentField names a parent.
func (s *store) anyParent() any {
	if s.rootParent.Type == 0 {
		return expr.Op("$ne", nil)
	}
	return expr.Op("$nin", s.rootParents())
}

// parentField is fieldsUnder for all representations in which the ParentField alone is written.
func (s *store) parentField(parent *node) bson.D {
	if parent == nil {
		return expr.D(s.o.ParentField, s.newRootParent())
	}
	return expr.D(s.o.ParentField, parent.id)
}

// newRootParent is the value that the library writes to a new root.
func (s *store) newRootParent() any {
	if s.rootParent.Type == 0 {
		return nil
	}
	return s.rootParent
}

// noArrayMatch excludes nodes that have an array as their parent: an equality would match its elements, and the node
// would be a child of each. It is an orphan instead.
func (s *store) noArrayMatch(field string) bson.D {
	if field != s.o.ParentField {
		return nil
	}
	return expr.Op("$nor", bson.A{expr.D(field, expr.AnArray)})
}

func (s *store) parentHandOver(x node, heir *node) []mongo.WriteModel {
	match := append(expr.D(s.o.ParentField, equal(x.id)), s.noArrayMatch(s.o.ParentField)...)
	return []mongo.WriteModel{update(match, expr.Op("$set", s.parentField(heir)))}
}

// parentUp begins at the node itself, which has the depth 0, so that one pipeline yields the node and its
// ancestors, and an empty result means that there is no such node.
func (s *store) parentUp(levels int) mongo.Pipeline {
	if levels > 0 {
		levels++ // the node itself
	}
	search := graphSearch{start: expr.Field(s.o.IDField), from: s.o.ParentField, to: s.o.IDField, depth: levels, depthTo: fieldDepth}
	return slices.Concat(mongo.Pipeline{s.graphLookup(search), s.upToNoID()}, unfold())
}

// upToNoID ends a way up at the first parent that cannot be an ID. For the server a regular expression is a
// pattern and an array are several parents, so that beyond it a depth could have many nodes.
func (s *store) upToNoID() bson.D {
	all, depth := expr.Field(fieldTree), expr.Var("n."+fieldDepth)
	last := expr.Filter(all, "n", expr.Op("$in", expr.Op("$type", expr.Var("n."+s.o.ParentField)), bson.A{"array", "regex"}))
	return expr.Op("$set", expr.D(fieldTree, expr.Let("last", expr.Op("$min", expr.Map(last, "n", depth)),
		expr.Filter(all, "n", expr.Op("$lte", depth, expr.IfNull(expr.Var("last"), depth))))))
}

// parentDown passes over a node with a regular expression as its ID, which would lead to the children of others.
func (s *store) parentDown(id any, depth int, self bool) mongo.Pipeline {
	own := s.o.IDField
	search := graphSearch{start: expr.Field(own), from: own, to: s.o.ParentField, depth: depth, only: noPatternMatch(own)}
	return s.graphDown(id, search, self)
}
