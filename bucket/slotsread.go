package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// maxPaths is the longest projection of single slots; beyond it whole documents
// are read.
const maxPaths = 500

// Get returns the measurement in the slot that holds t; ErrNotFound if it is
// empty. Only the slot leaves the server.
//
// Cost: 1 round trip; index {series, start}, 1 key.
func (s *Slots[S, M]) Get(ctx context.Context, series S, t time.Time) (M, error) {
	var slot struct {
		M *M `bson:"m"`
	}
	start, _ := s.window.Bounds(t)
	filter := bson.D{{Key: s.series, Value: s.equal(series)}, {Key: s.start, Value: start}}
	err := s.coll.FindOne(ctx, filter, options.FindOne().
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "m", Value: "$" + s.Path(t)}})).Decode(&slot)
	if errors.Is(err, mongo.ErrNoDocuments) || err == nil && slot.M == nil {
		err = ErrNotFound
	}
	if err != nil {
		var zero M
		return zero, fmt.Errorf("bucket: get: %s: %w", s.slot(series, t), err)
	}
	return *slot.M, nil
}

// Range returns the slots of series that begin from from until before to, in
// order. A zero time is no limit. Of a range within one window only its slots
// leave the server; of a longer one whole windows do.
//
// Cost: 1 round trip, further ones for what exceeds the server's first batch
// (101 documents or 16 MiB); index {series, start}, no sort on the server; 1 key
// and 1 document per window.
func (s *Slots[S, M]) Range(ctx context.Context, series S, from, to time.Time) iter.Seq2[Slot[M], error] {
	return func(yield func(Slot[M], error) bool) {
		cursor, err := s.coll.Aggregate(ctx, mongo.Pipeline{
			{{Key: "$match", Value: s.filter(series, from, to)}},
			{{Key: "$sort", Value: bson.D{{Key: s.start, Value: 1}}}},
			{{Key: "$project", Value: s.Projection(from, to)}},
			{{Key: "$project", Value: s.renamed()}},
		})
		if err != nil {
			yield(Slot[M]{}, fmt.Errorf("bucket: range: %w", err))
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			slots, err := s.slots(cursor.Decode)
			if err != nil {
				yield(Slot[M]{}, fmt.Errorf("bucket: range: document that starts %s: %w", rawvalue.Text(rawvalue.Lookup(cursor.Current, "s")), err))
				return
			}
			for _, slot := range slots {
				if !from.IsZero() && slot.Time.Before(from) || !to.IsZero() && !slot.Time.Before(to) {
					continue
				}
				if !yield(slot, nil) {
					return
				}
			}
		}
		if err := cursor.Err(); err != nil {
			yield(Slot[M]{}, fmt.Errorf("bucket: range: %w", err))
		}
	}
}

// Projection is what Range reads of the documents that Filter selects: the
// slots themselves if from and to lie in one window, else all.
func (s *Slots[S, M]) Projection(from, to time.Time) bson.D {
	projection := bson.D{{Key: "_id", Value: 0}, {Key: s.start, Value: 1}}
	whole := append(projection, bson.E{Key: s.data, Value: 1})
	from, to = clamp(from), clamp(to)
	if from.IsZero() || to.IsZero() {
		return whole
	}
	start, end := s.window.Bounds(from)
	if to.After(end) {
		return whole
	}
	slot := s.levels[len(s.levels)-1]
	up := func(t time.Time) time.Duration { return (t.Sub(start) + slot - 1) / slot * slot }
	var paths []string
	var add func(level int, prefix string, from, to time.Duration)
	add = func(level int, prefix string, from, to time.Duration) {
		unit := s.levels[level]
		for k := from / unit; k*unit < to && len(paths) <= maxPaths; k++ {
			path := prefix + "." + strconv.FormatInt(int64(k), 10)
			first, last := max(from, k*unit), min(to, (k+1)*unit)
			if last-first == unit {
				paths = append(paths, path)
			} else {
				add(level+1, path, first-k*unit, last-k*unit)
			}
		}
	}
	if add(0, s.data, up(from), up(to)); len(paths) > maxPaths {
		return whole
	}
	for _, path := range paths {
		projection = append(projection, bson.E{Key: path, Value: 1})
	}
	return projection
}

