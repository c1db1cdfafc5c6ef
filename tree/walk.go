package tree

import (
	"context"
	"iter"
	"math"
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// defaultBatch is the number of nodes that long work handles at a time.
const defaultBatch = 1000

// assemble gives for each node the indexes of its children, in order.
func (c *core) assemble(nodes []node) [][]int {
	out := make([][]int, len(nodes))
	at := make(map[string]int, len(nodes))
	if c.rep == ChildReferences {
		for i, n := range nodes {
			at[key(n.id)] = i
		}
		for i, n := range nodes {
			for _, id := range n.children {
				if kid, ok := at[key(id)]; ok {
					out[i] = append(out[i], kid)
				}
			}
		}
		return out
	}
	own, above := func(n node) string { return key(n.id) }, func(n node) string { return key(n.parent) }
	if c.rep == MaterializedPath {
		own, above = c.full, func(n node) string { return n.path }
	}
	for i, n := range nodes {
		at[own(n)] = i
	}
	for i, n := range nodes {
		if p, ok := at[above(n)]; ok && p != i {
			out[p] = append(out[p], i)
		}
	}
	for _, kids := range out {
		sort.SliceStable(kids, func(i, j int) bool { return c.before(nodes[kids[i]], nodes[kids[j]]) })
	}
	return out
}

// before compares siblings.
func (c *core) before(a, b node) bool {
	if c.rep == NestedSets {
		return a.left < b.left
	}
	return a.order < b.order
}

// childNodes reads the children of several nodes, in order.
//
// It takes 1 round trip.
func (c *core) childNodes(ctx context.Context, parents []node) ([][]node, error) {
	var match bson.D
	var keys []any
	var ids []bson.RawValue
	switch c.rep {
	case ChildReferences:
		for _, p := range parents {
			ids = append(ids, p.children...)
		}
		match = c.byIDs(ids)
	case MaterializedPath:
		for _, p := range parents {
			keys = append(keys, c.full(p))
		}
		match = c.in(c.o.PathField, d("$in", keys))
	default:
		for _, p := range parents {
			ids = append(ids, p.id)
		}
		match = c.placed(c.in(c.o.ParentField, d("$in", ids)))
	}
	kids, err := c.findAll(ctx, match, c.siblingSort()...)
	if err != nil {
		return nil, err
	}
	all := append(parents[:len(parents):len(parents)], kids...)
	if c.rep == ChildReferences { // a child may be a parent of the batch too
		byID := map[string]node{}
		for _, n := range all {
			byID[key(n.id)] = n
		}
		out := make([][]node, len(parents))
		for i, p := range parents {
			for _, id := range p.children {
				if n, ok := byID[key(id)]; ok {
					out[i] = append(out[i], n)
				}
			}
		}
		return out, nil
	}
	at := map[string]int{}
	for i, p := range parents {
		if c.rep == MaterializedPath {
			at[c.full(p)] = i
		} else {
			at[key(p.id)] = i
		}
	}
	out := make([][]node, len(parents))
	for _, n := range kids {
		above := key(n.parent)
		if c.rep == MaterializedPath {
			above = n.path
		}
		if i, ok := at[above]; ok { // not of a path in an array
			out[i] = append(out[i], n)
		}
	}
	return out, nil
}

// primary is c with reads from the primary: a secondary that lags would hide
// nodes from work that is to see them all.
func (c *core) primary() *core {
	p := *c
	p.coll, p.locks = scan.Primary(c.coll), scan.Primary(c.locks)
	return &p
}

// batches yields the IDs of all nodes of the tree, a batch at a time. They come
// sorted: on an index that moves change, a scan could miss nodes.
func (c *core) batches(ctx context.Context, size int) iter.Seq2[[]bson.RawValue, error] {
	return func(yield func([]bson.RawValue, error) bool) {
		opts := options.Find().SetProjection(d(c.o.IDField, 1)).SetSort(d(c.o.IDField, 1)).
			SetBatchSize(int32(min(size, 1<<20)))
		cursor, err := c.primary().coll.Find(ctx, c.in(), opts)
		if err != nil {
			yield(nil, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		var ids []bson.RawValue
		for cursor.Next(ctx) {
			id := cursor.Current.Lookup(c.o.IDField)
			if isNull(id) {
				continue // not a node
			}
			ids = append(ids, bson.RawValue{Type: id.Type, Value: slices.Clone(id.Value)})
			if len(ids) == size {
				if !yield(ids, nil) {
					return
				}
				ids = nil
			}
		}
		if err := cursor.Err(); err != nil {
			yield(nil, err)
			return
		}
		if len(ids) > 0 {
			yield(ids, nil)
		}
	}
}

// visited is one step of a walk.
type visited[V any] struct {
	node   node
	parent bson.RawValue // null at a root
	value  V
}

// walk yields the whole tree, parents before their children and siblings in
// order. In memory it holds shapes, the documents of one batch and, of child
// references, the IDs that it has seen: a node that two list, or that lies on a
// ring, comes once.
func walk[V any](ctx context.Context, c *core, size int, decode func(*mongo.Cursor) (V, error)) iter.Seq2[visited[V], error] {
	return func(yield func(visited[V], error) bool) {
		var none visited[V]
		roots, err := c.aggregate(ctx, c.placedRoots())
		if err != nil {
			yield(none, err)
			return
		}
		var todo [][]visited[V] // the next batch last
		push := func(nodes []visited[V]) {
			for end := len(nodes); end > 0; end -= size {
				todo = append(todo, nodes[max(0, end-size):end])
			}
		}
		var first []visited[V]
		seen := map[string]bool{}
		for _, n := range roots {
			first = append(first, visited[V]{node: n, parent: null})
		}
		push(first)
		for len(todo) > 0 {
			batch := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !visit(ctx, c, batch, decode, yield) {
				return
			}
			shapes := make([]node, len(batch))
			for i, v := range batch {
				shapes[i] = v.node
			}
			below, err := c.childNodes(ctx, shapes)
			if err != nil {
				yield(none, err)
				return
			}
			var next []visited[V]
			for i, kids := range below {
				for _, n := range kids {
					if c.rep == ChildReferences {
						if seen[key(n.id)] {
							continue
						}
						seen[key(n.id)] = true
					}
					next = append(next, visited[V]{node: n, parent: shapes[i].id})
				}
			}
			push(next)
		}
	}
}

func visit[V any](ctx context.Context, c *core, batch []visited[V], decode func(*mongo.Cursor) (V, error),
	yield func(visited[V], error) bool) bool {
	var none visited[V]
	at := map[string]int{}
	ids := make([]bson.RawValue, len(batch))
	for i, v := range batch {
		ids[i] = v.node.id
		at[key(v.node.id)] = i
	}
	cursor, err := c.coll.Find(ctx, c.byIDs(ids), options.Find().SetBatchSize(math.MaxInt32))
	if err != nil {
		return yield(none, err) && false
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	found := make([]bool, len(batch))
	for cursor.Next(ctx) {
		v, err := decode(cursor)
		if err != nil {
			return yield(none, err) && false
		}
		if i, ok := at[key(cursor.Current.Lookup(c.o.IDField))]; ok {
			batch[i].value, found[i] = v, true
		}
	}
	if err := cursor.Err(); err != nil {
		return yield(none, err) && false
	}
	for i, v := range batch {
		if found[i] && !yield(v, nil) { // deleted meanwhile if not found
			return false
		}
	}
	return true
}
