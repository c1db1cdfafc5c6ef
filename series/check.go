package series

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// The kinds of problems that Check finds. Repair solves WrongField.
const (
	// Damaged is a document with a block that cannot be read, or that was written for another series or
	// window. Reads of its window end with ErrDamaged. Restore the document, or delete it and append its
	// measurements again.
	Damaged mongopatterns.ProblemKind = "damaged"
	// Newer is a document with a block that a later version of this package wrote. Reads of its window end
	// with ErrNewer, and this version does not rewrite it. Upgrade this program.
	Newer mongopatterns.ProblemKind = "newer"
)

// measured are paths that a document has if one of its measurements has the value; nil if M is a struct,
// because New has compared Options.Values with its fields.
func (s *Series[ID, M]) measured() (paths []string) {
	c := s.core
	if !windows.AnyField[M](c.frame.Codec) {
		return nil
	}
	for _, v := range c.opts.Values {
		if path := cmp.Or(v.Min, v.Max); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// Check reads the documents that work selects, decodes them and yields their problems. It accepts what rounding
// to 34 digits may change in a sum, which is, for each measurement, 1e-33 of the sum of the absolute numbers.
// Where that sum exceeds the largest Decimal128, it accepts an infinity or NaN, because the order of the
// additions decides.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - WrongField: a count, sum or other derived field with a wrong value. Repair computes it again.
//   - OutsideWindow: a measurement whose time is outside the document's window, so that a read of its range
//     misses it. Delete and append it, or adopt it again.
//   - Duplicate: an ID of a batch that two documents of a window hold (Detail names the other), as in an archive.
//     Check looks for it with Options.BatchField.
//   - Malformed: a start that is not a date or does not begin a window. Reads miss the document, or return ErrMalformed. A
//     Malformed problem without an ID names a SeriesField, or the Min or Max of a Value, that no document has.
//     Either the name is misspelt, or the data does not exist yet. Check finds it only without Work.Filter.
//
// Cost: 2 round trips, and 1 for each batch of 100 documents; scans the collection by _id.
//   - If M is not a struct: 1 for each of Values.
//   - With BatchField: 1 more. If the unique index is missing, the server then also groups the IDs of batches.
func (s *Series[ID, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "series.Check")
	c := s.core
	found := c.frame.Problems(ctx, work, maintain.Scan{BatchSize: transfer.WholeBatch}, c.audit, s.measured()...)
	if c.opts.BatchField != "" {
		found = maintain.Chain(found, c.frame.Shared(ctx, work, c.uniqueBatches(), c.opts.BatchField, "id"))
	}
	return fault.Seq("series.Check", found)
}

// Repair computes again the fields that Check finds wrong, and writes each document in one write. A
// document that has changed since it was read is Skipped. Remaining counts the problems that Repair cannot
// solve.
//
// Cost: that of Check, and 1 round trip for each batch with wrong documents, index _id.
func (s *Series[ID, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.Repair")
	defer fault.In(&err, "series.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := s.core
	return c.frame.Repair(ctx, work, maintain.Scan{BatchSize: transfer.WholeBatch}, c.audit, c.frame.Guards...)
}

// audit decodes a document and compares its fields with those computed from its measurements.
func (c *core) audit(doc bson.Raw, report windows.Report) mongo.Pipeline {
	var none bson.RawValue
	t, err := c.load(doc)
	if err != nil {
		kind := Damaged
		if errors.Is(err, mongopatterns.ErrNewer) {
			kind = Newer
		}
		// The checksums depend on the start: if it is bad, report the start and not the blocks.
		begins := value.Lookup(doc, c.frame.StartField)
		if ms, dated := begins.DateTimeOK(); kind == Damaged && (!dated || starts(c, ms) != ms) {
			c.frame.Span(doc, report)
			return nil
		}
		report(kind, "", none, none, err.Error())
		return nil
	}
	t.Sort()
	start, end, set, dated := c.frame.Span(doc, report)
	for i, n := 0, len(t.Times); i < min(n, 2) && dated && start == c.frame.StartOf(doc); i++ { // the first and the last
		if at := t.Times[i*(n-1)]; at < start || at >= end {
			report(mongopatterns.OutsideWindow, c.opts.TimeField, windows.Date(at), none, "")
		}
	}
	var unset bson.A
	var wrong []string
	for _, d := range append(c.derived(t), derived{path: c.opts.BytesField, want: value.New(int32(c.sizeOf(doc)))}) {
		have := value.Lookup(doc, d.path)
		if d.agrees(have) {
			continue
		}
		report(mongopatterns.WrongField, d.path, have, d.want, "")
		wrong = append(wrong, d.path)
		if d.want.Type == 0 {
			unset = append(unset, d.path)
		} else {
			set = append(set, expr.Element(d.path, d.want))
		}
	}
	return append(windows.Above(wrong), pipeline(set, unset)...)
}

// starts is the start of the window that holds a time.
func starts(c *core, ms int64) int64 {
	start, _ := c.frame.Bounds(ms)
	return start
}

// pipeline is an update that sets and removes fields.
func pipeline(set bson.D, unset bson.A) (out mongo.Pipeline) {
	if set != nil {
		out = append(out, expr.Op("$set", set))
	}
	if unset != nil {
		out = append(out, expr.Op("$unset", unset))
	}
	return out
}
