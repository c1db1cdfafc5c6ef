package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// childRefs: {_id, children: […]}.
type childRefs struct{ base }

func (r childRefs) layout() layout {
	link := r.o.ChildrenField
	return layout{[]config.Setting{config.Name("Options.ChildrenField", &r.o.ChildrenField, "children"), r.o.oldParent()},
		[]string{link}, nil, link, "", false, link}
}

func (r childRefs) up(levels int) mongo.Pipeline {
	id := r.o.IDField
	self := expr.Op("$unsetField", d("field", fieldTree, "input", expr.Var("ROOT")))
	return slices.Concat(mongo.Pipeline{
		r.graphLookup(expr.Field(id), id, r.o.ChildrenField, levels, expr.Element("depthField", fieldDepth)),
		expr.Op("$project", d(fieldTree, expr.Op("$concatArrays", bson.A{self}, expr.Field(fieldTree)))),
	}, unfold(
		// The node itself has no depth, its parents have 0.
		fieldDepth, expr.IfNull(expr.Op("$add", expr.Field(fieldTree+"."+fieldDepth), 1), 0)))
}

func (r childRefs) down(id any, depth int, self bool) mongo.Pipeline {
	return r.graphDown(id, r.o.ChildrenField, r.o.ChildrenField, r.o.IDField, depth, self)
}

func (r childRefs) referenced(match bson.D) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", match),
		expr.Op("$unwind", expr.Field(r.o.ChildrenField)), // keeps the order of the array
		r.lookup(r.o.ChildrenField, r.o.IDField),
	}, unfold())
}

func (r childRefs) children(id any) mongo.Pipeline { return r.referenced(r.byID(id)) }

// siblings of a root are not found this way: Tree.Siblings reads the roots then.
func (r childRefs) siblings(id any) mongo.Pipeline {
	p := append(r.referenced(r.parentsOf(id)), expr.Op("$match", d(r.o.IDField, d("$ne", id))))
	if r.o.Graph { // a node may be a sibling by two parents
		p = append(p, expr.Op("$group", d("_id", expr.Field(r.o.IDField), fieldTree, d("$first", expr.Var("ROOT")))),
			expr.Op("$replaceRoot", d("newRoot", expr.Field(fieldTree))))
	}
	return p
}

func (r childRefs) leaves() mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$match", append(r.in(r.o.ChildrenField+".0", d("$exists", false)), r.notLate()...))}
}

func (r childRefs) childrenOf(n node) (bson.D, bool) { return r.byIDs(n.children), true }
func (r childRefs) rootsMatch() bson.D               { return nil }
func (r childRefs) parentsOf(id any) bson.D          { return r.in(r.o.ChildrenField, equal(id)) }

// Writes.

// target finds the parent that a position names and the index in its children, -1 for the end, among nodes that
// were read. The children are taken without the node that moves.
func (r childRefs) target(pos position, nodes []node, self bson.RawValue) (parent *node, at int, err error) {
	ref := pick(nodes, pos.ref)
	switch {
	case pos.kind == atRoot && pos.first:
		return nil, 0, fault.Invalid("the roots of ChildReferences have no order")
	case pos.kind == atRoot:
		return nil, -1, nil
	case r.o.Graph && pos.sibling():
		return nil, 0, fault.Invalid("Before and After are ambiguous in a graph")
	case ref.raw == nil:
		return nil, 0, pos.absent()
	case pos.kind == underParent && pos.first:
		return &ref, 0, nil
	case pos.kind == underParent:
		return &ref, -1, nil
	}
	for _, n := range nodes {
		kids := without(n.children, self)
		if at := slices.IndexFunc(kids, func(id bson.RawValue) bool { return same(id, pos.ref) }); at >= 0 {
			if r.unadopted(ref.raw) && !same(ref.parent, n.id) {
				break
			}
			if pos.kind == afterSibling {
				at++
			}
			return &n, at, nil
		}
	}
	if r.unadopted(ref.raw) {
		return nil, 0, notAdopted(ref.id, r.link)
	}
	return nil, 0, fault.Invalid("the roots of ChildReferences have no order")
}

