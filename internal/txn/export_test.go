package txn

import "time"

// Limit returns how long a transaction has whose context has no deadline, and replaces it.
func Limit(by time.Duration) time.Duration {
	old := limit
	limit = by
	return old
}

// FenceBound is Limit for the time in which an open transaction is fenced.
func FenceBound(by time.Duration) time.Duration {
	old := fenceBound
	fenceBound = by
	return old
}
