package versioning

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A row is a document of the revisions collection.
type row struct {
	id       bson.RawValue
	document bson.RawValue // its ID
	number   int64
	change   stamp
	deleted  bool
	whole    bson.Raw // nil if there is
	delta    bson.Raw // this, or neither
}

// rowsOf selects the revisions of a document, or of those that an operator selects.
func (d *store) rowsOf(id any, more ...bson.E) bson.D {
	if v, ok := id.(bson.RawValue); ok {
		id = value.Equal(v)
	}
	return append(bson.D{expr.Element(d.opts.DocumentIDField, id)}, more...)
}

// numbered is rowsOf those from number n on. What has no whole number is no revision.
func (d *store) numbered(id any, n int64, more ...bson.E) bson.D {
	number := expr.Field(d.opts.RevisionField)
	return d.rowsOf(id,
		expr.Element(d.opts.RevisionField, append(expr.Op("$gte", n), more...)),
		expr.Element("$expr", expr.Op("$eq", expr.Op("$trunc", number), number)))
}

func (d *store) at() string { return d.opts.ChangeField + "." + atKey }

// row makes the revision document of a state. next is the state that follows, nil
// if it must not be stored as a delta from that.
func (d *store) row(s, next *state) bson.Raw {
	id := bson.NewObjectID()
	out := []field{
		{"_id", bson.RawValue{Type: bson.TypeObjectID, Value: id[:]}},
		{d.opts.DocumentIDField, s.id},
		{d.opts.RevisionField, int64Value(s.number)},
		{d.opts.ChangeField, s.change.value()},
	}
	if s.deleted {
		return document(append(out, field{deletedKey, bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}}))
	}
	whole := d.past(s).doc
	if next != nil && s.number%int64(d.opts.SnapshotEvery) != 0 {
		a := d.past(next).doc
		if delta, ok := deltaOf(a, whole); ok {
			made := documentValue(append([]field{{ofKey, d.digest(a)}}, delta...))
			if len(made.Value) < len(whole) {
				return document(append(out, field{deltaKey, made}))
			}
		}
	}
	return document(append(out, field{documentKey, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: whole}}))
}

const namesBytes = 4

// digest tells the document that a delta is made from. It covers what the history keeps,
// and begins with a digest of the names of Options.Ignored, as with others it covers
// other fields.
func (d *store) digest(doc bson.Raw) bson.RawValue {
	names := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(d.opts.Ignored)), "\x00")))
	content := sha256.Sum256(doc)
	raw, _ := bson.Marshal(bson.D{{Key: "v", Value: append(names[:namesBytes:namesBytes], content[:12]...)}})
	return bson.Raw(raw).Lookup("v")
}

// fits reports whether a delta was made from a state. One made with other names in
// Options.Ignored cannot be told from it, and passes.
func (d *store) fits(delta bson.Raw, next *state) bool {
	_, was, ok := delta.Lookup(ofKey).BinaryOK()
	_, is := d.digest(d.past(next).doc).Binary()
	return ok && len(was) > namesBytes && (bytes.Equal(was, is) || !bytes.Equal(was[:namesBytes], is[:namesBytes]))
}

// parseRow takes a revision apart. If it is none, what is known of it comes with the
// error.
func (d *store) parseRow(raw bson.Raw) (*row, error) {
	r := &row{id: raw.Lookup("_id"), document: raw.Lookup(d.opts.DocumentIDField), change: stampOf(raw.Lookup(d.opts.ChangeField))}
	if r.document.Type == 0 {
		r.document.Type = bson.TypeNull // as the server has it
		return r, r.foreign("no %q", d.opts.DocumentIDField)
	}
	var ok bool
	if r.number, ok = wholeNumber(raw.Lookup(d.opts.RevisionField)); !ok {
		return r, r.foreign("no number in %q", d.opts.RevisionField)
	}
	r.deleted, _ = raw.Lookup(deletedKey).BooleanOK()
	r.whole, _ = raw.Lookup(documentKey).DocumentOK()
	r.delta, _ = raw.Lookup(deltaKey).DocumentOK()
	return r, nil
}

func (r *row) foreign(format string, args ...any) error {
	return fmt.Errorf("%w: revision with _id %s: %w", ErrInconsistent, value.Text(r.id), fmt.Errorf(format, args...))
}

