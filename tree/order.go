package tree

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

// orderGap is the distance of neighbours in OrderField: 16 insertions can halve it before siblings have to make
// room.
const orderGap = 1 << 16

// orderAt finds the order of a node at a position among siblings; self is the node itself when it moves. If
// there is no room next to the sibling, those after it move up by one gap: room is that write, which has to
// come first.
func (c *core) orderAt(ctx context.Context, siblings bson.D, pos position, sib node,
	self bson.RawValue) (at int64, room []mongo.WriteModel, err error) {
	field := c.o.OrderField
	// edge is the first order in a direction among those in bounds, or otherwise.
	edge := func(dir int, otherwise int64, bounds ...any) (int64, error) {
		match := append(slices.Clone(siblings), d(bounds...)...)
		if self.Type != 0 {
			match = append(match, bson.E{Key: c.o.IDField, Value: d("$ne", self)})
		}
		n, err := c.findOne(ctx, match, nil, field, dir)
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
	low, high, bound := sib.order, sib.order, "$gt" // the neighbours; a missing one is a gap away
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
		after := append(slices.Clone(siblings), bson.E{Key: field, Value: d(bound, sib.order)})
		room = []mongo.WriteModel{update(after, d("$inc", d(field, int64(orderGap))))}
		high += orderGap
	}
	return low + (high-low)/2, room, nil
}

// at is the order of a node among its siblings; without a whole number it comes last.
func (c *core) at(n node) int64 {
	if at, ok := integral(c.field(n.raw, c.order)); ok && at <= math.MaxInt64-orderGap {
		return at
	}
	return math.MaxInt64
}

// positions are the writes that give siblings, which come sorted, different whole numbers. Those that have one
// keep it, unless two have the same: then all are numbered anew. The others follow in the order they come in.
func (c *core) positions(kids []node) (models []mongo.WriteModel) {
	field := c.order
	if field == "" {
		return nil
	}
	kids = slices.Clone(kids)
	slices.SortStableFunc(kids, func(a, b node) int { return cmp.Compare(c.at(a), c.at(b)) })
	start, next := 0, int64(0) // from where on, and with what number
	for start < len(kids) && c.at(kids[start]) != math.MaxInt64 {
		at := c.at(kids[start])
		if start > 0 && at == c.at(kids[start-1]) {
			start, next = 0, 0
			break
		}
		start, next = start+1, at+orderGap
	}
	for _, kid := range kids[start:] {
		models = append(models, update(c.byID(kid.id), d("$set", d(field, next))))
		next += orderGap
	}
	return models
}
