package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// The filters are for Find, Count, paging and $match. Where the representation keeps what they need in
// other documents than those they are to match, they read it first; a filter so made shows the tree as
// it was then, and is another one after a change. A filter of an unknown ID matches nothing, but that
// of AncestorsFilter is ErrNotFound.

// ChildrenFilter matches the children of a node.
//
// Cost: none. MaterializedPath and ChildReferences: 1 round trip, the node by ID.
func (t *Tree[K, T]) ChildrenFilter(ctx context.Context, id K) (_ bson.D, err error) {
	defer fault.In(&err, "tree: children filter")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	return t.c.filter(ctx, raw, t.c.rep.childrenOf)
}

// filter makes a filter of a node, which it reads only if that is needed.
func (c *core) filter(ctx context.Context, id bson.RawValue, of func(n node) (bson.D, bool)) (bson.D, error) {
	match, reads := of(node{id: id})
	if !reads {
		return match, nil
	}
	n, err := c.glance(ctx, id)
	if err != nil {
		return nil, err
	}
	if n.raw == nil {
		return c.byIDs(nil), nil
	}
	match, _ = of(n)
	return match, c.rep.usable(n)
}

// DescendantsFilter matches the nodes below a node.
//
// For paging take AncestorArray or MaterializedPath. The filters of the others hold IDs or numbers,
// which any change of the tree changes, and a paging token is bound to its filter.
//
// Cost: none for AncestorArray. The others: 1 round trip; MaterializedPath and NestedSets without a
// MaxDepth read the node, the others the IDs of all descendants into the filter.
func (t *Tree[K, T]) DescendantsFilter(ctx context.Context, id K, opts *ReadOptions) (_ bson.D, err error) {
	defer fault.In(&err, "tree: descendants filter")
	raw, err := t.c.downFrom(id, opts)
	if err != nil {
		return nil, err
	}
	if match, _ := t.c.rep.descendantsOf(node{id: raw}, opts.depth()); match != nil {
		return t.c.filter(ctx, raw, func(n node) (bson.D, bool) { return t.c.rep.descendantsOf(n, opts.depth()) })
	}
	ids, err := t.c.ids(ctx, t.c.rep.down(raw, opts.depth(), false))
	return t.c.byIDs(ids), err
}

// ids reads the IDs that a pipeline yields.
func (c *core) ids(ctx context.Context, p mongo.Pipeline) ([]bson.RawValue, error) {
	nodes, err := c.shapes(ctx, opening(c.coll, append(p, expr.Op("$project", d(c.o.IDField, 1))), 0))
	return idsOf(nodes), err
}

// AncestorsFilter matches the nodes above a node.
//
// Cost: 1 round trip. AncestorArray and MaterializedPath read the node alone,
// the others as Ancestors.
func (t *Tree[K, T]) AncestorsFilter(ctx context.Context, id K) (_ bson.D, err error) {
	defer fault.In(&err, "tree: ancestors filter")
	ids, _, err := t.c.ancestry(ctx, id, true)
	if err != nil {
		return nil, err
	}
	return t.c.byIDs(ids), nil
}

// RootsFilter matches the nodes without parent.
//
// Cost: none. ChildReferences read the IDs of the roots, as Roots.
func (t *Tree[K, T]) RootsFilter(ctx context.Context) (_ bson.D, err error) {
	defer fault.In(&err, "tree: roots filter")
	if match := t.c.rep.rootsMatch(); match != nil {
		return match, nil
	}
	ids, err := t.c.ids(ctx, t.c.roots())
	return t.c.byIDs(ids), err
}
