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

// Untyped is a sequence for Many, empty for nil. Equal series are boxed once.
func Untyped[S, M any](items iter.Seq2[S, M], as func(M) any) iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if items == nil {
			return
		}
		boxes := map[any]any{}
		for series, m := range items {
			var boxed any
			if value.Fixed(series) {
				var known bool
				if boxed, known = boxes[series]; !known {
					boxed = series
					if len(boxes) >= mostKnown {
						clear(boxes)
					}
					boxes[boxed] = boxed
				}
			} else {
				boxed = series
			}
			if !yield(boxed, as(m)) {
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

// An Upsert is one of a document that stores some measurements in it.
type Upsert struct{ Filter, Update bson.Raw }

// A Fate is what became of an upsert.
type Fate int

// The fates of upserts.
const (
	Stored   Fate = iota
	Taken         // there is a document with its _id that its filter did not select: it is full, or holds the measurements
	TooLarge      // the document would exceed 16 MiB
	Unkeyed       // a router needs the shard key in the filter
	Refused       // the server refuses it, and would again
	Unsent        // it is not stored, and may be tried again
	Unknown       // no answer came: it may be stored
)

// An Outcome is a fate with the server's error.
type Outcome struct {
	Fate Fate
	Err  error
}

// Send sends upserts in one unordered bulk write and says what became of each. err is nil if each is Stored, Taken,
// TooLarge or Unkeyed.
//
// Cost: 1 round trip.
func (f *Frame) Send(ctx context.Context, all []Upsert) ([]Outcome, error) {
	if err := ctx.Err(); err != nil { // before the driver, which would not say that nothing was sent
		return nil, err
	}
	models := make([]mongo.WriteModel, len(all))
	for i, u := range all {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(u.Filter).SetUpdate(u.Update)
	}
	_, err := fault.Many(f.Coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	out := make([]Outcome, len(all))
	if err == nil {
		return out, nil
	}
	var answer mongo.BulkWriteException
	unknown := !errors.As(err, &answer) || answer.WriteConcernError != nil // it may be rolled back
	for i := range out {
		if unknown {
			out[i] = Outcome{Unknown, err}
		}
	}
	failed := unknown
	for _, e := range answer.WriteErrors {
		out[e.Index] = Outcome{fateOf(e), e}
		failed = failed || out[e.Index].Fate >= Refused
	}
	if !failed {
		err = nil
	}
	return out, err
}

func fateOf(e mongo.BulkWriteError) Fate {
	switch {
	case mongo.IsDuplicateKeyError(e):
		return Taken
	case e.HasErrorCode(17419) || e.HasErrorCode(17420) || e.HasErrorCode(10334):
		return TooLarge
	case e.HasErrorCode(61): // ShardKeyNotFound
		return Unkeyed
	case fault.Refused(e):
		return Refused
	}
	return Unsent
}

// Refuse counts the rows of an upsert that the server refuses, and names its document.
func (f *Frame) Refuse(r *mongopatterns.Result, u Upsert, rows int, err error) {
	id := u.Filter.Lookup("_id")
	if id.Type == 0 {
		id = u.Update.Lookup("$setOnInsert", "_id")
	}
	r.Fail(f.Coll.Name(), id, err)
	r.Failed += int64(rows - 1)
}

// Again says whether what was Taken may be sent again after so many attempts. Not within a transaction: the duplicate
// key has ended it, and its next run looks first.
func (f *Frame) Again(ctx context.Context, attempt int, taken error) error {
	switch {
	case txn.Running(ctx) && mongo.IsDuplicateKeyError(taken), attempt >= MaxAttempts && mongo.IsDuplicateKeyError(taken):
		return fmt.Errorf("%w: %w", f.Contended, taken)
	case txn.Running(ctx):
		return txn.Conflict("to be sent otherwise: " + taken.Error())
	case attempt >= MaxAttempts:
		return taken
	}
	return nil
}
