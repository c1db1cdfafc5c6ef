package series

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// A document is full with MaxBytes or with MaxCount measurements, for large ones with fewer: see fullAt. The filter of a
// block's write checks this. What is not full takes the block, however large that is.
//
// A room is the document of a window to write to next, and how much this process may add to it without such a check. It gets
// a sixteenth of MaxCount and of MaxBytes when a check has passed. A large measurement takes more of the count, for example
// that of two if half of MaxCount fill the document.
type room struct {
	seq   int64
	count int64
	bytes int
}

// guessDocuments chooses the documents that blocks go to from what this process remembers of their windows, without a
// read. Other writers may have filled such a document, and then the server does not store the block.
func (c *core) guessDocuments(blocks []*block) {
	for _, b := range blocks {
		count := int64(b.rows) * int64(c.opts.MaxCount) / int64(b.fullAt)
		left := c.rooms.Change(b.place.Key, func(r room) room { return r.take(b, count) })
		b.seq, b.fullBelow = left.seq, left.seq
	}
}

// take reserves the room that a block needs, if there is so much, and returns what is left. count is what the block takes
// of MaxCount.
func (r room) take(b *block, count int64) room {
	b.reserved = r.count >= count && r.bytes >= b.bytes
	if b.reserved {
		r.count, r.bytes = r.count-count, r.bytes-b.bytes
	}
	return r
}

// rememberRoom reserves room in the document of a stored block, if the filter of the write checked that it was not full.
func (c *core) rememberRoom(b *block) {
	if b.reserved { // that took from an earlier room
		return
	}
	c.rooms.Change(b.place.Key, func(room) room {
		return room{b.seq, int64(c.opts.MaxCount) / 16, min(c.opts.MaxBytes/16, largestRoom)}
	})
}

// rememberFull notes that the document of a block takes no more, although its count and its bytes do not say so. It does that in
// a transaction too, because the document stays full if that is undone, and the next attempt must not choose it again.
func (c *core) rememberFull(b *block) {
	b.fullBelow = b.seq + 1
	c.rooms.Change(b.place.Key, func(r room) room {
		if r.seq > b.seq {
			return r
		}
		return room{seq: b.fullBelow}
	})
}

// lookUpDocuments reads the windows of blocks, and chooses the newest document of each, or the one after it if that is
// full. It removes the blocks that their windows hold already, and refuses those of a window with a misplaced document. In
// a transaction such a document is an error.
//
// Cost: 1 round trip.
func (c *core) lookUpDocuments(ctx context.Context, blocks []*block, r *mongopatterns.Result) (left []*block, err error) {
	found, err := c.readWindows(ctx, blocks)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		w := found[b.place.Key]
		switch {
		case w.held[b.id]:
			r.Skipped += int64(b.rows)
			b.stored = true
		case w.misplaced != nil && txn.Running(ctx):
			return nil, w.misplaced
		case w.misplaced != nil:
			c.refuse(b, w.misplacedID, w.misplaced, r)
		default:
			b.choose(w)
			left = append(left, b)
		}
	}
	return left, nil
}

// choose sets the document that the block goes to. A document known from before may have been archived or deleted, and its
// number is not used again.
func (b *block) choose(w *windowState) {
	b.reserved = false
	b.seq = max(w.newest, b.fullBelow)
	if b.seq == w.newest && w.newestFull(b) {
		b.seq++
	}
}

// A windowState is what was read of a window.
type windowState struct {
	newest int64          // the number of its newest document, -1 without one
	count  int64          // of the measurements in that
	closed bool           // that has MaxBytes, or lacks a field that tells how full it is
	held   map[int64]bool // the blocks that the window holds, in any document

	misplacedID bson.RawValue // of a document that only its _id puts into the window
	misplaced   error         // names that document
}

// newestFull reports whether the newest document of a window is full for a block.
func (w *windowState) newestFull(b *block) bool { return w.closed || w.count >= int64(b.fullAt) }

// readWindows reads the windows of blocks.
//
// Cost: 1 round trip.
func (c *core) readWindows(ctx context.Context, blocks []*block) (map[string]*windowState, error) {
	found := map[string]*windowState{}
	var wanted, ids bson.A
	for _, b := range blocks {
		ids = append(ids, b.id)
		if found[b.place.Key] == nil {
			found[b.place.Key] = &windowState{newest: -1, held: map[int64]bool{}}
			wanted = append(wanted, c.frame.PlaceFilterFrom(b.place, b.fullBelow))
		}
		if c.opts.BatchField != "" {
			wanted = append(wanted, append(c.frame.PlaceFilter(b.place), expr.Element(c.batchIDPath(), b.id)))
		}
	}
	fields := append(c.frame.Keys(), expr.Element(c.opts.CountField, 1), expr.Element(c.opts.BytesField, 1))
	if c.opts.BatchField != "" {
		held := expr.Op("$setIntersection", expr.Map(expr.Array(expr.Field(c.opts.BatchField)), "b", expr.Var("b.id")), ids)
		fields = append(fields, expr.Element(c.opts.BatchField, held))
	}
	opts := options.Find().SetProjection(fields).SetBatchSize(int32(len(wanted) + 1))
	for doc, err := range cursor.Find(ctx, cursor.Primary(c.frame.Coll), expr.Op("$or", wanted), opts) {
		if err != nil {
			return nil, err
		}
		w := found[c.frame.KeyOf(doc)]
		if w == nil {
			id := doc.Lookup("_id")
			if w = found[c.frame.KeyOfID(id)]; w == nil {
				return nil, c.misplaced(id)
			}
			w.misplacedID, w.misplaced = id, c.misplaced(id)
		}
		c.note(w, doc)
	}
	return found, nil
}

// note takes a document of a window into account.
func (c *core) note(w *windowState, doc bson.Raw) {
	if held, ok := value.Lookup(doc, c.opts.BatchField).ArrayOK(); ok {
		ids, _ := held.Values()
		for _, id := range ids {
			w.held[id.AsInt64()] = true
		}
	}
	seq, ok := windows.SeqOf(doc)
	if !ok || seq <= w.newest {
		return
	}
	count, counted := value.Lookup(doc, c.opts.CountField).AsInt64OK()
	bytes, sized := value.Lookup(doc, c.opts.BytesField).AsInt64OK()
	w.newest, w.count, w.closed = seq, count, !counted || !sized || bytes >= int64(c.opts.MaxBytes)
}
