// Package windows has the code that packages bucket, series and slots share: documents that each hold a
// window of a series, {_id, series, start, end}.
package windows

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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Frame names the fields of the documents.
type Frame struct {
	Pattern            string // the package
	Coll               *comment.Collection
	Codec              codec.Codec
	Window             timeseries.Window
	Series, Start, End string        // names of fields; End may be ""
	Early              time.Duration // the time from End to the start of the next window
	Guards             []string      // every append changes at least one of these fields
}

// SeqKey is the field of an _id that numbers the documents of a window.
const SeqKey = "n"

// Check refuses settings that are not valid in any package. The settings must be those of all fields.
func (f *Frame) Check(settings ...config.Setting) error {
	if err := config.Collections("coll", f.Coll.Driver()); err != nil {
		return err
	}
	if err := CheckWindow(f.Window); err != nil {
		return err
	}
	id := "_id"
	return config.Apply(append([]config.Setting{config.Name("_id", &id, "")}, settings...)...)
}

// Early is the time from an EndField to the start of the next window.
func Early(end timeseries.EndTime) time.Duration {
	if end == timeseries.LastSecond {
		return time.Second
	}
	return time.Millisecond
}

// A Naming is a kind of setting for names: config.Name, Named or Path.
type Naming func(option string, name *string, otherwise string) config.Setting

// Values are the settings of Options.Values, whose Field is a name of this kind. A Value without names gets
// the usual fields.
func Values(values []timeseries.Value, kind Naming) (out []config.Setting) {
	fields := map[string]bool{}
	for i := range values {
		v, option := &values[i], fmt.Sprintf("Options.Values[%d].", i)
		if below := "stats." + v.Field + "."; *v == (timeseries.Value{Field: v.Field}) {
			v.Sum, v.Squares, v.Min, v.Max, v.Count = below+"sum", below+"squares", below+"min", below+"max", below+"count"
		}
		out = append(out, Inside(option+"Field", &v.Field, "", kind),
			config.Check(option+"Field", func() error { return checkNew(v.Field, fields) }),
			config.Check(option+"Squares", func() error { return checkSquares(*v) }),
			config.Path(option+"Sum", &v.Sum, ""), config.Path(option+"Squares", &v.Squares, ""),
			config.Path(option+"Min", &v.Min, ""), config.Path(option+"Max", &v.Max, ""),
			config.Path(option+"First", &v.First, ""), config.Path(option+"Last", &v.Last, ""),
			config.Path(option+"Count", &v.Count, ""))
	}
	return out
}

// checkNew refuses a field that is empty or among fields, and adds it to these.
func checkNew(field string, fields map[string]bool) error {
	switch {
	case field == "":
		return errors.New("it is empty")
	case fields[field]:
		return fmt.Errorf("%q is given twice", field)
	}
	fields[field] = true
	return nil
}

func checkSquares(v timeseries.Value) error {
	if v.Squares != "" && v.Sum == "" {
		return errors.New("it needs Sum")
	}
	return nil
}

// The fields of a stored Sample. The server compares samples field by field: by time, then by value.
const (
	TimeKey  = "time"
	ValueKey = "value"
)

// SampleOf decodes a stored Sample; it is the zero Sample if v is not one.
func SampleOf(v bson.RawValue) (s timeseries.Sample) {
	if doc, ok := v.DocumentOK(); ok {
		ms, _ := doc.Lookup(TimeKey).DateTimeOK()
		s = timeseries.Sample{Time: time.UnixMilli(ms).UTC(), Value: timeseries.NumberOf(doc.Lookup(ValueKey))}
	}
	return s
}

// Inside is the setting of a name or path in a measurement, which cannot collide with the fields of the
// document.
func Inside(option string, name *string, otherwise string, kind Naming) config.Setting {
	return config.Apart(kind(option, name, otherwise))
}

// Unnumbered refuses SeqKey as the name of another field of _id.
func Unnumbered(series, start *string) config.Setting {
	return config.Check("Options.SeriesField, Options.StartField", func() error {
		if *series == SeqKey || *start == SeqKey {
			return fmt.Errorf("the name %q is that of another field in _id", SeqKey)
		}
		return nil
	})
}

// Keys are the keys of the index that all reads use, and the shard key.
func (f *Frame) Keys() bson.D {
	return expr.D(f.Series, 1, f.Start, 1)
}

