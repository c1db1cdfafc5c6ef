package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// ProblemKind is a sort of inconsistency.
type ProblemKind string

// The kinds of problems that Check finds.
const (
	// Orphan: the parent does not exist, or is an array of several.
	Orphan ProblemKind = "orphan"
	// Cycle: the node lies under itself.
	Cycle ProblemKind = "cycle"
	// WrongAncestors: the array is not the way up by the parents.
	WrongAncestors ProblemKind = "wrong ancestors"
	// WrongPath: the path is malformed or not that of the parent's children, or
	// the node's own segment is missing, holds the delimiter or has no string
	// form, which Repair cannot mend.
	WrongPath ProblemKind = "wrong path"
	// WrongRange: left and right are not numbers in order, or the children (of
	// the node, or the roots) overlap or leave gaps.
	WrongRange ProblemKind = "wrong range"
	// WrongChildren: the children are null or no array.
	WrongChildren ProblemKind = "wrong children"
	// DanglingChild: an element of children does not exist.
	DanglingChild ProblemKind = "dangling child"
	// DuplicateChild: an element of children is there twice.
	DuplicateChild ProblemKind = "duplicate child"
	// SeveralParents: more than one node has the node among its children.
	SeveralParents ProblemKind = "several parents"
	// WrongCount: the child counter is not the number of children.
	WrongCount ProblemKind = "wrong count"
	// WrongOrder: children of the node (or roots) have no position, one that is
	// no whole number, or share one.
	WrongOrder ProblemKind = "wrong order"
)

// Problem is one inconsistency at a node. For WrongRange and WrongOrder among
// the roots HasID is false.
type Problem[K any] struct {
	Kind   ProblemKind `json:"kind"`
	ID     K           `json:"id"`
	HasID  bool        `json:"hasId"`
	Detail string      `json:"detail"`
}

// String is the problem in one line.
func (p Problem[K]) String() string {
	if !p.HasID {
		return fmt.Sprintf("roots: %s: %s", p.Kind, p.Detail)
	}
	if id, err := encode.Value(nil, p.ID); err == nil {
		return fmt.Sprintf("%s: %s: %s", text(id), p.Kind, p.Detail)
	}
	return fmt.Sprintf("%v: %s: %s", p.ID, p.Kind, p.Detail)
}

// Check yields what is wrong with the tree. It reads 1,000 nodes at a time,
// each batch with its surroundings as of one moment, so that work done
// meanwhile is not reported as a problem (on a standalone server it may be).
// The IDs come from the primary and sorted; with a Scope and the IDField _id the
// server sorts those of the tree first.
//
// Cost: for each 1,000 nodes at most 6 round trips (IDs, nodes, ways up or
// parents, children, commit), and 2 for the roots; writes nothing.
func (t *Tree[K, T]) Check(ctx context.Context) iter.Seq2[Problem[K], error] {
	return func(yield func(Problem[K], error) bool) {
		report := func(found []finding, err error) bool {
			for _, f := range found {
				p := Problem[K]{Kind: f.kind, HasID: f.id.Type != 0, Detail: f.detail}
				if p.HasID {
					if err := t.c.decodeID(f.id, &p.ID); err != nil {
						yield(Problem[K]{}, fail("check", err))
						return false
					}
				}
				if !yield(p, nil) {
					return false
				}
			}
			if err != nil {
				yield(Problem[K]{}, fail("check", err))
				return false
			}
			return true
		}
		if !report(t.c.audited(ctx, nil)) {
			return
		}
		for ids, err := range t.c.batches(ctx, defaultBatch) {
			if err != nil {
				report(nil, err)
				return
			}
			if !report(t.c.audited(ctx, ids)) {
				return
			}
		}
	}
}

// finding is a problem and what mends it.
type finding struct {
	kind   ProblemKind
	id     bson.RawValue
	detail string
	// fix mends it inside a transaction that holds the lock; nil if nothing
	// can. uproot means that it makes the node a root.
	fix      func(ctx context.Context) error
	uproot   bool
	renumber bool
}

// audited runs audit at one moment; no IDs are the roots.
func (c *core) audited(ctx context.Context, ids []bson.RawValue) (found []finding, err error) {
	run := func(ctx context.Context) (err error) {
		found, err = c.audit(ctx, ids)
		return err
	}
	err = txn.Run(ctx, c.coll.Database().Client(), run)
	if errors.Is(err, txn.ErrUnsupported) {
		err = run(ctx)
	}
	return found, err
}

