package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Save stores what r.Document has different from the document read, as a new
// revision, and returns it. r is what Get or another call returned, or is made by
// hand of the number read and the document. If that number is no longer current, as for
// a repeated call, the error is a *ConflictError, if the document is gone
// mongopatterns.ErrNotFound.
//
// If nothing has changed, or nothing but Options.Ignored, the number stays. Changes
// made meanwhile by code that does not raise the number are kept, except where
// r.Document changes the same value. An array is one value. Options.Ignored stay as they
// are stored if r is from the history.
//
// Cost: 3 round trips, 2 documents written, 1 key examined by _id; 1 round trip if
// nothing, or only ignored fields, changed, and without a history. 1 more for r made
// by hand, or of the history where fields are ignored; 1 more if something else has
// changed the same value since it was read; 1 more for the first save of a document
// without a number. A conflict costs 3, with the abort. Where something else has put
// another value in the place of a document that changes inside: 3 more.
func (d *Documents[ID, T]) Save(ctx context.Context, r Revision[T], change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: save")
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.save(ctx, r, by)
}

func (d *Documents[ID, T]) save(ctx context.Context, r Revision[T], by stamp) (Revision[T], error) {
	ours, err := d.edited(r) // what the caller has, and what that changes of what was read
	if err != nil {
		return Revision[T]{}, err
	}
	base := ours.base
	if base == nil || base.partial || len(ours.changes) == 0 { // the write will not tell what is current
		if base, err = d.core.primary.get(ctx, ours.id); err != nil {
			return Revision[T]{}, err
		}
	}
	changes, err := d.changes(base, ours)
	if err != nil {
		return Revision[T]{}, err
	}
	next, err := d.core.revise(ctx, base, changes, by)
	if mine, ok := any(&r.Document).(*bson.D); ok && err == nil {
		return d.answer(*mine, ours.all, next)
	}
	return d.show(next, err)
}

// answer is show for a bson.D, which takes the driver as long to decode as all else that a
// save does: it keeps the values of the caller's document that it would decode to the same.
func (d *Documents[ID, T]) answer(mine bson.D, encoded []doc.Field, next *current) (Revision[T], error) {
	if d.kind.coded || d.core.codec != (codec.Codec{}) || len(mine) != len(encoded) {
		return d.show(next, nil)
	}
	r, err := d.showHead(next.head)
	if err != nil {
		return r, err
	}
	out, in := make(bson.D, len(next.all)), doc.In(encoded)
	var others []doc.Field
	var places []int
	for i, f := range next.all {
		j := in.Place(f.Key)
		if j >= 0 && doc.Identical(encoded[j].Value, f.Value) && decoded(mine[j].Value) {
			out[i] = mine[j]
		} else {
			others, places = append(others, f), append(places, i)
		}
	}
	var rest bson.D
	if err := d.core.codec.Decode(doc.Raw(others), &rest); err != nil {
		return Revision[T]{}, ofRevision(next.id, next.number, err)
	}
	for n, i := range places {
		out[i] = rest[n]
	}
	*any(&r.Document).(*bson.D), r.base = out, next
	return r, nil
}

// decoded reports whether a value is of a type that the driver decodes one to.
func decoded(v any) bool {
	switch v.(type) {
	case nil, string, int32, int64, float64, bool, bson.ObjectID, bson.DateTime:
		return true
	}
	return false
}

// An edited document is what a caller wants saved.
type edited struct {
	id      bson.RawValue
	number  int64       // of the revision that was read
	raw     bson.Raw    // as T encodes it
	all     []doc.Field // of raw
	loose   bool        // the order of its fields is that of Go maps
	partial bool        // it is from the history, and lacks Options.Ignored

	base    *current    // what was read; nil if that is not known
	changes []doc.Field // of base
}

