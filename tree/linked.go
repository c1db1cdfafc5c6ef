package tree

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// base has the answers that most representations give.
type base struct{ *core }

func (b base) rootsMatch() bson.D                             { return b.in(b.link, nil) }
func (b base) except(string) bson.D                           { return nil }
func (b base) usable(node) error                              { return nil }
func (b base) lift(node, *node) []mongo.WriteModel            { return nil }
func (b base) settle(context.Context, bool) (int64, error)    { return 0, nil }
func (b base) adopt(kids []bson.RawValue) bson.D              { return b.count(int64(len(kids))) }
func (b base) above(node) []bson.RawValue                     { return nil }
func (b base) width(node) int64                               { return -1 }
func (b base) names(node) []bson.RawValue                     { return nil }
func (b base) listing([]node) bson.D                          { return nil }
func (b base) audit(*engine, node, *spot, []node) []finding   { return nil }
func (b base) descendantsOf(node, int) (m bson.D, reads bool) { return nil, false }
func (b base) join(context.Context, *engine, []node, []*spot, [][]node) ([]finding, error) {
	return nil, nil
}

// adopted refuses a node that nothing above it can be told of.
func (b base) adopted(n node) error {
	if b.unadopted(n.raw) {
		return notAdopted(n.id, b.derived)
	}
	return nil
}

// cut makes the node of a cycle with the smallest ID a root.
func (b base) cut(f *finding, n node, s *spot) {
	if !slices.ContainsFunc(s.loop, func(o *spot) bool { return less(o.id, n.id) }) {
		f.writes, f.uproot, f.moves = b.rep.uproot(n), true, true
	}
}

// heir is a node's parent, as far as the node tells, nil for a root.
func (b base) heir(n node) *node {
	if up, _ := b.rep.ref(n); up.id.Type != 0 {
		return &up
	}
	return nil
}

// parentOf is the filter for the parent of a node, nil for a root.
func (b base) parentOf(n node) bson.D {
	if up := b.heir(n); up != nil {
		return b.byID(up.id)
	}
	return nil
}

// recount counts a node that comes or goes at its parent.
func (b base) recount(x node, by int64) []mongo.WriteModel { return b.counter(b.parentOf(x), by) }

func (b base) parents(nodes []node) bson.D {
	var ids []bson.RawValue
	for _, n := range nodes {
		if up := b.heir(n); up != nil {
			ids = append(ids, up.id)
		}
	}
	return b.byIDs(ids)
}

// reference is what the link of a node's children holds, for nil that of roots.
func (b base) reference(parent *node) any { return lookup(b.rep.place(parent), b.link) }

// siblingsOf is the filter for the children of parent, or for the roots.
func (b base) siblingsOf(parent *node) bson.D { return b.in(b.link, equal(b.reference(parent))) }

func (b base) childrenOf(n node) (match bson.D, reads bool) { return b.siblingsOf(&n), !b.keepsParent }

func (b base) family(nodes []node) mongo.Pipeline {
	refs, ids := bson.A{}, bson.A{}
	for _, n := range nodes {
		if b.rep.usable(n) == nil {
			refs, ids = append(refs, b.reference(&n)), append(ids, n.id)
		}
	}
	match := b.in(b.link, d("$in", refs))
	if b.derived == b.link {
		match = d("$or", bson.A{match, b.lateBelow(d("$in", ids))})
	}
	return mongo.Pipeline{expr.Op("$match", match), b.sorting()}
}

// siblings are the other nodes that name the same parent, or none.
func (b base) siblings(id any) mongo.Pipeline {
	field := b.link
	return slices.Concat(mongo.Pipeline{expr.Op("$match", append(b.byID(id), b.rep.except(field)...)),
		b.lookup(field, field, b.inOrder()...)}, unfold(), mongo.Pipeline{expr.Op("$match", d(b.o.IDField, d("$ne", id)))})
}

func (b base) uproot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{update(b.byID(n.id), d("$set", b.rep.place(nil)))}
}

// acyclic refuses to put x under n, if n is x or lies under it. Paths are read as IDs of the type of x, so that
// x is found above a node whose ID has another type.
func (b base) acyclic(ctx context.Context, x bson.RawValue, n node) error {
	like := n
	like.id = x
	above := b.rep.above(like)
	if above == nil {
		nodes, err := b.aggregate(ctx, b.rootFirst(n.id))
		if err != nil {
			return err
		}
		above = idsOf(nodes)
	}
	if same(n.id, x) || holds(above, x) {
		return fmt.Errorf("%w: %s", ErrCycle, text(x))
	}
	return nil
}

