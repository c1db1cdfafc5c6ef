package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// transact runs fn in a transaction, unless there is no history.
func (d *store) transact(ctx context.Context, fn func(ctx context.Context) error) error {
	if d.revisions == nil {
		return fn(ctx)
	}
	return txn.Run(ctx, d.client(), fn)
}

// create inserts a document, after the history that it may have.
func (d *store) create(ctx context.Context, id bson.RawValue, all []doc.Field, change stamp) (*state, error) {
	var s *state
	err := d.transact(ctx, func(ctx context.Context) error {
		var err error
		if s, err = d.created(id, all, 1, change.after(stamp{})); err != nil {
			return err
		}
		// The insert comes first: it holds the _id, so that whoever deleted this
		// document before has committed, and its last revision is seen.
		if _, err := fault.One(d.current.InsertOne(ctx, s.document())); err != nil {
			return err
		}
		last, err := d.newest(ctx, id)
		if err != nil || last == nil {
			return err
		}
		if !last.deleted { // something else removed the document
			last = gone(last, stamp{at: s.change.at})
			err := d.archive(ctx, step{last, nil})
			if mongo.IsDuplicateKeyError(err) { // Repair has noticed, too
				return txn.Conflict("record a deletion")
			}
			if err != nil {
				return err
			}
		}
		if s, err = d.created(id, all, last.number+1, change.after(last.change)); err != nil {
			return err
		}
		_, err = fault.One(d.current.ReplaceOne(ctx, d.guard(id, 1), s.document()))
		return err
	})
	if taken(err) {
		err = fault.Of(id, fmt.Errorf("%w: %w", ErrExists, err))
	}
	return s, err
}

func (d *store) created(id bson.RawValue, all []doc.Field, number int64, change stamp) (*state, error) {
	s := &state{id: id, number: number, change: change}
	s.all = doc.Patch(all, d.own(s))
	return s, s.check()
}

// gone is the deletion that follows a revision.
func gone(last *state, change stamp) *state {
	return &state{id: last.id, number: last.number + 1, change: change.after(last.change), deleted: true}
}

// taken reports whether err says that there is a document of this _id, and not that
// another unique index refuses it.
func taken(err error) bool {
	var write mongo.WriteException
	if !errors.As(err, &write) || !mongo.IsDuplicateKeyError(err) || len(write.WriteErrors) == 0 {
		return false
	}
	pattern, ok := write.WriteErrors[0].Raw.Lookup("keyPattern").DocumentOK()
	return !ok || pattern.Lookup("_id").Type != 0
}

// save stores a wish. What the caller has read is not read again, unless the wish changes
// nothing of it: then it may be no longer current.
//
// Where a document that changes inside is no document any more, which the server then says,
// it is read after all.
func (d *store) save(ctx context.Context, w *wish, change stamp) (*state, error) {
	read := w.base == nil || w.partial || len(w.changes) == 0
	next, err := d.saveOver(ctx, w, change, read)
	var server mongo.ServerError
	if !read && !txn.Running(ctx) && errors.As(err, &server) && server.HasErrorCode(codePathNotViable) {
		return d.saveOver(ctx, w, change, true)
	}
	return next, err
}

const codePathNotViable = 28

func (d *store) saveOver(ctx context.Context, w *wish, change stamp, read bool) (*state, error) {
	now := w.base
	if read {
		var err error
		if now, err = d.primary.get(ctx, w.id); err != nil {
			return nil, err
		}
	}
	if err := d.over(w, now); err != nil {
		return nil, err
	}
	return d.revise(ctx, now, change, w.apply)
}

// over says whether a wish is one for the current document, and completes it by that.
func (d *store) over(w *wish, now *state) error {
	if now.number != w.read {
		return &ConflictError{ID: now.id, Read: w.read, Current: now.number}
	}
	if w.base == nil {
		return d.know(w, now)
	}
	return nil
}

