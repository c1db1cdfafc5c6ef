package txn

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// The time for a transaction that may be open when its call returns: first for the fence, and then for the kill.
var (
	fenceBound   = 20 * time.Second // an election may come first; a test shortens it
	callersBound = grace            // for the fence in a session of the caller; a test lengthens it
)

const (
	killBound  = 10 * time.Second
	tryBound   = 5 * time.Second // for one try of either
	fenceTries = 10
)

// release closes a transaction that may be open, and ends the session if it is the transaction's own. The caller may use
// his session as soon as Run returns, so that release then has only the time until late; what is still open after that ends
// with the next transaction of the session.
func (t *transaction) release(limited, late context.Context) {
	switch {
	case t.lent != nil:
		t.giveBack()
	case t.ownSession && t.mayBeOpen:
		closed := t.closeBehind(limited)
		if limited.Err() == nil {
			return
		}
		select { // what is left of the half second is worth waiting: then nothing is open when Run returns
		case <-closed:
		case <-late.Done():
		}
	case t.ownSession:
		t.session.EndSession(late)
	case t.mayBeOpen:
		bound, stop := context.WithTimeout(late, callersBound)
		defer stop()
		t.fence(bound)
	}
}

// giveBack leaves the end of a session, and of what may be open in it, to the call that has lent it.
func (t *transaction) giveBack() {
	if t.session.TransactionRunning() { // a commit without an answer: the next Run must not join it
		t.forget()
	}
	t.lent.mayBeOpen = t.mayBeOpen
}

// closeBehind ends the transaction and then its session, behind the call. The kill has time of its own: a fence that was
// not answered has used up all it had.
func (t *transaction) closeBehind(ctx context.Context) (closed <-chan struct{}) {
	behind := context.WithoutCancel(ctx)
	forFence, stop := context.WithTimeout(behind, fenceBound)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		over := t.fence(forFence)
		forKill, stop := context.WithTimeout(behind, killBound)
		defer stop()
		if !over || t.routed(forKill) {
			t.kill(forKill)
		}
		t.session.EndSession(forKill)
	}()
	return done
}

// fence makes sure that the transaction is over, by a later transaction of the same session, and reports whether it is.
//
// When the context of a command ends, the driver closes the command's connection and sends the abort on another, where
// it can overtake the command. The command then opens the transaction again, and its documents stay locked until
// transactionLifetimeLimitSeconds. At a later transaction of the session the server ends the earlier one, refuses its
// late commands, and waits for its commit.
//
// The first command of the later transaction is documents, which takes no lock. Only a user who may read anything in
// the database may run it, and on MongoDB 7.0 every user. For one with rights on single collections it is nothing, a
// read of a collection that the transaction has used. If none is known, or the user may read none of them, fence gives
// up.
func (t *transaction) fence(ctx context.Context) (over bool) {
	if t.session.TransactionRunning() {
		t.forget() // the commit had no answer, and an abort could reach another router at the same time
	}
	used := t.notes.Collections()
	if len(used) == 0 {
		return false
	}
	err := t.fenceBy(ctx, used[0], documents)
	for _, coll := range used {
		if !fault.Forbidden(err) {
			break
		}
		err = t.fenceBy(ctx, coll, nothing)
	}
	return err == nil
}

// A firstCommand begins a transaction on the server, and costs little.
type firstCommand = func(ctx context.Context, coll *scoped.Collection) error

// fenceBy tries a fence until it is answered. Its error is nil if the earlier transaction is over.
func (t *transaction) fenceBy(ctx context.Context, coll *scoped.Collection, first firstCommand) error {
	pauses := pause.Between(10*time.Millisecond, tryBound)
	for try := 1; ; try++ {
		if err := t.start(); err != nil {
			return err
		}
		err := t.sendAndAbort(ctx, coll, first)
		if err == nil || try == fenceTries || fault.Forbidden(err) || errors.Is(err, mongo.ErrClientDisconnected) {
			return err
		}
		if over := pauses.Wait(ctx); over != nil {
			return over
		}
	}
}

var errAbort = errors.New("the abort was not answered")

// sendAndAbort sends the first command of a transaction that has started, and aborts it.
func (t *transaction) sendAndAbort(ctx context.Context, coll *scoped.Collection, first firstCommand) error {
	ctx, stop := context.WithTimeout(ctx, tryBound)
	defer stop()
	if err := first(mongo.NewSessionContext(ctx, t.session), coll); err != nil {
		t.forget() // the next try ends what may be open
		return err
	}
	if !t.abort(ctx, tryBound) {
		return errAbort
	}
	return nil
}

// documents reads no collection, so it has no lock of one: with a lock, a fence that stays open for want of an answer
// would keep others from dropping the collection.
func documents(ctx context.Context, coll *scoped.Collection) error {
	c, err := comment.Aggregate(ctx, coll.Database(), mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}})
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// nothing reads a collection, but no document of it.
func nothing(ctx context.Context, coll *scoped.Collection) error {
	err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	return err
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
		ctx, cancel := context.WithTimeout(ctx, tryBound)
		defer cancel()
		return t.command(ctx, bson.D{{Key: "killSessions", Value: bson.A{t.session.ID()}}})
	}
	pauses := pause.Between(2*time.Millisecond, tryBound)
	for {
		err := try()
		if decided(err) || errors.Is(err, mongo.ErrClientDisconnected) || pauses.Wait(ctx) != nil {
			return
		}
	}
}
