package series_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// event is a measurement that goes without BSON.
type event struct {
	Timestamp time.Time `bson:"timestamp"`
	V         float64   `bson:"v"`
	N         int       `bson:"n"`
	Note      string    `bson:"note,omitempty"`
}

var day = time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC)

// at is a time of the day.
func at(h, m, s int) time.Time {
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

var values = []timeseries.Value{{Field: "v"}, {Field: "n"}}

func open[ID, M any](t testing.TB, coll *mongo.Collection, w timeseries.Window, o *series.Options) *series.Series[ID, M] {
	t.Helper()
	s, err := series.New[ID, M](coll, w, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureIndexes(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func appendMany[ID, M any](t testing.TB, s *series.Series[ID, M], key ID, all ...M) {
	t.Helper()
	result, err := s.AppendMany(context.Background(), timeseries.Of(key, all...), nil)
	if err != nil || result.Done != int64(len(all)) {
		t.Fatalf("%+v, %v", result, err)
	}
}

// compare checks aggregates against the measurements they are of, exactly.
func compare(t testing.TB, what string, want []event, got timeseries.Stats) {
	t.Helper()
	v := got.Values["v"]
	if got.Count != int64(len(want)) || v.Count != got.Count {
		t.Fatalf("%s: count %d, %d; want %d", what, got.Count, v.Count, len(want))
	}
	if len(want) == 0 {
		return
	}
	sum, squares := new(big.Rat), new(big.Rat)
	low, high := math.Inf(1), math.Inf(-1)
	for _, e := range want {
		x, _ := new(big.Rat).SetString(fmt.Sprint(e.V))
		sum.Add(sum, x)
		squares.Add(squares, new(big.Rat).Mul(x, x))
		low, high = min(low, e.V), max(high, e.V)
	}
	gotSum, _ := new(big.Rat).SetString(v.Sum.String())
	gotSquares, _ := new(big.Rat).SetString(v.Squares.String())
	if sum.Cmp(gotSum) != 0 || squares.Cmp(gotSquares) != 0 || v.Min.Float64() != low || v.Max.Float64() != high {
		t.Fatalf("%s: %+v; want sum %v, squares %v, %v to %v", what, v, sum.FloatString(9), squares.FloatString(9), low, high)
	}
	n := big.NewRat(int64(len(want)), 1)
	mean := sum.Quo(sum, n)
	variance, _ := squares.Quo(squares, n).Sub(squares, mean.Mul(mean, mean)).Float64()
	if math.Abs(v.Variance()-variance) > 1e-15*math.Abs(variance) {
		t.Fatalf("%s: variance %v, want %v", what, v.Variance(), variance)
	}
}

// model is what a series should hold.
type model []event

func (m model) between(from, to time.Time) (out []event) {
	for _, e := range m {
		if (from.IsZero() || !e.Timestamp.Before(from)) && (to.IsZero() || e.Timestamp.Before(to)) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b event) int { return a.Timestamp.Compare(b.Timestamp) })
	return out
}

// Random appends, late ones, compactions, edits and deletes, against a model in
// memory: with and without BSON, in one and in several documents a window.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	t.Run("struct", func(t *testing.T) {
		testModel[event](t, func(e event) event { return e }, func(m event) event { return m }, series.Options{})
	})
	t.Run("small documents", func(t *testing.T) {
		testModel(t, func(e event) event { return e }, func(m event) event { return m }, series.Options{MaxCount: 7, BatchField: "batches"})
	})
	t.Run("by bytes", func(t *testing.T) {
		testModel(t, func(e event) event { return e }, func(m event) event { return m }, series.Options{MaxBytes: 300})
	})
	t.Run("bson", func(t *testing.T) {
		testModel(t, func(e event) bson.D {
			out := bson.D{{Key: "v", Value: e.V}, {Key: "timestamp", Value: e.Timestamp}, {Key: "n", Value: e.N}}
			if e.Note != "" {
				out = append(out, bson.E{Key: "note", Value: e.Note})
			}
			return out
		}, func(m bson.D) (e event) {
			raw, _ := bson.Marshal(m)
			_ = bson.Unmarshal(raw, &e)
			return e
		}, series.Options{})
	})
}

