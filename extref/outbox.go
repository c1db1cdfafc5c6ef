package extref

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/lease"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The fields of an entry.
const (
	changeField   = "change" // identifies the newest change: an entry is removed only if it is still as it was read
	sinceField    = "since"
	dueField      = "due"
	attemptsField = "attempts"
	errorField    = "error"
)

const maxBackoff = 10 * time.Minute

// entryID is the _id of a source's entry: the source's key, or with a scope a document of the scope and the key as its
// _id, because each tenant may have a source with the same natural key.
func (c *core) entryID(key bson.RawValue) bson.RawValue {
	if c.outbox.Scope() == nil {
		return key
	}
	of := append(slices.Clip(c.outbox.Scope().Fields()), value.Element{Name: "_id", Value: key})
	return value.Embedded(value.With(value.Document(), of...))
}

// sourceOf is the key in the _id of an entry. An entry from before the scope has the key alone.
func (c *core) sourceOf(id bson.RawValue) bson.RawValue {
	doc, ok := id.DocumentOK()
	if key := doc.Lookup("_id"); ok && c.outbox.Scope() != nil && key.Type != 0 {
		return key
	}
	return id
}

// enqueue writes the source's entry, within the transaction of its change. Changes that are not
// propagated yet share one entry, because only the newest state is propagated.
func (c *core) enqueue(ctx context.Context, key bson.RawValue) error {
	_, err := fault.One(c.outbox.UpdateOne(ctx, expr.D("_id", value.Equal(c.entryID(key))), mongo.Pipeline{expr.Op("$set", expr.D(
		attemptsField, 0, changeField, bson.NewObjectID(), dueField, "$$NOW",
		sinceField, expr.IfNull(expr.Field(sinceField), "$$NOW"), errorField, "$$REMOVE",
	))}, options.UpdateOne().SetUpsert(true)))
	return err
}

// Drain propagates the sources in the outbox until no entry is due. Call it at intervals, in one
// process or in several at once. An entry is removed when all copies have the state of its change
// or a newer one, or when the source no longer exists. After a crash a later call takes over an
// entry when its lease has ended. Work.Filter selects entries. Result.Examined counts the entries
// taken, and Done the documents written.
//
// If a source or a document fails, its entry keeps the error and is tried again after a while, at
// most 10 minutes, until it succeeds. Drain continues with the others. Result.Failures names those
// that failed. So does a query of the entries, which have the form {_id: the source's key, since,
// due, attempts, error}; with a Scope the _id is {the Scope's fields, _id: the source's key}. due is when a worker may take the entry, with the index {due: 1}, and
// error exists after a failure. All times are by the server's clock. Any other error of the server
// ends Drain; then call it again.
//
// Cost: for each entry 2 round trips and 2 writes to the outbox, and those of a Propagate; 1 round trip at the end.
//   - The entry is found by the index {due: 1}, and then by _id.
func (r *Source[ID, T]) Drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "extref.Drain")
	defer fault.In(&err, "extref.Drain")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return r.core.drain(ctx, work)
}

func (c *core) drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return result, err
	}
	if c.outbox == nil {
		return result, fault.Invalid("Options.Outbox: it must be set")
	}
	ctx, end := txn.Causal(ctx, c.source)
	defer end()
	// What has no time is not an entry: it stays.
	due := expr.And(lease.Due(dueField), w.Filter)
	if w.DryRun {
		result.Examined, err = c.outbox.CountDocuments(ctx, due)
		return result, err
	}
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }() // the lease of an entry is written, even if no copy is
	// Another program may have stored anything there.
	attempts := expr.Op("$convert", expr.D("input", expr.Field(attemptsField), "to", "long", "onError", 0, "onNull", 0))
	take := mongo.Pipeline{expr.Op("$set", expr.D(dueField, lease.In(c.o.Lease), attemptsField, expr.Op("$add", attempts, 1)))}
	for {
		entry, err := fault.Single(c.outbox.FindOneAndUpdate(ctx, due, take,
			options.FindOneAndUpdate().SetSort(expr.D(dueField, 1)).SetReturnDocument(options.After))).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return result, nil
		}
		if err != nil {
			return result, err
		}
		if err := c.drainEntry(ctx, entry, inner(w), &result); err != nil {
			return result, err
		}
		w.Progress(result)
	}
}

// inner is the work of a Propagate as part of other work.
func inner(w mongopatterns.Work) *mongopatterns.Work {
	w.Filter, w.Progress = nil, func(mongopatterns.Result) {}
	return &w
}

// drainEntry propagates the source of an entry and removes the entry, or stores the error and the
// time of the next attempt in it.
func (c *core) drainEntry(ctx context.Context, entry bson.Raw, w *mongopatterns.Work, result *mongopatterns.Result) error {
	id := entry.Lookup("_id")
	done, err := c.propagateOne(ctx, c.sourceOf(id), w, nil)
	maintain.Add(result, done)
	if err != nil {
		return err
	}
	as := expr.D("_id", value.Equal(id), changeField, nil) // another program may store an entry without it
	if change := entry.Lookup(changeField); change.Type != 0 {
		as[1].Value = value.Equal(change)
	}
	if done.Failed == 0 {
		_, err = fault.One(c.outbox.DeleteOne(ctx, as))
		return err
	}
	attempts, _ := value.Lookup(entry, attemptsField).AsInt64OK()
	wait := min(maxBackoff, time.Second<<max(0, min(attempts, 10)))
	_, err = fault.One(c.outbox.UpdateOne(ctx, as, mongo.Pipeline{expr.Op("$set",
		expr.D(dueField, lease.In(wait), errorField, expr.Literal(done.Failures[0].Err.Error())))}))
	return err
}

// propagateOne is propagateKey as part of work on many sources, which Examined counts. A source that
// does not exist is not an error. A source that is invalid, or that the server refuses to write, is
// Failed and named; but in the caller's transaction, which such an error has ended, it is returned.
// Other errors do not concern the source alone.
func (c *core) propagateOne(ctx context.Context, key bson.RawValue, w *mongopatterns.Work, read read) (
	mongopatterns.Result, error) {
	result, err := c.propagateKey(ctx, key, w, read)
	result.Examined = 1
	switch {
	case errors.Is(err, mongopatterns.ErrNotFound):
		return result, nil
	case !w.Strict && !txn.Running(ctx) && ofOne(err):
		maintain.Fail(&result, c.source.Name(), key, err)
		return result, nil
	}
	return result, err
}

// ofOne reports whether an error concerns one source alone.
func ofOne(err error) bool { return errors.Is(err, mongopatterns.ErrInvalid) || fault.Refused(err) }
