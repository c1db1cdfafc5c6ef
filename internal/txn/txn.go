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

	// grace is how long after its context a call may return: a commit or an abort has it to
	// be answered.
	grace = 500 * time.Millisecond
	// fenceBound is how long the end of a transaction may go on behind a call, fenceTry
	// how long it waits for an answer before it tries again.
	fenceBound = 30 * time.Second
	fenceTry   = 5 * time.Second

	// Those who wait for others try again after pauses that do not grow beyond pauseMax. The
	// driver's grow to half a second: whoever has waited longest then sleeps longest, and
	// newcomers get what he waits for.
	pauseMin = 2 * time.Millisecond
	pauseMax = 50 * time.Millisecond
)

// limit is how long a transaction is tried if its context has no deadline: as long as
// the driver's own.
var limit = 120 * time.Second // a test shortens it

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
// A transaction that conflicts with another is run again until ctx ends, or for two
// minutes if it has no deadline; a Timeout of the client does not shorten that, as it does
// for the driver's WithTransaction. A write conflict is retried even without the transient
// label, which some servers leave out. When ctx ends during the retries, the error says what
// they waited for in words alone: it is ctx's error and no conflict that a caller could
// solve.
//
// Run returns half a second after ctx at the latest, also if a commit or an abort is not
// answered: the driver's would wait without end. Its error says whether the transaction is
// committed, as fault has it.
func Run(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	if Running(ctx) {
		return fault.Unknown(unsupported(fn(ctx))) // until whoever began it commits
	}
	if err := ctx.Err(); err != nil {
		return fault.NotDone(err)
	}
	t := &transaction{client: client, session: mongo.SessionFromContext(ctx)}
	if t.session == nil {
		var err error
		if t.session, err = client.StartSession(); err != nil {
			return fault.NotDone(err)
		}
		t.own = true
	} else if l, ok := ctx.Value(lentKey{}).(*lent); ok && l.session == t.session {
		t.lent = l
	}
	ctx, cancel := within(ctx)
	defer cancel()
	late, stop := after(ctx)
	defer stop()
	defer t.end(ctx, late)
	var waited error // for what fn is run again
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err, committing := t.try(ctx, late, fn)
		over := ctx.Err()
		switch {
		case err == nil:
			return nil
		case committing && !aborted(err):
			if over != nil {
				err = ended(over, nil, err)
			}
			return fault.Unknown(err)
		case over != nil:
			return fault.NotDone(ended(over, waited, err))
		case !transient(err):
			return fault.NotDone(unsupported(err))
		}
		if !mongo.IsTimeout(err) { // that of ctx, which is about to end
			waited = err
		}
		select {
		case <-ctx.Done():
			return fault.NotDone(ended(ctx.Err(), waited, err))
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// within is ctx with a deadline. It also keeps the driver from giving each command the
// client's Timeout.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// after is a context that ends when grace has passed since ctx ended.
func after(ctx context.Context) (late context.Context, stop context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	late, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(grace))
	free := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return late, func() {
		free()
		cancel()
	}
}

// Late is a context that ends half a second after ctx, for what a call has to put right at its end.
func Late(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := within(ctx)
	late, stop := after(ctx)
	return late, func() {
		stop()
		cancel()
	}
}

// A transaction is tried on one session, under a new number each time.
type transaction struct {
	client  *mongo.Client
	session *mongo.Session
	own     bool // the session is no one else's
	lent    *lent
	open    bool // the server may have one of it open
}

// lent is a session that Session has put into a context.
type lent struct {
	session *mongo.Session
	open    bool // the server may have a transaction of it open
}

type lentKey struct{}

// Session gives ctx a session for all that a call does, its transactions included. end ends it; a transaction that
// may be open is ended behind the call then, as Run does it on a session of its own. Without one in between the
// server would keep it open until transactionLifetimeLimitSeconds.
func Session(ctx context.Context, client *mongo.Client) (in context.Context, end func(), err error) {
	session, err := client.StartSession()
	if err != nil {
		return ctx, func() {}, err
	}
	l := &lent{session: session}
	in = context.WithValue(mongo.NewSessionContext(ctx, session), lentKey{}, l)
	return in, func() {
		if !l.open {
			session.EndSession(context.WithoutCancel(ctx))
			return
		}
		go (&transaction{client: client, session: session}).close(ctx)
	}, nil
}

// try runs fn once and commits. committing says that the error is the commit's.
func (t *transaction) try(ctx, late context.Context, fn func(ctx context.Context) error) (err error, committing bool) {
	if err := t.session.StartTransaction(options.Transaction().
		SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary())); err != nil { // the client's may be another, which a transaction refuses
		return err, false
	}
	err = fn(mongo.NewSessionContext(ctx, t.session))
	if !t.session.TransactionRunning() { // fn has ended it
		return err, false
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = t.commit(late)
		t.open = err != nil && (t.open || !aborted(err))
		return err, true
	}
	// An abort without an answer does not keep the call until its deadline.
	if !t.abort(late, grace) || ctx.Err() != nil || mongo.IsTimeout(err) || mongo.IsNetworkError(err) {
		t.open = true
	}
	return err, false
}

