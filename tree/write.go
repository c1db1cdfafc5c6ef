package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// DeletePolicy says what becomes of the nodes below a deleted one.
type DeletePolicy int

// The delete policies.
const (
	// Restrict refuses to delete a node with children: ErrHasChildren.
	Restrict DeletePolicy = iota
	// Cascade deletes all that is below. In a graph a node that has a parent elsewhere stays.
	Cascade
	// Promote puts the children in the node's place, under its parent. The children of a root become roots.
	Promote
	// MakeRoots makes the children roots, after the others.
	MakeRoots
)

// Insert stores a document as a new leaf at a position and returns its ID. The tree writes its fields, and
// those of the scope, whatever doc holds in them. A missing _id becomes an ObjectID. An ID that is there is a
// duplicate key error.
//
// Cost: under a parent 3 round trips (mark the parent, insert and take the mark off, commit), 3 documents
// written, 2 with a ChildCountField; as a root 1 and 1. OrderField: 1 round trip more, and 3 for a root, which
// takes the lock; Before and After 1 more, and 1 if siblings make room. NestedSets: 5 (lock, parent, numbers,
// insert, commit), 6 Before and After what is no root; every node after the new one is written, and its ancestors.
func (t *Tree[K, T]) Insert(ctx context.Context, doc T, pos Position[K]) (id K, err error) {
	defer fault.In(&err, "tree: insert")
	if pos.err != nil {
		return id, pos.err
	}
	id, _, err = t.insert(ctx, doc, pos.at)
	return id, err
}

func (t *Tree[K, T]) insert(ctx context.Context, doc T, pos position) (id K, raw bson.RawValue, err error) {
	full, raw, id, err := t.prepare(doc)
	if err != nil {
		return id, raw, err
	}
	return id, raw, t.c.insert(ctx, full, pos)
}

// prepare is core.prepare for an ID that a K can hold.
func (t *Tree[K, T]) prepare(user T) (doc bson.D, raw bson.RawValue, id K, err error) {
	doc, raw, fresh, err := t.c.prepare(user)
	if err != nil {
		return nil, raw, id, err
	}
	if id, err = codec.DecodeValue[K](t.c.codec, raw); err != nil && fresh {
		err = fault.Invalid("the document has no _id, and a new ObjectID is no %T", id)
	} else if err != nil {
		err = fault.Invalid("id: %w", err)
	}
	return doc, raw, id, err
}

// Move puts a node, with all that is below it, at another position. It refuses one below the node itself:
// ErrCycle. Only tree fields change. Before or After the node itself changes nothing. A Move can be repeated.
//
// Cost: 4 round trips for any number of descendants (lock, both nodes, one command of updates, commit); written
// are the subtree and the lock. ParentReferences and ChildReferences under a parent: 5 (and $graphLookup up
// from it), 1 or 2 documents. OrderField: 1 more, Before and After 2 more. NestedSets: all nodes between the
// old and the new place are written; to the last root 2 more, Before and After what is no root 1.
func (t *Tree[K, T]) Move(ctx context.Context, id K, pos Position[K]) (err error) {
	defer fault.In(&err, "tree: move")
	if pos.err != nil {
		return pos.err
	}
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	return t.c.move(ctx, raw, pos.at)
}

// Delete removes a node and returns the number of documents deleted; the policy says what becomes of its
// children. Cascade believes the arrays of an AncestorArray: it also deletes an orphan whose array still names
// the node. Promote of an orphan is ErrNoParent. Nodes that are not adopted are ErrHasChildren or ErrNotAdopted, see the package documentation.
//
// Cost: a leaf 4 round trips (lock, node, children, commit), with children that move 5 (and one command of
// updates); ChildReferences 5 (and their parents' arrays). Cascade 4 (lock, node and what is not adopted,
// subtree, commit), of NestedSets 5, of ChildReferences 6; 1 more for each 50,000 descendants of
// ParentReferences and ChildReferences, and 1 where nodes are not adopted. ChildCountField: 1 more for a leaf or
// Cascade. MakeRoots: with an OrderField 1 more, in NestedSets 2. MaterializedPath examines the roots, too, as
// their path is null; in a forest of many roots an index {PathField, ParentField} spares it that.
func (t *Tree[K, T]) Delete(ctx context.Context, id K, policy DeletePolicy) (n int64, err error) {
	defer fault.In(&err, "tree: delete")
	raw, err := t.c.id(id)
	if err != nil {
		return 0, err
	}
	if policy < Restrict || policy > MakeRoots {
		return 0, fault.Invalid("unknown policy %d", policy)
	}
	if n, err = t.c.remove(ctx, raw, policy); err != nil {
		return 0, err
	}
	return n, nil
}

// families is every representation in which a node names one parent: what the calls do, written once.
type families struct {
	linked
	siblingOrder
}

// sound refuses a node that nothing can be put under or beside, and that cannot move.
func (f families) sound(n node) error {
	if err := f.linked.sound(n); err != nil {
		return err
	}
	return f.numbered(n)
}

