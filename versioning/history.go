package versioning

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// A row is a document of the revisions collection.
type row struct {
	document bson.RawValue // its ID
	number   int64
	change   Change
	deleted  bool
	whole    []field  // nil if there is
	delta    bson.Raw // this, or neither
	ignored  []string // fields that the delta may know, and no read shows
}

// row makes the revision document of a state. next is the state that follows, nil
// if it must not be stored as a delta from that.
func (d *Documents[ID, T]) row(s, next *state) bson.Raw {
	id := bson.NewObjectID()
	out := []field{
		{"_id", bson.RawValue{Type: bson.TypeObjectID, Value: id[:]}},
		{d.opts.DocumentIDField, s.id},
		{d.opts.RevisionField, int64Value(s.number)},
		{d.opts.ChangeField, s.change.value()},
	}
	if s.deleted {
		return document(append(out, field{d.opts.DeletedField, bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}}))
	}
	whole := documentValue(d.versioned(s.fields))
	if next != nil && s.number%int64(d.opts.SnapshotEvery) != 0 {
		a, b := d.versioned(next.fields), d.versioned(s.fields)
		if distinct(a) && distinct(b) {
			if delta := documentValue(deltaOf(a, b)); len(delta.Value) < len(whole.Value) {
				return document(append(out, field{d.opts.DeltaField, delta}))
			}
		}
	}
	return document(append(out, field{d.opts.DocumentField, whole}))
}

func (d *Documents[ID, T]) parseRow(raw bson.Raw) (*row, error) {
	r := &row{document: raw.Lookup(d.opts.DocumentIDField), change: parseChange(raw.Lookup(d.opts.ChangeField)), ignored: d.opts.Ignored}
	if r.document.Type == 0 {
		r.document.Type = bson.TypeNull // as the server has it
		return r, fmt.Errorf("%w: revision document %s has no %q", ErrInconsistent, rawvalue.Text(raw.Lookup("_id")), d.opts.DocumentIDField)
	}
	var ok bool
	if r.number, ok = wholeNumber(raw.Lookup(d.opts.RevisionField)); !ok {
		return r, fmt.Errorf("%w: revision document %s has no number", ErrInconsistent, rawvalue.Text(raw.Lookup("_id")))
	}
	r.deleted, _ = raw.Lookup(d.opts.DeletedField).BooleanOK()
	if doc, ok := raw.Lookup(d.opts.DocumentField).DocumentOK(); ok {
		all, err := fields(doc)
		if err != nil {
			return r, r.broken(err)
		}
		r.whole = all
	}
	r.delta, _ = raw.Lookup(d.opts.DeltaField).DocumentOK()
	return r, nil
}

func (r *row) broken(err error) error {
	return fmt.Errorf("%w: document %s, revision %d: %w", ErrInconsistent, rawvalue.Text(r.document), r.number, err)
}

var (
	errNoState = errors.New("neither document nor delta nor deletion")
	errNoNext  = errors.New("the revision that its delta is for is missing")
)

// state is what a row says, given the state that follows it if it is known.
func (r *row) state(next *state) (*state, error) {
	s := &state{id: r.document, number: r.number, change: r.change, deleted: r.deleted, fields: r.whole}
	switch {
	case r.deleted || r.whole != nil:
		return s, nil
	case r.delta == nil:
		return nil, r.broken(errNoState)
	case next == nil || next.deleted || next.number != r.number+1:
		return nil, r.broken(errNoNext)
	}
	var err error
	if s.fields, err = applyDelta(next.fields, r.delta, r.ignored...); err != nil {
		return nil, r.broken(err)
	}
	return s, nil
}

// resolve returns the states of rows, in their order, of which each follows the one
// before. next is the state after the last row, if it is known.
func resolve(rows []*row, next *state) ([]*state, error) {
	out := make([]*state, len(rows))
	for i, r := range slices.Backward(rows) {
		var err error
		if next, err = r.state(next); err != nil {
			return nil, err
		}
		out[i] = next
	}
	return out, nil
}

// past is a state as the history shows it.
func (d *Documents[ID, T]) past(s *state) *state {
	out := *s
	out.fields, out.raw = d.versioned(s.fields), nil
	return &out
}

// At returns revision n, the current one included, without Options.Ignored. It may
// be ErrDeleted, ErrPruned, also where something else than Prune took it out, or
// ErrNotFound.
//
// Cost: 1 round trip, 1 key and document by the unique index; 2 if it is the current
// one; with deltas up to SnapshotEvery keys and documents, and 1 more where no whole
// revision follows; 3 where there is no such document.
func (d *Documents[ID, T]) At(ctx context.Context, id ID, n int64) (Revision[T], error) {
	s, err := d.read(ctx, id, n)
	if err != nil {
		return Revision[T]{}, fail("at", err)
	}
	revision, err := d.revision(s)
	return revision, fail("at", err)
}

func (d *Documents[ID, T]) read(ctx context.Context, id ID, n int64) (*state, error) {
	key, err := d.value(id)
	if err != nil {
		return nil, err
	}
	return d.stateAt(ctx, key, n)
}

