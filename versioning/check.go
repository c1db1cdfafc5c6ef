package versioning

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problem that Check finds.
const (
	// NumberTaken: the number of the current document is not higher than the last number in its
	// history, so the document cannot be saved. Repair gives it the next number, as AdoptRevisions does.
	NumberTaken mongopatterns.ProblemKind = "number taken"
	// NoDeletion: other code removed the document without a deletion in the history. Repair adds
	// the deletion, and so does Insert.
	NoDeletion mongopatterns.ProblemKind = "no deletion"
	// MissingRevision: a number is missing although an older revision exists. Repair leaves the gap
	// and the revisions after it as they are.
	MissingRevision mongopatterns.ProblemKind = "missing revision"
	// BrokenDelta: the revision that a delta was made from is missing, or other code changed it.
	// The revision stored as this delta is lost.
	BrokenDelta mongopatterns.ProblemKind = "broken delta"
	// TimeReversed: a revision has an earlier time than the one before it, so AsOf does not find
	// it. A current document without a time gets one from Adopt.
	TimeReversed mongopatterns.ProblemKind = "time reversed"
	// TimeAhead: a revision has a time more than five minutes ahead of this process's clock, so AsOf does not find it
	// yet. Either the clock of the process that saved it was wrong, or the clock of this process is.
	TimeAhead mongopatterns.ProblemKind = "time ahead"
)

// Check reads both collections and yields the problems. It is safe while others write, because a
// problem that a concurrent write may explain is checked again in a snapshot. work.Filter selects
// current documents. For documents that only the history has, it is applied to {_id: …}.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the collections.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Duplicate: two revisions have the same number. The unique index is missing.
//   - NotAdopted: a row of other code, which has no change. AdoptRevisions takes it if its read knows it.
//   - Malformed: a document in one of the two collections is not a revision, such as a row whose document's ID is null or
//     an array, or a current document has more than 16,760,832 bytes or 179 levels and cannot be saved until you make it
//     smaller or flatter.
//
// Cost: 1 round trip, and for each 100 documents 3.
//   - Many revisions, all of which are read: more.
//   - Those that only the history has: 1 or more to list them.
//   - Each document with a problem other than NotAdopted: 3.
func (d *History[ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "versioning.Check")
	problems := maintain.Check(ctx, d.core.current, work, whole, d.core.audit)
	if d.core.revisions != nil {
		rest, scan := d.core.removed(work, nil)
		problems = maintain.Chain(problems, maintain.Check(ctx, d.core.revisions, rest, scan, d.core.auditRemoved))
	}
	return fault.Seq("versioning.Check", collation.Seq(ctx, problems, d.core.collections()...))
}

// Repair fixes NumberTaken and NoDeletion. It records deletions with the current time and without
// author. It is safe while others write. work.Filter is that of Check.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the collections.
//
// Cost: that of Check, and for each number 2 round trips and 1 document written, for each deletion 4 and 1.
func (d *History[ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "versioning.Repair")
	defer fault.In(&err, "versioning.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := d.core.refuseCollation(ctx); err != nil {
		return result, err
	}
	return d.core.repair(ctx, work)
}

// The scans of current documents, and of their _ids alone.
var (
	whole = maintain.Scan{BatchSize: batchSize}
	only  = maintain.Scan{BatchSize: batchSize, Projection: expr.D("_id", 1)}
)

