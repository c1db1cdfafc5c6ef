package tree

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// linked is the writing side of the representations in which a document says itself where it is.
type linked struct {
	*core
	linkage
}

// linkage is what differs between them: parentRefs, ancestorArray and pathShape.
type linkage interface {
	reader
	source
	// inside reports whether n is x or lies under it.
	inside(ctx context.Context, n, x node) (bool, error)
	// adopted refuses a node that does not know its ancestors.
	adopted(n node) error
	// rebase rewrites the descendants of x, which moves under parent.
	rebase(x node, parent *node) []mongo.WriteModel
	// lift rewrites the descendants of x to be those of heir, without x.
	lift(x node, heir *node) []mongo.WriteModel
	cascade(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error)
}

// sound refuses a node that nothing can be put under.
func (l linked) sound(n node) error {
	if err := l.adopted(n); err != nil {
		return err
	}
	return l.usable(n)
}

// siblingsOf is the filter for the children of parent, or for the roots.
func (l linked) siblingsOf(parent *node) bson.D {
	if parent == nil {
		return l.rootsMatch()
	}
	match, _ := l.childrenOf(*parent)
	return match
}

// orphaned is the error for a node whose parent is not there.
func (l linked) orphaned(n node) error {
	return fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(n.raw.Lookup(l.link())), text(n.id))
}

