package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
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
	return func(yield func(M, error) bool) {
		if err := b.scan(ctx, series, from, to, yield, b.coll); err != nil {
			var zero M
			yield(zero, fmt.Errorf("bucket: range: %w", err))
		}
	}
}

// RangeAcross is Range over the collection and its archive together. It reads
// both in one snapshot transaction (its own, unless ctx is in one), so that a
// measurement is seen exactly once while Archive moves it. It must end within
// the server's limit for a transaction, 60 s by default: that goes for the loop
// body too.
//
// Cost: 2 round trips and the commit, further ones as for Range; index {series,
// start} of both.
func (b *Buckets[S, M]) RangeAcross(ctx context.Context, archive *mongo.Collection, series S, from, to time.Time) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		if archive == nil {
			var zero M
			yield(zero, fmt.Errorf("bucket: range across: %w: archive: nil", ErrInvalid))
			return
		}
		var begun, done bool
		var failure error // after the first measurement, when nothing may run again
		err := txn.Run(ctx, b.coll.Database().Client(), func(ctx context.Context) error {
			if done {
				return nil // only the commit of a reading transaction is in doubt
			}
			err := b.scan(ctx, series, from, to, func(m M, err error) bool {
				begun = true
				return yield(m, err)
			}, b.coll, archive)
			if err != nil && begun {
				failure = err
				return errInterrupted // has no label that asks for a retry
			}
			done = err == nil
			return err
		})
		if done {
			return
		}
		if failure != nil {
			err = failure
		}
		var zero M
		yield(zero, fmt.Errorf("bucket: range across: %w", err))
	}
}

var errInterrupted = errors.New("interrupted")

// RangePipeline gives the measurements of a range as documents in time order.
// The server sorts them; for a long range Range is cheaper.
func (b *Buckets[S, M]) RangePipeline(series S, from, to time.Time) mongo.Pipeline {
	return mongo.Pipeline{
		{{Key: "$match", Value: b.filter(series, from, to)}},
		{{Key: "$project", Value: bson.D{{Key: "m", Value: b.inRange(from, to)}}}},
		{{Key: "$unwind", Value: bson.D{{Key: "path", Value: "$m"}, {Key: "includeArrayIndex", Value: "i"}}}},
		{{Key: "$sort", Value: bson.D{
			{Key: "m." + b.opts.TimeField, Value: 1}, {Key: "_id." + seqKey, Value: 1}, {Key: "i", Value: 1},
		}}},
		{{Key: "$replaceWith", Value: "$m"}},
	}
}

// Latest returns the measurement of series with the latest time; ErrNotFound if
// there is none. In a transaction on a sharded collection it needs MongoDB 8.0.
//
// Cost: 1 round trip; index {series, start}; the buckets of the newest window.
func (b *Buckets[S, M]) Latest(ctx context.Context, series S) (M, error) {
	var m M
	cursor, err := b.coll.Aggregate(ctx, b.LatestPipeline(series))
	if err == nil {
		defer cursor.Close(context.WithoutCancel(ctx))
		switch {
		case cursor.Next(ctx):
			err = cursor.Decode(&m)
		case cursor.Err() != nil:
			err = cursor.Err()
		default:
			err = ErrNotFound
		}
	}
	if err != nil {
		err = b.blame(ctx, b.filter(series, time.Time{}, time.Time{}), err)
		return m, fmt.Errorf("bucket: latest: series %s: %w", b.text(series), err)
	}
	return m, nil
}

// LatestPipeline is what Latest runs: the measurement as a document, or none.
func (b *Buckets[S, M]) LatestPipeline(series S) mongo.Pipeline {
	// The newest bucket that is not empty names the window; the measurement can
	// be in any bucket of it.
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			{Key: b.series, Value: b.equal(series)},
			{Key: b.opts.CountField, Value: bson.D{{Key: "$gt", Value: 0}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: b.start, Value: -1}}}},
		{{Key: "$limit", Value: 1}},
		{{Key: "$project", Value: bson.D{{Key: b.start, Value: 1}}}},
		{{Key: "$lookup", Value: bson.D{
			{Key: "from", Value: b.coll.Name()},
			{Key: "localField", Value: b.start}, {Key: "foreignField", Value: b.start},
			{Key: "pipeline", Value: mongo.Pipeline{
				{{Key: "$match", Value: bson.D{{Key: b.series, Value: b.equal(series)}}}},
			}},
			{Key: "as", Value: "b"},
		}}},
		{{Key: "$unwind", Value: "$b"}},
		{{Key: "$project", Value: bson.D{
			// $concatArrays refuses what is no array; $unwind would take it for one.
			{Key: "n", Value: "$b._id." + seqKey}, {Key: "m", Value: op("$concatArrays", bson.A{"$b." + b.opts.ArrayField})},
		}}},
		{{Key: "$unwind", Value: bson.D{{Key: "path", Value: "$m"}, {Key: "includeArrayIndex", Value: "i"}}}},
		{{Key: "$sort", Value: bson.D{
			{Key: "m." + b.opts.TimeField, Value: -1}, {Key: "n", Value: -1}, {Key: "i", Value: -1},
		}}},
		{{Key: "$limit", Value: 1}},
		{{Key: "$replaceWith", Value: "$m"}},
	}
}

