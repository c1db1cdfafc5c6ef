package series

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pack"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// manyBatch is the default Work.BatchSize of AppendMany: large, so that a batch
	// has many measurements for each document.
	manyBatch = 10_000
	// mostItems and mostBytes keep a batch within one message, which the server
	// answers as a whole: what a lost answer leaves unknown is one batch.
	mostItems = 100_000
	mostBytes = 24 << 20
)

// Append adds one measurement, which is a block of its own, some seventy bytes: take
// AppendMany, or a [Gatherer], where more than one comes at a time.
//
// Cost: that of AppendMany.
func (s *Series[S, M]) Append(ctx context.Context, series S, m M) (err error) {
	defer fault.In(&err, "series: append")
	_, err = s.core.appendMany(ctx, s.untyped(Of(series, m)), nil)
	return err
}

// AppendMany adds measurements of any series in any order, however late they come. It
// takes Work.BatchSize of them at a time, 10,000 by default and no more than
// Work.BatchBytes, groups them by document, packs each group into a block and sends
// one unordered bulk write. nil is no measurements.
//
// The Result tells the outcomes apart, also after an error: Done are stored, Skipped
// were held already (Options.BatchField), Failed were refused, and of Unknown no
// answer came, which can be one batch. The rest of Examined, and what was not taken
// from items, is not stored. A measurement that cannot be stored ends the call with
// an ErrInvalid that names its index: exactly those before it are stored then.
//
// With BatchField the same items can be given again with the same Work: a block of
// the same measurements in the same order is not stored again, until Compact has
// merged the first. Without, give what is not stored, and know that Unknown ones may
// come twice.
//
// Cost: 1 round trip a batch, and 1 document written for each document in it, found by
// _id. A batch that meets full documents or known blocks: 2 more for as often as that
// happens. In a transaction: 2 round trips a batch.
func (s *Series[S, M]) AppendMany(ctx context.Context, items iter.Seq2[S, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: append many")
	return s.core.appendMany(ctx, s.untyped(items), work)
}

func (c *store) appendMany(ctx context.Context, items iter.Seq2[any, any], work *mongopatterns.Work) (mongopatterns.Result, error) {
	var total mongopatterns.Result
	w, err := maintain.Of(work, manyBatch)
	if err == nil && w.Filter != nil {
		err = fault.Invalid("Work.Filter: there are no documents to select")
	}
	if err != nil {
		return total, err
	}
	most, bytes := min(w.BatchSize, mostItems), min(w.BatchBytes, mostBytes)
	var b batch
	flush := func() error {
		if b.count == 0 {
			return nil
		}
		result := mongopatterns.Result{Done: int64(b.count)}
		if !w.DryRun {
			result, err = c.write(ctx, b.sealed(c))
		}
		total.Add(result)
		if b = (batch{}); err == nil {
			w.Progress(total)
		}
		return err
	}
	index := 0
	for series, m := range items {
		err := c.add(&b, series, m)
		total.Examined++
		if err != nil {
			if err := flush(); err != nil {
				return total, err
			}
			err = fmt.Errorf("item %d: %w", index, err)
			total.Fail(c.coll.Name(), bson.RawValue{}, err)
			return total, err
		}
		if index++; b.count < most && b.bytes < bytes {
			continue
		}
		if err := flush(); err != nil {
			return total, err
		}
	}
	return total, flush()
}

// A batch is measurements grouped by place, in the order of their first.
type batch struct {
	groups       []*group
	byPlace      map[string]*group
	latest       map[any]*group // by series that serve as keys, of their last measurement
	count, bytes int
}

// A group is measurements for one window of a series, in tables of which each becomes
// a block.
type group struct {
	place
	tables []*pack.Table
	bytes  int // of the last table
}

// add encodes a measurement into the group it belongs to.
func (c *store) add(b *batch, series, m any) error {
	if c.shape != nil {
		p := reflect.ValueOf(m).UnsafePointer()
		if n := c.shape.text(p); n > largestRow {
			return fault.Invalid("measurement: %d bytes, more than a block takes", n)
		}
		ms := is[time.Time](p, c.shape.time).UnixMilli()
		g, err := c.group(b, series, ms)
		if err != nil {
			return err
		}
		b.grow(g, c.shape.put(g.row(ms), p))
		return nil
	}
	doc, err := c.codec.Document(m)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	return c.addDocument(b, series, doc)
}

// addDocument is add for an encoded measurement.
func (c *store) addDocument(b *batch, series any, doc bson.Raw) (err error) {
	if len(doc) > largestRow {
		err = fault.Invalid("%d bytes, more than a block takes", len(doc))
	}
	var ms int64
	var elements []bson.RawElement
	if err == nil {
		ms, elements, err = c.takeApart(doc)
	}
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := c.group(b, series, ms)
	if err != nil {
		return err
	}
	t := g.row(ms)
	for _, e := range elements {
		t.Set(e.Key(), e.Value())
	}
	b.grow(g, len(doc))
	return nil
}

// takeApart is the time of a measurement and its other fields.
func (c *store) takeApart(doc bson.Raw) (ms int64, fields []bson.RawElement, err error) {
	elements, err := doc.Elements()
	if err != nil {
		return 0, nil, fault.Invalid("%w", err)
	}
	timed := false
	for i, e := range elements {
		for _, other := range elements[:i] {
			if other.Key() == e.Key() {
				return 0, nil, fault.Invalid("the field %q stands twice", e.Key())
			}
		}
		if e.Key() == c.opts.TimeField {
			ms, timed = e.Value().DateTimeOK()
			continue
		}
		if err := checkName(e.Key()); err != nil {
			return 0, nil, err
		}
		fields = append(fields, e)
	}
	if !timed {
		return 0, nil, fault.Invalid("no date in %q", c.opts.TimeField)
	}
	return ms, fields, nil
}

// checkName refuses names of fields that a packed document could not have.
func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, "$") || strings.ContainsAny(name, ".\x00") {
		return fault.Invalid("the field %q: a name is not empty, has no dot and begins with no $", name)
	}
	return nil
}

