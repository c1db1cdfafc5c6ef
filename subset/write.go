package subset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Insert stores an item in the collection of items and, if it is one of the best N, in its parent,
// and updates the parent's count and aggregates, all or nothing. It returns the item's _id, an
// ObjectID if the item had none. It sets Options.ParentField, whatever the item holds there.
//
// It returns ErrNoParent if the parent does not exist, ErrNotAdopted if the parent would have to be
// adopted and cannot be, ErrMalformed if Options.ArrayField holds something else than an array, and
// ErrExists if the _id exists, as when a stored item is inserted again. It returns ErrInvalid if
// the item cannot be ranked or counted, or if it has a field whose name begins with $ (which no
// update operator could change), an empty timestamp (which the server would replace), or more than
// 178 levels of documents and arrays (which its parent could not keep). All five are errors of
// package mongopatterns.
//
// Cost: 3 round trips, 2 documents written, index _id of both, 1 key for the parent and for each item pushed out.
//   - The first item of a parent: 1 more.
//   - A parent that holds fewer than it should, after N was raised: 3 more, and 2 writes to each item that it gets.
//   - A sum that is computed from all items: 2 more.
//   - A parent that is to be adopted: 8 or 9 more, and 1 write for each item in its array.
func (s *Subset[ID, T]) Insert(ctx context.Context, parent ID, item T) (id any, err error) {
	ctx = comment.Call(ctx, "subset.Insert")
	defer fault.In(&err, "subset.Insert")
	c := s.core
	p, it, err := c.encodeNew(parent, item)
	if err != nil {
		return nil, err
	}
	err = c.adopting(ctx, p, func(ctx context.Context) error { return c.add(ctx, p, it) })
	if err != nil {
		return nil, fault.Taken("_id", it.id, err)
	}
	return codec.DecodeValue[any](c.codec, it.id)
}

func (c *core) run(ctx context.Context, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, c.items, fn)
}

func (c *core) add(ctx context.Context, parent bson.RawValue, it item) error {
	if c.filter.matches(it.doc) {
		return c.change(ctx, change{parent: parent, in: []item{it}}, true)
	}
	// Without this write the parent could be deleted meanwhile.
	switch found, err := c.twice(ctx, parent, expr.ByID(parent), hold.Mark); {
	case err != nil:
		return err
	case !found:
		return c.missed(ctx, parent, mongo.ErrNoDocuments)
	}
	_, err := fault.One(c.items.InsertOne(ctx, it.doc))
	return err
}

// insert stores an item, and returns those of the items pushed out of the parent's array that
// the collection lacks. Checking them costs no round trip: the same command updates them without
// changing anything, and inserts the item as an upsert whose filter matches no document.
func (c *core) insert(ctx context.Context, parent bson.RawValue, it item, pushedOut []element) (unstored []element, err error) {
	if len(pushedOut) == 0 {
		_, err := fault.One(c.items.InsertOne(ctx, it.doc))
		return nil, err
	}
	var models []mongo.WriteModel
	for _, h := range pushedOut {
		if value.CheckID(h.id()) == nil {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.one(parent, h.id())).
				SetUpdate(expr.D("$setOnInsert", expr.D(hold.Field, true))))
		}
	}
	none := append(c.one(parent, it.id), expr.Element("$nor", bson.A{bson.D{}}))
	models = append(models, mongo.NewReplaceOneModel().SetFilter(none).SetReplacement(it.doc).SetUpsert(true))
	result, err := fault.Many(c.items.BulkWrite(ctx, models))
	if err != nil || result.MatchedCount == int64(len(pushedOut)) {
		return nil, err
	}
	return c.unstored(ctx, pushedOut)
}

