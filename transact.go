package mongopatterns

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Transact calls fn in a transaction with snapshot reads and majority writes, as the
// packages do themselves: several of their calls, and any of the driver's, made
// with the ctx that fn gets, succeed or fail together.
//
// If ctx carries a running transaction, fn joins it. Otherwise fn can run several
// times: a transaction that conflicts with another is run again until ctx is done, or
// for 120 s if ctx has no deadline, and fn gets a ctx with that deadline. A Timeout of
// the client does not shorten this. So fn must not keep state between runs.
//
// When fn returns an error, the transaction is aborted and the error returned. Do
// not swallow the error of a call that wrote: the transaction may have ended with
// it. If ctx ends while fn waits for a conflicting transaction, the error
// matches ctx.Err() and names the conflict.
//
// Transact returns half a second after ctx at the latest, also when the server does not
// answer. [OutcomeOf] its error is Unknown if that was the commit, and NotDone if the
// transaction was not to be committed. What the server may still have open is ended
// in the background, within 30 s; on a session of yours, which nobody else may use,
// by its next transaction.
//
// Cost: 1 round trip to commit, besides those of fn.
func Transact(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, client, fn)
}
