package bucket

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Buckets stores measurements M of series S in arrays, one document for a window of a series until it is
// full, then further ones. It is safe for concurrent use.
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
	recounted  bson.D    // what recount sets
	seqs       sequences
}

// New returns Buckets over coll; opts may be nil. S is what tells series apart, a string, a number, an
// ObjectID or a small struct; M is a measurement, which encodes to a document with its time in it. All that
// write one collection must use the same window and options.
func New[S, M any](coll *mongo.Collection, window Window, opts *Options) (b *Buckets[S, M], err error) {
	defer fault.In(&err, "bucket: new")
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]Value(nil), o.Values...)
	settings := o.settings()
	c := &arrays{frame: frame{coll: coll, window: window, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		endAt: o.EndTime, metadata: o.Metadata}}
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

// Indexes returns the indexes Buckets uses besides _id: {series: 1, start: 1}; with Options.IDField the
// unique {series: 1, start: 1, "measurements.id": 1} of buckets that hold an ID.
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
	return map[string][]mongo.IndexModel{c.coll.Name(): models}
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys with other options is
// ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (b *Buckets[S, M]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "bucket: ensure indexes")
	return indexes.EnsureAll(ctx, b.core.coll.Database(), b.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. Every write of one document filters on
// it.
func (b *Buckets[S, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{b.core.coll.Name(): b.core.shardKey()}
}

// Filter selects the bucket documents that can hold measurements of series from from until before to; a zero
// time is no limit. It uses the index {series, start}.
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

// sequences remembers in which bucket of a window to go on. A window it does not know begins at 0: a failed
// write if that one is full, never a wrong one; so it may forget.
type sequences struct {
	mu   sync.Mutex
	next map[string]int64
}

const maxSequences = 10_000

// raise remembers that buckets before n are full, and returns the number that is known best.
func (s *sequences) raise(key string, n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.next[key] {
		if s.next == nil || len(s.next) >= maxSequences {
			s.next = map[string]int64{}
		}
		s.next[key] = n
	}
	return s.next[key]
}

const (
	// maxBytes leaves room below the server's 16 MiB for what is not measurements.
	maxBytes = 16<<20 - 64<<10
	// partBytes is how much one update adds to a bucket without MaxBytes.
	partBytes = 8 << 20
)

// Appended says what Append did.
type Appended struct {
	Duplicate bool     // the window holds this ID already; nothing was written
	ID        bson.Raw // the _id of the bucket that took the measurement
	Count     int64    // how many measurements that bucket holds now
}

// Append adds one measurement to the window its time falls into, however late it comes, and starts a further
// bucket where that one is full. With Options.IDField a repeated measurement is not stored again; without it,
// an Append whose outcome is unknown may be stored twice if repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. When another process filled the bucket, or this one
// has not written to the window yet and its first is full: 2 more. In a transaction: 2.
func (b *Buckets[S, M]) Append(ctx context.Context, series S, m M) (out Appended, err error) {
	defer fault.In(&err, "bucket: append")
	c := b.core
	var one batch
	if err := c.add(&one, series, m); err != nil {
		return out, err
	}
	joined := txn.Running(ctx)
	// An AppendMany of one whose bucket answers how full it is: the next one begins another itself.
	result, err := c.write(ctx, one.groups, func(ctx context.Context, all []statement) (map[int]error, error) {
		s := all[0]
		var after bson.Raw
		err := c.coll.FindOneAndUpdate(ctx, s.filter, s.update, options.FindOneAndUpdate().
			SetUpsert(true).SetReturnDocument(options.After).SetProjection(c.fill())).Decode(&after)
		if err != nil {
			return map[int]error{0: err}, err
		}
		if c.goOn(s.group, s.seq, s.items[0], after); !joined {
			c.seqs.raise(s.group.key, s.group.seq)
		}
		out.ID = after.Lookup("_id").Document()
		out.Count, _ = value.Lookup(after, c.opts.CountField).AsInt64OK()
		return nil, nil
	})
	out.Duplicate = result.Skipped > 0
	return out, err
}

// AppendMany adds measurements of any series in any order. It takes Work.BatchSize of them at a time, 10,000
// by default and no more than Work.BatchBytes, groups them by bucket and sends one unordered bulk write. nil
// is no measurements.
//
// The Result tells the outcomes apart, also after an error: Done are stored, Skipped were held already
// (Options.IDField), Failed were refused, and of Unknown, one batch at most, no answer came. The rest is not
// stored. A measurement that is not valid ends the call with an ErrInvalid that names its index, when those
// before it are stored. With IDField the same input can be given again; without, Unknown ones may then be
// stored twice.
//
// Cost: 1 round trip a batch, and 1 document written for each bucket in it, found by _id. Each time that it
// meets buckets which cannot take a whole group: 2 more. In a transaction: 2 a batch.
func (b *Buckets[S, M]) AppendMany(ctx context.Context, items iter.Seq2[S, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: append many")
	return b.core.store(ctx, untyped(items, func(m M) any { return m }), work)
}

// item encodes a measurement, reads what buckets derive from it, and refuses what they cannot store.
func (c *arrays) item(m any) (it item, err error) {
	raw, err := c.codec.Document(m)
	if err != nil {
		return it, err
	}
	at, err := raw.LookupErr(c.time...)
	if err != nil || at.Type != bson.TypeDateTime {
		return it, fault.Invalid("no date in %q", c.opts.TimeField)
	}
	it.raw = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
	it.time, it.numbers = at.Time(), make([]number, len(c.values))
	if c.opts.IDField != "" {
		it.id = value.Lookup(raw, c.opts.IDField)
		if err := checkMeasurementID(it.id); err != nil {
			return it, fault.Invalid("no ID in %q: %w", c.opts.IDField, err)
		}
	}
	for i, path := range c.values {
		v, err := raw.LookupErr(path...)
		if n, ok := finite(v); ok && err == nil {
			it.numbers[i] = n
		} else if c.opts.Values[i].Count == "" {
			return it, fault.Invalid("no finite number in %q", c.opts.Values[i].Field)
		}
	}
	if len(raw) > cmp.Or(c.opts.MaxBytes, maxBytes) {
		return it, fault.Invalid("%d bytes, more than a bucket takes", len(raw))
	}
	return it, nil
}

// checkMeasurementID refuses what measurements cannot be told apart by, also what an ID is before it is set.
func checkMeasurementID(id bson.RawValue) error {
	text, _ := id.StringValueOK()
	oid, _ := id.ObjectIDOK()
	if id.Type == bson.TypeString && text == "" || id.Type == bson.TypeObjectID && oid.IsZero() {
		return fault.Invalid("not set")
	}
	return checkKey(id)
}

// statements cuts a group into what fits its bucket and the ones that follow.
func (c *arrays) statements(g *group) (out []statement) {
	most, bytes := int64(c.opts.MaxCount), int64(cmp.Or(c.opts.MaxBytes, partBytes))
	seq, count, size, first := g.seq, g.count, int64(0), 0
	if c.opts.MaxBytes > 0 {
		size = g.size
	}
	cut := func(end int) {
		items := g.items[first:end]
		out = append(out, statement{group: g, items: items, id: c.bucketID(g.place, seq), seq: seq,
			filter: c.room(g.place, seq, items), update: c.push(g, items)})
		seq, count, size, first = seq+1, 0, 0, end
	}
	for i, it := range g.items {
		if i > first && (count == most || size+int64(len(it.raw.Value)) > bytes) {
			cut(i)
		}
		count++
		size += int64(len(it.raw.Value))
	}
	if len(g.items) > 0 {
		cut(len(g.items))
	}
	return out
}

// room selects the bucket of this number if it has room for the items and holds none of them yet. Upserting
// on it makes the bucket if there is none, and is a duplicate key on _id if it was not selected. The server
// plans by the equality on _id: no hint is needed.
func (c *arrays) room(p place, seq int64, items []item) bson.D {
	filter := append(bson.D{{Key: "_id", Value: c.bucketID(p, seq)}}, c.within(p)...)
	filter = append(filter, bson.E{Key: c.opts.CountField, Value: expr.Op("$lte", c.opts.MaxCount-len(items))})
	if c.opts.MaxBytes > 0 {
		filter = append(filter, bson.E{Key: c.opts.BytesField, Value: expr.Op("$lte", int64(c.opts.MaxBytes)-sizeOf(items))})
	}
	if c.opts.IDField != "" {
		filter = append(filter, bson.E{Key: c.idPath(), Value: expr.Op("$nin", ids(items))})
	}
	return filter
}

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw.Value))
	}
	return size
}

