package tree

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// parentRefs: {_id, parent}. Nothing is derived: a move writes one node.
type parentRefs struct{ *store }

func parentLayout(o *Options) layout {
	return layout{settings: []config.Setting{config.Name("Options.ParentField", &o.ParentField, "parent")},
		fields: []string{o.ParentField}, link: o.ParentField, order: o.OrderField, keepsParent: true}
}

func (p parentRefs) parent(n node) (node, string)              { return p.namedParent(n) }
func (p parentRefs) place(parent *node) bson.D                 { return p.parentPlace(parent) }
func (p parentRefs) reference() any                            { return expr.Field(p.o.IDField) }
func (p parentRefs) up(levels int) mongo.Pipeline              { return p.parentUp(levels) }
func (p parentRefs) above(node) []bson.RawValue                { return nil }
func (p parentRefs) under(node, int) (match bson.D, read bool) { return nil, false }
func (p parentRefs) below(x node, to *node) []mongo.WriteModel { return p.adoptChildren(x, to) }
func (p parentRefs) down(id any, depth int, self bool) mongo.Pipeline {
	return p.parentDown(id, depth, self)
}

// What follows reads and writes the ParentField, for those that have it.

// namedParent refuses an array for a parent.
func (s *store) namedParent(n node) (up node, broken string) {
	switch n.parent.Type {
	case bson.TypeNull:
		return up, ""
	case bson.TypeArray:
		broken = "the parent is an array"
	}
	return node{id: n.parent}, broken
}

// noParent reports whether the ParentField of a node says that it is a root.
func (s *store) noParent(v bson.RawValue) bool {
	return isNull(v) || s.rootParent.Type != 0 && same(v, s.rootParent)
}

// rootParents is what the ParentField of roots holds, and aParent is the condition for what it does not hold.
func (s *store) rootParents() bson.A {
	if s.rootParent.Type == 0 {
		return bson.A{nil}
	}
	return bson.A{nil, s.rootParent}
}

func (s *store) aParent() any {
	if s.rootParent.Type == 0 {
		return d("$ne", nil)
	}
	return d("$nin", s.rootParents())
}

func (s *store) parentPlace(parent *node) bson.D {
	if parent == nil {
		return d(s.o.ParentField, s.newRootParent())
	}
	return d(s.o.ParentField, parent.id)
}

// newRootParent is what the library writes.
func (s *store) newRootParent() any {
	if s.rootParent.Type == 0 {
		return nil
	}
	return s.rootParent
}

// except keeps out the nodes with an array for a parent: an equality would match its elements. Such a node is
// an orphan.
func (s *store) except(field string) bson.D {
	if field != s.o.ParentField {
		return nil
	}
	return d("$nor", bson.A{d(field, d("$type", "array"))})
}

// adoptChildren writes another parent to the children of x, and nothing when x moves.
func (s *store) adoptChildren(x node, to *node) []mongo.WriteModel {
	if to != nil && same(to.id, x.id) {
		return nil
	}
	match := append(s.in(s.o.ParentField, equal(x.id)), s.except(s.o.ParentField)...)
	return []mongo.WriteModel{update(match, d("$set", s.parentPlace(to)))}
}

func (s *store) parentUp(levels int) mongo.Pipeline {
	if levels > 0 {
		levels++ // the node itself
	}
	return slices.Concat(mongo.Pipeline{s.graphLookup(expr.Field(s.o.IDField), s.o.ParentField, s.o.IDField, levels,
		expr.Element("depthField", fieldDepth))}, unfold())
}

func (s *store) parentDown(id any, depth int, self bool) mongo.Pipeline {
	return s.graphDown(id, s.o.IDField, s.o.IDField, s.o.ParentField, depth, self)
}
