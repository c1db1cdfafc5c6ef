package tree

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// nestedSets: {_id, left, right, parent}. A node's numbers enclose those of its
// descendants; children fill their parent's range without gaps.
type nestedSets struct{ parentField }

func (s nestedSets) settings() []config.Setting {
	return []config.Setting{config.Name("Options.LeftField", &s.o.LeftField, ""), config.Name("Options.RightField", &s.o.RightField, ""),
		config.Name("Options.ParentField", &s.o.ParentField, ""), s.o.treeOnly(), s.o.unordered()}
}

func (s nestedSets) fields() []string {
	return []string{s.o.ParentField, s.o.LeftField, s.o.RightField}
}

func (s nestedSets) keys() []indexKeys {
	return []indexKeys{{fields: []string{s.o.LeftField, s.o.RightField}}, {fields: s.orderedBy(s.o.ParentField)}}
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

func (s nestedSets) leaves() mongo.Pipeline {
	next := expr.Op("$add", expr.Field(s.o.LeftField), 1)
	return mongo.Pipeline{s.match("$expr", expr.Op("$eq", expr.Field(s.o.RightField), next))}
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

// shift moves numbers in one write. It reads the index up to the last number
// that moves.
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
	if n.left < 1 || n.right <= n.left {
		return fmt.Errorf("node %s has left %d and right %d, run Repair", text(n.id), n.left, n.right)
	}
	return nil
}

// target finds the parent that a position names and the number at which a node
// is to begin there; ref is the node in it.
func (s nestedSets) target(ctx context.Context, pos position, ref node) (parent bson.RawValue, at int64, err error) {
	if pos.kind == atRoot {
		if pos.first {
			n, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gte", 1)), fault.ErrNotFound, s.o.LeftField, 1)
			if errors.Is(err, fault.ErrNotFound) {
				return null, 1, nil
			}
			return null, n.left, err
		}
		last, err := s.lastNumber(ctx)
		return null, last + 1, err
	}
	switch {
	case ref.raw == nil && pos.sibling():
		return null, 0, missing(pos.ref)
	case ref.raw == nil:
		return null, 0, noParent(pos.ref)
	case ref.numbered() != nil:
		return null, 0, ref.numbered()
	case pos.sibling() && ref.parent.Type == bson.TypeArray:
		return null, 0, fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(ref.parent), text(ref.id))
	case pos.kind == beforeSibling:
		return ref.parent, ref.left, nil
	case pos.kind == afterSibling:
		return ref.parent, ref.right + 1, nil
	case pos.first:
		return ref.id, ref.left + 1, nil
	}
	return ref.id, ref.right, nil
}

// lastNumber is the greatest number: the right of the last root, unless orphans
// or the nodes of an unfinished Load are after it.
func (s nestedSets) lastNumber(ctx context.Context) (int64, error) {
	root, err := s.findOne(ctx, s.in(s.o.ParentField, nil), fault.ErrNotFound, s.o.LeftField, -1)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return 0, err
	}
	last := max(root.left, root.right, 0)
	after, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gt", last)), fault.ErrNotFound, s.o.RightField, -1)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return 0, err
	}
	return max(last, after.left, after.right), nil
}

func (s nestedSets) insert(ctx context.Context, doc bson.D, pos position) error {
	return s.atomically(ctx, true, func(ctx context.Context) (err error) {
		var ref node
		if pos.kind != atRoot {
			if ref, err = s.findOne(ctx, s.byID(pos.ref), nil); err != nil {
				return err
			}
		}
		parent, at, err := s.target(ctx, pos, ref)
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		if pos.kind != atRoot || pos.first {
			models = append(models, s.shift(stretch{at, math.MaxInt64, 2}))
		}
		if err := s.write(ctx, append(models, s.counter(s.parentOf(node{parent: parent}), 1)...)...); err != nil {
			return err
		}
		return s.create(ctx, append(doc[:len(doc):len(doc)], d(s.o.LeftField, at, s.o.RightField, at+1, s.o.ParentField, parent)...), nil)
	})
}

func (s nestedSets) move(ctx context.Context, id bson.RawValue, pos position) error {
	return s.atomically(ctx, true, func(ctx context.Context) error {
		x, ref, _, err := s.both(ctx, id, pos.ref)
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
			models = append(models, s.counter(s.parentOf(x), -1)...)
			models = append(models, s.counter(s.parentOf(node{parent: parent}), 1)...)
		}
		return s.write(ctx, models...)
	})
}

func (s nestedSets) remove(ctx context.Context, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = s.atomically(ctx, true, func(ctx context.Context) error {
		x, err := s.take(ctx, id)
		if err == nil {
			err = x.numbered()
		}
		if err != nil {
			return err
		}
		deleted = 1
		width := x.right - x.left + 1
		if policy == Cascade {
			if width > 2 {
				res, err := s.primary.DeleteMany(ctx, s.in(s.o.LeftField, d("$gt", x.left, "$lt", x.right)))
				if err != nil {
					return err
				}
				deleted += res.DeletedCount
			}
			if deleted != width/2 {
				return fmt.Errorf("node %s has left %d and right %d, where %d nodes are: run Repair", text(x.id), x.left, x.right, deleted)
			}
			return s.write(ctx, append(s.counter(s.parentOf(x), -1), s.shift(stretch{x.right + 1, math.MaxInt64, -width}))...)
		}
		// A leaf may have children that Load has not numbered yet.
		match, _ := s.childrenOf(x)
		match = append(match, s.except(s.o.ParentField)...)
		kids, err := s.primary.CountDocuments(ctx, match)
		if err != nil {
			return err
		}
		inner, heir, by := int64(-1), x.parent, kids-1
		after := stretch{x.right + 1, math.MaxInt64, -2}
		switch {
		case policy == Restrict && kids > 0:
			return fmt.Errorf("%w: %s", ErrHasChildren, text(id))
		case policy == MakeRoots && kids > 0:
			last, err := s.lastNumber(ctx)
			if err != nil {
				return err
			}
			inner, heir, by = max(last, x.right)-width-x.left, null, -1
			after.by = -width
		}
		var models []mongo.WriteModel
		if kids > 0 {
			models = append(models, update(match, d("$set", d(s.o.ParentField, heir))))
		}
		models = append(models, s.shift(after, stretch{x.left + 1, x.right - 1, inner}))
		return s.write(ctx, append(models, s.counter(s.parentOf(x), by)...)...)
	})
	return deleted, err
}

