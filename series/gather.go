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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/interval"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// GathererOptions bounds what a Gatherer holds. The zero value of a field is its default.
type GathererOptions struct {
	// MaxCount is the largest number of measurements that wait. Default 10,000.
	MaxCount int
	// MaxBytes is the largest number of bytes of measurements that wait. Default 8 MiB.
	MaxBytes int
	// Interval is the longest time between flushes. An Append flushes if the last flush is longer ago
	// than that, and Run flushes at this interval. Default 0: Append flushes only for MaxCount and
	// MaxBytes, and Run every 10 seconds.
	Interval time.Duration
}

// A Gatherer collects measurements that come one by one, so that they are stored in large blocks. A block
// of one measurement takes the server as much time as a block of a hundred, and thirty times as many bytes
// for a measurement. If the process crashes, waiting measurements are lost, which are at most MaxCount
// and, with Run, those of the last Interval. A Gatherer is safe for concurrent use.
type Gatherer[ID, M any] struct{ core *gatherer }

type gatherer struct {
	opts GathererOptions
	into *core

	mu      sync.Mutex
	waiting *batch
	boxes   windows.Boxes
	flushed time.Time
	closed  bool

	writing chan struct{} // holds one element during a flush
	left    []*block      // of this flush, or of one that failed: to be sent unchanged
	rows    int           // in left
	bytes   int
}

// A RefusedError returns the measurements of a flush that the server refused, or whose window has a document with
// another series or start than its _id says (ErrMalformed). All others are stored or wait for the next flush. It
// wraps the error.
type RefusedError[ID, M any] struct {
	Refused []Refused[ID, M]
	err     error
}

// Refused has measurements of one series and window that were refused.
type Refused[ID, M any] struct {
	Series       ID
	Measurements []M
	Err          error // the server's, or an ErrMalformed
}

// Error returns the message of the flush.
func (e *RefusedError[ID, M]) Error() string { return e.err.Error() }

// Unwrap returns the error of the flush.
func (e *RefusedError[ID, M]) Unwrap() error { return e.err }

