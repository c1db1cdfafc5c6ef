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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// defaultBatch is the number of nodes in a batch.
const defaultBatch = 1000

// Load inserts many nodes in bounded batches. Parents must come before their children. Entries without a
// parent go to pos, which is AsRoot or Under. A batch is one transaction, and stays stored if a later one
// fails or ctx ends. To finish, run Load again with the same entries. It skips nodes that exist by their
// _id, so a document without an _id is inserted again. Far below a root, where ancestors and paths are
// long, a batch has fewer nodes, so that their derived fields have at most about 512 KB.
//
// In the result, Done nodes were inserted and Skipped nodes existed already. A document that the server refuses is
// counted as Failed and passed over, and Load returns an error at its end. If the document has children, they end
// Load with ErrNoParent. Unknown nodes are those of the last batch, if its commit got no answer. Work.Filter and
// Work.DryRun are ErrInvalid. A missing ancestor of an orphan that would lie below that orphan ends Load with ErrCycle,
// as it does Insert.
//
// New siblings have the order of the entries, after existing siblings. Nested sets are numbered in one last
// transaction. Until then the new nodes are not in the range of any node, and a Delete with Cascade above
// them leaves them as orphans.
//
// Cost: for each batch at most 5 round trips (lock, existing nodes, insert, counts or children of parents, commit);
// each entry is written once.
//   - OrderField: 1 more.
//   - NestedSets: 2 more for the last number, and then 4 for the numbers.
func (t *Tree[ID, T]) Load(ctx context.Context, entries iter.Seq2[Entry[ID, T], error], pos Position[ID],
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "tree.Load")
	defer fault.In(&err, "tree.Load")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	defer maintain.Unstored(&err, &result)
	w, err := maintain.CompletedItems(work, defaultBatch, false)
	if err := cmp.Or(err, pos.err); err != nil {
		return result, err
	}
	if pos.position.besideSibling() || pos.position.first {
		return result, fault.Invalid("Load takes AsRoot or Under")
	}
	if entries == nil {
		return result, nil
	}
	for batch, err := range cursor.Batches(t.encoded(entries, pos.position.anchorID), w.BatchSize, w.BatchBytes) {
		if err != nil {
			return result, err
		}
		if err := maintain.InHalves(ctx, t.c.coll.Name(), batch, w.Strict, &result, t.c.load); err != nil {
			return result, err
		}
		w.Progress(result)
	}
	if t.c.numbers == nil || result.Done+result.Skipped == 0 {
		return result, nil
	}
	_, err = t.c.numbers.renumber(ctx, t.c.withLock, false)
	return result, err
}

