package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// childRefs: {_id, children: […]}.
type childRefs struct {
	*core
	defaults
}

func (r childRefs) settings() []config.Setting {
	return []config.Setting{config.Name("Options.ChildrenField", &r.o.ChildrenField, ""), r.o.unordered()}
}

func (r childRefs) fields() []string  { return []string{r.o.ChildrenField} }
func (r childRefs) keys() []indexKeys { return []indexKeys{{fields: []string{r.o.ChildrenField}}} }

func (r childRefs) up(match any, levels int) mongo.Pipeline {
	id := r.o.IDField
	self := r.lookup(id, id)
	spec := self[0].Value.(bson.D)
	spec[len(spec)-1].Value = fieldSelf
	return concat(mongo.Pipeline{
		expr.Op("$match", match),
		r.graphLookup(expr.Field(id), id, r.o.ChildrenField, levels, expr.Element("depthField", fieldDepth)),
		self,
		expr.Op("$project", d(fieldTree, expr.Op("$concatArrays", expr.Field(fieldSelf), expr.Field(fieldTree)))),
	}, unfold(
		// The node itself has no depth, its parents have 0.
		fieldDepth, expr.IfNull(expr.Op("$add", expr.Field(fieldTree+"."+fieldDepth), 1), 0)))
}

func (r childRefs) down(id any, depth int, self bool) mongo.Pipeline {
	return r.graphDown(id, r.o.ChildrenField, r.o.ChildrenField, r.o.IDField, depth, self)
}

func (r childRefs) referenced() mongo.Pipeline {
	return concat(mongo.Pipeline{
		expr.Op("$unwind", expr.Field(r.o.ChildrenField)), // keeps the order of the array
		r.lookup(r.o.ChildrenField, r.o.IDField),
	}, unfold())
}

func (r childRefs) children(id any) mongo.Pipeline {
	return concat(mongo.Pipeline{expr.Op("$match", r.byID(id))}, r.referenced())
}

// siblings of a root are not found this way: Tree.Siblings reads the roots then.
func (r childRefs) siblings(id any) mongo.Pipeline {
	p := concat(mongo.Pipeline{r.match(r.o.ChildrenField, equal(id))}, r.referenced(),
		mongo.Pipeline{expr.Op("$match", d(r.o.IDField, d("$ne", id)))})
	if r.o.Graph { // a node may be a sibling by two parents
		p = append(p, expr.Op("$group", d("_id", expr.Field(r.o.IDField), fieldTree, d("$first", expr.Var("ROOT")))),
			expr.Op("$replaceRoot", d("newRoot", expr.Field(fieldTree))))
	}
	return p
}

func (r childRefs) roots() mongo.Pipeline { return r.unreferenced(r.o.IDField, r.o.ChildrenField) }

func (r childRefs) leaves() mongo.Pipeline {
	return mongo.Pipeline{r.match(r.o.ChildrenField+".0", d("$exists", false))}
}

func (r childRefs) childrenOf(n node) (bson.D, bool)  { return r.byIDs(n.children), true }
func (r childRefs) rootsMatch() bson.D                { return nil }
func (r childRefs) parentsOf(id bson.RawValue) bson.D { return r.in(r.o.ChildrenField, equal(id)) }

// Writes.

// target finds the parent that a position names and the index in its children,
// -1 for the end, among nodes that were read. The children are taken without the
// node that moves.
func (r childRefs) target(pos position, nodes []node, self bson.RawValue) (parent *node, at int, err error) {
	named := slices.IndexFunc(nodes, func(n node) bool { return same(n.id, pos.ref) })
	switch {
	case pos.kind == atRoot && pos.first:
		return nil, 0, fault.Invalid("the roots of ChildReferences have no order")
	case pos.kind == atRoot:
		return nil, -1, nil
	case pos.kind == underParent && named < 0:
		return nil, 0, noParent(pos.ref)
	case pos.kind == underParent && pos.first:
		return &nodes[named], 0, nil
	case pos.kind == underParent:
		return &nodes[named], -1, nil
	case r.o.Graph:
		return nil, 0, fault.Invalid("Before and After are ambiguous in a graph")
	case named < 0:
		return nil, 0, missing(pos.ref)
	}
	for i, n := range nodes {
		kids := slices.DeleteFunc(slices.Clone(n.children), func(id bson.RawValue) bool { return same(id, self) })
		at := slices.IndexFunc(kids, func(id bson.RawValue) bool { return same(id, pos.ref) })
		if at >= 0 {
			if pos.kind == afterSibling {
				at++
			}
			return &nodes[i], at, nil
		}
	}
	return nil, 0, fault.Invalid("the roots of ChildReferences have no order")
}

