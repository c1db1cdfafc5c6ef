// Package frame keeps documents that each hold a window of a series, {_id, series, start, end}: what packages
// bucket, series and slots share.
package frame

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Frame names the fields of the documents.
type Frame struct {
	Pattern            string // the package
	Coll               *mongo.Collection
	Codec              codec.Codec
	Window             timeseries.Window
	Series, Start, End string        // names of fields; End may be ""
	Early              time.Duration // how long before the next window End is
	Guards             []string      // of these fields every append changes one

	Skip, Concurrent, Contended error // of Adopt, and of Again
}

// SeqKey is the field of an _id that numbers the documents of a window.
const SeqKey = "n"

// Check refuses what no frame can have. The settings are those of all fields.
func (f *Frame) Check(settings ...config.Setting) error {
	if err := config.Collections("coll", f.Coll); err != nil {
		return err
	}
	if f.Window == nil {
		return fault.Invalid("window: nil")
	}
	if w, ok := f.Window.(interface{ Valid() error }); ok {
		if err := w.Valid(); err != nil {
			return err
		}
	}
	id := "_id"
	return config.Apply(append([]config.Setting{config.Name("_id", &id, "")}, settings...)...)
}

// Early is how long before the next window an EndField is.
func Early(end timeseries.EndTime) time.Duration {
	if end == timeseries.LastSecond {
		return time.Second
	}
	return time.Millisecond
}

// A Naming is a kind of setting for names: config.Name, Named or Path.
type Naming func(option string, name *string, otherwise string) config.Setting

// Values are the settings of Options.Values, whose Field has a name of this kind. They name the usual fields where a
// Value names none.
func Values(values []timeseries.Value, kind Naming) (out []config.Setting) {
	fields := map[string]bool{}
	for i := range values {
		v, option := &values[i], fmt.Sprintf("Options.Values[%d].", i)
		if below := "stats." + v.Field + "."; *v == (timeseries.Value{Field: v.Field}) {
			v.Sum, v.Squares, v.Min, v.Max, v.Count = below+"sum", below+"squares", below+"min", below+"max", below+"count"
		}
		out = append(out, Inside(option+"Field", &v.Field, "", kind), config.Check(option+"Field", func() error {
			switch {
			case v.Field == "":
				return errors.New("empty")
			case fields[v.Field]:
				return fmt.Errorf("%q is given twice", v.Field)
			}
			fields[v.Field] = true
			return nil
		}), config.Check(option+"Squares", func() error {
			if v.Squares != "" && v.Sum == "" {
				return errors.New("needs Sum")
			}
			return nil
		}),
			config.Path(option+"Sum", &v.Sum, ""), config.Path(option+"Squares", &v.Squares, ""),
			config.Path(option+"Min", &v.Min, ""), config.Path(option+"Max", &v.Max, ""),
			config.Path(option+"First", &v.First, ""), config.Path(option+"Last", &v.Last, ""),
			config.Path(option+"Count", &v.Count, ""))
	}
	return out
}

// The fields of a Sample that is stored. A sample compares field by field: by time, then by value.
const (
	TimeKey  = "time"
	ValueKey = "value"
)

// SampleOf is a stored Sample, the zero Sample if there is none.
func SampleOf(v bson.RawValue) (s timeseries.Sample) {
	if doc, ok := v.DocumentOK(); ok {
		ms, _ := doc.Lookup(TimeKey).DateTimeOK()
		s = timeseries.Sample{Time: time.UnixMilli(ms).UTC(), Value: timeseries.NumberOf(doc.Lookup(ValueKey))}
	}
	return s
}

// Inside is a name or path in a measurement, which collides with none of the document.
func Inside(option string, name *string, otherwise string, kind Naming) config.Setting {
	return config.Check(option, func() error { return config.Apply(kind(option, name, otherwise)) })
}

// Unnumbered refuses SeqKey as a name that stands in _id beside it.
func Unnumbered(series, start *string) config.Setting {
	return config.Check("Options.SeriesField, Options.StartField", func() error {
		if *series == SeqKey || *start == SeqKey {
			return fmt.Errorf("%q is taken in _id", SeqKey)
		}
		return nil
	})
}

// Keys are the keys of the index that all reads use, and of shards.
func (f *Frame) Keys() bson.D {
	return bson.D{{Key: f.Series, Value: 1}, {Key: f.Start, Value: 1}}
}

// A Place is a window of a series: where its documents are.
type Place struct {
	Series     bson.RawValue
	Start, End int64  // in milliseconds
	Key        string // of maps that hold places, the same for equal series
}

