package tree

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// DeletePolicy says what becomes of the nodes below a deleted one.
type DeletePolicy int

// The delete policies.
const (
	// Restrict refuses to delete a node with children: ErrHasChildren.
	Restrict DeletePolicy = iota
	// Cascade deletes all that is below. In a graph a node that has a parent
	// elsewhere stays.
	Cascade
	// Promote puts the children in the node's place, under its parent. The
	// children of a root become roots.
	Promote
	// MakeRoots makes the children roots, behind the others.
	MakeRoots
)

// Insert stores a document as a new leaf at a position and returns its ID. The
// tree fields, and those of the scope, are written by the tree whatever doc
// holds in them. An _id that is missing becomes an ObjectID.
//
// Cost: by representation, the write to the lock document not counted.
//   - ParentReferences, AncestorArray, MaterializedPath: as a root 1 round trip,
//     1 write. Under a parent 4 (mark the parent, insert, take the mark off,
//     commit), 3 writes; with a ChildCountField 3 and 2. OrderField adds 1 round
//     trip, and 3 for a root, which takes the lock; Before and After add 2, and 1
//     more if siblings have to make room.
//   - ChildReferences: as a root 1 round trip, 1 write, else 4 (parent, $push,
//     insert, commit), 2 writes.
//   - NestedSets: 5 round trips (lock, parent, shift, insert, commit), as the last
//     root also (2 for the last number, no shift); writes every node behind the
//     new one, and its ancestors. ChildCountField adds 1.
//
// The parent and the sibling are found by ID, child references' sibling by the
// children index, positions by the last fields of the parent or path index.
func (t *Tree[K, T]) Insert(ctx context.Context, doc T, pos Position[K]) (K, error) {
	var id K
	place, err := t.position(pos)
	if err != nil {
		return id, fail("insert", err)
	}
	raw, err := t.c.encodeDocument(doc)
	if err != nil {
		return id, fail("insert", err)
	}
	full, rawID, err := t.c.prepare(raw)
	if err != nil {
		return id, fail("insert", err)
	}
	if err := t.c.decodeID(rawID, &id); err != nil {
		return id, fail("insert", fmt.Errorf("id: %w", err))
	}
	return id, fail("insert", t.c.shape.insert(ctx, t.c, full, place))
}

func (t *Tree[K, T]) position(pos Position[K]) (position, error) {
	p := position{kind: pos.kind, first: pos.first && (pos.kind == atRoot || pos.kind == underParent)}
	if pos.kind == atRoot {
		return p, nil
	}
	ref, err := t.c.id(pos.ref)
	p.ref = ref
	return p, err
}

