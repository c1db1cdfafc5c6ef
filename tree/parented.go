package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// parented has what the representations share in which a node names one parent. Its functions need only the representation
// and its layout.
type parented struct {
	*store
	representation
}

// parentRef is parent with nil for a root. The parent need not exist.
func (s parented) parentRef(n node) *ref {
	if named, _ := s.representation.parent(n); s.names(named) {
		return &named
	}
	return nil
}

// namedMatch is the filter for nodes by what names them. Those of one path share a condition, because they may be the
// parents of many nodes.
func (s parented) namedMatch(refs ...ref) bson.D {
	ids, segments := []bson.RawValue{}, map[string][]bson.RawValue{}
	for _, ref := range refs {
		if ref.id.Type != 0 {
			ids = append(ids, ref.id)
		} else {
			segments[ref.path] = append(segments[ref.path], ref.segment)
		}
	}
	var or bson.A
	for _, path := range slices.Sorted(maps.Keys(segments)) {
		paths := bson.A{path}
		if path == s.o.PathDelimiter {
			paths = s.rootRefs()
		}
		match := expr.D(s.refField, expr.Op("$in", paths), s.o.SegmentField, expr.Op("$in", segments[path]))
		or = append(or, append(match, s.notBareMatch()...))
	}
	if len(ids) > 0 || len(or) == 0 {
		or = append(or, s.idsMatch(ids))
	}
	if len(or) == 1 {
		return or[0].(bson.D)
	}
	return expr.Op("$or", or)
}

// parentMatch is the filter for the parent of a node, nil for a root.
func (s parented) parentMatch(n node) bson.D {
	if named := s.parentRef(n); named != nil {
		return s.namedMatch(*named)
	}
	return nil
}

// parentsMatch matches nothing if all nodes are roots.
func (s parented) parentsMatch(nodes []node) bson.D {
	var refs []ref
	for _, n := range nodes {
		if named := s.parentRef(n); named != nil {
			refs = append(refs, *named)
		}
	}
	return s.namedMatch(refs...)
}

// refTo is the value of refField in the children of parent, or in the roots for nil.
func (s parented) refTo(parent *node) any {
	return valueIn(s.representation.fieldsUnder(parent), s.refField)
}

// siblingsMatch is the filter for the children of parent, or for the roots if parent is nil.
func (s parented) siblingsMatch(parent *node) bson.D {
	switch roots := s.rootRefs(); {
	case parent == nil && len(roots) > 1:
		return expr.D(s.refField, expr.Op("$in", roots))
	case parent != nil && s.byParentField && s.noParent(parent.id): // not a node: this would match the roots
		return s.idsMatch(nil)
	}
	return expr.D(s.refField, equal(s.refTo(parent)))
}

// rootRefs are the values that refField can have in a root.
func (s parented) rootRefs() bson.A {
	if s.byParentField {
		return s.rootParents()
	}
	if s.o.SegmentField != "" {
		return bson.A{nil, s.rootPath()}
	}
	return bson.A{nil}
}

func (s parented) childrenMatch(n node) bson.D { return s.siblingsMatch(&n) }

func (s parented) rootsMatch() bson.D {
	return append(s.siblingsMatch(nil), s.notBareRootsMatch()...)
}

// notBareRootsMatch are the conditions that tell roots from bare nodes, where both may lack the reference.
func (s parented) notBareRootsMatch() bson.D {
	if s.derived != s.refField {
		return nil
	}
	return s.notBareMatch()
}

// children by a path need the node first, because its path and segment make the path of its children.
func (s parented) children(id any) mongo.Pipeline {
	if s.byParentField {
		match := expr.D(s.refField, equal(id))
		if raw, ok := id.(bson.RawValue); ok {
			match = s.siblingsMatch(&node{ref: ref{id: raw}})
		}
		return slices.Concat(mongo.Pipeline{expr.Op("$match", match)}, s.inOrder())
	}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$match", s.idMatch(id)),
		expr.Op("$project", expr.D(fieldRef, s.representation.refExpr())),
		s.lookup(fieldRef, s.refField, s.inOrder()...),
	}, unfold())
}

// siblings are the other nodes that name the same parent, or the other roots. Roots may name it by several values,
// which all match then.
func (s parented) siblings(id any) mongo.Pipeline {
	notBare := s.notBareRootsMatch()
	p, local := mongo.Pipeline{expr.Op("$match", slices.Concat(s.idMatch(id), s.noArrayMatch(s.refField), notBare))}, s.refField
	if roots := s.rootRefs(); len(roots) > 1 {
		local = fieldRef
		ref := expr.IfNull(expr.Field(s.refField), nil)
		isRoot := expr.Op("$in", ref, expr.Literal(roots))
		p = append(p, expr.Op("$set", expr.D(local, expr.Cond(isRoot, expr.Literal(roots), bson.A{ref}))))
	}
	stages := s.inOrder()
	if notBare != nil {
		stages = append(mongo.Pipeline{expr.Op("$match", notBare)}, stages...)
	}
	others := mongo.Pipeline{expr.Op("$match", expr.D(s.o.IDField, expr.Op("$ne", id)))}
	return slices.Concat(append(p, s.lookup(local, s.refField, stages...)), unfold(), others)
}

