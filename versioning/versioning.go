package versioning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Documents keeps the revisions of documents of type T, whose _id is of type ID. It
// is safe for concurrent use.
type Documents[ID, T any] struct {
	core *store
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

	stored *state // what this was read from; nil: not known
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
	t := reflect.TypeFor[T]()
	core := &store{
		opts: o, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON}, current: current, revisions: revisions,
		names:    []string{o.RevisionField, o.ChangeField},
		unkept:   append([]string{o.RevisionField, o.ChangeField}, o.Ignored...),
		upgrades: o.Registry != nil || codesItself(t),
	}
	if !core.upgrades && !isDocument(t) {
		return nil, fault.Invalid("T: %v is no document", t)
	}
	names, all := core.codec.Fields(t)
	core.shows = t.Kind() != reflect.Struct || !all || slices.ContainsFunc(reflect.VisibleFields(t),
		func(f reflect.StructField) bool { return f.Type.Kind() == reflect.Interface })
	for _, own := range core.names { // a stored "Version" is also what T calls "version"
		core.shows = core.shows || slices.Contains(names, own) || slices.Contains(names, strings.ToLower(own))
	}
	d := &Documents[ID, T]{core}
	core.view = func(raw bson.Raw) (bson.Raw, bool, error) {
		var v T
		if err := d.core.codec.Decode(raw, &v); err != nil {
			return nil, false, err
		}
		return d.encode(v)
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
// Cost: 1 round trip when nothing is missing, otherwise 2.
func (d *Documents[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "versioning: ensure indexes")
	err = indexes.EnsureAll(ctx, d.core.current.Database(), d.Indexes())
	if mongo.IsDuplicateKeyError(err) {
		err = fmt.Errorf("%w: %w", ErrInconsistent, err)
	}
	return err
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
	return d.one(id, func(key bson.RawValue) (*state, error) { return d.core.get(ctx, key) })
}

// Decode makes a Revision of a whole current document that a query of your own returned.
func (d *Documents[ID, T]) Decode(stored bson.Raw) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: decode")
	if err := stored.Validate(); err != nil {
		return Revision[T]{}, fault.Invalid("%w", err)
	}
	s, err := d.core.parse(slices.Clone(stored))
	if err == nil && s.id.Type == 0 {
		err = fault.Invalid("no _id")
	}
	return d.shown(s, err)
}

// Create inserts a document as revision 1, or, if one of this _id was deleted, as
// the revision after that. A document without _id gets an ObjectID. If there is a current
// document of this _id, as for a repeated call, the error is ErrExists; if no ID finds the
// _id, ErrInvalid. If something else has removed the document, its deletion is recorded
// first, by nobody.
//
// Cost: 3 round trips, 1 document written, 1 key examined of the unique index.
// Over a deleted one 4 and 2 writes, 5 and 3 where the deletion is missing. Without
// _id, or a history, 1; if it exists 2.
func (d *Documents[ID, T]) Create(ctx context.Context, document T, change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: create")
	c, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	raw, _, err := d.encode(document)
	if err != nil {
		return Revision[T]{}, err
	}
	all := doc.Open(raw)
	if !doc.Distinct(all) {
		return Revision[T]{}, fault.Invalid("document: a field stands twice")
	}
	id := doc.Find(all, "_id")
	made := id.Type == 0
	if made {
		id = valueOf(bson.NewObjectID())
	}
	if err := d.checkID(id); err != nil {
		return Revision[T]{}, err
	}
	all = append([]doc.Field{field("_id", id)}, doc.Without(all, "_id")...) // the server puts it first, too
	if !made {
		return d.shown(d.core.create(ctx, id, all, c))
	}
	s, err := d.core.created(id, all, 1, c.after(stamp{}))
	if err == nil { // a new ID has no history
		_, err = fault.One(d.core.current.InsertOne(ctx, s.document()))
	}
	return d.shown(s, err)
}