// arrange numbers the documents of a Load provisionally, after all others and in
// no one's range; settle gives the final numbers.
func (s nestedSets) arrange(ctx context.Context, items []*item) error {
	last, err := s.lastNumber(ctx)
	for i, it := range items {
		at := last + 1 + int64(i)
		it.doc = append(it.doc, d(s.o.LeftField, at, s.o.RightField, at, s.o.ParentField, it.above)...)
	}
	return err
}

func (s nestedSets) adopt(_ node, kids []bson.RawValue) bson.D { return s.count(int64(len(kids))) }

// Maintenance.

func (s nestedSets) order() string { return s.o.LeftField }

func (s nestedSets) wrong() mongopatterns.ProblemKind { return WrongRange }

func (s nestedSets) derive(_ node, chain []*spot) (bson.D, bool) {
	return d(s.o.ParentField, lastID(chain)), true
}

// whole reports whether both numbers are there.
func (s nestedSets) whole(n node) bool {
	_, left := integral(n.raw.Lookup(s.o.LeftField))
	_, right := integral(n.raw.Lookup(s.o.RightField))
	return left && right
}

// audit compares the ranges of nodes with those of their children.
func (s nestedSets) audit(ctx context.Context, e *engine, nodes []node, _ []*spot, kids [][]node) (found []finding, err error) {
	if kids == nil {
		if kids, err = s.kids(ctx, nodes); err != nil {
			return nil, err
		}
	}
	for i, n := range nodes {
		next, detail := n.left+1, ""
		for _, kid := range kids[i] {
			if kid.left != next && detail == "" {
				detail = fmt.Sprintf("%s begins at %d, not at %d", text(kid.id), kid.left, next)
			}
			next = kid.right + 1
		}
		switch {
		case n.left < 1 || n.right <= n.left || !s.whole(n):
			detail = fmt.Sprintf("%s is %s, %s is %s", s.o.LeftField, text(n.raw.Lookup(s.o.LeftField)),
				s.o.RightField, text(n.raw.Lookup(s.o.RightField)))
		case detail == "" && next != n.right:
			detail = fmt.Sprintf("right is %d, the children end at %d", n.right, next-1)
		}
		if detail != "" {
			f := e.finding(WrongRange, n, s.o.LeftField, detail)
			f.renumber = true
			found = append(found, f)
		}
	}
	return found, nil
}

// overlap finds two roots with a number in common.
func (s nestedSets) overlap(e *engine, roots []node) []finding {
	for i, n := range roots {
		if i > 0 && n.left <= roots[i-1].right {
			f := e.finding(WrongRange, node{}, s.o.LeftField, fmt.Sprintf("the roots %s and %s overlap", text(roots[i-1].id), text(n.id)))
			f.renumber = true
			return []finding{f}
		}
	}
	return nil
}

// settle gives all nodes the numbers that follow from their parents, siblings in the
// order of the numbers they have and those without by _id. Nodes on a cycle get
// none. It is one transaction, and holds all shapes in memory. It returns the number
// of nodes written.
func (s nestedSets) settle(ctx context.Context) (written int64, err error) {
	err = s.atomically(ctx, true, func(ctx context.Context) error {
		nodes, err := s.findAll(ctx, s.in(s.o.IDField, d("$ne", nil)), "_id", 1)
		if err != nil {
			return err
		}
		slices.SortStableFunc(nodes, s.compare)
		below, isChild := s.assemble(nodes)
		left, right := make([]int64, len(nodes)), make([]int64, len(nodes))
		next := int64(1)
		type step struct{ node, kid int }
		for root := range nodes {
			if isChild[root] || same(nodes[root].parent, nodes[root].id) {
				continue
			}
			for stack := []step{{root, 0}}; len(stack) > 0; {
				top := &stack[len(stack)-1]
				if top.kid == 0 {
					left[top.node] = next
					next++
				}
				if top.kid < len(below[top.node]) {
					top.kid++
					stack = append(stack, step{below[top.node][top.kid-1], 0})
					continue
				}
				right[top.node] = next
				next++
				stack = stack[:len(stack)-1]
			}
		}
		var models []mongo.WriteModel
		for i, n := range nodes {
			if !s.whole(n) || n.left != left[i] || n.right != right[i] {
				models = append(models, update(s.byID(n.id), d("$set", d(s.o.LeftField, left[i], s.o.RightField, right[i]))))
			}
		}
		written = int64(len(models))
		return s.write(ctx, models...)
	})
	return written, err
}