// At is the place of a series and a time.
func (f *Frame) At(series bson.RawValue, ms int64) Place {
	start, end := f.Bounds(ms)
	return Place{series, start, end, placeKey(series, start)}
}

// Bounds are those of the window that holds a time.
func (f *Frame) Bounds(ms int64) (start, end int64) {
	from, to := f.Window.Bounds(time.UnixMilli(ms))
	return from.UnixMilli(), to.UnixMilli()
}

func placeKey(series bson.RawValue, start int64) string {
	return strconv.FormatInt(start, 10) + value.Key(series)
}

// Place is where a series and a time belong, if they can be stored.
func (f *Frame) Place(series any, t time.Time) (Place, error) {
	raw, err := f.SeriesOf(series)
	if err == nil {
		err = CheckTime(t)
	}
	if err != nil {
		return Place{}, err
	}
	return f.At(raw, t.UnixMilli()), nil
}

// KeyOf is the key of the place of a document.
func (f *Frame) KeyOf(doc bson.Raw) string {
	return placeKey(value.Lookup(doc, f.Series), f.StartOf(doc))
}

// StartOf is the start of a document.
func (f *Frame) StartOf(doc bson.Raw) int64 {
	ms, _ := value.Lookup(doc, f.Start).DateTimeOK()
	return ms
}

// SeriesOf encodes what tells series apart.
func (f *Frame) SeriesOf(series any) (bson.RawValue, error) {
	raw, err := f.Codec.Value(series)
	if err == nil {
		err = CheckKey(raw)
	}
	if err != nil {
		return raw, fmt.Errorf("series: %w", err)
	}
	return raw, nil
}

// CheckKey refuses what can be no series.
func CheckKey(v bson.RawValue) error {
	if err := value.CheckKey(v); err != nil {
		return fault.Invalid("%w", err)
	}
	return nil
}

// Beyond ends the years 1 to 9999, whose times all BSON libraries can read.
var Beyond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckTime refuses what can be no time of a measurement, before its milliseconds exceed an int64.
func CheckTime(t time.Time) error {
	switch {
	case t.IsZero():
		return fault.Invalid("no time")
	case t.Before(time.Time{}) || !t.Before(Beyond):
		return fault.Invalid("the time %v is not in the years 1 to 9999", t.UTC())
	}
	return nil
}

// Named says which measurement of the place an error is about.
func (p Place) Named(ms int64, which string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("series %s, time %s%s: %w", value.Text(p.Series), time.UnixMilli(ms).UTC().Format(time.RFC3339Nano), which, err)
}

// ID is the _id of a document, which n numbers.
func (f *Frame) ID(p Place, n any) bson.D {
	return bson.D{{Key: f.Series, Value: p.Series}, {Key: f.Start, Value: bson.DateTime(p.Start)}, {Key: SeqKey, Value: n}}
}

// Within is all documents of the place.
func (f *Frame) Within(p Place) bson.D {
	return bson.D{{Key: f.Series, Value: value.Equal(p.Series)}, {Key: f.Start, Value: bson.DateTime(p.Start)}}
}

// Since is the documents of a place from number n on, by _id.
func (f *Frame) Since(p Place, n int64) bson.D {
	return append(f.Within(p), bson.E{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: f.ID(p, n)}, {Key: "$lt", Value: f.ID(p, "")}, // numbers only
	}})
}

// Created is what the first write of a document sets besides its place. Metadata must not move it to another;
// other names that are taken are the server's to refuse.
func (f *Frame) Created(p Place, series any, metadata func(series any, start time.Time) bson.D) (bson.Raw, error) {
	var out bson.D
	if metadata != nil {
		out = append(out, metadata(series, time.UnixMilli(p.Start).UTC())...)
	}
	for _, field := range out {
		if name, _, _ := strings.Cut(field.Key, "."); name == f.Series || name == f.Start || name == "_id" {
			return nil, fault.Invalid("field %q of Metadata: the name is taken", field.Key)
		}
	}
	if f.End != "" {
		out = append(out, bson.E{Key: f.End, Value: f.EndOf(p.End)})
	}
	if out == nil {
		return nil, nil
	}
	return f.Codec.Document(out)
}

// MaxBytes leaves room below the server's 16 MiB for what is not measurements.
const MaxBytes = 16<<20 - 64<<10

