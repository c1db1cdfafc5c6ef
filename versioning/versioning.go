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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A History keeps the revisions of documents of type T, each with an _id of type ID. It is safe for
// concurrent use.
type History[ID, T any] struct {
	core *store
	kind kind // of T
}

var _ mongopatterns.Checker = (*History[string, bson.D])(nil)

// A Change says who made a revision, when and why.
type Change struct {
	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is in milliseconds, in the years 1 to 9999. A write takes the zero time as now, by the clock of this
	// process. It raises a time before that of the previous revision to that time, so if you set a future
	// time, later revisions have it too until it has come. A read returns the zero time if the time is not
	// known.
	At time.Time `json:"at,omitzero"`
	// Fields are fields of your own, such as a ticket or an address, stored beside the others.
	// Their names must not be empty, "at", "author" or "reason", and must not contain a dollar sign
	// or a dot.
	Fields bson.D `json:"fields,omitempty"`
}

// A Revision is one state of a document, with the change that led to it.
type Revision[T any] struct {
	// Number counts the revisions of the document from 1.
	Number int64 `json:"number"`
	// Change says who made this revision, when and why.
	Change Change `json:"change"`
	// Deleted: this revision is a deletion, and Document is zero.
	Deleted bool `json:"deleted,omitempty"`
	// Lost: the revision is stored as a delta, and other code has changed or removed the document
	// that the delta was made from. Document is zero. Only Revisions, RevisionsFrom and RevisionsBefore return lost
	// revisions.
	Lost bool `json:"lost,omitempty"`
	// Document is the document. If T has fields for number and change, they are set.
	Document T `json:"document"`

	base *current // what this was read from; nil if not known
}

var (
	// ErrPruned: the revision asked for, or the one current at the time asked for, is no longer in
	// the history. It matches mongopatterns.ErrNotFound.
	ErrPruned = fault.New("revision was pruned", mongopatterns.ErrNotFound)
	// ErrDeleted: the revision asked for is a deletion, or the document was deleted at the time
	// asked for. It matches mongopatterns.ErrNotFound.
	ErrDeleted = fault.New("document was deleted", mongopatterns.ErrNotFound)
	// ErrInconsistent: the history contradicts itself or the current document. Check lists the
	// contradictions. It matches mongopatterns.ErrMalformed.
	ErrInconsistent = fault.New("inconsistent history", mongopatterns.ErrMalformed)
)

// A ConflictError says that the current document is no longer the revision that was read. It
// matches mongopatterns.ErrConflict.
type ConflictError struct {
	ID            bson.RawValue // of the document
	Read, Current int64         // the revision that was read, and the current one
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("_id %s: conflict: revision %d was read, but %d is the current one", value.Text(e.ID), e.Read, e.Current)
}

// Unwrap returns mongopatterns.ErrConflict.
func (e *ConflictError) Unwrap() error { return mongopatterns.ErrConflict }

// ofRevision names the document and the revision that an error is about.
func ofRevision(id bson.RawValue, number int64, err error) error {
	return fault.Of(id, fmt.Errorf("revision %d: %w", number, err))
}

// New returns a History for current, the collection of your documents, and revisions, the
// collection of their earlier states, in the same database. T must encode as a document. With
// Options.NoHistory revisions must be nil.
func New[ID, T any](current, revisions *mongo.Collection, opts *Options) (h *History[ID, T], err error) {
	defer fault.In(&err, "versioning.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
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
			return nil, fault.Invalid("Options.NoHistory: revisions must be nil, because no history is kept")
		}
		colls = colls[:2]
	}
	if err := config.Collections(colls...); err != nil {
		return nil, err
	}
	core := &store{
		opts: o, codec: codec.New(current, o.Registry, o.BSON),
		names:   []string{o.RevisionField, o.ChangeField},
		unkept:  append([]string{o.RevisionField, o.ChangeField}, o.Ignored...),
		isRow:   isRow(o),
		noArray: field("$nor", value.New(bson.A{expr.D(o.RevisionField, expr.AnArray)})),
	}
	t := reflect.TypeFor[T]()
	d := &History[ID, T]{core, kindOf(t, o.Registry)}
	if err := core.codec.CheckExtended("T", t); err != nil {
		return nil, err
	}
	of, err := scope.New(core.codec, o.Scope)
	if err != nil {
		return nil, err
	}
	core.current, core.revisions = scoped.On(current).In(of), scoped.On(revisions).In(of)
	primary := *core
	primary.current, primary.primary = cursor.Primary(core.current), &primary
	if !o.NoHistory {
		primary.revisions = cursor.Primary(core.revisions)
	}
	core.primary = &primary
	return d, nil
}

// Indexes returns the indexes of the collection of revisions, by its name. They begin with the scope. The current documents
// need no index besides that on _id. The unique index covers only rows with a document's ID and a
// number, so other code may keep rows without them in the same collection.
func (d *History[ID, T]) Indexes() map[string][]mongo.IndexModel {
	if d.core.revisions == nil {
		return map[string][]mongo.IndexModel{}
	}
	of := d.core.revisions.Scope()
	number := of.Keys(expr.D(d.core.opts.DocumentIDField, 1, d.core.opts.RevisionField, 1))
	unique := options.Index().SetUnique(true).SetPartialFilterExpression(
		append(d.core.rowsOf(expr.Op("$exists", true)), d.core.counted()))
	return map[string][]mongo.IndexModel{
		d.core.revisions.Name(): {{Keys: number, Options: unique}, {Keys: of.Keys(d.core.byTime())}},
	}
}

