package bucket

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// maxPaths is the longest projection of single slots; beyond it whole documents
// are read.
const maxPaths = 500

// Get returns the measurement in the slot that holds t; ErrNotFound if it is
// empty. Only the slot leaves the server.
//
// Cost: 1 round trip; index {series, start}, 1 key. No document of the window: 1
// more, which tells it from times that are stored as strings.
func (s *Slots[S, M]) Get(ctx context.Context, series S, t time.Time) (m M, err error) {
	defer fault.In(&err, "bucket: get")
	g := s.core
	raw, err := g.seriesOf(series)
	if err != nil {
		return m, err
	}
	doc, err := first(find(ctx, g.coll, g.within(g.placeOf(raw, t)), options.Find().SetLimit(1).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "m", Value: expr.Field(g.path(t))}})))
	v := value.Lookup(doc, "m")
	if err == nil && doc == nil {
		err = g.misfiled(ctx, raw)
	}
	if err == nil && (v.Type == 0 || v.Type == bson.TypeNull) {
		err = mongopatterns.ErrNotFound
	}
	if err != nil {
		return m, slotError(raw, t, err)
	}
	return codec.DecodeValue[M](g.codec, v)
}

// misfiled is the error of a series whose times are strings: no range of dates finds
// them.
func (g *grid) misfiled(ctx context.Context, series bson.RawValue) error {
	doc, err := first(find(ctx, g.coll, bson.D{{Key: g.series, Value: value.Equal(series)}, {Key: g.start, Value: bson.D{{Key: "$type", Value: "string"}}}},
		options.Find().SetLimit(1).SetProjection(bson.D{{Key: g.start, Value: 1}})))
	if err != nil || doc == nil {
		return err
	}
	return fault.Of(doc.Lookup("_id"), g.noDate(value.Lookup(doc, g.start)))
}

func (g *grid) noDate(start bson.RawValue) error {
	return fmt.Errorf("%s is %s, not a date (Adopt converts strings)", g.start, value.Text(start))
}

// Range returns the slots of series that begin from from until before to, in
// order. A zero time is no limit. Of a range within one window only its slots
// leave the server; of a longer one whole windows do.
//
// Cost: 1 round trip, further ones for what exceeds the server's first batch
// (101 documents or 16 MiB); index {series, start}, no sort on the server; 1 key
// and 1 document per window. No document: 1 more, as for Get.
func (s *Slots[S, M]) Range(ctx context.Context, series S, from, to time.Time) iter.Seq2[Slot[M], error] {
	return fault.Seq("bucket: range", func(yield func(Slot[M], error) bool) {
		for slots, err := range s.core.slots(ctx, series, from, to) {
			var out []Slot[M]
			if err == nil {
				out, err = slotsOf[M](s.core, slots)
			}
			if err != nil {
				yield(Slot[M]{}, err)
				return
			}
			for _, slot := range out {
				if !yield(slot, nil) {
					return
				}
			}
		}
	})
}

// A rawSlot is a slot as it is stored.
type rawSlot struct {
	at  int64
	raw bson.RawValue
}

// slotsOf decodes slots of one document.
func slotsOf[M any](g *grid, slots []rawSlot) ([]Slot[M], error) {
	all, err := codec.DecodeValue[[]M](g.codec, arrayOf(len(slots), func(i int) bson.RawValue { return slots[i].raw }))
	out := make([]Slot[M], len(all))
	for i, m := range all {
		out[i] = Slot[M]{Time: time.UnixMilli(slots[i].at).UTC(), Value: m}
	}
	if err != nil {
		err = fmt.Errorf("slots from %s on: %w", time.UnixMilli(slots[0].at).UTC().Format(time.RFC3339), err)
	}
	return out, err
}