// abort reports whether the server has answered, which the driver does not say: it repeats an abort without an
// answer until the time is over.
func (t *transaction) abort(ctx context.Context, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	start := time.Now()
	_ = t.session.AbortTransaction(ctx)
	return ctx.Err() == nil && time.Since(start) < bound/2
}

// commit sends the commit until it is answered.
func (t *transaction) commit(late context.Context) error {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err := t.session.CommitTransaction(late)
		if err == nil || aborted(err) || late.Err() != nil ||
			!fault.Unanswered(err) && !mongo.IsTimeout(err) && !mongo.IsNetworkError(err) && !labelled(err) {
			return err
		}
		select {
		case <-late.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// aborted reports the answer to a commit that says that the transaction was aborted. The
// driver labels some errors transient that come before a commit is sent again.
func aborted(err error) bool {
	var server mongo.CommandError
	return errors.As(err, &server) && server.Code != 0 && !fault.Unanswered(err) && (labelled(err) || fault.Denied(err))
}

// end ends what may be open, and the session if it is Run's own. For that of the caller, who may
// use it as soon as Run returns, only the time until late is left; what is open then ends
// with its next transaction.
func (t *transaction) end(ctx, late context.Context) {
	if t.lent != nil {
		t.lent.open = t.open
		return
	}
	switch {
	case !t.open:
		if t.own {
			t.session.EndSession(late)
		}
	case t.own:
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.close(ctx)
		}()
		if ctx.Err() == nil {
			return
		}
		select {
		case <-done:
		case <-late.Done():
		}
	default:
		bounded, cancel := context.WithTimeout(late, grace)
		defer cancel()
		t.fence(bounded)
	}
}

// close ends the transaction, then the session.
func (t *transaction) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fenceBound)
	defer cancel()
	t.fence(ctx)
	t.session.EndSession(ctx)
}

// fence makes sure that the transaction is over. The driver closes the connection of a command
// that was under way when its context ended, and sends the abort on another, where it can
// overtake the command, which then opens the transaction for good: its documents would stay
// locked until the server's transactionLifetimeLimitSeconds. A later transaction of the same
// session ends an earlier one, and refuses it if it comes after; one that is being committed it
// waits for. The stage reads no collection, so any user may run it.
func (t *transaction) fence(ctx context.Context) {
	if t.session.TransactionRunning() {
		// Its commit had no answer. An abort beside it could reach another router at the same
		// time: this one is not sent, and only clears the session.
		unsent, cancel := context.WithCancel(ctx)
		cancel()
		_ = t.session.AbortTransaction(unsent)
	}
	for ctx.Err() == nil && t.session.StartTransaction() == nil {
		if t.fenced(ctx) {
			return
		}
		time.Sleep(pauseMin)
	}
}

// fenced begins a transaction and aborts it, and reports whether both were answered.
func (t *transaction) fenced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, fenceTry)
	defer cancel()
	inside := mongo.NewSessionContext(ctx, t.session)
	c, err := t.client.Database("mongopatterns").Aggregate(inside, mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}})
	if err == nil {
		_ = c.Close(inside)
	}
	return t.abort(ctx, fenceTry) && err == nil
}

// ended is the error of a transaction whose context is over.
func ended(over, waited, last error) error {
	switch {
	case errors.Is(last, over):
		if waited == nil {
			return last
		}
	case transient(last):
		waited = last
	default:
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
func transient(err error) bool { return labelled(err) || unlabelledConflict(err) }

func labelled(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorLabel(labelTransient)
}

// Conflicted reports that a server ended a transaction, which another run may bring to its
// end: for a conflict with another writer, or for its size or duration.
func Conflicted(err error) bool { return err != nil && transient(err) && !mongo.IsNetworkError(err) }

// unlabelledConflict reports a conflict without the label: DocumentDB sends them so,
// those of snapshots under other codes.
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