// A Place is a window of a series, to which documents belong.
type Place struct {
	Series     bson.RawValue
	Start, End int64  // in milliseconds
	Key        string // a map key, the same for equal series
}

// At returns the place of a series and a time.
func (f *Frame) At(series bson.RawValue, ms int64) Place {
	start, end := f.Bounds(ms)
	return Place{series, start, end, placeKey(series, start)}
}

// Bounds returns the bounds of the window that holds a time.
func (f *Frame) Bounds(ms int64) (start, end int64) {
	from, to := f.Window.Bounds(time.UnixMilli(ms))
	return from.UnixMilli(), to.UnixMilli()
}

func placeKey(series bson.RawValue, start int64) string {
	return strconv.FormatInt(start, 10) + value.Key(series)
}

// Place returns the place of a series and a time; it refuses those that cannot be stored.
func (f *Frame) Place(series any, t time.Time) (Place, error) {
	raw, err := f.SeriesOf(series)
	if err != nil {
		return Place{}, err
	}
	if err := CheckTime(t); err != nil {
		return Place{}, err
	}
	return f.At(raw, t.UnixMilli()), nil
}

// KeyOf returns the key of a document's place.
func (f *Frame) KeyOf(doc bson.Raw) string {
	return placeKey(value.Lookup(doc, f.Series), f.StartOf(doc))
}

// KeyOfID returns the key of the place that an _id of ID names.
func (f *Frame) KeyOfID(id bson.RawValue) string {
	doc, _ := id.DocumentOK()
	start, _ := doc.Lookup(f.Start).DateTimeOK()
	return placeKey(doc.Lookup(f.Series), start)
}

// StartOf returns the start of a document.
func (f *Frame) StartOf(doc bson.Raw) int64 {
	ms, _ := value.Lookup(doc, f.Start).DateTimeOK()
	return ms
}

// SeriesOf encodes the key of a series.
func (f *Frame) SeriesOf(series any) (bson.RawValue, error) {
	raw, err := f.Codec.Compared(series)
	if err != nil {
		return raw, fmt.Errorf("key of the series: %w", err)
	}
	if err := CheckKey(raw); err != nil {
		return raw, fmt.Errorf("key of the series: %w", err)
	}
	return raw, nil
}

// CheckKey refuses values that cannot identify a series.
func CheckKey(v bson.RawValue) error {
	if err := value.CheckKey(v); err != nil {
		return fault.Invalid("%w", err)
	}
	return nil
}

// Beyond is the end of the years 1 to 9999, the times that all BSON libraries can read.
var Beyond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckWindow refuses a window that is nil, or a length of Every that is not positive.
func CheckWindow(w timeseries.Window) error {
	if w == nil {
		return fault.Invalid("window: it is nil")
	}
	if w, ok := w.(interface{ Valid() error }); ok {
		return w.Valid()
	}
	return nil
}

// CheckTime refuses times that a measurement cannot have. It is called before their milliseconds overflow
// an int64.
func CheckTime(t time.Time) error {
	switch {
	case t.IsZero():
		return fault.Invalid("the time is not set")
	case t.Before(time.Time{}) || !t.Before(Beyond):
		return fault.Invalid("the time %v is not in the years 1 to 9999", t.UTC())
	}
	return nil
}

// CheckTimeOf is CheckTime for the time at a path of a measurement that is not encoded yet.
func (f *Frame) CheckTimeOf(m any, path string) error {
	if t, ok := f.Codec.Time(m, path); ok {
		return CheckTime(t)
	}
	return nil
}

// Named adds to an error which measurement of the place it is about.
func (p Place) Named(ms int64, which string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("series %s, time %s%s: %w", value.Text(p.Series), time.UnixMilli(ms).UTC().Format(time.RFC3339Nano), which, err)
}

// ID is the _id of document n of a place.
func (f *Frame) ID(p Place, n any) bson.D {
	return expr.D(f.Series, p.Series, f.Start, bson.DateTime(p.Start), SeqKey, n)
}

// Within selects all documents of the place.
func (f *Frame) Within(p Place) bson.D {
	return expr.D(f.Series, value.Equal(p.Series), f.Start, bson.DateTime(p.Start))
}

