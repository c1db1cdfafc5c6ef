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

// killBound bounds the kill of a transaction's session, as fenceBound its fence. fenceTry bounds each attempt, and there are
// fenceTries of a fence.
const (
	killBound  = 10 * time.Second
	fenceTry   = 5 * time.Second
	fenceTries = 10
)

// fenceBound bounds the fence that ends a transaction after its call has returned: an election may come first.
var fenceBound = 20 * time.Second // a test shortens it

// end ends a transaction that may be open, and the session if Run started it. The caller may use its own
// session as soon as Run returns, so end then has only the time until late; what is still open after that ends
// with the next transaction of the session.
func (t *transaction) end(ctx, late context.Context) {
	if t.lent != nil {
		if t.session.TransactionRunning() { // a commit without an answer: the next Run must not join it
			t.forget()
		}
		t.lent.mayBeOpen = t.mayBeOpen
		return
	}
	switch {
	case !t.mayBeOpen && t.ownSession:
		t.session.EndSession(late)
	case t.mayBeOpen && t.ownSession:
		closed := t.close(ctx)
		if ctx.Err() == nil {
			return
		}
		select {
		case <-closed:
		case <-late.Done():
		}
	case t.mayBeOpen:
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
// earlier one, refuses its late commands, and waits for its commit. The stage $documents reads no collection and takes no
// lock, which would keep others from dropping the collection if the fence remains open. A user who may read anything in the
// database may run it, and on MongoDB 7.0 one who may not, too. For a user with rights on single collections fence reads one
// that the transaction has used. If none is known, or the user may not read it, fence gives up.
func (t *transaction) fence(ctx context.Context) bool {
	if t.session.TransactionRunning() {
		t.forget() // the commit had no answer, and an abort could reach another router at the same time
	}
	coll := t.coll.Load()
	if coll == nil {
		return false
	}
	pauses := pause.Between(10*time.Millisecond, fenceTry)
	begin := documents
	refused := false
	for range fenceTries {
		if ctx.Err() != nil || t.start() != nil {
			return false
		}
		answered, err := t.fenced(ctx, coll, begin)
		switch {
		case answered:
			return true
		case fault.Forbidden(err) && !refused:
			begin, refused = nothing, true
			continue
		case fault.Forbidden(err), errors.Is(err, mongo.ErrClientDisconnected):
			return false
		}
		if pauses.Wait(ctx) != nil {
			return false
		}
	}
	return false
}

// fenced begins a transaction and aborts it. It reports whether both were answered, and the error of the begin.
func (t *transaction) fenced(ctx context.Context, coll *scoped.Collection, begin func(context.Context, *scoped.Collection) error) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTry)
	defer cancel()
	inside := mongo.NewSessionContext(ctx, t.session)
	if err := begin(inside, coll); err != nil {
		t.forget() // the next one ends what may be open
		return false, err
	}
	return t.abort(ctx, fenceTry), nil
}

// documents sends a command to the database that reads no collection.
func documents(ctx context.Context, coll *scoped.Collection) error {
	c, err := comment.Aggregate(ctx, coll.Database(), mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}})
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// nothing reads no document of the collection.
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
