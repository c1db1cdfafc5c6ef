package series

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Append adds one measurement as a block of its own, which takes about seventy bytes. If several
// measurements come together, use AppendMany. If they come one after another, use a [Gatherer].
//
// Cost: that of AppendMany.
func (s *Series[ID, M]) Append(ctx context.Context, series ID, m M) (err error) {
	ctx = comment.Call(ctx, "series.Append")
	defer fault.In(&err, "series.Append")
	one := &batch{store: s.core}
	if err := one.Add(series, s.core.measurement(&m)); err != nil {
		return err
	}
	_, err = one.Store(ctx)
	return err
}

// AppendMany adds measurements of any series in any order, however late they come. It takes Work.BatchSize
// of them at a time (10,000 by default, at most Work.BatchBytes), groups them by document, packs each group
// into a block and sends one unordered bulk write. A nil items adds nothing.
//
// The Result tells the outcomes apart, even after an error. Done measurements are stored. Skipped ones were stored before
// (Options.BatchField). Failed ones were refused, and AppendMany returns an error at its end. Unknown ones, at most one
// batch, got no answer. Measurements that the Result does not count were not stored. A measurement that is not valid ends
// the call, after those before it are stored, with an ErrInvalid that names its index.
//
// With BatchField the same items can be given again with the same Work, because a block of the same
// measurements in the same order is not stored again. This holds for at least ten minutes, after which
// Compact, Replace or Delete removes the ID of the block. Without BatchField give only what is not stored.
// Unknown measurements may then be stored twice.
//
// Cost: 1 round trip for each batch, and 1 document written for each document in it, index _id.
//   - A batch that meets full documents or known blocks: 2 more for as often as that happens; the first batch of a
//     process on a sharded collection: 2 more, as the server then asks for the shard key.
//   - In a transaction: 2 round trips for each batch.
func (s *Series[ID, M]) AppendMany(ctx context.Context, items iter.Seq2[ID, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.AppendMany")
	defer fault.In(&err, "series.AppendMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.Many(ctx, windows.Untyped(items, func(m M) any { return s.core.measurement(&m) }), work, s.core.begin)
}

// A batch holds measurements by place, in tables that each become a block.
type batch struct {
	*store
	windows.Groups[tables]
	blocks []*block // of all places, once they are packed
}

type group = windows.Group[tables]

type tables struct {
	all   []*pack.Table
	bytes int // of the last table
}

func (c *store) begin() windows.Batch { return &batch{store: c} }

func (b *batch) Size() (count, bytes int) { return b.Count, b.Bytes }

// Store packs the batch, once, and stores the blocks.
//
// Cost: that of a batch of AppendMany.
func (b *batch) Store(ctx context.Context) (mongopatterns.Result, error) {
	return b.save(ctx, b.sealed())
}

// Add encodes a measurement, as measurement converts it, into the group it belongs to.
func (b *batch) Add(series, m any) error {
	if b.shape != nil {
		return b.addStruct(series, reflect.ValueOf(m).Elem())
	}
	if err := b.check(m); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	doc, err := b.Codec.Document(m)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	return b.addDocument(series, doc)
}

// addStruct is Add for a struct that has the shape.
func (b *batch) addStruct(series any, m reflect.Value) error {
	if n := b.shape.text(m); n > largestRow {
		return fault.Invalid("measurement: it has %d bytes, more than fits into a block", n)
	}
	if name := b.shape.lacks(m); name != "" {
		return fault.Invalid("measurement: %q is not a finite number", name)
	}
	at := b.shape.time.date(m)
	if err := windows.CheckTime(at); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := b.Find(&b.Frame, series, at.UnixMilli())
	if err != nil {
		return err
	}
	b.grow(g, b.shape.put(row(g, at.UnixMilli()), m))
	return nil
}

// check refuses a measurement whose bytes do not say what it is: its time is beyond milliseconds, or the order of
// its fields, which the ID of a batch depends on, is random.
func (c *store) check(m any) error {
	if err := c.CheckTimeOf(m, c.opts.TimeField); err != nil {
		return err
	}
	if c.opts.BatchField == "" {
		return nil
	}
	return codec.Ordered(m)
}

// addDocument is Add for an encoded measurement.
func (b *batch) addDocument(series any, doc bson.Raw) error {
	if len(doc) > largestRow {
		return fault.Invalid("measurement: it has %d bytes, more than fits into a block", len(doc))
	}
	if err := fault.CheckLevels(doc); err != nil { // Documents could not be stored elsewhere
		return fmt.Errorf("measurement: %w", err)
	}
	ms, elements, err := b.takeApart(doc)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	if name := b.lacks(elements); name != "" {
		return fault.Invalid("measurement: %q is not a finite number", name)
	}
	g, err := b.Find(&b.Frame, series, ms)
	if err != nil {
		return err
	}
	t := row(g, ms)
	for _, e := range elements {
		t.Set(e.Key(), e.Value())
	}
	b.grow(g, len(doc))
	return nil
}

// takeApart returns the time of a measurement and its other fields.
func (c *store) takeApart(doc bson.Raw) (ms int64, fields []bson.RawElement, err error) {
	elements, err := doc.Elements()
	if err != nil {
		return 0, nil, fault.Invalid("it is not valid BSON: %w", err)
	}
	timed, known := false, make(map[string]bool, len(elements))
	for _, e := range elements {
		if known[e.Key()] {
			return 0, nil, fault.Invalid("it has the field %q twice", e.Key())
		}
		known[e.Key()] = true
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
		return 0, nil, fault.Invalid("%q is not a date", c.opts.TimeField)
	}
	return ms, fields, nil
}

func finite(v bson.RawValue) bool {
	f, _ := v.DoubleOK()
	d, _ := v.Decimal128OK()
	return v.IsNumber() && !math.IsNaN(f) && !math.IsInf(f, 0) && !d.IsNaN() && d.IsInf() == 0
}

// lacks is the name of a field that is needed and is not a finite number, else "".
func (c *store) lacks(fields []bson.RawElement) string {
	if len(c.needed) == 0 {
		return ""
	}
	there := make(map[string]bool, len(c.needed))
	for _, e := range fields {
		if name := e.Key(); c.needed[name] && finite(e.Value()) {
			there[name] = true
		}
	}
	for _, v := range c.opts.Values {
		if c.needed[v.Field] && !there[v.Field] {
			return v.Field
		}
	}
	return ""
}

// checkName refuses names of fields that a packed document could not have.
func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, "$") || strings.ContainsAny(name, ".\x00") {
		return fault.Invalid("the field %q: a name must not be empty, contain a dot or begin with $", name)
	}
	return nil
}

