package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// engine is Check, Repair, Adopt and Convert. One scan in the order of _id reads all nodes. For each it finds the
// way up to a root as the tree from stores it, computes the fields that the node should have in the tree to,
// compares, and writes the difference. For Check and Repair both are the same tree.
//
// Ways up share their upper parts. known keeps every node that was met, so that each is read only once besides
// its own turn in the scan, and the whole is linear in the nodes. It is valid as long as the counter in the lock
// document shows that nobody restructured the tree, and it is bounded by knownMax.
//
// A batch is examined twice. The first look, outside transactions, is cheap and finds suspects; some of them may
// be nodes that are moving at that moment. Only suspects are examined again: by Check in a snapshot, by the
// others in a transaction that holds the lock and writes.
type engine struct {
	from, to *core
	catchUp  bool              // Adopt: nodes that have a place in to are not written
	quick    bool              // Adopt: write derived fields only, and move no node
	known    map[string]*place // by the ID, and by what children name
	fresh    []string          // keys that known got in this look
	counter  int64             // of the lock document, when known was begun
	writing  bool              // under the lock: the findings will be written
	ahead    bool              // the scan may have read nodes before the counter had its value
	visits   int               // the last number that connect gave

	dry, moved, numberAll bool // dry run; ways up have changed; nested sets have to be numbered
}

const (
	knownMax = 200_000 // places in memory
	// writesMax bounds the bytes of derived fields in a transaction. Each element of an array of ancestors is a
	// key of the index, too.
	writesMax = 512 << 10
)

// place says where a node is. Nodes below share it, so it holds no way up, only the next step of it.
type place struct {
	id       bson.RawValue
	segment  bson.RawValue // in to
	node     node          // as it was read, until connect has run
	bare     bool          // see isBare
	parent   bson.RawValue // that it named
	kept     bool          // it keeps the place that it has in to: see catchUp
	computed *node         // the result of compute
	ups      []*place      // its parents; several only in ChildReferences
	lost     string        // why it has no parent though it names one
	loop     []*place      // the cycle that it lies on, see circle
	closing  []*place      // its parents on the cycle whose links close it
	rooted   bool          // every way up ends at a root
	reached  bool          // a way up ends at a root
	unlisted bool          // ChildReferences: it has no array, and the parent that it names does not list it

	resolved       bool   // ups or lost is final
	named          string // the parent that the node named when it was resolved
	visit, lowlink int    // see connect; at the end lowlink is that of the component
	stacked        bool
}

// finding is a problem, and the writes that repair it.
type finding struct {
	mongopatterns.Problem
	id        bson.RawValue      // of the node; Problem.ID is the _id
	writes    []mongo.WriteModel // none: it remains
	joint     bool               // the last finding of the node has the write that repairs this one, too
	makesRoot bool               // the node becomes a root, which needs Options.MakeRoots
	moves     bool               // the node, and all below it, get another way up
	renumber  bool               // shape.renumber repairs it
}

// finding describes a problem of n in the tree that is checked, with the value that the field has now.
func (e *engine) finding(kind mongopatterns.ProblemKind, n node, field, detail string, writes ...mongo.WriteModel) finding {
	return finding{id: n.id, writes: writes, Problem: mongopatterns.Problem{Pattern: "tree", Kind: kind, Collection: e.to.coll.Name(),
		ID: n.raw.Lookup("_id"), Field: field, Detail: detail, Have: e.to.field(n.raw, field)}}
}

// forget drops all places. counter is that of the lock document from now on, -1 if it could not be read.
func (e *engine) forget(counter int64) {
	e.known, e.counter, e.visits = map[string]*place{}, counter, 0
}

// newEngine gives from the projection of both trees, because the nodes that it reads are compared in to.
func newEngine(from, to *core) *engine {
	if from != to {
		from = from.withProjection(projection(from.store, to.store)).core()
	}
	return &engine{from: from, to: to}
}

