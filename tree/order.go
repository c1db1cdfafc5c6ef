package tree

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

type placeKind int

const (
	atRoot placeKind = iota
	underParent
	beforeSibling
	afterSibling
)

// Position is a place in the tree for Insert, Move and Load. Make one with Tree.AsRoot, Under, Before or After;
// the zero value is AsRoot.
type Position[K any] struct {
	at  position
	err error
}

// First puts the node before its siblings instead of after them. It has no effect on Before and After.
func (p Position[K]) First() Position[K] {
	p.at.first = !p.at.sibling()
	return p
}

// AsRoot is the position of a root, after the other roots.
func (t *Tree[K, T]) AsRoot() Position[K] { return Position[K]{} }

// Under is the position after the other children of parent.
func (t *Tree[K, T]) Under(parent K) Position[K] { return t.position(underParent, parent) }

// Before is the position right before a sibling. It needs ordered siblings.
func (t *Tree[K, T]) Before(sibling K) Position[K] { return t.position(beforeSibling, sibling) }

// After is the position right after a sibling. It needs ordered siblings.
func (t *Tree[K, T]) After(sibling K) Position[K] { return t.position(afterSibling, sibling) }

func (t *Tree[K, T]) position(kind placeKind, id K) Position[K] {
	ref, err := t.c.id(id)
	return Position[K]{position{kind: kind, ref: ref}, err}
}

type position struct {
	kind  placeKind
	ref   bson.RawValue
	first bool
}

func (p position) sibling() bool { return p.kind == beforeSibling || p.kind == afterSibling }

// within is the position under a parent, null for the roots.
func within(parent bson.RawValue) position {
	if isNull(parent) {
		return position{}
	}
	return position{kind: underParent, ref: parent}
}

// absent is the error for a ref that is not there.
func (p position) absent() error {
	if p.sibling() {
		return missing(p.ref)
	}
	return noParent(p.ref)
}

// target is where a node is to be stored.
type target struct {
	parent *node              // nil for a root
	fields bson.D             // what keeps it in order among its siblings
	first  []mongo.WriteModel // what its siblings need before
}

// siblingOrder is how siblings are kept in order: by gaps in an OrderField, or by the numbers of NestedSets.
type siblingOrder interface {
	// serial reports whether every write takes the lock.
	serial() bool
	// numbered refuses a node whose numbers do not tell where it is.
	numbered(n node) error
	// choose sets the fields of a target whose parent is known. ref is the node in the position, and x the node
	// that moves there, without raw if it is new.
	choose(ctx context.Context, to *target, pos position, ref, x node) error
	// succeed writes what the deletion of x alone changes. Its children go to another node, nil for the roots.
	succeed(ctx context.Context, x node, to *node, children []node, policy DeletePolicy) ([]mongo.WriteModel, error)
	// closeUp writes what the deletion of x and so many nodes in all changes.
	closeUp(x node, deleted int64) ([]mongo.WriteModel, error)
	// extend are the fields of the documents of a Load, which come after their siblings.
	extend(ctx context.Context, items []*item) ([]bson.D, error)
}

// orderGap is the distance of neighbours in OrderField: 16 insertions can halve it before siblings have to make
// room.
const orderGap = 1 << 16

// gaps keep siblings in order by an OrderField, and without one in none.
type gaps struct{ linked }

func (g gaps) serial() bool                                    { return false }
func (g gaps) numbered(node) error                             { return nil }
func (g gaps) closeUp(node, int64) ([]mongo.WriteModel, error) { return nil, nil }

// allows refuses positions among siblings that have no order.
func (l linked) allows(pos position) error {
	if l.order == "" && (pos.first || pos.sibling()) {
		return fault.Invalid("First, Before and After need Options.OrderField")
	}
	return nil
}

// choose has a move write to the new parent, too: insertions under it choose positions without the lock.
func (g gaps) choose(ctx context.Context, to *target, pos position, ref, x node) error {
	if g.o.OrderField == "" {
		return nil
	}
	at, room, err := g.between(ctx, g.childrenUnder(to.parent), pos, ref, x.id)
	if err != nil {
		return err
	}
	to.fields, to.first = d(g.o.OrderField, at), room
	if x.raw != nil {
		to.first = append(to.first, g.marked(to.parent)...)
	}
	return nil
}

