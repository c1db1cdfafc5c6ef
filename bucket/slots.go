package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// SlotOptions names the fields of a document of slots. The zero value stores
// {series, start, data: {hour: {minute: measurement}}}. All fields are plain names.
type SlotOptions struct {
	// SeriesField, StartField, EndField, EndTime, Metadata, RetentionIndex,
	// Registry and BSON are as in Options, with the same defaults.
	SeriesField    string
	StartField     string
	EndField       string
	EndTime        EndTime
	Metadata       func(series any, start time.Time) bson.D
	RetentionIndex bool
	Registry       *bson.Registry
	BSON           *options.BSONOptions
	// DataField holds the slots. Default "data".
	DataField string
	// Levels are the lengths that the levels of DataField count, from the
	// outside: one to three, each a whole multiple of the next. The last one is
	// the length of a slot. Default time.Hour, time.Minute.
	Levels []time.Duration
}

// Slots stores at most one measurement M of a series S in each slot of time,
// one document for a window of a series. It is safe for concurrent use.
//
// Slots count the time elapsed since the window began, not the hour on the wall:
// where the clock is set back, a day has an hour "24", and where it is set
// forward, "22" is its last.
type Slots[S, M any] struct{ core *grid }

var _ mongopatterns.Checker = (*Slots[string, bson.D])(nil)

// grid is the layout of Slots, on BSON.
type grid struct {
	frame
	data   string
	levels []time.Duration
}

// A Slot is a measurement with the time at which its slot begins.
type Slot[M any] struct {
	Time  time.Time `json:"time"`
	Value M         `json:"value"`
}

// NewSlots returns Slots over coll. It does no I/O; opts may be nil. M may be
// anything that encodes to a BSON value but null, a plain number included.
func NewSlots[S, M any](coll *mongo.Collection, window Window, opts *SlotOptions) (s *Slots[S, M], err error) {
	defer fault.In(&err, "bucket: new slots")
	var o SlotOptions
	if opts != nil {
		o = *opts
	}
	g := &grid{frame: frame{coll: coll, window: window, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		endAt: o.EndTime, metadata: o.Metadata, byStart: o.RetentionIndex},
		levels: append([]time.Duration(nil), o.Levels...)}
	if len(g.levels) == 0 {
		g.levels = []time.Duration{time.Hour, time.Minute}
	}
	if err := g.check(
		config.Name("SlotOptions.SeriesField", &o.SeriesField, "series"),
		config.Name("SlotOptions.StartField", &o.StartField, "start"),
		config.Name("SlotOptions.EndField", &o.EndField, ""),
		config.Name("SlotOptions.DataField", &o.DataField, "data"),
		config.Check("SlotOptions.Levels", func() error { return checkLevels(g.levels) }),
	); err != nil {
		return nil, err
	}
	g.series, g.start, g.end, g.data = o.SeriesField, o.StartField, o.EndField, o.DataField
	g.taken = map[string]bool{"_id": true, g.series: true, g.start: true, g.end: true, g.data: true}
	return &Slots[S, M]{g}, nil
}

func checkLevels(levels []time.Duration) error {
	if len(levels) > 3 {
		return errors.New("more than three")
	}
	for i, level := range levels {
		if level <= 0 || level%time.Millisecond != 0 {
			return fmt.Errorf("%v is not a positive number of milliseconds", level)
		}
		if i > 0 && (levels[i-1]%level != 0 || levels[i-1] == level) {
			return fmt.Errorf("%v is no whole multiple of %v", levels[i-1], level)
		}
	}
	return nil
}

// Indexes returns the index Slots uses besides _id, the unique {series: 1, start:
// 1}; with SlotOptions.RetentionIndex also {start: 1}.
func (s *Slots[S, M]) Indexes() map[string][]mongo.IndexModel {
	return s.core.indexes(mongo.IndexModel{Keys: s.core.shardKey(), Options: options.Index().SetUnique(true)})
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (s *Slots[S, M]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "bucket: ensure indexes")
	return indexes.EnsureAll(ctx, s.core.coll.Database(), s.Indexes())
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}, on which every
// write of one document filters.
func (s *Slots[S, M]) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.core.coll.Name(): s.core.shardKey()}
}

// Filter selects the documents that can hold slots of series from from until
// before to; a zero time is no limit. It uses the index {series, start}.
func (s *Slots[S, M]) Filter(series S, from, to time.Time) bson.D {
	return s.core.filter(series, from, to)
}

// Path is the field of the slot that holds t, in the document of its window:
// "data.15.4".
func (s *Slots[S, M]) Path(t time.Time) string { return s.core.path(t) }

func (g *grid) path(t time.Time) string {
	start, _ := g.window.Bounds(t)
	offset := t.Sub(start)
	path := g.data
	for _, level := range g.levels {
		path += "." + strconv.FormatInt(int64(offset/level), 10)
		offset %= level
	}
	return path
}

// Set stores m in the slot that holds t, in place of what is there. It can be
// repeated.
//
// Cost: 1 round trip, 1 document written; index {series, start}, 1 key. One
// more when another writer makes the document at the same moment.
func (s *Slots[S, M]) Set(ctx context.Context, series S, t time.Time, m M) (err error) {
	defer fault.In(&err, "bucket: set")
	var one batch
	if _, err := s.core.add(&one, series, t, m); err != nil {
		return err
	}
	_, err = s.core.write(ctx, one.groups, false)
	return err
}

