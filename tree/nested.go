package tree

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// nestedSets: {_id, left, right, parent}. A node's numbers enclose those of its
// descendants; children fill their parent's range without gaps.
type nestedSets struct{ parentField }

func (nestedSets) owned(c *core) []string {
	return []string{c.o.LeftField, c.o.RightField, c.o.ParentField}
}

func (s nestedSets) down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline {
	left := "$" + c.o.LeftField
	if depth > 0 {
		return concat(c.graphDown(id, c.o.IDField, c.o.IDField, c.o.ParentField, depth, self),
			mongo.Pipeline{d("$sort", d(c.o.LeftField, 1))})
	}
	within := mongo.Pipeline{
		c.match("$expr", d("$and", bson.A{d("$gt", bson.A{left, "$$from"}), d("$lt", bson.A{left, "$$to"})})),
		d("$sort", d(c.o.LeftField, 1)),
	}
	return c.rangeDown(id, left, "$"+c.o.RightField, within, self)
}

func (nestedSets) leaves(c *core) mongo.Pipeline {
	next := d("$add", bson.A{"$" + c.o.LeftField, 1})
	return mongo.Pipeline{c.match("$expr", d("$eq", bson.A{"$" + c.o.RightField, next})), d("$sort", d(c.o.LeftField, 1))}
}

func (nestedSets) descendantsOf(c *core, n node, depth int) (bson.D, bool) {
	return c.in(c.o.LeftField, d("$gt", n.left, "$lt", n.right)), depth <= 0
}

func (nestedSets) ancestorsOf(c *core, n node) (bson.D, bool) {
	return c.in(c.o.LeftField, d("$lt", n.left), c.o.RightField, d("$gt", n.right)), true
}

// stretch is a range of numbers that move by the same amount.
type stretch struct{ from, to, by int64 }

// shift moves numbers in one command. It reads the index up to the last number
// that moves.
func (c *core) shift(ctx context.Context, stretches ...stretch) error {
	low, high := int64(math.MaxInt64), int64(0)
	for _, s := range stretches {
		low, high = min(low, s.from), max(high, s.to)
	}
	moved := func(field string) bson.D {
		branches := bson.A{}
		for _, s := range stretches {
			branches = append(branches, d(
				"case", d("$and", bson.A{d("$gte", bson.A{"$" + field, s.from}), d("$lte", bson.A{"$" + field, s.to})}),
				"then", d("$add", bson.A{"$" + field, s.by})))
		}
		return d("$switch", d("branches", branches, "default", "$"+field))
	}
	_, err := c.coll.UpdateMany(ctx,
		c.in(c.o.LeftField, d("$lte", high), c.o.RightField, d("$gte", low)),
		mongo.Pipeline{d("$set", d(c.o.LeftField, moved(c.o.LeftField), c.o.RightField, moved(c.o.RightField)))})
	return err
}

func (n node) numbered() error {
	if n.left < 1 || n.right <= n.left {
		return fmt.Errorf("node %s has left %d and right %d, run Repair", text(n.id), n.left, n.right)
	}
	return nil
}

// target finds the parent that a position names and the number at which a node
// is to begin there.
func (nestedSets) target(ctx context.Context, c *core, pos position) (parent bson.RawValue, at int64, err error) {
	if pos.kind == atRoot {
		if pos.first {
			n, err := c.findOne(ctx, c.in(c.o.LeftField, d("$gte", 1)), ErrNotFound, c.o.LeftField, 1)
			if errors.Is(err, ErrNotFound) {
				return null, 1, nil
			}
			return null, n.left, err
		}
		last, err := c.lastNumber(ctx)
		return null, last + 1, err
	}
	absent := ErrParentNotFound
	if pos.sibling() {
		absent = ErrNotFound
	}
	n, err := c.find(ctx, pos.ref, absent)
	if err == nil {
		err = n.numbered()
	}
	if err != nil {
		return null, 0, err
	}
	switch {
	case pos.sibling() && n.parent.Type == bson.TypeArray:
		return null, 0, orphaned(c, n)
	case pos.kind == beforeSibling:
		return n.parent, n.left, nil
	case pos.kind == afterSibling:
		return n.parent, n.right + 1, nil
	case pos.first:
		return n.id, n.left + 1, nil
	}
	return n.id, n.right, nil
}

// lastNumber is the greatest number: the right of the last root, unless orphans
// or the nodes of an unfinished Load are behind it.
func (c *core) lastNumber(ctx context.Context) (int64, error) {
	root, err := c.findOne(ctx, c.in(c.o.ParentField, nil), ErrNotFound, c.o.LeftField, -1)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	last := max(root.left, root.right, 0)
	behind, err := c.findOne(ctx, c.in(c.o.LeftField, d("$gt", last)), ErrNotFound, c.o.RightField, -1)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	return max(last, behind.left, behind.right), nil
}