// scan selects the nodes of the tree. A document without an ID cannot be one.
func (e *engine) scan() maintain.Scan {
	nodes := e.from.in(e.from.o.IDField, expr.Op("$ne", nil))
	return maintain.Scan{Filter: nodes, Projection: projection(e.from.store, e.to.store)}
}

// climb finds the places of nodes: it reads the parents of all nodes at once, then their parents, until every
// way meets a place that is known. So a batch costs a query for each new level and not for each node.
func (e *engine) climb(ctx context.Context, nodes []node) ([]*place, error) {
	if len(e.known) > knownMax || slices.ContainsFunc(nodes, e.elsewhere) {
		e.forget(e.counter)
	}
	all := make([]*place, len(nodes))
	for i, n := range nodes {
		all[i] = e.place(n)
	}
	for todo := all; len(todo) > 0; {
		var asking []*place
		for _, s := range todo {
			if e.asks(s) {
				asking = append(asking, s)
			}
		}
		var err error
		if todo, err = e.ascend(ctx, asking); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		e.connect(s, &[]*place{})
	}
	return all, nil
}

// elsewhere reports whether a node names another parent than when its place was found. Old code moves nodes without
// the lock, so the counter does not show it. The place and those below it are wrong then.
func (e *engine) elsewhere(n node) bool {
	s := e.known[key(n.id)]
	if s == nil || !s.resolved {
		return false
	}
	if e.known[e.from.refKey(n)] != s {
		return true
	}
	// In ChildReferences the parent field says where a node without an array is.
	if e.from.isBare(n.raw) && (s.kept || !s.bare || !same(n.parent, s.parent)) {
		return true
	}
	up, _ := e.from.parent(n)
	return !s.kept && s.named != e.from.refKey(up)
}

// asks links a place to its parent if that is known, and reports whether the parent has to be read.
func (e *engine) asks(s *place) bool {
	if s.resolved {
		return false
	}
	s.resolved = true
	ref, broken := e.from.parent(s.node)
	s.named, s.lost = e.from.refKey(ref), broken
	if broken != "" || s.kept {
		return false
	}
	if up := e.known[s.named]; up != nil {
		s.ups = []*place{up}
		return false
	}
	return s.named != "" || e.from.namesChildren
}

// ascend reads the parents of places, links the places to them, and returns the places of the parents.
func (e *engine) ascend(ctx context.Context, places []*place) (parents []*place, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	nodes, byKey := make([]node, len(places)), map[string]*place{}
	for i, s := range places {
		nodes[i], byKey[key(s.id)] = s.node, s
	}
	found, err := e.from.findAll(ctx, e.from.parents(nodes))
	if err != nil {
		e.forget(e.counter) // resolved places without parents must not stay: the transaction may run again
		return nil, err
	}
	for _, p := range found {
		up := e.place(p)
		parents = append(parents, up)
		for _, id := range p.children { // in ChildReferences
			if s := byKey[key(id)]; s != nil && !slices.Contains(s.ups, up) {
				s.ups = append(s.ups, up)
			}
		}
	}
	for _, s := range places {
		e.linkRead(s)
	}
	return parents, nil
}

// linkRead gives a place the parent that its node names, or says why it has none. The parents that list it are linked
// already.
func (e *engine) linkRead(s *place) {
	ref := e.from.named(s)
	if s.unlisted && s.lost == "" && e.converts() {
		s.lost = "not adopted"
	}
	if s.lost != "" {
		return
	}
	if up := e.known[e.from.refKey(ref)]; up != nil {
		s.ups = []*place{up}
	} else if e.from.isParent(ref) {
		s.lost = "there is no such parent"
	}
}

