//go:build race

package main

// raced says that the race detector is on, which allocates too.
const raced = true
