// Package txn runs the transactions of the pattern packages by one rule: join
// the transaction of the context if there is one, otherwise start one and
// retry it as the driver does.
package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/turn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	codeUnauthorized     = 13
	codeIllegalOperation = 20
	codeWriteConflict    = 112
	codeLifetimeExceeded = 290
	labelTransient       = "TransientTransactionError"
	labelRetryable       = "RetryableWriteError"
	labelOverloaded      = "SystemOverloadedError"

	// grace is how long after the end of its context a call may return: the time in which a commit or an abort
	// can be answered.
	grace = 500 * time.Millisecond
	// killBound bounds the kill of a transaction's session, as fenceBound its fence. fenceTry bounds each attempt, and
	// there are fenceTries of a fence.
	killBound  = 10 * time.Second
	fenceTry   = 5 * time.Second
	fenceTries = 10
)

// applied is how long after it was sent a commit is taken to be done on the primary. If it is not, the next call of this
// process conflicts, and runs again.
const applied = 10 * time.Millisecond

// limit is how long a transaction is tried if its context has no deadline: as long as
// the driver's own.
var limit = 120 * time.Second // a test shortens it

// fenceBound bounds the fence that ends a transaction after its call has returned: an election may come first.
var fenceBound = 20 * time.Second // a test shortens it

// Running reports whether ctx carries a session with a transaction under way.
func Running(ctx context.Context) bool {
	session := sessionOf(ctx)
	return session != nil && session.TransactionRunning()
}

// sessionOf is mongo.SessionFromContext, but is not taken for a command of the transaction.
func sessionOf(ctx context.Context) *mongo.Session {
	if t, ok := ctx.Value(startedKey{}).(*transaction); ok && !t.inside.session.Load() {
		defer t.inside.session.Store(false)
	}
	return mongo.SessionFromContext(ctx)
}

// Run calls fn in a transaction with snapshot reads from the primary and
// majority writes. db is one that fn uses: its user may have no rights on another.
//
// If ctx carries a running transaction, fn joins it, and its error is returned with its labels, so that the
// owner of the transaction can retry. Otherwise Run starts a transaction, on the session of ctx or on a new
// one; fn can then run several times and must not keep state between runs.
//
// A transaction that conflicts with another is run again until ctx ends, or for two
// minutes if it has no deadline; a Timeout of the client does not shorten that, as it does
// for the driver's WithTransaction. A write conflict is retried even without the transient
// label, which some servers leave out. When ctx ends during the retries, the error says what
// they waited for in words alone: it is ctx's error and no conflict that a caller could
// solve.
//
// If ctx has no deadline, fn gets none either. The driver then applies the client's Timeout to each command and to
// the commit. The first that it ends is the end of Run, and so is one that finds no server in time.
//
// Run returns at most half a second after ctx ends, even if a commit or an abort is not answered: the
// driver would wait without end. Its error is marked by package fault to say whether the transaction is
// committed.
func Run(ctx context.Context, db *mongo.Database, fn func(ctx context.Context) error) error {
	if t, ok := ctx.Value(startedKey{}).(*transaction); ok && t.client == db.Client() {
		t.db.CompareAndSwap(nil, db)
	}
	return run(ctx, db.Client(), db, fn)
}

// RunOf is Run for a function whose databases are not known: the first call of this package that joins its
// transaction names one.
func RunOf(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	return run(ctx, client, nil, fn)
}

func run(ctx context.Context, client *mongo.Client, db *mongo.Database, fn func(ctx context.Context) error) error {
	if Running(ctx) {
		return fault.Unknown(unsupported(fn(ctx))) // until whoever began it commits
	}
	if err := ctx.Err(); err != nil {
		return fault.NotDone(err)
	}
	t := &transaction{client: client, session: mongo.SessionFromContext(ctx)}
	t.db.Store(db)
	if t.session == nil {
		var err error
		if t.session, err = client.StartSession(); err != nil {
			return fault.NotDone(err)
		}
		t.own = true
	} else if l, ok := ctx.Value(lentKey{}).(*lent); ok && l.session == t.session {
		t.lent, t.open = l, l.open
	}
	_, dated := ctx.Deadline()
	t.timed = !dated
	ctx, deadline, cancel := within(ctx)
	defer cancel()
	late, stop := after(ctx, deadline)
	defer stop()
	defer t.end(ctx, late)
	defer t.leave()
	var waited error // the conflict that made fn run again
	pauses := pause.Writers()
	for {
		got, err := t.try(ctx, late, fn)
		over := ctx.Err()
		switch {
		case got == committed:
			return nil
		case got == unknown:
			if over != nil {
				err = ended(over, nil, err)
			}
			return fault.Unknown(err)
		case over != nil:
			return fault.NotDone(ended(over, waited, err))
		case t.timed && cut(err), !transient(err):
			return fault.NotDone(unsupported(err))
		}
		if !mongo.IsTimeout(err) { // that of ctx, which is about to end
			waited = err
		}
		if over := pauses.Wait(ctx); over != nil {
			return fault.NotDone(ended(over, waited, err))
		}
		t.queue(ctx)
	}
}