// SetMany sets slots of any series in any order, Work.BatchSize at a time (10,000 by
// default, no more than Work.BatchBytes) in one unordered bulk write; of several for
// one slot in a batch the last one stays. nil is no slots. It can be given the same
// input again. The Result is as that of AppendMany: a slot that cannot be stored
// ends the call after those before it.
//
// Cost: 1 round trip a batch and 1 document written per document in it; index
// {series, start}, 1 key each. One more for a batch when another writer makes
// one of its documents at the same moment.
func (s *Slots[S, M]) SetMany(ctx context.Context, slots iter.Seq2[S, Slot[M]], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: set many")
	var pending batch
	return s.core.feed(untyped(slots), work, func(series, v any) (int, error) {
		slot := v.(Slot[M])
		return s.core.add(&pending, series, slot.Time, slot.Value)
	}, func(dry bool) (mongopatterns.Result, error) {
		groups := pending.groups
		pending = batch{}
		return s.core.write(ctx, groups, dry)
	})
}

// add puts a slot into the document of its place, in place of an earlier one.
func (g *grid) add(b *batch, series any, t time.Time, m any) (int, error) {
	d, err := g.group(b, series, t)
	if err != nil {
		return 0, err
	}
	raw, err := g.codec.Value(m)
	if err != nil {
		return 0, err
	}
	path := g.path(t)
	i, ok := d.index[path]
	if !ok {
		i = len(d.slots)
		d.index[path], d.slots = i, append(d.slots, bson.E{Key: path})
	}
	d.slots[i].Value = raw
	d.count++
	return len(raw.Value), nil
}

// write upserts the documents of a batch. They are found by series and start, so that
// documents with any _id serve; a new one gets an _id that keeps a second writer from
// making another.
func (g *grid) write(ctx context.Context, groups []*group, dry bool) (mongopatterns.Result, error) {
	var result mongopatterns.Result
	var statements []statement
	for _, d := range groups {
		id := bson.D{{Key: g.series, Value: d.place.series}, {Key: g.start, Value: d.place.start}}
		statements = append(statements, statement{items: int(d.count), id: id,
			model: mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(g.within(d.place)).SetUpdate(bson.D{
				{Key: "$set", Value: d.slots}, {Key: "$setOnInsert", Value: append(bson.D{{Key: "_id", Value: id}}, d.created...)}})})
		if dry {
			result.Done += d.count
		}
	}
	if dry {
		return result, nil
	}
	for attempt := 0; len(statements) > 0; attempt++ {
		var again []statement
		repeat, fatal := g.send(ctx, statements, &result, func(i int, err error) bool {
			if !mongo.IsDuplicateKeyError(err) {
				return false
			}
			again = append(again, statements[i])
			return true
		})
		if fatal != nil {
			return result, fatal
		}
		if repeat != nil && (txn.Running(ctx) || attempt >= maxAttempts) {
			return result, gaveUp(repeat)
		}
		statements = again
	}
	return result, nil
}

// Delete empties the slot that holds t; ErrNotFound if it is empty: so it is when
// a deletion whose answer was lost is repeated.
//
// Cost: 1 round trip, 1 document written; index {series, start}, 1 key.
func (s *Slots[S, M]) Delete(ctx context.Context, series S, t time.Time) (err error) {
	defer fault.In(&err, "bucket: delete")
	g := s.core
	p, err := g.place(series, t)
	if err != nil {
		return err
	}
	path := g.path(t)
	result, err := g.coll.UpdateOne(ctx,
		append(g.within(p), bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: true}}}),
		bson.D{{Key: "$unset", Value: bson.D{{Key: path, Value: ""}}}})
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	if err != nil {
		return slotError(p.series, t, err)
	}
	return nil
}

func slotError(series bson.RawValue, t time.Time, err error) error {
	return fmt.Errorf("series %s, time %s: %w", value.Text(series), t.UTC().Format(time.RFC3339Nano), err)
}

// Archive is Archive of Buckets; of a window that target holds already, the
// slots that were set later replace the archived ones. target needs the indexes of a
// second Slots over it.
//
// Cost: as Archive of Buckets; 1 more for each batch with windows that target
// holds already.
func (s *Slots[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: archive")
	return s.core.archive(ctx, before, target, work, true, s.core.overwrite)
}

// DeleteBefore is DeleteBefore of Buckets.
//
// Cost: as there.
func (s *Slots[S, M]) DeleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: delete before")
	return s.core.deleteBefore(ctx, before, work)
}

// overwrite sets the slots of documents whose window is there already.
func (g *grid) overwrite(docs, there []bson.Raw) (inserts []any, updates []mongo.WriteModel) {
	taken := map[string]bson.Raw{}
	key := func(doc bson.Raw) string {
		return placeKey(value.Lookup(doc, g.series), dateOf(value.Lookup(doc, g.start)))
	}
	for _, doc := range there {
		taken[key(doc)] = doc
	}
	for _, doc := range docs {
		held, ok := taken[key(doc)]
		if !ok {
			inserts = append(inserts, doc)
		} else if slots := g.flatten(doc); len(slots) > 0 {
			updates = append(updates, mongo.NewUpdateOneModel().SetFilter(g.itself(held)).
				SetUpdate(bson.D{{Key: "$set", Value: slots}}))
		}
	}
	return inserts, updates
}

// flatten lists the slots of a document by their paths.
func (g *grid) flatten(doc bson.Raw) bson.D {
	var out bson.D
	var add func(v bson.RawValue, path string, levels int)
	add = func(v bson.RawValue, path string, levels int) {
		inner, ok := v.DocumentOK()
		if levels == 0 || !ok {
			out = append(out, bson.E{Key: path, Value: v})
			return
		}
		elements, _ := inner.Elements()
		for _, e := range elements {
			add(e.Value(), path+"."+e.Key(), levels-1)
		}
	}
	if data := value.Lookup(doc, g.data); data.Type != 0 {
		add(data, g.data, len(g.levels))
	}
	return out
}
