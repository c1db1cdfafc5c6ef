package calls_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A context that ends when everything is answered makes no error: whoever got one would store the measurement again.
func TestContextEndsWithTheAnswer(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	measurement := testkit.D("id", 1, "timestamp", at, "time", at, "v", 1)
	for name, test := range map[string]struct {
		last string // the command whose answer is the last one
		open func(coll *mongo.Collection) (call func(ctx context.Context) error)
	}{
		"series": {"update", func(coll *mongo.Collection) func(ctx context.Context) error {
			s := testkit.Must(series.New[string, bson.D](coll, timeseries.Days(nil), &series.Options{TimeField: "time"}))
			return func(ctx context.Context) error { return s.Append(ctx, "s", measurement) }
		}},
		"bucket": {"update", func(coll *mongo.Collection) func(ctx context.Context) error {
			b := testkit.Must(bucket.New[string, bson.D](coll, timeseries.Days(nil), &bucket.Options{TimeField: "time"}))
			return func(ctx context.Context) error { return testkit.ErrorOf(b.Append(ctx, "s", measurement)) }
		}},
		"bucket, stored before": {"find", func(coll *mongo.Collection) func(ctx context.Context) error {
			b := testkit.Must(bucket.New[string, bson.D](coll, timeseries.Days(nil), &bucket.Options{TimeField: "time", IDField: "id"}))
			testkit.Gives(t, true)(b.Append(t.Context(), "s", measurement))
			return func(ctx context.Context) error { return testkit.ErrorOf(b.Append(ctx, "s", measurement)) }
		}},
		"slots": {"update", func(coll *mongo.Collection) func(ctx context.Context) error {
			s := testkit.Must(slots.New[string, int](coll, timeseries.Days(nil), nil))
			return func(ctx context.Context) error { return s.Set(ctx, "s", at, 1) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			called := false
			db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
				Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
					if called && e.CommandName == test.last {
						cancel()
					}
				},
			}))
			call := test.open(db.Collection("c"))
			called = true
			if err := call(ctx); err != nil || ctx.Err() == nil {
				t.Errorf("%v; the context: %v", err, ctx.Err())
			}
		})
	}
}