// ordered refuses a position among siblings that have no order.
func (l linked) ordered(pos position) error {
	if l.o.OrderField == "" && (pos.first || pos.sibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

// insert has a child conflict with what happens to its parent, by writing to it. The roots of an
// ordered forest have nothing in common but the lock.
func (l linked) insert(ctx context.Context, doc bson.D, pos position) error {
	if err := l.ordered(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && l.o.OrderField == "" {
		_, err := l.durable.InsertOne(ctx, append(doc, l.place(nil)...))
		return err
	}
	return l.atomically(ctx, pos.kind != underParent, func(ctx context.Context) (err error) {
		var sib node
		match, absent := l.byID(pos.ref), noParent(pos.ref)
		if pos.sibling() {
			if sib, err = l.find(ctx, pos.ref); err != nil {
				return err
			}
			match, absent = l.parentOf(sib), l.orphaned(sib)
		}
		var parent *node
		if pos.kind != atRoot && match != nil {
			n, err := l.touch(ctx, match, absent)
			if err == nil {
				err = l.sound(n)
			}
			if err != nil {
				return err
			}
			parent = &n
		}
		full := append(slices.Clone(doc), l.place(parent)...)
		if l.o.OrderField != "" {
			order, room, err := l.orderAt(ctx, l.siblingsOf(parent), pos, sib, bson.RawValue{})
			if err == nil {
				err = l.write(ctx, room...)
			}
			if err != nil {
				return err
			}
			full = append(full, bson.E{Key: l.o.OrderField, Value: order})
		}
		return l.create(ctx, full, parent)
	})
}

// move reads both nodes, refuses, and writes in one command: the node, its descendants, the counters,
// and the mark on the new parent where a position among its children was chosen.
func (l linked) move(ctx context.Context, id bson.RawValue, pos position) error {
	if err := l.ordered(pos); err != nil {
		return err
	}
	return l.atomically(ctx, true, func(ctx context.Context) error {
		x, ref, _, err := l.both(ctx, id, pos.ref)
		if err == nil {
			err = l.sound(x)
		}
		if err != nil || pos.sibling() && same(pos.ref, id) {
			return err
		}
		parent, err := l.target(ctx, pos, ref, x)
		if err != nil {
			return err
		}
		from, root, _ := l.ref(x)
		stays := parent == nil && root || parent != nil && from == l.own(*parent)
		if stays && l.o.OrderField == "" {
			return nil
		}
		set := l.place(parent)
		var models []mongo.WriteModel
		if l.o.OrderField != "" {
			order, room, err := l.orderAt(ctx, l.siblingsOf(parent), pos, ref, id)
			if err != nil {
				return err
			}
			set = append(set, bson.E{Key: l.o.OrderField, Value: order})
			models = append(room, l.marked(parent)...)
		}
		models = append(models, update(l.byID(id), d("$set", set)))
		if !stays {
			models = append(models, l.rebase(x, parent)...)
			models = append(models, l.counter(l.parentOf(x), -1)...)
			if parent != nil {
				models = append(models, l.counter(l.byID(parent.id), 1)...)
			}
		}
		return l.write(ctx, models...)
	})
}

// target is the parent that a position names for x, nil for a root; ref is the node in the position.
func (l linked) target(ctx context.Context, pos position, ref, x node) (_ *node, err error) {
	switch {
	case pos.kind == atRoot:
		return nil, nil
	case ref.raw == nil && pos.sibling():
		return nil, missing(pos.ref)
	case ref.raw == nil:
		return nil, noParent(pos.ref)
	case pos.sibling():
		match := l.parentOf(ref)
		if match == nil {
			return nil, nil
		}
		if ref, err = l.findOne(ctx, match, l.orphaned(ref)); err != nil {
			return nil, err
		}
	}
	if err := l.sound(ref); err != nil {
		return nil, err
	}
	inside, err := l.inside(ctx, ref, x)
	if err == nil && inside {
		err = fmt.Errorf("%w: %s", ErrCycle, text(x.id))
	}
	return &ref, err
}

// bequeath gives the children of x to its parent, in the place of x, or makes roots of them, after the
// others; they keep their order.
func (l linked) bequeath(ctx context.Context, x node, policy DeletePolicy) ([]mongo.WriteModel, error) {
	match := append(l.siblingsOf(&x), l.except(l.link())...)
	if policy == Restrict {
		kid, err := l.findOne(ctx, match, nil)
		if err == nil && kid.raw != nil {
			err = fmt.Errorf("%w: %s", ErrHasChildren, text(x.id))
		}
		return l.counter(l.parentOf(x), -1), err
	}
	kids, heir, err := l.survey(ctx, x, match, policy == Promote)
	if err != nil {
		return nil, err
	}
	by := int64(-1)
	if policy == Promote {
		by += int64(len(kids))
	}
	models := l.counter(l.parentOf(x), by)
	if len(kids) == 0 {
		return models, nil
	}
	for _, n := range append(kids, x) {
		if err := l.adopted(n); err != nil {
			return nil, err
		}
	}
	if l.o.OrderField != "" {
		more, err := l.reorder(ctx, x, heir, kids, match, policy)
		if err != nil {
			return nil, err
		}
		models = append(models, more...)
	}
	return append(models, l.lift(x, heir)...), nil
}

// survey reads the children of x and, for Promote, its parent.
func (l linked) survey(ctx context.Context, x node, match bson.D, promote bool) (kids []node, heir *node, err error) {
	up := l.heir(x)
	if up == nil || !promote {
		kids, err = l.findAll(ctx, match)
		return kids, nil, err
	}
	nodes, err := l.findAll(ctx, d("$or", bson.A{match, l.byID(up.id)}))
	for _, n := range nodes {
		if l.own(n) == l.own(*up) {
			heir = &n
		} else {
			kids = append(kids, n)
		}
	}
	if err == nil && heir == nil {
		err = l.orphaned(x)
	}
	return kids, heir, err
}

// reorder moves the children of x to its place among its siblings, which make room, or after the roots.
func (l linked) reorder(ctx context.Context, x node, heir *node, kids []node, match bson.D, policy DeletePolicy) (models []mongo.WriteModel, err error) {
	f, first := l.o.OrderField, x.order
	low, high := kids[0].order, kids[0].order
	for _, n := range kids {
		low, high = min(low, n.order), max(high, n.order)
	}
	if policy == Promote {
		if high > low {
			after := append(l.siblingsOf(heir), bson.E{Key: f, Value: d("$gt", x.order)})
			models = append(models, update(after, d("$inc", d(f, high-low))))
		}
		// Insertions under the heir choose positions without the lock.
		models = append(models, l.marked(heir)...)
	} else {
		last, err := l.findOne(ctx, l.rootsMatch(), nil, f, -1)
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
func (l linked) arrange(ctx context.Context, items []*item) error {
	next, err := l.lastOrders(ctx, items)
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.parent != nil {
			if err := l.sound(*it.parent); err != nil {
				return err
			}
			it.node.ancestors = it.parent.lineage()
		}
		shape := l.place(it.parent)
		it.doc = append(it.doc, shape...)
		if path, ok := lookup(shape, l.o.PathField).(string); ok {
			it.node.path = path
		}
		if l.o.OrderField != "" {
			k := key(it.above)
			it.doc = append(it.doc, bson.E{Key: l.o.OrderField, Value: next[k]})
			next[k] += orderGap
		}
	}
	return nil
}

// lastOrders gives for each parent of items the order of the next child. A parent of the same Load has
// none yet.
func (l linked) lastOrders(ctx context.Context, items []*item) (map[string]int64, error) {
	next, owner, values := map[string]int64{}, map[string]string{}, bson.A{}
	for _, it := range items {
		k := key(it.above)
		if _, ok := next[k]; ok || it.parent != nil && it.parent.raw == nil {
			continue
		}
		next[k] = 0
		v, err := l.codec.Value(lookup(l.place(it.parent), l.link()))
		if err != nil {
			return nil, err
		}
		values, owner[key(v)] = append(values, v), k
	}
	if len(values) == 0 || l.o.OrderField == "" {
		return next, nil
	}
	last := mongo.Pipeline{l.match(l.link(), d("$in", values)), expr.Op("$group",
		d("_id", expr.IfNull(expr.Field(l.link()), nil), "last", d("$max", expr.Field(l.o.OrderField))))}
	for row, err := range cursor.Docs(ctx, opening(l.primary, last, 0)) {
		if err != nil {
			return nil, err
		}
		k := owner[key(row.Lookup("_id"))]
		if last, ok := row.Lookup("last").AsInt64OK(); ok && last < math.MaxInt64-orderGap {
			next[k] = max(next[k], last+orderGap)
		}
	}
	return next, nil
}
