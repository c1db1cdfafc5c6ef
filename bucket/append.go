package bucket

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Append adds one measurement to the window that holds its time, however late it comes, and starts a
// further bucket if the current one is full. With Options.IDField a repeated measurement is not stored
// again, and stored is false. Without it, repeating an Append whose outcome is unknown may store the
// measurement twice.
//
// Cost: 1 round trip, 1 document written, index _id.
//   - When other writers filled the bucket, or this one has not written to the window yet and its first is full: 2
//     more.
//   - In a transaction: 2.
func (b *Buckets[ID, M]) Append(ctx context.Context, series ID, m M) (stored bool, err error) {
	ctx = comment.Call(ctx, "bucket.Append")
	defer fault.In(&err, "bucket.Append")
	one := &batch{arrays: b.core}
	if err := one.Add(series, m); err != nil {
		return false, err
	}
	result, err := one.Store(ctx)
	return result.Done > 0, err
}

// AppendMany adds measurements of any series in any order. It takes Work.BatchSize of them at a time
// (10,000 by default, at most Work.BatchBytes), groups them by bucket and sends one unordered bulk write. A
// nil items adds nothing.
//
// Skipped ones were stored already, or came twice in a batch (Options.IDField). At most one batch is
// Unknown. If the server refused some (Failed), AppendMany returns an error at its end. Measurements
// that the Result does not count were not stored, even after an error. A measurement that is not
// valid ends the call, after those before it are stored, with an ErrInvalid that names its index.
// With IDField the same input can be given again. Without it, Unknown ones may then be stored twice.
//
// Cost: 1 round trip for each batch, and 1 document written for each bucket in it, index _id.
//   - Each time that it meets buckets which cannot take a whole group: 2 more.
//   - In a transaction: 2 for each batch.
func (b *Buckets[ID, M]) AppendMany(ctx context.Context, items iter.Seq2[ID, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "bucket.AppendMany")
	defer fault.In(&err, "bucket.AppendMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return b.core.Many(ctx, windows.Untyped(items, func(m M) any { return m }), work, b.core.begin)
}

// A batch holds encoded measurements by window, until they are stored.
type batch struct {
	*arrays
	windows.Groups[waiting]
	slab []timeseries.Number // for the next items
}

type group = windows.Group[waiting]

// waiting has the measurements that wait to be stored in a window's buckets.
type waiting struct {
	created bson.Raw // further fields of a new bucket
	items   []item
	room    room  // the bucket to write to, as far as known
	least   int64 // buckets with a lower number are full
}

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.RawValue
	time    int64 // in milliseconds
	id      bson.RawValue
	numbers []timeseries.Number // by Options.Values; zero if the measurement lacks it
}

// A room is the bucket of a window to write to next, and the least it holds. In a window that this process
// has not written to yet, that is bucket 0. If other writers have filled the bucket meanwhile, the write
// fails; it never overfills the bucket.
type room struct{ seq, count, size int64 }

// or returns the later of two rooms.
func (r room) or(o room) room {
	if o.seq > r.seq || o.seq == r.seq && o.count > r.count {
		return o
	}
	return r
}

// partBytes bounds the measurements in one update if MaxBytes is not set.
const partBytes = 8 << 20

func (c *arrays) begin() windows.Batch { return &batch{arrays: c} }

func (b *batch) Size() (count, bytes int) { return b.Count, b.Bytes }

// Add encodes a measurement once and puts it into the group of its window.
func (b *batch) Add(series, m any) error {
	it, err := b.item(b, m)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := b.Find(&b.Frame, series, it.time)
	if err != nil {
		return err
	}
	if g.Of.items == nil {
		if g.Of.created, err = b.Created(g.Place, series, b.opts.Metadata); err != nil {
			return err
		}
	}
	if size := len(g.Of.created) + len(it.raw.Value); size > windows.MaxBytes {
		return fault.Invalid("measurement: it has %d bytes with Metadata, more than fits into a document", size)
	}
	g.Of.items = append(g.Of.items, it)
	b.Count, b.Bytes = b.Count+1, b.Bytes+len(it.raw.Value)
	return nil
}

// item encodes a measurement and extracts its time, ID and numbers. It refuses a measurement that cannot be
// stored.
func (c *arrays) item(b *batch, m any) (it item, err error) {
	if err := c.CheckTimeOf(m, c.opts.TimeField); err != nil {
		return it, err
	}
	raw, err := c.Codec.Stored(m, c.opts.IDField)
	if err != nil {
		return it, err
	}
	at, dated := value.Lookup(raw, c.opts.TimeField).DateTimeOK()
	if !dated {
		return it, fault.Invalid("%q is not a date", c.opts.TimeField)
	}
	it.raw, it.time = value.Embedded(raw), at
	if c.opts.IDField != "" {
		it.id = value.Lookup(raw, c.opts.IDField)
		if err := checkMeasurementID(it.id); err != nil {
			return it, fault.Invalid("%q is not an ID: %w", c.opts.IDField, err)
		}
	}
	n := len(c.opts.Values)
	if len(b.slab) < n {
		b.slab = make([]timeseries.Number, n*min(b.Count+1, 1000))
	}
	it.numbers, b.slab = b.slab[:n], b.slab[n:]
	for i, v := range c.opts.Values {
		it.numbers[i] = finite(value.Lookup(raw, v.Field))
		if it.numbers[i].IsZero() && v.Count == "" {
			return it, fault.Invalid("%q is not a finite number", v.Field)
		}
	}
	if len(raw) > cmp.Or(c.opts.MaxBytes, windows.MaxBytes) {
		return it, fault.Invalid("it has %d bytes, more than fits into a bucket", len(raw))
	}
	return it, nil
}

