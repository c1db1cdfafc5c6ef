package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Save stores the differences between r.Document and the document that was read as a new revision,
// and returns it. r is a Revision that Get or another call returned, or one that you make from the
// document and the number that you read. If that number is no longer current, as when the call is
// repeated, Save returns a *ConflictError. If the document no longer exists, it returns
// mongopatterns.ErrNotFound.
//
// If nothing has changed, or only Options.Ignored, the number stays the same. Changes that other code
// made meanwhile without raising the number are kept, unless r.Document changes the same value; an
// array counts as one value. If you made r by hand, or it is from the history, Options.Ignored stay as
// they are stored.
//
// Cost: 3 round trips, 2 documents written, index _id, 1 key; 1 round trip if nothing, or only ignored fields,
// changed, and without a history.
//   - 1 more, so 4, for r made by hand, as from an If-Match header, or of the history where fields are ignored; 1
//     more if something else has changed the same value since it was read; 1 more for the first save of a document
//     without a number.
//   - A conflict costs 3, with the abort.
//   - 3 more where r changes a field inside a subdocument, and other code has replaced that by a plain value.
func (d *History[ID, T]) Save(ctx context.Context, r Revision[T], change Change) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Save")
	defer fault.In(&err, "versioning.Save")
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.save(ctx, r, by)
}

func (d *History[ID, T]) save(ctx context.Context, r Revision[T], by stamp) (Revision[T], error) {
	ours, err := d.edited(r) // the caller's document, and its changes to what was read
	if err != nil {
		return Revision[T]{}, err
	}
	base := ours.base
	if base == nil || base.partial || len(ours.changes) == 0 { // the write would not return the current document
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
		out, err := d.answer(*mine, ours.all, next)
		return out, fault.Unknown(err) // it is saved
	}
	return d.saved(next, err)
}

// answer is show for a bson.D. Decoding one takes the driver as long as the rest of a save, so
// answer reuses the caller's values where decoding would give the same.
func (d *History[ID, T]) answer(mine bson.D, encoded []diff.Field, next *current) (Revision[T], error) {
	if d.kind.coded || d.core.codec != (codec.Codec{}) || len(mine) != len(encoded) {
		return d.show(next, nil)
	}
	r, err := d.showHead(next.head)
	if err != nil {
		return r, err
	}
	out, in := make(bson.D, len(next.all)), diff.In(encoded)
	var others []diff.Field
	var places []int
	for i, f := range next.all {
		j := in.Place(f.Key)
		if j >= 0 && diff.Identical(encoded[j].Value, f.Value) && decoded(mine[j].Value) {
			out[i] = mine[j]
		} else {
			others, places = append(others, f), append(places, i)
		}
	}
	var rest bson.D
	if err := d.core.codec.Decode(diff.Raw(others), &rest); err != nil {
		return Revision[T]{}, ofRevision(next.id, next.number, err)
	}
	for n, i := range places {
		out[i] = rest[n]
	}
	*any(&r.Document).(*bson.D), r.base = out, next
	return r, nil
}

// decoded reports whether a value has a type that the driver decodes a value into.
func decoded(v any) bool {
	switch v.(type) {
	case nil, string, int32, int64, float64, bool, bson.ObjectID, bson.DateTime:
		return true
	}
	return false
}

// An edited is the document that a caller wants to save.
type edited struct {
	id      bson.RawValue
	number  int64        // of the revision that was read
	raw     bson.Raw     // as T encodes it
	all     []diff.Field // the fields of raw
	loose   bool         // the order of fields inside may be random
	partial bool         // it is from the history and lacks Options.Ignored, or made by hand

	base    *current     // what was read; nil if not known
	changes []diff.Field // the changes to base
}

// edited encodes the document of r and compares it with what was read.
func (d *History[ID, T]) edited(r Revision[T]) (*edited, error) {
	base := r.base
	if base != nil && base.number != r.Number {
		base = nil
	}
	raw, loose, err := d.encode(r.Document, base)
	ours := &edited{number: r.Number, raw: raw, all: diff.Open(raw), loose: loose, base: base, partial: base == nil || base.partial}
	switch {
	case err != nil:
		return ours, err
	case r.Number < 1:
		return ours, fault.Invalid("Revision.Number: it is %d and must be 1 or more", r.Number)
	case base != nil:
		ours.id = base.id
		ours.changes, err = d.compare(base, ours)
		return ours, err
	}
	if ours.id = raw.Lookup("_id"); ours.id.Type == 0 {
		return ours, fault.Invalid("the document has no _id")
	}
	return ours, nil
}

// changes returns the changes that ours makes to now, the current document.
func (d *History[ID, T]) changes(now *current, ours *edited) ([]diff.Field, error) {
	switch {
	case now.number != ours.number:
		return nil, &ConflictError{ID: now.id, Read: ours.number, Current: now.number}
	case ours.base == nil:
		ours, err := d.over(now, ours)
		if err != nil {
			return nil, err
		}
		return d.compare(now, ours)
	}
	return merged(ours.base, now, ours.changes), nil
}

