package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// engine is Check, Repair, Adopt and Convert. One scan in the order of _id reads all nodes. For each it finds the
// way up to a root as the tree from stores it (places.go, cycles.go), computes the fields that the node should have in
// the tree to, compares (findings.go), and writes the difference. For Check and Repair both are the same tree.
//
// Ways up share their upper parts. known has every node that was met, so that each is read only once besides
// its own turn in the scan, and the whole is linear in the nodes. It is valid as long as the epoch of the lock
// document shows that nobody restructured the tree, and it is bounded by knownMax.
//
// A batch is examined twice. The first look, outside transactions, is cheap and finds suspects; some of them may
// be nodes that are moving at that moment. Only suspects are examined again: by Check in a snapshot, by the
// others in a transaction that holds the lock and writes.
type engine struct {
	mode
	from, to *core
	work     *mongopatterns.Work

	// known are places by the ID of their node, and by what its children name. Outside a look each of them has its whole way
	// up in known, too, from a root on: a climb that fails forgets all, and forgetUnrooted ends a look.
	known       map[string]*place
	added       []string // keys that known got in this look
	epoch       int64    // of the lock document, when known was begun
	scanIsOlder bool     // the scan may have read nodes before the tree had this epoch

	scanned bool // all batches are done, and the result is that of the whole run
}

// mode is what a run of the engine does.
type mode struct {
	// repairs lets nodes move. Of the nodes that no root leads to, only the cause is a finding, an orphan or a cycle above
	// them. Without it no node moves, and each of them is a finding.
	repairs bool
	// keepsPlaces leaves nodes alone that have a place in the tree to, because they were inserted there or adopted before.
	keepsPlaces bool
	// leavesSiblings leaves to a further run what depends on siblings: child counts and orders.
	leavesSiblings bool
}

// The modes. Where the tree has no ParentField of its own, Adopt has two runs: it converts parent references, which is
// placing, and then derives what is left.
var (
	repairing = mode{repairs: true} // Repair, and Check, which finds what Repair writes
	deriving  = mode{}              // Adopt and Convert
	placing   = mode{keepsPlaces: true, leavesSiblings: true}
)

const (
	knownMax = 200_000 // places in memory
	// writesMax bounds the bytes of derived fields in a transaction. Each element of an array of ancestors is a
	// key of the index, too.
	writesMax = 512 << 10
)

// newEngine lets from read the fields of both trees, because its nodes are compared with what to has.
func newEngine(m mode, from, to *core, work *mongopatterns.Work) *engine {
	if from != to {
		from = from.readingFor(to.store).core()
	}
	return &engine{mode: m, from: from, to: to, work: work}
}

// converts reports whether the fields are derived from another tree. That one is not audited.
func (e *engine) converts() bool { return e.from != e.to }

func (e *engine) dry() bool { return e.work != nil && e.work.DryRun }

// scan selects the nodes of the tree, with the fields of both trees.
func (e *engine) scan() maintain.Scan {
	return maintain.Scan{Filter: e.from.nodesMatch(), Projection: projection(e.from.store, e.to.store)}
}

// begin reads the epoch before the scan reads nodes, so that a move in between changes it.
func (e *engine) begin(ctx context.Context) error {
	now, err := e.to.readEpoch(ctx)
	if err != nil {
		return err
	}
	e.forget(now)
	e.scanIsOlder = false
	return nil
}

// enter forgets all places if others have restructured the tree since its last epoch. A reply to the scan can hold
// several batches, so the next ones may still be older than that: suspects reads their nodes again.
func (e *engine) enter(epoch int64) {
	if epoch != e.epoch {
		e.forget(epoch)
		e.scanIsOlder = true
	}
}

// part is what one transaction examines again: the roots as siblings, or nodes.
type part struct {
	roots bool
	ids   []bson.RawValue
}

// suspects returns the nodes of a batch that have a finding at first sight.
func (e *engine) suspects(ctx context.Context, batch []bson.Raw) ([]part, error) {
	nodes := make([]node, len(batch))
	for i, raw := range batch {
		nodes[i] = e.from.parse(raw)
	}
	if e.scanIsOlder { // see enter
		var err error
		if nodes, err = e.from.findAll(ctx, e.from.idsMatch(idsOf(nodes))); err != nil {
			return nil, err
		}
	}
	found, err := e.look(ctx, nodes, false)
	return inParts(nodes, found), err
}

