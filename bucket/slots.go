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

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// SlotOptions names the fields of a document of slots. The zero value stores
// {series, start, data: {hour: {minute: measurement}}}. All fields are plain names.
type SlotOptions struct {
	// SeriesField holds the key of the series. Default "series".
	SeriesField string
	// StartField holds the window's first instant. Default "start".
	StartField string
	// EndField holds the window's last millisecond, or with ExclusiveEnd the
	// start of the next window. Default "": not stored.
	EndField     string
	ExclusiveEnd bool
	// DataField holds the slots. Default "data".
	DataField string
	// Levels are the lengths that the levels of DataField count, from the
	// outside: one to three, each a whole multiple of the next. The last one is
	// the length of a slot. Default time.Hour, time.Minute.
	Levels []time.Duration
	// Metadata returns further fields for the first write of a document, not of
	// the names above. Default nil: none.
	Metadata func(series any, start time.Time) bson.D
	// RetentionIndex adds {start: 1} to Indexes, which Archive and DeleteBefore
	// over all series scan instead of the collection. Default false.
	RetentionIndex bool
	// Registry encodes series. Give the client's own registry if it has one; it
	// encodes the measurements. Default nil: the driver's.
	Registry *bson.Registry
}

// Slots stores at most one measurement M of a series S in each slot of time,
// one document for a window of a series. It is safe for concurrent use.
//
// Slots count the time elapsed since the window began, not the hour on the wall:
// where the clock is set back, a day has an hour "24", and where it is set
// forward, "22" is its last.
type Slots[S, M any] struct {
	layout
	data   string
	levels []time.Duration
}

// A Slot is a measurement with the time at which its slot begins.
type Slot[M any] struct {
	Time  time.Time `json:"time"`
	Value M         `json:"value"`
}

// slotRetries is how often a write that made a document at the same time as
// another writer is tried again; the document is there the next time.
const slotRetries = 8

// NewSlots returns Slots over coll. It does no I/O; opts may be nil. M may be
// anything that encodes to a BSON value but null, a plain number included.
func NewSlots[S, M any](coll *mongo.Collection, window Window, opts *SlotOptions) (*Slots[S, M], error) {
	var o SlotOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.SeriesField, "series")
	setDefault(&o.StartField, "start")
	setDefault(&o.DataField, "data")
	if len(o.Levels) == 0 {
		o.Levels = []time.Duration{time.Hour, time.Minute}
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	l, err := newLayout(coll, window, o.Registry)
	if err != nil {
		return nil, err
	}
	l.series, l.start, l.end, l.exclusiveEnd = o.SeriesField, o.StartField, o.EndField, o.ExclusiveEnd
	l.metadata, l.retentionIndex = o.Metadata, o.RetentionIndex
	l.taken = []string{"_id", o.SeriesField, o.StartField, o.EndField, o.DataField}
	return &Slots[S, M]{layout: l, data: o.DataField, levels: append([]time.Duration(nil), o.Levels...)}, nil
}

func (o *SlotOptions) check() error {
	names := []string{"_id", "_id"}
	for _, f := range []struct{ option, name string }{
		{"SlotOptions.SeriesField", o.SeriesField}, {"SlotOptions.StartField", o.StartField},
		{"SlotOptions.DataField", o.DataField}, {"SlotOptions.EndField", o.EndField},
	} {
		if f.name == "" {
			continue // EndField
		}
		if err := fieldpath.CheckName(f.option, f.name); err != nil {
			return err
		}
		names = append(names, f.option, f.name)
	}
	if err := fieldpath.CheckDisjoint(names...); err != nil {
		return err
	}
	if len(o.Levels) > 3 {
		return errors.New("SlotOptions.Levels: more than three")
	}
	for i, level := range o.Levels {
		if level <= 0 || level%time.Millisecond != 0 {
			return fmt.Errorf("SlotOptions.Levels[%d]: not a positive number of milliseconds", i)
		}
		if i > 0 && (o.Levels[i-1]%level != 0 || o.Levels[i-1] == level) {
			return fmt.Errorf("SlotOptions.Levels[%d]: %v is no whole multiple of %v", i-1, o.Levels[i-1], level)
		}
	}
	return nil
}

