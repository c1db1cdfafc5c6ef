package tree

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// DeletePolicy says what becomes of the nodes below a deleted one.
type DeletePolicy int

// The delete policies.
const (
	// Restrict refuses to delete a node with children: ErrHasChildren.
	Restrict DeletePolicy = iota
	// Cascade deletes all that is below. In a graph a node that has a parent elsewhere stays.
	Cascade
	// Promote puts the children in the node's place, under its parent. The children of a root become roots.
	Promote
	// MakeRoots makes the children roots, after the others.
	MakeRoots
)

// Insert stores a document as a new leaf at a position and returns its ID. The tree writes its fields, and
// those of the scope, whatever doc holds in them. A missing _id becomes an ObjectID. An ID that is there is a
// duplicate key error.
//
// Cost: under a parent 3 round trips (mark the parent, insert and take the mark off, commit), 3 documents
// written, 2 with a ChildCountField; as a root 1 and 1. OrderField: 1 round trip more, and 3 for a root, which
// takes the lock; Before and After 1 more, and 1 if siblings make room. NestedSets: 5 (lock, parent, numbers,
// insert, commit), 6 Before and After what is no root; every node after the new one is written, and its ancestors.
func (t *Tree[K, T]) Insert(ctx context.Context, doc T, pos Position[K]) (id K, err error) {
	defer fault.In(&err, "tree: insert")
	if pos.err != nil {
		return id, pos.err
	}
	id, _, err = t.insert(ctx, doc, pos.at)
	return id, err
}

func (t *Tree[K, T]) insert(ctx context.Context, doc T, pos position) (id K, raw bson.RawValue, err error) {
	full, raw, id, err := t.prepare(doc)
	if err != nil {
		return id, raw, err
	}
	return id, raw, t.c.rep.insert(ctx, full, pos)
}

// prepare is core.prepare for an ID that a K can hold.
func (t *Tree[K, T]) prepare(user T) (doc bson.D, raw bson.RawValue, id K, err error) {
	doc, raw, fresh, err := t.c.prepare(user)
	if err != nil {
		return nil, raw, id, err
	}
	if id, err = codec.DecodeValue[K](t.c.codec, raw); err != nil && fresh {
		err = fault.Invalid("the document has no _id, and a new ObjectID is no %T", id)
	} else if err != nil {
		err = fault.Invalid("id: %w", err)
	}
	return doc, raw, id, err
}

// Move puts a node, with all that is below it, at another position. It refuses one below the node itself:
// ErrCycle. Only tree fields change. Before or After the node itself changes nothing. A Move can be repeated.
//
// Cost: 4 round trips for any number of descendants (lock, both nodes, one command of updates, commit); written
// are the subtree and the lock. ParentReferences and ChildReferences under a parent: 5 (and $graphLookup up
// from it), 1 or 2 documents. OrderField: 1 more, Before and After 2 more. NestedSets: all nodes between the
// old and the new place are written; to the last root 2 more, Before and After what is no root 1.
func (t *Tree[K, T]) Move(ctx context.Context, id K, pos Position[K]) (err error) {
	defer fault.In(&err, "tree: move")
	if pos.err != nil {
		return pos.err
	}
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	return t.c.rep.move(ctx, raw, pos.at)
}

// Delete removes a node and returns the number of documents deleted; the policy says what becomes of its
// children. Cascade believes the arrays of an AncestorArray: it also deletes an orphan whose array still names
// the node. Nodes that are not adopted are ErrHasChildren or ErrNotAdopted, see the package documentation.
//
// Cost: a leaf 4 round trips (lock, node, children, commit), with children that move 5 (and one command of
// updates); ChildReferences 5 (and their parents' arrays). Cascade 4 (lock, node and what is not adopted,
// subtree, commit), of NestedSets 5, of ChildReferences 6; 1 more for each 50,000 descendants of
// ParentReferences and ChildReferences, and 1 where nodes are not adopted. ChildCountField: 1 more for a leaf or
// Cascade. MakeRoots: with an OrderField 1 more, in NestedSets 2. MaterializedPath examines the roots, too, as
// their path is null; in a forest of many roots an index {PathField, ParentField} spares it that.
func (t *Tree[K, T]) Delete(ctx context.Context, id K, policy DeletePolicy) (n int64, err error) {
	defer fault.In(&err, "tree: delete")
	raw, err := t.c.id(id)
	if err != nil {
		return 0, err
	}
	if policy < Restrict || policy > MakeRoots {
		return 0, fault.Invalid("unknown policy %d", policy)
	}
	if n, err = t.c.remove(ctx, raw, policy); err != nil {
		return 0, err
	}
	return n, nil
}

// remove is Delete. The node goes first, and then its children are looked for: see take.
func (c *core) remove(ctx context.Context, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) (err error) {
		var models []mongo.WriteModel
		if policy == Cascade {
			deleted, models, err = c.rep.cascade(ctx, id)
		} else {
			var x node
			if x, err = c.take(ctx, id); err == nil {
				err = c.rep.usable(x)
			}
			if err == nil {
				deleted = 1
				models, err = c.rep.bequeath(ctx, x, policy)
			}
		}
		if err != nil {
			return err
		}
		return c.write(ctx, models...)
	})
	return deleted, err
}

// FindOrCreate follows names down from the roots, as mkdir -p does, and returns the ID of the last. A missing
// node is inserted, last under its parent: make returns its document. Callers at the same time create each node
// once. Names are those of Options.NameField, or else the IDs; of several siblings with a name it takes one.
//
// Cost: 1 round trip for each name. If one is missing: 2 more (lock, commit), 1 for each name again, and for
// each new node as Insert without the commit.
func (t *Tree[K, T]) FindOrCreate(ctx context.Context, names []string, make func(name string) (T, error)) (id K, err error) {
	defer fault.In(&err, "tree: find or create")
	if len(names) == 0 {
		return id, fault.Invalid("no names")
	}
	// follow leaves at at the last node, or nil where a name is missing and not to be made.
	var at *node
	follow := func(ctx context.Context, create bool) (err error) {
		at = nil
		for _, name := range names {
			above, pos := at, position{}
			if at, err = t.c.named(ctx, above, name); err == nil && at == nil && create {
				var doc T
				var raw bson.RawValue
				if above != nil {
					pos = within(above.id)
				}
				if doc, err = make(name); err == nil {
					_, raw, err = t.insert(ctx, doc, pos)
				}
				if err == nil {
					at = t.c.child(raw, above)
				}
			}
			if err != nil || at == nil {
				return err
			}
		}
		return nil
	}
	err = follow(ctx, false)
	if err == nil && at == nil {
		err = t.c.atomically(ctx, true, func(ctx context.Context) error { return follow(ctx, true) })
	}
	if err != nil {
		return id, err
	}
	return codec.DecodeValue[K](t.c.codec, at.id)
}

// named finds a child by its name, or a root if parent is nil; nil is none. One that is not adopted yet is
// found, too: a second of its name would stay.
func (c *core) named(ctx context.Context, parent *node, name string) (*node, error) {
	match := d(cmp.Or(c.o.NameField, c.o.IDField), name)
	if parent != nil {
		n, err := c.findOne(ctx, d("$and", bson.A{c.kidsOf(*parent), match}), nil)
		if err != nil || n.raw == nil {
			return nil, err
		}
		return &n, nil
	}
	nodes, err := c.aggregate(ctx, append(c.roots(), expr.Op("$match", match), expr.Op("$limit", 1)))
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	return &nodes[0], nil
}
