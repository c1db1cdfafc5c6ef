package timeseries_test

import (
	"fmt"
	"time"

	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A calendar day has 23 hours where clocks go forward.
func ExampleDays() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin)
	start, end := timeseries.Days(berlin).Bounds(noon)
	fmt.Println(start.In(berlin), end.Sub(start))
	start, end = timeseries.Every(6 * time.Hour).Bounds(noon)
	fmt.Println(start.UTC(), end.Sub(start))
	// Output:
	// 2026-03-29 00:00:00 +0100 CET 23h0m0s
	// 2026-03-29 06:00:00 +0000 UTC 6h0m0s
}

// weeks are windows of a program's own: from Monday to Monday, in UTC.
type weeks struct{}

func (weeks) Bounds(t time.Time) (start, end time.Time) {
	day, _ := timeseries.Days(nil).Bounds(t)
	start = day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	return start, start.AddDate(0, 0, 7)
}

func ExampleWindow() {
	start, end := weeks{}.Bounds(time.Date(2026, time.November, 22, 20, 0, 0, 0, time.UTC)) // a Sunday
	fmt.Println(start.Format(time.DateOnly), end.Format(time.DateOnly))
	// Output: 2026-11-16 2026-11-23
}
