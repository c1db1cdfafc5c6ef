package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// oneParent implements the calls in the four representations in which a node names one parent.
type oneParent struct {
	parented
	siblingOrder
}

// checkSound refuses a node if its fields do not tell where it is, or contradict each other. It cannot move then, because
// the move could close a cycle, and no node can be placed under it, because the fields of that would be wrong as well.
func (s oneParent) checkSound(n node) error {
	return cmp.Or(s.checkNotBare(n), s.checkAncestors(n), s.checkUsable(n.ref), s.siblingOrder.checkNumbered(n))
}

// checkAncestors refuses a node with an array of ancestors that does not end with its parent.
func (s oneParent) checkAncestors(n node) error {
	if !s.tellsAncestors() || !s.byParentField {
		return nil
	}
	last := value.Null
	if above := s.representation.above(n, n.id); len(above) > 0 {
		last = above[len(above)-1]
	}
	if same(last, n.parent) {
		return nil
	}
	return s.about(n.id, fmt.Errorf("%w: the parent is %s and %s is %s, run Adopt or Repair", mongopatterns.ErrNotAdopted,
		text(n.parent), s.derived, text(n.raw.Lookup(s.derived))))
}

// checkPosition refuses positions among siblings that are not ordered.
func (s oneParent) checkPosition(pos position) error {
	if s.sortField == "" && (pos.first || pos.besideSibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

// insert writes to the parent, so that it conflicts with a concurrent move or deletion of the parent, without the lock.
// It takes the lock in nested sets, which shift numbers everywhere, and beside a root or a sibling, where there may
// be no parent to write to.
func (s oneParent) insert(ctx context.Context, d newDocument, pos position) error {
	if err := s.checkPosition(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && s.sortField == "" {
		_, err := fault.One(s.durable.InsertOne(ctx, d.with(s.representation.fieldsUnder(nil)).doc))
		return err
	}
	run := s.withLock
	if pos.kind == underParent && !s.numbered {
		run = s.atomically
	}
	return run(ctx, func(ctx context.Context) error {
		found, err := s.holdPosition(ctx, pos)
		if err != nil {
			return err
		}
		if err := cmp.Or(s.checkSameIDType(d.id, found.parent), s.checkNotAbove(d.id, found.parent)); err != nil {
			return err
		}
		orderFields, shifts, err := s.siblingOrder.orderAt(ctx, found)
		if err != nil {
			return err
		}
		if err := s.write(ctx, append(s.countAfterHold(found.parent), shifts...)...); err != nil {
			return err
		}
		return s.insertUnder(ctx, d.with(s.fieldsInOrder(found.parent, orderFields)), found.parent)
	})
}

// holdPosition reads the nodes of a position for a new node, and holds the parent.
func (s oneParent) holdPosition(ctx context.Context, pos position) (found foundPosition, err error) {
	switch pos.kind {
	case atRoot:
		return foundPosition{position: pos}, nil
	case underParent:
		parent, err := s.holdParent(ctx, s.idMatch(pos.anchorID), s.missingAnchor(pos))
		if err != nil {
			return found, err
		}
		return foundPosition{position: pos, anchor: *parent, parent: parent}, nil
	}
	anchor, err := s.findOne(ctx, s.idMatch(pos.anchorID), s.missingAnchor(pos))
	if err != nil {
		return found, err
	}
	return s.positionBeside(ctx, pos, anchor, s.holdParent)
}

// holdParent reads a parent for a new node so that nobody moves or deletes it: by holdAndRead, which also counts the
// child. In NestedSets the lock sees to that, and reading is enough.
func (s oneParent) holdParent(ctx context.Context, match bson.D, ifMissing error) (*node, error) {
	if s.numbered {
		return s.readParent(ctx, match, ifMissing)
	}
	n, err := s.holdAndRead(ctx, match, ifMissing)
	if err != nil {
		return nil, err
	}
	return &n, s.checkSound(n)
}

// countAfterHold returns the write that counts a new child where holdParent has only read the parent.
func (s oneParent) countAfterHold(parent *node) []mongo.WriteModel {
	if parent == nil || !s.numbered {
		return nil
	}
	return s.changeChildCount(&parent.ref, 1)
}

// move sends all its writes as one command, the shifts first: after x has its order they would shift it, too.
func (s oneParent) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := s.checkPosition(pos); err != nil {
		return err
	}
	return s.withLock(ctx, func(ctx context.Context) error {
		x, anchor, err := s.readWithAnchor(ctx, id, pos)
		if err != nil {
			return err
		}
		if err := s.checkSound(x); err != nil {
			return err
		}
		if pos.besideSibling() && same(pos.anchorID, id) { // beside itself
			return nil
		}
		to, err := s.readPosition(ctx, pos, anchor)
		if err != nil {
			return err
		}
		to.moving = &x
		if err := cmp.Or(s.checkOwnsPaths(x), s.checkSameIDType(id, to.parent)); err != nil {
			return err
		}
		if err := s.checkNoCycle(ctx, x, to); err != nil {
			return err
		}
		orderFields, shifts, err := s.siblingOrder.orderAt(ctx, to)
		if err != nil {
			return err
		}
		return s.write(ctx, slices.Concat(shifts, s.holdWritesForOrder(to.parent), s.relocation(x, to.parent, orderFields))...)
	})
}

// readPosition reads the parent of a position whose anchor was read. It is holdPosition for a node that moves, where the
// lock holds the parent.
func (s oneParent) readPosition(ctx context.Context, pos position, anchor node) (foundPosition, error) {
	switch pos.kind {
	case atRoot:
		return foundPosition{position: pos, anchor: anchor}, nil
	case underParent:
		return foundPosition{position: pos, anchor: anchor, parent: &anchor}, s.checkSound(anchor)
	}
	return s.positionBeside(ctx, pos, anchor, s.readParent)
}

// readParent reads a parent where the lock holds it.
func (s oneParent) readParent(ctx context.Context, match bson.D, ifMissing error) (*node, error) {
	n, err := s.findOne(ctx, match, ifMissing)
	if err != nil {
		return nil, err
	}
	return &n, s.checkSound(n)
}

// positionBeside is the position beside a sibling that was read. The parent, if there is one, comes from readParent or
// holdParent.
func (s oneParent) positionBeside(ctx context.Context, pos position, sibling node,
	parent func(ctx context.Context, match bson.D, ifMissing error) (*node, error)) (found foundPosition, err error) {
	found.position, found.anchor = pos, sibling
	if err := s.checkBeside(sibling); err != nil {
		return found, err
	}
	match := s.parentMatch(sibling)
	if match == nil { // beside a root
		return found, nil
	}
	found.parent, err = parent(ctx, match, s.orphaned(sibling))
	return found, err
}

// checkBeside refuses a sibling beside which no node can be placed.
func (s oneParent) checkBeside(sibling node) error {
	return cmp.Or(s.checkNotBare(sibling), s.siblingOrder.checkNumbered(sibling))
}

// checkNoCycle refuses to move x below itself. It reads only where the fields of the parent or of the anchor do not say what
// is above the position.
func (s oneParent) checkNoCycle(ctx context.Context, x node, to foundPosition) error {
	if to.kind == atRoot {
		return nil
	}
	below, known := s.representation.liesBelow(x, to)
	if below {
		return s.about(x.id, ErrCycle)
	}
	if known || to.parent == nil {
		return nil
	}
	return s.searchCycle(ctx, s, x, *to.parent)
}

// checkNotAbove refuses to insert a missing node below an orphan that lies below it. It reads nothing: where a parent holds
// no ancestors, it sees only whether that is a child of the new node.
func (s oneParent) checkNotAbove(id bson.RawValue, parent *node) error {
	for parent != nil && parent.raw == nil { // in the same batch of a Load
		parent = parent.placedUnder
	}
	if parent == nil {
		return nil
	}
	if s.byParentField && same(parent.parent, id) || s.tellsAncestors() && holds(s.representation.above(*parent, id), id) {
		return s.about(id, ErrCycle)
	}
	return nil
}

// relocation returns the writes to a node that moves under a parent, to its descendants, and to the child counts of both
// parents. Under the same parent a move changes at most the order.
func (s oneParent) relocation(x node, parent *node, orderFields bson.D) []mongo.WriteModel {
	if s.isChildOf(x, parent) {
		return s.setFields(x, orderFields)
	}
	return slices.Concat(
		s.setFields(x, append(s.representation.fieldsUnder(parent), orderFields...)),
		s.representation.updatesBelow(x, *s.nodeUnder(x.id, x.segment, parent)),
		s.changeChildCount(s.parentRef(x), -1),
		s.changeChildCount(refOf(parent), 1))
}

// isChildOf reports whether a node is a child of parent, or a root for nil.
func (s oneParent) isChildOf(x node, parent *node) bool {
	named, broken := s.representation.parent(x)
	switch {
	case broken != "":
		return false
	case parent == nil:
		return !s.names(named)
	}
	return s.refKey(named) == s.refKey(parent.ref)
}

// setFields is the write that sets fields of a node, if there are any.
func (s oneParent) setFields(x node, fields bson.D) []mongo.WriteModel {
	if len(fields) == 0 {
		return nil
	}
	return []mongo.WriteModel{update(s.idMatch(x.id), expr.Op("$set", fields))}
}

// changeChildCount returns the write to the child count of a node, if there is one to change.
func (s oneParent) changeChildCount(named *ref, by int64) []mongo.WriteModel {
	change := s.childCountBy(by)
	if named == nil || change == nil {
		return nil
	}
	return []mongo.WriteModel{update(s.namedMatch(*named), change)}
}

// arrange places the documents of a Load.
func (s oneParent) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil && s.inherits {
			if err := s.checkSound(*it.parent); err != nil {
				return err
			}
		}
		if err := s.checkNotAbove(it.id, it.parent); err != nil {
			return err
		}
	}
	fields, err := s.siblingOrder.orderLast(ctx, items)
	if err != nil {
		return err
	}
	for i, it := range items {
		it.doc = append(it.doc, s.fieldsInOrder(it.parent, fields[i])...)
	}
	return nil
}

// fieldsInOrder are the tree fields of a new document under a parent, as the package documentation shows them: numbers
// first, an OrderField last.
func (s oneParent) fieldsInOrder(parent *node, orderFields bson.D) bson.D {
	if s.numbered {
		return slices.Concat(orderFields, s.representation.fieldsUnder(parent))
	}
	return slices.Concat(s.representation.fieldsUnder(parent), orderFields)
}

// audit reports an ID, or a segment, that cannot be in a path, and otherwise wrong numbers.
func (s oneParent) audit(e *engine, n node, _ *place, children []node) []finding {
	if s.checkUsable(n.ref) == nil {
		return s.siblingOrder.auditNumbers(e, n, children)
	}
	return []finding{findingOf(n, e.problem(mongopatterns.WrongField, n, s.segmentField(), s.checkSegment(n.ref).Error()))}
}
