package tree

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

var errUnordered = fault.Invalid("the roots of ChildReferences have no order")

// checkPosition refuses positions among siblings that have no order.
func (s *lists) checkPosition(pos position) error {
	if pos.kind == atRoot && pos.first {
		return errUnordered
	}
	if s.o.Graph && pos.sibling() {
		return fault.Invalid("Before and After are ambiguous in a graph")
	}
	return nil
}

// insert puts the ID into the parent's list and then stores the node. It needs no lock: a concurrent move or
// deletion of the parent conflicts with the push.
func (s *lists) insert(ctx context.Context, d newDocument, pos position) error {
	if err := s.checkPosition(pos); err != nil {
		return err
	}
	doc := d.with(expr.D(s.o.ChildrenField, bson.A{})).doc
	if pos.kind == atRoot {
		_, err := fault.One(s.durable.InsertOne(ctx, doc))
		return err
	}
	return s.atomically(ctx, func(ctx context.Context) error {
		parent, offset, err := s.parentForInsert(ctx, pos)
		if err != nil {
			return err
		}
		if err := s.pushUnread(ctx, parent, offset, d.id); err != nil {
			return err
		}
		_, err = fault.One(s.primary.InsertOne(ctx, doc))
		return err
	})
}

// parentForInsert finds the ID of the parent for a new node and the offset in its list, -1 for the end. It reads nothing
// if the position names the parent.
func (s *lists) parentForInsert(ctx context.Context, pos position) (parent bson.RawValue, offset int, err error) {
	if !pos.sibling() {
		return pos.anchorID, pos.offset(), nil
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.listingMatch(pos.anchorID), s.idMatch(pos.anchorID)}))
	if err != nil {
		return parent, 0, err
	}
	p, offset, err := s.parentIn(nodes, pos, nil)
	if err != nil {
		return parent, 0, err
	}
	return p.id, offset, nil
}

// pushUnread puts an ID into the list of a parent that was not read. The push does not match a bare one; if it
// matches nothing, a read finds out why.
func (s *lists) pushUnread(ctx context.Context, parent bson.RawValue, offset int, id bson.RawValue) error {
	res, err := fault.Many(s.primary.BulkWrite(ctx, []mongo.WriteModel{s.pushTo(append(s.idMatch(parent), s.notBareMatch()...), offset, id)}))
	if err != nil || res.MatchedCount > 0 {
		return err
	}
	n, err := s.findOne(ctx, s.idMatch(parent), s.about(parent, mongopatterns.ErrNoParent))
	if err != nil {
		return err
	}
	if err := s.ensureArray(ctx, n); err != nil {
		return err
	}
	return s.write(ctx, s.push(parent, offset, id)) // its parent lists it, and it has an array now
}

// move takes the node from the lists that contain it and puts it into that of the new parent. Nodes below it do not
// change, because their lists do not name their ancestors.
func (s *lists) move(ctx context.Context, id bson.RawValue, pos position) error {
	if s.o.Graph {
		return fault.Invalid("a graph is changed with Link and Unlink")
	}
	if err := s.checkPosition(pos); err != nil {
		return err
	}
	return s.withLock(ctx, func(ctx context.Context) error {
		nodes, err := s.readMovingIn(ctx, id, pos)
		if err != nil {
			return err
		}
		if pos.sibling() && same(pos.anchorID, id) {
			return nil
		}
		return s.relocate(ctx, pick(nodes, id), nodes, pos)
	})
}

// relocate moves x among the nodes that were read for a position.
func (s *lists) relocate(ctx context.Context, x node, nodes []node, pos position) error {
	parent, offset, err := s.parentIn(nodes, pos, &x)
	if err != nil {
		return err
	}
	if err := s.ensureArray(ctx, x); err != nil {
		return err
	}
	var models []mongo.WriteModel
	for _, n := range nodes {
		if holds(n.children, x.id) {
			models = append(models, s.pull(n.id, x.id))
		}
	}
	if parent == nil {
		return s.write(ctx, models...)
	}
	if err := s.ensureArray(ctx, *parent); err != nil {
		return err
	}
	if err := s.checkNoCycle(ctx, x, *parent); err != nil {
		return err
	}
	return s.write(ctx, append(models, s.push(parent.id, offset, x.id))...)
}