func ids(items []item) bson.RawValue {
	return arrayOf(len(items), func(i int) bson.RawValue { return items[i].id })
}

// push is the update that adds items to a bucket or makes it with them.
func (c *arrays) push(g *group, items []item) bson.D {
	var lower, upper bson.D
	inc := bson.D{{Key: c.opts.CountField, Value: int32(len(items))}}
	keep := func(doc *bson.D, path string, v any) {
		if path != "" {
			*doc = append(*doc, bson.E{Key: path, Value: v})
		}
	}
	keep(&inc, c.opts.BytesField, sizeOf(items))
	for i, v := range c.opts.Values {
		t := tally{limit: c.sumLimit(), exact: v.Moments != "" ||
			slices.ContainsFunc(items, func(it item) bool { return it.numbers[i].raw.Type == bson.TypeDecimal128 })}
		for _, it := range items {
			if n := it.numbers[i]; n.raw.Type != 0 {
				t.add(bson.NewDateTimeFromTime(it.time), n)
			}
		}
		keep(&inc, v.Count, t.count)
		keep(&inc, v.Sum, t.sum())
		if v.Moments != "" {
			keep(&inc, v.Moments+"."+sumKey, decimal(&t.total))
			keep(&inc, v.Moments+"."+squaresKey, decimal(&t.squares))
		}
		if t.count > 0 {
			keep(&lower, v.Min, t.min.raw)
			keep(&upper, v.Max, t.max.raw)
			// A document compares field by field: by time, then by value.
			keep(&lower, v.First, t.first.document())
			keep(&upper, v.Last, t.last.document())
		}
	}
	each := arrayOf(len(items), func(i int) bson.RawValue { return items[i].raw })
	update := bson.D{
		{Key: "$push", Value: bson.D{{Key: c.opts.ArrayField, Value: expr.Op("$each", each)}}},
		{Key: "$inc", Value: inc},
	}
	maybe := bson.D{{Key: "$min", Value: lower}, {Key: "$max", Value: upper}, {Key: "$setOnInsert", Value: g.created}}
	for _, op := range maybe {
		if len(op.Value.(bson.D)) > 0 {
			update = append(update, op)
		}
	}
	return update
}

