package tree

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// FindOrInsert goes down from the roots by names, as mkdir -p does, and returns the ID of the last node. It
// inserts a missing node as the last child of its parent, with the document that make returns. Concurrent
// callers create each node once. Names are the values of Options.NameField, by default the segments or IDs.
// If several siblings have a name, it takes one of them. If another node has the ID of a new one, it returns
// mongopatterns.ErrExists.
//
// Cost: 1 round trip for each name.
//   - If one is missing: 2 more (lock, commit), 1 for each name again (for a root of ChildReferences 2), and for each
//     new node as Insert without the commit.
func (t *Tree[ID, T]) FindOrInsert(ctx context.Context, names []string, make func(name string) (T, error)) (id ID, err error) {
	ctx = comment.Call(ctx, "tree.FindOrInsert")
	defer fault.In(&err, "tree.FindOrInsert")
	if len(names) == 0 {
		return id, fault.Invalid("no names")
	}
	// The first run, without the lock, is enough for names that exist.
	last, err := t.c.walkDown(ctx, names, func(*node, string) (*node, error) { return nil, nil })
	if err != nil {
		return id, err
	}
	if last != nil {
		return t.decode(last.id)
	}
	err = t.c.withLock(ctx, func(ctx context.Context) (err error) {
		last, err = t.c.walkDown(ctx, names, func(above *node, name string) (*node, error) {
			return t.insertNamed(ctx, above, name, make)
		})
		return err
	})
	if err != nil {
		return id, err
	}
	return t.decode(last.id)
}

// insertNamed inserts the node that FindOrInsert misses under above, nil for a root.
func (t *Tree[ID, T]) insertNamed(ctx context.Context, above *node, name string, make func(name string) (T, error)) (*node, error) {
	if make == nil {
		return nil, fault.Invalid("make: nil, and no node has the name %q", name)
	}
	made, err := make(name)
	if err != nil {
		return nil, err
	}
	d, _, err := t.prepare(made)
	if err != nil {
		return nil, err
	}
	pos := position{}
	if above != nil {
		pos = positionUnder(above.id)
	}
	if err := fault.Taken(t.c.o.IDField, d.id, t.c.shape.insert(ctx, d, pos)); err != nil {
		return nil, err
	}
	return t.c.nodeUnder(d.id, d.segment, above), nil
}

// walkDown goes down from the roots by names and returns the last node. A node that is not there comes from add, which gets the
// one above it, nil for a root; if it returns nil, so does walkDown.
func (c *core) walkDown(ctx context.Context, names []string,
	add func(above *node, name string) (*node, error)) (last *node, err error) {
	for _, name := range names {
		above := last
		if last, err = c.childNamed(ctx, above, name); err != nil {
			return nil, err
		}
		if last == nil {
			last, err = add(above, name)
		}
		if last == nil || err != nil {
			return nil, err
		}
	}
	return last, nil
}

// childNamed finds a child by its name, or a root if parent is nil, and returns nil if there is none. It also finds a
// bare child, because otherwise FindOrInsert would create a second one with that name.
func (c *core) childNamed(ctx context.Context, parent *node, name string) (*node, error) {
	match := expr.D(cmp.Or(c.o.NameField, c.segmentField()), name)
	var n node
	var err error
	if parent == nil {
		n, err = c.rootWith(ctx, match)
	} else {
		n, err = c.findOne(ctx, expr.Op("$and", bson.A{c.withBareMatch(c.childrenMatch(*parent), *parent), match}), nil)
	}
	if err != nil || n.raw == nil {
		return nil, err
	}
	return &n, nil
}
