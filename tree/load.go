package tree

import (
	"context"
	"fmt"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Entry is a document and the ID of its parent, nil for a root.
type Entry[K, T any] struct {
	Value  T
	Parent *K
}

// LoadOptions control Load and LoadNodes. The type parameter is that of the
// tree's IDs.
type LoadOptions[K any] struct {
	// Under is the node that the entries without parent are put under. Default
	// none: they become roots.
	Under *K
	// BatchSize is the number of nodes written in a transaction. Default 1,000.
	BatchSize int
	// Progress is called after each batch with the number of entries done so
	// far. Default none.
	Progress func(done int64)
}

// LoadResult counts what Load did.
type LoadResult struct {
	Inserted int64 `json:"inserted"`
	// Skipped are the nodes that were in the tree already; they were left as
	// they are and where they are.
	Skipped int64 `json:"skipped"`
}

// Dump yields every node with its parent's ID, parents before their children
// and siblings in order: what Load takes. Nodes that no root leads to (see
// Check) are not reached; a node that several list, or that lies on a ring, comes
// once. A graph is refused.
//
// Cost: 2 round trips for the roots, then 2 for each 1,000 nodes or level.
func (t *Tree[K, T]) Dump(ctx context.Context) iter.Seq2[Entry[K, T], error] {
	return func(yield func(Entry[K, T], error) bool) {
		var none Entry[K, T]
		if t.c.o.Graph {
			yield(none, fail("dump", fmt.Errorf("%w: a graph", ErrUnsupported)))
			return
		}
		decode := func(cursor *mongo.Cursor) (v T, err error) { return v, cursor.Decode(&v) }
		for v, err := range walk(ctx, t.c, defaultBatch, decode) {
			e := Entry[K, T]{Value: v.value}
			if err == nil && !isNull(v.parent) {
				e.Parent = new(K)
				err = t.c.decodeID(v.parent, e.Parent)
			}
			if err != nil {
				yield(none, fail("dump", err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// LoadNodes inserts nested values, as Subtree returns them, in bounded batches.
// See Load.
//
// Cost: as Load.
func (t *Tree[K, T]) LoadNodes(ctx context.Context, roots []*Node[T], opts *LoadOptions[K]) (LoadResult, error) {
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
	}, opts)
}

func (t *Tree[K, T]) idOf(doc T) (id K, err error) {
	raw, err := t.c.encodeDocument(doc)
	if err != nil {
		return id, err
	}
	v := raw.Lookup(t.c.o.IDField)
	if err := checkID(v); err != nil {
		return id, fmt.Errorf("%s of a node with children: %w", t.c.o.IDField, err)
	}
	return id, t.c.decodeID(v, &id)
}

// Load inserts many nodes, parents before their children, in bounded batches; nil
// entries are none. A batch is one transaction and stays when a later one fails
// or ctx ends; run it again with the same entries to finish, as those that are
// there are skipped. That goes by the ID: a document without an _id gets a new
// ObjectID in every run, and a second run inserts it once more.
//
// Siblings get the order of the entries, behind those they find. Nested sets
// are numbered in one last transaction; until then the new nodes are in no
// one's range, and Delete with Cascade above them leaves them as orphans.
//
// Cost: for each batch at most 6 round trips (lock, entries already there,
// parents outside the batch, insert, their counters, children or marks,
// commit), and with an OrderField 1 more; each entry is written once.
// NestedSets: 2 more for the last number, and then as Repair of the numbers.
func (t *Tree[K, T]) Load(ctx context.Context, entries iter.Seq2[Entry[K, T], error], opts *LoadOptions[K]) (LoadResult, error) {
	var o LoadOptions[K]
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "LoadOptions", &o.BatchSize, defaultBatch, &o.Progress); err != nil {
		return LoadResult{}, fail("load", err)
	}
	if entries == nil {
		entries = func(func(Entry[K, T], error) bool) {}
	}
	l := loader{c: t.c, size: o.BatchSize, progress: o.Progress}
	for e, err := range entries {
		var raw bson.Raw
		if err == nil {
			raw, err = t.c.encodeDocument(e.Value)
		}
		parent := null
		if e.Parent == nil {
			e.Parent = o.Under
		}
		if err == nil && e.Parent != nil {
			parent, err = t.c.id(*e.Parent)
		}
		if err == nil {
			err = l.add(ctx, raw, parent)
		}
		if err != nil {
			return l.result, fail("load", err)
		}
	}
	return l.result, fail("load", l.finish(ctx))
}

type loader struct {
	c        *core
	size     int
	progress func(int64)
	drop     []string // fields to leave out
	batch    []loadItem
	result   LoadResult
}

type loadItem struct {
	doc        bson.D
	id, parent bson.RawValue
}

func (l *loader) add(ctx context.Context, raw bson.Raw, parent bson.RawValue) error {
	doc, id, err := l.c.prepare(raw, l.drop...)
	if err != nil {
		return err
	}
	if s, ok := l.c.shape.(linked); ok {
		if err := s.check(l.c, doc); err != nil {
			return err
		}
	}
	l.batch = append(l.batch, loadItem{doc, id, parent})
	if len(l.batch) < l.size {
		return nil
	}
	return l.flush(ctx)
}

func (l *loader) finish(ctx context.Context) error {
	if err := l.flush(ctx); err != nil {
		return err
	}
	if l.c.rep != NestedSets {
		return nil
	}
	_, err := l.c.renumber(ctx)
	return err
}

func (l *loader) flush(ctx context.Context) error {
	if len(l.batch) == 0 {
		return nil
	}
	var inserted int
	err := l.c.atomically(ctx, true, func(ctx context.Context) (err error) {
		inserted, err = l.c.loadBatch(ctx, l.batch)
		return err
	})
	if err != nil {
		return err
	}
	l.result.Inserted += int64(inserted)
	l.result.Skipped += int64(len(l.batch) - inserted)
	l.batch = l.batch[:0]
	l.progress(l.result.Inserted + l.result.Skipped)
	return nil
}

// loadBatch inserts what is not there yet. The lock keeps moves and deletes
// away, so parents need a write of their own only for the order of siblings.
func (c *core) loadBatch(ctx context.Context, batch []loadItem) (int, error) {
	ids := make([]bson.RawValue, len(batch))
	for i, item := range batch {
		ids[i] = item.id
	}
	there, err := c.findAll(ctx, c.byIDs(ids))
	if err != nil {
		return 0, err
	}
	nodes := map[string]*node{} // nodes of the batch and parents
	for i := range there {
		nodes[key(there[i].id)] = &there[i]
	}
	var fresh []loadItem
	var outside []bson.RawValue
	seen, asked := map[string]bool{}, map[string]bool{}
	for _, item := range batch {
		if nodes[key(item.id)] != nil || seen[key(item.id)] {
			continue
		}
		seen[key(item.id)] = true
		fresh = append(fresh, item)
		if p := key(item.parent); !isNull(item.parent) && !seen[p] && !asked[p] && nodes[p] == nil {
			asked[p] = true
			outside = append(outside, item.parent)
		}
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	if len(outside) > 0 {
		found, err := c.findAll(ctx, c.byIDs(outside))
		if err != nil {
			return 0, err
		}
		for i := range found {
			nodes[key(found[i].id)] = &found[i]
		}
	}
	old := map[string]bool{}
	for k := range nodes {
		old[k] = true
	}
	orders, err := c.lastOrders(ctx, fresh, nodes)
	if err != nil {
		return 0, err
	}
	left := int64(0)
	if c.rep == NestedSets {
		if left, err = c.lastNumber(ctx); err != nil {
			return 0, err
		}
	}

	children := map[string][]bson.RawValue{}
	var parents []*node
	docs := make([]bson.D, len(fresh))
	for i, item := range fresh {
		n := &node{id: item.id, parent: item.parent}
		if s, err := segmentString(lookupD(item.doc, c.o.SegmentField)); err == nil {
			n.segment = s
		}
		var parent *node
		if !isNull(item.parent) {
			if parent = nodes[key(item.parent)]; parent == nil {
				return 0, fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(item.parent), text(item.id))
			}
			if err := c.usable(*parent); err != nil {
				return 0, err
			}
			if k := key(item.parent); children[k] == nil {
				parents = append(parents, parent)
			}
			children[key(item.parent)] = append(children[key(item.parent)], item.id)
		}
		doc := item.doc[:len(item.doc):len(item.doc)]
		switch s := c.shape.(type) {
		case linked:
			doc = append(doc, s.place(c, parent)...)
			if parent != nil {
				n.ancestors, n.path = parent.lineage(), c.full(*parent)
			}
		case nestedSets:
			left++
			doc = append(doc, d(c.o.LeftField, left, c.o.RightField, left, c.o.ParentField, item.parent)...)
		}
		if c.o.OrderField != "" {
			k := key(item.parent)
			doc = append(doc, bson.E{Key: c.o.OrderField, Value: orders[k]})
			orders[k] += orderGap
		}
		nodes[key(item.id)] = n
		docs[i] = doc
	}
	var models []mongo.WriteModel
	for _, p := range parents {
		k := key(p.id)
		if !old[k] {
			continue
		}
		update := c.count(int64(len(children[k])))
		if c.rep == ChildReferences {
			update = append(update, d("$push", d(c.o.ChildrenField, d("$each", children[k])))...)
		}
		if c.o.OrderField != "" && len(update) == 0 {
			// An insertion beside its new children conflicts with this.
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(p.id)).
				SetUpdate(d("$set", d(fieldTouch, bson.NewObjectID()))))
			update = d("$unset", d(fieldTouch, ""))
		}
		if len(update) > 0 {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(p.id)).SetUpdate(update))
		}
	}
	for i, item := range fresh {
		kids := children[key(item.id)]
		if c.rep == ChildReferences {
			if kids == nil {
				kids = []bson.RawValue{}
			}
			docs[i] = append(docs[i], bson.E{Key: c.o.ChildrenField, Value: kids})
		}
		for j, e := range docs[i] {
			if c.o.ChildCountField != "" && e.Key == c.o.ChildCountField {
				docs[i][j].Value = int64(len(kids))
			}
		}
	}
	if _, err := c.coll.InsertMany(ctx, docs); err != nil {
		return 0, err
	}
	return len(fresh), c.bulkAll(ctx, models)
}

