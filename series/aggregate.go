package series

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Aggregate returns the aggregates of series at or after from and before to. A zero time sets no limit. It
// uses the stored sums of documents whose window lies in the range, and reads and decodes measurements only
// in the windows that from and to cut. If there are no measurements, Count is 0 and the error is nil.
//
// Cost: 1 round trip, more for many documents, index {series, start}; 1 key and 1 document for each document
// of the range.
func (s *Series[ID, M]) Aggregate(ctx context.Context, series ID, from, to time.Time) (stats timeseries.Stats, err error) {
	ctx = comment.Call(ctx, "series.Aggregate")
	defer fault.In(&err, "series.Aggregate")
	c := s.core
	all := c.tally(nil, 0, 0)
	for w, err := range c.aggregates(series, c.summed(ctx, series, from, to)) {
		if err != nil {
			return timeseries.Stats{}, err
		}
		all.join(w.tally)
	}
	return all.stats(c), nil
}

// AggregateWindows returns the aggregates of each window of New that has measurements at or after from and
// before to, in order. If from or to cuts a window, only the measurements in the range count.
//
// Cost: that of Aggregate.
func (s *Series[ID, M]) AggregateWindows(ctx context.Context, series ID, from, to time.Time) iter.Seq2[timeseries.WindowStats, error] {
	ctx = comment.Call(ctx, "series.AggregateWindows")
	return s.core.windowStats("series.AggregateWindows", series, s.core.summed(ctx, series, from, to))
}

// AggregateBy is AggregateWindows by other windows, such as hours. Their aggregates are computed from the
// measurements.
//
// Cost: that of Range: all measurements of the range leave the server, packed.
func (s *Series[ID, M]) AggregateBy(ctx context.Context, series ID, from, to time.Time, by timeseries.Window) iter.Seq2[timeseries.WindowStats, error] {
	ctx = comment.Call(ctx, "series.AggregateBy")
	parts := s.core.computed(ctx, series, from, to, by)
	if err := windows.CheckWindow(by); err != nil {
		parts = fault.Stop[part](err)
	}
	return s.core.windowStats("series.AggregateBy", series, parts)
}

// windowStats is aggregates for the caller.
func (c *core) windowStats(call string, series any, parts iter.Seq2[part, error]) iter.Seq2[timeseries.WindowStats, error] {
	return fault.Seq(call, func(yield func(timeseries.WindowStats, error) bool) {
		for w, err := range c.aggregates(series, parts) {
			if err != nil {
				yield(timeseries.WindowStats{}, err)
				return
			}
			if !yield(timeseries.WindowStats{Start: time.UnixMilli(w.start).UTC(), Stats: w.stats(c)}, nil) {
				return
			}
		}
	})
}

// A part has the aggregates of a window, or of some of its measurements.
type part struct {
	start int64
	*tally
}

// aggregates joins the parts of each window, and leaves out windows without measurements.
func (c *core) aggregates(series any, parts iter.Seq2[part, error]) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		if _, err := c.frame.SeriesOf(series); err != nil {
			yield(part{}, err)
			return
		}
		var window part
		for p, err := range parts {
			switch {
			case err != nil:
				yield(part{}, err)
				return
			case window.tally != nil && window.start == p.start:
				window.join(p.tally)
				continue
			case window.tally != nil && window.count > 0 && !yield(window, nil):
				return
			}
			window = p
		}
		if window.tally != nil && window.count > 0 {
			yield(window, nil)
		}
	}
}

// computed yields the aggregates of the windows of by, computed from the measurements.
func (c *core) computed(ctx context.Context, series any, from, to time.Time, by timeseries.Window) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		low, high := windows.Limits(from, to)
		for t, err := range c.tables(ctx, series, from, to) {
			if err != nil {
				yield(part{}, err)
				return
			}
			for i, end := t.Cut(low, high); i < end; {
				start, stop := by.Bounds(time.UnixMilli(t.Times[i]))
				_, next := t.Cut(low, min(stop.UnixMilli(), high))
				if next <= i {
					yield(part{}, fault.Invalid("window: that of %v ends at %v", time.UnixMilli(t.Times[i]).UTC(), stop.UTC()))
					return
				}
				if !yield(part{start.UnixMilli(), c.tally(t, i, next)}, nil) {
					return
				}
				i = next
			}
		}
	}
}

