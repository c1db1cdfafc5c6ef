package tree

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// linked is the writing side of the representations in which a document says itself
// where it is.
type linked struct {
	*core
	linkage
}

// linkage is what differs between them: parentRefs, ancestorArray and pathShape.
type linkage interface {
	reader
	source
	fields() []string
	keys() []indexKeys
	settings() []config.Setting

	accept(doc bson.D) error
	// place is the shape of a document under a parent; nil is no parent.
	place(parent *node) bson.D
	// parentOf is the filter for a node's parent, nil for a root; heir is the
	// parent itself, as far as the node tells.
	parentOf(n node) bson.D
	heir(x node) node
	// below reports whether n is x or lies under it.
	below(ctx context.Context, n, x node) (bool, error)
	// adopted refuses a node that does not know its ancestors; unadopted is an
	// expression for a child of x that does not know x.
	adopted(n node) error
	unadopted(x node) any
	// rebase rewrites the descendants of x, which moves under parent.
	rebase(x node, parent *node) []mongo.WriteModel
	settle(ctx context.Context) (int64, error)
	// lift rewrites the descendants of x to be those of heir, without x.
	lift(x node, heir *node) []mongo.WriteModel
	// cascade deletes a node and its descendants.
	cascade(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error)
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
	ref := n.parent
	if n.path != "" {
		ref = n.raw.Lookup(l.o.PathField)
	}
	return fmt.Errorf("%w: %s, of %s", ErrParentNotFound, text(ref), text(n.id))
}

// ordered refuses a position among siblings that have no order.
func (l linked) ordered(pos position) error {
	if l.o.OrderField == "" && (pos.first || pos.sibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

func (l linked) insert(ctx context.Context, doc bson.D, pos position) error {
	if err := l.ordered(pos); err != nil {
		return err
	}
	if pos.kind == atRoot && l.o.OrderField == "" {
		_, err := l.durable.InsertOne(ctx, append(doc, l.place(nil)...))
		return err
	}
	// A child conflicts with what happens to its parent by writing to it. The
	// roots of an ordered forest have nothing in common but the lock.
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
		full := append(doc[:len(doc):len(doc)], l.place(parent)...)
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

// move reads both nodes, refuses, and writes in one command: the node, its
// descendants, the counters, and the mark on the new parent where a position among
// its children was chosen.
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
		parent, err := l.target(ctx, pos, ref)
		if err != nil {
			return err
		}
		if parent != nil {
			below, err := l.below(ctx, *parent, x)
			if err != nil {
				return err
			}
			if below {
				return fmt.Errorf("%w: %s", ErrCycle, text(id))
			}
		}
		set := l.place(parent)
		stays := l.isChild(x, parent)
		var models []mongo.WriteModel
		switch {
		case l.o.OrderField != "":
			order, room, err := l.orderAt(ctx, l.siblingsOf(parent), pos, ref, id)
			if err != nil {
				return err
			}
			set = append(set, bson.E{Key: l.o.OrderField, Value: order})
			models = append(room, l.marked(parent)...)
		case stays:
			return nil
		}
		models = append(models, update(l.byID(id), d("$set", set)))
		if !stays {
			models = append(models, l.rebase(x, parent)...)
			models = append(models, l.counter(l.parentOf(x), -1)...)
		}
		if parent != nil {
			by := int64(1)
			if stays {
				by = 0
			}
			models = append(models, l.counter(l.byID(parent.id), by)...)
		}
		return l.write(ctx, models...)
	})
}

// target is the parent that a position names; ref is the node in it.
func (l linked) target(ctx context.Context, pos position, ref node) (*node, error) {
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
		var err error
		if ref, err = l.findOne(ctx, match, l.orphaned(ref)); err != nil {
			return nil, err
		}
	}
	return &ref, l.sound(ref)
}

// isChild reports whether x is a child of parent already.
func (l linked) isChild(x node, parent *node) bool {
	at := l.naming(parent)
	have, err := x.raw.LookupErr(at.Key)
	want, _ := l.codec.Value(at.Value)
	return isNull(want) && (err != nil || isNull(have)) || err == nil && same(have, want)
}

// naming is the field by which the children of a node, or the roots, name it.
func (l linked) naming(parent *node) bson.E {
	shape := l.place(parent)
	return shape[len(shape)-1]
}