// RunInTurn is Run for a function that writes to one document first, and that other calls of this process may run for the
// same document at the same time. They wait for each other, see InTurn.
func RunInTurn(ctx context.Context, coll *comment.Collection, id bson.RawValue, fn func(ctx context.Context) error) error {
	return Run(ctx, coll.Database(), func(ctx context.Context) error {
		if _, err := InTurn(ctx, coll, id); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// InTurn names documents that the transaction of ctx is about to write, and that other calls of this process may
// write at the same time. Before the transaction's first command it waits for those, and reports whether there were any.
// Later that would be too late, because the snapshot is taken: then the next attempt waits, before it begins. InTurn does
// nothing in a transaction that Run has not started. Its error is that of ctx.
func InTurn(ctx context.Context, coll *comment.Collection, ids ...bson.RawValue) (waited bool, err error) {
	t, ok := ctx.Value(startedKey{}).(*transaction)
	if !ok {
		return false, nil
	}
	for _, id := range ids {
		if t.docs == nil {
			t.docs = map[turn.Document]bool{}
		}
		t.docs[turn.Document{Client: t.client, Name: coll.Database().Name() + "." + coll.Name() + " " + value.Key(id)}] = true
	}
	if t.inside.session.Load() {
		return false, nil
	}
	waited = t.queue(ctx)
	if err = ctx.Err(); err != nil && len(t.turn) < t.queued {
		err = fmt.Errorf("%w; the call was waiting for others of this process that write the same document", err)
	}
	return waited, err
}

// queue waits for the turn at all documents that the transaction has named, unless it has waited for it. It reports
// whether others had their turn before.
func (t *transaction) queue(ctx context.Context) (waited bool) {
	if t.queued == len(t.docs) {
		return false
	}
	t.leave()
	t.turn, waited = turn.Take(ctx, slices.Collect(maps.Keys(t.docs)))
	t.queued = len(t.docs)
	return waited && len(t.turn) == t.queued
}

// leave lets the calls behind this one have their turn.
func (t *transaction) leave() {
	t.turn.End()
	t.turn, t.queued = nil, 0
}

// within returns ctx, and when it ends: at its deadline, or after limit. The driver does not see an end by limit, because
// the client's Timeout does not count in a context with a deadline.
func within(ctx context.Context) (context.Context, time.Time, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return ctx, deadline, func() {}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	deadline, _ := limited.Deadline()
	return undated{limited}, deadline, cancel
}

// undated is a context that does not show its deadline.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// after is a context that ends when grace has passed since ctx ended. deadline is that of ctx.
func after(ctx context.Context, deadline time.Time) (late context.Context, stop context.CancelFunc) {
	late, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(grace))
	free := context.AfterFunc(ctx, func() {
		if time.Now().Before(deadline) { // else late ends by its deadline: nobody has cancelled it
			time.AfterFunc(grace, cancel)
		}
	})
	return late, func() {
		free()
		cancel()
	}
}

// Late is a context that ends half a second after ctx, for the cleanup at the end of a call.
func Late(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, deadline, cancel := within(ctx)
	late, stop := after(ctx, deadline)
	return late, func() {
		stop()
		cancel()
	}
}

// A transaction is all attempts of one Run: they use one session, and each has a new number.
type transaction struct {
	client  *mongo.Client
	db      atomic.Pointer[mongo.Database] // one that it has used; nil if none is known
	session *mongo.Session
	own     bool // nobody else uses the session
	timed   bool // its context has no deadline, so that the client's Timeout counts
	lent    *lent
	open    bool // the server may have one of it open

	inside *used                  // the context of the attempt under way
	docs   map[turn.Document]bool // that InTurn has named
	turn   turn.Turn              // at those
	queued int                    // the number of docs for which it has waited
}

// lent is a session that Session has put into a context.
type lent struct {
	session *mongo.Session
	open    bool // the server may have a transaction of it open
}

type lentKey struct{}

// startedKey is the key of the *transaction that a context carries.
type startedKey struct{}

// Session gives ctx a session for everything that a call does, with all its transactions. end ends the
// session. If a transaction may still be open, end aborts it in the background, as Run does on a session of
// its own. Without that, the server would keep it open until transactionLifetimeLimitSeconds.
func Session(ctx context.Context, db *mongo.Database) (in context.Context, end func(), err error) {
	session, err := db.Client().StartSession()
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
		t := &transaction{client: db.Client(), session: session}
		t.db.Store(db)
		t.close(ctx)
	}, nil
}

// Causal gives ctx a session, unless it has one, in which each operation and transaction sees everything that earlier
// ones saw. Without it, a snapshot may be older than a read before it, and a shard may not show yet what another has
// shown.
func Causal(ctx context.Context, db *mongo.Database) (in context.Context, end func()) {
	if sessionOf(ctx) != nil {
		return ctx, func() {}
	}
	in, end, _ = Session(ctx, db) // if the client is closed, the operations return that error
	return in, end
}

// A result is what an attempt has come to.
type result int

const (
	committed result = iota
	undone           // nothing is stored, and nothing will be
	unknown          // everything is stored, or nothing
)

// try runs fn once and commits. Its error is nil only after a commit.
func (t *transaction) try(ctx, late context.Context, fn func(ctx context.Context) error) (result, error) {
	if err := t.start(); err != nil {
		return undone, err
	}
	t.inside = &used{Context: mongo.NewSessionContext(ctx, t.session)}
	err := fn(context.WithValue(t.inside, startedKey{}, t))
	if !t.session.TransactionRunning() {
		t.open = true // the driver does not say whether an abort was answered
		if err != nil {
			return unknown, fmt.Errorf("%w: %w", errEnded, err)
		}
		return unknown, errEnded
	}
	if err = cmp.Or(err, ctx.Err()); err == nil {
		return t.resultOf(t.committing(late))
	}
	if t.own && !t.inside.session.Load() { // a session of the caller can be reached in other ways
		t.forget() // the server does not know it
		return undone, err
	}
	// An abort without an answer does not keep the call until its deadline.
	if !t.abort(late, grace) || ctx.Err() != nil || mongo.IsTimeout(err) || mongo.IsNetworkError(err) {
		t.open = true
	}
	return undone, err
}

// resultOf returns the result of an attempt whose commit returned err.
func (t *transaction) resultOf(err error) (result, error) {
	switch {
	case err == nil:
		return committed, nil
	case aborted(err):
		return undone, err
	}
	t.open = true
	return unknown, err
}

// errEnded is the error of a function that has committed or aborted its transaction. What is stored is not known.
var errEnded = fault.Invalid("fn has ended the transaction itself, and must only return")

// start begins an attempt. The client's concerns and read preference may be others, which a transaction refuses.
func (t *transaction) start() error {
	return t.session.StartTransaction(options.Transaction().
		SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary()))
}

