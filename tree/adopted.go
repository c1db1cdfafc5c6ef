package tree

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// Old code, which writes only the parent field, inserts nodes without the derived fields. Such a node is not
// adopted. It is not a root, even where the same field is null in a root, and its place is not guessed: calls that
// need it return ErrNotAdopted, and Adopt writes the fields.

// unadopted reports whether a node names a parent and lacks the derived field. In ChildReferences such a node is
// adopted all the same if its parent lists it, which lists.checkAdopted finds out with a read.
func (s *store) unadopted(raw bson.Raw) bool {
	return s.derived != "" && raw != nil && raw.Lookup(s.derived).Type == 0 && !s.noParent(raw.Lookup(s.o.ParentField))
}

// unadoptedMatch are the conditions of unadopted as a filter, with a condition for the parent.
func (s *store) unadoptedMatch(parent any) bson.D {
	return expr.D(s.derived, expr.Op("$exists", false), s.o.ParentField, parent)
}

// adoptedMatch matches all other nodes.
func (s *store) adoptedMatch() bson.D { return expr.Op("$nor", bson.A{s.unadoptedMatch(s.aParent())}) }

// unadoptedExpr is unadopted as an expression. A parent is whatever sorts after null, as missing sorts before it.
func (s *store) unadoptedExpr() any {
	if s.derived == "" {
		return expr.Literal(false)
	}
	conditions := bson.A{expr.Op("$eq", expr.Op("$type", expr.Field(s.derived)), "missing"), expr.Op("$gt", expr.Field(s.o.ParentField), nil)}
	if s.rootParent.Type != 0 {
		conditions = append(conditions, expr.Op("$ne", expr.Field(s.o.ParentField), expr.Literal(s.rootParent)))
	}
	return expr.Op("$and", conditions...)
}

// unadoptedUnder matches the nodes that name a parent and are not adopted. It excludes parents that are arrays,
// because an equality would match their elements.
func (s *store) unadoptedUnder(parent any) bson.D {
	return append(s.in(), append(s.unadoptedMatch(parent), expr.Element("$nor", bson.A{expr.D(s.o.ParentField, expr.Op("$type", "array"))}))...)
}

// checkDeletable refuses a node without the derived field, even if it names no parent. It may be a document of
// another representation, and its children are named by fields that this tree does not read.
func (s *store) checkDeletable(n node) error {
	if s.derived != "" && n.raw.Lookup(s.derived).Type == 0 {
		return s.notAdopted(n.id)
	}
	return nil
}

// notAdopted is the error for a node that lacks the derived field.
func (s *store) notAdopted(id bson.RawValue) error {
	return s.about(id, fmt.Errorf("%w: it has no field %s, run Adopt or Repair", mongopatterns.ErrNotAdopted, s.derived))
}

// withUnadopted adds to the filter for the children of a node those that are not adopted. Delete must not leave
// them behind.
func (s *store) withUnadopted(match bson.D, n node) bson.D {
	match = append(match, s.except(s.link)...)
	if s.derived != s.link { // the parent field names both
		return match
	}
	return expr.Op("$or", bson.A{match, s.unadoptedUnder(equal(n.id))})
}

// allChildren are the children of a node and the nodes that would be its children if they were adopted.
func (l linked) allChildren(n node) bson.D { return l.withUnadopted(l.childrenUnder(&n), n) }

// allChildren is that of linked, for all five representations.
func (c *core) allChildren(n node) bson.D {
	match, _ := c.childrenOf(n)
	return c.withUnadopted(match, n)
}

// unadoptedMax bounds the nodes that are not adopted and that Cascade reads, to find out whether they are below.
const unadoptedMax = 10_000

// allAdopted reads a node that is to be deleted with all below it. Those are found by the derived field, so it
// refuses if one of them lacks it. It reads all such nodes of the tree together with x; if there are any, it
// looks for one that has its parent below x.
func (f families) allAdopted(ctx context.Context, id bson.RawValue) (x node, err error) {
	nodes, err := f.findAll(ctx, f.in("$or", bson.A{expr.D(f.o.IDField, equal(id)), f.unadoptedMatch(f.aParent())}), unadoptedMax+1)
	switch x = pick(nodes, id); {
	case err != nil:
		return x, err
	case len(nodes) > unadoptedMax:
		return x, fmt.Errorf("%w: more than %d nodes have no field %s, run Adopt", mongopatterns.ErrNotAdopted, unadoptedMax, f.derived)
	case x.raw == nil:
		return x, f.missing(id)
	}
	if err := f.checkDeletable(x); err != nil {
		return x, err
	}
	var parents []bson.RawValue
	for _, n := range nodes {
		if !f.unadopted(n.raw) {
			continue
		}
		if same(n.parent, id) {
			return x, f.notAdopted(n.id)
		}
		parents = append(parents, n.parent)
	}
	if len(parents) == 0 {
		return x, nil
	}
	match, _ := f.under(x, 0)
	n, err := f.findOne(ctx, append(match, expr.Element(f.o.IDField, anyOf(parents))), nil)
	if err != nil || n.raw == nil {
		return x, err
	}
	return x, f.about(n.id, fmt.Errorf("%w: a child has no field %s, run Adopt or Repair", mongopatterns.ErrNotAdopted, f.derived))
}