// listing matches what target needs besides the nodes: the parent of a sibling.
func (r childRefs) listing(pos position) []any {
	if pos.sibling() {
		return []any{d(r.o.ChildrenField, equal(pos.ref))}
	}
	return nil
}

// push is the write that makes id the child at an index, -1 for the end.
func (r childRefs) push(parent bson.RawValue, at int, id bson.RawValue) mongo.WriteModel {
	each := d("$each", bson.A{id})
	if at >= 0 {
		each = append(each, bson.E{Key: "$position", Value: at})
	}
	return update(r.byID(parent), append(d("$push", d(r.o.ChildrenField, each)), r.count(1)...))
}

func (r childRefs) unlink(parent, id bson.RawValue) mongo.WriteModel {
	match := append(r.byID(parent), bson.E{Key: r.o.ChildrenField, Value: equal(id)})
	return update(match, r.pulling(id))
}

func (r childRefs) pulling(id bson.RawValue) bson.D {
	return append(d("$pull", d(r.o.ChildrenField, d("$in", bson.A{id}))), r.count(-1)...)
}

// unlinkAll takes a node away from all its parents.
func (r childRefs) unlinkAll(id bson.RawValue) mongo.WriteModel {
	return update(r.parentsOf(id), r.pulling(id))
}

func (r childRefs) insert(ctx context.Context, doc bson.D, pos position) error {
	doc = append(doc, bson.E{Key: r.o.ChildrenField, Value: bson.A{}})
	if pos.kind == atRoot && !pos.first {
		_, err := r.durable.InsertOne(ctx, doc)
		return err
	}
	return r.atomically(ctx, false, func(ctx context.Context) error {
		parent, at := node{id: pos.ref}, -1
		switch {
		case pos.kind != underParent:
			nodes, err := r.findAll(ctx, r.in("$or", append(r.listing(pos), d(r.o.IDField, equal(pos.ref)))))
			if err != nil {
				return err
			}
			p, index, err := r.target(pos, nodes, bson.RawValue{})
			if err != nil {
				return err
			}
			parent, at = *p, index
		case pos.first:
			at = 0
		}
		res, err := r.primary.BulkWrite(ctx, []mongo.WriteModel{r.push(parent.id, at, lookupD(doc, r.o.IDField))})
		if err == nil && res.MatchedCount == 0 {
			err = noParent(parent.id)
		}
		if err != nil {
			return r.counted(err)
		}
		return r.create(ctx, doc, nil)
	})
}

func (r childRefs) move(ctx context.Context, id bson.RawValue, pos position) error {
	if r.o.Graph {
		return fault.Invalid("a graph is changed with Link and Unlink")
	}
	return r.atomically(ctx, true, func(ctx context.Context) error {
		or := append(r.listing(pos), d(r.o.ChildrenField, equal(id)))
		_, _, nodes, err := r.both(ctx, id, pos.ref, or...)
		if err != nil || pos.sibling() && same(pos.ref, id) {
			return err
		}
		parent, at, err := r.target(pos, nodes, id)
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		for _, n := range nodes {
			if holds(n.children, id) {
				models = append(models, r.unlink(n.id, id))
			}
		}
		if parent != nil {
			above, err := r.isAbove(ctx, id, parent.id)
			if err != nil {
				return err
			}
			if above {
				return fmt.Errorf("%w: %s", ErrCycle, text(id))
			}
			models = append(models, r.push(parent.id, at, id))
		}
		return r.write(ctx, models...)
	})
}

func (r childRefs) remove(ctx context.Context, id bson.RawValue, policy DeletePolicy) (deleted int64, err error) {
	err = r.atomically(ctx, true, func(ctx context.Context) error {
		if policy == Cascade {
			ids, err := r.doomed(ctx, id)
			if err == nil {
				err = r.write(ctx, r.unlinkAll(id))
			}
			if err == nil {
				deleted, err = r.deleteIDs(ctx, ids)
			}
			return err
		}
		deleted = 1
		x, err := r.take(ctx, id)
		if err != nil {
			return err
		}
		if policy == Restrict && len(x.children) > 0 {
			return fmt.Errorf("%w: %s", ErrHasChildren, text(id))
		}
		if policy != Promote || len(x.children) == 0 {
			return r.write(ctx, r.unlinkAll(id))
		}
		parents, err := r.findAll(ctx, r.parentsOf(id))
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		for _, p := range parents {
			models = append(models, r.unlink(p.id, id))
			models = append(models, r.inherit(p, x)...)
		}
		return r.write(ctx, models...)
	})
	return deleted, err
}

