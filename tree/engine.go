package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// engine is Check, Repair, Adopt and Convert: one scan in the order of _id, which derives from the way up what
// each node should hold, compares, and writes the difference in batches. The way up is read as the
// representation of from tells it; what should be is that of to. For Check and Repair both are the tree itself.
//
// It is linear in the nodes. known has the nodes of which the way up is known, so that each is read once
// besides its own turn. It holds for as long as the counter in the lock document shows no restructuring, and is
// bounded by knownMax.
//
// A batch is looked at twice. The first look, outside transactions, costs little and finds suspects, of which
// some may be nodes that just move. Only they are looked at again: by Check in a snapshot, by the others in a
// transaction that holds the lock and writes.
type engine struct {
	from, to *core
	catchUp  bool // leave alone what is settled: Adopt
	quick    bool // only what is derived, nothing that moves a node
	known    map[string]*place
	fresh    []string // keys of known since the last look
	counter  int64
	writing  bool // what is found will be written
	ahead    bool // the scan may have read nodes before the counter was what it is
	index    int  // of Tarjan's algorithm

	dry, moved, renumber bool // of run
}

const (
	knownMax  = 200_000
	writesMax = 512 << 10 // bytes of derived fields: of ancestors' arrays each element is a key of the index
)

// place is what the engine knows of where a node is.
type place struct {
	id       bson.RawValue
	node     node  // until ups are known
	settled  bool  // it has a place in to
	derived  *node // see under
	ups      []*place
	lost     string   // why it has no parent
	loop     []*place // the cycle that it lies on
	rooted   bool     // every way up ends at a root, and there is one
	unlisted bool     // it names a parent that does not list it, and has no array: see unadopted

	resolved       bool   // ups are known
	named          string // the parent that the node named then
	index, lowlink int
	stacked        bool
}

// finding is a problem and what repairs it.
type finding struct {
	mongopatterns.Problem
	id        bson.RawValue // of the node; Problem.ID is the _id
	writes    []mongo.WriteModel
	makesRoot bool // makes a root, which only Options.MakeRoots allows
	moves     bool // changes the way up
	renumber  bool // settle repairs it
}

func (e *engine) finding(kind mongopatterns.ProblemKind, n node, field, detail string, writes ...mongo.WriteModel) finding {
	return finding{id: n.id, writes: writes, Problem: mongopatterns.Problem{Pattern: "tree", Kind: kind, Collection: e.to.coll.Name(),
		ID: n.raw.Lookup("_id"), Field: field, Detail: detail, Have: e.to.field(n.raw, field)}}
}

func (e *engine) forget(counter int64) { e.known, e.counter, e.index = map[string]*place{}, counter, 0 }

// newEngine makes from read what to compares, too.
func newEngine(from, to *core) *engine {
	if from != to {
		from = from.showing(projection(from.store, to.store)).core()
	}
	return &engine{from: from, to: to}
}

func (e *engine) scan() maintain.Scan {
	nodes := e.from.in(e.from.o.IDField, d("$ne", nil))
	return maintain.Scan{Filter: nodes, Projection: projection(e.from.store, e.to.store)}
}

