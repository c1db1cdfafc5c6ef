package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// This file has the parts of Check, Repair and Adopt that only lists need: wrong elements, nodes with several
// parents, and nodes that name a parent that does not list them.

// cut opens a cycle that a node outside leads into, so that all its nodes stay below that one. It returns false if
// no node leads into the cycle: then one member becomes a root. In a graph the entry, the smallest if there are
// several, leaves the lists inside the cycle. In a tree the entry has several parents, and keeper opens the cycle.
func (l *lists) cut(f *finding, n node, s *place) bool {
	in := func(o *place) bool { return slices.Contains(s.loop, o) }
	entry := func(o *place) bool { return slices.ContainsFunc(o.ups, func(p *place) bool { return !in(p) }) }
	if !slices.ContainsFunc(s.loop, entry) {
		return false
	}
	if !l.o.Graph || !entry(s) || slices.ContainsFunc(s.loop, func(o *place) bool { return entry(o) && less(o.id, n.id) }) {
		return true
	}
	f.moves = true
	for _, p := range s.ups {
		if in(p) {
			f.writes = append(f.writes, l.unlink(p.id, n.id))
		}
	}
	return true
}

// audit finds elements that are wrong and, in a tree, nodes with several parents. The repaired list keeps the order
// of the other elements.
func (l *lists) audit(e *engine, n node, s *place, children []node) (found []finding) {
	f := l.o.ChildrenField
	there, seen, keep := map[string]bool{}, map[string]bool{}, []bson.RawValue{}
	for _, child := range children {
		there[key(child.id)] = true
	}
	detail := ""
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
	if v := n.raw.Lookup(f); v.Type != 0 && v.Type != bson.TypeArray {
		detail = "not an array"
	}
	if detail != "" {
		found = append(found, e.finding(mongopatterns.WrongField, n, f, detail, update(l.byID(n.id), expr.Op("$set", expr.D(f, keep)))))
	}
	if s != nil && s.unlisted && s.lost == "" && s.loop == nil && !e.quick { // for Adopt to repair
		found = append(found, e.finding(mongopatterns.WrongField, n, f, "not adopted: its parent "+text(n.parent)+" does not list it"))
	}
	if s == nil || l.o.Graph || len(s.ups) < 2 {
		return found
	}
	several := e.finding(SeveralParents, n, "", fmt.Sprintf("%d parents", len(s.ups)))
	several.moves = true
	for _, p := range s.ups {
		if p != l.keeper(s) {
			several.writes = append(several.writes, l.unlink(p.id, n.id))
		}
	}
	return append(found, several)
}

// keeper returns the parent that keeps a node that several nodes list: the one with the smallest ID. Those that
// lie on a cycle with the node come last, so that the cycle opens.
func (l *lists) keeper(s *place) *place {
	return slices.MinFunc(s.ups, func(a, b *place) int {
		onA, onB := slices.Contains(s.loop, a), slices.Contains(s.loop, b)
		if onB && !onA || onA == onB && less(a.id, b.id) {
			return -1
		}
		return 1
	})
}

// adopt prepares Adopt of nodes that lie among adopted ones.
//
// From the children, which the parent fields name, it removes a child with an array if a list contains it, or if its
// parent is new itself: it is in that list, or it was a root. The other nodes leave the lists that contain them,
// where they were before old code deleted them and inserted them again. If their parent is adopted already, they
// are pushed to its list; otherwise the parent gets them with its own array.
//
// stale says that a parent has lost its array since the engine saw it, because old code has replaced the document.
// A push would give it an array and so keep it, wrongly, in the list that contains it.
func (l *lists) adopt(ctx context.Context, e *engine, nodes []node, places []*place, children [][]node) (
	found []finding, stale bool, err error) {
	ids := idsOf(nodes)
	for _, all := range children {
		ids = append(ids, idsOf(all)...)
	}
	var settled []bson.RawValue
	for _, s := range places {
		if !s.settled && len(s.ups) == 1 && s.ups[0].settled {
			settled = append(settled, s.ups[0].id)
		}
	}
	read, err := l.findAll(ctx, expr.Op("$or", bson.A{l.in(l.o.ChildrenField, anyOf(ids)), l.byIDs(settled)}))
	listed := map[string][]node{}
	for _, p := range read {
		for _, id := range p.children {
			listed[key(id)] = append(listed[key(id)], p)
		}
	}
	for _, id := range settled {
		if p := pick(read, id); p.raw == nil || p.raw.Lookup(l.link).Type == 0 {
			return nil, true, err
		}
	}
	for i, n := range nodes {
		by := listed[key(n.id)]
		fresh := !isNull(n.parent) && len(by) == 0
		children[i] = slices.DeleteFunc(children[i], func(child node) bool {
			return child.raw.Lookup(l.link).Type != 0 && (fresh || len(listed[key(child.id)]) > 0)
		})
		up := places[i].ups
		if places[i].settled || len(up) != 1 {
			continue
		}
		at, there := up[0], false
		f := e.finding(mongopatterns.WrongField, n, "", "")
		for _, p := range by {
			if there = there || same(p.id, at.id); !same(p.id, at.id) {
				f.writes = append(f.writes, l.unlink(p.id, n.id))
			}
		}
		if at.settled && !there {
			f.writes = append(f.writes, l.push(at.id, -1, n.id))
		}
		if f.writes != nil {
			found = append(found, f)
		}
	}
	return found, false, err
}