// push is the write that makes ids the children at an index, -1 for the end.
func (r childRefs) push(parent bson.RawValue, at int, ids ...bson.RawValue) mongo.WriteModel {
	return r.pushTo(r.byID(parent), at, ids...)
}

func (r childRefs) pushTo(match bson.D, at int, ids ...bson.RawValue) mongo.WriteModel {
	each := d("$each", ids)
	if at >= 0 {
		each = append(each, bson.E{Key: "$position", Value: at})
	}
	return update(match, append(d("$push", d(r.o.ChildrenField, each)), r.count(int64(len(ids)))...))
}

// unlink takes a node away from a parent, or with a null one from all its parents.
func (r childRefs) unlink(parent, id bson.RawValue) mongo.WriteModel {
	match := r.parentsOf(id)
	if !isNull(parent) {
		match = append(match, bson.E{Key: r.o.IDField, Value: equal(parent)})
	}
	return update(match, append(d("$pull", d(r.o.ChildrenField, d("$in", bson.A{id}))), r.count(-1)...))
}

func (r childRefs) insert(ctx context.Context, doc bson.D, pos position) error {
	doc = append(doc, bson.E{Key: r.o.ChildrenField, Value: bson.A{}})
	if pos.kind == atRoot && !pos.first {
		_, err := fault.One(r.durable.InsertOne(ctx, doc))
		return err
	}
	return r.atomically(ctx, false, func(ctx context.Context) error {
		nodes := []node{{id: pos.ref, raw: bson.Raw{}}} // the push tells whether it is there
		if pos.sibling() {
			var err error
			either := bson.A{d(r.o.ChildrenField, equal(pos.ref)), d(r.o.IDField, equal(pos.ref))}
			if nodes, err = r.findAll(ctx, r.in("$or", either)); err != nil {
				return err
			}
		}
		parent, at, err := r.target(pos, nodes, bson.RawValue{})
		if err != nil {
			return err
		}
		id, _ := lookup(doc, r.o.IDField).(bson.RawValue)
		res, err := fault.Many(r.primary.BulkWrite(ctx, []mongo.WriteModel{r.pushTo(append(r.byID(parent.id), r.notLate()...), at, id)}))
		if err == nil && res.MatchedCount == 0 {
			var n node
			if n, err = r.findOne(ctx, r.byID(parent.id), noParent(parent.id)); err == nil {
				err = r.placed(ctx, n)
			}
			if err == nil { // it had no array, but is in one
				err = r.write(ctx, r.push(parent.id, at, id))
			}
		}
		if err != nil {
			return err
		}
		return r.create(ctx, doc, nil)
	})
}

func (r childRefs) move(ctx context.Context, id bson.RawValue, pos position) error {
	if r.o.Graph {
		return fault.Invalid("a graph is changed with Link and Unlink")
	}
	return r.atomically(ctx, true, func(ctx context.Context) error {
		x, _, nodes, err := r.both(ctx, id, pos, r.o.ChildrenField)
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
		if err := r.placed(ctx, x); err != nil {
			return err
		}
		if parent != nil {
			if err := r.placed(ctx, *parent); err != nil {
				return err
			}
			if err := r.acyclic(ctx, id, *parent); err != nil {
				return err
			}
			models = append(models, r.push(parent.id, at, id))
		}
		return r.write(ctx, models...)
	})
}

// placed is settled for a write. The node gets an array if it has none, as the write may give it one: from then on
// the arrays alone say where it is.
func (r childRefs) placed(ctx context.Context, n node) error {
	if !r.unadopted(n.raw) {
		return nil
	}
	if err := r.settled(ctx, n); err != nil {
		return err
	}
	return r.write(ctx, r.anchor(n)...)
}

// anchor gives a node without an array one, and takes it out of the arrays in which old code has left it: as long as
// it has none, it is where its parent field says.
func (r childRefs) anchor(n node) []mongo.WriteModel {
	left := append(r.parentsOf(n.id), bson.E{Key: r.o.IDField, Value: d("$ne", n.parent)})
	return []mongo.WriteModel{
		update(left, append(d("$pull", d(r.o.ChildrenField, d("$in", bson.A{n.id}))), r.count(-1)...)),
		r.array(n),
	}
}