func (c *core) audit(ctx context.Context, ids []bson.RawValue) ([]finding, error) {
	if ids == nil {
		return c.auditRoots(ctx)
	}
	nodes, err := c.findAll(ctx, c.byIDs(ids))
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	var found []finding
	switch c.rep {
	case MaterializedPath:
		found, err = c.auditPaths(ctx, nodes)
	case ChildReferences:
		found, err = c.auditChildren(ctx, nodes)
	default:
		found, err = c.auditParents(ctx, nodes)
	}
	if err != nil || c.o.OrderField == "" && c.o.ChildCountField == "" && c.rep != NestedSets {
		return found, err
	}
	below, err := c.childNodes(ctx, nodes)
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		kids := below[i]
		if c.rep == NestedSets {
			found = append(found, c.auditRange(n, kids)...)
		}
		found = append(found, c.auditOrder(n.id, kids)...)
		if f := c.o.ChildCountField; f != "" {
			want := int64(len(kids))
			if got, ok := integral(n.raw.Lookup(f)); !ok || got != want {
				found = append(found, finding{kind: WrongCount, id: n.id,
					detail: fmt.Sprintf("%s is %s, there are %d children", f, text(n.raw.Lookup(f)), want),
					fix:    c.setter(n, d(f, want))})
			}
		}
	}
	return found, nil
}

func (c *core) setter(n node, set bson.D) func(context.Context) error {
	return func(ctx context.Context) error { return c.set(ctx, c.byID(n.id), d("$set", set)) }
}

func (c *core) auditRoots(ctx context.Context) ([]finding, error) {
	if c.o.OrderField == "" && c.rep != NestedSets {
		return nil, nil
	}
	roots, err := c.aggregate(ctx, c.placedRoots())
	if err != nil {
		return nil, err
	}
	if c.rep == NestedSets {
		for i, n := range roots {
			if i > 0 && n.left <= roots[i-1].right {
				return []finding{{kind: WrongRange, detail: fmt.Sprintf("%s and %s overlap", text(roots[i-1].id), text(n.id)), renumber: true}}, nil
			}
		}
	}
	return c.auditOrder(bson.RawValue{}, roots), nil
}

// auditOrder looks at siblings, which come sorted.
func (c *core) auditOrder(parent bson.RawValue, kids []node) []finding {
	f := c.o.OrderField
	if f == "" {
		return nil
	}
	for i, n := range kids {
		detail := ""
		if _, ok := integral(n.raw.Lookup(f)); !ok {
			detail = fmt.Sprintf("%s of %s is %s", f, text(n.id), text(n.raw.Lookup(f)))
		} else if i > 0 && n.order <= kids[i-1].order {
			detail = fmt.Sprintf("%s and %s have %s %d", text(kids[i-1].id), text(n.id), f, n.order)
		}
		if detail != "" {
			return []finding{{kind: WrongOrder, id: parent, detail: detail, fix: func(ctx context.Context) error {
				var models []mongo.WriteModel
				for i, n := range kids {
					models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(n.id)).
						SetUpdate(d("$set", d(f, int64(i)*orderGap))))
				}
				return c.bulk(ctx, models)
			}}}
		}
	}
	return nil
}

// numbered reports whether both numbers of a nested set are there.
func (c *core) numbered(n node) bool {
	_, left := integral(n.raw.Lookup(c.o.LeftField))
	_, right := integral(n.raw.Lookup(c.o.RightField))
	return left && right
}

func (c *core) auditRange(n node, kids []node) []finding {
	next := n.left + 1
	detail := ""
	for _, kid := range kids {
		if kid.left != next && detail == "" {
			detail = fmt.Sprintf("%s begins at %d, not at %d", text(kid.id), kid.left, next)
		}
		next = kid.right + 1
	}
	switch {
	case n.left < 1 || n.right <= n.left || !c.numbered(n):
		detail = fmt.Sprintf("%s is %s, %s is %s", c.o.LeftField, text(n.raw.Lookup(c.o.LeftField)),
			c.o.RightField, text(n.raw.Lookup(c.o.RightField)))
	case detail == "" && next != n.right:
		detail = fmt.Sprintf("right is %d, the children end at %d", n.right, next-1)
	}
	if detail == "" {
		return nil
	}
	return []finding{{kind: WrongRange, id: n.id, detail: detail, renumber: true}}
}

