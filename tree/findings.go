package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// finding is problems of one node, and the writes that repair them together.
type finding struct {
	id       bson.RawValue // of the node; Problem.ID is the _id
	problems []mongopatterns.Problem
	writes   []mongo.WriteModel // none: the problems remain
	remedy   remedy
}

// remedy says what the writes of a finding change, besides the fields of the node.
type remedy int

const (
	byFields      remedy = iota
	byMoving             // the node, and all below it, get another way up
	byNewRoot            // so they do, and the node becomes a root, which needs Options.MakeRoots
	byRenumbering        // none are needed: numbers.renumber repairs all such findings
)

// moves reports whether the writes give the node another way up.
func (f finding) moves() bool { return f.remedy == byMoving || f.remedy == byNewRoot }

// problem describes what is wrong with n in the tree that is checked, with the value that the field has now.
func (e *engine) problem(kind mongopatterns.ProblemKind, n node, field, detail string) mongopatterns.Problem {
	return mongopatterns.Problem{Pattern: "tree", Kind: kind, Collection: e.to.coll.Name(),
		ID: n.raw.Lookup("_id"), Field: field, Detail: detail, Have: e.to.field(n.raw, field)}
}

// findingOf is a finding of one problem.
func findingOf(n node, p mongopatterns.Problem, writes ...mongo.WriteModel) finding {
	return finding{id: n.id, problems: []mongopatterns.Problem{p}, writes: writes}
}

// batch is nodes that are looked at together, each with its place and its children.
type batch struct {
	nodes    []node
	places   []*place
	children [][]node
	writing  bool // the lock is held, and the findings will be written
}

