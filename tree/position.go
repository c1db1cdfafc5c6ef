package tree

import "go.mongodb.org/mongo-driver/v2/bson"

// positionKind says where a position is, in relation to its anchor.
type positionKind int

const (
	atRoot positionKind = iota
	underParent
	beforeSibling
	afterSibling
)

// Position says where Insert, Move and Load put a node. Make one with Tree.AsRoot, Under, Before or After. The zero value
// is AsRoot.
type Position[ID any] struct {
	position position
	err      error
}

// First puts the node before its siblings instead of after them. It needs ordered siblings. Without them, as for the
// roots of ChildReferences, the call that gets the Position returns mongopatterns.ErrInvalid. First has no effect on
// Before and After.
func (p Position[ID]) First() Position[ID] {
	p.position.first = !p.position.besideSibling()
	return p
}

// AsRoot is the position of a root, after the other roots if the tree orders them.
func (t *Tree[ID, T]) AsRoot() Position[ID] { return Position[ID]{} }

// Under is the position after the other children of parent.
func (t *Tree[ID, T]) Under(parent ID) Position[ID] { return t.position(underParent, parent) }

// Before is the position right before a sibling. It needs ordered siblings, as First.
func (t *Tree[ID, T]) Before(sibling ID) Position[ID] { return t.position(beforeSibling, sibling) }

// After is the position right after a sibling. It needs ordered siblings, as First.
func (t *Tree[ID, T]) After(sibling ID) Position[ID] { return t.position(afterSibling, sibling) }

// position keeps an error for the call that gets the Position, so that Under and the others return one value.
func (t *Tree[ID, T]) position(kind positionKind, id ID) Position[ID] {
	anchorID, err := t.c.id(id)
	return Position[ID]{position{kind: kind, anchorID: anchorID}, err}
}

// position is a Position without its type parameter: what a call asks for.
type position struct {
	kind     positionKind
	anchorID bson.RawValue // of the node that the position names: the parent or a sibling
	first    bool          // before the siblings
}

// foundPosition is a position with the nodes that were read for it.
type foundPosition struct {
	position
	anchor node  // without raw for a root
	parent *node // nil for a root
	moving *node // the node that moves there, nil for a new one
}

func (p position) besideSibling() bool { return p.kind == beforeSibling || p.kind == afterSibling }

// withAnchor returns the ID of the node that moves to the position, and that of the anchor if there is one.
func (p position) withAnchor(id bson.RawValue) []bson.RawValue {
	if p.kind == atRoot {
		return []bson.RawValue{id}
	}
	return []bson.RawValue{id, p.anchorID}
}

// offset is the one in the list of children for a position under a parent, -1 for the end.
func (p position) offset() int {
	if p.first {
		return 0
	}
	return -1
}

// positionUnder is the position under a parent, null for the roots.
func positionUnder(parent bson.RawValue) position {
	if isNull(parent) {
		return position{}
	}
	return position{kind: underParent, anchorID: parent}
}
