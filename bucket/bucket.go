package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Buckets stores measurements M of series S in arrays, one document for a
// window of a series until it is full, then further ones. It is safe for
// concurrent use.
type Buckets[S, M any] struct {
	layout
	opts Options
	seqs sequences
}

// New returns Buckets over coll. It does no I/O.
//
// S is what tells series apart, a string, a number, an ObjectID or a small
// struct; M is a measurement, a struct, map or bson.D that encodes to a document
// with its time in it. opts may be nil. All that write one collection must use
// the same window and options.
func New[S, M any](coll *mongo.Collection, window Window, opts *Options) (*Buckets[S, M], error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	l, err := newLayout(coll, window, o.Registry)
	if err != nil {
		return nil, err
	}
	l.series, l.start, l.end, l.exclusiveEnd = o.SeriesField, o.StartField, o.EndField, o.ExclusiveEnd
	l.metadata, l.retentionIndex, l.guard = o.Metadata, o.RetentionIndex, o.CountField
	l.taken = []string{"_id", o.SeriesField, o.StartField, o.EndField, o.ArrayField, o.CountField, o.BytesField}
	for _, v := range o.Values {
		for _, path := range []string{v.Sum, v.Min, v.Max, v.First, v.Last, v.SumSquares, v.Count} {
			l.taken = append(l.taken, strings.Split(path, ".")[0])
		}
	}
	return &Buckets[S, M]{layout: l, opts: o}, nil
}

// Indexes returns the indexes Buckets uses besides _id: {series: 1, start: 1},
// which every read uses; with Options.IDField the unique {series: 1, start: 1,
// "measurements.id": 1} of buckets that hold an ID; with
// Options.RetentionIndex {start: 1}.
func (b *Buckets[S, M]) Indexes() []mongo.IndexModel {
	models := b.layout.indexes()
	if b.opts.IDField != "" {
		models = append(models, mongo.IndexModel{
			Keys: bson.D{{Key: b.series, Value: 1}, {Key: b.start, Value: 1}, {Key: b.idPath(), Value: 1}},
			Options: options.Index().SetUnique(true).
				SetPartialFilterExpression(bson.D{{Key: b.idPath(), Value: bson.D{{Key: "$exists", Value: true}}}}),
		})
	}
	return models
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if they are all there, else 2.
func (b *Buckets[S, M]) EnsureIndexes(ctx context.Context) error {
	return ensureIndexes(ctx, b.coll, b.Indexes())
}

func ensureIndexes(ctx context.Context, coll *mongo.Collection, models []mongo.IndexModel) error {
	if err := indexes.Ensure(ctx, coll, models); err != nil {
		return fmt.Errorf("bucket: %w", err)
	}
	return nil
}

// Filter selects the bucket documents that can hold measurements of series from
// from until before to; a zero time is no limit. It uses the index {series,
// start}.
func (b *Buckets[S, M]) Filter(series S, from, to time.Time) bson.D {
	return b.filter(series, from, to)
}

// idPath is the path of a measurement's ID from the bucket.
func (b *Buckets[S, M]) idPath() string { return b.opts.ArrayField + "." + b.opts.IDField }

// A layout is what the two ways to store a window have in common.
type layout struct {
	coll           *mongo.Collection
	primary        *mongo.Collection // for reads that a write depends on
	window         Window
	registry       *bson.Registry
	series         string
	start          string
	end            string
	exclusiveEnd   bool
	retentionIndex bool
	metadata       func(series any, start time.Time) bson.D
	taken          []string // names Metadata cannot use
	guard          string   // a field that every append changes
}

func newLayout(coll *mongo.Collection, window Window, registry *bson.Registry) (layout, error) {
	if coll == nil {
		return layout{}, errors.New("bucket: nil collection")
	}
	switch w := window.(type) {
	case nil:
		return layout{}, errors.New("bucket: nil window")
	case every:
		if err := w.check(); err != nil {
			return layout{}, fmt.Errorf("bucket: %w", err)
		}
	}
	return layout{
		coll:     coll,
		primary:  scan.Primary(coll),
		window:   window,
		registry: registry,
	}, nil
}

// ShardKey returns the recommended shard key, {series: 1, start: 1}. Every
// write of one document filters on it; every read of a series is targeted by
// its prefix.
func (l *layout) ShardKey() bson.D {
	return bson.D{{Key: l.series, Value: 1}, {Key: l.start, Value: 1}}
}

func (l *layout) indexes() []mongo.IndexModel {
	models := []mongo.IndexModel{{Keys: l.ShardKey()}}
	if l.retentionIndex {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: l.start, Value: 1}}})
	}
	return models
}

func (l *layout) filter(series any, from, to time.Time) bson.D {
	from, to = ceil(from), ceil(to)
	filter := bson.D{{Key: l.series, Value: l.equal(series)}}
	var starts bson.D
	if !from.IsZero() {
		first, _ := l.window.Bounds(from)
		starts = append(starts, bson.E{Key: "$gte", Value: first})
	}
	if !to.IsZero() {
		starts = append(starts, bson.E{Key: "$lt", Value: to})
	}
	if starts != nil {
		filter = append(filter, bson.E{Key: l.start, Value: starts})
	}
	return filter
}

