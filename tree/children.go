package tree

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// childRefs: {_id, children: […]}.
type childRefs struct{}

func (childRefs) owned(c *core) []string { return []string{c.o.ChildrenField} }

func (childRefs) up(c *core, match bson.D) mongo.Pipeline {
	id := c.o.IDField
	self := c.lookup(id, id)
	spec := self[0].Value.(bson.D)
	spec[len(spec)-1].Value = fieldSelf
	return concat(mongo.Pipeline{
		d("$match", match),
		c.graphLookup("$"+id, id, c.o.ChildrenField, 0),
		self,
		d("$project", d(fieldStart, "$"+id, fieldTree, d("$concatArrays", bson.A{"$" + fieldSelf, "$" + fieldTree}))),
	}, unfold(fieldStart, "$"+fieldStart,
		// The node itself has no depth, its parents have 0.
		fieldDepth, d("$ifNull", bson.A{d("$add", bson.A{"$" + fieldTree + "." + fieldDepth, 1}), 0})))
}

func (childRefs) down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline {
	return concat(c.graphDown(id, c.o.ChildrenField, c.o.ChildrenField, c.o.IDField, depth, self),
		mongo.Pipeline{d("$sort", d(fieldDepth, 1))})
}

func (childRefs) referenced(c *core) mongo.Pipeline {
	return concat(mongo.Pipeline{
		d("$unwind", "$"+c.o.ChildrenField), // keeps the order of the array
		c.lookup(c.o.ChildrenField, c.o.IDField),
	}, unfold())
}

func (r childRefs) children(c *core, id bson.RawValue) mongo.Pipeline {
	return concat(mongo.Pipeline{d("$match", c.byID(id))}, r.referenced(c))
}

func (r childRefs) siblings(c *core, id bson.RawValue) mongo.Pipeline {
	p := concat(mongo.Pipeline{c.match(c.o.ChildrenField, equal(id))}, r.referenced(c),
		mongo.Pipeline{d("$match", d(c.o.IDField, d("$ne", id)))})
	if c.o.Graph { // a node may be a sibling by two parents
		p = append(p, d("$group", d("_id", "$"+c.o.IDField, fieldTree, d("$first", "$$ROOT"))),
			d("$replaceRoot", d("newRoot", "$"+fieldTree)))
	}
	return p
}

func (childRefs) roots(c *core) mongo.Pipeline {
	return c.unreferenced(c.o.IDField, c.o.ChildrenField)
}

func (childRefs) leaves(c *core) mongo.Pipeline {
	return mongo.Pipeline{c.match(c.o.ChildrenField+".0", d("$exists", false))}
}

func (childRefs) childrenOf(c *core, n node) bson.D             { return c.byIDs(n.children) }
func (childRefs) descendantsOf(*core, node, int) (bson.D, bool) { return nil, false }
func (childRefs) ancestorsOf(*core, node) (bson.D, bool)        { return nil, false }
func (childRefs) parentsOf(c *core, id bson.RawValue) bson.D {
	return c.in(c.o.ChildrenField, equal(id))
}
func (childRefs) pull(c *core, ids ...bson.RawValue) (string, bson.D) {
	return "$pull", d(c.o.ChildrenField, d("$in", ids))
}