// removed returns the scan of the revisions for the documents that only the history has, each as
// {_id: …}, with the arrays that rows have for an _id, and the work for it. Its Progress adds done, the result so far.
func (d *store) removed(work *mongopatterns.Work, done *mongopatterns.Result) (*mongopatterns.Work, maintain.Scan) {
	var w mongopatterns.Work
	if work != nil {
		w = *work
	}
	lookup := expr.D("from", d.current.Name(), "localField", "_id", "foreignField", "_id", "as", "current")
	if scoped := d.current.Scope().Stages(nil); scoped != nil {
		lookup = append(lookup, expr.Element("pipeline", scoped))
	}
	pipeline := slices.Concat(
		mongo.Pipeline{expr.Op("$group", bson.D{expr.Element("_id", expr.Field(d.opts.DocumentIDField))})},
		d.current.Scope().SetStages(), // which the filter may name
		mongo.Pipeline{
			expr.Op("$match", expr.And(w.Filter)),
			expr.Op("$lookup", lookup),
			expr.Op("$match", expr.Op("$or", expr.D("current", bson.A{}), expr.D("_id", expr.AnArray))),
			expr.Op("$project", only.Projection),
		})
	w.Filter = nil
	// Selects every _id, null included. Without a condition on it the server would read all rows.
	every := d.rowsOf(expr.Op("$gte", bson.MinKey{}))
	if progress := w.Progress; progress != nil {
		w.Progress = func(more mongopatterns.Result) { progress(d.sum(*done, more)) }
	}
	return &w, maintain.Scan{Filter: every, Pipeline: pipeline, BatchSize: batchSize}
}

// each runs current over the current documents that work selects, read by scan, and then removed
// over the _ids of documents that only the history has.
func (d *store) each(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan, current, removed maintain.Step) (mongopatterns.Result, error) {
	total, err := maintain.Run(ctx, d.current, work, scan, current)
	if err != nil || d.revisions == nil {
		return total, err
	}
	rest, scan := d.removed(work, &total)
	more, err := maintain.Run(ctx, d.revisions, rest, scan, removed)
	return d.sum(total, more), err
}

// sum adds the result for the documents that only the history has. Their failures name the
// collection of current documents, to which the _ids belong.
func (d *store) sum(total, more mongopatterns.Result) mongopatterns.Result {
	total.Failures, more.Failures = slices.Clone(total.Failures), slices.Clone(more.Failures)
	for i := range more.Failures {
		more.Failures[i].Collection = d.current.Name()
	}
	maintain.Add(&total, more)
	return total
}

func (d *store) repair(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	mends := map[mongopatterns.ProblemKind]func(ctx context.Context, id bson.RawValue) (bool, error){
		NumberTaken: d.renumber, NoDeletion: d.bury,
	}
	mended := func(audit func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error)) maintain.Step {
		return func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			problems, err := audit(ctx, batch)
			if err != nil {
				return err
			}
			for _, p := range problems {
				mend, done := mends[p.Kind]
				if done && !w.DryRun {
					if done, err = mend(ctx, p.ID); err != nil {
						return err
					}
				}
				if done {
					result.Done++
				} else {
					result.Remaining++
				}
			}
			return nil
		}
	}
	return d.each(ctx, work, whole, mended(d.audit), mended(d.auditRemoved))
}

// renumber gives a current document the number that follows its history.
func (d *store) renumber(ctx context.Context, id bson.RawValue) (bool, error) {
	last, err := d.newest(ctx, id)
	if err != nil || last == nil {
		return false, err
	}
	// A save that would extend the history cannot succeed meanwhile.
	done, err := fault.One(d.current.UpdateOne(ctx, append(expr.ByID(id), expr.Element("$or", bson.A{
		expr.D(d.opts.RevisionField, expr.Op("$lte", last.number)), expr.D(d.opts.RevisionField, nil),
	})), expr.D("$set", expr.D(d.opts.RevisionField, last.number+1), "$max", expr.D(d.at(), last.change.at))))
	return err == nil && done.MatchedCount == 1, err
}

