package tree

import (
	"context"
	"fmt"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Link makes child one more child of parent, after the others. It needs Options.Graph. Linking twice is
// no error; a link that would close a cycle is ErrCycle.
//
// Cost: 5 round trips (lock, both nodes, 1 $graphLookup up from the parent, 1 update, commit), 2
// documents written: the lock and the parent.
func (t *Tree[K, T]) Link(ctx context.Context, parent, child K) (err error) {
	defer fault.In(&err, "tree: link")
	return t.c.relink(ctx, parent, child, true)
}

// Unlink takes child away from parent. It needs Options.Graph. A child without parents is a root;
// unlinking what is not linked is ErrNotFound.
//
// Cost: 4 round trips (lock, both nodes, 1 update, commit), 2 documents written: the lock and the
// parent.
func (t *Tree[K, T]) Unlink(ctx context.Context, parent, child K) (err error) {
	defer fault.In(&err, "tree: unlink")
	return t.c.relink(ctx, parent, child, false)
}

func (c *core) relink(ctx context.Context, parent, child any, add bool) error {
	r, ok := c.rep.(childRefs)
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
	return c.atomically(ctx, true, func(ctx context.Context) error {
		_, n, _, err := c.both(ctx, x, p)
		switch {
		case err != nil:
			return err
		case n.raw == nil:
			return noParent(p)
		case !add && !holds(n.children, x):
			return fmt.Errorf("%w: %s is not a child of %s", fault.ErrNotFound, text(x), text(p))
		case !add:
			return r.write(ctx, r.unlink(p, x))
		case holds(n.children, x):
			return nil
		}
		if err := r.acyclic(ctx, x, p); err != nil {
			return err
		}
		return r.write(ctx, r.push(p, -1, x))
	})
}
