package frame

import (
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
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// ManyBatch is the default Work.BatchSize: large, so that few batches write the same document.
	ManyBatch = 10_000
	// MostItems and MostBytes keep a batch within one message, which is answered as a whole.
	MostItems = 100_000
	MostBytes = 24 << 20
	// MaxAttempts is how often a write is tried again after somebody else came first.
	MaxAttempts = 16
)

// Of is measurements of one series.
func Of[S, M any](series S, measurements ...M) iter.Seq2[S, M] {
	return func(yield func(S, M) bool) {
		for _, m := range measurements {
			if !yield(series, m) {
				return
			}
		}
	}
}

// Untyped is a sequence for Many, empty for nil.
func Untyped[S, M any](items iter.Seq2[S, M], as func(M) any) iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if items == nil {
			return
		}
		for series, m := range items {
			if !yield(series, as(m)) {
				return
			}
		}
	}
}

// Groups are measurements by place, in the order of the first of each.
type Groups[G any] struct {
	All          []*Group[G]
	Count, Bytes int // of all measurements
	byKey        map[string]*Group[G]
	latest       map[any]*Group[G] // of a fixed series, that of its last measurement
}

// A Group is what goes to one place.
type Group[G any] struct {
	Place
	Of G
}

// Find finds or makes the group of a measurement. It finds the place, and encodes the series, once for as long as
// the measurements of a series stay in one window.
func (g *Groups[G]) Find(f *Frame, series any, ms int64) (group *Group[G], err error) {
	if err := CheckTime(time.UnixMilli(ms)); err != nil {
		return nil, err
	}
	known := value.Fixed(series)
	if known {
		group = g.latest[series]
	}
	if group != nil && ms >= group.Start && ms < group.End {
		return group, nil
	}
	var raw bson.RawValue
	if group != nil {
		raw = group.Series
	} else if raw, err = f.SeriesOf(series); err != nil {
		return nil, err
	}
	p := f.At(raw, ms)
	if group = g.byKey[p.Key]; group == nil {
		group = &Group[G]{Place: p}
		if g.byKey == nil {
			g.byKey, g.latest = map[string]*Group[G]{}, map[any]*Group[G]{}
		}
		g.byKey[p.Key], g.All = group, append(g.All, group)
	}
	if known {
		g.latest[series] = group
	}
	return group, nil
}

// A Batch is measurements that wait to be stored. Store can be called again after an error.
type Batch interface {
	Add(series, m any) error
	Size() (count, bytes int)
	Store(ctx context.Context) (mongopatterns.Result, error)
}

// Many stores measurements batch by batch. One that is not valid ends it after those before it.
func (f *Frame) Many(ctx context.Context, items iter.Seq2[any, any], work *mongopatterns.Work, begin func() Batch) (total mongopatterns.Result, err error) {
	defer fault.Part(&err, &total.Done, &total.Unknown)
	w, err := maintain.Of(work, ManyBatch)
	if err == nil && w.Filter != nil {
		err = fault.Invalid("Work.Filter: there are no documents to select")
	}
	if err != nil {
		return total, err
	}
	b := begin()
	flush := func() error {
		count, _ := b.Size()
		if count == 0 {
			return nil
		}
		result := mongopatterns.Result{Done: int64(count)}
		if !w.DryRun {
			result, err = b.Store(ctx)
		}
		total.Add(result)
		b = begin()
		if err == nil {
			w.Progress(total)
		}
		return err
	}
	for series, m := range items {
		invalid := b.Add(series, m)
		total.Examined++
		count, bytes := b.Size()
		if invalid == nil && count < min(w.BatchSize, MostItems) && bytes < min(w.BatchBytes, MostBytes) {
			continue
		}
		if err := flush(); err != nil {
			return total, err
		}
		if invalid != nil {
			invalid = fmt.Errorf("item %d: %w", total.Examined-1, invalid)
			total.Fail(f.Coll.Name(), bson.RawValue{}, invalid)
			return total, invalid
		}
	}
	return total, flush()
}

// A Statement is an upsert of a document that stores some measurements in it.
type Statement struct {
	Rows           int
	Filter, Update bson.Raw
}

// A Load is measurements on their way.
type Load interface {
	// Next are the statements for all that is not stored. With look it asks the server how full documents are,
	// and what they hold already: so many measurements are skipped.
	Next(ctx context.Context, look bool) (all []Statement, skipped int, err error)
	// Stored is told of a statement of Next that was executed; sure is false if that may be undone.
	Stored(i int, sure bool)
	// Again reports that a refused one is to be repeated after a look.
	Again(i int, err error) bool
}

// Write sends a load and counts what became of its measurements. What another writer came before is repeated,
// boundedly. Within a transaction, which a duplicate key would end, it looks first.
func (f *Frame) Write(ctx context.Context, load Load) (r mongopatterns.Result, err error) {
	defer fault.Part(&err, &r.Done, &r.Unknown)
	joined := txn.Running(ctx)
	for attempt := 0; ; attempt++ {
		all, skipped, err := load.Next(ctx, joined || attempt > 0)
		r.Skipped += int64(skipped)
		if err == nil {
			err = ctx.Err() // before the driver, which would not say that nothing was sent
		}
		if err != nil || len(all) == 0 {
			return r, err
		}
		repeat, err := f.send(ctx, all, load, !joined, &r)
		switch {
		case err != nil || repeat == nil:
			return r, err
		case !joined && attempt < MaxAttempts:
		case mongo.IsDuplicateKeyError(repeat):
			return r, fmt.Errorf("%w: %w", f.Contended, repeat)
		case joined: // in the next attempt it is known to be full
			return r, txn.Conflict("a document is full: " + repeat.Error())
		default:
			return r, repeat
		}
	}
}

// send sends one unordered bulk write. repeat is the last error of what is to be repeated, err any other.
func (f *Frame) send(ctx context.Context, all []Statement, load Load, sure bool, r *mongopatterns.Result) (repeat, err error) {
	models := make([]mongo.WriteModel, len(all))
	for i := range all {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(all[i].Filter).SetUpdate(all[i].Update)
	}
	_, sent := fault.Many(f.Coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	var answer mongo.BulkWriteException
	errs := map[int]error{}
	unknown := sent != nil && !errors.As(sent, &answer) || answer.WriteConcernError != nil // it may be rolled back
	if unknown {
		err = sent
	}
	for _, e := range answer.WriteErrors {
		errs[e.Index] = e
	}
	for i, s := range all {
		switch refused := errs[i]; {
		case refused == nil && unknown:
			r.Unknown += int64(s.Rows)
		case refused == nil:
			r.Done += int64(s.Rows)
			load.Stored(i, sure)
		case load.Again(i, refused):
			repeat = refused
		default:
			err = sent
			if fault.Refused(refused) {
				id := s.Filter.Lookup("_id")
				if id.Type == 0 {
					id = s.Update.Lookup("$setOnInsert", "_id")
				}
				r.Fail(f.Coll.Name(), id, refused)
				r.Failed += int64(s.Rows - 1)
			}
		}
	}
	return repeat, err
}