// array gives a node that names a parent and has no array one.
func (r childRefs) array(n node) mongo.WriteModel {
	return update(append(r.byID(n.id), r.late(d("$ne", nil))...), d("$set", d(r.o.ChildrenField, bson.A{})))
}

// bequeath puts the children of x in its place among those of each parent.
func (r childRefs) bequeath(ctx context.Context, x node, policy DeletePolicy) ([]mongo.WriteModel, error) {
	if err := r.settled(ctx, x); err != nil {
		return nil, err
	}
	hasChildren := fmt.Errorf("%w: %s", ErrHasChildren, text(x.id))
	if policy == Restrict && len(x.children) > 0 {
		// Old code deletes nodes without telling their parents, and inserts them elsewhere.
		own := d("$nor", bson.A{r.late(d("$nin", bson.A{nil, x.id}))})
		n, err := r.findOne(ctx, append(r.byIDs(x.children), own...), nil)
		if err != nil || n.raw != nil {
			return nil, cmp.Or(err, hasChildren)
		}
	}
	nodes, err := r.findAll(ctx, d("$or", bson.A{r.parentsOf(x.id), r.lateBelow(equal(x.id))}))
	if err != nil {
		return nil, err
	}
	var parents []node
	var models []mongo.WriteModel
	bare := map[string]bool{} // children without arrays
	for _, n := range nodes {
		switch {
		case holds(n.children, x.id):
			parents = append(parents, n)
		case holds(x.children, n.id):
			models, bare[key(n.id)] = append(models, r.anchor(n)...), true
		case policy == Restrict:
			return nil, hasChildren
		default:
			return nil, notAdopted(n.id, r.link)
		}
	}
	if policy == Restrict || len(x.children) == 0 {
		return []mongo.WriteModel{r.unlink(null, x.id)}, nil
	}
	if policy != Promote {
		return append(models, r.unlink(null, x.id)), nil
	}
	for _, p := range parents {
		models = append(models, r.unlink(p.id, x.id))
		at := slices.IndexFunc(p.children, func(id bson.RawValue) bool { return same(id, x.id) })
		added := slices.DeleteFunc(slices.Clone(x.children), func(id bson.RawValue) bool { return holds(p.children, id) && !bare[key(id)] })
		if len(added) > 0 {
			models = append(models, r.push(p.id, at, added...))
		}
	}
	return models, nil
}

// cascade deletes a node and the descendants that only it leads to: in a graph a node that has a parent
// elsewhere stays, and all that is below it.
func (r childRefs) cascade(ctx context.Context, id bson.RawValue) (int64, []mongo.WriteModel, error) {
	all, err := r.aggregate(ctx, r.down(id, 0, true))
	if err != nil {
		return 0, nil, err
	}
	doomed := map[string]node{}
	for _, n := range all {
		doomed[key(n.id)] = n
	}
	if doomed[key(id)].raw == nil {
		return 0, nil, missing(id)
	}
	ids := idsOf(all)
	if r.o.Graph {
		below := without(ids, id)
		stay, err := r.findAll(ctx, r.in(r.o.ChildrenField, d("$in", below), r.o.IDField, d("$nin", ids)))
		if err != nil {
			return 0, nil, err
		}
		for len(stay) > 0 { // and so does what they lead to
			n := stay[0]
			stay = stay[1:]
			for _, kid := range n.children {
				if child, ok := doomed[key(kid)]; ok && !same(kid, id) {
					delete(doomed, key(kid))
					stay = append(stay, child)
				}
			}
		}
		ids = slices.DeleteFunc(ids, func(v bson.RawValue) bool { return doomed[key(v)].raw == nil })
	}
	late, err := r.findAll(ctx, r.lateBelow(d("$in", ids)), lateMax)
	if err == nil {
		err = r.settled(ctx, doomed[key(id)])
	}
	if err != nil {
		return 0, nil, err
	}
	for _, n := range doomed {
		if r.unadopted(n.raw) && !same(n.id, id) {
			late = append(late, n)
		}
	}
	for _, n := range late {
		if !holds(doomed[key(n.parent)].children, n.id) {
			return 0, nil, notAdopted(n.id, r.link)
		}
	}
	deleted, err := r.deleteIDs(ctx, ids)
	return deleted, []mongo.WriteModel{r.unlink(null, id)}, err
}

