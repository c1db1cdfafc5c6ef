// Package txn runs the transactions of the pattern packages by one rule: join the transaction of the context if there
// is one, otherwise start one and retry it as the driver does.
//
// The life of a transaction that Run starts:
//
//  1. It uses the session of its context, or a session of its own (txn.go, session.go).
//  2. An attempt calls fn, and then commits; after an error of fn it aborts (txn.go, commit.go).
//  3. Before its first command an attempt waits for its turn at the documents that fn names, because other calls of
//     this process write them too; the turn ends with the commit, or with Run (turn.go).
//  4. After a conflict, or without a connection, Run makes a pause and another attempt, until its context ends, or for
//     two minutes if that has no deadline (txn.go, errors.go).
//  5. The commit is sent until it is answered, at most until half a second after the end of the context (commit.go,
//     late.go).
//  6. A commit, an abort or a command without an answer may leave the transaction open on the server; then a fence
//     ends it, which is another transaction of the same session (end.go).
//  7. Where the fence does not reach, killSessions ends it (end.go).
//  8. In a session of its own both happen behind the call, and the session ends after them (end.go).
//
// The contexts of a call:
//
//   - ctx of Run is the caller's.
//   - limited is ctx, with a deadline after two minutes if ctx has none. Attempts and pauses end with it.
//   - late ends half a second after limited: the time for the answer to a commit or an abort.
//   - visible is limited as fn gets it: without a deadline if ctx has none, so that the client's Timeout applies to each
//     command. undated is late in the same way, for the commit.
//   - inside is visible with the session, and notes whether the session was asked for.
//   - What happens behind the call has a context without the caller's end, see closeBehind.
package txn

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/turn"
)

// Run calls fn in a transaction, and commits it if fn returns no error. Reads are of one snapshot, from the primary,
// and writes are acknowledged by a majority. coll is any collection that fn uses: the fence needs one that the user may
// read.
//
// If ctx carries a running transaction, fn joins it, and its error is returned with its labels, so that the
// owner of the transaction can retry. Otherwise Run starts a transaction, on the session of ctx or on a new
// one; fn can then run several times and must not keep state between runs.
//
// A transaction that conflicts with another is run again until ctx ends, or for two minutes if it has no deadline; a
// Timeout of the client does not shorten that, as it does for the driver's WithTransaction. A write conflict is retried
// even without the transient label, which some servers leave out. When ctx ends during the retries, the error says what
// they waited for in words alone: it is ctx's error and no conflict that a caller could solve.
//
// If ctx has no deadline, fn gets none either; its context is cancelled after the two minutes. The driver then applies
// the client's Timeout to each command and to the commit. The first that it ends is the end of Run, and so is one that
// finds no server in time.
//
// Run returns at most half a second after ctx ends, even if a commit or an abort is not answered: the
// driver would wait without end. Its error is marked by package fault to say whether the transaction is
// committed.
func Run(ctx context.Context, coll *scoped.Collection, fn func(ctx context.Context) error) error {
	return run(ctx, coll.Database().Client(), coll, fn)
}

// RunOf is Run for a function whose collections are not known: the first command that the library sends in it names one.
func RunOf(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	return run(ctx, client, nil, fn)
}

func run(ctx context.Context, client *mongo.Client, coll *scoped.Collection, fn func(ctx context.Context) error) error {
	if Running(ctx) {
		return fault.Unknown(join(ctx, coll, fn)) // until whoever started it commits
	}
	if err := ctx.Err(); err != nil {
		return fault.NotDone(err)
	}
	t, err := transactionOf(ctx, client, coll)
	if err != nil {
		return fault.NotDone(err)
	}
	limited, stop := pause.Limited(ctx)
	defer stop()
	late, stopLate := after(limited)
	defer stopLate()
	defer t.release(limited, late)
	defer t.endTurn()
	return t.attempts(limited, late, fn)
}

// A transaction is all attempts of one Run: they use one session, and each has a new number.
type transaction struct {
	client        *mongo.Client
	notes         scoped.Notes // of all attempts; the error is that of the one under way
	session       *mongo.Session
	ownSession    bool  // nobody else uses the session
	lent          *lent // its session, if Causal has made it
	clientTimeout bool  // the context of Run has no deadline, so that the client's Timeout counts
	mayBeOpen     bool  // on the server, after its attempts

	inside *watched // the context of fn in the attempt under way

	named    map[turn.Document]bool // by InTurn
	turn     turn.Turn              // those of named at which it has its turn
	tookTurn bool                   // it has waited for its turn at all of named, perhaps in vain
}

// startedKey is the key of the *transaction that a context carries.
type startedKey struct{}

// transactionOf returns a transaction in the session of ctx, or in a new one.
func transactionOf(ctx context.Context, client *mongo.Client, coll *scoped.Collection) (t *transaction, err error) {
	t = &transaction{client: client, session: mongo.SessionFromContext(ctx)}
	t.notes.Used(coll)
	_, dated := ctx.Deadline()
	t.clientTimeout = !dated
	if t.session == nil {
		t.ownSession = true
		t.session, err = client.StartSession()
		t.notes.Session = t.session
		return t, err
	}
	t.notes.Session = t.session
	if l, ok := ctx.Value(lentKey{}).(*lent); ok && l.session == t.session {
		t.lent, t.mayBeOpen = l, l.mayBeOpen
	}
	return t, nil
}

