//go:build unix

package pack_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// cpu is the CPU time that this process has taken.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDoubles is what doubles that are no short decimals cost of those that are, in CPU time, of turns that take
// turns: the least of each.
func BenchmarkDoubles(b *testing.B) {
	const rows, hour = 43200, 60
	r := rand.New(rand.NewPCG(1, 2))
	var values [2][]float64
	for range rows {
		values[0] = append(values[0], float64(180+r.IntN(60))/10)
		values[1] = append(values[1], 20+r.NormFloat64())
	}
	fill := func(values []float64) *pack.Table {
		var t pack.Table
		c := t.Col("v", pack.Double)
		for i, v := range values {
			t.Times = append(t.Times, int64(i)*60000)
			t.Float(c, v)
		}
		return &t
	}
	blocks := [2][]byte{fill(values[0]).Encode("p"), fill(values[1]).Encode("p")}
	all := pack.Sum | pack.Squares | pack.Extremes
	push := func(kept pack.Parts) func(i int) {
		return func(i int) {
			t := fill(values[i])
			t.Encode("p")
			t.Tally("v", 0, rows, kept)
		}
	}
	hourly := func(kept pack.Parts) func(i int) {
		return func(i int) {
			var t pack.Table
			if err := t.Add(blocks[i], "p"); err != nil {
				b.Fatal(err)
			}
			for first := 0; first < rows; first += hour {
				t.Tally("v", first, first+hour, kept)
			}
		}
	}
	for _, c := range []struct {
		name string
		run  func(i int)
	}{{"append, all", push(all)}, {"append, sum", push(pack.Sum)}, {"hourly, all", hourly(all)}, {"hourly, sum", hourly(pack.Sum)}} {
		b.Run(c.name, func(b *testing.B) {
			least := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i := range least {
					began := cpu()
					for range 5 {
						c.run(i)
					}
					least[i] = min(least[i], (cpu()-began)/5)
				}
			}
			b.ReportMetric(float64(least[0].Nanoseconds())/rows, "ns/decimal")
			b.ReportMetric(float64(least[1].Nanoseconds())/rows, "ns/other")
			b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
		})
	}
}
