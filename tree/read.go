package tree

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// All representations treat an ID that does not exist in the same way: reads of the nodes beside or below
// it yield nothing, and reads of the node itself or of those above it return ErrNotFound.
//
// A maxDepth is the number of levels below the node that are read: 1 means its children, 0 all levels.
// With a negative one a pipeline yields nothing, and other calls return ErrInvalid.

// Crumb is one step of a breadcrumb.
type Crumb[ID any] struct {
	ID ID `json:"id"`
	// Name is the value of Options.NameField, "" if the document lacks it.
	Name string `json:"name"`
}

// Node is a document with the subtrees of its children, in order.
type Node[T any] struct {
	Value    T          `json:"value"`
	Children []*Node[T] `json:"children,omitempty"`
}

// Filter matches one node, for reads and updates of your own fields with the driver.
func (t *Tree[ID, T]) Filter(id ID) bson.D {
	return t.c.coll.Scope().Match(t.c.idMatch(t.raw(id)))
}

// raw encodes an ID for a filter or pipeline. It passes on a value that cannot be encoded, which the driver
// refuses, and replaces a value that cannot be an ID by one that no node has.
func (t *Tree[ID, T]) raw(id ID) any {
	v, err := t.c.codec.Compared(id)
	if err != nil {
		return codec.Refused{Reason: err}
	}
	if value.CheckID(v) != nil {
		return bson.RawValue{Type: bson.TypeMinKey}
	}
	return v
}

// decode returns the ID of a stored node. One that ID cannot hold is an error: as another value it would name another
// node.
func (t *Tree[ID, T]) decode(raw bson.RawValue) (ID, error) {
	id, err := codec.DecodeID[ID](t.c.codec, raw)
	if err != nil {
		return id, t.c.about(raw, err)
	}
	return id, nil
}

// ChildrenPipeline yields the children of a node in order.
func (t *Tree[ID, T]) ChildrenPipeline(id ID) mongo.Pipeline {
	return t.c.coll.Scope().Stages(t.c.children(t.raw(id)))
}

// AncestorsPipeline yields the ancestors of a node, root first.
func (t *Tree[ID, T]) AncestorsPipeline(id ID) mongo.Pipeline {
	up := withoutDepth(t.c.rootFirst(t.c, t.raw(id)), expr.Op("$match", expr.D(fieldDepth, expr.Op("$gt", 0))))
	return t.c.coll.Scope().Stages(up)
}

// DescendantsPipeline yields the descendants of a node in no particular order. In ChildReferences it omits
// a node whose list contains a regular expression, which Check reports, and the nodes below it. For the
// leaves of a subtree append LeavesPipeline. A maxDepth of 0 means all levels, a negative one none.
func (t *Tree[ID, T]) DescendantsPipeline(id ID, maxDepth int) mongo.Pipeline {
	return t.c.coll.Scope().Stages(t.c.downTo(t.raw(id), maxDepth, false))
}

// SubtreePipeline yields a node and its descendants in no particular order, such as a category and those below it before
// your $lookup of their products. A maxDepth of 0 means all levels; with a negative one it yields nothing.
func (t *Tree[ID, T]) SubtreePipeline(id ID, maxDepth int) mongo.Pipeline {
	return t.c.coll.Scope().Stages(t.c.downTo(t.raw(id), maxDepth, true))
}

// downTo is down for a pipeline. A negative depth, as of a computation that went below 0, does not become all levels.
func (c *core) downTo(id any, depth int, self bool) mongo.Pipeline {
	if depth < 0 {
		return mongo.Pipeline{expr.Op("$match", expr.Op("$nor", bson.A{bson.D{}}))}
	}
	return c.down(id, depth, self)
}

// RootsPipeline yields the nodes without parent, in order if the tree orders them.
func (t *Tree[ID, T]) RootsPipeline() mongo.Pipeline { return t.c.coll.Scope().Stages(t.c.roots()) }

// LeavesPipeline yields the nodes without children. Behind another pipeline it keeps those of its nodes that are leaves.
func (t *Tree[ID, T]) LeavesPipeline() mongo.Pipeline { return t.c.coll.Scope().Stages(t.c.leaves()) }

// breadcrumb yields the ancestors, root first, and the node itself: {id, name, bare}.
func (c *core) breadcrumb(id any) mongo.Pipeline {
	own, name := expr.Field(c.o.IDField), expr.Field(cmp.Or(c.o.NameField, c.segmentField()))
	return append(c.rootFirst(c, id), expr.Op("$project", expr.D("_id", 0, "id", own, "name", name, "bare", c.bareExpr())))
}