func (l linked) remove(ctx context.Context, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = l.atomically(ctx, true, func(ctx context.Context) error {
		if policy == Cascade {
			var x node
			if x, deleted, err = l.cascade(ctx, id); err != nil || x.raw == nil {
				return err
			}
			return l.write(ctx, l.counter(l.parentOf(x), -1)...)
		}
		deleted = 1
		x, err := l.take(ctx, id)
		if err == nil {
			err = l.usable(x)
		}
		if err != nil {
			return err
		}
		kids, err := l.survey(ctx, x)
		if err != nil {
			return err
		}
		if policy == Restrict && kids.count > 0 {
			return fmt.Errorf("%w: %s", ErrHasChildren, text(id))
		}
		var heir *node
		if policy == Promote && l.parentOf(x) != nil {
			n := l.heir(x)
			if heir = &n; !kids.heir {
				return l.orphaned(x)
			}
		}
		models, err := l.inherit(ctx, x, heir, policy, kids)
		if err != nil {
			return err
		}
		by := int64(-1)
		if policy == Promote {
			by += kids.count
		}
		return l.write(ctx, append(models, l.counter(l.parentOf(x), by)...)...)
	})
	return deleted, err
}

// inherit are the writes that give the children of x another parent, or make roots
// of them, in the order they have: in the place of x, or after the other roots.
func (l linked) inherit(ctx context.Context, x node, heir *node, policy DeletePolicy, kids survey) ([]mongo.WriteModel, error) {
	if kids.count == 0 {
		return nil, nil
	}
	if kids.unadopted > 0 {
		return nil, fmt.Errorf("%d children of %s do not have it among their ancestors, run Adopt or Repair", kids.unadopted, text(x.id))
	}
	if err := l.adopted(x); err != nil {
		return nil, err
	}
	f := l.o.OrderField
	if f == "" {
		return l.lift(x, heir), nil
	}
	for _, v := range []bson.RawValue{kids.low, kids.high, x.raw.Lookup(f)} {
		if err := l.checkOrder(v, x.id); err != nil {
			return nil, err
		}
	}
	low, high, first := integer(kids.low), integer(kids.high), x.order
	var models []mongo.WriteModel
	if policy == Promote {
		if high > low {
			after := append(l.siblingsOf(heir), bson.E{Key: f, Value: d("$gt", x.order)})
			models = append(models, update(after, d("$inc", d(f, high-low))))
		}
		// Insertions under the heir choose positions without the lock.
		models = append(models, l.marked(heir)...)
	} else {
		last, err := l.findOne(ctx, l.rootsMatch(), fault.ErrNotFound, f, -1)
		if err == nil {
			first = last.order + orderGap
		} else if !errors.Is(err, fault.ErrNotFound) {
			return nil, err
		}
	}
	match, _ := l.childrenOf(x)
	match = append(match, l.except(l.o.ParentField)...)
	models = append(models, update(match, d("$inc", d(f, first-low))))
	return append(models, l.lift(x, heir)...), nil
}

// survey is what Delete asks about the children of a node: their number, lowest and
// highest order, how many do not know the node, and whether the node's parent is
// there.
type survey struct {
	count     int64
	low, high bson.RawValue
	unadopted int64
	heir      bool
}

func (l linked) survey(ctx context.Context, x node) (out survey, err error) {
	kids, _ := l.childrenOf(x)
	kids = append(kids, l.except(l.o.ParentField)...)
	branches := bson.A{kids}
	isHeir := any(false)
	if heir := l.parentOf(x); heir != nil {
		branches = append(branches, heir)
		at := l.naming(&x)
		isHeir = expr.Op("$ne", expr.Field(at.Key), expr.Literal(at.Value))
	}
	group := d("_id", isHeir, "n", d("$sum", 1), "unadopted", d("$sum", expr.Cond(l.unadopted(x), 1, 0)))
	if f := l.o.OrderField; f != "" {
		group = append(group, d("low", d("$min", "$"+f), "high", d("$max", "$"+f))...)
	}
	open := opening(l.primary, mongo.Pipeline{expr.Op("$match", expr.Op("$or", branches)), expr.Op("$group", group)}, 0)
	for row, err := range cursor.Docs(ctx, open) {
		if err != nil {
			return out, err
		}
		if row.Lookup("_id").Boolean() {
			out.heir = true
			continue
		}
		out.count, out.unadopted = integer(row.Lookup("n")), integer(row.Lookup("unadopted"))
		out.low, out.high = row.Lookup("low"), row.Lookup("high")
	}
	return out, nil
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
		}
		shape := l.place(it.parent)
		it.doc = append(it.doc, shape...)
		it.node.parent, it.node.ancestors, it.node.path = it.above, it.parent.lineage(), ""
		if it.parent == nil {
			it.node.ancestors = nil
		}
		it.node.path, _ = placed(shape, l.o.PathField).(string)
		if l.o.OrderField != "" {
			k := key(it.above)
			it.doc = append(it.doc, bson.E{Key: l.o.OrderField, Value: next[k]})
			next[k] += orderGap
		}
	}
	return nil
}

func placed(shape bson.D, field string) any {
	for _, e := range shape {
		if e.Key == field {
			return e.Value
		}
	}
	return nil
}

func (l linked) adopt(parent node, kids []bson.RawValue) bson.D { return l.count(int64(len(kids))) }
