package tree

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

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

// store has the collection of a tree and the names of its fields: the filters, reads and writes that all calls
// use. How a representation derives one field from another stands in the types that embed it, but for paths.
type store struct {
	layout
	o    Options
	kind Representation

	// Each command of these collections is in Options.Scope. What is not a command of theirs names the scope itself: see
	// inJoin, and the filters and pipelines for the caller's commands in read.go.
	coll    *scoped.Collection // the user's, for reads with its read preference
	primary *scoped.Collection // for writes, and for reads that must see every node
	durable *scoped.Collection // primary with the write concern majority, for writes outside transactions
	locks   *scoped.Collection
	lockID  string // one for all scopes that the server holds equal: otherwise two processes would have two locks

	codec      codec.Codec
	rootParent bson.RawValue // Options.RootParent

	byLevels *atomic.Bool // see refusesJoins

	shown bson.Raw // the projection: see projection
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

// readingFor returns a copy of the store for a conversion: it also reads the fields of to, and reads in the transactions
// of to, which find out whether the server refuses joins.
func (s *store) readingFor(to *store) *store {
	from := *s
	from.shown, from.byLevels = expr.Raw(projection(s, to)), to.byLevels
	return &from
}

// newStore checks the options and fills in defaults.
func newStore(coll *mongo.Collection, kind Representation, o Options) (*store, error) {
	if kind < ParentReferences || kind > NestedSets {
		return nil, fault.Invalid("rep: unknown %v", kind)
	}
	if err := o.complete(kind); err != nil {
		return nil, err
	}
	c := codec.Of(coll, o.Registry, o.BSON)
	of, err := scope.New(c, o.Scope)
	if err != nil {
		return nil, err
	}
	majority := options.Collection().SetWriteConcern(writeconcern.Majority())
	own := scoped.On(coll).In(of)
	primary := cursor.Primary(own)
	locks := scoped.On(coll.Database().Collection(cmp.Or(o.LockCollection, coll.Name()+"_locks"))).In(of)
	s := &store{layout: layoutOf(kind, o), o: o, kind: kind, coll: own, primary: primary, durable: primary.Clone(majority),
		locks: cursor.Primary(locks).Clone(majority), lockID: of.Label("tree"), codec: c, byLevels: new(atomic.Bool)}
	if s.o.OrderField != "" && s.o.OrderField != s.order {
		return nil, fault.Invalid("Options.OrderField: the representation keeps siblings in order by itself")
	}
	if s.o.Graph && kind != ChildReferences {
		return nil, fault.Invalid("Options.Graph: only ChildReferences can hold a node with several parents")
	}
	if s.o.RootParent != nil {
		if s.rootParent, err = s.codec.ID("Options.RootParent", s.o.RootParent); err != nil {
			return nil, err
		}
	}
	s.shown = expr.Raw(projection(s))
	return s, nil
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
	models = append(models, mongo.IndexModel{Keys: c.keyed(c.refField, c.order)})
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
// ErrInvalid if the collection has a default collation.
//
// The indexes are the same for all scopes of a collection, so one Tree can create them for all. The lock
// document of another scope is made on first use.
//
// Cost: 3 round trips when all indexes are there, otherwise 4; 1 document written.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (t *Tree[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "tree.EnsureIndexes")
	defer fault.In(&err, "tree.EnsureIndexes")
	if err := collation.Refuse(ctx, t.c.coll); err != nil {
		return err
	}
	if err := t.c.codec.Agree(ctx, t.c.coll, reflect.TypeFor[ID](), reflect.TypeFor[T]()); err != nil {
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
