package tree

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// siblingOrder keeps siblings in order. It has two implementations: gaps, with or without an OrderField, and the
// numbers of NestedSets.
type siblingOrder interface {
	// checkNumbered refuses a node with numbers that do not tell where it is.
	checkNumbered(n node) error
	// orderAt returns the fields that order a node at a position, and the writes that shift others to make room for it. By
	// numbers a node that moves gets no fields, because the shift takes it along.
	orderAt(ctx context.Context, pos foundPosition) (fields bson.D, shifts []mongo.WriteModel, err error)
	// afterDelete returns the writes that order the children of a deleted node under its heir, or as roots. It also
	// closes the gap of the node.
	afterDelete(ctx context.Context, d deletion) ([]mongo.WriteModel, error)
	// afterCascade returns the writes that close the gap after x and all below it were deleted, that many nodes in all.
	afterCascade(x node, deleted int64) ([]mongo.WriteModel, error)
	// auditNumbers finds numbers that contradict those of the children.
	auditNumbers(e *engine, n node, children []node) []finding
	// orderLast returns, for each document of a Load, the fields that put it after its siblings.
	orderLast(ctx context.Context, items []*item) ([]bson.D, error)
}

// orderGap is the distance between neighbours in OrderField. 16 insertions at one place can halve it before siblings
// have to move.
const orderGap = 1 << 16

// orderMax is the greatest order, and -orderMax the least, that a node may have which gives another its order: no sum or
// difference of three such numbers and some gaps overflows, as where Promote moves siblings up by the distance between
// children. It admits times in nanoseconds, such as those of UnixNano. Greater numbers come from other code, or from a
// Promote between siblings that are as far apart.
const orderMax = math.MaxInt64 / 4

// gaps order siblings by an OrderField; without one siblings are not ordered.
type gaps struct{ parented }

func (s gaps) checkNumbered(node) error                             { return nil }
func (s gaps) afterCascade(node, int64) ([]mongo.WriteModel, error) { return nil, nil }
func (s gaps) auditNumbers(*engine, node, []node) []finding         { return nil }

func (s gaps) orderAt(ctx context.Context, pos foundPosition) (fields bson.D, shifts []mongo.WriteModel, err error) {
	if s.o.OrderField == "" {
		return nil, nil, nil
	}
	var order int64
	if pos.besideSibling() {
		order, shifts, err = s.orderBeside(ctx, pos)
	} else {
		order, err = s.orderUnder(ctx, pos)
	}
	if err != nil {
		return nil, nil, err
	}
	return expr.D(s.o.OrderField, order), shifts, nil
}

// orderUnder is a gap after the last sibling, or before the first.
func (s gaps) orderUnder(ctx context.Context, pos foundPosition) (int64, error) {
	direction, out := -1, int64(orderGap)
	if pos.first {
		direction, out = 1, -orderGap
	}
	outermost, err := s.siblingWith(ctx, pos, anyNumber, direction)
	if err != nil || outermost.raw == nil {
		return 0, err
	}
	return outermost.order + out, s.checkOrder(outermost)
}

// orderBeside is in the middle between the anchor and the next sibling, or one gap from the anchor if it has no
// neighbour there. If there is no room, all siblings after the new place are shifted by one gap, before the node gets its
// order.
func (s gaps) orderBeside(ctx context.Context, pos foundPosition) (order int64, shifts []mongo.WriteModel, err error) {
	if err := s.checkWhole(pos.anchor); err != nil {
		return 0, nil, err
	}
	anchor := pos.anchor.order
	direction, beyond, shifted := 1, "$gt", "$gt"
	if pos.kind == beforeSibling { // the anchor itself is shifted
		direction, beyond, shifted = -1, "$lt", "$gte"
	}
	next, err := s.siblingWith(ctx, pos, expr.Op(beyond, anchor), direction)
	if err != nil {
		return 0, nil, err
	}
	other := anchor + int64(direction)*2*orderGap // so that the middle is one gap away
	if next.raw != nil {
		if err := s.checkWhole(next); err != nil {
			return 0, nil, err
		}
		other = next.order
	}
	low, high := min(anchor, other), max(anchor, other)
	if high-low < 2 {
		after := append(s.siblingsMatch(pos.parent), expr.Element(s.o.OrderField, expr.D(shifted, anchor)))
		shifts = []mongo.WriteModel{update(after, expr.Op("$inc", expr.D(s.o.OrderField, int64(orderGap))))}
		high += orderGap
	}
	return low + (high-low)/2, shifts, nil
}

