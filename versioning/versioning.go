package versioning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Documents keeps the revisions of documents of type T, whose _id is of type ID. It
// is safe for concurrent use.
type Documents[ID, T any] struct {
	opts Options

	current, revisions *mongo.Collection
	// The same with reads from the primary, for those that a write depends on.
	currentPrimary, revisionsPrimary *mongo.Collection
}

// A Change says who made a revision, when and why.
type Change struct {
	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is in milliseconds, in the years 1 to 9999. To a write the zero time is now,
	// and one before the time of the revision before is raised to it: one in the
	// future by a wrong clock raises those of all revisions that follow. From a read
	// it is zero where the time is not known.
	At time.Time `json:"at,omitzero"`
}

// A Revision is a state of a document.
type Revision[T any] struct {
	// Number counts the revisions of the document from 1.
	Number int64 `json:"number"`
	// Change made this revision.
	Change Change `json:"change"`
	// Deleted says that this revision is a deletion; Document is zero then.
	Deleted bool `json:"deleted,omitempty"`
	// Document is the document, with the fields of number and change, if T has them.
	Document T `json:"document"`

	stored  bson.Raw // the document that this was read from; nil: not known
	partial bool     // it is of the history, and lacks Options.Ignored
}

// New returns a helper for current, which holds your documents, and revisions,
// which holds what they were before, in the same database. T needs a field for _id where a Revision is made
// by hand, and to choose the _id in Create. A T that is no document, a string say, is
// refused.
func New[ID, T any](current, revisions *mongo.Collection, opts *Options) (*Documents[ID, T], error) {
	o, err := opts.withDefaults()
	switch {
	case err != nil:
		return nil, fmt.Errorf("versioning: %w", err)
	case current == nil:
		return nil, errors.New("versioning: current: nil collection")
	case revisions == nil:
		return nil, errors.New("versioning: revisions: nil collection")
	case current.Database().Client() != revisions.Database().Client() || current.Database().Name() != revisions.Database().Name():
		return nil, errors.New("versioning: revisions: not in the client and database of current")
	case current.Name() == revisions.Name():
		return nil, errors.New("versioning: revisions: the same collection as current")
	}
	switch of := reflect.TypeFor[T](); of.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Interface:
	default: // that encodes itself, or is no document
		var zero T
		if _, err := encode.Document(o.Registry, zero); err != nil {
			return nil, fmt.Errorf("versioning: T: %v is no document: %w", of, err)
		}
	}
	return &Documents[ID, T]{
		opts: o, current: current, revisions: revisions,
		currentPrimary: scan.Primary(current), revisionsPrimary: scan.Primary(revisions),
	}, nil
}

// RevisionIndexes returns the indexes of the collection of revisions. The current
// documents need none.
func (d *Documents[ID, T]) RevisionIndexes() []mongo.IndexModel {
	return []mongo.IndexModel{
		{
			Keys:    bson.D{{Key: d.opts.DocumentIDField, Value: 1}, {Key: d.opts.RevisionField, Value: 1}},
			Options: options.Index().SetUnique(true),
		},
		{Keys: d.byTime()},
	}
}

// byTime is the order of a document's revisions in time, which is that of their
// numbers.
func (d *Documents[ID, T]) byTime() bson.D {
	return bson.D{{Key: d.opts.DocumentIDField, Value: 1}, {Key: d.at(), Value: 1}, {Key: d.opts.RevisionField, Value: 1}}
}

// EnsureIndexes creates the indexes that are missing.
//
// Cost: 1 round trip when nothing is missing, otherwise 2.
func (d *Documents[ID, T]) EnsureIndexes(ctx context.Context) error {
	return fail("ensure indexes", indexes.Ensure(ctx, d.revisions, d.RevisionIndexes()))
}

// ShardKey is the recommended shard key of the current documents; hashed will do
// too.
func (d *Documents[ID, T]) ShardKey() bson.D { return bson.D{{Key: "_id", Value: 1}} }

