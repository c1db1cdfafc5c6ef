package series

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// ErrDamaged says that a block is not as this package wrote it, or was written for another series or
// window. The error names the document; Check finds all such documents. It matches ErrMalformed.
var ErrDamaged = pack.ErrDamaged

const (
	defaultMaxCount = 100_000
	defaultMaxBytes = 256 << 10
	// A document is full once it has MaxBytes, so it can hold one block more than that. The two together
	// stay below the server's 16 MiB.
	largestMaxBytes = 8 << 20
	largestRoom     = 64 << 10
	largestRow      = 4 << 20
	// The most measurements, and bytes of measurements, in a block.
	blockRows  = 1 << 14
	blockBytes = 1 << 20
	// What the blocks of a document hold; beside this, each writer can exceed it by a sixteenth.
	largestDocument = pack.MostHeld / 4
)

// Options names the fields of a document and bounds its size. The zero value stores {series, start, count,
// bytes, blocks, revision, mark}, without sums.
//
// All names are plain, without dots, except the paths of Values.
type Options struct {
	// SeriesField holds the key of the series. Default "series".
	SeriesField string
	// StartField holds the window's first instant. Default "start".
	StartField string
	// EndField holds the window's last millisecond. Default "": not stored.
	EndField string
	// CountField holds the number of measurements. Default "count".
	CountField string
	// BytesField holds the number of bytes of the blocks. Default "bytes".
	BytesField string
	// BlocksField is the array of blocks: one for each batch, until Compact merges them. Default "blocks".
	BlocksField string
	// RevisionField counts the calls that rewrote the blocks: Compact, Replace, Delete. Default "revision".
	RevisionField string
	// MarkField holds a random number that a document gets when it is created. Because of it, a call that
	// has read a document does not write to a later one with the same _id, created after the first was
	// archived or expired. Default "mark".
	MarkField string
	// BatchField is an array of {id, at}. id is the ID of a batch, by which a repeated batch is recognized, and at
	// the time when it was stored, by the clock of its writer. Compact, Replace and Delete keep the entries of the
	// last ten minutes. If it is set, EnsureIndexes must have run, and New refuses an M that is or contains a Go
	// map. Default "": no de-duplication.
	BatchField string

	// TimeField is the field of a measurement with its time, a BSON date. Default
	// "timestamp".
	TimeField string
	// Values are the numbers whose aggregates documents keep. Their Field is a plain name. Sum and Squares
	// are Decimal128, exact up to 34 digits in whatever order measurements come. A double counts as the
	// decimal of up to 15 digits that converts back to the same double (ten times 0.1 is 1) or, if there is
	// no such decimal, as one of 16 to 18. Default none: only the number of measurements is kept.
	Values []timeseries.Value

	// MaxCount and MaxBytes bound a document. Once it has so many measurements, or bytes of blocks, or four million
	// values, the next batch begins a further document of the same window. Each writer may exceed a bound by a
	// sixteenth before it notices. Default 100,000, at most 1,048,576, and 256 KiB.
	MaxCount, MaxBytes int

	// Registry and BSON encode series and measurements, and decode measurements. By default BSON is what the client
	// has. The client's registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares
	// the two. Default nil: the driver's. With either of them, encoding and decoding a flat struct takes about ten
	// times as long.
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
		windows.Inside("Options.TimeField", &o.TimeField, "timestamp", config.Name),
		config.Number("Options.MaxCount", &o.MaxCount, defaultMaxCount, 1, 1<<20),
		config.Number("Options.MaxBytes", &o.MaxBytes, defaultMaxBytes, 1, largestMaxBytes),
		windows.Unnumbered(&o.SeriesField, &o.StartField),
	}
	return append(out, windows.Values(o.Values, config.Name)...)
}
