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
	kept    bool // the node keeps the place that it has in to: see mode.keeps

	// The next step of the way up, set by needsRead and resolve.
	resolved bool
	ups      []*place // its parents; several only in ChildReferences
	lost     string   // why it has no parent though it names one
	unlisted bool     // ChildReferences: it has no array, and the parent that it names does not list it

	// Where the ways up lead, set by connector.
	connected bool
	reached   bool     // a way up ends at a root
	rooted    bool     // every way up ends at a root
	cycle     *cycle   // that it lies on
	closing   []*place // those of its ups whose links close the cycle

	computed *node // the result of compute
}

// said is what a document said of its parent when its place was made, for moved.
type said struct {
	bare   bool          // see isBare
	parent bson.RawValue // the value of the ParentField
	up     string        // the refKey of the parent, once the place is resolved
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
	c := connector{graph: e.from.o.Graph, order: map[*place]int{}, low: map[*place]int{}}
	for _, s := range places {
		c.visit(s)
	}
	return places, nil
}

// placeOf returns the place of a node that was read, a new one if it was not met before.
func (e *engine) placeOf(n node) *place {
	k := key(n.id)
	s := e.known[k]
	if s == nil {
		s = &place{id: value.Clone(n.id), segment: value.Clone(e.to.field(n.raw, e.to.o.SegmentField)), node: n,
			said: said{bare: e.from.isBare(n.raw), parent: value.Clone(n.parent)}}
		for _, k := range []string{k, e.from.refKey(n)} {
			e.known[k] = s
			e.added = append(e.added, k)
		}
	}
	// A node that has the field, perhaps since the last look, keeps its place: climb does not go above it.
	if e.keeps && !s.kept && n.raw.Lookup(e.to.refField).Type != 0 {
		s.kept, s.computed = true, &node{id: s.id, segment: s.segment, path: e.to.parse(n.raw).path}
	}
	return s
}

// moved reports whether a node names another parent than when its place was found. Old code moves nodes without
// the lock, so the epoch does not show it. The place and those below it are wrong then.
func (e *engine) moved(n node) bool {
	s := e.known[key(n.id)]
	if s == nil || !s.resolved {
		return false
	}
	if e.known[e.from.refKey(n)] != s {
		return true
	}
	// In ChildReferences the parent field says where a node without an array is.
	if e.from.isBare(n.raw) && (s.kept || !s.said.bare || !same(n.parent, s.said.parent)) {
		return true
	}
	up, _ := e.from.parent(n)
	return !s.kept && s.said.up != e.from.refKey(up)
}

// readParents reads the parents of places that are not known, makes them their ups, and returns the
// places of the parents.
func (e *engine) readParents(ctx context.Context, places []*place) (parents []*place, err error) {
	var nodes []node
	below := map[string]*place{}
	for _, s := range places {
		if e.needsRead(s) {
			nodes = append(nodes, s.node)
			below[key(s.id)] = s
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	found, err := e.from.findAll(ctx, e.from.parents(nodes))
	if err != nil {
		e.forget(e.epoch) // resolved places without parents must not stay: the transaction may run again
		return nil, err
	}
	for _, p := range found {
		up := e.placeOf(p)
		parents = append(parents, up)
		for _, id := range p.children { // in ChildReferences
			if s := below[key(id)]; s != nil && !slices.Contains(s.ups, up) {
				s.ups = append(s.ups, up)
			}
		}
	}
	for _, s := range below {
		e.resolve(s)
	}
	return parents, nil
}

// needsRead gives a place its parent if that is known, and reports whether the parent has to be read.
func (e *engine) needsRead(s *place) bool {
	if s.resolved {
		return false
	}
	s.resolved = true
	ref, broken := e.from.parent(s.node)
	s.said.up, s.lost = e.from.refKey(ref), broken
	if broken != "" || s.kept {
		return false
	}
	if up := e.known[s.said.up]; up != nil {
		s.ups = []*place{up}
		return false
	}
	return s.said.up != "" || e.from.namesChildren
}

// resolve gives a place the parent that its node names, or says why it has none. The parents that list it are among its
// ups already.
func (e *engine) resolve(s *place) {
	ref, broken := e.from.unconfirmed(s.node, s.ups)
	if !e.from.isParent(ref) {
		return
	}
	if e.from.namesChildren { // then no list says where the node is, even if others have it
		s.unlisted, s.ups = true, nil
		if s.lost = broken; broken == "" && e.converts {
			s.lost = "not adopted"
		}
	}
	if s.lost != "" {
		return
	}
	if up := e.known[e.from.refKey(ref)]; up != nil {
		s.ups = []*place{up}
		return
	}
	s.lost = "there is no such parent"
}

// compute returns a node as its children in to see it, computed downwards from the root, or from a node that keeps its
// place. It is nil if no root leads to the node, or if the node or one above it has a segment that no path can contain.
func (e *engine) compute(s *place) *node {
	if !s.rooted {
		return nil
	}
	if s.computed == nil {
		var up *node
		if len(s.ups) > 0 {
			if up = e.compute(s.ups[0]); up == nil {
				return nil
			}
		}
		s.computed = e.to.child(s.id, s.segment, up)
	}
	if e.to.checkUsable(*s.computed) != nil {
		return nil
	}
	return s.computed
}

// forget drops all places. epoch is the one from now on, -1 if it could not be read.
func (e *engine) forget(epoch int64) {
	e.known, e.epoch = map[string]*place{}, epoch
}

// forgetUnrooted drops the places of this look that no root leads to. The epoch does not show insertions, and one may
// have added the missing parent before the next look.
func (e *engine) forgetUnrooted() {
	for _, k := range e.added {
		if s := e.known[k]; s != nil && !s.rooted {
			delete(e.known, k)
		}
	}
	e.added = nil
}
