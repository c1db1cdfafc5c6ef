package txn

import (
	"context"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/pause"
)

// grace is how long after the end of its context a call may return: the time in which a commit or an abort can be
// answered.
const grace = 500 * time.Millisecond

// Late is a context that ends half a second after ctx, for the cleanup at the end of a call.
func Late(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, stop := pause.Limited(ctx)
	late, stopLate := after(limited)
	return late, func() {
		stopLate()
		stop()
	}
}

// after is a context that ends when grace has passed since ctx ended. ctx has a deadline.
func after(ctx context.Context) (late context.Context, stop context.CancelFunc) {
	deadline, _ := ctx.Deadline()
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