// next is what changes make of the current document: itself if there are none, under the
// same number if only Options.Ignored change.
func (d *store) next(now *state, change stamp, what []doc.Field) (*state, error) {
	if slices.ContainsFunc(what, func(f doc.Field) bool { return !slices.Contains(d.opts.Ignored, f.Key) }) {
		return d.successor(now, &change, what)
	}
	if len(what) > 0 {
		return d.successor(now, nil, what)
	}
	return now, nil
}

// revise changes base, the current document, or, if that is stored otherwise by now, what
// is stored.
func (d *store) revise(ctx context.Context, base *state, change stamp, what func(*state) []doc.Field) (*state, error) {
	first, err := d.next(base, change, what(base))
	if err != nil || first == base {
		return first, err
	}
	if d.revisions == nil || first.number == base.number {
		_, _, err = d.put(ctx, base, first, true)
		return first, err
	}
	next := first
	err = txn.Run(ctx, d.client(), func(ctx context.Context) error {
		next = first
		found, sent, err := d.put(ctx, base, next, false)
		if err != nil {
			return err
		}
		before := base
		if !bytes.Equal(found, base.document()) {
			// Something else has written to it without counting: an ignored field,
			// most likely. What is stored now is what this revision follows.
			if before, err = d.parse(found); err != nil {
				return err
			}
			if next, err = d.successor(before, &change, what(before)); err != nil {
				return err
			}
			if sent == nil || !bytes.Equal(sent, next.edit(false)) { // else the same update has made it
				if _, err = fault.One(d.current.ReplaceOne(ctx, byID(base.id), next.document())); err != nil {
					return err
				}
			}
		}
		return d.follow(ctx, step{before, next})
	})
	return next, err
}

// successor is the revision that follows before, or with a nil change the same one
// with other fields.
func (d *store) successor(before *state, change *stamp, what []doc.Field) (*state, error) {
	next := state{id: before.id, number: before.number, bare: before.bare, change: before.change, before: before}
	if change != nil {
		next.number, next.bare, next.change = before.number+1, false, change.after(before.change)
		next.own = d.own(&next)
	}
	next.changes = what
	next.all = doc.Patch(before.all, append(slices.Clip(what), next.own...))
	return &next, next.check()
}

// put makes next of the current document if it still is the revision base. It returns
// what it found, of which only the _id if blind, and the update that it has sent, if it
// was one. A blind write names nothing but what differs, so that what else has changed
// stays.
func (d *store) put(ctx context.Context, base, next *state, blind bool) (found, update bson.Raw, err error) {
	filter := d.guard(base.id, base.number)
	var projection any
	if blind {
		projection = bson.D{expr.Element("_id", 1)}
	}
	if update = next.edit(blind); update != nil {
		opts := options.FindOneAndUpdate().SetProjection(projection)
		found, err = fault.Single(d.current.FindOneAndUpdate(ctx, filter, update, opts)).Raw()
	} else {
		opts := options.FindOneAndReplace().SetProjection(projection)
		found, err = fault.Single(d.current.FindOneAndReplace(ctx, filter, next.document(), opts)).Raw()
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil, d.conflict(ctx, base.id, base.number)
	}
	return found, update, fault.Of(base.id, err)
}

// edit is the update that makes a state of the one before; nil if only a replacement
// does: a key may be one that no path can name, and where several fields are new the
// server chooses their order, which only a blind write leaves to it.
func (s *state) edit(blind bool) bson.Raw {
	e := edit{blind: blind}
	ok := e.add("", s.before.all, s.changes)
	for _, f := range s.own {
		e.set = append(e.set, f)
		if doc.Find(s.before.all, f.Key).Type == 0 {
			e.added++
		}
	}
	if !ok || e.added > 1 && !blind {
		return nil
	}
	return doc.Raw(doc.Filled(field("$set", doc.Embedded(e.set)), field("$unset", doc.Embedded(e.unset))))
}

// An edit collects values to set and to unset, by their paths, and counts new fields.
type edit struct {
	set, unset []doc.Field
	added      int
	blind      bool
}

