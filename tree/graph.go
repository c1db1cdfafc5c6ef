package tree

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Link makes child one more child of parent, behind the others. It needs
// Options.Graph. Linking twice is no error; a link that would close a cycle is
// ErrCycle.
//
// Cost: 6 round trips (lock, 2 nodes by ID, 1 $graphLookup up from the parent,
// 1 update, commit), 2 documents written: the lock and the parent.
func (t *Tree[K, T]) Link(ctx context.Context, parent, child K) error {
	return fail("link", t.c.link(ctx, parent, child, true))
}

// Unlink takes child away from parent. It needs Options.Graph. A child without
// parents is a root; unlinking what is not linked is ErrNotFound.
//
// Cost: 5 round trips (lock, 2 nodes by ID, 1 update, commit), 2 documents
// written: the lock and the parent.
func (t *Tree[K, T]) Unlink(ctx context.Context, parent, child K) error {
	return fail("unlink", t.c.link(ctx, parent, child, false))
}

// Parents yields all parents of a node of a graph; of a tree it yields one or
// none.
//
// Cost: 1 round trip while the result fits in one reply (16 MB). For
// ChildReferences it uses the children index, a key for each parent.
func (t *Tree[K, T]) Parents(ctx context.Context, id K) iter.Seq2[T, error] {
	return t.stream(ctx, "parents", &id, 0, func(id bson.RawValue) mongo.Pipeline { return t.c.parents(id) })
}

func (c *core) link(ctx context.Context, parent, child any, add bool) error {
	if !c.o.Graph {
		return fmt.Errorf("%w: Link and Unlink need Options.Graph", ErrUnsupported)
	}
	p, err := c.id(parent)
	if err != nil {
		return err
	}
	x, err := c.id(child)
	if err != nil {
		return err
	}
	r := childRefs{}
	return c.atomically(ctx, true, func(ctx context.Context) error {
		n, err := c.find(ctx, p, ErrParentNotFound)
		if err != nil {
			return err
		}
		if _, err := c.find(ctx, x, ErrNotFound); err != nil {
			return err
		}
		linked := false
		for _, id := range n.children {
			linked = linked || same(id, x)
		}
		if !add {
			if !linked {
				return fmt.Errorf("%w: %s is not a child of %s", ErrNotFound, text(x), text(p))
			}
			return c.bulkAll(ctx, []mongo.WriteModel{r.unlink(c, n, x)})
		}
		if linked {
			return nil
		}
		above, err := c.isAbove(ctx, x, p)
		if err != nil {
			return err
		}
		if above {
			return fmt.Errorf("%w: %s", ErrCycle, text(x))
		}
		return c.bulkAll(ctx, []mongo.WriteModel{r.push(c, n, -1, position{kind: underParent}, x)})
	})
}
