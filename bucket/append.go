package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Appended says what Append did.
type Appended struct {
	// Duplicate says that the window already holds a measurement with this ID;
	// nothing was written and the other fields are zero.
	Duplicate bool
	// ID is the _id of the bucket that took the measurement.
	ID bson.Raw
	// Count is how many measurements that bucket holds now.
	Count int64
}

// Append adds one measurement to the window its time falls into, however late
// it comes, and starts a further bucket where that one is full.
//
// Several writers in several processes may append to one series. With
// Options.IDField a repeated measurement is not stored again; without it, an
// Append whose outcome is unknown (a lost connection beyond the driver's own
// retry) may be stored twice if repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. When another process
// filled the bucket, or this one has not written to a window of several buckets
// yet: 2 more (3 with IDField). In a transaction, which a duplicate key would
// end: 2 round trips (3 with IDField).
func (b *Buckets[S, M]) Append(ctx context.Context, series S, m M) (Appended, error) {
	g, err := b.group(series, m)
	if err != nil {
		return Appended{}, fmt.Errorf("bucket: append: %w", err)
	}
	result, err := b.append(ctx, g)
	if err != nil {
		return Appended{}, fmt.Errorf("bucket: append: %w", err)
	}
	return result, nil
}

func (b *Buckets[S, M]) append(ctx context.Context, g *group) (Appended, error) {
	inTransaction := txn.Running(ctx)
	g.seq = b.seqs.get(g.key)
	for attempt := 0; ; attempt++ {
		if attempt > 0 || inTransaction {
			if err := b.locate(ctx, g); err != nil {
				return Appended{}, err
			}
			if len(g.items) == 0 {
				return Appended{Duplicate: true}, nil
			}
		}
		var after bson.Raw
		err := b.coll.FindOneAndUpdate(ctx, b.open(g.place, g.seq, g.items), b.push(g, g.items),
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetHint(byID).
				SetProjection(b.fill())).Decode(&after)
		if errors.Is(err, mongo.ErrNoDocuments) {
			// MongoDB always answers with the document. A server that does not,
			// when two writers make it at once, is asked what it did.
			err = b.primary.FindOne(ctx, append(b.target(g.place, g.seq), bson.E{Key: b.opts.ArrayField, Value: g.items[0].raw}),
				options.FindOne().SetProjection(b.fill())).Decode(&after)
			if errors.Is(err, mongo.ErrNoDocuments) && attempt < b.opts.MaxRetries {
				continue
			}
		}
		switch {
		case err == nil:
			b.goOn(g, g.seq, after) // to the next bucket if this one is full now
			if !inTransaction {     // else it may be undone
				b.seqs.raise(g.key, g.seq)
			}
			count, _ := rawvalue.Lookup(after, b.opts.CountField).AsInt64OK()
			return Appended{ID: after.Lookup("_id").Document(), Count: count}, nil
		case inTransaction || !mongo.IsDuplicateKeyError(err):
			return Appended{}, b.blame(ctx, b.within(g.place), err)
		case attempt >= b.opts.MaxRetries:
			return Appended{}, fmt.Errorf("%w: %w", ErrContended, err)
		}
	}
}

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.Raw
	time    bson.DateTime
	id      bson.RawValue
	numbers []any // by Options.Values; nil where there is none
}

// A group is measurements for one window of a series.
type group struct {
	place
	created bson.D
	items   []item

	// Where to go on, as far as known.
	seq         int64
	count, size int64
}

func (b *Buckets[S, M]) group(series S, m M) (*group, error) {
	it, err := b.item(m)
	if err != nil {
		return nil, fmt.Errorf("series %s: %w", b.text(series), err)
	}
	p, err := b.place(series, it.time.Time())
	if err != nil {
		return nil, err
	}
	created, err := b.created(p, series)
	if err != nil {
		return nil, fmt.Errorf("series %s: %w", b.text(series), err)
	}
	return &group{place: p, created: created, items: []item{it}}, nil
}

func (b *Buckets[S, M]) item(m M) (item, error) {
	raw, err := b.document(m)
	if err != nil {
		return item{}, fmt.Errorf("measurement: %w: %w", ErrInvalid, err)
	}
	return b.itemOf(raw)
}

func (b *Buckets[S, M]) itemOf(raw bson.Raw) (item, error) {
	at := rawvalue.Lookup(raw, b.opts.TimeField)
	if at.Type != bson.TypeDateTime {
		return item{}, fmt.Errorf("measurement: %w: no date in %q", ErrInvalid, b.opts.TimeField)
	}
	it := item{raw: raw, time: bson.DateTime(at.DateTime()), numbers: make([]any, len(b.opts.Values))}
	if b.opts.IDField != "" {
		it.id = rawvalue.Lookup(raw, b.opts.IDField)
		if !isID(it.id) {
			return item{}, fmt.Errorf("measurement: %w: no ID in %q", ErrInvalid, b.opts.IDField)
		}
	}
	for i, v := range b.opts.Values {
		n, ok := finite(rawvalue.Lookup(raw, v.Field))
		if ok {
			it.numbers[i] = n
		} else if v.Count == "" {
			return item{}, fmt.Errorf("measurement: %w: no finite number in %q", ErrInvalid, v.Field)
		}
	}
	if b.opts.MaxBytes > 0 && len(raw) > b.opts.MaxBytes {
		return item{}, fmt.Errorf("measurement: %w: %d bytes exceed Options.MaxBytes", ErrInvalid, len(raw))
	}
	return it, nil
}

