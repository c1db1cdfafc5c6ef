package maintain

import "time"

// Limit returns how long a document is tried without a deadline, and replaces it.
func Limit(by time.Duration) time.Duration {
	old := limit
	limit = by
	return old
}
