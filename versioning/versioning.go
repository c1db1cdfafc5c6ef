package versioning

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Documents keeps the revisions of documents of type T, whose _id is of type ID. It
// is safe for concurrent use.
type Documents[ID, T any] struct {
	core *store
	kind kind // of T
}

var _ mongopatterns.Checker = (*Documents[string, bson.D])(nil)

// A Change says who made a revision, when and why.
type Change struct {
	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is in milliseconds, in the years 1 to 9999. To a write the zero time is now; a
	// time before that of the revision before is raised to it. From a read it is zero
	// where the time is not known.
	At time.Time `json:"at,omitzero"`
	// Fields are your own, stored beside the others: a ticket, an address. Names are
	// plain.
	Fields bson.D `json:"fields,omitempty"`
}

// A Revision is a state of a document.
type Revision[T any] struct {
	// Number counts the revisions of the document from 1.
	Number int64 `json:"number"`
	// Change made this revision.
	Change Change `json:"change"`
	// Deleted says that this revision is a deletion; Document is zero then.
	Deleted bool `json:"deleted,omitempty"`
	// Lost says that something else has changed or removed what the delta of the
	// document is made from; Document is zero then. Only History returns such revisions.
	Lost bool `json:"lost,omitempty"`
	// Document is the document, with the fields of number and change, if T has them.
	Document T `json:"document"`

	base *current // what this was read from; nil: not known
}

var (
	// ErrPruned: the revision, or the one that held at the time asked for, is no
	// longer in the history. It matches mongopatterns.ErrNotFound.
	ErrPruned = fault.New("revision was pruned", fault.ErrNotFound)
	// ErrDeleted: the document was deleted by the revision, or at the time, asked
	// for. It matches mongopatterns.ErrNotFound.
	ErrDeleted = fault.New("document was deleted", fault.ErrNotFound)
	// ErrExists: Create found a document with this _id.
	ErrExists = fault.New("document exists", nil)
	// ErrInconsistent: the history does not agree with itself or with the current
	// document. Check says how.
	ErrInconsistent = fault.New("inconsistent history", nil)
)

// A ConflictError says that the current document is another revision than the one
// that was read. It matches mongopatterns.ErrConflict.
type ConflictError struct {
	ID            bson.RawValue // of the document
	Read, Current int64         // numbers of revisions
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict: _id %s: revision %d was read, %d is current", value.Text(e.ID), e.Read, e.Current)
}

// Unwrap returns mongopatterns.ErrConflict.
func (e *ConflictError) Unwrap() error { return fault.ErrConflict }

// ofRevision names the document and the revision that an error is about.
func ofRevision(id bson.RawValue, number int64, err error) error {
	return fault.Of(id, fmt.Errorf("revision %d: %w", number, err))
}

// New returns a helper for current, your documents, and revisions, what they were before,
// in the same database. T is what the driver encodes as a document. With
// Options.NoHistory revisions is nil.
func New[ID, T any](current, revisions *mongo.Collection, opts *Options) (_ *Documents[ID, T], err error) {
	defer fault.In(&err, "versioning")
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	colls := []any{"current", current, "revisions", revisions}
	if o.NoHistory {
		if revisions != nil {
			return nil, fault.Invalid("Options.NoHistory: revisions is not nil")
		}
		colls = colls[:2]
	}
	if err := config.Collections(colls...); err != nil {
		return nil, err
	}
	core := &store{
		opts: o, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON}, current: current, revisions: revisions,
		names:  []string{o.RevisionField, o.ChangeField},
		unkept: append([]string{o.RevisionField, o.ChangeField}, o.Ignored...),
	}
	t := reflect.TypeFor[T]()
	d := &Documents[ID, T]{core, kindOf(t, o.Registry)}
	if !d.kind.coded && !isDocument(t) {
		return nil, fault.Invalid("T: %v is not a document", t)
	}
	primary := *core
	primary.current, primary.primary = cursor.Primary(current), &primary
	if !o.NoHistory {
		primary.revisions = cursor.Primary(revisions)
	}
	core.primary = &primary
	return d, nil
}

// Indexes returns the indexes of the collection of revisions, by its name. The current
// documents need none. The unique one holds what has a document's ID and a revision's
// number: rows that other code keeps in the collection may lack both.
func (d *Documents[ID, T]) Indexes() map[string][]mongo.IndexModel {
	if d.core.revisions == nil {
		return map[string][]mongo.IndexModel{}
	}
	number := expr.D(d.core.opts.DocumentIDField, 1, d.core.opts.RevisionField, 1)
	unique := options.Index().SetUnique(true).SetPartialFilterExpression(
		append(d.core.rowsOf(expr.Op("$exists", true)), d.core.counted()))
	return map[string][]mongo.IndexModel{
		d.core.revisions.Name(): {{Keys: number, Options: unique}, {Keys: d.core.byTime()}},
	}
}

