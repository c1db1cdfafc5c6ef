package bucket

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/window"
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

// EndTime says which instant EndField holds, for a window from 10:00 to 11:00.
type EndTime int

// The instants that an EndField can hold.
const (
	LastMillisecond EndTime = iota // 10:59:59.999, the default
	LastSecond                     // 10:59:59.000
)

// Window cuts time into the intervals that a bucket covers. [Every], [Days], [Months] and [ByCount] are
// windows; others (weeks, shifts, fiscal years) need its one method.
type Window = window.Window

// Every is windows of one length, a whole number of milliseconds, counted from 1970-01-01 00:00 UTC in both
// directions: Every(time.Hour), Every(24*time.Hour) for UTC days.
func Every(length time.Duration) Window { return window.Every(length) }

// Days is calendar days in a time zone; nil is UTC. A day has 23 or 25 hours where the clock changes.
func Days(loc *time.Location) Window { return window.Days(loc) }

// Months is calendar months in a time zone; nil is UTC.
func Months(loc *time.Location) Window { return window.Months(loc) }

// ByCount is one window for all times: buckets are cut by Options.MaxCount alone, in the order in which
// measurements come, as pages of trades are. [Buckets.Page] reads them by number. The start of every bucket
// is 0001-01-01; a Range sorts all of a series, and nothing is ever old enough for Archive.
func ByCount() Window { return always{} }

type always struct{}

func (always) Bounds(time.Time) (start, end time.Time) { return time.Time{}, frame.Beyond }

// Options names the fields of a bucket and chooses what it keeps. The zero value stores {series, start,
// measurements, count}, without aggregates and de-duplication.
//
// SeriesField, StartField, EndField, ArrayField, CountField and BytesField are plain names. TimeField,
// IDField and every path of a [Value] may be dotted.
type Options struct {
	SeriesField string  // the key of the series. Default "series"
	StartField  string  // the window's first instant. Default "start"
	EndField    string  // the window's end. Default "": not stored
	EndTime     EndTime // which instant that is. Default LastMillisecond
	ArrayField  string  // the measurements, in the order they came. Default "measurements"
	CountField  string  // their number. Default "count"

	// TimeField is the path, inside a measurement, of its time, a BSON date; the zero time.Time is none.
	// Default "timestamp".
	TimeField string
	// IDField is the path, inside a measurement, of an ID by which a repeated one is recognized. Every
	// measurement needs one then, not "" or the zero ObjectID, and EnsureIndexes must have run. Default "":
	// no de-duplication.
	IDField string

	// Values are those of which buckets keep aggregates. Default none: only the count.
	Values []Value

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

// A Value is a number inside each measurement and the fields of the bucket that aggregate it. Every path left
// "" is not kept; a bucket path may be dotted ("stats.temperature.sum").
//
// The number may be int32, int64, double or Decimal128. A measurement without it (missing, null, another
// type, NaN, infinite) is refused with ErrInvalid, unless Count is kept: then it is left out of this value's
// aggregates. The server adds a double to a Decimal128 with 15 digits: keep to one of the two.
type Value struct {
	Field string // the path inside the measurement, "temperature" say. Required

	// Sum holds the sum. It is an int while all numbers are ints and none exceeds 2^63 / MaxCount (9.2e15 by
	// default); larger ones count as doubles, so that no sum overflows.
	Sum      string
	Min, Max string // hold the smallest and the largest value
	// First and Last hold {time, value} of the earliest and the latest measurement by time: of several in one
	// millisecond the smallest and the largest value.
	First, Last string
	// Moments holds {sum, squares}, the sums of the numbers and of their squares as Decimal128, for Variance.
	// It takes 60 bytes a bucket, and 1 to 2 µs of the client for each measurement.
	Moments string
	Count   string // holds how many measurements have the number
}

// The fields of First and Last, and of Moments.
const (
	timeKey    = "time"
	valueKey   = "value"
	sumKey     = "sum"
	squaresKey = "squares"
)

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
		config.Number("Options.EndTime", (*int)(&o.EndTime), 0, 0, int(LastSecond)),
		config.Number("Options.MaxCount", &o.MaxCount, 1000, 1, 1<<30),
		config.Number("Options.MaxBytes", &o.MaxBytes, 0, 0, maxBytes),
		inside("Options.TimeField", &o.TimeField, "timestamp"),
		inside("Options.IDField", &o.IDField, ""),
		frame.Unnumbered(&o.SeriesField, &o.StartField),
	}
	fields := map[string]bool{}
	for i := range o.Values {
		v, option := &o.Values[i], fmt.Sprintf("Options.Values[%d].", i)
		out = append(out, inside(option+"Field", &v.Field, ""), config.Check(option+"Field", func() error {
			switch {
			case v.Field == "":
				return errors.New("empty")
			case fields[v.Field]:
				return fmt.Errorf("%q stands twice", v.Field)
			case *v == Value{Field: v.Field}:
				return fmt.Errorf("%q has no field to keep an aggregate in", v.Field)
			}
			fields[v.Field] = true
			return nil
		}),
			config.Path(option+"Sum", &v.Sum, ""), config.Path(option+"Min", &v.Min, ""), config.Path(option+"Max", &v.Max, ""),
			config.Path(option+"First", &v.First, ""), config.Path(option+"Last", &v.Last, ""),
			config.Path(option+"Moments", &v.Moments, ""), config.Path(option+"Count", &v.Count, ""))
	}
	return out
}

// inside is a path in a measurement, which collides with none in the bucket.
func inside(option string, path *string, otherwise string) config.Setting {
	return config.Check(option, func() error { return config.Apply(config.Named(option, path, otherwise)) })
}
