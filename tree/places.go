package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// place says where a node is. Nodes below share it, so it holds no way up, only the next step of it.
type place struct {
	id      bson.RawValue
	segment bson.RawValue // in to
	node    node          // as it was read, until the place is connected
	said    said
	adopted bool // it has its place in to from before this run: see markAdopted

	// The next step of the way up, set by beginStep and finishStep.
	begun    bool     // beginStep has run
	parents  []*place // several only in ChildReferences
	lost     string   // why it has no parent though it names one
	unlisted bool     // ChildReferences: it has no array, and the parent that it names does not list it

	// Where the ways up lead, set by connector.
	connected bool
	reached   bool     // a way up ends at a root
	rooted    bool     // every way up ends at a root
	cycle     *cycle   // that it lies on
	closing   []*place // those of its parents whose links close the cycle

	seenBelow *node // the node as its children in to see it, once engine.asParent was asked for it
}

// said is what a document said of its parent when its place was made, for moved.
type said struct {
	bare   bool          // see isBare
	parent bson.RawValue // the value of the ParentField
	refKey string        // that of the parent that it names, once the place is begun
}

// climb finds the places of nodes: it reads the parents of all nodes at once, then their parents, until every
// way meets a place that is known. So a batch costs a query for each new level and not for each node.
func (e *engine) climb(ctx context.Context, nodes []node) ([]*place, error) {
	if len(e.known) > knownMax || slices.ContainsFunc(nodes, e.moved) {
		e.forget(e.epoch)
	}
	places := make([]*place, len(nodes))
	for i, n := range nodes {
		places[i] = e.placeOf(n)
	}
	for level := places; len(level) > 0; {
		var err error
		if level, err = e.readParents(ctx, level); err != nil {
			return nil, err
		}
	}
	c := connector{graph: e.from.o.Graph, number: map[*place]int{}, low: map[*place]int{}}
	for _, at := range places {
		c.visit(at)
	}
	return places, nil
}

// placeOf returns the place of a node that was read, a new one if it was not met before.
func (e *engine) placeOf(n node) *place {
	at := e.known[key(n.id)]
	if at == nil {
		at = e.newPlace(n)
	}
	if e.keepsPlaces && !at.adopted && n.raw.Lookup(e.to.refField).Type != 0 { // perhaps since the last look
		e.markAdopted(at, n)
	}
	return at
}

// newPlace makes a place known by the ID of its node, and by what the children of the node name.
func (e *engine) newPlace(n node) *place {
	at := &place{id: value.Clone(n.id), segment: value.Clone(e.to.field(n.raw, e.to.o.SegmentField)), node: n,
		said: said{bare: e.from.isBare(n.raw), parent: value.Clone(n.parent)}}
	for _, name := range e.from.namesOf(n.ref) {
		e.known[name] = at
		e.added = append(e.added, name)
	}
	return at
}

// markAdopted notes that a node has its path or its array in to already, and so stays where it is there. climb does not go
// above it.
func (e *engine) markAdopted(at *place, n node) {
	at.adopted, at.seenBelow = true, &node{ref: ref{at.id, at.segment, e.to.parse(n.raw).path}}
}

// moved reports whether a node that was read again has another parent, or another name, than when its place was found. Old
// code moves nodes without the lock, so the epoch does not show it. The place and those below it are then wrong.
func (e *engine) moved(n node) bool {
	at := e.known[key(n.id)]
	switch {
	case at == nil || !at.begun: // nothing was concluded from it
		return false
	case e.known[e.from.refKey(n.ref)] != at: // its children refer to it by another value now
		return true
	case e.from.isBare(n.raw) && (at.adopted || !at.said.bare || !same(n.parent, at.said.parent)):
		return true // in ChildReferences, where the parent field says where a node without an array is
	case at.adopted: // wherever its parent is
		return false
	}
	named, _ := e.from.parent(n)
	return at.said.refKey != e.from.refKey(named)
}