// checkMeasurementID refuses values that cannot identify a measurement, also the zero values of a string
// and an ObjectID.
func checkMeasurementID(id bson.RawValue) error {
	text, _ := id.StringValueOK()
	oid, _ := id.ObjectIDOK()
	if id.Type == bson.TypeString && text == "" || id.Type == bson.TypeObjectID && oid.IsZero() {
		return fault.Invalid("it is empty")
	}
	return windows.CheckKey(id)
}

// A part has the items of a group that go to one bucket.
type part struct {
	group *group
	items []item
	after room
}

// Store sends the batch, and sends items again whose bucket was full. It does not change the groups, so
// that a transaction can call it again.
//
// Cost: that of a batch of AppendMany.
func (b *batch) Store(ctx context.Context) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	var groups []*group
	for _, g := range b.All {
		if clone := *g; g.Of.items != nil { // nil if its Metadata was refused
			groups = append(groups, &clone)
		}
	}
	for attempt := 0; ; attempt++ {
		skipped, err := b.open(ctx, groups, txn.Running(ctx) || attempt > 0)
		r.Skipped += int64(skipped)
		if err != nil {
			return r, err
		}
		parts, upserts := b.cut(groups)
		if len(parts) == 0 {
			return r, nil
		}
		full, err := b.send(ctx, parts, upserts, &r)
		if err != nil || full == nil {
			return r, err
		}
		if err := b.CheckRetry(ctx, attempt, full); err != nil {
			return r, err
		}
	}
}

// send sends parts once and counts them. Items whose bucket was full are in their group again; full is the server's
// reason, nil if there are none.
//
// Cost: 1 round trip.
func (c *arrays) send(ctx context.Context, parts []part, upserts []windows.Upsert, r *mongopatterns.Result) (full, err error) {
	outcomes, err := c.Send(ctx, upserts)
	for i, o := range outcomes {
		p, g := parts[i], parts[i].group
		switch o.Fate {
		case windows.Written:
			r.Done += int64(len(p.items))
			if !txn.Running(ctx) { // a transaction may be undone
				c.known.Change(g.Key, func(r room) room { return r.or(p.after) })
			}
		case windows.Unanswered:
			r.Unknown += int64(len(p.items))
		case windows.Taken: // another writer has made or filled the bucket
			full = o.Err
			g.Of.items = append(g.Of.items, p.items...)
		case windows.TooLarge: // the bucket is full although the count allows more, also for other transactions
			full = o.Err
			g.Of.items = append(g.Of.items, p.items...)
			g.Of.least = c.known.Change(g.Key, func(r room) room { return r.or(room{seq: p.after.seq + 1}) }).seq
		case windows.Unkeyed: // the collection is sharded by another key
			err = cmp.Or(err, o.Err)
			c.CountRefused(r, upserts[i].ID(), len(p.items), o.Err)
		case windows.Refused:
			c.CountRefused(r, upserts[i].ID(), len(p.items), o.Err)
		}
	}
	return full, err
}

// cut divides the items of groups into parts that fit the current bucket and the following ones, and
// removes the items from the groups.
func (c *arrays) cut(groups []*group) (parts []part, upserts []windows.Upsert) {
	for _, g := range groups {
		at, items := g.Of.room, g.Of.items
		g.Of.items = nil
		if c.opts.MaxBytes == 0 {
			at.size = 0 // without MaxBytes only the bytes of the update count
		}
		bytes := int64(min(cmp.Or(c.opts.MaxBytes, partBytes), windows.MaxBytes-len(g.Of.created)))
		for len(items) > 0 {
			n := 0
			for ; n < len(items) && at.count < int64(c.opts.MaxCount); n++ {
				size := int64(len(items[n].raw.Value))
				if at.size > 0 && at.size+size > bytes {
					break
				}
				at.count, at.size = at.count+1, at.size+size
			}
			if n > 0 {
				p := part{g, items[:n], at}
				parts, upserts = append(parts, p), append(upserts, windows.Upsert{Filter: c.roomFor(p), Update: c.push(p)})
			}
			at, items = room{seq: at.seq + 1}, items[n:]
		}
	}
	return parts, upserts
}

// roomFor selects the bucket of a part if it has room and does not hold any of the items yet. The server
// uses the equality on _id, so no hint is needed.
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

