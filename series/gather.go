package series

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/pace"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// GathererOptions bound what a Gatherer holds. The zero value of each is its default.
type GathererOptions struct {
	// MaxCount is how many measurements wait at most. Default 10,000.
	MaxCount int
	// MaxBytes is how many bytes of measurements wait at most. Default 8 MiB.
	MaxBytes int
	// Interval is how long one waits at most: an Add later than that after the last
	// flush flushes, and Run flushes by it. Default 0: MaxCount and MaxBytes alone
	// decide, in Run 10 seconds.
	Interval time.Duration
}

// A Gatherer collects measurements that come one by one, so that they are stored in
// blocks of many: a block of one takes the server as much time as a block of a hundred,
// and thirty times the bytes of a measurement in it. What waits is lost if the process crashes: at
// most MaxCount, and with Run those of the last Interval. It is safe for concurrent
// use.
type Gatherer[S, M any] struct{ core *gatherer }

type gatherer struct {
	GathererOptions
	store *store

	mu      sync.Mutex
	waiting *batch
	flushed time.Time
	closed  bool

	writing sync.Mutex // one flush at a time
	left    []*block   // of it, or of those that failed: to be sent as they are
	rows    int        // in left
	bytes   int
}

// A RefusedError hands back the measurements that the server refuses, of one flush. The
// flush has sent those of other series; the error wraps the server's.
type RefusedError[S, M any] struct {
	Refused []Refused[S, M]
	err     error
}

// Refused is measurements of one series and window that the server refuses.
type Refused[S, M any] struct {
	Series       S
	Measurements []M
	Err          error // the server's
}

// Error is the message of the flush.
func (e *RefusedError[S, M]) Error() string { return e.err.Error() }

// Unwrap is the error of the flush.
func (e *RefusedError[S, M]) Unwrap() error { return e.err }

// NewGatherer returns a Gatherer that stores in s. It does no I/O.
func NewGatherer[S, M any](s *Series[S, M], opts *GathererOptions) (g *Gatherer[S, M], err error) {
	defer fault.In(&err, "series: new gatherer")
	c := &gatherer{flushed: time.Now()}
	if opts != nil {
		c.GathererOptions = *opts
	}
	if s == nil {
		return nil, fault.Invalid("series: nil")
	}
	c.store, c.waiting = s.core, &batch{store: s.core}
	err = config.Apply(
		config.Number("GathererOptions.MaxCount", &c.MaxCount, 10_000, 1, frame.MostItems),
		config.Number("GathererOptions.MaxBytes", &c.MaxBytes, 8<<20, 1, frame.MostBytes),
		config.Check("GathererOptions.Interval", func() error {
			if c.Interval < 0 {
				return errors.New("negative")
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return &Gatherer[S, M]{c}, nil
}

// Add takes a measurement, which waits until a flush. It flushes first if MaxCount,
// MaxBytes or Interval says so; if that fails, m is not taken, and what waited waits
// on, but for what a [RefusedError] hands back: so memory stays bounded. What cannot be stored is ErrInvalid here.
//
// Cost: none mostly; when it flushes, that of Flush.
func (g *Gatherer[S, M]) Add(ctx context.Context, series S, m M) (err error) {
	defer fault.In(&err, "series: gather")
	c := g.core
	measurement := c.store.measurement(&m)
	due := func() bool {
		count, bytes := c.waiting.Count+c.rows, c.waiting.Bytes+c.bytes
		return count >= c.MaxCount || bytes >= c.MaxBytes || c.Interval > 0 && count > 0 && time.Since(c.flushed) >= c.Interval
	}
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			err = ErrClosed
		case !due():
			err = c.waiting.Add(series, measurement)
		default:
			c.mu.Unlock()
			if _, err := g.flush(ctx); err != nil {
				return err
			}
			continue
		}
		c.mu.Unlock()
		return err
	}
}

// Flush stores all that waits. After an error nothing is lost: what is not known to be
// stored waits for the next flush, in the same blocks. So with Options.BatchField
// those of which no answer came (Result.Unknown) are stored once; without, they may be
// stored twice. What the server refuses (a validator, say) does not wait any longer: a
// [RefusedError] hands it back, once.
//
// Cost: that of AppendMany; none if nothing waits.
func (g *Gatherer[S, M]) Flush(ctx context.Context) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: flush")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return g.flush(ctx)
}

// flush hands back what the server refuses.
func (g *Gatherer[S, M]) flush(ctx context.Context) (mongopatterns.Result, error) {
	result, blocks, err := g.core.flush(ctx)
	if len(blocks) == 0 {
		return result, err
	}
	c, out := g.core.store, &RefusedError[S, M]{err: err}
	for _, b := range blocks {
		one := Refused[S, M]{Err: b.refused}
		var failed error
		if one.Series, failed = codec.DecodeValue[S](c.Codec, b.Series); failed == nil {
			one.Measurements, failed = unpack[M](c, b)
		}
		out.Refused, out.err = append(out.Refused, one), errors.Join(out.err, failed)
	}
	return result, out
}

// unpack is the measurements of a block that was not stored.
func unpack[M any](c *store, b *block) ([]M, error) {
	var t pack.Table
	_, data := b.update.Lookup("$push", c.opts.BlocksField).Binary()
	if err := t.Add(data, b.Key); err != nil {
		return nil, err
	}
	return decode[M](c, &t, 0, len(t.Times))
}

// Close flushes and refuses later Adds with ErrClosed. After an error call it again:
// what was not stored still waits, but for what a [RefusedError] hands back.
//
// Cost: that of Flush.
func (g *Gatherer[S, M]) Close(ctx context.Context) (err error) {
	defer fault.In(&err, "series: close")
	g.core.mu.Lock()
	g.core.closed = true
	g.core.mu.Unlock()
	_, err = g.flush(ctx)
	return err
}

// Run flushes every Interval until ctx is done, then closes the gatherer. Each of these
// takes 10 s at most and is not cut off by ctx, so that the end leaves no write in
// doubt. Errors in between go to failed, which may be nil; what was not stored waits.
// The error is that of the Close.
//
// Cost: that of a Flush at each interval.
func (g *Gatherer[S, M]) Run(ctx context.Context, failed func(error)) error {
	flush := func(ctx context.Context) error { _, err := g.Flush(ctx); return err }
	return pace.Run(ctx, cmp.Or(g.core.Interval, 10*time.Second), flush, g.Close, failed)
}

// Waiting is how many measurements wait or are on their way.
func (g *Gatherer[S, M]) Waiting() int {
	c := g.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.Count + c.rows
}

// flush stores what waits, outside any transaction of ctx. What the server refuses is taken out.
func (g *gatherer) flush(ctx context.Context) (result mongopatterns.Result, refused []*block, err error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	g.mu.Lock()
	g.keep(append(g.left, g.waiting.sealed()...))
	g.waiting, g.flushed = &batch{store: g.store}, time.Now()
	g.mu.Unlock()
	if len(g.left) == 0 {
		return result, nil, nil
	}
	result, err = g.store.save(mongo.NewSessionContext(ctx, nil), slices.Clone(g.left))
	var left []*block
	for _, b := range g.left {
		switch {
		case b.refused != nil:
			refused = append(refused, b)
		case !b.stored:
			left = append(left, b)
		}
	}
	g.mu.Lock()
	g.keep(left)
	g.mu.Unlock()
	return result, refused, err
}

// keep sets what is left, and counts it.
func (g *gatherer) keep(left []*block) {
	g.left, g.rows, g.bytes = left, 0, 0
	for _, b := range left {
		g.rows, g.bytes = g.rows+b.rows, g.bytes+b.bytes
	}
}
