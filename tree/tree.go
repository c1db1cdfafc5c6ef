package tree

import (
	"context"
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

// The package's own errors, besides those of the root package.
var (
	// ErrIsRoot: Parent was called for a root. It matches mongopatterns.ErrNotFound.
	ErrIsRoot = fault.New("the node is a root and has no parent", mongopatterns.ErrNotFound)
	// ErrCycle: a node would lie below itself. It matches mongopatterns.ErrConflict.
	ErrCycle = fault.New("the node would lie below itself", mongopatterns.ErrConflict)
)

// Tree reads and changes the shape of one tree, or of several with a root each, in a collection. ID is the
// type of the IDs. T is the type of a whole stored document; it may contain the tree fields. A Tree is safe
// for concurrent use.
type Tree[ID, T any] struct {
	c *core
}

var _ mongopatterns.Checker = (*Tree[string, bson.M])(nil)

// New returns the tree of a collection. It does no I/O.
func New[ID, T any](coll *mongo.Collection, rep Representation, opts *Options) (t *Tree[ID, T], err error) {
	defer fault.In(&err, "tree.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	if err := config.Collections("coll", coll); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	c, err := newCore(coll, rep, o)
	if err != nil {
		return nil, err
	}
	if err := c.codec.CheckExtended("T", reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	return &Tree[ID, T]{c}, nil
}

// core is a Tree without its type parameters: IDs are BSON values.
type core struct {
	*store
	shape
	numbers *numbers // nil except in NestedSets

	ancestors, crumbs []bson.RawValue // the encoded stages for runFrom
}

// newCore also encodes the pipelines of the reads that a page makes most often.
func newCore(coll *mongo.Collection, kind Representation, o Options) (*core, error) {
	s, err := newStore(coll, kind, o)
	if err != nil {
		return nil, err
	}
	c := s.core()
	c.ancestors = encodeStages(withoutDepth(c.rootFirst(c, nil)))
	c.crumbs = encodeStages(c.breadcrumb(nil))
	return c, nil
}

// core combines a store with its representation and its order of siblings.
func (s *store) core() *core {
	if s.kind == ChildReferences {
		return &core{store: s, shape: &lists{s}}
	}
	l := parented{store: s}
	switch s.kind {
	case ParentReferences:
		l.representation = parentRefs{s}
	case AncestorArray:
		l.representation = ancestorArray{s}
	case MaterializedPath:
		l.representation = materializedPath{s}
	case NestedSets:
		l.representation = nestedSets{parentRefs{s}}
		n := numbers{l}
		return &core{store: s, shape: oneParent{l, n}, numbers: &n}
	}
	return &core{store: s, shape: oneParent{l, gaps{l}}}
}

// Indexes returns, by the collection's name, the indexes that the tree's reads and writes use.
func (t *Tree[ID, T]) Indexes() map[string][]mongo.IndexModel {
	c := t.c
	var models []mongo.IndexModel
	if c.o.IDField != "_id" {
		models = append(models, mongo.IndexModel{Keys: c.keyed(c.o.IDField), Options: options.Index().SetUnique(true)})
	}
	if len(c.extraIndex) > 0 {
		models = append(models, mongo.IndexModel{Keys: c.keyed(c.extraIndex...)})
	}
	if c.o.SegmentField != "" { // bare nodes have no path
		withPath := expr.D(c.o.PathField, expr.Op("$gte", ""))
		models = append(models, mongo.IndexModel{Keys: c.keyed(c.o.PathField, c.o.SegmentField),
			Options: options.Index().SetUnique(true).SetPartialFilterExpression(withPath)})
	}
	models = append(models, mongo.IndexModel{Keys: c.keyed(c.refField, c.sortField)})
	return map[string][]mongo.IndexModel{c.coll.Name(): models}
}

// keyed are the keys of an index: those of the scope, then fields, except empty names.
func (s *store) keyed(fields ...string) bson.D {
	keys := bson.D{}
	for _, f := range fields {
		if f != "" {
			keys = append(keys, expr.Element(f, 1))
		}
	}
	return s.coll.Scope().Keys(keys)
}

// EnsureIndexes creates the indexes that are missing and the tree's lock document, and drops nothing. If an
// index on the same keys or with the same name has other options, it returns ErrIndexConflict. It returns
// ErrInvalid if the collection or the lock collection has a default collation.
//
// The indexes are the same for all scopes of a collection, so one Tree can create them for all. The lock
// document of another scope is made on first use.
//
// Cost: 3 round trips when all indexes are there, otherwise 4; 1 document written.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (t *Tree[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "tree.EnsureIndexes")
	defer fault.In(&err, "tree.EnsureIndexes")
	if err := collation.Refuse(ctx, t.c.coll, t.c.locks); err != nil {
		return err
	}
	if err := t.c.codec.CheckClient(ctx, t.c.coll, reflect.TypeFor[ID](), reflect.TypeFor[T]()); err != nil {
		return err
	}
	if err := indexes.EnsureAll(ctx, t.c.coll.Database(), t.Indexes()); err != nil {
		return err
	}
	if err := t.c.ensureLock(ctx); err != nil {
		return fmt.Errorf("lock document: %w", err)
	}
	return nil
}

// ShardKey returns, by the collection's name, the recommended shard key. It is the scope, so that a tree
// is on one shard, or the ID if there is no scope. With a scope the lock collection has the same key, so
// with the same zones or chunks a tree and its lock are on one shard.
func (t *Tree[ID, T]) ShardKey() map[string]bson.D {
	key := t.c.keyed()
	if len(key) == 0 {
		return map[string]bson.D{t.c.coll.Name(): t.c.keyed(t.c.o.IDField)}
	}
	return map[string]bson.D{t.c.coll.Name(): key, t.c.locks.Name(): key}
}
