package extref

import (
	"context"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Ref keeps copies of a source's fields in the documents that refer to it. It is
// safe for concurrent use.
type Ref[ID, S any] struct {
	core  *core
	lossy bool // S is a struct without a version
}

var _ mongopatterns.Checker = (*Ref[any, any])(nil)

// New returns a Ref over source and the places that hold copies of it, without any
// I/O. All programs that write one source must use the same targets and options.
//
// ID is the type of the source's key, its _id unless Options.KeyField says
// otherwise. S is a source: a struct, a map or bson.D. A struct needs the version
// field if Reference is to make copies with versions; a map or bson.D without it
// counts as the oldest.
func New[ID, S any](source *mongo.Collection, targets []Target, opts *Options) (ref *Ref[ID, S], err error) {
	defer fault.In(&err, "extref: new")
	c, err := configure(source, targets, opts)
	if err != nil {
		return nil, err
	}
	fields, known := c.codec.Fields(reflect.TypeFor[S]())
	return &Ref[ID, S]{core: c, lossy: known && !slices.Contains(fields, c.o.VersionField)}, nil
}

// Reference builds the copy of src that a document of the target holds, without
// any I/O: the key, the copied fields that src has, and the version. Store it at the
// target's Path, or add it to the array; with Path "" append it to the document's
// own fields. For makes it a struct of your own.
//
// A struct without a version field is ErrInvalid if the copy has one. If src is not
// the newest state when the document is inserted, the copy is behind: see Pin.
func (r *Ref[ID, S]) Reference(target string, src S) (copied bson.D, err error) {
	defer fault.In(&err, "extref: reference")
	t, err := r.core.target(target)
	if err != nil {
		return nil, err
	}
	if r.lossy && !t.Unversioned {
		return nil, fault.Invalid("source: %T has no field %q", src, r.core.o.VersionField)
	}
	doc, err := r.core.codec.Document(src)
	if err != nil {
		return nil, err
	}
	s := r.core.state(doc)
	if s.err != nil {
		return nil, s.err
	}
	return t.reference(s), nil
}

// Fetch reads a source and builds the copy that Reference builds.
//
// Cost: 1 round trip, by the source's key.
func (r *Ref[ID, S]) Fetch(ctx context.Context, target string, id ID) (copied bson.D, err error) {
	defer fault.In(&err, "extref: fetch")
	return r.core.fetch(ctx, target, id, r.core.find)
}

// Pin is Fetch for a write that must not store a stale reference. It runs in the
// transaction of ctx and writes to the source (a field that is taken off again), so
// that a change or a deletion of the source at the same time conflicts with it.
// Return its error to what runs the transaction again, as Transact does.
//
// Cost: 2 round trips, 2 writes to the source, by its key.
func (r *Ref[ID, S]) Pin(ctx context.Context, target string, id ID) (copied bson.D, err error) {
	defer fault.In(&err, "extref: pin")
	if !txn.Running(ctx) {
		return nil, fault.Invalid("needs a transaction in its context")
	}
	return r.core.fetch(ctx, target, id, r.core.pin)
}

func (c *core) fetch(ctx context.Context, target string, id any, read func(context.Context, bson.RawValue) (state, error)) (bson.D, error) {
	t, key, err := c.named(target, id)
	if err != nil {
		return nil, err
	}
	s, err := read(ctx, key)
	if err != nil {
		return nil, err
	}
	return t.reference(s), nil
}

func (c *core) named(name string, id any) (*target, bson.RawValue, error) {
	t, err := c.target(name)
	if err != nil {
		return nil, bson.RawValue{}, err
	}
	key, err := c.codec.ID("source", id)
	return t, key, err
}

// Filter selects the documents of a target that refer to a source. It uses the
// target's index.
func (r *Ref[ID, S]) Filter(target string, id ID) (filter bson.D, err error) {
	defer fault.In(&err, "extref: filter")
	t, key, err := r.core.named(target, id)
	if err != nil {
		return nil, err
	}
	return t.where(key), nil
}

// Indexes returns the indexes by collection: for each target {key: 1, version: 1}
// of the copy, or {key: 1} if it is Unversioned; {due: 1} on the outbox; and a
// unique one of Options.KeyField on the source unless that is the _id.
func (r *Ref[ID, S]) Indexes() map[string][]mongo.IndexModel { return r.core.indexes() }

// EnsureIndexes creates the indexes that are missing. An index on the same keys
// with other options is mongopatterns.ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip, and 1 a collection if its indexes are there, else 2.
func (r *Ref[ID, S]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "extref: ensure indexes")
	if err := r.core.refuse(ctx, nil); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, r.core.source.Database(), r.core.indexes())
}

// ShardKey returns the shard key of the source, its key; "hashed" will do as well.
// Targets keep the shard keys they have, and the outbox stays unsharded.
func (r *Ref[ID, S]) ShardKey() map[string]bson.D {
	return map[string]bson.D{r.core.source.Name(): {{Key: r.core.o.KeyField, Value: 1}}}
}

// Copies makes copies for a target as C, a type of your own, to be put into the
// struct of the document that holds it; with Path "" C is meant to be inlined.
type Copies[C, ID, S any] struct {
	ref    *Ref[ID, S]
	target *target
}

// For returns the copies of a target as C: For[CustomerCopy](customers, "orders.customer").
// A struct without a field for something that a copy has is ErrInvalid: it would be lost.
// Where that shows only in a copy that was made, as with codecs of its own, Reference, Fetch and
// Pin return it.
func For[C, ID, S any](r *Ref[ID, S], target string) (copies *Copies[C, ID, S], err error) {
	defer fault.In(&err, "extref: for")
	t, err := r.core.target(target)
	if err != nil {
		return nil, err
	}
	for _, path := range t.inner {
		if r.core.codec.Lacks(reflect.TypeFor[C](), path) {
			return nil, fault.Invalid("%v has no field %q", reflect.TypeFor[C](), path)
		}
	}
	return &Copies[C, ID, S]{r, t}, nil
}

// Reference is Ref.Reference.
func (c *Copies[C, ID, S]) Reference(src S) (C, error) {
	return c.decode(c.ref.Reference(c.target.Name, src))
}

// Fetch is Ref.Fetch.
//
// Cost: 1 round trip, by the source's key.
func (c *Copies[C, ID, S]) Fetch(ctx context.Context, id ID) (C, error) {
	return c.decode(c.ref.Fetch(ctx, c.target.Name, id))
}

// Pin is Ref.Pin.
//
// Cost: 2 round trips, 2 writes to the source, by its key.
func (c *Copies[C, ID, S]) Pin(ctx context.Context, id ID) (C, error) {
	return c.decode(c.ref.Pin(ctx, c.target.Name, id))
}

func (c *Copies[C, ID, S]) decode(copied bson.D, err error) (out C, _ error) {
	if err != nil {
		return out, err
	}
	var back bson.Raw
	have, err := bson.Marshal(copied)
	if err == nil {
		err = c.ref.core.codec.Decode(have, &out)
	}
	if err == nil { // half a copy is not for the codecs of C
		back, err = c.ref.core.codec.Document(out)
	}
	if err != nil {
		return out, fault.Invalid("extref: copy: %w", err)
	}
	for _, path := range c.target.inner {
		if value.Lookup(have, path).Type != 0 && value.Lookup(back, path).Type == 0 {
			return out, fault.Invalid("extref: copy: %T has no field %q", out, path)
		}
	}
	return out, nil
}