// change applies a change of at most one item each, and stores the item that comes if it is
// new. If the change drops an item that is stored nowhere else, or the collection has items of
// the parent that were never counted, it adopts the parent. After errUnadopted the parent is
// unchanged.
func (c *core) change(ctx context.Context, ch change, fresh bool) error {
	p, err := c.apply(ctx, ch)
	if err != nil {
		return err
	}
	var unstored []element
	if fresh {
		unstored, err = c.insertBeside(ctx, ch, p.pushedOut)
	} else {
		unstored, err = c.unstored(ctx, p.pushedOut)
	}
	switch {
	case err != nil:
		return err
	case len(unstored) > 0:
		err = c.adopt(ctx, bson.A{ch.parent}, p.pushedOut)
	case !p.counted(): // its first item has come
		alone, looked := c.alone(ctx, bson.A{ch.parent}, bson.A{ch.in[0].id})
		if looked != nil {
			return looked
		}
		if !alone {
			err = c.recount(ctx, ch.parent)
		}
	default:
		err = c.refill(ctx, ch, p)
	}
	if err != nil || !p.anew {
		return err
	}
	return c.addUp(ctx, bson.A{ch.parent})
}

// insertBeside stores the item that comes, and returns those pushed out that are stored nowhere. It refuses an item whose
// _id one of these has, because the insertion would hide that.
func (c *core) insertBeside(ctx context.Context, ch change, pushedOut []element) (unstored []element, err error) {
	fresh := ch.in[0]
	twin := slices.IndexFunc(pushedOut, func(e element) bool { return value.Same(e.id(), fresh.id) })
	if twin >= 0 {
		unstored, err = c.unstored(ctx, pushedOut[twin:twin+1])
		if err != nil {
			return nil, err
		}
		if len(unstored) > 0 {
			return nil, fault.Of(ch.parent, fmt.Errorf("%w: its array has another item with the same _id as the new one, %s", mongopatterns.ErrNotAdopted, value.Text(fresh.id)))
		}
	}
	return c.insert(ctx, ch.parent, fresh, pushedOut)
}

// adopting runs a write of one parent in a transaction. If the write returns errUnadopted, and so
// has changed nothing, adopting adopts the parent and runs the write again.
func (c *core) adopting(ctx context.Context, parent bson.RawValue, write func(ctx context.Context) error) error {
	return txn.RunInTurn(ctx, c.parents, parent, func(ctx context.Context) error {
		err := write(ctx)
		if errors.Is(err, errUnadopted) {
			if err := c.adopt(ctx, bson.A{parent}, nil); err != nil {
				return err
			}
			return write(ctx)
		}
		return err
	})
}

// follow ignores that the parent of a changed item does not exist: then nothing has to be
// brought up to date.
func follow(err error) error {
	if errors.Is(err, mongopatterns.ErrNoParent) {
		return nil
	}
	return err
}

// Bounds of a batch of InsertMany, which is one transaction.
const (
	batchItems = 1000
	batchBytes = 6 << 20
)

// InsertMany stores items of any parents in batches, each in a transaction. A batch has at most
// Work.BatchSize items (1000 by default and at most) and Work.BatchBytes (6 MiB by default and at
// most). There is no DryRun. A nil sequence has no items.
//
// After an error the batches before it stay stored, which are the first Done items of the sequence.
// If the commit of the next batch was not answered, its items are Unknown, which means that all of
// them are stored or none. No others are stored. The error names a parent that does not exist, or
// the position in the sequence, from 0, of an item that cannot be stored. If items have _ids of
// their own, send Unknown ones again as a batch; a duplicate key then says that all of them are
// stored.
//
// Cost: 4 round trips for each batch, 1 write for each item and each parent in it.
//   - If items are pushed out of full parents: 1 more.
//   - If parents have no count yet: 1 more.
//   - If sums are computed from all items: 4 more.
//   - For each parent that holds fewer than it should, after N was raised: 3 more.
//   - If parents are to be adopted: 8 more, and 1 write for each item in their arrays.
func (s *Subset[ID, T]) InsertMany(ctx context.Context, items iter.Seq2[ID, T], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "subset.InsertMany")
	defer fault.In(&err, "subset.InsertMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	w, err := maintain.CompletedItems(work, batchItems, false)
	if err != nil || items == nil {
		return result, err
	}
	mostItems, mostBytes := min(w.BatchSize, batchItems), min(w.BatchBytes, batchBytes)
	c := s.core
	var pending batch
	flush := func() error {
		sent, n := false, int64(len(pending.docs))
		if n == 0 {
			return nil
		}
		err := c.run(ctx, func(ctx context.Context) error {
			err := c.store(ctx, pending)
			sent = err == nil
			return err
		})
		if err == nil {
			result.Done += n
			w.Progress(result)
		} else if sent && !txn.Running(ctx) { // its commit was sent
			result.Unknown += n
		}
		pending = batch{}
		return err
	}
	for parent, v := range items {
		p, it, err := c.encodeNew(parent, v)
		if err != nil {
			return result, fmt.Errorf("item %d: %w", result.Examined, err)
		}
		if len(pending.docs) == mostItems || len(pending.docs) > 0 && pending.bytes+len(it.doc) > mostBytes {
			if err := flush(); err != nil {
				return result, err
			}
		}
		result.Examined++
		pending.add(p, it, c.filter.matches(it.doc))
	}
	return result, flush()
}

