package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

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

	byLevels *atomic.Bool // the server refuses joins in transactions: see atomically

	shown bson.Raw // the projection: see projection
}

// newStore checks the options and fills in defaults.
func newStore(coll *mongo.Collection, kind Representation, o Options) (*store, error) {
	if kind < ParentReferences || kind > NestedSets {
		return nil, fault.Invalid("rep: unknown %v", kind)
	}
	if err := o.complete(kind); err != nil {
		return nil, err
	}
	c := codec.New(coll, o.Registry, o.BSON)
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
	if s.o.OrderField != "" && s.o.OrderField != s.sortField {
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

// readingFor returns a copy of the store for a conversion: it also reads the fields of to, and reads in the transactions
// of to, which find out whether the server refuses joins.
func (s *store) readingFor(to *store) *store {
	from := *s
	from.shown, from.byLevels = expr.Raw(projection(s, to)), to.byLevels
	return &from
}

// about puts the ID of a node before an error, as all packages do for a document.
func (s *store) about(id bson.RawValue, err error) error {
	return fmt.Errorf("%s %s: %w", s.o.IDField, text(id), err)
}

// missing is the error for a node that a call names and that does not exist.
func (s *store) missing(id bson.RawValue) error { return s.about(id, mongopatterns.ErrNotFound) }

// missingAnchor is missing for the anchor of a position.
func (s *store) missingAnchor(pos position) error {
	if pos.besideSibling() {
		return s.missing(pos.anchorID)
	}
	return s.about(pos.anchorID, mongopatterns.ErrNoParent)
}

// findOne reads the tree fields of the first node that matches. If none does, it returns the error ifMissing, or, if that
// is nil, a node without raw.
func (s *store) findOne(ctx context.Context, match bson.D, ifMissing error, sort ...any) (node, error) {
	opts := options.FindOne().SetProjection(s.shown)
	if len(sort) > 0 {
		opts.SetSort(expr.D(sort...))
	}
	return s.nodeIn(s.primary.FindOne(ctx, match, opts), ifMissing)
}

// nodeIn parses the node in a result; ifMissing is as in findOne.
func (s *store) nodeIn(result *mongo.SingleResult, ifMissing error) (node, error) {
	raw, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return node{}, ifMissing
	}
	if err != nil {
		return node{}, err
	}
	return s.parse(raw), nil
}

// findAll reads the tree fields of the nodes that match, in as few replies as they fit in.
func (s *store) findAll(ctx context.Context, match bson.D, limit ...int64) ([]node, error) {
	opts := options.Find().SetProjection(s.shown).SetBatchSize(math.MaxInt32)
	for _, n := range limit {
		opts.SetLimit(n)
	}
	return s.readNodes(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return s.primary.Find(ctx, match, opts) })
}

