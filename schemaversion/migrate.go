package schemaversion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/lease"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Migrate brings all documents that work selects to a version, which is Newest, or an older one by the
// steps' Down. Meanwhile documents of all versions can be read. In the Result, Done counts documents
// written, Skipped those of an unknown version, Failed those that a step or the server refused, and
// Remaining those that others kept changing. A version that is not a whole number, such as "two", 2.5
// or null, is unknown too. The Result does not name Skipped documents, but Status counts them, and Find
// yields a [NewerError] for each. An array that holds the version to is no version either, but Migrate
// passes over it and does not count it, because the index on the version does not tell the two apart.
//
// After a run that ends with Failed and Remaining 0, every document that existed during the whole
// run, and had a version that the steps know, has the version to. Documents that old code writes
// after the run has passed them are found by the next run. If a run was interrupted or killed,
// start it again. It skips documents that already have the version, which is cheap with an index on
// the version.
//
// Only one Migrate runs at a time. A second one returns [mongopatterns.ErrRunning] until the first
// ends or, if its process was killed, until its lease ends; the error says when that is. A dry run
// needs no lease, because it runs the steps and writes nothing.
//
// Cost: 1 round trip, 3 for each batch of 1000, 3 in all for the lease; 1 document written for each that changes.
//   - Reads by _id, or by the index on the version.
func (v *Collection[T]) Migrate(ctx context.Context, to int, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "schemaversion.Migrate")
	defer fault.In(&err, "schemaversion.Migrate")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return v.core.migrate(ctx, to, work)
}

func (c *core) migrate(ctx context.Context, to int, work *mongopatterns.Work) (mongopatterns.Result, error) {
	if to < c.first || to > c.newest() {
		return mongopatterns.Result{}, fault.Invalid("to: the version %d is not between %d and %d", to, c.first, c.newest())
	}
	if _, err := maintain.Completed(work, 0); err != nil {
		return mongopatterns.Result{}, err
	}
	if err := collation.Refuse(ctx, c.coll, c.leases); err != nil {
		return mongopatterns.Result{}, err
	}
	scan := maintain.Scan{Filter: expr.D(c.field, c.lacks(to))}
	if work != nil && work.DryRun {
		return maintain.Run(ctx, c.coll, work, scan, func(_ context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			models, _, err := c.upgrades(batch, to, w.Strict, result)
			result.Done += int64(len(models))
			return err
		})
	}
	if c.Rate > 0 { // the lease is prolonged after each batch, so none should take longer than a second
		scan.BatchSize = min(c.Rate, 1000)
		if work != nil && work.BatchSize > c.Rate {
			slower := *work
			slower.BatchSize = c.Rate
			work = &slower
		}
	}
	owner, err := c.acquire(ctx)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	start, done := time.Now(), int64(0)
	result, err := maintain.Run(ctx, c.coll, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if err := c.batch(ctx, batch, to, w.Strict, result); err != nil {
			return err
		}
		done += int64(len(batch))
		if c.Rate > 0 {
			due := start.Add(time.Duration(float64(done) / float64(c.Rate) * float64(time.Second)))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(due)):
			}
		}
		return c.prolong(ctx, owner)
	})
	return result, errors.Join(err, c.release(ctx, owner))
}

