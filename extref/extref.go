package extref

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Ref keeps copies of a source's fields in the documents that refer to it. It is
// safe for concurrent use.
type Ref[ID, S any] struct {
	source    *mongo.Collection
	primary   *mongo.Collection // the source, read where a write depends on it
	targets   []target
	following []*target // those with a followed field
	follow    []Field   // of all targets, each path once
	ways      []string  // the steps to the copied fields, these aside
	versioned bool      // some target has versions
	lossy     bool      // S has no place for a version
	opts      Options
}

// New returns a Ref over source and the places that hold copies of it. It does no
// I/O.
//
// ID is the type of the source's _id, S a source: a struct, a map or bson.D. A
// struct must have the version field if Reference is to make copies with versions
// of it; a map or bson.D without it counts as the oldest. opts may be nil. All programs that write one source must use the same
// targets and options.
func New[ID, S any](source *mongo.Collection, targets []Target, opts *Options) (*Ref[ID, S], error) {
	o, complete, err := configure(source, targets, opts)
	if err != nil {
		return nil, fmt.Errorf("extref: %w", err)
	}
	r := &Ref[ID, S]{source: source, primary: scan.Primary(source), targets: complete, opts: o}
	known := map[string]bool{}
	for i := range r.targets {
		t := &r.targets[i]
		t.primary = scan.Primary(t.Collection)
		r.versioned = r.versioned || !t.Unversioned
		if len(t.follow) > 0 {
			r.following = append(r.following, t)
		}
		for _, f := range t.follow {
			if !known[f.Path] {
				known[f.Path] = true
				r.follow = append(r.follow, f)
			}
		}
		for _, f := range t.Fields {
			r.ways = append(r.ways, fieldpath.Above(f.Path)...)
		}
	}
	slices.Sort(r.ways)
	r.ways = slices.Compact(r.ways)
	r.lossy = r.versioned && lossy[S](o)
	return r, nil
}

// lossy reports that S is a struct without a field for the version: it takes one
// in and gives none back. Types that encode themselves, or by a registry of the
// user's, are trusted.
func lossy[S any](o Options) bool {
	kind := reflect.TypeFor[S]()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	own := reflect.PointerTo(kind)
	if kind.Kind() != reflect.Struct || o.Registry != nil ||
		own.Implements(reflect.TypeFor[bson.Marshaler]()) || own.Implements(reflect.TypeFor[bson.ValueMarshaler]()) {
		return false
	}
	doc, err := encode.Document(nil, bson.D{{Key: o.VersionField, Value: int64(1)}})
	if err != nil {
		return false
	}
	var src S
	if bson.Unmarshal(doc, &src) != nil {
		return false
	}
	back, err := encode.Document(nil, src)
	return err == nil && rawvalue.Lookup(back, o.VersionField).Type == 0
}

// Reference builds the copy of src that a document of the target holds, without
// any I/O: the ID, the followed and frozen fields, and the version. What src
// lacks, the copy lacks. Store it at the target's Path, or add it to the array;
// with Path "" append it to the document's own fields. If the copy has a version
// and S is a struct without one it is refused, as such a copy would be behind from
// the start: give S the field, or use Fetch.
//
// If src is not the newest state any more when the document is inserted, the
// copy is behind: see the package documentation, and Pin.
func (r *Ref[ID, S]) Reference(target string, src S) (bson.D, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: reference: %w", err)
	}
	if r.lossy && !t.Unversioned {
		return nil, fmt.Errorf("extref: reference: source: %w: %T has no field %q", ErrInvalid, src, r.opts.VersionField)
	}
	s, err := r.encode(src)
	if err != nil {
		return nil, fmt.Errorf("extref: reference: %w", err)
	}
	return t.reference(s), nil
}

// Fetch reads a source and builds the copy that Reference builds.
//
// Cost: 1 round trip, by _id.
func (r *Ref[ID, S]) Fetch(ctx context.Context, target string, id ID) (bson.D, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: fetch: %w", err)
	}
	s, err := r.read(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("extref: fetch: %w", err)
	}
	return t.reference(s), nil
}

// Pin is Fetch for an insert, or an update, that must not store a stale
// reference. It runs in the caller's transaction and writes to the source (a
// field that is taken off again), so that a change or a deletion of the source
// at the same time conflicts with it. Pass its error on to what runs the
// transaction, which will run it again after a conflict.
//
// Cost: 2 round trips, 2 writes to the source, by _id.
func (r *Ref[ID, S]) Pin(ctx context.Context, target string, id ID) (bson.D, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: pin: %w", err)
	}
	if !txn.Running(ctx) {
		return nil, fmt.Errorf("extref: pin: %w", ErrNoTransaction)
	}
	raw, err := r.id(id)
	if err != nil {
		return nil, fmt.Errorf("extref: pin: %w", err)
	}
	s, err := r.pin(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("extref: pin: %w", err)
	}
	return t.reference(s), nil
}