// group is where a measurement belongs. It finds the place, and encodes the series,
// once for as long as the measurements of a series stay in one window.
func (c *store) group(b *batch, series any, ms int64) (*group, error) {
	known := value.Fixed(series)
	var last *group
	if known {
		last = b.latest[series]
	}
	if last != nil && ms >= last.start && ms < last.end {
		return last, nil
	}
	if err := checkTime(ms); err != nil {
		return nil, err
	}
	var raw bson.RawValue
	var err error
	if last != nil {
		raw = last.series
	} else if raw, err = c.seriesOf(series); err != nil {
		return nil, err
	}
	p := c.place(raw, ms)
	g := b.byPlace[p.identity]
	if g == nil {
		g = &group{place: p}
		if b.byPlace == nil {
			b.byPlace, b.latest = map[string]*group{}, map[any]*group{}
		}
		b.byPlace[p.identity] = g
		b.groups = append(b.groups, g)
	}
	if known {
		b.latest[series] = g
	}
	return g, nil
}

// row begins a measurement: in a new table if the last one is full.
func (g *group) row(ms int64) *pack.Table {
	if n := len(g.tables); n == 0 || len(g.tables[n-1].Times) >= blockRows || g.bytes >= blockBytes {
		g.tables = append(g.tables, new(pack.Table))
		g.bytes = 0
	}
	t := g.tables[len(g.tables)-1]
	t.Times = append(t.Times, ms)
	return t
}

func (b *batch) grow(g *group, bytes int) {
	g.bytes += bytes
	b.bytes += bytes
	b.count++
}

// A block is a packed table on its way to a document.
type block struct {
	place
	rows   int
	bytes  int   // of its measurements in memory
	id     int64 // of its content
	update bson.Raw
	least  int64 // the documents before are full
	seq    int64
	sure   bool // that its document has room
	stored bool
}

// sealed packs the batch, once for all attempts to store it.
func (b *batch) sealed(c *store) (out []*block) {
	for _, g := range b.groups {
		for _, t := range g.tables {
			out = append(out, c.block(g.place, t))
		}
	}
	return out
}

