package mongopatterns

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Transact calls fn in a transaction with snapshot reads and majority writes, as the packages do
// themselves. The calls of the packages and of the driver that fn makes with its ctx succeed or fail
// together. Create the collections that fn writes beforehand, because a transaction over several shards
// cannot create any.
//
// If ctx carries a running transaction, fn joins it. Otherwise fn can run several times, because a
// transaction that conflicts with another is run again until ctx is done, or for 120 s if ctx has no
// deadline. So fn must not keep state between runs. On a standalone server, which has no transactions,
// Transact returns ErrTransactionsUnsupported.
//
// If ctx has no deadline, the client's Timeout bounds each command of fn and the commit, and an abort has half a
// second. A command that is not answered in that time ends Transact. Only the 120 s bound how many commands fn sends
// and how often it runs. If ctx has a deadline, the driver does not apply the Timeout.
//
// fn keeps state between runs if it assigns the result of a call to a variable that the call takes:
//
//	trip.Driver, err = drivers.Pin(ctx, trip.Driver.ID) // after a conflict trip.Driver.ID is empty
//
// mongotest.RunAgain finds that in a test.
//
// Let fn first write the document that others write most often. Then a conflict there is found at
// once, while a conflict late in fn repeats everything before it, again and again beside a busy
// writer.
//
// fn must not commit or abort the transaction itself. If it does, Transact returns ErrInvalid, and the outcome is
// Unknown. When fn returns an error, the transaction is aborted and the error returned.
//
// If fn ignores the error of a call of this library, and the server had refused a command or half of the call was
// written, Transact does not commit. It returns the ignored error, or the server's error that caused it. What a call for
// many items had written before its error is committed, and its Result counts it. If fn ignores an error of the driver,
// the commit fails, and fn runs again until ctx is done.
//
// If ctx ends while fn waits for a conflicting transaction, the error matches ctx.Err() and names the conflict.
//
// Transact returns at most half a second after ctx ends, even if the server does not answer. [OutcomeOf] its
// error is then Unknown if it was waiting for the commit, and NotDone if it had not begun to commit. A
// transaction that may still be open on the server is ended in the background, within 30 s. That is certain
// only if fn has called this library, for a reason that docs/failures.md gives. If ctx carries a session of
// yours, the next transaction of that session ends it, and nobody else may use the session meanwhile.
//
// Cost: 1 round trip to commit, besides those of fn.
func Transact(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	if client == nil || fn == nil {
		err := fault.Invalid("client or fn is nil")
		fault.In(&err, "mongopatterns.Transact")
		return err
	}
	return txn.RunOf(comment.Call(ctx, "Transact"), client, fn)
}