func (c *core) parentMatch(parent bson.RawValue) bson.D {
	if isNull(parent) {
		return nil
	}
	return c.byID(parent)
}

func (s nestedSets) insert(ctx context.Context, c *core, doc bson.D, pos position) error {
	return c.atomically(ctx, true, func(ctx context.Context) error {
		parent, at, err := s.target(ctx, c, pos)
		if err != nil {
			return err
		}
		if pos.kind != atRoot || pos.first {
			if err := c.shift(ctx, stretch{at, math.MaxInt64, 2}); err != nil {
				return err
			}
		}
		full := append(doc[:len(doc):len(doc)], d(c.o.LeftField, at, c.o.RightField, at+1, c.o.ParentField, parent)...)
		if _, err := c.coll.InsertOne(ctx, full); err != nil {
			return err
		}
		return c.bump(ctx, c.parentMatch(parent), int64(1))
	})
}

func (s nestedSets) move(ctx context.Context, c *core, id bson.RawValue, pos position) error {
	return c.atomically(ctx, true, func(ctx context.Context) error {
		x, err := c.find(ctx, id, ErrNotFound)
		if err == nil {
			err = x.numbered()
		}
		if err != nil {
			return err
		}
		if pos.sibling() && same(pos.ref, id) {
			return nil
		}
		parent, at, err := s.target(ctx, c, pos)
		if err != nil {
			return err
		}
		width := x.right - x.left + 1
		switch {
		case at > x.left && at <= x.right:
			return fmt.Errorf("%w: %s", ErrCycle, text(id))
		case at > x.right+1:
			err = c.shift(ctx, stretch{x.left, x.right, at - 1 - x.right}, stretch{x.right + 1, at - 1, -width})
		case at < x.left:
			err = c.shift(ctx, stretch{x.left, x.right, at - x.left}, stretch{at, x.left - 1, width})
		}
		if err != nil || same(parent, x.parent) {
			return err
		}
		if err := c.set(ctx, c.byID(id), d("$set", d(c.o.ParentField, parent))); err != nil {
			return err
		}
		return c.bump(ctx, c.parentMatch(x.parent), int64(-1), c.parentMatch(parent), int64(1))
	})
}

func (s nestedSets) remove(ctx context.Context, c *core, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) error {
		deleted = 0
		x, err := c.find(ctx, id, ErrNotFound)
		if err == nil {
			err = x.numbered()
		}
		if err != nil {
			return err
		}
		width := x.right - x.left + 1
		var promoted int64
		leaf := width == 2
		if leaf && policy != Cascade { // it may have children that Load has not numbered yet
			_, err := c.findOne(ctx, c.placed(s.childrenOf(c, x)), ErrNotFound)
			if leaf = errors.Is(err, ErrNotFound); err != nil && !leaf {
				return err
			}
		}
		switch {
		case policy == Cascade || leaf:
			match := c.in(c.o.LeftField, d("$gte", x.left, "$lte", x.right))
			res, err := c.coll.DeleteMany(ctx, match)
			if err != nil {
				return err
			}
			if deleted = res.DeletedCount; deleted != width/2 {
				return fmt.Errorf("node %s has left %d and right %d, where %d nodes are: run Repair",
					text(x.id), x.left, x.right, deleted)
			}
			if err := c.shift(ctx, stretch{x.right + 1, math.MaxInt64, -width}); err != nil {
				return err
			}
		case policy == Restrict:
			return fmt.Errorf("%w: %s", ErrHasChildren, text(id))
		default:
			if _, err := c.coll.DeleteOne(ctx, c.byID(id)); err != nil {
				return err
			}
			deleted = 1
			inner, heir := int64(-1), x.parent
			behind := []stretch{{x.right + 1, math.MaxInt64, -2}}
			if policy == MakeRoots {
				last, err := c.lastNumber(ctx)
				if err != nil {
					return err
				}
				last = max(last, x.right)
				inner, heir = last-width-x.left, null
				behind[0].by = -width
			}
			err := c.shift(ctx, append(behind, stretch{x.left + 1, x.right - 1, inner})...)
			if err != nil {
				return err
			}
			res, err := c.coll.UpdateMany(ctx, c.placed(s.childrenOf(c, x)), d("$set", d(c.o.ParentField, heir)))
			if err != nil {
				return err
			}
			if policy == Promote {
				promoted = res.MatchedCount
			}
		}
		return c.bump(ctx, c.parentMatch(x.parent), promoted-1)
	})
	return deleted, err
}