// summed yields the aggregates of the documents of a range: their stored sums, or, for documents that the
// range cuts, sums computed from the measurements.
func (c *core) summed(ctx context.Context, series any, from, to time.Time) iter.Seq2[part, error] {
	low, high := windows.Limits(from, to)
	first, before := low, high // windows that begin between these lie in the range
	if low != math.MinInt64 {
		if start, end := c.frame.Bounds(low); start != low {
			first = end
		}
	}
	if high != math.MaxInt64 {
		before, _ = c.frame.Bounds(high)
	}
	opts := options.Find().SetSort(expr.D(c.frame.StartField, 1)).SetProjection(c.sums(first, before))
	return func(yield func(part, error) bool) {
		for doc, err := range cursor.Find(ctx, c.frame.Coll, c.frame.RangeFilter(series, from, to), opts) {
			if err == nil {
				if undated := c.frame.CheckStart(doc); undated != nil { // Range finds its blocks damaged
					err = fmt.Errorf("%w: %w", ErrDamaged, undated)
				}
			}
			if err != nil {
				yield(part{}, err)
				return
			}
			if start := c.frame.StartOf(doc); start >= first && start < before {
				if !yield(part{start, c.stored(doc)}, nil) {
					return
				}
				continue
			}
			p, err := c.cut(doc, low, high)
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// cut computes the aggregates of the measurements of a document that lie in a range.
func (c *core) cut(doc bson.Raw, low, high int64) (part, error) {
	t, err := c.span([]bson.Raw{doc})
	if err != nil {
		return part{}, err
	}
	i, end := t.Cut(low, high)
	return part{c.frame.StartOf(doc), c.tally(t, i, end)}, nil
}

// sums is the projection of the sums of documents, and of the blocks of documents whose start is not in
// [first, before).
func (c *core) sums(first, before int64) bson.D {
	fields := append(c.frame.Keys(), expr.Element(c.opts.CountField, 1))
	for _, v := range c.opts.Values {
		for _, path := range []string{v.Count, v.Sum, v.Squares, v.Min, v.Max, v.First, v.Last} {
			if path != "" {
				fields = append(fields, expr.Element(path, 1))
			}
		}
	}
	if first == math.MinInt64 && before == math.MaxInt64 {
		return fields
	}
	start := expr.Field(c.frame.StartField)
	whole := expr.Op("$and", expr.Op("$gte", start, bson.DateTime(first)), expr.Op("$lt", start, bson.DateTime(before)))
	return append(fields, expr.Element(c.opts.BlocksField, expr.Cond(whole, "$$REMOVE", expr.Field(c.opts.BlocksField))))
}

// A tally has the aggregates of some measurements, by Options.Values.
type tally struct {
	count  int64
	values []pack.Tally
}

// tally computes the tally of some rows of a table; nil if there are no rows.
func (c *core) tally(t *pack.Table, first, end int) *tally {
	out := &tally{int64(end - first), make([]pack.Tally, len(c.opts.Values))}
	for i, v := range c.opts.Values {
		if t != nil {
			out.values[i] = *t.Tally(v.Field, first, end, c.parts[i])
		}
	}
	return out
}

// stored reads the tally that a document stores.
func (c *core) stored(doc bson.Raw) *tally {
	out := c.tally(nil, 0, 0)
	out.count, _ = value.Lookup(doc, c.opts.CountField).AsInt64OK()
	for i, v := range c.opts.Values {
		n := &out.values[i]
		if n.Count = out.count; v.Count != "" {
			n.Count, _ = value.Lookup(doc, v.Count).AsInt64OK()
		}
		n.Min, n.Max = timeseries.NumberOf(value.Lookup(doc, v.Min)), timeseries.NumberOf(value.Lookup(doc, v.Max))
		n.First, n.Last = sampleOf(value.Lookup(doc, v.First)), sampleOf(value.Lookup(doc, v.Last))
		if d, ok := value.Lookup(doc, v.Sum).Decimal128OK(); ok {
			n.Sum.AddDecimal(d)
		}
		if d, ok := value.Lookup(doc, v.Squares).Decimal128OK(); ok {
			n.Squares.AddDecimal(d)
		}
	}
	return out
}

func (t *tally) join(o *tally) {
	t.count += o.count
	for i := range t.values {
		t.values[i].Join(&o.values[i])
	}
}

func (t *tally) stats(c *core) timeseries.Stats {
	out := timeseries.Stats{Count: t.count, Values: make(map[string]timeseries.ValueStats, len(t.values))}
	for i, v := range c.opts.Values {
		out.Values[v.Field] = stats(&t.values[i], v)
	}
	return out
}

// stats returns the aggregates of a tally that v keeps.
func stats(n *pack.Tally, v timeseries.Value) (out timeseries.ValueStats) {
	if n.Count == 0 {
		return out
	}
	out.Count = n.Count
	if v.Sum != "" {
		out.Sum = timeseries.NumberOf(value.Decimal(n.Sum.Decimal()))
	}
	if v.Squares != "" {
		out.Squares = timeseries.NumberOf(value.Decimal(n.Squares.Decimal()))
	}
	if v.Min != "" {
		out.Min = n.Min
	}
	if v.Max != "" {
		out.Max = n.Max
	}
	if v.First != "" && !n.First.Value.IsZero() {
		out.First = timeseries.Sample{Time: time.UnixMilli(n.First.Time).UTC(), Value: n.First.Value}
	}
	if v.Last != "" && !n.Last.Value.IsZero() {
		out.Last = timeseries.Sample{Time: time.UnixMilli(n.Last.Time).UTC(), Value: n.Last.Value}
	}
	return out
}

func sampleOf(v bson.RawValue) (s pack.Sample) {
	if stored := windows.SampleOf(v); !stored.Value.IsZero() {
		s = pack.Sample{Time: stored.Time.UnixMilli(), Value: stored.Value}
	}
	return s
}
