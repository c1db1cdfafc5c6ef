package txn

import "time"

// FenceBound returns how long an open transaction is fenced, and replaces it.
func FenceBound(by time.Duration) time.Duration {
	old := fenceBound
	fenceBound = by
	return old
}

// CallersBound returns how long a transaction in a session of the caller is fenced, and replaces it.
func CallersBound(by time.Duration) time.Duration {
	old := callersBound
	callersBound = by
	return old
}