// stateAt reads revision n and what it needs of those that follow.
func (d *Documents[ID, T]) stateAt(ctx context.Context, id bson.RawValue, n int64) (*state, error) {
	if n < 1 {
		return nil, ofRevision(id, n, ErrNotFound)
	}
	return d.follow(ctx, id, n, nil)
}

// follow reads the revisions of id from n on, of which it has rows, until one that
// stands by itself, and returns the state of revision n. Revisions only ever come to
// the end of the history, so a current document that turns out to be later than what
// was found there is not raced against: its predecessors can be read.
func (d *Documents[ID, T]) follow(ctx context.Context, id bson.RawValue, n int64, rows []*row) (*state, error) {
	every := int64(d.opts.SnapshotEvery)
	var later, gone bool // what the current document was when no more rows were found
	for len(rows) == 0 || rows[len(rows)-1].delta != nil {
		next := n + int64(len(rows))
		limit := (every-next%every)%every + 1
		found, err := d.rows(ctx, d.rowFilter(d.equal(id), bson.E{Key: d.opts.RevisionField, Value: bson.D{{Key: "$gte", Value: next}}}),
			bson.D{{Key: d.opts.RevisionField, Value: 1}}, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.number != next {
				return nil, lost(rows, ofRevision(id, n, ErrPruned))
			}
			rows = append(rows, r)
			if next++; r.delta == nil {
				break
			}
		}
		if len(found) > 0 {
			later, gone = false, false
			if int64(len(found)) == limit || rows[len(rows)-1].delta == nil {
				continue
			}
		}
		switch {
		case later:
			return nil, lost(rows, ofRevision(id, n, ErrPruned))
		case gone:
			return nil, lost(rows, ofRevision(id, n, ErrNotFound))
		}
		current, err := d.load(ctx, d.current, id)
		switch {
		case errors.Is(err, ErrNotFound):
			gone = true // if just now, it is in the history by now
		case err != nil:
			return nil, err
		case current.number > next:
			later = true // the same
		case current.number < next:
			return nil, lost(rows, ofRevision(id, n, ErrNotFound))
		case len(rows) == 0:
			return d.past(current), nil
		default:
			states, err := resolve(rows, current)
			if err != nil {
				return nil, err
			}
			return d.past(states[0]), nil
		}
	}
	states, err := resolve(rows, nil)
	if err != nil {
		return nil, err
	}
	if states[0].deleted {
		return nil, ofRevision(id, n, ErrDeleted)
	}
	return d.past(states[0]), nil
}

// lost is err where no revision was found, and else that the last one needs another.
func lost(rows []*row, err error) error {
	if len(rows) == 0 {
		return err
	}
	return rows[len(rows)-1].broken(errNoNext)
}

func (d *Documents[ID, T]) rows(ctx context.Context, filter, sort bson.D, limit int64) ([]*row, error) {
	var out []*row
	err := d.each(ctx, d.revisions, filter, options.Find().SetSort(sort).SetLimit(limit), func(r *row) (bool, error) {
		out = append(out, r)
		return true, nil
	})
	return out, err
}

// each reads rows until visit returns false.
func (d *Documents[ID, T]) each(ctx context.Context, coll *mongo.Collection, filter bson.D, opts *options.FindOptionsBuilder, visit func(*row) (bool, error)) error {
	cursor, err := coll.Find(ctx, filter, opts)
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		r, err := d.parseRow(append(bson.Raw(nil), cursor.Current...))
		if err != nil {
			return err
		}
		if more, err := visit(r); err != nil || !more {
			return err
		}
	}
	return cursor.Err()
}

// AsOf returns the revision that was current at a time, without Options.Ignored: the
// last one of those in its millisecond. Before the first one it is ErrNotFound,
// outside of the years 1 to 9999 ErrInvalid.
//
// Cost: 1 round trip, 1 key and document, if that is the current one, else 2, with 1
// key and document by the index on time; with deltas 1 or 2 more, as At; 3 for a time
// before the history.
func (d *Documents[ID, T]) AsOf(ctx context.Context, id ID, moment time.Time) (Revision[T], error) {
	s, err := d.asOf(ctx, id, moment)
	if err != nil {
		return Revision[T]{}, fail("as of", err)
	}
	revision, err := d.revision(s)
	return revision, fail("as of", err)
}