// edited encodes the document of r, and compares it with what it was read from.
func (d *Documents[ID, T]) edited(r Revision[T]) (*edited, error) {
	raw, loose, err := d.encode(r.Document)
	ours := &edited{number: r.Number, raw: raw, all: doc.Open(raw), loose: loose, partial: r.base != nil && r.base.partial}
	switch {
	case err != nil:
		return ours, err
	case r.Number < 1:
		return ours, fault.Invalid("Revision.Number: %d, want 1 or more", r.Number)
	case r.base != nil && r.base.number == r.Number:
		ours.id, ours.base = r.base.id, r.base
		ours.changes, err = d.compare(r.base, ours)
		return ours, err
	}
	if ours.id = raw.Lookup("_id"); ours.id.Type == 0 {
		return ours, fault.Invalid("document: no _id")
	}
	return ours, nil
}

// changes returns what ours changes of now, the current document.
func (d *Documents[ID, T]) changes(now *current, ours *edited) ([]doc.Field, error) {
	switch {
	case now.number != ours.number:
		return nil, &ConflictError{ID: now.id, Read: ours.number, Current: now.number}
	case ours.base == nil:
		return d.compare(now, ours)
	}
	return merged(ours.base, now, ours.changes), nil
}

// compare returns the changes of base after which T shows it as ours. Fields whose bytes T
// writes as they are stored are unchanged: only the others are decoded, as base has them,
// and compared inside. The _id stays as stored: 1 for 1.0 is no change.
func (d *Documents[ID, T]) compare(base *current, ours *edited) ([]doc.Field, error) {
	if id := ours.raw.Lookup("_id"); id.Type != 0 && value.Key(id) != value.Key(base.id) {
		return nil, fault.Invalid("_id %s is not %s, which was read", value.Text(id), value.Text(base.id))
	}
	skip := append([]string{"_id"}, d.core.names...)
	if ours.partial {
		skip = append(skip, d.core.opts.Ignored...)
	}
	same := doc.Identical
	if ours.loose {
		same = doc.Alike
	}
	stored, wanted, ok := doc.Differing(base.all, ours.all, same, skip...)
	if !ok {
		return nil, fault.Invalid("document: a field stands twice")
	}
	if len(stored) == 0 && len(wanted) == 0 || !d.kind.coded && scalars(stored, wanted) {
		return wanted, nil
	}
	from, names := stored, slices.Concat(stored, wanted)
	if d.kind.whole { // a field may be read from others
		from, names = base.all, nil
		stored, wanted = doc.Without(base.all, skip...), doc.Without(ours.all, skip...)
	}
	shown, loose, err := d.view(from, names, skip)
	if err != nil {
		return nil, fault.Of(base.id, err)
	}
	if d.kind.coded && alike(shown, wanted) {
		return nil, nil
	}
	next, _ := doc.Merge(shown, stored, wanted, doc.Options{
		Arrays: doc.Placed,
		Loose:  ours.loose || loose,
		MadeUp: d.kind.adds(stored, shown),
	})
	changes := doc.Changes(stored, next)
	if !d.kind.coded || len(changes) == 0 {
		return changes, nil
	}
	read, _, err := d.view(doc.Patch(from, changes), names, skip)
	switch {
	case err == nil && alike(read, wanted):
		return changes, nil
	case d.kind.whole: // what T does not show, it reads: it has to say itself what it keeps
		return doc.Changes(stored, wanted), nil
	}
	return doc.Changes(shown, wanted), nil
}

// view is what T shows of a document, without the fields to skip: those of names, or all.
func (d *Documents[ID, T]) view(from, names []doc.Field, skip []string) (shown []doc.Field, loose bool, err error) {
	var v T
	if err := d.core.codec.Decode(doc.Raw(from), &v); err != nil {
		return nil, false, err
	}
	raw, loose, err := d.encode(v)
	if err != nil {
		return nil, false, err
	}
	in := doc.In(names)
	shown = slices.DeleteFunc(doc.Open(raw), func(f doc.Field) bool {
		return slices.Contains(skip, f.Key) || names != nil && in.Place(f.Key) < 0
	})
	return shown, loose, nil
}

