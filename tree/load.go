package tree

import (
	"context"
	"fmt"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// Entry is a document and the ID of its parent, nil for a root.
type Entry[K, T any] struct {
	Value  T
	Parent *K
}

// Dump yields every node with its parent's ID, parents before their children
// and siblings in order: what Load takes. Nodes that no root leads to (see
// Check) are not reached; a node that several list, or that lies on a cycle, comes
// once. A graph is refused.
//
// Cost: 2 round trips for the roots, then 2 for each 1,000 nodes or level.
func (t *Tree[K, T]) Dump(ctx context.Context) iter.Seq2[Entry[K, T], error] {
	return fault.Seq("tree: dump", func(yield func(Entry[K, T], error) bool) {
		var none Entry[K, T]
		if t.c.o.Graph {
			yield(none, fault.Invalid("a graph"))
			return
		}
		decode := func(cur *mongo.Cursor) (v T, err error) { return v, cur.Decode(&v) }
		for v, err := range walk(ctx, t.c, defaultBatch, decode) {
			e := Entry[K, T]{Value: v.value}
			if err == nil && !isNull(v.parent) {
				e.Parent = new(K)
				*e.Parent, err = codec.DecodeValue[K](t.c.codec, v.parent)
			}
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	})
}

// defaultBatch is the number of nodes that long work handles at a time.
const defaultBatch = 1000

// visited is one step of a walk.
type visited[V any] struct {
	node   node
	parent bson.RawValue // null at a root
	value  V
}

// walk yields the whole tree, parents before their children and siblings in
// order. In memory it holds shapes, the documents of one batch and, where nodes name
// their children, the IDs that it has seen.
func walk[V any](ctx context.Context, c *core, size int, decode func(*mongo.Cursor) (V, error)) iter.Seq2[visited[V], error] {
	return func(yield func(visited[V], error) bool) {
		var none visited[V]
		roots, err := c.top(ctx)
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
		for _, n := range roots {
			first = append(first, visited[V]{node: n, parent: null})
		}
		push(first)
		seen := map[string]bool{}
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
			below, err := c.rep.kids(ctx, shapes)
			if err != nil {
				yield(none, err)
				return
			}
			var next []visited[V]
			for i, kids := range below {
				for _, n := range kids {
					if len(shapes[i].children) > 0 {
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

// top are the roots, in order and then by _id.
func (c *core) top(ctx context.Context) ([]node, error) {
	match := c.rep.rootsMatch()
	if match == nil {
		return c.aggregate(ctx, append(c.rep.roots(), expr.Op("$sort", d("_id", 1))))
	}
	return c.findAll(ctx, append(match, c.rep.except(c.o.ParentField)...), c.sorting()...)
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
	found := make([]bool, len(batch))
	for cur, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.primary.Find(ctx, c.byIDs(ids), options.Find().SetBatchSize(math.MaxInt32))
	}) {
		var v V
		if err == nil {
			v, err = decode(cur)
		}
		if err != nil {
			return yield(none, err) && false
		}
		if i, ok := at[key(cur.Current.Lookup(c.o.IDField))]; ok {
			batch[i].value, found[i] = v, true
		}
	}
	for i, v := range batch {
		if found[i] && !yield(v, nil) { // deleted meanwhile if not found
			return false
		}
	}
	return true
}

// LoadNodes inserts nested values, as Subtree and Forest return them. See Load.
//
// Cost: as Load.
func (t *Tree[K, T]) LoadNodes(ctx context.Context, roots []*Node[T], pos Position[K], work *mongopatterns.Work) (mongopatterns.Result, error) {
	return t.Load(ctx, func(yield func(Entry[K, T], error) bool) {
		var visit func(nodes []*Node[T], parent *K) bool
		visit = func(nodes []*Node[T], parent *K) bool {
			for _, n := range nodes {
				if n == nil {
					continue
				}
				if !yield(Entry[K, T]{n.Value, parent}, nil) {
					return false
				}
				if len(n.Children) == 0 {
					continue
				}
				id, err := t.idOf(n.Value)
				if err != nil {
					yield(Entry[K, T]{}, err)
					return false
				}
				if !visit(n.Children, &id) {
					return false
				}
			}
			return true
		}
		visit(roots, nil)
	}, pos, work)
}

func (t *Tree[K, T]) idOf(doc T) (id K, err error) {
	raw, err := t.c.codec.Document(doc)
	if err != nil {
		return id, err
	}
	v := raw.Lookup(t.c.o.IDField)
	if err := checkID(v); err != nil {
		return id, fmt.Errorf("%s of a node with children: %w", t.c.o.IDField, err)
	}
	return codec.DecodeValue[K](t.c.codec, v)
}

// Load inserts many nodes, parents before their children, in bounded batches; entries
// without a parent go to pos, which is AsRoot or Under. A batch is one transaction and
// stays when a later one fails or ctx ends. Run it again with the same entries to
// finish: those that are there are skipped, by their ID. So a document without an
// _id is inserted once more.
//
// In the result Done are inserted, Skipped were there already. A document that the
// server refuses is counted and passed over; its children end Load with
// ErrParentNotFound. Unknown are those of a last batch whose commit had no answer.
// Work.Filter and DryRun are ErrInvalid.
//
// Siblings get the order of the entries, after those they find. Nested sets
// are numbered in one last transaction; until then the new nodes are in no
// one's range, and Delete with Cascade above them leaves them as orphans.
//
// Cost: for each batch at most 6 round trips (lock, entries already there,
// parents outside the batch, insert, their counters, children or marks,
// commit), and with an OrderField 1 more; each entry is written once.
// NestedSets: 2 more for the last number, and then 4 for the numbers.
func (t *Tree[K, T]) Load(ctx context.Context, entries iter.Seq2[Entry[K, T], error], pos Position[K], work *mongopatterns.Work) (_ mongopatterns.Result, err error) {
	defer fault.In(&err, "tree: load")
	w, err := maintain.Of(work, defaultBatch)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	if w.DryRun || w.Filter != nil {
		return mongopatterns.Result{}, fault.Invalid("Work.DryRun, Work.Filter: not for Load")
	}
	place, err := t.position(pos)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	if place.sibling() || place.first {
		return mongopatterns.Result{}, fault.Invalid("Load takes AsRoot or Under")
	}
	l := loader{c: t.c, work: w}
	if entries != nil {
		for e, err := range entries {
			var raw bson.Raw
			if err == nil {
				raw, err = t.c.codec.Document(e.Value)
			}
			parent := place.ref
			if err == nil && e.Parent != nil {
				parent, err = t.c.id(*e.Parent)
			}
			if err == nil {
				err = l.add(ctx, raw, parent)
			}
			if err != nil {
				return l.result, err
			}
		}
	}
	return l.result, l.finish(ctx)
}

type loader struct {
	c      *core
	work   mongopatterns.Work
	drop   []string // fields to leave out
	batch  []bson.Raw
	bytes  int
	result mongopatterns.Result
}

// item is a document of a batch on its way in.
type item struct {
	doc       bson.D
	id, above bson.RawValue   // above is the parent's ID, null for a root
	parent    *node           // without raw if it comes with the same batch
	node      *node           // what its children see
	kids      []bson.RawValue // of the same batch
	at        int
}

// add keeps a document for the next batch, as {_id, doc, parent}.
func (l *loader) add(ctx context.Context, raw bson.Raw, parent bson.RawValue) error {
	doc, id, err := l.c.prepare(raw, l.drop...)
	if err != nil {
		return err
	}
	if parent.Type == 0 {
		parent = null
	}
	entry, err := bson.Marshal(d("_id", id, "doc", doc, "parent", parent))
	if err != nil {
		return fault.Invalid("%w", err)
	}
	if len(l.batch) == l.work.BatchSize || len(l.batch) > 0 && l.bytes+len(entry) > l.work.BatchBytes {
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	l.batch = append(l.batch, entry)
	l.bytes += len(entry)
	return nil
}

func (l *loader) finish(ctx context.Context) error {
	err := l.flush(ctx)
	if err == nil && l.result.Done > 0 || err == nil && l.result.Skipped > 0 {
		_, err = l.c.rep.settle(ctx)
	}
	return err
}

func (l *loader) flush(ctx context.Context) error {
	if len(l.batch) == 0 {
		return nil
	}
	err := maintain.Apart(ctx, l.c.coll.Name(), l.batch, &l.result, func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		var inserted int
		err := l.c.atomically(ctx, true, func(ctx context.Context) (err error) {
			inserted, err = l.c.loadBatch(ctx, part)
			return err
		})
		if err != nil {
			if unknown(err) {
				l.result.Unknown += int64(len(part))
			}
			return err
		}
		result.Done, result.Skipped = int64(inserted), int64(len(part)-inserted)
		return nil
	})
	l.batch, l.bytes = nil, 0
	if err == nil {
		l.work.Progress(l.result)
	}
	return err
}

// loadBatch inserts what is not there yet. The lock keeps moves and deletes
// away, so parents need a write of their own only for the order of siblings.
func (c *core) loadBatch(ctx context.Context, batch []bson.Raw) (int, error) {
	items, outside, err := c.fresh(ctx, batch)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	if err := c.rep.arrange(ctx, items); err != nil {
		return 0, err
	}
	docs := make([]bson.D, len(items))
	kids := map[string][]bson.RawValue{}
	for i, it := range items {
		docs[i] = it.doc
		for j, e := range it.doc {
			if c.o.ChildCountField != "" && e.Key == c.o.ChildCountField {
				docs[i][j].Value = int64(len(it.kids))
			}
		}
		kids[key(it.above)] = append(kids[key(it.above)], it.id)
	}
	if _, err := c.primary.InsertMany(ctx, docs); err != nil {
		return 0, err
	}
	var models []mongo.WriteModel
	for _, p := range outside {
		if change := c.rep.adopt(p, kids[key(p.id)]); len(change) > 0 {
			models = append(models, update(c.byID(p.id), change))
		} else if c.o.OrderField != "" { // an insertion beside its new children conflicts
			models = append(models, c.marked(&p)...)
		}
	}
	return len(items), c.write(ctx, models...)
}

// fresh are the items of a batch that are not in the tree, and their parents outside
// the batch.
func (c *core) fresh(ctx context.Context, batch []bson.Raw) (items []*item, outside []node, err error) {
	var ids []bson.RawValue
	for _, entry := range batch {
		ids = append(ids, entry.Lookup("_id"))
	}
	there, err := c.findAll(ctx, c.byIDs(ids))
	if err != nil {
		return nil, nil, err
	}
	nodes, own := map[string]*node{}, map[string]*item{}
	for i := range there {
		nodes[key(there[i].id)] = &there[i]
	}
	var ask []bson.RawValue
	asked := map[string]bool{}
	for _, entry := range batch {
		it := &item{id: entry.Lookup("_id"), above: entry.Lookup("parent"), at: len(items)}
		k, p := key(it.id), key(it.above)
		if nodes[k] != nil || own[k] != nil {
			continue
		}
		elements, err := entry.Lookup("doc").Document().Elements()
		if err != nil {
			return nil, nil, err
		}
		for _, e := range elements {
			it.doc = append(it.doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
		it.node = &node{id: it.id, parent: it.above}
		if it.node.segment, it.node.badPath = segmentString(lookupD(it.doc, c.o.SegmentField)); it.node.badPath != nil {
			it.node.segment = ""
		}
		own[k] = it
		items = append(items, it)
		if !isNull(it.above) && own[p] == nil && nodes[p] == nil && !asked[p] {
			asked[p] = true
			ask = append(ask, it.above)
		}
	}
	if len(ask) > 0 {
		found, err := c.findAll(ctx, c.byIDs(ask))
		if err != nil {
			return nil, nil, err
		}
		for i := range found {
			nodes[key(found[i].id)] = &found[i]
		}
	}
	used := map[string]bool{}
	for _, it := range items {
		p := key(it.above)
		switch {
		case isNull(it.above):
		case nodes[p] != nil:
			it.parent = nodes[p]
			if !used[p] {
				used[p] = true
				outside = append(outside, *nodes[p])
			}
		case own[p] != nil && own[p].at < it.at:
			it.parent = own[p].node
			own[p].kids = append(own[p].kids, it.id)
		default:
			return nil, nil, fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(it.above), text(it.id))
		}
	}
	return items, outside, nil
}
