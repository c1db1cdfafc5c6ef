package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// lists are ChildReferences: {_id, children: […]}. No node names a parent. The lists alone say where a node is, and
// nothing is derived from them, so a move takes the node from one list and puts it into another. With
// Options.Graph a node may be in several. The writes are in children_write.go, the parts of Check, Repair and Adopt in
// children_repair.go.
type lists struct{ *store }

// listsLayout takes the lists for the derived field too, because a node of old code has none.
func listsLayout(o *Options) layout {
	return layout{settings: []config.Setting{config.Name("Options.ChildrenField", &o.ChildrenField, "children"), o.oldParent()},
		fields: []string{o.ChildrenField}, refField: o.ChildrenField, derived: o.ChildrenField, namesChildren: true,
		childrenFrom: fromNode, descendantsFrom: fromQuery}
}

// up searches by {children: id} from the node on. $graphLookup does not return the node that it starts from, so it is
// put before the result. It is kept in a field, because $unsetField does not belong to the stable API.
func (l *lists) up(levels int) mongo.Pipeline {
	id := l.o.IDField
	return slices.Concat(mongo.Pipeline{
		expr.Op("$set", expr.D(fieldSelf, expr.Var("ROOT"))),
		l.graphLookup(graphSearch{start: expr.Field(id), from: id, to: l.o.ChildrenField, depth: levels, only: noPattern(id), depthTo: fieldDepth}),
		expr.Op("$project", expr.D(fieldTree, expr.Op("$concatArrays", bson.A{expr.Field(fieldSelf)}, expr.Field(fieldTree)))),
	}, unfold(
		// The node itself has no depth, and its parents have 0.
		fieldDepth, expr.IfNull(expr.Op("$add", expr.Field(fieldTree+"."+fieldDepth), 1), 0)))
}

func (l *lists) above(node, bson.RawValue) []bson.RawValue { return nil }
func (l *lists) descendantsOf(node, int) bson.D            { return nil }

// down passes over a node with a regular expression in its list, which would lead to all nodes that match it.
func (l *lists) down(id any, depth int, self bool) mongo.Pipeline {
	start := expr.Filter(expr.Array(expr.Field(l.o.ChildrenField)), "c", expr.Op("$ne", expr.Op("$type", expr.Var("c")), "regex"))
	return l.graphDown(id, graphSearch{start: start, from: l.o.ChildrenField, to: l.o.IDField, depth: depth, only: noPattern(l.o.ChildrenField)}, self)
}

// withPatterns finds all nodes below a node, and others where a list contains a regular expression. Cascade needs
// all of them: listedBelow removes the others.
func (l *lists) withPatterns(id any) mongo.Pipeline {
	return l.graphDown(id, graphSearch{start: expr.Field(l.o.ChildrenField), from: l.o.ChildrenField, to: l.o.IDField}, true)
}

// referenced yields the nodes that the lists of matching nodes name, in their order.
func (l *lists) referenced(match bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", match),
		expr.Op("$unwind", expr.Field(l.o.ChildrenField)), // keeps the order of the array
		l.lookup(l.o.ChildrenField, l.o.IDField),
	}, unfold())
}

func (l *lists) children(id any) mongo.Pipeline { return l.referenced(l.byID(id)) }

// siblings are the other children of the parents. It finds nothing for a root: see otherRoots.
func (l *lists) siblings(id any) mongo.Pipeline {
	p := append(l.referenced(l.parentsOf(id)), expr.Op("$match", expr.D(l.o.IDField, expr.Op("$ne", id))))
	if l.o.Graph { // a node may be a sibling by two parents
		p = append(p, expr.Op("$group", expr.D("_id", expr.Field(l.o.IDField), fieldTree, expr.Op("$first", expr.Var("ROOT")))),
			expr.Op("$replaceRoot", expr.D("newRoot", expr.Field(fieldTree))))
	}
	return p
}

// otherRoots yields the other roots if the node is a root, and nothing if it is not.
func (l *lists) otherRoots(id any) mongo.Pipeline {
	others := append(l.roots(), expr.Op("$match", expr.D(l.o.IDField, expr.Op("$ne", id))))
	return slices.Concat(mongo.Pipeline{expr.Op("$match", l.byID(id))}, l.roots()[1:], mongo.Pipeline{
		expr.Op("$lookup", expr.D("from", l.coll.Name(), "pipeline", others, "as", fieldTree))}, unfold())
}

