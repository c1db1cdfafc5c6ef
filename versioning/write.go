package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
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
func (d *store) create(ctx context.Context, id bson.RawValue, all []field, change stamp) (*state, error) {
	var s *state
	err := d.transact(ctx, func(ctx context.Context) error {
		s = &state{id: id, number: 1, change: change.after(stamp{}), fields: all}
		if err := d.assemble(s, nil); err != nil {
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
		s.number, s.change = last.number+1, change.after(last.change)
		if err := d.assemble(s, nil); err != nil {
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
		SetProjection(bson.D{expr.Element(d.opts.DocumentIDField, 1), expr.Element(d.opts.RevisionField, 1), expr.Element(d.opts.ChangeField, 1), expr.Element(d.opts.DeletedField, 1)})).Raw()
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
	next    []field // the document as T encodes it, without number and change
	loose   bool    // the order of next is that of Go maps
	base    *state  // what was read, nil if that is not known
	partial bool    // base is of the history, and lacks Options.Ignored
	want    []field // what the fields of base are to become, once that is known
}

// apply carries the changes of the caller over to what is stored by now.
func (w *wish) apply(stored []field) []field {
	if sameFields(stored, w.base.fields) {
		return w.want
	}
	return beside().document(stored, w.base.fields, w.want)
}

// wish checks what a caller wants saved. stored is what it was read from, or nil.
func (d *store) wish(w wish, stored bson.Raw) (*wish, error) {
	if w.read < 1 {
		return nil, fault.Invalid("Revision.Number: %d, want 1 or more", w.read)
	}
	var ok bool
	w.id, ok = find(w.next, "_id")
	if stored != nil {
		base, err := d.parse(stored)
		if err != nil {
			return nil, err
		}
		if base.number == w.read {
			return &w, d.know(&w, base)
		}
	}
	if !ok {
		return nil, fault.Invalid("document: no _id")
	}
	return &w, nil
}

// know completes a wish by what was read.
//
// Fields whose bytes T writes as they are stored are unchanged. Only of the others
// is looked up how T shows what is stored, and only they are compared inside.
func (d *store) know(w *wish, base *state) error {
	if w.id.Type != 0 && value.Key(w.id) != value.Key(base.id) {
		return fault.Invalid("_id %s is not %s, which was read", value.Text(w.id), value.Text(base.id))
	}
	// The _id stays as stored: 1 for 1.0 is no change, nor is none.
	stored, next := without(base.fields, "_id"), w.next
	if _, ok := find(next, "_id"); ok {
		next = without(next, "_id")
	}
	read := base
	if w.partial {
		read = d.past(base)
	}
	some := d.shown(read)
	if !d.upgrades {
		some = document(differing(without(read.fields, "_id"), next))
	}
	known, loose, err := d.view(some)
	if err != nil {
		return fault.Of(base.id, err)
	}
	known = without(known, "_id")
	all := seen(w.loose || loose).document(stored, known, next)
	if d.upgrades && !sameFields(all, stored) {
		all = d.faithful(base, stored, known, next, all)
	}
	w.base, w.id = base, base.id
	w.want = append([]field{{"_id", base.id}}, all...)
	return nil
}

// differing is what of a is not the same in b.
func differing(a, b []field) (out []field) {
	inB := index(b)
	for _, f := range a {
		if v, ok := inB(f.key); !ok || !identical(f.value, v) {
			out = append(out, f)
		}
	}
	return out
}

// faithful returns the fields to be stored for a T that decodes itself, so that they
// read as next, what the caller has. all, what the usual merge makes, may not: a T
// that makes new fields out of old ones would make them again out of those that stay,
// or take the new ones for old. Then the fields that T makes are written too, and of
// those that it does not write only the ones stay that do not change what is read.
func (d *store) faithful(base *state, stored, known, next, all []field) []field {
	read := func(all []field) []field {
		s := *base
		s.raw, s.fields = nil, append([]field{{"_id", base.id}}, all...)
		got, _, err := d.view(d.shown(&s))
		if err != nil {
			return nil
		}
		return without(got, "_id")
	}
	equal := func(got []field) bool { return got != nil && alike(documentValue(got), documentValue(next)) }
	if equal(read(all)) || !equal(read(next)) {
		return all
	}
	out := make([]field, len(next))
	merged := index(all)
	for i, n := range next {
		out[i] = n
		if v, ok := merged(n.key); ok {
			out[i].value = v
		}
	}
	inRead := index(read(out))
	for i, n := range next {
		if v, ok := inRead(n.key); !ok || !alike(v, n.value) {
			out[i].value = n.value
		}
	}
	inKnown, inNext := index(known), index(next)
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
	return arranged(out, stored)
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
	switch all := w.apply(base.fields); {
	case !sameFields(d.versioned(base.fields), d.versioned(all)):
		return d.replace(ctx, base, change, w.apply)
	case !sameFields(base.fields, all):
		next, err := d.touched(base, all)
		if err == nil {
			_, err = d.put(ctx, base, next, true)
		}
		return next, err
	case !look:
		return base, d.unchanged(ctx, base)
	}
	return base, nil
}

// replace makes of base the next revision, with the fields that content makes of
// those that are stored.
func (d *store) replace(ctx context.Context, base *state, change stamp, content func([]field) []field) (*state, error) {
	var next *state
	err := d.transact(ctx, func(ctx context.Context) error {
		var err error
		if next, err = d.successor(base, change, content(base.fields)); err != nil {
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
			if before, err = d.parse(found); err != nil {
				return err
			}
			sent := editOf(base, next, false)
			if next, err = d.successor(before, change, content(before.fields)); err != nil {
				return err
			}
			if update := editOf(before, next, false); update == nil || !reflect.DeepEqual(update, sent) {
				if _, err = d.current.ReplaceOne(ctx, byID(base.id), next.raw); err != nil {
					return err
				}
			} // else the same update has made it
		}
		return d.archive(ctx, bare(before), d.row(before, next))
	})
	return next, err
}

// successor is the revision that follows before. Both must fit into a revision.
func (d *store) successor(before *state, change stamp, all []field) (*state, error) {
	next := &state{id: before.id, number: before.number + 1, change: change.after(before.change), fields: all}
	return next, errors.Join(d.assemble(next, before), checkSize(before))
}

// touched is base with other fields and the same number and change, also if it has
// none.
func (d *store) touched(base *state, all []field) (*state, error) {
	next := *base
	next.fields = all
	if err := d.assemble(&next, base); err != nil {
		return nil, err
	}
	if base.bare {
		next.whole = d.content(next.whole)
		next.raw = document(next.whole)
	}
	return &next, nil
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
	if update := editOf(base, next, blind); update != nil {
		found, err = d.current.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().SetProjection(projection)).Raw()
	} else {
		found, err = d.current.FindOneAndReplace(ctx, filter, next.raw, options.FindOneAndReplace().SetProjection(projection)).Raw()
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, d.conflict(ctx, base.id, base.number)
	}
	return found, err
}

// An edit is an update that changes one document into another.
type edit struct {
	set, unset bson.D
	several    bool // new fields at the top, whose order the server chooses
}

// editOf is the update that makes next of base, nil if only a replacement makes it to
// the byte. If it need not be to the byte, the order of new fields is the server's.
func editOf(base, next *state, inexact bool) bson.D {
	var e edit
	if !e.document("", base.whole, next.whole) || e.several && !inexact {
		return nil
	}
	var update bson.D
	if e.set != nil {
		update = append(update, expr.Element("$set", e.set))
	}
	if e.unset != nil {
		update = append(update, expr.Element("$unset", e.unset))
	}
	return update
}

// document adds what makes b of a; false says that no update of single fields does.
func (e *edit) document(prefix string, a, b []field) bool {
	inB := index(b)
	i := 0
	for _, x := range a {
		_, ok := inB(x.key)
		switch path := prefix + x.key; {
		case ok && b[i].key != x.key:
			return false // another order
		case ok && identical(x.value, b[i].value):
			i++
		case !plain(x.key):
			return false
		case ok:
			e.value(path, x.value, b[i].value)
			i++
		default:
			e.unset = append(e.unset, bson.E{Key: path, Value: ""})
		}
	}
	if len(b)-i > 1 {
		if prefix != "" {
			return false
		}
		e.several = true
	}
	for _, y := range b[i:] {
		if !plain(y.key) {
			return false
		}
		e.set = append(e.set, bson.E{Key: prefix + y.key, Value: y.value})
	}
	return true
}

func (e *edit) value(path string, a, b bson.RawValue) {
	set, unset := e.set, e.unset
	if a.Type == bson.TypeEmbeddedDocument && b.Type == a.Type {
		x, xOK := parts(a)
		y, yOK := parts(b)
		if xOK && yOK && e.document(path+".", x, y) {
			return
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
			err = checkSize(last)
		}
		if err != nil {
			return err
		}
		gone := &state{id: last.id, number: last.number + 1, change: change.after(last.change), deleted: true}
		return d.archive(ctx, bare(last), d.row(last, nil), d.row(gone, nil))
	})
}