func (r childRefs) arrange(ctx context.Context, items []*item) error {
	for _, it := range items {
		if it.parent != nil {
			if err := r.placed(ctx, *it.parent); err != nil {
				return err
			}
		}
		it.doc = append(it.doc, bson.E{Key: r.o.ChildrenField, Value: append([]bson.RawValue{}, it.kids...)})
	}
	return nil
}

func (r childRefs) adopt(kids []bson.RawValue) bson.D {
	return append(r.count(int64(len(kids))), d("$push", d(r.o.ChildrenField, d("$each", kids)))...)
}

// Maintenance.

func (r childRefs) place(*node) bson.D                { return nil }
func (r childRefs) ref(node) (up node, broken string) { return node{}, "" }
func (r childRefs) names(n node) []bson.RawValue      { return n.children }
func (r childRefs) listing(kids []node) bson.D        { return d(r.o.ChildrenField, idsOf(kids)) }
func (r childRefs) parents(nodes []node) bson.D {
	listing, named := d(r.o.ChildrenField, d("$in", idsOf(nodes))), bson.A{}
	for _, n := range nodes {
		if r.unadopted(n.raw) {
			named = append(named, n.parent)
		}
	}
	if len(named) == 0 {
		return append(r.in(), listing...)
	}
	return r.in("$or", bson.A{listing, d(r.o.IDField, d("$in", named))})
}

// uproot leaves the node an array: with one it is a root, whatever parent it names.
func (r childRefs) uproot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{r.unlink(null, n.id), r.array(n)}
}

func (r childRefs) family(nodes []node) mongo.Pipeline { return r.referenced(r.byIDs(idsOf(nodes))) }

// cut ends a cycle where something outside leads into it, at the smallest such node; a cycle that nothing leads
// to gets a root. In a tree an entry has several parents, and that is repaired first.
func (r childRefs) cut(f *finding, n node, s *spot) {
	in := func(o *spot) bool { return slices.Contains(s.loop, o) }
	entry := func(o *spot) bool { return slices.ContainsFunc(o.ups, func(p *spot) bool { return !in(p) }) }
	if !slices.ContainsFunc(s.loop, entry) {
		r.base.cut(f, n, s)
		return
	}
	if !r.o.Graph || !entry(s) || slices.ContainsFunc(s.loop, func(o *spot) bool { return entry(o) && less(o.id, n.id) }) {
		return
	}
	f.moves = true
	for _, p := range s.ups {
		if in(p) {
			f.writes = append(f.writes, r.unlink(p.id, n.id))
		}
	}
}

// audit finds wrong elements and, in a tree, nodes with several parents.
func (r childRefs) audit(e *engine, n node, s *spot, kids []node) (found []finding) {
	f := r.o.ChildrenField
	there, seen, keep := map[string]bool{}, map[string]bool{}, []bson.RawValue{}
	for _, kid := range kids {
		there[key(kid.id)] = true
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
		found = append(found, e.finding(WrongField, n, f, detail, update(r.byID(n.id), d("$set", d(f, keep)))))
	}
	if s != nil && s.late && s.lost == "" && s.loop == nil && !e.quick { // Adopt links it
		found = append(found, e.finding(WrongField, n, f, "not adopted: its parent "+text(n.parent)+" does not list it"))
	}
	if s == nil || r.o.Graph || len(s.ups) < 2 {
		return found
	}
	several := e.finding(SeveralParents, n, "", fmt.Sprintf("%d parents", len(s.ups)))
	several.moves = true
	for _, p := range s.ups {
		if p != r.keeper(s) {
			several.writes = append(several.writes, r.unlink(p.id, n.id))
		}
	}
	return append(found, several)
}

