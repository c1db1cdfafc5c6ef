package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Options names the fields of a document of slots. The zero value stores {series, start, data: {hour:
// {minute: measurement}}}. All names are plain, without dots.
type Options struct {
	SeriesField string             // the key of the series. Default "series"
	StartField  string             // the window's first instant. Default "start"
	EndField    string             // the window's end. Default "": not stored
	EndTime     timeseries.EndTime // which instant EndField holds. Default LastMillisecond
	DataField   string             // holds the slots. Default "data"
	// Levels are the units of time that the nested keys of DataField count, outermost first: one to three,
	// each a whole multiple of the next. The last one is the length of a slot. Default time.Hour,
	// time.Minute.
	Levels []time.Duration

	// Metadata returns further fields that the first write of a document stores. They and one slot must fit
	// into one document. Default nil: no further fields.
	Metadata func(series any, start time.Time) bson.D

	// Registry and BSON encode and decode. By default BSON is what the client has. The client's registry cannot be
	// read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Slots stores at most one measurement of type M in each slot of time of a series, in one document for a
// window of the series. ID is the type of the key of a series. Slots is safe for concurrent use.
//
// The keys of slots count the time elapsed since the window began, not the hours of the clock. So a day
// on which the clock is set back has an hour "24", and one on which it is set forward ends with "22".
type Slots[ID, M any] struct{ core *grid }

var _ mongopatterns.Checker = (*Slots[string, bson.D])(nil)

// grid implements Slots without its type parameters.
type grid struct {
	windows.Frame
	metadata func(series any, start time.Time) bson.D
	data     string
	levels   []time.Duration
}

// A Slot is a measurement with the time at which its slot begins.
type Slot[M any] struct {
	Time  time.Time `json:"time"`
	Value M         `json:"value"`
}

// New returns Slots over coll. It does no I/O; opts may be nil. M may be any type that encodes to a BSON
// value other than null, also a plain number. All programs that write one collection must use the same
// window and levels.
func New[ID, M any](coll *mongo.Collection, window timeseries.Window, opts *Options) (s *Slots[ID, M], err error) {
	defer fault.In(&err, "slots.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	g := &grid{Frame: windows.Frame{Pattern: "slots", Coll: comment.On(coll), Window: window, Codec: codec.Of(coll, o.Registry, o.BSON),
		Early: windows.Early(o.EndTime)},
		metadata: o.Metadata, levels: append([]time.Duration(nil), o.Levels...)}
	if len(g.levels) == 0 {
		g.levels = []time.Duration{time.Hour, time.Minute}
	}
	if err := g.Check(
		config.Number("Options.EndTime", (*int)(&o.EndTime), 0, 0, int(timeseries.LastSecond)),
		config.Name("Options.SeriesField", &o.SeriesField, "series"),
		config.Name("Options.StartField", &o.StartField, "start"),
		config.Name("Options.EndField", &o.EndField, ""),
		config.Name("Options.DataField", &o.DataField, "data"),
		config.Check("Options.Levels", func() error { return checkLevels(g.levels) }),
	); err != nil {
		return nil, err
	}
	if start, end := window.Bounds(time.Unix(0, 0)); end.Sub(start) == math.MaxInt64 {
		return nil, fault.Invalid("window: it is longer than 292 years")
	}
	g.Series, g.Start, g.End, g.data = o.SeriesField, o.StartField, o.EndField, o.DataField
	return &Slots[ID, M]{g}, nil
}

func checkLevels(levels []time.Duration) error {
	if len(levels) > 3 {
		return errors.New("there are more than three")
	}
	for i, level := range levels {
		if level <= 0 || level%time.Millisecond != 0 {
			return fmt.Errorf("%v is not a positive number of milliseconds", level)
		}
		if i > 0 && (levels[i-1]%level != 0 || levels[i-1] == level) {
			return fmt.Errorf("%v is not a greater multiple of %v", levels[i-1], level)
		}
	}
	return nil
}

// Indexes returns the index Slots uses besides _id, the unique {series: 1, start: 1}.
func (s *Slots[ID, M]) Indexes() map[string][]mongo.IndexModel {
	unique := mongo.IndexModel{Keys: s.core.Keys(), Options: options.Index().SetUnique(true)}
	return map[string][]mongo.IndexModel{s.core.Coll.Name(): {unique}}
}

// EnsureIndexes creates the Indexes that are missing and drops nothing. If an index on the same keys has
// other options, it returns ErrIndexConflict. It returns ErrInvalid if the collection has a default
// collation, which could treat different series as equal.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Slots[ID, M]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "slots.EnsureIndexes")
	defer fault.In(&err, "slots.EnsureIndexes")
	if err := collation.Refuse(ctx, s.core.Coll); err != nil {
		return err
	}
	if err := s.core.Codec.Agree(ctx, s.core.Coll, reflect.TypeFor[ID](), reflect.TypeFor[M]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.Coll.Database(), s.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}.
func (s *Slots[ID, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.core.Coll.Name(): s.core.Keys()}
}

// Filter selects the documents that can hold slots of series at or after from and before to. A zero time
// sets no limit.
func (s *Slots[ID, M]) Filter(series ID, from, to time.Time) bson.D {
	return s.core.RangeFilter(series, from, to)
}

// Path returns the field of the slot that holds t, in the document of its window, such as "data.15.4". For a time
// that no slot can have, because it is zero or not in the years 1 to 9999, it returns an empty path, which the server
// refuses in an update.
func (s *Slots[ID, M]) Path(t time.Time) string {
	if windows.CheckTime(t) != nil {
		return ""
	}
	return s.core.path(t)
}

func (g *grid) path(t time.Time) string {
	start, _ := g.Window.Bounds(t)
	return g.data + keys(t.Sub(start), g.levels)
}

// keys is the path of the slot that begins at this offset from the start of the window.
func keys(offset time.Duration, levels []time.Duration) (path string) {
	for _, level := range levels {
		path += "." + strconv.FormatInt(int64(offset/level), 10)
		offset %= level
	}
	return path
}

// Set stores m in the slot that holds t and replaces the measurement there. It can be repeated.
//
// Cost: 1 round trip, 1 document written, index {series, start}, 1 key. 1 more if another writer makes the
// document at the same moment.
func (s *Slots[ID, M]) Set(ctx context.Context, series ID, t time.Time, m M) (err error) {
	ctx = comment.Call(ctx, "slots.Set")
	defer fault.In(&err, "slots.Set")
	one := &batch{grid: s.core}
	if err := one.Add(series, Slot[any]{t, m}); err != nil {
		return err
	}
	_, err = one.Store(ctx)
	return err
}

// SetMany sets slots of any series in any order, Work.BatchSize of them at a time, 10,000 by default. If a slot comes
// several times, the last value stays. The Result counts the slots that were stored (Done), refused (Failed, with an
// error at the end) and sent without an answer (Unknown). A slot that is not valid ends the call, after those before it
// are stored, with an ErrInvalid that names its index. A nil sequence sets nothing. SetMany can be repeated.
//
// Cost: 1 round trip for each batch and 1 document written for each document in it; index {series, start}, 1 key
// each.
//   - 1 more if another writer makes one of them at the same moment.
func (s *Slots[ID, M]) SetMany(ctx context.Context, slots iter.Seq2[ID, Slot[M]], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.SetMany")
	defer fault.In(&err, "slots.SetMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.Many(ctx, windows.Untyped(slots, func(slot Slot[M]) any { return Slot[any]{slot.Time, slot.Value} }), work, s.core.begin)
}

// A batch holds encoded slots by document, until they are stored.
type batch struct {
	*grid
	windows.Groups[waiting]
}

type group = windows.Group[waiting]

// waiting has the slots that wait to be stored in a document.
type waiting struct {
	created bson.Raw // further fields of a new document
	items   []item
}

type item struct {
	path string
	raw  bson.RawValue
}

func (g *grid) begin() windows.Batch { return &batch{grid: g} }

func (b *batch) Size() (count, bytes int) { return b.Count, b.Bytes }

// Add encodes a slot once and puts it into the group of its window.
func (b *batch) Add(series, v any) error {
	slot := v.(Slot[any])
	if err := windows.CheckTime(slot.Time); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	raw, err := b.Codec.Value(slot.Value)
	if err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	if raw.Type == bson.TypeNull {
		return fault.Invalid("slot: the value is null")
	}
	g, err := b.Find(&b.Frame, series, slot.Time.UnixMilli())
	if err != nil {
		return err
	}
	if g.Of.items == nil {
		if g.Of.created, err = b.Created(g.Place, series, b.metadata); err != nil {
			return err
		}
	}
	if size := len(g.Of.created) + len(raw.Value); size > windows.MaxBytes {
		return fault.Invalid("slot: it has %d bytes with Metadata, more than fits into a document", size)
	}
	g.Of.items = append(g.Of.items, item{b.path(slot.Time), raw})
	b.Count, b.Bytes = b.Count+1, b.Bytes+len(raw.Value)
	return nil
}

// Store sends the slots of each document, and sends them again if another writer has created the document
// at the same moment.
//
// Cost: that of a batch of SetMany.
func (b *batch) Store(ctx context.Context) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	left := slices.DeleteFunc(slices.Clone(b.All), func(g *group) bool { return g.Of.items == nil }) // nil if its Metadata was refused
	for attempt := 0; len(left) > 0; attempt++ {
		again, taken, err := b.send(ctx, left, &r)
		if err != nil {
			return r, err
		}
		if len(again) > 0 {
			if err := b.CheckRetry(ctx, attempt, taken); err != nil {
				return r, err
			}
		}
		left = again
	}
	return r, nil
}

// send sends the slots of documents once and counts them. It returns the groups to be sent again, and the server's
// reason.
//
// Cost: 1 round trip.
func (g *grid) send(ctx context.Context, groups []*group, r *mongopatterns.Result) (again []*group, taken, err error) {
	upserts := make([]windows.Upsert, len(groups))
	for i, d := range groups {
		upserts[i] = g.upsert(d)
	}
	outcomes, err := g.Send(ctx, upserts)
	for i, o := range outcomes {
		rows := len(groups[i].Of.items)
		switch o.Fate {
		case windows.Written:
			r.Done += int64(rows)
		case windows.Unanswered:
			r.Unknown += int64(rows)
		case windows.Taken:
			again, taken = append(again, groups[i]), o.Err
		case windows.TooLarge, windows.Unkeyed: // a slot has only one place; the collection is sharded by another key
			err = cmp.Or(err, fault.Of(upserts[i].ID(), o.Err))
			g.CountRefused(r, upserts[i].ID(), rows, o.Err)
		case windows.Refused:
			g.CountRefused(r, upserts[i].ID(), rows, o.Err)
		}
	}
	return again, taken, err
}

// upsert is the upsert of a group's document. It selects by series and start, so that documents with any
// _id match; a new document gets an _id that prevents a second writer from creating another. If a slot
// comes several times it stores the last item.
func (g *grid) upsert(d *group) windows.Upsert {
	filter, update, last := codec.Build(128), codec.Build(256), map[string]int{}
	g.AddPlace(filter, d.Place)
	for i, it := range d.Of.items {
		last[it.path] = i
	}
	update.Open("$set")
	for i, it := range d.Of.items {
		if last[it.path] == i {
			update.Value(it.path, it.raw)
		}
	}
	update.Close()
	update.Open("$setOnInsert")
	update.Open("_id")
	update.Value(g.Series, d.Series)
	update.Date(g.Start, d.Start)
	update.Close()
	fields, _ := d.Of.created.Elements()
	for _, e := range fields {
		update.Value(e.Key(), e.Value())
	}
	update.Close()
	return windows.Upsert{Filter: filter.Done(), Update: update.Done()}
}

// Delete empties the slot that holds t. It returns ErrNotFound if the slot is empty, also when you repeat a
// deletion whose answer was lost.
//
// Cost: 1 round trip, 1 document written, index {series, start}, 1 key.
func (s *Slots[ID, M]) Delete(ctx context.Context, series ID, t time.Time) (err error) {
	ctx = comment.Call(ctx, "slots.Delete")
	defer fault.In(&err, "slots.Delete")
	g := s.core
	p, err := g.Place(series, t)
	if err != nil {
		return err
	}
	path := g.path(t)
	result, err := fault.One(g.Coll.UpdateOne(ctx, append(g.PlaceFilter(p), expr.Element(path, expr.Op("$exists", true))),
		expr.Op("$unset", expr.D(path, ""))))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.Named(t.UnixMilli(), "", err)
}

// Get returns the measurement in the slot that holds t, or ErrNotFound if it is empty. The server sends
// only the slot. If the series has documents whose start is a string, the error says so; then run Adopt.
//
// Cost: 1 round trip, index {series, start}, 1 key. No document: 1 more, to look for times that are stored as
// strings.
func (s *Slots[ID, M]) Get(ctx context.Context, series ID, t time.Time) (m M, err error) {
	ctx = comment.Call(ctx, "slots.Get")
	defer fault.In(&err, "slots.Get")
	g := s.core
	p, err := g.Place(series, t)
	if err != nil {
		return m, err
	}
	doc, err := windows.First(windows.Find(ctx, g.Coll, g.PlaceFilter(p), options.Find().SetLimit(1).
		SetProjection(expr.D("_id", 0, "m", expr.Field(g.path(t))))))
	if errors.Is(err, mongopatterns.ErrNotFound) {
		err = g.misfiled(ctx, p.Series)
	}
	if err != nil {
		return m, p.Named(t.UnixMilli(), "", err)
	}
	v := value.Lookup(doc, "m")
	if v.Type == 0 || v.Type == bson.TypeNull {
		return m, p.Named(t.UnixMilli(), "", mongopatterns.ErrNotFound)
	}
	return codec.DecodeValue[M](g.Codec, v)
}

// misfiled returns the error NoDate if starts of the series are strings, which no range of dates finds,
// otherwise ErrNotFound.
func (g *grid) misfiled(ctx context.Context, series bson.RawValue) error {
	filter := expr.D(g.Series, value.Equal(series), g.Start, expr.Op("$type", "string"))
	doc, err := windows.First(windows.Find(ctx, g.Coll, filter, options.Find().SetLimit(1).SetProjection(expr.D(g.Start, 1))))
	if err != nil {
		return err
	}
	return g.NoDate(doc)
}

// Range returns the slots of series that begin at or after from and before to, in order. A zero time sets
// no limit. For a range within one window the server sends only the slots of the range. For a longer one
// it sends whole windows.
//
// Cost: 1 round trip, index {series, start}, no sort on the server; 1 key and 1 document for each window.
//   - More than 101 documents or 16 MiB: 1 for each further batch.
//   - No document: 1 more, as for Get.
func (s *Slots[ID, M]) Range(ctx context.Context, series ID, from, to time.Time) iter.Seq2[Slot[M], error] {
	ctx = comment.Call(ctx, "slots.Range")
	g := s.core
	return fault.Seq("slots.Range", windows.InOrder(&g.Frame, g.documents(ctx, series, from, to), g.entries, from, to, slotOf[M]))
}

func slotOf[M any](m M, e windows.Entry) Slot[M] {
	return Slot[M]{Time: time.UnixMilli(e.Time).UTC(), Value: m}
}

func (g *grid) documents(ctx context.Context, series any, from, to time.Time) iter.Seq2[bson.Raw, error] {
	raw, err := g.SeriesOf(series)
	if err != nil {
		return fault.Stop[bson.Raw](err)
	}
	return func(yield func(bson.Raw, error) bool) {
		found := false
		for doc, err := range windows.Find(ctx, g.Coll, g.RangeFilter(raw, from, to), options.Find().
			SetSort(expr.D(g.Start, 1)).SetProjection(g.projection(from, to))) {
			found = true
			if !yield(doc, err) {
				return
			}
		}
		if !found {
			if err := g.misfiled(ctx, raw); !errors.Is(err, mongopatterns.ErrNotFound) {
				yield(nil, err)
			}
		}
	}
}

// Projection returns the projection of Range on the documents that Filter selects: only the slots of the
// range if from and to lie in one window, otherwise all slots.
func (s *Slots[ID, M]) Projection(from, to time.Time) bson.D { return s.core.projection(from, to) }

func (g *grid) projection(from, to time.Time) bson.D {
	projection := expr.D("_id", 0, g.Start, 1)
	whole := append(projection, expr.Element(g.data, 1))
	if windows.CheckTime(from) != nil || windows.CheckTime(to) != nil {
		return whole
	}
	from, to = time.UnixMilli(from.UnixMilli()), time.UnixMilli(to.UnixMilli()) // as the times are stored
	start, end := g.Window.Bounds(from)
	if to.After(end) {
		return whole
	}
	slot := g.levels[len(g.levels)-1]
	up := func(t time.Time) time.Duration { return (t.Sub(start) + slot - 1) / slot * slot }
	for at, last := up(from), up(to); at < last; {
		depth := 0 // the largest unit that begins here and ends in time
		for depth < len(g.levels)-1 && (at%g.levels[depth] != 0 || at+g.levels[depth] > last) {
			depth++
		}
		if len(projection) > 500 {
			return whole // shorter than naming so many slots
		}
		projection = append(projection, expr.Element(g.data+keys(at, g.levels[:depth+1]), 1))
		at += g.levels[depth]
	}
	return projection
}

// walk visits the slots of a document. A slot with a key that is not a number, which this package does not
// write, is not timed.
func (g *grid) walk(doc bson.Raw, visit func(slot windows.Entry, path string, timed bool)) {
	var below func(slot windows.Entry, path string, timed bool, levels []time.Duration)
	below = func(slot windows.Entry, path string, timed bool, levels []time.Duration) {
		inner, ok := slot.Raw.DocumentOK()
		if len(levels) == 0 || !ok {
			visit(slot, path, timed && len(levels) == 0 && slot.Raw.Type != bson.TypeNull)
			return
		}
		elements, _ := inner.Elements()
		for _, e := range elements {
			n, err := strconv.ParseInt(e.Key(), 10, 64)
			at := windows.Entry{Time: slot.Time + n*levels[0].Milliseconds(), Raw: e.Value()}
			below(at, path+"."+e.Key(), timed && err == nil, levels[1:])
		}
	}
	if data := value.Lookup(doc, g.data); data.Type != 0 {
		below(windows.Entry{Time: g.StartOf(doc), Raw: data}, g.data, true, g.levels)
	}
}

func (g *grid) entries(doc bson.Raw) (out []windows.Entry, _ error) {
	g.walk(doc, func(slot windows.Entry, _ string, timed bool) {
		if timed {
			out = append(out, slot)
		}
	})
	return out, nil
}

// Latest returns the slot of series with the latest time, or ErrNotFound if all slots are empty.
//
// Cost: 1 round trip, index {series, start}, 1 key; 1 more for each newest window that Delete has emptied.
func (s *Slots[ID, M]) Latest(ctx context.Context, series ID) (slot Slot[M], err error) {
	ctx = comment.Call(ctx, "slots.Latest")
	defer fault.In(&err, "slots.Latest")
	g := s.core
	raw, err := g.SeriesOf(series)
	if err != nil {
		return slot, err
	}
	for before := (time.Time{}); ; {
		newest, err := windows.First(windows.Find(ctx, g.Coll, g.RangeFilter(raw, time.Time{}, before), options.Find().SetLimit(1).
			SetSort(expr.D(g.Start, -1)).SetProjection(g.projection(time.Time{}, time.Time{}))))
		if err != nil {
			return slot, err
		}
		if value.Lookup(newest, g.Start).Type != bson.TypeDateTime {
			return slot, g.NoDate(newest)
		}
		if all, _ := g.entries(newest); len(all) > 0 {
			last := slices.MaxFunc(all, func(a, b windows.Entry) int { return cmp.Compare(a.Time, b.Time) })
			m, err := codec.DecodeValue[M](g.Codec, last.Raw)
			return slotOf(m, last), err
		}
		if before = time.UnixMilli(g.StartOf(newest)); before.IsZero() { // the first window of all, and no limit to Filter
			return slot, mongopatterns.ErrNotFound
		}
	}
}

// Check yields the problems of the documents that work selects. It checks their start and end, because no other
// field is derived.
//
// It yields these kinds of package mongopatterns:
//   - WrongField: an end that is not the window's. Repair sets it.
//   - Malformed: a start that is not a date or does not begin a window, so that reads miss the
//     document. Adopt converts times that are stored as strings. A Malformed problem without an ID
//     names a SeriesField or DataField that no document has. Either its name is misspelt, or the data
//     does not exist yet. Check finds it only without Work.Filter.
//
// Cost: 3 round trips, and 1 for each batch; scans the collection by _id.
func (s *Slots[ID, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "slots.Check")
	return fault.Seq("slots.Check", s.core.Problems(ctx, work, s.core.scan(), s.core.audit, s.core.data))
}

// Repair sets wrong ends. Remaining counts the documents with a bad start.
//
// Cost: that of Check, and 1 round trip for each batch with wrong ends, index _id.
func (s *Slots[ID, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Repair")
	defer fault.In(&err, "slots.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.Frame.Repair(ctx, work, s.core.scan(), s.core.audit)
}

func (g *grid) scan() maintain.Scan {
	fields := g.Keys()
	if g.End != "" {
		fields = append(fields, expr.Element(g.End, 1))
	}
	return maintain.Scan{Projection: fields}
}

func (g *grid) audit(doc bson.Raw, report windows.Report) mongo.Pipeline {
	_, _, ends, _ := g.Span(doc, report)
	return mongo.Pipeline{expr.Op("$set", ends)}
}

// Archive moves the documents whose window ended at or before the time before into target. Each batch (by
// default 100 documents, at most 8 MiB) is a transaction, so every document is in exactly one of the two
// collections at any time. It can be stopped and run again. Late data may create a new document of an
// archived window. When a later Archive moves it, its slots replace the archived ones. work.Filter selects
// documents. target is another collection of the same database; Archive creates it if it does not exist. To
// index and read it, make a second Slots with the same options, and call its EnsureIndexes before Archive.
//
// Cost: 2 round trips, and for each batch 4, commit included, and 2 writes for each document.
//   - 1 more to create target, and more for many documents, to find them.
//   - They are found by the index {series, start} with a filter on the series, by {start} if you have made it,
//     otherwise by a scan.
func (s *Slots[ID, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Archive")
	defer fault.In(&err, "slots.Archive")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.Frame.Archive(ctx, before, comment.On(target), work, s.core.arrive)
}

func (g *grid) arrive(_ context.Context, _ *comment.Collection, docs []bson.Raw) (updates []mongo.WriteModel, _ error) {
	for _, doc := range docs {
		if err := g.checkWritable(doc); err != nil {
			return nil, fault.Refuse(fault.Of(doc.Lookup("_id"), err))
		}
		updates = append(updates, g.bring(doc, windows.Place{Series: value.Lookup(doc, g.Series), Start: g.StartOf(doc)}, true))
	}
	return updates, nil
}

// checkWritable refuses a document whose place cannot be told, such as one with its start in an array, which the filter of
// Archive meets, and what checkNames refuses.
func (g *grid) checkWritable(doc bson.Raw) error {
	if start := value.Lookup(doc, g.Start); start.Type != bson.TypeDateTime {
		return fmt.Errorf("%w: %s is %s, not a date", fault.ErrMalformed, g.Start, value.Text(start))
	}
	return g.checkNames(doc)
}

// checkNames refuses a document with a name, of a field or of a key of slots, that means something else in the path of an
// update. Only another program stores such a document.
func (g *grid) checkNames(doc bson.Raw) error {
	if err := pathNames(doc); err != nil {
		return err
	}
	return g.checkKeys(value.Lookup(doc, g.data), len(g.levels))
}

// checkKeys is checkNames for so many levels of slots.
func (g *grid) checkKeys(slots bson.RawValue, levels int) error {
	inner, ok := slots.DocumentOK()
	if !ok || levels == 0 {
		return nil
	}
	if err := pathNames(inner); err != nil {
		return fmt.Errorf("%s: %w", g.data, err)
	}
	elements, _ := inner.Elements()
	for _, e := range elements {
		if err := g.checkKeys(e.Value(), levels-1); err != nil {
			return err
		}
	}
	return nil
}

// pathNames refuses names that a path cannot have.
func pathNames(doc bson.Raw) error {
	elements, _ := doc.Elements()
	for _, e := range elements {
		if name := e.Key(); name == "" || strings.HasPrefix(name, "$") || strings.Contains(name, ".") {
			return fmt.Errorf("%w: the name %q is empty, begins with $ or has a dot", fault.ErrMalformed, name)
		}
	}
	return nil
}

// bring is the upsert that writes a document to a place. If the place has no document, it gets all fields,
// including _id. If it has one, that gets the slots and other fields that it lacks; with later, all slots
// replace its own. The end is that of p; with later the end is treated like other fields.
func (g *grid) bring(doc bson.Raw, p windows.Place, later bool) mongo.WriteModel {
	var set bson.D
	put := func(path string, v any, keep bool) {
		if keep {
			v = expr.IfNull(expr.Field(path), v)
		}
		set = append(set, expr.Element(path, v))
	}
	g.walk(doc, func(slot windows.Entry, path string, _ bool) { put(path, expr.Literal(slot.Raw), !later) })
	elements, _ := doc.Elements()
	for _, e := range elements {
		if k := e.Key(); k != g.Series && k != g.Start && k != g.data && (k != g.End || later) {
			put(k, expr.Literal(e.Value()), true)
		}
	}
	if g.End != "" && !later {
		put(g.End, g.EndOf(p.End), false)
	}
	return mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(g.PlaceFilter(p)).SetUpdate(mongo.Pipeline{expr.Op("$set", set)})
}

// Adopt converts documents of slots whose start is stored as a string, such as "2021-07-05 00:00:00",
// into documents with a date. A nil parse reads RFC 3339, that form and "2021-07-05", as UTC. If the
// window already has a document with a date, that document gets the slots that it lacks and keeps its own
// value of slots that both have. A document whose start does not begin a window is Failed and named.
// Adopt can be stopped and run again, also while old code sets slots in documents with strings. A slot
// that is set during the conversion is either converted with its document, or goes to a new document with
// a string, which the next call converts. A document that was deleted meanwhile is Skipped. EnsureIndexes
// must have run, because otherwise a writer could create a second document of the window.
//
// Cost: 1 round trip to begin, and for each batch of 100 documents 4, commit included, and 2 writes for each
// document.
//   - The documents are found by a scan, 1 round trip for each 1000.
func (s *Slots[ID, M]) Adopt(ctx context.Context, parse func(start string) (time.Time, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Adopt")
	defer fault.In(&err, "slots.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	g := s.core
	if err := maintain.Ready(ctx, work, g.Coll); err != nil {
		return result, err
	}
	if parse == nil {
		parse = parseTime
	}
	text := expr.D("$type", "string", "$not", expr.AnArray) // also not a list of strings
	scan := maintain.Scan{Filter: expr.D(g.Start, text), Projection: g.Keys(), Whole: true, BatchSize: windows.WholeBatch}
	return maintain.Run(ctx, g.Coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if w.DryRun {
			converted, err := g.convert(found, parse, w, result)
			result.Done += int64(len(converted))
			return err
		}
		var once mongopatterns.Result
		if err := maintain.Once(ctx, g.Coll.Database(), func(ctx context.Context) (err error) {
			once, err = g.redate(ctx, found, parse, w)
			return err
		}); err != nil {
			return err
		}
		maintain.Add(result, once)
		return nil
	})
}

// redate converts documents in a transaction. It reads them again, because old code may have set slots in
// them since they were found.
//
// Cost: 3 round trips.
func (g *grid) redate(ctx context.Context, found []bson.Raw, parse func(string) (time.Time, error), w mongopatterns.Work) (result mongopatterns.Result, err error) {
	docs, err := transfer.ByID(ctx, g.Coll, found, nil)
	if err != nil {
		return result, err
	}
	docs = slices.DeleteFunc(g.Only(found, docs), func(doc bson.Raw) bool { return value.Lookup(doc, g.Start).Type != bson.TypeString })
	result.Skipped = int64(len(found) - len(docs))
	converted, err := g.convert(docs, parse, w, &result)
	if err != nil || len(converted) == 0 {
		return result, err
	}
	var deletes, updates []mongo.WriteModel
	for _, c := range converted {
		deletes = append(deletes, mongo.NewDeleteOneModel().SetFilter(g.UnchangedFilter(c.doc)))
		updates = append(updates, g.bring(c.doc, c.to, false))
	}
	done, err := fault.Many(g.Coll.BulkWrite(ctx, append(deletes, updates...)))
	result.Done = int64(len(converted))
	if err != nil {
		return result, err
	}
	if done.DeletedCount != int64(len(deletes)) {
		return result, txn.Conflict("adopt")
	}
	return result, nil
}

// A redated is a document whose start is a string, and its place.
type redated struct {
	doc bson.Raw
	to  windows.Place
}

// convert finds the places of documents, and counts the documents without one.
func (g *grid) convert(docs []bson.Raw, parse func(string) (time.Time, error), w mongopatterns.Work, result *mongopatterns.Result) (out []redated, _ error) {
	for _, doc := range docs {
		p, err := g.converted(doc, parse)
		if err == nil {
			err = g.checkNames(doc)
		}
		switch {
		case err == nil:
			out = append(out, redated{doc, p})
		case w.Strict:
			return nil, fault.Of(doc.Lookup("_id"), err)
		default:
			maintain.Fail(result, g.Coll.Name(), doc.Lookup("_id"), err)
		}
	}
	return out, nil
}

func parseTime(s string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, err
}

// converted returns the place of a document whose start is a string.
func (g *grid) converted(doc bson.Raw, parse func(string) (time.Time, error)) (p windows.Place, err error) {
	text := value.Lookup(doc, g.Start).StringValue()
	refused := func(err error) (windows.Place, error) { return p, fault.Invalid("%s is %q: %w", g.Start, text, err) }
	t, err := parse(text)
	if err != nil {
		return refused(err)
	}
	p, err = g.Place(value.Lookup(doc, g.Series), t)
	if err != nil {
		return refused(err)
	}
	if !t.Equal(time.UnixMilli(p.Start)) {
		return refused(errors.New("it is not the start of a window"))
	}
	return p, nil
}
