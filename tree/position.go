package tree

import "go.mongodb.org/mongo-driver/v2/bson"

type placeKind int

const (
	atRoot placeKind = iota
	underParent
	beforeSibling
	afterSibling
)

// Position is a place in the tree for Insert, Move and Load. Make one with
// Tree.AsRoot, Under, Before or After; the zero value is AsRoot.
type Position[K any] struct {
	kind  placeKind
	ref   K
	first bool
}

// First puts the node before its siblings instead of after them. It has no effect
// on Before and After.
func (p Position[K]) First() Position[K] {
	p.first = true
	return p
}

// AsRoot is the position of a root, after the other roots.
func (t *Tree[K, T]) AsRoot() Position[K] { return Position[K]{} }

// Under is the position after the other children of parent.
func (t *Tree[K, T]) Under(parent K) Position[K] { return Position[K]{kind: underParent, ref: parent} }

// Before is the position right before a sibling. It needs ordered siblings.
func (t *Tree[K, T]) Before(sibling K) Position[K] {
	return Position[K]{kind: beforeSibling, ref: sibling}
}

// After is the position right after a sibling. It needs ordered siblings.
func (t *Tree[K, T]) After(sibling K) Position[K] {
	return Position[K]{kind: afterSibling, ref: sibling}
}

// position is a Position with its ID encoded.
type position struct {
	kind  placeKind
	ref   bson.RawValue
	first bool
}

func (p position) sibling() bool { return p.kind == beforeSibling || p.kind == afterSibling }

func (t *Tree[K, T]) position(pos Position[K]) (position, error) {
	p := position{kind: pos.kind, first: pos.first && (pos.kind == atRoot || pos.kind == underParent)}
	if pos.kind == atRoot {
		return p, nil
	}
	ref, err := t.c.id(pos.ref)
	p.ref = ref
	return p, err
}