// add adds changes of a document. Documents change inside where that is exact, so that
// what other code writes beside is kept.
func (e *edit) add(prefix string, all, what []doc.Field) bool {
	in := doc.In(all)
	for _, c := range what {
		if c.Key == "" || c.Key[0] == '$' || strings.Contains(c.Key, ".") {
			return false
		}
		old := in.Value(c.Key)
		c.Key = prefix + c.Key
		switch {
		case c.Value.Type == 0:
			e.unset = append(e.unset, field(c.Key, valueOf("")))
		case old.Type == 0:
			e.set, e.added = append(e.set, c), e.added+1
		case !doc.Identical(old, c.Value) && !e.inside(c.Key+".", old, c.Value):
			e.set = append(e.set, c)
		}
	}
	return true
}

func (e *edit) inside(prefix string, old, value bson.RawValue) bool {
	x, y, ok := doc.Inside(old, value)
	if !ok || value.Type != bson.TypeEmbeddedDocument {
		return false
	}
	inner := edit{blind: e.blind}
	what := doc.Changes(x, y)
	if !doc.Same(doc.Patch(x, what), y) || !inner.add(prefix, x, what) || inner.added > 1 && !e.blind {
		return false
	}
	e.set, e.unset = append(e.set, inner.set...), append(e.unset, inner.unset...)
	return true
}

// A step is a state for the history, and the one that follows, nil if it must not be
// stored as a delta from that.
type step struct{ state, next *state }

// fresh refuses a document without a number if it is among those with a history: one that
// Prune has cut lets the unique index accept another beginning.
func (d *store) fresh(s *state, ends map[string]state) error {
	if _, has := ends[value.Key(s.id)]; !has {
		return nil
	}
	err := fmt.Errorf("%w: no %q, but a history: Adopt gives it the next number", ErrInconsistent, d.opts.RevisionField)
	return fault.Of(s.id, err)
}

// follow archives what was current, and what follows it.
func (d *store) follow(ctx context.Context, steps ...step) error {
	if was := steps[0].state; was.bare {
		ends, err := d.ends(ctx, bson.A{was.id})
		if err == nil {
			err = d.fresh(was, ends)
		}
		if err != nil {
			return err
		}
	}
	return d.archive(ctx, steps...)
}

func (d *store) archive(ctx context.Context, steps ...step) error {
	rows := make([]bson.Raw, len(steps))
	for i, s := range steps {
		rows[i] = d.row(s.state, s.next)
	}
	_, err := fault.Many(d.revisions.InsertMany(ctx, rows))
	if mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("%w: the history has a revision of this number: %w", ErrInconsistent, err)
	}
	return err
}

// conflict says why the guard of a write to a revision that was read did not match.
func (d *store) conflict(ctx context.Context, id bson.RawValue, read int64) error {
	now, err := d.primary.get(ctx, id)
	switch {
	case err != nil:
		return err
	case now.number == read && txn.Running(ctx):
		return txn.Conflict("find the reason of a conflict")
	}
	return &ConflictError{ID: now.id, Read: read, Current: now.number}
}

func (d *store) delete(ctx context.Context, id bson.RawValue, read int64, change stamp) error {
	return d.transact(ctx, func(ctx context.Context) error {
		found, err := fault.Single(d.current.FindOneAndDelete(ctx, d.guard(id, read))).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return d.conflict(ctx, id, read)
		}
		if err != nil || d.revisions == nil {
			return err
		}
		last, err := d.parse(found)
		if err != nil {
			return err
		}
		after := gone(last, change)
		if err := after.check(); err != nil {
			return err
		}
		return d.follow(ctx, step{last, nil}, step{after, nil})
	})
}

// Restore makes revision n of the history current again, as a new revision, whatever
// is current: also if the document was deleted. Options.Ignored stay as they are.
// If the current document is the same already, as for a repeated call, nothing is
// written.
//
// Cost: that of At and 4 round trips, 2 documents written. Of a deleted document
// that of At and 5, of one that something else removed 6 and 3; 1 more for a document
// without a number.
func (d *Documents[ID, T]) Restore(ctx context.Context, id ID, n int64, change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: restore")
	return d.again(ctx, id, n, change, d.core.primary.restore)
}