// climb finds the ways up from nodes, level by level, up to what is known.
func (e *engine) climb(ctx context.Context, nodes []node) ([]*place, error) {
	if len(e.known) > knownMax {
		e.forget(e.counter)
	}
	// Old code moves nodes without the lock: what is known of such a node, and of those below, is wrong now.
	for _, n := range nodes {
		up, _ := e.from.parent(n)
		s := e.known[key(n.id)]
		if s == nil || !s.resolved {
			continue
		}
		// In ChildReferences the parent field says where a node without an array is.
		elsewhere := e.from.unadopted(n.raw) && (s.settled || !e.from.unadopted(s.node.raw) || !same(n.parent, s.node.parent))
		if elsewhere || !s.settled && s.named != parentKey(up) {
			e.forget(e.counter)
			break
		}
	}
	var all []*place
	for _, n := range nodes {
		all = append(all, e.place(n))
	}
	asks := e.from.lists != nil
	for todo := all; len(todo) > 0; {
		var ask []node
		asking := map[string]*place{}
		for _, s := range todo {
			if s.resolved {
				continue
			}
			s.resolved = true
			ref, broken := e.from.parent(s.node)
			s.named = parentKey(ref)
			up := e.known[s.named]
			switch s.lost = broken; {
			case broken != "", s.settled:
			case up != nil:
				s.ups = []*place{up}
			case asks || ref.id.Type != 0:
				ask = append(ask, s.node)
				asking[key(s.id)] = s
			}
		}
		todo = nil
		if len(ask) == 0 {
			break
		}
		found, err := e.from.findAll(ctx, e.from.parents(ask))
		if err != nil {
			e.forget(e.counter) // that these have no parents: the transaction may be run again
			return nil, err
		}
		for _, p := range found {
			up := e.place(p)
			todo = append(todo, up)
			for _, id := range p.children {
				if s := asking[key(id)]; s != nil && !slices.Contains(s.ups, up) {
					s.ups = append(s.ups, up)
				}
			}
		}
		for _, s := range asking {
			ref, _ := e.from.parent(s.node)
			if asks && e.from.unadopted(s.node.raw) {
				up, broken := e.from.namedParent(s.node)
				if s.unlisted = !slices.ContainsFunc(s.ups, func(p *place) bool { return key(p.id) == parentKey(up) }); s.unlisted {
					ref, s.lost, s.ups = up, broken, nil
				}
				if s.unlisted && s.lost == "" && e.from != e.to {
					s.lost = "not adopted"
				}
			}
			if up := e.known[parentKey(ref)]; s.lost != "" {
			} else if up != nil {
				s.ups = []*place{up}
			} else if ref.id.Type != 0 {
				s.lost = "there is no such parent"
			}
		}
	}
	for _, s := range all {
		e.connect(s, &[]*place{})
	}
	return all, nil
}

func (e *engine) place(n node) *place {
	k := key(n.id)
	s := e.known[k]
	if s == nil {
		s = &place{id: copied(n.id), node: n}
		e.known[k] = s
		e.fresh = append(e.fresh, k)
	}
	// Adopt ignores nodes that have a place already, or have got one since.
	if e.catchUp && !s.settled && n.raw.Lookup(e.to.link).Type != 0 {
		s.settled, s.derived = true, &node{id: s.id, path: e.to.parse(n.raw).path}
	}
	return s
}

// connect is Tarjan's algorithm: it finds the cycles and, as what is above a node is done before it, whether
// all ways up end at a root.
func (e *engine) connect(s *place, stack *[]*place) {
	if s.index > 0 {
		return
	}
	e.index++
	s.index, s.lowlink, s.stacked = e.index, e.index, true
	*stack = append(*stack, s)
	for _, up := range s.ups {
		e.connect(up, stack)
		if up.stacked {
			s.lowlink = min(s.lowlink, up.lowlink)
		}
	}
	if s.lowlink == s.index {
		at := len(*stack) - 1
		for (*stack)[at] != s {
			at--
		}
		loop := slices.Clone((*stack)[at:])
		*stack = (*stack)[:at]
		for _, member := range loop {
			member.stacked = false
			if len(loop) > 1 || slices.Contains(s.ups, s) {
				member.loop = loop
			}
		}
	}
	s.rooted = s.lost == "" && s.loop == nil && (e.from.o.Graph || len(s.ups) < 2) &&
		!slices.ContainsFunc(s.ups, func(up *place) bool { return !up.rooted })
	s.node = node{}
}

// under is a node as its children see it, by the way down from its root or from a settled node, and nil where
// there is no such way or nothing can be under one of the nodes.
func (e *engine) under(s *place) *node {
	if !s.rooted {
		return nil
	}
	if s.derived == nil {
		var up *node
		if len(s.ups) > 0 {
			if up = e.under(s.ups[0]); up == nil {
				return nil
			}
		}
		s.derived = e.to.child(s.id, up)
	}
	if e.to.usable(*s.derived) != nil {
		return nil
	}
	return s.derived
}

