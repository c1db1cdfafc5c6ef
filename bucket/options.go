package bucket

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// ByCount returns one window for all times. So only Options.MaxCount divides measurements into buckets, in
// the order in which they arrive, like numbered pages of trades. [Buckets.Bucket] reads a bucket by number.
// The start of every bucket is 0001-01-01. Range sorts the whole series, and no bucket is ever old enough
// for Archive.
func ByCount() timeseries.Window { return always{} }

type always struct{}

func (always) Bounds(time.Time) (start, end time.Time) { return time.Time{}, windows.Beyond }

// Options names the fields of a bucket and chooses what it keeps. The zero value stores {series, start,
// measurements, count}, without aggregates and de-duplication.
//
// SeriesField, StartField, EndField, ArrayField, CountField and BytesField are plain names. TimeField,
// IDField and every path of a [timeseries.Value] may be dotted.
type Options struct {
	SeriesField string             // the key of the series. Default "series"
	StartField  string             // the window's first instant. Default "start"
	EndField    string             // the window's end. Default "": not stored
	EndTime     timeseries.EndTime // which instant EndField holds. Default LastMillisecond
	ArrayField  string             // the measurements, in the order in which they came. Default "measurements"
	CountField  string             // the number of measurements. Default "count"

	// TimeField is the path, inside a measurement, of its time, a BSON date. A measurement with the zero
	// time.Time is refused. Default "timestamp".
	TimeField string
	// IDField is the path, inside a measurement, of an ID by which a repeated measurement is recognized. An
	// ID is stored only once in a window of a series, until Archive moves the window. It may be the TimeField, if a series has at most one
	// measurement at a time, such as one each minute. If it is set, every measurement needs an ID other than
	// "" and the zero ObjectID, and EnsureIndexes must have run. Default "": no de-duplication.
	IDField string

	// Values are the numbers whose aggregates buckets keep. Default none: only the count.
	//
	// With Squares, Sum is a Decimal128 with all digits of its doubles. Without Squares, the Sum of ints is
	// an int, and a sum with a double in it is a double. An int above 2^63 / MaxCount (9.2e15 by default)
	// counts as a double, so that no sum can overflow. Without Squares do not mix doubles and Decimal128 in
	// one field, because the server then adds the doubles with 15 digits only.
	Values []timeseries.Value

	// MaxCount is how many measurements a bucket takes. Default 1000.
	MaxCount int
	// MaxBytes is how many bytes of measurements (the sum of their BSON sizes) a bucket takes. Default 0: a
	// bucket is full when the server refuses a write to it as too large, which costs that write.
	MaxBytes int
	// BytesField holds the bytes of a bucket. Default "bytes" with MaxBytes, else "": not stored.
	BytesField string

	// Metadata returns further fields that the first write of a bucket stores. The series that it gets is an
	// ID. The fields and one measurement must fit into one document. Default nil: no further fields.
	Metadata func(series any, start time.Time) bson.D

	// Registry and BSON encode and decode. By default BSON is what the client has. The client's registry cannot be
	// read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
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
		config.Number("Options.MaxBytes", &o.MaxBytes, 0, 0, windows.MaxBytes),
		inside("Options.TimeField", &o.TimeField, "timestamp"),
		inside("Options.IDField", &o.IDField, ""),
		windows.Unnumbered(&o.SeriesField, &o.StartField),
	}
	return append(out, windows.Values(o.Values, config.Named)...)
}

// inside is the setting of a path in a measurement, which cannot collide with the fields of the bucket.
func inside(option string, path *string, otherwise string) config.Setting {
	return windows.Inside(option, path, otherwise, config.Named)
}