// lastOrders gives for each parent the order of the next child.
func (c *core) lastOrders(ctx context.Context, items []loadItem, nodes map[string]*node) (map[string]int64, error) {
	next := map[string]int64{}
	if c.o.OrderField == "" {
		return next, nil
	}
	field := c.o.ParentField
	var values []any
	owner := map[string]string{}
	for _, item := range items {
		k := key(item.parent)
		if _, ok := next[k]; ok {
			continue
		}
		next[k] = 0
		var v any = item.parent
		if isNull(item.parent) {
			v = nil
		}
		if c.rep == MaterializedPath {
			field = c.o.PathField
			p := nodes[k]
			switch {
			case v == nil:
				owner[""] = k
			case p == nil: // of this batch
				continue
			default:
				owner[c.full(*p)] = k
				v = c.full(*p)
			}
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return next, nil
	}
	cursor, err := c.coll.Aggregate(ctx, mongo.Pipeline{
		c.match(field, d("$in", values)),
		d("$group", d("_id", "$"+field, "last", d("$max", "$"+c.o.OrderField))),
	})
	if err != nil {
		return nil, err
	}
	var rows []bson.Raw
	if err := cursor.All(ctx, &rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		id := row.Lookup("_id")
		k := key(null)
		if !isNull(id) {
			k = key(id)
		}
		if c.rep == MaterializedPath {
			path, _ := id.StringValueOK()
			k = owner[path]
		}
		if last, ok := row.Lookup("last").AsInt64OK(); ok && last < math.MaxInt64-orderGap {
			next[k] = max(next[k], last+orderGap)
		}
	}
	return next, nil
}
