package extref

import "time"

// Tests break many commands, after each of which Watch pauses.
func init() { firstPause = time.Millisecond }