// Indexes returns the index Slots uses besides _id: {series: 1, start: 1}; with
// SlotOptions.RetentionIndex also {start: 1}.
func (s *Slots[S, M]) Indexes() []mongo.IndexModel { return s.layout.indexes() }

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (s *Slots[S, M]) EnsureIndexes(ctx context.Context) error {
	return ensureIndexes(ctx, s.coll, s.Indexes())
}

// Filter selects the documents that can hold slots of series from from until
// before to; a zero time is no limit. It uses the index {series, start}.
func (s *Slots[S, M]) Filter(series S, from, to time.Time) bson.D { return s.filter(series, from, to) }

// Path is the field of the slot that holds t, in the document of its window:
// "data.15.4".
func (s *Slots[S, M]) Path(t time.Time) string {
	start, _ := s.window.Bounds(t)
	offset := t.Sub(start)
	path := s.data
	for _, level := range s.levels {
		path += "." + strconv.FormatInt(int64(offset/level), 10)
		offset %= level
	}
	return path
}

// Set stores m in the slot that holds t, in place of what is there.
//
// Cost: 1 round trip, 1 document written; index {series, start}, 1 key. One
// more when another writer makes the document at the same moment.
func (s *Slots[S, M]) Set(ctx context.Context, series S, t time.Time, m M) error {
	p, err := s.place(series, t)
	if err != nil {
		return fmt.Errorf("bucket: set: %w", err)
	}
	filter, update, err := s.upsert(p, series, bson.D{{Key: s.Path(t), Value: m}})
	if err != nil {
		return fmt.Errorf("bucket: set: %w", err)
	}
	for attempt := 0; ; attempt++ {
		_, err := s.coll.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
		switch {
		case err == nil:
			return nil
		case txn.Running(ctx) || !mongo.IsDuplicateKeyError(err):
			return fmt.Errorf("bucket: set: %w", err)
		case attempt >= slotRetries:
			return fmt.Errorf("bucket: set: %w: %w", ErrContended, err)
		}
	}
}

// upsert sets slots in the document of a place. It is found by series and
// start, so that documents with any _id serve; a new one gets an _id that keeps
// a second writer from making another.
func (s *Slots[S, M]) upsert(p place, series S, slots bson.D) (filter, update bson.D, err error) {
	created, err := s.created(p, series)
	if err != nil {
		return nil, nil, err
	}
	return s.within(p), bson.D{
		{Key: "$set", Value: slots},
		{Key: "$setOnInsert", Value: append(bson.D{{Key: "_id", Value: s.id(p, -1)}}, created...)},
	}, nil
}

