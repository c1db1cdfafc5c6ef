// Package txn runs the transactions of the pattern packages by one rule: join
// the transaction of the context if there is one, otherwise start one and
// retry it as the driver does.
package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

const (
	codeIllegalOperation = 20
	codeWriteConflict    = 112
	labelTransient       = "TransientTransactionError"

	// retryLimit is how long write conflicts without a transient label are
	// retried: the limit of the driver's own WithTransaction.
	retryLimit = 120 * time.Second
	backoffMax = 500 * time.Millisecond
)

// Running reports whether ctx carries a session with a transaction under way.
func Running(ctx context.Context) bool {
	session := mongo.SessionFromContext(ctx)
	return session != nil && session.TransactionRunning()
}

// Run calls fn in a transaction with snapshot reads from the primary and
// majority writes.
//
// If ctx carries a running transaction fn joins it, and its error goes back as
// it is so that whoever started the transaction can retry. Otherwise Run starts
// one, on the session of ctx or on a new one; fn can then run several times and
// must not keep state between runs.
//
// A write conflict is retried even without the transient label, which some servers
// leave out. When ctx ends during the retries, the error says what they waited for
// in words alone: it is ctx's error and no conflict that a caller could solve.
func Run(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) (err error) {
	if Running(ctx) {
		return fault.Unknown(unsupported(fn(ctx))) // until whoever began it commits
	}
	committing := false
	defer func() {
		if committing {
			err = fault.Unknown(err)
		} else {
			err = fault.NotDone(err)
		}
	}()
	session, end := mongo.SessionFromContext(ctx), func() {}
	own := session == nil
	if own {
		if session, err = client.StartSession(); err != nil {
			return err
		}
		end = func() { session.EndSession(context.WithoutCancel(ctx)) }
	}
	defer func() { end() }()
	opts := options.Transaction().
		SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary()) // the client's may be another, which a transaction refuses
	var waited error // for what fn is run again
	body := func(ctx context.Context) (any, error) {
		committing = false
		// WithTransaction calls an expired server selection transient and comes
		// back without a look at ctx.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := fn(ctx)
		if transient(err) {
			waited = err
		}
		committing = err == nil
		return nil, err
	}

	start := time.Now()
	for backoff := 5 * time.Millisecond; ; backoff = min(backoff*2, backoffMax) {
		_, err := session.WithTransaction(ctx, body, opts)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			if own {
				fenceAside(ctx, client, session, end)
				end = func() {}
			} else {
				fence(ctx, client, session, fenceWait)
			}
			return ended(ctx.Err(), waited, err)
		}
		if !unlabelledConflict(err) || time.Since(start) > retryLimit {
			return unsupported(err)
		}
		select {
		case <-ctx.Done():
			return ended(ctx.Err(), waited, err)
		case <-time.After(rand.N(backoff)):
		}
	}
}

const (
	// fenceWait is how long a call whose context has ended waits for its fence,
	// fenceBound how long the fence itself may take.
	fenceWait  = 500 * time.Millisecond
	fenceBound = 30 * time.Second
)

// fenceAside is fence for a session that nobody else has, which end then ends. What is
// slow goes on after fenceWait: a fence that is cut off can leave its own transaction
// open.
func fenceAside(ctx context.Context, client *mongo.Client, session *mongo.Session, end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fence(ctx, client, session, fenceBound)
		end()
	}()
	select {
	case <-done:
	case <-time.After(fenceWait):
	}
}

// fence makes sure that the transaction of a context that has ended is over. The driver
// closes the connection of the command that was under way and sends the abort on another,
// where it can overtake the command, which then opens the transaction for good: its
// documents would stay locked until the server's transactionLifetimeLimitSeconds. A later
// transaction of the same session ends an earlier one, and refuses it if it comes after.
// The stage reads no collection, so any user may run it.
func fence(ctx context.Context, client *mongo.Client, session *mongo.Session, bound time.Duration) {
	if session.StartTransaction() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	ctx = mongo.NewSessionContext(ctx, session)
	c, err := client.Database("mongopatterns").Aggregate(ctx, mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}})
	if err == nil {
		_ = c.Close(ctx)
	}
	_ = session.AbortTransaction(ctx)
}

// ended is the error of a transaction whose context is over.
func ended(over, waited, last error) error {
	if waited == nil {
		if errors.Is(last, over) {
			return last
		}
		waited = last
	}
	if fault.Unanswered(last) {
		return fmt.Errorf("%w: %w", over, last)
	}
	return fmt.Errorf("%w; the transaction was waiting: %v", over, waited)
}

// Conflict is the error of a guard in a filter that no longer matches: within Run
// it has the transaction, whoever started it, run again.
func Conflict(what string) error {
	return fmt.Errorf("%s: %w", what, mongo.CommandError{
		Code:    codeWriteConflict,
		Name:    "WriteConflict",
		Message: "the document changed while it was read",
		Labels:  []string{labelTransient},
	})
}

// transient reports an error after which a transaction is run again.
func transient(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorLabel(labelTransient) || unlabelledConflict(err)
}

// Conflicted reports that a server ended a transaction, which another run may bring to its
// end: for a conflict with another writer, or for its size or duration.
func Conflicted(err error) bool { return err != nil && transient(err) && !mongo.IsNetworkError(err) }

// unlabelledConflict reports a conflict that WithTransaction has not retried
// itself: DocumentDB sends them without the label, those of snapshots under other
// codes.
func unlabelledConflict(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && !server.HasErrorLabel(labelTransient) &&
		(server.HasErrorCode(codeWriteConflict) || strings.Contains(server.Error(), "could not serialize access"))
}

// unsupported marks the error with which a standalone server refuses a
// transaction.
func unsupported(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCodeWithMessage(codeIllegalOperation, "Transaction numbers") {
		return fmt.Errorf("%w: %w", fault.ErrTransactionsUnsupported, err)
	}
	return err
}
