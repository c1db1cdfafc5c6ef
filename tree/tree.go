package tree

import (
	"cmp"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Errors that a caller decides by, besides those of the root package.
var (
	// ErrNoParent: a parent does not exist, either the one to put a node under or that of an orphan. It matches
	// mongopatterns.ErrNotFound.
	ErrNoParent = fault.New("no such parent", fault.ErrNotFound)
	// ErrIsRoot: Parent was asked of a root. It matches mongopatterns.ErrNotFound.
	ErrIsRoot = fault.New("the node is a root and has no parent", fault.ErrNotFound)
	// ErrCycle: a node would lie under itself.
	ErrCycle = fault.New("node would lie under itself", nil)
	// ErrHasChildren: Delete with Restrict met a node with children.
	ErrHasChildren = fault.New("node has children", nil)
	// ErrNotAdopted: the call needs the place of a node that names a parent but has no ancestors, path, array of
	// children or numbers yet, or has ancestors that do not end with the parent. Nothing was written: run Adopt
	// and repeat the call.
	ErrNotAdopted = fault.New("the node is not adopted", nil)
)

// Tree reads and changes the shape of one tree (or several, told apart by their roots) in a collection. K is
// the type of the IDs, T that of a whole stored document, tree fields included as far as it has them. A Tree
// holds no state and is safe for concurrent use.
type Tree[K, T any] struct {
	c *core
}

var _ mongopatterns.Checker = (*Tree[string, bson.M])(nil)

// New returns the tree of a collection. It does no I/O.
func New[K, T any](coll *mongo.Collection, rep Representation, opts *Options) (_ *Tree[K, T], err error) {
	defer fault.In(&err, "tree")
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
	return &Tree[K, T]{c}, nil
}

// core is what a Tree does without its type parameters: IDs are BSON values.
type core struct {
	rep representation
	layout
	o    Options
	coll *mongo.Collection // as the user set it, for reads

	primary *mongo.Collection // for writes, and for reads that see every node
	durable *mongo.Collection // primary with majority writes, for those outside transactions
	locks   *mongo.Collection
	lockID  string // see scopeID

	codec codec.Codec
	scope bson.D // values are bson.RawValue
	kind  Representation

	shown  bson.Raw // the projection
	mark   bson.Raw // the update of touch
	unmark bson.D   // takes it back

	wayUp, crumbs []bson.RawValue // what sent runs
}

// representation is one way of storing the shape: parentRefs, childRefs, ancestorArray, pathShape and
// nestedSets, each in a file of its own. Outside these files nobody asks which one it is.
//
// The IDs that its pipelines take are bson.RawValues, or values that cannot be encoded, which the driver then
// refuses.
type representation interface {
	// layout is final once its settings are applied.
	layout() layout

	// up makes of a node the node and its ancestors, with fieldDepth (0 is the node itself); only so many
	// levels, 0 is all.
	up(levels int) mongo.Pipeline
	// down yields the descendants of a node, and with self the node, in no order, to a depth (0 is any).
	down(id any, depth int, self bool) mongo.Pipeline
	// children and siblings are in order. The siblings of a root are the other roots.
	children(id any) mongo.Pipeline
	siblings(id any) mongo.Pipeline
	leaves() mongo.Pipeline
	// childrenOf and descendantsOf are filters made from a node that was read; reads says that they need more
	// of it than its ID. The filter is nil where only a query of all descendants can tell.
	childrenOf(n node) (match bson.D, reads bool)
	descendantsOf(n node, depth int) (match bson.D, reads bool)
	// rootsMatch is nil where only a query can tell.
	rootsMatch() bson.D
	// above is the IDs of the ancestors, root first, if the node itself tells, or nil.
	above(n node) []bson.RawValue
	// width is the number of descendants that a node tells, -1 if it does not.
	width(n node) int64
	usable(n node) error
	// except keeps malformed references out of a match on field.
	except(field string) bson.D

	insert(ctx context.Context, doc bson.D, pos position) error
	move(ctx context.Context, id bson.RawValue, pos position) error
	// cascade deletes a node and its descendants, but for the writes that it returns.
	cascade(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error)
	// bequeath are the writes that give the children of x, which is deleted, to others.
	bequeath(ctx context.Context, x node, policy DeletePolicy) ([]mongo.WriteModel, error)
	// adopted refuses a node that does not know its ancestors.
	adopted(n node) error
	// lift makes the children of x those of heir, nil for roots, with all below them. If x moves, heir is x in its
	// new place.
	lift(x node, heir *node) []mongo.WriteModel
	// arrange adds the shape to the documents of a Load.
	arrange(ctx context.Context, items []*item) error

	// What follows the engine asks (see engine.go), and what puts trees together.

	// place is the shape of a document under a parent, nil for a root.
	place(parent *node) bson.D
	// ref is the parent that a node names, with ID and path, and what is wrong with that. Without an ID the node
	// is a root, or only a query of names tells.
	ref(n node) (up node, broken string)
	names(n node) []bson.RawValue
	parents(nodes []node) bson.D
	// family yields the children of nodes, siblings in order.
	family(nodes []node) mongo.Pipeline
	// adopt is the update of a node to which Load adds children.
	adopt(kids []bson.RawValue) bson.D
	// settle ends a call that wrote many nodes: nested sets number them.
	settle(ctx context.Context, dry bool) (int64, error)

	// listing are the fields that name the children of a node, if any.
	listing(kids []node) bson.D
	// audit finds what else is wrong at a node, or with no node at the roots.
	audit(e *engine, n node, s *spot, kids []node) []finding
	// cut gives the finding at one node of a cycle the writes that end it.
	cut(f *finding, n node, s *spot)
	// join is for Adopt of nodes among settled ones: it takes from kids, which parent fields name, those that
	// are not to be, and finds further writes.
	join(ctx context.Context, e *engine, nodes []node, spots []*spot, kids [][]node) ([]finding, error)
	uproot(n node) []mongo.WriteModel
}

type layout struct {
	settings    []config.Setting
	fields      []string // that hold the shape
	index       []string // of which there is one, besides that of link and order
	link        string   // ties parents and children
	order       string   // by which siblings are in order, "" if by none
	keepsParent bool     // link is the ParentField
	derived     string   // a node without it that has a ParentField is not adopted, "" if parents are all there is
}

func newCore(coll *mongo.Collection, kind Representation, o Options) (*core, error) {
	majority := options.Collection().SetWriteConcern(writeconcern.Majority())
	primary := cursor.Primary(coll)
	o.Scope = append(bson.D{}, o.Scope...)
	locks := coll.Database().Collection(cmp.Or(o.LockCollection, coll.Name()+"_locks"))
	c := &core{kind: kind, coll: coll, primary: primary, durable: primary.Clone(majority), o: o,
		locks: cursor.Primary(locks).Clone(majority), codec: codec.Codec{Registry: o.Registry, BSON: o.BSON}}
	if c.rep = represent(c, kind); c.rep == nil {
		return nil, fault.Invalid("rep: unknown %v", kind)
	}
	if err := c.o.check(c.rep.layout().settings); err != nil {
		return nil, err
	}
	c.layout = c.rep.layout()
	if c.o.OrderField != "" && c.o.OrderField != c.order {
		return nil, fault.Invalid("Options.OrderField: the representation keeps siblings in order by itself")
	}
	if c.o.Graph && c.rep.listing(nil) == nil {
		return nil, fault.Invalid("Options.Graph: only ChildReferences can hold a node with several parents")
	}
	for _, e := range c.o.Scope {
		v, err := c.codec.Value(e.Value)
		if err == nil {
			err = value.CheckID(v)
		}
		if err != nil {
			return nil, fault.Invalid("Options.Scope: %s: %w", e.Key, err)
		}
		c.scope = append(c.scope, bson.E{Key: e.Key, Value: v})
	}
	c.lockID, c.shown = c.scopeID(), expr.Raw(projection(c))
	c.mark = expr.Raw(d("$inc", d(cmp.Or(c.o.ChildCountField, fieldTouch), int64(1))))
	if c.unmark = c.count(-1); c.unmark == nil {
		c.unmark = d("$unset", d(fieldTouch, ""))
	}
	c.wayUp = fixed(bare(c.rootFirst(nil)))
	c.crumbs = fixed(c.breadcrumb(nil, "depth", expr.Field(fieldDepth), "late", c.lateExpr()))
	return c, nil
}

// represent is where a Representation becomes code.
func represent(c *core, kind Representation) representation {
	switch kind {
	case ParentReferences:
		return parentRefs{parentField{base{c}}}
	case AncestorArray:
		return ancestorArray{parentField{base{c}}}
	case MaterializedPath:
		return pathShape{base{c}}
	case ChildReferences:
		return childRefs{base{c}}
	case NestedSets:
		return nestedSets{parentField{base{c}}}
	}
	return nil
}

// Indexes returns, by the collection's name, the indexes that the tree's reads and writes use.
func (t *Tree[K, T]) Indexes() map[string][]mongo.IndexModel {
	c := t.c
	var models []mongo.IndexModel
	if c.o.IDField != "_id" {
		models = append(models, mongo.IndexModel{Keys: c.keyed(c.o.IDField), Options: options.Index().SetUnique(true)})
	}
	if len(c.index) > 0 {
		models = append(models, mongo.IndexModel{Keys: c.keyed(c.index...)})
	}
	models = append(models, mongo.IndexModel{Keys: c.keyed(c.link, c.order)})
	return map[string][]mongo.IndexModel{c.coll.Name(): models}
}

func (c *core) keyed(fields ...string) bson.D {
	keys := bson.D{}
	for _, e := range c.scope {
		keys = append(keys, bson.E{Key: e.Key, Value: 1})
	}
	for _, f := range fields {
		if f != "" {
			keys = append(keys, bson.E{Key: f, Value: 1})
		}
	}
	return keys
}

// EnsureIndexes creates the indexes that are missing and the tree's lock document. An index that is in the way
// is ErrIndexConflict; nothing is dropped.
//
// The indexes are the same for all scopes of a collection, so one Tree can create them for all; the lock
// document of another scope is made on first use.
//
// Cost: 2 round trips when all indexes are there, otherwise 3; 1 document written.
func (t *Tree[K, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "tree: ensure indexes")
	if err := indexes.EnsureAll(ctx, t.c.coll.Database(), t.Indexes()); err != nil {
		return err
	}
	_, err = fault.One(t.c.locks.InsertOne(ctx, d("_id", t.c.lockID, "n", int64(0))))
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		return fmt.Errorf("lock document: %w", err)
	}
	return nil
}

// ShardKey returns, by the collection's name, the recommended shard key: the scope, so that a tree lives on one
// shard, or the ID where there is no scope.
func (t *Tree[K, T]) ShardKey() map[string]bson.D {
	key := t.c.keyed()
	if len(key) == 0 {
		key = t.c.keyed(t.c.o.IDField)
	}
	return map[string]bson.D{t.c.coll.Name(): key}
}
