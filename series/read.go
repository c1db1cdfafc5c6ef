package series

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Range returns the measurements of series at or after from and before to in time order, wherever they are
// stored. Those of the same millisecond come document by document in the order in which they arrived. A
// zero time sets no limit. Memory holds one window. A damaged block ends it with ErrDamaged.
//
// Cost: 1 round trip, index {series, start}, no sort on the server; 1 key and 1 document for each document of the
// range.
//   - More than 101 documents or 16 MiB: 1 for each further batch.
func (s *Series[ID, M]) Range(ctx context.Context, series ID, from, to time.Time) iter.Seq2[M, error] {
	ctx = comment.Call(ctx, "series.Range")
	c := s.core
	return fault.Seq("series.Range", func(yield func(M, error) bool) {
		low, high := windows.Limits(from, to)
		for t, err := range c.tables(ctx, series, from, to) {
			var none M
			if err != nil {
				yield(none, err)
				return
			}
			first, end := t.Cut(low, high)
			all, err := decode[M](c, t, first, end)
			if err != nil {
				yield(none, err)
				return
			}
			for _, m := range all {
				if !yield(m, nil) {
					return
				}
			}
		}
	})
}

// Latest returns the measurement of series with the latest time, or ErrNotFound if the series is empty. It does not see
// what waits in a Gatherer.
//
// Cost: 1 round trip, index {series, start}, no sort on the server; 2 documents. A newest window of several
// documents: 1 more.
func (s *Series[ID, M]) Latest(ctx context.Context, series ID) (m M, err error) {
	ctx = comment.Call(ctx, "series.Latest")
	defer fault.In(&err, "series.Latest")
	c := s.core
	if _, err := c.frame.SeriesOf(series); err != nil {
		return m, err
	}
	start := c.frame.StartField
	filter := append(c.frame.RangeFilter(series, time.Time{}, time.Time{}), expr.Element(c.opts.CountField, expr.Op("$gt", 0)))
	docs, err := cursor.Collect(cursor.Find(ctx, c.frame.Coll, filter, options.Find().SetProjection(c.content()).
		SetSort(expr.D(start, -1)).SetLimit(2)))
	if err != nil {
		return m, err
	}
	if len(docs) == 0 {
		return m, mongopatterns.ErrNotFound
	}
	newest := docs[:1]
	if at := value.Lookup(docs[0], start); len(docs) == 2 && at.Equal(value.Lookup(docs[1], start)) {
		if newest, err = cursor.Collect(cursor.Find(ctx, c.frame.Coll, append(filter, expr.Element(start, at)),
			options.Find().SetProjection(c.content()))); err != nil {
			return m, err
		}
	}
	w, err := c.span(newest)
	if err != nil {
		return m, err
	}
	n := len(w.Times)
	if n == 0 {
		return m, mongopatterns.ErrNotFound
	}
	all, err := decode[M](c, w, n-1, n)
	if err != nil {
		return m, err
	}
	return all[0], nil
}