// used is a context that notes whether its session was asked for, as the driver does for each command.
type used struct {
	context.Context
	session atomic.Bool
}

func (u *used) Value(key any) any {
	v := u.Context.Value(key)
	if _, ok := v.(*mongo.Session); ok {
		u.session.Store(true)
	}
	return v
}

// abort aborts the transaction and reports whether the server has said that it is over. The driver's own abort does
// not tell, and with a deadline it repeats itself until then without pauses. This one is sent once: a repetition can
// come to another router, which knows nothing of the transaction and says that it is over. end ends what is open.
func (t *transaction) abort(ctx context.Context, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(mongo.NewSessionContext(ctx, t.session), bound)
	defer cancel()
	defer t.forget()
	return decided(t.command(ctx, bson.D{{Key: "abortTransaction", Value: 1}}))
}

func (t *transaction) command(ctx context.Context, command bson.D) error {
	return fault.Single(t.session.Client().Database("admin").RunCommand(ctx, command)).Err()
}

// decided reports whether err, of a command that ends a transaction, answers it. A server that is overloaded or
// about to stop answers without having done anything.
func decided(err error) bool { return err == nil || fault.Denied(err) }

// forget ends the transaction in the session alone: the driver sends no command after its deadline, nor does it tell a
// monitor of one.
func (t *transaction) forget() {
	over, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	_ = t.session.AbortTransaction(over)
}

// reset ends a commit that was repeated in the session alone: otherwise the driver would send the next command in this
// session as one of the transaction.
func (t *transaction) reset() {
	if t.start() == nil { // else it still runs, and fence ends it
		t.forget()
	}
}