// isID says whether measurements can be told apart by this value: an array, say,
// or what an ID is before it is set, cannot.
func isID(value bson.RawValue) bool {
	switch value.Type {
	case 0, bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return false
	case bson.TypeString:
		return value.StringValue() != ""
	case bson.TypeObjectID:
		return !value.ObjectID().IsZero()
	}
	return true
}

// open selects the bucket of this number if it has room for the items and holds
// none of them yet. Upserting on it makes the bucket if there is none, and is a
// duplicate key on _id if there is one that was not selected.
func (b *Buckets[S, M]) open(p place, seq int64, items []item) bson.D {
	filter := append(b.target(p, seq), bson.E{
		Key: b.opts.CountField, Value: bson.D{{Key: "$lte", Value: b.opts.MaxCount - len(items)}},
	})
	if b.opts.MaxBytes > 0 {
		filter = append(filter, bson.E{
			Key: b.opts.BytesField, Value: bson.D{{Key: "$lte", Value: int64(b.opts.MaxBytes) - sizeOf(items)}},
		})
	}
	if b.opts.IDField != "" {
		filter = append(filter, bson.E{Key: b.idPath(), Value: bson.D{{Key: "$nin", Value: ids(items)}}})
	}
	return filter
}

// byID is the index that writes to one bucket use; the server might choose one
// that starts with the series.
var byID = bson.D{{Key: "_id", Value: 1}}

// target is the bucket of this number, by _id and shard key.
func (b *Buckets[S, M]) target(p place, seq int64) bson.D {
	return append(bson.D{{Key: "_id", Value: b.id(p, seq)}}, b.within(p)...)
}

// within is all documents of the place.
func (l *layout) within(p place) bson.D {
	return bson.D{{Key: l.series, Value: l.equal(p.series)}, {Key: l.start, Value: p.start}}
}

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw))
	}
	return size
}

func ids(items []item) bson.A {
	out := make(bson.A, len(items))
	for i, it := range items {
		out[i] = it.id
	}
	return out
}

// push is the update that adds items to a bucket or makes it with them.
func (b *Buckets[S, M]) push(g *group, items []item) bson.D {
	each := make(bson.A, len(items))
	for i, it := range items {
		each[i] = it.raw
	}
	array := bson.D{{Key: "$each", Value: each}}
	if b.opts.Sorted {
		array = append(array, bson.E{Key: "$sort", Value: bson.D{{Key: b.opts.TimeField, Value: 1}}})
	}
	inc := bson.D{{Key: b.opts.CountField, Value: int32(len(items))}}
	if b.opts.BytesField != "" {
		inc = append(inc, bson.E{Key: b.opts.BytesField, Value: sizeOf(items)})
	}
	var lower, upper bson.D
	for i, v := range b.opts.Values {
		t := tally{sum: int32(0), squares: int32(0), limit: b.sumLimit()}
		for _, it := range items {
			if it.numbers[i] != nil {
				t.add(it.time, it.numbers[i])
			}
		}
		inc = appendKept(inc, v.Sum, t.sum)
		inc = appendKept(inc, v.SumSquares, t.squares)
		inc = appendKept(inc, v.Count, t.count)
		if t.count > 0 {
			lower = appendKept(lower, v.Min, t.min)
			upper = appendKept(upper, v.Max, t.max)
			// A document compares field by field: by time, then by value.
			lower = appendKept(lower, v.First, t.first.document())
			upper = appendKept(upper, v.Last, t.last.document())
		}
	}
	update := bson.D{
		{Key: "$push", Value: bson.D{{Key: b.opts.ArrayField, Value: array}}},
		{Key: "$inc", Value: inc},
	}
	for _, op := range []bson.E{{Key: "$min", Value: lower}, {Key: "$max", Value: upper}, {Key: "$setOnInsert", Value: g.created}} {
		if len(op.Value.(bson.D)) > 0 {
			update = append(update, op)
		}
	}
	return update
}

func appendKept(doc bson.D, path string, value any) bson.D {
	if path == "" {
		return doc
	}
	return append(doc, bson.E{Key: path, Value: value})
}

// A tally is what a few measurements add to the aggregates of one value.
type tally struct {
	count        int32
	sum, squares any
	limit        int64 // of ints in sum
	min, max     any
	first, last  sample
}

type sample struct {
	time  bson.DateTime
	value any
}

func (s sample) document() bson.D {
	return bson.D{{Key: timeKey, Value: s.time}, {Key: valueKey, Value: s.value}}
}

func (s sample) before(o sample) bool {
	return s.time < o.time || s.time == o.time && less(s.value, o.value)
}