// attempts runs fn until it is committed, or another attempt would be of no use.
func (t *transaction) attempts(limited, late context.Context, fn func(ctx context.Context) error) error {
	var conflict error // that made fn run again
	pauses := pause.Writers()
	for {
		got, err := t.try(limited, late, fn)
		over := limited.Err()
		switch {
		case got == committed:
			return nil
		case got == unknown:
			return fault.Unknown(contextError(over, nil, err))
		case over != nil:
			return fault.NotDone(contextError(over, conflict, err))
		case !t.again(err):
			return fault.NotDone(unsupported(err))
		}
		if !mongo.IsTimeout(err) { // a timeout is that of limited, which is about to end
			conflict = err
		}
		if over = pauses.Wait(limited); over != nil {
			return fault.NotDone(contextError(over, conflict, err))
		}
		t.takeTurn(limited)
	}
}

// again reports whether an attempt that has stored nothing is followed by another one.
func (t *transaction) again(err error) bool {
	return transient(err) && !(t.clientTimeout && outOfTime(err))
}

// A result is what an attempt has come to.
type result int

const (
	committed result = iota
	undone           // nothing is stored, and nothing will be
	unknown          // everything is stored, or nothing
)

// try runs fn once and commits. Its error is nil only after a commit.
func (t *transaction) try(limited, late context.Context, fn func(ctx context.Context) error) (result, error) {
	if err := t.start(); err != nil {
		return undone, err
	}
	visible, stop := t.visible(limited)
	defer stop()
	t.inside = &watched{Context: mongo.NewSessionContext(visible, t.session)}
	t.notes.Begin()
	before := t.notes.Writes()
	err := fn(scoped.WithNotes(context.WithValue(t.inside, startedKey{}, t), &t.notes))
	if !t.session.TransactionRunning() {
		t.mayBeOpen = true // the driver does not say whether an abort was answered
		if err != nil {
			return unknown, fmt.Errorf("%w: %w", errEndedByFn, err)
		}
		return unknown, errEndedByFn
	}
	if err = cmp.Or(err, limited.Err(), t.ignored()); err != nil {
		t.undo(limited, late, err)
		return undone, err
	}
	got, err := t.resultOf(t.commitInTurn(late))
	if got == committed {
		scoped.NotesOf(limited).Wrote(t.notes.Writes() - before)
	}
	return got, err
}

// join runs fn in the transaction of ctx. If that is one of Run, it is not committed after an error of fn that came after a
// write: half of a call would be stored if somebody ignored the error.
func join(ctx context.Context, coll *scoped.Collection, fn func(ctx context.Context) error) error {
	t, ok := ctx.Value(startedKey{}).(*transaction)
	if !ok || t.session != peekSession(ctx) {
		return unsupported(fn(ctx))
	}
	t.notes.Used(coll)
	before, failed := t.notes.Writes(), t.notes.Err() != nil
	err := unsupported(fn(ctx))
	if err != nil && !failed && (t.notes.Writes() > before || t.notes.Err() != nil) {
		t.notes.Failed(ctx, err) // it says more than the command's
	}
	return err
}

// ignored returns the error after which the attempt must not be committed, though fn returned none.
func (t *transaction) ignored() error {
	err := t.notes.Err()
	if err == nil {
		return nil
	}
	return fmt.Errorf("not committed, because the function ignored an error: %w", err)
}

// visible is the context of fn. It shows the deadline of the caller and not that of Limited: with a deadline the driver
// would not apply the client's Timeout.
func (t *transaction) visible(limited context.Context) (context.Context, func()) {
	if t.clientTimeout {
		return pause.Undated(limited)
	}
	return limited, func() {}
}

// start begins an attempt. The client's concerns and read preference may be others, which a transaction refuses.
func (t *transaction) start() error {
	return t.session.StartTransaction(options.Transaction().
		SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary()))
}

// Running reports whether ctx carries a session with a transaction under way.
func Running(ctx context.Context) bool {
	session := peekSession(ctx)
	return session != nil && session.TransactionRunning()
}

// hasSent reports whether the attempt under way has sent a command. The server then has the transaction, and its
// snapshot.
func (t *transaction) hasSent() bool { return t.inside.asked.Load() }

// peekSession is mongo.SessionFromContext, but leaves asked as it was: watched must not take this for a command.
func peekSession(ctx context.Context) *mongo.Session {
	t, ok := ctx.Value(startedKey{}).(*transaction)
	if !ok {
		return mongo.SessionFromContext(ctx)
	}
	before := t.inside.asked.Load()
	session := mongo.SessionFromContext(ctx)
	t.inside.asked.Store(before)
	return session
}

// A watched context notes whether its session was asked for, as the driver does for each command.
type watched struct {
	context.Context
	asked atomic.Bool
}

func (w *watched) Value(key any) any {
	v := w.Context.Value(key)
	if _, ok := v.(*mongo.Session); ok {
		w.asked.Store(true)
	}
	return v
}