// committing commits, and lets the next call have its turn when the commit is answered, or soon after it was sent: a
// majority may take long, and the documents can be written as soon as the primary has the commit.
func (t *transaction) committing(late context.Context) error {
	if len(t.docs) == 0 {
		return t.commit(late)
	}
	sent := time.AfterFunc(applied, t.turn.End)
	err := t.commit(late)
	if !sent.Stop() {
		t.turn = nil // it has ended
	}
	t.leave()
	return err
}

// commit sends the commit until it is answered.
func (t *transaction) commit(late context.Context) error {
	ctx, stop := pause.Undated(late)
	defer stop()
	pauses := pause.Writers()
	for attempt := 0; ; attempt++ {
		if attempt == 1 {
			defer t.reset()
		}
		err := t.session.CommitTransaction(ctx)
		over := late.Err()
		if over != nil && errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: %v", over, err) // nobody else has cancelled ctx
		}
		if over != nil || t.timed && cut(err) || !unanswered(err) || pauses.Wait(late) != nil {
			return err
		}
	}
}

// cut reports whether a command ended for lack of time, though the context of its call has not: by the client's Timeout,
// or because it found no server.
func cut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// unanswered reports whether a commit is sent again after this error.
func unanswered(err error) bool {
	return err != nil && !aborted(err) &&
		(fault.Unanswered(err) || fault.Unconnected(err) || mongo.IsTimeout(err) || mongo.IsNetworkError(err) ||
			labelled(err, labelTransient) || labelled(err, labelRetryable) || labelled(err, labelOverloaded))
}

// aborted reports whether err is an answer to a commit, and says that the transaction was aborted. The labels
// alone do not tell: the driver adds the transient label to some errors after which the commit is sent again.
// Another refusal, and that of an overloaded server, tells nothing: it may answer the driver's repetition of a commit
// that is done.
func aborted(err error) bool {
	var server mongo.CommandError
	return errors.As(err, &server) && server.Code != 0 && !fault.Unanswered(err) && !labelled(err, labelOverloaded) &&
		(labelled(err, labelTransient) || unlabelledConflict(err))
}

// end ends a transaction that may be open, and the session if Run started it. The caller may use its own
// session as soon as Run returns, so end then has only the time until late; what is still open after that ends
// with the next transaction of the session.
func (t *transaction) end(ctx, late context.Context) {
	if t.lent != nil {
		if t.session.TransactionRunning() { // a commit without an answer: the next Run must not join it
			t.forget()
		}
		t.lent.open = t.open
		return
	}
	switch {
	case !t.open:
		if t.own {
			t.session.EndSession(late)
		}
	case t.own:
		closed := t.close(ctx)
		if ctx.Err() == nil {
			return
		}
		select {
		case <-closed:
		case <-late.Done():
		}
	default:
		bounded, cancel := context.WithTimeout(late, grace)
		defer cancel()
		t.fence(bounded)
	}
}

// close ends the transaction, then the session, in the background. The kill has time of its own: a fence that was not
// answered has used up all it had.
func (t *transaction) close(ctx context.Context) (closed <-chan struct{}) {
	ctx = context.WithoutCancel(ctx)
	fencing, fenced := context.WithTimeout(ctx, fenceBound)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer fenced()
		over := t.fence(fencing)
		ctx, cancel := context.WithTimeout(ctx, killBound)
		defer cancel()
		if !over || t.routed(ctx) {
			t.kill(ctx)
		}
		t.session.EndSession(ctx)
	}()
	return done
}

// fence makes sure that the transaction is over, and reports whether it is. When the context of a command ends,
// the driver closes the command's connection and sends the abort on another, where it can overtake the command.
// The command then opens the transaction again, and its documents stay locked until
// transactionLifetimeLimitSeconds. A later transaction of the same session prevents this: the server ends the
// earlier one, refuses its late commands, and waits for its commit. The stage $documents reads no collection, so
// a user who may read anything in the database may run it, and on MongoDB 7.0 one who may not, too. If no database is
// known, or the server refuses the stage, fence gives up.
func (t *transaction) fence(ctx context.Context) bool {
	if t.session.TransactionRunning() {
		t.forget() // the commit had no answer, and an abort could reach another router at the same time
	}
	db := t.db.Load()
	if db == nil {
		return false
	}
	pauses := pause.Between(10*time.Millisecond, fenceTry)
	for range fenceTries {
		if ctx.Err() != nil || t.start() != nil {
			return false
		}
		answered, err := t.fenced(ctx, db)
		if answered {
			return true
		}
		var server mongo.ServerError
		if errors.Is(err, mongo.ErrClientDisconnected) || errors.As(err, &server) && server.HasErrorCode(codeUnauthorized) {
			return false
		}
		if pauses.Wait(ctx) != nil {
			return false
		}
	}
	return false
}

