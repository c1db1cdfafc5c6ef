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
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

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

// counted selects rows with a number from 1 on. The unique index holds these, so the server
// uses it only for filters that say at least as much.
func (d *store) counted() bson.E { return expr.Element(d.opts.RevisionField, expr.Op("$gte", 1)) }

// uncounted selects the rows beside the unique index.
func (d *store) uncounted() bson.E {
	return expr.Element(d.opts.RevisionField, expr.Op("$not", expr.Op("$gte", 1)))
}

func (d *store) at() string { return d.opts.ChangeField + "." + atKey }

func (d *store) byNumber(direction int) bson.D {
	return bson.D{expr.Element(d.opts.RevisionField, direction)}
}

// row makes the revision document of a state. next is the state that follows, nil
// if it must not be stored as a delta from that.
func (d *store) row(s, next *state) bson.Raw {
	key, what := documentKey, bson.RawValue{}
	if s.deleted {
		key, what = deletedKey, bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}
	} else {
		what = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc.Raw(s.all, d.unkept...)}
		if next != nil && s.number%int64(d.opts.SnapshotEvery) != 0 {
			a := d.kept(next)
			if delta, ok := doc.Delta(a, d.kept(s)); ok {
				made := doc.Embedded(append([]doc.Field{field(ofKey, valueOf(d.digest(a)))}, delta...))
				if len(made.Value) < len(what.Value) {
					key, what = deltaKey, made
				}
			}
		}
	}
	return doc.Raw([]doc.Field{
		field(d.opts.DocumentIDField, s.id), field(d.opts.RevisionField, valueOf(s.number)),
		field(d.opts.ChangeField, s.change.value()), field(key, what),
	})
}

// parseRow takes a revision apart, but for its delta. If it is none, what is known of it
// comes with the error.
func (d *store) parseRow(raw bson.Raw) (*state, error) {
	s := &state{row: raw.Lookup("_id"), id: raw.Lookup(d.opts.DocumentIDField), change: stampOf(raw.Lookup(d.opts.ChangeField))}
	var ok bool
	s.number, ok = wholeNumber(raw.Lookup(d.opts.RevisionField))
	missing := ""
	switch {
	case s.id.Type == 0:
		s.id.Type, missing = bson.TypeNull, d.opts.DocumentIDField // null as the server has it
	case !ok:
		missing = "number in " + d.opts.RevisionField
	}
	if missing != "" {
		return s, fmt.Errorf("%w: revision with _id %s: no %s", ErrInconsistent, value.Text(s.row), missing)
	}
	whole, isWhole := raw.Lookup(documentKey).DocumentOK()
	if s.deleted, _ = raw.Lookup(deletedKey).BooleanOK(); s.deleted {
		return s, nil
	}
	if isWhole {
		s.all = doc.Patch(doc.Open(whole), d.own(s))
	} else {
		s.delta, _ = raw.Lookup(deltaKey).DocumentOK()
	}
	return s, nil
}

var (
	errNoState = errors.New("neither document nor delta nor deletion")
	errNoNext  = errors.New("the revision that its delta is made from is missing")
	errOther   = errors.New("the revision that its delta is made from was changed by something else")
)

// ofKey is the digest of the document that a delta is made from, beside the delta.
const ofKey = "of"

const namesBytes = 4

// digest tells the document that a delta is made from: what the history keeps of it. It
// begins with a digest of the names of Options.Ignored, as with others it covers other
// fields.
func (d *store) digest(kept []doc.Field) []byte {
	names := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(d.opts.Ignored)), "\x00")))
	content := sha256.Sum256(doc.Raw(kept))
	return append(names[:namesBytes:namesBytes], content[:12]...)
}

// fits reports whether a delta was made from a state. One made with other names in
// Options.Ignored cannot be told from it, and passes.
func (d *store) fits(delta bson.Raw, next *state) bool {
	_, was, ok := delta.Lookup(ofKey).BinaryOK()
	is := d.digest(d.kept(next))
	return ok && len(was) > namesBytes && (bytes.Equal(was, is) || !bytes.Equal(was[:namesBytes], is[:namesBytes]))
}

// resolve makes the document of a revision out of the following one, if that is known.
// With an error it is lost.
func (d *store) resolve(s, next *state) error {
	var err error
	switch {
	case s.deleted || s.all != nil:
		return nil
	case s.delta == nil:
		err = errNoState
	case next == nil || next.deleted || next.lost || next.number != s.number+1:
		err = errNoNext
	case !d.fits(s.delta, next):
		err = errOther
	default:
		var all []doc.Field
		if all, err = doc.Apply(doc.Without(next.all, d.names...), doc.Without(doc.Open(s.delta), ofKey), d.opts.Ignored...); err == nil {
			s.all = doc.Patch(all, d.own(s))
			return nil
		}
	}
	s.lost = true
	return ofRevision(s.id, s.number, fmt.Errorf("%w: %w", ErrInconsistent, err))
}

