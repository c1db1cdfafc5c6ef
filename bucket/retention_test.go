package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
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

func count(t testing.TB, coll *mongo.Collection) int {
	t.Helper()
	n, err := coll.CountDocuments(t.Context(), bson.D{})
	must(t, err)
	return int(n)
}

// across are the measurements of an archive and of the collection at one moment.
func across(t testing.TB, coll *mongo.Collection, b, archived *bucket.Buckets[string, event]) (all []event) {
	t.Helper()
	session, err := coll.Database().Client().StartSession(options.Session().SetSnapshot(true))
	must(t, err)
	defer session.EndSession(t.Context())
	ctx := mongo.NewSessionContext(t.Context(), session)
	for _, part := range []*bucket.Buckets[string, event]{archived, b} {
		for e, err := range part.Range(ctx, "s", time.Time{}, time.Time{}) {
			if err != nil {
				t.Error(err)
				return nil
			}
			all = append(all, e)
		}
	}
	return all
}

func TestArchive(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := full()
	o.MaxCount = 3
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	reader := newBuckets[string, event](t, archive, timeseries.Every(time.Hour), func() *bucket.Options { o := *o; o.IDField = ""; return &o }())
	fillHours(t, b, "s", 6, 5) // 2 buckets an hour
	before := stored(t, coll)
	var progress []int64
	// 03:59: the window of 03:00 has not ended.
	result, err := b.Archive(t.Context(), at(3, 59, 0), archive, &mongopatterns.Work{
		BatchSize: 4, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) },
	})
	if err != nil || result.Done != 6 {
		t.Fatalf("%+v, %v", result, err)
	}
	diff(t, []int64{4, 6}, progress)
	diff(t, before[:6], stored(t, archive)) // moved as they were
	diff(t, before[6:], stored(t, coll))
	if again, err := b.Archive(t.Context(), at(3, 59, 0), archive, nil); err != nil || again.Done != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}

	// Late data starts the window anew and is archived beside the old.
	mustAppend(t, b, "s", event{ID: "late", Timestamp: at(1, 59, 0), V: 100})
	mustAppend(t, b, "s", event{ID: "late 2", Timestamp: at(1, 58, 0), V: 100})
	done(t, 4)(b.Archive(t.Context(), at(4, 0, 0), archive, nil)) // in two buckets: how full the old one was is not forgotten
	if got := collect(t, reader.Range(t.Context(), "s", at(1, 0, 0), at(2, 0, 0))); len(got) != 7 || got[6].ID != "late" || got[5].ID != "late 2" {
		t.Errorf("%v", got)
	}
	mustCheck(t, reader)
	mustCheck(t, b)
	if all := across(t, coll, b, reader); len(all) != 32 || all[12].ID != "2-0" {
		t.Errorf("%d in both: %v", len(all), all)
	}
	if _, err := b.Archive(t.Context(), day, coll, nil); err == nil {
		t.Error("archive into itself")
	}
	if _, err := b.Archive(t.Context(), day, nil, nil); err == nil {
		t.Error("archive into nothing")
	}
}

// Buckets that something else made, without a count, a number or a series.
func TestIncompleteBuckets(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
	measurements := bson.E{Key: "measurements", Value: bson.A{event{Timestamp: at(1, 0, 0), V: 1}}}
	series, start := bson.E{Key: "series", Value: "s"}, bson.E{Key: "start", Value: at(1, 0, 0)}
	insert := func() {
		t.Helper()
		must(t, second(coll.InsertMany(t.Context(), []any{
			bson.D{{Key: "_id", Value: 1}, series, start, measurements},
			bson.D{{Key: "_id", Value: bson.D{{Key: "n", Value: "x"}}}, series, start, measurements, {Key: "count", Value: 1}},
			bson.D{{Key: "_id", Value: bson.D{series, start, {Key: "n", Value: "x"}}}, series, start, measurements, {Key: "count", Value: 1}},
			bson.D{{Key: "_id", Value: 2}, start, {Key: "note", Value: 1}},
		})))
	}
	insert()
	cold, err := bucket.New[string, event](coll, timeseries.Every(time.Hour), &bucket.Options{MaxCount: 1})
	must(t, err)
	mustAppend(t, b, "s", event{Timestamp: at(1, 1, 0)})
	mustAppend(t, cold, "s", event{Timestamp: at(1, 2, 0)})
	diff(t, 5, len(collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))))
	done(t, 2)(b.Repair(t.Context(), nil))
	mustCheck(t, b)
	must(t, second(coll.DeleteMany(t.Context(), bson.D{})))
	for range 2 { // the second time all collide
		insert()
		done(t, 4)(b.Archive(t.Context(), at(2, 0, 0), archive, nil))
	}
	diff(t, 8, count(t, archive))
}

