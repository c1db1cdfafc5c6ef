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

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

func missing(id bson.RawValue) error { return fmt.Errorf("node %w: %s", fault.ErrNotFound, text(id)) }

func noParent(id bson.RawValue) error { return fmt.Errorf("%w: %s", ErrNoParent, text(id)) }

// findOne reads the shape of the node that matches, the first of several.
func (s *store) findOne(ctx context.Context, match bson.D, absent error, sort ...any) (node, error) {
	opts := options.FindOne().SetProjection(s.shown)
	if len(sort) > 0 {
		opts.SetSort(d(sort...))
	}
	return s.one(s.primary.FindOne(ctx, match, opts), absent)
}

// one is the shape of the node in a result; absent is the error when there is none.
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

// take deletes a node and returns its shape. To delete first and look for children then is safe: an insertion
// under the node writes to it, so no child comes unseen.
func (s *store) take(ctx context.Context, id bson.RawValue) (node, error) {
	opts := options.FindOneAndDelete().SetProjection(s.shown)
	return s.one(fault.Single(s.primary.FindOneAndDelete(ctx, s.byID(id), opts)), missing(id))
}

func (s *store) findAll(ctx context.Context, match bson.D, limit ...int64) ([]node, error) {
	opts := options.Find().SetProjection(s.shown).SetBatchSize(math.MaxInt32)
	for _, n := range limit {
		opts.SetLimit(n)
	}
	return s.shapes(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return s.primary.Find(ctx, match, opts) })
}

// both reads a node and that of a position at once, and those that name the node, or the sibling, in field, if
// one is given.
func (s *store) both(ctx context.Context, id bson.RawValue, pos position, field string) (
	x, ref node, nodes []node, err error) {
	ids := []bson.RawValue{id}
	if pos.kind != atRoot {
		ids = append(ids, pos.ref)
	}
	match, named := s.byIDs(ids), ids
	if !pos.sibling() {
		named = ids[:1]
	}
	if field != "" {
		match = s.in("$or", bson.A{d(s.o.IDField, d("$in", ids)), d(field, d("$in", named))})
	}
	if nodes, err = s.findAll(ctx, match); err != nil {
		return x, ref, nil, err
	}
	x, ref = pick(nodes, id), pick(nodes, pos.ref)
	if x.raw == nil {
		err = missing(id)
	} else if ref.raw == nil && pos.kind != atRoot {
		err = pos.absent()
	}
	return x, ref, nodes, err
}

// pick is the node with an ID, without raw if there is none.
func pick(nodes []node, id bson.RawValue) node {
	for _, n := range nodes {
		if same(n.id, id) {
			return n
		}
	}
	return node{}
}

func (s *store) aggregate(ctx context.Context, p mongo.Pipeline) ([]node, error) {
	return s.shapes(ctx, opening(s.primary, append(p, expr.Op("$project", s.shown))))
}

func (s *store) shapes(ctx context.Context, open opener) ([]node, error) {
	var nodes []node
	for raw, err := range cursor.Docs(ctx, open) {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, s.parse(raw))
	}
	return nodes, nil
}

type opener = func(ctx context.Context) (*mongo.Cursor, error)

// opening runs a pipeline of which a reply holds as much as fits in 16 MB.
func opening(coll *mongo.Collection, p mongo.Pipeline) opener {
	return open(coll, p, math.MaxInt32)
}

