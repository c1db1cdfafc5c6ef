package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// representation is how a node holds its parent, in trees where every node names one: parentRefs, ancestorArray,
// pathShape and nestedSets, each in a file of its own. The parent is the truth, and all other fields are derived
// from it. Insert, Move, Delete, Load, Check, Repair, Adopt and Convert are written once, on these functions.
type representation interface {
	reads
	// parent is the parent that a node names, with its ID and what place reads of it. The parent of a root has no
	// ID. broken says what is wrong with the name.
	parent(n node) (up node, broken string)
	// place is what a node holds under a parent, nil for a root.
	place(parent *node) bson.D
	// below writes the nodes below x. Either x moves, and to is x in its new place; or x is deleted, and to is
	// the node that gets its children, nil if they become roots.
	below(x node, to *node) []mongo.WriteModel
	// reference is the expression for what the children of a node hold in the field that links them to it.
	reference() any
}

// reads are the ways up and down from a node, in all five representations. The IDs that pipelines take are
// bson.RawValues, or values that cannot be encoded, which the driver then refuses.
type reads interface {
	// up makes of a node the node and its ancestors, with fieldDepth (0 is the node itself); only so many
	// levels, 0 is all.
	up(levels int) mongo.Pipeline
	// above is the IDs of the ancestors, root first, or nil in a representation where a node does not tell them.
	above(n node) []bson.RawValue
	// down yields the descendants of a node, and with self the node, in no order, to a depth (0 is any).
	down(id any, depth int, self bool) mongo.Pipeline
	// under is the filter for the descendants of a node to a depth, nil where only a query of all can tell. read
	// says that it needs the node as it was read, and not only its ID.
	under(n node, depth int) (match bson.D, read bool)
}

// shape is what the calls ask of a tree. There are two: families, on a representation, and lists, which is
// ChildReferences, where nodes name their children and a node may have several parents.
type shape interface {
	reads

	// children and siblings are in order. The siblings of a root are the other roots.
	children(id any) mongo.Pipeline
	siblings(id any) mongo.Pipeline
	leaves() mongo.Pipeline
	// rootsMatch is nil where only a query can tell.
	rootsMatch() bson.D
	// childrenOf is the filter for the children of a node; read is as in under.
	childrenOf(n node) (match bson.D, read bool)

	insert(ctx context.Context, doc bson.D, pos position) error
	move(ctx context.Context, id bson.RawValue, pos position) error
	// removeOne deletes a node, and removeAll with it what is below. They return the writes that remain to be done.
	removeOne(ctx context.Context, id bson.RawValue, policy DeletePolicy) (after []mongo.WriteModel, err error)
	removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error)
	// arrange adds to the documents of a Load what they hold in their places.
	arrange(ctx context.Context, items []*item) error
	// gain is the update of a node that gets children by a Load.
	gain(children []bson.RawValue) bson.D

	// The rest is for Check, Repair, Adopt and Convert.

	// parent is that of representation; nodes of lists name none.
	parent(n node) (up node, broken string)
	// parents is the filter for the parents of nodes.
	parents(nodes []node) bson.D
	// family yields the children of nodes, siblings in order.
	family(nodes []node) mongo.Pipeline
	// fieldsOf is what a node holds under a parent, nil for a root, and above its children.
	fieldsOf(parent *node, children []node) bson.D
	// makeRoot takes a node from its parents, with all below it.
	makeRoot(n node) []mongo.WriteModel
}

// layout is the fields of a representation.
type layout struct {
	settings    []config.Setting
	fields      []string // that hold the shape
	index       []string // fields of an index besides that of link and order
	link        string   // ties parents and children
	order       string   // by which siblings are in order, "" if by none
	keepsParent bool     // link is the ParentField
	derived     string   // a node without it that has a ParentField is not adopted, "" if parents are all there is
}

