package extref

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The fields of an entry; its _id is the source's key.
const (
	changeField   = "change" // of the newest change: an entry is removed only as it was read
	sinceField    = "since"
	dueField      = "due"
	attemptsField = "attempts"
	errorField    = "error"
)

const maxBackoff = 10 * time.Minute

// enqueue writes the source's entry, within the transaction of its change. Changes
// not propagated yet share one, as the newest state is what is propagated.
func (c *core) enqueue(ctx context.Context, key bson.RawValue) error {
	now := time.Now()
	_, err := fault.One(c.o.Outbox.UpdateOne(ctx, expr.Op("_id", value.Equal(key)), expr.D(
		"$set", expr.D(changeField, bson.NewObjectID(), dueField, now, attemptsField, 0),
		"$unset", expr.Op(errorField, ""),
		"$setOnInsert", expr.Op(sinceField, now),
	), options.UpdateOne().SetUpsert(true)))
	return err
}

// Drain propagates the sources in the outbox until no entry is due. Call it every
// so often, in one process or in several at once. An entry is removed when the
// state it stands for, or a newer one, is in all copies, or its source is gone; after
// a crash a later call takes it on, when its lease is over. Result.Examined counts
// the entries taken on, Done the documents written. Work.Filter selects entries.
//
// An entry of which a source or a document fails keeps the error and is tried
// again after a while, up to 10 minutes, for ever; the others go on. Failures say
// which, and so does a query of {_id: the source's key, since, due, attempts, error}:
// due is when a worker may take it on, by the index {due: 1}, and error is there after
// a failure. An error of the server ends Drain: call it again.
//
// Cost: 2 round trips and 2 writes to the outbox for each entry, the first by the
// index {due: 1}, the second by _id, and those of a Propagate; 1 round trip at
// the end.
func (r *Ref[ID, S]) Drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: drain")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return r.core.drain(ctx, work)
}

func (c *core) drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	w, err := maintain.Of(work, 0)
	if err == nil && c.o.Outbox == nil {
		err = fault.Invalid("no Options.Outbox")
	}
	if err != nil {
		return result, err
	}
	ctx, end := c.causal(ctx)
	defer end()
	due := func(now time.Time) any { return expr.And(expr.Op(dueField, expr.Op("$lte", now)), w.Filter) }
	if w.DryRun {
		result.Examined, err = c.o.Outbox.CountDocuments(ctx, due(time.Now()))
		return result, err
	}
	for {
		now := time.Now()
		take := expr.D("$set", expr.Op(dueField, now.Add(c.o.Lease)), "$inc", expr.Op(attemptsField, 1))
		entry, err := fault.Single(c.o.Outbox.FindOneAndUpdate(ctx, due(now), take,
			options.FindOneAndUpdate().SetSort(expr.Op(dueField, 1)).SetReturnDocument(options.After))).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return result, nil
		}
		if err == nil {
			err = c.drainEntry(ctx, entry, inner(w), &result)
		}
		if err != nil {
			return result, err
		}
		w.Progress(result)
	}
}

// inner is the work of a Propagate that is a part of another work.
func inner(w mongopatterns.Work) *mongopatterns.Work {
	w.Filter, w.Progress = nil, func(mongopatterns.Result) {}
	return &w
}

// drainEntry propagates the source of an entry and removes it, or notes why it
// failed and when to try again.
func (c *core) drainEntry(ctx context.Context, entry bson.Raw, w *mongopatterns.Work, result *mongopatterns.Result) error {
	key := entry.Lookup("_id")
	done, err := c.propagateOne(ctx, key, w, nil)
	if err != nil {
		return err
	}
	result.Add(done)
	as := expr.D("_id", value.Equal(key), changeField, entry.Lookup(changeField))
	if done.Failed == 0 {
		_, err = fault.One(c.o.Outbox.DeleteOne(ctx, as))
		return err
	}
	attempts, _ := value.Lookup(entry, attemptsField).AsInt64OK()
	wait := min(maxBackoff, time.Second<<min(attempts, 10))
	_, err = fault.One(c.o.Outbox.UpdateOne(ctx, as, expr.Op("$set",
		expr.D(dueField, time.Now().Add(wait), errorField, done.Failures[0].Err.Error()))))
	return err
}

// propagateOne is propagateKey as a part of work on many sources: Examined counts these.
// One that is gone is no error. One that is invalid, or that the server refuses to
// write, is Failed and named, but not in the caller's transaction, which that has
// ended. Other errors are not about the source.
func (c *core) propagateOne(ctx context.Context, key bson.RawValue, w *mongopatterns.Work, read read) (
	mongopatterns.Result, error) {
	result, err := c.propagateKey(ctx, key, w, read)
	result.Examined = 1
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return result, nil
	case !w.Strict && !txn.Running(ctx) && ofOne(err):
		result.Fail(c.source.Name(), key, err)
		return result, nil
	}
	return result, err
}

// ofOne reports an error that is about one source.
func ofOne(err error) bool { return errors.Is(err, fault.ErrInvalid) || fault.Refused(err) }
