package series

import (
	"context"
	"errors"
	"iter"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Repair solves WrongAggregate.
const (
	// WrongAggregate is a count, sum or other field that does not follow from the
	// measurements. Repair computes it anew.
	WrongAggregate = frame.WrongAggregate
	// Damaged is a document with a block that cannot be read, or that was written for another
	// series or window. Reads of its window end
	// with ErrDamaged. Restore it, or delete it and append the measurements anew.
	Damaged mongopatterns.ProblemKind = "damaged"
	// Newer is a document with a block that a later version of this package has written. Reads
	// of its window end with ErrNewer, and nothing here rewrites it: upgrade this program.
	Newer mongopatterns.ProblemKind = "newer"
	// OutsideWindow is a measurement whose time is outside the document's window: a
	// range read misses it. Delete and append it, or adopt anew.
	OutsideWindow = frame.OutsideWindow
	// BadStart is a start that is no date or begins no window: reads miss the
	// document.
	BadStart = frame.BadStart
)

// Check reads the documents that work selects, decodes them and yields what is wrong.
//
// Cost: 1 round trip a batch of 100 documents; scans the collection by _id.
func (s *Series[S, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := s.core
	return fault.Seq("series: check", c.Problems(ctx, work, maintain.Scan{BatchSize: frame.WholeBatch}, c.audit))
}

// Repair computes the fields anew that Check finds wrong, each document in one write,
// unless it has changed since it was read: then it is Skipped. Remaining are the problems
// that it cannot solve.
//
// Cost: a Check, and 1 round trip for each batch with wrong documents, found by _id.
func (s *Series[S, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: repair")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	c := s.core
	return c.Frame.Repair(ctx, work, maintain.Scan{BatchSize: frame.WholeBatch}, c.audit, c.Guards...)
}

// audit decodes a document and computes what it should hold.
func (c *store) audit(doc bson.Raw, report frame.Report) mongo.Pipeline {
	var none bson.RawValue
	t, err := c.load(doc)
	if err != nil {
		kind := Damaged
		if errors.Is(err, ErrNewer) {
			kind = Newer
		}
		// The checksums follow from the start: if that is bad, it is what is wrong.
		begins := value.Lookup(doc, c.Start)
		if ms, dated := begins.DateTimeOK(); kind == Damaged && (!dated || starts(c, ms) != ms) {
			c.Span(doc, report)
			return nil
		}
		report(kind, "", none, none, err.Error())
		return nil
	}
	t.Sort()
	start, end, set, dated := c.Span(doc, report)
	for i, n := 0, len(t.Times); i < min(n, 2) && dated && start == c.StartOf(doc); i++ { // the first and the last
		if at := t.Times[i*(n-1)]; at < start || at >= end {
			report(OutsideWindow, c.opts.TimeField, frame.Date(at), none, "")
		}
	}
	var unset bson.A
	for _, d := range append(c.derived(t), derived{path: c.opts.BytesField, want: rawValue(int32(c.sizeOf(doc)))}) {
		have := value.Lookup(doc, d.path)
		if agree(have, d.want, d.most) {
			continue
		}
		report(WrongAggregate, d.path, have, d.want, "")
		if d.want.Type == 0 {
			unset = append(unset, d.path)
		} else {
			set = append(set, bson.E{Key: d.path, Value: d.want})
		}
	}
	return pipeline(set, unset)
}

// starts is the start of the window that holds a time.
func starts(c *store, ms int64) int64 {
	start, _ := c.Bounds(ms)
	return start
}

// pipeline is an update that sets and removes fields.
func pipeline(set bson.D, unset bson.A) (out mongo.Pipeline) {
	if set != nil {
		out = append(out, bson.D{{Key: "$set", Value: set}})
	}
	if unset != nil {
		out = append(out, bson.D{{Key: "$unset", Value: unset}})
	}
	return out
}

// agree compares numbers by value. A sum of numbers up to most that has more than 34
// digits may differ in the last of them, by the order in which it was made.
func agree(have, want bson.RawValue, most float64) bool {
	x, y := value.Number(have), value.Number(want)
	if x == nil || y == nil {
		return have.Type == want.Type && have.Equal(want)
	}
	difference := x.Sub(x, y)
	rounding := new(big.Rat).SetFloat64(most * 1e-30)
	return difference.Sign() == 0 || rounding != nil && difference.Abs(difference).Cmp(rounding) <= 0
}