// A batch is items grouped by parent.
type batch struct {
	changes []change
	place   map[string]int // index of a parent's change
	docs    []bson.Raw
	bytes   int
}

func (b *batch) add(parent bson.RawValue, it item, counts bool) {
	if b.place == nil {
		b.place = map[string]int{}
	}
	i, ok := b.place[value.Key(parent)]
	if !ok {
		i = len(b.changes)
		b.place[value.Key(parent)] = i
		b.changes = append(b.changes, change{parent: parent})
	}
	if counts {
		b.changes[i].in = append(b.changes[i].in, it)
	}
	b.docs = append(b.docs, it.doc)
	b.bytes += len(it.doc)
}

// store writes a batch. It reads the parents first, because a bulk write does not return the
// documents it has found.
func (c *core) store(ctx context.Context, b batch) error {
	parents, err := c.look(ctx, b)
	if err != nil {
		return err
	}
	unadopted, err := c.unadopted(ctx, b, parents)
	if err != nil {
		return err
	}
	if len(unadopted) > 0 {
		if err := c.adopt(ctx, unadopted, nil); err != nil {
			return err
		}
		if parents, err = c.look(ctx, b); err != nil {
			return err
		}
	}
	var models []mongo.WriteModel
	for _, ch := range b.changes {
		filter := expr.ByID(ch.parent)
		if len(ch.in) == 0 {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(hold.Mark),
				mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(hold.Unmark))
			continue
		}
		models = append(models, mongo.NewUpdateOneModel().SetFilter(c.guarded(filter, c.sound(ch)...)).SetUpdate(c.update(ch)))
	}
	result, err := fault.Many(c.parents.BulkWrite(ctx, models))
	if err != nil {
		return err
	}
	var unsound bson.A
	if result.MatchedCount < int64(len(models)) {
		if unsound, err = c.writeRest(ctx, b, parents); err != nil {
			return err
		}
	}
	if _, err := fault.Many(c.items.InsertMany(ctx, b.docs)); err != nil {
		if refused := (mongo.BulkWriteException{}); errors.As(err, &refused) && len(refused.WriteErrors) > 0 {
			err = fault.Taken("_id", b.docs[refused.WriteErrors[0].Index].Lookup("_id"), err)
		}
		return err
	}
	for i, ch := range b.changes {
		if count, _ := parents[i].count.AsInt64OK(); len(ch.in) == 0 || parents[i].size >= min(c.o.N, int(count)) {
			continue
		}
		// It holds fewer than it should; the bulk write has increased its count.
		now := expr.D("count", expr.Field(c.o.CountField), "array", expr.D("size", c.x.size))
		doc, err := c.parents.FindOne(ctx, expr.ByID(ch.parent), options.FindOne().SetProjection(now)).Raw()
		if err != nil {
			return err
		}
		if err := c.refill(ctx, change{parent: ch.parent}, parentOf(ch.parent, doc)); err != nil {
			return err
		}
	}
	return c.addUp(ctx, unsound)
}

