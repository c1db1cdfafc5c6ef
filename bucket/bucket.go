package bucket

import (
	"context"
	"reflect"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Buckets stores measurements of type M in arrays. ID is the type of the key of a series. A window of a
// series has one document until it is full, and then further ones. Buckets is safe for concurrent use.
type Buckets[ID, M any] struct{ core *arrays }

var _ mongopatterns.Checker = (*Buckets[string, bson.D])(nil)

// arrays implements Buckets without its type parameters.
type arrays struct {
	frame     windows.Frame
	opts      Options
	derived   []derived // the count, those of values, and the bytes
	recounted bson.D    // sets them
	recut     any       // sets them to those of the measurements in ~cut, if it is not null
	total     any       // adds them up
	totals    any       // adds them up by window
	known     windows.Memory[room]
}

// New returns Buckets over coll; opts may be nil. ID identifies a series: a string, a number, an ObjectID
// or a small struct. M is a measurement; it must encode to a document that contains its time. All programs
// that write one collection must use the same window and options.
func New[ID, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (b *Buckets[ID, M], err error) {
	defer fault.In(&err, "bucket.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]timeseries.Value(nil), o.Values...)
	c := &arrays{frame: windows.Frame{Pattern: "bucket", Coll: scoped.On(coll), Window: window, Codec: codec.New(coll, o.Registry, o.BSON),
		Early: windows.Early(o.EndTime)}}
	if err := c.frame.Complete(o.settings()...); err != nil {
		return nil, err
	}
	if err := windows.CheckFields[M](c.frame.Codec, o.Values, "Options.TimeField", o.TimeField, "Options.IDField", o.IDField); err != nil {
		return nil, err
	}
	if metadata := o.Metadata; metadata != nil {
		o.Metadata = func(series any, start time.Time) bson.D {
			if raw, ok := series.(bson.RawValue); ok { // from Adopt, which has seen that it is an ID
				if id, err := codec.DecodeValue[ID](c.frame.Codec, raw); err == nil {
					series = id
				}
			}
			return metadata(series, start)
		}
	}
	c.opts, c.frame.Guards = o, []string{o.CountField}
	c.frame.SeriesField, c.frame.StartField, c.frame.EndField = o.SeriesField, o.StartField, o.EndField
	c.derive()
	return &Buckets[ID, M]{c}, nil
}

// Indexes returns the indexes Buckets uses besides _id: {series: 1, start: 1}; with Options.IDField also
// the unique {series: 1, start: 1, "measurements.id": 1}, restricted to buckets that hold an ID.
func (b *Buckets[ID, M]) Indexes() map[string][]mongo.IndexModel {
	c := b.core
	models := []mongo.IndexModel{{Keys: c.frame.Keys()}}
	if c.opts.IDField != "" {
		models = append(models, c.uniqueIDs())
	}
	return map[string][]mongo.IndexModel{c.frame.Coll.Name(): models}
}

// uniqueIDs is the index that refuses an ID in two buckets of a window.
func (c *arrays) uniqueIDs() mongo.IndexModel {
	holds := expr.D(c.idPath(), expr.Op("$exists", true))
	return mongo.IndexModel{Keys: append(c.frame.Keys(), expr.Element(c.idPath(), 1)),
		Options: options.Index().SetUnique(true).SetPartialFilterExpression(holds)}
}

// EnsureIndexes creates the Indexes that are missing and drops nothing. If an index on the same keys has
// other options, it returns ErrIndexConflict. If documents break a unique one, it returns ErrMalformed, and
// Check lists them as Duplicate. It returns ErrInvalid if the collection has a default collation, which could
// treat different series as equal.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (b *Buckets[ID, M]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "bucket.EnsureIndexes")
	defer fault.In(&err, "bucket.EnsureIndexes")
	if err := collation.Refuse(ctx, b.core.frame.Coll); err != nil {
		return err
	}
	if err := b.core.frame.Codec.CheckClient(ctx, b.core.frame.Coll, reflect.TypeFor[ID](), reflect.TypeFor[M]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, b.core.frame.Coll.Database(), b.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. The filter of every write of one
// document contains it.
func (b *Buckets[ID, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{b.core.frame.Coll.Name(): b.core.frame.Keys()}
}

// Filter selects the bucket documents that can hold measurements of series at or after from and before to.
// A zero time sets no limit. It uses the index {series, start}.
func (b *Buckets[ID, M]) Filter(series ID, from, to time.Time) bson.D {
	return b.core.frame.RangeFilter(series, from, to)
}

func (c *arrays) idPath() string { return c.opts.ArrayField + "." + c.opts.IDField }

// array is an expression for the bucket's array, [] if the field is null or missing.
func (c *arrays) array() bson.D { return expr.IfNull(expr.Field(c.opts.ArrayField), bson.A{}) }

// at is an expression for a path inside the measurement that the variable m holds.
func at(path string) string { return expr.Var("m." + path) }

// fields is a projection of series, start and those of names that are not empty.
func (c *arrays) fields(names ...string) bson.D {
	out := c.frame.Keys()
	for _, name := range names {
		if name != "" {
			out = append(out, expr.Element(name, 1))
		}
	}
	return out
}