// place returns the place of a node that was read, a new one if it was not met before.
func (e *engine) place(n node) *place {
	k := key(n.id)
	s := e.known[k]
	if s == nil {
		s = &place{id: value.Clone(n.id), segment: value.Clone(e.to.field(n.raw, e.to.o.SegmentField)), node: n,
			bare: e.from.isBare(n.raw), parent: value.Clone(n.parent)}
		for _, k := range []string{k, e.from.refKey(n)} {
			e.known[k] = s
			e.fresh = append(e.fresh, k)
		}
	}
	// A node that has the field, perhaps since the last look, keeps its place: climb does not go above it.
	if e.catchUp && !s.kept && n.raw.Lookup(e.to.refField).Type != 0 {
		s.kept, s.computed = true, &node{id: s.id, segment: s.segment, path: e.to.parse(n.raw).path}
	}
	return s
}

// connect is Tarjan's algorithm for strongly connected components: it finds the cycles. It finishes a node after
// all that is above it, so that rooted of the parents is final when it decides that of the node. It is also
// where a place gives up its node, to save memory.
func (e *engine) connect(s *place, stack *[]*place) {
	if s.visit > 0 {
		return
	}
	e.visits++
	s.visit, s.lowlink, s.stacked = e.visits, e.visits, true
	*stack = append(*stack, s)
	for _, up := range s.ups {
		e.connect(up, stack)
		if up.stacked {
			s.lowlink = min(s.lowlink, up.lowlink)
		}
	}
	if s.lowlink == s.visit { // s and all after it on the stack are one component
		at := len(*stack) - 1
		for (*stack)[at] != s {
			at--
		}
		component := slices.Clone((*stack)[at:])
		*stack = (*stack)[:at]
		reached := slices.ContainsFunc(component, func(o *place) bool {
			return o.lost == "" && len(o.ups) == 0 || slices.ContainsFunc(o.ups, func(up *place) bool { return up.reached })
		})
		for _, o := range component {
			o.stacked, o.lowlink, o.reached = false, s.visit, reached
		}
		if len(component) > 1 || slices.Contains(s.ups, s) {
			circle(component)
		}
	}
	s.rooted = s.lost == "" && s.loop == nil && (e.from.o.Graph || len(s.ups) < 2) &&
		!slices.ContainsFunc(s.ups, func(up *place) bool { return !up.rooted })
	s.node = node{}
}

// circle sets loop and closing of the places on a cycle. The first of loop is one that a root leads to if there is one,
// or else one that another node outside leads to: see entered. From the first all others can be reached without the
// links that close the cycle, because those lead back to a place above.
func circle(loop []*place) {
	rank := func(s *place) (n int) {
		for _, up := range s.ups {
			if !s.beside(up) && up.reached {
				return -2
			} else if !s.beside(up) {
				n = -1
			}
		}
		return n
	}
	slices.SortFunc(loop, func(a, b *place) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), value.Compare(a.id, b.id)) })
	below := map[*place][]*place{}
	for _, s := range loop {
		s.loop = loop
		for _, up := range s.ups {
			below[up] = append(below[up], s)
		}
	}
	seen, above := map[*place]bool{}, map[*place]bool{}
	var search func(s *place)
	search = func(s *place) {
		seen[s], above[s] = true, true
		for _, child := range below[s] {
			if above[child] {
				child.closing = append(child.closing, s)
			} else if !seen[child] {
				search(child)
			}
		}
		above[s] = false
	}
	search(loop[0])
}

// beside reports whether two places lie on one cycle.
func (s *place) beside(o *place) bool { return s.lowlink == o.lowlink }

// entered reports whether a node outside leads to the cycle that s lies on.
func (s *place) entered() bool {
	first := s.loop[0]
	return slices.ContainsFunc(first.ups, func(up *place) bool { return !first.beside(up) })
}

// compute returns a node as its children in to see it, computed downwards from the root, or from a node that keeps its
// place. It is nil if no root leads to the node, or if the node or one above it has a segment that no path can contain.
func (e *engine) compute(s *place) *node {
	if !s.rooted {
		return nil
	}
	if s.computed == nil {
		var up *node
		if len(s.ups) > 0 {
			if up = e.compute(s.ups[0]); up == nil {
				return nil
			}
		}
		s.computed = e.to.child(node{id: s.id, segment: s.segment}, up)
	}
	if e.to.checkUsable(*s.computed) != nil {
		return nil
	}
	return s.computed
}

