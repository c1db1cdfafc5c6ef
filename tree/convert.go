package tree

import (
	"context"
	"slices"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

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
	if err := collation.Refuse(ctx, from.c.coll, to.c.locks); err != nil {
		return result, err
	}
	result, _, err = newEngine(deriving, from.c, to.c, work).run(ctx)
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
	for _, f := range slices.Concat(to.fields, []string{to.sortField, to.o.ChildCountField}) {
		switch {
		case f == "" || f != from.refField && f != from.sortField: // from does not read it
		case f == from.sortField && f == to.sortField:
		case f == from.refField && f == to.refField && sameReferences(from, to):
		default:
			return fault.Invalid("the field %s has one meaning in the old tree and another in the new one", f)
		}
	}
	return nil
}

// sameReferences reports whether the nodes of two trees name their parents, or children, in the same way.
func sameReferences(a, b *core) bool {
	if a.byParentField && b.byParentField {
		return true
	}
	return a.kind == b.kind && a.o.PathDelimiter == b.o.PathDelimiter && a.o.SegmentField == b.o.SegmentField
}