// inParts returns the nodes that have a finding, in parts. A part is as much as one transaction can write.
func inParts(nodes []node, found []finding) (parts []part) {
	size := map[string]int{}
	for _, f := range found {
		for _, p := range f.problems {
			size[key(f.id)] += 1 + len(p.Want.Value)
		}
	}
	full := writesMax // so that the first suspect begins a part
	for _, n := range nodes {
		bytes := size[key(n.id)]
		if bytes == 0 {
			continue
		}
		if full += bytes; full > writesMax {
			parts, full = append(parts, part{}), bytes
		}
		last := &parts[len(parts)-1]
		last.ids = append(last.ids, n.id)
	}
	return parts
}

// suspectRoots returns the part of the roots, if they have a finding and the work is for all nodes.
func (e *engine) suspectRoots(ctx context.Context) ([]part, error) {
	if e.leavesSiblings || e.work != nil && e.work.Filter != nil {
		return nil, nil
	}
	found, err := e.lookAtRoots(ctx)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return []part{{roots: true}}, nil
}

// lookAgain reads a part anew and looks at it; writing is that of batch.
func (e *engine) lookAgain(ctx context.Context, p part, writing bool) ([]finding, error) {
	if p.roots {
		return e.lookAtRoots(ctx)
	}
	or := bson.A{e.from.idsMatch(p.ids)}
	for _, id := range p.ids {
		if value.CheckID(id) != nil { // idsMatch leaves it out
			or = append(or, e.from.idMatch(id))
		}
	}
	nodes, err := e.from.findAll(ctx, expr.Op("$or", or))
	if err != nil {
		return nil, err
	}
	return e.look(ctx, nodes, writing)
}

// snapshot looks at a part at one moment, so that a node that is moving is seen either before or after. A
// standalone server has no transactions: there Check may report a node that is moving.
func (e *engine) snapshot(ctx context.Context, p part) (found []finding, err error) {
	err = e.to.atomically(ctx, func(ctx context.Context) error {
		now, err := e.to.readEpoch(ctx)
		if err != nil {
			return err
		}
		e.enter(now)
		found, err = e.lookAgain(ctx, p, false)
		return err
	})
	if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) { // a standalone server
		return e.lookAgain(ctx, p, false)
	}
	return found, err
}

// check yields the findings that a snapshot confirms, those of the roots with the first batch.
func (e *engine) check(ctx context.Context) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if err := e.begin(ctx); err != nil {
			fault.Stop[mongopatterns.Problem](err)(yield)
			return
		}
		ctx, end := txn.Causal(ctx, e.from.coll) // what confirms a finding is not older than it
		defer end()
		roots, err := e.suspectRoots(ctx)
		if err != nil {
			fault.Stop[mongopatterns.Problem](err)(yield)
			return
		}
		step := func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			parts, err := e.suspects(ctx, batch)
			if err != nil {
				return nil, err
			}
			parts, roots = append(roots, parts...), nil
			return e.confirm(ctx, parts)
		}
		maintain.Check(ctx, e.from.coll, e.work, e.scan(), step)(yield)
	}
}

// confirm returns the problems that a snapshot of each part shows.
func (e *engine) confirm(ctx context.Context, parts []part) (all []mongopatterns.Problem, err error) {
	for _, p := range parts {
		found, err := e.snapshot(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			all = append(all, f.problems...)
		}
	}
	return all, nil
}

// outcome says what was done about findings.
type outcome struct {
	done, left map[string]bool // nodes that are written, and those that count as Remaining
	newWays    bool            // nodes got another way up
	newNumbers bool            // nested sets have to be numbered
}

// sift decides which findings are written now, and which nodes count as Remaining. It takes one change of the way up
// for each node: after that the others may not be true any more, and the next pass of Repair finds what is left.
func (e *engine) sift(found []finding) (models []mongo.WriteModel, out outcome) {
	out.done, out.left = map[string]bool{}, map[string]bool{}
	moved := map[string]bool{}
	for _, f := range found {
		k := key(f.id)
		switch {
		case f.remedy == byRenumbering:
			out.newNumbers = true
			continue
		case !e.mayWrite(f):
			out.left[k] = true
			continue
		case f.moves() && moved[k]:
			continue
		case f.moves():
			moved[k], out.newWays = true, true
		}
		if f.id.Type != 0 { // the order of the roots is no node's
			out.done[k] = true
		}
		models = append(models, f.writes...)
	}
	return models, out
}

// mayWrite reports whether a finding has writes, and this run may make them.
func (e *engine) mayWrite(f finding) bool {
	if f.moves() && !e.repairs || f.remedy == byNewRoot && !e.to.o.MakeRoots {
		return false
	}
	return len(f.writes) > 0
}

