package tree

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Insert stores a document as a new leaf at a position and returns its ID. It overwrites the tree fields
// and the fields of the scope in doc. A missing _id becomes an ObjectID. If the ID exists already,
// Insert returns mongopatterns.ErrExists.
//
// Cost: under a parent 3 round trips (mark the parent, insert and take the mark off, commit), 3 documents written; as
// a root 1 and 1.
//   - ChildCountField: 2 documents written.
//   - OrderField: 1 round trip more, and 3 for a root, which takes the lock. Before and After take it, too:
//     2 more, beside a root 1, and 1 if siblings make room.
//   - NestedSets: 5 (lock, parent, numbers, insert, commit), 6 Before and After a node below a root; every node after
//     the new one is written, and its ancestors.
func (t *Tree[ID, T]) Insert(ctx context.Context, doc T, pos Position[ID]) (id ID, err error) {
	ctx = comment.Call(ctx, "tree.Insert")
	defer fault.In(&err, "tree.Insert")
	if pos.err != nil {
		return id, pos.err
	}
	d, id, err := t.prepare(doc)
	if err != nil {
		return id, err
	}
	return id, fault.Taken(t.c.o.IDField, d.id, t.c.insert(ctx, d.doc, pos.at))
}

// prepare is that of store, and returns the ID also as the type ID. It refuses an ID that this type cannot hold, because
// the node could be stored, but not named by any call.
func (t *Tree[ID, T]) prepare(user T) (d newDocument, id ID, err error) {
	if d, err = t.c.prepare(user); err != nil {
		return d, id, err
	}
	id, err = codec.DecodeNew[ID](t.c.codec, d.id, d.made)
	return d, id, err
}

// Move moves a node, with everything below it, to another position. For a position below the node itself,
// it returns ErrCycle. Only tree fields change. A move Before or After the node itself changes nothing. A
// Move can be repeated.
//
// Cost: 4 round trips for any number of descendants (lock, both nodes, one command of updates, commit); written are
// the subtree and the lock.
//   - ParentReferences and ChildReferences under a parent: 5, and 1 or 2 documents; on shards 1 more for each level
//     above the parent.
//   - OrderField: 1 more, Before and After 2 more.
//   - NestedSets: all nodes between the old and the new place are written; to the last root 2 more, Before and After
//     a node below a root 1.
func (t *Tree[ID, T]) Move(ctx context.Context, id ID, pos Position[ID]) (err error) {
	ctx = comment.Call(ctx, "tree.Move")
	defer fault.In(&err, "tree.Move")
	if pos.err != nil {
		return pos.err
	}
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	return t.c.move(ctx, raw, pos.at)
}

// Delete removes a node and returns the number of documents deleted. The policy says what happens to its
// children. Restrict refuses a node with children and returns mongopatterns.ErrReferenced. Cascade deletes
// everything below the node, except, in a graph, a node that also has a parent elsewhere. Promote puts the
// children in the node's place, so those of a root become roots. Unlink makes the children roots, after
// the other roots.
//
// In AncestorArray, Cascade relies on the arrays, so it also deletes an orphan whose array still names
// the node. Promote of an orphan returns ErrNoParent. If the node or a node below it is not adopted,
// Delete may return ErrReferenced or ErrNotAdopted, as the package documentation says. For a root without
// ancestors, path or numbers it also returns ErrNotAdopted, because the root may be a document of another
// representation. In ParentReferences and ChildReferences a document without the fields of the tree is a
// root or a leaf, and Delete removes it; Check reports a collection in which no document has them.
//
// Cost: for a leaf 4 round trips (lock, node, children, commit), of ChildReferences 5, and the arrays of its parents.
//   - With children that move: 1 more, and a command of updates.
//   - Cascade: 4 (lock, node and what is not adopted, subtree, commit), of NestedSets 5, of ChildReferences 6.
//   - Cascade of many descendants: 1 more for each 50,000 of ParentReferences, 2 of ChildReferences and 3 of a graph;
//     on shards 1 for each level there, and 1 where nodes are not adopted.
//   - ChildCountField: 1 more for a leaf or Cascade.
//   - Unlink with an OrderField: 1 more, in NestedSets 2.
//   - MaterializedPath also examines the roots, because their path is null; in a forest of many roots an index
//     {PathField, ParentField} spares it that.
//   - With a SegmentField nodes that move are written twice.
func (t *Tree[ID, T]) Delete(ctx context.Context, id ID, policy mongopatterns.DeletePolicy) (n int64, err error) {
	ctx = comment.Call(ctx, "tree.Delete")
	defer fault.In(&err, "tree.Delete")
	raw, err := t.c.id(id)
	if err != nil {
		return 0, err
	}
	if policy < mongopatterns.Restrict || policy > mongopatterns.Unlink {
		return 0, fault.Invalid("policy %s: take Restrict, Cascade, Promote or Unlink", policy)
	}
	if n, err = t.c.remove(ctx, raw, policy); err != nil {
		return 0, err
	}
	return n, nil
}

