package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// about puts the ID of a node before an error, as all packages do for a document.
func (s *store) about(id bson.RawValue, err error) error {
	return fmt.Errorf("%s %s: %w", s.o.IDField, text(id), err)
}

// missing is the error for a node that a call names and that does not exist.
func (s *store) missing(id bson.RawValue) error { return s.about(id, mongopatterns.ErrNotFound) }

// absent is the error if the anchor of a position does not exist.
func (s *store) absent(pos position) error {
	if pos.sibling() {
		return s.missing(pos.anchorID)
	}
	return s.about(pos.anchorID, mongopatterns.ErrNoParent)
}

// findOne reads the tree fields of the first node that matches. If none does, it returns the error absent, or, if that is
// nil, a node without raw.
func (s *store) findOne(ctx context.Context, match bson.D, absent error, sort ...any) (node, error) {
	opts := options.FindOne().SetProjection(s.shown)
	if len(sort) > 0 {
		opts.SetSort(expr.D(sort...))
	}
	return s.one(s.primary.FindOne(ctx, match, opts), absent)
}

// one parses the node in a result; absent is as in findOne.
func (s *store) one(result *mongo.SingleResult, absent error) (node, error) {
	raw, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return node{}, absent
	}
	if err != nil {
		return node{}, err
	}
	return s.parse(raw), nil
}

// deleteOne deletes a node and returns its tree fields. It is safe to delete first and then look for children:
// an insertion under the node writes to the node, so it conflicts.
func (s *store) deleteOne(ctx context.Context, id bson.RawValue) (node, error) {
	opts := options.FindOneAndDelete().SetProjection(s.shown)
	return s.one(fault.Single(s.primary.FindOneAndDelete(ctx, s.idMatch(id), opts)), s.missing(id))
}

// findAll reads the tree fields of the nodes that match, in as few replies as they fit in.
func (s *store) findAll(ctx context.Context, match bson.D, limit ...int64) ([]node, error) {
	opts := options.Find().SetProjection(s.shown).SetBatchSize(math.MaxInt32)
	for _, n := range limit {
		opts.SetLimit(n)
	}
	return s.readNodes(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return s.primary.Find(ctx, match, opts) })
}

// readMoving reads the node that moves and the anchor of its position in one round trip.
func (s *store) readMoving(ctx context.Context, id bson.RawValue, pos position) (x, anchor node, err error) {
	nodes, err := s.findAll(ctx, s.idsMatch(pos.with(id)))
	if err != nil {
		return x, anchor, err
	}
	return pick(nodes, id), pick(nodes, pos.anchorID), s.checkRead(nodes, id, pos)
}

// checkRead refuses a move if the node or the anchor of its position is not among the nodes that were read.
func (s *store) checkRead(nodes []node, id bson.RawValue, pos position) error {
	if pick(nodes, id).raw == nil {
		return s.missing(id)
	}
	if pos.kind != atRoot && pick(nodes, pos.anchorID).raw == nil {
		return s.absent(pos)
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

// piece has the keys that put a node into a nested value, for Subtree, Forest and the numbers. It keeps no part of the
// document, so that the reply can be freed.
type piece struct {
	id      string   // the key of the ID
	ref, up string   // the refKey of the node, and that of its parent
	listed  []string // the keys of its children, in ChildReferences
	order   int64
	root    bool // it names no parent
	child   bool // a node among the pieces is its parent
	bare    bool
	at      int // the offset in the caller's slice
}

// pieceOf makes the piece of a node; up and broken are the results of parent. A bare node gets the parent that its
// field names, so that Forest shows it.
func (s *store) pieceOf(n, up node, broken string, at int) piece {
	p := piece{id: key(n.id), ref: s.refKey(n), order: s.orderOf(n), bare: s.isBare(n.raw), at: at}
	for _, id := range n.children {
		p.listed = append(p.listed, key(id))
	}
	if broken != "" {
		return p
	}
	if s.isParent(up) {
		p.up = s.refKey(up)
	} else if p.bare && n.parent.Type != bson.TypeArray {
		p.up = key(n.parent)
	}
	p.root = p.up == "" && !p.bare
	return p
}

// assemble sorts the pieces and calls join for each parent and child, siblings in order. A parent's list has precedence
// over the parent field of a bare node.
func (s *store) assemble(pieces []piece, join func(parent, child int)) {
	if s.order != "" {
		slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.order, b.order) })
	}
	byID := make(map[string]int, len(pieces))
	for i, n := range pieces {
		byID[n.id], byID[n.ref] = i, i
	}
	put := func(parent, child int) {
		pieces[child].child = true
		join(pieces[parent].at, pieces[child].at)
	}
	for i, n := range pieces {
		for _, id := range n.listed {
			if child, ok := byID[id]; ok {
				put(i, child)
			}
		}
	}
	for i, n := range pieces {
		if parent, ok := byID[n.up]; ok && parent != i && !(pieces[i].child && n.bare) {
			put(parent, i)
		}
	}
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

// idsOf returns the IDs of nodes, in a slice that is never nil: it may be stored as an array.
func idsOf(nodes []node) []bson.RawValue {
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids
}

// Pipelines.

// inJoin are the conditions of a filter in a $lookup or $graphLookup, which the scope of the collection does not reach.
func (s *store) inJoin(conditions ...bson.E) bson.D { return s.coll.Scope().Match(conditions) }

