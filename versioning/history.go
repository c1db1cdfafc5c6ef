package versioning

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// rowsOf selects the revisions of one document, or of the documents that an operator selects.
func (d *store) rowsOf(id any, more ...bson.E) bson.D {
	if v, ok := id.(bson.RawValue); ok {
		id = value.Equal(v)
	}
	return append(bson.D{expr.Element(d.opts.DocumentIDField, id)}, more...)
}

// causal gives ctx a session in which the history shows what the current document has shown, and the other way round, on
// whatever shards and members they are.
func (d *store) causal(ctx context.Context) (in context.Context, end func()) {
	return txn.Causal(ctx, d.current)
}

// numbered is rowsOf with the numbers from n on, without the rows that are no revisions.
func (d *store) numbered(id any, n int64, more ...bson.E) bson.D {
	return d.rowsOf(id, expr.Element(d.opts.RevisionField, append(expr.Op("$gte", n), more...)), expr.Element("$expr", d.isRow))
}

// isRow is the expression for rows with one document's ID and a number. The filters for these are met by arrays too.
func isRow(o Options) any {
	return expr.Fixed(expr.Op("$and", isNumber(o.RevisionField), expr.Op("$not", expr.Op("$isArray", expr.Field(o.DocumentIDField)))))
}

// counted selects rows with a number from 1 on. The unique index covers these rows, and the server
// uses it only for filters that include this condition or a stricter one.
func (d *store) counted() bson.E { return expr.Element(d.opts.RevisionField, expr.Op("$gte", 1)) }

// uncounted selects the rows that the unique index does not cover.
func (d *store) uncounted() bson.E {
	return expr.Element(d.opts.RevisionField, expr.Op("$not", expr.Op("$gte", 1)))
}

func (d *store) at() string { return d.opts.ChangeField + "." + atKey }

func (d *store) byNumber(direction int) bson.D {
	return bson.D{expr.Element(d.opts.RevisionField, direction)}
}

// archived returns the row of a document that was current. next is the document that a delta would
// be made from; nil: the row must be whole.
func (d *store) archived(was, next *current) bson.Raw {
	whole := value.Embedded(diff.Raw(was.all, d.unkept...))
	if next != nil && was.number%int64(d.opts.SnapshotEvery) != 0 {
		after := d.kept(next)
		if delta, ok := diff.Delta(after, d.kept(was)); ok {
			made := diff.Embedded(append([]diff.Field{field(ofKey, value.New(d.digest(after)))}, delta...))
			if len(made.Value) < len(whole.Value) && !value.Deeper(made, maxLevels) { // a delta has two levels for each of the document
				return d.newRow(was.head, deltaKey, made)
			}
		}
	}
	return d.newRow(was.head, documentKey, whole)
}

// deletion returns the row of a deletion.
func (d *store) deletion(h head) bson.Raw {
	return diff.Raw(d.rowFields(h, deletedKey, value.New(true)))
}

// newRow returns a row with an _id. The driver would copy the row to add one.
func (d *store) newRow(h head, key string, what bson.RawValue) bson.Raw {
	return diff.Raw(append([]diff.Field{field("_id", value.NewID())}, d.rowFields(h, key, what)...))
}

func (d *store) rowFields(h head, key string, what bson.RawValue) []diff.Field {
	return []diff.Field{
		field(d.opts.DocumentIDField, h.id), field(d.opts.RevisionField, value.Int64(h.number)),
		field(d.opts.ChangeField, h.change.value()), field(key, what),
	}
}

