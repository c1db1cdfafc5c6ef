package bucket

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Range returns the measurements of series from from until before to in time order, late arrivals
// in their place; those of one millisecond in the order they came. A zero time is no limit. Only
// measurements of the range leave the server, and memory holds those of one window.
//
// Cost: 1 round trip, more beyond 101 buckets or 16 MiB; index {series, start}, no sort on the
// server; 1 key and 1 document per bucket of the range.
func (b *Buckets[S, M]) Range(ctx context.Context, series S, from, to time.Time) iter.Seq2[M, error] {
	c := b.core
	return fault.Seq("bucket: range", inOrder(&c.frame, c.buckets(ctx, series, from, to, ""), c.entries, plain[M]))
}

// RangeAcross is Range over the collection and its archive together. It reads both as they were at
// one moment, in a snapshot session or the caller's transaction: a measurement that Archive moves
// meanwhile is seen exactly once. The server keeps a snapshot, and so the loop can last, for 5
// minutes by default.
//
// Cost: 1 round trip, further ones as for Range; index {series, start} of both.
func (b *Buckets[S, M]) RangeAcross(ctx context.Context, archive *mongo.Collection, series S, from, to time.Time) iter.Seq2[M, error] {
	c := b.core
	return fault.Seq("bucket: range across", func(yield func(M, error) bool) {
		var none M
		err := config.Collections("coll", c.coll, "archive", archive)
		if err == nil && !txn.Running(ctx) {
			var session *mongo.Session
			if session, err = c.coll.Database().Client().StartSession(options.Session().SetSnapshot(true)); err == nil {
				defer session.EndSession(ctx)
				ctx = mongo.NewSessionContext(ctx, session)
			}
		}
		if err != nil {
			yield(none, err)
			return
		}
		inOrder(&c.frame, c.buckets(ctx, series, from, to, archive.Name()), c.entries, plain[M])(yield)
	})
}

// Latest returns the measurement of series with the latest time; ErrNotFound if there is none. In a
// transaction on a sharded collection it needs MongoDB 8.0.
//
// Cost: 1 round trip; index {series, start}; the buckets of the newest window.
func (b *Buckets[S, M]) Latest(ctx context.Context, series S) (m M, err error) {
	defer fault.In(&err, "bucket: latest")
	if _, err := b.core.seriesOf(series); err != nil {
		return m, err
	}
	doc, err := first(pipe(ctx, b.core.coll, b.LatestPipeline(series)))
	if err != nil {
		return m, err
	}
	if doc == nil {
		return m, mongopatterns.ErrNotFound
	}
	err = b.core.codec.Decode(doc, &m)
	return m, err
}

// LatestPipeline is what Latest runs: the measurement as a document, or none.
func (b *Buckets[S, M]) LatestPipeline(series S) mongo.Pipeline {
	// The newest bucket that is not empty names the window; the measurement can be in any bucket of
	// it.
	c := b.core
	all := c.filter(series, time.Time{}, time.Time{})
	return mongo.Pipeline{
		expr.Op("$match", append(all, bson.E{Key: c.opts.CountField, Value: expr.Op("$gt", 0)})),
		expr.Op("$sort", bson.D{{Key: c.start, Value: -1}}),
		expr.Op("$limit", 1),
		expr.Op("$project", bson.D{{Key: c.start, Value: 1}}),
		expr.Op("$lookup", bson.D{
			{Key: "from", Value: c.coll.Name()}, {Key: "localField", Value: c.start}, {Key: "foreignField", Value: c.start},
			{Key: "pipeline", Value: mongo.Pipeline{expr.Op("$match", all), expr.Op("$project", bson.D{{Key: "m", Value: c.array()}})}},
			{Key: "as", Value: "b"},
		}),
		expr.Op("$unwind", "$b"),
		expr.Op("$project", bson.D{{Key: "n", Value: "$b._id." + seqKey}, {Key: "m", Value: "$b.m"}}),
		expr.Op("$unwind", bson.D{{Key: "path", Value: "$m"}, {Key: "includeArrayIndex", Value: "i"}}),
		expr.Op("$sort", bson.D{{Key: "m." + c.opts.TimeField, Value: -1}, {Key: "n", Value: -1}, {Key: "i", Value: -1}}),
		expr.Op("$limit", 1),
		expr.Op("$replaceWith", "$m"),
	}
}