// prepare takes from a document what the tree will write itself.
func (c *core) prepare(raw bson.Raw, more ...string) (doc bson.D, id bson.RawValue, err error) {
	drop := map[string]bool{fieldTouch: true, fieldDepth: true, fieldStart: true, fieldTree: true, fieldSelf: true}
	for _, f := range append(append(c.shape.owned(c), c.o.OrderField, c.o.ChildCountField), more...) {
		drop[f] = true
	}
	for _, e := range c.scope {
		drop[e.Key] = true
	}
	delete(drop, c.o.IDField)
	all, err := raw.Elements()
	if err != nil {
		return nil, id, err
	}
	for _, e := range all {
		if !drop[e.Key()] {
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
		if e.Key() == c.o.IDField {
			id = e.Value()
		}
	}
	if id.Type == 0 && c.o.IDField == "_id" {
		if id, err = c.encode(bson.NewObjectID()); err != nil {
			return nil, id, err
		}
		doc = append(bson.D{{Key: "_id", Value: id}}, doc...)
	}
	if err := checkID(id); err != nil {
		return nil, id, fmt.Errorf("%s: %w", c.o.IDField, err)
	}
	if s, ok := id.StringValueOK(); ok && s == "" {
		return nil, id, fmt.Errorf("%w: %s: an empty string is no ID for a new node", ErrInvalid, c.o.IDField)
	}
	doc = append(doc, c.scope...)
	if c.o.ChildCountField != "" {
		doc = append(doc, bson.E{Key: c.o.ChildCountField, Value: int64(0)})
	}
	return doc, id, nil
}

func lookupD(doc bson.D, field string) bson.RawValue {
	for _, e := range doc {
		if v, ok := e.Value.(bson.RawValue); ok && e.Key == field {
			return v
		}
	}
	return bson.RawValue{}
}

// Move puts a node, with all that is below it, at another position. It refuses
// one below the node itself: ErrCycle. Only tree fields change.
//
// Cost: the same for any number of descendants; by representation, the write to
// the lock document not counted.
//   - ParentReferences: 6 round trips (lock, node, parent, $graphLookup up from
//     the parent, node, commit), 1 write.
//   - AncestorArray, MaterializedPath: 6 round trips (lock, node, parent, node,
//     its descendants in one update by the ancestors or path index, commit);
//     writes the subtree.
//   - ChildReferences: 7 round trips (lock, node, parent, $graphLookup, old
//     parent by the children index, both parents, commit), 2 writes.
//   - NestedSets: 6 round trips (lock, node, parent, one update by the left
//     index, node, commit), 7 to the last root; writes the nodes between the old
//     and the new place and the ancestors of either.
//
// To a root the reads of the parent and up from it fall away (not for
// NestedSets). ChildCountField adds at most 1 (none for ChildReferences).
// OrderField adds 1, and 1 more under a parent without a ChildCountField, as the
// parent is marked then (2 writes); Before and After add another 1 in the first
// three, and 1 if siblings have to make room.
//
// Before or After the node itself changes nothing.
func (t *Tree[K, T]) Move(ctx context.Context, id K, pos Position[K]) error {
	place, err := t.position(pos)
	if err != nil {
		return fail("move", err)
	}
	raw, err := t.c.id(id)
	if err != nil {
		return fail("move", err)
	}
	return fail("move", t.c.shape.move(ctx, t.c, raw, place))
}

// Delete removes a node and returns the number of documents deleted. What
// becomes of its children is the policy's choice.
//
// Cost: 4 to 7 round trips, the same for any number of descendants up to
// 50,000: lock, node (marked by a write; nested sets read it), then
//   - ParentReferences, AncestorArray, MaterializedPath: Restrict 5 (children,
//     node, commit), MakeRoots 6 (and one update of the subtree), Promote 7 (and
//     the parent), Cascade 4 (subtree, commit; ParentReferences 5, $graphLookup).
//   - ChildReferences: 6 (parents, their arrays, node, commit), Cascade 7.
//   - NestedSets: Cascade 5 (delete, shift, commit), Restrict 6 (and the look for
//     children), Promote 6, MakeRoots 8.
//
// ChildCountField adds 1 (not for ChildReferences). If children move OrderField
// adds 2, and 1 more to Promote without a ChildCountField, which marks the
// parent; a SegmentField adds 1, as the paths change by way of others that no
// node has. The subtree is found by the same indexes as by Move.
func (t *Tree[K, T]) Delete(ctx context.Context, id K, policy DeletePolicy) (int64, error) {
	raw, err := t.c.id(id)
	if err != nil {
		return 0, fail("delete", err)
	}
	if policy < Restrict || policy > MakeRoots {
		return 0, fail("delete", fmt.Errorf("%w: unknown policy %d", ErrInvalid, policy))
	}
	n, err := t.c.shape.remove(ctx, t.c, raw, policy)
	if err != nil {
		return 0, fail("delete", err)
	}
	return n, nil
}

// Rename gives a node another segment, and its descendants the paths that go
// with it. It is for MaterializedPath with an Options.SegmentField (or an
// IDField other than _id, which it then changes). A sibling of that name is a
// duplicate key error.
//
// Cost: 5 round trips (lock, node, node, descendants in one updateMany by the
// path index, commit); writes the node and each descendant.
func (t *Tree[K, T]) Rename(ctx context.Context, id K, segment string) error {
	if t.c.rep != MaterializedPath {
		return fail("rename", fmt.Errorf("%w: %v has no segments", ErrUnsupported, t.c.rep))
	}
	raw, err := t.c.id(id)
	if err != nil {
		return fail("rename", err)
	}
	return fail("rename", pathShape{}.rename(ctx, t.c, raw, segment))
}

func isAbsent(err error) bool { return errors.Is(err, mongo.ErrNoDocuments) }
