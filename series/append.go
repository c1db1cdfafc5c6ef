package series

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Append adds one measurement as a block of its own, which takes about seventy bytes. If several
// measurements come together, use AppendMany. If they come one after another, use a [Gatherer].
//
// Cost: that of AppendMany.
func (s *Series[ID, M]) Append(ctx context.Context, series ID, m M) (err error) {
	ctx = comment.Call(ctx, "series.Append")
	defer fault.In(&err, "series.Append")
	one := &batch{core: s.core}
	if err := one.Add(series, &m); err != nil {
		return err
	}
	_, err = one.Store(ctx)
	return err
}

// AppendMany adds measurements of any series in any order, however late they come. It takes Work.BatchSize
// of them at a time (10,000 by default, at most Work.BatchBytes), groups them by document, packs each group
// into a block and sends one unordered bulk write. A nil items adds nothing.
//
// The Result tells the outcomes apart, even after an error. Done measurements are stored. Skipped ones were stored before
// (Options.BatchField). Failed ones were refused, and AppendMany returns an error at its end. Unknown ones, at most one
// batch, got no answer. Measurements that the Result does not count were not stored. A measurement that is not valid ends
// the call, after those before it are stored, with an ErrInvalid that names its index.
//
// With BatchField the same items can be given again with the same Work, because a block of the same
// measurements in the same order is not stored again. This holds for at least ten minutes, after which
// Compact, Replace or Delete removes the ID of the block, and Archive takes it away. Without BatchField give only what is not stored.
// Unknown measurements may then be stored twice.
//
// Cost: 1 round trip for each batch, and 1 document written for each document in it, index _id.
//   - A batch that meets full documents or known blocks: 2 more for as often as that happens; the first batch of a
//     process on a sharded collection: 2 more, as the server then asks for the shard key.
//   - In a transaction: 2 round trips for each batch.
func (s *Series[ID, M]) AppendMany(ctx context.Context, items iter.Seq2[ID, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.AppendMany")
	defer fault.In(&err, "series.AppendMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.frame.Many(ctx, windows.Untyped(items, func(m M) any { return &m }), work, s.core.begin)
}

// A batch holds measurements until they are stored. Add makes each a row in a table of its group, which has the
// measurements of one place, that is of one window of a series. Store packs each table into a block. Then save chooses
// a document for each block and sends them all, and again those whose document was full.
type batch struct {
	core   *core
	groups windows.Groups[waiting]
	blocks []*block // of all places, once they are packed
}

type group = windows.Group[waiting]

// waiting has the measurements that wait to be stored in a window's documents.
type waiting struct {
	tables []*pack.Table
	bytes  int // of the last table
}

func (c *core) begin() windows.Batch { return &batch{core: c} }

func (b *batch) Size() (count, bytes int) { return b.groups.Count, b.groups.Bytes }

// Add puts a measurement into the table of its window. pointer is a *M, because a struct with a shape is read in place.
func (b *batch) Add(series, pointer any) error {
	v := reflect.ValueOf(pointer).Elem()
	if b.core.shape != nil {
		return b.addStruct(series, v)
	}
	m := v.Interface()
	if err := b.core.checkUnencoded(m); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	doc, err := b.core.frame.Codec.Document(m)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	return b.addDocument(series, doc)
}

// Store packs the batch and stores the blocks. A transaction that is run again calls it again; it then sends all blocks anew.
//
// Cost: that of a batch of AppendMany.
func (b *batch) Store(ctx context.Context) (mongopatterns.Result, error) {
	return b.core.save(ctx, b.packedBlocks())
}
