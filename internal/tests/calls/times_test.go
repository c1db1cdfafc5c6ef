package calls_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// measure is a flat measurement, which series packs without BSON.
type measure struct {
	ID        int `bson:"id"`
	Timestamp time.Time
	V         float64
}

// pointed is a measurement with its time behind a pointer.
type pointed struct {
	ID        int `bson:"id"`
	Timestamp *time.Time
}

func bucketsOf[M any](c *mongo.Collection) *bucket.Buckets[int, M] {
	return testkit.Must(bucket.New[int, M](c, hourly, &bucket.Options{IDField: "id"}))
}

func seriesOf[M any](c *mongo.Collection) *series.Series[int, M] {
	return testkit.Must(series.New[int, M](c, hourly, nil))
}

func slotsOf(c *mongo.Collection) *slots.Slots[int, int] {
	return testkit.Must(slots.New[int, int](c, timeseries.Every(24*time.Hour), nil))
}

// timed are the calls that take a time, of a measurement or of a place.
var timed = map[string]func(ctx context.Context, c, d *mongo.Collection, t time.Time) error{
	"bucket.Append": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[measure](c).Append(ctx, 1, measure{1, t, 1}))
	},
	"bucket.Append, bson.D": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[bson.D](c).Append(ctx, 1, testkit.D("id", 1, "timestamp", t)))
	},
	"bucket.Append, pointer": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[*pointed](c).Append(ctx, 1, &pointed{1, &t}))
	},
	"bucket.Append, path": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		b := testkit.Must(bucket.New[int, bson.M](c, hourly, &bucket.Options{TimeField: "m.timestamp"}))
		return testkit.ErrorOf(b.Append(ctx, 1, bson.M{"m": measure{1, t, 1}, "id": 1}))
	},
	"bucket.AppendMany": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[measure](c).AppendMany(ctx, timeseries.Of(1, measure{1, t, 1}), nil))
	},
	"bucket.Replace": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return bucketsOf[measure](c).Replace(ctx, 1, measure{1, t, 1})
	},
	"bucket.Delete": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return bucketsOf[measure](c).Delete(ctx, 1, t)
	},
	"bucket.DeleteByID": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return bucketsOf[measure](c).DeleteByID(ctx, 1, t, 1)
	},
	"bucket.Bucket": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[measure](c).Bucket(ctx, 1, t, 0))
	},
	"bucket.CountBuckets": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[measure](c).CountBuckets(ctx, 1, t))
	},
	"bucket.Archive": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(bucketsOf[measure](c).Archive(ctx, t, d, nil))
	},
	"series.Append": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return seriesOf[measure](c).Append(ctx, 1, measure{1, t, 1})
	},
	"series.Append, bson.D": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return seriesOf[bson.D](c).Append(ctx, 1, testkit.D("timestamp", t))
	},
	"series.Append, pointer": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return seriesOf[*pointed](c).Append(ctx, 1, &pointed{1, &t})
	},
	"series.AppendMany": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(seriesOf[measure](c).AppendMany(ctx, timeseries.Of(1, measure{1, t, 1}), nil))
	},
	"series.Gatherer.Append": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.Must(series.NewGatherer(seriesOf[measure](c), nil)).Append(ctx, 1, measure{1, t, 1})
	},
	"series.Replace": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return seriesOf[measure](c).Replace(ctx, 1, measure{1, t, 1})
	},
	"series.Delete": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return seriesOf[measure](c).Delete(ctx, 1, t)
	},
	"series.Archive": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(seriesOf[measure](c).Archive(ctx, t, d, nil))
	},
	"slots.Set": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return slotsOf(c).Set(ctx, 1, t, 1)
	},
	"slots.SetMany": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(slotsOf(c).SetMany(ctx, timeseries.Of(1, slots.Slot[int]{Time: t, Value: 1}), nil))
	},
	"slots.Get": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(slotsOf(c).Get(ctx, 1, t))
	},
	"slots.Delete": func(ctx context.Context, c, _ *mongo.Collection, t time.Time) error {
		return slotsOf(c).Delete(ctx, 1, t)
	},
	"slots.Archive": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(slotsOf(c).Archive(ctx, t, d, nil))
	},
	"versioning.Insert": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(testkit.Must(versioning.New[int, bson.D](c, d, nil)).Insert(ctx, testkit.D("_id", 1), versioning.Change{At: t}))
	},
	"versioning.AsOf": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(testkit.Must(versioning.New[int, bson.D](c, d, nil)).AsOf(ctx, 1, t))
	},
	"versioning.Prune": func(ctx context.Context, c, d *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(testkit.Must(versioning.New[int, bson.D](c, d, nil)).Prune(ctx, versioning.Retention{Before: t}, nil))
	},
	"prealloc.DayCells": func(_ context.Context, _, _ *mongo.Collection, t time.Time) error {
		return testkit.ErrorOf(prealloc.DayCells(t, t, nil))
	},
}

