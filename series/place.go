package series

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A place is a window of a series: where its documents are.
type place struct {
	series   bson.RawValue
	start    int64 // in milliseconds
	end      int64
	identity string // the same for equal places
}

func (c *store) place(series bson.RawValue, ms int64) place {
	start, end := c.window.Bounds(time.UnixMilli(ms))
	p := place{series: series, start: start.UnixMilli(), end: end.UnixMilli()}
	p.identity = identity(series, p.start)
	return p
}

func identity(series bson.RawValue, start int64) string {
	return fmt.Sprint(start) + value.Key(series)
}

// seriesOf encodes what tells series apart.
func (c *store) seriesOf(series any) (bson.RawValue, error) {
	raw, err := c.codec.Value(series)
	if err == nil && value.CheckKey(raw) != nil {
		err = fault.Invalid("%w", value.CheckKey(raw))
	}
	if err != nil {
		return raw, fmt.Errorf("key of the series: %w", err)
	}
	return raw, nil
}

// The years 1 to 9999, whose times all BSON libraries can read.
var earliest, beyond = time.Time{}.UnixMilli(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func checkTime(ms int64) error {
	switch {
	case ms == earliest:
		return fault.Invalid("no time")
	case ms < earliest || ms >= beyond:
		return fault.Invalid("the time %v is not in the years 1 to 9999", time.UnixMilli(ms).UTC())
	}
	return nil
}

func (c *store) key() bson.D {
	return bson.D{{Key: c.opts.SeriesField, Value: 1}, {Key: c.opts.StartField, Value: 1}}
}

// within is all documents of the place.
func (c *store) within(p place) bson.D {
	return bson.D{{Key: c.opts.SeriesField, Value: value.Equal(p.series)}, {Key: c.opts.StartField, Value: bson.DateTime(p.start)}}
}

// documentID is the _id of a document.
func (c *store) documentID(p place, n any) bson.D {
	return bson.D{{Key: c.opts.SeriesField, Value: p.series}, {Key: c.opts.StartField, Value: bson.DateTime(p.start)}, {Key: seqKey, Value: n}}
}

// itself selects one document by _id and shard key.
func (c *store) itself(doc bson.Raw) bson.D {
	return bson.D{
		{Key: "_id", Value: stored(doc.Lookup("_id"))},
		{Key: c.opts.SeriesField, Value: stored(value.Lookup(doc, c.opts.SeriesField))},
		{Key: c.opts.StartField, Value: stored(value.Lookup(doc, c.opts.StartField))},
	}
}

// unchanged selects a document as long as no block of it has been rewritten, and with
// appends none has come: each raises the count.
func (c *store) unchanged(doc bson.Raw, appends bool) bson.D {
	fields := []string{c.opts.RevisionField}
	if appends {
		fields = append(fields, c.opts.CountField)
	}
	filter := c.itself(doc)
	for _, field := range fields {
		filter = append(filter, bson.E{Key: field, Value: stored(value.Lookup(doc, field))})
	}
	return filter
}

// stored is equality with a value that was read: the zero RawValue is a missing field.
func stored(v bson.RawValue) any {
	if v.Type == 0 {
		return bson.D{{Key: "$exists", Value: false}}
	}
	return value.Equal(v)
}

// filter selects the documents that can hold something of a range.
func (c *store) filter(series any, from, to time.Time) bson.D {
	var equal any = series // for the driver to refuse, if it cannot be encoded
	if raw, err := c.codec.Value(series); err == nil {
		equal = value.Equal(raw)
	}
	filter := bson.D{{Key: c.opts.SeriesField, Value: equal}}
	var starts bson.D
	first, end := limits(from, to)
	if first != math.MinInt64 {
		start, _ := c.window.Bounds(time.UnixMilli(first))
		starts = append(starts, bson.E{Key: "$gte", Value: start})
	}
	if end != math.MaxInt64 {
		starts = append(starts, bson.E{Key: "$lt", Value: bson.DateTime(end)})
	}
	if starts != nil {
		filter = append(filter, bson.E{Key: c.opts.StartField, Value: starts})
	}
	return filter
}

// limits are a range in milliseconds, rounded up, so that comparing stored times with
// them is exact.
func limits(from, to time.Time) (first, end int64) {
	first, end = math.MinInt64, math.MaxInt64
	if !from.IsZero() {
		first = from.Add(time.Millisecond - 1).UnixMilli()
	}
	if !to.IsZero() {
		end = to.Add(time.Millisecond - 1).UnixMilli()
	}
	return first, end
}

// find reads documents, which stay valid.
func find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

func dateValue(ms int64) bson.RawValue { return rawValue(bson.DateTime(ms)) }

func rawValue(v any) bson.RawValue {
	kind, data, _ := bson.MarshalValue(v)
	return bson.RawValue{Type: kind, Value: data}
}