func testModel[M any](t *testing.T, make func(event) M, back func(M) event, o series.Options) {
	t.Parallel()
	o.Values = values
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, M](t, coll, timeseries.Every(time.Hour), &o)
	random := rand.New(rand.NewPCG(1, uint64(o.MaxCount)))
	models := map[string]model{}
	used := map[int64]bool{}
	fresh := func() event {
		ms := random.Int64N(5 * 3600 * 1000)
		for used[ms] {
			ms++
		}
		used[ms] = true
		e := event{Timestamp: day.Add(time.Duration(ms) * time.Millisecond), V: float64(random.IntN(1000)-500) / 10, N: random.IntN(3)}
		switch random.IntN(20) {
		case 0:
			e.V = math.Round(random.NormFloat64()*1e12) / 1e12
		case 1:
			e.Note = fmt.Sprint("note ", random.IntN(4))
		}
		return e
	}
	for step := range scale.Of(60, 150, 600) {
		key := []string{"x", "y"}[random.IntN(2)]
		m := models[key]
		switch n := random.IntN(20); {
		case n < 6:
			e := fresh()
			if err := s.Append(ctx, key, make(e)); err != nil {
				t.Fatal(err)
			}
			models[key] = append(m, e)
		case n < 12:
			var all []M
			for range random.IntN(30) {
				e := fresh()
				models[key] = append(models[key], e)
				all = append(all, make(e))
			}
			appendMany(t, s, key, all...)
		case n < 14:
			if result, err := s.Compact(ctx, nil); err != nil || result.Done != result.Examined {
				t.Fatalf("%+v, %v", result, err)
			}
			if n := testkit.Count(t, coll, bson.D{{Key: "blocks.1", Value: bson.D{{Key: "$exists", Value: true}}}}); n != 0 {
				t.Fatalf("%d documents with several blocks", n)
			}
		case n < 16 && len(m) > 0:
			i := random.IntN(len(m))
			e := fresh()
			e.Timestamp = m[i].Timestamp
			if err := s.Replace(ctx, key, make(e)); err != nil {
				t.Fatal(err)
			}
			m[i] = e
		case n < 18 && len(m) > 0:
			i := random.IntN(len(m))
			if err := s.Delete(ctx, key, m[i].Timestamp); err != nil {
				t.Fatal(err)
			}
			models[key] = slices.Delete(m, i, i+1)
		default:
			from, to := fresh().Timestamp, fresh().Timestamp
			if to.Before(from) {
				from, to = to, from
			}
			switch random.IntN(4) {
			case 0:
				from = from.Truncate(time.Hour)
			case 1:
				to = to.Truncate(time.Hour).Add(time.Hour)
			case 2:
				from, to = time.Time{}, time.Time{}
			}
			want := m.between(from, to)
			var got []event
			for _, m := range testkit.Collect(t, s.Range(ctx, key, from, to)) {
				got = append(got, back(m))
			}
			testkit.Equal(t, want, got)
			stats, err := s.Aggregate(ctx, key, from, to)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, fmt.Sprint("step ", step), want, stats)
			for _, by := range []timeseries.Window{nil, timeseries.Every(10 * time.Minute), timeseries.Every(7 * time.Hour)} {
				width, windows := cmp.Or(by, timeseries.Every(time.Hour)), s.AggregateWindows(ctx, key, from, to)
				if by != nil {
					windows = s.AggregateBy(ctx, key, from, to, by)
				}
				for _, w := range testkit.Collect(t, windows) {
					start, end := width.Bounds(w.Start)
					var part []event
					for _, e := range want {
						if !e.Timestamp.Before(start) && e.Timestamp.Before(end) {
							part = append(part, e)
						}
					}
					compare(t, fmt.Sprint("window ", w.Start), part, w.Stats)
					want = slices.DeleteFunc(slices.Clone(want), func(e event) bool { return by == nil && slices.Contains(part, e) })
				}
				if by == nil {
					if len(want) > 0 {
						t.Fatalf("%d measurements in no window", len(want))
					}
					want = m.between(from, to)
				}
			}
			if len(m) > 0 {
				latest, err := s.Latest(ctx, key)
				if all := m.between(time.Time{}, time.Time{}); err != nil || back(latest) != all[len(all)-1] {
					t.Fatalf("%v, %v; want %v", latest, err, all[len(all)-1])
				}
			}
		}
	}
	testkit.Healthy(t, s)
	var n int
	for doc, err := range s.Documents(ctx, nil) {
		if err != nil || doc.Lookup("series").Type != bson.TypeString {
			t.Fatal(doc, err)
		}
		n++
	}
	if n != len(models["x"])+len(models["y"]) {
		t.Errorf("%d documents", n)
	}
}