// layoutOf is final once its settings are applied.
func layoutOf(kind Representation, o *Options) layout {
	switch kind {
	case ParentReferences:
		return parentLayout(o)
	case ChildReferences:
		return listsLayout(o)
	case AncestorArray:
		return ancestorsLayout(o)
	case MaterializedPath:
		return pathLayout(o)
	case NestedSets:
		return nestedLayout(o)
	}
	return layout{}
}

// core is a Tree without its type parameters: IDs are BSON values.
type core struct {
	*store
	shape
	lists   *lists   // nil but for ChildReferences
	numbers *numbers // nil but for NestedSets

	wayUp, crumbs []bson.RawValue // what sent runs
}

// core puts a representation on a store.
func (s *store) core() *core {
	c := &core{store: s}
	f := families{linked: linked{store: s}}
	switch s.kind {
	case ParentReferences:
		f.representation = parentRefs{s}
	case AncestorArray:
		f.representation = ancestorArray{s}
	case MaterializedPath:
		f.representation = pathShape{s}
	case NestedSets:
		f.representation = nestedSets{s}
		c.numbers = &numbers{f.linked}
	case ChildReferences:
		c.lists = &lists{s}
		c.shape = c.lists
		return c
	}
	f.siblingOrder = gaps{f.linked}
	if c.numbers != nil {
		f.siblingOrder = c.numbers
	}
	c.shape = f
	return c
}

// linked is what follows from where a representation says that a node is.
type linked struct {
	*store
	representation
}

// parentNode is the parent that a node names, nil for a root.
func (l linked) parentNode(n node) *node {
	if up, _ := l.parent(n); up.id.Type != 0 {
		return &up
	}
	return nil
}

// parentOf is the filter for the parent of a node, nil for a root.
func (l linked) parentOf(n node) bson.D {
	if up := l.parentNode(n); up != nil {
		return l.byID(up.id)
	}
	return nil
}

func (l linked) parents(nodes []node) bson.D {
	var ids []bson.RawValue
	for _, n := range nodes {
		if up := l.parentNode(n); up != nil {
			ids = append(ids, up.id)
		}
	}
	return l.byIDs(ids)
}

// linkTo is what the link of a node's children holds, for nil that of roots.
func (l linked) linkTo(parent *node) any { return lookup(l.place(parent), l.link) }

// childrenUnder is the filter for the children of parent, or for the roots.
func (l linked) childrenUnder(parent *node) bson.D {
	switch roots := l.rootLinks(); {
	case parent == nil && len(roots) > 1:
		return l.in(l.link, d("$in", roots))
	case parent != nil && l.keepsParent && l.noParent(parent.id): // no node has that ID
		return l.byIDs(nil)
	}
	return l.in(l.link, equal(l.linkTo(parent)))
}

// rootLinks is what the link of roots holds.
func (l linked) rootLinks() bson.A {
	if l.keepsParent {
		return l.rootParents()
	}
	return bson.A{nil}
}

func (l linked) childrenOf(n node) (match bson.D, read bool) {
	return l.childrenUnder(&n), !l.keepsParent
}

func (l linked) rootsMatch() bson.D { return append(l.childrenUnder(nil), l.adoptedLink()...) }

// adoptedLink are conditions that keep nodes that are not adopted from those whose link is null or missing.
func (l linked) adoptedLink() bson.D {
	if l.derived != l.link {
		return nil
	}
	return l.adoptedMatch()
}

// told reports whether a node tells the IDs above it. Then what is below it is derived from what it holds.
func (l linked) told() bool { return l.above(node{}) != nil }

func (l linked) children(id any) mongo.Pipeline {
	if l.keepsParent {
		match := l.in(l.link, equal(id))
		if raw, ok := id.(bson.RawValue); ok {
			match = l.childrenUnder(&node{id: raw})
		}
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, l.inOrder())
	}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", l.byID(id)),
		expr.Op("$project", d(fieldTouch, l.reference())),
		l.lookup(fieldTouch, l.link, l.inOrder()...),
	}, unfold())
}