// block packs a table and writes the update that pushes it, with what it adds to the
// sums.
func (c *store) block(p place, t *pack.Table) *block {
	data := t.Encode()
	hash := sha256.Sum256(data)
	out := &block{place: p, rows: len(t.Times), bytes: len(data), id: int64(binary.LittleEndian.Uint64(hash[:]))}
	push := bson.D{{Key: c.opts.BlocksField, Value: bson.Binary{Data: data}}}
	if c.opts.BatchField != "" {
		push = append(push, bson.E{Key: c.opts.BatchField, Value: out.id})
	}
	inc := bson.D{{Key: c.opts.CountField, Value: int32(out.rows)}, {Key: c.opts.BytesField, Value: int32(len(data))}}
	var lower, upper bson.D
	for _, v := range c.opts.Values {
		n := t.Tally(v.Field, 0, out.rows)
		if n.Count == 0 {
			continue
		}
		inc = append(inc, bson.E{Key: v.Count, Value: int32(n.Count)},
			bson.E{Key: v.Sum, Value: n.Sum.Decimal()}, bson.E{Key: v.Squares, Value: n.Squares.Decimal()})
		lower = append(lower, bson.E{Key: v.Min, Value: n.Min.Raw()})
		upper = append(upper, bson.E{Key: v.Max, Value: n.Max.Raw()})
	}
	update := bson.D{{Key: "$push", Value: push}, {Key: "$inc", Value: inc}}
	if lower != nil {
		update = append(update, bson.E{Key: "$min", Value: lower}, bson.E{Key: "$max", Value: upper})
	}
	created := bson.D{{Key: c.opts.SeriesField, Value: p.series}, {Key: c.opts.StartField, Value: bson.DateTime(p.start)}}
	if c.opts.EndField != "" {
		created = append(created, bson.E{Key: c.opts.EndField, Value: bson.DateTime(p.end - 1)})
	}
	update = append(update, bson.E{Key: "$setOnInsert", Value: created})
	out.update, _ = bson.Marshal(update)
	return out
}

// open selects the document of a block's number if that has room and does not hold the
// block yet. Upserting on it makes the document if there is none, and is a duplicate
// key on _id if there is one that was not selected. Where _id is enough it stands alone:
// the server then plans nothing, which is a third of what an append takes.
func (c *store) open(b *block) bson.D {
	filter := bson.D{{Key: "_id", Value: c.documentID(b.place, b.seq)}}
	if c.opts.Sharded {
		filter = append(filter, c.within(b.place)...)
	}
	if b.sure && c.opts.BatchField == "" {
		return filter
	}
	filter = append(filter,
		bson.E{Key: c.opts.CountField, Value: bson.D{{Key: "$lt", Value: c.opts.MaxCount}}},
		bson.E{Key: c.opts.BytesField, Value: bson.D{{Key: "$lt", Value: c.opts.MaxBytes}}})
	if c.opts.BatchField != "" {
		filter = append(filter, bson.E{Key: c.opts.BatchField, Value: bson.D{{Key: "$ne", Value: b.id}}})
	}
	return filter
}

// write stores blocks. A duplicate key says that a document was full, or holds the
// block: it looks which, and tries again.
func (c *store) write(ctx context.Context, blocks []*block) (mongopatterns.Result, error) {
	var result mongopatterns.Result
	joined := txn.Running(ctx)
	for _, b := range blocks {
		b.least, b.sure = c.rooms.take(b)
		b.seq = b.least
	}
	for attempt := 0; len(blocks) > 0; attempt++ {
		if attempt > 0 || joined {
			var err error
			if blocks, err = c.locate(ctx, blocks, &result); err != nil || len(blocks) == 0 {
				return result, err
			}
		}
		again, repeat, fatal := c.send(ctx, blocks, &result, joined)
		switch {
		case fatal != nil:
			return result, fatal
		case repeat != nil && (joined || attempt >= maxAttempts):
			return result, fmt.Errorf("%w: %w", fault.ErrConflict, repeat)
		}
		blocks = again
	}
	return result, nil
}

