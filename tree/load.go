package tree

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Entry is a document and the ID of its parent, nil for a root.
type Entry[K, T any] struct {
	Value  T
	Parent *K
}

// Dump yields every node with its parent's ID, parents before their children and siblings in order: what Load
// takes. Nodes that no root leads to (see Check) are not reached; a node that several list, or that lies on a
// cycle, comes once; one that moves meanwhile may come twice. In memory are the shapes of the nodes whose children
// are to be read, and for ChildReferences all IDs. A graph is refused.
//
// Cost: 1 round trip for the roots, then 1 for the children of each 1,000 nodes, as far as they fit in a reply
// (16 MB).
func (t *Tree[K, T]) Dump(ctx context.Context) iter.Seq2[Entry[K, T], error] {
	return fault.Seq("tree: dump", func(yield func(Entry[K, T], error) bool) {
		if err := t.dump(ctx, yield); err != nil {
			fault.Stop[Entry[K, T]](err)(yield)
		}
	})
}

// defaultBatch is the number of nodes that long work handles at a time.
const defaultBatch = 1000

// dump reads the roots, and then the children of defaultBatch nodes at a time. It remembers what it has seen only
// where nodes name their children. Elsewhere a node comes again if it has moved, and so, with a new path, does all
// below it.
func (t *Tree[K, T]) dump(ctx context.Context, yield func(Entry[K, T], error) bool) error {
	c := t.c
	if c.o.Graph {
		return fault.Invalid("a graph")
	}
	seen := map[string]bool{}
	var todo []node
	level := c.sortedRoots()
	parents := map[string]bson.RawValue{} // by what their children name, or are named by
	for {
		for cur, err := range cursor.Each(ctx, opening(c.primary, level)) {
			if err != nil {
				return err
			}
			n := c.parse(cur.Current)
			if len(parents) == 0 && c.unadopted(n.raw) {
				return notAdopted(n.id, c.derived)
			}
			up, broken := c.parent(n)
			parent, known := parents[cmp.Or(parentKey(up), key(n.id))]
			if broken != "" || seen[key(n.id)] || !known && len(parents) > 0 {
				continue
			}
			if c.lists != nil {
				seen[key(n.id)] = true
			}
			todo = append(todo, slim(n))
			var e Entry[K, T]
			if err = cur.Decode(&e.Value); err == nil && !isNull(parent) {
				e.Parent = new(K)
				*e.Parent, err = codec.DecodeValue[K](c.codec, parent)
			}
			if err != nil || !yield(e, nil) {
				return err
			}
		}
		if len(todo) == 0 {
			return nil
		}
		batch := todo[:min(defaultBatch, len(todo))]
		todo = todo[len(batch):]
		level = c.family(batch)
		clear(parents)
		for _, n := range batch {
			parents[key(n.id)] = n.id
			for _, id := range n.children {
				parents[key(id)] = n.id
			}
		}
	}
}

func slim(n node) node {
	out := node{id: copied(n.id), path: n.path}
	for _, id := range n.children {
		out.children = append(out.children, copied(id))
	}
	return out
}

// Load inserts many nodes, parents before their children, in bounded batches; entries without a parent go to
// pos, which is AsRoot or Under. A batch is one transaction and stays when a later one fails or ctx ends. Run
// it again with the same entries to finish: those that are there are skipped, by their ID. So a document
// without an _id is inserted once more. Far below a root, where ancestors and paths are long, a batch has fewer
// nodes: what is derived for them is about 512 KB.
//
// In the result Done are inserted, Skipped were there already. A document that the server refuses is counted
// and passed over; its children end Load with ErrNoParent. Unknown are those of a last batch whose commit
// had no answer. Work.Filter and DryRun are ErrInvalid.
//
// Siblings get the order of the entries, after those they find. Nested sets are numbered in one last
// transaction; until then the new nodes are in no one's range, and Delete with Cascade above them leaves them
// as orphans.
//
// Cost: for each batch at most 5 round trips (lock, what is there of its nodes and their parents, insert, the
// parents' counters, children or marks, commit), and with an OrderField 1 more; each entry is written once.
// NestedSets: 2 more for the last number, and then 4 for the numbers.
func (t *Tree[K, T]) Load(ctx context.Context, entries iter.Seq2[Entry[K, T], error], pos Position[K],
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "tree: load")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	w, err := maintain.Of(work, defaultBatch)
	if err == nil && (w.DryRun || w.Filter != nil) {
		err = fault.Invalid("Work.DryRun, Work.Filter: not for Load")
	}
	if err == nil && (pos.at.sibling() || pos.at.first) {
		err = fault.Invalid("Load takes AsRoot or Under")
	}
	err = cmp.Or(err, pos.err)
	if err != nil || entries == nil {
		return result, err
	}
	insert := func(ctx context.Context, batch []bson.Raw, done *mongopatterns.Result) error {
		for len(batch) > 0 {
			var inserted, taken int
			err := t.c.atomically(ctx, true, func(ctx context.Context) (err error) {
				inserted, taken, err = t.c.loadBatch(ctx, batch)
				return err
			})
			if err != nil {
				if !txn.Running(ctx) && !fault.Undone(err) {
					done.Unknown = int64(taken)
				}
				return err
			}
			done.Done += int64(inserted)
			done.Skipped += int64(taken - inserted)
			batch = batch[taken:]
		}
		return nil
	}
	for batch, err := range cursor.Batches(t.encoded(entries, pos.at.ref), w.BatchSize, w.BatchBytes) {
		if err == nil {
			err = maintain.Apart(ctx, t.c.coll.Name(), batch, w.Strict, &result, insert)
		}
		if err != nil {
			return result, err
		}
		w.Progress(result)
	}
	if result.Done+result.Skipped > 0 {
		_, err = t.c.settle(ctx, false)
	}
	return result, err
}

