package timeseries_test

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestWindowLengths(t *testing.T) {
	berlin := testkit.Zone(t, "Europe/Berlin")
	for _, c := range []struct {
		window timeseries.Window
		at     string
		start  string
		length time.Duration
	}{
		{timeseries.Every(time.Hour), "2019-01-31T10:59:59.999Z", "2019-01-31T10:00:00Z", time.Hour},
		{timeseries.Every(time.Hour), "1969-12-31T23:59:59.999Z", "1969-12-31T23:00:00Z", time.Hour},
		{timeseries.Every(24 * time.Hour), "1969-12-31T00:00:00Z", "1969-12-31T00:00:00Z", 24 * time.Hour},
		{timeseries.Every(7 * time.Millisecond), "1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.993Z", 7 * time.Millisecond},
		{timeseries.Days(nil), "2024-03-31T23:00:00Z", "2024-03-31T00:00:00Z", 24 * time.Hour},
		{timeseries.Days(berlin), "2024-03-31T12:00:00+02:00", "2024-03-31T00:00:00+01:00", 23 * time.Hour},
		{timeseries.Days(berlin), "2024-10-27T23:59:00+01:00", "2024-10-27T00:00:00+02:00", 25 * time.Hour},
		{timeseries.Days(berlin), "2024-10-26T22:00:00Z", "2024-10-27T00:00:00+02:00", 25 * time.Hour},
		{timeseries.Days(berlin), "1945-02-10T12:00:00Z", "1945-02-10T00:00:00+01:00", 0},
		{timeseries.Months(nil), "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", 29 * 24 * time.Hour},
		{timeseries.Months(berlin), "2024-03-31T21:59:59Z", "2024-02-29T23:00:00Z", 31*24*time.Hour - time.Hour},
		{timeseries.Months(berlin), "2024-12-31T23:00:00Z", "2024-12-31T23:00:00Z", 31 * 24 * time.Hour},
		// 00:00 is skipped; the whole day is skipped; 00:00 comes twice.
		{timeseries.Days(testkit.Zone(t, "America/Sao_Paulo")), "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", 23 * time.Hour},
		{timeseries.Days(testkit.Zone(t, "Pacific/Apia")), "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", 24 * time.Hour},
		{timeseries.Days(testkit.Zone(t, "Pacific/Apia")), "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", 24 * time.Hour},
		{timeseries.Days(testkit.Zone(t, "America/Havana")), "2024-11-03T12:00:00Z", "2024-11-03T04:00:00Z", 25 * time.Hour},
		{timeseries.Days(testkit.Zone(t, "Asia/Amman")), "2021-10-29T12:00:00Z", "2021-10-28T21:00:00Z", 25 * time.Hour},
	} {
		moment, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := time.Parse(time.RFC3339, c.start)
		start, end := c.window.Bounds(moment)
		if c.length == 0 {
			c.length = end.Sub(start)
		}
		if !start.Equal(want) || end.Sub(start) != c.length {
			t.Errorf("%s in %v: %v, %v; want %v, %v", c.at, c.window, start, end.Sub(start), want, c.length)
		}
	}
}

// Windows follow each other without gap or overlap and are the same for every
// moment they hold.
func TestWindowProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	windows := map[string]timeseries.Window{
		"hour": timeseries.Every(time.Hour), "odd": timeseries.Every(12345 * time.Millisecond), "utc": timeseries.Days(nil),
	}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Pacific/Apia",
		"Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata", "Africa/Cairo", "Asia/Beirut", "Antarctica/Troll"} {
		loc := testkit.Zone(t, name)
		windows["days "+name], windows["months "+name] = timeseries.Days(loc), timeseries.Months(loc)
	}
	from, to := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, w := range windows {
		for range 3000 {
			moment := from.Add(time.Duration(random.Int64N(to.Unix()-from.Unix()))*time.Second + time.Duration(random.Int64N(1e9)))
			start, end := w.Bounds(moment)
			if moment.Before(start) || !moment.Before(end) {
				t.Fatalf("%s: %v is not in %v to %v", name, moment, start, end)
			}
			inside := start.Add(time.Duration(random.Int64N(int64(end.Sub(start)))))
			for _, same := range []time.Time{start, inside, end.Add(-1)} {
				if s, e := w.Bounds(same); !s.Equal(start) || !e.Equal(end) {
					t.Fatalf("%s: %v is in %v to %v, %v in %v to %v", name, moment, start, end, same, s, e)
				}
			}
			if s, _ := w.Bounds(end); !s.Equal(end) {
				t.Fatalf("%s: after %v comes %v", name, end, s)
			}
			if _, e := w.Bounds(start.Add(-1)); !e.Equal(start) {
				t.Fatalf("%s: before %v ends %v", name, start, e)
			}
			if start.UnixNano()%1e6 != 0 {
				t.Fatalf("%s: %v is no whole millisecond", name, start)
			}
		}
	}
}

// A day's window starts at the first moment of its date.
func TestDaysAreDates(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Asia/Beirut", "Asia/Amman"} {
		loc := testkit.Zone(t, name)
		w := timeseries.Days(loc)
		for moment := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); moment.Year() < 2030; {
			start, end := w.Bounds(moment)
			if y, m, d := start.In(loc).Date(); start.Add(-time.Second).In(loc).Day() == d {
				t.Fatalf("%s: %d-%d-%d starts before %v", name, y, m, d, start)
			}
			moment = end
		}
	}
}

// Nobody stores such times, but a limit or a path may be asked for.
func TestLargestTime(t *testing.T) {
	largest := time.Unix(1<<63-62135596801, 999999999)
	for _, w := range []timeseries.Window{timeseries.Days(nil), timeseries.Months(nil), timeseries.Every(time.Hour)} {
		done := make(chan struct{})
		go func() {
			w.Bounds(largest)
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%T does not return", w)
		}
	}
}
