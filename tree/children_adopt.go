package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// prepareAdoption prepares a batch of Adopt, where some nodes have an array and others are bare. It reads the children, which
// are the nodes that name a node of the batch as their parent, and leaves those in b that the new lists get.
//
// stale says that a parent has lost its array since the engine saw it, because old code has replaced the document.
// A push would give it an array, and so leave it, wrongly, in the list that contains it.
func (s *lists) prepareAdoption(ctx context.Context, e *engine, b *batch) (found []finding, stale bool, err error) {
	if b.writing {
		if err := s.addUnadopted(ctx, e, b); err != nil {
			return nil, false, err
		}
	}
	if err := e.readChildren(ctx, b); err != nil {
		return nil, false, err
	}
	listing, stale, err := s.readListing(ctx, b)
	if err != nil || stale {
		return nil, stale, err
	}
	for i, n := range b.nodes {
		b.children[i] = s.childrenToList(n, b.children[i], listing)
		if at := b.places[i]; !at.adopted && len(at.parents) == 1 {
			found = append(found, s.relist(e, n, at.parents[0], listing[key(n.id)])...)
		}
	}
	return found, false, nil
}

// childrenToList returns those of the children that name n which a list of n gets. A child with an array stays in the list
// that has it. If none has it, old code may have replaced n, which then lost its list, and the child returns to it, unless n
// is new and so has lost none.
func (s *lists) childrenToList(n node, children []node, listing map[string][]node) []node {
	isNew := !isNull(n.parent) && len(listing[key(n.id)]) == 0
	return slices.DeleteFunc(children, func(child node) bool {
		return s.hasArray(child) && (isNew || len(listing[key(child.id)]) > 0)
	})
}

// addUnadopted adds to a batch the nodes above it that are not adopted, so that whole ways are written at once. A node with
// an array is adopted, and only a list says where it is. If the parent got its list in a later batch, the node would be
// a root until then.
func (s *lists) addUnadopted(ctx context.Context, e *engine, b *batch) error {
	seen := map[*place]bool{}
	for _, at := range b.places {
		seen[at] = true
	}
	var above []bson.RawValue
	for _, at := range b.places {
		for at = at.unadoptedAbove(); at != nil && !seen[at]; at = at.unadoptedAbove() {
			seen[at] = true
			above = append(above, at.id)
		}
	}
	if len(above) == 0 {
		return nil
	}
	more, err := e.from.findAll(ctx, e.from.idsMatch(above))
	if err != nil {
		return err
	}
	ways, err := e.climb(ctx, more)
	if err != nil {
		return err
	}
	b.nodes, b.places = append(b.nodes, more...), append(b.places, ways...)
	return nil
}

// unadoptedAbove is the place of the parent, nil if there is none, or if the node or its parent is adopted already.
func (at *place) unadoptedAbove() *place {
	if at.adopted || !at.rooted || len(at.parents) == 0 || at.parents[0].adopted {
		return nil
	}
	return at.parents[0]
}

// hasArray reports whether a node has the field for its list. A node that was not read has none.
func (s *lists) hasArray(n node) bool { return n.raw.Lookup(s.o.ChildrenField).Type != 0 }

// readListing reads, by child, the nodes that list one of a batch or of its children. It reads the adopted
// parents with them, and stale says that one of these has no array.
func (s *lists) readListing(ctx context.Context, b *batch) (listing map[string][]node, stale bool, err error) {
	ids := idsOf(b.nodes)
	for _, all := range b.children {
		ids = append(ids, idsOf(all)...)
	}
	var adopted []bson.RawValue
	for _, at := range b.places {
		if !at.adopted && len(at.parents) == 1 && at.parents[0].adopted {
			adopted = append(adopted, at.parents[0].id)
		}
	}
	read, err := s.findAll(ctx, expr.Op("$or", bson.A{s.listingMatch(anyOf(ids)), s.idsMatch(adopted)}))
	if err != nil {
		return nil, false, err
	}
	for _, id := range adopted {
		if !s.hasArray(pick(read, id)) {
			return nil, true, nil
		}
	}
	listing = map[string][]node{}
	for _, p := range read {
		for _, id := range p.children {
			listing[key(id)] = append(listing[key(id)], p)
		}
	}
	return listing, false, nil
}

// relist removes a node from the lists of the nodes by, except that of its parent: old code may have deleted the node and
// inserted it elsewhere. If the parent has an array already, the node is pushed to it; otherwise it comes with that array.
func (s *lists) relist(e *engine, n node, parent *place, by []node) []finding {
	f, listed := findingOf(n, e.problem(mongopatterns.WrongField, n, "", "")), false
	for _, p := range by {
		if same(p.id, parent.id) {
			listed = true
			continue
		}
		f.writes = append(f.writes, s.pull(p.id, n.id))
	}
	if parent.adopted && !listed {
		f.writes = append(f.writes, s.push(parent.id, -1, n.id))
	}
	if len(f.writes) == 0 {
		return nil
	}
	return []finding{f}
}
