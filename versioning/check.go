package versioning

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A Problem is something in the history of a document that does not agree with the
// rest of it.
type Problem struct {
	// Kind says what is wrong.
	Kind ProblemKind
	// ID is the document's _id.
	ID bson.RawValue
	// Revision is the number it is about.
	Revision int64
	// Field is the field that is wrong, with NumberTaken of the current document,
	// else of the revision; empty if it is not one field.
	Field string
	// Have is what the field holds, zero if it is missing, and Want what it should
	// hold: with NumberTaken the next number, with TimeReversed this time or a
	// later one. Both are zero with other kinds.
	Have, Want bson.RawValue
}

func (p Problem) String() string {
	text := fmt.Sprintf("document %s, revision %d: %s", rawvalue.Text(p.ID), p.Revision, p.Kind)
	if p.Field != "" {
		text += ": " + p.Field
	}
	if p.Want.Type == 0 {
		return text
	}
	return fmt.Sprintf("%s is %s, want %s", text, rawvalue.Text(p.Have), rawvalue.Text(p.Want))
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// NumberTaken is a current document whose number the history has already, or
	// has gone beyond, so that it cannot be saved: something else put it there.
	// Repair gives it the number after the newest.
	NumberTaken ProblemKind = "number taken"
	// NoDeletion is a history that ends neither in a current document nor in a
	// deletion: something else removed the document. Repair adds the deletion, and
	// so does Create.
	NoDeletion ProblemKind = "no deletion"
	// MissingRevision is a number left out after an older one that is kept.
	// Repair leaves it; what an interrupted Prune leaves goes with the next one.
	MissingRevision ProblemKind = "missing revision"
	// DuplicateRevision is a number that stands twice, which the unique index
	// refuses. Repair leaves it.
	DuplicateRevision ProblemKind = "duplicate revision"
	// BrokenDelta is a delta that does not apply to the revision that follows, or
	// of which that is missing. Repair leaves it.
	BrokenDelta ProblemKind = "broken delta"
	// TimeReversed is a revision with an earlier time than the one before it, which
	// AsOf does not find. Repair leaves it.
	TimeReversed ProblemKind = "time reversed"
	// InvalidRevision is a document of either collection that cannot be read as a
	// revision. Repair leaves it.
	InvalidRevision ProblemKind = "invalid revision"
)

// Check reads both collections and yields what is wrong. It is safe beside other
// writers: what they may have caused is looked at again before it is reported.
//
// Cost: scans both collections: for each 100 documents 2 round trips, and further
// ones for many revisions; for each 100 documents in the history 1 to list them, 1 to
// see which are current and 1 for the others; 3 for each document with a problem.
func (d *Documents[ID, T]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		err := d.inspect(ctx, defaultBatchSize, func(_ int64, problems []Problem) (bool, error) {
			for _, p := range problems {
				if !yield(p, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(Problem{}, fail("check", err))
		}
	}
}

// RepairOptions bounds Repair.
type RepairOptions struct {
	// Change is recorded with the deletions that are added. Default: at the time of
	// Repair, by nobody.
	Change Change
	// BatchSize is how many documents are examined at a time. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // documents
	Repaired  int64 `json:"repaired"`  // problems
	Remaining int64 `json:"remaining"` // problems it cannot repair, see Check
}

// Repair mends NumberTaken and NoDeletion, which keep documents from being saved or
// created. It is safe beside other writers, can be stopped and run again.
//
// Cost: a Check, and for each number 2 round trips and 1 document written, for each
// deletion added 4 and 1.
func (d *Documents[ID, T]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, fail("repair", err)
	}
	if err := checkTime("RepairOptions.Change.At", o.Change.At); err != nil {
		return result, fail("repair", err)
	}
	err := d.inspect(ctx, o.BatchSize, func(documents int64, problems []Problem) (bool, error) {
		for _, p := range problems {
			var done bool
			var err error
			switch p.Kind {
			case NumberTaken:
				done, err = d.renumber(ctx, p.ID)
			case NoDeletion:
				done, err = d.bury(ctx, p.ID, o.Change)
			}
			if err != nil {
				return false, err
			}
			if done {
				result.Repaired++
			} else {
				result.Remaining++
			}
		}
		result.Examined += documents
		o.Progress(result.Examined)
		return true, nil
	})
	return result, fail("repair", err)
}

// renumber gives a current document the number after its history.
func (d *Documents[ID, T]) renumber(ctx context.Context, id bson.RawValue) (bool, error) {
	ends, err := d.ends(ctx, bson.A{id})
	if err != nil {
		return false, err
	}
	last := ends[rawvalue.Key(id)]
	// Saves that could move the end of the history cannot succeed meanwhile.
	done, err := d.current.UpdateOne(ctx, bson.D{{Key: "_id", Value: d.equal(id)}, {Key: "$or", Value: bson.A{
		bson.D{{Key: d.opts.RevisionField, Value: bson.D{{Key: "$lte", Value: last.number}}}},
		bson.D{{Key: d.opts.RevisionField, Value: nil}},
	}}}, bson.D{
		{Key: "$set", Value: bson.D{{Key: d.opts.RevisionField, Value: last.number + 1}}},
		{Key: "$max", Value: bson.D{{Key: d.at(), Value: last.at}}},
	})
	return err == nil && done.MatchedCount == 1, err
}

// bury adds the deletion of a document that is gone. A Create meanwhile adds the
// same one: the unique index lets only one of them.
func (d *Documents[ID, T]) bury(ctx context.Context, id bson.RawValue, change Change) (bool, error) {
	done := false
	err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
		done = false
		if taken, err := d.exists(ctx, id); err != nil || taken {
			return err
		}
		last, err := d.newest(ctx, id)
		if err != nil || last == nil || last.deleted {
			return err
		}
		gone := &state{id: id, number: last.number + 1, change: change.after(last.change), deleted: true}
		done = true
		return d.archive(ctx, nil, d.row(gone, nil))
	})
	if mongo.IsDuplicateKeyError(err) && !txn.Running(ctx) {
		return false, nil // by Create, meanwhile
	}
	return done, err
}