// encoded are entries as {_id, doc, parent}.
func (t *Tree[K, T]) encoded(entries iter.Seq2[Entry[K, T], error], above bson.RawValue) iter.Seq2[bson.Raw, error] {
	one := func(e Entry[K, T], err error) (bson.Raw, error) {
		if err != nil {
			return nil, err
		}
		doc, id, _, err := t.prepare(e.Value)
		if err != nil {
			return nil, err
		}
		parent := above
		if e.Parent != nil {
			parent, err = t.c.id(*e.Parent)
		} else if above.Type == 0 {
			parent = null
		}
		if err != nil {
			return nil, err
		}
		return codec.Codec{}.Document(d("_id", id, "doc", doc, "parent", parent))
	}
	return func(yield func(bson.Raw, error) bool) {
		for e, err := range entries {
			if entry, err := one(e, err); !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// item is a document of a batch on its way in.
type item struct {
	doc       bson.D
	id, above bson.RawValue   // above is the parent's ID, null for a root
	parent    *node           // without raw if it comes with the same batch
	node      node            // what its children see
	children  []bson.RawValue // of the same batch
}

// loadBatch inserts what is not there yet of the first entries: taken is how many, as many as a transaction can
// hold with what is derived for them. The lock keeps moves and deletes away, so parents need a write of their own
// only for the order of siblings.
func (c *core) loadBatch(ctx context.Context, batch []bson.Raw) (inserted, taken int, err error) {
	items, parents, taken, err := c.fresh(ctx, batch)
	if err != nil || len(items) == 0 {
		return 0, taken, err
	}
	if err := c.arrange(ctx, items); err != nil {
		return 0, taken, err
	}
	docs := make([]bson.D, len(items))
	children := map[string][]bson.RawValue{}
	for i, it := range items {
		for j, e := range it.doc {
			if e.Key == c.o.ChildCountField {
				it.doc[j].Value = int64(len(it.children))
			}
		}
		docs[i] = it.doc
		children[key(it.above)] = append(children[key(it.above)], it.id)
	}
	if _, err := fault.Many(c.primary.InsertMany(ctx, docs)); err != nil {
		return 0, taken, err
	}
	var models []mongo.WriteModel
	for k, p := range parents {
		if change := c.gain(children[k]); len(change) > 0 {
			models = append(models, update(c.byID(p.id), change))
		} else if c.o.OrderField != "" { // an insertion beside its new children conflicts
			models = append(models, c.marked(p)...)
		}
	}
	return len(items), taken, c.write(ctx, models...)
}

// fresh are the items of the first entries of a batch that are not in the tree, and those of their parents that
// are. taken is how many entries that are: there may be more below a long way from the root.
func (c *core) fresh(ctx context.Context, batch []bson.Raw) (items []*item, parents map[string]*node, taken int, err error) {
	var ids []bson.RawValue
	for _, entry := range batch {
		ids = append(ids, entry.Lookup("_id"))
		if parent := entry.Lookup("parent"); !isNull(parent) {
			ids = append(ids, parent)
		}
	}
	nodes, err := c.findAll(ctx, c.byIDs(ids))
	if err != nil {
		return nil, nil, 0, err
	}
	there, own := map[string]*node{}, map[string]*item{}
	for i := range nodes {
		there[key(nodes[i].id)] = &nodes[i]
	}
	parents = map[string]*node{}
	derived := 0
	for i, entry := range batch {
		it := &item{id: entry.Lookup("_id"), above: entry.Lookup("parent")}
		k, p := key(it.id), key(it.above)
		switch {
		case there[k] != nil || own[k] != nil:
			continue
		case isNull(it.above):
		case there[p] != nil:
			it.parent = there[p]
		case own[p] != nil:
			it.parent = &own[p].node
		default:
			return nil, nil, 0, fmt.Errorf("%w: %s, of %s", ErrNoParent, text(it.above), text(it.id))
		}
		derived += sizeOf(c.fieldsOf(it.parent, nil))
		if derived > writesMax && len(items) > 0 {
			return items, parents, i, nil
		}
		switch {
		case it.parent == nil:
		case it.parent == there[p]:
			parents[p] = it.parent
		default:
			own[p].children = append(own[p].children, it.id)
		}
		it.node = *c.child(it.id, it.parent)
		elements, _ := entry.Lookup("doc").Document().Elements()
		for _, e := range elements {
			it.doc = append(it.doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
		own[k] = it
		items = append(items, it)
	}
	return items, parents, len(batch), nil
}

// sizeOf is about how many bytes derived fields are.
func sizeOf(fields bson.D) (n int) {
	for _, e := range fields {
		switch v := e.Value.(type) {
		case string:
			n += len(v)
		case []bson.RawValue:
			for _, id := range v {
				n += len(id.Value) + 8 // with its index in the array
			}
		}
	}
	return n
}
