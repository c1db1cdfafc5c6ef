package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
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
// yet: 2 more. In a transaction, which a duplicate key would end: 2 round trips.
func (b *Buckets[S, M]) Append(ctx context.Context, series S, m M) (result Appended, err error) {
	defer fault.In(&err, "bucket: append")
	return b.core.append(ctx, series, m)
}

// append upserts into the bucket where the place is thought to go on. The answer says
// how full that is now, so that the next append begins the next bucket by itself. A
// duplicate key says that the thought was wrong: locate, and once more.
func (c *arrays) append(ctx context.Context, series, m any) (Appended, error) {
	var one batch
	if _, err := c.add(&one, series, m); err != nil {
		return Appended{}, err
	}
	g := one.groups[0]
	g.least = c.seqs.get(g.key)
	joined := txn.Running(ctx)
	g.seq = g.least
	for attempt := 0; ; attempt++ {
		if attempt > 0 || joined {
			if _, err := c.locate(ctx, []*group{g}); err != nil {
				return Appended{}, err
			}
			if len(g.items) == 0 {
				return Appended{Duplicate: true}, nil
			}
		}
		var after bson.Raw
		err := c.coll.FindOneAndUpdate(ctx, c.open(g.place, g.seq, g.items), c.push(g, g.items),
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).
				SetProjection(c.fill())).Decode(&after)
		if err == nil {
			if c.goOn(g, g.seq, after); !joined { // else it may be undone
				c.seqs.raise(g.key, g.seq)
			}
			count, _ := value.Lookup(after, c.opts.CountField).AsInt64OK()
			return Appended{ID: after.Lookup("_id").Document(), Count: count}, nil
		}
		large := tooLarge(err)
		switch {
		case large:
			c.pass(g, g.seq)
		case !mongo.IsDuplicateKeyError(err):
			return Appended{}, err
		}
		switch {
		case joined && large:
			return Appended{}, txn.Conflict("the bucket is full: " + err.Error())
		case joined:
			return Appended{}, err
		case attempt >= maxAttempts:
			return Appended{}, gaveUp(err)
		}
	}
}

// tooLarge reports that a bucket cannot hold what was to be added to it, though its
// count allows it: it is full.
func tooLarge(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(17419) || server.HasErrorCode(17420) || server.HasErrorCode(10334))
}

// pass leaves a bucket that is too large to those before the group. It is known to be
// full in whatever transaction.
func (c *arrays) pass(g *group, seq int64) {
	g.least = seq + 1
	c.seqs.raise(g.key, g.least)
}

func gaveUp(err error) error {
	if mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("%w: %w", ErrContended, err)
	}
	return err
}

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.Raw
	time    bson.DateTime
	id      bson.RawValue
	numbers []number // by Options.Values; of type 0 where there is none
}

// item encodes a measurement, once.
func (c *arrays) item(m any) (item, error) {
	raw, err := c.codec.Document(m)
	if err != nil {
		return item{}, fmt.Errorf("measurement: %w", err)
	}
	return c.itemOf(raw)
}

// itemOf reads what the buckets derive from a measurement, and refuses one that they
// could not store.
func (c *arrays) itemOf(raw bson.Raw) (item, error) {
	refused := func(format string, args ...any) (item, error) {
		return item{}, fmt.Errorf("measurement: %w", fault.Invalid(format, args...))
	}
	at, err := raw.LookupErr(c.time...)
	if err != nil || at.Type != bson.TypeDateTime {
		return refused("no date in %q", c.opts.TimeField)
	}
	it := item{raw: raw, time: bson.DateTime(at.DateTime()), numbers: make([]number, len(c.values))}
	if c.opts.IDField != "" {
		it.id = value.Lookup(raw, c.opts.IDField)
		if err := checkMeasurementID(it.id); err != nil {
			return refused("no ID in %q: %w", c.opts.IDField, err)
		}
	}
	for i, path := range c.values {
		v, err := raw.LookupErr(path...)
		if n, ok := finite(v); ok && err == nil {
			it.numbers[i] = n
		} else if c.opts.Values[i].Count == "" {
			return refused("no finite number in %q", c.opts.Values[i].Field)
		}
	}
	if len(raw) > cmp.Or(c.opts.MaxBytes, maxBytes) {
		return refused("%d bytes, more than a bucket takes", len(raw))
	}
	return it, nil
}

// checkMeasurementID refuses what measurements cannot be told apart by, also what an
// ID is before it is set.
func checkMeasurementID(id bson.RawValue) error {
	unset := false
	switch id.Type {
	case bson.TypeString:
		unset = id.StringValue() == ""
	case bson.TypeObjectID:
		unset = id.ObjectID().IsZero()
	}
	if unset {
		return fault.Invalid("not set")
	}
	return checkKey(id)
}

