package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Range returns the measurements of series from from until before to in time order, late arrivals in their
// place; those of one millisecond in the order they came. A zero time is no limit. Only buckets
// of the range leave the server, those at its ends without what lies outside; memory holds one window.
//
// Cost: 1 round trip, more beyond 101 buckets or 16 MiB; index {series, start}, no sort on the server; 1 key
// and 1 document per bucket of the range.
func (b *Buckets[S, M]) Range(ctx context.Context, series S, from, to time.Time) iter.Seq2[M, error] {
	c := b.core
	return fault.Seq("bucket: range", frame.InOrder(&c.Frame, c.buckets(ctx, series, from, to), c.entries, from, to, plain[M]))
}

// Latest returns the measurement of series with the latest time; ErrNotFound if there is none.
//
// Cost: 1 round trip; index {series, start}; the buckets of the newest window. In a transaction 2, and the
// measurements of these buckets leave the server.
func (b *Buckets[S, M]) Latest(ctx context.Context, series S) (m M, err error) {
	defer fault.In(&err, "bucket: latest")
	if _, err := b.core.SeriesOf(series); err != nil {
		return m, err
	}
	var doc bson.Raw
	if txn.Running(ctx) { // where a router refuses the $lookup of the pipeline
		doc, err = b.core.latest(ctx, series)
	} else {
		doc, err = frame.First(pipe(ctx, b.core.Coll, b.LatestPipeline(series)))
	}
	if err == nil {
		err = b.core.Codec.Decode(doc, &m)
	}
	return m, err
}

// latest is what LatestPipeline gives, by plain finds.
//
// Cost: 2 round trips.
func (c *arrays) latest(ctx context.Context, series any) (m bson.Raw, err error) {
	all := c.Filter(series, time.Time{}, time.Time{})
	newest, err := frame.First(frame.Find(ctx, c.Coll, append(slices.Clone(all), expr.Element(c.opts.CountField, expr.Op("$gt", 0))),
		options.Find().SetSort(bson.D{{Key: c.Start, Value: -1}}).SetLimit(1).SetProjection(bson.D{{Key: c.Start, Value: 1}})))
	if err != nil {
		return nil, err
	}
	start := value.Lookup(newest, c.Start)
	var last frame.Entry
	for doc, err := range frame.Find(ctx, c.Coll, append(all, bson.E{Key: c.Start, Value: start}),
		options.Find().SetProjection(bson.D{{Key: c.opts.ArrayField, Value: 1}})) {
		var found []frame.Entry
		if err == nil {
			found, err = c.entries(doc)
			err = fault.Of(doc.Lookup("_id"), err)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if last.Raw.Type == 0 || cmp.Or(cmp.Compare(e.Time, last.Time), cmp.Compare(e.Seq, last.Seq)) >= 0 {
				last = e
			}
		}
	}
	m, ok := last.Raw.DocumentOK()
	if !ok {
		return nil, mongopatterns.ErrNotFound
	}
	return m, nil
}

// LatestPipeline is what Latest runs: the measurement as a document, or none.
func (b *Buckets[S, M]) LatestPipeline(series S) mongo.Pipeline {
	// The newest bucket that is not empty names the window; the measurement can be in any bucket of it.
	c := b.core
	all := c.Filter(series, time.Time{}, time.Time{})
	return mongo.Pipeline{
		expr.Op("$match", append(all, bson.E{Key: c.opts.CountField, Value: expr.Op("$gt", 0)})),
		expr.Op("$sort", bson.D{{Key: c.Start, Value: -1}}),
		expr.Op("$limit", 1),
		expr.Op("$lookup", expr.D("from", c.Coll.Name(), "as", "b", "localField", c.Start, "foreignField", c.Start,
			"pipeline", mongo.Pipeline{
				expr.Op("$match", all),
				expr.Op("$project", bson.D{{Key: "m", Value: expr.Field(c.opts.ArrayField)}}),
				expr.Op("$unwind", expr.D("path", "$m", "includeArrayIndex", "i")),
				expr.Op("$sort", expr.D("m."+c.opts.TimeField, -1, "_id."+frame.SeqKey, -1, "i", -1)),
				expr.Op("$limit", 1),
			})),
		expr.Op("$unwind", "$b"),
		expr.Op("$replaceWith", "$b.m"),
	}
}