// NewGatherer returns a Gatherer that stores in s. It does no I/O.
func NewGatherer[ID, M any](s *Series[ID, M], opts *GathererOptions) (g *Gatherer[ID, M], err error) {
	defer fault.In(&err, "series.NewGatherer")
	c := &gatherer{flushed: time.Now(), boxes: windows.Boxes{}, writing: make(chan struct{}, 1)}
	if opts != nil {
		c.opts = *opts
	}
	if s == nil {
		return nil, fault.Invalid("s is nil")
	}
	c.into, c.waiting = s.core, &batch{core: s.core}
	err = config.Apply(
		config.Number("GathererOptions.MaxCount", &c.opts.MaxCount, 10_000, 1, windows.MostItems),
		config.Number("GathererOptions.MaxBytes", &c.opts.MaxBytes, 8<<20, 1, windows.MostBytes),
		config.Check("GathererOptions.Interval", func() error {
			if c.opts.Interval < 0 {
				return errors.New("it is negative")
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return &Gatherer[ID, M]{c}, nil
}

// Append buffers the measurement; nil means buffered, not stored. It flushes first if MaxCount, MaxBytes or Interval
// requires it. If a flush for MaxCount or MaxBytes fails, m is not buffered, so that memory stays bounded. If one for
// Interval fails, m is buffered, and the error is not returned, because a later flush sends again what waits, as after
// a failed Flush. But after a [RefusedError] Append returns it, and m is not buffered. All other measurements that
// waited still wait. A measurement that cannot be stored is refused at once with ErrInvalid.
//
// Cost: mostly none; when it flushes, that of Flush.
func (g *Gatherer[ID, M]) Append(ctx context.Context, series ID, m M) (err error) {
	defer fault.In(&err, "series.Gatherer.Append")
	c := g.core
	for late := c.opts.Interval > 0; ; {
		c.mu.Lock()
		full := c.full()
		switch {
		case c.closed:
			err = mongopatterns.ErrClosed
		case !full && !(late && c.late()):
			err = c.waiting.Add(windows.Boxed(c.boxes, series), &m)
		default:
			c.mu.Unlock()
			_, err := g.flush(comment.Call(ctx, "series.Gatherer.Append"))
			if err != nil && (full || errors.As(err, new(*RefusedError[ID, M]))) {
				return err
			}
			late = late && err == nil
			continue
		}
		c.mu.Unlock()
		return err
	}
}

// full reports whether as much waits as may.
func (g *gatherer) full() bool {
	return g.waiting.groups.Count+g.rows >= g.opts.MaxCount || g.waiting.groups.Bytes+g.bytes >= g.opts.MaxBytes
}

// late reports whether something waits and the last flush is longer ago than Interval.
func (g *gatherer) late() bool {
	return g.waiting.groups.Count+g.rows > 0 && time.Since(g.flushed) >= g.opts.Interval
}

// Flush stores all waiting measurements. After an error nothing is lost, because measurements that are not
// known to be stored wait for the next flush, in the same blocks. So with Options.BatchField those that got
// no answer (Result.Unknown) are stored once. Without it, they may be stored twice. Measurements that the
// server refuses, for example because of a validator, do not wait any longer; a [RefusedError] returns them
// once.
//
// Cost: that of AppendMany; none if nothing waits.
func (g *Gatherer[ID, M]) Flush(ctx context.Context) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.Gatherer.Flush")
	defer fault.In(&err, "series.Gatherer.Flush")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return g.flush(ctx)
}

// flush returns the measurements that the server refused in a RefusedError.
func (g *Gatherer[ID, M]) flush(ctx context.Context) (mongopatterns.Result, error) {
	result, blocks, err := g.core.flush(ctx)
	if len(blocks) == 0 {
		return result, err
	}
	c, out := g.core.into, &RefusedError[ID, M]{err: err}
	for _, b := range blocks {
		one := Refused[ID, M]{Err: b.refused}
		var failed error
		if one.Series, failed = codec.DecodeGivenValue[ID](c.frame.Codec, b.place.Series); failed == nil {
			one.Measurements, failed = unpack[M](c, b)
		}
		out.Refused, out.err = append(out.Refused, one), errors.Join(out.err, failed)
	}
	return result, out
}

// unpack returns the measurements of a block that was not stored.
func unpack[M any](c *core, b *block) ([]M, error) {
	var t pack.Table
	_, data := b.update.Lookup("$push", c.opts.BlocksField).Binary()
	if err := t.Add(data, b.place.Key); err != nil {
		return nil, err
	}
	return decode[M](c, &t, 0, len(t.Times))
}

// Close flushes and refuses later Appends with ErrClosed. After an error call it again, because
// measurements that were not stored still wait, except those that a [RefusedError] returns.
//
// Cost: that of Flush.
func (g *Gatherer[ID, M]) Close(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "series.Gatherer.Close")
	defer fault.In(&err, "series.Gatherer.Close")
	g.core.mu.Lock()
	g.core.closed = true
	g.core.mu.Unlock()
	_, err = g.flush(ctx)
	return err
}

// Run flushes every Interval until ctx is done, and then closes the gatherer. Each of these calls takes at
// most 10 s and is not interrupted when ctx ends, so that it still gets the server's answer. Errors of a
// flush go to failed, which may be nil. Measurements that were not stored wait for the next flush. Run
// returns the error of the Close.
//
// Cost: that of Flush at each interval.
func (g *Gatherer[ID, M]) Run(ctx context.Context, failed func(error)) error {
	flush := func(ctx context.Context) error { _, err := g.Flush(ctx); return err }
	return interval.Run(ctx, cmp.Or(g.core.opts.Interval, 10*time.Second), flush, g.Close, failed)
}

// Waiting returns the number of measurements that wait or are being sent.
func (g *Gatherer[ID, M]) Waiting() int {
	c := g.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.groups.Count + c.rows
}

// flush stores the waiting measurements, outside any transaction of ctx. It removes and returns the blocks
// that the server refuses.
func (g *gatherer) flush(ctx context.Context) (result mongopatterns.Result, refused []*block, err error) {
	select {
	case g.writing <- struct{}{}:
		defer func() { <-g.writing }()
	case <-ctx.Done(): // another flush is not over
		return result, nil, fault.NotDone(ctx.Err())
	}
	g.mu.Lock()
	g.keep(append(g.left, g.waiting.packedBlocks()...))
	g.waiting, g.flushed = &batch{core: g.into}, time.Now()
	g.mu.Unlock()
	if len(g.left) == 0 {
		return result, nil, nil
	}
	result, err = g.into.save(mongo.NewSessionContext(ctx, nil), slices.Clone(g.left))
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

// keep sets the blocks that are left to send, and counts their rows.
func (g *gatherer) keep(left []*block) {
	g.left, g.rows, g.bytes = left, 0, 0
	for _, b := range left {
		g.rows, g.bytes = g.rows+b.rows, g.bytes+b.bytes
	}
}