// row adds a row to the group's last table, or to a new one if that is full.
func row(g *group, ms int64) *pack.Table {
	if n := len(g.Of.all); n == 0 || len(g.Of.all[n-1].Times) >= blockRows || g.Of.bytes >= blockBytes {
		g.Of = tables{all: append(g.Of.all, new(pack.Table))}
	}
	t := g.Of.all[len(g.Of.all)-1]
	t.Times = append(t.Times, ms)
	return t
}

func (b *batch) grow(g *group, bytes int) {
	g.Of.bytes += bytes
	b.Bytes += bytes
	b.Count++
}

// A block is a packed table on its way to a document.
type block struct {
	windows.Place
	rows    int
	bytes   int      // of its measurements in memory
	most    int      // a document with so many measurements is full
	id      int64    // of its content
	update  bson.Raw // pushes it and updates the sums
	mark    int      // where the mark of a new document is in update
	least   int64    // documents with a lower number are full
	seq     int64
	sure    bool // whether its document is known to have room
	stored  bool
	refused error // by the server, or for a document of its window: the block would be refused again
}

// sealed packs the batch once, for all attempts to store it.
func (b *batch) sealed() []*block {
	for _, g := range b.All {
		for _, t := range g.Of.all {
			b.blocks = append(b.blocks, b.block(g.Place, t))
		}
		g.Of.all = nil
	}
	return b.blocks
}

// block packs a table and builds its update.
func (c *store) block(p windows.Place, t *pack.Table) *block {
	data, derived := t.Encode(p.Key), c.derived(t)
	hash := sha256.Sum256(data)
	out := &block{Place: p, rows: len(t.Times), bytes: len(data), most: c.most(t), id: int64(binary.LittleEndian.Uint64(hash[:]))}
	b := codec.Build(256 + 64*len(derived) + len(data))
	c.push(b, data, out.id)
	c.sum(b, len(data), derived)
	out.mark = c.create(b, p)
	out.update = b.Done()
	return out
}