// RevisionShardKey is the recommended shard key of the revisions. The unique index
// starts with it.
func (d *Documents[ID, T]) RevisionShardKey() bson.D {
	return bson.D{{Key: d.opts.DocumentIDField, Value: 1}}
}

// Filter selects the current document.
func (d *Documents[ID, T]) Filter(id ID) bson.D {
	return bson.D{{Key: "_id", Value: d.equal(id)}}
}

// HistoryFilter selects the revisions of a document in their collection, all but
// the current one; sort them by RevisionField.
func (d *Documents[ID, T]) HistoryFilter(id ID) bson.D { return d.rowFilter(d.equal(id)) }

func (d *Documents[ID, T]) rowFilter(id any, more ...bson.E) bson.D {
	return append(bson.D{{Key: d.opts.DocumentIDField, Value: id}}, more...)
}

// HistoryPipeline lists all revisions of a document, the current one included, in
// no order: {_id, document_id, revision, change, deleted}, in the names of Options,
// without the documents. Run it on the collection of current documents; not in a
// transaction, where MongoDB takes no $unionWith.
func (d *Documents[ID, T]) HistoryPipeline(id ID) mongo.Pipeline {
	revision := bson.E{Key: d.opts.RevisionField, Value: 1}
	change := bson.E{Key: d.opts.ChangeField, Value: 1}
	return mongo.Pipeline{
		{{Key: "$match", Value: d.Filter(id)}},
		{{Key: "$project", Value: bson.D{
			{Key: d.opts.DocumentIDField, Value: "$_id"},
			{Key: d.opts.RevisionField, Value: bson.D{{Key: "$ifNull", Value: bson.A{"$" + d.opts.RevisionField, int64(1)}}}},
			change,
		}}},
		{{Key: "$unionWith", Value: bson.D{
			{Key: "coll", Value: d.revisions.Name()},
			{Key: "pipeline", Value: mongo.Pipeline{
				{{Key: "$match", Value: d.HistoryFilter(id)}},
				{{Key: "$project", Value: bson.D{
					{Key: d.opts.DocumentIDField, Value: 1}, revision, change, {Key: d.opts.DeletedField, Value: 1},
				}}},
			}},
		}}},
	}
}

// Get returns the current document with its number.
//
// Cost: 1 round trip, 1 key and document by _id.
func (d *Documents[ID, T]) Get(ctx context.Context, id ID) (Revision[T], error) {
	key, err := d.value(id)
	if err != nil {
		return Revision[T]{}, fail("get", err)
	}
	s, err := d.load(ctx, d.current, key)
	if err != nil {
		return Revision[T]{}, fail("get", err)
	}
	revision, err := d.revision(s)
	return revision, fail("get", err)
}

// Decode makes a Revision of a current document that a query of your own returned,
// whole: without a projection.
func (d *Documents[ID, T]) Decode(stored bson.Raw) (Revision[T], error) {
	s, err := d.parse(append(bson.Raw(nil), stored...))
	if err != nil {
		return Revision[T]{}, fail("decode", err)
	}
	if s.id.Type == 0 {
		return Revision[T]{}, fail("decode", fmt.Errorf("%w: no _id", ErrInvalid))
	}
	revision, err := d.revision(s)
	return revision, fail("decode", err)
}

// A state is a document taken apart.
type state struct {
	id      bson.RawValue
	number  int64
	bare    bool // no number is stored, which is then 1
	narrow  bool // it is stored as an int32
	change  Change
	deleted bool
	fields  []field  // without number and change; _id first
	raw     bson.Raw // as the current document, nil for one of the history
}

func (d *Documents[ID, T]) load(ctx context.Context, coll *mongo.Collection, id bson.RawValue) (*state, error) {
	raw, err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: d.equal(id)}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, of(id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return d.parse(raw)
}