// open runs a pipeline with a batch size, 0 for the server's own. What only filters and sorts it runs as a
// find: mongod streams it, where an aggregate reads some MB before its first reply.
func open(coll *mongo.Collection, p mongo.Pipeline, batch int32) opener {
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

// link is what puts a node into a nested value. It holds nothing of the document.
type link struct {
	id, up    string   // the keys of the node and of the parent that it names
	names     []string // those of the children that it names
	order     int64
	root      bool // it names no parent
	child     bool // another one is its parent
	unadopted bool
	at        int
}

// linkOf takes what the shape says of a node's parent.
func (s *store) linkOf(n, up node, broken string, at int) link {
	l := link{id: key(n.id), order: s.orderOf(n), unadopted: s.unadopted(n.raw), at: at}
	l.root = up.id.Type == 0 && broken == "" && !l.unadopted
	switch {
	case broken != "":
	case up.id.Type != 0:
		l.up = parentKey(up)
	case l.unadopted && n.parent.Type != bson.TypeArray:
		l.up = key(n.parent)
	}
	for _, id := range n.children {
		l.names = append(l.names, key(id))
	}
	return l
}

// assemble sorts the links, and calls join for each child of a parent, siblings in order.
func (s *store) assemble(links []link, join func(parent, child int)) {
	if s.order != "" {
		slices.SortStableFunc(links, func(a, b link) int { return cmp.Compare(a.order, b.order) })
	}
	byID := make(map[string]int, len(links))
	for i, n := range links {
		byID[n.id] = i
	}
	put := func(parent, child int) {
		links[child].child = true
		join(links[parent].at, links[child].at)
	}
	for i, n := range links {
		for _, id := range n.names {
			if child, ok := byID[id]; ok {
				put(i, child)
			}
		}
	}
	for i, n := range links {
		if parent, ok := byID[n.up]; ok && parent != i && !(links[i].child && n.unadopted) {
			put(parent, i)
		}
	}
}

func (s *store) deleteIDs(ctx context.Context, ids []bson.RawValue) (deleted int64, err error) {
	for len(ids) > 0 {
		n, size := 0, 0
		for n < len(ids) && n < 50_000 && (n == 0 || size+len(ids[n].Value) < 8<<20) {
			size += len(ids[n].Value) + 8 // with its index in the array
			n++
		}
		res, err := fault.Many(s.primary.DeleteMany(ctx, s.byIDs(ids[:n])))
		if err != nil {
			return deleted, err
		}
		deleted += res.DeletedCount
		ids = ids[n:]
	}
	return deleted, nil
}

func idsOf(nodes []node) []bson.RawValue {
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids
}

// Pipelines.

func (s *store) match(pairs ...any) bson.D { return expr.Op("$match", s.in(pairs...)) }

// lookup joins the collection to itself within the scope, under fieldTree.
func (s *store) lookup(local, foreign string, stages ...bson.D) bson.D {
	spec := d("from", s.coll.Name(), "localField", local, "foreignField", foreign)
	if restrict := append(s.in(), s.except(foreign)...); len(restrict) > 0 {
		stages = append([]bson.D{expr.Op("$match", restrict)}, stages...)
	}
	if len(stages) > 0 {
		spec = append(spec, bson.E{Key: "pipeline", Value: stages})
	}
	return expr.Op("$lookup", append(spec, bson.E{Key: "as", Value: fieldTree}))
}

// graphLookup follows references through depth levels, 0 is any.
func (s *store) graphLookup(start any, from, to string, depth int, more ...bson.E) bson.D {
	spec := append(d("from", s.coll.Name(), "startWith", start, "connectFromField", from, "connectToField", to, "as", fieldTree), more...)
	if depth > 0 {
		spec = append(spec, bson.E{Key: "maxDepth", Value: depth - 1})
	}
	restrict := append(s.in(), s.except(to)...)
	if to != "_id" && to == s.o.IDField {
		restrict = append(restrict, bson.E{Key: to, Value: d("$ne", nil)})
	}
	if len(restrict) > 0 {
		spec = append(spec, bson.E{Key: "restrictSearchWithMatch", Value: restrict})
	}
	return expr.Op("$graphLookup", spec)
}

func (s *store) graphDown(id any, start, from, to string, depth int, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless func(v, otherwise any) any) bson.D {
		return s.graphLookup(unless(expr.Field(start), bson.A{}), from, to, depth)
	})
}

// rangeDown joins a node with those that within finds between $$from and $$to.
func (s *store) rangeDown(id any, from, to any, within mongo.Pipeline, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless func(v, otherwise any) any) bson.D {
		return expr.Op("$lookup", d("from", s.coll.Name(), "let", d("from", from, "to", unless(to, from)), "pipeline", within, "as", fieldTree))
	})
}

// downBy joins a node with those below it. To have the node too, it makes two documents of it: in one unless
// gives otherwise, so that nothing is joined and it stays itself. ($unionWith would do, but transactions refuse
// it.)
func (s *store) downBy(id any, self bool, join func(unless func(v, otherwise any) any) bson.D) mongo.Pipeline {
	match := expr.Op("$match", s.byID(id))
	if !self {
		return slices.Concat(mongo.Pipeline{match, join(func(v, _ any) any { return v })}, unfold())
	}
	unless := func(v, otherwise any) any { return expr.Cond(expr.Field(fieldSelf), otherwise, v) }
	return mongo.Pipeline{
		match,
		expr.Op("$set", d(fieldSelf, bson.A{true, false})),
		expr.Op("$unwind", expr.Field(fieldSelf)),
		join(unless),
		expr.Op("$unwind", d("path", expr.Field(fieldTree), "preserveNullAndEmptyArrays", true)),
		expr.Op("$match", expr.Op("$or", bson.A{d(fieldSelf, true), d(fieldTree, d("$exists", true))})),
		expr.Op("$replaceRoot", d("newRoot", expr.IfNull(expr.Field(fieldTree), expr.Var("ROOT")))),
		expr.Op("$unset", bson.A{fieldSelf, fieldTree}),
	}
}

// unfold makes the documents under fieldTree the result, with further fields of the document that held them.
func unfold(extra ...any) mongo.Pipeline {
	var root any = expr.Field(fieldTree)
	if len(extra) > 0 {
		root = expr.Op("$mergeObjects", root, d(extra...))
	}
	return mongo.Pipeline{expr.Op("$unwind", expr.Field(fieldTree)), expr.Op("$replaceRoot", d("newRoot", root))}
}

func (s *store) inOrder() mongo.Pipeline {
	if f := s.order; f != "" {
		return mongo.Pipeline{expr.Op("$sort", d(f, 1))}
	}
	return nil
}

func (s *store) sorting() bson.D {
	if f := s.order; f != "" {
		return expr.Op("$sort", d(f, 1, "_id", 1))
	}
	return expr.Op("$sort", d("_id", 1))
}

// unreferenced are the nodes whose local field, which the stages before may make, is no one's foreign field.
func (s *store) unreferenced(local, foreign string, before ...bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{s.match()}, before, mongo.Pipeline{
		s.lookup(local, foreign, expr.Op("$limit", 1), expr.Op("$project", d("_id", 1))),
		expr.Op("$match", d(fieldTree, d("$size", 0))),
		expr.Op("$unset", bson.A{fieldTree, fieldTouch}),
	})
}
