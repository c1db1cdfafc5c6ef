package tree

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// linked is the writing side of the representations in which a document says
// itself where it is: parent references, array of ancestors, path.
type linked struct {
	linkage
}

// linkage is what differs between them.
type linkage interface {
	reader

	// place is the shape of a document under a parent; nil is no parent.
	place(c *core, parent *node) bson.D
	// parentOf is the filter for a node's parent.
	parentOf(c *core, n node) (match bson.D, root bool)
	// rootsMatch is the filter for the roots.
	rootsMatch(c *core) bson.D
	// below reports whether p is x or lies under it.
	below(ctx context.Context, c *core, p, x node) (bool, error)
	// rebase rewrites the descendants of x, which has just moved under parent.
	rebase(ctx context.Context, c *core, x node, parent *node) error
	// lift rewrites the descendants of x to be those of parent, without x.
	lift(ctx context.Context, c *core, x node, parent *node) error
	// cascade deletes x and its descendants.
	cascade(ctx context.Context, c *core, x node) (int64, error)
	// check refuses a new document.
	check(c *core, doc bson.D) error
}

// unchanged is the guard that a field still holds what was read.
func (n node) unchanged(field string) bson.E {
	v, err := n.raw.LookupErr(field)
	if err != nil {
		return bson.E{Key: field, Value: d("$exists", false)}
	}
	return bson.E{Key: field, Value: d("$eq", v)}
}

func (c *core) guarded(n node, fields ...string) bson.D {
	match := c.byID(n.id)
	for _, f := range fields {
		match = append(match, n.unchanged(f))
	}
	return match
}

// siblingsOf is the filter for the children of parent, or for the roots.
func (l linked) siblingsOf(c *core, parent *node) bson.D {
	if parent == nil {
		return l.rootsMatch(c)
	}
	return l.childrenOf(c, *parent)
}

// target finds the parent that a position names; sib is set for Before and
// After. With hold it touches the parent, which has one child more then.
func (l linked) target(ctx context.Context, c *core, pos position, hold bool) (parent *node, sib node, err error) {
	var match bson.D
	absent := fmt.Errorf("%w: %s", ErrParentNotFound, text(pos.ref))
	switch pos.kind {
	case atRoot:
		return nil, sib, nil
	case underParent:
		match = c.byID(pos.ref)
	default:
		if c.o.OrderField == "" {
			return nil, sib, fmt.Errorf("%w: Before and After need Options.OrderField", ErrUnsupported)
		}
		if sib, err = c.find(ctx, pos.ref, ErrNotFound); err != nil {
			return nil, sib, err
		}
		var root bool
		if match, root = l.parentOf(c, sib); root {
			return nil, sib, nil
		}
		absent = orphaned(c, sib)
	}
	var n node
	if hold {
		n, err = c.touch(ctx, match, 1, absent)
	} else {
		n, err = c.findOne(ctx, match, absent)
	}
	if err != nil {
		return nil, sib, err
	}
	if err := c.usable(n); err != nil {
		if hold {
			err = c.release(ctx, err, 1, &n)
		}
		return nil, sib, err
	}
	return &n, sib, nil
}

// orphaned is the error for a node whose parent is not there.
func orphaned(c *core, n node) error {
	if c.rep == MaterializedPath {
		return fmt.Errorf("%w: %q, of %s", ErrParentNotFound, n.path, text(n.id))
	}
	return fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(n.parent), text(n.id))
}

func (l linked) insert(ctx context.Context, c *core, doc bson.D, pos position) error {
	if err := l.check(c, doc); err != nil {
		return err
	}
	if pos.first && c.o.OrderField == "" {
		return fmt.Errorf("%w: First needs Options.OrderField", ErrUnsupported)
	}
	if pos.kind == atRoot && c.o.OrderField == "" {
		_, err := c.durable.InsertOne(ctx, append(doc, l.place(c, nil)...))
		return err
	}
	// A child conflicts with what happens to its parent by writing to it. The
	// roots of an ordered forest have nothing in common but the lock.
	return c.atomically(ctx, pos.kind != underParent, func(ctx context.Context) error {
		parent, sib, err := l.target(ctx, c, pos, true)
		if err != nil {
			return err
		}
		full := append(doc[:len(doc):len(doc)], l.place(c, parent)...)
		if c.o.OrderField != "" {
			order, err := c.orderAt(ctx, l.siblingsOf(c, parent), pos, sib, bson.RawValue{})
			if err != nil {
				return c.release(ctx, err, 1, parent)
			}
			full = append(full, bson.E{Key: c.o.OrderField, Value: order})
		}
		if _, err := c.coll.InsertOne(ctx, full); err != nil {
			return err
		}
		if parent != nil && c.o.ChildCountField == "" {
			return c.untouch(ctx, *parent)
		}
		return nil
	})
}

