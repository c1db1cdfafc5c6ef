package tree

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	p := withoutDepth(t.c.rootFirst(t.c, t.raw(id)), expr.Op("$match", expr.D(fieldDepth, expr.Op("$gt", 0))))
	return t.c.coll.Scope().Stages(p)
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

// readNode reads the tree fields of one node with the user's read preference. If the node does not exist, it returns a
// node without raw.
func (c *core) readNode(ctx context.Context, id bson.RawValue) (node, error) {
	return c.nodeIn(c.coll.FindOne(ctx, c.idMatch(id), options.FindOne().SetProjection(c.shown)), nil)
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