// leaves looks for children of every node unless there are counts.
func (s parented) leaves() mongo.Pipeline {
	switch {
	case s.o.ChildCountField != "":
		return mongo.Pipeline{expr.Op("$match", expr.D(s.o.ChildCountField, 0))}
	case s.byParentField:
		return s.unreferenced(s.o.IDField, s.refField)
	}
	return s.unreferenced(fieldRef, s.refField, expr.Op("$match", s.notBareMatch()), expr.Op("$set", expr.D(fieldRef, s.representation.refExpr())))
}

func (s parented) roots() mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", s.rootsMatch())}, s.inOrder())
}

func (s parented) sortedRoots() mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$match", append(s.rootsMatch(), s.noArrayMatch(s.refField)...)), s.sorting()}
}

func (s parented) readRoots(ctx context.Context) ([]node, error) {
	return s.aggregate(ctx, s.sortedRoots())
}

func (s parented) rootWith(ctx context.Context, match bson.D) (node, error) {
	return s.first(ctx, append(s.roots(), expr.Op("$match", match)))
}

// sortedChildren also finds bare children, where only the parent field names them.
func (s parented) sortedChildren(nodes []node) mongo.Pipeline {
	refs, ids := bson.A{}, bson.A{}
	for _, n := range nodes {
		if s.checkUsable(n.ref) == nil {
			refs, ids = append(refs, s.refTo(&n)), append(ids, n.id)
		}
	}
	match := expr.D(s.refField, anyOf(refs))
	if s.derived == s.refField {
		match = expr.Op("$or", bson.A{match, s.bareUnderMatch(anyOf(ids))})
	}
	return mongo.Pipeline{expr.Op("$match", match), s.sorting()}
}

// childrenByParent groups the result of sortedChildren by what the children name.
func (s parented) childrenByParent(ctx context.Context, nodes []node) ([][]node, error) {
	found, err := s.aggregate(ctx, s.sortedChildren(nodes))
	if err != nil {
		return nil, err
	}
	out, offsets := make([][]node, len(nodes)), map[string]int{}
	for i, n := range nodes {
		for _, name := range s.namesOf(n.ref) {
			offsets[name] = i
		}
	}
	for _, child := range found {
		named, _ := s.representation.parent(child)
		if i, ok := offsets[s.refKey(named)]; ok { // not if the parent is an array, which matches by its elements
			out[i] = append(out[i], child)
		}
	}
	return out, nil
}

// prepareAdoption has nothing to write but the fields of the nodes, because these name their parents.
func (s parented) prepareAdoption(ctx context.Context, e *engine, b *batch) (found []finding, stale bool, err error) {
	return nil, false, e.readChildren(ctx, b)
}

// cut: a node has one parent, so no node outside leads into a cycle.
func (s parented) cut(node, *place) []mongo.WriteModel { return nil }

// addChildren changes the count only, because it is the children that name the parent.
func (s parented) addChildren(children []bson.RawValue) bson.D {
	return s.childCountBy(int64(len(children)))
}

func (s parented) fieldsOf(parent *node, _ []node) bson.D {
	return s.representation.fieldsUnder(parent)
}

// makeRoot leaves the nodes below to Repair where they name their parent by its ID. In a path they name the whole
// way, and would be orphans.
func (s parented) makeRoot(n node) []mongo.WriteModel {
	models := []mongo.WriteModel{update(s.idMatch(n.id), expr.Op("$set", s.representation.fieldsUnder(nil)))}
	if s.byParentField || s.checkUsable(n.ref) != nil {
		return models
	}
	return append(models, s.representation.updatesBelow(n, *s.nodeUnder(n.id, n.segment, nil))...)
}

// checkNotBare refuses a bare node: in these representations it is not adopted.
func (s parented) checkNotBare(n node) error {
	if s.isBare(n.raw) {
		return s.notAdopted(n.id)
	}
	return nil
}

func (s parented) checkAdopted(_ context.Context, n node) error { return s.checkNotBare(n) }

// checkWay: where the parent field has led to ancestors, nothing is missing.
func (s parented) checkWay(_ context.Context, id bson.RawValue, way int, bare bool) error {
	if !bare || way > 1 && s.byParentField {
		return nil
	}
	return s.notAdopted(id)
}

// orphaned is the error for a node that names a parent that does not exist.
func (s parented) orphaned(n node) error {
	return s.about(n.id, fmt.Errorf("%w: %s", mongopatterns.ErrNoParent, text(n.raw.Lookup(s.refField))))
}

// allChildrenMatch is the filter for the children of nodes.
func (s parented) allChildrenMatch(nodes []node) bson.D {
	refs := bson.A{}
	for _, n := range nodes {
		refs = append(refs, s.refTo(&n))
	}
	return append(expr.D(s.refField, anyOf(refs)), s.noArrayMatch(s.refField)...)
}
