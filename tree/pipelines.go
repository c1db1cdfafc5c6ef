package tree

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// inJoin are the conditions of a filter in a $lookup or $graphLookup, which the scope of the collection does not reach.
func (s *store) inJoin(conditions ...bson.E) bson.D { return s.coll.Scope().Match(conditions) }

// lookup joins the collection to itself, within the scope, and puts the nodes into fieldTree.
func (s *store) lookup(local, foreign string, stages ...bson.D) bson.D {
	spec := expr.D("from", s.coll.Name(), "localField", local, "foreignField", foreign)
	if restrict := s.inJoin(s.noArrayMatch(foreign)...); len(restrict) > 0 {
		stages = append([]bson.D{expr.Op("$match", restrict)}, stages...)
	}
	if len(stages) > 0 {
		spec = append(spec, expr.Element("pipeline", stages))
	}
	return expr.Op("$lookup", append(spec, expr.Element("as", fieldTree)))
}

// noPatternMatch keeps a $graphLookup away from nodes with a regular expression in a field, which it would take for a pattern.
func noPatternMatch(field string) bson.D {
	if field == "_id" { // the server refuses it there
		return nil
	}
	return expr.D(field, expr.Op("$not", expr.Op("$type", "regex")))
}

// graphSearch is a $graphLookup that goes along references, from a field to a field, through depth levels, 0 for all.
type graphSearch struct {
	start    any // the expression for the first references
	from, to string
	depth    int
	only     bson.D // of the nodes in the scope it visits those that match; nil for all
	depthTo  string // the field for the depth, "" for none
}

func (s *store) graphLookup(g graphSearch) bson.D {
	spec := expr.D("from", s.coll.Name(), "startWith", g.start, "connectFromField", g.from, "connectToField", g.to, "as", fieldTree)
	if g.depthTo != "" {
		spec = append(spec, expr.Element("depthField", g.depthTo))
	}
	if g.depth > 0 {
		spec = append(spec, expr.Element("maxDepth", g.depth-1))
	}
	restrict := s.inJoin(slices.Concat(s.noArrayMatch(g.to), g.only)...)
	if g.to != "_id" && g.to == s.o.IDField {
		restrict = append(restrict, expr.Element("$nor", bson.A{expr.D(g.to, nil)}))
	}
	if len(restrict) > 0 {
		spec = append(spec, expr.Element("restrictSearchWithMatch", restrict))
	}
	return expr.Op("$graphLookup", spec)
}

// graphDown joins a node with those that a search finds.
func (s *store) graphDown(id any, g graphSearch, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless unless) bson.D {
		g.start = unless(g.start, bson.A{})
		return s.graphLookup(g)
	})
}

// rangeDown joins a node with those that stages find. These use $$from and $$to, the ends of the node's range.
func (s *store) rangeDown(id any, ends [2]any, stages mongo.Pipeline, self bool) mongo.Pipeline {
	return s.downBy(id, self, func(unless unless) bson.D {
		let := expr.D("from", ends[0], "to", unless(ends[1], ends[0]))
		return expr.Op("$lookup", expr.D("from", s.coll.Name(), "let", let, "pipeline", stages, "as", fieldTree))
	})
}

// unless is an expression for v, or otherwise for the copy of a node that joins nothing: see downBy.
type unless = func(v, otherwise any) any

// downBy joins a node with those below it. With self the result contains the node, too. For that it makes two copies
// of the node: one joins as usual, and in the other one unless returns otherwise, so that it joins nothing and stays
// as it is. ($unionWith would be simpler, but transactions refuse it.)
func (s *store) downBy(id any, self bool, join func(unless) bson.D) mongo.Pipeline {
	match := expr.Op("$match", s.idMatch(id))
	if !self {
		return slices.Concat(mongo.Pipeline{match, join(func(v, _ any) any { return v })}, unfold())
	}
	return mongo.Pipeline{
		match,
		expr.Op("$set", expr.D(fieldSelf, bson.A{true, false})),
		expr.Op("$unwind", expr.Field(fieldSelf)),
		join(func(v, otherwise any) any { return expr.Cond(expr.Field(fieldSelf), otherwise, v) }),
		expr.Op("$unwind", expr.D("path", expr.Field(fieldTree), "preserveNullAndEmptyArrays", true)),
		expr.Op("$match", expr.Op("$or", bson.A{expr.D(fieldSelf, true), expr.D(fieldTree, expr.Op("$exists", true))})),
		expr.Op("$replaceRoot", expr.D("newRoot", expr.IfNull(expr.Field(fieldTree), expr.Var("ROOT")))),
		expr.Op("$unset", bson.A{fieldSelf, fieldTree}),
	}
}

// unfold replaces each document by those in its fieldTree, with further fields computed from it.
func unfold(extra ...any) mongo.Pipeline {
	var root any = expr.Field(fieldTree)
	if len(extra) > 0 {
		root = expr.Op("$mergeObjects", root, expr.D(extra...))
	}
	return mongo.Pipeline{expr.Op("$unwind", expr.Field(fieldTree)), expr.Op("$replaceRoot", expr.D("newRoot", root))}
}

// inOrder sorts siblings, if the tree orders them.
func (s *store) inOrder() mongo.Pipeline {
	if f := s.sortField; f != "" {
		return mongo.Pipeline{expr.Op("$sort", expr.D(f, 1))}
	}
	return nil
}

// sorting is inOrder for reads that must return the same order each time: siblings that share an order, or have none,
// are ordered by _id.
func (s *store) sorting() bson.D {
	if f := s.sortField; f != "" {
		return expr.Op("$sort", expr.D(f, 1, "_id", 1))
	}
	return expr.Op("$sort", expr.D("_id", 1))
}

// unreferenced yields the nodes that no other node refers to: the value of local, which the stages before may compute,
// is not in the field foreign of any node. $limit ends the search at the first.
func (s *store) unreferenced(local, foreign string, before ...bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", bson.D{})}, before, mongo.Pipeline{
		s.lookup(local, foreign, expr.Op("$limit", 1), expr.Op("$project", expr.D("_id", 1))),
		expr.Op("$match", expr.D(fieldTree, expr.Op("$size", 0))),
		expr.Op("$unset", bson.A{fieldTree, fieldRef}),
	})
}