// While buckets move, an appender goes on and readers see every measurement
// exactly once.
func TestArchiveUnderLoad(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := full()
	o.MaxCount = 4
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	archived := newBuckets[string, event](t, archive, timeseries.Every(time.Hour), &bucket.Options{})
	const hours, each = 6, 8
	fillHours(t, b, "s", hours, each)
	const late = 20
	steps := make(chan int, late+hours) // a read for each, so that neither side starves the other
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for reads := range steps {
				seen := map[string]int{}
				for _, e := range across(t, coll, b, archived) {
					seen[e.ID]++
				}
				for h := range hours {
					for i := range each {
						if n := seen[fmt.Sprintf("%d-%d", h, i)]; n != 1 {
							t.Errorf("read %d saw %d-%d %d times", reads, h, i, n)
							return
						}
					}
				}
			}
		})
	}
	writers.Go(func() { // into windows that are being moved
		for i := range late {
			e := event{ID: fmt.Sprint("late ", i), Timestamp: at(i%hours, 30, i)}
			if _, err := b.Append(t.Context(), "s", e); err != nil {
				t.Error(err)
			}
			steps <- i
		}
	})
	writers.Go(func() {
		for h := range hours {
			steps <- h
			if _, err := b.Archive(t.Context(), at(h+1, 0, 0), archive, &mongopatterns.Work{BatchSize: 1}); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(steps)
	readers.Wait()
	if all := across(t, coll, b, archived); len(all) != hours*each+late {
		t.Errorf("%d at the end", len(all))
	}
	mustCheck(t, b)
}

func TestArchiveResumesAfterCancel(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	fillHours(t, b, "s", 6, 2)
	ctx, cancel := context.WithCancel(t.Context())
	result, err := b.Archive(ctx, at(23, 0, 0), archive, &mongopatterns.Work{BatchSize: 2, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Done != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	if count(t, coll) != 4 || count(t, archive) != 2 {
		t.Errorf("%d and %d", count(t, coll), count(t, archive))
	}
	done(t, 4)(b.Archive(t.Context(), at(23, 0, 0), archive, nil))
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	var docs []any
	for i := range 50 {
		var id any = i // several types of _id
		switch {
		case i >= 40:
			id = bson.NewObjectID()
		case i >= 20:
			id = fmt.Sprintf("id %02d", i)
		}
		docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "sensor_id", Value: i % 3},
			{Key: "timestamp", Value: at(i%4, i, 0)}, {Key: "temperature", Value: float64(i)}, {Key: "note", Value: "kept"}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	o := scenario()
	o.MaxCount = 3
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), o)
	// Stopped after the second and the fourth batch, then to the end.
	var adopted int64
	for stop := 2; adopted < 50 && stop < 10; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		batches := 0
		result, err := b.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 7, Progress: func(mongopatterns.Result) {
			if batches++; batches == stop {
				cancel()
			}
		}})
		cancel()
		adopted += result.Done
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	check := func(want int) {
		t.Helper()
		total := 0
		for series := range 3 {
			for _, m := range collect(t, b.Range(t.Context(), series, time.Time{}, time.Time{})) {
				total++
				if len(m) != 3 || m[0].Key != "timestamp" || m[2].Value != "kept" || int(m[1].Value.(float64))%3 != series {
					t.Errorf("series %d: %v", series, m)
				}
			}
		}
		if total != want {
			t.Errorf("%d measurements, want %d", total, want)
		}
		mustCheck(t, b)
	}
	check(50)
	// Once more adopts nothing but what is new.
	must(t, second(src.InsertOne(t.Context(), docs[0].(bson.D)[1:])))
	for _, want := range []int64{1, 0} {
		done(t, want)(b.Adopt(t.Context(), src, nil, nil))
	}
	check(51)

	// A document that does not fit is named and passed over.
	must(t, second(src.InsertOne(t.Context(), bson.D{{Key: "sensor_id", Value: 1}})))
	result, err := b.Adopt(t.Context(), src, nil, nil)
	if err != nil || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	// With a filter only what was not adopted.
	result, err = b.Adopt(t.Context(), src, func(doc bson.Raw) (int, bson.D, error) {
		return 9, bson.D{{Key: "timestamp", Value: at(20, 0, 0)}, {Key: "temperature", Value: 1}}, nil
	}, &mongopatterns.Work{Filter: bson.D{{Key: "sensor_id", Value: 1}}})
	if err != nil || result.Done != 1 || result.Skipped != 17 { // 1, 4, …, 49 and the last
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, 1, len(collect(t, b.Range(t.Context(), 9, time.Time{}, time.Time{}))))
}

