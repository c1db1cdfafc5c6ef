package tree

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The filters are for Find, Count, paging and $match. Where the representation
// keeps what they need in other documents than those they are to match, they
// read it first; a filter so made shows the tree as it was then, and is another
// one after a change.

// ChildrenFilter matches the children of a node.
//
// Cost: none; MaterializedPath and ChildReferences read the node, 1 round trip.
func (t *Tree[K, T]) ChildrenFilter(ctx context.Context, id K) (bson.D, error) {
	c := t.c
	raw, err := c.id(id)
	if err != nil {
		return nil, fail("children filter", err)
	}
	n := node{id: raw}
	if c.rep == MaterializedPath || c.rep == ChildReferences {
		if n, err = c.find(ctx, raw, ErrNotFound); err == nil {
			err = c.usable(n)
		}
		if err != nil {
			return nil, fail("children filter", err)
		}
	}
	return c.shape.childrenOf(c, n), nil
}

// DescendantsFilter matches the nodes below a node.
//
// For paging take AncestorArray or MaterializedPath. The filters of the others
// hold IDs or numbers, which any change of the tree changes, and a paging token
// is bound to its filter.
//
// Cost: none for AncestorArray; 1 round trip for MaterializedPath and
// NestedSets, which read the node, and for the others, which read the IDs of
// all descendants into the filter. NestedSets with a MaxDepth do that too.
func (t *Tree[K, T]) DescendantsFilter(ctx context.Context, id K, opts *ReadOptions) (bson.D, error) {
	c := t.c
	raw, err := c.id(id)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return nil, fail("descendants filter", err)
	}
	n := node{id: raw}
	if c.rep == MaterializedPath || c.rep == NestedSets && opts.depth() == 0 {
		if n, err = c.find(ctx, raw, ErrNotFound); err == nil {
			err = c.usable(n)
		}
		if err != nil {
			return nil, fail("descendants filter", err)
		}
	}
	if match, ok := c.shape.descendantsOf(c, n, opts.depth()); ok {
		return match, nil
	}
	ids, err := c.downIDs(ctx, raw, opts.depth())
	return c.byIDs(ids), fail("descendants filter", err)
}

// AncestorsFilter matches the nodes above a node.
//
// Cost: 1 round trip, as Ancestors; AncestorArray, MaterializedPath with IDs as
// segments, and NestedSets read only the node.
func (t *Tree[K, T]) AncestorsFilter(ctx context.Context, id K) (bson.D, error) {
	c := t.c
	raw, err := c.id(id)
	if err != nil {
		return nil, fail("ancestors filter", err)
	}
	if _, ok := c.shape.ancestorsOf(c, node{}); ok {
		n, err := c.find(ctx, raw, ErrNotFound)
		if err != nil {
			return nil, fail("ancestors filter", err)
		}
		match, _ := c.shape.ancestorsOf(c, n)
		return match, nil
	}
	up, err := c.ids(ctx, c.rootFirst(c.byID(raw)))
	if err != nil {
		return nil, fail("ancestors filter", err)
	}
	if len(up) == 0 {
		return nil, fail("ancestors filter", fmt.Errorf("%w: %s", ErrNotFound, text(raw)))
	}
	return c.byIDs(up[:len(up)-1]), nil
}

// RootsFilter matches the nodes without parent.
//
// Cost: none; ChildReferences read the IDs of the roots, as Roots.
func (t *Tree[K, T]) RootsFilter(ctx context.Context) (bson.D, error) {
	c := t.c
	if s, ok := c.shape.(interface{ rootsMatch(*core) bson.D }); ok {
		return s.rootsMatch(c), nil
	}
	ids, err := c.ids(ctx, c.shape.roots(c))
	return c.byIDs(ids), fail("roots filter", err)
}