// batch is nodes that are looked at together, each with its place and its children.
type batch struct {
	nodes    []node
	places   []*place
	children [][]node
}

// look returns the findings of nodes that were just read.
func (e *engine) look(ctx context.Context, nodes []node) ([]finding, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	places, err := e.climb(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer e.drop()
	b := &batch{nodes: nodes, places: places}
	if !e.catchUp {
		if err := e.readChildren(ctx, b); err != nil {
			return nil, err
		}
		return e.findings(b), nil
	}
	found, stale, err := e.to.catchUp(ctx, e, b)
	if err != nil {
		return nil, err
	}
	if stale && e.writing { // in the transaction it cannot be stale a second time
		e.forget(e.counter)
		return e.look(ctx, nodes)
	}
	return append(found, e.findings(b)...), nil
}

// readChildren reads the children of a batch, if a counter, an order, numbers or a list has to be compared with them.
func (e *engine) readChildren(ctx context.Context, b *batch) (err error) {
	b.children = make([][]node, len(b.nodes))
	if e.countsChildren() || e.to.namesChildren || e.to.order != "" {
		b.children, err = e.from.childrenByParent(ctx, b.nodes)
	}
	return err
}

// countsChildren reports whether child counters are compared.
func (e *engine) countsChildren() bool { return e.to.o.ChildCountField != "" && !e.catchUp }

// converts reports whether fields are derived from another tree: by Convert, or the first run of Adopt.
func (e *engine) converts() bool { return e.from != e.to }

// findings examines each node of a batch.
func (e *engine) findings(b *batch) (found []finding) {
	for i, n := range b.nodes {
		if !e.converts() {
			found = append(found, e.audit(n, b.places[i], b.children[i])...)
		}
		if e.catchUp && b.places[i].kept {
			continue
		}
		found = append(found, e.unreachable(n, b.places[i])...)
		if e.converts() && e.compute(b.places[i]) == nil {
			continue
		}
		found = append(found, e.examine(n, b.places[i], b.children[i])...)
		if !e.catchUp {
			found = append(found, e.disorder(n, b.children[i])...)
		}
	}
	return found
}

// unreachable is the finding that no root leads to a node. Check reports only the cause, an orphan or a cycle above.
func (e *engine) unreachable(n node, s *place) []finding {
	if !e.converts() && (s.lost != "" || s.loop != nil) {
		return []finding{e.misplaced(n, s)}
	}
	if (e.converts() || e.quick) && e.compute(s) == nil {
		return []finding{e.finding(mongopatterns.Orphan, n, "", "no root leads to it")}
	}
	return nil
}

// examine compares one node with the fields that it should have. All fields that differ are one write, which
// the last of their findings carries.
func (e *engine) examine(n node, s *place, children []node) (found []finding) {
	var want, set bson.D
	if self := e.compute(s); self != nil && (e.converts() || !e.to.namesChildren) { // a list is the truth: audit examines it
		want = e.to.fieldsOf(self.up, children)
	}
	if e.countsChildren() {
		want = append(want, expr.Element(e.to.o.ChildCountField, int64(len(children))))
	}
	for _, el := range want {
		if f, ok := e.compare(n, el); ok {
			set = append(set, expr.Element(el.Key, f.Want))
			found = append(found, f)
		}
	}
	if len(set) > 0 {
		last := &found[len(found)-1]
		last.joint, last.writes = false, []mongo.WriteModel{update(e.to.byID(n.id), expr.Op("$set", set))}
	}
	return found
}

// audit is that of the representation, for a node that has an ID.
func (e *engine) audit(n node, s *place, children []node) []finding {
	if err := value.CheckID(n.id); n.raw != nil && err != nil {
		return []finding{e.finding(mongopatterns.WrongField, n, e.to.o.IDField, err.Error())}
	}
	return e.to.audit(e, n, s, children)
}

// drop forgets new places that no root leads to. The counter does not show insertions, and one may have added
// the missing parent before the next look.
func (e *engine) drop() {
	for _, k := range e.fresh {
		if s := e.known[k]; s != nil && !s.rooted {
			delete(e.known, k)
		}
	}
	e.fresh = nil
}

// misplaced is the finding for an orphan or for a node on a cycle. On a cycle only one node carries
// a write, because one cut opens it.
func (e *engine) misplaced(n node, s *place) finding {
	f := e.finding(mongopatterns.Orphan, n, e.from.refField, s.lost)
	switch {
	case s.loop != nil:
		f.Kind, f.Detail = Cycle, fmt.Sprintf("one of %d", len(s.loop))
		if s.entered() {
			e.from.cut(&f, n, s)
		} else if s == s.loop[0] {
			f.writes, f.makesRoot, f.moves = e.from.makeRoot(n), true, true
		}
		return f
	case s.lost == malformed:
		f.Kind = mongopatterns.WrongField
	}
	f.writes, f.makesRoot, f.moves = e.from.makeRoot(n), true, true
	return f
}

// compare returns a finding if a field does not have the value that it should have.
func (e *engine) compare(n node, want bson.E) (finding, bool) {
	v, err := e.to.codec.Value(want.Value)
	have := n.raw.Lookup(want.Key)
	// null, missing and RootParent are one, where the field is not new. But Delete refuses a root without a path, and
	// $graphLookup fails for undefined.
	alike := have.Type != bson.TypeUndefined && (isNull(have) && isNull(v) && (have.Type != 0 || want.Key != e.to.derived) ||
		want.Key == e.to.o.ParentField && e.to.noParent(have) && e.to.noParent(v))
	if err != nil || have.Equal(v) || same(have, v) || alike && slices.Contains(e.from.fields, want.Key) {
		return finding{}, false
	}
	f := e.finding(mongopatterns.WrongField, n, want.Key, "")
	f.Want, f.joint = v, true
	return f, true
}

// disorder is the finding that the positions of children, or of the roots, are not distinct whole numbers. It
// belongs to the parent, because one write may renumber all children.
func (e *engine) disorder(n node, children []node) []finding {
	if !e.converts() && e.to.o.OrderField == "" {
		return nil
	}
	writes := e.to.fixOrder(children)
	if len(writes) == 0 {
		return nil
	}
	f := e.finding(WrongOrder, n, "", e.to.order+" of children is missing, no whole number, or twice the same", writes...)
	return []finding{f}
}

// roots returns the findings of the roots as children of one node that has no document.
func (e *engine) roots(ctx context.Context) ([]finding, error) {
	if e.to.order == "" {
		return nil, nil
	}
	roots, err := e.readRoots(ctx)
	if err != nil {
		return nil, err
	}
	found := e.disorder(node{}, roots)
	if !e.converts() {
		found = append(found, e.audit(node{}, nil, roots)...)
	}
	return found, nil
}

// readRoots reads the roots in the order of their positions and _ids. Where lists name the children that is a $lookup:
// if the server refuses it, all nodes are read.
func (e *engine) readRoots(ctx context.Context) ([]node, error) {
	if !e.from.namesChildren || !txn.Running(ctx) || !e.to.byLevels.Load() {
		return e.from.aggregate(ctx, e.from.sortedRoots())
	}
	nodes, err := e.from.aggregate(ctx, mongo.Pipeline{expr.Op("$match", e.scan().Filter), e.from.sorting()})
	listed := map[string]bool{}
	for _, n := range nodes {
		for _, id := range n.children {
			listed[key(id)] = true
		}
	}
	return slices.DeleteFunc(nodes, func(n node) bool { return listed[key(n.id)] }), err
}

// part is what one transaction examines again: nodes by their IDs, or, if nil, the roots.
type part []bson.RawValue

// again reads a part anew and looks at it.
func (e *engine) again(ctx context.Context, ids part) ([]finding, error) {
	if ids == nil {
		return e.roots(ctx)
	}
	any := bson.A{e.from.byIDs(ids)}
	for _, id := range ids {
		if value.CheckID(id) != nil { // byIDs leaves it out
			any = append(any, e.from.byID(id))
		}
	}
	nodes, err := e.from.findAll(ctx, expr.Op("$or", any))
	if err != nil {
		return nil, err
	}
	return e.look(ctx, nodes)
}

// snapshot looks at a part at one moment, so that a node that is moving is seen either before or after. A
// standalone server has no transactions: there Check may report a node that is moving.
func (e *engine) snapshot(ctx context.Context, ids part) (found []finding, err error) {
	err = e.to.atomically(ctx, false, func(ctx context.Context) error {
		now, err := e.to.restructurings(ctx)
		if err != nil {
			return err
		}
		e.forgetIfStale(now)
		found, err = e.again(ctx, ids)
		return err
	})
	if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) { // a standalone server
		return e.again(ctx, ids)
	}
	return found, err
}

