package approx

import (
	"bytes"
	"math"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// change is what waits for one key.
type change struct {
	key   bson.RawValue
	name  string // value.Key of it
	n     int64  // the sum
	size  int64  // the sum of their absolute values
	times int64  // of how many changes
}

// waiting are the changes that are not written yet. A change waits, or is on its way
// in one write, never both.
type waiting struct {
	mu      sync.Mutex
	closed  bool
	changes map[string]*change
	flying  map[string]*change // on their way; times is the number of writes
	flushed time.Time          // when everything was last taken to be written
}

// add notes a change and returns what is to be written now. It keeps nothing of key. The absolute
// values of all that waits for a key or is on its way fit an int64: so does every sum of them, in
// whatever order writes end.
func (w *waiting) add(key bson.RawValue, n int64, o *Options) ([]change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	size := max(n, -n)
	c := w.of(key)
	room := math.MaxInt64 - c.size
	if f := w.flying[c.name]; f != nil {
		room -= f.size
	}
	if size < 0 || size > room {
		return nil, fault.Invalid("n: %d and what waits for the key exceed an int64", n)
	}
	c.n += n
	c.size += size
	c.times++
	switch {
	case o.Interval > 0 && time.Since(w.flushed) >= o.Interval, len(w.changes) > o.MaxKeys:
		return w.all(), nil
	case c.times >= o.Every:
		return []change{w.takeOff(c)}, nil
	}
	return nil, nil
}

// of is the change that waits for a key, a new one if there is none.
func (w *waiting) of(key bson.RawValue) *change {
	var room [64]byte
	name := value.AppendKey(room[:0], key)
	c := w.changes[string(name)]
	if c == nil {
		c = &change{key: bson.RawValue{Type: key.Type, Value: bytes.Clone(key.Value)}, name: string(name)}
		w.changes[c.name] = c
	}
	return c
}

// take takes all that waits.
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

// landed ends a write of changes, of which those left wait again.
func (w *waiting) landed(changes, left []change) {
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
		again.times += c.times
	}
}

// count is what waits for a key or is on its way.
func (w *waiting) count(key bson.RawValue) (n int64, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changes := range []map[string]*change{w.changes, w.flying} {
		if c := changes[value.Key(key)]; c != nil {
			n += c.n
			waits = true
		}
	}
	return n, waits
}

func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}