func alike(a, b []doc.Field) bool { return doc.Alike(doc.Embedded(a), doc.Embedded(b)) }

// encode encodes the caller's document and says whether the order of its fields is
// loose.
func (d *Documents[ID, T]) encode(v T) (bson.Raw, bool, error) {
	document := reflect.ValueOf(&v)
	for document.Kind() == reflect.Pointer || document.Kind() == reflect.Interface {
		document = document.Elem()
	}
	isMap := document.Kind() == reflect.Map
	if isMap && document.IsNil() {
		return nil, false, fault.Invalid("document: nil")
	}
	raw, err := d.core.codec.Document(v)
	if err != nil {
		return nil, false, fmt.Errorf("document: %w", err)
	}
	inner := d.kind.coded || !isMap && loose(document)
	if isMap { // the order at the top counts for nobody
		for _, v := range document.Seq2() {
			inner = inner || loose(v)
		}
	}
	return raw, inner, nil
}

// merged carries changes of base, which was read, over to now, which is stored.
func merged(base, now *current, changes []doc.Field) []doc.Field {
	if base == now || bytes.Equal(base.raw, now.raw) {
		return changes
	}
	pick := func(all []doc.Field) (out []doc.Field) { // the fields that change; of two of a name the first
		in := doc.In(all)
		for _, c := range changes {
			if v := in.Value(c.Key); v.Type != 0 {
				out = append(out, doc.Field{Key: c.Key, Value: v})
			}
		}
		return out
	}
	theirs := pick(now.all)
	next, _ := doc.Merge(pick(base.all), theirs, pick(changes), doc.Options{}) // of two writers: an array is one value
	return doc.Changes(theirs, next)
}

// revise stores what changes make of base, which is current, and returns it: base itself
// if there are none.
//
// The server refuses a change inside a document in the place of which other code has put
// another value: then what is stored is read, and the changes are merged into that.
func (d *store) revise(ctx context.Context, base *current, changes []doc.Field, by stamp) (*current, error) {
	next, err := d.write(ctx, base, changes, by)
	var server mongo.ServerError
	if txn.Running(ctx) || !errors.As(err, &server) || !server.HasErrorCode(codePathNotViable) {
		return next, err
	}
	now, err := d.primary.get(ctx, base.id)
	switch {
	case err != nil:
		return nil, err
	case now.number != base.number:
		return nil, &ConflictError{ID: now.id, Read: base.number, Current: now.number}
	}
	return d.write(ctx, now, merged(base, now, changes), by)
}

const codePathNotViable = 28

