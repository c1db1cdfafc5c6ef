package bucket_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// model has the measurements that a series should hold, by ID.
type model map[string]event

func (m model) between(from, to time.Time) []event {
	var out []event
	for _, e := range m {
		if (from.IsZero() || !e.Timestamp.Before(from)) && (to.IsZero() || e.Timestamp.Before(to)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b event) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// compareStats checks aggregates of a range against the measurements in it.
func compareStats(t *testing.T, what string, want []event, got timeseries.Stats) {
	t.Helper()
	v := got.Values["v"]
	if got.Count != int64(len(want)) || v.Count != got.Count {
		t.Fatalf("%s: count %d, %d; want %d", what, got.Count, v.Count, len(want))
	}
	if len(want) == 0 {
		if !v.Min.IsZero() || !v.First.Value.IsZero() {
			t.Fatalf("%s: of nothing: %+v", what, v)
		}
		return
	}
	var sum, squares float64
	low, high := math.Inf(1), math.Inf(-1)
	sample := func(a, b event) int { return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.V, b.V)) }
	for _, e := range want {
		sum += e.V
		squares += e.V * e.V
		low, high = min(low, e.V), max(high, e.V)
	}
	first, last := slices.MinFunc(want, sample), slices.MaxFunc(want, sample)
	wants := fmt.Sprint(sum, squares, low, high, first.Timestamp, first.V, last.Timestamp, last.V)
	gots := fmt.Sprint(v.Sum.Float64(), v.Squares.Float64(), v.Min, v.Max, v.First.Time, v.First.Value, v.Last.Time, v.Last.Value)
	if wants != gots {
		t.Fatalf("%s:\ngot  %s\nwant %s", what, gots, wants)
	}
}