// push is the update that adds a part to its bucket, or creates the bucket with it.
func (c *arrays) push(p part) bson.Raw {
	tallies := make([]tally, len(c.opts.Values))
	for i, v := range c.opts.Values {
		t := &tallies[i]
		t.limit, t.exact = c.sumLimit(), v.Squares != "" ||
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
			b.Value(v.Sum, t.sum(v.Squares != "").Raw())
		}
		if v.Squares != "" {
			b.Value(v.Squares, decimal(&t.squares).Raw())
		}
	}
	b.Close()
	extremes := func(op string, fields func(v *timeseries.Value, t *tally) (number, sample string, n timeseries.Number, s sample)) {
		b.Some(op, func() {
			for i := range tallies {
				number, at, n, s := fields(&c.opts.Values[i], &tallies[i])
				if number != "" && !n.IsZero() {
					b.Value(number, n.Raw())
				}
				if at != "" && !n.IsZero() {
					b.Open(at)
					b.Date(windows.TimeKey, s.ms)
					b.Value(windows.ValueKey, s.Raw())
					b.Close()
				}
			}
		})
	}
	extremes("$min", func(v *timeseries.Value, t *tally) (string, string, timeseries.Number, sample) {
		return v.Min, v.First, t.min, t.first
	})
	extremes("$max", func(v *timeseries.Value, t *tally) (string, string, timeseries.Number, sample) {
		return v.Max, v.Last, t.max, t.last
	})
	if p.group.Of.created != nil {
		b.Value("$setOnInsert", value.Embedded(p.group.Of.created))
	}
	return b.Done()
}

// open sets the room of each group to the bucket where this process wrote last. With look it reads the
// buckets from there on, and with IDField those of the window that hold one of the group's IDs, with one
// find for all groups. It removes the items that are stored already and returns their number.
func (c *arrays) open(ctx context.Context, groups []*group, look bool) (dropped int, err error) {
	byKey, looked := map[string]*group{}, []*group(nil)
	for _, g := range groups {
		g.Of.room = c.known.Change(g.Key, func(r room) room { return r.or(room{seq: g.Of.least}) })
		if c.opts.IDField != "" {
			dropped += drop(g, map[string]bool{})
		}
		if look && len(g.Of.items) > 0 {
			byKey[g.Key], looked = g, append(looked, g)
			g.Of.room = room{seq: g.Of.room.seq}
		}
	}
	if looked == nil {
		return dropped, nil
	}
	for doc, err := range c.fullness(ctx, looked) {
		if err != nil {
			return dropped, err
		}
		if g := byKey[c.KeyOf(doc)]; g != nil {
			dropped += c.see(g, doc)
		}
	}
	return dropped, nil
}

// fullness reads how full the buckets of groups are, from the current one on. With IDField it also reads the buckets
// of the window that hold one of the group's IDs, and which they hold.
//
// Cost: 1 round trip.
func (c *arrays) fullness(ctx context.Context, groups []*group) iter.Seq2[bson.Raw, error] {
	var wanted, all bson.A
	for _, g := range groups {
		wanted = append(wanted, c.Since(g.Place, g.Of.room.seq))
		if c.opts.IDField == "" {
			continue
		}
		ids := bson.A{}
		for _, it := range g.Of.items {
			ids = append(ids, it.id)
		}
		wanted = append(wanted, append(c.Within(g.Place), expr.Element(c.idPath(), expr.Op("$in", ids))))
		all = append(all, ids...)
	}
	fields, opts := c.fields(c.opts.CountField, c.opts.BytesField), options.Find().SetBatchSize(1<<20)
	if c.opts.IDField != "" {
		fields = append(fields, expr.Element("~ids", expr.Filter(
			expr.Map(c.array(), "m", at(c.opts.IDField)), "id", expr.Op("$in", expr.Var("id"), expr.Literal(all)))))
	} else if len(wanted) == 1 {
		opts.SetSort(expr.D("_id", -1)).SetLimit(1)
	}
	return windows.Find(ctx, cursor.Primary(c.Coll), expr.Op("$or", wanted), opts.SetProjection(fields))
}

// see takes a bucket of a group's window into account. It removes the items that the bucket holds and returns their
// number.
func (c *arrays) see(g *group, doc bson.Raw) (dropped int) {
	if list, ok := doc.Lookup("~ids").ArrayOK(); ok {
		held := map[string]bool{}
		ids, _ := list.Values()
		for _, id := range ids {
			held[value.Key(id)] = true
		}
		dropped = drop(g, held)
	}
	// This package did not make a bucket without a number.
	if seq, ok := windows.Number(doc); ok && seq >= g.Of.room.seq {
		g.Of.room = c.filled(seq, doc)
	}
	return dropped
}

// filled is the room in a bucket, or in the next one if the bucket lacks the fields that say how full it
// is.
func (c *arrays) filled(seq int64, fill bson.Raw) room {
	count, counted := value.Lookup(fill, c.opts.CountField).AsInt64OK()
	size, sized := value.Lookup(fill, c.opts.BytesField).AsInt64OK()
	if !counted || c.opts.MaxBytes > 0 && !sized {
		return room{seq: seq + 1}
	}
	return room{seq, count, size}
}

// drop removes the items whose IDs are stored already, and repeated ones.
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

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw.Value))
	}
	return size
}
