package extref

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Propagate writes the followed fields of a source to all copies that are behind, in batches. It
// does not write copies that are up to date. It may run again, several times at once, or after it
// was stopped. Documents may move from target to target meanwhile, in transactions: unless one is Failed, Propagate ends when
// at one moment no copy is behind.
//
// Result.Done counts the documents written. A document is Failed and named if it has a malformed
// value in place of the copy, or if the server refuses to write it; documents of its batch written
// before are Skipped, because the server does not say which they are. Remaining counts documents
// with copies ahead of the source (run Repair) or without a version (run Adopt). Work.Filter
// restricts the documents to be written, in all targets.
//
// Cost: 1 round trip for the source, by its key, and 1 for each target with followed fields, by its index.
//   - For each batch of copies that differ: 1 to write it, index _id, and 1 to read on, unless it is the last.
//   - A batch with documents that stay as they are: 1 more.
//   - With two or more such targets: at the end 1 for each, by its index, and a commit; 1 for the source if some are
//     Unversioned. If documents have moved meanwhile, all of this once more.
//   - If the target is Unversioned: 4 to write a batch, commit included, and 2 writes to the source.
//   - In a transaction: 1 for the source, or with an Unversioned target 2, which write to it, and 1 for each target,
//     whatever the size of a batch.
func (r *Source[ID, T]) Propagate(ctx context.Context, id ID, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "extref.Propagate")
	defer fault.In(&err, "extref.Propagate")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	key, err := r.core.codec.ID("source", id)
	if err != nil {
		return result, err
	}
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return result, err
	}
	return r.core.propagateKey(ctx, key, &w, nil)
}

// read reads the source with a key.
type read func(ctx context.Context, key bson.RawValue) (state, error)

// propagateKey is Propagate of the state that read returns; with nil, of the source's current state. It passes over the
// targets until, at one moment, none has a copy that is behind.
func (c *core) propagateKey(ctx context.Context, key bson.RawValue, w *mongopatterns.Work, read read) (
	result mongopatterns.Result, err error) {
	ctx, end := txn.Causal(ctx, c.source)
	defer end()
	switch {
	case read != nil:
	case txn.Running(ctx) && !w.DryRun && c.compares():
		read = c.pin // only versions are a sufficient guard
	default:
		read = c.find
	}
	once := w.DryRun || txn.Running(ctx)
	for {
		s, err := read(ctx, key)
		if err != nil {
			return result, err
		}
		result.Remaining = 0 // the last pass counts them
		err = c.propagate(ctx, s, w, &result)
		if err != nil || once || result.Failed > 0 {
			return result, err
		}
		missed, err := c.missed(ctx, s, w.Filter)
		if err != nil || !missed {
			return result, err
		}
	}
}

// missed reports whether a pass has left copies behind, because their documents went from a target that it had not read yet
// to one that it had. A document that moves in a transaction is in one of them at any moment, and what reads it before
// the pass writes it cannot commit afterwards. A standalone server has no such transactions.
func (c *core) missed(ctx context.Context, s state, filter any) (missed bool, err error) {
	if len(c.following) < 2 {
		return false, nil
	}
	err = c.together(ctx, func(ctx context.Context) error {
		missed = false
		now := s
		if c.compares() {
			if now, err = c.find(ctx, s.key); err != nil {
				return err
			}
		}
		newer := differ(c.follow, s.value, now.value) // whoever changed the source also propagates that
		for _, t := range c.following {
			if t.Unversioned && newer {
				continue
			}
			err := t.primary.FindOne(ctx, expr.And(t.proper(s.key, t.than("$lt", s)), filter), options.FindOne().SetProjection(idOnly)).Err()
			if err == nil {
				missed = true
				return nil
			}
			if !errors.Is(err, mongo.ErrNoDocuments) {
				return fmt.Errorf("target %s: %w", t.Name, err)
			}
		}
		return nil
	})
	if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
		return false, nil
	}
	return missed, err
}

// together runs fn, which reads all targets, at one moment. One target needs no transaction for that.
func (c *core) together(ctx context.Context, fn func(ctx context.Context) error) error {
	if len(c.following) < 2 {
		return fn(ctx)
	}
	return txn.Run(ctx, c.source, fn)
}

// compares reports whether some target has no versions, so that only the source itself shows which state is the newest.
func (c *core) compares() bool {
	return slices.ContainsFunc(c.following, func(t *target) bool { return t.Unversioned })
}

// propagate writes a state to the copies that are behind, in batches, or at once in a transaction. In
// a transaction only w.Filter is used, and the caller must have written to the source in it, unless
// all targets have versions.
func (c *core) propagate(ctx context.Context, s state, w *mongopatterns.Work, result *mongopatterns.Result) error {
	for _, t := range c.following {
		err := t.comparable(s)
		switch {
		case err != nil:
		case w.DryRun:
			var n int64
			n, err = t.primary.CountDocuments(ctx, expr.And(t.proper(s.key, t.than("$lt", s)), w.Filter))
			if maintain.Add(result, mongopatterns.Result{Examined: n, Done: n}); err == nil {
				w.Progress(*result)
			}
		case txn.Running(ctx):
			err = c.writeAll(ctx, t, s, w.Filter, result)
		default:
			err = c.propagateTo(ctx, t, s, w, result)
		}
		if err != nil {
			return fmt.Errorf("target %s: %w", t.Name, err)
		}
	}
	return nil
}