// Random appends, late ones, repeated ones, bulk, edits and deletes, against a
// model in memory.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bucket.Options){
		"ids":      func(*bucket.Options) {},
		"by time":  func(o *bucket.Options) { o.IDField = "" },
		"by bytes": func(o *bucket.Options) { o.MaxCount = 100; o.MaxBytes = 250 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := full()
			o.MaxCount = 5
			change(o)
			coll := mongotest.Database(t).Collection("c")
			b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
			random := rand.New(rand.NewPCG(6+scale.Seed(), uint64(len(name))))
			done := map[string]int{}
			models := map[string]model{"x": {}, "y": {}}
			used := map[int64]bool{}
			next := 0
			fresh := func() event {
				next++
				ms := random.Int64N(6 * 3600 * 1000)
				if o.IDField != "" && next%4 == 0 {
					ms -= ms % (20 * 60 * 1000) // several in one millisecond
				}
				for o.IDField == "" && used[ms] {
					ms++
				}
				used[ms] = true
				return event{ID: fmt.Sprint("$e", next), Timestamp: day.Add(time.Duration(ms) * time.Millisecond),
					V: float64(random.IntN(400)-200) / 4}
			}
			pick := func(m model) (event, bool) {
				if len(m) == 0 {
					return event{}, false
				}
				keys := slices.Sorted(maps.Keys(m))
				return m[keys[random.IntN(len(keys))]], true
			}
			for step := range scale.Of(80, 200, 5000) {
				series := []string{"x", "y"}[random.IntN(2)]
				m := models[series]
				old, any := pick(m)
				switch n := random.IntN(20); {
				case n < 8:
					done["append"]++
					e := fresh()
					mustAppend(t, b, series, e)
					m[e.ID] = e
				case n < 11:
					done["bulk"]++
					var seq []event
					to := map[string]string{}
					for range random.IntN(12) {
						e := fresh()
						seq = append(seq, e)
						to[e.ID] = []string{"x", "y"}[random.IntN(2)]
						models[to[e.ID]][e.ID] = e
					}
					repeated := 0
					if o.IDField != "" && any && len(seq) > 0 {
						seq = append(seq, old, seq[0])
						to[old.ID] = series
						repeated = 2
					}
					result, err := b.AppendMany(t.Context(), func(yield func(string, event) bool) {
						for _, e := range seq {
							if !yield(to[e.ID], e) {
								return
							}
						}
					}, &mongopatterns.Work{BatchSize: 7})
					if err != nil || result.Done != int64(len(seq)-repeated) || result.Skipped != int64(repeated) {
						t.Fatalf("step %d: %+v, %v", step, result, err)
					}
				case n < 14 && any:
					done["replace"]++
					e := old
					e.V, e.Note = float64(random.IntN(80))/4, "$v" // not the field
					if o.IDField != "" && random.IntN(2) == 0 {    // elsewhere in its window
						e.Timestamp = e.Timestamp.Truncate(time.Hour).Add(time.Duration(random.IntN(3600)) * time.Second)
					}
					if err := b.Replace(t.Context(), series, e); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					m[e.ID] = e
				case n < 18 && any:
					done["delete"]++
					var err error
					if o.IDField != "" {
						err = b.DeleteByID(t.Context(), series, old.Timestamp, old.ID)
					} else {
						err = b.Delete(t.Context(), series, old.Timestamp)
					}
					if err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					delete(m, old.ID)
				case any && o.IDField != "":
					done["repeat"]++
					if got, err := b.Append(t.Context(), series, old); err != nil || got {
						t.Fatalf("step %d: repeated: %+v, %v", step, got, err)
					}
				}
				if step%5 != 0 {
					continue
				}
				from := day.Add(time.Duration(random.IntN(6*3600)) * time.Second)
				to := from.Add(time.Duration(random.IntN(4*3600)) * time.Second)
				switch step / 5 % 6 { // the other two keep both
				case 0:
					from = time.Time{}
				case 1:
					to = time.Time{}
				case 2:
					from, to = from.Truncate(time.Hour), to.Truncate(time.Hour)
				case 3:
					from, to = from.Add(time.Nanosecond), to.Add(time.Nanosecond)
				}
				what := fmt.Sprintf("step %d: %s from %v to %v", step, series, from, to)
				want := m.between(from, to)
				got := testkit.Collect(t, b.Range(t.Context(), series, from, to))
				if !slices.IsSortedFunc(got, func(a, b event) int { return a.Timestamp.Compare(b.Timestamp) }) {
					t.Fatalf("%s: not in order: %v", what, got)
				}
				compareEvents(t, what, want, got)
				stats, err := b.Aggregate(t.Context(), series, from, to)
				must(t, err)
				compareStats(t, what, want, stats)
				windows := map[time.Time][]event{}
				for _, e := range want {
					w := e.Timestamp.Truncate(time.Hour)
					windows[w] = append(windows[w], e)
				}
				for _, w := range testkit.Collect(t, b.AggregateWindows(t.Context(), series, from, to)) {
					compareStats(t, what, windows[w.Start], w.Stats)
					delete(windows, w.Start)
				}
				if len(windows) != 0 {
					t.Fatalf("%s: windows without aggregates: %v", what, windows)
				}
				latest, err := b.Latest(t.Context(), series)
				if all := m.between(time.Time{}, time.Time{}); len(all) == 0 {
					if !errors.Is(err, mongopatterns.ErrNotFound) {
						t.Fatalf("%s: latest: %v", what, err)
					}
				} else if err != nil || !latest.Timestamp.Equal(all[len(all)-1].Timestamp) {
					t.Fatalf("%s: latest: %v, %v", what, latest, err)
				}
			}
			for _, kind := range []string{"append", "bulk", "replace", "delete", "repeat"} {
				if done[kind] == 0 && (kind != "repeat" || o.IDField != "") {
					t.Errorf("no %s", kind)
				}
			}
			mustCheck(t, b)
			for _, doc := range testkit.Stored[bson.M](t, coll) {
				if n := doc["count"].(int32); n > int32(o.MaxCount) || int(n) != len(doc["measurements"].(bson.A)) {
					t.Errorf("bucket %v holds %d", doc["_id"], n)
				}
				if size := asInt(doc["bytes"]); o.MaxBytes > 0 && size > o.MaxBytes+40 { // an edit may exceed it
					t.Errorf("bucket %v has %d bytes", doc["_id"], size)
				}
			}
		})
	}
}

