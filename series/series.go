package series

import (
	"context"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Series stores measurements M of series S as packed blocks. It is safe for
// concurrent use.
type Series[S, M any] struct{ core *store }

var _ mongopatterns.Checker = (*Series[string, bson.D])(nil)

// store is Series on BSON.
type store struct {
	frame.Frame
	opts  Options
	shape *shape // of measurements that need no BSON; nil for others
	rooms frame.Known[room]
	// sharded is set once a router has asked for the shard key, which _id alone does not name.
	sharded atomic.Bool
}

// New returns the series in coll. It does no I/O.
//
// S is what tells series apart, a string, a number, an ObjectID or a small struct; M
// is a measurement, a struct, map or bson.D that encodes to a document with its time
// in it. Numbers, dates, strings and booleans in it are packed; a nested document or
// array is kept whole, once for each that differs, and has no sums. opts may be nil.
// All that write one collection must use the same window and options.
func New[S, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (s *Series[S, M], err error) {
	defer fault.In(&err, "series: new")
	c, err := newStore(coll, window, opts)
	if err != nil {
		return nil, err
	}
	if err := frame.CheckFields[M](c.Codec, c.opts.Values); err != nil {
		return nil, err
	}
	c.shape = shapeOf[M](c)
	return &Series[S, M]{c}, nil
}

func newStore(coll *mongo.Collection, w timeseries.Window, opts *Options) (*store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]timeseries.Value(nil), o.Values...)
	settings := o.settings()
	c := &store{Frame: frame.Frame{Pattern: "series", Coll: coll, Window: w, Codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		Early: time.Millisecond, Skip: ErrSkip, Concurrent: ErrConcurrentAdopt, Contended: fault.ErrConflict}}
	if err := c.Check(settings...); err != nil {
		return nil, err
	}
	c.opts, c.Guards = o, []string{o.MarkField, o.RevisionField, o.CountField}
	c.Series, c.Start, c.End = o.SeriesField, o.StartField, o.EndField
	return c, nil
}

// Indexes returns the indexes Series uses besides _id: {series: 1, start: 1}, which
// every read uses; with Options.BatchField the unique {series: 1, start: 1, "batches.id":
// 1} of documents that hold the ID of a batch.
func (s *Series[S, M]) Indexes() map[string][]mongo.IndexModel {
	c := s.core
	models := []mongo.IndexModel{{Keys: c.Keys()}}
	if c.opts.BatchField != "" {
		field := c.batchID()
		models = append(models, mongo.IndexModel{
			Keys: append(c.Keys(), bson.E{Key: field, Value: 1}),
			Options: options.Index().SetUnique(true).
				SetPartialFilterExpression(bson.D{{Key: field, Value: bson.D{{Key: "$exists", Value: true}}}}),
		})
	}
	return map[string][]mongo.IndexModel{c.Coll.Name(): models}
}

// batchID is the path of the IDs of batches.
func (c *store) batchID() string { return c.opts.BatchField + ".id" }

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (s *Series[S, M]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "series: ensure indexes")
	return indexes.EnsureAll(ctx, s.core.Coll.Database(), s.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. Every write of
// one document filters on it; every read of a series is targeted by its prefix.
func (s *Series[S, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.core.Coll.Name(): s.core.Keys()}
}

// Filter selects the documents that can hold measurements of series from from until
// before to; a zero time is no limit. It uses the index {series, start}.
func (s *Series[S, M]) Filter(series S, from, to time.Time) bson.D {
	return s.core.Filter(series, from, to)
}