// chains reads the ways up from nodes: for each ID the node and its ancestors,
// root first.
func (c *core) chains(ctx context.Context, up func(*core, bson.D) mongo.Pipeline, nodes []node) (map[string][]node, error) {
	var ids []bson.RawValue
	for _, n := range nodes {
		if n.badPath == nil { // it has none
			ids = append(ids, n.id)
		}
	}
	rows, err := c.aggregate(ctx, append(up(c, c.byIDs(ids)), d("$project", c.projection())))
	if err != nil {
		return nil, err
	}
	out := map[string][]node{}
	for _, row := range rows {
		k := key(row.start)
		out[k] = append(out[k], row)
	}
	for start, chain := range out {
		sort.SliceStable(chain, func(i, j int) bool { return chain[i].depth > chain[j].depth })
		if c.rep != MaterializedPath && c.rep != ChildReferences {
			out[start] = wayUp(chain)
		}
	}
	return out, nil
}

// wayUp leaves of a chain what the parents lead to: $graphLookup also follows
// the elements of an array.
func wayUp(chain []node) (up []node) {
	byID := map[string]node{}
	for _, a := range chain {
		byID[key(a.id)] = a
	}
	for at, ok := chain[len(chain)-1], true; ok; at, ok = byID[key(at.parent)] {
		delete(byID, key(at.id))
		up = append(up, at)
	}
	slices.Reverse(up)
	return up
}

// auditParents checks the representations with a parent field.
func (c *core) auditParents(ctx context.Context, nodes []node) ([]finding, error) {
	chains, err := c.chains(ctx, parentField{}.up, nodes)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, n := range nodes {
		chain := chains[key(n.id)]
		if len(chain) == 0 {
			continue
		}
		top := chain[0]
		if isNull(n.parent) || len(chain) > 1 {
			if loop := cycleOf(n, chain); loop != nil {
				f := finding{kind: Cycle, id: n.id, detail: fmt.Sprintf("one of %d", len(loop))}
				if smallest(n.id, loop) {
					f.fix, f.uproot = c.uproot(n), true
				}
				found = append(found, f)
				continue
			}
		} else if same(n.parent, n.id) {
			found = append(found, finding{kind: Cycle, id: n.id, detail: "its own parent", fix: c.uproot(n), uproot: true})
			continue
		} else {
			detail := "no parent " + text(n.parent)
			if n.parent.Type == bson.TypeArray {
				detail = "the parent is an array: " + text(n.parent)
			}
			found = append(found, finding{kind: Orphan, id: n.id, detail: detail, fix: c.uproot(n), uproot: true})
			continue
		}
		if c.rep != AncestorArray || !isNull(top.parent) {
			continue // what is under an orphan or a cycle has no ancestors to compare
		}
		var want []bson.RawValue
		for _, a := range chain[:len(chain)-1] {
			want = append(want, a.id)
		}
		_, isArray := n.raw.Lookup(c.o.AncestorsField).ArrayOK()
		if !isArray || !sameIDs(n.ancestors, want) {
			parent := chain[max(0, len(chain)-2)]
			parent.ancestors = want[:max(0, len(want)-1)]
			set := ancestorArray{}.place(c, nil)
			if len(want) > 0 {
				set = ancestorArray{}.place(c, &parent)
			}
			found = append(found, finding{kind: WrongAncestors, id: n.id,
				detail: fmt.Sprintf("%s, the parents say %s", text(n.raw.Lookup(c.o.AncestorsField)), texts(want)), fix: c.setter(n, set[:1])})
		}
	}
	return found, nil
}

// uproot makes a node a root.
func (c *core) uproot(n node) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		switch s := c.shape.(type) {
		case linked:
			if err := c.vacant(ctx, nil, n); err != nil {
				return err
			}
			if err := c.set(ctx, c.byID(n.id), d("$set", s.place(c, nil))); err != nil {
				return err
			}
			if c.rep != MaterializedPath {
				return nil // the arrays below are WrongAncestors now
			}
			return pathShape{}.replace(ctx, c, c.full(n), c.o.PathDelimiter+n.segment+c.o.PathDelimiter)
		case childRefs:
			models, err := s.unlinkAll(ctx, c, n.id)
			if err != nil {
				return err
			}
			return c.bulkAll(ctx, models)
		}
		return c.set(ctx, c.byID(n.id), d("$set", d(c.o.ParentField, nil)))
	}
}

