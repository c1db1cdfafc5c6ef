// Package interval calls a flush function at intervals.
package interval

import (
	"context"
	"time"
)

// timeout bounds each call. The end of the loop's context does not interrupt a call.
const timeout = 10 * time.Second

// Run calls flush each time that every has passed until ctx is done, and then last, whose error it
// returns. Errors of flush go to failed, which may be nil.
func Run(ctx context.Context, every time.Duration, flush, last func(context.Context) error, failed func(error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	bounded := func(call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return call(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return bounded(last)
		case <-ticker.C:
			if err := bounded(flush); err != nil && failed != nil {
				failed(err)
			}
		}
	}
}
