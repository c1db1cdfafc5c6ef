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
	all := c.tally()
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

// A part is the aggregates of a window.
type part struct {
	start int64
	*tally
}

// aggregates reads the windows of a range, from their sums where it can.
func (c *store) aggregates(ctx context.Context, series any, from, to time.Time, by Window) iter.Seq2[part, error] {
	low, high := limits(from, to)
	// The windows from first until before before lie in the range as a whole.
	first, before := low, high
	if low != math.MinInt64 {
		if start, stop := c.window.Bounds(time.UnixMilli(low)); start.UnixMilli() != low {
			first = stop.UnixMilli()
		}
	}
	if high != math.MaxInt64 {
		start, _ := c.window.Bounds(time.UnixMilli(high))
		before = start.UnixMilli()
	}
	fields := c.content()
	if by == nil {
		fields = bson.D{{Key: c.opts.StartField, Value: 1}, {Key: c.opts.CountField, Value: 1}}
		for _, v := range c.opts.Values {
			for _, path := range []string{v.Count, v.Sum, v.Squares, v.Min, v.Max} {
				fields = append(fields, bson.E{Key: path, Value: 1})
			}
		}
		if first != math.MinInt64 || before != math.MaxInt64 {
			start := expr.Field(c.opts.StartField)
			whole := expr.Op("$and", expr.Op("$gte", start, bson.DateTime(first)), expr.Op("$lt", start, bson.DateTime(before)))
			for _, field := range []string{c.opts.PackedField, c.opts.BlocksField} {
				fields = append(fields, bson.E{Key: field, Value: expr.Cond(whole, "$$REMOVE", expr.Field(field))})
			}
		}
	}
	return func(yield func(part, error) bool) {
		if _, err := c.seriesOf(series); err != nil {
			yield(part{}, err)
			return
		}
		opts := options.Find().SetSort(bson.D{{Key: c.opts.StartField, Value: 1}}).SetProjection(fields)
		var window part
		end := func() bool { return window.tally == nil || window.count == 0 || yield(window, nil) }
		begin := func(start int64) bool { // a window, unless it is the one that is under way
			if window.tally != nil && window.start == start {
				return true
			}
			on := end()
			window = part{start, c.tally()}
			return on
		}
		if by != nil {
			for t, err := range c.windows(ctx, series, from, to) {
				if err != nil {
					yield(part{}, err)
					return
				}
				for i, end := t.Cut(low, high); i < end; {
					start, stop := by.Bounds(time.UnixMilli(t.Times[i]))
					_, next := t.Cut(low, min(stop.UnixMilli(), high))
					if !begin(start.UnixMilli()) {
						return
					}
					window.rows(c, t, i, next)
					i = next
				}
			}
			end()
			return
		}
		for doc, err := range find(ctx, c.coll, c.filter(series, from, to), opts) {
			if err != nil {
				yield(part{}, err)
				return
			}
			start, _ := value.Lookup(doc, c.opts.StartField).DateTimeOK()
			if !begin(start) {
				return
			}
			if start >= first && start < before {
				window.document(c, doc)
				continue
			}
			t, err := c.load(doc)
			if err != nil {
				yield(part{}, err)
				return
			}
			t.Sort()
			i, stop := t.Cut(low, high)
			window.rows(c, t, i, stop)
		}
		end()
	}
}

// A tally is the aggregates of some measurements, by Options.Values.
type tally struct {
	count  int64
	values []pack.Tally
}

func (c *store) tally() *tally { return &tally{values: make([]pack.Tally, len(c.opts.Values))} }

// rows adds those of a table.
func (t *tally) rows(c *store, table *pack.Table, first, end int) {
	t.count += int64(end - first)
	for i, v := range c.opts.Values {
		t.values[i].Join(table.Tally(v.Field, first, end))
	}
}

// document adds what a document stores.
func (t *tally) document(c *store, doc bson.Raw) {
	count, _ := value.Lookup(doc, c.opts.CountField).AsInt64OK()
	t.count += count
	for i, v := range c.opts.Values {
		one := pack.Tally{Min: number.Of(value.Lookup(doc, v.Min)), Max: number.Of(value.Lookup(doc, v.Max))}
		one.Count, _ = value.Lookup(doc, v.Count).AsInt64OK()
		if d, ok := value.Lookup(doc, v.Sum).Decimal128OK(); ok {
			one.Sum.AddDecimal(d)
		}
		if d, ok := value.Lookup(doc, v.Squares).Decimal128OK(); ok {
			one.Squares.AddDecimal(d)
		}
		t.values[i].Join(&one)
	}
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