// writeRest writes the parents of a batch whose sums cannot be kept, so that the batch has not written them, and returns
// them. The count of the others has changed. A count that adding does not change, such as NaN, is ErrMalformed: it does
// not tell.
func (c *core) writeRest(ctx context.Context, b batch, before []parent) (rest bson.A, err error) {
	var models []mongo.WriteModel
	now, err := c.look(ctx, b)
	if err != nil {
		return nil, err
	}
	for i, ch := range b.changes {
		if len(ch.in) > 0 && now[i].count.Equal(before[i].count) {
			if now[i].stuck() {
				return nil, fault.Of(ch.parent, fmt.Errorf("%w: %q is %s: Repair counts the items", mongopatterns.ErrMalformed, c.o.CountField, value.Text(now[i].count)))
			}
			rest = append(rest, ch.parent)
			unsound := expr.Op("$not", bson.A{expr.Op("$and", c.sound(ch)...)})
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.guarded(expr.ByID(ch.parent), unsound)).SetUpdate(c.update(ch)))
		}
	}
	if len(rest) == 0 {
		return nil, txn.Conflict("parents of the items")
	}
	result, err := fault.Many(c.parents.BulkWrite(ctx, models))
	if err != nil {
		return nil, err
	}
	if result.MatchedCount < int64(len(rest)) {
		return nil, txn.Conflict("parents of the items")
	}
	return rest, nil
}

// unadopted returns the parents of a batch that have to be adopted: their items were never
// counted, or would be pushed out while the collection lacks them.
func (c *core) unadopted(ctx context.Context, b batch, parents []parent) (out bson.A, err error) {
	var first bson.A
	var pushedOut []element
	for i, ch := range b.changes {
		p := parents[i]
		switch {
		case len(ch.in) == 0:
			continue
		case p.empty():
			first = append(first, ch.parent)
		case !p.counted():
			out = append(out, ch.parent)
		default:
			pushedOut = append(pushedOut, p.pushedOut...)
		}
	}
	if alone, err := c.alone(ctx, first, bson.A{}); err != nil {
		return nil, err
	} else if !alone {
		out = append(out, first...)
	}
	unstored, err := c.unstored(ctx, pushedOut)
	for i, h := range unstored {
		if i == 0 || !h.parent.Equal(unstored[i-1].parent) {
			out = append(out, h.parent)
		}
	}
	return out, err
}

// look reads from the parents of a batch what apply answers for one. Its pushedOut are all elements
// that the new items could push out.
func (c *core) look(ctx context.Context, b batch) ([]parent, error) {
	these, more := make(bson.A, len(b.changes)), make(bson.A, len(b.changes))
	for i, ch := range b.changes {
		these[i], more[i] = ch.parent, len(ch.in)
	}
	coming := expr.Op("$arrayElemAt", expr.Literal(more), expr.Op("$indexOfArray", expr.Literal(these), "$_id"))
	over := expr.Op("$subtract", expr.Op("$add", c.x.size, coming), c.o.N)
	// A single item is inserted at its position, several are sorted; so the items pushed out differ.
	best := expr.Cond(expr.Op("$gt", coming, 1), c.sorted(c.x.array), c.x.array)
	last := expr.Op("$slice", best, expr.Op("$subtract", 0, over))
	projection := expr.D("count", expr.Field(c.o.CountField), "array", expr.D("size", c.x.size,
		"pushedOut", expr.Map(expr.Cond(expr.Op("$gt", over, 0), last, bson.A{}), "item", expr.D("_id", "$$item._id"))))
	out, found := make([]parent, len(b.changes)), make([]bool, len(b.changes))
	filter := c.guarded(expr.D("_id", expr.Op("$in", these)))
	for doc, err := range cursor.Find(ctx, c.parents, filter, options.Find().SetProjection(projection).SetBatchSize(batchItems+1)) {
		if err != nil {
			return nil, fault.Arrays(err)
		}
		id := doc.Lookup("_id")
		if i, ok := b.place[value.Key(id)]; ok {
			out[i], found[i] = parentOf(id, doc), true
		}
	}
	if i := slices.Index(found, false); i >= 0 {
		return nil, c.missed(ctx, b.changes[i].parent, mongo.ErrNoDocuments)
	}
	return out, nil
}

