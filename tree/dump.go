package tree

import (
	"cmp"
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Entry is a document and the ID of its parent, nil for a root.
type Entry[ID, T any] struct {
	Value  T
	Parent *ID
}

// Dump yields every node with its parent's ID, parents before their children and siblings in order, as Load
// takes them. It does not yield nodes that cannot be reached from a root (see Check). It yields a node that
// several nodes list, or that lies on a cycle, once. A node that moves meanwhile may come twice. Dump holds in
// memory the tree fields of the nodes whose children it has not read yet, and for ChildReferences all IDs. It
// refuses a graph. If the type ID cannot hold an ID, it yields mongopatterns.ErrMalformed.
//
// Cost: 1 round trip for the roots, then 1 for the children of each 1,000 nodes, as far as they fit in a reply
// (16 MB).
func (t *Tree[ID, T]) Dump(ctx context.Context) iter.Seq2[Entry[ID, T], error] {
	ctx = comment.Call(ctx, "tree.Dump")
	return fault.Seq("tree.Dump", func(yield func(Entry[ID, T], error) bool) {
		if err := t.dump(ctx, yield); err != nil {
			fault.Stop[Entry[ID, T]](err)(yield)
		}
	})
}

// dump reads the roots, and then the children of defaultBatch nodes at a time.
func (t *Tree[ID, T]) dump(ctx context.Context, yield func(Entry[ID, T], error) bool) error {
	c := t.c
	if c.o.Graph {
		return fault.Invalid("Options.Graph: a graph cannot be dumped")
	}
	l := &level{core: c, seen: map[string]bool{}}
	for pipeline := c.sortedRoots(); pipeline != nil; pipeline = l.next() {
		for cur, err := range cursor.Each(ctx, opening(c.primary, pipeline)) {
			if err != nil {
				return err
			}
			n := c.parse(cur.Current)
			if l.parents == nil && c.isBare(n.raw) {
				return c.notAdopted(n.id)
			}
			parent, ok := l.accept(n)
			if !ok {
				continue
			}
			e, err := t.entry(cur, n.id, parent)
			if err != nil || !yield(e, nil) {
				return err
			}
		}
	}
	return nil
}

// level is where Dump stands: the roots, and then the children of some nodes.
type level struct {
	*core
	todo    []node                   // their children were not read yet
	parents map[string]bson.RawValue // IDs, by what children hold, or by the children that nodes name; nil for the roots
	// seen are the nodes that were yielded, where several lists may name a node. In the other representations a node
	// comes twice only if it moves meanwhile, then perhaps with all nodes below it.
	seen map[string]bool
}

// accept returns the ID of a node's parent. It returns false for a node that must not be yielded, because it was yielded
// before, or because its parent is not in l.parents: the node has moved meanwhile, or has an array of parents.
func (l *level) accept(n node) (parent bson.RawValue, ok bool) {
	named, broken := l.parent(n)
	parent, known := l.parents[cmp.Or(l.refKey(named), key(n.id))]
	if broken != "" || l.seen[key(n.id)] || !known && l.parents != nil {
		return value.Null, false
	}
	if l.namesChildren {
		l.seen[key(n.id)] = true
	}
	l.todo = append(l.todo, slim(n))
	return parent, true
}

// next yields the children of further nodes. It is nil if there are none.
func (l *level) next() mongo.Pipeline {
	if len(l.todo) == 0 {
		return nil
	}
	batch := l.todo[:min(defaultBatch, len(l.todo))]
	l.todo = l.todo[len(batch):]
	l.parents = map[string]bson.RawValue{}
	for _, n := range batch {
		for _, name := range l.namesOf(n.ref) {
			l.parents[name] = n.id
		}
		for _, id := range n.children {
			l.parents[key(id)] = n.id
		}
	}
	return l.sortedChildren(batch)
}

// entry decodes a node that was read, and the ID of its parent, null for a root.
func (t *Tree[ID, T]) entry(cur *mongo.Cursor, id, parent bson.RawValue) (e Entry[ID, T], err error) {
	if _, err := t.decode(id); err != nil {
		return e, err
	}
	if err := cursor.Into(cur, &e.Value); err != nil || isNull(parent) {
		return e, err
	}
	e.Parent = new(ID)
	*e.Parent, err = t.decode(parent)
	return e, err
}

// slim copies the fields of a node that sortedChildren needs, so that the reply it was read from can be freed.
func slim(n node) node {
	out := node{ref: ref{value.Clone(n.id), value.Clone(n.segment), n.path}}
	for _, id := range n.children {
		out.children = append(out.children, value.Clone(id))
	}
	return out
}