func (d *Documents[ID, T]) asOf(ctx context.Context, id ID, moment time.Time) (*state, error) {
	if err := checkTime("moment", moment); err != nil {
		return nil, err
	}
	key, err := d.value(id)
	if err != nil {
		return nil, err
	}
	// The current document comes first: what was current when it was read, and is
	// not any more, is in the history by then.
	current, err := d.load(ctx, d.current, key)
	switch {
	case err == nil && current.change.At.UnixMilli() <= moment.UnixMilli():
		return d.past(current), nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return nil, err
	}
	rows, err := d.rows(ctx, d.rowFilter(d.equal(key), bson.E{Key: d.at(), Value: bson.D{{Key: "$lt", Value: bson.DateTime(moment.UnixMilli() + 1)}}}),
		bson.D{{Key: d.at(), Value: -1}, {Key: d.opts.RevisionField, Value: -1}}, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		return d.follow(ctx, key, rows[0].number, rows)
	}
	oldest, err := d.rows(ctx, d.rowFilter(d.equal(key)), bson.D{{Key: d.opts.RevisionField, Value: 1}}, 1)
	if err != nil {
		return nil, err
	}
	if len(oldest) > 0 && oldest[0].number > 1 || len(oldest) == 0 && current != nil && current.number > 1 {
		return nil, of(key, ErrPruned)
	}
	return nil, of(key, ErrNotFound)
}

// HistoryOptions bounds History.
type HistoryOptions struct {
	// OldestFirst yields the oldest revision first. Default false: the current or
	// newest one first.
	OldestFirst bool
}

// History yields all revisions of a document that are kept, deletions and the
// current one included, without Options.Ignored. If there are none it yields
// ErrNotFound. A revision that comes while it runs is not seen. At the first delta
// that does not apply it ends with ErrInconsistent, also where there are whole
// revisions beyond; At and HistoryPipeline reach these.
//
// Cost: 2 round trips, and further ones for many revisions; 1 key and document for
// each. Oldest first, with deltas, up to SnapshotEvery states are held in memory.
func (d *Documents[ID, T]) History(ctx context.Context, id ID, opts *HistoryOptions) iter.Seq2[Revision[T], error] {
	return func(yield func(Revision[T], error) bool) {
		err := d.walk(ctx, id, opts != nil && opts.OldestFirst, func(s *state) (bool, error) {
			r, err := d.revision(s)
			return err == nil && yield(r, nil), err
		})
		if err != nil {
			yield(Revision[T]{}, fail("history", err))
		}
	}
}

// walk visits the states of a document until visit returns false.
func (d *Documents[ID, T]) walk(ctx context.Context, id ID, oldestFirst bool, visit func(*state) (bool, error)) error {
	key, err := d.value(id)
	if err != nil {
		return err
	}
	// First the current document, see asOf.
	current, err := d.load(ctx, d.current, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	filter := d.rowFilter(d.equal(key))
	if current != nil {
		filter = append(filter, bson.E{Key: d.opts.RevisionField, Value: bson.D{{Key: "$lt", Value: current.number}}})
	}
	show := func(s *state) (bool, error) { return visit(d.past(s)) }
	found := current != nil
	if oldestFirst {
		err = d.ascend(ctx, filter, current, func(s *state) (bool, error) {
			found = true
			return show(s)
		})
	} else {
		next := current
		if current != nil {
			if more, err := show(current); err != nil || !more {
				return err
			}
		}
		err = d.each(ctx, d.revisions, filter, options.Find().SetSort(bson.D{{Key: d.opts.RevisionField, Value: -1}}), func(r *row) (bool, error) {
			found = true
			if next == nil && r.delta != nil { // it has been created again, and saved, meanwhile
				next, err = d.follow(ctx, key, r.number, []*row{r})
			} else {
				next, err = r.state(next)
			}
			if err != nil {
				return false, err
			}
			return show(next)
		})
	}
	if err == nil && !found {
		return of(key, ErrNotFound)
	}
	return err
}

// ascend visits states upwards, holding back those whose delta needs one that comes
// later.
func (d *Documents[ID, T]) ascend(ctx context.Context, filter bson.D, current *state, visit func(*state) (bool, error)) error {
	var pending []*row
	more := true
	flush := func(next *state) error {
		states, err := resolve(pending, next)
		if errors.Is(err, errNoNext) { // Prune may have taken it since the first batch was read
			oldest, failed := d.rows(ctx, filter, bson.D{{Key: d.opts.RevisionField, Value: 1}}, 1)
			if failed != nil {
				return failed
			}
			if len(oldest) > 0 && oldest[0].number > pending[0].number {
				pending = slices.DeleteFunc(pending, func(r *row) bool { return r.number < oldest[0].number })
				states, err = resolve(pending, next)
			}
		}
		pending = nil
		for _, s := range states {
			if more, err = visit(s); err != nil || !more {
				return err
			}
		}
		return err
	}
	err := d.each(ctx, d.revisions, filter, options.Find().SetSort(bson.D{{Key: d.opts.RevisionField, Value: 1}}), func(r *row) (bool, error) {
		pending = append(pending, r)
		if r.delta != nil {
			return true, nil
		}
		err := flush(nil)
		return more, err
	})
	if err == nil && more && current == nil && len(pending) > 0 {
		// It has been created again, and saved, meanwhile.
		last := pending[len(pending)-1]
		if current, err = d.follow(ctx, last.document, last.number, []*row{last}); err == nil {
			pending = pending[:len(pending)-1]
		}
	}
	if err == nil && more {
		err = flush(current)
	}
	if err == nil && more && current != nil {
		_, err = visit(current)
	}
	return err
}