var (
	errNoState = errors.New("neither document nor delta nor deletion")
	errNoNext  = errors.New("the revision that its delta is made from is missing")
	errOther   = errors.New("the revision that its delta is made from was changed by something else")
)

// state is what a row says, given the state that follows it if it is known. With an
// error it is a lost one.
func (d *store) state(r *row, next *state) (*state, error) {
	s := &state{id: r.document, number: r.number, change: r.change, deleted: r.deleted, doc: r.whole}
	if r.deleted || r.whole != nil {
		return s, nil
	}
	var err error
	switch {
	case r.delta == nil:
		err = errNoState
	case next == nil || next.deleted || next.lost || next.number != r.number+1:
		err = errNoNext
	case !d.fits(r.delta, next):
		err = errOther
	default:
		if s.doc, err = applyDelta(d.content(next), r.delta, d.opts.Ignored...); err == nil {
			return s, nil
		}
	}
	s.lost, s.doc = true, nil
	return s, ofRevision(r.document, r.number, fmt.Errorf("%w: %w", ErrInconsistent, err))
}

// rows reads revisions.
func (d *store) rows(ctx context.Context, filter, sort bson.D, limit int64) ([]*row, error) {
	if d.revisions == nil {
		return nil, nil
	}
	var out []*row
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.revisions.Find(ctx, filter, options.Find().SetSort(sort).SetLimit(limit))
	}) {
		if err != nil {
			return nil, err
		}
		r, err := d.parseRow(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// chain continues rows, revisions without a gap from n on, up to one that stands by
// itself, or as far as there are any.
func (d *store) chain(ctx context.Context, id bson.RawValue, n int64, rows []*row) ([]*row, error) {
	every := int64(d.opts.SnapshotEvery)
	for !complete(rows) {
		next := n + int64(len(rows))
		limit := (every-next%every)%every + 1
		found, err := d.rows(ctx, d.numbered(id, next),
			bson.D{expr.Element(d.opts.RevisionField, 1)}, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			switch {
			case complete(rows) || len(rows) > 0 && r.number != n+int64(len(rows)):
				return rows, nil
			case r.number != n+int64(len(rows)):
				return nil, ofRevision(id, n, ErrPruned)
			}
			rows = append(rows, r)
		}
		if int64(len(found)) < limit {
			break
		}
	}
	return rows, nil
}

func complete(rows []*row) bool { return len(rows) > 0 && rows[len(rows)-1].delta == nil }

// stateAt reads revision n.
func (d *store) stateAt(ctx context.Context, id bson.RawValue, n int64) (*state, error) {
	if n < 1 {
		return nil, ofRevision(id, n, fault.ErrNotFound)
	}
	rows, err := d.chain(ctx, id, n, nil)
	if err != nil || complete(rows) {
		return d.resolve(id, n, rows, nil, err)
	}
	current, err := d.load(ctx, d.current, id)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, err
	}
	err = nil
	if current == nil || current.number > n+int64(len(rows)) {
		// What was current, or just deleted, is in the history by now.
		rows, err = d.chain(ctx, id, n, rows)
	}
	return d.resolve(id, n, rows, current, err)
}

// resolve is revision n, of which a chain of rows begins. current is what follows
// them, if there is a current document.
func (d *store) resolve(id bson.RawValue, n int64, rows []*row, current *state, err error) (*state, error) {
	if err == nil && current != nil && current.number >= n {
		rows = rows[:min(len(rows), int(current.number-n))] // later ones have come since
	}
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0 && current != nil && current.number == n:
		return d.past(current), nil
	case len(rows) == 0 && current != nil && current.number > n:
		return nil, ofRevision(id, n, ErrPruned)
	}
	next := current
	for _, r := range slices.Backward(rows) {
		if next, err = d.state(r, next); err != nil && r.number == n {
			return nil, err
		}
	}
	switch {
	case len(rows) == 0:
		return nil, ofRevision(id, n, fault.ErrNotFound)
	case next.deleted:
		return nil, ofRevision(id, n, ErrDeleted)
	}
	return d.past(next), nil
}

