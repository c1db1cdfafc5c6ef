package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// representation says how a node stores its parent, in trees in which every node names one: parentRefs,
// ancestorArray, pathShape and nestedSets, each in its own file. All other fields are derived from the
// parent. Insert, Move, Delete, Load, Check, Repair, Adopt and Convert are written once, on these
// functions.
type representation interface {
	reads
	// parent returns the parent that a node names, with its ID and the fields that place reads. The parent
	// of a root has no ID. broken describes a reference that is not valid.
	parent(n node) (up node, broken string)
	// place returns the tree fields of a node under a parent, nil for a root.
	place(parent *node) bson.D
	// below returns the writes to the nodes below x. Either x moves, and to is x in its new place; or x is deleted,
	// and to is the node that gets its children, nil if they become roots.
	below(x node, to *node) []mongo.WriteModel
	// reference is an expression for the value that the children of a node hold to name it.
	reference() any
}

// reads are the ways up and down from a node, in all five representations. The IDs that pipelines take are
// bson.RawValues, or values that cannot be encoded, which the driver refuses when the pipeline runs.
type reads interface {
	// up are the stages that turn a node into the node and its ancestors, in no order, with their distance in
	// fieldDepth: 0 for the node itself. levels is the number of ancestors, 0 means all.
	up(levels int) mongo.Pipeline
	// above returns the IDs of the ancestors, root first, or nil in a representation in which nodes do not
	// contain them: above(node{}) tells which it is.
	above(n node) []bson.RawValue
	// down yields the descendants of a node in no order, and with self the node too. depth is the number of
	// levels, 0 means all.
	down(id any, depth int, self bool) mongo.Pipeline
	// under returns the filter for the descendants of a node to a depth, nil if they can only be found by a
	// query. read says that the filter needs the stored node, and not only its ID.
	under(n node, depth int) (match bson.D, read bool)
}

// shape has the operations of a tree that the calls use. It has two implementations: families, on a
// representation, and lists, for ChildReferences, where nodes name their children and a node may have
// several parents.
type shape interface {
	reads

	// children and siblings are in order. The siblings of a root are the other roots.
	children(id any) mongo.Pipeline
	siblings(id any) mongo.Pipeline
	leaves() mongo.Pipeline
	// rootsMatch is the filter for the roots, nil if they can only be found by a query.
	rootsMatch() bson.D
	// childrenOf is the filter for the children of a node; read is as in under.
	childrenOf(n node) (match bson.D, read bool)

	insert(ctx context.Context, doc bson.D, pos position) error
	move(ctx context.Context, id bson.RawValue, pos position) error
	// removeOne deletes a node, and removeAll a node with all below it. They return the writes to other nodes, which
	// the caller sends as one command.
	removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) (after []mongo.WriteModel, err error)
	removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error)
	// arrange adds the tree fields to the documents of a Load.
	arrange(ctx context.Context, items []*item) error
	// gain is the update of an existing node that gets children by a Load.
	gain(children []bson.RawValue) bson.D

	// The rest is for Check, Repair, Adopt and Convert.

	// parent is that of representation. In ChildReferences no node names a parent.
	parent(n node) (up node, broken string)
	// parents is the filter for the parents of nodes.
	parents(nodes []node) bson.D
	// family yields the children of nodes, siblings in order.
	family(nodes []node) mongo.Pipeline
	// fieldsOf returns the tree fields of a node with this parent, nil for a root, and these children.
	fieldsOf(parent *node, children []node) bson.D
	// makeRoot returns the writes that make a root of a node and keep all below it there.
	makeRoot(n node) []mongo.WriteModel
}

// layout are the fields of a representation, from which the reads and writes that all have in common are made.
type layout struct {
	settings    []config.Setting
	fields      []string // the fields that hold the shape; Insert overwrites them
	index       []string // an index besides {link, order}
	link        string   // the field that names the parent, or the children
	order       string   // the field that orders siblings, "" if they are not ordered
	keepsParent bool     // link is the ParentField
	derived     string   // a node that names a parent and lacks this field is not adopted; "" if nothing is derived
}

// layoutOf returns the layout of a representation. Applying its settings fills in default names in o, so it has to
// be called again after that.
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
	lists   *lists   // nil except in ChildReferences
	numbers *numbers // nil except in NestedSets

	wayUp, crumbs []bson.RawValue // the encoded stages for sent
}

// core combines a store with its representation and its order of siblings.
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

// linked has the functions that follow from a representation and its layout alone, the same in all four.
type linked struct {
	*store
	representation
}

// parentNode returns the parent that a node names, nil for a root. It need not exist.
func (l linked) parentNode(n node) *node {
	if up, _ := l.parent(n); l.isParent(up) {
		return &up
	}
	return nil
}

