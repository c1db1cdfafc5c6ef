package tree

import (
	"context"
	"fmt"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ReadOptions limit a walk downwards.
type ReadOptions struct {
	// MaxDepth is how many levels below the node are read; 1 is its children.
	// Default all. The methods that return a pipeline take a negative one for 0,
	// all others refuse it.
	MaxDepth int
	// BatchSize is the number of documents a round trip brings. Default as many
	// as fit in one reply (16 MB).
	BatchSize int
}

func (o *ReadOptions) check() error {
	switch {
	case o == nil:
		return nil
	case o.MaxDepth < 0:
		return fmt.Errorf("%w: ReadOptions.MaxDepth: negative", ErrInvalid)
	case o.BatchSize < 0:
		return fmt.Errorf("%w: ReadOptions.BatchSize: negative", ErrInvalid)
	}
	return nil
}

func (o *ReadOptions) depth() int {
	if o == nil {
		return 0
	}
	return max(o.MaxDepth, 0)
}

func (o *ReadOptions) batch() int32 {
	if o == nil {
		return 0
	}
	return int32(min(o.BatchSize, math.MaxInt32))
}

// Crumb is one step of a breadcrumb.
type Crumb[K any] struct {
	ID K `json:"id"`
	// Name is what Options.NameField holds, "" where the document has none.
	Name string `json:"name"`
}

// Node is a document with the subtrees of its children, in order.
type Node[T any] struct {
	Value    T          `json:"value"`
	Children []*Node[T] `json:"children,omitempty"`
}

// Filter is the filter for one node, for reads and updates of the user's own
// fields with the driver.
func (t *Tree[K, T]) Filter(id K) bson.D { return t.c.byID(t.raw(id)) }

// raw encodes an ID; what cannot be an ID becomes one that no node has.
func (t *Tree[K, T]) raw(id K) bson.RawValue {
	v, err := t.c.id(id)
	if err != nil {
		return bson.RawValue{Type: bson.TypeMinKey}
	}
	return v
}

// bare takes the fields of pipelines away again.
func bare(p mongo.Pipeline) mongo.Pipeline {
	return append(p, d("$unset", bson.A{fieldDepth, fieldStart}))
}

func (c *core) rootFirst(match bson.D) mongo.Pipeline {
	return append(c.shape.up(c, match), d("$sort", d(fieldDepth, -1)))
}

func (c *core) parents(id bson.RawValue) mongo.Pipeline {
	if c.rep == ChildReferences {
		return mongo.Pipeline{c.match(c.o.ChildrenField, equal(id))}
	}
	return bare(append(c.shape.up(c, c.byID(id)), d("$match", d(fieldDepth, 1))))
}

// ParentPipeline yields the parent of a node.
func (t *Tree[K, T]) ParentPipeline(id K) mongo.Pipeline { return t.c.parents(t.raw(id)) }

// ChildrenPipeline yields the children of a node in order.
func (t *Tree[K, T]) ChildrenPipeline(id K) mongo.Pipeline { return t.c.shape.children(t.c, t.raw(id)) }

// SiblingsPipeline yields the other children of a node's parent in order.
func (t *Tree[K, T]) SiblingsPipeline(id K) mongo.Pipeline { return t.c.shape.siblings(t.c, t.raw(id)) }

// AncestorsPipeline yields the ancestors of a node, root first.
func (t *Tree[K, T]) AncestorsPipeline(id K) mongo.Pipeline {
	return bare(append(t.c.rootFirst(t.c.byID(t.raw(id))), d("$match", d(fieldDepth, d("$gt", 0)))))
}

// DescendantsPipeline yields the descendants of a node, parents before their
// children. For the leaves of a subtree append LeavesPipeline to it.
func (t *Tree[K, T]) DescendantsPipeline(id K, opts *ReadOptions) mongo.Pipeline {
	return bare(t.c.shape.down(t.c, t.raw(id), opts.depth(), false))
}

// SubtreePipeline yields a node and then its descendants, parents before their
// children.
func (t *Tree[K, T]) SubtreePipeline(id K, opts *ReadOptions) mongo.Pipeline {
	return bare(t.c.shape.down(t.c, t.raw(id), opts.depth(), true))
}

// RootsPipeline yields the nodes without parent in order.
func (t *Tree[K, T]) RootsPipeline() mongo.Pipeline { return t.c.shape.roots(t.c) }

// LeavesPipeline yields the nodes without children.
func (t *Tree[K, T]) LeavesPipeline() mongo.Pipeline { return t.c.shape.leaves(t.c) }

// BreadcrumbPipeline yields {id, name} of the ancestors, root first, and of the
// node itself.
func (t *Tree[K, T]) BreadcrumbPipeline(id K) mongo.Pipeline {
	name := t.c.o.NameField
	if name == "" {
		name = t.c.o.IDField
	}
	return append(t.c.rootFirst(t.c.byID(t.raw(id))), d("$project", d("_id", 0, "id", "$"+t.c.o.IDField, "name", "$"+name)))
}

// LowestCommonAncestorPipeline yields the lowest node that has both a and b in
// its subtree; a node is in its own.
func (t *Tree[K, T]) LowestCommonAncestorPipeline(a, b K) mongo.Pipeline {
	c := t.c
	both := []bson.RawValue{t.raw(a), t.raw(b)}
	starts := 2
	if same(both[0], both[1]) {
		starts = 1
	}
	return bare(concat(c.shape.up(c, c.byIDs(both)), mongo.Pipeline{
		d("$group", d("_id", "$"+c.o.IDField, fieldStart, d("$sum", 1), fieldDepth, d("$sum", "$"+fieldDepth),
			fieldTree, d("$first", "$$ROOT"))),
		d("$match", d(fieldStart, starts)),
		d("$sort", d(fieldDepth, 1)),
		d("$limit", 1),
		d("$replaceRoot", d("newRoot", "$"+fieldTree)),
	}))
}

// stream runs a pipeline made of an ID.
func (t *Tree[K, T]) stream(ctx context.Context, op string, id *K, batch int32,
	pipeline func(bson.RawValue) mongo.Pipeline) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		raw := null
		if id != nil {
			var err error
			if raw, err = t.c.id(*id); err != nil {
				yield(zero, fail(op, err))
				return
			}
		}
		cursor, err := t.c.open(ctx, pipeline(raw), batch)
		if err != nil {
			yield(zero, fail(op, err))
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			var v T
			if err := cursor.Decode(&v); err != nil {
				yield(zero, fail(op, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(zero, fail(op, err))
		}
	}
}

func (c *core) open(ctx context.Context, p mongo.Pipeline, batch int32) (*mongo.Cursor, error) {
	if batch <= 0 {
		batch = math.MaxInt32
	}
	if p == nil {
		p = mongo.Pipeline{}
	}
	return c.coll.Aggregate(ctx, p, options.Aggregate().SetBatchSize(batch))
}

// Children yields the children of a node, in order if the tree keeps one. An
// unknown ID has none.
//
// Cost: 1 round trip while the result fits in one reply (16 MB). Parent
// references, array of ancestors and nested sets use the parent index, a key
// for each child; the path uses the ID and the path index, child references the
// ID index for the node and for each child.
func (t *Tree[K, T]) Children(ctx context.Context, id K) iter.Seq2[T, error] {
	return t.stream(ctx, "children", &id, 0, func(id bson.RawValue) mongo.Pipeline { return t.c.shape.children(t.c, id) })
}

// Siblings yields the other children of a node's parent. A root has none: the
// other roots are trees of their own, see Roots.
//
// Cost: 1 round trip while the result fits in one reply (16 MB). The node by
// ID and its siblings by the index that Children uses.
func (t *Tree[K, T]) Siblings(ctx context.Context, id K) iter.Seq2[T, error] {
	return t.stream(ctx, "siblings", &id, 0, func(id bson.RawValue) mongo.Pipeline { return t.c.shape.siblings(t.c, id) })
}

// Roots yields the nodes without parent.
//
// Cost: 1 round trip while the result fits in one reply (16 MB). A key of the
// parent or path index for each root; child references examine every node.
func (t *Tree[K, T]) Roots(ctx context.Context) iter.Seq2[T, error] {
	return t.stream(ctx, "roots", nil, 0, func(bson.RawValue) mongo.Pipeline { return t.c.shape.roots(t.c) })
}

// Leaves yields the nodes without children.
//
// Cost: 1 round trip while the result fits in one reply (16 MB). It examines
// every node of the tree.
func (t *Tree[K, T]) Leaves(ctx context.Context) iter.Seq2[T, error] {
	return t.stream(ctx, "leaves", nil, 0, func(bson.RawValue) mongo.Pipeline { return t.c.shape.leaves(t.c) })
}

// Descendants yields the nodes below a node, parents before their children. An
// unknown ID has none.
//
// Cost: 1 round trip while the result fits in one reply (16 MB) or
// ReadOptions.BatchSize. A key for each descendant: of the ancestors index; of
// the path or left index, which also give the order; of the parent or ID index,
// level by level in one $graphLookup (100 MB at most).
func (t *Tree[K, T]) Descendants(ctx context.Context, id K, opts *ReadOptions) iter.Seq2[T, error] {
	if err := opts.check(); err != nil {
		return func(yield func(T, error) bool) {
			var zero T
			yield(zero, fail("descendants", err))
		}
	}
	return t.stream(ctx, "descendants", &id, opts.batch(), func(id bson.RawValue) mongo.Pipeline {
		return bare(t.c.shape.down(t.c, id, opts.depth(), false))
	})
}

// Ancestors returns the nodes above a node, root first. It is ErrNotFound for
// an unknown ID.
//
// Cost: 1 round trip. The node and each ancestor by ID; child references find
// each ancestor by the children index.
func (t *Tree[K, T]) Ancestors(ctx context.Context, id K) ([]T, error) {
	all, err := t.lineage(ctx, id)
	if err != nil {
		return nil, fail("ancestors", err)
	}
	return all[:len(all)-1], nil
}

// lineage is a node behind its ancestors.
func (t *Tree[K, T]) lineage(ctx context.Context, id K) ([]T, error) {
	var all []T
	for v, err := range t.stream(ctx, "ancestors", &id, 0, func(id bson.RawValue) mongo.Pipeline {
		return bare(t.c.rootFirst(t.c.byID(id)))
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, text(t.raw(id)))
	}
	return all, nil
}

// Parent returns the parent of a node: ErrNoParent for a root, ErrNotFound for
// an unknown ID. Of several parents in a graph it returns one, see Parents.
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[K, T]) Parent(ctx context.Context, id K) (T, error) {
	all, err := t.lineage(ctx, id)
	if err == nil && len(all) == 1 {
		err = fmt.Errorf("%w: %s", ErrNoParent, text(t.raw(id)))
	}
	if err != nil {
		var zero T
		return zero, fail("parent", err)
	}
	return all[len(all)-2], nil
}

// upIDs are the IDs of a node and its ancestors, root first.
func (t *Tree[K, T]) upIDs(ctx context.Context, id K) ([]node, error) {
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	nodes, err := t.c.aggregate(ctx, append(t.c.rootFirst(t.c.byID(raw)), d("$project", d(t.c.o.IDField, 1, fieldDepth, 1))))
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("%w: %s", ErrNotFound, text(raw))
	}
	return nodes, err
}

