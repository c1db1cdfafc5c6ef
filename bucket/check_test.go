package bucket_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func fillHours(t testing.TB, b *bucket.Buckets[string, event], series string, hours, each int) {
	t.Helper()
	var batch []event
	for h := range hours {
		for i := range each {
			batch = append(batch, event{ID: fmt.Sprintf("%d-%d", h, i), Timestamp: at(h, i, 0), V: float64(h*each + i)})
		}
	}
	must(t, second(b.AppendMany(t.Context(), timeseries.Of(series, batch...), nil)))
}

func TestCheckAndRepair(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 5
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	fillHours(t, b, "s", 4, 4)
	mustCheck(t, b)
	hour := func(h int) bson.D { return bson.D{{Key: "start", Value: at(h, 0, 0)}} }
	damage := func(h int, update bson.D) {
		t.Helper()
		if r, err := coll.UpdateOne(t.Context(), hour(h), update); err != nil || r.ModifiedCount != 1 {
			t.Fatal(r, err)
		}
	}
	damage(0, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 9}, {Key: "end", Value: day}, {Key: "bytes", Value: 1}}}})
	damage(1, bson.D{{Key: "$unset", Value: bson.D{{Key: "agg", Value: ""}}}})
	damage(2, bson.D{{Key: "$set", Value: bson.D{{Key: "agg.sum", Value: nan()}, {Key: "agg.max", Value: 1e9}, {Key: "agg.n", Value: 5},
		{Key: "agg.first.value", Value: -7.0}, {Key: "agg.squares", Value: 1.0}}}})
	damage(3, bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: bson.D{
		{Key: "$each", Value: bson.A{event{ID: "3-0", Timestamp: at(5, 0, 0), V: 1}}}}}}}})
	must(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: at(7, 30, 0)}, {Key: "measurements", Value: bson.A{}},
		{Key: "count", Value: 0}, {Key: "bytes", Value: 0}, {Key: "agg", Value: bson.D{{Key: "sum", Value: 0}, {Key: "squares", Value: 0}, {Key: "n", Value: 0}}}})))
	hours := map[string]int{}
	for _, doc := range aggregate[bson.Raw](t, coll, mongo.Pipeline{}) {
		hours[doc.Lookup("_id").String()] = doc.Lookup("start").Time().UTC().Hour()
	}
	problems := map[string]int{}
	kinds := map[mongopatterns.ProblemKind]int{}
	for _, p := range testkit.Collect(t, b.Check(t.Context(), nil)) {
		kinds[p.Kind]++
		problems[fmt.Sprintf("%d %s", hours[p.ID.String()], p.Field)]++
	}
	want := map[string]int{
		"0 count": 1, "0 end": 1, "0 bytes": 1,
		"1 agg.sum": 1, "1 agg.min": 1, "1 agg.max": 1, "1 agg.first": 1, "1 agg.last": 1, "1 agg.squares": 1, "1 agg.n": 1,
		"2 agg.sum": 1, "2 agg.max": 1, "2 agg.n": 1, "2 agg.first": 1, "2 agg.squares": 1,
		"3 count": 1, "3 bytes": 1, "3 agg.sum": 1, "3 agg.min": 1, "3 agg.last": 1, "3 agg.squares": 1, "3 agg.n": 1,
		"3 measurements.id": 1, "3 measurements.timestamp": 1,
		"7 start": 1,
	}
	diff(t, want, problems)
	diff(t, map[mongopatterns.ProblemKind]int{mongopatterns.WrongField: 22, mongopatterns.OutsideWindow: 1, mongopatterns.Malformed: 1, mongopatterns.Duplicate: 1}, kinds)

	var progress []int64
	result, err := b.Repair(t.Context(), &mongopatterns.Work{BatchSize: 3, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) }})
	if err != nil || !cmp.Equal(result, mongopatterns.Result{Examined: 5, Done: 4, Remaining: 3}) {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, []int64{3, 4}, progress)
	left := map[mongopatterns.ProblemKind]int{}
	for _, p := range testkit.Collect(t, b.Check(t.Context(), nil)) {
		left[p.Kind]++
	}
	diff(t, map[mongopatterns.ProblemKind]int{mongopatterns.OutsideWindow: 1, mongopatterns.Malformed: 1, mongopatterns.Duplicate: 1}, left)
	for range b.Check(t.Context(), nil) {
		break // closes the cursor
	}
}

// Check finds a measurement that no range selects, whatever it has in place of a time.
func TestCheckTimes(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	good := bson.D{{Key: "timestamp", Value: at(1, 0, 0)}}
	for i, bad := range []any{
		bson.D{{Key: "v", Value: 1}}, bson.D{{Key: "timestamp", Value: "noon"}}, bson.D{{Key: "timestamp", Value: nil}}, 5,
	} {
		must(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "series", Value: "s"}, {Key: "start", Value: at(1, 0, 0)},
			{Key: "count", Value: 2}, {Key: "measurements", Value: bson.A{good, bad}}})))
	}
	problems := testkit.Collect(t, b.Check(t.Context(), nil))
	for _, p := range problems {
		if p.Kind != mongopatterns.OutsideWindow || p.Field != "measurements.timestamp" {
			t.Errorf("%v", p)
		}
	}
	if len(problems) != 4 {
		t.Errorf("%v", problems)
	}
}