// rootFirst yields a node and its ancestors with fieldDepth, the node last. It contains the node, so that an empty
// result means that there is no such node.
func (s *store) rootFirst(r reads, id any) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", s.idMatch(id))}, r.up(0),
		mongo.Pipeline{expr.Op("$sort", expr.D(fieldDepth, -1))})
}

// withoutDepth appends stages that use fieldDepth, and removes the field.
func withoutDepth(p mongo.Pipeline, more ...bson.D) mongo.Pipeline {
	return append(append(p, more...), expr.Op("$unset", fieldDepth))
}

func (c *core) parentsPipeline(id any) mongo.Pipeline {
	p := slices.Concat(mongo.Pipeline{expr.Op("$match", c.idMatch(id))}, c.up(1))
	return withoutDepth(p, expr.Op("$match", expr.D(fieldDepth, 1)))
}

// each yields the documents of a pipeline that starts from an ID. The error of an ID that cannot be encoded comes with
// the first iteration.
func (t *Tree[ID, T]) each(ctx context.Context, call string, id ID, pipeline func(id any) mongo.Pipeline) iter.Seq2[T, error] {
	raw, err := t.c.id(id)
	if err != nil {
		return fault.Seq(call, fault.Stop[T](err))
	}
	return t.all(ctx, call, pipeline(raw))
}

// all yields the documents of a pipeline. Its command and its errors name the call.
func (t *Tree[ID, T]) all(ctx context.Context, call string, p mongo.Pipeline) iter.Seq2[T, error] {
	return fault.Seq(call, cursor.Decode[T](comment.Call(ctx, call), opening(t.c.coll, p)))
}

// Children yields the children of a node, in order if the tree orders siblings.
//
// Cost: 1 round trip, a key of the parent or path index for each child; child references read each by ID.
func (t *Tree[ID, T]) Children(ctx context.Context, id ID) iter.Seq2[T, error] {
	return t.each(ctx, "tree.Children", id, t.c.children)
}

// Siblings yields the other children of a node's parent, and for a root the other roots.
//
// Cost: 1 round trip, index as Children. A root, or a single child, of ChildReferences: 1 more, and every node
// is examined for a root.
func (t *Tree[ID, T]) Siblings(ctx context.Context, id ID) iter.Seq2[T, error] {
	found := t.each(ctx, "tree.Siblings", id, t.c.siblings)
	l, ok := t.c.shape.(*lists)
	if !ok {
		return found
	}
	return func(yield func(T, error) bool) {
		some := false
		for v, err := range found {
			some = true
			if !yield(v, err) || err != nil {
				return
			}
		}
		if !some {
			t.each(ctx, "tree.Siblings", id, l.otherRoots)(yield)
		}
	}
}

// Roots yields the nodes without parent, in order if the tree orders them, which ChildReferences do not.
//
// Cost: 1 round trip, a key of the parent or path index for each root; child references examine every node.
func (t *Tree[ID, T]) Roots(ctx context.Context) iter.Seq2[T, error] {
	return t.all(ctx, "tree.Roots", t.c.roots())
}

// Leaves yields the nodes without children.
//
// Cost: 1 round trip, every node is examined.
func (t *Tree[ID, T]) Leaves(ctx context.Context) iter.Seq2[T, error] {
	return t.all(ctx, "tree.Leaves", t.c.leaves())
}

// Descendants yields the nodes below a node in no particular order. For an order see Preorder.
//
// Cost: 1 round trip for 101 nodes, then 1 for each 16 MB; a key for each descendant.
//   - AncestorArray streams from the first on. The keys are those of the ancestors, path or left index.
//   - ParentReferences and ChildReferences: of the parent or ID index, level by level in one $graphLookup (100 MB at
//     most), which is complete before the first node comes.
func (t *Tree[ID, T]) Descendants(ctx context.Context, id ID, maxDepth int) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "tree.Descendants")
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return fault.Seq("tree.Descendants", fault.Stop[T](err))
	}
	return fault.Seq("tree.Descendants", cursor.Decode[T](ctx, open(t.c.coll, t.c.down(raw, maxDepth, false), 0)))
}