// Update changes the parent's item with this _id by an update document or pipeline. It also updates
// the kept copy, its rank and the aggregates in the parent. $set may name a whole item if its _id
// and parent are those stored. The server refuses an _id of another type, such as 1.0 for 1. If the
// item drops out of the best N, the next one takes its place. The item is changed even if its
// parent does not exist.
//
// It returns mongopatterns.ErrNotFound if the parent has no such item. It returns
// mongopatterns.ErrInvalid if the item could not be ranked or counted afterwards, or if the update
// changes its parent. To move an item, delete it and insert it at the other parent in one
// transaction.
//
// Cost: 4 round trips, 2 documents written; for an item that is not kept 1 write more.
//   - Nothing that the parent keeps or adds up changes: 3, and 1 document.
//   - A changed rank: 1 more. Leaving the best N: 3 more, as Delete.
//   - It begins or ends to count: as Insert or Delete, and 1 more.
//   - A sum that is computed from all items: 2 or 3 more.
//   - A parent that is to be adopted: 8 to 12 more, and 1 write for each item in its array.
//   - An item that is not there: 2 round trips.
func (s *Subset[ID, T]) Update(ctx context.Context, parent ID, id, update any) (err error) {
	ctx = comment.Call(ctx, "subset.Update")
	defer fault.In(&err, "subset.Update")
	if err := codec.CheckUpdate("update", update); err != nil {
		return err
	}
	c := s.core
	p, raw, err := c.ids(parent, id)
	if err != nil {
		return err
	}
	return c.adopting(ctx, p, func(ctx context.Context) error {
		var before, after bson.Raw
		if err := fault.Single(c.items.FindOneAndUpdate(ctx, c.one(p, raw), update)).Decode(&before); err != nil {
			return c.absent(ctx, p, raw, err)
		}
		err := c.items.FindOne(ctx, c.one(p, raw)).Decode(&after)
		if errors.Is(err, mongo.ErrNoDocuments) || value.Lookup(after, c.o.ParentField).Type == bson.TypeArray { // which p may be in
			return fault.Of(raw, fault.Invalid("the update changes %q: delete the item and insert it for its new parent", c.o.ParentField))
		}
		if err != nil {
			return err
		}
		it := c.item(after)
		if err := c.valid(it); err != nil {
			return err
		}
		err = c.edited(ctx, p, c.item(before), it)
		if errors.Is(err, errUnadopted) {
			if _, back := fault.One(c.items.ReplaceOne(ctx, c.one(p, raw), before)); back != nil {
				return back
			}
		}
		return follow(err)
	})
}

// absent replaces ErrNoDocuments, if that is the error, by the reason: errUnadopted for a parent
// with the item in its array only, else ErrNotFound.
func (c *core) absent(ctx context.Context, parent, id bson.RawValue, err error) error {
	if !errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, err)
	}
	holds := append(expr.ByID(parent), expr.Element(c.o.ArrayField+"._id", value.Equal(id)))
	unadopted, err := maintain.Holds(ctx, c.parents, holds)
	switch {
	case err != nil:
		return err
	case unadopted:
		return fault.Of(parent, errUnadopted)
	}
	return fault.Of(id, mongopatterns.ErrNotFound)
}

