package bucket

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Buckets stores measurements M of series S in arrays, one document for a window of a series until it is
// full, then further ones. It is safe for concurrent use.
type Buckets[S, M any] struct{ core *arrays }

var _ mongopatterns.Checker = (*Buckets[string, bson.D])(nil)

// arrays is Buckets on BSON.
type arrays struct {
	frame.Frame
	opts      Options
	derived   []derived // the count, those of values, and the bytes
	recounted bson.D    // sets them
	recut     any       // sets them to those of the measurements in ~cut, if it is not null
	total     any       // adds them up
	totals    any       // adds them up by window
	known     frame.Known[room]
}

// New returns Buckets over coll; opts may be nil. S is what tells series apart, a string, a number, an
// ObjectID or a small struct; M is a measurement, which encodes to a document with its time in it. All that
// write one collection must use the same window and options.
func New[S, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (b *Buckets[S, M], err error) {
	defer fault.In(&err, "bucket: new")
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]timeseries.Value(nil), o.Values...)
	c := &arrays{Frame: frame.Frame{Pattern: "bucket", Coll: coll, Window: window, Codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		Early: frame.Early(o.EndTime), Skip: ErrSkip, Concurrent: ErrConcurrentAdopt, Contended: ErrContended}}
	if err := c.Check(o.settings()...); err != nil {
		return nil, err
	}
	if err := frame.CheckFields[M](c.Codec, o.Values); err != nil {
		return nil, err
	}
	c.opts, c.Guards = o, []string{o.CountField}
	c.Series, c.Start, c.End = o.SeriesField, o.StartField, o.EndField
	c.derive()
	return &Buckets[S, M]{c}, nil
}

// Indexes returns the indexes Buckets uses besides _id: {series: 1, start: 1}; with Options.IDField the
// unique {series: 1, start: 1, "measurements.id": 1} of buckets that hold an ID.
func (b *Buckets[S, M]) Indexes() map[string][]mongo.IndexModel {
	c := b.core
	models := []mongo.IndexModel{{Keys: c.Keys()}}
	if c.opts.IDField != "" {
		holds := expr.Op(c.idPath(), expr.Op("$exists", true))
		models = append(models, mongo.IndexModel{Keys: append(c.Keys(), expr.Element(c.idPath(), 1)),
			Options: options.Index().SetUnique(true).SetPartialFilterExpression(holds)})
	}
	return map[string][]mongo.IndexModel{c.Coll.Name(): models}
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys with other options is
// ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (b *Buckets[S, M]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "bucket: ensure indexes")
	return indexes.EnsureAll(ctx, b.core.Coll.Database(), b.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. Every write of one document filters on
// it.
func (b *Buckets[S, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{b.core.Coll.Name(): b.core.Keys()}
}

// Filter selects the bucket documents that can hold measurements of series from from until before to; a zero
// time is no limit. It uses the index {series, start}.
func (b *Buckets[S, M]) Filter(series S, from, to time.Time) bson.D {
	return b.core.Filter(series, from, to)
}

func (c *arrays) idPath() string { return c.opts.ArrayField + "." + c.opts.IDField }

// array is the bucket's array, empty if it has none.
func (c *arrays) array() bson.D { return expr.IfNull(expr.Field(c.opts.ArrayField), bson.A{}) }

// at is a path inside a measurement m of an expression.
func at(path string) string { return expr.Var("m." + path) }

// fields projects series, start and those of these that have a name.
func (c *arrays) fields(names ...string) bson.D {
	out := c.Keys()
	for _, name := range names {
		if name != "" {
			out = append(out, bson.E{Key: name, Value: 1})
		}
	}
	return out
}
