package tree

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// Old code, which writes only the parent field, inserts nodes without the derived fields: bare nodes. A bare node is
// not a root, even where the same field is null in a root, and its place is not guessed: calls that need it return
// ErrNotAdopted, and Adopt writes the fields. Only in ChildReferences a bare node may be adopted all the same, when its
// parent lists it. There checkAdopted finds that out with a read.

// isBare reports whether a node names a parent and lacks the derived field.
func (s *store) isBare(raw bson.Raw) bool {
	return s.derived != "" && raw != nil && raw.Lookup(s.derived).Type == 0 && !s.noParent(raw.Lookup(s.o.ParentField))
}

// bareMatch are the conditions of isBare as a filter, with a condition for the parent.
func (s *store) bareMatch(parent any) bson.D {
	return expr.D(s.derived, expr.Op("$exists", false), s.o.ParentField, parent)
}

// notBareMatch matches the nodes that are not bare.
func (s *store) notBareMatch() bson.D { return expr.Op("$nor", bson.A{s.bareMatch(s.anyParent())}) }

// bareExpr is isBare as an expression. A parent is whatever sorts after null, as missing sorts before it.
func (s *store) bareExpr() any {
	if s.derived == "" {
		return expr.Literal(false)
	}
	parent := expr.Field(s.o.ParentField)
	conditions := bson.A{expr.Op("$eq", expr.Op("$type", expr.Field(s.derived)), "missing"), expr.Op("$gt", parent, nil)}
	if s.rootParent.Type != 0 {
		conditions = append(conditions, expr.Op("$ne", parent, expr.Literal(s.rootParent)))
	}
	return expr.Op("$and", conditions...)
}

// bareUnderMatch is the filter for the bare nodes with a condition for their parent. It excludes parents that are arrays,
// because an equality would match their elements.
func (s *store) bareUnderMatch(parent any) bson.D {
	return append(s.bareMatch(parent), expr.Element("$nor", bson.A{expr.D(s.o.ParentField, expr.AnArray)}))
}

// checkOwnsPaths refuses to change the paths below a node of a tree of segments that has no path itself: they may be those
// below a root with the same segment. Other paths are of IDs, which no two nodes share.
func (s *store) checkOwnsPaths(n node) error {
	if s.o.SegmentField != "" && isNull(n.raw.Lookup(s.derived)) {
		return s.notAdopted(n.id)
	}
	return nil
}

// checkDerived refuses a node without the derived field, even if it names no parent. It may be a document of
// another representation, whose children are named by fields that this tree does not read.
func (s *store) checkDerived(n node) error {
	if s.derived != "" && n.raw.Lookup(s.derived).Type == 0 {
		return s.notAdopted(n.id)
	}
	return s.checkOwnsPaths(n)
}

// notAdopted is the error for a node that lacks the derived field.
func (s *store) notAdopted(id bson.RawValue) error {
	return s.about(id, fmt.Errorf("%w: it has no field %s, run Adopt or Repair", mongopatterns.ErrNotAdopted, s.derived))
}

// withBareMatch adds the bare children of a node to the filter for its children. Delete must not leave them behind.
func (s *store) withBareMatch(match bson.D, n node) bson.D {
	match = append(match, s.noArrayMatch(s.refField)...)
	if s.derived != s.refField { // the parent field names both
		return match
	}
	return expr.Op("$or", bson.A{match, s.bareUnderMatch(equal(n.id))})
}

// childrenAndBareMatch is the filter for the children of a node, the bare ones too.
func (s parented) childrenAndBareMatch(n node) bson.D {
	return s.withBareMatch(s.siblingsMatch(&n), n)
}
