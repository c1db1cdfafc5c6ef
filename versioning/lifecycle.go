package versioning

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Insert stores a new document as revision 1 or, if a document with this _id was deleted, as the revision after its
// deletion. A document that encodes without an _id gets an ObjectID. To get one, tag the field bson:"_id,omitempty",
// because otherwise a zero ID is stored as it is. If there is a current document with this _id, as when the call is
// repeated, Insert returns mongopatterns.ErrExists. If no value of ID encodes to the _id, it returns
// mongopatterns.ErrInvalid. If other code removed the document, its deletion is recorded first, without author.
//
// Cost: 3 round trips, 1 document written, unique index, 1 key.
//   - Over a deleted one 4 and 2 writes, 5 and 3 where the deletion is missing.
//   - Without _id, or a history, 1; if it exists 2.
func (d *History[ID, T]) Insert(ctx context.Context, document T, change Change) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Insert")
	defer fault.In(&err, "versioning.Insert")
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	raw, _, err := d.encode(document, nil)
	if err != nil {
		return Revision[T]{}, err
	}
	all := diff.Open(raw)
	if !diff.Distinct(all) {
		return Revision[T]{}, fault.Invalid("the document has a field twice")
	}
	id := diff.Find(all, "_id")
	made := id.Type == 0
	if made {
		id = value.NewID()
		if _, err := codec.DecodeNew[ID](d.core.codec, id, true); err != nil {
			return Revision[T]{}, err
		}
	}
	if err := d.checkID(id); err != nil {
		return Revision[T]{}, err
	}
	all = append([]diff.Field{field("_id", id)}, diff.Without(all, "_id")...) // the server stores it first anyway
	if !made {
		return d.saved(d.core.create(ctx, id, all, by))
	}
	c, err := d.core.begin(id, all, 1, by.after(stamp{}))
	if err == nil { // a new ID has no history
		_, err = fault.One(d.core.current.InsertOne(ctx, c.raw))
	}
	return d.saved(c, err)
}

// create inserts a document, with the number that follows its history, if it has one.
func (d *store) create(ctx context.Context, id bson.RawValue, all []diff.Field, by stamp) (*current, error) {
	var c *current
	err := d.within(ctx, func(ctx context.Context) error {
		var err error
		if c, err = d.begin(id, all, 1, by.after(stamp{})); err != nil {
			return err
		}
		// Insert first. This succeeds only after a transaction that deletes the document has
		// committed, so the deletion is visible below.
		if _, err := fault.One(d.current.InsertOne(ctx, c.raw)); err != nil {
			return err
		}
		last, err := d.newest(ctx, id)
		if err != nil || last == nil {
			return err
		}
		if !last.deleted { // other code removed the document
			last = &row{head: last.after(stamp{at: c.change.at})}
			err := d.archive(ctx, d.deletion(last.head))
			if mongo.IsDuplicateKeyError(err) { // Repair has recorded the deletion
				return txn.Conflict("record a deletion")
			}
			if err != nil {
				return err
			}
		}
		if c, err = d.begin(id, all, last.number+1, by.after(last.change)); err != nil {
			return err
		}
		_, err = fault.One(d.current.ReplaceOne(ctx, d.guard(id, 1), c.raw))
		return err
	})
	return c, fault.Taken("_id", id, err)
}

// within runs fn in a transaction, unless there is no history.
func (d *store) within(ctx context.Context, fn func(ctx context.Context) error) error {
	if d.revisions == nil {
		return fn(ctx)
	}
	return txn.Run(ctx, d.current, fn)
}

// Delete removes the current document if its revision is still number read, and adds its last state and the
// deletion to the history. If the revision is a later one, it returns a *ConflictError. If there is no
// document, as when the call is repeated, it returns mongopatterns.ErrNotFound.
//
// Cost: 3 round trips, 3 documents written, index _id, 1 key; 1 without a history.
//   - 1 more for a document without a number.
//   - A conflict costs 3, with the abort.
func (d *History[ID, T]) Delete(ctx context.Context, id ID, read int64, change Change) (err error) {
	ctx = comment.Call(ctx, "versioning.Delete")
	defer fault.In(&err, "versioning.Delete")
	if read < 1 {
		return fault.Invalid("read: it is %d and must be 1 or more", read)
	}
	by, err := d.core.stamp(change)
	if err != nil {
		return err
	}
	key, err := d.id(id)
	if err != nil {
		return err
	}
	return d.core.delete(ctx, key, read, by)
}