// downFrom checks the arguments of a read below a node, and encodes the ID.
func (c *core) downFrom(id any, maxDepth int) (bson.RawValue, error) {
	if maxDepth < 0 {
		return value.Null, fault.Invalid("maxDepth: negative")
	}
	return c.id(id)
}

// Preorder yields the nodes below a node, each followed by the nodes below it. Siblings are in order if the
// tree orders them. Preorder holds the subtree in memory. In a graph a node comes once under each parent.
//
// Cost: as Subtree.
func (t *Tree[ID, T]) Preorder(ctx context.Context, id ID, maxDepth int) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "tree.Preorder")
	return fault.Seq("tree.Preorder", func(yield func(T, error) bool) {
		root, _, err := t.subtree(ctx, id, maxDepth)
		if err != nil {
			fault.Stop[T](err)(yield)
			return
		}
		var visit func(n *Node[T]) bool
		visit = func(n *Node[T]) bool {
			for _, child := range n.Children {
				if !yield(child.Value, nil) || !visit(child) {
					return false
				}
			}
			return true
		}
		if root != nil {
			visit(root)
		}
	})
}

// Ancestors returns the nodes above a node, root first.
//
// Cost: 1 round trip, each ancestor by ID, in child references by the children index, with a SegmentField by that.
func (t *Tree[ID, T]) Ancestors(ctx context.Context, id ID) (nodes []T, err error) {
	ctx = comment.Call(ctx, "tree.Ancestors")
	defer fault.In(&err, "tree.Ancestors")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	bare := false // of the node itself, which comes last
	all, err := readUp(ctx, t.c.runFrom(raw, t.c.ancestors), func(cur *mongo.Cursor) (v T, err error) {
		bare = t.c.isBare(cur.Current)
		return v, cursor.Into(cur, &v)
	})
	if err != nil {
		return nil, err
	}
	return all[:len(all)-1], t.c.checkWay(ctx, raw, len(all), bare)
}

// encodeStages encodes the stages of a pipeline after the first, which names the node. runFrom puts that in front
// again.
func encodeStages(p mongo.Pipeline) []bson.RawValue {
	stages := make([]bson.RawValue, len(p)-1)
	for i := range stages {
		stages[i], _ = expr.Fixed(p[i+1]).(bson.RawValue)
	}
	return stages
}

// runFrom runs encoded stages from one node on. New encodes them once, because encoding them for each call would
// double the client's work.
func (c *core) runFrom(id bson.RawValue, stages []bson.RawValue) wayUp {
	b := codec.Build(1024)
	b.Open("0")
	b.Open("$match")
	b.Value(c.o.IDField, id)
	b.Close()
	b.Close()
	for i, stage := range stages {
		b.Value(strconv.Itoa(i+1), stage)
	}
	p := expr.Stages(b.Done())
	return wayUp{c.store, id, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, p, options.Aggregate().SetBatchSize(math.MaxInt32))
	}}
}

// wayUp is a read of a node and its ancestors.
type wayUp struct {
	*store
	id   bson.RawValue
	open opener
}

// readUp reads a way up. If it is empty, there is no such node.
func readUp[V any](ctx context.Context, w wayUp, read func(cur *mongo.Cursor) (V, error)) (all []V, err error) {
	for cur, err := range cursor.Each(ctx, w.open) {
		if err != nil {
			return nil, err
		}
		v, err := read(cur)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, w.missing(w.id)
	}
	return all, nil
}

// Parent returns the parent of a node. It returns ErrIsRoot for a root and ErrNoParent for an orphan. If a
// node of a graph has several parents, it returns one of them; Parents yields all.
//
// Cost: 1 round trip, index as Ancestors.
func (t *Tree[ID, T]) Parent(ctx context.Context, id ID) (parent T, err error) {
	ctx = comment.Call(ctx, "tree.Parent")
	defer fault.In(&err, "tree.Parent")
	var none T
	var x node
	raw, err := t.c.id(id)
	if err != nil {
		return none, err
	}
	p := slices.Concat(mongo.Pipeline{expr.Op("$match", t.c.idMatch(raw))}, t.c.up(1))
	p = withoutDepth(p, expr.Op("$sort", expr.D(fieldDepth, -1)))
	all, err := readUp(ctx, wayUp{t.c.store, raw, opening(t.c.coll, p)}, func(cur *mongo.Cursor) (v T, err error) {
		x = t.c.parse(slices.Clone(cur.Current)) // at last the node itself
		return v, cursor.Into(cur, &v)
	})
	if err != nil {
		return none, err
	}
	if err := t.c.checkWay(ctx, raw, len(all), t.c.isBare(x.raw)); err != nil {
		return none, err
	}
	if len(all) > 1 {
		return all[0], nil
	}
	if up, broken := t.c.parent(x); t.c.isParent(up) || broken != "" {
		return none, t.c.about(x.id, mongopatterns.ErrNoParent)
	}
	return none, t.c.about(x.id, ErrIsRoot)
}