// look returns the findings of nodes that were just read; writing is that of batch.
func (e *engine) look(ctx context.Context, nodes []node, writing bool) ([]finding, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	places, err := e.climb(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer e.forgetUnrooted()
	b := &batch{nodes: nodes, places: places, writing: writing}
	if e.keepsPlaces {
		return e.lookToAdopt(ctx, b)
	}
	if err := e.readChildren(ctx, b); err != nil {
		return nil, err
	}
	return e.findings(b), nil
}

// lookToAdopt is the rest of look where nodes are adopted. If places are stale and will be written, it looks again, which
// in one transaction cannot find them stale a second time.
func (e *engine) lookToAdopt(ctx context.Context, b *batch) ([]finding, error) {
	nodes := b.nodes // without those that prepareAdoption adds
	found, stale, err := e.to.prepareAdoption(ctx, e, b)
	if err != nil {
		return nil, err
	}
	if stale && b.writing {
		e.forget(e.epoch)
		return e.look(ctx, nodes, true)
	}
	return append(found, e.findings(b)...), nil
}

// readChildren reads the children of a batch, if a count, an order, numbers or a list has to be compared with them.
func (e *engine) readChildren(ctx context.Context, b *batch) (err error) {
	b.children = make([][]node, len(b.nodes))
	if e.comparesCounts() || e.to.namesChildren || e.to.sortField != "" {
		b.children, err = e.from.childrenByParent(ctx, b.nodes)
	}
	return err
}

func (e *engine) comparesCounts() bool { return !e.leavesSiblings && e.to.o.ChildCountField != "" }

func (e *engine) findings(b *batch) (found []finding) {
	for i, n := range b.nodes {
		found = append(found, e.examine(n, b.places[i], b.children[i])...)
	}
	return found
}

// examine compares one node with what its place and its children require.
func (e *engine) examine(n node, at *place, children []node) (found []finding) {
	if !e.converts() {
		found = e.audit(n, at, children)
	}
	if at.adopted {
		return found
	}
	found = append(found, e.unreachable(n, at)...)
	if e.converts() && e.asParent(at) == nil {
		return found
	}
	found = append(found, e.wrongFields(n, at, children)...)
	if e.leavesSiblings {
		return found
	}
	return append(found, e.disorder(n, children)...)
}

// audit is that of the shape, for a node that has an ID.
func (e *engine) audit(n node, at *place, children []node) []finding {
	if err := checkID(n.id); err != nil {
		return []finding{findingOf(n, e.problem(mongopatterns.WrongField, n, e.to.o.IDField, err.Error()))}
	}
	return e.to.audit(e, n, at, children)
}

// unreachable is the finding that no root leads to a node.
func (e *engine) unreachable(n node, at *place) []finding {
	if !e.converts() && (at.lost != "" || at.cycle != nil) {
		return []finding{e.misplaced(n, at)}
	}
	if !e.repairs && e.asParent(at) == nil {
		return []finding{findingOf(n, e.problem(mongopatterns.Orphan, n, "", "no root leads to it"))}
	}
	return nil
}

// misplaced is the finding for an orphan or for a node on a cycle. On a cycle that no node outside leads to, only one
// node carries writes, because one cut opens it.
func (e *engine) misplaced(n node, at *place) finding {
	if at.cycle == nil {
		kind := mongopatterns.Orphan
		if at.lost == malformed {
			kind = mongopatterns.WrongField
		}
		return e.rootFinding(n, e.problem(kind, n, e.from.refField, at.lost))
	}
	p := e.problem(Cycle, n, e.from.refField, fmt.Sprintf("one of %d", len(at.cycle.places)))
	if at.cycle.entered {
		f := findingOf(n, p, e.from.cut(n, at)...)
		f.remedy = byMoving
		return f
	}
	if at == at.cycle.places[0] {
		return e.rootFinding(n, p)
	}
	return findingOf(n, p)
}

// rootFinding is the finding of a problem that is solved by making a root of the node.
func (e *engine) rootFinding(n node, p mongopatterns.Problem) finding {
	f := findingOf(n, p, e.from.makeRoot(n)...)
	f.remedy = byNewRoot
	return f
}

// wrongFields are the fields of a node that differ from those that it should have: one finding, because all of them are
// one write.
func (e *engine) wrongFields(n node, at *place, children []node) []finding {
	var set bson.D
	f := finding{id: n.id}
	for _, want := range e.wanted(at, children) {
		if p, wrong := e.compare(n, want); wrong {
			set = append(set, expr.Element(want.Key, p.Want))
			f.problems = append(f.problems, p)
		}
	}
	if len(set) == 0 {
		return nil
	}
	f.writes = []mongo.WriteModel{update(e.to.idMatch(n.id), expr.Op("$set", set))}
	return []finding{f}
}

// wanted are the fields that a node should have. A list of children is not derived from anything, unless the tree is
// converted: audit examines it.
func (e *engine) wanted(at *place, children []node) (fields bson.D) {
	if self := e.asParent(at); self != nil && (e.converts() || !e.to.namesChildren) {
		fields = e.to.fieldsOf(self.placedUnder, children)
	}
	if e.comparesCounts() {
		fields = append(fields, expr.Element(e.to.o.ChildCountField, int64(len(children))))
	}
	return fields
}

// compare returns a problem if a field does not have the value that it should have.
func (e *engine) compare(n node, want bson.E) (p mongopatterns.Problem, wrong bool) {
	v, err := e.to.codec.Value(want.Value)
	if err != nil {
		return p, false
	}
	have := n.raw.Lookup(want.Key)
	if have.Equal(v) || same(have, v) || e.alike(want.Key, have, v) {
		return p, false
	}
	p = e.problem(mongopatterns.WrongField, n, want.Key, "")
	p.Want = v
	return p, true
}

// alike reports whether two values of a field mean the same: null, missing and RootParent do, where the field is not new.
// But Delete refuses a root without a path, and $graphLookup fails for undefined.
func (e *engine) alike(field string, have, want bson.RawValue) bool {
	if have.Type == bson.TypeUndefined || !slices.Contains(e.from.fields, field) {
		return false
	}
	if field == e.to.o.ParentField && e.to.noParent(have) && e.to.noParent(want) {
		return true
	}
	return isNull(have) && isNull(want) && (have.Type != 0 || field != e.to.derived)
}

// disorder is the finding that the orders of children, or of the roots, are not distinct whole numbers. It belongs to
// the parent, noNode for the roots, because one write may renumber all children.
func (e *engine) disorder(parent node, children []node) []finding {
	if !e.converts() && e.to.o.OrderField == "" {
		return nil
	}
	writes := e.to.fixOrder(children)
	if len(writes) == 0 {
		return nil
	}
	p := e.problem(WrongOrder, parent, "", e.to.sortField+" of children is missing, no whole number, or twice the same")
	return []finding{findingOf(parent, p, writes...)}
}

// noNode is in place of the parent of the roots, in findings about these.
var noNode = node{}

// lookAtRoots returns the findings of the roots as siblings.
func (e *engine) lookAtRoots(ctx context.Context) ([]finding, error) {
	if e.to.sortField == "" {
		return nil, nil
	}
	roots, err := e.from.readRoots(ctx)
	if err != nil {
		return nil, err
	}
	found := e.disorder(noNode, roots)
	if e.converts() || e.to.numbers == nil {
		return found, nil
	}
	return append(found, e.to.numbers.auditRoots(e, roots)...), nil
}
