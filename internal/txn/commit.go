package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
)

// applied is how long after it was sent a commit is taken to be done on the primary. If it is not, the next call of
// this process conflicts, and runs again.
const applied = 10 * time.Millisecond

// commitInTurn commits, and ends the turn when the commit is answered, or soon after it was sent: a majority may take
// long, and the documents can be written as soon as the primary has the commit.
func (t *transaction) commitInTurn(late context.Context) error {
	if len(t.named) == 0 {
		return t.commit(late)
	}
	timer := time.AfterFunc(applied, t.turn.End)
	err := t.commit(late)
	if !timer.Stop() {
		t.turn = nil // the timer has ended it, or is about to
	}
	t.endTurn()
	return err
}

// commit sends the commit until it is answered.
func (t *transaction) commit(late context.Context) error {
	undated, stop := pause.Undated(late)
	defer stop()
	pauses := pause.Writers()
	for attempt := 0; ; attempt++ {
		if attempt == 1 {
			defer t.reset()
		}
		err := t.session.CommitTransaction(undated)
		over := late.Err()
		if over != nil && errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: %v", over, err) // nobody else has cancelled undated
		}
		if over != nil || t.clientTimeout && outOfTime(err) || !sendAgain(err) || pauses.Wait(late) != nil {
			return err
		}
	}
}

// resultOf returns the result of an attempt whose commit returned err.
func (t *transaction) resultOf(err error) (result, error) {
	switch {
	case err == nil:
		return committed, nil
	case aborted(err):
		return undone, err
	}
	t.mayBeOpen = true
	return unknown, err
}

// undo aborts an attempt after its error. The transaction may stay open if the abort has no answer, or if a command has
// none, which can reach the server after the abort.
func (t *transaction) undo(limited, late context.Context, err error) {
	if t.ownSession && !t.hasSent() { // a session of the caller can be reached in other ways
		t.forget() // the server does not know it
		return
	}
	// An abort without an answer does not keep the call until its deadline.
	if !t.abort(late, grace) || limited.Err() != nil || mongo.IsTimeout(err) || mongo.IsNetworkError(err) {
		t.mayBeOpen = true
	}
}

// abort aborts the transaction and reports whether the server has said that it is over. The driver's own abort does
// not tell, and with a deadline it repeats itself until then without pauses. This one is sent once: a repetition can
// come to another router, which knows nothing of the transaction and says that it is over. release ends what is open.
func (t *transaction) abort(ctx context.Context, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(mongo.NewSessionContext(ctx, t.session), bound)
	defer cancel()
	defer t.forget() // the driver takes it for running still
	return decided(t.command(ctx, bson.D{{Key: "abortTransaction", Value: 1}}))
}

func (t *transaction) command(ctx context.Context, command bson.D) error {
	return fault.Single(t.session.Client().Database("admin").RunCommand(ctx, command)).Err()
}

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