// target finds the parent that a position names and the index in its children,
// -1 for the end. The children are taken without the node that moves.
func (r childRefs) target(ctx context.Context, c *core, pos position, self bson.RawValue) (parent *node, at int, err error) {
	var n node
	switch {
	case pos.kind == atRoot && pos.first:
		return nil, 0, fmt.Errorf("%w: the roots of ChildReferences have no order", ErrUnsupported)
	case pos.kind == atRoot:
		return nil, -1, nil
	case pos.kind == underParent:
		if n, err = c.find(ctx, pos.ref, ErrParentNotFound); err != nil {
			return nil, 0, err
		}
		if pos.first {
			return &n, 0, nil
		}
		return &n, -1, nil
	case c.o.Graph:
		return nil, 0, fmt.Errorf("%w: Before and After are ambiguous in a graph", ErrUnsupported)
	}
	n, err = c.findOne(ctx, r.parentsOf(c, pos.ref), ErrParentNotFound)
	if err != nil && !errors.Is(err, ErrParentNotFound) {
		return nil, 0, err
	}
	for _, id := range n.children {
		if same(id, pos.ref) {
			if pos.kind == afterSibling {
				at++
			}
			return &n, at, nil
		}
		if !same(id, self) {
			at++
		}
	}
	if _, err := c.find(ctx, pos.ref, ErrNotFound); err != nil {
		return nil, 0, err
	}
	return nil, 0, fmt.Errorf("%w: the roots of ChildReferences have no order", ErrUnsupported)
}

// push is the write that makes id the child at an index. Next to a sibling its
// filter holds only while the sibling is where it was read.
func (childRefs) push(c *core, parent node, at int, pos position, id bson.RawValue) mongo.WriteModel {
	each := d("$each", bson.A{id})
	match := c.byID(parent.id)
	if at >= 0 {
		each = append(each, bson.E{Key: "$position", Value: at})
	}
	if pos.sibling() {
		if pos.kind == afterSibling {
			at--
		}
		match = append(match, bson.E{Key: fmt.Sprintf("%s.%d", c.o.ChildrenField, at), Value: equal(pos.ref)})
	}
	return mongo.NewUpdateOneModel().SetFilter(match).SetUpdate(
		append(d("$push", d(c.o.ChildrenField, each)), c.count(1)...))
}

// count is the part of an update that changes the child counter.
func (c *core) count(by int64) bson.D {
	if c.o.ChildCountField == "" || by == 0 {
		return nil
	}
	return d("$inc", d(c.o.ChildCountField, by))
}

func (c *core) bulkAll(ctx context.Context, models []mongo.WriteModel) error {
	if len(models) == 0 {
		return nil
	}
	res, err := c.coll.BulkWrite(ctx, models)
	if err == nil && res.MatchedCount != int64(len(models)) {
		err = txn.Conflict("update parent")
	}
	return c.counted(err)
}

func (r childRefs) insert(ctx context.Context, c *core, doc bson.D, pos position) error {
	doc = append(doc, bson.E{Key: c.o.ChildrenField, Value: bson.A{}})
	if pos.kind == atRoot && !pos.first {
		_, err := c.durable.InsertOne(ctx, doc)
		return err
	}
	id := lookupD(doc, c.o.IDField)
	return c.atomically(ctx, false, func(ctx context.Context) error {
		parent, at, err := r.target(ctx, c, pos, bson.RawValue{})
		if err != nil {
			return err
		}
		if err := c.bulkAll(ctx, []mongo.WriteModel{r.push(c, *parent, at, pos, id)}); err != nil {
			return err
		}
		_, err = c.coll.InsertOne(ctx, doc)
		return err
	})
}

func (r childRefs) move(ctx context.Context, c *core, id bson.RawValue, pos position) error {
	if c.o.Graph {
		return fmt.Errorf("%w: a graph is changed with Link and Unlink", ErrUnsupported)
	}
	return c.atomically(ctx, true, func(ctx context.Context) error {
		if _, err := c.find(ctx, id, ErrNotFound); err != nil {
			return err
		}
		if pos.sibling() && same(pos.ref, id) {
			return nil
		}
		parent, at, err := r.target(ctx, c, pos, id)
		if err != nil {
			return err
		}
		if parent != nil {
			below, err := c.isAbove(ctx, id, parent.id)
			if err != nil {
				return err
			}
			if below {
				return fmt.Errorf("%w: %s", ErrCycle, text(id))
			}
		}
		models, err := r.unlinkAll(ctx, c, id)
		if err != nil {
			return err
		}
		if parent != nil {
			models = append(models, r.push(c, *parent, at, pos, id))
		}
		return c.bulkAll(ctx, models)
	})
}