// parse takes a current document apart.
func (d *Documents[ID, T]) parse(raw bson.Raw) (*state, error) {
	all, err := fields(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s := &state{raw: raw, fields: without(all, d.opts.RevisionField, d.opts.ChangeField)}
	s.id, _ = find(all, "_id")
	number, _ := find(all, d.opts.RevisionField)
	change, changed := find(all, d.opts.ChangeField)
	switch number.Type {
	case 0, bson.TypeNull:
		if changed {
			return s, fmt.Errorf("%w: document %s has no %q, but %q: choose another Options.ChangeField", ErrInvalid, rawvalue.Text(s.id), d.opts.RevisionField, d.opts.ChangeField)
		}
		s.number, s.bare = 1, true
		return s, nil
	}
	var ok bool
	if s.number, ok = wholeNumber(number); !ok {
		return s, fmt.Errorf("%w: document %s: %q is %s, no revision's number", ErrInvalid, rawvalue.Text(s.id), d.opts.RevisionField, rawvalue.Text(number))
	}
	s.narrow = number.Type == bson.TypeInt32
	if changed && change.Type != bson.TypeEmbeddedDocument {
		return s, fmt.Errorf("%w: document %s: %q is %s, no change", ErrInvalid, rawvalue.Text(s.id), d.opts.ChangeField, rawvalue.Text(change))
	}
	s.change = parseChange(change)
	return s, nil
}

func parseChange(v bson.RawValue) (c Change) {
	raw, ok := v.DocumentOK()
	if !ok {
		return c
	}
	c.Author, _ = raw.Lookup(authorKey).StringValueOK()
	c.Reason, _ = raw.Lookup(reasonKey).StringValueOK()
	if ms, ok := raw.Lookup(atKey).DateTimeOK(); ok {
		c.At = time.UnixMilli(ms).UTC()
	}
	return c
}

func (c Change) value() bson.RawValue {
	doc := bson.D{{Key: atKey, Value: bson.NewDateTimeFromTime(c.At)}}
	if c.Author != "" {
		doc = append(doc, bson.E{Key: authorKey, Value: c.Author})
	}
	if c.Reason != "" {
		doc = append(doc, bson.E{Key: reasonKey, Value: c.Reason})
	}
	raw, _ := bson.Marshal(doc) // of these types: no error
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
}

// check refuses what is not stored, before anything is done.
func (c Change) check() error { return checkTime("Change.At", c.At) }

var beyondYears = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// checkTime refuses times that JSON and other languages cannot write, among which are
// those that a BSON date cannot hold.
func checkTime(argument string, t time.Time) error {
	if t.Before(time.Time{}) || !t.Before(beyondYears) {
		return fmt.Errorf("%w: %s: %v is not in the years 1 to 9999", ErrInvalid, argument, t.UTC())
	}
	return nil
}

// after is the change with the time it is stored with, behind that of before.
func (c Change) after(before Change) Change {
	if c.At.IsZero() {
		c.At = time.Now()
	}
	c.At = time.UnixMilli(c.At.UnixMilli()).UTC()
	if c.At.Before(before.At) {
		c.At = before.At
	}
	return c
}

// assemble is the current document of a state. It also refuses what could not be
// updated, or is too large to be stored as a revision.
func (d *Documents[ID, T]) assemble(s *state) error {
	if err := checkNames(s); err != nil {
		return err
	}
	number := int64Value(s.number)
	if s.narrow && s.number <= math.MaxInt32 {
		number = int32Value(int(s.number))
	}
	s.raw = document(append(s.fields[:len(s.fields):len(s.fields)],
		field{d.opts.RevisionField, number}, field{d.opts.ChangeField, s.change.value()}))
	return checkSize(s)
}

// checkNames refuses names that the server takes in an insert alone.
func checkNames(s *state) error {
	for _, f := range s.fields {
		if strings.HasPrefix(f.key, "$") {
			return fmt.Errorf("%w: document %s: the field %q starts with %q", ErrInvalid, rawvalue.Text(s.id), f.key, "$")
		}
	}
	return nil
}

func checkSize(s *state) error {
	if len(s.raw) > maxBytes {
		return fmt.Errorf("%w: document %s: %d bytes are too many for a revision (%d)", ErrInvalid, rawvalue.Text(s.id), len(s.raw), maxBytes)
	}
	return nil
}

// revision decodes a state.
func (d *Documents[ID, T]) revision(s *state) (Revision[T], error) {
	r := Revision[T]{Number: s.number, Change: s.change, Deleted: s.deleted, stored: s.raw}
	if s.deleted {
		return r, nil
	}
	if r.stored == nil {
		r.partial = len(d.opts.Ignored) > 0
		r.stored = document(append(s.fields[:len(s.fields):len(s.fields)],
			field{d.opts.RevisionField, int64Value(s.number)}, field{d.opts.ChangeField, s.change.value()}))
	}
	if err := d.unmarshal(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: r.stored}, &r.Document); err != nil {
		return Revision[T]{}, fmt.Errorf("document %s, revision %d: %w", rawvalue.Text(s.id), s.number, err)
	}
	return r, nil
}

