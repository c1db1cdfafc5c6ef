package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// deletion is a deleted node with what was read for its children.
type deletion struct {
	x        node
	policy   mongopatterns.DeletePolicy
	children []node // only one for Restrict
	heir     *node  // gets the children, nil if they become roots
}

// removeOne deletes a node, and then looks for its children: see deleteOne. It returns the writes that move the
// children, in their order, to its parent, or make roots of them.
func (s oneParent) removeOne(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy) ([]mongo.WriteModel, error) {
	x, err := s.deleteOne(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.checkUsable(x.ref), s.checkNotBare(x), s.siblingOrder.checkNumbered(x)); err != nil {
		return nil, err
	}
	d, err := s.readForDelete(ctx, x, policy)
	if err != nil {
		return nil, err
	}
	if policy == mongopatterns.Restrict && len(d.children) > 0 {
		return nil, s.about(x.id, mongopatterns.ErrReferenced)
	}
	if err := cmp.Or(s.checkDerived(x), s.checkAllSound(x, d.children)); err != nil {
		return nil, err
	}
	gained := int64(-1) // children that the parent of x gets
	if policy == mongopatterns.Promote {
		gained += int64(len(d.children))
	}
	ordered, err := s.siblingOrder.afterDelete(ctx, d)
	if err != nil {
		return nil, err
	}
	models := append(s.changeChildCount(s.parentRef(x), gained), ordered...)
	if len(d.children) == 0 {
		return models, nil
	}
	return append(models, s.representation.handOver(x, d.heir)...), nil
}

// checkAllSound refuses the children of x, and x itself, if the fields of the children are computed from theirs, and
// these are not sound. Without children nothing is computed.
func (s oneParent) checkAllSound(x node, children []node) error {
	if len(children) == 0 || !s.inherits {
		return nil
	}
	for _, n := range append(slices.Clone(children), x) {
		if err := s.checkSound(n); err != nil {
			return err
		}
	}
	return nil
}

// readForDelete reads the children of x, and for Promote also the parent that gets them, in the same round trip.
func (s oneParent) readForDelete(ctx context.Context, x node, policy mongopatterns.DeletePolicy) (d deletion, err error) {
	d = deletion{x: x, policy: policy}
	match, parent := s.childrenAndBareMatch(x), s.parentRef(x)
	if policy == mongopatterns.Restrict {
		d.children, err = s.findAll(ctx, match, 1)
		return d, err
	}
	if policy == mongopatterns.Unlink || parent == nil {
		d.children, err = s.findAll(ctx, match)
		return d, err
	}
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{match, s.namedMatch(*parent)}))
	if err != nil {
		return d, err
	}
	for _, n := range nodes {
		if s.refKey(n.ref) == s.refKey(*parent) {
			d.heir = &n
		} else {
			d.children = append(d.children, n)
		}
	}
	if d.heir == nil {
		return d, s.orphaned(x)
	}
	return d, nil
}

// removeAll deletes a node and its descendants.
func (s oneParent) removeAll(ctx context.Context, id bson.RawValue) (deleted int64, after []mongo.WriteModel, err error) {
	remove := s.removeByFilter
	if s.descendantsFrom == fromQuery {
		remove = s.removeByIDs
	}
	x, deleted, err := remove(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	after, err = s.siblingOrder.afterCascade(x, deleted)
	return deleted, append(s.changeChildCount(s.parentRef(x), -1), after...), err
}

// removeByIDs is removeAll in ParentReferences, where the IDs of the descendants are read first.
func (s oneParent) removeByIDs(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	nodes, err := s.follow(ctx, id, s.representation.down(id, 0, true), s.allChildrenMatch)
	if err != nil {
		return x, 0, err
	}
	if x = pick(nodes, id); x.raw == nil {
		return x, 0, s.missing(id)
	}
	deleted, err = s.deleteIDs(ctx, idsOf(nodes))
	return x, deleted, err
}

// removeByFilter is removeAll where one filter matches all descendants.
func (s oneParent) removeByFilter(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	if x, err = s.readForCascade(ctx, id); err != nil {
		return x, 0, err
	}
	if err := cmp.Or(s.checkUsable(x.ref), s.siblingOrder.checkNumbered(x)); err != nil {
		return x, 0, err
	}
	below := append(s.representation.descendantsMatch(x, 0), s.noPathsMatch()...)
	done, err := fault.Many(s.primary.DeleteMany(ctx, expr.Op("$or", bson.A{s.idMatch(id), below})))
	if err != nil {
		return x, 0, err
	}
	return x, done.DeletedCount, nil
}

// bareMax bounds the bare nodes that Cascade reads, to find out whether they are below. It reads one more, and refuses
// them then.
const bareMax = 10_000

func (s *store) checkFew(bareNodes []node) error {
	if len(bareNodes) > bareMax {
		return fmt.Errorf("%w: more than %d nodes have no field %s, run Adopt", mongopatterns.ErrNotAdopted, bareMax, s.derived)
	}
	return nil
}

// readForCascade reads a node that is to be deleted with all below it. Those are found by the derived field, so it
// refuses if one of them lacks it. It reads all such nodes of the tree together with x; if there are any, it
// looks for one that has its parent below x.
func (s oneParent) readForCascade(ctx context.Context, id bson.RawValue) (x node, err error) {
	nodes, err := s.findAll(ctx, expr.Op("$or", bson.A{s.idMatch(id), s.bareMatch(s.anyParent())}), bareMax+1)
	if err != nil {
		return x, err
	}
	if err := s.checkFew(nodes); err != nil {
		return x, err
	}
	if x = pick(nodes, id); x.raw == nil {
		return x, s.missing(id)
	}
	if err := s.checkDerived(x); err != nil {
		return x, err
	}
	var parents []bson.RawValue
	for _, n := range nodes {
		if !s.isBare(n.raw) {
			continue
		}
		if same(n.parent, id) {
			return x, s.notAdopted(n.id)
		}
		parents = append(parents, n.parent)
	}
	if len(parents) == 0 {
		return x, nil
	}
	n, err := s.findOne(ctx, append(s.representation.descendantsMatch(x, 0), expr.Element(s.o.IDField, anyOf(parents))), nil)
	if err != nil || n.raw == nil {
		return x, err
	}
	return x, s.about(n.id, fmt.Errorf("%w: a child has no field %s, run Adopt or Repair", mongopatterns.ErrNotAdopted, s.derived))
}
