package tree

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// nestedSets: {_id, left, right, parent}. A node's numbers enclose those of its descendants; children fill
// their parent's range without gaps.
type nestedSets struct{ parentField }

func (s nestedSets) layout() layout {
	o := &s.o
	return layout{[]config.Setting{config.Name("Options.LeftField", &o.LeftField, "left"),
		config.Name("Options.RightField", &o.RightField, "right"),
		config.Name("Options.ParentField", &o.ParentField, "parent")},
		[]string{o.ParentField, o.LeftField, o.RightField},
		[]string{o.LeftField, o.RightField}, o.ParentField, o.LeftField, true, o.LeftField}
}

func (s nestedSets) down(id any, depth int, self bool) mongo.Pipeline {
	if depth > 0 {
		return s.graphDown(id, s.o.IDField, s.o.IDField, s.o.ParentField, depth, self)
	}
	left := expr.Field(s.o.LeftField)
	within := mongo.Pipeline{
		s.match("$expr", expr.Op("$and", expr.Op("$gt", left, expr.Var("from")), expr.Op("$lt", left, expr.Var("to")))),
	}
	return s.rangeDown(id, left, expr.Field(s.o.RightField), within, self)
}

func (s nestedSets) descendantsOf(n node, depth int) (bson.D, bool) {
	if depth > 0 {
		return nil, false
	}
	return s.in(s.o.LeftField, d("$gt", n.left, "$lt", n.right)), true
}

func (s nestedSets) width(n node) int64 { return max(n.right-n.left, 1) / 2 }

// stretch is a range of numbers that move by the same amount.
type stretch struct{ from, to, by int64 }

// shift moves numbers in one write. It reads the index up to the last number that moves.
func (s nestedSets) shift(stretches ...stretch) mongo.WriteModel {
	low, high := int64(math.MaxInt64), int64(0)
	for _, m := range stretches {
		low, high = min(low, m.from), max(high, m.to)
	}
	moved := func(name string) bson.D {
		f, branches := expr.Field(name), bson.A{}
		for _, m := range stretches {
			branches = append(branches, d(
				"case", expr.Op("$and", expr.Op("$gte", f, m.from), expr.Op("$lte", f, m.to)),
				"then", expr.Op("$add", f, m.by)))
		}
		return expr.Op("$switch", d("branches", branches, "default", f))
	}
	return update(s.in(s.o.LeftField, d("$lte", high), s.o.RightField, d("$gte", low)),
		mongo.Pipeline{expr.Op("$set", d(s.o.LeftField, moved(s.o.LeftField), s.o.RightField, moved(s.o.RightField)))})
}

func (n node) numbered() error {
	if n.left == 0 && n.right == 0 {
		return fmt.Errorf("%w: %s has no left and right, run Adopt or Repair", ErrNotAdopted, text(n.id))
	}
	if n.left < 1 || n.right <= n.left {
		return fmt.Errorf("node %s has left %d and right %d, run Repair", text(n.id), n.left, n.right)
	}
	return nil
}

// target finds the parent that a position names and the number at which a node is to begin there; ref is the
// node in it.
func (s nestedSets) target(ctx context.Context, pos position, ref node) (parent bson.RawValue, at int64, err error) {
	if pos.sibling() && !isNull(ref.parent) {
		if _, err := s.findOne(ctx, s.byID(ref.parent), s.orphaned(ref)); err != nil {
			return null, 0, err
		}
	}
	switch {
	case pos.kind == atRoot && pos.first:
		n, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gte", 1)), nil, s.o.LeftField, 1)
		return null, max(n.left, 1), err
	case pos.kind == atRoot:
		last, err := s.lastNumber(ctx)
		return null, last + 1, err
	case ref.numbered() != nil:
		return null, 0, ref.numbered()
	case pos.kind == beforeSibling:
		return ref.parent, ref.left, nil
	case pos.kind == afterSibling:
		return ref.parent, ref.right + 1, nil
	case pos.first:
		return ref.id, ref.left + 1, nil
	}
	return ref.id, ref.right, nil
}