// routed reports whether the server is a mongos, or may be one.
func (t *transaction) routed(ctx context.Context) bool {
	var server struct{ Msg string }
	err := fault.Single(t.client.Database("admin").RunCommand(mongo.NewSessionContext(ctx, nil), bson.D{{Key: "hello", Value: 1}})).Decode(&server)
	return err != nil || server.Msg == "isdbgrid"
}

// kill ends the transaction where fence did not: on the other shards of a cluster, because the later transaction
// reached only one of them, and wherever fence gave up. A mongos sends killSessions to all servers. They ignore
// prepared transactions, so a commit under way is safe. kill comes after fence, because it does not refuse
// commands that arrive later. It is not used for a session of the caller, because it closes the cursors of the
// session. It is sent until it is answered, or ctx ends.
func (t *transaction) kill(ctx context.Context) {
	ctx = mongo.NewSessionContext(ctx, nil) // killSessions in the session would end itself
	try := func() error {
		ctx, cancel := context.WithTimeout(ctx, fenceTry)
		defer cancel()
		return t.command(ctx, bson.D{{Key: "killSessions", Value: bson.A{t.session.ID()}}})
	}
	pauses := pause.Between(2*time.Millisecond, fenceTry)
	for {
		err := try()
		if decided(err) || errors.Is(err, mongo.ErrClientDisconnected) || pauses.Wait(ctx) != nil {
			return
		}
	}
}

// fenced begins a transaction and aborts it. It reports whether both were answered, and the error of the begin.
func (t *transaction) fenced(ctx context.Context, db *mongo.Database) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTry)
	defer cancel()
	inside := mongo.NewSessionContext(ctx, t.session)
	c, err := comment.Aggregate(inside, db, mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}})
	if err != nil {
		t.forget() // the next one ends what may be open
		return false, err
	}
	_ = c.Close(inside)
	return t.abort(ctx, fenceTry), nil
}

// ended is the error of Run after its context has ended: over is the error of the context, waited the conflict
// that made Run try again, last the error of the last attempt.
func ended(over, waited, last error) error {
	switch {
	case errors.Is(last, over):
		if waited == nil {
			return last
		}
	case errors.Is(last, context.Canceled): // the driver's word for the end of a context that shows no deadline
		waited = cmp.Or(waited, last)
	case transient(last):
		waited = last
	default:
		return fmt.Errorf("%w: %w", over, last)
	}
	return fmt.Errorf("%w; the transaction was waiting: %v", over, waited)
}

// Conflict is the error for a filter whose guard no longer matches. Whoever started the transaction runs it
// again after this error.
func Conflict(what string) error {
	return fmt.Errorf("%s: %w", what, mongo.CommandError{
		Code:    codeWriteConflict,
		Name:    "WriteConflict",
		Message: "the document changed while it was read",
		Labels:  []string{labelTransient},
	})
}

// transient reports whether the transaction is run again after this error. If a new connection ends during its login,
// the driver adds no label and does not try another.
func transient(err error) bool {
	return labelled(err, labelTransient) || unlabelledConflict(err) || expired(err) || fault.Unconnected(err)
}

// expired reports whether the server ended a transaction during a command because it took too long. Such an error
// has no label.
func expired(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(codeLifetimeExceeded)
}

// labelled reports whether err has a label. When the driver finds no server on which to retry a commit, it returns the
// write concern error of the first attempt, and its type is not a mongo.ServerError.
func labelled(err error, label string) bool {
	var labels interface{ HasErrorLabel(string) bool }
	return errors.As(err, &labels) && labels.HasErrorLabel(label)
}

// Conflicted reports whether a server ended a transaction that another run may complete: because of a conflict
// with another writer, or because of its size or duration.
func Conflicted(err error) bool {
	var server mongo.ServerError // without a code it is the driver's, which has found no server
	return transient(err) && errors.As(err, &server) && !server.HasErrorCode(0) && !mongo.IsNetworkError(err)
}

// unlabelledConflict reports whether err is a conflict without the label: DocumentDB sends conflicts like
// that, and those of snapshots with other codes.
func unlabelledConflict(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && !server.HasErrorLabel(labelTransient) &&
		(server.HasErrorCode(codeWriteConflict) || strings.Contains(server.Error(), "could not serialize access"))
}

// unsupported adds ErrTransactionsUnsupported to the error of a standalone server that refuses a transaction.
func unsupported(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCodeWithMessage(codeIllegalOperation, "Transaction numbers") {
		return fmt.Errorf("%w: %w", fault.ErrTransactionsUnsupported, err)
	}
	return err
}
