package windows

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A Summary has the facts about the measurements of a series that Compare compares.
type Summary struct {
	Series      bson.RawValue
	Count       int64
	First, Last int64        // in milliseconds
	Sums        []number.Sum // by value
	extremes    []extreme    // by value, which bound the rounding errors of Sums
}

// An extreme is the least and the greatest number.
type extreme struct{ low, high timeseries.Number }

// NewSummary returns the summary of a series without measurements.
func NewSummary(series bson.RawValue, values int) *Summary {
	return &Summary{series, 0, math.MaxInt64, math.MinInt64, make([]number.Sum, values), make([]extreme, values)}
}

// Widen takes a number of a value into account; the least and the greatest are enough.
func (s *Summary) Widen(i int, n timeseries.Number) {
	e := &s.extremes[i]
	if e.low.IsZero() || n.Less(e.low) {
		e.low = alone(n)
	}
	if e.high.IsZero() || e.high.Less(n) {
		e.high = alone(n)
	}
}

// alone returns a copy of a number that does not keep the whole document in memory.
func alone(n timeseries.Number) timeseries.Number { return timeseries.NumberOf(value.Clone(n.Raw())) }

// most is at least the sum of the absolute numbers of a value.
func (s *Summary) most(i int) *big.Rat {
	most := number.Largest(s.extremes[i].low, s.extremes[i].high)
	return most.Mul(most, new(big.Rat).SetInt64(s.Count))
}

// join adds the measurements of another one.
func (s *Summary) join(o *Summary) {
	s.Count += o.Count
	s.First, s.Last = min(s.First, o.First), max(s.Last, o.Last)
	for i := range s.Sums {
		s.Sums[i].Join(&o.Sums[i])
		if e := o.extremes[i]; !e.low.IsZero() {
			s.Widen(i, e.low)
			s.Widen(i, e.high)
		}
	}
}

// Summaries yields summaries of series; a series may come several times.
type Summaries iter.Seq2[*Summary, error]

// A Comparison tells Compare what differs by package.
type Comparison struct {
	Begin   func() Batch
	Convert func(b Batch, doc bson.Raw) error   // as of Adopt
	Source  func(b Batch) Summaries             // of a batch of the source
	Target  func(ctx context.Context) Summaries // of the collection that adopted it
	// The fields that the problems of a series are about: the count, the time and the values.
	Count, Time string
	Values      []string
}

