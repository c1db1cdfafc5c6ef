package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// lists are ChildReferences: {_id, children: […]}. No node names a parent. The lists alone say where a node is, and
// nothing is derived from them, so a move takes the node from one list and puts it into another. With
// Options.Graph a node may be in several. The writes are in children_write.go and graph.go, the parts of Check and Repair in
// children_repair.go, and those of Adopt in children_adopt.go.
type lists struct{ *store }

// listsLayout takes the lists for the derived field too, because a node of old code has none.
func listsLayout(o Options) layout {
	return layout{fields: []string{o.ChildrenField}, refField: o.ChildrenField, derived: o.ChildrenField, namesChildren: true,
		childrenFrom: fromNode, descendantsFrom: fromQuery}
}

// up searches by {children: id} from the node on. $graphLookup does not return the node that it starts from, so it is
// put before the result. It is kept in a field, because $unsetField does not belong to the stable API.
func (s *lists) up(levels int) mongo.Pipeline {
	id := s.o.IDField
	search := graphSearch{start: expr.Field(id), from: id, to: s.o.ChildrenField, depth: levels, only: noPatternMatch(id), depthTo: fieldDepth}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$set", expr.D(fieldSelf, expr.Var("ROOT"))),
		s.graphLookup(search),
		expr.Op("$project", expr.D(fieldTree, expr.Op("$concatArrays", bson.A{expr.Field(fieldSelf)}, expr.Field(fieldTree)))),
	}, unfold(
		// The node itself has no depth, and its parents have 0.
		fieldDepth, expr.IfNull(expr.Op("$add", expr.Field(fieldTree+"."+fieldDepth), 1), 0)))
}

func (s *lists) above(node, bson.RawValue) []bson.RawValue { return nil }
func (s *lists) descendantsMatch(node, int) bson.D         { return nil }

// down passes over a node with a regular expression in its list, which would lead to all nodes that match it.
func (s *lists) down(id any, depth int, self bool) mongo.Pipeline {
	start := expr.Filter(expr.Array(expr.Field(s.o.ChildrenField)), "c", expr.Op("$ne", expr.Op("$type", expr.Var("c")), "regex"))
	only := noPatternMatch(s.o.ChildrenField)
	return s.graphDown(id, graphSearch{start: start, from: s.o.ChildrenField, to: s.o.IDField, depth: depth, only: only}, self)
}

// referenced yields the nodes that the lists of matching nodes name, in their order.
func (s *lists) referenced(match bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", match),
		expr.Op("$unwind", expr.Field(s.o.ChildrenField)), // keeps the order of the array
		s.lookup(s.o.ChildrenField, s.o.IDField),
	}, unfold())
}

func (s *lists) children(id any) mongo.Pipeline { return s.referenced(s.idMatch(id)) }

// siblings are the other children of the parents. It finds nothing for a root: see otherRoots.
func (s *lists) siblings(id any) mongo.Pipeline {
	p := append(s.referenced(s.listingMatch(id)), expr.Op("$match", expr.D(s.o.IDField, expr.Op("$ne", id))))
	if s.o.Graph { // a node may be a sibling by two parents
		p = append(p, expr.Op("$group", expr.D("_id", expr.Field(s.o.IDField), fieldTree, expr.Op("$first", expr.Var("ROOT")))),
			expr.Op("$replaceRoot", expr.D("newRoot", expr.Field(fieldTree))))
	}
	return p
}

// otherRoots yields the other roots if the node is a root, and nothing if it is not.
func (s *lists) otherRoots(id any) mongo.Pipeline {
	others := s.coll.Scope().Stages(append(s.roots(), expr.Op("$match", expr.D(s.o.IDField, expr.Op("$ne", id)))))
	return slices.Concat(mongo.Pipeline{expr.Op("$match", s.idMatch(id))}, s.roots()[1:], mongo.Pipeline{
		expr.Op("$lookup", expr.D("from", s.coll.Name(), "pipeline", others, "as", fieldTree))}, unfold())
}

// roots are the nodes that no list names, except bare ones.
func (s *lists) roots() mongo.Pipeline {
	return s.unreferenced(s.o.IDField, s.refField, expr.Op("$match", s.notBareMatch()))
}

// sortedRoots include bare nodes: Dump refuses them, and Check reports them.
func (s *lists) sortedRoots() mongo.Pipeline {
	return append(s.unreferenced(s.o.IDField, s.refField), s.sorting())
}