// siblings are the other nodes that name the same parent, or none.
func (l linked) siblings(id any) mongo.Pipeline {
	var among mongo.Pipeline
	if match := l.adoptedLink(); match != nil {
		among = mongo.Pipeline{expr.Op("$match", match)}
	}
	self := mongo.Pipeline{expr.Op("$match", append(append(l.byID(id), l.except(l.link)...), l.adoptedLink()...))}
	local := l.link
	if roots := l.rootLinks(); len(roots) > 1 {
		local = fieldTouch
		link := expr.IfNull(expr.Field(l.link), nil)
		self = append(self, expr.Op("$set", d(local, expr.Cond(expr.Op("$in", link, expr.Literal(roots)), expr.Literal(roots), bson.A{link}))))
	}
	return slices.Concat(self, mongo.Pipeline{l.lookup(local, l.link, append(among, l.inOrder()...)...)},
		unfold(), mongo.Pipeline{expr.Op("$match", d(l.o.IDField, d("$ne", id)))})
}

func (l linked) leaves() mongo.Pipeline {
	switch {
	case l.o.ChildCountField != "":
		return mongo.Pipeline{l.match(l.o.ChildCountField, 0)}
	case l.keepsParent:
		return l.unreferenced(l.o.IDField, l.link)
	}
	return l.unreferenced(fieldTouch, l.link, expr.Op("$match", l.adoptedMatch()), expr.Op("$set", d(fieldTouch, l.reference())))
}

func (l linked) family(nodes []node) mongo.Pipeline {
	refs, ids := bson.A{}, bson.A{}
	for _, n := range nodes {
		if l.usable(n) == nil {
			refs, ids = append(refs, l.linkTo(&n)), append(ids, n.id)
		}
	}
	match := l.in(l.link, d("$in", refs))
	if l.derived == l.link {
		match = d("$or", bson.A{match, l.unadoptedUnder(d("$in", ids))})
	}
	return mongo.Pipeline{expr.Op("$match", match), l.sorting()}
}

func (l linked) gain(children []bson.RawValue) bson.D { return l.count(int64(len(children))) }

func (l linked) fieldsOf(parent *node, _ []node) bson.D { return l.place(parent) }

// makeRoot takes along what is below, if what is below can be told by the node.
func (l linked) makeRoot(n node) []mongo.WriteModel {
	models := []mongo.WriteModel{update(l.byID(n.id), d("$set", l.place(nil)))}
	if l.keepsParent || l.usable(n) != nil {
		return models
	}
	return append(models, l.below(n, l.child(n.id, nil))...)
}

// sound refuses a node whose fields do not tell where it is: nothing can be put under it, and it cannot move.
func (l linked) sound(n node) error {
	if err := l.adopted(n); err != nil {
		return err
	}
	if above := l.above(n); above != nil && l.keepsParent {
		last := null
		if len(above) > 0 {
			last = above[len(above)-1]
		}
		if !same(last, n.parent) {
			return fmt.Errorf("%w: %s has parent %s and %s %s, run Adopt or Repair", ErrNotAdopted,
				text(n.id), text(n.parent), l.derived, text(n.raw.Lookup(l.derived)))
		}
	}
	return l.usable(n)
}

// adopted refuses a node that nothing above it can be told of.
func (l linked) adopted(n node) error {
	if l.unadopted(n.raw) {
		return notAdopted(n.id, l.derived)
	}
	return nil
}

func (l linked) orphaned(n node) error {
	return fmt.Errorf("%w: %s, of %s", ErrNoParent, text(n.raw.Lookup(l.link)), text(n.id))
}

// acyclic refuses to put x under n, if n is x or lies under it. Paths are read as IDs of the type of x, so that
// x is found above a node whose ID has another type.
func (l linked) acyclic(ctx context.Context, x bson.RawValue, n node) error {
	like := n
	like.id = x
	above := l.above(like)
	if above == nil {
		return l.store.acyclic(ctx, l, x, n.id)
	}
	if same(n.id, x) || holds(above, x) {
		return cycle(x)
	}
	return nil
}