// over returns ours as if it had been read from now. A T that keeps fields which it does not have
// lacks those of now, because ours was made by hand or read from another document.
func (d *History[ID, T]) over(now *current, ours *edited) (*edited, error) {
	if !d.kind.keeps {
		return ours, nil
	}
	var v T
	if err := d.core.codec.Decode(ours.raw, &v); err != nil {
		return nil, fault.Of(now.id, err)
	}
	raw, _, err := d.encode(v, now)
	if err != nil {
		return nil, err
	}
	next := *ours
	next.raw, next.all = raw, diff.Open(raw)
	return &next, nil
}

// compare returns the changes after which T shows base as ours. A field that T encodes to the
// stored bytes has not changed; only the others are decoded from base and compared inside. The _id
// stays as stored: 1 for 1.0 is not a change.
func (d *History[ID, T]) compare(base *current, ours *edited) ([]diff.Field, error) {
	if id := ours.raw.Lookup("_id"); id.Type != 0 && !value.Same(id, base.id) {
		return nil, fault.Of(base.id, fault.Invalid("the document to save has another _id, %s, and an _id cannot change", value.Text(id)))
	}
	skip := append([]string{"_id"}, d.core.names...)
	if ours.partial {
		skip = append(skip, d.core.opts.Ignored...)
	}
	same := diff.Identical
	if ours.loose {
		same = diff.Alike
	}
	stored, wanted, ok := diff.Differing(base.all, ours.all, same, skip...)
	if !ok {
		return nil, fault.Invalid("the document has a field twice")
	}
	if len(stored) == 0 && len(wanted) == 0 || !d.kind.coded && scalars(stored, wanted) {
		return wanted, nil
	}
	from, names := stored, slices.Concat(stored, wanted)
	if d.kind.whole { // T may compute a field from others
		from, names = base.all, nil
		stored, wanted = diff.Without(base.all, skip...), diff.Without(ours.all, skip...)
	}
	shown, loose, err := d.view(from, names, skip)
	if err != nil {
		return nil, fault.Of(base.id, err)
	}
	if d.kind.coded && alike(shown, wanted) {
		return nil, nil
	}
	next, _ := diff.Merge(shown, stored, wanted, diff.Options{
		Arrays: diff.Placed,
		Loose:  ours.loose || loose,
		MadeUp: d.kind.adds(stored, shown),
	})
	changes := diff.Changes(stored, next)
	if !d.kind.coded || len(changes) == 0 {
		return changes, nil
	}
	read, _, err := d.view(diff.Patch(from, changes), names, skip)
	switch {
	case err == nil && alike(read, wanted):
		return changes, nil
	case d.kind.whole: // T computes fields from those that it does not show, so only T can say which fields to keep
		return diff.Changes(stored, wanted), nil
	}
	return diff.Changes(shown, wanted), nil
}

// view decodes a document into T and encodes it again, without the fields to skip. names limits the
// result to fields of these names; nil means all fields.
func (d *History[ID, T]) view(from, names []diff.Field, skip []string) (shown []diff.Field, loose bool, err error) {
	var v T
	if err := d.core.codec.Decode(diff.Raw(from), &v); err != nil {
		return nil, false, err
	}
	raw, loose, err := d.encode(v, nil)
	if err != nil {
		return nil, false, err
	}
	in := diff.In(names)
	shown = slices.DeleteFunc(diff.Open(raw), func(f diff.Field) bool {
		return slices.Contains(skip, f.Key) || names != nil && in.Place(f.Key) < 0
	})
	return shown, loose, nil
}

func alike(a, b []diff.Field) bool { return diff.Alike(diff.Embedded(a), diff.Embedded(b)) }

// encode encodes the caller's document and reports whether the order of fields inside it may be
// random: T has a codec, or the document contains Go maps. base is the document that v changes; nil
// if it is not known.
func (d *History[ID, T]) encode(v T, base *current) (bson.Raw, bool, error) {
	document := reflect.ValueOf(&v)
	for document.Kind() == reflect.Pointer || document.Kind() == reflect.Interface {
		document = document.Elem()
	}
	isMap := document.Kind() == reflect.Map
	if isMap && document.IsNil() {
		return nil, false, fault.Invalid("the document is nil")
	}
	var raw bson.Raw
	var err error
	if d.kind.keeps && base != nil && document.IsValid() {
		raw, err = document.Addr().Interface().(keeper).Over(base.raw)
	} else {
		raw, err = d.core.codec.Stored(v)
	}
	if err != nil {
		return nil, false, err
	}
	inner := d.kind.coded || !isMap && codec.Shuffled(document)
	if isMap { // the order at the top does not count
		for _, v := range document.Seq2() {
			inner = inner || codec.Shuffled(v)
		}
	}
	return raw, inner, nil
}