// Parents yields all parents of a node: in a graph any number, in a tree at most one.
//
// Cost: 1 round trip, index as Ancestors.
func (t *Tree[ID, T]) Parents(ctx context.Context, id ID) iter.Seq2[T, error] {
	return t.each(ctx, "tree.Parents", id, t.c.parentsPipeline)
}

// readNode reads the tree fields of one node with the user's read preference. If the node does not exist, it returns a
// node without raw.
func (c *core) readNode(ctx context.Context, id bson.RawValue) (node, error) {
	return c.one(c.coll.FindOne(ctx, c.idMatch(id), options.FindOne().SetProjection(c.shown)), nil)
}

// ancestry returns the IDs of the ancestors of a node, root first. It reads only the node if the node contains them.
func (c *core) ancestry(ctx context.Context, id any) (ids []bson.RawValue, err error) {
	raw, err := c.id(id)
	if err != nil {
		return nil, err
	}
	if !c.tellsAncestors() {
		return c.ancestryByWay(ctx, raw)
	}
	n, err := c.readNode(ctx, raw)
	if err != nil {
		return nil, err
	}
	if n.raw == nil {
		return nil, c.missing(raw)
	}
	return c.above(n, n.id), c.checkWay(ctx, raw, 1, c.isBare(n.raw))
}

// ancestryByWay is ancestry where the node does not contain its ancestors.
func (c *core) ancestryByWay(ctx context.Context, id bson.RawValue) (ids []bson.RawValue, err error) {
	bare := false // of the node itself, which comes last
	ids, err = readUp(ctx, c.runFrom(id, c.crumbs), func(cur *mongo.Cursor) (bson.RawValue, error) {
		doc := slices.Clone(cur.Current)
		bare = doc.Lookup("bare").Boolean()
		return doc.Lookup("id"), nil
	})
	if err != nil {
		return nil, err
	}
	return ids[:len(ids)-1], c.checkWay(ctx, id, len(ids), bare)
}

// IsDescendant reports whether id lies below ancestor. An unknown ancestor has no descendants.
//
// Cost: 1 round trip. AncestorArray and MaterializedPath (of IDs) read the node alone, the others as Ancestors.
func (t *Tree[ID, T]) IsDescendant(ctx context.Context, id, ancestor ID) (below bool, err error) {
	ctx = comment.Call(ctx, "tree.IsDescendant")
	defer fault.In(&err, "tree.IsDescendant")
	other, err := t.c.id(ancestor)
	if err != nil {
		return false, err
	}
	ids, err := t.c.ancestry(ctx, id)
	if err != nil {
		return false, err
	}
	return holds(ids, other), nil
}

// Breadcrumb returns the nodes from the root to a node, the node last, with their names
// (Options.NameField). If one of them has an ID that the type ID cannot hold, such as a string of hex digits among
// ObjectIDs, it returns mongopatterns.ErrMalformed.
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[ID, T]) Breadcrumb(ctx context.Context, id ID) (crumbs []Crumb[ID], err error) {
	ctx = comment.Call(ctx, "tree.Breadcrumb")
	defer fault.In(&err, "tree.Breadcrumb")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	bare := false
	all, err := readUp(ctx, t.c.runFrom(raw, t.c.crumbs), func(cur *mongo.Cursor) (crumb Crumb[ID], err error) {
		bare = cur.Current.Lookup("bare").Boolean()
		name := cur.Current.Lookup("name")
		if crumb.Name, err = segmentString(name); err != nil && !isNull(name) {
			crumb.Name = text(name)
		}
		crumb.ID, err = t.decode(cur.Current.Lookup("id"))
		return crumb, err
	})
	if err != nil {
		return nil, err
	}
	if err := t.c.checkWay(ctx, raw, len(all), bare); err != nil {
		return nil, err
	}
	return all, nil
}

