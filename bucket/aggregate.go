package bucket

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// Stats are aggregates of the measurements in a range.
type Stats struct {
	// Count is how many measurements there are.
	Count int64 `json:"count"`
	// Values has an entry for each of Options.Values, by Value.Field.
	Values map[string]ValueStats `json:"values"`
}

// ValueStats are the aggregates of one value. What Options do not keep, and
// what has no measurement, is the zero Number or Sample, and left out of JSON.
type ValueStats struct {
	// Count is how many measurements have the value.
	Count      int64  `json:"count"`
	Sum        Number `json:"sum,omitzero"`
	Min        Number `json:"min,omitzero"`
	Max        Number `json:"max,omitzero"`
	SumSquares Number `json:"sumSquares,omitzero"`
	First      Sample `json:"first,omitzero"`
	Last       Sample `json:"last,omitzero"`
}

// Mean is Sum / Count; NaN if there are none or Sum is not kept.
func (v ValueStats) Mean() float64 { return v.Sum.Float64() / float64(v.Count) }

// Variance is that of the whole population, from Count, Sum and SumSquares; NaN
// if one of them is missing. It is a difference of two large numbers where the
// mean is large against the deviation, and loses digits then.
func (v ValueStats) Variance() float64 {
	mean := v.Mean()
	variance := v.SumSquares.Float64()/float64(v.Count) - mean*mean
	if variance < 0 {
		return 0 // rounding
	}
	return variance
}

// StdDev is the square root of Variance.
func (v ValueStats) StdDev() float64 { return math.Sqrt(v.Variance()) }

// A Sample is a value with the time of its measurement.
type Sample struct {
	Time  time.Time `json:"time"`
	Value Number    `json:"value"`
}

// A Number is an int32, int64, double or Decimal128 as the server keeps it. The
// zero Number is none.
type Number struct{ raw bson.RawValue }

// Raw is the number as a BSON value; zero for none.
func (n Number) Raw() bson.RawValue { return n.raw }

// IsZero reports whether there is no number.
func (n Number) IsZero() bool { return n.raw.Type == 0 }

// Float64 is the nearest double; NaN for none.
func (n Number) Float64() float64 {
	value, ok := finite(n.raw)
	if !ok {
		if f, ok := n.raw.DoubleOK(); ok {
			return f // infinite
		}
		return math.NaN()
	}
	return float(value)
}

// String is the number in digits, "" for none.
func (n Number) String() string {
	value, ok := finite(n.raw)
	if !ok {
		if n.IsZero() {
			return ""
		}
		return n.raw.String()
	}
	return fmt.Sprint(value)
}

// MarshalJSON writes the number with all its digits; null for none, NaN and
// infinities.
func (n Number) MarshalJSON() ([]byte, error) {
	value, ok := finite(n.raw)
	if !ok {
		return []byte("null"), nil
	}
	if d, ok := value.(bson.Decimal128); ok {
		return []byte(d.String()), nil
	}
	return json.Marshal(value)
}

func numberOf(value bson.RawValue) Number {
	if !value.IsNumber() {
		return Number{}
	}
	return Number{value}
}

// A WindowStats is the aggregates of one window.
type WindowStats struct {
	Start time.Time `json:"start"`
	Stats
}

