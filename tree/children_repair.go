package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// What Check, Repair and Adopt do for lists alone: elements that are wrong, nodes with several parents, and
// nodes that name a parent which does not list them.

// cut ends a cycle where something outside leads into it, at the smallest such node. It returns false for a
// cycle that nothing leads to, which gets a root. In a tree an entry has several parents, and that is repaired first.
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

// audit finds wrong elements and, in a tree, nodes with several parents.
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
		found = append(found, e.finding(WrongField, n, f, detail, update(l.byID(n.id), d("$set", d(f, keep)))))
	}
	if s != nil && s.unlisted && s.lost == "" && s.loop == nil && !e.quick { // Adopt links it
		found = append(found, e.finding(WrongField, n, f, "not adopted: its parent "+text(n.parent)+" does not list it"))
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

// keeper is the one of several parents that keeps a node: one that is not on a cycle with it, and of several
// the smallest.
func (l *lists) keeper(s *place) *place {
	return slices.MinFunc(s.ups, func(a, b *place) int {
		onA, onB := slices.Contains(s.loop, a), slices.Contains(s.loop, b)
		if onB && !onA || onA == onB && less(a.id, b.id) {
			return -1
		}
		return 1
	})
}

// adopt is for Adopt of nodes among settled ones. It takes from the children that parent fields name those that
// have an array and are in one, or whose parent is new itself: they are roots, or were. A node without an array
// leaves those that list it, where it was before it was deleted, and goes to its parent, if that has its children
// already. stale says that a parent has lost its array since the engine has seen it with one: old code has replaced
// it. A push would give it one, and leave it for good in the list that it was in.
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
	read, err := l.findAll(ctx, d("$or", bson.A{l.in(l.o.ChildrenField, d("$in", ids)), l.byIDs(settled)}))
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
		f := e.finding(WrongField, n, "", "")
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