// blame adds to an error of the server which of the buckets that filter selects
// has no array: the server does not say. It asks outside of the transaction that
// ctx may be in, which the error has ended.
func (b *Buckets[S, M]) blame(ctx context.Context, filter bson.D, err error) error {
	var failed mongo.ServerError
	if !errors.As(err, &failed) || mongo.IsNetworkError(err) || mongo.IsDuplicateKeyError(err) ||
		failed.HasErrorLabel("TransientTransactionError") {
		return err
	}
	var found bson.Raw
	broken := bson.E{Key: b.opts.ArrayField, Value: bson.D{
		{Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}, {Key: "$ne", Value: nil},
	}}
	if b.primary.FindOne(mongo.NewSessionContext(ctx, nil), append(filter, broken),
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Decode(&found) != nil {
		return err
	}
	return fmt.Errorf("bucket %s: %w: %s: %w", rawvalue.Text(found.Lookup("_id")), ErrNotArray, b.opts.ArrayField, err)
}

// A slice of a bucket, as scan reads it.
type bucketDoc[M any] struct {
	Start bson.DateTime `bson:"s"`
	Seq   int64         `bson:"n"`
	Items []M           `bson:"m"`
	times []int64       // of Items
}

// A reader is a cursor over buckets in the order of their windows, with one
// bucket read ahead.
type reader[M any] struct {
	cursor *mongo.Cursor
	head   bucketDoc[M]
	ok     bool
}

func (r *reader[M]) next(ctx context.Context, o *Options) error {
	r.head = bucketDoc[M]{}
	if r.ok = r.cursor.Next(ctx); !r.ok {
		return r.cursor.Err()
	}
	array := r.cursor.Current.Lookup("m")
	if array.Type != bson.TypeArray {
		return fmt.Errorf("bucket %s: %w: %s", rawvalue.Text(array), ErrNotArray, o.ArrayField)
	}
	if err := r.cursor.Decode(&r.head); err != nil {
		return fmt.Errorf("bucket that starts %s: %w", rawvalue.Text(rawvalue.Lookup(r.cursor.Current, "s")), err)
	}
	items, err := array.Array().Values()
	if err != nil {
		return err
	}
	for _, item := range items {
		at := int64(math.MinInt64) // of nothing this package wrote
		if doc, ok := item.DocumentOK(); ok {
			if ms, ok := rawvalue.Lookup(doc, o.TimeField).DateTimeOK(); ok {
				at = ms
			}
		}
		r.head.times = append(r.head.times, at)
	}
	return nil
}

// scan yields the measurements of one or several collections, window by window.
func (b *Buckets[S, M]) scan(ctx context.Context, series any, from, to time.Time, yield func(M, error) bool, colls ...*mongo.Collection) error {
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: b.filter(series, from, to)}},
		{{Key: "$sort", Value: bson.D{{Key: b.start, Value: 1}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "_id", Value: 0},
			{Key: "s", Value: "$" + b.start}, {Key: "n", Value: toLong("$_id."+seqKey, 0)},
			// Or the _id, which cannot be an array, of a bucket whose array is none.
			{Key: "m", Value: op("$cond", op("$isArray", array(b.opts.ArrayField)), b.inRange(from, to), "$_id")},
		}}},
	}
	readers := make([]*reader[M], 0, len(colls))
	for _, coll := range colls {
		cursor, err := coll.Aggregate(ctx, pipeline)
		if err != nil {
			return err
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		r := &reader[M]{cursor: cursor}
		if err := r.next(ctx, &b.opts); err != nil {
			return err
		}
		readers = append(readers, r)
	}
	type entry struct {
		time  int64
		seq   int64
		index int
		m     M
	}
	var window []entry
	for {
		start, more := bson.DateTime(0), false
		for _, r := range readers {
			if r.ok && (!more || r.head.Start < start) {
				start, more = r.head.Start, true
			}
		}
		if !more {
			return nil
		}
		window = window[:0]
		for _, r := range readers {
			for r.ok && r.head.Start == start {
				for i, m := range r.head.Items {
					window = append(window, entry{r.head.times[i], r.head.Seq, i, m})
				}
				if err := r.next(ctx, &b.opts); err != nil {
					return err
				}
			}
		}
		slices.SortStableFunc(window, func(x, y entry) int {
			return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.seq, y.seq), cmp.Compare(x.index, y.index))
		})
		for _, e := range window {
			if !yield(e.m, nil) {
				return nil
			}
		}
	}
}
