package tree

import (
	"context"
	"iter"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// The kinds of problems that Check finds.
const (
	// Cycle: the node lies below itself.
	Cycle mongopatterns.ProblemKind = "cycle"
	// SeveralParents: more than one node has the node among its children.
	SeveralParents mongopatterns.ProblemKind = "several parents"
	// WrongOrder: children of the node (or roots) lack an order, share one, or have one that is not a whole number within
	// ±2^61.
	WrongOrder mongopatterns.ProblemKind = "wrong order"
)

// Check yields the problems of the nodes that Work.Filter selects. Without a filter it also reports a
// wrong order of the roots, as a problem without an ID. It does not compare arrays and paths below an
// orphan or a cycle. It holds 1,000 nodes with their children and 200,000 IDs in memory.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Orphan: the parent does not exist, or its reference cannot be an ID, such as an array or a regular
//     expression.
//   - WrongField: Problem.Field (ancestors, path, numbers, children or the child count) does not agree with
//     the parents. Nodes that are not adopted are reported like this too. Repair cannot solve it for an ID
//     or segment that a path cannot contain.
//   - Malformed: no node has the field that links parents and children. Either its name is misspelt, or the
//     documents have another representation. Check finds it only without Work.Filter.
//
// Cost: for each 1,000 nodes 1 round trip, and 1 for each level above them that is not known yet; 4 for the whole.
//   - Child counts, an order, numbers or child references: 1 more for each 1,000, for the children.
//   - Suspects: 4 more (lock document, nodes, what belongs to them, commit).
//   - If others restructure meanwhile: 1 more.
func (t *Tree[ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "tree.Check")
	return fault.Seq("tree.Check", collation.Seq(ctx, maintain.Chain(newEngine(auditing, t.c, t.c, work).check(ctx),
		maintain.Absent(ctx, t.c.coll, work, "tree", t.c.refField)), t.c.coll))
}

// maxPasses bounds the passes of Repair. A pass that makes roots, or removes a child from a parent, is
// followed by another.
const maxPasses = 100

// Repair solves the problems that Check finds. It relies on the parent reference, which in a path is the last
// ID. If several nodes list the same child, the one with the smallest ID among those below a root keeps it. A
// list that closes a cycle loses the child, so that what is below a root stays there. Orphans, malformed
// paths and cycles to which no other node leads are solved only with Options.MakeRoots; otherwise they are
// Remaining. Nodes of ChildReferences that are not adopted are Remaining too; run Adopt for them. Work.Filter
// selects nodes.
//
// It is safe beside other writers, which wait or run again while a batch is written. To finish an
// interrupted Repair, run it again. Nested sets are renumbered in one transaction, and Repair holds
// the tree fields of all nodes in memory for it. With more than about 100,000 nodes it may exceed the
// server's limit for transactions (60 s).
//
// Cost: as Check, and for each batch with problems 2 round trips (lock, one command of updates); each document is
// written once.
//   - Nested sets: 4 more (lock, all nodes, updates, commit).
func (t *Tree[ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (total mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "tree.Repair")
	defer fault.In(&err, "tree.Repair")
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	if err := collation.Refuse(ctx, t.c.coll); err != nil {
		return total, err
	}
	for pass := range maxPasses {
		result, newWays, err := newEngine(auditing, t.c, t.c, work).run(ctx)
		if pass > 0 { // the last pass says what remains
			result.Examined, total.Remaining, total.Failed, total.Failures = 0, 0, 0, nil
		}
		if maintain.Add(&total, result); err != nil || !newWays || work != nil && work.DryRun {
			return total, err
		}
	}
	return total, nil
}

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
// Cost: as Repair where the parent field stays; MaterializedPath and ChildReferences: twice that.
func (t *Tree[ID, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (total mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "tree.Adopt")
	defer fault.In(&err, "tree.Adopt")
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	if err := collation.Refuse(ctx, t.c.coll); err != nil {
		return total, err
	}
	if !t.c.keepsParent {
		total, err = t.c.adoptByParents(ctx, work)
		if err != nil || work != nil && work.DryRun {
			return total, err
		}
		// The second run, below, adds child counts and orders. It also finds orphans that were adopted before, and again
		// the nodes that remain and, in paths, those that failed.
		total.Remaining = 0
		if !t.c.namesChildren {
			total.Failed, total.Failures = 0, nil
		}
	}
	again, _, err := newEngine(adopting, t.c, t.c, work).run(ctx)
	if total.Examined > 0 {
		again.Examined = 0
	}
	maintain.Add(&total, again)
	return total, err
}

// adoptByParents is the first run of Adopt where nodes do not keep the ParentField: it converts from a tree that does.
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
	result, _, err = newEngine(adoptingPlaces, from, c, work).run(ctx)
	return result, err
}

// Convert adds the fields of another tree of the same collection, with a different representation or other
// field names, to the nodes of from. Siblings keep their order if both trees order siblings. A graph is
// refused, and so is a field that both trees use with different meanings. Nodes that cannot be reached from
// a root, or that have several parents above them, are Remaining. Work.Filter selects nodes.
//
// Call EnsureIndexes of the new tree first. Both trees stay readable. The old one is authoritative, so run
// Convert again to carry over later writes to it. When nobody writes to the old tree any more, and nothing
// is Remaining, $unset the fields that only the old tree uses, with an UpdateMany of your own. After that
// do not run Convert again, because it would treat every node as a root. To copy a tree to another
// collection use to.Load(ctx, from.Dump(ctx), to.AsRoot(), nil).
//
// Cost: as Adopt.
func Convert[ID, T, U any](ctx context.Context, from *Tree[ID, T], to *Tree[ID, U],
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "tree.Convert")
	defer fault.In(&err, "tree.Convert")
	if from == nil || to == nil {
		return result, fault.Invalid("from, to: nil")
	}
	if from.c == to.c {
		return result, fault.Invalid("from, to: the same tree, which Repair repairs")
	}
	if from.c.o.Graph || to.c.o.Graph {
		return result, fault.Invalid("Options.Graph: a graph cannot be converted")
	}
	if !sameNodes(from.c, to.c) {
		return result, fault.Invalid("from, to: they differ in the collection, the Scope or the IDField")
	}
	if err := agree(from.c, to.c); err != nil {
		return result, err
	}
	if err := collation.Refuse(ctx, from.c.coll); err != nil {
		return result, err
	}
	result, _, err = newEngine(converting, from.c, to.c, work).run(ctx)
	return result, err
}

// sameNodes reports whether two trees have the same nodes.
func sameNodes(a, b *core) bool {
	x, y := a.coll.Database(), b.coll.Database()
	return a.coll.Name() == b.coll.Name() && x.Name() == y.Name() && x.Client() == y.Client() &&
		a.lockID == b.lockID && a.o.IDField == b.o.IDField
}

// agree refuses two trees of one collection if to writes a field that from reads with another meaning: a conversion
// would destroy its own source. An order, or a parent, that both store in the same field is fine.
func agree(from, to *core) error {
	for _, f := range append(to.fields, to.order, to.o.ChildCountField) {
		read := f != "" && (f == from.refField || f == from.order)
		if read && !(f == from.order && f == to.order) && !(f == from.refField && f == to.refField && sameReferences(from, to)) {
			return fault.Invalid("the field %s has one meaning in the old tree and another in the new one", f)
		}
	}
	return nil
}

// sameReferences reports whether the nodes of two trees name their parents, or children, in the same way.
func sameReferences(a, b *core) bool {
	if a.keepsParent && b.keepsParent {
		return true
	}
	return a.kind == b.kind && a.o.PathDelimiter == b.o.PathDelimiter && a.o.SegmentField == b.o.SegmentField
}