func (d *Documents[ID, T]) unmarshal(v bson.RawValue, into any) error {
	if d.opts.Registry != nil {
		return v.UnmarshalWithRegistry(d.opts.Registry, into)
	}
	return v.Unmarshal(into)
}

// encode takes the caller's document apart, without number and change.
func (d *Documents[ID, T]) encode(v T) ([]field, error) {
	switch doc := reflect.ValueOf(&v).Elem(); doc.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface:
		if doc.IsNil() {
			return nil, fmt.Errorf("%w: document: nil", ErrInvalid)
		}
	}
	raw, err := encode.Document(d.opts.Registry, v)
	if err != nil {
		return nil, fmt.Errorf("%w: document: %w", ErrInvalid, err)
	}
	all, err := fields(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: document: %w", ErrInvalid, err)
	}
	if !distinct(all) {
		return nil, fmt.Errorf("%w: document: a field stands twice", ErrInvalid)
	}
	all = without(all, d.opts.RevisionField, d.opts.ChangeField)
	if id, ok := find(all, "_id"); ok { // the server puts it first, too
		all = append([]field{{"_id", id}}, without(all, "_id")...)
	}
	return all, nil
}

func (d *Documents[ID, T]) value(id ID) (bson.RawValue, error) {
	v, err := encode.Value(d.opts.Registry, id)
	if err != nil {
		return v, fmt.Errorf("%w: ID %v: %w", ErrInvalid, id, err)
	}
	return v, nil
}

// checkID refuses an _id that no ID finds.
func (d *Documents[ID, T]) checkID(v bson.RawValue) error {
	var id ID
	err := d.unmarshal(v, &id)
	if err == nil {
		var back bson.RawValue
		if back, err = d.value(id); err == nil && rawvalue.Key(back) != rawvalue.Key(v) {
			err = fmt.Errorf("it would be %s", rawvalue.Text(back))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: _id %s is no %v: %w", ErrInvalid, rawvalue.Text(v), reflect.TypeFor[ID](), err)
	}
	return nil
}

// equal is a value in a filter.
func (d *Documents[ID, T]) equal(value any) any {
	raw, ok := value.(bson.RawValue)
	if !ok {
		var err error
		if raw, err = encode.Value(d.opts.Registry, value); err != nil {
			return value // and the driver says what is wrong with it
		}
	}
	return rawvalue.Equal(raw)
}

// guard selects a current document while it is this revision. One without a
// number is revision 1.
func (d *Documents[ID, T]) guard(id bson.RawValue, number int64) bson.D {
	var is any = number
	if number == 1 {
		is = bson.D{{Key: "$in", Value: bson.A{nil, int64(1)}}}
	}
	return bson.D{{Key: "_id", Value: d.equal(id)}, {Key: d.opts.RevisionField, Value: is}}
}

func (d *Documents[ID, T]) at() string { return d.opts.ChangeField + "." + atKey }