func (l linked) move(ctx context.Context, c *core, id bson.RawValue, pos position) error {
	ordered := c.o.OrderField != ""
	if pos.first && !ordered {
		return fmt.Errorf("%w: First needs Options.OrderField", ErrUnsupported)
	}
	return c.atomically(ctx, true, func(ctx context.Context) error {
		x, err := c.find(ctx, id, ErrNotFound)
		if err == nil {
			err = errors.Join(c.usable(x), c.adopted(x))
		}
		if err != nil {
			return err
		}
		if pos.sibling() && same(pos.ref, id) {
			return nil
		}
		// Insertions do not take the lock. One that chooses a position among
		// the same siblings conflicts by the write to their parent.
		parent, sib, err := l.target(ctx, c, pos, ordered)
		if err != nil {
			return err
		}
		refuse := func(err error) error {
			if ordered {
				err = c.release(ctx, err, 1, parent)
			}
			return err
		}
		if parent != nil {
			if err := c.adopted(*parent); err != nil {
				return refuse(err)
			}
			below, err := l.below(ctx, c, *parent, x)
			if err != nil {
				return err
			}
			if below {
				return refuse(fmt.Errorf("%w: %s", ErrCycle, text(id)))
			}
		}
		oldMatch, wasRoot := l.parentOf(c, x)
		stays := wasRoot && parent == nil
		if !wasRoot && parent != nil {
			stays = l.isChild(c, x, *parent)
		}
		if stays && !ordered {
			return nil
		}
		set := l.place(c, parent)
		if ordered {
			order, err := c.orderAt(ctx, l.siblingsOf(c, parent), pos, sib, id)
			if err != nil {
				return refuse(err)
			}
			set = append(set, bson.E{Key: c.o.OrderField, Value: order})
		}
		if err := c.set(ctx, c.guarded(x, l.owned(c)...), d("$set", set)); err != nil {
			return err
		}
		if !stays {
			if err := l.rebase(ctx, c, x, parent); err != nil {
				return err
			}
		}
		switch {
		case parent == nil && stays:
			return nil
		case parent == nil:
			return c.bump(ctx, oldMatch, int64(-1))
		case !ordered:
			return c.bump(ctx, oldMatch, int64(-1), c.byID(parent.id), int64(1))
		case c.o.ChildCountField == "":
			return c.untouch(ctx, *parent)
		}
		return c.bump(ctx, oldMatch, int64(-1))
	})
}

// isChild reports whether the parent of x is p.
func (l linked) isChild(c *core, x, p node) bool {
	if c.rep == MaterializedPath {
		return x.path == c.full(p)
	}
	return same(x.parent, p.id)
}

func (l linked) remove(ctx context.Context, c *core, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) error {
		deleted = 0
		// The write comes before the look for children: no child can be
		// inserted unseen after it.
		x, err := c.touch(ctx, c.byID(id), 0, fmt.Errorf("%w: %s", ErrNotFound, text(id)))
		if err != nil {
			return err
		}
		if err := c.usable(x); err != nil {
			return c.release(ctx, err, 0, &x)
		}
		parentMatch, _ := l.parentOf(c, x)
		if policy == Cascade {
			if deleted, err = l.cascade(ctx, c, x); err != nil {
				return err
			}
			return c.bump(ctx, parentMatch, int64(-1))
		}
		kids, err := c.childStats(ctx, x, c.placed(l.childrenOf(c, x)))
		if err != nil {
			return err
		}
		if policy == Restrict && kids.count > 0 {
			return c.release(ctx, fmt.Errorf("%w: %s", ErrHasChildren, text(id)), 0, &x)
		}
		if err := kids.movable(c, x); err != nil {
			return c.release(ctx, err, 0, &x)
		}
		// Insertions under the heir choose positions without the lock.
		hold := kids.count > 0 && c.o.OrderField != "" && c.o.ChildCountField == ""
		var heir *node
		if policy == Promote && len(parentMatch) > 0 {
			var n node
			if hold {
				n, err = c.touch(ctx, parentMatch, 0, orphaned(c, x))
			} else {
				n, err = c.findOne(ctx, parentMatch, orphaned(c, x))
			}
			if errors.Is(err, ErrParentNotFound) {
				return c.release(ctx, err, 0, &x)
			}
			if err != nil {
				return err
			}
			heir = &n
			if err := errors.Join(c.usable(n), c.adopted(n)); err != nil {
				return c.release(ctx, err, 0, &x, heir)
			}
		}
		if _, err := c.coll.DeleteOne(ctx, c.byID(id)); err != nil {
			return err
		}
		deleted = 1
		if kids.count > 0 {
			if err := l.makeRoom(ctx, c, x, heir, policy, kids); err != nil {
				return err
			}
			if err := l.lift(ctx, c, x, heir); err != nil {
				return err
			}
		}
		if hold && heir != nil {
			return c.untouch(ctx, *heir)
		}
		by := int64(-1)
		if policy == Promote {
			by += kids.count
		}
		return c.bump(ctx, parentMatch, by)
	})
	return deleted, err
}