// roots are the nodes that no list names, except bare ones.
func (l *lists) roots() mongo.Pipeline {
	return l.unreferenced(l.o.IDField, l.refField, expr.Op("$match", l.notBareMatch()))
}

// sortedRoots include bare nodes: Dump refuses them, and Check reports them.
func (l *lists) sortedRoots() mongo.Pipeline {
	return append(l.unreferenced(l.o.IDField, l.refField), l.sorting())
}

// leaves have an empty list or none at all, and are not bare.
func (l *lists) leaves() mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$match", append(l.in(l.o.ChildrenField+".0", expr.Op("$exists", false)), l.notBareMatch()...))}
}

// childrenOf needs the stored list. A filter for the roots does not exist, because a root is a node that no list names.
func (l *lists) childrenOf(n node) bson.D { return l.byIDs(n.children) }
func (l *lists) rootsMatch() bson.D       { return nil }
func (l *lists) parentsOf(id any) bson.D  { return l.in(l.o.ChildrenField, equal(id)) }

func (l *lists) parent(node) (up node, broken string) { return node{}, "" }

func (l *lists) fieldsOf(_ *node, children []node) bson.D {
	return expr.D(l.o.ChildrenField, idsOf(children))
}

// parents are the nodes that list one of nodes. For bare nodes they are also those that the parent
// fields name, because Adopt and Check have to know whether they exist.
func (l *lists) parents(nodes []node) bson.D {
	listing, parents := expr.D(l.o.ChildrenField, anyOf(idsOf(nodes))), []bson.RawValue{}
	for _, n := range nodes {
		if l.isBare(n.raw) {
			parents = append(parents, n.parent)
		}
	}
	if len(parents) == 0 {
		return append(l.in(), listing...)
	}
	return l.in("$or", bson.A{listing, expr.D(l.o.IDField, anyOf(parents))})
}

// childrenOfAll is the filter for the nodes that the lists name.
func (l *lists) childrenOfAll(nodes []node) bson.D {
	var ids []bson.RawValue
	for _, n := range nodes {
		ids = append(ids, n.children...)
	}
	return l.byIDs(ids)
}

// childrenByParent uses no $lookup, because a sharded collection refuses it in a transaction.
func (l *lists) childrenByParent(ctx context.Context, nodes []node) ([][]node, error) {
	var ids []bson.RawValue
	for _, n := range nodes {
		ids = append(ids, n.children...)
	}
	byKey := map[string]node{}
	found, err := l.findIn(ctx, ids, func(any bson.D) bson.D { return l.in(l.o.IDField, any) })
	if err != nil {
		return nil, err
	}
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
func (l *lists) rootWith(ctx context.Context, match bson.D) (node, error) {
	if !txn.Running(ctx) {
		return l.first(ctx, append(l.roots(), expr.Op("$match", match)))
	}
	nodes, err := l.findAll(ctx, l.in("$and", bson.A{match, l.notBareMatch()}))
	if err != nil || len(nodes) == 0 {
		return node{}, err
	}
	parents, err := l.findAll(ctx, l.in(l.o.ChildrenField, anyOf(idsOf(nodes))))
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

func (l *lists) sortedChildren(nodes []node) mongo.Pipeline {
	return l.referenced(l.byIDs(idsOf(nodes)))
}

// checkAdopted refuses a bare node that its parent does not list.
func (l *lists) checkAdopted(ctx context.Context, n node) error {
	if !l.isBare(n.raw) {
		return nil
	}
	p, err := l.findOne(ctx, append(l.byID(n.parent), expr.Element(l.refField, equal(n.id))), nil)
	if err != nil {
		return err
	}
	if p.raw == nil {
		return l.notAdopted(n.id)
	}
	return nil
}

// checkWay reads the node again, because a way up through lists does not show what the parent field says.
func (l *lists) checkWay(ctx context.Context, id bson.RawValue, _ int, bare bool) error {
	if !bare {
		return nil
	}
	n, err := l.findOne(ctx, l.byID(id), l.missing(id))
	if err != nil {
		return err
	}
	return l.checkAdopted(ctx, n)
}