// Depth returns how many levels a node is below its root, 0 for a root. In a
// graph it is the longest of the shortest ways up.
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[K, T]) Depth(ctx context.Context, id K) (int, error) {
	up, err := t.upIDs(ctx, id)
	if err != nil {
		return 0, fail("depth", err)
	}
	return int(up[0].depth), nil
}

// IsDescendant reports whether id lies below ancestor. It is ErrNotFound if id
// is unknown; an unknown ancestor has no descendants.
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[K, T]) IsDescendant(ctx context.Context, id, ancestor K) (bool, error) {
	up, err := t.upIDs(ctx, id)
	if err != nil {
		return false, fail("is descendant", err)
	}
	above := t.raw(ancestor)
	for _, n := range up[:len(up)-1] {
		if same(n.id, above) {
			return true, nil
		}
	}
	return false, nil
}

// LowestCommonAncestor returns the lowest node with both a and b in its
// subtree, where a node is in its own: that of a node and its descendant is the
// node. ErrNotFound if there is none or an ID is unknown.
//
// Cost: 1 round trip, as Ancestors for two nodes.
func (t *Tree[K, T]) LowestCommonAncestor(ctx context.Context, a, b K) (T, error) {
	for v, err := range t.stream(ctx, "lowest common ancestor", &a, 0, func(bson.RawValue) mongo.Pipeline {
		return t.LowestCommonAncestorPipeline(a, b)
	}) {
		return v, err
	}
	var zero T
	return zero, fail("lowest common ancestor", fmt.Errorf("%w: no common ancestor of %s and %s", ErrNotFound, text(t.raw(a)), text(t.raw(b))))
}