// byRefs is the filter for nodes as parent returns them: with an ID, or, where a path of segments names them, with
// a path and a segment. Those of one path share a condition, because they may be the parents of many nodes.
func (l linked) byRefs(ups ...node) bson.D {
	ids, segments := []bson.RawValue{}, map[string][]bson.RawValue{}
	for _, up := range ups {
		if up.id.Type != 0 {
			ids = append(ids, up.id)
		} else {
			segments[up.path] = append(segments[up.path], up.segment)
		}
	}
	var any bson.A
	for _, path := range slices.Sorted(maps.Keys(segments)) {
		paths := bson.A{path}
		if path == l.o.PathDelimiter {
			paths = l.rootLinks()
		}
		match := l.in(l.link, expr.Op("$in", paths), l.o.SegmentField, expr.Op("$in", segments[path]))
		any = append(any, append(match, l.adoptedMatch()...))
	}
	if len(ids) > 0 || len(any) == 0 {
		any = append(any, l.byIDs(ids))
	}
	if len(any) == 1 {
		return any[0].(bson.D)
	}
	return expr.Op("$or", any)
}

// parentOf is the filter for the parent of a node, nil for a root.
func (l linked) parentOf(n node) bson.D {
	if up := l.parentNode(n); up != nil {
		return l.byRefs(*up)
	}
	return nil
}

// parents matches nothing if all nodes are roots.
func (l linked) parents(nodes []node) bson.D {
	var ups []node
	for _, n := range nodes {
		if up := l.parentNode(n); up != nil {
			ups = append(ups, *up)
		}
	}
	return l.byRefs(ups...)
}

// linkTo is the value of link in the children of parent, or in the roots for nil.
func (l linked) linkTo(parent *node) any { return lookup(l.place(parent), l.link) }

// childrenUnder is the filter for the children of parent, or for the roots if parent is nil.
func (l linked) childrenUnder(parent *node) bson.D {
	switch roots := l.rootLinks(); {
	case parent == nil && len(roots) > 1:
		return l.in(l.link, expr.Op("$in", roots))
	case parent != nil && l.keepsParent && l.noParent(parent.id): // not a node: this would match the roots
		return l.byIDs(nil)
	}
	return l.in(l.link, equal(l.linkTo(parent)))
}

// rootLinks are the values that link can have in a root.
func (l linked) rootLinks() bson.A {
	if l.keepsParent {
		return l.rootParents()
	}
	if l.o.SegmentField != "" {
		return bson.A{nil, l.rootPath()}
	}
	return bson.A{nil}
}

func (l linked) childrenOf(n node) (match bson.D, read bool) {
	return l.childrenUnder(&n), !l.keepsParent
}

func (l linked) rootsMatch() bson.D { return append(l.childrenUnder(nil), l.adoptedLink()...) }

// adoptedLink are the conditions that tell roots from nodes that are not adopted, where both may lack the link.
func (l linked) adoptedLink() bson.D {
	if l.derived != l.link {
		return nil
	}
	return l.adoptedMatch()
}

// told reports whether a node contains its ancestors. Then the fields of its children are computed from its own,
// which have to be right: see sound.
func (l linked) told() bool { return l.above(node{}) != nil || l.o.SegmentField != "" }

// children by a path need the node first, because its path and segment make the path of its children.
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
		expr.Op("$project", expr.D(fieldTouch, l.reference())),
		l.lookup(fieldTouch, l.link, l.inOrder()...),
	}, unfold())
}

// siblings are the other nodes that name the same parent, or the other roots. Roots may name it by several values,
// which all match then.
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
		self = append(self, expr.Op("$set", expr.D(local, expr.Cond(expr.Op("$in", link, expr.Literal(roots)), expr.Literal(roots), bson.A{link}))))
	}
	return slices.Concat(self, mongo.Pipeline{l.lookup(local, l.link, append(among, l.inOrder()...)...)},
		unfold(), mongo.Pipeline{expr.Op("$match", expr.D(l.o.IDField, expr.Op("$ne", id)))})
}

// leaves looks for children of every node unless there are counters.
func (l linked) leaves() mongo.Pipeline {
	switch {
	case l.o.ChildCountField != "":
		return mongo.Pipeline{l.match(l.o.ChildCountField, 0)}
	case l.keepsParent:
		return l.unreferenced(l.o.IDField, l.link)
	}
	return l.unreferenced(fieldTouch, l.link, expr.Op("$match", l.adoptedMatch()), expr.Op("$set", expr.D(fieldTouch, l.reference())))
}

// family also finds the children that are not adopted, where only the parent field names them.
func (l linked) family(nodes []node) mongo.Pipeline {
	refs, ids := bson.A{}, bson.A{}
	for _, n := range nodes {
		if l.usable(n) == nil {
			refs, ids = append(refs, l.linkTo(&n)), append(ids, n.id)
		}
	}
	match := l.in(l.link, anyOf(refs))
	if l.derived == l.link {
		match = expr.Op("$or", bson.A{match, l.unadoptedUnder(anyOf(ids))})
	}
	return mongo.Pipeline{expr.Op("$match", match), l.sorting()}
}