// renamed projects what slots decodes.
func (s *Slots[S, M]) renamed() bson.D {
	return bson.D{{Key: "_id", Value: 0}, {Key: "s", Value: "$" + s.start}, {Key: "d", Value: "$" + s.data}}
}

// slots decodes a document into its slots in order. decode is the driver's, so
// that the client's registry counts.
func (s *Slots[S, M]) slots(decode func(any) error) ([]Slot[M], error) {
	var start bson.DateTime
	var out []Slot[M]
	add := func(m *M, keys ...string) {
		if m == nil {
			return
		}
		var offset int64
		for i, key := range keys {
			n, err := strconv.ParseInt(key, 10, 64)
			if err != nil {
				return // nothing this package wrote
			}
			offset += n * s.levels[i].Milliseconds()
		}
		out = append(out, Slot[M]{Time: time.UnixMilli(int64(start) + offset).UTC(), Value: *m})
	}
	switch len(s.levels) {
	case 1:
		var doc struct {
			S bson.DateTime `bson:"s"`
			D map[string]*M `bson:"d"`
		}
		if err := decode(&doc); err != nil {
			return nil, err
		}
		start = doc.S
		for key, m := range doc.D {
			add(m, key)
		}
	case 2:
		var doc struct {
			S bson.DateTime            `bson:"s"`
			D map[string]map[string]*M `bson:"d"`
		}
		if err := decode(&doc); err != nil {
			return nil, err
		}
		start = doc.S
		for first, inner := range doc.D {
			for second, m := range inner {
				add(m, first, second)
			}
		}
	default:
		var doc struct {
			S bson.DateTime                       `bson:"s"`
			D map[string]map[string]map[string]*M `bson:"d"`
		}
		if err := decode(&doc); err != nil {
			return nil, err
		}
		start = doc.S
		for first, inner := range doc.D {
			for second, innermost := range inner {
				for third, m := range innermost {
					add(m, first, second, third)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Slot[M]) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// Latest returns the slot of series with the latest time; ErrNotFound if there
// is none.
//
// Cost: 1 round trip; index {series, start}, 1 key; one more for each newest
// window that Unset has emptied.
func (s *Slots[S, M]) Latest(ctx context.Context, series S) (Slot[M], error) {
	var before time.Time
	for {
		result := s.coll.FindOne(ctx, s.filter(series, time.Time{}, before), options.FindOne().
			SetSort(bson.D{{Key: s.start, Value: -1}}).
			SetProjection(s.renamed()))
		doc, err := result.Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = ErrNotFound
		}
		var slots []Slot[M]
		if err == nil {
			slots, err = s.slots(result.Decode)
		}
		if err != nil {
			return Slot[M]{}, fmt.Errorf("bucket: latest: series %s: %w", s.text(series), err)
		}
		if len(slots) > 0 {
			return slots[len(slots)-1], nil
		}
		before = dateOf(doc.Lookup("s"))
	}
}

// RangePipeline gives the slots of a range as documents {time, value} in order.
func (s *Slots[S, M]) RangePipeline(series S, from, to time.Time) mongo.Pipeline {
	return append(s.unwound(series, from, to), bson.D{{Key: "$sort", Value: bson.D{{Key: timeKey, Value: 1}}}})
}

func (s *Slots[S, M]) unwound(series any, from, to time.Time) mongo.Pipeline {
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: s.filter(series, from, to)}},
		{{Key: "$project", Value: bson.D{
			{Key: "_id", Value: 0}, {Key: timeKey, Value: op("$toLong", "$"+s.start)}, {Key: valueKey, Value: "$" + s.data},
		}}},
	}
	from, to = ceil(from), ceil(to)
	for _, level := range s.levels {
		pipeline = append(pipeline,
			bson.D{{Key: "$set", Value: bson.D{{Key: valueKey, Value: op("$objectToArray", "$"+valueKey)}}}},
			bson.D{{Key: "$unwind", Value: "$" + valueKey}},
			bson.D{{Key: "$project", Value: bson.D{
				{Key: timeKey, Value: op("$add", "$"+timeKey, op("$multiply", toLong("$"+valueKey+".k", nil), level.Milliseconds()))},
				{Key: valueKey, Value: "$" + valueKey + ".v"},
			}}})
		// Of this level's whole span; a key that is no number has none.
		bounds := bson.D{{Key: "$gt", Value: int64(math.MinInt64)}}
		if !from.IsZero() {
			bounds[0].Value = from.UnixMilli() - level.Milliseconds()
		}
		if !to.IsZero() {
			bounds = append(bounds, bson.E{Key: "$lt", Value: to.UnixMilli()})
		}
		pipeline = append(pipeline, bson.D{{Key: "$match", Value: bson.D{{Key: timeKey, Value: bounds}}}})
	}
	if !from.IsZero() {
		pipeline = append(pipeline, bson.D{{Key: "$match", Value: bson.D{{Key: timeKey, Value: bson.D{{Key: "$gte", Value: from.UnixMilli()}}}}}})
	}
	return append(pipeline, bson.D{{Key: "$set", Value: bson.D{{Key: timeKey, Value: op("$toDate", "$"+timeKey)}}}})
}

