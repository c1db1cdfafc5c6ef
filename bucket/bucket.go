package bucket

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

// Buckets stores measurements M of series S in arrays, one document for a
// window of a series until it is full, then further ones. It is safe for
// concurrent use.
type Buckets[S, M any] struct{ core *arrays }

var _ mongopatterns.Checker = (*Buckets[string, bson.D])(nil)

// arrays is the layout of Buckets, on BSON.
type arrays struct {
	frame
	opts       Options
	time       []string // TimeField and the like in steps
	values     [][]string
	aggregates []derived // the count and those of values
	derived    []derived // and the bytes
	seqs       sequences
}

// New returns Buckets over coll. It does no I/O.
//
// S is what tells series apart, a string, a number, an ObjectID or a small
// struct; M is a measurement, a struct, map or bson.D that encodes to a document
// with its time in it. opts may be nil. All that write one collection must use
// the same window and options.
func New[S, M any](coll *mongo.Collection, window Window, opts *Options) (b *Buckets[S, M], err error) {
	defer fault.In(&err, "bucket: new")
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]Value(nil), o.Values...)
	settings := o.settings()
	c := &arrays{frame: frame{coll: coll, window: window, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		endAt: o.EndTime, metadata: o.Metadata, byStart: o.RetentionIndex}}
	if err := c.validate(settings...); err != nil {
		return nil, err
	}
	c.layout, c.opts, c.series, c.start, c.end, c.guard = c, o, o.SeriesField, o.StartField, o.EndField, o.CountField
	c.time = strings.Split(o.TimeField, ".")
	for _, v := range o.Values {
		c.values = append(c.values, strings.Split(v.Field, "."))
	}
	c.derive()
	return &Buckets[S, M]{c}, nil
}

// Indexes returns the indexes Buckets uses besides _id: {series: 1, start: 1},
// which every read uses; with Options.IDField the unique {series: 1, start: 1,
// "measurements.id": 1} of buckets that hold an ID; with
// Options.RetentionIndex {start: 1}.
func (b *Buckets[S, M]) Indexes() map[string][]mongo.IndexModel {
	c := b.core
	models := []mongo.IndexModel{{Keys: c.shardKey()}}
	if c.opts.IDField != "" {
		models = append(models, mongo.IndexModel{
			Keys: append(c.shardKey(), bson.E{Key: c.idPath(), Value: 1}),
			Options: options.Index().SetUnique(true).
				SetPartialFilterExpression(bson.D{{Key: c.idPath(), Value: bson.D{{Key: "$exists", Value: true}}}}),
		})
	}
	return c.indexes(models...)
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (b *Buckets[S, M]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "bucket: ensure indexes")
	return indexes.EnsureAll(ctx, b.core.coll.Database(), b.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. Every
// write of one document filters on it; every read of a series is targeted by
// its prefix.
func (b *Buckets[S, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{b.core.coll.Name(): b.core.shardKey()}
}

// Filter selects the bucket documents that can hold measurements of series from
// from until before to; a zero time is no limit. It uses the index {series,
// start}.
func (b *Buckets[S, M]) Filter(series S, from, to time.Time) bson.D {
	return b.core.filter(series, from, to)
}

// idPath is the path of a measurement's ID from the bucket.
func (c *arrays) idPath() string { return c.opts.ArrayField + "." + c.opts.IDField }

// bucketID is the _id of a bucket.
func (c *arrays) bucketID(p place, n any) bson.D {
	return bson.D{{Key: c.series, Value: p.series}, {Key: c.start, Value: p.start}, {Key: seqKey, Value: n}}
}

// numbered selects the buckets of a place from number n on, by _id.
func (c *arrays) numbered(p place, n int64) bson.D {
	return append(c.within(p), bson.E{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: c.bucketID(p, n)}, {Key: "$lt", Value: c.bucketID(p, "")}, // numbers only
	}})
}

// sequences remembers in which bucket of a window to go on. A window it does
// not know begins at 0, which costs a failed write if that one is full, never
// correctness; so it may forget.
type sequences struct {
	mu   sync.Mutex
	next map[string]int64
}

const maxSequences = 10_000

func (s *sequences) get(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[key]
}

// raise remembers that buckets before n are full.
func (s *sequences) raise(key string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.next[key] {
		return
	}
	if s.next == nil || len(s.next) >= maxSequences {
		s.next = map[string]int64{}
	}
	s.next[key] = n
}