// Page returns the measurements of bucket n in the window that holds at, in the order they came; -1 is the
// last bucket, -2 the one before. ErrNotFound if there is none. With [ByCount], whose one window holds every
// time, these are the pages of a series.
//
// Cost: 1 round trip; index _id, 1 key and 1 document; a negative n as many keys.
func (b *Buckets[S, M]) Page(ctx context.Context, series S, at time.Time, n int64) (page []M, err error) {
	defer fault.In(&err, "bucket: page")
	c := b.core
	doc, err := c.bucket(ctx, series, at, n, bson.D{{Key: "v", Value: c.array()}})
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue[[]M](c.Codec, doc.Lookup("v"))
}

// Pages returns how many buckets the window that holds at has, from number 0 on.
//
// Cost: 1 round trip; index _id, 1 key.
func (b *Buckets[S, M]) Pages(ctx context.Context, series S, at time.Time) (n int64, err error) {
	defer fault.In(&err, "bucket: pages")
	newest, err := b.core.bucket(ctx, series, at, -1, bson.D{{Key: "_id", Value: 1}})
	if errors.Is(err, mongopatterns.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, _ = frame.Number(newest)
	return n + 1, nil
}

// bucket reads fields of one bucket of a window, by its number or counted from the end.
func (c *arrays) bucket(ctx context.Context, series any, at time.Time, n int64, fields bson.D) (bson.Raw, error) {
	raw, err := c.SeriesOf(series)
	if err != nil {
		return nil, err
	}
	p := c.At(raw, at.UnixMilli())
	filter, skip := append(bson.D{{Key: "_id", Value: c.ID(p, n)}}, c.Within(p)...), int64(0)
	if n < 0 {
		filter, skip = c.Since(p, 0), -n-1
	}
	return frame.First(frame.Find(ctx, c.Coll, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetSkip(skip).
		SetLimit(1).SetProjection(fields)))
}

// buckets reads the buckets of a range by start.
func (c *arrays) buckets(ctx context.Context, series any, from, to time.Time) iter.Seq2[bson.Raw, error] {
	if _, err := c.SeriesOf(series); err != nil {
		return fault.Stop[bson.Raw](err)
	}
	measurements, field := any(1), expr.Field(c.opts.ArrayField)
	if cut := c.inside(from, to, field); cut != nil {
		// What is no array is left for the error that names the bucket.
		measurements = expr.Cond(expr.Op("$isArray", field), cut, field)
	}
	filter, sort := c.Filter(series, from, to), bson.D{{Key: c.Start, Value: 1}}
	fields := bson.D{{Key: c.Start, Value: 1}, {Key: c.opts.ArrayField, Value: measurements}}
	return frame.Find(ctx, c.Coll, filter, options.Find().SetSort(sort).SetProjection(fields))
}

// pipe reads documents, which stay valid.
func pipe(ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Aggregate(ctx, pipeline) })
}

// inside is whole for a bucket whose window lies in a range, else its measurements there; nil if the range cuts no
// window. To filter a bucket takes the server longer than to send it.
func (c *arrays) inside(from, to time.Time, whole any) any {
	var within, inside bson.A
	limits := frame.Between(frame.Limits(from, to))
	for _, limit := range limits {
		ms := limit.Value.(bson.DateTime)
		if start, _ := c.Bounds(int64(ms)); start != int64(ms) {
			if limit.Key == "$lt" {
				ms = bson.DateTime(start)
			}
			within = append(within, expr.Op(limit.Key, expr.Field(c.Start), ms))
		}
	}
	if within == nil {
		return nil
	}
	for _, limit := range limits {
		inside = append(inside, expr.Op(limit.Key, at(c.opts.TimeField), limit.Value))
	}
	return expr.Cond(expr.Op("$and", within), whole, expr.Filter(c.array(), "m", expr.Op("$and", inside)))
}

func (c *arrays) entries(doc bson.Raw) (out []frame.Entry, err error) {
	array := value.Lookup(doc, c.opts.ArrayField)
	list, ok := array.ArrayOK()
	if !ok {
		if array.Type != 0 && array.Type != bson.TypeNull {
			err = fmt.Errorf("%s is %s, not an array", c.opts.ArrayField, value.Text(array))
		}
		return nil, err
	}
	items, err := list.Values()
	out = make([]frame.Entry, 0, len(items))
	seq, _ := frame.Number(doc)
	for _, item := range items {
		e := frame.Entry{Time: math.MinInt64, Seq: seq, Raw: item} // the time of nothing this package wrote
		m, _ := item.DocumentOK()
		if at, ok := value.Lookup(m, c.opts.TimeField).DateTimeOK(); ok {
			e.Time = at
		}
		out = append(out, e)
	}
	return out, err
}