// look finds what is wrong with nodes that were just read.
func (e *engine) look(ctx context.Context, nodes []node) (found []finding, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	looked := nodes
	places, err := e.climb(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer e.drop()
	if e.catchUp && e.writing && e.to.lists != nil {
		if nodes, places, err = e.upwards(ctx, nodes, places); err != nil {
			return nil, err
		}
	}
	children := make([][]node, len(nodes))
	counts := e.to.o.ChildCountField != "" && !e.catchUp
	if counts || e.to.lists != nil || e.to.order != "" {
		if children, err = e.from.childrenIn(ctx, nodes); err != nil {
			return nil, err
		}
	}
	if e.catchUp && e.to.lists != nil {
		var stale bool
		found, stale, err = e.to.lists.adopt(ctx, e, nodes, places, children)
		if err == nil && stale && e.writing { // outside a transaction it may be stale again
			e.forget(e.counter)
			return e.look(ctx, looked)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, n := range nodes {
		if e.from == e.to {
			found = append(found, e.audit(n, places[i], children[i])...)
		}
		if !e.catchUp || !places[i].settled {
			found = append(found, e.examine(n, places[i], children[i], counts)...)
		}
	}
	return found, nil
}

// upwards adds to nodes those above them that are not settled. With its array a node becomes a settled one: if
// its parent, which lists it, were left to another batch, it would be a root in between.
func (e *engine) upwards(ctx context.Context, nodes []node, places []*place) ([]node, []*place, error) {
	seen := map[*place]bool{}
	for _, s := range places {
		seen[s] = true
	}
	var above []bson.RawValue
	for _, s := range places {
		for !s.settled && s.rooted && len(s.ups) > 0 {
			if s = s.ups[0]; seen[s] || s.settled {
				break
			}
			seen[s] = true
			above = append(above, s.id)
		}
	}
	if len(above) == 0 {
		return nodes, places, nil
	}
	more, err := e.from.findAll(ctx, e.from.byIDs(above))
	if err != nil {
		return nil, nil, err
	}
	ways, err := e.climb(ctx, more)
	return append(nodes, more...), append(places, ways...), err
}

// examine compares one node with what it should hold. All that differs is one write.
func (e *engine) examine(n node, s *place, children []node, counts bool) (found []finding) {
	converts := e.from != e.to
	var want bson.D
	self := e.under(s)
	if !converts && (s.lost != "" || s.loop != nil) {
		found = append(found, e.misplaced(n, s))
	} else if self == nil && (converts || e.quick) {
		found = append(found, e.finding(Orphan, n, "", "no root leads to it"))
	}
	switch {
	case self == nil && converts:
		return found
	case self != nil && (converts || e.to.lists == nil): // what is wrong in a list, audit finds
		want = e.to.fieldsOf(self.up, children)
	}
	if counts {
		want = append(want, bson.E{Key: e.to.o.ChildCountField, Value: int64(len(children))})
	}
	var set bson.D
	for _, el := range want {
		if f, ok := e.compare(n, el); ok {
			set = append(set, bson.E{Key: el.Key, Value: f.Want})
			found = append(found, f)
		}
	}
	if len(set) > 0 {
		found[len(found)-1].writes = []mongo.WriteModel{update(e.to.byID(n.id), d("$set", set))}
	}
	if !e.catchUp {
		found = append(found, e.disorder(n, children)...)
	}
	return found
}

// audit finds what else is wrong at a node, or with no node at the roots: in lists, with numbers, and IDs that no
// path can hold.
func (e *engine) audit(n node, s *place, children []node) []finding {
	switch {
	case e.to.lists != nil:
		return e.to.lists.audit(e, n, s, children)
	case e.to.numbers != nil:
		return e.to.numbers.audit(e, n, children)
	case n.raw == nil || e.to.usable(n) == nil:
		return nil
	}
	return []finding{e.finding(WrongField, n, e.to.o.IDField, e.to.checkSegment(n.id).Error())}
}

// drop forgets what is new and no root leads to: an insertion, which the counter does not show, may change
// that.
func (e *engine) drop() {
	for _, k := range e.fresh {
		if s := e.known[k]; s != nil && !s.rooted {
			delete(e.known, k)
		}
	}
	e.fresh = nil
}

func (e *engine) misplaced(n node, s *place) finding {
	f := e.finding(Orphan, n, e.from.link, s.lost)
	switch {
	case s.loop != nil:
		f.Kind, f.Detail = Cycle, fmt.Sprintf("one of %d", len(s.loop))
		cut := e.from.lists != nil && e.from.lists.cut(&f, n, s)
		smaller := func(o *place) bool { return less(o.id, n.id) }
		if !cut && !slices.ContainsFunc(s.loop, smaller) {
			f.writes, f.makesRoot, f.moves = e.from.makeRoot(n), true, true
		}
		return f
	case s.lost == malformed:
		f.Kind = WrongField
	}
	f.writes, f.makesRoot, f.moves = e.from.makeRoot(n), true, true
	return f
}

// compare is the finding if a field does not hold what it should.
func (e *engine) compare(n node, want bson.E) (finding, bool) {
	v, err := e.to.codec.Value(want.Value)
	have := n.raw.Lookup(want.Key)
	// null, missing and RootParent are one, where the field is not new.
	alike := isNull(have) && isNull(v) || want.Key == e.to.o.ParentField && e.to.noParent(have) && e.to.noParent(v)
	if err != nil || have.Equal(v) || same(have, v) || alike && slices.Contains(e.from.fields, want.Key) {
		return finding{}, false
	}
	f := e.finding(WrongField, n, want.Key, "")
	f.Want, f.writes = v, []mongo.WriteModel{} // look writes it
	return f, true
}

// disorder are positions of children, or of the roots, that are not different whole numbers.
func (e *engine) disorder(n node, children []node) []finding {
	if e.from == e.to && e.to.o.OrderField == "" {
		return nil
	}
	writes := e.to.positions(children)
	if len(writes) == 0 {
		return nil
	}
	f := e.finding(WrongOrder, n, "", e.to.order+" of children is missing, no whole number, or twice the same", writes...)
	return []finding{f}
}

// roots looks at the roots as at the children of one node.
func (e *engine) roots(ctx context.Context) ([]finding, error) {
	if e.to.order == "" {
		return nil, nil
	}
	roots, err := e.from.aggregate(ctx, e.from.sortedRoots())
	if err != nil {
		return nil, err
	}
	found := e.disorder(node{}, roots)
	if e.from == e.to {
		found = append(found, e.audit(node{}, nil, roots)...)
	}
	return found, nil
}

// part is what is looked at once more: nodes, or without IDs the roots.
type part []bson.RawValue

func (e *engine) again(ctx context.Context, ids part) ([]finding, error) {
	if ids == nil {
		return e.roots(ctx)
	}
	nodes, err := e.from.findAll(ctx, e.from.byIDs(ids))
	if err != nil {
		return nil, err
	}
	return e.look(ctx, nodes)
}

// snapshot looks at a part at one moment.
func (e *engine) snapshot(ctx context.Context, ids part) (found []finding, err error) {
	err = e.to.atomically(ctx, false, func(ctx context.Context) error {
		now, err := e.to.restructurings(ctx)
		if err != nil {
			return err
		}
		e.follow(now)
		found, err = e.again(ctx, ids)
		return err
	})
	if errors.Is(err, fault.ErrTransactionsUnsupported) { // a standalone server
		return e.again(ctx, ids)
	}
	return found, err
}

// begin reads the counter before the scan reads nodes: a node that moves in between is then seen to have moved.
func (e *engine) begin(ctx context.Context) error {
	now, err := e.to.restructurings(ctx)
	e.forget(now)
	e.ahead = false
	return err
}

// follow forgets what was known if others have restructured the tree. A reply to the scan can hold more than a
// batch, so the next batches may be older than that.
func (e *engine) follow(now int64) {
	if now != e.counter {
		e.forget(now)
		e.ahead = true
	}
}

// suspects are the nodes of a batch that have a finding at first sight, in parts of which one transaction can
// hold the writes.
func (e *engine) suspects(ctx context.Context, batch []bson.Raw) (parts []part, err error) {
	nodes := make([]node, len(batch))
	for i, raw := range batch {
		nodes[i] = e.from.parse(raw)
	}
	if e.ahead {
		if nodes, err = e.from.findAll(ctx, e.from.byIDs(idsOf(nodes))); err != nil {
			return nil, err
		}
	}
	found, err := e.look(ctx, nodes)
	size := map[string]int{}
	for _, f := range found {
		size[key(f.id)] += 1 + len(f.Want.Value)
	}
	full := writesMax
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
	return parts, err
}

// check yields the confirmed findings as problems, those of the roots with the first batch.
func (e *engine) check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if err := e.begin(ctx); err != nil {
			fault.Stop[mongopatterns.Problem](err)(yield)
			return
		}
		first := true
		maintain.Check(ctx, e.from.coll, work, e.scan(), func(ctx context.Context, batch []bson.Raw) (all []mongopatterns.Problem, err error) {
			parts, err := e.suspects(ctx, batch)
			if err == nil && first {
				parts, err = e.withRoots(ctx, work, parts)
			}
			first = false
			for i := 0; err == nil && i < len(parts); i++ {
				var found []finding
				found, err = e.snapshot(ctx, parts[i])
				for _, f := range found {
					all = append(all, f.Problem)
				}
			}
			return all, err
		})(yield)
	}
}

// withRoots adds the roots to the parts, if something is wrong with it and the work is for all nodes. Adopt leaves
// it to its second run, which knows the order of siblings.
func (e *engine) withRoots(ctx context.Context, work *mongopatterns.Work, parts []part) ([]part, error) {
	if e.catchUp || work != nil && work.Filter != nil {
		return parts, nil
	}
	found, err := e.roots(ctx)
	if len(found) > 0 {
		parts = append([]part{nil}, parts...)
	}
	return parts, err
}

// outcome is what becomes of findings.
type outcome struct {
	done, left     map[string]bool // nodes that are written, and those that are not
	moves, numbers bool            // ways up change; nested sets are to be numbered
}

func (e *engine) sift(found []finding) (models []mongo.WriteModel, out outcome) {
	out.done, out.left = map[string]bool{}, map[string]bool{}
	moved := map[string]bool{}
	for _, f := range found {
		k := key(f.id)
		switch {
		case f.renumber:
			out.numbers = true
		case f.writes == nil, f.makesRoot && !e.to.o.MakeRoots, e.quick && f.moves:
			out.left[k] = true
		case f.moves && moved[k]: // one change of place a pass
		default:
			moved[k] = moved[k] || f.moves
			out.moves = out.moves || f.moves
			out.done[k] = true
			models = append(models, f.writes...)
		}
	}
	return models, out
}

// apply looks at parts again, under the lock, and writes.
func (e *engine) apply(ctx context.Context, result *mongopatterns.Result, parts []part) error {
	for _, ids := range parts {
		var out outcome
		var err error
		if e.dry {
			var found []finding
			found, err = e.snapshot(ctx, ids)
			_, out = e.sift(found)
		} else {
			err = e.to.exclusively(ctx, func(ctx context.Context, before int64) error {
				e.follow(before)
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
			e.counter++
		}
		if err != nil {
			e.forget(-1) // the lock's counter is not known
			return err
		}
		if out.moves {
			e.forget(e.counter)
		}
		result.Done += int64(len(out.done))
		result.Remaining += int64(len(out.left))
		e.moved, e.renumber = e.moved || out.moves, e.renumber || out.numbers
	}
	return nil
}

// run writes the difference. Afterwards moved says that ways up have changed, so that what was looked at before
// may be wrong now.
func (e *engine) run(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	e.renumber = e.from != e.to
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
	defer func() {
		if !e.dry {
			err = fault.Unknown(err)
		}
	}()
	parts, err := e.withRoots(ctx, work, nil)
	if err == nil {
		err = e.apply(ctx, &result, parts)
	}
	if err == nil && e.renumber {
		var n int64
		if n, err = e.to.settle(ctx, e.dry); e.from == e.to {
			result.Done += n
		} else {
			result.Done = max(result.Done, n)
		}
	}
	return result, err
}