// readMovingIn reads the node that moves, the anchor of its position, and the nodes that list it or list a sibling that
// the position names.
func (s *lists) readMovingIn(ctx context.Context, id bson.RawValue, pos position) ([]node, error) {
	ids := pos.with(id)
	listed := ids
	if !pos.sibling() {
		listed = ids[:1]
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.idsMatch(ids), s.listingMatch(anyOf(listed))}))
	if err != nil {
		return nil, err
	}
	return nodes, s.checkRead(nodes, id, pos)
}

// parentIn finds the parent for a position among nodes that were read, nil for a root, and the offset in its list, -1
// for the end. moving is nil for a new node.
func (s *lists) parentIn(nodes []node, pos position, moving *node) (parent *node, offset int, err error) {
	if pos.kind == atRoot {
		return nil, -1, nil
	}
	anchor := pick(nodes, pos.anchorID)
	if anchor.raw == nil {
		return nil, 0, s.absent(pos)
	}
	if !pos.sibling() {
		return &anchor, pos.offset(), nil
	}
	parent, err = s.parentListing(nodes, anchor)
	if err != nil {
		return nil, 0, err
	}
	siblings := parent.children
	if moving != nil { // it leaves its list first
		siblings = without(siblings, moving.id)
	}
	offset = slices.IndexFunc(siblings, func(id bson.RawValue) bool { return same(id, anchor.id) })
	if pos.kind == afterSibling {
		offset++
	}
	return parent, offset, nil
}

// parentListing finds the parent of a sibling that a position names.
func (s *lists) parentListing(nodes []node, anchor node) (*node, error) {
	bare := s.isBare(anchor.raw)
	at := slices.IndexFunc(nodes, func(n node) bool { return holds(n.children, anchor.id) })
	switch {
	case at >= 0 && (!bare || same(anchor.parent, nodes[at].id)):
		return &nodes[at], nil
	case bare: // old code has moved it elsewhere, or inserted it
		return nil, s.notAdopted(anchor.id)
	}
	return nil, errUnordered
}

// checkNoCycle refuses to put x under n if n is x or lies below x.
func (s *lists) checkNoCycle(ctx context.Context, x, n node) error {
	return s.searchCycle(ctx, s, x, n)
}

// push is the write that inserts ids into the list of a parent at an offset, -1 for the end.
func (s *lists) push(parent bson.RawValue, offset int, ids ...bson.RawValue) mongo.WriteModel {
	return s.pushTo(s.idMatch(parent), offset, ids...)
}

// pushTo is push for the parent that matches.
func (s *lists) pushTo(match bson.D, offset int, ids ...bson.RawValue) mongo.WriteModel {
	each := expr.Op("$each", ids)
	if offset >= 0 {
		each = append(each, expr.Element("$position", offset))
	}
	return update(match, append(expr.Op("$push", expr.D(s.o.ChildrenField, each)), s.childCountBy(int64(len(ids)))...))
}

// pull removes a node from the list of a parent.
func (s *lists) pull(parent, id bson.RawValue) mongo.WriteModel {
	return s.pullFrom(append(s.listingMatch(id), expr.Element(s.o.IDField, equal(parent))), id)
}

// pullFromAll removes a node from the lists of all its parents.
func (s *lists) pullFromAll(id bson.RawValue) mongo.WriteModel {
	return s.pullFrom(s.listingMatch(id), id)
}

// pullFrom removes a node from the lists of the parents that match, all of which list it.
func (s *lists) pullFrom(match bson.D, id bson.RawValue) mongo.WriteModel {
	pull := expr.Op("$pull", expr.D(s.o.ChildrenField, expr.Op("$in", bson.A{id})))
	return update(match, append(pull, s.childCountBy(-1)...))
}

// ensureArray gives an array to a node that is about to be written and has none, or refuses it if it is not adopted.
// The write itself might give it one, and from then on the parent field is ignored.
func (s *lists) ensureArray(ctx context.Context, n node) error {
	if !s.isBare(n.raw) {
		return nil
	}
	if err := s.checkAdopted(ctx, n); err != nil {
		return err
	}
	return s.write(ctx, s.giveArray(n)...)
}

