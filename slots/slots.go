package slots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Options names the fields of a document of slots. The zero value stores {series, start, data: {hour:
// {minute: measurement}}}. All names are plain, without dots.
type Options struct {
	SeriesField string             // the key of the series. Default "series"
	StartField  string             // the window's first instant. Default "start"
	EndField    string             // the window's end. Default "": not stored
	EndTime     timeseries.EndTime // which instant EndField holds. Default LastMillisecond
	DataField   string             // holds the slots. Default "data"
	// Levels are the units of time that the nested keys of DataField count, outermost first: one to three,
	// each a whole multiple of the next. The last one is the length of a slot. Default time.Hour,
	// time.Minute.
	Levels []time.Duration

	// Metadata returns further fields that the first write of a document stores. They and one slot must fit
	// into one document. Default nil: no further fields.
	Metadata func(series any, start time.Time) bson.D

	// Registry and BSON encode and decode. By default BSON is what the client has. The client's registry cannot be
	// read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Slots stores at most one measurement of type M in each slot of time of a series, in one document for a
// window of the series. ID is the type of the key of a series. Slots is safe for concurrent use.
//
// The keys of slots count the time elapsed since the window began, not the hours of the clock. So a day
// on which the clock is set back has an hour "24", and one on which it is set forward ends with "22".
type Slots[ID, M any] struct{ core *grid }

var _ mongopatterns.Checker = (*Slots[string, bson.D])(nil)

// grid implements Slots without its type parameters.
type grid struct {
	frame    windows.Frame
	metadata func(series any, start time.Time) bson.D
	data     string
	levels   []time.Duration
}

// A Slot is a measurement with the time at which its slot begins.
type Slot[M any] struct {
	Time  time.Time `json:"time"`
	Value M         `json:"value"`
}

// New returns Slots over coll. It does no I/O; opts may be nil. M may be any type that encodes to a BSON
// value other than null, also a plain number. All programs that write one collection must use the same
// window and levels.
func New[ID, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (s *Slots[ID, M], err error) {
	defer fault.In(&err, "slots.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	g := &grid{frame: windows.Frame{Pattern: "slots", Coll: scoped.On(coll), Window: window, Codec: codec.New(coll, o.Registry, o.BSON),
		Early: windows.Early(o.EndTime)},
		metadata: o.Metadata, levels: append([]time.Duration(nil), o.Levels...)}
	if len(g.levels) == 0 {
		g.levels = []time.Duration{time.Hour, time.Minute}
	}
	if err := g.frame.Complete(
		config.Number("Options.EndTime", (*int)(&o.EndTime), 0, 0, int(timeseries.LastSecond)),
		config.Name("Options.SeriesField", &o.SeriesField, "series"),
		config.Name("Options.StartField", &o.StartField, "start"),
		config.Name("Options.EndField", &o.EndField, ""),
		config.Name("Options.DataField", &o.DataField, "data"),
		config.Check("Options.Levels", func() error { return checkLevels(g.levels) }),
	); err != nil {
		return nil, err
	}
	if start, end := window.Bounds(time.Unix(0, 0)); end.Sub(start) == math.MaxInt64 {
		return nil, fault.Invalid("window: it is longer than 292 years")
	}
	g.frame.SeriesField, g.frame.StartField, g.frame.EndField, g.data = o.SeriesField, o.StartField, o.EndField, o.DataField
	return &Slots[ID, M]{g}, nil
}

func checkLevels(levels []time.Duration) error {
	if len(levels) > 3 {
		return errors.New("there are more than three")
	}
	for i, level := range levels {
		if level <= 0 || level%time.Millisecond != 0 {
			return fmt.Errorf("%v is not a positive number of milliseconds", level)
		}
		if i > 0 && (levels[i-1]%level != 0 || levels[i-1] == level) {
			return fmt.Errorf("%v is not a greater multiple of %v", levels[i-1], level)
		}
	}
	return nil
}

// Indexes returns the index Slots uses besides _id, the unique {series: 1, start: 1}.
func (s *Slots[ID, M]) Indexes() map[string][]mongo.IndexModel {
	return map[string][]mongo.IndexModel{s.core.frame.Coll.Name(): {s.core.unique()}}
}

// unique is the index that refuses a second document of a window.
func (g *grid) unique() mongo.IndexModel {
	return mongo.IndexModel{Keys: g.frame.Keys(), Options: options.Index().SetUnique(true)}
}

// EnsureIndexes creates the Indexes that are missing and drops nothing. If an index on the same keys has
// other options, it returns ErrIndexConflict. If a window has two documents, it returns ErrMalformed, and
// Check lists them as Duplicate. It returns ErrInvalid if the collection has a default collation, which could
// treat different series as equal.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Slots[ID, M]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "slots.EnsureIndexes")
	defer fault.In(&err, "slots.EnsureIndexes")
	if err := collation.Refuse(ctx, s.core.frame.Coll); err != nil {
		return err
	}
	if err := s.core.frame.Codec.CheckClient(ctx, s.core.frame.Coll, reflect.TypeFor[ID](), reflect.TypeFor[M]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.frame.Coll.Database(), s.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}.
func (s *Slots[ID, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.core.frame.Coll.Name(): s.core.frame.Keys()}
}

// Filter selects the documents that can hold slots of series at or after from and before to. A zero time
// sets no limit.
func (s *Slots[ID, M]) Filter(series ID, from, to time.Time) bson.D {
	return s.core.frame.RangeFilter(series, from, to)
}

// Path returns the field of the slot that holds t, in the document of its window, such as "data.15.4". For a time
// that no slot can have, because it is zero or not in the years 1 to 9999, it returns an empty path, which the server
// refuses in an update.
func (s *Slots[ID, M]) Path(t time.Time) string {
	if windows.CheckTime(t) != nil {
		return ""
	}
	return s.core.path(t)
}

func (g *grid) path(t time.Time) string {
	start, _ := g.frame.Window.Bounds(t)
	return g.data + keys(t.Sub(start), g.levels)
}

// keys is the path of the slot that begins at this offset from the start of the window.
func keys(offset time.Duration, levels []time.Duration) (path string) {
	for _, level := range levels {
		path += "." + strconv.FormatInt(int64(offset/level), 10)
		offset %= level
	}
	return path
}