// keeper is the one of several parents that keeps a node: one that is not on a cycle with it, and of several
// the smallest.
func (r childRefs) keeper(s *spot) *spot {
	return slices.MinFunc(s.ups, func(a, b *spot) int {
		onA, onB := slices.Contains(s.loop, a), slices.Contains(s.loop, b)
		if onB && !onA || onA == onB && less(a.id, b.id) {
			return -1
		}
		return 1
	})
}

// join takes from the children that parent fields name those that have an array and are in one, or whose parent
// is new itself: they are roots, or were. A node without an array leaves those that list it, where it was before
// it was deleted, and goes to its parent, if that has its children already.
func (r childRefs) join(ctx context.Context, e *engine, nodes []node, spots []*spot, kids [][]node) ([]finding, error) {
	ids := idsOf(nodes)
	for _, all := range kids {
		ids = append(ids, idsOf(all)...)
	}
	parents, err := r.findAll(ctx, r.in(r.o.ChildrenField, d("$in", ids)))
	listed := map[string][]node{}
	for _, p := range parents {
		for _, id := range p.children {
			listed[key(id)] = append(listed[key(id)], p)
		}
	}
	var found []finding
	for i, n := range nodes {
		by := listed[key(n.id)]
		fresh := !isNull(n.parent) && len(by) == 0
		kids[i] = slices.DeleteFunc(kids[i], func(kid node) bool {
			return kid.raw.Lookup(r.link).Type != 0 && (fresh || len(listed[key(kid.id)]) > 0)
		})
		up := spots[i].ups
		if spots[i].settled || len(up) != 1 {
			continue
		}
		at, there := up[0], false
		f := e.finding(WrongField, n, "", "")
		for _, p := range by {
			if there = there || same(p.id, at.id); !same(p.id, at.id) {
				f.writes = append(f.writes, r.unlink(p.id, n.id))
			}
		}
		if at.settled && !there {
			f.writes = append(f.writes, r.push(at.id, -1, n.id))
		}
		if f.writes != nil {
			found = append(found, f)
		}
	}
	return found, err
}

// Graphs.

// Link makes child one more child of parent, after the others. It needs Options.Graph. Linking twice is no
// error; a link that would close a cycle is ErrCycle.
//
// Cost: 5 round trips (lock, both nodes, 1 $graphLookup up from the parent, 1 update, commit), 2 documents
// written: the lock and the parent.
func (t *Tree[K, T]) Link(ctx context.Context, parent, child K) (err error) {
	defer fault.In(&err, "tree: link")
	return t.c.relink(ctx, parent, child, true)
}

// Unlink takes child away from parent. It needs Options.Graph. A child without parents is a root; unlinking
// what is not linked is ErrNotFound.
//
// Cost: 4 round trips (lock, both nodes, 1 update, commit), 2 documents written: the lock and the parent.
func (t *Tree[K, T]) Unlink(ctx context.Context, parent, child K) (err error) {
	defer fault.In(&err, "tree: unlink")
	return t.c.relink(ctx, parent, child, false)
}

func (c *core) relink(ctx context.Context, parent, child any, add bool) error {
	r, ok := c.rep.(childRefs)
	if !ok || !c.o.Graph {
		return fault.Invalid("Link and Unlink need Options.Graph")
	}
	p, err := c.id(parent)
	if err != nil {
		return err
	}
	x, err := c.id(child)
	if err != nil {
		return err
	}
	return c.atomically(ctx, true, func(ctx context.Context) error {
		child, n, _, err := c.both(ctx, x, within(p), "")
		switch {
		case err != nil:
			return err
		case !add && !holds(n.children, x):
			return fmt.Errorf("%w: %s is not a child of %s", fault.ErrNotFound, text(x), text(p))
		case !add && r.unadopted(child.raw) && same(child.parent, p):
			return r.write(ctx, append(r.anchor(child), r.unlink(p, x))...)
		case !add:
			return r.write(ctx, r.unlink(p, x))
		case holds(n.children, x):
			return nil
		}
		for _, n := range []node{n, child} {
			if err := r.placed(ctx, n); err != nil {
				return err
			}
		}
		if err := r.acyclic(ctx, x, n); err != nil {
			return err
		}
		return r.write(ctx, r.push(p, -1, x))
	})
}