// parseRow reads a stored row, except its delta. If the row is not a revision, the result has the
// row's _id and whatever else could be read, besides the error.
func (d *store) parseRow(raw bson.Raw) (*row, error) {
	r := &row{key: raw.Lookup("_id")}
	r.id, r.change = raw.Lookup(d.opts.DocumentIDField), stampOf(raw.Lookup(d.opts.ChangeField))
	// The unique index covers a row whose document's ID is null, and EnsureIndexes may fail for it.
	r.other = raw.Lookup(d.opts.ChangeField).Type == 0 && r.id.Type != bson.TypeNull
	var ok bool
	r.number, ok = wholeNumber(raw.Lookup(d.opts.RevisionField))
	missing := ""
	switch {
	case r.id.Type == 0, r.id.Type == bson.TypeNull:
		r.id.Type, missing = bson.TypeNull, d.opts.DocumentIDField // the server treats a missing field as null
	case r.id.Type == bson.TypeArray:
		missing = "single " + d.opts.DocumentIDField
	case !ok:
		missing = "number in " + d.opts.RevisionField
	}
	if missing != "" {
		return r, fault.Of(r.key, fmt.Errorf("%w: the row has no %s", ErrInconsistent, missing))
	}
	if r.deleted, _ = raw.Lookup(deletedKey).BooleanOK(); r.deleted {
		return r, nil
	}
	if whole, ok := raw.Lookup(documentKey).DocumentOK(); ok {
		r.document = diff.Without(diff.Open(whole), d.unkept...)
	} else {
		r.delta, _ = raw.Lookup(deltaKey).DocumentOK()
	}
	return r, nil
}

var (
	errNoState = errors.New("it is neither a document nor a delta nor a deletion")
	errNoNext  = errors.New("the revision that its delta is made from is missing")
	errOther   = errors.New("something else changed the revision that its delta is made from")
)

// ofKey is the field, beside a delta, with the digest of the document that the delta was made from.
const ofKey = "of"

const namesBytes = 4

// digest identifies the document that a delta is made from by the fields that the history keeps. It
// begins with a digest of the names in Options.Ignored, because these decide which fields are kept.
func (d *store) digest(kept []diff.Field) []byte {
	names := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(d.opts.Ignored)), "\x00")))
	content := sha256.Sum256(diff.Raw(kept))
	return append(names[:namesBytes:namesBytes], content[:12]...)
}

// fits reports whether a delta was made from a document. A delta made with other names in
// Options.Ignored cannot be checked and is accepted.
func (d *store) fits(delta bson.Raw, next []diff.Field) bool {
	_, was, ok := delta.Lookup(ofKey).BinaryOK()
	is := d.digest(next)
	return ok && len(was) > namesBytes && (bytes.Equal(was, is) || !bytes.Equal(was[:namesBytes], is[:namesBytes]))
}

// resolve sets the document of r from next, the following revision, nil if not known. If it returns
// an error, r is lost.
func (d *store) resolve(r, next *row) error {
	var err error
	switch {
	case r.deleted || r.document != nil:
		return nil
	case r.delta == nil:
		err = errNoState
	case next == nil || next.deleted || next.lost || next.number != r.number+1:
		err = errNoNext
	case !d.fits(r.delta, next.document):
		err = errOther
	default:
		var all []diff.Field
		if all, err = diff.Apply(next.document, diff.Without(diff.Open(r.delta), ofKey), d.opts.Ignored...); err == nil {
			r.document = diff.Without(all, d.unkept...)
			return nil
		}
	}
	r.lost = true
	return ofRevision(r.id, r.number, fmt.Errorf("%w: %w", ErrInconsistent, err))
}