// inspect visits the problems of size documents at a time, first of those that are
// current, then of the others.
func (d *Documents[ID, T]) inspect(ctx context.Context, size int, visit func(documents int64, problems []Problem) (bool, error)) error {
	for batch, err := range scan.Batches(ctx, d.current, nil, nil, size) {
		if err != nil {
			return err
		}
		ids, current := bson.A{}, map[string]*loaded{}
		for _, raw := range batch {
			s, err := d.parse(raw)
			if s == nil {
				return err
			}
			ids = append(ids, s.id)
			current[rawvalue.Key(s.id)] = &loaded{s, err}
		}
		problems, err := d.audit(ctx, ids, current)
		if err != nil {
			return err
		}
		if more, err := visit(int64(len(ids)), problems); err != nil || !more {
			return err
		}
	}
	cursor, err := d.revisionsPrimary.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + d.opts.DocumentIDField}}}},
	}, options.Aggregate().SetAllowDiskUse(true).SetBatchSize(int32(min(size, 1<<20))))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var ids bson.A
	orphans := func() (bool, error) {
		current, err := d.loadMany(ctx, ids, bson.D{{Key: "_id", Value: 1}})
		if err != nil {
			return false, err
		}
		gone := bson.A{}
		for _, id := range ids {
			if current[rawvalue.Key(id.(bson.RawValue))] == nil {
				gone = append(gone, id)
			}
		}
		ids = nil
		if len(gone) == 0 {
			return true, nil
		}
		problems, err := d.audit(ctx, gone, nil)
		if err != nil {
			return false, err
		}
		return visit(int64(len(gone)), problems)
	}
	for cursor.Next(ctx) {
		id := cursor.Current.Lookup("_id")
		ids = append(ids, bson.RawValue{Type: id.Type, Value: append([]byte(nil), id.Value...)})
		if len(ids) == size {
			if more, err := orphans(); err != nil || !more {
				return err
			}
		}
	}
	if err := cursor.Err(); err != nil || len(ids) == 0 {
		return err
	}
	_, err = orphans()
	return err
}

// audit returns the problems of documents. Those it finds may be another writer's
// doing between the two reads; such documents are read again in a snapshot.
func (d *Documents[ID, T]) audit(ctx context.Context, ids bson.A, current map[string]*loaded) ([]Problem, error) {
	suspects, err := d.examine(ctx, ids, current)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	var out []Problem
	asked := map[string]bool{}
	for _, s := range suspects {
		if asked[rawvalue.Key(s.ID)] {
			continue
		}
		asked[rawvalue.Key(s.ID)] = true
		var problems []Problem
		err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
			ids := bson.A{s.ID}
			current, err := d.loadMany(ctx, ids, nil)
			if err != nil {
				return err
			}
			problems, err = d.examine(ctx, ids, current)
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, problems...)
	}
	return out, nil
}