// Save stores what r.Document has different from the document read, as a new
// revision, and returns it. r is what Get or another call returned, or is made by
// hand of the number read and the document. If that number is no longer current, as for
// a repeated call, the error is a *ConflictError, if the document is gone
// mongopatterns.ErrNotFound.
//
// If nothing has changed, or nothing but Options.Ignored, the number stays. Changes
// made meanwhile by code that does not raise the number are kept, except where
// r.Document changes the same value. An array is one value. Options.Ignored stay as they
// are stored if r is from the history. The result may share memory with r.Document.
//
// Cost: 3 round trips, 2 documents written, 1 key examined by _id; 1 round trip if
// nothing, or only ignored fields, changed, and without a history. 1 more for r made
// by hand, or of the history where fields are ignored; 1 more if something else has
// changed the same value since it was read; 1 more for the first save of a document
// without a number. A conflict costs 3, with the abort. Where something else has put
// another value in the place of a document that changes inside: 3 more.
func (d *Documents[ID, T]) Save(ctx context.Context, r Revision[T], change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: save")
	c, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.save(ctx, r, c)
}

func (d *Documents[ID, T]) save(ctx context.Context, r Revision[T], c stamp) (Revision[T], error) {
	w, err := d.wish(r)
	if err != nil {
		return Revision[T]{}, err
	}
	s, err := d.core.save(ctx, w, c)
	if w.raw.Lookup("_id").Type == 0 {
		r.stored = nil // r.Document lacks what is stored
	}
	return d.saved(r, s, err)
}

func (d *Documents[ID, T]) wish(r Revision[T]) (*wish, error) {
	raw, loose, err := d.encode(r.Document)
	w := &wish{read: r.Number, raw: raw, loose: loose, partial: r.stored != nil && r.stored.past}
	switch {
	case err != nil:
		return w, err
	case r.Number < 1:
		return w, fault.Invalid("Revision.Number: %d, want 1 or more", r.Number)
	case r.stored != nil && r.stored.number == r.Number:
		return w, d.core.know(w, r.stored)
	}
	if w.id = raw.Lookup("_id"); w.id.Type == 0 {
		return w, fault.Invalid("document: no _id")
	}
	return w, nil
}

// Update reads the current document, has fn change it, and saves it. After a conflict
// it begins again, so fn can run several times; an error of fn ends it. It returns the
// new revision, or the current one if fn changed nothing. After Options.MaxRetries, in
// the caller's transaction at once, the error is the *ConflictError.
//
// Cost: 4 round trips, 2 documents written; 2 if nothing changed, and without a
// history. 4 more for each conflict; 1 more for a document without a number.
func (d *Documents[ID, T]) Update(ctx context.Context, id ID, fn func(*T) error, change Change) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: update")
	if fn == nil {
		return Revision[T]{}, fault.Invalid("fn: nil")
	}
	c, err := d.core.stamp(change)
	if err != nil {
		return Revision[T]{}, err
	}
	var own error // an error of fn, which may be a conflict of another document
	r, err := d.retry(ctx, func() (Revision[T], error) {
		r, err := d.one(id, func(key bson.RawValue) (*state, error) { return d.core.primary.get(ctx, key) })
		if err != nil {
			return r, err
		}
		if own = fn(&r.Document); own != nil {
			return r, nil
		}
		return d.save(ctx, r, c)
	})
	if own != nil {
		return Revision[T]{}, own
	}
	return r, err
}

// retry repeats what met another writer.
func (d *Documents[ID, T]) retry(ctx context.Context, try func() (Revision[T], error)) (Revision[T], error) {
	joined := txn.Running(ctx)
	for attempt := 0; ; attempt++ {
		r, err := try()
		var conflict *ConflictError
		met := errors.As(err, &conflict) || errors.Is(err, ErrExists) // of Restore: brought back by another
		if !met || joined || attempt >= d.core.opts.MaxRetries {
			return r, err
		}
		select {
		case <-ctx.Done(): // an error of the deadline, not a conflict to be solved
			return r, fmt.Errorf("%w; the last attempt: %v", ctx.Err(), err)
		case <-time.After(rand.N(min(time.Millisecond<<min(attempt, 8), 100*time.Millisecond))):
		}
	}
}

