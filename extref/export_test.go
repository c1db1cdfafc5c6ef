package extref

import "time"

// The tests break many commands, and Watch pauses after each failure. A short first pause keeps them quick.
func init() { firstPause = time.Millisecond }