// families implements the calls in the four representations in which a node names one parent.
type families struct {
	oneParent
	siblingOrder
}

// checkSound refuses a node that cannot move, and under which no node can be placed: see oneParent.checkSound and
// checkNumbered.
func (f families) checkSound(n node) error {
	if err := f.oneParent.checkSound(n); err != nil {
		return err
	}
	return f.checkNumbered(n)
}

// insert writes to the parent, so that it conflicts with a concurrent move or deletion of the parent, without the lock.
// It takes the lock in nested sets, which shift numbers everywhere, and beside a root or a sibling, where there may
// be no parent to write to.
func (f families) insert(ctx context.Context, doc bson.D, pos position) error {
	if err := f.checkPosition(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && f.order == "" {
		_, err := fault.One(f.durable.InsertOne(ctx, append(doc, f.fieldsUnder(nil)...)))
		return err
	}
	return f.atomically(ctx, f.alwaysLocks() || pos.kind != underParent, func(ctx context.Context) error {
		p, err := f.placeNew(ctx, pos)
		if err != nil {
			return err
		}
		order, room, err := f.orderAt(ctx, p)
		if err != nil {
			return err
		}
		touched := p.parent
		if f.alwaysLocks() { // touchParent has only read the parent: it has no mark, and does not count the child yet
			touched = nil
			room = append(f.changeChildCount(p.parent, 1), room...)
		}
		if err := f.write(ctx, room...); err != nil {
			return err
		}
		return f.insertUnder(ctx, append(slices.Clone(doc), f.withOrder(p.parent, order)...), touched)
	})
}

// placeNew reads the parent of a new node, and the sibling that the position names.
func (f families) placeNew(ctx context.Context, pos position) (p placement, err error) {
	p.position = pos
	if pos.kind == atRoot {
		return p, nil
	}
	if !pos.sibling() {
		if p.parent, err = f.touchParent(ctx, f.byID(pos.anchor), f.absent(pos)); err != nil {
			return p, err
		}
		p.anchor = *p.parent
		return p, nil
	}
	if p.anchor, err = f.findOne(ctx, f.byID(pos.anchor), f.absent(pos)); err != nil {
		return p, err
	}
	if err := f.checkNotBare(p.anchor); err != nil {
		return p, err
	}
	if match := f.parentOf(p.anchor); match != nil {
		p.parent, err = f.touchParent(ctx, match, f.orphaned(p.anchor))
	}
	return p, err
}

// touchParent reads a parent for a new node, by a write if the lock alone does not protect it.
func (f families) touchParent(ctx context.Context, match bson.D, absent error) (*node, error) {
	var n node
	var err error
	if f.alwaysLocks() {
		n, err = f.findOne(ctx, match, absent)
	} else {
		n, err = f.touch(ctx, match, absent)
	}
	if err != nil {
		return nil, err
	}
	return &n, f.checkSound(n)
}

// move sends one command: the writes that make room have to come first.
func (f families) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := f.checkPosition(pos); err != nil {
		return err
	}
	return f.atomically(ctx, true, func(ctx context.Context) error {
		x, anchor, err := f.readMoving(ctx, id, pos)
		if err != nil {
			return err
		}
		if err := f.checkSound(x); err != nil {
			return err
		}
		if pos.sibling() && same(pos.anchor, id) {
			return nil
		}
		parent, err := f.parentForMove(ctx, pos, anchor, x)
		if err != nil {
			return err
		}
		order, room, err := f.orderAt(ctx, placement{pos, anchor, parent, &x})
		if err != nil {
			return err
		}
		return f.write(ctx, append(room, f.relocate(x, parent, order)...)...)
	})
}

