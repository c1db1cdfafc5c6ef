package tree

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Node is a document with the subtrees of its children, in order.
type Node[T any] struct {
	Value    T          `json:"value"`
	Children []*Node[T] `json:"children,omitempty"`
}

// Preorder yields the nodes below a node, each followed by the nodes below it. Siblings are in order if the
// tree orders them. Preorder holds the subtree in memory. In a graph a node comes once under each parent.
//
// Cost: as Subtree.
func (t *Tree[ID, T]) Preorder(ctx context.Context, id ID, maxDepth int) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "tree.Preorder")
	return fault.Seq("tree.Preorder", func(yield func(T, error) bool) {
		root, _, err := t.subtree(ctx, id, maxDepth)
		if err != nil {
			fault.Stop[T](err)(yield)
			return
		}
		var visit func(n *Node[T]) bool
		visit = func(n *Node[T]) bool {
			for _, child := range n.Children {
				if !yield(child.Value, nil) || !visit(child) {
					return false
				}
			}
			return true
		}
		if root != nil {
			visit(root)
		}
	})
}

// Subtree returns a node with everything below it, as one nested value. Children are in order if the tree
// orders them. Outside a transaction it may mix two states of the tree, and then omits a node whose
// parent is not in the result. It cuts a cycle where it closes.
//
// Cost: 1 round trip for each 16 MB; keys as Descendants.
func (t *Tree[ID, T]) Subtree(ctx context.Context, id ID, maxDepth int) (root *Node[T], err error) {
	ctx = comment.Call(ctx, "tree.Subtree")
	defer fault.In(&err, "tree.Subtree")
	root, raw, err := t.subtree(ctx, id, maxDepth)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, t.c.missing(raw)
	}
	return root, nil
}

// subtree returns the node with all below it, nil if there is no such node, and the encoded ID.
func (t *Tree[ID, T]) subtree(ctx context.Context, id ID, maxDepth int) (*Node[T], bson.RawValue, error) {
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return nil, raw, err
	}
	all, err := t.nest(ctx, t.c.down(raw, maxDepth, true), key(raw))
	if err != nil {
		return nil, raw, err
	}
	i := slices.IndexFunc(all.pieces, func(n piece) bool { return n.id == key(raw) })
	if i < 0 {
		return nil, raw, nil
	}
	top := all.pieces[i]
	if top.bare { // in ChildReferences its parent may list it
		if err := t.c.checkWay(ctx, raw, 1, true); err != nil {
			return nil, raw, err
		}
	}
	root := all.nodes[top.index]
	if all.several || top.child { // otherwise there is no cycle
		root.cutCycles(map[*Node[T]]bool{})
	}
	return root, raw, nil
}

// cutCycles cuts a cycle in damaged data where it closes, because otherwise a walk through the nested value
// would never end.
func (n *Node[T]) cutCycles(above map[*Node[T]]bool) {
	above[n] = true
	n.Children = slices.DeleteFunc(n.Children, func(child *Node[T]) bool {
		closes, seen := above[child]
		if !seen {
			child.cutCycles(above)
		}
		return closes
	})
	above[n] = false
}

// Forest returns all nodes of the tree as nested values, one for each root. It omits nodes that cannot be
// reached from a root.
//
// Cost: 1 round trip for each 16 MB; it reads every document of the tree.
func (t *Tree[ID, T]) Forest(ctx context.Context) (roots []*Node[T], err error) {
	ctx = comment.Call(ctx, "tree.Forest")
	defer fault.In(&err, "tree.Forest")
	all, err := t.nest(ctx, mongo.Pipeline{expr.Op("$match", t.c.nodesMatch())}, "")
	if err != nil {
		return nil, err
	}
	above := map[*Node[T]]bool{}
	for _, n := range all.pieces {
		if !n.root || n.child {
			continue
		}
		root := all.nodes[n.index]
		if all.several {
			root.cutCycles(above)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// nested is documents that were read and nested.
type nested[T any] struct {
	pieces  []piece // index is that in nodes
	nodes   []*Node[T]
	several bool // a node has more than one parent, so that there may be a cycle
}

// nest reads documents and nests them. It takes the node with the key root once, although a cycle yields it twice.
func (t *Tree[ID, T]) nest(ctx context.Context, p mongo.Pipeline, root string) (all nested[T], err error) {
	found := false
	for cur, err := range cursor.Each(ctx, opening(t.c.coll, p)) {
		if err != nil {
			return nested[T]{}, err
		}
		n := &Node[T]{}
		if err := cursor.Into(cur, &n.Value); err != nil {
			return nested[T]{}, err
		}
		x := t.c.parse(cur.Current)
		parent, broken := t.c.parent(x)
		its := t.c.pieceOf(x, parent, broken, len(all.nodes))
		if its.id == root && found {
			continue
		}
		found = found || its.id == root
		all.pieces, all.nodes = append(all.pieces, its), append(all.nodes, n)
	}
	joined := make([]bool, len(all.nodes))
	t.c.assemble(all.pieces, func(parent, child int) {
		all.several, joined[child] = all.several || joined[child], true
		all.nodes[parent].Children = append(all.nodes[parent].Children, all.nodes[child])
	})
	return all, nil
}

// piece has the keys that put a node into a nested value, for Subtree, Forest and the numbers. It keeps no part of the
// document, so that the reply can be freed.
type piece struct {
	id     string    // the key of the ID
	names  [2]string // see namesOf
	parent string    // the refKey of the parent that it names
	listed []string  // the keys of its children, in ChildReferences
	order  int64
	root   bool // it names no parent
	child  bool // a node among the pieces is its parent
	bare   bool
	index  int // in the caller's slice
}

// pieceOf makes the piece of a node; parent and broken are the results of its representation. A bare node gets the parent that its
// field names, so that Forest shows it.
func (s *store) pieceOf(n node, parent ref, broken string, index int) piece {
	p := piece{id: key(n.id), names: s.namesOf(n.ref), order: s.orderOf(n), bare: s.isBare(n.raw), index: index}
	for _, id := range n.children {
		p.listed = append(p.listed, key(id))
	}
	if broken != "" {
		return p
	}
	if p.parent = s.refKey(parent); p.parent == "" && p.bare && n.parent.Type != bson.TypeArray {
		p.parent = key(n.parent)
	}
	p.root = p.parent == "" && !p.bare
	return p
}

// assemble sorts the pieces and calls join for each parent and child, siblings in order. A parent's list has precedence
// over the parent field of a bare node.
func (s *store) assemble(pieces []piece, join func(parent, child int)) {
	if s.sortField != "" {
		slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.order, b.order) })
	}
	named := make(map[string]int, len(pieces))
	for i, n := range pieces {
		for _, name := range n.names {
			named[name] = i
		}
	}
	put := func(parent, child int) {
		pieces[child].child = true
		join(pieces[parent].index, pieces[child].index)
	}
	for i, n := range pieces {
		for _, id := range n.listed {
			if child, ok := named[id]; ok {
				put(i, child)
			}
		}
	}
	for i, n := range pieces {
		if parent, ok := named[n.parent]; ok && parent != i && !(pieces[i].child && n.bare) {
			put(parent, i)
		}
	}
}
