package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Buckets stores measurements M of series S in arrays, one document for a window of a series until it is
// full, then further ones. It is safe for concurrent use.
type Buckets[S, M any] struct{ core *arrays }

var _ mongopatterns.Checker = (*Buckets[string, bson.D])(nil)

// arrays is the layout of Buckets, on BSON.
type arrays struct {
	base
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
func New[S, M any](coll *mongo.Collection, window Window, opts *Options) (b *Buckets[S, M], err error) {
	defer fault.In(&err, "bucket: new")
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Values = append([]Value(nil), o.Values...)
	c := &arrays{base: newBase(coll, window, codec.Codec{Registry: o.Registry, BSON: o.BSON}, o.EndTime, o.Metadata)}
	if err := c.Check(o.settings()...); err != nil {
		return nil, err
	}
	c.layout, c.opts, c.Guards = c, o, []string{o.CountField}
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

// A room is the bucket of a window to go on in, and what it holds at least. A window that is not known begins at 0,
// and other writers may have filled the bucket: a failed write then, never a wrong one.
type room struct{ seq, count, size int64 }

// or is the room further on.
func (r room) or(o room) room {
	if o.seq > r.seq || o.seq == r.seq && o.count > r.count {
		return o
	}
	return r
}

const (
	// maxBytes leaves room below the server's 16 MiB for what is not measurements.
	maxBytes = 16<<20 - 64<<10
	// partBytes is how much one update adds to a bucket without MaxBytes.
	partBytes = 8 << 20
)

// Append adds one measurement to the window its time falls into, however late it comes, and starts a further
// bucket where that one is full. With Options.IDField a repeated measurement is not stored again, and stored is
// false; without it, an Append whose outcome is unknown may be stored twice if repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. When other writers filled the bucket, or this one has not
// written to the window yet and its first is full: 2 more. In a transaction: 2.
func (b *Buckets[S, M]) Append(ctx context.Context, series S, m M) (stored bool, err error) {
	defer fault.In(&err, "bucket: append")
	one := b.core.begin()
	if err := one.Add(series, m); err != nil {
		return false, err
	}
	result, err := one.Store(ctx)
	return result.Done > 0, err
}

// AppendMany adds measurements of any series in any order. It takes Work.BatchSize of them at a time, 10,000
// by default and no more than Work.BatchBytes, groups them by bucket and sends one unordered bulk write. nil
// is no measurements.
//
// Skipped were held already, or came twice in a batch (Options.IDField); Unknown are one batch at most. What the
// Result counts nowhere is not stored, also after an error. A measurement that is not valid ends the call with an
// ErrInvalid that names its index, when those before it are stored. With IDField the same input can be given
// again; without, Unknown ones may then be stored twice.
//
// Cost: 1 round trip a batch, and 1 document written for each bucket in it, found by _id. Each time that it
// meets buckets which cannot take a whole group: 2 more. In a transaction: 2 a batch.
func (b *Buckets[S, M]) AppendMany(ctx context.Context, items iter.Seq2[S, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: append many")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return b.core.Many(ctx, frame.Untyped(items, func(m M) any { return m }), work, b.core.begin)
}

// item encodes a measurement, reads what buckets derive from it, and refuses what they cannot store.
func (c *arrays) item(b *batch, m any) (it item, err error) {
	raw, err := c.Codec.Document(m)
	if err != nil {
		return it, err
	}
	at, dated := value.Lookup(raw, c.opts.TimeField).DateTimeOK()
	if !dated {
		return it, fault.Invalid("no date in %q", c.opts.TimeField)
	}
	it.raw, it.time = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}, at
	if c.opts.IDField != "" {
		it.id = value.Lookup(raw, c.opts.IDField)
		if err := checkMeasurementID(it.id); err != nil {
			return it, fault.Invalid("no ID in %q: %w", c.opts.IDField, err)
		}
	}
	n := len(c.opts.Values)
	if len(b.slab) < n {
		b.slab = make([]Number, n*min(b.Count+1, 1000))
	}
	it.numbers, b.slab = b.slab[:n], b.slab[n:]
	for i, v := range c.opts.Values {
		it.numbers[i] = finite(value.Lookup(raw, v.Field))
		if it.numbers[i].IsZero() && v.Count == "" {
			return it, fault.Invalid("no finite number in %q", v.Field)
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
	return frame.CheckKey(id)
}

// An arrayLoad is groups on their way into buckets.
type arrayLoad struct {
	*arrays
	groups []*group
	parts  []part // of the statements
}

// A part is items of a group for one bucket.
type part struct {
	group *group
	items []item
	after room
}

func (c *arrays) load(groups []*group) frame.Load { return &arrayLoad{arrays: c, groups: groups} }

// Next divides the groups by what their buckets have room for.
//
// Cost: none, or with look 1 round trip.
func (l *arrayLoad) Next(ctx context.Context, look bool) (out []frame.Statement, dropped int, err error) {
	dropped, err = l.open(ctx, l.groups, look)
	l.parts = nil
	for _, g := range l.groups {
		l.cut(g)
		g.Of.items = nil // but for what is to be sent again
	}
	for _, p := range l.parts {
		out = append(out, frame.Statement{Rows: len(p.items), Filter: l.roomFor(p), Update: l.push(p)})
	}
	return out, dropped, err
}

// cut divides a group into what fits its bucket and the ones that follow.
func (l *arrayLoad) cut(g *group) {
	at, items := g.Of.room, g.Of.items
	if l.opts.MaxBytes == 0 {
		at.size = 0 // bytes are those of one update
	}
	bytes := int64(min(cmp.Or(l.opts.MaxBytes, partBytes), maxBytes-len(g.Of.created)))
	for len(items) > 0 {
		n := 0
		for ; n < len(items) && at.count < int64(l.opts.MaxCount); n++ {
			size := int64(len(items[n].raw.Value))
			if at.size > 0 && at.size+size > bytes {
				break
			}
			at.count, at.size = at.count+1, at.size+size
		}
		if n > 0 {
			l.parts = append(l.parts, part{g, items[:n], at})
		}
		at, items = room{seq: at.seq + 1}, items[n:]
	}
}

// Stored remembers where a window goes on.
func (l *arrayLoad) Stored(i int, sure bool) {
	if p := l.parts[i]; sure {
		l.known.Change(p.group.Key, func(r room) room { return r.or(p.after) })
	}
}

// Again repeats what met a bucket that another writer made or filled, and what did not fit below 16 MiB though the
// count allows it: such a bucket is full, in whatever transaction.
func (l *arrayLoad) Again(i int, err error) bool {
	var server mongo.ServerError
	p := l.parts[i]
	if errors.As(err, &server) && (server.HasErrorCode(17419) || server.HasErrorCode(17420) || server.HasErrorCode(10334)) {
		p.group.Of.least = l.known.Change(p.group.Key, func(r room) room { return r.or(room{seq: p.after.seq + 1}) }).seq
	} else if !mongo.IsDuplicateKeyError(err) {
		return false
	}
	p.group.Of.items = append(p.group.Of.items, p.items...)
	return true
}

// roomFor selects the bucket of a part if it has room and holds none of the items yet. The server plans by the equality
// on _id: no hint is needed.
func (c *arrays) roomFor(p part) bson.Raw {
	filter := c.One(p.group.Place, p.after.seq, true)
	limit := func(field string, n int64) {
		filter.Open(field)
		filter.Int("$lte", n)
		filter.Close()
	}
	limit(c.opts.CountField, int64(c.opts.MaxCount-len(p.items)))
	if c.opts.MaxBytes > 0 {
		limit(c.opts.BytesField, int64(c.opts.MaxBytes)-sizeOf(p.items))
	}
	if c.opts.IDField != "" {
		filter.Open(c.idPath())
		filter.Array("$nin", len(p.items), func(i int) bson.RawValue { return p.items[i].id })
		filter.Close()
	}
	return filter.Done()
}

// push is the update that adds a part to its bucket or makes it with it.
func (c *arrays) push(p part) bson.Raw {
	tallies := make([]tally, len(c.opts.Values))
	for i, v := range c.opts.Values {
		t := &tallies[i]
		t.limit, t.exact = c.sumLimit(), v.Moments != "" ||
			slices.ContainsFunc(p.items, func(it item) bool { return it.numbers[i].Raw().Type == bson.TypeDecimal128 })
		for _, it := range p.items {
			if n := it.numbers[i]; !n.IsZero() {
				t.add(it.time, n)
			}
		}
	}
	size := sizeOf(p.items)
	b := codec.Build(512 + int(size) + 8*len(p.items))
	b.Open("$push")
	b.Open(c.opts.ArrayField)
	b.Array("$each", len(p.items), func(i int) bson.RawValue { return p.items[i].raw })
	b.Close()
	b.Close()
	b.Open("$inc")
	b.Int(c.opts.CountField, int64(len(p.items)))
	if c.opts.BytesField != "" {
		b.Int(c.opts.BytesField, size)
	}
	for i, v := range c.opts.Values {
		t := &tallies[i]
		if v.Count != "" {
			b.Int(v.Count, t.count)
		}
		if v.Sum != "" {
			b.Value(v.Sum, t.sum().Raw())
		}
		if v.Moments != "" {
			b.Value(v.Moments+"."+sumKey, decimal(&t.total).Raw())
			b.Value(v.Moments+"."+squaresKey, decimal(&t.squares).Raw())
		}
	}
	b.Close()
	// A sample compares field by field: by time, then by value.
	extremes := func(op string, fields func(v *Value, t *tally) (number, sample string, n Number, s sample)) {
		b.Some(op, func() {
			for i := range tallies {
				number, at, n, s := fields(&c.opts.Values[i], &tallies[i])
				if number != "" && !n.IsZero() {
					b.Value(number, n.Raw())
				}
				if at != "" && !n.IsZero() {
					b.Open(at)
					b.Date(timeKey, s.ms)
					b.Value(valueKey, s.Raw())
					b.Close()
				}
			}
		})
	}
	extremes("$min", func(v *Value, t *tally) (string, string, Number, sample) { return v.Min, v.First, t.min, t.first })
	extremes("$max", func(v *Value, t *tally) (string, string, Number, sample) { return v.Max, v.Last, t.max, t.last })
	if p.group.Of.created != nil {
		b.Value("$setOnInsert", bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: p.group.Of.created})
	}
	return b.Done()
}

// open has groups go on where this process wrote last. With look it reads their buckets from there on, and
// with IDField those of the windows that hold one of their IDs, and drops what is held: one find for all
// groups.
func (c *arrays) open(ctx context.Context, groups []*group, look bool) (dropped int, err error) {
	byKey := map[string]*group{}
	var wanted, all bson.A
	for _, g := range groups {
		g.Of.room = c.known.Change(g.Key, func(r room) room { return r.or(room{seq: g.Of.least}) })
		if c.opts.IDField != "" {
			dropped += drop(g, map[string]bool{})
		}
		if !look || len(g.Of.items) == 0 {
			continue
		}
		byKey[g.Key] = g
		g.Of.room = room{seq: g.Of.room.seq}
		wanted = append(wanted, c.Since(g.Place, g.Of.room.seq))
		if c.opts.IDField != "" {
			ids := bson.A{}
			for _, it := range g.Of.items {
				ids = append(ids, it.id)
			}
			wanted = append(wanted, append(c.Within(g.Place), bson.E{Key: c.idPath(), Value: expr.Op("$in", ids)}))
			all = append(all, ids...)
		}
	}
	if wanted == nil {
		return dropped, nil
	}
	fields := c.fields(c.opts.CountField, c.opts.BytesField)
	opts := options.Find().SetBatchSize(1 << 20)
	if c.opts.IDField != "" {
		fields = append(fields, bson.E{Key: "~ids", Value: expr.Filter(
			expr.Map(c.array(), "m", at(c.opts.IDField)), "id", expr.Op("$in", expr.Var("id"), expr.Literal(all)))})
	} else if len(wanted) == 1 {
		opts.SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(1)
	}
	for doc, err := range frame.Find(ctx, cursor.Primary(c.Coll), expr.Op("$or", wanted), opts.SetProjection(fields)) {
		if err != nil {
			return dropped, err
		}
		g := byKey[c.KeyOf(doc)]
		if g == nil {
			continue
		}
		if list, ok := doc.Lookup("~ids").ArrayOK(); ok {
			held := map[string]bool{}
			ids, _ := list.Values()
			for _, id := range ids {
				held[value.Key(id)] = true
			}
			dropped += drop(g, held)
		}
		// What has no number is not this package's.
		if seq, ok := frame.Number(doc); ok && seq >= g.Of.room.seq {
			g.Of.room = c.filled(seq, doc)
		}
	}
	return dropped, nil
}

// filled is the room of a bucket, or of the next one if it does not say how full it is.
func (c *arrays) filled(seq int64, fill bson.Raw) room {
	count, counted := value.Lookup(fill, c.opts.CountField).AsInt64OK()
	size, sized := value.Lookup(fill, c.opts.BytesField).AsInt64OK()
	if !counted || c.opts.MaxBytes > 0 && !sized {
		return room{seq: seq + 1}
	}
	return room{seq, count, size}
}

// drop takes out the items whose IDs are held, and those that come twice.
func drop(g *group, held map[string]bool) int {
	all := len(g.Of.items)
	g.Of.items = slices.DeleteFunc(slices.Clone(g.Of.items), func(it item) bool {
		key := value.Key(it.id)
		twice := held[key]
		held[key] = true
		return twice
	})
	return all - len(g.Of.items)
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
	it, err := c.item(&batch{}, m)
	if err != nil {
		return err
	}
	path, key := c.opts.TimeField, frame.Date(it.time)
	if c.opts.IDField != "" {
		path, key = c.opts.IDField, it.id
	}
	return c.edit(ctx, series, time.UnixMilli(it.time), path, key, it.raw)
}

// Delete removes the measurement of series at exactly this time, of several one, and recomputes the bucket's
// aggregates in the same write. ErrNotFound if there is none, also when a deletion whose answer was lost is
// repeated. A bucket that becomes empty stays, with count 0.
//
// Cost: 1 round trip, 1 document written; index {series, start}; the buckets of the window until the
// measurement is found.
func (b *Buckets[S, M]) Delete(ctx context.Context, series S, at time.Time) (err error) {
	defer fault.In(&err, "bucket: delete")
	return b.core.edit(ctx, series, at, b.core.opts.TimeField, frame.Date(at.UnixMilli()), bson.RawValue{})
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
	raw, err := c.Codec.Value(id)
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
	p, err := c.Place(series, moment)
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
	filter := append(c.Within(p), bson.E{Key: c.opts.ArrayField + "." + path, Value: value.Equal(key)})
	result, err := fault.One(c.Coll.UpdateOne(ctx, filter,
		mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.opts.ArrayField, Value: changed}}), expr.Op("$set", c.recounted)}))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.Named(moment.UnixMilli(), fmt.Sprintf(", %s %s", path, value.Text(key)), err)
}