// errTaken says that a node cannot go where Repair would put it.
var errTaken = errors.New("a sibling has the segment")

// vacant is errTaken if a path has another node with the segment of n: the
// unique index would end the transaction.
func (c *core) vacant(ctx context.Context, path any, n node) error {
	if c.rep != MaterializedPath || c.o.SegmentField == c.o.IDField {
		return nil
	}
	_, err := c.findOne(ctx, c.in(c.o.PathField, path, c.o.SegmentField, n.segment, c.o.IDField, d("$ne", n.id)), ErrNotFound)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = errTaken
	}
	return err
}

// cycleOf gives the IDs on the cycle that n is part of, or nil. The chain is
// the way up by the parent field.
func cycleOf(n node, chain []node) []bson.RawValue {
	byID := map[string]node{}
	for _, a := range chain {
		byID[key(a.id)] = a
	}
	var loop []bson.RawValue
	for at := n; len(loop) <= len(chain); {
		loop = append(loop, at.id)
		next, ok := byID[key(at.parent)]
		if !ok || isNull(at.parent) {
			return nil
		}
		if same(next.id, n.id) {
			return loop
		}
		at = next
	}
	return nil
}

func smallest(id bson.RawValue, of []bson.RawValue) bool {
	for _, o := range of {
		if less(o, id) {
			return false
		}
	}
	return true
}

// less orders IDs of one type: strings and numbers as the server does.
func less(a, b bson.RawValue) bool {
	if s, ok := a.StringValueOK(); ok && b.Type == bson.TypeString {
		return s < b.StringValue()
	}
	if n, ok := a.AsInt64OK(); ok && b.IsNumber() {
		return n < b.AsInt64()
	}
	return key(a) < key(b)
}

func sameIDs(a, b []bson.RawValue) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (c *core) auditPaths(ctx context.Context, nodes []node) ([]finding, error) {
	chains, err := c.chains(ctx, c.shape.up, nodes)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, n := range nodes {
		if n.badPath != nil {
			found = append(found, finding{kind: WrongPath, id: n.id,
				detail: fmt.Sprintf("%s is %s: %v", c.o.SegmentField, text(n.raw.Lookup(c.o.SegmentField)), n.badPath)})
			continue
		}
		segments := c.segments(n.path)
		sep := c.o.PathDelimiter
		var parent *node
		for _, a := range chains[key(n.id)] {
			if a.depth == 1 {
				parent = &a
			}
		}
		stored := n.raw.Lookup(c.o.PathField)
		_, isString := stored.StringValueOK()
		switch {
		case !isString && !isNull(stored),
			isString && n.path != "" && n.path != sep+strings.Join(segments, sep)+sep,
			isString && n.path == "":
			found = append(found, finding{kind: WrongPath, id: n.id, detail: fmt.Sprintf("malformed: %s", text(stored)),
				fix: c.uproot(n), uproot: true})
		case len(segments) == 0:
		case parent == nil:
			found = append(found, finding{kind: Orphan, id: n.id, detail: fmt.Sprintf("no parent for %s", n.path),
				fix: c.uproot(n), uproot: true})
		case c.full(*parent) != n.path:
			f := finding{kind: WrongPath, id: n.id,
				detail: fmt.Sprintf("%s, under its parent it is %s", n.path, c.full(*parent))}
			p := *parent
			if p.segment == n.segment || strings.Contains(p.path, sep+n.segment+sep) {
				f.kind, f.uproot = Cycle, true
				f.fix = func(ctx context.Context) error {
					// Another node of the cycle may have been made a root.
					now, err := c.find(ctx, n.id, ErrNotFound)
					if err != nil {
						return err
					}
					again, err := c.auditPaths(ctx, []node{now})
					if err != nil || len(again) == 0 || again[0].kind != Cycle {
						return err
					}
					return c.uproot(now)(ctx)
				}
			} else {
				f.fix = func(ctx context.Context) error {
					// The parent may have been mended since.
					now, err := c.find(ctx, p.id, ErrParentNotFound)
					if err != nil {
						return err
					}
					if err := c.vacant(ctx, c.full(now), n); err != nil {
						return err
					}
					if err := c.set(ctx, c.byID(n.id), d("$set", d(c.o.PathField, c.full(now)))); err != nil {
						return err
					}
					return pathShape{}.rebase(ctx, c, n, &now)
				}
			}
			found = append(found, f)
		}
	}
	return found, nil
}