// slots reads a range, document by document.
func (g *grid) slots(ctx context.Context, series any, from, to time.Time) iter.Seq2[[]rawSlot, error] {
	return func(yield func([]rawSlot, error) bool) {
		raw, err := g.seriesOf(series)
		if err != nil {
			yield(nil, err)
			return
		}
		first, last := int64(math.MinInt64), int64(math.MaxInt64)
		if !from.IsZero() {
			first = ceil(from).UnixMilli()
		}
		if !to.IsZero() {
			last = ceil(to).UnixMilli()
		}
		found := false
		for doc, err := range find(ctx, g.coll, g.filter(raw, from, to), options.Find().
			SetSort(bson.D{{Key: g.start, Value: 1}}).SetProjection(g.projection(from, to))) {
			found = true
			var slots []rawSlot
			if err == nil {
				slots, err = g.slotsIn(doc)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			slots = slices.DeleteFunc(slots, func(s rawSlot) bool { return s.at < first || s.at >= last })
			if len(slots) > 0 && !yield(slots, nil) {
				return
			}
		}
		if !found {
			if err := g.misfiled(ctx, raw); err != nil {
				yield(nil, err)
			}
		}
	}
}

// Projection is what Range reads of the documents that Filter selects: the
// slots themselves if from and to lie in one window, else all.
func (s *Slots[S, M]) Projection(from, to time.Time) bson.D { return s.core.projection(from, to) }

func (g *grid) projection(from, to time.Time) bson.D {
	projection := bson.D{{Key: "_id", Value: 0}, {Key: g.start, Value: 1}}
	whole := append(projection, bson.E{Key: g.data, Value: 1})
	if from.IsZero() || to.IsZero() {
		return whole
	}
	start, end := g.window.Bounds(from)
	if to.After(end) {
		return whole
	}
	slot := g.levels[len(g.levels)-1]
	up := func(t time.Time) time.Duration { return (t.Sub(start) + slot - 1) / slot * slot }
	var paths []string
	var add func(level int, prefix string, from, to time.Duration)
	add = func(level int, prefix string, from, to time.Duration) {
		unit := g.levels[level]
		for k := from / unit; k*unit < to && len(paths) <= maxPaths; k++ {
			path := prefix + "." + strconv.FormatInt(int64(k), 10)
			first, last := max(from, k*unit), min(to, (k+1)*unit)
			if last-first == unit {
				paths = append(paths, path)
			} else {
				add(level+1, path, first-k*unit, last-k*unit)
			}
		}
	}
	if add(0, g.data, up(from), up(to)); len(paths) > maxPaths {
		return whole
	}
	for _, path := range paths {
		projection = append(projection, bson.E{Key: path, Value: 1})
	}
	return projection
}

// slotsIn lists the slots of a document in order. Keys that are no numbers are
// nothing this package wrote.
func (g *grid) slotsIn(doc bson.Raw) ([]rawSlot, error) {
	start := value.Lookup(doc, g.start)
	if start.Type != bson.TypeDateTime {
		return nil, g.noDate(start)
	}
	var found []rawSlot
	var add func(v bson.RawValue, at int64, levels []time.Duration)
	add = func(v bson.RawValue, at int64, levels []time.Duration) {
		if len(levels) == 0 {
			if v.Type != bson.TypeNull {
				found = append(found, rawSlot{at, v})
			}
			return
		}
		inner, _ := v.DocumentOK()
		elements, _ := inner.Elements()
		for _, e := range elements {
			if n, err := strconv.ParseInt(e.Key(), 10, 64); err == nil {
				add(e.Value(), at+n*levels[0].Milliseconds(), levels[1:])
			}
		}
	}
	add(value.Lookup(doc, g.data), start.DateTime(), g.levels)
	slices.SortFunc(found, func(a, b rawSlot) int { return cmp.Compare(a.at, b.at) })
	return found, nil
}

// Latest returns the slot of series with the latest time; ErrNotFound if there
// is none.
//
// Cost: 1 round trip; index {series, start}, 1 key; one more for each newest
// window that Delete has emptied.
func (s *Slots[S, M]) Latest(ctx context.Context, series S) (slot Slot[M], err error) {
	defer fault.In(&err, "bucket: latest")
	g := s.core
	raw, err := g.seriesOf(series)
	if err != nil {
		return slot, err
	}
	for before := (time.Time{}); ; {
		newest, err := first(find(ctx, g.coll, g.filter(raw, time.Time{}, before), options.Find().SetLimit(1).
			SetSort(bson.D{{Key: g.start, Value: -1}}).SetProjection(g.projection(time.Time{}, time.Time{}))))
		if err == nil && newest == nil {
			err = mongopatterns.ErrNotFound
		}
		if err != nil {
			return slot, err
		}
		slots, err := g.slotsIn(newest)
		if err != nil {
			return slot, err
		}
		if n := len(slots); n > 0 {
			last, err := slotsOf[M](g, slots[n-1:])
			return append(last, slot)[0], err
		}
		before = dateOf(value.Lookup(newest, g.start))
	}
}

// Aggregate returns the aggregates of the number at path field inside the
// measurements of a range, or with field "" of measurements that are numbers.
// Slots without a finite number there are left out. Nothing is stored for it: the
// client reads the range, which takes no longer than taking it apart on the server.
//
// Cost: as Range.
func (s *Slots[S, M]) Aggregate(ctx context.Context, series S, from, to time.Time, field string) (stats ValueStats, err error) {
	defer fault.In(&err, "bucket: aggregate")
	t := tally{limit: math.MaxInt64 >> 20, moments: true}
	for slots, err := range s.core.slots(ctx, series, from, to) {
		if err != nil {
			return stats, err
		}
		for _, slot := range slots {
			v := slot.raw
			if inner, ok := v.DocumentOK(); ok && field != "" {
				v = value.Lookup(inner, field)
			}
			if n, ok := finite(v); ok {
				t.add(bson.DateTime(slot.at), n)
			}
		}
	}
	return t.stats(), nil
}
