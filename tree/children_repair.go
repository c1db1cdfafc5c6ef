package tree

import (
	"cmp"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// This file has the parts of Check and Repair that only lists need: wrong elements, and nodes with several parents.

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
	if detail, right := s.wrongElements(n, children); detail != "" {
		p := e.problem(mongopatterns.WrongField, n, f, detail)
		found = append(found, findingOf(n, p, update(s.idMatch(n.id), expr.Op("$set", expr.D(f, right)))))
	}
	if at.unlisted && at.lost == "" && at.cycle == nil && e.repairs { // for Adopt to repair
		detail := "not adopted: its parent " + text(n.parent) + " does not list it"
		found = append(found, findingOf(n, e.problem(mongopatterns.WrongField, n, f, detail)))
	}
	if s.o.Graph || len(at.parents) < 2 {
		return found
	}
	several := findingOf(n, e.problem(SeveralParents, n, "", fmt.Sprintf("%d parents", len(at.parents))))
	several.remedy = byMoving
	for _, p := range at.parents {
		if p != s.keeper(at) {
			several.writes = append(several.writes, s.pull(p.id, n.id))
		}
	}
	return append(found, several)
}

// wrongElements says what is wrong with the list of a node, "" if nothing is, and returns the right elements, in their
// order.
func (s *lists) wrongElements(n node, children []node) (detail string, right []bson.RawValue) {
	there, seen, right := map[string]bool{}, map[string]bool{}, []bson.RawValue{}
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
			right = append(right, id)
		}
		seen[key(id)] = true
	}
	if v := n.raw.Lookup(s.o.ChildrenField); v.Type != 0 && v.Type != bson.TypeArray {
		detail = "not an array"
	}
	return detail, right
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
	return slices.MinFunc(at.parents, func(a, b *place) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), value.Compare(a.id, b.id))
	})
}

// makeRoot also gives the node an array: with one it is a root, whatever its parent field names.
func (s *lists) makeRoot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{s.pullFromAll(n.id), s.addArray(n)}
}
