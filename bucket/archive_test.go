package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := full()
	o.MaxCount = 3
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	reader := newBuckets[string, event](t, archive, timeseries.Every(time.Hour), func() *bucket.Options { o := *o; o.IDField = ""; return &o }())
	fillHours(t, b, "s", 6, 5) // 2 buckets an hour
	before := testkit.Stored[bson.M](t, coll)
	var progress []int64
	// 03:59: the window of 03:00 has not ended.
	result, err := b.Archive(t.Context(), at(3, 59, 0), archive, &mongopatterns.Work{
		BatchSize: 4, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) },
	})
	if err != nil || result.Done != 6 {
		t.Fatalf("%+v, %v", result, err)
	}
	diff(t, []int64{4, 6}, progress)
	diff(t, before[:6], testkit.Stored[bson.M](t, archive)) // moved as they were
	diff(t, before[6:], testkit.Stored[bson.M](t, coll))
	if again, err := b.Archive(t.Context(), at(3, 59, 0), archive, nil); err != nil || again.Done != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}

	// Late data starts the window again and is archived beside the old data.
	mustAppend(t, b, "s", event{ID: "late", Timestamp: at(1, 59, 0), V: 100})
	mustAppend(t, b, "s", event{ID: "late 2", Timestamp: at(1, 58, 0), V: 100})
	testkit.Done(t, 4)(b.Archive(t.Context(), at(4, 0, 0), archive, nil)) // in two buckets: how full the old one was is not forgotten
	if got := testkit.Collect(t, reader.Range(t.Context(), "s", at(1, 0, 0), at(2, 0, 0))); len(got) != 7 || got[6].ID != "late" || got[5].ID != "late 2" {
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
	if testkit.Count(t, coll, bson.D{}) != 4 || testkit.Count(t, archive, bson.D{}) != 2 {
		t.Errorf("%d and %d", testkit.Count(t, coll, bson.D{}), testkit.Count(t, archive, bson.D{}))
	}
	testkit.Done(t, 4)(b.Archive(t.Context(), at(23, 0, 0), archive, nil))
}

// Archive bounds its batches by the bytes of the documents.
func TestArchiveByBytes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	newBuckets[string, event](t, db.Collection("archive"), timeseries.Every(time.Hour), nil)
	for h := range 10 {
		mustAppend(t, b, "s", event{Timestamp: at(h, 0, 0), Note: strings.Repeat("x", 1<<20)})
	}
	var steps []int64
	result, err := b.Archive(t.Context(), at(24, 0, 0), db.Collection("archive"), &mongopatterns.Work{BatchBytes: 4 << 20, Progress: func(r mongopatterns.Result) {
		steps = append(steps, r.Done)
	}})
	if err != nil || result.Done != 10 {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, []int64{3, 6, 9, 10}, steps)
}

// across reads the measurements of an archive and of the collection at one moment.
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

// A measurement that is sent again after its window was archived is not in the archive twice.
func TestArchiveHoldsAnIDOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := full()
	o.MaxCount = 2
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	old := newBuckets[string, event](t, archive, timeseries.Every(time.Hour), o)
	for i, all := range [][]string{{"a", "b", "c"}, {"a", "c", "d"}, {"d"}, {"e"}} {
		for _, series := range []string{"s", "t"} {
			for _, id := range all {
				mustAppend(t, b, series, event{ID: id, Timestamp: at(1, int(id[0]-'a'), 0), V: 10})
			}
		}
		_, err := b.Archive(t.Context(), at(2, 0, 0), archive, nil)
		must(t, err)
		mustCheck(t, old)
		diff(t, 0, testkit.Count(t, coll, bson.D{}))
		stats, err := old.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
		must(t, err)
		want := int64([]int{3, 4, 4, 5}[i])
		if stats.Count != want || stats.Values["v"].Sum.Float64() != float64(10*want) {
			t.Errorf("%d: %+v", i, stats)
		}
		diff(t, int(want), len(testkit.Collect(t, old.Range(t.Context(), "t", at(1, 0, 0), at(2, 0, 0)))))
	}
}

// Check names the buckets of a window that share an ID, which EnsureIndexes refuses. Two without an ID are equal, too.
func TestIDsOfTwoBuckets(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	b, err := bucket.New[string, bson.D](coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id"})
	must(t, err)
	bucketOf := func(id, hour int, ids ...any) bson.D {
		all := bson.A{}
		for _, id := range ids {
			all = append(all, bson.D{{Key: "id", Value: id}, {Key: "timestamp", Value: at(hour, 0, 0)}})
		}
		return bson.D{{Key: "_id", Value: id}, {Key: "series", Value: "s"}, {Key: "start", Value: at(hour, 0, 0)}, {Key: "measurements", Value: all}, {Key: "count", Value: len(all)}}
	}
	testkit.Insert(t, coll, bucketOf(1, 1, "x", "y", nil), bucketOf(2, 1, "x", "z", nil), bucketOf(3, 2, "x"))
	testkit.Is(t, b.EnsureIndexes(t.Context()), mongopatterns.ErrMalformed)
	got := map[string]string{}
	for _, p := range testkit.Collect(t, b.Check(t.Context(), nil)) {
		got[p.Have.String()] = fmt.Sprint(p.Kind, p.Field, p.ID, p.Detail)
	}
	want := `duplicatemeasurements.id{"$numberInt":"2"}2 documents of the window have it, also _id 1`
	diff(t, map[string]string{`"x"`: want, `null`: want}, got)
	must(t, second(coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 2}})))
	must(t, b.EnsureIndexes(t.Context()))
	mustCheck(t, b)
}