// Filter selects the documents of a target that refer to a source. It uses the
// target's index.
func (r *Ref[ID, S]) Filter(target string, id ID) (bson.D, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: filter: %w", err)
	}
	raw, err := r.id(id)
	if err != nil {
		return nil, fmt.Errorf("extref: filter: %w", err)
	}
	return t.where(rawvalue.Equal(raw)), nil
}

// BehindFilter selects the documents of a target with a copy that is older than
// src, or with Unversioned one that differs from src in a followed field. It
// uses the target's index.
func (r *Ref[ID, S]) BehindFilter(target string, src S) (bson.D, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: behind: %w", err)
	}
	s, err := r.encode(src)
	if err != nil {
		return nil, fmt.Errorf("extref: behind: %w", err)
	}
	return t.behind(s), nil
}

// TargetIndexes returns the index that a target uses, on the target's
// collection: {ID: 1, version: 1} of the copy, or {ID: 1} if it is Unversioned.
func (r *Ref[ID, S]) TargetIndexes(target string) ([]mongo.IndexModel, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: indexes: %w", err)
	}
	return t.indexes(), nil
}

func (t *target) indexes() []mongo.IndexModel {
	keys := bson.D{{Key: t.path(t.IDField), Value: 1}}
	if !t.Unversioned {
		keys = append(keys, bson.E{Key: t.path(t.VersionField), Value: 1})
	}
	return []mongo.IndexModel{{Keys: keys}}
}

// OutboxIndexes returns the index that Drain uses, on the outbox: {due: 1}.
func (r *Ref[ID, S]) OutboxIndexes() []mongo.IndexModel {
	return []mongo.IndexModel{{Keys: bson.D{{Key: dueField, Value: 1}}}}
}

// EnsureIndexes creates the indexes of all targets, and of the outbox if there
// is one, that are missing. An index on the same keys with other options is
// ErrIndexConflict; nothing is dropped. The source needs no index.
//
// Cost: 1 round trip for each target and the outbox if the index is there, else
// 2.
func (r *Ref[ID, S]) EnsureIndexes(ctx context.Context) error {
	for i := range r.targets {
		t := &r.targets[i]
		if err := indexes.Ensure(ctx, t.Collection, t.indexes()); err != nil {
			return fmt.Errorf("extref: %s: %w", t.Name, err)
		}
	}
	if r.opts.Outbox != nil {
		if err := indexes.Ensure(ctx, r.opts.Outbox, r.OutboxIndexes()); err != nil {
			return fmt.Errorf("extref: outbox: %w", err)
		}
	}
	return nil
}

// ShardKey returns the shard key of the source, {_id: 1} ("hashed" will do as
// well): every write to it filters on _id. Targets keep their own.
func (r *Ref[ID, S]) ShardKey() bson.D { return bson.D{{Key: "_id", Value: 1}} }

