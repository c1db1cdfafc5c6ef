package windows

import (
	"bytes"
	"cmp"
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
	return &Summary{Series: series, First: math.MaxInt64, Last: math.MinInt64,
		Sums: make([]number.Sum, values), extremes: make([]extreme, values)}
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
		k := comparing{comparison: c, to: f, src: src, source: newTotals(len(c.Values)), target: newTotals(len(c.Values))}
		if err := k.open(ctx, work); err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		maintain.Chain(k.documents(ctx), k.series(ctx))(yield)
	}
}

// A comparing is a Compare under way.
type comparing struct {
	comparison Comparison
	to         *Frame
	src        *scoped.Collection
	work       mongopatterns.Work
	ledger     *ledger

	source, target *totals
}

// open completes work and finds the ledger.
func (k *comparing) open(ctx context.Context, work *mongopatterns.Work) (err error) {
	if k.work, err = maintain.Completed(work, manyBatch); err != nil {
		return err
	}
	if k.ledger, err = k.to.newLedger(k.src); err != nil {
		return err
	}
	return collation.Refuse(ctx, k.src) // with a collation its _ids would be in another order than the ledger's
}

// documents yields the problems of the documents of the source, and adds their measurements to its totals.
func (k *comparing) documents(ctx context.Context) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		batch, docs := k.comparison.Begin(), 0
		for m, err := range k.ledger.scan(ctx, k.src, k.work) {
			var problem mongopatterns.Problem
			if err == nil {
				problem, err = k.look(batch, m)
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			if problem.Kind != "" && !yield(problem, nil) {
				return
			}
			docs++
			if _, size := batch.Size(); docs < k.work.BatchSize && size <= k.work.BatchBytes {
				continue
			}
			if err := k.source.join(k.comparison.Source(batch)); err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			batch, docs = k.comparison.Begin(), 0
		}
		if err := k.source.join(k.comparison.Source(batch)); err != nil {
			yield(mongopatterns.Problem{}, err)
		}
	}
}

// look returns the problem of a document of the source, and adds its measurements to a batch.
func (k *comparing) look(b Batch, m scanned) (p mongopatterns.Problem, err error) {
	if m.state != gone {
		err = k.comparison.Convert(b, bytes.Clone(m.doc))
	}
	skipped := errors.Is(err, fault.ErrSkip)
	invalid := !skipped && errors.Is(err, fault.ErrInvalid)
	var kind mongopatterns.ProblemKind
	switch {
	case err != nil && !skipped && !invalid:
		return p, fault.Of(m.id, err)
	case m.state == unadopted && !skipped:
		kind = mongopatterns.NotAdopted
	case m.state == edited:
		kind = mongopatterns.Edited
	case m.state == gone:
		kind = mongopatterns.Deleted
	case invalid:
		kind = mongopatterns.Different
	default:
		return p, nil
	}
	p = mongopatterns.Problem{Pattern: k.to.Pattern, Kind: kind, Collection: k.src.Name(), ID: value.Clone(m.id)}
	if invalid {
		p.Detail = err.Error()
	}
	return p, nil
}

// series yields the problems of the series, which documents has summed up. Under a filter it yields none, because the source
// was not read whole.
func (k *comparing) series(ctx context.Context) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if k.work.Filter != nil {
			return
		}
		if err := k.target.join(k.comparison.Target(ctx)); err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		for _, key := range append(k.source.order, k.target.order...) {
			for _, p := range k.differences(k.source.take(key), k.target.take(key)) {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// differences are the problems of a series, whose summaries are nil without measurements. Have is the target's, Want the
// source's.
func (k *comparing) differences(source, target *Summary) (out []mongopatterns.Problem) {
	if source == nil && target == nil {
		return nil // compared before
	}
	series := cmp.Or(source, target).Series
	report := func(field, what string, have, want bson.RawValue) {
		out = append(out, mongopatterns.Problem{Pattern: k.to.Pattern, Kind: mongopatterns.Different, Collection: k.to.Coll.Name(),
			Field: field, Have: have, Want: want, Detail: "series " + value.Text(series) + ", " + what})
	}
	none := NewSummary(series, len(k.comparison.Values))
	have, want := cmp.Or(target, none), cmp.Or(source, none)
	if have.Count != want.Count {
		report(k.comparison.Count, "count", value.Int64(have.Count), value.Int64(want.Count))
	}
	if have == none || want == none {
		return out
	}
	if have.First != want.First {
		report(k.comparison.Time, "first", Date(have.First), Date(want.First))
	}
	if have.Last != want.Last {
		report(k.comparison.Time, "last", Date(have.Last), Date(want.Last))
	}
	for i, field := range k.comparison.Values {
		sum, right := value.Decimal(have.Sums[i].Decimal()), value.Decimal(want.Sums[i].Decimal())
		if !(number.Rounding{Most: want.most(i), Count: want.Count, Decimal: true}).Agree(sum, right) {
			report(field, "sum", sum, right)
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
