package tree

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// Code that knows the parent field only inserts nodes without the fields that are derived from it. Such a node
// is not adopted: it is no root, whatever the missing field would say of one.

// unadopted reports whether a node names a parent and has no derived field. In ChildReferences a node that its
// parent lists is adopted all the same: settled asks.
func (s *store) unadopted(raw bson.Raw) bool {
	return s.derived != "" && raw != nil && raw.Lookup(s.derived).Type == 0 && !s.noParent(raw.Lookup(s.o.ParentField))
}

// unadoptedMatch are the conditions of unadopted as a filter, with another one for the parent.
func (s *store) unadoptedMatch(parent any) bson.D {
	return d(s.derived, d("$exists", false), s.o.ParentField, parent)
}

func (s *store) adoptedMatch() bson.D { return d("$nor", bson.A{s.unadoptedMatch(s.aParent())}) }

// unadoptedExpr is unadopted in a pipeline. null and missing are the least of all values.
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

// unadoptedUnder matches the nodes that name a parent and are not adopted. An array is no parent: an equality would
// match its elements.
func (s *store) unadoptedUnder(parent any) bson.D {
	return append(s.in(), append(s.unadoptedMatch(parent), bson.E{Key: "$nor", Value: bson.A{d(s.o.ParentField, d("$type", "array"))}})...)
}

func notAdopted(id bson.RawValue, field string) error {
	return fmt.Errorf("%w: %s names a parent and has no %s, run Adopt or Repair", ErrNotAdopted, text(id), field)
}

// settled refuses a node that is not adopted. Only for lists, and a node without an array that names a parent, it
// reads.
func (c *core) settled(ctx context.Context, n node) error {
	switch {
	case !c.unadopted(n.raw):
		return nil
	case c.lists != nil:
		return c.lists.settled(ctx, n)
	}
	return notAdopted(n.id, c.derived)
}

// checkWay refuses a node of which a way up was read, of so many nodes, if the way does not tell where it is.
func (c *core) checkWay(ctx context.Context, id bson.RawValue, way int, unadopted bool) error {
	switch {
	case !unadopted, way > 1 && c.keepsParent: // the way was found by the parent field
		return nil
	case c.lists == nil:
		return notAdopted(id, c.derived)
	}
	n, err := c.findOne(ctx, c.byID(id), missing(id))
	if err == nil {
		err = c.settled(ctx, n)
	}
	return err
}

// withUnadopted widens the filter for the children of a node to those that are not adopted.
func (s *store) withUnadopted(match bson.D, n node) bson.D {
	match = append(match, s.except(s.link)...)
	if s.derived != s.link { // the parent field names both
		return match
	}
	return d("$or", bson.A{match, s.unadoptedUnder(equal(n.id))})
}

func (l linked) allChildren(n node) bson.D { return l.withUnadopted(l.childrenUnder(&n), n) }

func (c *core) allChildren(n node) bson.D {
	match, _ := c.childrenOf(n)
	return c.withUnadopted(match, n)
}

// unadoptedMax bounds the nodes that are not adopted whose place Cascade looks for.
const unadoptedMax = 10_000

// allAdopted reads a node that is to be deleted with all below it. What is below is found by a derived field, so
// a node there that has none yet is an error.
func (f families) allAdopted(ctx context.Context, id bson.RawValue) (x node, err error) {
	nodes, err := f.findAll(ctx, f.in("$or", bson.A{d(f.o.IDField, equal(id)), f.unadoptedMatch(f.aParent())}), unadoptedMax+1)
	switch x = pick(nodes, id); {
	case err != nil:
		return x, err
	case len(nodes) > unadoptedMax:
		return x, fmt.Errorf("%w: more than %d nodes have no %s, run Adopt", ErrNotAdopted, unadoptedMax, f.derived)
	case x.raw == nil:
		return x, missing(id)
	}
	var parents []bson.RawValue
	for _, n := range nodes {
		if !f.unadopted(n.raw) {
			continue
		}
		if same(n.id, id) || same(n.parent, id) {
			return x, notAdopted(n.id, f.derived)
		}
		parents = append(parents, n.parent)
	}
	if len(parents) == 0 {
		return x, nil
	}
	match, _ := f.under(x, 0)
	n, err := f.findOne(ctx, append(match, bson.E{Key: f.o.IDField, Value: d("$in", parents)}), nil)
	if err == nil && n.raw != nil {
		err = fmt.Errorf("%w: a child of %s has no %s, run Adopt or Repair", ErrNotAdopted, text(n.id), f.derived)
	}
	return x, err
}