// relocate returns the writes to a node that moves under a parent, to its descendants, and to the child counts of both
// parents. Under the same parent a move changes at most the order.
func (f families) relocate(x node, parent *node, order bson.D) []mongo.WriteModel {
	if f.isChildOf(x, parent) {
		return f.set(x, order)
	}
	return slices.Concat(
		f.set(x, append(f.fieldsUnder(parent), order...)),
		f.updatesBelow(x, *f.child(x.id, x.segment, parent)),
		f.changeChildCount(f.parentNode(x), -1),
		f.changeChildCount(parent, 1))
}

// isChildOf reports whether a node is a child of parent, or a root for nil.
func (f families) isChildOf(x node, parent *node) bool {
	up, broken := f.parent(x)
	switch {
	case broken != "":
		return false
	case parent == nil:
		return !f.isParent(up)
	}
	return f.refKey(up) == f.refKey(*parent)
}

// set is the write that sets fields of a node, if there are any.
func (f families) set(x node, fields bson.D) []mongo.WriteModel {
	if len(fields) == 0 {
		return nil
	}
	return []mongo.WriteModel{update(f.byID(x.id), expr.Op("$set", fields))}
}

// parentForMove returns the parent that a position gives x, nil for a root.
func (f families) parentForMove(ctx context.Context, pos position, anchor, x node) (*node, error) {
	if pos.kind == atRoot {
		return nil, nil
	}
	parent := anchor
	if pos.sibling() {
		if err := f.checkNotBare(anchor); err != nil {
			return nil, err
		}
		match := f.parentOf(anchor)
		if match == nil {
			return nil, nil
		}
		var err error
		if parent, err = f.findOne(ctx, match, f.orphaned(anchor)); err != nil {
			return nil, err
		}
	}
	if err := f.checkSound(parent); err != nil {
		return nil, err
	}
	if f.alwaysLocks() { // numbers.swap finds a cycle by the numbers
		return &parent, nil
	}
	return &parent, f.checkNoCycle(ctx, x, parent)
}

// changeChildCount returns the write to the child count of a node, if there is one to change.
func (f families) changeChildCount(n *node, by int64) []mongo.WriteModel {
	change := f.childCountBy(by)
	if n == nil || change == nil {
		return nil
	}
	return []mongo.WriteModel{update(f.byRefs(*n), change)}
}