// begin reads the counter before the scan reads nodes, so that a move in between changes it.
func (e *engine) begin(ctx context.Context) error {
	now, err := e.to.restructurings(ctx)
	e.forget(now)
	e.ahead = false
	return err
}

// forgetIfStale forgets all places if others have restructured the tree. A reply to the scan can hold several batches,
// so the next ones may still be older than that: suspects reads their nodes again.
func (e *engine) forgetIfStale(now int64) {
	if now != e.counter {
		e.forget(now)
		e.ahead = true
	}
}

// suspects returns the nodes of a batch that have a finding at first sight, in parts. A part is as much as one
// transaction can write.
func (e *engine) suspects(ctx context.Context, batch []bson.Raw) (parts []part, err error) {
	nodes := make([]node, len(batch))
	for i, raw := range batch {
		nodes[i] = e.from.parse(raw)
	}
	if e.ahead { // see forgetIfStale
		if nodes, err = e.from.findAll(ctx, e.from.byIDs(idsOf(nodes))); err != nil {
			return nil, err
		}
	}
	found, err := e.look(ctx, nodes)
	if err != nil {
		return nil, err
	}
	size := map[string]int{}
	for _, f := range found {
		size[key(f.id)] += 1 + len(f.Want.Value)
	}
	full := writesMax // so that the first suspect begins a part
	for _, n := range nodes {
		bytes := size[key(n.id)]
		if bytes == 0 {
			continue
		}
		if full += bytes; full > writesMax {
			parts, full = append(parts, nil), bytes
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], n.id)
	}
	return parts, nil
}

