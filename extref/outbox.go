package extref

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// The fields of an entry; its _id is the source's.
const (
	changeField   = "change" // of the newest change: an entry is removed only as it was read
	sinceField    = "since"
	dueField      = "due"
	attemptsField = "attempts"
	errorField    = "error"
)

const maxBackoff = 10 * time.Minute

// errNoOutbox says that the Ref was made without one.
var errNoOutbox = fmt.Errorf("%w: no Options.Outbox", ErrInvalid)

// enqueue writes the source's entry, within the transaction of its change.
// Changes that have not been propagated yet share one: what is propagated is the
// newest state.
func (r *Ref[ID, S]) enqueue(ctx context.Context, id bson.RawValue) error {
	now := time.Now()
	_, err := r.opts.Outbox.UpdateOne(ctx, byID(id), bson.D{
		{Key: "$set", Value: bson.D{
			{Key: changeField, Value: bson.NewObjectID()},
			{Key: dueField, Value: now},
			{Key: attemptsField, Value: 0},
		}},
		{Key: "$unset", Value: bson.D{{Key: errorField, Value: ""}}},
		{Key: "$setOnInsert", Value: bson.D{{Key: sinceField, Value: now}}},
	}, options.UpdateOne().SetUpsert(true))
	return err
}

// DrainOptions bounds Drain.
type DrainOptions struct {
	// MaxEntries is how many entries it takes on. Default 0: all that are due.
	MaxEntries int64
	// BatchSize is how many documents one write updates. Default 1000.
	BatchSize int
	// Lease is how long an entry that a worker has taken on is left alone by
	// others; longer work is done twice, without harm. Default 1 minute.
	Lease time.Duration
	// Progress is called after each entry with those done so far. Default nil.
	Progress func(done int64)
}

// DrainResult says what Drain did.
type DrainResult struct {
	Done   int64 `json:"done"`   // entries propagated and removed
	Failed int64 `json:"failed"` // entries left with an error, to be tried again later
	Copies int64 `json:"copies"` // documents written
}

// Drain propagates the sources in the outbox until no entry is due. Call it every
// so often, in one process or in several at once. An entry is removed when the
// state it stands for, or a newer one, is in all copies; a crash before that
// leaves it to a later call, when its lease is over. Entries of sources that are
// gone are removed.
//
// An entry that fails keeps the error and is tried again after a while, up to 10
// minutes, for ever; the others go on. Drain then returns the first such error, a
// *SourceError, with the complete result, and Pending tells which entries fail.
//
// Cost: 2 round trips and 2 writes to the outbox for each entry, the first by the
// index {due: 1}, the second by _id, and those of a Propagate; 1 round trip at
// the end.
func (r *Ref[ID, S]) Drain(ctx context.Context, opts *DrainOptions) (DrainResult, error) {
	result, err := r.drain(ctx, opts)
	if err != nil {
		return result, fmt.Errorf("extref: drain: %w", err)
	}
	return result, nil
}

func (r *Ref[ID, S]) drain(ctx context.Context, opts *DrainOptions) (DrainResult, error) {
	var result DrainResult
	var o DrainOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "DrainOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, err
	}
	switch {
	case o.MaxEntries < 0:
		return result, fmt.Errorf("%w: DrainOptions.MaxEntries: negative", ErrInvalid)
	case o.Lease < 0:
		return result, fmt.Errorf("%w: DrainOptions.Lease: negative", ErrInvalid)
	case o.Lease == 0:
		o.Lease = time.Minute
	}
	if r.opts.Outbox == nil {
		return result, errNoOutbox
	}
	ctx, end, err := r.causal(ctx)
	if err != nil {
		return result, err
	}
	defer end()
	var failure error
	for o.MaxEntries == 0 || result.Done+result.Failed < o.MaxEntries {
		entry, err := r.claim(ctx, o.Lease)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return result, failure
		}
		if err != nil {
			return result, err
		}
		id := entry.Lookup("_id")
		done, err := r.propagateID(ctx, id, &PropagateOptions{BatchSize: o.BatchSize, Progress: func(int64) {}})
		result.Copies += done.Copies
		as := append(byID(id), bson.E{Key: changeField, Value: entry.Lookup(changeField)})
		switch {
		case err == nil, errors.Is(err, ErrNotFound):
			if _, err := r.opts.Outbox.DeleteOne(ctx, as); err != nil {
				return result, err
			}
			result.Done++
			o.Progress(result.Done)
		case ctx.Err() != nil:
			return result, err
		default:
			if failure == nil {
				failure = &SourceError{Source: id, Err: err}
			}
			result.Failed++
			if err := r.postpone(ctx, as, entry, err); err != nil {
				return result, errors.Join(failure, err)
			}
		}
	}
	return result, failure
}