// edited brings the parent up to date with an item that has changed in the same transaction. If
// nothing changes that the parent keeps, it does not write the parent: a refill at the same time
// copies the same before and after.
func (c *core) edited(ctx context.Context, parent bson.RawValue, before, after item) error {
	ch := change{parent: parent}
	if c.filter.matches(before.doc) {
		ch.out = []item{before}
	}
	if c.filter.matches(after.doc) {
		ch.in = []item{after}
	}
	differs := func(path string) bool { return !value.Lookup(before.doc, path).Equal(value.Lookup(after.doc, path)) }
	if ch.edits() {
		summed := slices.ContainsFunc(c.o.Values, func(v Value) bool { return differs(v.Field) })
		if bytes.Equal(before.kept, after.kept) && !summed {
			return nil
		}
		ch.inPlace = !slices.ContainsFunc(c.o.Sort, func(e bson.E) bool { return differs(e.Key) })
	} else if len(ch.in)+len(ch.out) == 0 {
		return nil
	}
	if ch.inPlace {
		filter := append(c.guarded(expr.ByID(parent), c.sound(ch)...), expr.Element(c.o.CountField, expr.D("$type", "number")))
		if found, err := c.twice(ctx, parent, filter, c.update(ch)); found || err != nil {
			return err
		}
		ch.inPlace = false
	}
	return c.change(ctx, ch, false)
}

// Delete deletes the parent's item with this _id and removes it from the parent, where the next
// item takes its place in the best N. It returns mongopatterns.ErrNotFound if the parent has no
// such item, as when a Delete that succeeded is repeated, or when id does not have the type of the
// stored _id (a string of hex digits is no ObjectID). The item is deleted even if its parent does
// not exist.
//
// Cost: 3 round trips, 2 documents written.
//   - The next one follows: 6 and 5, two of these to it; it alone is read, by the index {parent, order…}, where the
//     server passes over N-1 others.
//   - A sum that is computed from all items: 2 more.
//   - A parent that is to be adopted, and an item that is not there: as Update.
func (s *Subset[ID, T]) Delete(ctx context.Context, parent ID, id any) (err error) {
	ctx = comment.Call(ctx, "subset.Delete")
	defer fault.In(&err, "subset.Delete")
	c := s.core
	p, raw, err := c.ids(parent, id)
	if err != nil {
		return err
	}
	return c.adopting(ctx, p, func(ctx context.Context) error {
		var before bson.Raw
		if err := fault.Single(c.items.FindOneAndDelete(ctx, c.one(p, raw))).Decode(&before); err != nil {
			return c.absent(ctx, p, raw, err)
		}
		if !c.filter.matches(before) {
			return nil
		}
		err := c.change(ctx, change{parent: p, out: []item{c.item(before)}}, false)
		if errors.Is(err, errUnadopted) {
			if _, back := fault.One(c.items.InsertOne(ctx, before)); back != nil {
				return back
			}
		}
		return follow(err)
	})
}

// DeleteParent deletes a parent and all its items, also those that Options.Filter leaves out, and
// returns the number of items. It returns ErrNoParent if the parent does not exist, as when the
// call is repeated. It is one transaction, so if a parent has tens of thousands of items, delete
// most of them beforehand.
//
// Cost: 3 round trips; 1 write for the parent and each item; items by the index
// {parent, order…}.
func (s *Subset[ID, T]) DeleteParent(ctx context.Context, parent ID) (items int64, err error) {
	ctx = comment.Call(ctx, "subset.DeleteParent")
	defer fault.In(&err, "subset.DeleteParent")
	c := s.core
	p, err := c.codec.ID("parent", parent)
	if err != nil {
		return 0, err
	}
	err = txn.RunInTurn(ctx, c.parents, p, func(ctx context.Context) error {
		done, err := fault.One(c.parents.DeleteOne(ctx, expr.ByID(p)))
		if err != nil {
			return err
		}
		if done.DeletedCount == 0 {
			return fault.Of(p, mongopatterns.ErrNoParent)
		}
		if done, err = fault.Many(c.items.DeleteMany(ctx, expr.Is(c.o.ParentField, p))); err != nil {
			return err
		}
		items = done.DeletedCount
		return nil
	})
	return items, err
}