// Undo takes back what revision n, 2 or more, has changed, and keeps what later revisions
// have: the differences between n-1 and n are applied backwards to the current document,
// as a new revision. Elements of arrays are found wherever they are now. If a later
// revision has changed the same value, as after a repeated call, the error is
// mongopatterns.ErrConflict, and names it.
//
// Cost: that of At twice, and 4 round trips, 2 documents written.
func (d *Documents[ID, T]) Undo(ctx context.Context, id ID, n int64, change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: undo")
	if n < 2 {
		return Revision[T]{}, fault.Invalid("revision: %d, want 2 or more", n)
	}
	return d.again(ctx, id, n, change, d.core.primary.undo)
}

// again makes a new revision out of an old one.
func (d *Documents[ID, T]) again(ctx context.Context, id ID, n int64, change Change,
	do func(ctx context.Context, id bson.RawValue, n int64, change stamp) (*state, error)) (Revision[T], error) {
	c, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.retry(ctx, func() (Revision[T], error) {
		return d.one(id, func(key bson.RawValue) (*state, error) { return do(ctx, key, n, c) })
	})
}

func (d *store) restore(ctx context.Context, id bson.RawValue, n int64, change stamp) (*state, error) {
	then, err := d.revision(ctx, id, n, nil, nil)
	if err != nil {
		return nil, err
	}
	s, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	old := d.kept(then)
	but := func(all []doc.Field) []doc.Field { return doc.Without(all, "_id") } // 1 stays where 1.0 was
	if s == nil {
		return d.create(ctx, then.id, old, change)
	}
	return d.revise(ctx, s, change, func(stored *state) []doc.Field { return doc.Changes(but(d.kept(stored)), but(old)) })
}

func (d *store) undo(ctx context.Context, id bson.RawValue, n int64, change stamp) (*state, error) {
	before, after, err := d.two(ctx, id, n-1, n)
	if err != nil {
		return nil, err
	}
	s, err := d.get(ctx, id)
	if err != nil {
		return nil, err
	}
	var clashes []string
	what := func(stored *state) []doc.Field {
		now := d.kept(stored)
		var merged []doc.Field
		merged, clashes = doc.Merge(after, now, before, doc.Options{Arrays: doc.Matched})
		return doc.Changes(now, merged)
	}
	if what(s); clashes != nil {
		err := fmt.Errorf("%w: later revisions have changed %s too", fault.ErrConflict, strings.Join(clashes, ", "))
		return nil, ofRevision(id, n, err)
	}
	return d.revise(ctx, s, change, what)
}

// SaveMany saves documents, each as Save does, in one transaction a batch. Those that
// cannot be saved are Failed: a *ConflictError, mongopatterns.ErrNotFound, ErrInvalid,
// ErrInconsistent, or what the server refuses; they leave the others alone. Unchanged ones
// are Skipped. If an error ends it, the batches before are saved, and if the sequence ends
// with one, all before it. To repeat it, read again: what was saved conflicts. work.Filter
// is not used.
//
// Cost: for each batch 4 round trips, commit included, and 2 documents written for
// each document changed, found by _id; 1 more if one of them has had no number.
func (d *Documents[ID, T]) SaveMany(ctx context.Context, revisions iter.Seq2[Revision[T], error], change Change,
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "versioning: save many")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	w, err := maintain.Of(work, batchSize)
	if err != nil {
		return result, err
	}
	c, err := d.core.stamp(change)
	if err != nil {
		return result, err
	}
	var wishes []*wish // of the documents that no batch has had yet
	var ended error
	docs := func(yield func(bson.Raw, error) bool) {
		var r Revision[T]
		for r, ended = range revisions {
			if ended != nil {
				return
			}
			one, err := d.wish(r)
			if err != nil {
				result.Examined++
				result.Fail(d.core.current.Name(), one.raw.Lookup("_id"), err)
				continue
			}
			wishes = append(wishes, one)
			if !yield(one.raw, nil) {
				return
			}
		}
	}
	for batch := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		n := len(batch)
		if err := d.core.saveMany(ctx, wishes[:n], c, w, &result); err != nil {
			return result, err
		}
		wishes = wishes[n:]
		w.Progress(result)
	}
	return result, ended
}

