package windows

import (
	"context"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// manyBatch is the default Work.BatchSize: large, so that few batches write the same document.
	manyBatch = 10_000
	// MostItems and MostBytes keep a batch within one message, so that it has one answer.
	MostItems = 100_000
	MostBytes = 24 << 20
)

// Untyped converts a sequence for Many; nil becomes an empty one.
func Untyped[S, M any](items iter.Seq2[S, M], as func(M) any) iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if items == nil {
			return
		}
		boxes := Boxes{}
		for series, m := range items {
			if !yield(Boxed(boxes, series), as(m)) {
				return
			}
		}
	}
}

// Boxes caches series as interfaces, because each conversion would allocate.
type Boxes map[any]any

// Boxed returns a series as an interface.
func Boxed[S any](boxes Boxes, series S) any {
	if !value.Cacheable(series) {
		return series
	}
	boxed, known := boxes[series]
	if !known {
		boxed = series
		if len(boxes) >= mostRemembered {
			clear(boxes)
		}
		boxes[boxed] = boxed
	}
	return boxed
}

// Groups has measurements by place, in the order in which the places came.
type Groups[C any] struct {
	All          []*Group[C]
	Count, Bytes int // of all measurements
	byKey        map[string]*Group[C]
	latest       map[any]*Group[C] // by series: the group of its last measurement
}

// A Group has the measurements of one place, in the form that a package stores.
type Group[C any] struct {
	Place   Place
	Content C
}

// GroupOf returns the group of a measurement, a new one if it is the first of its place. As long as the measurements of
// a series stay in one window, it encodes the series and computes the place only once.
func (g *Groups[C]) GroupOf(f *Frame, series any, ms int64) (group *Group[C], err error) {
	if err := CheckTime(time.UnixMilli(ms)); err != nil {
		return nil, err
	}
	cacheable := value.Cacheable(series)
	if cacheable {
		group = g.latest[series]
	}
	if group != nil && ms >= group.Place.Start && ms < group.Place.End {
		return group, nil
	}
	var raw bson.RawValue
	if group != nil {
		raw = group.Place.Series
	} else if raw, err = f.SeriesOf(series); err != nil {
		return nil, err
	}
	p := f.PlaceAt(raw, ms)
	if group = g.byKey[p.Key]; group == nil {
		group = &Group[C]{Place: p}
		if g.byKey == nil {
			g.byKey, g.latest = map[string]*Group[C]{}, map[any]*Group[C]{}
		}
		g.byKey[p.Key], g.All = group, append(g.All, group)
	}
	if cacheable {
		g.latest[series] = group
	}
	return group, nil
}

// A Batch holds measurements that wait to be stored.
type Batch interface {
	Add(series, m any) error // m is of the type that the package gives to Untyped
	Size() (count, bytes int)
	// If the server refuses some documents, Store stores the others and returns the error of the first, except in a
	// transaction, which the refusal ends. A transaction that is run again calls Store again; it then sends everything anew.
	Store(ctx context.Context) (mongopatterns.Result, error)
}

// Many stores measurements batch by batch. At an invalid one it stores those before it and ends. One that the server
// refuses ends it only with Work.Strict, or in a transaction.
func (f *Frame) Many(ctx context.Context, items iter.Seq2[any, any], work *mongopatterns.Work, begin func() Batch) (total mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	defer maintain.Unstored(&err, &total)
	w, err := maintain.CompletedItems(work, manyBatch, true)
	if err != nil {
		return total, err
	}
	s := storing{coll: f.Coll.Name(), work: w, begin: begin, batch: begin()}
	for series, m := range items {
		if err := s.take(ctx, series, m); err != nil {
			return s.total, err
		}
	}
	err = s.flush(ctx)
	return s.total, err
}

// A storing is a Many under way.
type storing struct {
	coll  string
	work  mongopatterns.Work
	begin func() Batch
	batch Batch
	total mongopatterns.Result
}

// take adds a measurement to the batch, and stores the batch if it is full or the measurement is invalid.
func (s *storing) take(ctx context.Context, series, m any) error {
	invalid := s.batch.Add(series, m)
	s.total.Examined++
	count, bytes := s.batch.Size()
	if invalid == nil && count < min(s.work.BatchSize, MostItems) && bytes < min(s.work.BatchBytes, MostBytes) {
		return nil
	}
	if err := s.flush(ctx); err != nil || invalid == nil {
		return err
	}
	invalid = fmt.Errorf("item %d: %w", s.total.Examined-1, invalid)
	maintain.Fail(&s.total, s.coll, bson.RawValue{}, invalid)
	return invalid
}

// flush stores the batch, begins another and reports the progress.
func (s *storing) flush(ctx context.Context) (err error) {
	count, _ := s.batch.Size()
	if count == 0 {
		return nil
	}
	result := mongopatterns.Result{Done: int64(count)}
	if !s.work.DryRun {
		result, err = s.batch.Store(ctx)
	}
	maintain.Add(&s.total, result)
	s.batch = s.begin()
	goesOn := fault.Refused(err) && settled(result) == int64(count) && !s.work.Strict && !txn.Running(ctx)
	if err != nil && !goesOn {
		return err
	}
	s.work.Progress(s.total)
	return nil
}

// settled counts the measurements whose fate is known. If these are all, what is not stored was refused.
func settled(r mongopatterns.Result) int64 { return r.Done + r.Skipped + r.Failed }