func (r *Ref[ID, S]) target(name string) (*target, error) {
	for i := range r.targets {
		if r.targets[i].Name == name {
			return &r.targets[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoTarget, name)
}

// id encodes an ID.
func (r *Ref[ID, S]) id(id ID) (bson.RawValue, error) {
	raw, err := encode.Value(r.opts.Registry, id)
	if err != nil {
		return raw, fmt.Errorf("source %v: %w: %w", id, ErrInvalid, err)
	}
	return raw, checkID(raw)
}

// checkID refuses what no _id can be, and what an ID is before it is set. A
// document that begins with an operator would not pass in an $in either.
func checkID(id bson.RawValue) error {
	switch id.Type {
	case 0, bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return fmt.Errorf("%w: no ID", ErrInvalid)
	case bson.TypeObjectID:
		if id.ObjectID().IsZero() {
			return fmt.Errorf("%w: no ID", ErrInvalid)
		}
	case bson.TypeEmbeddedDocument:
		if first, err := id.Document().IndexErr(0); err == nil && strings.HasPrefix(first.Key(), "$") {
			return fmt.Errorf("%w: no ID", ErrInvalid)
		}
	}
	return nil
}

// encode makes a state of the user's document.
func (r *Ref[ID, S]) encode(src S) (state, error) {
	doc, err := encode.Document(r.opts.Registry, src)
	if err != nil {
		return state{}, fmt.Errorf("source: %w: %w", ErrInvalid, err)
	}
	return r.state(doc)
}

// state takes what is needed out of a source document.
func (r *Ref[ID, S]) state(doc bson.Raw) (state, error) {
	id := rawvalue.Lookup(doc, "_id")
	if err := checkID(id); err != nil {
		return state{}, fmt.Errorf("source: %w", err)
	}
	s, err := r.valid(id, doc)
	s.id = rawvalue.Equal(id)
	return s, err
}

// valid looks at all of a source document but its ID.
func (r *Ref[ID, S]) valid(id bson.RawValue, doc bson.Raw) (state, error) {
	s := state{doc: doc}
	for _, way := range r.ways {
		if rawvalue.Lookup(doc, way).Type == bson.TypeArray {
			s.badField = way
			return s, fmt.Errorf("source %s: %w: %q is an array, on the way to a copied field", rawvalue.Text(id), ErrInvalid, way)
		}
	}
	if r.versioned {
		stored := rawvalue.Lookup(doc, r.opts.VersionField)
		version, ok := whole(stored)
		if s.version = version; !ok || version < 0 || version > maxVersion {
			s.badField = r.opts.VersionField
			return s, r.noVersion(id, stored)
		}
	}
	return s, nil
}

// maxVersion is the highest version of a source; a copy of it can still be behind
// the next.
const maxVersion = math.MaxInt64 - 1

func (r *Ref[ID, S]) noVersion(id, version bson.RawValue) error {
	return fmt.Errorf("source %s: %w: %q is %s, want a whole number from 0 to %d",
		rawvalue.Text(id), ErrInvalid, r.opts.VersionField, rawvalue.Text(version), int64(maxVersion))
}

// whole reads a version; none is 0.
func whole(value bson.RawValue) (int64, bool) {
	switch value.Type {
	case 0, bson.TypeNull:
		return 0, true
	case bson.TypeInt32:
		return int64(value.Int32()), true
	case bson.TypeInt64:
		return value.Int64(), true
	case bson.TypeDouble:
		f := value.Double()
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<63
	}
	return 0, false
}

// read reads a source.
func (r *Ref[ID, S]) read(ctx context.Context, id ID) (state, error) {
	raw, err := r.id(id)
	if err != nil {
		return state{}, err
	}
	return r.find(ctx, raw)
}

// causal gives ctx a session, unless it has one, in which each operation sees all
// that those before it saw. A read outside of one that comes upon a transaction
// over several shards as it commits may see what it wrote on one of them and not
// yet what it wrote on another: the entry in the outbox, but not the change.
func (r *Ref[ID, S]) causal(ctx context.Context) (context.Context, func(), error) {
	if mongo.SessionFromContext(ctx) != nil {
		return ctx, func() {}, nil
	}
	session, err := r.source.Database().Client().StartSession()
	if err != nil {
		return ctx, func() {}, err
	}
	return mongo.NewSessionContext(ctx, session), func() { session.EndSession(context.WithoutCancel(ctx)) }, nil
}

func (r *Ref[ID, S]) find(ctx context.Context, id bson.RawValue) (state, error) {
	return r.result(id, r.primary.FindOne(ctx, byID(id), options.FindOne().SetProjection(r.projection())))
}

// pin reads a source and writes to it, in a transaction, so that another one
// which changes or deletes it at the same time conflicts with this one. It leaves
// the source as it was, also when that is invalid.
func (r *Ref[ID, S]) pin(ctx context.Context, id bson.RawValue) (state, error) {
	s, err := r.result(id, r.source.FindOneAndUpdate(ctx, byID(id), touching(), options.FindOneAndUpdate().
		SetProjection(r.projection()).SetReturnDocument(options.After)))
	if err != nil && !errors.Is(err, ErrInvalid) {
		return s, err
	}
	if _, err := r.source.UpdateOne(ctx, byID(id), untouching()); err != nil {
		return s, err
	}
	return s, err
}

func touching() bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: touchField, Value: bson.NewObjectID()}}}}
}

func untouching() bson.D {
	return bson.D{{Key: "$unset", Value: bson.D{{Key: touchField, Value: ""}}}}
}

func (r *Ref[ID, S]) result(id bson.RawValue, result *mongo.SingleResult) (state, error) {
	doc, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return state{}, fmt.Errorf("source %s: %w", rawvalue.Text(id), ErrNotFound)
	}
	if err != nil {
		return state{}, fmt.Errorf("source %s: %w", rawvalue.Text(id), err)
	}
	return r.state(doc)
}

func byID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: rawvalue.Equal(id)}} }

// projection reads the copied fields and the version of a source.
func (r *Ref[ID, S]) projection() bson.D {
	var paths []string
	if r.versioned {
		paths = append(paths, r.opts.VersionField)
	}
	for _, t := range r.targets {
		for _, f := range t.Fields {
			paths = append(paths, f.Path)
		}
	}
	out := bson.D{{Key: "_id", Value: 1}}
	for i, path := range paths {
		covered := false
		for j, other := range paths {
			covered = covered || strings.HasPrefix(path, other+".") || other == path && j < i
		}
		if !covered {
			out = append(out, bson.E{Key: path, Value: 1})
		}
	}
	return out
}
