package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// transact runs fn in a transaction, unless there is no history: a write is then one
// document.
func (d *store) transact(ctx context.Context, fn func(ctx context.Context) error) error {
	if d.revisions == nil {
		return fn(ctx)
	}
	return txn.Run(ctx, d.client(), fn)
}

// create inserts a document of which there is none, after the history that it may
// have.
func (d *store) create(ctx context.Context, id bson.RawValue, all bson.Raw, change stamp) (*state, error) {
	var s *state
	err := d.transact(ctx, func(ctx context.Context) error {
		var err error
		if s, err = d.created(id, all, 1, change.after(stamp{})); err != nil {
			return err
		}
		// The insert comes first: it holds the _id, so that whoever deleted this
		// document before has committed, and its last revision is seen.
		if _, err := d.current.InsertOne(ctx, s.raw); err != nil {
			return err
		}
		last, err := d.newest(ctx, id)
		if err != nil || last == nil {
			return err
		}
		if !last.deleted { // something else removed the document
			gone := &state{id: id, number: last.number + 1, change: stamp{at: s.change.at}.after(last.change), deleted: true}
			err := d.archive(ctx, nil, d.row(gone, nil))
			if mongo.IsDuplicateKeyError(err) { // Repair has noticed, too
				return txn.Conflict("record a deletion")
			}
			if err != nil {
				return err
			}
			last = &row{number: gone.number, change: gone.change}
		}
		if s, err = d.created(id, all, last.number+1, change.after(last.change)); err != nil {
			return err
		}
		_, err = d.current.ReplaceOne(ctx, d.guard(id, 1), s.raw)
		return err
	})
	if taken(err) {
		err = fault.Of(id, fmt.Errorf("%w: %w", ErrExists, err))
	}
	return s, err
}

// created is a new current document.
func (d *store) created(id bson.RawValue, all bson.Raw, number int64, change stamp) (*state, error) {
	s := &state{id: id, number: number, change: change}
	s.raw = patched(all, d.own(s))
	return s, s.check()
}

// taken reports whether err says that there is a document of this _id, and not that
// another unique index refuses it.
func taken(err error) bool {
	var write mongo.WriteException
	if !mongo.IsDuplicateKeyError(err) || !errors.As(err, &write) {
		return false
	}
	for _, e := range write.WriteErrors {
		pattern, ok := e.Raw.Lookup("keyPattern").DocumentOK()
		return !ok || !pattern.Lookup("_id").IsZero()
	}
	return false
}

