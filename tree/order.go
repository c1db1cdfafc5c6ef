package tree

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// placeKind says where a position is, in relation to the node that it names.
type placeKind int

const (
	atRoot placeKind = iota
	underParent
	beforeSibling
	afterSibling
)

// Position is a place in the tree for Insert, Move and Load. Make one with Tree.AsRoot, Under, Before or After;
// the zero value is AsRoot.
type Position[ID any] struct {
	at  position
	err error
}

// First puts the node before its siblings instead of after them. It needs ordered siblings, which the roots of
// ChildReferences are not: otherwise the call that gets the Position returns mongopatterns.ErrInvalid. It has no effect
// on Before and After.
func (p Position[ID]) First() Position[ID] {
	p.at.first = !p.at.sibling()
	return p
}

// AsRoot is the position of a root, after the other roots if the tree orders them.
func (t *Tree[ID, T]) AsRoot() Position[ID] { return Position[ID]{} }

// Under is the position after the other children of parent.
func (t *Tree[ID, T]) Under(parent ID) Position[ID] { return t.position(underParent, parent) }

// Before is the position right before a sibling. It needs ordered siblings, as First.
func (t *Tree[ID, T]) Before(sibling ID) Position[ID] { return t.position(beforeSibling, sibling) }

// After is the position right after a sibling. It needs ordered siblings, as First.
func (t *Tree[ID, T]) After(sibling ID) Position[ID] { return t.position(afterSibling, sibling) }

// position keeps an error for the call that gets the Position, so that Under and the others return one value.
func (t *Tree[ID, T]) position(kind placeKind, id ID) Position[ID] {
	ref, err := t.c.id(id)
	return Position[ID]{position{kind: kind, ref: ref}, err}
}

// position is a Position without its type parameter.
type position struct {
	kind  placeKind
	ref   bson.RawValue // the ID of the parent or sibling
	first bool
}

func (p position) sibling() bool { return p.kind == beforeSibling || p.kind == afterSibling }

// end is the index in the children of a parent for a position under it, -1 after the last.
func (p position) end() int {
	if p.first {
		return 0
	}
	return -1
}

// positionUnder is the position under a parent, null for the roots.
func positionUnder(parent bson.RawValue) position {
	if isNull(parent) {
		return position{}
	}
	return position{kind: underParent, ref: parent}
}

// target is the place where Insert or Move stores a node.
type target struct {
	parent *node              // nil for a root
	fields bson.D             // the fields that order it among its siblings
	first  []mongo.WriteModel // writes to other nodes, which make room
}

// siblingOrder keeps siblings in order. It has two implementations: gaps, with or without an OrderField, and the
// numbers of NestedSets.
type siblingOrder interface {
	// alwaysLocks reports whether every write takes the lock.
	alwaysLocks() bool
	// checkNumbered refuses a node with numbers that do not tell where it is.
	checkNumbered(n node) error
	// orderAt sets fields and first of a target that has its parent. ref is the node that the position names, and x
	// the node that moves there, without raw if it is new.
	orderAt(ctx context.Context, to *target, pos position, ref, x node) error
	// afterDelete returns the writes that order the children of a deleted x at their new place: under to, or as roots
	// if to is nil. It also closes the gap of x.
	afterDelete(ctx context.Context, x node, to *node, children []node, policy mongopatterns.DeletePolicy) ([]mongo.WriteModel, error)
	// afterCascade returns the writes that close the gap after x and all below it were deleted, that many nodes in all.
	afterCascade(x node, deleted int64) ([]mongo.WriteModel, error)
	// width, renumber, audit and auditRoots are those of shape.
	width(n node) (descendants int64, known bool)
	renumber(ctx context.Context, dry bool) (written int64, err error)
	audit(e *engine, n node, s *place, children []node) []finding
	auditRoots(e *engine, roots []node) []finding
	// orderLast returns, for each document of a Load, the fields that put it after its siblings.
	orderLast(ctx context.Context, items []*item) ([]bson.D, error)
}

// orderGap is the distance between neighbours in OrderField. 16 insertions at one place can halve it before siblings
// have to move.
const orderGap = 1 << 16

// gaps order siblings by an OrderField; without one siblings are not ordered.
type gaps struct{ linked }

func (g gaps) alwaysLocks() bool                                    { return false }
func (g gaps) checkNumbered(node) error                             { return nil }
func (g gaps) afterCascade(node, int64) ([]mongo.WriteModel, error) { return nil, nil }
func (g gaps) width(node) (int64, bool)                             { return 0, false }
func (g gaps) renumber(context.Context, bool) (int64, error)        { return 0, nil }
func (g gaps) auditRoots(*engine, []node) []finding                 { return nil }