// relatives are the ways from nodes to others.
type relatives interface {
	reads
	parents(nodes []node) bson.D
	childrenMatch(nodes []node) bson.D
}

// acyclic reads the way up from n.
func (s *store) acyclic(ctx context.Context, r relatives, x, n bson.RawValue) error {
	var nodes []node
	var err error
	if s.byLevels.Load() {
		nodes, err = s.levels(ctx, n, r.parents)
	} else {
		nodes, err = s.aggregate(ctx, s.rootFirst(r, n))
	}
	if err != nil {
		return err
	}
	if same(n, x) || holds(idsOf(nodes), x) {
		return cycle(x)
	}
	return nil
}

// withAll reads a node and all nodes below it.
func (s *store) withAll(ctx context.Context, r relatives, id bson.RawValue) ([]node, error) {
	if s.byLevels.Load() {
		return s.levels(ctx, id, r.childrenMatch)
	}
	return s.aggregate(ctx, r.down(id, 0, true))
}

// levelMax bounds the nodes whose relatives one query asks for.
const levelMax = 10_000

// levels reads a node and what next finds of it, level by level. Sharded collections refuse $graphLookup in a
// transaction.
func (s *store) levels(ctx context.Context, id bson.RawValue, next func(nodes []node) bson.D) (all []node, err error) {
	seen := map[string]bool{}
	done := 0
	for match := s.byID(id); ; {
		found, err := s.findAll(ctx, match)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			if !seen[key(n.id)] {
				seen[key(n.id)] = true
				all = append(all, n)
			}
		}
		if done == len(all) {
			return all, nil
		}
		level := all[done:min(len(all), done+levelMax)]
		match, done = next(level), done+len(level)
	}
}

// childrenMatch is the filter for the children of nodes.
func (l linked) childrenMatch(nodes []node) bson.D {
	refs := bson.A{}
	for _, n := range nodes {
		refs = append(refs, l.linkTo(&n))
	}
	return append(l.in(l.link, d("$in", refs)), l.except(l.link)...)
}

func cycle(x bson.RawValue) error { return fmt.Errorf("%w: %s", ErrCycle, text(x)) }

func (c *core) roots() mongo.Pipeline {
	if match := c.rootsMatch(); match != nil {
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, c.inOrder())
	}
	return c.unreferenced(c.o.IDField, c.link, expr.Op("$match", c.adoptedMatch()))
}

// sortedRoots are the roots, in order and then by _id, without malformed ones. Where arrays list the children,
// those that no array lists are among them, though they may not be adopted.
func (c *core) sortedRoots() mongo.Pipeline {
	match := c.rootsMatch()
	if match == nil {
		return append(c.unreferenced(c.o.IDField, c.link), c.sorting())
	}
	return mongo.Pipeline{expr.Op("$match", append(match, c.except(c.link)...)), c.sorting()}
}

// childrenIn reads the children of nodes, siblings in order.
func (c *core) childrenIn(ctx context.Context, nodes []node) ([][]node, error) {
	var found []node
	var err error
	if c.lists != nil {
		found, err = c.lists.listed(ctx, nodes)
	} else {
		found, err = c.aggregate(ctx, c.family(nodes))
	}
	out, at, byKey := make([][]node, len(nodes)), map[string]int{}, map[string]node{}
	for i, n := range nodes {
		at[key(n.id)] = i
	}
	for _, child := range found {
		byKey[key(child.id)] = child
		up, _ := c.parent(child)
		if i, ok := at[parentKey(up)]; ok { // not of several parents in an array
			out[i] = append(out[i], child)
		}
	}
	for i, n := range nodes {
		for _, id := range n.children {
			if child, ok := byKey[key(id)]; ok {
				out[i] = append(out[i], child)
			}
		}
	}
	return out, err
}

// settle ends a call that wrote many nodes: nested sets number them.
func (c *core) settle(ctx context.Context, dry bool) (int64, error) {
	if c.numbers == nil {
		return 0, nil
	}
	return c.numbers.settle(ctx, dry)
}