// inherit puts the children of x in its place among those of p.
func (r childRefs) inherit(p, x node) []mongo.WriteModel {
	at := slices.IndexFunc(p.children, func(id bson.RawValue) bool { return same(id, x.id) })
	added := slices.DeleteFunc(slices.Clone(x.children), func(id bson.RawValue) bool { return holds(p.children, id) })
	if len(added) == 0 {
		return nil
	}
	push := d("$push", d(r.o.ChildrenField, d("$each", added, "$position", at)))
	return []mongo.WriteModel{update(r.byID(p.id), append(push, r.count(int64(len(added)))...))}
}

// doomed are a node and the descendants that only it leads to: in a graph a node
// that has a parent elsewhere stays, and all that is below it.
func (r childRefs) doomed(ctx context.Context, id bson.RawValue) ([]bson.RawValue, error) {
	all, err := r.aggregate(ctx, r.down(id, 0, true))
	if err != nil {
		return nil, err
	}
	byKey := map[string]node{}
	for _, n := range all {
		byKey[key(n.id)] = n
	}
	if byKey[key(id)].raw == nil {
		return nil, missing(id)
	}
	ids := idsOf(all)
	if !r.o.Graph {
		return ids, nil
	}
	below := slices.DeleteFunc(slices.Clone(ids), func(v bson.RawValue) bool { return same(v, id) })
	outside, err := r.findAll(ctx, r.in(r.o.ChildrenField, d("$in", below), r.o.IDField, d("$nin", ids)))
	if err != nil {
		return nil, err
	}
	for len(outside) > 0 { // what they lead to stays
		n := outside[0]
		outside = outside[1:]
		for _, kid := range n.children {
			if child, ok := byKey[key(kid)]; ok && !same(kid, id) {
				delete(byKey, key(kid))
				outside = append(outside, child)
			}
		}
	}
	return slices.DeleteFunc(ids, func(v bson.RawValue) bool { return byKey[key(v)].raw == nil }), nil
}

func (r childRefs) arrange(_ context.Context, items []*item) error {
	for _, it := range items {
		it.doc = append(it.doc, bson.E{Key: r.o.ChildrenField, Value: append([]bson.RawValue{}, it.kids...)})
	}
	return nil
}

func (r childRefs) adopt(_ node, kids []bson.RawValue) bson.D {
	return append(r.count(int64(len(kids))), d("$push", d(r.o.ChildrenField, d("$each", kids)))...)
}

// Maintenance.

func (r childRefs) own(n node) string               { return key(n.id) }
func (r childRefs) ref(node) (string, bool, string) { return "", false, "" }
func (r childRefs) names(n node) []bson.RawValue    { return n.children }
func (r childRefs) parents(nodes []node, _ map[string]*spot) bson.D {
	return r.in(r.o.ChildrenField, d("$in", idsOf(nodes)))
}
func (r childRefs) link() string                        { return r.o.ChildrenField }
func (r childRefs) order() string                       { return "" }
func (r childRefs) settled(n node) bool                 { return n.raw.Lookup(r.o.ChildrenField).Type != 0 }
func (r childRefs) wrong() mongopatterns.ProblemKind    { return WrongChildren }
func (r childRefs) derive(node, []*spot) (bson.D, bool) { return nil, true }

func (r childRefs) family(kids []node) bson.D { return d(r.o.ChildrenField, arrayOf(idsOf(kids))) }

func (r childRefs) uproot(n node) []mongo.WriteModel { return []mongo.WriteModel{r.unlinkAll(n.id)} }

func (r childRefs) kids(ctx context.Context, nodes []node) ([][]node, error) {
	var ids []bson.RawValue
	for _, n := range nodes {
		ids = append(ids, n.children...)
	}
	kids, err := r.findAll(ctx, r.byIDs(ids))
	byKey := map[string]node{}
	for _, n := range kids {
		byKey[key(n.id)] = n
	}
	out := make([][]node, len(nodes))
	for i, n := range nodes {
		for _, id := range n.children {
			if kid, ok := byKey[key(id)]; ok {
				out[i] = append(out[i], kid)
			}
		}
	}
	return out, err
}

