package slots

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Set stores m in the slot that holds t and replaces the measurement there. It can be repeated.
//
// Cost: 1 round trip, 1 document written, index {series, start}, 1 key. 1 more if another writer makes the
// document at the same moment.
func (s *Slots[ID, M]) Set(ctx context.Context, series ID, t time.Time, m M) (err error) {
	ctx = comment.Call(ctx, "slots.Set")
	defer fault.In(&err, "slots.Set")
	one := &batch{core: s.core}
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
	return s.core.frame.Many(ctx, windows.Untyped(slots, func(slot Slot[M]) any { return Slot[any]{slot.Time, slot.Value} }), work, s.core.begin)
}

// A batch holds encoded slots by document, until they are stored.
type batch struct {
	core   *grid
	groups windows.Groups[waiting]
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

func (g *grid) begin() windows.Batch { return &batch{core: g} }

func (b *batch) Size() (count, bytes int) { return b.groups.Count, b.groups.Bytes }

// Add encodes a slot once and puts it into the group of its window.
func (b *batch) Add(series, v any) error {
	slot := v.(Slot[any])
	if err := windows.CheckTime(slot.Time); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	raw, err := b.core.frame.Codec.Value(slot.Value)
	if err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	if raw.Type == bson.TypeNull {
		return fault.Invalid("slot: the value is null")
	}
	g, err := b.groups.GroupOf(&b.core.frame, series, slot.Time.UnixMilli())
	if err != nil {
		return err
	}
	if g.Content.items == nil {
		if g.Content.created, err = b.core.frame.Created(g.Place, series, b.core.metadata); err != nil {
			return err
		}
	}
	if size := len(g.Content.created) + len(raw.Value); size > windows.MaxBytes {
		return fault.Invalid("slot: it has %d bytes with Metadata, more than fits into a document", size)
	}
	g.Content.items = append(g.Content.items, item{b.core.path(slot.Time), raw})
	b.groups.Count, b.groups.Bytes = b.groups.Count+1, b.groups.Bytes+len(raw.Value)
	return nil
}

// Store sends the slots of each document, and sends them again if another writer has created the document
// at the same moment.
//
// Cost: that of a batch of SetMany.
func (b *batch) Store(ctx context.Context) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	left := slices.DeleteFunc(slices.Clone(b.groups.All), func(g *group) bool { return g.Content.items == nil }) // nil if its Metadata was refused
	for attempt := 0; len(left) > 0; attempt++ {
		again, taken, err := b.core.send(ctx, left, &r)
		if err != nil {
			return r, err
		}
		if len(again) > 0 {
			if err := b.core.frame.CheckRetry(ctx, attempt, taken); err != nil {
				return r, err
			}
		}
		left = again
	}
	return r, maintain.First(&r)
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
	outcomes, err := g.frame.Send(ctx, upserts)
	for i, o := range outcomes {
		rows := len(groups[i].Content.items)
		switch o.Fate {
		case windows.Written:
			r.Done += int64(rows)
		case windows.Unanswered:
			r.Unknown += int64(rows)
		case windows.Taken:
			again, taken = append(again, groups[i]), o.Err
		case windows.Unkeyed: // the collection is sharded by another key
			err = cmp.Or(err, fault.Of(upserts[i].ID(), o.Err))
			g.frame.CountRefused(r, upserts[i].ID(), rows, o.Err)
		case windows.TooLarge: // a slot has only one place
			if txn.Running(ctx) { // which the answer has ended
				err = cmp.Or(err, fault.Of(upserts[i].ID(), o.Err))
			}
			g.frame.CountRefused(r, upserts[i].ID(), rows, o.Err)
		case windows.Refused:
			g.frame.CountRefused(r, upserts[i].ID(), rows, o.Err)
		}
	}
	return again, taken, err
}

// upsert is the upsert of a group's document. It selects as PlaceFilterNoArrays does, so that documents with any
// _id match; a new document gets an _id that prevents a second writer from creating another. If a slot
// comes several times it stores the last item.
func (g *grid) upsert(d *group) windows.Upsert {
	filter, update, last := codec.Build(128), codec.Build(256), map[string]int{}
	g.frame.AddPlaceNoArrays(filter, d.Place)
	for i, it := range d.Content.items {
		last[it.path] = i
	}
	update.Open("$set")
	for i, it := range d.Content.items {
		if last[it.path] == i {
			update.Value(it.path, it.raw)
		}
	}
	update.Close()
	update.Open("$setOnInsert")
	update.Open("_id")
	update.Value(g.frame.SeriesField, d.Place.Series)
	update.Date(g.frame.StartField, d.Place.Start)
	update.Close()
	fields, _ := d.Content.created.Elements()
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
	p, err := g.frame.Place(series, t)
	if err != nil {
		return err
	}
	path := g.path(t)
	result, err := fault.One(g.frame.Coll.UpdateOne(ctx, append(g.frame.PlaceFilterNoArrays(p), expr.Element(path, expr.Op("$exists", true))),
		expr.Op("$unset", expr.D(path, ""))))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.Named(t.UnixMilli(), "", err)
}