// saveMany saves a batch; if the server refuses it, one by one.
func (d *store) saveMany(
	ctx context.Context, wishes []*wish, change stamp, work mongopatterns.Work, total *mongopatterns.Result,
) error {
	keys := make([]bson.Raw, len(wishes))
	for i, w := range wishes {
		keys[i] = doc.Raw([]doc.Field{field("_id", w.id), field("i", valueOf(int32(i)))})
	}
	do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		some := make([]*wish, len(part))
		for i, key := range part {
			some[i] = wishes[key.Lookup("i").Int32()]
		}
		err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
			*result = mongopatterns.Result{}
			return d.saveBatch(ctx, some, change, work.DryRun, result)
		})
		if err != nil {
			*result = mongopatterns.Result{} // the transaction is aborted, or its end not known: Apart counts it so
		}
		return err
	}
	return maintain.Apart(ctx, d.current.Name(), keys, work.Strict, total, do)
}

func (d *store) saveBatch(ctx context.Context, wishes []*wish, change stamp, dry bool, result *mongopatterns.Result) error {
	ids := bson.A{}
	for _, w := range wishes {
		ids = append(ids, w.id)
	}
	stored, err := d.loadMany(ctx, ids)
	if err != nil {
		return err
	}
	bare := bson.A{}
	for _, s := range stored {
		if s.bare {
			bare = append(bare, s.id)
		}
	}
	ends := sync.OnceValues(func() (map[string]state, error) { return d.ends(ctx, bare) })
	var models []mongo.WriteModel
	var steps []step
	for _, w := range wishes {
		now := stored[value.Key(w.id)]
		next, err := now, error(nil)
		switch one := *w; { // the transaction may run again
		case now == nil:
			err = fault.Of(w.id, fault.ErrNotFound)
		case now.invalid != nil:
			err = now.invalid
		default:
			if err = d.over(&one, now); err == nil {
				next, err = d.next(now, change, one.apply(now))
			}
			if err == nil && now.bare && next.number > now.number {
				all, failed := ends()
				if failed != nil {
					return failed
				}
				err = d.fresh(now, all)
			}
		}
		if err != nil {
			result.Fail(d.current.Name(), w.id, err)
			continue
		}
		if next == now {
			result.Skipped++
			continue
		}
		if next.number > now.number && d.revisions != nil {
			steps = append(steps, step{now, next})
		}
		result.Done++
		models = append(models, mongo.NewReplaceOneModel().SetFilter(d.guard(now.id, now.number)).SetReplacement(next.document()))
		stored[value.Key(w.id)] = next
	}
	if dry || len(models) == 0 {
		return nil
	}
	done, err := fault.Many(d.current.BulkWrite(ctx, models)) // ordered: one document may come twice
	if err != nil {
		return err
	}
	if done.MatchedCount != int64(len(models)) {
		return txn.Conflict("save a batch")
	}
	if len(steps) == 0 {
		return nil
	}
	return d.archive(ctx, steps...)
}

// loadMany reads current documents by their _id, keyed by value.Key, invalid ones too.
func (d *store) loadMany(ctx context.Context, ids bson.A) (map[string]*state, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.primary.current.Find(ctx, bson.D{expr.Element("_id", expr.Op("$in", ids))},
			options.Find().SetBatchSize(int32(min(len(ids)+1, 1<<20)))) // one more closes the cursor with the first answer
	}))
	return d.parseMany(docs), err
}

// parseMany is parse of several, keyed by value.Key, invalid ones too.
func (d *store) parseMany(docs []bson.Raw) map[string]*state {
	out := make(map[string]*state, len(docs))
	for _, raw := range docs {
		s, invalid := d.parse(raw)
		s.invalid = invalid
		out[value.Key(s.id)] = s
	}
	return out
}