// giveArray gives a bare node an empty array, and removes the node from the arrays of all but the parent that
// it names. Old code may have left it there; without an array of its own the parent field had precedence.
func (s *lists) giveArray(n node) []mongo.WriteModel {
	others := append(s.listingMatch(n.id), expr.Element(s.o.IDField, expr.Op("$ne", n.parent)))
	return []mongo.WriteModel{s.pullFrom(others, n.id), s.addArray(n)}
}

// addArray gives an empty array to a node if it is bare.
func (s *lists) addArray(n node) mongo.WriteModel {
	return update(append(s.idMatch(n.id), s.bareMatch(s.anyParent())...), expr.Op("$set", expr.D(s.o.ChildrenField, bson.A{})))
}

// removeOne deletes a node, and then reads its parents and the nodes that name it as their parent: see deleteOne.
// Promote puts the children into the list of each parent, where the node was.
func (s *lists) removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) ([]mongo.WriteModel, error) {
	x, err := s.deleteOne(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.checkAdopted(ctx, x); err != nil {
		return nil, err
	}
	if policy == mongopatterns.Restrict {
		if err := s.checkChildless(ctx, x); err != nil {
			return nil, err
		}
	}
	parents, bareChildren, err := s.readForDelete(ctx, x, policy)
	if err != nil {
		return nil, err
	}
	if policy == mongopatterns.Restrict || len(x.children) == 0 {
		return []mongo.WriteModel{s.pullFromAll(x.id)}, nil
	}
	var models []mongo.WriteModel
	for _, n := range bareChildren {
		models = append(models, s.giveArray(n)...)
	}
	if policy != mongopatterns.Promote {
		return append(models, s.pullFromAll(x.id)), nil
	}
	for _, p := range parents {
		models = append(models, s.promote(x, p, idsOf(bareChildren))...)
	}
	return models, nil
}

// promote replaces a deleted x in the list of a parent by its children. Those that the parent lists already stay where
// they are, except former bare ones: giveArray has removed these, also from before x.
func (s *lists) promote(x, parent node, formerBare []bson.RawValue) []mongo.WriteModel {
	models := []mongo.WriteModel{s.pull(parent.id, x.id)}
	added := slices.DeleteFunc(slices.Clone(x.children), func(id bson.RawValue) bool {
		return holds(parent.children, id) && !holds(formerBare, id)
	})
	if len(added) == 0 {
		return models
	}
	offset := 0
	for _, id := range parent.children {
		if same(id, x.id) {
			break
		}
		if !holds(formerBare, id) {
			offset++
		}
	}
	return append(models, s.push(parent.id, offset, added...))
}

// checkChildless refuses a node with children. A listed child counts if it exists, and old code has not deleted it and
// inserted it again elsewhere.
func (s *lists) checkChildless(ctx context.Context, x node) error {
	if len(x.children) == 0 {
		return nil
	}
	own := expr.Op("$nor", bson.A{s.bareMatch(expr.Op("$nin", append(s.rootParents(), x.id)))})
	n, err := s.findOne(ctx, append(s.idsMatch(x.children), own...), nil)
	if err != nil || n.raw == nil {
		return err
	}
	return s.about(x.id, mongopatterns.ErrReferenced)
}

// around reads the nodes that list a deleted x, and its bare children. It refuses if a bare node names x as its parent
// and x does not list it.
func (s *lists) readForDelete(ctx context.Context, x node, policy mongopatterns.DeletePolicy) (parents, bareChildren []node, err error) {
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.listingMatch(x.id), s.bareUnderMatch(equal(x.id))}))
	if err != nil {
		return nil, nil, err
	}
	for _, n := range nodes {
		switch {
		case holds(n.children, x.id):
			parents = append(parents, n)
		case holds(x.children, n.id):
			bareChildren = append(bareChildren, n)
		case policy == mongopatterns.Restrict:
			return nil, nil, s.about(x.id, mongopatterns.ErrReferenced)
		default:
			return nil, nil, s.notAdopted(n.id)
		}
	}
	return parents, bareChildren, nil
}