// lastNumber is the greatest number: the right of the last root, unless orphans or the nodes of an unfinished
// Load are after it.
func (s nestedSets) lastNumber(ctx context.Context) (int64, error) {
	root, err := s.findOne(ctx, s.rootsMatch(), nil, s.o.LeftField, -1)
	if err != nil {
		return 0, err
	}
	last := max(root.left, root.right, 0)
	after, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gt", last)), nil, s.o.RightField, -1)
	return max(last, after.left, after.right), err
}

func (s nestedSets) insert(ctx context.Context, doc bson.D, pos position) error {
	return s.atomically(ctx, true, func(ctx context.Context) (err error) {
		var ref node
		if pos.kind != atRoot {
			if ref, err = s.findOne(ctx, s.byID(pos.ref), pos.absent()); err != nil {
				return err
			}
		}
		parent, at, err := s.target(ctx, pos, ref)
		if err != nil {
			return err
		}
		models := s.recount(node{parent: parent}, 1)
		if pos.kind != atRoot || pos.first {
			models = append(models, s.shift(stretch{at, math.MaxInt64, 2}))
		}
		if err := s.write(ctx, models...); err != nil {
			return err
		}
		shape := d(s.o.LeftField, at, s.o.RightField, at+1, s.o.ParentField, parent)
		return s.create(ctx, append(slices.Clone(doc), shape...), nil)
	})
}

func (s nestedSets) move(ctx context.Context, id bson.RawValue, pos position) error {
	return s.atomically(ctx, true, func(ctx context.Context) error {
		x, ref, _, err := s.both(ctx, id, pos, "")
		if err == nil {
			err = x.numbered()
		}
		if err != nil || pos.sibling() && same(pos.ref, id) {
			return err
		}
		parent, at, err := s.target(ctx, pos, ref)
		if err != nil {
			return err
		}
		width := x.right - x.left + 1
		var models []mongo.WriteModel
		switch {
		case at > x.left && at <= x.right:
			return fmt.Errorf("%w: %s", ErrCycle, text(id))
		case at > x.right+1:
			models = append(models, s.shift(stretch{x.left, x.right, at - 1 - x.right}, stretch{x.right + 1, at - 1, -width}))
		case at < x.left:
			models = append(models, s.shift(stretch{x.left, x.right, at - x.left}, stretch{at, x.left - 1, width}))
		}
		if !same(parent, x.parent) {
			models = append(models, update(s.byID(id), d("$set", d(s.o.ParentField, parent))))
			models = append(models, s.recount(x, -1)...)
			models = append(models, s.recount(node{parent: parent}, 1)...)
		}
		return s.write(ctx, models...)
	})
}

// cascade deletes a range, if it holds as many nodes as it should.
func (s nestedSets) cascade(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error) {
	x, err := s.doomed(ctx, id)
	if err == nil {
		err = x.numbered()
	}
	if err != nil {
		return 0, nil, err
	}
	width := x.right - x.left + 1
	below := d(s.o.LeftField, d("$gt", x.left, "$lt", x.right))
	res, err := fault.Many(s.primary.DeleteMany(ctx, s.in("$or", bson.A{d(s.o.IDField, equal(id)), below})))
	if err != nil {
		return 0, nil, err
	}
	deleted = res.DeletedCount
	if deleted != width/2 {
		err = fmt.Errorf("node %s has left %d and right %d, where %d nodes are: run Repair", text(x.id), x.left, x.right, deleted)
	}
	return deleted, append(s.recount(x, -1), s.shift(stretch{x.right + 1, math.MaxInt64, -width})), err
}

