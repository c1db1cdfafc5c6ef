package txn

import "time"

// Limit returns how long a transaction has whose context has no deadline, and replaces it.
func Limit(by time.Duration) time.Duration {
	old := limit
	limit = by
	return old
}
