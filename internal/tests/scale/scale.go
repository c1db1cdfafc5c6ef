// Package scale says how much a test runs of what could run for hours. In go test ./... it is small: each kind of case once.
// The command in internal/tests/campaigns asks for more.
package scale

import (
	"flag"
	"fmt"
	"hash/fnv"
)

var (
	size = flag.String("scale", "small", "how much to run of what could run for hours: `small`, part or whole")
	seed = flag.Uint64("seed", 1, "which of the random cases")
)

// Of returns the first value for a small run, the second for a part, and the third for the whole. Call it in a
// test, and not in a package variable: the flags must have been read.
func Of[T any](small, part, whole T) T {
	switch *size {
	case "small":
		return small
	case "part":
		return part
	case "whole":
		return whole
	}
	panic(fmt.Sprintf("-scale=%s: it is small, part or whole", *size))
}

// Whole reports whether everything runs.
func Whole() bool { return Of(false, false, true) }

// Third reports whether the case of that name runs: in a small run about a third of them do, and the seed says which.
func Third(name string) bool {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, Seed(), " ", name)
	return Of(h.Sum64()%3 == 0, true, true)
}

// Turn reports whether case i of a list runs: in a small run one in every so many does, and the seed says which.
func Turn(i, every int) bool { return Of((uint64(i)+Seed())%uint64(every) == 0, true, true) }

// Seed returns the seed of the random cases.
func Seed() uint64 { return *seed }
