package windows

import (
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Place is a window of a series, to which documents belong.
type Place struct {
	Series     bson.RawValue
	Start, End int64  // in milliseconds
	Key        string // a map key, the same for equal series
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
	return f.PlaceAt(raw, t.UnixMilli()), nil
}

// SeriesOf encodes the key of a series.
func (f *Frame) SeriesOf(series any) (bson.RawValue, error) {
	raw, err := f.Codec.Compared(series)
	if err != nil {
		return raw, fmt.Errorf("key of the series: %w", err)
	}
	if err := value.CheckKey(raw); err != nil {
		return raw, fmt.Errorf("key of the series: %w: %w", fault.ErrInvalid, err)
	}
	return raw, nil
}

// Beyond is the end of the years 1 to 9999, the times that all BSON libraries can read.
var Beyond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

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

// PlaceAt is Place for an encoded series and a time that CheckTime has passed.
func (f *Frame) PlaceAt(series bson.RawValue, ms int64) Place {
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

// KeyOf returns the key of a document's place.
func (f *Frame) KeyOf(doc bson.Raw) string {
	return placeKey(value.Lookup(doc, f.SeriesField), f.StartOf(doc))
}

// KeyOfID returns the key of the place that an _id of ID names.
func (f *Frame) KeyOfID(id bson.RawValue) string {
	doc, _ := id.DocumentOK()
	start, _ := doc.Lookup(f.StartField).DateTimeOK()
	return placeKey(doc.Lookup(f.SeriesField), start)
}

// StartOf returns the start of a document.
func (f *Frame) StartOf(doc bson.Raw) int64 {
	ms, _ := value.Lookup(doc, f.StartField).DateTimeOK()
	return ms
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
	return expr.D(f.SeriesField, p.Series, f.StartField, bson.DateTime(p.Start), SeqKey, n)
}

// SeqOf returns n of a document's _id; ok is false if this library did not make the _id.
func SeqOf(doc bson.Raw) (n int64, ok bool) {
	return value.Lookup(doc, "_id."+SeqKey).AsInt64OK()
}

// EndOf returns the value of the field End for a window that ends at a time.
func (f *Frame) EndOf(ms int64) bson.DateTime { return bson.DateTime(ms - f.Early.Milliseconds()) }
