package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Insert stores a document as a new leaf at a position and returns its ID. It overwrites the tree fields
// and the fields of the scope in doc. A missing _id becomes an ObjectID. If the ID exists already,
// Insert returns mongopatterns.ErrExists. If the new node is a missing ancestor of an orphan, Insert under that orphan
// returns ErrCycle. But ParentReferences and NestedSets see only that the orphan names the new node as its parent. If the
// new node is missing further up, they insert it, and Check reports the cycle.
//
// Cost: under a parent 3 round trips (mark the parent, insert and take the mark off, commit), 3 documents written; as
// a root 1 and 1.
//   - ChildCountField, and ChildReferences: 2 documents written.
//   - OrderField: 1 round trip more, and 3 for a root, which takes the lock. Before and After take it, too:
//     2 more, beside a root 1, and 1 if siblings make room.
//   - NestedSets: 5 (lock, parent, numbers, insert, commit), 6 Before and After a node below a root; every node after
//     the new one is written, and its ancestors.
func (t *Tree[ID, T]) Insert(ctx context.Context, doc T, pos Position[ID]) (id ID, err error) {
	ctx = comment.Call(ctx, "tree.Insert")
	defer fault.In(&err, "tree.Insert")
	if pos.err != nil {
		return id, pos.err
	}
	d, id, err := t.prepare(doc)
	if err != nil {
		return id, err
	}
	return id, fault.Taken(t.c.o.IDField, d.id, t.c.shape.insert(ctx, d, pos.position))
}

// prepare is that of store, and returns the ID also as the type ID. It refuses an ID that this type cannot hold, because
// the node could be stored, but not named by any call.
func (t *Tree[ID, T]) prepare(user T) (d newDocument, id ID, err error) {
	if d, err = t.c.prepare(user); err != nil {
		return d, id, err
	}
	id, err = codec.DecodeNew[ID](t.c.codec, d.id, d.made)
	return d, id, err
}

// Move moves a node, with everything below it, to another position. For a position below the node itself,
// it returns ErrCycle. Only tree fields change. A move Before or After the node itself changes nothing. A
// Move can be repeated.
//
// Cost: 4 round trips for any number of descendants (lock, both nodes, one command of updates, commit); written are
// the subtree and the lock.
//   - ParentReferences and ChildReferences under a parent: 5, and 1 or 2 documents; on shards 1 more for each level
//     above the parent.
//   - OrderField: 1 more, Before and After 2 more.
//   - NestedSets: all nodes between the old and the new place are written; to the last root 2 more, Before and After
//     a node below a root 1.
func (t *Tree[ID, T]) Move(ctx context.Context, id ID, pos Position[ID]) (err error) {
	ctx = comment.Call(ctx, "tree.Move")
	defer fault.In(&err, "tree.Move")
	if pos.err != nil {
		return pos.err
	}
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	return t.c.shape.move(ctx, raw, pos.position)
}

// Rename changes the segment of a node and the paths of all nodes below it. It needs Options.SegmentField.
// If a sibling has that segment, Rename returns a duplicate key error.
//
// Cost: 4 round trips for any number of descendants (lock, node, one command of updates, commit); written are the
// subtree and the lock.
func (t *Tree[ID, T]) Rename(ctx context.Context, id ID, segment string) (err error) {
	ctx = comment.Call(ctx, "tree.Rename")
	defer fault.In(&err, "tree.Rename")
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	if t.c.o.SegmentField == "" {
		return fault.Invalid("Rename needs MaterializedPath with an Options.SegmentField")
	}
	return materializedPath{t.c.store}.rename(ctx, raw, value.New(segment))
}

// Delete removes a node and returns the number of documents deleted. The policy says what happens to its
// children. Restrict refuses a node with children and returns mongopatterns.ErrReferenced. Cascade deletes
// everything below the node, except, in a graph, a node that also has a parent elsewhere. Promote puts the
// children in the node's place, so those of a root become roots. Unlink makes the children roots, after
// the other roots.
//
// Without Options.Graph, Cascade also deletes a node that another parent lists by mistake (SeveralParents), because it
// would take a read to find out. Then Check reports the list of the other parent, and Repair corrects it.
//
// In AncestorArray, Cascade relies on the arrays, so it also deletes an orphan whose array still names
// the node. Promote of an orphan returns ErrNoParent. If the node or a node below it is not adopted,
// Delete may return ErrReferenced or ErrNotAdopted, as the package documentation says. For a root without
// ancestors, path or numbers it also returns ErrNotAdopted, because the root may be a document of another
// representation. In ParentReferences and ChildReferences a document without the fields of the tree is a
// root or a leaf, and Delete removes it; Check reports a collection in which no document has them.
//
// Cost: for a leaf 4 round trips (lock, node, children, commit), of ChildReferences 5, and the arrays of its parents.
//   - With children that move: 1 more, and a command of updates.
//   - Cascade: 4 (lock, node and what is not adopted, subtree, commit), of NestedSets 5, of ChildReferences 6.
//   - Cascade of many descendants: 1 more for each 50,000 of ParentReferences, 2 of ChildReferences and 3 of a graph;
//     on shards 1 for each level there, and 1 where nodes are not adopted.
//   - ChildCountField: 1 more for a leaf or Cascade.
//   - Unlink with an OrderField: 1 more, in NestedSets 2.
//   - MaterializedPath also examines the roots, because their path is null; in a forest of many roots an index
//     {PathField, ParentField} spares it that.
//   - With a SegmentField nodes that move are written twice.
func (t *Tree[ID, T]) Delete(ctx context.Context, id ID, policy mongopatterns.DeletePolicy) (n int64, err error) {
	ctx = comment.Call(ctx, "tree.Delete")
	defer fault.In(&err, "tree.Delete")
	raw, err := t.c.id(id)
	if err != nil {
		return 0, err
	}
	if policy < mongopatterns.Restrict || policy > mongopatterns.Unlink {
		return 0, fault.Invalid("policy %s: take Restrict, Cascade, Promote or Unlink", policy)
	}
	if n, err = t.c.remove(ctx, raw, policy); err != nil {
		return 0, err
	}
	return n, nil
}

// remove is Delete. The writes to other nodes are one command, in the transaction of the deletion.
func (c *core) remove(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) (deleted int64, err error) {
	err = c.withLock(ctx, func(ctx context.Context) (err error) {
		var models []mongo.WriteModel
		if policy == mongopatterns.Cascade {
			deleted, models, err = c.shape.removeAll(ctx, id)
		} else {
			deleted = 1
			models, err = c.shape.removeOne(ctx, id, policy)
		}
		if err != nil {
			return err
		}
		return c.write(ctx, models...)
	})
	return deleted, err
}