// Sums of doubles that were added in another order are no problem, a wrong
// digit is.
func TestCheckRounding(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.Values[0].Squares = ""
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	for i, order := range [][]float64{{1e16, 0, 1, 1, -1e16}, {0, 1e16, 1, -1e16, 1}, {1, 1, 1e16, -1e16, 0}} {
		var events []event
		for j, v := range order {
			events = append(events, event{ID: fmt.Sprint(j), Timestamp: at(0, j, 0), V: v})
		}
		for size := range 5 { // added up in parts here, one by one by Check
			for part := range slices.Chunk(events, size+1) {
				must(t, second(b.AppendMany(t.Context(), timeseries.Of(fmt.Sprint(i, size), part...), nil)))
			}
		}
	}
	var sums []float64
	must(t, coll.Distinct(t.Context(), "agg.sum", bson.D{}).Decode(&sums))
	if len(sums) < 2 {
		t.Fatal("all orders give ", sums)
	}
	mustCheck(t, b)
	must(t, second(coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "agg.sum", Value: 1000.0}}}})))
	diff(t, 1, len(testkit.Collect(t, b.Check(t.Context(), nil))))
}

// Repair beside appends loses and repeats none of them.
func TestRepairUnderLoad(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 30
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, b, "s", event{ID: "first", Timestamp: at(1, 0, 0), V: 1})
	rounds := scale.Of(10, 60, 1000)
	steps := make(chan int, rounds) // a Repair for each, so that neither side starves the other
	var wait sync.WaitGroup
	wait.Go(func() {
		defer close(steps)
		for i := range rounds {
			steps <- i
			if _, err := b.Append(t.Context(), "s", event{ID: fmt.Sprint(i), Timestamp: at(1, 1, i), V: 1}); err != nil {
				t.Error(err)
			}
		}
	})
	for range steps {
		_, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "agg.sum", Value: 1e6}}}})
		if err == nil {
			_, err = b.Repair(t.Context(), nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
	mustCheck(t, b)
	stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	if err != nil || stats.Count != int64(rounds)+1 || stats.Values["v"].Sum.Float64() != float64(rounds)+1 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Measurements that were appended before there was an IDField have no ID and are no duplicates of each other. An ID
// beside them that comes twice is one.
func TestMeasurementsWithoutAnID(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.IDField = ""
	before := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	reading := func(minute int, more ...bson.E) bson.D {
		return append(bson.D{{Key: "timestamp", Value: at(1, minute, 0)}, {Key: "v", Value: 1.0}}, more...)
	}
	id := bson.E{Key: "id", Value: "a"}
	appendAll := func(all ...bson.D) {
		t.Helper()
		must(t, second(before.AppendMany(t.Context(), timeseries.Of("s", all...), nil)))
	}
	appendAll(reading(0), reading(1), reading(2, id), reading(3, bson.E{Key: "id"}))
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	mustCheck(t, b)
	if result, err := b.Repair(t.Context(), nil); err != nil || result.Remaining > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	appendAll(reading(4, id))
	if found := testkit.Collect(t, b.Check(t.Context(), nil)); len(found) != 1 || found[0].Kind != mongopatterns.Duplicate {
		t.Error(found)
	}
}

// Work.Filter may be a map; DryRun writes nothing.
func TestWork(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("src"), db.Collection("c")
	for i := range 6 {
		must(t, second(src.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "series", Value: i % 2}, {Key: "room", Value: 1}, {Key: "timestamp", Value: at(1, i, 0)}})))
	}
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	for i, want := range []int64{3, 3, 0, 0, 0} {
		w := &mongopatterns.Work{Filter: bson.M{"series": 0, "room": 1}, DryRun: i == 0}
		if result, err := b.Adopt(t.Context(), src, nil, w); err != nil || result.Done != want {
			t.Errorf("%d: %+v, %v", i, result, err)
		}
	}
	testkit.Done(t, 3)(b.Adopt(t.Context(), src, nil, &mongopatterns.Work{Filter: bson.D{{Key: "series", Value: 1}}}))
	dry := &mongopatterns.Work{DryRun: true}
	testkit.Done(t, 1)(b.AppendMany(t.Context(), timeseries.Of(5, bson.D{{Key: "timestamp", Value: day}}), dry))
	if result, err := b.Archive(t.Context(), at(24, 0, 0), db.Collection("archive"), dry); err != nil || result.Done != 2 || testkit.Count(t, coll, bson.D{}) != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	must(t, second(coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 9}}}})))
	one := bson.D{{Key: "series", Value: 1}}
	testkit.Done(t, 1)(b.Repair(t.Context(), &mongopatterns.Work{Filter: one, DryRun: true}))
	testkit.Done(t, 1)(b.Repair(t.Context(), &mongopatterns.Work{Filter: one}))
	diff(t, 1, len(testkit.Collect(t, b.Check(t.Context(), nil))))
}
