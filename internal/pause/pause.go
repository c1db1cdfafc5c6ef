// Package pause waits between the attempts of a call.
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

// Undated returns a context that ends with ctx and has no deadline. With one the driver repeats until then without
// pauses; without, once. When ctx ends, the driver's error is context.Canceled.
func Undated(ctx context.Context) (out context.Context, stop func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	free := context.AfterFunc(ctx, cancel)
	return out, func() {
		free()
		cancel()
	}
}
