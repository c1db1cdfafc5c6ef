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
	graph  bool           // several parents are no problem
	number map[*place]int // of the visit: 1 for the first place
	low    map[*place]int // the first place on the stack that the place leads to, by its number
	stack  []*place       // places with an incomplete component
}

func (c *connector) visit(at *place) {
	if at.connected || c.number[at] > 0 {
		return
	}
	n := len(c.number) + 1
	c.number[at], c.low[at] = n, n
	c.stack = append(c.stack, at)
	for _, parent := range at.parents {
		c.visit(parent)
		if !parent.connected { // it is on the stack
			c.low[at] = min(c.low[at], c.low[parent])
		}
	}
	if c.low[at] == n {
		first := len(c.stack) - 1
		for c.stack[first] != at {
			first--
		}
		component := slices.Clone(c.stack[first:])
		c.stack = c.stack[:first]
		c.connect(component)
	}
}

// connect says where the ways up from the places of a component lead. There a place gives up its node, to save memory.
func (c *connector) connect(component []*place) {
	reached := slices.ContainsFunc(component, func(at *place) bool {
		return at.lost == "" && len(at.parents) == 0 || slices.ContainsFunc(at.parents, func(parent *place) bool { return parent.reached })
	})
	for _, at := range component {
		at.connected, at.reached, at.node = true, reached, node{}
	}
	at := component[0]
	if len(component) > 1 || slices.Contains(at.parents, at) {
		closeCycle(component)
		return
	}
	unrooted := slices.ContainsFunc(at.parents, func(parent *place) bool { return !parent.rooted })
	at.rooted = at.lost == "" && !unrooted && (c.graph || len(at.parents) < 2)
}

// closeCycle sets cycle and closing of the places on a cycle. From the first all others can be reached without the
// links that close the cycle, because those lead back to a place above.
func closeCycle(places []*place) {
	c := &cycle{places: places}
	for _, at := range places {
		at.cycle = c
	}
	slices.SortFunc(places, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.entry(), b.entry()), value.Compare(a.id, b.id))
	})
	c.entered = places[0].entry() != notEntered
	below := map[*place][]*place{}
	for _, at := range places {
		for _, parent := range at.parents {
			below[parent] = append(below[parent], at)
		}
	}
	seen, above := map[*place]bool{}, map[*place]bool{}
	var walk func(at *place)
	walk = func(at *place) {
		seen[at], above[at] = true, true
		for _, child := range below[at] {
			if above[child] {
				child.closing = append(child.closing, at)
			} else if !seen[child] {
				walk(child)
			}
		}
		above[at] = false
	}
	walk(places[0])
}

// How a place on a cycle is entered from outside, the best first.
const (
	enteredFromRoot = iota
	enteredFromNode
	notEntered
)

func (at *place) entry() int {
	best := notEntered
	for _, parent := range at.parents {
		switch {
		case parent.cycle == at.cycle:
		case parent.reached:
			return enteredFromRoot
		default:
			best = enteredFromNode
		}
	}
	return best
}
