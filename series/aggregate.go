package series

import (
	"context"
	"iter"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/pack"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Number is an int32, int64, double or Decimal128 as the server keeps it. The zero
// Number is none.
type Number = number.Number

// Stats are aggregates of the measurements in a range.
type Stats struct {
	// Count is how many measurements there are.
	Count int64 `json:"count"`
	// Values has an entry for each of Options.Values, by Value.Field.
	Values map[string]ValueStats `json:"values"`
}

// ValueStats are the aggregates of one value. Without a measurement that has it they
// are zero Numbers.
type ValueStats struct {
	// Count is how many measurements have the value.
	Count   int64  `json:"count"`
	Sum     Number `json:"sum,omitzero"`
	Squares Number `json:"squares,omitzero"`
	Min     Number `json:"min,omitzero"`
	Max     Number `json:"max,omitzero"`
}

// Mean is Sum / Count; NaN if there are none.
func (v ValueStats) Mean() float64 { return v.Sum.Float64() / float64(v.Count) }

// Variance is that of the whole population; NaN without measurements. It loses no
// digits to a mean that is large against the deviation.
func (v ValueStats) Variance() float64 { return number.Variance(v.Count, v.Sum, v.Squares) }

// StdDev is the square root of Variance.
func (v ValueStats) StdDev() float64 { return math.Sqrt(v.Variance()) }

// A WindowStats is the aggregates of one window.
type WindowStats struct {
	Start time.Time `json:"start"`
	Stats
}

// Aggregate returns the aggregates of series from from until before to; a zero time is
// no limit. Documents of whole windows give their stored sums, and no measurement leaves
// the server; only the windows that from and to cut are decoded.
//
// Cost: 1 round trip, further ones for many documents; index {series, start}; 1 key
// and 1 document for each document of the range.
func (s *Series[S, M]) Aggregate(ctx context.Context, series S, from, to time.Time) (stats Stats, err error) {
	defer fault.In(&err, "series: aggregate")
	c := s.core
	all := c.tally(nil, 0, 0)
	for w, err := range c.aggregates(ctx, series, from, to, nil) {
		if err != nil {
			return Stats{}, err
		}
		all.join(w.tally)
	}
	return all.stats(c), nil
}

// AggregateWindows returns the aggregates of each window that has measurements from
// from until before to, in order; the first and the last are cut where from and to cut
// them. by is the windows: nil for those of New, whose sums are stored. Others, hours
// say, are computed from the measurements.
//
// Cost: as Aggregate; with by all measurements of the range leave the server, packed.
func (s *Series[S, M]) AggregateWindows(ctx context.Context, series S, from, to time.Time, by Window) iter.Seq2[WindowStats, error] {
	c := s.core
	return fault.Seq("series: aggregate windows", func(yield func(WindowStats, error) bool) {
		for w, err := range c.aggregates(ctx, series, from, to, by) {
			if err != nil {
				yield(WindowStats{}, err)
				return
			}
			if !yield(WindowStats{Start: time.UnixMilli(w.start).UTC(), Stats: w.stats(c)}, nil) {
				return
			}
		}
	})
}

// A part is aggregates of a window, or of some of its measurements.
type part struct {
	start int64
	*tally
}

// aggregates are those of the windows of a range that have measurements.
func (c *store) aggregates(ctx context.Context, series any, from, to time.Time, by Window) iter.Seq2[part, error] {
	parts := c.computed(ctx, series, from, to, by)
	if by == nil {
		parts = c.summed(ctx, series, from, to)
	}
	return func(yield func(part, error) bool) {
		if _, err := c.SeriesOf(series); err != nil {
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

// computed are the aggregates of the windows of by, from the measurements.
func (c *store) computed(ctx context.Context, series any, from, to time.Time, by Window) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		low, high := frame.Limits(from, to)
		for t, err := range c.windows(ctx, series, from, to) {
			if err != nil {
				yield(part{}, err)
				return
			}
			for i, end := t.Cut(low, high); i < end; {
				start, stop := by.Bounds(time.UnixMilli(t.Times[i]))
				_, next := t.Cut(low, min(stop.UnixMilli(), high))
				if !yield(part{start.UnixMilli(), c.tally(t, i, next)}, nil) {
					return
				}
				i = next
			}
		}
	}
}

// summed are the aggregates of the documents of a range: the sums that they store, but for
// those that the range cuts.
func (c *store) summed(ctx context.Context, series any, from, to time.Time) iter.Seq2[part, error] {
	low, high := frame.Limits(from, to)
	first, before := low, high // windows that begin between them lie in the range
	if low != math.MinInt64 {
		if start, end := c.Bounds(low); start != low {
			first = end
		}
	}
	if high != math.MaxInt64 {
		before, _ = c.Bounds(high)
	}
	opts := options.Find().SetSort(bson.D{{Key: c.Start, Value: 1}}).SetProjection(c.sums(first, before))
	return func(yield func(part, error) bool) {
		for doc, err := range frame.Find(ctx, c.Coll, c.Filter(series, from, to), opts) {
			var p part
			if err == nil {
				p.start = c.StartOf(doc)
				if p.start >= first && p.start < before {
					p.tally = c.stored(doc)
				} else {
					var t *pack.Table
					if t, err = c.span([]bson.Raw{doc}); err == nil {
						i, end := t.Cut(low, high)
						p.tally = c.tally(t, i, end)
					}
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// sums projects the sums of documents, and the blocks of those that do not begin from
// first until before before.
func (c *store) sums(first, before int64) bson.D {
	fields := bson.D{{Key: c.Start, Value: 1}, {Key: c.opts.CountField, Value: 1}}
	for _, v := range c.opts.Values {
		for _, path := range []string{v.Count, v.Sum, v.Squares, v.Min, v.Max} {
			fields = append(fields, bson.E{Key: path, Value: 1})
		}
	}
	if first == math.MinInt64 && before == math.MaxInt64 {
		return fields
	}
	start := expr.Field(c.Start)
	whole := expr.Op("$and", expr.Op("$gte", start, bson.DateTime(first)), expr.Op("$lt", start, bson.DateTime(before)))
	return append(fields, bson.E{Key: c.opts.BlocksField, Value: expr.Cond(whole, "$$REMOVE", expr.Field(c.opts.BlocksField))})
}

// A tally is the aggregates of some measurements, by Options.Values.
type tally struct {
	count  int64
	values []pack.Tally
}

// tally is that of some rows of a table; nil is none.
func (c *store) tally(t *pack.Table, first, end int) *tally {
	out := &tally{int64(end - first), make([]pack.Tally, len(c.opts.Values))}
	for i, v := range c.opts.Values {
		if t != nil {
			out.values[i] = *t.Tally(v.Field, first, end)
		}
	}
	return out
}

// stored is the tally that a document stores.
func (c *store) stored(doc bson.Raw) *tally {
	out := c.tally(nil, 0, 0)
	out.count, _ = value.Lookup(doc, c.opts.CountField).AsInt64OK()
	for i, v := range c.opts.Values {
		n := &out.values[i]
		n.Count, _ = value.Lookup(doc, v.Count).AsInt64OK()
		n.Min, n.Max = number.Of(value.Lookup(doc, v.Min)), number.Of(value.Lookup(doc, v.Max))
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

func (t *tally) stats(c *store) Stats {
	out := Stats{Count: t.count, Values: make(map[string]ValueStats, len(t.values))}
	for i, v := range c.opts.Values {
		var one ValueStats
		if n := &t.values[i]; n.Count > 0 {
			one = ValueStats{Count: n.Count, Sum: number.Decimal(n.Sum.Decimal()), Squares: number.Decimal(n.Squares.Decimal()), Min: n.Min, Max: n.Max}
		}
		out.Values[v.Field] = one
	}
	return out
}