// load stores a batch in as many transactions as it needs: see loadBatch.
func (c *core) load(ctx context.Context, batch []bson.Raw, done *mongopatterns.Result) error {
	for len(batch) > 0 {
		var inserted, taken int
		err := c.withLock(ctx, func(ctx context.Context) (err error) {
			inserted, taken, err = c.loadBatch(ctx, batch)
			return err
		})
		if err != nil {
			if !txn.Running(ctx) && fault.MayHaveWritten(err) {
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

// encoded yields entries as documents {_id, doc, parent}, with above as the parent of those that name none.
// Batches are cut by the size of documents, and a document that the server refuses is reported by its _id.
func (t *Tree[ID, T]) encoded(entries iter.Seq2[Entry[ID, T], error], above bson.RawValue) iter.Seq2[bson.Raw, error] {
	return func(yield func(bson.Raw, error) bool) {
		for e, err := range entries {
			var entry bson.Raw
			if err == nil {
				entry, err = t.encode(e, above)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// encode is encoded for one entry.
func (t *Tree[ID, T]) encode(e Entry[ID, T], above bson.RawValue) (bson.Raw, error) {
	d, _, err := t.prepare(e.Value)
	if err != nil {
		return nil, err
	}
	parent := above
	if above.Type == 0 {
		parent = value.Null
	}
	if e.Parent != nil {
		if parent, err = t.c.id(*e.Parent); err != nil {
			return nil, err
		}
	}
	return codec.Codec{}.Document(expr.D("_id", d.id, "doc", d.doc, "parent", parent))
}

// item is a document of a batch that is not stored yet.
type item struct {
	doc      bson.D
	id       bson.RawValue
	parentID bson.RawValue   // null for a root
	parent   *node           // nil for a root; without raw if the parent is in the same batch
	node     node            // the document as its children see it
	children []bson.RawValue // IDs of its children in the same batch
}

// items are the first entries of a batch that one transaction can hold with their derived fields.
type items struct {
	new     []*item          // without those that exist
	parents map[string]*node // those of the new ones that exist, by the key of the ID
	taken   int              // entries of the batch, the existing ones too
}

// loadBatch inserts the new items of a batch. It holds the lock, so parents cannot move or be deleted. They are
// written only for the list or count of children, or because insertions choose an order without the lock.
func (c *core) loadBatch(ctx context.Context, batch []bson.Raw) (inserted, taken int, err error) {
	these, err := c.itemsOf(ctx, batch)
	if err != nil || len(these.new) == 0 {
		return 0, these.taken, err
	}
	if err := c.shape.arrange(ctx, these.new); err != nil {
		return 0, these.taken, err
	}
	docs := make([]bson.D, len(these.new))
	children := map[string][]bson.RawValue{}
	for i, it := range these.new {
		docs[i] = c.withChildCount(it)
		children[key(it.parentID)] = append(children[key(it.parentID)], it.id)
	}
	if _, err := fault.Many(c.primary.InsertMany(ctx, docs)); err != nil {
		return 0, these.taken, err
	}
	var models []mongo.WriteModel
	for k, p := range these.parents {
		if change := c.addChildren(children[k]); len(change) > 0 {
			models = append(models, update(c.idMatch(p.id), change))
		} else {
			models = append(models, c.holdWritesForOrder(p)...)
		}
	}
	return len(docs), these.taken, c.write(ctx, models...)
}

// withChildCount is the document of an item with the number of its children in the batch.
func (c *core) withChildCount(it *item) bson.D {
	for i, e := range it.doc {
		if e.Key == c.o.ChildCountField {
			it.doc[i].Value = int64(len(it.children))
		}
	}
	return it.doc
}

// itemsOf makes items of a batch. It stops before the batch ends if the derived fields become too large, as they do far
// below a root.
func (c *core) itemsOf(ctx context.Context, batch []bson.Raw) (these items, err error) {
	stored, err := c.stored(ctx, batch)
	if err != nil {
		return these, err
	}
	these.parents = map[string]*node{}
	own, derived := map[string]*item{}, 0
	for i, entry := range batch {
		it := &item{id: entry.Lookup("_id"), parentID: entry.Lookup("parent")}
		k, p := key(it.id), key(it.parentID)
		if stored[k] != nil || own[k] != nil {
			continue
		}
		switch {
		case stored[p] != nil:
			it.parent = stored[p]
		case own[p] != nil:
			it.parent = &own[p].node
		case !isNull(it.parentID):
			return these, c.about(it.id, fmt.Errorf("%w: %s", mongopatterns.ErrNoParent, text(it.parentID)))
		}
		if err := c.checkSameIDType(it.id, it.parent); err != nil {
			return these, err
		}
		derived += sizeOf(c.fieldsOf(it.parent, nil))
		if derived > writesMax && len(these.new) > 0 {
			these.taken = i
			return these, nil
		}
		if stored[p] != nil { // it gets its child by a write, and one of this batch in its own document
			these.parents[p] = stored[p]
		} else if own[p] != nil {
			own[p].children = append(own[p].children, it.id)
		}
		c.fill(it, entry.Lookup("doc").Document())
		own[k] = it
		these.new = append(these.new, it)
	}
	these.taken = len(batch)
	return these, nil
}

// stored reads the nodes of a batch that exist, and those of their parents that do, by the key of the ID.
func (c *core) stored(ctx context.Context, batch []bson.Raw) (map[string]*node, error) {
	var ids []bson.RawValue
	for _, entry := range batch {
		ids = append(ids, entry.Lookup("_id"))
		if parent := entry.Lookup("parent"); !isNull(parent) {
			ids = append(ids, parent)
		}
	}
	nodes, err := c.findAll(ctx, c.idsMatch(ids))
	if err != nil {
		return nil, err
	}
	stored := make(map[string]*node, len(nodes))
	for i := range nodes {
		stored[key(nodes[i].id)] = &nodes[i]
	}
	return stored, nil
}

// fill sets the document of an item, and the node that its children see.
func (c *core) fill(it *item, doc bson.Raw) {
	it.node = *c.nodeUnder(it.id, c.field(doc, c.o.SegmentField), it.parent)
	all, _ := doc.Elements()
	for _, e := range all {
		it.doc = append(it.doc, expr.Element(e.Key(), e.Value()))
	}
}

// sizeOf estimates the size in bytes of derived fields.
func sizeOf(fields bson.D) (n int) {
	for _, e := range fields {
		switch v := e.Value.(type) {
		case string:
			n += len(v)
		case bson.RawValue: // the array of ancestors, or the parent
			n += len(v.Value)
		}
	}
	return n
}