// What follows is the writing side of the representations in which a document says itself where it is:
// parentRefs, ancestorArray and pathShape.

// sound refuses a node that nothing can be put under.
func (b base) sound(n node) error {
	if err := b.rep.adopted(n); err != nil {
		return err
	}
	return b.rep.usable(n)
}

func (b base) orphaned(n node) error {
	return fmt.Errorf("%w: %s, of %s", ErrNoParent, text(n.raw.Lookup(b.link)), text(n.id))
}

func (b base) ordered(pos position) error {
	if b.o.OrderField == "" && (pos.first || pos.sibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

// insert has a child conflict with what happens to its parent, by writing to it. The roots of an ordered forest
// have nothing in common but the lock.
func (b base) insert(ctx context.Context, doc bson.D, pos position) error {
	if err := b.ordered(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && b.o.OrderField == "" {
		_, err := fault.One(b.durable.InsertOne(ctx, append(doc, b.rep.place(nil)...)))
		return err
	}
	return b.atomically(ctx, pos.kind != underParent, func(ctx context.Context) (err error) {
		var sib node
		match, absent := b.byID(pos.ref), pos.absent()
		if pos.sibling() {
			if sib, err = b.findOne(ctx, match, absent); err == nil && b.unadopted(sib.raw) {
				err = notAdopted(sib.id, b.derived)
			}
			if err != nil {
				return err
			}
			match, absent = b.parentOf(sib), b.orphaned(sib)
		}
		var parent *node
		if pos.kind != atRoot && match != nil {
			n, err := b.touch(ctx, match, absent)
			if err == nil {
				err = b.sound(n)
			}
			if err != nil {
				return err
			}
			parent = &n
		}
		full := append(slices.Clone(doc), b.rep.place(parent)...)
		if b.o.OrderField != "" {
			order, room, err := b.orderAt(ctx, b.siblingsOf(parent), pos, sib, bson.RawValue{})
			if err == nil {
				err = b.write(ctx, room...)
			}
			if err != nil {
				return err
			}
			full = append(full, bson.E{Key: b.o.OrderField, Value: order})
		}
		return b.create(ctx, full, parent)
	})
}

// move writes in one command, and marks the new parent where a position among its children was chosen.
func (b base) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := b.ordered(pos); err != nil {
		return err
	}
	return b.atomically(ctx, true, func(ctx context.Context) error {
		x, ref, _, err := b.both(ctx, id, pos, "")
		if err == nil {
			err = b.sound(x)
		}
		if err != nil || pos.sibling() && same(pos.ref, id) {
			return err
		}
		parent, err := b.target(ctx, pos, ref, x)
		if err != nil {
			return err
		}
		up, broken := b.rep.ref(x)
		stays := broken == "" && (parent == nil && up.id.Type == 0 || parent != nil && same(up.id, parent.id))
		if stays && b.o.OrderField == "" {
			return nil
		}
		set := b.rep.place(parent)
		var models []mongo.WriteModel
		if b.o.OrderField != "" {
			order, room, err := b.orderAt(ctx, b.siblingsOf(parent), pos, ref, id)
			if err != nil {
				return err
			}
			set = append(set, bson.E{Key: b.o.OrderField, Value: order})
			models = append(room, b.marked(parent)...)
		}
		models = append(models, update(b.byID(id), d("$set", set)))
		if !stays {
			models = append(models, b.rep.lift(x, b.child(x.id, parent))...)
			models = append(models, b.recount(x, -1)...)
			if parent != nil {
				models = append(models, b.counter(b.byID(parent.id), 1)...)
			}
		}
		return b.write(ctx, models...)
	})
}

// target is the parent that a position names for x, nil for a root; ref is the node in the position.
func (b base) target(ctx context.Context, pos position, ref, x node) (_ *node, err error) {
	switch {
	case pos.kind == atRoot:
		return nil, nil
	case pos.sibling():
		if b.unadopted(ref.raw) {
			return nil, notAdopted(ref.id, b.derived)
		}
		match := b.parentOf(ref)
		if match == nil {
			return nil, nil
		}
		if ref, err = b.findOne(ctx, match, b.orphaned(ref)); err != nil {
			return nil, err
		}
	}
	if err := b.sound(ref); err != nil {
		return nil, err
	}
	return &ref, b.acyclic(ctx, x.id, ref)
}

// bequeath puts the children of x in its place, or makes roots of them, after the others; they keep their order.
func (b base) bequeath(ctx context.Context, x node, policy DeletePolicy) ([]mongo.WriteModel, error) {
	if err := b.adopted(x); err != nil {
		return nil, err
	}
	match := b.kidsOf(x)
	if policy == Restrict {
		kid, err := b.findOne(ctx, match, nil)
		if err == nil && kid.raw != nil {
			err = fmt.Errorf("%w: %s", ErrHasChildren, text(x.id))
		}
		return b.recount(x, -1), err
	}
	kids, heir, err := b.survey(ctx, x, match, policy == Promote)
	if err != nil {
		return nil, err
	}
	by := int64(-1)
	if policy == Promote {
		by += int64(len(kids))
	}
	models := b.recount(x, by)
	if len(kids) == 0 {
		return models, nil
	}
	for _, n := range append(kids, x) {
		if err := b.rep.adopted(n); err != nil {
			return nil, err
		}
	}
	if b.o.OrderField != "" {
		more, err := b.reorder(ctx, x, heir, kids, match, policy)
		if err != nil {
			return nil, err
		}
		models = append(models, more...)
	}
	return append(models, b.rep.lift(x, heir)...), nil
}

// survey reads the children of x and, for Promote, its parent.
func (b base) survey(ctx context.Context, x node, match bson.D, promote bool) (kids []node, heir *node, err error) {
	up := b.heir(x)
	if up == nil || !promote {
		kids, err = b.findAll(ctx, match)
		return kids, nil, err
	}
	nodes, err := b.findAll(ctx, d("$or", bson.A{match, b.byID(up.id)}))
	for _, n := range nodes {
		if same(n.id, up.id) {
			heir = &n
		} else {
			kids = append(kids, n)
		}
	}
	if err == nil && heir == nil {
		err = b.orphaned(x)
	}
	return kids, heir, err
}

// reorder moves the children of x to its place among its siblings, which make room, or after the roots.
func (b base) reorder(ctx context.Context, x node, heir *node, kids []node, match bson.D,
	policy DeletePolicy) (models []mongo.WriteModel, err error) {
	f, first := b.o.OrderField, x.order
	low, high := kids[0].order, kids[0].order
	for _, n := range kids {
		low, high = min(low, n.order), max(high, n.order)
	}
	if policy == Promote {
		if high > low {
			after := append(b.siblingsOf(heir), bson.E{Key: f, Value: d("$gt", x.order)})
			models = append(models, update(after, d("$inc", d(f, high-low))))
		}
		// Insertions under the heir choose positions without the lock.
		models = append(models, b.marked(heir)...)
	} else {
		last, err := b.findOne(ctx, b.rep.rootsMatch(), nil, f, -1)
		if err != nil {
			return nil, err
		}
		if last.raw != nil {
			first = last.order + orderGap
		}
	}
	return append(models, update(match, d("$inc", d(f, first-low)))), nil
}

// arrange places the documents of a Load and gives them the orders that follow.
func (b base) arrange(ctx context.Context, items []*item) error {
	next, err := b.nextOrder(ctx, items)
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.parent != nil {
			if err := b.sound(*it.parent); err != nil {
				return err
			}
		}
		it.node = *b.child(it.id, it.parent)
		it.doc = append(it.doc, b.rep.place(it.parent)...)
		if b.o.OrderField != "" {
			it.doc = append(it.doc, bson.E{Key: b.o.OrderField, Value: next})
			next += orderGap
		}
	}
	return nil
}

// nextOrder comes after those of all children that the parents of items have.
func (b base) nextOrder(ctx context.Context, items []*item) (int64, error) {
	if b.o.OrderField == "" {
		return 0, nil
	}
	at, seen := bson.A{}, map[string]bool{}
	for _, it := range items {
		if k := key(it.above); !seen[k] && (it.parent == nil || it.parent.raw != nil) {
			seen[k] = true
			at = append(at, b.reference(it.parent))
		}
	}
	siblings := b.in(b.link, d("$in", at), b.o.OrderField, d("$lt", int64(math.MaxInt64-orderGap)))
	last, err := b.findOne(ctx, siblings, nil, b.o.OrderField, -1)
	if err != nil || last.raw == nil {
		return 0, err
	}
	return last.order + orderGap, nil
}