// Breadcrumb returns the way from the root to a node with the names of
// Options.NameField, the node last. A document without that field has the name
// "".
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[K, T]) Breadcrumb(ctx context.Context, id K) ([]Crumb[K], error) {
	if _, err := t.c.id(id); err != nil {
		return nil, fail("breadcrumb", err)
	}
	cursor, err := t.c.open(ctx, t.BreadcrumbPipeline(id), 0)
	if err != nil {
		return nil, fail("breadcrumb", err)
	}
	var rows []bson.Raw
	if err := cursor.All(ctx, &rows); err != nil {
		return nil, fail("breadcrumb", err)
	}
	if len(rows) == 0 {
		return nil, fail("breadcrumb", fmt.Errorf("%w: %s", ErrNotFound, text(t.raw(id))))
	}
	crumbs := make([]Crumb[K], len(rows))
	for i, row := range rows {
		if err := t.c.decodeID(row.Lookup("id"), &crumbs[i].ID); err != nil {
			return nil, fail("breadcrumb", err)
		}
		name := row.Lookup("name")
		if s, err := segmentString(name); err == nil {
			crumbs[i].Name = s
		} else if !isNull(name) {
			crumbs[i].Name = text(name)
		}
	}
	return crumbs, nil
}

// Subtree returns a node with all that is below it, as one nested value;
// children are in order. Outside a transaction it may mix the states before and
// after a change made meanwhile; a node whose parent is not in the result is
// left out.
//
// Cost: 1 round trip while the result fits in one reply (16 MB); otherwise as
// Descendants.
func (t *Tree[K, T]) Subtree(ctx context.Context, id K, opts *ReadOptions) (*Node[T], error) {
	c := t.c
	raw, err := c.id(id)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return nil, fail("subtree", err)
	}
	cursor, err := c.open(ctx, t.SubtreePipeline(id, opts), opts.batch())
	if err != nil {
		return nil, fail("subtree", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var shapes []node
	var nodes []*Node[T]
	at := map[string]int{}
	for cursor.Next(ctx) {
		n := c.parse(append(bson.Raw(nil), cursor.Current...))
		out := &Node[T]{}
		if err := cursor.Decode(&out.Value); err != nil {
			return nil, fail("subtree", err)
		}
		at[key(n.id)] = len(nodes)
		shapes, nodes = append(shapes, n), append(nodes, out)
	}
	if err := cursor.Err(); err != nil {
		return nil, fail("subtree", err)
	}
	root, ok := at[key(raw)]
	if !ok {
		return nil, fail("subtree", fmt.Errorf("%w: %s", ErrNotFound, text(raw)))
	}
	for i, kids := range c.assemble(shapes) {
		for _, kid := range kids {
			nodes[i].Children = append(nodes[i].Children, nodes[kid])
		}
	}
	return nodes[root], nil
}

// CountChildren returns the number of a node's children.
//
// Cost: 1 round trip, index and keys as Children.
func (t *Tree[K, T]) CountChildren(ctx context.Context, id K) (int64, error) {
	n, err := t.count(ctx, id, func(id bson.RawValue) mongo.Pipeline { return t.c.shape.children(t.c, id) })
	return n, fail("count children", err)
}

// CountDescendants returns the number of nodes below a node.
//
// Cost: 1 round trip, index and keys as Descendants; nested sets read only the
// node itself.
func (t *Tree[K, T]) CountDescendants(ctx context.Context, id K) (int64, error) {
	if t.c.rep == NestedSets {
		raw, err := t.c.id(id)
		if err != nil {
			return 0, fail("count descendants", err)
		}
		n, err := t.c.find(ctx, raw, ErrNotFound)
		if err != nil {
			if isAbsent(err) {
				return 0, nil
			}
			return 0, fail("count descendants", err)
		}
		return max(n.right-n.left, 1) / 2, nil
	}
	n, err := t.count(ctx, id, func(id bson.RawValue) mongo.Pipeline {
		if match, ok := t.c.shape.descendantsOf(t.c, node{id: id}, 0); ok && t.c.rep == AncestorArray {
			return mongo.Pipeline{d("$match", match)}
		}
		return t.c.shape.down(t.c, id, 0, false)
	})
	return n, fail("count descendants", err)
}

func (t *Tree[K, T]) count(ctx context.Context, id K, pipeline func(bson.RawValue) mongo.Pipeline) (int64, error) {
	raw, err := t.c.id(id)
	if err != nil {
		return 0, err
	}
	cursor, err := t.c.open(ctx, append(pipeline(raw), d("$count", "n")), 0)
	if err != nil {
		return 0, err
	}
	var rows []bson.Raw
	if err := cursor.All(ctx, &rows); err != nil || len(rows) == 0 {
		return 0, err
	}
	return integer(rows[0].Lookup("n")), nil
}