func compareEvents(t *testing.T, what string, want, got []event) {
	t.Helper()
	got = slices.Clone(got)
	slices.SortFunc(got, func(a, b event) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.ID, b.ID))
	})
	if len(want) != len(got) {
		t.Fatalf("%s: %d measurements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", what, got[i], want[i])
		}
	}
}

func aggregate[T any](t testing.TB, coll *mongo.Collection, pipeline mongo.Pipeline) []T {
	t.Helper()
	cursor, err := coll.Aggregate(t.Context(), pipeline)
	must(t, err)
	var out []T
	must(t, cursor.All(t.Context(), &out))
	return out
}

// 16 writers × 25 appends into one series, 50 to a bucket, each writer with a
// helper of its own as if it were another process, or all with one.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		for _, ids := range []bool{false, true} {
			t.Run(fmt.Sprintf("shared %v, ids %v", shared, ids), func(t *testing.T) {
				t.Parallel()
				coll := mongotest.Database(t).Collection("c")
				o := full()
				o.MaxCount = 50
				if !ids {
					o.IDField = ""
				}
				one := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
				writers, each := scale.Of(8, 16, 16), scale.Of(25, 100, 1000)
				var wait sync.WaitGroup
				for w := range writers {
					b := one
					if !shared {
						b = newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
					}
					wait.Go(func() {
						for i := range each {
							e := event{ID: fmt.Sprintf("%d-%d", w, i), V: float64(w*each + i),
								Timestamp: at(8, 0, 0).Add(time.Duration(w*each+i) * time.Millisecond)}
							for range 1 + i%2*b2i(ids) { // every other one twice
								if _, err := b.Append(t.Context(), "s", e); err != nil {
									t.Errorf("append: %v", err)
									return
								}
							}
						}
					})
				}
				wait.Wait()
				got := testkit.Collect(t, one.Range(t.Context(), "s", time.Time{}, time.Time{}))
				if len(got) != writers*each {
					t.Fatalf("%d measurements", len(got))
				}
				for i, e := range got {
					if e.V != float64(i) {
						t.Fatalf("measurement %d is %+v", i, e)
					}
				}
				stats, err := one.Aggregate(t.Context(), "s", at(8, 0, 0), at(9, 0, 0))
				must(t, err)
				compareStats(t, "all", got, stats)
				if n := len(testkit.Stored[bson.M](t, coll)); n != writers*each/50 {
					t.Errorf("%d buckets", n)
				}
				mustCheck(t, one)
			})
		}
	}
}

func asInt(n any) int {
	if n, ok := n.(int32); ok {
		return int(n)
	}
	return int(n.(int64))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Writers in bulk, singly and with edits at once keep every aggregate right.
func TestConcurrentBulkAndEdits(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 20
	make := func() *bucket.Buckets[string, event] {
		return newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	}
	var mu sync.Mutex
	want := model{}
	var wait sync.WaitGroup
	for w := range 6 {
		wait.Go(func() {
			b := make()
			random := rand.New(rand.NewPCG(uint64(w), 9))
			for round := range 8 {
				var batch []event
				for i := range 9 {
					batch = append(batch, event{ID: fmt.Sprintf("%d-%d-%d", w, round, i), V: float64(random.IntN(100)),
						Timestamp: at(random.IntN(2), random.IntN(60), random.IntN(60))})
				}
				if result, err := b.AppendMany(t.Context(), timeseries.Of("s", batch...), nil); err != nil || result.Done != 9 {
					t.Errorf("%+v, %v", result, err)
					return
				}
				edited := batch[0]
				edited.V = -5
				if err := b.Replace(t.Context(), "s", edited); err != nil {
					t.Error(err)
				}
				if err := b.DeleteByID(t.Context(), "s", batch[1].Timestamp, batch[1].ID); err != nil {
					t.Error(err)
				}
				mu.Lock()
				want[edited.ID] = edited
				for _, e := range batch[2:] {
					want[e.ID] = e
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	b := make()
	all := want.between(time.Time{}, time.Time{})
	compareEvents(t, "all", all, testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	must(t, err)
	compareStats(t, "all", all, stats)
	mustCheck(t, b)
}
