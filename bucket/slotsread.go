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
	g := s.core
	return fault.Seq("bucket: range", func(yield func(Slot[M], error) bool) {
		raw, err := g.seriesOf(series)
		if err != nil {
			yield(Slot[M]{}, err)
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
			var out []Slot[M]
			if err == nil {
				slots, err = g.slotsIn(doc, first, last)
			}
			if err == nil {
				out, err = slotsOf[M](g, slots)
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
		if !found {
			if err := g.misfiled(ctx, raw); err != nil {
				yield(Slot[M]{}, err)
			}
		}
	})
}

// Projection is what Range reads of the documents that Filter selects: the
// slots themselves if from and to lie in one window, else all.
func (s *Slots[S, M]) Projection(from, to time.Time) bson.D { return s.core.projection(from, to) }

func (g *grid) projection(from, to time.Time) bson.D {
	projection := bson.D{{Key: "_id", Value: 0}, {Key: g.start, Value: 1}}
	whole := append(projection, bson.E{Key: g.data, Value: 1})
	start, end := g.window.Bounds(from)
	if from.IsZero() || to.IsZero() || to.After(end) {
		return whole
	}
	slot := g.levels[len(g.levels)-1]
	up := func(t time.Time) time.Duration { return (t.Sub(start) + slot - 1) / slot * slot }
	for at, last := up(from), up(to); at < last; {
		depth := 0 // the largest unit that begins here and ends in time
		for depth < len(g.levels)-1 && (at%g.levels[depth] != 0 || at+g.levels[depth] > last) {
			depth++
		}
		if len(projection) > maxPaths {
			return whole
		}
		projection = append(projection, bson.E{Key: g.data + keys(at, g.levels[:depth+1]), Value: 1})
		at += g.levels[depth]
	}
	return projection
}

// A rawSlot is a slot as it is stored. What has a key that is no number, which is nothing
// this package wrote, has no time.
type rawSlot struct {
	path  string
	at    int64
	timed bool
	raw   bson.RawValue
}

// walk lists the slots of a document.
func (g *grid) walk(doc bson.Raw) (out []rawSlot) {
	var add func(slot rawSlot, levels []time.Duration)
	add = func(slot rawSlot, levels []time.Duration) {
		inner, ok := slot.raw.DocumentOK()
		if len(levels) == 0 || !ok {
			slot.timed = slot.timed && len(levels) == 0 && slot.raw.Type != bson.TypeNull
			out = append(out, slot)
			return
		}
		elements, _ := inner.Elements()
		for _, e := range elements {
			n, err := strconv.ParseInt(e.Key(), 10, 64)
			add(rawSlot{slot.path + "." + e.Key(), slot.at + n*levels[0].Milliseconds(), slot.timed && err == nil, e.Value()}, levels[1:])
		}
	}
	start, _ := value.Lookup(doc, g.start).DateTimeOK()
	if data := value.Lookup(doc, g.data); data.Type != 0 {
		add(rawSlot{g.data, start, true, data}, g.levels)
	}
	return out
}

// slotsIn are the slots of a document from first until before last, in order.
func (g *grid) slotsIn(doc bson.Raw, first, last int64) ([]rawSlot, error) {
	if start := value.Lookup(doc, g.start); start.Type != bson.TypeDateTime {
		return nil, g.noDate(start)
	}
	slots := slices.DeleteFunc(g.walk(doc), func(s rawSlot) bool { return !s.timed || s.at < first || s.at >= last })
	slices.SortFunc(slots, func(a, b rawSlot) int { return cmp.Compare(a.at, b.at) })
	return slots, nil
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
		slots, err := g.slotsIn(newest, math.MinInt64, math.MaxInt64)
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
