package bucket_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Whatever call writes numbers, of whatever types and sizes together, Check computes the same, and so does Compare.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*bucket.Options{
		"sum":     {Values: []timeseries.Value{{Field: "v", Sum: "sum", Min: "min", Max: "max", First: "first", Last: "last", Count: "n"}}},
		"one":     {MaxCount: 1, Values: []timeseries.Value{{Field: "v", Sum: "sum", Count: "n"}}},
		"squares": {Values: []timeseries.Value{{Field: "v"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			in := func(coll string) testkit.Measurements {
				return measurements(newBuckets[string, bson.D](t, db.Collection(coll), timeseries.Every(time.Hour), o))
			}
			testkit.EveryNumber(t, db.Collection("src"), in("c"), in("adopted"))
		})
	}
}

func measurements(b *bucket.Buckets[string, bson.D]) testkit.Measurements {
	return testkit.Measurements{
		Append:     func(ctx context.Context, series string, m bson.D) error { return second(b.Append(ctx, series, m)) },
		AppendMany: b.AppendMany, Replace: b.Replace, Delete: b.Delete, Checker: b,
		Adopt: func(ctx context.Context, src *mongo.Collection) error { return second(b.Adopt(ctx, src, nil, nil)) },
		Compare: func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error] {
			return b.Compare(ctx, src, nil, nil)
		},
	}
}
