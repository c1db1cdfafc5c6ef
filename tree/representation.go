package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
)

// representation says how a node stores its parent, in trees in which every node names one: parentRefs,
// ancestorArray, materializedPath and nestedSets, each in its own file. All other fields are derived from the
// parent. Insert, Move, Delete, Load, Check, Repair, Adopt and Convert are written once, on these
// functions.
type representation interface {
	reads
	// parent returns what names the parent in a node, a zero ref at a root. broken describes a reference that is not valid.
	parent(n node) (named ref, broken string)
	// liesBelow reports whether a position for x is below x. known is false in ParentReferences, where the fields of the
	// nodes that were read do not tell.
	liesBelow(x node, to foundPosition) (below, known bool)
	// fieldsUnder returns the tree fields of a node under a parent, nil for a root.
	fieldsUnder(parent *node) bson.D
	// updatesBelow returns the writes to the nodes below x, which moves; to is x where it moves.
	updatesBelow(x, to node) []mongo.WriteModel
	// handOver returns the writes to the nodes below a deleted x. heir gets its children, nil if they become roots.
	handOver(x node, heir *node) []mongo.WriteModel
	// refExpr is an expression for the value that the children of a node hold to name it.
	refExpr() any
}

// reads are the ways up and down from a node, in all five representations. The IDs that pipelines take are
// bson.RawValues, or values that cannot be encoded, which the driver refuses when the pipeline runs.
type reads interface {
	// up are the stages that turn a node into the node and its ancestors, in no order, with their distance in
	// fieldDepth: 0 for the node itself. levels is the number of ancestors, 0 means all.
	up(levels int) mongo.Pipeline
	// above returns the IDs of the ancestors that a node holds, root first, where tellsAncestors. IDs in a path get the
	// type of like.
	above(n node, like bson.RawValue) []bson.RawValue
	// down yields the descendants of a node in no order, and with self the node too. depth is the number of
	// levels, 0 means all.
	down(id any, depth int, self bool) mongo.Pipeline
	// descendantsMatch returns the filter for the descendants of a node to a depth; see descendantsSource.
	descendantsMatch(n node, depth int) bson.D
}

// shape has the operations of a tree that the calls use. It has two implementations: oneParent, on a
// representation, and lists, for ChildReferences, where nodes name their children and a node may have
// several parents.
type shape interface {
	reads

	// children and siblings are in order. The siblings of a root are the other roots, but see lists.otherRoots.
	children(id any) mongo.Pipeline
	siblings(id any) mongo.Pipeline
	leaves() mongo.Pipeline
	// roots are in order if the tree orders them. sortedRoots are ordered by _id as well, for Dump and Check.
	roots() mongo.Pipeline
	sortedRoots() mongo.Pipeline
	// rootsMatch is the filter for the roots, nil if they can only be found by a query.
	rootsMatch() bson.D
	// rootWith finds a root that matches, and returns a node without raw if there is none.
	rootWith(ctx context.Context, match bson.D) (node, error)
	// childrenMatch is the filter for the children of a node; see layout.childrenFrom.
	childrenMatch(n node) bson.D

	// checkAdopted refuses a node that is not adopted.
	checkAdopted(ctx context.Context, n node) error
	// checkWay refuses a node that is not adopted, after its way up was read. way is the number of nodes read, with
	// the node itself.
	checkWay(ctx context.Context, id bson.RawValue, way int, bare bool) error

	insert(ctx context.Context, d newDocument, pos position) error
	move(ctx context.Context, id bson.RawValue, pos position) error
	// removeOne deletes a node, and removeAll a node with all below it. They return the writes to other nodes, which
	// the caller sends as one command.
	removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) (after []mongo.WriteModel, err error)
	removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error)
	// arrange adds the tree fields to the documents of a Load.
	arrange(ctx context.Context, items []*item) error
	// addChildren is the update of an existing node that gets children by a Load.
	addChildren(children []bson.RawValue) bson.D

	upkeep
}

// upkeep is what the engine asks: Check, Repair, Adopt and Convert.
type upkeep interface {
	// parent is that of representation. In ChildReferences no node names a parent.
	parent(n node) (named ref, broken string)
	// parentsMatch is the filter for the parents of nodes.
	parentsMatch(nodes []node) bson.D
	// readRoots reads the roots in their order and by _id.
	readRoots(ctx context.Context) ([]node, error)
	// sortedChildren yields the children of nodes, siblings in order. childrenByParent reads them in one query, and
	// returns them by node.
	sortedChildren(nodes []node) mongo.Pipeline
	childrenByParent(ctx context.Context, nodes []node) ([][]node, error)
	// fieldsOf returns the tree fields of a node with this parent, nil for a root, and these children.
	fieldsOf(parent *node, children []node) bson.D
	// audit finds problems that do not depend on the way up: wrong elements of lists, numbers, and IDs that cannot
	// be in a path.
	audit(e *engine, n node, at *place, children []node) []finding
	// prepareAdoption prepares a batch for the mode placing: it reads the children, and finds what has to be written
	// besides the fields of the nodes. stale says that a parent has changed since the engine saw it.
	prepareAdoption(ctx context.Context, e *engine, b *batch) (found []finding, stale bool, err error)
	// makeRoot returns the writes that make a root of a node and keep all below it there.
	makeRoot(n node) []mongo.WriteModel
	// cut returns the writes that open a cycle that n lies on and that a node outside leads to.
	cut(n node, at *place) []mongo.WriteModel
}

// layout are the fields of a representation, from which the reads and writes that all have in common are made.
type layout struct {
	fields        []string // the fields that hold the shape; Insert overwrites them
	extraIndex    []string // an index besides {refField, order}
	refField      string   // the field that names the parent, or the children
	sortField     string   // the field that orders siblings, "" if they are not ordered
	byParentField bool     // refField is the ParentField
	derived       string   // a node that names a parent and lacks this field is bare; "" if nothing is derived
	inherits      bool     // the fields of a node are computed from those of its parent
	numbered      bool     // NestedSets: numbers tell what is below a node; each write takes the lock, as it shifts them anywhere

	childrenFrom, descendantsFrom source // of the filters for them

	// namesChildren says that refField is a list of children, which is derived from nothing. So only a query finds
	// the parents of a node, and several lists may name it.
	namesChildren bool
}

// source is what the filter for the children or the descendants of a node is made from.
type source int

const (
	fromID    source = iota
	fromNode         // the stored node
	fromQuery        // there is no filter, only a query finds them
)

// descendantsSource is descendantsFrom to a depth, 0 for all levels: a range does not tell the depth.
func (l layout) descendantsSource(depth int) source {
	if l.numbered && depth > 0 {
		return fromQuery
	}
	return l.descendantsFrom
}

// layoutOf returns the layout of a representation for options that are complete.
func layoutOf(kind Representation, o Options) layout {
	switch kind {
	case ParentReferences:
		return parentLayout(o)
	case ChildReferences:
		return listsLayout(o)
	case AncestorArray:
		return ancestorsLayout(o)
	case MaterializedPath:
		return pathLayout(o)
	}
	return nestedLayout(o)
}
