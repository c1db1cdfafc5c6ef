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
//     expression. In a tree with paths of IDs, also: its ID has another type.
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
	return fault.Seq("tree.Check", collation.Seq(ctx, maintain.Chain(newEngine(repairing, t.c, t.c, work).check(ctx),
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
	if err := collation.Refuse(ctx, t.c.coll, t.c.locks); err != nil {
		return total, err
	}
	for pass := range maxPasses {
		result, newWays, err := newEngine(repairing, t.c, t.c, work).run(ctx)
		if pass == 0 {
			total = result
		} else {
			addLaterRun(&total, result)
		}
		if err != nil || !newWays || work != nil && work.DryRun {
			return total, err
		}
	}
	return total, nil
}

// addLaterRun adds the result of a further run over the same nodes, which says what remains and what has failed.
func addLaterRun(total *mongopatterns.Result, later mongopatterns.Result) {
	later.Examined = 0
	total.Remaining, total.Failed, total.Failures = 0, 0, nil
	maintain.Add(total, later)
}
