package tree

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

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

// readForDelete reads the nodes that list a deleted x, and its bare children. It refuses if a bare node names x as its parent
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
	all, err := s.follow(ctx, id, s.withPatterns(id), s.allChildrenMatch)
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
	bareNodes, err := s.findIn(ctx, ids, s.bareUnderMatch, bareMax+1)
	if err != nil {
		return 0, nil, err
	}
	if err := s.checkFew(bareNodes); err != nil {
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

// withPatterns finds all nodes below a node, and others where a list contains a regular expression. Cascade needs
// all of them: listedBelow removes the others.
func (s *lists) withPatterns(id any) mongo.Pipeline {
	return s.graphDown(id, graphSearch{start: expr.Field(s.o.ChildrenField), from: s.o.ChildrenField, to: s.o.IDField}, true)
}