// batch upgrades and stores documents. It reads those that others changed meanwhile again, up to
// five times in all; after that they are counted as Remaining.
func (c *core) batch(ctx context.Context, batch []bson.Raw, to int, strict bool, result *mongopatterns.Result) error {
	for range 5 {
		models, ids, err := c.upgrades(batch, to, strict, result)
		if err != nil || len(models) == 0 {
			return err
		}
		written, err := fault.Many(c.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
		if written != nil {
			result.Done += written.MatchedCount
		}
		var refused mongo.BulkWriteException
		if err != nil && (strict || txn.Running(ctx) || !errors.As(err, &refused) || !fault.Refused(err)) {
			return err
		}
		for _, e := range refused.WriteErrors {
			maintain.Fail(result, c.coll.Name(), ids[e.Index], e)
			ids[e.Index] = bson.RawValue{Type: bson.TypeNull} // not read again
		}
		if int64(len(models)-len(refused.WriteErrors)) == written.MatchedCount {
			return nil
		}
		batch, err = cursor.Collect(cursor.Find(ctx, cursor.Primary(c.coll), expr.D("_id", expr.Op("$in", ids), c.field, c.lacks(to))))
		if err != nil {
			return err
		}
	}
	result.Remaining += int64(len(batch))
	return nil
}

// upgrades returns the writes of a batch and their _ids. A document that a step refuses is counted
// as Failed; if strict, its error ends the run.
func (c *core) upgrades(batch []bson.Raw, to int, strict bool, result *mongopatterns.Result) (models []mongo.WriteModel, ids []bson.RawValue, err error) {
	for _, doc := range batch {
		made, err := c.chain.to(doc, to)
		var model *mongo.UpdateOneModel
		if err == nil {
			model, err = c.model(doc, made)
		}
		switch {
		case errors.Is(err, mongopatterns.ErrNewer) && !strict:
			result.Skipped++
		case err != nil && strict:
			return nil, nil, err
		case err != nil:
			maintain.Fail(result, c.coll.Name(), doc.Lookup("_id"), err)
		case model != nil:
			models, ids = append(models, model), append(ids, doc.Lookup("_id"))
		}
	}
	return models, ids, nil
}

// acquire takes the lease if nobody has it, or its owner has not prolonged it in time.
func (c *core) acquire(ctx context.Context) (owner bson.ObjectID, err error) {
	owner = bson.NewObjectID()
	// The condition is in the update, because the filter of an upsert cannot compare fields.
	set := func(field string, v any) bson.E {
		return expr.Element(field, expr.Cond(lease.Over("until"), v, expr.Field(field)))
	}
	raw, err := fault.Single(c.leases.FindOneAndUpdate(ctx, expr.D("_id", c.leaseID), mongo.Pipeline{expr.Op("$set", bson.D{
		set("owner", owner), set("until", lease.In(c.Lease)),
	})}, options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After))).Raw()
	if mongo.IsDuplicateKeyError(err) {
		return owner, mongopatterns.ErrRunning // another began at the same time
	}
	if err != nil {
		if fault.MayHaveWritten(err) {
			_ = c.release(ctx, owner) // if this fails too, the lease runs out by itself
		}
		return owner, err
	}
	if has, _ := value.Lookup(raw, "owner").ObjectIDOK(); has != owner {
		stored := value.Lookup(raw, "until")
		until := value.Text(stored)
		if at, ok := stored.TimeOK(); ok {
			until = at.UTC().Format(time.RFC3339Nano)
		}
		return owner, fmt.Errorf("%w: until %s by the server's clock, if it does not go on", mongopatterns.ErrRunning, until)
	}
	return owner, nil
}

// owned is the filter of the lease while owner has it.
func (c *core) owned(owner bson.ObjectID) bson.D {
	return expr.D("_id", c.leaseID, "owner", owner)
}

// prolong extends the lease.
func (c *core) prolong(ctx context.Context, owner bson.ObjectID) error {
	result, err := fault.One(c.leases.UpdateOne(ctx, c.owned(owner), mongo.Pipeline{expr.Op("$set", expr.D("until", lease.In(c.Lease)))}))
	if err == nil && result.MatchedCount == 0 {
		return fmt.Errorf("%w: it took over the lease", mongopatterns.ErrRunning)
	}
	return err
}

// release gives the lease back, even if the context has ended. If the server refuses, it runs out by itself: with a
// deadline the driver would repeat the write until then without pauses.
func (c *core) release(ctx context.Context, owner bson.ObjectID) error {
	late, cancel := txn.Late(ctx)
	defer cancel()
	undated, stop := pause.Undated(late)
	defer stop()
	_, err := fault.One(c.leases.UpdateOne(undated, c.owned(owner), expr.Op("$unset", expr.D("owner", "", "until", ""))))
	if over := late.Err(); over != nil && errors.Is(err, context.Canceled) { // nobody else has cancelled undated
		return fault.Unknown(fmt.Errorf("%w: %v", over, err))
	}
	return err
}