// Documents returns the measurements as plain documents, {series, timestamp, temperature, …}, the form that
// Adopt takes. Use it to leave this layout, or to give the data to other programs. It reads stored
// documents in the order of _id and yields the measurements of each in time order. work.Filter selects
// stored documents.
//
// Cost: 1 round trip for each batch, 100 documents by default; scans the collection by _id.
func (s *Series[ID, M]) Documents(ctx context.Context, work *mongopatterns.Work) iter.Seq2[bson.Raw, error] {
	ctx = comment.Call(ctx, "series.Documents")
	c := s.core
	return fault.Seq("series.Documents", func(yield func(bson.Raw, error) bool) {
		w, err := maintain.Completed(work, transfer.WholeBatch)
		if err != nil {
			yield(nil, err)
			return
		}
		for doc, err := range maintain.Docs(ctx, c.frame.Coll, w, maintain.Scan{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			t, err := c.load(doc)
			if err != nil {
				yield(nil, err)
				return
			}
			var before []byte
			if !slices.ContainsFunc(t.Cols, func(col *pack.Col) bool { return col.Name == c.frame.SeriesField }) {
				series := value.Lookup(doc, c.frame.SeriesField)
				before = append(append(append(before, byte(series.Type)), c.frame.SeriesField...), 0)
				before = append(before, series.Value...)
			}
			t.Sort()
			for _, m := range t.Documents(c.opts.TimeField, before, 0, len(t.Times)) {
				if !yield(slices.Clone(m), nil) {
					return
				}
			}
		}
	})
}

// decode converts rows to measurements.
func decode[M any](c *core, t *pack.Table, first, end int) ([]M, error) {
	out := make([]M, end-first)
	if c.shape != nil && c.shape.fill(t, first, len(out), unsafe.Pointer(unsafe.SliceData(out))) {
		return out, nil
	}
	clear(out)
	for row, doc := range t.Documents(c.opts.TimeField, nil, first, end) {
		if err := c.frame.Codec.Decode(slices.Clone(doc), &out[row-first]); err != nil {
			return nil, fmt.Errorf("time %s: %w", time.UnixMilli(t.Times[row]).UTC().Format(time.RFC3339Nano), err)
		}
	}
	return out, nil
}

// tables yields the measurements of a range in time order, a table for each window.
func (c *core) tables(ctx context.Context, series any, from, to time.Time) iter.Seq2[*pack.Table, error] {
	opts := options.Find().SetSort(expr.D(c.frame.StartField, 1)).SetProjection(c.content())
	return func(yield func(*pack.Table, error) bool) {
		if _, err := c.frame.SeriesOf(series); err != nil {
			yield(nil, err)
			return
		}
		var docs []bson.Raw
		flush := func() bool {
			if len(docs) == 0 {
				return true
			}
			w, err := c.span(docs)
			docs = nil
			more := yield(w, err)
			return more && err == nil
		}
		for doc, err := range cursor.Find(ctx, c.frame.Coll, c.frame.RangeFilter(series, from, to), opts) {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(docs) > 0 && !value.Lookup(docs[0], c.frame.StartField).Equal(value.Lookup(doc, c.frame.StartField)) && !flush() {
				return
			}
			docs = append(docs, doc)
		}
		flush()
	}
}

// content is the projection for reading measurements.
func (c *core) content() bson.D {
	return append(c.frame.Keys(), expr.Element(c.opts.BlocksField, 1))
}

// span merges the documents of a window, in time order.
func (c *core) span(docs []bson.Raw) (*pack.Table, error) {
	slices.SortStableFunc(docs, func(a, b bson.Raw) int { return cmp.Compare(seqOf(a), seqOf(b)) })
	t := new(pack.Table)
	for _, doc := range docs {
		if err := c.addTo(t, doc); err != nil {
			return nil, err
		}
	}
	t.Sort()
	return t, nil
}

// seqOf is n of a document's _id; a document without n comes last.
func seqOf(doc bson.Raw) int64 {
	if n, ok := windows.SeqOf(doc); ok {
		return n
	}
	return math.MaxInt64
}

// load reads the measurements of a document in the order they arrived, except those that Compact has
// sorted.
func (c *core) load(doc bson.Raw) (*pack.Table, error) {
	t := new(pack.Table)
	return t, c.addTo(t, doc)
}

// addTo appends the measurements of a document. The error names it.
func (c *core) addTo(t *pack.Table, doc bson.Raw) error {
	place := c.frame.KeyOf(doc)
	t.Begin()
	for i, block := range c.blocks(doc) {
		if err := add(t, block, place); err != nil {
			return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s %d: %w", c.opts.BlocksField, i, err))
		}
	}
	return nil
}

func add(t *pack.Table, block bson.RawValue, place string) error {
	_, data, ok := block.BinaryOK()
	if !ok {
		return fmt.Errorf("%w: %s", ErrDamaged, value.Text(block))
	}
	return t.Add(data, place)
}

// blocks are the blocks of a document; a value that is not an array counts as one block.
func (c *core) blocks(doc bson.Raw) []bson.RawValue {
	v := value.Lookup(doc, c.opts.BlocksField)
	if v.Type == 0 {
		return nil
	}
	if array, ok := v.ArrayOK(); ok {
		if all, err := array.Values(); err == nil {
			return all
		}
	}
	return []bson.RawValue{v}
}