func (c *core) auditChildren(ctx context.Context, nodes []node) ([]finding, error) {
	r := childRefs{}
	below, err := c.childNodes(ctx, nodes)
	if err != nil {
		return nil, err
	}
	chains, err := c.chains(ctx, r.up, nodes)
	if err != nil {
		return nil, err
	}
	var found []finding
	for i, n := range nodes {
		exists := map[string]bool{}
		for _, kid := range below[i] {
			exists[key(kid.id)] = true
		}
		var keep []bson.RawValue
		seen := map[string]bool{}
		bad := map[ProblemKind]bson.RawValue{}
		for _, id := range n.children {
			switch {
			case !exists[key(id)]:
				bad[DanglingChild] = id
			case seen[key(id)]:
				bad[DuplicateChild] = id
			default:
				keep = append(keep, id)
			}
			seen[key(id)] = true
		}
		if keep == nil {
			keep = []bson.RawValue{}
		}
		for _, kind := range []ProblemKind{DanglingChild, DuplicateChild} {
			if id, ok := bad[kind]; ok {
				found = append(found, finding{kind: kind, id: n.id, detail: text(id),
					fix: c.setter(n, d(c.o.ChildrenField, keep))})
			}
		}
		if v := n.raw.Lookup(c.o.ChildrenField); v.Type != 0 && v.Type != bson.TypeArray {
			found = append(found, finding{kind: WrongChildren, id: n.id, detail: fmt.Sprintf("%s is %s", c.o.ChildrenField, text(v)),
				fix: c.setter(n, d(c.o.ChildrenField, bson.A{}))})
		}
		chain := chains[key(n.id)]
		loop := loopOf(n, chain)
		onLoop := map[string]bool{}
		for _, id := range loop {
			onLoop[key(id)] = true
		}
		var parents, within []node
		entries := map[string]bson.RawValue{} // nodes of the loop that others lead to
		for _, a := range chain {
			if refers(a, n.id) {
				parents = append(parents, a)
				if onLoop[key(a.id)] {
					within = append(within, a)
				}
			}
			for _, id := range a.children {
				if onLoop[key(id)] && !onLoop[key(a.id)] {
					entries[key(id)] = id
				}
			}
		}
		if !c.o.Graph && len(parents) > 1 {
			sort.Slice(parents, func(i, j int) bool {
				if a, b := onLoop[key(parents[i].id)], onLoop[key(parents[j].id)]; a != b {
					return b
				}
				return less(parents[i].id, parents[j].id)
			})
			found = append(found, finding{kind: SeveralParents, id: n.id,
				detail: fmt.Sprintf("%d parents", len(parents)), fix: func(ctx context.Context) error {
					var models []mongo.WriteModel
					for _, p := range parents[1:] {
						models = append(models, r.unlink(c, p, n.id))
					}
					return c.bulk(ctx, models)
				}})
		}
		if loop != nil {
			f := finding{kind: Cycle, id: n.id, detail: fmt.Sprintf("one of %d", len(loop))}
			switch {
			case len(entries) == 0:
				if smallest(n.id, loop) {
					f.fix, f.uproot = c.uproot(n), true
				}
			case !c.o.Graph: // the entries have several parents, which is mended
			case entries[key(n.id)].Type != 0 && smallest(n.id, slices.Collect(maps.Values(entries))):
				f.fix = func(ctx context.Context) error {
					var models []mongo.WriteModel
					for _, p := range within {
						models = append(models, r.unlink(c, p, n.id))
					}
					return c.bulk(ctx, models)
				}
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// integral is the number that v is, if it is a whole one.
func integral(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return v.AsInt64OK()
}

func refers(n node, child bson.RawValue) bool {
	for _, id := range n.children {
		if same(id, child) {
			return true
		}
	}
	return false
}

// loopOf gives the IDs that lie both above and below n, or nil; the chain holds
// n and what is above it.
func loopOf(n node, chain []node) []bson.RawValue {
	above := map[string]node{}
	for _, a := range chain {
		above[key(a.id)] = a
	}
	reached := map[string]bool{}
	var loop []bson.RawValue
	for todo := []node{n}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, id := range at.children {
			if next, ok := above[key(id)]; ok && !reached[key(id)] {
				reached[key(id)] = true
				loop = append(loop, id)
				todo = append(todo, next)
			}
		}
	}
	if !reached[key(n.id)] {
		return nil
	}
	return loop
}