// wrote remembers the bucket where a window goes on.
func (c *arrays) wrote(s statement) { c.seqs.raise(s.group.key, s.seq) }

// again repeats what met a bucket that another writer made or filled, and what did not fit below 16 MiB: such
// a bucket is full, in whatever transaction.
func (c *arrays) again(s statement, err error) bool {
	if tooLarge(err) {
		s.group.least = c.seqs.raise(s.group.key, s.seq+1)
		return true
	}
	return mongo.IsDuplicateKeyError(err)
}

// fill projects what tells how full a bucket is.
func (c *arrays) fill() bson.D {
	fields := bson.D{{Key: c.opts.CountField, Value: 1}}
	if c.opts.BytesField != "" {
		fields = append(fields, bson.E{Key: c.opts.BytesField, Value: 1})
	}
	return fields
}

// goOn continues a group in this bucket, or in the next one if it cannot take a measurement as large as it.
func (c *arrays) goOn(g *group, seq int64, it item, fill bson.Raw) {
	count, counted := value.Lookup(fill, c.opts.CountField).AsInt64OK()
	size, sized := value.Lookup(fill, c.opts.BytesField).AsInt64OK()
	g.seq, g.count, g.size = seq, count, size
	if !counted || count >= int64(c.opts.MaxCount) ||
		c.opts.MaxBytes > 0 && (!sized || size+int64(len(it.raw.Value)) > int64(c.opts.MaxBytes)) {
		g.seq, g.count, g.size = seq+1, 0, 0
	}
}

