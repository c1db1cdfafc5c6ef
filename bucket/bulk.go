package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// AppendResult counts measurements.
type AppendResult struct {
	Appended   int64 `json:"appended"`
	Duplicates int64 `json:"duplicates"` // already held, or twice in the input; not written
}

// Of returns measurements of one series as AppendMany takes them.
func Of[S, M any](series S, measurements ...M) iter.Seq2[S, M] {
	return func(yield func(S, M) bool) {
		for _, m := range measurements {
			if !yield(series, m) {
				return
			}
		}
	}
}

// AppendMany adds measurements of any series in any order. It reads
// BatchSize of them at a time, groups them by bucket and sends one unordered
// bulkWrite. On an error the result says what is stored nevertheless; with
// Options.IDField the same input can be given again. A measurement that cannot
// be stored stops it with an ErrInvalid that names its index in the input: the
// batches before its own are stored then, and nothing from its own on. nil is no
// measurements.
//
// Cost: 1 round trip and 1 document written per bucket for each batch, found by
// _id. A batch that meets buckets other writers filled, or partly filled ones
// that cannot take a whole group: 2 more (3 with IDField) for as often as that
// happens, at most Options.MaxRetries times. In a transaction: 2 round trips a
// batch (3 with IDField).
func (b *Buckets[S, M]) AppendMany(ctx context.Context, items iter.Seq2[S, M], opts *BatchOptions) (AppendResult, error) {
	var total AppendResult
	o, err := opts.withDefaults(defaultBatchSize)
	if err != nil {
		return total, fmt.Errorf("bucket: append many: %w", err)
	}
	flush := func(batch *batch) error {
		result, err := b.appendBatch(ctx, batch.list())
		total.Appended += result.Appended
		total.Duplicates += result.Duplicates
		if err == nil {
			o.Progress(total.Appended + total.Duplicates)
		}
		return err
	}
	var pending batch
	if items == nil {
		return total, nil
	}
	index := -1
	for series, m := range items {
		index++
		g, err := b.group(series, m)
		if err != nil {
			return total, fmt.Errorf("bucket: append many: item %d: %w", index, err)
		}
		if pending.add(g); pending.items < o.BatchSize {
			continue
		}
		if err := flush(&pending); err != nil {
			return total, fmt.Errorf("bucket: append many: %w", err)
		}
		pending = batch{}
	}
	if pending.items > 0 {
		if err := flush(&pending); err != nil {
			return total, fmt.Errorf("bucket: append many: %w", err)
		}
	}
	return total, nil
}

// A batch is measurements grouped by place, in the order of their first.
type batch struct {
	groups map[string]*group
	order  []string
	items  int
}

func (b *batch) add(g *group) {
	b.items += len(g.items)
	if have := b.groups[g.key]; have != nil {
		have.items = append(have.items, g.items...)
		return
	}
	if b.groups == nil {
		b.groups = map[string]*group{}
	}
	b.groups[g.key] = g
	b.order = append(b.order, g.key)
}

func (b *batch) list() []*group {
	out := make([]*group, len(b.order))
	for i, key := range b.order {
		out[i] = b.groups[key]
	}
	return out
}

// A part is what one update of a bulk write adds to one bucket.
type part struct {
	group *group
	items []item
	seq   int64
}

// appendBatch leaves the groups as they are, so that a transaction can call it
// again.
func (b *Buckets[S, M]) appendBatch(ctx context.Context, groups []*group) (AppendResult, error) {
	var result AppendResult
	inTransaction := txn.Running(ctx)
	pending := make([]*group, len(groups))
	for i, g := range groups {
		clone := *g
		clone.items = slices.Clone(g.items)
		clone.seq, clone.count, clone.size = b.seqs.get(g.key), 0, 0
		if b.opts.IDField != "" {
			result.Duplicates += int64(clone.dropRepeated())
		}
		pending[i] = &clone
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		if attempt > 0 || inTransaction {
			dropped, err := b.locateAll(ctx, pending)
			if err != nil {
				return result, err
			}
			result.Duplicates += int64(dropped)
		}
		var parts []part
		var models []mongo.WriteModel
		for _, g := range pending {
			for _, p := range b.split(g) {
				parts = append(parts, p)
				models = append(models, mongo.NewUpdateOneModel().SetUpsert(true).SetHint(byID).
					SetFilter(b.open(g.place, p.seq, p.items)).SetUpdate(b.push(g, p.items)))
			}
		}
		if len(models) == 0 {
			return result, nil
		}
		_, err := b.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		full, fatal := failures(err)
		if fatal != nil {
			places := bson.A{}
			for _, g := range pending {
				places = append(places, b.within(g.place))
			}
			fatal = b.blame(ctx, bson.D{{Key: "$or", Value: places}}, fatal)
		}
		if fatal != nil && full == nil {
			return result, fatal // what was written is unknown
		}
		var again batch
		for i, p := range parts {
			switch {
			case !full[i]:
				result.Appended += int64(len(p.items))
				if !inTransaction {
					b.seqs.raise(p.group.key, p.seq)
				}
			default:
				again.add(&group{place: p.group.place, created: p.group.created, items: p.items})
			}
		}
		switch {
		case fatal != nil:
			return result, fatal
		case err != nil && inTransaction:
			return result, err
		case err != nil && attempt >= b.opts.MaxRetries:
			return result, fmt.Errorf("%w: %w", ErrContended, err)
		}
		pending = again.list()
	}
	return result, nil
}