// makeRoom gives the children of x the orders that they will have after x: in
// its place if promoted, else behind the roots.
func (l linked) makeRoom(ctx context.Context, c *core, x node, heir *node, policy DeletePolicy, kids childStats) error {
	if c.o.OrderField == "" {
		return nil
	}
	low, high := integer(kids.low), integer(kids.high)
	first := x.order
	if policy == Promote {
		after := append(l.siblingsOf(c, heir), bson.E{Key: c.o.OrderField, Value: d("$gt", x.order)})
		if high > low {
			if _, err := c.coll.UpdateMany(ctx, after, d("$inc", d(c.o.OrderField, high-low))); err != nil {
				return err
			}
		}
	} else {
		last, err := c.findOne(ctx, l.rootsMatch(c), ErrNotFound, c.o.OrderField, -1)
		if err == nil {
			first = last.order + orderGap
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	_, err := c.coll.UpdateMany(ctx, c.placed(l.childrenOf(c, x)), d("$inc", d(c.o.OrderField, first-low)))
	return err
}

// childStats are the number of the children of a node, their lowest and highest
// order and how many of them do not have it in their array of ancestors.
type childStats struct {
	count     int64
	low, high bson.RawValue
	unadopted int64
}

func (c *core) childStats(ctx context.Context, x node, match bson.D) (kids childStats, err error) {
	group := d("_id", nil, "n", d("$sum", 1))
	if c.o.OrderField != "" {
		group = append(group, d("low", d("$min", "$"+c.o.OrderField), "high", d("$max", "$"+c.o.OrderField))...)
	}
	if c.rep == AncestorArray {
		adopted := d("$in", bson.A{literal(x.id), ancestorArray{}.array(c)})
		group = append(group, bson.E{Key: "unadopted", Value: d("$sum", d("$cond", bson.A{adopted, 0, 1}))})
	}
	cursor, err := c.coll.Aggregate(ctx, mongo.Pipeline{d("$match", match), d("$group", group)})
	if err != nil {
		return kids, err
	}
	var rows []bson.Raw
	if err := cursor.All(ctx, &rows); err != nil || len(rows) == 0 {
		return kids, err
	}
	return childStats{integer(rows[0].Lookup("n")), rows[0].Lookup("low"), rows[0].Lookup("high"),
		integer(rows[0].Lookup("unadopted"))}, nil
}

// movable refuses children that cannot get a place after x.
func (kids childStats) movable(c *core, x node) error {
	if kids.count == 0 {
		return nil
	}
	if kids.unadopted > 0 {
		return fmt.Errorf("%d children of %s do not have it among their ancestors, run Adopt or Repair", kids.unadopted, text(x.id))
	}
	for _, v := range []bson.RawValue{kids.low, kids.high, x.raw.Lookup(c.o.OrderField)} {
		if err := c.checkOrder(v); err != nil {
			return fmt.Errorf("%w, at %s or its children", err, text(x.id))
		}
	}
	return nil
}

// deleteIDs deletes by ID in commands of bounded size.
func (c *core) deleteIDs(ctx context.Context, ids []bson.RawValue) (deleted int64, err error) {
	for len(ids) > 0 {
		n, size := 0, 0
		for n < len(ids) && n < 50_000 && (n == 0 || size+len(ids[n].Value) < 8<<20) {
			size += len(ids[n].Value) + 8 // with its index in the array
			n++
		}
		res, err := c.coll.DeleteMany(ctx, c.byIDs(ids[:n]))
		if err != nil {
			return deleted, err
		}
		deleted += res.DeletedCount
		ids = ids[n:]
	}
	return deleted, nil
}

// downIDs reads the IDs of the descendants of a node.
func (c *core) downIDs(ctx context.Context, id bson.RawValue, depth int) ([]bson.RawValue, error) {
	return c.ids(ctx, c.shape.down(c, id, depth, false))
}

func (c *core) ids(ctx context.Context, p mongo.Pipeline) ([]bson.RawValue, error) {
	nodes, err := c.aggregate(ctx, append(p, d("$project", d(c.o.IDField, 1))))
	if err != nil {
		return nil, err
	}
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids, nil
}
