package series

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Errors beside those of the root package.
var (
	// ErrDamaged says that a block is not what this package has written. The error
	// names the document; Check finds all of them.
	ErrDamaged = pack.ErrDamaged

	// ErrNewer says that a later version of this package has written a block, as in a
	// rolling upgrade. It is sound: read it with that version.
	ErrNewer = pack.ErrNewer

	// ErrSkip is for the convert function of Adopt to return, wrapped or not: the
	// document is counted as Skipped and not looked at again.
	ErrSkip = fault.New("skip this document", nil)

	// ErrConcurrentAdopt says that another Adopt of the same source is running. It
	// matches ErrConflict.
	ErrConcurrentAdopt = fault.New("another adoption of this source is running", fault.ErrConflict)

	// ErrClosed: the gatherer was closed before the call. It matches ErrInvalid.
	ErrClosed = fault.New("closed", fault.ErrInvalid)
)

const (
	defaultMaxCount = 100_000
	defaultMaxBytes = 256 << 10
	// A document is full from MaxBytes on, so it can hold one block more than that:
	// together they stay below the server's 16 MiB.
	largestMaxBytes = 8 << 20
	largestRoom     = 64 << 10
	largestRow      = 4 << 20
	// A block takes so many measurements, or bytes of them, at most.
	blockRows  = 1 << 14
	blockBytes = 1 << 20
)

// Options name the fields of a document and bound it. The zero value keeps {series,
// start, count, bytes, blocks, revision, mark}, without sums.
//
// All names but the paths of Values are plain.
type Options struct {
	// SeriesField holds the key of the series. Default "series".
	SeriesField string
	// StartField holds the window's first instant. Default "start".
	StartField string
	// EndField holds the window's last millisecond. Default "": not stored.
	EndField string
	// CountField holds the number of measurements. Default "count".
	CountField string
	// BytesField holds the bytes of the blocks. Default "bytes".
	BytesField string
	// BlocksField is the array of blocks, one for each batch, of which Compact makes one.
	// Default "blocks".
	BlocksField string
	// RevisionField counts what rewrites blocks: Compact, Update, Delete. Default
	// "revision".
	RevisionField string
	// MarkField holds a random number that a document gets when it is begun. By it a call
	// that has read a document does not write to a later one with the same _id, begun after
	// the first was archived or expired. Default "mark".
	MarkField string
	// BatchField is an array of {id, at}: the IDs of batches, by which a repeated batch is
	// not stored again, and when they came by the clock of their writer. Compact, Update
	// and Delete keep those of the last ten minutes. EnsureIndexes must have run.
	// Default "": no de-duplication.
	BatchField string

	// TimeField is the field of a measurement with its time, a BSON date. Default
	// "timestamp".
	TimeField string
	// Values are the numbers whose aggregates documents keep; Field is a name. Sum and
	// Squares are Decimal128, exact up to 34 digits in whatever order measurements come. A
	// double counts as the shortest decimal that reads back as it: ten times 0.1 is 1.
	// Default none: only measurements are counted.
	Values []timeseries.Value

	// MaxCount and MaxBytes bound a document: from so many measurements, or bytes of
	// blocks, on the next batch begins a further one of the same window. Each writer may
	// add a sixteenth before it notices. Default 100,000 and 256 KiB.
	MaxCount, MaxBytes int

	// Registry and BSON encode series and measurements, and decode the latter.
	// Give the client's own if it has them: a collection does not show them.
	// Default nil: the driver's. With either of them measurements take about ten
	// times as long as flat structs do without.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// settings completes the options and lists the fields of a document.
func (o *Options) settings() []config.Setting {
	out := []config.Setting{
		config.Name("Options.SeriesField", &o.SeriesField, "series"),
		config.Name("Options.StartField", &o.StartField, "start"),
		config.Name("Options.EndField", &o.EndField, ""),
		config.Name("Options.CountField", &o.CountField, "count"),
		config.Name("Options.BytesField", &o.BytesField, "bytes"),
		config.Name("Options.BlocksField", &o.BlocksField, "blocks"),
		config.Name("Options.RevisionField", &o.RevisionField, "revision"),
		config.Name("Options.MarkField", &o.MarkField, "mark"),
		config.Name("Options.BatchField", &o.BatchField, ""),
		inside("Options.TimeField", &o.TimeField, "timestamp"),
		config.Number("Options.MaxCount", &o.MaxCount, defaultMaxCount, 1, 1<<24),
		config.Number("Options.MaxBytes", &o.MaxBytes, defaultMaxBytes, 1, largestMaxBytes),
		frame.Unnumbered(&o.SeriesField, &o.StartField),
	}
	return append(out, frame.Values(o.Values, config.Name)...)
}

// inside is a name in a measurement, which collides with none in the document.
func inside(option string, name *string, otherwise string) config.Setting {
	return frame.Inside(option, name, otherwise, config.Name)
}
