package series_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"

	"github.com/mongopatterns/mongopatterns/series"
)

// cpu is the CPU time that this process has taken.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDoubles is what a month of doubles that are no short decimals costs of one of those that are, in the client's
// CPU time: stored in days, and read as hourly means. Both take turns; the least of each counts.
func BenchmarkDoubles(b *testing.B) {
	type reading struct {
		Timestamp time.Time `bson:"timestamp"`
		A         float64   `bson:"a"`
		B         float64   `bson:"b"`
		C         float64   `bson:"c"`
	}
	r := rand.New(rand.NewPCG(1, 2))
	const rows = 30 * 1440
	var all [2][]reading
	for i := range rows {
		at, short := day.Add(time.Duration(i)*time.Minute), func() float64 { return float64(180+r.IntN(60)) / 10 }
		all[0] = append(all[0], reading{at, short(), short(), short()})
		all[1] = append(all[1], reading{at, 20 + r.NormFloat64(), 20 + r.NormFloat64(), 20 + r.NormFloat64()})
	}
	coll := mongotest.Database(b).Collection("c")
	s, err := series.New[int, reading](coll, timeseries.Days(nil), &series.Options{Values: []timeseries.Value{{Field: "a"}, {Field: "b"}, {Field: "c"}}})
	must(b, err)
	must(b, s.EnsureIndexes(b.Context()))
	for i, readings := range all {
		_, err := s.AppendMany(b.Context(), timeseries.Of(i, readings...), nil)
		must(b, err)
	}
	n := 10
	for name, run := range map[string]func(i int){
		"append": func(i int) {
			n++
			_, err := s.AppendMany(b.Context(), timeseries.Of(n, all[i]...), nil)
			must(b, err)
		},
		"hourly": func(i int) {
			hours := 0
			for _, err := range s.AggregateWindows(b.Context(), i, time.Time{}, time.Time{}, timeseries.Every(time.Hour)) {
				must(b, err)
				hours++
			}
			if hours != 720 {
				b.Fatal(hours)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			least := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i := range least {
					began := cpu()
					run(i)
					least[i] = min(least[i], cpu()-began)
				}
			}
			b.ReportMetric(float64(least[0].Microseconds()), "µs-decimals")
			b.ReportMetric(float64(least[1].Microseconds()), "µs-others")
			b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
		})
	}
}