func plain[M any](m M, _ frame.Entry) M { return m }

// Aggregate returns the aggregates of series from from until before to; a zero time is no limit. Buckets of
// whole windows give their stored aggregates; measurements are read only in the windows that from and to cut.
//
// Cost: 1 round trip; index {series, start}; 1 key and 1 document per bucket.
func (b *Buckets[S, M]) Aggregate(ctx context.Context, series S, from, to time.Time) (stats timeseries.Stats, err error) {
	defer fault.In(&err, "bucket: aggregate")
	for w, err := range b.core.sums(ctx, series, b.AggregatePipeline(series, from, to)) {
		return w.Stats, err
	}
	return b.core.stats(nil), nil
}

// AggregateWindows returns the aggregates of each window that has measurements from from until before to, in
// order; from and to can cut the first and the last.
//
// Cost: 1 round trip, more for many windows; index {series, start}; 1 key and 1 document per bucket.
func (b *Buckets[S, M]) AggregateWindows(ctx context.Context, series S, from, to time.Time) iter.Seq2[timeseries.WindowStats, error] {
	return fault.Seq("bucket: aggregate windows", b.core.sums(ctx, series, b.AggregateWindowsPipeline(series, from, to)))
}

func (c *arrays) sums(ctx context.Context, series any, pipeline mongo.Pipeline) iter.Seq2[timeseries.WindowStats, error] {
	if _, err := c.SeriesOf(series); err != nil {
		return fault.Stop[timeseries.WindowStats](err)
	}
	return func(yield func(timeseries.WindowStats, error) bool) {
		for doc, err := range pipe(ctx, c.Coll, pipeline) {
			ms, _ := doc.Lookup("_id").DateTimeOK()
			if !yield(timeseries.WindowStats{Start: time.UnixMilli(ms).UTC(), Stats: c.stats(doc)}, err) {
				return
			}
		}
	}
}

// AggregatePipeline is what Aggregate runs: one document {count, v0_sum, v0_min, …}, numbered as
// Options.Values, or none.
func (b *Buckets[S, M]) AggregatePipeline(series S, from, to time.Time) mongo.Pipeline {
	return append(b.core.partials(series, from, to), expr.Op("$group", b.core.total))
}

// AggregateWindowsPipeline is what AggregateWindows runs: the documents of AggregatePipeline with the
// window's start as _id.
func (b *Buckets[S, M]) AggregateWindowsPipeline(series S, from, to time.Time) mongo.Pipeline {
	return append(b.core.partials(series, from, to), expr.Op("$group", b.core.totals),
		expr.Op("$match", expr.Op("count", expr.Op("$gt", 0))), expr.Op("$sort", expr.Op("_id", 1)))
}

// partials is a stage sequence that has the aggregates of each bucket at their paths, as far as it lies in the range.
func (c *arrays) partials(series any, from, to time.Time) mongo.Pipeline {
	pipeline := mongo.Pipeline{expr.Op("$match", c.Filter(series, from, to))}
	if cut := c.inside(from, to, nil); cut != nil {
		pipeline = append(pipeline, expr.Op("$set", bson.D{{Key: "~cut", Value: cut}}), expr.Op("$set", c.recut))
	}
	return pipeline
}

func (c *arrays) stats(doc bson.Raw) timeseries.Stats {
	stats := timeseries.Stats{Values: map[string]timeseries.ValueStats{}}
	stats.Count, _ = value.Lookup(doc, "count").AsInt64OK()
	for i, v := range c.opts.Values {
		get := func(name string) bson.RawValue { return value.Lookup(doc, fmt.Sprintf("v%d_%s", i, name)) }
		out := timeseries.ValueStats{
			Count: stats.Count,
			Sum:   timeseries.NumberOf(get("sum")), Squares: timeseries.NumberOf(get("squares")),
			Min: timeseries.NumberOf(get("min")), Max: timeseries.NumberOf(get("max")),
			First: frame.SampleOf(get("first")), Last: frame.SampleOf(get("last")),
		}
		if v.Count != "" {
			out.Count, _ = get("count").AsInt64OK()
		}
		if out.Count == 0 { // sums of nothing are 0 to the server
			out.Sum, out.Squares = timeseries.Number{}, timeseries.Number{}
		}
		stats.Values[v.Field] = out
	}
	return stats
}

// A derived is a field of a bucket that follows from its measurements: op over what each of those with a
// number gives. The same op joins those of two buckets.
type derived struct {
	name   string // in pipelines: count, v0_sum, …
	path   string // in the bucket
	op     string // $sum, $min, $max
	each   any    // of a measurement m
	number string // the path in m of the number it needs, "" for none
}

