package frame

import (
	"fmt"
	"testing"
)

// The memory of places is bounded.
func TestKnown(t *testing.T) {
	var known Known[int]
	raise := func(key string, by int) int { return known.Change(key, func(n int) int { return n + by }) }
	raise("a", 3)
	if a, b := raise("a", 2), raise("b", 0); a != 5 || b != 0 {
		t.Error(a, b)
	}
	for i := range mostKnown + 10 {
		raise(fmt.Sprint(i), 1)
	}
	if len(known.all) > mostKnown || raise(fmt.Sprint(mostKnown+9), 0) != 1 {
		t.Error(len(known.all))
	}
}