func (d *store) rows(ctx context.Context, filter, sort bson.D, limit int64) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		if d.revisions == nil {
			return
		}
		for raw, err := range cursor.Find(ctx, d.revisions, filter, options.Find().SetSort(sort).SetLimit(limit)) {
			var r *row
			if err == nil {
				r, err = d.parseRow(raw)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// first returns the first revision in the given order, nil if there are no revisions.
func (d *store) first(ctx context.Context, filter, sort bson.D) (*row, error) {
	for r, err := range d.rows(ctx, filter, sort, 1) {
		return r, err
	}
	return nil, nil
}

// newest returns the last revision in the history, nil if there are no revisions.
func (d *store) newest(ctx context.Context, id bson.RawValue) (*row, error) {
	return d.primary.first(ctx, d.numbered(id, 1), d.byNumber(-1))
}

// chain reads revisions from n on, in order. It stops after the first that is not a delta, before
// the first gap, at limit, or at the end. A limit of 0 means no limit.
func (d *store) chain(ctx context.Context, id bson.RawValue, n, limit int64) (rows []*row, err error) {
	for r, err := range d.rows(ctx, d.numbered(id, n), d.byNumber(1), limit) {
		switch {
		case err != nil:
			return nil, err
		case len(rows) == 0 && r.number != n:
			return nil, ofRevision(id, n, ErrPruned)
		case complete(rows) || r.number != n+int64(len(rows)):
			return rows, nil
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func complete(rows []*row) bool { return len(rows) > 0 && rows[len(rows)-1].delta == nil }

// fromRevision completes the rows from n on, up to a whole one or the current document.
func (d *store) fromRevision(ctx context.Context, id bson.RawValue, n int64, rows []*row, current *current) ([]*row, *current, error) {
	if complete(rows) {
		return rows, current, nil
	}
	every := int64(d.opts.SnapshotEvery)
	rows, err := d.chain(ctx, id, n, (every-n%every)%every+1)
	if err != nil || complete(rows) {
		return rows, current, err
	}
	if current == nil {
		if current, err = d.load(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	if current == nil || current.number > n+int64(len(rows)) {
		// The document has been saved or deleted since and its state is now in the history; or
		// the next whole revision is further away, because SnapshotEvery was larger once.
		rows, err = d.chain(ctx, id, n, 0)
	}
	return rows, current, err
}

// revision reads revision n. rows are the first of the rows from n on, and current the current
// document, if they were read already.
func (d *store) revision(ctx context.Context, id bson.RawValue, n int64, rows []*row, current *current) (*row, error) {
	if n < 1 {
		return nil, ofRevision(id, n, mongopatterns.ErrNotFound)
	}
	ctx, end := d.causal(ctx)
	defer end()
	rows, current, err := d.fromRevision(ctx, id, n, rows, current)
	if err != nil {
		return nil, err
	}
	if current != nil && current.number >= n {
		rows = rows[:min(len(rows), int(current.number-n))] // later ones were added meanwhile
	}
	var next *row
	if current != nil {
		next = d.asRow(current)
	}
	for i, r := range slices.Backward(rows) {
		if err, next = d.resolve(r, next), r; err != nil && r.number == n {
			return nil, err
		}
		rows[i] = nil // or each of a long chain would hold its document
	}
	switch {
	case len(rows) == 0 && (current == nil || current.number < n):
		return nil, ofRevision(id, n, mongopatterns.ErrNotFound)
	case len(rows) == 0 && current.number > n:
		return nil, ofRevision(id, n, ErrPruned)
	case next.deleted:
		return nil, ofRevision(id, n, ErrDeleted)
	}
	return next, nil
}

func (d *store) asOf(ctx context.Context, id bson.RawValue, moment time.Time) (*row, error) {
	if err := checkTime("moment", moment); err != nil {
		return nil, err
	}
	ctx, end := d.causal(ctx)
	defer end()
	// Read the current document first: if it is replaced after that, its state is in the history
	// when the history is read.
	current, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if current != nil && current.change.at.UnixMilli() <= moment.UnixMilli() {
		return d.asRow(current), d.placed(ctx, current)
	}
	until := expr.Element(d.at(), expr.Op("$lt", bson.DateTime(moment.UnixMilli()+1)))
	then, err := d.first(ctx, append(d.numbered(id, 1), until), expr.D(d.at(), -1, d.opts.RevisionField, -1))
	if err != nil {
		return nil, err
	}
	if then != nil {
		return d.revision(ctx, id, then.number, []*row{then}, current)
	}
	oldest, err := d.chain(ctx, id, 1, 1)
	if err != nil {
		return nil, err
	}
	if oldest == nil && current != nil && current.number > 1 {
		return nil, fault.Of(id, ErrPruned)
	}
	return nil, fault.Of(id, mongopatterns.ErrNotFound)
}

// placed returns an error if the time of the current document is not known, but that of an earlier revision is.
func (d *store) placed(ctx context.Context, current *current) error {
	if !current.change.at.IsZero() {
		return nil
	}
	known := expr.Element(d.at(), expr.Op("$gt", bson.NewDateTimeFromTime(time.Time{})))
	timed, err := d.first(ctx, append(d.numbered(current.id, 1), known), expr.D(d.at(), -1, d.opts.RevisionField, -1))
	if err == nil && timed != nil {
		err = ofRevision(current.id, current.number, fmt.Errorf("%w: its time is not known, but that of revision %d is: run Adopt",
			ErrInconsistent, timed.number))
	}
	return err
}

// backward yields the revisions of a document with numbers below n, newest first. With the largest n, which
// means all, it yields ErrNotFound if there are none.
func (d *store) backward(ctx context.Context, id bson.RawValue, n int64) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		ctx, end := d.causal(ctx)
		defer end()
		current, err := d.load(ctx, id) // first, see asOf
		if err != nil {
			yield(nil, err)
			return
		}
		var next *row
		filter := d.numbered(id, 1)
		switch {
		case current != nil && current.number < n:
			if next = d.asRow(current); !yield(next, nil) {
				return
			}
			filter = d.numbered(id, 1, expr.Element("$lt", next.number))
		case n < math.MaxInt64:
			filter = d.numbered(id, 1, expr.Element("$lt", n))
		}
		for r, err := range d.rows(ctx, filter, d.byNumber(-1), 0) {
			if err == nil && next == nil && r.delta != nil {
				var again bool
				if r, again, err = d.top(ctx, r, n, current); again {
					d.backward(ctx, id, n)(yield)
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			_ = d.resolve(r, next) // a lost revision is returned as Lost
			next = r
			if !yield(r, nil) {
				return
			}
		}
		if next == nil && n == math.MaxInt64 {
			yield(nil, fault.Of(id, mongopatterns.ErrNotFound))
		}
	}
}

// top resolves r, the newest revision below n, which is a delta and not followed by the current document. again
// reports that r is gone, or is not the newest, because of what others did meanwhile.
func (d *store) top(ctx context.Context, r *row, n int64, current *current) (whole *row, again bool, err error) {
	if n < math.MaxInt64 { // its delta may be made from a revision from n on
		whole, err := d.revision(ctx, r.id, r.number, []*row{r}, current)
		switch {
		case err == nil:
			return whole, false, nil
		case errors.Is(err, ErrPruned), errors.Is(err, mongopatterns.ErrNotFound):
			return r, true, nil
		case !errors.Is(err, ErrInconsistent):
			return r, false, err
		}
	}
	if current == nil { // inserted again and saved meanwhile, or lost
		again, err = d.exists(ctx, r.id)
	}
	return r, again, err
}

// forward yields the revisions of a document from number n on, oldest first, or ErrNotFound if
// there are no such revisions.
func (d *store) forward(ctx context.Context, id bson.RawValue, n int64) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		ctx, end := d.causal(ctx)
		defer end()
		current, err := d.load(ctx, id) // first, see asOf
		if err != nil {
			yield(nil, err)
			return
		}
		filter := d.numbered(id, n)
		if current != nil {
			filter = d.numbered(id, n, expr.Element("$lt", current.number))
		}
		found := false
		var waiting []*row // until a whole one comes, from which their deltas are resolved
		for r, err := range d.rows(ctx, filter, d.byNumber(1), 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			waiting = append(waiting, r)
			if r.delta != nil {
				continue
			}
			found = true
			if !d.yieldResolved(waiting, nil, yield) {
				return
			}
			waiting = nil
		}
		switch {
		case current != nil && current.number >= n:
			last := d.asRow(current)
			if d.yieldResolved(waiting, last, yield) {
				yield(last, nil)
			}
		case len(waiting) > 0:
			d.lastDeltas(ctx, id, waiting)(yield)
		case !found:
			yield(nil, fault.Of(id, mongopatterns.ErrNotFound))
		}
	}
}

// lastDeltas yields the last revisions of a document that was not there when its revisions were read, all of them
// deltas.
func (d *store) lastDeltas(ctx context.Context, id bson.RawValue, waiting []*row) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		again, err := d.exists(ctx, id)
		switch {
		case err != nil:
			yield(nil, err)
		case again: // inserted again and saved meanwhile
			d.forward(ctx, id, waiting[0].number)(yield)
		default:
			d.yieldResolved(waiting, nil, yield)
		}
	}
}

// yieldResolved resolves revisions, the last one from next, and yields them. It returns false if nobody wants more.
func (d *store) yieldResolved(waiting []*row, next *row, yield func(*row, error) bool) (more bool) {
	for _, r := range slices.Backward(waiting) {
		_ = d.resolve(r, next) // a lost revision is returned as Lost
		next = r
	}
	for _, r := range waiting {
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

// exists reports whether there is a current document.
func (d *store) exists(ctx context.Context, id bson.RawValue) (bool, error) {
	now, err := d.primary.load(ctx, id)
	return now != nil, err
}

// At returns revision n, which may be the current one, without Options.Ignored. It returns
// ErrDeleted if revision n is a deletion, ErrPruned if it is no longer in the history (by Prune or
// otherwise), mongopatterns.ErrNotFound if it never existed, and ErrInconsistent if it is lost.
//
// Cost: 1 round trip, 1 key and 1 document by the unique index; 2 if it is the current one.
//   - With deltas up to SnapshotEvery keys and documents, and 1 more where no whole revision follows; 3 where there
//     is no such revision.
func (d *History[ID, T]) At(ctx context.Context, id ID, n int64) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.At")
	defer fault.In(&err, "versioning.At")
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.showRow(d.core.revision(ctx, key, n, nil, nil))
}

// AsOf returns the revision that was current at a time, without Options.Ignored. Of several in the
// same millisecond it returns the last one. For a time before the first revision it returns
// mongopatterns.ErrNotFound, and for one outside the years 1 to 9999 mongopatterns.ErrInvalid. If the time of
// the current revision is not known and that of an earlier one is, it returns ErrInconsistent; Adopt sets the time.
//
// Cost: 1 round trip, 1 key and 1 document if that is the current one, otherwise 2, by the index on time.
//   - The time of the current one is not known: 1 more.
//   - With deltas: 1 more.
//   - A time before the history: 3.
func (d *History[ID, T]) AsOf(ctx context.Context, id ID, moment time.Time) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.AsOf")
	defer fault.In(&err, "versioning.AsOf")
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.showRow(d.core.asOf(ctx, key, moment))
}

// Revisions yields all stored revisions of a document, newest first, beginning with the current
// one. It includes deletions and lost revisions, and leaves out Options.Ignored. If there is no
// revision, it yields mongopatterns.ErrNotFound. It does not see revisions made while it runs.
//
// Cost: 2 round trips, and more for many revisions; 1 key and 1 document for each.
func (d *History[ID, T]) Revisions(ctx context.Context, id ID) iter.Seq2[Revision[T], error] {
	ctx = comment.Call(ctx, "versioning.Revisions")
	return d.each("versioning.Revisions", id, func(key bson.RawValue) iter.Seq2[*row, error] { return d.core.backward(ctx, key, math.MaxInt64) })
}

// RevisionsBefore yields the stored revisions of a document with numbers below n, newest first. It reads
// the next page of a list that shows the newest first, where n is the last number of the page before. For
// the first page n is math.MaxInt64, and the call is the same as Revisions. If there are no such
// revisions, or no such document, it yields mongopatterns.ErrNotFound for math.MaxInt64 and nothing for
// other n.
//
// Cost: that of Revisions.
//   - With deltas: 1 more, for the revisions up to the next whole one, and up to 4 more if SnapshotEvery was changed
//     or other code removed the document.
func (d *History[ID, T]) RevisionsBefore(ctx context.Context, id ID, n int64) iter.Seq2[Revision[T], error] {
	ctx = comment.Call(ctx, "versioning.RevisionsBefore")
	return d.each("versioning.RevisionsBefore", id, func(key bson.RawValue) iter.Seq2[*row, error] { return d.core.backward(ctx, key, n) })
}

// RevisionsFrom yields the stored revisions of a document from number n on, oldest first, and is
// otherwise like Revisions. With n 1 it yields all.
//
// Cost: that of Revisions; with deltas up to SnapshotEvery revisions are held at a time.
func (d *History[ID, T]) RevisionsFrom(ctx context.Context, id ID, n int64) iter.Seq2[Revision[T], error] {
	ctx = comment.Call(ctx, "versioning.RevisionsFrom")
	return d.each("versioning.RevisionsFrom", id, func(key bson.RawValue) iter.Seq2[*row, error] { return d.core.forward(ctx, key, n) })
}

// each decodes rows for the caller.
func (d *History[ID, T]) each(call string, id ID, rows func(key bson.RawValue) iter.Seq2[*row, error]) iter.Seq2[Revision[T], error] {
	return fault.Seq(call, func(yield func(Revision[T], error) bool) {
		key, err := d.id(id)
		if err != nil {
			yield(Revision[T]{}, err)
			return
		}
		for past, err := range rows(key) {
			r, err := d.showRow(past, err)
			if !yield(r, err) || err != nil {
				return
			}
		}
	})
}
