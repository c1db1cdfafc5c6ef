package maintain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Once runs a whole step in a transaction and gives up at the first conflict with another writer. Run then
// counts the conflict, calls Progress, and does the batch in halves, down to one document, which it repeats
// until ctx ends, or for two minutes if it has no deadline. Repeating a large batch as a whole might never
// succeed beside writers that do not pause. fn should first write the documents that others write too: from then
// on the others wait, and fn cannot conflict with them.
//
// In a transaction of the caller's the conflict goes back to the caller.
func Once(ctx context.Context, db *mongo.Database, fn func(ctx context.Context) error) error {
	joined := txn.Running(ctx)
	return txn.Run(ctx, db, func(ctx context.Context) error {
		err := fn(ctx)
		if !joined && txn.Conflicted(err) {
			return &busy{err.Error()}
		}
		return err
	})
}

// busy is a conflict reduced to its text, so that a transaction does not run again because of it.
type busy struct{ conflict string }

func (b *busy) Error() string { return "waiting for other writers: " + b.conflict }

// limit is how long a document is tried that others keep writing, if the context has no deadline: as long as a
// transaction of its own.
var limit = 2 * time.Minute // a test shortens it

// patiently calls do for a batch, and after a conflict for each half of it.
func patiently(ctx context.Context, batch []bson.Raw, total *mongopatterns.Result, progress func(),
	do func(part []bson.Raw) error) error {
	bounded, stop := ctx, func() {}
	if _, ok := ctx.Deadline(); !ok {
		bounded, stop = context.WithTimeout(ctx, limit)
	}
	defer stop()
	pauses := pause.Writers()
	for {
		err := do(batch)
		var wait *busy
		if !errors.As(err, &wait) {
			return err
		}
		total.Conflicts++
		progress()
		if half := len(batch) / 2; half > 0 {
			if err := patiently(ctx, batch[:half], total, progress, do); err != nil {
				return err
			}
			return patiently(ctx, batch[half:], total, progress, do)
		}
		if over := pauses.Wait(bounded); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}
