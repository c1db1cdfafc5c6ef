package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

const (
	// manyBatch is the default Work.BatchSize of AppendMany and SetMany: large, so that
	// a bucket is written once and not in every batch.
	manyBatch = 10_000
	// mostItems and mostBytes keep a batch within one message, which the server
	// answers as a whole: what a lost answer leaves unknown is one batch.
	mostItems = 100_000
	mostBytes = 24 << 20
	// partBytes is how much one update adds to a bucket without MaxBytes.
	partBytes = 8 << 20
)

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

// AppendMany adds measurements of any series in any order. It takes
// Work.BatchSize of them at a time, 10,000 by default and no more than
// Work.BatchBytes, groups them by bucket and sends one unordered bulk write. nil
// is no measurements.
//
// The Result tells the outcomes apart, also after an error: Done are stored,
// Skipped were held already (Options.IDField), Failed were refused, and of Unknown
// no answer came, which can be one batch. The rest of Examined, and what was not
// taken from items, is not stored. A measurement that cannot be stored ends the call
// with an ErrInvalid that names its index: exactly those before it are stored then.
// With IDField the same input can be given again; without, give what is not stored,
// and know that Unknown ones may come twice.
//
// Cost: 1 round trip a batch, and 1 document written for each bucket in it, found by
// _id. A batch that meets buckets other writers filled, or partly filled ones that
// cannot take a whole group: 2 more for as often as that happens. In a transaction:
// 2 round trips a batch.
func (b *Buckets[S, M]) AppendMany(ctx context.Context, items iter.Seq2[S, M], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: append many")
	return b.core.appendMany(ctx, untyped(items), work)
}

// untyped is a sequence for a core, empty for nil.
func untyped[S, M any](items iter.Seq2[S, M]) iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if items == nil {
			return
		}
		for series, m := range items {
			if !yield(series, m) {
				return
			}
		}
	}
}

// feed has add take the items one by one, and write send what was added, batch by
// batch. An item that is not valid ends it after those before it.
func (f *frame) feed(items iter.Seq2[any, any], work *mongopatterns.Work,
	add func(series, v any) (size int, err error),
	write func(dry bool) (mongopatterns.Result, error)) (mongopatterns.Result, error) {
	var total mongopatterns.Result
	w, err := maintain.Of(work, manyBatch)
	if err == nil && w.Filter != nil {
		err = fault.Invalid("Work.Filter: there are no documents to select")
	}
	if err != nil {
		return total, err
	}
	most, bytes := min(w.BatchSize, mostItems), min(w.BatchBytes, mostBytes)
	count, held := 0, 0
	flush := func() error {
		if count == 0 {
			return nil
		}
		result, err := write(w.DryRun)
		total.Add(result)
		if count, held = 0, 0; err == nil {
			w.Progress(total)
		}
		return err
	}
	index := 0
	for series, v := range items {
		size, err := add(series, v)
		total.Examined++
		if err != nil {
			if err := flush(); err != nil {
				return total, err
			}
			err = fmt.Errorf("item %d: %w", index, err)
			total.Fail(f.coll.Name(), bson.RawValue{}, err)
			return total, err
		}
		index++
		count++
		if held += size; count < most && held < bytes {
			continue
		}
		if err := flush(); err != nil {
			return total, err
		}
	}
	return total, flush()
}

// A batch is measurements grouped by place, in the order of their first.
type batch struct {
	groups []*group
	byKey  map[string]*group
	latest map[any]*group // by series that serve as keys, of their last measurement
}

// A group is measurements for one window of a series.
type group struct {
	place
	created bson.D
	items   []item // of arrays
	least   int64  // the buckets before are full

	// Where to go on, as far as known.
	seq         int64
	count, size int64

	slots bson.D         // of grids
	index map[string]int // of their paths
}

// group is where a measurement belongs. It finds the place, and encodes the series,
// once for as long as the measurements of a series stay in one window.
func (f *frame) group(b *batch, series any, t time.Time) (*group, error) {
	if err := checkTime(t); err != nil {
		return nil, err
	}
	known := fixed(series)
	var last *group
	if known {
		last = b.latest[series]
	}
	if last != nil && !t.Before(last.start) && t.Before(last.end) {
		return last, nil
	}
	var raw bson.RawValue
	var err error
	if last != nil {
		raw = last.series
	} else if raw, err = f.seriesOf(series); err != nil {
		return nil, err
	}
	p := f.placeOf(raw, t)
	g := b.byKey[p.key]
	if g == nil {
		g = &group{place: p, index: map[string]int{}}
		if g.created, err = f.created(p, series); err != nil {
			return nil, err
		}
		b.put(g)
	}
	if known {
		b.latest[series] = g
	}
	return g, nil
}

func (b *batch) put(g *group) {
	if b.byKey == nil {
		b.byKey, b.latest = map[string]*group{}, map[any]*group{}
	}
	b.byKey[g.key] = g
	b.groups = append(b.groups, g)
}

// again puts back items that are to be sent again.
func (b *batch) again(of *group, items []item) {
	g := b.byKey[of.key]
	if g == nil {
		g = &group{place: of.place, created: of.created}
		b.put(g)
	}
	g.least = of.least
	g.items = append(g.items, items...)
}

