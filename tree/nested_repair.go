package tree

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// whole reports whether both numbers are stored as whole numbers: integer, which parse uses, cuts fractions off and
// reads a missing field as 0.
func (s numbers) whole(n node) bool {
	_, left := integral(n.raw.Lookup(s.o.LeftField))
	_, right := integral(n.raw.Lookup(s.o.RightField))
	return left && right
}

// auditNumbers compares the range of a node with those of its children, which have to fill it.
func (s numbers) auditNumbers(e *engine, n node, children []node) []finding {
	if s.checkNumbered(n) != nil || !s.whole(n) {
		return s.misnumbered(e, n, fmt.Sprintf("%s is %s, %s is %s", s.o.LeftField, text(n.raw.Lookup(s.o.LeftField)),
			s.o.RightField, text(n.raw.Lookup(s.o.RightField))))
	}
	next := n.left + 1
	for _, child := range children {
		if child.left != next {
			return s.misnumbered(e, n, misplacedBeginning(child, next))
		}
		next = child.right + 1
	}
	if next != n.right {
		return s.misnumbered(e, n, fmt.Sprintf("right is %d, the children end at %d", n.right, next-1))
	}
	return nil
}

// auditRoots looks for overlaps, because between roots there may be gaps.
func (s numbers) auditRoots(e *engine, roots []node) []finding {
	for i := 1; i < len(roots); i++ {
		if next := roots[i-1].right + 1; roots[i].left < next {
			return s.misnumbered(e, noNode, misplacedBeginning(roots[i], next))
		}
	}
	return nil
}

func misplacedBeginning(n node, next int64) string {
	return fmt.Sprintf("%s begins at %d, not at %d", text(n.id), n.left, next)
}

func (s numbers) misnumbered(e *engine, n node, detail string) []finding {
	f := findingOf(n, e.problem(mongopatterns.WrongField, n, s.o.LeftField, detail))
	f.remedy = byRenumbering
	return []finding{f}
}

// renumber numbers all nodes anew from their parent fields, and returns how many got other numbers. Siblings
// keep the order of the numbers they have; those without numbers come last, by _id. Nodes on or below a cycle get 0. It
// holds the shapes of all nodes in memory, and runs in one transaction, because half of a new numbering is wrong. run is
// withLock or like it, for a dry run atomically.
func (s numbers) renumber(ctx context.Context, run func(context.Context, func(context.Context) error) error,
	dry bool) (written int64, err error) {
	err = run(ctx, func(ctx context.Context) error {
		nodes, err := s.aggregate(ctx, mongo.Pipeline{expr.Op("$match", s.nodesMatch()), expr.Op("$sort", expr.D("_id", 1))})
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		for i, r := range s.newRanges(nodes) {
			if n := nodes[i]; !s.whole(n) || n.left != r.left || n.right != r.right {
				models = append(models, update(s.idMatch(n.id), expr.Op("$set", expr.D(s.o.LeftField, r.left, s.o.RightField, r.right))))
			}
		}
		written = int64(len(models))
		if dry {
			return nil
		}
		return s.write(ctx, models...)
	})
	if err != nil {
		return 0, err
	}
	return written, nil
}

// span is the range of a node.
type span struct{ left, right int64 }

// newRanges numbers nodes from their parent fields.
func (s numbers) newRanges(nodes []node) []span {
	pieces, below := make([]piece, len(nodes)), make([][]int, len(nodes))
	for i, n := range nodes {
		parent, broken := s.representation.parent(n)
		pieces[i] = s.pieceOf(n, parent, broken, i)
	}
	s.assemble(pieces, func(parent, child int) { below[parent] = append(below[parent], child) })
	ranges, next := make([]span, len(nodes)), int64(0)
	var number func(i int)
	number = func(i int) {
		next++
		ranges[i].left = next
		for _, child := range below[i] {
			number(child)
		}
		next++
		ranges[i].right = next
	}
	for _, n := range pieces {
		if !n.child && n.parent != n.id {
			number(n.index)
		}
	}
	return ranges
}