// removeAll deletes a node and its descendants. In a graph it leaves those that also have a parent elsewhere, with
// all below them. It refuses if one of the deleted nodes is the parent of a node that is not adopted.
func (s *lists) removeAll(ctx context.Context, id bson.RawValue) (int64, []mongo.WriteModel, error) {
	all, err := s.readSubtree(ctx, id, s.withPatterns(id), s.allChildrenMatch)
	if err != nil {
		return 0, nil, err
	}
	x := pick(all, id)
	if x.raw == nil {
		return 0, nil, s.missing(id)
	}
	byKey := listedBelow(all, id)
	if s.o.Graph {
		if err := s.excludeShared(ctx, id, byKey); err != nil {
			return 0, nil, err
		}
	}
	ids := idsOf(slices.DeleteFunc(all, func(n node) bool { return byKey[key(n.id)].raw == nil }))
	bareNodes, err := s.findIn(ctx, ids, s.bareUnderMatch, bareMax)
	if err != nil {
		return 0, nil, err
	}
	if err := s.checkAdopted(ctx, x); err != nil {
		return 0, nil, err
	}
	if err := s.allListed(x, byKey, bareNodes); err != nil {
		return 0, nil, err
	}
	deleted, err := s.deleteIDs(ctx, ids)
	return deleted, []mongo.WriteModel{s.pullFromAll(id)}, err
}

// allListed refuses if a node without an array, one of those deleted with x or one that names them as its parent, is
// not in the list of the parent that it names.
func (s *lists) allListed(x node, deleted map[string]node, bareNodes []node) error {
	for _, n := range deleted {
		if s.isBare(n.raw) && !same(n.id, x.id) {
			bareNodes = append(bareNodes, n)
		}
	}
	for _, n := range bareNodes {
		if !holds(deleted[key(n.parent)].children, n.id) {
			return s.notAdopted(n.id)
		}
	}
	return nil
}

// listedBelow returns the nodes, by key, that lists lead to from id. The server takes a regular expression in a list
// for a pattern, so withPatterns may have found others, which must not be deleted.
func listedBelow(nodes []node, id bson.RawValue) map[string]node {
	all, out := map[string]node{}, map[string]node{}
	for _, n := range nodes {
		all[key(n.id)] = n
	}
	for todo := []bson.RawValue{id}; len(todo) > 0; {
		k := key(todo[0])
		todo = todo[1:]
		if n, ok := all[k]; ok && out[k].raw == nil {
			out[k] = n
			todo = append(todo, n.children...)
		}
	}
	return out
}

// excludeShared removes from nodes those that a node outside also leads to: the ones that it lists, and all below them.
func (s *lists) excludeShared(ctx context.Context, id bson.RawValue, nodes map[string]node) error {
	ids := idsOf(slices.Collect(maps.Values(nodes)))
	stay, err := s.findIn(ctx, without(ids, id), s.listingMatch)
	if err != nil {
		return err
	}
	stay = slices.DeleteFunc(stay, func(n node) bool { return nodes[key(n.id)].raw != nil })
	for len(stay) > 0 {
		n := stay[0]
		stay = stay[1:]
		for _, c := range n.children {
			if child, ok := nodes[key(c)]; ok && !same(c, id) {
				delete(nodes, key(c))
				stay = append(stay, child)
			}
		}
	}
	return nil
}

// arrange gives each document of a Load the list of its children in the same batch. Those of later batches come
// by addChildren.
func (s *lists) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil {
			if err := s.ensureArray(ctx, *it.parent); err != nil {
				return err
			}
		}
		it.doc = append(it.doc, expr.Element(s.o.ChildrenField, append([]bson.RawValue{}, it.children...)))
	}
	return nil
}

// addChildren appends, so that new children come after the others in the order of the entries.
func (s *lists) addChildren(children []bson.RawValue) bson.D {
	return append(s.childCountBy(int64(len(children))), expr.Op("$push", expr.D(s.o.ChildrenField, expr.Op("$each", children)))...)
}