// between finds the order of a node at a position among siblings; self is the node itself when it moves. If
// there is no room next to the sibling, those after it move up by one gap: room is that write, which has to
// come first.
func (g gaps) between(ctx context.Context, siblings bson.D, pos position, sibling node,
	self bson.RawValue) (at int64, room []mongo.WriteModel, err error) {
	field := g.o.OrderField
	// edge is the first order in a direction among those in bounds, or otherwise.
	edge := func(dir int, otherwise int64, bounds ...any) (int64, error) {
		match := append(slices.Clone(siblings), d(bounds...)...)
		if self.Type != 0 {
			match = append(match, bson.E{Key: g.o.IDField, Value: d("$ne", self)})
		}
		n, err := g.findOne(ctx, match, nil, field, dir)
		if err != nil || n.raw == nil {
			return otherwise, err
		}
		return n.order, nil
	}
	if !pos.sibling() {
		dir, out := -1, int64(orderGap) // beyond the last
		if pos.first {
			dir, out = 1, -orderGap
		}
		at, err := edge(dir, -out, field, d("$lt", int64(math.MaxInt64-orderGap)))
		return at + out, nil, err
	}
	low, high, bound := sibling.order, sibling.order, "$gt" // the neighbours; a missing one is a gap away
	if pos.kind == afterSibling {
		high, err = edge(1, low+2*orderGap, field, d("$gt", low))
	} else {
		bound = "$gte"
		low, err = edge(-1, high-2*orderGap, field, d("$lt", high))
	}
	if err != nil {
		return 0, nil, err
	}
	if high-low < 2 {
		after := append(slices.Clone(siblings), bson.E{Key: field, Value: d(bound, sibling.order)})
		room = []mongo.WriteModel{update(after, d("$inc", d(field, int64(orderGap))))}
		high += orderGap
	}
	return low + (high-low)/2, room, nil
}

// succeed moves the children of x to its place among its siblings, which make room, or after the roots.
func (g gaps) succeed(ctx context.Context, x node, to *node, children []node, policy DeletePolicy) (
	models []mongo.WriteModel, err error) {
	field := g.o.OrderField
	if field == "" || len(children) == 0 {
		return nil, nil
	}
	first, low, high := x.order, children[0].order, children[0].order
	for _, n := range children {
		low, high = min(low, n.order), max(high, n.order)
	}
	if policy == Promote {
		if high > low {
			after := append(g.childrenUnder(to), bson.E{Key: field, Value: d("$gt", x.order)})
			models = append(models, update(after, d("$inc", d(field, high-low))))
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
	return append(models, update(g.allChildren(x), d("$inc", d(field, first-low)))), nil
}

// extend comes after all children that the parents of items have.
func (g gaps) extend(ctx context.Context, items []*item) ([]bson.D, error) {
	field, fields := g.o.OrderField, make([]bson.D, len(items))
	if field == "" {
		return fields, nil
	}
	at, seen := bson.A{}, map[string]bool{}
	for _, it := range items {
		if k := key(it.above); !seen[k] && (it.parent == nil || it.parent.raw != nil) {
			seen[k] = true
			if it.parent == nil {
				at = append(at, g.rootLinks()...)
			} else {
				at = append(at, g.linkTo(it.parent))
			}
		}
	}
	siblings := g.in(g.link, d("$in", at), field, d("$lt", int64(math.MaxInt64-orderGap)))
	last, err := g.findOne(ctx, siblings, nil, field, -1)
	if err != nil {
		return nil, err
	}
	next := int64(0)
	if last.raw != nil {
		next = last.order + orderGap
	}
	for i := range items {
		fields[i] = d(field, next)
		next += orderGap
	}
	return fields, nil
}

// orderOf is the order of a node among its siblings; without a whole number it comes last.
func (s *store) orderOf(n node) int64 {
	if at, ok := integral(s.field(n.raw, s.order)); ok && at <= math.MaxInt64-orderGap {
		return at
	}
	return math.MaxInt64
}

// positions are the writes that give siblings, which come sorted, different whole numbers. Those that have one
// keep it, unless two have the same: then all are numbered anew. The others follow in the order they come in.
func (s *store) positions(siblings []node) (models []mongo.WriteModel) {
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
		models = append(models, update(s.byID(n.id), d("$set", d(field, next))))
		next += orderGap
	}
	return models
}