// One begins a filter on the document of number n, with the shard key or without. Upserting on it and more makes
// the document if there is none, and is a duplicate key on _id if there is one that was not selected.
func (f *Frame) One(p Place, n int64, sharded bool) *codec.Builder {
	b := codec.Build(192 + 2*len(p.Series.Value))
	b.Open("_id")
	b.Value(f.Series, p.Series)
	b.Date(f.Start, p.Start)
	b.Int(SeqKey, n)
	b.Close()
	if sharded {
		f.Where(b, p)
	}
	return b
}

// Where writes Within.
func (f *Frame) Where(b *codec.Builder, p Place) {
	if p.Series.Type == bson.TypeEmbeddedDocument {
		b.Open(f.Series)
		b.Value("$eq", p.Series)
		b.Close()
	} else {
		b.Value(f.Series, p.Series)
	}
	b.Date(f.Start, p.Start)
}

// Itself selects one document by _id and shard key, with Guards as long as they hold what was read.
func (f *Frame) Itself(doc bson.Raw, guards ...string) bson.D {
	filter := bson.D{{Key: "_id", Value: stored(doc.Lookup("_id"))}}
	for _, field := range append([]string{f.Series, f.Start}, guards...) {
		filter = append(filter, bson.E{Key: field, Value: stored(value.Lookup(doc, field))})
	}
	return filter
}

// stored is the condition that a field holds what was read; the zero RawValue is a missing field.
func stored(v bson.RawValue) any {
	if v.Type == 0 {
		return bson.D{{Key: "$exists", Value: false}}
	}
	return value.Equal(v)
}

// Filter selects the documents that can hold something of a range. A series that cannot be encoded stays as
// it is, for the driver to refuse.
func (f *Frame) Filter(series any, from, to time.Time) bson.D {
	if raw, err := f.Codec.Value(series); err == nil {
		series = value.Equal(raw)
	}
	filter := bson.D{{Key: f.Series, Value: series}}
	low, high := Limits(from, to)
	if low != math.MinInt64 {
		low, _ = f.Bounds(low)
	}
	if starts := Between(low, high); starts != nil {
		filter = append(filter, bson.E{Key: f.Start, Value: starts})
	}
	return filter
}

// Limits are a range in milliseconds, rounded up, so that comparing stored times with them is exact. What no int64
// holds is before or after all of them, as the largest time.Time that callers give for no limit.
func Limits(from, to time.Time) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if !from.IsZero() {
		low = roundUp(from)
	}
	if !to.IsZero() {
		high = roundUp(to)
	}
	return low, high
}

func roundUp(t time.Time) int64 {
	switch {
	case t.Before(time.UnixMilli(math.MinInt64)):
		return math.MinInt64
	case t.After(time.UnixMilli(math.MaxInt64)):
		return math.MaxInt64
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// Between are the conditions of Limits.
func Between(low, high int64) (out bson.D) {
	if low != math.MinInt64 {
		out = append(out, bson.E{Key: "$gte", Value: bson.DateTime(low)})
	}
	if high != math.MaxInt64 {
		out = append(out, bson.E{Key: "$lt", Value: bson.DateTime(high)})
	}
	return out
}

// EndOf is what End holds for a window that ends at a time.
func (f *Frame) EndOf(ms int64) bson.DateTime { return bson.DateTime(ms - f.Early.Milliseconds()) }

// Find reads documents, which stay valid.
func Find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

// First is the first document, ErrNotFound if there is none.
func First(docs iter.Seq2[bson.Raw, error]) (bson.Raw, error) {
	for doc, err := range docs {
		return doc, err
	}
	return nil, fault.ErrNotFound
}

// NoDate is the error of a document whose start is something else.
func (f *Frame) NoDate(doc bson.Raw) error {
	return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s is %s, not a date", f.Start, value.Text(value.Lookup(doc, f.Start))))
}

// Date is a date as it is stored.
func Date(ms int64) bson.RawValue {
	kind, data, _ := bson.MarshalValue(bson.DateTime(ms))
	return bson.RawValue{Type: kind, Value: data}
}

// Number is n of a document's _id; ok is false for what is not this library's.
func Number(doc bson.Raw) (n int64, ok bool) {
	return value.Lookup(doc, "_id."+SeqKey).AsInt64OK()
}

// Known remembers something of places, the zero value for one that it does not know. It may forget.
type Known[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

const mostKnown = 10_000

// Change replaces what is known of a place, and returns it.
func (k *Known[T]) Change(key string, change func(known T) T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.all[key]
	v = change(v)
	if !ok && (k.all == nil || len(k.all) >= mostKnown) {
		k.all = map[string]T{}
	}
	k.all[key] = v
	return v
}
