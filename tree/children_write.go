package tree

import (
	"context"
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
	if s.o.Graph && pos.besideSibling() {
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
		if err := s.pushOrExplain(ctx, parent, offset, d.id); err != nil {
			return err
		}
		_, err = fault.One(s.primary.InsertOne(ctx, doc))
		return err
	})
}

// parentForInsert finds the ID of the parent for a new node and the offset in its list, -1 for the end. It reads nothing
// if the position names the parent.
func (s *lists) parentForInsert(ctx context.Context, pos position) (parent bson.RawValue, offset int, err error) {
	if !pos.besideSibling() {
		return pos.anchorID, pos.offset(), nil
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.listingMatch(pos.anchorID), s.idMatch(pos.anchorID)}))
	if err != nil {
		return parent, 0, err
	}
	p, offset, err := s.parentAmong(nodes, pos, nil)
	if err != nil {
		return parent, 0, err
	}
	return p.id, offset, nil
}

// pushOrExplain puts an ID into the list of a parent without reading it, because mostly the parent is there and has an
// array. Only if the push matches no such node, a read finds out why: the error says it, or the node gets its array.
func (s *lists) pushOrExplain(ctx context.Context, parent bson.RawValue, offset int, id bson.RawValue) error {
	push := s.pushTo(append(s.idMatch(parent), s.notBareMatch()...), offset, id)
	res, err := fault.Many(s.primary.BulkWrite(ctx, []mongo.WriteModel{push}))
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
		nodes, err := s.readForMove(ctx, id, pos)
		if err != nil {
			return err
		}
		if pos.besideSibling() && same(pos.anchorID, id) { // beside itself
			return nil
		}
		x := pick(nodes, id)
		parent, offset, err := s.parentAmong(nodes, pos, &x)
		if err != nil {
			return err
		}
		if err := s.ensureArray(ctx, x); err != nil {
			return err
		}
		if parent == nil {
			return s.write(ctx, s.pullFromEach(nodes, id)...)
		}
		if err := s.ensureArray(ctx, *parent); err != nil {
			return err
		}
		if err := s.checkNoCycle(ctx, x, *parent); err != nil {
			return err
		}
		return s.write(ctx, append(s.pullFromEach(nodes, id), s.push(parent.id, offset, id))...)
	})
}

// readForMove reads the node that moves, the anchor of its position, and the nodes that list it or list a sibling that the
// position names: from those it is taken, and one of these is its parent then.
func (s *lists) readForMove(ctx context.Context, id bson.RawValue, pos position) ([]node, error) {
	listed := []bson.RawValue{id}
	if pos.besideSibling() {
		listed = append(listed, pos.anchorID)
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.idsMatch(pos.withAnchor(id)), s.listingMatch(anyOf(listed))}))
	if err != nil {
		return nil, err
	}
	return nodes, s.checkFound(nodes, id, pos)
}

// parentAmong finds the parent for a position among nodes that were read, nil for a root, and the offset in its list, -1
// for the end. moving is nil for a new node.
func (s *lists) parentAmong(nodes []node, pos position, moving *node) (parent *node, offset int, err error) {
	if pos.kind == atRoot {
		return nil, -1, nil
	}
	anchor := pick(nodes, pos.anchorID)
	if anchor.raw == nil {
		return nil, 0, s.missingAnchor(pos)
	}
	if !pos.besideSibling() {
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

// parentListing finds the parent of a sibling that a position names: the node that lists it, and if it has no array, the one
// of those that it names.
func (s *lists) parentListing(nodes []node, anchor node) (*node, error) {
	bare := s.isBare(anchor.raw)
	i := slices.IndexFunc(nodes, func(n node) bool {
		return holds(n.children, anchor.id) && (!bare || same(anchor.parent, n.id))
	})
	switch {
	case i >= 0:
		return &nodes[i], nil
	case bare: // old code has moved it elsewhere, or inserted it
		return nil, s.notAdopted(anchor.id)
	}
	return nil, errUnordered
}

// checkNoCycle refuses to put x under a parent that is x or lies below x.
func (s *lists) checkNoCycle(ctx context.Context, x, parent node) error {
	return s.searchCycle(ctx, s, x, parent)
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

// pull removes a node from the list of a parent. It counts nothing if the list has lost the node meanwhile.
func (s *lists) pull(parent, id bson.RawValue) mongo.WriteModel {
	return s.pullFrom(append(s.listingMatch(id), expr.Element(s.o.IDField, equal(parent))), id)
}

// pullFromEach removes a node from the lists of those of nodes that list it.
func (s *lists) pullFromEach(nodes []node, id bson.RawValue) (models []mongo.WriteModel) {
	for _, n := range nodes {
		if holds(n.children, id) {
			models = append(models, s.pull(n.id, id))
		}
	}
	return models
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
