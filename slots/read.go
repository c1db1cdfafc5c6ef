package slots

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Get returns the measurement in the slot that holds t, or ErrNotFound if it is empty. The server sends
// only the slot. If the series has documents whose start is a string, the error says so; then run Adopt.
//
// Cost: 1 round trip, index {series, start}, 1 key. No document: 1 more, to look for times that are stored as
// strings.
func (s *Slots[ID, M]) Get(ctx context.Context, series ID, t time.Time) (m M, err error) {
	ctx = comment.Call(ctx, "slots.Get")
	defer fault.In(&err, "slots.Get")
	g := s.core
	p, err := g.frame.Place(series, t)
	if err != nil {
		return m, err
	}
	doc, err := windows.First(cursor.Find(ctx, g.frame.Coll, g.frame.PlaceFilterNoArrays(p), options.Find().SetLimit(1).
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
	m, err = codec.DecodeValue[M](g.frame.Codec, v)
	return m, p.Named(t.UnixMilli(), "", err)
}

// misfiled returns the error of CheckStart if starts of the series are strings, which no range of dates finds,
// otherwise ErrNotFound.
func (g *grid) misfiled(ctx context.Context, series bson.RawValue) error {
	filter := expr.D(g.frame.SeriesField, value.Equal(series), g.frame.StartField, expr.Op("$type", "string"))
	doc, err := windows.First(cursor.Find(ctx, g.frame.Coll, filter, options.Find().SetLimit(1).SetProjection(expr.D(g.frame.StartField, 1))))
	if err != nil {
		return err
	}
	return g.frame.CheckStart(doc)
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
	return fault.Seq("slots.Range", windows.InOrder(&g.frame, g.documents(ctx, series, from, to), g.entries, from, to, slotOf[M]))
}

func slotOf[M any](m M, e windows.Entry) Slot[M] {
	return Slot[M]{Time: time.UnixMilli(e.Time).UTC(), Value: m}
}

func (g *grid) documents(ctx context.Context, series any, from, to time.Time) iter.Seq2[bson.Raw, error] {
	raw, err := g.frame.SeriesOf(series)
	if err != nil {
		return fault.Stop[bson.Raw](err)
	}
	return func(yield func(bson.Raw, error) bool) {
		found := false
		for doc, err := range cursor.Find(ctx, g.frame.Coll, g.frame.RangeFilter(raw, from, to), options.Find().
			SetSort(expr.D(g.frame.StartField, 1)).SetProjection(g.projection(from, to))) {
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
	projection := expr.D("_id", 0, g.frame.StartField, 1)
	whole := append(projection, expr.Element(g.data, 1))
	if windows.CheckTime(from) != nil || windows.CheckTime(to) != nil {
		return whole
	}
	from, to = time.UnixMilli(from.UnixMilli()), time.UnixMilli(to.UnixMilli()) // as the times are stored
	start, end := g.frame.Window.Bounds(from)
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
		below(windows.Entry{Time: g.frame.StartOf(doc), Raw: data}, g.data, true, g.levels)
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
	raw, err := g.frame.SeriesOf(series)
	if err != nil {
		return slot, err
	}
	for before := (time.Time{}); ; {
		newest, err := windows.First(cursor.Find(ctx, g.frame.Coll, g.frame.RangeFilter(raw, time.Time{}, before), options.Find().SetLimit(1).
			SetSort(expr.D(g.frame.StartField, -1)).SetProjection(g.projection(time.Time{}, time.Time{}))))
		if err != nil {
			return slot, err
		}
		if err := g.frame.CheckStart(newest); err != nil {
			return slot, err
		}
		if all, _ := g.entries(newest); len(all) > 0 {
			last := slices.MaxFunc(all, func(a, b windows.Entry) int { return cmp.Compare(a.Time, b.Time) })
			m, err := codec.DecodeValue[M](g.frame.Codec, last.Raw)
			return slotOf(m, last), windows.Place{Series: raw}.Named(last.Time, "", err)
		}
		if before = time.UnixMilli(g.frame.StartOf(newest)); before.IsZero() { // the first window of all, and no limit to Filter
			return slot, mongopatterns.ErrNotFound
		}
	}
}
