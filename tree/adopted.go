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
func (c *core) unadopted(raw bson.Raw) bool {
	return c.derived != "" && raw != nil && raw.Lookup(c.derived).Type == 0 && !isNull(raw.Lookup(c.o.ParentField))
}

// late are the conditions of unadopted as a filter, with another one for the parent.
func (c *core) late(parent any) bson.D {
	return d(c.derived, d("$exists", false), c.o.ParentField, parent)
}

func (c *core) notLate() bson.D { return d("$nor", bson.A{c.late(d("$ne", nil))}) }

// lateExpr is unadopted in a pipeline. null and missing are the least of all values.
func (c *core) lateExpr() any {
	if c.derived == "" {
		return expr.Literal(false)
	}
	return expr.Op("$and", expr.Op("$eq", expr.Op("$type", expr.Field(c.derived)), "missing"),
		expr.Op("$gt", expr.Field(c.o.ParentField), nil))
}

// lateBelow matches the nodes that name a parent and are not adopted. An array is no parent: an equality would
// match its elements.
func (c *core) lateBelow(parent any) bson.D {
	return append(c.in(), append(c.late(parent), bson.E{Key: "$nor", Value: bson.A{d(c.o.ParentField, d("$type", "array"))}})...)
}

func notAdopted(id bson.RawValue, field string) error {
	return fmt.Errorf("%w: %s names a parent and has no %s, run Adopt or Repair", ErrNotAdopted, text(id), field)
}

// settled refuses a node that is not adopted. It reads only in ChildReferences, and only for a node without an
// array that names a parent.
func (c *core) settled(ctx context.Context, n node) error {
	if !c.unadopted(n.raw) {
		return nil
	}
	if c.rep.rootsMatch() == nil {
		p, err := c.findOne(ctx, append(c.byID(n.parent), bson.E{Key: c.link, Value: equal(n.id)}), nil)
		if err != nil || p.raw != nil {
			return err
		}
	}
	return notAdopted(n.id, c.derived)
}

// wayless refuses a node of which a way up was read, of so many nodes, if the way does not tell where it is.
func (c *core) wayless(ctx context.Context, id bson.RawValue, way int, late bool) error {
	switch {
	case !late, way > 1 && c.keepsParent: // the way was found by the parent field
		return nil
	case c.rep.rootsMatch() != nil:
		return notAdopted(id, c.derived)
	}
	n, err := c.findOne(ctx, c.byID(id), missing(id))
	if err == nil {
		err = c.settled(ctx, n)
	}
	return err
}

// kidsOf matches the children of a node, those that are not adopted too.
func (c *core) kidsOf(n node) bson.D {
	match, _ := c.rep.childrenOf(n)
	match = append(match, c.rep.except(c.link)...)
	if c.derived != c.link { // the parent field names both
		return match
	}
	return d("$or", bson.A{match, c.lateBelow(equal(n.id))})
}

// lateMax bounds the nodes that are not adopted whose place Cascade looks for.
const lateMax = 10_000

// doomed is a node that is to be deleted with all below it. What is below is found by a derived field, so a node
// there that has none yet is an error.
func (c *core) doomed(ctx context.Context, id bson.RawValue) (x node, err error) {
	nodes, err := c.findAll(ctx, c.in("$or", bson.A{d(c.o.IDField, equal(id)), c.late(d("$ne", nil))}), lateMax+1)
	switch x = pick(nodes, id); {
	case err != nil:
		return x, err
	case len(nodes) > lateMax:
		return x, fmt.Errorf("%w: more than %d nodes have no %s, run Adopt", ErrNotAdopted, lateMax, c.derived)
	case x.raw == nil:
		return x, missing(id)
	}
	var parents []bson.RawValue
	for _, n := range nodes {
		if !c.unadopted(n.raw) {
			continue
		}
		if same(n.id, id) || same(n.parent, id) {
			return x, notAdopted(n.id, c.derived)
		}
		parents = append(parents, n.parent)
	}
	if len(parents) == 0 {
		return x, nil
	}
	match, _ := c.rep.descendantsOf(x, 0)
	n, err := c.findOne(ctx, append(match, bson.E{Key: c.o.IDField, Value: d("$in", parents)}), nil)
	if err == nil && n.raw != nil {
		err = fmt.Errorf("%w: a child of %s has no %s, run Adopt or Repair", ErrNotAdopted, text(n.id), c.derived)
	}
	return x, err
}
