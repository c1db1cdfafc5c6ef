package versioning

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

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

// Undo takes back what revision n has changed, and keeps what later revisions have:
// the differences between n-1 and n are applied backwards to the current document, as
// a new revision. Elements of arrays are found wherever they are now. If a later
// revision has changed the same value, the error is mongopatterns.ErrConflict, and
// names it: a repeated call finds its own changes. Of revision 1, which Delete undoes,
// it is ErrInvalid.
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
	then, err := d.stateAt(ctx, id, n)
	if err != nil {
		return nil, err
	}
	s, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	old := d.kept(then)
	if s == nil {
		return d.create(ctx, then.id, old, change)
	}
	return d.revise(ctx, s, change, func(stored *state) []field { return changes(d.kept(stored), old) })
}

// revise makes a new revision of a current document, if there are changes.
func (d *store) revise(ctx context.Context, s *state, change stamp, what func(stored *state) []field) (*state, error) {
	changes := what(s)
	if len(changes) == 0 {
		return s, nil
	}
	next, err := d.successor(s, &change, changes)
	if err != nil {
		return nil, err
	}
	return d.replace(ctx, s, next, change, what)
}

func (d *store) undo(ctx context.Context, id bson.RawValue, n int64, change stamp) (*state, error) {
	before, err := d.stateAt(ctx, id, n-1)
	if err != nil {
		return nil, err
	}
	after, err := d.stateAt(ctx, id, n)
	if err != nil {
		return nil, err
	}
	s, err := d.get(ctx, id)
	if err != nil {
		return nil, err
	}
	merged := func(stored *state) ([]field, []string) {
		m := later()
		now := d.kept(stored)
		return changes(now, m.document(now, d.kept(after), d.kept(before))), m.clashes
	}
	if _, clashes := merged(s); clashes != nil {
		err := fmt.Errorf("%w: later revisions have changed %s too", fault.ErrConflict, strings.Join(clashes, ", "))
		return nil, ofRevision(id, n, err)
	}
	return d.revise(ctx, s, change, func(stored *state) []field {
		what, _ := merged(stored)
		return what
	})
}
