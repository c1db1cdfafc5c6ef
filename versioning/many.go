package versioning

import (
	"context"
	"iter"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// SaveMany saves documents as Save does, each batch in one transaction. It replaces each revision
// with the result of Save: its new number, and the document as stored. Unchanged documents are
// Skipped. A document that cannot be saved is Failed, its revision is not replaced, and the other
// documents are saved. The error at the end matches that of each such document, which is a
// *ConflictError, mongopatterns.ErrNotFound, ErrInvalid or ErrMalformed, ErrInconsistent, or the
// server's.
//
// If an error ends SaveMany, the batches before it are saved. If the sequence yields an error, all
// documents before it are saved. Before you repeat the call, read the documents again, because
// those that were saved would conflict. If Work.Filter is not nil, SaveMany returns
// mongopatterns.ErrInvalid. With DryRun nothing is written and no revision is replaced.
//
// Cost: for each batch 4 round trips, commit included, and 2 documents written for each document changed, index _id.
//   - If one of them has had no number: 1 more.
func (d *History[ID, T]) SaveMany(ctx context.Context, revisions iter.Seq2[*Revision[T], error], change Change,
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "versioning.SaveMany")
	defer fault.In(&err, "versioning.SaveMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	w, err := maintain.CompletedItems(work, batchSize, true)
	if err != nil || revisions == nil {
		return result, err
	}
	if !w.DryRun {
		defer maintain.Unstored(&err, &result)
	}
	by, err := d.core.stamp(change)
	if err != nil {
		return result, err
	}
	var waiting []*saving[T] // not yet in a batch
	var ended error
	docs := func(yield func(bson.Raw, error) bool) {
		var r *Revision[T]
		for r, ended = range revisions {
			if ended != nil {
				return
			}
			ours, err := d.editedAt(r)
			if err != nil {
				result.Examined++
				maintain.Fail(&result, d.core.current.Name(), ours.raw.Lookup("_id"), err)
				if w.Strict { // those before it are still saved
					ended = err
					return
				}
				continue
			}
			waiting = append(waiting, &saving[T]{edited: ours, at: r})
			if !yield(ours.raw, nil) {
				return
			}
		}
	}
	for batch := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		n := len(batch)
		if err := d.saveMany(ctx, waiting[:n], by, w, &result); err != nil {
			return result, err
		}
		waiting = waiting[n:]
		w.Progress(result)
	}
	return result, ended
}

// A saving is one of the documents of SaveMany.
type saving[T any] struct {
	*edited
	at   *Revision[T]
	next *Revision[T] // nil if it failed
}

func (d *History[ID, T]) editedAt(r *Revision[T]) (*edited, error) {
	if r == nil {
		return &edited{}, fault.Invalid("the revision is nil")
	}
	return d.edited(*r)
}

// saveMany saves a batch; if the server refuses that, its halves.
func (d *History[ID, T]) saveMany(
	ctx context.Context, all []*saving[T], by stamp, work mongopatterns.Work, total *mongopatterns.Result,
) error {
	keys := make([]bson.Raw, len(all))
	for i, s := range all {
		keys[i] = diff.Raw([]diff.Field{field("_id", s.id), field("i", value.New(int32(i)))})
	}
	do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		some := make([]*saving[T], len(part))
		for i, key := range part {
			some[i] = all[key.Lookup("i").Int32()]
		}
		err := txn.Run(ctx, d.core.current, func(ctx context.Context) error {
			*result = mongopatterns.Result{}
			return d.saveBatch(ctx, some, by, work.DryRun, result)
		})
		if err != nil {
			*result = mongopatterns.Result{} // the transaction was aborted, or its outcome is unknown: InHalves counts it
			return err
		}
		for _, s := range some {
			if s.next != nil && !work.DryRun {
				*s.at = *s.next
			}
		}
		return nil
	}
	return maintain.InHalves(ctx, d.core.current.Name(), keys, work.Strict, total, do)
}

// A batch is what saveBatch knows and is about to write, within one run of its transaction.
type batch struct {
	stored map[string]loaded               // the documents, with what the batch makes of them, by the key of their _id
	heads  func() (map[string]head, error) // the newest revisions of those without a number, read once and only if asked for

	models []mongo.WriteModel // of the documents
	rows   []bson.Raw         // of the archive
}