// bequeath counts the children by their parent field: a leaf may have some that Load has not numbered yet.
func (s nestedSets) bequeath(ctx context.Context, x node, policy DeletePolicy) ([]mongo.WriteModel, error) {
	if err := x.numbered(); err != nil {
		return nil, err
	}
	match, _ := s.childrenOf(x)
	match = append(match, s.except(s.o.ParentField)...)
	kids, err := s.primary.CountDocuments(ctx, match)
	if err != nil {
		return nil, err
	}
	width := x.right - x.left + 1
	inner, heir, by := int64(-1), x.parent, kids-1
	after := stretch{x.right + 1, math.MaxInt64, -2}
	switch {
	case policy == Restrict && kids > 0:
		return nil, fmt.Errorf("%w: %s", ErrHasChildren, text(x.id))
	case policy == MakeRoots && kids > 0:
		last, err := s.lastNumber(ctx)
		if err != nil {
			return nil, err
		}
		inner, heir, by = max(last, x.right)-width-x.left, null, -1
		after.by = -width
	}
	models := s.recount(x, by)
	if kids > 0 {
		models = append(models, update(match, d("$set", d(s.o.ParentField, heir))))
	}
	return append(models, s.shift(after, stretch{x.left + 1, x.right - 1, inner})), nil
}

// arrange numbers the documents of a Load provisionally, after all others and in no one's range; settle gives
// the final numbers.
func (s nestedSets) arrange(ctx context.Context, items []*item) error {
	last, err := s.lastNumber(ctx)
	for i, it := range items {
		at := last + 1 + int64(i)
		it.doc = append(it.doc, d(s.o.LeftField, at, s.o.RightField, at, s.o.ParentField, it.above)...)
	}
	return err
}

// Maintenance.

func (s nestedSets) whole(n node) bool {
	_, left := integral(n.raw.Lookup(s.o.LeftField))
	_, right := integral(n.raw.Lookup(s.o.RightField))
	return left && right
}

// audit compares the range of a node with those of its children, which fill it. Those of the roots only may not
// overlap.
func (s nestedSets) audit(e *engine, n node, _ *spot, kids []node) []finding {
	next, detail := n.left+1, ""
	for i, kid := range kids {
		if detail == "" && (n.raw != nil && kid.left != next || i > 0 && kid.left < next) {
			detail = fmt.Sprintf("%s begins at %d, not at %d", text(kid.id), kid.left, next)
		}
		next = kid.right + 1
	}
	switch {
	case n.raw == nil:
	case n.numbered() != nil || !s.whole(n):
		detail = fmt.Sprintf("%s is %s, %s is %s", s.o.LeftField, text(n.raw.Lookup(s.o.LeftField)),
			s.o.RightField, text(n.raw.Lookup(s.o.RightField)))
	case detail == "" && next != n.right:
		detail = fmt.Sprintf("right is %d, the children end at %d", n.right, next-1)
	}
	if detail == "" {
		return nil
	}
	f := e.finding(WrongField, n, s.o.LeftField, detail)
	f.renumber = true
	return []finding{f}
}

// settle gives all nodes the numbers that follow from their parents, siblings in the order of the numbers they
// have and those without by _id. Nodes on a cycle get none. It is one transaction, and holds all shapes in
// memory. It returns the number of nodes written.
func (s nestedSets) settle(ctx context.Context, dry bool) (written int64, err error) {
	err = s.atomically(ctx, !dry, func(ctx context.Context) error {
		nodes, err := s.aggregate(ctx, mongo.Pipeline{s.match(s.o.IDField, d("$ne", nil)), expr.Op("$sort", d("_id", 1))})
		if err != nil {
			return err
		}
		ties, below := make([]tie, len(nodes)), make([][]int, len(nodes))
		for i, n := range nodes {
			ties[i] = s.tie(n, i)
		}
		s.assemble(ties, func(parent, kid int) { below[parent] = append(below[parent], kid) })
		left, right := make([]int64, len(nodes)), make([]int64, len(nodes))
		next := int64(0)
		var number func(i int)
		number = func(i int) {
			next++
			left[i] = next
			for _, kid := range below[i] {
				number(kid)
			}
			next++
			right[i] = next
		}
		for _, n := range ties {
			if !n.child && n.up != n.id {
				number(n.at)
			}
		}
		var models []mongo.WriteModel
		for i, n := range nodes {
			if !s.whole(n) || n.left != left[i] || n.right != right[i] {
				models = append(models, update(s.byID(n.id), d("$set", d(s.o.LeftField, left[i], s.o.RightField, right[i]))))
			}
		}
		written = int64(len(models))
		if dry {
			return nil
		}
		return s.write(ctx, models...)
	})
	return written, err
}
