package tree

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// oneParent implements the calls in the four representations in which a node names one parent.
type oneParent struct {
	references
	siblingOrder
}

// checkSound refuses a node that cannot move, and under which no node can be placed: see references.checkSound and
// checkNumbered.
func (s oneParent) checkSound(n node) error {
	if err := s.references.checkSound(n); err != nil {
		return err
	}
	return s.checkNumbered(n)
}

// checkPosition refuses positions among siblings that are not ordered.
func (s references) checkPosition(pos position) error {
	if s.order == "" && (pos.first || pos.sibling()) {
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
	if pos.kind == atRoot && s.order == "" {
		_, err := fault.One(s.durable.InsertOne(ctx, d.with(s.fieldsUnder(nil)).doc))
		return err
	}
	run := s.withLock
	if pos.kind == underParent && !s.numbered {
		run = s.atomically
	}
	return run(ctx, func(ctx context.Context) error {
		found, due, err := s.findPosition(ctx, pos)
		if err != nil {
			return err
		}
		order, room, err := s.orderAt(ctx, found)
		if err != nil {
			return err
		}
		if err := s.write(ctx, append(due, room...)...); err != nil {
			return err
		}
		return s.insertUnder(ctx, d.with(s.fieldsInOrder(found.parent, order)), found.parent)
	})
}

// findPosition reads the nodes of a position for a new node. It holds the parent, and returns the writes that are due: see
// holdParent.
func (s oneParent) findPosition(ctx context.Context, pos position) (found foundPosition, due []mongo.WriteModel, err error) {
	found.position = pos
	if pos.kind == atRoot {
		return found, nil, nil
	}
	if !pos.sibling() {
		if found.parent, due, err = s.holdParent(ctx, s.idMatch(pos.anchorID), s.absent(pos)); err != nil {
			return found, nil, err
		}
		found.anchor = *found.parent
		return found, due, nil
	}
	if found.anchor, err = s.findOne(ctx, s.idMatch(pos.anchorID), s.absent(pos)); err != nil {
		return found, nil, err
	}
	if err := s.checkNotBare(found.anchor); err != nil {
		return found, nil, err
	}
	if match := s.parentMatch(found.anchor); match != nil {
		found.parent, due, err = s.holdParent(ctx, match, s.orphaned(found.anchor))
	}
	return found, due, err
}

// holdParent reads a parent for a new node by touch, so that nobody moves or deletes it. In NestedSets the lock sees to
// that. There it only reads, and the write that counts the child is still due.
func (s oneParent) holdParent(ctx context.Context, match bson.D, absent error) (parent *node, due []mongo.WriteModel, err error) {
	if s.numbered {
		n, err := s.findOne(ctx, match, absent)
		if err != nil {
			return nil, nil, err
		}
		return &n, s.changeChildCount(&n, 1), s.checkSound(n)
	}
	n, err := s.touch(ctx, match, absent)
	if err != nil {
		return nil, nil, err
	}
	return &n, nil, s.checkSound(n)
}

// move sends one command: the writes that make room have to come first.
func (s oneParent) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := s.checkPosition(pos); err != nil {
		return err
	}
	return s.withLock(ctx, func(ctx context.Context) error {
		x, anchor, err := s.readMoving(ctx, id, pos)
		if err != nil {
			return err
		}
		if err := s.checkSound(x); err != nil {
			return err
		}
		if pos.sibling() && same(pos.anchorID, id) {
			return nil
		}
		parent, err := s.parentForMove(ctx, pos, anchor)
		if err != nil {
			return err
		}
		if err := s.checkNoCycle(ctx, x, parent); err != nil {
			return err
		}
		order, room, err := s.orderAt(ctx, foundPosition{pos, anchor, parent, &x})
		if err != nil {
			return err
		}
		return s.write(ctx, append(room, s.relocate(x, parent, order)...)...)
	})
}

// relocate returns the writes to a node that moves under a parent, to its descendants, and to the child counts of both
// parents. Under the same parent a move changes at most the order.
func (s oneParent) relocate(x node, parent *node, order bson.D) []mongo.WriteModel {
	if s.isChildOf(x, parent) {
		return s.set(x, order)
	}
	return slices.Concat(
		s.set(x, append(s.fieldsUnder(parent), order...)),
		s.updatesBelow(x, *s.nodeUnder(x.id, x.segment, parent)),
		s.changeChildCount(s.parentNode(x), -1),
		s.changeChildCount(parent, 1))
}

// isChildOf reports whether a node is a child of parent, or a root for nil.
func (s oneParent) isChildOf(x node, parent *node) bool {
	up, broken := s.parent(x)
	switch {
	case broken != "":
		return false
	case parent == nil:
		return !s.isNode(up)
	}
	return s.refKey(up) == s.refKey(*parent)
}

// set is the write that sets fields of a node, if there are any.
func (s oneParent) set(x node, fields bson.D) []mongo.WriteModel {
	if len(fields) == 0 {
		return nil
	}
	return []mongo.WriteModel{update(s.idMatch(x.id), expr.Op("$set", fields))}
}

// parentForMove returns the parent that a position gives a node, nil for a root.
func (s oneParent) parentForMove(ctx context.Context, pos position, anchor node) (*node, error) {
	switch {
	case pos.kind == atRoot:
		return nil, nil
	case !pos.sibling():
		return &anchor, s.checkSound(anchor)
	}
	if err := s.checkNotBare(anchor); err != nil {
		return nil, err
	}
	match := s.parentMatch(anchor)
	if match == nil {
		return nil, nil
	}
	parent, err := s.findOne(ctx, match, s.orphaned(anchor))
	if err != nil {
		return nil, err
	}
	return &parent, s.checkSound(parent)
}

