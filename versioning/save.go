package versioning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Create inserts a document as revision 1, or, if one of this _id was deleted, as
// the revision after that. A document without _id gets an ObjectID, which is in the
// result if T has a field for it. If there is a current document of this _id, the
// error is ErrExists; if the _id is no ID, ErrInvalid. An empty string, or another
// zero value, is an _id like any other. Options.RevisionField and ChangeField are
// replaced by what the package knows, whatever the document has in them.
//
// A document that something else removed gets its deletion into the history first,
// by nobody, at the time of the creation.
//
// Cost: 3 round trips, 1 document written, 1 key examined of the unique index; 4
// and 2 writes over a deleted one; 5 and 3 where the deletion is missing; 1 without
// _id; 2, with the abort, if it exists. In your own transaction 1 more, as a duplicate
// key would end it.
func (d *Documents[ID, T]) Create(ctx context.Context, document T, change Change) (Revision[T], error) {
	if err := change.check(); err != nil {
		return Revision[T]{}, fail("create", err)
	}
	all, err := d.encode(document)
	if err != nil {
		return Revision[T]{}, fail("create", err)
	}
	s := &state{number: 1, fields: all}
	var chosen bool
	if s.id, chosen = find(all, "_id"); !chosen {
		oid := bson.NewObjectID()
		s.id = bson.RawValue{Type: bson.TypeObjectID, Value: oid[:]}
		s.fields = append([]field{{"_id", s.id}}, all...)
	}
	if err := d.checkID(s.id); err != nil {
		return Revision[T]{}, fail("create", err)
	}
	if chosen {
		s, err = d.create(ctx, s, change)
	} else {
		s.change = change.after(Change{})
		if err = d.assemble(s); err == nil { // a new ID has no history
			_, err = d.current.InsertOne(ctx, s.raw)
		}
	}
	if err != nil {
		return Revision[T]{}, fail("create", err)
	}
	revision, err := d.revision(s)
	return revision, fail("create", err)
}

func (d *Documents[ID, T]) create(ctx context.Context, s *state, change Change) (*state, error) {
	joined := txn.Running(ctx)
	var out state
	err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
		if joined {
			switch taken, err := d.exists(ctx, s.id); {
			case err != nil:
				return err
			case taken:
				return of(s.id, ErrExists)
			}
		}
		out = *s
		out.number, out.change = 1, change.after(Change{})
		if err := d.assemble(&out); err != nil {
			return err
		}
		// The insert comes first: it holds the _id, so that whoever deleted this
		// document before has committed, and its last revision is seen.
		if _, err := d.current.InsertOne(ctx, out.raw); err != nil {
			return err
		}
		last, err := d.newest(ctx, s.id)
		if errors.Is(err, ErrInconsistent) {
			_, undo := d.current.DeleteOne(ctx, bson.D{{Key: "_id", Value: d.equal(s.id)}})
			return errors.Join(err, undo)
		}
		if err != nil || last == nil {
			return err
		}
		if !last.deleted { // something else removed the document
			last = &row{document: s.id, number: last.number + 1, change: Change{At: out.change.At}.after(last.change), deleted: true}
			err := d.archive(ctx, nil, d.row(&state{id: s.id, number: last.number, change: last.change, deleted: true}, nil))
			if mongo.IsDuplicateKeyError(err) { // Repair has noticed, too
				return txn.Conflict("record a deletion")
			}
			if err != nil {
				return err
			}
		}
		out.number, out.change = last.number+1, change.after(last.change)
		if err := d.assemble(&out); err != nil {
			return err
		}
		_, err = d.current.ReplaceOne(ctx, d.guard(s.id, 1), out.raw)
		return err
	})
	if d.isTaken(ctx, s.id, err) {
		err = fmt.Errorf("%w: %w", of(s.id, ErrExists), err)
	}
	return &out, err
}

// isTaken reports whether err says that there is a document of this _id, and not
// that another unique index of the user's refuses it.
func (d *Documents[ID, T]) isTaken(ctx context.Context, id bson.RawValue, err error) bool {
	var write mongo.WriteException
	if !mongo.IsDuplicateKeyError(err) || !errors.As(err, &write) || txn.Running(ctx) {
		return false
	}
	for _, e := range write.WriteErrors {
		if pattern, ok := e.Raw.Lookup("keyPattern").DocumentOK(); ok {
			return !pattern.Lookup("_id").IsZero()
		}
	}
	taken, err := d.exists(ctx, id) // of a server that does not say
	return err == nil && taken
}

