package tree

import (
	"context"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// nestedSets: {_id, left, right, parent}. A node's numbers enclose those of its descendants; children fill
// their parent's range without gaps. It is parentRefs, with siblings in the order of numbers: these are the
// business of numbers, also in a move.
type nestedSets struct{ *store }

func nestedLayout(o *Options) layout {
	return layout{settings: []config.Setting{config.Name("Options.LeftField", &o.LeftField, "left"),
		config.Name("Options.RightField", &o.RightField, "right"),
		config.Name("Options.ParentField", &o.ParentField, "parent")},
		fields: []string{o.ParentField, o.LeftField, o.RightField}, index: []string{o.LeftField, o.RightField},
		link: o.ParentField, order: o.LeftField, keepsParent: true, derived: o.LeftField}
}

func (s nestedSets) parent(n node) (node, string)              { return s.namedParent(n) }
func (s nestedSets) place(parent *node) bson.D                 { return s.parentPlace(parent) }
func (s nestedSets) below(x node, to *node) []mongo.WriteModel { return s.adoptChildren(x, to) }
func (s nestedSets) reference() any                            { return expr.Field(s.o.IDField) }
func (s nestedSets) up(levels int) mongo.Pipeline              { return s.parentUp(levels) }
func (s nestedSets) above(node) []bson.RawValue                { return nil }

func (s nestedSets) down(id any, depth int, self bool) mongo.Pipeline {
	if depth > 0 {
		return s.parentDown(id, depth, self)
	}
	left := expr.Field(s.o.LeftField)
	within := mongo.Pipeline{
		s.match("$expr", expr.Op("$and", expr.Op("$gt", left, expr.Var("from")), expr.Op("$lt", left, expr.Var("to")))),
	}
	return s.rangeDown(id, left, expr.Field(s.o.RightField), within, self)
}

func (s nestedSets) under(n node, depth int) (bson.D, bool) {
	if depth > 0 {
		return nil, false
	}
	return s.in(s.o.LeftField, d("$gt", n.left, "$lt", n.right)), true
}

// numbers keep siblings in order, and subtrees in ranges: left and right of NestedSets. Every write of them takes
// the lock.
type numbers struct{ linked }

func (s numbers) serial() bool { return true }

// width is the number of descendants.
func (s numbers) width(n node) int64 { return max(n.right-n.left, 1) / 2 }

// stretch is a range of numbers that move by the same amount.
type stretch struct{ from, to, by int64 }

// shift moves numbers in one write. It reads the index up to the last number that moves.
func (s numbers) shift(stretches ...stretch) mongo.WriteModel {
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

func (s numbers) numbered(n node) error {
	if n.left == 0 && n.right == 0 {
		return fmt.Errorf("%w: %s has no left and right, run Adopt or Repair", ErrNotAdopted, text(n.id))
	}
	if n.left < 1 || n.right <= n.left {
		return fmt.Errorf("node %s has left %d and right %d, run Repair", text(n.id), n.left, n.right)
	}
	return nil
}

// choose finds the number at which a node begins, and makes room for it. A move changes the numbers of x, too.
func (s numbers) choose(ctx context.Context, to *target, pos position, ref, x node) error {
	at, err := s.number(ctx, pos, ref)
	switch {
	case err != nil:
		return err
	case x.raw == nil:
		to.fields = d(s.o.LeftField, at, s.o.RightField, at+1)
		if pos.kind != atRoot || pos.first {
			to.first = []mongo.WriteModel{s.shift(stretch{at, math.MaxInt64, 2})}
		}
		return nil
	}
	width := x.right - x.left + 1
	switch {
	case at > x.left && at <= x.right:
		return cycle(x.id)
	case at > x.right+1:
		to.first = []mongo.WriteModel{s.shift(stretch{x.left, x.right, at - 1 - x.right}, stretch{x.right + 1, at - 1, -width})}
	case at < x.left:
		to.first = []mongo.WriteModel{s.shift(stretch{x.left, x.right, at - x.left}, stretch{at, x.left - 1, width})}
	}
	return nil
}

// number is where a node begins at a position; ref is the node in it.
func (s numbers) number(ctx context.Context, pos position, ref node) (int64, error) {
	switch {
	case pos.kind == atRoot && pos.first:
		n, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gte", 1)), nil, s.o.LeftField, 1)
		return max(n.left, 1), err
	case pos.kind == atRoot:
		last, err := s.lastNumber(ctx)
		return last + 1, err
	case s.numbered(ref) != nil:
		return 0, s.numbered(ref)
	case pos.kind == beforeSibling:
		return ref.left, nil
	case pos.kind == afterSibling:
		return ref.right + 1, nil
	case pos.first:
		return ref.left + 1, nil
	}
	return ref.right, nil
}

// lastNumber is the greatest number: the right of the last root, unless orphans or the nodes of an unfinished
// Load are after it.
func (s numbers) lastNumber(ctx context.Context) (int64, error) {
	root, err := s.findOne(ctx, s.rootsMatch(), nil, s.o.LeftField, -1)
	if err != nil {
		return 0, err
	}
	last := max(root.left, root.right, 0)
	after, err := s.findOne(ctx, s.in(s.o.LeftField, d("$gt", last)), nil, s.o.RightField, -1)
	return max(last, after.left, after.right), err
}

// succeed closes the gap of x. Its children keep their place, or move behind the roots.
func (s numbers) succeed(ctx context.Context, x node, _ *node, children []node, policy DeletePolicy) ([]mongo.WriteModel, error) {
	inner, after := int64(-1), stretch{x.right + 1, math.MaxInt64, -2}
	if policy == MakeRoots && len(children) > 0 {
		last, err := s.lastNumber(ctx)
		if err != nil {
			return nil, err
		}
		width := x.right - x.left + 1
		inner, after.by = max(last, x.right)-width-x.left, -width
	}
	return []mongo.WriteModel{s.shift(after, stretch{x.left + 1, x.right - 1, inner})}, nil
}

// closeUp closes the gap of a range, if it held as many nodes as it should.
func (s numbers) closeUp(x node, deleted int64) ([]mongo.WriteModel, error) {
	width := x.right - x.left + 1
	if deleted != width/2 {
		return nil, fmt.Errorf("node %s has left %d and right %d, where %d nodes are: run Repair", text(x.id), x.left, x.right, deleted)
	}
	return []mongo.WriteModel{s.shift(stretch{x.right + 1, math.MaxInt64, -width})}, nil
}

// extend numbers the documents of a Load provisionally, after all others and in no one's range; settle gives
// the final numbers.
func (s numbers) extend(ctx context.Context, items []*item) ([]bson.D, error) {
	last, err := s.lastNumber(ctx)
	fields := make([]bson.D, len(items))
	for i := range items {
		at := last + 1 + int64(i)
		fields[i] = d(s.o.LeftField, at, s.o.RightField, at)
	}
	return fields, err
}

// Maintenance.

func (s numbers) whole(n node) bool {
	_, left := integral(n.raw.Lookup(s.o.LeftField))
	_, right := integral(n.raw.Lookup(s.o.RightField))
	return left && right
}

// audit compares the range of a node with those of its children, which fill it. Those of the roots only may not
// overlap.
func (s numbers) audit(e *engine, n node, children []node) []finding {
	next, detail := n.left+1, ""
	for i, child := range children {
		if detail == "" && (n.raw != nil && child.left != next || i > 0 && child.left < next) {
			detail = fmt.Sprintf("%s begins at %d, not at %d", text(child.id), child.left, next)
		}
		next = child.right + 1
	}
	switch {
	case n.raw == nil:
	case s.numbered(n) != nil || !s.whole(n):
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
func (s numbers) settle(ctx context.Context, dry bool) (written int64, err error) {
	err = s.atomically(ctx, !dry, func(ctx context.Context) error {
		nodes, err := s.aggregate(ctx, mongo.Pipeline{s.match(s.o.IDField, d("$ne", nil)), expr.Op("$sort", d("_id", 1))})
		if err != nil {
			return err
		}
		links, below := make([]link, len(nodes)), make([][]int, len(nodes))
		for i, n := range nodes {
			up, broken := s.parent(n)
			links[i] = s.linkOf(n, up, broken, i)
		}
		s.assemble(links, func(parent, child int) { below[parent] = append(below[parent], child) })
		left, right := make([]int64, len(nodes)), make([]int64, len(nodes))
		next := int64(0)
		var number func(i int)
		number = func(i int) {
			next++
			left[i] = next
			for _, child := range below[i] {
				number(child)
			}
			next++
			right[i] = next
		}
		for _, n := range links {
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
