package tree

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Link adds child to the children of parent, after the others. It needs Options.Graph. Linking again is not
// an error. If the link would close a cycle, Link returns ErrCycle.
//
// Cost: 5 round trips (lock, both nodes, 1 $graphLookup up from the parent, 1 update, commit), 2 documents
// written: the lock and the parent.
func (t *Tree[ID, T]) Link(ctx context.Context, parent, child ID) (err error) {
	ctx = comment.Call(ctx, "tree.Link")
	defer fault.In(&err, "tree.Link")
	return t.c.relink(ctx, parent, child, (*lists).addLink)
}

// Unlink removes child from the children of parent. It needs Options.Graph. A child without parents becomes
// a root. If child is not a child of parent, Unlink returns ErrNotFound.
//
// Cost: 4 round trips (lock, both nodes, 1 update, commit), 2 documents written: the lock and the parent.
func (t *Tree[ID, T]) Unlink(ctx context.Context, parent, child ID) (err error) {
	ctx = comment.Call(ctx, "tree.Unlink")
	defer fault.In(&err, "tree.Unlink")
	return t.c.relink(ctx, parent, child, (*lists).removeLink)
}

// relink changes one link of a graph, with the lock, by addLink or removeLink.
func (c *core) relink(ctx context.Context, parent, child any,
	change func(s *lists, ctx context.Context, parent, child node) error) error {
	l, ok := c.shape.(*lists)
	if !ok || !c.o.Graph {
		return fault.Invalid("Link and Unlink need Options.Graph")
	}
	p, err := c.id(parent)
	if err != nil {
		return err
	}
	x, err := c.id(child)
	if err != nil {
		return err
	}
	return c.withLock(ctx, func(ctx context.Context) error {
		child, parent, err := c.readWithAnchor(ctx, x, positionUnder(p))
		if err != nil {
			return err
		}
		return change(l, ctx, parent, child)
	})
}

// addLink is Link for nodes that were read.
func (s *lists) addLink(ctx context.Context, parent, child node) error {
	if holds(parent.children, child.id) {
		return nil
	}
	for _, n := range []node{parent, child} {
		if err := s.ensureArray(ctx, n); err != nil {
			return err
		}
	}
	if err := s.checkNoCycle(ctx, child, parent); err != nil {
		return err
	}
	return s.write(ctx, s.push(parent.id, -1, child.id))
}

// removeLink is Unlink for nodes that were read. A child without an array that names this parent becomes a root only
// with an array.
func (s *lists) removeLink(ctx context.Context, parent, child node) error {
	if !holds(parent.children, child.id) {
		return s.about(child.id, fmt.Errorf("%w among the children of %s", mongopatterns.ErrNotFound, text(parent.id)))
	}
	var models []mongo.WriteModel
	if s.isBare(child.raw) && same(child.parent, parent.id) {
		models = s.giveArray(child)
	}
	return s.write(ctx, append(models, s.pull(parent.id, child.id))...)
}
