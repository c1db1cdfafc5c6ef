package maintain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Once runs the whole of a step in a transaction, and gives up at its first conflict with
// another writer: Run then counts the conflict, tells Progress, and does the batch in
// halves, down to one document, which it repeats until ctx ends. A large batch that is run
// again as a whole may never end beside writers without pause. Let fn write first what
// others write meanwhile: from then on they wait, and it cannot conflict.
//
// In a transaction of the caller's the conflict goes back to the caller.
func Once(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	var last error
	return txn.Run(ctx, client, func(ctx context.Context) error {
		if txn.Conflicted(last) {
			return &busy{last.Error()}
		}
		last = fn(ctx)
		return last
	})
}

// busy is a conflict as text alone, so that no transaction takes it for a reason to run again.
type busy struct{ conflict string }

func (b *busy) Error() string { return "waiting for other writers: " + b.conflict }

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// patiently has do do a batch, and after a conflict its halves.
func patiently(ctx context.Context, batch []bson.Raw, total *mongopatterns.Result, progress func(),
	do func(part []bson.Raw) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
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
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(rand.N(pause)):
		}
	}
}
