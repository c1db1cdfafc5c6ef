package tree

import (
	"context"
	"iter"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// The kinds of problems that Check finds.
const (
	// Orphan: the parent does not exist, or is an array of several.
	Orphan mongopatterns.ProblemKind = "orphan"
	// Cycle: the node lies under itself.
	Cycle mongopatterns.ProblemKind = "cycle"
	// WrongField: Problem.Field is not what follows from the parents: ancestors, path, numbers, children or the
	// child counter. It names nodes that are not adopted, too. Repair cannot solve an ID that no path can hold.
	WrongField mongopatterns.ProblemKind = "wrong field"
	// SeveralParents: more than one node has the node among its children.
	SeveralParents mongopatterns.ProblemKind = "several parents"
	// WrongOrder: children of the node (or roots) have no position, one that is no whole number, or share one.
	WrongOrder mongopatterns.ProblemKind = "wrong order"
)

// Check yields what is wrong with the nodes that Work.Filter selects; without a filter also with the order of
// the roots, which is a problem without an ID. Below an orphan or a cycle arrays and paths are not compared. In
// memory are 1,000 nodes with their children and 200,000 IDs.
//
// Cost: for each 1,000 nodes 1 round trip, 1 for each level above them that is not known yet, and 1 for
// children where there are counters, an order, numbers or child references; 3 for the whole. Suspects: 4 more
// (counter, nodes, what belongs to them, commit). If others restructure meanwhile: 1 more.
func (t *Tree[K, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("tree: check", collation.Seq(ctx, newEngine(t.c, t.c).check(ctx, work), t.c.coll))
}

// maxPasses bounds the passes of Repair. Each that makes roots, or takes a child from a parent, is followed by
// another.
const maxPasses = 100

// Repair solves what Check finds. The parent references decide, of a path its last ID. If several nodes list
// the same child, the one with the smallest ID keeps it; nodes in a cycle with the child come last. Orphans,
// malformed paths and cycles need Options.MakeRoots; otherwise they are Remaining, and so are nodes of
// ChildReferences that are not adopted: run Adopt. Work.Filter selects nodes.
//
// It is safe beside other work, which waits or runs again while a batch is written; the next run finishes an
// interrupted one. Nested sets are numbered anew in one transaction that holds all shapes in memory: for more
// than some 100,000 nodes it may exceed the server's limit for transactions (60 s).
//
// Cost: as Check, and for each batch with problems 2 round trips (lock, one command of updates); each document
// is written once. Nested sets: 4 more (lock, all nodes, updates, commit).
func (t *Tree[K, T]) Repair(ctx context.Context, work *mongopatterns.Work) (total mongopatterns.Result, err error) {
	defer fault.In(&err, "tree: repair")
	defer fault.Part(&err, &total.Done, &total.Unknown)
	if err := collation.Refuse(ctx, t.c.coll); err != nil {
		return total, err
	}
	for pass := range maxPasses {
		e := newEngine(t.c, t.c)
		result, err := e.run(ctx, work)
		if pass > 0 { // what is left is what the last pass says
			result.Examined, total.Remaining, total.Failed, total.Failures = 0, 0, 0, nil
		}
		if total.Add(result); err != nil || !e.moved || e.dry {
			return total, err
		}
	}
	return total, nil
}

// Adopt adds this tree's fields to a collection of parent references (Options.ParentField), in place. Roots
// have the parent null, missing or Options.RootParent; without that, one with parent "" is an orphan of "". Nodes that no
// root leads to, or whose parent is an array, are Remaining and stay as they are. Documents without the fields
// of the scope are not this tree's: $set those first. Work.Filter selects nodes.
//
// Nodes that have the fields are not written, so it can be run again, to finish or to catch up with documents
// that code inserted which knows the parent only. Once a node has a path or an array of children, its parent
// field is ignored. It may run beside all other calls; a node that it has not come to is not adopted, see the
// package documentation. In ChildReferences it adopts a node together with those above it.
//
// Whole numbers in the OrderField stay. Siblings without one come after those, in the order of their other
// values there and then of their _id; in NestedSets and ChildReferences all come in the order of their _id.
//
// Cost: as Repair where the parent field stays; MaterializedPath and ChildReferences: twice that.
func (t *Tree[K, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (total mongopatterns.Result, err error) {
	defer fault.In(&err, "tree: adopt")
	defer fault.Part(&err, &total.Done, &total.Unknown)
	if err := collation.Refuse(ctx, t.c.coll); err != nil {
		return total, err
	}
	e := newEngine(t.c, t.c)
	e.quick = true
	if !t.c.keepsParent {
		o := t.c.o
		o.OrderField, o.Graph = "", false
		from, err := newCore(t.c.coll, ParentReferences, o)
		if err == nil {
			err = agree(from, t.c)
		}
		if err != nil {
			return total, err
		}
		catchUp := newEngine(from, t.c)
		catchUp.catchUp = true
		if total, err = catchUp.run(ctx, work); err != nil || catchUp.dry {
			return total, err
		}
		// A second look has counters and orders, and finds those again that remain and, in paths, that failed; and
		// orphans that were adopted before.
		total.Remaining = 0
		if t.c.lists == nil {
			total.Failed, total.Failures = 0, nil
		}
	}
	again, err := e.run(ctx, work)
	if total.Examined > 0 {
		again.Examined = 0
	}
	total.Add(again)
	return total, err
}

// Convert writes the nodes of a collection as another tree of it, of which the representation or field names
// differ. Siblings keep their order as far as both trees have one. A graph is refused, and so is a field that
// both use with different meanings. Nodes that no root leads to, or below several parents, are Remaining.
// Work.Filter selects nodes.
//
// Both trees stay readable, and the old one decides: run it again to catch up with what was written to it. When
// nobody writes to the old tree any more, and nothing is Remaining, $unset those of its fields that the new one
// does not use with an UpdateMany of your own. After that do not run Convert from it again: it would take every
// node for a root. Call EnsureIndexes of the new tree first. To another collection
// to.Load(ctx, from.Dump(ctx), to.AsRoot(), nil) copies a tree.
//
// Cost: as Adopt.
func Convert[K, T, U any](ctx context.Context, from *Tree[K, T], to *Tree[K, U],
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "tree: convert")
	if from.c.o.Graph || to.c.o.Graph {
		return result, fault.Invalid("a graph")
	}
	a, b := from.c.coll, to.c.coll
	if a.Name() != b.Name() || a.Database().Name() != b.Database().Name() || a.Database().Client() != b.Database().Client() ||
		from.c.lockID != to.c.lockID || from.c.o.IDField != to.c.o.IDField {
		return result, fault.Invalid("two trees with different collections, Scope or IDField")
	}
	if err := agree(from.c, to.c); err != nil {
		return result, err
	}
	if err := collation.Refuse(ctx, a); err != nil {
		return result, err
	}
	return newEngine(from.c, to.c).run(ctx, work)
}

// agree refuses trees of one collection where to writes, with another meaning, a field that from reads.
func agree(from, to *core) error {
	link, order := from.link, from.order
	alike := from.keepsParent && to.keepsParent ||
		from.kind == to.kind && from.o.PathDelimiter == to.o.PathDelimiter
	for _, f := range append(to.fields, to.order, to.o.ChildCountField) {
		switch {
		case f == "", f != link && f != order:
		case f == order && f == to.order:
		case f == link && f == to.link && alike:
		default:
			return fault.Invalid("the field %s has one meaning in the old tree and another in the new one", f)
		}
	}
	return nil
}
