// Package pause waits between the attempts of a call, and says how long or how often there are attempts.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses are random, about twice as long each time, up to a limit.
type Pauses struct{ first, next, most time.Duration }

// Between returns pauses that grow from about first to about most.
func Between(first, most time.Duration) *Pauses { return &Pauses{first, first, most} }

// Writers returns pauses for a call that waits for other writers. They stay short: with pauses that grow to half a
// second, as those of the driver, the call that has waited longest also sleeps longest, and newcomers overtake it.
func Writers() *Pauses { return Between(2*time.Millisecond, 50*time.Millisecond) }

// Wait waits for half to one and a half times the next pause. It returns the error of ctx if that ends before.
func (p *Pauses) Wait(ctx context.Context) error {
	timer := time.NewTimer(p.next/2 + rand.N(p.next))
	defer timer.Stop()
	p.next = min(2*p.next, p.most)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Reset begins with the first pause again.
func (p *Pauses) Reset() { p.next = p.first }

// Attempts is how often a call without pauses is tried, at most, when others write between its read and its write. Each time
// one of them has succeeded, so it is rare that even two come first; the bound is for those that never stop.
const Attempts = 16

// Limit is how long a call is tried again while others are in its way, if its context has no deadline: as long as the
// driver tries a transaction.
var Limit = 120 * time.Second // a test shortens it

// Limited returns ctx if it has a deadline, else a context that also ends after Limit.
func Limited(ctx context.Context) (limited context.Context, stop context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Limit)
}

// Undated returns a context that ends with ctx and has no deadline. With one the driver repeats until then without
// pauses; without, once. When ctx ends, the driver's error is context.Canceled.
func Undated(ctx context.Context) (out context.Context, stop func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	free := context.AfterFunc(ctx, cancel)
	if ctx.Err() != nil {
		cancel() // AfterFunc may do it later
	}
	return out, func() {
		free()
		cancel()
	}
}