// bury adds a missing deletion to the history of a document. If an Insert does the same meanwhile,
// the unique index admits only one of the two.
func (d *store) bury(ctx context.Context, id bson.RawValue) (bool, error) {
	done := false
	err := txn.Run(ctx, d.current, func(ctx context.Context) error {
		done = false
		if taken, err := d.primary.load(ctx, id); err != nil || taken != nil {
			return err
		}
		last, err := d.newest(ctx, id)
		if err != nil || last == nil || last.deleted {
			return err
		}
		done = true
		return d.archive(ctx, d.deletion(last.after(stamp{})))
	})
	if mongo.IsDuplicateKeyError(err) && !txn.Running(ctx) {
		return false, nil // Insert has added it meanwhile
	}
	return done, err
}

// audit returns the problems of current documents.
func (d *store) audit(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	return d.problems(ctx, idsOf(batch), d.parseMany(batch))
}

// auditRemoved is audit for the _ids of documents that only the history has.
func (d *store) auditRemoved(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	return d.problems(ctx, idsOf(batch), nil)
}

// problems compares current documents with their histories, which it reads. A problem that a
// concurrent write may explain is checked again in a snapshot.
func (d *store) problems(ctx context.Context, ids bson.A, current map[string]loaded) ([]mongopatterns.Problem, error) {
	if d.revisions == nil {
		return nil, nil
	}
	suspects, err := d.examine(ctx, ids, current)
	if err != nil {
		return nil, err
	}
	out, err := d.foreign(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, h := range suspects {
		if !slices.ContainsFunc(h.problems, isOurs) { // nothing that a concurrent write may explain
			out = append(out, h.problems...)
			continue
		}
		var found []*history
		err := txn.Run(ctx, d.current, func(ctx context.Context) error {
			one := bson.A{h.id}
			current, err := d.loadMany(ctx, one)
			if err != nil {
				return err
			}
			found, err = d.examine(ctx, one, current)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			out = append(out, h.problems...)
		}
	}
	return out, nil
}

func isOurs(p mongopatterns.Problem) bool { return p.Kind != mongopatterns.NotAdopted }

// foreign reports the rows that the unique index does not cover: rows with the _id of one of the
// documents and no number, and, for the _id null, rows without a document's ID.
func (d *store) foreign(ctx context.Context, ids bson.A) (out []mongopatterns.Problem, err error) {
	filter := d.rowsOf(expr.Op("$in", ids), d.uncounted())
	if slices.ContainsFunc(ids, isNull) {
		filter = expr.D("$or", bson.A{filter, d.rowsOf(nil)})
	}
	for raw, err := range cursor.Find(ctx, d.primary.revisions, filter,
		options.Find().SetProjection(expr.D(d.opts.DocumentIDField, 1, d.opts.RevisionField, 1, d.opts.ChangeField, 1))) {
		if err != nil {
			return nil, err
		}
		r, invalid := d.parseRow(raw)
		if invalid != nil && slices.ContainsFunc(ids, func(id any) bool { return value.Same(id.(bson.RawValue), r.id) }) {
			h := history{store: d}
			h.found(r.malformed(), r, 0, mongopatterns.Problem{Detail: invalid.Error()})
			out = append(out, h.problems...)
		}
	}
	return out, nil
}

func isNull(id any) bool { return id.(bson.RawValue).Type == bson.TypeNull }

// examine reads histories, newest revision first, because each delta needs the next revision. It
// returns the histories with problems.
func (d *store) examine(ctx context.Context, ids bson.A, current map[string]loaded) ([]*history, error) {
	all, byKey := make([]*history, len(ids)), map[string]*history{}
	for i, v := range ids {
		id := v.(bson.RawValue)
		now := current[value.Key(id)]
		h := &history{store: d, id: id, removed: now.current == nil}
		all[i], byKey[value.Key(id)] = h, h
		switch {
		case now.invalid != nil:
			h.found(mongopatterns.Malformed, nil, 0, mongopatterns.Problem{Detail: now.invalid.Error()})
		case now.current != nil:
			h.next, h.stored = d.asRow(now.current), diff.Find(now.all, d.opts.RevisionField)
			h.timely(nil, h.next)
			if err := check(now.head, now.all); err != nil {
				h.found(mongopatterns.Malformed, nil, 0, mongopatterns.Problem{Detail: err.Error()})
			}
		}
	}
	for raw, err := range cursor.Find(ctx, d.primary.revisions, d.rowsOf(expr.Op("$in", slices.DeleteFunc(slices.Clone(ids), isNull)), d.counted()),
		options.Find().SetSort(expr.D(d.opts.DocumentIDField, -1, d.opts.RevisionField, -1))) {
		if err != nil {
			return nil, err
		}
		r, invalid := d.parseRow(raw)
		if h := byKey[value.Key(r.id)]; h != nil {
			h.add(r, invalid)
		}
	}
	return slices.DeleteFunc(all, func(h *history) bool { return len(h.problems) == 0 }), nil
}

// malformed returns the kind of problem that a row is which is not a revision.
func (r *row) malformed() mongopatterns.ProblemKind {
	if r.other {
		return mongopatterns.NotAdopted
	}
	return mongopatterns.Malformed
}

// A history is the state of examine for one document.
type history struct {
	*store
	id       bson.RawValue
	stored   bson.RawValue // the number of the current document, as it is stored
	removed  bool          // there is no current document, and no deletion was seen yet
	next     *row          // the previous row, which is the next revision
	problems []mongopatterns.Problem
}

// found records a problem. r is the row that it concerns, if it is in the history.
func (h *history) found(kind mongopatterns.ProblemKind, r *row, number int64, p mongopatterns.Problem) {
	p.Pattern, p.Kind, p.Collection, p.ID = "versioning", kind, h.current.Name(), h.id
	if r != nil && r.key.Type != 0 {
		p.Collection, p.ID = h.revisions.Name(), r.key
	}
	if p.Detail == "" {
		p.Detail = fmt.Sprintf("revision %d of %s", number, value.Text(h.id))
	}
	h.problems = append(h.problems, p)
}

// maxAhead is how far clocks may differ without a report.
const maxAhead = 5 * time.Minute

// timely reports a time that has not come; r is the row of a revision in the history, and nil for the current one.
func (h *history) timely(r, revision *row) {
	if time.Until(revision.change.at) > maxAhead {
		h.found(TimeAhead, r, revision.number, mongopatterns.Problem{Field: h.at(), Have: dateValue(revision.change.at)})
	}
}

// add compares a revision with the one after it.
func (h *history) add(r *row, invalid error) {
	next := h.next
	switch {
	case invalid != nil:
		h.found(r.malformed(), r, 0, mongopatterns.Problem{Detail: invalid.Error()})
		return
	case next == nil:
		if h.removed && !r.deleted {
			h.found(NoDeletion, nil, r.number+1, mongopatterns.Problem{})
		}
	case next.key.Type == 0 && next.number <= r.number:
		h.found(NumberTaken, nil, next.number, mongopatterns.Problem{Field: h.opts.RevisionField,
			Have: h.stored, Want: value.Int64(r.number + 1)})
		next = nil
	case next.number == r.number:
		h.found(mongopatterns.Duplicate, r, r.number, mongopatterns.Problem{})
		return
	default:
		if next.number > r.number+1 {
			h.found(MissingRevision, nil, r.number+1, mongopatterns.Problem{})
		}
		if !next.other && next.change.at.Before(r.change.at) {
			h.found(TimeReversed, next, next.number, mongopatterns.Problem{Field: h.at(),
				Have: dateValue(next.change.at), Want: dateValue(r.change.at)})
		}
	}
	h.timely(r, r)
	err := h.resolve(r, next)
	switch {
	case errors.Is(err, errNoState):
		h.found(r.malformed(), r, 0, mongopatterns.Problem{Detail: err.Error()})
	case err != nil:
		h.found(BrokenDelta, r, 0, mongopatterns.Problem{Field: deltaKey, Detail: err.Error()})
	}
	h.next, h.removed = r, false
}