// check yields the findings that a snapshot confirms, those of the roots with the first batch.
func (e *engine) check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if err := e.begin(ctx); err != nil {
			fault.Stop[mongopatterns.Problem](err)(yield)
			return
		}
		ctx, end := txn.Causal(ctx, e.from.coll.Database()) // what confirms a finding is not older than it
		defer end()
		first := true
		maintain.Check(ctx, e.from.coll, work, e.scan(), func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			var roots []part
			if first {
				var err error
				if roots, err = e.suspectRoots(ctx, work); err != nil {
					return nil, err
				}
				first = false
			}
			parts, err := e.suspects(ctx, batch)
			if err != nil {
				return nil, err
			}
			return e.confirmed(ctx, append(roots, parts...))
		})(yield)
	}
}

// confirmed returns the problems that a snapshot of each part shows.
func (e *engine) confirmed(ctx context.Context, parts []part) (all []mongopatterns.Problem, err error) {
	for _, ids := range parts {
		found, err := e.snapshot(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			all = append(all, f.Problem)
		}
	}
	return all, nil
}

// suspectRoots returns the part of the roots, if they have a finding and the work is for all nodes. The first run of
// Adopt leaves them to the second, which reads the order of siblings.
func (e *engine) suspectRoots(ctx context.Context, work *mongopatterns.Work) ([]part, error) {
	if e.catchUp || work != nil && work.Filter != nil {
		return nil, nil
	}
	found, err := e.roots(ctx)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return []part{nil}, nil
}