// anyNumber excludes what sorts before and after numbers.
var anyNumber = expr.Op("$gte", math.Inf(-1))

// checkOrder refuses a node without a number in the OrderField, or with one beside which none can be computed.
func (s gaps) checkOrder(n node) error {
	order := s.field(n.raw, s.o.OrderField)
	switch {
	case order.Type == 0:
		return s.about(n.id, fmt.Errorf("%w: it has no %s, run Repair", mongopatterns.ErrMalformed, s.o.OrderField))
	case !order.IsNumber():
		return s.badOrder(n, "is no number")
	case !hasRoom(order):
		return s.badOrder(n, "leaves no number beside it")
	}
	return nil
}

// checkWhole also refuses a node with a fraction, beside which a whole number may lie on the wrong side.
func (s gaps) checkWhole(n node) error {
	if f, ok := s.field(n.raw, s.o.OrderField).DoubleOK(); ok && f != math.Trunc(f) {
		return s.badOrder(n, "is no whole number")
	}
	return s.checkOrder(n)
}

// badOrder is the error for a node beside which none can be placed.
func (s gaps) badOrder(n node, why string) error {
	return s.about(n.id, fmt.Errorf("%w: %s is %s, which %s, run Repair",
		mongopatterns.ErrMalformed, s.o.OrderField, text(s.field(n.raw, s.o.OrderField)), why))
}

// hasRoom reports whether a number is near enough to 0, and of a type that the library computes with.
func hasRoom(number bson.RawValue) bool {
	switch number.Type {
	case bson.TypeInt64:
		return number.Int64() >= -orderMax && number.Int64() <= orderMax
	case bson.TypeDouble:
		return math.Abs(number.Double()) < orderMax
	}
	return number.Type != bson.TypeDecimal128
}

// siblingWith returns the first sibling with an order within bounds, in a direction, or a node without raw. The node that
// moves does not count.
func (s gaps) siblingWith(ctx context.Context, pos foundPosition, bounds bson.D, direction int) (node, error) {
	match := append(s.siblingsMatch(pos.parent), expr.Element(s.o.OrderField, bounds))
	if pos.moving != nil {
		match = append(match, expr.Element(s.o.IDField, expr.Op("$ne", pos.moving.id)))
	}
	return s.findOne(ctx, match, nil, s.o.OrderField, direction)
}

// afterDelete moves the children of x, all by the same amount: with Promote to its place among its siblings, which make
// room, and otherwise after the roots.
func (s gaps) afterDelete(ctx context.Context, d deletion) (models []mongo.WriteModel, err error) {
	field := s.o.OrderField
	if field == "" || len(d.children) == 0 {
		return nil, nil
	}
	for _, n := range append(slices.Clone(d.children), d.x) {
		if err := s.checkWhole(n); err != nil {
			return nil, err
		}
	}
	byOrder := func(a, b node) int { return cmp.Compare(a.order, b.order) }
	low, high := slices.MinFunc(d.children, byOrder).order, slices.MaxFunc(d.children, byOrder).order
	first := d.x.order
	if d.policy == mongopatterns.Promote {
		models = s.roomForChildren(d, high-low)
	} else if first, err = s.orderAfterRoots(ctx, d.x); err != nil {
		return nil, err
	}
	return append(models, update(s.childrenAndBareMatch(d.x), expr.Op("$inc", expr.D(field, first-low)))), nil
}