func clamp(t time.Time) time.Time {
	switch {
	case t.Before(lowestLimit):
		return lowestLimit
	case t.After(highestLimit):
		return highestLimit
	}
	return t
}

// ceil clamps a limit and rounds it up to the milliseconds of stored times, so
// that comparing with it is exact.
func ceil(t time.Time) time.Time {
	t = clamp(t)
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// equal is the condition that a field equals value: the value itself, or {$eq:
// value} where the value would be read as an operator or a pattern; of the zero
// RawValue, that there is no such field. A value that cannot be encoded is left
// for the driver to refuse.
func (l *layout) equal(value any) any {
	if raw, ok := value.(bson.RawValue); ok && raw.Type == 0 {
		return bson.D{{Key: "$exists", Value: false}}
	}
	raw, err := l.value(value)
	if err != nil {
		return value
	}
	return rawvalue.Equal(raw)
}

// text is a value as messages show it.
func (l *layout) text(value any) string {
	raw, err := l.value(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return rawvalue.Text(raw)
}

// value and document encode with the user's registry.
func (l *layout) value(value any) (bson.RawValue, error) { return encode.Value(l.registry, value) }
func (l *layout) document(value any) (bson.Raw, error)   { return encode.Document(l.registry, value) }

// A place is a window of a series: where its documents are.
type place struct {
	series bson.RawValue
	start  time.Time
	end    time.Time
	key    string // of the maps that hold places
}

func (l *layout) place(series any, t time.Time) (place, error) {
	raw, err := l.value(series)
	if err != nil {
		return place{}, fmt.Errorf("series %v: %w: %w", series, ErrInvalid, err)
	}
	if err = checkSeries(raw); err == nil {
		err = checkTime(t)
	}
	if err != nil {
		return place{}, fmt.Errorf("series %s: %w", rawvalue.Text(raw), err)
	}
	start, end := l.window.Bounds(t)
	return place{series: raw, start: start, end: end, key: placeKey(raw, start)}, nil
}

// Times in the years 1 to 9999 can be stored, as all BSON libraries can read them;
// far beyond, a time.Time overflows a BSON date. Limits are brought to where that
// does not happen, far from all windows of such times.
var (
	beyondYears  = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	lowestLimit  = time.Date(-1e6, 1, 1, 0, 0, 0, 0, time.UTC)
	highestLimit = time.Date(1e6, 1, 1, 0, 0, 0, 0, time.UTC)
)

func checkTime(t time.Time) error {
	switch {
	case t.IsZero():
		return fmt.Errorf("%w: no time", ErrInvalid)
	case t.Before(time.Time{}) || !t.Before(beyondYears):
		return fmt.Errorf("%w: the time %v is not in the years 1 to 9999", ErrInvalid, t.UTC())
	}
	return nil
}

func checkSeries(value bson.RawValue) error {
	switch value.Type {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return fmt.Errorf("%w: the type %v cannot name a series", ErrInvalid, value.Type)
	case bson.TypeEmbeddedDocument:
		elements, _ := value.Document().Elements()
		for _, element := range elements {
			if strings.HasPrefix(element.Key(), "$") {
				return fmt.Errorf("%w: field %q", ErrInvalid, element.Key())
			}
		}
	}
	return nil
}

// placeKey is the same for series that are equal to the server.
func placeKey(series bson.RawValue, start time.Time) string {
	return fmt.Sprintf("%d %s", start.UnixMilli(), rawvalue.Key(series))
}

// id is the _id of a new document; n < 0 leaves out the number.
func (l *layout) id(p place, n int64) bson.D {
	id := bson.D{{Key: l.series, Value: p.series}, {Key: l.start, Value: p.start}}
	if n >= 0 {
		id = append(id, bson.E{Key: seqKey, Value: n})
	}
	return id
}

// created returns what the first write of a document sets besides its place.
func (l *layout) created(p place, series any) (bson.D, error) {
	var out bson.D
	if l.end != "" {
		out = append(out, bson.E{Key: l.end, Value: l.endOf(p.end)})
	}
	if l.metadata == nil {
		return out, nil
	}
	for _, field := range l.metadata(series, p.start) {
		for _, name := range l.taken {
			if name == strings.Split(field.Key, ".")[0] {
				return nil, fmt.Errorf("field %q of Metadata: %w: the name is taken", field.Key, ErrInvalid)
			}
		}
		out = append(out, field)
	}
	return out, nil
}

// endOf is what EndField holds for a window that ends at end.
func (l *layout) endOf(end time.Time) time.Time {
	if l.exclusiveEnd {
		return end
	}
	return end.Add(-time.Millisecond)
}

// sequences remembers in which bucket of a window to go on. A window it does
// not know begins at 0, which costs a failed write if that one is full, never
// correctness; so it may forget.
type sequences struct {
	mu   sync.Mutex
	next map[string]int64
}

const maxSequences = 10_000

func (s *sequences) get(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[key]
}

// raise remembers that buckets before n are full.
func (s *sequences) raise(key string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.next[key] {
		return
	}
	if s.next == nil {
		s.next = map[string]int64{}
	}
	if _, known := s.next[key]; !known && len(s.next) >= maxSequences {
		for other := range s.next {
			delete(s.next, other)
			break
		}
	}
	s.next[key] = n
}