// unlinkAll are the writes that take id away from its parents.
func (r childRefs) unlinkAll(ctx context.Context, c *core, id bson.RawValue) ([]mongo.WriteModel, error) {
	parents, err := c.findAll(ctx, r.parentsOf(c, id))
	var models []mongo.WriteModel
	for _, p := range parents {
		models = append(models, r.unlink(c, p, id))
	}
	return models, err
}

func (r childRefs) unlink(c *core, parent node, id bson.RawValue) mongo.WriteModel {
	op, what := r.pull(c, id)
	match := append(c.byID(parent.id), bson.E{Key: c.o.ChildrenField, Value: equal(id)})
	return mongo.NewUpdateOneModel().SetFilter(match).SetUpdate(append(d(op, what), c.count(-1)...))
}

func (r childRefs) remove(ctx context.Context, c *core, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) error {
		deleted = 0
		x, err := c.touch(ctx, c.byID(id), 0, fmt.Errorf("%w: %s", ErrNotFound, text(id)))
		if err != nil {
			return err
		}
		if policy == Restrict && len(x.children) > 0 {
			if err := c.untouch(ctx, x); err != nil {
				return err
			}
			return fmt.Errorf("%w: %s", ErrHasChildren, text(id))
		}
		ids := []bson.RawValue{x.id}
		if policy == Cascade && len(x.children) > 0 {
			if ids, err = r.doomed(ctx, c, x); err != nil {
				return err
			}
		}
		parents, err := c.findAll(ctx, r.parentsOf(c, id))
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		for _, p := range parents {
			models = append(models, r.unlink(c, p, id))
			if policy == Promote {
				models = append(models, r.inherit(c, p, x)...)
			}
		}
		if err := c.bulkAll(ctx, models); err != nil {
			return err
		}
		deleted, err = c.deleteIDs(ctx, ids)
		return err
	})
	return deleted, err
}

// inherit puts the children of x in its place among those of p.
func (childRefs) inherit(c *core, p, x node) []mongo.WriteModel {
	at := 0
	old := map[string]bool{}
	for i, id := range p.children {
		if same(id, x.id) {
			at = i
		}
		old[key(id)] = true
	}
	var added []bson.RawValue
	for _, id := range x.children {
		if !old[key(id)] {
			added = append(added, id)
		}
	}
	if len(added) == 0 {
		return nil
	}
	update := d("$push", d(c.o.ChildrenField, d("$each", added, "$position", at)))
	return []mongo.WriteModel{mongo.NewUpdateOneModel().SetFilter(c.byID(p.id)).
		SetUpdate(append(update, c.count(int64(len(added)))...))}
}

// doomed are x and the descendants that only x leads to: in a graph a node
// that has a parent elsewhere stays, and all that is below it.
func (childRefs) doomed(ctx context.Context, c *core, x node) ([]bson.RawValue, error) {
	below, err := c.aggregate(ctx, append(c.shape.down(c, x.id, 0, false), d("$project", c.projection())))
	if err != nil {
		return nil, err
	}
	all := []bson.RawValue{x.id}
	byKey := map[string]node{}
	for _, n := range below {
		all = append(all, n.id)
		byKey[key(n.id)] = n
	}
	if !c.o.Graph {
		return all, nil
	}
	outside, err := c.findAll(ctx, c.in(c.o.ChildrenField, d("$in", all[1:]), c.o.IDField, d("$nin", all)))
	if err != nil {
		return nil, err
	}
	stays := map[string]bool{}
	for len(outside) > 0 {
		n := outside[0]
		outside = outside[1:]
		for _, id := range n.children {
			if child, ok := byKey[key(id)]; ok && !stays[key(id)] {
				stays[key(id)] = true
				outside = append(outside, child)
			}
		}
	}
	ids := all[:1]
	for _, id := range all[1:] {
		if !stays[key(id)] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