func (d *Documents[ID, T]) client() *mongo.Client { return d.current.Database().Client() }

func (d *Documents[ID, T]) exists(ctx context.Context, id bson.RawValue) (bool, error) {
	err := d.currentPrimary.FindOne(ctx, bson.D{{Key: "_id", Value: d.equal(id)}},
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// newest is the last revision in the history, number and change only; nil if there
// is none.
func (d *Documents[ID, T]) newest(ctx context.Context, id bson.RawValue) (*row, error) {
	raw, err := d.revisionsPrimary.FindOne(ctx, d.rowFilter(d.equal(id)), options.FindOne().
		SetSort(bson.D{{Key: d.opts.RevisionField, Value: -1}}).
		SetProjection(bson.D{{Key: d.opts.DocumentIDField, Value: 1}, {Key: d.opts.RevisionField, Value: 1}, {Key: d.opts.ChangeField, Value: 1}, {Key: d.opts.DeletedField, Value: 1}})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.parseRow(raw)
}

// Save stores what r.Document has different from the document read, as a new
// revision, and returns it. r is what Get or another call returned, or is made by
// hand of the number read and the document. If that number is no longer current the
// error is a *ConflictError, if the document is gone ErrNotFound. Of r from the
// history, which leaves them out, Options.Ignored stay as they are stored.
//
// If nothing has changed, or nothing but Options.Ignored, the number stays. What
// something else has changed since it was read, without counting, stays as well, but
// for values that r.Document has changed too, of which arrays are one each.
//
// Cost: 3 round trips, 2 documents written, 1 key examined by _id; 1 if nothing, or
// only ignored fields, changed; 1 more for r made by hand, or of the history where
// fields are ignored, or if something else than this package has changed the document
// since it was read; 1 more for the first save of a document without a number. A
// conflict costs 3, with the abort, and writes nothing: 2 if nothing, or only ignored
// fields, changed; 1 if r is one that is read first.
func (d *Documents[ID, T]) Save(ctx context.Context, r Revision[T], change Change) (Revision[T], error) {
	if err := change.check(); err != nil {
		return Revision[T]{}, fail("save", err)
	}
	revision, err := d.save(ctx, r, change)
	return revision, fail("save", err)
}

func (d *Documents[ID, T]) save(ctx context.Context, r Revision[T], change Change) (Revision[T], error) {
	w, err := d.wish(r)
	if err != nil {
		return Revision[T]{}, err
	}
	base := w.base
	look := base == nil || r.partial
	if look {
		if base, err = d.load(ctx, d.currentPrimary, w.id); err != nil {
			return Revision[T]{}, err
		}
		if base.number != r.Number {
			return Revision[T]{}, &ConflictError{ID: base.id, Read: r.Number, Current: base.number}
		}
		if w.base == nil {
			if err := d.know(&w, base); err != nil {
				return Revision[T]{}, err
			}
		}
	}
	s := base
	switch ignored, changed := d.compare(base.fields, w.apply(base.fields)); {
	case changed:
		s, err = d.replace(ctx, base, change, w.apply)
	case ignored != nil:
		s, err = d.touch(ctx, base, ignored, w.apply(base.fields))
	case !look:
		err = d.unchanged(ctx, base)
	}
	if err != nil {
		return Revision[T]{}, err
	}
	return d.revision(s)
}

// A wish is what a caller wants saved: what he changed in what he read.
type wish struct {
	id      bson.RawValue
	read    int64
	partial bool   // the document is of the history, and lacks Options.Ignored
	base    *state // what was read, nil if that is not known

	known, next []field // the same before and after, as the caller's type sees it
}

// apply carries the changes over to base, of which known is a view, and then to what
// is stored by now.
func (w *wish) apply(stored []field) []field {
	return merge(stored, w.base.fields, merge(w.base.fields, w.known, w.next, true), false)
}

func (d *Documents[ID, T]) wish(r Revision[T]) (wish, error) {
	w := wish{read: r.Number, partial: r.partial}
	if r.Number < 1 {
		return w, fmt.Errorf("%w: Revision.Number: %d, want 1 or more", ErrInvalid, r.Number)
	}
	var err error
	if w.next, err = d.encode(r.Document); err != nil {
		return w, err
	}
	var ok bool
	w.id, ok = find(w.next, "_id")
	if r.stored != nil {
		base, err := d.parse(r.stored)
		if err != nil {
			return w, err
		}
		if base.number == r.Number {
			err = d.know(&w, base)
			return w, err
		}
	}
	if !ok {
		return w, fmt.Errorf("%w: document: no _id", ErrInvalid)
	}
	return w, nil
}

// know completes a wish by what was read.
func (d *Documents[ID, T]) know(w *wish, base *state) error {
	view := base
	if w.partial {
		view = d.past(base)
	}
	r, err := d.revision(view)
	if err != nil {
		return err
	}
	if w.known, err = d.encode(r.Document); err != nil {
		return err
	}
	if w.id.Type != 0 && rawvalue.Key(w.id) != rawvalue.Key(base.id) {
		return fmt.Errorf("%w: _id %s is not %s, which was read", ErrInvalid, rawvalue.Text(w.id), rawvalue.Text(base.id))
	}
	// The _id stays as stored: 1 for 1.0 is no change, nor is none.
	w.base, w.id, w.known, w.next = base, base.id, without(w.known, "_id"), without(w.next, "_id")
	return nil
}

// compare says whether two states differ in the history's fields, and if not, which
// ignored ones do.
func (d *Documents[ID, T]) compare(a, b []field) (ignored []string, changed bool) {
	if !sameFields(d.versioned(a), d.versioned(b)) {
		return nil, true
	}
	for _, key := range d.opts.Ignored {
		x, _ := find(a, key)
		y, _ := find(b, key)
		if !same(x, y) {
			ignored = append(ignored, key)
		}
	}
	return ignored, false
}

func (d *Documents[ID, T]) versioned(all []field) []field {
	if len(d.opts.Ignored) == 0 {
		return all
	}
	return without(all, d.opts.Ignored...)
}

// replace makes of base the next revision, with the fields that content makes of
// those that are stored.
func (d *Documents[ID, T]) replace(ctx context.Context, base *state, change Change, content func([]field) []field) (*state, error) {
	var next *state
	err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
		var err error
		if next, err = d.successor(base, change, content(base.fields)); err != nil {
			return err
		}
		found, err := d.current.FindOneAndReplace(ctx, d.guard(base.id, base.number), next.raw).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return d.conflict(ctx, base)
		}
		if err != nil {
			return err
		}
		before := base
		if !sameDocument(found, base.raw) {
			// Something else has written to it without counting: an ignored field,
			// most likely. What is stored now is what this revision follows.
			if before, err = d.parse(found); err == nil {
				next, err = d.successor(before, change, content(before.fields))
			}
			filter := bson.D{{Key: "_id", Value: d.equal(base.id)}}
			if err != nil { // put back, for the caller may go on with a transaction of his
				_, failed := d.current.DeleteOne(ctx, filter)
				_, undo := d.current.InsertOne(ctx, found) // it may be what no replacement may be
				return errors.Join(err, failed, undo)
			}
			if _, err = d.current.ReplaceOne(ctx, filter, next.raw); err != nil {
				return err
			}
		}
		return d.archive(ctx, bare(before), d.row(before, next))
	})
	return next, err
}

