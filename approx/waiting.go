package approx

import (
	"bytes"
	"math"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A change is the sum of the changes that wait for one key.
type change struct {
	key   bson.RawValue
	name  string // value.Key of key
	n     int64  // the sum
	size  int64  // the sum of the absolute values
	times int64  // the number of changes since it was last sent
}

// A waiting holds the changes that are not stored yet. A change either waits or is part of one
// write that is under way.
type waiting struct {
	mu      sync.Mutex
	closed  bool
	changes map[string]*change
	flying  map[string]*change // being written; times is the number of writes
	flushed time.Time          // when all changes were last taken to be written
	most    int                // the keys that may wait; see most
	landing chan struct{}      // closed at the next landed; nil if nobody waits for it
}

// most limits the keys that wait. If a write has failed, a tenth of those that wait must come before the next one.
// Otherwise each Add would send all of them again to a server that refuses them.
func (o *Options) most(failed bool, wait int) int {
	if !failed {
		return o.MaxKeys
	}
	return max(o.MaxKeys, wait+(wait+9)/10)
}

// add adds a change and returns those to write now. It does not keep key's memory. The absolute
// values of all changes of a key, waiting or being written, have a sum that fits an int64, and so
// does every sum of some of them, in whatever order writes end.
func (w *waiting) add(key bson.RawValue, n int64, o *Options) ([]change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, mongopatterns.ErrClosed
	}
	size, room := max(n, -n), int64(math.MaxInt64)
	for _, changes := range []map[string]*change{w.changes, w.flying} {
		if c := named(changes, key); c != nil {
			room -= c.size
		}
	}
	if size < 0 || size > room {
		return nil, fault.Invalid("n: %d exceeds an int64 together with the changes that wait for the key", n)
	}
	c := w.of(key)
	c.n += n
	c.size += size
	c.times++
	switch {
	case o.Interval > 0 && time.Since(w.flushed) >= o.Interval, len(w.changes) > w.most:
		return w.all(), nil
	case c.times >= o.Every:
		return []change{w.takeOff(c)}, nil
	}
	return nil, nil
}

// named returns the change of a key, nil if it has none.
func named(changes map[string]*change, key bson.RawValue) *change {
	var room [64]byte
	return changes[string(value.AppendKey(room[:0], key))]
}

// of returns the waiting change of a key, and adds one if the key has none.
func (w *waiting) of(key bson.RawValue) *change {
	c := named(w.changes, key)
	if c == nil {
		c = &change{key: bson.RawValue{Type: key.Type, Value: bytes.Clone(key.Value)}, name: value.Key(key)}
		w.changes[c.name] = c
	}
	return c
}

// take takes all changes that wait.
func (w *waiting) take() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all()
}

func (w *waiting) all() []change {
	all := make([]change, 0, len(w.changes))
	for _, c := range w.changes {
		all = append(all, w.takeOff(c))
	}
	w.flushed = time.Now()
	return all
}

// takeOff takes a change to be written; landed must follow.
func (w *waiting) takeOff(c *change) change {
	delete(w.changes, c.name)
	f := w.flying[c.name]
	if f == nil {
		f = &change{}
		w.flying[c.name] = f
	}
	f.n += c.n
	f.size += c.size
	f.times++
	return *c
}

// landed ends a write of changes; those left were not stored and wait again, without the number of changes: it is
// Every further ones, and not each of them, that are sent to a server that refuses them.
func (w *waiting) landed(changes, left []change, o *Options) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		f := w.flying[c.name]
		f.n -= c.n
		f.size -= c.size
		if f.times--; f.times == 0 {
			delete(w.flying, c.name)
		}
	}
	for _, c := range left {
		again := w.of(c.key)
		again.n += c.n
		again.size += c.size
	}
	w.most = o.most(len(left) > 0, len(w.changes))
	if w.landing != nil && len(changes) > 0 { // a write of nothing is none
		close(w.landing)
		w.landing = nil
	}
}

// count returns the sum of the changes of a key that wait or are being written.
func (w *waiting) count(key bson.RawValue) (n int64, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changes := range []map[string]*change{w.changes, w.flying} {
		if c := named(changes, key); c != nil {
			n += c.n
			waits = true
		}
	}
	return n, waits
}

// close refuses later changes and takes all that wait. If other writes are under way, landing is closed as soon as one of
// them ends. Its changes may then wait again.
func (w *waiting) close() (all []change, landing <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if len(w.flying) > 0 && w.landing == nil {
		w.landing = make(chan struct{})
	}
	landing = w.landing
	return w.all(), landing
}