// saveBatch saves documents, within a transaction.
func (d *History[ID, T]) saveBatch(ctx context.Context, all []*saving[T], by stamp, dry bool, result *mongopatterns.Result) error {
	b, err := d.begin(ctx, all)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := d.saveOne(b, s, by, result); err != nil {
			return err
		}
	}
	if dry || len(b.models) == 0 {
		return nil
	}
	done, err := fault.Many(d.core.current.BulkWrite(ctx, b.models)) // ordered: a document may occur twice
	if err != nil {
		return err
	}
	if done.MatchedCount != int64(len(b.models)) {
		return txn.Conflict("save a batch")
	}
	if len(b.rows) == 0 {
		return nil
	}
	return d.core.archive(ctx, b.rows...)
}

// begin reads the documents of a batch.
func (d *History[ID, T]) begin(ctx context.Context, all []*saving[T]) (*batch, error) {
	ids := bson.A{}
	for _, s := range all {
		ids = append(ids, s.id)
	}
	stored, err := d.core.loadMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	unnumbered := bson.A{}
	for _, l := range stored {
		if l.unnumbered {
			unnumbered = append(unnumbered, l.id)
		}
	}
	heads := sync.OnceValues(func() (map[string]head, error) { return d.core.ends(ctx, unnumbered) })
	return &batch{stored: stored, heads: heads}, nil
}

// saveOne adds the writes of a document to a batch, and counts it. Its error is not about the document.
func (d *History[ID, T]) saveOne(b *batch, s *saving[T], by stamp, result *mongopatterns.Result) error {
	s.next = nil // the transaction may run again
	now := b.stored[value.Key(s.id)]
	next, err := d.successor(now, s.edited, by)
	if err == nil && now.unnumbered && next.number > now.number {
		heads, failed := b.heads()
		if failed != nil {
			return failed
		}
		err = d.core.without(now.current, heads)
	}
	var shown Revision[T]
	if err == nil {
		shown, err = d.show(next, nil)
	}
	if err != nil {
		maintain.Fail(result, d.core.current.Name(), s.id, err)
		return nil
	}
	s.next = &shown
	if next == now.current {
		result.Skipped++
		return nil
	}
	if next.number > now.number && d.core.revisions != nil {
		b.rows = append(b.rows, d.core.archived(now.current, next))
	}
	result.Done++
	b.models = append(b.models, mongo.NewReplaceOneModel().SetFilter(d.core.guard(now.id, now.number)).SetReplacement(next.raw))
	b.stored[value.Key(s.id)] = loaded{current: next}
	return nil
}

// successor returns the current document changed by ours; now.current if nothing changes.
func (d *History[ID, T]) successor(now loaded, ours *edited, by stamp) (*current, error) {
	switch {
	case now.invalid != nil:
		return nil, now.invalid
	case now.current == nil:
		return nil, fault.Of(ours.id, mongopatterns.ErrNotFound)
	}
	changes, err := d.changes(now.current, ours)
	if err != nil || len(changes) == 0 {
		return now.current, err
	}
	next, err := d.core.draft(now.current, changes, d.core.counts(changes, by))
	if err != nil {
		return nil, err
	}
	return next.alone(), nil
}

// A loaded is one of several documents that were read.
type loaded struct {
	*current
	invalid error // why it cannot be read
}

// loadMany reads current documents, invalid ones included, by their _id, keyed by value.Key.
func (d *store) loadMany(ctx context.Context, ids bson.A) (map[string]loaded, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	docs, err := cursor.Collect(cursor.Find(ctx, d.primary.current, bson.D{expr.Element("_id", expr.Op("$in", ids))},
		options.Find().SetBatchSize(int32(min(len(ids)+1, 1<<20))))) // with one more the first reply closes the cursor
	return d.parseMany(docs), err
}

// parseMany is parse for several documents, invalid ones included, keyed by value.Key.
func (d *store) parseMany(docs []bson.Raw) map[string]loaded {
	out := make(map[string]loaded, len(docs))
	for _, raw := range docs {
		c, invalid := d.parse(raw)
		out[value.Key(c.id)] = loaded{c, invalid}
	}
	return out
}