// Aggregate returns the aggregates of the number at path field inside the
// measurements of a range, or with field "" of measurements that are numbers.
// Slots without a finite number there are left out. The server computes them
// from the slots.
//
// Cost: 1 round trip; index {series, start}; 1 key and 1 document per window.
func (s *Slots[S, M]) Aggregate(ctx context.Context, series S, from, to time.Time, field string) (ValueStats, error) {
	var stats ValueStats
	cursor, err := s.coll.Aggregate(ctx, s.AggregatePipeline(series, from, to, field))
	if err != nil {
		return stats, fmt.Errorf("bucket: aggregate: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	if cursor.Next(ctx) {
		get := func(name string) bson.RawValue { return rawvalue.Lookup(cursor.Current, name) }
		stats = ValueStats{
			Sum: numberOf(get("sum")), SumSquares: numberOf(get("squares")),
			Min: numberOf(get("min")), Max: numberOf(get("max")),
			First: sampleOf(get("first")), Last: sampleOf(get("last")),
		}
		stats.Count, _ = get("count").AsInt64OK()
	}
	if err := cursor.Err(); err != nil {
		return stats, fmt.Errorf("bucket: aggregate: %w", err)
	}
	return stats, nil
}

// AggregatePipeline is what Aggregate runs: one document {count, sum, min, max,
// first, last, squares}, or none.
func (s *Slots[S, M]) AggregatePipeline(series S, from, to time.Time, field string) mongo.Pipeline {
	path := valueKey
	if field != "" {
		path += "." + field
	}
	number := "$" + path
	sample := bson.D{{Key: timeKey, Value: "$" + timeKey}, {Key: valueKey, Value: number}}
	return append(s.unwound(series, from, to),
		bson.D{{Key: "$match", Value: bson.D{{Key: path, Value: bson.D{
			{Key: "$gt", Value: math.Inf(-1)}, {Key: "$lt", Value: math.Inf(1)}, // numbers only
		}}}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: nil},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "sum", Value: bson.D{{Key: "$sum", Value: number}}},
			{Key: "min", Value: bson.D{{Key: "$min", Value: number}}},
			{Key: "max", Value: bson.D{{Key: "$max", Value: number}}},
			{Key: "first", Value: bson.D{{Key: "$min", Value: sample}}},
			{Key: "last", Value: bson.D{{Key: "$max", Value: sample}}},
			{Key: "squares", Value: bson.D{{Key: "$sum", Value: op("$multiply", inexact(number), inexact(number))}}},
		}}})
}
