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

// Range returns the measurements of series from from until before to in time
// order, late arrivals in their place; those of one millisecond in the order
// they came. A zero time is no limit. Only measurements of the range leave the
// server, and memory holds those of one window.
//
// Cost: 1 round trip, further ones for what exceeds the server's first batch
// (101 buckets or 16 MiB); index {series, start}, no sort on the server; 1 key
// and 1 document per bucket of the range.
func (b *Buckets[S, M]) Range(ctx context.Context, series S, from, to time.Time) iter.Seq2[M, error] {
	return fault.Seq("bucket: range", decoded[M](ctx, b.core, series, from, to, ""))
}

// RangeAcross is Range over the collection and its archive together. It reads
// both as they were at one moment, so that a measurement is seen exactly once
// while Archive moves it: in a snapshot session, or in the transaction that ctx is
// in. The server keeps a snapshot for 5 minutes by default: that goes for the loop
// body too. It sorts the buckets of the range, not their measurements.
//
// Cost: 1 round trip, further ones as for Range; index {series, start} of both.
func (b *Buckets[S, M]) RangeAcross(ctx context.Context, archive *mongo.Collection, series S, from, to time.Time) iter.Seq2[M, error] {
	c := b.core
	return fault.Seq("bucket: range across", func(yield func(M, error) bool) {
		var none M
		if err := config.Collections("coll", c.coll, "archive", archive); err != nil {
			yield(none, err)
			return
		}
		if !txn.Running(ctx) {
			session, err := c.coll.Database().Client().StartSession(options.Session().SetSnapshot(true))
			if err != nil {
				yield(none, err)
				return
			}
			defer session.EndSession(ctx)
			ctx = mongo.NewSessionContext(ctx, session)
		}
		decoded[M](ctx, c, series, from, to, archive.Name())(yield)
	})
}

// Latest returns the measurement of series with the latest time; ErrNotFound if
// there is none. In a transaction on a sharded collection it needs MongoDB 8.0.
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
	// The newest bucket that is not empty names the window; the measurement can
	// be in any bucket of it.
	c := b.core
	all := c.filter(series, time.Time{}, time.Time{})
	return mongo.Pipeline{
		{{Key: "$match", Value: append(all, bson.E{Key: c.opts.CountField, Value: expr.Op("$gt", 0)})}},
		{{Key: "$sort", Value: bson.D{{Key: c.start, Value: -1}}}},
		{{Key: "$limit", Value: 1}},
		{{Key: "$project", Value: bson.D{{Key: c.start, Value: 1}}}},
		{{Key: "$lookup", Value: bson.D{
			{Key: "from", Value: c.coll.Name()},
			{Key: "localField", Value: c.start}, {Key: "foreignField", Value: c.start},
			{Key: "pipeline", Value: mongo.Pipeline{
				{{Key: "$match", Value: all}},
				{{Key: "$project", Value: bson.D{{Key: "m", Value: c.array()}}}},
			}},
			{Key: "as", Value: "b"},
		}}},
		{{Key: "$unwind", Value: "$b"}},
		{{Key: "$project", Value: bson.D{{Key: "n", Value: "$b._id." + seqKey}, {Key: "m", Value: "$b.m"}}}},
		{{Key: "$unwind", Value: bson.D{{Key: "path", Value: "$m"}, {Key: "includeArrayIndex", Value: "i"}}}},
		{{Key: "$sort", Value: bson.D{
			{Key: "m." + c.opts.TimeField, Value: -1}, {Key: "n", Value: -1}, {Key: "i", Value: -1},
		}}},
		{{Key: "$limit", Value: 1}},
		{{Key: "$replaceWith", Value: "$m"}},
	}
}

// Page returns the measurements of the bucket with number n in the window that holds
// at, in the order they came; with a negative n of the last bucket (-1), the one
// before (-2) and so on. ErrNotFound if there is none. With [ByCount], whose one
// window holds every time, these are the pages of a series.
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

// A window is the measurements of a window of time: by time, then by bucket, then as
// they came.
type window struct {
	start   bson.RawValue
	entries []entry
}

type entry struct {
	time int64
	seq  int64
	raw  bson.RawValue
}

// decoded yields the measurements of a range, and of that in an archive with it, window
// by window.
func decoded[M any](ctx context.Context, c *arrays, series any, from, to time.Time, archive string) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		var none M
		for w, err := range c.windows(ctx, series, from, to, archive) {
			var all []M
			if err == nil {
				all, err = codec.DecodeValue[[]M](c.codec, arrayOf(len(w.entries), func(i int) bson.RawValue { return w.entries[i].raw }))
				if err != nil {
					err = fmt.Errorf("window %s: %w", dateOf(w.start).Format(time.RFC3339), err)
				}
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, m := range all {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// windows reads the buckets of a range and puts those of each window together.
func (c *arrays) windows(ctx context.Context, series any, from, to time.Time, archive string) iter.Seq2[window, error] {
	inOrder := expr.Op("$sort", bson.D{{Key: c.start, Value: 1}})
	pipeline := mongo.Pipeline{expr.Op("$match", c.filter(series, from, to)), inOrder, expr.Op("$project", bson.D{
		{Key: c.start, Value: 1},
		// What is no array is left for the error that names the bucket.
		{Key: "~m", Value: expr.Cond(expr.Op("$isArray", c.array()), c.inRange(from, to), expr.Field(c.opts.ArrayField))},
	})}
	if archive != "" {
		pipeline = append(pipeline, expr.Op("$unionWith", bson.D{{Key: "coll", Value: archive}, {Key: "pipeline", Value: pipeline}}), inOrder)
	}
	return func(yield func(window, error) bool) {
		if _, err := c.seriesOf(series); err != nil {
			yield(window{}, err)
			return
		}
		var w window
		flush := func() bool {
			slices.SortStableFunc(w.entries, func(x, y entry) int {
				return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.seq, y.seq))
			})
			return len(w.entries) == 0 || yield(w, nil)
		}
		for doc, err := range pipe(ctx, c.coll, pipeline) {
			if start := value.Lookup(doc, c.start); err == nil && !start.Equal(w.start) {
				if !flush() {
					return
				}
				w = window{start: start}
			}
			if err == nil {
				err = c.read(&w, doc)
			}
			if err != nil {
				yield(window{}, err)
				return
			}
		}
		flush()
	}
}

// read adds the measurements of a bucket to its window.
func (c *arrays) read(w *window, doc bson.Raw) error {
	list, ok := doc.Lookup("~m").ArrayOK()
	switch {
	case w.start.Type != bson.TypeDateTime:
		return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s is %s, not a date", c.start, value.Text(w.start)))
	case !ok:
		return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s is %s, not an array", c.opts.ArrayField, value.Text(doc.Lookup("~m"))))
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
		w.entries = append(w.entries, e)
	}
	return err
}