// most is after how many measurements like those of a table a document is full: MaxCount, or fewer if they have so many
// values that what the document holds would not fit in memory.
func (c *store) most(t *pack.Table) int {
	fit := int64(largestDocument) * int64(len(t.Times)) / int64(t.Holds())
	return int(min(int64(c.opts.MaxCount), max(fit, 1)))
}

// push writes the operator that appends a block, and the ID by which it is recognized.
func (c *store) push(b *codec.Builder, data []byte, id int64) {
	b.Open("$push")
	b.Binary(c.opts.BlocksField, data)
	if c.opts.BatchField != "" {
		b.Open(c.opts.BatchField)
		b.Value("id", number.Int64(id).Raw())
		b.Date("at", time.Now().UnixMilli())
		b.Close()
	}
	b.Close()
}

// sum writes the operators that add a block to the fields computed from the measurements.
func (c *store) sum(b *codec.Builder, bytes int, all []derived) {
	add := func(op string) {
		for _, d := range all {
			if d.op == op && d.want.Type != 0 {
				b.Value(d.path, d.want)
			}
		}
	}
	b.Open("$inc")
	b.Int(c.opts.BytesField, int64(bytes))
	add("$inc")
	b.Close()
	b.Some("$min", func() { add("$min") })
	b.Some("$max", func() { add("$max") })
}

// create writes the operator with the fields of a new document. It returns where the mark is to be set.
func (c *store) create(b *codec.Builder, p windows.Place) (mark int) {
	b.Open("$setOnInsert")
	b.Value(c.Series, p.Series)
	b.Date(c.Start, p.Start)
	if c.End != "" {
		b.Date(c.End, int64(c.EndOf(p.End)))
	}
	mark = b.Later(c.opts.MarkField)
	b.Close()
	return mark
}

// marked is the update with a new random mark: a block that is sent again may create a second document,
// after the first was archived.
func (b *block) marked() bson.Raw {
	binary.LittleEndian.PutUint64(b.update[b.mark:], rand.Uint64())
	return b.update
}

// A room is the document of a window to write to next, and how much this process may add before it checks
// how full the document is: a sixteenth of MaxCount and of MaxBytes. A document may be full of fewer rows than MaxCount,
// if they are large. Such a row counts as several shares: as two if half of MaxCount fill the document.
type room struct {
	seq    int64
	shares int64
	bytes  int
}

// open selects the document with a block's number if it has room, is of the block's place, and does not hold the block
// yet. If _id suffices, the filter has no other condition: the server then skips planning, which is a third of an
// append.
func (c *store) open(b *block) bson.Raw {
	sharded := c.sharded.Load()
	filter := c.One(b.Place, b.seq, sharded)
	compare := func(field, op string, n int64) {
		filter.Open(field)
		filter.Int(op, n)
		filter.Close()
	}
	if !b.sure && !sharded { // a shard key is no array
		c.Alone(filter, b.Place)
	}
	if !b.sure || c.opts.BatchField != "" {
		compare(c.opts.CountField, "$lt", int64(b.most))
		compare(c.opts.BytesField, "$lt", int64(c.opts.MaxBytes))
	}
	if c.opts.BatchField != "" {
		compare(c.batchID(), "$ne", b.id)
	}
	return filter.Done()
}

// save sends blocks, and sends a block again if its document was full or might hold it already. It sets
// stored on those that are, and refused on those that nobody can store.
//
// Cost: that of a batch of AppendMany.
func (c *store) save(ctx context.Context, blocks []*block) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	c.place(blocks)
	left := blocks
	for attempt := 0; len(left) > 0; attempt++ {
		if left, err = c.attempt(ctx, attempt, left, &r); err != nil {
			return r, err
		}
	}
	for _, b := range blocks {
		if b.refused != nil {
			return r, b.refused
		}
	}
	return r, nil
}

