package bucket_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// minutes are two days of five sensors. patternbench compares buckets with plain documents and the server's
// own time series.
func minutes(yield func(string, reading) bool) {
	for s := range 5 {
		for m := range 2 * 24 * 60 {
			if !yield(fmt.Sprint("SENSOR-", s), reading{at(0, m, 0), 20 + float64(m%100)/16}) {
				return
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	buckets := newBuckets[string, reading](b, mongotest.Database(b).Collection("c"), timeseries.Every(time.Hour), scenario())
	next, stop := iter.Pull2(minutes)
	defer stop()
	for b.Loop() {
		series, m, _ := next()
		must(b, second(buckets.Append(b.Context(), series, m)))
	}
}

func BenchmarkAppendMany(b *testing.B) {
	var total int64
	for b.Loop() {
		buckets := newBuckets[string, reading](b, mongotest.Database(b).Collection("c"), timeseries.Every(time.Hour), scenario())
		result, err := buckets.AppendMany(b.Context(), minutes, nil)
		must(b, err)
		total += result.Done
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(total), "ns/measurement")
}

// Six hours of a sensor, and their mean.
func BenchmarkReads(b *testing.B) {
	buckets := newBuckets[string, reading](b, mongotest.Database(b).Collection("c"), timeseries.Every(time.Hour), scenario())
	must(b, second(buckets.AppendMany(b.Context(), minutes, nil)))
	b.Run("range", func(b *testing.B) {
		for b.Loop() {
			must(b, testkit.Drain(buckets.Range(b.Context(), "SENSOR-3", at(12, 0, 0), at(18, 0, 0))))
		}
	})
	b.Run("mean", func(b *testing.B) {
		for b.Loop() {
			must(b, second(buckets.Aggregate(b.Context(), "SENSOR-3", at(12, 0, 0), at(18, 0, 0))))
		}
	})
}