// insert has a child conflict with what happens to its parent, by writing to it. The roots of an ordered forest
// have nothing in common but the lock.
func (f families) insert(ctx context.Context, doc bson.D, pos position) error {
	if err := f.allows(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && f.order == "" {
		_, err := fault.One(f.durable.InsertOne(ctx, append(doc, f.place(nil)...)))
		return err
	}
	return f.atomically(ctx, f.serial() || pos.kind != underParent, func(ctx context.Context) error {
		parent, ref, err := f.parentAt(ctx, pos)
		if err != nil {
			return err
		}
		to := target{parent: parent}
		if err := f.choose(ctx, &to, pos, ref, node{}); err != nil {
			return err
		}
		touched := parent
		if f.serial() {
			touched = nil
			to.first = append(f.counted(parent, 1), to.first...)
		}
		if err := f.write(ctx, to.first...); err != nil {
			return err
		}
		return f.create(ctx, append(slices.Clone(doc), f.placed(parent, to.fields)...), touched)
	})
}

// parentAt is the parent of a position, nil for a root, and the node in it. It writes to the parent where the
// lock does not keep others away from it.
func (f families) parentAt(ctx context.Context, pos position) (parent *node, ref node, err error) {
	match, absent := f.byID(pos.ref), pos.absent()
	if pos.sibling() {
		if ref, err = f.findOne(ctx, match, absent); err == nil {
			err = f.adopted(ref)
		}
		if err != nil {
			return nil, ref, err
		}
		match, absent = f.parentOf(ref), f.orphaned(ref)
	}
	if pos.kind == atRoot || match == nil {
		return nil, ref, nil
	}
	var n node
	if f.serial() {
		n, err = f.findOne(ctx, match, absent)
	} else {
		n, err = f.touch(ctx, match, absent)
	}
	if err == nil {
		err = f.sound(n)
	}
	if !pos.sibling() {
		ref = n
	}
	return &n, ref, err
}

// move writes in one command: what makes room, the node, what is below it, and the counters of its parents.
func (f families) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := f.allows(pos); err != nil {
		return err
	}
	return f.atomically(ctx, true, func(ctx context.Context) error {
		x, ref, _, err := f.both(ctx, id, pos, "")
		if err == nil {
			err = f.sound(x)
		}
		if err != nil || pos.sibling() && same(pos.ref, id) {
			return err
		}
		parent, err := f.newParent(ctx, pos, ref, x)
		if err != nil {
			return err
		}
		old, broken := f.parent(x)
		stays := broken == "" && (parent == nil && old.id.Type == 0 || parent != nil && same(old.id, parent.id))
		if stays && f.order == "" {
			return nil
		}
		to := target{parent: parent}
		if err := f.choose(ctx, &to, pos, ref, x); err != nil {
			return err
		}
		models := to.first
		if !stays {
			to.fields = append(f.place(parent), to.fields...)
		}
		if len(to.fields) > 0 {
			models = append(models, update(f.byID(id), d("$set", to.fields)))
		}
		if !stays {
			models = append(models, f.below(x, f.child(id, parent))...)
			models = append(models, f.counted(f.parentNode(x), -1)...)
			models = append(models, f.counted(parent, 1)...)
		}
		return f.write(ctx, models...)
	})
}

// newParent is the parent that a position names for x, nil for a root; ref is the node in the position.
func (f families) newParent(ctx context.Context, pos position, ref, x node) (_ *node, err error) {
	switch {
	case pos.kind == atRoot:
		return nil, nil
	case pos.sibling():
		if err := f.adopted(ref); err != nil {
			return nil, err
		}
		match := f.parentOf(ref)
		if match == nil {
			return nil, nil
		}
		if ref, err = f.findOne(ctx, match, f.orphaned(ref)); err != nil {
			return nil, err
		}
	}
	if err := f.sound(ref); err != nil {
		return nil, err
	}
	if f.serial() { // the numbers tell
		return &ref, nil
	}
	return &ref, f.acyclic(ctx, x.id, ref)
}

// counted changes the child counter of a node, if there are counters.
func (f families) counted(n *node, by int64) []mongo.WriteModel {
	if n == nil {
		return nil
	}
	return f.counter(f.byID(n.id), by)
}

// removeOne deletes a node, and then looks for its children: see take. It returns the writes that give them to
// its parent or make roots of them, in their order.
func (f families) removeOne(ctx context.Context, id bson.RawValue, policy DeletePolicy) ([]mongo.WriteModel, error) {
	x, err := f.take(ctx, id)
	if err == nil {
		err = cmp.Or(f.usable(x), f.adopted(x), f.numbered(x))
	}
	if err != nil {
		return nil, err
	}
	children, to, err := f.survey(ctx, x, policy)
	if err == nil && policy == Restrict && len(children) > 0 {
		err = fmt.Errorf("%w: %s", ErrHasChildren, text(x.id))
	}
	if err != nil {
		return nil, err
	}
	if len(children) > 0 && f.told() {
		for _, n := range append(children, x) {
			if err := f.sound(n); err != nil {
				return nil, err
			}
		}
	}
	by := int64(-1)
	if policy == Promote {
		by += int64(len(children))
	}
	models, err := f.succeed(ctx, x, to, children, policy)
	if len(children) > 0 {
		models = append(models, f.below(x, to)...)
	}
	return append(f.counted(f.parentNode(x), by), models...), err
}