// open selects the bucket of this number if it has room for the items and holds
// none of them yet. Upserting on it makes the bucket if there is none, and is a
// duplicate key on _id if there is one that was not selected. An equality on _id is
// all that the server plans by, so that no hint is needed.
func (c *arrays) open(p place, seq int64, items []item) bson.D {
	filter := append(bson.D{{Key: "_id", Value: c.bucketID(p, seq)}}, c.within(p)...)
	filter = append(filter, bson.E{
		Key: c.opts.CountField, Value: bson.D{{Key: "$lte", Value: c.opts.MaxCount - len(items)}},
	})
	if c.opts.MaxBytes > 0 {
		filter = append(filter, bson.E{
			Key: c.opts.BytesField, Value: bson.D{{Key: "$lte", Value: int64(c.opts.MaxBytes) - sizeOf(items)}},
		})
	}
	if c.opts.IDField != "" {
		filter = append(filter, bson.E{Key: c.idPath(), Value: bson.D{{Key: "$nin", Value: ids(items)}}})
	}
	return filter
}

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw))
	}
	return size
}

func ids(items []item) bson.RawValue {
	return arrayOf(len(items), func(i int) bson.RawValue { return items[i].id })
}

// arrayOf writes a BSON array of values that are encoded already: the driver copies
// it as a whole, where it would take an array of Go values apart.
func arrayOf(n int, at func(i int) bson.RawValue) bson.RawValue {
	size := 5
	for i := range n {
		size += 8 + len(at(i).Value)
	}
	out := append(make([]byte, 0, size), 0, 0, 0, 0)
	for i := range n {
		v := at(i)
		out = append(out, byte(v.Type))
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(append(out, 0), v.Value...)
	}
	out = append(out, 0)
	for i := range 4 {
		out[i] = byte(len(out) >> (8 * i))
	}
	return bson.RawValue{Type: bson.TypeArray, Value: out}
}

// push is the update that adds items to a bucket or makes it with them.
func (c *arrays) push(g *group, items []item) bson.D {
	array := bson.D{{Key: "$each", Value: arrayOf(len(items), func(i int) bson.RawValue {
		return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: items[i].raw}
	})}}
	if c.opts.Sorted {
		array = append(array, bson.E{Key: "$sort", Value: bson.D{{Key: c.opts.TimeField, Value: 1}}})
	}
	inc := bson.D{{Key: c.opts.CountField, Value: int32(len(items))}}
	if c.opts.BytesField != "" {
		inc = append(inc, bson.E{Key: c.opts.BytesField, Value: sizeOf(items)})
	}
	var lower, upper bson.D
	keep := func(doc *bson.D, path string, v any) {
		if path != "" {
			*doc = append(*doc, bson.E{Key: path, Value: v})
		}
	}
	for i, v := range c.opts.Values {
		t := tally{limit: c.sumLimit(), moments: v.Moments != ""}
		for _, it := range items {
			if n := it.numbers[i]; n.raw.Type != 0 {
				t.add(it.time, n)
			}
		}
		keep(&inc, v.Count, t.count)
		keep(&inc, v.Sum, t.sum())
		if v.Moments != "" {
			keep(&inc, v.Moments+"."+sumKey, decimal(t.total))
			keep(&inc, v.Moments+"."+squaresKey, decimal(t.squares))
		}
		if t.count > 0 {
			keep(&lower, v.Min, t.min.raw)
			keep(&upper, v.Max, t.max.raw)
			// A document compares field by field: by time, then by value.
			keep(&lower, v.First, t.first.document())
			keep(&upper, v.Last, t.last.document())
		}
	}
	update := bson.D{
		{Key: "$push", Value: bson.D{{Key: c.opts.ArrayField, Value: array}}},
		{Key: "$inc", Value: inc},
	}
	for _, op := range []bson.E{{Key: "$min", Value: lower}, {Key: "$max", Value: upper}, {Key: "$setOnInsert", Value: g.created}} {
		if len(op.Value.(bson.D)) > 0 {
			update = append(update, op)
		}
	}
	return update
}

// fill projects what tells how full a bucket is.
func (c *arrays) fill() bson.D {
	fields := bson.D{{Key: c.opts.CountField, Value: 1}}
	if c.opts.BytesField != "" {
		fields = append(fields, bson.E{Key: c.opts.BytesField, Value: 1})
	}
	return fields
}

