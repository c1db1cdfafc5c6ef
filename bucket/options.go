package bucket

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

const (
	defaultMaxCount   = 1000
	defaultMaxRetries = 16
	defaultBatchSize  = 1000
	// maxBytes leaves room below the server's 16 MiB for what is not measurements.
	maxBytes = 16<<20 - 64<<10
	// elementOverhead is what an array element takes besides its document.
	elementOverhead = 10
)

// Options names the fields of a bucket and chooses what it keeps. The zero value
// stores {series, start, measurements, count}, without aggregates and
// de-duplication.
//
// SeriesField, StartField, EndField, ArrayField, CountField and BytesField are
// plain names. TimeField, IDField and every path of a [Value] may be dotted.
type Options struct {
	// SeriesField holds the key of the series. Default "series".
	SeriesField string
	// StartField holds the window's first instant. Default "start".
	StartField string
	// EndField holds the window's last millisecond (10:59:59.999), or with
	// ExclusiveEnd the start of the next window. Default "": not stored.
	EndField     string
	ExclusiveEnd bool
	// ArrayField holds the measurements, in the order they came. Default
	// "measurements".
	ArrayField string
	// CountField holds their number. Default "count".
	CountField string

	// TimeField is the path, inside a measurement, of its time, a BSON date; the
	// zero time.Time is none. Default "timestamp".
	TimeField string
	// IDField is the path, inside a measurement, of an ID by which a repeated
	// Append is recognized. Every measurement needs one then, not "" or the zero
	// ObjectID, and EnsureIndexes must have run. Default "": no de-duplication.
	IDField string

	// Values are the measured values of which buckets keep aggregates. Default
	// none: only measurements are counted.
	Values []Value

	// MaxCount is how many measurements a bucket takes; the next one goes to a
	// further bucket of the same window. Default 1000.
	MaxCount int
	// MaxBytes is how many bytes of measurements (the sum of their BSON sizes) a
	// bucket takes. It needs BytesField, and MaxBytes + 10 × MaxCount must stay
	// below 16 MiB − 64 KiB. Default 0: no limit besides MaxCount, so MaxCount
	// times the largest measurement must stay below 16 MiB.
	MaxBytes int
	// BytesField holds the bytes of a bucket. Default "": not stored.
	BytesField string

	// Sorted keeps the array in time order on every write, for those who read
	// the documents themselves. Default false: in the order of arrival. Reads
	// of this package are in time order either way.
	Sorted bool

	// Metadata returns further fields for the first write of a bucket, not of
	// the names above. Default nil: none.
	Metadata func(series any, start time.Time) bson.D

	// RetentionIndex adds {start: 1} to Indexes, which Archive and DeleteBefore
	// over all series scan instead of the collection. Default false.
	RetentionIndex bool

	// MaxRetries is how often a write is tried again after a duplicate key, that
	// is, after other writers filled the bucket. Default 16.
	MaxRetries int

	// Registry encodes series and measurements. Give the client's own registry
	// if it has one: a collection does not show it. Default nil: the driver's.
	Registry *bson.Registry
}

// A Value is a number inside each measurement and the fields of the bucket that
// aggregate it. Every path left "" is not kept; a bucket path may be dotted
// ("stats.temperature.sum").
//
// The number may be int32, int64, double or Decimal128. A measurement without
// it (missing, null, another type, NaN, infinite) is refused with ErrInvalid,
// unless Count is kept: then it is left out of this value's aggregates. Doubles
// among Decimal128 are added with 15 digits, and Check, to whom the server adds
// them exactly, may call such a sum wrong: keep to one of the two.
type Value struct {
	// Field is the path inside the measurement, "temperature" say. Required.
	Field string

	// Sum holds the sum. It is an int while all numbers are ints and none
	// exceeds 2^63 / MaxCount (9.2e15 by default); larger ones count as doubles,
	// so that no sum overflows.
	Sum string
	// Min and Max hold the smallest and the largest value.
	Min, Max string
	// First and Last hold {time, value} of the earliest and the latest
	// measurement by time, late arrivals included. Among several in one
	// millisecond First is the smallest and Last the largest value.
	First, Last string
	// SumSquares holds the sum of squares, for variance: a double, or a
	// Decimal128.
	SumSquares string
	// Count holds how many measurements have the number.
	Count string
}

// The fields of First and Last.
const (
	timeKey  = "time"
	valueKey = "value"
)

