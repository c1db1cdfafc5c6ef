package bucket

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

var (
	// ErrContended says that other writers filled every bucket that was tried, or that another unique index
	// refuses the write; the last duplicate-key error is wrapped. It matches ErrConflict.
	ErrContended = fault.New("gave up after repeated duplicate keys", fault.ErrConflict)

	// ErrSkip is for the convert function of Adopt to return, wrapped or not: the document is counted as
	// Skipped and not looked at again.
	ErrSkip = fault.New("skip this document", nil)

	// ErrConcurrentAdopt says that another Adopt of the same source is running. It matches ErrConflict.
	ErrConcurrentAdopt = fault.New("another adoption of this source is running", fault.ErrConflict)
)

// ByCount is one window for all times: buckets are cut by Options.MaxCount alone, in the order in which
// measurements come, as pages of trades are. [Buckets.Page] reads them by number. The start of every bucket
// is 0001-01-01; a Range sorts all of a series, and nothing is ever old enough for Archive.
func ByCount() timeseries.Window { return always{} }

type always struct{}

func (always) Bounds(time.Time) (start, end time.Time) { return time.Time{}, frame.Beyond }

// Options names the fields of a bucket and chooses what it keeps. The zero value stores {series, start,
// measurements, count}, without aggregates and de-duplication.
//
// SeriesField, StartField, EndField, ArrayField, CountField and BytesField are plain names. TimeField,
// IDField and every path of a [Value] may be dotted.
type Options struct {
	SeriesField string             // the key of the series. Default "series"
	StartField  string             // the window's first instant. Default "start"
	EndField    string             // the window's end. Default "": not stored
	EndTime     timeseries.EndTime // which instant that is. Default LastMillisecond
	ArrayField  string             // the measurements, in the order they came. Default "measurements"
	CountField  string             // their number. Default "count"

	// TimeField is the path, inside a measurement, of its time, a BSON date; the zero time.Time is none.
	// Default "timestamp".
	TimeField string
	// IDField is the path, inside a measurement, of an ID by which a repeated one is recognized. Every
	// measurement needs one then, not "" or the zero ObjectID, and EnsureIndexes must have run. Default "":
	// no de-duplication.
	IDField string

	// Values are the numbers whose aggregates buckets keep. With Squares, Sum is a Decimal128 with all digits of
	// its doubles. Without, it is an int while all numbers are ints and none exceeds 2^63 / MaxCount (9.2e15 by
	// default); larger ones count as doubles, so that no sum overflows. The server adds a double to a Decimal128
	// with 15 digits: keep to one of the two. Default none: only the count.
	Values []timeseries.Value

	// MaxCount is how many measurements a bucket takes. Default 1000.
	MaxCount int
	// MaxBytes is how many bytes of measurements (the sum of their BSON sizes) a bucket takes. Default 0: a
	// bucket that the server calls too large is full, which costs a refused write.
	MaxBytes int
	// BytesField holds the bytes of a bucket. Default "bytes" with MaxBytes, else "": not stored.
	BytesField string

	// Metadata returns further fields for the first write of a bucket, which must fit a document together with a
	// measurement. Default nil: none.
	Metadata func(series any, start time.Time) bson.D

	// Registry and BSON encode and decode. Give the client's own if it has them: a collection does not show
	// them. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// settings completes the options and lists the fields of a bucket.
func (o *Options) settings() []config.Setting {
	bytes := ""
	if o.MaxBytes > 0 {
		bytes = "bytes"
	}
	out := []config.Setting{
		config.Name("Options.SeriesField", &o.SeriesField, "series"),
		config.Name("Options.StartField", &o.StartField, "start"),
		config.Name("Options.EndField", &o.EndField, ""),
		config.Name("Options.ArrayField", &o.ArrayField, "measurements"),
		config.Name("Options.CountField", &o.CountField, "count"),
		config.Name("Options.BytesField", &o.BytesField, bytes),
		config.Number("Options.EndTime", (*int)(&o.EndTime), 0, 0, int(timeseries.LastSecond)),
		config.Number("Options.MaxCount", &o.MaxCount, 1000, 1, 1<<30),
		config.Number("Options.MaxBytes", &o.MaxBytes, 0, 0, frame.MaxBytes),
		inside("Options.TimeField", &o.TimeField, "timestamp"),
		inside("Options.IDField", &o.IDField, ""),
		frame.Unnumbered(&o.SeriesField, &o.StartField),
	}
	return append(out, frame.Values(o.Values, config.Named)...)
}

// inside is a path in a measurement, which collides with none in the bucket.
func inside(option string, path *string, otherwise string) config.Setting {
	return frame.Inside(option, path, otherwise, config.Named)
}