// Subtree returns a node with everything below it, as one nested value. Children are in order if the tree
// orders them. Outside a transaction it may mix two states of the tree, and then omits a node whose
// parent is not in the result. It cuts a cycle where it closes.
//
// Cost: 1 round trip for each 16 MB; keys as Descendants.
func (t *Tree[ID, T]) Subtree(ctx context.Context, id ID, maxDepth int) (root *Node[T], err error) {
	ctx = comment.Call(ctx, "tree.Subtree")
	defer fault.In(&err, "tree.Subtree")
	root, raw, err := t.subtree(ctx, id, maxDepth)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, t.c.missing(raw)
	}
	return root, nil
}

// subtree returns the node with all below it, nil if there is no such node, and the encoded ID.
func (t *Tree[ID, T]) subtree(ctx context.Context, id ID, maxDepth int) (*Node[T], bson.RawValue, error) {
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return nil, raw, err
	}
	all, err := t.nest(ctx, t.c.down(raw, maxDepth, true), key(raw))
	if err != nil {
		return nil, raw, err
	}
	at := slices.IndexFunc(all.pieces, func(n piece) bool { return n.id == key(raw) })
	if at < 0 {
		return nil, raw, nil
	}
	top := all.pieces[at]
	if top.bare { // in ChildReferences its parent may list it
		if err := t.c.checkWay(ctx, raw, 1, true); err != nil {
			return nil, raw, err
		}
	}
	root := all.nodes[top.at]
	if all.several || top.child { // otherwise there is no cycle
		root.cutCycles(map[*Node[T]]bool{})
	}
	return root, raw, nil
}

// cutCycles cuts a cycle in damaged data where it closes, because otherwise a walk through the nested value
// would never end.
func (n *Node[T]) cutCycles(above map[*Node[T]]bool) {
	above[n] = true
	n.Children = slices.DeleteFunc(n.Children, func(child *Node[T]) bool {
		closes, seen := above[child]
		if !seen {
			child.cutCycles(above)
		}
		return closes
	})
	above[n] = false
}