// checkPosition refuses positions among siblings that are not ordered.
func (l linked) checkPosition(pos position) error {
	if l.order == "" && (pos.first || pos.sibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

// orderAt lets a move write to the new parent, too. Insertions under it choose positions without the lock, and must
// conflict with this one.
func (g gaps) orderAt(ctx context.Context, to *target, pos position, ref, x node) error {
	if g.o.OrderField == "" {
		return nil
	}
	at, room, err := g.between(ctx, g.childrenUnder(to.parent), pos, ref, x.id)
	if err != nil {
		return err
	}
	to.fields, to.first = expr.D(g.o.OrderField, at), room
	if x.raw != nil {
		to.first = append(to.first, g.marked(to.parent)...)
	}
	return nil
}

// between finds the order of a node at a position among siblings. self is the ID of the node if it moves: its old order
// does not count. If there is no room next to the sibling, all siblings after it move up by one gap; room is that
// write, which has to come first.
func (g gaps) between(ctx context.Context, siblings bson.D, pos position, sibling node,
	self bson.RawValue) (at int64, room []mongo.WriteModel, err error) {
	field := g.o.OrderField
	// edge returns the first order within bounds, in ascending or descending direction, or otherwise if there is none.
	edge := func(dir int, otherwise int64, bounds ...any) (int64, error) {
		match := append(slices.Clone(siblings), expr.D(bounds...)...)
		if self.Type != 0 {
			match = append(match, expr.Element(g.o.IDField, expr.Op("$ne", self)))
		}
		n, err := g.findOne(ctx, match, nil, field, dir)
		if err != nil || n.raw == nil {
			return otherwise, err
		}
		return n.order, nil
	}
	if !pos.sibling() {
		dir, out := -1, int64(orderGap) // a gap after the last
		if pos.first {
			dir, out = 1, -orderGap
		}
		at, err := edge(dir, -out, field, expr.Op("$lt", int64(math.MaxInt64-orderGap)))
		return at + out, nil, err
	}
	low, high, bound := sibling.order, sibling.order, "$gt" // the neighbours; a missing one is a gap away
	if pos.kind == afterSibling {
		high, err = edge(1, low+2*orderGap, field, expr.Op("$gt", low))
	} else {
		bound = "$gte"
		low, err = edge(-1, high-2*orderGap, field, expr.Op("$lt", high))
	}
	if err != nil {
		return 0, nil, err
	}
	if high-low < 2 {
		after := append(slices.Clone(siblings), expr.Element(field, expr.D(bound, sibling.order)))
		room = []mongo.WriteModel{update(after, expr.Op("$inc", expr.D(field, int64(orderGap))))}
		high += orderGap
	}
	return low + (high-low)/2, room, nil
}

// afterDelete moves the children of x, all by the same amount: with Promote to its place among its siblings, which make
// room, and otherwise after the roots.
func (g gaps) afterDelete(ctx context.Context, x node, to *node, children []node, policy mongopatterns.DeletePolicy) (
	models []mongo.WriteModel, err error) {
	field := g.o.OrderField
	if field == "" || len(children) == 0 {
		return nil, nil
	}
	first, low, high := x.order, children[0].order, children[0].order
	for _, n := range children {
		low, high = min(low, n.order), max(high, n.order)
	}
	if policy == mongopatterns.Promote {
		if high > low {
			after := append(g.childrenUnder(to), expr.Element(field, expr.Op("$gt", x.order)))
			models = append(models, update(after, expr.Op("$inc", expr.D(field, high-low))))
		}
		// Insertions under the same parent choose positions without the lock.
		models = append(models, g.marked(to)...)
	} else {
		last, err := g.findOne(ctx, g.rootsMatch(), nil, field, -1)
		if err != nil {
			return nil, err
		}
		if last.raw != nil {
			first = last.order + orderGap
		}
	}
	return append(models, update(g.allChildren(x), expr.Op("$inc", expr.D(field, first-low)))), nil
}

// orderLast numbers all items of a batch after the greatest order that a child of one of their parents has. So one
// query is enough for all parents, and the gaps are larger than needed.
func (g gaps) orderLast(ctx context.Context, items []*item) ([]bson.D, error) {
	field, fields := g.o.OrderField, make([]bson.D, len(items))
	if field == "" {
		return fields, nil
	}
	at, seen := bson.A{}, map[string]bool{}
	for _, it := range items {
		if k := key(it.above); !seen[k] && (it.parent == nil || it.parent.raw != nil) {
			seen[k] = true
			if it.parent == nil {
				at = append(at, g.rootRefs()...)
			} else {
				at = append(at, g.refTo(it.parent))
			}
		}
	}
	siblings := g.in(g.refField, expr.Op("$in", at), field, expr.Op("$lt", int64(math.MaxInt64-orderGap)))
	last, err := g.findOne(ctx, siblings, nil, field, -1)
	if err != nil {
		return nil, err
	}
	next := int64(0)
	if last.raw != nil {
		next = last.order + orderGap
	}
	for i := range items {
		fields[i] = expr.D(field, next)
		next += orderGap
	}
	return fields, nil
}

// orderOf is the order of a node among its siblings. A node without a whole number comes last.
func (s *store) orderOf(n node) int64 {
	if at, ok := integral(s.field(n.raw, s.order)); ok && at <= math.MaxInt64-orderGap {
		return at
	}
	return math.MaxInt64
}

// fixOrder returns the writes that give siblings, which come sorted, distinct whole numbers. Siblings keep the numbers
// they have, and those without one follow in their order. If two have the same number, all are renumbered.
func (s *store) fixOrder(siblings []node) (models []mongo.WriteModel) {
	field := s.order
	if field == "" {
		return nil
	}
	siblings = slices.Clone(siblings)
	slices.SortStableFunc(siblings, func(a, b node) int { return cmp.Compare(s.orderOf(a), s.orderOf(b)) })
	start, next := 0, int64(0) // from where on, and with what number
	for start < len(siblings) && s.orderOf(siblings[start]) != math.MaxInt64 {
		at := s.orderOf(siblings[start])
		if start > 0 && at == s.orderOf(siblings[start-1]) {
			start, next = 0, 0
			break
		}
		start, next = start+1, at+orderGap
	}
	for _, n := range siblings[start:] {
		models = append(models, update(s.byID(n.id), expr.Op("$set", expr.D(field, next))))
		next += orderGap
	}
	return models
}

// audit reports an ID, or a segment, that cannot be in a path.
func (g gaps) audit(e *engine, n node, _ *place, _ []node) []finding {
	if g.checkUsable(n) == nil {
		return nil
	}
	return []finding{one(n, e.problem(mongopatterns.WrongField, n, g.segmentField(), g.checkSegment(n).Error()))}
}
