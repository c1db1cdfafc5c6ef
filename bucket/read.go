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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Range returns the measurements of series at or after from and before to in time order, wherever they are
// stored. Those of the same millisecond come in the order in which they arrived. A zero time sets no
// limit. The server sends only the buckets of the range, and from those at its ends only the measurements
// inside it. Memory holds one window.
//
// Cost: 1 round trip, index {series, start}, no sort on the server; 1 key and 1 document for each bucket of the
// range.
//   - More than 101 buckets or 16 MiB: 1 for each further batch.
func (b *Buckets[ID, M]) Range(ctx context.Context, series ID, from, to time.Time) iter.Seq2[M, error] {
	ctx = comment.Call(ctx, "bucket.Range")
	c := b.core
	return fault.Seq("bucket.Range", windows.InOrder(&c.frame, c.buckets(ctx, series, from, to), c.entries, from, to, plain[M]))
}

// Latest returns the measurement of series with the latest time, or ErrNotFound if the series is empty.
//
// Cost: 1 round trip, index {series, start}; the buckets of the newest window. In a transaction 2, and the
// measurements of these buckets leave the server.
func (b *Buckets[ID, M]) Latest(ctx context.Context, series ID) (m M, err error) {
	ctx = comment.Call(ctx, "bucket.Latest")
	defer fault.In(&err, "bucket.Latest")
	if _, err := b.core.frame.SeriesOf(series); err != nil {
		return m, err
	}
	c := b.core
	var doc bson.Raw
	if txn.Running(ctx) { // a router refuses the $lookup of the pipeline in one
		doc, err = c.latest(ctx, series)
	} else {
		doc, err = c.newest(ctx, series)
	}
	if err != nil {
		return m, err
	}
	err = c.frame.Codec.Decode(doc, &m)
	return m, err
}

// newest returns the result of LatestPipeline, if the start of its window is a date.
//
// Cost: 1 round trip.
func (c *arrays) newest(ctx context.Context, series any) (bson.Raw, error) {
	doc, err := windows.First(pipe(ctx, c.frame.Coll, c.latestPipeline(series, c.named("~m", "$b.m"))))
	if err == nil {
		err = c.frame.CheckStart(doc)
	}
	if err != nil {
		return nil, err
	}
	m, ok := doc.Lookup("~m").DocumentOK()
	if !ok {
		err = fault.Of(doc.Lookup("_id"), fault.Malformed("a measurement is %s, not a document", value.Text(doc.Lookup("~m"))))
	}
	return m, err
}

// named is an expression for what CheckStart reads of a bucket, with further elements.
func (c *arrays) named(pairs ...any) bson.D {
	return append(expr.D("_id", "$_id", c.frame.StartField, expr.Field(c.frame.StartField)), expr.D(pairs...)...)
}