// changeChildCount returns the write to the child count of a node, if there is one to change.
func (s oneParent) changeChildCount(n *node, by int64) []mongo.WriteModel {
	change := s.childCountBy(by)
	if n == nil || change == nil {
		return nil
	}
	return []mongo.WriteModel{update(s.namedMatch(*n), change)}
}

// removeOne deletes a node, and then looks for its children: see deleteOne. It returns the writes that move the
// children, in their order, to its parent, or make roots of them.
func (s oneParent) removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) ([]mongo.WriteModel, error) {
	x, err := s.deleteOne(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.checkUsable(x), s.checkNotBare(x), s.checkNumbered(x)); err != nil {
		return nil, err
	}
	d, err := s.readForDelete(ctx, x, policy)
	if err != nil {
		return nil, err
	}
	if policy == mongopatterns.Restrict && len(d.children) > 0 {
		return nil, s.about(x.id, mongopatterns.ErrReferenced)
	}
	if err := cmp.Or(s.checkDeletable(x), s.checkAllSound(x, d.children)); err != nil {
		return nil, err
	}
	gained := int64(-1) // children that the parent of x gets
	if policy == mongopatterns.Promote {
		gained += int64(len(d.children))
	}
	ordered, err := s.afterDelete(ctx, d)
	if err != nil {
		return nil, err
	}
	models := append(s.changeChildCount(s.parentNode(x), gained), ordered...)
	if len(d.children) == 0 {
		return models, nil
	}
	return append(models, s.handOver(x, d.heir)...), nil
}

// deletion is a deleted node with what was read for its children.
type deletion struct {
	x        node
	policy   mongopatterns.DeletePolicy
	children []node // only one for Restrict
	heir     *node  // gets the children, nil if they become roots
}

// checkAllSound refuses the children of x, and x itself, if the fields of the children are computed from theirs, and
// these are not sound. Without children nothing is computed.
func (s oneParent) checkAllSound(x node, children []node) error {
	if len(children) == 0 || !s.inherits {
		return nil
	}
	for _, n := range append(slices.Clone(children), x) {
		if err := s.checkSound(n); err != nil {
			return err
		}
	}
	return nil
}

// readForDelete reads the children of x, and for Promote also the parent that gets them, in the same round trip.
func (s oneParent) readForDelete(ctx context.Context, x node, policy mongopatterns.DeletePolicy) (d deletion, err error) {
	d = deletion{x: x, policy: policy}
	match, up := s.childrenAndBareMatch(x), s.parentNode(x)
	if policy == mongopatterns.Restrict {
		d.children, err = s.findAll(ctx, match, 1)
		return d, err
	}
	if policy == mongopatterns.Unlink || up == nil {
		d.children, err = s.findAll(ctx, match)
		return d, err
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{match, s.namedMatch(*up)}))
	if err != nil {
		return d, err
	}
	for _, n := range nodes {
		if s.refKey(n) == s.refKey(*up) {
			d.heir = &n
		} else {
			d.children = append(d.children, n)
		}
	}
	if d.heir == nil {
		return d, s.orphaned(x)
	}
	return d, nil
}

// removeAll deletes a node and its descendants.
func (s oneParent) removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error) {
	remove := s.removeByFilter
	if s.descendantsFrom == fromQuery {
		remove = s.removeByIDs
	}
	x, deleted, err := remove(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	after, err = s.afterCascade(x, deleted)
	return deleted, append(s.changeChildCount(s.parentNode(x), -1), after...), err
}

// removeByIDs is removeAll in ParentReferences, where the IDs of the descendants are read first.
func (s oneParent) removeByIDs(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	nodes, err := s.readSubtree(ctx, id, s.down(id, 0, true), s.allChildrenMatch)
	if err != nil {
		return x, 0, err
	}
	if x = pick(nodes, id); x.raw == nil {
		return x, 0, s.missing(id)
	}
	deleted, err = s.deleteIDs(ctx, idsOf(nodes))
	return x, deleted, err
}

// removeByFilter is removeAll where one filter matches all descendants.
func (s oneParent) removeByFilter(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	if x, err = s.readForCascade(ctx, id); err != nil {
		return x, 0, err
	}
	if err := cmp.Or(s.checkUsable(x), s.checkNumbered(x)); err != nil {
		return x, 0, err
	}
	done, err := fault.Many(s.primary.DeleteMany(ctx, expr.Op("$or", bson.A{s.idMatch(id), s.descendantsMatch(x, 0)})))
	if err != nil {
		return x, 0, err
	}
	return x, done.DeletedCount, nil
}

// arrange places the documents of a Load.
func (s oneParent) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil && s.inherits {
			if err := s.checkSound(*it.parent); err != nil {
				return err
			}
		}
	}
	fields, err := s.orderLast(ctx, items)
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
func (s oneParent) fieldsInOrder(parent *node, order bson.D) bson.D {
	if s.numbered {
		return slices.Concat(order, s.fieldsUnder(parent))
	}
	return slices.Concat(s.fieldsUnder(parent), order)
}

// audit reports an ID, or a segment, that cannot be in a path, and otherwise wrong numbers.
func (s oneParent) audit(e *engine, n node, _ *place, children []node) []finding {
	if s.checkUsable(n) == nil {
		return s.auditNumbers(e, n, children)
	}
	return []finding{findingOf(n, e.problem(mongopatterns.WrongField, n, s.segmentField(), s.checkSegment(n).Error()))}
}