// Page returns the measurements of the bucket with number n in the window that holds at, in the
// order they came; with a negative n of the last bucket (-1), the one before (-2) and so on.
// ErrNotFound if there is none. With [ByCount], whose one window holds every time, these are the
// pages of a series.
//
// Cost: 1 round trip; index _id, 1 key and 1 document; a negative n as many keys.
func (b *Buckets[S, M]) Page(ctx context.Context, series S, at time.Time, n int64) (page []M, err error) {
	defer fault.In(&err, "bucket: page")
	c := b.core
	doc, err := c.bucket(ctx, series, at, n, bson.D{{Key: "v", Value: c.array()}})
	if err == nil && doc == nil {
		err = mongopatterns.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue[[]M](c.codec, doc.Lookup("v"))
}

// Pages returns how many buckets the window that holds at has, from number 0 on.
//
// Cost: 1 round trip; index _id, 1 key.
func (b *Buckets[S, M]) Pages(ctx context.Context, series S, at time.Time) (n int64, err error) {
	defer fault.In(&err, "bucket: pages")
	newest, err := b.core.bucket(ctx, series, at, -1, bson.D{{Key: "_id", Value: 1}})
	if err != nil || newest == nil {
		return 0, err
	}
	n, _ = value.Lookup(newest, "_id."+seqKey).AsInt64OK()
	return n + 1, nil
}

// bucket reads fields of one bucket of a window, by its number or counted from the end.
func (c *arrays) bucket(ctx context.Context, series any, at time.Time, n int64, fields bson.D) (bson.Raw, error) {
	raw, err := c.seriesOf(series)
	if err != nil {
		return nil, err
	}
	p := c.placeOf(raw, at)
	filter, skip := append(bson.D{{Key: "_id", Value: c.bucketID(p, n)}}, c.within(p)...), int64(0)
	if n < 0 {
		filter, skip = c.numbered(p, 0), -n-1
	}
	return first(find(ctx, c.coll, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetSkip(skip).
		SetLimit(1).SetProjection(fields)))
}

// buckets reads the buckets of a range, and those in an archive with them, by start.
func (c *arrays) buckets(ctx context.Context, series any, from, to time.Time, archive string) iter.Seq2[bson.Raw, error] {
	if _, err := c.seriesOf(series); err != nil {
		return fault.Stop[bson.Raw](err)
	}
	sort := expr.Op("$sort", bson.D{{Key: c.start, Value: 1}})
	pipeline := mongo.Pipeline{expr.Op("$match", c.filter(series, from, to)), sort, expr.Op("$project", bson.D{
		{Key: c.start, Value: 1},
		// What is no array is left for the error that names the bucket.
		{Key: "~m", Value: expr.Cond(expr.Op("$isArray", c.array()), c.inRange(from, to), expr.Field(c.opts.ArrayField))},
	})}
	if archive != "" {
		pipeline = append(pipeline, expr.Op("$unionWith", bson.D{{Key: "coll", Value: archive}, {Key: "pipeline", Value: pipeline}}), sort)
	}
	return pipe(ctx, c.coll, pipeline)
}

// entries are the measurements of a bucket that buckets has read.
func (c *arrays) entries(doc bson.Raw) (out []entry, err error) {
	list, ok := doc.Lookup("~m").ArrayOK()
	if !ok {
		return nil, fmt.Errorf("%s is %s, not an array", c.opts.ArrayField, value.Text(doc.Lookup("~m")))
	}
	items, err := list.Values()
	seq, _ := value.Lookup(doc, "_id."+seqKey).AsInt64OK()
	for _, item := range items {
		e := entry{time: math.MinInt64, seq: seq, raw: item} // the time of nothing this package wrote
		if m, ok := item.DocumentOK(); ok {
			if at, err := m.LookupErr(c.time...); err == nil && at.Type == bson.TypeDateTime {
				e.time = at.DateTime()
			}
		}
		out = append(out, e)
	}
	return out, err
}

// An entry is a measurement as it is stored.
type entry struct {
	time int64
	seq  int64 // of its bucket
	raw  bson.RawValue
}

func plain[M any](m M, _ entry) M { return m }

// inOrder puts together the entries of the documents of each window, which docs gives by start, and
// yields what as makes of them: by time, then by bucket, then as they came.
func inOrder[M, T any](f *frame, docs iter.Seq2[bson.Raw, error], entries func(doc bson.Raw) ([]entry, error), as func(M, entry) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var start bson.RawValue
		var window []entry
		flush := func() bool {
			slices.SortStableFunc(window, func(x, y entry) int {
				return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.seq, y.seq))
			})
			all, err := codec.DecodeValue[[]M](f.codec, arrayOf(len(window), func(i int) bson.RawValue { return window[i].raw }))
			if err != nil {
				yield(none, fmt.Errorf("window %s: %w", dateOf(start).Format(time.RFC3339), err))
				return false
			}
			for i, m := range all {
				if !yield(as(m, window[i]), nil) {
					return false
				}
			}
			return true
		}
		for doc, err := range docs {
			var found []entry
			at := value.Lookup(doc, f.start)
			if err == nil && at.Type != bson.TypeDateTime {
				err = f.noDate(doc)
			} else if err == nil {
				found, err = entries(doc)
				err = fault.Of(doc.Lookup("_id"), err)
			}
			if err != nil {
				yield(none, err)
				return
			}
			if !at.Equal(start) {
				if !flush() {
					return
				}
				start, window = at, nil
			}
			window = append(window, found...)
		}
		flush()
	}
}

func (f *frame) noDate(doc bson.Raw) error {
	return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s is %s, not a date", f.start, value.Text(value.Lookup(doc, f.start))))
}