// cut ends a cycle where something outside leads into it, at the smallest such node;
// a cycle that nothing leads to gets a root. In a tree an entry has several
// parents, and that is repaired first.
func (r childRefs) cut(n node, s *spot) *finding {
	in := func(o *spot) bool { return slices.Contains(s.loop, o) }
	entry := func(o *spot) bool { return slices.ContainsFunc(o.ups, func(p *spot) bool { return !in(p) }) }
	if !slices.ContainsFunc(s.loop, entry) {
		return r.cutSmallest(n, s)
	}
	if !r.o.Graph || !entry(s) || slices.ContainsFunc(s.loop, func(o *spot) bool { return entry(o) && less(o.id, n.id) }) {
		return nil
	}
	f := &finding{moves: true}
	for _, p := range s.ups {
		if in(p) {
			f.writes = append(f.writes, r.unlink(p.id, n.id))
		}
	}
	return f
}

// audit finds wrong elements and, in a tree, nodes with several parents. Of these one
// keeps the node that is not on a cycle with it, and of several the smallest.
func (r childRefs) audit(ctx context.Context, e *engine, nodes []node, spots []*spot, kids [][]node) (found []finding, err error) {
	if kids == nil {
		if kids, err = r.kids(ctx, nodes); err != nil {
			return nil, err
		}
	}
	f := r.o.ChildrenField
	for i, n := range nodes {
		exists, seen := map[string]bool{}, map[string]bool{}
		for _, kid := range kids[i] {
			exists[key(kid.id)] = true
		}
		var keep []bson.RawValue
		bad := map[mongopatterns.ProblemKind]bson.RawValue{}
		for _, id := range n.children {
			switch {
			case !exists[key(id)]:
				bad[DanglingChild] = id
			case seen[key(id)]:
				bad[DuplicateChild] = id
			default:
				keep = append(keep, id)
			}
			seen[key(id)] = true
		}
		put := update(r.byID(n.id), d("$set", d(f, append([]bson.RawValue{}, keep...))))
		for _, kind := range []mongopatterns.ProblemKind{DanglingChild, DuplicateChild} {
			if id, ok := bad[kind]; ok {
				found = append(found, e.finding(kind, n, f, text(id), put))
			}
		}
		if v := n.raw.Lookup(f); v.Type != 0 && v.Type != bson.TypeArray {
			found = append(found, e.finding(WrongChildren, n, f, "not an array", put))
		}
		parents := slices.Clone(spots[i].ups)
		if r.o.Graph || len(parents) < 2 {
			continue
		}
		slices.SortFunc(parents, func(a, b *spot) int {
			onA, onB := slices.Contains(spots[i].loop, a), slices.Contains(spots[i].loop, b)
			if onB && !onA || onA == onB && less(a.id, b.id) {
				return -1
			}
			return 1
		})
		var writes []mongo.WriteModel
		for _, p := range parents[1:] {
			writes = append(writes, r.unlink(p.id, n.id))
		}
		several := e.finding(SeveralParents, n, "", fmt.Sprintf("%d parents", len(parents)), writes...)
		several.moves = true
		found = append(found, several)
	}
	return found, nil
}

// join takes the children that some node lists already from those that parent fields
// name. A node that none lists goes to its parent, if that has its children already.
func (r childRefs) join(ctx context.Context, e *engine, nodes []node, spots []*spot, kids [][]node) ([][]node, []finding, error) {
	ids := idsOf(nodes)
	for _, all := range kids {
		ids = append(ids, idsOf(all)...)
	}
	parents, err := r.findAll(ctx, r.in(r.o.ChildrenField, d("$in", ids)))
	listed := map[string]bool{}
	for _, p := range parents {
		for _, id := range p.children {
			listed[key(id)] = true
		}
	}
	var found []finding
	for i, n := range nodes {
		kids[i] = slices.DeleteFunc(kids[i], func(kid node) bool { return listed[key(kid.id)] })
		if up := spots[i].ups; !spots[i].settled && !listed[key(n.id)] && len(up) == 1 && up[0].settled {
			push := r.push(up[0].id, -1, n.id)
			found = append(found, e.finding(WrongChildren, n, "", "", push))
		}
	}
	return kids, found, err
}