// roomForChildren moves the siblings after a deleted node, and conflicts with insertions under the same parent, which
// choose orders without the lock.
func (s gaps) roomForChildren(d deletion, width int64) (models []mongo.WriteModel) {
	if width > 0 {
		after := append(s.siblingsMatch(d.heir), expr.Element(s.o.OrderField, expr.Op("$gt", d.x.order)))
		models = append(models, update(after, expr.Op("$inc", expr.D(s.o.OrderField, width))))
	}
	return append(models, s.holdWrites(d.heir)...)
}

// orderAfterRoots is a gap after the last root, or the order of x if there is none.
func (s gaps) orderAfterRoots(ctx context.Context, x node) (int64, error) {
	last, err := s.findOne(ctx, append(s.rootsMatch(), expr.Element(s.o.OrderField, anyNumber)), nil, s.o.OrderField, -1)
	if err != nil || last.raw == nil {
		return x.order, err
	}
	return last.order + orderGap, s.checkOrder(last)
}

// orderLast numbers all items of a batch after the greatest order that a child of one of their parents has. So one
// query is enough for all parents, and the gaps are larger than needed.
func (s gaps) orderLast(ctx context.Context, items []*item) ([]bson.D, error) {
	field, fields := s.o.OrderField, make([]bson.D, len(items))
	if field == "" {
		return fields, nil
	}
	refs, seen := bson.A{}, map[string]bool{}
	for _, it := range items {
		if k := key(it.parentID); !seen[k] && (it.parent == nil || it.parent.raw != nil) {
			seen[k] = true
			if it.parent == nil {
				refs = append(refs, s.rootRefs()...)
			} else {
				refs = append(refs, s.refTo(it.parent))
			}
		}
	}
	last, err := s.findOne(ctx, expr.D(s.refField, expr.Op("$in", refs), field, anyNumber), nil, field, -1)
	if err != nil {
		return nil, err
	}
	next := int64(0)
	if last.raw != nil {
		next = last.order + orderGap
		if err := s.checkOrder(last); err != nil {
			return nil, err
		}
	}
	for i := range items {
		fields[i] = expr.D(field, next)
		next += orderGap
	}
	return fields, nil
}

// orderOf is the order of a node among its siblings. A node without a whole number comes last.
func (s *store) orderOf(n node) int64 {
	if order, ok := integral(s.field(n.raw, s.sortField)); ok {
		return order
	}
	return math.MaxInt64
}

// fixOrder returns the writes that give siblings, which come sorted, distinct whole numbers. Siblings keep the numbers
// they have, and those without one come after them. If two have the same number, or one has a number beyond orderMax or so
// near to it that the others find no room, all are renumbered.
func (s *store) fixOrder(siblings []node) (models []mongo.WriteModel) {
	field := s.sortField
	if field == "" {
		return nil
	}
	siblings = slices.Clone(siblings)
	slices.SortStableFunc(siblings, func(a, b node) int { return cmp.Compare(s.orderOf(a), s.orderOf(b)) })
	start, next := 0, int64(0) // from where on, and with what number
	for start < len(siblings) && s.orderOf(siblings[start]) != math.MaxInt64 {
		order := s.orderOf(siblings[start])
		if order < -orderMax || order > orderMax || start > 0 && order == s.orderOf(siblings[start-1]) {
			start, next = 0, 0
			break
		}
		start, next = start+1, order+orderGap
	}
	if rest := int64(len(siblings) - start); rest > 0 && next > orderMax-rest*orderGap { // no room for those without a number
		start, next = 0, 0
	}
	for _, n := range siblings[start:] {
		models = append(models, update(s.idMatch(n.id), expr.Op("$set", expr.D(field, next))))
		next += orderGap
	}
	return models
}