// outcome says what was done about findings.
type outcome struct {
	done, left     map[string]bool // nodes that are written, and those that count as Remaining
	moves, numbers bool            // ways up change; nested sets have to be numbered
}

// sift decides which findings are written now, and which nodes count as Remaining. It takes one change of place
// for each node: after that the others may not be true any more, and the next pass of Repair finds what is left.
func (e *engine) sift(found []finding) (models []mongo.WriteModel, out outcome) {
	out.done, out.left = map[string]bool{}, map[string]bool{}
	moved := map[string]bool{}
	for _, f := range found {
		k := key(f.id)
		switch {
		case f.joint:
		case f.renumber:
			out.numbers = true
		case len(f.writes) == 0, f.makesRoot && !e.to.o.MakeRoots, e.quick && f.moves:
			out.left[k] = true
		case f.moves && moved[k]:
		default:
			moved[k] = moved[k] || f.moves
			out.moves = out.moves || f.moves
			out.done[k] = true
			models = append(models, f.writes...)
		}
	}
	return models, out
}

// apply looks at parts again and writes their findings.
func (e *engine) apply(ctx context.Context, result *mongopatterns.Result, parts []part) error {
	for _, ids := range parts {
		out, err := e.applyPart(ctx, ids)
		if err != nil {
			e.forget(-1) // the transaction may have committed or not
			return err
		}
		if out.moves {
			e.forget(e.counter)
		}
		result.Done += int64(len(out.done))
		result.Remaining += int64(len(out.left))
		e.moved, e.numberAll = e.moved || out.moves, e.numberAll || out.numbers
	}
	return nil
}

// applyPart looks and writes under the lock. A dry run only looks, in a snapshot.
func (e *engine) applyPart(ctx context.Context, ids part) (out outcome, err error) {
	if e.dry {
		found, err := e.snapshot(ctx, ids)
		_, out = e.sift(found)
		return out, err
	}
	err = e.to.exclusively(ctx, func(ctx context.Context, before int64) error {
		e.forgetIfStale(before)
		e.writing = true
		found, err := e.again(ctx, ids)
		e.writing = false
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		models, out = e.sift(found)
		return e.to.write(ctx, models...)
	})
	e.counter++ // by this transaction
	return out, err
}

// run is the scan that writes: Repair, Adopt and Convert. If moved is set afterwards, ways up have changed, and
// nodes that the scan had passed may need another run.
func (e *engine) run(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	e.numberAll = e.converts()
	e.dry = work != nil && work.DryRun
	if err := e.begin(ctx); err != nil {
		return result, err
	}
	step := func(ctx context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
		parts, err := e.suspects(ctx, batch)
		if err != nil {
			return err
		}
		return e.apply(ctx, result, parts)
	}
	if result, err = maintain.Run(ctx, e.from.coll, work, e.scan(), step); err != nil {
		return result, err
	}
	if err = e.finish(ctx, work, &result); err != nil && !e.dry {
		err = fault.Unknown(err)
	}
	return result, err
}

// finish does what follows the scan: the order of the roots, and the numbers of nested sets.
func (e *engine) finish(ctx context.Context, work *mongopatterns.Work, result *mongopatterns.Result) error {
	parts, err := e.suspectRoots(ctx, work)
	if err != nil {
		return err
	}
	if err := e.apply(ctx, result, parts); err != nil || !e.numberAll {
		return err
	}
	n, err := e.to.renumber(ctx, e.dry)
	if e.converts() { // nodes that were numbered had other fields written, too
		result.Done = max(result.Done, n)
	} else {
		result.Done += n
	}
	return err
}
