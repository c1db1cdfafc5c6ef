package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// This file has the parts of Check, Repair and Adopt that only lists need: wrong elements, nodes with several
// parents, and nodes that name a parent that does not list them.

// cut opens, in a graph, the cycle that n lies on: n leaves the lists that close it. In a tree n has several parents
// then, and keeper opens the cycle.
func (s *lists) cut(n node, at *place) (models []mongo.WriteModel) {
	if !s.o.Graph {
		return nil
	}
	for _, p := range at.closing {
		models = append(models, s.pull(p.id, n.id))
	}
	return models
}

// audit finds elements that are wrong and, in a tree, nodes with several parents.
func (s *lists) audit(e *engine, n node, at *place, children []node) (found []finding) {
	f := s.o.ChildrenField
	if detail, keep := s.wrongElements(n, children); detail != "" {
		p := e.problem(mongopatterns.WrongField, n, f, detail)
		found = append(found, one(n, p, update(s.idMatch(n.id), expr.Op("$set", expr.D(f, keep)))))
	}
	if at.unlisted && at.lost == "" && at.cycle == nil && e.mayMove { // for Adopt to repair
		found = append(found, one(n, e.problem(mongopatterns.WrongField, n, f, "not adopted: its parent "+text(n.parent)+" does not list it")))
	}
	if s.o.Graph || len(at.ups) < 2 {
		return found
	}
	several := one(n, e.problem(SeveralParents, n, "", fmt.Sprintf("%d parents", len(at.ups))))
	several.remedy = newWay
	for _, p := range at.ups {
		if p != s.keeper(at) {
			several.writes = append(several.writes, s.pull(p.id, n.id))
		}
	}
	return append(found, several)
}

// wrongElements says what is wrong with the list of a node, "" if nothing is, and returns the elements to keep, in their
// order.
func (s *lists) wrongElements(n node, children []node) (detail string, keep []bson.RawValue) {
	there, seen, keep := map[string]bool{}, map[string]bool{}, []bson.RawValue{}
	for _, child := range children {
		there[key(child.id)] = true
	}
	for _, id := range n.children {
		switch {
		case !there[key(id)]:
			detail = text(id) + " does not exist"
		case seen[key(id)]:
			detail = text(id) + " is there twice"
		default:
			keep = append(keep, id)
		}
		seen[key(id)] = true
	}
	if v := n.raw.Lookup(s.o.ChildrenField); v.Type != 0 && v.Type != bson.TypeArray {
		detail = "not an array"
	}
	return detail, keep
}

// keeper returns the parent that keeps a node that several nodes list: the one with the smallest ID. Those that a root
// leads to come first, so that the node stays where it can be reached, and those whose link closes a cycle last.
func (s *lists) keeper(at *place) *place {
	rank := func(p *place) int {
		switch {
		case slices.Contains(at.closing, p):
			return 2
		case !p.reached:
			return 1
		}
		return 0
	}
	return slices.MinFunc(at.ups, func(a, b *place) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), value.Compare(a.id, b.id))
	})
}

// unconfirmed is the parent that the ParentField of a node without an array names, if that parent does not list it.
func (s *lists) unconfirmed(n node, ups []*place) (up node, broken string) {
	if !s.isBare(n.raw) {
		return node{}, ""
	}
	if slices.ContainsFunc(ups, func(p *place) bool { return same(p.id, n.parent) }) {
		return node{}, ""
	}
	return s.namedParent(n)
}

// readRoots needs a $lookup. If the server refuses it in a transaction, all nodes are read.
func (s *lists) readRoots(ctx context.Context) ([]node, error) {
	if !txn.Running(ctx) || !s.byLevels.Load() {
		return s.aggregate(ctx, s.sortedRoots())
	}
	nodes, err := s.aggregate(ctx, mongo.Pipeline{expr.Op("$match", s.nodesMatch()), s.sorting()})
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for _, n := range nodes {
		for _, id := range n.children {
			listed[key(id)] = true
		}
	}
	return slices.DeleteFunc(nodes, func(n node) bool { return listed[key(n.id)] }), nil
}

// prepareAdoption prepares a batch of Adopt, where some nodes have an array and others are bare.
//
// b.children are the nodes that name a node of the batch as their parent. A child with an array leaves b.children if a
// list has it, because it stays there. If none has it, old code may have replaced the parent, which then lost its list, and
// the child returns to it, unless the parent is new and so has lost none.
//
// A bare node leaves all lists but that of the parent that it names: old code may have deleted it and inserted it
// elsewhere. If that parent has an array, the node is pushed to it; otherwise it gets the node with its own array.
//
// stale says that a parent has lost its array since the engine saw it, because old code has replaced the document.
// A push would give it an array and so keep it, wrongly, in the list that contains it.
func (s *lists) prepareAdoption(ctx context.Context, e *engine, b *batch) (found []finding, stale bool, err error) {
	if e.writing {
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
		by := listing[key(n.id)]
		isNew := !isNull(n.parent) && len(by) == 0
		b.children[i] = slices.DeleteFunc(b.children[i], func(child node) bool {
			return s.hasArray(child) && (isNew || len(listing[key(child.id)]) > 0)
		})
		if at := b.places[i]; !at.kept && len(at.ups) == 1 {
			found = append(found, s.relist(e, n, at.ups[0], by)...)
		}
	}
	return found, false, nil
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
	if at.kept || !at.rooted || len(at.ups) == 0 || at.ups[0].kept {
		return nil
	}
	return at.ups[0]
}

// hasArray reports whether a node has the field for its list. A node that was not read has none.
func (s *lists) hasArray(n node) bool { return n.raw.Lookup(s.o.ChildrenField).Type != 0 }

// readListing reads, by child, the nodes that list one of a batch or of its children. It reads the parents that keep their
// place with them, and stale says that one of these has no array.
func (s *lists) readListing(ctx context.Context, b *batch) (listing map[string][]node, stale bool, err error) {
	ids := idsOf(b.nodes)
	for _, all := range b.children {
		ids = append(ids, idsOf(all)...)
	}
	var kept []bson.RawValue
	for _, at := range b.places {
		if !at.kept && len(at.ups) == 1 && at.ups[0].kept {
			kept = append(kept, at.ups[0].id)
		}
	}
	read, err := s.findAll(ctx, expr.Op("$or", bson.A{s.listingMatch(anyOf(ids)), s.idsMatch(kept)}))
	if err != nil {
		return nil, false, err
	}
	for _, id := range kept {
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

// relist moves a node from the lists of the nodes by to that of its parent, if the parent has one already.
func (s *lists) relist(e *engine, n node, parent *place, by []node) []finding {
	f, listed := one(n, e.problem(mongopatterns.WrongField, n, "", "")), false
	for _, p := range by {
		if same(p.id, parent.id) {
			listed = true
			continue
		}
		f.writes = append(f.writes, s.pull(p.id, n.id))
	}
	if parent.kept && !listed {
		f.writes = append(f.writes, s.push(parent.id, -1, n.id))
	}
	if len(f.writes) == 0 {
		return nil
	}
	return []finding{f}
}

// makeRoot also gives the node an array: with one it is a root, whatever its parent field names.
func (s *lists) makeRoot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{s.pullFromAll(n.id), s.addArray(n)}
}
