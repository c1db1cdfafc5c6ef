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
// Cost:
//   - ParentReferences, AncestorArray, MaterializedPath: 1 round trip and 1
//     document as a root. Under a parent 4 round trips (write to the parent,
//     insert, take the mark off the parent, commit) and 3 writes, or 3 and 2
//     with a ChildCountField. OrderField adds 1 round trip, and as a root 2
//     (lock, commit); Before and After add 3, and 1 more write command if there
//     is no room.
//   - ChildReferences: 1 round trip as a root, else 4 (parent, $push, insert,
//     commit), 2 writes.
//   - NestedSets: 5 round trips (lock, parent, shift, insert, commit), no shift
//     as the last root; writes every node behind the new one.
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
// Cost: the same for any number of descendants. Every node whose field changes
// is written.
//   - ParentReferences: 6 round trips (lock, node, parent, $graphLookup up from
//     the parent, node, commit), 2 writes.
//   - AncestorArray, MaterializedPath: 6 round trips (lock, node, parent, node,
//     descendants in one updateMany by the ancestors or path index, commit).
//   - ChildReferences: 7 round trips (lock, node, parent, $graphLookup, old
//     parent, both parents, commit), 3 writes.
//   - NestedSets: 6 round trips (lock, node, parent, one updateMany, node,
//     commit); writes the nodes between the old and the new place.
//
// ChildCountField adds 1 (not for ChildReferences), OrderField 1, Before and
// After 1, and one more if siblings have to make room. As a root there is no
// parent to read and none to look up from.
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
// Cost: at most 9 round trips, the same for any number of descendants up to
// 50,000: the lock, the node (marked by a write), its children counted, one
// updateMany or deleteMany, the node, commit; with Promote the parent; with
// ChildCountField the parent's counter; with OrderField 1 or 2 more.
func (t *Tree[K, T]) Delete(ctx context.Context, id K, policy DeletePolicy) (int64, error) {
	raw, err := t.c.id(id)
	if err != nil {
		return 0, fail("delete", err)
	}
	if policy < Restrict || policy > MakeRoots {
		return 0, fmt.Errorf("tree: delete: unknown policy %d", policy)
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