// merged returns the changes to now, the stored document, that have the effect of changes to base,
// the document that was read.
func merged(base, now *current, changes []diff.Field) []diff.Field {
	if base == now || bytes.Equal(base.raw, now.raw) {
		return changes
	}
	pick := func(all []diff.Field) (out []diff.Field) { // the fields that change; the first one if two have the same name
		in := diff.In(all)
		for _, c := range changes {
			if v := in.Value(c.Key); v.Type != 0 {
				out = append(out, diff.Field{Key: c.Key, Value: v})
			}
		}
		return out
	}
	theirs := pick(now.all)
	next, _ := diff.Merge(pick(base.all), theirs, pick(changes), diff.Options{}) // two writers: an array is one value
	return diff.Changes(theirs, next)
}

// revise applies changes to base, the current document, stores the result and returns it. Without
// changes it returns base.
//
// The server refuses to change a field inside a document if other code has replaced that document
// with a value of another type. Then revise reads what is stored, and merges the changes into that.
func (d *store) revise(ctx context.Context, base *current, changes []diff.Field, by stamp) (*current, error) {
	next, err := d.write(ctx, base, changes, by)
	if txn.Running(ctx) || !fault.HasCode(err, codePathNotViable) {
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

func (d *store) write(ctx context.Context, base *current, changes []diff.Field, by stamp) (*current, error) {
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
		err = txn.Run(ctx, d.current, func(ctx context.Context) error {
			next, err = d.transact(ctx, first, by)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return next.alone(), nil
}

// transact replaces the current document with first and adds its previous state to the history. The
// first write returns that state. If it is not first.base, other code has written without raising
// the number, and the changes are merged into it.
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
		if sent == nil || !bytes.Equal(sent, next.update(false)) { // otherwise the first update had the same effect
			if _, err = fault.One(d.current.ReplaceOne(ctx, expr.ByID(next.id), next.raw)); err != nil {
				return nil, err
			}
		}
	}
	if err := d.begun(ctx, theirs); err != nil {
		return nil, err
	}
	err = d.archive(ctx, d.archived(theirs, &next.current))
	return next, err
}

// put replaces the current document with next if it still is revision next.base. It returns what it
// found, only the _id if blind, and the update if it sent one. Nothing is merged after a blind
// write: its update names only the fields that differ, so that changes by others stay.
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

// conflict returns the reason why the guard of a write did not match.
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

// begun returns an error for a document without a number that has a history. If Prune has deleted
// revision 1 of that history, the unique index does not prevent a second one.
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

// without is begun for known ends of the histories.
func (d *store) without(c *current, ends map[string]head) error {
	if _, has := ends[value.Key(c.id)]; !has {
		return nil
	}
	err := fmt.Errorf("%w: it has no %q but a history: Adopt gives it the next number", ErrInconsistent, d.opts.RevisionField)
	return fault.Of(c.id, err)
}

func (d *store) archive(ctx context.Context, rows ...bson.Raw) error {
	_, err := fault.Many(d.revisions.InsertMany(ctx, rows))
	if mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("%w: the history has a revision of this number: %w", ErrInconsistent, err)
	}
	return err
}

// Edit reads the current document, calls fn to change it, and saves it. After a conflict it does all of this again until
// ctx ends, or for two minutes if ctx has no deadline, so fn can run several times. If fn returns an error, Edit ends and
// returns it. The result is the new revision, or the current one if fn changed nothing. In a transaction of the caller
// Edit does not retry and returns the *ConflictError.
//
// Cost: 4 round trips, 2 documents written; 2 if nothing changed, and without a history.
//   - 4 more for each conflict; 1 more for a document without a number.
func (d *History[ID, T]) Edit(ctx context.Context, id ID, fn func(*T) error, change Change) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Edit")
	defer fault.In(&err, "versioning.Edit")
	if fn == nil {
		return Revision[T]{}, fault.Invalid("fn is nil")
	}
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	var own error // an error of fn, which may be a conflict over another document
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

// retryLimit is how long a call without a deadline is repeated: as long as a transaction. A test shortens it.
var retryLimit = pause.Limit

// retry calls try again after a conflict with another writer, until the context ends, or for retryLimit.
func (d *History[ID, T]) retry(ctx context.Context, try func() (Revision[T], error)) (Revision[T], error) {
	joined, start, pauses := txn.Running(ctx), time.Now(), pause.Writers()
	for {
		r, err := try()
		var conflict *ConflictError
		// Restore: someone else inserted the document meanwhile. In a scope it may be another tenant's, for good.
		inserted := errors.Is(err, mongopatterns.ErrExists) && d.core.current.Scope() == nil
		met := errors.As(err, &conflict) || inserted
		if _, ends := ctx.Deadline(); !met || joined || !ends && time.Since(start) > retryLimit {
			return r, err
		}
		if over := pauses.Wait(ctx); over != nil { // the error is the deadline's, not a conflict that the caller could resolve
			return r, fmt.Errorf("%w; the last attempt: %v", over, err)
		}
	}
}
