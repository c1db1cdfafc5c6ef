package timeseries

import (
	"iter"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Window cuts time into the intervals that a document covers. [Every], [Days]
// and [Months] return windows; a type of your own (weeks, shifts, fiscal years)
// needs this one method.
type Window interface {
	// Bounds returns the window [start, end) that holds t. Windows must follow
	// each other without gap or overlap, at whole milliseconds, and be the same
	// on every call: Bounds(start) is the same window, Bounds(end) the next one.
	Bounds(t time.Time) (start, end time.Time)
}

// Every returns windows of one length, a whole number of milliseconds, counted from 1970-01-01 00:00 UTC in
// both directions, such as Every(time.Hour), or Every(24*time.Hour) for UTC days. The New functions of the
// packages refuse a length that is not positive.
func Every(length time.Duration) Window { return every{length} }

// Days returns calendar days in a time zone. nil is UTC. A day on which the clock changes has 23 or 25
// hours.
func Days(loc *time.Location) Window { return calendar{loc: zone(loc)} }

// Months returns calendar months in a time zone. nil is UTC.
func Months(loc *time.Location) Window { return calendar{loc: zone(loc), months: true} }

func zone(loc *time.Location) *time.Location {
	if loc == nil {
		return time.UTC
	}
	return loc
}

type every struct{ length time.Duration }

func (w every) Bounds(t time.Time) (start, end time.Time) {
	length, ms := w.length.Milliseconds(), t.UnixMilli()
	into := ms % length
	if into < 0 { // before 1970
		into += length
	}
	return time.UnixMilli(ms - into).UTC(), time.UnixMilli(ms - into + length).UTC()
}

type calendar struct {
	loc    *time.Location
	months bool
}

func (w calendar) Bounds(t time.Time) (start, end time.Time) {
	y, m, d := t.In(w.loc).Date()
	// If the clock is set back over midnight, t can lie in the window before or after the window of its
	// date.
	for n := -1; n < 2; n++ { // bounded, because years that a time.Time cannot count wrap
		if start, end = w.start(y, m, d, n), w.start(y, m, d, n+1); t.Before(end) {
			break
		}
	}
	return start, end
}

// start is the start of the nth window after that of a date.
func (w calendar) start(y int, m time.Month, d, n int) time.Time {
	if w.months {
		return midnight(y, m+time.Month(n), 1, w.loc)
	}
	return midnight(y, m, d+n, w.loc)
}

// midnight is the first instant of a date, even if a clock change skips 00:00 or repeats it.
func midnight(y int, m time.Month, d int, loc *time.Location) time.Time {
	date := func(t time.Time) time.Time {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	t := time.Date(want.Year(), want.Month(), want.Day(), 0, 0, 0, 0, loc)
	if date(t).Before(want) { // 00:00, or the whole day, is skipped
		_, t = t.ZoneBounds()
	} else if change, _ := t.ZoneBounds(); !change.IsZero() {
		if before := change.Add(-1); date(before).Equal(want) { // 00:00 comes twice
			name, offset := before.Zone()
			t = time.Date(want.Year(), want.Month(), want.Day(), 0, 0, 0, 0, time.FixedZone(name, offset))
		}
	}
	return t.UTC()
}

// Valid is called by the New function of each package.
func (w every) Valid() error {
	if w.length <= 0 || w.length%time.Millisecond != 0 {
		return fault.Invalid("window: the length of Every must be a positive number of milliseconds")
	}
	return nil
}

// EndTime says which instant an EndField holds. The constants show it for a window from 10:00 to 11:00.
type EndTime int

// The instants that an EndField can hold.
const (
	LastMillisecond EndTime = iota // 10:59:59.999, the default
	LastSecond                     // 10:59:59.000
)

// Of returns measurements of one series in the form that AppendMany and SetMany take.
func Of[S, M any](series S, measurements ...M) iter.Seq2[S, M] {
	return func(yield func(S, M) bool) {
		for _, m := range measurements {
			if !yield(series, m) {
				return
			}
		}
	}
}