// attempt sends blocks once and returns those to be sent again. The first time they go where place has put them, except in a
// transaction, which a duplicate key would end; otherwise where locate finds room. After the last attempt, it refuses blocks
// of misplaced documents, and any other block is an error.
func (c *store) attempt(ctx context.Context, attempt int, blocks []*block, r *mongopatterns.Result) (again []*block, err error) {
	if txn.Running(ctx) || attempt > 0 {
		if blocks, err = c.locate(ctx, blocks, r); err != nil || len(blocks) == 0 {
			return nil, err
		}
	}
	again, full, err := c.send(ctx, blocks, r)
	if err != nil || len(again) == 0 {
		return nil, err
	}
	over := c.CheckRetry(ctx, attempt, full)
	if over == nil {
		return again, nil
	}
	if len(c.refuseMisplaced(ctx, again, r)) > 0 {
		return nil, over
	}
	return nil, nil
}

// send sends blocks once and counts them. It returns those to be sent again, and the server's reason.
//
// Cost: 1 round trip.
func (c *store) send(ctx context.Context, blocks []*block, r *mongopatterns.Result) (again []*block, full, err error) {
	upserts := make([]windows.Upsert, len(blocks))
	for i, b := range blocks {
		upserts[i] = windows.Upsert{Filter: c.open(b), Update: b.marked()}
	}
	outcomes, err := c.Send(ctx, upserts)
	for i, o := range outcomes {
		b := blocks[i]
		switch o.Fate {
		case windows.Written:
			r.Done += int64(b.rows)
			b.stored = true
			if !txn.Running(ctx) { // a transaction may be undone
				c.remember(b)
			}
		case windows.Unanswered:
			r.Unknown += int64(b.rows)
		case windows.Taken:
			again, full = append(again, b), o.Err
		case windows.TooLarge: // other fields of the document take the space
			b.least = b.seq + 1
			again, full = append(again, b), o.Err
		case windows.Unkeyed: // the collection is sharded
			c.sharded.Store(true)
			again, full = append(again, b), o.Err
		case windows.Refused:
			c.refuse(b, upserts[i].ID(), o.Err, r)
		}
	}
	return again, full, err
}

// refuseMisplaced refuses blocks whose document is there, but is not of their window by its fields. It returns the others, in a
// transaction all.
//
// Cost: 1 round trip.
func (c *store) refuseMisplaced(ctx context.Context, blocks []*block, r *mongopatterns.Result) (others []*block) {
	if txn.Running(ctx) {
		return blocks
	}
	ids := make([]bson.RawValue, len(blocks))
	for i, b := range blocks {
		raw, err := bson.Marshal(c.ID(b.Place, b.seq))
		if err != nil {
			return blocks
		}
		ids[i] = value.Embedded(raw)
	}
	places := map[string]string{}
	for doc, err := range windows.Find(ctx, cursor.Primary(c.Coll), expr.D("_id", expr.Op("$in", ids)), options.Find().SetProjection(c.Keys())) {
		if err != nil {
			return blocks
		}
		places[value.Key(doc.Lookup("_id"))] = c.KeyOf(doc)
	}
	for i, b := range blocks {
		if place, there := places[value.Key(ids[i])]; there && place != b.Key {
			c.refuse(b, ids[i], c.misplaced(ids[i]), r)
		} else {
			others = append(others, b)
		}
	}
	return others
}

// misplaced is the error of a document that only its _id puts into a window.
func (c *store) misplaced(id bson.RawValue) error {
	return fault.Refuse(fault.Of(id, fmt.Errorf("%w: %q or %q has not the value, or not the type, that the _id has", fault.ErrMalformed, c.Series, c.Start)))
}

// refuse counts a block that nobody can store.
func (c *store) refuse(b *block, id bson.RawValue, err error, r *mongopatterns.Result) {
	b.refused = err
	c.CountRefused(r, id, b.rows, err)
}

// place assigns blocks the documents to write to, as far as they are known.
func (c *store) place(blocks []*block) {
	for _, b := range blocks {
		b.sure = false
		shares := int64(b.rows) * int64(c.opts.MaxCount) / int64(b.most)
		b.least = c.rooms.Change(b.Key, func(r room) room {
			if b.sure = r.shares >= shares && r.bytes >= b.bytes; b.sure {
				r.shares, r.bytes = r.shares-shares, r.bytes-b.bytes
			}
			return r
		}).seq
		b.seq = b.least
	}
}

