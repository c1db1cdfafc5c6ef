package windows

import (
	"sync"
)

// A Memory has a value by place. It is bounded, so it may forget places; those have the zero value.
type Memory[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

const mostRemembered = 10_000

// Change replaces the value of a place and returns the new one.
func (m *Memory[T]) Change(key string, change func(known T) T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.all[key]
	v = change(v)
	if !ok && (m.all == nil || len(m.all) >= mostRemembered) {
		m.all = map[string]T{}
	}
	m.all[key] = v
	return v
}
