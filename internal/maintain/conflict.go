package maintain

import (
	"context"

	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Once runs a whole step in a transaction and gives up at the first conflict with another writer. Run then
// counts the conflict, calls Progress, and does the batch in halves, down to one document, which it repeats
// until ctx ends, or for two minutes if it has no deadline. Repeating a large batch as a whole might never
// succeed beside writers that do not pause. fn should first write the documents that others write too: from then
// on the others wait, and fn cannot conflict with them.
//
// In a transaction of the caller's the conflict goes back to the caller.
func Once(ctx context.Context, coll *scoped.Collection, fn func(ctx context.Context) error) error {
	joined := txn.Running(ctx)
	return txn.Run(ctx, coll, func(ctx context.Context) error {
		err := fn(ctx)
		if joined {
			return err
		}
		return Busy(err)
	})
}

// Busy turns a conflict into that of Once, and returns any other error as it is. Use it in a
// transaction that takes a lock first: a conflict on the lock is not one of the batch.
func Busy(err error) error {
	if !txn.Conflicted(err) {
		return err
	}
	return &busy{err.Error()}
}

// busy is a conflict reduced to its text, so that a transaction does not run again because of it.
type busy struct{ conflict string }

func (b *busy) Error() string { return "waiting for other writers: " + b.conflict }