// remember records that the document of a stored block has room, if the filter of the write checked that.
func (c *store) remember(b *block) {
	if !b.sure {
		c.rooms.Change(b.Key, func(room) room {
			return room{b.seq, int64(c.opts.MaxCount) / 16, min(c.opts.MaxBytes/16, largestRoom)}
		})
	}
}

// locate assigns blocks the newest document of their window, or the one after it if that is full. It
// removes the blocks that their windows hold already, and refuses those of a misplaced document. In a transaction such a
// document is an error.
//
// Cost: 1 round trip.
func (c *store) locate(ctx context.Context, blocks []*block, r *mongopatterns.Result) (left []*block, err error) {
	found, err := c.newest(ctx, blocks)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		n := found[b.Key]
		if n.held[b.id] {
			r.Skipped += int64(b.rows)
			b.stored = true
			continue
		}
		if n.misplaced != nil && txn.Running(ctx) {
			return nil, n.misplaced
		}
		if n.misplaced != nil {
			c.refuse(b, n.id, n.misplaced, r)
			continue
		}
		b.sure = false
		b.seq = max(n.seq, b.least) // the document known from before may have been archived or deleted
		if n.seq == b.seq && (n.full || n.count >= int64(b.most)) {
			b.seq++
		}
		left = append(left, b)
	}
	return left, nil
}

// A newest is what a window has: its newest document, -1 without one, whether its bytes fill that, how many measurements
// it has, and the blocks that the window holds in any of its documents. misplaced names a document, by its id, that only
// its _id puts into the window.
type newest struct {
	seq       int64
	full      bool
	count     int64
	held      map[int64]bool
	id        bson.RawValue
	misplaced error
}

// newest reads the windows of blocks.
//
// Cost: 1 round trip.
func (c *store) newest(ctx context.Context, blocks []*block) (map[string]*newest, error) {
	found := map[string]*newest{}
	var wanted, ids bson.A
	for _, b := range blocks {
		ids = append(ids, b.id)
		if found[b.Key] == nil {
			found[b.Key] = &newest{seq: -1, held: map[int64]bool{}}
			wanted = append(wanted, c.Since(b.Place, b.least))
		}
		if c.opts.BatchField != "" {
			wanted = append(wanted, append(c.Within(b.Place), expr.Element(c.batchID(), b.id)))
		}
	}
	fields := append(c.Keys(), expr.Element(c.opts.CountField, 1), expr.Element(c.opts.BytesField, 1))
	if c.opts.BatchField != "" {
		held := expr.Op("$setIntersection", expr.Map(expr.Array(expr.Field(c.opts.BatchField)), "b", expr.Var("b.id")), ids)
		fields = append(fields, expr.Element(c.opts.BatchField, held))
	}
	opts := options.Find().SetProjection(fields).SetBatchSize(int32(len(wanted) + 1))
	for doc, err := range windows.Find(ctx, cursor.Primary(c.Coll), expr.Op("$or", wanted), opts) {
		if err != nil {
			return nil, err
		}
		n := found[c.KeyOf(doc)]
		if n == nil {
			id := doc.Lookup("_id")
			if n = found[c.KeyOfID(id)]; n == nil {
				return nil, c.misplaced(id)
			}
			n.id, n.misplaced = id, c.misplaced(id)
		}
		c.see(n, doc)
	}
	return found, nil
}

// see takes a document of a window into account.
func (c *store) see(n *newest, doc bson.Raw) {
	if held, ok := value.Lookup(doc, c.opts.BatchField).ArrayOK(); ok {
		ids, _ := held.Values()
		for _, id := range ids {
			n.held[id.AsInt64()] = true
		}
	}
	seq, ok := windows.Number(doc)
	if !ok || seq <= n.seq {
		return
	}
	count, counted := value.Lookup(doc, c.opts.CountField).AsInt64OK()
	bytes, sized := value.Lookup(doc, c.opts.BytesField).AsInt64OK()
	n.seq, n.count, n.full = seq, count, !counted || !sized || bytes >= int64(c.opts.MaxBytes)
}
