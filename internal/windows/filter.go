package windows

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// PlaceFilter selects all documents of a place.
func (f *Frame) PlaceFilter(p Place) bson.D {
	return expr.D(f.SeriesField, value.Equal(p.Series), f.StartField, bson.DateTime(p.Start))
}

// PlaceFilterNoArrays leaves out what somebody typed with an array of series or starts, which PlaceFilter meets.
func (f *Frame) PlaceFilterNoArrays(p Place) bson.D {
	return append(expr.Is(f.SeriesField, p.Series), expr.Is(f.StartField, Date(p.Start))...)
}

// PlaceFilterFrom selects the documents of a place from number n on, by _id.
func (f *Frame) PlaceFilterFrom(p Place, n int64) bson.D {
	return append(f.PlaceFilter(p), expr.Element("_id", expr.D(
		"$gte", f.ID(p, n), "$lt", f.ID(p, ""), // numbers only
	)))
}

// SeqFilter begins a filter on document n of a place, with or without the shard key. An upsert with it and further
// conditions creates the document if it does not exist, and is a duplicate key on _id if it exists but does not meet the
// conditions.
func (f *Frame) SeqFilter(p Place, n int64, shardKey bool) *codec.Builder {
	b := codec.Build(192 + 2*len(p.Series.Value))
	b.Open("_id")
	b.Value(f.SeriesField, p.Series)
	b.Date(f.StartField, p.Start)
	b.Int(SeqKey, n)
	b.Close()
	if shardKey {
		f.AddPlace(b, p)
	}
	return b
}

// AddPlace adds the conditions of PlaceFilter.
func (f *Frame) AddPlace(b *codec.Builder, p Place) {
	if p.Series.Type == bson.TypeEmbeddedDocument {
		b.Open(f.SeriesField)
		b.Value("$eq", p.Series)
		b.Close()
	} else {
		b.Value(f.SeriesField, p.Series)
	}
	b.Date(f.StartField, p.Start)
}

// AddPlaceNoArrays adds the conditions of PlaceFilterNoArrays.
func (f *Frame) AddPlaceNoArrays(b *codec.Builder, p Place) {
	condition := func(field string, v bson.RawValue) {
		b.Open(field)
		b.Value("$eq", v)
		b.Open("$not")
		b.Value("$type", arrayType)
		b.Close()
		b.Close()
	}
	condition(f.SeriesField, p.Series)
	condition(f.StartField, Date(p.Start))
}

var arrayType = value.New("array")

// UnchangedFilter selects a document by _id and shard key, if the guards still have the values that were read.
func (f *Frame) UnchangedFilter(doc bson.Raw, guards ...string) bson.D {
	filter := expr.D("_id", unchanged(doc.Lookup("_id")))
	for _, field := range append([]string{f.SeriesField, f.StartField}, guards...) {
		filter = append(filter, expr.Element(field, unchanged(value.Lookup(doc, field))))
	}
	return filter
}

// unchanged is the condition that a field has the value that was read; the zero RawValue means a missing
// field.
func unchanged(v bson.RawValue) any {
	if v.Type == 0 {
		return expr.Op("$exists", false)
	}
	return value.Equal(v)
}

// RangeFilter selects the documents of a series that can hold measurements of a range.
func (f *Frame) RangeFilter(series any, from, to time.Time) bson.D {
	filter := expr.D(f.SeriesField, f.Codec.Condition(series))
	low, high := Limits(from, to)
	if low != math.MinInt64 {
		start, _ := f.Bounds(low)
		low = min(low, start) // the start may lie before all milliseconds
	}
	if starts := Between(low, high); starts != nil {
		filter = append(filter, expr.Element(f.StartField, starts))
	}
	return filter
}

// Limits converts a range to the milliseconds that BSON would store, so a measurement lies in a range that begins at
// its own time. A time that does not fit an int64, such as the largest time.Time, which callers may give for no limit,
// becomes a limit before or after all stored times.
func Limits(from, to time.Time) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if !from.IsZero() {
		low = value.Millis(from)
	}
	if !to.IsZero() {
		high = value.Millis(to)
	}
	return low, high
}

// Between returns the conditions for a range from Limits.
func Between(low, high int64) (out bson.D) {
	if low != math.MinInt64 {
		out = append(out, expr.Element("$gte", bson.DateTime(low)))
	}
	if high != math.MaxInt64 {
		out = append(out, expr.Element("$lt", bson.DateTime(high)))
	}
	return out
}