// Go's times reach further than milliseconds in 64 bits: those of 2^61 seconds before and after 1970 are 0, as 1970
// is. A call refuses them before it computes anything from them.
func TestTimesBeyondMilliseconds(t *testing.T) {
	for name, call := range timed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			for _, at := range []time.Time{time.Unix(1<<61, 0), time.Unix(-1<<61, 0)} {
				var err error
				sent := mongotest.Record(t, db, func() { err = call(t.Context(), db.Collection("c"), db.Collection("d"), at) })
				if !errors.Is(err, mongopatterns.ErrInvalid) || len(sent) > 0 {
					t.Errorf("%v: %v, sent %v", at.Unix(), err, sent.Names())
				}
			}
		})
	}
}

// The same times limit a range as the largest and the least time do, also where a window around them has no bounds.
func TestRangesBeyondMilliseconds(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	m := measure{1, moment, 1}
	b, s, g := bucketsOf[measure](db.Collection("buckets")), seriesOf[measure](db.Collection("series")), slotsOf(db.Collection("slots"))
	testkit.OK(t, testkit.ErrorOf(b.Append(ctx, 1, m)))
	testkit.OK(t, s.Append(ctx, 1, m))
	testkit.OK(t, g.Set(ctx, 1, moment, 1))
	testkit.Insert(t, db.Collection("live"), testkit.D("_id", 1, "at", moment))
	old := testkit.Must(archive.New(db.Collection("live"), db.Collection("old"), &archive.Options{TimeField: "at"}))
	never, always := time.Unix(-1<<61, 0), time.Unix(1<<61, 0)
	for _, r := range []struct {
		from, to time.Time
		n        int
	}{
		{never, always, 1}, {time.UnixMilli(math.MinInt64 + 5), time.UnixMilli(math.MaxInt64 - 5), 1}, {always, time.Time{}, 0}, {time.Time{}, never, 0},
		{time.UnixMilli(math.MaxInt64 - 5), time.Time{}, 0}, {time.Time{}, time.UnixMilli(math.MinInt64 + 5), 0},
	} {
		sums, packed := testkit.Value[timeseries.Stats](t)(b.Aggregate(ctx, 1, r.from, r.to)), testkit.Value[timeseries.Stats](t)(s.Aggregate(ctx, 1, r.from, r.to))
		got := map[string]int{
			"bucket.Range": len(testkit.Collect(t, b.Range(ctx, 1, r.from, r.to))), "bucket.Filter": testkit.Count(t, db.Collection("buckets"), b.Filter(1, r.from, r.to)),
			"bucket.Aggregate": int(sums.Count), "bucket.AggregateWindows": len(testkit.Collect(t, b.AggregateWindows(ctx, 1, r.from, r.to))),
			"series.Range": len(testkit.Collect(t, s.Range(ctx, 1, r.from, r.to))), "series.Filter": testkit.Count(t, db.Collection("series"), s.Filter(1, r.from, r.to)),
			"series.Aggregate": int(packed.Count), "series.AggregateBy": len(testkit.Collect(t, s.AggregateBy(ctx, 1, r.from, r.to, timeseries.Days(nil)))),
			"slots.Range": len(testkit.Collect(t, g.Range(ctx, 1, r.from, r.to))), "slots.Filter": testkit.Count(t, db.Collection("slots"), g.Filter(1, r.from, r.to)),
		}
		if !r.to.IsZero() {
			got["archive.BeforeFilter"] = testkit.Count(t, db.Collection("live"), old.BeforeFilter(r.to))
		}
		for call, n := range got {
			if n != r.n {
				t.Errorf("%s from %d to %d: %d, want %d", call, r.from.Unix(), r.to.Unix(), n, r.n)
			}
		}
	}
}