// derive lists what the options keep.
func (c *arrays) derive() {
	add := func(name, path, op string, each any, number string) {
		if path != "" {
			d := derived{name, path, op, each, number}
			recounted := d.of(c.array())
			if op != "$sum" {
				recounted = expr.IfNull(recounted, "$$REMOVE")
			}
			c.derived, c.recounted = append(c.derived, d), append(c.recounted, bson.E{Key: path, Value: recounted})
		}
	}
	add("count", c.opts.CountField, "$sum", 1, "")
	for i, v := range c.opts.Values {
		n, name := at(v.Field), fmt.Sprintf("v%d_", i)
		sample := bson.D{{Key: frame.TimeKey, Value: at(c.opts.TimeField)}, {Key: frame.ValueKey, Value: n}}
		add(name+"sum", v.Sum, "$sum", c.summand(n, v.Squares != ""), v.Field)
		add(name+"min", v.Min, "$min", n, v.Field)
		add(name+"max", v.Max, "$max", n, v.Field)
		add(name+"first", v.First, "$min", sample, v.Field)
		add(name+"last", v.Last, "$max", sample, v.Field)
		add(name+"squares", v.Squares, "$sum", expr.Op("$multiply", allDigits(n), allDigits(n)), v.Field)
		add(name+"count", v.Count, "$sum", 1, v.Field)
	}
	recut, total := bson.D{}, bson.D{{Key: "_id", Value: nil}}
	for _, d := range c.derived {
		field := expr.Field(d.path)
		recut = append(recut, bson.E{Key: d.path, Value: expr.Cond(expr.Op("$eq", "$~cut", nil), field, d.of("$~cut"))})
		total = append(total, bson.E{Key: d.name, Value: expr.Op(d.op, field)})
	}
	c.recut, c.total = expr.Fixed(recut), expr.Fixed(total)
	total[0].Value = expr.Field(c.Start)
	c.totals = expr.Fixed(total)
	// What is no document has no size.
	size := expr.Cond(expr.IsType(expr.Var("m"), "object"), expr.Op("$bsonSize", expr.Var("m")), 0)
	add("bytes", c.opts.BytesField, "$sum", size, "")
}

// mapped is what in gives of the measurements that count, those with a finite number.
func (d derived) mapped(measurements, in any) bson.D {
	if d.number != "" {
		n := at(d.number)
		measurements = expr.Filter(measurements, "m", expr.Op("$and",
			expr.Op("$isNumber", n), expr.Op("$gt", n, math.Inf(-1)), expr.Op("$lt", n, math.Inf(1)))) // NaN sorts before them
	}
	return expr.Map(measurements, "m", in)
}

// of is the field computed from measurements; of none it is 0 or null.
func (d derived) of(measurements any) bson.D { return expr.Op(d.op, d.mapped(measurements, d.each)) }

// slack is how far a sum may be off by the order in which the server added it up: some last digits of what
// was added, for each addition. A Decimal128 to which $inc adds doubles is rounded to 15 digits.
func (d derived) slack(measurements any) bson.D {
	types := d.mapped(measurements, expr.Op("$type", d.each))
	has := func(kind string) bson.D { return expr.Op("$in", kind, types) }
	digit := expr.Cond(has("decimal"), expr.Cond(has("double"), 1e-14, 1e-33), expr.Cond(has("double"), 0x1p-51, 0))
	return expr.Op("$multiply", expr.Op("$sum", d.mapped(measurements, expr.Op("$abs", allDigits(d.each)))),
		expr.Op("$add", expr.Op("$size", measurements), 1), digit)
}

// sumLimit is the largest int of which MaxCount do not overflow an int64.
func (c *arrays) sumLimit() int64 { return math.MaxInt64 / int64(c.opts.MaxCount) }

// summand is a number as Sum adds it.
func (c *arrays) summand(n any, digits bool) bson.D {
	if digits {
		return allDigits(n)
	}
	large := expr.Op("$or", expr.Op("$gt", n, c.sumLimit()), expr.Op("$lt", n, -c.sumLimit()))
	return expr.Cond(expr.Op("$and", expr.IsType(n, "int", "long"), large), expr.Op("$toDouble", n), n)
}

// allDigits is a number as a Decimal128 with all of them: $toDecimal would round a double to 15, adding it to one
// does not.
func allDigits(n any) bson.D { return expr.Op("$add", decimal(new(big.Float)).Raw(), n) }