// The sensors of the scenario, by configuration alone: others find the fields that they
// know, and compute the mean of an hour from its sums.
func TestSensors(t *testing.T) {
	t.Parallel()
	type reading struct {
		Timestamp   time.Time `bson:"timestamp"`
		Temperature float64   `bson:"temperature"`
	}
	coll := mongotest.Database(t).Collection("sensors")
	s := open[int, reading](t, coll, timeseries.Every(time.Hour), &series.Options{
		SeriesField: "sensor_id", StartField: "start_date", EndField: "end_date", BlocksField: "measurements", CountField: "transaction_count",
		Values: []timeseries.Value{{Field: "temperature", Sum: "sum_temperature", Squares: "squares", Min: "min", Max: "max", Count: "n"}},
	})
	morning := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	var all []reading
	for i := range 24 * 60 {
		all = append(all, reading{morning.Add(time.Duration(i) * time.Minute), float64(i%600) / 10})
	}
	appendMany(t, s, 12345, all...)
	doc, err := coll.FindOne(t.Context(), bson.D{{Key: "sensor_id", Value: 12345}, {Key: "start_date", Value: morning.Add(10 * time.Hour)}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	elements, _ := doc.Elements()
	for _, e := range elements {
		names = append(names, e.Key())
	}
	slices.Sort(names)
	testkit.Equal(t, []string{"_id", "bytes", "end_date", "mark", "max", "measurements", "min", "n", "sensor_id", "squares", "start_date", "sum_temperature", "transaction_count"}, names)
	if end := doc.Lookup("end_date").Time(); !end.Equal(morning.Add(11*time.Hour-time.Millisecond)) || doc.Lookup("transaction_count").AsInt64() != 60 {
		t.Error(doc)
	}
	cur, err := coll.Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$match", Value: s.Filter(12345, morning.Add(15*time.Hour), morning.Add(16*time.Hour))}},
		{{Key: "$project", Value: bson.D{{Key: "mean", Value: bson.D{{Key: "$toDouble", Value: bson.D{{Key: "$divide", Value: bson.A{"$sum_temperature", "$transaction_count"}}}}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var means []struct{ Mean float64 }
	if err := cur.All(t.Context(), &means); err != nil || len(means) != 1 || means[0].Mean != 32.95 {
		t.Errorf("%v, %v", means, err)
	}
	stats, err := s.Aggregate(t.Context(), 12345, morning.Add(15*time.Hour), morning.Add(16*time.Hour))
	if err != nil || stats.Values["temperature"].Mean() != 32.95 {
		t.Errorf("%+v, %v", stats, err)
	}
	testkit.Healthy(t, s)
	testkit.Equal(t, map[string]bson.D{"sensors": {{Key: "sensor_id", Value: 1}, {Key: "start_date", Value: 1}}}, s.ShardKey())
}
