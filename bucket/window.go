package bucket

import (
	"time"

	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/window"
)

// Window cuts time into the intervals that a bucket covers. [Every], [Days], [Months] and [ByCount] are
// windows; others (weeks, shifts, fiscal years) need its one method.
type Window = window.Window

// Every is windows of one length, a whole number of milliseconds, counted from 1970-01-01 00:00 UTC in both
// directions: Every(time.Hour), Every(24*time.Hour) for UTC days.
func Every(length time.Duration) Window { return window.Every(length) }

// Days is calendar days in a time zone; nil is UTC. A day has 23 or 25 hours where the clock changes.
func Days(loc *time.Location) Window { return window.Days(loc) }

// Months is calendar months in a time zone; nil is UTC.
func Months(loc *time.Location) Window { return window.Months(loc) }

// ByCount is one window for all times: buckets are cut by Options.MaxCount alone, in the order in which
// measurements come, as pages of trades are. [Buckets.Page] reads them by number. The start of every bucket
// is 0001-01-01; a Range sorts all of a series, and nothing is ever old enough for Archive.
func ByCount() Window { return always{} }

type always struct{}

func (always) Bounds(time.Time) (start, end time.Time) { return time.Time{}, frame.Beyond }
