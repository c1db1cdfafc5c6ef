package turn

import (
	"context"
	"slices"
	"testing"
	"time"
)

func documents(names ...string) (all []Document) {
	for _, name := range names {
		all = append(all, Document{Name: name})
	}
	return all
}

// until waits until so many calls wait for their turn at a document.
func until(of string, calls int) {
	for {
		mu.Lock()
		n := len(lines[Document{Name: of}])
		mu.Unlock()
		if n == calls {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// empty fails if a line is left.
func empty(t *testing.T) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if len(lines) > 0 {
		t.Errorf("left: %v", lines)
	}
}

// forever makes calls wait for their turn however long it takes.
func forever(t *testing.T) {
	was := patience
	patience = time.Hour
	t.Cleanup(func() { patience = was })
}

// Calls have their turn in the order in which they came, and leave nothing behind.
func TestOrder(t *testing.T) {
	forever(t)
	first, _ := Take(t.Context(), documents("a"))
	const calls = 20
	turns := make(chan int, calls)
	for i := range calls {
		go func() {
			turn, _ := Take(t.Context(), documents("a"))
			turns <- i
			turn.End()
		}()
		until("a", i+1)
	}
	first.End()
	var order []int
	for range calls {
		order = append(order, <-turns)
	}
	if !slices.IsSorted(order) {
		t.Errorf("%v", order)
	}
	last, _ := Take(t.Context(), documents("a"))
	last.End()
	empty(t)
}

// Calls of other documents do not wait, and two calls of the same documents, named in another order, do not wait for
// each other.
func TestSeveralDocuments(t *testing.T) {
	forever(t)
	a, _ := Take(t.Context(), documents("a"))
	b, _ := Take(t.Context(), documents("b"))
	ended := make(chan bool)
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		go func() {
			for range 100 {
				turn, _ := Take(t.Context(), documents(names...))
				turn.End()
			}
			ended <- true
		}()
	}
	until("a", 2)
	b.End()
	a.End()
	<-ended
	<-ended
	empty(t)
}

// A call whose context ends, or that has waited for long, waits no more, and takes no turn from those behind it.
func TestGivesUp(t *testing.T) {
	was := patience
	t.Cleanup(func() { patience = was })
	for name, test := range map[string]struct {
		ctx      func() context.Context
		patience time.Duration
	}{
		"context": {func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, time.Hour},
		"patience": {t.Context, time.Millisecond},
	} {
		patience = test.patience
		first, _ := Take(t.Context(), documents("b"))
		late, _ := Take(test.ctx(), documents("a", "b", "c"))
		if !slices.Equal(late, documents("a")) {
			t.Errorf("%s: %v", name, late)
		}
		late.End()
		first.End()
		empty(t)
	}
}
