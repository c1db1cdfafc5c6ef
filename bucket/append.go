package bucket

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Append adds one measurement to the window that holds its time, however late it comes, and starts a
// further bucket if the current one is full. With Options.IDField a repeated measurement is not stored
// again, and stored is false. Without it, repeating an Append whose outcome is unknown may store the
// measurement twice.
//
// Cost: 1 round trip, 1 document written, index _id.
//   - When other writers filled the bucket, or this one has not written to the window yet and its first is full: 2
//     more.
//   - In a transaction: 2.
func (b *Buckets[ID, M]) Append(ctx context.Context, series ID, m M) (stored bool, err error) {
	ctx = comment.Call(ctx, "bucket.Append")
	defer fault.In(&err, "bucket.Append")
	one := &batch{core: b.core}
	if err := one.Add(series, m); err != nil {
		return false, err
	}
	result, err := one.Store(ctx)
	return result.Done > 0, err
}

// AppendMany adds measurements of any series in any order. It takes Work.BatchSize of them at a time
// (10,000 by default, at most Work.BatchBytes), groups them by bucket and sends one unordered bulk write. A
// nil items adds nothing.
//
// Skipped ones were stored already, or came twice in a batch (Options.IDField). At most one batch is
// Unknown. If the server refused some (Failed), AppendMany returns an error at its end. Measurements
// that the Result does not count were not stored, even after an error. A measurement that is not
// valid ends the call, after those before it are stored, with an ErrInvalid that names its index.
// With IDField the same input can be given again. Without it, Unknown ones may then be stored twice.
//
// Cost: 1 round trip for each batch, and 1 document written for each bucket in it, index _id.
//   - Each time that it meets buckets which cannot take a whole group: 2 more.
//   - In a transaction: 2 for each batch.
func (b *Buckets[ID, M]) AppendMany(ctx context.Context, items iter.Seq2[ID, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "bucket.AppendMany")
	defer fault.In(&err, "bucket.AppendMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return b.core.frame.Many(ctx, windows.Untyped(items, func(m M) any { return m }), work, b.core.begin)
}

// A batch holds encoded measurements by window, until they are stored.
type batch struct {
	core   *arrays
	groups windows.Groups[waiting]
	slab   []timeseries.Number // for the next items
}

type group = windows.Group[waiting]

// waiting has the measurements that wait to be stored in a window's buckets.
type waiting struct {
	created   bson.Raw // further fields of a new bucket
	items     []item
	room      room  // the bucket to write to, guessed or looked up
	fullBelow int64 // buckets with a lower number are full
}

func (c *arrays) begin() windows.Batch { return &batch{core: c} }

func (b *batch) Size() (count, bytes int) { return b.groups.Count, b.groups.Bytes }

// Add encodes a measurement once and puts it into the group of its window.
func (b *batch) Add(series, m any) error {
	it, err := b.core.item(b, m)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := b.groups.GroupOf(&b.core.frame, series, it.time)
	if err != nil {
		return err
	}
	if g.Content.items == nil {
		if g.Content.created, err = b.core.frame.Created(g.Place, series, b.core.opts.Metadata); err != nil {
			return err
		}
	}
	if size := len(g.Content.created) + len(it.raw.Value); size > windows.MaxBytes {
		return fault.Invalid("measurement: it has %d bytes with Metadata, more than fits into a document", size)
	}
	g.Content.items = append(g.Content.items, it)
	b.groups.Count, b.groups.Bytes = b.groups.Count+1, b.groups.Bytes+len(it.raw.Value)
	return nil
}

// Store sends the batch, and sends items again whose bucket was full. It does not change the groups, so
// that a transaction can call it again.
//
// Cost: that of a batch of AppendMany.
func (b *batch) Store(ctx context.Context) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	var groups []*group
	for _, g := range b.groups.All {
		if clone := *g; g.Content.items != nil { // nil if its Metadata was refused
			groups = append(groups, &clone)
		}
	}
	for attempt := 0; ; attempt++ {
		r.Skipped += int64(b.core.guessRooms(groups))
		if txn.Running(ctx) || attempt > 0 {
			dropped, err := b.core.lookUpRooms(ctx, groups)
			r.Skipped += int64(dropped)
			if err != nil {
				return r, err
			}
		}
		parts := b.core.cut(groups)
		if len(parts) == 0 {
			return r, maintain.First(&r)
		}
		full, err := b.core.send(ctx, parts, &r)
		if err != nil {
			return r, err
		}
		if full == nil {
			return r, maintain.First(&r)
		}
		if err := b.core.frame.CheckRetry(ctx, attempt, full); err != nil {
			return r, err
		}
	}
}

// send sends parts once and counts them. Items whose bucket was full are in their group again; full is the server's
// reason, nil if there are none.
//
// Cost: 1 round trip.
func (c *arrays) send(ctx context.Context, parts []part, r *mongopatterns.Result) (full, err error) {
	upserts := make([]windows.Upsert, len(parts))
	for i, p := range parts {
		upserts[i] = windows.Upsert{Filter: c.roomFor(p), Update: c.update(p)}
	}
	outcomes, err := c.frame.Send(ctx, upserts)
	for i, o := range outcomes {
		p, g := parts[i], parts[i].group
		switch o.Fate {
		case windows.Written:
			r.Done += int64(len(p.items))
			if !txn.Running(ctx) { // a transaction may be undone
				c.known.Change(g.Place.Key, func(r room) room { return r.later(p.after) })
			}
		case windows.Unanswered:
			r.Unknown += int64(len(p.items))
		case windows.Taken: // another writer has made or filled the bucket
			full = o.Err
			g.Content.items = append(g.Content.items, p.items...)
		case windows.TooLarge: // the bucket is full although the count allows more, also for other transactions
			full = o.Err
			g.Content.items = append(g.Content.items, p.items...)
			g.Content.fullBelow = c.known.Change(g.Place.Key, func(r room) room { return r.later(room{seq: p.after.seq + 1}) }).seq
		case windows.Unkeyed: // the collection is sharded by another key
			err = cmp.Or(err, o.Err)
			c.frame.CountRefused(r, upserts[i].ID(), len(p.items), o.Err)
		case windows.Refused:
			c.frame.CountRefused(r, upserts[i].ID(), len(p.items), o.Err)
		}
	}
	return full, err
}
