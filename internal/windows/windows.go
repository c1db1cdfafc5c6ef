// Package windows has the code that packages bucket, series and slots share: documents that each hold a
// window of a series, {_id, series, start, end}.
package windows

import (
	"iter"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Frame is what the three packages know of their documents. Each sets it in its New.
type Frame struct {
	Pattern     string // the package
	Coll        *scoped.Collection
	Codec       codec.Codec
	Window      timeseries.Window
	SeriesField string
	StartField  string
	EndField    string        // may be ""
	Early       time.Duration // the time from the end in EndField to the start of the next window
	Guards      []string      // every append changes at least one of these fields
}

// SeqKey is the field of an _id that numbers the documents of a window.
const SeqKey = "n"

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

// Keys are the keys of the index that all reads use, and the shard key.
func (f *Frame) Keys() bson.D {
	return expr.D(f.SeriesField, 1, f.StartField, 1)
}

// Created has the fields that the first write of a document sets besides its place. It refuses Metadata
// that would change the place; the server refuses other names that are used already.
func (f *Frame) Created(p Place, series any, metadata func(series any, start time.Time) bson.D) (bson.Raw, error) {
	var out bson.D
	if metadata != nil {
		out = append(out, metadata(series, time.UnixMilli(p.Start).UTC())...)
	}
	for _, field := range out {
		if name, _, _ := strings.Cut(field.Key, "."); name == f.SeriesField || name == f.StartField || name == "_id" {
			return nil, fault.Invalid("Metadata must not return the field %q: the package sets it", field.Key)
		}
	}
	if f.EndField != "" {
		out = append(out, expr.Element(f.EndField, f.EndOf(p.End)))
	}
	if out == nil {
		return nil, nil
	}
	return f.Codec.Document(out)
}

// MaxBytes leaves space below the server's 16 MiB for fields other than the measurements.
const MaxBytes = 16<<20 - 64<<10

// First returns the first document, ErrNotFound if docs is empty.
func First(docs iter.Seq2[bson.Raw, error]) (bson.Raw, error) {
	for doc, err := range docs {
		return doc, err
	}
	return nil, fault.ErrNotFound
}

// CheckStart refuses a document whose start is not a date, which has no window.
func (f *Frame) CheckStart(doc bson.Raw) error {
	if value.Lookup(doc, f.StartField).Type == bson.TypeDateTime {
		return nil
	}
	return fault.Of(doc.Lookup("_id"), fault.Malformed("%s is %s, not a date", f.StartField, value.Text(value.Lookup(doc, f.StartField))))
}

// Date returns a date as it is stored.
func Date(ms int64) bson.RawValue { return value.Date(bson.DateTime(ms)) }