// leaves have an empty list or none at all, and are not bare.
func (s *lists) leaves() mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$match", append(expr.D(s.o.ChildrenField+".0", expr.Op("$exists", false)), s.notBareMatch()...))}
}

// childrenMatch needs the stored list. A filter for the roots does not exist, because a root is a node that no list names.
func (s *lists) childrenMatch(n node) bson.D { return s.idsMatch(n.children) }
func (s *lists) rootsMatch() bson.D          { return nil }

// listingMatch is the filter for the nodes that list an ID, or one that a condition such as anyOf is for.
func (s *lists) listingMatch(id any) bson.D { return expr.D(s.o.ChildrenField, equal(id)) }

func (s *lists) parent(node) (named ref, broken string) { return ref{}, "" }

func (s *lists) fieldsOf(_ *node, children []node) bson.D {
	return expr.D(s.o.ChildrenField, idsOf(children))
}

// parentsMatch matches the nodes that list one of nodes. For bare nodes they are also those that the parent
// fields name, because Adopt and Check have to know whether they exist.
func (s *lists) parentsMatch(nodes []node) bson.D {
	listing, parents := s.listingMatch(anyOf(idsOf(nodes))), []bson.RawValue{}
	for _, n := range nodes {
		if s.isBare(n.raw) {
			parents = append(parents, n.parent)
		}
	}
	if len(parents) == 0 {
		return listing
	}
	return expr.Op("$or", bson.A{listing, s.idsMatch(parents)})
}

// allChildrenMatch is the filter for the nodes that the lists name.
func (s *lists) allChildrenMatch(nodes []node) bson.D { return s.idsMatch(childIDs(nodes)) }

// childIDs returns the IDs in the lists of nodes.
func childIDs(nodes []node) (ids []bson.RawValue) {
	for _, n := range nodes {
		ids = append(ids, n.children...)
	}
	return ids
}

// childrenByParent uses no $lookup, because a sharded collection refuses it in a transaction.
func (s *lists) childrenByParent(ctx context.Context, nodes []node) ([][]node, error) {
	found, err := s.findIn(ctx, childIDs(nodes), s.idMatch)
	if err != nil {
		return nil, err
	}
	byKey := map[string]node{}
	for _, child := range found {
		byKey[key(child.id)] = child
	}
	out := make([][]node, len(nodes))
	for i, n := range nodes {
		for _, id := range n.children {
			if child, ok := byKey[key(id)]; ok {
				out[i] = append(out[i], child)
			}
		}
	}
	return out, nil
}

// rootWith uses no $lookup in a transaction, for the same reason: it reads the nodes that match, and then their
// parents.
func (s *lists) rootWith(ctx context.Context, match bson.D) (node, error) {
	if !txn.Running(ctx) {
		return s.first(ctx, append(s.roots(), expr.Op("$match", match)))
	}
	nodes, err := s.findAll(ctx, expr.Op("$and", bson.A{match, s.notBareMatch()}))
	if err != nil || len(nodes) == 0 {
		return node{}, err
	}
	parents, err := s.findAll(ctx, s.listingMatch(anyOf(idsOf(nodes))))
	if err != nil {
		return node{}, err
	}
	for _, n := range nodes {
		if !slices.ContainsFunc(parents, func(p node) bool { return holds(p.children, n.id) }) {
			return n, nil
		}
	}
	return node{}, nil
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

func (s *lists) sortedChildren(nodes []node) mongo.Pipeline {
	return s.referenced(s.idsMatch(idsOf(nodes)))
}

// checkAdopted refuses a bare node that its parent does not list.
func (s *lists) checkAdopted(ctx context.Context, n node) error {
	if !s.isBare(n.raw) {
		return nil
	}
	p, err := s.findOne(ctx, append(s.idMatch(n.parent), expr.Element(s.refField, equal(n.id))), nil)
	if err != nil {
		return err
	}
	if p.raw == nil {
		return s.notAdopted(n.id)
	}
	return nil
}

// checkWay reads the node again, because a way up through lists does not show what the parent field says.
func (s *lists) checkWay(ctx context.Context, id bson.RawValue, _ int, bare bool) error {
	if !bare {
		return nil
	}
	n, err := s.findOne(ctx, s.idMatch(id), s.missing(id))
	if err != nil {
		return err
	}
	return s.checkAdopted(ctx, n)
}