// asOf reads the revision that was current at a moment.
func (d *store) asOf(ctx context.Context, id bson.RawValue, moment time.Time) (*state, error) {
	if err := checkTime("moment", moment); err != nil {
		return nil, err
	}
	// The current document comes first: what was current when it was read, and is
	// not any more, is in the history by then.
	current, err := d.load(ctx, d.current, id)
	switch {
	case err == nil && current.change.at.UnixMilli() <= moment.UnixMilli():
		return d.past(current), nil
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return nil, err
	}
	rows, err := d.rows(ctx, append(d.numbered(id, 1), expr.Element(d.at(), expr.Op("$lt", bson.DateTime(moment.UnixMilli()+1)))),
		bson.D{expr.Element(d.at(), -1), expr.Element(d.opts.RevisionField, -1)}, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		n := rows[0].number
		rows, err = d.chain(ctx, id, n, rows)
		if err == nil && !complete(rows) && current == nil {
			return d.stateAt(ctx, id, n) // created again, and saved, meanwhile
		}
		return d.resolve(id, n, rows, current, err)
	}
	oldest, err := d.rows(ctx, d.numbered(id, 1), bson.D{expr.Element(d.opts.RevisionField, 1)}, 1)
	if err != nil {
		return nil, err
	}
	if len(oldest) > 0 && oldest[0].number > 1 || len(oldest) == 0 && current != nil && current.number > 1 {
		return nil, fault.Of(id, ErrPruned)
	}
	return nil, fault.Of(id, fault.ErrNotFound)
}

// walk visits the states of a document, newest first, until visit returns false.
func (d *store) walk(ctx context.Context, id bson.RawValue, visit func(*state) bool) error {
	current, err := d.load(ctx, d.current, id) // first, see asOf
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	filter := d.numbered(id, 1)
	if current != nil {
		if !visit(d.past(current)) || d.revisions == nil {
			return nil
		}
		filter = d.numbered(id, 1, expr.Element("$lt", current.number))
	} else if d.revisions == nil {
		return err
	}
	next, found := current, current != nil
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.revisions.Find(ctx, filter, options.Find().SetSort(bson.D{expr.Element(d.opts.RevisionField, -1)}))
	}) {
		if err != nil {
			return err
		}
		r, err := d.parseRow(raw)
		if err != nil {
			return err
		}
		if !found && r.delta != nil {
			again, err := d.exists(ctx, id)
			if err != nil {
				return err
			}
			if again { // and saved, meanwhile
				return d.walk(ctx, id, visit)
			}
		}
		found = true
		next, _ = d.state(r, next)
		if !visit(d.past(next)) {
			return nil
		}
	}
	if !found {
		return fault.Of(id, fault.ErrNotFound)
	}
	return nil
}

// At returns revision n, the current one included, without Options.Ignored. It may
// be ErrDeleted, ErrPruned, also where something else than Prune took it out,
// mongopatterns.ErrNotFound, or ErrInconsistent if it is lost.
//
// Cost: 1 round trip, 1 key and document by the unique index; 2 if it is the current
// one. With deltas up to SnapshotEvery keys and documents, and 1 more where no whole
// revision follows; 3 where there is no such revision.
func (d *Documents[ID, T]) At(ctx context.Context, id ID, n int64) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: at")
	return d.one(id, func(key bson.RawValue) (*state, error) { return d.core.stateAt(ctx, key, n) })
}

// AsOf returns the revision that was current at a time, without Options.Ignored: the
// last one of those in its millisecond. Before the first one it is
// mongopatterns.ErrNotFound, outside of the years 1 to 9999 ErrInvalid.
//
// Cost: 1 round trip, 1 key and document, if that is the current one, else 2, with 1
// key and document by the index on time. With deltas 1 more; 3 for a time before the
// history.
func (d *Documents[ID, T]) AsOf(ctx context.Context, id ID, moment time.Time) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: as of")
	return d.one(id, func(key bson.RawValue) (*state, error) { return d.core.asOf(ctx, key, moment) })
}

// History yields all revisions of a document that are kept, the current or newest one
// first, deletions and lost ones included, without Options.Ignored. If there are none
// it yields mongopatterns.ErrNotFound. A revision that comes while it runs is not seen.
//
// Cost: 2 round trips, and further ones for many revisions; 1 key and document for
// each.
func (d *Documents[ID, T]) History(ctx context.Context, id ID) iter.Seq2[Revision[T], error] {
	return fault.Seq("versioning: history", func(yield func(Revision[T], error) bool) {
		key, err := d.id(id)
		more := true
		if err == nil {
			err = d.core.walk(ctx, key, func(s *state) bool {
				r, failed := d.shown(s, nil)
				more = yield(r, failed) && failed == nil
				return more
			})
		}
		if err != nil && more {
			yield(Revision[T]{}, err)
		}
	})
}