// Forest returns all nodes of the tree as nested values, one for each root. It omits nodes that cannot be
// reached from a root.
//
// Cost: 1 round trip for each 16 MB; it reads every document of the tree.
func (t *Tree[ID, T]) Forest(ctx context.Context) (roots []*Node[T], err error) {
	ctx = comment.Call(ctx, "tree.Forest")
	defer fault.In(&err, "tree.Forest")
	all, err := t.nest(ctx, mongo.Pipeline{expr.Op("$match", t.c.nodesMatch())}, "")
	if err != nil {
		return nil, err
	}
	above := map[*Node[T]]bool{}
	for _, n := range all.pieces {
		if !n.root || n.child {
			continue
		}
		root := all.nodes[n.at]
		if all.several {
			root.cutCycles(above)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// nested is documents that were read and nested.
type nested[T any] struct {
	pieces  []piece // at is the offset in nodes
	nodes   []*Node[T]
	several bool // a node has more than one parent, so that there may be a cycle
}

// nest reads documents and nests them. It takes the node with the key root once, although a cycle yields it twice.
func (t *Tree[ID, T]) nest(ctx context.Context, p mongo.Pipeline, root string) (all nested[T], err error) {
	found := false
	for cur, err := range cursor.Each(ctx, opening(t.c.coll, p)) {
		if err != nil {
			return nested[T]{}, err
		}
		n := &Node[T]{}
		if err := cursor.Into(cur, &n.Value); err != nil {
			return nested[T]{}, err
		}
		x := t.c.parse(cur.Current)
		up, broken := t.c.parent(x)
		its := t.c.pieceOf(x, up, broken, len(all.nodes))
		if its.id == root && found {
			continue
		}
		found = found || its.id == root
		all.pieces, all.nodes = append(all.pieces, its), append(all.nodes, n)
	}
	joined := make([]bool, len(all.nodes))
	t.c.assemble(all.pieces, func(parent, child int) {
		all.several, joined[child] = all.several || joined[child], true
		all.nodes[parent].Children = append(all.nodes[parent].Children, all.nodes[child])
	})
	return all, nil
}

// CountDescendants returns the number of nodes below a node, down to maxDepth levels; 0 means all. To count the children,
// CountDocuments with the ChildrenFilter examines no others.
//
// Cost: 1 round trip, index and keys as Descendants. Nested sets without a maxDepth read only the node.
func (t *Tree[ID, T]) CountDescendants(ctx context.Context, id ID, maxDepth int) (n int64, err error) {
	ctx = comment.Call(ctx, "tree.CountDescendants")
	defer fault.In(&err, "tree.CountDescendants")
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return 0, err
	}
	if t.c.numbered && maxDepth == 0 {
		x, err := t.c.readNode(ctx, raw)
		return x.width(), err
	}
	return t.c.total(ctx, t.c.down(raw, maxDepth, false))
}

// total counts the documents of a pipeline.
func (c *core) total(ctx context.Context, p mongo.Pipeline) (n int64, err error) {
	for row, err := range cursor.Docs(ctx, opening(c.coll, append(p, expr.Op("$count", "n")))) {
		return integer(row.Lookup("n")), err
	}
	return 0, nil
}

// The filters are for Find, Count, paging and $match. A filter that depends on other documents reads them
// first, and so shows the tree at that moment. The filter for an unknown ID matches nothing, except that
// AncestorsFilter returns ErrNotFound.

// ChildrenFilter matches the children of a node.
//
// Cost: none. MaterializedPath and ChildReferences: 1 round trip, the node by ID.
func (t *Tree[ID, T]) ChildrenFilter(ctx context.Context, id ID) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.ChildrenFilter")
	defer fault.In(&err, "tree.ChildrenFilter")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	return t.c.filter(ctx, raw, t.c.childrenFrom, t.c.childrenMatch)
}

// filter makes a filter for the caller from a node, which it reads unless the ID is enough. The filter for an unknown ID
// matches nothing.
func (c *core) filter(ctx context.Context, id bson.RawValue, from source, of func(n node) bson.D) (bson.D, error) {
	if from == fromID {
		return c.coll.Scope().Match(of(node{id: id})), nil
	}
	n, err := c.readNode(ctx, id)
	if err != nil {
		return nil, err
	}
	if n.raw == nil {
		return c.coll.Scope().Match(c.idsMatch(nil)), nil
	}
	if err := c.checkAdopted(ctx, n); err != nil {
		return nil, err
	}
	return c.coll.Scope().Match(of(n)), c.checkUsable(n)
}

// DescendantsFilter matches the nodes below a node.
//
// For paging use AncestorArray or MaterializedPath, because the filters of the others change with the
// tree, and a paging token is only valid for its filter.
//
// Cost: none for AncestorArray.
//   - The others: 1 round trip; MaterializedPath and NestedSets without a maxDepth read the node, the others the IDs
//     of all descendants into the filter.
func (t *Tree[ID, T]) DescendantsFilter(ctx context.Context, id ID, maxDepth int) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.DescendantsFilter")
	defer fault.In(&err, "tree.DescendantsFilter")
	raw, err := t.c.downFrom(id, maxDepth)
	if err != nil {
		return nil, err
	}
	from := t.c.descendantsSource(maxDepth)
	if from == fromQuery {
		return t.c.idFilter(ctx, t.c.down(raw, maxDepth, false))
	}
	return t.c.filter(ctx, raw, from, func(n node) bson.D { return t.c.descendantsMatch(n, maxDepth) })
}

// idFilter is the filter for the caller that matches, by ID, the nodes that a pipeline yields.
func (c *core) idFilter(ctx context.Context, p mongo.Pipeline) (bson.D, error) {
	nodes, err := c.readNodes(ctx, opening(c.coll, append(p, expr.Op("$project", expr.D(c.o.IDField, 1)))))
	return c.coll.Scope().Match(c.idsMatch(idsOf(nodes))), err
}

// AncestorsFilter matches the nodes above a node.
//
// Cost: as IsDescendant.
func (t *Tree[ID, T]) AncestorsFilter(ctx context.Context, id ID) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.AncestorsFilter")
	defer fault.In(&err, "tree.AncestorsFilter")
	ids, err := t.c.ancestry(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.c.coll.Scope().Match(t.c.idsMatch(ids)), nil
}

// RootsFilter matches the nodes without parent.
//
// Cost: none. ChildReferences read the IDs of the roots, as Roots.
func (t *Tree[ID, T]) RootsFilter(ctx context.Context) (filter bson.D, err error) {
	ctx = comment.Call(ctx, "tree.RootsFilter")
	defer fault.In(&err, "tree.RootsFilter")
	if match := t.c.rootsMatch(); match != nil {
		return t.c.coll.Scope().Match(match), nil
	}
	return t.c.idFilter(ctx, t.c.roots())
}