// open has groups go on where this process wrote last. With look it reads their buckets from there on, and
// with IDField those of the windows that hold one of their IDs, and drops what is held: one find for all
// groups.
func (c *arrays) open(ctx context.Context, groups []*group, look bool) (dropped int, err error) {
	for _, g := range groups {
		g.least = c.seqs.raise(g.key, g.least)
		g.seq, g.count, g.size = g.least, 0, 0
		if c.opts.IDField != "" {
			dropped += g.drop(map[string]bool{})
		}
	}
	if !look {
		return dropped, nil
	}
	byKey := map[string]*group{}
	var wanted bson.A
	var all []item
	for _, g := range groups {
		byKey[g.key] = g
		all = append(all, g.items...)
		wanted = append(wanted, c.numbered(g.place, g.least))
		if c.opts.IDField != "" {
			wanted = append(wanted, append(c.within(g.place), bson.E{Key: c.idPath(), Value: expr.Op("$in", ids(g.items))}))
		}
	}
	fields := append(c.shardKey(), c.fill()...)
	opts := options.Find().SetBatchSize(1 << 20)
	if c.opts.IDField != "" {
		fields = append(fields, bson.E{Key: "~ids", Value: expr.Filter(
			expr.Map(c.array(), "m", at(c.opts.IDField)), "id", expr.Op("$in", expr.Var("id"), expr.Literal(ids(all))))})
	} else if len(groups) == 1 {
		opts.SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(1)
	}
	for doc, err := range find(ctx, cursor.Primary(c.coll), expr.Op("$or", wanted), opts.SetProjection(fields)) {
		if err != nil {
			return dropped, err
		}
		g := byKey[c.keyOf(doc)]
		if g == nil {
			continue
		}
		if list, ok := doc.Lookup("~ids").ArrayOK(); ok {
			held := map[string]bool{}
			ids, _ := list.Values()
			for _, id := range ids {
				held[value.Key(id)] = true
			}
			dropped += g.drop(held)
		}
		// What has no number is not this package's.
		if seq, ok := value.Lookup(doc, "_id."+seqKey).AsInt64OK(); ok && seq >= g.seq && len(g.items) > 0 {
			c.goOn(g, seq, g.items[0], doc)
		}
	}
	return dropped, nil
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

// Update replaces the measurement with m's ID in m's window, or without Options.IDField one with exactly m's
// time, and recomputes the bucket's aggregates in the same write. ErrNotFound if there is none. It can be
// repeated. To move a measurement to another window, delete and append it.
//
// Cost: 1 round trip, 1 document written; index {series, start}, with IDField the one on IDs; the buckets of
// the window until the measurement is found.
func (b *Buckets[S, M]) Update(ctx context.Context, series S, m M) (err error) {
	defer fault.In(&err, "bucket: update")
	c := b.core
	it, err := c.item(m)
	if err != nil {
		return err
	}
	path, key := c.opts.TimeField, dateValue(it.time)
	if c.opts.IDField != "" {
		path, key = c.opts.IDField, it.id
	}
	return c.edit(ctx, series, it.time, path, key, it.raw)
}

// Delete removes the measurement of series at exactly this time, of several one, and recomputes the bucket's
// aggregates in the same write. ErrNotFound if there is none, also when a deletion whose answer was lost is
// repeated. A bucket that becomes empty stays, with count 0.
//
// Cost: 1 round trip, 1 document written; index {series, start}; the buckets of the window until the
// measurement is found.
func (b *Buckets[S, M]) Delete(ctx context.Context, series S, at time.Time) (err error) {
	defer fault.In(&err, "bucket: delete")
	return b.core.edit(ctx, series, at, b.core.opts.TimeField, dateValue(at), bson.RawValue{})
}

// DeleteByID is Delete for the measurement with this ID in the window that holds at. It needs
// Options.IDField.
//
// Cost: 1 round trip, 1 document written; the index on IDs, 1 key.
func (b *Buckets[S, M]) DeleteByID(ctx context.Context, series S, at time.Time, id any) (err error) {
	defer fault.In(&err, "bucket: delete by ID")
	c := b.core
	if c.opts.IDField == "" {
		return fault.Invalid("Options.IDField is not set")
	}
	raw, err := c.codec.Value(id)
	if err == nil {
		err = checkMeasurementID(raw)
	}
	if err != nil {
		return fmt.Errorf("ID: %w", err)
	}
	return c.edit(ctx, series, at, c.opts.IDField, raw, bson.RawValue{})
}

// edit puts by, or with its zero value nothing, in the place of the measurement whose path is key, and
// recounts its bucket in the same write.
func (c *arrays) edit(ctx context.Context, series any, moment time.Time, path string, key, by bson.RawValue) error {
	p, err := c.place(series, moment)
	if err != nil {
		return err
	}
	all, i := expr.Field(c.opts.ArrayField), expr.Var("i")
	indices, element := expr.Op("$range", 0, expr.Op("$size", all)), expr.Op("$arrayElemAt", all, i)
	if by.Type == 0 {
		indices = expr.Filter(indices, "i", expr.Op("$ne", i, expr.Var("found")))
	} else {
		element = expr.Cond(expr.Op("$eq", i, expr.Var("found")), expr.Literal(by), element)
	}
	found := expr.Op("$indexOfArray", expr.Map(all, "m", at(path)), expr.Literal(key))
	changed := expr.Let("found", found, expr.Map(indices, "i", element))
	filter := append(c.within(p), bson.E{Key: c.opts.ArrayField + "." + path, Value: value.Equal(key)})
	result, err := c.coll.UpdateOne(ctx, filter,
		append(mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.opts.ArrayField, Value: changed}})}, c.recount()...))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.named(moment, fmt.Sprintf(", %s %s", path, value.Text(key)), err)
}