// failures tells which updates of a bulk write failed. fatal is an error other
// than duplicate keys; full is nil if the single outcomes are not known.
func failures(err error) (full map[int]bool, fatal error) {
	if err == nil {
		return nil, nil
	}
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) {
		return nil, err
	}
	full = map[int]bool{}
	for _, write := range bulk.WriteErrors {
		full[write.Index] = true
		if !mongo.IsDuplicateKeyError(write.WriteError) {
			fatal = err
		}
	}
	if bulk.WriteConcernError != nil {
		fatal = err
	}
	return full, fatal
}

// split cuts a group into what fits its bucket and the ones that follow.
func (b *Buckets[S, M]) split(g *group) []part {
	var parts []part
	seq, count, size := g.seq, g.count, g.size
	first := 0
	for i, it := range g.items {
		count++
		size += int64(len(it.raw))
		if count > int64(b.opts.MaxCount) || b.opts.MaxBytes > 0 && size > int64(b.opts.MaxBytes) {
			if i > first {
				parts = append(parts, part{group: g, items: g.items[first:i], seq: seq})
			}
			first, seq, count, size = i, seq+1, 1, int64(len(it.raw))
		}
	}
	if first < len(g.items) {
		parts = append(parts, part{group: g, items: g.items[first:], seq: seq})
	}
	return parts
}

// dropRepeated drops measurements whose ID came before in the group.
func (g *group) dropRepeated() (dropped int) {
	seen := map[string]bool{}
	kept := g.items[:0]
	for _, it := range g.items {
		key := rawvalue.Key(it.id)
		if seen[key] {
			dropped++
			continue
		}
		seen[key] = true
		kept = append(kept, it)
	}
	g.items = kept
	return dropped
}

// locateAll is locate for many groups.
func (b *Buckets[S, M]) locateAll(ctx context.Context, groups []*group) (dropped int, err error) {
	byKey := map[string]*group{}
	var places, withIDs bson.A
	var all []item
	for _, g := range groups {
		byKey[g.key] = g
		g.seq, g.count, g.size = 0, 0, 0
		places = append(places, append(b.within(g.place),
			bson.E{Key: "_id." + seqKey, Value: bson.D{{Key: "$gte", Value: 0}}}))
		withIDs = append(withIDs, append(b.within(g.place),
			bson.E{Key: b.idPath(), Value: bson.D{{Key: "$in", Value: ids(g.items)}}}))
		all = append(all, g.items...)
	}
	if b.opts.IDField != "" {
		held, err := b.held(ctx, bson.D{{Key: "$or", Value: withIDs}}, all)
		if err != nil {
			return 0, err
		}
		for key, ids := range held {
			if g := byKey[key]; g != nil {
				dropped += g.drop(ids)
			}
		}
	}
	// The newest bucket of each place; a document compares by its number first.
	newest := bson.D{{Key: seqKey, Value: "$_id." + seqKey}, {Key: b.opts.CountField, Value: "$" + b.opts.CountField}}
	if b.opts.BytesField != "" {
		newest = append(newest, bson.E{Key: b.opts.BytesField, Value: "$" + b.opts.BytesField})
	}
	cursor, err := b.primary.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "$or", Value: places}}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "s", Value: "$" + b.series}, {Key: "w", Value: "$" + b.start}}},
			{Key: "newest", Value: bson.D{{Key: "$max", Value: newest}}},
		}}},
	}, options.Aggregate().SetBatchSize(cursorBatch(len(groups), 1)))
	if err != nil {
		return dropped, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		id := cursor.Current.Lookup("_id").Document()
		g := byKey[placeKey(id.Lookup("s"), dateOf(id.Lookup("w")))]
		if g == nil || len(g.items) == 0 {
			continue
		}
		fill := cursor.Current.Lookup("newest").Document()
		seq, _ := fill.Lookup(seqKey).AsInt64OK()
		b.goOn(g, seq, fill)
	}
	return dropped, cursor.Err()
}