// seqKey is the field of a bucket's _id that numbers the buckets of a window.
const seqKey = "n"

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	setDefault(&out.SeriesField, "series")
	setDefault(&out.StartField, "start")
	setDefault(&out.ArrayField, "measurements")
	setDefault(&out.CountField, "count")
	setDefault(&out.TimeField, "timestamp")
	if out.MaxCount == 0 {
		out.MaxCount = defaultMaxCount
	}
	if out.MaxRetries == 0 {
		out.MaxRetries = defaultMaxRetries
	}
	out.Values = append([]Value(nil), out.Values...)
	return out, out.check()
}

func (o *Options) check() error {
	names := []string{"_id", "_id"}
	for _, f := range []struct{ option, name string }{
		{"Options.SeriesField", o.SeriesField}, {"Options.StartField", o.StartField},
		{"Options.EndField", o.EndField}, {"Options.ArrayField", o.ArrayField},
		{"Options.CountField", o.CountField}, {"Options.BytesField", o.BytesField},
	} {
		if f.name == "" {
			continue // EndField, BytesField
		}
		if err := fieldpath.CheckName(f.option, f.name); err != nil {
			return err
		}
		names = append(names, f.option, f.name)
	}
	if err := checkID("Options", o.SeriesField, o.StartField); err != nil {
		return err
	}
	if err := fieldpath.CheckNamed("Options.TimeField", o.TimeField); err != nil {
		return err
	}
	if o.IDField != "" {
		if err := fieldpath.CheckNamed("Options.IDField", o.IDField); err != nil {
			return err
		}
	}
	fields := map[string]bool{}
	for i, v := range o.Values {
		option := fmt.Sprintf("Options.Values[%d]", i)
		if err := fieldpath.CheckNamed(option+".Field", v.Field); err != nil {
			return err
		}
		if fields[v.Field] {
			return fmt.Errorf("%s.Field: %q stands twice", option, v.Field)
		}
		fields[v.Field] = true
		stored := 0
		for _, f := range []struct{ option, name string }{
			{"Sum", v.Sum}, {"Min", v.Min}, {"Max", v.Max}, {"First", v.First}, {"Last", v.Last},
			{"SumSquares", v.SumSquares}, {"Count", v.Count},
		} {
			if f.name == "" {
				continue
			}
			stored++
			if err := fieldpath.CheckPath(option+"."+f.option, f.name); err != nil {
				return err
			}
			names = append(names, option+"."+f.option, f.name)
		}
		if stored == 0 {
			return fmt.Errorf("%s: names no field to keep an aggregate in", option)
		}
	}
	if err := fieldpath.CheckDisjoint(names...); err != nil {
		return err
	}
	switch {
	case o.MaxCount < 0:
		return errors.New("Options.MaxCount: negative")
	case o.MaxRetries < 0:
		return errors.New("Options.MaxRetries: negative")
	case o.MaxBytes < 0:
		return errors.New("Options.MaxBytes: negative")
	case o.MaxBytes > 0 && o.BytesField == "":
		return errors.New("Options.MaxBytes: needs Options.BytesField")
	case o.MaxBytes > 0 && o.MaxBytes+elementOverhead*o.MaxCount > maxBytes:
		return errors.New("Options.MaxBytes: with 10 bytes for each of Options.MaxCount it exceeds a document's 16 MiB")
	}
	return nil
}

// checkID refuses names that would stand twice in a bucket's _id.
func checkID(prefix, series, start string) error {
	for _, f := range []struct{ option, name string }{{"SeriesField", series}, {"StartField", start}} {
		if f.name == seqKey {
			return fmt.Errorf("%s.%s: %q is taken in _id", prefix, f.option, seqKey)
		}
	}
	return nil
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// BatchOptions bounds work on many measurements or buckets.
type BatchOptions struct {
	// BatchSize is how many measurements (AppendMany, SetMany) or documents
	// (Archive, DeleteBefore) one step writes. Default 1000 measurements, 100
	// documents.
	BatchSize int
	// Progress is called after each step with what this call has done so far.
	// Default nil.
	Progress func(done int64)
	// Filter narrows Archive and DeleteBefore to some bucket documents:
	// bson.D{{Key: "sensor_id", Value: 12345}}. Default nil: all.
	Filter bson.D
}

func (o *BatchOptions) withDefaults(size int) (BatchOptions, error) {
	var out BatchOptions
	if o != nil {
		out = *o
	}
	return out, scan.Defaults(ErrInvalid, "BatchOptions", &out.BatchSize, size, &out.Progress)
}
