package txn

import (
	"context"
	"time"
)

// grace is how long after the end of its context a call may return: the time in which a commit or an abort can be
// answered.
const grace = 500 * time.Millisecond

// Late is a context that ends half a second after ctx, for the cleanup at the end of a call.
func Late(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, deadline, cancel := within(ctx)
	late, stop := after(ctx, deadline)
	return late, func() {
		stop()
		cancel()
	}
}

// within returns ctx, and when it ends: at its deadline, or after limit. The driver does not see an end by limit, because
// the client's Timeout does not count in a context with a deadline.
func within(ctx context.Context) (context.Context, time.Time, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return ctx, deadline, func() {}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	deadline, _ := limited.Deadline()
	return undated{limited}, deadline, cancel
}

// undated is a context that does not show its deadline.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// after is a context that ends when grace has passed since ctx ended. deadline is that of ctx.
func after(ctx context.Context, deadline time.Time) (late context.Context, stop context.CancelFunc) {
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
