package tree

import (
	"context"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// Adopt adds this tree's fields to a collection of parent references (Options.ParentField), in place. Roots have a
// null or missing parent or Options.RootParent. Unless RootParent is "", a node with the parent "" is an orphan.
// Nodes that cannot be reached from a root, or that have an array as their parent, are Remaining and are not
// changed. But NestedSets numbers orphans and what is below them like trees of their own, and nodes in cycles get 0.
// Documents without the fields of the scope do not belong to this tree, so $set those fields first.
// Work.Filter selects nodes.
//
// Adopt can be run again, to finish or to adopt nodes inserted by code that writes only the parent. Once a node has
// a path or an array of children, its parent field is ignored. Ancestors and numbers are always derived from the
// parent field. Adopt replaces any other value in their fields, so choose names that your documents do not have.
// Adopt may run beside all other calls. The package documentation says how they treat a node that it has not reached
// yet. In ChildReferences it adopts a node together with those above it.
//
// Whole numbers in the OrderField are kept. Siblings without one come after those with one, ordered by the
// other values in that field and then by _id. In NestedSets and ChildReferences all siblings are ordered by
// _id.
//
// A batch that conflicts with old code is done in halves. But the numbers of NestedSets are written in one transaction,
// which may never succeed beside writers that do not pause, and the error then says so.
//
// Cost: as Repair where the parent field stays; MaterializedPath and ChildReferences: twice that.
func (t *Tree[ID, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (total mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "tree.Adopt")
	defer fault.In(&err, "tree.Adopt")
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	if err := collation.Refuse(ctx, t.c.coll, t.c.locks); err != nil {
		return total, err
	}
	if t.c.byParentField {
		total, _, err = newEngine(deriving, t.c, t.c, work).run(ctx)
		return total, err
	}
	total, err = t.c.adoptByParents(ctx, work)
	if err != nil || work != nil && work.DryRun {
		return total, err
	}
	// The second run adds child counts and orders. It also finds orphans that were adopted before, and again the nodes that
	// remain and, in paths, those that failed.
	var failed mongopatterns.Result
	if t.c.namesChildren {
		failed = mongopatterns.Result{Failed: total.Failed, Failures: total.Failures}
	}
	later, _, err := newEngine(deriving, t.c, t.c, work).run(ctx)
	placed := total.Done
	addLaterRun(&total, later)
	total.Done = max(placed, later.Done) // mostly the same nodes
	maintain.Add(&total, failed)
	return total, err
}

// adoptByParents is the first run of Adopt where the tree has no ParentField of its own: it converts from a tree that
// has one.
func (c *core) adoptByParents(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	o := c.o
	o.OrderField, o.Graph = "", false
	from, err := newCore(c.coll.Driver(), ParentReferences, o)
	if err != nil {
		return result, err
	}
	if err := agree(from, c); err != nil {
		return result, err
	}
	result, _, err = newEngine(placing, from, c, work).run(ctx)
	return result, err
}
