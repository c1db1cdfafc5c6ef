package tree

import (
	"context"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// nestedSets: {_id, left, right, parent}. The numbers of a node enclose those of its descendants, and children
// fill the range of their parent without gaps. The parent field decides where a node is, so nestedSets
// embeds parentRefs. The numbers say what is below a node. The type numbers writes them, as the order of siblings.
type nestedSets struct{ parentRefs }

// nestedLayout has {left, right} in an index for subtrees, and {parent, left} for children in order.
func nestedLayout(o Options) layout {
	return layout{fields: []string{o.ParentField, o.LeftField, o.RightField}, extraIndex: []string{o.LeftField, o.RightField},
		refField: o.ParentField, sortField: o.LeftField, byParentField: true, derived: o.LeftField,
		numbered: true, descendantsFrom: fromNode}
}

// liesBelow reports whether the number at the position is in the range of x.
func (s nestedSets) liesBelow(x node, to foundPosition) (below, known bool) {
	left := leftByAnchor(to)
	return left > x.left && left <= x.right, true
}

// down joins the nodes in the range of the node. A range does not tell the depth, so to a depth it searches by
// the parent fields.
func (s nestedSets) down(id any, depth int, self bool) mongo.Pipeline {
	if depth > 0 {
		return s.parentRefs.down(id, depth, self)
	}
	left := expr.Field(s.o.LeftField)
	stages := mongo.Pipeline{
		expr.Op("$match", s.inJoin(expr.Element("$expr", expr.Op("$and",
			expr.Op("$gt", left, expr.Var("from")), expr.Op("$lt", left, expr.Var("to")))))),
	}
	return s.rangeDown(id, [2]any{left, expr.Field(s.o.RightField)}, stages, self)
}

func (s nestedSets) descendantsMatch(n node, _ int) bson.D {
	return expr.D(s.o.LeftField, expr.D("$gt", n.left, "$lt", n.right))
}

// numbers keeps siblings in order, and each subtree in a range: left and right of NestedSets.
type numbers struct{ parented }

// stretch is a range of numbers that move by the same amount; both ends belong to it.
type stretch struct{ from, to, by int64 }

// shift moves all stretches in one write, because a second write would take numbers that the first has moved
// for its own. It examines the index up to the last number that moves.
func (s numbers) shift(stretches ...stretch) mongo.WriteModel {
	low, high := int64(math.MaxInt64), int64(0)
	for _, m := range stretches {
		low, high = min(low, m.from), max(high, m.to)
	}
	moved := func(name string) bson.D {
		f, branches := expr.Field(name), bson.A{}
		for _, m := range stretches {
			branches = append(branches, expr.D(
				"case", expr.Op("$and", expr.Op("$gte", f, m.from), expr.Op("$lte", f, m.to)),
				"then", expr.Op("$add", f, m.by)))
		}
		return expr.Op("$switch", expr.D("branches", branches, "default", f))
	}
	return update(expr.D(s.o.LeftField, expr.Op("$lte", high), s.o.RightField, expr.Op("$gte", low)),
		mongo.Pipeline{expr.Op("$set", expr.D(s.o.LeftField, moved(s.o.LeftField), s.o.RightField, moved(s.o.RightField)))})
}

// checkNumbered refuses a node without numbers, or with numbers that enclose nothing. A shift beside such a node would
// give two nodes the same numbers.
func (s numbers) checkNumbered(n node) error {
	if n.left == 0 && n.right == 0 {
		return s.about(n.id, fmt.Errorf("%w: it has no %s and %s, run Adopt or Repair",
			mongopatterns.ErrNotAdopted, s.o.LeftField, s.o.RightField))
	}
	if n.left < 1 || n.right <= n.left {
		return s.about(n.id, fmt.Errorf("%w: %s, run Repair", mongopatterns.ErrMalformed, s.rangeText(n)))
	}
	return nil
}

// rangeText is the range of a node for an error.
func (s numbers) rangeText(n node) string {
	return fmt.Sprintf("%s is %d and %s is %d", s.o.LeftField, n.left, s.o.RightField, n.right)
}

// orderAt gives a new node two numbers, and everything from there on is shifted by 2. A node that moves is shifted itself.
func (s numbers) orderAt(ctx context.Context, pos foundPosition) (fields bson.D, shifts []mongo.WriteModel, err error) {
	left, err := s.leftAt(ctx, pos)
	if err != nil {
		return nil, nil, err
	}
	if pos.moving != nil {
		return nil, s.swap(*pos.moving, left), nil
	}
	if pos.kind != atRoot || pos.first {
		shifts = []mongo.WriteModel{s.shift(stretch{left, math.MaxInt64, 2})}
	}
	return expr.D(s.o.LeftField, left, s.o.RightField, left+1), shifts, nil
}

// swap exchanges the range of x and the numbers between it and its new left; the numbers beyond these do not change.
func (s numbers) swap(x node, left int64) []mongo.WriteModel {
	width := x.right - x.left + 1
	switch {
	case left > x.right+1:
		return []mongo.WriteModel{s.shift(stretch{x.left, x.right, left - 1 - x.right}, stretch{x.right + 1, left - 1, -width})}
	case left < x.left:
		return []mongo.WriteModel{s.shift(stretch{x.left, x.right, left - x.left}, stretch{left, x.left - 1, width})}
	}
	return nil
}

// leftAt returns the left of a node at a position, as numbered before it comes there.
func (s numbers) leftAt(ctx context.Context, pos foundPosition) (int64, error) {
	if pos.kind == atRoot {
		return s.rootLeft(ctx, pos.first)
	}
	return leftByAnchor(pos), nil
}

// leftByAnchor is leftAt for a position with an anchor, whose numbers were checked.
func leftByAnchor(pos foundPosition) int64 {
	switch pos.kind {
	case beforeSibling:
		return pos.anchor.left
	case afterSibling:
		return pos.anchor.right + 1
	}
	if pos.first { // under the anchor
		return pos.anchor.left + 1
	}
	return pos.anchor.right
}

// rootLeft returns the left of a new first or last root.
func (s numbers) rootLeft(ctx context.Context, first bool) (int64, error) {
	if !first {
		last, err := s.lastNumber(ctx)
		return last + 1, err
	}
	n, err := s.findOne(ctx, expr.D(s.o.LeftField, expr.Op("$gte", 1)), nil, s.o.LeftField, 1)
	return max(n.left, 1), err
}

// lastNumber returns the greatest number in the tree. It is the right of the last root, except where orphans or
// the nodes of an unfinished Load come after it. New numbers must not meet theirs.
func (s numbers) lastNumber(ctx context.Context) (int64, error) {
	root, err := s.findOne(ctx, s.rootsMatch(), nil, s.o.LeftField, -1)
	if err != nil {
		return 0, err
	}
	last := max(root.left, root.right, 0)
	after, err := s.findOne(ctx, expr.D(s.o.LeftField, expr.Op("$gt", last)), nil, s.o.RightField, -1)
	return max(last, after.left, after.right), err
}

// afterDelete closes the gap that x leaves. With Promote the children stay where they are and move by 1, because
// only the left of x was before them. With Unlink they move behind the last root.
func (s numbers) afterDelete(ctx context.Context, d deletion) ([]mongo.WriteModel, error) {
	x := d.x
	inner, after := int64(-1), stretch{x.right + 1, math.MaxInt64, -2}
	if d.policy == mongopatterns.Unlink && len(d.children) > 0 {
		last, err := s.lastNumber(ctx)
		if err != nil {
			return nil, err
		}
		width := x.right - x.left + 1
		inner, after.by = max(last, x.right)-width-x.left, -width
	}
	return []mongo.WriteModel{s.shift(after, stretch{x.left + 1, x.right - 1, inner})}, nil
}

// afterCascade closes the gap of a deleted subtree. It refuses if the range held more or fewer nodes than its width:
// then nodes of others were in it, or some of the subtree lie elsewhere, and the transaction must not commit.
func (s numbers) afterCascade(x node, deleted int64) ([]mongo.WriteModel, error) {
	width := x.right - x.left + 1
	if deleted != width/2 {
		return nil, s.about(x.id, fmt.Errorf("%w: %s, but this range has %d nodes, run Repair", mongopatterns.ErrMalformed, s.rangeText(x), deleted))
	}
	return []mongo.WriteModel{s.shift(stretch{x.right + 1, math.MaxInt64, -width})}, nil
}

// orderLast gives the documents of a Load provisional numbers after all others, in the range of no node. So a
// batch does not shift the whole tree; renumber gives the final numbers once, at the end.
func (s numbers) orderLast(ctx context.Context, items []*item) ([]bson.D, error) {
	last, err := s.lastNumber(ctx)
	if err != nil {
		return nil, err
	}
	fields := make([]bson.D, len(items))
	for i := range items {
		number := last + 1 + int64(i)
		fields[i] = expr.D(s.o.LeftField, number, s.o.RightField, number)
	}
	return fields, nil
}