// Compare yields the differences between a source and the target, as the packages' Compare documents.
func (f *Frame) Compare(ctx context.Context, src *scoped.Collection, work *mongopatterns.Work, c Comparison) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		w, l, err := f.opened(ctx, src, work)
		if err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		source, target := newTotals(len(c.Values)), newTotals(len(c.Values))
		for problem, err := range f.lookAtAll(ctx, src, l, w, c, source) {
			if !yield(problem, err) || err != nil {
				return
			}
		}
		if w.Filter != nil {
			return
		}
		if err := target.join(c.Target(ctx)); err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		for _, key := range append(source.order, target.order...) {
			for _, p := range f.differences(source.take(key), target.take(key), c) {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// lookAtAll yields the problems of the documents of a source, and adds their measurements to totals.
func (f *Frame) lookAtAll(ctx context.Context, src *scoped.Collection, l *ledger, w mongopatterns.Work, c Comparison, source *totals) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		batch, docs := c.Begin(), 0
		for m, err := range l.scan(ctx, src, w) {
			var problem mongopatterns.Problem
			if err == nil {
				problem, err = f.look(src, batch, m, c.Convert)
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			if problem.Kind != "" && !yield(problem, nil) {
				return
			}
			docs++
			if _, bytes := batch.Size(); docs < w.BatchSize && bytes <= w.BatchBytes {
				continue
			}
			if err := source.join(c.Source(batch)); err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			batch, docs = c.Begin(), 0
		}
		if err := source.join(c.Source(batch)); err != nil {
			yield(mongopatterns.Problem{}, err)
		}
	}
}

// opened returns the work and the ledger of a Compare.
func (f *Frame) opened(ctx context.Context, src *scoped.Collection, work *mongopatterns.Work) (w mongopatterns.Work, l *ledger, err error) {
	if w, err = maintain.Of(work, manyBatch); err != nil {
		return w, nil, err
	}
	if l, err = f.ledgerOf(src); err != nil {
		return w, nil, err
	}
	if err := collation.Refuse(ctx, src); err != nil { // its _ids would be in another order than the ledger's
		return w, nil, err
	}
	return w, l, l.open(ctx)
}

// look returns the problem of a document of the source, and adds its measurements to a batch.
func (f *Frame) look(src *scoped.Collection, b Batch, m met, convert func(b Batch, doc bson.Raw) error) (p mongopatterns.Problem, err error) {
	kind := map[finding]mongopatterns.ProblemKind{unadopted: mongopatterns.NotAdopted, edited: mongopatterns.Edited, gone: mongopatterns.Deleted}[m.finding]
	if m.finding != gone {
		err = convert(b, bson.Raw(append([]byte(nil), m.doc...)))
	}
	detail := ""
	switch {
	case errors.Is(err, fault.ErrSkip):
		if m.finding == unadopted {
			kind = ""
		}
	case errors.Is(err, fault.ErrInvalid):
		if detail = err.Error(); kind == "" {
			kind = mongopatterns.Different
		}
	case err != nil:
		return p, fault.Of(m.id, err)
	}
	if kind == "" {
		return p, nil
	}
	return mongopatterns.Problem{Pattern: f.Pattern, Kind: kind, Collection: src.Name(), ID: value.Clone(m.id), Detail: detail}, nil
}

// differences are the problems of a series; Have is the target's, Want the source's.
func (f *Frame) differences(source, target *Summary, c Comparison) (out []mongopatterns.Problem) {
	var series bson.RawValue
	if source != nil {
		series = source.Series
	} else if target != nil {
		series = target.Series
	}
	report := func(field, what string, have, want bson.RawValue) {
		out = append(out, mongopatterns.Problem{Pattern: f.Pattern, Kind: mongopatterns.Different, Collection: f.Coll.Name(), Field: field, Have: have, Want: want,
			Detail: "series " + value.Text(series) + ", " + what})
	}
	switch {
	case source == nil && target == nil:
		return nil // compared before
	case source == nil:
		report(c.Count, "count", value.Int64(target.Count), value.Int64(0))
		return out
	case target == nil:
		report(c.Count, "count", value.Int64(0), value.Int64(source.Count))
		return out
	}
	if source.Count != target.Count {
		report(c.Count, "count", value.Int64(target.Count), value.Int64(source.Count))
	}
	if source.First != target.First {
		report(c.Time, "first", Date(target.First), Date(source.First))
	}
	if source.Last != target.Last {
		report(c.Time, "last", Date(target.Last), Date(source.Last))
	}
	for i, field := range c.Values {
		have, want := value.Decimal(target.Sums[i].Decimal()), value.Decimal(source.Sums[i].Decimal())
		if !(number.Rounding{Most: source.most(i), Count: source.Count, Decimal: true}).Agree(have, want) {
			report(field, "sum", have, want)
		}
	}
	return out
}

// totals joins summaries by series, in the order in which the series came.
type totals struct {
	values int
	byKey  map[string]*Summary
	order  []string
}

func newTotals(values int) *totals { return &totals{values: values, byKey: map[string]*Summary{}} }

// join adds summaries.
func (t *totals) join(all Summaries) error {
	for s, err := range all {
		if err != nil {
			return err
		}
		if s.Count == 0 {
			continue
		}
		key := value.Key(s.Series)
		if t.byKey[key] == nil {
			t.byKey[key], t.order = NewSummary(value.Clone(s.Series), t.values), append(t.order, key)
		}
		t.byKey[key].join(s)
	}
	return nil
}

// take returns the summary of a series, nil if it does not exist or was taken before.
func (t *totals) take(key string) *Summary {
	s := t.byKey[key]
	delete(t.byKey, key)
	return s
}