// goOn continues a group in this bucket, or in the next one if it cannot take
// a measurement as large as the group's first.
func (c *arrays) goOn(g *group, seq int64, fill bson.Raw) {
	var hasCount, hasSize bool
	g.seq = seq
	g.count, hasCount = value.Lookup(fill, c.opts.CountField).AsInt64OK()
	g.size, hasSize = value.Lookup(fill, c.opts.BytesField).AsInt64OK()
	full := !hasCount || g.count >= int64(c.opts.MaxCount)
	if c.opts.MaxBytes > 0 {
		full = full || !hasSize || g.size+int64(len(g.items[0].raw)) > int64(c.opts.MaxBytes)
	}
	if full {
		g.seq, g.count, g.size = seq+1, 0, 0
	}
}

// locate finds where groups go on: it drops the measurements that their windows
// already hold, and sets the number, count and size of the newest bucket of each.
//
// It reads the buckets from the one on that the group knows of, and with IDField those
// of the window that hold one of its IDs: one aggregate for all groups.
func (c *arrays) locate(ctx context.Context, groups []*group) (dropped int, err error) {
	byKey := map[string]*group{}
	var wanted bson.A
	var all []item
	for _, g := range groups {
		all = append(all, g.items...)
		byKey[g.key] = g
		g.seq, g.count, g.size = g.least, 0, 0
		wanted = append(wanted, c.numbered(g.place, g.least))
		if c.opts.IDField != "" {
			wanted = append(wanted, append(c.within(g.place), bson.E{Key: c.idPath(), Value: bson.D{{Key: "$in", Value: ids(g.items)}}}))
		}
	}
	// A document compares by its number first. What has none is not this package's.
	newest := bson.D{{Key: seqKey, Value: expr.Cond(expr.Op("$isNumber", "$_id."+seqKey), "$_id."+seqKey, -1)}}
	for _, field := range c.fill() {
		newest = append(newest, bson.E{Key: field.Key, Value: expr.Field(field.Key)})
	}
	row := bson.D{{Key: "newest", Value: bson.D{{Key: "$max", Value: newest}}}}
	pipeline := mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: wanted}}}}}
	if c.opts.IDField != "" {
		row = append(row, bson.E{Key: "ids", Value: bson.D{{Key: "$push", Value: expr.Filter(
			expr.Map(c.array(), "m", at(c.opts.IDField)), "id", expr.Op("$in", expr.Var("id"), expr.Literal(ids(all))))}}})
	} else if len(groups) == 1 {
		pipeline = append(pipeline, bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}}, bson.D{{Key: "$limit", Value: 1}})
	}
	pipeline = append(pipeline, bson.D{{Key: "$group", Value: append(bson.D{
		{Key: "_id", Value: bson.D{{Key: "s", Value: expr.Field(c.series)}, {Key: "w", Value: expr.Field(c.start)}}},
	}, row...)}})
	for doc, err := range pipe(ctx, cursor.Primary(c.coll), pipeline, options.Aggregate().SetBatchSize(int32(len(groups)+1))) {
		if err != nil {
			return dropped, err
		}
		g := byKey[placeKey(doc.Lookup("_id", "s"), dateOf(doc.Lookup("_id", "w")))]
		if g == nil {
			continue
		}
		if c.opts.IDField != "" {
			dropped += g.drop(heldIDs(doc.Lookup("ids")))
		}
		newest := doc.Lookup("newest").Document()
		if seq, _ := newest.Lookup(seqKey).AsInt64OK(); seq >= g.least && len(g.items) > 0 {
			c.goOn(g, seq, newest)
		}
	}
	return dropped, nil
}

// heldIDs are the keys of IDs in an array of arrays.
func heldIDs(arrays bson.RawValue) map[string]bool {
	out := map[string]bool{}
	outer, _ := arrays.Array().Values()
	for _, inner := range outer {
		ids, _ := inner.Array().Values()
		for _, id := range ids {
			out[value.Key(id)] = true
		}
	}
	return out
}

// drop takes out the items whose IDs are held, and those that come twice.
func (g *group) drop(held map[string]bool) (dropped int) {
	kept := make([]item, 0, len(g.items))
	for _, it := range g.items {
		key := value.Key(it.id)
		if held[key] {
			dropped++
			continue
		}
		held[key] = true
		kept = append(kept, it)
	}
	g.items = kept
	return dropped
}

// array is the bucket's array, empty if it has none.
func (c *arrays) array() bson.D { return expr.IfNull(expr.Field(c.opts.ArrayField), bson.A{}) }

// at is a path inside a measurement m of an expression.
func at(path string) string { return expr.Var("m." + path) }