// gain changes the counter only, because it is the children that name the parent.
func (l linked) gain(children []bson.RawValue) bson.D { return l.count(int64(len(children))) }

func (l linked) fieldsOf(parent *node, _ []node) bson.D { return l.place(parent) }

// makeRoot leaves the nodes below to Repair where they name their parent by its ID. In a path they name the whole
// way, and would be orphans.
func (l linked) makeRoot(n node) []mongo.WriteModel {
	models := []mongo.WriteModel{update(l.byID(n.id), expr.Op("$set", l.place(nil)))}
	if l.keepsParent || l.usable(n) != nil {
		return models
	}
	return append(models, l.below(n, l.child(n, nil))...)
}

// sound refuses a node if its fields do not tell where it is, or contradict each other. The fields of a node under
// it would be wrong as well, and a move could close a cycle.
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
			return l.about(n.id, fmt.Errorf("%w: the parent is %s and %s is %s, run Adopt or Repair", mongopatterns.ErrNotAdopted,
				text(n.parent), l.derived, text(n.raw.Lookup(l.derived))))
		}
	}
	return l.usable(n)
}

// adopted refuses a node that is not adopted.
func (l linked) adopted(n node) error {
	if l.unadopted(n.raw) {
		return l.notAdopted(n.id)
	}
	return nil
}

// orphaned is the error for a node that names a parent that does not exist.
func (l linked) orphaned(n node) error {
	return l.about(n.id, fmt.Errorf("%w: %s", mongopatterns.ErrNoParent, text(n.raw.Lookup(l.link))))
}

// acyclic refuses to put x under n if n is x or lies below x. It reads only where n does not contain its ancestors.
// Segments of a path are decoded to the type of x's ID, so that x is found above a node with an ID of another type.
func (l linked) acyclic(ctx context.Context, x, n node) error {
	like := n
	like.id = x.id
	above := l.above(like)
	below := same(n.id, x.id) || holds(above, x.id)
	switch {
	case l.o.SegmentField != "":
		below = strings.HasPrefix(l.full(n), l.full(x))
	case above == nil:
		return l.store.acyclic(ctx, l, x.id, n.id)
	}
	if below {
		return l.about(x.id, ErrCycle)
	}
	return nil
}

// relatives are the two ways to read upwards: by a pipeline, and level by level.
type relatives interface {
	reads
	parents(nodes []node) bson.D
}

// acyclic reads the way up from n. The caller holds the lock, so that no other move can change it.
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
		return s.about(x, ErrCycle)
	}
	return nil
}

// withAll reads a node and all nodes below it, by p or, where the server refuses that, level by level with next.
func (s *store) withAll(ctx context.Context, id bson.RawValue, p mongo.Pipeline, next func(nodes []node) bson.D) ([]node, error) {
	if s.byLevels.Load() {
		return s.levels(ctx, id, next)
	}
	return s.aggregate(ctx, p)
}

// levelMax bounds the nodes in the filter of one query.
const levelMax = 10_000

// levels reads a node, then the nodes that next matches for it, and so on, each node once. It replaces
// $graphLookup, which a sharded collection refuses in a transaction.
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
	return append(l.in(l.link, anyOf(refs)), l.except(l.link)...)
}

// roots of ChildReferences are the nodes that no array lists, and which are adopted.
func (c *core) roots() mongo.Pipeline {
	if match := c.rootsMatch(); match != nil {
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, c.inOrder())
	}
	return c.unreferenced(c.o.IDField, c.link, expr.Op("$match", c.adoptedMatch()))
}

// sortedRoots are the roots in order, and then by _id, for Dump and Check. In ChildReferences they include nodes that
// are not adopted, which Dump refuses.
func (c *core) sortedRoots() mongo.Pipeline {
	match := c.rootsMatch()
	if match == nil {
		return append(c.unreferenced(c.o.IDField, c.link), c.sorting())
	}
	return mongo.Pipeline{expr.Op("$match", append(match, c.except(c.link)...)), c.sorting()}
}

// childrenIn reads the children of nodes in one query, and returns them by node, siblings in order.
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
		if c.o.SegmentField != "" {
			at[c.refKey(n)] = i
		}
	}
	for _, child := range found {
		byKey[key(child.id)] = child
		up, _ := c.parent(child)
		if i, ok := at[c.refKey(up)]; ok { // not if the parent is an array, which matches by its elements
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

// renumber ends a call that wrote many nodes. In NestedSets it numbers them, and returns how many it wrote.
func (c *core) renumber(ctx context.Context, dry bool) (int64, error) {
	if c.numbers == nil {
		return 0, nil
	}
	return c.numbers.renumber(ctx, dry)
}