// latest returns the result of LatestPipeline by plain finds.
//
// Cost: 2 round trips.
func (c *arrays) latest(ctx context.Context, series any) (m bson.Raw, err error) {
	all := c.frame.RangeFilter(series, time.Time{}, time.Time{})
	newest, err := windows.First(cursor.Find(ctx, c.frame.Coll, append(slices.Clone(all), expr.Element(c.opts.CountField, expr.Op("$gt", 0))),
		options.Find().SetSort(expr.D(c.frame.StartField, -1)).SetLimit(1).SetProjection(expr.D(c.frame.StartField, 1))))
	if err != nil {
		return nil, err
	}
	if err := c.frame.CheckStart(newest); err != nil {
		return nil, err
	}
	start := value.Lookup(newest, c.frame.StartField)
	var last windows.Entry
	for doc, err := range cursor.Find(ctx, c.frame.Coll, append(all, expr.Element(c.frame.StartField, start)),
		options.Find().SetProjection(expr.D(c.opts.ArrayField, 1))) {
		if err != nil {
			return nil, err
		}
		found, err := c.entries(doc)
		if err != nil {
			return nil, fault.Of(doc.Lookup("_id"), err)
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

// LatestPipeline returns the pipeline of Latest. Its result is the measurement as a document, or nothing if
// the series is empty.
func (b *Buckets[ID, M]) LatestPipeline(series ID) mongo.Pipeline {
	return b.core.latestPipeline(series, "$b.m")
}

// latestPipeline has as its result an expression over the newest bucket with the measurement in b.m.
func (c *arrays) latestPipeline(series, result any) mongo.Pipeline {
	// The newest bucket that is not empty names the window; the measurement can be in any bucket of it.
	all := c.frame.RangeFilter(series, time.Time{}, time.Time{})
	return mongo.Pipeline{
		expr.Op("$match", append(all, expr.Element(c.opts.CountField, expr.Op("$gt", 0)))),
		expr.Op("$sort", expr.D(c.frame.StartField, -1)),
		expr.Op("$limit", 1),
		expr.Op("$lookup", expr.D("from", c.frame.Coll.Name(), "as", "b", "localField", c.frame.StartField, "foreignField", c.frame.StartField,
			"pipeline", mongo.Pipeline{
				expr.Op("$match", all),
				expr.Op("$project", expr.D("m", expr.Field(c.opts.ArrayField))),
				expr.Op("$unwind", expr.D("path", "$m", "includeArrayIndex", "i")),
				expr.Op("$sort", expr.D("m."+c.opts.TimeField, -1, "_id."+windows.SeqKey, -1, "i", -1)),
				expr.Op("$limit", 1),
			})),
		expr.Op("$unwind", "$b"),
		expr.Op("$replaceWith", result),
	}
}

// Bucket returns the measurements of bucket n in the window that holds at, in the order in which they
// arrived. -1 is the last bucket, and -2 the one before it. It returns ErrNotFound if that bucket does not
// exist. With [ByCount], whose one window holds every time, the buckets are the pages of a series.
//
// Cost: 1 round trip, index _id, 1 key and 1 document; a negative n as many keys.
func (b *Buckets[ID, M]) Bucket(ctx context.Context, series ID, at time.Time, n int64) (page []M, err error) {
	ctx = comment.Call(ctx, "bucket.Bucket")
	defer fault.In(&err, "bucket.Bucket")
	c := b.core
	doc, err := c.bucket(ctx, series, at, n, expr.D("v", c.array()))
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue[[]M](c.frame.Codec, doc.Lookup("v"))
}

// CountBuckets returns the number of buckets in the window that holds at.
//
// Cost: 1 round trip, index _id, 1 key.
func (b *Buckets[ID, M]) CountBuckets(ctx context.Context, series ID, at time.Time) (n int64, err error) {
	ctx = comment.Call(ctx, "bucket.CountBuckets")
	defer fault.In(&err, "bucket.CountBuckets")
	newest, err := b.core.bucket(ctx, series, at, -1, expr.D("_id", 1))
	if errors.Is(err, mongopatterns.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, _ = windows.SeqOf(newest)
	return n + 1, nil
}

// bucket reads the given fields of bucket n of a window; a negative n counts from the end.
func (c *arrays) bucket(ctx context.Context, series any, at time.Time, n int64, fields bson.D) (bson.Raw, error) {
	raw, err := c.frame.SeriesOf(series)
	if err == nil && !at.IsZero() { // which ByCount accepts
		err = windows.CheckTime(at)
	}
	if err != nil {
		return nil, err
	}
	p := c.frame.PlaceAt(raw, at.UnixMilli())
	filter, skip := append(expr.D("_id", c.frame.ID(p, n)), c.frame.PlaceFilter(p)...), int64(0)
	if n < 0 {
		filter, skip = c.frame.PlaceFilterFrom(p, 0), -n-1
	}
	return windows.First(cursor.Find(ctx, c.frame.Coll, filter, options.Find().SetSort(expr.D("_id", -1)).SetSkip(skip).
		SetLimit(1).SetProjection(fields)))
}

// buckets reads the buckets of a range in the order of their start.
func (c *arrays) buckets(ctx context.Context, series any, from, to time.Time) iter.Seq2[bson.Raw, error] {
	if _, err := c.frame.SeriesOf(series); err != nil {
		return fault.Stop[bson.Raw](err)
	}
	measurements, field := any(1), expr.Field(c.opts.ArrayField)
	if cut := c.inside(from, to, field); cut != nil {
		// A field that is not an array is kept, for the error that names the bucket.
		measurements = expr.Cond(expr.Op("$isArray", field), cut, field)
	}
	filter, sort := c.frame.RangeFilter(series, from, to), expr.D(c.frame.StartField, 1)
	fields := expr.D(c.frame.StartField, 1, c.opts.ArrayField, measurements)
	return cursor.Find(ctx, c.frame.Coll, filter, options.Find().SetSort(sort).SetProjection(fields))
}

// pipe reads the result of a pipeline. Its documents stay valid.
func pipe(ctx context.Context, coll *scoped.Collection, pipeline mongo.Pipeline) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Aggregate(ctx, pipeline) })
}

// inside is an expression: whole for a bucket whose window lies in a range, otherwise the bucket's
// measurements in the range. It is nil if the range does not cut a window: the server takes longer to
// filter a bucket than to send it.
func (c *arrays) inside(from, to time.Time, whole any) any {
	var within, inside bson.A
	limits := windows.Between(windows.Limits(from, to))
	for _, limit := range limits {
		ms := limit.Value.(bson.DateTime)
		if start, _ := c.frame.Bounds(int64(ms)); start != int64(ms) {
			if limit.Key == "$lt" {
				ms = bson.DateTime(start)
			}
			within = append(within, expr.Op(limit.Key, expr.Field(c.frame.StartField), ms))
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

func (c *arrays) entries(doc bson.Raw) (out []windows.Entry, err error) {
	array := value.Lookup(doc, c.opts.ArrayField)
	list, ok := array.ArrayOK()
	if !ok {
		if array.Type != 0 && array.Type != bson.TypeNull {
			err = fault.Malformed("%q is %s, not an array", c.opts.ArrayField, value.Text(array))
		}
		return nil, err
	}
	items, err := list.Values()
	out = make([]windows.Entry, 0, len(items))
	seq, _ := windows.SeqOf(doc)
	for _, item := range items {
		e := windows.Entry{Time: math.MinInt64, Seq: seq, Raw: item} // for a measurement without a time, which this package does not write
		m, _ := item.DocumentOK()
		if at, ok := value.Lookup(m, c.opts.TimeField).DateTimeOK(); ok {
			e.Time = at
		}
		out = append(out, e)
	}
	return out, err
}

func plain[M any](m M, _ windows.Entry) M { return m }

// Aggregate returns the aggregates of series at or after from and before to. A zero time sets no limit. It
// uses the stored aggregates of buckets whose window lies in the range, and reads measurements only in the
// windows that from and to cut. If there are no measurements, Count is 0 and the error is nil.
//
// Cost: 1 round trip, index {series, start}; 1 key and 1 document for each bucket.
func (b *Buckets[ID, M]) Aggregate(ctx context.Context, series ID, from, to time.Time) (stats timeseries.Stats, err error) {
	ctx = comment.Call(ctx, "bucket.Aggregate")
	defer fault.In(&err, "bucket.Aggregate")
	for w, err := range b.core.sums(ctx, series, b.AggregatePipeline(series, from, to)) {
		return w.Stats, err
	}
	return b.core.stats(nil), nil
}

// AggregateWindows returns the aggregates of each window that has measurements at or after from and before
// to, in order. If from or to cuts a window, only the measurements in the range count.
//
// Cost: 1 round trip, more for many windows; index {series, start}; 1 key and 1 document for each bucket.
func (b *Buckets[ID, M]) AggregateWindows(ctx context.Context, series ID, from, to time.Time) iter.Seq2[timeseries.WindowStats, error] {
	ctx = comment.Call(ctx, "bucket.AggregateWindows")
	return fault.Seq("bucket.AggregateWindows", b.core.sums(ctx, series, b.AggregateWindowsPipeline(series, from, to)))
}

func (c *arrays) sums(ctx context.Context, series any, pipeline mongo.Pipeline) iter.Seq2[timeseries.WindowStats, error] {
	if _, err := c.frame.SeriesOf(series); err != nil {
		return fault.Stop[timeseries.WindowStats](err)
	}
	return func(yield func(timeseries.WindowStats, error) bool) {
		for doc, err := range pipe(ctx, c.frame.Coll, pipeline) {
			if undated, ok := doc.Lookup("undated").DocumentOK(); ok {
				err = c.frame.CheckStart(undated)
			}
			if err != nil {
				yield(timeseries.WindowStats{}, err)
				return
			}
			ms, _ := doc.Lookup("_id").DateTimeOK()
			if !yield(timeseries.WindowStats{Start: time.UnixMilli(ms).UTC(), Stats: c.stats(doc)}, nil) {
				return
			}
		}
	}
}

// AggregatePipeline returns the pipeline of Aggregate. Its result is one document {count, v0_sum, v0_min,
// …}, where the numbers are indexes of Options.Values, or nothing if no bucket matches. If the start of a bucket is
// not a date, undated has its _id and start, and the numbers do not count for Aggregate.
func (b *Buckets[ID, M]) AggregatePipeline(series ID, from, to time.Time) mongo.Pipeline {
	return append(b.core.partials(series, from, to), expr.Op("$group", b.core.total))
}

// AggregateWindowsPipeline returns the pipeline of AggregateWindows. Its result is a document like that of
// AggregatePipeline for each window, with the window's start as _id.
func (b *Buckets[ID, M]) AggregateWindowsPipeline(series ID, from, to time.Time) mongo.Pipeline {
	return append(b.core.partials(series, from, to), expr.Op("$group", b.core.totals),
		expr.Op("$match", expr.Op("$or", bson.A{expr.D("count", expr.Op("$gt", 0)), expr.D("undated", expr.Op("$ne", nil))})),
		expr.Op("$sort", expr.D("_id", 1)))
}

// partials are stages that give the aggregates of each bucket at their paths, over its measurements in the
// range.
func (c *arrays) partials(series any, from, to time.Time) mongo.Pipeline {
	pipeline := mongo.Pipeline{expr.Op("$match", c.frame.RangeFilter(series, from, to))}
	if cut := c.inside(from, to, nil); cut != nil {
		pipeline = append(pipeline, expr.Op("$set", expr.D("~cut", cut)), expr.Op("$set", c.recut))
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
			First: windows.SampleOf(get("first")), Last: windows.SampleOf(get("last")),
		}
		if v.Count != "" {
			out.Count, _ = get("count").AsInt64OK()
		}
		if out.Count == 0 { // the server sums no numbers to 0
			out.Sum, out.Squares = timeseries.Number{}, timeseries.Number{}
		}
		stats.Values[v.Field] = out
	}
	return stats
}

// A derived is a field of a bucket that is computed from its measurements: op over the value of each for
// every measurement that has the number. The same op joins the fields of two buckets.
type derived struct {
	name   string // in pipelines: count, v0_sum, …
	path   string // in the bucket
	op     string // $sum, $min, $max
	each   any    // of a measurement m
	number string // the path in m of the number it needs, "" if it needs no number
	rounds bool   // whether additions may round
}

// derive lists the fields that the options ask for.
func (c *arrays) derive() {
	add := func(name, path, op string, each any, number string) {
		if path != "" {
			_, counts := each.(int)
			d := derived{name, path, op, each, number, op == "$sum" && number != "" && !counts}
			recounted := d.of(c.array())
			if op != "$sum" {
				recounted = expr.IfNull(recounted, "$$REMOVE")
			}
			c.derived, c.recounted = append(c.derived, d), append(c.recounted, expr.Element(path, recounted))
		}
	}
	add("count", c.opts.CountField, "$sum", 1, "")
	for i, v := range c.opts.Values {
		n, name := at(v.Field), fmt.Sprintf("v%d_", i)
		sample := expr.D(windows.TimeKey, at(c.opts.TimeField), windows.ValueKey, n)
		add(name+"sum", v.Sum, "$sum", c.summand(n, v.Squares != ""), v.Field)
		add(name+"min", v.Min, "$min", n, v.Field)
		add(name+"max", v.Max, "$max", n, v.Field)
		add(name+"first", v.First, "$min", sample, v.Field)
		add(name+"last", v.Last, "$max", sample, v.Field)
		add(name+"squares", v.Squares, "$sum", expr.Op("$multiply", allDigits(n), allDigits(n)), v.Field)
		add(name+"count", v.Count, "$sum", 1, v.Field)
	}
	dated := expr.IsType(expr.Field(c.frame.StartField), "date")
	recut, total := bson.D{}, expr.D("_id", nil, "undated", expr.Op("$max", expr.Cond(dated, nil, c.named())))
	for _, d := range c.derived {
		field := expr.Field(d.path)
		recut = append(recut, expr.Element(d.path, expr.Cond(expr.Op("$eq", "$~cut", nil), field, d.of("$~cut"))))
		total = append(total, expr.Element(d.name, expr.D(d.op, field)))
	}
	c.recut, c.total = expr.Fixed(recut), expr.Fixed(total)
	total[0].Value = expr.Field(c.frame.StartField)
	c.totals = expr.Fixed(total)
	// Only documents have a size.
	size := expr.Cond(expr.IsType(expr.Var("m"), "object"), expr.Op("$bsonSize", expr.Var("m")), 0)
	add("bytes", c.opts.BytesField, "$sum", size, "")
}

// mapped is the expression in for each measurement that has a finite number d.number, or for each
// measurement if d.number is "".
func (d derived) mapped(measurements, in any) bson.D {
	if d.number != "" {
		n := at(d.number)
		measurements = expr.Filter(measurements, "m", expr.Op("$and",
			expr.Op("$isNumber", n), expr.Op("$gt", n, math.Inf(-1)), expr.Op("$lt", n, math.Inf(1)))) // NaN sorts before them
	}
	return expr.Map(measurements, "m", in)
}

// of computes the field from measurements; without measurements it is 0 or null.
func (d derived) of(measurements any) bson.D { return expr.D(d.op, d.mapped(measurements, d.each)) }

// sumLimit bounds an int so that the sum of MaxCount of them fits an int64.
func (c *arrays) sumLimit() int64 { return math.MaxInt64 / int64(c.opts.MaxCount) }

// summand converts a number to the type in which Sum adds it.
func (c *arrays) summand(n any, digits bool) bson.D {
	if digits {
		return allDigits(n)
	}
	large := expr.Op("$or", expr.Op("$gt", n, c.sumLimit()), expr.Op("$lt", n, -c.sumLimit()))
	return expr.Cond(expr.Op("$and", expr.IsType(n, "int", "long"), large), expr.Op("$toDouble", n), n)
}

// allDigits converts a number to a Decimal128 with all its digits. $toDecimal rounds a double to 15 digits, and so
// does $add, inside $group or from MongoDB 7.0. $sum does not, but takes what is not a number for 0.
func allDigits(n any) bson.D { return expr.Op("$sum", decimal(new(big.Float)).Raw(), n) }