// successor is the revision that follows before. Both must fit into a revision.
func (d *Documents[ID, T]) successor(before *state, change Change, all []field) (*state, error) {
	next := &state{id: before.id, number: before.number + 1, narrow: before.narrow,
		change: change.after(before.change), fields: all}
	return next, errors.Join(d.assemble(next), checkSize(before))
}

// archive inserts revisions. Documents in bare have had no number, so they must have
// no history: one that Prune has cut lets the unique index accept another beginning.
func (d *Documents[ID, T]) archive(ctx context.Context, bare bson.A, rows ...bson.Raw) error {
	if len(bare) > 0 {
		found, err := d.revisionsPrimary.FindOne(ctx, d.rowFilter(bson.D{{Key: "$in", Value: bare}}),
			options.FindOne().SetProjection(bson.D{{Key: d.opts.DocumentIDField, Value: 1}})).Raw()
		if err == nil {
			return fmt.Errorf("%w: document %s has no %q, but a history: Adopt gives it the next number",
				ErrInconsistent, rawvalue.Text(found.Lookup(d.opts.DocumentIDField)), d.opts.RevisionField)
		}
		if !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
	}
	_, err := d.revisions.InsertMany(ctx, rows)
	if mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("%w: the history has a revision of this number: %w", ErrInconsistent, err)
	}
	return err
}

// bare is the document's ID if it is stored without a number.
func bare(s *state) bson.A {
	if s.bare {
		return bson.A{s.id}
	}
	return nil
}

