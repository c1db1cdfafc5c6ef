package extref

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Source keeps copies of the fields of its documents, the sources, in the documents that refer to
// them. ID is the type of their keys, T that of a source. It is safe for concurrent use.
type Source[ID, T any] struct {
	core *core
}

var _ mongopatterns.Checker = (*Source[any, any])(nil)

// New returns a Source over the collection source and the targets. It does no I/O. All programs
// that write one source must use the same targets and options.
//
// ID is the type of the source's key, which is its _id unless Options.KeyField says otherwise. T
// is the type of a source: a struct, a map or bson.D. A struct needs a version field if Copy is
// to make copies with versions. A map or bson.D without a version counts as version 0.
func New[ID, T any](source *mongo.Collection, targets []Target, opts *Options) (ref *Source[ID, T], err error) {
	defer fault.In(&err, "extref.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	c, err := configure(source, targets, opts)
	if err != nil {
		return nil, err
	}
	t := reflect.TypeFor[T]()
	fields, known := c.codec.Fields(t)
	for _, target := range c.targets {
		i := slices.IndexFunc(target.Fields, func(f Field) bool { return c.codec.Lacks(t, f.Path) })
		switch {
		case known && !target.Unversioned && !slices.Contains(fields, c.o.VersionField):
			target.lacks = c.o.VersionField
		case i >= 0:
			target.lacks = target.Fields[i].Path
		}
		for _, f := range target.Fields {
			target.omits = cmp.Or(target.omits, c.codec.CheckKept(t, "source", f.Path))
		}
	}
	return &Source[ID, T]{core: c}, nil
}

// Copy builds the copy of src for a document of the target, without any I/O. It has the key, the
// copied fields that src has, and the version. Store it at the target's Path, or add it to the
// array. With Path "" append it to the document's own fields. [As] returns it as a struct of your
// own.
//
// Copy returns ErrInvalid if T is a struct without a copied field, or without the version field and
// the copy has a version, or if src has another value in a field of Options.Scope. If src is not the newest state when the document is inserted, the copy is
// behind. Pin prevents that.
func (r *Source[ID, T]) Copy(target string, src T) (copied bson.D, err error) {
	defer fault.In(&err, "extref.Copy")
	t, err := r.core.target(target)
	if err != nil {
		return nil, err
	}
	if t.lacks != "" {
		return nil, fault.Invalid("source: %T has no field %q", src, t.lacks)
	}
	if t.omits != nil {
		return nil, t.omits
	}
	compared := []string{r.core.o.KeyField}
	for _, f := range t.follow {
		compared = append(compared, f.Path)
	}
	doc, err := r.core.codec.Stored(src, compared...)
	if err != nil {
		return nil, err
	}
	if err := r.core.codec.CheckNoHex(doc, compared...); err != nil {
		return nil, err
	}
	if _, err := r.core.source.Scope().Set(doc); err != nil {
		return nil, err
	}
	s := r.core.state(doc)
	if s.err != nil {
		return nil, s.err
	}
	return t.reference(s), nil
}

// Fetch reads a source and builds its copy as Copy does.
//
// Cost: 1 round trip, by the source's key.
func (r *Source[ID, T]) Fetch(ctx context.Context, target string, id ID) (copied bson.D, err error) {
	ctx = comment.Call(ctx, "extref.Fetch")
	defer fault.In(&err, "extref.Fetch")
	return r.core.fetch(ctx, target, id, r.core.find)
}

// Pin is Fetch for a write that must not store an outdated copy. It runs in the transaction of
// ctx and writes to the source (it sets and removes a field), so that a change or a deletion of
// the source at the same time conflicts with it. Return its error to the function that runs
// the transaction again, such as Transact.
//
// Cost: 2 round trips, 2 writes to the source, by its key.
func (r *Source[ID, T]) Pin(ctx context.Context, target string, id ID) (copied bson.D, err error) {
	ctx = comment.Call(ctx, "extref.Pin")
	defer fault.In(&err, "extref.Pin")
	if !txn.Running(ctx) {
		return nil, fault.Invalid("ctx must have a transaction")
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
func (r *Source[ID, T]) Filter(target string, id ID) (filter bson.D, err error) {
	defer fault.In(&err, "extref.Filter")
	t, key, err := r.core.named(target, id)
	if err != nil {
		return nil, err
	}
	return t.coll.Scope().Match(t.where(key)), nil
}

// Indexes returns the indexes by collection: for each target {key: 1, version: 1} of the copy, or
// {key: 1} if it is Unversioned; {due: 1} on the outbox; and a unique index of Options.KeyField
// on the source unless that is _id. All begin with the scope.
func (r *Source[ID, T]) Indexes() map[string][]mongo.IndexModel { return r.core.indexes() }

// EnsureIndexes creates the indexes that are missing. If an index on the same keys has other
// options, it returns mongopatterns.ErrIndexConflict; it drops nothing.
//
// Cost: 1 round trip, and 1 for each collection if its indexes are there, else 2.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (r *Source[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "extref.EnsureIndexes")
	defer fault.In(&err, "extref.EnsureIndexes")
	if err := r.core.ready(ctx, nil); err != nil {
		return err
	}
	if err := r.core.codec.CheckClient(ctx, r.core.source, reflect.TypeFor[ID](), reflect.TypeFor[T]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, r.core.source.Database(), r.core.indexes())
}

// ShardKey returns the shard key of the source, which is the scope and then its key; "hashed" works as well. Targets
// keep the shard keys they have, and the outbox stays unsharded.
func (r *Source[ID, T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{r.core.source.Name(): r.core.source.Scope().Keys(expr.D(r.core.o.KeyField, 1))}
}

// Copies makes copies for a target as C, a type of your own. C is a field in the struct of the
// document that holds the copy; with Path "" inline it.
type Copies[C, ID, T any] struct {
	ref    *Source[ID, T]
	target *target
}

// As returns the Copies of a target: As[CustomerCopy](customers, "orders.customer"). C has the fields
// of one copy, with a struct where IDField, VersionField or Field.As has a dot. As returns ErrInvalid
// if C is a struct that lacks a field of the copy, because the field would be lost. If the field lies
// deeper, or C has codecs of its own, only Copy, Fetch and Pin can notice this, and return the error.
func As[C, ID, T any](r *Source[ID, T], target string) (copies *Copies[C, ID, T], err error) {
	defer fault.In(&err, "extref.As")
	if r == nil {
		return nil, fault.Invalid("the Source is nil")
	}
	t, err := r.core.target(target)
	if err != nil {
		return nil, err
	}
	for _, path := range t.inner {
		if r.core.codec.Lacks(reflect.TypeFor[C](), path) {
			return nil, fault.Invalid("C: %v has no field %q", reflect.TypeFor[C](), path)
		}
	}
	return &Copies[C, ID, T]{r, t}, nil
}

// Copy is Source.Copy.
func (c *Copies[C, ID, T]) Copy(src T) (C, error) {
	return c.decode(c.ref.Copy(c.target.Name, src))
}

// Fetch is Source.Fetch.
//
// Cost: 1 round trip, by the source's key.
func (c *Copies[C, ID, T]) Fetch(ctx context.Context, id ID) (C, error) {
	return c.decode(c.ref.Fetch(ctx, c.target.Name, id))
}

// Pin is Source.Pin.
//
// Cost: 2 round trips, 2 writes to the source, by its key.
func (c *Copies[C, ID, T]) Pin(ctx context.Context, id ID) (C, error) {
	return c.decode(c.ref.Pin(ctx, c.target.Name, id))
}

// decode decodes a copy, or returns the error of the call that made it.
func (c *Copies[C, ID, T]) decode(copied bson.D, failed error) (out C, err error) {
	if failed != nil {
		return out, failed
	}
	defer fault.In(&err, "extref.Copy")
	have, err := bson.Marshal(copied)
	if err != nil {
		return out, fault.Invalid("%w", err)
	}
	if err := c.ref.core.codec.DecodeGiven(have, &out); err != nil {
		return out, err
	}
	back, err := c.ref.core.codec.Document(out) // not sooner: the codecs of C never see an incomplete copy
	if err != nil {
		return out, err
	}
	for _, path := range c.target.inner {
		if value.Lookup(have, path).Type != 0 && value.Lookup(back, path).Type == 0 {
			return out, fault.Invalid("%T has no field %q", out, path)
		}
	}
	return out, nil
}