// findIn is findAll for the filter of IDs, in as many commands as these need.
func (s *store) findIn(ctx context.Context, ids []bson.RawValue, match func(condition any) bson.D, limit ...int64) (all []node, err error) {
	for these := range value.Chunks(ids) {
		found, err := s.findAll(ctx, match(anyOf(these)), limit...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// readWithAnchor reads a node and the anchor of its new position in one round trip.
func (s *store) readWithAnchor(ctx context.Context, id bson.RawValue, pos position) (x, anchor node, err error) {
	nodes, err := s.findAll(ctx, s.idsMatch(pos.withAnchor(id)))
	if err != nil {
		return x, anchor, err
	}
	return pick(nodes, id), pick(nodes, pos.anchorID), s.checkFound(nodes, id, pos)
}

// checkFound refuses a move if the node or the anchor of its new position is not among the nodes that were read.
func (s *store) checkFound(nodes []node, id bson.RawValue, pos position) error {
	if pick(nodes, id).raw == nil {
		return s.missing(id)
	}
	if pos.kind != atRoot && pick(nodes, pos.anchorID).raw == nil {
		return s.missingAnchor(pos)
	}
	return nil
}

// pick returns the node with this ID, or a node without raw.
func pick(nodes []node, id bson.RawValue) node {
	for _, n := range nodes {
		if same(n.id, id) {
			return n
		}
	}
	return node{}
}

// aggregate reads the tree fields of the nodes that a pipeline yields.
func (s *store) aggregate(ctx context.Context, p mongo.Pipeline) ([]node, error) {
	return s.readNodes(ctx, opening(s.primary, append(p, expr.Op("$project", s.shown))))
}

// first is aggregate for the first node, a node without raw if there is none.
func (s *store) first(ctx context.Context, p mongo.Pipeline) (node, error) {
	nodes, err := s.aggregate(ctx, append(p, expr.Op("$limit", 1)))
	if err != nil || len(nodes) == 0 {
		return node{}, err
	}
	return nodes[0], nil
}

func (s *store) readNodes(ctx context.Context, open opener) ([]node, error) {
	var nodes []node
	for raw, err := range cursor.Docs(ctx, open) {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, s.parse(raw))
	}
	return nodes, nil
}

// opener sends a read. A sequence that is run again calls it again.
type opener = func(ctx context.Context) (*mongo.Cursor, error)

// opening runs a pipeline in the largest batches, 16 MB.
func opening(coll *scoped.Collection, p mongo.Pipeline) opener {
	return open(coll, p, math.MaxInt32)
}

// open runs a pipeline with a batch size, 0 for the server's default. A pipeline that only filters and sorts runs as a
// find, which the server streams; an aggregate reads some MB before its first reply.
func open(coll *scoped.Collection, p mongo.Pipeline, batch int32) opener {
	return func(ctx context.Context) (*mongo.Cursor, error) {
		find, aggregate := options.Find(), options.Aggregate()
		if batch > 0 {
			find.SetBatchSize(batch)
			aggregate.SetBatchSize(batch)
		}
		switch {
		case len(p) == 2 && p[1][0].Key == "$sort":
			find.SetSort(p[1][0].Value)
		case len(p) > 1:
			return coll.Aggregate(ctx, p, aggregate)
		}
		return coll.Find(ctx, p[0][0].Value, find)
	}
}

// idsOf returns the IDs of nodes, in a slice that is never nil: it may be stored as an array.
func idsOf(nodes []node) []bson.RawValue {
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids
}

// holdAndRead writes to the node that matches, so that a transaction that moves or deletes it at the same time
// conflicts with this one, and returns the node. The write counts the child that is to come, or else sets the mark of
// package hold, which insertUnder removes.
func (s *store) holdAndRead(ctx context.Context, match bson.D, ifMissing error) (node, error) {
	change := s.childCountBy(1)
	if change == nil {
		change = hold.Mark
	}
	opts := options.FindOneAndUpdate().SetProjection(s.shown).SetReturnDocument(options.After)
	return s.nodeIn(fault.Single(s.primary.FindOneAndUpdate(ctx, match, change, opts)), ifMissing)
}

// marksParents reports whether holdAndRead has left the mark on the parent of a new node. It has not where it counts
// children, nor in NestedSets, where the lock holds the parent.
func (s *store) marksParents() bool { return s.o.ChildCountField == "" && !s.numbered }

// holdWrites are two writes to a node, if there is one, that together change nothing, but conflict with an insertion under
// it. They are those of package hold, unless there is a child count: then a validator may refuse any other field.
func (s *store) holdWrites(n *node) []mongo.WriteModel {
	switch {
	case n == nil:
		return nil
	case s.o.ChildCountField == "":
		return hold.Writes(s.idMatch(n.id))
	}
	return []mongo.WriteModel{update(s.idMatch(n.id), s.childCountBy(1)), update(s.idMatch(n.id), s.childCountBy(-1))}
}

// holdWritesForOrder are holdWrites to a parent where siblings have an OrderField. An insertion chooses its order without
// the lock, so it must conflict with whoever gives a child of this parent another order.
func (s *store) holdWritesForOrder(parent *node) []mongo.WriteModel {
	if s.o.OrderField == "" {
		return nil
	}
	return s.holdWrites(parent)
}

// childCountBy is the part of an update that changes the child count.
func (s *store) childCountBy(by int64) bson.D {
	if s.o.ChildCountField == "" || by == 0 {
		return nil
	}
	return expr.Op("$inc", expr.D(s.o.ChildCountField, by))
}

// update is a write to any number of nodes. It is also used for one node, because the driver sends a separate
// command for each kind of write, and one kind is one round trip.
func update(match, change any) mongo.WriteModel {
	return mongo.NewUpdateManyModel().SetFilter(match).SetUpdate(change)
}

// write sends updates as one command. Their filters need no further conditions, because the transaction holds the
// lock, or has written to the same nodes before.
func (s *store) write(ctx context.Context, models ...mongo.WriteModel) error {
	if len(models) == 0 {
		return nil
	}
	_, err := fault.Many(s.primary.BulkWrite(ctx, models))
	return err
}

// insertUnder inserts a document, and in the same command removes the mark from its parent if there is one. For that the
// insertion is an upsert with a filter that matches no document, so that an _id that exists is a duplicate key error, as it
// is for an insert.
func (s *store) insertUnder(ctx context.Context, d newDocument, parent *node) error {
	if parent == nil || !s.marksParents() {
		_, err := fault.One(s.primary.InsertOne(ctx, d.doc))
		return err
	}
	match := append(s.idMatch(d.id), expr.Element(hold.Field, expr.Op("$type", "minKey")))
	if s.o.IDField != "_id" {
		match = append(match, expr.Element("_id", equal(valueIn(d.doc, "_id"))))
	}
	return s.write(ctx, mongo.NewReplaceOneModel().SetFilter(match).SetReplacement(d.doc).SetUpsert(true),
		mongo.NewUpdateOneModel().SetFilter(s.idMatch(parent.id)).SetUpdate(hold.Unmark))
}

// deleteOne deletes a node and returns its tree fields. It is safe to delete first and then look for children:
// an insertion under the node writes to the node, so it conflicts.
func (s *store) deleteOne(ctx context.Context, id bson.RawValue) (node, error) {
	opts := options.FindOneAndDelete().SetProjection(s.shown)
	return s.nodeIn(fault.Single(s.primary.FindOneAndDelete(ctx, s.idMatch(id), opts)), s.missing(id))
}

// deleteIDs deletes nodes by ID, in as many commands as these need.
func (s *store) deleteIDs(ctx context.Context, ids []bson.RawValue) (deleted int64, err error) {
	for these := range value.Chunks(ids) {
		res, err := fault.Many(s.primary.DeleteMany(ctx, s.idsMatch(these)))
		if err != nil {
			return deleted, err
		}
		deleted += res.DeletedCount
	}
	return deleted, nil
}