// Aggregate returns the aggregates of series from from until before to; a zero
// time is no limit. Buckets of whole windows give their stored aggregates;
// measurements are read only in the windows that from and to cut.
//
// Cost: 1 round trip; index {series, start}; 1 key and 1 document per bucket of
// the range.
func (b *Buckets[S, M]) Aggregate(ctx context.Context, series S, from, to time.Time) (Stats, error) {
	stats := b.stats(nil)
	fail := func(err error) (Stats, error) {
		return stats, fmt.Errorf("bucket: aggregate: %w", b.blame(ctx, b.filter(series, from, to), err))
	}
	cursor, err := b.coll.Aggregate(ctx, b.AggregatePipeline(series, from, to))
	if err != nil {
		return fail(err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	if cursor.Next(ctx) {
		stats = b.stats(cursor.Current)
	}
	if err := cursor.Err(); err != nil {
		return fail(err)
	}
	return stats, nil
}

// AggregateWindows returns the aggregates of each window that has measurements
// from from until before to, in order; the first and the last are cut where from
// and to cut them.
//
// Cost: 1 round trip, further ones for many windows; index {series, start}; 1
// key and 1 document per bucket of the range.
func (b *Buckets[S, M]) AggregateWindows(ctx context.Context, series S, from, to time.Time) iter.Seq2[WindowStats, error] {
	return func(yield func(WindowStats, error) bool) {
		fail := func(err error) {
			yield(WindowStats{}, fmt.Errorf("bucket: aggregate windows: %w", b.blame(ctx, b.filter(series, from, to), err)))
		}
		cursor, err := b.coll.Aggregate(ctx, b.AggregateWindowsPipeline(series, from, to))
		if err != nil {
			fail(err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			window := WindowStats{Start: dateOf(cursor.Current.Lookup("_id")), Stats: b.stats(cursor.Current)}
			if window.Count > 0 && !yield(window, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			fail(err)
		}
	}
}

// AggregatePipeline is what Aggregate runs: one document {count, v0_sum, v0_min,
// …}, numbered as Options.Values, or none.
func (b *Buckets[S, M]) AggregatePipeline(series S, from, to time.Time) mongo.Pipeline {
	return append(b.partials(series, from, to), b.total(nil))
}

// AggregateWindowsPipeline is what AggregateWindows runs: the documents of
// AggregatePipeline with the window's start as _id.
func (b *Buckets[S, M]) AggregateWindowsPipeline(series S, from, to time.Time) mongo.Pipeline {
	return append(b.partials(series, from, to), b.total("$w"),
		bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}})
}

// partials is a stage sequence that gives the aggregates of each bucket, as far
// as it lies in the range.
func (b *Buckets[S, M]) partials(series any, from, to time.Time) mongo.Pipeline {
	from, to = ceil(from), ceil(to)
	pipeline := mongo.Pipeline{{{Key: "$match", Value: b.filter(series, from, to)}}}
	whole := bson.A{} // conditions that the range holds all of a bucket's window
	if !from.IsZero() {
		if start, end := b.window.Bounds(from); !start.Equal(from) {
			whole = append(whole, op("$gte", "$"+b.start, end))
		}
	}
	if !to.IsZero() {
		if start, _ := b.window.Bounds(to); !start.Equal(to) {
			whole = append(whole, op("$lt", "$"+b.start, start))
		}
	}
	stored := bson.D{{Key: "w", Value: "$" + b.start}, {Key: "count", Value: "$" + b.opts.CountField}}
	for i, v := range b.opts.Values {
		for _, a := range v.aggregates() {
			stored = append(stored, bson.E{Key: resultKey(i, a.name), Value: "$" + a.path})
		}
	}
	if len(whole) == 0 {
		return append(pipeline, bson.D{{Key: "$project", Value: stored}})
	}
	cut := bson.D{{Key: "$cond", Value: bson.A{op("$and", whole...), nil, b.inRange(from, to)}}}
	pipeline = append(pipeline, bson.D{{Key: "$project", Value: append(stored, bson.E{Key: "cut", Value: cut})}})
	computed := bson.D{{Key: "w", Value: 1}}
	for _, field := range append(bson.D{{Key: "count", Value: op("$size", "$cut")}}, b.computed("$cut", false)...) {
		computed = append(computed, bson.E{Key: field.Key, Value: bson.D{{Key: "$cond", Value: bson.A{
			op("$eq", "$cut", nil), "$" + field.Key, field.Value,
		}}}})
	}
	return append(pipeline, bson.D{{Key: "$project", Value: computed}})
}

// total is the stage that adds up what partials gives.
func (b *Buckets[S, M]) total(by any) bson.D {
	group := bson.D{{Key: "_id", Value: by}, {Key: "count", Value: bson.D{{Key: "$sum", Value: "$count"}}}}
	for i, v := range b.opts.Values {
		for _, a := range v.aggregates() {
			key := resultKey(i, a.name)
			group = append(group, bson.E{Key: key, Value: bson.D{{Key: a.combine, Value: "$" + key}}})
		}
	}
	return bson.D{{Key: "$group", Value: group}}
}

func (b *Buckets[S, M]) stats(doc bson.Raw) Stats {
	stats := Stats{Values: make(map[string]ValueStats, len(b.opts.Values))}
	stats.Count, _ = rawvalue.Lookup(doc, "count").AsInt64OK()
	for i, v := range b.opts.Values {
		get := func(name string) bson.RawValue { return rawvalue.Lookup(doc, resultKey(i, name)) }
		out := ValueStats{
			Count: stats.Count,
			Sum:   numberOf(get("sum")), SumSquares: numberOf(get("squares")),
			Min: numberOf(get("min")), Max: numberOf(get("max")),
			First: sampleOf(get("first")), Last: sampleOf(get("last")),
		}
		if v.Count != "" {
			out.Count, _ = get("count").AsInt64OK()
		}
		if out.Count == 0 { // sums of nothing are 0 to the server
			out.Sum, out.SumSquares = Number{}, Number{}
		}
		stats.Values[v.Field] = out
	}
	return stats
}

func sampleOf(value bson.RawValue) Sample {
	doc, ok := value.DocumentOK()
	if !ok {
		return Sample{}
	}
	return Sample{Time: dateOf(doc.Lookup(timeKey)), Value: numberOf(doc.Lookup(valueKey))}
}

// A kept is an aggregate that a bucket keeps.
type kept struct {
	name    string // sum, min, …
	path    string // in the bucket
	combine string // the accumulator that joins those of two buckets
}

func (v Value) aggregates() []kept {
	var out []kept
	for _, k := range []kept{
		{"sum", v.Sum, "$sum"}, {"min", v.Min, "$min"}, {"max", v.Max, "$max"},
		{"first", v.First, "$min"}, {"last", v.Last, "$max"},
		{"squares", v.SumSquares, "$sum"}, {"count", v.Count, "$sum"},
	} {
		if k.path != "" {
			out = append(out, k)
		}
	}
	return out
}

func resultKey(value int, name string) string { return fmt.Sprintf("v%d_%s", value, name) }

// computed are expressions for every kept aggregate over an array of
// measurements, under their result keys, or for an update, under their paths:
// absent then where there is no measurement.
func (b *Buckets[S, M]) computed(measurements any, update bool) bson.D {
	var out bson.D
	for i, v := range b.opts.Values {
		// One pass takes out the finite numbers, with their times where needed.
		number := op("$and",
			op("$isNumber", "$$this."+v.Field),
			op("$gt", "$$this."+v.Field, math.Inf(-1)), // NaN sorts before it
			op("$lt", "$$this."+v.Field, math.Inf(1)))
		having := bson.D{{Key: "$filter", Value: bson.D{{Key: "input", Value: measurements}, {Key: "cond", Value: number}}}}
		numbers := mapped(having, "$$this."+v.Field)
		samples := mapped(having, bson.D{
			{Key: timeKey, Value: "$$this." + b.opts.TimeField}, {Key: valueKey, Value: "$$this." + v.Field},
		})
		for _, a := range v.aggregates() {
			var value any
			switch a.name {
			case "sum":
				value = op("$sum", mapped(having, bson.D{{Key: "$cond", Value: bson.A{
					op("$and",
						op("$in", op("$type", "$$this."+v.Field), bson.A{"int", "long"}),
						op("$or", op("$gt", "$$this."+v.Field, b.sumLimit()), op("$lt", "$$this."+v.Field, -b.sumLimit()))),
					op("$toDouble", "$$this."+v.Field), "$$this." + v.Field,
				}}}))
			case "squares":
				value = op("$sum", mapped(having, op("$multiply", inexact("$$this."+v.Field), inexact("$$this."+v.Field))))
			case "count":
				value = op("$size", having)
			case "min", "max":
				value = op("$"+a.name, numbers)
			case "first":
				value = op("$min", samples)
			case "last":
				value = op("$max", samples)
			}
			key := resultKey(i, a.name)
			if update {
				key = a.path
				if a.combine != "$sum" {
					value = op("$ifNull", value, "$$REMOVE")
				}
			}
			out = append(out, bson.E{Key: key, Value: value})
		}
	}
	return out
}

// recount is the update stage that computes all that a bucket derives from its
// measurements.
func (b *Buckets[S, M]) recount() bson.D {
	measurements := array(b.opts.ArrayField)
	set := bson.D{{Key: b.opts.CountField, Value: op("$size", measurements)}}
	if b.opts.BytesField != "" {
		set = append(set, bson.E{Key: b.opts.BytesField, Value: bytesOf(measurements)})
	}
	return bson.D{{Key: "$set", Value: append(set, b.computed(measurements, true)...)}}
}

// inRange is the bucket's measurements in a range.
func (b *Buckets[S, M]) inRange(from, to time.Time) any {
	from, to = ceil(from), ceil(to)
	var conditions []any
	if !from.IsZero() {
		conditions = append(conditions, op("$gte", "$$this."+b.opts.TimeField, from))
	}
	if !to.IsZero() {
		conditions = append(conditions, op("$lt", "$$this."+b.opts.TimeField, to))
	}
	if conditions == nil {
		return array(b.opts.ArrayField)
	}
	return bson.D{{Key: "$filter", Value: bson.D{
		{Key: "input", Value: array(b.opts.ArrayField)}, {Key: "cond", Value: op("$and", conditions...)},
	}}}
}

// op is {name: argument} or {name: [arguments]}.
func op(name string, arguments ...any) bson.D {
	if len(arguments) == 1 && name != "$and" {
		return bson.D{{Key: name, Value: arguments[0]}}
	}
	return bson.D{{Key: name, Value: bson.A(arguments)}}
}

// sumLimit is the largest int of which MaxCount do not overflow an int64.
func (b *Buckets[S, M]) sumLimit() int64 { return math.MaxInt64 / int64(b.opts.MaxCount) }

// inexact is a number as a double, or as the Decimal128 it is.
func inexact(number any) bson.D {
	return bson.D{{Key: "$cond", Value: bson.A{
		op("$eq", op("$type", number), "decimal"), number, op("$toDouble", number),
	}}}
}

// toLong is an expression as a long, or what to take where it is no number.
func toLong(value, otherwise any) bson.D {
	return op("$convert", bson.D{{Key: "input", Value: value}, {Key: "to", Value: "long"},
		{Key: "onError", Value: otherwise}, {Key: "onNull", Value: otherwise}})
}

func array(field string) bson.D { return op("$ifNull", "$"+field, bson.A{}) }

func mapped(input, in any) bson.D {
	return bson.D{{Key: "$map", Value: bson.D{{Key: "input", Value: input}, {Key: "in", Value: in}}}}
}

// bytesOf adds up the sizes of measurements; what is no document has none.
func bytesOf(measurements any) bson.D {
	isDocument := op("$eq", op("$type", "$$this"), "object")
	return op("$sum", mapped(measurements, op("$cond", isDocument, op("$bsonSize", "$$this"), 0)))
}

func literal(value any) bson.D { return op("$literal", value) }