func (d *store) write(ctx context.Context, base *current, changes []doc.Field, by stamp) (*current, error) {
	if len(changes) == 0 {
		return base, nil
	}
	first, err := d.draft(base, changes, d.counts(changes, by))
	if err != nil {
		return nil, err
	}
	next := first
	if d.revisions == nil || first.number == base.number {
		_, _, err = d.put(ctx, first, true)
	} else {
		err = txn.Run(ctx, d.client(), func(ctx context.Context) error {
			next, err = d.transact(ctx, first, by)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return next.alone(), nil
}

// transact makes first of the current document and adds what was there to the history. The
// first write returns that: where it is not first.base, other code has written without
// counting, the changes are merged into what it wrote.
func (d *store) transact(ctx context.Context, first *draft, by stamp) (*draft, error) {
	found, sent, err := d.put(ctx, first, false)
	if err != nil {
		return nil, err
	}
	theirs, next := first.base, first
	if !bytes.Equal(found, theirs.raw) {
		if theirs, err = d.parse(found); err != nil {
			return nil, err
		}
		if next, err = d.draft(theirs, merged(first.base, theirs, first.changes), &by); err != nil {
			return nil, err
		}
		if sent == nil || !bytes.Equal(sent, next.update(false)) { // else the same update has made it
			if _, err = fault.One(d.current.ReplaceOne(ctx, byID(next.id), next.raw)); err != nil {
				return nil, err
			}
		}
	}
	if err := d.begun(ctx, theirs); err != nil {
		return nil, err
	}
	return next, d.archive(ctx, d.archived(theirs, &next.current))
}

// put makes next of the current document if that still is the revision next.base. It
// returns what it found, only the _id if blind, and the update that it has sent, if it
// was one. A blind write names nothing but what differs, so that what else has changed
// stays.
func (d *store) put(ctx context.Context, next *draft, blind bool) (found, update bson.Raw, err error) {
	filter := d.guard(next.id, next.base.number)
	var projection any
	if blind {
		projection = bson.D{expr.Element("_id", 1)}
	}
	if update = next.update(blind); update != nil {
		opts := options.FindOneAndUpdate().SetProjection(projection)
		found, err = fault.Single(d.current.FindOneAndUpdate(ctx, filter, update, opts)).Raw()
	} else {
		opts := options.FindOneAndReplace().SetProjection(projection)
		found, err = fault.Single(d.current.FindOneAndReplace(ctx, filter, next.raw, opts)).Raw()
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil, d.conflict(ctx, next.id, next.base.number)
	}
	return found, update, fault.Of(next.id, err)
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

// begun refuses a document without a number that has a history: one that Prune has cut
// lets the unique index accept another beginning.
func (d *store) begun(ctx context.Context, c *current) error {
	if !c.unnumbered {
		return nil
	}
	ends, err := d.ends(ctx, bson.A{c.id})
	if err != nil {
		return err
	}
	return d.without(c, ends)
}

// without is begun where the ends of histories are known.
func (d *store) without(c *current, ends map[string]head) error {
	if _, has := ends[value.Key(c.id)]; !has {
		return nil
	}
	err := fmt.Errorf("%w: no %q, but a history: Adopt gives it the next number", ErrInconsistent, d.opts.RevisionField)
	return fault.Of(c.id, err)
}

func (d *store) archive(ctx context.Context, rows ...bson.Raw) error {
	_, err := fault.Many(d.revisions.InsertMany(ctx, rows))
	if mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("%w: the history has a revision of this number: %w", ErrInconsistent, err)
	}
	return err
}

// Update reads the current document, has fn change it, and saves it. After a conflict it
// begins again until ctx ends, so fn can run several times; an error of fn ends it. It
// returns the new revision, or the current one if fn changed nothing. In the caller's
// transaction it does not begin again: the error is the *ConflictError.
//
// Cost: 4 round trips, 2 documents written; 2 if nothing changed, and without a
// history. 4 more for each conflict; 1 more for a document without a number.
func (d *Documents[ID, T]) Update(ctx context.Context, id ID, fn func(*T) error, change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: update")
	if fn == nil {
		return Revision[T]{}, fault.Invalid("fn: nil")
	}
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	var own error // an error of fn, which may be a conflict of another document
	r, err := d.retry(ctx, func() (Revision[T], error) {
		r, err := d.show(d.core.primary.get(ctx, key))
		if err != nil {
			return r, err
		}
		if own = fn(&r.Document); own != nil {
			return r, nil
		}
		return d.save(ctx, r, by)
	})
	if own != nil {
		return Revision[T]{}, own
	}
	return r, err
}

// retry repeats what met another writer, until the context ends.
func (d *Documents[ID, T]) retry(ctx context.Context, try func() (Revision[T], error)) (Revision[T], error) {
	joined := txn.Running(ctx)
	for attempt := 0; ; attempt++ {
		r, err := try()
		var conflict *ConflictError
		met := errors.As(err, &conflict) || errors.Is(err, ErrExists) // of Restore: brought back by another
		if !met || joined {
			return r, err
		}
		select {
		case <-ctx.Done(): // an error of the deadline, not a conflict to be solved
			return r, fmt.Errorf("%w; the last attempt: %v", ctx.Err(), err)
		case <-time.After(rand.N(min(time.Millisecond<<min(attempt, 8), 100*time.Millisecond))):
		}
	}
}