func (d *store) delete(ctx context.Context, id bson.RawValue, read int64, by stamp) error {
	return d.within(ctx, func(ctx context.Context) error {
		found, err := fault.Single(d.current.FindOneAndDelete(ctx, d.guard(id, read))).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return d.conflict(ctx, id, read)
		}
		if err != nil || d.revisions == nil {
			return err
		}
		last, err := d.parse(found)
		if err != nil {
			return err
		}
		after := last.after(by)
		if err := check(after, nil); err != nil {
			return err
		}
		if err := checkLevels(last.id, last.all); err != nil {
			return err
		}
		if err := d.begun(ctx, last); err != nil {
			return err
		}
		return d.archive(ctx, d.archived(last, nil), d.deletion(after))
	})
}

// Restore makes the content of revision n current again, as a new revision, even if the document was
// deleted. Options.Ignored stay as they are stored. Everything else that other code has written since
// revision n is taken back, the fields of another pattern too. A document that was deleted no longer has
// the ignored fields, so set them in the same mongopatterns.Transact, a copy of package extref with its
// Pin, or run Adopt of extref afterwards. If the current document already has this content, as when the
// call is repeated, nothing is written. After a conflict Restore retries as Edit does.
//
// Cost: that of At and 4 round trips, 2 documents written.
//   - Of a deleted document that of At and 5, of one that something else removed 6 and 3; 1 more for a document
//     without a number.
func (d *History[ID, T]) Restore(ctx context.Context, id ID, n int64, change Change) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Restore")
	defer fault.In(&err, "versioning.Restore")
	return d.again(ctx, id, n, change, d.core.primary.restore)
}

// Undo takes back the changes that revision n made, and keeps those of later revisions. It reverses
// the differences between n-1 and n in the current document, as a new revision, so n is 2 or more.
// Array elements are found wherever they are now. If a later revision has changed the same value,
// Undo returns mongopatterns.ErrConflict, which names the value. After a conflict with another writer
// it retries as Edit does.
//
// What other code has written without this package, after a revision and before the next one, counts as
// changes of that revision, so Undo takes it back too, except in Options.Ignored. If n is the newest
// revision, this is all that was written since.
//
// A second Undo of n finds nothing to take back, writes nothing and returns the current revision. But if
// a later revision has changed an array that n changed, it can return mongopatterns.ErrConflict, or take
// back one more element that is equal. So after a lost answer, first see by the number of the current
// revision, or by an ID in Change.Fields, whether the first Undo was stored.
//
// Cost: that of At twice, and 4 round trips, 2 documents written.
func (d *History[ID, T]) Undo(ctx context.Context, id ID, n int64, change Change) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Undo")
	defer fault.In(&err, "versioning.Undo")
	if n < 2 {
		return Revision[T]{}, fault.Invalid("n: it is %d and must be 2 or more", n)
	}
	return d.again(ctx, id, n, change, d.core.primary.undo)
}

// again makes a new revision from an old one, by do.
func (d *History[ID, T]) again(ctx context.Context, id ID, n int64, change Change,
	do func(ctx context.Context, id bson.RawValue, n int64, by stamp) (*current, error)) (Revision[T], error) {
	by, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.retry(ctx, func() (Revision[T], error) { return d.saved(do(ctx, key, n, by)) })
}

func (d *store) restore(ctx context.Context, id bson.RawValue, n int64, by stamp) (*current, error) {
	then, err := d.revision(ctx, id, n, nil, nil)
	if err != nil {
		return nil, err
	}
	now, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return d.create(ctx, then.id, then.document, by)
	}
	document, err := d.scoped(then.document) // a revision can be older than the scope
	if err != nil {
		return nil, err
	}
	but := func(all []diff.Field) []diff.Field { return diff.Without(all, "_id") } // the stored _id stays, 1.0 where the revision has 1
	return d.revise(ctx, now, diff.Changes(but(d.kept(now)), but(document)), by)
}

func (d *store) undo(ctx context.Context, id bson.RawValue, n int64, by stamp) (*current, error) {
	before, after, err := d.two(ctx, id, n-1, n)
	if err != nil {
		return nil, err
	}
	now, err := d.get(ctx, id)
	if err != nil {
		return nil, err
	}
	theirs := d.kept(now)
	next, clashes := diff.Merge(after, theirs, before, diff.Options{Arrays: diff.Matched})
	if clashes != nil {
		err := fmt.Errorf("%w: later revisions have changed %s too", mongopatterns.ErrConflict, strings.Join(clashes, ", "))
		return nil, ofRevision(id, n, err)
	}
	return d.revise(ctx, now, diff.Changes(theirs, next), by)
}