// readParents reads the parents of places that are not known, links the places to them, and returns
// the places of the parents.
func (e *engine) readParents(ctx context.Context, places []*place) (parents []*place, err error) {
	var nodes []node
	below := map[string]*place{}
	for _, at := range places {
		if !e.beginStep(at) {
			nodes = append(nodes, at.node)
			below[key(at.id)] = at
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	found, err := e.from.findAll(ctx, e.from.parentsMatch(nodes))
	if err != nil {
		e.forget(e.epoch) // places that were begun and have no parents must not stay: the transaction may run again
		return nil, err
	}
	for _, n := range found {
		parent := e.placeOf(n)
		parents = append(parents, parent)
		for _, id := range n.children { // in ChildReferences
			if at := below[key(id)]; at != nil && !slices.Contains(at.parents, parent) {
				at.parents = append(at.parents, parent)
			}
		}
	}
	for _, at := range below {
		e.finishStep(at)
	}
	return parents, nil
}

// beginStep links a place to its parent if that is known. It returns false if the parent has to be read.
func (e *engine) beginStep(at *place) bool {
	if at.begun {
		return true
	}
	at.begun = true
	named, broken := e.from.parent(at.node)
	at.said.refKey, at.lost = e.from.refKey(named), broken
	if broken != "" || at.adopted {
		return true
	}
	if e.known[at.said.refKey] != nil {
		e.linkTo(at, at.said.refKey)
		return true
	}
	return at.said.refKey == "" && !e.from.namesChildren
}

// finishStep links a place to its parent now that the parents were read, or says why it has none. In ChildReferences
// readParents has linked it to those that list it.
func (e *engine) finishStep(at *place) {
	if e.from.namesChildren {
		e.finishBare(at)
		return
	}
	e.linkTo(at, at.said.refKey)
}

// finishBare is the rest of finishStep in ChildReferences. A bare node is where its parent field says, even if others
// list it.
func (e *engine) finishBare(at *place) {
	listed := slices.ContainsFunc(at.parents, func(p *place) bool { return same(p.id, at.node.parent) })
	if listed || !e.from.isBare(at.node.raw) {
		return
	}
	named, broken := e.from.namedParent(at.node)
	at.unlisted, at.parents, at.lost = true, nil, broken
	switch {
	case broken != "":
	case e.converts():
		at.lost = "not adopted"
	default:
		e.linkTo(at, e.from.refKey(named))
	}
}

// linkTo links a place to the parent that is known by a name.
func (e *engine) linkTo(at *place, name string) {
	parent := e.known[name]
	switch {
	case parent == nil:
		at.lost = "there is no such parent"
	case !e.to.likeParent(at.id, parent.id):
		at.lost = otherType
	default:
		at.parents = []*place{parent}
	}
}

// asParent returns a node as its children in to see it, computed downwards from the root, or from a node that is adopted.
// It is nil if no root leads to the node, or if the node or one above it has a segment that no path can contain.
func (e *engine) asParent(at *place) *node {
	if !at.rooted {
		return nil
	}
	if at.seenBelow == nil {
		var parent *node
		if len(at.parents) > 0 {
			if parent = e.asParent(at.parents[0]); parent == nil {
				return nil
			}
		}
		at.seenBelow = e.to.nodeUnder(at.id, at.segment, parent)
	}
	if e.to.checkUsable(at.seenBelow.ref) != nil {
		return nil
	}
	return at.seenBelow
}

// forget drops all places. epoch is the one from now on, -1 if it could not be read.
func (e *engine) forget(epoch int64) {
	e.known, e.epoch = map[string]*place{}, epoch
}

// forgetUnrooted drops the places of this look that no root leads to. The epoch does not show insertions, and one may
// have added the missing parent before the next look.
func (e *engine) forgetUnrooted() {
	for _, k := range e.added {
		if at := e.known[k]; at != nil && !at.rooted {
			delete(e.known, k)
		}
	}
	e.added = nil
}