// survey reads the children of x, one for Restrict, and for Promote the parent that gets them.
func (f families) survey(ctx context.Context, x node, policy DeletePolicy) (children []node, to *node, err error) {
	match, up := f.allChildren(x), f.parentNode(x)
	switch {
	case policy == Restrict:
		children, err = f.findAll(ctx, match, 1)
		return children, nil, err
	case policy == MakeRoots, up == nil:
		children, err = f.findAll(ctx, match)
		return children, nil, err
	}
	nodes, err := f.findAll(ctx, d("$or", bson.A{match, f.byID(up.id)}))
	for _, n := range nodes {
		if same(n.id, up.id) {
			to = &n
		} else {
			children = append(children, n)
		}
	}
	if err == nil && to == nil {
		err = f.orphaned(x)
	}
	return children, to, err
}

// removeAll deletes a node and its descendants: by one filter, or by their IDs where only a query tells them.
func (f families) removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error) {
	var x node
	if match, _ := f.under(node{id: id}, 0); match == nil {
		nodes, err := f.withAll(ctx, f, id)
		if err != nil {
			return 0, nil, err
		}
		if x = pick(nodes, id); x.raw == nil {
			return 0, nil, missing(id)
		}
		if deleted, err = f.deleteIDs(ctx, idsOf(nodes)); err != nil {
			return 0, nil, err
		}
	} else {
		if x, err = f.allAdopted(ctx, id); err == nil {
			err = cmp.Or(f.usable(x), f.numbered(x))
		}
		if err != nil {
			return 0, nil, err
		}
		match, _ = f.under(x, 0)
		res, err := fault.Many(f.primary.DeleteMany(ctx, d("$or", bson.A{f.byID(id), match})))
		if err != nil {
			return 0, nil, err
		}
		deleted = res.DeletedCount
	}
	after, err = f.closeUp(x, deleted)
	return deleted, append(f.counted(f.parentNode(x), -1), after...), err
}

// arrange places the documents of a Load.
func (f families) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil && f.told() {
			if err := f.sound(*it.parent); err != nil {
				return err
			}
		}
	}
	fields, err := f.extend(ctx, items)
	if err != nil {
		return err
	}
	for i, it := range items {
		it.doc = append(it.doc, f.placed(it.parent, fields[i])...)
	}
	return nil
}

// placed is what a new document holds in its place, numbers first.
func (f families) placed(parent *node, order bson.D) bson.D {
	if f.serial() {
		return slices.Concat(order, f.place(parent))
	}
	return slices.Concat(f.place(parent), order)
}

// remove is Delete.
func (c *core) remove(ctx context.Context, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) (err error) {
		var models []mongo.WriteModel
		if policy == Cascade {
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

// FindOrCreate follows names down from the roots, as mkdir -p does, and returns the ID of the last. A missing
// node is inserted, last under its parent: make returns its document. Callers at the same time create each node
// once. Names are those of Options.NameField, or else the IDs; of several siblings with a name it takes one.
//
// Cost: 1 round trip for each name. If one is missing: 2 more (lock, commit), 1 for each name again, and for
// each new node as Insert without the commit.
func (t *Tree[K, T]) FindOrCreate(ctx context.Context, names []string, make func(name string) (T, error)) (id K, err error) {
	defer fault.In(&err, "tree: find or create")
	if len(names) == 0 {
		return id, fault.Invalid("no names")
	}
	// follow leaves at at the last node, or nil where a name is missing and not to be made.
	var at *node
	follow := func(ctx context.Context, create bool) (err error) {
		at = nil
		for _, name := range names {
			above, pos := at, position{}
			if at, err = t.c.named(ctx, above, name); err == nil && at == nil && create {
				var doc T
				var raw bson.RawValue
				if above != nil {
					pos = within(above.id)
				}
				if doc, err = make(name); err == nil {
					_, raw, err = t.insert(ctx, doc, pos)
				}
				if err == nil {
					at = t.c.child(raw, above)
				}
			}
			if err != nil || at == nil {
				return err
			}
		}
		return nil
	}
	err = follow(ctx, false)
	if err == nil && at == nil {
		err = t.c.atomically(ctx, true, func(ctx context.Context) error { return follow(ctx, true) })
	}
	if err != nil {
		return id, err
	}
	return codec.DecodeValue[K](t.c.codec, at.id)
}

// named finds a child by its name, or a root if parent is nil; nil is none. One that is not adopted yet is
// found, too: a second of its name would stay.
func (c *core) named(ctx context.Context, parent *node, name string) (*node, error) {
	match := d(cmp.Or(c.o.NameField, c.o.IDField), name)
	if parent != nil {
		n, err := c.findOne(ctx, d("$and", bson.A{c.allChildren(*parent), match}), nil)
		if err != nil || n.raw == nil {
			return nil, err
		}
		return &n, nil
	}
	nodes, err := c.aggregate(ctx, append(c.roots(), expr.Op("$match", match), expr.Op("$limit", 1)))
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	return &nodes[0], nil
}