func (t *tally) add(at bson.DateTime, n any) {
	s := sample{at, n}
	if t.count == 0 {
		t.min, t.max, t.first, t.last = n, n, s, s
	}
	t.count++
	t.sum = add(t.sum, summand(n, t.limit))
	t.squares = add(t.squares, square(n))
	if less(n, t.min) {
		t.min = n
	}
	if less(t.max, n) {
		t.max = n
	}
	if s.before(t.first) {
		t.first = s
	}
	if t.last.before(s) {
		t.last = s
	}
}

// locate finds where a group goes on: it drops the measurements that the window
// already holds and sets the number, count and size of its newest bucket.
func (b *Buckets[S, M]) locate(ctx context.Context, g *group) error {
	if b.opts.IDField != "" {
		filter := append(b.within(g.place), bson.E{Key: b.idPath(), Value: bson.D{{Key: "$in", Value: ids(g.items)}}})
		held, err := b.held(ctx, filter, g.items)
		if err != nil {
			return err
		}
		g.drop(held[g.key])
		if len(g.items) == 0 {
			return nil
		}
	}
	newest, err := b.newest(ctx, b.primary, g.place)
	if err != nil {
		return err
	}
	g.seq, g.count, g.size = 0, 0, 0
	if newest != nil {
		seq, _ := rawvalue.Lookup(newest, "_id."+seqKey).AsInt64OK()
		b.goOn(g, seq, newest)
	}
	return nil
}

// newest reads the bucket with the highest number of a place, by the order of
// _id; nil if there is none.
func (b *Buckets[S, M]) newest(ctx context.Context, coll *mongo.Collection, p place) (bson.Raw, error) {
	bound := func(n any) bson.D { return append(b.id(p, -1), bson.E{Key: seqKey, Value: n}) }
	filter := append(b.within(p), bson.E{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: bound(0)}, {Key: "$lt", Value: bound("")}, // numbers only
	}})
	var newest bson.Raw
	err := coll.FindOne(ctx, filter, options.FindOne().
		SetSort(bson.D{{Key: "_id", Value: -1}}).SetProjection(b.fill())).Decode(&newest)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return newest, err
}

// fill projects what tells how full a bucket is.
func (b *Buckets[S, M]) fill() bson.D {
	fields := bson.D{{Key: b.opts.CountField, Value: 1}}
	if b.opts.BytesField != "" {
		fields = append(fields, bson.E{Key: b.opts.BytesField, Value: 1})
	}
	return fields
}

// goOn continues a group in this bucket, or in the next one if it cannot take
// a measurement as large as the group's first.
func (b *Buckets[S, M]) goOn(g *group, seq int64, fill bson.Raw) {
	var hasCount, hasSize bool
	g.seq = seq
	g.count, hasCount = rawvalue.Lookup(fill, b.opts.CountField).AsInt64OK()
	g.size, hasSize = rawvalue.Lookup(fill, b.opts.BytesField).AsInt64OK()
	full := !hasCount || g.count >= int64(b.opts.MaxCount)
	if b.opts.MaxBytes > 0 {
		full = full || !hasSize || g.size+int64(len(g.items[0].raw)) > int64(b.opts.MaxBytes)
	}
	if full {
		g.seq, g.count, g.size = seq+1, 0, 0
	}
}

// held returns which IDs of items the buckets selected by filter hold, by
// place and ID.
func (b *Buckets[S, M]) held(ctx context.Context, filter bson.D, items []item) (map[string]map[string]bool, error) {
	cursor, err := b.primary.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: filter}},
		{{Key: "$project", Value: bson.D{
			{Key: "s", Value: "$" + b.series},
			{Key: "w", Value: "$" + b.start},
			{Key: "ids", Value: bson.D{{Key: "$filter", Value: bson.D{
				{Key: "input", Value: mapped(array(b.opts.ArrayField), "$$this."+b.opts.IDField)},
				{Key: "cond", Value: bson.D{{Key: "$in", Value: bson.A{"$$this", literal(ids(items))}}}},
			}}}},
		}}},
	}, options.Aggregate().SetBatchSize(cursorBatch(len(items), 1)))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	out := map[string]map[string]bool{}
	for cursor.Next(ctx) {
		key := placeKey(cursor.Current.Lookup("s"), dateOf(cursor.Current.Lookup("w")))
		if out[key] == nil {
			out[key] = map[string]bool{}
		}
		values, err := cursor.Current.Lookup("ids").Array().Values()
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			out[key][rawvalue.Key(value)] = true
		}
	}
	return out, cursor.Err()
}

func (g *group) drop(held map[string]bool) (dropped int) {
	kept := make([]item, 0, len(g.items))
	for _, it := range g.items {
		if held[rawvalue.Key(it.id)] {
			dropped++
		} else {
			kept = append(kept, it)
		}
	}
	g.items = kept
	return dropped
}

func dateOf(value bson.RawValue) time.Time {
	ms, _ := value.DateTimeOK()
	return time.UnixMilli(ms).UTC()
}
