package registry

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func init() {
	add(Pattern{Package: "bucket", Writes: bucketRows, Reads: bucketReads(), Writings: bucketWritings, Steps: bucketSteps, Role: bucketRole})
}

type sensors = bucket.Buckets[string, reading]

func newSensors(s *Scene, coll string, withID bool) *sensors {
	opts := &bucket.Options{MaxCount: 3, Values: []timeseries.Value{{Field: "temperature", Sum: "sum"}}}
	if withID {
		opts.IDField = "id"
	}
	b := testkit.Must(bucket.New[string, reading](s.Coll(coll), timeseries.Every(time.Hour), opts))
	s.OK(b.EnsureIndexes(s.Context()))
	return b
}

// hour are measurements 0 to n-1 in buckets of three.
func hour(s *Scene, n int, withID bool) *sensors {
	b := newSensors(s, "buckets", withID)
	for id := range n {
		s.OK(testkit.ErrorOf(b.Append(s.Context(), "A", measured(id))))
	}
	return b
}

func sensor(n int, withID, look bool, do func(ctx context.Context, b *sensors) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		b := hour(s, n, withID)
		return Call{One: func(ctx context.Context) error { return do(ctx, b) }, Look: look, Repeated: repeated, Check: []mongopatterns.Checker{b}}
	}
}

var bucketRows = []Row{
	{"bucket.Buckets.Append", sensor(2, true, false, func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.Append/first", sensor(0, true, false, func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.Append/full", sensor(3, true, false, func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Append(ctx, "A", measured(3))) })},
	{"bucket.Buckets.Append/without IDs", sensor(2, false, true, func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Append(ctx, "A", measured(2))) })},
	{"bucket.Buckets.AppendMany", func(s *Scene) Call {
		b := hour(s, 2, true)
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.AppendMany(ctx, eachSeries(10, 11, 12, 13), &mongopatterns.Work{BatchSize: 2})
		}, Counts: "buckets", Check: []mongopatterns.Checker{b}}
	}},
	{"bucket.Buckets.Replace", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.Replace(ctx, "A", reading{1, at(1), 99}) })},
	{"bucket.Buckets.Delete", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.Delete(ctx, "A", at(4)) }, mongopatterns.ErrNotFound)},
	{"bucket.Buckets.DeleteByID", sensor(5, true, false, func(ctx context.Context, b *sensors) error { return b.DeleteByID(ctx, "A", at(1), 1) }, mongopatterns.ErrNotFound)},
	{"bucket.Buckets.Repair", func(s *Scene) Call {
		b := hour(s, 7, true)
		s.OK(testkit.ErrorOf(s.Coll("buckets").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("sum", -1)))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return b.Repair(ctx, small) }, Counts: "buckets", Check: []mongopatterns.Checker{b}}
	}},
	{"bucket.Buckets.Archive", func(s *Scene) Call {
		b := hour(s, 7, true)
		archive := newSensors(s, "archive", false)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Archive(ctx, nine.Add(time.Hour), s.Coll("archive"), small)
		}, Counts: "buckets", Check: []mongopatterns.Checker{b, archive}}
	}},
	{"bucket.Buckets.Adopt", func(s *Scene) Call {
		b := newSensors(s, "buckets", false)
		measurements(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return b.Adopt(ctx, s.Coll("plain"), nil, &mongopatterns.Work{BatchSize: 2})
		}, Aside: []string{"buckets.adopt"}, Check: []mongopatterns.Checker{b}}
	}},
}

func bucketReads() (out []Row) {
	out = append(out, reads("bucket.Buckets", "", func(s *Scene) *sensors { return hour(s, 7, true) }, map[string]func(context.Context, *sensors) error{
		"Range":        func(ctx context.Context, b *sensors) error { return testkit.Drain(b.Range(ctx, "A", from, to)) },
		"Latest":       func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Latest(ctx, "A")) },
		"Bucket":       func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Bucket(ctx, "A", nine, 0)) },
		"CountBuckets": func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.CountBuckets(ctx, "A", nine)) },
		"Aggregate":    func(ctx context.Context, b *sensors) error { return testkit.ErrorOf(b.Aggregate(ctx, "A", from, to)) },
		"AggregateWindows": func(ctx context.Context, b *sensors) error {
			return testkit.Drain(b.AggregateWindows(ctx, "A", from, to))
		},
		"Check": func(ctx context.Context, b *sensors) error { return checked(b)(ctx) },
	})...)
	out = append(out, Row{"bucket.Buckets.Compare", func(s *Scene) Call {
		measurements(s)
		b := newSensors(s, "buckets", false)
		s.OK(testkit.ErrorOf(b.Adopt(s.Context(), s.Coll("plain"), nil, nil)))
		return Call{Shards: sharders(b, Keyed{s.Coll("plain"), testkit.D("_id", 1)}), One: func(ctx context.Context) error {
			return testkit.Drain(b.Compare(ctx, s.Coll("plain"), nil, nil))
		}}
	}})
	return out
}

func bucketWritings(s *Scene) []Writing {
	ctx := s.Context()
	b := testkit.Must(bucket.New[string, reading](s.Coll("buckets"), timeseries.Every(time.Hour), &bucket.Options{MaxCount: 9, IDField: "id"}))
	return []Writing{{"bucket.Append", sharders(b), func(ctx context.Context, e, n int) error {
		return testkit.ErrorOf(b.Append(ctx, letter(e), reading{n, moment(n), n}))
	}, func(t *testing.T, e int) []int { return collected(t, b.Range(ctx, letter(e), from, to), number) }}}
}

func bucketSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	b := testkit.Must(bucket.New[string, reading](db.Collection("buckets"), timeseries.Every(time.Hour), &bucket.Options{
		IDField: "id", MaxCount: 7, Values: []timeseries.Value{{Field: "temperature", Sum: "sum"}},
	}))
	testkit.OK(t, b.EnsureIndexes(t.Context()))
	step := func(ctx context.Context, n int) error { return testkit.ErrorOf(b.Append(ctx, "A", measured(n))) }
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, b)
		inOrder(t, collected(t, b.Range(t.Context(), "A", time.Time{}, time.Time{}), number), n)
	}
}

var bucketRole = &Role{Open: bucketPlayer, Writes: []string{"series_%", "start_%", "measurements_%", "n_%", "sum_%"}, Rules: []Rule{apartFrom("bucket", "prealloc", "series")}}

func bucketPlayer(s *Side) (*Player, error) {
	b, err := bucket.New[string, reading](s.Main, timeseries.Every(time.Hour), &bucket.Options{SeriesField: s.name("series"), StartField: s.name("start"),
		ArrayField: s.name("measurements"), CountField: s.name("n"), Values: []timeseries.Value{{Field: "id", Sum: s.name("sum")}}})
	put := func(ctx context.Context, n int) error {
		return testkit.ErrorOf(b.Append(ctx, "A", reading{n, hourly(n), n}))
	}
	return opened(readings(s, put, b.Range), b, err)
}
