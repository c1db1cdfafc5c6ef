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
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// oneParent has the functions that need only a representation and its layout: each node names one parent.
type oneParent struct {
	*store
	representation
}

// parentNode returns the parent that a node names, nil for a root. It need not exist.
func (l oneParent) parentNode(n node) *node {
	if up, _ := l.parent(n); l.isParent(up) {
		return &up
	}
	return nil
}

// byRefs is the filter for nodes as parent returns them: with an ID, or, where a path of segments names them, with
// a path and a segment. Those of one path share a condition, because they may be the parents of many nodes.
func (l oneParent) byRefs(ups ...node) bson.D {
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
			paths = l.rootRefs()
		}
		match := l.in(l.refField, expr.Op("$in", paths), l.o.SegmentField, expr.Op("$in", segments[path]))
		any = append(any, append(match, l.notBareMatch()...))
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
func (l oneParent) parentOf(n node) bson.D {
	if up := l.parentNode(n); up != nil {
		return l.byRefs(*up)
	}
	return nil
}

// parents matches nothing if all nodes are roots.
func (l oneParent) parents(nodes []node) bson.D {
	var ups []node
	for _, n := range nodes {
		if up := l.parentNode(n); up != nil {
			ups = append(ups, *up)
		}
	}
	return l.byRefs(ups...)
}

// refTo is the value of refField in the children of parent, or in the roots for nil.
func (l oneParent) refTo(parent *node) any { return lookup(l.fieldsUnder(parent), l.refField) }

// childrenUnder is the filter for the children of parent, or for the roots if parent is nil.
func (l oneParent) childrenUnder(parent *node) bson.D {
	switch roots := l.rootRefs(); {
	case parent == nil && len(roots) > 1:
		return l.in(l.refField, expr.Op("$in", roots))
	case parent != nil && l.keepsParent && l.noParent(parent.id): // not a node: this would match the roots
		return l.byIDs(nil)
	}
	return l.in(l.refField, equal(l.refTo(parent)))
}

// rootRefs are the values that refField can have in a root.
func (l oneParent) rootRefs() bson.A {
	if l.keepsParent {
		return l.rootParents()
	}
	if l.o.SegmentField != "" {
		return bson.A{nil, l.rootPath()}
	}
	return bson.A{nil}
}

func (l oneParent) childrenOf(n node) bson.D { return l.childrenUnder(&n) }

func (l oneParent) rootsMatch() bson.D { return append(l.childrenUnder(nil), l.notBareRoots()...) }

// notBareRoots are the conditions that tell roots from bare nodes, where both may lack the reference.
func (l oneParent) notBareRoots() bson.D {
	if l.derived != l.refField {
		return nil
	}
	return l.notBareMatch()
}

// children by a path need the node first, because its path and segment make the path of its children.
func (l oneParent) children(id any) mongo.Pipeline {
	if l.keepsParent {
		match := l.in(l.refField, equal(id))
		if raw, ok := id.(bson.RawValue); ok {
			match = l.childrenUnder(&node{id: raw})
		}
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, l.inOrder())
	}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", l.byID(id)),
		expr.Op("$project", expr.D(fieldRef, l.refExpr())),
		l.lookup(fieldRef, l.refField, l.inOrder()...),
	}, unfold())
}

// siblings are the other nodes that name the same parent, or the other roots. Roots may name it by several values,
// which all match then.
func (l oneParent) siblings(id any) mongo.Pipeline {
	var among mongo.Pipeline
	if match := l.notBareRoots(); match != nil {
		among = mongo.Pipeline{expr.Op("$match", match)}
	}
	self := mongo.Pipeline{expr.Op("$match", append(append(l.byID(id), l.except(l.refField)...), l.notBareRoots()...))}
	local := l.refField
	if roots := l.rootRefs(); len(roots) > 1 {
		local = fieldRef
		ref := expr.IfNull(expr.Field(l.refField), nil)
		self = append(self, expr.Op("$set", expr.D(local, expr.Cond(expr.Op("$in", ref, expr.Literal(roots)), expr.Literal(roots), bson.A{ref}))))
	}
	return slices.Concat(self, mongo.Pipeline{l.lookup(local, l.refField, append(among, l.inOrder()...)...)},
		unfold(), mongo.Pipeline{expr.Op("$match", expr.D(l.o.IDField, expr.Op("$ne", id)))})
}

// leaves looks for children of every node unless there are counts.
func (l oneParent) leaves() mongo.Pipeline {
	switch {
	case l.o.ChildCountField != "":
		return mongo.Pipeline{l.match(l.o.ChildCountField, 0)}
	case l.keepsParent:
		return l.unreferenced(l.o.IDField, l.refField)
	}
	return l.unreferenced(fieldRef, l.refField, expr.Op("$match", l.notBareMatch()), expr.Op("$set", expr.D(fieldRef, l.refExpr())))
}

func (l oneParent) roots() mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", l.rootsMatch())}, l.inOrder())
}

func (l oneParent) sortedRoots() mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$match", append(l.rootsMatch(), l.except(l.refField)...)), l.sorting()}
}

func (l oneParent) readRoots(ctx context.Context) ([]node, error) {
	return l.aggregate(ctx, l.sortedRoots())
}

func (l oneParent) rootWith(ctx context.Context, match bson.D) (node, error) {
	return l.first(ctx, append(l.roots(), expr.Op("$match", match)))
}

