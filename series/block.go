package series

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// A block is a packed table on its way to a document.
type block struct {
	place  windows.Place
	rows   int
	bytes  int      // packed
	id     int64    // of its content
	fullAt int      // a document with so many measurements is full for the block: see room
	update bson.Raw // pushes the block and updates the sums
	markAt int      // where the mark of a new document is in update

	// The document that the block goes to, as guessDocuments or lookUpDocuments has chosen it.
	seq       int64 // its number in the window
	reserved  bool  // this process may add the block without a check that it is not full: see room
	fullBelow int64 // documents with a lower number are full

	stored  bool
	refused error // by the server, or for a document of its window: the block would be refused again
}

// packedBlocks packs the batch once, for all attempts to store it.
func (b *batch) packedBlocks() []*block {
	for _, g := range b.groups.All {
		for _, t := range g.Content.tables {
			b.blocks = append(b.blocks, b.core.newBlock(g.Place, t))
		}
		g.Content.tables = nil
	}
	return b.blocks
}

// newBlock packs a table and builds its update.
func (c *core) newBlock(p windows.Place, t *pack.Table) *block {
	data, derived := t.Encode(p.Key), c.derived(t)
	hash := sha256.Sum256(data)
	out := &block{place: p, rows: len(t.Times), bytes: len(data), fullAt: c.fullAt(t), id: int64(binary.LittleEndian.Uint64(hash[:]))}
	update := codec.Build(256 + 64*len(derived) + len(data))
	c.push(update, data, out.id)
	c.addSums(update, len(data), derived)
	out.markAt = c.setOnInsert(update, p)
	out.update = update.Done()
	return out
}

// fullAt is after how many measurements like those of a table a document is full. That is MaxCount, or fewer if they have so
// many values that what the document holds would not fit in memory.
func (c *core) fullAt(t *pack.Table) int {
	fit := int64(largestDocument) * int64(len(t.Times)) / int64(t.Holds())
	return int(min(int64(c.opts.MaxCount), max(fit, 1)))
}

// push writes the operator that appends a block, and the ID by which it is recognized.
func (c *core) push(b *codec.Builder, data []byte, id int64) {
	b.Open("$push")
	b.Binary(c.opts.BlocksField, data)
	if c.opts.BatchField != "" {
		b.Open(c.opts.BatchField)
		b.Value("id", value.Int64(id))
		b.Date("at", time.Now().UnixMilli())
		b.Close()
	}
	b.Close()
}

// addSums writes the operators that add a block to the fields computed from the measurements.
func (c *core) addSums(b *codec.Builder, bytes int, all []derived) {
	add := func(op string) {
		for _, d := range all {
			if d.op == op && d.want.Type != 0 {
				b.Value(d.path, d.want)
			}
		}
	}
	b.Open("$inc")
	b.Int(c.opts.BytesField, int64(bytes))
	add("$inc")
	b.Close()
	b.Some("$min", func() { add("$min") })
	b.Some("$max", func() { add("$max") })
}

// setOnInsert writes the operator with the fields of a new document. It returns where the mark is to be set.
func (c *core) setOnInsert(b *codec.Builder, p windows.Place) (markAt int) {
	b.Open("$setOnInsert")
	b.Value(c.frame.SeriesField, p.Series)
	b.Date(c.frame.StartField, p.Start)
	if c.frame.EndField != "" {
		b.Date(c.frame.EndField, int64(c.frame.EndOf(p.End)))
	}
	markAt = b.Later(c.opts.MarkField)
	b.Close()
	return markAt
}

// withNewMark is the update with a new random mark, because a block that is sent again may create a second document, after
// the first was archived.
func (b *block) withNewMark() bson.Raw {
	binary.LittleEndian.PutUint64(b.update[b.markAt:], rand.Uint64())
	return b.update
}

// documentFor selects the document that a block goes to, if it is not full, is of the block's place, and does not hold the
// block yet. If _id suffices, the filter has no other condition, because the server then skips planning, which is a third of
// an append.
func (c *core) documentFor(b *block) bson.Raw {
	sharded := c.sharded.Load()
	filter := c.frame.SeqFilter(b.place, b.seq, sharded)
	compare := func(field, op string, n int64) {
		filter.Open(field)
		filter.Int(op, n)
		filter.Close()
	}
	if !b.reserved && !sharded { // a shard key is no array
		c.frame.AddPlaceNoArrays(filter, b.place)
	}
	if !b.reserved || c.opts.BatchField != "" {
		compare(c.opts.CountField, "$lt", int64(b.fullAt))
		compare(c.opts.BytesField, "$lt", int64(c.opts.MaxBytes))
	}
	if c.opts.BatchField != "" {
		compare(c.batchIDPath(), "$ne", b.id)
	}
	return filter.Done()
}
