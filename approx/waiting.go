package approx

import (
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// change is what waits for one key.
type change struct {
	key   bson.RawValue
	n     int64 // the sum
	times int64 // of how many changes
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

// add notes a change and returns what is to be written now.
func (w *waiting) add(key bson.RawValue, n int64, o *Options, now time.Time) ([]change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	c := w.put(change{key, n, 1})
	switch {
	case o.Interval > 0 && now.Sub(w.flushed) >= o.Interval, len(w.changes) > o.MaxKeys:
		return w.all(now), nil
	case c.times >= o.Every:
		return []change{w.takeOff(c)}, nil
	}
	return nil, nil
}

// put adds a change to those of its key.
func (w *waiting) put(c change) *change {
	name := value.Key(c.key)
	if old := w.changes[name]; old != nil {
		old.n += c.n
		old.times += c.times
		return old
	}
	added := c // not &c, which would allocate also where the key is there
	w.changes[name] = &added
	return &added
}

// take takes all that waits.
func (w *waiting) take(now time.Time) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all(now)
}

func (w *waiting) all(now time.Time) []change {
	all := make([]change, 0, len(w.changes))
	for _, c := range w.changes {
		all = append(all, w.takeOff(c))
	}
	w.flushed = now
	return all
}

// takeOff takes a change to be written; landed must follow.
func (w *waiting) takeOff(c *change) change {
	name := value.Key(c.key)
	delete(w.changes, name)
	if w.flying[name] == nil {
		w.flying[name] = &change{}
	}
	w.flying[name].n += c.n
	w.flying[name].times++
	return *c
}

// landed ends a write of changes, of which those left wait again.
func (w *waiting) landed(changes, left []change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		name := value.Key(c.key)
		f := w.flying[name]
		f.n -= c.n
		if f.times--; f.times == 0 {
			delete(w.flying, name)
		}
	}
	for _, c := range left {
		w.put(c)
	}
}

// of is what waits for a key or is on its way.
func (w *waiting) of(key bson.RawValue) (n int64, waits bool) {
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
