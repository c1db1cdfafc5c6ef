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
func (c *core) findOne(ctx context.Context, match bson.D, absent error, sort ...any) (node, error) {
	opts := options.FindOne().SetProjection(c.shown)
	if len(sort) > 0 {
		opts.SetSort(d(sort...))
	}
	return c.one(c.primary.FindOne(ctx, match, opts), absent)
}

// one is the shape of the node in a result; absent is the error when there is none.
func (c *core) one(result *mongo.SingleResult, absent error) (node, error) {
	raw, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return node{}, absent
	}
	if err != nil {
		return node{}, err
	}
	return c.parse(raw), nil
}

// take deletes a node and returns its shape. To delete first and look for children then is safe: an insertion
// under the node writes to it, so no child comes unseen.
func (c *core) take(ctx context.Context, id bson.RawValue) (node, error) {
	opts := options.FindOneAndDelete().SetProjection(c.shown)
	return c.one(fault.Single(c.primary.FindOneAndDelete(ctx, c.byID(id), opts)), missing(id))
}

func (c *core) findAll(ctx context.Context, match bson.D, limit ...int64) ([]node, error) {
	opts := options.Find().SetProjection(c.shown).SetBatchSize(math.MaxInt32)
	for _, n := range limit {
		opts.SetLimit(n)
	}
	return c.shapes(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return c.primary.Find(ctx, match, opts) })
}