// SetMany sets slots of any series in any order, BatchSize at a time in one
// unordered bulkWrite; of several for one slot the last one stays. It can be
// given the same input again. A series or time that cannot be stored stops it
// with an ErrInvalid that names the index in the input: the batches before its
// own are stored then. nil is no slots.
//
// Cost: 1 round trip and 1 document written per document for each batch; index
// {series, start}, 1 key each. One more for a batch when another writer makes
// one of its documents at the same moment.
func (s *Slots[S, M]) SetMany(ctx context.Context, slots iter.Seq2[S, Slot[M]], opts *BatchOptions) error {
	o, err := opts.withDefaults(defaultBatchSize)
	if err != nil {
		return fmt.Errorf("bucket: set many: %w", err)
	}
	if slots == nil {
		return nil
	}
	type document struct {
		place  place
		series S
		slots  bson.D
		index  map[string]int
	}
	var done int64
	var pending int
	var order []*document
	documents := map[string]*document{}
	flush := func() error {
		var models []mongo.WriteModel
		for _, d := range order {
			filter, update, err := s.upsert(d.place, d.series, d.slots)
			if err != nil {
				return err
			}
			models = append(models, mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(filter).SetUpdate(update))
		}
		for attempt := 0; len(models) > 0; attempt++ {
			_, err := s.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			failed, fatal := failures(err)
			switch {
			case fatal != nil:
				return fatal
			case err != nil && txn.Running(ctx):
				return err
			case err != nil && attempt >= slotRetries:
				return fmt.Errorf("%w: %w", ErrContended, err)
			}
			var again []mongo.WriteModel
			for i, model := range models {
				if failed[i] {
					again = append(again, model)
				}
			}
			models = again
		}
		done += int64(pending)
		o.Progress(done)
		pending, order = 0, nil
		clear(documents)
		return nil
	}
	index := -1
	for series, slot := range slots {
		index++
		p, err := s.place(series, slot.Time)
		if err != nil {
			return fmt.Errorf("bucket: set many: item %d: %w", index, err)
		}
		d := documents[p.key]
		if d == nil {
			d = &document{place: p, series: series, index: map[string]int{}}
			documents[p.key] = d
			order = append(order, d)
		}
		path := s.Path(slot.Time)
		if i, ok := d.index[path]; ok {
			d.slots[i].Value = slot.Value
		} else {
			d.index[path] = len(d.slots)
			d.slots = append(d.slots, bson.E{Key: path, Value: slot.Value})
		}
		if pending++; pending < o.BatchSize {
			continue
		}
		if err := flush(); err != nil {
			return fmt.Errorf("bucket: set many: %w", err)
		}
	}
	if pending > 0 {
		if err := flush(); err != nil {
			return fmt.Errorf("bucket: set many: %w", err)
		}
	}
	return nil
}

// Unset empties the slot that holds t; ErrNotFound if it is empty.
//
// Cost: 1 round trip, 1 document written; index {series, start}, 1 key.
func (s *Slots[S, M]) Unset(ctx context.Context, series S, t time.Time) error {
	p, err := s.place(series, t)
	if err != nil {
		return fmt.Errorf("bucket: unset: %w", err)
	}
	path := s.Path(t)
	result, err := s.coll.UpdateOne(ctx,
		append(s.within(p), bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: true}}}),
		bson.D{{Key: "$unset", Value: bson.D{{Key: path, Value: ""}}}})
	if err == nil && result.MatchedCount == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("bucket: unset: %s: %w", s.slot(series, t), err)
	}
	return nil
}

// slot names a slot in messages.
func (s *Slots[S, M]) slot(series S, t time.Time) string {
	return fmt.Sprintf("series %s, time %s", s.text(series), t.UTC().Format(time.RFC3339Nano))
}

// Archive is Archive of Buckets; of a window that target holds already, the
// slots that were set later replace the archived ones.
//
// Cost: as Archive of Buckets; 1 more for each document of a window that target
// holds already.
func (s *Slots[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, opts *BatchOptions) (RetentionResult, error) {
	return s.archive(ctx, before, target, opts, func(ctx context.Context, target *mongo.Collection, doc bson.Raw) error {
		slots := flatten(rawvalue.Lookup(doc, s.data), s.data, len(s.levels))
		if len(slots) == 0 {
			return nil
		}
		result, err := target.UpdateOne(ctx, s.itself(doc), bson.D{{Key: "$set", Value: slots}})
		if err == nil && result.MatchedCount != 1 {
			return fmt.Errorf("target holds the _id %s in another series or window", rawvalue.Text(doc.Lookup("_id")))
		}
		return err
	})
}

// flatten lists the values some levels down by their paths.
func flatten(value bson.RawValue, path string, levels int) bson.D {
	doc, ok := value.DocumentOK()
	if levels == 0 || !ok {
		return bson.D{{Key: path, Value: value}}
	}
	var out bson.D
	elements, _ := doc.Elements()
	for _, element := range elements {
		out = append(out, flatten(element.Value(), path+"."+element.Key(), levels-1)...)
	}
	return out
}