// newest is the last revision in the history, number and change only; nil if there
// is none.
func (d *store) newest(ctx context.Context, id bson.RawValue) (*row, error) {
	if d.revisions == nil {
		return nil, nil
	}
	raw, err := d.revisionsPrimary.FindOne(ctx, d.numbered(id, 1), options.FindOne().
		SetSort(bson.D{expr.Element(d.opts.RevisionField, -1)}).
		SetProjection(bson.D{expr.Element(d.opts.DocumentIDField, 1), expr.Element(d.opts.RevisionField, 1), expr.Element(d.opts.ChangeField, 1), expr.Element(deletedKey, 1)})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.parseRow(raw)
}

// A wish is what a caller wants saved.
type wish struct {
	id      bson.RawValue
	read    int64
	next    bson.Raw // the document as T encodes it
	loose   bool     // the order of its fields is that of Go maps
	base    *state   // what was read, nil if that is not known
	partial bool     // base is of the history, and lacks Options.Ignored
	changes []field  // of base, once that is known
}

// apply carries the changes of the caller over to what is stored by now.
func (w *wish) apply(stored *state) []field {
	if bytes.Equal(stored.raw, w.base.raw) {
		return w.changes
	}
	now := existing(pick(stored.raw, w.changes))
	return changes(now, beside().document(now, existing(pick(w.base.raw, w.changes)), existing(w.changes)))
}

// wish completes what a caller wants saved. base is what it was read from, or nil.
func (d *store) wish(w *wish, base *state) error {
	if w.read < 1 {
		return fault.Invalid("Revision.Number: %d, want 1 or more", w.read)
	}
	w.id = w.next.Lookup("_id")
	if base != nil && base.number == w.read {
		return d.know(w, base)
	}
	if w.id.Type == 0 {
		return fault.Invalid("document: no _id")
	}
	return nil
}

// know completes a wish by what was read.
//
// Fields whose bytes T writes as they are stored are unchanged. Only of the others
// is looked up how T shows what is stored, and only they are compared inside. The _id
// stays as stored: 1 for 1.0 is no change, nor is none.
func (d *store) know(w *wish, base *state) error {
	if w.id.Type != 0 && value.Key(w.id) != value.Key(base.id) {
		return fault.Invalid("_id %s is not %s, which was read", value.Text(w.id), value.Text(base.id))
	}
	w.base, w.id = base, base.id
	skip := append([]string{"_id"}, d.ownNames()...)
	if w.partial {
		skip = append(skip, d.opts.Ignored...)
	}
	stored, next, err := differing(base.raw, w.next, w.loose, skip...)
	if err != nil || len(stored) == 0 && len(next) == 0 {
		return err
	}
	view := document(stored)
	if d.upgrades {
		stored, view, next = open(base.raw, skip...), base.raw, open(w.next, skip...)
	}
	shown, loose, err := d.view(view)
	if err != nil {
		return fault.Of(base.id, err)
	}
	known := open(shown, skip...)
	all := seen(w.loose || loose).document(stored, known, next)
	if d.upgrades && !sameFields(all, stored) {
		all = d.faithful(base, stored, known, next, all, skip)
	}
	w.changes = changes(stored, all)
	return nil
}

// faithful returns the fields to be stored for a T that decodes itself, so that they
// read as next, what the caller has. all, what the usual merge makes, may not: a T
// that makes new fields out of old ones would make them again out of those that stay,
// or take the new ones for old. Then the fields that T makes are written too, and of
// those that it does not write only the ones stay that do not change what is read.
func (d *store) faithful(base *state, stored, known, next, all []field, skip []string) []field {
	read := func(all []field) []field {
		raw, _, err := d.view(patched(base.raw, changes(stored, all)))
		if err != nil {
			return nil
		}
		return open(raw, skip...)
	}
	equal := func(got []field) bool { return got != nil && alike(documentValue(got), documentValue(next)) }
	if equal(read(all)) || !equal(read(next)) {
		return all
	}
	out := slices.Clone(next)
	merged, inKnown, inNext := index(all), index(known), index(next)
	for i, n := range next {
		if v, ok := merged(n.key); ok {
			out[i].value = v
		}
	}
	shown := index(read(out))
	for i, n := range next {
		if v, ok := shown(n.key); !ok || !alike(v, n.value) {
			out[i].value = n.value
		}
	}
	var others []field
	for _, s := range stored {
		_, isKnown := inKnown(s.key)
		if _, isNext := inNext(s.key); !isKnown && !isNext {
			others = append(others, s)
		}
	}
	var keep func(some []field)
	keep = func(some []field) {
		if with := append(out[:len(out):len(out)], some...); equal(read(with)) {
			out = with
		} else if len(some) > 1 {
			keep(some[:len(some)/2])
			keep(some[len(some)/2:])
		}
	}
	keep(others)
	return out
}

// save stores a wish.
func (d *store) save(ctx context.Context, w *wish, change stamp) (*state, error) {
	base := w.base
	look := base == nil || w.partial
	if look {
		var err error
		if base, err = d.load(ctx, d.currentPrimary, w.id); err != nil {
			return nil, err
		}
		if base.number != w.read {
			return nil, &ConflictError{ID: base.id, Read: w.read, Current: base.number}
		}
		if w.base == nil {
			if err := d.know(w, base); err != nil {
				return nil, err
			}
		}
	}
	what := w.apply(base)
	switch {
	case d.counts(what):
		return d.replace(ctx, base, change, w.apply)
	case len(what) > 0:
		next, err := d.successor(base, nil, what)
		if err == nil {
			_, err = d.put(ctx, base, next, true)
		}
		return next, err
	case !look:
		return base, d.unchanged(ctx, base)
	}
	return base, nil
}

// counts reports changes that make a revision: one of them is not ignored.
func (d *store) counts(what []field) bool {
	return slices.ContainsFunc(what, func(f field) bool { return !slices.Contains(d.opts.Ignored, f.key) })
}

// replace makes of base the next revision, with the changes that it has of what is
// stored.
func (d *store) replace(ctx context.Context, base *state, change stamp, what func(stored *state) []field) (*state, error) {
	var next *state
	err := d.transact(ctx, func(ctx context.Context) error {
		var err error
		if next, err = d.successor(base, &change, what(base)); err != nil {
			return err
		}
		found, err := d.put(ctx, base, next, d.revisions == nil)
		if err != nil || d.revisions == nil {
			return err
		}
		before := base
		if !bytes.Equal(found, base.raw) {
			// Something else has written to it without counting: an ignored field,
			// most likely. What is stored now is what this revision follows.
			sent := next.update
			if before, err = d.parse(found); err != nil {
				return err
			}
			if next, err = d.successor(before, &change, what(before)); err != nil {
				return err
			}
			if sent == nil || !reflect.DeepEqual(next.update, sent) { // else the same update has made it
				if _, err = d.current.ReplaceOne(ctx, byID(base.id), next.raw); err != nil {
					return err
				}
			}
		}
		return d.archive(ctx, bare(before), d.row(before, next))
	})
	return next, err
}

// successor is the revision that follows before, or with a nil change the same one
// with other fields. Both must fit into a revision.
func (d *store) successor(before *state, change *stamp, what []field) (*state, error) {
	next := state{id: before.id, number: before.number, bare: before.bare, narrow: before.narrow, change: before.change, before: before}
	if change != nil {
		next.number, next.bare, next.change = before.number+1, false, change.after(before.change)
		what = append(what[:len(what):len(what)], d.own(&next)...)
	}
	next.raw, next.changes = patched(before.raw, what), what
	next.update, next.exact = editOf(before.raw, what)
	return &next, errors.Join(next.check(), before.checkSize())
}

// put makes next of the current document if it still is the revision base, and
// returns what it found, of which only the _id if blind. A blind write names nothing
// but what differs, so that what else has changed stays.
func (d *store) put(ctx context.Context, base, next *state, blind bool) (bson.Raw, error) {
	filter := d.guard(base.id, base.number)
	projection := bson.D{}
	if blind {
		projection = bson.D{expr.Element("_id", 1)}
	}
	var found bson.Raw
	var err error
	if next.update != nil && (next.exact || blind) {
		found, err = d.current.FindOneAndUpdate(ctx, filter, next.update, options.FindOneAndUpdate().SetProjection(projection)).Raw()
	} else {
		next.update = nil
		found, err = d.current.FindOneAndReplace(ctx, filter, next.raw, options.FindOneAndReplace().SetProjection(projection)).Raw()
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, d.conflict(ctx, base.id, base.number)
	}
	return found, err
}

// An edit is an update that changes a document.
type edit struct{ set, unset bson.D }

// editOf is the update that makes changes to a document, nil if there is none. exact
// says that it makes them to the byte: where it adds several fields, the server
// chooses their order.
func editOf(raw bson.Raw, what []field) (update bson.D, exact bool) {
	var e edit
	added, ok := e.add("", raw, what)
	if !ok {
		return nil, false
	}
	if e.set != nil {
		update = append(update, expr.Element("$set", e.set))
	}
	if e.unset != nil {
		update = append(update, expr.Element("$unset", e.unset))
	}
	return update, added < 2
}

// add adds changes and counts the new fields; a key may be one that no path can name.
func (e *edit) add(prefix string, raw bson.Raw, what []field) (added int, ok bool) {
	for i, old := range pick(raw, what) {
		c := what[i]
		if !plain(c.key) {
			return 0, false
		}
		switch path := prefix + c.key; {
		case c.value.Type == 0:
			e.unset = append(e.unset, bson.E{Key: path, Value: ""})
		case old.value.Type == 0:
			e.set = append(e.set, bson.E{Key: path, Value: c.value})
			added++
		case !identical(old.value, c.value):
			e.value(path, old.value, c.value)
		}
	}
	return added, true
}

// value adds what makes b of a: inside of documents, if that makes it to the byte.
func (e *edit) value(path string, a, b bson.RawValue) {
	set, unset := e.set, e.unset
	x, xOK := parts(a)
	y, yOK := parts(b)
	if xOK && yOK && a.Type == bson.TypeEmbeddedDocument && b.Type == a.Type {
		what := changes(x, y)
		if bytes.Equal(patched(bson.Raw(a.Value), what), b.Value) { // else it is another order
			if added, ok := e.add(path+".", bson.Raw(a.Value), what); ok && added < 2 {
				return
			}
		}
	}
	e.set, e.unset = append(set, bson.E{Key: path, Value: b}), unset
}

// plain reports whether a key can be part of a path.
func plain(key string) bool { return key != "" && key[0] != '$' && !strings.Contains(key, ".") }

// archive inserts revisions. Documents in bare have had no number, so they must have
// no history: one that Prune has cut lets the unique index accept another beginning.
func (d *store) archive(ctx context.Context, bare bson.A, rows ...bson.Raw) error {
	if len(bare) > 0 {
		found, err := d.revisionsPrimary.FindOne(ctx, d.rowsOf(expr.Op("$in", bare)),
			options.FindOne().SetProjection(bson.D{expr.Element(d.opts.DocumentIDField, 1)})).Raw()
		if err == nil {
			return fault.Of(found.Lookup(d.opts.DocumentIDField),
				fmt.Errorf("%w: no %q, but a history: Adopt gives it the next number", ErrInconsistent, d.opts.RevisionField))
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

// conflict says why the guard of a write to a revision that was read did not match.
func (d *store) conflict(ctx context.Context, id bson.RawValue, read int64) error {
	raw, err := d.currentPrimary.FindOne(ctx, byID(id), options.FindOne().
		SetProjection(bson.D{expr.Element(d.opts.RevisionField, 1), expr.Element(d.opts.ChangeField, 1)})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, fault.ErrNotFound)
	}
	if err != nil {
		return err
	}
	now, err := d.parse(raw)
	if err != nil {
		return err
	}
	if now.number == read && txn.Running(ctx) {
		return txn.Conflict("find the reason of a conflict")
	}
	return &ConflictError{ID: now.id, Read: read, Current: now.number}
}

// unchanged checks that the document is still what was read.
func (d *store) unchanged(ctx context.Context, base *state) error {
	err := d.currentPrimary.FindOne(ctx, d.guard(base.id, base.number),
		options.FindOne().SetProjection(bson.D{expr.Element("_id", 1)})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return d.conflict(ctx, base.id, base.number)
	}
	return err
}

func (d *store) delete(ctx context.Context, id bson.RawValue, read int64, change stamp) error {
	return d.transact(ctx, func(ctx context.Context) error {
		found, err := d.current.FindOneAndDelete(ctx, d.guard(id, read)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return d.conflict(ctx, id, read)
		}
		if err != nil || d.revisions == nil {
			return err
		}
		last, err := d.parse(found)
		if err == nil {
			err = last.checkSize()
		}
		if err != nil {
			return err
		}
		gone := &state{id: last.id, number: last.number + 1, change: change.after(last.change), deleted: true}
		return d.archive(ctx, bare(last), d.row(last, nil), d.row(gone, nil))
	})
}
