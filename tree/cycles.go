package tree

import (
	"cmp"
	"slices"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// cycle is a set of places of which each lies below all others.
type cycle struct {
	// The first of places is one that a root leads to if there is one, or else one that another node outside leads to.
	places  []*place
	entered bool // a node outside leads to the first
}

// connector finds the cycles among the places of a batch: it is Tarjan's algorithm for strongly connected components. A
// component is complete after all that is above it, so that rooted of the parents is final when it decides that of
// the node.
type connector struct {
	graph bool           // several parents are no problem
	order map[*place]int // 1 for the first place that was visited
	low   map[*place]int // the first place on the stack that the place leads to, by its order
	stack []*place       // places with an incomplete component
}

func (c *connector) visit(s *place) {
	if s.connected || c.order[s] > 0 {
		return
	}
	n := len(c.order) + 1
	c.order[s], c.low[s] = n, n
	c.stack = append(c.stack, s)
	for _, up := range s.ups {
		c.visit(up)
		if !up.connected { // it is on the stack
			c.low[s] = min(c.low[s], c.low[up])
		}
	}
	if c.low[s] == n {
		at := len(c.stack) - 1
		for c.stack[at] != s {
			at--
		}
		component := slices.Clone(c.stack[at:])
		c.stack = c.stack[:at]
		c.connect(component)
	}
}

// connect says where the ways up from the places of a component lead. There a place gives up its node, to save memory.
func (c *connector) connect(component []*place) {
	reached := slices.ContainsFunc(component, func(s *place) bool {
		return s.lost == "" && len(s.ups) == 0 || slices.ContainsFunc(s.ups, func(up *place) bool { return up.reached })
	})
	for _, s := range component {
		s.connected, s.reached, s.node = true, reached, node{}
	}
	s := component[0]
	if len(component) > 1 || slices.Contains(s.ups, s) {
		closeCycle(component)
		return
	}
	unrooted := slices.ContainsFunc(s.ups, func(up *place) bool { return !up.rooted })
	s.rooted = s.lost == "" && !unrooted && (c.graph || len(s.ups) < 2)
}

// closeCycle sets cycle and closing of the places on a cycle. From the first all others can be reached without the
// links that close the cycle, because those lead back to a place above.
func closeCycle(places []*place) {
	c := &cycle{places: places}
	for _, s := range places {
		s.cycle = c
	}
	slices.SortFunc(places, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.entry(), b.entry()), value.Compare(a.id, b.id))
	})
	c.entered = places[0].entry() != notEntered
	below := map[*place][]*place{}
	for _, s := range places {
		for _, up := range s.ups {
			below[up] = append(below[up], s)
		}
	}
	seen, above := map[*place]bool{}, map[*place]bool{}
	var walk func(s *place)
	walk = func(s *place) {
		seen[s], above[s] = true, true
		for _, child := range below[s] {
			if above[child] {
				child.closing = append(child.closing, s)
			} else if !seen[child] {
				walk(child)
			}
		}
		above[s] = false
	}
	walk(places[0])
}

// How a place on a cycle is entered from outside, the best first.
const (
	enteredFromRoot = iota
	enteredFromNode
	notEntered
)

func (s *place) entry() int {
	best := notEntered
	for _, up := range s.ups {
		switch {
		case up.cycle == s.cycle:
		case up.reached:
			return enteredFromRoot
		default:
			best = enteredFromNode
		}
	}
	return best
}