// lookup joins the collection to itself, within the scope, and puts the nodes into fieldTree.
func (s *store) lookup(local, foreign string, stages ...bson.D) bson.D {
	spec := expr.D("from", s.coll.Name(), "localField", local, "foreignField", foreign)
	if restrict := s.inJoin(s.noArrayMatch(foreign)...); len(restrict) > 0 {
		stages = append([]bson.D{expr.Op("$match", restrict)}, stages...)
	}
	if len(stages) > 0 {
		spec = append(spec, expr.Element("pipeline", stages))
	}
	return expr.Op("$lookup", append(spec, expr.Element("as", fieldTree)))
}

// noPatternMatch keeps a $graphLookup away from nodes with a regular expression in a field, which it would take for a pattern.
func noPatternMatch(field string) bson.D {
	if field == "_id" { // the server refuses it there
		return nil
	}
	return expr.D(field, expr.Op("$not", expr.Op("$type", "regex")))
}

// graphSearch is a $graphLookup that goes along references, from a field to a field, through depth levels, 0 for all.
type graphSearch struct {
	start    any // the expression for the first references
	from, to string
	depth    int
	only     bson.D // of the nodes in the scope it visits those that match; nil for all
	depthTo  string // the field for the depth, "" for none
}

func (s *store) graphLookup(g graphSearch) bson.D {
	spec := expr.D("from", s.coll.Name(), "startWith", g.start, "connectFromField", g.from, "connectToField", g.to, "as", fieldTree)
	if g.depthTo != "" {
		spec = append(spec, expr.Element("depthField", g.depthTo))
	}
	if g.depth > 0 {
		spec = append(spec, expr.Element("maxDepth", g.depth-1))
	}
	restrict := s.inJoin(slices.Concat(s.noArrayMatch(g.to), g.only)...)
	if g.to != "_id" && g.to == s.o.IDField {
		restrict = append(restrict, expr.Element("$nor", bson.A{expr.D(g.to, nil)}))
	}
	if len(restrict) > 0 {
		spec = append(spec, expr.Element("restrictSearchWithMatch", restrict))
	}
	return expr.Op("$graphLookup", spec)
}

// graphDown joins a node with those that a search finds.
func (s *store) graphDown(id any, g graphSearch, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless unless) bson.D {
		g.start = unless(g.start, bson.A{})
		return s.graphLookup(g)
	})
}

// rangeDown joins a node with those that stages find. These use $$from and $$to, the ends of the node's range.
func (s *store) rangeDown(id any, ends [2]any, stages mongo.Pipeline, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless unless) bson.D {
		let := expr.D("from", ends[0], "to", unless(ends[1], ends[0]))
		return expr.Op("$lookup", expr.D("from", s.coll.Name(), "let", let, "pipeline", stages, "as", fieldTree))
	})
}

// unless is an expression for v, or otherwise for the copy of a node that joins nothing: see downBy.
type unless = func(v, otherwise any) any

// downBy joins a node with those below it. With self the result contains the node, too. For that it makes two copies
// of the node: one joins as usual, and in the other one unless returns otherwise, so that it joins nothing and stays
// as it is. ($unionWith would be simpler, but transactions refuse it.)
func (s *store) downBy(id any, self bool, join func(unless) bson.D) mongo.Pipeline {
	match := expr.Op("$match", s.idMatch(id))
	if !self {
		return slices.Concat(mongo.Pipeline{match, join(func(v, _ any) any { return v })}, unfold())
	}
	return mongo.Pipeline{
		match,
		expr.Op("$set", expr.D(fieldSelf, bson.A{true, false})),
		expr.Op("$unwind", expr.Field(fieldSelf)),
		join(func(v, otherwise any) any { return expr.Cond(expr.Field(fieldSelf), otherwise, v) }),
		expr.Op("$unwind", expr.D("path", expr.Field(fieldTree), "preserveNullAndEmptyArrays", true)),
		expr.Op("$match", expr.Op("$or", bson.A{expr.D(fieldSelf, true), expr.D(fieldTree, expr.Op("$exists", true))})),
		expr.Op("$replaceRoot", expr.D("newRoot", expr.IfNull(expr.Field(fieldTree), expr.Var("ROOT")))),
		expr.Op("$unset", bson.A{fieldSelf, fieldTree}),
	}
}

// unfold replaces each document by those in its fieldTree, with further fields computed from it.
func unfold(extra ...any) mongo.Pipeline {
	var root any = expr.Field(fieldTree)
	if len(extra) > 0 {
		root = expr.Op("$mergeObjects", root, expr.D(extra...))
	}
	return mongo.Pipeline{expr.Op("$unwind", expr.Field(fieldTree)), expr.Op("$replaceRoot", expr.D("newRoot", root))}
}

// inOrder sorts siblings, if the tree orders them.
func (s *store) inOrder() mongo.Pipeline {
	if f := s.order; f != "" {
		return mongo.Pipeline{expr.Op("$sort", expr.D(f, 1))}
	}
	return nil
}

// sorting is inOrder for reads that must return the same order each time: siblings that share an order, or have none,
// are ordered by _id.
func (s *store) sorting() bson.D {
	if f := s.order; f != "" {
		return expr.Op("$sort", expr.D(f, 1, "_id", 1))
	}
	return expr.Op("$sort", expr.D("_id", 1))
}

// unreferenced yields the nodes that no other node refers to: the value of local, which the stages before may compute,
// is not in the field foreign of any node. $limit ends the search at the first.
func (s *store) unreferenced(local, foreign string, before ...bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", bson.D{})}, before, mongo.Pipeline{
		s.lookup(local, foreign, expr.Op("$limit", 1), expr.Op("$project", expr.D("_id", 1))),
		expr.Op("$match", expr.D(fieldTree, expr.Op("$size", 0))),
		expr.Op("$unset", bson.A{fieldTree, fieldRef}),
	})
}
