package txn

import "time"

// FenceBound returns how long an open transaction is fenced, and replaces it.
func FenceBound(by time.Duration) time.Duration {
	old := fenceBound
	fenceBound = by
	return old
}
