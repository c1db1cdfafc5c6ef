//go:build unix

package series_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
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
	testkit.OK(b, err)
	testkit.OK(b, s.EnsureIndexes(b.Context()))
	for i, readings := range all {
		_, err := s.AppendMany(b.Context(), timeseries.Of(i, readings...), nil)
		testkit.OK(b, err)
	}
	n := 10
	for name, run := range map[string]func(i int){
		"append": func(i int) {
			n++
			_, err := s.AppendMany(b.Context(), timeseries.Of(n, all[i]...), nil)
			testkit.OK(b, err)
		},
		"hourly": func(i int) {
			hours := 0
			for _, err := range s.AggregateBy(b.Context(), i, time.Time{}, time.Time{}, timeseries.Every(time.Hour)) {
				testkit.OK(b, err)
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

// BenchmarkBatches is the server's CPU time of storing days of a measurement a minute (4 hours one by one), in batches of a thousand, so many of
// each series, by that of plain documents with an index on series and time. Measurements have three numbers with
// one or two places, or a number, a status, one of eight texts, and a message that is never the same; their times
// jitter. Both take turns.
func BenchmarkBatches(b *testing.B) {
	type numbers struct {
		Timestamp time.Time `bson:"timestamp"`
		A         float64   `bson:"a"`
		B         float64   `bson:"b"`
		C         float64   `bson:"c"`
	}
	type texts struct {
		Timestamp time.Time `bson:"timestamp"`
		A         float64   `bson:"a"`
		Status    string    `bson:"status"`
		Message   string    `bson:"message"`
	}
	r := rand.New(rand.NewPCG(1, 2))
	at := func(i int) time.Time {
		return day.Add(time.Duration(i)*time.Minute + time.Duration(r.IntN(1000))*time.Millisecond)
	}
	for _, each := range []int{1, 10, 20, 100, 1000} {
		b.Run("numbers/"+strconv.Itoa(each), func(b *testing.B) {
			batches(b, each, func(i int) numbers {
				return numbers{at(i), float64(180+r.IntN(60)) / 10, float64(r.IntN(10_000)) / 100, float64(980+r.IntN(60)) / 10}
			})
		})
		b.Run("texts/"+strconv.Itoa(each), func(b *testing.B) {
			batches(b, each, func(i int) texts {
				return texts{at(i), float64(180+r.IntN(60)) / 10, "status " + strconv.Itoa(r.IntN(8)), fmt.Sprintf("request %08x took %d ms", r.Uint32(), r.IntN(1000))}
			})
		})
	}
}

func batches[M any](b *testing.B, each int, make func(i int) M) {
	db := mongotest.Database(b)
	plain := db.Collection("plain")
	s, err := series.New[int, M](db.Collection("c"), timeseries.Days(nil), &series.Options{Values: []timeseries.Value{{Field: "a"}}})
	testkit.OK(b, err)
	testkit.OK(b, s.EnsureIndexes(b.Context()))
	_, err = plain.Indexes().CreateOne(b.Context(), mongo.IndexModel{Keys: bson.D{{Key: "series", Value: 1}, {Key: "m.timestamp", Value: 1}}})
	testkit.OK(b, err)
	type document struct {
		Series int `bson:"series"`
		M      M   `bson:"m"`
	}
	const batch = 1000
	rounds := max(min(1440, 240*each)/each, 20) // between two looks at the server, which cost it a millisecond
	var used [2]float64
	count := 0.0
	for from := 0; b.Loop(); from += rounds * each {
		for i := range used {
			began := serverCPU(b, db)
			for round := range rounds {
				var all []document
				for i := range batch {
					all = append(all, document{i / each, make(from + round*each + i%each)})
				}
				if i == 0 {
					_, err = plain.InsertMany(b.Context(), all)
				} else {
					_, err = s.AppendMany(b.Context(), func(yield func(int, M) bool) {
						for _, d := range all {
							if !yield(d.Series, d.M) {
								return
							}
						}
					}, nil)
				}
				testkit.OK(b, err)
			}
			used[i] += serverCPU(b, db) - began
		}
		count += float64(rounds * batch)
	}
	b.ReportMetric(used[0]/count, "µs-plain")
	b.ReportMetric(used[1]/count, "µs-series")
	b.ReportMetric(used[1]/used[0], "ratio")
}

// serverCPU is the CPU time that the server has taken, in µs.
func serverCPU(b *testing.B, db *mongo.Database) float64 {
	status, err := mongotest.Admin(b, db).RunCommand(b.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	testkit.OK(b, err)
	info := status.Lookup("extra_info").Document()
	return float64(info.Lookup("user_time_us").AsInt64() + info.Lookup("system_time_us").AsInt64())
}
