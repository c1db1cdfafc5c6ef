package windows

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// An Upsert stores some measurements in a document.
type Upsert struct{ Filter, Update bson.Raw }

// ID is the _id of the document, which slots has only for a new one.
func (u Upsert) ID() bson.RawValue {
	id := u.Filter.Lookup("_id")
	if id.Type == 0 {
		id = u.Update.Lookup("$setOnInsert", "_id")
	}
	return id
}

// A Fate is the result of an upsert.
type Fate int

// The fates of upserts.
const (
	Written    Fate = iota
	Taken           // a document with its _id exists that its filter did not select: it is full, or holds the measurements
	TooLarge        // the document would exceed 16 MiB
	Unkeyed         // a router needs the shard key in the filter
	Refused         // the server refuses it, and would again
	Unsent          // it was not stored, and may be tried again
	Unanswered      // no answer came: it may be stored
)

// An Outcome is a fate with the server's error, or an ErrInvalid around it for a document that would be too large.
type Outcome struct {
	Fate Fate
	Err  error
}

// Send sends upserts in one unordered bulk write and returns the outcome of each. err is nil if each is
// Written, Taken, TooLarge or Unkeyed, or, outside a transaction, Refused. If only one has failed, it names the
// document.
//
// Cost: 1 round trip.
func (f *Frame) Send(ctx context.Context, all []Upsert) ([]Outcome, error) {
	if err := ctx.Err(); err != nil { // before the driver, which would not say that nothing was sent
		return nil, err
	}
	models := make([]mongo.WriteModel, len(all))
	for i, u := range all {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(u.Filter).SetUpdate(u.Update)
	}
	_, err := fault.Many(f.Coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	out := make([]Outcome, len(all))
	if err == nil {
		return out, nil
	}
	var answer mongo.BulkWriteException
	failed := !errors.As(err, &answer) || answer.WriteConcernError != nil // it may be rolled back
	if failed {
		fate := Unsent
		if fault.MayHaveWritten(err) {
			fate = Unanswered
		}
		for i := range out {
			out[i] = Outcome{fate, err}
		}
	}
	for _, e := range answer.WriteErrors {
		one := answer // the answer about this upsert alone
		one.WriteErrors = []mongo.BulkWriteError{e}
		fate := fateOf(e)
		out[e.Index] = Outcome{fate, fault.Types(fault.Arrays(fault.Sized(one)))}
		failed = failed || fate > Refused || fate == Refused && txn.Running(ctx)
	}
	if !failed {
		return out, nil
	}
	if len(answer.WriteErrors) == 1 {
		err = fault.Of(all[answer.WriteErrors[0].Index].ID(), fault.Types(err))
	}
	return out, err
}

// shardKeyNotFound is the server's code for a filter without the shard key.
const shardKeyNotFound = 61

func fateOf(e mongo.BulkWriteError) Fate {
	switch {
	case mongo.IsDuplicateKeyError(e):
		return Taken
	case fault.UpdateTooLarge(e):
		return TooLarge
	case e.HasErrorCode(shardKeyNotFound):
		return Unkeyed
	case fault.Refused(e):
		return Refused
	}
	return Unsent
}

// CountRefused counts the rows that nobody can store in a document, and names it by its _id.
func (f *Frame) CountRefused(r *mongopatterns.Result, id bson.RawValue, rows int, err error) {
	maintain.Fail(r, f.Coll.Name(), id, err)
	r.Failed += int64(rows - 1)
}

// CheckRetry returns nil if upserts whose document was full may be sent again after so many attempts, and otherwise the
// error that ends the call. reason is the server's for one of them. In a transaction nothing is sent again, because the
// server's error has ended it; only after a duplicate key would another run of the transaction be of no use.
func (f *Frame) CheckRetry(ctx context.Context, attempt int, reason error) error {
	running := txn.Running(ctx)
	switch {
	case !running && attempt < pause.Attempts:
		return nil
	case mongo.IsDuplicateKeyError(reason):
		return fmt.Errorf("%w: every attempt met a duplicate key: %w", fault.ErrConflict, reason)
	case running:
		return txn.Conflict("to be sent otherwise: " + reason.Error())
	}
	return reason
}