// Since selects the documents of a place from number n on, by _id.
func (f *Frame) Since(p Place, n int64) bson.D {
	return append(f.Within(p), expr.Element("_id", expr.D(
		"$gte", f.ID(p, n), "$lt", f.ID(p, ""), // numbers only
	)))
}

// Created has the fields that the first write of a document sets besides its place. It refuses Metadata
// that would change the place; the server refuses other names that are used already.
func (f *Frame) Created(p Place, series any, metadata func(series any, start time.Time) bson.D) (bson.Raw, error) {
	var out bson.D
	if metadata != nil {
		out = append(out, metadata(series, time.UnixMilli(p.Start).UTC())...)
	}
	for _, field := range out {
		if name, _, _ := strings.Cut(field.Key, "."); name == f.Series || name == f.Start || name == "_id" {
			return nil, fault.Invalid("Metadata must not return the field %q: the package sets it", field.Key)
		}
	}
	if f.End != "" {
		out = append(out, expr.Element(f.End, f.EndOf(p.End)))
	}
	if out == nil {
		return nil, nil
	}
	return f.Codec.Document(out)
}

// MaxBytes leaves space below the server's 16 MiB for fields other than the measurements.
const MaxBytes = 16<<20 - 64<<10

// One begins a filter on document n of a place, with or without the shard key. An upsert with it and
// further conditions creates the document if it does not exist, and is a duplicate key on _id if it exists
// but does not meet the conditions.
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

// Where adds the conditions of Within to a filter.
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

// Alone adds the conditions of Within, and that neither field is an array, which an equality with its element meets.
func (f *Frame) Alone(b *codec.Builder, p Place) {
	condition := func(field string, v bson.RawValue) {
		b.Open(field)
		b.Value("$eq", v)
		b.Open("$not")
		b.Value("$type", arrayType)
		b.Close()
		b.Close()
	}
	condition(f.Series, p.Series)
	condition(f.Start, Date(p.Start))
}

var arrayType = value.Of("array")

// Itself selects one document by _id and shard key, if the guards still have the values that were read.
func (f *Frame) Itself(doc bson.Raw, guards ...string) bson.D {
	filter := expr.D("_id", unchanged(doc.Lookup("_id")))
	for _, field := range append([]string{f.Series, f.Start}, guards...) {
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

// Filter selects the documents that can hold measurements of a range.
func (f *Frame) Filter(series any, from, to time.Time) bson.D {
	filter := expr.D(f.Series, f.Codec.Condition(series))
	low, high := Limits(from, to)
	if low != math.MinInt64 {
		start, _ := f.Bounds(low)
		low = min(low, start) // the start may lie before all milliseconds
	}
	if starts := Between(low, high); starts != nil {
		filter = append(filter, expr.Element(f.Start, starts))
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

// EndOf returns the value of the field End for a window that ends at a time.
func (f *Frame) EndOf(ms int64) bson.DateTime { return bson.DateTime(ms - f.Early.Milliseconds()) }

// Find reads documents. They stay valid.
func Find(ctx context.Context, coll *comment.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

// First returns the first document, ErrNotFound if docs is empty.
func First(docs iter.Seq2[bson.Raw, error]) (bson.Raw, error) {
	for doc, err := range docs {
		return doc, err
	}
	return nil, fault.ErrNotFound
}

// NoDate is the error for a document whose start is not a date.
func (f *Frame) NoDate(doc bson.Raw) error {
	return fault.Of(doc.Lookup("_id"), fault.Malformed("%s is %s, not a date", f.Start, value.Text(value.Lookup(doc, f.Start))))
}

// Date returns a date as it is stored.
func Date(ms int64) bson.RawValue { return value.Of(bson.DateTime(ms)) }

// Number returns n of a document's _id; ok is false if this library did not make the _id.
func Number(doc bson.Raw) (n int64, ok bool) {
	return value.Lookup(doc, "_id."+SeqKey).AsInt64OK()
}

// A Memory has a value by place. It is bounded, so it may forget places; those have the zero value.
type Memory[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

const mostRemembered = 10_000

// Change replaces the value of a place and returns the new one.
func (m *Memory[T]) Change(key string, change func(known T) T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.all[key]
	v = change(v)
	if !ok && (m.all == nil || len(m.all) >= mostRemembered) {
		m.all = map[string]T{}
	}
	m.all[key] = v
	return v
}
