package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// parentField is the reading side of every representation with the parent in a
// field: parent references, array of ancestors, nested sets.
type parentField struct{}

// noArray excepts the nodes with an array for a parent, where field is that of
// the parent. Equalities match its elements, which reads and their filters leave
// so; but such a node is an orphan, of which no write and no maintenance may take
// the one parent or the other for granted.
func (c *core) noArray(field string) bson.D {
	if field != c.o.ParentField || c.rep == ChildReferences || c.rep == MaterializedPath {
		return nil
	}
	return d("$nor", bson.A{d(field, d("$type", "array"))})
}

// placed is a match on the parent without those nodes.
func (c *core) placed(match bson.D) bson.D { return append(match, c.noArray(c.o.ParentField)...) }

func (c *core) placedRoots() mongo.Pipeline {
	roots := c.shape.roots(c)
	if placed := c.placed(nil); placed != nil {
		roots = append(roots, d("$match", placed))
	}
	return append(roots, d("$project", c.projection()))
}

func (parentField) up(c *core, match bson.D) mongo.Pipeline {
	return concat(mongo.Pipeline{d("$match", match), c.graphLookup("$"+c.o.IDField, c.o.ParentField, c.o.IDField, 0)},
		unfold(fieldStart, "$"+c.o.IDField))
}

func (parentField) down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline {
	sort := d(fieldDepth, 1)
	if c.o.OrderField != "" {
		sort = append(sort, bson.E{Key: c.o.OrderField, Value: 1})
	}
	return concat(c.graphDown(id, c.o.IDField, c.o.IDField, c.o.ParentField, depth, self),
		mongo.Pipeline{d("$sort", sort)})
}

// graphDown follows references downwards.
func (c *core) graphDown(id bson.RawValue, start, from, to string, depth int, self bool) mongo.Pipeline {
	match := mongo.Pipeline{d("$match", c.byID(id))}
	if !self {
		return concat(match, mongo.Pipeline{c.graphLookup("$"+start, from, to, depth)}, unfold())
	}
	return concat(match, twice(),
		mongo.Pipeline{c.graphLookup(unlessSelf("$"+start, bson.A{}), from, to, depth)}, unfoldSelf())
}

func (parentField) children(c *core, id bson.RawValue) mongo.Pipeline {
	return concat(mongo.Pipeline{c.match(c.o.ParentField, equal(id))}, c.inOrder())
}

func (parentField) siblings(c *core, id bson.RawValue) mongo.Pipeline {
	node := append(c.byID(id), bson.E{Key: c.o.ParentField, Value: d("$ne", nil, "$not", d("$type", "array"))})
	return concat(mongo.Pipeline{d("$match", node), c.lookup(c.o.ParentField, c.o.ParentField, c.inOrder()...)},
		unfold(), mongo.Pipeline{d("$match", d(c.o.IDField, d("$ne", id)))})
}

func (parentField) roots(c *core) mongo.Pipeline {
	return concat(mongo.Pipeline{c.match(c.o.ParentField, nil)}, c.inOrder())
}

func (parentField) leaves(c *core) mongo.Pipeline {
	return c.childless(c.o.IDField, c.o.ParentField)
}

func (parentField) childrenOf(c *core, n node) bson.D {
	return c.in(c.o.ParentField, equal(n.id))
}

func (parentField) ancestorsOf(*core, node) (bson.D, bool) { return nil, false }

func (parentField) rootsMatch(c *core) bson.D { return c.in(c.o.ParentField, nil) }

func (parentField) parentOf(c *core, n node) (bson.D, bool) {
	if isNull(n.parent) {
		return nil, true
	}
	return c.byID(n.parent), false
}

// childless are the nodes whose local field is no one's foreign field.
func (c *core) childless(local, foreign string) mongo.Pipeline {
	if c.o.ChildCountField != "" {
		return mongo.Pipeline{c.match(c.o.ChildCountField, 0)}
	}
	return c.unreferenced(local, foreign)
}

func (c *core) unreferenced(local, foreign string) mongo.Pipeline {
	return mongo.Pipeline{
		c.match(),
		c.lookup(local, foreign, d("$limit", 1), d("$project", d("_id", 1))),
		d("$match", d(fieldTree, d("$size", 0))),
		d("$unset", fieldTree),
	}
}

// parentRefs: {_id, parent}.
type parentRefs struct{ parentField }

func (parentRefs) owned(c *core) []string { return []string{c.o.ParentField} }

func (parentRefs) descendantsOf(*core, node, int) (bson.D, bool) { return nil, false }

func (parentRefs) place(c *core, parent *node) bson.D {
	if parent == nil {
		return d(c.o.ParentField, nil)
	}
	return d(c.o.ParentField, parent.id)
}

func (parentRefs) below(ctx context.Context, c *core, p, x node) (bool, error) {
	return c.isAbove(ctx, x.id, p.id)
}

// isAbove reports whether x is n or one of its ancestors, by asking the server
// for the way up from n.
func (c *core) isAbove(ctx context.Context, x, n bson.RawValue) (bool, error) {
	up, err := c.ids(ctx, c.shape.up(c, c.byID(n)))
	for _, id := range up {
		if same(id, x) {
			return true, err
		}
	}
	return false, err
}

func (parentRefs) rebase(context.Context, *core, node, *node) error { return nil }

func (p parentRefs) lift(ctx context.Context, c *core, x node, parent *node) error {
	_, err := c.coll.UpdateMany(ctx, c.placed(p.childrenOf(c, x)), d("$set", p.place(c, parent)))
	return err
}

func (parentRefs) cascade(ctx context.Context, c *core, x node) (int64, error) {
	ids, err := c.downIDs(ctx, x.id, 0)
	if err != nil {
		return 0, err
	}
	return c.deleteIDs(ctx, append(ids, x.id))
}

func (parentRefs) check(*core, bson.D) error { return nil }