// conflict says why the guard of a write to base did not match.
func (d *Documents[ID, T]) conflict(ctx context.Context, base *state) error {
	raw, err := d.currentPrimary.FindOne(ctx, bson.D{{Key: "_id", Value: d.equal(base.id)}}, options.FindOne().
		SetProjection(bson.D{{Key: d.opts.RevisionField, Value: 1}, {Key: d.opts.ChangeField, Value: 1}})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return of(base.id, ErrNotFound)
	}
	if err != nil {
		return err
	}
	now, err := d.parse(raw)
	if err != nil {
		return err
	}
	if now.number == base.number {
		return txn.Conflict("find the reason of a conflict")
	}
	return &ConflictError{ID: base.id, Read: base.number, Current: now.number}
}

// touch stores ignored fields without a revision.
func (d *Documents[ID, T]) touch(ctx context.Context, base *state, ignored []string, all []field) (*state, error) {
	next, err := d.touched(base, all)
	if err != nil {
		return nil, err
	}
	var set, unset bson.D
	for _, key := range ignored {
		old, _ := find(base.fields, key)
		next, _ := find(all, key)
		assign(&set, &unset, key, old, next)
	}
	var update bson.D
	if set != nil {
		update = append(update, bson.E{Key: "$set", Value: set})
	}
	if unset != nil {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	done, err := d.current.UpdateOne(ctx, d.guard(base.id, base.number), update)
	if err != nil {
		return nil, err
	}
	if done.MatchedCount == 0 {
		return nil, d.conflict(ctx, base)
	}
	return next, nil
}

// assign adds what makes next of old at path; in documents it names only the fields
// that differ, so that of the others what is stored by now stays.
func assign(set, unset *bson.D, path string, old, next bson.RawValue) {
	a, aOK := parts(old)
	b, bOK := parts(next)
	switch {
	case same(old, next):
	case next.Type == 0:
		*unset = append(*unset, bson.E{Key: path, Value: ""})
	case aOK && bOK && old.Type == bson.TypeEmbeddedDocument && next.Type == old.Type && plain(a) && plain(b):
		inA, inB := index(a), index(b)
		for _, f := range b {
			was, _ := inA(f.key)
			assign(set, unset, path+"."+f.key, was, f.value)
		}
		for _, f := range a {
			if _, ok := inB(f.key); !ok {
				assign(set, unset, path+"."+f.key, f.value, bson.RawValue{})
			}
		}
	default:
		*set = append(*set, bson.E{Key: path, Value: next})
	}
}

// plain reports whether all keys can be part of a path.
func plain(all []field) bool {
	return !slices.ContainsFunc(all, func(f field) bool {
		return f.key == "" || f.key[0] == '$' || strings.Contains(f.key, ".")
	})
}

// touched is base with other fields and the same number and change, also if it has
// none.
func (d *Documents[ID, T]) touched(base *state, all []field) (*state, error) {
	next := *base
	next.fields = slices.Clip(all)
	whole, err := fields(base.raw)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{d.opts.RevisionField, d.opts.ChangeField} {
		if v, ok := find(whole, key); ok {
			all = append(all, field{key, v})
		}
	}
	next.raw = document(all)
	return &next, checkSize(&next)
}

// unchanged checks that the document is still what was read.
func (d *Documents[ID, T]) unchanged(ctx context.Context, base *state) error {
	err := d.currentPrimary.FindOne(ctx, d.guard(base.id, base.number),
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return d.conflict(ctx, base)
	}
	return err
}

// Update reads the current document, has fn change it, and saves it; after a
// conflict with another writer it begins again, so that fn can run several times; an
// error of fn ends it. It returns the new revision, or the current one if fn changed
// nothing. After
// Options.MaxRetries the last *ConflictError is returned, in your own transaction
// the first.
//
// Cost: 4 round trips, 2 documents written; 2 if nothing changed; 4 more for each
// conflict; 1 more for a document without a number.
func (d *Documents[ID, T]) Update(ctx context.Context, id ID, fn func(*T) error, change Change) (Revision[T], error) {
	if fn == nil {
		return Revision[T]{}, fail("update", fmt.Errorf("%w: fn: nil", ErrInvalid))
	}
	if err := change.check(); err != nil {
		return Revision[T]{}, fail("update", err)
	}
	key, err := d.value(id)
	if err != nil {
		return Revision[T]{}, fail("update", err)
	}
	revision, err := d.retry(ctx, func() (r Revision[T], again bool, err error) {
		s, err := d.load(ctx, d.currentPrimary, key)
		if err != nil {
			return r, false, err
		}
		if r, err = d.revision(s); err != nil {
			return r, false, err
		}
		if err := fn(&r.Document); err != nil {
			return r, false, err // also if it is a conflict of another document
		}
		r, err = d.save(ctx, r, change)
		return r, true, err
	})
	if err != nil {
		return Revision[T]{}, fail("update", err)
	}
	return revision, nil
}

// retry repeats what met another writer, unless try says that it must not be.
func (d *Documents[ID, T]) retry(ctx context.Context, try func() (r Revision[T], again bool, err error)) (Revision[T], error) {
	joined := txn.Running(ctx)
	for attempt := 0; ; attempt++ {
		r, again, err := try()
		var conflict *ConflictError
		met := errors.As(err, &conflict) || errors.Is(err, ErrExists) // of Restore: brought back by another
		if !met || !again || joined || attempt >= d.opts.MaxRetries {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("%w (last attempt: %w)", ctx.Err(), err)
		case <-time.After(rand.N(min(time.Millisecond<<min(attempt, 8), 100*time.Millisecond))):
		}
	}
}

// Delete removes the current document, if it still is the revision read, and leaves
// its last state and the deletion in the history.
//
// Cost: 3 round trips, 3 documents written, 1 key examined by _id; 1 more for a
// document without a number. A conflict costs 3, with the abort, and writes nothing.
func (d *Documents[ID, T]) Delete(ctx context.Context, id ID, read int64, change Change) error {
	return fail("delete", d.delete(ctx, id, read, change))
}

func (d *Documents[ID, T]) delete(ctx context.Context, id ID, read int64, change Change) error {
	if read < 1 {
		return fmt.Errorf("%w: read: %d, want 1 or more", ErrInvalid, read)
	}
	if err := change.check(); err != nil {
		return err
	}
	key, err := d.value(id)
	if err != nil {
		return err
	}
	return txn.Run(ctx, d.client(), func(ctx context.Context) error {
		found, err := d.current.FindOneAndDelete(ctx, d.guard(key, read)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return d.conflict(ctx, &state{id: key, number: read})
		}
		if err != nil {
			return err
		}
		last, err := d.parse(found)
		if err == nil {
			err = checkSize(last)
		}
		if err != nil { // put back, for the caller may go on with a transaction of his
			_, undo := d.current.InsertOne(ctx, found)
			return errors.Join(err, undo)
		}
		gone := &state{id: last.id, number: last.number + 1, change: change.after(last.change), deleted: true}
		return d.archive(ctx, bare(last), d.row(last, nil), d.row(gone, nil))
	})
}

// Restore makes revision n of the history current again, as a new revision, whatever
// is current: also if the document was deleted. Options.Ignored stay as they are.
// If the current document is the same already nothing is written.
//
// Cost: that of At and 4 round trips, 2 documents written; of a deleted document
// that of At and 5, of one that something else removed 6 and 3; 1 more for a document
// without a number.
func (d *Documents[ID, T]) Restore(ctx context.Context, id ID, n int64, change Change) (Revision[T], error) {
	if err := change.check(); err != nil {
		return Revision[T]{}, fail("restore", err)
	}
	revision, err := d.retry(ctx, func() (r Revision[T], again bool, err error) {
		r, err = d.restore(ctx, id, n, change)
		return r, true, err
	})
	if err != nil {
		return Revision[T]{}, fail("restore", err)
	}
	return revision, nil
}

func (d *Documents[ID, T]) restore(ctx context.Context, id ID, n int64, change Change) (Revision[T], error) {
	key, err := d.value(id)
	if err != nil {
		return Revision[T]{}, err
	}
	primary := *d // a write depends on it
	primary.current, primary.revisions = d.currentPrimary, d.revisionsPrimary
	then, err := primary.stateAt(ctx, key, n)
	if err != nil {
		return Revision[T]{}, err
	}
	old := d.versioned(then.fields)
	s, err := d.load(ctx, d.currentPrimary, key)
	switch {
	case errors.Is(err, ErrNotFound):
		s, err = d.create(ctx, &state{id: then.id, fields: old}, change)
	case err == nil:
		content := func(stored []field) []field {
			all := slices.Clone(old)
			for _, key := range d.opts.Ignored {
				if v, ok := find(stored, key); ok {
					all = append(all, field{key, v})
				}
			}
			return all
		}
		if _, changed := d.compare(s.fields, content(s.fields)); changed {
			s, err = d.replace(ctx, s, change, content)
		}
	}
	if err != nil {
		return Revision[T]{}, err
	}
	return d.revision(s)
}