func (d *store) byTime() bson.D {
	return expr.D(d.opts.DocumentIDField, 1, d.at(), 1, d.opts.RevisionField, 1)
}

// EnsureIndexes creates the missing indexes. If a unique index with the same keys covers all rows,
// it returns mongopatterns.ErrIndexConflict. If two rows have the same number, it returns
// ErrInconsistent.
//
// Cost: 2 round trips, 3 if an index is missing; without a history 1.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (d *History[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "versioning.EnsureIndexes")
	defer fault.In(&err, "versioning.EnsureIndexes")
	if err := d.core.refuseCollation(ctx); err != nil {
		return err
	}
	if err := d.core.codec.CheckClient(ctx, d.core.current, reflect.TypeFor[ID](), reflect.TypeFor[T]()); err != nil {
		return err
	}
	err = indexes.EnsureAll(ctx, d.core.current.Database(), d.Indexes())
	if mongo.IsDuplicateKeyError(err) {
		err = fmt.Errorf("%w: %w", ErrInconsistent, err)
	}
	return err
}

// refuseCollation returns an error if a collection has a default collation.
func (d *store) refuseCollation(ctx context.Context) error {
	return collation.Refuse(ctx, d.collections()...)
}

func (d *store) collections() []*scoped.Collection {
	if d.revisions == nil {
		return []*scoped.Collection{d.current}
	}
	return []*scoped.Collection{d.current, d.revisions}
}

// ShardKey returns the recommended shard keys, which begin with the scope, by collection.
func (d *History[ID, T]) ShardKey() map[string]bson.D {
	of := d.core.current.Scope()
	keys := map[string]bson.D{d.core.current.Name(): of.Keys(expr.D("_id", 1))}
	if d.core.revisions != nil {
		keys[d.core.revisions.Name()] = of.Keys(expr.D(d.core.opts.DocumentIDField, 1))
	}
	return keys
}

// Filter selects the current document with this _id.
func (d *History[ID, T]) Filter(id ID) bson.D {
	return d.core.current.Scope().Match(expr.D("_id", d.core.codec.Condition(id)))
}

// RevisionsFilter selects, in the collection of revisions, all revisions of a document except the
// current one.
func (d *History[ID, T]) RevisionsFilter(id ID) bson.D {
	return d.core.current.Scope().Match(d.core.numbered(d.core.codec.Condition(id), 1))
}

// Get returns the current revision of a document.
//
// Cost: 1 round trip, index _id, 1 key and 1 document.
func (d *History[ID, T]) Get(ctx context.Context, id ID) (revision Revision[T], err error) {
	ctx = comment.Call(ctx, "versioning.Get")
	defer fault.In(&err, "versioning.Get")
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.show(d.core.get(ctx, key))
}

// Decode returns the Revision for a whole current document that a query of your own returned.
func (d *History[ID, T]) Decode(stored bson.Raw) (revision Revision[T], err error) {
	defer fault.In(&err, "versioning.Decode")
	if err := codec.CheckBSON(stored); err != nil {
		return Revision[T]{}, err
	}
	c, err := d.core.parse(slices.Clone(stored))
	if err == nil && c.id.Type == 0 {
		err = fault.Invalid("the document has no _id")
	}
	return d.show(c, err)
}

// show decodes a current document for the caller.
func (d *History[ID, T]) show(c *current, err error) (Revision[T], error) {
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

// saved is show for a revision that was just saved, whatever becomes of the answer.
func (d *History[ID, T]) saved(c *current, err error) (Revision[T], error) {
	if err != nil {
		return Revision[T]{}, err
	}
	r, err := d.show(c, nil)
	return r, fault.Unknown(err)
}

// showRow decodes a revision of the history for the caller.
func (d *History[ID, T]) showRow(past *row, err error) (Revision[T], error) {
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

func (d *History[ID, T]) showHead(h head) (Revision[T], error) {
	change, err := d.core.change(h.change)
	if err != nil {
		return Revision[T]{}, ofRevision(h.id, h.number, err)
	}
	return Revision[T]{Number: h.number, Change: change}, nil
}

func (d *History[ID, T]) id(id ID) (bson.RawValue, error) { return d.core.codec.Compared(id) }

// checkID returns an error for an _id that no value of ID encodes to.
func (d *History[ID, T]) checkID(v bson.RawValue) error {
	if err := value.CheckID(v); err != nil {
		return fault.Of(v, fault.Invalid("%w", err))
	}
	id, err := codec.DecodeGivenValue[ID](d.core.codec, v)
	if err != nil {
		return fault.Of(v, err)
	}
	back, err := d.id(id)
	if err != nil {
		return fault.Of(v, fault.Invalid("%w", err))
	}
	if !value.Same(back, v) {
		return fault.Of(v, fault.Invalid("%v would encode it as %s", reflect.TypeFor[ID](), value.Text(back)))
	}
	return nil
}