// comparable refuses a state that no command can compare with the copies of a target without versions.
func (t *target) comparable(s state) error {
	if !t.Unversioned {
		return nil
	}
	bytes := 0
	for _, f := range t.follow {
		bytes += len(s.value(f).Value)
	}
	if bytes > maxHeld {
		return fault.Invalid("the followed fields have %d bytes, and at most 5 MiB can be copied without versions", bytes)
	}
	return nil
}

// propagateTo reads the copies that differ from the state by the index of the target. A write
// moves a document's key out of that range, never back into it.
func (c *core) propagateTo(ctx context.Context, t *target, s state, w *mongopatterns.Work, result *mongopatterns.Result) error {
	docs := cursor.Find(ctx, t.primary, expr.And(t.off(s), w.Filter), options.Find().
		SetProjection(idOnly).SetBatchSize(int32(min(w.BatchSize, 1<<20)+1))) // one more lets the first batch end the cursor
	for batch, err := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		if err != nil {
			return err
		}
		do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
			if t.Unversioned {
				return c.writeBatchHeld(ctx, t, s.key, part, result)
			}
			return c.writeBatch(ctx, t, s, part, result)
		}
		if err := maintain.InHalves(ctx, t.coll.Name(), batch, w.Strict, result, do); err != nil {
			return err
		}
		w.Progress(*result)
	}
	return nil
}

// writeBatch writes, with one command, the copies that are behind in the documents of a batch.
func (c *core) writeBatch(ctx context.Context, t *target, s state, batch []bson.Raw, result *mongopatterns.Result) error {
	var ids bson.A
	for _, doc := range batch {
		ids = append(ids, doc.Lookup("_id"))
	}
	these := in("_id", ids)
	model := t.model(s, t.write(s), these, t.than("$lt", s))
	model.SetHint(idOnly) // the planner might scan all copies that are behind for every batch
	done, err := fault.Many(t.coll.BulkWrite(ctx, []mongo.WriteModel{model}))
	if err != nil {
		return err
	}
	result.Done += done.ModifiedCount
	return c.countLeft(ctx, t, s, these, int64(len(batch))-done.ModifiedCount, result)
}

// writeBatchHeld is writeBatch for a target without versions. It holds the source, because only the
// source itself shows which state is the newest.
func (c *core) writeBatchHeld(ctx context.Context, t *target, key bson.RawValue, batch []bson.Raw, result *mongopatterns.Result) error {
	var done mongopatterns.Result
	err := txn.Run(ctx, c.source, func(ctx context.Context) error {
		done = mongopatterns.Result{}
		now, err := c.pin(ctx, key)
		if err != nil {
			return err
		}
		return c.writeBatch(ctx, t, now, batch, &done)
	})
	if err != nil {
		return err
	}
	maintain.Add(result, done)
	return nil
}

// writeAll writes, with one command in a transaction, the copies that are behind in all documents
// that filter selects. A second update, which changes nothing, counts the copies that still differ.
func (c *core) writeAll(ctx context.Context, t *target, s state, filter any, result *mongopatterns.Result) error {
	done, err := fault.Many(t.coll.BulkWrite(ctx, []mongo.WriteModel{
		t.model(s, t.write(s), filter, t.than("$lt", s)),
		mongo.NewUpdateManyModel().SetFilter(expr.And(t.off(s), filter)).SetUpdate(noChange),
	}))
	if err != nil {
		return err
	}
	result.Examined += done.MatchedCount
	result.Done += done.ModifiedCount
	return c.countLeft(ctx, t, s, filter, done.MatchedCount-done.ModifiedCount, result)
}

// countLeft reads the documents, left of them, that a write has not changed. They are Remaining, or
// malformed and named, or Skipped if they are right by now.
func (c *core) countLeft(ctx context.Context, t *target, s state, filter any, left int64, result *mongopatterns.Result) error {
	if left == 0 {
		return nil
	}
	docs, err := t.read(ctx, expr.And(t.off(s), filter), int(left))
	if err != nil {
		return err
	}
	malformed := t.problems(docs, nil, false)
	for _, f := range malformed {
		maintain.Fail(result, f.Collection, f.ID, errors.New(f.String()))
	}
	result.Remaining += int64(len(docs) - len(malformed))
	result.Skipped += left - int64(len(docs))
	return nil
}

// noChange is an update that changes nothing.
var noChange, _ = bson.Marshal(expr.Op("$setOnInsert", expr.D(hold.Field, 1)))
