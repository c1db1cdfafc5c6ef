package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// The filters are for Find, Count, paging and $match. A filter that depends on other documents reads them
// first, and so shows the tree at that moment. The filter for an unknown ID matches nothing, except that
// AncestorsFilter returns ErrNotFound.

// ChildrenFilter matches the children of a node.
//
// Cost: none. MaterializedPath and ChildReferences: 1 round trip, the node by ID.
func (t *Tree[ID, T]) ChildrenFilter(ctx context.Context, id ID) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.ChildrenFilter")
	defer fault.In(&err, "tree.ChildrenFilter")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	return t.c.filter(ctx, raw, t.c.childrenFrom, t.c.childrenMatch)
}

// filter makes a filter for the caller from a node, which it reads unless the ID is enough. The filter for an unknown ID
// matches nothing.
func (c *core) filter(ctx context.Context, id bson.RawValue, from source, of func(n node) bson.D) (bson.D, error) {
	if from == fromID {
		return c.coll.Scope().Match(of(node{ref: ref{id: id}})), nil
	}
	n, err := c.readNode(ctx, id)
	if err != nil {
		return nil, err
	}
	if n.raw == nil {
		return c.coll.Scope().Match(c.idsMatch(nil)), nil
	}
	if err := c.checkAdopted(ctx, n); err != nil {
		return nil, err
	}
	return c.coll.Scope().Match(of(n)), c.checkUsable(n.ref)
}

// DescendantsFilter matches the nodes below a node.
//
// For paging use AncestorArray or MaterializedPath, because the filters of the others change with the
// tree, and a paging token is only valid for its filter.
//
// Cost: none for AncestorArray.
//   - The others: 1 round trip; MaterializedPath and NestedSets without a maxDepth read the node, the others the IDs
//     of all descendants into the filter.
func (t *Tree[ID, T]) DescendantsFilter(ctx context.Context, id ID, maxDepth int) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.DescendantsFilter")
	defer fault.In(&err, "tree.DescendantsFilter")
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return nil, err
	}
	from := t.c.descendantsSource(maxDepth)
	if from == fromQuery {
		return t.c.idFilter(ctx, t.c.down(raw, maxDepth, false))
	}
	return t.c.filter(ctx, raw, from, func(n node) bson.D { return t.c.descendantsMatch(n, maxDepth) })
}

// idFilter is the filter for the caller that matches, by ID, the nodes that a pipeline yields.
func (c *core) idFilter(ctx context.Context, p mongo.Pipeline) (bson.D, error) {
	nodes, err := c.readNodes(ctx, opening(c.coll, append(p, expr.Op("$project", expr.D(c.o.IDField, 1)))))
	return c.coll.Scope().Match(c.idsMatch(idsOf(nodes))), err
}

// AncestorsFilter matches the nodes above a node.
//
// Cost: as IsDescendant.
func (t *Tree[ID, T]) AncestorsFilter(ctx context.Context, id ID) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.AncestorsFilter")
	defer fault.In(&err, "tree.AncestorsFilter")
	ids, err := t.c.ancestry(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.c.coll.Scope().Match(t.c.idsMatch(ids)), nil
}

// RootsFilter matches the nodes without parent.
//
// Cost: none. ChildReferences read the IDs of the roots, as Roots.
func (t *Tree[ID, T]) RootsFilter(ctx context.Context) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.RootsFilter")
	defer fault.In(&err, "tree.RootsFilter")
	if match := t.c.rootsMatch(); match != nil {
		return t.c.coll.Scope().Match(match), nil
	}
	return t.c.idFilter(ctx, t.c.roots())
}