// claim takes on the entry that has been due longest.
func (r *Ref[ID, S]) claim(ctx context.Context, lease time.Duration) (bson.Raw, error) {
	now := time.Now()
	return r.opts.Outbox.FindOneAndUpdate(ctx,
		bson.D{{Key: dueField, Value: bson.D{{Key: "$lte", Value: now}}}},
		bson.D{
			{Key: "$set", Value: bson.D{{Key: dueField, Value: now.Add(lease)}}},
			{Key: "$inc", Value: bson.D{{Key: attemptsField, Value: 1}}},
		},
		options.FindOneAndUpdate().SetSort(bson.D{{Key: dueField, Value: 1}}).SetReturnDocument(options.After)).Raw()
}

// postpone notes why an entry failed and when to try again.
func (r *Ref[ID, S]) postpone(ctx context.Context, as bson.D, entry bson.Raw, why error) error {
	attempts, _ := rawvalue.Lookup(entry, attemptsField).AsInt64OK()
	wait := maxBackoff
	if attempts < 10 {
		wait = min(maxBackoff, time.Second<<attempts)
	}
	_, err := r.opts.Outbox.UpdateOne(ctx, as, bson.D{{Key: "$set", Value: bson.D{
		{Key: dueField, Value: time.Now().Add(wait)},
		{Key: errorField, Value: why.Error()},
	}}})
	return err
}

// An Entry is a source in the outbox.
type Entry struct {
	// ID is the source's _id.
	ID bson.RawValue `json:"id"`
	// Since is when the oldest change was made that is not propagated yet.
	Since time.Time `json:"since"`
	// Due is when a worker may take it on: in the future while one works on it,
	// or waits to try again.
	Due time.Time `json:"due"`
	// Attempts is how often it was taken on since the last change.
	Attempts int64 `json:"attempts"`
	// Error is why the last attempt failed; "" if none has.
	Error string `json:"error,omitempty"`
}

// Pending yields the entries of the outbox, those that are due first.
//
// Cost: 1 round trip a batch of the cursor, by the index {due: 1}.
func (r *Ref[ID, S]) Pending(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if r.opts.Outbox == nil {
			yield(Entry{}, fmt.Errorf("extref: pending: %w", errNoOutbox))
			return
		}
		cursor, err := r.opts.Outbox.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: dueField, Value: 1}}))
		if err != nil {
			yield(Entry{}, fmt.Errorf("extref: pending: %w", err))
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			doc := cursor.Current
			entry := Entry{ID: valueOf(doc.Lookup("_id")), Since: timeOf(doc, sinceField), Due: timeOf(doc, dueField)}
			entry.Attempts, _ = rawvalue.Lookup(doc, attemptsField).AsInt64OK()
			entry.Error, _ = rawvalue.Lookup(doc, errorField).StringValueOK()
			if !yield(entry, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(Entry{}, fmt.Errorf("extref: pending: %w", err))
		}
	}
}

func timeOf(doc bson.Raw, field string) time.Time {
	if at, ok := rawvalue.Lookup(doc, field).DateTimeOK(); ok {
		return time.UnixMilli(at).UTC()
	}
	return time.Time{}
}