// run is the scan that writes: Repair, Adopt and Convert. If ways up have changed, nodes that the scan had passed may
// need another run.
func (e *engine) run(ctx context.Context) (result mongopatterns.Result, newWays bool, err error) {
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }()
	if err := e.begin(ctx); err != nil {
		return result, false, err
	}
	var all outcome
	step := func(ctx context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
		parts, err := e.suspects(ctx, batch)
		if err != nil {
			return err
		}
		return e.apply(ctx, parts, result, &all)
	}
	if result, err = maintain.Run(ctx, e.from.coll, e.work, e.scan(), step); err != nil {
		return result, all.newWays, err
	}
	e.scanned = true
	err = e.finish(ctx, &result, &all)
	return result, all.newWays, err
}

// apply looks at parts again and writes their findings.
func (e *engine) apply(ctx context.Context, parts []part, result *mongopatterns.Result, all *outcome) error {
	for _, p := range parts {
		out, err := e.applyPart(ctx, p, result)
		if err != nil {
			e.forget(-1) // the transaction may have committed or not
			return err
		}
		if out.newWays {
			e.forget(e.epoch)
		}
		result.Done += int64(len(out.done))
		result.Remaining += int64(len(out.left))
		all.newWays, all.newNumbers = all.newWays || out.newWays, all.newNumbers || out.newNumbers
	}
	return nil
}

// applyPart looks and writes with the lock. A dry run only looks, in a snapshot. If nodes conflict with writers that do
// not take the lock, such as old code, maintain.Run does the batch in halves. The roots are siblings, and stay one part.
func (e *engine) applyPart(ctx context.Context, p part, result *mongopatterns.Result) (out outcome, err error) {
	if e.dry() {
		found, err := e.snapshot(ctx, p)
		if err != nil {
			return out, err
		}
		_, out = e.sift(found)
		return out, nil
	}
	divisible := !p.roots && !txn.Running(ctx)
	err = e.withEpoch(ctx, result, func(ctx context.Context, before int64) (err error) {
		e.enter(before)
		if out, err = e.writePart(ctx, p); divisible {
			return maintain.Busy(err)
		}
		return err
	})
	e.epoch++ // by this transaction
	return out, err
}

// writePart is the part of applyPart that holds the lock.
func (e *engine) writePart(ctx context.Context, p part) (out outcome, err error) {
	found, err := e.lookAgain(ctx, p, true)
	if err != nil {
		return out, err
	}
	models, out := e.sift(found)
	return out, e.to.write(ctx, models...)
}

// withEpoch is withLock for a function that needs the epoch before this transaction. It counts the conflicts after which
// the transaction runs again, those on the lock document among them.
func (e *engine) withEpoch(ctx context.Context, result *mongopatterns.Result,
	fn func(ctx context.Context, before int64) error) error {
	return e.to.atomically(ctx, func(ctx context.Context) error {
		before, err := e.to.lock(ctx)
		if err == nil {
			err = fn(ctx, before)
		}
		if txn.Conflicted(err) {
			result.Conflicts++
			e.tell(*result)
		}
		return err
	})
}

// tell calls Progress after the scan. Before that maintain.Run calls it.
func (e *engine) tell(result mongopatterns.Result) {
	if e.scanned && e.work != nil && e.work.Progress != nil {
		e.work.Progress(result)
	}
}

// finish does what comes after the scan: the order of the roots, and the numbers of nested sets.
func (e *engine) finish(ctx context.Context, result *mongopatterns.Result, all *outcome) error {
	parts, err := e.suspectRoots(ctx)
	if err != nil {
		return err
	}
	if err := e.apply(ctx, parts, result, all); err != nil {
		return err
	}
	if e.to.numbers == nil || !e.converts() && !all.newNumbers {
		return nil
	}
	return e.renumber(ctx, result)
}

// renumber writes the numbers of nested sets. Its transaction cannot be divided.
func (e *engine) renumber(ctx context.Context, result *mongopatterns.Result) error {
	run, conflicts := e.to.atomically, result.Conflicts
	if !e.dry() {
		run = func(ctx context.Context, fn func(context.Context) error) error {
			return e.withEpoch(ctx, result, func(ctx context.Context, _ int64) error { return fn(ctx) })
		}
	}
	n, err := e.to.numbers.renumber(ctx, run, e.dry())
	if err != nil && result.Conflicts > conflicts {
		return fmt.Errorf("%w; the numbers of nested sets are written in one transaction, so run it while nobody writes", err)
	}
	result.Done = max(result.Done, n) // mostly the same nodes
	return err
}