// examine reads the histories of documents and compares them with the current
// documents, keyed by idKey.
func (d *Documents[ID, T]) examine(ctx context.Context, ids bson.A, current map[string]*loaded) (problems []Problem, err error) {
	cursor, err := d.revisionsPrimary.Find(ctx, d.rowFilter(bson.D{{Key: "$in", Value: ids}}),
		options.Find().SetSort(bson.D{{Key: d.opts.DocumentIDField, Value: 1}, {Key: d.opts.RevisionField, Value: 1}}))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var h *history
	seen := map[string]bool{}
	for cursor.Next(ctx) {
		r, err := d.parseRow(append(bson.Raw(nil), cursor.Current...))
		key := rawvalue.Key(r.document)
		if h == nil || h.key != key {
			if h != nil {
				problems = append(problems, h.end(current[h.key])...)
			}
			h = &history{opts: &d.opts, id: r.document, key: key}
			seen[key] = true
		}
		if err != nil {
			h.report(InvalidRevision, r.number)
			continue
		}
		h.add(r)
	}
	if err := cursor.Err(); err != nil {
		return nil, err
	}
	if h != nil {
		problems = append(problems, h.end(current[h.key])...)
	}
	for _, id := range ids {
		key := rawvalue.Key(id.(bson.RawValue))
		if now := current[key]; now != nil && !seen[key] && now.err != nil {
			problems = append(problems, Problem{Kind: InvalidRevision, ID: now.id, Revision: now.number})
		}
	}
	return problems, nil
}

// A history is what examine has seen of one.
type history struct {
	opts     *Options
	id       bson.RawValue
	key      string
	last     *row
	at       time.Time
	pending  []*row // deltas whose next revision has not come yet
	problems []Problem
}

func (h *history) found(p Problem) {
	p.ID = h.id
	h.problems = append(h.problems, p)
}

func (h *history) report(kind ProblemKind, number int64) {
	h.found(Problem{Kind: kind, Revision: number})
}

func (h *history) add(r *row) {
	switch {
	case h.last == nil:
	case r.number == h.last.number:
		h.report(DuplicateRevision, r.number)
		return
	case r.number > h.last.number+1:
		h.report(MissingRevision, h.last.number+1)
	}
	h.time(r.change.At, r.number)
	h.last = r
	if h.pending = append(h.pending, r); r.delta == nil {
		h.resolve(nil)
	}
}

func (h *history) time(at time.Time, number int64) {
	if at.Before(h.at) {
		date := func(at time.Time) bson.RawValue { return Change{At: at}.value().Document().Lookup(atKey) }
		h.found(Problem{Kind: TimeReversed, Revision: number, Field: h.opts.ChangeField + "." + atKey, Have: date(at), Want: date(h.at)})
	}
	h.at = at
}

// resolve applies the deltas before next.
func (h *history) resolve(next *state) {
	for len(h.pending) > 0 {
		r := h.pending[len(h.pending)-1]
		h.pending = h.pending[:len(h.pending)-1]
		s, err := r.state(next)
		switch {
		case errors.Is(err, errNoState):
			h.report(InvalidRevision, r.number)
		case err != nil:
			h.found(Problem{Kind: BrokenDelta, Revision: r.number, Field: h.opts.DeltaField})
		}
		next = s
	}
}

func (h *history) end(current *loaded) []Problem {
	switch {
	case current == nil:
		h.resolve(nil)
		if h.last != nil && !h.last.deleted {
			h.report(NoDeletion, h.last.number+1)
		}
	case current.err != nil:
		h.report(InvalidRevision, current.number)
		h.resolve(nil)
	case h.last == nil:
	case current.number <= h.last.number:
		h.found(Problem{Kind: NumberTaken, Revision: current.number, Field: h.opts.RevisionField,
			Have: current.raw.Lookup(h.opts.RevisionField), Want: int64Value(h.last.number + 1)})
		h.resolve(nil)
	default:
		if current.number > h.last.number+1 {
			h.report(MissingRevision, h.last.number+1)
		}
		h.time(current.change.At, current.number)
		h.resolve(current.state)
	}
	return h.problems
}