func (d *store) byTime() bson.D {
	return expr.D(d.opts.DocumentIDField, 1, d.at(), 1, d.opts.RevisionField, 1)
}

// EnsureIndexes creates the indexes that are missing. A unique index of the same keys over
// all rows is mongopatterns.ErrIndexConflict; rows that share a number are ErrInconsistent.
//
// Cost: 2 round trips when nothing is missing, otherwise 3; without a history 1.
func (d *Documents[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "versioning: ensure indexes")
	if err := d.core.refuse(ctx); err != nil {
		return err
	}
	err = indexes.EnsureAll(ctx, d.core.current.Database(), d.Indexes())
	if mongo.IsDuplicateKeyError(err) {
		err = fmt.Errorf("%w: %w", ErrInconsistent, err)
	}
	return err
}

// refuse refuses collections with a default collation.
func (d *store) refuse(ctx context.Context) error { return collation.Refuse(ctx, d.collections()...) }

func (d *store) collections() []*mongo.Collection {
	if d.revisions == nil {
		return []*mongo.Collection{d.current}
	}
	return []*mongo.Collection{d.current, d.revisions}
}

// ShardKey returns the recommended shard keys, by collection.
func (d *Documents[ID, T]) ShardKey() map[string]bson.D {
	keys := map[string]bson.D{d.core.current.Name(): {expr.Element("_id", 1)}}
	if d.core.revisions != nil {
		keys[d.core.revisions.Name()] = bson.D{expr.Element(d.core.opts.DocumentIDField, 1)}
	}
	return keys
}

// Filter selects the current document.
func (d *Documents[ID, T]) Filter(id ID) bson.D {
	return bson.D{expr.Element("_id", d.equal(id))}
}

// HistoryFilter selects the revisions of a document, all but the current one, in their
// collection.
func (d *Documents[ID, T]) HistoryFilter(id ID) bson.D {
	return d.core.rowsOf(d.equal(id), d.core.counted())
}

// Get returns the current document with its number.
//
// Cost: 1 round trip, 1 key and document by _id.
func (d *Documents[ID, T]) Get(ctx context.Context, id ID) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: get")
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.show(d.core.get(ctx, key))
}

// Decode makes a Revision of a whole current document that a query of your own returned.
func (d *Documents[ID, T]) Decode(stored bson.Raw) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: decode")
	if err := stored.Validate(); err != nil {
		return Revision[T]{}, fault.Invalid("%w", err)
	}
	c, err := d.core.parse(slices.Clone(stored))
	if err == nil && c.id.Type == 0 {
		err = fault.Invalid("no _id")
	}
	return d.show(c, err)
}

// show is a current document as callers see it.
func (d *Documents[ID, T]) show(c *current, err error) (Revision[T], error) {
	if err != nil {
		return Revision[T]{}, err
	}
	r, err := d.showHead(c.head)
	if err != nil {
		return r, err
	}
	r.base = c
	if err := d.core.codec.Decode(c.raw, &r.Document); err != nil {
		return Revision[T]{}, ofRevision(c.id, c.number, err)
	}
	return r, nil
}

// showRow is a revision of the history as callers see it.
func (d *Documents[ID, T]) showRow(past *row, err error) (Revision[T], error) {
	if err != nil {
		return Revision[T]{}, err
	}
	if !past.deleted && !past.lost {
		return d.show(d.core.asCurrent(past), nil)
	}
	r, err := d.showHead(past.head)
	r.Deleted, r.Lost = past.deleted, past.lost
	return r, err
}

func (d *Documents[ID, T]) showHead(h head) (Revision[T], error) {
	change, err := d.core.change(h.change)
	if err != nil {
		return Revision[T]{}, ofRevision(h.id, h.number, err)
	}
	return Revision[T]{Number: h.number, Change: change}, nil
}

func (d *Documents[ID, T]) id(id ID) (bson.RawValue, error) {
	v, err := d.core.codec.Value(id)
	if err != nil {
		return v, fmt.Errorf("ID %v: %w", id, err)
	}
	return v, nil
}

// checkID refuses an _id that no ID finds.
func (d *Documents[ID, T]) checkID(v bson.RawValue) error {
	err := value.CheckID(v)
	if err == nil {
		var id ID
		var back bson.RawValue
		if id, err = codec.DecodeValue[ID](d.core.codec, v); err == nil {
			if back, err = d.id(id); err == nil && value.Key(back) != value.Key(v) {
				err = fmt.Errorf("it would be %s", value.Text(back))
			}
		}
	}
	if err != nil {
		return fault.Of(v, fault.Invalid("not of type %v: %w", reflect.TypeFor[ID](), err))
	}
	return nil
}

// equal is an ID in a filter, bare where it can be: what the server finds by
// {_id: {$eq: …}} it plans first.
func (d *Documents[ID, T]) equal(id ID) any {
	v, err := d.id(id)
	if err != nil {
		return id // and the driver says what is wrong with it
	}
	return value.Equal(v)
}