// Without a conversion nothing is made up for what a document has not.
func TestAdoptIncomplete(t *testing.T) {
	t.Parallel()
	type measurement struct {
		ID        string    `bson:"id"`
		Timestamp time.Time `bson:"timestamp"`
		V         float64   `bson:"v"`
	}
	o := full()
	o.Values[0].Count = ""
	for missing, doc := range map[string]bson.D{
		"timestamp":        {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "v", Value: 1.0}},
		"no time":          {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "v", Value: 1.0}, {Key: "timestamp", Value: time.Time{}}},
		"number":           {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}},
		"finite":           {{Key: "series", Value: "s"}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: nil}},
		"no ID":            {{Key: "series", Value: "s"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
		`no series in "se`: {{Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
		"null":             {{Key: "series", Value: nil}, {Key: "id", Value: "1"}, {Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: 1.0}},
	} {
		db := mongotest.Database(t)
		b := newBuckets[string, measurement](t, db.Collection("c"), timeseries.Every(time.Hour), o)
		must(t, second(db.Collection("src").InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: "culprit"}}, doc...))))
		result, err := b.Adopt(t.Context(), db.Collection("src"), nil, nil)
		if err != nil || result.Failed != 1 || result.Failures[0].ID.StringValue() != "culprit" || !strings.Contains(result.Failures[0].Err.Error(), missing) {
			t.Errorf("%s: %+v, %v", missing, result, err)
		}
		if n := count(t, db.Collection("c")); n != 0 {
			t.Errorf("%s: %d buckets", missing, n)
		}
	}
}

func TestAdoptTwiceAtOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	var docs []any
	for i := range 60 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "series", Value: 1}, {Key: "timestamp", Value: at(i%4, i, 0)}})
	}
	must(t, second(src.InsertMany(t.Context(), docs)))
	var wait sync.WaitGroup
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	for range 2 {
		wait.Go(func() {
			if _, err := b.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 5}); err != nil && !errors.Is(err, bucket.ErrConcurrentAdopt) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if _, err := b.Adopt(t.Context(), src, nil, nil); err != nil {
		t.Error(err)
	}
	diff(t, 60, len(collect(t, b.Range(t.Context(), 1, time.Time{}, time.Time{}))))
	mustCheck(t, b)
}

// With IDs what was appended before is not adopted again.
func TestAdoptKnownIDs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("readings"), db.Collection("c")
	o := &bucket.Options{IDField: "_id", MaxCount: 4}
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	for i := range 10 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "timestamp", Value: at(1, i, 0)}}
		if i < 6 {
			mustAppend(t, b, "s", doc)
		}
		must(t, second(src.InsertOne(t.Context(), append(doc, bson.E{Key: "series", Value: "s"}))))
	}
	result, err := b.Adopt(t.Context(), src, nil, nil)
	if err != nil || result.Done != 4 || result.Skipped != 6 {
		t.Errorf("%+v, %v", result, err)
	}
	mustCheck(t, b)
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
	for _, p := range collect(t, b.Check(t.Context(), nil)) {
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
	diff(t, map[mongopatterns.ProblemKind]int{bucket.WrongAggregate: 22, bucket.OutsideWindow: 1, bucket.BadStart: 1, bucket.DuplicateID: 1}, kinds)

	var progress []int64
	result, err := b.Repair(t.Context(), &mongopatterns.Work{BatchSize: 3, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) }})
	if err != nil || !cmp.Equal(result, mongopatterns.Result{Examined: 5, Done: 4, Remaining: 3}) {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, []int64{3, 4}, progress)
	left := map[mongopatterns.ProblemKind]int{}
	for _, p := range collect(t, b.Check(t.Context(), nil)) {
		left[p.Kind]++
	}
	diff(t, map[mongopatterns.ProblemKind]int{bucket.OutsideWindow: 1, bucket.BadStart: 1, bucket.DuplicateID: 1}, left)
	for range b.Check(t.Context(), nil) {
		break // closes the cursor
	}
}

// A measurement that no range selects is found, whatever is in place of its time.
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
	problems := collect(t, b.Check(t.Context(), nil))
	for _, p := range problems {
		if p.Kind != bucket.OutsideWindow || p.Field != "measurements.timestamp" {
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
	diff(t, 1, len(collect(t, b.Check(t.Context(), nil))))
}

// Repair beside appends loses and repeats none of them.
func TestRepairUnderLoad(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.MaxCount = 30
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, b, "s", event{ID: "first", Timestamp: at(1, 0, 0), V: 1})
	steps := make(chan int, 60) // a Repair for each, so that neither side starves the other
	var wait sync.WaitGroup
	wait.Go(func() {
		defer close(steps)
		for i := range 60 {
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
	if err != nil || stats.Count != 61 || stats.Values["v"].Sum.Float64() != 61 {
		t.Errorf("%+v, %v", stats, err)
	}
}