// sortedChildren also finds bare children, where only the parent field names them.
func (l oneParent) sortedChildren(nodes []node) mongo.Pipeline {
	refs, ids := bson.A{}, bson.A{}
	for _, n := range nodes {
		if l.checkUsable(n) == nil {
			refs, ids = append(refs, l.refTo(&n)), append(ids, n.id)
		}
	}
	match := l.in(l.refField, anyOf(refs))
	if l.derived == l.refField {
		match = expr.Op("$or", bson.A{match, l.bareUnder(anyOf(ids))})
	}
	return mongo.Pipeline{expr.Op("$match", match), l.sorting()}
}

// childrenByParent groups the result of sortedChildren by what the children name.
func (l oneParent) childrenByParent(ctx context.Context, nodes []node) ([][]node, error) {
	found, err := l.aggregate(ctx, l.sortedChildren(nodes))
	if err != nil {
		return nil, err
	}
	out, at := make([][]node, len(nodes)), map[string]int{}
	for i, n := range nodes {
		at[key(n.id)] = i
		if l.o.SegmentField != "" {
			at[l.refKey(n)] = i
		}
	}
	for _, child := range found {
		up, _ := l.parent(child)
		if i, ok := at[l.refKey(up)]; ok { // not if the parent is an array, which matches by its elements
			out[i] = append(out[i], child)
		}
	}
	return out, nil
}

func (l oneParent) unconfirmed(n node, _ []*place) (up node, broken string) { return l.parent(n) }

// prepareAdoption has nothing to write but the fields of the nodes, because these name their parents.
func (l oneParent) prepareAdoption(ctx context.Context, e *engine, b *batch) (found []finding, stale bool, err error) {
	return nil, false, e.readChildren(ctx, b)
}

// cut: a node has one parent, so no node outside leads into a cycle.
func (l oneParent) cut(node, *place) []mongo.WriteModel { return nil }

// addChildren changes the count only, because it is the children that name the parent.
func (l oneParent) addChildren(children []bson.RawValue) bson.D {
	return l.childCountBy(int64(len(children)))
}

func (l oneParent) fieldsOf(parent *node, _ []node) bson.D { return l.fieldsUnder(parent) }

// makeRoot leaves the nodes below to Repair where they name their parent by its ID. In a path they name the whole
// way, and would be orphans.
func (l oneParent) makeRoot(n node) []mongo.WriteModel {
	models := []mongo.WriteModel{update(l.byID(n.id), expr.Op("$set", l.fieldsUnder(nil)))}
	if l.keepsParent || l.checkUsable(n) != nil {
		return models
	}
	return append(models, l.updatesBelow(n, *l.child(n.id, n.segment, nil))...)
}

// checkSound refuses a node if its fields do not tell where it is, or contradict each other. The fields of a node under
// it would be wrong as well, and a move could close a cycle.
func (l oneParent) checkSound(n node) error {
	if err := l.checkNotBare(n); err != nil {
		return err
	}
	if l.tellsAncestors() && l.keepsParent {
		above := l.above(n, n.id)
		last := value.Null
		if len(above) > 0 {
			last = above[len(above)-1]
		}
		if !same(last, n.parent) {
			return l.about(n.id, fmt.Errorf("%w: the parent is %s and %s is %s, run Adopt or Repair", mongopatterns.ErrNotAdopted,
				text(n.parent), l.derived, text(n.raw.Lookup(l.derived))))
		}
	}
	return l.checkUsable(n)
}

// checkNotBare refuses a bare node: in these representations it is not adopted.
func (l oneParent) checkNotBare(n node) error {
	if l.isBare(n.raw) {
		return l.notAdopted(n.id)
	}
	return nil
}

func (l oneParent) checkAdopted(_ context.Context, n node) error { return l.checkNotBare(n) }

// checkWay: where the parent field has led to ancestors, nothing is missing.
func (l oneParent) checkWay(_ context.Context, id bson.RawValue, way int, bare bool) error {
	if !bare || way > 1 && l.keepsParent {
		return nil
	}
	return l.notAdopted(id)
}

// orphaned is the error for a node that names a parent that does not exist.
func (l oneParent) orphaned(n node) error {
	return l.about(n.id, fmt.Errorf("%w: %s", mongopatterns.ErrNoParent, text(n.raw.Lookup(l.refField))))
}

// checkNoCycle refuses to put x under n if n is x or lies below x. It reads only where n does not say what is above it.
// IDs in its path are decoded to the type of x's ID, so that x is found above a node with an ID of another type.
func (l oneParent) checkNoCycle(ctx context.Context, x, n node) error {
	var below bool
	switch {
	case !l.inherits:
		return l.searchCycle(ctx, l, x, n)
	case l.tellsAncestors():
		below = same(n.id, x.id) || holds(l.above(n, x.id), x.id)
	default: // a path of segments
		below = strings.HasPrefix(l.full(n), l.full(x))
	}
	if below {
		return l.about(x.id, ErrCycle)
	}
	return nil
}

// childrenOfAll is the filter for the children of nodes.
func (l oneParent) childrenOfAll(nodes []node) bson.D {
	refs := bson.A{}
	for _, n := range nodes {
		refs = append(refs, l.refTo(&n))
	}
	return append(l.in(l.refField, anyOf(refs)), l.except(l.refField)...)
}
