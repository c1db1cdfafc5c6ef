package series

import (
	"context"
	"reflect"
	"sync/atomic"
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
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Series stores measurements of type M as packed blocks. ID is the type of the key of a series. Series is
// safe for concurrent use.
type Series[ID, M any] struct{ core *core }

var _ mongopatterns.Checker = (*Series[string, bson.D])(nil)

// core implements Series without its type parameters.
type core struct {
	frame windows.Frame
	opts  Options
	shape *shape       // for measurements that can be packed without BSON; nil for others
	parts []pack.Parts // the parts of a tally to compute, by Options.Values
	rooms windows.Memory[room]
	// needed are the fields of the Values without Count, which every measurement must have.
	needed map[string]bool
	// sharded is set once a router has asked for the shard key, which _id alone does not name.
	sharded atomic.Bool
}

// New returns a Series over coll. It does no I/O; opts may be nil.
//
// ID identifies a series: a string, a number, an ObjectID or a small struct. M is a measurement: a struct, map or
// bson.D that encodes to a document that contains its time. Its numbers, dates, strings and booleans are packed.
// A nested document or array is stored whole, equal ones only once, and its contents cannot be summed. All
// programs that write one collection must use the same window and options. With Options.BatchField a measurement
// cannot contain a Go map of several fields, because their order is random and a repeated batch would not be
// recognized.
func New[ID, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (s *Series[ID, M], err error) {
	defer fault.In(&err, "series.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	c, err := newCore(coll, window, opts)
	if err != nil {
		return nil, err
	}
	if err := windows.CheckFields[M](c.frame.Codec, c.opts.Values, "Options.TimeField", c.opts.TimeField); err != nil {
		return nil, err
	}
	if c.opts.BatchField != "" {
		if err := codec.CheckOrder[M]("M"); err != nil {
			return nil, err
		}
	}
	c.shape = shapeOf[M](c)
	return &Series[ID, M]{c}, nil
}

func newCore(coll *mongo.Collection, w timeseries.Window, opts *Options) (*core, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]timeseries.Value(nil), o.Values...)
	settings := o.settings()
	c := &core{needed: map[string]bool{}, frame: windows.Frame{Pattern: "series", Coll: scoped.On(coll), Window: w, Codec: codec.New(coll, o.Registry, o.BSON),
		Early: time.Millisecond}}
	if err := c.frame.Complete(settings...); err != nil {
		return nil, err
	}
	c.opts, c.frame.Guards = o, []string{o.MarkField, o.RevisionField, o.CountField}
	for _, v := range o.Values {
		if v.Count == "" {
			c.needed[v.Field] = true
		}
	}
	c.parts = parts(o.Values)
	c.frame.SeriesField, c.frame.StartField, c.frame.EndField = o.SeriesField, o.StartField, o.EndField
	return c, nil
}

// Indexes returns the indexes that Series uses besides _id. Every read uses {series: 1, start: 1}. With
// Options.BatchField there is also the unique {series: 1, start: 1, "batches.id": 1}, restricted to
// documents that hold the ID of a batch.
func (s *Series[ID, M]) Indexes() map[string][]mongo.IndexModel {
	c := s.core
	models := []mongo.IndexModel{{Keys: c.frame.Keys()}}
	if c.opts.BatchField != "" {
		models = append(models, c.uniqueBatches())
	}
	return map[string][]mongo.IndexModel{c.frame.Coll.Name(): models}
}

// uniqueBatches is the index that refuses a batch in two documents of a window.
func (c *core) uniqueBatches() mongo.IndexModel {
	field := c.batchIDPath()
	return mongo.IndexModel{
		Keys: append(c.frame.Keys(), expr.Element(field, 1)),
		Options: options.Index().SetUnique(true).
			SetPartialFilterExpression(expr.D(field, expr.Op("$exists", true))),
	}
}

// batchIDPath is the path of the IDs of batches.
func (c *core) batchIDPath() string { return c.opts.BatchField + ".id" }

// EnsureIndexes creates the Indexes that are missing and drops nothing. If an index on the same keys has
// other options, it returns ErrIndexConflict. If documents break a unique one, it returns ErrMalformed, and
// Check lists them as Duplicate. It returns ErrInvalid if the collection has a default collation, which could
// treat different series as equal.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Series[ID, M]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "series.EnsureIndexes")
	defer fault.In(&err, "series.EnsureIndexes")
	if err := collation.Refuse(ctx, s.core.frame.Coll); err != nil {
		return err
	}
	if err := s.core.frame.Codec.CheckClient(ctx, s.core.frame.Coll, reflect.TypeFor[ID](), reflect.TypeFor[M]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.frame.Coll.Database(), s.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. On a sharded collection the filter of
// every write of one document contains it, and a read of a series goes by its prefix to the shards that
// hold the series.
func (s *Series[ID, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.core.frame.Coll.Name(): s.core.frame.Keys()}
}

// Filter selects the documents that can hold measurements of series at or after from and before to. A zero
// time sets no limit. It uses the index {series, start}.
func (s *Series[ID, M]) Filter(series ID, from, to time.Time) bson.D {
	return s.core.frame.RangeFilter(series, from, to)
}