func (d *store) rows(ctx context.Context, filter, sort bson.D, limit int64) iter.Seq2[*state, error] {
	return func(yield func(*state, error) bool) {
		if d.revisions == nil {
			return
		}
		for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return d.revisions.Find(ctx, filter, options.Find().SetSort(sort).SetLimit(limit))
		}) {
			var s *state
			if err == nil {
				s, err = d.parseRow(raw)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// first is the first revision in an order, nil if there is none.
func (d *store) first(ctx context.Context, filter, sort bson.D) (*state, error) {
	for s, err := range d.rows(ctx, filter, sort, 1) {
		return s, err
	}
	return nil, nil
}

// newest is the last revision in the history, nil if there is none.
func (d *store) newest(ctx context.Context, id bson.RawValue) (*state, error) {
	return d.primary.first(ctx, d.numbered(id, 1), d.byNumber(-1))
}

// chain reads revisions without a gap from n on, up to one that stands by itself, or as far
// as there are any. limit 0 is none.
func (d *store) chain(ctx context.Context, id bson.RawValue, n, limit int64) (rows []*state, err error) {
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

func complete(rows []*state) bool { return len(rows) > 0 && rows[len(rows)-1].delta == nil }

// revision reads revision n. The first of its rows and the current document may have been
// read already.
func (d *store) revision(ctx context.Context, id bson.RawValue, n int64, rows []*state, current *state) (*state, error) {
	if n < 1 {
		return nil, ofRevision(id, n, fault.ErrNotFound)
	}
	var err error
	if every := int64(d.opts.SnapshotEvery); !complete(rows) {
		rows, err = d.chain(ctx, id, n, (every-n%every)%every+1)
	}
	if err == nil && !complete(rows) {
		if current == nil {
			current, err = d.load(ctx, id)
		}
		if err == nil && (current == nil || current.number > n+int64(len(rows))) {
			// What was current, or just deleted, is in the history by now; or the next whole
			// revision is further away, as SnapshotEvery was larger once.
			rows, err = d.chain(ctx, id, n, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	if current != nil && current.number >= n {
		rows = rows[:min(len(rows), int(current.number-n))] // later ones have come since
	}
	next := current
	for _, r := range slices.Backward(rows) {
		if err, next = d.resolve(r, next), r; err != nil && r.number == n {
			return nil, err
		}
	}
	switch {
	case len(rows) == 0 && (current == nil || current.number < n):
		return nil, ofRevision(id, n, fault.ErrNotFound)
	case len(rows) == 0 && current.number > n:
		return nil, ofRevision(id, n, ErrPruned)
	case next.deleted:
		return nil, ofRevision(id, n, ErrDeleted)
	}
	return d.past(next), nil
}

func (d *store) asOf(ctx context.Context, id bson.RawValue, moment time.Time) (*state, error) {
	if err := checkTime("moment", moment); err != nil {
		return nil, err
	}
	// The current document comes first: what was current when it was read, and is
	// not any more, is in the history by then.
	current, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if current != nil && current.change.at.UnixMilli() <= moment.UnixMilli() {
		return d.past(current), nil
	}
	until := expr.Element(d.at(), expr.Op("$lt", bson.DateTime(moment.UnixMilli()+1)))
	then, err := d.first(ctx, append(d.numbered(id, 1), until), expr.D(d.at(), -1, d.opts.RevisionField, -1))
	if err != nil {
		return nil, err
	}
	if then != nil {
		return d.revision(ctx, id, then.number, []*state{then}, current)
	}
	oldest, err := d.chain(ctx, id, 1, 1)
	if err != nil {
		return nil, err
	}
	if oldest == nil && current != nil && current.number > 1 {
		return nil, fault.Of(id, ErrPruned)
	}
	return nil, fault.Of(id, fault.ErrNotFound)
}

// walk yields the states of a document, newest first. Without any it is ErrNotFound.
func (d *store) walk(ctx context.Context, id bson.RawValue) iter.Seq2[*state, error] {
	return func(yield func(*state, error) bool) {
		next, err := d.load(ctx, id) // first, see asOf
		if err != nil {
			yield(nil, err)
			return
		}
		filter, found := d.numbered(id, 1), next != nil
		if found {
			if !yield(d.past(next), nil) {
				return
			}
			filter = d.numbered(id, 1, expr.Element("$lt", next.number))
		}
		for s, err := range d.rows(ctx, filter, d.byNumber(-1), 0) {
			if err == nil && !found && s.delta != nil {
				var again *state
				if again, err = d.primary.load(ctx, id); again != nil { // and saved, meanwhile
					d.walk(ctx, id)(yield)
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			_ = d.resolve(s, next) // a lost one is shown as such
			found, next = true, s
			if !yield(d.past(s), nil) {
				return
			}
		}
		if !found {
			yield(nil, fault.Of(id, fault.ErrNotFound))
		}
	}
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
	return d.one(id, func(key bson.RawValue) (*state, error) { return d.core.revision(ctx, key, n, nil, nil) })
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
		if err != nil {
			yield(Revision[T]{}, err)
			return
		}
		for s, err := range d.core.walk(ctx, key) {
			r, err := d.shown(s, err)
			if !yield(r, err) || err != nil {
				return
			}
		}
	})
}
