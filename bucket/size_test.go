package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Measurements of 200 KB fill buckets that take 1,000 of them by their count: a bucket
// that would be too large is full, to every writer, in a transaction as well.
func TestLargeMeasurements(t *testing.T) {
	coll := fresh(t)
	var events []event
	for i := range 110 {
		events = append(events, event{ID: fmt.Sprint(i), Timestamp: at(1, 0, i), Note: strings.Repeat("x", 200_000), V: 1})
	}
	open := func() *bucket.Buckets[string, event] {
		return newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id"})
	}
	b := open()
	if result, err := b.AppendMany(t.Context(), timeseries.Of("s", events[:90]...), nil); err != nil || result.Done != 90 {
		t.Fatalf("%+v, %v", result, err)
	}
	// Bring each bucket to its limit, behind the writers' backs.
	for _, doc := range aggregate[bson.Raw](t, coll, mongo.Pipeline{}) {
		pad := bson.D{{Key: "$set", Value: bson.D{{Key: "pad", Value: strings.Repeat("x", 16<<20-300_000-len(doc))}}}}
		must(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: doc.Lookup("_id")}}, pad)))
	}
	before := testkit.Count(t, coll, bson.D{})
	for i := 90; i < 92; i++ { // bucket 0 takes one more and is full then
		if got, err := open().Append(t.Context(), "s", events[i]); err != nil || !got {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	again := open()
	err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
		_, err := again.AppendMany(ctx, timeseries.Of("s", events[92:100]...), nil)
		return err
	})
	must(t, err)
	if result, err := open().AppendMany(t.Context(), timeseries.Of("s", events...), nil); err != nil || result.Done != 10 || result.Skipped != 100 {
		t.Errorf("%+v, %v", result, err)
	}
	if n := testkit.Count(t, coll, bson.D{}); n <= before {
		t.Errorf("%d buckets after %d", n, before)
	}
	if got := len(testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))); got != 110 {
		t.Errorf("%d measurements", got)
	}
	mustCheck(t, b)
	huge := event{ID: "huge", Timestamp: at(1, 0, 0), Note: strings.Repeat("x", 16<<20)}
	testkit.Is(t, second(b.Append(t.Context(), "s", huge)), mongopatterns.ErrInvalid)
}

// A bucket keeps to MaxBytes, whoever else has filled it since this helper knew its size.
func TestMaxBytesBesideOthers(t *testing.T) {
	coll := fresh(t)
	measured := event{Timestamp: at(1, 0, 0), Note: strings.Repeat("x", 300)}
	o := &bucket.Options{MaxBytes: 4 * len(testkit.Raw(t, measured))}
	one, other := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o), newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
	mustAppend(t, one, "s", measured)
	mustAppend(t, other, "s", measured, measured, measured)
	mustAppend(t, one, "s", measured)
	for _, doc := range aggregate[bson.Raw](t, coll, mongo.Pipeline{}) {
		if bytes := doc.Lookup("bytes").AsInt64(); bytes > int64(o.MaxBytes) {
			t.Errorf("%d bytes of %d", bytes, o.MaxBytes)
		}
	}
	mustCheck(t, one)
}

// Metadata counts towards the size of an update. A measurement that does not fit a document together with
// it is refused, and others are stored.
func TestLargeMetadata(t *testing.T) {
	coll := fresh(t)
	size := map[string]int{"large": 9 << 20, "huge": 16 << 20}
	for _, o := range []*bucket.Options{{}, {MaxBytes: 15 << 20}} {
		o.Metadata = func(series any, _ time.Time) bson.D {
			return bson.D{{Key: "pad", Value: strings.Repeat("x", size[series.(string)])}}
		}
		must(t, second(coll.DeleteMany(t.Context(), bson.D{})))
		b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
		many := func(yield func(string, event) bool) {
			_ = yield("small", event{Timestamp: day})
			for i := range 45 {
				if !yield("large", event{Timestamp: at(1, 0, i), Note: strings.Repeat("x", 200_000)}) {
					return
				}
			}
			_ = yield("huge", event{Timestamp: day})
		}
		result, err := b.AppendMany(t.Context(), many, &mongopatterns.Work{BatchBytes: 20 << 20})
		if !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 46 || result.Failed != 1 || result.Unknown != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		diff(t, 45, len(testkit.Collect(t, b.Range(t.Context(), "large", time.Time{}, time.Time{}))))
		mustCheck(t, b)
	}
}

// A bucket filled beyond its size within a transaction has the transaction run again
// and go on in the next one.
func TestLargeInTransaction(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)})
	must(t, second(coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "pad", Value: strings.Repeat("x", 16<<20-600)}}}})))
	large := event{Timestamp: at(1, 1, 0), Note: strings.Repeat("x", 1000)}
	for name, call := range map[string]func(ctx context.Context, b *bucket.Buckets[string, event]) error{
		"append": func(ctx context.Context, b *bucket.Buckets[string, event]) error {
			return second(b.Append(ctx, "s", large))
		},
		"many": func(ctx context.Context, b *bucket.Buckets[string, event]) error {
			return second(b.AppendMany(ctx, timeseries.Of("s", large), nil))
		},
	} {
		runs := 0
		fresh := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
		err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			runs++
			return call(ctx, fresh)
		})
		if err != nil || runs > 2 {
			t.Errorf("%s: %v after %d runs", name, err, runs)
		}
	}
	diff(t, 2, testkit.Count(t, coll, bson.D{}))
}