// removeOne deletes a node, and then looks for its children: see deleteOne. It returns the writes that move the
// children, in their order, to its parent, or make roots of them.
func (f families) removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) ([]mongo.WriteModel, error) {
	x, err := f.deleteOne(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(f.checkUsable(x), f.checkNotBare(x), f.checkNumbered(x)); err != nil {
		return nil, err
	}
	d, err := f.survey(ctx, x, policy)
	if err != nil {
		return nil, err
	}
	if policy == mongopatterns.Restrict && len(d.children) > 0 {
		return nil, f.about(x.id, mongopatterns.ErrReferenced)
	}
	if err := cmp.Or(f.checkDeletable(x), f.checkAllSound(x, d.children)); err != nil {
		return nil, err
	}
	gained := int64(-1) // children that the parent of x gets
	if policy == mongopatterns.Promote {
		gained += int64(len(d.children))
	}
	ordered, err := f.afterDelete(ctx, d)
	if err != nil {
		return nil, err
	}
	models := append(f.changeChildCount(f.parentNode(x), gained), ordered...)
	if len(d.children) == 0 {
		return models, nil
	}
	return append(models, f.handOver(x, d.heir)...), nil
}

// checkAllSound refuses the children of x, and x itself, if the fields of the children are computed from theirs, and
// these are not sound. Without children nothing is computed.
func (f families) checkAllSound(x node, children []node) error {
	if len(children) == 0 || !f.inherits {
		return nil
	}
	for _, n := range append(slices.Clone(children), x) {
		if err := f.checkSound(n); err != nil {
			return err
		}
	}
	return nil
}

// survey reads the children of x, and for Promote also the parent that gets them, in the same round trip.
func (f families) survey(ctx context.Context, x node, policy mongopatterns.DeletePolicy) (d deletion, err error) {
	d = deletion{x: x, policy: policy}
	match, up := f.childrenAndBare(x), f.parentNode(x)
	if policy == mongopatterns.Restrict {
		d.children, err = f.findAll(ctx, match, 1)
		return d, err
	}
	if policy == mongopatterns.Unlink || up == nil {
		d.children, err = f.findAll(ctx, match)
		return d, err
	}
	nodes, err := f.findAll(ctx, expr.Op("$or", bson.A{match, f.byRefs(*up)}))
	if err != nil {
		return d, err
	}
	for _, n := range nodes {
		if f.refKey(n) == f.refKey(*up) {
			d.heir = &n
		} else {
			d.children = append(d.children, n)
		}
	}
	if d.heir == nil {
		return d, f.orphaned(x)
	}
	return d, nil
}

// removeAll deletes a node and its descendants.
func (f families) removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error) {
	remove := f.removeByFilter
	if f.descendantsFrom == fromQuery {
		remove = f.removeByIDs
	}
	x, deleted, err := remove(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	after, err = f.afterCascade(x, deleted)
	return deleted, append(f.changeChildCount(f.parentNode(x), -1), after...), err
}

// removeByIDs is removeAll in ParentReferences, where the IDs of the descendants are read first.
func (f families) removeByIDs(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	nodes, err := f.readSubtree(ctx, id, f.down(id, 0, true), f.childrenOfAll)
	if err != nil {
		return x, 0, err
	}
	if x = pick(nodes, id); x.raw == nil {
		return x, 0, f.missing(id)
	}
	deleted, err = f.deleteIDs(ctx, idsOf(nodes))
	return x, deleted, err
}

// removeByFilter is removeAll where one filter matches all descendants.
func (f families) removeByFilter(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	if x, err = f.readForCascade(ctx, id); err != nil {
		return x, 0, err
	}
	if err := cmp.Or(f.checkUsable(x), f.checkNumbered(x)); err != nil {
		return x, 0, err
	}
	done, err := fault.Many(f.primary.DeleteMany(ctx, expr.Op("$or", bson.A{f.byID(id), f.descendantsOf(x, 0)})))
	if err != nil {
		return x, 0, err
	}
	return x, done.DeletedCount, nil
}

// arrange places the documents of a Load.
func (f families) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil && f.inherits {
			if err := f.checkSound(*it.parent); err != nil {
				return err
			}
		}
	}
	fields, err := f.orderLast(ctx, items)
	if err != nil {
		return err
	}
	for i, it := range items {
		it.doc = append(it.doc, f.withOrder(it.parent, fields[i])...)
	}
	return nil
}

// withOrder are the tree fields of a new document under a parent, in the order of the package documentation: numbers
// first, an OrderField last.
func (f families) withOrder(parent *node, order bson.D) bson.D {
	if f.alwaysLocks() {
		return slices.Concat(order, f.fieldsUnder(parent))
	}
	return slices.Concat(f.fieldsUnder(parent), order)
}

// remove is Delete. The writes to other nodes are one command, in the transaction of the deletion.
func (c *core) remove(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) (err error) {
		var models []mongo.WriteModel
		if policy == mongopatterns.Cascade {
			deleted, models, err = c.removeAll(ctx, id)
		} else {
			deleted = 1
			models, err = c.removeOne(ctx, id, policy)
		}
		if err != nil {
			return err
		}
		return c.write(ctx, models...)
	})
	return deleted, err
}