func (c *arrays) add(b *batch, series, m any) (int, error) {
	it, err := c.item(m)
	if err != nil {
		return 0, err
	}
	g, err := c.group(b, series, it.time.Time())
	if err != nil {
		return 0, err
	}
	g.items = append(g.items, it)
	return len(it.raw), nil
}

func (c *arrays) appendMany(ctx context.Context, items iter.Seq2[any, any], work *mongopatterns.Work) (mongopatterns.Result, error) {
	var pending batch
	return c.feed(items, work,
		func(series, m any) (int, error) { return c.add(&pending, series, m) },
		func(dry bool) (mongopatterns.Result, error) {
			groups := pending.groups
			pending = batch{}
			if dry {
				return mongopatterns.Result{Done: int64(count(groups))}, nil
			}
			return c.write(ctx, groups)
		})
}

func count(groups []*group) (n int) {
	for _, g := range groups {
		n += len(g.items)
	}
	return n
}

// write stores groups. It leaves them as they are, so that a transaction can call it
// again.
func (c *arrays) write(ctx context.Context, groups []*group) (mongopatterns.Result, error) {
	var result mongopatterns.Result
	joined := txn.Running(ctx)
	pending := make([]*group, len(groups))
	for i, g := range groups {
		clone := *g
		clone.least = c.seqs.get(g.key)
		clone.seq = clone.least
		if c.opts.IDField != "" {
			result.Skipped += int64(clone.drop(map[string]bool{}))
		}
		pending[i] = &clone
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		if attempt > 0 || joined {
			dropped, err := c.locate(ctx, pending)
			if err != nil {
				return result, err
			}
			result.Skipped += int64(dropped)
		}
		var all []statement
		for _, g := range pending {
			all = append(all, c.split(g)...)
		}
		if len(all) == 0 {
			return result, nil
		}
		var again batch
		repeat, fatal := c.send(ctx, all, &result, func(i int, err error) bool {
			s := all[i]
			switch {
			case err == nil:
				if !joined { // else it may be undone
					c.seqs.raise(s.group.key, s.seq)
				}
				return false
			case tooLarge(err):
				c.pass(s.group, s.seq)
			case !mongo.IsDuplicateKeyError(err):
				return false
			}
			again.again(s.group, s.parts)
			return true
		})
		switch {
		case fatal != nil:
			return result, fatal
		case joined && tooLarge(repeat):
			return result, txn.Conflict("a bucket is full: " + repeat.Error())
		case repeat != nil && (joined || attempt >= maxAttempts):
			return result, gaveUp(repeat)
		}
		pending = again.groups
	}
	return result, nil
}

// A statement is an update of a bulk write that stores some items in one document.
type statement struct {
	model *mongo.UpdateOneModel
	items int
	id    bson.D // of the document
	group *group // of arrays, with the number of the bucket and what it gets
	seq   int64
	parts []item
}

// send sends an unordered bulk write and counts what became of its items. settle is
// told of each statement that was answered, and says whether one that failed is to
// be sent again: repeat is the last error of those. fatal is any other error; what it
// did not refuse stays as counted.
func (f *frame) send(ctx context.Context, all []statement, r *mongopatterns.Result, settle func(i int, err error) bool) (repeat, fatal error) {
	if err := ctx.Err(); err != nil {
		return nil, err // before the driver, which would not say that nothing was sent
	}
	models := make([]mongo.WriteModel, len(all))
	for i, s := range all {
		models[i] = s.model
	}
	_, err := f.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if err != nil && !errors.As(err, &bulk) {
		for _, s := range all {
			r.Unknown += int64(s.items)
		}
		return nil, err
	}
	if bulk.WriteConcernError != nil {
		fatal = err
	}
	failed := map[int]bool{}
	for _, e := range bulk.WriteErrors {
		failed[e.Index] = true
		switch {
		case settle(e.Index, e):
			repeat = e
		default:
			fatal = err
			if id, invalid := f.codec.Value(all[e.Index].id); invalid == nil && fault.Refused(e) {
				r.Fail(f.coll.Name(), id, e)
				r.Failed += int64(all[e.Index].items - 1)
			}
		}
	}
	for i, s := range all {
		switch {
		case failed[i]:
		case bulk.WriteConcernError != nil: // it may be rolled back
			r.Unknown += int64(s.items)
		default:
			settle(i, nil)
			r.Done += int64(s.items)
		}
	}
	return repeat, fatal
}

// split cuts a group into what fits its bucket and the ones that follow.
func (c *arrays) split(g *group) (out []statement) {
	most, bytes := int64(c.opts.MaxCount), int64(cmp.Or(c.opts.MaxBytes, partBytes))
	seq, count, size, first := g.seq, g.count, int64(0), 0
	if c.opts.MaxBytes > 0 {
		size = g.size
	}
	cut := func(end int) {
		items := g.items[first:end]
		out = append(out, statement{items: len(items), id: c.bucketID(g.place, seq), group: g, seq: seq, parts: items,
			model: mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(c.open(g.place, seq, items)).SetUpdate(c.push(g, items))})
		seq, count, size, first = seq+1, 0, 0, end
	}
	for i, it := range g.items {
		if i > first && (count == most || size+int64(len(it.raw)) > bytes) {
			cut(i)
		}
		count++
		size += int64(len(it.raw))
	}
	if len(g.items) > 0 {
		cut(len(g.items))
	}
	return out
}