// Delete removes the current document, if it still is the revision read, and leaves
// its last state and the deletion in the history.
//
// Cost: 3 round trips, 3 documents written, 1 key examined by _id; 1 without a
// history. 1 more for a document without a number. A conflict costs 3, with the abort.
func (d *Documents[ID, T]) Delete(ctx context.Context, id ID, read int64, change Change) (err error) {
	defer fault.In(&err, "versioning: delete")
	if read < 1 {
		return fault.Invalid("read: %d, want 1 or more", read)
	}
	c, err := d.core.stamp(change)
	if err != nil {
		return err
	}
	key, err := d.id(id)
	if err != nil {
		return err
	}
	return d.core.delete(ctx, key, read, c)
}

func (d *Documents[ID, T]) one(id ID, read func(id bson.RawValue) (*state, error)) (Revision[T], error) {
	key, err := d.id(id)
	if err != nil {
		return Revision[T]{}, err
	}
	return d.shown(read(key))
}

func (d *Documents[ID, T]) shown(s *state, err error) (Revision[T], error) {
	if err != nil {
		return Revision[T]{}, err
	}
	r := Revision[T]{Number: s.number, Deleted: s.deleted, Lost: s.lost}
	if r.Change, err = d.core.change(s.change); err != nil {
		return Revision[T]{}, ofRevision(s.id, s.number, err)
	}
	if s.deleted || s.lost {
		return r, nil
	}
	r.stored = s
	if err := d.core.codec.Decode(s.document(), &r.Document); err != nil {
		return Revision[T]{}, ofRevision(s.id, s.number, err)
	}
	return r, nil
}

// saved is shown for what a save has made of r: r.Document as it is, where T shows
// neither number nor change, nobody else has written meanwhile, and what has changed
// reads as the caller has it.
func (d *Documents[ID, T]) saved(r Revision[T], s *state, err error) (Revision[T], error) {
	if err != nil {
		return d.shown(s, err)
	}
	before := s.before
	s.before = nil // or each revision would keep all before it
	written, isD := any(&r.Document).(*bson.D)
	if before == nil || before != r.stored || d.core.upgrades || !isD && (d.core.shows || !exact(s.changes)) {
		return d.shown(s, nil)
	}
	if isD {
		var changed bson.D
		if err := d.core.codec.Decode(doc.Raw(doc.Patch(nil, append(slices.Clip(s.changes), s.own...))), &changed); err != nil {
			return d.shown(s, nil)
		}
		*written = slices.Clone(*written)
		for _, e := range changed {
			if i := slices.IndexFunc(*written, func(f bson.E) bool { return f.Key == e.Key }); i >= 0 {
				(*written)[i] = e
			} else {
				*written = append(*written, e)
			}
		}
	}
	s.document() // now: several may save r at once
	r.Number, r.stored = s.number, s
	r.Change, err = d.core.change(s.change)
	return r, err
}

// exact says that values read as the caller has them. A time is stored without its
// nanoseconds, an empty slice may be left out.
func exact(changes []doc.Field) bool {
	return !slices.ContainsFunc(changes, func(f doc.Field) bool { return !scalar(f.Value.Type) || f.Value.Type == bson.TypeDateTime })
}

// encode encodes the caller's document and says whether the order of its fields is
// loose.
func (d *Documents[ID, T]) encode(v T) (bson.Raw, bool, error) {
	doc := reflect.ValueOf(&v)
	for doc.Kind() == reflect.Pointer || doc.Kind() == reflect.Interface {
		doc = doc.Elem()
	}
	isMap := doc.Kind() == reflect.Map
	if isMap && doc.IsNil() {
		return nil, false, fault.Invalid("document: nil")
	}
	raw, err := d.core.codec.Document(v)
	if err != nil {
		return nil, false, fmt.Errorf("document: %w", err)
	}
	inner := d.core.upgrades || !isMap && loose(doc)
	if isMap { // the order at the top counts for nobody
		for _, v := range doc.Seq2() {
			inner = inner || loose(v)
		}
	}
	return raw, inner, nil
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
		return fault.Of(v, fault.Invalid("no %v: %w", reflect.TypeFor[ID](), err))
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