// send sends an unordered bulk write and counts what became of its measurements. again
// are the blocks that met a duplicate key, and repeat the last of these errors. fatal is
// any other error; what it did not refuse stays as counted.
func (c *store) send(ctx context.Context, blocks []*block, r *mongopatterns.Result, joined bool) (again []*block, repeat, fatal error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err // before the driver, which would not say that nothing was sent
	}
	models := make([]mongo.WriteModel, len(blocks))
	for i, b := range blocks {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(c.open(b)).SetUpdate(b.update)
	}
	_, err := c.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if err != nil && !errors.As(err, &bulk) {
		for _, b := range blocks {
			r.Unknown += int64(b.rows)
		}
		return nil, nil, err
	}
	if bulk.WriteConcernError != nil {
		fatal = err
	}
	failed := map[int]bool{}
	for _, e := range bulk.WriteErrors {
		b := blocks[e.Index]
		failed[e.Index] = true
		if mongo.IsDuplicateKeyError(e) {
			again, repeat = append(again, b), e
			continue
		}
		fatal = err
		if fault.Refused(e) {
			r.Fail(c.coll.Name(), rawValue(c.documentID(b.place, b.seq)), e)
			r.Failed += int64(b.rows - 1)
		}
	}
	for i, b := range blocks {
		switch {
		case failed[i]:
		case bulk.WriteConcernError != nil: // it may be rolled back
			r.Unknown += int64(b.rows)
		default:
			r.Done += int64(b.rows)
			b.stored = true
			if !joined && !b.sure { // else it may be undone
				c.rooms.found(b, &c.opts)
			}
		}
	}
	return again, repeat, fatal
}

// locate finds where blocks go on: in the newest document of their window, or after it
// if that is full. It drops the blocks that their windows hold.
func (c *store) locate(ctx context.Context, blocks []*block, r *mongopatterns.Result) (left []*block, err error) {
	type newest struct {
		seq  int64
		full bool
		held map[int64]bool
	}
	found := map[string]*newest{}
	var wanted, ids bson.A
	for _, b := range blocks {
		ids = append(ids, b.id)
		if found[b.identity] != nil {
			continue
		}
		found[b.identity] = &newest{seq: -1, held: map[int64]bool{}}
		wanted = append(wanted, append(c.within(b.place), bson.E{Key: "_id", Value: bson.D{
			{Key: "$gte", Value: c.documentID(b.place, b.least)}, {Key: "$lt", Value: c.documentID(b.place, "")}}}))
	}
	projection := bson.D{{Key: c.opts.SeriesField, Value: 1}, {Key: c.opts.StartField, Value: 1},
		{Key: c.opts.CountField, Value: 1}, {Key: c.opts.BytesField, Value: 1}}
	if field := c.opts.BatchField; field != "" {
		for _, b := range blocks {
			wanted = append(wanted, append(c.within(b.place), bson.E{Key: field, Value: b.id}))
		}
		projection = append(projection, bson.E{Key: field, Value: expr.Op("$setIntersection", expr.Array(expr.Field(field)), ids)})
	}
	for doc, err := range find(ctx, cursor.Primary(c.coll), expr.Op("$or", wanted), options.Find().SetProjection(projection).SetBatchSize(int32(len(wanted)+1))) {
		if err != nil {
			return nil, err
		}
		start, _ := value.Lookup(doc, c.opts.StartField).DateTimeOK()
		n := found[identity(value.Lookup(doc, c.opts.SeriesField), start)]
		if n == nil {
			continue
		}
		if held, ok := value.Lookup(doc, c.opts.BatchField).ArrayOK(); ok {
			ids, _ := held.Values()
			for _, id := range ids {
				n.held[id.AsInt64()] = true
			}
		}
		if seq, ok := value.Lookup(doc, "_id."+seqKey).AsInt64OK(); ok && seq > n.seq {
			count, counted := value.Lookup(doc, c.opts.CountField).AsInt64OK()
			bytes, sized := value.Lookup(doc, c.opts.BytesField).AsInt64OK()
			n.seq, n.full = seq, !counted || !sized || count >= int64(c.opts.MaxCount) || bytes >= int64(c.opts.MaxBytes)
		}
	}
	for _, b := range blocks {
		n := found[b.identity]
		if n.held[b.id] {
			r.Skipped += int64(b.rows)
			b.stored = true
			continue
		}
		b.sure = false
		if b.seq = max(n.seq, 0); n.full {
			b.seq++
		}
		left = append(left, b)
	}
	return left, nil
}