// both reads a node and that of a position at once, and those that name the node, or the sibling, in field, if
// one is given.
func (c *core) both(ctx context.Context, id bson.RawValue, pos position, field string) (
	x, ref node, nodes []node, err error) {
	ids := []bson.RawValue{id}
	if pos.kind != atRoot {
		ids = append(ids, pos.ref)
	}
	match, named := c.byIDs(ids), ids
	if !pos.sibling() {
		named = ids[:1]
	}
	if field != "" {
		match = c.in("$or", bson.A{d(c.o.IDField, d("$in", ids)), d(field, d("$in", named))})
	}
	if nodes, err = c.findAll(ctx, match); err != nil {
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

func (c *core) aggregate(ctx context.Context, p mongo.Pipeline) ([]node, error) {
	return c.shapes(ctx, opening(c.primary, append(p, expr.Op("$project", c.shown))))
}

func (c *core) shapes(ctx context.Context, open opener) ([]node, error) {
	var nodes []node
	for raw, err := range cursor.Docs(ctx, open) {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, c.parse(raw))
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

// tie is what puts a node into a nested value. It holds nothing of the document.
type tie struct {
	id, up string   // the keys of the node and of the parent that it names
	names  []string // those of the children that it names
	order  int64
	root   bool // it names no parent
	child  bool // another one is its parent
	late   bool // see unadopted
	at     int
}

func (c *core) tie(n node, at int) tie {
	up, broken := c.rep.ref(n)
	t := tie{id: key(n.id), order: c.at(n), late: c.unadopted(n.raw), at: at}
	t.root = up.id.Type == 0 && broken == "" && !t.late
	switch {
	case broken != "":
	case up.id.Type != 0:
		t.up = refKey(up)
	case t.late && n.parent.Type != bson.TypeArray:
		t.up = key(n.parent)
	}
	for _, id := range c.rep.names(n) {
		t.names = append(t.names, key(id))
	}
	return t
}

// assemble sorts the ties, and calls join for each child of a parent, siblings in order.
func (c *core) assemble(ties []tie, join func(parent, kid int)) {
	if c.order != "" {
		slices.SortStableFunc(ties, func(a, b tie) int { return cmp.Compare(a.order, b.order) })
	}
	byID := make(map[string]int, len(ties))
	for i, n := range ties {
		byID[n.id] = i
	}
	put := func(parent, kid int) {
		ties[kid].child = true
		join(ties[parent].at, ties[kid].at)
	}
	for i, n := range ties {
		for _, id := range n.names {
			if kid, ok := byID[id]; ok {
				put(i, kid)
			}
		}
	}
	for i, n := range ties {
		if parent, ok := byID[n.up]; ok && parent != i && !(ties[i].child && n.late) {
			put(parent, i)
		}
	}
}

func (c *core) deleteIDs(ctx context.Context, ids []bson.RawValue) (deleted int64, err error) {
	for len(ids) > 0 {
		n, size := 0, 0
		for n < len(ids) && n < 50_000 && (n == 0 || size+len(ids[n].Value) < 8<<20) {
			size += len(ids[n].Value) + 8 // with its index in the array
			n++
		}
		res, err := fault.Many(c.primary.DeleteMany(ctx, c.byIDs(ids[:n])))
		if err != nil {
			return deleted, err
		}
		deleted += res.DeletedCount
		ids = ids[n:]
	}
	return deleted, nil
}

func (c *core) kids(ctx context.Context, nodes []node) ([][]node, error) {
	found, err := c.aggregate(ctx, c.rep.family(nodes))
	out, at, byKey := make([][]node, len(nodes)), map[string]int{}, map[string]node{}
	for i, n := range nodes {
		at[key(n.id)] = i
	}
	for _, kid := range found {
		byKey[key(kid.id)] = kid
		up, _ := c.rep.ref(kid)
		if i, ok := at[refKey(up)]; ok { // not of several parents in an array
			out[i] = append(out[i], kid)
		}
	}
	for i, n := range nodes {
		for _, id := range c.rep.names(n) {
			if kid, ok := byKey[key(id)]; ok {
				out[i] = append(out[i], kid)
			}
		}
	}
	return out, err
}

func idsOf(nodes []node) []bson.RawValue {
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids
}

// Pipelines.

func (c *core) match(pairs ...any) bson.D { return expr.Op("$match", c.in(pairs...)) }

// lookup joins the collection to itself within the scope, under fieldTree.
func (c *core) lookup(local, foreign string, stages ...bson.D) bson.D {
	spec := d("from", c.coll.Name(), "localField", local, "foreignField", foreign)
	if restrict := append(c.in(), c.rep.except(foreign)...); len(restrict) > 0 {
		stages = append([]bson.D{expr.Op("$match", restrict)}, stages...)
	}
	if len(stages) > 0 {
		spec = append(spec, bson.E{Key: "pipeline", Value: stages})
	}
	return expr.Op("$lookup", append(spec, bson.E{Key: "as", Value: fieldTree}))
}

// graphLookup follows references through depth levels, 0 is any.
func (c *core) graphLookup(start any, from, to string, depth int, more ...bson.E) bson.D {
	spec := append(d("from", c.coll.Name(), "startWith", start, "connectFromField", from, "connectToField", to, "as", fieldTree), more...)
	if depth > 0 {
		spec = append(spec, bson.E{Key: "maxDepth", Value: depth - 1})
	}
	restrict := append(c.in(), c.rep.except(to)...)
	if to != "_id" && to == c.o.IDField {
		restrict = append(restrict, bson.E{Key: to, Value: d("$ne", nil)})
	}
	if len(restrict) > 0 {
		spec = append(spec, bson.E{Key: "restrictSearchWithMatch", Value: restrict})
	}
	return expr.Op("$graphLookup", spec)
}

func (c *core) graphDown(id any, start, from, to string, depth int, self bool) mongo.Pipeline {
	return c.downBy(id, self, func(unless func(v, otherwise any) any) bson.D {
		return c.graphLookup(unless(expr.Field(start), bson.A{}), from, to, depth)
	})
}

// rangeDown joins a node with those that within finds between $$from and $$to.
func (c *core) rangeDown(id any, from, to any, within mongo.Pipeline, self bool) mongo.Pipeline {
	return c.downBy(id, self, func(unless func(v, otherwise any) any) bson.D {
		return expr.Op("$lookup", d("from", c.coll.Name(), "let", d("from", from, "to", unless(to, from)), "pipeline", within, "as", fieldTree))
	})
}

// downBy joins a node with those below it. To have the node too, it makes two documents of it: in one unless
// gives otherwise, so that nothing is joined and it stays itself. ($unionWith would do, but transactions refuse
// it.)
func (c *core) downBy(id any, self bool, join func(unless func(v, otherwise any) any) bson.D) mongo.Pipeline {
	match := expr.Op("$match", c.byID(id))
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

func (c *core) inOrder() mongo.Pipeline {
	if f := c.order; f != "" {
		return mongo.Pipeline{expr.Op("$sort", d(f, 1))}
	}
	return nil
}

func (c *core) roots() mongo.Pipeline {
	if match := c.rep.rootsMatch(); match != nil {
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, c.inOrder())
	}
	return c.unreferenced(c.o.IDField, c.link, expr.Op("$match", c.notLate()))
}

// top are the roots, in order and then by _id, without malformed ones. Where arrays list the children, those
// that no array lists are among them, though they may not be adopted.
func (c *core) top() mongo.Pipeline {
	match := c.rep.rootsMatch()
	if match == nil {
		return append(c.unreferenced(c.o.IDField, c.link), c.sorting())
	}
	return mongo.Pipeline{expr.Op("$match", append(match, c.rep.except(c.link)...)), c.sorting()}
}

func (c *core) sorting() bson.D {
	if f := c.order; f != "" {
		return expr.Op("$sort", d(f, 1, "_id", 1))
	}
	return expr.Op("$sort", d("_id", 1))
}

func (c *core) childless(local, foreign string, before ...bson.D) mongo.Pipeline {
	if c.o.ChildCountField != "" {
		return mongo.Pipeline{c.match(c.o.ChildCountField, 0)}
	}
	return c.unreferenced(local, foreign, before...)
}

// unreferenced are the nodes whose local field, which the stages before may make, is no one's foreign field.
func (c *core) unreferenced(local, foreign string, before ...bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{c.match()}, before, mongo.Pipeline{
		c.lookup(local, foreign, expr.Op("$limit", 1), expr.Op("$project", d("_id", 1))),
		expr.Op("$match", d(fieldTree, d("$size", 0))),
		expr.Op("$unset", bson.A{fieldTree, fieldTouch}),
	})
}
